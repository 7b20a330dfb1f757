/* rows_look.h: how many rows the files of a fine-tuning have, and how full batches of them would
 * be. All rows are read; only some are encoded, and stand for the others. */
#pragma once

#include "run/sources/chat_files.h"
#include "run/sources/task_files.h"

struct rows_look {
    uint64_t rows;    // in all files, those of evaluation too
    uint64_t epoch;   // rows of an epoch, if the others are like those that are encoded
    /* Of a batch's tokens, batch x --max-seq: the share that is computed, and the share that is not
     * padding. 0: not known, since there is no tokenizer. */
    double   computed, filled;
};

/* Files of conversations. tokenizer: a folder, or NULL. o: its batch, seq, order and seed are
 * looked at. Misuse: a row that finetune would refuse, among those that are looked at. */
int chat_look(struct rows_look *out, const struct chat_files *f, const char *tokenizer,
              const struct train_opts *o, const struct events *events, struct err *err);

/* Labelled rows, of a file that task_file_check has read: sets out->epoch, out->computed and
 * out->filled. Without a tokenizer it does nothing. */
int task_files_look(struct rows_look *out, const struct task_file *e, const char *tokenizer,
                    const struct model_config *config, const struct train_opts *o, struct err *err);
