/* paths.h: which files are on the simulated machine, random words in their names apart. Those that
 * SQLite and the locks keep next to a database are left out. */
#pragma once

#include <stddef.h>

struct paths { char **at; size_t n; };

/* Add what is in the folder, and in its folders. */
void   paths_list(struct paths *p, const char *folder);
size_t paths_count(const struct paths *p, const char *path); // how many of them are this one
void   paths_free(struct paths *p);
