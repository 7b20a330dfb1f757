/* test_pairing.c: cards and drives on made up trees of /sys: a card's own drive is found, and
 * nothing is where several could be meant, or none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/pairing.h"
#include "tests/tempdir.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- a tree of /sys in the test's folder ---- */

static const char ROOT_PORT[] = "pci0000:00/0000:00:01.0";

static void make(const char *path)
{
    char copy[512];

    snprintf(copy, sizeof copy, "%s", tempdir_at(path));
    for (char *s = copy + strlen(tempdir) + 1; (s = strchr(s, '/')); *s++ = '/') {
        *s = '\0';
        mkdir(copy, 0777);
    }
    mkdir(copy, 0777);
}

static void put(const char *folder, const char *file, const char *text)
{
    char path[800];

    snprintf(path, sizeof path, "%s/%s", folder, file);
    tempdir_put(path, text, strlen(text));
}

/* A link in the tree to what is at `to`. */
static void point(const char *folder, const char *name, const char *to)
{
    char from[512], at[512];

    make(folder);
    snprintf(at, sizeof at, "%s", tempdir_at(to));
    snprintf(from, sizeof from, "%s/%s", folder, name);
    assert_int_equal(symlink(at, tempdir_at(from)), 0);
}

/* A card's two functions behind `bridges` of the root port; config: of its P2P, NULL: no driver. */
static void card_make(const char *bridges, const char *slot, const char *config)
{
    char place[512], below[600], address[32];

    for (int function = 0; function < 2; function++) {
        snprintf(address, sizeof address, "%s.%d", slot, function);
        snprintf(place, sizeof place, "devices/%s/%s%s", ROOT_PORT, bridges, address);
        make(place);
        put(place, "vendor", "0x10ee\n");
        put(place, "device", function ? "0x6988\n" : "0x6987\n");
        point("bus/pci/devices", address, place);
        make("bus/pci/drivers/xocl");
        make("bus/pci/drivers/xclmgmt");
        if (config)
            point(place, "driver", function ? "bus/pci/drivers/xocl" : "bus/pci/drivers/xclmgmt");
    }
    if (!config)
        return;
    snprintf(below, sizeof below, "%s/p2p.u.1234", place);
    make(below);
    put(below, "config", config);
    put(place, "xclbinuuid", "7c3f0c39-3d6c-4b1e-9f7a-2a3e3c1c0d55\n");
    snprintf(below, sizeof below, "%s/rom.u.1235", place);
    make(below);
    put(below, "VBNV", "xilinx_u2_gen3x4_xdma_gc_base_2\n");
}

static const char ON[] = "bar:4294967296\nmax_bar:4294967296\nexp_bar:4294967296\n";

/* A drive behind `bridges`, with a partition; number: of the block device, of the partition. */
static void drive_make(const char *bridges, const char *address, const char *name,
                       const char *number, const char *part_number)
{
    char place[400], part[512];

    snprintf(place, sizeof place, "devices/%s/%s%s/nvme/nvme0/%s", ROOT_PORT, bridges, address,
             name);
    make(place);
    point("block", name, place);
    point("dev/block", number, place);
    snprintf(part, sizeof part, "%s/%sp1", place, name);
    make(part);
    put(part, "partition", "1\n");
    point("dev/block", part_number, part);
}

static const char *number_of_tempdir(void)
{
    static char number[32];
    struct stat st;

    assert_int_equal(stat(tempdir, &st), 0);
    snprintf(number, sizeof number, "%u:%u", major(st.st_dev), minor(st.st_dev));
    return number;
}

/* ---- what is found ---- */

static struct pairing look(void)
{
    struct pairing p;
    struct err     err;

    assert_int_equal(pairing_read(&p, tempdir, &err), 0);
    return p;
}

/* The card of the test's folder is `address`, or there is none, with these words. */
static void belongs(const char *path, const char *address, const char *words)
{
    struct pairing     p = look();
    const struct card *card = NULL;
    struct err         err = { 0 };
    int                rc = pairing_card(&p, path, &card, &err);

    if (address) {
        assert_int_equal(rc, 0);
        assert_string_equal(card->address, address);
    } else {
        assert_int_equal(rc, -ENODEV);
        if (!strstr(err.text, words))
            fail_msg("%s", err.text);
    }
    pairing_release(&p);
}

/* Two SmartSSDs behind one switch of the chassis, and a drive without a card beside them. */
static void test_smartssds(void **state)
{
    (void)state;
    card_make("0000:10:00.0/0000:11:00.0/0000:20:00.0/0000:21:00.0/", "0000:22:00", ON);
    drive_make("0000:10:00.0/0000:11:00.0/0000:20:00.0/0000:21:01.0/", "0000:23:00.0", "nvme0n1",
               "259:0", "259:1");
    card_make("0000:10:00.0/0000:11:01.0/0000:30:00.0/0000:31:00.0/", "0000:32:00", ON);
    drive_make("0000:10:00.0/0000:11:01.0/0000:30:00.0/0000:31:01.0/", "0000:33:00.0", "nvme1n1",
               "259:2", number_of_tempdir());
    drive_make("0000:10:00.0/0000:11:02.0/", "0000:40:00.0", "nvme2n1", "259:4", "259:5");

    struct pairing p = look();
    assert_int_equal(p.n_cards, 2);
    assert_int_equal(p.n_drives, 3);
    assert_string_equal(p.cards[0].address, "0000:22:00.1");
    assert_string_equal(p.cards[0].model, "xilinx_u2_gen3x4_xdma_gc_base_2");
    assert_string_equal(p.cards[0].xclbin, "7c3f0c39-3d6c-4b1e-9f7a-2a3e3c1c0d55");
    assert_int_equal(p.cards[0].p2p, P2P_ON);
    assert_string_equal(p.drives[1].address, "0000:33:00.0");
    assert_int_equal(p.drives[0].card, 0);
    assert_int_equal(p.drives[1].card, 1);
    assert_int_equal(p.drives[2].card, -1); // as near to both
    pairing_release(&p);
    belongs(tempdir, "0000:32:00.1", NULL); // from a partition to its drive
    belongs(tempdir_at("not-yet"), "0000:32:00.1", NULL);
}

/* The nearest card has a drive of its own; the only common bridge is the root port; no card. */
static void test_no_card(void **state)
{
    char copy[256];

    (void)state;
    drive_make("0000:10:00.0/0000:11:02.0/", "0000:40:00.0", "nvme2n1", number_of_tempdir(),
               "259:5");
    belongs(tempdir, NULL, "0 cards were seen");
    card_make("", "0000:50:00", ON);
    belongs(tempdir, NULL, "1 card was seen");
    card_make("0000:10:00.0/0000:11:00.0/", "0000:22:00", ON);
    belongs(tempdir, "0000:22:00.1", NULL); // two of a switch
    drive_make("0000:10:00.0/0000:11:00.0/", "0000:23:00.0", "nvme0n1", "259:0", "259:1");
    belongs(tempdir, NULL, "0000:22:00.1 is nearer to the drive nvme0n1 (0000:23:00.0)");
    card_make("0000:10:00.0/0000:11:03.0/", "0000:24:00", ON);
    belongs(tempdir, NULL, "2 accelerator cards are equally near");
    snprintf(copy, sizeof copy, "%s", tempdir_at("block/nvme2n1"));
    unlink(copy);
    belongs(tempdir, NULL, "no NVMe drive");
    belongs("/proc/self/status", NULL, "lies on no block device");
}

/* A mapped device on a partition; a striped one; a drive that is seen through its subsystem. */
static void test_ways_to_a_drive(void **state)
{
    char at[512];

    (void)state;
    card_make("0000:10:00.0/0000:11:00.0/", "0000:22:00", ON);
    drive_make("0000:10:00.0/0000:11:01.0/", "0000:23:00.0", "nvme0n1", "259:0", "259:1");
    make("devices/virtual/block/dm-0/slaves");
    point("dev/block", number_of_tempdir(), "devices/virtual/block/dm-0");
    point("devices/virtual/block/dm-0/slaves", "nvme0n1p1", "dev/block/259:1");
    belongs(tempdir, "0000:22:00.1", NULL);
    point("devices/virtual/block/dm-0/slaves", "nvme9n1", "dev/block/259:0");
    belongs(tempdir, NULL, "dm-0, which is made of 2 drives");

    snprintf(at, sizeof at, "devices/%s/0000:10:00.0/0000:11:01.0/0000:23:00.0/nvme/nvme0",
             ROOT_PORT);
    make("devices/virtual/nvme-subsystem/nvme-subsys0/nvme5n1");
    point("devices/virtual/nvme-subsystem/nvme-subsys0", "nvme0", at);
    point("block", "nvme5n1", "devices/virtual/nvme-subsystem/nvme-subsys0/nvme5n1");
    unlink(tempdir_at("devices/virtual/block/dm-0/slaves/nvme9n1"));
    unlink(tempdir_at("devices/virtual/block/dm-0/slaves/nvme0n1p1"));
    point("devices/virtual/block/dm-0/slaves", "nvme5n1", "block/nvme5n1");
    belongs(tempdir, "0000:22:00.1", NULL);
    snprintf(at, sizeof at, "devices/%s/0000:99:00.0/nvme/nvme1", ROOT_PORT); // a second way to it
    make(at);
    point("devices/virtual/nvme-subsystem/nvme-subsys0", "nvme1", at);
    belongs(tempdir, NULL, "no NVMe drive");
}

/* A volume controller's second host bridge has root ports of its own. */
static void test_second_host_bridge(void **state)
{
    static const char vmd[] = "0000:00:0e.0/pci10000:e0/10000:e0:06.0/";
    char              deep[256];

    (void)state;
    snprintf(deep, sizeof deep, "%s10000:e1:00.0/10000:e2:00.0/", vmd);
    card_make(vmd, "10000:ea:00", ON);
    drive_make(vmd, "10000:eb:00.0", "nvme0n1", number_of_tempdir(), "259:1");
    belongs(tempdir, NULL, "1 card was seen");
    card_make(deep, "10000:e3:00", ON);
    drive_make(deep, "10000:e4:00.0", "nvme1n1", "259:2", "259:3");
    struct pairing p = look();
    assert_int_equal(p.drives[1].card, 0);
    assert_string_equal(p.cards[0].address, "10000:e3:00.1");
    pairing_release(&p);
}

static void test_p2p(void **state)
{
    static const struct { const char *config; enum card_p2p is; const char *words; } of[] = {
        { NULL, CARD_NO_DRIVER, "xocl is not loaded" },
        { "max_bar:100\nexp_bar:100\n", P2P_UNKNOWN, "no memory window" },
        { "bar:1\nexp_bar:100\n", P2P_OFF, "--device 0000:14:00.1 --p2p enable" },
        { "bar:1\nexp_bar:100\nrbar:100\n", P2P_REBOOT, "warm reboot" },
        { "bar:100\nexp_bar:100\nrbar:100\nremap:100\n", P2P_ON, "P2P is on" },
        { "bar:100\nexp_bar:100\nrbar:100\nremap:50\n", P2P_OFF, "P2P is off" },
    };
    enum { N = sizeof of / sizeof *of };
    char slot[32], words[256];

    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(slot, sizeof slot, "0000:%02x:00", 0x12 + i);
        card_make("", slot, of[i].config);
    }
    struct pairing p = look();
    assert_int_equal(p.n_cards, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(p.cards[i].p2p, of[i].is);
        card_p2p_words(&p.cards[i], words, sizeof words);
        assert_non_null(strstr(words, of[i].words));
    }
    pairing_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_smartssds), IN_TEMPDIR(test_no_card), IN_TEMPDIR(test_ways_to_a_drive),
        IN_TEMPDIR(test_second_host_bridge), IN_TEMPDIR(test_p2p),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
