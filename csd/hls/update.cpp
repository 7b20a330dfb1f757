/* update.cpp: the updater (Smart-Infinity, HPCA 2024, section V): master, moments and gradient
 * stream through 16 lanes, a line of 64 bytes of each a cycle, and come out moved by one step, with
 * the wire parameters made of them and checksums of all that passed. The arithmetic is
 * kernels/update/optim.c's, operation by operation; an element that would leave the numbers stays
 * what it was, as kernels/update/bounds.h has it.
 *
 * Each stage below is a process of its own that reads its streams and writes the next one's; all
 * run at once, so that reading, computing and writing overlap line by line. Bursts are what the
 * memory ports make of the loops over consecutive lines.
 *
 * The operators round to nearest even, once each, and take subnormals for zeros of their sign, as
 * the vendor's floating-point cores do; nothing is contracted or reordered. A simulation sets the
 * processor to the same. */
#include "csd/hls/stages.h"

#include <cmath>

namespace {

enum { ADAMW, ADAM, SGD, ADAGRAD }; // enum optim_kind

const uint32_t MAGNITUDE = 0x7fffffffu;
const uint32_t BOUND = 0x7f7f8000u; // OPTIM_BOUND's bits: magnitudes order as their bits do
const float    ROOT = 1e-15f;       // BOUNDS_ROOT
const uint32_t NEVER = 0xffffffffu; // end of the last segment: padding, whose lanes are not live

struct segment { uint32_t end, decay; };
typedef hls::stream<segment> segments;

struct step {
    uint32_t kind, unchecked, n, first;
    bool     two; // moments
    float    grad_scale, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, bias2_sqrt, eps;
};

struct element { float w, m, v; };

/* Lines: of the parameters, of v where there is one, of the wire parameters; where each begins. */
struct places {
    uint32_t n, n_v, n_wire, n_segments;
    uint32_t w, m, v, grad, w_out, m_out, v_out, wire;
};

/* ---- in ---- */

void read_segments(const line *command, uint32_t n, segments &to)
{
#pragma HLS INLINE off
    segment last = { NEVER, 0 };

    for (uint32_t i = 0; i < n; i += 8) {
        line x = command[2 + i / 8];

        for (unsigned k = 0; k < 8; k++) {
#pragma HLS PIPELINE II=1
            segment s = { x[2 * k], x[2 * k + 1] };

            if (i + k < n)
                to.write(s);
        }
    }
    to.write(last);
}

/* The decay of each element. A line without a boundary takes one cycle, each boundary one more: the
 * stream's depth hides them. */
void spread_decays(segments &from, uint32_t n, lines &to)
{
#pragma HLS INLINE off
    segment s = from.read();
    line    x;

    for (uint32_t at = 0; at < n * LANES;) {
#pragma HLS PIPELINE II=1
        uint32_t next = at / LANES * LANES + LANES;
        bool     ends = s.end < next;

        for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
            if (l >= at % LANES)
                x[l] = s.decay;
        }
        at = ends ? s.end : next;
        if (ends)
            s = from.read();
        else
            to.write(x);
    }
    while (s.end != NEVER) // none is left for the next run
        s = from.read();
}

/* ---- the arithmetic: the order of operations is part of the contract (kernels/update/optim.c) */

uint32_t magnitude(float x) { return as_bits(x) & MAGNITUDE; }

/* All kinds go through the same operators: one kind's would else lie idle beside another's. *ratio:
 * the magnitude of m / (sqrt(v) + ROOT), where there is a v. */
element move(const step &s, element e, float g, float decay, uint32_t *ratio)
{
#pragma HLS INLINE
    const bool adamw = s.kind == ADAMW, sgd = s.kind == SGD, adagrad = s.kind == ADAGRAD;
    float      decayed = e.w * decay; // the parameter, or what decay adds to its gradient

    g = g * s.grad_scale;
    if (!adamw)
        g = g + decayed;
    float square = (adagrad ? g : s.one_minus_beta2 * g) * g;
    float m = (adagrad ? e.m : s.beta1 * e.m) +
              (adagrad ? square : sgd ? g : s.one_minus_beta1 * g);
    float v = s.beta2 * e.v + square;

    if (sgd && s.first)
        m = g;
    float root = std::sqrt(s.two ? v : m);
    float quotient = (s.two ? m : g) / ((s.two ? root / s.bias2_sqrt : root) + s.eps);
    element to = { (adamw ? decayed : e.w) - s.step_size * (sgd ? m : quotient), m,
                   s.two ? v : 0 };

    *ratio = s.two ? magnitude(std::fabs(m) / (root + ROOT)) : 0;
    return to;
}

/* Trees, so that only their root waits for the line before. */
uint32_t largest_of(const uint32_t x[LANES])
{
#pragma HLS INLINE
    uint32_t a[LANES];
#pragma HLS ARRAY_PARTITION variable=a complete

    for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
        a[l] = x[l];
    }
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
#pragma HLS UNROLL
        for (unsigned l = 0; l < half; l++) {
#pragma HLS UNROLL
            a[l] = a[l] > a[l + half] ? a[l] : a[l + half];
        }
    }
    return a[0];
}

/* A line a cycle, in 16 lanes. */
void compute(step s, uint32_t n, lines &w, lines &m, lines &v, lines &g, lines &decays, lines &w_to,
             lines &m_to, lines &v_to, lines &wire_to, words &found)
{
#pragma HLS INLINE off
    uint32_t overflow = 0, first = 0, largest[4] = { 0, 0, 0, 0 };
#pragma HLS ARRAY_PARTITION variable=largest complete

    for (uint32_t i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        line     lw = w.read(), lm = m.read(), lv = lm, lg = g.read(), ld = decays.read();
        uint32_t far[4][LANES], stays = 0, n_stays = 0, first_stays = 0;
#pragma HLS ARRAY_PARTITION variable=far dim=0 complete

        if (s.two)
            lv = v.read();
        for (unsigned l = LANES; l-- > 0;) {
#pragma HLS UNROLL
            element  was = { as_float(lw[l]), as_float(lm[l]), as_float(lv[l]) };
            uint32_t ratio;
            element  is = move(s, was, as_float(lg[l]), as_float(ld[l]), &ratio);
            uint32_t a = magnitude(is.w), b = magnitude(is.m), c = magnitude(is.v);
            bool     live = i * LANES + l < s.n;
            bool     stay = live && !s.unchecked && !(a < BOUND && b < BOUND && c < BOUND);
            bool     moves = live && !stay;

            if (stay)
                first_stays = l;
            stays |= stay ? 1u : 0u;
            n_stays += stay ? 1u : 0u;
            far[0][l] = moves ? a : 0;
            far[1][l] = moves ? b : 0;
            far[2][l] = moves ? c : 0;
            far[3][l] = moves ? ratio : 0;
            if (moves) {
                lw[l] = as_bits(is.w);
                lm[l] = as_bits(is.m);
                lv[l] = as_bits(is.v);
            }
        }
        for (unsigned k = 0; k < 4; k++) {
#pragma HLS UNROLL
            uint32_t x = largest_of(far[k]);

            largest[k] = x > largest[k] ? x : largest[k];
        }
        if (overflow == 0 && stays)
            first = i * LANES + first_stays;
        overflow += n_stays;
        w_to.write(lw);
        wire_to.write(lw);
        m_to.write(lm);
        if (s.two)
            v_to.write(lv);
    }
    found.write(overflow);
    found.write(first);
    for (unsigned k = 0; k < 4; k++)
        found.write(s.unchecked ? 0 : largest[k]);
}

/* ---- out ---- */

/* To nearest, ties to even; there are no NaNs (bf16_from_f32). */
uint32_t bf16_of(uint32_t bits) { return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16; }

/* fp32 as it is, or bf16: two lines become one. */
void pack_wire(lines &from, uint32_t n, bool bf16, lines &to)
{
#pragma HLS INLINE off
    line packed;

    for (uint32_t i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        line x = from.read();

        for (unsigned l = 0; l < LANES / 2; l++) {
#pragma HLS UNROLL
            uint32_t two = bf16_of(x[2 * l]) | bf16_of(x[2 * l + 1]) << 16;

            if (i % 2)
                packed[LANES / 2 + l] = two;
            else
                packed[l] = two;
        }
        if (!bf16)
            to.write(x);
        else if (i % 2)
            to.write(packed);
    }
}

enum { READ_W, READ_M, READ_V, WRITTEN_W, WRITTEN_M, WRITTEN_V, READ_G, WIRE, SUMS };

/* struct hls_update_result. */
void collect(words &found, words &read_w, words &read_m, words &read_v, words &written_w,
             words &written_m, words &written_v, words &read_g, words &wire, line *result)
{
#pragma HLS INLINE off
    line out = answer(HLS_VERSION);

    for (unsigned k = 0; k < 6; k++)
        out[1 + k] = found.read();
    out[7] = read_w.read();
    out[8] = read_m.read();
    out[9] = read_v.read();
    out[10] = written_w.read();
    out[11] = written_m.read();
    out[12] = written_v.read();
    out[13] = read_g.read();
    out[14] = wire.read();
    result[0] = out;
}

/* ---- all stages at once ---- */

void flow(const line *command, step s, places p, bool bf16, const line *w, const line *m,
          const line *v, const line *grad, line *w_out, line *m_out, line *v_out, line *wire,
          line *result)
{
#pragma HLS DATAFLOW
    lines    w_in, m_in, v_in, g_in, decays, w_moved, m_moved, v_moved, wire_moved, wire_packed;
    segments ends;
    words    found, sum[SUMS];
#pragma HLS STREAM variable=decays depth=64

    read_lines(w, p.w, p.n, 0, w_in, sum[READ_W]);
    read_lines(m, p.m, p.n, 0, m_in, sum[READ_M]);
    read_lines(v, p.v, p.n_v, 0, v_in, sum[READ_V]);
    read_lines(grad, p.grad, p.n, 0, g_in, sum[READ_G]);
    read_segments(command, p.n_segments, ends);
    spread_decays(ends, p.n, decays);
    compute(s, p.n, w_in, m_in, v_in, g_in, decays, w_moved, m_moved, v_moved, wire_moved, found);
    pack_wire(wire_moved, p.n, bf16, wire_packed);
    write_lines(w_moved, p.n, w_out, p.w_out, sum[WRITTEN_W]);
    write_lines(m_moved, p.n, m_out, p.m_out, sum[WRITTEN_M]);
    write_lines(v_moved, p.n_v, v_out, p.v_out, sum[WRITTEN_V]);
    write_lines(wire_packed, p.n_wire, wire, p.wire, sum[WIRE]);
    collect(found, sum[READ_W], sum[READ_M], sum[READ_V], sum[WRITTEN_W], sum[WRITTEN_M],
            sum[WRITTEN_V], sum[READ_G], sum[WIRE], result);
}

} // namespace

/* command: struct hls_update_command with its segments; result: struct hls_update_result. What is
 * written may lie where it was read: each line is read before it is written. */
extern "C" void sitrain_update(const line *command, const line *w, const line *m, const line *v,
                               const line *grad, line *w_out, line *m_out, line *v_out, line *wire,
                               line *result)
{
#pragma HLS INTERFACE m_axi port=command bundle=command
#pragma HLS INTERFACE m_axi port=result bundle=command
#pragma HLS INTERFACE m_axi port=w bundle=w max_read_burst_length=64 max_write_burst_length=64
#pragma HLS INTERFACE m_axi port=w_out bundle=w max_read_burst_length=64 max_write_burst_length=64
#pragma HLS INTERFACE m_axi port=m bundle=m max_read_burst_length=64 max_write_burst_length=64
#pragma HLS INTERFACE m_axi port=m_out bundle=m max_read_burst_length=64 max_write_burst_length=64
#pragma HLS INTERFACE m_axi port=v bundle=v max_read_burst_length=64 max_write_burst_length=64
#pragma HLS INTERFACE m_axi port=v_out bundle=v max_read_burst_length=64 max_write_burst_length=64
#pragma HLS INTERFACE m_axi port=grad bundle=grad max_read_burst_length=64 max_write_burst_length=64
#pragma HLS INTERFACE m_axi port=wire bundle=grad max_read_burst_length=64 max_write_burst_length=64
    line     a = command[0], b = command[1];
    uint32_t n = a[5] / LANES;
    bool     two = a[2] == 2, bf16 = a[6];
    step     s = { a[1], a[3], a[4], b[0], two, as_float(a[8]), as_float(a[9]), as_float(a[10]),
                   as_float(a[11]), as_float(a[12]), as_float(a[13]), as_float(a[14]),
                   as_float(a[15]) };
    places   p = { n, two ? n : 0, bf16 ? n / 2 : n, a[7], b[1], b[2], b[3], b[4], b[5], b[6], b[7],
                   b[8] };

    if (a[0] != HLS_VERSION || n == 0)
        result[0] = answer(a[0]);
    else
        flow(command, s, p, bf16, w, m, v, grad, w_out, m_out, v_out, wire, result);
}
