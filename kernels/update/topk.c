/* topk.c: selects the exact Top-K by magnitude in about one reading of the vector.
 *
 * The key of an element is its bits without the sign. For floats that are not NaN, keys order as
 * magnitudes do, including subnormals and infinities. The search is for `at`, the k-th largest key.
 * The answer is every key above it and the first (lowest index) of those equal to it.
 *
 *     1. A sample gives a lower bound of `at` that almost surely holds and lets little more than k
 *        pass.
 *     2. One pass collects the elements at or above the bound, block by block. If at least k came,
 *        and they fit, `at` is among them, and nothing else of the vector matters, whether or not
 *        the sample was good.
 *     3. Otherwise (ties, zeros, k a large part of n, a misleading sample) the vector itself is
 *        searched.
 *     4. Three radix histograms of the key, 11 + 10 + 10 bits, find `at` in what was collected.
 *     5. Blocks count what they will keep, the counts are summed in order, and blocks write their
 *        pairs.
 *
 * No result depends on which thread did which block. The place of a block's candidates does, and is
 * looked up. */
#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/update/topk.h"

#include <assert.h>
#include <immintrin.h>
#include <math.h>

enum {
    BLOCK     = 4096,  // elements of one unit of work; positions fit 16 bits and L1
    SAMPLE    = 16384, // at most
    RADIX     = 2048,
    CAND_PART = 8,     // candidates are collected for k <= n / CAND_PART only
};

struct block {
    uint32_t first, count; // its candidates
    uint32_t above, equal; // elements that it keeps; later, those that blocks before it keep
};

/* Keys of floats that are `stride` bytes apart: a plain vector or the values of pairs. */
struct keys {
    const char *p;
    size_t      stride, n;
};

struct threshold {
    uint32_t at;
    size_t   equal; // how many elements equal to `at` are selected, >= 1
};

/* The parts of the scratch memory. */
struct topk_space {
    struct block     *blocks;
    float            *sample;
    struct topk_pair *cand;
    size_t            n_blocks, n_sample, cap;
};

SIMD_INLINE uint32_t key_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u & 0x7fffffffu;
}

static uint32_t keys_at(struct keys a, size_t i)
{
    float x;

    memcpy(&x, a.p + i * a.stride, sizeof x);
    return key_of(x);
}

/* The rank in the sample whose key becomes the bound: where k falls, plus three deviations and a
 * bit. */
static size_t sample_rank(size_t n, size_t k, size_t n_sample)
{
    double hits = (double)k * (double)n_sample / (double)n;
    double rank = ceil(hits + 3.0 * sqrt(hits) + 4.0);

    return rank < (double)n_sample ? (size_t)rank : n_sample;
}

static size_t candidate_cap(size_t n, size_t k)
{
    size_t n_sample = size_min(n, SAMPLE);
    double expect = (double)sample_rank(n, k, n_sample) * (double)n / (double)n_sample;
    double cap = 1.5 * expect + BLOCK;

    if (k > n / CAND_PART)
        return 0;
    return cap < (double)n ? (size_t)cap : n;
}

size_t topk_scratch(size_t n, size_t k)
{
    return div_up(n, BLOCK) * sizeof(struct block) +
           candidate_cap(n, k) * sizeof(struct topk_pair) + size_min(n, SAMPLE) * sizeof(float);
}

static struct topk_space space_of(void *scratch, size_t n, size_t k)
{
    struct topk_space s = {
        .blocks = scratch, .n_blocks = div_up(n, BLOCK), .n_sample = size_min(n, SAMPLE),
        .cap = candidate_cap(n, k),
    };

    s.cand = (struct topk_pair *)(s.blocks + s.n_blocks);
    s.sample = (float *)(s.cand + s.cap);
    return s;
}

/* Counts keys: hist[d] += number of keys whose upper bits are `prefix` and whose next bits, from
 * `shift` on, are d. */
static void histogram(uint32_t hist[RADIX], struct keys a, int shift, int bits, uint32_t prefix)
{
    uint32_t mask = (1u << bits) - 1u;

#pragma omp parallel if (a.n > 8 * BLOCK)
    {
        uint32_t mine[2][RADIX] = { { 0 } }; // two: equal keys would wait for their own counter

#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < a.n; i++) {
            uint32_t key = keys_at(a, i);

            if (key >> (shift + bits) == prefix)
                mine[i & 1][key >> shift & mask]++;
        }
#pragma omp critical(topk_histogram)
        for (uint32_t d = 0; d <= mask; d++)
            hist[d] += mine[0][d] + mine[1][d];
    }
}

/* Finds the k-th largest of the keys, 1 <= k <= a.n. */
static struct threshold threshold_find(struct keys a, size_t k)
{
    static const int shifts[] = { 20, 10, 0 }, widths[] = { 11, 10, 10 };
    uint32_t         prefix = 0;

    for (int level = 0; level < 3; level++) {
        uint32_t hist[RADIX] = {0};
        uint32_t d = 1u << widths[level];

        histogram(hist, a, shifts[level], widths[level], prefix);
        while (hist[--d] < k)
            k -= hist[d];
        prefix = prefix << widths[level] | d;
    }
    return (struct threshold){ .at = prefix, .equal = k };
}

/* Guesses a bound: a key that about sample_rank elements of the sample reach. The sample has one
 * element from each of n_sample equal strata. */
static uint32_t bound_guess(const struct topk_space *s, const float *x, size_t n, size_t k)
{
    uint64_t hash = 1;

    for (size_t i = 0; i < s->n_sample; i++) {
        size_t lo = n * i / s->n_sample, hi = n * (i + 1) / s->n_sample;

        // Equal strides would hit the rows of matrices; random places do not.
        hash = hash * 6364136223846793005u + 1442695040888963407u;
        s->sample[i] = x[lo + (size_t)((hash >> 32) * (hi - lo) >> 32)];
    }
    return threshold_find((struct keys){ (const char *)s->sample, sizeof(float), s->n_sample },
                          sample_rank(n, k, s->n_sample)).at;
}

/* Finds the positions of the elements of x[0..n) whose key is at least `bound`, n <= BLOCK. 64
 * comparisons fill the bits of a word, then the set bits are visited. A branch for each eight
 * elements would be mispredicted at every candidate; here this happens once in 64. Keys, and so a
 * bound less one, are in the range of signed integers. */
static size_t block_filter(uint16_t *at, const float *x, size_t n, uint32_t bound)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff),
                  below = _mm256_set1_epi32((int32_t)(bound - 1));
    size_t        count = 0, i = 0;

    for (; i + 64 <= n; i += 64) {
        uint64_t hits = 0;

        for (int v = 0; v < 8; v++) {
            __m256i key =
                _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i + 8 * v)), magnitude);
            int     bit = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(key, below)));

            hits |= (uint64_t)(uint32_t)bit << 8 * v;
        }
        for (; hits; hits &= hits - 1)
            at[count++] = (uint16_t)(i + (size_t)__builtin_ctzll(hits));
    }
    for (; i < n; i++)
        if (key_of(x[i]) >= bound)
            at[count++] = (uint16_t)i;
    return count;
}

/* Collects candidates. Returns how many there are, even if they did not all fit. */
static size_t candidates_collect(const struct topk_space *s, const float *x, size_t n,
                                 uint32_t bound)
{
    size_t used = 0;

#pragma omp parallel for schedule(static)
    for (size_t b = 0; b < s->n_blocks; b++) {
        size_t   from = b * BLOCK, len = size_min(n - from, BLOCK), first;
        uint16_t at[BLOCK];
        size_t   count = block_filter(at, x + from, len, bound);

#pragma omp atomic capture
        { first = used; used += count; }
        s->blocks[b] = (struct block){ .first = (uint32_t)first, .count = (uint32_t)count };
        for (size_t i = 0; i < count && first + count <= s->cap; i++)
            s->cand[first + i] = (struct topk_pair){ (uint32_t)(from + at[i]), x[from + at[i]] };
    }
    return used;
}

SIMD_CLONES static void count_plain(struct block *b, const float *x, size_t n, uint32_t at)
{
    uint32_t above = 0, equal = 0;

    for (size_t i = 0; i < n; i++) {
        above += key_of(x[i]) > at;
        equal += key_of(x[i]) == at;
    }
    b->above = above;
    b->equal = equal;
}

static void count_pairs(struct block *b, const struct topk_pair *cand, uint32_t at)
{
    b->above = b->equal = 0;
    for (size_t i = 0; i < b->count; i++) {
        b->above += key_of(cand[b->first + i].value) > at;
        b->equal += key_of(cand[b->first + i].value) == at;
    }
}

/* Counts in `above` and `equal` how many elements each block keeps, and then replaces that by how
 * many all blocks before it keep. */
static void blocks_count(const struct topk_space *s, const float *x, size_t n, int collected,
                         uint32_t at)
{
    uint32_t above = 0, equal = 0;

#pragma omp parallel for schedule(static)
    for (size_t b = 0; b < s->n_blocks; b++) {
        if (collected)
            count_pairs(&s->blocks[b], s->cand, at);
        else
            count_plain(&s->blocks[b], x + b * BLOCK, size_min(n - b * BLOCK, BLOCK), at);
    }
    for (size_t b = 0; b < s->n_blocks; b++) {
        struct block *p = &s->blocks[b];
        uint32_t      a = p->above, e = p->equal;

        p->above = above;
        p->equal = equal;
        above += a;
        equal += e;
    }
}

/* Writes the pairs of one block, behind those of the blocks before it. */
static void block_emit(struct topk_pair *out, const struct topk_space *s, size_t b, const float *x,
                       size_t n, int collected, struct threshold t)
{
    size_t left = s->blocks[b].equal < t.equal ? t.equal - s->blocks[b].equal : 0;
    size_t to = s->blocks[b].above + (t.equal - left);
    size_t from = b * BLOCK, count = collected ? s->blocks[b].count : size_min(n - from, BLOCK);

    for (size_t i = 0; i < count; i++) {
        struct topk_pair p = collected ? s->cand[s->blocks[b].first + i]
                                       : (struct topk_pair){ (uint32_t)(from + i), x[from + i] };
        uint32_t         key = key_of(p.value);

        if (key > t.at) {
            out[to++] = p;
        } else if (key == t.at && left > 0) {
            out[to++] = p;
            left--;
        }
    }
}

void topk_select(struct topk_pair *out, const float *x, size_t n, size_t k, void *scratch)
{
    struct topk_space s = space_of(scratch, n, k);
    struct keys       all = { (const char *)x, sizeof *x, n };
    struct threshold  t = { 0, 0 };
    int               collected = 0;

    assert(k >= 1 && k <= n && n <= UINT32_MAX);
    if (s.cap > 0) {
        uint32_t guess = bound_guess(&s, x, n, k), bound = guess ? guess : 1; // 1: all except zeros
        size_t   found = candidates_collect(&s, x, n, bound);

        collected = found >= k && found <= s.cap;
        if (collected)
            all = (struct keys){ (const char *)&s.cand[0].value, sizeof *s.cand, found };
        else if (found < k && bound == 1)
            t.equal = k - found; // every non-zero element, and this many zeros
    }
    if (!t.equal)
        t = threshold_find(all, k);
    blocks_count(&s, x, n, collected, t.at);
#pragma omp parallel for schedule(static)
    for (size_t b = 0; b < s.n_blocks; b++)
        block_emit(out, &s, b, x, n, collected, t);
}

size_t topk_count(size_t n, double ratio)
{
    double k = floor(ratio / 2.0 * (double)n);

    if (k < 1.0)
        return 1;
    return k < (double)n ? (size_t)k : n;
}

float topk_most(const struct topk_pair *pairs, size_t k)
{
    float most = 0;

    for (size_t i = 0; i < k; i++)
        most = isnan(pairs[i].value) ? INFINITY : fmaxf(most, fabsf(pairs[i].value));
    return most;
}
