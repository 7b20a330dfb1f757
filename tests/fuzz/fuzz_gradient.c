/* fuzz_gradient.c: the wire form of compressed gradients: what is accepted is what packing those
 * pairs gives, and no index is used that does not belong. */
#include "tests/fuzz/fuzz.h"

#include "csd/engine/grad_wire.h"

#include <stdlib.h>
#include <string.h>

enum { HEADED = 1, PIECEWISE = 2 };

/* bytes[0..n), n a multiple of 4 KiB, into dense; 0 if taken. */
static int scatter(struct grad_wire_reader *r, float *dense, const char *bytes, size_t n,
                   int piecewise, struct err *err)
{
    size_t step = piecewise ? GRAD_WIRE_ALIGN : n;
    int    rc = 0;

    for (size_t at = 0; at < n && !rc; at += step)
        rc = grad_wire_scatter(r, dense, bytes + at, step, err);
    return rc;
}

static void compare(const char *bytes, size_t n_bytes, const float *dense, size_t n, size_t pairs)
{
    struct topk_pair *p = calloc(pairs + 1, sizeof *p);
    char             *again = malloc(n_bytes);
    size_t            other = 0;

    FUZZ_CHECK(p && again);
    memcpy(p, bytes + GRAD_WIRE_HEADER, pairs * sizeof *p);
    grad_wire_pack(again, p, pairs, 0, n);
    FUZZ_CHECK(!memcmp(again + GRAD_WIRE_HEADER, bytes + GRAD_WIRE_HEADER, pairs * sizeof *p));
    for (size_t i = 0, k = 0; i < n; i++) {
        uint32_t found, zero = 0;

        memcpy(&found, dense + i, sizeof found);
        if (k < pairs && p[k].index == i)
            other += memcmp(&p[k++].value, &found, sizeof found) != 0;
        else
            other += found != zero;
    }
    FUZZ_CHECK(other == 0);
    free(p);
    free(again);
}

static int one(const uint8_t *in_bytes, size_t in_n)
{
    struct fuzz_in          in = { in_bytes, in_n };
    int                     how = (int)fuzz_number(&in, 1), rc;
    size_t n = 1 + (size_t)fuzz_number(&in, 2), pairs = (size_t)fuzz_number(&in, 2) % (n + 1),
           n_bytes = grad_wire_bytes(pairs);
    char                   *bytes = calloc(1, n_bytes);
    float                  *dense = calloc(n, sizeof *dense);
    struct grad_wire_reader r;
    struct err              err = { 0 };

    FUZZ_CHECK(bytes && dense);
    if (how & HEADED) // else the header, too, is the input's
        grad_wire_pack(bytes, NULL, 0, 0, n);
    if (how & HEADED)
        memcpy(bytes + 16, &(uint64_t){ pairs }, 8);
    {
        size_t at = how & HEADED ? GRAD_WIRE_HEADER : 0, room = n_bytes - at;

        memcpy(bytes + at, in.p, in.n < room ? in.n : room);
    }
    grad_wire_begin(&r, n, pairs);
    rc = scatter(&r, dense, bytes, n_bytes, how & PIECEWISE, &err);
    if (!rc) {
        FUZZ_CHECK(r.seen == pairs);
        compare(bytes, n_bytes, dense, n, pairs);
    }
    free(bytes);
    free(dense);
    return rc ? fuzz_refused(rc, &err) : 1;
}

static void seed_of(size_t n, size_t pairs, int how)
{
    struct fuzz_out   out = { 0 };
    struct topk_pair *p = calloc(pairs + 1, sizeof *p);
    char             *bytes = malloc(grad_wire_bytes(pairs));
    size_t            from = how & HEADED ? GRAD_WIRE_HEADER : 0;

    FUZZ_CHECK(p && bytes);
    for (size_t i = 0; i < pairs; i++)
        p[i] = (struct topk_pair){ (uint32_t)(i * (n / pairs)), (float)i + 0.5f };
    grad_wire_pack(bytes, p, pairs, 0, n);
    fuzz_add_number(&out, (uint64_t)how, 1);
    fuzz_add_number(&out, n - 1, 2);
    fuzz_add_number(&out, pairs, 2);
    fuzz_add(&out, bytes + from, GRAD_WIRE_HEADER - from + pairs * sizeof *p);
    fuzz_seed_out(&out);
    free(p);
    free(bytes);
}

static void seeds(void)
{
    seed_of(2048, 20, 0);
    seed_of(100, 100, HEADED);
    seed_of(60000, 1200, PIECEWISE);
    seed_of(1, 1, HEADED | PIECEWISE);
}

const struct fuzz_target fuzz_gradient = { "gradient", NULL, one, seeds, 4 << 20, 16, 2000 };
