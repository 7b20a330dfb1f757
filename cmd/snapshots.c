/* snapshots.c: lists the snapshots of a run. With --check each is read, and compared with its
 * checksums. */
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "run/folder/snapshots.h"
#include "run/loop/made_whole.h"
#include "run/ranks/job_run.h"

struct snapshots_opts { const char *run; int check, json, quiet; };

#define AT(field) offsetof(struct snapshots_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARG, AT(run), .help = "Run whose snapshots are listed" },
    { "check", OPT_FLAG, AT(check),
      .help = "Read all of each snapshot, and compare it with its checksums" },
    { "json", OPT_FLAG, AT(json), .help = "Print JSON" },
    { "quiet", OPT_FLAG, AT(quiet), .help = "Print no progress" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

/* A damaged snapshot: whether it is whole by its parity. */
static int check_parity(struct snapshot *at, struct err *err)
{
    struct err why;
    int        can = at->parity && at->files ? made_whole_can(at, &say_events, &why, err) : 0;

    at->parity = can > 0 ? at->parity : 0;
    return can < 0 ? can : 0;
}

/* Reads one snapshot, of all ranks. Damage is a sentence on stderr. */
static int check(struct snapshot *at, struct err *err)
{
    struct session s;
    int            rc = session_open(&s, at->path, SESSION_READ, &say_events, err);

    rc = rc ? rc : job_run_see(&s, at->path, SESSION_READ, err);
    rc = rc ? rc : snapshot_check(&s, err);
    for (size_t i = 1; i < s.ranks.size && !rc; i++)
        rc = snapshot_check(&s.others[i - 1], err);
    session_close(&s);
    if (!rc || err->stopped || rc == -ENOMEM)
        return rc;
    progress_make_way();
    say_line(stderr, "siTrain: %s", err->text);
    at->whole = 0;
    return check_parity(at, err);
}

/* Whether siTrain restore makes it whole. */
static int by_parity(const struct snapshot *at)
{
    return !at->whole && at->files && at->parity && at->lost <= at->parity;
}

enum { STATE = 96 };

static const char *state_text(char out[STATE], const struct snapshot *at, int checked)
{
    if (!by_parity(at))
        snprintf(out, STATE, "%s", !at->whole ? "not whole" : checked ? "whole" : "complete");
    else if (at->lost > 1)
        snprintf(out, STATE, "whole by parity: %zu devices are missing", at->lost);
    else if (at->lost)
        snprintf(out, STATE, "whole by parity: device %zu is missing", at->lost_first);
    else
        snprintf(out, STATE, "whole by parity: a device is damaged");
    return out;
}

static void print_list(const struct snapshots *list, const struct snapshots_opts *o)
{
    char size[32], loss[32], state[STATE];

    if (!list->n) {
        say_line(stdout, "%s has no snapshots; --snapshot-every N takes them in training", o->run);
        return;
    }
    printf("%10s  %10s  %9s  %-20s  %-9s  %s\n", "step", "loss", "size", "taken (UTC)", "state",
           "folder");
    for (size_t i = 0; i < list->n; i++) {
        const struct snapshot *at = &list->at[i];

        snprintf(loss, sizeof loss, "%.4f", at->loss);
        say_line(stdout, "%10" PRIu64 "  %10s  %9s  %-20s  %-9s  %s", at->step,
                 isnan(at->loss) ? "" : loss,
                 opt_size_text(size, sizeof size, (double)at->bytes), at->taken,
                 state_text(state, at, o->check), at->path);
    }
}

static int print_json(const struct snapshots *list, const struct snapshots_opts *o,
                      struct err *err)
{
    json_t *all = json_array();
    int     bad = !all;

    for (size_t i = 0; i < list->n && !bad; i++) {
        const struct snapshot *at = &list->at[i];

        bad = json_array_append_new(
            all, json_pack("{s:I, s:o, s:I, s:s, s:s, s:b, s:b, s:b}", "step", (json_int_t)at->step,
                           "loss", isnan(at->loss) ? json_null() : json_real(at->loss), "bytes",
                           (json_int_t)at->bytes, "taken", at->taken, "path", at->path, "whole",
                           at->whole, "by_parity", by_parity(at), "checked", o->check));
    }
    if (!bad)
        say_json(all, JSON_FIGURES);
    json_decref(all);
    return bad ? err_set(err, -ENOMEM, "out of memory for %zu snapshots", list->n) : 0;
}

static int run(struct opt_line *line, struct err *err)
{
    struct snapshots_opts *o = line->options;
    struct snapshots       list = { 0 };
    struct session         s;
    size_t                 damaged = 0;
    int                    rc;

    progress_quiet(o->quiet || o->json);
    rc = session_open(&s, o->run, SESSION_LOOK, &say_events, err);
    rc = rc ? rc : snapshots_list(&list, &s, err);
    for (size_t i = 0; i < list.n && o->check && !rc; i++)
        rc = check(&list.at[i], err);
    for (size_t i = 0; i < list.n; i++)
        damaged += !list.at[i].whole;
    if (!rc && o->json)
        rc = print_json(&list, o, err);
    else if (!rc)
        print_list(&list, o);
    snapshots_free(&list);
    session_close(&s);
    return rc ? rc : damaged > 0;
}

const struct opt_command snapshots_command = {
    .name = "snapshots",
    .usage = "RUN [--check] [--json]",
    .summary = "list the snapshots of a run",
    .text = "pretrain and finetune take snapshots with --snapshot-every N. export, eval and "
            "generate read one with --step N. Without --check, a snapshot is complete if all its "
            "files are there with their sizes. Works while the run is training. Exit code 1: a "
            "snapshot is not whole.",
    .parts = parts, .size = sizeof(struct snapshots_opts), .run = run,
    .examples = { "siTrain snapshots first",
                  "siTrain export first first-hf --step 400" },
};
