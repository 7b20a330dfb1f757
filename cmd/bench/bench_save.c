/* bench_save.c: what a prediction goes by (cmd/run/machine_file.h), measured: `bench --save FILE`,
 * and the same for `plan`, which asks for the sizes of one model alone (--probe).
 *
 * Layers run as a step runs them (model/block.h), on a model of two: products, the passes between
 * them and their calls, in one figure. Backward of the second one finds its activations, that of
 * the first computes them again. What attention takes of it is measured by itself and taken away,
 * since it grows otherwise. */
#include "cmd/bench/bench.h"

#include "cmd/run/machine_file.h"
#include "data/base/clock.h"
#include "data/base/machine.h"
#include "data/base/round.h"
#include "kernels/attention.h"
#include "model/block.h"
#include "model/head.h"

#include <math.h>
#include <omp.h>

enum {
    LAYERS = 2, HEAD_SIZE = 64, SHORT_ROW = 64, // of the layers that are measured
    TURNS = 5, BESIDE_TURNS = 9, MOST_TURNS = 48, MOST_SIZES = 16, TOKENS_STEP = 16,
    WIDEST = 2560, // two layers of this take a gigabyte; those of wider ones have the same rate
};

/* Of one measured call of a layer, at most: a wide model's chunk is not a whole one. */
#define MOST_FLOPS       4e10
#define MOST_FLOPS_PROBE 2.5e10

enum { WARM_NS = 100 * 1000 * 1000, TURNS_NS = 150 * 1000 * 1000, BESIDE_NS = TURNS_NS };

/* What takes turns: seconds of each part of one call. */
enum { FORWARD, BACKWARD, AGAIN, PARTS };

struct part_times { double seconds[PARTS][MOST_TURNS]; size_t n; };

static double median_of(struct part_times *t, int part)
{
    return bench_median(t->seconds[part], t->n);
}

static double since(uint64_t *start_ns)
{
    uint64_t now = clock_ns();
    double   seconds = (double)(now - *start_ns) * 1e-9;

    *start_ns = now;
    return seconds > 1e-9 ? seconds : 1e-9;
}

/* What is called the first times finds sleeping threads and cold caches, which in a step it does
 * not. */
static int warm(uint64_t begun_ns) { return clock_ns() - begun_ns > WARM_NS; }

/* Whether another turn is to be taken: of short ones many, so that they are not all taken while
 * some other program had the processor. begun_ns: of the first. */
static int another(const struct part_times *t, uint64_t begun_ns)
{
    return t->n < TURNS || (t->n < MOST_TURNS && clock_ns() - begun_ns < TURNS_NS);
}

/* ---- attention ---- */

struct attention_place { struct arena memory; void *dqkv, *dout; struct attention a; };

static int attention_place_open(struct attention_place *p, const struct bench *b,
                                const struct attention *of, struct err *err)
{
    size_t n = of->B * of->T * of->C, e = dtype_bytes(of->dt);

    *p = (struct attention_place){ .memory = { .align = ARENA_IO }, .a = *of };
    for (int laid = 0; laid < 2; laid++) {
        int rc = laid ? arena_map(&p->memory, "the operands of attention", err) : 0;

        if (rc)
            return rc;
        p->a.qkv = arena_take(&p->memory, 3 * n * e);
        p->a.out = arena_take(&p->memory, n * e);
        p->a.lse = arena_take(&p->memory, 4 * of->B * of->H * of->T);
        p->a.scratch = arena_take(&p->memory, attention_scratch(of->T, of->C, of->H, of->H,
                                                                (int)b->o->train.threads));
        p->dout = arena_take(&p->memory, n * e);
        p->dqkv = arena_take(&p->memory, 3 * n * e);
    }
    bench_fill(p->memory.base, p->memory.bytes, 1);
    return 0;
}

/* Seconds of forward and backward of micro-batches like this one. */
static int attention_times(struct part_times *t, const struct bench *b, const struct attention *of,
                           struct err *err)
{
    struct attention_place p;
    int                    rc = attention_place_open(&p, b, of, err);

    omp_set_num_threads((int)b->o->train.threads);
    t->n = 0;
    uint64_t begun_ns = clock_ns();
    while (!rc && another(t, begun_ns + WARM_NS)) {
        uint64_t start_ns = clock_ns();

        attention_forward(&p.a);
        t->seconds[FORWARD][t->n] = t->seconds[AGAIN][t->n] = since(&start_ns);
        attention_backward(p.dqkv, p.dout, &p.a);
        t->seconds[BACKWARD][t->n] = since(&start_ns);
        t->n += (size_t)warm(begun_ns);
    }
    arena_free(&p.memory);
    return rc;
}

/* ---- layers and the head ---- */

/* A model of two layers at work, with parameters and gradients as a stream lends them. */
struct layers {
    struct model m;
    struct arena memory;
    void        *wire, *embed_wire, *final_wire;
    float       *grad, *embed_grad, *final_grad;
};

static void layers_lay(struct layers *l)
{
    const struct model_config *g = &l->m.o.config;
    size_t e = dtype_bytes(l->m.o.dtype), n[3] = { arch_block_size(g, 1), arch_block_size(g, 0),
                                                   arch_block_size(g, LAYERS + 1) };

    l->wire = arena_take(&l->memory, e * n[0]);
    l->embed_wire = arena_take(&l->memory, e * n[1]);
    l->final_wire = arena_take(&l->memory, e * n[2]);
    l->grad = arena_take(&l->memory, 4 * n[0]);
    l->embed_grad = arena_take(&l->memory, 4 * n[1]);
    l->final_grad = arena_take(&l->memory, 4 * n[2]);
}

/* To be closed also after a failure. */
static int layers_open(struct layers *l, const struct bench *b, const struct model_options *o,
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
    l->m.acts.work.shape[0] = (struct acts_shape){ o->batch, o->seq };
    embed_forward(&l->m, 0, 0, l->embed_wire);
    return 0;
}

static void layers_close(struct layers *l)
{
    model_close(&l->m);
    arena_free(&l->memory);
}

static uint64_t again_ns(const struct model *m)
{
    return m->again[ACTS_ATTN].ns + m->again[ACTS_MLP].ns;
}

/* again: what of it was computing activations once more. */
static double backward_seconds(struct layers *l, size_t layer, double *again)
{
    struct acts_work *w = &l->m.acts.work;
    uint64_t          start_ns, before_ns = again_ns(&l->m);
    struct err        err;

    bench_fill(w->dx, sizeof *w->dx * model_tokens(&l->m) * l->m.o.config.n_embd, 1);
    start_ns = clock_ns();
    model_grad_begin(&l->m, layer, l->grad, 1);
    products_begin(l->m.products);
    block_backward(&l->m, layer, 0, l->wire, l->grad, 1, &err); // nothing is offloaded
    *again = (double)(again_ns(&l->m) - before_ns) * 1e-9;
    return since(&start_ns) - *again;
}

/* One turn; a first one before all is not counted. */
static void layers_turn(struct layers *l, struct part_times *t, size_t turn)
{
    uint64_t   start_ns = clock_ns();
    struct err err;

    for (size_t layer = 1; layer <= LAYERS; layer++) {
        products_begin(l->m.products);
        block_forward(&l->m, layer, 0, l->wire, &err);
    }
    t->seconds[FORWARD][turn] = since(&start_ns) / LAYERS;
    double none, again, second = backward_seconds(l, LAYERS, &none);
    t->seconds[BACKWARD][turn] = (second + backward_seconds(l, 1, &again)) / LAYERS;
    t->seconds[AGAIN][turn] = again;
}

static struct model_options layers_options(const struct bench *b, enum dtype dt, size_t width,
                                           size_t heads, size_t tokens, size_t row)
{
    return (struct model_options){
        .config = arch_config(&gpt2_arch, (struct model_config){
            .n_layer = LAYERS, .n_head = heads, .n_embd = width, .vocab = HEAD_SIZE,
            .n_positions = row, .norm_eps = 1e-5f }),
        .batch = tokens / row, .seq = row, .grad_accum = 1, .dtype = dt,
        .engine = (enum matmul_engine)b->o->train.blas, .threads = (int)b->o->train.threads,
        .training = 1, .ways = ways_recompute(LAYERS, 0) };
}

static int layer_times(struct part_times *t, const struct bench *b, const struct model_options *o,
                       struct err *err)
{
    struct layers l;
    int           rc = layers_open(&l, b, o, err);

    t->n = 0;
    for (uint64_t start_ns = clock_ns(); !rc && !warm(start_ns);)
        layers_turn(&l, t, 0);
    for (uint64_t start_ns = clock_ns(); !rc && another(t, start_ns); t->n++)
        layers_turn(&l, t, t->n);
    layers_close(&l);
    return rc;
}

/* ---- points ---- */

static int layer_point(struct machine_file *m, const struct bench *b, enum dtype dt, size_t width,
                       size_t tokens, struct err *err)
{
    size_t heads = width / HEAD_SIZE ? width / HEAD_SIZE : 1;
    size_t row = tokens % SHORT_ROW ? tokens : SHORT_ROW;
    double flop = (double)width * (double)width * (double)tokens;
    struct part_times     all, attention;
    struct machine_layer *p = &m->layer[m->n_layers];

    while (width % heads) // a width that heads of 64 do not divide
        heads--;
    struct model_options o = layers_options(b, dt, width, heads, tokens, row);
    struct attention     a = { .B = o.batch, .T = row, .C = width, .H = heads, .dt = dt };
    if (m->n_layers == MACHINE_POINTS)
        return 0;
    int rc = layer_times(&all, b, &o, err);
    rc = rc ? rc : attention_times(&attention, b, &a, err);
    if (rc)
        return rc;
    double left[PARTS];
    for (int i = 0; i < PARTS; i++) { // noise leaves a tenth at least
        double whole = median_of(&all, i);

        left[i] = fmax(whole - median_of(&attention, i), 0.1 * whole);
    }
    *p = (struct machine_layer){ dt, (double)width, (double)tokens, 24 * flop / left[FORWARD],
                                 48 * flop / left[BACKWARD], 16 * flop / left[AGAIN] };
    m->n_layers++;
    return 0;
}

static int attention_point(struct machine_file *m, const struct bench *b, enum dtype dt,
                           const struct attention *a, struct err *err)
{
    double            flop = (double)(a->B * a->T) * (double)a->C * (double)a->T;
    struct part_times t;

    if (m->n_attentions == MACHINE_POINTS)
        return 0;
    int rc = attention_times(&t, b, a, err);
    if (!rc)
        m->attention[m->n_attentions++] =
            (struct machine_attention){ dt, (double)(a->C / a->H), (double)a->T,
                                        2 * flop / median_of(&t, FORWARD),
                                        5 * flop / median_of(&t, BACKWARD) };
    return rc;
}

static int head_point(struct machine_file *m, const struct bench *b, enum dtype dt, size_t width,
                      size_t words, struct err *err)
{
    struct model_options o = layers_options(b, dt, width, 1, HEAD_ROWS, SHORT_ROW);
    struct part_times    t;
    struct layers        l;
    uint64_t             counted = 0;

    if (m->n_heads == MACHINE_POINTS)
        return 0;
    double most = (b->o->probe ? MOST_FLOPS_PROBE : MOST_FLOPS) / (6.0 * HEAD_ROWS * (double)width);
    words = size_max(size_min(words, (size_t)most), LOGIT_ROWS);
    o.config.vocab = words;
    int rc = layers_open(&l, b, &o, err);
    struct head h = { .wire = l.final_wire, .head_wire = l.embed_wire, .trains = 1, .fresh = 1,
                      .grad = l.final_grad, .head_grad = l.embed_grad, .scale = 1e-3f };
    t.n = 0;
    uint64_t begun_ns = clock_ns();
    while (!rc && another(&t, begun_ns + WARM_NS)) {
        bench_fill(acts_input(&l.m.acts, LAYERS + 1, 0), 4 * HEAD_ROWS * width, 1);
        uint64_t start_ns = clock_ns();

        head_run(&l.m, 0, &h, &counted);
        t.seconds[FORWARD][t.n] = since(&start_ns);
        t.n += (size_t)warm(begun_ns);
    }
    layers_close(&l);
    if (!rc)
        m->head[m->n_heads++] = (struct machine_head){
            dt, (double)width,
            6 * (double)width * (double)words * HEAD_ROWS / median_of(&t, FORWARD) };
    return rc;
}

/* ---- what is measured ---- */

struct grid { size_t n_widths, width[MOST_SIZES], n_tokens, tokens[MOST_SIZES]; double most; };

static void size_add(size_t *list, size_t *n, size_t x)
{
    for (size_t i = 0; i < *n; i++)
        if (list[i] == x)
            return;
    if (x && *n < MOST_SIZES)
        list[(*n)++] = x;
}

/* Widths and chunks: what models of these widths lie between, and the model's own. */
static struct grid grid_of(const struct bench *b)
{
    static const size_t widths[] = { 128, 512, 1600 }, tokens[] = { 64, 1024 };
    size_t      own = size_min(b->o->train.batch * b->o->train.seq, CHUNK_ROWS);
    struct grid g = { .most = b->o->probe ? MOST_FLOPS_PROBE : MOST_FLOPS };

    size_add(g.width, &g.n_widths, size_min(b->config.n_embd, WIDEST));
    for (size_t i = 0; i < 3 && !b->o->probe; i++)
        size_add(g.width, &g.n_widths, widths[i]);
    for (size_t i = 0; i < 2 && !b->o->probe; i++)
        size_add(g.tokens, &g.n_tokens, tokens[i]);
    size_add(g.tokens, &g.n_tokens, own);
    if (b->o->probe) // a second length, by which a wide one's chunk is continued
        size_add(g.tokens, &g.n_tokens, round_up(own / 4, TOKENS_STEP));
    return g;
}

static int has_layer(const struct machine_file *m, enum dtype dt, size_t width, size_t tokens)
{
    for (const struct machine_layer *p = m->layer; p < m->layer + m->n_layers; p++)
        if (p->dt == dt && (size_t)p->width == width && (size_t)p->tokens == tokens)
            return 1;
    return 0;
}

static int layers_measure(struct machine_file *m, const struct bench *b, enum dtype dt,
                          struct err *err)
{
    struct grid g = grid_of(b);
    int         rc = 0;

    for (size_t w = 0; w < g.n_widths; w++)
        for (size_t t = 0; t < g.n_tokens && !rc; t++) {
            double C = (double)g.width[w];
            size_t most = (size_t)(g.most / (88 * C * C)) / TOKENS_STEP * TOKENS_STEP,
                   n = size_min(g.tokens[t], size_max(most, (2 + t) * TOKENS_STEP));

            rc = has_layer(m, dt, g.width[w], n) ? 0 : layer_point(m, b, dt, g.width[w], n, err);
        }
    return rc;
}

static int attentions_measure(struct machine_file *m, const struct bench *b, enum dtype dt,
                              struct err *err)
{
    static const size_t sizes[] = { 32, 64, 128 }, rows[] = { 64, 256, 1024 };
    const struct train_opts *o = &b->o->train;
    size_t           own = b->config.n_embd / b->config.n_head, heads = size_max(o->threads, 4);
    struct attention a = { .T = o->seq, .C = b->config.n_embd, .H = b->config.n_head, .dt = dt };

    while (a.T > SHORT_ROW && 7 * (double)a.C * (double)a.T * (double)a.T > MOST_FLOPS_PROBE)
        a.T /= 2; // the longest rows' rate is that of long ones
    a.B = size_max(1, size_min(o->batch, CHUNK_ROWS / a.T));
    int rc = attention_point(m, b, dt, &a, err);
    for (size_t i = 0; i < 3 && !b->o->probe; i++)
        for (size_t t = 0; t < 3 && !rc; t++) {
            a = (struct attention){ .T = rows[t], .C = heads * sizes[i], .H = heads, .dt = dt,
                                    .B = CHUNK_ROWS / rows[t] };
            if (sizes[i] != own || a.T != o->seq)
                rc = attention_point(m, b, dt, &a, err);
        }
    return rc;
}

static int heads_measure(struct machine_file *m, const struct bench *b, enum dtype dt,
                         struct err *err)
{
    static const size_t widths[] = { 128, 1280 };
    int rc = head_point(m, b, dt, size_min(b->config.n_embd, WIDEST), b->config.vocab, err);

    for (size_t i = 0; i < 2 && !rc && !b->o->probe; i++)
        if (widths[i] != b->config.n_embd)
            rc = head_point(m, b, dt, widths[i], b->config.vocab, err);
    return rc;
}

/* The part of a layer's time that does not become less with threads: with one thread it takes
 * s + w, with p of them s + w / p. */
static int serial_measure(struct machine_file *m, const struct bench *b, struct err *err)
{
    enum dtype           dt = (enum dtype)b->o->train.dtype;
    size_t               width = b->o->probe ? 256 : 512;
    double               p = m->threads, many, one;
    struct model_options o = layers_options(b, dt, width, width / HEAD_SIZE, 512, SHORT_ROW);
    struct part_times    t;

    if (p < 2)
        return 0;
    int rc = layer_times(&t, b, &o, err);
    many = median_of(&t, FORWARD) + median_of(&t, BACKWARD);
    o.threads = 1;
    rc = rc ? rc : layer_times(&t, b, &o, err);
    one = median_of(&t, FORWARD) + median_of(&t, BACKWARD);
    omp_set_num_threads((int)b->o->train.threads);
    double w = (one - many) / (1 - 1 / p);
    if (!rc)
        m->serial = fmin(1, fmax(0, (one - w) / many));
    return rc;
}

/* Forward of the layers, so often that it takes some time: seconds. */
static double forward_seconds(struct layers *l, size_t calls)
{
    uint64_t   start_ns = clock_ns();
    struct err err;

    for (size_t i = 0; i < calls; i++)
        for (size_t layer = 1; layer <= LAYERS; layer++) {
            products_begin(l->m.products);
            block_forward(&l->m, layer, 0, l->wire, &err);
        }
    return since(&start_ns);
}

/* The same alone and beside updates, in turn: parameters updated in a second that they took. No
 * thread of computing goes on without the one that an update has stopped, so how much that is does
 * not follow from the cores' time. */
static int beside_turns(double *rate, struct layers *l, struct bench_beside *s, struct err *err)
{
    double warming = forward_seconds(l, 2);
    size_t calls = 1 + (size_t)(BESIDE_NS * 1e-9 / warming);
    double lost[BESIDE_TURNS];

    for (int turn = 0; turn < BESIDE_TURNS; turn++) {
        double alone = forward_seconds(l, calls);
        int    rc = bench_beside_start(s, err);

        if (rc)
            return rc;
        double beside = forward_seconds(l, calls), updated = bench_beside_stop(s, err) * beside;
        if (!(updated > 0))
            return -EIO;
        lost[turn] = (beside - alone) / updated;
    }
    *rate = 1 / fmax(bench_median(lost, BESIDE_TURNS), 1e-12); // noise is no endless rate
    return 0;
}

static int beside_measure(struct machine_file *m, const struct bench *b, struct err *err)
{
    enum dtype           dt = (enum dtype)b->o->train.dtype;
    size_t               width = b->o->probe ? 256 : 512;
    struct model_options o = layers_options(b, dt, width, width / HEAD_SIZE, 1024, SHORT_ROW);
    struct bench_opts    quick_opts = *b->o;
    struct bench         quick = *b;
    struct bench_beside *s = NULL;
    struct layers        l;

    quick_opts.quick = 1;
    quick.o = &quick_opts;
    int rc = layers_open(&l, b, &o, err);
    rc = rc ? rc : bench_beside_open(&s, &quick, err);
    rc = rc ? rc : beside_turns(&m->update.beside, &l, s, err);
    bench_beside_close(s);
    layers_close(&l);
    return rc;
}

/* ---- the section ---- */

static int line_add(void *ctx, const char *name, const char *value, const char *comment)
{
    (void)comment;
    return json_array_append_new(ctx, json_pack("[s, s]", name, value)) ? -ENOMEM : 0;
}

/* The processor, its threads and, in a file that is kept, how busy others were when this began: a
 * prediction from figures of a busy machine says so wherever it is printed. */
static void name_set(struct machine_file *m, const struct bench *b)
{
    char   cpu[96], beside[24] = "";
    double load = 0;

    if (b->o->save && getloadavg(&load, 1) == 1 && load > m->threads / 2)
        snprintf(beside, sizeof beside, ", at a load of %.1f", fmin(load, 999));
    snprintf(m->name, sizeof m->name, "%.80s, %.0f threads%s", machine_cpu(cpu, sizeof cpu),
             fmin(m->threads, 9999), beside);
}

static int save_run(struct bench *b, json_t *lines, struct err *err)
{
    struct machine_file *m = calloc(1, sizeof *m);
    static const enum dtype dts[] = { DT_BF16, DT_F32 };
    int                  rc = 0;

    if (!m)
        return err_set(err, -ENOMEM, "out of memory");
    m->threads = (double)b->o->train.threads;
    name_set(m, b);
    for (size_t i = 0; i < 2 && !rc; i++) {
        if (b->o->probe && dts[i] != (enum dtype)b->o->train.dtype)
            continue;
        rc = layers_measure(m, b, dts[i], err);
        rc = rc ? rc : attentions_measure(m, b, dts[i], err);
        rc = rc ? rc : heads_measure(m, b, dts[i], err);
    }
    rc = rc ? rc : serial_measure(m, b, err);
    rc = rc ? rc : bench_save_passes(m, b, err);
    rc = rc ? rc : bench_save_drives(m, b, err);
    rc = rc ? rc : beside_measure(m, b, err);
    rc = rc ? rc : machine_file_each(m, line_add, lines);
    if (!rc && b->o->save)
        rc = machine_file_write(m, b->o->save, err);
    free(m);
    return rc;
}

static void save_print(const json_t *lines)
{
    const json_t *line;
    size_t        i;

    json_array_foreach(lines, i, line)
        printf("%-14s %s\n", json_string_value(json_array_get(line, 0)),
               json_string_value(json_array_get(line, 1)));
}

const struct bench_section bench_save = {
    .name = "machine_file", .is_rows = 1, .run = save_run, .print = save_print};
