/* attention_forward.c: computes attention in tiles of TILE queries x TILE keys (Dao et al. 2022),
 * with a running maximum and sum for each query. Tiles are copied into scratch, where they are the
 * operands of small products. A form (attention_form.h) says what operands are made of.
 *
 * Invariants of forward and of backward (attention_backward.c):
 * - Scores are transposed, s[key][query]: maximum, sum, lse and delta are computed for many queries
 * at once, in vectors. So are the sums of a query's row, out and dq. Folded scores therefore are
 * the right operand as they are.
 * - The sums of a query go over key tiles in ascending order, and those of a key over the query
 * tiles of a part of the queries. Forward and backward get the same scores.
 * - One thread computes a (b, h, query tile) in forward, and a part of a (b, h) in backward, from
 * beginning to end. Sums over parts and over heads that share keys have a fixed order. Bits
 * therefore depend neither on threads, nor on the other rows of the batch, nor on how many query
 * tiles share loaded keys.
 * - Padding is zero: rows beyond T, and columns beyond the head size up to a multiple of the form's
 * strip.
 * - Tiles that no query sees are left out. In a causal diagonal tile, products run strip by strip
 * over what the mask leaves. Where a window or a text ends inside a tile, scores are made -inf.
 * - Dropout's factors f are made tile by tile, in both passes. Maximum, sum and lse are those of p
 * without dropout: out is (f p) v, hence dp = f (dout v'), dv = (f p)' dout, and the sum of p dp
 * over a row is dout . out as ever. */
#include "kernels/attention/attention.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <omp.h>

#include "data/base/arena.h"
#include "data/base/round.h"
#include "kernels/attention/attention_tile.h"
#include "kernels/transpose.h"

enum {
    GROUP = 8, // query tiles of a unit of forward, which share loaded keys
    CHUNK = 4, // key tiles that are loaded at a time: a query tile's sums stay in L1 for so many
};

static_assert(TILE == (int)DROPOUT_SPAN, "dropout_tile makes the factors of a tile");

/* ---- forward ---- */

struct query_tile {
    word  *qt;        // (width, TILE)
    float *o;         // (width, TILE) sums of p v, transposed
    float *max, *sum; // (TILE)
};

struct forward_tiles { // for one thread
    struct query_tile q[GROUP];
    word  *k, *v;        // (CHUNK TILE, width): the chunk's key tiles; values as left operands
    word  *rows, *fold;  // (TILE, width): tiles on the way to q and v
    word  *p;            // probabilities of a panel as operands
    float *s;            // scores of a panel, then probabilities
    float *corr;         // (TILE)
    float *drop;         // (TILE, TILE) factors of s, if there is dropout
};

static size_t forward_layout(struct forward_tiles *t, void *base, size_t width)
{
    struct arena c = { .base = base, .bytes = SIZE_MAX };

    for (int g = 0; g < GROUP; g++) {
        t->q[g].qt  = words_take(&c, TILE * width);
        t->q[g].o   = words_take(&c, TILE * width);
        t->q[g].max = words_take(&c, TILE);
        t->q[g].sum = words_take(&c, TILE);
    }
    t->k    = words_take(&c, CHUNK * TILE * width);
    t->v    = words_take(&c, CHUNK * TILE * width);
    t->rows = words_take(&c, TILE * width);
    t->fold = words_take(&c, TILE * width);
    t->p    = words_take(&c, TILE * TILE);
    t->s    = words_take(&c, TILE * TILE);
    t->corr = words_take(&c, TILE);
    t->drop = words_take(&c, TILE * TILE);
    return c.used;
}

/* Adds a tile of keys, loaded at `in` of t's k and v, to the sums of a tile of queries. */
static void forward_pair(const struct forward_tiles *t, const struct query_tile *q,
                         const struct head *hd, struct pair p, size_t in)
{
    const struct panel like = hd->form->forward;
    struct operand     v = tile_columns_at(hd, t->v + in);

    if (hd->drop)
        dropout_tile(t->drop, hd->row + p.i0, p.j0, hd->drop);
    for (size_t first = 0; first < p.nq; first += like.queries) {
        struct panel   at = panel_of(hd, &p, like, first, 0);
        struct tile    tile = tile_of(hd, &p, &at, t->drop);
        struct running running = { q->max + first, q->sum + first, t->corr };

        tile_scores(t->s, hd, t->k + in, q->qt, &at, p.diagonal);
        tile_mask(t->s, hd, p.i0 + first, p.j0, &at);
        const word *weights = hd->form->softmax(t->p, t->s, &running, &tile);
        if (!p.fresh)
            tile_scale(q->o + first, t->corr, hd->width, at.queries);
        tile_queries_add(q->o, hd, v, weights, &at, p.diagonal, p.fresh);
    }
}

static void query_begin(const struct forward_tiles *t, const struct query_tile *q,
                        const struct head *hd, size_t i0)
{
    tile_load(t->rows, hd, hd->q, hd->stride, i0);
    words_transpose(q->qt, TILE, t->rows, hd->words, TILE, hd->words);
    for (size_t i = 0; i < TILE; i++) {
        q->max[i] = -FLT_MAX; // finite, because a window's first tile may have no key for a query
        q->sum[i] = 0.0f;
    }
}

static void query_end(void *out, float *lse, const struct forward_tiles *t,
                      const struct query_tile *q, const struct head *hd, size_t i0)
{
    size_t n = size_min(hd->T - i0, TILE);
    float *by = t->corr;

    for (size_t i = 0; i < TILE; i++)
        by[i] = i < n ? 1.0f / q->sum[i] : 0.0f;
    for (size_t i = 0; i < n; i++)
        lse[i0 + i] = q->max[i] * hd->form->unit + logf(q->sum[i]);
    tile_scale(q->o, by, hd->width, TILE);
    tile_store_columns(out, hd->C, t->rows, q->o, hd, i0);
}

/* Loads the tile of keys j0.. to `at` in the chunk. */
static void forward_load(const struct forward_tiles *t, const struct head *hd, size_t j0, size_t at)
{
    word *v = t->v + at, *rows = hd->form->fold ? t->rows : v;

    tile_load(t->k + at, hd, hd->k, hd->stride, j0);
    tile_load(rows, hd, hd->v, hd->stride, j0);
    tile_columns(v, t->fold, hd, rows);
}

/* Computes queries [first, end), GROUP tiles at most. out and lse begin at row 0 of this head. */
static void forward_group(void *out, float *lse, const struct head *hd, size_t first, size_t end,
                          void *scratch)
{
    struct forward_tiles t;
    size_t               keys_end = tile_keys_end(hd, end), chunk = tile_keys_first(hd, first);

    forward_layout(&t, scratch, hd->width);
    if (hd->form->begin)
        hd->form->begin();
    for (size_t i0 = first; i0 < end; i0 += TILE)
        query_begin(&t, &t.q[(i0 - first) / TILE], hd, i0);
    for (; chunk < keys_end; chunk += CHUNK * TILE) {
        size_t to = size_min(chunk + CHUNK * TILE, keys_end);

        for (size_t j0 = chunk; j0 < to; j0 += TILE)
            forward_load(&t, hd, j0, (j0 - chunk) * hd->words);
        for (size_t i0 = first; i0 < end; i0 += TILE) {
            size_t last = size_min(to, tile_keys_end(hd, size_min(i0 + TILE, end)));

            for (size_t j0 = size_max(chunk, tile_keys_first(hd, i0)); j0 < last; j0 += TILE)
                forward_pair(&t, &t.q[(i0 - first) / TILE], hd, pair_of(hd, i0, j0),
                             (j0 - chunk) * hd->words);
        }
    }
    for (size_t i0 = first; i0 < end; i0 += TILE)
        query_end(out, lse, &t, &t.q[(i0 - first) / TILE], hd, i0);
    if (hd->form->end)
        hd->form->end();
}

/* ---- heads ---- */

const char *attention_describe(enum dtype dt) { return attention_form_of(dt)->name; }

void attention_forward(const struct attention *a)
{
    struct forward_tiles t;
    struct head all = head_make(a);
    size_t      B = a->B, T = a->T, H = a->H, span = GROUP * TILE, groups = div_up(T, span),
           bytes = forward_layout(&t, NULL, all.width);

    // The longest groups of queries go first, so that the threads end together.
    #pragma omp parallel for schedule(dynamic)
    for (size_t u = 0; u < B * H * groups; u++) {
        size_t      first = (groups - 1 - u / (B * H)) * span, last = size_min(first + span, T);
        size_t      b = u / H % B, h = u % H;
        struct head hd = head_of(&all, a, b, h);
        void       *out = dtype_at(a->out, a->dt, out_at(&hd, a, b, h));
        float      *lse = a->lse + hd.row;

        if (first < hd.T)
            forward_group(out, lse, &hd, first, size_min(last, hd.T),
                          (char *)a->scratch + (size_t)omp_get_thread_num() * bytes);
        tile_zero(out, &hd, hd.C, size_max(first, hd.T), last);
        for (size_t i = size_max(first, hd.T); i < last; i++)
            lse[i] = 0.0f;
    }
}

// the widest of all forms
static size_t widest(size_t C, size_t H) { return round_up(C / H, WIDE_STRIP); }

size_t attention_scratch_forward(size_t T, size_t C, size_t H, int threads)
{
    struct forward_tiles t;

    return size_max(forward_layout(&t, NULL, widest(C, H)), attention_decode_bytes(T, C / H)) *
           (size_t)threads;
}

size_t attention_scratch(size_t T, size_t C, size_t H, size_t KV, int threads)
{
    size_t backward = attention_backward_bytes(T, widest(C, H), KV > 0 && KV < H);

    return size_max(attention_scratch_forward(T, C, H, threads), backward * (size_t)threads);
}
