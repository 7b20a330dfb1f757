/* ref.c: the oracles; each is the definition, written out in double. */
#include "tests/ref.h"

#include <assert.h>
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A guarded array is four parts: a page that holds the length, a closed page, the pages of the
 * array (which ends where they end, so that it begins in the first of them), a closed page. */
void *guard_alloc(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t want = bytes ? bytes : 1;
    size_t all = 3 * page + (want + page - 1) / page * page;
    char  *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE) ||
        mprotect(p + all - page, page, PROT_NONE))
        abort();
    memcpy(p, &all, sizeof all);
    return p + all - page - want;
}

void guard_free(void *array)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t all;
    char  *p = array;

    if (!p)
        return;
    p -= (uintptr_t)p % page + 2 * page;
    memcpy(&all, p, sizeof all);
    munmap(p, all);
}

uint64_t ref_random(uint64_t *state)
{
    // splitmix64 (Steele, Lea, Flood 2014)
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void ref_fill(float *x, size_t n, float lo, float hi, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        x[i] = lo + (hi - lo) * (float)(ref_random(state) >> 40) * 0x1p-24f;
}

void ref_layernorm(double *out, double *stats, const double *x, const double *w, const double *b,
                   size_t n, size_t C, double eps)
{
    double *mean = stats, *rstd = stats + n;

    for (size_t i = 0; i < n; i++, x += C, out += C) {
        double m = 0.0, v = 0.0;

        for (size_t j = 0; j < C; j++)
            m += x[j] / (double)C;
        for (size_t j = 0; j < C; j++)
            v += (x[j] - m) * (x[j] - m) / (double)C;
        mean[i] = m;
        rstd[i] = 1.0 / sqrt(v + eps);
        for (size_t j = 0; j < C; j++)
            out[j] = (x[j] - m) * rstd[i] * w[j] + b[j];
    }
}

void ref_layernorm_backward(double *dx, double *dwb, const double *dout, const double *x,
                            const double *w, size_t n, size_t C, double eps)
{
    double *dw = dwb, *db = dwb + C;

    memset(dwb, 0, 2 * C * sizeof *dwb);
    for (size_t i = 0; i < n; i++, x += C, dx += C, dout += C) {
        double m = 0.0, v = 0.0, r, sum_d = 0.0, sum_dx = 0.0;

        for (size_t j = 0; j < C; j++)
            m += x[j] / (double)C;
        for (size_t j = 0; j < C; j++)
            v += (x[j] - m) * (x[j] - m) / (double)C;
        r = 1.0 / sqrt(v + eps);
        for (size_t j = 0; j < C; j++) {
            double h = (x[j] - m) * r;

            dw[j] += dout[j] * h;
            db[j] += dout[j];
            sum_d += dout[j] * w[j];
            sum_dx += dout[j] * w[j] * h;
        }
        for (size_t j = 0; j < C; j++)
            dx[j] = r * (dout[j] * w[j] - sum_d / (double)C - (x[j] - m) * r * sum_dx / (double)C);
    }
}

void ref_rmsnorm(double *out, double *rstd, const double *x, const double *w, size_t n, size_t C,
                 double eps)
{
    for (size_t i = 0; i < n; i++) {
        double square = 0.0;

        for (size_t j = 0; j < C; j++)
            square += x[i * C + j] * x[i * C + j];
        rstd[i] = 1.0 / sqrt(square / (double)C + eps);
        for (size_t j = 0; j < C; j++)
            out[i * C + j] = x[i * C + j] * rstd[i] * w[j];
    }
}

/* By the quotient rule, element by element: y_k = w_k x_k r, dr/dx_j = -r^3 x_j / C. */
void ref_rmsnorm_backward(double *dx, double *dw, const double *dout, const double *x,
                          const double *w, size_t n, size_t C, double eps)
{
    memset(dw, 0, C * sizeof *dw);
    for (size_t i = 0; i < n; i++, x += C, dx += C, dout += C) {
        double square = 0.0, r;

        for (size_t j = 0; j < C; j++)
            square += x[j] * x[j];
        r = 1.0 / sqrt(square / (double)C + eps);
        for (size_t j = 0; j < C; j++) {
            dw[j] += dout[j] * x[j] * r;
            dx[j] = dout[j] * w[j] * r;
            for (size_t k = 0; k < C; k++)
                dx[j] -= dout[k] * w[k] * x[k] * r * r * r * x[j] / (double)C;
        }
    }
}

static const double gelu_k = 0.79788456080286535588; // sqrt(2 / pi)

double ref_gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(gelu_k * (x + 0.044715 * x * x * x)));
}

double ref_gelu_grad(double x)
{
    double t = tanh(gelu_k * (x + 0.044715 * x * x * x));

    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * gelu_k * (1.0 + 3.0 * 0.044715 * x * x);
}

double ref_gelu_erf(double x) { return 0.5 * x * erfc(-x * sqrt(0.5)); }

double ref_gelu_erf_grad(double x)
{
    return 0.5 * erfc(-x * sqrt(0.5)) + x * exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
}

double ref_silu(double x) { return x / (1.0 + exp(-x)); }

double ref_silu_grad(double x)
{
    double s = 1.0 / (1.0 + exp(-x));

    return s + x * s * (1.0 - s);
}

void ref_rope(double *x, size_t D, double position, double theta, int back)
{
    for (size_t j = 0; j < D / 2; j++) {
        double angle = position / pow(theta, 2.0 * (double)j / (double)D) * (back ? -1.0 : 1.0);
        double complex z = (x[j] + x[j + D / 2] * I) * cexp(angle * I);

        x[j] = creal(z);
        x[j + D / 2] = cimag(z);
    }
}

double ref_xent(double *dlogits, const double *logits, size_t V, size_t target)
{
    double top = logits[0], sum = 0.0;

    for (size_t i = 1; i < V; i++)
        top = fmax(top, logits[i]);
    for (size_t i = 0; i < V; i++)
        sum += exp(logits[i] - top);
    for (size_t i = 0; i < V; i++)
        dlogits[i] = exp(logits[i] - top) / sum - (i == target ? 1.0 : 0.0);
    return top + log(sum) - logits[target];
}

struct head { size_t C, hs, col; }; // its hs columns of C begin at col

/* Row t of one head's softmax into p[0..t]. */
static void attention_row(double *p, const double *qkv, size_t t, const struct head *hd)
{
    size_t C = hd->C, hs = hd->hs, col = hd->col;
    double top = -INFINITY, sum = 0.0;

    for (size_t s = 0; s <= t; s++) {
        p[s] = 0.0;
        for (size_t i = 0; i < hs; i++)
            p[s] += qkv[t * 3 * C + col + i] * qkv[s * 3 * C + C + col + i] / sqrt((double)hs);
        top = fmax(top, p[s]);
    }
    for (size_t s = 0; s <= t; s++)
        sum += p[s] = exp(p[s] - top);
    for (size_t s = 0; s <= t; s++)
        p[s] /= sum;
}

/* Adds what row t of one head contributes to dqkv: dp = f (dout v'), ds = p (dp - sum p dp), dv =
 * (f p)' dout. */
static void attention_row_backward(double *dqkv, const double *p, double *dp, const double *dout,
                                   const double *qkv, const double *factor, size_t t,
                                   const struct head *hd)
{
    size_t C = hd->C, hs = hd->hs, col = hd->col;
    double dot = 0.0;

    for (size_t s = 0; s <= t; s++) {
        dp[s] = 0.0;
        for (size_t i = 0; i < hs; i++)
            dp[s] += dout[t * C + col + i] * qkv[s * 3 * C + 2 * C + col + i] *
                     (factor ? factor[s] : 1.0);
        dot += p[s] * dp[s];
    }
    for (size_t s = 0; s <= t; s++) {
        double ds = p[s] * (dp[s] - dot) / sqrt((double)hs);

        for (size_t i = 0; i < hs; i++) {
            dqkv[t * 3 * C + col + i] += ds * qkv[s * 3 * C + C + col + i];
            dqkv[s * 3 * C + C + col + i] += ds * qkv[t * 3 * C + col + i];
            dqkv[s * 3 * C + 2 * C + col + i] +=
                p[s] * (factor ? factor[s] : 1.0) * dout[t * C + col + i];
        }
    }
}

void ref_attention(double *out, double *dqkv, const double *dout, const double *qkv,
                   const double *factor, size_t T, size_t C, size_t H)
{
    size_t  hs = C / H;
    double *p = calloc(2 * T, sizeof *p);

    assert(p && C % H == 0);
    if (dout)
        memset(dqkv, 0, T * 3 * C * sizeof *dqkv);
    for (size_t h = 0; h < H; h++)
        for (size_t t = 0; t < T; t++) {
            const double *f = factor ? factor + (h * T + t) * T : NULL;
            struct head   hd = { C, hs, h * hs };

            attention_row(p, qkv, t, &hd);
            for (size_t i = 0; i < hs; i++) {
                double sum = 0.0;

                for (size_t s = 0; s <= t; s++)
                    sum += p[s] * (f ? f[s] : 1.0) * qkv[s * 3 * C + 2 * C + h * hs + i];
                out[t * C + h * hs + i] = sum;
            }
            if (dout)
                attention_row_backward(dqkv, p, p + T, dout, qkv, f, t, &hd);
        }
    free(p);
}

void ref_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c[4] = { counter[0], counter[1], counter[2], counter[3] }, k[2] = { key[0], key[1] };

    for (int round = 0; round < 10; round++) {
        uint64_t a = UINT64_C(0xd2511f53) * c[0], b = UINT64_C(0xcd9e8d57) * c[2];
        uint32_t next[4] = { (uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                             (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a };

        memcpy(c, next, sizeof c);
        k[0] += 0x9e3779b9u;
        k[1] += 0xbb67ae85u;
    }
    memcpy(out, c, sizeof c);
}

double ref_dropout(double p, uint64_t seed, uint64_t site, uint64_t row, uint64_t column)
{
    const uint64_t stream = 0x64726f706f757400u, number = column / 64 * 8 + column % 8;
    const uint32_t seed_key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    const uint32_t seed_counter[4] = { 0, 0, (uint32_t)stream, (uint32_t)(stream >> 32) };
    const uint32_t counter[4] = { (uint32_t)number, (uint32_t)row, (uint32_t)(row >> 32),
                                  (uint32_t)(number >> 32) };
    uint32_t       key[4], word[4], bits;
    double         drop = floor(p * 65536.0 + 0.5);

    ref_philox(key, seed_counter, seed_key);
    key[0] ^= (uint32_t)site;
    key[1] ^= (uint32_t)(site >> 32);
    ref_philox(word, counter, key);
    bits = word[column / 16 % 4] >> 16 * (column / 8 % 2) & 0xffffu;
    return bits < drop ? 0.0 : 65536.0 / (65536.0 - drop);
}

void ref_matmul(double *c, const double *a, const double *b, size_t m, size_t n, size_t k,
                int ta, int tb)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0;

            for (size_t l = 0; l < k; l++)
                sum += a[ta ? l * m + i : i * k + l] * b[tb ? j * k + l : l * n + j];
            c[i * n + j] = sum;
        }
}

double ref_excess(const float *a, const double *b, size_t n, double atol, double rtol)
{
    double worst = 0.0;

    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)a[i] - b[i]) / (atol + rtol * fabs(b[i]));

        if (!(e <= worst)) // a NaN too
            worst = e == e ? e : INFINITY;
    }
    return worst;
}
