/* matvec.h: a few rows times a matrix, as generation needs them: one token a sequence. The matrix
 * is read once for all rows; every element of the result is a chain of fused multiply-adds in one
 * order, so a row's bits depend neither on the rows beside it nor on the threads (a product
 * engine's do). */
#pragma once

#include "data/base/dtype.h"

struct matvec {
    size_t      m, n, k;
    enum dtype  dt;      // of a, b and bias: DT_F32 or DT_BF16; sums are fp32
    const void *a;       // (m, k)
    const void *b;       // (k, n); of linear and logits (n, k)
    const void *bias;    // (n); of linear it may be NULL, of logits there is none
    float      *scratch; // matvec_scratch() floats
};

/* c (m, n) of c_dt = a b + bias. */
void matvec_forward(void *c, enum dtype c_dt, const struct matvec *p);

/* c (m, n) of c_dt = a b' + bias. */
void matvec_linear(void *c, enum dtype c_dt, const struct matvec *p);

/* c (m, n) = a b': the logits. */
void matvec_logits(float *c, const struct matvec *p);

static inline size_t matvec_scratch(size_t m, size_t n, size_t k) { return m * (n + k); }
