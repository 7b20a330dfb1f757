/* test_hls.c: the FPGA's kernels, simulated from the source that is synthesised, against the
 * arithmetic of every other device: the same bits in memory, the same sums, the same elements kept
 * back, over random sizes, segments and values, subnormal and far ones too; the same faults of
 * compressed gradients, however they are cut. All arguments of a kernel are one buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/engine/hls_call.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"

#include <xmmintrin.h>

/* csd/hls. */
void sitrain_update(const void *command, const void *w, const void *m, const void *v,
                    const void *grad, void *w_out, void *m_out, void *v_out, void *wire,
                    void *result);
void sitrain_scatter(const void *command, const void *packed, void *dense, void *result);

enum { FTZ = 0x8000, DAZ = 0x0040, MOST = 8 };

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

static void same_update(size_t n, enum optim_kind kind, enum dtype wire, int unchecked, int wild)
{
    int                      moments = optim_moments(kind);
    size_t                   pad = round_up(n, CSD_ALIGN_PARAMS);
    struct csd_segment       segment[MOST];
    struct twin              a = twin_of(NULL, pad, moments, wire);
    struct update_sums       sums = { 0 };
    struct err               err;
    _Alignas(64) char        command[HLS_COMMAND_BYTES], result[HLS_RESULT_BYTES];

    fill(&a, n, kind, wild);
    struct twin       b = twin_of(&a, pad, moments, wire);
    struct csd_update u = { .n = n, .n_pad = pad, .grad_form = CSD_GRAD_DENSE,
                            .unchecked = unchecked, .segments = segment,
                            .n_segments = segments_make(segment, n) };
    optim_scalars(&u.step, kind, 1e-2, 0.9, 0.99, 1e-8, 0.7, 1 + draw() % 3);
    struct csd_update kernels = u;
    struct engine_set set = { .base = b.buffer, .area = b.area, .u = &kernels,
                              .what = ENGINE_PASS, .n = pad };
    hls_ask(command, &set);

    update_area_pass(&a.area, &u, 0, pad, &sums);
    char    *all = b.buffer;
    unsigned csr = _mm_getcsr();
    _mm_setcsr(csr | FTZ | DAZ); // as the card's operators are
    sitrain_update(command, all, all, all, all, all, all, all, all, result);
    _mm_setcsr(csr);

    assert_int_equal(hls_take(result, &set, &err), 0);
    assert_memory_equal(a.buffer, b.buffer, a.bytes);
    assert_memory_equal(&set.sums, &sums, sizeof sums);
    assert_int_equal(kernels.overflow.n, u.overflow.n);
    assert_true(!u.overflow.n || kernels.overflow.first == u.overflow.first);
    assert_true(kernels.bounds.w == u.bounds.w && kernels.bounds.m == u.bounds.m);
    assert_true(moments == 1 || kernels.bounds.v == u.bounds.v);
    free(a.buffer);
    free(b.buffer);
}

static void test_update(void **state)
{
    (void)state;
    for (enum optim_kind kind = OPTIM_ADAMW; kind <= OPTIM_ADAGRAD; kind++)
        for (int form = 0; form < 6; form++) // unchecked with usual numbers, or looked at
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

/* The kernel's turn with a piece; 0, or what it found. */
static int kernel_piece(const struct unpacking *u, struct engine_set *set)
{
    _Alignas(64) char command[HLS_COMMAND_BYTES], result[HLS_RESULT_BYTES];
    struct err        err;
    size_t            bytes = set->at + set->n, pad = set->area.n_pad;

    memcpy(set->area.wire, u->packed + set->at, set->n);
    hls_ask(command, set);
    sitrain_scatter(command, u->buffer, u->buffer, result);
    assert_int_equal(hls_take(result, set, &err), 0);
    assert_int_equal(set->sums.grad, crc32c(0, u->packed, bytes));
    if (bytes < u->bytes && !set->status && (int64_t)pad - set->reader.last > FAR)
        assert_int_equal(((char *)set->area.grad)[sizeof(float) * pad - 1], 0x5a); // not to the end
    return set->status;
}

static void both_unpack(const struct unpacking *u, int fault)
{
    struct csd_update       update = { .n = u->n, .n_pad = u->n_pad, .pairs = u->pairs };
    struct engine_set       set = { .base = u->buffer, .u = &update, .what = ENGINE_SCATTER };
    struct grad_wire_reader reader;
    struct err              err;
    int                     rc = 0;

    set.area = (struct update_area){ .n_pad = u->n_pad, .wire = u->buffer + HLS_LINE,
                                     .grad = (void *)(u->buffer + 2 * HLS_LINE + u->piece) };
    grad_wire_begin(&reader, u->n, u->pairs);
    for (; set.at < u->bytes && !rc; set.at += set.n) {
        set.n = size_min(u->bytes - set.at, (1 + draw() % (u->piece / 4096)) * 4096);
        int found = kernel_piece(u, &set);
        rc = grad_wire_scatter(&reader, u->dense, u->packed + set.at, set.n, &err);
        assert_int_equal(found, rc);
        if (fault != 1)
            assert_memory_equal(&set.reader, &reader, sizeof reader);
        if (rc && fault == 2)
            assert_string_equal(set.why.text, err.text);
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
