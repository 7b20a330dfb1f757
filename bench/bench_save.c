/* bench_save.c: measures the figures for a prediction (plan/machine_file.h): for `bench --save
 * FILE`, and for `plan`, which needs only the sizes of one model (--probe).
 *
 * Layers are measured as a step runs them (bench_layers.h), one of each kind that has its own
 * passes between products. Attention is measured alone and subtracted: its time
 * grows differently. */
#include "bench/bench_layers.h"

#include "data/base/clock.h"
#include "data/base/machine.h"
#include "data/base/round.h"
#include "model/layer/head.h"

#include <math.h>
#include <omp.h>

enum {
    SHORT_ROW = 64, // of the measured layers
    BESIDE_TURNS = 9, MOST_SIZES = 16, TOKENS_STEP = 16,
    WIDEST = 2560, // two such layers take a gigabyte; wider ones have the same rate
};

/* The most FLOP of a call of the shortest measured chunk, and the most seconds of a longer one,
 * which follow from the shortest's rate: a wide model's chunk is cut only where it takes long. */
#define MOST_FLOPS         4e10
#define MOST_FLOPS_PROBE   2.5e10
#define MOST_SECONDS       0.4
#define MOST_SECONDS_PROBE 0.2

enum { BESIDE_NS = 150 * 1000 * 1000 };

/* ---- points ---- */

static int layer_point(struct machine_file *m, const struct bench *b, enum dtype dt,
                       enum machine_kind kind, size_t width, size_t tokens, struct err *err)
{
    size_t heads = width / HEAD_SIZE ? width / HEAD_SIZE : 1;
    size_t row = SHORT_ROW;
    struct pass_times     all, attention;
    struct machine_layer *p = &m->layer[m->n_layers];

    while (width % heads) // 64 columns per head may not divide the width
        heads--;
    while (tokens % row) // long rows would leave little but attention, which is subtracted
        row--;
    if (m->n_layers == MACHINE_POINTS)
        return 0;
    struct model_options o = layers_options(b, dt, kind, width, heads);
    layers_adapt(&o, b);
    rows_set(&o, tokens, row);
    m->adapted = o.config.lora.rank > 0;
    int rc = layer_times(&all, b, &o, err);
    rc = rc ? rc : attention_times(&attention, &o, err);
    if (rc)
        return rc;
    struct machine_work w = machine_work_of(&o.config, dt, row);
    w.tokens = (double)tokens;
    *p = (struct machine_layer){ dt, kind, (double)width, w.tokens, { 0 } };
    for (unsigned i = 0; i < MACHINE_PASSES; i++) {
        double whole = pass_median(&all, i);
        // because of noise, at least a tenth remains
        double dense = fmax(whole - pass_median(&attention, i), 0.1 * whole);

        p->rate[i] = machine_dense_flop(&w, i) / dense;
    }
    m->n_layers++;
    return 0;
}

static int attention_point(struct machine_file *m, const struct model_options *o, struct err *err)
{
    struct machine_work w = machine_work_of(&o->config, o->dtype, o->seq);
    struct pass_times   t;

    if (m->n_attentions == MACHINE_POINTS)
        return 0;
    w.tokens = (double)(o->batch * o->seq);
    w.seen = arch_seen(&o->config, 1, o->seq); // of the measured layer
    int rc = attention_times(&t, o, err);
    if (!rc)
        m->attention[m->n_attentions++] = (struct machine_attention){
            o->dtype, w.kind, w.head, w.seq,
            { machine_attention_flop(&w, MACHINE_FORWARD) / pass_median(&t, MACHINE_FORWARD),
              machine_attention_flop(&w, MACHINE_BACKWARD) / pass_median(&t, MACHINE_BACKWARD) } };
    return rc;
}

struct head_place { struct layers l; struct head h; };

static void head_turn(void *ctx, struct pass_times *t)
{
    struct head_place *p = ctx;
    struct model      *m = &p->l.m;
    uint64_t           counted = 0, start_ns;

    bench_fill(acts_input(&m->acts, LAYERS + 1, 0), 4 * HEAD_ROWS * m->o.config.n_embd, 1);
    start_ns = clock_ns();
    head_run(m, 0, &p->h, &counted);
    t->seconds[MACHINE_FORWARD][t->n] = pass_since(&start_ns);
}

static int head_point(struct machine_file *m, const struct bench *b, enum dtype dt, size_t width,
                      size_t words, struct err *err)
{
    struct model_options o = { 0 };
    struct pass_times    t;
    struct head_place    p;

    if (m->n_heads == MACHINE_POINTS)
        return 0;
    double most = (b->o->probe ? MOST_FLOPS_PROBE : MOST_FLOPS) / (6.0 * HEAD_ROWS * (double)width);
    words = size_max(size_min(words, (size_t)most), LOGIT_ROWS);
    o = layers_options(b, dt, MACHINE_GPT2, width, 1);
    o.dropout = (struct model_dropout){ 0 };
    rows_set(&o, HEAD_ROWS, SHORT_ROW);
    o.config.vocab = words;
    int rc = layers_open(&p.l, b, &o, err);
    p.h = (struct head){ .wire = p.l.final_wire, .head_wire = p.l.embed_wire, .trains = 1,
                         .fresh = 1, .grad = p.l.final_grad, .head_grad = p.l.embed_grad,
                         .scale = 1e-3f };
    if (!rc)
        pass_measure(&t, head_turn, &p);
    layers_close(&p.l);
    if (!rc)
        m->head[m->n_heads++] = (struct machine_head){
            dt, (double)width,
            6 * (double)width * (double)words * HEAD_ROWS / pass_median(&t, MACHINE_FORWARD) };
    return rc;
}

/* ---- the sizes that are measured ---- */

struct grid { size_t n_widths, width[MOST_SIZES], n_tokens, tokens[MOST_SIZES]; double most; };

/* Kinds of layers other than the model's are measured only for a file. */
static int has_kind(const struct bench *b, enum machine_kind kind)
{
    return !b->o->probe || kind == machine_kind_of(b->config.arch);
}

static void size_add(size_t *list, size_t *n, size_t x)
{
    for (size_t i = 0; i < *n; i++)
        if (list[i] == x)
            return;
    if (x && *n < MOST_SIZES)
        list[(*n)++] = x;
}

/* Widths and chunk lengths around which most models lie, and the model's own. */
static struct grid grid_of(const struct bench *b, enum machine_kind kind)
{
    static const size_t widths[] = { 128, 512, 1600 }, tokens[] = { 64, 1024 };
    size_t      own = size_min(b->o->train.batch * b->o->train.seq, CHUNK_ROWS);
    struct grid g = { .most = b->o->probe ? MOST_FLOPS_PROBE : MOST_FLOPS };

    if (kind == machine_kind_of(b->config.arch))
        size_add(g.width, &g.n_widths, size_min(b->config.n_embd, WIDEST));
    for (size_t i = 0; i < 3 && !b->o->probe; i++)
        size_add(g.width, &g.n_widths, widths[i]);
    for (size_t i = 0; i < 2 && !b->o->probe; i++)
        size_add(g.tokens, &g.n_tokens, tokens[i]);
    size_add(g.tokens, &g.n_tokens, own);
    if (b->o->probe) // a second length, from which a wide model's whole chunk is extrapolated
        size_add(g.tokens, &g.n_tokens, round_up(own / 4, TOKENS_STEP));
    for (size_t i = 1; i < g.n_tokens; i++) // the shortest first
        for (size_t j = i; j && g.tokens[j] < g.tokens[j - 1]; j--) {
            size_t t = g.tokens[j];

            g.tokens[j] = g.tokens[j - 1];
            g.tokens[j - 1] = t;
        }
    return g;
}

/* The longest chunk whose call takes at most MOST_SECONDS, from the rate of the chunk p. */
static size_t longest_of(const struct machine_layer *p, const struct bench *b, double flop)
{
    double seconds = flop * (1 / p->rate[MACHINE_FORWARD] + 2 / p->rate[MACHINE_BACKWARD] +
                             1 / p->rate[MACHINE_AGAIN]) / 4;
    double most = (b->o->probe ? MOST_SECONDS_PROBE : MOST_SECONDS) / seconds;

    return (size_t)fmin(most, CHUNK_ROWS) / TOKENS_STEP * TOKENS_STEP;
}

static int layers_measure(struct machine_file *m, const struct bench *b, enum dtype dt,
                          enum machine_kind kind, struct err *err)
{
    struct grid g = grid_of(b, kind);
    int         rc = 0;

    for (size_t w = 0; w < g.n_widths; w++) {
        double flop = 88 * (double)g.width[w] * (double)g.width[w]; // of a token, both passes
        size_t most = size_max((size_t)(g.most / flop) / TOKENS_STEP, 2) * TOKENS_STEP;

        for (size_t t = 0; t < g.n_tokens && !rc; t++) {
            size_t n = size_min(g.tokens[t], most);

            rc = layer_point(m, b, dt, kind, g.width[w], n, err);
            if (!rc)
                most = size_max(longest_of(&m->layer[m->n_layers - 1], b, flop), 2 * n);
        }
    }
    return rc;
}

static int attention_own(struct machine_file *m, const struct bench *b, enum dtype dt,
                         struct err *err)
{
    const struct train_opts *o = &b->o->train;
    struct model_options own = layers_options(b, dt, machine_kind_of(b->config.arch),
                                              b->config.n_embd, 0);
    double columns = (double)arch_dim(&b->config, DIM_HEADS);
    size_t T = o->seq;

    while (T > SHORT_ROW && 7 * columns * (double)T * (double)T > MOST_FLOPS_PROBE)
        T /= 2; // very long rows have the rate of long ones
    rows_set(&own, T * size_max(1, size_min(o->batch, CHUNK_ROWS / T)), T);
    return attention_point(m, &own, err);
}

static int has_attention(const struct machine_file *m, enum dtype dt, enum machine_kind kind,
                         size_t head, size_t row)
{
    for (const struct machine_attention *p = m->attention; p < m->attention + m->n_attentions; p++)
        if (p->dt == dt && p->kind == kind && (size_t)p->head == head && (size_t)p->seq == row)
            return 1;
    return 0;
}

static int attentions_measure(struct machine_file *m, const struct bench *b, enum dtype dt,
                              enum machine_kind kind, struct err *err)
{
    static const size_t sizes[] = { 32, 64, 128 }, rows[] = { 64, 256, 1024 };
    size_t heads = size_max(b->o->train.threads, 4);
    int    rc = kind == machine_kind_of(b->config.arch) ? attention_own(m, b, dt, err) : 0;

    for (size_t i = 0; i < 3 && !b->o->probe; i++)
        for (size_t t = 0; t < 3 && !rc; t++) {
            struct model_options o = layers_options(b, dt, kind, heads * sizes[i], heads);

            rows_set(&o, CHUNK_ROWS, rows[t]);
            if (!has_attention(m, dt, kind, sizes[i], rows[t]))
                rc = attention_point(m, &o, err);
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

/* Measures s, the time of a layer that more threads do not shorten: p threads take s + w / p. */
static int serial_measure(struct machine_file *m, const struct bench *b, struct err *err)
{
    enum dtype           dt = (enum dtype)b->o->train.dtype;
    size_t               width = b->o->probe ? 256 : 512;
    double               p = m->threads, many, one;
    struct model_options o = layers_options(b, dt, MACHINE_GPT2, width, width / HEAD_SIZE);
    struct pass_times    t;

    if (p < 2)
        return 0;
    rows_set(&o, 512, SHORT_ROW);
    int rc = layer_times(&t, b, &o, err);
    many = pass_median(&t, MACHINE_FORWARD) + pass_median(&t, MACHINE_BACKWARD);
    o.threads = 1;
    rc = rc ? rc : layer_times(&t, b, &o, err);
    one = pass_median(&t, MACHINE_FORWARD) + pass_median(&t, MACHINE_BACKWARD);
    omp_set_num_threads((int)b->o->train.threads);
    double w = (one - many) / (1 - 1 / p);
    if (!rc)
        m->serial = fmin(1, fmax(0, (one - w) / many));
    return rc;
}

/* Measures forward of layers alone and during updates, in turn. The result is the number of
 * parameters updated per second that updates took from forward. This does not follow from the
 * cores' time, because threads wait for the one that an update has stopped. */
static int beside_turns(double *rate, struct layers *l, struct bench_beside *s, struct err *err)
{
    double warming = layers_forward(l, 2);
    size_t calls = 1 + (size_t)(BESIDE_NS * 1e-9 / warming);
    double lost[BESIDE_TURNS];

    for (int turn = 0; turn < BESIDE_TURNS; turn++) {
        double alone = layers_forward(l, calls);
        int    rc = bench_beside_start(s, err);

        if (rc)
            return rc;
        double beside = layers_forward(l, calls), updated = bench_beside_stop(s, err) * beside;
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
    struct model_options o = layers_options(b, dt, MACHINE_GPT2, width, width / HEAD_SIZE);
    struct bench_opts    quick_opts = *b->o;
    struct bench         quick = *b;
    struct bench_beside *s = NULL;
    struct layers        l;

    rows_set(&o, 1024, SHORT_ROW);
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

/* Names the processor, its threads and, in a file that is kept, how busy the machine was at the
 * start: a prediction from a busy machine says so wherever it is printed. */
static void name_set(struct machine_file *m, const struct bench *b)
{
    char   cpu[96], beside[24] = "";
    double load = 0;

    if (b->o->save && getloadavg(&load, 1) == 1 && load > m->threads / 2)
        snprintf(beside, sizeof beside, ", at a load of %.1f", fmin(load, 999));
    snprintf(m->name, sizeof m->name, "%.80s, %.0f threads%s", machine_cpu(cpu, sizeof cpu),
             fmin(m->threads, 9999), beside);
}

int bench_save_machine(struct machine_file *m, struct bench *b, struct err *err)
{
    static const enum dtype dts[] = { DT_BF16, DT_F32 };
    int                     rc = 0;

    m->threads = (double)b->o->train.threads;
    name_set(m, b);
    for (size_t i = 0; i < 2 && !rc; i++) {
        if (b->o->probe && dts[i] != (enum dtype)b->o->train.dtype)
            continue;
        for (enum machine_kind kind = 0; kind < MACHINE_KINDS && !rc; kind++)
            if (has_kind(b, kind)) {
                rc = layers_measure(m, b, dts[i], kind, err);
                rc = rc ? rc : attentions_measure(m, b, dts[i], kind, err);
            }
        rc = rc ? rc : heads_measure(m, b, dts[i], err);
    }
    rc = rc ? rc : serial_measure(m, b, err);
    rc = rc ? rc : bench_save_passes(m, b, err);
    rc = rc ? rc : bench_save_drives(m, b, err);
    return rc ? rc : beside_measure(m, b, err);
}

static int save_run(struct bench *b, json_t *lines, struct err *err)
{
    struct machine_file *m = calloc(1, sizeof *m);
    int rc = m ? bench_save_machine(m, b, err) : err_set(err, -ENOMEM, "out of memory");

    rc = rc ? rc : machine_file_each(m, line_add, lines);
    char *text = !rc && b->o->save ? machine_file_text(m, err) : NULL;
    if (!rc && b->o->save)
        rc = text ? bench_output(b->o, OUTPUT_MACHINE, text, err) : -ENOMEM;
    free(text);
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
