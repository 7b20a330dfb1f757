/* snapshots.c: lists a run's snapshots; --check compares each with its checksums. */
#include "cmd/cmd.h"
#include "cmd/terminal/job.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "report/report.h"
#include "run/ranks/job_run.h"
#include "run/ranks/parts_view.h"
#include "run/snapshots/made_whole.h"
#include "run/snapshots/snapshots.h"

struct snapshots_opts { const char *run; int check, json, quiet; };

#define AT(field) offsetof(struct snapshots_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARG, AT(run), .help = "Run whose snapshots are listed" },
    { "check", OPT_FLAG, AT(check),
      .help = "Read each snapshot completely and compare it with its checksums" },
    { "json", OPT_FLAG, AT(json), .help = "Print JSON" },
    { "quiet", OPT_FLAG, AT(quiet), .help = "Print no progress" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

static void say_damage(const char *sentence)
{
    progress_make_way();
    say_line(stderr, "siTrain: %s%s", job_name(), sentence);
}

static int check(struct snapshot *at, struct err *err)
{
    struct err why;
    int        whole = made_whole_check(at, &say_events, &why);

    if (!whole)
        say_damage(why.text);
    else if (whole < 0)
        *err = why;
    return whole < 0 ? whole : 0;
}

enum { STATE = 96 };

static const char *state_text(char out[STATE], const struct snapshot *at, struct parts_lack lack,
                              int checked)
{
    if (lack.rank != SIZE_MAX)
        snprintf(out, STATE, "lacks rank %zu", lack.rank);
    else if (at->denied)
        snprintf(out, STATE, "not readable");
    else if (!snapshot_by_parity(at))
        snprintf(out, STATE, "%s", !at->whole ? "not whole" : checked ? "whole" : "complete");
    else if (at->lost > 1)
        snprintf(out, STATE, "whole by parity: %zu devices are missing", at->lost);
    else if (at->lost)
        snprintf(out, STATE, "whole by parity: device %zu is missing", at->lost_first);
    else if (lack.by_parity != SIZE_MAX)
        snprintf(out, STATE, "whole by parity: a device of rank %zu is missing", lack.by_parity);
    else
        snprintf(out, STATE, "whole by parity: a device is damaged");
    return out;
}

struct listed {
    struct snapshots   list;
    struct parts_lack *lack; // (list.n)
    struct parts_view  view; // of several ranks
};

static void print_list(const struct listed *l, const struct snapshots_opts *o)
{
    const struct part_seen *other;
    char                    loss[32], state[STATE];

    if (!l->list.n && l->list.unread)
        return;
    if (!l->list.n && !parts_view_other(&l->view, 0)) {
        say_line(stdout, "%s has no snapshots; --snapshot-every N takes them in training", o->run);
        return;
    }
    printf("%10s  %10s  %9s  %-20s  %-12s  %s\n", "step", "loss", "size", "taken (UTC)", "state",
           "folder");
    for (size_t i = 0; i < l->list.n; i++) {
        const struct snapshot *at = &l->list.at[i];

        snprintf(loss, sizeof loss, "%.4f", at->loss);
        say_line(stdout, "%10" PRIu64 "  %10s  %9s  %-20s  %-12s  %s", at->step,
                 isnan(at->loss) ? "" : loss, SIZE_TEXT(at->bytes), at->taken,
                 state_text(state, at, l->lack[i], o->check), at->path);
    }
    for (size_t i = 0; (other = parts_view_other(&l->view, i)); i++)
        say_line(stdout, "%10" PRIu64 "  %10s  %9s  %-20s  %-12s  with rank %" PRIu64, other->step,
                 "", "", "", "lacks rank 0", other->holder);
}

static int print_json(const struct listed *l, const struct snapshots_opts *o, struct err *err)
{
    json_t *all = json_array();
    int     bad = !all;

    for (size_t i = 0; i < l->list.n && !bad; i++) {
        const struct snapshot *at = &l->list.at[i];

        bad = json_array_append_new(
            all, json_pack("{s:I, s:o, s:I, s:o, s:o, s:b, s:b, s:b, s:o}", "step",
                           (json_int_t)at->step, "loss",
                           isnan(at->loss) ? json_null() : json_real(at->loss), "bytes",
                           (json_int_t)at->bytes, "taken", report_string(at->taken), "path",
                           report_string(at->path), "whole", at->whole, "by_parity",
                           snapshot_by_parity(at), "checked", o->check, "lacks_rank",
                           l->lack[i].rank == SIZE_MAX
                               ? json_null() : json_integer((json_int_t)l->lack[i].rank)));
    }
    if (!bad)
        say_json(all, JSON_FIGURES);
    json_decref(all);
    return bad ? err_set(err, -ENOMEM, "out of memory for %zu snapshots", l->list.n) : 0;
}

static int look_at_ranks(struct listed *l, struct session *s, struct comm *comm,
                         const struct snapshots_opts *o, struct err *err)
{
    char line[SESSION_LINE];
    int  rc = parts_view_open(&l->view, s, comm, err);

    rc = rc || !o->check ? rc : parts_view_check(&l->view, say_damage, err);
    for (size_t i = 0; i < l->list.n && !rc; i++)
        l->lack[i] = parts_view_add(&l->view, &l->list.at[i]);
    if (!rc && !comm && l->view.n < s->ranks.size)
        say_line(stderr, "siTrain: %zu of the %zu ranks' folders are not here: %s looks at the "
                 "parts of all", s->ranks.size - l->view.n, s->ranks.size,
                 session_ranks_line(line, s, "snapshots"));
    return rc;
}

static int look(struct listed *l, struct session *s, struct comm *comm,
                const struct snapshots_opts *o, struct err *err)
{
    int rc = snapshots_list(&l->list, s, err);

    l->lack = calloc(l->list.n + 1, sizeof *l->lack);
    if (!rc && !l->lack)
        rc = err_set(err, -ENOMEM, "out of memory");
    if (rc || s->ranks.size > 1)
        return rc ? rc : look_at_ranks(l, s, comm, o, err);
    if (l->list.unread)
        say_line(stderr, "siTrain: there may be others, which cannot be read: %s",
                 l->list.unread_why.text);
    for (size_t i = 0; i < l->list.n && !rc; i++) {
        l->lack[i] = (struct parts_lack){ SIZE_MAX, SIZE_MAX };
        rc = o->check ? check(&l->list.at[i], err) : 0;
    }
    return rc;
}

static int open_run(struct session *s, const char *run, struct comm **comm, struct err *err)
{
    char dir[SESSION_PATH];
    int  rc = job_open(comm, err);

    if (rc)
        return rc;
    rc = job_run_own_dir(dir, run, *comm, err);
    rc = rc ? rc : session_open(s, dir, SESSION_LOOK, *comm ? say_events_of_job() : &say_events,
                                err);
    return rc || !*comm ? rc : job_run_join(s, *comm, err);
}

static int run(struct opt_line *line, struct err *err)
{
    struct snapshots_opts *o = line->options;
    struct listed          l = { 0 };
    struct session         s = { 0 };
    struct comm           *comm;
    size_t                 damaged = 0;
    int                    rc;

    progress_quiet(o->quiet || o->json);
    rc = open_run(&s, o->run, &comm, err);
    rc = rc ? rc : look(&l, &s, comm, o, err);
    for (size_t i = 0; i < l.list.n; i++)
        damaged += !l.list.at[i].whole;
    damaged += l.list.unread || parts_view_other(&l.view, 0);
    if (!rc && job_speaks() && o->json)
        rc = print_json(&l, o, err);
    else if (!rc && job_speaks())
        print_list(&l, o);
    parts_view_close(&l.view);
    snapshots_free(&l.list);
    free(l.lack);
    session_close(&s);
    return rc ? rc : job_speaks() && damaged;
}

const struct opt_command snapshots_command = {
    .name = "snapshots",
    .usage = "RUN [--check] [--json]",
    .summary = "list the snapshots of a run",
    .text = "pretrain and finetune take snapshots with --snapshot-every N. export, eval and "
            "generate read a snapshot with --step N. Without --check, siTrain only compares the "
            "names and sizes of a snapshot's files. The command works while the run is training. "
            "In a run of several ranks, it looks at the parts of all ranks whose folders are on "
            "this host. Started by mpirun, it looks at the parts on all hosts. Exit code 1: a "
            "snapshot is not whole.",
    .parts = parts, .size = sizeof(struct snapshots_opts), .by_ranks = 1,
    .run = run,
    .examples = { "siTrain snapshots first",
                  "siTrain export first first-hf --step 400" },
};
