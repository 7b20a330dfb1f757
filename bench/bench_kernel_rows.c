/* bench_kernel_rows.c: lists the kernels of all families as rows, each with a call, at the sizes of
 * the given model. Sizes that it does not have (a window, shared keys) follow from those it has. */
#include "bench/bench_kernels.h"

#include "data/base/crc32c.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/rope.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/rows/gelu.h"
#include "kernels/rows/layernorm.h"
#include "kernels/rows/rmsnorm.h"
#include "kernels/rows/softmax.h"
#include "kernels/rows/swiglu.h"
#include "kernels/update/optim.h"
#include "kernels/update/reduce.h"
#include "kernels/update/topk.h"
#include "model/layer/products.h"

#include <omp.h>

enum { STEP_PIECE = 16384, FLOPS_EXP = 20 }; // parameters that mem updates at once; cost of an exp

#define CALL const struct sizes *s, void *const *p, int how

static volatile uint32_t sink; // otherwise calls of pure functions with unused results vanish

/* ---- norms ---- */

enum { FORWARD, RESIDUAL, APPLY, ADD, BACKWARD, ROWS, ROWS_MORE, WRITTEN, WIDE, WIDE_APPLY,
       PLUS = 16 };

static void layernorm(CALL)
{
    struct layernorm l = {.n = s->N, .C = s->C, .dt = s->dt, .x = p[0], .w = p[1], .b = p[2],
                          .mean = p[3], .rstd = p[4], .eps = 1e-5f};
    struct layernorm_backward b = {.l = &l, .dout = p[8], .dx = p[5], .dw = p[6], .db = p[7],
                                   .scratch = p[9], .fresh = how == WRITTEN};
    int narrow = s->dt != DT_F32;

    l.x = how == RESIDUAL ? p[6] : p[0];
    l.wide = how == WIDE || how == WIDE_APPLY ? p[5] : NULL;
    b.out = how == ROWS || how == ROWS_MORE ? p[10] : NULL;
    b.dx_sums = how == ROWS_MORE ? p[11] : how == WRITTEN ? p[10] : NULL;
    b.narrowed = how == ROWS_MORE && narrow ? p[12] : how == WRITTEN && narrow ? p[11] : NULL;
    switch (how) {
    case FORWARD:    layernorm_forward(p[5], &l); break;
    case WIDE:       layernorm_forward(NULL, &l); break;
    case RESIDUAL:   layernorm_residual(p[7], p[0], p[5], &l); break;
    case APPLY:      layernorm_apply(p[5], &l); break;
    case WIDE_APPLY: layernorm_apply(NULL, &l); break;
    default:         layernorm_backward(&b);
    }
}

/* With weights as they are, or with 1 added. */
static void rmsnorm(CALL)
{
    int variant = how & ~PLUS, rounds = s->dt != DT_F32 && (variant == ROWS_MORE ||
                                                            variant == WRITTEN);
    struct rmsnorm r = {s->N, s->C, s->dt, variant == RESIDUAL ? p[4] : p[0], p[1], p[2], 1e-5f,
                        how & PLUS ? 1.0f : 0.0f};

    switch (variant) {
    case FORWARD:  rmsnorm_forward(p[3], &r); break;
    case RESIDUAL: rmsnorm_residual(p[5], p[0], p[3], &r); break;
    case ADD:      rmsnorm_add(p[4], p[3], &r); break;
    default:
        rmsnorm_backward(&(struct rmsnorm_backward){
            .r = &r, .dout = p[3], .dx = p[4], .fresh = variant == WRITTEN, .dw = p[5],
            .scratch = p[6], .narrowed = rounds ? p[7] : NULL,
            .out = variant == ROWS || variant == ROWS_MORE ? p[8] : NULL});
    }
}

static void heads(CALL)
{
    struct rmsnorm_heads h = {.n = s->N, .H = s->H + s->KV, .D = s->D, .stride = s->of['q'],
                              .dt = s->dt, .x = p[0], .w = p[1], .rstd = p[2], .eps = 1e-5f,
                              .plus = s->plus};

    if (how == FORWARD)
        rmsnorm_heads_forward(p[3], &h);
    else
        rmsnorm_heads_backward(&(struct rmsnorm_heads_backward){
            .r = &h, .d = p[3], .dw = p[4], .scratch = p[5]});
}

/* ---- attention ---- */

static void attend(const struct sizes *s, void *const *p, int how, struct attention a)
{
    a.B = s->B, a.T = s->T, a.C = s->Q, a.H = s->H, a.dt = s->dt;
    a.qkv = p[0], a.out = p[1], a.lse = p[2], a.scratch = p[3];
    if (how == FORWARD)
        attention_forward(&a);
    else
        attention_backward(p[4], p[5], &a);
}

static void causal(CALL) { attend(s, p, how, (struct attention){.KV = 0}); }
static void grouped(CALL) { attend(s, p, how, (struct attention){.KV = s->shared}); }
static void window(CALL)
{
    attend(s, p, how, (struct attention){.KV = s->KV, .kind = ATTENTION_WINDOW,
                                         .window = s->window});
}
static void bidirectional(CALL)
{
    attend(s, p, how, (struct attention){.kind = ATTENTION_BIDIRECTIONAL});
}
static void padded(CALL)
{
    attend(s, p, how, (struct attention){.kind = ATTENTION_BIDIRECTIONAL, .lengths = s->lengths});
}

/* how: whether heads share keys. */
static void decode(CALL)
{
    attention_decode(p[0], &(struct attention_cached){
        .B = s->B, .T = s->T, .max_T = s->T, .C = s->Q, .H = s->H, .KV = how ? s->shared : s->H,
        .dt = s->dt, .qkv = p[1], .k = p[2], .v = p[4], .scratch = p[3]});
}

/* ---- activations, rope ---- */

enum { ERF = 16, GELU = 16 }; // added to FORWARD and BACKWARD

static void gelu(CALL)
{
    struct gelu_backward b = {.n = s->N, .C = s->F, .dt = s->dt, .x = p[0], .dout = p[1],
                              .out = p[2], .dx = p[3], .db = p[4], .scratch = p[5]};

    switch (how) {
    case FORWARD:       gelu_forward(p[1], p[0], s->dt, s->N * s->F); break;
    case FORWARD | ERF: gelu_erf_forward(p[1], p[0], s->dt, s->N * s->F); break;
    case BACKWARD:      gelu_backward(&b); break;
    default:            gelu_erf_backward(&b);
    }
}

static void glu(CALL)
{
    struct swiglu g = {s->N, s->F, 2 * s->F, s->dt, p[0], dtype_at(p[0], s->dt, s->F),
                       how & GELU ? GLU_GELU : GLU_SILU};

    if ((how & ~GELU) == FORWARD)
        swiglu_forward(p[1], &g);
    else
        swiglu_backward(&(struct swiglu_backward){.s = &g, .dout = p[1], .out = p[2],
                                                  .dgate = p[3],
                                                  .dup = dtype_at(p[3], s->dt, s->F)});
}

static void rope(CALL)
{
    struct rope_rows o = {.n = s->N, .H = s->H + s->KV, .D = s->head, .stride = s->of['q'],
                          .dt = s->dt, .x = p[0], .table = s->angles, .T = s->T};

    if (how == FORWARD)
        rope_forward(&o);
    else
        rope_backward(&o);
}

/* ---- rows that are added, copied, summed ---- */

enum { SUM, SCALE, NARROW, COPY, DROP, COLUMNS, COLUMNS_NARROW, COLUMNS_LOGITS };

static void elementwise(CALL)
{
    size_t n = s->N * s->C;

    switch (how) {
    case SUM:    residual_add(p[2], p[0], p[1], n); break;
    case SCALE:  floats_scale(p[0], 1, s->t * s->C); break;
    case NARROW: convert(p[1], DT_BF16, p[0], DT_F32, n); break;
    case COPY:   memcpy(p[1], p[0], 4 * n); break;
    case DROP:
        dropout_rows(p[1], p[0], s->N, s->C, 0, &(struct dropout){.p = 0.1f, .seed = 1, .site = 1});
        break;
    case COLUMNS:        colsum_add(p[2], NULL, p[0], s->dt, s->N, s->of['q'], p[1]); break;
    case COLUMNS_NARROW: colsum_add(p[1], p[2], p[0], DT_F32, s->N, s->C, p[3]); break;
    default:             colsum_add(p[2], NULL, p[0], s->dt, s->R, s->V, p[1]);
    }
}

/* ---- embeddings and the head ---- */

enum { WORDS = 16, TYPES = 32 }; // added to FORWARD and BACKWARD

static void embedding(CALL)
{
    struct embedding_piece words = { 0, TABLE_ROWS }, types = { 0, 2 };

    switch (how) {
    case FORWARD:  embedding_forward(p[2], p[0], p[1], s->dt, s->tokens, s->B, s->T, s->C); break;
    case BACKWARD: embedding_backward(p[0], p[1], p[2], s->tokens, s->B, s->T, s->C); break;
    case FORWARD | WORDS:
        embedding_piece_forward(p[1], p[0], s->dt, words, s->tokens, s->t, s->C);
        break;
    case BACKWARD | WORDS:
        embedding_piece_backward(p[0], p[1], words, s->tokens, s->t, s->C);
        break;
    case FORWARD | TYPES: embedding_add(p[1], p[0], s->dt, s->types, s->t, s->C); break;
    default:              embedding_piece_backward(p[0], p[1], types, s->types, s->t, s->C);
    }
}

static void softmax(CALL)
{
    (void)how;
    softmax_xent(&(struct softmax_xent){
        .n = s->R, .V = s->V, .logits = p[0], .split = products_split(s->V, s->dt), .dt = s->dt,
        .targets = s->targets, .losses = p[1], .dlogits = p[2], .scale = 1e-3f});
}

static void piece(CALL)
{
    struct softmax_piece x = {.n = s->R, .V = s->V, .logits = p[0],
                              .split = products_split(s->V, s->dt), .targets = s->targets,
                              .so_far = p[1], .out = p[2], .dt = s->dt};

    if (how == ADD) {
        softmax_rows_add(p[0], p[1], p[2], s->R, s->C);
    } else if (how == FORWARD) {
        softmax_begin(x.so_far, x.n);
        softmax_add(&x, p[3]);
    } else {
        for (size_t i = 0; i < x.n; i++)
            x.so_far[i] = (struct softmax_so_far){ .sum = (double)s->V, .top = 1 };
        softmax_gradient(&x, 1e-3f);
    }
}

/* ---- gradients and updates ---- */

enum { PIECE, STEP, SQUARES, TOPK, CRC, START };

/* Updates a step's parameters as mode mem does. In bf16 there is another copy. */
static void update_step(CALL)
{
    struct optim_step step;
    float            *w = p[0], *m = p[1], *v = p[2], *g = p[3];
    bf16             *wire = s->dt == DT_F32 ? NULL : p[4];
    size_t            n = how == PIECE ? UPDATE_PARAMS : STEP_PARAMS;

    optim_scalars(&step, OPTIM_ADAMW, 1e-4, 0.9, 0.999, 1e-8, 1, 10);
    if (how == PIECE) {
        optim_update(w, m, v, g, n, 0.01f, &step);
        return;
    }
#pragma omp parallel for schedule(dynamic, 4)
    for (size_t i = 0; i < n; i += STEP_PIECE) {
        optim_update(w + i, m + i, v + i, g + i, STEP_PIECE, 0.01f, &step);
        if (wire)
            convert(wire + i, DT_BF16, w + i, DT_F32, STEP_PIECE);
    }
}

static void gradient(CALL)
{
    int nonfinite = 0;

    switch (how) {
    case SQUARES: reduce_sumsq(p[0], s->of['L'], &nonfinite, p[1]); break;
    case TOPK:    topk_select(p[1], p[0], s->of['L'], s->of['k'], p[2]); break;
    case CRC:     sink = crc32c(0, p[0], 4 * (size_t)UPDATE_PARAMS); break;
    default:
#pragma omp parallel
        sink = (uint32_t)omp_get_thread_num();
    }
}

/* ---- the rows ---- */

#define E FLOPS_EXP
#define NORM_BACK "i4NC ieC ceC i4N i4N b4NC b4C b4C i4NC cs" // the bias is not needed
#define NORM_ROWS "i4NC ieC ieC i4N i4N b4NC b4C b4C i4NC cs oeNC"
#define RMS_BACK  "i4NC ieC i4N i4NC b4NC b4C cs"

// clang-format off
const struct kernel bench_kernel_rows[] = {
    {"layernorm forward", "N", "C", 8, layernorm, FORWARD, "i4NC ieC ieC o4N o4N oeNC", 0, 0},
    {"residual and layernorm", "N", "C", 9, layernorm, RESIDUAL,
     "i4NC ieC ieC o4N o4N i4NC o4NC oeNC", 0, 0},
    {"layernorm apply", "N", "C", 4, layernorm, APPLY, "i4NC ieC ieC i4N i4N oeNC", 0, 0},
    {"layernorm backward", "N", "C", 15, layernorm, BACKWARD, NORM_BACK, 0, 0},
    {"layernorm backward, rows", "N", "C", 17, layernorm, ROWS, NORM_ROWS, 0, 0},
    {"layernorm backward, rows, sums", "N", "C", 18, layernorm, ROWS_MORE, // with rounding
     NORM_ROWS " b4C orNC", 0, 0},
    {"gelu forward", "N", "F", E + 10, gelu, FORWARD, "ieNF oeNF", 0, 0},
    {"gelu backward and sums", "N", "F", E + 20, gelu, BACKWARD, // recomputes the value; its
     "ieNF i4NF oeNF oeNF b4F cs", 0, 0},                        // gradient, and the bias's
    {"attention forward", "t", "Q", 4, causal, FORWARD, "i3etQ oetQ o4BHT ca", KEYS_HALF, 0},
    {"attention backward", "t", "Q", 10, causal, BACKWARD, "i3etQ ietQ i4BHT ca o3etQ ietQ",
     KEYS_HALF, 0},
    {"softmax, loss and gradient", "R", "V", E + 5, softmax, 0, "i4RV o4R oeRV", 0, 0},
    {"residual", "N", "C", 1, elementwise, SUM, "i4NC i4NC o4NC", 0, 0},
    {"convert to bf16", "N", "C", 0, elementwise, NARROW, "i4NC o2NC", 0, 0},
    {"sum of columns", "N", "q", 1, elementwise, COLUMNS, "ieNq cs b4q", 0, 0},
    {"sum of columns, rounding", "N", "C", 1, elementwise, COLUMNS_NARROW, "i4NC b4C o2NC cs", 0,
     0},
    {"dropout", "N", "C", 0, elementwise, DROP, "i4NC o4NC", 0, 0},
    {"embedding forward", "t", "C", 1, embedding, FORWARD, "cewC ieTC o4tC retC", 0, 0},
    {"embedding backward", "t", "C", 2, embedding, BACKWARD, "c4wC b4TC i4tC r4tC w4tC", 0, 0},
    {"AdamW", "U", NULL, 16, update_step, PIECE, "b4U b4U b4U i4U", 0, ONE_THREAD},
    {"AdamW and rounding", "P", NULL, 16, update_step, STEP, "b4P b4P b4P i4P orP", 0, 0},
    {"sum of squares", "L", NULL, 2, gradient, SQUARES, "i4L cd", 0, NORMAL},
    {"Top-K", "L", NULL, 0, gradient, TOPK, "i4L opk cx", 0, NORMAL},
    {"CRC32C", "4U", NULL, 0, gradient, CRC, "i4U", 0, ONE_THREAD},
    {"start of all threads", "1", NULL, 0, gradient, START, "", 0, 0}, // threads spin before it

    {"rmsnorm forward", "N", "C", 4, rmsnorm, FORWARD, "i4NC ieC o4N oeNC", 0, 0},
    {"residual and rmsnorm", "N", "C", 5, rmsnorm, RESIDUAL, "i4NC ieC o4N i4NC o4NC oeNC", 0, 0},
    {"rmsnorm backward", "N", "C", 11, rmsnorm, BACKWARD, RMS_BACK, 0, 0},
    {"rmsnorm backward, rows", "N", "C", 12, rmsnorm, ROWS, RMS_BACK " c0 oeNC", 0, 0},
    {"rmsnorm backward, rows, rounding", "N", "C", 12, rmsnorm, ROWS_MORE,
     RMS_BACK " orNC oeNC", 0, 0},
    {"rmsnorm (1 + w) forward", "N", "C", 4, rmsnorm, FORWARD | PLUS, "i4NC ieC o4N oeNC", 0, 0},
    {"rmsnorm (1 + w) and sum", "N", "C", 5, rmsnorm, ADD | PLUS, "i4NC ieC o4N i4NC o4NC", 0, 0},
    {"rmsnorm (1 + w) backward", "N", "C", 11, rmsnorm, BACKWARD | PLUS, RMS_BACK, 0, 0},
    {"rmsnorm (1 + w) backward, rows", "N", "C", 12, rmsnorm, ROWS | PLUS,
     RMS_BACK " c0 oeNC", 0, 0},
    {"rmsnorm (1 + w) backward, written", "N", "C", 10, rmsnorm, WRITTEN | PLUS, // with rounding
     "i4NC ieC i4N i4NC o4NC b4C cs orNC", 0, 0},
    {"rmsnorm of heads", "N", "hD", 4, heads, FORWARD, "ceNq ieD o4Nh ceNq reNhD weNhD", 0, 0},
    {"rmsnorm of heads, backward", "N", "hD", 10, heads, BACKWARD,
     "ceNq ieD i4Nh ceNq b4D cs r2eNhD weNhD", 0, 0},
    {"swiglu forward", "N", "F", E + 3, glu, FORWARD, "i2eNF oeNF", 0, 0},
    {"swiglu backward", "N", "F", E + 12, glu, BACKWARD, // recomputes the value
     "i2eNF i4NF oeNF o2eNF", 0, 0},
    {"geglu forward", "N", "F", E + 11, glu, FORWARD | GELU, "i2eNF oeNF", 0, 0},
    {"geglu backward", "N", "F", E + 23, glu, BACKWARD | GELU, "i2eNF i4NF oeNF o2eNF", 0, 0},
    {"rope forward", "N", "m", 3, rope, FORWARD, "ceNq reNm weNm", 0, 0},
    {"rope backward", "N", "m", 3, rope, BACKWARD, "ceNq reNm weNm", 0, 0},
    {"scaling of embeddings", "t", "C", 1, elementwise, SCALE, "b4tC", 0, 0},

    {"layernorm forward, wide", "N", "C", 8, layernorm, WIDE, "i4NC ieC ieC o4N o4N o4NC", 0, 0},
    {"layernorm apply, wide", "N", "C", 4, layernorm, WIDE_APPLY, "i4NC ieC ieC i4N i4N o4NC", 0,
     0},
    {"layernorm backward, written", "N", "C", 16, layernorm, WRITTEN, // with sums and rounding
     "i4NC ieC ceC i4N i4N o4NC b4C b4C i4NC cs b4C orNC", 0, 0},
    {"gelu (erf) forward", "N", "F", E + 25, gelu, FORWARD | ERF, "ieNF oeNF", 0, 0},
    {"gelu (erf) backward", "N", "F", E + 30, gelu, BACKWARD | ERF, "ieNF i4NF oeNF oeNF b4F cs",
     0, 0},
    {"copy", "N", "C", 0, elementwise, COPY, "i4NC o4NC", 0, ONE_THREAD},
    {"sum of columns of logits", "R", "V", 1, elementwise, COLUMNS_LOGITS, "ieRV cs b4V", 0, 0},
    {"embedding of types", "t", "C", 1, embedding, FORWARD | TYPES, "c2eC b4tC", 0, 0},
    {"embedding of types, backward", "t", "C", 1, embedding, BACKWARD | TYPES, "c8C i4tC", 0, 0},

    {"embedding, no positions", "t", "C", 0, embedding, FORWARD | WORDS, "cewC o4tC retC", 0, 0},
    {"embedding backward, no positions", "t", "C", 1, embedding, BACKWARD | WORDS,
     "c4wC i4tC r4tC w4tC", 0, 0},
    {"softmax of a piece", "R", "V", E + 3, piece, FORWARD, "i4RV cfR oeRV o4R", 0, 0},
    {"gradient of a piece", "R", "V", E + 2, piece, BACKWARD, "i4RV cfR oeRV", 0, 0},
    {"rows of a piece, added", "R", "C", 2, piece, ADD, "b4RC i4R i4RC", 0, 0},

    {"grouped attention forward", "t", "Q", 4, grouped, FORWARD, "cetG oetQ o4BHT ca retG",
     KEYS_CAUSAL, 0},
    {"grouped attention backward", "t", "Q", 10, grouped, BACKWARD,
     "cetG cetQ i4BHT ca oetG cetQ retG r2etQ", KEYS_CAUSAL, 0},
    {"windowed attention forward", "t", "Q", 4, window, FORWARD, "cetq oetQ o4BHT ca retq",
     KEYS_WINDOW, 0},
    {"windowed attention backward", "t", "Q", 10, window, BACKWARD,
     "cetq cetQ i4BHT ca oetq cetQ retq r2etQ", KEYS_WINDOW, 0},
    {"bidirectional attention forward", "t", "Q", 4, bidirectional, FORWARD,
     "c3etQ oetQ o4BHT ca r3etQ", KEYS_ALL, 0},
    {"bidirectional attention backward", "t", "Q", 10, bidirectional, BACKWARD,
     "c3etQ cetQ i4BHT ca o3etQ cetQ r3etQ r2etQ", KEYS_ALL, 0},
    {"padded attention forward", "t", "Q", 4, padded, FORWARD, // padding is not read
     "c3etQ oetQ o4BHT ca r3eyQ", KEYS_PADDED, 0},
    {"padded attention backward", "t", "Q", 10, padded, BACKWARD,
     "c3etQ cetQ i4BHT ca o3etQ cetQ r3eyQ r2eyQ", KEYS_PADDED, 0},
    {"decoding attention", "B", "Q", 4, decode, 0, "oeBQ i3eBQ ieBTQ ca ieBTQ", KEYS_ALL, 0},
    {"decoding attention, grouped", "B", "Q", 4, decode, 1, "oeBQ ieBG ieBTK ca ieBTK", KEYS_ALL,
     0},
    {0}
};
// clang-format on
