/* packed.h: the base of adapters in fewer bits (--base-dtype): blocks of layers as byte strings.
 * Their matrices are packed (kernels/quant/quant.h), and their other tensors have the dtype of the
 * run. Devices hold such a block as a frozen one of packed_size elements, which are bit patterns.
 *
 * A source of a packed model gives the bits of an element as those of a float: all of an fp32
 * element, or the upper half for bf16. Two sources change one form into the other: packing for a
 * new run, and unpacking for whoever reads the parameters of a run. */
#pragma once

#include "data/base/arena.h"
#include "kernels/quant/quant.h"
#include "model/arch/arch.h"
#include "offload/run.h"

/* Words of --base-dtype, by enum quant; NULL past the last. */
const char *packed_name(size_t kind);

/* True if a block of the model is packed in runs of this dtype. */
int packed_is(const struct model_config *g, size_t block, enum dtype dt);
/* The packed blocks of a model; empty: it has none. */
struct route_span packed_blocks(const struct model_config *g, enum dtype dt);
/* Elements of dt that a block has on devices: its parameters, unless it is packed. */
size_t packed_size(const struct model_config *g, size_t block, enum dtype dt);
/* Bytes of an unpacked layer in memory; 0: the model is not packed. */
size_t packed_frame(const struct model_config *g, enum dtype dt);

/* Unpacks a packed block into out, arch_block_size elements of dt. Parallel. */
void packed_unpack(void *out, const struct model_config *g, size_t block, enum dtype dt,
                   const void *packed);

/* A source that packs what `inner` has, or unpacks it. One block at a time is in memory. g is
 * copied, and inner must outlive it. 0 or -ENOMEM. packed_close accepts NULL. */
struct packed;
enum packed_way { PACKED_PACKS, PACKED_UNPACKS };
int    packed_open(struct packed **out, const struct model_config *g, enum dtype dt,
                   enum packed_way way, const struct params_source *inner, struct err *err);
void   packed_close(struct packed *p);
struct params_source packed_source(struct packed *p);
/* Bytes that a source of this way holds. */
size_t packed_memory(const struct model_config *g, enum dtype dt, enum packed_way way);

/* run_format (offload/run.h) of a run whose blocks may be packed; init has them unpacked. */
int packed_format(const struct run_config *cfg, const struct model_config *g,
                  const struct params_source *init, struct err *err);
