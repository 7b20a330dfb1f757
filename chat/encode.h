/* encode.h: encodes a row of conversations as token ids, and marks the tokens that count in the
 * loss.
 *
 * A row with turns is written by the template and then encoded as one text, as transformers'
 * apply_chat_template does. Nothing is put before the text. A token counts if one of its bytes lies
 * in an answer. The template decides where the answers are:
 *   - If it has {% generation %}, the answers are the text within (transformers'
 *     return_assistant_tokens_mask).
 *   - Otherwise each turn of an assistant has an answer. The answer is the text that comes from the
 *     message (content, reasoning, tool calls), with what the template writes between these. It
 *     begins where the model has to go on (pieces.h), and ends with the token that closes the turn.
 *     A turn has no answer if nothing of its message is written, not even the role.
 *
 * The closing token is the first control token behind the message and before the next message:
 * <|im_end|>, <|eot_id|>, </s>, ... Text between the message and that token counts; a newline
 * behind the token does not. The token that ends a text comes first: if it stands there, it closes
 * the turn, even behind other control tokens, as behind DeepSeek's tool calls. If no control token
 * stands there, text closes the turn. For the last answer of the conversation, this text is
 * everything behind the answer. For an earlier answer, it is the beginning that both have in
 * common.
 *
 * Text that comes from a row never becomes a control token (tokenizer.h), unless `special_in_text`
 * is set.
 *
 * A row without turns has four parts: the tokenizer's own beginning, as for any text; the prompt;
 * the completion; and the token that ends a text. The beginning and the end are left out if the
 * text has them already. The completion and the end count. */
#pragma once

#include "chat/rows.h"
#include "chat/template.h"
#include "data/text/tokenizer.h"

/* --loss-on answers|last|all: the answers of all turns, the last assistant's answer, or every
 * token. If the row itself says whether a turn counts ("train", "weight"), the row decides. */
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

/* The ids of a whole row, however long. The zero state is empty, and may be used again. */
struct chat_ids {
    struct token_buf ids;
    unsigned char   *counts; // (ids.n): 1 if the token counts, otherwise 0
    size_t           counts_cap, counted;
    size_t           spelled;    // control tokens that the row spells, and that stay text
    int32_t          spelled_id; // one of them
    unsigned         signs;      // what the row's user may not have meant (signs.h)
};
/* Encodes a row. `other` gets the second answer of a preference. */
int  chat_encode(const struct chat_encoding *e, const struct chat_row *row, struct chat_ids *out,
                 struct chat_ids *other, struct err *err);
void chat_ids_free(struct chat_ids *x);
