/* update.cpp: the updater (Smart-Infinity, HPCA 2024, section V): master, moments and gradient
 * stream through 16 lanes, a line of 64 bytes of each a cycle, and come out moved by one step, with
 * the wire parameters made of them and checksums of all that passed. The arithmetic is
 * kernels/optim.c's, operation by operation; an element that would leave the numbers stays what it
 * was, as kernels/reach.h has it.
 *
 * Each stage below is a process of its own that reads its streams and writes the next one's; all
 * run at once, so that reading, computing and writing overlap line by line. Bursts are what the
 * memory ports make of the loops over consecutive lines.
 *
 * The operators round to nearest even, once each, and take subnormals for zeros of their sign, as
 * the vendor's floating-point cores do; nothing is contracted or reordered. A simulation sets the
 * processor to the same. */
#include "csd/hls/command.h"
#include "csd/hls/crc.h"

#include <cmath>

namespace {

enum { ADAMW, ADAM, SGD, ADAGRAD }; // enum optim_kind

const uint32_t MAGNITUDE = 0x7fffffffu;
const uint32_t BOUND = 0x7f7f8000u; // OPTIM_BOUND's bits: magnitudes order as their bits do
const float    ROOT = 1e-15f;       // REACH_ROOT

typedef hls::stream<uint32_t> words;

struct step {
    uint32_t kind, calm, n, first;
    bool     two; // moments
    float    grad_scale, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, bias2_sqrt, eps;
};

struct element { float w, m, v; };

/* ---- in ---- */

void read_lines(const line *from, unsigned n, lines &to, words &sum)
{
    crc c;

    for (unsigned i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        line x = from[i];

        c.add(x);
        to.write(x);
    }
    sum.write(c.sum());
}

/* The decay of each element. A line without a boundary takes one cycle, each boundary one more: the
 * stream's depth hides them. */
void spread_decays(const uint32_t *end, const uint32_t *decay, unsigned n, lines &to)
{
    line     x;
    unsigned segment = 0;

    for (unsigned at = 0; at < n * LANES;) {
#pragma HLS PIPELINE II=1
        unsigned base = at / LANES * LANES, until = end[segment];
        bool     ends = until < base + LANES;

        for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
            if (base + l >= at)
                x[l] = decay[segment];
        }
        at = ends ? until : base + LANES;
        segment += ends ? 1 : 0;
        if (!ends)
            to.write(x);
    }
}

/* ---- the arithmetic: the order of operations is part of the contract (kernels/optim.c) ---- */

element adam_move(const step &s, element e, float w, float g)
{
#pragma HLS INLINE
    float m = s.beta1 * e.m + s.one_minus_beta1 * g;
    float v = s.beta2 * e.v + (s.one_minus_beta2 * g) * g;
    float d = std::sqrt(v) / s.bias2_sqrt + s.eps;

    return { w - s.step_size * (m / d), m, v };
}

element move(const step &s, element e, float g, float decay)
{
#pragma HLS INLINE
    g = g * s.grad_scale;
    if (s.kind == ADAMW)
        return adam_move(s, e, e.w * decay, g);
    g = g + decay * e.w;
    if (s.kind == ADAM)
        return adam_move(s, e, e.w, g);
    if (s.kind == SGD) {
        float m = s.first ? g : s.beta1 * e.m + g;

        return { e.w - s.step_size * m, m, 0 };
    }
    float m = e.m + g * g;

    return { e.w - s.step_size * (g / (std::sqrt(m) + s.eps)), m, 0 };
}

uint32_t magnitude(float x) { return as_bits(x) & MAGNITUDE; }

uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

void compute(const step &s, unsigned n, lines &w, lines &m, lines &v, lines &g, lines &decays,
             lines &w_to, lines &m_to, lines &v_to, lines &wire_to, words &found)
{
    uint32_t kept = 0, first = 0, largest[4] = { 0, 0, 0, 0 };
#pragma HLS ARRAY_PARTITION variable=largest complete

    for (unsigned i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        line     lw = w.read(), lm = m.read(), lv, lg = g.read(), ld = decays.read();
        uint32_t stays = 0;

        if (s.two)
            lv = v.read();
        for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
            element  was = { as_float(lw[l]), as_float(lm[l]), as_float(lv[l]) };
            element  is = move(s, was, as_float(lg[l]), as_float(ld[l]));
            uint32_t a = magnitude(is.w), b = magnitude(is.m), c = magnitude(is.v);
            bool     live = i * LANES + l < s.n;
            bool     stay = !s.calm && !(a < BOUND && b < BOUND && c < BOUND);

            stays |= (live && stay ? 1u : 0u) << l;
            if (live && !stay) {
                lw[l] = as_bits(is.w);
                lm[l] = as_bits(is.m);
                lv[l] = as_bits(is.v);
                largest[0] = larger(largest[0], a);
                largest[1] = larger(largest[1], b);
                largest[2] = larger(largest[2], c);
                if (s.two)
                    largest[3] = larger(largest[3],
                                        magnitude(std::fabs(is.m) / (std::sqrt(is.v) + ROOT)));
            }
        }
        for (unsigned l = LANES; l-- > 0;) {
#pragma HLS UNROLL
            if (kept == 0 && stays >> l & 1)
                first = i * LANES + l;
        }
        for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
            kept += stays >> l & 1;
        }
        w_to.write(lw);
        wire_to.write(lw);
        m_to.write(lm);
        if (s.two)
            v_to.write(lv);
    }
    found.write(kept);
    found.write(first);
    for (unsigned k = 0; k < 4; k++)
        found.write(s.calm ? 0 : largest[k]);
}

/* ---- out ---- */

void write_lines(lines &from, unsigned n, line *to, words &sum)
{
    crc c;

    for (unsigned i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        line x = from.read();

        c.add(x);
        to[i] = x;
    }
    sum.write(c.sum());
}

/* To nearest, ties to even; there are no NaNs (bf16_from_f32). */
uint32_t bf16_of(uint32_t bits) { return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16; }

/* fp32 as it is, or bf16: two lines become one. */
void write_wire(lines &from, unsigned n, bool bf16, line *to, words &sum)
{
    crc  c;
    line packed;

    for (unsigned i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        line     x = from.read();
        unsigned half = i % 2;

        for (unsigned l = 0; l < LANES / 2; l++) {
#pragma HLS UNROLL
            packed[half * LANES / 2 + l] = bf16_of(x[2 * l]) | bf16_of(x[2 * l + 1]) << 16;
        }
        if (!bf16)
            packed = x;
        if (bf16 && !half)
            continue;
        c.add(packed);
        to[bf16 ? i / 2 : i] = packed;
    }
    sum.write(c.sum());
}

/* ---- all stages at once ---- */

enum { READ_W, READ_M, READ_V, READ_G, WRITTEN_W, WRITTEN_M, WRITTEN_V, WIRE, SUMS };

void flow(const step &s, unsigned n, bool bf16, const uint32_t *end, const uint32_t *decay,
          const line *w, const line *m, const line *v, const line *g, line *w_out, line *m_out,
          line *v_out, line *wire, words sum[SUMS], words &found)
{
#pragma HLS DATAFLOW
    lines w_in, m_in, v_in, g_in, decays, w_moved, m_moved, v_moved, wire_moved;
#pragma HLS STREAM variable=decays depth=64
    unsigned n_v = s.two ? n : 0;

    read_lines(w, n, w_in, sum[READ_W]);
    read_lines(m, n, m_in, sum[READ_M]);
    read_lines(v, n_v, v_in, sum[READ_V]);
    read_lines(g, n, g_in, sum[READ_G]);
    spread_decays(end, decay, n, decays);
    compute(s, n, w_in, m_in, v_in, g_in, decays, w_moved, m_moved, v_moved, wire_moved, found);
    write_lines(w_moved, n, w_out, sum[WRITTEN_W]);
    write_lines(m_moved, n, m_out, sum[WRITTEN_M]);
    write_lines(v_moved, n_v, v_out, sum[WRITTEN_V]);
    write_wire(wire_moved, n, bf16, wire, sum[WIRE]);
}

} // namespace

/* command: struct hls_update_command with its segments; result: struct hls_update_result. Both
 * moments' pointers and their outputs are given also where there is one moment. What is written
 * may be what was read: each line is read before it is written. */
extern "C" void sitrain_update(const line *command, const line *w, const line *m, const line *v,
                               const line *grad, line *w_out, line *m_out, line *v_out, line *wire,
                               line *result)
{
#pragma HLS INTERFACE m_axi port=command bundle=control
#pragma HLS INTERFACE m_axi port=result bundle=control
#pragma HLS INTERFACE m_axi port=w bundle=w max_read_burst_length=64 num_read_outstanding=16
#pragma HLS INTERFACE m_axi port=w_out bundle=w max_write_burst_length=64 num_write_outstanding=16
#pragma HLS INTERFACE m_axi port=m bundle=m max_read_burst_length=64 num_read_outstanding=16
#pragma HLS INTERFACE m_axi port=m_out bundle=m max_write_burst_length=64 num_write_outstanding=16
#pragma HLS INTERFACE m_axi port=v bundle=v max_read_burst_length=64 num_read_outstanding=16
#pragma HLS INTERFACE m_axi port=v_out bundle=v max_write_burst_length=64 num_write_outstanding=16
#pragma HLS INTERFACE m_axi port=grad bundle=grad max_read_burst_length=64 num_read_outstanding=16
#pragma HLS INTERFACE m_axi port=wire bundle=grad max_write_burst_length=64 num_write_outstanding=16
    uint32_t end[HLS_SEGMENTS + 1], decay[HLS_SEGMENTS + 1];
    line     a = command[0], b = command[1], out;
    unsigned n_pad = a[5], n_segments = a[7];
    step     s = { a[1], a[3], a[4], b[0], a[2] == 2, as_float(a[8]), as_float(a[9]),
                   as_float(a[10]), as_float(a[11]), as_float(a[12]), as_float(a[13]),
                   as_float(a[14]), as_float(a[15]) };
    words    sum[SUMS], found;

    if (a[0] != HLS_VERSION || n_segments > HLS_SEGMENTS) {
        out[0] = 0; // no version: whoever asked sees that nothing was done
        result[0] = out;
        return;
    }
    for (unsigned i = 0; i < n_segments; i++) {
        line x = command[2 + i / 8];

        end[i] = x[i % 8 * 2];
        decay[i] = x[i % 8 * 2 + 1];
    }
    end[n_segments] = 0xffffffffu; // padding: its lanes are not live
    decay[n_segments] = 0;
    flow(s, n_pad / LANES, a[6], end, decay, w, m, v, grad, w_out, m_out, v_out, wire, sum, found);
    out[0] = HLS_VERSION;
    for (unsigned k = 0; k < 6; k++)
        out[1 + k] = found.read();
    for (unsigned k = 0; k < 3; k++) {
        out[7 + k] = sum[READ_W + k].read();
        out[10 + k] = sum[WRITTEN_W + k].read();
    }
    out[13] = sum[READ_G].read();
    out[14] = sum[WIRE].read();
    out[15] = 0;
    result[0] = out;
}
