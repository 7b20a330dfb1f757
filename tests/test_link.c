/* test_link.c: meters add up, and a modelled link never lets bytes through early. Times are those
 * handed in: no clock. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/link.h"

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
    struct link *l = link_new(bw, NULL);

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
    struct link *l = link_new(none, NULL);

    (void)state;
    assert_int_equal(link_reserve(l, LINK_READ, 1 << 30, 77), 77);
    assert_int_equal(link_reserve(NULL, LINK_READ, 1 << 30, 78), 78);
    link_free(l);
    link_free(NULL);
}

/* Two children that are faster than their parent share it. */
static void test_tree(void **state)
{
    const double root_bw[LINK_DIRS] = {1e9, 1e9}, child_bw[LINK_DIRS] = {4e9, 0};
    struct link *root = link_new(root_bw, NULL), *a = link_new(child_bw, root),
                *b = link_new(child_bw, root);

    (void)state;
    assert_int_equal(link_reserve(a, LINK_READ, 4000, 0), 4000);
    assert_int_equal(link_reserve(b, LINK_READ, 4000, 0), 8000);
    assert_int_equal(link_reserve(a, LINK_WRITE, 100, 0), 100);
    link_free(a);
    link_free(b);
    link_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meter),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_unlimited),
        cmocka_unit_test(test_tree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
