/* config.c: names a run's modes and parameters, and reports which parameters overflowed. */
#include "offload/layout/config.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"

const struct run_mode_row run_modes[] = {
    [RUN_MEM] = { "mem", LINK_INTERNAL, CSD_HANDED_OVER },
    [RUN_BASE] = { "base", LINK_HOST, CSD_HANDED_OVER },
    [RUN_SU] = { "su", LINK_INTERNAL, CSD_NAIVE },
    [RUN_SUO] = { "su+o", LINK_INTERNAL, CSD_HANDED_OVER },
};

const char *run_mode_name(size_t mode)
{
    return mode < sizeof run_modes / sizeof *run_modes ? run_modes[mode].name : NULL;
}

size_t run_trained(const struct run_config *cfg)
{
    size_t n = 0;

    for (size_t b = 0; b < run_blocks(cfg); b++)
        n += run_trains(cfg, b) ? run_whole(cfg, b) : 0;
    return n;
}

const char *run_name(const struct run_config *cfg, size_t block, size_t i, char out[RUN_NAME])
{
    if (cfg->name)
        cfg->name(cfg->name_ctx, block, i, out, RUN_NAME);
    else
        snprintf(out, RUN_NAME, "parameter %zu of block %zu", i, block);
    return out;
}

int run_overflow(const struct run_config *cfg, uint64_t next_step, const struct param_set *overflow,
                 struct err *err)
{
    char name[RUN_NAME];

    return err_set(err, -EDOM,
                   "step %llu would have made %zu parameters infinite or not a number, or a moment "
                   "of theirs, first in %s: these were left unchanged, all others were updated, "
                   "and the run ends here; make a new run with a smaller --lr or --weight-decay, "
                   "or with --clip (siTrain import makes one from an export), or try the next step "
                   "with --resume %s", (unsigned long long)next_step, overflow->n,
                   run_name(cfg, overflow->block, overflow->first, name), cfg->dir);
}

void param_set_join(struct param_set *all, const struct param_set *part)
{
    if (part->n && (!all->n || part->block < all->block ||
                    (part->block == all->block && part->first < all->first))) {
        all->block = part->block;
        all->first = part->first;
    }
    all->n += part->n;
}

void param_set_add(struct param_set *all, size_t block, size_t from, struct overflow part)
{
    param_set_join(all, &(struct param_set){ part.n, block, from + part.first });
}

void param_set_look(struct param_set *all, size_t block, size_t from, const void *x, enum dtype dt,
                    size_t n)
{
    float wide[1024];

    for (size_t i = 0, k; i < n; i += k) {
        k = size_min(n - i, sizeof wide / sizeof *wide);
        convert(wide, DT_F32, (const char *)x + i * dtype_bytes(dt), dt, k);
        param_set_add(all, block, from + i, overflow_find(wide, k));
    }
}

void run_bits_put(void *out, enum dtype dt, const float *x, size_t n)
{
    if (dt == DT_F32) {
        memcpy(out, x, n * sizeof *x);
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy((bf16 *)out + i, (const bf16 *)(const void *)(x + i) + 1, sizeof(bf16));
}
