/* base_reader.c: shares the parts of requests among threads. One mutex guards all that is not
 * constant. A thread holds it while it cuts a part and while it hands the part back, never while it
 * reads. */
#include "offload/stream/base_reader.h"

#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/list.h"
#include "data/base/round.h"

#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4, // each has one read of BASE_READ bytes under way
       SILENCE_SLICES = 8 };

/* A thread, and the part of q that it reads. q NULL: none. */
struct reading {
    struct base_reader  *r;
    pthread_t            id;
    void                *buffer;
    struct base_request *q;
    struct base_part     part;
    uint64_t             since_ns;
};

struct base_reader {
    const struct base_files *files;
    enum dtype      dt;
    struct bell    *bell;
    int            *direct; // (files->n) descriptors; NULL: the page cache is used
    struct arena    arena;  // buffers of the threads
    struct reading  thread[THREADS];
    size_t          n_threads;
    pthread_mutex_t mutex;
    pthread_cond_t  work;
    struct list     waiting, done; // waiting: with parts to cut, in order
    int             stop;
    // silence of the files, as worker_io.c has it for devices
    uint64_t        timeout_ns, silent_ns, listened_ns;
    unsigned        under_way; // parts
    int             moved;     // a part came back since listened_ns
    int             lost;      // reads were given up: nothing of their requests is touched any more
};

/* ---- threads */

/* Hands a part back. A failure ends the request as soon as no other part of it is under way. */
static void part_over(struct base_reader *r, struct base_request *q, size_t n, int rc,
                      const struct err *why)
{
    q->parts--;
    q->landed += n;
    if (rc && !q->status) {
        q->status = rc;
        q->why = *why;
    }
    if (q->parts || (!q->status && q->landed < q->n))
        return;
    if (q->cut < q->n) { // it failed before all of it was cut
        list_remove(&r->waiting, q);
        pthread_cond_broadcast(&r->work); // others were behind it
    }
    q->end_ns = clock_ns();
    list_push(&r->done, q);
    bell_ring(r->bell);
}

/* Cuts the next part off the first request. Returns 0 if none waits. The part's size is that of one
 * read, which the files decide, so that it is known before the read. */
static int part_cut(struct base_reader *r, struct reading *t)
{
    struct base_request *q = r->waiting.first;
    struct base_part    *p = &t->part;

    if (!q || q->status)
        return 0;
    struct base_piece at = r->files->piece(r->files->ctx, q->block, q->first + q->cut);

    p->block = q->block;
    p->first = q->first + q->cut;
    p->n = size_min(size_min(at.n, q->n - q->cut), BASE_READ / dtype_bytes(at.dt));
    p->to = dtype_at(q->to, r->dt, q->cut);
    q->cut += p->n;
    q->parts++;
    if (q->cut == q->n)
        list_pop(&r->waiting);
    t->q = q;
    t->since_ns = clock_ns();
    r->under_way++;
    return 1;
}

static void *thread_main(void *arg)
{
    struct reading     *t = arg;
    struct base_reader *r = t->r;

    t->part = (struct base_part){ .dt = r->dt, .direct = r->direct, .buffer = t->buffer };
    omp_set_num_threads(1); // more would disturb those that compute
    pthread_mutex_lock(&r->mutex);
    while (!r->stop && !r->lost) {
        if (!part_cut(r, t)) {
            pthread_cond_wait(&r->work, &r->mutex);
            continue;
        }
        struct link_meter meter = { 0 };
        struct err        why;
        size_t            n = 0;

        pthread_mutex_unlock(&r->mutex);
        int rc = base_files_part(r->files, &t->part, &n, &meter, &why);
        pthread_mutex_lock(&r->mutex);
        if (r->lost)
            break;
        link_meter_add(&t->q->meter, &meter);
        part_over(r, t->q, rc ? 0 : n, rc, &why);
        t->q = NULL;
        r->under_way--;
        r->moved = 1;
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

/* ---- silence */

/* Fails the request whose part is under way for longest, and leaves the threads to themselves. */
static void give_up(struct base_reader *r)
{
    const struct reading *t = NULL;

    for (size_t i = 0; i < THREADS; i++)
        if (r->thread[i].q && (!t || r->thread[i].since_ns < t->since_ns))
            t = &r->thread[i];
    struct base_request *q = t->q;
    struct base_piece    at = r->files->piece(r->files->ctx, q->block, t->part.first);

    q->status = err_set(&q->why, -ETIMEDOUT, "%s: read of %zu bytes at offset %" PRIu64
                        " has had no answer for %.3g s, nor has any of the %u reads in flight "
                        "(--io-timeout): they are given up (block %zu)",
                        r->files->file[at.file].path, t->part.n * dtype_bytes(at.dt), at.off,
                        (double)r->timeout_ns * 1e-9, r->under_way, q->block);
    if (q->cut < q->n)
        list_remove(&r->waiting, q);
    list_push(&r->done, q);
    r->lost = 1;
    if (r->files->lost)
        *r->files->lost = 1;
    pthread_cond_broadcast(&r->work);
}

static uint64_t slice_of(const struct base_reader *r) { return r->timeout_ns / SILENCE_SLICES + 1; }

/* Checks whether the last sign of life is too long ago. At most one slice of time counts at once,
 * so a process that was stopped breaks nothing. */
static void listen(struct base_reader *r)
{
    uint64_t now = clock_ns(), passed = now - r->listened_ns;

    r->silent_ns = !r->under_way || r->moved ? 0 : r->silent_ns + size_min(passed, slice_of(r));
    r->moved = 0;
    r->listened_ns = now;
    if (r->timeout_ns && !r->lost && r->silent_ns >= r->timeout_ns)
        give_up(r);
}

/* ---- the owner */

void base_reader_ask(struct base_reader *r, struct base_request *q)
{
    q->status = 0;
    q->cut = q->landed = q->parts = 0;
    q->meter = (struct link_meter){ 0 };
    q->start_ns = clock_ns();
    pthread_mutex_lock(&r->mutex);
    list_push(&r->waiting, q);
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->mutex);
}

struct base_request *base_reader_take(struct base_reader *r)
{
    pthread_mutex_lock(&r->mutex);
    listen(r);
    struct base_request *q = list_pop(&r->done);
    pthread_mutex_unlock(&r->mutex);
    return q;
}

uint64_t base_reader_rest_ns(const struct base_reader *r)
{
    return r->timeout_ns ? slice_of(r) : UINT64_MAX;
}

static void buffers_lay(struct base_reader *r, struct arena *a)
{
    for (size_t i = 0; i < THREADS; i++)
        r->thread[i] = (struct reading){ .r = r, .buffer = arena_take(a, BASE_BUFFER) };
}

/* Opens each file once more, for reads past the page cache. */
static int direct_open(struct base_reader *r, struct err *err)
{
    char self[64];

    r->direct = malloc(r->files->n * sizeof *r->direct);
    if (!r->direct)
        return err_set(err, -ENOMEM, "out of memory for the files of the base");
    for (size_t i = 0; i < r->files->n; i++) {
        snprintf(self, sizeof self, "/proc/self/fd/%d", r->files->file[i].fd);
        r->direct[i] = open(self, O_RDONLY | O_DIRECT | O_CLOEXEC); // -1: the page cache is used
    }
    return 0;
}

int base_reader_open(struct base_reader **out, const struct run_config *cfg, struct bell *bell,
                     struct err *err)
{
    struct base_reader *r = calloc(1, sizeof *r);

    *out = r;
    if (!r)
        return err_set(err, -ENOMEM, "out of memory for reading the base");
    r->files = cfg->base;
    r->dt = cfg->wire_dt;
    r->bell = bell;
    r->timeout_ns = cfg->io_timeout_ns;
    list_init(&r->waiting, offsetof(struct base_request, next));
    list_init(&r->done, offsetof(struct base_request, next));
    r->arena.align = ARENA_IO;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->work, NULL);
    buffers_lay(r, &r->arena);
    int rc = arena_map(&r->arena, "reads of the base", err);
    if (!rc)
        buffers_lay(r, &r->arena);
    if (!rc && !strcmp(cfg->disk, "uring"))
        rc = direct_open(r, err);
    for (; r->n_threads < THREADS && !rc; r->n_threads += rc == 0) {
        rc = -pthread_create(&r->thread[r->n_threads].id, NULL, thread_main,
                             &r->thread[r->n_threads]);
        if (rc)
            err_set(err, rc, "start a thread that reads the base: %s", strerror(-rc));
    }
    if (rc) {
        base_reader_close(r);
        *out = NULL;
    }
    return rc;
}

int base_reader_close(struct base_reader *r)
{
    if (!r)
        return 0;
    pthread_mutex_lock(&r->mutex);
    r->stop = 1;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->mutex);
    for (size_t i = 0; i < r->n_threads && r->lost; i++)
        pthread_detach(r->thread[i].id);
    if (r->lost)
        return 1;
    for (size_t i = 0; i < r->n_threads; i++)
        pthread_join(r->thread[i].id, NULL);
    for (size_t i = 0; r->direct && i < r->files->n; i++)
        if (r->direct[i] >= 0)
            close(r->direct[i]);
    free(r->direct);
    arena_free(&r->arena);
    pthread_cond_destroy(&r->work);
    pthread_mutex_destroy(&r->mutex);
    free(r);
    return 0;
}

uint64_t base_reader_memory(void) { return (uint64_t)THREADS * BASE_BUFFER; }
