/* lost.c: finds devices that are gone, and makes them again. */
#include "run/loop/lost.h"

#include "data/base/file.h"
#include "data/base/machine.h"
#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "run/folder/output.h"
#include "run/folder/settings.h"
#include "run/folder/snapshots.h"

#include <unistd.h>

/* ---- what is gone ---- */

static int image_is_gone(const struct run_config *cfg, unsigned area)
{
    char path[PATH_MAX];

    image_path(cfg, area, path, sizeof path);
    return !file_may_be(path);
}

int lost_count(const struct session *s, size_t *n, struct err *err)
{
    const struct run_config *cfg = &s->run;
    struct image_state       now;
    int                      rc;

    *n = 0;
    for (size_t i = 0; cfg->mode != RUN_MEM && i < cfg->n_devices; i++)
        *n += (size_t)devices_gone(cfg, i);
    if (cfg->mode != RUN_MEM)
        return 0;
    if ((rc = image_latest(cfg, &now, err)))
        return rc;
    *n = (size_t)image_is_gone(cfg, now.area) +
         (size_t)(image_frozen_bytes(cfg) && image_is_gone(cfg, IMAGE_FROZEN));
    return 0;
}

int lost_explain(struct session *s, int rc, struct err *err)
{
    struct snapshots list;
    struct err       unsaid;
    size_t           gone;
    char             line[SESSION_LINE];

    if (!rc || err_goes_on(rc, err) || lost_count(s, &gone, &unsaid) || !gone ||
        snapshots_list(&list, s, &unsaid))
        return rc;
    if (snapshots_newest(&list) || s->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS)
        err_set(err, rc, "%.600s; if it is lost, %s makes it again and goes back to the newest "
                "snapshot, from which --resume goes on", err->text,
                session_ranks_line(line, s, "restore"));
    snapshots_free(&list);
    return rc;
}

/* ---- where it is made again ---- */

/* The paths of --device with another one for device i, as opt_set takes them; malloced. */
static char *paths_with(const struct session *s, size_t i, const char *path)
{
    char  *text = NULL;
    size_t size;
    FILE  *f = open_memstream(&text, &size);

    for (size_t k = 0; f && k < s->o.device.n; k++)
        fprintf(f, "%s%s", k ? "\n" : "", k == i ? path : s->o.device.item[k]);
    if (f && !fclose(f))
        return text;
    free(text);
    return NULL;
}

int lost_is(const struct session *s, const char *text)
{
    uint64_t i = strtoull(text, NULL, 10);

    return s->run.mode != RUN_MEM && i < s->run.n_devices && devices_gone(&s->run, i);
}

int lost_place(struct session *s, const char *text, struct err *err)
{
    struct opt_line line = train_opts_line(&s->o);
    char           *end, *path;
    uint64_t        i = strtoull(text, &end, 10);

    if (end == text || *end != '=' || !end[1] || i >= s->run.n_devices)
        return err_misuse(err, "--device %s: expected I=PATH, where I is a device's number, 0 to "
                          "%zu", text, s->run.n_devices - 1);
    if (s->run.mode == RUN_MEM || !s->o.device.n)
        return err_misuse(err, "--device %s: the devices of %s lie in its folder, where they are "
                          "made again: leave --device out", text, s->dir);
    int rc = output_check_name("--device", end + 1, err);
    if (rc)
        return rc;
    if (!(path = file_absolute(end + 1, err)))
        return -ENOMEM;
    if (!devices_gone(&s->run, i)) { // a killed process may have made it there
        rc = strcmp(path, s->o.device.item[i])
                 ? err_misuse(err, "--device %s: device %" PRIu64 " of %s is there, in %s: leave "
                              "it out (siTrain reshard moves devices)", text, i, s->dir,
                              s->o.device.item[i])
                 : 0;
        free(path);
        return rc;
    }
    char *all = paths_with(s, i, path);
    rc = all ? opt_set(&line, "device", all, err) : err_set(err, -ENOMEM, "out of memory");
    free(path);
    free(all);
    return rc ? rc : session_config(s, err);
}

static int path_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    snprintf(ctx, PATH_MAX, "%s", values[0] ? values[0] : "");
    return 0;
}

/* Refuses a place that was a folder and is not there: a file would get its name. */
static int place_check(const struct session *s, size_t i, struct err *err)
{
    const char *given = s->run.device_paths ? s->run.device_paths[i] : s->dir;
    char        was[PATH_MAX] = "";
    size_t      n = file_trimmed(given);
    int         rc = runlog_ask(s->log, path_row, was, err,
                                "SELECT path FROM devices WHERE device = %zu", i);

    if (rc || !access(given, F_OK) || strncmp(was, given, n) || was[n] != '/')
        return rc;
    return err_misuse(err, "the folder %s of device %zu is not there: mount its drive, or make the "
                      "folder, or name another place with --device %zu=PATH", given, i, i);
}

int lost_check(const struct session *s, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; s->run.mode != RUN_MEM && i < s->run.n_devices && !rc; i++)
        rc = devices_gone(&s->run, i) ? place_check(s, i, err) : 0;
    return rc;
}

static int record(struct session *s, const struct devices *d, struct err *err)
{
    int rc = runlog_begin(s->log, err);

    if (rc)
        return rc;
    rc = session_store_options(s, 1, err);
    rc = rc ? rc : devices_record(d, s->log, err);
    rc = rc ? rc : moved_settle(s->moved, &s->run, err);
    return runlog_end(s->log, rc, err);
}

int lost_make(struct session *s, const struct session *snapshot, struct err *err)
{
    struct run_config cfg = s->run;
    struct devices    d = { 0 };
    char              from[PATH_MAX], to[PATH_MAX];
    int               rc;

    if (cfg.mode == RUN_MEM) {
        image_path(&snapshot->run, IMAGE_FROZEN, from, sizeof from);
        image_path(&cfg, IMAGE_FROZEN, to, sizeof to);
        return image_frozen_bytes(&cfg) && image_is_gone(&cfg, IMAGE_FROZEN)
                   ? file_copy(from, to, UINT64_MAX, err) : 0;
    }
    cfg.links = (struct topology_config){ 0 };
    rc = devices_open(&d, &cfg, DEVICES_REMAKE, NULL, err);
    rc = rc ? rc : devices_flush(&d, err);
    rc = rc ? rc : record(s, &d, err);
    devices_close(&d);
    return rc;
}
