/* bpe_train.h: trains a byte-level BPE on text. It counts pre-tokens, then merges the most
 * frequent pair again and again (Sennrich et al. 2016). On a tie, the lower pair of ids wins, so
 * the same text gives the same tokenizer. */
#pragma once

#include "data/base/watch.h"
#include "data/text/tokenizer.h"

struct bpe_train;

int  bpe_train_open(struct bpe_train **out, struct err *err);
/* Counts the pre-tokens of one more text (UTF-8), which comes in pieces; `last` is set for its last
 * one. */
int  bpe_train_feed(struct bpe_train *b, const char *text, size_t n, int last, struct err *err);
/* Trains a tokenizer of `vocab` ids: 256 bytes, vocab - 257 merges, <|endoftext|>. If the text
 * yields fewer merges, the request is refused. Caller closes *out. */
int  bpe_train_finish(struct bpe_train *b, size_t vocab, struct tokenizer **out,
                      const struct watch *watch, struct err *err);
void bpe_train_close(struct bpe_train *b);
