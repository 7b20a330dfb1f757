/* report.c: parses the command line of `siTrain report`, and prints what report/ makes. */
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "data/db/questions.h"
#include "report/report.h"
#include "run/folder/session.h"

#include <unistd.h>

struct report_opts {
    struct opt_strings runs;
    int                json, csv, config, openmetrics;
    const char        *by, *html, *sql, *trace, *trace_steps;
};

/* The names of the questions, and the word for their list. */
static const char *question_word(size_t i)
{
    const struct question *q = question_at(i);

    return q ? q->name : !i || question_at(i - 1) ? "list" : NULL;
}

#define AT(field) offsetof(struct report_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARGS, AT(runs),
      .help = "Folders of runs. Several runs are compared with the first." },
    { "by", OPT_STRING, AT(by), .arg = "NAME",
      .help = "What to sort several runs by: an evaluation (eval_loss, eval_accuracy or another "
              "measure), train_loss, tokens_per_second, or a setting such as lr. Smaller losses "
              "and larger accuracies come first. (default: the order given)" },
    { "json", OPT_FLAG, AT(json), .help = "Print JSON" },
    { "csv", OPT_FLAG, AT(csv),
      .help = "Print lines of section,row,field,value. With several runs, the run comes first." },
    { "html", OPT_PATH, AT(html), .arg = "FILE",
      .help = "File for a page with all figures and plots. Only such a page is replaced." },
    { "sql", OPT_STRING, AT(sql), .arg = "NAME", .words = question_word,
      .help = "Question to answer as a table, or as --csv or --json. list: print all questions." },
    { "config", OPT_FLAG, AT(config),
      .help = "Print the run's options as a file for --config of pretrain or finetune" },
    { "openmetrics", OPT_FLAG, AT(openmetrics),
      .help = "Print the run's figures as OpenMetrics text, for Prometheus" },
    { "trace", OPT_PATH, AT(trace), .arg = "FILE",
      .help = "File for a timeline of some steps, for Perfetto and chrome://tracing. Only such a "
              "timeline is replaced." },
    { "trace-steps", OPT_STRING, AT(trace_steps), .arg = "A-B",
      .help = "Steps of the timeline: A-B, or one step (default: the last 10). Steps whose spans "
              "were dropped are left out." },
    { 0 },
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

static int open_run(struct runlog **log, const char *dir, struct err *err)
{
    return session_explain_closed(dir, runlog_open_run(log, dir, err), &say_events, err);
}

/* ---- one question ---- */

static int list_questions(void)
{
    const struct question *q;

    for (size_t i = 0; (q = question_at(i)); i++)
        printf("%-17s %.*s\n", q->name, (int)strcspn(q->sql, "\n") - 3, q->sql + 3);
    return 0;
}

static int answer(struct runlog *log, const struct report_opts *o, struct err *err)
{
    json_t *found = NULL;
    int     rc = report_rows(&found, log, err, "%s", question_find(o->sql)->sql);

    if (!rc && o->json) {
        say_json(found, 0);
    } else if (!rc) {
        report_tame(found);
        (o->csv ? report_table_csv : report_table)(stdout, found);
    }
    json_decref(found);
    return rc;
}

/* ---- one run or several ---- */

static int gather(json_t *reports, struct report_opts *o, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < o->runs.n && !rc; i++) {
        struct runlog *log = NULL;
        json_t        *report = NULL;

        rc = open_run(&log, o->runs.item[i], err);
        rc = rc ? rc : report_gather(&report, log, o->runs.item[i], err);
        runlog_close(log);
        if (json_array_append_new(reports, report) && !rc)
            rc = err_set(err, -ENOMEM, "out of memory while gathering the report");
    }
    return rc ? rc : report_compare(reports, o->by, err);
}

static int print_page(FILE *out, void *reports, struct err *err)
{
    (void)err;
    report_html(out, reports);
    return 0;
}

/* The file of --html or --trace. Only the files that a run has count as its inputs. */
static struct output output_of(const struct report_opts *o)
{
    return (struct output){ .path = o->html ? o->html : o->trace,
                            .kind = o->html ? OUTPUT_PAGE : OUTPUT_TIMELINE };
}

static int print_reports(struct report_opts *o, struct err *err)
{
    struct output page = output_of(o);
    json_t       *reports = json_array();
    int           rc = gather(reports, o, err);

    if (!rc && o->json) {
        say_json(o->runs.n > 1 ? reports : json_array_get(reports, 0), 0);
        goto out;
    }
    report_tame(reports);
    if (!rc && o->csv)
        report_csv(stdout, reports);
    else if (!rc && o->html)
        rc = report_file(&page, print_page, reports, err);
    else if (!rc)
        report_text(stdout, reports, isatty(STDOUT_FILENO) && !getenv("NO_COLOR"));
out:
    json_decref(reports);
    return rc;
}

/* ---- the command ---- */

static int print_of_one(struct report_opts *o, const char *what, struct err *err)
{
    const char    *dir = o->runs.item[0];
    struct output  file = output_of(o);
    struct runlog *log = NULL;

    if (o->runs.n > 1)
        return err_misuse(err, "%s is about one run; name one", what);
    if (o->sql && !strcmp(o->sql, "list"))
        return list_questions();
    if (o->sql && !question_find(o->sql))
        return opt_words_refuse("sql", o->sql, question_word, err);
    int rc = open_run(&log, dir, err);
    if (!rc)
        rc = o->config        ? report_config_print(log, dir, err)
             : o->openmetrics ? report_metrics(stdout, log, dir, err)
             : o->trace       ? report_trace(&file, log, o->trace_steps, err)
                              : answer(log, o, err);
    runlog_close(log);
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    struct report_opts *o = line->options;
    const char         *one = o->config ? "--config" : o->openmetrics ? "--openmetrics"
                              : o->trace ? "--trace" : o->sql ? "--sql" : NULL;
    int whole = o->config + o->openmetrics + (o->trace != NULL) + (o->html != NULL);

    if (whole + o->json + o->csv > 1)
        return err_misuse(err, "--html, --json, --csv, --config, --openmetrics and --trace exclude "
                          "each other; give one of them");
    if (whole && o->sql)
        return err_misuse(err, "--sql NAME goes with --json and --csv alone; what else there is "
                          "has questions of its own");
    if (o->by && one)
        return err_misuse(err, "--by %s sorts several runs, and %s is about one run; leave one out",
                          o->by, one);
    if (o->trace_steps && !o->trace)
        return err_misuse(err, "--trace-steps %s is for --trace FILE, which is missing",
                          o->trace_steps);
    struct output file = output_of(o);
    int           rc = file.path ? output_check(&file, err) : 0;

    return rc ? rc : one ? print_of_one(o, one, err) : print_reports(o, err);
}

const struct opt_command report_command = {
    .name = "report",
    .usage = "RUN [RUN ...] [--by NAME] [--html FILE | --json | --csv | --sql NAME | --config | "
             "--openmetrics | --trace FILE]",
    .summary = "print a run's times, traffic, overlap and bandwidth, or compare runs",
    .text = "Works while the run is training. Times are of the steps with all spans stored: the "
            "first and last 100 and every 1,000th. Everything printed comes from RUN/run.db, a "
            "SQLite database. Transferred bytes are in MB and GB (powers of 1000), memory is in "
            "MiB and GiB (powers of 1024).",
    .parts = parts, .size = sizeof(struct report_opts), .killed = 1, .run = run,
    .examples = { "siTrain report first",
                  "siTrain report sw-* --by eval_loss --html page.html" },
};
