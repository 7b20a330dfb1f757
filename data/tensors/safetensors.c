/* safetensors.c: reads model files as Hugging Face stores them: a folder with one file or with
 * shards.
 *
 * Only headers are in memory; tensors pass through one piece buffer. A header may come from
 * anybody, so nothing in it is trusted: every length, offset and shape is checked before it is
 * used. After safetensors_open, `tensors` is sorted by name without duplicates. Every tensor of a
 * known dtype has count * size bytes inside its file and overlaps no other. The host is
 * little-endian, like the format. */
#include "data/base/crc32c.h"
#include "data/base/dtype.h"
#include "data/base/f16.h"
#include "data/file/file.h"
#include "data/base/grow.h"
#include "data/json/json.h"
#include "data/base/round.h"
#include "data/base/table.h"
#include "data/tensors/safetensors.h"

#include <assert.h>
#include <unistd.h>

#define MAX_SHARDS       10000u
#define MAX_HEADER_BYTES 100000000u // the reference implementation's limit

struct st_file {
    int         fd;
    char       *path;
    uint64_t    data_off, data_bytes;
    struct stat was;  // as it was opened
    json_t     *sums; // tensor -> hex; NULL if the file has no checksums of ours
};

/* ---- tensors ---- */

static const struct st_dtype_row {
    const char   *name;
    enum st_dtype dtype;
    unsigned      size;
} st_dtypes[] = {
    { "F32", ST_F32, 4 },    { "F16", ST_F16, 2 },       { "BF16", ST_BF16, 2 },
    { "F64", ST_OTHER, 8 },  { "I64", ST_OTHER, 8 },     { "U64", ST_OTHER, 8 },
    { "I32", ST_OTHER, 4 },  { "U32", ST_OTHER, 4 },     { "I16", ST_OTHER, 2 },
    { "U16", ST_OTHER, 2 },  { "I8", ST_OTHER, 1 },      { "U8", ST_OTHER, 1 },
    { "BOOL", ST_OTHER, 1 }, { "F8_E4M3", ST_OTHER, 1 }, { "F8_E5M2", ST_OTHER, 1 },
};

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

static int st_tensor_parse(struct st_tensor *t, const json_t *v, const struct st_file *f,
                           struct err *err)
{
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    json_int_t  begin, end;
    uint64_t    bytes;

    if (!dtype)
        return err_misuse(err, "%s: tensor %s has no dtype", f->path, t->name);
    if (st_shape(t, json_object_get(v, "shape")))
        return err_misuse(err, "%s: tensor %s has no shape of at most 8 sizes", f->path, t->name);
    if (json_unpack(json_object_get(v, "data_offsets"), "[I, I!]", &begin, &end) || begin < 0 ||
        begin > end || (uint64_t)end > f->data_bytes)
        return err_misuse(err, "%s: tensor %s has no data_offsets inside the file's %" PRIu64
                          " bytes of data", f->path, t->name, f->data_bytes);
    t->offset = f->data_off + (uint64_t)begin;
    t->bytes = (uint64_t)(end - begin);
    const struct st_dtype_row *row = TABLE_FIND(st_dtypes, dtype);

    t->dtype = row ? row->dtype : ST_OTHER;
    return row && (__builtin_mul_overflow(t->count, row->size, &bytes) || bytes != t->bytes)
               ? err_misuse(err, "%s: tensor %s has %" PRIu64 " bytes of data, but its shape and "
                            "dtype %s take another number", f->path, t->name, t->bytes, dtype)
               : 0;
}

/* Compares by place in the file. Empty tensors come first. */
static int st_by_place(const void *a, const void *b)
{
    const struct st_tensor *p = a, *q = b;

    return p->offset != q->offset ? (p->offset < q->offset ? -1 : 1)
                                  : (p->bytes > q->bytes) - (p->bytes < q->bytes);
}

/* ---- __metadata__ ---- */

/* Refuses a key that differs from one of ours in a byte: it was one of ours, and would otherwise be
 * ignored, with what it stands for. */
static int st_keys_check(const struct st_file *f, const json_t *meta, struct err *err)
{
    static const char *const ours[] = { ST_SUMS_KEY, ST_HEADER_KEY };
    const char              *key;
    json_t                  *v;

    json_object_foreach((json_t *)(uintptr_t)meta, key, v) {
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++) {
            size_t n = strlen(ours[k]), other = 0;

            for (size_t i = 0; strlen(key) == n && i < n; i++)
                other += key[i] != ours[k][i];
            if (other == 1)
                return err_set(err, -EBADMSG, "%s is corrupt: its __metadata__ has a key %s, which "
                               "must have been %s", f->path, key, ours[k]);
        }
    }
    return 0;
}

/* Compares the header with its own checksum, if siTrain wrote one. Overwrites the digits in
 * `text`. */
static int st_header_check(const struct st_file *f, char *text, size_t n, const json_t *meta,
                           struct err *err)
{
    const char *recorded = json_string_value(json_object_get(meta, ST_HEADER_KEY));
    char        found[9];

    if (!recorded)
        return 0;
    char *digits = memmem(text, n, ST_HEADER_MARK, strlen(ST_HEADER_MARK));
    if (digits && (size_t)(text + n - digits) >= strlen(ST_HEADER_MARK ST_HEADER_ZEROS))
        memcpy(digits + strlen(ST_HEADER_MARK), ST_HEADER_ZEROS, strlen(ST_HEADER_ZEROS));
    snprintf(found, sizeof found, "%08x", crc32c(0, text, n));
    if (!digits || strcmp(found, recorded))
        return err_set(err, -EBADMSG, "%s is corrupt: its header of %zu bytes has checksum %s, "
                       "written was %.8s (if another program rewrote it, take the keys sitrain.* "
                       "out of its __metadata__)", f->path, n, found, recorded);
    return 0;
}

/* Reads our checksums, if the file has any: a JSON object inside a string, because __metadata__ has
 * only strings. */
static int st_metadata(struct st_file *f, const json_t *meta, struct err *err)
{
    const json_t *sums = json_object_get(meta, ST_SUMS_KEY);
    char          what[512];

    if (!json_is_object(meta))
        return err_misuse(err, "%s: __metadata__ is not an object", f->path);
    int rc = st_keys_check(f, meta, err);

    if (rc || !json_is_string(sums))
        return rc;
    snprintf(what, sizeof what, "%s of %s", ST_SUMS_KEY, f->path);
    return json_parse(&f->sums, json_string_value(sums), json_string_length(sums), what, err);
}

/* ---- one file ---- */

/* Checks and adds one tensor. safetensors_close frees its name, also after an error. */
static int st_tensor_add(struct safetensors *s, size_t file, const char *name, const json_t *v,
                         struct err *err)
{
    if (grow(&s->tensors, &s->cap, s->n + 1, sizeof *s->tensors, "tensors", err))
        return -ENOMEM;
    struct st_tensor *t = &s->tensors[s->n++];

    *t = (struct st_tensor){ .name = strdup(name), .file = file };
    return t->name ? st_tensor_parse(t, v, &s->files[file], err)
                   : err_set(err, -ENOMEM, "no memory for %s", s->files[file].path);
}

static int st_header_parse(struct safetensors *s, size_t file, json_t *root, struct err *err)
{
    struct st_file *f = &s->files[file];
    size_t          first = s->n;
    const char     *name;
    json_t         *v;

    if (!json_is_object(root))
        return err_misuse(err, "%s: the header is not a JSON object", f->path);
    json_object_foreach(root, name, v) {
        int rc = strcmp(name, "__metadata__") ? st_tensor_add(s, file, name, v, err)
                                              : st_metadata(f, v, err);

        if (rc)
            return rc;
    }
    if (s->n > first)
        qsort(s->tensors + first, s->n - first, sizeof *s->tensors, st_by_place);
    const struct st_tensor *last = s->n > first ? &s->tensors[s->n - 1] : NULL;
    uint64_t                end = last ? last->offset - f->data_off + last->bytes : 0;
    if (end < f->data_bytes)
        return err_misuse(err, "%s has %" PRIu64 " bytes behind the data of its last tensor, where "
                          "a safetensors file ends", f->path, f->data_bytes - end);
    for (size_t i = first + 1; i < s->n; i++) {
        const struct st_tensor *t = &s->tensors[i], *before = t - 1;

        if (t->offset < before->offset + before->bytes)
            return err_misuse(err, "%s: the data of tensors %s and %s overlap", f->path,
                              before->name, t->name);
    }
    return 0;
}

/* Opens dir/name as s->files[file] and adds its tensors. safetensors_close frees what was added,
 * also after an error. */
static int st_file_open(struct safetensors *s, size_t file, const char *dir, const char *name,
                        struct err *err)
{
    struct st_file *f = &s->files[file];
    uint64_t        header = 0;
    char            what[512];
    json_t         *root = NULL;

    f->path = file_path(err, "%s/%s", dir, name);
    int      rc = f->path ? file_open_was(f->path, &f->fd, &f->was, err) : -ENOMEM;
    uint64_t size = (uint64_t)f->was.st_size;

    if (!rc && size < sizeof header)
        rc = err_misuse(err, "%s is no safetensors file: its %" PRIu64 " bytes are less than the 8 "
                        "of a header length", f->path, size);
    rc = rc ? rc : file_pread(f->fd, &header, sizeof header, 0, f->path, err);
    if (rc)
        return rc;
    if (header > MAX_HEADER_BYTES || header > size - sizeof header)
        return err_misuse(err, "%s is no safetensors file: a header of %" PRIu64 " bytes in a file "
                          "of %" PRIu64 " (at most %u)", f->path, header, size, MAX_HEADER_BYTES);
    f->data_off = sizeof header + header;
    f->data_bytes = size - f->data_off;
    s->bytes += size;
    char *text = malloc(header + 1);

    if (!text)
        return err_set(err, -ENOMEM, "no memory for the header of %s", f->path);
    snprintf(what, sizeof what, "the header of %s", f->path);
    rc = file_pread(f->fd, text, header, sizeof header, f->path, err);
    rc = rc ? rc : json_parse(&root, text, header, what, err);
    if (!rc) {
        const json_t *meta = json_object_get(root, "__metadata__");
        const char   *base = json_str(meta, ST_BASE_KEY);
        uint32_t      sum = crc32c(0, text, header);

        s->sum = crc32c(s->sum, &sum, sizeof sum);
        if (strspn(base, "0123456789abcdef") == sizeof s->base - 1)
            snprintf(s->base, sizeof s->base, "%s", base);
        rc = st_header_check(f, text, header, meta, err);
    }
    rc = rc ? rc : st_header_parse(s, file, root, err);
    s->summed &= f->sums != NULL;
    json_decref(root);
    free(text);
    return rc;
}

/* ---- a folder ---- */

static int st_files_alloc(struct safetensors *s, size_t n, struct err *err)
{
    s->files = calloc(n, sizeof *s->files);
    if (!s->files)
        return err_set(err, -ENOMEM, "no memory for %zu safetensors files", n);
    s->n_files = n;
    s->summed = 1;
    for (size_t i = 0; i < n; i++)
        s->files[i].fd = -1;
    return 0;
}

/* Collects the shards that an index names, as an object shard -> its number. */
static int st_index_shards(const json_t *map, json_t *shards, const char *path, struct err *err)
{
    const char *name;
    json_t     *v;

    json_object_foreach((json_t *)(uintptr_t)map, name, v) {
        const char *shard = json_string_value(v);

        if (!shard || !*shard || strchr(shard, '/'))
            return err_misuse(err, "%s: tensor %s stands in no file of the same folder", path,
                              name);
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

/* Checks that the files are those for which the index was written. */
static int st_index_check(const struct safetensors *s, const json_t *index, const char *path,
                          struct err *err)
{
    const char *written =
        json_string_value(json_object_get(json_object_get(index, "metadata"), ST_INDEX_KEY));
    char found[9];

    snprintf(found, sizeof found, "%08" PRIx32, s->sum);
    return !written || !strcmp(written, found)
               ? 0
               : err_set(err, -EBADMSG, "%s is corrupt: it is of another export than one of the "
                         "files that it names: together they have checksum %s, written was %.8s",
                         path, found, written);
}

static int st_open_index(struct safetensors *s, const char *dir, const char *path,
                         json_t **map_root, struct err *err)
{
    json_t     *shards = json_object(), *v;
    const char *shard;
    size_t      i = 0;
    int         rc = json_read(map_root, path, MAX_HEADER_BYTES, err);

    rc = rc ? rc : st_index_shards(json_object_get(*map_root, "weight_map"), shards, path, err);
    rc = rc ? rc : st_files_alloc(s, json_object_size(shards), err);
    if (!rc)
        json_object_foreach(shards, shard, v)
            if ((rc = st_file_open(s, i++, dir, shard, err)))
                break;
    json_decref(shards);
    return rc ? rc : st_index_check(s, *map_root, path, err);
}

/* Sorts by name. Refuses a tensor that two shards have, and one that the index lists but its shard
 * lacks. */
static int st_finish(struct safetensors *s, const char *dir, const json_t *map, struct err *err)
{
    const char *name;
    json_t     *v;

    if (s->n == 0)
        return err_misuse(err, "%s holds no tensor", s->files[0].path);
    qsort(s->tensors, s->n, sizeof *s->tensors, table_by_name);
    for (size_t i = 1; i < s->n; i++)
        if (!strcmp(s->tensors[i].name, s->tensors[i - 1].name))
            return err_misuse(err, "%s: tensor %s stands in two files, %s and %s", dir,
                              s->tensors[i].name, s->files[s->tensors[i - 1].file].path,
                              s->files[s->tensors[i].file].path);
    json_object_foreach((json_t *)(uintptr_t)map, name, v) {
        const struct st_tensor *t = safetensors_find(s, name);

        if (!t || strcmp(strrchr(s->files[t->file].path, '/') + 1, json_string_value(v)))
            return err_misuse(err, "%s/%s lacks tensor %s, which the index says it holds", dir,
                              json_string_value(v), name);
    }
    return 0;
}

static int st_open_one(struct safetensors *s, const char *dir, const char *name, struct err *err)
{
    int rc = st_files_alloc(s, 1, err);

    return rc ? rc : st_file_open(s, 0, dir, name, err);
}

int safetensors_open_file(struct safetensors **out, const char *dir, const char *name,
                          struct err *err)
{
    struct safetensors *s = calloc(1, sizeof *s);
    int                 rc = s ? st_open_one(s, dir, name, err)
                               : err_set(err, -ENOMEM, "no memory to open %s/%s", dir, name);

    rc = rc ? rc : st_finish(s, dir, NULL, err);
    if (rc)
        safetensors_close(s);
    *out = rc ? NULL : s;
    return rc;
}

int safetensors_open(struct safetensors **out, const char *dir, struct err *err)
{
    struct safetensors *s = calloc(1, sizeof *s);
    char               *one = file_path(err, "%s/model.safetensors", dir),
         *index = file_path(err, "%s/model.safetensors.index.json", dir);
    json_t *root = NULL;
    int     rc;

    if (!s || !one || !index) {
        rc = err_set(err, -ENOMEM, "no memory to open %s", dir);
    } else if (file_may_be(one)) {
        rc = st_open_one(s, dir, "model.safetensors", err);
    } else if (file_may_be(index)) {
        rc = st_open_index(s, dir, index, &root, err);
    } else {
        rc = err_misuse(err, "%s has neither model.safetensors nor model.safetensors.index.json",
                        dir);
    }
    rc = rc ? rc : st_finish(s, dir, json_object_get(root, "weight_map"), err);
    if (rc)
        safetensors_close(s);
    *out = rc ? NULL : s;
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
        file_close(s->files[i].fd);
        free(s->files[i].path);
        json_decref(s->files[i].sums);
    }
    for (size_t i = 0; i < s->n; i++)
        free(s->tensors[i].name);
    free(s->files);
    free(s->tensors);
    free(s);
}

const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    return bsearch(&name, s->tensors, s->n, sizeof *s->tensors, table_by_name);
}

/* ---- values ---- */

int safetensors_fd(const struct safetensors *s, size_t file) { return s->files[file].fd; }

const char *safetensors_path(const struct safetensors *s, size_t file)
{
    return s->files[file].path;
}

int safetensors_read(struct safetensors *s, const struct st_tensor *t, uint64_t first, size_t n,
                     float *out, struct err *err)
{
    const struct st_file *f = &s->files[t->file];

    assert(first <= t->count && n <= t->count - first);
    if (t->dtype == ST_OTHER)
        return err_misuse(err, "%s: tensor %s is not of dtype F32, F16 or BF16", f->path, t->name);
    if (t->dtype == ST_F32)
        return file_pread_same(f->fd, out, 4 * n, t->offset + 4 * first, &f->was, f->path, err);
    for (size_t part; n > 0; first += part, out += part, n -= part) {
        part = size_min(n, ST_PIECE / 2);
        int rc = file_pread_same(f->fd, s->piece, 2 * part, t->offset + 2 * first, &f->was, f->path,
                                 err);

        if (rc)
            return rc;
        for (size_t i = 0; i < part; i++) {
            uint16_t h;

            memcpy(&h, s->piece + 2 * i, sizeof h);
            out[i] = t->dtype == ST_F16 ? f16_to_f32(h) : bf16_to_f32(h);
        }
    }
    return 0;
}

/* ---- verifying ---- */

/* *read: bytes read so far, of all tensors. */
static int st_verify_tensor(struct safetensors *s, const struct st_tensor *t,
                            const struct watch *watch, uint64_t *read, struct err *err)
{
    const struct st_file *f = &s->files[t->file];
    const char           *hex = json_string_value(json_object_get(f->sums, t->name));
    uint32_t              sum = 0;
    char                  found[9];

    if (!hex || t->dtype == ST_OTHER)
        return err_set(err, -EBADMSG, "%s: tensor %s has no checksum in %s, though siTrain wrote "
                       "one for each it wrote", f->path, t->name, ST_SUMS_KEY);
    for (uint64_t done = 0, part; done < t->bytes; done += part) {
        part = size_min(t->bytes - done, ST_PIECE);
        int rc = file_pread_same(f->fd, s->piece, part, t->offset + done, &f->was, f->path, err);

        rc = rc ? rc : watch_look(watch, *read += part, s->bytes, err);
        if (rc)
            return rc;
        sum = crc32c(sum, s->piece, part);
    }
    snprintf(found, sizeof found, "%08x", sum);
    if (strcmp(found, hex))
        return err_set(err, -EBADMSG, "%s is corrupt: the %" PRIu64 " bytes at %" PRIu64 " of "
                       "tensor %s have checksum %s, written were %.8s", f->path, t->bytes,
                       t->offset, t->name, found, hex);
    return 0;
}

int safetensors_verify(struct safetensors *s, const struct watch *watch, struct err *err)
{
    uint64_t read = 0;

    for (size_t i = 0; i < s->n_files; i++) {
        const struct st_file *f = &s->files[i];
        const char           *name;
        json_t               *v;

        json_object_foreach(f->sums, name, v) {
            const struct st_tensor *t = safetensors_find(s, name);

            if (!t || t->file != i)
                return err_set(err, -EBADMSG, "%s: tensor %s is gone, though %s has its checksum",
                               f->path, name, ST_SUMS_KEY);
        }
    }
    int rc = 0;

    for (size_t i = 0; i < s->n && !rc; i++)
        if (s->files[s->tensors[i].file].sums)
            rc = st_verify_tensor(s, &s->tensors[i], watch, &read, err);
    return rc;
}
