/* tokenizer_gguf_write.c: writes a tokenizer as the keys of a GGUF file.
 *
 * llama.cpp merges SentencePiece's tokens by their scores, not by a list of merges: a token's score
 * is minus the place of its first merge. That gives the same ids if every pair of tokens whose text
 * together is a token is a merge, and if tokens come in the order of their merges. This is so for
 * all that SentencePiece has trained, and is checked here: otherwise a notice says so. */
#include "data/text/tokenizer_gguf.h"

#include "data/text/tokenizer_parts.h"

struct writing {
    struct gguf_writer          *w;
    struct tokenizer            *t;
    const struct tokenizer_gguf *to;
    struct tokenizer_settings    s;
    int                         *types; // (t->n)
};

/* ---- kinds ---- */

static int refuse(const char *what, struct err *err)
{
    return err_misuse(err, "llama.cpp has no tokenizer %s: export a Hugging Face folder instead",
                      what);
}

static int has_step(const struct tokenizer_settings *s, enum normalizer_kind kind)
{
    for (size_t i = 0; i < s->n_steps; i++)
        if (s->steps[i].kind == kind)
            return 1;
    return 0;
}

static int same_runs(const struct split_config *c, const struct gguf_split *g)
{
    size_t n = (size_t)(g->runs[0] != NULL) + (g->runs[1] != NULL);
    int    same = c->n_runs == n;

    for (size_t i = 0; i < n && same; i++) {
        const struct split_run *run = split_run_find(g->runs[i]);

        same = run && run->set == c->runs[i].set && run->most == c->runs[i].most;
    }
    return same;
}

/* llama.cpp's name for the way in which a byte-level BPE splits; NULL: it has none. Tekken's
 * tokens are all reached by merges, so it does not matter whether these are ignored. */
static const struct gguf_split *split_of(const struct writing *k)
{
    const struct split_pattern *pattern = k->s.split.pattern ? k->s.split.pattern
                                                             : split_pattern_named("GPT-2");
    const struct gguf_split    *g;
    int                         nfc = has_step(&k->s, NORMALIZER_NFC);

    if (k->s.split.prefix != SPLIT_PREFIX_NEVER || k->s.n_steps != (size_t)nfc)
        return NULL;
    for (size_t i = 0; (g = gguf_split_at(i)); i++)
        if (split_pattern_named(g->pattern) == pattern && g->nfc == nfc &&
            same_runs(&k->s.split, g) &&
            (g->ignores_merges == k->t->ignore_merges || !strcmp(g->pattern, "Tekken")))
            break;
    return g;
}

/* Whether texts get a space in front. -1: they are normalized in a way that llama.cpp lacks. */
static int prefix_of(const struct writing *k)
{
    const struct tokenizer_settings *s = &k->s;
    int                              replaced = s->split.replace, prefix = 0;

    for (size_t i = 0; i < s->n_steps; i++) {
        const struct normalizer_step *step = &s->steps[i];
        int before = step->kind == NORMALIZER_PREPEND,
            spaces = step->kind == NORMALIZER_REPLACE && !strcmp(step->from, " ");

        if (!(before || spaces) || strcmp(step->to, GGUF_MARK))
            return -1;
        prefix |= before;
        replaced |= spaces;
    }
    if (!replaced || (s->split.mark && strcmp(s->split.mark, GGUF_MARK)))
        return -1;
    return prefix || s->split.prefix != SPLIT_PREFIX_NEVER;
}

/* ---- tokens ---- */

static int is_byte(const struct token_entry *e)
{
    return e->n == 6 && !memcmp(e->bytes, "<0x", 3) && e->bytes[5] == '>';
}

static int type_of(const struct writing *k, size_t id)
{
    const struct token_entry *e = &k->t->entries[id];
    int                       marks = k->t->model == &model_marks;

    if (!e->bytes)
        return GGUF_TOKEN_UNUSED;
    if (marks && k->t->unk == (int32_t)id)
        return GGUF_TOKEN_UNKNOWN;
    if (e->added)
        return e->control ? GGUF_TOKEN_CONTROL : GGUF_TOKEN_USER;
    return marks && is_byte(e) ? GGUF_TOKEN_BYTE : GGUF_TOKEN_NORMAL;
}

/* The name of a token as in a tokenizer.json. llama.cpp looks for SentencePiece's added tokens
 * before it makes marks of spaces. Caller frees; NULL: no memory. */
static char *name_of(const struct writing *k, const struct byte_map *map, size_t id)
{
    static const size_t mark = sizeof GGUF_MARK - 1;
    char               *name = name_encode(map, &k->t->entries[id]), *to = name;

    if (!name || k->t->model != &model_marks || k->types[id] != GGUF_TOKEN_USER)
        return name;
    for (const char *from = name; *from; to++)
        if (!strncmp(from, GGUF_MARK, mark))
            *to = ' ', from += mark;
        else
            *to = *from++;
    *to = '\0';
    return name;
}

static int put_tokens(struct writing *k, struct err *err)
{
    struct byte_map map;
    size_t          n = k->to->vocab;
    int             rc = 0;

    byte_map_make(&map);
    gguf_put_array(k->w, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (size_t i = 0; i < n && !rc; i++) {
        int   there = i < k->t->n && k->t->entries[i].bytes;
        char  filler[32], *name = there ? name_of(k, &map, i) : NULL;

        if (there && !name)
            rc = err_set(err, -ENOMEM, "no memory for a tokenizer's tokens");
        snprintf(filler, sizeof filler, "[PAD%zu]", i);
        gguf_add_text(k->w, name ? name : filler, strlen(name ? name : filler));
        free(name);
    }
    gguf_put_array(k->w, "tokenizer.ggml.token_type", GGUF_I32, n);
    for (size_t i = 0; i < n; i++)
        gguf_add_i32(k->w, i < k->t->n ? k->types[i] : GGUF_TOKEN_UNUSED);
    return rc;
}

static int put_merges(struct writing *k, struct err *err)
{
    struct byte_map map;
    int             rc = 0;

    byte_map_make(&map);
    gguf_put_array(k->w, "tokenizer.ggml.merges", GGUF_STRING, k->t->n_merges);
    for (size_t r = 0; r < k->t->n_merges && !rc; r++) {
        char *line = merge_encode(&map, k->t, r);

        if (line)
            gguf_add_text(k->w, line, strlen(line));
        else
            rc = err_set(err, -ENOMEM, "no memory for a tokenizer's merges");
        free(line);
    }
    return rc;
}

/* ---- scores ---- */

/* Whether llama.cpp joins all parts of a token as this tokenizer does. */
static int is_closed(struct writing *k, size_t id)
{
    const struct token_entry *e = &k->t->entries[id];

    for (uint32_t at = 1; at < e->n; at++) {
        int32_t left, right;

        if ((e->bytes[at] & 0xC0) == 0x80 || (left = words_find(k->t, e->bytes, at)) < 0 ||
            (right = words_find(k->t, e->bytes + at, e->n - at)) < 0)
            continue;
        uint64_t pair = (uint64_t)left << 32 | (uint32_t)right;

        if (merge_find(k->t, pair)->pair != pair)
            return 0;
    }
    return 1;
}

/* Whether a token is several words for a splitter that cuts before each mark. */
static int crosses(const struct token_entry *e)
{
    return e->n > 3 && memmem(e->bytes + 1, e->n - 1, GGUF_MARK, 3) != NULL;
}

static int put_scores(struct writing *k, char *notice, size_t size, struct err *err)
{
    const struct tokenizer *t = k->t;
    size_t                 *place = calloc(t->n, sizeof *place), next = 0, last = 0, others = 0;
    int                     rc = place ? 0 : err_set(err, -ENOMEM, "no memory for scores");

    rc = rc || t->words ? rc : words_make(k->t, err);
    for (size_t r = 0; r < t->n_merges && !rc; r++) {
        uint32_t id = t->merges[r].id;

        if (k->types[id] != GGUF_TOKEN_NORMAL && k->types[id] != GGUF_TOKEN_USER)
            continue;
        if (!place[id])
            place[id] = ++next;
        others += place[id] < last;
        last = place[id];
    }
    gguf_put_array(k->w, "tokenizer.ggml.scores", GGUF_F32, k->to->vocab);
    for (size_t i = 0; i < k->to->vocab && !rc; i++) {
        gguf_add_f32(k->w, i < t->n && place[i] ? -(float)(place[i] - 1) : -(float)(1 << 24));
        if (i < t->n && (k->types[i] == GGUF_TOKEN_NORMAL || k->types[i] == GGUF_TOKEN_USER))
            others += !is_closed(k, i) ||
                      (k->s.split.at == SPLIT_AT_EACH && crosses(&t->entries[i]));
    }
    if (others && notice && !*notice)
        snprintf(notice, size, "llama.cpp merges such a tokenizer's words by scores, not by its "
                 "merges: some texts get other ids there");
    free(place);
    return rc;
}

/* ---- the whole ---- */

static void put_id(struct gguf_writer *w, const char *key, long id)
{
    if (id >= 0)
        gguf_put_u32(w, key, (uint32_t)id);
}

/* Whether the template puts this id, and nothing else, at a place. -1: it puts something else. */
static int only_puts(const struct tokenizer *t, enum tokenizer_place place, long id)
{
    const struct token_buf *b = tokenizer_around(t, place);

    return !b || b->n == 0 ? 0 : b->n == 1 && b->ids[0] == id ? 1 : -1;
}

static int put_around(struct writing *k, struct err *err)
{
    long begin = k->to->begin, end = k->to->end, unknown = tokenizer_role(k->t, "unk_token"),
         pad = tokenizer_role(k->t, "pad_token");
    int  first = tokenizer_has_template(k->t) ? only_puts(k->t, TOKENIZER_BEFORE, begin) : 0,
         last = tokenizer_has_template(k->t) ? only_puts(k->t, TOKENIZER_BEHIND, end) : 0;

    if (first < 0 || last < 0)
        return refuse("that puts other tokens around a text than the one that begins it and the "
                      "one that ends it", err);
    put_id(k->w, "tokenizer.ggml.bos_token_id", begin);
    put_id(k->w, "tokenizer.ggml.eos_token_id", end);
    put_id(k->w, "tokenizer.ggml.eot_token_id", k->to->turn);
    put_id(k->w, "tokenizer.ggml.unknown_token_id", unknown);
    put_id(k->w, "tokenizer.ggml.padding_token_id", pad >= 0 ? pad : k->to->pad);
    gguf_put_bool(k->w, "tokenizer.ggml.add_bos_token", first);
    gguf_put_bool(k->w, "tokenizer.ggml.add_eos_token", last);
    return 0;
}

static int put_kind(struct writing *k, char *notice, size_t size, struct err *err)
{
    const struct gguf_split *split = k->t->model == &model_bytes ? split_of(k) : NULL;
    int                      marks = k->t->model == &model_marks,
        prefix = marks ? prefix_of(k) : 0, rc;

    if (k->t->model == &model_bytes && !split)
        return refuse("that normalizes and splits texts in this way", err);
    if (!marks && !split)
        return refuse("of this kind (WordPiece) for such a model", err);
    if (marks && (prefix < 0 || !k->s.byte_fallback))
        return refuse("of this kind that has no tokens for bytes, or normalizes texts in this way",
                      err);
    const char *model = marks ? "llama" : "gpt2", *pre = marks ? "default" : split->names[0];

    gguf_put_text(k->w, "tokenizer.ggml.model", model, strlen(model));
    gguf_put_text(k->w, "tokenizer.ggml.pre", pre, strlen(pre));
    rc = put_tokens(k, err);
    rc = rc ? rc : marks ? put_scores(k, notice, size, err) : put_merges(k, err);
    if (marks)
        gguf_put_bool(k->w, "tokenizer.ggml.add_space_prefix", prefix);
    return rc ? rc : put_around(k, err);
}

int tokenizer_gguf_put(struct gguf_writer *w, struct tokenizer *t, const struct tokenizer_gguf *to,
                       char *notice, size_t size, struct err *err)
{
    struct writing k = { .w = w, .t = t, .to = to, .types = calloc(t->n + 1, sizeof(int)) };
    int            rc = k.types ? 0 : err_set(err, -ENOMEM, "no memory for a tokenizer's tokens");

    if (!rc && to->vocab < t->n)
        rc = err_misuse(err, "the tokenizer has %zu ids, but the model has %zu rows of embeddings, "
                        "and llama.cpp needs one for each id: take the tokenizer's files of the "
                        "original model, or make the embeddings larger in Python "
                        "(model.resize_token_embeddings(%zu))", t->n, to->vocab, t->n);
    rc = rc ? rc : tokenizer_settings_read(&k.s, t->said, "tokenizer.json", err);
    for (size_t i = 0; i < t->n && !rc; i++)
        k.types[i] = type_of(&k, i);
    rc = rc ? rc : put_kind(&k, notice, size, err);
    free(k.types);
    return rc;
}
