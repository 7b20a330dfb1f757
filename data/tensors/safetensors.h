/* safetensors.h: reads and writes safetensors files: u64 little-endian header length, JSON
 * header, raw little-endian data. A model is one file or several shards. Memory holds no more
 * than the headers: tensors are read and written in pieces of any range. */
#pragma once

#include "data/file/append.h"
#include "data/base/watch.h"

enum st_dtype { ST_F32, ST_F16, ST_BF16, ST_OTHER };

struct st_tensor {
    char         *name; // first member (table.h)
    enum st_dtype dtype;
    int           n_dims;
    uint64_t      dims[8];
    uint64_t      count;         // product of dims
    uint64_t      offset, bytes; // of the data in its file
    size_t        file;          // number of the shard
};

enum { ST_PIECE = 1 << 16 };

/* siTrain's keys in __metadata__: checksums of tensors, and of the header. MARK precedes the
 * header's checksum of 8 hex digits; ZEROS stand in place of it during the computation. */
#define ST_SUMS_KEY     "sitrain.crc32c"
#define ST_HEADER_KEY   "sitrain.header"
#define ST_HEADER_MARK  "\"" ST_HEADER_KEY "\":\""
#define ST_HEADER_ZEROS "00000000"
/* Key in __metadata__ of an adapter's file: base_sum (adapted.h) of the model that it was trained
 * on. */
#define ST_BASE_KEY     "sitrain.base"
/* Key in an index's metadata: safetensors.sum of all its files, in 8 hex digits. */
#define ST_INDEX_KEY    "sitrain.sum"

/* An open model. Callers read only the members before `files`. */
struct safetensors {
    struct st_tensor *tensors; // (n), sorted by name
    size_t            n;
    int               summed;  // all of its files have siTrain's checksums
    uint32_t          sum;     // checksum of the headers, which covers all data through their
                               // checksums
    uint64_t          bytes;   // of all files
    char              base[9]; // the value of ST_BASE_KEY; "": there is none
    struct st_file   *files;
    size_t            n_files, cap; // cap: room in tensors
    unsigned char     piece[ST_PIECE];
};

/* Opens dir/model.safetensors, or dir/model.safetensors.index.json and its shards (names without
 * '/'). Caller closes *out.
 *
 * It checks header lengths, offsets against the file, and sizes against shapes. Tensors must not
 * overlap or repeat. A header written by siTrain must match its own checksum ("sitrain.header"
 * in __metadata__). All headers must match siTrain's index ("sitrain.sum" in metadata), so they
 * are of one export. The tensors' data is not checked here, but by safetensors_verify. */
int  safetensors_open(struct safetensors **out, const char *dir, struct err *err);
/* Opens the one file dir/name in the same way. */
int  safetensors_open_file(struct safetensors **out, const char *dir, const char *name,
                           struct err *err);
void safetensors_close(struct safetensors *s);
/* Returns the tensor of this name, or NULL. */
const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name);

/* An open file of the model: its descriptor, and its path. */
int         safetensors_fd(const struct safetensors *s, size_t file);
const char *safetensors_path(const struct safetensors *s, size_t file);

/* Reads elements [first, first + n) of t as fp32 into out. */
int safetensors_read(struct safetensors *s, const struct st_tensor *t, uint64_t first, size_t n,
                     float *out, struct err *err);

/* Reads all data and compares it with siTrain's checksums in __metadata__ ("sitrain.crc32c":
 * JSON object tensor -> hex). Returns 0 also if there are none. */
int safetensors_verify(struct safetensors *s, const struct watch *watch, struct err *err);

/* Writes a file. The caller first declares all tensors (name, dims). It then writes each one
 * completely, in order and in pieces, and commits: temporary name, fsync, rename.
 *
 * __metadata__ = {"format": "pt", "sitrain.header": "...", "sitrain.crc32c": "..."}. The header
 * is laid out with room for the checksums, which commit fills in. The same parameters give the
 * same bytes. */
struct st_declared {
    char    *name;
    int      n_dims;
    uint64_t dims[8], count; // count: product of dims
    uint32_t sum;            // CRC32C of the data written so far
};
struct safetensors_writer {
    struct append       data;
    enum st_dtype       dtype;
    const char         *base; // the value of ST_BASE_KEY, set after opening; NULL: none
    struct st_declared *tensors;
    size_t              n, cap, current; // current: index of the tensor being written
    uint64_t            done;            // elements written of that tensor
    uint64_t            data_off;        // 0 until the header is laid out
};
int  safetensors_writer_open(struct safetensors_writer *w, const char *path, enum st_dtype dtype,
                             struct err *err);
int  safetensors_writer_declare(struct safetensors_writer *w, const char *name, int n_dims,
                                const uint64_t *dims, struct err *err);
/* Writes the next n elements, in declared order. */
int  safetensors_writer_add(struct safetensors_writer *w, const float *values, size_t n,
                            struct err *err);
int  safetensors_writer_commit(struct safetensors_writer *w, struct err *err);
/* Frees w, and removes a file that was not committed. Accepts the zero state. */
void safetensors_writer_close(struct safetensors_writer *w);
