/* wear.c: bytes written to drives. Every byte that is written over a link ends on an SSD, whichever
 * link it crossed. run.db is another matter: SQLite writes whole pages, twice (the log, then the
 * database), so its share is an estimate: what was measured with --durability step, rounded up, is
 * a fixed part a step and one for each subgroup. */
#include "cmd/run/wear.h"

#include "cmd/opt/opt.h"
#include "offload/devices.h"
#include "offload/traffic.h"

#include <stdio.h>

enum { JOURNAL_STEP = 96 << 10, JOURNAL_SUB = 1200, DAY = 86400 };

/* An image every commit_every steps; there are two, one after the other. */
static int of_images(struct wear *w, const struct run_config *run, struct err *err)
{
    struct run_memory m;
    int               rc = run_memory(run, &m, err);

    if (!rc)
        w->device[CLASS_STATES] = (double)m.device_bytes / 2 / (double)run->commit_every;
    return rc;
}

int wear_computed(struct wear *w, const struct run_config *run, struct err *err)
{
    struct traffic_config c = traffic_of_run(run);
    struct link_meter     m;
    struct store          layout;
    int                   rc;

    *w = (struct wear){ 0 };
    if (run->mode == RUN_MEM)
        return of_images(w, run, err);
    traffic_computed(&m, &c);
    for (int l = 0; l < LINK_KINDS; l++)
        for (int k = 0; k < LINK_CLASSES; k++)
            w->device[k] += (double)m.bytes[l][k][LINK_WRITE] / (double)run->n_devices;
    rc = devices_layout(&layout, run, err);
    if (!rc)
        w->journal = JOURNAL_STEP + (double)JOURNAL_SUB * (double)layout.n_subs;
    if (!rc)
        store_release(&layout);
    return rc;
}

double wear_device(const struct wear *w)
{
    double sum = 0;

    for (int k = 0; k < LINK_CLASSES; k++)
        sum += w->device[k];
    return sum;
}

double wear_day(double step_bytes, double step_seconds)
{
    return step_bytes / step_seconds * DAY;
}

double wear_years(double step_bytes, double step_seconds, double endurance)
{
    return endurance / wear_day(step_bytes, step_seconds) / 365.25;
}

void wear_print(const struct wear *w, uint64_t steps, double endurance)
{
    double total = wear_device(w);
    char   text[32], all[32];

    printf("\nWritten to each device in a step (computed, the mean of all)\n");
    for (int k = 0; k < LINK_CLASSES; k++)
        if (w->device[k] > 0)
            printf("  %-10s %18.0f bytes\n", link_class_names[k], w->device[k]);
    printf("  %-10s %18.0f bytes: %s in %llu steps\n", "all", total,
           opt_size_text(text, sizeof text, total * (double)steps), (unsigned long long)steps);
    if (w->journal > 0)
        printf("  and about %s in a step to the drive of RUN, for run.db\n",
               opt_size_text(text, sizeof text, w->journal));
    if (endurance > 0)
        printf("  a drive of --endurance %s lasts %.3g million steps; they take %.3g %% of it\n",
               opt_size_text(all, sizeof all, endurance), endurance / total / 1e6,
               100 * total * (double)steps / endurance);
}

void wear_warn(const struct wear *w, double step_seconds, double endurance)
{
    double total = wear_device(w), years;
    char   a[32], b[32];

    if (!(endurance > 0) || !(step_seconds > 0) || !(total > 0))
        return;
    years = wear_years(total, step_seconds, endurance);
    if (years < 1)
        fprintf(stderr, "siTrain: warning: at %.3g s a step each device is written %s a day: a "
                "drive of --endurance %s is worn out in %.3g days\n", step_seconds,
                opt_size_text(a, sizeof a, wear_day(total, step_seconds)),
                opt_size_text(b, sizeof b, endurance), years * 365.25);
}
