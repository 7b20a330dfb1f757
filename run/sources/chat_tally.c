/* chat_tally.c: adds up what became of rows, and says what may surprise their user. */
#include "run/sources/chat_tally.h"

#include "data/base/visible.h"

#include <stdarg.h>

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
    for (size_t i = 0; i < CHAT_SIGNS; i++)
        to->signs[i] += t->signs[i];
    to->spelled_id = to->spelled ? to->spelled_id : t->spelled_id;
    to->spelled += t->spelled;
}

void chat_tally_signs(struct chat_tally *t, const struct chat_ids *ids)
{
    for (size_t i = 0; i < CHAT_SIGNS; i++)
        t->signs[i] += ids->signs >> i & 1;
    if (ids->spelled && !t->spelled++)
        t->spelled_id = ids->spelled_id;
}

/* What is said of rows with a sign, in the order of their bits. */
static const char *const sign_texts[CHAT_SIGNS] = {
    "have tool calls whose arguments are a text of JSON, which the chat template quotes once more: "
    "write them as objects",
    "have thoughts that the chat template leaves out, and their answers are learnt without: "
    "--loss-on last learns the last answers alone",
    "have an answer without a word, and teach the model to say nothing",
    "have tools with properties that are null, which the chat template writes: leave those out",
    "have a token that a prompt and its completion share: let the completion begin with the space, "
    "and not the prompt end with it",
};

/* Sends "N of M training rows ...", if there are any. */
struct teller { const struct chat_tally *t; struct session *s; const char *set; };
__attribute__((format(printf, 4, 5))) static int
tell(const struct teller *to, uint64_t rows, struct err *err, const char *fmt, ...)
{
    char    text[400];
    va_list ap;

    if (!rows)
        return 0;
    int n = snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " %s rows ", rows, to->t->rows,
                     to->set);
    va_start(ap, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    return session_notice(to->s, err, "%s", text);
}

static int tell_spelled(const struct teller *to, const struct tokenizer *tok, struct err *err)
{
    const struct chat_tally *t = to->t;
    size_t                   n = 0;
    const char              *bytes = t->spelled ? tokenizer_bytes(tok, t->spelled_id, &n) : NULL;
    char                     name[80];

    visible_text(name, sizeof name, bytes ? bytes : "", n);
    return tell(to, t->spelled, err, "spell special tokens, such as %s, which are plain text "
                "there: --special-in-text makes them tokens, as rows that were rendered before "
                "need it", name);
}

int chat_tally_notice(const struct chat_tally *t, struct session *s, const struct tokenizer *tok,
                      int pairs, int evaluates, struct err *err)
{
    const struct teller to = { t, s, evaluates ? "evaluation" : "training" };
    const char         *within = t->behind || pairs ? " within --max-seq" : "";
    int                 rc;

    rc = tell(&to, t->cut, err, "have more than --max-seq %" PRIu64 " tokens and are cut off there",
              s->o.seq);
    rc = rc ? rc : tell(&to, t->dropped, err, "have more than --max-seq %" PRIu64 " tokens and are "
                        "left out", s->o.seq);
    if (!rc && pairs)
        rc = tell(&to, t->bare, err, "have an answer that does not begin%s, or two that are the "
                  "same there, and are left out", within);
    else if (!rc)
        rc = tell(&to, t->bare, err, "have no token%s that counts in the loss and are left out",
                  within);
    rc = rc ? rc : tell_spelled(&to, tok, err);
    for (size_t i = 0; i < CHAT_SIGNS && !rc; i++)
        rc = tell(&to, t->signs[i], err, "%s", sign_texts[i]);
    return rc;
}

int chat_tally_refuse(const struct chat_tally *t, const struct chat_told *of, struct err *err)
{
    const char              *lacks = "no token that counts in the loss lies";
    const char              *they = "they stand";

    if (of->pairs) {
        lacks = "no two answers begin, and differ,";
        they = "they do";
    }
    if (t->dropped == t->rows)
        return err_misuse(err, "%s: all %" PRIu64 " rows have more tokens than --max-seq %" PRIu64
                          ", and --long-rows drop leaves them out", of->path, t->rows, of->seq);
    if (t->behind)
        return err_misuse(err, "%s: %s within --max-seq %" PRIu64 ": %s behind it in %" PRIu64
                          " of its %" PRIu64 " row%s; give a larger --max-seq", of->path, lacks,
                          of->seq, they, t->behind, t->rows, t->rows == 1 ? "" : "s");
    return err_misuse(err, "%s: no token of its %" PRIu64 " row%s counts in the loss%s: see "
                      "--loss-on; the first row is \"%s%s\"", of->path, t->rows,
                      t->rows == 1 ? "" : "s",
                      t->dropped ? ", but for rows that --long-rows drop leaves out" : "",
                      of->first, strlen(of->first) + 8 > CHAT_SHOWN ? "..." : "");
}
