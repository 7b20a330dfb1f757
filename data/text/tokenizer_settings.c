/* tokenizer_settings.c: what tokenizer.json says besides its vocabulary, merges and added tokens.
 *
 * Each part of the file (normalizer, pre_tokenizer, ...) is a step or a Sequence of steps, and a
 * step has a type. What is asked for and not known here is refused by its name, never ignored;
 * what is absent, null, false or "" asks for nothing. Truncation and padding are of the batches
 * that Hugging Face makes, not of the ids of a text. */
#include "data/text/tokenizer_parts.h"

#include "data/base/grow.h"
#include "data/base/json.h"

enum { MAX_STEPS = 8, MAX_AROUND = 64 };

/* The steps of one part. */
struct part {
    const char   *path, *name; // of the file, and in it
    const json_t *steps[MAX_STEPS];
    size_t        n;
};

/* Whether an optional setting asks for nothing. */
static int is_unset(const json_t *v)
{
    return !v || json_is_null(v) || json_is_false(v) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

/* Of an object, only the members that are named may be set. */
static int members_check(const json_t *object, const char *const *known, const char *where,
                         const char *path, struct err *err)
{
    const char *key;
    json_t     *v;

    json_object_foreach((json_t *)object, key, v) {
        size_t i = 0;

        while (known[i] && strcmp(known[i], key))
            i++;
        if (!known[i] && !is_unset(v))
            return err_misuse(err, "%s: its %s sets %.60s, which is not computed here", path, where,
                              key);
    }
    return 0;
}

/* ---- steps ---- */

static int part_read(struct part *p, const json_t *root, const char *path, const char *name,
                     const char *list, struct err *err)
{
    const json_t *v = json_object_get(root, name), *of = json_object_get(v, list);

    *p = (struct part){ .path = path, .name = name };
    if (is_unset(v))
        return 0;
    if (strcmp(json_str(v, "type"), "Sequence")) {
        p->steps[p->n++] = v;
        return 0;
    }
    if (!json_is_array(of) || json_array_size(of) > MAX_STEPS)
        return err_misuse(err, "%s: its %s is a Sequence without %s, or of more than %d", path,
                          name, list, MAX_STEPS);
    for (size_t i = 0; i < json_array_size(of); i++)
        p->steps[p->n++] = json_array_get(of, i);
    return 0;
}

static const char *step_type(const json_t *step)
{
    const char *type = json_str(step, "type");

    return *type ? type : "of no type";
}

static int is_step(const json_t *step, const char *type) { return !strcmp(step_type(step), type); }

static int step_refuse(const struct part *p, const json_t *step, const char *known, struct err *err)
{
    return err_misuse(err, "%s: its %s is %.60s, but only %s is known", p->path, p->name,
                      step ? step_type(step) : "absent", known);
}

/* ---- the parts ---- */

static int normalizer_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    for (size_t i = 0; i < p->n; i++)
        if (!is_step(p->steps[i], "NFC"))
            return step_refuse(p, p->steps[i], "NFC", err);
    s->nfc = p->n > 0;
    return 0;
}

/* A Split by one of the expressions that are known. */
static int split_read(struct tokenizer_settings *s, const struct part *p, const json_t *split,
                      struct err *err)
{
    const char *said = json_str(json_object_get(split, "pattern"), "Regex");

    if (strcmp(json_str(split, "behavior"), "Isolated") ||
        !is_unset(json_object_get(split, "invert")))
        return err_misuse(err, "%s: its pre_tokenizer's Split is %.40s%s, but only Isolated is "
                          "known", p->path, json_str(split, "behavior"),
                          is_unset(json_object_get(split, "invert")) ? "" : ", inverted");
    s->pattern = pretoken_pattern_find(said);
    return s->pattern ? 0
                      : err_misuse(err, "%s: its pre_tokenizer splits by \"%.300s\", but only the "
                                   "expressions of GPT-2, Llama 3 and Qwen2 are known", p->path,
                                   said);
}

/* ByteLevel, which has GPT-2's expression in it, or a Split and ByteLevel without one. */
static int pre_tokenizer_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    static const char known[] = "ByteLevel, alone or behind a Split,";
    const json_t     *last = p->n ? p->steps[p->n - 1] : NULL;
    int               split = p->n == 2;

    for (size_t i = 0; i < p->n; i++)
        if (!is_step(p->steps[i], i == 0 && split ? "Split" : "ByteLevel") || p->n > 2)
            return step_refuse(p, p->steps[i], known, err);
    if (!last)
        return step_refuse(p, NULL, known, err);
    const json_t *use = json_object_get(last, "use_regex");
    if (!is_unset(json_object_get(last, "add_prefix_space")) || split == !json_is_false(use))
        return err_misuse(err, "%s: only a ByteLevel pre_tokenizer with its expression, or a Split "
                          "before it instead, and without a prefix space is known", p->path);
    return split ? split_read(s, p, p->steps[0], err) : 0;
}

static int post_processor_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    for (size_t i = 0; i < p->n; i++) {
        int template = is_step(p->steps[i], "TemplateProcessing");

        // ByteLevel's sets offsets, which are not made here
        if ((!template && !is_step(p->steps[i], "ByteLevel")) || (template && s->template))
            return step_refuse(p, p->steps[i], "ByteLevel, or one TemplateProcessing,", err);
        if (template)
            s->template = p->steps[i];
    }
    return 0;
}

static int decoder_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    (void)s;
    for (size_t i = 0; i < p->n; i++)
        if (!is_step(p->steps[i], "ByteLevel") || p->n > 1)
            return step_refuse(p, p->steps[i], "ByteLevel", err);
    return 0;
}

static int model_read(struct tokenizer_settings *s, const json_t *model, const char *path,
                      struct err *err)
{
    // of these, unk_token and fuse_unk are about bytes without a token, and all have one
    static const char *const known[] = { "type", "vocab", "merges", "unk_token", "fuse_unk",
                                         "ignore_merges", NULL };
    const char              *type = json_string_value(json_object_get(model, "type"));

    if (type && strcmp(type, "BPE"))
        return err_misuse(err, "%s: its model is %.60s, but only BPE is known", path, type);
    s->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    return members_check(model, known, "model", path, err);
}

int tokenizer_settings_read(struct tokenizer_settings *s, const json_t *root, const char *path,
                            struct err *err)
{
    static const struct {
        const char *name, *list;
        int (*read)(struct tokenizer_settings *s, const struct part *p, struct err *err);
    } parts[] = {
        { "normalizer", "normalizers", normalizer_read },
        { "pre_tokenizer", "pretokenizers", pre_tokenizer_read },
        { "post_processor", "processors", post_processor_read },
        { "decoder", "decoders", decoder_read },
    };
    static const char *const known[] = { "version", "truncation", "padding", "added_tokens",
                                         "normalizer", "pre_tokenizer", "post_processor",
                                         "decoder", "model", NULL };
    int rc = members_check(root, known, "outermost object", path, err);

    *s = (struct tokenizer_settings){ .root = root };
    rc = rc ? rc : model_read(s, json_object_get(root, "model"), path, err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++) {
        struct part p;

        rc = part_read(&p, root, path, parts[i].name, parts[i].list, err);
        rc = rc ? rc : parts[i].read(s, &p, err);
    }
    return rc;
}

/* ---- the template ---- */

/* One piece of a template, a special token: its ids behind `to`. */
static int piece_add(const struct tokenizer *t, struct token_buf *to, const json_t *template,
                     const json_t *special, const char *path, struct err *err)
{
    const char   *name = json_str(special, "id");
    const json_t *ids = json_object_get(
        json_object_get(json_object_get(template, "special_tokens"), name), "ids");
    size_t n = json_array_size(ids);
    int    rc = 0;

    if (n == 0 || to->n + n > MAX_AROUND)
        rc = err_misuse(err, "%s: its TemplateProcessing puts %.60s around a text, which has no "
                        "ids there, or more than %d", path, name, MAX_AROUND);
    rc = rc ? rc : grow(&to->ids, &to->cap, to->n + n, sizeof *to->ids, "token ids", err);
    for (size_t i = 0; i < n && !rc; i++) {
        const json_t *id = json_array_get(ids, i);
        json_int_t    v = json_is_integer(id) ? json_integer_value(id) : -1;

        if (v < 0 || v >= (json_int_t)t->n || !t->entries[v].bytes)
            rc = err_misuse(err, "%s: its TemplateProcessing puts %.60s around a text, whose id is "
                            "none of the tokenizer's", path, name);
        else
            to->ids[to->n++] = (int32_t)v;
    }
    return rc;
}

/* Of "single" or "pair": what stands before, between and behind its texts, of which there must be
 * `texts`: A, then B. */
static int pieces_read(const struct tokenizer *t, struct token_buf *around, const json_t *template,
                       const char *name, size_t texts, const char *path, struct err *err)
{
    const json_t *pieces = json_object_get(template, name);
    size_t        seen = 0;
    int           rc = 0;

    for (size_t i = 0; i < json_array_size(pieces) && !rc; i++) {
        const json_t *piece = json_array_get(pieces, i),
                     *special = json_object_get(piece, "SpecialToken"),
                     *text = json_object_get(piece, "Sequence");
        size_t place = seen == 0       ? TOKENIZER_BEFORE
                       : seen == texts ? TOKENIZER_BEHIND
                                       : TOKENIZER_BETWEEN;

        if (special)
            rc = piece_add(t, &around[place], template, special, path, err);
        else if (text && seen < texts && !strcmp(json_str(text, "id"), seen ? "B" : "A"))
            seen++;
        else
            seen = texts + 1;
    }
    if (!rc && seen != texts)
        rc = err_misuse(err, "%s: its TemplateProcessing's %s is not special tokens around %s",
                        path, name, texts == 1 ? "the text A" : "the texts A and B");
    return rc;
}

static int is_same(const struct token_buf *a, const struct token_buf *b)
{
    return a->n == b->n && (a->n == 0 || !memcmp(a->ids, b->ids, a->n * sizeof *a->ids));
}

int tokenizer_settings_apply(struct tokenizer *t, const struct tokenizer_settings *s,
                             const char *path, struct err *err)
{
    struct token_buf pair[TOKENIZER_PLACES] = { 0 };
    int              rc = 0;

    t->ignore_merges = s->ignore_merges;
    t->said = json_deep_copy(s->root);
    if (!t->said)
        return err_set(err, -ENOMEM, "no memory for the settings of %s", path);
    json_object_del(t->said, "model"); // which t has in its own way, as it has the added tokens
    json_object_set_new(t->said, "added_tokens", json_null());
    if (!s->template)
        return 0;
    t->has_template = 1;
    rc = pieces_read(t, t->around, s->template, "single", 1, path, err);
    rc = rc ? rc : pieces_read(t, pair, s->template, "pair", 2, path, err);
    if (!rc && (!is_same(&pair[TOKENIZER_BEFORE], &t->around[TOKENIZER_BEFORE]) ||
                !is_same(&pair[TOKENIZER_BEHIND], &t->around[TOKENIZER_BEHIND])))
        rc = err_misuse(err, "%s: its TemplateProcessing begins or ends a pair of texts in another "
                        "way than one text, which is not known here", path);
    t->around[TOKENIZER_BETWEEN] = pair[TOKENIZER_BETWEEN];
    token_buf_free(&pair[TOKENIZER_BEFORE]);
    token_buf_free(&pair[TOKENIZER_BEHIND]);
    return rc;
}
