/* training.c: runs the loop over steps, with evaluations and records. Everything is opened before
 * the first step; a step allocates nothing. A requested stop (events.h) lets the step finish and
 * commit. A resume continues after a kill. */
#include "run/loop/training.h"

#include "data/base/clock.h"
#include "data/base/machine.h"
#include "kernels/attention/attention.h"
#include "model/together.h"
#include "offload/devices/devices.h"
#include "offload/upkeep/recovery.h"
#include "plan/mem_choice.h"
#include "plan/wear.h"
#include "run/folder/base_folder.h"
#include "run/folder/drives.h"
#include "run/folder/settings.h"
#include "run/folder/tensorboard.h"
#include "run/loop/best.h"
#include "run/loop/checkpoints.h"
#include "run/loop/live.h"
#include "run/loop/past_steps.h"
#include "run/loop/resume_opts.h"
#include "run/loop/scrubbing.h"
#include "run/loop/snapshotting.h"
#include "run/ranks/job_run.h"
#include "run/snapshots/damaged.h"
#include "run/snapshots/lost.h"
#include "run/sources/corpus_open.h"
#include "run/sources/source.h"

#include <math.h>

struct training {
    struct session *s;
    struct budget   plan;
    struct mem_choice mem;    // only of a new run
    struct stream  *stream;
    struct trainer *trainer;
    struct source    *source;
    struct tensorboard *board; // NULL: no --tensorboard
    int             blas; // the run's --blas; s->o.blas is the engine in use
    int             evaluates;
    int             whole;    // an offloaded MLP includes all that backward needs
    uint64_t        skipped; // consecutive skipped steps so far
    struct best     best;
    struct live     live;
    struct scrubbing *scrub; // NULL: no --scrub-bw
    struct ending   ending;
    struct wear     wear;
    struct snapshotting snapshots;
    uint64_t        first;    // the first step of this process
    uint64_t        begun_ns; // its start
    double          step_seconds; // duration of the last step; 0: none yet
};

enum { MISSES_EVAL = 1 << 0, MISSES_EXPORT = 1 << 1 }; // the step before the first one

/* ---- opening ---- */

/* Continue with the engine that computed the run so far, because oneDNN and OpenBLAS differ in the
 * last bits. If this build lacks it, another engine is used, and record_engine reports that. */
static void keep_engine(struct session *s)
{
    char *engine = settings_get(s->log, "engine");

    if (!engine)
        return;
    int known = opt_words_find(matmul_engine_name, engine, strcspn(engine, " "));
    if (known > 0 && s->o.blas == MATMUL_AUTO)
        s->o.blas = known;
    if (!matmul_has((enum matmul_engine)s->o.blas))
        s->o.blas = MATMUL_AUTO;
    free(engine);
}

static int record_engine(struct training *t, struct err *err)
{
    const char *attention = attention_describe((enum dtype)t->s->o.dtype);
    int         in_fp32 = !strcmp(attention, "fp32"), rc = 0;
    char       *before = settings_get(t->s->log, "engine"), now[192];

    snprintf(now, sizeof now, "%s%s%s", trainer_engine(t->trainer), in_fp32 ? "" : ", attention ",
             in_fp32 ? "" : attention);
    if (!before) {
        rc = settings_set(t->s->log, err, "engine=%s", now);
    } else if (strcmp(before, now)) {
        rc = session_notice(t->s, err, "products ran on %s, now on %s: the last bits may differ",
                            before, now);
    }
    free(before);
    return rc ? rc : job_run_engines(t->s, now, err);
}

/* Store the memory plan as settings memory.00, memory.01, ...: "BYTES NAME". The last ones are the
 * total, the limit and the arenas. Remaining settings of a longer, earlier plan are removed. */
static int record_memory(const struct training *t, struct err *err)
{
    const struct budget     *b = &t->plan;
    const struct budget_item last[] = { { "total", b->total, "" }, { "limit", b->limit, "" },
                                        { "arenas of emulated devices", b->arenas, "" } };
    enum { LAST = sizeof last / sizeof *last, MOST = sizeof b->items / sizeof *b->items + LAST };
    int rc = 0;

    for (size_t i = 0; i < MOST && !rc; i++) {
        const struct budget_item *item = i < b->n_items          ? &b->items[i]
                                         : i < b->n_items + LAST ? &last[i - b->n_items]
                                                                 : NULL;
        char                      key[32];

        snprintf(key, sizeof key, "memory.%02zu", i);
        rc = item ? settings_set(t->s->log, err, "%s=%" PRIu64 " %s", key, item->bytes, item->name)
                  : runlog_unset(t->s->log, key, err);
    }
    return rc;
}

/* Store the plan's choices, which the computed traffic depends on. If batches vary in shape, or
 * `auto` varies the number of records, 0 is stored and no traffic is computed. */
static int record_plan(struct training *t, struct err *err)
{
    const struct run_config *r = &t->s->run;
    int varies = training_varies(t->s) || train_activations[t->s->o.activations].adapts;

    int rc = record_memory(t, err);

    return rc ? rc : settings_set(t->s->log, err,
                        "frames=%zu\nresidual_in_ram=%d\nrecords=%zu\nrecord_bytes=%zu\n"
                        "record_buffers=%zu\nrecord_whole=%d\nacts_written=%" PRIu64
                        "\nacts_read=%" PRIu64,
                        r->frames, r->residual_in_ram != 0, varies ? 0 : r->acts.n, r->acts.bytes,
                        r->acts.buffers, r->acts.buffers && t->whole,
                        varies ? 0 : r->acts.written, varies ? 0 : r->acts.read);
}

/* Store the drives of activations (--act-device), which this process may have changed. */
static int record_acts(const struct session *s, struct err *err)
{
    const struct run_config *r = &s->run;
    int                      rc = 0;

    if (r->mode != RUN_MEM)
        rc = runlog_devices_forget(s->log, (int)r->n_devices, err);
    for (size_t i = 0; i < r->n_act_devices && !rc; i++)
        rc = runlog_device(s->log, (int)(r->n_devices + i), r->act_paths[i], r->csd->name, r->disk,
                           devices_act_area(r), err);
    return rc;
}

/* Store the options, which a resume may have changed, once everything could be opened with them.
 * One transaction stores all or nothing. first: the first step that this process trains; NULL: it
 * trains none. */
static int record_options(const struct training *t, const uint64_t *first, struct err *err)
{
    struct session *s = t->s;
    int             kept = s->o.blas, rc = runlog_begin(s->log, err);

    if (rc)
        return rc;
    s->o.blas = t->blas;
    rc = schedule_end_record(s, t->first, err);
    rc = rc ? rc : session_store_options(s, 0, err);
    rc = rc || !first ? rc : ending_record(s->log, ENDING_OPEN, err);
    s->o.blas = kept;
    rc = rc ? rc : record_acts(s, err);
    rc = rc ? rc : drives_record(s, err);
    rc = rc ? rc : moved_settle(s->moved, &s->run, err);
    if (!rc && first)
        rc = runlog_process(s->log, *first, err);
    return runlog_end(s->log, rc, err);
}

/* Open the stream and complete an interrupted step. After that, the database is free until the
 * first step. */
static int open_stream(struct training *t, char *notice, size_t size, struct err *err)
{
    struct watch w = work_begin(t->s->events, "opening %s", t->s->dir);

    t->s->run.watch = &w;
    int rc = run_train(&t->stream, &t->s->run, notice, size, err);
    t->s->run.watch = NULL;
    rc = rc ? rc : stream_drain(t->stream, err);
    rc = rc ? rc : watch_look(&w, 0, 0, err);
    work_end(t->s->events);
    return rc;
}

/* Send a notice if the devices are fake, because the run then trains nothing. */
static int notice_fake(struct session *s, struct err *err)
{
    const struct run_config *cfg = &s->run;

    if (cfg->mode == RUN_MEM || !devices_fake(cfg))
        return 0;
    return session_notice(s, err, "--%s null stores nothing and trains nothing: the losses mean "
                          "nothing, and no model is left at the end; it shows how long steps take",
                          cfg->csd->flags & CSD_FAKE ? "csd" : "disk");
}

static int training_open(struct training *t, struct err *err)
{
    struct session        *s = t->s;
    uint64_t               rows = source_rows(s);
    char                   notice[512] = "";
    int                    rc = source_open(&t->source, s, err);

    if (rc)
        return rc;
    t->evaluates = source_has_eval(s);
    if (s->o.keep_best && !t->evaluates)
        return err_misuse(err, "--keep-best needs something to evaluate on, and %s has nothing",
                          s->dir);
    if ((rc = snapshotting_check(s, err)) || (rc = best_open(&t->best, s, err)) ||
        (rc = checkpoints_open(s, t->first, err)) ||
        (rc = training_plan_here(&t->plan, s, rows, err)) || (rc = job_run_frames(s, err)))
        return rc;
    if (!t->first) // first: the plan of mem opens the engine, too
        mem_choice_make(&t->mem, s, &t->plan, rows);
    struct trainer_options o = training_options(s);
    const struct train_activations *acts = &train_activations[s->o.activations];
    o.model.doubled = t->plan.doubled;
    o.model.placement = memory_placement(&t->plan, &o.model, acts);
    o.model.whole = t->whole = memory_whole(&t->plan, &s->run, &o.model);
    o.model.pool = t->plan.pool, o.model.spare = t->plan.spare;
    o.model.packs_head = t->plan.packs_head;
    o.adapts = t->plan.record_buffers ? acts->adapts : ADAPT_NOT; // otherwise nothing to choose
    rc = open_stream(t, notice, sizeof notice, err);
    rc = rc ? rc : best_clean(s, err); // now that the devices are this process's
    if (!rc && *notice)
        rc = session_notice(s, err, "%s", notice);
    rc = rc ? rc : notice_fake(s, err);
    if (!rc && s->o.speculate && s->spares != RUN_SPARES_ALL)
        rc = session_notice(s, err,
                            "--speculate is limited by the devices' spare slots, which are few: "
                            "the run was made without --speculate, on a small disk, or with "
                            "--spare-slots half or few");
    if (rc || (rc = record_plan(t, err)) || (rc = trainer_open(&t->trainer, &o, t->stream, err)) ||
        (rc = tensorboard_open(&t->board, s->ranks.rank ? NULL : s->o.tensorboard, s->dir, t->first,
                               s->events, err)) || // only rank 0 writes it
        (rc = record_options(t, &t->first, err)))
        return rc;
    return record_engine(t, err);
}

/* The reference of a run of pairs is the model before the first step. Ranks compute it together,
 * even if one of them lacks it alone. */
static int open_reference(struct training *t, struct err *err)
{
    struct session *s = t->s;
    uint64_t        lacks = (uint64_t)source_lacks_reference(t->source);
    int             rc = together_add(s->ranks.comm, &lacks, NULL, err);

    if (rc || !lacks)
        return rc;
    if (t->first)
        return err_set(err, -EBADMSG, "%s lacks what the model said to its pairs before the first "
                       "step (train.ref, dev.ref), and it is not known any more: put a copy of "
                       "these files there", s->dir);
    events_kill_costs(s->events, "--resume computes it again");
    rc = source_reference(t->source, t->trainer, err);
    if (!rc && s->run.mode != RUN_MEM) // the stream owns the database until it is drained
        rc = stream_drain(t->stream, err);
    return rc ? rc : source_keep_reference(t->source, s, err);
}

static void training_close(struct training *t)
{
    live_close(&t->live);
    scrubbing_close(t->scrub);
    snapshotting_close(&t->snapshots);
    tensorboard_close(t->board);
    trainer_close(t->trainer);
    stream_close(t->stream);
    source_close(t->source);
}

/* ---- evaluations ---- */

/* Store an evaluation's values, and the record of the best model, in one transaction. Its metered
 * times are stored with the next step's or, after the last step, here. */
static int store_values(struct training *t, const struct source_values *v, struct err *err)
{
    struct runlog *log = t->s->log;
    uint64_t       step = v->told.step;
    int            rc = runlog_begin(log, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < v->told.n && !rc; i++)
        rc = runlog_eval(log, step, v->told.value[i].name, v->told.value[i].value, err);
    rc = rc ? rc
            : settings_set(log, err, "dev.seconds=%.17g\ndev_mm.seconds=%.17g", v->seconds[0],
                           v->seconds[1]);
    if (!rc && v->told.best)
        rc = best_store(&t->best, t->s, v, err);
    if (!rc && step + 1 == t->s->o.steps)
        rc = meter_flush(t->stream->meter, step + 1, log, err);
    return runlog_end(log, rc, err);
}

/* Evaluate the parameters after step `step`. */
static int run_eval(struct training *t, uint64_t step, struct err *err)
{
    const struct events *e = t->s->events;
    uint64_t             start_ns = clock_ns();
    struct source_values   v;

    events_kill_costs(e, "--resume evaluates again");
    int rc = source_evaluate(t->source, t->trainer, step + 1, &v, err);
    v.told.step = step;
    // The stream owns the database until it is drained. In mem this thread owns it, and a drain is
    // an image.
    if (!rc && t->s->run.mode != RUN_MEM)
        rc = stream_drain(t->stream, err);
    if (!rc && t->s->o.keep_best && best_beats(&t->best, &v)) {
        v.told.best = 1;
        rc = best_export(t->s, t->stream, step + 1, err);
    }
    rc = rc ? rc : store_values(t, &v, err);
    rc = rc ? rc : ending_evaluated(&t->ending, t->s, step + 1,
                                    (double)(clock_ns() - start_ns) * 1e-9, err);
    if (rc)
        return rc;
    tensorboard_evaluation(t->board, &v.told);
    if (e && e->evaluation)
        e->evaluation(e->ctx, &v.told);
    return 0;
}

/* ---- skipped steps ---- */

/* Count and report a skipped step. -EDOM if too many in a row were skipped. */
static int count_skipped(struct training *t, uint64_t step, const struct step_result *r,
                         struct err *err)
{
    uint64_t most = t->s->o.max_skipped;
    static const char *const kinds[] = { "the embeddings", "a layer", "the final norm",
                                         "the head" };
    char     where[96] = "the loss is not finite";
    size_t   b = r->skip_block;

    t->skipped = r->skipped ? t->skipped + 1 : 0;
    if (!r->skipped)
        return 0;
    if (b != SIZE_MAX)
        snprintf(where, sizeof where, "a gradient is not finite, first that of block %zu (%s)", b,
                 kinds[arch_block_kind(&t->s->config, b)]);
    int rc = t->s->run.mode != RUN_MEM || (most && t->skipped >= most)
                 ? stream_drain(t->stream, err)
                 : 0;
    if (!rc)
        rc = session_notice(t->s, err, "step %" PRIu64 " is skipped: %s", step + 1, where);
    if (!rc && most && t->skipped >= most)
        rc = err_set(err, -EDOM, "%llu steps in a row were skipped, the last of them step %llu: "
                     "%s; these steps changed no parameter; go on with --resume %s and a larger "
                     "--max-skipped, or make a new run with a smaller --lr",
                     (unsigned long long)t->skipped, (unsigned long long)step + 1, where,
                     t->s->dir);
    return rc;
}

/* ---- exports ---- */

/* Write RUN/checkpoint-DONE, the model of the steps that are done. */
static int run_export(struct training *t, uint64_t done, struct err *err)
{
    uint64_t start_ns = clock_ns();

    events_kill_costs(t->s->events, "--resume writes the model again");
    int rc = checkpoints_export(t->s, t->stream, done, err);
    ending_exported(&t->ending, (double)(clock_ns() - start_ns) * 1e-9);
    return rc;
}

/* ---- the loop ---- */

enum { WEAR_STEPS = 10 }; // steps needed to measure a speed

static int wear_before(struct training *t, uint64_t next, struct err *err)
{
    double seconds = 0;
    int    rc = wear_computed(&t->wear, &t->s->run, err);

    if (!rc && next >= WEAR_STEPS)
        rc = past_seconds(t->s, next, &seconds, err);
    wear_warn(&t->wear, t->s->events, seconds, (double)t->s->o.endurance);
    t->begun_ns = clock_ns();
    return rc;
}

/* Report what a stop during this step waits for, and what a kill loses. In mem a kill loses all
 * steps since the last image. */
static void tell_what_a_stop_does(const struct training *t, uint64_t step)
{
    const struct events *e = t->s->events;
    uint64_t image = step - (step - t->first) % t->s->o.commit_every;

    events_stop_waits(e, t->step_seconds, step + 1, "done and committed");
    if (t->s->run.mode == RUN_MEM)
        events_kill_costs(e, "--resume goes on after step %llu, the last one in an image",
                          (unsigned long long)image);
    else
        events_kill_costs(e, "--resume computes this step again");
}

/* True if this step writes an image. */
static int commits_image(const struct training *t, uint64_t step)
{
    return t->s->run.mode == RUN_MEM && (step + 1 - t->first) % t->s->o.commit_every == 0;
}

/* Train one step; report, record and evaluate it. */
static int one_step(struct training *t, uint64_t step, struct err *err)
{
    struct batch_source  data = { source_batch, t->source };
    const struct events *e = t->s->events;
    struct step_result   r;
    uint64_t             start_ns = clock_ns(), moved = meter_io(t->stream->meter).bytes;

    tell_what_a_stop_does(t, step);
    int rc = train_step(t->trainer, step, &data, &r, err);
    if (rc)
        return rc;
    t->step_seconds = (double)(clock_ns() - start_ns) * 1e-9;
    ending_step(&t->ending, t->s, t->step_seconds, commits_image(t, step));
    struct meter_io io = meter_io(t->stream->meter);
    double          hidden = io.busy_ns ? 1 - (double)io.waited_ns / (double)io.busy_ns : -1;
    struct training_step told = { step, &r, hidden, rss_peak() };
    tensorboard_step(t->board, &told, t->step_seconds, io.bytes - moved);
    if (e && e->step)
        e->step(e->ctx, &told);
    rc = count_skipped(t, step, &r, err);
    if (!rc && t->first == 0 && step + 1 == WEAR_STEPS)
        wear_warn(&t->wear, e, (double)(clock_ns() - t->begun_ns) * 1e-9 / WEAR_STEPS,
                  (double)t->s->o.endurance);
    rc = !rc && t->evaluates && past_eval_due(t->s, step) ? run_eval(t, step, err) : rc;
    return !rc && checkpoints_due(t->s, step + 1) ? run_export(t, step + 1, err) : rc;
}

/* Between steps: why training ends before this one, on all ranks alike (enum job_stop), or -errno.
 * A model that another process asks for is given, in which time the end may be asked for. */
static int between_steps(struct training *t, uint64_t step, struct err *err)
{
    int      evaluates = t->evaluates && past_eval_due(t->s, step), answers, rc;
    int      exports = checkpoints_due(t->s, step + 1);
    uint64_t readers = live_asked(&t->live, t->s);

    scrubbing_step(t->scrub, step);
    do {
        rc = job_run_stop(t->s, t->ending.over                          ? JOB_EARLY
                                : ending_is_time(&t->ending, evaluates, exports) ? JOB_TIME
                                                                        : JOB_GOES_ON,
                          &readers, err);
        answers = !rc && readers;
        rc = answers ? live_answer(&t->live, t->s, t->stream, step, err) : rc;
        readers = 0;
    } while (answers && !rc);
    return rc ? rc : snapshotting_step(&t->snapshots, step, step == t->first
                                           ? SNAPSHOTTING_BEGINS : SNAPSHOTTING_BETWEEN, err);
}

/* Nothing is left to train. Of a fine-tuning, results are (finetune_results.h). */
static int record_end(struct session *s, enum ending_how how, struct err *err)
{
    return settings_has(s->log, "task") && !s->ranks.rank ? 0 : ending_record(s->log, how, err);
}

/* Train the steps from t->first on. What is missing of the step before them comes first. */
static int train_steps(struct training *t, int missing, struct training_end *end, struct err *err)
{
    const struct train_opts *o = &t->s->o;
    uint64_t                 step = t->first;
    int                      rc = past_skipped(t->s, step, &t->skipped, err);

    t->snapshots.stream = t->stream;
    if (!devices_fake(&t->s->run))
        live_open(&t->live, t->s);
    rc = rc ? rc : wear_before(t, step, err);
    rc = rc ? rc : scrubbing_open(&t->scrub, t->s, t->stream, err);
    if (missing & MISSES_EVAL && !rc)
        rc = run_eval(t, step - 1, err);
    if (missing & MISSES_EXPORT && !rc)
        rc = run_export(t, step, err);
    for (; step < o->steps && !rc && !(rc = between_steps(t, step, err)); step++)
        rc = one_step(t, step, err);
    int why = rc > 0 ? rc : 0;
    rc = why ? 0 : rc;
    int stopped = rc == -EINTR && err->stopped; // in an evaluation: all steps are complete
    events_stop_waits(t->s->events, 0, step, "committed");
    events_kill_costs(t->s->events, "--resume goes on from the last commit");
    if (!rc || stopped)
        rc = stream_drain(t->stream, err);
    if (!rc && !stopped && (!why || why == JOB_EARLY))
        rc = snapshotting_step(&t->snapshots, step, SNAPSHOTTING_ENDS, err);
    else if (!rc)
        rc = snapshotting_stop(&t->snapshots, err);
    scrubbing_stop(t->scrub);
    scrubbing_step(t->scrub, step);
    rc = rc ? rc : scrubbing_record(t->scrub, err);
    if (!rc) // record the time waited for the drain
        rc = meter_flush(t->stream->meter, step, t->s->log, err);
    *end = (struct training_end){ stopped || why == JOB_ASKED ? TRAINING_STOPPED
                                  : why == JOB_EARLY          ? TRAINING_EARLY
                                  : why == JOB_TIME           ? TRAINING_TIME
                                                              : TRAINING_DONE,
                                  step, o->steps, stopped, t->ending,
                                  t->evaluates && past_eval_due(t->s, step),
                                  checkpoints_due(t->s, step + 1) };
    if (!rc && end->how != TRAINING_STOPPED && end->how != TRAINING_TIME)
        rc = record_end(t->s, why == JOB_EARLY ? ENDING_EARLY : ENDING_STEPS, err);
    return rc;
}

/* Report that the first step begins, and what is trained on. */
static int tell_begin(const struct training *t, struct err *err)
{
    struct session        *s = t->s;
    struct training_begins told = { &s->o, &s->config, training_varies(s), &t->plan,
                                    trainer_engine(t->trainer),
                                    matmul_by_threads(trainer_engine(t->trainer)), t->first,
                                    &t->mem, NULL, 0,
                                    s->o.batch * s->o.grad_accum /
                                        (s->rows == SESSION_PAIRS ? 2 : 1),
                                    settings_has(s->log, "task") };
    struct training_source  *sources;
    int rc = source_told(&sources, &told.n_sources, s, 0, err);

    told.sources = sources;
    if (!rc && s->events && s->events->training)
        s->events->training(s->events->ctx, &told);
    corpus_sources_free(sources, told.n_sources);
    return rc;
}

/* Every step is done, or training ended early: nothing is trained, but other options are stored. */
static int nothing_left(struct training *t, struct training_end *end, struct err *err)
{
    int early = t->first < t->s->o.steps, rc = session_recover(t->s, err);

    rc = rc ? rc : best_clean(t->s, err); // of the last step, which a kill cut short
    checkpoints_clean(t->s);
    rc = rc ? rc : record_options(t, NULL, err);
    rc = rc ? rc : snapshotting_step(&t->snapshots, t->first, SNAPSHOTTING_ENDS, err);
    *end = (struct training_end){ early ? TRAINING_EARLY : TRAINING_NOTHING_LEFT, t->first,
                                  t->s->o.steps, 0, t->ending, 0, 0 };
    return rc ? rc : record_end(t->s, early ? ENDING_EARLY : ENDING_STEPS, err);
}

int training_run(struct session *s, struct training_end *end, struct err *err)
{
    struct training t = { .s = s, .blas = s->o.blas, .live.fd = -1, .snapshots.s = s };
    char            line[SESSION_LINE];
    uint64_t        next, applied;
    int             missing, export = 0, rc = job_run_keeps(s, err); // before options are stored

    rc = rc ? rc : base_folder_open(s, 1, err);
    rc = rc ? rc : recovery_run(&s->run, err);
    rc = rc ? rc : run_position(&s->run, &next, &applied, err);
    if (rc)
        return rc;
    keep_engine(s);
    rc = past_eval_missing(s, next, &missing, err); // what a kill has kept the last step from
    rc = rc ? rc : checkpoints_missing(s, next, &export, err);
    missing = (missing ? MISSES_EVAL : 0) | (export ? MISSES_EXPORT : 0);
    if (s->o.steps < next) // completed steps stay, and --steps covers them
        s->o.steps = next;
    if (rc || (rc = job_run_begin(s, next, &missing, err)))
        return rc;
    t.first = next;
    if ((rc = ending_open(&t.ending, s, next, err)))
        return rc;
    if (!missing && next < s->o.steps && s->o.early_stopping) // it may have been over before
        rc = job_run_stop(s, t.ending.over ? JOB_EARLY : JOB_GOES_ON, &(uint64_t){ 0 }, err);
    if (rc < 0 || rc == JOB_EARLY || (next == s->o.steps && !missing))
        return rc < 0 ? rc : lost_explain(s, nothing_left(&t, end, err), err);
    events_kill_costs(s->events, "--resume goes on from the last commit");
    rc = training_open(&t, err);
    rc = rc ? rc : open_reference(&t, err);
    rc = rc ? rc : job_run_patience(s, err);
    if (!rc) {
        tell_what_a_stop_does(&t, next);
        rc = tell_begin(&t, err);
        rc = rc ? rc : train_steps(&t, missing, end, err);
    } else if (rc == -EINTR && err->stopped) {
        err_stopped(err, "stopped before a step was begun; go on with: %s",
                    session_resume_line(line, s));
    }
    training_close(&t);
    return damaged_explain(s, lost_explain(s, session_explain(s, rc, err), err), err);
}
