/* attention.c: computes attention and its gradients in tiles of TILE queries x TILE keys (Dao et
 * al. 2022). Forward keeps a running maximum and sum for each query; backward recomputes the
 * probabilities from lse. Tiles are copied into scratch, where they are the operands of small
 * products. A form (attention_form.h) says what operands are made of.
 *
 * Invariants:
 * - Scores are transposed, s[key][query]: maximum, sum, lse and delta are computed for many queries
 * at once, in vectors. So are the sums of a query's row, out and dq. Folded scores
 * therefore are the right operand as they are.
 * - The sums of a query go over key tiles in ascending order, and those of a key over query tiles.
 * Forward and backward get the same scores.
 * - One thread computes a (b, h, query tile) in forward and a (b, h) in backward from beginning to
 * end. Gradients of shared keys and values are computed per head and added up in order. Bits
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
#include "kernels/elementwise.h"
#include "kernels/transpose.h"

enum {
    GROUP = 8, // query tiles of a unit of forward, which share loaded keys
    CHUNK = 4, // key tiles that are loaded at a time: a query tile's sums stay in L1 for so many
};

static_assert(TILE == (int)DROPOUT_SPAN, "dropout_tile makes the factors of a tile");

/* ---- forward ---- */

/* Takes a part of a thread's scratch. A layout is run twice: from NULL for its size, then for its
 * pointers. */
static void *words(struct arena *all, size_t n) { return arena_take(all, n * sizeof(word)); }

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
        t->q[g].qt  = words(&c, TILE * width);
        t->q[g].o   = words(&c, TILE * width);
        t->q[g].max = words(&c, TILE);
        t->q[g].sum = words(&c, TILE);
    }
    t->k    = words(&c, CHUNK * TILE * width);
    t->v    = words(&c, CHUNK * TILE * width);
    t->rows = words(&c, TILE * width);
    t->fold = words(&c, TILE * width);
    t->p    = words(&c, TILE * TILE);
    t->s    = words(&c, TILE * TILE);
    t->corr = words(&c, TILE);
    t->drop = words(&c, TILE * TILE);
    return c.used;
}

/* A tile of queries, n rows from i0 on, and one of keys from j0 on, which they attend to. nq: n
 * padded to the form's strip. fresh: the first keys of these queries. */
struct pair { size_t i0, j0, nq; int diagonal, fresh; };

static struct pair pair_of(const struct head *hd, size_t i0, size_t j0)
{
    return (struct pair){ i0, j0, round_up(size_min(hd->T - i0, TILE), hd->form->strip),
                          hd->causal && i0 == j0, j0 == tile_keys_first(hd, i0) };
}

/* The panel at query `first` and key `key` of a pair; it has no keys if the diagonal masks all. */
static struct panel panel_of(const struct head *hd, const struct pair *p, struct panel like,
                             size_t first, size_t key)
{
    size_t queries = size_min(like.queries, p->nq - first),
           end = p->diagonal ? round_up(first + queries, hd->form->strip) : TILE;

    return (struct panel){ first, queries, key, end > key ? size_min(like.keys, end - key) : 0,
                           like.ld };
}

/* The panel's scores as softmax takes them. */
static struct tile tile_of(const struct head *hd, const struct pair *p, const struct panel *at,
                           const float *drop)
{
    return (struct tile){ .at = *at, .scale = hd->scale, .diagonal = p->diagonal,
                          .drop = hd->drop ? drop + at->key * TILE + at->first : NULL };
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

static size_t heads_of_keys(const struct attention *a) { return a->KV ? a->KV : a->H; }

// The values that all heads share.
static struct head head_make(const struct attention *a)
{
    const struct attention_form *form = a->form ? a->form : attention_form_of(a->dt);
    size_t hs = a->C / a->H, KV = heads_of_keys(a), width = round_up(hs, form->strip);

    assert(hs * a->H == a->C && hs >= 1 && hs <= ATTENTION_HEAD && a->H % KV == 0);
    assert((a->kind == ATTENTION_WINDOW) == (a->window > 0));
    assert(!a->lengths || a->kind == ATTENTION_BIDIRECTIONAL);
    return (struct head){
        .form = form, .hs = hs, .width = width, .words = width / form->depth, .C = a->C,
        .stride = a->C + 2 * KV * hs, .causal = a->kind != ATTENTION_BIDIRECTIONAL,
        .window = a->window < a->T ? a->window : 0, .dt = a->dt,
        .scale = 1.0f / sqrtf((float)hs) / form->unit,
        .drop = a->drop && a->drop->p > 0 ? a->drop : NULL,
    };
}

// Where head h of sequence b begins in a tensor like out, and in one like qkv.
static size_t out_at(const struct head *hd, const struct attention *a, size_t b, size_t h)
{
    return b * a->T * hd->C + h * hd->hs;
}

static size_t q_at(const struct head *hd, const struct attention *a, size_t b, size_t h)
{
    return b * a->T * hd->stride + h * hd->hs;
}

// Where the keys of head kv begin. Its values are KV heads further on.
static size_t k_at(const struct head *hd, const struct attention *a, size_t b, size_t kv)
{
    return b * a->T * hd->stride + hd->C + kv * hd->hs;
}

static struct head head_of(const struct head *all, const struct attention *a, size_t b, size_t h)
{
    size_t      KV = heads_of_keys(a), k = k_at(all, a, b, h / (a->H / KV));
    struct head hd = *all;

    assert(!a->lengths || (a->lengths[b] >= 0 && (size_t)a->lengths[b] <= a->T));
    hd.T   = a->lengths ? (size_t)a->lengths[b] : a->T;
    hd.begin = a->begin ? a->begin + b * a->T : NULL;
    hd.row = (b * a->H + h) * a->T;
    hd.q   = dtype_at(a->qkv, a->dt, q_at(all, a, b, h));
    hd.k   = dtype_at(a->qkv, a->dt, k);
    hd.v   = dtype_at(a->qkv, a->dt, k + KV * hd.hs);
    return hd;
}

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

/* ---- backward ---- */

struct backward_tiles { // for one thread
    word  *k, *k_cols, *v; // (T padded to TILE, width): the head's key tiles, one after the other
    float *dk, *dv;        // (T padded to TILE, width): sums over query tiles, in order
    float *dk_next, *dv_next; // the same for another head that shares the keys; or NULL
    word  *rows;           // (TILE, width): a tile on its way to another
    word  *q, *qt, *dout, *doutt; // (TILE, width) of the query tile: folded; transposed
    float *dq;             // (width, TILE): sums over key tiles, in order, transposed
    float *delta, *lse;    // (TILE): each row's dout . out; lse, 0 beyond T
    float *p, *ds;         // scores of a panel, then probabilities; their gradients
    struct gradients_to to;
    float *drop;           // (TILE, TILE) factors of p, if there is dropout
};

static size_t backward_layout(struct backward_tiles *t, void *base, size_t T, size_t width,
                              int shared)
{
    word     **tiles[]   = { &t->rows, &t->q, &t->qt, &t->dout, &t->doutt };
    word     **squares[] = { &t->to.p, &t->to.ds, &t->to.ds_folded };
    size_t     all = round_up(T, TILE) * width;
    struct arena c = { .base = base, .bytes = SIZE_MAX };

    t->k      = words(&c, all);
    t->k_cols = words(&c, all);
    t->v      = words(&c, all);
    t->dk     = words(&c, all);
    t->dv     = words(&c, all);
    t->dk_next = shared ? words(&c, all) : NULL;
    t->dv_next = shared ? words(&c, all) : NULL;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        *tiles[i] = words(&c, TILE * width);
    t->dq    = words(&c, TILE * width);
    t->delta = words(&c, TILE);
    t->lse   = words(&c, TILE);
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
        *squares[i] = words(&c, TILE * TILE);
    t->p    = words(&c, TILE * TILE);
    t->ds   = words(&c, TILE * TILE);
    t->drop = words(&c, TILE * TILE);
    return c.used;
}

/* Turns a panel's scores into operands, as softmax_backward does. */
static struct gradients backward_panel(const struct backward_tiles *t, const struct head *hd,
                                       const struct pair *p, const struct panel *at)
{
    struct tile tile = tile_of(hd, p, at, t->drop);
    size_t      in = p->j0 * hd->words;

    tile.lse = t->lse + at->first;
    tile.delta = t->delta + at->first;
    tile_scores(t->p, hd, t->k + in, t->qt, at, p->diagonal);
    tile_mask(t->p, hd, p->i0 + at->first, p->j0 + at->key, at);
    tile_scores(t->ds, hd, t->v + in, t->doutt, at, p->diagonal);
    return hd->form->softmax_backward(&t->to, t->p, t->ds, &tile);
}

/* Adds the gradients of the loaded tile of queries with one of the head's keys. */
static void backward_pair(const struct backward_tiles *t, const struct head *hd, struct pair p)
{
    const struct panel like = hd->form->backward;
    const word        *columns = hd->form->fold ? t->k_cols : t->k;
    struct operand     keys = tile_columns_at(hd, columns + p.j0 * hd->words);
    struct gradients   g = { 0 };
    size_t             to = p.j0 * hd->width;
    int                fresh = hd->causal ? p.diagonal : !hd->begin && p.i0 == 0;

    if (hd->drop)
        dropout_tile(t->drop, hd->row + p.i0, p.j0, hd->drop);
    for (size_t first = 0; first < p.nq; first += like.queries) {
        struct panel at;

        for (size_t key = 0; (at = panel_of(hd, &p, like, first, key)).keys > 0; key += like.keys)
            g = backward_panel(t, hd, &p, &at);
        tile_queries_add(t->dq, hd, keys, g.ds_folded, &at, p.diagonal, p.fresh);
    }
    tile_keys_add(t->dv + to, hd, g.p, t->dout, p.nq, p.diagonal, fresh);
    tile_keys_add(t->dk + to, hd, g.ds, t->q, p.nq, p.diagonal, fresh);
}

/* Loads the head's keys and values as tiles. */
static void backward_begin(const struct backward_tiles *t, const struct head *hd)
{
    if (hd->form->begin)
        hd->form->begin();
    for (size_t j0 = 0; j0 < hd->T; j0 += TILE) {
        size_t in = j0 * hd->words;

        tile_load(t->k + in, hd, hd->k, hd->stride, j0);
        tile_load(t->v + in, hd, hd->v, hd->stride, j0);
        tile_columns(t->k_cols + in, t->rows, hd, t->k + in);
    }
}

/* Loads rows i0.. of x as right operands: `turned`, and `folded` for sums over them. */
static void backward_load(const struct backward_tiles *t, const struct head *hd, const void *x,
                          size_t stride, size_t i0, word *turned, word *folded)
{
    word *rows = hd->form->fold ? t->rows : folded;

    tile_load(rows, hd, x, stride, i0);
    words_transpose(turned, TILE, rows, hd->words, TILE, hd->words);
    tile_fold(folded, hd, rows);
}

/* Computes queries i0.. with all keys that they see. dq, dout, out and lse begin at row 0. */
static void backward_query_tile(const struct backward_tiles *t, const struct head *hd, void *dq,
                                const void *dout, const void *out, const float *lse, size_t i0)
{
    size_t n = size_min(hd->T - i0, TILE);

    backward_load(t, hd, hd->q, hd->stride, i0, t->qt, t->q);
    backward_load(t, hd, dout, hd->C, i0, t->doutt, t->dout);
    memset(t->lse, 0, sizeof(float) * TILE);
    memcpy(t->lse, lse + i0, sizeof(float) * n);
    tile_dot(t->delta, t->p, hd, dtype_at(dout, hd->dt, i0 * hd->C),
             dtype_at(out, hd->dt, i0 * hd->C), n);
    for (size_t j0 = tile_keys_first(hd, i0); j0 < tile_keys_end(hd, i0 + n); j0 += TILE)
        backward_pair(t, hd, pair_of(hd, i0, j0));
    tile_store_columns(dq, hd->stride, t->rows, t->dq, hd, i0);
}

/* The arguments of a call of attention_backward. */
struct backward {
    const struct attention *a;
    struct head all;
    const void *dout;
    void       *dqkv;
    size_t      KV, group; // heads of keys and values; heads of queries for each
    size_t      bytes;     // scratch of one thread
};

static struct backward_tiles tiles_of(const struct backward *w, size_t slot)
{
    struct backward_tiles t;

    backward_layout(&t, (char *)w->a->scratch + slot * w->bytes, w->a->T, w->all.width,
                    w->group > 1);
    return t;
}

/* Computes head h of queries with the loaded keys: its dq, and dk and dv in t. */
static void backward_head(const struct backward *w, const struct backward_tiles *t, size_t b,
                          size_t h)
{
    struct head hd = head_of(&w->all, w->a, b, h);
    size_t      at = out_at(&hd, w->a, b, h), all = round_up(hd.T, TILE) * hd.width;
    void       *dq = dtype_at(w->dqkv, hd.dt, q_at(&hd, w->a, b, h));

    if (hd.begin && !hd.causal) { // otherwise the first queries that see a key write its sums
        memset(t->dk, 0, sizeof(float) * all);
        memset(t->dv, 0, sizeof(float) * all);
    }
    for (size_t i0 = 0; i0 < hd.T; i0 += TILE)
        backward_query_tile(t, &hd, dq, dtype_at(w->dout, hd.dt, at),
                            dtype_at(w->a->out, hd.dt, at), w->a->lse + hd.row, i0);
    tile_zero(dq, &hd, hd.stride, hd.T, w->a->T);
}

/* Stores rows [from, to) of dk and dv of head kv from t. Padding rows become zeros. */
static void backward_store(const struct backward *w, const struct backward_tiles *t, size_t b,
                           size_t kv, size_t from, size_t to)
{
    struct head  hd = head_of(&w->all, w->a, b, kv * w->group);
    size_t       at = k_at(&hd, w->a, b, kv), text = size_max(from, size_min(to, hd.T));
    const float *sums[] = { t->dk, t->dv };

    for (int i = 0; i < 2; i++, at += w->KV * hd.hs) {
        void *rows = dtype_at(w->dqkv, hd.dt, at);

        tile_store(dtype_at(rows, hd.dt, from * hd.stride), hd.dt, hd.stride,
                   sums[i] + from * hd.width, hd.width, text - from, hd.hs);
        tile_zero(rows, &hd, hd.stride, text, to);
    }
}

/* Computes head kv with its heads of queries one after the other, in one thread. */
static void backward_alone(const struct backward *w, size_t b, size_t kv)
{
    struct backward_tiles t = tiles_of(w, (size_t)omp_get_thread_num()), next = t;
    struct head hd = head_of(&w->all, w->a, b, kv * w->group);
    size_t      all = round_up(hd.T, TILE) * hd.width;

    next.dk = t.dk_next;
    next.dv = t.dv_next;
    backward_begin(&t, &hd);
    for (size_t g = 0; g < w->group; g++) {
        backward_head(w, g ? &next : &t, b, kv * w->group + g);
        if (g) {
            row_add(t.dk, t.dk, next.dk, all);
            row_add(t.dv, t.dv, next.dv, all);
        }
    }
    if (hd.form->end)
        hd.form->end();
    backward_store(w, &t, b, kv, 0, w->a->T);
}

/* Computes one head h of queries in slot `slot`. */
static void backward_one(const struct backward *w, size_t slot, size_t b, size_t h)
{
    struct backward_tiles t = tiles_of(w, slot);
    struct head           hd = head_of(&w->all, w->a, b, h);

    backward_begin(&t, &hd);
    backward_head(w, &t, b, h);
    if (hd.form->end)
        hd.form->end();
}

/* Adds up the gradients of rows j0.. of head kv. Its heads of queries have the slots from `slot`
 * on. */
static void backward_sum(const struct backward *w, size_t slot, size_t b, size_t kv, size_t j0)
{
    struct backward_tiles t = tiles_of(w, slot);
    size_t at = j0 * w->all.width, n = TILE * w->all.width;

    for (size_t g = 1; g < w->group && j0 < head_of(&w->all, w->a, b, 0).T; g++) {
        struct backward_tiles next = tiles_of(w, slot + g);

        row_add(t.dk + at, t.dk + at, next.dk + at, n);
        row_add(t.dv + at, t.dv + at, next.dv + at, n);
    }
    backward_store(w, &t, b, kv, j0, size_min(j0 + TILE, w->a->T));
}

/* Computes `n` heads of keys and values at a time, with a thread for each of their heads of
 * queries. All threads of a parallel region call this. */
static void backward_together(const struct backward *w, size_t n)
{
    size_t KV = w->KV, group = w->group, end = w->a->B * KV, tiles = div_up(w->a->T, TILE);

    for (size_t first = 0; first < end; first += n) {
        size_t now = size_min(n, end - first);

        if (first > 0) { // other threads may still add up the heads before
            #pragma omp barrier
        }
        #pragma omp for schedule(dynamic)
        for (size_t s = 0; s < now * group; s++) {
            size_t u = first + s / group;

            backward_one(w, s, u / KV, u % KV * group + s % group);
        }
        #pragma omp for schedule(static) nowait
        for (size_t s = 0; s < now * tiles; s++) {
            size_t u = first + s / tiles;

            backward_sum(w, s / tiles * group, u / KV, u % KV, s % tiles * TILE);
        }
    }
}

void attention_backward(void *dqkv, const void *dout, const struct attention *a)
{
    struct backward_tiles t;
    size_t KV = heads_of_keys(a), group = a->H / KV, units = a->B * KV,
           threads = (size_t)omp_get_max_threads(), at_once = threads / group;
    struct backward w = { a, head_make(a), dout, dqkv, KV, group, 0 };

    w.bytes = backward_layout(&t, NULL, a->T, w.all.width, group > 1);
    // If many heads share few, running them together may take fewer turns. The bits are the same.
    int together = at_once > 0 && div_up(units, at_once) < div_up(units, threads) * group;

    #pragma omp parallel
    {
        if (together) {
            backward_together(&w, at_once);
        } else {
            #pragma omp for schedule(dynamic) nowait
            for (size_t u = 0; u < units; u++)
                backward_alone(&w, u / KV, u % KV);
        }
        if (a->idle)
            a->idle(a->ctx);
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
    struct backward_tiles t;
    size_t backward = backward_layout(&t, NULL, T, widest(C, H), KV > 0 && KV < H);

    return size_max(attention_scratch_forward(T, C, H, threads), backward * (size_t)threads);
}
