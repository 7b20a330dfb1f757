/* attention_tile.c: copies rows between tensors and tiles, says which tiles a query sees, masks
 * scores, and runs the products of tiles, for any form. The form masks a causal diagonal itself.
 * Products run strip by strip over what it leaves. */
#include "kernels/attention/attention_tile.h"

#include "data/base/round.h"
#include "kernels/transpose.h"

#include <math.h>

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

SIMD_CLONES void tile_store(void *out, enum dtype dt, size_t stride, const float *x, size_t ld,
                            size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++, x += ld) {
        if (dt == DT_BF16)
            for (size_t j = 0; j < n; j++)
                ((bf16 *)out)[i * stride + j] = bf16_from_f32(x[j]);
        else
            for (size_t j = 0; j < n; j++)
                ((float *)out)[i * stride + j] = x[j];
    }
}

void tile_zero(void *x, const struct head *hd, size_t stride, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        memset(dtype_at(x, hd->dt, i * stride), 0, hd->hs * dtype_bytes(hd->dt));
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

int tile_is_seen(const struct head *hd, size_t i0, size_t end, size_t j0)
{
    return !hd->begin || j0 < tile_keys_end(hd, size_min(i0 + TILE, end));
}

// Sets to -inf the scores of keys from `keys` on, and of keys `window` or more before their query.
SIMD_CLONES static void mask(float (*s)[TILE], int window, int keys)
{
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++)
            s[j][i] = ((i - j >= window) | (j >= keys)) ? -INFINITY : s[j][i];
}

// Sets to -inf the scores of keys that belong to another text than their query.
SIMD_CLONES static void mask_others(float (*s)[TILE], const int32_t *queries, const int32_t *keys)
{
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++)
            s[j][i] = queries[i] != keys[j] ? -INFINITY : s[j][i];
}

static void mask_texts(float *s, const struct head *hd, size_t i0, size_t j0)
{
    size_t  last = size_min(size_max(i0, j0) + TILE, hd->T) - 1;
    int32_t queries[TILE], keys[TILE];

    if (hd->begin[size_min(i0, j0)] == hd->begin[last]) // all in one text
        return;
    for (size_t i = 0; i < TILE; i++) {
        queries[i] = i0 + i < hd->T ? hd->begin[i0 + i] : -1;
        keys[i] = j0 + i < hd->T ? hd->begin[j0 + i] : -1;
    }
    mask_others((float (*)[TILE])s, queries, keys);
}

void tile_mask(float *s, const struct head *hd, size_t i0, size_t j0)
{
    int passes = hd->window && i0 + TILE > j0 + hd->window, ends = !hd->causal && j0 + TILE > hd->T;

    if (passes || ends) // `first` < 0: the tile's first query sees only its last keys
        mask((float (*)[TILE])s,
             passes ? (int)((ptrdiff_t)(hd->window + j0) - (ptrdiff_t)i0) : TILE,
             ends ? (int)(hd->T - j0) : TILE);
    if (hd->begin)
        mask_texts(s, hd, i0, j0);
}

/* ---- products ---- */

void tile_scores(float *s, const struct head *hd, const word *keys, const word *queries_t,
                 size_t nq, int diagonal)
{
    size_t k = hd->width / hd->form->depth, step = diagonal ? hd->form->strip : TILE,
           end = diagonal ? nq : TILE;

    if (diagonal || nq < TILE)
        memset(s, 0, sizeof(float) * TILE * TILE);
    for (size_t j = 0; j < end; j += step) { // queries from `first` on see keys j..
        size_t first = diagonal ? j : 0;

        hd->form->multiply(&(struct tile_product){
            .c = s + j * TILE + first, .ldc = TILE, .a = { keys + j * k, k, 1 },
            .b = queries_t + first, .ldb = TILE, .m = step, .n = nq - first, .k = k, .fresh = 1 });
    }
}

void tile_queries_add(float *out, const struct head *hd, struct operand x, const word *weights,
                      size_t nq, int diagonal)
{
    size_t step = diagonal ? hd->form->strip : nq;

    for (size_t i = 0; i < nq; i += step) // queries i.. see keys up to their own
        hd->form->multiply(&(struct tile_product){
            .c = out + i, .ldc = TILE, .a = x, .b = weights + i, .ldb = TILE, .m = hd->width,
            .n = step, .k = (diagonal ? i + step : TILE) / hd->form->depth });
}

void tile_keys_add(float *out, const struct head *hd, const word *weights, const word *x, size_t nq,
                   int diagonal)
{
    size_t depth = hd->form->depth, step = diagonal ? hd->form->strip : TILE,
           end = diagonal ? nq : TILE;

    for (size_t j = 0; j < end; j += step) {
        size_t first = (diagonal ? j : 0) / depth;

        hd->form->multiply(&(struct tile_product){
            .c = out + j * hd->width, .ldc = hd->width,
            .a = { weights + j * (TILE / depth) + first, TILE / depth, 1 },
            .b = x + first * hd->width, .ldb = hd->width, .m = step, .n = hd->width,
            .k = nq / depth - first });
    }
}
