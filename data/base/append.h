/* append.h: a new file (file.h) that is written from front to back through a buffer. */
#pragma once

#include "data/base/file.h"

struct append {
    struct file_new f;    // append_flush, then file_new_commit, makes it appear
    unsigned char  *buf;
    size_t          used; // of it
    uint64_t        off;  // of buf in the file
};

enum { APPEND_BYTES = 64 << 10 }; // of the buffer

/* What comes first stands at `off`; what is before that is written by file_pwrite. */
int append_open(struct append *a, const char *path, uint64_t off, struct err *err);
int append_add(struct append *a, const void *bytes, size_t n, struct err *err);
int append_flush(struct append *a, struct err *err);
/* Frees, and removes what was not committed; accepts the zero state. */
void append_close(struct append *a);
