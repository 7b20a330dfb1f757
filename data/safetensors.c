/* safetensors.c: model files as Hugging Face keeps them.
 *
 * Only headers are held in memory; tensors pass through one piece buffer. Divisions of this file: the table of dtypes; reading
 * a header; a folder of shards; reading values; verifying; writing.
 * Invariants: after safetensors_open every tensor of a known dtype has count * size bytes inside its file, overlapping no
 * other, and `tensors` is sorted by name without duplicates. The host is little-endian, as the format is. */
#include "data/safetensors.h"

#include "data/crc32c.h"
#include "data/file.h"
#include "data/half.h"
#include "data/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_HEADER_BYTES 100000000u // the reference implementation's limit
#define MAX_SHARDS       10000u
#define PIECE            ((size_t)1 << 16)
#define SUMS_KEY         "sitrain.crc32c"
#define HEADER_KEY       "sitrain.header"
#define HEADER_MARK      "\"" HEADER_KEY "\":\"" // what its 8 hex digits follow
#define HEADER_ZEROS     "00000000"               // and what they are while they are computed

struct st_file {
    int      fd;
    char    *path;
    uint64_t data_off, data_bytes;
    json_t  *sums; // tensor -> hex; NULL if the file has none of ours
    uint32_t header_sum; // CRC32C of the header as it stands
};

struct safetensors {
    struct st_file   *files;
    size_t            n_files;
    struct st_tensor *tensors;
    size_t            n, cap;
    unsigned char     piece[PIECE];
};

/* ---- dtypes ---- */

static const struct { const char *name; enum st_dtype dtype; unsigned size; } st_dtypes[] = {
    { "F32", ST_F32, 4 },   { "F16", ST_F16, 2 },   { "BF16", ST_BF16, 2 }, { "F64", ST_OTHER, 8 }, { "I64", ST_OTHER, 8 },
    { "U64", ST_OTHER, 8 }, { "I32", ST_OTHER, 4 }, { "U32", ST_OTHER, 4 }, { "I16", ST_OTHER, 2 }, { "U16", ST_OTHER, 2 },
    { "I8", ST_OTHER, 1 },  { "U8", ST_OTHER, 1 },  { "BOOL", ST_OTHER, 1 }, { "F8_E4M3", ST_OTHER, 1 },
    { "F8_E5M2", ST_OTHER, 1 },
};

static size_t st_size(enum st_dtype dtype)
{
    assert(dtype != ST_OTHER);
    return dtype == ST_F32 ? 4 : 2;
}

/* ---- one header ---- */

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

/* Begin and end of the tensor's data, relative to the file's data; -1 if they are none inside it. */
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

static int st_tensor_parse(struct st_tensor *t, const char *name, const json_t *v, const struct st_file *f,
                           uint64_t range[2], struct err *err)
{
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    uint64_t    bytes;

    if (!dtype)
        return err_misuse(err, "%s: tensor %s has no dtype", f->path, name);
    if (st_shape(t, json_object_get(v, "shape")))
        return err_misuse(err, "%s: tensor %s has no shape of at most 8 sizes", f->path, name);
    if (st_range(json_object_get(v, "data_offsets"), f->data_bytes, range))
        return err_misuse(err, "%s: tensor %s has no data_offsets inside the file's %" PRIu64 " bytes of data", f->path, name,
                          f->data_bytes);
    t->dtype = ST_OTHER;
    for (size_t i = 0; i < sizeof st_dtypes / sizeof *st_dtypes; i++) {
        if (strcmp(dtype, st_dtypes[i].name))
            continue;
        t->dtype = st_dtypes[i].dtype;
        if (__builtin_mul_overflow(t->count, st_dtypes[i].size, &bytes) || bytes != range[1] - range[0])
            return err_misuse(err, "%s: tensor %s has %" PRIu64 " bytes of data, but its shape and dtype %s take another number",
                              f->path, name, range[1] - range[0], dtype);
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
            return err_misuse(err, "%s: the data of tensors %s and %s overlap", path, spans[i - 1].name, spans[i].name);
    return 0;
}

/* A key that is one byte off one of ours was one of ours: as another one it would be passed over, and what it stands for with it. */
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
                return err_set(err, -EIO, "%s is corrupt: its __metadata__ has a key %s, which must have been %s", f->path, key, ours[k]);
        }
    }
    return 0;
}

/* The header against its own checksum, if siTrain wrote one. Overwrites the digits in `text`. */
static int st_header_check(const struct st_file *f, char *text, size_t n, const json_t *meta, struct err *err)
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
        return err_set(err, -EIO, "%s is corrupt: its header of %zu bytes has checksum %s, written was %.8s (if another program rewrote it, "
                       "take the keys sitrain.* out of its __metadata__)", f->path, n, found, recorded);
    return 0;
}

/* Our checksums, if the file has them: a JSON object inside a string, since __metadata__ holds only strings. */
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

static int st_header_parse(struct safetensors *s, size_t file, json_t *root, struct err *err)
{
    struct st_file *f = &s->files[file];
    struct st_span *spans = calloc(json_object_size(root) + 1, sizeof *spans);
    size_t          n = 0;
    const char     *name;
    json_t         *v;
    int             rc = spans ? 0 : err_set(err, -ENOMEM, "no memory for the header of %s", f->path);

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
        rc = t->name ? st_tensor_parse(t, name, v, f, range, err) : err_set(err, -ENOMEM, "no memory for %s", f->path);
        if (rc)
            goto out;
        spans[n++] = (struct st_span){ range[0], range[1], name };
    }
    rc = st_spans_check(spans, n, f->path, err);
out:
    free(spans);
    return rc;
}

/* Open dir/name as s->files[file] and take in its tensors. */
static int st_file_open(struct safetensors *s, size_t file, const char *dir, const char *name, struct err *err)
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
        rc = err_misuse(err, "%s is no safetensors file: its %" PRIu64 " bytes are less than the 8 of a header length", f->path,
                        size);
    if (!rc)
        rc = file_pread(f->fd, &header, sizeof header, 0, f->path, err);
    if (rc)
        return rc;
    if (header > MAX_HEADER_BYTES || header > size - sizeof header)
        return err_misuse(err, "%s is no safetensors file: a header of %" PRIu64 " bytes in a file of %" PRIu64 " (at most %u)",
                          f->path, header, size, MAX_HEADER_BYTES);
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

/* ---- a folder ---- */

/* files[] for n shards, all closed. */
static int st_files_alloc(struct safetensors *s, size_t n, struct err *err)
{
    s->files = calloc(n ? n : 1, sizeof *s->files);
    if (!s->files)
        return err_set(err, -ENOMEM, "no memory for %zu safetensors files", n);
    s->n_files = n;
    for (size_t i = 0; i < n; i++)
        s->files[i].fd = -1;
    return 0;
}

/* The set of shards that an index names, as an object shard -> its number. */
static int st_index_shards(const json_t *map, json_t *shards, const char *path, struct err *err)
{
    const char *name;
    json_t     *v;

    json_object_foreach((json_t *)(uintptr_t)map, name, v) {
        const char *shard = json_string_value(v);

        if (!shard || !*shard || strchr(shard, '/'))
            return err_misuse(err, "%s: tensor %s stands in no file of the same folder", path, name);
        if (json_object_get(shards, shard))
            continue;
        if (json_object_size(shards) == MAX_SHARDS)
            return err_misuse(err, "%s names more than %u files", path, MAX_SHARDS);
        if (json_object_set_new(shards, shard, json_integer((json_int_t)json_object_size(shards))))
            return err_set(err, -ENOMEM, "no memory for %s", path);
    }
    if (json_object_size(shards) == 0)
        return err_misuse(err, "%s has no weight_map from tensors to files", path);
    return 0;
}

static int st_open_index(struct safetensors *s, const char *dir, const char *path, json_t **map_root, struct err *err)
{
    json_t     *shards = json_object(), *v;
    const char *shard;
    size_t      i = 0;
    int         rc = json_read(map_root, path, MAX_HEADER_BYTES, err);

    if (!rc)
        rc = st_index_shards(json_object_get(*map_root, "weight_map"), shards, path, err);
    if (!rc)
        rc = st_files_alloc(s, json_object_size(shards), err);
    if (!rc)
        json_object_foreach(shards, shard, v) {
            rc = st_file_open(s, i++, dir, shard, err);
            if (rc)
                break;
        }
    json_decref(shards);
    return rc;
}

static int st_compare(const void *a, const void *b)
{
    const struct st_tensor *p = a, *q = b;

    return strcmp(p->name, q->name);
}

/* Sort by name; refuse a tensor that two shards hold, and one that the index promises but its shard lacks. */
static int st_finish(struct safetensors *s, const char *dir, const json_t *map, struct err *err)
{
    const char *name;
    json_t     *v;

    if (s->n == 0)
        return err_misuse(err, "%s: model.safetensors holds no tensor", dir);
    qsort(s->tensors, s->n, sizeof *s->tensors, st_compare);
    for (size_t i = 1; i < s->n; i++)
        if (!strcmp(s->tensors[i].name, s->tensors[i - 1].name))
            return err_misuse(err, "%s: tensor %s stands in two files, %s and %s", dir, s->tensors[i].name,
                              s->files[s->tensors[i - 1].file].path, s->files[s->tensors[i].file].path);
    json_object_foreach((json_t *)(uintptr_t)map, name, v) {
        const struct st_tensor *t = safetensors_find(s, name);

        if (!t || strcmp(strrchr(s->files[t->file].path, '/') + 1, json_string_value(v)))
            return err_misuse(err, "%s/%s lacks tensor %s, which the index says it holds", dir, json_string_value(v), name);
    }
    return 0;
}

int safetensors_open(struct safetensors **out, const char *dir, struct err *err)
{
    struct safetensors *s = calloc(1, sizeof *s);
    char               *one = NULL, *index = NULL;
    json_t             *root = NULL;
    int                 rc;

    *out = NULL;
    if (!s || asprintf(&one, "%s/model.safetensors", dir) < 0 || asprintf(&index, "%s/model.safetensors.index.json", dir) < 0) {
        free(s);
        free(one);
        return err_set(err, -ENOMEM, "no memory to open %s", dir);
    }
    if (access(one, F_OK) == 0) {
        rc = st_files_alloc(s, 1, err);
        if (!rc)
            rc = st_file_open(s, 0, dir, "model.safetensors", err);
    } else if (access(index, F_OK) == 0) {
        rc = st_open_index(s, dir, index, &root, err);
    } else {
        rc = err_misuse(err, "%s has neither model.safetensors nor model.safetensors.index.json", dir);
    }
    if (!rc)
        rc = st_finish(s, dir, json_object_get(root, "weight_map"), err);
    if (rc)
        safetensors_close(s);
    else
        *out = s;
    json_decref(root);
    free(one);
    free(index);
    return rc;
}

void safetensors_close(struct safetensors *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_files; i++) {
        if (s->files[i].fd >= 0)
            close(s->files[i].fd);
        free(s->files[i].path);
        json_decref(s->files[i].sums);
    }
    for (size_t i = 0; i < s->n; i++)
        free(s->tensors[i].name);
    free(s->files);
    free(s->tensors);
    free(s);
}

size_t safetensors_count(const struct safetensors *s)
{
    return s->n;
}

const struct st_tensor *safetensors_at(const struct safetensors *s, size_t i)
{
    assert(i < s->n);
    return &s->tensors[i];
}

const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    struct st_tensor key = { .name = (char *)(uintptr_t)name };

    return bsearch(&key, s->tensors, s->n, sizeof *s->tensors, st_compare);
}

/* ---- values ---- */

int safetensors_read(struct safetensors *s, const struct st_tensor *t, uint64_t first, size_t n, float *out, struct err *err)
{
    const struct st_file *f = &s->files[t->file];

    assert(first <= t->count && n <= t->count - first);
    if (t->dtype == ST_OTHER)
        return err_misuse(err, "%s: tensor %s is not of dtype F32, F16 or BF16", f->path, t->name);
    if (t->dtype == ST_F32)
        return file_pread(f->fd, out, 4 * n, t->offset + 4 * first, f->path, err);
    for (size_t done = 0; done < n;) {
        size_t part = n - done < PIECE / 2 ? n - done : PIECE / 2;
        int    rc = file_pread(f->fd, s->piece, 2 * part, t->offset + 2 * (first + done), f->path, err);

        if (rc)
            return rc;
        for (size_t i = 0; i < part; i++) {
            uint16_t h;

            memcpy(&h, s->piece + 2 * i, sizeof h);
            out[done + i] = t->dtype == ST_F16 ? half_from_f16(h) : half_from_bf16(h);
        }
        done += part;
    }
    return 0;
}

/* ---- verifying ---- */

static int st_verify_tensor(struct safetensors *s, const struct st_tensor *t, struct err *err)
{
    const struct st_file *f = &s->files[t->file];
    const char           *hex = json_string_value(json_object_get(f->sums, t->name));
    uint64_t              bytes = t->dtype == ST_OTHER ? 0 : t->count * st_size(t->dtype);
    uint32_t              sum = 0;
    char                  found[9];

    if (!hex || t->dtype == ST_OTHER)
        return err_set(err, -EIO, "%s: tensor %s has no checksum in %s, though siTrain wrote one for each it wrote", f->path,
                       t->name, SUMS_KEY);
    for (uint64_t done = 0; done < bytes;) {
        size_t part = bytes - done < PIECE ? (size_t)(bytes - done) : PIECE;
        int    rc = file_pread(f->fd, s->piece, part, t->offset + done, f->path, err);

        if (rc)
            return rc;
        sum = crc32c(sum, s->piece, part);
        done += part;
    }
    snprintf(found, sizeof found, "%08x", sum);
    if (strcmp(found, hex))
        return err_set(err, -EIO, "%s is corrupt: the %" PRIu64 " bytes at %" PRIu64 " of tensor %s have checksum %s, written were "
                       "%.8s", f->path, bytes, t->offset, t->name, found, hex);
    return 0;
}

int safetensors_summed(const struct safetensors *s)
{
    for (size_t i = 0; i < s->n_files; i++)
        if (!s->files[i].sums)
            return 0;
    return 1;
}

uint32_t safetensors_sum(const struct safetensors *s)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < s->n_files; i++)
        sum = crc32c(sum, &s->files[i].header_sum, sizeof s->files[i].header_sum);
    return sum;
}

uint64_t safetensors_bytes(const struct safetensors *s)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < s->n_files; i++)
        bytes += s->files[i].data_off + s->files[i].data_bytes;
    return bytes;
}

int safetensors_verify(struct safetensors *s, struct err *err)
{
    for (size_t i = 0; i < s->n_files; i++) {
        const struct st_file *f = &s->files[i];
        const char           *name;
        json_t               *v;

        json_object_foreach(f->sums, name, v) {
            const struct st_tensor *t = safetensors_find(s, name);

            if (!t || t->file != i)
                return err_set(err, -EIO, "%s: tensor %s is gone, though %s has its checksum", f->path, name, SUMS_KEY);
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        int rc = s->files[s->tensors[i].file].sums ? st_verify_tensor(s, &s->tensors[i], err) : 0;

        if (rc)
            return rc;
    }
    return 0;
}

/* ---- writing ---- */

struct st_declared { char *name; int n_dims; uint64_t dims[8], count; uint32_t sum; };

struct safetensors_writer {
    struct file_new     f;
    enum st_dtype       dtype;
    struct st_declared *tensors;
    size_t              n, current; // current: being written
    uint64_t            done;       // elements of current
    uint64_t            data_off;   // 0 until the header is laid out
    uint64_t            off;        // of the next byte
    unsigned char       piece[PIECE];
};

int safetensors_writer_open(struct safetensors_writer **out, const char *path, enum st_dtype dtype, struct err *err)
{
    struct safetensors_writer *w = calloc(1, sizeof *w);
    int                        rc;

    assert(dtype != ST_OTHER);
    *out = NULL;
    if (!w)
        return err_set(err, -ENOMEM, "no memory to write %s", path);
    w->dtype = dtype;
    rc = file_new_open(&w->f, path, err);
    if (rc)
        free(w);
    else
        *out = w;
    return rc;
}

int safetensors_writer_declare(struct safetensors_writer *w, const char *name, int n_dims, const uint64_t *dims, struct err *err)
{
    struct st_declared *p = realloc(w->tensors, (w->n + 1) * sizeof *p);

    assert(!w->data_off && n_dims >= 0 && n_dims <= 8);
    if (!p)
        return err_set(err, -ENOMEM, "no memory for tensor %s", name);
    w->tensors = p;
    p += w->n;
    *p = (struct st_declared){ .name = strdup(name), .n_dims = n_dims, .count = 1 };
    if (!p->name)
        return err_set(err, -ENOMEM, "no memory for tensor %s", name);
    w->n++;
    for (int i = 0; i < n_dims; i++) {
        p->dims[i] = dims[i];
        p->count *= dims[i];
    }
    return 0;
}

/* {"dtype", "shape", "data_offsets"} of one tensor whose data begin at *off, which moves on. */
static json_t *st_entry(const struct safetensors_writer *w, const struct st_declared *t, uint64_t *off)
{
    json_t  *shape = json_array();
    uint64_t end = *off + t->count * st_size(w->dtype);
    json_t  *v;

    for (int i = 0; i < t->n_dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)t->dims[i]));
    v = json_pack("{s:s, s:o, s:[I,I]}", "dtype", w->dtype == ST_F32 ? "F32" : w->dtype == ST_F16 ? "F16" : "BF16", "shape",
                  shape, "data_offsets", (json_int_t)*off, (json_int_t)end);
    *off = end;
    return v;
}

/* The header's text, with the checksums as they are now; its length does not depend on them. Caller frees; NULL: no memory. */
static char *st_header_text(const struct safetensors_writer *w)
{
    json_t  *root = json_object(), *sums = json_object();
    char    *inner, *text = NULL;
    uint64_t off = 0;
    int      bad = 0;

    for (size_t i = 0; i < w->n; i++) {
        char hex[9];

        snprintf(hex, sizeof hex, "%08x", w->tensors[i].sum);
        bad |= json_object_set_new(sums, w->tensors[i].name, json_string(hex));
    }
    inner = json_dumps(sums, JSON_COMPACT);
    if (inner && !bad)
        bad |= json_object_set_new(root, "__metadata__", json_pack("{s:s, s:s, s:s}", "format", "pt", HEADER_KEY, HEADER_ZEROS,
                                                                      SUMS_KEY, inner));
    for (size_t i = 0; i < w->n; i++)
        bad |= json_object_set_new(root, w->tensors[i].name, st_entry(w, &w->tensors[i], &off));
    if (inner && !bad)
        text = json_dumps(root, JSON_COMPACT);
    free(inner);
    json_decref(sums);
    json_decref(root);
    return text;
}

/* text, spaces up to n bytes, and its checksum in its place. */
static void header_fill(char *padded, size_t n, const char *text)
{
    char *digits, sum[9];

    snprintf(padded, n + 1, "%-*s", (int)n, text);
    digits = strstr(padded, HEADER_MARK) + strlen(HEADER_MARK);
    snprintf(sum, sizeof sum, "%08x", crc32c(0, padded, n));
    memcpy(digits, sum, 8);
}

/* Write length and header, padded with spaces to a multiple of 8, so that the data are aligned. */
static int st_header_write(struct safetensors_writer *w, struct err *err)
{
    char    *text = st_header_text(w), *padded;
    uint64_t n, len;
    int      rc;

    if (!text)
        return err_set(err, -ENOMEM, "no memory for the header of %s, or a tensor's name is not UTF-8", w->f.path);
    len = strlen(text);
    n = (len + 7) / 8 * 8;
    assert(!w->data_off || w->data_off == sizeof n + n);
    padded = malloc(n + 1);
    if (padded)
        header_fill(padded, n, text);
    rc = padded ? file_pwrite(w->f.fd, &n, sizeof n, 0, w->f.path, err) : err_set(err, -ENOMEM, "no memory for %s", w->f.path);
    if (!rc)
        rc = file_pwrite(w->f.fd, padded, n, sizeof n, w->f.path, err);
    if (!rc && !w->data_off)
        w->off = w->data_off = sizeof n + n;
    free(padded);
    free(text);
    return rc;
}

/* Convert and write `n` elements (at most PIECE / 4) of the current tensor. */
static int st_writer_piece(struct safetensors_writer *w, const float *values, size_t n, struct err *err)
{
    struct st_declared *t = &w->tensors[w->current];
    size_t              bytes = n * st_size(w->dtype);
    int                 rc;

    if (w->dtype == ST_F32)
        memcpy(w->piece, values, bytes);
    else
        for (size_t i = 0; i < n; i++) {
            uint16_t h = w->dtype == ST_F16 ? half_to_f16(values[i]) : half_to_bf16(values[i]);

            if (w->dtype == ST_F16 && isfinite(values[i]) && (h & 0x7fff) == 0x7c00)
                return err_set(err, -ERANGE, "%s: value %g of tensor %s does not fit into fp16 (largest 65504): use bf16 or fp32",
                               w->f.path, (double)values[i], t->name);
            memcpy(w->piece + 2 * i, &h, sizeof h);
        }
    t->sum = crc32c(t->sum, w->piece, bytes);
    rc = file_pwrite(w->f.fd, w->piece, bytes, w->off, w->f.path, err);
    w->off += bytes;
    w->done += n;
    return rc;
}

/* Move past tensors that are complete (or empty). */
static void st_writer_advance(struct safetensors_writer *w)
{
    while (w->current < w->n && w->done == w->tensors[w->current].count) {
        w->current++;
        w->done = 0;
    }
}

int safetensors_writer_add(struct safetensors_writer *w, const float *values, size_t n, struct err *err)
{
    int rc = w->data_off ? 0 : st_header_write(w, err);

    while (!rc) {
        uint64_t left;
        size_t   part = n < PIECE / 4 ? n : PIECE / 4;

        st_writer_advance(w);
        if (n == 0)
            break;
        if (w->current == w->n)
            return err_set(err, -EINVAL, "%s: more values than the declared tensors hold", w->f.path);
        left = w->tensors[w->current].count - w->done;
        if (part > left)
            part = (size_t)left;
        rc = st_writer_piece(w, values, part, err);
        values += part;
        n -= part;
    }
    return rc;
}

int safetensors_writer_commit(struct safetensors_writer *w, struct err *err)
{
    int rc = safetensors_writer_add(w, NULL, 0, err); // lays the header out if all tensors are empty

    if (!rc && w->current < w->n)
        rc = err_set(err, -EINVAL, "%s: tensor %s got %" PRIu64 " of its %" PRIu64 " values", w->f.path,
                     w->tensors[w->current].name, w->done, w->tensors[w->current].count);
    if (!rc)
        rc = st_header_write(w, err);
    if (!rc)
        rc = file_new_commit(&w->f, err);
    return rc;
}

void safetensors_writer_close(struct safetensors_writer *w)
{
    if (!w)
        return;
    file_new_abort(&w->f);
    for (size_t i = 0; i < w->n; i++)
        free(w->tensors[i].name);
    free(w->tensors);
    free(w);
}
