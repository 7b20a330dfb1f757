/* update.cl: the updater and the Top-K decompressor (Smart-Infinity, HPCA 2024, section V) in
 * OpenCL C 1.2, asked for as the FPGA's kernels are (csd/hls/command.h): words below are that
 * header's. The arithmetic is kernels/update/optim.c's, operation by operation; an element that
 * would leave the numbers stays what it was, as kernels/update/bounds.h has it.
 *
 * A work item takes PART consecutive parameters, or BLOCK bytes of pairs. What it finds it joins
 * into the result: CRC32C is linear, so each part's checksum, multiplied by x to the number of bits
 * behind the part, is added to the whole's.
 *
 * The contract takes subnormal numbers for zeros of their sign, before and after each operation.
 * Whether a device does so itself is its own choice; here it makes no difference (flat, multiply,
 * divide). */
#pragma OPENCL FP_CONTRACT OFF

enum { ADAMW, ADAM, SGD, ADAGRAD }; // enum optim_kind

#define SIGN      0x80000000u
#define MAGNITUDE 0x7fffffffu
#define SMALLEST  0x00800000u // bits of 2^-126, the smallest normal number
#define BOUND     0x7f7f8000u // OPTIM_BOUND's bits: magnitudes order as their bits do
#define ROOT      1e-15f      // BOUNDS_ROOT
#define WORDS     (BLOCK / 4) // of a block; the header of a packed gradient has 16

/* ---- CRC32C */

/* tables: 4 * 256 words, of a byte that 0, 1, 2 and 3 others follow; then POWERS powers. */
uint sum_word(global const uint *tables, uint sum, uint word)
{
    sum ^= word;
    return tables[768 + (sum & 255)] ^ tables[512 + (sum >> 8 & 255)] ^
           tables[256 + (sum >> 16 & 255)] ^ tables[sum >> 24];
}

/* The product of two polynomials over one bit, modulo the checksum's; bit 31 - k is of x^k. */
uint times(uint a, uint b)
{
    uint product = 0;

    for (; a; a <<= 1, b = b >> 1 ^ (b & 1 ? 0x82f63b78u : 0))
        if (a & SIGN)
            product ^= b;
    return product;
}

/* x to the number of bits of n units, of 2 * PART bytes each. */
uint units(global const uint *tables, uint n)
{
    uint power = SIGN; // 1

    for (uint k = 0; n >> k; k++)
        if (n >> k & 1)
            power = times(power, tables[1024 + k]);
    return power;
}

/* ---- numbers */

float flat(float x)
{
    uint bits = as_uint(x);

    return as_float(bits & 0x7f800000u ? bits : bits & SIGN);
}

/* r is the result of an operation that rounded to a subnormal number, or was flushed, if its
 * magnitude is not above the smallest; scaled: of the same operation on 2^64 times as much. */
float rounded(float r, float scaled)
{
    if ((as_uint(r) & MAGNITUDE) > SMALLEST)
        return r;
    return as_float((as_uint(r) & SIGN) | (fabs(scaled) >= 0x1p-62f ? SMALLEST : 0));
}

float add(float a, float b) { return flat(a + b); } // exact where it is small
float multiply(float a, float b) { return rounded(a * b, (a * 0x1p64f) * b); }
float divide(float a, float b) { return rounded(a / b, (a * 0x1p64f) / b); }

/* ---- the updater */

struct step {
    uint  kind, first;
    float grad_scale, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, bias2_sqrt, eps;
};

struct element { float w, m, v; };

/* The order of operations is part of the contract (kernels/update/optim.c). */
struct element move(struct step s, struct element e, float g, float decay)
{
    float quotient;

    g = multiply(g, s.grad_scale);
    if (s.kind == ADAMW)
        e.w = multiply(e.w, decay);
    else
        g = add(g, multiply(decay, e.w));
    if (s.kind == SGD) {
        e.m = s.first ? g : add(multiply(s.beta1, e.m), g);
        quotient = e.m;
    } else if (s.kind == ADAGRAD) {
        e.m = add(e.m, multiply(g, g));
        quotient = divide(g, add(sqrt(e.m), s.eps));
    } else {
        e.m = add(multiply(s.beta1, e.m), multiply(s.one_minus_beta1, g));
        e.v = add(multiply(s.beta2, e.v), multiply(multiply(s.one_minus_beta2, g), g));
        quotient = divide(e.m, add(divide(sqrt(e.v), s.bias2_sqrt), s.eps));
    }
    e.w = add(e.w, -multiply(s.step_size, quotient));
    return e;
}

/* To nearest, ties to even; a NaN stays one (bf16_from_f32). */
uint bf16_of(uint bits)
{
    if ((bits & MAGNITUDE) > 0x7f800000u)
        return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* What a part has found: struct hls_update_result, but for its first words. */
struct found { uint overflow, first, largest[4], read[3], written[3], grad, wire; };

/* Whether the new values stay within the bound; then they count. */
int arrives(struct element e, int two, struct found *f)
{
    float ratio = two ? fabs(e.m) / (sqrt(e.v) + ROOT) : 0;
    uint  x[4] = { as_uint(e.w), as_uint(e.m), two ? as_uint(e.v) : 0, as_uint(ratio) };

    for (int k = 0; k < 4; k++)
        x[k] &= MAGNITUDE;
    if (!(x[0] < BOUND && x[1] < BOUND && x[2] < BOUND))
        return 0;
    for (int k = 0; k < 4; k++)
        f->largest[k] = max(f->largest[k], x[k]);
    return 1;
}

void join_found(global const uint *tables, struct found f, uint n_behind, int bf16, int unchecked,
                volatile global uint *result)
{
    uint words = units(tables, 2 * n_behind), wire = bf16 ? units(tables, n_behind) : words;

    if (f.overflow) {
        atomic_add(&result[1], f.overflow);
        atomic_min(&result[2], f.first);
    }
    for (int k = 0; k < 4 && !unchecked; k++)
        atomic_max(&result[3 + k], f.largest[k]);
    for (int k = 0; k < 3; k++) {
        atomic_xor(&result[7 + k], times(words, ~f.read[k]));
        atomic_xor(&result[10 + k], times(words, ~f.written[k]));
    }
    atomic_xor(&result[13], times(words, ~f.grad));
    atomic_xor(&result[14], times(wire, ~f.wire));
}

/* command: struct hls_update_command with its segments; memory: the set's; result: struct
 * hls_update_result, all zero, but overflow_first the largest number there is. */
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void update(global const uint *command, global uint *memory, global const uint *tables,
            volatile global uint *result)
{
    uint part = get_global_id(0), n = command[4], parts = command[5] / PART;
    int  two = command[2] == 2, unchecked = command[3], bf16 = command[6];
    struct step s = { command[1], command[16], flat(as_float(command[8])),
                      flat(as_float(command[9])), flat(as_float(command[10])),
                      flat(as_float(command[11])), flat(as_float(command[12])),
                      flat(as_float(command[13])), flat(as_float(command[14])),
                      flat(as_float(command[15])) };
    global uint *w = memory + (size_t)command[17] * 16, *m = memory + (size_t)command[18] * 16,
                *v = memory + (size_t)command[19] * 16, *g = memory + (size_t)command[20] * 16,
                *wire = memory + (size_t)command[24] * 16;
    global const uint *segment = command + 32; // pairs: end, decay
    struct found       f = { 0, 0, { 0, 0, 0, 0 }, { ~0u, ~0u, ~0u }, { ~0u, ~0u, ~0u }, ~0u, ~0u };
    uint               half_word = 0;

    if (part >= parts)
        return;
    for (uint i = part * PART; i < part * PART + PART; i++) {
        uint word[3] = { w[i], m[i], two ? v[i] : 0 }, grad = g[i];

        for (int k = 0; k < 2 + two; k++)
            f.read[k] = sum_word(tables, f.read[k], word[k]);
        f.grad = sum_word(tables, f.grad, grad);
        if (i < n) {
            while (i >= segment[0])
                segment += 2;
            struct element e = { flat(as_float(word[0])), flat(as_float(word[1])),
                                 flat(as_float(word[2])) };
            e = move(s, e, flat(as_float(grad)), flat(as_float(segment[1])));
            if (unchecked || arrives(e, two, &f)) {
                w[i] = word[0] = as_uint(e.w);
                m[i] = word[1] = as_uint(e.m);
                word[2] = as_uint(e.v);
                if (two)
                    v[i] = word[2];
            } else if (f.overflow++ == 0) {
                f.first = i;
            }
        }
        for (int k = 0; k < 2 + two; k++)
            f.written[k] = sum_word(tables, f.written[k], word[k]);
        uint out = word[0];
        if (bf16) { // two make a word
            out = bf16_of(out) << (i % 2 ? 16 : 0) | half_word;
            half_word = i % 2 ? 0 : out;
        }
        if (!bf16 || i % 2) {
            wire[bf16 ? i / 2 : i] = out;
            f.wire = sum_word(tables, f.wire, out);
        }
    }
    join_found(tables, f, parts - 1 - part, bf16, unchecked, result);
}

/* ---- the decompressor */

/* command: struct hls_scatter_command; memory: the set's, the dense gradient zero before the first
 * chunk. result: 1: 1 where the header is another; 3: the number of the first pair that is wrong,
 * or what it was, the largest number there is; 5: CRC32C of this chunk. */
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scatter(global const uint *command, global uint *memory, global const uint *tables,
             volatile global uint *result)
{
    uint block = get_global_id(0), blocks = command[6] * 16 / WORDS;
    uint n = command[1], pairs = command[3], seen = command[8], sum = ~0u;
    global const uint *packed = memory + (size_t)command[4] * 16;
    global uint       *dense = memory + (size_t)command[5] * 16;
    uint               header = seen == 0 ? 16 : 0; // words of it: in the first chunk

    if (block >= blocks)
        return;
    if (block == 0 && header &&
        (packed[0] != 0x72546973u || packed[1] != 0x31647247u || packed[2] != n || packed[3] ||
         packed[4] != pairs || packed[5])) // "siTrGrd1", n, pairs
        result[1] = 1;
    for (uint i = block * WORDS; i < block * WORDS + WORDS; i += 2) {
        uint index = packed[i], value = packed[i + 1], k = seen + (i - header) / 2;

        sum = sum_word(tables, sum_word(tables, sum, index), value);
        if (i < header || k >= pairs)
            continue;
        uint last = k == 0 ? 0 : i > 0 ? packed[i - 2] : command[9];
        if (index >= n || (k > 0 && index <= last))
            atomic_min(&result[3], k);
        else
            dense[index] = value;
    }
    atomic_xor(&result[5], times(units(tables, (blocks - 1 - block) * (BLOCK / (2 * PART))), ~sum));
}
