/* signs.h: what a rendered conversation shows that its user may not have meant. Nothing of it is
 * refused, because transformers writes the same. */
#pragma once

#include "chat/jinja/jinja.h"
#include "chat/rows.h"

/* QUOTED: the arguments of a tool call are a text of JSON, and the template quotes that text once
 * more, as `tojson` does: {"arguments": "{\"city\": ...}"}. THOUGHTLESS: the template does not
 * write what an assistant thought (reasoning_content, thinking, <think>). EMPTY: an answer is white
 * space, without thoughts and tool calls. NULLS: a tool has properties that are null, as tables
 * make of those that other rows' tools have. JOINED: a token has the end of a prompt and the
 * beginning of its completion (encode.c), such as a space that ends the prompt: who asks the prompt
 * alone asks by another token. */
enum { CHAT_QUOTED = 1, CHAT_THOUGHTLESS = 2, CHAT_EMPTY = 4, CHAT_NULLS = 8, CHAT_JOINED = 16,
       CHAT_SIGNS = 5 }; // so many bits

/* The signs of a conversation. Of thoughts and empty answers, those in messages from `first` on
 * that are trained on. tools: NULL: none. */
unsigned chat_signs(const struct chat_turns *turns, const json_t *tools,
                    const struct jinja_output *text, size_t first);
/* Whether a text is white space. */
int chat_is_blank(const char *text);
