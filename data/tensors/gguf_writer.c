/* gguf_writer.c: writes a GGUF file. Keys and declarations are collected in memory as they will
 * stand in the file: a model's vocabulary is a few megabytes. They are written when the first value
 * comes; then values pass through a buffer. */
#include "data/tensors/gguf.h"

#include "data/base/dtype.h"
#include "data/base/f16.h"
#include "data/base/grow.h"
#include "data/base/round.h"

#include <assert.h>
#include <math.h>

/* ---- keys ---- */

static void put(struct gguf_writer *w, const void *bytes, size_t n)
{
    w->failed |= grow_add(&w->keys, &w->keys_bytes, &w->keys_cap, bytes, n, 1, "bytes of keys",
                          NULL) != 0;
}

void gguf_add_text(struct gguf_writer *w, const char *text, size_t n)
{
    put(w, &(uint64_t){ n }, sizeof(uint64_t));
    put(w, text, n);
}

static void put_key(struct gguf_writer *w, const char *key, enum gguf_kind kind)
{
    assert(!w->n && !w->begun);
    w->n_keys++;
    gguf_add_text(w, key, strlen(key));
    put(w, &(uint32_t){ (uint32_t)kind }, sizeof(uint32_t));
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    put_key(w, key, GGUF_U32);
    put(w, &v, sizeof v);
}

void gguf_put_f32(struct gguf_writer *w, const char *key, float v)
{
    put_key(w, key, GGUF_F32);
    gguf_add_f32(w, v);
}

void gguf_put_f64(struct gguf_writer *w, const char *key, double v)
{
    put_key(w, key, GGUF_F64);
    put(w, &v, sizeof v);
}

void gguf_put_bool(struct gguf_writer *w, const char *key, int v)
{
    put_key(w, key, GGUF_BOOL);
    put(w, &(uint8_t){ v != 0 }, 1);
}

void gguf_put_text(struct gguf_writer *w, const char *key, const char *text, size_t n)
{
    put_key(w, key, GGUF_STRING);
    gguf_add_text(w, text, n);
}

void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_kind of, uint64_t n)
{
    put_key(w, key, GGUF_ARRAY);
    put(w, &(uint32_t){ (uint32_t)of }, sizeof(uint32_t));
    put(w, &n, sizeof n);
}

void gguf_add_f32(struct gguf_writer *w, float v) { put(w, &v, sizeof v); }

void gguf_add_i32(struct gguf_writer *w, int32_t v) { put(w, &v, sizeof v); }

/* ---- declarations ---- */

static int info(struct gguf_writer *w, const void *bytes, size_t n, struct err *err)
{
    return grow_add(&w->infos, &w->infos_bytes, &w->infos_cap, bytes, n, 1, "names of tensors",
                    err);
}

int gguf_writer_open(struct gguf_writer *w, const char *path, struct err *err)
{
    *w = (struct gguf_writer){ 0 };
    return append_open(&w->data, path, 0, err);
}

int gguf_writer_declare(struct gguf_writer *w, const char *name, enum gguf_type type, int n_dims,
                        const uint64_t *dims, struct err *err)
{
    struct gguf_declared d = { .name = strdup(name), .type = type, .count = 1 };
    uint64_t             length = strlen(name);
    uint32_t             words[2] = { (uint32_t)n_dims, (uint32_t)type };

    assert(!w->begun && n_dims >= 1 && n_dims <= GGUF_DIMS);
    for (int i = 0; i < n_dims; i++)
        d.count *= dims[i];
    assert(d.count && (type != GGUF_TYPE_Q8_0 || dims[0] % GGUF_BLOCK == 0));
    if (w->failed || !d.name || info(w, &length, sizeof length, err) ||
        info(w, name, length, err) || info(w, &words[0], 4, err) ||
        info(w, dims, (size_t)n_dims * 8, err) || info(w, &words[1], 4, err) ||
        info(w, &w->offset, sizeof w->offset, err) ||
        grow_add(&w->tensors, &w->n, &w->cap, &d, 1, sizeof d, "tensors", err)) {
        free(d.name);
        return err_set(err, -ENOMEM, "no memory for the header of %s", w->data.f.path);
    }
    w->offset += round_up(gguf_type_bytes(type, d.count), GGUF_ALIGNMENT);
    return 0;
}

/* ---- values ---- */

static int pad(struct gguf_writer *w, struct err *err)
{
    static const unsigned char zeros[GGUF_ALIGNMENT];
    uint64_t                   at = w->data.off + w->data.used;

    return append_add(&w->data, zeros, round_up(at, GGUF_ALIGNMENT) - at, err);
}

static int begin(struct gguf_writer *w, struct err *err)
{
    uint32_t version = GGUF_VERSION;
    uint64_t counts[2] = { w->n, w->n_keys };
    int      rc = append_add(&w->data, GGUF_MAGIC, 4, err);

    w->begun = 1;
    rc = rc ? rc : append_add(&w->data, &version, sizeof version, err);
    rc = rc ? rc : append_add(&w->data, counts, sizeof counts, err);
    rc = rc ? rc : append_add(&w->data, w->keys, w->keys_bytes, err);
    rc = rc ? rc : append_add(&w->data, w->infos, w->infos_bytes, err);
    return rc ? rc : pad(w, err);
}

enum { ELEMENTS = 4096 }; // converted at once, a multiple of GGUF_BLOCK

/* Converts n elements, at most ELEMENTS. */
static int convert(struct gguf_writer *w, const struct gguf_declared *t, unsigned char *out,
                   const float *values, size_t n, struct err *err)
{
    for (size_t i = 0; i < n && t->type != GGUF_TYPE_F32; i++) {
        int      q8 = t->type == GGUF_TYPE_Q8_0, finite = isfinite(values[i]) != 0;
        float    kept = q8 ? values[i] / 127 : values[i];
        uint16_t half = t->type == GGUF_TYPE_BF16 ? bf16_from_f32(kept) : f16_from_f32(kept);

        if (t->type != GGUF_TYPE_BF16 && (finite ? (half & 0x7fff) == 0x7c00 : q8))
            return err_set(err, -ERANGE, "%s: value %g of tensor %s does not fit into %s: use "
                           "--gguf-type bf16 or f32", w->data.f.path, (double)values[i], t->name,
                           t->type == GGUF_TYPE_F16 ? "f16 (largest 65504)" : "q8_0");
        if (!q8)
            memcpy(out + 2 * i, &half, sizeof half);
    }
    if (t->type == GGUF_TYPE_Q8_0)
        gguf_q8_from_f32(out, values, n);
    return 0;
}

int gguf_writer_add(struct gguf_writer *w, const float *values, size_t n, struct err *err)
{
    unsigned char               bytes[ELEMENTS * 2];
    const struct gguf_declared *t = &w->tensors[w->current];
    int                         rc = w->begun ? 0 : begin(w, err);

    assert(w->current < w->n && n <= t->count - w->done);
    for (size_t part; n > 0 && !rc; values += part, n -= part) {
        part = size_min(n, ELEMENTS);
        rc = convert(w, t, bytes, values, part, err);
        rc = rc ? rc : append_add(&w->data, t->type == GGUF_TYPE_F32 ? (const void *)values : bytes,
                                  gguf_type_bytes(t->type, part), err);
        w->done += part;
    }
    if (!rc && w->done == t->count) {
        w->current++;
        w->done = 0;
        rc = pad(w, err);
    }
    return rc;
}

int gguf_writer_flush(struct gguf_writer *w, struct err *err)
{
    int rc = w->begun ? 0 : begin(w, err);

    assert(w->current == w->n);
    return rc ? rc : append_flush(&w->data, err);
}

int gguf_writer_commit(struct gguf_writer *w, struct err *err)
{
    return file_new_commit(&w->data.f, err);
}

void gguf_writer_close(struct gguf_writer *w)
{
    append_close(&w->data);
    for (size_t i = 0; i < w->n; i++)
        free(w->tensors[i].name);
    free(w->tensors);
    free(w->keys);
    free(w->infos);
    *w = (struct gguf_writer){ 0 };
}
