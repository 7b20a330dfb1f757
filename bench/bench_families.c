/* bench_families.c: the kernels that GPT-2 does without, of Llama, Qwen and Mistral, of Gemma, of
 * BERT and RoBERTa, and of heads in pieces, at the sizes of the model that bench is given. What
 * such a model does not have, a window, heads that share keys, is some part of what it has. */
#include "bench/bench_families.h"
#include "data/base/round.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/softmax.h"
#include "kernels/swiglu.h"
#include "model/products.h"

enum {
    RMSNORM_FORWARD = FAMILIES, RMSNORM_RESIDUAL, RMSNORM_BACKWARD, RMSNORM_BACKWARD_ROWS,
    RMSNORM_BACKWARD_ALL, PLUS_FORWARD, PLUS_ADD, PLUS_BACKWARD, PLUS_BACKWARD_ROWS,
    PLUS_BACKWARD_WRITTEN, HEADS_FORWARD, HEADS_BACKWARD, SWIGLU_FORWARD, SWIGLU_BACKWARD,
    GEGLU_FORWARD, GEGLU_BACKWARD, ROPE_FORWARD, ROPE_BACKWARD, SCALE, WIDE_FORWARD, WIDE_APPLY,
    WIDE_BACKWARD, GELU_ERF_FORWARD, GELU_ERF_BACKWARD, COPY, WORDS_FORWARD, WORDS_BACKWARD,
    TYPES_FORWARD, TYPES_BACKWARD, LOGITS_COLSUM, PIECE_SOFTMAX, PIECE_GRADIENT, PIECE_ROWS,
    GROUPED_FORWARD, GROUPED_BACKWARD, WINDOW_FORWARD, WINDOW_BACKWARD, WHOLE_FORWARD,
    WHOLE_BACKWARD, PADDED_FORWARD, PADDED_BACKWARD, DECODE, DECODE_GROUPED,
};

/* Heads of keys and values that are fewer than those of queries: the model's, or some that go into
 * these. */
static size_t shared_of(const struct sizes *s)
{
    if (s->KV < s->H)
        return s->KV;
    for (size_t group = 4; group > 1; group--)
        if (s->H % group == 0)
            return s->H / group;
    return 1;
}

static size_t window_of(const struct sizes *s)
{
    return s->W ? size_min(s->W, s->T) : size_max(s->T / 4, 1);
}

static size_t length_of(const struct sizes *s) { return size_max(s->T * 3 / 4, 1); }

/* ---- attention ---- */

static struct attention attention_of(int which, const struct sizes *s, void *const *p)
{
    struct attention a = {.B = s->B, .T = s->T, .C = s->Q, .H = s->H, .dt = s->dt, .qkv = p[0],
                          .out = p[1], .lse = p[2], .scratch = p[3]};

    if (which == GROUPED_FORWARD || which == GROUPED_BACKWARD) {
        a.KV = shared_of(s);
    } else if (which == WINDOW_FORWARD || which == WINDOW_BACKWARD) {
        a.KV = s->KV;
        a.kind = ATTENTION_WINDOW;
        a.window = window_of(s);
    } else {
        a.kind = ATTENTION_BIDIRECTIONAL;
        a.lengths = which == PADDED_FORWARD || which == PADDED_BACKWARD ? s->lengths : NULL;
    }
    return a;
}

/* Attention in other kinds than GPT-2's. */
static void run_attention(int which, const struct sizes *s, void *const *p)
{
    struct attention        a = attention_of(which, s, p);
    struct attention_cached c = {.B = s->B, .T = s->T, .max_T = s->T, .C = s->Q, .H = s->H,
                                 .KV = which == DECODE ? s->H : shared_of(s), .dt = s->dt,
                                 .qkv = p[1], .k = p[2], .v = p[4], .scratch = p[3]};

    switch (which) {
    case GROUPED_FORWARD:
    case WINDOW_FORWARD:
    case WHOLE_FORWARD:
    case PADDED_FORWARD:
        attention_forward(&a);
        break;
    case GROUPED_BACKWARD:
    case WINDOW_BACKWARD:
    case WHOLE_BACKWARD:
    case PADDED_BACKWARD:
        attention_backward(p[4], p[5], &a);
        break;
    case DECODE:
    case DECODE_GROUPED:
        attention_decode(p[0], &c);
        break;
    default:;
    }
}

/* ---- Llama, Qwen, Mistral; Gemma ---- */

/* RMSNorm, with weights as they are or with 1 added to them. */
static void run_rms(int which, const struct sizes *s, void *const *p)
{
    struct rmsnorm r = {s->N, s->C, s->dt, p[0], p[1], p[2], 1e-5f, which >= PLUS_FORWARD ? 1 : 0};
    int            rows = which == RMSNORM_BACKWARD_ROWS || which == RMSNORM_BACKWARD_ALL ||
                          which == PLUS_BACKWARD_ROWS;
    int            rounds = s->dt != DT_F32 && (which == RMSNORM_BACKWARD_ALL ||
                                                which == PLUS_BACKWARD_WRITTEN);

    switch (which) {
    case RMSNORM_FORWARD:
    case PLUS_FORWARD:
        rmsnorm_forward(p[3], &r);
        break;
    case RMSNORM_RESIDUAL:
        r.x = p[4];
        rmsnorm_residual(p[5], p[0], p[3], &r);
        break;
    case PLUS_ADD:
        rmsnorm_add(p[4], p[3], &r);
        break;
    default:
        rmsnorm_backward(&(struct rmsnorm_backward){
            .r = &r, .dout = p[3], .dx = p[4], .fresh = which == PLUS_BACKWARD_WRITTEN, .dw = p[5],
            .scratch = p[6], .narrowed = rounds ? p[7] : NULL, .out = rows ? p[8] : NULL});
    }
}

static void run_llama(int which, const struct sizes *s, void *const *p)
{
    struct rmsnorm_heads heads = {.n = s->N, .H = s->H + s->KV, .D = s->D, .stride = s->qkv,
                                  .dt = s->dt, .x = p[0], .w = p[1], .rstd = p[2], .eps = 1e-5f,
                                  .plus = s->plus};
    struct swiglu        g = {s->N, s->F, 2 * s->F, s->dt, p[0], dtype_at(p[0], s->dt, s->F),
                              which == GEGLU_FORWARD || which == GEGLU_BACKWARD ? GLU_GELU
                                                                                : GLU_SILU};
    struct rope_rows     o = {s->N, s->H + s->KV, s->head, s->qkv, s->dt, p[0], s->angles, s->T, 0};

    switch (which) {
    case HEADS_FORWARD:
        rmsnorm_heads_forward(p[3], &heads);
        break;
    case HEADS_BACKWARD:
        rmsnorm_heads_backward(&(struct rmsnorm_heads_backward){
            .r = &heads, .d = p[3], .dw = p[4], .scratch = p[5]});
        break;
    case SWIGLU_FORWARD:
    case GEGLU_FORWARD:
        swiglu_forward(p[1], &g);
        break;
    case SWIGLU_BACKWARD:
    case GEGLU_BACKWARD:
        swiglu_backward(&(struct swiglu_backward){
            .s = &g, .dout = p[1], .out = p[2], .dgate = p[3],
            .dup = dtype_at(p[3], s->dt, s->F)});
        break;
    case ROPE_FORWARD:
        rope_forward(&o);
        break;
    case ROPE_BACKWARD:
        rope_backward(&o);
        break;
    case SCALE:
        floats_scale(p[0], 1, s->btc);
        break;
    default:
        run_attention(which, s, p);
    }
}

/* ---- BERT, RoBERTa ---- */

static void run_bert(int which, const struct sizes *s, void *const *p)
{
    struct layernorm l = {.n = s->N, .C = s->C, .dt = s->dt, .x = p[0], .w = p[1], .b = p[2],
                          .mean = p[3], .rstd = p[4], .eps = 1e-5f, .wide = p[5]};

    switch (which) {
    case WIDE_FORWARD:
        layernorm_forward(NULL, &l);
        break;
    case WIDE_APPLY:
        layernorm_apply(NULL, &l);
        break;
    case WIDE_BACKWARD:
        l.wide = NULL;
        layernorm_backward(&(struct layernorm_backward){
            .l = &l, .dout = p[8], .dx = p[5], .fresh = 1, .dw = p[6], .db = p[7],
            .scratch = p[9], .dx_sums = p[10], .narrowed = s->dt == DT_F32 ? NULL : p[11]});
        break;
    case GELU_ERF_FORWARD:
        gelu_erf_forward(p[1], p[0], s->dt, s->N * s->F);
        break;
    case GELU_ERF_BACKWARD:
        gelu_erf_backward(&(struct gelu_backward){.n = s->N, .C = s->F, .dt = s->dt, .x = p[0],
                                                  .dout = p[1], .out = p[2], .dx = p[3],
                                                  .db = p[4], .scratch = p[5]});
        break;
    case COPY:
        memcpy(p[1], p[0], 4 * s->n);
        break;
    case LOGITS_COLSUM:
        colsum_add(p[2], NULL, p[0], s->dt, s->logit_rows, s->V, p[1]);
        break;
    case TYPES_FORWARD:
        embedding_add(p[1], p[0], s->dt, s->types, s->bt, s->C);
        break;
    case TYPES_BACKWARD:
        embedding_piece_backward(p[0], p[1], (struct embedding_piece){ 0, 2 }, s->types, s->bt,
                                 s->C);
        break;
    default:
        run_llama(which, s, p);
    }
}

/* ---- words without positions, and in pieces ---- */

void families_run(int which, const struct sizes *s, void *const *p)
{
    struct embedding_piece words = { 0, TABLE_ROWS };
    struct softmax_piece   piece = {.n = s->logit_rows, .V = s->V, .logits = p[0],
                                    .split = products_split(s->V, s->dt), .targets = s->targets,
                                    .so_far = p[1], .out = p[2], .dt = s->dt};

    switch (which) {
    case WORDS_FORWARD:
        embedding_piece_forward(p[1], p[0], s->dt, words, s->tokens, s->bt, s->C);
        break;
    case WORDS_BACKWARD:
        embedding_piece_backward(p[0], p[1], words, s->tokens, s->bt, s->C);
        break;
    case PIECE_SOFTMAX:
        softmax_begin(piece.so_far, piece.n);
        softmax_add(&piece, p[3]);
        break;
    case PIECE_GRADIENT:
        for (size_t i = 0; i < piece.n; i++)
            piece.so_far[i] = (struct softmax_so_far){ .sum = (double)s->V, .top = 1 };
        softmax_gradient(&piece, 1e-3f);
        break;
    case PIECE_ROWS:
        softmax_rows_add(p[0], p[1], p[2], s->logit_rows, s->C);
        break;
    default:
        if (which <= PLUS_BACKWARD_WRITTEN)
            run_rms(which, s, p);
        else
            run_bert(which, s, p);
    }
}

/* ---- their rows ---- */

static size_t put(struct kernel *out, const struct kernel *rows, size_t bytes)
{
    memcpy(out, rows, bytes);
    return bytes / sizeof *rows;
}

static size_t rms_of(struct kernel *out, const struct sizes *s)
{
    size_t N = s->N, C = s->C, e = s->e, n4 = 4 * s->n, sums = colsum_scratch(N, C),
           rounded = s->dt == DT_F32 ? 0 : 2 * s->n;
    const struct kernel all[] = {
        {"rmsnorm forward", N, C, 4, RMSNORM_FORWARD,
         .p = {{IN, n4}, {IN, e * C}, {OUT, 4 * N}, {OUT, e * s->n}}},
        {"residual and rmsnorm", N, C, 5, RMSNORM_RESIDUAL,
         .p = {{IN, n4}, {IN, e * C}, {OUT, 4 * N}, {IN, n4}, {OUT, n4}, {OUT, e * s->n}}},
        {"rmsnorm backward", N, C, 11, RMSNORM_BACKWARD,
         .p = {{IN, n4}, {IN, e * C}, {IN, 4 * N}, {IN, n4}, {BOTH, n4}, {BOTH, 4 * C},
               {CACHED, sums}}},
        {"rmsnorm backward, rows", N, C, 12, RMSNORM_BACKWARD_ROWS,
         .p = {{IN, n4}, {IN, e * C}, {IN, 4 * N}, {IN, n4}, {BOTH, n4}, {BOTH, 4 * C},
               {CACHED, sums}, {CACHED, 0}, {OUT, e * s->n}}},
        {"rmsnorm backward, rows, rounding", N, C, 12, RMSNORM_BACKWARD_ALL,
         .p = {{IN, n4}, {IN, e * C}, {IN, 4 * N}, {IN, n4}, {BOTH, n4}, {BOTH, 4 * C},
               {CACHED, sums}, {OUT, rounded}, {OUT, e * s->n}}},
        {"rmsnorm (1 + w) forward", N, C, 4, PLUS_FORWARD,
         .p = {{IN, n4}, {IN, e * C}, {OUT, 4 * N}, {OUT, e * s->n}}},
        {"rmsnorm (1 + w) and sum", N, C, 5, PLUS_ADD,
         .p = {{IN, n4}, {IN, e * C}, {OUT, 4 * N}, {IN, n4}, {OUT, n4}}},
        {"rmsnorm (1 + w) backward", N, C, 11, PLUS_BACKWARD,
         .p = {{IN, n4}, {IN, e * C}, {IN, 4 * N}, {IN, n4}, {BOTH, n4}, {BOTH, 4 * C},
               {CACHED, sums}}},
        {"rmsnorm (1 + w) backward, rows", N, C, 12, PLUS_BACKWARD_ROWS,
         .p = {{IN, n4}, {IN, e * C}, {IN, 4 * N}, {IN, n4}, {BOTH, n4}, {BOTH, 4 * C},
               {CACHED, sums}, {CACHED, 0}, {OUT, e * s->n}}},
        {"rmsnorm (1 + w) backward, written", N, C, 10, PLUS_BACKWARD_WRITTEN, // and rounded
         .p = {{IN, n4}, {IN, e * C}, {IN, 4 * N}, {IN, n4}, {OUT, n4}, {BOTH, 4 * C},
               {CACHED, sums}, {OUT, rounded}}},
    };

    return put(out, all, sizeof all);
}

static size_t llama_of(struct kernel *out, const struct sizes *s)
{
    size_t N = s->N, e = s->e, D = s->D, F = s->F, nF = N * F, heads = s->H + s->KV,
           turns = heads * s->head;
    struct operand qkv = {CACHED, e * N * s->qkv}; // a part of it counts: queries and keys
    double turned = (double)(N * turns * e), normed = (double)(e * N * heads * D);
    const struct kernel all[] = {
        {"rmsnorm of heads", N, heads * D, 4, HEADS_FORWARD,
         .p = {qkv, {IN, e * D}, {OUT, 4 * N * heads}, qkv}, .reads = normed, .writes = normed},
        {"rmsnorm of heads, backward", N, heads * D, 10, HEADS_BACKWARD,
         .p = {qkv, {IN, e * D}, {IN, 4 * N * heads}, qkv, {BOTH, 4 * D},
               {CACHED, colsum_scratch(N, D)}}, .reads = 2 * normed, .writes = normed},
        {"swiglu forward", N, F, FLOPS_EXP + 3, SWIGLU_FORWARD,
         .p = {{IN, 2 * e * nF}, {OUT, e * nF}}},
        {"swiglu backward", N, F, FLOPS_EXP + 12, SWIGLU_BACKWARD, // and the value once more
         .p = {{IN, 2 * e * nF}, {IN, 4 * nF}, {OUT, e * nF}, {OUT, 2 * e * nF}}},
        {"geglu forward", N, F, FLOPS_EXP + 11, GEGLU_FORWARD,
         .p = {{IN, 2 * e * nF}, {OUT, e * nF}}},
        {"geglu backward", N, F, FLOPS_EXP + 23, GEGLU_BACKWARD,
         .p = {{IN, 2 * e * nF}, {IN, 4 * nF}, {OUT, e * nF}, {OUT, 2 * e * nF}}},
        {"rope forward", N, turns, 3, ROPE_FORWARD, .p = {qkv}, .reads = turned, .writes = turned},
        {"rope backward", N, turns, 3, ROPE_BACKWARD, .p = {qkv}, .reads = turned,
         .writes = turned},
        {"scaling of embeddings", s->bt, s->C, 1, SCALE, .p = {{BOTH, 4 * s->btc}}},
    };

    return put(out, all, sizeof all);
}

static size_t bert_of(struct kernel *out, const struct sizes *s)
{
    size_t N = s->N, C = s->C, e = s->e, n4 = 4 * s->n, F = s->F, nF = N * F, btc = s->btc;
    const struct kernel all[] = {
        {"layernorm forward, wide", N, C, 8, WIDE_FORWARD,
         .p = {{IN, n4}, {IN, e * C}, {IN, e * C}, {OUT, 4 * N}, {OUT, 4 * N}, {OUT, n4}}},
        {"layernorm apply, wide", N, C, 4, WIDE_APPLY,
         .p = {{IN, n4}, {IN, e * C}, {IN, e * C}, {IN, 4 * N}, {IN, 4 * N}, {OUT, n4}}},
        {"layernorm backward, written", N, C, 16, WIDE_BACKWARD, // sums and rounding
         .p = {{IN, n4}, {IN, e * C}, {CACHED, e * C}, {IN, 4 * N}, {IN, 4 * N}, {OUT, n4},
               {BOTH, 4 * C}, {BOTH, 4 * C}, {IN, n4}, {CACHED, colsum_scratch(N, 3 * C)},
               {BOTH, 4 * C}, {OUT, s->dt == DT_F32 ? 0 : 2 * s->n}}},
        {"gelu (erf) forward", N, F, FLOPS_EXP + 25, GELU_ERF_FORWARD,
         .p = {{IN, e * nF}, {OUT, e * nF}}},
        {"gelu (erf) backward", N, F, FLOPS_EXP + 30, GELU_ERF_BACKWARD,
         .p = {{IN, e * nF}, {IN, 4 * nF}, {OUT, e * nF}, {OUT, e * nF}, {BOTH, 4 * F},
               {CACHED, colsum_scratch(N, F)}}},
        {"copy", N, C, 0, COPY, .p = {{IN, n4}, {OUT, n4}}, .one_thread = 1},
        {"sum of columns of logits", s->logit_rows, s->V, 1, LOGITS_COLSUM,
         .p = {{IN, e * s->logit_rows * s->V}, {CACHED, colsum_scratch(s->logit_rows, s->V)},
               {BOTH, 4 * s->V}}},
        {"embedding of types", s->bt, C, 1, TYPES_FORWARD,
         .p = {{CACHED, 2 * e * C}, {BOTH, 4 * btc}}},
        {"embedding of types, backward", s->bt, C, 1, TYPES_BACKWARD,
         .p = {{CACHED, 8 * C}, {IN, 4 * btc}}},
    };

    return put(out, all, sizeof all);
}

static size_t words_of(struct kernel *out, const struct sizes *s)
{
    size_t C = s->C, e = s->e, btc = s->btc, words = TABLE_ROWS * C, rows = s->logit_rows,
           V = s->V, so_far = rows * sizeof(struct softmax_so_far);
    double read = (double)(e * btc), added = 4 * (double)btc;
    const struct kernel all[] = {
        {"embedding, no positions", s->bt, C, 0, WORDS_FORWARD,
         .p = {{CACHED, e * words}, {OUT, 4 * btc}}, .reads = read},
        {"embedding backward, no positions", s->bt, C, 1, WORDS_BACKWARD,
         .p = {{CACHED, 4 * words}, {IN, 4 * btc}}, .reads = added, .writes = added},
        {"softmax of a piece", rows, V, FLOPS_EXP + 3, PIECE_SOFTMAX,
         .p = {{IN, 4 * rows * V}, {CACHED, so_far}, {OUT, e * rows * V}, {OUT, 4 * rows}}},
        {"gradient of a piece", rows, V, FLOPS_EXP + 2, PIECE_GRADIENT,
         .p = {{IN, 4 * rows * V}, {CACHED, so_far}, {OUT, e * rows * V}}},
        {"rows of a piece, added", rows, C, 2, PIECE_ROWS,
         .p = {{BOTH, 4 * rows * C}, {IN, 4 * rows}, {IN, 4 * rows * C}}},
    };

    return put(out, all, sizeof all);
}

/* Attention forward and backward, with KV heads of keys and values. pairs: of a query and a key
 * that it sees, in a row of T; seen: tokens of it that are text. */
static size_t pair_of(struct kernel *out, const struct sizes *s, int which, size_t KV,
                      const char *const names[2])
{
    size_t T = s->T, W = which == WINDOW_FORWARD ? window_of(s) : T, btq = s->bt * s->Q, e = s->e,
           seen = which == PADDED_FORWARD ? length_of(s) : T, lse = 4 * s->B * s->H * T,
           kv = s->bt * KV * s->D, scratch = attention_scratch(T, s->Q, s->H, KV, s->threads);
    double pairs = which == PADDED_FORWARD || which == WHOLE_FORWARD
                       ? (double)seen * (double)seen
                       : (double)W * (double)(2 * T - W + 1) / 2;
    double text = (double)seen / (double)T, each = pairs / (double)T;
    size_t qkv = e * (size_t)(text * (double)(btq + 2 * kv)), in = e * (size_t)(text * (double)btq);
    size_t row = e * (btq + 2 * kv), out_bytes = e * btq; // what is taken; padding is not read
    const struct kernel all[] = {
        {names[0], s->bt, s->Q, 4 * each, which,
         .p = {{CACHED, row}, {OUT, out_bytes}, {OUT, lse}, {CACHED, scratch}}, .products = 1,
         .reads = (double)qkv},
        {names[1], s->bt, s->Q, 10 * each, which + 1,
         .p = {{CACHED, row}, {CACHED, out_bytes}, {IN, lse}, {CACHED, scratch}, {OUT, row},
               {CACHED, out_bytes}}, .products = 1, .reads = (double)(qkv + 2 * in)},
    };

    return put(out, all, sizeof all);
}

static size_t attention_rows(struct kernel *out, const struct sizes *s)
{
    static const char *const grouped[] = {"grouped attention forward",
                                          "grouped attention backward"},
                      *const window[] = {"windowed attention forward",
                                         "windowed attention backward"},
                      *const whole[] = {"bidirectional attention forward",
                                        "bidirectional attention backward"},
                      *const padded[] = {"padded attention forward",
                                         "padded attention backward"};
    size_t Q = s->Q, e = s->e, KV = shared_of(s), K = KV * s->D,
           scratch = attention_scratch(s->T, Q, s->H, KV, s->threads), cache = e * s->B * s->T;
    double T = (double)s->T;
    const struct kernel decode[] = {
        {"decoding attention", s->B, Q, 4 * T, DECODE,
         .p = {{OUT, e * s->B * Q}, {IN, e * s->B * 3 * Q}, {IN, cache * Q}, {CACHED, scratch},
               {IN, cache * Q}}},
        {"decoding attention, grouped", s->B, Q, 4 * T, DECODE_GROUPED,
         .p = {{OUT, e * s->B * Q}, {IN, e * s->B * (Q + 2 * K)}, {IN, cache * K},
               {CACHED, scratch}, {IN, cache * K}}},
    };
    size_t n = pair_of(out, s, GROUPED_FORWARD, KV, grouped);

    n += pair_of(out + n, s, WINDOW_FORWARD, s->KV, window);
    n += pair_of(out + n, s, WHOLE_FORWARD, s->H, whole);
    n += pair_of(out + n, s, PADDED_FORWARD, s->H, padded);
    return n + put(out + n, decode, sizeof decode);
}

size_t families_of(struct kernel *out, const struct sizes *s)
{
    size_t n = rms_of(out, s);

    n += llama_of(out + n, s);
    n += bert_of(out + n, s);
    n += words_of(out + n, s);
    return n + attention_rows(out + n, s);
}
