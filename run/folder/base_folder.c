/* base_folder.c: finds the base again when a run is opened, and refuses another one. For each file
 * run.db keeps a checksum of the whole file, its size, its inode, and the times of the last change
 * of its contents and of its inode (base.N). If all but the checksum are the same, nobody has
 * written to the file since: the time of an inode cannot be set back. */
#include "run/folder/base_folder.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "data/tensors/gguf.h"
#include "model/file/hf_base.h"
#include "model/lora/in_place.h"
#include "run/folder/settings.h"

enum { PIECE = 1 << 14 }; // parameters looked at, at once

/* ---- what the run keeps */

static int store_bytes(struct session *s, struct err *err)
{
    char *text = in_place_text(&s->run);
    int   rc = text ? settings_set(s->log, err, "base.bytes=%s", text)
                    : err_set(err, -ENOMEM, "%s: out of memory", s->dir);

    free(text);
    return rc;
}

/* Stores file i, as it is in `now`. */
static int store_file(struct session *s, size_t i, const struct hf_base_file *now, struct err *err)
{
    return settings_set(s->log, err, "base.%zu=%08" PRIx32 " %" PRIu64 " %" PRIu64 " %" PRIu64
                        " %" PRIu64 " %s", i, now->sum, now->bytes, now->mtime_ns, now->ctime_ns,
                        now->inode, now->name);
}

/* Loads what is kept of the file of this name. 0 if there is none. */
static int load_file(const struct session *s, const char *name, struct hf_base_file *out)
{
    char *text;
    int   found = 0;

    for (size_t i = 0; !found && (text = settings_get(s->log, "base.%zu", i)); i++) {
        *out = (struct hf_base_file){ .name = "" };
        found = sscanf(text, "%" SCNx32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                       " %255[^\n]", &out->sum, &out->bytes, &out->mtime_ns, &out->ctime_ns,
                       &out->inode, out->name) == 6 &&
                !strcmp(out->name, name);
        free(text);
    }
    return found;
}

static size_t count_files(const struct session *s)
{
    size_t n = 0;

    while (settings_has(s->log, "base.%zu", n))
        n++;
    return n;
}

/* ---- opening */

int base_folder_store(struct session *s, const char *dir, struct err *err)
{
    if (!dir || !s->config.lora.rank)
        return 0;
    char *full = file_real(dir);
    int   rc = full ? settings_set(s->log, err, "lora.base=%s", full)
                    : err_set(err, -errno, "%s cannot be read: %s", dir, strerror(errno));

    free(full);
    return rc;
}

void base_folder_other(const struct events *events, const struct peft *p, const char *adapter,
                       const char *base)
{
    if (peft_other_base(p))
        events_notice(events, "%s was trained on another model than the one in %s: the parameters "
                      "of their layers differ", adapter, base);
}

int base_folder_refuse(const struct lora_opts *o, const char *base, struct err *err)
{
    if (!o->in_place)
        return 0;
    if (!base)
        return err_misuse(err, "--base-in-place reads the model from its folder, and the run would "
                          "not begin with one: give --init HFDIR, or leave the option out");
    return gguf_is_file(base) ? hf_base_refuse_gguf(base, err) : 0;
}

int base_folder_is_in_place(const char *run)
{
    struct runlog *log = NULL;
    struct err     why; // opening the run says it
    char           text[8] = "";
    int            rc = runlog_open_run(&log, run, &why);

    rc = rc ? rc : runlog_get(log, "option.base-in-place", text, sizeof text, &why);
    runlog_close(log);
    return !rc && *text == '1';
}

int base_folder_named(struct session *s, const char *dir, struct err *err)
{
    if (dir && !s->run.base_end)
        return err_misuse(err, "--base says where a base is that is read in place "
                          "(--base-in-place), or that of an adapter's folder, and %.300s has its "
                          "model itself: leave it out", s->dir);
    s->base_dir = dir;
    return 0;
}

int base_folder_look(struct session *s, const char *dir, struct err *err)
{
    if (!s->run.base_end || s->base)
        return 0;
    return hf_base_open(&s->base, dir, &s->config, err);
}

/* Puts the open base into s->run, whose arrays session_config has made. */
static void base_take(struct session *s)
{
    in_place_config(&s->run, &s->config, hf_base_files(s->base), NULL,
                    (size_t *)(uintptr_t)s->run.held);
}

static uint64_t all_bytes(const struct session *s)
{
    const struct base_files *files = hf_base_files(s->base);
    uint64_t                 bytes = 0;

    for (size_t i = 0; i < files->n; i++)
        bytes += (uint64_t)files->file[i].was.st_size;
    return bytes;
}

/* Reads the frozen blocks once. The source refuses values with which nothing can be computed. */
static int look_at_values(const struct session *s, const struct params_source *source,
                          struct err *err)
{
    float       *piece = malloc(PIECE * sizeof *piece);
    int          rc = piece ? 0 : err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    struct watch w = work_begin(s->events, "looking at the values of the base");

    for (size_t b = 0; b < run_blocks(&s->run) && !rc; b++) {
        size_t all = run_in_place(&s->run, b) ? run_whole(&s->run, b) : 0;

        for (size_t i = 0, k; i < all && !rc; i += k) {
            k = size_min(all - i, PIECE);
            rc = source->read(source->ctx, b, i, k, piece, err);
            rc = rc ? rc : watch_look(&w, b, run_blocks(&s->run), err);
        }
    }
    work_end(s->events);
    free(piece);
    return rc;
}

int base_folder_make(struct session *s, const char *dir, const struct hf *seen,
                     const struct params_source *source, struct err *err)
{
    int rc = base_folder_look(s, dir, err);

    if (rc || !s->base)
        return rc;
    if (!hf_base_is(s->base, seen))
        return err_set(err, -ESTALE, "%s was changed while its model was looked at: begin "
                       "again when nobody writes to it", dir);
    base_take(s);
    rc = look_at_values(s, source, err);
    struct watch w = work_begin(s->events, "computing the checksums of %s", dir);
    uint64_t     before = 0, all = all_bytes(s);
    uint32_t     sum = 0; // of all files, by which ranks compare their bases

    for (size_t i = 0; i < s->run.base->n && !rc; i++) {
        struct hf_base_file now = hf_base_now(s->base, i);

        rc = hf_base_sum(s->base, i, &now.sum, before, all, &w, err);
        rc = rc ? rc : store_file(s, i, &now, err);
        hf_base_known(s->base, i, now.sum);
        before += now.bytes;
        sum = crc32c(crc32c(sum, now.name, strlen(now.name)), &now.sum, sizeof now.sum);
    }
    work_end(s->events);
    rc = rc ? rc : settings_set(s->log, err, "base.sum=%08" PRIx32, sum);
    return rc ? rc : store_bytes(s, err);
}

/* The folder of the base: as it was given, or as the run has it; malloced. */
static char *folder_of(const struct session *s)
{
    return s->base_dir ? file_real(s->base_dir) : settings_get(s->log, "lora.base");
}

/* Opens the folder, whose model must be the run's, with as many files. */
static int open_folder(struct session *s, const char *dir, struct err *err)
{
    struct err why = { .text = "no such folder" };
    int        rc = dir ? base_folder_look(s, dir, &why) : -ENOENT;

    if (rc == -ENOMEM)
        return err_set(err, rc, "%s", why.text);
    if (!rc && s->base && hf_base_files(s->base)->n != count_files(s)) {
        rc = -ESTALE;
        err_set(&why, rc, "its tensors are in %zu file%s, and those of the base were in %zu",
                hf_base_files(s->base)->n, hf_base_files(s->base)->n == 1 ? "" : "s",
                count_files(s));
    }
    return rc ? err_set(err, rc == -EINVAL ? -ESTALE : rc, "the base of %.200s cannot be read in "
                        "%.200s (%.300s): put it back as it was, or say with --base HFDIR where "
                        "it is", s->dir,
                        dir ? dir : s->base_dir ? s->base_dir : "its folder", why.text)
              : 0;
}

/* Compares file i with what the run keeps of it. always: computes the checksum in any case. *moved:
 * the file is the same, but not at the same time and place. */
static int compare_file(const struct session *s, size_t i, int always, int *moved,
                        const struct watch *w, struct err *err)
{
    const char         *path = hf_base_files(s->base)->file[i].path;
    struct hf_base_file now = hf_base_now(s->base, i), kept;
    const char         *differs = NULL;

    if (!load_file(s, now.name, &kept))
        differs = "the base had no file of this name";
    else if (now.bytes != kept.bytes)
        differs = "its size differs";
    else
        hf_base_known(s->base, i, kept.sum);
    if (!differs && !always && hf_base_same(&now, &kept))
        return 0;
    int rc = differs ? 0 : hf_base_sum(s->base, i, &now.sum, 0, now.bytes, w, err);
    if (rc)
        return rc;
    if (!differs && now.sum != kept.sum)
        differs = "its checksum differs";
    *moved |= !hf_base_same(&now, &kept);
    return differs ? err_set(err, -ESTALE, "%.400s is not the file with which %.200s was made: %s: "
                             "put that file back, or say with --base HFDIR where it is", path,
                             s->dir, differs)
                   : 0;
}

/* Stores where the base is now, and how its files look. */
static int store_place(struct session *s, const char *dir, struct err *err)
{
    struct hf_base_file kept, now;
    int                 rc = runlog_begin(s->log, err);

    if (rc)
        return rc;
    rc = settings_set(s->log, err, "lora.base=%s", dir);
    for (size_t i = 0; i < s->run.base->n && !rc; i++) {
        now = hf_base_now(s->base, i);
        load_file(s, now.name, &kept);
        now.sum = kept.sum;
        rc = store_file(s, i, &now, err);
    }
    return runlog_end(s->log, rc ? rc : store_bytes(s, err), err);
}

/* keeps: stores another folder than the run's. */
static int open_as(struct session *s, int always, int keeps, struct err *err)
{
    char *dir = folder_of(s), *had = settings_get(s->log, "lora.base");
    int   other = !dir || !had || strcmp(dir, had), moved = other, rc = open_folder(s, dir, err);

    if (!rc) {
        struct watch w = work_begin(s->events, "comparing the files of %s", dir);

        base_take(s);
        for (size_t i = 0; i < s->run.base->n && !rc; i++)
            rc = compare_file(s, i, always, &moved, &w, err);
        work_end(s->events);
    }
    if (!rc && moved && !s->read_only && (keeps || !other))
        rc = store_place(s, dir, err);
    free(dir);
    free(had);
    return rc;
}

int base_folder_open(struct session *s, int keeps, struct err *err)
{
    return s->run.base_end ? open_as(s, 0, keeps, err) : 0;
}

int base_folder_check(struct session *s, struct base_folder_sums *out, struct err *err)
{
    *out = (struct base_folder_sums){ 0 };
    if (!s->run.base_end)
        return 0;
    int rc = open_as(s, 1, 0, err);
    if (!rc)
        *out = (struct base_folder_sums){ s->run.base->n, all_bytes(s) };
    return rc;
}
