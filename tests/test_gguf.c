/* test_gguf.c: a small GGUF file is, byte for byte, what the format says; values of every type are
 * read back in pieces; Q8_0 gives ggml's bytes; hostile headers are refused with a sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/dtype.h"
#include "data/base/f16.h"
#include "data/tensors/gguf.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static struct err e;

/* ---- the bytes ---- */

/* One key of each kind, and two tensors. */
static void write_small(const char *name)
{
    struct gguf_writer w;
    float              v[6] = { 1, -2, 0.5f, 3, 0, 7 };

    unlink(tempdir_at(name));
    assert_int_equal(gguf_writer_open(&w, tempdir_at(name), &e), 0);
    gguf_put_text(&w, "general.architecture", "toy", 3);
    gguf_put_u32(&w, "toy.n", 258);
    gguf_put_f32(&w, "toy.f", 0.5f);
    gguf_put_bool(&w, "toy.b", 1);
    gguf_put_f64(&w, "toy.d", 2);
    gguf_put_array(&w, "toy.words", GGUF_STRING, 2);
    gguf_add_text(&w, "a", 1);
    gguf_add_text(&w, "", 0);
    gguf_put_array(&w, "toy.types", GGUF_I32, 2);
    gguf_add_i32(&w, -1);
    gguf_add_i32(&w, 3);
    assert_int_equal(gguf_writer_declare(&w, "mat", GGUF_TYPE_F16, 2, (uint64_t[]){ 3, 2 }, &e), 0);
    assert_int_equal(gguf_writer_declare(&w, "vec", GGUF_TYPE_F32, 1, (uint64_t[]){ 2 }, &e), 0);
    assert_int_equal(gguf_writer_add(&w, v, 6, &e), 0);
    assert_int_equal(gguf_writer_add(&w, v, 2, &e), 0);
    assert_int_equal(gguf_writer_flush(&w, &e), 0);
    assert_int_not_equal(access(tempdir_at(name), F_OK), 0);
    assert_int_equal(gguf_writer_commit(&w, &e), 0);
    gguf_writer_close(&w);
}

static const char small[] =
    "GGUF\3\0\0\0\2\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0"
    "\24\0\0\0\0\0\0\0general.architecture\10\0\0\0\3\0\0\0\0\0\0\0toy"
    "\5\0\0\0\0\0\0\0toy.n\4\0\0\0\2\1\0\0"
    "\5\0\0\0\0\0\0\0toy.f\6\0\0\0\0\0\0\x3f"
    "\5\0\0\0\0\0\0\0toy.b\7\0\0\0\1"
    "\5\0\0\0\0\0\0\0toy.d\14\0\0\0\0\0\0\0\0\0\0\x40"
    "\11\0\0\0\0\0\0\0toy.words\11\0\0\0\10\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a\0\0\0\0\0\0\0\0"
    "\11\0\0\0\0\0\0\0toy.types\11\0\0\0\5\0\0\0\2\0\0\0\0\0\0\0\xff\xff\xff\xff\3\0\0\0"
    "\3\0\0\0\0\0\0\0mat\2\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0"
    "\3\0\0\0\0\0\0\0vec\1\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0";
enum { SMALL = sizeof small - 1 };

static void test_bytes(void **state)
{
    static const unsigned char halves[12] = { 0, 0x3c, 0, 0xc0, 0, 0x38, 0, 0x42, 0, 0, 0, 0x47 };
    size_t n, data = (SMALL + 31) / 32 * 32;

    (void)state;
    write_small("a.gguf");
    char *is = files_read(tempdir_at("a.gguf"), &n);

    assert_int_equal(n, data + 64);
    assert_memory_equal(is, small, SMALL);
    for (size_t i = SMALL; i < data; i++)
        assert_int_equal(is[i], 0);
    assert_memory_equal(is + data, halves, sizeof halves);
    assert_memory_equal(is + data + 32, ((float[]){ 1, -2 }), 8);
    free(is);
}

static void test_keys(void **state)
{
    struct gguf *g;
    size_t       n;
    uint64_t     at = 0;
    double       v;

    (void)state;
    write_small("a.gguf");
    assert_true(gguf_is_file(tempdir_at("a.gguf")));
    assert_int_equal(gguf_open(&g, tempdir_at("a.gguf"), &e), 0);
    assert_int_equal(g->n_values, 7);
    assert_memory_equal(gguf_text(&n, g, gguf_find(g, "general.architecture")), "toy", 3);
    assert_int_equal(n, 3);
    assert_null(gguf_text(&n, g, gguf_find(g, "toy.words")));
    assert_null(gguf_find(g, "toy"));
    assert_int_equal(gguf_number(&v, g, gguf_find(g, "toy.n"), 0), 0);
    assert_true(v > 257 && v < 259);
    assert_int_equal(gguf_number(&v, g, gguf_find(g, "toy.n"), 1), -1);
    assert_int_equal(gguf_number(&v, g, gguf_find(g, "toy.types"), 0), 0);
    assert_true(v < 0);
    assert_int_equal(gguf_number(&v, g, gguf_find(g, "toy.words"), 0), -1);
    assert_memory_equal(gguf_next_text(&n, &at, g, gguf_find(g, "toy.words")), "a", 1);
    assert_non_null(gguf_next_text(&n, &at, g, gguf_find(g, "toy.words")));
    assert_int_equal(n, 0);
    gguf_close(g);
}

/* ---- values ---- */

enum { ROW = 96, ROWS = 700, VALUES = ROW * ROWS };

static float value(size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + 12345;

    x ^= x >> 15;
    return (float)(int32_t)(x * 2246822519u) / 2147483648.0f;
}

static void write_values(enum gguf_type type, size_t piece)
{
    struct gguf_writer w;
    float             *v = malloc(VALUES * sizeof *v);

    unlink(tempdir_at("v.gguf"));
    for (size_t i = 0; i < VALUES; i++)
        v[i] = value(i);
    assert_int_equal(gguf_writer_open(&w, tempdir_at("v.gguf"), &e), 0);
    assert_int_equal(gguf_writer_declare(&w, "v", type, 2, (uint64_t[]){ ROW, ROWS }, &e), 0);
    for (size_t i = 0; i < VALUES; i += piece)
        assert_int_equal(gguf_writer_add(&w, v + i, piece < VALUES - i ? piece : VALUES - i, &e),
                         0);
    assert_int_equal(gguf_writer_flush(&w, &e), 0);
    assert_int_equal(gguf_writer_commit(&w, &e), 0);
    gguf_writer_close(&w);
    free(v);
}

/* What a value may become: its own rounding, or half a step of its block's largest value. */
static double allowed(enum gguf_type type, size_t i)
{
    double most = 0;

    if (type != GGUF_TYPE_Q8_0)
        return type == GGUF_TYPE_F32 ? 0 : ldexp(fabs((double)value(i)), type == GGUF_TYPE_F16
                                                                             ? -11 : -8) + 1e-7;
    for (size_t k = i / GGUF_BLOCK * GGUF_BLOCK, n = 0; n < GGUF_BLOCK; n++)
        most = fmax(most, fabs((double)value(k + n)));
    return most / 127 * 0.5 + most * 1e-3; // the scale is rounded to fp16
}

static void read_pieces(enum gguf_type type)
{
    float        part[9001];
    struct gguf *g;

    assert_int_equal(gguf_open(&g, tempdir_at("v.gguf"), &e), 0);
    for (size_t i = 0, n = 1; i < VALUES; i += n, n = n * 3 % 8999 + 1) {
        n = n < VALUES - i ? n : VALUES - i;
        assert_int_equal(gguf_read(g, gguf_tensor(g, "v"), i, n, part, &e), 0);
        for (size_t j = 0; j < n; j++)
            assert_true(fabs((double)part[j] - (double)value(i + j)) <= allowed(type, i + j));
    }
    gguf_close(g);
}

static void test_values(void **state)
{
    static const enum gguf_type types[] = { GGUF_TYPE_F32, GGUF_TYPE_F16, GGUF_TYPE_BF16,
                                            GGUF_TYPE_Q8_0 };
    static const size_t pieces[] = { VALUES, 32, 4096 + 64 };
    char  *first = NULL, *is;
    size_t n_first = 0, n;

    (void)state;
    for (size_t t = 0; t < 4; t++) {
        for (size_t k = 0; k < 3; k++) {
            write_values(types[t], pieces[k]);
            is = files_read(tempdir_at("v.gguf"), &n);
            if (k) {
                assert_int_equal(n, n_first);
                assert_memory_equal(is, first, n);
                free(is);
            } else {
                first = is;
                n_first = n;
            }
        }
        free(first);
        read_pieces(types[t]);
    }
}

/* The bytes that quants.quantize of PyPI's package gguf gives for these values. Halves round away
 * from zero. */
static void test_q8(void **state)
{
    static const unsigned char expected[2 * GGUF_BLOCK_BYTES] = {
        0x00, 0x3c, 0x7f, 0x01, 0xff, 0x02, 0xfe, 0x03, 0xfd, 0x7f, 0x81, 0x00, 0x81, 0x40, 0x00,
        0x00, 0x01, 0x01, 0x01, 0x02, 0x02, 0x02, 0x03, 0x03, 0x03, 0x04, 0x04, 0x04, 0x05, 0x05,
        0x05, 0x06, 0x06, 0x06, 0xc8, 0x2d, 0x00, 0xfc, 0x08, 0xf4, 0x10, 0xec, 0x19, 0xe3, 0x21,
        0xdb, 0x29, 0xd3, 0x31, 0xcb, 0x39, 0xc3, 0x42, 0xba, 0x4a, 0xb2, 0x52, 0xaa, 0x5a, 0xa2,
        0x62, 0x9a, 0x6b, 0x91, 0x73, 0x89, 0x7b, 0x81,
    };
    float         v[2 * GGUF_BLOCK] = { 127, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, -2.5f, 126.5f, -126.5f,
                                        0.49999997f, -127, 63.5f };
    unsigned char is[2 * GGUF_BLOCK_BYTES];

    (void)state;
    for (int i = 0; i < 20; i++)
        v[12 + i] = (float)(i / 3.0);
    for (int i = 0; i < GGUF_BLOCK; i++)
        v[GGUF_BLOCK + i] = (float)((i % 2 ? -1 : 1) * (i * 0.37 + 0.001));
    gguf_q8_from_f32(is, v, 2 * GGUF_BLOCK);
    assert_memory_equal(is, expected, sizeof is);
    memset(v, 0, sizeof v);
    gguf_q8_from_f32(is, v, GGUF_BLOCK);
    for (int i = 0; i < GGUF_BLOCK_BYTES; i++)
        assert_int_equal(is[i], 0);
}

static void test_unfit(void **state)
{
    static const struct { enum gguf_type type; float v; int fits; } cases[] = {
        { GGUF_TYPE_F16, 65504, 1 },  { GGUF_TYPE_F16, 65520, 0 },     { GGUF_TYPE_BF16, 1e30f, 1 },
        { GGUF_TYPE_Q8_0, 65504, 1 }, { GGUF_TYPE_Q8_0, 1e7f, 0 },     { GGUF_TYPE_F32, 1e30f, 1 },
        { GGUF_TYPE_Q8_0, NAN, 0 },   { GGUF_TYPE_Q8_0, INFINITY, 0 }, { GGUF_TYPE_F16, NAN, 1 },
    };
    struct gguf_writer w;
    float              v[GGUF_BLOCK] = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        v[7] = cases[i].v;
        assert_int_equal(gguf_writer_open(&w, tempdir_at("u.gguf"), &e), 0);
        assert_int_equal(gguf_writer_declare(&w, "u", cases[i].type, 1, (uint64_t[]){ 32 }, &e), 0);
        assert_int_equal(gguf_writer_add(&w, v, GGUF_BLOCK, &e), cases[i].fits ? 0 : -ERANGE);
        if (!cases[i].fits)
            assert_non_null(strstr(e.text, "of tensor u does not fit into"));
        gguf_writer_close(&w);
        assert_int_equal(access(tempdir_at("u.gguf"), F_OK), -1);
    }
}

/* ---- hostile headers ---- */

/* The small file with `n` bytes at the place `at` behind the text `behind` made those of `to`. */
static void refused(const char *behind, size_t skip, const void *to, size_t n, const char *text)
{
    size_t       size;
    struct gguf *g;
    char        *is = files_read(tempdir_at("a.gguf"), &size),
         *at = memmem(is, size, behind, strlen(behind));

    assert_non_null(at);
    memcpy(at + strlen(behind) + skip, to, n);
    tempdir_put("bad.gguf", is, size);
    assert_int_equal(gguf_open(&g, tempdir_at("bad.gguf"), &e), -EINVAL);
    if (!strstr(e.text, text))
        fail_msg("%s: expected in it: %s", e.text, text);
    assert_true(e.misuse);
    free(is);
}

static void test_hostile(void **state)
{
    static const uint64_t huge = UINT64_MAX / 2, many = 1u << 30, zero = 0;
    struct gguf          *g;
    size_t                size;

    (void)state;
    write_small("a.gguf");
    refused("GGU", 0, "X", 1, "is no GGUF file");
    refused("GGUF", 0, "\1", 1, "of version 1");
    refused("GGUF", 0, "\0\0\0\3", 4, "big-endian");
    refused("GGUF", 4, &huge, 8, "the name of a tensor has 0 bytes");
    refused("GGUF", 12, &huge, 8, "");
    refused("GGUF", 20, &huge, 8, "truncated");
    refused("GGUF", 20, &zero, 8, "the name of a key has 0 bytes");
    refused("general.architec", 0, "\n", 1, "no printable ASCII");
    refused("general.architecture", 0, "\15", 1, "of the unknown type 13");
    refused("general.architecture", 4, &huge, 8, "truncated");
    refused("toy.words", 0, "\11\0\0\0\11", 5, "an array of arrays");
    refused("toy.words", 8, &huge, 8, "more than the file has room for");
    refused("toy.words", 8, &many, 8, "more than the file has room for");
    refused("toy.f", (size_t)-1, "n", 1, "the key toy.n is there twice");
    refused("mat", 0, "\5", 1, "has 5 dimensions");
    refused("mat", 0, "\0", 1, "has 0 dimensions");
    refused("mat", 4, &zero, 8, "no or too many elements");
    refused("mat", 4, &huge, 8, "no or too many elements");
    refused("mat", 4, &many, 8, "behind the end of the file");
    refused("mat", 20, "\10", 1, "no multiple of 32");
    refused("mat", 24, "\1", 1, "at a multiple of 32");
    refused("mat", 24, "\40", 1, "overlap");
    refused("mat", 24, "\0\0\0\0\0\0\0\x40", 8, "behind the end of the file");
    refused("vec", (size_t)-3, "mat", 3, "the tensor mat is there twice");
    char *is = files_read(tempdir_at("a.gguf"), &size);

    for (size_t n = 0; n < size - 24; n++) { // 24 bytes of padding behind the last tensor
        tempdir_put("cut.gguf", is, n);
        assert_int_not_equal(gguf_open(&g, tempdir_at("cut.gguf"), &e), 0);
    }
    tempdir_put("cut.gguf", is, size - 24);
    assert_int_equal(gguf_open(&g, tempdir_at("cut.gguf"), &e), 0);
    gguf_close(g);
    free(is);
}

static void test_alignment(void **state)
{
    static const struct { uint32_t v; int ok; } cases[] = {
        { 32, 1 }, { 8, 1 }, { 0, 0 }, { 33, 0 }, { 1u << 31, 0 }, { 4, 0 },
    };
    struct gguf_writer w;
    struct gguf       *g;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gguf_writer_open(&w, tempdir_at("a.gguf"), &e), 0);
        gguf_put_u32(&w, "general.alignment", cases[i].v);
        assert_int_equal(gguf_writer_flush(&w, &e), 0);
        assert_int_equal(gguf_writer_commit(&w, &e), 0);
        gguf_writer_close(&w);
        assert_int_equal(gguf_open(&g, tempdir_at("a.gguf"), &e), cases[i].ok ? 0 : -EINVAL);
        if (cases[i].ok)
            gguf_close(g);
        else
            assert_non_null(strstr(e.text, "must be a power of two"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_bytes),  IN_TEMPDIR(test_keys),    IN_TEMPDIR(test_values),
        cmocka_unit_test(test_q8), IN_TEMPDIR(test_unfit), IN_TEMPDIR(test_hostile),
        IN_TEMPDIR(test_alignment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
