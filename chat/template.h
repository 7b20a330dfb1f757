/* template.h: the chat template that a model's folder has, and its rendering of a conversation.
 *
 * A folder has chat_template.jinja ("default") and additional_chat_templates/NAME.jinja. Without
 * such files it has tokenizer_config.json's chat_template, a text or a list of {name, template},
 * and without that a processor's chat_template.json. With several templates "default" is taken, and
 * "tool_use" where there are tools, as transformers does. */
#pragma once

#include "chat/jinja/jinja.h"

struct chat_template; // opaque

/* Open the template of the folder `dir`. name: NULL for the folder's own choice; else a name of its
 * list, or the path of a file. *out is NULL, without an error, if name is NULL and the folder has
 * none. Misuse: a name that is not there (the sentence lists those that are), a template that
 * jinja_parse refuses. */
int  chat_template_open(struct chat_template **out, const char *dir, const char *name,
                        struct err *err);
void chat_template_close(struct chat_template *t); // NULL is fine
/* Whether the caller's name was that of a file. NULL is fine. */
int  chat_template_is_file(const struct chat_template *t);
/* A checksum of their names and texts. */
uint32_t chat_template_sum(const struct chat_template *t);
/* The text of the one that writes a conversation without tools. */
const char *chat_template_text(const struct chat_template *t);
/* Makes these the templates of a folder that has copies of the tokenizer's files: one becomes its
 * chat_template.jinja, several a list in its tokenizer_config.json. A template that stood in
 * tokenizer_config.json is replaced there, too: programs that look there first, as llama.cpp's
 * converter does, would take it. */
int  chat_template_keep(const struct chat_template *t, const char *dir, struct err *err);
/* Whether the template that writes a conversation with these tools (NULL: none) marks what is
 * generated ({% generation %}). */
int  chat_template_marks(const struct chat_template *t, const json_t *tools);

struct chat_rendering {
    const json_t *messages, *tools; // tools NULL: none
    const json_t *variables;        // further ones, as chat_row has them; NULL: none
    int           generation_prompt;
    const char   *bos, *eos;        // NULL: those of the folder's tokenizer_config.json
    time_t        now;              // of strftime_now()
    size_t        memory;           // bytes that the template may use; 0: jinja.h's
};

/* Write a conversation. Variables are those of transformers 5: messages, tools, documents (none),
 * add_generation_prompt, and all special tokens by their roles (bos_token, ...). Messages lose
 * their members that are null, and get reasoning_content where they have thinking or reasoning;
 * the texts in them are those of r->messages, so spans of `out` point there. *kept holds the
 * variables: the caller frees both (json_decref, jinja_output_free). Any thread may call it. */
int chat_template_render(const struct chat_template *t, const struct chat_rendering *r,
                         struct jinja_output *out, json_t **kept, struct err *err);
/* The time for `now` of a day, YYYY-MM-DD: its noon here. Misuse: no such day. */
int chat_date(time_t *out, const char *text, struct err *err);
