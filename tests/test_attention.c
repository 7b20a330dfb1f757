/* Attention against the definition in double, in each form that this CPU runs and in each kind:
 * forward, gradients, grouped heads, windows, lengths, dropout, one token at a time; the same bits
 * for any number of threads and in any batch; nothing outside its arrays is touched. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_form.h"
#include "tests/ref.h"

struct shape {
    size_t B, T, D, H, KV; // D: a head's elements
    enum attention_kind kind;
    size_t         window;  // of ATTENTION_WINDOW
    const int32_t *lengths; // (B) of ATTENTION_BIDIRECTIONAL; NULL: T
    size_t text; // row b is texts of text + b tokens, its first one half of that; 0: one
};

struct run { // one call's arrays, of dt; and what the oracle saw and said
    enum dtype   dt;
    struct shape s;
    size_t       B, T, C, H, W; // W: a row of qkv
    void   *qkv, *out, *dout, *dqkv, *scratch, *forward; // forward: its scratch
    float  *lse;
    double *qkv64, *dout64, *out64, *dqkv64;
    int32_t *begin; // NULL: rows are one text
    const struct dropout *drop; // NULL: none
    const struct attention_form *form; // NULL: what the CPU's is
};

static const struct attention_form *const forms[] = { &attention_f32, &attention_bf16,
                                                      &attention_amx };
enum { FORMS = sizeof forms / sizeof forms[0] };

static void *fill(size_t n, enum dtype dt, float range, double **as_double, uint64_t *state)
{
    void  *p = guard_alloc(n * dtype_bytes(dt));
    float *x = malloc(n * sizeof *x);

    *as_double = malloc(n * sizeof **as_double);
    assert_true(x && *as_double);
    ref_fill(x, n, -range, range, state);
    for (size_t i = 0; i < n; i++) {
        dtype_put(p, dt, i, x[i]);
        (*as_double)[i] = (double)dtype_get(p, dt, i);
    }
    free(x);
    return p;
}

enum { MOST_THREADS = 3 }; // that the scratch is for

static void *scratch_alloc(size_t bytes)
{
    void  *p = guard_alloc((bytes + 63) / 64 * 64);

    memset(p, 0xff, bytes); // NaNs: nothing may be read before it is written
    return p;
}

/* Where the text of token t of row b begins. */
static size_t text_begin(const struct shape *s, size_t b, size_t t)
{
    size_t n = s->text + b, first = n / 2;

    return !s->text || t < first ? 0 : first + (t - first) / n * n;
}

static void run_shape(struct run *r, enum dtype dt, const struct shape *s, float range)
{
    uint64_t state = s->T * 1000 + s->D;
    size_t   rows = s->B * s->T, C = s->D * s->H, W = C + 2 * s->D * s->KV;

    *r = (struct run){ .dt = dt, .s = *s, .B = s->B, .T = s->T, .C = C, .H = s->H, .W = W };
    r->qkv     = fill(rows * W, dt, range, &r->qkv64, &state);
    r->dout    = fill(rows * C, dt, 1.0f, &r->dout64, &state);
    r->out     = guard_alloc(rows * C * dtype_bytes(dt));
    r->dqkv    = guard_alloc(rows * W * dtype_bytes(dt));
    r->lse     = guard_alloc(rows * s->H * sizeof(float));
    r->out64   = malloc(rows * C * sizeof(double));
    r->dqkv64  = malloc(rows * W * sizeof(double));
    r->scratch = scratch_alloc(attention_scratch(s->T, C, s->H, s->KV, MOST_THREADS));
    r->forward = scratch_alloc(attention_scratch_forward(s->T, C, s->H, MOST_THREADS));
    assert_true(r->out64 && r->dqkv64);
    memset(r->out, 0xff, rows * C * dtype_bytes(dt)); // all of it is written
    memset(r->dqkv, 0xff, rows * W * dtype_bytes(dt));
    memset(r->lse, 0xff, rows * s->H * sizeof(float));
    if (s->text && (r->begin = malloc(rows * sizeof *r->begin)))
        for (size_t i = 0; i < rows; i++)
            r->begin[i] = (int32_t)text_begin(s, i / s->T, i % s->T);
    assert_true(!s->text || r->begin);
}

static void run_init(struct run *r, enum dtype dt, size_t B, size_t T, size_t hs, size_t H,
                     float range)
{
    run_shape(r, dt, &(struct shape){ .B = B, .T = T, .D = hs, .H = H, .KV = H }, range);
}

static void run_release(struct run *r)
{
    guard_free(r->qkv);
    guard_free(r->dout);
    guard_free(r->out);
    guard_free(r->dqkv);
    guard_free(r->lse);
    guard_free(r->scratch);
    guard_free(r->forward);
    free(r->begin);
    free(r->qkv64);
    free(r->dout64);
    free(r->out64);
    free(r->dqkv64);
}

static _Atomic int idle; // threads that backward has no head for any more

static void count_idle(const void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&idle, 1);
}

static void run_kernels(struct run *r)
{
    struct attention a = { .B = r->B, .T = r->T, .C = r->C, .H = r->H, .KV = r->s.KV,
                           .kind = r->s.kind, .window = r->s.window, .lengths = r->s.lengths,
                           .begin = r->begin, .dt = r->dt, .qkv = r->qkv, .out = r->out,
                           .lse = r->lse, .drop = r->drop, .scratch = r->forward,
                           .form = r->form, .idle = count_idle };

    atomic_store(&idle, 0);
    attention_forward(&a);
    a.scratch = r->scratch;
    attention_backward(r->dqkv, r->dout, &a);
    assert_int_equal(idle, omp_get_max_threads());
}

static void run_oracle(struct run *r)
{
    double *factor = r->drop ? malloc(r->H * r->T * r->T * sizeof *factor) : NULL;

    for (size_t b = 0; b < r->B; b++)
        for (size_t t = 0, end; t < r->T; t = end) { // a text
            size_t length = r->s.lengths ? (size_t)r->s.lengths[b] : r->T, at = b * r->T + t, T;

            for (end = t + 1; end < r->T && text_begin(&r->s, b, end) == t;)
                end++;
            T = end - t;
            for (size_t i = 0; factor && i < r->H * T; i++)
                for (size_t j = 0; j < T; j++)
                    factor[i * T + j] =
                        ref_dropout((double)r->drop->p, r->drop->seed, r->drop->site,
                                    (b * r->H + i / T) * r->T + t + i % T, t + j);
            ref_attention(&(struct ref_attention){
                .T = T, .H = r->H, .KV = r->s.KV, .D = r->s.D,
                .window = r->s.kind == ATTENTION_WINDOW ? r->s.window : 0,
                .length = length < t ? 0 : length < end ? length - t : T,
                .bidirectional = r->s.kind == ATTENTION_BIDIRECTIONAL, .qkv = r->qkv64 + at * r->W,
                .dout = r->dout64 + at * r->C, .factor = factor, .out = r->out64 + at * r->C,
                .dqkv = r->dqkv64 + at * r->W });
        }
    free(factor);
}

// Every element within tol of the largest magnitude of its array.
static void check_close(const char *what, const struct run *r, const void *got, const double *want,
                        size_t n, double tol)
{
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)dtype_get(got, r->dt, i) - want[i]) <= tol * largest))
            fail_msg("%s, B %zu T %zu D %zu H %zu KV %zu kind %d window %zu: element %zu is %g, "
                     "not %g", what, r->B, r->T, r->s.D, r->H, r->s.KV, (int)r->s.kind,
                     r->s.window, i, (double)dtype_get(got, r->dt, i), want[i]);
}

static void check_shape(const struct attention_form *form, enum dtype dt, const struct shape *s,
                        const struct dropout *drop)
{
    struct run r;
    double     tol = dt == DT_F32 ? 1e-5 : 2e-2;

    run_shape(&r, dt, s, 2.0f);
    r.form = form;
    r.drop = drop;
    run_kernels(&r);
    run_oracle(&r);
    check_close("out", &r, r.out, r.out64, r.B * r.T * r.C, tol);
    check_close("dqkv", &r, r.dqkv, r.dqkv64, r.B * r.T * r.W, tol);
    run_release(&r);
}

static void check_against_oracle(const struct attention_form *form, enum dtype dt)
{
    static const size_t lengths[] = {1, 17, 64, 65, 112, 130}, heads[] = {1, 3},
                        sizes[] = {1, 5, 33, 64, 80, 129};

    if (!form->runs(dt)) {
        print_message("this CPU does not run attention in form %s\n", form->name);
        skip();
    }
    for (size_t t = 0; t < 6; t++)
        for (size_t h = 0; h < 2; h++)
            for (size_t s = 0; s < 6; s++)
                check_shape(form, dt, &(struct shape){ .B = h ? 3 : 1, .T = lengths[t],
                                                       .D = sizes[s], .H = heads[h],
                                                       .KV = heads[h] }, NULL);
    // several groups of query tiles
    check_shape(form, dt, &(struct shape){ .B = 1, .T = 600, .D = 96, .H = 2, .KV = 2 }, NULL);
}

/* Heads of keys and values that 7 and 3 heads of queries share; windows of one key, inside a tile,
 * of tiles, and longer than the row; rows of any length, none too. The last ones have several
 * groups of query tiles. */
static const int32_t some[] = { 130, 1, 0 }, others[] = { 64, 77, 130 }, far[] = { 270, 300 };
static const struct shape shapes[] = {
    { .B = 2, .T = 65, .D = 33, .H = 7, .KV = 1 },
    { .B = 1, .T = 130, .D = 64, .H = 6, .KV = 2 },
    { .B = 2, .T = 17, .D = 16, .H = 4, .KV = 4, .kind = ATTENTION_WINDOW, .window = 1 },
    { .B = 1, .T = 150, .D = 20, .H = 1, .KV = 1, .kind = ATTENTION_WINDOW, .window = 1 },
    { .B = 1, .T = 200, .D = 48, .H = 2, .KV = 1, .kind = ATTENTION_WINDOW, .window = 7 },
    { .B = 2, .T = 200, .D = 8, .H = 3, .KV = 3, .kind = ATTENTION_WINDOW, .window = 64 },
    { .B = 1, .T = 300, .D = 33, .H = 2, .KV = 1, .kind = ATTENTION_WINDOW, .window = 65 },
    { .B = 1, .T = 300, .D = 64, .H = 2, .KV = 2, .kind = ATTENTION_WINDOW, .window = 127 },
    { .B = 1, .T = 70, .D = 64, .H = 2, .KV = 2, .kind = ATTENTION_WINDOW, .window = 1000 },
    { .B = 1, .T = 400, .D = 24, .H = 4, .KV = 2, .kind = ATTENTION_WINDOW, .window = 130 },
    { .B = 1, .T = 1, .D = 5, .H = 1, .KV = 1, .kind = ATTENTION_BIDIRECTIONAL },
    { .B = 2, .T = 65, .D = 33, .H = 3, .KV = 3, .kind = ATTENTION_BIDIRECTIONAL },
    { .B = 3, .T = 130, .D = 64, .H = 2, .KV = 2, .kind = ATTENTION_BIDIRECTIONAL,
      .lengths = some },
    { .B = 3, .T = 130, .D = 16, .H = 6, .KV = 2, .kind = ATTENTION_BIDIRECTIONAL,
      .lengths = others },
    { .B = 2, .T = 300, .D = 40, .H = 1, .KV = 1, .kind = ATTENTION_BIDIRECTIONAL,
      .lengths = far },
    // Several parts of queries. With three threads: by heads, in two turns; whole, and the last in
    // parts; in parts, with windows that leave out keys of the last part.
    { .B = 2, .T = 1030, .D = 8, .H = 3, .KV = 1 },
    { .B = 2, .T = 520, .D = 8, .H = 4, .KV = 2 },
    { .B = 1, .T = 1030, .D = 8, .H = 1, .KV = 1, .kind = ATTENTION_WINDOW, .window = 700 },
    { .B = 1, .T = 560, .D = 8, .H = 2, .KV = 2, .kind = ATTENTION_WINDOW, .window = 30 },
    // rows of several texts: of one token, within tiles, of several tiles; and in several groups
    { .B = 2, .T = 65, .D = 33, .H = 2, .KV = 1, .text = 1 },
    { .B = 2, .T = 130, .D = 16, .H = 2, .KV = 2, .text = 63 },
    { .B = 3, .T = 200, .D = 40, .H = 4, .KV = 2, .text = 20 },
    { .B = 1, .T = 600, .D = 24, .H = 2, .KV = 2, .text = 290 },
    { .B = 2, .T = 300, .D = 33, .H = 2, .KV = 1, .kind = ATTENTION_WINDOW, .window = 20,
      .text = 50 },
    { .B = 1, .T = 400, .D = 24, .H = 4, .KV = 2, .kind = ATTENTION_WINDOW, .window = 130,
      .text = 270 },
    { .B = 2, .T = 300, .D = 40, .H = 2, .KV = 2, .kind = ATTENTION_BIDIRECTIONAL,
      .lengths = far, .text = 33 },
    { .B = 1, .T = 500, .D = 20, .H = 1, .KV = 1, .kind = ATTENTION_BIDIRECTIONAL, .text = 170 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_kinds(const struct attention_form *form, enum dtype dt)
{
    static const struct dropout drop = { .p = 0.3f, .seed = 5, .site = UINT64_C(7) << 40 };

    for (size_t i = 0; i < SHAPES; i++) {
        check_shape(form, dt, &shapes[i], NULL);
        check_shape(form, dt, &shapes[i], &drop);
    }
}

static void test_kinds(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < FORMS; f++)
        for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++)
            if (forms[f]->runs(dt))
                check_kinds(forms[f], dt);
}

/* A kind that masks nothing that another one shows gives its bits: a window as long as the row is
 * causal, and one head of keys for each of queries is not grouped; lengths of T are no lengths, and
 * one text is no several. */
static void check_same(const struct shape *a, const struct shape *b, enum dtype dt)
{
    struct run x, y;

    run_shape(&x, dt, a, 2.0f);
    run_shape(&y, dt, b, 2.0f);
    run_kernels(&x);
    run_kernels(&y);
    assert_memory_equal(x.out, y.out, x.B * x.T * x.C * dtype_bytes(dt));
    assert_memory_equal(x.lse, y.lse, x.B * x.T * x.H * sizeof(float));
    assert_memory_equal(x.dqkv, y.dqkv, x.B * x.T * x.W * dtype_bytes(dt));
    run_release(&x);
    run_release(&y);
}

static void test_kinds_that_mask_the_same(void **unused)
{
    static const int32_t full[] = { 150, 150 };
    const struct shape causal = { .B = 2, .T = 150, .D = 40, .H = 3, .KV = 3 };
    struct shape       window = causal, all = causal, lengths, text = causal;

    (void)unused;
    window.kind = ATTENTION_WINDOW;
    window.window = 150;
    all.kind = ATTENTION_BIDIRECTIONAL;
    lengths = all;
    lengths.lengths = full;
    text.text = 1000; // the first one is longer than the row
    for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++) {
        check_same(&causal, &window, dt);
        check_same(&all, &lengths, dt);
        check_same(&causal, &text, dt);
    }
}

static void test_fp32(void **unused)
{
    (void)unused;
    check_against_oracle(&attention_f32, DT_F32);
}

static void test_bf16_in_fp32(void **unused)
{
    (void)unused;
    check_against_oracle(&attention_f32, DT_BF16);
}

static void test_bf16_in_bf16(void **unused)
{
    (void)unused;
    check_against_oracle(&attention_bf16, DT_BF16);
}

static void test_bf16_in_amx(void **unused)
{
    (void)unused;
    check_against_oracle(&attention_amx, DT_BF16);
}

// The softmax's own sums are those without dropout, to the bit.
static void check_dropout(const struct attention_form *form, enum dtype dt, size_t T)
{
    static const struct dropout drop = { .p = 0.3f, .seed = 5, .site = UINT64_C(7) << 40 };
    struct run with, without;
    double     tol = dt == DT_F32 ? 1e-5 : 2e-2;

    run_init(&with, dt, 2, T, 33, 3, 2.0f);
    run_init(&without, dt, 2, T, 33, 3, 2.0f);
    with.form = without.form = form;
    with.drop = &drop;
    run_kernels(&with);
    run_kernels(&without);
    run_oracle(&with);
    check_close("dropped out", &with, with.out, with.out64, 2 * T * with.C, tol);
    check_close("dropped dqkv", &with, with.dqkv, with.dqkv64, 6 * T * with.C, tol);
    assert_memory_equal(with.lse, without.lse, 2 * 3 * T * sizeof *with.lse);
    run_release(&with);
    run_release(&without);
}

static void test_dropout(void **unused)
{
    static const size_t lengths[] = { 1, 17, 65, 150 };

    (void)unused;
    for (size_t f = 0; f < FORMS; f++)
        for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++)
            for (size_t t = 0; t < 4 && forms[f]->runs(dt); t++)
                check_dropout(forms[f], dt, lengths[t]);
}

static void test_dropout_of_nothing(void **unused)
{
    static const struct dropout zero = { .p = 0.0f, .seed = 5, .site = 7 };
    struct run one, none;
    size_t     bytes = 2 * 70 * 2 * 24 * 4;

    (void)unused;
    run_init(&one, DT_F32, 2, 70, 24, 2, 2.0f);
    run_init(&none, DT_F32, 2, 70, 24, 2, 2.0f);
    one.drop = &zero;
    run_kernels(&one);
    run_kernels(&none);
    assert_memory_equal(one.out, none.out, bytes);
    assert_memory_equal(one.dqkv, none.dqkv, 3 * bytes);
    run_release(&one);
    run_release(&none);
}

static void check_threads(const struct attention_form *form, enum dtype dt, const struct shape *s)
{
    static const struct dropout drop = { .p = 0.1f, .seed = 1, .site = 2 };
    int        before = omp_get_max_threads();
    struct run one, more;
    size_t     rows = s->B * s->T, e = dtype_bytes(dt);

    run_shape(&one, dt, s, 2.0f);
    run_shape(&more, dt, s, 2.0f);
    one.form = more.form = form;
    one.drop = more.drop = &drop;
    omp_set_num_threads(1);
    run_kernels(&one);
    omp_set_num_threads(MOST_THREADS);
    run_kernels(&more);
    omp_set_num_threads(before);
    assert_memory_equal(one.out, more.out, rows * one.C * e);
    assert_memory_equal(one.dqkv, more.dqkv, rows * one.W * e);
    assert_memory_equal(one.lse, more.lse, rows * one.H * 4);
    run_release(&one);
    run_release(&more);
}

static void test_threads_do_not_matter(void **unused)
{
    static const struct shape causal = { .B = 2, .T = 150, .D = 40, .H = 3, .KV = 3 };

    (void)unused;
    for (size_t f = 0; f < FORMS; f++)
        for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++)
            for (size_t i = 0; i <= SHAPES && forms[f]->runs(dt); i++)
                check_threads(forms[f], dt, i < SHAPES ? &shapes[i] : &causal);
}

// A row's result does not depend on the rows it stands beside: row 1 of 3, and the same row alone.
static void test_batch_does_not_matter(void **unused)
{
    struct run all, one;
    size_t     bytes = 70 * 2 * 24 * 4;

    (void)unused;
    run_init(&all, DT_F32, 3, 70, 24, 2, 2.0f);
    run_init(&one, DT_F32, 1, 70, 24, 2, 2.0f);
    memcpy(one.qkv, (char *)all.qkv + 3 * bytes, 3 * bytes);
    memcpy(one.dout, (char *)all.dout + bytes, bytes);
    run_kernels(&all);
    run_kernels(&one);
    assert_memory_equal((char *)all.out + bytes, one.out, bytes);
    assert_memory_equal((char *)all.dqkv + 3 * bytes, one.dqkv, 3 * bytes);
    run_release(&all);
    run_release(&one);
}

// Scores of thousands: the softmax is all but a choice, and nothing overflows.
static void test_large_scores(void **unused)
{
    struct run r;

    (void)unused;
    run_init(&r, DT_F32, 1, 130, 64, 2, 100.0f);
    run_kernels(&r);
    run_oracle(&r);
    check_close("out", &r, r.out, r.out64, r.T * r.C, 2e-3);
    for (size_t i = 0; i < 3 * r.T * r.C; i++)
        assert_true(isfinite(((float *)r.dqkv)[i]));
    for (size_t i = 0; i < r.H * r.T; i++)
        assert_true(isfinite(r.lse[i]));
    run_release(&r);
}

// Each position decoded from a cache of max_T rows gives the row that forward gives, whatever
// stands behind it in the cache; one of fewer rows than positions holds the last ones.
static void check_decode(enum dtype dt, const struct shape *s, size_t max_T)
{
    size_t     B = s->B, T = s->T, C = s->D * s->H, K = s->D * s->KV, e = dtype_bytes(dt);
    struct run r;
    char *k = guard_alloc(B * max_T * K * e), *v = guard_alloc(B * max_T * K * e),
         *out = guard_alloc(B * C * e), *qkv = guard_alloc(B * (C + 2 * K) * e);
    struct attention_cached a = { .B = B, .max_T = max_T, .C = C, .H = s->H, .KV = s->KV, .dt = dt,
                                  .window = s->kind == ATTENTION_WINDOW ? s->window : 0,
                                  .qkv = qkv, .k = k, .v = v };

    run_shape(&r, dt, s, 2.0f);
    run_oracle(&r);
    a.scratch = r.forward;
    memset(k, 0xff, B * max_T * K * e);
    memset(v, 0xff, B * max_T * K * e);
    for (size_t t = 0; t < T; t++) {
        for (size_t b = 0; b < B; b++) {
            char *row = (char *)r.qkv + (b * T + t) * r.W * e;

            memcpy(qkv + b * r.W * e, row, r.W * e);
            memcpy(k + (b * max_T + t % max_T) * K * e, row + C * e, K * e);
            memcpy(v + (b * max_T + t % max_T) * K * e, row + (C + K) * e, K * e);
        }
        a.T = t + 1;
        attention_decode(out, &a);
        for (size_t b = 0; b < B; b++)
            check_close("decode", &r, out + b * C * e, r.out64 + (b * T + t) * C, C,
                        dt == DT_F32 ? 1e-5 : 2e-2);
    }
    guard_free(k);
    guard_free(v);
    guard_free(out);
    guard_free(qkv);
    run_release(&r);
}

static void test_decode(void **unused)
{
    (void)unused;
    check_decode(DT_F32, &(struct shape){ .B = 2, .T = 131, .D = 64, .H = 1, .KV = 1 }, 140);
    check_decode(DT_F32, &(struct shape){ .B = 2, .T = 131, .D = 33, .H = 3, .KV = 3 }, 140);
    check_decode(DT_BF16, &(struct shape){ .B = 2, .T = 131, .D = 64, .H = 2, .KV = 2 }, 140);
    for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++)
        for (size_t window = 1; window < 200; window = 3 * window + 2) {
            struct shape s = { .B = 2, .T = 100, .D = 33, .H = 6, .KV = 2,
                               .kind = ATTENTION_WINDOW, .window = window };

            check_decode(dt, &s, 100);
            check_decode(dt, &s, window + 3); // older keys are written over
        }
}

/* What attention needs for itself (beside which nothing is written: the other tests have guard
 * pages behind it) grows as a row's tokens do, not as their square: at 131,072 tokens a head's
 * T x T matrix alone would be 64 GiB. */
static void test_memory_is_of_rows(void **state)
{
    (void)state;
    const size_t C = 768, H = 12;

    for (size_t KV = 4; KV <= H; KV += 8)
        for (size_t T = 1024; T <= 131072; T *= 2) {
            size_t arrays = KV < H ? 9 : 7; // of one head, T rows of floats each
            size_t more = attention_scratch(2 * T, C, H, KV, 1) - attention_scratch(T, C, H, KV, 1);

            assert_int_equal(more, T * arrays * (C / H) * sizeof(float));
        }
    print_message("32,768 tokens: %.1f MiB a thread\n",
                  (double)attention_scratch(32768, C, H, H, 1) / (1 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp32),
        cmocka_unit_test(test_bf16_in_fp32),
        cmocka_unit_test(test_bf16_in_bf16),
        cmocka_unit_test(test_bf16_in_amx),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_kinds_that_mask_the_same),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_of_nothing),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_batch_does_not_matter),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_memory_is_of_rows),
        cmocka_unit_test(test_decode),
    };

    if (omp_get_max_threads() > MOST_THREADS)
        omp_set_num_threads(MOST_THREADS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
