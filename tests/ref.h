/* ref.h: what the kernels are tested against: naive kernels in double precision, and memory that
 * ends at a page nobody may touch. Nothing here is fast, and nothing here shares code with
 * kernels/. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* `bytes` of zeroed memory whose last byte is followed by a PROT_NONE page (and whose first page is
 * preceded by one). Its address is as aligned as `bytes` is: an odd number of floats is at a
 * multiple of 4. */
void *guard_alloc(size_t bytes);
void guard_free(void *p); // NULL is fine

/* Reproducible test data: uniform in [lo, hi), and a raw 64-bit number; `state` is the caller's. */
uint64_t ref_random(uint64_t *state);
void     ref_fill(float *x, size_t n, float lo, float hi, uint64_t *state);

/* All arrays row-major, (n, C) or as said; every result is written, never added to. */
/* stats (2, n): mean and rstd; dwb (2, C): dw and db. */
void   ref_layernorm(double *out, double *stats, const double *x, const double *w, const double *b,
                     size_t n, size_t C, double eps);
void   ref_layernorm_backward(double *dx, double *dwb, const double *dout, const double *x,
                              const double *w, size_t n, size_t C, double eps);
/* rstd (n); dw (C). */
void   ref_rmsnorm(double *out, double *rstd, const double *x, const double *w, size_t n, size_t C,
                   double eps);
void   ref_rmsnorm_backward(double *dx, double *dw, const double *dout, const double *x,
                            const double *w, size_t n, size_t C, double eps);
double ref_gelu(double x);
double ref_gelu_grad(double x);
double ref_gelu_erf(double x);
double ref_gelu_erf_grad(double x);
double ref_silu(double x);
double ref_silu_grad(double x);
/* One head x (D), in place: each pair (j, j + D/2) as a complex number, times e^(i a) or, back,
 * e^(-i a), a = position / theta^(2j/D). */
void   ref_rope(double *x, size_t D, double position, double theta, int back);
/* One row: the loss, and p - onehot in dlogits (V), not scaled. */
double ref_xent(double *dlogits, const double *logits, size_t V, size_t target);
/* Attention of one sequence: H heads of queries of D elements each, KV of keys and of values, each
 * for H / KV of the queries' in order. Row t sees keys up to its own, of them the last `window`
 * where that is not 0; or all, where it is bidirectional; and none from `length` on, where rows see
 * nothing either and are 0. */
struct ref_attention {
    size_t        T, H, KV, D, window, length;
    int           bidirectional;
    const double *qkv;    // (T, (H + 2 KV) D)
    const double *dout;   // (T, H D), or NULL
    const double *factor; // (H, T, T): dropout's, of the probabilities; NULL: none
    double       *out;    // (T, H D)
    double       *dqkv;   // (T, (H + 2 KV) D): where dout is
};
void ref_attention(const struct ref_attention *a);
/* Philox 4x32-10 of a counter and a key, and the factor 0 or 1/(1-p) that kernels/dropout.c's
 * comment promises. */
void   ref_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);
double ref_dropout(double p, uint64_t seed, uint64_t site, uint64_t row, uint64_t column);
/* c (m, n) = op(a) op(b); a is (m, k), or (k, m) if ta; b is (k, n), or (n, k) if tb. */
void ref_matmul(double *c, const double *a, const double *b, size_t m, size_t n, size_t k,
                int ta, int tb);

/* Largest |a - b| / (atol + rtol * |b|) over n elements: at most 1 where all are within tolerance;
 * a NaN makes it infinite. */
double ref_excess(const float *a, const double *b, size_t n, double atol, double rtol);
