/* safetensors_writer.c: writes one safetensors file, in the order of its declarations.
 *
 * The header is before the data and has their checksums, which are known last. When the first
 * values come, it is written with room for them (its length does not depend on them), and written
 * again at commit. Only the declarations and a buffer are in memory. */
#include "data/base/crc32c.h"
#include "data/base/dtype.h"
#include "data/base/f16.h"
#include "data/base/grow.h"
#include "data/json/json.h"
#include "data/base/round.h"
#include "data/tensors/safetensors.h"

#include <assert.h>
#include <math.h>

/* ---- opening and declaring ---- */

enum { HALVES = 4096 }; // values converted at once

static size_t st_size(enum st_dtype dtype) { return dtype == ST_F32 ? 4 : 2; }

int safetensors_writer_open(struct safetensors_writer *w, const char *path, enum st_dtype dtype,
                            struct err *err)
{
    assert(dtype != ST_OTHER);
    *w = (struct safetensors_writer){ .dtype = dtype };
    return append_open(&w->data, path, 0, err);
}

int safetensors_writer_declare(struct safetensors_writer *w, const char *name, int n_dims,
                               const uint64_t *dims, struct err *err)
{
    assert(!w->data_off && n_dims >= 0 && n_dims <= 8);
    if (grow(&w->tensors, &w->cap, w->n + 1, sizeof *w->tensors, "tensors", err))
        return -ENOMEM;
    struct st_declared *p = &w->tensors[w->n++];

    *p = (struct st_declared){ .name = strdup(name), .n_dims = n_dims, .count = 1 };
    for (int i = 0; i < n_dims; i++)
        p->count *= p->dims[i] = dims[i];
    return p->name ? 0 : err_set(err, -ENOMEM, "no memory for tensor %s", name);
}

/* ---- the header ---- */

/* Makes {"dtype", "shape", "data_offsets"} of a tensor whose data begin at *off, and moves *off
 * on. */
static json_t *st_entry(const struct safetensors_writer *w, const struct st_declared *t,
                        uint64_t *off)
{
    json_t    *shape = json_array();
    json_int_t begin = (json_int_t)*off;

    for (int i = 0; i < t->n_dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)t->dims[i]));
    *off += t->count * st_size(w->dtype);
    return json_pack("{s:s, s:o, s:[I,I]}",
                     "dtype", w->dtype == ST_F32 ? "F32" : w->dtype == ST_F16 ? "F16" : "BF16",
                     "shape", shape, "data_offsets", begin, (json_int_t)*off);
}

/* Makes the header's text with the present checksums. Its length does not depend on them. Caller
 * frees; NULL: out of memory. */
static char *st_header_text(const struct safetensors_writer *w)
{
    json_t  *root = json_object(), *sums = json_object();
    char    *text = NULL;
    uint64_t off = 0;
    int      bad = 0;

    for (size_t i = 0; i < w->n; i++) {
        char hex[9];

        snprintf(hex, sizeof hex, "%08x", w->tensors[i].sum);
        bad |= json_object_set_new(sums, w->tensors[i].name, json_string(hex));
    }
    char *inner = json_dumps(sums, JSON_COMPACT);
    if (inner && !bad)
        bad |= json_object_set_new(root, "__metadata__",
                                   json_pack("{s:s, s:s, s:s, s:s*}", "format", "pt",
                                             ST_HEADER_KEY, ST_HEADER_ZEROS, ST_SUMS_KEY, inner,
                                             ST_BASE_KEY, w->base));
    for (size_t i = 0; i < w->n; i++)
        bad |= json_object_set_new(root, w->tensors[i].name, st_entry(w, &w->tensors[i], &off));
    if (inner && !bad)
        text = json_dumps(root, JSON_COMPACT);
    free(inner);
    json_decref(sums);
    json_decref(root);
    return text;
}

/* Writes length and header, padded with spaces to a multiple of 8, so that the data are aligned. */
static int st_header_write(struct safetensors_writer *w, struct err *err)
{
    char    *text = st_header_text(w);
    uint64_t n = text ? round_up(strlen(text), 8) : 0;
    char    *padded = malloc(n + 1), sum[9];
    int      rc = 0;

    assert(!text || !w->data_off || w->data_off == sizeof n + n);
    if (!text || !padded) {
        rc = err_set(err, -ENOMEM, "no memory for the header of %s, or a tensor's name is not "
                     "UTF-8", w->data.f.path);
    } else {
        snprintf(padded, n + 1, "%-*s", (int)n, text);
        snprintf(sum, sizeof sum, "%08x", crc32c(0, padded, n));
        memcpy(strstr(padded, ST_HEADER_MARK) + strlen(ST_HEADER_MARK), sum, 8);
    }
    rc = rc ? rc : file_pwrite(w->data.f.fd, &n, sizeof n, 0, w->data.f.path, err);
    rc = rc ? rc : file_pwrite(w->data.f.fd, padded, n, sizeof n, w->data.f.path, err);
    if (!rc && !w->data_off)
        w->data.off = w->data_off = sizeof n + n;
    free(padded);
    free(text);
    return rc;
}

/* ---- values ---- */

static int st_writer_values(struct safetensors_writer *w, const float *values, size_t n,
                            struct err *err)
{
    struct st_declared *t = &w->tensors[w->current];
    uint16_t            half[HALVES];
    int                 rc = 0;

    w->done += n;
    for (size_t part; n > 0 && !rc; values += part, n -= part) {
        const void *bytes = w->dtype == ST_F32 ? (const void *)values : half;

        part = size_min(n, HALVES);
        for (size_t i = 0; i < part && w->dtype != ST_F32; i++) {
            half[i] = w->dtype == ST_F16 ? f16_from_f32(values[i]) : bf16_from_f32(values[i]);
            if (w->dtype == ST_F16 && isfinite(values[i]) && (half[i] & 0x7fff) == 0x7c00)
                return err_set(err, -ERANGE, "%s: value %g of tensor %s does not fit into fp16 "
                               "(largest 65504): use bf16 or fp32", w->data.f.path,
                               (double)values[i], t->name);
        }
        t->sum = crc32c(t->sum, bytes, part * st_size(w->dtype));
        rc = append_add(&w->data, bytes, part * st_size(w->dtype), err);
    }
    return rc;
}

int safetensors_writer_add(struct safetensors_writer *w, const float *values, size_t n,
                           struct err *err)
{
    int rc = w->data_off ? 0 : st_header_write(w, err);

    for (size_t part; !rc; values += part, n -= part) {
        for (; w->current < w->n && w->done == w->tensors[w->current].count; w->done = 0)
            w->current++; // past complete or empty tensors
        if (n == 0)
            break;
        if (w->current == w->n)
            return err_set(err, -EINVAL, "%s: more values than the declared tensors hold",
                           w->data.f.path);
        part = size_min(n, w->tensors[w->current].count - w->done);
        rc = st_writer_values(w, values, part, err);
    }
    return rc;
}

int safetensors_writer_commit(struct safetensors_writer *w, struct err *err)
{
    // lays out the header if all tensors are empty
    int rc = safetensors_writer_add(w, NULL, 0, err);

    if (!rc && w->current < w->n)
        rc = err_set(err, -EINVAL, "%s: tensor %s got %" PRIu64 " of its %" PRIu64 " values",
                     w->data.f.path, w->tensors[w->current].name, w->done,
                     w->tensors[w->current].count);
    rc = rc ? rc : append_flush(&w->data, err);
    rc = rc ? rc : st_header_write(w, err);
    return rc ? rc : file_new_commit(&w->data.f, err);
}

void safetensors_writer_close(struct safetensors_writer *w)
{
    append_close(&w->data);
    for (size_t i = 0; i < w->n; i++)
        free(w->tensors[i].name);
    free(w->tensors);
    *w = (struct safetensors_writer){ 0 };
}
