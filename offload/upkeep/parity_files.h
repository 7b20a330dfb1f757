/* parity_files.h: the parity of a snapshot whose devices' files (portions) lie on the drives of the
 * run: next to each portion lies a file of parity of the others (parity.h). What is protected of a
 * portion is what a snapshot copies: committed slots and residuals. Its superblock and its holes
 * follow from the run's settings.
 *
 * A parity file is [header | the device's parity chunks | sums]. The header (PARITY_SECTOR bytes)
 * has the form of a superblock; sums are the checksums (CRC-32C) of the chunks of all devices,
 * 4 bytes each, stripe by stripe, padded to whole sectors. All parity files have the same sums, so
 * they outlive a lost drive. Their own checksum is in the snapshot's run.db. */
#pragma once

#include "offload/layout/config.h"
#include "offload/layout/store.h"
#include "offload/upkeep/beside.h"
#include "offload/upkeep/parity.h"

struct parity_file;

struct parity_files {
    // set by the caller
    const struct run_config *snapshot; // device_paths: the portions; log: its journal
    const char *const       *paths;    // (n_devices) of the parity files
    const struct watch      *watch;    // progress in bytes, or NULL
    struct beside           *beside;   // the pace of parity_make and parity_check, or NULL
    size_t                   parity;   // 1 or 2
    uint64_t                 step;     // of the snapshot
    int                      look;     // parity_mend only reads: whether all could be made again
    uint32_t                 sums_crc; // checksum of the sums: parity_make sets it, others read it
    // results
    uint64_t damaged, mended;  // chunks, headers, superblocks and lengths
    struct err first;          // says what the first damage is
    uint64_t read;             // bytes
    int more;                  // parity_check_some: there are stripes behind those
    // private
    struct store        store;
    struct parity_shape shape;
    struct parity_file *file;
    uint32_t           *sums;
    unsigned char      *buffer, *chunk[PARITY_DEVICES], *page;
    unsigned char      *wrote; // (stripes, devices) by parity_mend: what it has made again
    uint64_t            done, total;
};

/* Bytes of parity that a snapshot of this run has on all its devices, with headers and sums: those
 * that parity_make writes, and those that parity_check reads. */
int parity_files_bytes(const struct run_config *run, size_t parity, uint64_t bytes[LINK_DIRS],
                       struct err *err);

/* Make the parity files of a snapshot whose portions are complete and flushed, and flush them. The
 * files must not be there. It may run in any thread that has the snapshot to itself. */
int parity_make(struct parity_files *p, struct err *err);

/* Read the parity files, and compare them with their checksums. Damage is counted. (Portions have
 * checksums in the journal: verify.h.) 0 or -errno, also if this user may not read them. */
int parity_check(struct parity_files *p, struct err *err);
/* The same in pieces. begin opens the files, and reads the checksums. some reads `most` stripes
 * (0: all) from `from` on, and before stripe 0 also what lies around them. The caller calls
 * parity_end, also after a failure. */
int  parity_check_begin(struct parity_files *p, struct err *err);
int  parity_check_some(struct parity_files *p, uint64_t from, uint64_t most, struct err *err);
void parity_end(struct parity_files *p); // accepts the zero state

/* Read portions and parity, and make again what is missing or damaged: whole files, or chunks that
 * cannot be read or whose checksum is wrong. It is written in place, flushed, and read back. A kill
 * leaves no more damage than there was, and the same call goes on. 0: all has the checksums with
 * which it was made (with `look`: if nothing was damaged). Files are made where they are not
 * there; their folders must be. -EBADMSG: more is lost than the parity bears; what could be made
 * again was. If whole files are too many, or with `look`, nothing is written. */
int parity_mend(struct parity_files *p, struct err *err);
