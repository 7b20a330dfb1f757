/* trace.c: writes the spans of steps as Chrome's trace events: slices on tracks, and arrows between
 * them.
 *
 * The host is a process with its training thread and its committer. Each device is a process, with
 * threads for its requests. Readers take slices of a thread for nested calls: two slices must be
 * nested or apart. Requests may overlap in any way, so each kind of request has as many threads as
 * it needs, its lanes. Parts of a span (a wait in a forward) share its lane. */
#include "report/trace.h"

#include "data/base/grow.h"
#include "data/base/table.h"
#include "data/base/version.h"
#include "report/format.h"
#include "report/report.h"

/* The kinds of threads, in their order on the page. within: its spans may be nested. Phases that
 * none of them lists are the last kind. */
static const struct kind { int host, within; const char *name, *phases; } kinds[] = {
    { 1, 1, "training", NULL }, // all of the host's, except for the next
    { 1, 0, "committer", " commit " },
    { 0, 0, "parameters read", " param_read " },
    { 0, 0, "gradients written", " grad_write " },
    { 0, 0, "updates", " update " },
    { 0, 0, "updates: read", " update_read " },
    { 0, 0, "updates: compute", " update_compute " },
    { 0, 1, "updates: write", " update_write update_params " },
    { 0, 0, "activations written", " act_write " },
    { 0, 0, "activations read", " act_read " },
    { 0, 0, "evaluation", " eval " },
    { 0, 0, "updates done again", " redo " },
    { 0, 0, "other", NULL },
};
enum { KINDS = sizeof kinds / sizeof *kinds, TRAINING = 0, OTHER = KINDS - 1, DEPTH = 32,
       TIDS_OF_PROCESS = 100000, TIDS_OF_KIND = 5000 };

/* The phases that end a wait of the training thread. */
static const struct ender { const char *wait, *phases; } enders[] = {
    { "wait_params", " param_read " },
    { "wait_update", " update_params update " },
    { "wait_gradient", " grad_write " },
    { "wait_residual", " grad_write " },
    { "wait_act_read", " act_read " },
    { "wait_act_write", " act_write " },
    { "wait_eval", " eval " },
    { "wait_commit", " commit " },
    { "wait_drain", " update grad_write commit " },
};

/* ---- writing ---- */

/* Writes the name of a process or thread, and its place on the page. */
static void name_event(struct trace_out *o, const char *what, int pid, int tid, json_t *name,
                       int at)
{
    trace_event(o, "{s:s, s:o, s:i, s:i, s:{s:o}}", "ph", "M", "name",
                json_sprintf("%s_name", what), "pid", pid, "tid", tid, "args", "name", name);
    trace_event(o, "{s:s, s:o, s:i, s:i, s:{s:i}}", "ph", "M", "name",
                json_sprintf("%s_sort_index", what), "pid", pid, "tid", tid, "args", "sort_index",
                at);
}

/* ---- tracks ---- */

struct lane {
    int pid, kind, number, tid, depth;
    const struct trace_span *open[DEPTH]; // each is within the one before
};

struct lanes { struct lane *lane; size_t n, room; };

static int kind_of(const struct trace *t, const struct trace_span *s)
{
    int host = s->device < 0;

    for (int k = 0; k < KINDS; k++)
        if (kinds[k].host == host && kinds[k].phases && is_word_of(s->phase, kinds[k].phases) &&
            !(host && t->on_host))
            return k;
    return host ? TRAINING : OTHER;
}

/* Whether the span may go on this lane; spans that have ended are taken off. A part is put within
 * the span that it is a part of, not within another request of its kind. */
static int lane_takes(struct lane *l, const struct trace_span *s)
{
    while (l->depth && l->open[l->depth - 1]->end <= s->start)
        l->depth--;
    if (!l->depth)
        return 1;
    const struct trace_span *top = l->open[l->depth - 1];
    return kinds[l->kind].within && l->depth < DEPTH && s->end <= top->end &&
           strcmp(s->phase, top->phase);
}

static int lane_put(struct lanes *all, const struct trace *t, struct trace_span *s,
                    struct err *err)
{
    int          kind = kind_of(t, s), number = 0, rc;
    struct lane *l = NULL;

    s->pid = s->device < 0 ? TRACE_HOST_PID : TRACE_DEVICE_PID + s->device;
    for (size_t i = 0; i < all->n && !l; i++) {
        struct lane *at = &all->lane[i];

        if (at->pid != s->pid || at->kind != kind)
            continue;
        number++;
        l = lane_takes(at, s) ? at : NULL;
    }
    if (!l) {
        rc = grow(&all->lane, &all->room, all->n + 1, sizeof *all->lane, "threads", err);
        if (rc)
            return rc;
        l = &all->lane[all->n];
        *l = (struct lane){ .pid = s->pid, .kind = kind, .number = number };
        // above all processes' ids, as in a system, and in the page's order
        l->tid = TIDS_OF_PROCESS * s->pid + TIDS_OF_KIND * kind + number;
        all->n++;
    }
    l->open[l->depth++] = s;
    s->tid = l->tid;
    return 0;
}

static int write_names(struct trace_out *o, const struct lanes *all, struct runlog *log,
                       struct err *err)
{
    json_t *devices = NULL, *d;
    size_t  i;
    int     rc = report_rows(&devices, log, err,
                             "SELECT " TRACE_PLACE("device") " AS device, path"
                             " FROM devices ORDER BY device");

    name_event(o, "process", TRACE_HOST_PID, 0, json_string("host"), TRACE_HOST_PID);
    json_array_foreach(devices, i, d) {
        int device = (int)json_num(d, "device");

        if (device >= 0)
            name_event(o, "process", TRACE_DEVICE_PID + device, 0,
                       json_sprintf("device %d  %s", device, json_str(d, "path")),
                       TRACE_DEVICE_PID + device);
    }
    for (i = 0; i < all->n; i++) {
        const struct lane *l = &all->lane[i];

        name_event(o, "thread", l->pid, l->tid,
                   l->number ? json_sprintf("%s (%d)", kinds[l->kind].name, l->number + 1)
                             : json_string(kinds[l->kind].name), 100 * l->kind + l->number);
    }
    json_decref(devices);
    return rc;
}

/* ---- slices ---- */

static void write_slice(struct trace_out *o, const struct trace_span *s)
{
    int     waits = s->device < 0 && !strncmp(s->phase, "wait_", 5);
    json_t *name = !strcmp(s->phase, "step") ? json_sprintf("step %" PRIu64, s->step + 1)
                   : s->block < 0 ? report_string(s->phase)
                                  : json_sprintf("%s %d", s->phase, s->block);
    json_t *busy = s->busy == SIZE_MAX ? NULL : json_integer((json_int_t)s->busy);

    trace_event(o, "{s:s, s:o, s:s, s:i, s:i, s:I, s:I, s:{s:I, s:I, s:o*}}", "ph", "X", "name",
                name ? name : json_string("?"), "cat",
                waits ? "wait" : s->device < 0 ? "host" : "device", "pid", s->pid, "tid", s->tid,
                "ts", (json_int_t)s->start, "dur", (json_int_t)(s->end - s->start), "args", "step",
                (json_int_t)s->step + 1, "bytes", (json_int_t)s->bytes, "busy_us", busy);
}

/* ---- flows ---- */

static const char *ends_waits(const struct trace_span *s)
{
    const struct ender *found = s->device < 0 ? TABLE_FIND(enders, s->phase) : NULL;

    return found ? found->phases : NULL;
}

static int by_end(const void *a, const void *b)
{
    const struct trace_span *x = *(void *const *)a, *y = *(void *const *)b;

    return (x->until > y->until) - (x->until < y->until);
}

/* Whether the wait may have been for this request, as in run.db's view of waits: for the block's,
 * if the wait was for a block. A gradient's buffer is free when any block's is written. */
static int may_end(const struct trace_span *s, const struct trace_span *w)
{
    return s != w && (s->device >= 0 || !strcmp(s->phase, "commit")) &&
           is_word_of(s->phase, ends_waits(w)) &&
           (w->block < 0 || s->block == w->block || !strcmp(w->phase, "wait_gradient"));
}

/* Of the requests that may have been waited for, finds the one that ended last during the wait, or
 * NULL. of: n spans in the order of their ends. */
static const struct trace_span *ender_of(const struct trace_span *const *of, size_t n,
                                         const struct trace_span *w)
{
    const struct trace_span *found = NULL;
    size_t                   i = 0, high = n;

    while (i < high) { // the first that ended after the wait began
        size_t middle = i + (high - i) / 2;

        if (of[middle]->end < w->start)
            i = middle + 1;
        else
            high = middle;
    }
    for (; i < n && of[i]->until <= w->until; i++)
        if (may_end(of[i], w) && of[i]->end > of[i]->start) // else an arrow has no room
            found = of[i];
    return found;
}

/* Within the request, and before flow_end, because readers sort by time. */
static uint64_t flow_begin(const struct trace_span *s)
{
    return s->start + (s->end - s->start) / 2;
}

static uint64_t flow_end(const struct trace_span *wait) { return wait->end - 1; }

static void write_flow(struct trace_out *o, const struct trace_span *s, const struct trace_span *w,
                       int id)
{
    trace_event(o, "{s:s, s:s, s:s, s:i, s:i, s:i, s:I}", "ph", "s", "name", "ends", "cat", "flow",
                "id", id, "pid", s->pid, "tid", s->tid, "ts", (json_int_t)flow_begin(s));
    trace_event(o, "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I}", "ph", "f", "bp", "e", "name",
                "ends", "cat", "flow", "id", id, "pid", w->pid, "tid", w->tid, "ts",
                (json_int_t)flow_end(w));
}

static int write_flows(struct trace_out *o, const struct trace *t, struct err *err)
{
    const struct trace_span **of = calloc(t->spans + 1, sizeof *of), *s;
    int                       id = 0;

    if (!of)
        return err_set(err, -ENOMEM, "no memory for the arrows of %zu spans", t->spans);
    for (size_t i = 0; i < t->spans; i++)
        of[i] = &t->span[i];
    qsort(of, t->spans, sizeof *of, by_end);
    for (size_t i = 0; i < t->spans; i++) {
        const struct trace_span *w = &t->span[i];

        if (ends_waits(w) && w->end > w->start && (s = ender_of(of, t->spans, w)) &&
            flow_begin(s) < flow_end(w))
            write_flow(o, s, w, ++id);
    }
    free(of);
    return 0;
}

/* ---- the file ---- */

struct tracing { struct runlog *log; const struct trace *t; const struct lanes *lanes; };

static int print(FILE *file, void *ctx, struct err *err)
{
    const struct tracing *c = ctx;
    const struct trace   *t = c->t;
    struct trace_out      o = { file, 0 };

    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"siTrain " SITRAIN_VERSION
          "\"},\"traceEvents\":[", file);
    int rc = write_names(&o, c->lanes, c->log, err);
    for (size_t i = 0; i < t->spans; i++)
        write_slice(&o, &t->span[i]);
    rc = rc ? rc : write_flows(&o, t, err);
    rc = rc ? rc : trace_counters(&o, t, c->log, err);
    fputs("\n]}\n", file);
    return rc;
}

int report_trace(const struct output *o, struct runlog *log, const char *steps, struct err *err)
{
    struct trace   t = { 0 };
    struct lanes   all = { 0 };
    struct tracing c = { log, &t, &all };
    int            rc = trace_read(&t, log, steps, err);

    for (size_t i = 0; i < t.spans && !rc; i++)
        rc = lane_put(&all, &t, &t.span[i], err);
    rc = rc ? rc : report_file(o, print, &c, err);
    free(all.lane);
    free(t.span);
    return rc;
}
