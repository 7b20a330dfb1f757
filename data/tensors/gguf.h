/* gguf.h: reads and writes GGUF files (llama.cpp's format), versions 2 and 3: a magic number,
 * typed keys, the tensors' names, shapes, types and offsets, then their data. Tensors are read and
 * written in pieces of any range. Memory holds the header only. */
#pragma once

#include "data/file/append.h"
#include "data/file/file.h"

/* ---- keys ---- */

/* Types of values, by their numbers in the file. */
enum gguf_kind {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING,
    GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64, GGUF_KINDS
};

/* One key. The value's bytes begin at offset `at` of the header. */
struct gguf_value {
    char          *key;     // first member (table.h)
    enum gguf_kind kind;    // of one value, or of an array's elements
    int            is_array;
    uint64_t       n;       // elements of an array; 1 otherwise
    uint64_t       at;
};

/* ---- tensors ---- */

/* Types that are read and written, by their numbers in the file. */
enum gguf_type { GGUF_TYPE_F32 = 0, GGUF_TYPE_F16 = 1, GGUF_TYPE_Q8_0 = 8, GGUF_TYPE_BF16 = 30 };

/* Q8_0 stores blocks of GGUF_BLOCK elements: an fp16 scale and one byte for each element. */
enum { GGUF_BLOCK = 32, GGUF_BLOCK_BYTES = 2 + GGUF_BLOCK, GGUF_DIMS = 4 };

struct gguf_tensor {
    char    *name;              // first member (table.h)
    uint32_t type;              // enum gguf_type, or the number of a type that is not read here
    int      n_dims;
    uint64_t dims[GGUF_DIMS];   // the fastest first: dims[0] elements are a row
    uint64_t count;             // product of dims
    uint64_t offset, bytes;     // of the data in the file; bytes 0: unknown type
};

/* Name of a type, such as "Q4_K"; NULL: no such type is known. */
const char *gguf_type_name(uint32_t type);
/* Whether this program reads tensors of the type. */
int gguf_type_is_read(uint32_t type);
/* Bytes of n elements of a type that is read; n is a multiple of its block. */
uint64_t gguf_type_bytes(enum gguf_type type, uint64_t n);
/* The type that a row of so many elements gets if `wanted` is asked for: GGUF_TYPE_F16 if the row
 * is no multiple of the block of `wanted`. */
enum gguf_type gguf_type_for(enum gguf_type wanted, uint64_t row);

/* Quantises n elements, a multiple of GGUF_BLOCK, as ggml's reference does. */
void gguf_q8_from_f32(unsigned char *out, const float *values, size_t n);

/* ---- reading ---- */

/* An open file. Callers read the members before `fd`. */
struct gguf {
    struct gguf_value  *values;  // (n_values), sorted by key
    struct gguf_tensor *tensors; // (n_tensors), sorted by name
    size_t              n_values, n_tensors;
    uint32_t            sum;     // checksum of the header
    uint64_t            bytes;   // of the file
    int                 fd;
    struct stat         was;     // as it was opened
    char               *path;
    unsigned char      *header;  // the file up to the end of the tensors' descriptions
    size_t              used, cap;
    size_t              values_cap, tensors_cap;
};

/* Whether a regular file of this name begins as a GGUF file, or ends in .gguf and may not be read
 * by this user. */
int gguf_is_file(const char *path);

/* Opens a file. Caller closes *out. Nothing in the header is trusted: counts, lengths, offsets and
 * shapes are checked; keys and tensors must not repeat, and tensors must not overlap. */
int  gguf_open(struct gguf **out, const char *path, struct err *err);
void gguf_close(struct gguf *g); // NULL is allowed

const struct gguf_value  *gguf_find(const struct gguf *g, const char *key);    // or NULL
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name); // or NULL

/* Element i of a value as a number. -1: the element is not a number. */
int gguf_number(double *out, const struct gguf *g, const struct gguf_value *v, uint64_t i);
/* The text of a value that is one string, not terminated. NULL: v is NULL or not a string. */
const char *gguf_text(size_t *n, const struct gguf *g, const struct gguf_value *v);
/* Writes such a text for a message: at most 60 bytes, printable ASCII. Returns out. text: may be
 * NULL. */
enum { GGUF_SHOWN = 64 };
const char *gguf_shown(char out[GGUF_SHOWN], const char *text, size_t n);
/* Visits the strings of an array: *at is 0 at first, and is moved on. There are v->n of them. */
const char *gguf_next_text(size_t *n, uint64_t *at, const struct gguf *g,
                           const struct gguf_value *v);

/* Reads elements [first, first + n) of a tensor as fp32. The type must be one that is read. */
int gguf_read(struct gguf *g, const struct gguf_tensor *t, uint64_t first, size_t n, float *out,
              struct err *err);

/* ---- writing ---- */

struct gguf_declared { char *name; enum gguf_type type; uint64_t count; };

/* Writes a file from front to back: first all keys, then all declarations of tensors, then their
 * values in the order of the declarations, then commit. The temporary name, the flush and the
 * rename are those of file_new. The same calls give the same bytes. */
struct gguf_writer {
    struct append         data;
    unsigned char        *keys, *infos; // as they will stand in the file
    size_t                n_keys, keys_bytes, keys_cap, infos_bytes, infos_cap;
    struct gguf_declared *tensors;
    size_t                n, cap, current; // current: index of the tensor being written
    uint64_t              done, offset;    // elements written of it; bytes of all declared data
    int                   begun, failed;   // the header is written; memory ran out
};
int gguf_writer_open(struct gguf_writer *w, const char *path, struct err *err);
/* Keys. Memory that runs out is reported by the first declaration. */
void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_put_f32(struct gguf_writer *w, const char *key, float v);
void gguf_put_f64(struct gguf_writer *w, const char *key, double v);
void gguf_put_bool(struct gguf_writer *w, const char *key, int v);
void gguf_put_text(struct gguf_writer *w, const char *key, const char *text, size_t n);
/* An array of n elements; exactly so many gguf_add_* calls of its kind follow. */
void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_kind of, uint64_t n);
void gguf_add_text(struct gguf_writer *w, const char *text, size_t n);
void gguf_add_f32(struct gguf_writer *w, float v);
void gguf_add_i32(struct gguf_writer *w, int32_t v);

int gguf_writer_declare(struct gguf_writer *w, const char *name, enum gguf_type type, int n_dims,
                        const uint64_t *dims, struct err *err);
/* Writes the next n elements of the declared tensors. A call does not cross the end of a tensor,
 * and n is a multiple of the type's block. A finite value that fp16 lacks is refused. */
int gguf_writer_add(struct gguf_writer *w, const float *values, size_t n, struct err *err);
int gguf_writer_flush(struct gguf_writer *w, struct err *err); // all tensors are complete
int gguf_writer_commit(struct gguf_writer *w, struct err *err); // after the flush
/* Frees w, and removes a file that was not committed. Accepts the zero state. */
void gguf_writer_close(struct gguf_writer *w);

/* Layout shared by reading and writing; for these files alone. */
enum { GGUF_VERSION = 3, GGUF_ALIGNMENT = 32 };
#define GGUF_MAGIC "GGUF"
