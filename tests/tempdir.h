/* tempdir.h: a folder for one test, removed with all that is in it. */
#pragma once

#include <stddef.h>

char *tempdir_new(void);          // aborts if there is no place
void  tempdir_remove(char *path); // frees path

/* The folder of the test that runs, where cmocka's table names it IN_TEMPDIR. */
extern char *tempdir;
int tempdir_set_up(void **state);
int tempdir_tear_down(void **state);
#define IN_TEMPDIR(test) cmocka_unit_test_setup_teardown(test, tempdir_set_up, tempdir_tear_down)

/* In it: a path (the next call overwrites it), and a file with these bytes. */
const char *tempdir_at(const char *name);
void        tempdir_put(const char *name, const void *bytes, size_t n);
