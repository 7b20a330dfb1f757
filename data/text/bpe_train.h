/* bpe_train.h: trains a byte-level BPE on text: pre-token counts, then the most frequent pair
 * merged again and again (Sennrich et al. 2016), ties to the lower pair of ids, so that the same
 * text gives the same tokenizer. */
#pragma once

#include "data/base/watch.h"
#include "data/text/tokenizer.h"

struct bpe_train;

int  bpe_train_open(struct bpe_train **out, struct err *err);
/* Count the pre-tokens of one more text file (UTF-8). Read in pieces. */
int  bpe_train_file(struct bpe_train *b, const char *path, const struct watch *watch,
                    struct err *err);
/* Train to `vocab` ids in all: 256 bytes, vocab - 257 merges, <|endoftext|>. Refused if the text
 * yields fewer. */
int  bpe_train_finish(struct bpe_train *b, size_t vocab, struct tokenizer **out,
                      const struct watch *watch, struct err *err);
void bpe_train_close(struct bpe_train *b);
