/* tokenizer.h: the tokenizers of Hugging Face's folders: byte-level BPE (Radford et al. 2019;
 * GPT-2, RoBERTa, Llama 3, Qwen2, each with its expression), BPE of characters with a mark for a
 * space and bytes for what is unknown (SentencePiece's: Llama 2, Mistral, Gemma), WordPiece (BERT),
 * with normalizers, added tokens, and templates of special tokens around a text or two. Reads
 * tokenizer.json, or vocab.json + merges.txt (or encoder.json + vocab.bpe) by the class of the
 * tokenizer, or BERT's vocab.txt beside tokenizer_config.json, with the added tokens that these and
 * the files beside them name.
 * Gives Hugging Face's ids on any text, and its text of any ids. */
#pragma once

#include "data/base/err.h"
#include "data/base/json.h"

#define TOKENIZER_FILE_MAX ((size_t)256 << 20) // bytes of one of its files, at most

struct tokenizer;

/* dir: a folder with the files above; tokenizer_config.json, special_tokens_map.json and
 * added_tokens.json count as they do for transformers. What is not computed here (a model
 * that is no BPE nor WordPiece, another normalizer, ...) is refused by its name. How rows are
 * padded is ignored. -ENOTSUP: nothing says how a pair of vocab.json
 * and merges.txt cuts a text, which its user can say. */
int  tokenizer_open(struct tokenizer **out, const char *dir, struct err *err);
/* Whether a folder has a tokenizer, be it of a kind that tokenizer_open refuses by its name
 * (tokenizer.model without a tokenizer.json). */
int  tokenizer_is_there(const char *dir);
/* Refuse, as tokenizer_open does, what is no folder or has no file that it begins with. */
int  tokenizer_expect(const char *dir, struct err *err);
/* What config.json in `from` says of the tokenizer's class, into tokenizer_config.json in `to`,
 * which has copies of the tokenizer's files alone: where these do not say it themselves. */
int tokenizer_keep_class(const char *from, const char *to, struct err *err);
/* From training: `n_merges` pairs of ids in order of rank; ids 0..255 are the bytes in GPT-2's
 * order, id 256 + r is merge r, the last id is <|endoftext|>. */
int tokenizer_from_merges(struct tokenizer **out, const uint32_t (*merges)[2], size_t n_merges,
                          struct err *err);
void tokenizer_close(struct tokenizer *t);

/* Write tokenizer.json, tokenizer_config.json and special_tokens_map.json into dir (made if
 * missing), of a byte-level BPE vocab.json and merges.txt too, each under a temporary name and
 * renamed. */
int tokenizer_save(const struct tokenizer *t, const char *dir, struct err *err);

/* The name of the i-th file that a tokenizer's folder may have; NULL past the last. */
const char *tokenizer_file(size_t i);
/* Copy those of the folder `from` into the folder `to`, links followed: each only if it is
 * certainly what its name says, as the tokenizer there has it. Else it is refused or, where the
 * tokenizer is not read from it, left out, which notice[0..size) says. */
int tokenizer_take(const char *from, const char *to, char *notice, size_t size, struct err *err);

/* Whether both tokenizers merge the same pairs of ids in the same order. */
int tokenizer_same_merges(const struct tokenizer *a, const struct tokenizer *b);

/* A checksum of what it is to a model: the words of its ids, and its merges in their order. */
uint32_t tokenizer_sum(const struct tokenizer *t);

size_t tokenizer_vocab(const struct tokenizer *t); // number of ids, added tokens included
/* What a tokenizer's file calls bos_token or its kin; NULL: it names none. */
const char *tokenizer_role_name(const json_t *roles, const char *role);
/* The id that ends a text: the added token that tokenizer_config.json (or special_tokens_map.json)
 * names as eos_token, else <|endoftext|>, <|end_of_text|>, </s> or <eos>, whichever there is; -1:
 * none. */
int32_t tokenizer_endoftext(const struct tokenizer *t);
/* The one that begins a text: what is named bos_token there; -1: nothing is. */
int32_t tokenizer_begin(const struct tokenizer *t);
/* The one that rows are padded with: what is named pad_token there, if its id is below `vocab`;
 * else the one that ends a text. */
int32_t tokenizer_pad(const struct tokenizer *t, size_t vocab);
/* The one that stands for a token to be found (BERT's [MASK]): what is named mask_token there, else
 * [MASK] or <mask>; -1: none. */
int32_t tokenizer_mask(const struct tokenizer *t);

/* Ids of text[0..n) appended to a growing array. The literal of an added token (<|endoftext|>) is
 * one id. Bytes that are not UTF-8 are themselves to a byte-level BPE and where bytes have tokens
 * (<0x41>); else they are unknown, or cleaned away with what cannot be seen. */
struct token_buf { int32_t *ids; size_t n, cap; };
int  tokenizer_encode(struct tokenizer *t, const char *text, size_t n, struct token_buf *out,
                      struct err *err);
int  token_buf_add(struct token_buf *b, const int32_t *ids, size_t n, struct err *err);
void token_buf_free(struct token_buf *b);

/* A text in pieces of any size (a file larger than memory): feed them in order, the last one, which
 * may be empty, as such; then another text can begin. The ids are those of the whole text at once:
 * a piece is cut only where no pre-token can span. Uses bounded memory unless a single pre-token
 * exceeds it. */
int tokenizer_feed(struct tokenizer *t, const char *text, size_t n, int last,
                   struct token_buf *out, struct err *err);

/* What the tokenizer's template (its post_processor) puts around a text; no ids where there is no
 * template. Neither encode nor feed do it. Owned by t. (BETWEEN is of two texts alone.) */
enum tokenizer_place { TOKENIZER_BEFORE, TOKENIZER_BETWEEN, TOKENIZER_BEHIND, TOKENIZER_PLACES };
int tokenizer_has_template(const struct tokenizer *t);
const struct token_buf *tokenizer_around(const struct tokenizer *t, enum tokenizer_place place);
/* Its ids behind those of `out`. */
int tokenizer_put(const struct tokenizer *t, enum tokenizer_place place, struct token_buf *out,
                  struct err *err);

/* The length at which the tokenizer in `dir` cuts rows where nobody says another one
 * (tokenizer_config.json's model_max_length); 0: it does not say. */
int tokenizer_max_length(size_t *out, const char *dir, struct err *err);
/* Whether what is too long is cut at its beginning (truncation_side "left"). */
int tokenizer_cuts_left(const struct tokenizer *t);

/* One text, or a pair (b not NULL), with the template around: ids, and where `types` is not NULL
 * the type of each (BERT's segments; 0 and 1 for a and b where there is no template), behind those
 * that are there. Where they would be more than `most` (0: any number), the texts are cut at their
 * ends (or, with truncation_side "left", at their beginnings), the longer one first, as
 * transformers' truncation "longest_first" does; -EINVAL where the
 * template alone is more. */
struct token_row { const char *a, *b; size_t n_a, n_b, most; };
int tokenizer_encode_row(struct tokenizer *t, const struct token_row *row, struct token_buf *ids,
                         struct token_buf *types, struct err *err);

/* Text of ids that come one by one: all of it together is what Hugging Face's decode makes of all
 * ids. The zero state begins a text; text[0..n) is final, and the caller may take it and set n to
 * 0. What depends on ids to come is kept back: bytes of a character that is not whole yet. Always
 * valid UTF-8: what is none is U+FFFD. */
struct token_text {
    char *text; // not terminated
    size_t n, cap;
    // of tokenizer_decode.c:
    char  *held, *piece;
    size_t n_held, held_cap, piece_cap, tokens, stripped;
    int    begun;
};
/* skip: special tokens are left out. An id without a token has no text. */
int  tokenizer_text_add(const struct tokenizer *t, struct token_text *x, int32_t id, int skip,
                        struct err *err);
/* No more comes: what was kept back becomes text. */
int  tokenizer_text_end(const struct tokenizer *t, struct token_text *x, struct err *err);
/* What comes now goes on behind these ids, whose own text is not wanted. */
int  tokenizer_text_behind(const struct tokenizer *t, struct token_text *x, const int32_t *ids,
                           size_t n, struct err *err);
void token_text_free(struct token_text *x);

/* Bytes of one id (not NUL-terminated, owned by t), as the vocabulary has them; NULL for an id out
 * of range. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n);
