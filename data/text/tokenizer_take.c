/* tokenizer_take.c: copies a tokenizer's files out of somebody's folder.
 *
 * A folder's files may be links, as in Hugging Face's cache. A stranger's link may lead to any file
 * of the user's: a key named merges.txt would go into the run, and be published with the model. So
 * a file is copied only if it is certainly what its name says: it agrees with the folder's
 * tokenizer, id by id, merge by merge. The tokenizer is opened first. Then each file is read once
 * more, and the bytes that were checked are copied (is_tokenizer checks none, and trusts the
 * opening). */
#include "data/text/tokenizer_gguf.h"
#include "data/text/tokenizer_parts.h"

#include "data/file/file.h"
#include "data/json/json.h"
#include "data/base/text_line.h"
#include "data/base/utf8.h"

struct taking {
    struct tokenizer *t;
    struct byte_map   map;
    json_t           *ids, *merges; // name -> id, "left right" -> true; NULL: not needed yet
    int               needed; // the tokenizer is read from this file
};

/* ---- the tokenizer's content ---- */

static int ids_make(struct taking *k)
{
    if (k->ids)
        return 0;
    k->ids = json_object();
    for (size_t i = 0; i < k->t->n; i++) {
        char *name = k->t->entries[i].bytes ? name_encode(&k->map, &k->t->entries[i]) : NULL;

        if (name)
            json_object_set_new(k->ids, name, json_integer((json_int_t)i));
        free(name);
    }
    return k->ids == NULL;
}

static int merges_make(struct taking *k)
{
    if (k->merges)
        return 0;
    k->merges = json_object();
    for (size_t r = 0; r < k->t->n_merges; r++) {
        char *line = merge_encode(&k->map, k->t, r);

        if (line)
            json_object_set_new(k->merges, line, json_true());
        free(line);
    }
    return k->merges == NULL;
}

/* Whether the token with this id has this name. A name that occurs twice in vocab.txt has one
 * id. */
static int is_token(struct taking *k, const char *name, json_int_t id)
{
    const struct token_entry *e = id >= 0 && (size_t)id < k->t->n ? &k->t->entries[id] : NULL;
    char                     *own = e && e->bytes ? name_encode(&k->map, e) : NULL;
    int                       is = own && !strcmp(own, name);

    if (e && !e->bytes && !ids_make(k))
        is = json_object_get(k->ids, name) != NULL;
    free(own);
    return is;
}

/* ---- checks: is it what its name says? ---- */

/* tokenizer_open has read all of it, and accepts nothing else. */
static int is_tokenizer(struct taking *k, char *text, size_t n, const char *path, struct err *err)
{
    (void)k, (void)text, (void)n, (void)path, (void)err;
    return 0;
}

/* A notice of a file that is left out is kept in run.db, and reports show it. The file may be a
 * link to anything, so the notice quotes nothing of it. */
static int object_parse(json_t **out, const char *text, size_t n, const char *path,
                        struct err *err)
{
    struct err why;
    int        rc = json_parse_object(out, text, n, path, &why);

    return rc ? err_misuse(err, "%s is not a JSON object", path) : 0;
}

/* {token: id} */
static int is_vocab(struct taking *k, char *text, size_t n, const char *path, struct err *err)
{
    json_t     *file, *v;
    const char *name;
    int         rc = object_parse(&file, text, n, path, err);

    json_object_foreach(rc ? NULL : file, name, v)
        if (!rc && (!json_is_integer(v) || !is_token(k, name, json_integer_value(v))))
            rc = err_misuse(err, "%s: an entry of it is no token of the tokenizer there", path);
    json_decref(file);
    return rc;
}

/* Whether a line is "#version: 0.2", or none. transformers also accepts other text on such a
 * line. */
static int is_version(const char *line)
{
    static const char before[] = "#version: ",
                      *const behind[] = { "", " - Trained by `huggingface/tokenizers`" };
    size_t            n = sizeof before - 1;

    if (strncmp(line, before, n))
        return 0;
    n += strspn(line + n, "0123456789.");
    return !strcmp(line + n, behind[0]) || !strcmp(line + n, behind[1]);
}

/* The next line of a text, which gets a NUL behind it; NULL: there is none. */
static const char *line_next(const char **at, const char *end)
{
    size_t      n;
    const char *line = text_line(at, end, &n);

    if (line)
        ((char *)(uintptr_t)line)[n] = '\0';
    return line;
}

static int is_merges(struct taking *k, char *text, size_t n, const char *path, struct err *err)
{
    const char *rest = text, *line;
    size_t      at = 0;

    if (merges_make(k))
        return err_set(err, -ENOMEM, "no memory for the merges of %s", path);
    if (memchr(text, 0, n))
        return err_misuse(err, "%s has a NUL, which no list of merges has", path);
    while ((line = line_next(&rest, text + n))) {
        at++;
        if (*line && !(at == 1 && is_version(line)) && !json_object_get(k->merges, line))
            return err_misuse(err, "%s: line %zu is no merge of the tokenizer there", path, at);
    }
    return 0;
}

/* Checks a vocabulary that nothing else confirms: it must consist of words, of which some go on or,
 * if a word is a letter as for proteins, some are BERT's own. */
static int is_words(struct taking *k, char *text, size_t n, const char *path, struct err *err)
{
    const char *rest = text, *line;
    size_t      at = 0, go_on = 0, unknown = 0, own = 0;

    if (memchr(text, 0, n))
        return err_misuse(err, "%s has a NUL, which no list of words has", path);
    while ((line = line_next(&rest, text + n))) {
        go_on += !strncmp(line, "##", 2) && line[2];
        unknown += !strcmp(line, "[UNK]");
        own += !strcmp(line, "[CLS]") || !strcmp(line, "[SEP]") || !strcmp(line, "[MASK]") ||
               !strcmp(line, "[PAD]");
        if (!is_token(k, line, (json_int_t)at++))
            return err_misuse(err, "%s: line %zu is no word of the tokenizer there", path, at);
        if (k->needed && line[strcspn(line, " \t\v\f\r")])
            return err_misuse(err, "%s: line %zu is no word of a vocabulary: it has white space",
                              path, at);
    }
    return go_on || (unknown && own) || !k->needed
               ? 0
               : err_misuse(err, "%s is no vocabulary of WordPiece: no line begins with ##, nor "
                            "has it [UNK] and one of [CLS], [SEP], [MASK] and [PAD]", path);
}

/* Checks a configuration. Its keys are not limited, but a key must be there that only such a file
 * has. */
static int is_config(struct taking *k, char *text, size_t n, const char *path, struct err *err)
{
    static const char *const own[] = {
        "tokenizer_class", "model_max_length", "added_tokens_decoder", "bos_token", "eos_token",
        "unk_token", "pad_token", "cls_token", "sep_token", "mask_token", "do_lower_case",
        "add_prefix_space", "add_bos_token", "add_eos_token", "clean_up_tokenization_spaces",
        "chat_template", "special_tokens_map_file", "additional_special_tokens",
        "extra_special_tokens", "truncation_side", "padding_side", "strip_accents",
        "tokenize_chinese_chars", "max_len", "auto_map", "split_special_tokens" };
    json_t *file;
    int     rc = object_parse(&file, text, n, path, err), found = 0;

    (void)k;
    for (size_t i = 0; i < sizeof own / sizeof *own && !rc; i++)
        found |= json_object_get(file, own[i]) != NULL;
    if (!rc && json_object_size(file) && !found)
        rc = err_misuse(err, "%s has no setting of a tokenizer", path);
    json_decref(file);
    return rc;
}

/* Whether v is a token, an object whose content is one, or a list of these. */
static int names_tokens(struct taking *k, const json_t *v)
{
    const char *content = token_content(v);
    int         all = 1;

    for (size_t i = 0; i < json_array_size(v); i++)
        all &= !json_is_array(json_array_get(v, i)) && names_tokens(k, json_array_get(v, i));
    if (json_is_array(v) || json_is_null(v))
        return all;
    return content && !ids_make(k) && json_object_get(k->ids, content);
}

/* {"eos_token": "</s>", ...} */
static int is_roles(struct taking *k, char *text, size_t n, const char *path, struct err *err)
{
    json_t     *file, *v;
    const char *key;
    int         rc = object_parse(&file, text, n, path, err);

    json_object_foreach(rc ? NULL : file, key, v)
        if (!rc && (!strstr(key, "_token") || !names_tokens(k, v)))
            rc = err_misuse(err, "%s: an entry of it names no token of the tokenizer there", path);
    json_decref(file);
    return rc;
}

/* Reads a number of a protocol buffer at p, before end. Returns what is behind it, or NULL. */
static const unsigned char *number_read(const unsigned char *p, const unsigned char *end,
                                        uint64_t *out)
{
    *out = 0;
    for (int shift = 0; p < end && shift < 63; shift += 7) {
        *out |= (uint64_t)(*p & 0x7F) << shift;
        if (!(*p++ & 0x80))
            return p;
    }
    return NULL;
}

/* Checks SentencePiece's model: a protocol buffer, to its last byte, that begins with pieces (field
 * 1), each of which begins with its text (its field 1). */
static int is_pieces(struct taking *k, char *text, size_t n, const char *path, struct err *err)
{
    enum { TEXT_FIELD = 1 << 3 | 2, LAST_FIELD = 5 };
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    size_t               pieces = 0;
    uint64_t             tag, bytes, letters;
    int                  why, ok = n > 0;

    (void)k;
    while (ok && p < end) {
        ok = (p = number_read(p, end, &tag)) && (tag & 7) == 2 && tag >> 3 >= 1 &&
             tag >> 3 <= LAST_FIELD && (p = number_read(p, end, &bytes)) &&
             bytes <= (uint64_t)(end - p);
        if (ok && tag == TEXT_FIELD) {
            const unsigned char *inner = p, *to = p + bytes;

            ok = (inner = number_read(inner, to, &tag)) && tag == TEXT_FIELD &&
                 (inner = number_read(inner, to, &letters)) && letters <= (uint64_t)(to - inner) &&
                 utf8_valid((const char *)inner, (size_t)letters, &why) == letters;
            pieces++;
        }
        ok = ok && (pieces > 0);
        p = ok ? p + bytes : p;
    }
    return ok ? 0 : err_misuse(err, "%s is no model of SentencePiece", path);
}

/* Checks a Jinja template, which must have Jinja's signs. */
static int is_template(struct taking *k, char *text, size_t n, const char *path, struct err *err)
{
    int why;

    (void)k;
    return !memchr(text, 0, n) && utf8_valid(text, n, &why) == n &&
                   ((strstr(text, "{{") && strstr(text, "}}")) ||
                    (strstr(text, "{%") && strstr(text, "%}")))
               ? 0
               : err_misuse(err, "%s is no template of chats: it has neither {{ }} nor {%% %%}",
                            path);
}

/* ---- the folder ---- */

static const struct kind {
    const char *name;
    int (*is)(struct taking *k, char *text, size_t n, const char *path, struct err *err);
} kinds[] = {
    { "tokenizer.json", is_tokenizer }, { "vocab.json", is_vocab }, { "merges.txt", is_merges },
    { "encoder.json", is_vocab }, { "vocab.bpe", is_merges }, { "vocab.txt", is_words },
    { "tokenizer_config.json", is_config }, { "special_tokens_map.json", is_roles },
    { "added_tokens.json", is_vocab }, { "tokenizer.model", is_pieces },
    { "chat_template.jinja", is_template },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *tokenizer_file(size_t i) { return i < KINDS ? kinds[i].name : NULL; }

/* Copies one file, if it exists. If it is something else and not needed, it is left out, and *not
 * says so. */
static int take_one(struct taking *k, const struct kind *kind, const char *src, const char *dst,
                    struct err *not, struct err *err)
{
    char  *text = NULL, *copy = NULL;
    size_t n;
    int    rc = file_read_whole(&text, &n, src, TOKENIZER_FILE_MAX, err);

    if (file_is_absent(-rc))
        rc = 0;
    if (!rc && text && !(copy = malloc(n + 1)))
        rc = err_set(err, -ENOMEM, "no memory to read %s", src);
    if (rc || !text)
        goto out;
    memcpy(copy, text, n + 1); // the check cuts its text
    rc = kind->is(k, copy, n, src, not);
    if (!rc)
        rc = file_write_whole(dst, text, n, err);
    else if (k->needed || !not->misuse)
        *err = *not;
    else
        rc = 0;
out:
    free(copy);
    free(text);
    return rc;
}

/* Writes the files that a folder would have for a GGUF file's tokenizer. */
static int take_gguf(const char *from, const char *to, struct err *err)
{
    json_t *file[2] = { NULL, NULL };
    int     rc = tokenizer_gguf_read(&file[0], &file[1], from, err);

    for (int i = 0; i < 2 && !rc; i++) {
        char *path = file_path(err, "%s/tokenizer%s.json", to, i ? "_config" : "");

        rc = path ? json_write(file[i], path, JSON_INDENT(2), err) : -ENOMEM;
        free(path);
    }
    json_decref(file[0]);
    json_decref(file[1]);
    return rc;
}

int tokenizer_take(const char *from, const char *to, char *notice, size_t size, struct err *err)
{
    const char   *const *form = tokenizer_form(from);
    struct taking k = { 0 };
    int           rc = tokenizer_open(&k.t, from, err);

    byte_map_make(&k.map);
    if (size)
        *notice = '\0';
    int gguf = tokenizer_gguf_is(from);

    rc = rc || !gguf ? rc : take_gguf(from, to, err);
    for (size_t i = 0; i < KINDS && !rc && !gguf; i++) {
        char      *src = file_path(err, "%s/%s", from, kinds[i].name),
                  *dst = src ? file_path(err, "%s/%s", to, kinds[i].name) : NULL;
        struct err not = { 0 };

        k.needed = form && (!strcmp(form[0], kinds[i].name) ||
                            (form[1] && !strcmp(form[1], kinds[i].name)));
        rc = dst ? take_one(&k, &kinds[i], src, dst, &not, err) : -ENOMEM;
        if (!rc && size && *not.text) {
            size_t n = strlen(notice);

            snprintf(notice + n, size - n, n ? "; so is %s" : "%s: this file is left out",
                     n ? kinds[i].name : not.text);
        }
        free(src);
        free(dst);
    }
    json_decref(k.ids);
    json_decref(k.merges);
    tokenizer_close(k.t);
    return rc;
}
