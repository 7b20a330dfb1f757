/* encode.h: a row of conversations as token ids, with a mark for each that counts in the loss.
 *
 * With turns, the template writes the text. A token counts if a byte of it lies in what the model
 * answers: within {% generation %} where the template has it; otherwise the content (and what else
 * comes from the message, such as tool calls) of the assistant's turns, and what the template writes
 * behind it up to and with the first special token. Text that comes from a row never becomes a
 * special token, unless `special_in_text`.
 *
 * Without turns: the tokenizer's own beginning (as for any text), the prompt, the completion, and
 * the token that ends a text; completion and end count. */
#pragma once

#include "data/chat/rows.h"
#include "data/chat/template.h"
#include "data/text/tokenizer.h"

enum chat_loss { CHAT_LOSS_ANSWERS, CHAT_LOSS_LAST, CHAT_LOSS_ALL }; // --loss-on answers|last|all

struct chat_encoding {
    struct tokenizer           *tok;  // borrowed
    const struct chat_template *chat; // borrowed; NULL: rows with turns are refused
    enum chat_loss              loss;
    int                         special_in_text;
    time_t                      now;
};

/* The ids of a row, and which of them count (1 or 0). The zero state is empty; it may be used again.
 * Not cut. `other` is that of a preference's second answer. */
struct chat_ids { struct token_buf ids; unsigned char *counts; size_t counts_cap, counted; };
int  chat_encode(const struct chat_encoding *e, const struct chat_row *row, struct chat_ids *out,
                 struct chat_ids *other, struct err *err);
void chat_ids_free(struct chat_ids *x);
