/* hls_call.c: writes an engine's work as a command to the kernels, and reads their answer. */
#include "csd/engine/hls_call.h"

#include <assert.h>

static uint32_t bits_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static double number_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Offset in lines from the beginning of the set's memory. */
static uint32_t place_of(const struct engine_set *s, const void *at)
{
    return (uint32_t)((size_t)((const char *)at - (const char *)s->base) / HLS_LINE);
}

const struct csd_caps hls_caps = {
    .optims = 1u << OPTIM_ADAMW | 1u << OPTIM_ADAM | 1u << OPTIM_SGD | 1u << OPTIM_ADAGRAD,
    .pairs = 1, .segments = HLS_SEGMENTS, .on_card = 1,
};

void hls_ask_version(void *command)
{
    memset(command, 0, HLS_COMMAND_BYTES);
    *(uint32_t *)command = HLS_VERSION;
}

int hls_version(const void *result) { return (int)*(const uint32_t *)result; }

/* ---- the updater ---- */

static void update_ask(void *command, const struct engine_set *s)
{
    const struct update_area *a = &s->area;
    const struct csd_update  *u = s->u;
    const struct optim_step  *o = &u->step;
    const float *m = a->states + a->n_pad, *v = a->moments > 1 ? m + a->n_pad : m;
    uint32_t    *pair = (uint32_t *)command + 2 * HLS_LINE / sizeof(uint32_t);

    assert(s->at == 0 && s->n == a->n_pad && u->n_segments <= HLS_SEGMENTS);
    *(struct hls_update_command *)command = (struct hls_update_command){
        .version = HLS_VERSION, .kind = o->kind, .moments = (uint32_t)a->moments,
        .unchecked = (uint32_t)u->unchecked, .n = (uint32_t)u->n, .n_pad = (uint32_t)u->n_pad,
        .wire_bf16 = a->wire_dt == DT_BF16, .n_segments = (uint32_t)u->n_segments,
        .grad_scale = bits_of(o->grad_scale), .beta1 = bits_of(o->beta1),
        .beta2 = bits_of(o->beta2), .one_minus_beta1 = bits_of(o->one_minus_beta1),
        .one_minus_beta2 = bits_of(o->one_minus_beta2), .step_size = bits_of(o->step_size),
        .bias2_sqrt = bits_of(o->bias2_sqrt), .eps = bits_of(o->eps), .first = (uint32_t)o->first,
        .w = place_of(s, a->states), .m = place_of(s, m), .v = place_of(s, v),
        .w_out = place_of(s, a->states), .m_out = place_of(s, m), .v_out = place_of(s, v),
        .grad = place_of(s, a->grad), .wire = place_of(s, a->wire),
    };
    for (size_t i = 0; i < u->n_segments; i++) {
        const struct csd_segment *g = &u->segments[i];
        float factor = (float)(1.0 - (double)o->lr * (double)g->weight_decay);

        *pair++ = (uint32_t)(g->first + g->n);
        *pair++ = bits_of(optim_of(o->kind)->decouples ? factor : g->weight_decay);
    }
}

static void update_take(const struct hls_update_result *r, struct engine_set *s)
{
    struct csd_update *u = s->u;

    u->overflow = (struct overflow){r->overflow, r->overflow_first};
    u->bounds = r->overflow ? BOUNDS_UNKNOWN
               : (struct bounds){number_of(r->largest[0]), number_of(r->largest[1]),
                                 number_of(r->largest[2]),
                                 BOUNDS_SLACK * number_of(r->largest[3])};
    memcpy(s->sums.read, r->read, sizeof s->sums.read);
    memcpy(s->sums.written, r->written, sizeof s->sums.written);
    s->sums.wire = r->wire;
    if (u->grad_form == CSD_GRAD_DENSE)
        s->sums.grad = r->grad;
}

/* ---- the decompressor ---- */

static void scatter_ask(void *command, const struct engine_set *s)
{
    const struct update_area      *a = &s->area;
    const struct grad_wire_reader *r = &s->reader;
    struct hls_scatter_command     c = {
        .version = HLS_VERSION, .n = (uint32_t)s->u->n, .n_pad = (uint32_t)a->n_pad,
        .pairs = (uint32_t)s->u->pairs, .packed = place_of(s, a->wire),
        .dense = place_of(s, a->grad), .lines = (uint32_t)(s->n / HLS_LINE),
        .ends = s->at + s->n == grad_wire_bytes(s->u->pairs),
    };

    if (s->at > 0)
        c.state = (struct hls_scatter_state){(uint32_t)r->seen,
                                             r->last < 0 ? 0 : (uint32_t)r->last, s->sums.grad};
    memcpy(command, &c, sizeof c);
}

static void scatter_take(const struct hls_scatter_result *r, struct engine_set *s)
{
    if (s->at == 0)
        grad_wire_begin(&s->reader, s->u->n, s->u->pairs);
    s->reader.seen = r->state.seen;
    s->reader.last = r->state.seen ? (int64_t)r->state.last : -1;
    s->sums.grad = r->state.sum;
    if (r->fault == 2)
        s->status = grad_wire_refuse(&s->reader, r->index, &s->why);
    else if (r->fault)
        s->status = err_set(&s->why, -EBADMSG, "no compressed gradient of %zu pairs of %zu "
                            "parameters begins here", s->u->pairs, s->u->n);
}

/* ---- both ---- */

void hls_ask(void *command, const struct engine_set *s)
{
    memset(command, 0, HLS_COMMAND_BYTES);
    if (s->what == ENGINE_SCATTER)
        scatter_ask(command, s);
    else
        update_ask(command, s);
}

int hls_take(const void *result, struct engine_set *s, struct err *err)
{
    if (hls_version(result) != HLS_VERSION)
        return err_set(err, -EPROTO, "its kernel answered with version %d, %d was asked for",
                       hls_version(result), HLS_VERSION);
    s->status = 0;
    if (s->what == ENGINE_SCATTER)
        scatter_take(result, s);
    else
        update_take(result, s);
    return 0;
}
