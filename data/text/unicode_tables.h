/* unicode_tables.h: what unicode.c looks up, written by tests/fixtures/make_unicode.py; rows in the
 * order of their first number. Nobody else includes it. */
#pragma once

#include <stdint.h>

extern const uint8_t unicode_ascii[128]; // flags (unicode.h)
extern const uint32_t unicode_ranges[1450][3]; // first, last, flags
extern const uint32_t unicode_cases[184][4]; // first, last, step, what is added for the lower case
