/* grad_form.h: a complete gradient on its way out, as pure functions: its norm and NaN/Inf flag,
 * then the form in which each subgroup's part is written, dense as it stands or Top-K pairs, and
 * its checksum. */
#ifndef OFFLOAD_GRAD_FORM_H
#define OFFLOAD_GRAD_FORM_H

#include "offload/store.h"
#include "offload/stream.h"

/* A subgroup's part: what to write where its gradient area begins. */
struct grad_part { void *bytes; size_t n_bytes, payload, pairs; uint32_t crc, residual_crc; };

/* Add sum of squares and flag of a block's grad[0..n) to *norm; what none of its magnitudes
 * exceeds. scratch: grad_scratch bytes. */
double grad_norm(struct stream_norm *norm, size_t block, const float *grad, size_t n,
                  void *scratch);

/* Dense: parts point into grad (padded with zeros to a multiple of CSD_ALIGN_PARAMS). parts: one
 * for each subgroup of the block. */
void grad_dense(struct grad_part *parts, const struct store *s, size_t block, float *grad);

/* Top-K of the whole block, packed for each subgroup into `pack` (grad_pack_bytes, 4 KiB aligned).
 * Error feedback: residual (padded with zeros as grad is) is what steps before did not send; it is
 * added before Top-K, and then is what this step does not send, with checksums for each subgroup.
 * Else NULL. *most, with error feedback alone: what no magnitude that is sent exceeds. 1 if the
 * two together are not finite: then nothing is packed, and the residual is of no use. */
int grad_pairs(struct grad_part *parts, const struct store *s, size_t block, const float *grad,
                float *residual, void *pack, void *scratch, double *most);

/* Of the largest of the blocks [first, end). */
size_t grad_pack_bytes(const struct store *s, size_t first, size_t end); // 0 if dense
size_t grad_scratch(const struct store *s);

#endif
