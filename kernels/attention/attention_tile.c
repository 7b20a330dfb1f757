/* attention_tile.c: copies rows between tensors and tiles, says which tiles a query sees, masks
 * scores, and runs the products of tiles, for any form. The form masks a causal diagonal itself.
 * Products run strip by strip over what it leaves. */
#include "kernels/attention/attention_tile.h"

#include <assert.h>
#include <math.h>

#include "data/base/round.h"
#include "kernels/transpose.h"

/* ---- heads ---- */

size_t heads_of_keys(const struct attention *a) { return a->KV ? a->KV : a->H; }

struct head head_make(const struct attention *a)
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

size_t out_at(const struct head *hd, const struct attention *a, size_t b, size_t h)
{
    return b * a->T * hd->C + h * hd->hs;
}

size_t q_at(const struct head *hd, const struct attention *a, size_t b, size_t h)
{
    return b * a->T * hd->stride + h * hd->hs;
}

size_t k_at(const struct head *hd, const struct attention *a, size_t b, size_t kv)
{
    return b * a->T * hd->stride + hd->C + kv * hd->hs;
}

struct head head_of(const struct head *all, const struct attention *a, size_t b, size_t h)
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

/* ---- between tensors and tiles ---- */

void tile_load(word *rows, const struct head *hd, const void *x, size_t stride, size_t i0)
{
    hd->form->load(rows, dtype_at(x, hd->dt, i0 * stride), hd->dt, stride,
                   size_min(hd->T - i0, TILE), hd->hs, hd->width);
}

const word *tile_fold(word *out, const struct head *hd, const word *rows)
{
    if (!hd->form->fold)
        return rows;
    hd->form->fold(out, rows, hd->width);
    return out;
}

struct operand tile_columns_at(const struct head *hd, const word *columns)
{
    return hd->form->contiguous ? (struct operand){ columns, TILE / hd->form->depth, 1 }
                                : (struct operand){ columns, 1, hd->width };
}

struct operand tile_columns(word *out, word *folded, const struct head *hd, const word *rows)
{
    if (!hd->form->contiguous)
        return tile_columns_at(hd, tile_fold(out, hd, rows));
    words_transpose(out, TILE / hd->form->depth, tile_fold(folded, hd, rows), hd->width,
                    TILE / hd->form->depth, hd->width);
    return tile_columns_at(hd, out);
}

SIMD_CLONES static void row_narrow(bf16 *restrict out, const float *restrict x, size_t n)
{
    for (size_t j = 0; j < n; j++)
        out[j] = bf16_from_f32(x[j]);
}

void tile_store(void *out, enum dtype dt, size_t stride, const float *x, size_t ld, size_t rows,
                size_t n)
{
    for (size_t i = 0; i < rows; i++, x += ld)
        if (dt == DT_BF16)
            row_narrow((bf16 *)out + i * stride, x, n);
        else
            memcpy((float *)out + i * stride, x, n * sizeof *x);
}

void tile_store_columns(void *out, size_t stride, word *scratch, const float *x,
                        const struct head *hd, size_t i0)
{
    words_transpose(scratch, hd->width, (const word *)x, TILE, hd->width, TILE);
    tile_store(dtype_at(out, hd->dt, i0 * stride), hd->dt, stride, (const float *)scratch,
               hd->width, size_min(hd->T - i0, TILE), hd->hs);
}

void tile_zero(void *x, const struct head *hd, size_t stride, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        memset(dtype_at(x, hd->dt, i * stride), 0, hd->hs * dtype_bytes(hd->dt));
}

/* ---- vectors of a tile ---- */

SIMD_CLONES void tile_scale(float *restrict x, const float *restrict by, size_t rows, size_t n)
{
    int changed = 0;

    for (size_t j = 0; j < n; j++)
        changed |= by[j] != 1.0f;
    for (size_t i = 0; changed && i < rows; i++)
        for (size_t j = 0; j < n; j++)
            x[i * TILE + j] *= by[j];
}

/* lanes (rows, STRIP): the products of rows of x and y, not yet added up. a, b: scratch for a row
 * of each. */
SIMD_CLONES static void rows_dot(float *restrict lanes, float *restrict a, float *restrict b,
                                 const struct head *hd, const void *x, const void *y, size_t rows)
{
    const size_t stride = hd->C, n = hd->hs, padded = round_up(n, STRIP);

    for (size_t i = 0; i < rows; i++, lanes += STRIP) {
        float sum[STRIP] = { 0 };

        row_widen(a, x, hd->dt, i * stride, n, padded);
        row_widen(b, y, hd->dt, i * stride, n, padded);
        for (size_t j = 0; j < padded; j += STRIP)
            for (size_t l = 0; l < STRIP; l++)
                sum[l] = __builtin_fmaf(a[j + l], b[j + l], sum[l]);
        memcpy(lanes, sum, sizeof sum);
    }
}

void tile_dot(float *delta, float *lanes, const struct head *hd, const void *x, const void *y,
              size_t rows)
{
    enum { ROOM = (TILE - 2 * STRIP) * TILE / 2 }; // for a row of x or y
    float *turned = lanes + STRIP * TILE, *row = turned + STRIP * TILE;

    rows_dot(lanes, row, row + ROOM, hd, x, y, rows);
    words_transpose((word *)turned, TILE, (const word *)lanes, STRIP, rows, STRIP);
    for (size_t i = 0; i < TILE; i++)
        delta[i] = 0.0f;
    for (size_t l = 0; l < STRIP; l++, turned += TILE)
        for (size_t i = 0; i < rows; i++)
            delta[i] += turned[i];
}

/* ---- visible tiles ---- */

size_t tile_keys_first(const struct head *hd, size_t i0)
{
    size_t first = hd->window && i0 >= hd->window ? i0 + 1 - hd->window : 0;

    return (hd->begin ? size_max(first, (size_t)hd->begin[i0]) : first) / TILE * TILE;
}

size_t tile_keys_end(const struct head *hd, size_t end)
{
    size_t last = end - 1;

    if (hd->causal)
        return end;
    while (hd->begin && end < hd->T && hd->begin[end] == hd->begin[last])
        end++;
    return hd->begin ? end : hd->T;
}

// Sets to -inf the scores of keys from `keys` on, and of keys `window` or more before their query.
SIMD_CLONES static void mask(float *s, const struct panel *p, int window, int keys)
{
    const int    n = (int)p->queries, rows = (int)p->keys;
    const size_t ld = p->ld;

    for (int j = 0; j < rows; j++, s += ld)
        for (int i = 0; i < n; i++)
            s[i] = ((i - j >= window) | (j >= keys)) ? -INFINITY : s[i];
}

// Sets to -inf the scores of keys that belong to another text than their query.
SIMD_CLONES static void mask_others(float *s, const struct panel *p, const int32_t *queries,
                                    const int32_t *keys)
{
    const size_t n = p->queries, rows = p->keys, ld = p->ld;

    for (size_t j = 0; j < rows; j++, s += ld)
        for (size_t i = 0; i < n; i++)
            s[i] = queries[i] != keys[j] ? -INFINITY : s[i];
}

static void mask_texts(float *s, const struct head *hd, size_t i0, size_t j0, const struct panel *p)
{
    size_t  last = size_min(size_max(i0 + p->queries, j0 + p->keys), hd->T) - 1;
    int32_t queries[TILE], keys[TILE];

    if (hd->begin[size_min(i0, j0)] == hd->begin[last]) // all in one text
        return;
    for (size_t i = 0; i < TILE; i++) {
        queries[i] = i0 + i < hd->T ? hd->begin[i0 + i] : -1;
        keys[i] = j0 + i < hd->T ? hd->begin[j0 + i] : -1;
    }
    mask_others(s, p, queries, keys);
}

void tile_mask(float *s, const struct head *hd, size_t i0, size_t j0, const struct panel *p)
{
    int passes = hd->window && i0 + p->queries > j0 + hd->window,
        ends = !hd->causal && j0 + p->keys > hd->T;

    if (passes || ends) // window < 0: the first query sees only the last keys
        mask(s, p, passes ? (int)((ptrdiff_t)(hd->window + j0) - (ptrdiff_t)i0) : TILE,
             ends ? (int)((ptrdiff_t)hd->T - (ptrdiff_t)j0) : TILE);
    if (hd->begin)
        mask_texts(s, hd, i0, j0, p);
}

/* ---- pairs of tiles ---- */

struct pair pair_of(const struct head *hd, size_t i0, size_t j0)
{
    return (struct pair){ i0, j0, round_up(size_min(hd->T - i0, TILE), hd->form->strip),
                          hd->causal && i0 == j0, j0 == tile_keys_first(hd, i0) };
}

struct panel panel_of(const struct head *hd, const struct pair *p, struct panel like, size_t first,
                      size_t key)
{
    size_t queries = size_min(like.queries, p->nq - first),
           end = p->diagonal ? round_up(first + queries, hd->form->strip) : TILE;

    return (struct panel){ first, queries, key, end > key ? size_min(like.keys, end - key) : 0,
                           like.ld };
}

struct tile tile_of(const struct head *hd, const struct pair *p, const struct panel *at,
                    const float *drop)
{
    return (struct tile){ .at = *at, .scale = hd->scale, .diagonal = p->diagonal,
                          .drop = hd->drop ? drop + at->key * TILE + at->first : NULL };
}

/* ---- products ---- */

void tile_scores(float *s, const struct head *hd, const word *keys, const word *queries_t,
                 const struct panel *p, int diagonal)
{
    size_t k = hd->words, strip = hd->form->strip,
           step = diagonal ? size_min(strip, p->keys) : p->keys;

    for (size_t j = 0; j < p->keys; j += step) { // queries from `from` on see keys j..
        size_t from = diagonal ? size_max((p->key + j) / strip * strip, p->first) : p->first;

        hd->form->multiply(&(struct tile_product){
            .c = s + j * p->ld + from - p->first, .ldc = p->ld,
            .a = { keys + (p->key + j) * k, k, 1 }, .b = queries_t + from, .ldb = TILE,
            .m = step, .n = p->first + p->queries - from, .k = k, .fresh = 1 });
    }
}

void tile_queries_add(float *out, const struct head *hd, struct operand x, const word *weights,
                      const struct panel *p, int diagonal, int fresh)
{
    size_t strip = hd->form->strip, step = diagonal ? size_min(strip, p->queries) : p->queries;

    for (size_t i = 0; i < p->queries; i += step) { // queries i.. see keys up to their own
        size_t at = p->first + i;

        hd->form->multiply(&(struct tile_product){
            .c = out + at, .ldc = TILE, .a = x, .b = weights + i, .ldb = p->ld, .m = hd->width,
            .n = step, .k = (diagonal ? round_up(at + step, strip) : TILE) / hd->form->depth,
            .fresh = fresh });
    }
}

void tile_keys_add(float *out, const struct head *hd, const word *weights, const word *x, size_t nq,
                   int diagonal, int fresh)
{
    size_t depth = hd->form->depth, step = diagonal ? hd->form->strip : TILE,
           end = diagonal ? nq : TILE;

    for (size_t j = 0; j < end; j += step) {
        size_t first = (diagonal ? j : 0) / depth;

        hd->form->multiply(&(struct tile_product){
            .c = out + j * hd->width, .ldc = hd->width,
            .a = { weights + j * (TILE / depth) + first, TILE / depth, 1 },
            .b = x + first * hd->width, .ldb = hd->width, .m = step, .n = hd->width,
            .k = nq / depth - first, .fresh = fresh });
    }
}
