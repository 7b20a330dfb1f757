/* safetensors.c: model files as Hugging Face keeps them, as they are read: a folder of one file or
 * of shards.
 *
 * Only headers are held in memory (safetensors_header.c reads them); tensors pass through one piece
 * buffer. Divisions of this file: a folder of shards; reading values; verifying. Invariant: after
 * safetensors_open `tensors` is sorted by name without duplicates. The host is little-endian, as
 * the format is. */
#include "data/tensors/safetensors_parts.h"

#include "data/base/crc32c.h"
#include "data/base/file.h"
#include "data/base/dtype.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SHARDS 10000u

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

static int st_open_index(struct safetensors *s, const char *dir, const char *path,
                         json_t **map_root, struct err *err)
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

/* Sort by name; refuse a tensor that two shards hold, and one that the index promises but its shard
 * lacks. */
static int st_finish(struct safetensors *s, const char *dir, const json_t *map, struct err *err)
{
    const char *name;
    json_t     *v;

    if (s->n == 0)
        return err_misuse(err, "%s: model.safetensors holds no tensor", dir);
    qsort(s->tensors, s->n, sizeof *s->tensors, st_compare);
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

int safetensors_open(struct safetensors **out, const char *dir, struct err *err)
{
    struct safetensors *s = calloc(1, sizeof *s);
    char               *one = NULL, *index = NULL;
    json_t             *root = NULL;
    int                 rc;

    *out = NULL;
    if (!s || asprintf(&one, "%s/model.safetensors", dir) < 0 ||
        asprintf(&index, "%s/model.safetensors.index.json", dir) < 0) {
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
        rc = err_misuse(err, "%s has neither model.safetensors nor model.safetensors.index.json",
                        dir);
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

int safetensors_read(struct safetensors *s, const struct st_tensor *t, uint64_t first, size_t n,
                     float *out, struct err *err)
{
    const struct st_file *f = &s->files[t->file];

    assert(first <= t->count && n <= t->count - first);
    if (t->dtype == ST_OTHER)
        return err_misuse(err, "%s: tensor %s is not of dtype F32, F16 or BF16", f->path, t->name);
    if (t->dtype == ST_F32)
        return file_pread(f->fd, out, 4 * n, t->offset + 4 * first, f->path, err);
    for (size_t done = 0; done < n;) {
        size_t part = n - done < PIECE / 2 ? n - done : PIECE / 2;
        int    rc =
            file_pread(f->fd, s->piece, 2 * part, t->offset + 2 * (first + done), f->path, err);

        if (rc)
            return rc;
        for (size_t i = 0; i < part; i++) {
            uint16_t h;

            memcpy(&h, s->piece + 2 * i, sizeof h);
            out[done + i] = t->dtype == ST_F16 ? f16_to_f32(h) : bf16_to_f32(h);
        }
        done += part;
    }
    return 0;
}

/* ---- verifying ---- */

/* *read: bytes so far of all tensors. */
static int st_verify_tensor(struct safetensors *s, const struct st_tensor *t,
                            const struct watch *watch, uint64_t *read, struct err *err)
{
    const struct st_file *f = &s->files[t->file];
    const char           *hex = json_string_value(json_object_get(f->sums, t->name));
    uint64_t              bytes = t->dtype == ST_OTHER ? 0 : t->count * st_size(t->dtype);
    uint32_t              sum = 0;
    char                  found[9];

    if (!hex || t->dtype == ST_OTHER)
        return err_set(err, -EIO, "%s: tensor %s has no checksum in %s, though siTrain wrote one "
                       "for each it wrote", f->path, t->name, SUMS_KEY);
    for (uint64_t done = 0; done < bytes;) {
        size_t part = bytes - done < PIECE ? (size_t)(bytes - done) : PIECE;
        int    rc = file_pread(f->fd, s->piece, part, t->offset + done, f->path, err);

        if (!rc)
            rc = watch_look(watch, *read += part, safetensors_bytes(s), err);
        if (rc)
            return rc;
        sum = crc32c(sum, s->piece, part);
        done += part;
    }
    snprintf(found, sizeof found, "%08x", sum);
    if (strcmp(found, hex))
        return err_set(err, -EIO, "%s is corrupt: the %" PRIu64 " bytes at %" PRIu64 " of tensor "
                       "%s have checksum %s, written were %.8s", f->path, bytes, t->offset, t->name,
                       found, hex);
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
                return err_set(err, -EIO, "%s: tensor %s is gone, though %s has its checksum",
                               f->path, name, SUMS_KEY);
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        int rc = s->files[s->tensors[i].file].sums
                     ? st_verify_tensor(s, &s->tensors[i], watch, &read, err)
                     : 0;

        if (rc)
            return rc;
    }
    return 0;
}
