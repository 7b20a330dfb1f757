/* tokenizer_bpe.c: encodes words by byte-pair encoding, of bytes (GPT-2 and its successors) or of
 * characters with a mark for a space (SentencePiece's: Llama 2, Mistral, Gemma).
 *
 * Of all neighbouring pairs in a word, the one with the lowest rank is merged, the leftmost first,
 * until none is left. A heap of (rank, position) finds it, so that even a word of a megabyte takes
 * only its length times a logarithm. An entry whose pair has changed is dropped when it comes up.
 *
 * SentencePiece's models take a whole text for one word. If no merge joins a mark to other text
 * before it, the text is still cut before such marks: the parts never meet. */
#include "data/text/tokenizer_parts.h"

#include "data/base/grow.h"
#include "data/base/round.h"
#include "data/base/utf8.h"

#define NO_RANK UINT32_MAX
#define NOBODY  UINT32_MAX

/* ---- merging ---- */

/* Looks up the pair that begins at symbol i, and queues it if it merges. */
static void pair_queue(struct tokenizer *t, uint32_t i)
{
    struct symbol *s = &t->symbols[i];

    s->rank = NO_RANK;
    if (s->next == NOBODY)
        return;
    const struct merge_slot *m =
        merge_find(t, (uint64_t)(uint32_t)s->id << 32 | (uint32_t)t->symbols[s->next].id);

    if (m->pair == NO_PAIR)
        return;
    s->rank = m->rank;
    heap_push(&t->heap, (uint64_t)m->rank << 32 | i);
}

/* Makes room for the symbols of a word of n bytes, and for its pairs. */
static int word_room(struct tokenizer *t, size_t n, struct err *err)
{
    if (n >= (size_t)1 << 30)
        return err_misuse(err, "a word of %zu bytes without a break is too long to tokenise (less "
                          "than 1 GiB)", n);
    // n symbols have n - 1 pairs, and each of at most n - 1 merges makes two more
    if (grow(&t->symbols, &t->cap, n, sizeof *t->symbols, "bytes of a word", err) ||
        grow(&t->heap.key, &t->heap.cap, 3 * n, sizeof *t->heap.key, "pairs", err))
        return -ENOMEM;
    return 0;
}

/* What the symbols [from, to) cover together. An unknown character may come behind bytes that
 * follow it. */
static struct token_span symbols_cover(const struct token_span *covers, size_t from, size_t to)
{
    struct token_span all = covers[from];

    for (size_t i = from + 1; i < to; i++) {
        all.from = size_min(all.from, covers[i].from);
        all.to = size_max(all.to, covers[i].to);
    }
    return all;
}

/* Merges the ids of the first n symbols until no pair merges, and appends the rest to out. covers
 * (or NULL) first has what each symbol covers, and then what each id covers. */
static void word_merge(struct tokenizer *t, size_t n, struct token_buf *out,
                       struct token_span *covers)
{
    t->heap.n = 0;
    for (uint32_t i = 0; i < n; i++)
        t->symbols[i] = (struct symbol){ t->symbols[i].id, NO_RANK, i ? i - 1 : NOBODY,
                                         i + 1 < n ? i + 1 : NOBODY };
    for (uint32_t i = 0; i < n; i++)
        pair_queue(t, i);
    while (t->heap.n > 0) {
        uint64_t       top = (uint64_t)heap_pop(&t->heap);
        uint32_t       i = (uint32_t)top, rank = (uint32_t)(top >> 32);
        struct symbol *left = &t->symbols[i];

        if (left->rank != rank)
            continue; // it or its neighbour has been merged
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
    size_t k = 0;

    for (uint32_t i = 0, next; n > 0 && i != NOBODY; i = next) {
        next = t->symbols[i].next;
        out->ids[out->n++] = t->symbols[i].id;
        if (covers)
            covers[k++] = symbols_cover(covers, i, next == NOBODY ? n : next);
    }
}

/* Appends the word to out if it is a token and merges may be skipped. Returns whether it did. */
static int word_whole(const struct tokenizer *t, const char *bytes, size_t n,
                      struct token_buf *out, struct token_span *covers)
{
    int32_t id = t->ignore_merges ? words_find(t, bytes, n) : -1;

    if (id >= 0)
        out->ids[out->n++] = id;
    if (id >= 0 && covers)
        covers[0] = (struct token_span){ 0, n };
    return id >= 0;
}

/* ---- bytes ---- */

static int bytes_read(struct tokenizer_settings *s, const json_t *model, const char *path,
                      struct err *err)
{
    // unk_token and fuse_unk are for bytes without a token; there are none
    static const char *const known[] = { "s type", "* vocab", "* merges", "s unk_token",
                                         "b fuse_unk", "b ignore_merges", "0 dropout", NULL };

    s->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    return members_check(model, known, "model", path, err);
}

static int bytes_complete(struct tokenizer *t, const struct tokenizer_settings *s, const char *what,
                          struct err *err)
{
    (void)what;
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
    t->ignore_merges = s && s->ignore_merges;
    return t->ignore_merges ? words_make(t, err) : 0;
}

static int bytes_encode(struct tokenizer *t, const char *bytes, size_t n, struct token_buf *out,
                        struct token_span *covers, struct err *err)
{
    if (word_whole(t, bytes, n, out, covers))
        return 0;
    int rc = word_room(t, n, err);

    for (size_t i = 0; i < n && !rc; i++) {
        t->symbols[i].id = t->byte_id[(unsigned char)bytes[i]];
        if (covers)
            covers[i] = (struct token_span){ i, i + 1 };
    }
    if (!rc)
        word_merge(t, n, out, covers);
    return rc;
}

const struct model_ops model_bytes = {
    .type = "BPE",
    .known = "ByteLevel, alone or behind Splits or Digits,",
    .splits = 1u << SPLIT_PATTERN,
    .decoders = 1u << DECODER_BYTES,
    .mapped = 1,
    .merges = 1,
    .read = bytes_read,
    .complete = bytes_complete,
    .encode = bytes_encode,
};

/* Makes the tokens of the bytes, then of each merge. */
int tokenizer_from_merges(struct tokenizer **out, const uint32_t (*merges)[2], size_t n_merges,
                          struct err *err)
{
    struct added_token end = { .content = "<|endoftext|>", .id = (json_int_t)(256 + n_merges),
                               .special = 1 };
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
        rc = tokenizer_complete(t, NULL, "training", err);
    if (rc)
        tokenizer_close(t);
    else
        *out = t;
    return rc;
}

/* ---- characters ---- */

static int marks_read(struct tokenizer_settings *s, const json_t *model, const char *path,
                      struct err *err)
{
    static const char *const known[] = { "s type", "* vocab", "* merges", "s unk_token",
                                         "b fuse_unk", "b byte_fallback", "b ignore_merges",
                                         "0 dropout", NULL };

    s->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    s->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    s->fuse_unk = json_is_true(json_object_get(model, "fuse_unk"));
    s->unk = json_string_value(json_object_get(model, "unk_token"));
    return members_check(model, known, "model", path, err);
}

/* Whether a token begins, or ends, with a mark. */
static int has_mark(const struct token_entry *e, const char *mark, int at_end)
{
    size_t n = strlen(mark);

    return e->n >= n && !memcmp(e->bytes + (at_end ? e->n - n : 0), mark, n);
}

/* Whether a text's ids are those of its parts, if it is cut before each mark behind other text. */
static int parts_alone(const struct tokenizer *t, const char *mark)
{
    // a mark that is no token might be joined to unknown text before it
    if (t->ignore_merges || words_find(t, mark, strlen(mark)) < 0)
        return 0;
    for (const struct merge *m = t->merges; m < t->merges + t->n_merges; m++)
        if (has_mark(&t->entries[m->right], mark, 0) && !has_mark(&t->entries[m->left], mark, 1))
            return 0;
    return 1;
}

static int marks_complete(struct tokenizer *t, const struct tokenizer_settings *s, const char *what,
                          struct err *err)
{
    int rc = words_make(t, err);

    if (rc)
        return rc;
    t->ignore_merges = s->ignore_merges;
    t->fuse_unk = s->fuse_unk;
    for (unsigned b = 0; b < 256; b++) {
        char name[8];

        snprintf(name, sizeof name, "<0x%02X>", b);
        t->byte_id[b] = s->byte_fallback ? words_find(t, name, 6) : -1;
    }
    if (s->unk && *s->unk && (t->unk = words_find(t, s->unk, strlen(s->unk))) < 0)
        return err_misuse(err, "%s: its unk_token %.60s is none of its tokens", what, s->unk);
    if (s->split.at == SPLIT_AT_RUNS && !parts_alone(t, s->split.mark))
        pretoken_whole(t->pre);
    return 0;
}

/* A word's symbols while they are made. */
struct symbols { struct tokenizer *t; struct token_span *covers, unknown; size_t n; };

static void symbol_add(struct symbols *s, int32_t id, size_t from, size_t to)
{
    if (s->covers)
        s->covers[s->n] = (struct token_span){ from, to };
    s->t->symbols[s->n++].id = id;
}

/* Adds the unknown characters that wait, as one symbol. */
static void unknown_add(struct symbols *s)
{
    if (s->unknown.to)
        symbol_add(s, s->t->unk, s->unknown.from, s->unknown.to);
    s->unknown.to = 0;
}

/* Adds the symbols of a character bytes[at..at+len) that is no token: its bytes, if all have one.
 * Returns whether they do. */
static int fall_back(struct symbols *s, const char *bytes, size_t at, size_t len)
{
    for (size_t i = at; i < at + len; i++)
        if (s->t->byte_id[(unsigned char)bytes[i]] < 0)
            return 0;
    for (size_t i = at; i < at + len; i++)
        symbol_add(s, s->t->byte_id[(unsigned char)bytes[i]], i, i + 1);
    return 1;
}

static int marks_encode(struct tokenizer *t, const char *bytes, size_t n, struct token_buf *out,
                        struct token_span *covers, struct err *err)
{
    struct symbols s = { .t = t, .covers = covers };
    size_t         len;

    if (word_whole(t, bytes, n, out, covers))
        return 0;
    int rc = word_room(t, n, err);

    for (size_t i = 0; i < n && !rc; i += len) {
        int chars = utf8_length(bytes + i, n - i);

        len = chars > 0 ? (size_t)chars : 1;
        int32_t id = words_find(t, bytes + i, len);

        if (id >= 0) {
            unknown_add(&s);
            symbol_add(&s, id, i, i + len);
            continue;
        }
        // an unknown one that waits stays behind the bytes that follow it, as in Hugging Face's
        if (fall_back(&s, bytes, i, len) || t->unk < 0)
            continue;
        size_t from = s.unknown.to && t->fuse_unk ? s.unknown.from : i;

        if (!t->fuse_unk)
            unknown_add(&s);
        s.unknown = (struct token_span){ from, i + len }; // joined with unknown ones that follow
    }
    unknown_add(&s);
    if (!rc)
        word_merge(t, s.n, out, covers);
    return rc;
}

const struct model_ops model_marks = {
    .type = "BPE",
    .known = "Metaspace or none",
    .splits = 1u << SPLIT_MARKS,
    .decoders = 1u << DECODER_MARKS | 1u << DECODER_STEPS,
    .merges = 1,
    .read = marks_read,
    .complete = marks_complete,
    .encode = marks_encode,
};
