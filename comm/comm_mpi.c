/* comm_mpi.c: connects ranks through MPI (3.1: Open MPI, MPICH). An exchange consists of messages
 * between two ranks, of at most 1 GiB each, because MPI counts in ints. Messages between two ranks
 * arrive in the order of sending, which is the order of calls.
 *
 * Several threads may call. One at a time may be inside MPI, and none waits there.
 *
 * MPI returns failures instead of ending the process; the caller ends the job. The communicator is
 * a copy, so that other libraries that use MPI do not interfere. */
#include "comm/comm.h"

#include "data/base/machine.h"

#include <mpi.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#define MESSAGE_MOST ((size_t)1 << 30)

/* Where a rank runs: its host's name, and boot, a number that each start of a kernel draws, since
 * several hosts may have one name. heard: the number of its latest message, counted over all ranks'
 * messages. */
struct place { char host[72], boot[40]; long pid; uint64_t heard; };

struct mpi_comm {
    struct comm   comm;
    MPI_Comm      world;
    struct place *place; // (size)
    uint64_t      messages; // number of messages received
    pthread_mutex_t mutex; // for all calls of MPI from here on
};

struct message { MPI_Request request; size_t peer; int sends; };
struct messages { size_t n, done; struct message m[]; };

/* Reports a failure of MPI. The mutex is not held. */
static int failed(struct mpi_comm *m, int code, const char *what, struct err *err)
{
    char text[MPI_MAX_ERROR_STRING];
    int  n = 0;

    pthread_mutex_lock(&m->mutex);
    MPI_Error_string(code, text, &n);
    pthread_mutex_unlock(&m->mutex);
    return err_set(err, -EIO, "MPI: %s: %.*s", what, n, text);
}

/* ---- exchanges ---- */

static size_t messages_of(size_t bytes) { return (bytes + MESSAGE_MOST - 1) / MESSAGE_MOST; }

static size_t message_bytes(size_t bytes, size_t i)
{
    size_t left = bytes - i * MESSAGE_MOST;

    return left < MESSAGE_MOST ? left : MESSAGE_MOST;
}

/* Begins all messages to or from one peer. Receives begin before sends, so that arriving data have
 * a place. */
static int begin(struct mpi_comm *m, struct messages *out, enum comm_channel tag,
                 const struct comm_peer *peer, size_t p, int sends)
{
    size_t bytes = sends ? peer->send_bytes : peer->recv_bytes;
    int    rc = MPI_SUCCESS;

    for (size_t i = 0; i < messages_of(bytes) && rc == MPI_SUCCESS; i++) {
        struct message *one = &out->m[out->n++];
        int             count = (int)message_bytes(bytes, i);

        *one = (struct message){ MPI_REQUEST_NULL, p, sends };
        rc = sends ? MPI_Isend((const char *)peer->send + i * MESSAGE_MOST, count, MPI_BYTE, (int)p,
                               (int)tag, m->world, &one->request)
                   : MPI_Irecv((char *)peer->recv + i * MESSAGE_MOST, count, MPI_BYTE, (int)p,
                               (int)tag, m->world, &one->request);
    }
    return rc;
}

static int mpi_exchange(struct comm *c, enum comm_channel channel, const struct comm_peer *peers,
                        struct comm_request *r, struct err *err)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    size_t           n = 0;
    int              rc = MPI_SUCCESS;

    for (size_t p = 0; p < c->size; p++)
        n += p == c->rank ? 0 : messages_of(peers[p].send_bytes) + messages_of(peers[p].recv_bytes);
    struct messages *out = malloc(sizeof *out + n * sizeof *out->m);
    if (!out)
        return err_set(err, -ENOMEM, "out of memory");
    *out = (struct messages){ 0 };
    pthread_mutex_lock(&m->mutex);
    for (int sends = 0; sends <= 1; sends++)
        for (size_t k = 1; k < c->size && rc == MPI_SUCCESS; k++) {
            // each rank begins with the next one, so not all send to rank 0 first
            size_t p = (sends ? c->rank + k : c->rank + c->size - k) % c->size;

            rc = begin(m, out, channel, &peers[p], p, sends);
        }
    pthread_mutex_unlock(&m->mutex);
    r->own = out;
    return rc ? failed(m, rc, "an exchange with other ranks", err) : 0;
}

/* Tests one message. Among the ranks of unfinished messages, *waits_for is the one that was not
 * heard from for longest: others may be waiting for it, too. */
static int message_test(struct mpi_comm *m, struct messages *all, size_t i, size_t *waits_for)
{
    struct message *one = &all->m[i];
    int             done = 0, rc;

    if (one->request == MPI_REQUEST_NULL)
        return MPI_SUCCESS;
    rc = MPI_Test(&one->request, &done, MPI_STATUS_IGNORE);
    all->done += (size_t)done;
    if (done && !one->sends && m->place)
        m->place[one->peer].heard = ++m->messages;
    if (!done && (*waits_for == m->comm.rank ||
                  (m->place && m->place[one->peer].heard < m->place[*waits_for].heard)))
        *waits_for = one->peer;
    return rc;
}

static int mpi_test(struct comm *c, struct comm_request *r, size_t *waits_for, struct err *err)
{
    struct messages *all = r->own;
    struct mpi_comm *m = (struct mpi_comm *)c;
    int              rc = MPI_SUCCESS;

    *waits_for = c->rank;
    pthread_mutex_lock(&m->mutex);
    for (size_t i = 0; all && i < all->n && rc == MPI_SUCCESS; i++)
        rc = message_test(m, all, i, waits_for);
    pthread_mutex_unlock(&m->mutex);
    if (rc)
        return failed(m, rc, "an exchange with other ranks", err);
    if (all && all->done < all->n)
        return 0;
    free(all);
    r->own = NULL;
    return 1;
}

/* Gives a request up. A receive can be cancelled before it has begun, a send cannot. */
static int mpi_give_up(struct comm *c, struct comm_request *r)
{
    struct messages *all = r->own;
    struct mpi_comm *m = (struct mpi_comm *)c;
    size_t           left = 0;

    pthread_mutex_lock(&m->mutex);
    for (size_t i = 0; i < all->n; i++) {
        struct message *one = &all->m[i];
        int             done = one->request == MPI_REQUEST_NULL;

        if (!done && !one->sends)
            MPI_Cancel(&one->request);
        if (!done)
            MPI_Test(&one->request, &done, MPI_STATUS_IGNORE);
        left += !done;
    }
    pthread_mutex_unlock(&m->mutex);
    if (left)
        return 0;
    free(all);
    *r = (struct comm_request){ 0 };
    return 1;
}

/* ---- the job ---- */

static void mpi_who(const struct comm *c, size_t rank, char *out, size_t n)
{
    const struct place *p = &((const struct mpi_comm *)c)->place[rank];

    snprintf(out, n, "process %ld on %s", p->pid, p->host);
}

static int mpi_near(const struct comm *c, size_t a, size_t b)
{
    const struct place *place = ((const struct mpi_comm *)c)->place;

    return !strcmp(place[a].host, place[b].host) && !strcmp(place[a].boot, place[b].boot);
}

/* Other threads may be active, but none is inside MPI for long. */
static void mpi_abort(struct comm *c, int code)
{
    struct mpi_comm *m = (struct mpi_comm *)c;

    pthread_mutex_lock(&m->mutex);
    MPI_Abort(m->world, code);
    pthread_mutex_unlock(&m->mutex);
}

/* All other threads have ended. */
static void mpi_close(struct comm *c)
{
    struct mpi_comm *m = (struct mpi_comm *)c;

    MPI_Comm_free(&m->world);
    MPI_Finalize();
    pthread_mutex_destroy(&m->mutex);
    free(m->place);
    free(m);
}

static const struct comm_ops mpi_ops = {
    .exchange = mpi_exchange, .test = mpi_test,
    .give_up = mpi_give_up, .who = mpi_who, .near = mpi_near, .abort = mpi_abort,
    .close = mpi_close,
};

static int places_share(struct mpi_comm *m, struct err *err)
{
    struct place mine = { .pid = (long)getpid() };

    m->place = calloc(m->comm.size, sizeof *m->place);
    if (!m->place)
        return err_set(err, -ENOMEM, "out of memory");
    machine_host(mine.host, sizeof mine.host);
    machine_field(mine.boot, sizeof mine.boot, "/proc/sys/kernel/random/boot_id", "");
    return comm_share(&m->comm, &mine, sizeof mine, m->place, err);
}

/* Refuses a limit at which MPI_Init_thread fails, because that ends the process: Open MPI's by a
 * signal where it can open no pipe. */
static int files_check(struct err *err)
{
    enum { LEAST = 32 };
    struct rlimit files;

    return getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= LEAST ? 0
           : err_misuse(err, "ulimit -n lets a process open %llu files, and MPI, which connects "
                        "ranks, needs %d: raise it (ulimit -n 1024)",
                        (unsigned long long)files.rlim_cur, LEAST);
}

int comm_mpi_open(struct comm **out, struct err *err)
{
    struct mpi_comm *m = NULL;
    int              has = 0, rank, size, rc = files_check(err);

    *out = NULL;
    if (rc)
        return rc;
    m = calloc(1, sizeof *m);
    if (!m)
        return err_set(err, -ENOMEM, "out of memory");
    m->comm.ops = &mpi_ops;
    pthread_mutex_init(&m->mutex, NULL);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &has); // a failure of this ends the process
    rc = MPI_Comm_dup(MPI_COMM_WORLD, &m->world);
    rc = rc ? rc : MPI_Comm_set_errhandler(m->world, MPI_ERRORS_RETURN);
    rc = rc ? rc : MPI_Comm_rank(m->world, &rank);
    rc = rc ? rc : MPI_Comm_size(m->world, &size);
    if (rc || has < MPI_THREAD_SERIALIZED) {
        rc = rc ? failed(m, rc, "the ranks cannot be counted", err)
                : err_set(err, -ENOTSUP, "this MPI serves one thread alone "
                          "(MPI_THREAD_SERIALIZED is expected)");
        free(m);
        return rc;
    }
    m->comm.rank = (size_t)rank;
    m->comm.size = (size_t)size;
    *out = &m->comm;
    rc = places_share(m, err);
    if (rc) {
        mpi_close(&m->comm);
        *out = NULL;
    }
    return rc;
}
