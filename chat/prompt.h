/* prompt.h: a conversation as the ids that a model continues, and the token that ends answers. */
#pragma once

#include "chat/encode.h"

/* Appends the ids of a conversation, with what the template writes for the assistant to go on.
 * There must be at least one message. Text of messages never becomes a control token, unless
 * e->special_in_text is set. */
int chat_prompt(const struct chat_encoding *e, const json_t *messages, struct token_buf *out,
                struct err *err);

/* Finds what closes an assistant's turn in this template. *id is a control token, such as
 * <|im_end|>, even if white space follows it, or -1 if there is none. *text is a text that closes
 * the turn instead, without white space around it, or NULL. Caller frees it. */
int chat_closing(const struct chat_encoding *e, int32_t *id, char **text, struct err *err);
