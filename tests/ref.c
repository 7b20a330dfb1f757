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

/* Where row t's query, key or value of a head begins in qkv: `part` 0, 1, 2. */
static size_t attention_at(const struct ref_attention *a, size_t t, int part, size_t head)
{
    size_t H = a->H, KV = a->KV;

    return (t * (H + 2 * KV) + (part == 0 ? 0 : part == 1 ? H : H + KV) + head) * a->D;
}

static int attention_sees(const struct ref_attention *a, size_t t, size_t s)
{
    if (s >= a->length || t >= a->length)
        return 0;
    return a->bidirectional || (s <= t && (a->window == 0 || t - s < a->window));
}

/* Row t of one head's softmax into p (T); 0 where the row sees nothing. */
static void attention_row(double *p, const struct ref_attention *a, size_t t, size_t h)
{
    const double *q = a->qkv + attention_at(a, t, 0, h);
    double        top = -INFINITY, sum = 0.0;

    for (size_t s = 0; s < a->T; s++) {
        const double *k = a->qkv + attention_at(a, s, 1, h * a->KV / a->H);

        p[s] = 0.0;
        for (size_t i = 0; i < a->D; i++)
            p[s] += q[i] * k[i] / sqrt((double)a->D);
        p[s] = attention_sees(a, t, s) ? p[s] : -INFINITY;
        top = fmax(top, p[s]);
    }
    for (size_t s = 0; s < a->T; s++)
        sum += p[s] = attention_sees(a, t, s) ? exp(p[s] - top) : 0.0;
    for (size_t s = 0; s < a->T && sum > 0.0; s++)
        p[s] /= sum;
}

/* Adds what row t of one head contributes to dqkv: dp = f (dout v'), ds = p (dp - sum p dp), dv =
 * (f p)' dout. f: (T), or NULL. */
static void attention_row_backward(const struct ref_attention *a, const double *p, double *dp,
                                   const double *f, size_t t, size_t h)
{
    const double *dout = a->dout + (t * a->H + h) * a->D;
    size_t        kv = h * a->KV / a->H, at_q = attention_at(a, t, 0, h);
    double        dot = 0.0;

    for (size_t s = 0; s < a->T; s++) {
        dp[s] = 0.0;
        for (size_t i = 0; i < a->D; i++)
            dp[s] += dout[i] * a->qkv[attention_at(a, s, 2, kv) + i] * (f ? f[s] : 1.0);
        dot += p[s] * dp[s];
    }
    for (size_t s = 0; s < a->T; s++) {
        size_t at_k = attention_at(a, s, 1, kv), at_v = attention_at(a, s, 2, kv);
        double ds = p[s] * (dp[s] - dot) / sqrt((double)a->D);

        for (size_t i = 0; i < a->D; i++) {
            a->dqkv[at_q + i] += ds * a->qkv[at_k + i];
            a->dqkv[at_k + i] += ds * a->qkv[at_q + i];
            a->dqkv[at_v + i] += p[s] * (f ? f[s] : 1.0) * dout[i];
        }
    }
}

void ref_attention(const struct ref_attention *a)
{
    size_t  T = a->T, D = a->D;
    double *p = calloc(2 * T, sizeof *p);

    assert(p && a->H % a->KV == 0);
    if (a->dout)
        memset(a->dqkv, 0, T * (a->H + 2 * a->KV) * D * sizeof *a->dqkv);
    for (size_t h = 0; h < a->H; h++)
        for (size_t t = 0; t < T; t++) {
            const double *f = a->factor ? a->factor + (h * T + t) * T : NULL;
            double       *out = a->out + (t * a->H + h) * D;

            attention_row(p, a, t, h);
            for (size_t i = 0; i < D; i++) {
                double sum = 0.0;

                for (size_t s = 0; s < T; s++)
                    sum += p[s] * (f ? f[s] : 1.0) *
                           a->qkv[attention_at(a, s, 2, h * a->KV / a->H) + i];
                out[i] = sum;
            }
            if (a->dout)
                attention_row_backward(a, p, p + T, f, t, h);
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
