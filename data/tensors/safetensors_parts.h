/* safetensors_parts.h: what safetensors.c, which reads, and safetensors_writer.c share. */
#ifndef DATA_TENSORS_SAFETENSORS_PARTS_H
#define DATA_TENSORS_SAFETENSORS_PARTS_H

#include "data/base/json.h"
#include "data/tensors/safetensors.h"

#include <assert.h>

#define MAX_HEADER_BYTES 100000000u // the reference implementation's limit
#define SUMS_KEY         "sitrain.crc32c"
#define HEADER_KEY       "sitrain.header"
#define HEADER_MARK      "\"" HEADER_KEY "\":\"" // what its 8 hex digits follow
#define HEADER_ZEROS     "00000000"                // and what they are while they are computed

#endif
