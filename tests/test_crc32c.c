/* test_crc32c.c: the checksum against its published value and a bit-by-bit one, and joined from
 * parts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "data/base/crc32c.h"

static uint32_t bitwise(const unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffff;

    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int b = 0; b < 8; b++)
            c = c >> 1 ^ (c & 1 ? 0x82f63b78 : 0);
    }
    return ~c;
}

static void test_value(void **state)
{
    unsigned char bytes[1031];

    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283); // RFC 3720's check value
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 167 + 13);
    for (size_t n = 0; n <= sizeof bytes; n++)
        assert_int_equal(crc32c(0, bytes, n), bitwise(bytes, n));
}

static void test_join(void **state)
{
    static unsigned char bytes[70000];
    static const size_t  cuts[] = {0, 1, 7, 4096, 65536, 69999, 70000};

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i % 251);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        size_t   cut = cuts[i], rest = sizeof bytes - cut;
        uint32_t first = crc32c(0, bytes, cut), second = crc32c(0, bytes + cut, rest);
        uint32_t whole = crc32c(0, bytes, sizeof bytes);

        assert_int_equal(crc32c(first, bytes + cut, rest), whole);
        assert_int_equal(crc32c_join(first, second, rest), whole);
    }
}

/* In one part, in a few and in as many as there are, the last one longer. */
static void test_shared(void **state)
{
    static const size_t sizes[] = {0, 1, 2 << 20, (3 << 20) + 5, (45 << 20) + 31};
    size_t              most = sizes[4];
    unsigned char      *bytes = malloc(most);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < most; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(crc32c_shared(bytes, sizes[i]), crc32c(0, bytes, sizes[i]));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_value), cmocka_unit_test(test_join),
                                       cmocka_unit_test(test_shared)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
