/* rows_parts.h: a file of rows while it is read. Private to chat. rows.c reads rows as objects
 * and finds their form, rows_forms.c makes a chat_row of an object of each form, rows_turns.c
 * reads the turns in it, rows_say.c has the words of refusals. */
#pragma once

#include "chat/rows.h"
#include "data/task/row_file.h"

/* The keys of all forms, which the user may have named otherwise. */
enum row_key {
    KEY_MESSAGES, KEY_CONVERSATIONS, KEY_INSTRUCTION, KEY_OUTPUT, KEY_PROMPT, KEY_COMPLETION,
    KEY_TEXT, KEY_CHOSEN, KEY_REJECTED, ROW_KEYS
};

struct turns { struct chat_turns is; size_t cap; }; // cap: of counts

struct chat_rows {
    char           *path;
    struct row_file file;
    char          **column; // (columns) of a .csv: its header
    size_t          columns;
    enum chat_form  form;
    int             any;    // a row was read
    unsigned        takes;  // a bit for each form that has the keys which the user named
    const char     *key[ROW_KEYS];
    // the row:
    json_t         *object, *tools;
    struct turns    turns, other;
    char           *prompt; // of a preference without one: what both answers begin with
    struct chat_row row;
};

/* ---- rows_say.c */

/* Refuses the row; fmt is a literal. */
#define row_refuse(r, err, fmt, ...)                                                               \
    err_misuse(err, "%s:%zu: " fmt, (r)->path, (r)->file.line, ##__VA_ARGS__)
/* Returns what a value is, in words: "a text", "null"; "nothing" for NULL. */
const char *row_value_kind(const json_t *v);
/* Returns a member of an object; NULL if it is null, too. */
const json_t *row_member(const json_t *object, const char *key);

/* ---- rows_turns.c */

int  turns_begin(struct turns *t, struct err *err); // empties it
void turns_free(struct turns *t);
/* Appends the turns of the list that stands at `key`. sharegpt: turns may be {from, value}, too.
 * counts: what a turn counts for that does not say it itself. */
struct turns_list { const char *key; const json_t *list; int sharegpt; enum chat_counts counts; };
int  turns_add(const struct chat_rows *r, struct turns *t, const struct turns_list *from,
               struct err *err);
/* Appends a turn that says `text`; the reference to it is taken over, and NULL is no memory. */
int  turns_add_text(struct turns *t, const char *role, json_t *text, struct err *err);

/* ---- rows_forms.c */

/* Makes r->row of r->object, whose form is r->form. */
int row_make(struct chat_rows *r, struct err *err);
