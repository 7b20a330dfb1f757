/* safetensors_parts.h: what the files of safetensors share, and private to them (safetensors.c, a
 * folder as it is read; safetensors_header.c, the header of one of its files; safetensors_writer.c,
 * a file as it is written). */
#ifndef DATA_TENSORS_SAFETENSORS_PARTS_H
#define DATA_TENSORS_SAFETENSORS_PARTS_H

#include "data/base/json.h"
#include "data/tensors/safetensors.h"

#include <assert.h>

#define MAX_HEADER_BYTES 100000000u // the reference implementation's limit
#define PIECE            ((size_t)1 << 16)
#define SUMS_KEY         "sitrain.crc32c"
#define HEADER_KEY       "sitrain.header"
#define HEADER_MARK      "\"" HEADER_KEY "\":\"" // what its 8 hex digits follow
#define HEADER_ZEROS     "00000000"                // and what they are while they are computed

struct st_file {
    int      fd;
    char    *path;
    uint64_t data_off, data_bytes;
    json_t  *sums;       // tensor -> hex; NULL if the file has none of ours
    uint32_t header_sum; // CRC32C of the header as it stands
};

struct safetensors {
    struct st_file   *files;
    size_t            n_files;
    struct st_tensor *tensors;
    size_t            n, cap;
    unsigned char     piece[PIECE];
};

static inline size_t st_size(enum st_dtype dtype)
{
    assert(dtype != ST_OTHER);
    return dtype == ST_F32 ? 4 : 2;
}

/* Open dir/name as s->files[file] and take in its tensors, checked; safetensors_close gives back
 * what was taken in, also after an error. */
int st_file_open(struct safetensors *s, size_t file, const char *dir, const char *name,
                 struct err *err);

#endif
