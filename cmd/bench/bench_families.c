/* bench_families.c: the kernels that GPT-2 does without: those of Llama, Qwen and Mistral, and of
 * BERT and RoBERTa, at the width and with the heads of the model that bench is given. */
#include "cmd/bench/bench_families.h"
#include "data/base/round.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

enum {
    RMSNORM_FORWARD = FAMILIES, RMSNORM_RESIDUAL, RMSNORM_BACKWARD, HEADS_FORWARD, HEADS_BACKWARD,
    SWIGLU_FORWARD, SWIGLU_BACKWARD, ROPE_FORWARD, ROPE_BACKWARD, POST_NORM, GELU_ERF_FORWARD,
    GELU_ERF_BACKWARD, WORDS_FORWARD, TYPES_FORWARD, GROUPED_FORWARD, GROUPED_BACKWARD,
    WINDOW_FORWARD, WINDOW_BACKWARD, PADDED_FORWARD, PADDED_BACKWARD, DECODE, DECODE_GROUPED,
};

/* How many heads of queries share one of keys and values: some, of those that go into H. */
static size_t group_of(const struct sizes *s)
{
    for (size_t group = 4; group > 1; group--)
        if (s->H % group == 0)
            return group;
    return s->H;
}

static size_t window_of(const struct sizes *s) { return size_max(s->T / 4, 1); }

static size_t length_of(const struct sizes *s) { return size_max(s->T * 3 / 4, 1); }

static struct attention attention_of(int which, const struct sizes *s, void *const *p)
{
    struct attention a = {.B = s->B, .T = s->T, .C = s->C, .H = s->H, .dt = s->dt, .qkv = p[0],
                          .out = p[1], .lse = p[2], .scratch = p[3]};

    if (which == GROUPED_FORWARD || which == GROUPED_BACKWARD) {
        a.KV = s->H / group_of(s);
    } else if (which == WINDOW_FORWARD || which == WINDOW_BACKWARD) {
        a.kind = ATTENTION_WINDOW;
        a.window = window_of(s);
    } else {
        a.kind = ATTENTION_BIDIRECTIONAL;
        a.lengths = s->lengths;
    }
    return a;
}

/* Attention in other kinds than GPT-2's. */
static void run_attention(int which, const struct sizes *s, void *const *p)
{
    struct attention        a = attention_of(which, s, p);
    struct attention_cached c = {.B = s->B, .T = s->T, .max_T = s->T, .C = s->C, .H = s->H,
                                 .KV = which == DECODE ? s->H : s->H / group_of(s), .dt = s->dt,
                                 .qkv = p[1], .k = p[2], .v = p[4], .scratch = p[3]};

    switch (which) {
    case GROUPED_FORWARD:
    case WINDOW_FORWARD:
    case PADDED_FORWARD:
        attention_forward(&a);
        break;
    case GROUPED_BACKWARD:
    case WINDOW_BACKWARD:
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

/* Llama's, Qwen's, Mistral's; p: the operands as they stand in families_of. */
static void run_llama(int which, const struct sizes *s, void *const *p)
{
    struct rmsnorm       r = {s->N, s->C, s->dt, p[0], p[1], p[2], 1e-5f, 0};
    struct rmsnorm_heads q = {.n = s->N, .H = s->H, .D = s->C / s->H, .stride = 3 * s->C,
                              .dt = s->dt, .x = p[0], .w = p[1], .rstd = p[2], .eps = 1e-5f};
    struct swiglu        g = {s->N, 4 * s->C, 4 * s->C, s->dt, p[0], p[1], GLU_SILU};
    struct rope_rows     o = {s->N, 2 * s->H, s->head, 3 * s->C, s->dt, p[0], s->angles, s->T, 0};

    switch (which) {
    case RMSNORM_FORWARD:
        rmsnorm_forward(p[3], &r);
        break;
    case RMSNORM_RESIDUAL:
        r.x = p[4];
        rmsnorm_residual(p[5], p[0], p[3], &r);
        break;
    case RMSNORM_BACKWARD:
        rmsnorm_backward(&(struct rmsnorm_backward){
            .r = &r, .dout = p[3], .dx = p[4], .dw = p[5], .scratch = p[6],
            .narrowed = s->dt == DT_F32 ? NULL : p[7]});
        break;
    case HEADS_FORWARD:
        rmsnorm_heads_forward(p[3], &q);
        break;
    case HEADS_BACKWARD:
        rmsnorm_heads_backward(&(struct rmsnorm_heads_backward){.r = &q, .d = p[3], .dw = p[4],
                                                                .scratch = p[5]});
        break;
    case SWIGLU_FORWARD:
        swiglu_forward(p[2], &g);
        break;
    case SWIGLU_BACKWARD:
        swiglu_backward(&(struct swiglu_backward){.s = &g, .dout = p[2], .out = p[3],
                                                  .dgate = p[4], .dup = p[5]});
        break;
    case ROPE_FORWARD:
        rope_forward(&o);
        break;
    case ROPE_BACKWARD:
        rope_backward(&o);
        break;
    default:
        run_attention(which, s, p);
    }
}

void families_run(int which, const struct sizes *s, void *const *p)
{
    struct layernorm l = {.n = s->N, .C = s->C, .dt = s->dt, .x = p[6], .w = p[1], .b = p[2],
                          .mean = p[3], .rstd = p[4], .eps = 1e-5f, .wide = p[7]};

    switch (which) {
    case POST_NORM:
        layernorm_residual(s->dt == DT_F32 ? NULL : p[8], p[0], p[5], &l);
        break;
    case GELU_ERF_FORWARD:
        gelu_erf_forward(p[1], p[0], s->dt, 4 * s->n);
        break;
    case GELU_ERF_BACKWARD:
        gelu_erf_backward(&(struct gelu_backward){.n = s->N, .C = 4 * s->C, .dt = s->dt, .x = p[0],
                                                  .dout = p[1], .out = p[2], .dx = p[3],
                                                  .db = p[4], .scratch = p[5]});
        break;
    case WORDS_FORWARD:
        embedding_piece_forward(p[1], p[0], s->dt, (struct embedding_piece){ 0, TABLE_ROWS },
                                s->tokens, s->bt, s->C);
        break;
    case TYPES_FORWARD:
        embedding_add(p[1], p[0], s->dt, s->types, s->bt, s->C);
        break;
    default:
        run_llama(which, s, p);
    }
}

static size_t put(struct kernel *out, const struct kernel *rows, size_t bytes)
{
    memcpy(out, rows, bytes);
    return bytes / sizeof *rows;
}

static size_t llama_of(struct kernel *out, const struct sizes *s)
{
    size_t N = s->N, C = s->C, e = s->e, n = s->n, n4 = 4 * n, D = C / s->H,
           turns = 2 * s->H * s->head;
    struct operand qkv = {CACHED, 3 * e * n}; // a part of it counts: q, or the turned ones of q, k
    double turned = (double)(N * turns * e), q = (double)(e * n);
    const struct kernel all[] = {
        {"rmsnorm forward", N, C, 4, RMSNORM_FORWARD,
         .p = {{IN, n4}, {IN, e * C}, {OUT, 4 * N}, {OUT, e * n}}},
        {"residual and rmsnorm", N, C, 5, RMSNORM_RESIDUAL,
         .p = {{IN, n4}, {IN, e * C}, {OUT, 4 * N}, {IN, n4}, {OUT, n4}, {OUT, e * n}}},
        {"rmsnorm backward", N, C, 11, RMSNORM_BACKWARD, // and rounding
         .p = {{IN, n4}, {IN, e * C}, {IN, 4 * N}, {IN, n4}, {BOTH, n4}, {BOTH, 4 * C},
               {CACHED, colsum_scratch(N, C)}, {OUT, s->dt == DT_F32 ? 0 : 2 * n}}},
        {"rmsnorm of heads", N, C, 4, HEADS_FORWARD,
         .p = {qkv, {IN, e * D}, {OUT, 4 * N * s->H}, qkv}, .reads = q, .writes = q},
        {"rmsnorm of heads, backward", N, C, 10, HEADS_BACKWARD,
         .p = {qkv, {IN, e * D}, {IN, 4 * N * s->H}, qkv, {BOTH, 4 * D},
               {CACHED, colsum_scratch(N, D)}}, .reads = 2 * q, .writes = q},
        {"swiglu forward", N, 4 * C, FLOPS_EXP + 3, SWIGLU_FORWARD,
         .p = {{IN, e * n4}, {IN, e * n4}, {OUT, e * n4}}},
        {"swiglu backward", N, 4 * C, FLOPS_EXP + 12, SWIGLU_BACKWARD, // and the value once more
         .p = {{IN, e * n4}, {IN, e * n4}, {IN, 4 * n4}, {OUT, e * n4}, {OUT, e * n4},
               {OUT, e * n4}}},
        {"rope forward", N, turns, 3, ROPE_FORWARD, .p = {qkv}, .reads = turned, .writes = turned},
        {"rope backward", N, turns, 3, ROPE_BACKWARD, .p = {qkv}, .reads = turned,
         .writes = turned},
    };

    return put(out, all, sizeof all);
}

static size_t bert_of(struct kernel *out, const struct sizes *s)
{
    size_t N = s->N, C = s->C, e = s->e, n = s->n, n4 = 4 * n, btc = s->btc, words = TABLE_ROWS * C;
    double rows = (double)(e * btc);
    const struct kernel all[] = {
        {"post-norm", N, C, 9, POST_NORM, // residual and layernorm, whose rows are the stream
         .p = {{IN, n4}, {IN, e * C}, {IN, e * C}, {OUT, 4 * N}, {OUT, 4 * N}, {IN, n4}, {OUT, n4},
               {OUT, n4}, {OUT, s->dt == DT_F32 ? 0 : e * n}}},
        {"gelu (erf) forward", N, 4 * C, FLOPS_EXP + 25, GELU_ERF_FORWARD,
         .p = {{IN, e * n4}, {OUT, e * n4}}},
        {"gelu (erf) backward", N, 4 * C, FLOPS_EXP + 30, GELU_ERF_BACKWARD,
         .p = {{IN, e * n4}, {IN, 4 * n4}, {OUT, e * n4}, {OUT, e * n4}, {BOTH, 16 * C},
               {CACHED, colsum_scratch(N, 4 * C)}}},
        {"embedding, no positions", s->bt, C, 0, WORDS_FORWARD,
         .p = {{CACHED, e * words}, {OUT, 4 * btc}}, .reads = rows},
        {"embedding of types", s->bt, C, 1, TYPES_FORWARD,
         .p = {{CACHED, 2 * e * C}, {BOTH, 4 * btc}}},
    };

    return put(out, all, sizeof all);
}

/* Attention forward and backward, with KV heads of keys and values. pairs: of a query and a key
 * that it sees, in a row of T; seen: tokens of it that are text. */
static size_t pair_of(struct kernel *out, const struct sizes *s, int which, size_t KV,
                      const char *const names[2])
{
    size_t T = s->T, W = which == WINDOW_FORWARD ? window_of(s) : T, btc = s->btc, e = s->e,
           seen = which == PADDED_FORWARD ? length_of(s) : T, lse = 4 * s->B * s->H * T,
           kv = btc / s->H * KV, scratch = attention_scratch(T, s->C, s->H, KV, s->threads);
    double pairs = which == PADDED_FORWARD
                       ? (double)seen * (double)seen
                       : (double)W * (double)(2 * T - W + 1) / 2;
    double text = (double)seen / (double)T, each = pairs / (double)T;
    size_t qkv = e * (size_t)(text * (double)(btc + 2 * kv)), in = e * (size_t)(text * (double)btc);
    size_t row = e * (btc + 2 * kv), out_bytes = e * btc; // what is taken; padding is not read
    const struct kernel all[] = {
        {names[0], s->bt, s->C, 4 * each, which,
         .p = {{CACHED, row}, {OUT, out_bytes}, {OUT, lse}, {CACHED, scratch}}, .products = 1,
         .reads = (double)qkv},
        {names[1], s->bt, s->C, 10 * each, which + 1,
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
                      *const padded[] = {"padded attention forward",
                                         "padded attention backward"};
    size_t C = s->C, e = s->e, KV = s->H / group_of(s), K = KV * (C / s->H),
           scratch = attention_scratch(s->T, C, s->H, KV, s->threads), cache = e * s->B * s->T;
    double T = (double)s->T;
    const struct kernel decode[] = {
        {"decoding attention", s->B, C, 4 * T, DECODE,
         .p = {{OUT, e * s->B * C}, {IN, e * s->B * 3 * C}, {IN, cache * C}, {CACHED, scratch},
               {IN, cache * C}}},
        {"decoding attention, grouped", s->B, C, 4 * T, DECODE_GROUPED,
         .p = {{OUT, e * s->B * C}, {IN, e * s->B * (C + 2 * K)}, {IN, cache * K},
               {CACHED, scratch}, {IN, cache * K}}},
    };
    size_t n = pair_of(out, s, GROUPED_FORWARD, KV, grouped);

    n += pair_of(out + n, s, WINDOW_FORWARD, s->H, window);
    n += pair_of(out + n, s, PADDED_FORWARD, s->H, padded);
    return n + put(out + n, decode, sizeof decode);
}

size_t families_of(struct kernel *out, const struct sizes *s)
{
    size_t n = llama_of(out, s);

    n += bert_of(out + n, s);
    return n + attention_rows(out + n, s);
}
