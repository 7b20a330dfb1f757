/* append.h: writes a new file (file.h) from front to back through a buffer. */
#pragma once

#include "data/file/file.h"

struct append {
    struct file_new f;    // append_flush, then file_new_commit, give the file its name
    unsigned char  *buf;
    size_t          used; // bytes in buf that are not written yet
    uint64_t        off;  // offset in the file at which buf begins
};

enum { APPEND_BYTES = 64 << 10 }; // size of the buffer

/* append_open starts a new file at `path`. The first appended byte gets the offset `off`. The
 * caller writes any bytes before it with file_pwrite. All functions return 0 or -errno. */
int append_open(struct append *a, const char *path, uint64_t off, struct err *err);
/* Goes on with the new file *f, which append_open or file_new_find opened; it belongs to a. */
int append_go(struct append *a, const struct file_new *f, uint64_t off, struct err *err);
int append_add(struct append *a, const void *bytes, size_t n, struct err *err);
int append_flush(struct append *a, struct err *err);
/* Frees the buffer and removes a file that was not committed. Accepts the zero state. */
void append_close(struct append *a);
