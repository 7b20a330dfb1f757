/* test_hls.c: the FPGA's kernels, simulated from the source that is synthesised, against the
 * arithmetic of every other device: the same bits in memory, the same sums, the same elements kept
 * back, over random sizes, segments and values, subnormal and far ones too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/grad_wire.h"
#include "csd/hls/command.h"
#include "csd/updater.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"

#include <xmmintrin.h>

/* csd/hls: lines of 64 bytes. */
void sitrain_update(const void *command, const void *w, const void *m, const void *v,
                    const void *grad, void *w_out, void *m_out, void *v_out, void *wire,
                    void *result);
void sitrain_scatter(const void *command, const void *packed, void *dense, void *result);

enum { FTZ = 0x8000, DAZ = 0x0040, MOST = 8 };

static uint32_t bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

static float of_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static uint64_t state_ = 88172645463325252u;

static uint32_t draw(void)
{
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return (uint32_t)(state_ >> 16);
}

/* Mostly usual numbers; wild: also subnormal ones, and some near the end of what there is. */
static float value(int wild)
{
    uint32_t kind = draw() % 20;

    if (wild && kind == 0)
        return of_bits(draw() & 0x807fffffu);
    if (wild && kind == 1)
        return of_bits((draw() & 0x80ffffffu) | 0x7e000000u);
    return kind == 2 ? 0 : ldexpf((float)(int32_t)draw(), -31 - (int)(draw() % 20));
}

/* What is updated: one that the library updates, one that the kernel does. */
struct twin {
    struct update_area area;
    void              *memory;
};

static struct twin twin_of(const void *like, size_t n_pad, int moments, enum dtype wire)
{
    struct twin t;
    size_t      bytes = update_area_bytes(n_pad, moments, wire);

    t.memory = aligned_alloc(64, round_up(bytes, 64));
    assert_non_null(t.memory);
    if (like)
        memcpy(t.memory, like, bytes);
    else
        memset(t.memory, 0, bytes);
    update_area_init(&t.area, t.memory, n_pad, moments, wire);
    return t;
}

static void fill(struct twin *t, size_t n, enum optim_kind kind, int wild)
{
    size_t pad = t->area.n_pad;

    for (size_t i = 0; i < n; i++) {
        t->area.states[i] = value(wild);
        t->area.states[pad + i] = kind == OPTIM_ADAGRAD ? fabsf(value(wild)) : value(wild);
        if (t->area.moments > 1)
            t->area.states[2 * pad + i] = fabsf(value(wild));
        t->area.grad[i] = value(wild);
    }
}

/* Segments of any length, some within a line, that cover [0, n). */
static size_t segments_make(struct csd_segment *s, size_t n)
{
    size_t made = 0;

    for (size_t at = 0; at < n; at += s[made++].n) {
        size_t left = n - at, k = draw() % 3 ? 1 + draw() % left : 1 + draw() % 20;

        s[made] = (struct csd_segment){ at, made == MOST - 1 ? left : size_min(k, left),
                                        made % 2 ? 0 : 0.1f * (float)(made + 1) };
    }
    return made;
}

union command { struct hls_update_command c; uint32_t word[32 + 2 * MOST]; };

static union command command_of(const struct csd_update *u, int moments, enum dtype wire)
{
    const struct optim_step *s = &u->step;
    union command            k = { .c = {
        .version = HLS_VERSION, .kind = s->kind, .moments = (uint32_t)moments,
        .calm = (uint32_t)u->calm, .n = (uint32_t)u->n, .n_pad = (uint32_t)u->n_pad,
        .wire_bf16 = wire == DT_BF16, .n_segments = (uint32_t)u->n_segments,
        .grad_scale = bits(s->grad_scale), .beta1 = bits(s->beta1), .beta2 = bits(s->beta2),
        .one_minus_beta1 = bits(s->one_minus_beta1), .one_minus_beta2 = bits(s->one_minus_beta2),
        .step_size = bits(s->step_size), .bias2_sqrt = bits(s->bias2_sqrt), .eps = bits(s->eps),
        .first = (uint32_t)s->first } };

    for (size_t i = 0; i < u->n_segments; i++) {
        const struct csd_segment *g = &u->segments[i];
        float factor = (float)(1.0 - (double)s->lr * (double)g->weight_decay);

        k.word[32 + 2 * i] = (uint32_t)(g->first + g->n);
        k.word[33 + 2 * i] = bits(s->kind == OPTIM_ADAMW ? factor : g->weight_decay);
    }
    return k;
}

static void same_update(size_t n, enum optim_kind kind, enum dtype wire, int calm, int wild)
{
    int                      moments = optim_moments(kind);
    size_t                   pad = round_up(n, CSD_ALIGN_PARAMS);
    struct csd_segment       segment[MOST];
    struct twin              a = twin_of(NULL, pad, moments, wire);
    struct update_sums       sums = { 0 };
    struct hls_update_result r;

    fill(&a, n, kind, wild);
    struct twin       b = twin_of(a.memory, pad, moments, wire);
    struct csd_update u = { .n = n, .n_pad = pad, .grad_form = CSD_GRAD_DENSE, .calm = calm,
                            .segments = segment, .n_segments = segments_make(segment, n) };
    optim_scalars(&u.step, kind, 1e-2, 0.9, 0.99, 1e-8, 0.7, 1 + draw() % 3);
    union command command = command_of(&u, moments, wire);

    update_area_pass(&a.area, &u, 0, pad, &sums);
    float   *w = b.area.states, *m = w + pad, *v = moments > 1 ? m + pad : w;
    unsigned csr = _mm_getcsr();
    _mm_setcsr(csr | FTZ | DAZ); // as the card's operators are
    sitrain_update(&command, w, m, v, b.area.grad, w, m, v, b.area.wire, &r);
    _mm_setcsr(csr);

    assert_int_equal(r.version, HLS_VERSION);
    assert_memory_equal(a.memory, b.memory, update_area_bytes(pad, moments, wire));
    assert_int_equal(r.kept, u.kept.n);
    assert_true(!r.kept || r.kept_first == u.kept.first);
    for (int i = 0; i <= moments; i++) {
        assert_int_equal(r.read[i], sums.read[i]);
        assert_int_equal(r.written[i], sums.written[i]);
    }
    assert_int_equal(r.grad, sums.grad);
    assert_int_equal(r.wire, sums.wire);
    if (!calm && !r.kept) {
        assert_true((double)of_bits(r.largest[0]) == u.reach.w);
        assert_true((double)of_bits(r.largest[1]) == u.reach.m);
        assert_true(moments == 1 || (double)of_bits(r.largest[2]) == u.reach.v);
    }
    free(a.memory);
    free(b.memory);
}

static void test_update(void **state)
{
    (void)state;
    for (enum optim_kind kind = OPTIM_ADAMW; kind <= OPTIM_ADAGRAD; kind++)
        for (int form = 0; form < 6; form++) // calm with usual numbers, or looked at
            for (int i = 0; i < 12; i++)
                same_update(1 + draw() % (i ? 5000 : 40000), kind, form % 2 ? DT_BF16 : DT_F32,
                            form < 2, form >= 4);
}

/* ---- compressed gradients ---- */

/* A packed gradient of n parameters with some `wanted` pairs; *pairs: how many; caller frees. */
static char *packed_make(size_t n, size_t wanted, size_t *pairs)
{
    struct topk_pair *p = malloc((wanted + 1) * sizeof *p);
    size_t            k = 0;

    assert_non_null(p);
    for (size_t i = 0; i < n && k < wanted; i++)
        if (draw() % (n - i) < wanted - k)
            p[k++] = (struct topk_pair){ (uint32_t)i, value(0) };
    char *packed = aligned_alloc(64, grad_wire_bytes(k));
    assert_non_null(packed);
    grad_wire_pack(packed, p, k, 0, n);
    free(p);
    *pairs = k;
    return packed;
}

static struct hls_scatter_result scatter(const char *packed, size_t n, size_t pairs, float *dense)
{
    struct hls_scatter_command c = { .version = HLS_VERSION, .n = (uint32_t)n,
                                     .n_pad = (uint32_t)round_up(n, CSD_ALIGN_PARAMS),
                                     .pairs = (uint32_t)pairs };
    struct hls_scatter_result  r;

    memset(dense, 0x5a, sizeof *dense * c.n_pad);
    sitrain_scatter(&c, packed, dense, &r);
    assert_int_equal(r.version, HLS_VERSION);
    assert_int_equal(r.sum, crc32c(0, packed, grad_wire_bytes(pairs)));
    return r;
}

/* What the library makes of the same bytes, as far as it gets. */
static int library(const char *packed, size_t n, size_t pairs, float *dense)
{
    struct grad_wire_reader reader;
    struct err              err;

    memset(dense, 0, sizeof *dense * round_up(n, CSD_ALIGN_PARAMS));
    grad_wire_begin(&reader, n, pairs);
    return grad_wire_scatter(&reader, dense, packed, grad_wire_bytes(pairs), &err);
}

static void same_scatter(size_t n, size_t wanted, int fault)
{
    size_t pairs, bytes = sizeof(float) * round_up(n, CSD_ALIGN_PARAMS);
    char  *packed = packed_make(n, wanted, &pairs);
    float *a = malloc(bytes), *b = aligned_alloc(64, bytes);

    assert_non_null(a);
    assert_non_null(b);
    size_t   at = pairs / 2;
    uint32_t index = draw() % 2 ? 0 : (uint32_t)n; // does not rise, or is beyond the end
    if (fault == 1)
        packed[draw() % 24] ^= 1;
    else if (fault == 2)
        memcpy(packed + GRAD_WIRE_HEADER + 8 * at, &index, sizeof index);
    struct hls_scatter_result r = scatter(packed, n, pairs, b);
    assert_int_equal(library(packed, n, pairs, a), fault ? -EBADMSG : 0);
    assert_int_equal(r.fault, fault);
    assert_true(fault != 2 || (r.pair == at && r.index == index));
    assert_memory_equal(a, b, bytes);
    free(packed);
    free(a);
    free(b);
}

static void test_scatter(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        same_scatter(1 + draw() % 30000, draw() % (i % 5 ? 300 : 9000), 0);
    for (int i = 0; i < 20; i++)
        same_scatter(1000 + draw() % 30000, 4 + draw() % 300, 1 + i % 2);
}

/* ---- what a kernel does not know ---- */

static void test_other_version(void **state)
{
    _Alignas(64) uint32_t command[32] = { HLS_VERSION + 1 }, line[16] = { 1 };

    (void)state;
    sitrain_update(command, line, line, line, line, line, line, line, line, line);
    assert_int_equal(line[0], 0);
    line[0] = 1;
    sitrain_scatter(command, line, line, line);
    assert_int_equal(line[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_update),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_other_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
