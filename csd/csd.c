/* csd.c: finds a kind of device by name, computes how large updates may be, and keeps the memory of
 * devices that no longer answer. */
#include "csd/csd.h"

/* The kinds of devices. */
static const struct csd_ops *const all[] = { &csd_emu, &csd_null, &csd_xrt, &csd_opencl };

const struct csd_ops *csd_at(size_t i) { return i < sizeof all / sizeof *all ? all[i] : NULL; }

const char *csd_name(size_t i) { return csd_at(i) ? csd_at(i)->name : NULL; }

int csd_caps_check(const struct csd_ops *ops, const struct csd_config *cfg, enum optim_kind optim,
                   int pairs, struct err *err)
{
    if (cfg->update_link == LINK_HOST)
        return 0;
    if (!(ops->caps->optims >> optim & 1))
        return err_misuse(err, "--csd %s cannot update with %s", ops->name, optim_name(optim));
    if (pairs && !ops->caps->pairs)
        return err_misuse(err, "--csd %s takes no compressed gradients", ops->name);
    return 0;
}

size_t csd_params_max(const struct csd_ops *ops, const struct csd_config *cfg, size_t most)
{
    struct csd_config c = *cfg;
    size_t            fits = 0, beyond = most / CSD_ALIGN_PARAMS + 1; // in CSD_ALIGN_PARAMS

    while (beyond - fits > 1) {
        size_t half = fits + (beyond - fits) / 2;

        c.update_params = half * CSD_ALIGN_PARAMS;
        *(ops->memory(&c) <= cfg->mem ? &fits : &beyond) = half;
    }
    return fits * CSD_ALIGN_PARAMS;
}

void csd_keep(void *memory)
{
    static struct kept { struct kept *before; void *memory; } *last;
    struct kept *k = malloc(sizeof *k);

    if (!k)
        return; // it stays allocated all the same
    *k = (struct kept){ __atomic_load_n(&last, __ATOMIC_RELAXED), memory };
    while (!__atomic_compare_exchange_n(&last, &k->before, k, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        ;
}
