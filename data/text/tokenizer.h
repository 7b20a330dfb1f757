/* tokenizer.h: byte-level BPE: GPT-2's (Radford et al. 2019) and that of its successors, which have
 * other expressions (Llama 3, Qwen2), whole words that ignore the merges, and a template of
 * special tokens around a text. Pre-tokens by a regular expression (PCRE2 for \p{L} and \p{N}),
 * bytes mapped to printable code points in the files, merges by rank. Reads tokenizer.json, or
 * vocab.json + merges.txt (or encoder.json + vocab.bpe), with the added tokens that these and the
 * files beside them name, and writes a folder that transformers loads. Gives Hugging Face's ids on
 * any text. */
#pragma once

#include "data/base/err.h"

#define TOKENIZER_FILE_MAX ((size_t)256 << 20) // bytes of one of its files, at most

struct tokenizer;

/* dir: a folder with the files above; tokenizer_config.json, special_tokens_map.json and
 * added_tokens.json count as they do for transformers. What is not computed here (another
 * normalizer than NFC, lstrip, ...) is refused by its name. Truncation and padding settings are
 * ignored. */
int  tokenizer_open(struct tokenizer **out, const char *dir, struct err *err);
/* From training: `n_merges` pairs of ids in order of rank; ids 0..255 are the bytes in GPT-2's
 * order, id 256 + r is merge r, the last id is <|endoftext|>. */
int tokenizer_from_merges(struct tokenizer **out, const uint32_t (*merges)[2], size_t n_merges,
                          struct err *err);
void tokenizer_close(struct tokenizer *t);

/* Write tokenizer.json, vocab.json, merges.txt, tokenizer_config.json and special_tokens_map.json
 * into dir (made if missing), each under a temporary name and renamed. */
int tokenizer_save(const struct tokenizer *t, const char *dir, struct err *err);

size_t tokenizer_vocab(const struct tokenizer *t); // number of ids, added tokens included
/* The id that ends a text: of <|endoftext|>, else of Llama 3's <|end_of_text|>, else -1. */
int32_t tokenizer_endoftext(const struct tokenizer *t);

/* Ids of text[0..n) appended to a growing array. The literal <|endoftext|> is one id. */
struct token_buf { int32_t *ids; size_t n, cap; };
int  tokenizer_encode(struct tokenizer *t, const char *text, size_t n, struct token_buf *out,
                      struct err *err);
void token_buf_free(struct token_buf *b);

/* A text in pieces of any size (a file larger than memory): feed them in order, the last one, which
 * may be empty, as such; then another text can begin. The ids are those of the whole text at once:
 * a piece is cut only where no pre-token can span. Uses bounded memory unless a single pre-token
 * exceeds it. */
int tokenizer_feed(struct tokenizer *t, const char *text, size_t n, int last,
                   struct token_buf *out, struct err *err);

/* What the tokenizer's template (TemplateProcessing) puts around a text A, or a pair A and B; no
 * ids where there is no template. Neither encode nor feed do it. Owned by t. */
enum tokenizer_place { TOKENIZER_BEFORE, TOKENIZER_BETWEEN, TOKENIZER_BEHIND, TOKENIZER_PLACES };
int tokenizer_has_template(const struct tokenizer *t);
const struct token_buf *tokenizer_around(const struct tokenizer *t, enum tokenizer_place place);
/* Its ids behind those of `out`. */
int tokenizer_put(const struct tokenizer *t, enum tokenizer_place place, struct token_buf *out,
                  struct err *err);

/* Bytes of one id (not NUL-terminated, owned by t); NULL for an id out of range. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n);
