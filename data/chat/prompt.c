/* prompt.c: renders and encodes a conversation that goes on. */
#include "data/chat/prompt.h"

#include "data/chat/pieces.h"

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

int chat_closing(const struct chat_encoding *e, int32_t *id, struct err *err)
{
    enum chat_counts counts[] = { CHAT_BY_ROLE, CHAT_BY_ROLE };
    struct chat_row  row = { .path = "the chat template", .form = CHAT_FORM_MESSAGES,
                             .has_turns = 1, .turns.counts = counts };
    struct chat_ids  ids = { 0 };

    *id = -1;
    row.turns.messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "Hello",
                                   "role", "assistant", "content", "Hello");
    if (!row.turns.messages)
        return err_set(err, -ENOMEM, "no memory for a conversation");
    int rc = chat_encode(e, &row, &ids, NULL, err);

    for (size_t i = ids.ids.n; !rc && i-- > 0;)
        if (ids.counts[i]) { // the last one that counts
            *id = tokenizer_is_control(e->tok, ids.ids.ids[i]) ? ids.ids.ids[i] : -1;
            break;
        }
    json_decref(row.turns.messages);
    chat_ids_free(&ids);
    return rc;
}
