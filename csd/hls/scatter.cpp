/* scatter.cpp: the Top-K decompressor (Smart-Infinity, HPCA 2024, section V): a packed gradient
 * (csd/grad_wire.h: a header, then pairs of index and value, indices rising) becomes a dense one in
 * device memory. A chunk of the dense gradient at a time lies in on-chip memory: it is zeroed, the
 * pairs that fall into it are put there, and it goes out in one burst, while the next is filled.
 *
 * Nothing in the packed gradient is trusted: an index is used only after it was compared, and what
 * comes behind a fault is zero. The checksum covers header, pairs and the zeros behind them. */
#include "csd/hls/command.h"
#include "csd/hls/crc.h"

namespace {

enum { CHUNK = 8192, PAIRS = LANES / 2 }; // parameters on the chip at a time; pairs of a line

struct pair { uint32_t index, value; };
typedef hls::stream<pair>     pairs;
typedef hls::stream<uint32_t> words;

const uint32_t NONE = 0xffffffffu; // of index: no pair comes any more

/* The packed lines, one pair a cycle, until a fault or the last; then NONE. */
void read_pairs(const line *packed, uint32_t n, uint32_t n_pairs, pairs &to, words &found)
{
    const unsigned n_lines = (64 + 8 * n_pairs + 4095) / 4096 * 64;
    uint32_t       fault = 0, at = 0, index = 0, last = 0;
    line           x;
    crc            c;

    for (unsigned i = 0; i < n_lines * PAIRS; i++) {
#pragma HLS PIPELINE II=1
        if (i % PAIRS == 0) {
            x = packed[i / PAIRS];
            c.add(x);
        }
        if (i == 0 && (x[0] != 0x72546973u || x[1] != 0x31647247u || x[2] != n || x[3] != 0 ||
                       x[4] != n_pairs || x[5] != 0)) // "siTrGrd1", n, pairs
            fault = 1;
        unsigned number = i - PAIRS;
        pair     p = { x[i % PAIRS * 2], x[i % PAIRS * 2 + 1] };

        if (i < PAIRS || number >= n_pairs || fault)
            continue;
        if (p.index >= n || (number > 0 && p.index <= last)) {
            fault = 2;
            at = number;
            index = p.index;
        } else {
            last = p.index;
            to.write(p);
        }
    }
    to.write({ NONE, 0 });
    found.write(fault);
    found.write(at);
    found.write(index);
    found.write(last);
    found.write(c.sum());
}

void fill_chunks(pairs &from, unsigned n_lines, lines &to)
{
    pair next = from.read();

    for (unsigned first = 0; first < n_lines * LANES; first += CHUNK) {
        uint32_t chunk[CHUNK / LANES][LANES];
#pragma HLS ARRAY_PARTITION variable=chunk dim=2 complete
        unsigned left = n_lines * LANES - first, count = left < CHUNK ? left : unsigned(CHUNK);

        for (unsigned i = 0; i < count / LANES; i++) {
#pragma HLS PIPELINE II=1
            for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
                chunk[i][l] = 0;
            }
        }
        while (next.index < first + count) {
#pragma HLS PIPELINE II=1
            unsigned k = next.index - first;

            chunk[k / LANES][k % LANES] = next.value;
            next = from.read();
        }
        for (unsigned i = 0; i < count / LANES; i++) {
#pragma HLS PIPELINE II=1
            line x;

            for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
                x[l] = chunk[i][l];
            }
            to.write(x);
        }
    }
}

void write_lines(lines &from, unsigned n, line *to)
{
    for (unsigned i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
        to[i] = from.read();
    }
}

void flow(const line *packed, uint32_t n, unsigned n_lines, uint32_t n_pairs, line *dense,
          words &found)
{
#pragma HLS DATAFLOW
    pairs in;
    lines out;
#pragma HLS STREAM variable=in depth=512
#pragma HLS STREAM variable=out depth=512

    read_pairs(packed, n, n_pairs, in, found);
    fill_chunks(in, n_lines, out);
    write_lines(out, n_lines, dense);
}

} // namespace

/* command: struct hls_scatter_command; result: struct hls_scatter_result. dense: n_pad floats. */
extern "C" void sitrain_scatter(const line *command, const line *packed, line *dense, line *result)
{
#pragma HLS INTERFACE m_axi port=command bundle=control
#pragma HLS INTERFACE m_axi port=result bundle=control
#pragma HLS INTERFACE m_axi port=packed bundle=packed max_read_burst_length=64
#pragma HLS INTERFACE m_axi port=dense bundle=dense max_write_burst_length=64
    line  a = command[0], out;
    words found;

    for (unsigned i = 0; i < LANES; i++)
        out[i] = 0;
    if (a[0] == HLS_VERSION) {
        flow(packed, a[1], a[2] / LANES, a[3], dense, found);
        out[0] = HLS_VERSION;
        for (unsigned k = 0; k < 5; k++)
            out[1 + k] = found.read();
    }
    result[0] = out;
}
