/* tempdir.h: a folder for one test, removed with all that is in it. */
#ifndef TESTS_TEMPDIR_H
#define TESTS_TEMPDIR_H

char *tempdir_new(void);          // aborts if there is no place
void  tempdir_remove(char *path); // frees path

#endif
