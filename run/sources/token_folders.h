/* token_folders.h: folders of token files as sources of a language model's rows. Such a folder
 * stands for its files, each of which is read in place. With --mix, its weight is divided among
 * them by their sizes, so that all its rows are read equally often. */
#pragma once

#include "run/sources/corpus.h"

struct token_folders; // opaque

/* Sets *all to *given, in which each folder of token files is replaced by its files; a folder of
 * texts stays. The result borrows from *given and from *out, which the caller closes, also after a
 * failure. Misuse: a file that is none of tokens among those that are; too many files. */
int  token_folders_open(struct token_folders **out, struct corpus_opts *all,
                        const struct corpus_opts *given, struct err *err);
void token_folders_close(struct token_folders *t); // NULL is fine
