/* signs.h: looks in a rendered conversation for what its user may not have meant. Nothing is
 * refused for it, because transformers writes the same. */
#pragma once

#include "chat/jinja/jinja.h"
#include "chat/rows.h"

enum {
    /* The arguments of a tool call are a text of JSON, and the template quotes that text once more,
     * as `tojson` does: {"arguments": "{\"city\": ...}"}. */
    CHAT_QUOTED = 1,
    /* The template does not write thoughts (reasoning_content, thinking, <think>). */
    CHAT_THOUGHTLESS = 2,
    /* An answer is white space, without thoughts and tool calls. */
    CHAT_EMPTY = 4,
    /* A tool has properties that are null. Tables make them of the properties that tools of other
     * rows have. */
    CHAT_NULLS = 8,
    /* One token holds the end of a prompt and the beginning of its completion (encode.c), for
     * example if a space ends the prompt. The prompt alone then ends with another token. */
    CHAT_JOINED = 16,
    CHAT_SIGNS = 5 // number of bits
};

/* Returns the signs of a conversation. Thoughts and empty answers count only in messages from
 * `first` on that are trained on. tools NULL: there are none. */
unsigned chat_signs(const struct chat_turns *turns, const json_t *tools,
                    const struct jinja_output *text, size_t first);
/* Returns whether a text is white space. */
int chat_is_blank(const char *text);
