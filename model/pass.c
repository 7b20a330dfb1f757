/* pass.c: what a pass asks of the stream: a layer's parameters with those of its adapter, the
 * buffers of gradients, and room for offloaded activations. It records the spans meanwhile. */
#include "model/pass.h"

#include "data/base/clock.h"

void pass_span_begin(struct pass *p, enum runlog_phase phase, size_t block)
{
    p->span = (struct open_span){ p->step, clock_ns(), p->evaluates ? PHASE_EVAL : phase,
                                  (int)block };
}

void pass_span_end(struct trainer *t, const struct pass *p)
{
    meter_span(t->stream->meter, p->span.step, p->span.phase, p->span.block, -1, p->span.start_ns,
               clock_ns(), 0);
}

int pass_is_empty(const struct trainer *t, size_t micro)
{
    return model_shape(&t->model, micro).rows == 0;
}

/* ---- parameters ---- */

static size_t adapter_of(const struct trainer *t, size_t b)
{
    return b - t->n.layer + t->n.adapter;
}

int pass_acquire(struct trainer *t, struct pass *p, enum runlog_phase phase, size_t b,
                 struct block_wires *w, struct err *err)
{
    uint64_t asked_ns = clock_ns();
    int      rc = stream_acquire(t->stream, b, &w->layer, err);

    w->adapter = NULL;
    if (!rc && t->n.adapter && pass_layer(t, b))
        rc = stream_acquire(t->stream, adapter_of(t, b), &w->adapter, err);
    if (rc)
        return rc;
    pass_span_begin(p, phase, b);
    p->before_ns += b == 0 ? p->span.start_ns - asked_ns : 0;
    w->layer = model_unpacked(&t->model, b, w->layer);
    products_begin(t->model.products);
    return 0;
}

void pass_release(struct trainer *t, const struct pass *p, size_t b,
                  const struct block_wires *w)
{
    pass_span_end(t, p);
    stream_release(t->stream, b);
    if (w->adapter)
        stream_release(t->stream, adapter_of(t, b));
}

void pass_offload_begin(struct trainer *t, struct pass *p)
{
    size_t left = 0;

    for (size_t b = 1; !p->evaluates && b <= t->o.model.config.n_layer; b++)
        for (size_t a = 0; a < p->micros; a++)
            left += block_items(&t->model, b, a);
    t->model.records = (struct records){ .stream = left ? t->stream : NULL, .left = left,
                                         .span = &p->span };
}

/* ---- gradients ---- */

static int trains(const struct trainer *t, const struct pass *p, size_t block)
{
    return !p->evaluates && t->trains[block];
}

int pass_send(struct trainer *t, struct pass *p, size_t block, struct err *err)
{
    return trains(t, p, block) ? stream_send_grad(t->stream, block, &p->norm, err) : 0;
}

int pass_grad(struct trainer *t, struct pass *p, size_t block, size_t micro, float **grad,
              int *fresh, struct err *err)
{
    size_t   group = micro / t->n.group, filled = 0;
    uint64_t asked_ns = clock_ns();
    int      begins, rc;

    *grad = NULL;
    if (!trains(t, p, block))
        return 0;
    rc = stream_grad(t->stream, block, group, grad, &begins, err);
    if (rc || !begins)
        return rc;
    open_span_waited(&p->span, t->stream->meter, asked_ns);
    for (size_t a = group * t->n.group; a < (group + 1) * t->n.group; a++)
        filled += !pass_is_empty(t, a);
    model_grad_begin(&t->model, block, *grad, filled > 0);
    *fresh = 1;
    return 0;
}

int pass_layer_grads(struct trainer *t, struct pass *p, size_t b, size_t micro,
                     struct block_grads *g, struct err *err)
{
    int begun = 0, rc = pass_grad(t, p, b, micro, &g->layer, &g->fresh, err);

    g->adapter = NULL;
    return rc || !t->n.adapter ? rc
                               : pass_grad(t, p, adapter_of(t, b), micro, &g->adapter, &begun, err);
}

int pass_layer_send(struct trainer *t, struct pass *p, size_t b, struct err *err)
{
    int rc = pass_send(t, p, b, err);

    return rc || !t->n.adapter ? rc : pass_send(t, p, adapter_of(t, b), err);
}
