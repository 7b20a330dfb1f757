/* disk_file.h: what the disks of real files share: opening, creating and measuring the file, and
 * how requests are cut. */
#ifndef CSD_DISK_FILE_H
#define CSD_DISK_FILE_H

#include "csd/disk.h"

// large requests are cut into pieces of this, several of which are in flight
enum { DISK_PIECE = 1 << 20 };

/* Open (or create) cfg->path with `flags` (O_DIRECT or 0) added; the descriptor or -errno. What was
 * created is removed again if this fails. -EOPNOTSUPP: this file takes no O_DIRECT, another backend
 * may take it. */
int disk_file_open(const struct disk_config *cfg, int flags, struct err *err);

/* Remove what disk_file_open created, where a later step failed; never a device node. */
void disk_file_undo(const struct disk_config *cfg);

/* A first-in first-out list of requests, through their `next`. */
struct disk_list {
    struct disk_req *first, **last;
};
void             disk_list_init(struct disk_list *l);
void             disk_list_push(struct disk_list *l, struct disk_req *r);
struct disk_req *disk_list_pop(struct disk_list *l);                        // NULL if empty
void             disk_list_remove(struct disk_list *l, struct disk_req *r); // which is in it
int              disk_list_take(struct disk_list *l, struct disk_req **out, int max);

/* What counts a request through: its bytes, or 1 for a flush. */
static inline size_t disk_req_total(const struct disk_req *r)
{
    return r->op == DISK_FLUSH ? 1 : r->bytes;
}

static inline void disk_count_moved(struct disk *d)
{
    __atomic_fetch_add(&d->moved, 1, __ATOMIC_RELAXED);
}

/* Nothing of it is in flight, and nothing more will be. */
static inline int disk_req_over(const struct disk_req *r)
{
    return r->through == r->cut && (r->cut == disk_req_total(r) || r->status != 0);
}

/* Nothing more of it is to be started. */
static inline int disk_req_cut_up(const struct disk_req *r)
{
    return r->cut == disk_req_total(r) || r->status != 0;
}

#endif
