/* odd_text.h: random numbers, and texts that are hard on who cuts them, by seed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void     odd_seed(uint64_t seed);
uint32_t odd_number(uint32_t n); // below n

/* Pieces that meet in every way, some of them no UTF-8, into out[0..n); returns how many bytes. */
size_t odd_text(char *out, size_t n);
