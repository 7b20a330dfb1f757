/* hf_base.h: a Hugging Face folder as a base in place: its frozen blocks are read where they lie
 * (offload/devices/base_files.h). A change of the files is known by their size, inode and times.
 * The time of the inode's last change cannot be set back. Contents are known by a checksum of each
 * whole file. */
#pragma once

#include "offload/devices/base_files.h"
#include "model/file/hf.h"

/* What a run keeps of a file: its name in the folder, and how it was when the checksum was made. */
struct hf_base_file {
    char     name[256];
    uint64_t bytes, mtime_ns, ctime_ns, inode; // times of the last writing, and of the inode's
    uint32_t sum;
};

struct hf_base;
/* Opens the folder. g: the model with adapters. Refuses a GGUF file, and a folder whose blocks are
 * not those of the model. Neither data nor checksums are looked at. Caller closes *out. */
int  hf_base_open(struct hf_base **out, const char *dir, const struct model_config *g,
                  struct err *err);
void hf_base_close(struct hf_base *b); // NULL is allowed
/* The misuse of a GGUF file as a base in place. */
int  hf_base_refuse_gguf(const char *path, struct err *err);
const struct base_files *hf_base_files(const struct hf_base *b);

/* True if both have opened the same files, with the same headers. */
int hf_base_is(const struct hf_base *b, const struct hf *hf);

/* File i as it is now, without its checksum. */
struct hf_base_file hf_base_now(const struct hf_base *b, size_t i);
/* True if both have the same size, times and inode. */
int hf_base_same(const struct hf_base_file *a, const struct hf_base_file *b);
/* Reads file i whole, and computes its checksum. watch: is told of the bytes read, behind `before`
 * of `all`; may be NULL. */
int hf_base_sum(const struct hf_base *b, size_t i, uint32_t *sum, uint64_t before, uint64_t all,
                const struct watch *watch, struct err *err);
/* Takes file i for the base's, with this checksum. From then on, base_files_unchanged computes it
 * again if the inode alone has changed. */
void hf_base_known(struct hf_base *b, size_t i, uint32_t sum);
