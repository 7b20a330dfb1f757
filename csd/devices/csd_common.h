/* csd_common.h: what kinds of device share: a job's beginning, checks and failure, and the disk
 * beneath most of them. Only for kinds of device; an owner uses csd.h. */
#pragma once

#include "csd/engine/updater.h"
#include "data/base/list.h"

enum { CSD_ALIGN = 4096 }; // what jobs' buffers and offsets are aligned to

/* At submit: clear a job's results, and those of its CSD_AHEAD job. */
void csd_job_begin(struct csd_job *job);
/* Complete an update's CSD_AHEAD job, if it has one that is not complete, and append it to `done`:
 * the wire may be read, or the update is over and follows. */
void csd_ahead_over(struct csd_job *job, struct list *done);
/* Fail a job with a sentence that begins with the device's number and path. Later failures of the
 * same job are ignored. */
void csd_job_fail(const struct csd_config *cfg, struct csd_job *job, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Before anything moves: fail a job with ranges outside of the device, with a write to a device
 * that is open for reading, or with too many segments. */
void csd_job_check(const struct csd_config *cfg, const struct csd_caps *caps, struct csd_job *job);
/* When an update is computed, before anything is written: fail the job if its input had a wrong
 * checksum; set its result checksums. */
void csd_sums_check(const struct csd_config *cfg, struct csd_job *job,
                    const struct update_area *area, const struct update_sums *sums);

/* A transfer's direction; its description in a sentence ("write of 4096 bytes at offset 8192"); the
 * failure of its job because of it. */
enum { CSD_REQ_TEXT = 96 };
enum link_dir csd_req_dir(const struct disk_req *req);
const char   *csd_req_text(const struct disk_req *req, char text[CSD_REQ_TEXT]);
void          csd_req_fail(const struct csd_config *cfg, struct csd_job *job,
                           const struct disk_req *req, int rc);
/* The clock_ns time at which a transfer that begins now is over, by the modelled links. An update's
 * transfer (LINK_INTERNAL) goes between the drive and the device's accelerator. Others go between
 * the drive and the host's memory. Bytes that forward and backward read or make (cls tells) also
 * cross the links between that memory and the accelerators that compute. */
uint64_t csd_links_take(const struct csd_config *cfg, enum link_kind kind, enum link_class cls,
                        const struct disk_req *req, uint64_t now_ns);

/* Refuse (misuse) if `memory`, from csd_ops.memory, is more than cfg->mem. */
int csd_memory_check(const struct csd_config *cfg, size_t memory, struct err *err);

/* Open cfg's disk for `depth` requests into cfg->buffers and own[0..n_own). */
int csd_disk_open(struct disk **out, const struct csd_config *cfg, const struct iovec *own,
                  unsigned n_own, unsigned depth, char *notice, size_t notice_size,
                  struct err *err);
int  csd_disk_is_fake(const struct csd_config *cfg); // it stores nothing: do not compare checksums
