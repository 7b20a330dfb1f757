/* fuzz_safetensors.c: model files: one, or an index and two shards. Beside the folder stands a file
 * that no index may reach. */
#include "tests/fuzz/fuzz.h"

#include "data/tensors/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PART = 300 };

static const char *const shards[] = { "m/model.safetensors.index.json", "m/a.safetensors",
                                      "m/b.safetensors" };

static void write_model(const char *path, const char *const *names, size_t n, enum st_dtype dtype)
{
    struct safetensors_writer w;
    float                      values[24];
    uint64_t                   dims[2] = { 4, 6 };
    struct err                 err;

    for (int i = 0; i < 24; i++)
        values[i] = (float)i - 11.5f;
    FUZZ_CHECK(!safetensors_writer_open(&w, path, dtype, &err));
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(!safetensors_writer_declare(&w, names[i], 2, dims, &err));
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(!safetensors_writer_add(&w, values, 24, &err));
    FUZZ_CHECK(!safetensors_writer_commit(&w, &err));
    safetensors_writer_close(&w);
}

static void start(void)
{
    FUZZ_CHECK(!mkdir(fuzz_path("m"), 0700));
    write_model(fuzz_path("secret.safetensors"), (const char *const[]){ "secret" }, 1, ST_F32);
}

static void read_ends(struct safetensors *s, const struct st_tensor *t)
{
    float      values[PART];
    size_t     n = t->count < PART ? (size_t)t->count : PART;
    struct err err;
    int        rc = safetensors_read(s, t, 0, n, values, &err);

    if (rc) {
        FUZZ_CHECK(t->dtype == ST_OTHER);
        fuzz_refused(rc, &err);
    } else {
        FUZZ_CHECK(!safetensors_read(s, t, t->count - n, n, values, &err));
    }
}

/* Whether a tensor of this size fits into fp32 anew within the test's bound of memory and time. */
static int is_small(const struct st_tensor *t)
{
    return t->dtype != ST_OTHER && t->count <= PART;
}

/* The small tensors written anew, in fp32, are the same values. */
static void round_trip(struct safetensors *s)
{
    struct safetensors_writer w;
    struct safetensors        *back;
    float                      values[PART], again[PART];
    struct err                 err;
    size_t                     n = 0;

    fuzz_remove("copy");
    FUZZ_CHECK(!mkdir(fuzz_path("copy"), 0700) &&
               !safetensors_writer_open(&w, fuzz_path("copy/model.safetensors"), ST_F32, &err));
    for (size_t i = 0; i < s->n; i++) {
        const struct st_tensor *t = &s->tensors[i];

        if (is_small(t))
            FUZZ_CHECK(!safetensors_writer_declare(&w, t->name, t->n_dims, t->dims, &err) && ++n);
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct st_tensor *t = &s->tensors[i];

        if (is_small(t))
            FUZZ_CHECK(!safetensors_read(s, t, 0, t->count, values, &err) &&
                       !safetensors_writer_add(&w, values, t->count, &err));
    }
    FUZZ_CHECK(!safetensors_writer_commit(&w, &err));
    safetensors_writer_close(&w);
    if (!n)
        return;
    FUZZ_CHECK(!safetensors_open(&back, fuzz_path("copy"), &err) &&
               !safetensors_verify(back, NULL, &err) && back->n == n);
    for (size_t i = 0; i < n; i++) {
        const struct st_tensor *t = &back->tensors[i], *from = safetensors_find(s, t->name);

        FUZZ_CHECK(from && from->count == t->count &&
                   !safetensors_read(back, t, 0, t->count, again, &err));
        FUZZ_CHECK(!safetensors_read(s, from, 0, t->count, values, &err) &&
                   !memcmp(values, again, t->count * sizeof *values));
    }
    safetensors_close(back);
}

static void files_put(struct fuzz_in *in)
{
    int    whole = fuzz_number(in, 1) % 2 == 0;
    size_t n = whole ? 1 : 3;

    fuzz_remove("m/model.safetensors");
    for (size_t i = 0; i < 3; i++)
        fuzz_remove(shards[i]);
    for (size_t i = 0; i < n; i++) {
        struct fuzz_in part = fuzz_part(in);

        fuzz_put(whole ? "m/model.safetensors" : shards[i], part.p, part.n);
    }
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in      in = { bytes, n };
    struct safetensors *s;
    struct err          err = { 0 };
    int                 rc;

    files_put(&in);
    rc = safetensors_open(&s, fuzz_path("m"), &err);
    if (rc)
        return fuzz_refused(rc, &err);
    FUZZ_CHECK(!safetensors_find(s, "secret"));
    for (size_t i = 0; i < s->n; i++) {
        FUZZ_CHECK(safetensors_find(s, s->tensors[i].name) == &s->tensors[i]);
        read_ends(s, &s->tensors[i]);
    }
    rc = safetensors_verify(s, NULL, &err);
    if (rc)
        fuzz_refused(rc, &err);
    round_trip(s);
    safetensors_close(s);
    return 1;
}

static void seed_of(const char *const *files, size_t n, int selector)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, (uint64_t)selector, 1);
    for (size_t i = 0; i < n; i++) {
        uint8_t *p;
        size_t   bytes;

        if (i)
            fuzz_add_mark(&out);
        fuzz_take(files[i], &p, &bytes);
        fuzz_add(&out, p, bytes);
        free(p);
    }
    fuzz_seed_out(&out);
}

static void index_seed(const char *of_b)
{
    char index[256];
    int  n = snprintf(index, sizeof index,
                      "{\"metadata\": {\"total_size\": 9}, \"weight_map\": {\"one\": "
                       "\"a.safetensors\", \"two\": \"a.safetensors\", \"three\": \"%s\"}}",
                      of_b);

    fuzz_put(shards[0], index, (size_t)n);
    write_model(fuzz_path(shards[1]), (const char *const[]){ "one", "two" }, 2, ST_F16);
    write_model(fuzz_path(shards[2]), (const char *const[]){ "three" }, 1, ST_BF16);
    seed_of(shards, 3, 1);
}

static void raw_seed(const char *header, size_t data)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, 0, 1);
    fuzz_add_number(&out, strlen(header), 8);
    fuzz_add(&out, header, strlen(header));
    for (size_t i = 0; i < data; i++)
        fuzz_add_number(&out, i * 37, 1);
    fuzz_seed_out(&out);
}

static void seeds(void)
{
    for (int d = ST_F32; d <= ST_BF16; d++) {
        write_model(fuzz_path("m/model.safetensors"),
                    (const char *const[]){ "wte.weight", "h.0.ln_1.bias" }, 2, (enum st_dtype)d);
        seed_of((const char *const[]){ "m/model.safetensors" }, 1, 0);
    }
    index_seed("b.safetensors");
    index_seed("../secret.safetensors");
    index_seed("..");
    raw_seed("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":"
             "\"I64\",\"shape\":[],\"data_offsets\":[24,32]},\"c\":{\"dtype\":\"BF16\",\"shape\":["
             "0],\"data_offsets\":[32,32]}}",
             32);
}

const struct fuzz_target fuzz_safetensors = {
    "safetensors", start, one, seeds, 4 << 20, 256, 2000
};
