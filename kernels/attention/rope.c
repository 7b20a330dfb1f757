/* rope.c: makes the table of rotary embeddings, in double, and turns rows by it. Turning takes as
 * long as reading and writing the rows. Each pair is turned alone, so the bits do not depend on
 * threads. */
#include "kernels/attention/rope.h"

#include "kernels/simd.h"

#include <math.h>

enum { PARALLEL = 1 << 15 }; // elements; for fewer, starting threads takes longer

static const double two_pi = 6.28318530717958647693;

static const char *const names[] = {[ROPE_DEFAULT] = "default", [ROPE_LINEAR] = "linear",
                                    [ROPE_LLAMA3] = "llama3", [ROPE_YARN] = "yarn"};

const char *rope_type_name(size_t type)
{
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

/* ---- frequencies ---- */

/* Scales a frequency as Llama 3 does. Waves shorter than original / high_freq_factor stay. Those
 * longer than original / low_freq_factor become `factor` times as long. In between, both are
 * blended by how many waves the original context has. */
static double llama3(const struct rope *r, double freq)
{
    double wave = two_pi / freq;

    if (wave < r->original / r->high_freq_factor)
        return freq;
    if (wave > r->original / r->low_freq_factor)
        return freq / r->factor;
    double keep = (r->original / wave - r->low_freq_factor) /
                  (r->high_freq_factor - r->low_freq_factor);
    return (1 - keep) * freq / r->factor + keep * freq;
}

/* The pair, as a fraction, that makes so many turns over the original context. */
static double yarn_pair(const struct rope *r, double turns)
{
    return (double)r->D * log(r->original / (turns * two_pi)) / (2 * log(r->theta));
}

/* Scales a frequency as YaRN does. Pairs that turn often stay. Those that turn little are slowed by
 * `factor`. From `low` to `high` there is a ramp. */
static double yarn(const struct rope *r, size_t j, double freq)
{
    double low = yarn_pair(r, r->beta_fast > 0 ? r->beta_fast : 32),
           high = yarn_pair(r, r->beta_slow > 0 ? r->beta_slow : 1);

    low = fmax(r->untruncated ? low : floor(low), 0);
    high = fmin(r->untruncated ? high : ceil(high), (double)r->D - 1);
    if (low == high)
        high += 0.001; // transformers' width of an empty ramp
    double slowed = fmin(fmax(((double)j - low) / (high - low), 0), 1);
    return freq / r->factor * slowed + freq * (1 - slowed);
}

double rope_frequency(const struct rope *r, size_t j)
{
    double freq = pow(r->theta, -2.0 * (double)j / (double)r->D);

    switch (r->type) {
    case ROPE_LINEAR:
        return freq / r->factor;
    case ROPE_LLAMA3:
        return llama3(r, freq);
    case ROPE_YARN:
        return yarn(r, j, freq);
    case ROPE_DEFAULT:
        break;
    }
    return freq;
}

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

double rope_attention_factor(const struct rope *r)
{
    if (r->type != ROPE_YARN)
        return 1;
    if (r->attention_factor > 0)
        return r->attention_factor;
    if (r->mscale != 0 && r->mscale_all_dim != 0)
        return yarn_scale(r->factor, r->mscale) / yarn_scale(r->factor, r->mscale_all_dim);
    return yarn_scale(r->factor, 1);
}

void rope_table(float *table, const struct rope *r, size_t T)
{
    size_t D = r->D, half = D / 2;
    double scale = rope_attention_factor(r);

#pragma omp parallel for schedule(static)
    for (size_t j = 0; j < half; j++) {
        double freq = rope_frequency(r, j);

        for (size_t t = 0; t < T; t++) {
            double angle = (double)t * freq;

            table[t * D + j] = (float)(scale * cos(angle));
            table[t * D + half + j] = (float)(scale * sin(angle));
        }
    }
}

/* ---- rows ---- */

/* Turns one head, given as its halves, by those of the table's row. sign -1 turns back. */
SIMD_INLINE void turn_as(void *restrict lo, void *restrict hi, const float *restrict c,
                         const float *restrict s, float sign, size_t half, enum dtype dt)
{
#pragma omp simd
    for (size_t j = 0; j < half; j++) {
        float a = dtype_get(lo, dt, j), b = dtype_get(hi, dt, j), sine = sign * s[j];

        dtype_put(lo, dt, j, __builtin_fmaf(a, c[j], -(b * sine)));
        dtype_put(hi, dt, j, __builtin_fmaf(b, c[j], a * sine));
    }
}

SIMD_CLONES static void row_turn(void *row, const float *table, size_t H, size_t D, float sign,
                                 enum dtype dt)
{
    size_t half = D / 2;

    for (size_t h = 0; h < H; h++) {
        void *lo = dtype_at(row, dt, h * D), *hi = dtype_at(row, dt, h * D + half);

        dt == DT_F32 ? turn_as(lo, hi, table, table + half, sign, half, DT_F32)
                     : turn_as(lo, hi, table, table + half, sign, half, DT_BF16);
    }
}

static void turn(const struct rope_rows *r, float sign)
{
#pragma omp parallel for schedule(static) if (r->n * r->H * r->D > PARALLEL)
    for (size_t i = 0; i < r->n; i++) {
        size_t at = r->at ? (size_t)r->at[i] : (r->first + i) % r->T;

        row_turn(dtype_at(r->x, r->dt, i * r->stride), r->table + at * r->D, r->H, r->D, sign,
                 r->dt);
    }
}

void rope_forward(const struct rope_rows *r) { turn(r, 1.0f); }

void rope_backward(const struct rope_rows *r) { turn(r, -1.0f); }
