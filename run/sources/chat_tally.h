/* chat_tally.h: what was made of the rows of a file, or of all files of a set, and what their user
 * should know of it. */
#pragma once

#include "chat/encode.h"
#include "chat/signs.h"
#include "run/folder/session.h"

/* Rows, unless it says tokens. cut, dropped: longer than --max-seq; bare: without a token that
 * counts (a preference: an answer has none, or both are the same); behind: bare, and would not be
 * if they were not cut. Of those that are kept: ended: a token counts at which generation stops;
 * turns: they have turns; spelled: they spell a control token (spelled_id: one of these), which is
 * text; signs: they have this bit of chat/signs.h. */
struct chat_tally {
    uint64_t rows, kept, tokens, counted, cut, dropped, bare, behind, ended, turns;
    uint64_t spelled, signs[CHAT_SIGNS];
    int32_t  spelled_id;
};

void chat_tally_add(struct chat_tally *to, const struct chat_tally *t);
/* A row that is kept. */
void chat_tally_signs(struct chat_tally *t, const struct chat_ids *ids);
/* Send a notice of each thing that there are rows of. pairs: they are preferences. */
int  chat_tally_notice(const struct chat_tally *t, struct session *s, const struct tokenizer *tok,
                       int pairs, int evaluates, struct err *err);

/* A file, for sentences. first: the beginning of its first row, at most CHAT_SHOWN bytes. */
enum { CHAT_SHOWN = 240 };
struct chat_told { const char *path, *first; int pairs; uint64_t seq; };

/* Refuses a file of which no row is kept: says why. Always returns misuse. */
int chat_tally_refuse(const struct chat_tally *t, const struct chat_told *of, struct err *err);
