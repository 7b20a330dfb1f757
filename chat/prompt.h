/* prompt.h: a conversation as the ids that a model goes on from, and the token that ends its
 * answers. */
#pragma once

#include "chat/encode.h"

/* Append the ids of a conversation, with what the template writes for the assistant to go on.
 * messages: at least one, as a template takes them; what they spell never becomes a control token,
 * unless e->special_in_text. */
int chat_prompt(const struct chat_encoding *e, const json_t *messages, struct token_buf *out,
                struct err *err);

/* The control token that closes an assistant's turn in this template, such as <|im_end|>; -1: it is
 * closed by none. White space may stand behind it. *text: what closes a turn instead, without
 * white space around it; NULL: nothing does. Caller frees it. */
int chat_closing(const struct chat_encoding *e, int32_t *id, char **text, struct err *err);
