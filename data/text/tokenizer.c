/* tokenizer.c: holds what all kinds of tokenizers share, tokens, merges and words of the
 * vocabulary, and encodes text.
 *
 * A pre-token's ids come from a cache if it is there (text repeats itself: nearly all are),
 * otherwise from the model. */
#include "data/base/crc32c.h"
#include "data/base/grow.h"
#include "data/base/hash.h"
#include "data/text/tokenizer_parts.h"

#include <assert.h>

#define CACHE_BITS 16u

/* A cache of words, each one cache line. It is direct-mapped: a newer word replaces the older. */
struct word_cache {
    struct word {
        uint8_t n, n_ids;
        char    bytes[22];
        int32_t ids[10];
    } words[(size_t)1 << CACHE_BITS];
};
_Static_assert(sizeof(struct word) == 64, "a word is one cache line");

/* ---- the byte map ---- */

void byte_map_make(struct byte_map *m)
{
    size_t n = 0;

    memset(m->byte, -1, sizeof m->byte);
    for (int printable = 1; printable >= 0; printable--)
        for (unsigned b = 0; b < 256; b++)
            if (printable == ((b >= 33 && b <= 126) || (b >= 161 && b != 173))) {
                // 188 bytes are printable; the others follow code point 256
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
    t->model = s ? s->model : &model_bytes;
    t->unk = t->end = t->masks = -1;
    t->n = n;
    t->n_merges = n_merges;
    t->cut_left = s && s->cut_left;
    t->split_specials = s && s->split_specials;
    t->mask = slots - 1;
    t->entries = calloc(n + 1, sizeof *t->entries);
    t->merges = calloc(n_merges + 1, sizeof *t->merges);
    t->table = malloc(slots * sizeof *t->table);
    t->cache = calloc(1, sizeof *t->cache);
    if (!t->entries || !t->merges || !t->table || !t->cache)
        return err_set(err, -ENOMEM, "no memory for a tokenizer of %zu ids", n);
    for (size_t i = 0; i < slots; i++)
        t->table[i].pair = NO_PAIR;
    int rc = pretoken_open(&t->pre, s ? &s->split : NULL, err);
    return rc || !s || !s->n_steps ? rc : pretoken_normalize(t->pre, s->steps, s->n_steps, err);
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

static int is_framed(const char *content, size_t n, const char *before, const char *behind)
{
    size_t a = strlen(before), b = strlen(behind);

    return n >= a + b && !memcmp(content, before, a) && !memcmp(content + n - b, behind, b);
}

/* Whether a token looks like one that ends or begins a turn. The second bar is DeepSeek's. */
static int looks_special(const char *content, size_t n)
{
    return is_framed(content, n, "<|", "|>") || is_framed(content, n, "<\uff5c", "\uff5c>");
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
    e->control = a->special || looks_special(a->content, n);
    e->lstrip = a->lstrip != 0;
    e->rstrip = a->rstrip != 0;
    e->single_word = a->single_word != 0;
    rc = a->normalized ? pretoken_normal(t->pre, a->content, n, &e->shown, &e->n_shown, err) : 0;
    return rc ? rc
              : pretoken_special(t->pre,
                            &(struct pretoken_special){ a->content, n, (int32_t)id, a->normalized,
                                                        a->lstrip, a->rstrip, a->single_word,
                                                        a->special && t->split_specials,
                                                        e->control },
                            err);
}

struct merge_slot *merge_find(const struct tokenizer *t, uint64_t pair)
{
    size_t i = pair_hash(pair) & t->mask;

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
    *merge_find(t, pair) = (struct merge_slot){ pair, (uint32_t)rank };
}

/* The next merge from rank i on, without pairs that a later rank replaces, or NULL. */
static const struct merge *merge_next(const struct tokenizer *t, size_t *i)
{
    for (; *i < t->n_merges; ++*i) {
        const struct merge *m = &t->merges[*i];

        if (merge_find(t, (uint64_t)m->left << 32 | m->right)->rank == *i)
            return ++*i, m;
    }
    return NULL;
}

int tokenizer_same_merges(const struct tokenizer *a, const struct tokenizer *b)
{
    const struct merge *one, *other;
    size_t              i = 0, k = 0;

    do {
        one = merge_next(a, &i);
        other = merge_next(b, &k);
    } while (one && other && !memcmp(one, other, sizeof *one));
    return !one && !other;
}

uint32_t tokenizer_sum(const struct tokenizer *t)
{
    const struct merge *m;
    uint32_t            sum = 0;

    for (size_t i = 0; i < tokenizer_vocab(t); i++) {
        size_t      n = 0;
        const char *word = tokenizer_bytes(t, (int32_t)i, &n);

        sum = crc32c(sum, &n, sizeof n);
        sum = crc32c(sum, word, word ? n : 0);
    }
    for (size_t i = 0; (m = merge_next(t, &i));)
        sum = crc32c(sum, m, sizeof *m);
    return sum;
}

/* Where a token's id is among the words, or the free place for it. */
static int32_t *word_find(const struct tokenizer *t, const char *bytes, size_t n)
{
    size_t i = hash_bytes(bytes, n) & t->words_mask;

    for (; t->words[i] >= 0; i = (i + 1) & t->words_mask) {
        const struct token_entry *e = &t->entries[t->words[i]];

        if (e->n == n && !memcmp(e->bytes, bytes, n))
            break;
    }
    return &t->words[i];
}

int words_make(struct tokenizer *t, struct err *err)
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
        int                       is = e->bytes && (t->model->mapped ? !e->raw : e->listed);
        int32_t                  *id = is ? word_find(t, e->bytes, e->n) : NULL;

        if (id && *id < 0)
            *id = (int32_t)i;
    }
    return 0;
}

int32_t words_find(const struct tokenizer *t, const char *bytes, size_t n)
{
    return *word_find(t, bytes, n);
}

/* The id of the last added token with this content, or -1. */
static int32_t added_find(const struct tokenizer *t, const char *content)
{
    size_t n = strlen(content);

    for (size_t i = t->n; i-- > 0;) // added tokens are at the end
        if (t->entries[i].added && t->entries[i].n == n &&
            !memcmp(t->entries[i].bytes, content, n))
            return (int32_t)i;
    return -1;
}

int32_t tokenizer_role(const struct tokenizer *t, const char *role)
{
    const char *name = tokenizer_role_name(t->roles, role);

    return name ? added_find(t, name) : -1;
}

/* tokenizer_role, otherwise the id of the first of `usual` that exists, or -1. */
static int32_t role_find(const struct tokenizer *t, const char *role, const char *const *usual)
{
    int32_t id = tokenizer_role(t, role);

    while (id < 0 && *usual)
        id = added_find(t, *usual++);
    return id;
}

int tokenizer_complete(struct tokenizer *t, const struct tokenizer_settings *s, const char *what,
                       struct err *err)
{
    static const char *const ends[] = { "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", NULL },
                     *const masks[] = { "[MASK]", "<mask>", NULL };

    t->end = role_find(t, "eos_token", ends);
    t->masks = role_find(t, "mask_token", masks);
    return t->model->complete(t, s, what, err);
}

static void tables_free(struct tokenizer *t)
{
    for (size_t i = 0; t->entries && i < t->n; i++)
        free(t->entries[i].bytes), free(t->entries[i].shown);
    free(t->entries);
    free(t->merges);
    free(t->table);
    free(t->words);
    for (size_t i = 0; i < 2 * TOKENIZER_PLACES; i++) {
        token_buf_free(&t->template[i / TOKENIZER_PLACES].ids[i % TOKENIZER_PLACES]);
        token_buf_free(&t->template[i / TOKENIZER_PLACES].types[i % TOKENIZER_PLACES]);
    }
    json_decref(t->said);
    json_decref(t->roles);
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    pretoken_close(t->pre);
    free(t->cache);
    free(t->symbols);
    free(t->heap.key);
    free(t->piece);
    if (!t->of)
        tables_free(t);
    free(t);
}

int tokenizer_copy(struct tokenizer **out, const struct tokenizer *t, struct err *err)
{
    struct tokenizer *c = *out = malloc(sizeof *c);

    if (!c)
        return err_set(err, -ENOMEM, "no memory for a tokenizer");
    *c = *t;
    c->of = t;
    c->pre = NULL;
    c->symbols = NULL;
    c->cap = 0;
    c->heap = (struct heap){ 0 };
    c->cache = calloc(1, sizeof *c->cache);
    c->piece = t->piece ? malloc(t->n_prefix + t->longest + 1) : NULL;
    if (!c->cache || (t->piece && !c->piece))
        return err_set(err, -ENOMEM, "no memory for a tokenizer");
    if (t->piece)
        memcpy(c->piece, t->piece, t->n_prefix);
    return pretoken_copy(&c->pre, t->pre, err);
}

/* ---- questions about a tokenizer ---- */

size_t tokenizer_vocab(const struct tokenizer *t) { return t->n; }

int32_t tokenizer_endoftext(const struct tokenizer *t) { return t->end; }

int32_t tokenizer_begin(const struct tokenizer *t) { return tokenizer_role(t, "bos_token"); }

int32_t tokenizer_pad(const struct tokenizer *t, size_t vocab)
{
    int32_t id = tokenizer_role(t, "pad_token");

    return id >= 0 && (size_t)id < vocab ? id : t->end;
}

int32_t tokenizer_mask(const struct tokenizer *t) { return t->masks; }

int tokenizer_cuts_left(const struct tokenizer *t) { return t->cut_left; }

int tokenizer_has_template(const struct tokenizer *t) { return t->has_template; }

const struct token_buf *tokenizer_around(const struct tokenizer *t, enum tokenizer_place place)
{
    return &t->template[0].ids[place];
}

int tokenizer_put(const struct tokenizer *t, enum tokenizer_place place, struct token_buf *out,
                  struct err *err)
{
    const struct token_buf *put = tokenizer_around(t, place);

    return token_buf_add(out, put->ids, put->n, err);
}

size_t tokenizer_begin_once(const struct tokenizer *t, struct token_buf *ids)
{
    size_t   n = tokenizer_around(t, TOKENIZER_BEFORE)->n;
    int32_t *first = ids->ids;

    if (!n || ids->n < 2 * n || memcmp(first, first + n, n * sizeof *first))
        return n;
    ids->n -= n;
    memmove(first, first + n, ids->n * sizeof *first);
    return 0;
}

int tokenizer_is_control(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->n && id != t->unk && t->entries[id].control;
}

const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n)
{
    if (id < 0 || (size_t)id >= t->n || !t->entries[id].bytes)
        return NULL;
    *n = t->entries[id].n;
    return t->entries[id].bytes;
}

/* ---- encoding, with the cache ---- */

int token_buf_add(struct token_buf *b, const int32_t *ids, size_t n, struct err *err)
{
    return grow_add(&b->ids, &b->n, &b->cap, ids, n, sizeof *ids, "token ids", err);
}

void token_buf_free(struct token_buf *b)
{
    free(b->ids);
    *b = (struct token_buf){ 0 };
}

void token_spans_free(struct token_spans *s)
{
    free(s->list);
    *s = (struct token_spans){ 0 };
}

struct encoding { struct tokenizer *t; struct token_buf *out; };

/* Adds the ids of one pre-token (a pretoken_to calls this). */
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
        w = &e->t->cache->words[hash_bytes(bytes, n) & (((size_t)1 << CACHE_BITS) - 1)];
        if (w->n == n && !memcmp(w->bytes, bytes, n)) {
            memcpy(out->ids + out->n, w->ids, w->n_ids * sizeof *w->ids);
            out->n += w->n_ids;
            return 0;
        }
    }
    rc = e->t->model->encode(e->t, bytes, n, out, NULL, err);
    if (rc)
        return rc;
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

size_t tokenizer_place(const struct tokenizer *t, const char *text, size_t n, size_t from)
{
    return pretoken_place(t->pre, text, n, from);
}

int tokenizer_feed(struct tokenizer *t, const char *text, size_t n, int last,
                   struct token_buf *out, struct err *err)
{
    struct encoding    e = { t, out };
    struct pretoken_to to = { encode_word, &e };

    return pretoken_feed(t->pre, text, n, last, &to, err);
}

/* ---- encoding, with the bytes of each id ---- */

struct tracing {
    struct encoding     encoding; // first member
    struct origin       origin;
    struct token_spans *spans;
    struct token_span  *bytes, *covers; // of a pre-token: of its bytes, and of its ids
    size_t              bytes_cap, covers_cap;
};

/* Finds what each of ids[0..k) covers, if their names spell the text. Returns whether they do. */
static int covers_by_name(const struct tokenizer *t, const char *bytes, size_t n,
                          const int32_t *ids, size_t k, struct token_span *covers)
{
    size_t at = 0;

    for (size_t i = 0; i < k; i++) {
        const struct token_entry *e = &t->entries[ids[i]];

        if (e->n > n - at || memcmp(e->bytes, bytes + at, e->n))
            return 0;
        covers[i] = (struct token_span){ at, at + e->n };
        at += e->n;
    }
    return at == n;
}

/* Finds what each id from `first` on covers in a pre-token. The ids may come from the cache, which
 * does not know. If their names do not show it, the word is encoded again. */
static int word_covers(struct tracing *x, const char *bytes, size_t n, int32_t special,
                       size_t first, struct err *err)
{
    struct tokenizer *t = x->encoding.t;
    struct token_buf *out = x->encoding.out;
    int rc = grow(&x->covers, &x->covers_cap, n + 1, sizeof *x->covers, "bytes of a word", err);

    if (rc)
        return rc;
    if (special >= 0)
        x->covers[0] = (struct token_span){ 0, n };
    else if (!covers_by_name(t, bytes, n, out->ids + first, out->n - first, x->covers)) {
        out->n = first;
        rc = t->model->encode(t, bytes, n, out, x->covers, err);
    }
    return rc;
}

/* Adds the ids of one pre-token and their spans (a pretoken_to calls this). */
static int trace_word(void *arg, const char *bytes, size_t n, int32_t special, struct err *err)
{
    struct tracing     *x = arg;
    struct token_buf   *out = x->encoding.out;
    struct token_spans *s = x->spans;
    size_t              first = out->n;
    int                 rc = encode_word(&x->encoding, bytes, n, special, err);

    rc = rc ? rc : word_covers(x, bytes, n, special, first, err);
    rc = rc ? rc : grow(&x->bytes, &x->bytes_cap, n, sizeof *x->bytes, "bytes of a word", err);
    rc = rc ? rc : grow(&s->list, &s->cap, s->n + out->n - first, sizeof *s->list, "spans", err);
    if (rc)
        return rc;
    origin_spans(&x->origin, bytes, n, x->bytes);
    for (size_t i = 0; i < out->n - first; i++)
        s->list[s->n++] = (struct token_span){ x->bytes[x->covers[i].from].from,
                                               x->bytes[x->covers[i].to - 1].to };
    return 0;
}

int tokenizer_encode_spans(struct tokenizer *t, const struct token_source *s,
                           struct token_buf *out, struct token_spans *spans, struct err *err)
{
    struct tracing x = { .encoding = { t, out },
                         .origin = { .plain = s->plain, .n_plain = s->n_plain, .text = s->text,
                                     .n = s->n },
                         .spans = spans };
    struct pretoken_to to = { trace_word, &x };
    size_t             used;

    pretoken_trace(t->pre, &x.origin);
    int rc = pretoken_cut(t->pre, s->text, s->n, 1, &to, &used, err);

    pretoken_trace(t->pre, NULL);
    spans->spelled = x.origin.spelled;
    spans->spelled_id = x.origin.spelled_id;
    free(x.bytes);
    free(x.covers);
    return rc;
}
