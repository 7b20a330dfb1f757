/* odd_text.h: random numbers, texts that are hard on who cuts them, by seed, and an easy one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void     odd_seed(uint64_t seed);
uint32_t odd_number(uint32_t n); // below n

/* Pieces that meet in every way, some of them no UTF-8, into out[0..n); returns how many bytes. */
size_t odd_text(char *out, size_t n);

/* A text that teaches something: `words` of seven words in lines of twelve, always the same, of
 * less than 8 bytes each. Returns how many bytes. */
size_t word_text(char *out, size_t words);
