/* tokenizer_gguf.h: tokenizers in GGUF files. A byte-level BPE is stored as tokens and merges, with
 * the name that llama.cpp has for its expression. A BPE of characters (SentencePiece's) is stored
 * as tokens with scores, by which llama.cpp merges. */
#pragma once

#include "data/json/json.h"
#include "data/tensors/gguf.h"
#include "data/text/tokenizer.h"

/* What a file says of a tokenizer and its model. Ids are -1 if there is none. */
struct tokenizer_gguf {
    size_t vocab; // ids of the model; those that the tokenizer lacks are filled up
    long   begin, end, turn, pad; // turn: another id that ends a text, such as the end of a turn
};

/* Writes the keys tokenizer.ggml.*. A tokenizer for which llama.cpp has no such kind is refused.
 * notice, if not NULL: gets a sentence if some texts have other ids in llama.cpp. */
int tokenizer_gguf_put(struct gguf_writer *w, struct tokenizer *t, const struct tokenizer_gguf *to,
                       char *notice, size_t size, struct err *err);

/* Whether `path` is a GGUF file that has a tokenizer, or one that cannot be opened: reading its
 * tokenizer says why. */
int tokenizer_gguf_is(const char *path);
/* Makes the tokenizer.json and the tokenizer_config.json that a folder would have: either may be
 * NULL. The caller decrefs both. The config has the chat template. */
int tokenizer_gguf_read(json_t **root, json_t **config, const char *path, struct err *err);

/* ---- shared by tokenizer_gguf.c and tokenizer_gguf_write.c; for these files alone ---- */

/* Types of tokens, by their numbers in the file. */
enum { GGUF_TOKEN_NORMAL = 1, GGUF_TOKEN_UNKNOWN, GGUF_TOKEN_CONTROL, GGUF_TOKEN_USER,
       GGUF_TOKEN_UNUSED, GGUF_TOKEN_BYTE };

/* A way in which a byte-level BPE splits texts, by llama.cpp's names (tokenizer.ggml.pre). */
struct gguf_split {
    const char *names[8];  // the first is written, all are read
    const char *pattern;   // split_pattern_named
    const char *runs[2];   // expressions of runs that are taken out first (split_run_find)
    int         nfc, ignores_merges, begins; // begins: a text begins with bos unless a key says no
};
const struct gguf_split *gguf_split_at(size_t i); // NULL past the last
/* The text of SentencePiece's mark for a space. */
#define GGUF_MARK "\xE2\x96\x81"
