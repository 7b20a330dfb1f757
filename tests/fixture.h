/* fixture.h: reads what tests/fixtures/make_fixtures.py and make_families.py wrote: named arrays of
 * float, int32 and text. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fixture;

struct fixture *fixture_open(const char *path); // fails the test if it cannot be read
void fixture_close(struct fixture *f);

/* Owned by the fixture; fails the test if there is no such array, or it has not n elements (n 0:
 * any number).
 */
const float   *fixture_f32(const struct fixture *f, const char *name, size_t n);
const int32_t *fixture_i32(const struct fixture *f, const char *name, size_t n);
const char    *fixture_text(const struct fixture *f, const char *name); // ends with a zero
