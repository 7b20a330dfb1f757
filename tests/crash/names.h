/* names.h: the names of a simulated machine's files (storage.h): those of now, those that are
 * durable, and the changes that are not. A change is durable when its folder was synced. A name is
 * in a folder, whatever the folder is called by then: so a folder that is renamed takes with it
 * what is in it, and changes in it stay as loose as they were. */
#pragma once

#include <stddef.h>

enum { PATH_BYTES = 320, NAME_BYTES = 96, NO_FILE = -1 };

/* Where a name is: in the folder `dir`, a file (NO_FILE: of the first ones, such as /sim). */
struct name_at {
    int  dir;
    char name[NAME_BYTES]; // "": none
};

struct name {
    struct name_at at;
    int            file;
};

/* A change of names: `from` (if there is one) goes away, or where `exchanges` stands for the file
 * that `to` stood for; `to` (if there is one) stands for `file`. */
struct name_change {
    struct name_at from, to;
    int            file, exchanges;
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

int         names_find(const struct names *n, const char *path); // the file, or NO_FILE
const char *names_of(const struct names *n, int file); // a path of it until the next call, or NULL
size_t      names_count(const struct names *n, int file); // how many it has
/* The next path in the folder from the *at-th on, until the next call; NULL: there is none. */
const char *names_next(const struct names *n, const char *dir, size_t *at);
/* Whether a file has a name, or may have one after a cut. */
int         names_may_have(const struct names *n, int file);

void names_change(struct names *n, const char *from, const char *to, int file, int exchanges);
void names_sync(struct names *n, int dir);

/* A cut: of each folder's changes the first ones are kept, as many as `first` says of n. What is in
 * a folder whose name is lost is lost with it. */
void names_land(struct names *n, size_t (*first)(void *ctx, size_t n), void *ctx);
