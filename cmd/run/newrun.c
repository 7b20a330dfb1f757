/* newrun.c: the creation of a run, in the order that makes a kill harmless: folder, run.db.new with
 * the lock, settings, tokenizer, tokens, devices, and last the name run.db. So what a killed
 * creation left is known by its names: a folder without run.db that holds nothing else may be
 * cleared and used. At a device, what is certainly the run's own is removed. */
#include "cmd/run/newrun.h"

#include "cmd/run/corpus.h"
#include "cmd/run/ranked.h"
#include "cmd/run/labelled.h"
#include "cmd/run/settings.h"
#include "cmd/run/spares.h"
#include "cmd/run/tokenise.h"
#include "cmd/run/training.h"
#include "data/base/file.h"
#include "data/base/machine.h"
#include "data/base/version.h"
#include "model/finite.h"
#include "model/hf.h"
#include "offload/devices.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- may it be made? ---- */

/* A name that creation gives. */
static int is_ours(const char *name)
{
    static const char *const ours[] = { ".",          "..",         "run.lock",    "tokenizer",
                                        "run.db.new*", "data.bin*", "eval.bin*",   "train.ex*",
                                        "dev.ex*",    "dev_mm.ex*", "test.ex*",    "test_mm.ex*",
                                        "dev[0-9]*",  "image[0-9]*" };
    size_t i = 0, n = sizeof ours / sizeof *ours;

    while (i < n && fnmatch(ours[i], name, 0))
        i++;
    return i < n;
}

/* Remove what creation made in dir, the lock file (which is held) left out. */
static void clear_folder(const char *dir, int with_database)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    char           path[SESSION_PATH + 264];

    while (d && (e = readdir(d))) {
        if (*e->d_name == '.' || !strcmp(e->d_name, "run.lock") || !is_ours(e->d_name) ||
            (!with_database && !strncmp(e->d_name, "run.db", 6)))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        file_remove_tree(path);
    }
    if (d)
        closedir(d);
}

/* May dir be made, or used? 0 also for one that a killed creation left. */
static int check_folder(const char *dir, struct err *err)
{
    struct dirent *e;
    int            rc = 0;

    if (session_is_run(dir))
        return err_misuse(err,
                          "%s is a run already: go on with --resume %s, or choose another name",
                          dir, dir);
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT)
        return 0;
    if (!d)
        return err_misuse(err, "%s: %s: a folder that does not exist is expected", dir,
                          strerror(errno));
    while (!rc && (e = readdir(d)))
        if (!is_ours(e->d_name))
            rc = err_misuse(err, "%s exists and holds %s: choose a folder that does not exist", dir,
                            e->d_name);
    closedir(d);
    return rc;
}

/* A device is there, or can be made as a file in a folder that is there. */
static int check_device(const char *path, struct err *err)
{
    char        dir[SESSION_PATH];
    struct stat st;

    if (strchr(path, '\n'))
        return err_misuse(err,
                          "--device: a path without line breaks is expected, but one has a line "
                          "break after %.*s",
                          (int)strcspn(path, "\n"), path);
    if (stat(path, &st) == 0)
        return 0;
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    if (errno == ENOENT && (!slash || stat(dir, &st) == 0))
        return 0;
    return err_misuse(err, "--device %s: %s: a folder, a file or a block device is expected", path,
                      strerror(errno));
}

/* Is device i named before, and no folder? */
static int is_twice(const struct opt_strings *devices, size_t i)
{
    const char *name = devices->item[i];
    struct stat st;
    size_t      j = 0;

    while (strcmp(devices->item[j], name))
        j++;
    return j < i && (stat(name, &st) || !S_ISDIR(st.st_mode));
}

/* Where the states would be, if they are stored at all; mem's images may be in RAM: they are images
 * of it. */
static int check_devices(const char *dir, const struct train_opts *o, struct err *err)
{
    int stored = o->mode != RUN_MEM && !(csd_at((size_t)o->csd)->flags & CSD_FAKE) &&
                 !(disk_at((size_t)o->disk)->flags & DISK_FAKE);
    int rc = stored && !o->device.n ? devices_place_check(dir, NULL, o->device_in_ram, err) : 0;

    for (size_t i = 0; i < o->device.n && !rc; i++) {
        const char *name = o->device.item[i];

        rc = check_device(name, err);
        if (!rc && is_twice(&o->device, i))
            rc = err_misuse(err, "--device %s was given twice: a file or a drive holds one device, "
                            "a folder any number", name);
        if (!rc && stored)
            rc = devices_place_check(name, "--device", o->device_in_ram, err);
    }
    for (size_t i = 0; i < train_opts_acts(o) && !rc && stored; i++) {
        const struct run_config cfg = { .force_device = o->force_device,
                                        .device_in_ram = o->device_in_ram };

        if (is_twice(&o->act_device, i))
            rc = err_misuse(err, "--act-device %s was given twice: a file or a drive holds one, a "
                            "folder any number", o->act_device.item[i]);
        rc = rc ? rc : devices_act_check(&cfg, o->act_device.item[i], err);
    }
    return rc;
}

/* Rows of the larger development set; 0: none. */
static uint64_t dev_rows(const struct newrun *n)
{
    uint64_t most = 0;

    for (size_t i = 0; i < n->n_examples; i++)
        if (!strncmp(n->examples[i].name, "dev", 3) && n->examples[i].rows > most)
            most = n->examples[i].rows;
    return most;
}

static int check_masking(const struct newrun *n, uint64_t seq, struct err *err)
{
    struct masking m;
    int rc = n->line ? masking_opts_check(n->line, &n->o->mask, &n->config, err) : 0;

    if (rc || !arch_is_masked(&n->config) || !n->data)
        return rc;
    rc = masking_find(&m, &n->config, &n->o->mask, n->tokenizer, err);
    return rc || masking_rows(&m, UINT64_MAX, seq)
               ? rc
               : err_misuse(err, "--seq %" PRIu64 ": what the tokenizer puts around a row leaves "
                            "no room in it", seq);
}

/* Refusals that need no folder. Nothing on disk is changed. */
static int check(const struct newrun *n, struct err *err)
{
    const char *const texts[] = { n->data, n->eval_data };
    uint64_t          seq = n->o->seq ? n->o->seq : arch_usual_seq(&n->config);
    int               rc = check_folder(n->dir, err);

    rc = rc ? rc : arch_check_head(&n->config, err);
    rc = rc ? rc : check_devices(n->dir, n->o, err);
    if (!rc && n->tokenizer)
        rc = tokenise_expect(n->tokenizer, err);
    if (!rc && n->tokenizer && n->init && tokenise_has_files(n->init))
        rc = tokenise_same(n->tokenizer, n->init, err);
    if (!rc && n->o->keep_best && !n->eval_data && !dev_rows(n))
        rc = err_misuse(err, "--keep-best needs something to evaluate on: give %s",
                        n->examples ? "--eval-file FILE" : "--eval-data FILE");
    rc = rc ? rc : check_masking(n, seq, err);
    for (int i = 0; i < 2 && !rc; i++)
        if (texts[i])
            rc = corpus_check(texts[i], n->tokenizer, n->config.vocab, seq, n->events, err);
    return rc;
}

/* ---- taken, given up, kept ---- */

/* All of it is complete: run.db.new, closed, becomes run.db. */
static int place_keep(struct session *s, struct err *err)
{
    char from[SESSION_PATH + 32], to[SESSION_PATH + 32], wal[SESSION_PATH + 40];

    snprintf(from, sizeof from, "%s/run.db.new", s->dir);
    snprintf(to, sizeof to, "%s/run.db", s->dir);
    snprintf(wal, sizeof wal, "%s-wal", from);
    int rc = runlog_whole(s->log, err);
    runlog_close(s->log);
    s->log = NULL;
    if (rc)
        return rc;
    if (access(wal, F_OK) == 0)
        return err_set(err, -EIO, "%s could not be written completely (its log %s is still there)",
                       from, wal);
    if (rename(from, to))
        return err_set(err, -errno, "rename %s to %s: %s", from, to, strerror(errno));
    rc = file_sync_dir(s->dir, err);
    rc = rc ? rc : file_sync_parent(s->dir, err); // RUN itself
    if (rc)
        unlink(to); // what it names will be removed
    return rc;
}

/* What a creation that came to nothing left at a --device: in a folder the file with its id in the
 * name, a file or a block device with its superblock. What is not certainly its own stays. */
static void clear_device(const char *device, const char *id, size_t i)
{
    static const char zeros[STORE_SUPERBLOCK];
    char              path[2 * SESSION_PATH], page[STORE_SUPERBLOCK];
    struct store_super super;
    struct stat        st;

    snprintf(path, sizeof path, "%s/sitrain-%.8s-dev%zu", device, id, i);
    unlink(path);
    if (stat(device, &st))
        return;
    int fd = file_open_device(device, S_ISBLK(st.st_mode) ? O_RDWR | O_EXCL : O_RDONLY);
    if (fd < 0)
        return;
    if (!file_pread(fd, page, sizeof page, 0, device, NULL) && !store_super_read(page, &super) &&
        !strcmp(super.id, id)) {
        if (S_ISREG(st.st_mode))
            unlink(device);
        else
            file_pwrite(fd, zeros, sizeof zeros, 0, device, NULL);
    }
    close(fd);
}

/* run.db.new is there: if its maker is alive, the folder is taken; else it is cleared, and the
 * devices that the maker had. */
static int clear_dead(const char *dir, const char *path, struct err *err)
{
    struct runlog *log = NULL;
    struct err     dead;
    int            rc = runlog_open(&log, path, 0, 0, &dead);
    char          *id = rc ? NULL : settings_get(log, "id"),
                  *devices = rc ? NULL : settings_get(log, "option.device"), *rest = devices;

    for (size_t i = 0; id && rest && *rest; i++)
        clear_device(strsep(&rest, "\n"), id, i);
    free(id);
    free(devices);
    runlog_close(log);
    if (rc == -EBUSY)
        return err_set(err, rc, "%s", dead.text);
    clear_folder(dir, 1);
    return 0;
}

/* Where the run is put. made: the folder was not there; claimed: its lock is ours. */
struct place { int made, claimed; };

/* Make the folder, or take over what a killed creation left in it, and create run.db.new with its
 * lock: s->dir, s->log. After a failure, too, place_give_up. */
static int place_claim(struct place *p, struct session *s, const char *dir, struct err *err)
{
    char path[SESSION_PATH + 16];
    int  rc = 0;

    p->made = mkdir(dir, 0777) == 0;
    if (!p->made && errno != EEXIST)
        return err_set(err, -errno, "mkdir %s: %s", dir, strerror(errno));
    if (!realpath(dir, s->dir))
        return err_set(err, -errno, "%s: %s", dir, strerror(errno));
    snprintf(path, sizeof path, "%s/run.db.new", s->dir);
    if (access(path, F_OK) == 0)
        rc = clear_dead(s->dir, path, err);
    rc = rc ? rc : runlog_create(&s->log, path, s->o.durability == TRAIN_DURABLE_STEP, err);
    p->claimed = !rc;
    if (!rc)
        clear_folder(s->dir, 0);
    return rc;
}

/* It comes to nothing: remove what was made. */
static void place_give_up(const struct place *p, struct session *s, const char *dir)
{
    char lock[SESSION_PATH + 16];

    if (p->claimed) {
        for (size_t i = 0; i < s->run.n_devices && s->run.device_paths; i++)
            clear_device(s->run.device_paths[i], s->id, i);
        runlog_close(s->log);
        s->log = NULL;
        clear_folder(dir, 1);
    }
    if (p->made) {
        snprintf(lock, sizeof lock, "%s/run.lock", dir);
        unlink(lock);
        rmdir(dir);
    }
}

/* ---- how it was made ---- */

/* What the run's row says of where it was made. */
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

static int keep_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    const struct keeping *k = ctx;
    char                 *full = NULL;

    if (row->kept != OPT_SOURCE || !given)
        return 0;
    if (row->type == OPT_PATH)
        full = realpath(text, NULL);
    int rc = settings_set(k->s->log, k->err, "given.%s=%s", row->name, full ? full : text);
    free(full);
    return rc;
}

/* Of the options that say what the run is made from, those that were given; of import, which has a
 * folder to begin with in place of --init, that. */
static int store_recipe(struct session *s, const struct newrun *n, struct err *err)
{
    static const struct opt_row init = { "init", OPT_PATH, .kept = OPT_SOURCE };
    struct keeping              k = { s, err };
    int                         rc = n->line ? opt_each(n->line, keep_option, &k) : 0;

    if (rc || !n->line || !n->init || opt_row_find(n->line->cmd, "init", 4) >= 0)
        return rc;
    return keep_option(&k, &init, 1, n->init);
}

/* What else a classifier's folder says: its labels by name, and what it pads with. */
static int store_classifier(struct session *s, const struct newrun *n, struct err *err)
{
    long pad = n->init && arch_classifies(&n->config) ? hf_pad(n->init) : -1;
    int  rc = n->labels && n->labels->n ? session_store_labels(s, n->labels, err) : 0;
    char text[512];

    if (!rc && n->notice && *n->notice)
        rc = session_notice(s, n->notice, err);
    for (int i = 0; i < 2 && n->examples && !rc; i++) {
        labelled_notice(n->examples, i, text, sizeof text);
        rc = *text ? session_notice(s, text, err) : 0;
    }
    return rc || pad < 0 ? rc : settings_set(s->log, err, "config.pad=%ld", pad);
}

/* What a language model's folder says of texts that are generated, which `generate` and an export
 * ask for. */
static int store_generation(struct session *s, const struct newrun *n, struct err *err)
{
    json_t *generation;
    char   *text;
    int     rc;

    if (!n->init || arch_classifies(&n->config))
        return 0;
    if ((rc = hf_generation(&generation, n->init, n->config.vocab, err)))
        return rc;
    text = json_dumps(generation, JSON_COMPACT);
    rc = text ? settings_set(s->log, err, "config.generation=%s", text)
              : err_set(err, -ENOMEM, "out of memory");
    free(text);
    json_decref(generation);
    return rc;
}

static int store_spares(struct session *s, struct err *err)
{
    if (s->spares == RUN_SPARES_HALF)
        return 0;
    return settings_set(s->log, err, "spares=%s", s->spares == RUN_SPARES_FEW ? "few" : "1");
}

/* Fewer than usual are said, with what they cost, once there was room for them. */
static int notice_spares(struct session *s, struct err *err)
{
    if (s->spares != RUN_SPARES_FEW || s->o.spare_slots != TRAIN_SPARES_AUTO)
        return 0;
    return session_notice(s, "the drives have room for few spare slots: steps commit more often "
                          "(--spare-slots)", err);
}

static int store_all(struct session *s, const struct newrun *n, struct err *err)
{
    int rc;

    if (s->ranks.size > 1 && (rc = settings_set(s->log, err, "ranks=%zu\nrank=%zu", s->ranks.size,
                                                s->ranks.rank)))
        return rc;
    if ((rc = store_origin(s, n, err)) || (rc = session_store_config(s, err)) ||
        (rc = session_store_options(s, 0, err)) || (rc = store_recipe(s, n, err)) ||
        (rc = store_spares(s, err)) || (rc = store_generation(s, n, err)))
        return rc;
    return store_classifier(s, n, err);
}

/* ---- creation ---- */

/* Parameters to begin with: those of a model without its head, or where there is none, new ones. */
struct beginning {
    const struct session *s;
    struct params_source  body;
    int                   bare; // an encoder's with another kind of head: all of that is new
};

static int begin_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct beginning  *b = ctx;
    const struct model_config *g = &b->s->config;
    size_t head = b->bare && block == arch_final_block(g) ? 0 : arch_score_offset(g, block);
    size_t old = !b->body.read || first >= head ? 0 : n < head - first ? n : head - first;
    int    rc = old ? b->body.read(b->body.ctx, block, first, old, out, err) : 0;

    if (!rc && old < n)
        arch_init_values(out + old, g, block, first + old, n - old, b->s->o.seed);
    return rc;
}

static int format_run(struct session *s, const struct newrun *n, struct err *err)
{
    struct beginning     new = { .s = s };
    struct params_source source = { begin_read, &new };
    struct hf           *hf = NULL;
    struct finite        init; // read from until the states are made
    struct watch         w;
    size_t               labels = n->source_labels;
    int                  headless = 0, rc;

    if (n->source)
        new.body = *n->source;
    if (n->init) {
        w = work_begin(n->events, "checking %s", n->init);
        rc = hf_open(&hf, n->init, &w, err);
        work_end(n->events);
        if (rc)
            return rc;
        init = (struct finite){ hf_source(hf), hf_model(hf), n->init };
        new.body = finite_source(&init);
        labels = hf_model(hf)->n_labels;
        headless = hf_model(hf)->headless != 0;
    }
    new.bare = s->config.arch->encoder && (headless || !labels != !s->config.n_labels);
    if (new.body.read && labels == s->config.n_labels && !headless)
        source = new.body;
    w = work_begin(n->events, "making the states of %s", n->dir);
    s->run.watch = &w;
    rc = run_format(&s->run, &source, err);
    s->run.watch = NULL;
    work_end(n->events);
    hf_close(hf);
    return rc ? rc : notice_spares(s, err);
}

/* The tokenizer into RUN, and what is made with it. */
static int add_tokenizer(struct session *s, const struct newrun *n, struct err *err)
{
    char              path[SESSION_PATH + 16];
    struct tokenizer *tok = NULL;
    int               copied, rc;

    snprintf(path, sizeof path, "%s/tokenizer", s->dir);
    if (mkdir(path, 0777))
        return err_set(err, -errno, "mkdir %s: %s", path, strerror(errno));
    if ((rc = hf_copy_tokenizer(n->tokenizer, path, &copied, err)) ||
        (rc = tokenizer_open(&tok, path, err)))
        return rc;
    rc = settings_set(s->log, err, "endoftext=%ld", (long)tokenizer_endoftext(tok));
    if (!rc && n->n_examples)
        rc = labelled_add(s, n->examples, n->n_examples, n->epochs, tok, err);
    tokenizer_close(tok);
    return rc;
}

/* Everything into the folder; run.db.new is closed again at its end, so that one file holds it
 * all. */
static int fill_folder(struct session *s, const struct newrun *n, struct err *err)
{
    int rc = runlog_begin(s->log, err);

    if (rc || (rc = runlog_end(s->log, store_all(s, n, err), err)) ||
        (n->tokenizer && (rc = add_tokenizer(s, n, err))) ||
        (n->data && (rc = corpus_add(s, "data", n->data, err))) ||
        (n->eval_data && (rc = corpus_add(s, "eval", n->eval_data, err))) ||
        (rc = format_run(s, n, err)) ||
        (n->comm && (rc = comm_share(n->comm, NULL, 0, NULL, err)))) // all are as far
        return rc;
    return place_keep(s, err);
}

/* It is to be trained as it is: what is refused then is refused before anything is made. *acts: for
 * which its devices are to have room. */
static int check_training(struct session *s, const struct newrun *n, struct run_acts *acts,
                          struct err *err)
{
    struct budget plan;

    s->o.seq = s->o.seq ? s->o.seq : arch_usual_seq(&n->config);
    s->o.threads = threads_here(s->o.threads);
    s->o.schedule_steps = s->o.schedule_steps ? s->o.schedule_steps : s->o.steps;
    snprintf(s->dir, sizeof s->dir, "%s", n->dir);
    int rc = ranked_groups(s, err);
    rc = rc ? rc : ranked_alike(s, err);
    rc = rc ? rc : session_config(s, err);
    rc = rc ? rc : training_plan_here(&plan, s, dev_rows(n), err);
    if (!rc && (rc = spares_choose(s, 1, err)) > 0)
        rc = training_plan_here(&plan, s, dev_rows(n), err);
    *acts = s->run.acts;
    return rc;
}

/* It is not trained yet: only how much room there is matters. */
static int check_room(struct session *s, const struct newrun *n, struct err *err)
{
    snprintf(s->dir, sizeof s->dir, "%s", n->dir);
    int rc = session_config(s, err);
    rc = rc ? rc : spares_choose(s, 1, err);
    return rc < 0 ? rc : 0;
}

int newrun_create(const struct newrun *n, struct err *err)
{
    // options stay the caller's: has_opts is 0
    struct session s = { .config = n->config, .o = *n->o, .events = n->events,
                         .ranks = { .comm = n->comm, .size = n->comm ? n->comm->size : 1,
                                    .rank = n->comm ? n->comm->rank : 0 } };
    struct place    place = { 0 };
    struct run_acts acts = { 0 };
    int             rc = check(n, err);

    if (!rc && (n->data || n->n_examples))
        rc = check_training(&s, n, &acts, err);
    else if (!rc)
        rc = check_room(&s, n, err);
    events_kill_costs(n->events, "leaves %s half made, which a new run of that name clears",
                      n->dir);
    if (!rc && !(rc = ranked_id(&s, err)) &&
        !(rc = place_claim(&place, &s, n->dir, err)) &&
        !(rc = session_config(&s, err))) {
        s.run.acts = acts;
        rc = fill_folder(&s, n, err);
    }
    if (rc)
        place_give_up(&place, &s, n->dir);
    session_close(&s);
    events_kill_costs(n->events, NULL);
    return rc;
}
