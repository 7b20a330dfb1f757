/* template.h: the chat template of a model's folder, and the rendering of a conversation with it.
 *
 * A folder may have chat_template.jinja (named "default") and additional_chat_templates/NAME.jinja.
 * If it has neither, the templates are chat_template of tokenizer_config.json, a text or a list of
 * {name, template}. If that is missing too, they are those of a processor's chat_template.json. Of
 * several templates, "default" is used, or "tool_use" for a conversation with tools, as in
 * transformers. */
#pragma once

#include "chat/jinja/jinja.h"

struct chat_template; // opaque

/* Opens the template of the folder `dir`. name is NULL for the folder's own choice, or the name of
 * one of its templates, or the path of a file. If name is NULL and the folder has no template, *out
 * is NULL, without an error. Misuse: an unknown name (the sentence lists the known ones), or a
 * template that jinja_parse refuses. */
int  chat_template_open(struct chat_template **out, const char *dir, const char *name,
                        struct err *err);
void chat_template_close(struct chat_template *t); // NULL is fine
/* Returns whether the caller's name was that of a file. NULL is fine. */
int  chat_template_is_file(const struct chat_template *t);
/* Returns a checksum of the names and texts of all templates. */
uint32_t chat_template_sum(const struct chat_template *t);
/* Returns the text of the template that writes a conversation without tools. */
const char *chat_template_text(const struct chat_template *t);
/* Makes these the templates of a folder that has copies of the tokenizer's files. A single template
 * becomes its chat_template.jinja; several become a list in its tokenizer_config.json. A template
 * in that file is replaced in any case, because llama.cpp's converter looks there first. */
int  chat_template_keep(const struct chat_template *t, const char *dir, struct err *err);
/* Returns whether the template that writes a conversation with these tools (NULL: none) has
 * {% generation %}, which marks answers. */
int  chat_template_marks(const struct chat_template *t, const json_t *tools);

struct chat_rendering {
    const json_t *messages, *tools; // tools NULL: none
    const json_t *variables;        // further ones, as chat_row has them; NULL: none
    int           generation_prompt;
    const char   *bos, *eos;        // NULL: those of the folder's tokenizer_config.json
    time_t        now;              // of strftime_now()
    size_t        memory;           // bytes that the template may use; 0: jinja.h's
};

/* Writes a conversation. The template gets the variables of transformers 5: messages, tools,
 * documents (none), add_generation_prompt, and all special tokens by their roles (bos_token, ...).
 * Members of messages that are null are left out. A message with thinking or reasoning gets
 * reasoning_content, too. The texts are those of r->messages, so the spans of `out` point there.
 * *kept holds the variables. The caller frees both (json_decref, jinja_output_free). Any thread may
 * call it. */
int chat_template_render(const struct chat_template *t, const struct chat_rendering *r,
                         struct jinja_output *out, json_t **kept, struct err *err);
/* Sets *out to noon of a day, YYYY-MM-DD, in this time zone, for `now`. Misuse: no such day. */
int chat_date(time_t *out, const char *text, struct err *err);
