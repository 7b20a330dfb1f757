/* bpe_train.c: learns the merges of a byte-level BPE.
 *
 * Equal pre-tokens are one word type with a count, so the work depends on the vocabulary of the
 * text, not on its length. Each pair of neighbouring symbols has its count and the list of the word
 * types that it was ever seen in (some are stale, which a look at the word shows). Pairs are in a
 * heap, the most frequent first. A pair's count only grows in the merge that creates one of its
 * symbols, so it is queued once then. Later its count only falls: an entry that comes up with an
 * old count is queued again with the new one. */
#include "data/text/bpe_train.h"

#include "data/base/grow.h"
#include "data/base/hash.h"
#include "data/text/heap.h"
#include "data/text/tokenizer_parts.h"

#include <assert.h>

struct word_type {
    uint64_t  count;
    uint32_t *symbols; // while counting NULL: its bytes are in the arena
    size_t    arena;   // their place there
    uint32_t  n;       // bytes, later symbols
    uint32_t  hash;
};

struct pair_entry {
    uint64_t  pair;  // left << 32 | right
    int64_t   count;
    uint32_t *words; // in ascending order, if a word was added more than once
    size_t    n_words, cap;
};

struct slots { uint32_t *slot; size_t n; }; // a hash table: 1 + an entry's number; 0 is free

struct bpe_train {
    struct pretoken    *pre;
    struct err         *err; // of the present call
    char               *arena;
    size_t              n_arena, cap_arena;
    struct word_type   *types;
    size_t              n_types, cap_types;
    struct slots        type_slots;
    struct pair_entry  *pairs;
    size_t              n_pairs, cap_pairs;
    struct slots        pair_slots;
    struct heap         heap; // of pairs
};

/* Replaces *s by a cleared table of at least 2 * n slots, if it has fewer. *fresh: whether it
 * did. */
static int slots_grow(struct slots *s, size_t n, int *fresh, struct err *err)
{
    size_t    want = s->n ? s->n : 1024;
    uint32_t *slot;

    *fresh = 2 * n >= s->n;
    if (!*fresh)
        return 0;
    while (want <= 2 * n)
        want *= 2;
    slot = calloc(want, sizeof *slot);
    if (!slot)
        return err_set(err, -ENOMEM, "no memory for %zu slots to train a tokenizer", want);
    free(s->slot);
    *s = (struct slots){ slot, want };
    return 0;
}

/* ---- counting ---- */

static uint32_t *type_slot(struct bpe_train *b, const char *bytes, size_t n, uint32_t hash)
{
    const struct slots *s = &b->type_slots;
    size_t              i = hash & (s->n - 1);

    for (; s->slot[i]; i = (i + 1) & (s->n - 1)) {
        const struct word_type *w = &b->types[s->slot[i] - 1];

        if (w->hash == hash && w->n == n && !memcmp(b->arena + w->arena, bytes, n))
            break;
    }
    return &s->slot[i];
}

static int types_grow(struct bpe_train *b, size_t n)
{
    int fresh, rc = slots_grow(&b->type_slots, b->n_types + 1, &fresh, b->err);

    for (size_t k = 0; !rc && fresh && k < b->n_types; k++) {
        const struct word_type *w = &b->types[k];

        *type_slot(b, b->arena + w->arena, w->n, w->hash) = (uint32_t)k + 1;
    }
    rc =
        rc ? rc : grow(&b->types, &b->cap_types, b->n_types + 1, sizeof *b->types, "words", b->err);
    return rc ? rc : grow(&b->arena, &b->cap_arena, b->n_arena + n, 1, "bytes of words", b->err);
}

/* Counts one word (a pretoken_to calls this). */
static int count_word(void *arg, const char *bytes, size_t n, int32_t special, struct err *err)
{
    struct bpe_train *b = arg;
    uint32_t          hash = (uint32_t)hash_bytes(bytes, n);

    if (special >= 0)
        return 0;
    if (n > (1u << 28) || b->n_types == UINT32_MAX - 1)
        return err_misuse(err, "a word of %zu bytes, or %zu words, are more than training can "
                          "count", n, b->n_types);
    int rc = types_grow(b, n);
    if (rc)
        return rc;
    uint32_t *slot = type_slot(b, bytes, n, hash);
    if (*slot) {
        b->types[*slot - 1].count++;
        return 0;
    }
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

    *out = NULL;
    if (!b) {
        bpe_train_close(b);
        return err_set(err, -ENOMEM, "no memory to train a tokenizer");
    }
    const struct pretoken_special end = { .content = "<|endoftext|>", .n = 13 };
    int                           rc = pretoken_open(&b->pre, NULL, err);
    rc = rc ? rc : pretoken_special(b->pre, &end, err);
    if (rc)
        bpe_train_close(b);
    else
        *out = b;
    return rc;
}

int bpe_train_feed(struct bpe_train *b, const char *text, size_t n, int last, struct err *err)
{
    struct pretoken_to to = { count_word, b };

    b->err = err;
    return pretoken_feed(b->pre, text, n, last, &to, err);
}

void bpe_train_close(struct bpe_train *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n_types; i++)
        free(b->types[i].symbols);
    for (size_t i = 0; i < b->n_pairs; i++)
        free(b->pairs[i].words);
    pretoken_close(b->pre);
    free(b->arena);
    free(b->types);
    free(b->type_slots.slot);
    free(b->pairs);
    free(b->pair_slots.slot);
    free(b->heap.key);
    free(b);
}

/* ---- pairs ---- */

static uint32_t *pair_slot(struct bpe_train *b, uint64_t pair)
{
    const struct slots *s = &b->pair_slots;
    size_t              i = pair_hash(pair) & (s->n - 1);

    while (s->slot[i] && b->pairs[s->slot[i] - 1].pair != pair)
        i = (i + 1) & (s->n - 1);
    return &s->slot[i];
}

/* The entry of a pair, made if it is new. NULL: out of memory. */
static struct pair_entry *pair_get(struct bpe_train *b, uint64_t pair)
{
    int       fresh;

    if (slots_grow(&b->pair_slots, b->n_pairs + 1, &fresh, b->err) ||
        grow(&b->pairs, &b->cap_pairs, b->n_pairs + 1, sizeof *b->pairs, "pairs", b->err))
        return NULL;
    for (size_t k = 0; fresh && k < b->n_pairs; k++)
        *pair_slot(b, b->pairs[k].pair) = (uint32_t)k + 1;
    uint32_t *slot = pair_slot(b, pair);
    if (!*slot) {
        b->pairs[b->n_pairs] = (struct pair_entry){ .pair = pair };
        *slot = (uint32_t)++b->n_pairs;
    }
    return &b->pairs[*slot - 1];
}

/* Counts the pairs of word type w, `sign` times its count, and notes where they are. */
static int pairs_add(struct bpe_train *b, uint32_t w, int sign)
{
    const struct word_type *t = &b->types[w];

    for (uint32_t i = 0; i + 1 < t->n; i++) {
        struct pair_entry *p = pair_get(b, (uint64_t)t->symbols[i] << 32 | t->symbols[i + 1]);

        if (!p)
            return -ENOMEM;
        p->count += sign * (int64_t)t->count;
        if (sign < 0 || (p->n_words && p->words[p->n_words - 1] == w))
            continue;
        if (grow(&p->words, &p->cap, p->n_words + 1, sizeof *p->words, "words", b->err))
            return -ENOMEM;
        p->words[p->n_words++] = w;
    }
    return 0;
}

/* Queues a pair. The more frequent comes first, on a tie the lower one. */
static int pair_push(struct bpe_train *b, uint64_t pair, int64_t count)
{
    int rc = grow(&b->heap.key, &b->heap.cap, b->heap.n + 1, sizeof(heap_key), "pairs", b->err);

    if (!rc)
        heap_push(&b->heap, (heap_key)(INT64_MAX - count) << 64 | pair);
    return rc;
}

/* Queues the new pairs: all from number `first` on. */
static int pairs_push(struct bpe_train *b, size_t first)
{
    int rc = 0;

    for (size_t k = first; !rc && k < b->n_pairs; k++)
        if (b->pairs[k].count > 0)
            rc = pair_push(b, b->pairs[k].pair, b->pairs[k].count);
    return rc;
}

/* Takes the most frequent pair: 1, or 0 if none is left. */
static int pair_pop(struct bpe_train *b, uint64_t *pair)
{
    while (b->heap.n > 0) {
        heap_key top = heap_pop(&b->heap);
        int64_t  queued = INT64_MAX - (int64_t)(top >> 64);

        *pair = (uint64_t)top;
        int64_t count = b->pairs[*pair_slot(b, *pair) - 1].count;
        if (count == queued)
            return 1;
        if (count > 0 && pair_push(b, *pair, count))
            return -ENOMEM;
    }
    return 0;
}

/* ---- merging ---- */

static int pair_at(const struct word_type *t, uint32_t i, uint32_t left, uint32_t right)
{
    return t->symbols[i] == left && t->symbols[i + 1] == right;
}

static void word_type_merge(struct word_type *t, uint32_t i, const struct merge *m)
{
    uint32_t n = i;

    for (; i < t->n; n++) {
        int here = i + 1 < t->n && pair_at(t, i, m->left, m->right);

        t->symbols[n] = here ? m->id : t->symbols[i];
        i += here ? 2 : 1;
    }
    t->n = n;
}

static int pair_merge(struct bpe_train *b, uint64_t pair, uint32_t id)
{
    struct merge       m = { (uint32_t)(pair >> 32), (uint32_t)pair, id };
    struct pair_entry *p = &b->pairs[*pair_slot(b, pair) - 1];
    uint32_t          *words = p->words; // taken out, because counting words may move the table
    size_t             first = b->n_pairs, n_words = p->n_words;
    int                rc = 0;

    p->words = NULL;
    p->n_words = p->cap = 0;
    for (size_t k = 0; !rc && k < n_words; k++) {
        struct word_type *t = &b->types[words[k]];
        uint32_t          at = 0;

        while (at + 1 < t->n && !pair_at(t, at, m.left, m.right))
            at++;
        if (at + 1 >= t->n)
            continue;
        rc = pairs_add(b, words[k], -1);
        word_type_merge(t, at, &m);
        rc = rc ? rc : pairs_add(b, words[k], 1);
    }
    free(words);
    return rc ? rc : pairs_push(b, first);
}

/* Turns the words' bytes into symbols, in GPT-2's order, and counts their pairs. */
static int symbols_make(struct bpe_train *b, const struct watch *watch)
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
        rc = rc ? rc : watch_look(watch, 0, 0, b->err);
    }
    return rc ? rc : pairs_push(b, 0);
}

int bpe_train_finish(struct bpe_train *b, size_t vocab, struct tokenizer **out,
                     const struct watch *watch, struct err *err)
{
    uint32_t (*merges)[2];
    size_t   n_merges = vocab - 257;

    *out = NULL;
    b->err = err;
    if (vocab < 257 || vocab > TOKENIZER_MAX_VOCAB)
        return err_misuse(err, "a vocabulary of %zu: from 257 (256 bytes and <|endoftext|>) to %zu "
                          "are possible", vocab, TOKENIZER_MAX_VOCAB);
    assert(!b->pairs);
    merges = malloc((n_merges + 1) * sizeof *merges);
    int rc = merges ? symbols_make(b, watch)
                    : err_set(err, -ENOMEM, "no memory for %zu merges", n_merges);
    for (size_t r = 0; !rc && r < n_merges; r++) {
        uint64_t pair = 0;
        int      found = pair_pop(b, &pair);

        if (found <= 0) {
            rc = found ? found
                       : err_misuse(err, "the text yields a vocabulary of %zu, fewer than the %zu "
                                    "asked for: ask for so many, or give more text", 257 + r,
                                    vocab);
            break;
        }
        merges[r][0] = (uint32_t)(pair >> 32);
        merges[r][1] = (uint32_t)pair;
        rc = pair_merge(b, pair, (uint32_t)(256 + r));
        rc = rc ? rc : watch_look(watch, r + 1, n_merges, err);
    }
    rc = rc ? rc : tokenizer_from_merges(out, (const uint32_t(*)[2])merges, n_merges, err);
    free(merges);
    return rc;
}
