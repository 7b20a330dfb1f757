/* csd_xrt.c: runs a real computational storage device: an NVMe drive and an accelerator card behind
 * one switch (a SmartSSD), as a worker whose engine is the card. If nothing is updated, or on the
 * host (--mode base), the drive is used alone. */
#include "csd/devices/worker.h"
#include "csd/engine/hls_call.h"
#include "csd/pairing.h"

/* Writes an address in its usual form, because cards are compared by it. The name may lack the
 * domain. */
static int card_named(char address[PCI_ADDRESS], const char *name, struct err *err)
{
    unsigned domain = 0, bus, slot, function;
    int      digits = name[strspn(name, "0123456789abcdefABCDEF:.")] == 0; // no blanks, no signs
    char     beyond;

    if (!digits ||
        sscanf(name, "%4x:%2x:%2x.%1x%c", &domain, &bus, &slot, &function, &beyond) != 4) {
        domain = 0;
        if (!digits || sscanf(name, "%2x:%2x.%1x%c", &bus, &slot, &function, &beyond) != 3)
            return err_misuse(err, "--fpga %s: expected the PCI address of a card, such as "
                              "0000:31:00.1 (`siTrain devices` lists them)", name);
    }
    snprintf(address, PCI_ADDRESS, "%04x:%02x:%02x.%x", domain, bus, slot, function);
    return 0;
}

/* Finds the card that was named, or the one next to the drive. */
static int card_find(char address[PCI_ADDRESS], const struct csd_config *cfg, struct err *err)
{
    struct pairing     all = {0};
    const struct card *card = NULL;

    if (cfg->fpga)
        return card_named(address, cfg->fpga, err);
    int rc = pairing_read(&all, "/sys", err);
    rc = rc ? rc : pairing_card(&all, cfg->path, &card, err);
    if (!rc)
        snprintf(address, PCI_ADDRESS, "%s", card->address);
    else
        err_set(err, rc, "%s: --device is to be on a SmartSSD's drive, or --fpga names its "
                "card", err->text);
    pairing_release(&all);
    return rc;
}

static int xrt_usable(struct err *err)
{
    return &engine_xrt ? engine_xrt.usable(err)
           : err_misuse(err, "this siTrain was built without libxrt: install libxrt-dev (make deps "
                        "does) and build it again");
}

static int xrt_open(struct csd **out, const struct csd_config *cfg, char *notice,
                    size_t notice_size, struct err *err)
{
    char              address[PCI_ADDRESS];
    struct csd_config c = *cfg;

    if (cfg->update_params == 0 || cfg->update_link == LINK_HOST)
        return worker_open(out, &csd_xrt, &engine_cpu, cfg, notice, notice_size, err);
    int rc = xrt_usable(err);
    if (rc)
        return rc;
    if (!cfg->xclbin)
        return err_misuse(err, "--csd xrt needs --xclbin FILE, the kernels of csd/hls as they were "
                          "built for the card (docs/hardware.md)");
    rc = card_find(address, cfg, err);
    if (rc)
        return rc;
    c.fpga = address;
    return worker_open(out, &csd_xrt, &engine_xrt, &c, notice, notice_size, err);
}

const struct csd_ops csd_xrt = {
    .name = "xrt", .about = "an NVMe drive and an FPGA beside it, through libxrt",
    .caps = &hls_caps, .usable = xrt_usable, .memory = worker_memory, .open = xrt_open,
    .submit = worker_submit, .reap = worker_reap, .close = worker_close,
};
