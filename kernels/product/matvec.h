/* matvec.h: a few rows times a matrix, for generation with one token per sequence. The matrix is
 * read once for all rows. Every element of the result is a chain of fused multiply-adds in one
 * order. A row's bits therefore depend neither on the other rows nor on the threads, unlike
 * those of a product engine. */
#pragma once

#include "data/base/dtype.h"

struct matvec {
    size_t      m, n, k;
    enum dtype  dt;      // dtype of a, b and bias: DT_F32 or DT_BF16; sums are fp32
    const void *a;       // (m, k)
    const void *b;       // (k, n); for linear and logits (n, k)
    const void *bias;    // (n); may be NULL for linear; unused for logits
    float      *scratch; // matvec_scratch() floats
};

/* c (m, n) of c_dt = a b + bias. */
void matvec_forward(void *c, enum dtype c_dt, const struct matvec *p);

/* c (m, n) of c_dt = a b' + bias. */
void matvec_linear(void *c, enum dtype c_dt, const struct matvec *p);

/* c (m, n) = a b': the logits. */
void matvec_logits(float *c, const struct matvec *p);

static inline size_t matvec_scratch(size_t m, size_t n, size_t k) { return m * (n + k); }
