/* test_link.c: meters add up, and a modelled link never lets bytes through early. Times are those
 * handed in: no clock. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/csd_common.h"

static void test_meter(void **state)
{
    struct link_meter a = {0}, b = {0};

    (void)state;
    b.bytes[LINK_HOST][CLASS_WIRE][LINK_READ] = 5;
    b.padding[LINK_INTERNAL][CLASS_RESIDUAL][LINK_WRITE] = 7;
    link_meter_add(&a, &b);
    link_meter_add(&a, &b);
    assert_int_equal(a.bytes[LINK_HOST][CLASS_WIRE][LINK_READ], 10);
    assert_int_equal(a.padding[LINK_INTERNAL][CLASS_RESIDUAL][LINK_WRITE], 14);
    assert_int_equal(a.bytes[LINK_HOST][CLASS_WIRE][LINK_WRITE], 0);
    assert_string_equal(link_kind_names[LINK_INTERNAL], "internal");
    assert_string_equal(link_dir_names[LINK_WRITE], "write");
    assert_string_equal(link_class_names[CLASS_RESIDUAL], "residual");
}

/* Transfers queue behind each other; the two directions do not; an idle link starts at once. */
static void test_queue(void **state)
{
    const double bw[LINK_DIRS] = {1e9, 2e9}; // bytes per ns: 1, 2
    struct link *l = link_new(bw);

    (void)state;
    assert_int_equal(link_reserve(l, LINK_READ, 1000, 5000), 6000);
    assert_int_equal(link_reserve(l, LINK_READ, 500, 5100), 6500);
    assert_int_equal(link_reserve(l, LINK_WRITE, 1000, 5100), 5600);
    assert_int_equal(link_reserve(l, LINK_READ, 1, 9000), 9001);
    link_free(l);
}

static void test_unlimited(void **state)
{
    const double none[LINK_DIRS] = {0, 0};
    struct link *l = link_new(none);

    (void)state;
    assert_int_equal(link_reserve(l, LINK_READ, 1 << 30, 77), 77);
    assert_int_equal(link_reserve(NULL, LINK_READ, 1 << 30, 78), 78);
    link_free(l);
    link_free(NULL);
}

/* Two devices that are faster than the host's link share it. */
static void test_shared(void **state)
{
    const double      host_bw[LINK_DIRS] = {1e9, 1e9}, own_bw[LINK_DIRS] = {4e9, 0};
    struct link      *host = link_new(host_bw);
    struct csd_config a = {.host = host, .internal = link_new(own_bw)},
                      b = {.host = host, .internal = link_new(own_bw)};
    struct disk_req   read = {.op = DISK_READ, .bytes = 4000},
                      write = {.op = DISK_WRITE, .bytes = 100};

    (void)state;
    assert_int_equal(csd_links_take(&a, LINK_HOST, &read, 0), 4000);
    assert_int_equal(csd_links_take(&b, LINK_HOST, &read, 0), 8000);
    assert_int_equal(csd_links_take(&a, LINK_HOST, &write, 0), 100);
    link_free(a.internal);
    link_free(b.internal);
    link_free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meter),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_unlimited),
        cmocka_unit_test(test_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
