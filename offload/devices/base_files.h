/* base_files.h: frozen blocks that stay in the files of a model's folder (a base in place). The
 * model says in which file each parameter lies, and in which number format. This unit reads the
 * parameters and converts them as a copying import does, so that a block has the same bits as on a
 * device. It knows no format of files.
 *
 * Files are read by pread alone. They are not mapped: a mapped file that somebody cuts short would
 * end the process by a signal. After each read the file is looked at: what was read of a file that
 * somebody had changed by then is not used. Any thread may read. */
#pragma once

#include "offload/layout/config.h"

#include <sys/stat.h>

/* Parameters that lie one behind the other in a file: n of them, from byte `off` on. */
struct base_piece { size_t file; uint64_t off; size_t n; enum dtype dt; };

/* An open file. was: its state when it was opened. */
struct base_file { const char *path; int fd; struct stat was; };

struct base_files {
    const struct base_file *file; // (n)
    size_t                  n;
    /* The piece that begins with parameter `first` of a block; at least one parameter. */
    struct base_piece (*piece)(void *ctx, size_t block, size_t first);
    /* Compares the contents of a file whose size and time of last writing are the same, while its
     * inode has changed: a new mode or name, or contents whose time somebody set back. Returns 1 if
     * they are the same, 0 if not, or -errno. NULL: they count as others. */
    int (*contents)(void *ctx, size_t file, const struct stat *now, struct err *err);
    void *ctx;
    int  *lost; // becomes 1 if a read was given up that may still be under way: the files stay
                // open from then on, and nothing of this is freed. May be NULL
};

/* 0 if all open files are as they were opened. Otherwise -ESTALE, and the sentence names the file
 * and says what to do. NULL has no files. One thread at a time calls this. */
int base_files_unchanged(const struct base_files *b, struct err *err);

/* Memory of one read: at most BASE_READ bytes of a file, and the bytes around them that a direct
 * read takes along. Aligned to BASE_ALIGN. */
enum { BASE_READ = 1 << 20, BASE_ALIGN = 4096, BASE_BUFFER = BASE_READ + 2 * BASE_ALIGN };

/* A part of a block on its way: parameters [first, first + n) to `to`, as dt. direct: descriptors
 * that read past the page cache, one for each file (-1: none, here); NULL: the files' own. */
struct base_part {
    size_t     block, first, n;
    void      *to;
    enum dtype dt;
    const int *direct;
    void      *buffer; // BASE_BUFFER bytes
};
/* Reads the first parameters of the part: as many as one read takes, at least one. Their number
 * goes to *n, and the bytes read are added to *meter as reads of the base. */
int base_files_part(const struct base_files *b, const struct base_part *p, size_t *n,
                    struct link_meter *meter, struct err *err);

/* Reads parameters [first, first + n) of a block, rounded to dt, as fp32. */
int base_files_read(const struct base_files *b, enum dtype dt, size_t block, size_t first, size_t n,
                    float *out, struct err *err);

/* Bytes of the files that hold these parameters. */
uint64_t base_files_bytes(const struct base_files *b, size_t block, size_t first, size_t n);
