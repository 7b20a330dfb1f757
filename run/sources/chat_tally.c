/* chat_tally.c: adds up what became of rows, and says what may surprise their user. */
#include "run/sources/chat_tally.h"

#include "data/base/visible.h"
#include "data/chat/signs.h"

void chat_tally_add(struct chat_tally *to, const struct chat_tally *t)
{
    to->rows += t->rows;
    to->kept += t->kept;
    to->tokens += t->tokens;
    to->counted += t->counted;
    to->cut += t->cut;
    to->dropped += t->dropped;
    to->bare += t->bare;
    to->behind += t->behind;
    to->ended += t->ended;
    to->turns += t->turns;
    to->quoted += t->quoted;
    to->thoughtless += t->thoughtless;
    to->empty += t->empty;
    to->nulls += t->nulls;
    to->joined += t->joined;
    to->spelled_id = to->spelled ? to->spelled_id : t->spelled_id;
    to->spelled += t->spelled;
}

void chat_tally_signs(struct chat_tally *t, const struct chat_ids *ids)
{
    t->quoted += (ids->signs & CHAT_QUOTED) != 0;
    t->thoughtless += (ids->signs & CHAT_THOUGHTLESS) != 0;
    t->empty += (ids->signs & CHAT_EMPTY) != 0;
    t->nulls += (ids->signs & CHAT_NULLS) != 0;
    t->joined += (ids->signs & CHAT_JOINED) != 0;
    if (ids->spelled && !t->spelled++)
        t->spelled_id = ids->spelled_id;
}

/* What is said of rows; `text` goes on behind "N of M training rows". */
struct said { uint64_t rows; char text[320]; };
enum { LENGTHS = 3, SIGNS = 6 };

static void say_lengths(const struct chat_tally *t, const struct session *s, int pairs,
                        struct said out[LENGTHS])
{
    out[0].rows = t->cut;
    snprintf(out[0].text, sizeof out[0].text, "have more than --max-seq %" PRIu64 " tokens and are "
             "cut off there", s->o.seq);
    out[1].rows = t->dropped;
    snprintf(out[1].text, sizeof out[1].text, "have more than --max-seq %" PRIu64 " tokens and are "
             "left out", s->o.seq);
    out[2].rows = t->bare;
    snprintf(out[2].text, sizeof out[2].text, pairs
             ? "have an answer that does not begin%s, or two that are the same there, and are left "
               "out"
             : "have no token%s that counts in the loss and are left out",
             t->behind || pairs ? " within --max-seq" : "");
}

static void say_signs(const struct chat_tally *t, const struct tokenizer *tok,
                      struct said out[SIGNS])
{
    size_t      n = 0;
    const char *bytes = t->spelled ? tokenizer_bytes(tok, t->spelled_id, &n) : NULL;
    char        name[80];

    visible_text(name, sizeof name, bytes ? bytes : "", n, "");
    out[0].rows = t->spelled;
    snprintf(out[0].text, sizeof out[0].text, "spell special tokens, such as %s, which are plain "
             "text there: --special-in-text makes them tokens, as rows that were rendered before "
             "need it", name);
    out[1].rows = t->quoted;
    snprintf(out[1].text, sizeof out[1].text, "have tool calls whose arguments are a text of JSON, "
             "which the chat template quotes once more: write them as objects");
    out[2].rows = t->thoughtless;
    snprintf(out[2].text, sizeof out[2].text, "have thoughts that the chat template leaves out, "
             "and their answers are learnt without: --loss-on last learns the last answers alone");
    out[3].rows = t->empty;
    snprintf(out[3].text, sizeof out[3].text, "have an answer without a word, and teach the model "
             "to say nothing");
    out[4].rows = t->nulls;
    snprintf(out[4].text, sizeof out[4].text, "have tools with properties that are null, which the "
             "chat template writes: leave those out");
    out[5].rows = t->joined;
    snprintf(out[5].text, sizeof out[5].text, "have a token that a prompt and its completion "
             "share: let the completion begin with the space, and not the prompt end with it");
}

int chat_tally_notice(const struct chat_tally *t, struct session *s, const struct tokenizer *tok,
                      int pairs, int evaluates, struct err *err)
{
    struct said say[LENGTHS + SIGNS];
    char        text[400];
    int         rc = 0;

    say_lengths(t, s, pairs, say);
    say_signs(t, tok, say + LENGTHS);
    for (size_t i = 0; i < LENGTHS + SIGNS && !rc; i++) {
        if (!say[i].rows)
            continue;
        snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " %s rows %s", say[i].rows, t->rows,
                 evaluates ? "evaluation" : "training", say[i].text);
        rc = session_notice(s, text, err);
    }
    return rc;
}
