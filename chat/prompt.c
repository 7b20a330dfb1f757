/* prompt.c: renders and encodes a conversation that goes on. */
#include "chat/prompt.h"

#include "chat/pieces.h"

int chat_prompt(const struct chat_encoding *e, const json_t *messages, struct token_buf *out,
                struct err *err)
{
    struct chat_rendering r = { .messages = messages, .generation_prompt = 1, .now = e->now };
    struct jinja_output   text;
    struct chat_cue       none = { 0 };
    struct chat_pieces    pieces = { 0 };
    struct token_spans    spans = { 0 };
    json_t               *kept;
    int                   rc = chat_template_render(e->chat, &r, &text, &kept, err);

    if (rc)
        return rc;
    rc = chat_pieces_find(&pieces, &text, &r, kept, &none, 0, err);
    struct token_source source = { text.text, text.bytes, pieces.plain,
                                   e->special_in_text ? 0 : pieces.n_plain };
    rc = rc ? rc : tokenizer_encode_spans(e->tok, &source, out, &spans, err);
    token_spans_free(&spans);
    chat_pieces_free(&pieces);
    jinja_output_free(&text);
    json_decref(kept);
    return rc;
}

#define WHITE  " \n\t\r"
#define ANSWER "Hello" // an answer, rendered to find what follows it

/* The text of ids without white space around it; NULL: it is empty, or no memory. */
static char *text_of(const struct tokenizer *tok, const int32_t *ids, size_t n)
{
    struct token_text t = { 0 };
    struct err        ignored;
    size_t            from = 0;
    int               rc = 0;

    for (size_t i = 0; i < n && !rc; i++)
        rc = tokenizer_text_add(tok, &t, ids[i], 0, &ignored);
    rc = rc ? rc : tokenizer_text_end(tok, &t, &ignored);
    while (from < t.n && strchr(WHITE, t.text[from]))
        from++;
    while (t.n > from && strchr(WHITE, t.text[t.n - 1]))
        t.n--;
    char *text = rc || from == t.n ? NULL : strndup(t.text + from, t.n - from);

    token_text_free(&t);
    return text;
}

/* Finds the token or the text that closes the last turn that counts. */
static void closing_find(const struct chat_encoding *e, const struct chat_ids *x, int32_t *id,
                         char **text)
{
    size_t end = x->ids.n, i;

    while (end && !x->counts[end - 1])
        end--;
    for (i = end; i && x->counts[i - 1] && !tokenizer_is_control(e->tok, x->ids.ids[i - 1]);)
        i--;
    char *said = text_of(e->tok, x->ids.ids + i, end - i), *at = said ? strstr(said, ANSWER) : NULL;

    // {% generation %} may have a newline behind the token
    if (i && x->counts[i - 1] && !said)
        *id = x->ids.ids[i - 1];
    if (at) {
        at += strlen(ANSWER);
        at += strspn(at, WHITE);
        *text = *at ? strdup(at) : NULL;
    }
    free(said);
}

int chat_closing(const struct chat_encoding *e, int32_t *id, char **text, struct err *err)
{
    enum chat_counts counts[] = { CHAT_BY_ROLE, CHAT_BY_ROLE };
    struct chat_row  row = { .path = "the chat template", .form = CHAT_FORM_MESSAGES,
                             .has_turns = 1, .turns.counts = counts };
    struct chat_ids  ids = { 0 };

    *id = -1;
    *text = NULL;
    row.turns.messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "Hi",
                                   "role", "assistant", "content", ANSWER);
    if (!row.turns.messages)
        return err_set(err, -ENOMEM, "no memory for a conversation");
    int rc = chat_encode(e, &row, &ids, NULL, err);

    if (!rc)
        closing_find(e, &ids, id, text);
    json_decref(row.turns.messages);
    chat_ids_free(&ids);
    return rc;
}
