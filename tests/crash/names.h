/* names.h: the names of a simulated machine's files (storage.h): those of now, those that are
 * durable, and the changes that are not. A change is durable when its folder was synced. */
#pragma once

#include <stddef.h>

enum { PATH_BYTES = 96 };

struct name {
    char path[PATH_BYTES];
    int  file;
};

/* A change of names: `from` (if it is not empty) goes away, or where `exchanges` stands for the
 * file that `to` stood for; `to` (if it is not empty) stands for `file`. */
struct name_change {
    char from[PATH_BYTES], to[PATH_BYTES];
    int  file, exchanges;
};

struct name_list {
    struct name *at;
    size_t       n;
};

struct names {
    struct name_list    now, durable;
    struct name_change *changes;
    size_t              n_changes;
};

void names_copy(struct names *to, const struct names *from);
void names_free(struct names *n);

/* The folder that a path is in. */
void names_parent(char out[PATH_BYTES], const char *path);

int         names_find(const struct names *n, const char *path); // the file, or -1
const char *names_of(const struct names *n, int file);           // a path of it, or NULL
/* The next path in the folder from the *at-th on; NULL: there is none. */
const char *names_next(const struct names *n, const char *dir, size_t *at);

/* A folder takes with it what is in it, all of which must be durable by then. */
void names_change(struct names *n, const char *from, const char *to, int file, int exchanges);
void names_sync(struct names *n, const char *dir);

/* A cut: of each folder's changes the first ones are kept, as many as `first` says of n. What is in
 * a folder whose name is lost is lost with it. */
void names_land(struct names *n, size_t (*first)(void *ctx, size_t n), void *ctx);
