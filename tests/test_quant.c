/* Matrices in fewer bits. NF4 against a fixture by the formulas of bitsandbytes
 * (tests/fixtures/make_quant.py): its tables and every packed bit. All kinds against double
 * precision, on odd sizes, in both dtypes: what comes out, and how far it is from what went in. Any
 * number of threads gives the same bits, and nothing is written behind the end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/round.h"
#include "kernels/quant/nf4.h"
#include "kernels/quant/quant.h"
#include "tests/fixture.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

/* A value of the fixture. */
static float value(size_t i)
{
    uint32_t h = (uint32_t)(i * 2654435761u + 12345u);

    return i / NF4_BLOCK == 3 ? 0.0f
                              : (float)((int)(h >> 8) - (1 << 23)) /
                                    (float)(1 << (26 + i / NF4_BLOCK % 5));
}

static float *values(size_t n)
{
    float *w = malloc((n + 1) * sizeof *w);

    assert_non_null(w);
    for (size_t i = 0; i < n; i++)
        w[i] = value(i);
    return w;
}

static void test_nf4_bits(void **state)
{
    static const size_t sizes[] = { 1, 63, 64, 131, 1000, 64 * 256 + 77 };
    struct fixture     *f = fixture_open("tests/fixtures/quant.fix");
    const float        *code = fixture_f32(f, "code", 16);
    float               map[256];

    (void)state;
    for (int q = 0; q < 16; q++) // the published ones were computed in fp32
        assert_true(fabsf(code[q] - nf4_code[q]) < 2e-7f);
    nf4_map(map);
    assert_memory_equal(map, fixture_f32(f, "map", 256), sizeof map);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        char   name[16];
        size_t n = sizes[s], bytes = nf4_bytes(n);
        float *w = values(n), *scratch = malloc(nf4_blocks(n) * sizeof *scratch);
        void  *packed = malloc(bytes);

        snprintf(name, sizeof name, "%zu", n);
        quant_pack(QUANT_NF4, packed, w, 1, n, scratch);
        assert_memory_equal(packed, fixture_i32(f, name, bytes / 4), bytes);
        free(w);
        free(scratch);
        free(packed);
    }
    fixture_close(f);
}

/* The value of element i of a packed matrix, in double precision. */
static double unpacked(enum quant kind, const unsigned char *packed, size_t rows, size_t cols,
                       size_t i)
{
    size_t       n = rows * cols, blocks = (n + 63) / 64, scales = (blocks + 255) / 256;
    const float *f = (const void *)packed;
    float        map[256];

    if (kind == QUANT_BF16)
        return (double)bf16_to_f32(((const bf16 *)(const void *)packed)[i]);
    if (kind == QUANT_INT8)
        return (double)f[i / cols] * ((const int8_t *)(f + rows))[i];
    const unsigned char *bytes = (const void *)(f + 1 + scales);
    const unsigned char *nibbles = bytes + (blocks + 3) / 4 * 4;

    nf4_map(map);
    return (double)nf4_code[nibbles[i / 2] >> (i % 2 ? 0 : 4) & 15] *
           ((double)map[bytes[i / 64]] * (double)f[1 + i / 64 / 256] + (double)f[0]);
}

/* The largest distance that a value may have from its packed form. most: of its row, or block. */
static double allowed(enum quant kind, double w, double most)
{
    if (kind == QUANT_BF16)
        return fabs(w) / 256;
    // nf4: half of the widest gap, and what the block's magnitude is off by, at most 1/20 of 0.15
    return kind == QUANT_INT8 ? most / 254 * 1.0001 : most * 0.153 + 0.0075;
}

static void one(enum quant kind, enum dtype dt, size_t rows, size_t cols)
{
    size_t         n = rows * cols, bytes = quant_bytes(kind, rows, cols);
    float         *w = values(n), *scratch = malloc(nf4_blocks(n) * sizeof *scratch);
    unsigned char *packed = malloc(bytes + 4), *again = malloc(bytes + 4);
    float         *out = malloc((n + 1) * sizeof *out);

    assert_int_equal(bytes % 4, 0);
    memset(packed + bytes, 0xa5, 4);
    memset(again + bytes, 0xa5, 4);
    omp_set_num_threads(1);
    quant_pack(kind, again, w, rows, cols, scratch);
    omp_set_num_threads(3);
    quant_pack(kind, packed, w, rows, cols, scratch);
    assert_memory_equal(packed, again, bytes + 4);
    memset(out, 0x5a, (n + 1) * sizeof *out);
    quant_unpack(kind, out, dt, packed, rows, cols);
    assert_int_equal(((unsigned char *)out)[n * dtype_bytes(dt)], 0x5a);
    for (size_t i = 0; i < n; i++) {
        size_t each = kind == QUANT_INT8 ? cols : NF4_BLOCK, first = i / each * each;
        double want = unpacked(kind, packed, rows, cols, i), most = 0;

        for (size_t j = first; j < first + each && j < n; j++)
            most = fmax(most, fabs((double)w[j]));
        assert_true(fabs((double)dtype_get(out, dt, i) - want) <=
                    fabs(want) * (dt == DT_F32 ? 3e-7 : 1.0 / 256));
        assert_true(fabs(want - (double)w[i]) <= allowed(kind, (double)w[i], most));
    }
    free(w);
    free(scratch);
    free(packed);
    free(again);
    free(out);
}

static void test_all(void **state)
{
    static const size_t sizes[][2] = { { 1, 1 }, { 3, 5 }, { 7, 64 }, { 5, 129 }, { 131, 257 } };

    (void)state;
    for (enum quant kind = QUANT_BF16; kind <= QUANT_NF4; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            one(kind, DT_F32, sizes[s][0], sizes[s][1]);
            one(kind, DT_BF16, sizes[s][0], sizes[s][1]);
        }
}

/* int8: ties go to even, a row of zeros and one of the smallest numbers come out as such. */
static void test_int8_rows(void **state)
{
    float         w[4][4] = { { 127, 0.5f, 1.5f, -2.5f }, { 0 }, { 1e-45f, 0, -1e-45f, 0 },
                              { -254, 253, 1, 3 } };
    const int8_t  want[4][4] = { { 127, 0, 2, -2 }, { 0 }, { 0 }, { -127, 126, 0, 2 } };
    float         packed[8];

    (void)state;
    assert_int_equal(quant_bytes(QUANT_INT8, 4, 4), sizeof packed);
    quant_pack(QUANT_INT8, packed, w[0], 4, 4, NULL);
    assert_memory_equal(packed + 4, want, sizeof want);
    assert_true(packed[0] == 1 && packed[1] == 0 && packed[2] == 0 && packed[3] == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nf4_bits), cmocka_unit_test(test_all),
                                        cmocka_unit_test(test_int8_rows) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
