/* tokenizer_settings.c: reads the settings of tokenizer.json, all except its vocabulary, merges and
 * added tokens.
 *
 * Each part of the file (normalizer, pre_tokenizer, ...) is a step or a Sequence of steps, and a
 * step has a type. An unknown setting is refused by its name, never ignored. A setting that is
 * absent, null, false or "" has no effect. Truncation and padding concern the batches that Hugging
 * Face makes, not the ids of a text. */
#include "data/text/tokenizer_parts.h"

#include "data/base/table.h"
#include "data/json/json.h"
#include "data/base/utf8.h"

#include <math.h>
#include <stdbool.h>

struct part {
    const char   *path, *name; // of the file, and of the part in it
    const json_t *steps[MAX_STEPS];
    size_t        n;
};

/* Whether an optional setting has no effect. */
static int is_unset(const json_t *v)
{
    return !v || json_is_null(v) || json_is_false(v) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

/* Whether a value is of a kind: b true or false, s a string, i a whole number, * anything, 0
 * nothing. */
static int is_kind(const json_t *v, char kind)
{
    if (kind == '0')
        return is_unset(v) || (json_is_number(v) && fpclassify(json_number_value(v)) == FP_ZERO);
    return !v || json_is_null(v) || kind == '*' || (kind == 'b' && json_is_boolean(v)) ||
           (kind == 's' && json_is_string(v)) || (kind == 'i' && json_is_integer(v));
}

int members_check(const json_t *object, const char *const *known, const char *where,
                  const char *path, struct err *err)
{
    const char *key;
    json_t     *v;

    json_object_foreach((json_t *)object, key, v) {
        size_t i = 0;

        while (known[i] && strcmp(known[i] + 2, key))
            i++;
        if (known[i] ? *known[i] == '0' && !is_kind(v, '0') : !is_unset(v))
            return err_misuse(err, "%s: its %s sets %.60s, which is not computed here", path, where,
                              key);
        if (known[i] && !is_kind(v, *known[i]))
            return err_misuse(err, "%s: its %s sets %.60s to what is no %s", path, where, key,
                              *known[i] == 'b'   ? "true or false"
                              : *known[i] == 's' ? "text"
                                                 : "whole number");
    }
    return 0;
}

/* ---- steps ---- */

/* The members that types of steps may have, in any part. */
enum { MOST_MEMBERS = 8 };
static const char *const step_members[][MOST_MEMBERS] = {
    { "s NFC", "s type" },
    { "s NFD", "s type" },
    { "s Lowercase", "s type" },
    { "s Prepend", "s type", "s prepend" },
    { "s Replace", "s type", "* pattern", "s content" },
    { "s BertNormalizer", "s type", "b clean_text", "b handle_chinese_chars", "b strip_accents",
      "b lowercase" },
    { "s ByteLevel", "s type", "b add_prefix_space", "b trim_offsets", "b use_regex" },
    { "s Digits", "s type", "b individual_digits" },
    { "s Split", "s type", "* pattern", "s behavior", "b invert" },
    { "s Metaspace", "s type", "s replacement", "s prepend_scheme", "b split", "s str_rep",
      "b add_prefix_space" },
    { "s BertPreTokenizer", "s type" },
    { "s TemplateProcessing", "s type", "* single", "* pair", "* special_tokens" },
    { "s BertProcessing", "s type", "* sep", "* cls" },
    { "s RobertaProcessing", "s type", "* sep", "* cls", "b trim_offsets", "b add_prefix_space" },
    { "s WordPiece", "s type", "s prefix", "b cleanup" },
    { "s ByteFallback", "s type" },
    { "s Fuse", "s type" },
    { "s Strip", "s type", "s content", "i start", "i stop" },
};

/* Checks the members of known types. The reader of the part refuses unknown types. */
static int steps_check(const struct part *p, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < p->n && !rc; i++)
        for (size_t k = 0; k < sizeof step_members / sizeof *step_members && !rc; k++)
            if (!strcmp(step_members[k][0] + 2, json_str(p->steps[i], "type")))
                rc = members_check(p->steps[i], step_members[k] + 1, step_members[k][0] + 2,
                                   p->path, err);
    return rc;
}

/* Adds a step, or those of a Sequence, which may contain other Sequences. */
static int step_add(struct part *p, const json_t *v, const char *list, struct err *err)
{
    const json_t *of = json_object_get(v, list);
    int           rc = 0;

    if (strcmp(json_str(v, "type"), "Sequence")) {
        if (p->n == MAX_STEPS)
            return err_misuse(err, "%s: its %s is a Sequence of more than %d steps", p->path,
                              p->name, MAX_STEPS);
        p->steps[p->n++] = v;
        return 0;
    }
    if (!json_is_array(of))
        return err_misuse(err, "%s: its %s is a Sequence without %s", p->path, p->name, list);
    for (size_t i = 0; i < json_array_size(of) && !rc; i++)
        rc = step_add(p, json_array_get(of, i), list, err);
    return rc;
}

static int part_read(struct part *p, const json_t *root, const char *path, const char *name,
                     const char *list, struct err *err)
{
    const json_t *v = json_object_get(root, name);

    *p = (struct part){ .path = path, .name = name };
    int rc = is_unset(v) ? 0 : step_add(p, v, list, err);
    return rc ? rc : steps_check(p, err);
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

/* ---- the normalizer ---- */

static int normalizer_add(struct tokenizer_settings *s, const struct part *p, bool wanted,
                          struct normalizer_step step, struct err *err)
{
    if (!wanted)
        return 0;
    if (s->n_steps == MAX_NORMALIZERS)
        return err_misuse(err, "%s: its normalizer has more than %d steps", p->path,
                          MAX_NORMALIZERS);
    s->steps[s->n_steps++] = step;
    return 0;
}

static int is_character(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && utf8_length(text, n) == (int)n;
}

static int replace_add(struct tokenizer_settings *s, const struct part *p, const json_t *step,
                       struct err *err)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const char   *from = json_str(pattern, "String"), *to = json_str(step, "content");

    if (!is_character(from))
        return err_misuse(err, "%s: its %s has a Replace of \"%.100s\", but only one of a single "
                          "character is known", p->path, p->name,
                          *from ? from : json_str(pattern, "Regex"));
    return normalizer_add(s, p, true, (struct normalizer_step){ NORMALIZER_REPLACE, from, to },
                          err);
}

static int bert_add(struct tokenizer_settings *s, const struct part *p, const json_t *step,
                    struct err *err)
{
    const json_t *accents = json_object_get(step, "strip_accents");
    int           lower = json_is_true(json_object_get(step, "lowercase")),
        unmark = json_is_boolean(accents) ? json_is_true(accents) : lower;
    int rc = 0;

    if (s->bert)
        rc = err_misuse(err, "%s: its normalizer has two BertNormalizers", p->path);
    s->bert = step;
    const struct { bool wanted; enum normalizer_kind kind; } steps[] = {
        { json_is_true(json_object_get(step, "clean_text")), NORMALIZER_CLEAN },
        { json_is_true(json_object_get(step, "handle_chinese_chars")), NORMALIZER_CHINESE },
        { unmark, NORMALIZER_NFD },
        { unmark, NORMALIZER_UNMARK },
        { lower, NORMALIZER_LOWERCASE },
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !rc; i++)
        rc = normalizer_add(s, p, steps[i].wanted, (struct normalizer_step){ steps[i].kind, 0, 0 },
                            err);
    return rc;
}

/* Refuses a normalizer that makes thousands of bytes of one character: a short prompt would take
 * all memory. */
static int growth_check(const struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    size_t most = 1;

    for (size_t i = 0; i < s->n_steps; i++) {
        const struct normalizer_step *step = &s->steps[i];
        size_t                        n = step->to ? strlen(step->to) : 0;

        if (step->kind == NORMALIZER_REPLACE && n > 1 && most <= MAX_GROWTH)
            most *= n;
        if (most > MAX_GROWTH || n > MAX_GROWTH)
            return err_misuse(err, "%s: its normalizer makes more than %d bytes of one character "
                              "or text", p->path, MAX_GROWTH);
    }
    return 0;
}

static int normalizer_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    static const struct plain { const char *type; enum normalizer_kind kind; } plain[] = {
        { "NFC", NORMALIZER_NFC },
        { "NFD", NORMALIZER_NFD },
        { "Lowercase", NORMALIZER_LOWERCASE },
        { "Prepend", NORMALIZER_PREPEND },
    };
    int rc = 0;

    for (size_t i = 0; i < p->n && !rc; i++) {
        const json_t       *step = p->steps[i];
        const struct plain *found = TABLE_FIND(plain, json_str(step, "type"));

        if (found)
            rc = normalizer_add(s, p, true,
                                (struct normalizer_step){ found->kind, NULL,
                                                          json_str(step, "prepend") }, err);
        else if (is_step(step, "Replace"))
            rc = replace_add(s, p, step, err);
        else if (is_step(step, "BertNormalizer"))
            rc = bert_add(s, p, step, err);
        else
            rc = step_refuse(p, step, "NFC, NFD, Lowercase, Prepend, Replace or BertNormalizer",
                             err);
    }
    return rc ? rc : growth_check(s, p, err);
}

/* ---- the pre-tokenizer ---- */

/* Reads a Split or Digits before ByteLevel: a run that is taken out, or the last of them an
 * expression. */
static int split_read(struct tokenizer_settings *s, const struct part *p, const json_t *step,
                      int last, struct err *err)
{
    const char             *said = json_str(json_object_get(step, "pattern"), "Regex");
    struct split_run        digits = { SPLIT_NUMBERS,
                                       json_is_true(json_object_get(step, "individual_digits")) };
    const struct split_run *run = is_step(step, "Digits") ? &digits : split_run_find(said);
    int inverted = !is_unset(json_object_get(step, "invert"));

    if (is_step(step, "Split") && (strcmp(json_str(step, "behavior"), "Isolated") || inverted))
        return err_misuse(err, "%s: its pre_tokenizer's Split is %.40s%s, but only Isolated is "
                          "known", p->path, json_str(step, "behavior"),
                          inverted ? ", inverted" : "");
    if (run && s->split.n_runs == SPLIT_RUNS)
        return err_misuse(err, "%s: its pre_tokenizer has more than %d steps before its expression",
                          p->path, SPLIT_RUNS);
    if (run) {
        s->split.runs[s->split.n_runs++] = *run;
        return 0;
    }
    s->split.pattern = split_pattern_find(said);
    if (!s->split.pattern)
        return err_misuse(err, "%s: its pre_tokenizer splits by \"%.300s\", but only the "
                          "expressions of %s are known", p->path, said, split_pattern_names());
    return last ? 0
                : err_misuse(err, "%s: its pre_tokenizer splits by \"%.300s\", but only as the "
                             "last step before ByteLevel is it known", p->path, said);
}

/* Reads ByteLevel, which includes GPT-2's expression, unless a Split before it has another one.
 * Before them are runs that are taken out. */
static int byte_level_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    const json_t *last = p->steps[p->n - 1];
    int           own = !json_is_false(json_object_get(last, "use_regex")),
        prefix = !is_unset(json_object_get(last, "add_prefix_space")), rc = 0;

    s->split.kind = SPLIT_PATTERN;
    for (size_t i = 0; i + 1 < p->n && !rc; i++)
        rc = split_read(s, p, p->steps[i], i + 2 == p->n, err);
    if (!rc && ((p->n > 1 && prefix) || own == (s->split.pattern != NULL)))
        rc = err_misuse(err, "%s: only a ByteLevel pre_tokenizer with its expression, alone or "
                        "behind Digits, or without it behind a Split is known, and a prefix "
                        "space only where it is alone", p->path);
    s->split.prefix = prefix ? SPLIT_PREFIX_ALWAYS : SPLIT_PREFIX_NEVER;
    return rc;
}

/* SentencePiece's mark for a space. */
#define MARK "\xE2\x96\x81"

static int metaspace_read(struct tokenizer_settings *s, const struct part *p, const json_t *step,
                          struct err *err)
{
    static const char *const schemes[] = { [SPLIT_PREFIX_NEVER] = "never",
                                           [SPLIT_PREFIX_FIRST] = "first",
                                           [SPLIT_PREFIX_ALWAYS] = "always" };
    const char   *mark = json_str(step, "replacement"), *scheme = json_str(step, "prepend_scheme");
    const json_t *before = json_object_get(step, "add_prefix_space");
    size_t        k = 0;

    if (!*scheme)
        scheme = schemes[json_is_false(before) ? SPLIT_PREFIX_NEVER : SPLIT_PREFIX_ALWAYS];
    while (k < 3 && strcmp(scheme, schemes[k]))
        k++;
    if (k == 3 || !is_character(mark) || (json_is_false(before) && k != SPLIT_PREFIX_NEVER))
        return err_misuse(err, "%s: its pre_tokenizer is a Metaspace with the replacement "
                          "\"%.40s\" and the prepend_scheme %.40s, which is not known", p->path,
                          mark, scheme);
    s->split = (struct split_config){
        .kind = SPLIT_MARKS, .prefix = (enum split_prefix)k, .mark = mark, .replace = 1,
        .at = json_is_false(json_object_get(step, "split")) ? SPLIT_AT_RUNS : SPLIT_AT_EACH
    };
    return 0;
}

/* What the normalizer replaces a space by, or NULL if it stays. */
static const char *space_becomes(const struct tokenizer_settings *s)
{
    for (size_t i = 0; i < s->n_steps; i++)
        if (s->steps[i].kind == NORMALIZER_REPLACE && !strcmp(s->steps[i].from, " ") &&
            is_character(s->steps[i].to))
            return s->steps[i].to;
    return NULL;
}

/* Whether a pre-tokenizer does nothing: Gemma's Split by spaces, if the normalizer leaves none. */
static int is_idle(const struct tokenizer_settings *s, const struct part *p)
{
    return p->n == 1 && is_step(p->steps[0], "Split") && space_becomes(s) &&
           !strcmp(json_str(json_object_get(p->steps[0], "pattern"), "String"), " ") &&
           is_unset(json_object_get(p->steps[0], "invert"));
}

static int pre_tokenizer_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    static const char known[] =
        "ByteLevel, alone or behind Splits or Digits, Metaspace or BertPreTokenizer";
    const char *mark = space_becomes(s);

    if (p->n == 0 || is_idle(s, p)) {
        s->split = (struct split_config){ .kind = SPLIT_MARKS, .mark = mark ? mark : MARK,
                                          .at = SPLIT_AT_RUNS };
        return 0;
    }
    if (p->n == 1 && is_step(p->steps[0], "Metaspace"))
        return metaspace_read(s, p, p->steps[0], err);
    if (p->n == 1 && is_step(p->steps[0], "BertPreTokenizer")) {
        s->split.kind = SPLIT_BERT;
        return 0;
    }
    for (size_t i = 0; i < p->n; i++) {
        const json_t *step = p->steps[i];

        if (!(i + 1 < p->n ? is_step(step, "Split") || is_step(step, "Digits")
                           : is_step(step, "ByteLevel")))
            return step_refuse(p, step, known, err);
    }
    return byte_level_read(s, p, err);
}

/* ---- the template ---- */

static int post_processor_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    for (size_t i = 0; i < p->n; i++) {
        const json_t *step = p->steps[i];
        int template = is_step(step, "TemplateProcessing") || is_step(step, "BertProcessing") ||
                       is_step(step, "RobertaProcessing");

        // ByteLevel only sets offsets, which are not made here
        if ((!template && !is_step(step, "ByteLevel")) || (template && s->template))
            return step_refuse(p, step, "ByteLevel, or one TemplateProcessing, BertProcessing or "
                               "RobertaProcessing,", err);
        if (template)
            s->template = step;
    }
    return 0;
}

/* ---- the decoder ---- */

/* Reads Replace, ByteFallback, Fuse, Strip: each may be missing, but their order is fixed. */
static int decoder_steps(struct decoder *d, const struct part *p, struct err *err)
{
    static const char *const order[] = { "Replace", "ByteFallback", "Fuse", "Strip" };
    size_t                   at = 0;

    d->kind = DECODER_STEPS;
    for (size_t i = 0; i < p->n; i++) {
        const json_t *step = p->steps[i];
        const char   *from = json_str(json_object_get(step, "pattern"), "String");
        size_t        k = at;

        while (k < 4 && !is_step(step, order[k]))
            k++;
        if (k == 4 || (k == 0 && d->n_replaces == MAX_REPLACES) || (k == 3 && at < 3 && i == 0))
            return step_refuse(p, step, "Replace, ByteFallback, Fuse and Strip in this order", err);
        at = k == 0 ? 0 : k + 1;
        if (k == 0 && !*from)
            return err_misuse(err, "%s: its decoder has a Replace of no String", p->path);
        if (k == 0) {
            d->replaces[d->n_replaces].from = from;
            d->replaces[d->n_replaces++].to = json_str(step, "content");
        }
        d->bytes |= k == 1;
        if (k < 3)
            continue;
        d->strip = json_str(step, "content");
        if (!is_step(p->steps[i - 1], "Fuse") || !is_character(d->strip) ||
            json_num(step, "stop") > 0 || json_num(step, "start") < 0)
            return err_misuse(err, "%s: its decoder has a Strip, but only one of a character at "
                              "the beginning, behind Fuse, is known", p->path);
        d->strips = (size_t)json_integer_value(json_object_get(step, "start"));
    }
    return 0;
}

static int decoder_read(struct tokenizer_settings *s, const struct part *p, struct err *err)
{
    struct decoder *d = &s->decoder;
    const json_t   *one = p->n == 1 ? p->steps[0] : NULL;

    *d = (struct decoder){ .kind = p->n ? DECODER_STEPS : DECODERS };
    if (!one || !(is_step(one, "ByteLevel") || is_step(one, "WordPiece") ||
                  is_step(one, "Metaspace")))
        return p->n ? decoder_steps(d, p, err) : 0;
    d->kind = is_step(one, "ByteLevel")   ? DECODER_BYTES
              : is_step(one, "WordPiece") ? DECODER_WORDPIECE
                                          : DECODER_MARKS;
    d->mark = json_str(one, d->kind == DECODER_MARKS ? "replacement" : "prefix");
    d->cleanup = json_is_true(json_object_get(one, "cleanup"));
    d->drop = strcmp(json_str(one, "prepend_scheme"), "never") &&
              !json_is_false(json_object_get(one, "add_prefix_space"));
    if (d->kind == DECODER_MARKS && !is_character(d->mark))
        return err_misuse(err, "%s: its decoder is a Metaspace without a replacement", p->path);
    return 0;
}

/* ---- the model ---- */

static const struct model_ops *const models[] = { &model_bytes, &model_marks, &model_wordpiece };
enum { MODELS = sizeof models / sizeof *models };

/* Finds the kind of model from its type, which is known (type_check), and from the pre_tokenizer
 * that belongs to it. */
static int model_read(struct tokenizer_settings *s, const json_t *model, const char *path,
                      struct err *err)
{
    const json_t *said = json_object_get(model, "type");
    const char   *type = json_is_string(said) ? json_string_value(said) : "BPE", *known = "";

    for (size_t i = 0; i < MODELS && !s->model; i++)
        if (!strcmp(models[i]->type, type)) {
            known = models[i]->known;
            s->model = models[i]->splits >> s->split.kind & 1 ? models[i] : NULL;
        }
    if (!s->model)
        return err_misuse(err, "%s: its pre_tokenizer does not go with its model, %.60s: only %s "
                          "is known", path, type, known);
    // without a decoder Hugging Face shows mapped bytes, which nobody wants to read
    if (s->decoder.kind == DECODERS && s->model->mapped)
        s->decoder.kind = DECODER_BYTES;
    if (s->decoder.kind == DECODERS || !(s->model->decoders >> s->decoder.kind & 1))
        return err_misuse(err, "%s: its decoder, %s, does not go with its model and pre_tokenizer",
                          path, s->decoder.kind == DECODERS
                                    ? "absent"
                                    : step_type(json_object_get(s->root, "decoder")));
    return s->model->read(s, model, path, err);
}

/* Checks whether the type is known at all. Of all refusals, this one helps most. */
static int type_check(const json_t *model, const char *path, struct err *err)
{
    const char *type = json_string_value(json_object_get(model, "type"));

    for (size_t i = 0; i < MODELS && type; i++)
        if (!strcmp(models[i]->type, type))
            type = NULL;
    return type ? err_misuse(err, "%s: its model is %.60s, but only BPE and WordPiece are known",
                             path, type)
                : 0;
}

static const struct {
    const char *name, *list;
    int (*read)(struct tokenizer_settings *s, const struct part *p, struct err *err);
} parts[] = {
    { "normalizer", "normalizers", normalizer_read },
    { "pre_tokenizer", "pretokenizers", pre_tokenizer_read },
    { "post_processor", "processors", post_processor_read },
    { "decoder", "decoders", decoder_read },
};

int tokenizer_settings_read(struct tokenizer_settings *s, const json_t *root, const char *path,
                            struct err *err)
{
    static const char *const known[] = { "* version", "* truncation", "* padding",
                                         "* added_tokens", "* normalizer", "* pre_tokenizer",
                                         "* post_processor", "* decoder", "* model", NULL };
    int rc = members_check(root, known, "outermost object", path, err);

    *s = (struct tokenizer_settings){ .root = root };
    rc = rc ? rc : type_check(json_object_get(root, "model"), path, err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++) {
        struct part p;

        rc = part_read(&p, root, path, parts[i].name, parts[i].list, err);
        rc = rc ? rc : parts[i].read(s, &p, err);
    }
    return rc ? rc : model_read(s, json_object_get(root, "model"), path, err);
}

/* ---- what a tokenizer keeps ---- */

int tokenizer_settings_apply(struct tokenizer *t, const struct tokenizer_settings *s,
                             const char *path, struct err *err)
{
    struct tokenizer_settings kept = { 0 };
    struct part               p;
    json_t                   *model = json_copy(json_object_get(s->root, "model")),
           *said = json_copy((json_t *)(uintptr_t)s->root);

    json_object_del(model, "vocab"); // t stores it itself, and the added tokens
    json_object_del(model, "merges");
    json_object_set_new(said, "model", model);
    json_object_set_new(said, "added_tokens", json_null());
    t->said = json_deep_copy(said);
    json_decref(said);
    if (!t->said || !json_object_get(t->said, "model"))
        return err_set(err, -ENOMEM, "no memory for the settings of %s", path);
    // once more, for strings that live as long as t
    int rc = part_read(&p, t->said, path, "decoder", "decoders", err);

    rc = rc ? rc : decoder_read(&kept, &p, err);
    t->decoder = kept.decoder;
    t->decoder.kind = s->decoder.kind;
    return rc || !s->template ? rc : tokenizer_template_read(t, s->template, path, err);
}
