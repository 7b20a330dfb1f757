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

enum { THREADS = 4 }; // each has one read of BASE_READ bytes under way

struct reading { struct base_reader *r; pthread_t id; void *buffer; };

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
static int part_cut(struct base_reader *r, struct base_request **of, struct base_part *p)
{
    struct base_request *q = r->waiting.first;

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
    *of = q;
    return 1;
}

static void *thread_main(void *arg)
{
    struct reading      *t = arg;
    struct base_reader  *r = t->r;
    struct base_request *q = NULL;
    struct base_part     p = { .dt = r->dt, .direct = r->direct, .buffer = t->buffer };

    omp_set_num_threads(1); // more would disturb those that compute
    pthread_mutex_lock(&r->mutex);
    while (!r->stop) {
        if (!part_cut(r, &q, &p)) {
            pthread_cond_wait(&r->work, &r->mutex);
            continue;
        }
        struct link_meter meter = { 0 };
        struct err        why;
        size_t            n = 0;

        pthread_mutex_unlock(&r->mutex);
        int rc = base_files_part(r->files, &p, &n, &meter, &why);
        pthread_mutex_lock(&r->mutex);
        link_meter_add(&q->meter, &meter);
        part_over(r, q, rc ? 0 : n, rc, &why);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
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
    struct base_request *q = list_pop(&r->done);
    pthread_mutex_unlock(&r->mutex);
    return q;
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

void base_reader_close(struct base_reader *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->mutex);
    r->stop = 1;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->mutex);
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
}

uint64_t base_reader_memory(void) { return (uint64_t)THREADS * BASE_BUFFER; }
