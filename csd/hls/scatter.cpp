/* scatter.cpp: the Top-K decompressor (Smart-Infinity, HPCA 2024, section V): a packed gradient
 * (csd/engine/grad_wire.h: a header, then pairs of index and value, indices rising) becomes a dense one in
 * device memory. A chunk of the dense gradient at a time lies in on-chip memory: the pairs that
 * fall into it are put there, and it goes out in one burst, leaving zeros, while the next pairs are
 * read. A piece of the packed gradient that is not the last ends with the chunk that its last pair
 * fell into, and the next piece goes on with that chunk.
 *
 * Nothing in the packed gradient is trusted: an index is used only after it was compared. The
 * checksum covers header, pairs and the zeros behind them. */
#include "csd/hls/stages.h"

namespace {

enum { CHUNK = 8192, CHUNK_LINES = CHUNK / LANES }; // parameters on the chip at a time
enum { PAIRS = LANES / 2 };                         // of a line

const uint32_t NONE = 0xffffffffu; // of index: no pair comes any more

struct pair { uint32_t index, value; };
typedef hls::stream<pair> pairs;

/* first: line of the dense gradient where the first chunk begins; n_old: lines of it that the piece
 * before has put there. */
struct task {
    uint32_t n, n_pad, n_pairs, packed, dense, lines, ends, seen, last, sum, first, n_old;
};

/* A pair a cycle, until a fault or the last; then NONE. A line comes every eighth cycle. */
void unpack(lines &from, task t, pairs &to, words &found)
{
#pragma HLS INLINE off
    const uint32_t header = t.seen == 0 ? PAIRS : 0; // of the first piece, as long as eight pairs
    uint32_t       fault = 0, index = 0, seen = t.seen, last = t.last;
    line           x;

    for (uint32_t i = 0; i < t.lines * PAIRS; i++) {
#pragma HLS PIPELINE II=1
        if (i % PAIRS == 0)
            x = from.read();
        pair p = { x[i % PAIRS * 2], x[i % PAIRS * 2 + 1] };

        if (i < header) {
            if (i == 0 && (x[0] != 0x72546973u || x[1] != 0x31647247u || x[2] != t.n ||
                           x[3] != 0 || x[4] != t.n_pairs || x[5] != 0)) // "siTrGrd1", n, pairs
                fault = 1;
        } else if (!fault && seen < t.n_pairs) {
            if (p.index >= t.n || (seen > 0 && p.index <= last)) {
                fault = 2;
                index = p.index;
            } else {
                seen++;
                last = p.index;
                to.write(p);
            }
        }
    }
    pair none = { NONE, 0 };

    to.write(none);
    found.write(fault);
    found.write(index);
    found.write(seen);
    found.write(last);
}

/* What the first chunk holds already. */
void read_old(const line *dense, task t, lines &to)
{
#pragma HLS INLINE off
    uint32_t at = t.dense + t.first;

    for (uint32_t i = 0; i < t.n_old; i++) {
#pragma HLS PIPELINE II=1
        to.write(dense[at + i]);
    }
}

/* Chunks, each after a word that says how many lines it has; 0 after the last. */
void fill_chunks(pairs &from, lines &old, task t, lines &to, words &counts)
{
#pragma HLS INLINE off
    uint32_t chunk[CHUNK_LINES][LANES];
#pragma HLS ARRAY_PARTITION variable=chunk dim=2 complete
    bool more = true;

    for (uint32_t i = 0; i < CHUNK_LINES; i++) {
#pragma HLS PIPELINE II=1
        line x = answer(0);

        if (i < t.n_old)
            x = old.read();
        for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
            chunk[i][l] = x[l];
        }
    }
    pair next = from.read();
    for (uint32_t first = t.first * LANES; more && first < t.n_pad; first += CHUNK) {
        uint32_t left = t.n_pad - first, count = left < CHUNK ? left : uint32_t(CHUNK);

        while (next.index < first + count) {
#pragma HLS PIPELINE II=1
            uint32_t k = next.index - first;

            chunk[k / LANES][k % LANES] = next.value;
            next = from.read();
        }
        counts.write(count / LANES);
        for (uint32_t i = 0; i < count / LANES; i++) {
#pragma HLS PIPELINE II=1
            line x;

            for (unsigned l = 0; l < LANES; l++) {
#pragma HLS UNROLL
                x[l] = chunk[i][l];
                chunk[i][l] = 0;
            }
            to.write(x);
        }
        more = t.ends || next.index != NONE;
    }
    counts.write(0);
    while (next.index != NONE) // a pair is never left for the next run
        next = from.read();
}

void write_chunks(lines &from, words &counts, task t, line *to)
{
#pragma HLS INLINE off
    uint32_t at = t.dense + t.first;

    for (uint32_t n = counts.read(); n > 0; at += n, n = counts.read())
        for (uint32_t i = 0; i < n; i++) {
#pragma HLS PIPELINE II=1
            to[at + i] = from.read();
        }
}

void collect(words &found, words &sum, line *result)
{
#pragma HLS INLINE off
    line out = answer(HLS_VERSION);

    for (unsigned k = 0; k < 4; k++)
        out[1 + k] = found.read();
    out[5] = sum.read();
    result[0] = out;
}

/* The old lines are read before they are written again: a chunk is whole before it goes out. */
void flow(const line *packed, task t, line *dense, line *result)
{
#pragma HLS DATAFLOW
    lines in, old, out;
    pairs unpacked;
    words sum, found, counts;
#pragma HLS STREAM variable=unpacked depth=1024
#pragma HLS STREAM variable=out depth=512

    read_lines(packed, t.packed, t.lines, t.sum, in, sum);
    unpack(in, t, unpacked, found);
    read_old(dense, t, old);
    fill_chunks(unpacked, old, t, out, counts);
    write_chunks(out, counts, t, dense);
    collect(found, sum, result);
}

} // namespace

/* command: struct hls_scatter_command; result: struct hls_scatter_result. */
extern "C" void sitrain_scatter(const line *command, const line *packed, line *dense, line *result)
{
#pragma HLS INTERFACE m_axi port=command bundle=command
#pragma HLS INTERFACE m_axi port=result bundle=command
#pragma HLS INTERFACE m_axi port=packed bundle=packed max_read_burst_length=64
#pragma HLS INTERFACE m_axi port=dense bundle=out max_read_burst_length=64 max_write_burst_length=64
    line     a = command[0];
    uint32_t first = a[9] / CHUNK * CHUNK_LINES, left = a[2] / LANES - first;
    uint32_t n_old = a[8] == 0 ? 0 : left < CHUNK_LINES ? left : uint32_t(CHUNK_LINES);
    task     t = { a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], first, n_old };

    if (a[0] != HLS_VERSION || t.n_pad == 0)
        result[0] = answer(a[0]);
    else
        flow(packed, t, dense, result);
}
