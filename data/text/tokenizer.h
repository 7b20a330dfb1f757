/* tokenizer.h: the tokenizers of Hugging Face's model folders. There are three kinds:
 *   byte-level BPE (Radford et al. 2019): GPT-2, RoBERTa, Llama 3, Qwen2, each with its expression;
 *   BPE of characters, with a mark for a space and bytes for unknown characters (SentencePiece):
 *     Llama 2, Mistral, Gemma;
 *   WordPiece: BERT.
 * Normalizers, added tokens, and templates of special tokens around one or two texts are
 * supported.
 *
 * It reads tokenizer.json. Otherwise it reads vocab.json + merges.txt (or encoder.json +
 * vocab.bpe), whose meaning depends on the tokenizer's class, or BERT's vocab.txt next to
 * tokenizer_config.json. Added tokens may come from these or from the files next to them. The
 * ids of any text, and the text of any ids, are those of Hugging Face.
 *
 * Unless a comment says otherwise, an int result is 0, or -errno with a sentence in `err`. */
#pragma once

#include "data/base/err.h"
#include "data/json/json.h"
#include "data/text/origin.h"

#define TOKENIZER_FILE_MAX ((size_t)256 << 20) // bytes of one of its files, at most

struct tokenizer;

/* Opens the tokenizer in the folder `dir`; the caller closes it. tokenizer_config.json,
 * special_tokens_map.json and added_tokens.json have the effect that they have in transformers.
 * Unsupported features (a model other than BPE and WordPiece, another normalizer, ...) are
 * refused by name. Settings for padding are ignored. Returns -ENOTSUP if nothing says how a
 * vocab.json with merges.txt splits a text; the user can then say it. */
int  tokenizer_open(struct tokenizer **out, const char *dir, struct err *err);
/* Returns whether a folder has a tokenizer, even one that tokenizer_open refuses by its name
 * (tokenizer.model without a tokenizer.json). */
int  tokenizer_is_there(const char *dir);
/* Refuses, as tokenizer_open does, a path that is not a folder or has none of the files to begin
 * with. */
int  tokenizer_expect(const char *dir, struct err *err);
/* Copies the tokenizer's class from config.json in `from` into tokenizer_config.json in `to`.
 * The folder `to` has copies of the tokenizer's files only. Nothing is written if those files
 * already give the class. */
int tokenizer_keep_class(const char *from, const char *to, struct err *err);
/* Makes a tokenizer from training. `merges` holds n_merges pairs of ids in order of rank. Ids
 * 0..255 are the bytes in GPT-2's order, id 256 + r is merge r, and the last id is
 * <|endoftext|>. */
int tokenizer_from_merges(struct tokenizer **out, const uint32_t (*merges)[2], size_t n_merges,
                          struct err *err);
void tokenizer_close(struct tokenizer *t);
/* Opens a tokenizer that shares the vocabulary of `t`, for another thread. It takes about 5 MB. The
 * caller closes it before `t`. */
int  tokenizer_copy(struct tokenizer **out, const struct tokenizer *t, struct err *err);

/* Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json into dir, which is
 * made if missing. A byte-level BPE also gets vocab.json and merges.txt. Each file is written
 * under a temporary name and renamed. */
int tokenizer_save(const struct tokenizer *t, const char *dir, struct err *err);

/* Returns the name of the i-th file that a tokenizer's folder may have, or NULL past the last. */
const char *tokenizer_file(size_t i);
/* Copies these files from the folder `from` into the folder `to`; links are followed. A file is
 * copied only if it certainly is the file that the tokenizer there uses. Otherwise it is
 * refused. If the tokenizer is not read from that file, it is left out, and notice[0..size) says
 * so. */
int tokenizer_take(const char *from, const char *to, char *notice, size_t size, struct err *err);

/* Returns whether both tokenizers merge the same pairs of ids in the same order. */
int tokenizer_same_merges(const struct tokenizer *a, const struct tokenizer *b);

/* Returns a checksum of the tokenizer as a model sees it: the bytes of its ids, and its merges
 * in order. */
uint32_t tokenizer_sum(const struct tokenizer *t);

size_t tokenizer_vocab(const struct tokenizer *t); // number of ids, added tokens included
/* Returns the token that a tokenizer's file calls `role`, such as bos_token, or NULL if it names
 * none. */
const char *tokenizer_role_name(const json_t *roles, const char *role);
/* Returns the id that ends a text: the added token that tokenizer_config.json (or
 * special_tokens_map.json) names as eos_token. If there is no such name, returns the first of
 * <|endoftext|>, <|end_of_text|>, </s> and <eos> that exists, or -1. */
int32_t tokenizer_endoftext(const struct tokenizer *t);
/* Returns the id that begins a text, named bos_token there, or -1. */
int32_t tokenizer_begin(const struct tokenizer *t);
/* Returns the id for padding, named pad_token there, if it is below `vocab`. Otherwise returns
 * the id that ends a text. */
int32_t tokenizer_pad(const struct tokenizer *t, size_t vocab);
/* Returns the id of the mask token (BERT's [MASK]), named mask_token there, or else [MASK] or
 * <mask>, or -1. */
int32_t tokenizer_mask(const struct tokenizer *t);

/* Appends the ids of text[0..n) to a growing array. The literal of an added token
 * (<|endoftext|>) is one id. Bytes that are not UTF-8 are encoded as bytes by a byte-level BPE,
 * and where bytes have tokens (<0x41>). Otherwise they are unknown, or removed with invisible
 * characters. */
struct token_buf { int32_t *ids; size_t n, cap; };
int  tokenizer_encode(struct tokenizer *t, const char *text, size_t n, struct token_buf *out,
                      struct err *err);
/* As tokenizer_encode, and appends to `spans` which bytes of the text each id comes from. Where a
 * normalizer combines characters, an id has all bytes of those; a mark that is put before a text
 * has the bytes of the character behind it; special tokens have the white space that they take
 * along. Ids of parts of one character may overlap, and bytes that the normalizer removes belong to
 * no id.
 *
 * Ranges of bytes may be plain, such as what a user wrote: no control token is found where it
 * overlaps them. All other text, plain or not, is one text as ever. */
struct token_spans {
    struct token_span *list;
    size_t             n, cap;
    // control tokens that plain bytes of the latest text spell (some may be counted twice), and
    // one of these
    size_t  spelled;
    int32_t spelled_id;
};
struct token_source {
    const char              *text;
    size_t                   n;
    const struct token_span *plain; // in order
    size_t                   n_plain;
};
int  tokenizer_encode_spans(struct tokenizer *t, const struct token_source *s,
                            struct token_buf *out, struct token_spans *spans, struct err *err);
void token_spans_free(struct token_spans *s);
/* Returns whether an id is a control token: an added token that the files call special, or that
 * looks like one (<|user|>): some models' files do not call theirs special, and llama.cpp decides
 * in this way, too. The id of what is unknown is none. */
int  tokenizer_is_control(const struct tokenizer *t, int32_t id);
int  token_buf_add(struct token_buf *b, const int32_t *ids, size_t n, struct err *err);
void token_buf_free(struct token_buf *b);

/* Encodes a text in pieces of any size, such as a file larger than memory. Feed them in order,
 * with `last` set for the last one, which may be empty; then another text can begin. The ids are
 * those of the whole text: a piece is split only where no pre-token can span. Memory is bounded
 * unless a single pre-token exceeds the bound. */
int tokenizer_feed(struct tokenizer *t, const char *text, size_t n, int last,
                   struct token_buf *out, struct err *err);

/* Returns the first place in text[from..n), from > 0, where a text may be cut so that the ids of
 * both parts, encoded alone, are those of the whole. 0: there is none, or none is proven for a
 * tokenizer of this kind. */
size_t tokenizer_place(const struct tokenizer *t, const char *text, size_t n, size_t from);

/* The special tokens that the tokenizer's template (its post_processor) puts around a text; none
 * without a template. encode and feed do not add them. They are owned by t. BETWEEN is for pairs
 * of texts only. */
enum tokenizer_place { TOKENIZER_BEFORE, TOKENIZER_BETWEEN, TOKENIZER_BEHIND, TOKENIZER_PLACES };
int tokenizer_has_template(const struct tokenizer *t);
const struct token_buf *tokenizer_around(const struct tokenizer *t, enum tokenizer_place place);
/* Appends the ids of a place to `out`. */
int tokenizer_put(const struct tokenizer *t, enum tokenizer_place place, struct token_buf *out,
                  struct err *err);
/* The ids are those of BEFORE, and then a text's. If the text spells them itself, as one that a
 * template has rendered does, one of both goes. Returns how many are still there that the text does
 * not spell. */
size_t tokenizer_begin_once(const struct tokenizer *t, struct token_buf *ids);

/* Reads a file of the folder, or GGUF file, `dir` that supplements its tokenizer, such as
 * tokenizer_config.json. *out is NULL if it does not exist. Caller decrefs *out, and frees *path,
 * the file's path for sentences (path may be NULL). */
int tokenizer_companion(json_t **out, char **path, const char *dir, const char *name,
                        struct err *err);
/* Sets *out to the default length at which the tokenizer in `dir` truncates rows
 * (tokenizer_config.json's model_max_length), or 0 if there is none. */
int tokenizer_max_length(size_t *out, const char *dir, struct err *err);
/* Returns whether a text that is too long is truncated at its beginning (truncation_side
 * "left"). */
int tokenizer_cuts_left(const struct tokenizer *t);

/* Encodes one text, or a pair (b not NULL), with the template around it, and appends the ids. If
 * `types` is not NULL, the type of each id is appended to it: BERT's segments, or without a
 * template 0 for a and 1 for b.
 *
 * If there would be more than `most` ids (0: any number), the texts are truncated at their ends,
 * or at their beginnings with truncation_side "left". The longer text is truncated first, as by
 * transformers' "longest_first". If the template alone is too long, returns -EINVAL. */
struct token_row { const char *a, *b; size_t n_a, n_b, most; };
int tokenizer_encode_row(struct tokenizer *t, const struct token_row *row, struct token_buf *ids,
                         struct token_buf *types, struct err *err);

/* Decodes ids that come one by one. The texts together are what Hugging Face's decode makes of
 * all ids. The zero state begins a text. text[0..n) is final: the caller may take it and set n
 * to 0. Bytes that depend on later ids, such as an incomplete character, are kept back. The text
 * is valid UTF-8; invalid bytes become U+FFFD. */
struct token_text {
    char *text; // not terminated
    size_t n, cap;
    // private to tokenizer_decode.c:
    char  *held, *piece;
    size_t n_held, held_cap, piece_cap, tokens, stripped;
    int    begun;
};
/* Adds an id. With `skip`, special tokens are left out. An id without a token has no text. */
int  tokenizer_text_add(const struct tokenizer *t, struct token_text *x, int32_t id, int skip,
                        struct err *err);
/* Ends the text. Bytes that were kept back become text. */
int  tokenizer_text_end(const struct tokenizer *t, struct token_text *x, struct err *err);
/* Makes the next ids continue the text of these ids, whose own text is not returned. */
int  tokenizer_text_behind(const struct tokenizer *t, struct token_text *x, const int32_t *ids,
                           size_t n, struct err *err);
void token_text_free(struct token_text *x);

/* Returns the bytes of one id as the vocabulary has them, or NULL for an id out of range. They
 * are not NUL-terminated, and owned by t. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n);
