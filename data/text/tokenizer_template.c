/* tokenizer_template.c: reads the special tokens around one or two texts, and the types of all
 * tokens (BERT's segments), from a template or as BertProcessing and RobertaProcessing have them
 * built in. Encodes rows with them. */
#include "data/text/tokenizer_parts.h"

#include "data/json/json.h"
#include "data/base/round.h"

#include <assert.h>

enum { MAX_AROUND = 64, MAX_TYPE = 255 };

/* ---- reading one ---- */

/* Adds a special token of type `type` at a place. `what` is its step, `name` what the file calls
 * it. */
static int place_add(const struct tokenizer *t, struct tokenizer_template *to, size_t place,
                     const json_t *id, int32_t type, struct err *err)
{
    json_int_t v = json_is_integer(id) ? json_integer_value(id) : -1;

    if (v < 0 || v >= (json_int_t)t->n || !t->entries[v].bytes)
        return -EINVAL;
    int rc = token_buf_add(&to->ids[place], &(int32_t){ (int32_t)v }, 1, err);
    return rc ? rc : token_buf_add(&to->types[place], &type, 1, err);
}

static int type_of(const json_t *piece, const char *path, int32_t *type, struct err *err)
{
    const json_t *said = json_object_get(piece, "type_id");
    json_int_t    v = json_is_integer(said) ? json_integer_value(said) : said ? -1 : 0;

    *type = (int32_t)v;
    if (v >= 0 && v <= MAX_TYPE)
        return 0;
    return err_misuse(err, "%s: its TemplateProcessing has a type_id that is no number from 0 to "
                      "%d", path, MAX_TYPE);
}

/* Adds the ids of a special token, a piece of a template, at a place. */
static int special_add(const struct tokenizer *t, struct tokenizer_template *to, size_t place,
                       const json_t *step, const json_t *special, const char *path,
                       struct err *err)
{
    const char   *name = json_str(special, "id");
    const json_t *ids = json_object_get(
        json_object_get(json_object_get(step, "special_tokens"), name), "ids");
    size_t  n = json_array_size(ids);
    int32_t type;
    int     rc = type_of(special, path, &type, err);

    if (!rc && (n == 0 || to->ids[place].n + n > MAX_AROUND))
        rc = err_misuse(err, "%s: its TemplateProcessing puts %.60s around a text, which has no "
                        "ids there, or more than %d", path, name, MAX_AROUND);
    for (size_t i = 0; i < n && !rc; i++) {
        rc = place_add(t, to, place, json_array_get(ids, i), type, err);
        if (rc == -EINVAL)
            rc = err_misuse(err, "%s: its TemplateProcessing puts %.60s around a text, whose id is "
                            "none of the tokenizer's", path, name);
    }
    return rc;
}

/* Reads "single" or "pair": the tokens before, between and behind its texts. There must be `texts`
 * of these: A, then B. */
static int pieces_read(const struct tokenizer *t, struct tokenizer_template *to, const json_t *step,
                       size_t texts, const char *path, struct err *err)
{
    const char   *name = texts == 1 ? "single" : "pair";
    const json_t *pieces = json_object_get(step, name);
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
            rc = special_add(t, to, place, step, special, path, err);
        else if (text && seen < texts && !strcmp(json_str(text, "id"), seen ? "B" : "A"))
            rc = type_of(text, path, &to->text_types[seen++], err);
        else
            seen = texts + 1;
    }
    if (!rc && seen != texts)
        rc = err_misuse(err, "%s: its TemplateProcessing's %s is not special tokens around %s",
                        path, name, texts == 1 ? "the text A" : "the texts A and B");
    return rc;
}

/* Reads a built-in template. BERT's: cls A sep, then B sep of type 1. RoBERTa's: cls A sep, then
 * sep B sep, all of type 0. */
static int built_in_read(struct tokenizer *t, const json_t *step, const char *path,
                         struct err *err)
{
    const json_t *cls = json_array_get(json_object_get(step, "cls"), 1),
                 *sep = json_array_get(json_object_get(step, "sep"), 1);
    int roberta = !strcmp(json_str(step, "type"), "RobertaProcessing"), rc = 0;

    for (int pair = 0; pair < 2 && !rc; pair++) {
        struct tokenizer_template *to = &t->template[pair];
        int32_t                    last = pair && !roberta;

        to->text_types[1] = last;
        rc = place_add(t, to, TOKENIZER_BEFORE, cls, 0, err);
        for (int i = 0; i < 1 + roberta && pair && !rc; i++)
            rc = place_add(t, to, TOKENIZER_BETWEEN, sep, 0, err);
        rc = rc ? rc : place_add(t, to, TOKENIZER_BEHIND, sep, last, err);
    }
    return rc != -EINVAL ? rc
                         : err_misuse(err, "%s: its %s has a cls or sep whose id is none of the "
                                      "tokenizer's", path, json_str(step, "type"));
}

int tokenizer_template_read(struct tokenizer *t, const json_t *step, const char *path,
                            struct err *err)
{
    t->has_template = 1;
    if (strcmp(json_str(step, "type"), "TemplateProcessing"))
        return built_in_read(t, step, path, err);
    int rc = pieces_read(t, &t->template[0], step, 1, path, err);
    return rc ? rc : pieces_read(t, &t->template[1], step, 2, path, err);
}

/* ---- rows of one text or two ---- */

/* Cuts two texts of n ids so that `most` remain. The longer one loses its last ids first. */
static void pair_cut(size_t n[2], size_t most)
{
    size_t shorter = n[0] <= n[1] ? 0 : 1, few = n[shorter], more;

    if (n[0] + n[1] <= most)
        return;
    more = few > most ? few : size_max(few, most - few);
    if (few + more > most) {
        few = most / 2;
        more = few + most % 2;
    }
    n[shorter] = few;
    n[1 - shorter] = more;
}

static int types_add(struct token_buf *types, int32_t type, size_t n, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; types && i < n && !rc; i++)
        rc = token_buf_add(types, &type, 1, err);
    return rc;
}

static int around_add(const struct tokenizer_template *e, enum tokenizer_place place,
                      struct token_buf *ids, struct token_buf *types, struct err *err)
{
    int rc = token_buf_add(ids, e->ids[place].ids, e->ids[place].n, err);

    return rc || !types ? rc : token_buf_add(types, e->types[place].ids, e->types[place].n, err);
}

int tokenizer_encode_row(struct tokenizer *t, const struct token_row *row, struct token_buf *ids,
                         struct token_buf *types, struct err *err)
{
    static const struct tokenizer_template bare = { .text_types = { 0, 1 } };
    int                              pair = row->b != NULL, rc = 0;
    const struct tokenizer_template *e = t->has_template ? &t->template[pair] : &bare;
    struct token_buf                 text[2] = { { 0 } };
    size_t                           n[2] = { 0 }, around = 0;

    assert(row->a);
    for (size_t i = 0; i < TOKENIZER_PLACES; i++)
        around += e->ids[i].n;
    rc = tokenizer_encode(t, row->a, row->n_a, &text[0], err);
    if (!rc && pair)
        rc = tokenizer_encode(t, row->b, row->n_b, &text[1], err);
    n[0] = text[0].n;
    n[1] = text[1].n;
    if (!rc && row->most && around > row->most)
        rc = err_misuse(err, "the tokenizer puts %zu tokens around a text, more than the %zu that "
                        "a row may have", around, row->most);
    if (!rc && row->most && pair)
        pair_cut(n, row->most - around);
    else if (!rc && row->most)
        n[0] = size_min(n[0], row->most - around);
    rc = rc ? rc : around_add(e, TOKENIZER_BEFORE, ids, types, err);
    for (int k = 0; k <= pair && !rc; k++) {
        rc = k ? around_add(e, TOKENIZER_BETWEEN, ids, types, err) : 0;
        if (!rc && n[k])
            rc = token_buf_add(ids, text[k].ids + (t->cut_left ? text[k].n - n[k] : 0), n[k], err);
        rc = rc ? rc : types_add(types, e->text_types[k], n[k], err);
    }
    rc = rc ? rc : around_add(e, TOKENIZER_BEHIND, ids, types, err);
    token_buf_free(&text[0]);
    token_buf_free(&text[1]);
    return rc;
}
