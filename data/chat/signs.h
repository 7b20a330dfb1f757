/* signs.h: what a rendered conversation shows that its user may not have meant. Nothing of it is
 * refused, because transformers writes the same. */
#pragma once

#include "data/jinja/jinja.h"

/* QUOTED: the arguments of a tool call are a text of JSON, and the template quotes that text once
 * more, as `tojson` does: {"arguments": "{\"city\": ...}"}. THOUGHTLESS: the template does not
 * write what an assistant thought (reasoning_content, thinking, <think>). */
enum { CHAT_QUOTED = 1, CHAT_THOUGHTLESS = 2 };

/* The signs of a conversation. Of thoughts, those in messages from `first` on. */
unsigned chat_signs(const json_t *messages, const struct jinja_output *text, size_t first);
