/* bpe_train.c: learns the merges of a byte-level BPE.
 *
 * Equal pre-tokens are one word type with a count, so the work depends on the vocabulary of the
 * text, not on its length. Each pair of neighbouring symbols has its count and the list of the word
 * types it was ever seen in (some of them stale: looking tells).
 * Pairs wait in a heap, the most frequent first. A pair's count only grows in the merge that
 * creates one of its symbols, so it is queued once then; later its count only falls, and an entry
 * that comes up with an old count is queued again with the new.
 * Divisions: the tables; counting; word types and pairs; merging. */
#include "data/text/bpe_train.h"

#include "data/base/file.h"
#include "data/text/pretoken.h"
#include "data/text/tokenizer_parts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)1 << 18)

struct word_type {
    uint64_t  count;
    uint32_t *symbols; // while counting NULL: its bytes stand in the arena
    size_t    arena;   // where
    uint32_t  n;       // bytes, later symbols
    uint32_t  hash;
};

struct pair_entry {
    uint64_t  pair;  // left << 32 | right
    int64_t   count;
    uint32_t *words; // ascending where a word was added more than once
    uint32_t  n_words, cap;
};

struct candidate { int64_t count; uint64_t pair; };

struct bpe_train {
    struct pretoken       *pre;
    struct pretoken_stream stream;
    struct err            *err; // of the call that runs
    const struct watch    *watch;
    char                  *piece;
    char                  *arena;
    size_t                 n_arena, cap_arena;
    struct word_type      *types;
    size_t                 n_types, cap_types;
    uint32_t              *type_slots; // 1 + index of the type; 0 free
    size_t                 n_type_slots;
    struct pair_entry     *pairs;
    size_t                 n_pairs, cap_pairs;
    uint32_t              *pair_slots;
    size_t                 n_pair_slots;
    struct candidate      *heap;
    size_t                 n_heap, cap_heap;
};

/* ---- growing ---- */

/* Room for `need` elements of `size` bytes at *p, of which *cap are there. */
static int grow(void *p, size_t *cap, size_t need, size_t size, struct err *err)
{
    size_t more = *cap ? *cap : 256;
    void  *old, *fresh;

    if (need <= *cap)
        return 0;
    while (more < need)
        more *= 2;
    memcpy(&old, p, sizeof old);
    fresh = realloc(old, more * size);
    if (!fresh)
        return err_set(err, -ENOMEM, "no memory for %zu bytes of tables to train a tokenizer",
                       more * size);
    memcpy(p, &fresh, sizeof fresh);
    *cap = more;
    return 0;
}

/* A cleared slot table of at least 2 * n slots in place of *slots, if it has fewer; *fresh tells.
 */
static int slots_grow(uint32_t **slots, size_t *n_slots, size_t n, int *fresh, struct err *err)
{
    size_t    want = *n_slots ? *n_slots : 1024;
    uint32_t *p;

    *fresh = 0;
    if (2 * n < *n_slots)
        return 0;
    while (want <= 2 * n)
        want *= 2;
    p = calloc(want, sizeof *p);
    if (!p)
        return err_set(err, -ENOMEM, "no memory for %zu slots to train a tokenizer", want);
    free(*slots);
    *slots = p;
    *n_slots = want;
    *fresh = 1;
    return 0;
}

/* ---- counting ---- */

static uint32_t bytes_hash(const char *bytes, size_t n)
{
    uint64_t h = n;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)bytes[i]) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h ^ h >> 32);
}

static uint32_t *type_slot(struct bpe_train *b, const char *bytes, size_t n, uint32_t hash)
{
    size_t i = hash & (b->n_type_slots - 1);

    for (;; i = (i + 1) & (b->n_type_slots - 1)) {
        const struct word_type *w;

        if (!b->type_slots[i])
            return &b->type_slots[i];
        w = &b->types[b->type_slots[i] - 1];
        if (w->hash == hash && w->n == n && !memcmp(b->arena + w->arena, bytes, n))
            return &b->type_slots[i];
    }
}

static int types_rehash(struct bpe_train *b)
{
    int fresh, rc = slots_grow(&b->type_slots, &b->n_type_slots, b->n_types + 1, &fresh, b->err);

    for (size_t k = 0; fresh && k < b->n_types; k++) {
        const struct word_type *w = &b->types[k];

        *type_slot(b, b->arena + w->arena, w->n, w->hash) = (uint32_t)k + 1;
    }
    return rc;
}

/* A pretoken_fn: count one word. */
static int count_word(void *arg, const char *bytes, size_t n, int32_t special)
{
    struct bpe_train *b = arg;
    uint32_t          hash = bytes_hash(bytes, n), *slot;
    int               rc;

    if (special >= 0)
        return 0;
    if (n > (1u << 28) || b->n_types == UINT32_MAX - 1)
        return err_misuse(b->err,
                          "a word of %zu bytes, or %zu words, are more than training can count", n,
                          b->n_types);
    rc = types_rehash(b);
    if (rc)
        return rc;
    slot = type_slot(b, bytes, n, hash);
    if (*slot) {
        b->types[*slot - 1].count++;
        return 0;
    }
    rc = grow(&b->types, &b->cap_types, b->n_types + 1, sizeof *b->types, b->err);
    if (!rc)
        rc = grow(&b->arena, &b->cap_arena, b->n_arena + n, 1, b->err);
    if (rc)
        return rc;
    memcpy(b->arena + b->n_arena, bytes, n);
    b->types[b->n_types] = (struct word_type){ .count = 1, .arena = b->n_arena, .n = (uint32_t)n,
                                               .hash = hash };
    b->n_arena += n;
    *slot = (uint32_t)++b->n_types;
    return 0;
}

int bpe_train_open(struct bpe_train **out, struct err *err)
{
    struct bpe_train *b = calloc(1, sizeof *b);
    int               rc;

    *out = NULL;
    if (!b || !(b->piece = malloc(PIECE_BYTES))) {
        bpe_train_close(b);
        return err_set(err, -ENOMEM, "no memory to train a tokenizer");
    }
    rc = pretoken_open(&b->pre, err);
    if (!rc)
        rc = pretoken_special(b->pre, "<|endoftext|>", 13, 0, 0, err);
    if (rc)
        bpe_train_close(b);
    else
        *out = b;
    return rc;
}

int bpe_train_file(struct bpe_train *b, const char *path, struct err *err)
{
    uint64_t size;
    int      fd, rc = file_open_read(path, &fd, &size, err);

    if (rc)
        return rc;
    b->err = err;
    for (uint64_t off = 0; !rc && off < size; off += PIECE_BYTES) {
        size_t n = size - off < PIECE_BYTES ? (size_t)(size - off) : PIECE_BYTES;

        rc = file_pread(fd, b->piece, n, off, path, err);
        if (!rc)
            rc = pretoken_feed(b->pre, &b->stream, b->piece, n, count_word, b, err);
        if (!rc)
            rc = watch_look(b->watch, off + n, size, err);
    }
    if (!rc)
        rc = pretoken_finish(b->pre, &b->stream, count_word, b, err);
    close(fd);
    return rc;
}

void bpe_train_watch(struct bpe_train *b, const struct watch *watch)
{
    b->watch = watch;
}

void bpe_train_close(struct bpe_train *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n_types; i++)
        free(b->types[i].symbols);
    for (size_t i = 0; i < b->n_pairs; i++)
        free(b->pairs[i].words);
    pretoken_stream_release(&b->stream);
    pretoken_close(b->pre);
    free(b->piece);
    free(b->arena);
    free(b->types);
    free(b->type_slots);
    free(b->pairs);
    free(b->pair_slots);
    free(b->heap);
    free(b);
}

/* ---- pairs ---- */

static uint32_t *pair_slot(struct bpe_train *b, uint64_t pair)
{
    size_t i = (size_t)(pair * 0x9e3779b97f4a7c15u >> 32) & (b->n_pair_slots - 1);

    while (b->pair_slots[i] && b->pairs[b->pair_slots[i] - 1].pair != pair)
        i = (i + 1) & (b->n_pair_slots - 1);
    return &b->pair_slots[i];
}

/* The entry of a pair, made if it is new. NULL: no memory. */
static struct pair_entry *pair_get(struct bpe_train *b, uint64_t pair)
{
    int       fresh;
    uint32_t *slot;

    if (slots_grow(&b->pair_slots, &b->n_pair_slots, b->n_pairs + 1, &fresh, b->err) ||
        grow(&b->pairs, &b->cap_pairs, b->n_pairs + 1, sizeof *b->pairs, b->err))
        return NULL;
    for (size_t k = 0; fresh && k < b->n_pairs; k++)
        *pair_slot(b, b->pairs[k].pair) = (uint32_t)k + 1;
    slot = pair_slot(b, pair);
    if (!*slot) {
        b->pairs[b->n_pairs] = (struct pair_entry){ .pair = pair };
        *slot = (uint32_t)++b->n_pairs;
    }
    return &b->pairs[*slot - 1];
}

/* Count the pairs of word type w, `sign` times its count, and note where they are. */
static int pairs_add(struct bpe_train *b, uint32_t w, int sign)
{
    const struct word_type *t = &b->types[w];

    for (uint32_t i = 0; i + 1 < t->n; i++) {
        struct pair_entry *p = pair_get(b, (uint64_t)t->symbols[i] << 32 | t->symbols[i + 1]);
        size_t             cap;
        int                rc;

        if (!p)
            return -ENOMEM;
        p->count += sign * (int64_t)t->count;
        if (sign < 0 || (p->n_words && p->words[p->n_words - 1] == w))
            continue;
        if (p->n_words == p->cap) {
            cap = p->cap ? 2 * (size_t)p->cap : 4;
            uint32_t *words = realloc(p->words, cap * sizeof *words);

            rc = words
                     ? 0
                     : err_set(b->err, -ENOMEM, "no memory for the pairs of %zu words", b->n_types);
            if (rc)
                return rc;
            p->words = words;
            p->cap = (uint32_t)cap;
        }
        p->words[p->n_words++] = w;
    }
    return 0;
}

/* More frequent first, then the lower pair. */
static int candidate_before(const struct candidate *a, const struct candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static int candidate_push(struct bpe_train *b, struct candidate c)
{
    size_t i;
    int    rc = grow(&b->heap, &b->cap_heap, b->n_heap + 1, sizeof *b->heap, b->err);

    if (rc)
        return rc;
    for (i = b->n_heap++; i > 0 && candidate_before(&c, &b->heap[(i - 1) / 2]); i = (i - 1) / 2)
        b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = c;
    return 0;
}

static struct candidate candidate_pop(struct bpe_train *b)
{
    struct candidate top = b->heap[0], last = b->heap[--b->n_heap];
    size_t           i = 0, child;

    for (; (child = 2 * i + 1) < b->n_heap; i = child) {
        child += child + 1 < b->n_heap && candidate_before(&b->heap[child + 1], &b->heap[child]);
        if (!candidate_before(&b->heap[child], &last))
            break;
        b->heap[i] = b->heap[child];
    }
    b->heap[i] = last;
    return top;
}

/* Queue every pair from number `first` on: those that are new. */
static int candidates_push(struct bpe_train *b, size_t first)
{
    int rc = 0;

    for (size_t k = first; !rc && k < b->n_pairs; k++)
        if (b->pairs[k].count > 0)
            rc = candidate_push(b, (struct candidate){ b->pairs[k].count, b->pairs[k].pair });
    return rc;
}

/* ---- merging ---- */

/* Replace the pair by `id` in a word type; whether it was there. */
static int word_type_merge(struct word_type *t, uint32_t left, uint32_t right, uint32_t id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n; n++) {
        int here = i + 1 < t->n && t->symbols[i] == left && t->symbols[i + 1] == right;

        t->symbols[n] = here ? id : t->symbols[i];
        i += here ? 2 : 1;
    }
    if (n == t->n)
        return 0;
    t->n = n;
    return 1;
}

static int word_type_has(const struct word_type *t, uint32_t left, uint32_t right)
{
    for (uint32_t i = 0; i + 1 < t->n; i++)
        if (t->symbols[i] == left && t->symbols[i + 1] == right)
            return 1;
    return 0;
}

/* Merge one pair everywhere. */
static int pair_merge(struct bpe_train *b, uint64_t pair, uint32_t id)
{
    struct pair_entry *p = pair_get(b, pair);
    uint32_t           left = (uint32_t)(pair >> 32), right = (uint32_t)pair;
    uint32_t          *words, n_words;
    size_t             first = b->n_pairs;
    int                rc = 0;

    if (!p)
        return -ENOMEM;
    words = p->words; // taken out: the table may move while words are counted anew
    n_words = p->n_words;
    p->words = NULL;
    p->n_words = p->cap = 0;
    for (uint32_t k = 0; !rc && k < n_words; k++) {
        struct word_type *t = &b->types[words[k]];

        if (!word_type_has(t, left, right))
            continue;
        rc = pairs_add(b, words[k], -1);
        word_type_merge(t, left, right, id);
        if (!rc)
            rc = pairs_add(b, words[k], 1);
    }
    free(words);
    return rc ? rc : candidates_push(b, first);
}

/* The most frequent pair, or 0 if none is left. */
static int pair_best(struct bpe_train *b, uint64_t *pair)
{
    while (b->n_heap > 0) {
        struct candidate c = candidate_pop(b);
        int64_t          count = b->pairs[*pair_slot(b, c.pair) - 1].count;

        if (count == c.count) {
            *pair = c.pair;
            return 1;
        }
        if (count > 0 && candidate_push(b, (struct candidate){ count, c.pair }))
            return -ENOMEM;
    }
    return 0;
}

/* Bytes of the words become symbols, in GPT-2's order, and their pairs are counted. */
static int symbols_make(struct bpe_train *b)
{
    struct byte_map m;
    uint32_t        id[256];
    int             rc = 0;

    byte_map_make(&m);
    for (uint32_t i = 0; i < 256; i++)
        id[m.order[i]] = i;
    for (size_t w = 0; !rc && w < b->n_types; w++) {
        struct word_type *t = &b->types[w];

        t->symbols = malloc(t->n * sizeof *t->symbols);
        if (!t->symbols)
            return err_set(b->err, -ENOMEM, "no memory for the symbols of %zu words", b->n_types);
        for (uint32_t i = 0; i < t->n; i++)
            t->symbols[i] = id[(unsigned char)b->arena[t->arena + i]];
        rc = pairs_add(b, (uint32_t)w, 1);
        if (!rc)
            rc = watch_look(b->watch, 0, 0, b->err);
    }
    return rc ? rc : candidates_push(b, 0);
}

int bpe_train_finish(struct bpe_train *b, size_t vocab, struct tokenizer **out, struct err *err)
{
    uint32_t (*merges)[2] = NULL;
    size_t     n_merges = vocab - 257;
    int        rc;

    *out = NULL;
    b->err = err;
    if (vocab < 257 || vocab > TOKENIZER_MAX_VOCAB)
        return err_misuse(err,
                          "a vocabulary of %zu: from 257 (256 bytes and <|endoftext|>) to %zu are "
                          "possible",
                          vocab, TOKENIZER_MAX_VOCAB);
    assert(!b->pairs);
    merges = malloc((n_merges + 1) * sizeof *merges);
    rc = merges ? symbols_make(b) : err_set(err, -ENOMEM, "no memory for %zu merges", n_merges);
    for (size_t r = 0; !rc && r < n_merges; r++) {
        uint64_t pair = 0;
        int      found = pair_best(b, &pair);

        if (found <= 0) {
            rc = found ? found
                       : err_misuse(err,
                                    "the text yields a vocabulary of %zu, fewer than the %zu asked "
                                    "for",
                                    257 + r, vocab);
            break;
        }
        merges[r][0] = (uint32_t)(pair >> 32);
        merges[r][1] = (uint32_t)pair;
        rc = pair_merge(b, pair, (uint32_t)(256 + r));
        if (!rc)
            rc = watch_look(b->watch, r + 1, n_merges, err);
    }
    if (!rc)
        rc = tokenizer_from_merges(out, (const uint32_t(*)[2])merges, n_merges, err);
    free(merges);
    return rc;
}
