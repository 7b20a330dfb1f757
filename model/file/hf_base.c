/* hf_base.c: says where the parameters of a model with adapters lie in the files of its base. The
 * tensors of a folder have the order of our blocks, also transposed ones, so that a block is a row
 * of pieces, each a part of one tensor. */
#include "model/file/hf_base.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "model/lora/lora.h"

#include <assert.h>
#include <sys/stat.h>

enum { SUM_BYTES = 4 << 20 }; // read at once

struct known { int is; uint32_t sum; };

struct hf_base {
    struct hf          *hf;
    struct model_config config; // with adapters
    struct base_file   *file;   // (files.n)
    struct known       *known;  // (files.n)
    struct base_files   files;
    int                 lost;   // a read of the files may still be under way
};

static struct base_piece piece(void *ctx, size_t block, size_t first)
{
    static const enum dtype dtypes[] = { [ST_F32] = DT_F32, [ST_F16] = DT_F16,
                                         [ST_BF16] = DT_BF16 };
    const struct hf_base   *b = ctx;
    struct hf_place         at = hf_place(b->hf, lora_base_block(&b->config, block), first);
    enum dtype              dt = dtypes[at.tensor->dtype]; // others were refused

    return (struct base_piece){ at.tensor->file, at.tensor->offset + at.in * dtype_bytes(dt), at.n,
                                dt };
}

/* ---- contents */

static int sum_of(const struct hf_base *b, size_t i, uint32_t *sum, uint64_t before, uint64_t all,
                  const struct watch *watch, struct err *err)
{
    const struct base_file *f = &b->file[i];
    uint64_t                bytes = (uint64_t)f->was.st_size;
    char                   *buffer = malloc(SUM_BYTES);
    int rc = buffer ? 0 : err_set(err, -ENOMEM, "%s: out of memory", f->path);

    *sum = 0;
    for (uint64_t at = 0; at < bytes && !rc; at += SUM_BYTES) {
        size_t n = bytes - at < SUM_BYTES ? (size_t)(bytes - at) : SUM_BYTES;

        rc = file_pread(f->fd, buffer, n, at, f->path, err);
        *sum = rc ? 0 : crc32c(*sum, buffer, n);
        rc = rc ? rc : watch_look(watch, before + at + n, all, err);
    }
    free(buffer);
    return rc;
}

int hf_base_sum(const struct hf_base *b, size_t i, uint32_t *sum, uint64_t before, uint64_t all,
                const struct watch *watch, struct err *err)
{
    int rc = sum_of(b, i, sum, before, all, watch, err);

    return rc ? rc : base_files_unchanged(&b->files, err);
}

void hf_base_known(struct hf_base *b, size_t i, uint32_t sum)
{
    b->known[i] = (struct known){ 1, sum };
}

/* The hook of base_files. Readers look at no time but that of the last writing meanwhile. */
static int contents(void *ctx, size_t i, const struct stat *now, struct err *err)
{
    struct hf_base *b = ctx;
    uint32_t        sum = 0;
    int             rc = b->known[i].is ? sum_of(b, i, &sum, 0, 0, NULL, err) : 0;

    if (rc || !b->known[i].is || sum != b->known[i].sum)
        return rc;
    b->file[i].was.st_ctim = now->st_ctim;
    return 1;
}

/* ---- opening */

/* Refuses a folder that has another model by now: all frozen blocks have the run's sizes. */
static int blocks_check(const struct hf_base *b, const char *dir, struct err *err)
{
    const struct model_config *g = &b->config, *base = hf_model(b->hf);
    int                        same = base->arch == g->arch;

    for (size_t i = 0; i < arch_blocks(g) && same; i++) {
        size_t of = lora_base_block(g, i);

        if (of != SIZE_MAX && !arch_trains(g, i))
            same = of < arch_blocks(base) && arch_block_size(base, of) == arch_block_size(g, i);
    }
    return same ? 0 : err_set(err, -ESTALE, "%s is not the base of this run: it has a model of "
                              "other sizes", dir);
}

static int files_take(struct hf_base *b, struct err *err)
{
    const struct safetensors *st = hf_tensor_files(b->hf);

    b->file = calloc(st->n_files, sizeof *b->file);
    b->known = calloc(st->n_files, sizeof *b->known);
    if (!b->file || !b->known)
        return err_set(err, -ENOMEM, "out of memory for the files of the base");
    for (size_t i = 0; i < st->n_files; i++) {
        struct base_file *f = &b->file[i];

        *f = (struct base_file){ .path = safetensors_path(st, i), .fd = safetensors_fd(st, i) };
        if (fstat(f->fd, &f->was))
            return err_set(err, -errno, "stat %.600s: %s", f->path, strerror(errno));
    }
    b->files = (struct base_files){ b->file, st->n_files, piece, contents, b, &b->lost };
    return 0;
}

int hf_base_refuse_gguf(const char *path, struct err *err)
{
    return err_misuse(err, "--base-in-place reads safetensors files, and %.600s is a GGUF file, "
                      "whose tensors have other orders and types: leave the option out, or give "
                      "the folder that the file was made from", path);
}

int hf_base_open(struct hf_base **out, const char *dir, const struct model_config *g,
                 struct err *err)
{
    struct hf_base *b = calloc(1, sizeof *b);

    *out = NULL;
    if (!b)
        return err_set(err, -ENOMEM, "%.600s: out of memory", dir);
    b->config = *g;
    int rc = hf_open_known(&b->hf, dir, err);
    if (!rc && !hf_tensor_files(b->hf))
        rc = hf_base_refuse_gguf(dir, err);
    rc = rc ? rc : blocks_check(b, dir, err);
    rc = rc ? rc : files_take(b, err);
    if (rc)
        hf_base_close(b);
    else
        *out = b;
    return rc;
}

void hf_base_close(struct hf_base *b)
{
    if (!b || b->lost)
        return;
    hf_close(b->hf);
    free(b->file);
    free(b->known);
    free(b);
}

const struct base_files *hf_base_files(const struct hf_base *b) { return b ? &b->files : NULL; }

int hf_base_is(const struct hf_base *b, const struct hf *hf)
{
    const struct safetensors *st = hf_tensor_files(hf);
    int                       same = st && st->n_files == b->files.n && hf_sum(hf) == hf_sum(b->hf);
    struct stat               its;

    for (size_t i = 0; same && i < b->files.n; i++)
        same = !fstat(safetensors_fd(st, i), &its) && file_same(&its, &b->file[i].was);
    return same;
}

struct hf_base_file hf_base_now(const struct hf_base *b, size_t i)
{
    const struct base_file *f = &b->file[i];
    const char             *slash = strrchr(f->path, '/');
    struct hf_base_file     now = { .bytes = (uint64_t)f->was.st_size,
                                    .mtime_ns = file_ns(&f->was.st_mtim),
                                    .ctime_ns = file_ns(&f->was.st_ctim),
                                    .inode = (uint64_t)f->was.st_ino };

    snprintf(now.name, sizeof now.name, "%s", slash ? slash + 1 : f->path);
    return now;
}

int hf_base_same(const struct hf_base_file *a, const struct hf_base_file *b)
{
    return a->bytes == b->bytes && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns &&
           a->inode == b->inode;
}
