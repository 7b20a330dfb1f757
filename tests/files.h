/* files.h: whole files and folders by name, for tests; what does not work fails the test. */
#pragma once

#include <stddef.h>
#include <stdint.h>

char  *files_read(const char *path, size_t *n); // malloced, with a 0 behind its n bytes
void   files_write(const char *path, const void *bytes, size_t n);
void   files_copy(const char *from, const char *to);
void   files_turn(const char *path, uint64_t off, unsigned char mask); // a byte ^= mask
size_t files_count(const char *dir); // but those whose names begin with a dot; 0: no folder either
