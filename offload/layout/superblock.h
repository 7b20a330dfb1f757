/* superblock.h: the first 4 KiB of a device, which say whose it is. A device is opened only if its
 * superblock has the run's id, layout and owner (devices.c). A drive that is to be taken is looked
 * at by devices_place.c. */
#pragma once

#include "data/base/err.h"

enum { SUPERBLOCK_BYTES = 4096, SUPERBLOCK_WORD = 17, // of the page; of a word, with its NUL
       SUPERBLOCK_WHAT = 192 };

/* The superblock of a device says which run the device belongs to. layout: "" for the devices that
 * the run was made with; otherwise the name of the set of devices that it was moved to (reshard.h).
 * So devices that a run has left are not taken for its own. owner: "", or a word of the folder
 * whose user has named the device last. A copy of a run has the same id and layout, and must not
 * take or remove the run's devices. A word is written in place: a power cut leaves the old word or
 * the new one. */
struct superblock {
    char     id[33], layout[SUPERBLOCK_WORD], owner[SUPERBLOCK_WORD];
    uint32_t device, n_devices;
    uint64_t bytes;
};
/* page: SUPERBLOCK_BYTES bytes, written by pack, read by the others.
 * superblock_check compares it with `want`: 0; -EBADMSG: damaged, or of a set of devices that the
 * run has left; -EXDEV: another device's. */
void superblock_pack(void *page, const struct superblock *s);
int  superblock_check(const void *page, const struct superblock *want, const char *path,
                      struct err *err);
/* Whether it is another device of the run, or another rank's of the same run. `what` then goes on
 * behind "PATH holds". */
int  superblock_swapped(char what[SUPERBLOCK_WHAT], const struct superblock *found,
                        const struct superblock *want);
int  superblock_present(const void *page); // true if any version of siTrain wrote it
int  superblock_whole(const void *page);   // true if its checksum is right
/* 0; -EBADMSG: damaged, or not of this version. */
int  superblock_read(const void *page, struct superblock *out);
