/* scheduler.c: THE scheduler: one thread that moves blocks between devices and buffers. Each turn
 * it reaps what is done, then submits whatever has become possible, and otherwise sleeps on the
 * bell of the devices. What is possible is said by the parts; what goes first is said here: a drive
 * serves in turn what it is asked for. */
#include "offload/scheduler.h"

#include <errno.h>
#include <string.h>

/* What the next forward waits for longest comes first: updates, then the reads of what is updated.
 * Backward's gradients follow, then activations, and a commit covers what was reaped by now. */
static int advance(struct scheduler *s, struct err *err)
{
    int progress, rc;

    hub_enter(&s->hub);
    progress = updates_advance(&s->updates);
    progress |= frames_advance(&s->frames);
    progress |= gradients_advance(&s->gradients);
    progress |= act_stack_advance(&s->acts);
    rc = commits_advance(&s->commits, err);
    if (progress || rc > 0)
        pthread_cond_broadcast(&s->hub.changed);
    hub_leave(&s->hub, 0, NULL);
    return rc < 0 ? rc : progress | rc;
}

/* The first error stops everything: it is kept, and every call returns it. */
static void *scheduler_main(void *scheduler)
{
    struct scheduler *s = scheduler;
    struct err        err = { 0 };
    uint64_t          seen = 0;

    for (;;) {
        int reaped = hub_reap(&s->hub, &err), moved = reaped < 0 ? reaped : advance(s, &err), stop;

        hub_enter(&s->hub);
        if (moved < 0)
            hub_fail(&s->hub, moved, &err);
        stop = s->stop || s->hub.failed;
        hub_leave(&s->hub, 0, NULL);
        if (stop)
            return NULL;
        if (!reaped && !moved)
            seen = csd_bell_wait(&s->hub.dev.bell, seen, 1000000000u);
    }
}

int scheduler_start(struct scheduler *s, struct err *err)
{
    int rc;

    s->stop = 0;
    rc = -pthread_create(&s->thread, NULL, scheduler_main, s);
    if (rc)
        return err_set(err, rc, "start the scheduler's thread: %s", strerror(-rc));
    s->started = 1;
    return 0;
}

void scheduler_stop(struct scheduler *s)
{
    if (!s->started)
        return;
    hub_enter(&s->hub);
    s->stop = 1;
    hub_leave(&s->hub, 1, NULL);
    pthread_join(s->thread, NULL);
    s->started = 0;
}

static void buffers_lay(void *ctx, const struct store *st, struct arena *a)
{
    struct scheduler *s = ctx;

    frames_lay(&s->frames, st, a);
    gradients_lay(&s->gradients, st, a);
    act_stack_lay(&s->acts, a);
}

int scheduler_open(struct scheduler *s, const struct run_config *cfg, char *notice,
                   size_t notice_size, struct err *err)
{
    struct run_config   own = *cfg;
    struct hub         *h = &s->hub;
    struct store        st = { 0 };
    struct devices_more more = { .lay = buffers_lay, .ctx = s, .notice = notice,
                                 .notice_size = notice_size };
    int                 rc;

    own.residual_in_ram = cfg->error_feedback && cfg->residual_in_ram;
    s->commits.gradients = &s->gradients;
    s->commits.updates = &s->updates;
    rc = hub_open(h, &own, err);
    if (!rc)
        rc = store_init(&st, &own, err);
    if (!rc)
        rc = frames_open(&s->frames, h, &s->subs, &st, err);
    if (!rc)
        rc = gradients_open(&s->gradients, h, &s->subs, &st, err);
    if (!rc)
        rc = act_stack_open(&s->acts, h, err);
    store_release(&st);
    if (!rc)
        rc = devices_open(&h->dev, &own, DEVICES_TRAIN, &more, err);
    if (!rc)
        rc = commits_open(&s->commits, h, &s->subs, err);
    if (!rc)
        rc = updates_open(&s->updates, h, &s->subs, err);
    return rc;
}

void scheduler_close(struct scheduler *s)
{
    scheduler_stop(s);
    commits_stop(&s->commits);
    hub_close(&s->hub); // the tables of the parts hold tasks that may be out: they go after it
    commits_close(&s->commits);
    act_stack_close(&s->acts);
    gradients_close(&s->gradients);
    updates_close(&s->updates);
    frames_close(&s->frames);
    subs_close(&s->subs);
}

void scheduler_memory(const struct run_config *cfg, const struct store *st, struct run_memory *out)
{
    size_t                L = st->n_blocks - 2;
    uint64_t              wire[3]; // of a layer, the embeddings, the final norm
    struct gradient_bytes grad[3];

    for (size_t i = 0; i < 3; i++) {
        struct order_blocks of = order_blocks(i, L, 1);

        wire[i] = frames_bytes(st, of.first, of.end);
        grad[i] = gradients_bytes(st, of.first, of.end);
    }
    out->layer_frame = wire[0];
    out->layer_grad = grad[0].grad + grad[0].pack;
    out->frames = cfg->frames * wire[0] + wire[1] + wire[2];
    out->grads = cfg->grad_buffers * out->layer_grad + grad[1].grad + grad[1].pack + grad[2].grad +
                 grad[2].pack;
    out->compress = grad_scratch(st);
    out->residual_ram = gradients_residual_ram(st);
    out->residual_ends = grad[1].residual + grad[2].residual;
    out->residual_layer = grad[0].residual;
    out->record_buffer = act_stack_buffer(cfg);
    out->spans = hub_spans_bytes();
    out->tables = subs_bytes(st) + frames_tables(st) + gradients_tables(st) + updates_tables(st) +
                  commits_tables(st) + act_stack_tables(cfg);
}
