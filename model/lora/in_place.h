/* in_place.h: which blocks of a model with adapters are read where its base lies
 * (offload/devices/base_files.h), and how many bytes that takes. */
#pragma once

#include "model/arch/arch.h"
#include "offload/devices/base_files.h"

/* Sets what *run says of a base in place. memory: (2 n blocks), used as long as *run. files: the
 * open base; NULL: the numbers of bytes come from the text `stored`, as in_place_text wrote it, or,
 * if that is NULL too, are those of files in the run's own format. */
void in_place_config(struct run_config *run, const struct model_config *g,
                     const struct base_files *files, const char *stored, size_t *memory);

/* The bytes of each block that is in place, as a text; malloced. NULL: out of memory. */
char *in_place_text(const struct run_config *run);
