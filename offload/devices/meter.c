/* meter.c: collects the spans and traffic of steps, and writes a step's to run.db. A step takes a
 * place when it is first named; meter_flush gives the place back. A third open step is a mistake of
 * the caller, and asserted. Spans beyond the bound become one row per phase for the host and one
 * for the devices (start 0), as in folded steps. Traffic is kept as sums, so it is always exact.
 *
 * One mutex guards everything except the step that is being written. It is held for a few
 * stores. */
#include "offload/devices/meter.h"

#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/round.h"

#include <assert.h>
#include <pthread.h>

enum { OPEN_STEPS = 2 };

struct meter_step {
    int      used;
    uint64_t step;
    size_t   n_spans;
    struct { uint64_t ns, busy_ns, bytes; } over[2][PHASES]; // others: of the host, of devices
    uint64_t total_ns[PHASES];
    struct runlog_span *spans;  // max_spans, and 2 PHASES more for the sums of others
    struct link_meter *traffic; // (PHASES, 1 + n_devices); device -1 first
};

/* The latest times, in order and disjoint. Times that ended before `past` are forgotten. */
enum { METER_TIMES = 1024 };
struct meter_time { uint64_t from, to; };
struct meter_times { size_t n; uint64_t past; struct meter_time t[METER_TIMES]; };

struct meter {
    pthread_mutex_t        mutex;
    size_t                 max_spans, n_devices;
    struct meter_io        io;
    struct meter_times     busy, waits; // of the devices; of the training thread
    struct meter_step      steps[OPEN_STEPS + 1]; // the last changes places with one being written
    struct runlog_traffic *rows;       // scratch of meter_flush
    struct meter_also      also;
    struct arena           arena;      // holds all tables
};

static size_t meter_cells(const struct meter *m) { return (size_t)PHASES * (1 + m->n_devices); }

static void lay(struct meter *m, struct arena *a)
{
    const size_t kinds = (size_t)LINK_KINDS * LINK_CLASSES * LINK_DIRS;

    for (size_t i = 0; i < OPEN_STEPS + 1; i++) {
        struct meter_step *s = &m->steps[i];

        s->spans = arena_take(a, (m->max_spans + (size_t)2 * PHASES) * sizeof *s->spans);
        s->traffic = arena_take(a, meter_cells(m) * sizeof *s->traffic);
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

/* The place of a step. If it has none, `take` gives it one; otherwise NULL. */
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

/* ---- overlap */

/* Whether a device is busy in this phase. */
static int phase_is_busy(enum runlog_phase phase)
{
    return phase == PHASE_PARAM_READ || phase == PHASE_GRAD_WRITE || phase == PHASE_UPDATE ||
           phase == PHASE_ACT_READ || phase == PHASE_ACT_WRITE || phase == PHASE_REDO ||
           phase == PHASE_GATHER || phase == PHASE_EXCHANGE;
}

/* How many ns of `t` are in the set. */
static uint64_t times_shared(const struct meter_times *s, struct meter_time t)
{
    uint64_t ns = 0;

    for (size_t i = s->n; i-- > 0 && s->t[i].to > t.from;) {
        uint64_t from = size_max(s->t[i].from, t.from), to = size_min(s->t[i].to, t.to);

        ns += to > from ? to - from : 0;
    }
    return ns;
}

/* Adds `t` to the set. Times that it touches become one with it. If the set is full, the oldest
 * time, which may be `t`, is forgotten, and so is everything that comes later but lies before its
 * end. */
static void times_add(struct meter_times *s, struct meter_time t)
{
    size_t at = s->n, first;

    while (at > 0 && s->t[at - 1].from > t.to)
        at--;
    for (first = at; first > 0 && s->t[first - 1].to >= t.from; first--) {
        t.from = s->t[first - 1].from < t.from ? s->t[first - 1].from : t.from;
        t.to = s->t[first - 1].to > t.to ? s->t[first - 1].to : t.to;
    }
    if (first == at && s->n == METER_TIMES) {
        if (at == 0) {
            s->past = t.to;
            return;
        }
        s->past = s->t[0].to;
        memmove(s->t, s->t + 1, --s->n * sizeof *s->t);
        first = --at;
    }
    memmove(s->t + first + 1, s->t + at, (s->n - at) * sizeof *s->t);
    s->n = s->n - (at - first) + 1;
    s->t[first] = t;
}

/* Adds a span to the sums of busy and waited-for time; spans come in any order. Only the part of it
 * that is new in its own set counts. The part of that which is also in the other set was waited
 * for. */
static void io_add(struct meter *m, const struct runlog_span *span)
{
    int busy = span->device >= 0 && phase_is_busy(span->phase);
    int waits = span->device == -1 && span->phase >= PHASE_WAIT_PARAMS &&
                span->phase != PHASE_WAIT_EVAL;
    struct meter_times *own = busy ? &m->busy : &m->waits, *other = busy ? &m->waits : &m->busy;
    uint64_t            at = span->start_ns > own->past ? span->start_ns : own->past;

    if ((!busy && !waits) || at >= span->end_ns)
        return;
    for (size_t i = 0; i <= own->n && at < span->end_ns; i++) { // the gaps between its own times
        uint64_t next = i < own->n ? own->t[i].from : UINT64_MAX;
        struct meter_time gap = { at, next < span->end_ns ? next : span->end_ns };

        if (gap.to > gap.from) {
            m->io.busy_ns += busy ? gap.to - gap.from : 0;
            m->io.waited_ns += times_shared(other, gap);
        }
        if (i < own->n && own->t[i].to > at)
            at = own->t[i].to;
    }
    times_add(own, (struct meter_time){ span->start_ns, span->end_ns });
}

struct meter_io meter_io(struct meter *m)
{
    pthread_mutex_lock(&m->mutex);
    struct meter_io io = m->io;
    pthread_mutex_unlock(&m->mutex);
    return io;
}

/* ---- recording */

void meter_add(struct meter *m, const struct runlog_span *span)
{
    uint64_t ns = span->end_ns - span->start_ns;
    int      place = span->device >= 0;

    assert(span->end_ns >= span->start_ns && span->busy_ns <= ns);
    pthread_mutex_lock(&m->mutex);
    struct meter_step *s = step_find(m, span->step, 1);
    s->total_ns[span->phase] += ns;
    io_add(m, span);
    if (s->n_spans < m->max_spans) {
        s->spans[s->n_spans++] = *span;
    } else {
        s->over[place][span->phase].ns += ns;
        s->over[place][span->phase].busy_ns += span->busy_ns;
        s->over[place][span->phase].bytes += span->bytes;
    }
    pthread_mutex_unlock(&m->mutex);
}

void meter_span(struct meter *m, uint64_t step, enum runlog_phase phase, int block, int device,
                uint64_t start_ns, uint64_t end_ns, uint64_t bytes)
{
    meter_add(m, &(struct runlog_span){ step, phase, block, device, start_ns, end_ns, bytes,
                                        end_ns - start_ns });
}

/* Shorter waits end no span. A step has thousands of items, and writing a span for each would
 * take longer than computing them. */
enum { WAITED_NS = 20000 };

void open_span_waited(struct open_span *span, struct meter *m, uint64_t since_ns)
{
    uint64_t now = clock_ns();

    if (now - since_ns < WAITED_NS)
        return;
    meter_span(m, span->step, span->phase, span->block, -1, span->start_ns, since_ns, 0);
    span->start_ns = now;
}

void meter_traffic(struct meter *m, uint64_t step, enum runlog_phase phase, int device,
                   const struct link_meter *moved)
{
    size_t cell = (size_t)phase * (1 + m->n_devices) + (size_t)(device + 1);

    assert(device >= -1 && device < (int)m->n_devices);
    pthread_mutex_lock(&m->mutex);
    link_meter_add(&step_find(m, step, 1)->traffic[cell], moved);
    m->io.bytes += phase_is_busy(phase) ? link_meter_total(moved) : 0;
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

/* Writes the non-zero sums of a step as rows. */
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

/* Takes the step out under the lock and writes it without: SQLite may wait for the disk, and
 * recorders must not. */
void meter_also(struct meter *m, const struct meter_also *also)
{
    pthread_mutex_lock(&m->mutex);
    m->also = also ? *also : (struct meter_also){ 0 };
    pthread_mutex_unlock(&m->mutex);
}

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
    struct meter_also also = m->also;
    pthread_mutex_unlock(&m->mutex);
    int rc = also.write ? also.write(also.ctx, log, err) : 0;
    if (!s || rc)
        return rc;
    for (int p = 0; p < 2 * PHASES; p++) {
        int place = p / PHASES, of = p % PHASES;

        if (f->over[place][of].ns || f->over[place][of].bytes)
            f->spans[f->n_spans++] = (struct runlog_span){
                step, (enum runlog_phase)of, -1, place ? RUNLOG_DEVICES : -1, 0,
                f->over[place][of].ns, f->over[place][of].bytes, f->over[place][of].busy_ns };
    }
    rc = runlog_measure(log, step, f->spans, f->n_spans, m->rows, step_rows(m, f), err);
    memset(f->traffic, 0, meter_cells(m) * sizeof *f->traffic);
    *f = (struct meter_step){ .spans = f->spans, .traffic = f->traffic };
    return rc;
}
