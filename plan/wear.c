/* wear.c: computes the bytes that training writes to drives, and how long these last. Every byte
 * written over a link ends on an SSD, whichever link it crossed. run.db is an estimate: SQLite
 * writes whole pages, twice (the log, then the database). Its share, measured with --durability
 * step and rounded up, is a fixed part per step and one per subgroup. */
#include "plan/wear.h"

#include "data/opt/opt.h"
#include "offload/estimate/traffic.h"
#include "offload/layout/store.h"

#include <math.h>

enum { JOURNAL_STEP = 96 << 10, JOURNAL_SUB = 1200, DAY = 86400 };

int wear_computed(struct wear *w, const struct run_config *run, struct err *err)
{
    struct link_meter m;
    struct run_memory memory;
    struct store      layout;

    *w = (struct wear){ 0 };
    if (run->mode == RUN_MEM) { // every commit_every steps an image, to two files in turn
        int rc = run_memory(run, &memory, err);
        if (!rc)
            w->total = w->device[CLASS_STATES] =
                (double)memory.image / (double)run->commit_every;
        return rc;
    }
    traffic_computed(&m, run);
    if (run->n_act_devices) {
        uint64_t *acts = &m.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE];

        w->act_device = (double)*acts / (double)run->n_act_devices;
        *acts = 0;
    }
    for (int l = 0; l < LINK_NETWORK; l++)
        for (int k = 0; k < LINK_CLASSES; k++)
            w->device[k] += (double)m.bytes[l][k][LINK_WRITE] / (double)run->n_devices;
    for (int k = 0; k < LINK_CLASSES; k++)
        w->total += w->device[k];
    int rc = store_init(&layout, run, err);
    if (rc)
        return rc;
    w->journal = JOURNAL_STEP + (double)JOURNAL_SUB * (double)layout.n_trained;
    store_release(&layout);
    return 0;
}

double wear_day(double step_bytes, double step_seconds) { return step_bytes / step_seconds * DAY; }

double wear_years(double step_bytes, double step_seconds, double endurance)
{
    return endurance / wear_day(step_bytes, step_seconds) / 365.25;
}

void wear_warn(const struct wear *w, const struct events *events, double step_seconds,
               double endurance)
{
    const double most = fmax(w->total, w->act_device);

    if (!(endurance > 0) || !(step_seconds > 0) || !(most > 0))
        return;
    double years = wear_years(most, step_seconds, endurance);
    if (years < 1)
        events_notice(events, "warning: at %.3g s a step each %s is written %s a day: a drive of "
                      "--endurance %s is worn out in %.3g days", step_seconds,
                      most > w->total ? "--act-device" : "device",
                      SIZE_TEXT(wear_day(most, step_seconds)), SIZE_TEXT(endurance),
                      years * 365.25);
}
