/* stream_csd.h: the training stream over devices (base, su, su+o). */
#ifndef OFFLOAD_STREAM_CSD_H
#define OFFLOAD_STREAM_CSD_H

#include "offload/config.h"

/* Finishes the step of the last commit A first. notice: a sentence where a fall-back was taken. */
int stream_csd_open(struct stream **out, const struct run_config *cfg, char *notice,
                    size_t notice_size, struct err *err);
/* What stream_csd_open will allocate. */
int stream_csd_memory(const struct run_config *cfg, struct run_memory *out, struct err *err);

#endif
