/* report_config.c: prints a run's options as a file for --config. They are the run's present ones:
 * a resume may have changed its end. All options of training are printed, so that neither other
 * defaults nor another machine change a bit. Left out are options of one command only, and options
 * that were not given and would be refused or have another meaning if they were. */
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "data/base/table.h"
#include "data/opt/opt_file.h"
#include "kernels/product/matmul.h"
#include "model/arch/arch.h"
#include "run/folder/settings.h"
#include "run/folder/train_opts.h"
#include "run/sources/corpus_open.h"

#include <unistd.h>

struct printing {
    FILE          *out;
    struct runlog *log;
    const char    *dir;
    int            classifies, evaluates;
};

/* Prints a line; for an option that may be repeated, one per stored line. */
static int print_text(struct printing *p, const struct opt_row *row, char *text, struct err *err)
{
    char size[32];

    for (char *at = text, *line; (line = strsep(&at, "\n"));) {
        for (char *c = line; *c; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7F ||
                (at && row->type != OPT_PATHS && row->type != OPT_FILES &&
                 row->type != OPT_STRINGS))
                return err_set(err, -EBADMSG,
                               "%s/run.db: the option %s holds a control character, which no file "
                               "of options can hold",
                               p->dir, row->name);
        if (row->type == OPT_SIZE)
            opt_file_write(p->out, row->name, opt_size_exact(size, sizeof size, line));
        else if (row->type != OPT_FLAG)
            opt_file_write(p->out, row->name, line);
        else if (!strcmp(line, "1"))
            fprintf(p->out, "%s\n", row->name);
    }
    return 0;
}

static int print_stored(struct printing *p, const char *before, const char *key,
                        const struct opt_row *row, struct err *err)
{
    char *text = settings_get(p->log, "%s.%s", before, key);
    int   rc = text && *text ? print_text(p, row, text, err) : 0;

    free(text);
    return rc;
}

/* ---- which options ---- */

/* Whether dropout came from the first model, from which --init takes it again. */
static int dropout_is_models(struct printing *p)
{
    static const char *const parts[] = { "drop_embd", "drop_attn", "drop_resid" };
    double                   asked = 0, part;
    int                      any = 0;

    settings_scan(p->log, "%lf", &asked, "option.dropout");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        any |= settings_scan(p->log, "%lf", &part, "config.%s", parts[i]) && part > 0;
    return p->classifies && any && !(asked > 0);
}

/* Whether the schedule ends with the run: without --schedule-steps it does. */
static int schedule_ends_with_run(struct printing *p)
{
    uint64_t steps, horizon;

    return settings_scan(p->log, "%" SCNu64, &steps, "option.steps") &&
           settings_scan(p->log, "%" SCNu64, &horizon, "option.schedule-steps") && steps == horizon;
}

/* Whether a masking option does not apply: only masked language models have masks, and their
 * tokenizer has the id if none was given. */
static int mask_is_none(struct printing *p, const char *name)
{
    char              *family = settings_get(p->log, "config.arch");
    const struct arch *arch = family ? arch_named(family) : NULL;
    int                masked = arch && arch->encoder && !p->classifies;
    uint64_t           id = 0;

    free(family);
    settings_scan(p->log, "%" SCNu64, &id, "option.mask-id");
    return !masked || (!strcmp(name, "mask-id") && !id);
}

static int is_left_out(struct printing *p, const char *name)
{
    if (!strcmp(name, "mask-prob") || !strcmp(name, "mask-id"))
        return mask_is_none(p, name);
    if (!strcmp(name, "devices"))
        return settings_has(p->log, "option.device");
    if (!strcmp(name, "eval-every") || !strcmp(name, "keep-best"))
        return !p->evaluates;
    if (!strcmp(name, "schedule-steps"))
        return schedule_ends_with_run(p);
    return !strcmp(name, "dropout") && dropout_is_models(p);
}

/* Prints what auto, or --threads for all cores, turned out to be. */
static int print_engine(struct printing *p, const struct opt_row *row, struct err *err)
{
    char *engine = settings_get(p->log, "engine");
    int   rc = 0;

    if (engine)
        engine[strcspn(engine, " ")] = '\0';
    if (engine && opt_words_find(matmul_engine_name, engine, strlen(engine)) > 0)
        opt_file_write(p->out, row->name, engine);
    else
        rc = print_stored(p, "option", row->name, row, err);
    free(engine);
    return rc;
}

static int print_training(struct printing *p, struct err *err)
{
    const struct opt_row *row;
    int                   rc = 0;

    for (size_t i = 0; (row = train_opts_row(i)) && !rc; i++) {
        if (row->kept == OPT_PASSING || is_left_out(p, row->name))
            continue;
        // the first runs of pairs kept --label-smoothing among what was given
        const char *as = settings_has(p->log, "option.%s", row->name) ? "option" : "given";
        rc = !strcmp(row->name, "blas") ? print_engine(p, row, err)
                                        : print_stored(p, as, row->name, row, err);
    }
    return rc;
}

/* Prints an option that says what a language model's data are: from what the run has of it, since a
 * resume may have added it, or found it at another place. 0: the option is another one. */
static int print_data(struct printing *p, const struct opt_row *row, int *rc, struct err *err)
{
    static const struct named { const char *name, *set, *key; } names[] = {
        { "mix", "data", "mix" }, { "text-column", "data", "column" },
        { "eval-split", "eval", "split" } };
    const struct named *named = TABLE_FIND(names, row->name);
    const char *set = !strcmp(row->name, "data") ? "data" : "eval";
    char        name[CORPUS_NAME];

    if (named)
        return *rc = print_stored(p, named->set, named->key, row, err), 1;
    if (strcmp(row->name, "data") && strcmp(row->name, "eval-data"))
        return 0;
    size_t n = 0;
    if (strcmp(set, "eval") || !settings_has(p->log, "eval.split")) // a part of the training data
        *rc = corpus_count(&n, p->log, set, err);
    for (size_t i = 0; i < n && !*rc; i++) // the text that it comes from, or its place
        *rc = print_stored(p, corpus_name(name, set, i),
                           settings_has(p->log, "%s.text", corpus_name(name, set, i)) ? "text"
                                                                                      : "path",
                           row, err);
    return 1;
}

static int print_material(struct printing *p, const struct opt_command *cmd, struct err *err)
{
    const struct opt_row *row;
    int                   rc = 0;

    for (size_t i = 0; (row = opt_row_at(cmd, i, NULL)) && !rc; i++) {
        if (row->kept == OPT_SOURCE && (p->classifies || !print_data(p, row, &rc, err)))
            rc = print_stored(p, "given", row->name, row, err);
    }
    return rc;
}

/* Adds what options cannot express: the first steps had another horizon. */
static void print_schedule(const struct printing *p)
{
    uint64_t step, was;

    if (settings_scan(p->log, "%" SCNu64, &step, "schedule.step") &&
        settings_scan(p->log, "%" SCNu64, &was, "schedule.was") && step)
        fprintf(p->out, "# but for its schedule, which ended at step %" PRIu64 " until step %"
                PRIu64 " was done\n", was, step);
}

int report_config_print(struct runlog *log, const char *dir, struct err *err)
{
    struct printing           p = { .log = log, .dir = dir,
                                    .classifies = settings_has(log, "task"),
                                    .evaluates = settings_has(log, "dev.sum") ||
                                                 settings_has(log, "eval.path") };
    const struct opt_command *cmd = p.classifies ? &finetune_command : &pretrain_command;
    char                     *text = NULL;
    size_t                    bytes = 0;

    if (!settings_has(log, "given.init") && !settings_has(log, "given.model") &&
        !settings_has(log, "given.n-layer")) {
        text = settings_get(log, "command");
        err_set(err, -ENOENT, "%s does not keep what it was made from, as runs of this version do; "
                "its command line was: %s", dir, text ? text : "not kept either");
        free(text);
        return -ENOENT;
    }
    p.out = open_memstream(&text, &bytes); // a part of a file would describe another run
    if (!p.out)
        return err_set(err, -ENOMEM, "out of memory for the options of %s", dir);
    fprintf(p.out, "# the options of a run: siTrain %s --config THIS --run NEW makes it again\n",
            cmd->name);
    print_schedule(&p);
    int rc = print_material(&p, cmd, err);
    fputc('\n', p.out);
    rc = rc ? rc : print_training(&p, err);
    rc = rc ? rc : runlog_unread(log, err);
    if (fclose(p.out) && !rc)
        rc = err_set(err, -ENOMEM, "out of memory for the options of %s", dir);
    if (!rc && isatty(STDOUT_FILENO))
        say_text(stdout, text);
    else if (!rc)
        fwrite(text, 1, bytes, stdout);
    free(text);
    return rc;
}
