/* power.c: see power.h. */
#include "tests/crash/power.h"

#include "kernels/rng.h"
#include "tests/crash/threads.h"

#include <errno.h>
#include <string.h>

static uint64_t ops, cut_at = UINT64_MAX;
static int      cut[THREADS_HOSTS], cuts; // cuts: of how many machines
static uint64_t still[THREADS_HOSTS];     // operations until a machine's own

void power_arm(uint64_t at)
{
    cut_at = at;
    ops = 0;
    cuts = 0;
    memset(cut, 0, sizeof cut);
}

uint64_t power_ops(void)
{
    return ops;
}

int power_is_cut(void)
{
    return cut[threads_host()];
}

int power_was_cut(void) { return cuts > 0; }

/* How much longer the other machines have power: not at all, a little, for long, for ever. */
static void left_draw(void)
{
    static const uint64_t within[] = { 1, 20, 200 };

    for (uint64_t h = 0; h < THREADS_HOSTS; h++) {
        uint64_t how = rng_bits(cut_at, 80, h) % 4;

        still[h] = how < 3 ? rng_bits(cut_at, 81, h) % within[how] : UINT64_MAX;
    }
}

int power_point(void)
{
    int h = threads_host(), first = cuts == 0 && ops == cut_at;

    if (first)
        left_draw();
    if (!cut[h] && (first || (cuts > 0 && still[h]-- == 0))) {
        cut[h] = 1;
        cuts++;
    }
    if (cut[h])
        return -EIO;
    ops++;
    return 0;
}
