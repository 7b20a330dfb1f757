/* pieces.h: finds which bytes of a rendered conversation belong to which message.
 *
 * The piece of a message begins with the first byte that comes from the message, and ends behind
 * the last one. Text of the template between these bytes belongs to the piece. The role and the
 * name of a message do not belong to it, because templates write them before the message.
 *
 * The piece of an assistant may begin earlier. If a template writes something for
 * add_generation_prompt, the model goes on behind that. So "<think>\n" or "<tool_call>" before the
 * first word is a part of the answer.
 *
 * If the template has {% generation %}, the pieces of assistants are the text within. */
#pragma once

#include "chat/template.h"
#include "data/text/origin.h"

struct chat_piece {
    size_t from, to;
    size_t limit;   // the template wrote [to, limit), of which a part may close the turn; within
                    // {% generation %} it is `to`
    size_t message; // index of the message
    int    assistant;
};

struct chat_pieces {
    struct chat_piece *list; // in order
    size_t             n, cap;
    struct token_span *plain; // bytes that come from the row, not from the template; in order
    size_t             n_plain, plain_cap;
    // used while the pieces are found:
    struct chat_owner *owners;
    size_t             n_owners, owners_cap;
};

/* The text between the last user's words and an answer. The template writes its last `asked` bytes
 * only for add_generation_prompt, and the others in any case. */
struct chat_cue { char *text; size_t n, asked; };

/* Finds the cue of a conversation. It may be empty. Caller frees its text. */
int chat_cue_find(struct chat_cue *cue, const struct chat_template *t,
                  const struct chat_rendering *r, struct err *err);

/* Finds the pieces of `text`, which the template wrote for `r` with the variables `kept`. marks:
 * the template has {% generation %}. The zero state of *p is empty, and may be used again. */
int  chat_pieces_find(struct chat_pieces *p, const struct jinja_output *text,
                      const struct chat_rendering *r, const json_t *kept,
                      const struct chat_cue *cue, int marks, struct err *err);
void chat_pieces_free(struct chat_pieces *p);
