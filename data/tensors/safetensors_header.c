/* safetensors_header.c: the header of one safetensors file: its length, its JSON, its tensors, and
 * what siTrain wrote beside them (checksums).
 *
 * A header comes from anywhere, so nothing in it is believed: every length, offset and shape is
 * checked before it is used. Divisions: dtypes; tensors; __metadata__; the file. Invariant: after
 * st_file_open every tensor of a known dtype has count * size bytes inside its file, overlapping no
 * other of it. */
#include "data/tensors/safetensors_parts.h"

#include "data/base/crc32c.h"
#include "data/base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- dtypes ---- */

static const struct { const char *name; enum st_dtype dtype; unsigned size; } st_dtypes[] = {
    { "F32", ST_F32, 4 },         { "F16", ST_F16, 2 },         { "BF16", ST_BF16, 2 },
    { "F64", ST_OTHER, 8 },       { "I64", ST_OTHER, 8 },       { "U64", ST_OTHER, 8 },
    { "I32", ST_OTHER, 4 },       { "U32", ST_OTHER, 4 },       { "I16", ST_OTHER, 2 },
    { "U16", ST_OTHER, 2 },       { "I8", ST_OTHER, 1 },        { "U8", ST_OTHER, 1 },
    { "BOOL", ST_OTHER, 1 },      { "F8_E4M3", ST_OTHER, 1 },   { "F8_E5M2", ST_OTHER, 1 },
};

/* ---- tensors ---- */

/* dims and count of the tensor from its "shape"; -1 if it is none. */
static int st_shape(struct st_tensor *t, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > sizeof t->dims / sizeof *t->dims)
        return -1;
    t->n_dims = (int)json_array_size(shape);
    t->count = 1;
    for (int i = 0; i < t->n_dims; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);

        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return -1;
        t->dims[i] = (uint64_t)json_integer_value(d);
        if (__builtin_mul_overflow(t->count, t->dims[i], &t->count))
            return -1;
    }
    return 0;
}

/* Begin and end of the tensor's data, relative to the file's data; -1 if they are none inside it.
 */
static int st_range(const json_t *offsets, uint64_t data_bytes, uint64_t range[2])
{
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        const json_t *o = json_array_get(offsets, i);

        if (!json_is_integer(o) || json_integer_value(o) < 0)
            return -1;
        range[i] = (uint64_t)json_integer_value(o);
    }
    return range[0] <= range[1] && range[1] <= data_bytes ? 0 : -1;
}

static int st_tensor_parse(struct st_tensor *t, const char *name, const json_t *v,
                           const struct st_file *f, uint64_t range[2], struct err *err)
{
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    uint64_t    bytes;

    if (!dtype)
        return err_misuse(err, "%s: tensor %s has no dtype", f->path, name);
    if (st_shape(t, json_object_get(v, "shape")))
        return err_misuse(err, "%s: tensor %s has no shape of at most 8 sizes", f->path, name);
    if (st_range(json_object_get(v, "data_offsets"), f->data_bytes, range))
        return err_misuse(err, "%s: tensor %s has no data_offsets inside the file's %" PRIu64
                          " bytes of data", f->path, name, f->data_bytes);
    t->dtype = ST_OTHER;
    for (size_t i = 0; i < sizeof st_dtypes / sizeof *st_dtypes; i++) {
        if (strcmp(dtype, st_dtypes[i].name))
            continue;
        t->dtype = st_dtypes[i].dtype;
        if (__builtin_mul_overflow(t->count, st_dtypes[i].size, &bytes) ||
            bytes != range[1] - range[0])
            return err_misuse(err, "%s: tensor %s has %" PRIu64 " bytes of data, but its shape and "
                              "dtype %s take another number", f->path, name, range[1] - range[0],
                              dtype);
    }
    t->offset = f->data_off + range[0];
    return 0;
}

static int st_push(struct safetensors *s, struct err *err)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        void  *p = realloc(s->tensors, cap * sizeof *s->tensors);

        if (!p)
            return err_set(err, -ENOMEM, "no memory for %zu tensors", cap);
        s->tensors = p;
        s->cap = cap;
    }
    s->tensors[s->n++] = (struct st_tensor){ 0 };
    return 0;
}

struct st_span { uint64_t begin, end; const char *name; };

static int st_span_compare(const void *a, const void *b)
{
    const struct st_span *p = a, *q = b;

    if (p->begin != q->begin)
        return p->begin < q->begin ? -1 : 1;
    return p->end < q->end ? -1 : p->end > q->end;
}

static int st_spans_check(struct st_span *spans, size_t n, const char *path, struct err *err)
{
    qsort(spans, n, sizeof *spans, st_span_compare);
    for (size_t i = 1; i < n; i++)
        if (spans[i].begin < spans[i - 1].end)
            return err_misuse(err, "%s: the data of tensors %s and %s overlap", path,
                              spans[i - 1].name, spans[i].name);
    return 0;
}

/* ---- __metadata__ ---- */

/* A key that is one byte off one of ours was one of ours: as another one it would be passed over,
 * and what it stands for with it. */
static int st_keys_check(const struct st_file *f, const json_t *meta, struct err *err)
{
    static const char *const ours[] = { SUMS_KEY, HEADER_KEY };
    const char              *key;
    json_t                  *v;

    json_object_foreach((json_t *)(uintptr_t)meta, key, v) {
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++) {
            size_t n = strlen(ours[k]), other = 0;

            for (size_t i = 0; strlen(key) == n && i < n; i++)
                other += key[i] != ours[k][i];
            if (other == 1)
                return err_set(err, -EIO, "%s is corrupt: its __metadata__ has a key %s, which "
                               "must have been %s", f->path, key, ours[k]);
        }
    }
    return 0;
}

/* The header against its own checksum, if siTrain wrote one. Overwrites the digits in `text`. */
static int st_header_check(const struct st_file *f, char *text, size_t n, const json_t *meta,
                           struct err *err)
{
    const char *recorded = json_string_value(json_object_get(meta, HEADER_KEY));
    char       *digits, found[9];

    if (!recorded)
        return 0;
    digits = memmem(text, n, HEADER_MARK, strlen(HEADER_MARK));
    if (digits && (size_t)(text + n - digits) >= strlen(HEADER_MARK HEADER_ZEROS))
        memcpy(digits + strlen(HEADER_MARK), HEADER_ZEROS, strlen(HEADER_ZEROS));
    snprintf(found, sizeof found, "%08x", crc32c(0, text, n));
    if (!digits || strcmp(found, recorded))
        return err_set(err, -EIO, "%s is corrupt: its header of %zu bytes has checksum %s, written "
                       "was %.8s (if another program rewrote it, take the keys sitrain.* out of "
                       "its __metadata__)", f->path, n, found, recorded);
    return 0;
}

/* Our checksums, if the file has them: a JSON object inside a string, since
 * __metadata__ holds only strings. */
static int st_metadata(struct st_file *f, const json_t *meta, struct err *err)
{
    const json_t *sums = json_object_get(meta, SUMS_KEY);
    char          what[512];

    if (!json_is_object(meta))
        return err_misuse(err, "%s: __metadata__ is not an object", f->path);
    int rc = st_keys_check(f, meta, err);

    if (rc || !json_is_string(sums))
        return rc;
    snprintf(what, sizeof what, "%s of %s", SUMS_KEY, f->path);
    return json_parse(&f->sums, json_string_value(sums), json_string_length(sums), what, err);
}

/* ---- the file ---- */

static int st_header_parse(struct safetensors *s, size_t file, json_t *root, struct err *err)
{
    struct st_file *f = &s->files[file];
    struct st_span *spans = calloc(json_object_size(root) + 1, sizeof *spans);
    size_t          n = 0;
    const char     *name;
    json_t         *v;
    int rc = spans ? 0 : err_set(err, -ENOMEM, "no memory for the header of %s", f->path);

    if (!rc && !json_is_object(root))
        rc = err_misuse(err, "%s: the header is not a JSON object", f->path);
    if (rc)
        goto out;
    json_object_foreach(root, name, v) {
        struct st_tensor *t;
        uint64_t          range[2];

        if (!strcmp(name, "__metadata__")) {
            rc = st_metadata(f, v, err);
            if (rc)
                goto out;
            continue;
        }
        rc = st_push(s, err);
        if (rc)
            goto out;
        t = &s->tensors[s->n - 1];
        t->file = file;
        t->name = strdup(name);
        rc = t->name ? st_tensor_parse(t, name, v, f, range, err)
                     : err_set(err, -ENOMEM, "no memory for %s", f->path);
        if (rc)
            goto out;
        spans[n++] = (struct st_span){ range[0], range[1], name };
    }
    rc = st_spans_check(spans, n, f->path, err);
out:
    free(spans);
    return rc;
}

int st_file_open(struct safetensors *s, size_t file, const char *dir, const char *name,
                 struct err *err)
{
    struct st_file *f = &s->files[file];
    uint64_t        size, header = 0;
    char           *text = NULL, what[512];
    json_t         *root = NULL;
    int             rc;

    if (asprintf(&f->path, "%s/%s", dir, name) < 0) {
        f->path = NULL;
        return err_set(err, -ENOMEM, "no memory to open %s/%s", dir, name);
    }
    rc = file_open_read(f->path, &f->fd, &size, err);
    if (!rc && size < sizeof header)
        rc = err_misuse(err, "%s is no safetensors file: its %" PRIu64 " bytes are less than the 8 "
                        "of a header length", f->path, size);
    if (!rc)
        rc = file_pread(f->fd, &header, sizeof header, 0, f->path, err);
    if (rc)
        return rc;
    if (header > MAX_HEADER_BYTES || header > size - sizeof header)
        return err_misuse(err, "%s is no safetensors file: a header of %" PRIu64 " bytes in a file "
                          "of %" PRIu64 " (at most %u)", f->path, header, size, MAX_HEADER_BYTES);
    f->data_off = sizeof header + header;
    f->data_bytes = size - f->data_off;
    text = malloc(header + 1);
    if (!text)
        return err_set(err, -ENOMEM, "no memory for the header of %s", f->path);
    snprintf(what, sizeof what, "the header of %s", f->path);
    rc = file_pread(f->fd, text, header, sizeof header, f->path, err);
    f->header_sum = rc ? 0 : crc32c(0, text, header);
    if (!rc)
        rc = json_parse(&root, text, header, what, err);
    if (!rc)
        rc = st_header_check(f, text, header, json_object_get(root, "__metadata__"), err);
    if (!rc)
        rc = st_header_parse(s, file, root, err);
    json_decref(root);
    free(text);
    return rc;
}
