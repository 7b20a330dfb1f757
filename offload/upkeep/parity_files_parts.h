/* parity_files_parts.h: what parity_files.c and parity_mend.c share: the open files of a snapshot
 * with parity, and its stripes. */
#pragma once

#include "offload/upkeep/parity_files.h"

struct parity_range { uint64_t off, bytes; };

/* A portion and the parity file next to it. */
struct parity_file {
    const char          *portion;
    int                  fd, parity_fd; // -1: not open
    struct parity_range *range;         // (ranges) of the portion that are protected
    size_t               ranges, at;    // at, before: the range of the last transfer, and the bytes
    uint64_t             before;        // of those before it
    uint64_t             bytes;         // of all ranges
    size_t               unit;          // of the training (beside.h), on this device
};

/* Compute the shape from the snapshot's journal, and take memory. The files are not opened. The
 * caller calls parity_end, also after a failure. */
int parity_begin(struct parity_files *p, struct err *err);

/* Read device d's chunk of a stripe into its place of p->chunk, or write it from there. */
int parity_chunk_move(struct parity_files *p, uint64_t stripe, size_t d, enum link_dir dir,
                      struct err *err);

uint32_t *parity_sum_at(const struct parity_files *p, uint64_t stripe, size_t d);
/* Bytes of the sums, in whole sectors, and where they are in device d's parity file. */
size_t   parity_sums_bytes(const struct parity_shape *s);
uint64_t parity_sums_off(const struct parity_files *p, size_t d);
/* 1: the sums in device d's parity file are right; 0: not; or -errno. Uses p->chunk[0]. */
int parity_sums_right(struct parity_files *p, size_t d, struct err *err);
/* Write the header of device d's parity file, and the sums. */
int parity_tail_write(struct parity_files *p, size_t d, struct err *err);
/* Make p->page the header of device d's parity file, or the superblock of its portion. */
void parity_header(const struct parity_files *p, size_t d);
void parity_superblock(const struct parity_files *p, size_t d);

/* Read the sums from the first parity file in which they are right. -EBADMSG: in none. */
int parity_sums_read(struct parity_files *p, struct err *err);

/* Count damage; the first one's sentence is kept. */
void parity_damage(struct parity_files *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Flush both files of all devices. */
int parity_flush(struct parity_files *p, struct err *err);
