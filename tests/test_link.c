/* test_link.c: meters add up, and modelled links never let bytes through early: queues, a drive's
 * one budget, routes through the tree, latency, and the tree as a file says it. Times are those
 * handed in: no clock. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/devices/csd_common.h"
#include "csd/topology.h"
#include "tests/tempdir.h"

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
    const struct link_rates rates = {.bytes_per_s = {1e9, 2e9}}; // bytes per ns: 1, 2
    struct link            *l = link_new(&rates, NULL);

    (void)state;
    assert_int_equal(link_take(l, NULL, 1000, 5000), 6000);
    assert_int_equal(link_take(l, NULL, 500, 5100), 6500);
    assert_int_equal(link_take(NULL, l, 1000, 5100), 5600);
    assert_int_equal(link_take(l, NULL, 1, 9000), 9001);
    link_free(l);
    link_free(NULL);
}

/* A drive's reads and writes share its time, each at its own rate; latency comes on top, and only
 * once where requests are in flight together. */
static void test_drive(void **state)
{
    const struct link_rates rates = {.bytes_per_s = {1e9, 0.5e9}, .shared = 1, .latency_ns = 70};
    struct link            *l = link_new(&rates, NULL);

    (void)state;
    assert_int_equal(link_take(l, NULL, 1000, 0), 1070);  // 1000 ns
    assert_int_equal(link_take(NULL, l, 1000, 0), 3070);  // and 2000
    assert_int_equal(link_take(l, NULL, 1000, 10), 4070); // and 1000
    assert_int_equal(link_take(l, NULL, 1, 9000), 9071);
    link_free(l);
}

static void test_unlimited(void **state)
{
    const struct link_rates none = {.shared = 1};
    struct link            *l = link_new(&none, NULL);

    (void)state;
    assert_int_equal(link_take(l, NULL, 1 << 30, 77), 77);
    assert_int_equal(link_take(NULL, NULL, 1 << 30, 78), 78);
    link_free(l);
}

/* ---- trees ---- */

static uint64_t take(const struct topology *t, size_t device, enum link_kind kind,
                     enum link_class cls, enum disk_op op, size_t bytes, uint64_t now)
{
    const struct csd_config c = {.links = topology_ends(t, device)};
    const struct disk_req   r = {.op = op, .bytes = bytes};

    return csd_links_take(&c, kind, cls, &r, now);
}

/* Unlike drives, faster than the host's link together, share it; what stays within a device does
 * not come near it. */
static void test_options(void **state)
{
    const uint64_t               read[] = {4000000000, 2000000000}, write = 1000000000;
    const struct topology_config cfg = {
        .host_bw = 3000000000, .read_bw = {read, 2}, .write_bw = {&write, 1}, .latency_us = 0.5};
    struct topology *t;
    struct err       err;

    (void)state;
    assert_int_equal(topology_open(&t, &cfg, 2, &err), 0);
    // device 0: 12000 bytes in 3000 ns, the host's link in 4000; device 1: 6000 in 3000 and 2000
    assert_int_equal(take(t, 0, LINK_HOST, CLASS_WIRE, DISK_READ, 12000, 0), 4500);
    assert_int_equal(take(t, 1, LINK_HOST, CLASS_WIRE, DISK_READ, 6000, 0), 6500);
    assert_int_equal(take(t, 1, LINK_INTERNAL, CLASS_STATES, DISK_WRITE, 6000, 0), 9500);
    assert_int_equal(take(t, 0, LINK_HOST, CLASS_GRADIENT, DISK_WRITE, 300, 0), 3800);
    topology_close(t);
    assert_int_equal(topology_open(&t, &(struct topology_config){0}, 2, &err), 0);
    assert_null(t);
    assert_int_equal(take(t, 1, LINK_HOST, CLASS_WIRE, DISK_READ, 12000, 7), 7);
    assert_int_equal(topology_open(&t, &cfg, 3, &err), -EINVAL);
    assert_true(err.misuse);
    assert_string_equal(err.text, "--csd-read-bw has 2 values, and there are 3 devices: expected "
                                  "one for all, or one for each; a resume changes it");
}

/* A drive for activations alone is behind the host's link, too, with the values that are for all;
 * of a file, where its line says, or at the host. */
static void test_others(void **state)
{
    const uint64_t         read[] = {4000000000, 2000000000}, write = 1000000000;
    struct topology_config cfg = {.host_bw = 3000000000, .read_bw = {read, 2},
                                  .write_bw = {&write, 1}, .others = 1};
    struct topology       *t;
    struct err             err;
    static const char      lines[] = "drive 0 host 1G 1G\ndrive 1 host 1M 1M\n";

    (void)state;
    assert_int_equal(topology_open(&t, &cfg, 2, &err), 0);
    assert_int_equal(take(t, 2, LINK_HOST, CLASS_ACTIVATION, DISK_READ, 6000, 0), 2000);
    assert_int_equal(take(t, 2, LINK_HOST, CLASS_ACTIVATION, DISK_WRITE, 6000, 0), 6000);
    topology_close(t);
    tempdir_put("topology", lines, strlen(lines));
    cfg = (struct topology_config){.file = tempdir_at("topology"), .others = 2};
    assert_int_equal(topology_open(&t, &cfg, 1, &err), 0);
    assert_int_equal(take(t, 1, LINK_HOST, CLASS_ACTIVATION, DISK_READ, 1 << 20, 0), 1000000000);
    assert_int_equal(take(t, 2, LINK_HOST, CLASS_ACTIVATION, DISK_READ, 1 << 20, 7), 7);
    topology_close(t);
}

/* Opens what the text says; err->text begins behind the file's name. */
static int opened(struct topology **t, const char *text, size_t n, struct err *err)
{
    const char *path = tempdir_at("topology");
    size_t      skip = strlen(path);

    tempdir_put("topology", text, strlen(text));
    int rc = topology_open(t, &(struct topology_config){.file = path}, n, err);
    if (rc && !strncmp(err->text, path, skip))
        memmove(err->text, err->text + skip, strlen(err->text + skip) + 1);
    return rc;
}

/* A box of cards, where a drive and its engine meet behind the card's own link, and an accelerator
 * that computes in the same box: what it reads goes up to the host's memory and down again. Rates
 * are bytes per 1.024^3 ns, so bytes are multiples of 1.024^3, too. */
static const char box[] = "# kind name above up down us\n"
                          "link port host 4G 4G\n"
                          "link  card0 port 2G 2G 1\r\n"
                          "\n"
                          "link card1 port 2G 2G 1 # the other one\n"
                          "drive 0 card0 2G 1G 10\n"
                          "engine 0 card0 - 0.5G\n"
                          "drive 1 card1 2G 1g 10\n"
                          "accelerator gpu port 1G 0.25G 2\n";

static void test_file(void **state)
{
    const size_t     G = 1 << 30; // in a second
    struct topology *t;
    struct err       err;
    const uint64_t   s = 1000000000, us = 1000;

    (void)state;
    if (opened(&t, box, 2, &err))
        fail_msg("%s", err.text);
    // a device's own: the drive in half a second, its engine's link in two
    assert_int_equal(take(t, 0, LINK_INTERNAL, CLASS_STATES, DISK_READ, G, 0), 2 * s + 10 * us);
    assert_int_equal(take(t, 0, LINK_INTERNAL, CLASS_STATES, DISK_WRITE, G, 0),
                     3 * s / 2 + 10 * us);
    // device 1 has no line of an engine: its drive alone
    assert_int_equal(take(t, 1, LINK_INTERNAL, CLASS_STATES, DISK_READ, G, 0), s / 2 + 10 * us);
    // an update of the host takes the drive, the card's link and the port, not the accelerator's
    assert_int_equal(take(t, 1, LINK_HOST, CLASS_GRADIENT, DISK_READ, G, 0), s + 11 * us);
    // parameters go down to the accelerator; gradients come from there
    assert_int_equal(take(t, 1, LINK_HOST, CLASS_WIRE, DISK_READ, G, 0), 4 * s + 2 * us);
    assert_int_equal(take(t, 1, LINK_HOST, CLASS_GRADIENT, DISK_WRITE, G, 10 * s),
                     11 * s + 11 * us);
    assert_int_equal(take(t, 0, LINK_HOST, CLASS_ACTIVATION, DISK_WRITE, G, 20 * s),
                     21 * s + 11 * us);
    topology_close(t);
}

/* The port is taken in both directions by what an accelerator behind it reads: it is full for the
 * next write although no drive was written. */
static void test_congestion(void **state)
{
    const size_t     G = 1 << 30;
    struct topology *t;
    struct err       err;

    (void)state;
    assert_int_equal(opened(&t, "link port host 1G 1G\ndrive 0 port - -\naccelerator a port - -\n"
                                "accelerator b port - -\n", 1, &err), 0);
    assert_int_equal(take(t, 0, LINK_HOST, CLASS_WIRE, DISK_READ, G, 0), 2000000000); // two copies
    assert_int_equal(take(t, 0, LINK_HOST, CLASS_STATES, DISK_WRITE, G, 0), 3000000000);
    topology_close(t);
}

static void test_errors(void **state)
{
    static const struct { const char *text, *why; } bad[] = {
        {"link a host 1G\n", ", line 1: 4 words where 5 or 6 are expected: KIND NAME ABOVE UP DOWN "
                             "[MICROSECONDS]"},
        {"\nlink a host 1G 1G 1 1 1\n", ", line 2: 7 words where 5 or 6"},
        {"wire a host 1G 1G\n", ", line 1: wire: expected link, drive, engine or accelerator"},
        {"link host host 1G 1G\n", ", line 1: a link cannot be called host"},
        {"link a b 1G 1G\nlink b host 1G 1G\n", ", line 1: no link above this line is called b"},
        {"link a host 1G 1G\nlink a host 1G 1G\n", ", line 2: link a is there already"},
        {"drive 0 host 1G 1G\ndrive 1 0 1G 1G\n", ", line 2: no link above this line is called 0"},
        {"drive x host 1G 1G\n", ", line 1: drive x: the number of a device is expected"},
        {"drive 01 host 1G 1G\n", ", line 1: drive 01: the number"},
        {"drive 0 host 0 1G\n", ", line 1: 0: expected bytes a second"},
        {"drive 0 host 1G 1P\n", ", line 1: 1P: expected bytes a second"},
        {"drive 0 host nan 1G\n", ", line 1: nan: expected"},
        {"drive 0 host 1G -1\n", ", line 1: -1: expected"},
        {"drive 0 host 1G 1G 1us\n", ", line 1: 1us: expected a request's latency in microseconds"},
        {"drive 0 host 1G 1G\n", " has no drive 1: there are 2 devices, and each is a line"},
        {"", " has no drive 0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct topology *t;
        struct err       err = {0};

        assert_int_equal(opened(&t, bad[i].text, 2, &err), -EINVAL);
        assert_true(err.misuse);
        if (strncmp(err.text, bad[i].why, strlen(bad[i].why)))
            fail_msg("%s\nnot: %s", err.text, bad[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meter),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_drive),
        cmocka_unit_test(test_unlimited),
        cmocka_unit_test(test_options),
        IN_TEMPDIR(test_others),
        IN_TEMPDIR(test_file),
        IN_TEMPDIR(test_congestion),
        IN_TEMPDIR(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
