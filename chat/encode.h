/* encode.h: a row of conversations as token ids, with a mark for each that counts in the loss.
 *
 * With turns, the template writes the text, which is encoded as one text (transformers'
 * apply_chat_template does so); nothing is put before it that the template does not write. A token
 * counts if a byte of it lies in an answer. The answers are:
 *   - what stands within {% generation %}, where the template has it (transformers'
 *     return_assistant_tokens_mask);
 *   - otherwise, of each turn of an assistant, what comes from its message (content, reasoning,
 *     tool calls), with what the template writes between, from where the model has to go on
 *     (pieces.h), up to the token that closes the turn. A turn of whose message nothing is written,
 *     not even its role, has no answer.
 * The closing token is the first control token that the template writes behind the message, before
 * the next one: <|im_end|>, <|eot_id|>, </s>, ... What stands between them counts, and a newline
 * behind it does not. If the token that ends a text stands there, it closes the turn, even if
 * control tokens stand before it, as behind DeepSeek's tool calls. Where no control token stands,
 * the turn is closed by text: all that is written behind the last answer of the conversation, and
 * behind an answer before it what is the same there.
 *
 * Text that comes from a row never becomes a control token (tokenizer.h), unless `special_in_text`.
 *
 * Without turns: the tokenizer's own beginning (as for any text), unless the text spells it, the
 * prompt, the completion, and the token that ends a text, unless it stands there; completion and
 * end count. */
#pragma once

#include "chat/rows.h"
#include "chat/template.h"
#include "data/text/tokenizer.h"

/* --loss-on answers|last|all. A turn that a row says itself counts, or does not, comes first: LAST
 * is about the last turn of an assistant, and with ALL everything counts but turns that do not. */
enum chat_loss { CHAT_LOSS_ANSWERS, CHAT_LOSS_LAST, CHAT_LOSS_ALL };
const char *chat_loss_name(size_t i); // its word; NULL past the last

struct chat_encoding {
    struct tokenizer           *tok;  // borrowed
    const struct chat_template *chat; // borrowed; NULL: rows with turns are refused
    enum chat_loss              loss;
    int                         special_in_text;
    time_t                      now;
    size_t                      memory; // as chat_rendering has it
};

/* The ids of a row, and which of them count (1 or 0). The zero state is empty; it may be used
 * again. Not cut. `other` is that of a preference's second answer.
 *
 * spelled: control tokens that the row spells, and that are text (tokenizer.h); spelled_id: one of
 * them. signs: what its user may not have meant (signs.h). */
struct chat_ids {
    struct token_buf ids;
    unsigned char   *counts;
    size_t           counts_cap, counted, spelled;
    int32_t          spelled_id;
    unsigned         signs;
};
int  chat_encode(const struct chat_encoding *e, const struct chat_row *row, struct chat_ids *out,
                 struct chat_ids *other, struct err *err);
void chat_ids_free(struct chat_ids *x);
