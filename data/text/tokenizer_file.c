/* tokenizer_file.c: opens a tokenizer from Hugging Face's files, and saves one as such.
 *
 * tokenizer.json says what the tokenizer does apart from its model (tokenizer_settings.c). Older
 * files are converted to one (tokenizer_pair.c, tokenizer_vocab_txt.c). tokenizer_config.json may
 * change it (tokenizer_config.c). In the files of a byte-level BPE, a token's bytes are printable
 * code points (the byte map); other tokens are unchanged. */
#include "data/text/tokenizer_gguf.h"
#include "data/text/tokenizer_parts.h"

#include "data/file/file.h"
#include "data/file/file_kind.h"
#include "data/json/json.h"
#include "data/base/round.h"
#include "data/base/utf8.h"

/* The state of loading. */
struct loading {
    const char         *dir, *path;
    json_t             *config; // tokenizer_config.json, or NULL
    json_t             *vocab;  // token -> id
    struct added_tokens added;
    struct tokenizer   *t;
    struct byte_map     map;

    struct tokenizer_settings settings;
};

/* ---- names: tokens as in the files ---- */

long name_decode(const struct byte_map *m, const char *name, size_t n, char *out)
{
    long done = 0;

    for (size_t i = 0; i < n; done++) {
        uint32_t cp;
        int      len = utf8_at(name + i, n - i, &cp);

        if (len <= 0 || cp >= CODE_POINTS || m->byte[cp] < 0)
            return -1;
        out[done] = (char)m->byte[cp];
        i += (size_t)len;
    }
    return done;
}

char *name_encode(const struct byte_map *m, const struct token_entry *e)
{
    char *name = malloc(2 * (size_t)e->n + 1), *p = name;

    for (uint32_t i = 0; name && i < e->n; i++) {
        unsigned cp = m->code_point[(unsigned char)e->bytes[i]];

        if (e->raw)
            *p++ = e->bytes[i];
        else
            p += utf8_encode(p, cp);
    }
    if (name)
        *p = 0;
    return name;
}

char *merge_encode(const struct byte_map *m, const struct tokenizer *t, size_t rank)
{
    char *left = name_encode(m, &t->entries[t->merges[rank].left]),
         *right = name_encode(m, &t->entries[t->merges[rank].right]), *line = NULL;

    if (!left || !right || asprintf(&line, "%s %s", left, right) < 0)
        line = NULL;
    free(left);
    free(right);
    return line;
}

/* ---- loading: vocabulary ---- */

/* The id of a JSON value, or -1. */
static json_int_t id_of(const json_t *v)
{
    json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;

    return id >= 0 && id < (json_int_t)TOKENIZER_MAX_VOCAB ? id : -1;
}

/* One more than the highest id of a vocabulary. 0 and a sentence if something in it is no id. */
static size_t vocab_size(const struct loading *l, struct err *err)
{
    const char *name;
    json_t     *v;
    size_t      n = 0;

    json_object_foreach(l->vocab, name, v) {
        if (id_of(v) < 0) {
            err_misuse(err, "%s: token %.100s has no id from 0 to %zu", l->path, name,
                       TOKENIZER_MAX_VOCAB - 1);
            return 0;
        }
        n = size_max(n, (size_t)id_of(v) + 1);
    }
    if (n == 0)
        err_misuse(err, "%s has no vocabulary of tokens and ids", l->path);
    return n;
}

/* Loads the vocabulary's tokens, except for added tokens: these are loaded first, and are in most
 * vocabularies, too. */
static int vocab_load(struct loading *l, struct err *err)
{
    const char *name;
    json_t     *v;

    json_object_foreach(l->vocab, name, v) {
        struct token_entry *e = &l->t->entries[id_of(v)];
        size_t              len = strlen(name);
        char                bytes[TOKENIZER_MAX_BYTES];

        e->listed = 1;
        if (e->added && e->n == len && !memcmp(e->bytes, name, len))
            continue;
        if (len > TOKENIZER_MAX_BYTES)
            return err_misuse(err, "%s: a token of %zu bytes, more than %u", l->path, len,
                              TOKENIZER_MAX_BYTES);
        long n = l->t->model->mapped ? name_decode(&l->map, name, len, bytes) : -1;
        int  rc = tokenizer_set(l->t, (size_t)id_of(v), n < 0 ? name : bytes,
                                n < 0 ? len : (size_t)n, n < 0, l->path, err);

        if (rc)
            return rc;
    }
    return 0;
}

/* ---- loading: merges ---- */

static int merge_load(struct loading *l, size_t rank, const char *left, size_t n_left,
                      const char *right, size_t n_right, struct err *err)
{
    char       name[2 * TOKENIZER_MAX_BYTES + 1];

    if (n_left > TOKENIZER_MAX_BYTES || n_right > TOKENIZER_MAX_BYTES)
        return err_misuse(err, "%s: merge %zu is longer than %u bytes", l->path, rank,
                          TOKENIZER_MAX_BYTES);
    memcpy(name, left, n_left);
    name[n_left] = 0;
    json_int_t a = id_of(json_object_get(l->vocab, name));
    memcpy(name + n_left, right, n_right);
    name[n_left + n_right] = 0;
    json_int_t b = id_of(json_object_get(l->vocab, name + n_left));
    json_int_t c = id_of(json_object_get(l->vocab, name));
    // no token has a NUL
    if (n_left == 0 || n_right == 0 || strlen(name) != n_left + n_right || a < 0 || b < 0 || c < 0)
        return err_misuse(err, "%s: merge %zu (%.60s) is not a pair of tokens whose union is a "
                          "token", l->path, rank, name);
    tokenizer_set_merge(l->t, rank, (struct merge){ (uint32_t)a, (uint32_t)b, (uint32_t)c });
    return 0;
}

/* Loads one line "left right". */
static int merge_load_line(struct loading *l, size_t rank, const char *line, size_t n,
                           struct err *err)
{
    const char *space = memchr(line, ' ', n);

    if (!space)
        return err_misuse(err, "%s: merge %zu (%.*s) is not two tokens with a space between",
                          l->path, rank, n < 60 ? (int)n : 60, line);
    return merge_load(l, rank, line, (size_t)(space - line), space + 1,
                      n - 1 - (size_t)(space - line), err);
}

static int merges_load(struct loading *l, const json_t *merges, struct err *err)
{
    int rc = 0;

    for (size_t r = 0; !rc && r < json_array_size(merges); r++) {
        const json_t *m = json_array_get(merges, r), *a = json_array_get(m, 0),
                     *b = json_array_get(m, 1);

        if (json_is_string(m))
            rc = merge_load_line(l, r, json_string_value(m), json_string_length(m), err);
        else if (json_array_size(m) == 2 && json_is_string(a) && json_is_string(b))
            rc = merge_load(l, r, json_string_value(a), json_string_length(a), json_string_value(b),
                            json_string_length(b), err);
        else
            rc = err_misuse(err, "%s: merge %zu is not a pair of tokens", l->path, r);
    }
    return rc;
}

/* ---- loading: all of it ---- */

/* Makes a tokenizer with the vocabulary and the added tokens. Its merges are set later. */
static int tokens_load(struct loading *l, json_t *root, const json_t *roles, size_t n_merges,
                       struct err *err)
{
    struct added_from from = { l->dir, l->path, l->config, root, l->vocab, roles };
    size_t            n = vocab_size(l, err);
    int               rc = n ? added_tokens_read(&l->added, &from, err) : -EINVAL;

    rc = rc ? rc : tokenizer_config_apply(&l->settings, root, &l->added, l->config, l->dir, err);
    for (size_t i = 0; !rc && i < l->added.n; i++)
        n = size_max(n, (size_t)l->added.list[i].id + 1);
    rc = rc ? rc : tokenizer_config_mends(&l->settings, n, l->config, l->dir, err);
    rc = rc ? rc : tokenizer_new(&l->t, n, n_merges, &l->settings, err);
    if (!rc)
        l->t->roles = json_incref(l->added.roles);
    for (size_t i = 0; !rc && i < l->added.n; i++)
        rc = tokenizer_set_added(l->t, &l->added.list[i], l->path, err);
    rc = rc ? rc : vocab_load(l, err);
    return rc ? rc : tokenizer_settings_apply(l->t, &l->settings, l->path, err);
}

/* ---- the folder ---- */

/* The files of a tokenizer: one file, or a vocabulary and its merges. */
static const char *const forms[][2] = { { "tokenizer.json", NULL },
                                        { "vocab.json", "merges.txt" },
                                        { "encoder.json", "vocab.bpe" },
                                        { "vocab.txt", NULL } };
enum { FORMS = sizeof forms / sizeof *forms, BERTS = FORMS - 1 };

/* Files that transformers converts to a tokenizer.json. */
static const char *const others[][2] = { { "tokenizer.model", "a model of SentencePiece" },
                                         { "spiece.model", "a model of SentencePiece" },
                                         { "sentencepiece.bpe.model", "a model of SentencePiece" },
                                         { "tekken.json", "a tokenizer of Mistral's" } };
enum { OTHERS = sizeof others / sizeof *others };

/* The first of these whose first file is in the folder, or NULL. */
static const char *const *form_find(const char *const (*of)[2], size_t n, const char *dir)
{
    for (size_t i = 0; i < n; i++) {
        char *first = file_path(NULL, "%s/%s", dir, of[i][0]);
        int   there = first && file_may_be(first);

        free(first);
        if (there)
            return of[i];
    }
    return NULL;
}

const char *const *tokenizer_form(const char *dir) { return form_find(forms, FORMS, dir); }

int tokenizer_is_there(const char *dir)
{
    return tokenizer_form(dir) || form_find(others, OTHERS, dir) || tokenizer_gguf_is(dir);
}

int tokenizer_expect(const char *dir, struct err *err)
{
    const char *const *other = form_find(others, OTHERS, dir);
    char               command[TOKENIZER_COMMAND];
    int                rc = tokenizer_gguf_is(dir)
                                ? 0
                                : file_kind_expect_folder(dir, FILE_FOR_TOKENIZER, err);

    if (rc || tokenizer_form(dir) || tokenizer_gguf_is(dir))
        return rc;
    if (!other)
        return err_misuse(err, "%s holds no tokenizer: tokenizer.json, or vocab.json and "
                          "merges.txt (or encoder.json and vocab.bpe), or BERT's vocab.txt was "
                          "expected", dir);
    tokenizer_command(command, dir);
    return err_misuse(err, "%.300s/%s is %s, and no tokenizer.json is beside it: %s "
                      "sentencepiece)", dir, other[0], other[1], command);
}

/* Reads tokenizer.json, or converts the files of another form to one. form NULL: a GGUF file. */
static int open_form(struct loading *l, const char *const *form, const char *path,
                     const char *second, struct err *err)
{
    json_t *root = NULL, *roles = NULL;
    int     rc = tokenizer_companion(&l->config, NULL, l->dir, "tokenizer_config.json", err);

    rc = rc                     ? rc
         : !form                ? tokenizer_gguf_read(&root, NULL, path, err)
         : second               ? pair_read(&root, &roles, l->config, l->dir, path, second, err)
         : form == forms[BERTS] ? vocab_txt_read(&root, l->config, l->dir, path, err)
                                : json_read_object(&root, path, TOKENIZER_FILE_MAX, err);
    const json_t *model = json_object_get(root, "model"), *merges;

    l->path = path;
    l->vocab = json_object_get(model, "vocab");
    rc = rc ? rc : tokenizer_settings_read(&l->settings, root, path, err);
    l->settings.of_pair = second != NULL;
    l->path = second ? second : path;
    merges = rc || !l->settings.model->merges ? NULL : json_object_get(model, "merges");
    if (!rc && l->settings.model->merges && !json_is_array(merges))
        rc = err_misuse(err, "%s: the model's \"merges\" must be a list", l->path);
    if (!rc && json_array_size(merges) > TOKENIZER_MAX_VOCAB)
        rc = err_misuse(err, "%s has more than %zu merges", l->path, TOKENIZER_MAX_VOCAB);
    l->path = path;
    rc = rc ? rc : tokens_load(l, root, roles, json_array_size(merges), err);
    l->path = second ? second : path;
    rc = rc ? rc : merges_load(l, merges, err);
    rc = rc ? rc : tokenizer_complete(l->t, &l->settings, path, err);
    json_decref(roles);
    json_decref(root);
    return rc;
}

int tokenizer_open(struct tokenizer **out, const char *dir, struct err *err)
{
    struct loading     l = { .dir = dir };
    int                gguf = tokenizer_gguf_is(dir);
    const char *const *form = tokenizer_form(dir);
    char              *first = form ? file_path(err, "%s/%s", dir, form[0]) : NULL,
                      *second = form && form[1] ? file_path(err, "%s/%s", dir, form[1]) : NULL;
    int                rc = form && (!first || !form[1] != !second) ? -ENOMEM : 0;

    byte_map_make(&l.map);
    rc = rc     ? rc
         : gguf ? open_form(&l, NULL, dir, NULL, err)
         : form ? open_form(&l, form, first, second, err)
                : tokenizer_expect(dir, err);
    if (rc)
        tokenizer_close(l.t);
    *out = rc ? NULL : l.t;
    added_tokens_free(&l.added);
    json_decref(l.config);
    free(first);
    free(second);
    return rc;
}

/* ---- saving ---- */

static json_t *added_make(const struct tokenizer *t, char **names)
{
    json_t *added = json_array();

    for (size_t i = 0; i < t->n; i++) {
        const struct token_entry *e = &t->entries[i];

        if (e->added)
            json_array_append_new(
                added, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i,
                                 "content", names[i], "single_word", e->single_word, "lstrip",
                                 e->lstrip, "rstrip", e->rstrip, "normalized", e->normalized,
                                 "special", e->special));
    }
    return added;
}

/* Makes tokenizer.json. Takes over `vocab` and `merges`. */
static json_t *tokenizer_make(const struct tokenizer *t, char **names, json_t *vocab,
                              json_t *merges)
{
    json_t *file = t->said ? json_deep_copy(t->said) : tokenizer_said_make();
    json_t *model = t->said ? json_incref(json_object_get(file, "model")) : tokenizer_model_make();
    int     bad = json_object_set_new(model, "vocab", vocab);

    if (t->model->merges)
        bad |= json_object_set_new(model, "merges", merges);
    else
        json_decref(merges);
    bad |= json_object_set_new(file, "added_tokens", added_make(t, names)) ||
           json_object_set(file, "model", model);
    json_decref(model);
    return json_whole(file, bad);
}

/* Makes special_tokens_map.json, or with `config` tokenizer_config.json, which transformers'
 * AutoTokenizer needs. */
static json_t *roles_make(const struct tokenizer *t, int config)
{
    static const char *const roles[] = { "bos_token", "eos_token", "unk_token" };
    const char *class = t->said ? "PreTrainedTokenizerFast" : "GPT2TokenizerFast";
    json_t     *file = config ? json_pack("{s:s}", "tokenizer_class", class) : json_object();
    size_t      n = 0;
    const char *end = tokenizer_bytes(t, tokenizer_endoftext(t), &n);

    if (config && !t->said)
        json_object_set_new(file, "add_prefix_space", json_false());
    if (config && t->cut_left)
        json_object_set_new(file, "truncation_side", json_string("left"));
    if (config && t->split_specials)
        json_object_set_new(file, "split_special_tokens", json_true());
    if (json_object_size(t->roles)) {
        json_object_update(file, t->roles);
        return file;
    }
    int bad = 0;

    for (size_t i = 0; i < 3 && end; i++)
        bad |= json_object_set_new(file, roles[i], json_stringn(end, n));
    return json_whole(file, bad);
}

/* Writes dir/name. Takes over `value`, which is NULL if memory ran out. */
static int save_json(json_t *value, const char *dir, const char *name, struct err *err)
{
    char *path = file_path(err, "%s/%s", dir, name);
    int   rc = value && path ? json_write(value, path, JSON_INDENT(2), err)
                             : err_set(err, -ENOMEM, "no memory to write %s into %s", name, dir);

    free(path);
    json_decref(value);
    return rc;
}

static int save_merges(const json_t *merges, const char *dir, struct err *err)
{
    char  *text = NULL, *path = file_path(err, "%s/merges.txt", dir);
    size_t n = 0;
    FILE  *out = path ? open_memstream(&text, &n) : NULL;
    int    bad = !out || fputs("#version: 0.2\n", out) < 0;

    for (size_t r = 0; !bad && r < json_array_size(merges); r++)
        fprintf(out, "%s\n", json_string_value(json_array_get(merges, r)));
    bad |= out && fclose(out);
    int rc = bad ? err_set(err, -ENOMEM, "no memory to write merges.txt into %s", dir)
                 : file_write_whole(path, text, n, err);

    free(text);
    free(path);
    return rc;
}

int tokenizer_save(const struct tokenizer *t, const char *dir, struct err *err)
{
    char          **names = calloc(t->n + 1, sizeof *names); // NULL if an id has no token
    json_t         *vocab = json_object(), *merges = json_array(), *whole = NULL;
    struct byte_map m;
    int             rc = 0, bad = !names;

    if (file_make_folder(dir) && errno != EEXIST)
        rc = err_set(err, -errno, "create folder %s: %s", dir, strerror(errno));
    byte_map_make(&m);
    for (size_t i = 0; i < t->n && !bad; i++)
        if (t->entries[i].bytes) {
            names[i] = name_encode(&m, &t->entries[i]);
            bad = !names[i];
            if (t->model->mapped || t->entries[i].listed)
                json_object_set_new(vocab, names[i], json_integer((json_int_t)i));
        }
    for (const struct merge *p = t->merges; p < t->merges + t->n_merges && !bad; p++)
        json_array_append_new(merges,
                              t->model->mapped
                                  ? json_sprintf("%s %s", names[p->left], names[p->right])
                                  : json_pack("[s, s]", names[p->left], names[p->right]));
    if (!bad)
        whole = tokenizer_make(t, names, json_incref(vocab), json_incref(merges));
    if (!rc && (!whole || json_array_size(merges) != t->n_merges))
        rc = err_set(err, -ENOMEM, "no memory to write the tokenizer into %s", dir);
    if (t->model->mapped) {
        rc = rc ? rc : save_json(json_incref(vocab), dir, "vocab.json", err);
        rc = rc ? rc : save_merges(merges, dir, err);
    }
    rc = rc ? rc : save_json(roles_make(t, 1), dir, "tokenizer_config.json", err);
    rc = rc ? rc : save_json(roles_make(t, 0), dir, "special_tokens_map.json", err);
    rc = rc ? rc : save_json(json_incref(whole), dir, "tokenizer.json", err);
    json_decref(whole);
    json_decref(vocab);
    json_decref(merges);
    for (size_t i = 0; names && i < t->n; i++)
        free(names[i]);
    free(names);
    return rc;
}
