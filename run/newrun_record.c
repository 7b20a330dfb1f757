/* newrun_record.c: stores in run.db where a new run comes from: its command line, inputs, options,
 * machine and model. */
#include "run/newrun_record.h"

#include "data/base/machine.h"
#include "data/base/version.h"
#include "run/folder/base_folder.h"
#include "run/folder/settings.h"

#include <time.h>

/* Store the command line, the time, the version and the machine that created the run. */
static int store_origin(struct session *s, const struct newrun *n, struct err *err)
{
    char           command[4096] = "siTrain", created[32];
    time_t         now = time(NULL);
    struct machine here;
    struct tm      tm;
    size_t         at = strlen(command);

    for (int i = 0; n->line && i < n->line->argc && at < sizeof command - 1; i++)
        at += (size_t)snprintf(command + at, sizeof command - at, " %s", n->line->argv[i]);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    machine_here(&here);
    int rc = settings_set(s->log, err, "command=%s", command);
    return rc ? rc
              : settings_set(s->log, err,
                             "id=%s\ncreated=%s\nversion=%s\nhost=%s\nsystem=%s\ncpu=%s", s->id,
                             created, SITRAIN_VERSION, here.host, here.system, here.cpu);
}

struct keeping { struct session *s; struct err *err; };

/* The files of a text, one a line, in full; malloced. */
static char *real_paths(const char *text)
{
    char  *out = NULL, *copy = strdup(text), *rest = copy, *line;
    size_t size;
    FILE  *f = copy ? open_memstream(&out, &size) : NULL;

    while (f && (line = strsep(&rest, "\n"))) {
        char *full = strcmp(line, "-") ? realpath(line, NULL) : NULL;

        fprintf(f, "%s%s", full ? full : line, rest ? "\n" : "");
        free(full);
    }
    if (f && fclose(f)) {
        free(out);
        out = NULL;
    }
    free(copy);
    return out;
}

static int keep_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    const struct keeping *k = ctx;
    char                 *full = NULL;

    if (row->kept != OPT_SOURCE || !given)
        return 0;
    if (row->type == OPT_PATH)
        full = realpath(text, NULL);
    if (row->type == OPT_FILES && !(full = real_paths(text)))
        return err_set(k->err, -ENOMEM, "%s: out of memory", k->s->dir);
    int rc = settings_set(k->s->log, k->err, "given.%s=%s", row->name, full ? full : text);
    free(full);
    return rc;
}

/* Store the given options that name the run's inputs. The command import has no --init, so its
 * folder is stored as init. */
static int store_recipe(struct session *s, const struct newrun *n, struct err *err)
{
    static const struct opt_row init = { "init", OPT_PATH, .kept = OPT_SOURCE };
    struct keeping              k = { s, err };
    int                         rc = n->line ? opt_each(n->line, keep_option, &k) : 0;

    if (rc || !n->line || !n->init || opt_row_find(n->line->cmd, "init", 4) >= 0)
        return rc;
    return keep_option(&k, &init, 1, n->init);
}

/* Store a classifier's class names and padding id, and send the notices about its data. */
static int store_classifier(struct session *s, const struct newrun *n, struct err *err)
{
    long pad = !arch_classifies(&n->config) ? -1
               : n->init                    ? hf_pad(n->init)
               : n->source                  ? n->pad
                                            : -1;
    int  rc = n->labels && n->labels->n ? session_store_labels(s, n->labels, err) : 0;
    char text[768];

    if (!rc && n->notice && *n->notice)
        rc = session_notice(s, n->notice, err);
    for (int i = 0; i < TASK_FILE_NOTICES && n->examples && !rc; i++) {
        task_file_notice(n->examples, i, text, sizeof text);
        rc = *text ? session_notice(s, text, err) : 0;
    }
    return rc || pad < 0 ? rc : settings_set(s->log, err, "config.pad=%ld", pad);
}

/* Store a language model's generation_config.json, which `generate` and `export` use. */
static int store_generation(struct session *s, const struct newrun *n, struct err *err)
{
    json_t *generation;
    char   *text;
    long    pad;
    int     rc;

    if ((!n->init && !n->generation) || arch_classifies(&n->config))
        return 0;
    rc = n->init ? hf_generation(&generation, n->init, n->config.vocab, err) : 0;
    if (rc)
        return rc;
    if (!n->init)
        generation = json_incref((json_t *)(uintptr_t)n->generation);
    text = json_dumps(generation, JSON_COMPACT);
    rc = text ? settings_set(s->log, err, "config.generation=%s", text)
              : err_set(err, -ENOMEM, "out of memory");
    free(text);
    json_decref(generation);
    if (!rc && (pad = n->init ? hf_pad(n->init) : n->pad) >= 0)
        rc = settings_set(s->log, err, "config.pad_id=%ld", pad);
    return rc;
}

static int store_spares(struct session *s, struct err *err)
{
    if (s->spares == RUN_SPARES_HALF)
        return 0;
    return settings_set(s->log, err, "spares=%s", s->spares == RUN_SPARES_FEW ? "few" : "1");
}

int newrun_record(struct session *s, const struct newrun *n, struct err *err)
{
    int rc;

    if (s->ranks.size > 1 && (rc = settings_set(s->log, err, "ranks=%zu\nrank=%zu", s->ranks.size,
                                                s->ranks.rank)))
        return rc;
    if ((rc = store_origin(s, n, err)) || (rc = session_store_config(s, err)) ||
        (rc = session_store_options(s, 0, err)) || (rc = store_recipe(s, n, err)) ||
        (rc = store_spares(s, err)) || (rc = store_generation(s, n, err)) ||
        (rc = base_folder_store(s, n->base, err)))
        return rc;
    return store_classifier(s, n, err);
}
