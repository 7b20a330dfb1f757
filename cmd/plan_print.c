/* plan_print.c: prints `siTrain plan` for people. First comes the answer in a few lines: time,
 * memory, disk, what is written, and whether RAM would be better. Then comes what it is computed
 * from. Times come from the JSON value of plan/prediction.h. */
#include "bench/bench.h"
#include "cmd/cmd.h"
#include "offload/estimate/traffic.h"
#include "plan/mem_choice.h"
#include "plan/snapshots_plan.h"
#include "plan/training_plan.h"
#include "plan/wear.h"
#include "run/folder/spares.h"

static void time_line(const struct session *s, const json_t *found)
{
    const json_t *step = json_object_get(found, "step"), *rows = json_object_get(found, "rows");
    double        steps = json_num(step, "steps");
    int           varies = training_varies(s);

    if (rows)
        printf("Time: %.3g s a step, %.0f tokens/s without padding, %.0f step%s: %s\n",
               json_num(rows, "seconds"), json_num(rows, "tokens_per_second"), steps,
               steps > 1 ? "s" : "", TIME_TEXT(json_num(rows, "run_seconds")));
    else if (step)
        printf("Time: %.3g s a step, %.0f tokens/s%s; %.0f step%s: %s\n",
               json_num(step, "seconds"),
               json_num(step, varies ? "padded_tokens_per_second" : "tokens_per_second"),
               varies ? " with padding, at most" : "", steps, steps > 1 ? "s" : "",
               TIME_TEXT(json_num(step, "run_seconds")));
}

static void memory_line(const struct budget *b)
{
    printf("Memory: %s of %s", SIZE_TEXT(b->total), SIZE_TEXT(b->limit));
    if (b->arenas)
        printf(" + %s devices", SIZE_TEXT(b->arenas));
    putchar('\n');
}

static int spares_print(const struct session *s, struct err *err)
{
    static const char *const names[] = { [RUN_SPARES_HALF] = "--spare-slots half",
                                         [RUN_SPARES_FEW] = "--spare-slots few",
                                         [RUN_SPARES_ALL] = "slots of --speculate" };
    enum run_spares other = s->run.spares == RUN_SPARES_FEW ? RUN_SPARES_HALF : RUN_SPARES_FEW;
    uint64_t        bytes;
    int             rc = spares_bytes(&bytes, s, other, err);

    if (!rc)
        printf("on %zu device%s (%s; %s: %s)\n", s->run.n_devices,
               s->run.n_devices == 1 ? "" : "s", names[s->run.spares],
               strrchr(names[other], ' ') + 1, SIZE_TEXT(bytes));
    return rc;
}

static void base_line(const struct session *s)
{
    struct link_meter m;
    double            bytes = 0;

    for (size_t b = 0; b < arch_blocks(&s->config); b++)
        bytes += (double)s->run.base_bytes[b];
    traffic_computed(&m, &s->run);
    printf("Base: %s in its own files, not on %s; ", SIZE_TEXT(bytes),
           s->run.mode == RUN_MEM ? "the drive of RUN" : "the devices");
    if (s->run.mode == RUN_MEM)
        printf("read once, when a training begins\n");
    else
        printf("%s read from them a step\n",
               SIZE_TEXT(m.bytes[LINK_FILES][CLASS_BASE][LINK_READ]));
}

/* Prints the space of the folders of --export-every: that of their fp32 tensors. */
static void exports_line(const struct session *s)
{
    const struct model_config *g = &s->config;
    uint64_t every = s->o.export_every, all = s->o.steps / every + (s->o.steps % every != 0);
    uint64_t limit = s->o.export_limit, kept = limit && limit < all ? limit : all;
    double   bytes = 0;

    for (size_t b = 0; b < arch_blocks(g); b++)
        if (!g->lora.rank || arch_block_kind(g, b) == ARCH_ADAPTER)
            bytes += 4 * (double)arch_block_size(g, b);
    printf("Exports: %s for %" PRIu64 " %s in RUN/checkpoint-STEP",
           SIZE_TEXT(bytes * (double)(kept + (kept < all))), kept,
           g->lora.rank ? kept > 1 ? "adapters" : "adapter" : kept > 1 ? "models" : "model");
    if (kept < all)
        printf(", and for the next one");
    printf("; %s written in all\n", SIZE_TEXT(bytes * (double)all));
}

static int disk_line(const struct session *s, struct err *err)
{
    struct run_memory m;
    int               rc = run_memory(&s->run, &m, err);

    if (rc)
        return rc;
    printf("Disk: %s ", SIZE_TEXT(m.device_bytes));
    int devices = s->run.mode != RUN_MEM;
    rc = devices ? spares_print(s, err) : 0;
    if (!devices)
        printf("for the images in RUN\n");
    if (!rc && s->run.base_end)
        base_line(s);
    if (!rc && s->o.export_every)
        exports_line(s);
    return rc;
}

/* Prints the bytes written to one device and, with --endurance, how much of its life they take. */
static int written_line(const struct session *s, const json_t *found, struct err *err)
{
    double      steps = (double)s->o.steps, endurance = (double)s->o.endurance;
    double      step = json_num(json_object_get(found, "step"), "seconds");
    struct wear w;
    int         rc = snapshots_plan_wear(&w, s, err);

    if (rc)
        return rc;
    printf("Written: %s a step%s", SIZE_TEXT(w.total),
           s->run.mode == RUN_MEM     ? " to the drive of RUN"
           : s->run.n_devices > 1     ? " to each device"
                                      : "");
    if (step > 0)
        printf(", %s a day", SIZE_TEXT(wear_day(w.total, step)));
    printf("; %s in all\n", SIZE_TEXT(w.total * steps));
    if (endurance > 0)
        printf("  a drive of --endurance %s lasts %.3g million steps; they take %.3g %% of it\n",
               SIZE_TEXT(endurance), endurance / w.total / 1e6, 100 * w.total * steps / endurance);
    return 0;
}

/* Prints the room of snapshots, what they write, and how much longer steps take. One more than are
 * kept is there while it is taken. */
static int snapshots_line(const struct session *s, const json_t *found, struct err *err)
{
    const struct train_opts *o = &s->o;
    double  step = json_num(json_object_get(found, "step"), "seconds"),
            longer = json_num(json_object_get(found, "snapshots"), "longer");
    int     on_devices = o->snapshot_on == TRAIN_SNAPSHOTS_DEVICES;
    struct snapshots_plan p;
    int     rc = snapshots_plan(&p, s, err);

    if (rc || !p.every)
        return rc;
    printf("Snapshots: %s each, room for %" PRIu64 " in %s: %s",
           SIZE_TEXT(p.each), o->snapshots + 1,
           on_devices          ? "the folders of all devices"
           : o->snapshot_dir.n ? "--snapshot-dir"
                               : "RUN/snapshots",
           SIZE_TEXT(p.each * (double)(o->snapshots + 1)));
    if (on_devices)
        printf("\n  %s of each is parity: %s for a drive of each device", SIZE_TEXT(p.parity),
               SIZE_TEXT(p.each * (double)(o->snapshots + 1) / (double)s->run.n_devices));
    double seconds = snapshots_plan_seconds(&p, s);
    if (o->snapshot_bw)
        printf("\n  taken in %.3g s at --snapshot-bw%s", seconds,
               step > 0 && seconds > step * (double)p.every
                   ? ", which is more than the steps between two take: training will wait" : "");
    else
        printf("\n  copied while the drives have time to spare; training goes on");
    if (longer > 0)
        printf("\n  with them, a step takes %.3f times as long on average", longer);
    if (step > 0)
        printf("\n  %s written a day, unless the file system shares blocks",
               SIZE_TEXT(wear_day(p.each / (double)p.every, step)));
    putchar('\n');
    return 0;
}

static void mem_line(const struct mem_choice *mem, const json_t *found)
{
    const json_t *timed = json_object_get(found, "mem");
    double        step = json_num(timed, "seconds");

    if (!mem->fits)
        return;
    printf("--mode mem fits, too: %s of %s", SIZE_TEXT(mem->memory), SIZE_TEXT(mem->limit));
    if (step > 0)
        printf(", %.3g s a step, and\n  %s instead of %s written a day, to all drives\n", step,
               SIZE_TEXT(json_num(timed, "bytes_per_day")),
               SIZE_TEXT(json_num(timed, "own_bytes_per_day")));
    else
        printf("%s, and\n  %s instead of %s written a step, to all drives\n",
               mem->as_fast ? ", as fast or faster" : "",
               SIZE_TEXT(mem->written), SIZE_TEXT(mem->written_own));
}

int plan_answer_print(const struct session *s, const struct budget *b, const struct mem_choice *mem,
                      const json_t *found, struct err *err)
{
    time_line(s, found);
    memory_line(b);
    int rc = disk_line(s, err);
    rc = rc ? rc : written_line(s, found, err);
    rc = rc ? rc : snapshots_line(s, found, err);
    if (!rc)
        mem_line(mem, found);
    return rc;
}

/* ---- the step ---- */

static void print_step(const json_t *found)
{
    const json_t *step = json_object_get(found, "step");
    const char   *pace = json_str(step, "pace");
    double        seconds = json_num(step, "seconds"), head = json_num(step, "head");

    printf("\nTime of a step, predicted from %s\n",
           *json_str(found, "machine") ? json_str(found, "machine") : "the machine's file");
    printf("  of it    forward %.3g s, ", json_num(step, "forward"));
    if (head > 0)
        printf("head %.3g s, ", head);
    printf("backward %.3g s,\n           gradients %.3g s, ", json_num(step, "backward"),
           json_num(step, "gradients"));
    if (json_num(found, "devices") > 0)
        printf("waits %.3g s; updates beside it %.3g s\n", json_num(step, "waits"),
               json_num(step, "update"));
    else
        printf("update %.3g s, images %.3g s\n", json_num(step, "update"),
               json_num(step, "images"));
    if (json_num(step, "network") > 0)
        printf("           over the network %.3g s, during the rest, except for block 0\n",
               json_num(step, "network"));
    printf("  pace     %s%s: %.0f %% of the step\n",
           strcmp(pace, "computing") ? "it waits for the " : "", pace,
           100 * json_num(step, "pace_seconds") / seconds);
}

/* Prints activations if there are more than two ways, or a choice between them. */
static void print_activations(const json_t *found)
{
    static const char *const parts[] = { "inputs", "attentions", "mlps" };
    const json_t *a = json_object_get(found, "activations");

    if (!json_is_true(json_object_get(a, "may_offload")))
        return;
    printf("  --activations %s, kept and offloaded of %.0f layers:", json_str(a, "asked"),
           json_num(a, "layers"));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *part = json_object_get(a, parts[i]);

        printf("%s%s %.0f + %.0f", i ? ", " : "\n           ", parts[i], json_num(part, "kept"),
               json_num(part, "offloaded"));
    }
    printf("%s\n", json_is_true(json_object_get(a, "whole")) ? ", offloaded whole" : "");
}

static void print_more(const json_t *found)
{
    const json_t *rows = json_object_get(found, "more"), *row;
    size_t        i;

    json_array_foreach(rows, i, row) {
        double kept = json_num(row, "kept_layers"),
               had = json_num(json_object_get(found, "step"), "kept_layers");

        printf("  %-25s %.3g s, %+.1f %%", json_str(row, "what"), json_num(row, "seconds"),
               100 * json_num(row, "change"));
        if (kept > had)
            printf(": activations of %.0f more layer%s kept", kept - had,
                   kept - had > 1 ? "s are" : " is");
        printf("\n");
    }
}

static void print_largest(const json_t *found)
{
    const json_t *l = json_object_get(found, "largest");
    const char   *preset = json_str(l, "preset");

    if (!json_is_true(json_object_get(l, "fits"))) {
        printf("  It does not fit on the disk: %s are free\n", SIZE_TEXT(json_num(l, "disk_free")));
        return;
    }
    printf("  largest that fits         --batch %.0f, or --n-layer %.0f, or\n"
           "                            --n-embd %.0f", json_num(l, "batch"),
           json_num(l, "n_layer"), json_num(l, "n_embd"));
    printf(*preset ? ", or --model %s\n" : "%s\n", preset);
}

void plan_step_print(const json_t *found)
{
    const json_t *drives = json_object_get(found, "drives");
    double        day = json_num(drives, "bytes_per_day"), years = json_num(drives, "years");

    print_step(found);
    print_activations(found);
    print_more(found);
    print_largest(found);
    if (day > 0)
        printf("  each drive is written     %s a day", SIZE_TEXT(day));
    if (day > 0 && years > 0)
        printf(": one of --endurance %s lasts %.2g years",
               SIZE_TEXT(json_num(drives, "endurance")), years);
    if (day > 0)
        printf("\n");
}

/* ---- all modes ---- */

void plan_modes_print(const json_t *found)
{
    static const struct bench_column own[] = {
        {"mode", "mode", NULL, 0}, {"step", "a step, s", "%.4g", 1},
        {"forward", "forward", "%.4g", 1}, {"backward", "backward", "%.4g", 1},
        {"speedup", "speed-up", "%.2f", 1}, {"T_opt", "T_opt", "%.4g", 1},
        {"T_swap", "T_swap", "%.4g", 1}, {"T_grad", "T_grad", "%.4g", 1},
        {"F", "F", "%.4g", 1}, {"B", "B", "%.4g", 1}, {0}};
    static const struct bench_column in_turn[] = {
        {"mode", "mode", NULL, 0}, {"step", "a step, s", "%.4g", 1},
        {"forward", "forward", "%.4g", 1}, {"backward", "backward", "%.4g", 1},
        {"update", "update", "%.4g", 1}, {"speedup", "speed-up", "%.2f", 1}, {0}};
    const json_t *rows = json_object_get(found, "predictions");
    json_t       *turns = json_array(), *row, *copy;
    const char   *name = json_str(found, "machine");
    size_t        i;

    json_array_foreach(rows, i, row) {
        copy = json_copy(json_object_get(row, "turns"));
        json_object_set(copy, "mode", json_object_get(row, "mode"));
        json_array_append_new(turns, copy);
    }
    printf("\nTime on %.0f device%s of %s (predicted from what describes it: nothing was "
           "measured)\n", json_num(found, "devices"), json_num(found, "devices") > 1 ? "s" : "",
           *name ? name : "the machine");
    bench_table(rows, own, NULL);
    printf("  forward has the updates behind which it runs; T_opt, T_swap, T_grad: updates, reads "
           "of parameters,\n  writes of gradients, each by itself; F, B: computing\n");
    printf("\nThe same with phases one after the other, as ZeRO-Infinity and Smart-Infinity have "
           "them\n");
    bench_table(turns, in_turn, NULL);
    json_decref(turns);
}
