/* job_run_alike.c: checks that all ranks of a run were started alike. mpirun does not check this:
 * each host may have another command line, or a data file with other content. */
#include "run/ranks/job_run.h"

#include "data/base/crc32c.h"
#include "run/folder/settings.h"
#include "run/sources/corpus_open.h"

enum { TERMS = 64 };

struct term { // compared by memcmp: all bytes are set
    char     name[28], value[28]; // truncated
    uint32_t sum;                 // of the whole value
};
struct terms { uint64_t n; struct term at[TERMS]; };

static void add(struct terms *t, const char *name, const char *value)
{
    struct term *term = &t->at[t->n++];

    assert(t->n <= TERMS);
    snprintf(term->name, sizeof term->name, "%s", name);
    snprintf(term->value, sizeof term->value, "%s", value);
    term->sum = crc32c(0, value, strlen(value));
}

static int add_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    char name[sizeof ((struct term *)0)->name];

    (void)given;
    snprintf(name, sizeof name, "--%s", row->name);
    if (row->ranks == OPT_ALIKE || opt_row_decides(row))
        add(ctx, name, text);
    return 0;
}

/* Add the checksum of a set's files, and of their order, in one term. */
static int add_set(struct terms *t, struct runlog *log, const char *set, const char *name,
                   struct err *err)
{
    char     source[CORPUS_NAME], text[48] = "";
    uint32_t sum = 0;
    size_t   n;
    int      rc = corpus_count(&n, log, set, err);

    for (size_t i = 0; i < n; i++) {
        char *sums = settings_get(log, "%s.sums", corpus_name(source, set, i));

        sum = crc32c(sum, sums ? sums : "", sums ? strlen(sums) + 1 : 1);
        free(sums);
    }
    if (n)
        snprintf(text, sizeof text, "%08" PRIx32 "%s", sum, n > 1 ? " (of all sources)" : "");
    add(t, name, text);
    return rc;
}

/* Add the checksums of the run's data, as hex texts. */
static int add_data(struct terms *t, struct runlog *log, struct err *err)
{
    static const char *const sums[][2] = {
        { "data.mix", "--mix" },                { "eval.split", "--eval-split" },
        { "train.sum", "the sum of its rows" }, { "dev.sum", "the sum of its dev rows" },
        { "dev_mm.sum", "the sum of its dev_mm rows" },
        { "init.sum", "a sum of its beginning" },
        { "base.sum", "the sum of its base" },
        { "pairs.loss", "--loss" }, { "pairs.beta", "--beta" },
        { "pairs.smoothing", "--label-smoothing" },
        { "chat.packing", "--packing" },        { "chat.by_length", "--group-by-length" },
        { "data.format", "the format of --data" }, { "eval.format", "that of --eval-data" },
    };

    int rc = add_set(t, log, "data", "the sum of --data", err);
    rc = rc ? rc : add_set(t, log, "eval", "the sum of --eval-data", err);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        char *text = settings_get(log, "%s", sums[i][0]);
        add(t, sums[i][1], text ? text : "");
        free(text);
    }
    return rc;
}

static int gather(struct terms *t, struct session *s, struct err *err)
{
    struct opt_line line = train_opts_line(&s->o);
    char            model[16];

    if (opt_each(&line, add_option, t))
        return err_set(err, -ENOMEM, "out of memory");
    snprintf(model, sizeof model, "%08" PRIx32, session_config_sum(s));
    add(t, "the sum of its model", model);
    return s->log ? add_data(t, s->log, err) : 0;
}

static int compare(const struct terms *own, const struct terms *first, struct err *err)
{
    for (size_t i = 0; i < own->n; i++)
        if (memcmp(&own->at[i], &first->at[i], sizeof *own->at))
            return err_misuse(err, "%s is %s here and %s on rank 0: give all ranks the same "
                              "options, model and data", own->at[i].name,
                              *own->at[i].value ? own->at[i].value : "none",
                              *first->at[i].value ? first->at[i].value : "none");
    return 0;
}

/* ---- options that a stopped process has stored on some ranks only ---- */

struct levelling {
    struct session        *s;
    const struct opt_line *given;
    int                    branch; // those that decide what is computed, too
    const struct terms    *from;
    struct terms           own;
    struct err            *err;
};

static int is_level(const struct levelling *l, const struct opt_row *row)
{
    if (row->kept == OPT_BRANCH)
        return l->branch && opt_row_decides(row);
    return row->kept >= OPT_CHANGES &&
           (row->ranks == OPT_ALIKE || !strcmp(row->name, "snapshot-every"));
}

static int add_level(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct levelling *l = ctx;

    (void)given;
    if (is_level(l, row))
        add(&l->own, row->name, text);
    return 0;
}

static int take_level(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct levelling  *l = ctx;
    struct opt_line    line = train_opts_line(&l->s->o);
    const struct term *own = &l->own.at[l->own.n], *from = &l->from->at[l->own.n];

    (void)given;
    (void)text;
    if (!is_level(l, row))
        return 0;
    l->own.n++;
    if (!memcmp(own, from, sizeof *own) || (l->given && opt_given(l->given, row->name)) ||
        crc32c(0, from->value, strlen(from->value)) != from->sum) // truncated
        return 0;
    return opt_set(&line, row->name, from->value, l->err);
}

/* Whose values all take: of a resume, rank 0's, unless it has stored none yet; of a run that is
 * restored, those of the first rank that is not on its way back, or of rank 0 if all are. Both are
 * what the last term says of a rank. NULL: nobody's. */
static const struct terms *level_of(const struct levelling *l, const struct terms *all, size_t n)
{
    for (size_t p = 0; l->branch && p < n; p++)
        if (!*all[p].at[all[p].n - 1].value)
            return &all[p];
    return l->branch || !*all->at[all->n - 1].value ? all : NULL;
}

static int level(struct levelling *l, int apart, struct err *err)
{
    struct comm    *comm = l->s->ranks.comm;
    struct opt_line line = train_opts_line(&l->s->o);
    struct terms   *all = calloc(comm->size, sizeof *all);

    if (!all || opt_each(&line, add_level, l)) {
        free(all);
        return err_set(err, -ENOMEM, "out of memory");
    }
    add(&l->own, "apart", apart ? "1" : "");
    int rc = comm_share(comm, &l->own, sizeof l->own, all, err);
    l->from = rc ? NULL : level_of(l, all, comm->size);
    l->own.n = 0;
    rc = l->from ? opt_each(&line, take_level, l) : rc;
    free(all);
    return rc;
}

int job_run_level(struct session *s, const struct opt_line *given, int first, struct err *err)
{
    struct levelling l = { .s = s, .given = given, .err = err };

    return s->ranks.comm ? level(&l, first, err) : 0;
}

int job_run_level_branch(struct session *s, struct err *err)
{
    struct levelling l = { .s = s, .branch = 1, .err = err };

    return s->ranks.comm ? level(&l, settings_has(s->log, "going_back"), err) : 0;
}

/* ---- all that is to be alike ---- */

int job_run_alike(struct session *s, struct err *err)
{
    struct comm *comm = s->ranks.comm;

    if (!comm)
        return 0;
    struct terms *all = calloc(comm->size + 1, sizeof *all), *own = all + comm->size;
    if (!all)
        return err_set(err, -ENOMEM, "out of memory");
    int rc = gather(own, s, err);
    rc = rc ? rc : comm_share(comm, own, sizeof *own, all, err);
    rc = rc ? rc : compare(own, all, err);
    free(all);
    return rc;
}
