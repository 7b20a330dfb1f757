/* command.h: what the host puts before a kernel, and what it finds behind it, in device memory. All
 * of it is 32-bit words, so that no argument's width depends on what a card's metadata says of it;
 * floats stand as their bits. Shared by C and the kernels. */
#pragma once

#include <stdint.h>

enum { HLS_VERSION = 1, HLS_SEGMENTS = 256 }; // segments: at most

/* Two lines of 64 bytes, and n_segments pairs (end, decay), eight a line, behind them: parameters
 * before `end` that no earlier segment has decay by that much: optim_update's factor with adamw,
 * weight decay itself elsewhere. */
struct hls_update_command {
    uint32_t version, kind, moments, calm; // kind: enum optim_kind
    uint32_t n, n_pad, wire_bf16, n_segments;
    uint32_t grad_scale, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, bias2_sqrt, eps;
    uint32_t first, zero[15];
};

/* One line. largest: magnitudes of w, m, v and of |m| / (sqrt(v) + REACH_ROOT), where it was not
 * calm and no element was kept. Sums: CRC32C of master and moments as they were and as they are, of
 * the gradient, of the wire parameters. */
struct hls_update_result {
    uint32_t version, kept, kept_first, largest[4];
    uint32_t read[3], written[3], grad, wire, zero;
};

/* One line; n, pairs: what the packed gradient's header must say. */
struct hls_scatter_command { uint32_t version, n, n_pad, pairs, zero[12]; };

/* One line. fault: 0; 1: another header; 2: pair number `pair` has `index`, which is not below n,
 * or does not rise above `last`. sum: CRC32C of header, pairs and rest. */
struct hls_scatter_result { uint32_t version, fault, pair, index, last, sum, zero[10]; };
