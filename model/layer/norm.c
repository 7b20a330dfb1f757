/* norm.c: calls the kernel of the family's norm, layernorm or RMSNorm. */
#include "model/layer/norm.h"

#include "kernels/rows/layernorm.h"
#include "kernels/rows/rmsnorm.h"

static struct rmsnorm rms_of(const struct norm *n)
{
    return model_rms(n->m, n->m->o.config.arch->norm, n->wire, n->n, n->x, n->rstd);
}

static struct layernorm layer_of(const struct norm *n)
{
    return model_norm(n->m, n->m->o.config.arch->norm, n->wire, n->n, n->x, n->mean, n->rstd);
}

void norm_forward(void *out, const struct norm *n)
{
    struct rmsnorm   rms = rms_of(n);
    struct layernorm layer = layer_of(n);

    if (n->m->o.config.arch->rms)
        rmsnorm_forward(out, &rms);
    else
        layernorm_forward(out, &layer);
}

void norm_backward(const struct norm *n, float *grad, float *dx, const float *dout)
{
    const struct model *m = n->m;
    size_t              weight = m->o.config.arch->norm;
    float              *dw = model_grad(m, grad, weight);
    void               *scratch = m->acts.work.sums;
    struct rmsnorm      rms = rms_of(n);
    struct layernorm    layer = layer_of(n);

    if (m->o.config.arch->rms)
        rmsnorm_backward(&(struct rmsnorm_backward){
            .r = &rms, .dout = dout, .dx = dx, .fresh = 1, .dw = dw, .scratch = scratch });
    else
        layernorm_backward(&(struct layernorm_backward){
            .l = &layer, .dout = dout, .dx = dx, .fresh = 1, .dw = dw,
            .db = model_grad(m, grad, weight + 1), .scratch = scratch });
}
