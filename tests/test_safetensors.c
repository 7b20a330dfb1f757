/* test_safetensors.c: what is written is read back, in every dtype and in pieces; hostile headers
 * are refused with a sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/dtype.h"
#include "data/base/f16.h"
#include "data/json/json.h"
#include "data/tensors/safetensors.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct err e;

/* Tensors a (3, 1000), b () and an empty one, c (20000); values from a seed. */
static float value(size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + 12345;

    x ^= x >> 15;
    return (float)(int32_t)(x * 2246822519u) / 2147483648.0f;
}

static void write_model(const char *name, enum st_dtype dtype, size_t piece)
{
    struct safetensors_writer w;
    size_t                     n = 3000 + 1 + 20000;
    float                     *v = malloc(n * sizeof *v);

    unlink(tempdir_at(name));

    for (size_t i = 0; i < n; i++)
        v[i] = value(i);
    assert_int_equal(safetensors_writer_open(&w, tempdir_at(name), dtype, &e), 0);
    assert_int_equal(safetensors_writer_declare(&w, "z.a\"\xc3\xa9", 2, (uint64_t[]){ 3, 1000 },
                                                &e), 0);
    assert_int_equal(safetensors_writer_declare(&w, "b", 0, NULL, &e), 0);
    assert_int_equal(safetensors_writer_declare(&w, "empty", 2, (uint64_t[]){ 0, 5 }, &e), 0);
    assert_int_equal(safetensors_writer_declare(&w, "c", 1, (uint64_t[]){ 20000 }, &e), 0);
    for (size_t i = 0; i < n; i += piece)
        assert_int_equal(safetensors_writer_add(&w, v + i, piece < n - i ? piece : n - i, &e), 0);
    assert_true(access(tempdir_at(name), F_OK) != 0);
    assert_int_equal(safetensors_writer_commit(&w, &e), 0);
    safetensors_writer_close(&w);
    free(v);
}

static float expected(size_t i, enum st_dtype dtype)
{
    return dtype == ST_F32 ? value(i) : dtype == ST_F16 ? f16_to_f32(f16_from_f32(value(i)))
                                                        : bf16_to_f32(bf16_from_f32(value(i)));
}

static void test_round_trip(void **state)
{
    float *v = malloc(20000 * sizeof *v);

    (void)state;
    for (int d = ST_F32; d <= ST_BF16; d++) {
        struct safetensors     *s;
        const struct st_tensor *t;

        write_model("model.safetensors", (enum st_dtype)d, 4999);
        assert_int_equal(safetensors_open(&s, tempdir, &e), 0);
        assert_int_equal(s->n, 4);
        t = safetensors_find(s, "z.a\"\xc3\xa9");
        assert_non_null(t);
        assert_true(t->n_dims == 2 && t->dims[0] == 3 && t->dims[1] == 1000 && t->count == 3000 &&
                    (int)t->dtype == d);
        assert_int_equal(safetensors_read(s, t, 7, 2900, v, &e), 0);
        for (size_t i = 0; i < 2900; i++)
            assert_true(v[i] == expected(7 + i, (enum st_dtype)d));
        t = safetensors_find(s, "c");
        assert_int_equal(safetensors_read(s, t, 0, 20000, v, &e), 0);
        for (size_t i = 0; i < 20000; i++)
            assert_true(v[i] == expected(3001 + i, (enum st_dtype)d));
        assert_int_equal(safetensors_find(s, "b")->n_dims, 0);
        assert_int_equal(safetensors_find(s, "empty")->count, 0);
        assert_null(safetensors_find(s, "absent"));
        assert_int_equal(safetensors_verify(s, NULL, &e), 0);
        safetensors_close(s);
    }
    free(v);
}

static void test_same_bytes(void **state)
{
    size_t n, m;
    char  *a, *b;

    (void)state;
    write_model("a", ST_BF16, 1);
    write_model("b", ST_BF16, 100000);
    a = files_read(tempdir_at("a"), &n);
    b = files_read(tempdir_at("b"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    assert_int_equal((unsigned char)a[0] % 8, 0);
    free(a);
    free(b);
}

static void test_corruption_is_found(void **state)
{
    struct safetensors *s;
    size_t              n;
    char               *p;

    (void)state;
    write_model("model.safetensors", ST_F32, 100000);
    p = files_read(tempdir_at("model.safetensors"), &n);
    p[n - 5000] ^= 1;
    files_write(tempdir_at("model.safetensors"), p, n);
    assert_int_equal(safetensors_open(&s, tempdir, &e), 0);
    assert_int_equal(safetensors_verify(s, NULL, &e), -EBADMSG);
    assert_non_null(strstr(e.text, "tensor c"));
    safetensors_close(s);
    files_write(tempdir_at("model.safetensors"), p, n - 1);
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    free(p);
}

/* Any byte of the header, its length, names, shapes, offsets, checksums, keys and padding, in any
 * of three ways; and the data's first and last bytes. */
static void test_every_byte_counts(void **state)
{
    static const char flips[] = { 1, 0x20, (char)0x80 };
    struct safetensors *s;
    size_t              n, head;
    char               *p;

    (void)state;
    write_model("model.safetensors", ST_BF16, 3000);
    p = files_read(tempdir_at("model.safetensors"), &n);
    memcpy(&head, p, sizeof head);
    for (size_t i = 0; i < n; i += i == head + 40 ? n - head - 80 : 1)
        for (size_t k = 0; k < sizeof flips; k++) {
            int rc;

            p[i] = (char)(p[i] ^ flips[k]);
            files_write(tempdir_at("model.safetensors"), p, n);
            rc = safetensors_open(&s, tempdir, &e);
            if (!rc) {
                rc = safetensors_verify(s, NULL, &e);
                safetensors_close(s);
            }
            if (!rc)
                fail_msg("byte %zu of %zu flipped by %02x: not found", i, n,
                         (unsigned char)flips[k]);
            assert_non_null(strstr(e.text, tempdir));
            p[i] = (char)(p[i] ^ flips[k]);
        }
    print_message("%zu bytes turned, %zu ways each\n", head + 80, sizeof flips);
    files_write(tempdir_at("model.safetensors"), p, n);
    assert_int_equal(safetensors_open(&s, tempdir, &e), 0);
    assert_int_equal(safetensors_verify(s, NULL, &e), 0);
    assert_int_equal(s->summed, 1);
    assert_int_equal(s->bytes, n);
    safetensors_close(s);
    free(p);
}

static void test_rounding(void **state)
{
    (void)state;
    assert_int_equal(bf16_from_f32(1.0f + 0x1p-8f), 0x3f80); // tie to even, down
    assert_int_equal(bf16_from_f32(1.0f + 3 * 0x1p-8f), 0x3f82);                 // tie to even, up
    assert_int_equal(bf16_from_f32(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
    assert_int_equal(bf16_from_f32(INFINITY), 0x7f80);
    assert_int_equal(bf16_from_f32(3.4e38f), 0x7f80);
    assert_true(isnan(bf16_to_f32(bf16_from_f32(NAN))));
    assert_int_equal(f16_from_f32(1.0f + 0x1p-11f), 0x3c00);
    assert_int_equal(f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(f16_from_f32(0x1p-24f), 1);                                 // subnormal
}

static void test_writer_refusals(void **state)
{
    struct safetensors_writer w;
    float                      v[3] = { 1, 70000, 3 };

    (void)state;
    assert_int_equal(safetensors_writer_open(&w, tempdir_at("m"), ST_F16, &e), 0);
    assert_int_equal(safetensors_writer_declare(&w, "t", 1, (uint64_t[]){ 3 }, &e), 0);
    assert_int_equal(safetensors_writer_add(&w, v, 2, &e), -ERANGE);
    safetensors_writer_close(&w);
    assert_int_equal(safetensors_writer_open(&w, tempdir_at("m"), ST_F32, &e), 0);
    assert_int_equal(safetensors_writer_declare(&w, "t", 1, (uint64_t[]){ 3 }, &e), 0);
    assert_int_equal(safetensors_writer_add(&w, v, 2, &e), 0);
    assert_int_equal(safetensors_writer_commit(&w, &e), -EINVAL);
    assert_int_equal(safetensors_writer_add(&w, v, 2, &e), -EINVAL);
    safetensors_writer_close(&w);
    safetensors_writer_close(&w);
    assert_true(access(tempdir_at("m"), F_OK) != 0);
}

/* A file of this header and n bytes of data. */
static void write_header(const char *name, const char *header, size_t n)
{
    uint64_t len = strlen(header);
    char    *p = calloc(1, 8 + len + n);

    memcpy(p, &len, 8);
    memcpy(p + 8, header, len);
    files_write(tempdir_at(name), p, 8 + len + n);
    free(p);
}

static void test_hostile_headers(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{}",
        "{\"a\": 1}",
        "{\"__metadata__\": 3}",
        "{\"__metadata__\": {\"sitrain.crc32c\": \"{\"}}",
        "{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1.5], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [16, 20]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [-4, 0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967297], \"data_offsets\": [0, "
        "4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [4611686018427387905], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, \"a\": "
        "{\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}, \"b\": "
        "{\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
    };
    struct safetensors *s;
    uint64_t            huge = UINT64_MAX;

    (void)state;
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_header("model.safetensors", bad[i], 16);
        assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
        assert_null(s);
        assert_true(e.misuse);
        assert_non_null(strstr(e.text, "model.safetensors"));
    }
    files_write(tempdir_at("model.safetensors"), &huge, 8);
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    files_write(tempdir_at("model.safetensors"), &huge, 7);
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
}

static void test_other_dtype(void **state)
{
    struct safetensors *s;
    float               v;

    (void)state;
    write_header("model.safetensors",
                 "{\"m\": {\"dtype\": \"BOOL\", \"shape\": [4], \"data_offsets\": [0, 4]}}", 4);
    assert_int_equal(safetensors_open(&s, tempdir, &e), 0);
    assert_int_equal(s->tensors[0].dtype, ST_OTHER);
    assert_int_equal(safetensors_read(s, &s->tensors[0], 0, 1, &v, &e), -EINVAL);
    assert_int_equal(safetensors_verify(s, NULL, &e), 0); // a foreign file: nothing to compare
    safetensors_close(s);
}

static void put_index(const char *text)
{
    files_write(tempdir_at("model.safetensors.index.json"), text, strlen(text));
}

static void test_shards(void **state)
{
    static const char one[] = "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, "
                              "4]}}";
    struct safetensors *s;

    (void)state;
    write_header("s1", one, 4);
    write_model("s2", ST_F16, 100000);
    put_index("{\"weight_map\": {\"a\": \"s1\", \"b\": \"s2\", \"c\": \"s2\"}}");
    assert_int_equal(safetensors_open(&s, tempdir, &e), 0);
    assert_int_equal(s->n, 5);
    assert_int_equal(safetensors_find(s, "a")->file, 0);
    assert_int_equal(safetensors_find(s, "c")->file, 1);
    assert_int_equal(safetensors_verify(s, NULL, &e), 0);
    safetensors_close(s);
    put_index("{\"weight_map\": {\"a\": \"s1\", \"b\": \"s1\"}}");
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    put_index("{\"weight_map\": {\"a\": \"../s1\"}}");
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    put_index("{\"weight_map\": {\"a\": \"..\"}}");
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    put_index("{\"weight_map\": {\"a\": 3}}");
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    put_index("{\"weight_map\": []}");
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    put_index("[]");
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    put_index("{\"weight_map\": {\"a\": \"absent\"}}");
    assert_int_equal(safetensors_open(&s, tempdir, &e), -ENOENT);
    write_header("s3", one, 4);
    put_index("{\"weight_map\": {\"a\": \"s1\", \"x\": \"s3\"}}");
    assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
    assert_non_null(strstr(e.text, "two files"));
}

/* Files that are there and whole, reached by ways out of the folder and back: none is opened. What
 * a name holds stays one line. */
static void test_folder_is_not_left(void **state)
{
    static const char one[] = "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, "
                              "4]}}";
    const char       *base = strrchr(tempdir, '/') + 1;
    char              index[640], names[5][256];

    (void)state;
    write_header("s1", one, 4);
    snprintf(names[0], sizeof names[0], "%s/s1", tempdir);
    snprintf(names[1], sizeof names[1], "../%s/s1", base);
    snprintf(names[2], sizeof names[2], "./s1");
    snprintf(names[3], sizeof names[3], ".//s1");
    snprintf(names[4], sizeof names[4], "..\\u002f%s\\u002fs1", base); // JSON's own way to write a
                                                                       // slash
    for (size_t i = 0; i < 5; i++) {
        struct safetensors *s;

        snprintf(index, sizeof index, "{\"weight_map\": {\"a\\u001b[2J\\n\": \"%.255s\"}}",
                 names[i]);
        put_index(index);
        assert_int_equal(safetensors_open(&s, tempdir, &e), -EINVAL);
        assert_non_null(strstr(e.text, "no file of the same folder"));
        assert_null(strpbrk(e.text, "\x1b\n"));
    }
}

#define T(f) IN_TEMPDIR(f)

/* Python's whole numbers have no end: those beyond an int64 are real ones, and nothing else is
 * changed. */
static void test_long_numbers(void **state)
{
    static const char text[] = "{\"a\": 1000000000000000019884624838656, \"b\": "
                               "-1000000000000000019884624838656, \"c\\\"12345678901234567890\": "
                               "[\"12345678901234567890\", 7, 12345678901234567890.5]}";
    json_t           *value, *list;
    struct err        err = { 0 };

    (void)state;
    assert_int_equal(json_parse(&value, text, strlen(text), "text", &err), 0);
    assert_true(json_real_value(json_object_get(value, "a")) == 1e30);
    assert_true(json_real_value(json_object_get(value, "b")) == -1e30);
    list = json_object_get(value, "c\"12345678901234567890");
    assert_string_equal(json_string_value(json_array_get(list, 0)), "12345678901234567890");
    assert_true(json_is_integer(json_array_get(list, 1)) &&
                json_integer_value(json_array_get(list, 1)) == 7);
    assert_true(json_real_value(json_array_get(list, 2)) == 12345678901234567890.5);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_round_trip),         T(test_same_bytes),   T(test_corruption_is_found),
        T(test_every_byte_counts),  T(test_rounding),     T(test_writer_refusals),
        T(test_hostile_headers),    T(test_other_dtype),  T(test_shards),
        T(test_folder_is_not_left), T(test_long_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
