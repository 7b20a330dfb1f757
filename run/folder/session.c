/* session.c: opens a run and loads its stored settings. run_config is derived at each open, so the
 * stored options are the only source. */
#include "run/folder/session.h"

#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/machine.h"
#include "model/file/hf_base.h"
#include "model/lora/in_place.h"
#include "model/pass_order.h"
#include "offload/devices/devices.h"
#include "offload/upkeep/reshard.h"
#include "run/folder/exports.h"
#include "run/folder/owner.h"
#include "run/folder/run_files.h"
#include "run/folder/pairs_opts.h"
#include "run/folder/settings.h"

#include <unistd.h>

int session_notice(struct session *s, const char *text, struct err *err)
{
    events_notice(s->events, "%s", text);
    return s->log ? runlog_notice(s->log, text, err) : 0;
}

/* ---- the model ---- */

int session_store_labels(struct session *s, const struct hf_labels *labels, struct err *err)
{
    json_t *list = json_array();
    char   *text = NULL;
    int     rc = 0;

    for (size_t i = 0; i < labels->n && !rc; i++)
        rc = json_array_append_new(list, json_string(labels->name[i]));
    if (!rc)
        text = json_dumps(list, JSON_COMPACT);
    rc = text ? settings_set(s->log, err, "config.labels=%s", text)
              : err_set(err, -EINVAL, "the labels' names cannot be stored: they must be UTF-8");
    free(text);
    json_decref(list);
    return rc;
}

int session_labels(struct hf_labels *out, const struct session *s, struct err *err)
{
    char       *text = settings_get(s->log, "config.labels"), what[SESSION_PATH + 32];
    json_t     *list = NULL;
    size_t      n = s->config.n_labels;

    *out = (struct hf_labels){ 0 };
    if (!text) // a language model, or classes without names
        return 0;
    snprintf(what, sizeof what, "%s/run.db: config.labels", s->dir);
    int rc = json_parse(&list, text, strlen(text), what, err);
    if (!rc && json_array_size(list) != n)
        rc = err_set(err, -EBADMSG, "%s names %zu labels, but the model has %zu", what,
                     json_array_size(list), n);
    if (!rc && !(out->name = calloc(n + 1, sizeof *out->name)))
        rc = err_set(err, -ENOMEM, "%s: out of memory", what);
    for (; !rc && out->n < n; out->n++) {
        const char *name = json_string_value(json_array_get(list, out->n));
        if (!name || !(out->name[out->n] = strdup(name)))
            rc = err_set(err, -EBADMSG, "%s: label %zu has no name", what, out->n);
    }
    if (rc)
        hf_labels_free(out);
    json_decref(list);
    free(text);
    return rc;
}

int session_generation(json_t **out, const struct session *s, struct err *err)
{
    char *text = settings_get(s->log, "config.generation"), what[SESSION_PATH + 32];
    int   rc = 0;

    *out = NULL;
    snprintf(what, sizeof what, "%s/run.db: config.generation", s->dir);
    if (text)
        rc = json_parse(out, text, strlen(text), what, err);
    free(text);
    return rc;
}

long session_pad(const struct session *s, long endoftext)
{
    int  classifies = arch_classifies(&s->config);
    long pad = classifies ? endoftext : -1;

    settings_scan(s->log, "%ld", &pad, classifies ? "config.pad" : "config.pad_id");
    return pad;
}

/* ---- options ---- */

/* The text of an option as stored, malloced. Paths, one per line, become absolute, because a resume
 * may start in another directory. */
static char *stored_text(const struct opt_row *row, const char *text)
{
    char  *copy = strdup(text), *rest = copy, *line, *out = NULL;
    size_t size;

    if ((row->type != OPT_PATHS && row->type != OPT_PATH) ||
        (row->words && opt_words_find(row->words, text, strlen(text)) >= 0))
        return copy;
    FILE *f = copy ? open_memstream(&out, &size) : NULL;
    int   missing = !f;
    while (!missing && (line = strsep(&rest, "\n"))) {
        char *full = *line ? file_absolute(line, NULL) : NULL;

        missing = *line && !full;
        fprintf(f, "%s%s", full ? full : "", rest ? "\n" : "");
        free(full);
    }
    if (f)
        missing |= fclose(f) != 0;
    if (missing) {
        free(out);
        out = NULL;
    }
    free(copy);
    return out;
}

/* places: store only the options that locate the devices. */
struct storing { struct session *s; int places; struct err *err; };

static int store_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct storing *c = ctx;

    (void)given;
    if (row->kept == OPT_COMMAND || (lora_opts_has(row->name) && !c->s->o.lora.rank))
        return 0;
    if (c->places && strcmp(row->name, "device") && strcmp(row->name, "devices") &&
        strcmp(row->name, "fpga") && strcmp(row->name, "csd-mem"))
        return 0;
    char *stored = stored_text(row, text);
    int rc = stored ? settings_set(c->s->log, c->err, "option.%s=%s", row->name, stored) : -ENOMEM;
    free(stored);
    return rc;
}

int session_store_options(struct session *s, int places, struct err *err)
{
    struct storing  c = { s, places, err };
    struct opt_line line = train_opts_line(&s->o);
    int             rc = opt_each(&line, store_option, &c);

    if (rc == -ENOMEM)
        return err_set(err, rc, "%s: out of memory for the options", s->dir);
    if (!rc && train_opts_newer(&s->o))
        rc = runlog_new_arithmetic(s->log, err);
    return rc || !places || !*s->layout ? rc : settings_set(s->log, err, "layout=%s", s->layout);
}

static int load_options(struct session *s, struct err *err)
{
    struct opt_line       line = train_opts_line(&s->o);
    const struct opt_row *row;
    int                   rc = opt_parse(&line, err);

    if (rc)
        return rc;
    s->has_opts = 1;
    for (size_t i = 0; (row = train_opts_row(i)) && !rc; i++) {
        // absent in a run of an older version: the default stays
        char *text = settings_get(s->log, "option.%s", row->name);

        if (text && *text)
            rc = opt_set(&line, row->name, text, err);
        free(text);
    }
    if (!rc && s->o.mode == TRAIN_SU_O_C)
        rc = err_set(err, -EBADMSG, "%s/run.db: option.mode is su+o+c, which no run stores: it is "
                     "su+o with compress", s->dir);
    return rc;
}

struct overlay {
    struct session *s;
    int             first;
    int             moved; // --device changed
    struct err     *err;
};

/* True if a resume may change this option. A change between fake and real storage is refused,
 * because the states would be lost. */
static int may_change(const struct overlay *c, const struct opt_row *row, const char *text)
{
    const struct train_opts *o = &c->s->o;
    int disk = !strcmp(row->name, "disk") ? opt_words_find(disk_name, text, strlen(text)) : -1;
    int csd = !strcmp(row->name, "csd") ? opt_words_find(csd_name, text, strlen(text)) : -1;

    if (disk >= 0 && (disk_at((size_t)o->disk)->flags ^ disk_at((size_t)disk)->flags) & DISK_FAKE)
        return 0;
    if (csd >= 0 && (csd_at((size_t)o->csd)->flags ^ csd_at((size_t)csd)->flags) & CSD_FAKE)
        return 0;
    return row->kept >= OPT_CHANGES || (c->first && row->kept != OPT_LAYOUT);
}

static int overlay_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct overlay *c = ctx;
    struct opt_line line = train_opts_line(&c->s->o);
    const char     *name = row->name;
    int             rc = 0;

    if (row->kept < OPT_FIXED || !given)
        return 0;
    char *old = settings_get(c->s->log, "option.%s", name);
    char *new = stored_text(row, text);
    if (!new || (old && !strcmp(old, new)))
        goto out;
    int moved = !strcmp(name, "device") && c->s->run.mode != RUN_MEM;
    c->moved |= moved;
    if (moved || may_change(c, row, new))
        rc = opt_set(&line, name, new, c->err);
    else if (!strcmp(name, "devices"))
        rc = err_misuse(c->err, "--devices is %s in this run and a resume keeps it; siTrain "
                        "reshard %s --devices %s moves it", old ? old : "not set", c->s->dir, new);
    else
        rc = err_misuse(c->err, "--%s is %s in this run and a resume keeps it: leave the option "
                        "out, or make a new run with --%s %s", name, old && *old ? old : "not set",
                        name, new);
out:
    if (!new)
        rc = err_set(c->err, -ENOMEM, "%s: out of memory", c->s->dir);
    free(old);
    free(new);
    return rc;
}

struct finding { struct session *s; struct devices *d; };

static int devices_settle(void *ctx, struct err *err)
{
    const struct finding *f = ctx;
    struct session       *s = f->s;
    int                   rc = session_store_options(s, 1, err);

    rc = rc ? rc : devices_record(f->d, s->log, err);
    return rc ? rc : moved_settle(s->moved, &s->run, err);
}

/* Open the devices at their new paths, given by --device. If they are this run's, each in its
 * place, mark them with the owner word and store the paths. */
static int devices_found(struct session *s, size_t had, struct err *err)
{
    struct devices d = { 0 };
    int            rc;

    if (s->o.device.n != had)
        return err_misuse(err, "%s has %zu device%s, but --device names %zu: name each device, in "
                          "the run's order (siTrain reshard changes the number)",
                          s->dir, had, had > 1 ? "s" : "", s->o.device.n);
    if (!(rc = session_config(s, err)) &&
        !(rc = devices_open(&d, &s->run, DEVICES_MEND, NULL, err)))
        rc = owner_take(&d, s->owner, s->owner_next, devices_settle, &(struct finding){ s, &d },
                        err);
    devices_close(&d);
    return rc;
}

/* Refuse the stored TensorBoard folder in a copied or renamed run, because it belongs to the
 * original or is in the old folder. The user must name a folder again. */
static int board_check(const struct session *s, const struct opt_line *line, struct err *err)
{
    const char *dir = s->o.tensorboard;
    size_t      n = strlen(s->dir);

    if (s->moved < MOVED_RENAMED || !dir || *dir != '/' || opt_given(line, "tensorboard") ||
        s->ranks.rank > 0 || // only rank 0 writes
        (!strncmp(dir, s->dir, n) && dir[n] == '/') ||
        (s->moved == MOVED_RENAMED && !moved_was_in(s->log, dir)))
        return 0;
    return err_set(err, -EXDEV, "%s was copied or moved since it was last used, and its "
                   "TensorBoard files would go to %s, which may be another run's: name the folder "
                   "with --tensorboard DIR (auto: %s/tensorboard; none: no files)", s->dir, dir,
                   s->dir);
}

int session_overlay(struct session *s, const struct opt_line *line, int first, struct err *err)
{
    struct overlay c = { s, first, s->moved == MOVED_APART, err }; // APART implies --device
    size_t         had = s->run.n_devices;
    int            rc = board_check(s, line, err);

    rc = rc ? rc : opt_each(line, overlay_option, &c);
    return rc || !c.moved ? rc : devices_found(s, had, err);
}

/* ---- run_config ---- */

static float run_decay(void *ctx, size_t block, size_t i, size_t n, size_t *count)
{
    const struct session *s = ctx;
    int                   all = s->o.decay == TRAIN_DECAY_ALL;

    i += run_first(&s->run, block);
    return arch_decays(&s->config, block, i, n, all, count) ? (float)s->o.weight_decay : 0.0f;
}

static void param_name(void *ctx, size_t block, size_t i, char *out, size_t size)
{
    const struct session *s = ctx;

    arch_tensor_name(&s->config, out, size, "", block,
                     arch_place(&s->config, block, run_first(&s->run, block) + i).t);
}

int session_config(struct session *s, struct err *err)
{
    const struct train_opts *o = &s->o;
    size_t                   n = arch_blocks(&s->config);
    int                      together = s->ranks.size > 1;

    free(s->block_params);
    s->block_params = malloc(5 * n * sizeof *s->block_params);
    for (size_t b = 0; b < n && s->block_params; b++)
        s->block_params[b] = packed_size(&s->config, b, (enum dtype)o->dtype);
    if (!s->block_params)
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    for (size_t b = 0; b < n; b++)
        s->block_params[2 * n + b] = arch_block_size(&s->config, b);
    if (!ranks_portions(s->block_params + n, &s->ranks, s->block_params, n))
        return err_misuse(err, "the model is too small for %zu ranks: rank %zu would have nothing "
                          "of it", s->ranks.size, s->ranks.rank);
    s->ranks.groups = o->groups;
    s->ranks.whole_params = together ? s->block_params : NULL;
    s->run = (struct run_config){
        .dir = s->dir,
        .log = s->log,
        .id = s->id,
        .mode = (enum run_mode)o->mode,
        .route = pass_order_of(&s->config),
        .ranks = s->ranks,
        .block_params = s->block_params + (together ? n : 0),
        .packed = packed_blocks(&s->config, (enum dtype)o->dtype),
        .unpacked = s->block_params + 2 * n,
        .decay = run_decay,
        .decay_ctx = s,
        .name = param_name,
        .name_ctx = s,
        .wire_dt = (enum dtype)o->dtype,
        .optim = (enum optim_kind)o->optimizer,
        .compress = o->compress,
        .error_feedback = o->error_feedback,
        .n_devices = o->device.n ? o->device.n : o->devices,
        .device_paths = o->device.n ? o->device.item : NULL,
        .n_act_devices = train_opts_acts(o),
        .act_paths = o->act_device.item,
        .csd = csd_at((size_t)o->csd),
        .fpgas = o->fpga.n ? o->fpga.item : NULL,
        .xclbin = o->xclbin,
        .disk = disk_name((size_t)o->disk),
        .csd_mem = o->csd_mem,
        .spares = s->spares,
        .speculate = o->speculate,
        .layout = s->layout,
        .owner = s->owner,
        .owner_next = s->owner_next,
        .force_device = o->force_device,
        .device_in_ram = o->device_in_ram,
        .links = train_opts_links(o),
        .io_timeout_ns = (uint64_t)(o->io_timeout * 1e9),
        .durable = o->durability == TRAIN_DURABLE_STEP,
        .commit_every = o->commit_every,
        .frames = s->config.n_layer < 2 ? s->config.n_layer : 2,
        .grad_buffers = 1,
    };
    if (o->lora.in_place && s->config.lora.rank) {
        char *bytes = s->log ? settings_get(s->log, "base.bytes") : NULL;

        in_place_config(&s->run, &s->config, hf_base_files(s->base), bytes,
                        s->block_params + 3 * n);
        free(bytes);
    }
    return 0;
}

const char *session_resume_line(char out[SESSION_LINE], const struct session *s)
{
    int n = snprintf(out, SESSION_LINE, "siTrain %s --resume ",
                     settings_has(s->log, "task") ? "finetune" : "pretrain");

    machine_word(out + n, SESSION_LINE - (size_t)n, s->dir);
    return out;
}

int session_load(struct session *s, struct err *err)
{
    int rc = session_load_config(s, err);

    rc = rc ? rc : load_options(s, err);
    rc = rc ? rc : lora_opts_set(&s->config, &s->o.lora, err);
    s->rows = !settings_has(s->log, "chat.form")       ? SESSION_WHOLE
              : settings_has(s->log, "chat.packing") ? SESSION_PACKED
              : pairs_opts_load(&s->pairs, s->log)   ? SESSION_PAIRS
                                                     : SESSION_PADDED;
    settings_scan(s->log, "%zu", &s->ranks.size, "ranks");
    settings_scan(s->log, "%zu", &s->ranks.rank, "rank");
    int unread = runlog_unread(s->log, err); // before what follows from it
    rc = unread ? unread : rc;
    return rc ? rc : session_config(s, err);
}

/* ---- opening ---- */

int session_is_run(const char *dir)
{
    char path[SESSION_PATH];

    return snprintf(path, sizeof path, "%s/run.db", dir) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

int session_may_be_run(const char *dir) { return session_is_run(dir) || file_is_denied(-errno); }

/* Open run.db. --durability is stored in the database that it configures, so run.db is opened
 * twice. */
static int open_log(struct session *s, enum session_how how, struct err *err)
{
    char path[SESSION_PATH + 16], word[16] = "";

    snprintf(path, sizeof path, "%s/run.db", s->dir);
    if (how == SESSION_PAST)
        return runlog_open_past(&s->log, path, &s->past, err);
    int rc = runlog_open(&s->log, path, 1, 1, err);
    if (rc || how == SESSION_LIVE || how == SESSION_READ)
        return rc || how == SESSION_LIVE ? rc : runlog_lock_reading(s->log, err);
    runlog_get(s->log, "option.durability", word, sizeof word, err);
    runlog_close(s->log);
    s->log = NULL;
    return runlog_open(&s->log, path, 0, strcmp(word, "none") != 0, err);
}

/* Load a text setting that may be absent. */
static int load_text(struct session *s, const char *key, char *out, size_t size, struct err *err)
{
    int rc = runlog_get(s->log, key, out, size, err);

    return rc == -ENOENT ? 0 : rc;
}

static int open_as(struct session *s, const char *dir, enum session_how how,
                   const struct events *events, struct err *err)
{
    char spares[8] = "", notice[512] = "";

    *s = (struct session){ .events = events, .read_only = how > SESSION_NAMED };
    int there = realpath(dir, s->dir) != NULL;
    if (!there && errno != ENOENT && errno != ENOTDIR)
        return err_name(err, errno, "%s: %s", dir, strerror(errno));
    int run = there && session_is_run(s->dir), why = errno;
    if (there && !run && file_is_denied(-why))
        return err_set(err, -why, "%s cannot be read: %s", s->dir, strerror(why));
    if (!run)
        return err_misuse(err, "%s is not a run: a folder with run.db is expected, as pretrain "
                          "--run or import makes it", dir);
    int rc = open_log(s, how, err);
    if (!rc && (rc = runlog_get(s->log, "id", s->id, sizeof s->id, err)) == -ENOENT)
        rc = err_set(err, -EBADMSG, "%s/run.db has no id", s->dir);
    if (rc || (rc = session_load(s, err)) ||
        (rc = load_text(s, "layout", s->layout, sizeof s->layout, err)) ||
        (rc = load_text(s, "owner", s->owner, sizeof s->owner, err)) ||
        (rc = load_text(s, "owner.next", s->owner_next, sizeof s->owner_next, err)) ||
        (rc = load_text(s, "spares", spares, sizeof spares, err)))
        return rc;
    s->spares = s->run.spares = !strcmp(spares, "few") ? RUN_SPARES_FEW
                                : *spares == '1'        ? RUN_SPARES_ALL
                                                        : RUN_SPARES_HALF;
    if (s->read_only)
        return 0;
    if ((rc = moved_check(&s->moved, &s->run, how == SESSION_NAMED, err)) ||
        (rc = runlog_unread(s->log, err)))
        return rc;
    // leftovers of killed processes
    run_files_clean(s->dir);
    rc = reshard_clean(&s->run, s->moved <= MOVED_UNKNOWN, notice, sizeof notice, err);
    return rc || !*notice ? rc : session_notice(s, notice, err);
}

int session_explain(struct session *s, int rc, struct err *err)
{
    if (rc != -EBADMSG)
        return rc;
    err_set(err, rc, "%.600s; siTrain check %s lists all damage, and with --repair repairs it as "
            "far as possible", err->text, s->dir);
    exports_say(s->log, s->dir, s->events, err);
    return rc;
}

int session_explain_closed(const char *dir, int rc, const struct events *events, struct err *err)
{
    struct session s = { 0 };
    struct err     why;
    uint64_t       next, applied;

    if (rc != -EBADMSG)
        return rc;
    int past = open_as(&s, dir, SESSION_PAST, events, &why);
    if (!past)
        past = run_position(&s.run, &next, &applied, &why);
    if (!past && s.past)
        err_set(err, rc,
                "%.600s; run.db is whole up to step %" PRIu64 ": siTrain check %s says whether the "
                "devices still hold that step, and with --repair goes back to it", err->text, next,
                dir);
    exports_say(past ? NULL : s.log, dir, events, err);
    session_close(&s);
    return rc;
}

int session_open(struct session *s, const char *dir, enum session_how how,
                 const struct events *events, struct err *err)
{
    int rc = open_as(s, dir, how == SESSION_EITHER ? SESSION_WRITE : how, events, err);

    if (how == SESSION_PAST)
        return rc;
    rc = s->log ? session_explain(s, rc, err) : session_explain_closed(dir, rc, events, err);
    if (how != SESSION_EITHER || !session_cannot_write(rc))
        return rc;
    session_close(s);
    return session_open(s, dir, SESSION_READ, events, err);
}

int session_cannot_write(int rc)
{
    return rc == -EROFS || rc == -EACCES || rc == -EPERM || rc == -ENOSPC || rc == -EDQUOT ||
           rc == -EFBIG || rc == -EXDEV;
}

void session_close(struct session *s)
{
    struct opt_line line = train_opts_line(&s->o);
    for (size_t i = 1; s->others && i < s->ranks.size; i++)
        session_close(&s->others[i - 1]);
    free(s->others);
    free((void *)(uintptr_t)s->ranks.parts);
    runlog_close(s->log);
    hf_base_close(s->base);
    free(s->block_params);
    if (s->has_opts)
        opt_release(&line);
    memset(s, 0, sizeof *s);
}

int session_recover(struct session *s, struct err *err)
{
    struct stream *stream = NULL;
    char           notice[512] = "";

    if (s->run.mode == RUN_MEM) // a committed image is complete
        return 0;
    if (s->ranks.size > 1 && !s->ranks.comm)
        return err_misuse(err, "%s stopped in the middle of a step: finish it with all ranks, "
                          "mpirun -n %zu siTrain %s --resume RUN, where RUN is the folder of rank "
                          "0", s->dir,
                          s->ranks.size, settings_has(s->log, "task") ? "finetune" : "pretrain");
    if (s->read_only)
        return err_set(err, -EROFS, "%s stopped in the middle of a step, and it cannot be written "
                       "here: `siTrain pretrain --resume` (or finetune) finishes the step where "
                       "the run can be written", s->dir);
    int rc = run_train(&stream, &s->run, notice, sizeof notice, err);
    rc = rc ? rc : stream_drain(stream, err);
    stream_close(stream);
    if (!rc && *notice)
        rc = session_notice(s, notice, err);
    return rc;
}
