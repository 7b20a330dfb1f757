/* plan_answer.c: the first lines of `siTrain plan`: how long, how much memory, how much disk, how
 * much is written, and whether it would be better in RAM. What they come from follows them. */
#include "bench/bench.h"
#include "cmd/cmd.h"
#include "plan/mem_choice.h"
#include "plan/wear.h"
#include "run/folder/spares.h"

enum { SIZE = 32 };

static void time_line(const struct session *s, const json_t *found)
{
    const json_t *step = json_object_get(found, "step");
    double        steps = json_num(step, "steps");
    char          all[SIZE];

    if (step)
        printf("Time: %.3g s a step, %.0f tokens/s%s; %.0f step%s: %s\n",
               json_num(step, "seconds"), json_num(step, "tokens_per_second"),
               arch_classifies(&s->config) ? " with padding, at most" : "", steps,
               steps > 1 ? "s" : "",
               opt_time_text(all, sizeof all, json_num(step, "run_seconds")));
}

static void memory_line(const struct budget *b)
{
    char total[SIZE], limit[SIZE], arenas[SIZE];

    printf("Memory: %s of %s", opt_size_text(total, sizeof total, (double)b->total),
           opt_size_text(limit, sizeof limit, (double)b->limit));
    if (b->arenas)
        printf(" + %s devices", opt_size_text(arenas, sizeof arenas, (double)b->arenas));
    putchar('\n');
}

/* With which spare slots, and what others would take. */
static int spares_print(const struct session *s, struct err *err)
{
    static const char *const names[] = { [RUN_SPARES_HALF] = "--spare-slots half",
                                         [RUN_SPARES_FEW] = "--spare-slots few",
                                         [RUN_SPARES_ALL] = "slots of --speculate" };
    enum run_spares other = s->run.spares == RUN_SPARES_FEW ? RUN_SPARES_HALF : RUN_SPARES_FEW;
    uint64_t        bytes;
    char            text[SIZE];
    int             rc = spares_bytes(&bytes, s, other, err);

    if (!rc)
        printf("on %zu device%s (%s; %s: %s)\n", s->run.n_devices,
               s->run.n_devices == 1 ? "" : "s", names[s->run.spares],
               strrchr(names[other], ' ') + 1, opt_size_text(text, sizeof text, (double)bytes));
    return rc;
}

static int disk_line(const struct session *s, struct err *err)
{
    struct run_memory m;
    char              text[SIZE];
    int               rc = run_memory(&s->run, &m, err);

    if (rc)
        return rc;
    printf("Disk: %s ", opt_size_text(text, sizeof text, (double)m.device_bytes));
    if (s->run.mode != RUN_MEM)
        return spares_print(s, err);
    printf("for the images in RUN\n");
    return 0;
}

/* Of one device, the mean of all, and how much of a drive's life that is where --endurance says
 * it. */
static int written_line(const struct session *s, const json_t *found, struct err *err)
{
    double      steps = (double)s->o.steps, endurance = (double)s->o.endurance;
    double      step = json_num(json_object_get(found, "step"), "seconds");
    struct wear w;
    char        text[SIZE];
    int         rc = wear_computed(&w, &s->run, err);

    if (rc)
        return rc;
    printf("Written: %s a step%s", opt_size_text(text, sizeof text, w.total),
           s->run.mode == RUN_MEM     ? " to the drive of RUN"
           : s->run.n_devices > 1     ? " to each device"
                                      : "");
    if (step > 0)
        printf(", %s a day", opt_size_text(text, sizeof text, wear_day(w.total, step)));
    printf("; %s in all\n", opt_size_text(text, sizeof text, w.total * steps));
    if (endurance > 0)
        printf("  a drive of --endurance %s lasts %.3g million steps; they take %.3g %% of it\n",
               opt_size_text(text, sizeof text, endurance), endurance / w.total / 1e6,
               100 * w.total * steps / endurance);
    return 0;
}

static void mem_line(const struct mem_choice *mem, const json_t *found)
{
    const json_t *timed = json_object_get(found, "mem");
    double        step = json_num(timed, "seconds");
    char          a[SIZE], b[SIZE];

    if (!mem->fits)
        return;
    printf("--mode mem fits, too: %s of %s", opt_size_text(a, sizeof a, (double)mem->memory),
           opt_size_text(b, sizeof b, (double)mem->limit));
    if (step > 0)
        printf(", %.3g s a step, and\n  %s instead of %s written a day, to all drives\n", step,
               opt_size_text(a, sizeof a, json_num(timed, "bytes_per_day")),
               opt_size_text(b, sizeof b, json_num(timed, "own_bytes_per_day")));
    else
        printf("%s, and\n  %s instead of %s written a step, to all drives\n",
               mem->as_fast ? ", as fast or faster" : "",
               opt_size_text(a, sizeof a, mem->written),
               opt_size_text(b, sizeof b, mem->written_own));
}

int plan_answer_print(const struct session *s, const struct budget *b, const struct mem_choice *mem,
                      const json_t *found, struct err *err)
{
    time_line(s, found);
    memory_line(b);
    int rc = disk_line(s, err);
    rc = rc ? rc : written_line(s, found, err);
    if (!rc)
        mem_line(mem, found);
    return rc;
}
