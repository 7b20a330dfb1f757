/* stream_csd.c: the model's side of the scheduler: what stream.h says, handed to the part that does
 * it. */
#include "offload/stream_csd.h"

#include "data/base/clock.h"
#include "offload/master_reader.h"
#include "offload/scheduler.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct stream_csd {
    struct stream        base;
    struct scheduler     s;
    struct journal       newest;  // what masters reads, by its subs alone
    struct master_reader masters; // while they are lent the scheduler's thread is not there
};

static struct scheduler *of(struct stream *s)
{
    return &((struct stream_csd *)s)->s;
}

static int csd_begin(struct stream *stream, enum stream_pass pass, uint64_t step, struct err *err)
{
    struct scheduler *s = of(stream);

    hub_enter(&s->hub);
    assert(s->acts.depth == 0);
    s->hub.step = step;
    frames_begin(&s->frames, pass, s->updates.applied);
    return hub_leave(&s->hub, 1, err);
}

static void csd_expect(struct stream *stream, const struct optim_step *optim)
{
    struct scheduler *s = of(stream);

    hub_enter(&s->hub);
    updates_expect(&s->updates, optim);
    hub_leave(&s->hub, 0, NULL);
}

static int csd_acquire(struct stream *stream, size_t block, const void **wire, struct err *err)
{
    return frames_acquire(&of(stream)->frames, block, wire, err);
}

static void csd_release(struct stream *stream, size_t block)
{
    struct scheduler *s = of(stream);

    hub_enter(&s->hub);
    frames_release(&s->frames, block);
    hub_leave(&s->hub, 1, NULL);
}

static int csd_grad(struct stream *stream, size_t block, float **grad, int *fresh, struct err *err)
{
    return gradients_lend(&of(stream)->gradients, block, grad, fresh, err);
}

static int csd_send_grad(struct stream *stream, size_t block, struct stream_norm *norm,
                         struct err *err)
{
    struct scheduler *s = of(stream);
    int               rc = gradients_send(&s->gradients, block, norm, err);

    if (rc || !norm->nonfinite)
        return rc;
    hub_enter(&s->hub);
    s->updates.expecting = 0; // the step will be skipped
    return hub_leave(&s->hub, 0, err);
}

static int csd_push(struct stream *stream, void **entry, struct err *err)
{
    return act_stack_push(&of(stream)->acts, entry, err);
}

static void csd_pushed(struct stream *stream, size_t bytes, size_t left)
{
    act_stack_pushed(&of(stream)->acts, bytes, left);
}

static int csd_pop(struct stream *stream, void **entry, struct err *err)
{
    return act_stack_pop(&of(stream)->acts, entry, err);
}

static void csd_popped(struct stream *stream)
{
    act_stack_popped(&of(stream)->acts);
}

/* Until the last commit of all that was asked for. Did any of it leave elements as they were? Lock
 * held; 0: the stream has failed. */
static int committed_wait(struct scheduler *s)
{
    struct err why;
    uint64_t   since = 0;

    while (s->updates.ask != ASK_NONE && hub_wait(&s->hub, &since))
        ;
    if (!s->hub.failed && s->subs.kept.n)
        hub_fail(&s->hub, run_kept(&s->hub.cfg, s->subs.state.next_step, &s->subs.kept, &why),
                 &why);
    return !s->hub.failed;
}

static int csd_update(struct stream *stream, const struct stream_step *step, struct err *err)
{
    struct scheduler  *s = of(stream);
    struct stream_step asked = *step;
    uint64_t           start_ns = clock_ns();

    hub_enter(&s->hub);
    if (committed_wait(s)) {
        act_stack_settle(&s->acts);
        asked.row.seconds += (double)(clock_ns() - start_ns) * 1e-9;
        updates_ask(&s->updates, &asked);
        gradients_end(&s->gradients, step->skip);
    }
    return hub_leave(&s->hub, 1, err);
}

static int csd_drain(struct stream *stream, struct err *err)
{
    struct scheduler *s = of(stream);

    hub_enter(&s->hub);
    committed_wait(s);
    return hub_leave(&s->hub, 0, err);
}

static int csd_masters(struct stream *stream, uint64_t step, struct params_source *out,
                       struct err *err)
{
    struct stream_csd    *c = (struct stream_csd *)stream;
    struct scheduler     *s = &c->s;
    struct master_reader *m = &c->masters;
    size_t                n;
    int                   rc;

    hub_enter(&s->hub);
    assert(s->updates.ask == ASK_NONE);
    rc = hub_leave(&s->hub, 0, err);
    n = s->hub.dev.store.n_subs;
    if (!rc && !(c->newest.subs = calloc(n, sizeof *c->newest.subs)))
        rc = err_set(err, -ENOMEM, "out of memory for %zu subgroups", n);
    if (!rc)
        rc = master_reader_open(m, &s->hub.dev, &c->newest, err);
    if (rc) {
        journal_close(&c->newest);
        return rc;
    }
    scheduler_stop(s);
    m->meter = s->hub.meter;
    m->step = step;
    for (size_t i = 0; i < n; i++)
        c->newest.subs[i] = s->subs.sub[i].newest;
    *out = (struct params_source){ master_reader_read, m };
    return 0;
}

static int csd_masters_end(struct stream *stream, struct err *err)
{
    struct stream_csd *c = (struct stream_csd *)stream;

    master_reader_close(&c->masters);
    journal_close(&c->newest);
    return scheduler_start(of(stream), err);
}

static uint64_t csd_applied(const struct stream *stream)
{
    return ((const struct stream_csd *)stream)->s.updates.applied;
}

static struct meter *csd_meter(struct stream *stream)
{
    return of(stream)->hub.meter;
}

static void csd_close(struct stream *stream)
{
    struct stream_csd *c = (struct stream_csd *)stream;

    master_reader_close(&c->masters);
    journal_close(&c->newest);
    scheduler_close(&c->s);
    free(c);
}

static const struct stream_ops csd_ops_ = {
    .name = "csd",
    .begin = csd_begin,
    .expect = csd_expect,
    .acquire = csd_acquire,
    .release = csd_release,
    .grad = csd_grad,
    .send_grad = csd_send_grad,
    .push = csd_push,
    .pushed = csd_pushed,
    .pop = csd_pop,
    .popped = csd_popped,
    .update = csd_update,
    .drain = csd_drain,
    .masters = csd_masters,
    .masters_end = csd_masters_end,
    .applied = csd_applied,
    .meter = csd_meter,
    .close = csd_close,
};

int stream_csd_open(struct stream **out, const struct run_config *cfg, char *notice,
                    size_t notice_size, struct err *err)
{
    struct stream_csd *c = calloc(1, sizeof *c);
    int                rc;

    if (!c)
        return err_set(err, -ENOMEM, "out of memory for the stream");
    c->base.ops = &csd_ops_;
    rc = scheduler_open(&c->s, cfg, notice, notice_size, err);
    if (!rc)
        rc = scheduler_start(&c->s, err);
    if (rc)
        csd_close(&c->base);
    else
        *out = &c->base;
    return rc;
}

int stream_csd_memory(const struct run_config *cfg, struct run_memory *out, struct err *err)
{
    struct store st;
    int          rc = store_init(&st, cfg, err);

    if (rc)
        return rc;
    *out = (struct run_memory){ .masters = store_state_bytes(&st, st.max_pad) +
                                           st.n_subs * sizeof(struct journal_sub) };
    scheduler_memory(cfg, &st, out);
    devices_memory(cfg, &st, out);
    store_release(&st);
    return 0;
}
