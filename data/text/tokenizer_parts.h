/* tokenizer_parts.h: declarations shared by the tokenizer's files and bpe_train.c. No other file
 * includes it.
 *
 * tokenizer.c has the part common to all kinds of models, and encodes. A kind of model (a struct
 * model_ops) has its own file: tokenizer_bpe.c, tokenizer_wordpiece.c. tokenizer_file.c loads
 * and saves. tokenizer_settings.c reads the settings of tokenizer.json, and tokenizer_config.c
 * the changes by tokenizer_config.json. tokenizer_added.c reads the added tokens,
 * tokenizer_template.c the template around a text. tokenizer_decode.c decodes. tokenizer_pair.c
 * and tokenizer_vocab_txt.c read older files, for which tokenizer_json.c makes what they lack. */
#pragma once

#include "data/text/heap.h"
#include "data/text/pretoken.h"
#include "data/text/tokenizer.h"

#include <jansson.h>

#define TOKENIZER_MAX_VOCAB ((size_t)1 << 20)
#define TOKENIZER_MAX_BYTES 65535u // bytes of one token

struct token_entry {
    char    *bytes; // NULL: no token has this id
    char    *shown; // added and normalized, where that changes it: what it decodes to; else NULL
    uint32_t n_shown;
    uint32_t n;
    char     raw; // its bytes stand in the files as they are, not mapped to printable code points
    char     listed;     // in the model's vocabulary
    char     added;      // matched literally, before anything else
    char     normalized; // added, and looked for in what the others leave
    char     special;    // added, and Hugging Face calls it special: skipped with those
    char     control;    // added, and not a part of texts: special, or it looks so
    char     lstrip, rstrip, single_word; // added: what stands beside it (pretoken.h)
};

struct merge { uint32_t left, right, id; };           // ids of a pair and of the merged token
struct merge_slot { uint64_t pair; uint32_t rank; }; // pair: left << 32 | right
#define NO_PAIR UINT64_MAX

/* How ids are decoded. Strings belong to the JSON that they were read from. */
enum decoder_kind { DECODER_BYTES, DECODER_WORDPIECE, DECODER_MARKS, DECODER_STEPS, DECODERS };
enum { MAX_REPLACES = 4 };
struct decoder {
    enum decoder_kind kind;
    const char       *mark;    // WORDPIECE: before a token that goes on; MARKS: for a space
    int               cleanup; // WORDPIECE: no space before punctuation
    int               drop;    // MARKS: the first token's are dropped
    // STEPS:
    struct { const char *from, *to; } replaces[MAX_REPLACES];
    size_t      n_replaces;
    int         bytes;  // <0x41> is decoded as a byte
    const char *strip;  // so many of these characters at the beginning go
    size_t      strips;
};

enum {
    MAX_STEPS = 8,
    MAX_NORMALIZERS = 16,
    MAX_GROWTH = 1024, // bytes that a normalizer may make of one character
};
/* What tokenizer.json says besides: of its parsed `root`, which must live as long. */
struct tokenizer_settings {
    const json_t           *root, *template; // template: NULL, or the step that puts one
    const struct model_ops *model;
    struct split_config     split;
    struct normalizer_step  steps[MAX_NORMALIZERS];
    size_t                  n_steps;
    const json_t           *bert; // the BertNormalizer among them, or NULL
    struct decoder          decoder;
    // the model's:
    const char *unk, *prefix; // unk: NULL: there is none; prefix: of a token that goes on
    size_t      max_chars;    // of a word
    int         ignore_merges, byte_fallback, fuse_unk;
    int         of_pair; // they are those of vocab.json and merges.txt
    // of tokenizer_config.json:
    int cut_left, split_specials; // what is too long is cut at its beginning; no special token is
                                  // found in a text
};

struct tokenizer;
struct model_ops {
    const char *type;     // its name in tokenizer.json
    const char *known;    // which pre_tokenizers go with it, in words
    unsigned    splits;   // the same: a bit for each split_kind
    unsigned    decoders; // which decoders: a bit for each decoder_kind
    int         mapped;   // token names are bytes mapped to printable code points
    int         merges;
    /* Reads the model's part of tokenizer.json. Unknown content is refused. */
    int (*read)(struct tokenizer_settings *s, const json_t *model, const char *path,
                struct err *err);
    /* Prepares encoding, once all tokens and merges are set. s NULL: as in GPT-2. */
    int (*complete)(struct tokenizer *t, const struct tokenizer_settings *s, const char *what,
                    struct err *err);
    /* Appends the ids of a pre-token of n > 0 bytes to out, which has room for n more. covers, if
     * not NULL, has room for n: the bytes of the pre-token that each id stands for. */
    int (*encode)(struct tokenizer *t, const char *bytes, size_t n, struct token_buf *out,
                  struct token_span *covers, struct err *err);
};
extern const struct model_ops model_bytes, model_marks, model_wordpiece;

struct word_cache; // pre-token -> ids
struct symbol {    // of a word that is being merged
    int32_t  id;
    uint32_t rank; // of the pair (this, next)
    uint32_t prev, next;
};

/* The template's ids around one text, or two, and the types of all ids (BERT's segments). */
struct tokenizer_template {
    struct token_buf ids[TOKENIZER_PLACES], types[TOKENIZER_PLACES];
    int32_t          text_types[2];
};

struct tokenizer {
    const struct model_ops *model;
    const struct tokenizer *of; // whose tables a copy borrows; NULL: they are its own
    struct pretoken        *pre;
    struct token_entry     *entries;
    size_t                  n; // ids are below this
    struct merge           *merges; // by rank
    size_t                  n_merges;
    struct merge_slot      *table; // open addressing by pair
    size_t                  mask;
    int32_t                 byte_id[256]; // -1: none
    struct word_cache      *cache;
    struct symbol          *symbols;
    size_t                  cap;  // of them
    struct heap             heap; // pairs of the word: rank << 32 | position
    int                     ignore_merges; // a pre-token that is a token is not merged
    int32_t                *words; // ids by their bytes, open addressing; -1: free; NULL: no need
    size_t                  words_mask;
    int32_t                 unk, end, masks; // -1: none
    int                     fuse_unk;
    char                   *piece; // WordPiece: the prefix, and room for the rest of a word
    size_t                  n_prefix, max_chars, longest; // bytes of the longest token
    int                     has_template, cut_left, split_specials;
    struct tokenizer_template template[2]; // of one text, of two
    struct decoder          decoder;
    json_t                 *said;  // tokenizer.json without vocabulary and added tokens; NULL:
                                   // GPT-2's way
    json_t                 *roles; // bos_token and its kin, as the files have them; NULL: unsaid
};

/* The id of the added token that the files name as `role`, such as bos_token, or -1. */
int32_t tokenizer_role(const struct tokenizer *t, const char *role);

/* GPT-2's bytes in the order of their ids; the code point that stands for each byte in the files,
 * and the byte that a code point stands for, or -1. */
#define CODE_POINTS 324u // 256, and for the 68 bytes that are not printable one each behind them
struct byte_map { unsigned char order[256]; uint16_t code_point[256]; int16_t byte[CODE_POINTS]; };
void byte_map_make(struct byte_map *m);
/* Returns the name of a token as written in the files; caller frees. NULL: no memory. */
char *name_encode(const struct byte_map *m, const struct token_entry *e);
/* Returns the merge of this rank as a line of merges.txt, "left right"; caller frees. NULL: no
 * memory. */
char *merge_encode(const struct byte_map *m, const struct tokenizer *t, size_t rank);
/* Writes the bytes of name[0..n) to out, which has room for n. Returns their number, or -1 if a
 * character of the name is not a mapped byte. */
long name_decode(const struct byte_map *m, const char *name, size_t n, char *out);
/* Returns the one or two files (then NULL) from which tokenizer_open reads the tokenizer in dir.
 * NULL: there are none. */
const char *const *tokenizer_form(const char *dir);
/* What makes tokenizer.json in dir, up to what Python needs for it besides and a bracket. */
enum { TOKENIZER_COMMAND = 400 };
void tokenizer_command(char out[TOKENIZER_COMMAND], const char *dir);

static inline size_t pair_hash(uint64_t pair)
{
    return (size_t)(pair * 0x9e3779b97f4a7c15u >> 32);
}

/* Building: an empty tokenizer for n ids and n_merges merges (s NULL: in GPT-2's way); its tokens;
 * its merges by rank; then complete (a tokenizer that is not complete may only be closed). `what`
 * names the file in a sentence. */
int tokenizer_new(struct tokenizer **out, size_t n, size_t n_merges,
                  const struct tokenizer_settings *s, struct err *err);
int tokenizer_set(struct tokenizer *t, size_t id, const char *bytes, size_t n, int raw,
                  const char *what, struct err *err);
struct added_token {
    const char *content;
    json_int_t  id;
    int         normalized, special, lstrip, rstrip, single_word;
};
int  tokenizer_set_added(struct tokenizer *t, const struct added_token *a, const char *what,
                         struct err *err);
void tokenizer_set_merge(struct tokenizer *t, size_t rank, struct merge m);
int  tokenizer_complete(struct tokenizer *t, const struct tokenizer_settings *s, const char *what,
                        struct err *err);

/* For kinds of models. words_make builds the table of the vocabulary's tokens by their bytes.
 * words_find returns the id of a token, the first if several have these bytes, or -1. merge_find
 * returns the rank of a pair. */
int                words_make(struct tokenizer *t, struct err *err);
int32_t            words_find(const struct tokenizer *t, const char *bytes, size_t n);
struct merge_slot *merge_find(const struct tokenizer *t, uint64_t pair); // or the free one for it

/* Checks that only the named members of an object are set; others must ask for nothing. Each
 * name in `known` follows its kind and a space: b true or false, s string, i whole number, *
 * anything. */
int members_check(const json_t *object, const char *const *known, const char *where,
                  const char *path, struct err *err);

/* Read them, or refuse by its name what is not computed here; then make a tokenizer that has all
 * its tokens follow them. */
int tokenizer_settings_read(struct tokenizer_settings *s, const json_t *root, const char *path,
                            struct err *err);
int tokenizer_settings_apply(struct tokenizer *t, const struct tokenizer_settings *s,
                             const char *path, struct err *err);
int tokenizer_template_read(struct tokenizer *t, const json_t *step, const char *path,
                            struct err *err);

/* The added tokens of a folder, in the order of their naming: by tokenizer.json (`root`, parsed
 * from `path`) and by the files beside it; `roles` (or NULL) has bos_token and its kin where no
 * file names them. `vocab` is token -> id, all of them ids. Caller frees, also after an error. */
struct added_tokens {
    struct added_token *list;
    size_t              n, cap;
    json_t             *roles; // bos_token and its kin
};
struct added_from {
    const char   *dir, *path;
    const json_t *config; // tokenizer_config.json, or NULL
    const json_t *root, *vocab, *roles;
};
/* Returns the content of a token, which a file stores as a text or as an object's member. NULL:
 * v is neither. */
static inline const char *token_content(const json_t *v)
{
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}
int  added_tokens_read(struct added_tokens *a, const struct added_from *from, struct err *err);
void added_tokens_free(struct added_tokens *a);
/* Returns the added token with this content, or NULL. */
struct added_token *added_tokens_find(const struct added_tokens *a, const char *content);

/* What tokenizer_config.json changes of the settings, and of `root`, which they were read from; or
 * refuse by its name what is not computed here. */
int tokenizer_config_apply(struct tokenizer_settings *s, json_t *root,
                           const struct added_tokens *added, const json_t *config, const char *dir,
                           struct err *err);
/* Refuses fix_mistral_regex where transformers would split by another expression than
 * tokenizer.json's: with more than 100,000 tokens, and by the config.json beside it. */
int tokenizer_config_mends(const struct tokenizer_settings *s, size_t vocab, const json_t *config,
                           const char *dir, struct err *err);

/* A tokenizer.json made of vocab.json (first) and merges.txt (second), and the special tokens that
 * count where no file names one, by the class of the tokenizer. config: tokenizer_config.json in
 * dir, or NULL. Caller decrefs both. */
int pair_read(json_t **root, json_t **roles, const json_t *config, const char *dir,
              const char *first, const char *second, struct err *err);

/* Make GPT-2's tokenizer.json without its model, its model without tokens, and the step of a
 * pre_tokenizer that splits by an expression. */
json_t *tokenizer_said_make(void);
json_t *tokenizer_model_make(void);
json_t *tokenizer_split_make(const char *expression);
/* Makes a TemplateProcessing of the special tokens before and behind each text, with their ids.
 * Each may be NULL. */
json_t *tokenizer_template_make(const char *const around[2], const json_int_t ids[2]);

/* Makes a tokenizer.json of BERT's older files: vocab.txt (`path`), and tokenizer_config.json in
 * dir (`config`, or NULL). Caller decrefs *root. */
int vocab_txt_read(json_t **root, const json_t *config, const char *dir, const char *path,
                   struct err *err);
