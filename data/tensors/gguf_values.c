/* gguf_values.c: the types of tensors in GGUF files, and their conversion to and from fp32.
 *
 * Q8_0 is quantised as ggml's reference does (quantize_row_q8_0_ref): d = max |x| / 127 in fp32,
 * each element rounds x / d with halves away from zero, where the division is a product with 1/d,
 * and the scale is stored as fp16. The bytes are those of llama.cpp's converter. */
#include "data/tensors/gguf.h"

#include "data/base/dtype.h"
#include "data/base/f16.h"
#include "data/base/round.h"

#include <assert.h>
#include <math.h>

/* ---- types ---- */

static const struct { uint32_t type; const char *name; } names[] = {
    { 0, "F32" },      { 1, "F16" },      { 2, "Q4_0" },     { 3, "Q4_1" },    { 6, "Q5_0" },
    { 7, "Q5_1" },     { 8, "Q8_0" },     { 9, "Q8_1" },     { 10, "Q2_K" },   { 11, "Q3_K" },
    { 12, "Q4_K" },    { 13, "Q5_K" },    { 14, "Q6_K" },    { 15, "Q8_K" },   { 16, "IQ2_XXS" },
    { 17, "IQ2_XS" },  { 18, "IQ3_XXS" }, { 19, "IQ1_S" },   { 20, "IQ4_NL" }, { 21, "IQ3_S" },
    { 22, "IQ2_S" },   { 23, "IQ4_XS" },  { 24, "I8" },      { 25, "I16" },    { 26, "I32" },
    { 27, "I64" },     { 28, "F64" },     { 29, "IQ1_M" },   { 30, "BF16" },   { 34, "TQ1_0" },
    { 35, "TQ2_0" },   { 39, "MXFP4" },   { 40, "NVFP4" },
};

const char *gguf_type_name(uint32_t type)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type)
            return names[i].name;
    return NULL;
}

int gguf_type_is_read(uint32_t type)
{
    return type == GGUF_TYPE_F32 || type == GGUF_TYPE_F16 || type == GGUF_TYPE_BF16 ||
           type == GGUF_TYPE_Q8_0;
}

uint64_t gguf_type_bytes(enum gguf_type type, uint64_t n)
{
    return type == GGUF_TYPE_F32    ? 4 * n
           : type == GGUF_TYPE_Q8_0 ? n / GGUF_BLOCK * GGUF_BLOCK_BYTES
                                    : 2 * n;
}

enum gguf_type gguf_type_for(enum gguf_type wanted, uint64_t row)
{
    return wanted == GGUF_TYPE_Q8_0 && row % GGUF_BLOCK ? GGUF_TYPE_F16 : wanted;
}

/* ---- Q8_0 ---- */

void gguf_q8_from_f32(unsigned char *out, const float *values, size_t n)
{
    assert(n % GGUF_BLOCK == 0);
    for (size_t b = 0; b < n / GGUF_BLOCK; b++, values += GGUF_BLOCK, out += GGUF_BLOCK_BYTES) {
        float most = 0;

        for (int i = 0; i < GGUF_BLOCK; i++)
            most = fmaxf(most, fabsf(values[i]));
        float    d = most / 127, inverse = fpclassify(d) == FP_ZERO ? 0 : 1 / d;
        uint16_t scale = f16_from_f32(d);

        memcpy(out, &scale, sizeof scale);
        for (int i = 0; i < GGUF_BLOCK; i++)
            out[2 + i] = (unsigned char)(int8_t)roundf(values[i] * inverse);
    }
}

static void f32_from_q8(float *out, const unsigned char *block, size_t first, size_t n)
{
    uint16_t scale;

    memcpy(&scale, block, sizeof scale);
    for (size_t i = 0; i < n; i++)
        out[i] = f16_to_f32(scale) * (float)(int8_t)block[2 + first + i];
}

/* ---- reading ---- */

enum { BLOCKS = 128, ELEMENTS = BLOCKS * GGUF_BLOCK };

/* Reads elements from blocks: at most ELEMENTS, which may begin and end inside a block. */
static int read_blocks(struct gguf *g, const struct gguf_tensor *t, uint64_t first, size_t n,
                       float *out, struct err *err)
{
    unsigned char bytes[(BLOCKS + 1) * GGUF_BLOCK_BYTES];
    uint64_t      block = first / GGUF_BLOCK, end = (first + n + GGUF_BLOCK - 1) / GGUF_BLOCK;
    int           rc = file_pread_same(g->fd, bytes, (size_t)(end - block) * GGUF_BLOCK_BYTES,
                                       t->offset + block * GGUF_BLOCK_BYTES, &g->was, g->path,
                                       err);

    for (size_t at = first % GGUF_BLOCK, part; n > 0 && !rc; n -= part, out += part, at += part) {
        part = size_min(n, GGUF_BLOCK - at % GGUF_BLOCK);
        f32_from_q8(out, bytes + at / GGUF_BLOCK * GGUF_BLOCK_BYTES, at % GGUF_BLOCK, part);
    }
    return rc;
}

int gguf_read(struct gguf *g, const struct gguf_tensor *t, uint64_t first, size_t n, float *out,
              struct err *err)
{
    uint16_t half[ELEMENTS];
    int      rc = 0;

    assert(gguf_type_is_read(t->type) && first + n <= t->count);
    if (t->type == GGUF_TYPE_F32)
        return file_pread_same(g->fd, out, n * 4, t->offset + first * 4, &g->was, g->path, err);
    for (size_t part; n > 0 && !rc; n -= part, out += part, first += part) {
        part = size_min(n, ELEMENTS);
        if (t->type == GGUF_TYPE_Q8_0) {
            rc = read_blocks(g, t, first, part, out, err);
            continue;
        }
        rc = file_pread_same(g->fd, half, part * 2, t->offset + first * 2, &g->was, g->path, err);
        for (size_t i = 0; i < part && !rc; i++)
            out[i] = t->type == GGUF_TYPE_F16 ? f16_to_f32(half[i]) : bf16_to_f32(half[i]);
    }
    return rc;
}
