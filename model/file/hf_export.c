/* hf_export.c: writes a model as a folder that transformers loads: parameters, config.json, and the
 * tokenizer's files. These are copied as they came, except for the pad token that a classifier's
 * batches need. */
#include "model/file/hf.h"

#include "data/file/file.h"
#include "data/base/round.h"
#include "data/text/tokenizer.h"
#include "model/file/peft.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

/* ---- the tokenizer ---- */

int hf_copy_tokenizer(const char *from, const char *to, int *copied, struct err *err)
{
    const char *name;
    int         rc = 0;

    *copied = 0;
    for (size_t i = 0; (name = tokenizer_file(i)) && !rc; i++) {
        char src[HF_PATH_BYTES], dst[HF_PATH_BYTES];

        if ((rc = hf_path(src, from, name, err)) || (rc = hf_path(dst, to, name, err)))
            return rc;
        if ((rc = file_exists(src, err)) <= 0)
            continue;
        rc = file_check_own(src, 0, err);
        rc = rc ? rc : file_copy(src, dst, TOKENIZER_FILE_MAX, err);
        *copied += 1;
    }
    return rc;
}

static int write_pad(const char *dir, const char *name, const char *token, int make,
                     struct err *err)
{
    char        path[HF_PATH_BYTES];
    json_t     *file = NULL;
    int         rc = hf_path(path, dir, name, err);

    if (rc || (rc = file_exists(path, err)) < 0)
        return rc;
    if (!rc && !make)
        return 0;
    if (rc)
        rc = json_read_object(&file, path, TOKENIZER_FILE_MAX, err);
    else
        file = json_object();
    const char *said = tokenizer_role_name(file, "pad_token");
    if (!rc && (!said || strcmp(said, token))) {
        rc = json_object_set_new(file, "pad_token", json_string(token)) ? -ENOMEM : 0;
        rc = rc ? err_set(err, rc, "%s: out of memory", path)
                : json_write(file, path, JSON_INDENT(2), err);
    }
    json_decref(file);
    return rc;
}

/* Writes into name what the tokenizer in dir calls the end of a text. */
static int end_name(const char *dir, char *name, size_t size, struct err *err)
{
    static const char *const files[] = { "special_tokens_map.json", "tokenizer_config.json" };
    int                      rc = 0;

    snprintf(name, size, "<|endoftext|>");
    for (size_t i = 0; i < 2 && !rc; i++) { // the second file wins
        char    path[HF_PATH_BYTES];
        json_t *file = NULL;

        rc = hf_path(path, dir, files[i], err);
        if (!rc && (rc = file_exists(path, err)) > 0)
            rc = json_read_object(&file, path, TOKENIZER_FILE_MAX, err);
        const char *said = tokenizer_role_name(file, "eos_token");
        if (said && snprintf(name, size, "%s", said) >= (int)size)
            rc = err_misuse(err, "%s: eos_token has more than %zu bytes", path, size - 1);
        json_decref(file);
    }
    return rc;
}

/* Copies the tokenizer. transformers pads a batch with the tokenizer's pad_token, and a classifier
 * looks for config.json's pad_token_id, so these must agree. If the source had a pad_token_id of
 * its own, its name is in the source's files already. */
static int copy_tokenizer(const char *dir, const struct hf_export *x, struct err *err)
{
    char endoftext[256];
    int  copied = 1;
    int  rc = x->strange ? tokenizer_take(x->tokenizer, dir, x->notice, x->notice_size, err)
                         : hf_copy_tokenizer(x->tokenizer, dir, &copied, err);

    if (!rc && !copied)
        rc = err_set(err, -ENOENT, "%s has no tokenizer any more", x->tokenizer);
    if (rc || !arch_classifies(&x->config) || x->config.arch->encoder || x->pad < 0 ||
        x->pad != x->endoftext)
        return rc;
    rc = end_name(dir, endoftext, sizeof endoftext, err);
    rc = rc ? rc : write_pad(dir, "tokenizer_config.json", endoftext, 1, err);
    return rc ? rc : write_pad(dir, "special_tokens_map.json", endoftext, 0, err);
}

/* ---- config.json ---- */

static const char *dtype_word(enum st_dtype d)
{
    return d == ST_F16 ? "float16" : d == ST_BF16 ? "bfloat16" : "float32";
}

static json_t *token_id(long id) { return id >= 0 ? json_integer(id) : json_null(); }

/* Copies the ids of a text's beginning and end as they came. If there are none, they are the
 * tokenizer's. If a generation_config.json has no beginning, no beginning is written. */
static int text_ids(json_t *to, const struct hf_export *x)
{
    json_t *begin = json_object_get(x->generation, "bos_token_id"),
           *end = json_object_get(x->generation, "eos_token_id");
    int     bad = 0;

    if (begin || !x->generation)
        bad = json_object_set_new(to, "bos_token_id",
                                  begin ? json_incref(begin) : token_id(x->begin));
    return bad | json_object_set_new(to, "eos_token_id",
                                     end ? json_incref(end) : token_id(x->endoftext));
}

/* Adds a classifier's keys to config.json. transformers writes no num_labels: it counts
 * id2label. */
static int add_labels(json_t *config, const struct hf_export *x, struct err *err)
{
    json_t *to_label = json_object(), *to_id = json_object();
    int     failed = 0;

    assert(!x->labels || x->labels->n == x->config.n_labels);
    for (size_t i = 0; i < x->config.n_labels && !failed; i++) {
        char  id[32];
        char *name = x->labels ? strdup(x->labels->name[i]) : hf_label_name(NULL, i);

        snprintf(id, sizeof id, "%zu", i);
        failed = !name || json_object_set_new(to_label, id, json_string(name)) ||
                 json_object_set_new(to_id, name, json_integer((json_int_t)i));
        free(name);
    }
    failed |= json_object_set_new(config, "id2label", to_label);
    failed |= json_object_set_new(config, "label2id", to_id);
    failed |= json_object_set_new(config, "problem_type", json_string(hf_problem_type(&x->config)));
    return failed ? err_set(err, -EINVAL,
                            "config.json: the labels' names cannot be written: they must be UTF-8")
                  : 0;
}

static int write_configs(const char *dir, const struct hf_export *x, struct err *err)
{
    const struct model_config *g = &x->config;
    char                     path[HF_PATH_BYTES];
    json_t *config = json_pack("{s:s, s:[s]}", "model_type", g->arch->name, "architectures",
                               hf_class(g)),
           *own = g->arch->config_write(g),
           *end = json_pack("{s:b, s:s}", "use_cache", 1, "torch_dtype", dtype_word(x->dtype)),
           *generation = x->generation ? json_copy((json_t *)(uintptr_t)x->generation)
                                       : json_pack("{s:b}", "_from_model_config", 1);
    int rc = generation && !json_object_update(config, own) && !json_object_update(config, end) &&
                     !text_ids(config, x) && !text_ids(generation, x)
                 ? 0
                 : err_set(err, -ENOMEM, "%s: out of memory", dir);

    if (!rc && arch_classifies(g))
        rc = add_labels(config, x, err);
    if (!rc && !g->arch->encoder && (x->pad >= 0 || arch_classifies(g)) && // an encoder has its own
        json_object_set_new(config, "pad_token_id", token_id(x->pad)))
        rc = err_set(err, -ENOMEM, "%s: out of memory", dir);
    if (!rc && !(rc = hf_path(path, dir, "config.json", err)))
        rc = json_write(config, path, JSON_INDENT(2), err);
    if (!rc && !arch_classifies(g) && !g->arch->encoder &&
        !(rc = hf_path(path, dir, "generation_config.json", err)))
        rc = json_write(generation, path, JSON_INDENT(2), err);
    json_decref(config);
    json_decref(own);
    json_decref(end);
    json_decref(generation);
    return rc;
}

/* ---- parameters: model.safetensors, or shards, cut as transformers does (huggingface_hub,
 * split_state_dict_into_shards_factory). A tensor larger than a shard has a file of its own. The
 * others fill a file one after the other, until one does not fit. An adapter's tensors are one
 * file, in the order of their names, as PEFT writes them. ---- */

enum { SHARD_NAME = 64 };
#define SHARD_OPEN SIZE_MAX // stands for the number of the file that is being filled

/* Tensor t has n elements and begins in `block`. */
struct placed { char name[HF_NAME_BYTES]; size_t block, t, n, shard; };
struct shards {
    struct placed *tensors; // (n), in the order of writing
    size_t         n, files;
    uint64_t       bytes, all; // of all tensors, and their elements
};

/* Closes the file that was being filled: its tensors get the next number. */
static void shard_close(struct shards *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->tensors[i].shard == SHARD_OPEN)
            s->tensors[i].shard = s->files;
    s->files++;
}

static int by_name(const void *a, const void *b)
{
    const struct placed *p = a, *q = b;

    return strcmp(p->name, q->name);
}

/* Whether a folder of this kind has the tensor. */
static int is_written(const struct hf_export *x, size_t block, size_t t)
{
    enum arch_block_kind kind = arch_block_kind(&x->config, block);

    return !x->base || kind == ARCH_ADAPTER || (kind == ARCH_FINAL && peft_has(&x->config, t));
}

/* Assigns a shard to every tensor. The caller frees out->tensors. */
static int shards_cut(struct shards *out, const struct hf_export *x, struct err *err)
{
    const struct model_config *g = &x->config;
    const char              *prefix = x->base ? PEFT_PREFIX : "";
    uint64_t most = x->shard_bytes && !x->base ? x->shard_bytes : UINT64_MAX, filled = 0;

    *out = (struct shards){ 0 };
    out->tensors = calloc(2 * arch_blocks(g) * g->arch->n_params, sizeof *out->tensors);
    if (!out->tensors)
        return err_set(err, -ENOMEM, "out of memory for the names of tensors");
    for (size_t b = 0; b < arch_blocks(g); b++) {
        if (arch_is_later(g, b)) // its tensor is listed already
            continue;
        for (size_t t = ARCH_BEFORE; arch_next(g, b, &t);) {
            struct placed p = { .block = b, .n = arch_size(g, t), .t = t };
            size_t        bytes = p.n * (x->dtype == ST_F32 ? 4 : 2);

            if (!is_written(x, b, t))
                continue;
            snprintf(p.name, sizeof p.name, "%s", prefix);
            arch_tensor_name(g, p.name + strlen(prefix), sizeof p.name - strlen(prefix),
                             g->arch->prefix, b, t);
            p.shard = bytes > most ? out->files++ : SHARD_OPEN;
            if (bytes <= most && filled > most - bytes) {
                shard_close(out);
                filled = 0;
            }
            filled += bytes <= most ? bytes : 0;
            out->bytes += bytes;
            out->all += p.n;
            out->tensors[out->n++] = p;
        }
    }
    if (filled)
        shard_close(out);
    if (x->base)
        qsort(out->tensors, out->n, sizeof *out->tensors, by_name);
    return 0;
}

static void shard_name(char *out, const struct hf_export *x, const struct shards *s, size_t i)
{
    if (s->files == 1)
        snprintf(out, SHARD_NAME, x->base ? PEFT_MODEL : "model.safetensors");
    else
        snprintf(out, SHARD_NAME, "model-%05zu-of-%05zu.safetensors", i + 1, s->files);
}

static int declare_tensors(struct safetensors_writer *w, const struct hf_export *x,
                           const struct shards *s, size_t shard, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < s->n && !rc; i++) {
        const struct placed *p = &s->tensors[i];
        uint64_t             dims[2] = { arch_rows(&x->config, p->t), arch_cols(&x->config, p->t) };
        int                  vector = arch_is_vector(&x->config, p->t);

        if (p->shard == shard)
            rc = safetensors_writer_declare(w, p->name, vector ? 1 : 2, vector ? dims + 1 : dims,
                                            err);
    }
    return rc;
}

static int write_shard(const char *dir, const struct hf_export *x, const struct shards *s,
                       size_t shard, uint64_t *done, struct err *err)
{
    struct safetensors_writer w = { 0 };
    float                    *buffer = malloc(BUFFER * sizeof *buffer);
    char                      path[HF_PATH_BYTES], name[SHARD_NAME];
    int                       rc = buffer ? 0 : err_set(err, -ENOMEM, "%s: out of memory", dir);

    shard_name(name, x, s, shard);
    rc = rc ? rc : hf_path(path, dir, name, err);
    rc = rc ? rc : safetensors_writer_open(&w, path, x->dtype, err);
    w.base = x->base ? x->base_sum : NULL;
    rc = rc ? rc : declare_tensors(&w, x, s, shard, err);
    for (size_t i = 0; i < s->n && !rc; i++) {
        const struct placed *p = &s->tensors[i];

        for (size_t at = 0, n; p->shard == shard && at < p->n && !rc; at += n) {
            struct arch_spot spot = arch_spot(&x->config, p->block, p->t, at);

            n = size_min(spot.left, BUFFER);
            rc = x->source.read(x->source.ctx, spot.block, spot.i, n, buffer, err);
            rc = rc ? rc : safetensors_writer_add(&w, buffer, n, err);
            rc = rc ? rc : watch_look(x->watch, *done += n, s->all, err);
        }
    }
    rc = rc ? rc : safetensors_writer_commit(&w, err);
    safetensors_writer_close(&w);
    free(buffer);
    return rc;
}

/* Writes model.safetensors.index.json, which says what shard holds each tensor. sum: the checksum
 * of all shards, or NULL. */
static int write_index(const char *dir, const struct hf_export *x, const struct shards *s,
                       const char *sum, struct err *err)
{
    json_t *map = json_object(),
           *index = json_pack("{s:{s:I, s:s*}, s:o}", "metadata", "total_size",
                              (json_int_t)s->bytes, ST_INDEX_KEY, sum, "weight_map", map);
    char    path[HF_PATH_BYTES], shard[SHARD_NAME];
    int     rc = index ? 0 : -ENOMEM;

    for (size_t i = 0; i < s->n && !rc; i++) {
        shard_name(shard, x, s, s->tensors[i].shard);
        rc = json_object_set_new(map, s->tensors[i].name, json_string(shard)) ? -ENOMEM : 0;
    }
    if (rc)
        err_set(err, rc, "%s: out of memory", dir);
    rc = rc ? rc : hf_path(path, dir, "model.safetensors.index.json", err);
    rc = rc ? rc : json_write(index, path, JSON_INDENT(2) | JSON_SORT_KEYS, err);
    json_decref(index);
    return rc;
}

/* Writes the index, opens the folder with it, and writes it again with the checksum that the opened
 * folder has. */
static int add_index(const char *dir, const struct hf_export *x, const struct shards *s,
                     struct err *err)
{
    struct safetensors *st = NULL;
    char                sum[9];
    int                 rc = write_index(dir, x, s, NULL, err);

    rc = rc ? rc : safetensors_open(&st, dir, err);
    if (!rc) {
        snprintf(sum, sizeof sum, "%08" PRIx32, st->sum);
        rc = write_index(dir, x, s, sum, err);
    }
    safetensors_close(st);
    return rc;
}

static int write_tensors(const char *dir, const struct hf_export *x, struct err *err)
{
    struct shards s;
    uint64_t      done = 0;
    int           rc = shards_cut(&s, x, err);

    for (size_t i = 0; i < s.files && !rc; i++)
        rc = write_shard(dir, x, &s, i, &done, err);
    if (!rc && s.files > 1)
        rc = add_index(dir, x, &s, err);
    free(s.tensors);
    return rc;
}

/* ---- the folder ---- */

/* Whether a path is or ends in "." or "..". No rename can replace these. */
static int is_dots(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

    return !strcmp(base, ".") || !strcmp(base, "..");
}

int hf_export_check(const char *path, struct err *err)
{
    char dir[HF_PATH_BYTES];

    if (snprintf(dir, sizeof dir, "%.*s", (int)file_trimmed(path), path) >= (int)sizeof dir)
        return err_misuse(err, "%.100s...: the path is too long", path);
    // O_NOFOLLOW: a rename would replace the link, not the folder behind it
    int            fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), empty = 1;
    struct dirent *e;

    if (fd < 0 && errno == ENOENT)
        return 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int         why = errno;
        struct stat st;
        const char *what = !lstat(dir, &st) && S_ISLNK(st.st_mode) ? "is a symbolic link"
                                                                    : strerror(why);
        int         rc = err_name(err, why, "%s: %s: export needs a folder that does not exist or "
                                  "is empty", dir, what);

        file_close(fd);
        return rc;
    }
    while ((errno = 0, e = readdir(d)))
        empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
    int unread = errno != 0; // it may hold more
    closedir(d);
    if (unread || !empty)
        return err_misuse(err, "%s %s: export needs a folder that does not exist or is empty", dir,
                          unread ? "cannot be read to its end" : "is not empty");
    if (is_dots(dir))
        return err_misuse(err, "%s: export needs the name of the folder, not dots", dir);
    char *mounted;
    int   rc = file_mounted(&mounted, dir, err);
    if (mounted) // no rename replaces a mount point
        rc = err_misuse(err, "%s is where a drive is mounted: export needs the name of a folder in "
                        "it", dir);
    free(mounted);
    return rc;
}

int hf_export_into(const char *dir, const struct hf_export *x, struct err *err)
{
    // the caller has just looked whether the tokenizer is the model's; the tensors may take minutes
    int rc = x->tokenizer ? copy_tokenizer(dir, x, err) : 0;

    rc = rc ? rc : write_tensors(dir, x, err);
    if (!rc && x->base)
        rc = peft_settings_write(dir, x, err);
    if (x->base && !arch_classifies(&x->config)) // its base says everything else
        return rc;
    return rc ? rc : write_configs(dir, x, err);
}

int hf_export(const char *dir, const struct hf_export *x, struct err *err)
{
    struct file_new f = { 0 };
    int             rc = file_new_folder(&f, dir, err);

    rc = rc ? rc : hf_export_check(dir, err);
    rc = rc ? rc : hf_export_into(f.temp, x, err);
    rc = rc ? rc : file_new_commit(&f, err);
    file_new_abort(&f); // removes what was not committed
    return rc;
}
