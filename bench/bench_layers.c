/* bench_layers.c: runs a model of two layers as a step does (model/layer/block.h), and measures
 * products, the passes between them and their calls in one figure for each kind of layer. Backward
 * of the second layer finds its activations; that of the first recomputes them. */
#include "bench/bench_layers.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "kernels/attention/attention.h"
#include "model/layer/block.h"

#include <omp.h>

enum { TURNS = 5, TURNS_NS = 150 * 1000 * 1000, WARM_NS = 100 * 1000 * 1000 };

double pass_median(struct pass_times *t, enum machine_pass pass)
{
    return bench_median(t->seconds[pass], t->n);
}

double pass_since(uint64_t *start_ns)
{
    uint64_t now = clock_ns();
    double   seconds = (double)(now - *start_ns) * 1e-9;

    *start_ns = now;
    return seconds > 1e-9 ? seconds : 1e-9;
}

void pass_measure(struct pass_times *t, void (*turn)(void *ctx, struct pass_times *t), void *ctx)
{
    uint64_t warm_ns = clock_ns() + WARM_NS, end_ns = warm_ns + TURNS_NS;

    t->n = 0;
    while (t->n < TURNS || (t->n < MOST_TURNS && clock_ns() < end_ns)) {
        turn(ctx, t);
        t->n += clock_ns() > warm_ns;
    }
}

/* ---- models of two layers ---- */

static struct model_config usual_of(enum machine_kind kind, size_t width, size_t heads)
{
    size_t family = 0;

    while (machine_kind_of(arch_at(family)) != kind) // the first stands for all
        family++;
    struct model_config g = { .arch = arch_at(family), .n_head = heads, .n_embd = width,
                              .norm_eps = 1e-5f };

    if (g.arch->rms) {
        g.n_kv_head = heads % 3 ? heads % 4 ? heads : heads / 4 : heads / 3;
        g.n_inner = round_up(8 * width / 3, HEAD_SIZE);
        g.rope.theta = g.theta_local = 10000;
        g.qk_norm = (size_t)g.arch->post_norms;
    }
    return g;
}

struct model_options layers_options(const struct bench *b, enum dtype dt, enum machine_kind kind,
                                    size_t width, size_t heads)
{
    const struct train_opts *o = &b->o->train;
    int own = kind == machine_kind_of(b->config.arch) && width == b->config.n_embd;
    struct model_config g = own ? b->config : usual_of(kind, width, heads);

    arch_drop(&g, (float)o->dropout);
    g.n_layer = LAYERS;
    g.vocab = HEAD_SIZE;
    g.pieces = g.n_labels = g.untied = g.pad = 0;
    return (struct model_options){
        .config = g, .grad_accum = 1, .dtype = dt, .engine = (enum matmul_engine)o->blas,
        .threads = (int)o->threads, .training = 1,
        .placement = placement_recompute(LAYERS, 0),
        .dropout = { g.drop_embd, g.drop_attn, g.drop_resid, o->seed } };
}

void layers_adapt(struct model_options *o, const struct bench *b)
{
    if (o->config.arch == b->adapted.arch && o->config.n_embd == b->adapted.n_embd) {
        o->config.lora = b->adapted.lora;
        o->config.frozen = b->adapted.frozen;
    }
}

void rows_set(struct model_options *o, size_t tokens, size_t row)
{
    o->batch = tokens / row;
    o->seq = o->config.n_positions = row;
    o->config = arch_config(o->config.arch, o->config);
}

/* ---- attention ---- */

struct attention_place {
    struct arena     memory;
    void            *dqkv, *dout;
    struct dropout   drop;
    struct attention a;
};

static int attention_place_open(struct attention_place *p, const struct model_options *o,
                                struct err *err)
{
    size_t rows = o->batch * o->seq, e = dtype_bytes(o->dtype),
           out = rows * arch_dim(&o->config, DIM_HEADS) * e,
           qkv = rows * arch_dim(&o->config, DIM_QKV) * e;

    *p = (struct attention_place){ .memory = { .align = ARENA_IO },
                                   .drop = { o->dropout.attn, o->dropout.seed, 0 },
                                   .a = model_attention(o, 1, o->batch, o->seq) };
    p->a.drop = &p->drop;
    for (int laid = 0; laid < 2; laid++) {
        int rc = laid ? arena_map(&p->memory, "the operands of attention", err) : 0;

        if (rc)
            return rc;
        p->a.qkv = arena_take(&p->memory, qkv);
        p->a.out = arena_take(&p->memory, out);
        p->a.lse = arena_take(&p->memory, 4 * rows * p->a.H);
        p->a.scratch = arena_take(&p->memory, attention_scratch(p->a.T, p->a.C, p->a.H, p->a.KV,
                                                                o->threads));
        p->dout = arena_take(&p->memory, out);
        p->dqkv = arena_take(&p->memory, qkv);
    }
    bench_fill(p->memory.base, p->memory.bytes, 1);
    return 0;
}

static void attention_turn(void *ctx, struct pass_times *t)
{
    struct attention_place *p = ctx;
    uint64_t                start_ns = clock_ns();

    attention_forward(&p->a);
    t->seconds[MACHINE_FORWARD][t->n] = t->seconds[MACHINE_AGAIN][t->n] = pass_since(&start_ns);
    attention_backward(p->dqkv, p->dout, &p->a);
    t->seconds[MACHINE_BACKWARD][t->n] = pass_since(&start_ns);
}

int attention_times(struct pass_times *t, const struct model_options *o, struct err *err)
{
    struct attention_place p;
    int                    rc = attention_place_open(&p, o, err);

    omp_set_num_threads(o->threads);
    if (!rc)
        pass_measure(t, attention_turn, &p);
    arena_free(&p.memory);
    return rc;
}

/* ---- layers ---- */

static void layers_lay(struct layers *l)
{
    const struct model_config *g = &l->m.o.config;
    size_t e = dtype_bytes(l->m.o.dtype), n[3] = { arch_block_size(g, 1), arch_block_size(g, 0),
                                                   arch_block_size(g, arch_final_block(g)) };

    l->wire = arena_take(&l->memory, e * n[0]);
    l->embed_wire = arena_take(&l->memory, e * n[1]);
    l->final_wire = arena_take(&l->memory, e * n[2]);
    l->grad = arena_take(&l->memory, 4 * n[0]);
    l->embed_grad = arena_take(&l->memory, 4 * n[1]);
    l->final_grad = arena_take(&l->memory, 4 * n[2]);
    if (g->lora.rank) {
        size_t adapter = arch_block_size(g, arch_adapter_block(g, 1));

        l->adapter_wire = arena_take(&l->memory, e * adapter);
        l->adapter_grad = arena_take(&l->memory, 4 * adapter);
    }
}

int layers_open(struct layers *l, const struct bench *b, const struct model_options *o,
                struct err *err)
{
    *l = (struct layers){ .memory = { .align = ARENA_IO } };
    int rc = model_open(&l->m, o, err);

    layers_lay(l);
    rc = rc ? rc : arena_map(&l->memory, "a layer", err);
    if (rc)
        return rc;
    layers_lay(l);
    bench_fill(l->memory.base, l->memory.bytes, 1);
    for (size_t i = 0; i < o->batch * o->seq; i++)
        l->m.acts.work.x[i] = l->m.acts.work.y[i] =
            (int32_t)((i * 2654435761u) % size_min(b->config.vocab, o->config.vocab));
    for (size_t i = 0; l->m.acts.work.length && i < o->batch; i++)
        l->m.acts.work.length[i] = (int32_t)o->seq;
    l->m.acts.work.shape[0] = (struct acts_shape){ o->batch, o->seq };
    l->m.dropping = o->dropout.attn > 0;
    embed_forward(&l->m, 0, 0, l->embed_wire);
    return 0;
}

void layers_close(struct layers *l)
{
    model_close(&l->m);
    arena_free(&l->memory);
}

static uint64_t again_ns(const struct model *m)
{
    return m->again[ACTS_ATTN].ns + m->again[ACTS_MLP].ns;
}

/* again: the part that was recomputation. */
static double backward_seconds(struct layers *l, size_t layer, double *again)
{
    struct acts_work *w = &l->m.acts.work;
    uint64_t          start_ns, before_ns = again_ns(&l->m);
    struct err        err;

    bench_fill(w->dx, sizeof *w->dx * model_tokens(&l->m) * l->m.o.config.n_embd, 1);
    start_ns = clock_ns();
    struct block_grads to = { l->grad, l->adapter_grad, 1 };
    if (to.adapter) { // all else is frozen
        to.layer = NULL;
        model_grad_begin(&l->m, arch_adapter_block(&l->m.o.config, layer), to.adapter, 1);
    } else {
        model_grad_begin(&l->m, layer, to.layer, 1);
    }
    products_begin(l->m.products);
    block_backward(&l->m, layer, 0, &(struct block_wires){ l->wire, l->adapter_wire }, &to,
                   &err); // cannot fail: no offloading
    *again = (double)(again_ns(&l->m) - before_ns) * 1e-9;
    return pass_since(&start_ns) - *again;
}

double layers_forward(struct layers *l, size_t calls)
{
    uint64_t   start_ns = clock_ns();
    struct err err;

    for (size_t i = 0; i < calls; i++)
        for (size_t layer = 1; layer <= LAYERS; layer++) {
            products_begin(l->m.products);
            block_forward(&l->m, layer, 0, &(struct block_wires){ l->wire, l->adapter_wire },
                          &err);
        }
    return pass_since(&start_ns);
}

static void layers_turn(void *ctx, struct pass_times *t)
{
    struct layers *l = ctx;
    double         none, again;

    t->seconds[MACHINE_FORWARD][t->n] = layers_forward(l, 1) / LAYERS;
    double second = backward_seconds(l, LAYERS, &none);
    t->seconds[MACHINE_BACKWARD][t->n] = (second + backward_seconds(l, 1, &again)) / LAYERS;
    t->seconds[MACHINE_AGAIN][t->n] = again;
}

int layer_times(struct pass_times *t, const struct bench *b, const struct model_options *o,
                struct err *err)
{
    struct layers l;
    int           rc = layers_open(&l, b, o, err);

    if (!rc)
        pass_measure(t, layers_turn, &l);
    layers_close(&l);
    return rc;
}
