/* smartssd.c: see the header. Where it is, SITRAIN_SMARTSSD says, which make sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/smartssd.h"

#include <stdio.h>
#include <stdlib.h>

enum { CARDS = 64, FIRST_BUS = 0x31, RUN_CARDS = 8 };

static const char *place(void)
{
    const char *at = getenv("SITRAIN_SMARTSSD");

    return at ? at : "";
}

int smartssd_here(void) { return *place() != 0; }

static char xclbin[512];

void smartssd_card(struct csd_config *cfg)
{
    static char     address[CARDS][16];
    static unsigned taken;
    char            cards[16];

    if (!smartssd_here())
        skip();
    assert_true(taken < CARDS);
    snprintf(cards, sizeof cards, "%d", CARDS);
    setenv("XILINX_XRT", place(), 1);
    setenv("SMARTSSD_DEVICES", cards, 0);
    snprintf(xclbin, sizeof xclbin, "%s/sitrain.xclbin", place());
    snprintf(address[taken], sizeof address[taken], "0000:%02x:00.1", FIRST_BUS + taken);
    cfg->fpga = address[taken++];
    cfg->xclbin = xclbin;
}

void smartssd_run(struct run_config *cfg)
{
    static const char *fpgas[RUN_CARDS];
    struct csd_config  c = {0};

    assert_true(cfg->n_devices <= RUN_CARDS);
    for (size_t i = 0; i < cfg->n_devices; i++) {
        if (!fpgas[i]) {
            smartssd_card(&c);
            fpgas[i] = c.fpga;
        }
    }
    cfg->csd = &csd_xrt;
    cfg->fpgas = fpgas;
    cfg->xclbin = xclbin;
}
