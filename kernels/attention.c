/* attention.c: causal attention in tiles of TILE queries x TILE keys (Dao et al. 2022): forward keeps a
 * running maximum and sum for each query, backward recomputes the probabilities from lse. Tiles are widened
 * to fp32 in scratch and multiplied by one small product, mm_add, which has an AVX2 and an AVX-512 form.
 *
 * Invariants:
 * - every element of a product is one chain of fused multiply-adds over k in ascending order, so both forms give the
 *   same bits, and forward and backward get the same scores;
 * - a (b, h, query tile) in forward and a (b, h) in backward are computed by one thread from beginning to end: bits
 *   depend neither on threads nor on the other rows of the batch;
 * - padding is zero: rows beyond T, and columns up to a multiple of STRIP beyond the head size. Only the diagonal
 *   tile has masked scores; there, products run strip by strip over what the mask leaves;
 * - dropout's factors f are made tile by tile, in both passes. Maximum, sum and lse are those of p undropped: out is
 *   (f p) v, hence dp = f (dout v'), dv = (f p)' dout, and the sum of p dp over a row is dout . out as ever. */
#include "kernels/attention.h"

#include <assert.h>
#include <immintrin.h>
#include <math.h>
#include <omp.h>

#include "kernels/vexp.h"

enum {
    TILE  = 64, // queries, keys
    STRIP = 16, // columns are padded to this, the diagonal is cut at this
    ROWS  = 4,  // rows of mm_add's register block
    AHEAD = 8,  // rows that tile_load asks for in advance
};

// Where q, k, v of one head stand, and how its tiles are laid out.
struct head {
    size_t     T, hs, width; // width: hs padded to STRIP
    size_t     stride;       // elements from one row of qkv to the next
    enum dtype dt;
    float      scale;
    const struct dropout *drop; // NULL: none
    uint64_t   row;             // dropout's for query 0
};

static_assert(TILE == (int)DROPOUT_SPAN, "dropout_tile makes the factors of a tile");

struct mat { // element (i, j) is p[i * row + j * col]
    const float *p;
    size_t       row, col;
};

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static const void *element(const void *p, enum dtype dt, size_t i)
{
    return (const char *)p + i * dtype_bytes(dt);
}

/* ---- the product of small fp32 matrices ---- */

// c (ROWS, 16 nv) += a (ROWS, k) b (k, 16 nv); rows of b and c contiguous.
__attribute__((target("avx512f"), always_inline))
static inline void block_avx512(float *c, size_t ldc, struct mat a, const float *b, size_t ldb, size_t k, const int nv)
{
    __m512 sum[ROWS][4];

    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = _mm512_loadu_ps(c + (size_t)r * ldc + 16 * v);
    for (size_t i = 0; i < k; i++, a.p += a.col, b += ldb)
        for (int r = 0; r < ROWS; r++) {
            __m512 x = _mm512_set1_ps(a.p[(size_t)r * a.row]);

            for (int v = 0; v < nv; v++)
                sum[r][v] = _mm512_fmadd_ps(x, _mm512_loadu_ps(b + 16 * v), sum[r][v]);
        }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            _mm512_storeu_ps(c + (size_t)r * ldc + 16 * v, sum[r][v]);
}

__attribute__((target("avx512f")))
static void rows_avx512(float *c, size_t ldc, struct mat a, struct mat b, size_t n, size_t k)
{
    size_t j = 0;

    for (; j + 64 <= n; j += 64)
        block_avx512(c + j, ldc, a, b.p + j, b.row, k, 4);
    if (n - j == 48)
        block_avx512(c + j, ldc, a, b.p + j, b.row, k, 3);
    else if (n - j == 32)
        block_avx512(c + j, ldc, a, b.p + j, b.row, k, 2);
    else if (n - j == 16)
        block_avx512(c + j, ldc, a, b.p + j, b.row, k, 1);
}

// The same for 16 columns at a time: 8 sums, as many as AVX2's multiply-adds are in flight.
static void rows_avx2(float *c, size_t ldc, struct mat a, struct mat b, size_t n, size_t k)
{
    for (size_t j = 0; j < n; j += 16) {
        const float *ap = a.p, *bp = b.p + j;
        __m256       sum[ROWS][2];

        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < 2; v++)
                sum[r][v] = _mm256_loadu_ps(c + (size_t)r * ldc + j + 8 * v);
        for (size_t i = 0; i < k; i++, ap += a.col, bp += b.row)
            for (int r = 0; r < ROWS; r++) {
                __m256 x = _mm256_broadcast_ss(ap + (size_t)r * a.row);

                for (int v = 0; v < 2; v++)
                    sum[r][v] = _mm256_fmadd_ps(x, _mm256_loadu_ps(bp + 8 * v), sum[r][v]);
            }
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < 2; v++)
                _mm256_storeu_ps(c + (size_t)r * ldc + j + 8 * v, sum[r][v]);
    }
}

/* c (m, n) += a (m, k) b (k, n): m a multiple of ROWS, n of STRIP, rows of b and c contiguous. */
static void mm_add(float *c, size_t ldc, struct mat a, struct mat b, size_t m, size_t n, size_t k)
{
    int wide = __builtin_cpu_supports("avx512f");

    assert(m % ROWS == 0 && n % STRIP == 0 && b.col == 1);
    for (size_t i = 0; i < m; i += ROWS, c += ROWS * ldc, a.p += ROWS * a.row) {
        if (wide)
            rows_avx512(c, ldc, a, b, n, k);
        else
            rows_avx2(c, ldc, a, b, n, k);
    }
}

/* ---- between tensors and tiles ---- */

/* out (rows, ld), zero beyond n and `have` rows; n elements of each of `have` rows of x. These are short and
 * pages apart, so the CPU does not see the next ones coming. */
SIMD_CLONES
static void tile_load(float *out, size_t ld, size_t rows, const void *x, enum dtype dt, size_t stride,
                      size_t have, size_t n)
{
    for (size_t i = 0; i < rows; i++, out += ld) {
        size_t m = i < have ? n : 0;

        if (i + AHEAD < have)
            for (size_t j = 0; j < n; j += 64 / dtype_bytes(dt))
                __builtin_prefetch(element(x, dt, (i + AHEAD) * stride + j));
        if (dt == DT_BF16)
            for (size_t j = 0; j < m; j++)
                out[j] = bf16_to_f32(((const bf16 *)x)[i * stride + j]);
        else
            for (size_t j = 0; j < m; j++)
                out[j] = ((const float *)x)[i * stride + j];
        for (size_t j = m; j < ld; j++)
            out[j] = 0.0f;
    }
}

// n elements of each row of x (rows, ld), rounded to dt.
SIMD_CLONES
static void tile_store(void *out, enum dtype dt, size_t stride, const float *x, size_t ld, size_t rows,
                       size_t n)
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

// out (ld, TILE) = x (TILE, ld) transposed.
static void tile_transpose(float *restrict out, const float *restrict x, size_t ld)
{
    for (size_t j = 0; j < ld; j += 8)
        for (size_t i = 0; i < TILE; i++)
            for (size_t l = 0; l < 8; l++)
                out[(j + l) * TILE + i] = x[i * ld + j + l];
}

// x (TILE, TILE) times the factors.
SIMD_CLONES
static void tile_drop(float *restrict x, const float *restrict factor)
{
    for (size_t i = 0; i < TILE * TILE; i++)
        x[i] *= factor[i];
}

/* ---- forward ---- */

/* Scratch of one thread. Scores stand transposed, s[key][query]: a query's maximum and sum then run down a
 * column, and all queries side by side in vectors. */
struct forward_tile {
    float *qt;   // (width, TILE)
    float *kv;   // (TILE, width): q, then k, then v
    float *s;    // (TILE, TILE) scores, then probabilities
    float *o;    // (TILE, width) sums of p v
    float *max;  // (TILE)
    float *sum;  // (TILE)
    float *corr; // (TILE)
    float *drop; // (TILE, TILE) factors of s, where there is dropout
};

static size_t forward_floats(size_t width)
{
    return 3 * TILE * width + 2 * TILE * TILE + 3 * TILE;
}

static struct forward_tile forward_layout(float *p, size_t width)
{
    struct forward_tile t = { .qt = p };

    t.kv   = t.qt + TILE * width;
    t.o    = t.kv + TILE * width;
    t.s    = t.o + TILE * width;
    t.max  = t.s + TILE * TILE;
    t.sum  = t.max + TILE;
    t.corr = t.sum + TILE;
    t.drop = t.corr + TILE;
    return t;
}

/* Scores to probabilities against the running maximum; corr is what earlier sums shrink by. A masked score is
 * -inf; key 0 of the tile is never masked, so the maximum is finite. */
SIMD_CLONES
static void softmax_tile(float (*restrict s)[TILE], float *restrict max, float *restrict sum,
                         float *restrict corr, float scale, int diagonal)
{
    float old[TILE];

    for (int i = 0; i < TILE; i++)
        old[i] = max[i];
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++) {
            float x = s[j][i] * scale;

            x       = (diagonal & (j > i)) ? -INFINITY : x;
            s[j][i] = x;
            max[i]  = x > max[i] ? x : max[i];
        }
    for (int i = 0; i < TILE; i++) {
        corr[i] = vexpf(old[i] - max[i]);
        sum[i] *= corr[i];
    }
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++) {
            float p = vexpf(s[j][i] - max[i]);

            s[j][i] = p;
            sum[i] += p;
        }
}

// Row i of x times by[i].
SIMD_CLONES
static void rows_scale(float *restrict x, size_t ld, const float *restrict by, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < ld; j++)
            x[i * ld + j] *= by[i];
}

/* Keys j0.. into the sums of queries i0.., k and v being those of key j0; nq: queries, padded to STRIP. */
static void forward_key_tile(const struct forward_tile *t, const struct head *hd, const void *k,
                             const void *v, size_t i0, size_t j0, size_t nq)
{
    int        diagonal = i0 == j0;
    size_t     have = size_min(hd->T - j0, TILE);
    struct mat qt = { t->qt, TILE, 1 }, kv = { t->kv, hd->width, 1 };

    memset(t->s, 0, sizeof(float) * TILE * TILE);
    tile_load(t->kv, hd->width, TILE, k, hd->dt, hd->stride, have, hd->hs);
    for (size_t j = 0; j < (diagonal ? nq : TILE); j += STRIP) { // keys j.. see queries from j on
        size_t     i  = diagonal ? j : 0;
        struct mat ks = { t->kv + j * hd->width, hd->width, 1 }, qs = { qt.p + i, TILE, 1 };

        mm_add(t->s + j * TILE + i, TILE, ks, qs, STRIP, nq - i, hd->hs);
    }
    softmax_tile((float (*)[TILE])t->s, t->max, t->sum, t->corr, hd->scale, diagonal);
    if (hd->drop) {
        dropout_tile(t->drop, hd->row + i0, j0, 1, hd->drop);
        tile_drop(t->s, t->drop);
    }
    rows_scale(t->o, hd->width, t->corr, nq);
    tile_load(t->kv, hd->width, TILE, v, hd->dt, hd->stride, have, hd->hs);
    for (size_t i = 0; i < nq; i += STRIP) { // queries i.. see keys up to their own
        struct mat p = { t->s + i, 1, TILE };

        mm_add(t->o + i * hd->width, hd->width, p, kv, STRIP, hd->width, diagonal ? i + STRIP : TILE);
    }
}

/* All of one query tile, queries i0...; q, k, v of row 0 of this head. */
static void forward_query_tile(void *out, float *lse, const void *q, const void *k, const void *v,
                               const struct head *hd, size_t C, size_t i0, float *scratch)
{
    struct forward_tile t = forward_layout(scratch, hd->width);
    size_t n = size_min(hd->T - i0, TILE), nq = round_up(n, STRIP);

    tile_load(t.kv, hd->width, TILE, element(q, hd->dt, i0 * hd->stride), hd->dt, hd->stride, n, hd->hs);
    tile_transpose(t.qt, t.kv, hd->width);
    memset(t.o, 0, sizeof(float) * TILE * hd->width);
    for (size_t i = 0; i < TILE; i++) {
        t.max[i] = -INFINITY;
        t.sum[i] = 0.0f;
    }
    for (size_t j0 = 0; j0 <= i0; j0 += TILE)
        forward_key_tile(&t, hd, element(k, hd->dt, j0 * hd->stride), element(v, hd->dt, j0 * hd->stride),
                         i0, j0, nq);
    for (size_t i = 0; i < n; i++) {
        lse[i0 + i] = t.max[i] + logf(t.sum[i]);
        t.corr[i]   = 1.0f / t.sum[i];
    }
    rows_scale(t.o, hd->width, t.corr, n);
    tile_store((char *)out + i0 * C * dtype_bytes(hd->dt), hd->dt, C, t.o, hd->width, n, hd->hs);
}

static struct head head_make(enum dtype dt, size_t T, size_t C, size_t H, const struct dropout *drop)
{
    size_t hs = C / H;

    assert(hs * H == C && hs >= 1 && hs <= 256);
    return (struct head){ .T = T, .hs = hs, .width = round_up(hs, STRIP), .stride = 3 * C, .dt = dt,
                          .scale = 1.0f / sqrtf((float)hs), .drop = drop && drop->p > 0 ? drop : NULL };
}

void attention_forward(void *out, float *lse, const void *qkv, enum dtype dt,
                       size_t B, size_t T, size_t C, size_t H, const struct dropout *drop, void *scratch)
{
    struct head all   = head_make(dt, T, C, H, drop);
    size_t      tiles = (T + TILE - 1) / TILE;

    // The longest query tiles go first, so that the threads end together.
    #pragma omp parallel for schedule(dynamic)
    for (size_t u = 0; u < B * H * tiles; u++) {
        size_t      i0 = (tiles - 1 - u / (B * H)) * TILE, b = u / H % B, h = u % H;
        struct head hd = all;
        float      *mine = (float *)scratch + (size_t)omp_get_thread_num() * forward_floats(hd.width);
        const void *q    = element(qkv, dt, b * T * 3 * C + h * hd.hs);

        hd.row = (b * H + h) * T;
        forward_query_tile((char *)out + (b * T * C + h * hd.hs) * dtype_bytes(dt), lse + hd.row, q,
                           element(q, dt, C), element(q, dt, 2 * C), &hd, C, i0, mine);
    }
}

/* ---- backward ---- */

// Scratch of one thread; scores stand as s[query][key].
struct backward_tile {
    float *k, *kt, *vt; // (TILE, width), (width, TILE), (width, TILE) of the key tile
    float *dk, *dv;     // (TILE, width) its sums
    float *q, *dout;    // (TILE, width) of the query tile
    float *p, *ds;      // (TILE, TILE) scores, then probabilities; their gradients
    float *dq;          // (T padded to TILE, width): sums over key tiles, in order
    float *delta, *lse; // (T padded to TILE): each row's dout . out; lse, 0 beyond T
    float *drop;        // (TILE, TILE) factors of p, where there is dropout
};

static size_t backward_floats(size_t T, size_t width)
{
    return 7 * TILE * width + 3 * TILE * TILE + round_up(T, TILE) * (width + 2);
}

static struct backward_tile backward_layout(float *p, size_t T, size_t width)
{
    struct backward_tile t = { .k = p };

    t.kt    = t.k + TILE * width;
    t.vt    = t.kt + TILE * width;
    t.dk    = t.vt + TILE * width;
    t.dv    = t.dk + TILE * width;
    t.q     = t.dv + TILE * width;
    t.dout  = t.q + TILE * width;
    t.p     = t.dout + TILE * width;
    t.ds    = t.p + TILE * TILE;
    t.dq    = t.ds + TILE * TILE;
    t.delta = t.dq + round_up(T, TILE) * width;
    t.lse   = t.delta + round_up(T, TILE);
    t.drop  = t.lse + round_up(T, TILE);
    return t;
}

// delta[i] = x[i] . y[i] in STRIP lanes, added up in their order.
SIMD_CLONES
static void rows_dot(float *delta, const float *x, const float *y, size_t rows, size_t ld)
{
    for (size_t i = 0; i < rows; i++, x += ld, y += ld) {
        float lanes[STRIP] = { 0 }, sum = 0.0f;

        for (size_t j = 0; j < ld; j += STRIP)
            for (size_t l = 0; l < STRIP; l++)
                lanes[l] = __builtin_fmaf(x[j + l], y[j + l], lanes[l]);
        for (size_t l = 0; l < STRIP; l++)
            sum += lanes[l];
        delta[i] = sum;
    }
}

// p: scores to probabilities; ds: gradients of probabilities to those of unscaled scores.
SIMD_CLONES
static void softmax_tile_backward(float (*restrict p)[TILE], float (*restrict ds)[TILE],
                                  const float *restrict lse, const float *restrict delta, float scale,
                                  int diagonal, size_t rows)
{
    for (int i = 0; i < (int)rows; i++)
        for (int j = 0; j < TILE; j++) {
            float e = vexpf(p[i][j] * scale - lse[i]);

            e        = (diagonal & (j > i)) ? 0.0f : e;
            p[i][j]  = e;
            ds[i][j] = e * (ds[i][j] - delta[i]) * scale;
        }
}

/* The tile of queries i0.. against the loaded tile of keys j0..: adds to dk, dv and rows i0.. of dq. */
static void backward_pair(const struct backward_tile *t, const struct head *hd, size_t i0, size_t j0,
                          size_t nq)
{
    int        diagonal = i0 == j0;
    size_t     w  = hd->width;
    struct mat kt = { t->kt, TILE, 1 }, vt = { t->vt, TILE, 1 }, km = { t->k, w, 1 };

    memset(t->p, 0, sizeof(float) * TILE * TILE);
    memset(t->ds, 0, sizeof(float) * TILE * TILE);
    for (size_t i = 0; i < nq; i += STRIP) {
        struct mat q = { t->q + i * w, w, 1 }, dout = { t->dout + i * w, w, 1 };
        size_t     n = diagonal ? i + STRIP : TILE;

        mm_add(t->p + i * TILE, TILE, q, kt, STRIP, n, hd->hs);
        mm_add(t->ds + i * TILE, TILE, dout, vt, STRIP, n, hd->hs);
    }
    if (hd->drop) {
        dropout_tile(t->drop, hd->row + i0, j0, 0, hd->drop);
        tile_drop(t->ds, t->drop);
    }
    softmax_tile_backward((float (*)[TILE])t->p, (float (*)[TILE])t->ds, t->lse + i0, t->delta + i0, hd->scale,
                          diagonal, nq);
    if (hd->drop)
        tile_drop(t->p, t->drop); // for dv
    for (size_t i = 0; i < nq; i += STRIP) {
        struct mat ds = { t->ds + i * TILE, TILE, 1 };

        mm_add(t->dq + (i0 + i) * w, w, ds, km, STRIP, w, diagonal ? i + STRIP : TILE);
    }
    for (size_t j = 0; j < (diagonal ? nq : TILE); j += STRIP) { // keys j.. are seen by queries from `first` on
        size_t     first = diagonal ? j : 0, n = nq - first;
        struct mat p  = { t->p + first * TILE + j, 1, TILE }, dout = { t->dout + first * w, w, 1 };
        struct mat ds = { t->ds + first * TILE + j, 1, TILE }, q   = { t->q + first * w, w, 1 };

        mm_add(t->dv + j * w, w, p, dout, STRIP, w, n);
        mm_add(t->dk + j * w, w, ds, q, STRIP, w, n);
    }
}

// dq = 0; delta and lse of all rows.
static void backward_begin(const struct backward_tile *t, const struct head *hd, const void *dout,
                           const void *out, const float *lse, size_t C)
{
    size_t padded = round_up(hd->T, TILE);

    memset(t->dq, 0, sizeof(float) * padded * hd->width);
    for (size_t i0 = 0; i0 < hd->T; i0 += TILE) {
        size_t n = size_min(hd->T - i0, TILE);

        tile_load(t->dout, hd->width, TILE, element(dout, hd->dt, i0 * C), hd->dt, C, n, hd->hs);
        tile_load(t->q, hd->width, TILE, element(out, hd->dt, i0 * C), hd->dt, C, n, hd->hs);
        rows_dot(t->delta + i0, t->dout, t->q, TILE, hd->width);
    }
    memcpy(t->lse, lse, sizeof(float) * hd->T);
    memset(t->lse + hd->T, 0, sizeof(float) * (padded - hd->T));
}

// The key tile j0..: loaded, met with all query tiles from the diagonal on, its dk and dv stored.
static void backward_key_tile(const struct backward_tile *t, const struct head *hd, void *dq,
                              const void *dout, const void *q, size_t C, size_t j0)
{
    size_t      n = size_min(hd->T - j0, TILE), w = hd->width, stride = hd->stride;
    const void *k  = element(q, hd->dt, j0 * stride + C);
    char       *dk = (char *)dq + (j0 * stride + C) * dtype_bytes(hd->dt);

    tile_load(t->q, w, TILE, element(k, hd->dt, C), hd->dt, stride, n, hd->hs);
    tile_transpose(t->vt, t->q, w);
    tile_load(t->k, w, TILE, k, hd->dt, stride, n, hd->hs);
    tile_transpose(t->kt, t->k, w);
    memset(t->dk, 0, sizeof(float) * TILE * w);
    memset(t->dv, 0, sizeof(float) * TILE * w);
    for (size_t i0 = j0; i0 < hd->T; i0 += TILE) {
        size_t nq = size_min(hd->T - i0, TILE);

        tile_load(t->q, w, TILE, element(q, hd->dt, i0 * stride), hd->dt, stride, nq, hd->hs);
        tile_load(t->dout, w, TILE, element(dout, hd->dt, i0 * C), hd->dt, C, nq, hd->hs);
        backward_pair(t, hd, i0, j0, round_up(nq, STRIP));
    }
    tile_store(dk, hd->dt, stride, t->dk, w, n, hd->hs);
    tile_store(dk + C * dtype_bytes(hd->dt), hd->dt, stride, t->dv, w, n, hd->hs);
}

void attention_backward(void *dqkv, const void *dout, const void *out, const float *lse, const void *qkv,
                        enum dtype dt, size_t B, size_t T, size_t C, size_t H, const struct dropout *drop,
                        void *scratch)
{
    struct head all = head_make(dt, T, C, H, drop);

    #pragma omp parallel for schedule(dynamic)
    for (size_t u = 0; u < B * H; u++) {
        struct head hd = all;
        size_t      b = u / H, h = u % H, at = b * T * C + h * hd.hs, at3 = b * T * 3 * C + h * hd.hs;
        float      *mine = (float *)scratch + (size_t)omp_get_thread_num() * backward_floats(T, hd.width);
        char       *dq   = (char *)dqkv + at3 * dtype_bytes(dt);
        struct backward_tile t = backward_layout(mine, T, hd.width);

        hd.row = u * T;
        backward_begin(&t, &hd, element(dout, dt, at), element(out, dt, at), lse + hd.row, C);
        for (size_t j0 = 0; j0 < T; j0 += TILE)
            backward_key_tile(&t, &hd, dq, element(dout, dt, at), element(qkv, dt, at3), C, j0);
        tile_store(dq, dt, hd.stride, t.dq, hd.width, T, hd.hs);
    }
}

/* ---- decode ---- */

static size_t decode_floats(size_t T, size_t width)
{
    return round_up(T, TILE) + 3 * width + TILE * width;
}

// s[j] = q . k[j] * scale, in STRIP lanes.
SIMD_CLONES
static void decode_tile_scores(float *s, const float *q, const float *k, size_t rows, size_t width,
                               float scale)
{
    for (size_t j = 0; j < rows; j++, k += width) {
        float lanes[STRIP] = { 0 }, sum = 0.0f;

        for (size_t d = 0; d < width; d += STRIP)
            for (size_t l = 0; l < STRIP; l++)
                lanes[l] = __builtin_fmaf(q[d + l], k[d + l], lanes[l]);
        for (size_t l = 0; l < STRIP; l++)
            sum += lanes[l];
        s[j] = sum * scale;
    }
}

SIMD_CLONES
static void decode_tile_values(float *restrict o, const float *restrict p, const float *restrict v,
                               size_t rows, size_t width)
{
    for (size_t j = 0; j < rows; j++)
        for (size_t d = 0; d < width; d++)
            o[d] = __builtin_fmaf(p[j], v[j * width + d], o[d]);
}

// s[0..n): scores to probabilities.
SIMD_CLONES
static void decode_softmax(float *s, size_t n)
{
    float max = s[0], sum = 0.0f;

    for (size_t j = 1; j < n; j++)
        max = s[j] > max ? s[j] : max;
    for (size_t j = 0; j < n; j++)
        s[j] = vexpf(s[j] - max);
    for (size_t j = 0; j < n; j++)
        sum += s[j];
    for (size_t j = 0; j < n; j++)
        s[j] /= sum;
}

/* One head's new token: all scores first, then the weighted sum of values. Keys and values pass through a
 * tile, so that both formats take one path. */
static void decode_head(void *out, const void *q, const void *k, const void *v, const struct head *hd,
                        float *scratch)
{
    float *s = scratch, *qf = s + round_up(hd->T, TILE), *o = qf + hd->width, *kv = o + hd->width;

    tile_load(qf, hd->width, 1, q, hd->dt, 0, 1, hd->hs);
    memset(o, 0, sizeof(float) * hd->width);
    for (size_t j = 0; j < hd->T; j += TILE) {
        size_t n = size_min(hd->T - j, TILE);

        tile_load(kv, hd->width, n, element(k, hd->dt, j * hd->stride), hd->dt, hd->stride, n, hd->hs);
        decode_tile_scores(s + j, qf, kv, n, hd->width, hd->scale);
    }
    decode_softmax(s, hd->T);
    for (size_t j = 0; j < hd->T; j += TILE) {
        size_t n = size_min(hd->T - j, TILE);

        tile_load(kv, hd->width, n, element(v, hd->dt, j * hd->stride), hd->dt, hd->stride, n, hd->hs);
        decode_tile_values(o, s + j, kv, n, hd->width);
    }
    tile_store(out, hd->dt, 0, o, hd->width, 1, hd->hs);
}

void attention_decode(void *out, const void *q, size_t q_stride, const void *k, const void *v, enum dtype dt,
                      size_t B, size_t T, size_t max_T, size_t C, size_t H, void *scratch)
{
    struct head hd = head_make(dt, T, C, H, NULL);

    hd.stride = C;
    assert(T >= 1 && T <= max_T);
    #pragma omp parallel for schedule(static)
    for (size_t u = 0; u < B * H; u++) {
        size_t b = u / H, col = u % H * hd.hs, cache = b * max_T * C + col;
        float *mine = (float *)scratch + (size_t)omp_get_thread_num() * decode_floats(T, hd.width);

        decode_head((char *)out + (b * C + col) * dtype_bytes(dt), element(q, dt, b * q_stride + col),
                    element(k, dt, cache), element(v, dt, cache), &hd, mine);
    }
}

size_t attention_scratch(size_t B, size_t T, size_t C, size_t H, int threads)
{
    size_t width = round_up(C / H, STRIP);
    size_t most  = backward_floats(T, width);

    if (forward_floats(width) > most)
        most = forward_floats(width);
    if (decode_floats(T, width) > most)
        most = decode_floats(T, width);
    (void)B; // each thread has one (b, h) at a time
    return sizeof(float) * most * (size_t)threads;
}
