/* meter.c: a step's place is taken when it is first named and given back by meter_flush; a third
 * one is a mistake of the caller, asserted. Spans beyond the bound are written as one row a phase
 * (block and device -1, start 0), as a folded step has them. Traffic is kept as sums, so it is
 * always exact.
 *
 * One mutex guards all but the step being written; it is held for a few stores. */
#include "offload/meter.h"

#include "data/base/arena.h"

#include <assert.h>
#include <pthread.h>

enum { OPEN_STEPS = 2 };

struct meter_step {
    int      used;
    uint64_t step;
    size_t   n_spans;
    struct { uint64_t ns, bytes; } over[PHASES]; // of what did not fit
    uint64_t total_ns[PHASES];
    struct runlog_span *spans;  // max_spans, and PHASES more for the totals of what did not fit
    struct link_meter *traffic; // (PHASES, 1 + n_devices); device -1 first
};

struct meter {
    pthread_mutex_t        mutex;
    size_t                 max_spans, n_devices;
    struct meter_io        io;
    uint64_t               busy_until; // the end of the union
    struct meter_step      steps[OPEN_STEPS + 1]; // the last is swapped with the one being written
    struct runlog_traffic *rows;       // scratch of meter_flush
    struct arena           arena;      // of all tables
};

static size_t meter_cells(const struct meter *m) { return (size_t)PHASES * (1 + m->n_devices); }

static void lay(struct meter *m, struct arena *a)
{
    const size_t kinds = (size_t)LINK_KINDS * LINK_CLASSES * LINK_DIRS;

    for (size_t i = 0; i < OPEN_STEPS + 1; i++) {
        m->steps[i].spans = arena_take(a, (m->max_spans + PHASES) * sizeof *m->steps[i].spans);
        m->steps[i].traffic = arena_take(a, meter_cells(m) * sizeof *m->steps[i].traffic);
    }
    m->rows = arena_take(a, meter_cells(m) * kinds * sizeof *m->rows);
}

struct meter *meter_new(size_t max_spans, size_t n_devices)
{
    struct meter *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    pthread_mutex_init(&m->mutex, NULL);
    m->max_spans = max_spans;
    m->n_devices = n_devices;
    lay(m, &m->arena);
    if (arena_map(&m->arena, "measurements", NULL)) {
        meter_free(m);
        return NULL;
    }
    lay(m, &m->arena);
    return m;
}

void meter_free(struct meter *m)
{
    if (!m)
        return;
    arena_free(&m->arena);
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

/* The place of a step; take: one for it where it has none, else NULL. */
static struct meter_step *step_find(struct meter *m, uint64_t step, int take)
{
    struct meter_step *s = NULL;

    for (size_t i = 0; i < OPEN_STEPS; i++) {
        if (m->steps[i].used && m->steps[i].step == step)
            return &m->steps[i];
        if (take && !m->steps[i].used)
            s = &m->steps[i];
    }
    assert((s || !take) && "two steps are open at once at most");
    if (take) {
        s->used = 1;
        s->step = step;
    }
    return s;
}

static int phase_is_io(enum runlog_phase phase)
{
    return phase == PHASE_PARAM_READ || phase == PHASE_GRAD_WRITE || phase == PHASE_UPDATE ||
           phase == PHASE_OPTIMIZER_WAIT || phase == PHASE_ACT_READ || phase == PHASE_ACT_WRITE;
}

/* On the host (device -1) these phases are waiting; on a device they are work. */
static void io_add(struct meter *m, enum runlog_phase phase, int device, uint64_t start_ns,
                   uint64_t end_ns)
{
    if (!phase_is_io(phase))
        return;
    if (device < 0 && phase != PHASE_UPDATE) { // (the host's own update, in mem, is neither)
        m->io.wait_ns += end_ns - start_ns;
    } else if (device >= 0 && end_ns > m->busy_until) {
        m->io.busy_ns += end_ns - (start_ns > m->busy_until ? start_ns : m->busy_until);
        m->busy_until = end_ns;
    }
}

struct meter_io meter_io(struct meter *m)
{
    pthread_mutex_lock(&m->mutex);
    struct meter_io io = m->io;
    pthread_mutex_unlock(&m->mutex);
    return io;
}

void meter_span(struct meter *m, uint64_t step, enum runlog_phase phase, int block, int device,
                uint64_t start_ns, uint64_t end_ns, uint64_t bytes)
{
    assert(end_ns >= start_ns);
    pthread_mutex_lock(&m->mutex);
    struct meter_step *s = step_find(m, step, 1);
    s->total_ns[phase] += end_ns - start_ns;
    io_add(m, phase, device, start_ns, end_ns);
    if (s->n_spans < m->max_spans) {
        s->spans[s->n_spans++] =
            (struct runlog_span){ step, phase, block, device, start_ns, end_ns, bytes };
    } else {
        s->over[phase].ns += end_ns - start_ns;
        s->over[phase].bytes += bytes;
    }
    pthread_mutex_unlock(&m->mutex);
}

void meter_traffic(struct meter *m, uint64_t step, enum runlog_phase phase, int device,
                   const struct link_meter *moved)
{
    size_t cell = (size_t)phase * (1 + m->n_devices) + (size_t)(device + 1);

    assert(device >= -1 && device < (int)m->n_devices);
    pthread_mutex_lock(&m->mutex);
    link_meter_add(&step_find(m, step, 1)->traffic[cell], moved);
    m->io.bytes += phase_is_io(phase) ? link_meter_total(moved) : 0;
    pthread_mutex_unlock(&m->mutex);
}

uint64_t meter_total(struct meter *m, uint64_t step, enum runlog_phase phase)
{
    pthread_mutex_lock(&m->mutex);
    struct meter_step *s = step_find(m, step, 0);
    uint64_t           ns = s ? s->total_ns[phase] : 0;
    pthread_mutex_unlock(&m->mutex);
    return ns;
}

/* The non-zero sums of a step as rows. */
static size_t step_rows(struct meter *m, const struct meter_step *s)
{
    size_t n = 0, places = 1 + m->n_devices;

    for (size_t cell = 0; cell < meter_cells(m); cell++) {
        const struct link_meter *t = &s->traffic[cell];

        for (int k = 0; k < LINK_KINDS; k++)
            for (int c = 0; c < LINK_CLASSES; c++)
                for (int d = 0; d < LINK_DIRS; d++)
                    if (t->bytes[k][c][d] || t->padding[k][c][d])
                        m->rows[n++] = (struct runlog_traffic){
                            s->step, (enum runlog_phase)(cell / places), link_kind_names[k],
                            (int)(cell % places) - 1, link_class_names[c], link_dir_names[d],
                            t->bytes[k][c][d], t->padding[k][c][d] };
    }
    return n;
}

/* The step is taken out under the lock and written without it: SQLite may wait for the disk,
 * recorders must not. */
int meter_flush(struct meter *m, uint64_t step, struct runlog *log, struct err *err)
{
    struct meter_step *f = &m->steps[OPEN_STEPS];

    pthread_mutex_lock(&m->mutex);
    struct meter_step *s = step_find(m, step, 0);
    if (s) {
        struct meter_step swap = *s;

        *s = *f;
        *f = swap;
    }
    pthread_mutex_unlock(&m->mutex);
    if (!s)
        return 0;
    for (int p = 0; p < PHASES; p++)
        if (f->over[p].ns || f->over[p].bytes)
            f->spans[f->n_spans++] = (struct runlog_span){
                step, (enum runlog_phase)p, -1, -1, 0, f->over[p].ns, f->over[p].bytes };
    int rc = runlog_measure(log, step, f->spans, f->n_spans, m->rows, step_rows(m, f), err);
    memset(f->traffic, 0, meter_cells(m) * sizeof *f->traffic);
    *f = (struct meter_step){ .spans = f->spans, .traffic = f->traffic };
    return rc;
}
