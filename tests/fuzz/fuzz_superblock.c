/* fuzz_superblock.c: the first page of a device. Only the very page that this run wrote is taken.
 */
#include "tests/fuzz/fuzz.h"

#include "data/base/crc32c.h"
#include "offload/layout/store.h"

#include <string.h>

static const struct superblock wants[] = {
    { .id = "0123456789abcdef0123456789abcdef", .device = 1, .n_devices = 3, .bytes = 123456789 },
    { .id = "0123456789abcdef0123456789abcdef", .device = 1, .n_devices = 3, .bytes = 123456789,
      .owner = "0011223344556677" },
};

static int one(const uint8_t *bytes, size_t n)
{
    static char    page[SUPERBLOCK_BYTES], mine[SUPERBLOCK_BYTES];
    struct fuzz_in in = { bytes, n };
    int            seal = fuzz_number(&in, 1) % 2, rc;
    uint32_t       crc;
    struct err     err = { 0 };

    memset(page, 0, sizeof page);
    memcpy(page, in.p, in.n < sizeof page ? in.n : sizeof page);
    if (seal) {
        crc = crc32c(0, page, sizeof page - sizeof crc);
        memcpy(page + sizeof page - sizeof crc, &crc, sizeof crc);
    }
    superblock_pack(mine, &wants[0]);
    rc = superblock_check(page, &wants[1], "device", &err);
    FUZZ_CHECK(rc || strstr(page, "owner 0011223344556677\n"));
    rc = superblock_check(page, &wants[0], "device", &err);
    FUZZ_CHECK(!rc == !memcmp(page, mine, sizeof page));
    FUZZ_CHECK(rc || superblock_present(page));
    return rc ? fuzz_refused(rc, &err) : 1;
}

static void seeds(void)
{
    struct superblock other = wants[0];
    struct fuzz_out    out = { 0 };
    char               page[SUPERBLOCK_BYTES];

    superblock_pack(page, &wants[0]);
    memset(page + 17, '1', sizeof page - 17); // after "siTrain device 1\n": no line ends, no zero
    fuzz_add_number(&out, 1, 1);
    fuzz_add(&out, page, sizeof page);
    fuzz_seed_out(&out);
    for (uint32_t d = 0; d < 3; d++) {
        other = wants[d == 2];
        other.device = d > 0;
        superblock_pack(page, &other);
        fuzz_add_number(&out, d < 2, 1);
        fuzz_add(&out, page, d < 2 ? 200 : sizeof page);
        fuzz_seed_out(&out);
    }
    fuzz_seed("", 0);
}

const struct fuzz_target fuzz_superblock = { "superblock", NULL, one, seeds, 1 << 16, 0, 2000 };
