/* fuzz_topology.c: a topology's file. What is accepted has a place for each device, and no transfer
 * over it is over before it begins. */
#include "tests/fuzz/fuzz.h"

#include "csd/devices/csd_common.h"
#include "csd/topology.h"

#include <string.h>

enum { DEVICES = 2 };

static void transfers(const struct topology *t)
{
    static const enum disk_op ops[] = { DISK_READ, DISK_WRITE };

    for (size_t i = 0; i < DEVICES; i++)
        for (int kind = 0; kind < LINK_KINDS; kind++)
            for (int o = 0; o < 2; o++) {
                const struct csd_config cfg = { .links = topology_ends(t, i) };
                const struct disk_req   req = { .op = ops[o], .bytes = 4096 };

                FUZZ_CHECK(csd_links_take(&cfg, (enum link_kind)kind, CLASS_ACTIVATION, &req,
                                          1000) >= 1000);
            }
}

static int one(const uint8_t *in, size_t n)
{
    const struct topology_config cfg = { .file = fuzz_path("topology") };
    struct topology             *t;
    struct err                   err = { 0 };

    fuzz_put("topology", in, n);
    int rc = topology_open(&t, &cfg, DEVICES, &err);
    if (rc)
        return fuzz_refused(rc, &err);
    transfers(t);
    topology_close(t);
    return 1;
}

static void seeds(void)
{
    static const char *const texts[] = {
        ("link port host 12G 12G 1\nlink card0 port 3G 3G\ndrive 0 card0 2.4G 1.0G 80\n"
         "engine 0 card0 - 1G\ndrive 1 port - -\naccelerator gpu0 port 12G 12G\n"),
        "drive 0 host 1K 1K\r\n\n# nothing\n\tdrive 1 host 1 1 0.5 # the other one\n",
        "drive 0 host - -",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        fuzz_seed(texts[i], strlen(texts[i]));
}

const struct fuzz_target fuzz_topology = { "topology", NULL, one, seeds, 1 << 16, 64, 4000 };
