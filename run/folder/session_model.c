/* session_model.c: stores a run's model in its database: its family, each value of its
 * configuration that does not follow from the others, the names of its classes, and what its folder
 * said of generation. */
#include "run/folder/session.h"

#include "chat/template.h"
#include "data/base/crc32c.h"
#include "data/json/json.h"
#include "data/text/tokenizer.h"
#include "model/file/hf.h"
#include "run/folder/settings.h"

/* The stored values. If one is missing, arch_config derives it; most then become 0. Runs of the
 * first version lack the later ones, and GPT-2 does not need them. */
enum config_kind { SIZE, REAL, DOUBLE, NUMBER };
static const struct config_key {
    const char      *key;
    size_t           offset;
    enum config_kind kind;  // a size_t, a float, a double, an int
    int              later; // it may be absent, and is derived then
} config_keys[] = {
#define KEY(name, kind, later) { "config." #name, offsetof(struct model_config, name), kind, later }
    KEY(n_layer, SIZE, 0), KEY(n_head, SIZE, 0), KEY(n_embd, SIZE, 0), KEY(vocab, SIZE, 0),
    KEY(n_positions, SIZE, 0), KEY(norm_eps, REAL, 0), KEY(n_labels, SIZE, 1),
    KEY(drop_embd, REAL, 1), KEY(drop_attn, REAL, 1), KEY(drop_resid, REAL, 1),
    KEY(n_kv_head, SIZE, 1), KEY(head_dim, SIZE, 1), KEY(n_inner, SIZE, 1), KEY(window, SIZE, 1),
    KEY(global_every, SIZE, 1), KEY(theta_local, DOUBLE, 1),
    KEY(untied, SIZE, 1), KEY(qkv_bias, SIZE, 1), KEY(qk_norm, SIZE, 1), KEY(n_types, SIZE, 1),
    KEY(pad, SIZE, 1),
    KEY(rope.type, NUMBER, 1), KEY(rope.theta, DOUBLE, 1), KEY(rope.factor, DOUBLE, 1),
    KEY(rope.original, DOUBLE, 1), KEY(rope.low_freq_factor, DOUBLE, 1),
    KEY(rope.high_freq_factor, DOUBLE, 1), KEY(rope.beta_fast, DOUBLE, 1),
    KEY(rope.beta_slow, DOUBLE, 1), KEY(rope.attention_factor, DOUBLE, 1),
    KEY(rope.mscale, DOUBLE, 1), KEY(rope.mscale_all_dim, DOUBLE, 1),
    KEY(rope.untruncated, NUMBER, 1),
#undef KEY
};
enum { CONFIG_KEYS = sizeof config_keys / sizeof *config_keys };
static const size_t config_bytes[] = { sizeof(size_t), sizeof(float), sizeof(double), sizeof(int) };
static_assert(sizeof(enum rope_type) == sizeof(int), "rope.type is read and written as an int");

/* The number of blocks that hold the embeddings. Without it there is one, and no untied head: the
 * first runs with an untied head stored it next to the final norm. */
#define CONFIG_PIECES "config.pieces"
/* The family; without it, the first one (arch_at(0)). */
#define CONFIG_ARCH "config.arch"

static int store_key(const struct session *s, const struct config_key *k, struct err *err)
{
    const void *value = (const char *)&s->config + k->offset;

    switch (k->kind) {
    case SIZE:
        return settings_set(s->log, err, "%s=%zu", k->key, *(const size_t *)value);
    case REAL:
        return settings_set(s->log, err, "%s=%.9g", k->key, (double)*(const float *)value);
    case DOUBLE:
        return settings_set(s->log, err, "%s=%.17g", k->key, *(const double *)value);
    default:
        return settings_set(s->log, err, "%s=%d", k->key, *(const int *)value);
    }
}

int session_store_config(struct session *s, struct err *err)
{
    const struct model_config *g = &s->config;
    struct model_config        follows = arch_config(g->arch, (struct model_config){
        .n_layer = g->n_layer, .n_head = g->n_head, .n_embd = g->n_embd });
    int rc = g->arch == arch_at(0) ? 0
                                   : settings_set(s->log, err, CONFIG_ARCH "=%s", g->arch->name);

    for (const struct config_key *k = config_keys; k < config_keys + CONFIG_KEYS && !rc; k++)
        if (k->offset < offsetof(struct model_config, n_kv_head) || k->kind == REAL ||
            memcmp((const char *)g + k->offset, (const char *)&follows + k->offset,
                   config_bytes[k->kind]))
            rc = store_key(s, k, err);
    if (!rc && (arch_pieces(g) > 1 || arch_head_blocks(g)))
        rc = settings_set(s->log, err, CONFIG_PIECES "=%zu", arch_pieces(g));
    return rc;
}

uint32_t session_config_sum(const struct session *s)
{
    const struct model_config *g = &s->config;
    uint32_t                   sum = crc32c(0, g->arch->name, strlen(g->arch->name));

    for (const struct config_key *k = config_keys; k < config_keys + CONFIG_KEYS; k++)
        sum = crc32c(sum, (const char *)g + k->offset, config_bytes[k->kind]);
    return sum;
}

int session_load_config(struct session *s, struct err *err)
{
    static const char *const formats[] = { "%zu", "%f", "%lf", "%d" };
    char                    *name = settings_get(s->log, CONFIG_ARCH);
    const struct arch       *arch = name ? arch_named(name) : arch_at(0);
    int                      rc = 0;

    if (!arch)
        rc = err_set(err, -ENOTSUP, "%s/run.db: a model of the family %.60s, which this version "
                     "does not know", s->dir, name);
    free(name);
    for (const struct config_key *k = config_keys; k < config_keys + CONFIG_KEYS && !rc; k++)
        if (!settings_scan(s->log, formats[k->kind], (char *)&s->config + k->offset, "%s",
                           k->key) && !k->later)
            rc = err_set(err, -EBADMSG, "%s/run.db has no %s", s->dir, k->key);
    if (rc)
        return rc;
    int said = settings_scan(s->log, "%zu", &s->config.pieces, CONFIG_PIECES);
    if (!said)
        s->config.pieces = 1;
    s->config = arch_config(arch, s->config);
    if (!said && arch_head_blocks(&s->config))
        return err_set(err, -ENOTSUP, "%s/run.db: this run's head is not tied to its embeddings "
                       "and lies in the block of the final norm: only the older siTrain that made "
                       "the run reads that", s->dir);
    return arch_check(&s->config, err);
}

int session_keep_tokenizer(struct session *s, const struct tokenizer *t, struct err *err)
{
    return settings_set(s->log, err, "tokenizer.sum=%08" PRIx32, tokenizer_sum(t));
}

/* A line of the setting tokenizer.files: a file's name and checksum. "": there is no such file, or
 * it is the chat template's, which has a checksum of its own. */
enum { FILE_LINE = 64 };

static int file_line(char line[FILE_LINE], const struct session *s, const char *name,
                     struct err *err)
{
    char  *path = file_path(err, "%s/tokenizer/%s", s->dir, name), *text = NULL;
    size_t n = 0;
    int    rc = path ? 0 : -ENOMEM;

    *line = '\0';
    rc = rc ? rc : file_check_own(path, 0, err); // as where a model is written
    if (!rc && strcmp(name, "chat_template.jinja"))
        rc = file_read_whole(&text, &n, path, TOKENIZER_FILE_MAX, err);
    if (file_is_absent(-rc)) // a tokenizer has only some of them
        rc = 0;
    if (!rc && text)
        snprintf(line, FILE_LINE, "%s %08" PRIx32 "\n", name, crc32c(0, text, n));
    free(text);
    free(path);
    return rc;
}

int session_keep_files(struct session *s, struct err *err)
{
    char        all[1024] = "", line[FILE_LINE];
    const char *name;
    int         rc = 0;

    for (size_t i = 0; (name = tokenizer_file(i)) && !rc; i++) {
        rc = file_line(line, s, name, err);
        strcat(all, line);
    }
    return rc ? rc : settings_set(s->log, err, "tokenizer.files=%s", all);
}

int session_same_files(const struct session *s, struct err *err)
{
    char       *kept, line[FILE_LINE];
    const char *name, *at;
    int         rc = settings_find(&kept, s->log, err, "tokenizer.files");

    for (size_t i = 0; kept && (name = tokenizer_file(i)) && !rc; i++) {
        size_t n = strlen(name);

        for (at = kept; *at && (strncmp(at, name, n) || at[n] != ' '); at += *at == '\n')
            at += strcspn(at, "\n"); // the file's line, or the end
        rc = file_line(line, s, name, err);
        if (!rc && (*line || *at) && (!*line || strncmp(at, line, strlen(line))))
            rc = err_set(err, -EBADMSG, "%s/tokenizer/%s was %s", s->dir, name,
                         !*at    ? "added since the run was made: remove the file"
                         : *line ? "changed since the run was made: put the file back"
                                 : "removed since the run was made: put the file back");
    }
    free(kept);
    return rc;
}

int session_same_tokenizer(const struct session *s, const struct tokenizer *t, struct err *err)
{
    uint32_t sum;

    if (settings_scan(s->log, "%" SCNx32, &sum, "tokenizer.sum") && sum != tokenizer_sum(t))
        return err_set(err, -EBADMSG, "%s/tokenizer is not the tokenizer that this run was made "
                       "with: it has other words or merges; put that one back", s->dir);
    int rc = runlog_unread(s->log, err);

    return rc ? rc : session_same_files(s, err);
}

int session_keep_template(struct session *s, struct err *err)
{
    char                  dir[SESSION_PATH + 16];
    struct chat_template *t = NULL;
    struct err            unknown;

    snprintf(dir, sizeof dir, "%s/tokenizer", s->dir);
    int rc = !chat_template_open(&t, dir, NULL, &unknown) && t
                 ? settings_set(s->log, err, "template.sum=%08" PRIx32, chat_template_sum(t))
                 : 0;
    chat_template_close(t);
    return rc;
}

static int same_template(const struct session *s, struct err *err)
{
    char                  dir[SESSION_PATH + 16];
    struct chat_template *t = NULL;
    struct err            why = { .text = "" };
    uint32_t              sum;

    if (!settings_scan(s->log, "%" SCNx32, &sum, "template.sum"))
        return 0;
    snprintf(dir, sizeof dir, "%s/tokenizer", s->dir);
    int same = !chat_template_open(&t, dir, NULL, &why) && t && chat_template_sum(t) == sum;
    chat_template_close(t);
    return same ? 0
                : err_set(err, -EBADMSG, "%s does not have the chat template that this run was "
                          "made with: put that one back (chat_template.jinja)%s%.400s", dir,
                          *why.text ? "; " : "", why.text);
}

int session_check_opened(const struct session *s, const struct tokenizer *t, struct err *err)
{
    int rc = t ? session_same_tokenizer(s, t, err) : session_same_files(s, err);

    return rc ? rc : same_template(s, err);
}

int session_check_tokenizer(const struct session *s, struct err *err)
{
    struct tokenizer *t = NULL;
    char             *path = file_path(err, "%s/tokenizer", s->dir);
    int               rc = path ? 0 : -ENOMEM;

    if (!rc && tokenizer_is_there(path)) {
        rc = tokenizer_open(&t, path, err);
        rc = rc && rc != -ENOTSUP ? rc : session_check_opened(s, t, err);
        tokenizer_close(t);
    } else if (!rc) {
        rc = settings_has(s->log, "endoftext")
                 ? err_set(err, -EBADMSG, "%s: no tokenizer there, though this run was made with "
                           "one: put that one back", path)
                 : same_template(s, err);
    }
    free(path);
    return rc;
}

/* ---- its classes and its generation ---- */

int session_store_labels(struct session *s, const struct hf_labels *labels, struct err *err)
{
    json_t *list = json_array();
    char   *text = NULL;
    int     rc = 0;

    for (size_t i = 0; i < labels->n && !rc; i++)
        rc = json_array_append_new(list, json_string(labels->name[i]));
    if (!rc)
        text = json_dumps(list, JSON_COMPACT);
    rc = text ? settings_set(s->log, err, "config.labels=%s", text)
              : err_set(err, -EINVAL, "the labels' names cannot be stored: they must be UTF-8");
    free(text);
    json_decref(list);
    return rc;
}

int session_labels(struct hf_labels *out, const struct session *s, struct err *err)
{
    char       *text = settings_get(s->log, "config.labels"), what[SESSION_PATH + 32];
    json_t     *list = NULL;
    size_t      n = s->config.n_labels;

    *out = (struct hf_labels){ 0 };
    if (!text) // a language model, or classes without names
        return 0;
    snprintf(what, sizeof what, "%s/run.db: config.labels", s->dir);
    int rc = json_parse(&list, text, strlen(text), what, err);
    if (!rc && json_array_size(list) != n)
        rc = err_set(err, -EBADMSG, "%s names %zu labels, but the model has %zu", what,
                     json_array_size(list), n);
    if (!rc && !(out->name = calloc(n + 1, sizeof *out->name)))
        rc = err_set(err, -ENOMEM, "%s: out of memory", what);
    for (; !rc && out->n < n; out->n++) {
        const char *name = json_string_value(json_array_get(list, out->n));
        if (!name || !(out->name[out->n] = strdup(name)))
            rc = err_set(err, -EBADMSG, "%s: label %zu has no name", what, out->n);
    }
    if (rc)
        hf_labels_free(out);
    json_decref(list);
    free(text);
    return rc;
}

int session_generation(json_t **out, const struct session *s, struct err *err)
{
    char *text = settings_get(s->log, "config.generation"), what[SESSION_PATH + 32];
    int   rc = 0;

    *out = NULL;
    snprintf(what, sizeof what, "%s/run.db: config.generation", s->dir);
    if (text)
        rc = json_parse(out, text, strlen(text), what, err);
    free(text);
    return rc;
}

long session_pad(const struct session *s, long endoftext)
{
    int  classifies = arch_classifies(&s->config);
    long pad = classifies ? endoftext : -1;

    settings_scan(s->log, "%ld", &pad, classifies ? "config.pad" : "config.pad_id");
    return pad;
}
