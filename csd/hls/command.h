/* command.h: what the host puts before a kernel, and what it finds behind it, in device memory. All
 * of it is 32-bit words, so that no argument's width depends on what a card's metadata says of it;
 * floats stand as their bits. Shared by C and the kernels.
 *
 * The other arguments of a kernel may all be one buffer: where something lies in it is said here,
 * in lines of 64 bytes from where that argument points to.
 *
 * Whoever asks with another version finds 0 as the result's, and nothing else was done. A command
 * whose n_pad is 0 does nothing but have the version answered. */
#pragma once

#include <stdint.h>

/* HLS_SEGMENTS: what a host makes room for; a kernel takes any number. There is one for each tensor
 * that a subgroup has a part of, and no block has more than some dozen. */
enum { HLS_VERSION = 2, HLS_LINE = 64, HLS_SEGMENTS = 256 };

/* Two lines, and n_segments pairs (end, decay), eight a line, behind them: parameters before `end`
 * that no earlier segment has decay by that much: optim_update's factor with adamw, weight decay
 * itself elsewhere. n_pad: a multiple of 32. v, v_out: looked at where there are two moments. */
struct hls_update_command {
    uint32_t version, kind, moments, unchecked; // kind: enum optim_kind
    uint32_t n, n_pad, wire_bf16, n_segments;
    uint32_t grad_scale, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, bias2_sqrt, eps;
    uint32_t first;
    uint32_t w, m, v, grad, w_out, m_out, v_out, wire; // lines: where each of them begins
    uint32_t zero[7];
};

/* One line. largest: magnitudes of w, m, v and of |m| / (sqrt(v) + BOUNDS_ROOT), where it was not
 * unchecked and no element was kept. Sums: CRC32C of master and moments as they were and as they
 * are, of the gradient, of the wire parameters. */
struct hls_update_result {
    uint32_t version, overflow, overflow_first, largest[4];
    uint32_t read[3], written[3], grad, wire, zero;
};

/* How far a packed gradient (csd/engine/grad_wire.h) was scattered: all zero before its first
 * piece, and from one piece's result to the next one's command as it is. seen: pairs; last: the
 * index of the last of them; sum: CRC32C of all bytes so far. */
struct hls_scatter_state { uint32_t seen, last, sum; };

/* One line. The packed gradient comes in consecutive pieces, multiples of 4 KiB, from the start.
 * n, pairs: what its header must say. packed: where this piece begins; lines: how long it is; ends:
 * it is the last one. dense: where n_pad floats begin, a multiple of 16 of them; all are written
 * when the last piece is done, and nobody else may change them before. */
struct hls_scatter_command {
    uint32_t version, n, n_pad, pairs;
    uint32_t packed, dense, lines, ends;
    struct hls_scatter_state state;
    uint32_t zero[5];
};

/* One line. fault: 0; 1: another header; 2: pair number state.seen has `index`, which is not below
 * n, or does not rise above state.last (where state.seen is not 0). After a fault the dense
 * gradient is of no use; state.sum is still that of all bytes. */
struct hls_scatter_result {
    uint32_t version, fault, index;
    struct hls_scatter_state state;
    uint32_t zero[10];
};
