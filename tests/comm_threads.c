/* comm_threads.c: see comm_threads.h. A message stands in the row of those from its rank to the
 * other on its channel; the one that is to take it is the next one of these that is looked for. */
#include "tests/comm_threads.h"

#include "data/base/crc32c.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* On its way from its sender; or waited for by its receiver, which knows how long it is. */
struct message {
    struct message *next; // of the request
    const void     *from;
    void           *to;
    size_t          bytes, rank, peer, number; // number: of those between the two, on the channel
    enum comm_channel channel;
    uint32_t        sum;
    int             sends, taken;
};

struct rank { struct comm comm; struct comm_threads *all; size_t *sent, *expected; };

struct comm_threads {
    pthread_mutex_t  mutex;
    size_t           size, n, room;
    struct message **out; // (n) sent and not taken
    struct rank     *rank;
    int              aborted;
};

static struct rank *of(struct comm *c) { return (struct rank *)c; }

static int over(const struct comm_threads *t, struct err *err)
{
    return t->aborted ? err_set(err, -ECONNABORTED, "another rank has ended the job") : 0;
}

static struct message *message(struct rank *r, struct comm_request *q, size_t peer,
                               enum comm_channel channel, size_t bytes, int sends)
{
    struct message *m = calloc(1, sizeof *m);
    size_t         *count = sends ? r->sent : r->expected;

    assert(m);
    *m = (struct message){ .next = q->own, .bytes = bytes, .rank = r->comm.rank, .peer = peer,
                           .number = count[peer * COMM_CHANNELS + channel]++, .channel = channel,
                           .sends = sends };
    q->own = m;
    return m;
}

static void send(struct comm_threads *t, struct message *m, const void *from)
{
    m->from = from;
    m->sum = crc32c(0, from, m->bytes);
    if (t->n == t->room) {
        t->room = 2 * t->room + 16;
        t->out = realloc(t->out, t->room * sizeof(struct message *));
        assert(t->out);
    }
    t->out[t->n++] = m;
}

static int threads_exchange(struct comm *c, enum comm_channel channel,
                            const struct comm_peer *peers, struct comm_request *q, struct err *err)
{
    struct comm_threads *t = of(c)->all;

    pthread_mutex_lock(&t->mutex);
    int rc = over(t, err);
    for (size_t p = 0; p < c->size && !rc; p++) {
        if (p == c->rank)
            continue;
        if (peers[p].send_bytes)
            send(t, message(of(c), q, p, channel, peers[p].send_bytes, 1), peers[p].send);
        if (peers[p].recv_bytes)
            message(of(c), q, p, channel, peers[p].recv_bytes, 0)->to = peers[p].recv;
    }
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

/* Take what has come. */
static void take(struct comm_threads *t, struct message *to)
{
    for (size_t i = 0; i < t->n && !to->taken; i++) {
        struct message *m = t->out[i];

        if (m->rank != to->peer || m->peer != to->rank || m->channel != to->channel ||
            m->number != to->number)
            continue;
        assert(m->bytes == to->bytes);
        assert(crc32c(0, m->from, m->bytes) == m->sum); // nobody wrote there
        memcpy(to->to, m->from, m->bytes);
        m->taken = to->taken = 1;
        t->out[i] = t->out[--t->n];
    }
}

static int threads_test(struct comm *c, struct comm_request *q, size_t *waits_for, struct err *err)
{
    struct comm_threads *t = of(c)->all;
    struct message      *next, *left = NULL;

    pthread_mutex_lock(&t->mutex);
    int rc = q->own ? over(t, err) : 0;
    for (struct message *m = q->own; m && !rc; m = next) {
        next = m->next;
        if (!m->sends)
            take(t, m);
        if (m->taken) {
            free(m);
            continue;
        }
        *waits_for = m->peer;
        m->next = left;
        left = m;
    }
    if (!rc)
        q->own = left;
    pthread_mutex_unlock(&t->mutex);
    return rc ? rc : !left;
}

static int threads_give_up(struct comm *c, struct comm_request *q)
{
    struct comm_threads *t = of(c)->all;
    struct message      *next;

    pthread_mutex_lock(&t->mutex);
    for (struct message *m = q->own; m; m = next) {
        next = m->next;
        for (size_t i = 0; i < t->n; i++)
            if (t->out[i] == m)
                t->out[i--] = t->out[--t->n];
        free(m);
    }
    pthread_mutex_unlock(&t->mutex);
    *q = (struct comm_request){ 0 };
    return 1;
}

static void threads_who(const struct comm *c, size_t rank, char *out, size_t n)
{
    (void)c;
    snprintf(out, n, "thread %zu", rank);
}

static void threads_abort(struct comm *c, int code)
{
    struct comm_threads *t = of(c)->all;

    pthread_mutex_lock(&t->mutex);
    t->aborted = code;
    pthread_mutex_unlock(&t->mutex);
}

static void threads_close(struct comm *c) { (void)c; }

static const struct comm_ops threads_ops = {
    .exchange = threads_exchange, .test = threads_test,
    .give_up = threads_give_up, .who = threads_who, .abort = threads_abort,
    .close = threads_close,
};

struct comm_threads *comm_threads_new(size_t ranks)
{
    struct comm_threads *t = calloc(1, sizeof *t);

    assert(t);
    *t = (struct comm_threads){ .size = ranks, .rank = calloc(ranks, sizeof *t->rank) };
    assert(t->rank);
    pthread_mutex_init(&t->mutex, NULL);
    for (size_t i = 0; i < ranks; i++) {
        size_t *counts = calloc(2 * ranks * COMM_CHANNELS, sizeof *counts);

        assert(counts);
        t->rank[i] = (struct rank){ { .ops = &threads_ops, .rank = i, .size = ranks }, t, counts,
                                    counts + ranks * COMM_CHANNELS };
    }
    return t;
}

size_t comm_threads_free(struct comm_threads *t)
{
    size_t left = t->n;

    for (size_t i = 0; i < t->size; i++)
        free(t->rank[i].sent);
    pthread_mutex_destroy(&t->mutex);
    free(t->rank);
    free(t->out);
    free(t);
    return left;
}

struct comm *comm_threads_rank(struct comm_threads *t, size_t rank) { return &t->rank[rank].comm; }
