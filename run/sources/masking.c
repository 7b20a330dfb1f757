/* masking.c: masking as in BERT (Devlin et al. 2018) and transformers' collator. Of the chosen
 * tokens, 80% become the mask, 10% another token, and 10% stay; the model predicts all of them. The
 * number of chosen tokens per row is fixed, and a permutation chooses them. All random numbers
 * depend on the seed and the row's number alone (kernels/rng.h), so every reader masks a row
 * identically. */
#include "run/sources/masking.h"

#include "data/base/permute.h"
#include "data/text/tokenizer.h"
#include "kernels/rng.h"

#include <math.h>

#define TRAIN_STREAM 0x6d61736b00000000u // stream of rng.h: "mask" plus the row's number
#define EVAL_STREAM  0x6576616c00000000u // "eval"

static int one_id(int32_t *out, const struct tokenizer *t, enum tokenizer_place place,
                  struct err *err)
{
    const struct token_buf *ids = tokenizer_around(t, place);

    if (ids->n > 1)
        return err_misuse(err, "the tokenizer's template puts %zu tokens %s a text: a masked "
                          "language model takes one there, or none", ids->n,
                          place == TOKENIZER_BEFORE ? "before" : "behind");
    *out = ids->n ? ids->ids[0] : -1;
    return 0;
}

static int ask_tokenizer(struct masking *m, const char *dir, struct err *err)
{
    struct tokenizer *t;
    int               rc = tokenizer_open(&t, dir, err);

    if (rc)
        return rc;
    m->mask = tokenizer_mask(t);
    m->end = tokenizer_endoftext(t);
    rc = one_id(&m->before, t, TOKENIZER_BEFORE, err);
    rc = rc ? rc : one_id(&m->behind, t, TOKENIZER_BEHIND, err);
    tokenizer_close(t);
    m->bare = m->before < 0 && m->behind < 0;
    return rc;
}

int masking_framed(const struct masking *m, const struct model_config *g, struct err *err)
{
    return m->bare ? err_misuse(err, "the tokenizer has no template (post_processor) that says "
                                "which tokens stand around a text ([CLS] and [SEP], or <s> and "
                                "</s>): a %s learns to expect them", g->arch->title)
                   : 0;
}

int masking_opts_check(const struct opt_line *line, const struct mask_opts *o,
                       const struct model_config *g, struct err *err)
{
    static const char *const names[] = { "mask-prob", "mask-id" };

    for (size_t i = 0; i < 2 && !arch_is_masked(g); i++)
        if (opt_given(line, names[i]))
            return err_misuse(err, "--%s is for a masked language model, which this %s%s is not",
                              names[i], g->arch->title, arch_classifies(g) ? " classifier" : "");
    return opt_given(line, "mask-id") && !o->id
               ? err_misuse(err, "--mask-id 0: the id of a mask is above 0; leave the option out "
                                 "to use the tokenizer's")
               : 0;
}

int masking_find(struct masking *out, const struct model_config *g, const struct mask_opts *o,
                 const char *tokenizer, struct err *err)
{
    int rc = 0;

    *out = (struct masking){ .prob = o->prob, .vocab = g->vocab, .mask = -1, .before = -1,
                             .behind = -1, .end = -1, .pad = (int32_t)g->pad,
                             .refuse_pad = g->arch->padded_positions };
    if (tokenizer)
        rc = ask_tokenizer(out, tokenizer, err);
    if (rc)
        return rc;
    if (out->mask >= 0 && o->id && (int32_t)o->id != out->mask)
        return err_misuse(err, "--mask-id %" PRIu64 ": the tokenizer's mask has the id %d", o->id,
                          (int)out->mask);
    if (o->id)
        out->mask = (int32_t)o->id;
    if (out->mask < 0)
        return err_misuse(err, "which id masks a token of this %s? %s%s", g->arch->title,
                          tokenizer ? tokenizer : "there is no tokenizer: give --tokenizer DIR, or",
                          tokenizer ? " names none: give --mask-id ID" : " --mask-id ID");
    const int32_t ids[] = { out->mask, out->before, out->behind };
    for (size_t i = 0; i < 3; i++)
        if (ids[i] >= 0 && (size_t)ids[i] >= g->vocab)
            return err_misuse(err, "the id %d, which %s, is not below the model's vocabulary of "
                              "%zu", (int)ids[i], i ? "stands around rows" : "masks tokens",
                              g->vocab);
    return 0;
}

/* Tokens of the file in a row: seq minus the special tokens. */
static size_t inside(const struct masking *m, size_t seq)
{
    size_t around = (size_t)(m->before >= 0) + (m->behind >= 0);

    return seq > around ? seq - around : 0;
}

static uint64_t rows_of(const struct masking *m, uint64_t count, size_t seq)
{
    size_t n = m ? inside(m, seq) : seq;

    return !n ? 0 : m ? count / n : count ? (count - 1) / n : 0;
}

void masking_rows(const struct masking *m, struct mixture *from, size_t seq)
{
    from->rows = 0;
    for (size_t i = 0; i < from->n; i++)
        from->rows += from->source[i].rows = rows_of(m, from->source[i].tokens->count, seq);
}

int masking_room(const struct masking *m, size_t seq) { return inside(m, seq) > 0; }

/* True for special tokens, which are never chosen. */
static int is_own(const struct masking *m, int32_t id)
{
    return id == m->mask || id == m->before || id == m->behind || id == m->end || id == m->pad;
}

/* The id that replaces a chosen token in the input. */
static int32_t instead(const struct masking *m, int32_t id, uint64_t bits)
{
    uint32_t how = (uint32_t)bits % 10;
    int32_t  other = (int32_t)((bits >> 32) * (m->vocab - 1) >> 32); // any id except the padding

    return how < 8 ? m->mask : how == 8 ? other + (other >= m->pad) : id;
}

uint64_t masking_chosen(double prob, uint64_t n)
{
    uint64_t chosen = (uint64_t)llround(prob * (double)n);

    return chosen ? chosen : n > 0;
}

/* The source of a row's random numbers; an evaluation's do not depend on the run. */
struct draw { uint64_t seed, number; int evaluates; };

static void mask_row(const struct masking *m, const struct draw *draw, int32_t *x,
                     int32_t *y, size_t seq)
{
    uint64_t stream = (draw->evaluates ? EVAL_STREAM : TRAIN_STREAM) + draw->number, n = 0, k = 0;
    uint64_t seed = draw->evaluates ? 0 : draw->seed;

    for (size_t i = 0; i < seq; i++)
        n += !is_own(m, x[i]);
    uint64_t chosen = masking_chosen(m->prob, n);

    for (size_t i = 0; i < seq; i++) {
        y[i] = -1;
        if (is_own(m, x[i]) || permute(seed, stream, k++, n) >= chosen)
            continue;
        y[i] = x[i];
        x[i] = instead(m, x[i], rng_bits(seed, stream, i));
    }
}

/* Make row i of a batch a row without targets. */
static void row_none(struct batch *b, size_t i)
{
    memset(b->y + i * b->seq, 0xff, b->seq * sizeof *b->y); // -1
    memset(b->types + i * b->seq, 0, b->seq * sizeof *b->types);
    b->last[i] = (int32_t)b->seq - 1;
}

/* Read row `row` of the file, mask it, and store it as row i of a batch. */
static int row_read(const struct masking *m, struct tokens *t, uint64_t row,
                    const struct draw *draw, struct batch *b, size_t i, struct err *err)
{
    int32_t *x = b->x + i * b->seq, *text = x + (m->before >= 0);
    size_t   n = inside(m, b->seq);
    int      rc = tokens_read(t, row * n, n, m->vocab, text, err);

    for (size_t k = 0; k < n && !rc && m->refuse_pad; k++)
        if (text[k] == m->pad)
            rc = err_misuse(err, "%s: the token at position %" PRIu64 " is the padding token, "
                            "which would shift the positions of the tokens after it: remove it "
                            "from the text", t->path, row * n + k);
    if (rc)
        return rc;
    row_none(b, i);
    if (m->before >= 0)
        x[0] = m->before;
    if (m->behind >= 0)
        x[b->seq - 1] = m->behind;
    mask_row(m, draw, x, b->y + i * b->seq, b->seq);
    return 0;
}

int masking_batch(const struct masking *m, const struct mixture *from, int evaluates,
                  uint64_t first, struct batch *b, struct err *err)
{
    struct draw draw = { .seed = from->seed, .number = first, .evaluates = evaluates };
    size_t      source;
    uint64_t    row;
    int         rc = 0;

    for (size_t i = 0; i < b->rows && !rc; i++, draw.number++) {
        if (!evaluates || draw.number < from->rows) {
            mixture_find(from, draw.number, &source, &row);
            rc = row_read(m, from->source[source].tokens, row, &draw, b, i, err);
            continue;
        }
        memset(b->x + i * b->seq, 0, b->seq * sizeof *b->x);
        row_none(b, i);
    }
    return rc;
}
