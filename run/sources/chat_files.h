/* chat_files.h: files of conversations become the rows of a run. When the run is created, they are
 * encoded once, by all threads, into RUN/train.ex and RUN/dev.ex (data/task/examples.h), in the
 * order of the files. A preference becomes two rows, the chosen and the rejected answer, each
 * behind the prompt. No text is kept. */
#pragma once

#include "chat/rows.h"
#include "data/task/examples.h"
#include "data/text/tokenizer.h"
#include "run/folder/session.h"
#include "run/folder/tune_opts.h"
#include "run/texts/text_list.h"

struct chat_files {
    struct text_list             train, eval; // the files; the caller closes them
    const char                 *mix;         // weights of the sources of `train`; NULL: one pool
    const struct chat_opts     *o;
    const struct pairs_opts    *pairs;       // NULL: conversations, and no preferences
    struct chat_names           names;
    const struct chat_template *chat;        // NULL: there is none
    time_t                      now;
    uint64_t                    most_train, most_eval; // rows; 0: all
    double                      split; // part of the rows of `train` to evaluate on instead, chosen
                                       // by chat_held_hash; 0: none
    uint64_t                    host_mem;    // --host-mem, which rows have to fit into; 0: none
    uint64_t                    epochs;      // decides the steps, unless steps were given
    int                         evaluates_epochs; // --eval-every becomes an epoch
};

/* How a row is encoded, by a thread that has this tokenizer. */
struct chat_encoding chat_files_encoding(const struct chat_files *f, struct tokenizer *tok);

/* Open a file. A row of more than `most` bytes is refused (chat_held.h says what --host-mem
 * leaves). The caller closes *r. */
int chat_files_rows(struct chat_rows **r, const struct chat_files *f, const char *path,
                    size_t most, struct err *err);

/* Read the first row of each file. Misuse: one that cannot be trained on, such as a row with turns
 * if there is no template. */
int chat_files_check(const struct chat_files *f, struct err *err);

/* Encode the files into a run that is being created, and store what they are. RUN/tokenizer has the
 * tokenizer `tok`. s->o gets the number of steps that `epochs` means, if it has none. Misuse: a row
 * that does not fit; a file without a token that counts. */
int chat_files_add(struct session *s, const struct chat_files *f, struct tokenizer *tok,
                   struct err *err);

/* Encode f->eval into `path`, and open it. s: the model's config, seq, threads and events; it has
 * no folder. tokenizer: that of `tok`, a folder. The caller closes *out. */
int chat_files_encode(struct examples **out, struct session *s, const struct chat_files *f,
                      struct tokenizer *tok, const char *tokenizer, const char *path,
                      struct err *err);
