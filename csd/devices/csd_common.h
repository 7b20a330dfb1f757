/* csd_common.h: what backends share: the beginning and the failure of a job, and the disk that
 * most of them have beneath. For backends alone; what an owner sees is csd.h. */
#pragma once

#include "csd/engine/updater.h"
#include "data/base/list.h"

enum { CSD_ALIGN = 4096 }; // what jobs' buffers and offsets are aligned to

/* At submit: no results yet, nor of the job that is ahead of it. */
void csd_job_begin(struct csd_job *job);
/* What is ahead of an update, if it is not there yet, goes to `done`: the wire may be read, or the
 * update is over and goes there next. Of other jobs there is none. */
void csd_ahead_over(struct csd_job *job, struct list *done);
/* The first failure of a job is the one it reports, with the device's number and path. */
void csd_job_fail(const struct csd_config *cfg, struct csd_job *job, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* What is wrong with a job before anything moves: ranges outside of the device, writing to one that
 * is open for reading, more segments than the engine takes. */
void csd_job_check(const struct csd_config *cfg, const struct csd_caps *caps, struct csd_job *job);
/* Once all of an update is computed: what came must have been right before anything goes out, else
 * the job fails. Its result checksums. */
void csd_sums_check(const struct csd_config *cfg, struct csd_job *job,
                    const struct update_area *area, const struct update_sums *sums);

/* A transfer: its direction; how it is called in sentences, "write of 4096 bytes at offset 8192";
 * the failure of its job by it. */
enum { CSD_REQ_TEXT = 96 };
enum link_dir csd_req_dir(const struct disk_req *req);
const char   *csd_req_text(const struct disk_req *req, char text[CSD_REQ_TEXT]);
void          csd_req_fail(const struct csd_config *cfg, struct csd_job *job,
                           const struct disk_req *req, int rc);
/* When one that starts now is over, as the modelled links go: an update's (LINK_INTERNAL) moves
 * between the drive and the device's own accelerator, all others between the drive and the host's
 * memory, and what forward and backward compute with or make (cls tells) between that and their
 * accelerators. */
uint64_t csd_links_take(const struct csd_config *cfg, enum link_kind kind, enum link_class cls,
                        const struct disk_req *req, uint64_t now_ns);

/* Refuse memory (csd_ops.memory) that is more than cfg->mem. */
int csd_memory_check(const struct csd_config *cfg, size_t memory, struct err *err);

/* Open cfg's disk for `depth` requests into cfg->buffers and own[0..n_own). */
int csd_disk_open(struct disk **out, const struct csd_config *cfg, const struct iovec *own,
                  unsigned n_own, unsigned depth, char *notice, size_t notice_size,
                  struct err *err);
int  csd_disk_is_fake(const struct csd_config *cfg); // nothing is stored: nothing to compare
