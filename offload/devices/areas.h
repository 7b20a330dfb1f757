/* areas.h: the areas of a run's states that one checksum of the journal covers each: the states or
 * the wire parameters of a subgroup's committed slot, its committed residual, or in mode mem a
 * block of an image. What reads them is in offload/upkeep: verify.h reads a run at rest, scrub.h
 * one that may be trained meanwhile. */
#pragma once

#include "offload/devices/journal.h"
#include "offload/layout/store.h"

enum verify_kind { VERIFY_SUPERBLOCK, VERIFY_STATES, VERIFY_FROZEN, VERIFY_WIRE, VERIFY_GRADIENT,
                   VERIFY_RESIDUAL, VERIFY_IMAGE, VERIFY_KINDS };
extern const char *const verify_names[VERIFY_KINDS]; // plural, for a table

/* Parts read, their bytes, how many were damaged, and how many of these were mended. */
struct verify_count { uint64_t n, bytes, damaged, mended; };

struct area {
    enum verify_kind kind;
    size_t   file;            // the device; of mode mem: the area of image.h
    size_t   sub;             // the subgroup; of mode mem: the block
    size_t   block, first, n; // parameters [first, first + n) of a block
    uint64_t off, bytes;      // bytes 0: there is nothing
    uint32_t crc;
    uint64_t version;         // the place is written over only after this number has changed
};

/* Areas of a subgroup are counted: area k of it is its states, its wire (or what it has if it is
 * frozen), its residual. */
enum { AREAS_OF_SUB = 3 };
enum verify_kind area_kind(const struct store_sub *u, size_t k);

/* The committed area of subgroup i, by its row in the journal, the number of updates in the last
 * commit, and the checksum of its residual. */
struct area area_of(const struct store *st, size_t i, enum verify_kind kind,
                    const struct journal_sub *row, uint64_t applied, uint32_t residual);

/* True if both are of the same bytes on the drive, with the same checksum. */
int area_same(const struct area *a, const struct area *b);

/* Write the names of the tensors of parameters [first, first + n) of a block, as " (A to B)"; or
 * nothing, if they have no names. Returns out. */
enum { AREA_TENSORS = 2 * RUN_NAME + 16 };
const char *area_tensors(char out[AREA_TENSORS], const struct run_config *cfg, size_t block,
                         size_t first, size_t n);

/* Write the sentence about an area at the path: where it is, which tensors are in it, `why`. Always
 * -EBADMSG. */
int area_says(struct err *out, const struct run_config *cfg, const struct area *a,
              const char *path, const char *why);
