/* pass.c: supplies the helpers that step.c and vocab.c share: they record a span, get the buffer
 * for a gradient, and send a gradient. */
#include "model/pass.h"

#include "data/base/clock.h"

void pass_span(struct trainer *t, const struct pass *p, enum runlog_phase phase, size_t block)
{
    meter_span(t->stream->meter, p->step, p->evaluates ? PHASE_EVAL : phase, (int)block, -1,
               p->start_ns, clock_ns(), 0);
}

int pass_is_empty(const struct trainer *t, size_t micro)
{
    return model_shape(&t->model, micro).rows == 0;
}

int pass_send(struct trainer *t, struct pass *p, size_t block, struct err *err)
{
    return pass_trains(t, p, block) ? stream_send_grad(t->stream, block, &p->norm, err) : 0;
}

int pass_grad(struct trainer *t, struct pass *p, size_t block, size_t micro, float **grad,
              int *fresh, struct err *err)
{
    size_t   group = micro / t->n.group, filled = 0;
    uint64_t asked_ns = clock_ns();
    int      begins, rc;

    *grad = NULL;
    if (!pass_trains(t, p, block))
        return 0;
    rc = stream_grad(t->stream, block, group, grad, &begins, err);
    if (rc || !begins)
        return rc;
    p->start_ns += clock_ns() - asked_ns; // the span does not include this wait
    for (size_t a = group * t->n.group; a < (group + 1) * t->n.group; a++)
        filled += !pass_is_empty(t, a);
    model_grad_begin(&t->model, block, *grad, filled > 0);
    *fresh = 1;
    return 0;
}
