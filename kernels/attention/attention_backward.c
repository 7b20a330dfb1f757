/* attention_backward.c: computes the gradients of attention in tiles, as attention_forward.c, whose
 * invariants hold here. Probabilities are recomputed from lse.
 *
 * Queries are cut into parts. A part has its own sums of dk and dv, which are added up in a fixed
 * order: over the part's queries, then over the heads of queries that share the keys, then over the
 * parts, from the last one to the first. So their bits do not depend on threads.
 *
 * A unit of work is a head of keys of one sequence. Threads share the units in one of three ways:
 *
 *   whole   A thread computes a unit, part by part.
 *   parts   A thread computes a part of a unit. The last units, fewer than threads, are computed
 *           so. The longest part has three quarters of a unit's work, or less.
 *   heads   A thread computes a part for one head of queries. All units are computed so if they
 *           are few, and many heads of queries share their keys.
 *
 * Sums that different threads computed are added up when all have ended. Until then they lie in
 * slots, which are pieces of the threads' scratch. */
#include "kernels/attention/attention.h"

#include <omp.h>

#include "data/base/arena.h"
#include "data/base/round.h"
#include "kernels/attention/attention_tile.h"
#include "kernels/elementwise.h"
#include "kernels/transpose.h"

enum { PART = 8 * TILE }; // queries of the first part

/* ---- parts ---- */

struct range { size_t begin, end; }; // rows [begin, end)

/* The queries of part p. Each part has as many queries as all parts before it, and so three times
 * their work where queries attend to all earlier keys. */
static struct range part_of(const struct head *hd, size_t p)
{
    if (!hd->causal)
        return (struct range){ 0, hd->T };
    return (struct range){ p ? (size_t)PART << (p - 1) : 0, size_min((size_t)PART << p, hd->T) };
}

static size_t parts_of(int causal, size_t T)
{
    size_t n = 1;

    while (causal && (size_t)PART << (n - 1) < T)
        n++;
    return n;
}

/* Keys of all parts before part p, in rows: part 0 has PART. */
static size_t keys_before(size_t p) { return ((size_t)PART << p) - PART; }

/* ---- a thread's tiles ---- */

struct query_grads {
    word  *q, *qt, *dout, *doutt; // (TILE, width): folded; transposed
    float *dq;                    // (width, TILE): sums over key tiles, in order, transposed
    float *delta, *lse;           // (TILE): each row's dout . out; lse, 0 beyond T
};

struct sums { float *dk, *dv; }; // (rows of keys, width)

struct backward_tiles {
    word  *k, *k_cols, *v; // (T padded to TILE, width): a head's key tiles, one after the other
    struct sums next;      // (T padded, width) of a further head that shares the keys; or NULL
    word  *rows;           // (TILE, width): a tile on its way to another
    struct query_grads q;
    float *p, *ds;         // scores of a panel, then probabilities; their gradients
    struct gradients_to to;
    float *drop;           // (TILE, TILE) factors of p, if there is dropout
    /* The sums of a slot. Another thread than the scratch's own may fill them. */
    struct sums last;      // (T padded, width): the last part's, in the end all parts'
    struct sums lower;     // the parts' before, one after the other
};

static struct sums sums_take(struct arena *c, size_t elements)
{
    struct sums s;

    s.dk = words_take(c, elements);
    s.dv = words_take(c, elements);
    return s;
}

static size_t backward_layout(struct backward_tiles *t, void *base, size_t T, size_t width,
                              int shared)
{
    word     **tiles[]   = { &t->rows, &t->q.q, &t->q.qt, &t->q.dout, &t->q.doutt };
    word     **squares[] = { &t->to.p, &t->to.ds, &t->to.ds_folded };
    size_t     all = round_up(T, TILE) * width, tile = TILE * width;
    struct arena c = { .base = base, .bytes = SIZE_MAX };

    t->k      = words_take(&c, all);
    t->k_cols = words_take(&c, all);
    t->v      = words_take(&c, all);
    t->next   = shared ? sums_take(&c, all) : (struct sums){ NULL, NULL };
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        *tiles[i] = words_take(&c, tile);
    t->q.dq    = words_take(&c, tile);
    t->q.delta = words_take(&c, TILE);
    t->q.lse   = words_take(&c, TILE);
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
        *squares[i] = words_take(&c, TILE * TILE);
    t->p    = words_take(&c, TILE * TILE);
    t->ds   = words_take(&c, TILE * TILE);
    t->drop = words_take(&c, TILE * TILE);
    t->last  = sums_take(&c, all);
    t->lower = sums_take(&c, keys_before(parts_of(1, T) - 1) * width);
    return c.used;
}

size_t attention_backward_bytes(size_t T, size_t width, int shared)
{
    struct backward_tiles t;

    return backward_layout(&t, NULL, T, width, shared);
}

/* ---- a pair of tiles ---- */

/* Turns a panel's scores into operands, as softmax_backward does. */
static struct gradients backward_panel(const struct backward_tiles *t, const struct head *hd,
                                       const struct pair *p, const struct panel *at)
{
    struct tile tile = tile_of(hd, p, at, t->drop);
    size_t      in = p->j0 * hd->words;

    tile.lse = t->q.lse + at->first;
    tile.delta = t->q.delta + at->first;
    tile_scores(t->p, hd, t->k + in, t->q.qt, at, p->diagonal);
    tile_mask(t->p, hd, p->i0 + at->first, p->j0 + at->key, at);
    tile_scores(t->ds, hd, t->v + in, t->q.doutt, at, p->diagonal);
    return hd->form->softmax_backward(&t->to, t->p, t->ds, &tile);
}

/* Adds the gradients of the loaded tile of queries with one of keys. fresh: it is the first one of
 * its part that sees these keys. */
static void backward_pair(const struct backward_tiles *t, const struct sums *s,
                          const struct head *hd, struct pair p, int fresh)
{
    const struct panel like = hd->form->backward;
    const word        *columns = hd->form->fold ? t->k_cols : t->k;
    struct operand     keys = tile_columns_at(hd, columns + p.j0 * hd->words);
    struct gradients   g = { 0 };
    size_t             to = p.j0 * hd->width;

    if (hd->drop)
        dropout_tile(t->drop, hd->row + p.i0, p.j0, hd->drop);
    for (size_t first = 0; first < p.nq; first += like.queries) {
        struct panel at;

        for (size_t key = 0; (at = panel_of(hd, &p, like, first, key)).keys > 0; key += like.keys)
            g = backward_panel(t, hd, &p, &at);
        tile_queries_add(t->q.dq, hd, keys, g.ds_folded, &at, p.diagonal, p.fresh);
    }
    tile_keys_add(s->dv + to, hd, g.p, t->q.dout, p.nq, p.diagonal, fresh);
    tile_keys_add(s->dk + to, hd, g.ds, t->q.q, p.nq, p.diagonal, fresh);
}

/* ---- a part of a unit ---- */

/* The arguments of a call of attention_backward. */
struct backward {
    const struct attention *a;
    struct head all;
    const void *dout;
    void       *dqkv;
    size_t      KV, group; // heads of keys and values; heads of queries for each
    size_t      parts;
    size_t      bytes;     // scratch of one thread
};

static struct backward_tiles tiles_of(const struct backward *w, size_t slot)
{
    struct backward_tiles t;

    backward_layout(&t, (char *)w->a->scratch + slot * w->bytes, w->a->T, w->all.width,
                    w->group > 1);
    return t;
}

/* Where a slot has the sums of part p. */
static struct sums sums_of(const struct backward *w, size_t slot, size_t p)
{
    struct backward_tiles t = tiles_of(w, slot);
    size_t                at = keys_before(p) * w->all.width;

    return p == w->parts - 1 ? t.last : (struct sums){ t.lower.dk + at, t.lower.dv + at };
}

/* A head of queries, and its rows from 0 on. */
struct queries {
    struct head  hd;
    void        *dq;
    const void  *dout, *out;
    const float *lse;
};

static struct queries queries_of(const struct backward *w, size_t unit, size_t g)
{
    const struct attention *a = w->a;
    size_t       b = unit / w->KV, h = unit % w->KV * w->group + g,
                 at = out_at(&w->all, a, b, h), to = q_at(&w->all, a, b, h);
    struct head  hd = head_of(&w->all, a, b, h);

    return (struct queries){ hd, dtype_at(w->dqkv, a->dt, to), dtype_at(w->dout, a->dt, at),
                             dtype_at(a->out, a->dt, at), a->lse + hd.row };
}

/* The keys that a part's queries attend to, in rows of whole tiles. */
static struct range keys_of(const struct head *hd, size_t p)
{
    struct range at = part_of(hd, p);

    if (at.begin >= at.end)
        return (struct range){ 0, 0 };
    return (struct range){ tile_keys_first(hd, at.begin),
                           round_up(tile_keys_end(hd, at.end), TILE) };
}

static void load_keys(const struct backward_tiles *t, const struct head *hd, size_t j0, size_t end)
{
    for (; j0 < end; j0 += TILE) {
        size_t in = j0 * hd->words;

        tile_load(t->k + in, hd, hd->k, hd->stride, j0);
        tile_load(t->v + in, hd, hd->v, hd->stride, j0);
        tile_columns(t->k_cols + in, t->rows, hd, t->k + in);
    }
}

/* Loads rows i0.. of x as right operands: `turned`, and `folded` for sums over them. */
static void load_rows(const struct backward_tiles *t, const struct head *hd, const void *x,
                      size_t stride, size_t i0, word *turned, word *folded)
{
    word *rows = hd->form->fold ? t->rows : folded;

    tile_load(rows, hd, x, stride, i0);
    words_transpose(turned, TILE, rows, hd->words, TILE, hd->words);
    tile_fold(folded, hd, rows);
}

/* Computes queries i0.. with all keys that they see. begin: where their part begins. */
static void backward_queries(const struct backward_tiles *t, const struct sums *s,
                             const struct queries *of, size_t i0, size_t begin)
{
    const struct head        *hd = &of->hd;
    const struct query_grads *q = &t->q;
    size_t                    n = size_min(hd->T - i0, TILE);

    load_rows(t, hd, hd->q, hd->stride, i0, q->qt, q->q);
    load_rows(t, hd, of->dout, hd->C, i0, q->doutt, q->dout);
    memset(q->lse, 0, sizeof(float) * TILE);
    memcpy(q->lse, of->lse + i0, sizeof(float) * n);
    tile_dot(q->delta, t->p, hd, dtype_at(of->dout, hd->dt, i0 * hd->C),
             dtype_at(of->out, hd->dt, i0 * hd->C), n);
    for (size_t j0 = tile_keys_first(hd, i0); j0 < tile_keys_end(hd, i0 + n); j0 += TILE)
        backward_pair(t, s, hd, pair_of(hd, i0, j0),
                      hd->causal ? i0 == j0 || i0 == begin : !hd->begin && i0 == 0);
    tile_store_columns(of->dq, hd->stride, t->rows, q->dq, hd, i0);
}

/* Computes part p of head g of a unit's queries with the loaded keys: their dq, and the sums s. */
static void backward_head(const struct backward *w, const struct backward_tiles *t,
                          const struct sums *s, size_t unit, size_t g, size_t p)
{
    struct queries of = queries_of(w, unit, g);
    struct range   at = part_of(&of.hd, p);

    if (of.hd.begin && !of.hd.causal) { // otherwise the first queries that see a key write its sums
        memset(s->dk, 0, sizeof(float) * round_up(of.hd.T, TILE) * of.hd.width);
        memset(s->dv, 0, sizeof(float) * round_up(of.hd.T, TILE) * of.hd.width);
    }
    for (size_t i0 = at.begin; i0 < at.end; i0 += TILE)
        backward_queries(t, s, &of, i0, at.begin);
    if (p == w->parts - 1)
        tile_zero(of.dq, &of.hd, of.hd.stride, of.hd.T, w->a->T);
}

/* Adds elements [at, end) of x, if any. */
static void sums_add(const struct sums *to, const struct sums *x, size_t at, size_t end)
{
    if (at >= end)
        return;
    row_add(to->dk + at, to->dk + at, x->dk + at, end - at);
    row_add(to->dv + at, to->dv + at, x->dv + at, end - at);
}

static void sums_copy(const struct sums *to, const struct sums *x, size_t at, size_t end)
{
    if (at >= end)
        return;
    memcpy(to->dk + at, x->dk + at, (end - at) * sizeof(float));
    memcpy(to->dv + at, x->dv + at, (end - at) * sizeof(float));
}

/* Computes part p of heads [g, end) of a unit's queries, with their sums in a slot. The thread has
 * loaded the unit's keys from row `loaded` on. */
static void backward_part(const struct backward *w, size_t slot, size_t unit, size_t g, size_t end,
                          size_t p, size_t loaded)
{
    const struct backward_tiles t = tiles_of(w, (size_t)omp_get_thread_num());
    const struct sums           s = sums_of(w, slot, p);
    const struct head           hd = queries_of(w, unit, g).hd;
    const struct range          keys = keys_of(&hd, p);

    if (hd.form->begin)
        hd.form->begin();
    load_keys(&t, &hd, keys.begin, size_min(keys.end, loaded));
    backward_head(w, &t, &s, unit, g, p);
    while (++g < end) {
        backward_head(w, &t, &t.next, unit, g, p);
        sums_add(&s, &t.next, keys.begin * hd.width, keys.end * hd.width);
    }
    if (hd.form->end)
        hd.form->end();
}

/* Adds up rows [from, to) of a unit's sums into `last` of the first of n slots, which it returns.
 * The slots divide the unit's heads of queries. */
static struct sums backward_sum(const struct backward *w, size_t slot, size_t n, size_t unit,
                                size_t from, size_t to)
{
    const struct head hd = queries_of(w, unit, 0).hd;
    const struct sums all = sums_of(w, slot, w->parts - 1);
    size_t            width = hd.width,
                      have = to; // rows from here on are in `all`: a window may hide earlier ones
                                 // from the last part

    for (size_t p = w->parts; p-- > 0;) {
        struct range keys = keys_of(&hd, p);
        struct sums  s = sums_of(w, slot, p);
        size_t       first = size_max(keys.begin, from) * width,
                     end = size_min(keys.end, to) * width;

        for (size_t i = 1; i < n; i++) {
            struct sums x = sums_of(w, slot + i, p);

            sums_add(&s, &x, first, end);
        }
        if (p != w->parts - 1) {
            sums_copy(&all, &s, first, size_min(end, have * width));
            sums_add(&all, &s, size_max(first, have * width), end);
        }
        have = size_min(have, size_max(keys.begin, from));
    }
    return all;
}

/* Adds up rows [from, to) of a unit's dk and dv and stores them. Padding rows become zeros. */
static void backward_store(const struct backward *w, size_t slot, size_t n, size_t unit,
                           size_t from, size_t to)
{
    struct head  hd = queries_of(w, unit, 0).hd;
    size_t       text = size_max(from, size_min(to, hd.T)),
                 at = k_at(&hd, w->a, unit / w->KV, unit % w->KV);
    struct sums  s = backward_sum(w, slot, n, unit, from, text);
    const float *sums[] = { s.dk, s.dv };

    for (int i = 0; i < 2; i++, at += w->KV * hd.hs) {
        void *rows = dtype_at(w->dqkv, hd.dt, at);

        tile_store(dtype_at(rows, hd.dt, from * hd.stride), hd.dt, hd.stride,
                   sums[i] + from * hd.width, hd.width, text - from, hd.hs);
        tile_zero(rows, &hd, hd.stride, text, to);
    }
}

/* ---- who computes what ---- */

static void backward_whole(const struct backward *w, size_t unit)
{
    const struct head hd = queries_of(w, unit, 0).hd;
    size_t            slot = (size_t)omp_get_thread_num(), loaded = SIZE_MAX;

    for (size_t p = w->parts; p-- > 0; loaded = size_min(loaded, keys_of(&hd, p).begin))
        backward_part(w, slot, unit, 0, w->group, p, loaded);
    backward_store(w, slot, 1, unit, 0, w->a->T);
}

/* Computes units [first, end), each in `heads` slots: 1, or one for each of its heads of queries.
 * All threads of a parallel region call this. The longest parts go first, so that the threads end
 * together. */
static void backward_parts(const struct backward *w, size_t first, size_t end, size_t heads)
{
    size_t slots = (end - first) * heads, each = w->group / heads;

    #pragma omp for schedule(dynamic) nowait
    for (size_t i = 0; i < slots * w->parts; i++) {
        size_t slot = i % slots, g = slot % heads * each;

        backward_part(w, slot, first + slot / heads, g, g + each, w->parts - 1 - i / slots,
                      SIZE_MAX);
    }
}

/* Adds up and stores the sums that backward_parts computed with the same arguments. */
static void backward_sums(const struct backward *w, size_t first, size_t end, size_t heads)
{
    size_t tiles = div_up(w->a->T, TILE);

    #pragma omp for schedule(static) nowait
    for (size_t i = 0; i < (end - first) * tiles; i++) {
        size_t j0 = i % tiles * TILE;

        backward_store(w, i / tiles * heads, heads, first + i / tiles, j0,
                       size_min(j0 + TILE, w->a->T));
    }
}

void attention_backward(void *dqkv, const void *dout, const struct attention *a)
{
    struct head all = head_make(a);
    size_t KV = heads_of_keys(a), group = a->H / KV, units = a->B * KV,
           threads = (size_t)omp_get_max_threads(), fit = threads / group;
    struct backward w = { .a = a, .all = all, .dout = dout, .dqkv = dqkv, .KV = KV, .group = group,
                          .parts = parts_of(all.causal, a->T),
                          .bytes = attention_backward_bytes(a->T, all.width, group > 1) };
    // By heads if that takes fewer turns. The bits are the same.
    int    by_heads = fit > 0 && div_up(units, fit) < div_up(units, threads) * group;
    size_t whole = by_heads ? 0 : w.parts > 1 ? units / threads * threads : units,
           heads = by_heads ? group : 1, at_once = by_heads ? fit : threads;

    #pragma omp parallel
    {
        #pragma omp for schedule(dynamic) nowait
        for (size_t u = 0; u < whole; u++)
            backward_whole(&w, u);
        for (size_t u = whole; u < units; u += at_once) {
            size_t end = size_min(u + at_once, units);

            #pragma omp barrier // the slots are free
            backward_parts(&w, u, end, heads);
            if (a->idle && end == units)
                a->idle(a->ctx);
            #pragma omp barrier
            backward_sums(&w, u, end, heads);
        }
        if (a->idle && whole == units)
            a->idle(a->ctx);
    }
}
