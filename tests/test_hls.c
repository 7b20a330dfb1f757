/* test_hls.c: the FPGA's kernels, simulated from the source that is synthesised, against the
 * arithmetic of every other device: the same bits in memory, the same sums, the same elements kept
 * back, over random sizes, segments and values, subnormal and far ones too; the same faults of
 * compressed gradients, however they are cut. All arguments of a kernel are one buffer. */
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

/* csd/hls. */
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

/* What is updated: one that the library updates, one that the kernel does; the area lies somewhere
 * in its buffer. */
struct twin {
    struct update_area area;
    char              *buffer;
    size_t             bytes, lines; // of the buffer; where the area begins
};

enum { BEHIND = 4096 }; // bytes of the buffer that are nobody's

static struct twin twin_of(const struct twin *like, size_t n_pad, int moments, enum dtype wire)
{
    struct twin t = { .lines = like ? like->lines : draw() % 100 };

    t.bytes = t.lines * HLS_LINE + update_area_bytes(n_pad, moments, wire) + BEHIND;
    t.buffer = aligned_alloc(64, t.bytes);
    assert_non_null(t.buffer);
    if (like)
        memcpy(t.buffer, like->buffer, t.bytes);
    else
        memset(t.buffer, 0, t.bytes);
    update_area_init(&t.area, t.buffer + t.lines * HLS_LINE, n_pad, moments, wire);
    return t;
}

/* In lines from the beginning of the buffer. */
static uint32_t place_of(const struct twin *t, const void *at)
{
    return (uint32_t)((size_t)((const char *)at - t->buffer) / HLS_LINE);
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

static union command command_of(const struct csd_update *u, const struct twin *t)
{
    const struct optim_step  *s = &u->step;
    const struct update_area *a = &t->area;
    const float   *m = a->states + a->n_pad, *v = a->moments > 1 ? m + a->n_pad : m;
    union command  k = { .c = {
        .version = HLS_VERSION, .kind = s->kind, .moments = (uint32_t)a->moments,
        .calm = (uint32_t)u->calm, .n = (uint32_t)u->n, .n_pad = (uint32_t)u->n_pad,
        .wire_bf16 = a->wire_dt == DT_BF16, .n_segments = (uint32_t)u->n_segments,
        .grad_scale = bits(s->grad_scale), .beta1 = bits(s->beta1), .beta2 = bits(s->beta2),
        .one_minus_beta1 = bits(s->one_minus_beta1), .one_minus_beta2 = bits(s->one_minus_beta2),
        .step_size = bits(s->step_size), .bias2_sqrt = bits(s->bias2_sqrt), .eps = bits(s->eps),
        .first = (uint32_t)s->first, .w = place_of(t, a->states), .m = place_of(t, m),
        .v = place_of(t, v), .grad = place_of(t, a->grad), .wire = place_of(t, a->wire) } };

    k.c.w_out = k.c.w;
    k.c.m_out = k.c.m;
    k.c.v_out = k.c.v;
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
    struct twin       b = twin_of(&a, pad, moments, wire);
    struct csd_update u = { .n = n, .n_pad = pad, .grad_form = CSD_GRAD_DENSE, .calm = calm,
                            .segments = segment, .n_segments = segments_make(segment, n) };
    optim_scalars(&u.step, kind, 1e-2, 0.9, 0.99, 1e-8, 0.7, 1 + draw() % 3);
    union command command = command_of(&u, &b);

    update_area_pass(&a.area, &u, 0, pad, &sums);
    char    *all = b.buffer;
    unsigned csr = _mm_getcsr();
    _mm_setcsr(csr | FTZ | DAZ); // as the card's operators are
    sitrain_update(&command, all, all, all, all, all, all, all, all, &r);
    _mm_setcsr(csr);

    assert_int_equal(r.version, HLS_VERSION);
    assert_memory_equal(a.buffer, b.buffer, a.bytes);
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
    free(a.buffer);
    free(b.buffer);
}

static void test_update(void **state)
{
    (void)state;
    for (enum optim_kind kind = OPTIM_ADAMW; kind <= OPTIM_ADAGRAD; kind++)
        for (int form = 0; form < 6; form++) // calm with usual numbers, or looked at
            for (int i = 0; i < 12; i++)
                same_update(i == 1 ? 2 * CSD_ALIGN_PARAMS : 1 + draw() % (i ? 5000 : 40000), kind,
                            form % 2 ? DT_BF16 : DT_F32, form < 2, form >= 4);
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

/* Both take the packed gradient in the same pieces, the kernel through a place in its one buffer,
 * and meet the same fault at the same pair or come to the same dense gradient. */
struct unpacking {
    size_t n, n_pad, pairs, bytes, piece; // piece: bytes of the largest
    char  *packed, *buffer;               // buffer: a place for pieces, the dense gradient
    float *dense;                         // the library's
};

enum { FAR = 16384 }; // parameters: more than the kernel writes behind the last that it saw

static struct hls_scatter_result kernel_piece(const struct unpacking *u, size_t at, size_t bytes,
                                              struct hls_scatter_state state)
{
    struct hls_scatter_command c = {
        .version = HLS_VERSION, .n = (uint32_t)u->n, .n_pad = (uint32_t)u->n_pad,
        .pairs = (uint32_t)u->pairs, .packed = 1, .dense = (uint32_t)(2 + u->piece / HLS_LINE),
        .lines = (uint32_t)(bytes / HLS_LINE), .ends = at + bytes == u->bytes, .state = state };
    struct hls_scatter_result r;

    memcpy(u->buffer + HLS_LINE, u->packed + at, bytes);
    sitrain_scatter(&c, u->buffer, u->buffer, &r);
    assert_int_equal(r.version, HLS_VERSION);
    assert_int_equal(r.state.sum, crc32c(0, u->packed, at + bytes));
    if (!c.ends && u->n_pad - r.state.last > FAR) // as far as is known, not to the end
        assert_int_equal(u->buffer[HLS_LINE * c.dense + sizeof(float) * u->n_pad - 1], 0x5a);
    return r;
}

static void both_unpack(const struct unpacking *u, int fault)
{
    struct hls_scatter_state state = { 0 };
    struct grad_wire_reader  reader;
    struct err               err;
    int                      rc = 0;

    grad_wire_begin(&reader, u->n, u->pairs);
    for (size_t at = 0, bytes; at < u->bytes && !rc; at += bytes) {
        bytes = size_min(u->bytes - at, (1 + draw() % (u->piece / 4096)) * 4096);
        struct hls_scatter_result r = kernel_piece(u, at, bytes, state);
        rc = grad_wire_scatter(&reader, u->dense, u->packed + at, bytes, &err);
        state = r.state;
        assert_int_equal(r.fault, rc ? fault : 0);
        if (r.fault != 1) {
            assert_int_equal(state.seen, reader.seen);
            assert_int_equal(reader.last, state.seen ? (int64_t)state.last : -1);
        }
        if (r.fault == 2) {
            char index[32];

            snprintf(index, sizeof index, "has index %u after", (unsigned)r.index);
            assert_non_null(strstr(err.text, index));
        }
    }
    assert_int_equal(rc, fault ? -EBADMSG : 0);
}

static void same_scatter(size_t n, size_t wanted, int fault)
{
    struct unpacking u = { .n = n, .n_pad = round_up(n, CSD_ALIGN_PARAMS),
                           .piece = (1 + draw() % 12) * 4096 };
    size_t           dense = sizeof(float) * u.n_pad, place = 2 * HLS_LINE + u.piece;

    u.packed = packed_make(n, wanted, &u.pairs);
    u.bytes = grad_wire_bytes(u.pairs);
    u.dense = calloc(1, dense);
    u.buffer = aligned_alloc(64, place + dense + HLS_LINE);
    assert_non_null(u.dense);
    assert_non_null(u.buffer);
    memset(u.buffer, 0x5a, place + dense + HLS_LINE);
    size_t   at = u.pairs ? draw() % u.pairs : 0;
    uint32_t index = (uint32_t)n; // beyond the end; or the one before again; or does not rise
    if (at > 0 && draw() % 3)
        memcpy(&index, u.packed + GRAD_WIRE_HEADER + 8 * (at - 1), sizeof index);
    index = at > 0 && draw() % 3 == 0 ? 0 : index;
    if (fault == 1)
        u.packed[draw() % 24] ^= 1;
    else if (fault == 2)
        memcpy(u.packed + GRAD_WIRE_HEADER + 8 * at, &index, sizeof index);
    both_unpack(&u, fault);
    if (!fault)
        assert_memory_equal(u.dense, u.buffer + place, dense);
    for (size_t i = 0; i < HLS_LINE; i++)
        assert_int_equal(u.buffer[place - 1 - i] | u.buffer[place + dense + i], 0x5a);
    free(u.packed);
    free(u.dense);
    free(u.buffer);
}

static void test_scatter(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        same_scatter(1 + draw() % 30000, draw() % (i % 5 ? 300 : 9000), 0);
    for (int i = 0; i < 60; i++) // many pieces, in few chunks or in many
        same_scatter(i % 2 ? 8000 + draw() % 20000 : 200000, 3000 + draw() % 5000, 0);
    for (int i = 0; i < 60; i++)
        same_scatter(10000 + draw() % 30000, 4 + draw() % (i % 4 ? 300 : 9000), 1 + i % 2);
}

/* ---- what a kernel does not know ---- */

static void answers(uint32_t asked, uint32_t answered)
{
    _Alignas(64) uint32_t command[32] = { asked }, line[16] = { 7 };

    sitrain_update(command, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, line);
    assert_int_equal(line[0], answered);
    line[0] = 7;
    sitrain_scatter(command, NULL, NULL, line);
    assert_int_equal(line[0], answered);
}

/* Another version is said to be unknown, also where there would be something to do. */
static void test_version(void **state)
{
    _Alignas(64) uint32_t command[32] = { HLS_VERSION + 1, 0, 2048, 2048, 0, 2048 }, line[16];

    (void)state;
    answers(HLS_VERSION, HLS_VERSION);
    answers(HLS_VERSION + 1, 0);
    sitrain_update(command, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, line);
    assert_int_equal(line[0], 0);
    sitrain_scatter(command, NULL, NULL, line);
    assert_int_equal(line[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_update),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
