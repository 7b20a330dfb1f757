/* encode.h: a file of labelled texts into a file of examples (data/task/examples.h), once, when a
 * run is made. A pair is A, <|endoftext|>, B; what is longer than max_seq is cut at its end. */
#pragma once

#include "cmd/run/events.h"
#include "data/task/examples.h"
#include "data/task/task.h"
#include "data/text/tokenizer.h"

struct encode {
    const char *name; // train, dev, dev_mm, test, test_mm: RUN/NAME.ex, NAME.sum and NAME.rows in
                      // run.db
    const struct task *task;
    int                own;     // one's own file; else the task's TSV
    struct task_names  asked;   // its columns, borrowed; all NULL: as their names suggest
    int                labels;  // rows without one are refused; else a label is not looked at
    uint64_t           most;    // rows; 0: all
    const struct events *events;
    // what encode_check found
    char               path[4096]; // the file
    uint64_t           rows;
    int                pairs;   // there is one at least
    struct task_names  read;    // the columns of one's own file
    int                words[2]; // a text, a second text that is no number
    struct watch       watch;
};

/* Read every row and its label, of DIR/FILE, or where dir is NULL of FILE: what is wrong is a
 * misuse sentence with file and line. Counts the rows; none is refused. e->read is the caller's to
 * task_names_free, also after a failure. */
int encode_check(struct encode *e, const char *dir, const char *file, struct err *err);

/* What a person should know who took another column for the text: *out (size bytes) is empty, or
 * says that all that is read as text number `text` (0, 1) are numbers. */
void encode_notice(const struct encode *e, int text, char *out, size_t size);

/* Make the file `path` and open it. pad: the id that the model's folder pads with, or -1:
 * transformers takes a row to end before it, so none ends with it, also where the cut would leave
 * it there. */
int encode_file(struct examples **out, const struct encode *e, struct tokenizer *tok,
                size_t max_seq, long pad, const char *path, struct err *err);
