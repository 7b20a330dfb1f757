/* safetensors.h: reads and writes safetensors files (u64 LE header length, JSON header, raw
 * little-endian data), sharded or not, without ever holding more than the header: tensors are read
 * and written in pieces of any range. */
#pragma once

#include "data/base/append.h"
#include "data/base/watch.h"

enum st_dtype { ST_F32, ST_F16, ST_BF16, ST_OTHER };

struct st_tensor {
    char         *name;
    enum st_dtype dtype;
    int           n_dims;
    uint64_t      dims[8];
    uint64_t      count;         // product of dims
    uint64_t      offset, bytes; // of its data in its file
    size_t        file;          // which shard
};

enum { ST_PIECE = 1 << 16 };

/* Keys of siTrain's own in __metadata__; what the header's 8 hex digits follow, and what they are
 * while they are computed. */
#define ST_SUMS_KEY     "sitrain.crc32c"
#define ST_HEADER_KEY   "sitrain.header"
#define ST_HEADER_MARK  "\"" ST_HEADER_KEY "\":\""
#define ST_HEADER_ZEROS "00000000"
/* In an index's metadata: safetensors.sum of all its files, in 8 hex digits. */
#define ST_INDEX_KEY    "sitrain.sum"

/* An open model. Others may read what stands before `files`. */
struct safetensors {
    struct st_tensor *tensors; // (n), by name
    size_t            n;
    int               summed;  // whether all of its files have our checksums
    uint32_t          sum;     // of the headers: with their checksums it stands for all there is
    uint64_t          bytes;   // of all files
    struct st_file   *files;
    size_t            n_files, cap; // cap: of tensors
    unsigned char     piece[ST_PIECE];
};

/* dir/model.safetensors, or dir/model.safetensors.index.json and its shards (names without '/').
 * Everything is checked: header length, offsets inside the file, sizes against shapes, no overlap,
 * no duplicate, a header of ours against its own checksum ("sitrain.header" in __metadata__), and
 * all headers against an index of ours ("sitrain.sum" in metadata): they are of one export.
 * The tensors' checksums written by siTrain are verified by safetensors_verify. */
int  safetensors_open(struct safetensors **out, const char *dir, struct err *err);
void safetensors_close(struct safetensors *s);
/* NULL if absent. */
const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name);

/* Elements first..first+n of t as fp32. */
int safetensors_read(struct safetensors *s, const struct st_tensor *t, uint64_t first, size_t n,
                     float *out, struct err *err);

/* If __metadata__ holds our checksums ("sitrain.crc32c": JSON object tensor -> hex), read
 * everything and compare; 0 also if there are none. */
int safetensors_verify(struct safetensors *s, const struct watch *watch, struct err *err);

/* Writing: declare all tensors first (name, dims), then write each completely, in order and in
 * pieces, then commit: temporary name, fsync, rename.
 * __metadata__ = {"format": "pt", "sitrain.header": "...", "sitrain.crc32c": "..."}; the header is
 * laid out with room for checksums, filled at commit. The same parameters give the same bytes. */
struct st_declared {
    char    *name;
    int      n_dims;
    uint64_t dims[8], count; // count: product of dims
    uint32_t sum;            // CRC32C of what was written of it
};
struct safetensors_writer {
    struct append       data;
    enum st_dtype       dtype;
    struct st_declared *tensors;
    size_t              n, cap, current; // current: being written
    uint64_t            done;            // elements of current
    uint64_t            data_off;        // 0 until the header is laid out
};
int  safetensors_writer_open(struct safetensors_writer *w, const char *path, enum st_dtype dtype,
                             struct err *err);
int  safetensors_writer_declare(struct safetensors_writer *w, const char *name, int n_dims,
                                const uint64_t *dims, struct err *err);
/* The next n elements, in declared order. */
int  safetensors_writer_add(struct safetensors_writer *w, const float *values, size_t n,
                            struct err *err);
int  safetensors_writer_commit(struct safetensors_writer *w, struct err *err);
/* Removes what was not committed; accepts the zero state. */
void safetensors_writer_close(struct safetensors_writer *w);
