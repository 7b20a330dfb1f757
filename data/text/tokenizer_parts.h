/* tokenizer_parts.h: what the files of the tokenizer (tokenizer.c encodes, tokenizer_file.c loads
 * and saves, tokenizer_settings.c knows what the file asks for, tokenizer_added.c the added tokens)
 * and bpe_train.c share; nobody else includes it. */
#pragma once

#include "data/text/heap.h"
#include "data/text/pretoken.h"
#include "data/text/tokenizer.h"

#include <jansson.h>

#define TOKENIZER_MAX_VOCAB ((size_t)1 << 20)
#define TOKENIZER_MAX_BYTES 65535u // of one token

struct token_entry {
    char    *bytes; // NULL: no token has this id
    uint32_t n;
    char     raw; // its bytes stand in the files as they are, not mapped to printable code points
    char     added;      // matched literally, before anything else
    char     normalized; // added, and looked for in what the others leave
    char     special;    // added, and Hugging Face calls it special: skipped with those
};

struct merge { uint32_t left, right, id; };           // the ids of a pair, and of their union
struct merge_slot { uint64_t pair; uint32_t rank; }; // pair: left << 32 | right
#define NO_PAIR UINT64_MAX

/* What tokenizer.json says besides: of its parsed `root`, which must live as long. */
struct tokenizer_settings {
    const json_t                  *root, *template; // template: NULL, or a TemplateProcessing
    const struct pretoken_pattern *pattern;         // NULL: GPT-2's
    int                            ignore_merges;
    int                            nfc; // text is normalized
};

struct word_cache; // pre-token -> ids
struct symbol {    // of a word that is being merged
    int32_t  id;
    uint32_t rank; // of the pair (this, next)
    uint32_t prev, next;
};

struct tokenizer {
    struct pretoken    *pre;
    struct token_entry *entries;
    size_t              n; // ids are below this
    struct merge       *merges; // by rank
    size_t              n_merges;
    struct merge_slot  *table; // open addressing by pair
    size_t              mask;
    int32_t             byte_id[256];
    struct word_cache  *cache;
    struct symbol      *symbols;
    size_t              cap;  // of them
    struct heap         heap; // of the word's pairs: rank << 32 | position
    int                 ignore_merges; // a pre-token that is a token is that
    int32_t            *words;         // then: their ids, open addressing by their bytes; -1: free
    size_t              words_mask;
    int                 has_template;
    struct token_buf    around[TOKENIZER_PLACES];
    json_t             *said; // tokenizer.json without model and added tokens; NULL: GPT-2's way
};

/* GPT-2's bytes in the order of their ids; the code point that stands for each byte in the files,
 * and the byte that a code point stands for, or -1. */
#define CODE_POINTS 324u // 256, and for the 68 bytes that are not printable one each behind them
struct byte_map { unsigned char order[256]; uint16_t code_point[256]; int16_t byte[CODE_POINTS]; };
void byte_map_make(struct byte_map *m);

uint64_t word_hash(const char *bytes, size_t n);

/* Building: an empty tokenizer for n ids and n_merges merges (s NULL: in GPT-2's way); its tokens;
 * its merges by rank; then complete (a tokenizer that is not complete may only be closed). `what`
 * names the file in a sentence. */
int tokenizer_new(struct tokenizer **out, size_t n, size_t n_merges,
                  const struct tokenizer_settings *s, struct err *err);
int tokenizer_set(struct tokenizer *t, size_t id, const char *bytes, size_t n, int raw,
                  const char *what, struct err *err);
struct added_token { const char *content; json_int_t id; int normalized, special; };
int  tokenizer_set_added(struct tokenizer *t, const struct added_token *a, const char *what,
                         struct err *err);
void tokenizer_set_merge(struct tokenizer *t, size_t rank, struct merge m);
int  tokenizer_complete(struct tokenizer *t, struct err *err);

/* Read them, or refuse by its name what is not computed here; then make a tokenizer that has all
 * its tokens follow them. */
int tokenizer_settings_read(struct tokenizer_settings *s, const json_t *root, const char *path,
                            struct err *err);
int tokenizer_settings_apply(struct tokenizer *t, const struct tokenizer_settings *s,
                             const char *path, struct err *err);

/* The added tokens of a folder, in the order of their naming: by tokenizer.json (`root`, parsed
 * from `path`; NULL: the folder has the older pair of files) and by the files beside it. `vocab` is
 * token -> id, all of them ids. Caller frees, also after an error. */
struct added_tokens { struct added_token *list; size_t n, cap; };
int added_tokens_read(struct added_tokens *a, const char *dir, const char *path, const json_t *root,
                      const json_t *vocab, struct err *err);
void added_tokens_free(struct added_tokens *a);
