/* check.c: reads everything that a run has, its database, states, data and exports, and says
 * whether it is whole. Findings are on stdout, one line per kind. Each damage is a sentence on
 * stderr. Nothing is written without --repair. */
#include "cmd/check_data.h"
#include "cmd/check_scrub.h"
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "csd/disk/disk.h"
#include "data/file/file.h"
#include "data/tensors/safetensors.h"
#include "data/text/tokenizer.h"
#include "model/file/finite.h"
#include "model/file/peft.h"
#include "offload/upkeep/recovery.h"
#include "offload/upkeep/verify.h"
#include "run/folder/base_folder.h"
#include "run/folder/exports.h"
#include "run/folder/result_files.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/loop/best.h"
#include "run/loop/checkpoints.h"
#include "run/ranks/job_run.h"
#include "run/ranks/rank_dir.h"
#include "run/ranks/rank_owner.h"
#include "run/sources/corpus_open.h"

#define AT(field) offsetof(struct check_opts, field)

/* Names of disks. One that stores nothing has nothing to check. */
static const char *disk_word(size_t i)
{
    return disk_at(i) && !(disk_at(i)->flags & DISK_FAKE) ? disk_name(i) : NULL;
}

static const struct opt_row rows[] = {
    { "RUN|HFDIR", OPT_ARG, AT(what), .file = OPT_FILES_MODEL,
      .help = "Run, or folder that export wrote" },
    { "repair", OPT_FLAG, AT(repair),
      .help = "Repair the run as far as possible. Wire parameters are made from their master; a "
              "superblock is written again. In mode mem, the run returns to its previous image. "
              "Damaged rows of measurements are dropped. A damaged log in run.db is cut off if "
              "the rest of the run matches." },
    { "scrub", OPT_FLAG, AT(scrub),
      .help = "Read the states, the best model and the snapshots, also while another process "
              "trains the run. siTrain writes nothing and takes no lock of the run." },
    { "scrub-bw", OPT_SIZE, AT(scrub_bw),
      .help = "With --scrub: bytes/s that are read (default: 0, no limit)" },
    OPT_BASE_ROW(AT(base), OPT_COMMAND),
    { "disk", OPT_WORD, AT(disk), "uring", disk_word,
      .help = "How devices are read (default: as the run does)" },
    { "quiet", OPT_FLAG, AT(quiet), .help = "Print only damage" },
    { 0 }
};
static const struct opt_part parts[] = {{"Options", rows, 0}, {0}};

/* ---- the parts of a run ---- */

static int check_database(struct check *c, struct runlog_check *out, struct err *err)
{
    int rc = runlog_check(c->s.log, c->mend, check_damage, c, out, err);

    if (rc)
        return rc;
    c->mended += out->mended;
    check_line(c, "run.db", out->bytes,
               "%" PRIu64 " settings, %" PRIu64 " steps, %" PRIu64 " evaluations%s",
               out->settings, out->steps, out->evals,
               out->mended ? "; damaged steps and evaluations are dropped" : "");
    return 0;
}

/* Checks that run.db has a row for each step of the journal, and no other. In mode mem, there are
 * also rows since the last image. */
static void check_steps(struct check *c, const struct runlog_check *db, uint64_t next_step)
{
    struct err text;

    if (db->damaged > db->mended ||
        (c->s.run.mode == RUN_MEM ? db->steps >= next_step : db->steps == next_step))
        return;
    err_set(&text, 0, "%s/run.db: table steps ends after step %" PRIu64 ", but %" PRIu64
            " steps are committed", c->s.dir, db->steps, next_step);
    check_damage(c, text.text);
    for (uint64_t step = db->steps; c->mend && step < next_step; step++)
        if (runlog_step_forget(c->s.log, step))
            return;
    c->mended += c->mend && db->steps < next_step;
}

static int check_states(struct check *c, const struct runlog_check *db, struct err *err)
{
    struct watch  w = work_begin(&say_events, "checking the states of %s", c->o->what);
    struct verify v = { .mend = c->mend, .say = check_say, .ctx = c, .watch = &w };
    int           rc = verify_run(&v, &c->s.run, err);

    work_end(&say_events);
    for (size_t k = 0; k < VERIFY_KINDS; k++) {
        const struct verify_count *n = &v.count[k];
        char                       damaged[48] = "", mended[48] = "";

        c->mended += n->mended;
        c->states_lost |= k != VERIFY_WIRE && k != VERIFY_SUPERBLOCK && n->damaged > n->mended;
        if (n->damaged)
            snprintf(damaged, sizeof damaged, ", %" PRIu64 " damaged", n->damaged);
        if (n->mended)
            snprintf(mended, sizeof mended, ", %" PRIu64 " made again", n->mended);
        if (n->n || n->damaged)
            check_line(c, verify_names[k], n->bytes, "%" PRIu64 "%s%s", n->n, damaged, mended);
    }
    if (rc)
        return rc;
    if (v.half_done)
        check_line(c, "", 0, "step %" PRIu64 " is half done: --resume finishes it from its "
                   "gradients", v.next_step);
    check_steps(c, db, v.next_step);
    return 0;
}

/* Reads an adapter's description. Its base is not read. */
static int open_adapter(const struct model_config *own, const char *path, struct err *err)
{
    struct model_config g = lora_base(own);
    int                 rc = peft_config(&g, path, err);

    return rc || g.lora.rank == own->lora.rank
               ? rc
               : err_misuse(err, "%s/adapter_config.json has \"r\" %zu, but this run's adapters "
                            "have %zu", path, (size_t)g.lora.rank, (size_t)own->lora.rank);
}

/* Opens the best model at `path`, and the run's tokenizer in it, as a reader would. Its parameters
 * were found to be whole, and are not read again; its other files may be damaged. */
static void open_best(struct check *c, const char *path, struct err *err)
{
    struct params_source none = { 0 };
    struct best          b;
    struct hf           *whole = NULL;
    struct peft         *part = NULL;
    struct tokenizer    *words = NULL;
    struct model_config  g = c->s.config;
    char                 own[SESSION_PATH + 16];
    int                  rc = best_load(&b, &c->s, err);

    if (!rc && b.any && g.lora.rank)
        rc = open_adapter(&g, path, err);
    else if (!rc && b.any)
        rc = best_folder(&whole, &part, &none, &b, &c->s, 1, err);
    snprintf(own, sizeof own, "%s/tokenizer", c->s.dir); // without one, any there is its user's
    int ours = tokenizer_is_there(own);
    if (!rc && b.any)
        rc = check_besides(path, g.lora.rank ? NULL : &g, ours, err);
    if (!rc && ours && tokenizer_is_there(path)) {
        int opened = tokenizer_open(&words, path, err);
        if (opened == -ENOTSUP || file_is_unknown(opened)) // of a class that nothing names
            *err = (struct err){ 0 };
    }
    tokenizer_close(words);
    hf_close(whole);
}

/* Checks the best model. If a training was killed while exporting it, best.folder (and best.next,
 * which a copy of the run has, too) already names the new one, and --resume makes it again. */
static void check_best(struct check *c, const struct exported *w)
{
    char      *made = settings_get(c->s.log, "best.folder");
    struct err text = { 0 };

    int ours = made && file_is(w->path, made) && file_has_births(w->path, made);
    if (w->state == EXPORTS_GONE ||
        (w->state == EXPORTS_OTHER && !ours && !best_is_next(&c->s, w->sum)))
        err_set(&text, 0, "%s is %s: put a copy of the best model there; --last takes the "
                "parameters after the last step", w->path,
                w->state == EXPORTS_GONE ? "not there any more"
                                         : "not the model that run.db names as the best one");
    else if (w->state == EXPORTS_INTACT)
        open_best(c, w->path, &text);
    if (*text.text)
        check_damage(c, text.text);
    free(made);
}

/* Checks exports that are still there. It is no damage if an export is gone or was replaced, except
 * for the best model, which is a part of the run. */
static int check_exports(struct check *c, struct err *err)
{
    for (int i = 0; i < EXPORTS_KINDS; i++) {
        struct exported w;

        if (!exports_look(&w, c->s.log, c->s.dir, i, &say_events))
            continue;
        if (w.why.stopped)
            return err_stopped(err, "%s", w.why.text);
        if (w.state == EXPORTS_DAMAGED)
            check_damage(c, w.why.text);
        if (w.state == EXPORTS_DENIED)
            check_denied(c, w.why.text);
        if (i == EXPORTS_BEST)
            check_best(c, &w);
        check_line(c, i == EXPORTS_BEST ? "best" : "export", w.bytes, "%s, after step %" PRIu64
                   "%s", w.path, w.step, exports_state_text(w.state));
    }
    return 0;
}

/* Checks the folders of --export-every. Their user may change or remove them: that is no damage. */
static int check_checkpoints(struct check *c, struct err *err)
{
    uint64_t *step;
    size_t    n;
    int       rc = checkpoints_list(&step, &n, c->s.log, err);

    for (size_t i = 0; i < n && !rc; i++) {
        struct safetensors *st = NULL;
        struct err          why = { 0 };
        char                path[CHECKPOINTS_PATH];
        int                 ours;

        rc = checkpoints_is_ours(&ours, path, &c->s, step[i], err);
        if (rc || !file_may_be(path))
            continue;
        struct watch w = work_begin(&say_events, "checking %s", path);
        int failed = ours ? peft_files_open(&st, path, &why) : 0;
        failed = failed || !ours ? failed : safetensors_verify(st, &w, &why);
        if (!failed && ours)
            failed = check_besides(path, c->s.config.lora.rank ? NULL : &c->s.config, 1, &why);
        work_end(&say_events);
        if (why.stopped)
            rc = err_stopped(err, "%s", why.text);
        else if (file_is_unknown(failed))
            check_denied(c, why.text);
        else if (failed)
            check_damage(c, why.text);
        check_line(c, "checkpoint", st ? st->bytes : 0, "%s%s", path,
                   !ours                     ? ": changed since it was written"
                   : file_is_unknown(failed) ? ": not read"
                   : failed                  ? ": damaged"
                                             : "");
        safetensors_close(st);
    }
    free(step);
    return rc;
}

static int check_base(struct check *c, struct err *err)
{
    struct base_folder_sums sums;

    c->s.base_dir = c->o->base;
    int rc = base_folder_check(&c->s, &sums, err);

    if (!rc && sums.files)
        check_line(c, "base", sums.bytes, "%zu file%s of the model, in place", sums.files,
                   sums.files > 1 ? "s" : "");
    return rc;
}

static void say_result(void *ctx, const char *name, uint64_t bytes, enum result_state state)
{
    struct check *c = ctx;
    int           ours = state == RESULT_OURS;

    check_line(c, ours ? "results" : "not checked", ours ? bytes : 0, "%s/%s%s", c->s.dir, name,
               ours                     ? ""
               : state == RESULT_OTHERS ? ": this run did not write it, or it was changed"
               : state == RESULT_UNREAD ? ": it cannot be read"
                                        : ": run.db has no checksum of it");
}

/* Each source is a part of its own: one that is gone does not hide what the others are. */
static int check_sources(struct check *c, const char *set, struct err *err)
{
    size_t n;
    int    rc = corpus_count(&n, c->s.log, set, err);

    for (size_t i = 0; i < n && !rc; i++)
        rc = check_part_over(c, check_tokens(c, set, i, err), err);
    return rc;
}

static int check_parts(struct check *c, struct err *err)
{
    const struct run_file *f;
    struct runlog_check    db;

    if (c->disk)
        c->s.run.disk = c->disk;
    int rc = check_database(c, &db, err); // without it, the other parts cannot be checked
    rc = rc ? rc : check_part_over(c, check_states(c, &db, err), err);
    rc = rc ? rc : check_part_over(c, check_base(c, err), err);
    for (size_t i = 0; !rc && (f = run_file_at(i)); i++)
        rc = check_part_over(c, f->kind == RUN_FILE_TOKENS      ? check_sources(c, f->set, err)
                          : f->kind == RUN_FILE_ROWS      ? check_examples(c, f->set, err)
                          : f->kind == RUN_FILE_REFERENCE ? check_reference(c, f->set, err)
                          : f->kind == RUN_FILE_TOKENIZER ? check_tokenizer(c, err)
                                                          : 0, err);
    rc = rc ? rc : check_exports(c, err);
    rc = rc ? rc : check_part_over(c, check_checkpoints(c, err), err);
    rc = rc ? rc : check_part_over(c, check_recorded(c, err), err);
    return rc ? rc : result_files_each(c->s.dir, c->s.log, say_result, c, err);
}

/* ---- a run or a folder ---- */

static void say_verdict(struct check *c)
{
    const char *what = c->o->what;
    struct err  text = { 0 };

    if (c->damaged > c->mended && c->states_lost) {
        err_set(&text, 0, "%s cannot go on from its last commit", what);
        exports_say(c->s.log, c->s.dir, &say_events, &text);
        check_remark("%s", text.text);
    }
    if (c->o->quiet)
        return;
    if (c->damaged > c->mended)
        say_line(stdout, "%s is damaged: %" PRIu64 " sentence%s above", what, c->damaged,
                 c->damaged > 1 ? "s" : "");
    else if (c->denied)
        say_line(stdout, "%s is not known to be whole: %" PRIu64 " of its parts cannot be read",
                 what, c->denied);
    else if (c->damaged)
        say_line(stdout, "%s was damaged and is whole again", what);
    else
        say_line(stdout, "%s is whole: %s read", what, SIZE_TEXT(c->bytes));
}

/* All parts fit the whole part of a damaged log: from there the run goes on identically. */
static int go_back(struct check *c, struct err *err)
{
    char     db[SESSION_PATH + 16];
    uint64_t next, applied;
    int      rc = run_position(&c->s.run, &next, &applied, err);

    if (rc)
        return rc;
    if (!c->o->repair) {
        check_remark("run.db is whole up to step %" PRIu64 ", and all other parts fit that step: "
                     "--repair goes back to it", next);
        return 0;
    }
    snprintf(db, sizeof db, "%s/run.db", c->s.dir);
    session_close(&c->s);
    rc = runlog_cut(db, err);
    if (rc)
        return rc;
    check_remark("the run repeats the steps after step %" PRIu64 ", with identical results; the "
                 "damaged log is kept as %s-wal.damaged", next, db);
    c->mended++;
    return 0;
}

/* run.db cannot be opened. If its log is damaged, checks whether the commits before the damage are
 * enough. */
static int check_past(struct check *c, struct err *err)
{
    uint64_t found = c->damaged;

    session_close(&c->s);
    int rc = session_open(&c->s, c->o->what, SESSION_PAST, &say_events, err);
    if (rc || !c->s.past) // damaged settings: nothing can be found without them
        return rc == -ENOMEM ? rc : 0;
    rc = check_parts(c, err);
    if (!rc && c->damaged > found)
        check_remark("these parts were compared with the whole part of run.db, which ends at an "
                     "earlier step: they may be whole, but of a later step; nothing was changed");
    return rc || c->damaged > found ? rc : go_back(c, err);
}

static int check_run(struct check *c, struct err *err)
{
    int rc = session_open(&c->s, c->o->what, c->o->repair ? SESSION_WRITE : SESSION_READ,
                          &say_events, err);

    if (rc == -EBADMSG) {
        check_damage(c, err->text);
        return check_past(c, err);
    }
    c->mend = c->o->repair;
    rc = rc ? rc : check_parts(c, err);
    if (!rc && c->s.ranks.size > 1) // errors in its journal have been reported
        c->placed = !recovery_read(&c->place, &c->s.run, NULL);
    return rc;
}

/* Compares a rank's folder with the first: are both of the same run? */
static void compare_rank(struct check *c, const struct check *first, size_t rank)
{
    struct err text;

    if (!c->s.log || !first->s.log) // it was given up, or cut just now
        return;
    if (!job_run_together(&c->s, &first->s) || c->s.ranks.rank != rank) {
        err_set(&text, 0, "%s is not the part of rank %zu of the run %s", c->o->what, rank,
                first->o->what);
        check_damage(c, text.text);
    }
}

/* Compares the ranks' steps, and says what a resume will do if they differ. */
static void compare_times(struct check *c, const struct recovery_position *all)
{
    size_t n = c->s.ranks.size, back = 0, refused = 0, first = recovery_target(all, n);

    for (size_t i = 0; i < n; i++) {
        char       dir[SESSION_PATH];
        struct err text;

        rank_dir(dir, c->o->what, i);
        int rc = recovery_check(all, n, i, dir, &text);
        back += rc > 0;
        refused += rc < 0;
        if (rc < 0)
            check_remark("%s", text.text);
    }
    if (refused)
        check_remark("--resume refuses %s: replace the folders of all %zu ranks with copies that "
                     "were made at one time", c->o->what, n);
    else if (back)
        check_line(c, "", 0, "not all ranks finished the last step: --resume takes %zu of them "
                   "back to step %" PRIu64 ", the step of rank %zu", back, all[first].next_step,
                   first);
    c->others_damaged |= refused > 0;
}

static int check_rank(struct check *first, size_t rank, struct recovery_position *place,
                      struct err *err)
{
    char              dir[SESSION_PATH];
    struct check_opts o = *first->o;
    struct check      c = { .o = &o, .disk = first->disk };

    int rc = rank_dir_find(dir, first->o->what, rank, err);
    if (!rc && o.repair && first->s.log)
        rc = rank_owner_check(&first->s, dir, rank, err);
    if (rc)
        return rc;
    o.what = dir;
    if (!session_may_be_run(dir)) {
        check_remark("%s is missing: the run %s has %zu ranks, and all their folders are expected "
                     "next to each other: put it back", dir, first->o->what, first->s.ranks.size);
        first->others_damaged = 1;
        first->placed = 0;
        return 0;
    }
    rc = check_run(&c, err);
    if (file_is_unknown(rc)) {
        check_remark("%s", err->text);
        first->others_damaged = 1;
        *err = (struct err){ 0 };
        rc = 0;
    } else if (!rc) {
        compare_rank(&c, first, rank);
        say_verdict(&c);
        first->others_damaged |= c.damaged > c.mended || c.denied;
    }
    first->placed &= c.placed && c.damaged == c.mended;
    *place = c.place;
    session_close(&c.s);
    return rc;
}

/* Checks the folders of a run's other ranks, also if the first folder is not rank 0's. */
static int check_ranks(struct check *c, struct err *err)
{
    size_t     n = c->s.ranks.size;
    struct err part;
    int        rc = 0;

    if (c->s.ranks.rank) {
        c->others_damaged = !job_run_is_placed(&c->s);
        job_run_part(&c->s, c->o->what, &part);
        if (c->others_damaged || !c->o->quiet)
            check_remark("%s", part.text);
        return 0;
    }
    struct recovery_position *all = calloc(n, sizeof *all);
    if (!all)
        return err_set(err, -ENOMEM, "out of memory for %zu ranks", n);
    all[0] = c->place;
    for (size_t i = 1; i < n && !rc; i++)
        rc = check_rank(c, i, &all[i], err);
    if (!rc && c->placed)
        compare_times(c, all);
    free(all);
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    struct check_opts *o = line->options;
    struct check       c = { .o = o,
                             .disk = opt_given(line, "disk") ? disk_name((size_t)o->disk) : NULL };
    int                rc;

    progress_quiet(o->quiet);
    if (o->scrub && session_may_be_run(o->what)) {
        rc = check_scrub(&c, err);
        session_close(&c.s);
        return rc ? rc : c.damaged || c.denied;
    }
    if (o->scrub || opt_given(line, "scrub-bw"))
        return err_misuse(err, o->scrub ? "--scrub reads a run, and %s is none"
                                        : "--scrub-bw is the rate of --scrub: give both (%s)",
                          o->what);
    if (session_may_be_run(o->what))
        rc = check_run(&c, err);
    else if (peft_is_folder(o->what) || hf_is_folder(o->what))
        rc = check_folder(&c, err);
    else if (!(rc = runlog_refuse_begun(o->what, err)) && !(rc = hf_refuse_other(o->what, err)))
        rc = err_misuse(err, "%s: neither a run (with run.db) nor a Hugging Face folder (with "
                        "config.json) nor an adapter's (with adapter_config.json)", o->what);
    if (!rc)
        say_verdict(&c);
    if (!rc && c.s.ranks.size > 1)
        rc = check_ranks(&c, err);
    session_close(&c.s);
    return rc ? rc : c.damaged > c.mended || c.denied || c.others_damaged;
}

const struct opt_command check_command = {
    .name = "check",
    .usage = "RUN|HFDIR [--repair|--scrub]",
    .summary = "read all of a run or an export, and report damage",
    .text = "Exit code 0: the run or export is whole, or was repaired. Exit code 1: it is "
            "damaged, or this user cannot read it. Each damage gets a sentence on stderr. "
            "Nothing is written without --repair. For a run of several ranks, RUN is rank 0's "
            "folder; the folders of the other ranks next to it are read too. A run that is being "
            "trained is read with --scrub.",
    .parts = parts, .size = sizeof(struct check_opts), .run = run,
    .examples = { "siTrain check --scrub first --scrub-bw 50M",
                  "siTrain check first-hf" },
};
