/* tokenizer_gguf.c: reads a GGUF file's tokenizer as the tokenizer.json of a folder.
 *
 * Every token stands in the vocabulary; those that are no words of texts are added tokens, too.
 * llama.cpp merges SentencePiece's tokens by scores: any two neighbours whose text together is a
 * token. The merges made here are all such pairs, in the order of the scores, as transformers'
 * converter makes them. */
#include "data/text/tokenizer_gguf.h"

#include "data/base/grow.h"
#include "data/base/utf8.h"
#include "data/text/tokenizer_parts.h"

/* llama.cpp's own splitters of these names are the expressions of split.c. It does not normalize:
 * a text that is not in NFC gets other ids there. */
static const struct gguf_split splits[] = {
    { { "gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion" }, "GPT-2", { NULL }, 0, 0, 0 },
    { { "llama-bpe", "llama3", "llama-v3" }, "Llama 3", { NULL }, 0, 1, 1 },
    { { "smaug-bpe", "dbrx" }, "Llama 3", { NULL }, 0, 0, 0 },
    { { "qwen2", "deepseek-r1-qwen", "kormo" }, "Qwen2", { NULL }, 1, 0, 0 },
    { { "stablelm2" }, "Qwen2", { NULL }, 0, 0, 0 },
    { { "smollm", "refact", "starcoder", "command-r", "codeshell", "exaone" }, "GPT-2",
      { "\\p{N}" }, 0, 0, 0 },
    { { "tekken" }, "Tekken", { NULL }, 0, 1, 1 },
    { { "deepseek-v3" }, "DeepSeek-V3", { "\\p{N}{1,3}", SPLIT_SAID_CHINESE_JAPANESE }, 0, 0, 0 },
};
enum { SPLITS = sizeof splits / sizeof *splits };

const struct gguf_split *gguf_split_at(size_t i) { return i < SPLITS ? &splits[i] : NULL; }

static const struct gguf_split *split_named(const char *name, size_t n)
{
    for (size_t i = 0; i < SPLITS; i++)
        for (size_t k = 0; k < sizeof splits[i].names / sizeof *splits[i].names; k++)
            if (splits[i].names[k] && strlen(splits[i].names[k]) == n &&
                !memcmp(splits[i].names[k], name, n))
                return &splits[i];
    return NULL;
}

/* ---- the file ---- */

struct reading {
    struct gguf             *file;
    const struct gguf_split *split;  // of a byte-level BPE; NULL: SentencePiece's
    char                   **names;  // (n) NULL: no token has this id
    double                  *scores; // (n)
    int                     *types;  // (n)
    size_t                   n;
    json_t                  *vocab, *added, *merges;
    int                      prefix, begins, ends; // a space before a text; bos and eos around it
};

static void reading_free(struct reading *k)
{
    for (size_t i = 0; k->names && i < k->n; i++)
        free(k->names[i]);
    free(k->names);
    free(k->scores);
    free(k->types);
    json_decref(k->vocab);
    json_decref(k->added);
    json_decref(k->merges);
    gguf_close(k->file);
}

static int no_memory(const struct reading *k, struct err *err)
{
    return err_set(err, -ENOMEM, "no memory for the tokenizer of %s", k->file->path);
}

/* Whether the n bytes at `text`, which may be NULL, are `word`. */
static int is_word(const char *text, size_t n, const char *word)
{
    return text && n == strlen(word) && !memcmp(text, word, n);
}

static int flag(const struct reading *k, const char *key, int otherwise)
{
    const struct gguf_value *v = gguf_find(k->file, key);
    double                   is;

    return v && !gguf_number(&is, k->file, v, 0) ? is > 0 : otherwise;
}

/* The token that a key names by its id, or NULL. */
static const char *role(const struct reading *k, const char *key)
{
    const struct gguf_value *v = gguf_find(k->file, key);
    double                   id;

    if (!v || v->is_array || gguf_number(&id, k->file, v, 0) || !(id >= 0 && id < (double)k->n))
        return NULL;
    return k->names[(size_t)id];
}

/* ---- tokens ---- */

/* The name in a tokenizer.json: of SentencePiece's added tokens llama.cpp has spaces for marks. */
static char *name_make(const struct reading *k, const char *text, size_t n, int type)
{
    char *out = malloc(3 * n + 1), *p = out;

    for (size_t i = 0; out && i < n; i++) {
        int mark = !k->split && type == GGUF_TOKEN_USER && text[i] == ' ';

        memcpy(p, mark ? GGUF_MARK : text + i, mark ? 3 : 1);
        p += mark ? 3 : 1;
    }
    if (out)
        *p = '\0';
    return out;
}

static int add_token(struct reading *k, size_t id, const char *text, size_t n, struct err *err)
{
    char filler[32];
    int  type = k->types[id], why;

    snprintf(filler, sizeof filler, "[PAD%zu]", id);
    if (type == GGUF_TOKEN_UNUSED && strlen(filler) == n && !memcmp(filler, text, n))
        return 0;
    if (n == 0 || n > TOKENIZER_MAX_BYTES / 3 || memchr(text, 0, n) ||
        utf8_valid(text, n, &why) != n)
        return err_misuse(err, "%s: token %zu is not a text of 1 to %u bytes in UTF-8",
                          k->file->path, id, TOKENIZER_MAX_BYTES / 3);
    if (!(k->names[id] = name_make(k, text, n, type)))
        return no_memory(k, err);
    if (json_object_get(k->vocab, k->names[id]))
        return err_misuse(err, "%s: the token with id %zu is there twice", k->file->path, id);
    if (json_object_set_new(k->vocab, k->names[id], json_integer((json_int_t)id)))
        return no_memory(k, err);
    if (type != GGUF_TOKEN_CONTROL && type != GGUF_TOKEN_USER && type != GGUF_TOKEN_UNKNOWN)
        return 0;
    return json_array_append_new(
               k->added, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id,
                                   "content", k->names[id], "single_word", 0, "lstrip", 0, "rstrip",
                                   0, "normalized", 0, "special", type != GGUF_TOKEN_USER))
               ? no_memory(k, err)
               : 0;
}

static int read_tokens(struct reading *k, struct err *err)
{
    const struct gguf_value *tokens = gguf_find(k->file, "tokenizer.ggml.tokens"),
                            *types = gguf_find(k->file, "tokenizer.ggml.token_type"),
                            *scores = gguf_find(k->file, "tokenizer.ggml.scores");
    uint64_t at = 0;
    double   v;
    int      rc = 0;

    if (!tokens || !tokens->is_array || tokens->kind != GGUF_STRING || tokens->n == 0 ||
        tokens->n > TOKENIZER_MAX_VOCAB)
        return err_misuse(err, "%s: tokenizer.ggml.tokens must be an array of 1 to %zu strings",
                          k->file->path, TOKENIZER_MAX_VOCAB);
    k->n = tokens->n;
    k->names = calloc(k->n, sizeof *k->names);
    k->scores = calloc(k->n, sizeof *k->scores);
    k->types = calloc(k->n, sizeof *k->types);
    if (!k->names || !k->scores || !k->types)
        return no_memory(k, err);
    for (size_t i = 0; i < k->n && !rc; i++) {
        size_t      n;
        const char *text = gguf_next_text(&n, &at, k->file, tokens);

        k->types[i] = GGUF_TOKEN_NORMAL;
        if (types && (gguf_number(&v, k->file, types, i) || !(v >= 0 && v < 100)))
            return err_misuse(err, "%s: tokenizer.ggml.token_type has no type for token %zu",
                              k->file->path, i);
        if (types)
            k->types[i] = (int)v;
        if (!k->split && (!scores || gguf_number(&k->scores[i], k->file, scores, i)))
            return err_misuse(err, "%s: tokenizer.ggml.scores has no score for token %zu",
                              k->file->path, i);
        rc = add_token(k, i, text, n, err);
    }
    return rc;
}

/* ---- merges ---- */

static int read_merges(struct reading *k, struct err *err)
{
    const struct gguf_value *v = gguf_find(k->file, "tokenizer.ggml.merges");
    uint64_t                 at = 0;

    if (!v || !v->is_array || v->kind != GGUF_STRING)
        return err_misuse(err, "%s: tokenizer.ggml.merges must be an array of strings",
                          k->file->path);
    for (uint64_t i = 0; i < v->n; i++) {
        size_t      n;
        const char *text = gguf_next_text(&n, &at, k->file, v);
        json_t     *merge = json_stringn(text, n);

        if (!merge)
            return err_misuse(err, "%s: merge %" PRIu64 " is not UTF-8", k->file->path, i);
        if (json_array_append_new(k->merges, merge))
            return no_memory(k, err);
    }
    return 0;
}

struct pair { size_t whole, left, n_left; double score; }; // ids, and bytes of the left part

static int by_score(const void *a, const void *b)
{
    const struct pair *p = a, *q = b;

    if (p->score < q->score || p->score > q->score)
        return p->score > q->score ? -1 : 1;
    if (p->whole != q->whole)
        return p->whole < q->whole ? -1 : 1;
    return p->n_left < q->n_left ? -1 : 1;
}

static int pair_put(struct reading *k, const struct pair *p, char *left, struct err *err)
{
    const char *name = k->names[p->whole];

    memcpy(left, name, p->n_left);
    left[p->n_left] = '\0';
    return json_array_append_new(k->merges, json_pack("[s, s]", left, name + p->n_left))
               ? no_memory(k, err)
               : 0;
}

/* Makes the merges of scores. */
static int make_merges(struct reading *k, struct err *err)
{
    static const size_t most = (size_t)16 << 20;
    struct pair        *list = NULL;
    size_t              n = 0, cap = 0;
    char               *left = malloc(TOKENIZER_MAX_BYTES + 1);
    int                 rc = left ? 0 : no_memory(k, err);

    for (size_t i = 0; i < k->n && !rc; i++) {
        const char *name = k->names[i];

        if (!name || (k->types[i] != GGUF_TOKEN_NORMAL && k->types[i] != GGUF_TOKEN_USER))
            continue;
        for (size_t at = 0; name[at] && !rc; at++) {
            int inside = at > 0 && (name[at] & 0xC0) != 0x80;

            left[at] = name[at];
            left[at + 1] = '\0';
            if (!inside || !json_object_get(k->vocab, name + at))
                continue;
            left[at] = '\0';
            const json_t *id = json_object_get(k->vocab, left);
            struct pair   p = { i, (size_t)json_integer_value(id), at, k->scores[i] };

            left[at] = name[at];
            if (id && n == most)
                rc = err_misuse(err, "%s: its tokens have more than %zu merges", k->file->path,
                                most);
            else if (id)
                rc = grow_add(&list, &n, &cap, &p, 1, sizeof p, "merges", err);
        }
    }
    if (!rc && n)
        qsort(list, n, sizeof *list, by_score);
    for (size_t i = 0; i < n && !rc; i++)
        rc = pair_put(k, &list[i], left, err);
    free(list);
    free(left);
    return rc;
}

/* ---- the settings ---- */

static json_t *pre_tokenizer(const struct gguf_split *s)
{
    int     own = strcmp(s->pattern, "GPT-2") == 0;
    json_t *steps = json_array();

    for (size_t i = 0; i < 2 && s->runs[i]; i++)
        json_array_append_new(steps, own ? json_pack("{s:s, s:b}", "type", "Digits",
                                                     "individual_digits", 1)
                                         : tokenizer_split_make(s->runs[i]));
    if (!own)
        json_array_append_new(steps, tokenizer_split_make(split_pattern_said(s->pattern)));
    json_array_append_new(steps, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                                           "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                                           own));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

/* The normalizer of SentencePiece's tokens: marks for spaces, and one before a text. */
static json_t *marks(int prefix)
{
    json_t *replace = json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ",
                                "content", GGUF_MARK);

    return prefix ? json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type",
                              "Prepend", "prepend", GGUF_MARK, replace)
                  : replace;
}

static json_t *decoder(const struct reading *k)
{
    if (k->split)
        return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1,
                         "trim_offsets", 1, "use_regex", 1);
    json_t *steps = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern",
                              "String", GGUF_MARK, "content", " ", "type", "ByteFallback", "type",
                              "Fuse");

    if (k->prefix)
        json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content",
                                               " ", "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

/* The template that puts bos and eos around a text; null if neither is put. */
static json_t *template_of(const struct reading *k)
{
    const char *around[2] = { k->begins ? role(k, "tokenizer.ggml.bos_token_id") : NULL,
                              k->ends ? role(k, "tokenizer.ggml.eos_token_id") : NULL };
    json_int_t  ids[2] = { 0 };

    for (int i = 0; i < 2; i++)
        if (around[i])
            ids[i] = json_integer_value(json_object_get(k->vocab, around[i]));
    return around[0] || around[1] ? tokenizer_template_make(around, ids) : json_null();
}

static int make_root(json_t **out, const struct reading *k, struct err *err)
{
    const char *unknown = role(k, "tokenizer.ggml.unknown_token_id");

    for (size_t i = 0; i < k->n && !k->split && !unknown; i++)
        unknown = k->types[i] == GGUF_TOKEN_UNKNOWN ? k->names[i] : NULL;
    *out = json_pack(
        "{s:s, s:n, s:n, s:O, s:o, s:o, s:o, s:o, s:{s:s, s:n, s:s*, s:n, s:n, s:b, s:b, s:b, "
        "s:O, s:O}}",
        "version", "1.0", "truncation", "padding", "added_tokens", k->added, "normalizer",
        k->split ? k->split->nfc ? json_pack("{s:s}", "type", "NFC") : json_null()
                 : marks(k->prefix),
        "pre_tokenizer", k->split ? pre_tokenizer(k->split) : json_null(), "post_processor",
        template_of(k), "decoder", decoder(k), "model", "type", "BPE",
        "dropout", "unk_token", k->split ? NULL : unknown, "continuing_subword_prefix",
        "end_of_word_suffix", "fuse_unk", !k->split, "byte_fallback", !k->split, "ignore_merges",
        k->split ? k->split->ignores_merges : 0, "vocab", k->vocab, "merges", k->merges);
    return *out ? 0 : no_memory(k, err);
}

static int make_config(json_t **out, const struct reading *k, struct err *err)
{
    static const char *const roles[][2] = {
        { "tokenizer.ggml.bos_token_id", "bos_token" },
        { "tokenizer.ggml.eos_token_id", "eos_token" },
        { "tokenizer.ggml.unknown_token_id", "unk_token" },
        { "tokenizer.ggml.padding_token_id", "pad_token" },
        { "tokenizer.ggml.seperator_token_id", "sep_token" },
        { "tokenizer.ggml.mask_token_id", "mask_token" },
    };
    size_t      n;
    const char *template = gguf_text(&n, k->file, gguf_find(k->file, "tokenizer.chat_template"));
    json_t     *text = template ? json_stringn(template, n) : NULL;
    int         bad = 0;

    if (template && !text)
        return err_misuse(err, "%s: tokenizer.chat_template is not UTF-8", k->file->path);
    *out = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast");
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const char *name = role(k, roles[i][0]);

        bad |= name && json_object_set_new(*out, roles[i][1], json_string(name));
    }
    bad |= text && json_object_set_new(*out, "chat_template", text);
    return *out && !bad ? 0 : no_memory(k, err);
}

/* ---- the whole ---- */

static int read_kind(struct reading *k, struct err *err)
{
    char        shown[GGUF_SHOWN];
    size_t      n = 0, of = 0;
    const char *name = gguf_text(&n, k->file, gguf_find(k->file, "tokenizer.ggml.pre")),
               *model = gguf_text(&of, k->file, gguf_find(k->file, "tokenizer.ggml.model"));

    if (is_word(model, of, "llama"))
        return 0;
    if (!is_word(model, of, "gpt2"))
        return err_misuse(err, "%s: its tokenizer is \"%s\", but this version reads gpt2 (byte-"
                          "level BPE) and llama (SentencePiece)", k->file->path,
                          gguf_shown(shown, model, of));
    k->split = name ? split_named(name, n) : NULL;
    return k->split ? 0
                    : err_misuse(err, "%s: its tokenizer splits texts as \"%s\" (tokenizer.ggml."
                                 "pre), which this version does not know", k->file->path,
                                 gguf_shown(shown, name, n));
}

int tokenizer_gguf_read(json_t **root, json_t **config, const char *path, struct err *err)
{
    struct reading k = { .vocab = json_object(), .added = json_array(), .merges = json_array() };
    int            rc = gguf_open(&k.file, path, err);

    if (root)
        *root = NULL;
    if (config)
        *config = NULL;
    rc = rc ? rc : read_kind(&k, err);
    rc = rc ? rc : read_tokens(&k, err);
    if (!rc) {
        k.prefix = !k.split && flag(&k, "tokenizer.ggml.add_space_prefix", 1);
        k.begins = flag(&k, "tokenizer.ggml.add_bos_token", k.split ? k.split->begins : 1);
        k.ends = flag(&k, "tokenizer.ggml.add_eos_token", 0);
    }
    if (!rc && root) {
        rc = k.split ? read_merges(&k, err) : make_merges(&k, err);
        rc = rc ? rc : make_root(root, &k, err);
    }
    if (!rc && config)
        rc = make_config(config, &k, err);
    reading_free(&k);
    return rc;
}

int tokenizer_gguf_is(const char *path)
{
    struct gguf *file;
    size_t       n;
    int          is = gguf_is_file(path);

    if (is && !gguf_open(&file, path, NULL)) { // where it may not be opened, reading it says why
        const char *model = gguf_text(&n, file, gguf_find(file, "tokenizer.ggml.model"));

        is = model && !(n == 4 && !memcmp(model, "none", n)) &&
             !(n == 8 && !memcmp(model, "no_vocab", n));
        gguf_close(file);
    }
    return is;
}
