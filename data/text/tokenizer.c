/* tokenizer.c: byte-level BPE.
 *
 * A pre-token's ids come from a cache (text repeats itself: nearly all do), else from merging: of
 * all neighbouring pairs the one of lowest rank, the leftmost first, until none is left. A heap of
 * (rank, position) finds it, so that a pre-token of a megabyte takes no longer than its length
 * times a logarithm; an entry whose pair has changed since is dropped when it comes up. */
#include "data/base/grow.h"
#include "data/text/tokenizer_parts.h"

#include <assert.h>

#define CACHE_BITS 16u
#define END_OF_TEXT "<|endoftext|>"

/* One cache line; direct-mapped, the newer word replaces the older. */
struct word_cache {
    struct word {
        uint8_t n, n_ids;
        char    bytes[22];
        int32_t ids[10];
    } words[(size_t)1 << CACHE_BITS];
};
_Static_assert(sizeof(struct word) == 64, "a word is one cache line");

#define NO_RANK UINT32_MAX
#define NOBODY  UINT32_MAX

/* ---- the byte map ---- */

void byte_map_make(struct byte_map *m)
{
    size_t n = 0;

    memset(m->byte, -1, sizeof m->byte);
    for (int printable = 1; printable >= 0; printable--)
        for (unsigned b = 0; b < 256; b++)
            if (printable == ((b >= 33 && b <= 126) || (b >= 161 && b != 173))) {
                // 188 bytes are printable; the others follow the 256th code point
                m->code_point[b] = (uint16_t)(printable ? b : 256 + n - 188);
                m->byte[m->code_point[b]] = (int16_t)b;
                m->order[n++] = (unsigned char)b;
            }
}

/* ---- building ---- */

int tokenizer_new(struct tokenizer **out, size_t n, size_t n_merges,
                  const struct tokenizer_settings *s, struct err *err)
{
    struct tokenizer *t = *out = calloc(1, sizeof *t);
    size_t            slots = 16;

    if (!t)
        return err_set(err, -ENOMEM, "no memory for a tokenizer");
    while (slots < 2 * n_merges)
        slots *= 2;
    t->n = n;
    t->n_merges = n_merges;
    t->mask = slots - 1;
    t->entries = calloc(n + 1, sizeof *t->entries);
    t->merges = calloc(n_merges + 1, sizeof *t->merges);
    t->table = malloc(slots * sizeof *t->table);
    t->cache = calloc(1, sizeof *t->cache);
    if (!t->entries || !t->merges || !t->table || !t->cache)
        return err_set(err, -ENOMEM, "no memory for a tokenizer of %zu ids", n);
    for (size_t i = 0; i < slots; i++)
        t->table[i].pair = NO_PAIR;
    int rc = pretoken_open(&t->pre, s ? s->pattern : NULL, err);
    return rc || !s || !s->nfc ? rc : pretoken_normalize(t->pre, err);
}

int tokenizer_set(struct tokenizer *t, size_t id, const char *bytes, size_t n, int raw,
                  const char *what, struct err *err)
{
    struct token_entry *e = &t->entries[id];

    assert(id < t->n);
    if (e->bytes)
        return err_misuse(err, "%s: two tokens have the id %zu", what, id);
    if (n > TOKENIZER_MAX_BYTES)
        return err_misuse(err, "%s: the token of id %zu has %zu bytes, more than %u", what, id, n,
                          TOKENIZER_MAX_BYTES);
    e->bytes = malloc(n ? n : 1);
    if (!e->bytes)
        return err_set(err, -ENOMEM, "no memory for the tokens of %s", what);
    memcpy(e->bytes, bytes, n);
    e->n = (uint32_t)n;
    e->raw = (char)raw;
    return 0;
}

int tokenizer_set_added(struct tokenizer *t, const struct added_token *a, const char *what,
                        struct err *err)
{
    size_t              id = (size_t)a->id, n = strlen(a->content);
    struct token_entry *e = &t->entries[id];
    int                 rc = tokenizer_set(t, id, a->content, n, 1, what, err);

    if (rc)
        return rc;
    e->added = 1;
    e->normalized = a->normalized != 0;
    e->special = a->special != 0;
    return pretoken_special(t->pre, a->content, n, (int32_t)id, a->normalized, err);
}

/* The slot of a pair, or the free one where it belongs. */
static struct merge_slot *slot_find(const struct tokenizer *t, uint64_t pair)
{
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    size_t   i = (size_t)(h >> 32) & t->mask;

    while (t->table[i].pair != pair && t->table[i].pair != NO_PAIR)
        i = (i + 1) & t->mask;
    return &t->table[i];
}

void tokenizer_set_merge(struct tokenizer *t, size_t rank, struct merge m)
{
    uint64_t pair = (uint64_t)m.left << 32 | m.right;

    assert(rank < t->n_merges && m.left < t->n && m.right < t->n && m.id < t->n);
    t->merges[rank] = m;
    // a pair listed twice has its later rank
    *slot_find(t, pair) = (struct merge_slot){ pair, (uint32_t)rank };
}

/* The place of a token's id among the words, or the free one where it belongs. */
static int32_t *word_find(const struct tokenizer *t, const char *bytes, size_t n)
{
    size_t i = word_hash(bytes, n) & t->words_mask;

    for (; t->words[i] >= 0; i = (i + 1) & t->words_mask) {
        const struct token_entry *e = &t->entries[t->words[i]];

        if (e->n == n && !memcmp(e->bytes, bytes, n))
            break;
    }
    return &t->words[i];
}

/* All tokens of the vocabulary: the first id of those with the same bytes. */
static int words_make(struct tokenizer *t, struct err *err)
{
    size_t slots = 16;

    while (slots < 2 * t->n)
        slots *= 2;
    t->words_mask = slots - 1;
    t->words = malloc(slots * sizeof *t->words);
    if (!t->words)
        return err_set(err, -ENOMEM, "no memory for a tokenizer of %zu ids", t->n);
    memset(t->words, -1, slots * sizeof *t->words);
    for (size_t i = 0; i < t->n; i++) {
        const struct token_entry *e = &t->entries[i];
        int32_t                  *id = e->bytes && !e->raw ? word_find(t, e->bytes, e->n) : NULL;

        if (id && *id < 0)
            *id = (int32_t)i;
    }
    return 0;
}

int tokenizer_complete(struct tokenizer *t, struct err *err)
{
    for (size_t b = 0; b < 256; b++)
        t->byte_id[b] = -1;
    for (size_t i = 0; i < t->n; i++) {
        const struct token_entry *e = &t->entries[i];

        if (e->bytes && e->n == 1 &&
            (!e->raw || (e->added && e->bytes[0] > ' ' && e->bytes[0] < 0x7F)))
            t->byte_id[(unsigned char)e->bytes[0]] = (int32_t)i;
    }
    for (size_t b = 0; b < 256; b++)
        if (t->byte_id[b] < 0)
            return err_misuse(err, "the tokenizer has no token for byte %zu, so it is no "
                              "byte-level BPE of any text", b);
    return t->ignore_merges ? words_make(t, err) : 0;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; t->entries && i < t->n; i++)
        free(t->entries[i].bytes);
    pretoken_close(t->pre);
    free(t->entries);
    free(t->merges);
    free(t->table);
    free(t->cache);
    free(t->symbols);
    free(t->heap.key);
    free(t->words);
    for (size_t i = 0; i < TOKENIZER_PLACES; i++)
        token_buf_free(&t->around[i]);
    json_decref(t->said);
    free(t);
}

/* Tokens of the bytes, then of each merge. */
int tokenizer_from_merges(struct tokenizer **out, const uint32_t (*merges)[2], size_t n_merges,
                          struct err *err)
{
    struct added_token end = { END_OF_TEXT, (json_int_t)(256 + n_merges), 0, 1 };
    struct byte_map    m;
    struct tokenizer  *t = *out = NULL;

    if (n_merges > TOKENIZER_MAX_VOCAB - 257)
        return err_misuse(err, "%zu merges are more than the %zu that a tokenizer may have",
                          n_merges, TOKENIZER_MAX_VOCAB - 257);
    int rc = tokenizer_new(&t, 257 + n_merges, n_merges, NULL, err);

    byte_map_make(&m);
    for (size_t i = 0; !rc && i < 256; i++)
        rc = tokenizer_set(t, i, (const char *)&m.order[i], 1, 0, "training", err);
    for (size_t r = 0; !rc && r < n_merges; r++) {
        char     bytes[2 * TOKENIZER_MAX_BYTES];
        uint32_t id = (uint32_t)(256 + r), left = merges[r][0], right = merges[r][1];

        if (left >= id || right >= id) {
            rc = err_misuse(err, "merge %zu joins the ids %u and %u, but only %u exist before it",
                            r, left, right, id);
            break;
        }
        const struct token_entry *a = &t->entries[left], *b = &t->entries[right];

        memcpy(bytes, a->bytes, a->n);
        memcpy(bytes + a->n, b->bytes, b->n);
        rc = tokenizer_set(t, id, bytes, (size_t)a->n + b->n, 0, "training", err);
        tokenizer_set_merge(t, r, (struct merge){ left, right, id });
    }
    if (!rc && !(rc = tokenizer_set_added(t, &end, "training", err)))
        rc = tokenizer_complete(t, err);
    if (rc)
        tokenizer_close(t);
    else
        *out = t;
    return rc;
}

/* ---- what a tokenizer says of itself ---- */

size_t tokenizer_vocab(const struct tokenizer *t) { return t->n; }

int32_t tokenizer_endoftext(const struct tokenizer *t)
{
    static const char *const names[] = { END_OF_TEXT, "<|end_of_text|>" };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t n = strlen(names[k]);

        for (size_t i = t->n; i-- > 0;) // it stands at the end, if anywhere
            if (t->entries[i].added && t->entries[i].n == n &&
                !memcmp(t->entries[i].bytes, names[k], n))
                return (int32_t)i;
    }
    return -1;
}

int tokenizer_has_template(const struct tokenizer *t) { return t->has_template; }

const struct token_buf *tokenizer_around(const struct tokenizer *t, enum tokenizer_place place)
{
    return &t->around[place];
}

int tokenizer_put(const struct tokenizer *t, enum tokenizer_place place, struct token_buf *out,
                  struct err *err)
{
    const struct token_buf *put = &t->around[place];
    int rc = grow(&out->ids, &out->cap, out->n + put->n, sizeof *out->ids, "token ids", err);

    if (rc || put->n == 0)
        return rc;
    memcpy(out->ids + out->n, put->ids, put->n * sizeof *put->ids);
    out->n += put->n;
    return 0;
}

const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n)
{
    if (id < 0 || (size_t)id >= t->n || !t->entries[id].bytes)
        return NULL;
    *n = t->entries[id].n;
    return t->entries[id].bytes;
}

/* ---- merging ---- */

/* Look up the pair that begins at symbol i, and queue it if it merges. */
static void pair_queue(struct tokenizer *t, uint32_t i)
{
    struct symbol *s = &t->symbols[i];

    s->rank = NO_RANK;
    if (s->next == NOBODY)
        return;
    const struct merge_slot *m =
        slot_find(t, (uint64_t)(uint32_t)s->id << 32 | (uint32_t)t->symbols[s->next].id);

    if (m->pair == NO_PAIR)
        return;
    s->rank = m->rank;
    heap_push(&t->heap, (uint64_t)m->rank << 32 | i);
}

/* Merge a word of n > 0 bytes until no pair merges; the symbols left are linked by next, from 0. */
static int word_merge(struct tokenizer *t, const char *bytes, size_t n, struct err *err)
{
    if (n >= (size_t)1 << 30)
        return err_misuse(err, "a word of %zu bytes without a break is too long to tokenise (less "
                          "than 1 GiB)", n);
    // n bytes have n - 1 pairs, and each of at most n - 1 merges makes two more
    if (grow(&t->symbols, &t->cap, n, sizeof *t->symbols, "bytes of a word", err) ||
        grow(&t->heap.key, &t->heap.cap, 3 * n, sizeof *t->heap.key, "pairs", err))
        return -ENOMEM;
    t->heap.n = 0;
    for (uint32_t i = 0; i < n; i++)
        t->symbols[i] = (struct symbol){ t->byte_id[(unsigned char)bytes[i]], NO_RANK,
                                         i ? i - 1 : NOBODY, i + 1 < n ? i + 1 : NOBODY };
    for (uint32_t i = 0; i < n; i++)
        pair_queue(t, i);
    while (t->heap.n > 0) {
        uint64_t       top = (uint64_t)heap_pop(&t->heap);
        uint32_t       i = (uint32_t)top, rank = (uint32_t)(top >> 32);
        struct symbol *left = &t->symbols[i];

        if (left->rank != rank)
            continue; // it or its neighbour was merged since
        struct symbol *right = &t->symbols[left->next];

        right->rank = NO_RANK;
        left->id = (int32_t)t->merges[rank].id;
        left->next = right->next;
        if (left->next != NOBODY)
            t->symbols[left->next].prev = i;
        if (left->prev != NOBODY)
            pair_queue(t, left->prev);
        pair_queue(t, i);
    }
    return 0;
}

/* ---- the cache, and encoding ---- */

uint64_t word_hash(const char *bytes, size_t n)
{
    uint64_t h = n, w = 0;

    for (; n >= 8; n -= 8, bytes += 8) {
        memcpy(&w, bytes, 8);
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, bytes, n);
    h = (h ^ w) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

void token_buf_free(struct token_buf *b)
{
    free(b->ids);
    *b = (struct token_buf){ 0 };
}

struct encoding { struct tokenizer *t; struct token_buf *out; };

/* The ids of one pre-token (of a pretoken_to). */
static int encode_word(void *arg, const char *bytes, size_t n, int32_t special, struct err *err)
{
    struct encoding  *e = arg;
    struct token_buf *out = e->out;
    struct word      *w = NULL;
    size_t            first = out->n;
    int rc = grow(&out->ids, &out->cap, out->n + n, sizeof *out->ids, "token ids", err);

    if (rc)
        return rc;
    if (special >= 0) {
        out->ids[out->n++] = special;
        return 0;
    }
    if (n <= sizeof w->bytes) {
        w = &e->t->cache->words[word_hash(bytes, n) & (((size_t)1 << CACHE_BITS) - 1)];
        if (w->n == n && !memcmp(w->bytes, bytes, n)) {
            memcpy(out->ids + out->n, w->ids, w->n_ids * sizeof *w->ids);
            out->n += w->n_ids;
            return 0;
        }
    }
    int32_t whole = e->t->words ? *word_find(e->t, bytes, n) : -1;
    rc = whole < 0 ? word_merge(e->t, bytes, n, err) : 0;
    if (rc)
        return rc;
    for (uint32_t i = 0; whole < 0 && i != NOBODY; i = e->t->symbols[i].next)
        out->ids[out->n++] = e->t->symbols[i].id;
    if (whole >= 0)
        out->ids[out->n++] = whole;
    if (w && out->n - first <= sizeof w->ids / sizeof *w->ids) {
        w->n = (uint8_t)n;
        w->n_ids = (uint8_t)(out->n - first);
        memcpy(w->bytes, bytes, n);
        memcpy(w->ids, out->ids + first, w->n_ids * sizeof *w->ids);
    }
    return 0;
}

int tokenizer_encode(struct tokenizer *t, const char *text, size_t n, struct token_buf *out,
                     struct err *err)
{
    struct encoding    e = { t, out };
    struct pretoken_to to = { encode_word, &e };
    size_t             used;

    return pretoken_cut(t->pre, text, n, 1, &to, &used, err);
}

int tokenizer_feed(struct tokenizer *t, const char *text, size_t n, int last,
                   struct token_buf *out, struct err *err)
{
    struct encoding    e = { t, out };
    struct pretoken_to to = { encode_word, &e };

    return pretoken_feed(t->pre, text, n, last, &to, err);
}
