/* encode.h: a file of labelled texts into a file of examples (data/examples.h), once, when a run is made. A
 * pair is A, <|endoftext|>, B; what is longer than max_seq is cut at its end. */
#ifndef CMD_ENCODE_H
#define CMD_ENCODE_H

#include "data/task.h"
#include "data/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct encode {
    const char *name; // train, dev, dev_mm, test, test_mm: RUN/NAME.ex, NAME.sum and NAME.rows in run.db
    char               path[4096]; // the file
    const struct task *task;
    int                own;     // one's own file; else the task's TSV
    int                labels;  // rows without one are refused; else a label is not looked at
    uint64_t           most;    // rows; 0: all
    uint64_t           rows;    // that encode_check counted
};

/* Read every row and its label: what is wrong is a misuse sentence with file and line. Counts the rows; none
 * is refused. pairs: set to 1 where there is one. */
int encode_check(struct encode *e, int *pairs, struct err *err);

/* Make `out`. pad: the id that the model's folder pads with, or -1: transformers takes a row to end before
 * it, so none ends with it, also where the cut would leave it there. *sum gets the file's checksum. */
int encode_file(const struct encode *e, struct tokenizer *tok, size_t max_seq, long pad, const char *out,
                uint32_t *sum, struct err *err);

#endif
