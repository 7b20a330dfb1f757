/* pieces.h: which bytes of a conversation that a template has written are whose message.
 *
 * A message's piece begins with the first byte that comes from the message and ends behind the
 * last; what the template writes between those belongs to it. The role and the name that a message
 * has at its top are no part of it, since templates write them before what is said.
 *
 * The piece of an assistant begins earlier if the template says so: behind what it writes for
 * add_generation_prompt, because a model is asked to go on from there. So "<think>\n" and
 * "<tool_call>" before the first word are a part of the answer.
 *
 * Where {% generation %} is, an assistant's pieces are what stands within. */
#pragma once

#include "chat/template.h"
#include "data/text/origin.h"

struct chat_piece {
    size_t from, to;
    size_t limit; // the template writes [to, limit) behind it; what closes the turn may be a part
                  // of that. Of {% generation %}: `to`
    size_t message; // whose
    int    assistant;
};

struct chat_pieces {
    struct chat_piece *list; // in order
    size_t             n, cap;
    struct token_span *plain; // what comes from the row, and not from the template; in order
    size_t             n_plain, plain_cap;
    // while they are made:
    struct chat_owner *owners;
    size_t             n_owners, owners_cap;
};

/* What a template writes for an assistant to go on: the last bytes of `text` if it is asked for by
 * add_generation_prompt, and before these what it writes anyway behind the last user's words. */
struct chat_cue { char *text; size_t n, asked; };

/* Find the cue of a conversation. An empty one is no error. Caller frees its text. */
int chat_cue_find(struct chat_cue *cue, const struct chat_template *t,
                  const struct chat_rendering *r, struct err *err);

/* Find the pieces of a text that was written for `r` with the variables `kept`. `marks`: the
 * template has {% generation %}. The state may be used again; the zero state is empty. */
int  chat_pieces_find(struct chat_pieces *p, const struct jinja_output *text,
                      const struct chat_rendering *r, const json_t *kept,
                      const struct chat_cue *cue, int marks, struct err *err);
void chat_pieces_free(struct chat_pieces *p);
