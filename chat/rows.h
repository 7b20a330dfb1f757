/* rows.h: reads files of conversations, in the forms that trainers' users have, and gives each row
 * in one form.
 *
 *     chat_rows_open(&r, "chat.jsonl", CHAT_FORM_FOUND, &names, &err)    finds the form
 *     while ((got = chat_rows_next(r, &row, &err)) > 0) ...       row is valid until the next
 *     chat_rows_close(r)
 *
 * Forms (a row is an object of JSON, or a line of a .csv where the columns are texts):
 *   messages    {"messages": [{"role", "content", ...}], "tools": [...]}
 *   sharegpt    {"conversations": [{"from", "value"}], "system", "tools"}; from is human, gpt,
 *               system, function_call or observation, or a kin of these; turns may be messages
 *   alpaca      {"instruction", "input", "output", "system", "history": [[user, assistant], ...]};
 *               the user's text is the instruction, a newline, the input
 *   completion  {"prompt", "completion"}: both texts, or both lists of messages
 *   text        {"text"}
 *   preference  {"chosen", "rejected"}, with or without "prompt": texts, or lists of messages.
 *               Without it, the prompt is what both begin with, as in TRL. A prompt that is a text
 *               may stand beside lists of messages if it is their first user's content
 * The first row decides the form of a file; a row of another form, a role that is not known, or a
 * value of another type is misuse, and the sentence names file, line and key. Files are .jsonl,
 * .json, .csv, and each of these as .gz or .zst, told by their contents, not by their names. Memory
 * is that of the longest row. */
#pragma once

#include "data/json/json.h"

enum chat_form {
    CHAT_FORM_FOUND, // by the first row
    CHAT_FORM_MESSAGES, CHAT_FORM_SHAREGPT, CHAT_FORM_ALPACA, CHAT_FORM_COMPLETION, CHAT_FORM_TEXT,
    CHAT_FORM_PREFERENCE,
};
const char *chat_form_name(size_t i); // its word; "auto" for CHAT_FORM_FOUND; NULL past the last

/* Keys other than the form's own; NULL: its own. They must be there in every row, and of one form.
 * The texts stay the caller's, as long as the file is open. */
struct chat_names { const char *messages, *prompt, *completion, *text, *chosen, *rejected; };

/* What a turn counts for: by its role (--loss-on), or as the row says itself ("train", "weight").
 * A turn of a completion's prompt counts only where everything does. */
enum chat_counts { CHAT_BY_ROLE, CHAT_NEVER, CHAT_ALWAYS, CHAT_PROMPT };

/* One conversation: messages and tools as a chat template takes them (role, content, and whatever
 * other keys the row has). ShareGPT's and Alpaca's are translated. Arguments of tool calls that are
 * a string of JSON stay as they are. */
struct chat_turns {
    json_t           *messages; // an array, at least 1
    enum chat_counts *counts;   // (messages)
};

struct chat_row {
    const char    *path;
    size_t         line; // the first of the row, from 1
    enum chat_form form;
    /* Turns, or without a template (a text; a prompt and a completion that are texts) none, and
     * `prompt` and `completion` are the row: the completion counts. A text has the prompt "". */
    int               has_turns;
    struct chat_turns turns;    // of a preference: prompt and chosen
    const char       *prompt, *completion;
    // of a preference besides: with turns prompt and rejected; else the second completion
    struct chat_turns other_turns;
    const char       *other;
    json_t           *tools;    // NULL: none
    // what the template gets besides ("chat_template_kwargs", an object); NULL: nothing
    const json_t     *variables;
};

struct chat_rows; // opaque

int  chat_rows_open(struct chat_rows **out, const char *path, enum chat_form form,
                    const struct chat_names *names, struct err *err);
/* Refuse rows of more bytes than these; `why` stands behind the sentence. */
void chat_rows_limit(struct chat_rows *r, size_t bytes, const char *why);
/* Returns 1 and the next row, 0 behind the last, or -errno. The row is the reader's. */
int  chat_rows_next(struct chat_rows *r, const struct chat_row **row, struct err *err);
/* Returns the form of the file, once a row was read; before, what was asked for. */
enum chat_form chat_rows_form(const struct chat_rows *r);
/* How far reading is: bytes of the file; or rows, with *total 0, if it is packed. */
void chat_rows_progress(const struct chat_rows *r, uint64_t *done, uint64_t *total);
void chat_rows_close(struct chat_rows *r); // NULL is fine
