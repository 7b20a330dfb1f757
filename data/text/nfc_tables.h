/* nfc_tables.h: what nfc.c looks up, written by tests/fixtures/make_nfc.py; rows in the order of
 * their first number. Nobody else includes it. */
#pragma once

#include <stdint.h>

extern const uint32_t nfc_pairs[940][3]; // a code point, and the two that compose to it
extern const uint32_t nfc_excluded[85][3]; // one that decomposes into two, which stay so
extern const uint32_t nfc_singles[1035][2]; // one that becomes another
extern const uint32_t nfc_classes[333][3]; // first, last, combining class
