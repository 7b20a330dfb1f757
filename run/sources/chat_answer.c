/* chat_answer.c: cuts and marks an answer's ids, and knows what ends it. A base model's
 * generation_config.json knows the end of a text only, and its new template closes turns by another
 * token. */
#include "run/sources/chat_answer.h"

#include "chat/prompt.h"
#include "data/base/round.h"
#include "data/base/visible.h"
#include "run/folder/settings.h"
#include "run/texts/tokenise.h"

static int chat_ends_has(const struct chat_ends *e, int32_t id)
{
    size_t i = 0;

    while (i < e->n && e->stops[i] != id)
        i++;
    return i < e->n;
}

static void add(struct chat_ends *e, int32_t id)
{
    if (id >= 0 && !chat_ends_has(e, id))
        e->stops[e->n++] = id;
}

int chat_ends_find(struct chat_ends *e, const struct session *s, const struct chat_encoding *how,
                   struct err *err)
{
    json_t    *generation;
    struct err ignored;
    char      *text = NULL;
    int        rc = session_generation(&generation, s, err);

    *e = (struct chat_ends){ .closing = -1 };
    rc = rc ? rc : hf_stops(e->stops, &e->n, generation, s->dir, err);
    json_decref(generation);
    // a template may refuse the conversation that is tried; the rows say themselves what they are
    if (!rc && how->chat && chat_closing(how, &e->closing, &text, &ignored) == -ENOMEM)
        rc = err_set(err, -ENOMEM, "%s", ignored.text);
    free(text);
    add(e, tokenizer_endoftext(how->tok));
    add(e, e->closing);
    return rc;
}

/* The name of a token, as it may be printed. */
static const char *name_of(const struct tokenizer *tok, int32_t id, char *out, size_t size)
{
    size_t      n = 0;
    const char *bytes = tokenizer_bytes(tok, id, &n);

    visible_text(out, size, bytes ? bytes : "", bytes ? n : 0);
    return out;
}

/* The ids at which generation stops, with one more. NULL: no memory. */
static json_t *with_stop(const struct chat_ends *said, const struct tokenizer *tok, int32_t id)
{
    struct chat_ends all = *said;
    json_t          *list = json_array();
    int              bad = !list;

    if (!all.n) // what stands for a missing eos_token_id
        add(&all, tokenizer_endoftext(tok));
    add(&all, id);
    for (size_t i = 0; i < all.n; i++)
        bad |= json_array_append_new(list, json_integer(all.stops[i]));
    if (!bad)
        return list;
    json_decref(list);
    return NULL;
}

/* A run without a generation_config.json gets one that names a text's beginning, as its export
 * would. */
static json_t *generation_of_none(const struct tokenizer *tok)
{
    int32_t begin = tokenizer_begin(tok);

    return json_pack("{s:b, s:o}", "_from_model_config", 1, "bos_token_id",
                     begin >= 0 ? json_integer(begin) : json_null());
}

int chat_ends_keep(struct session *s, const struct tokenizer *tok, int32_t id, struct err *err)
{
    struct chat_ends said = { .closing = -1 };
    json_t          *generation;
    char            *text = NULL, name[80];
    int              rc = session_generation(&generation, s, err);

    rc = rc ? rc : hf_stops(said.stops, &said.n, generation, s->dir, err);
    int known = id < 0 || chat_ends_has(&said, id) ||
                (!said.n && id == tokenizer_endoftext(tok)); // which stands for none

    if (!rc && !known && said.n == HF_STOPS)
        rc = err_misuse(err, "generation_config.json has %d ids of eos_token_id, and no room for "
                        "%s, which closes answers", HF_STOPS,
                        name_of(tok, id, name, sizeof name));
    if (!rc && !known && !generation)
        generation = generation_of_none(tok);
    if (!rc && !known) {
        json_t *list = with_stop(&said, tok, id);
        int     bad = !list || json_object_set_new(generation, "eos_token_id", list);

        text = bad ? NULL : json_dumps(generation, JSON_COMPACT);
        rc = text ? settings_set(s->log, err, "config.generation=%s", text)
                  : err_set(err, -ENOMEM, "out of memory for generation_config.json");
        if (!rc)
            rc = session_notice(s, err, "answers end with %s, which the model's "
                                "generation_config.json did not name: exports of the run stop "
                                "there, too", name_of(tok, id, name, sizeof name));
    }
    free(text);
    json_decref(generation);
    return rc;
}

int chat_ends_missing(const struct chat_ends *e, struct session *s, const struct tokenizer *tok,
                      int cut, struct err *err)
{
    char names[320] = "", name[80];

    for (size_t i = 0; i < e->n && strlen(names) + 100 < sizeof names; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 name_of(tok, e->stops[i], name, sizeof name));
    return session_notice(
        s, err, "no row teaches the model to stop: generation stops at %s, and %s",
        e->n ? names : "no token",
        cut    ? "all rows are cut off before one: give a larger --max-seq"
        : e->n ? "none of these counts in the loss (siTrain prepare --show): the chat template "
                 "must write one behind an answer, and within {% generation %} if it has that"
               : "the tokenizer names none that ends a text");
}

/* The ids as they are stored. The first one is no target. Returns how many of them count; *ended:
 * one of these ends an answer. */
static int32_t mark(const struct chat_ends *ends, int32_t *out, const struct chat_ids *ids,
                    size_t n, int *ended)
{
    int32_t counted = 0;

    *ended = 0;
    for (size_t i = 0; i < n; i++) {
        int counts = i > 0 && ids->counts[i];

        out[i] = counts ? ids->ids.ids[i] : ~ids->ids.ids[i];
        counted += counts;
        *ended |= counts && chat_ends_has(ends, ids->ids.ids[i]);
    }
    return counted;
}

int chat_answer_make(struct chat_answer *a, const struct chat_held *h,
                     const struct chat_storing *how, struct err *err)
{
    size_t most = how->most;
    char   where[SESSION_PATH];

    snprintf(where, sizeof where, "%.3900s:%zu", h->row.path, h->row.line);
    a->n = size_min(a->tokens, most);
    int rc = tokenise_known(how->tok, &(struct tokenise_ids){ a->ids->ids.ids, a->n, how->vocab,
                                                              where, 0 }, err);
    if (!rc && a->tokens > most && how->long_rows == CHAT_LONG_REFUSE)
        rc = err_misuse(err, "%s: the row has %zu tokens, more than --max-seq %zu: give a larger "
                        "--max-seq, or --long-rows cut or drop", where, a->tokens, most);
    if (!rc)
        a->counted = mark(how->ends, a->stored, a->ids, a->n, &a->ended);
    return rc;
}

int chat_answer_bare(const struct chat_answer a[2], size_t n, int *behind)
{
    int bare = 0;

    *behind = 1;
    for (size_t k = 0; k < n; k++)
        if (!a[k].counted) {
            bare = 1;
            *behind &= a[k].tokens > a[k].n && a[k].ids->counted;
        }
    return bare || (n == 2 && a[0].n == a[1].n &&
                    !memcmp(a[0].ids->ids.ids, a[1].ids->ids.ids, a[0].n * sizeof(int32_t)));
}
