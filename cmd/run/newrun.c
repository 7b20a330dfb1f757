/* newrun.c: the creation of a run, in the order that makes a kill harmless: folder, run.db.new with
 * the lock, settings, tokenizer, tokens, devices, and last the name run.db. What a killed creation
 * left is known by its names: a folder without run.db that holds nothing else may be cleared and
 * used. */
#include "cmd/run/newrun.h"

#include "cmd/run/columns.h"
#include "cmd/run/labelled.h"
#include "cmd/run/tokenise.h"
#include "data/base/file.h"
#include "data/base/version.h"
#include "model/finite.h"
#include "model/hf.h"
#include "offload/devices.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { CHECK_IDS = 1 << 15 };

/* ---- data ---- */

/* Every id of a token file against the vocabulary, and its length against a row. of: the user's
 * file, which the tokens are those of. */
static int check_tokens(const char *path, const char *of, size_t vocab, uint64_t seq,
                        const struct events *events, struct err *err)
{
    struct tokens *t = NULL;
    int32_t       *ids = malloc(CHECK_IDS * sizeof *ids);
    int rc = ids ? tokens_open(&t, path, err) : err_set(err, -ENOMEM, "%s: out of memory", path);
    uint64_t       count = rc ? 0 : tokens_count(t);
    struct watch   w = work_begin(events, "reading %s", path);

    if (!rc && count < seq + 1)
        rc = err_misuse(err, "%s has %" PRIu64 " tokens; a row of --seq %" PRIu64 " needs %" PRIu64,
                        of, count, seq, seq + 1);
    for (uint64_t at = 0, n; at < count && !rc; at += n) {
        n = count - at < CHECK_IDS ? count - at : CHECK_IDS;
        rc = tokens_read(t, at, n, vocab, ids, err);
        if (!rc)
            rc = watch_look(&w, at + n, count, err);
    }
    work_end(events);
    if (rc && err)
        err->misuse = 1;
    tokens_close(t);
    free(ids);
    return rc;
}

static int check_data(const char *path, const char *tokenizer, size_t vocab, uint64_t seq,
                      const struct events *events, struct err *err)
{
    enum tokens_kind  kind;
    struct tokenizer *tok = NULL;
    struct stat       st;
    int               rc;

    if (stat(path, &st))
        return err_misuse(err, "%s: %s: a token file or a text is expected", path, strerror(errno));
    rc = tokenise_detect(path, &kind, events, err);
    if (rc)
        return rc;
    if (kind != TOKENS_TEXT)
        return check_tokens(path, path, vocab, seq, events, err);
    if (!tokenizer || !tokenise_has_files(tokenizer))
        return err_misuse(err,
                          "%s is text: --tokenizer DIR is needed (siTrain prepare "
                          "--train-tokenizer makes one)",
                          path);
    rc = tokenizer_open(&tok, tokenizer, err);
    if (!rc && tokenizer_vocab(tok) > vocab)
        rc = err_misuse(err,
                        "the tokenizer in %s has %zu ids, more than the model's vocabulary of %zu",
                        tokenizer, tokenizer_vocab(tok), vocab);
    tokenizer_close(tok);
    return rc;
}

int newrun_add_data(struct session *s, const char *what, const char *path, struct err *err)
{
    char              out[SESSION_PATH + 16], dir[SESSION_PATH + 16], key[32];
    struct tokenizer *tok = NULL;
    enum tokens_kind  kind;
    char             *full = NULL;
    uint64_t          count;
    int               rc;

    snprintf(dir, sizeof dir, "%s/tokenizer", s->dir);
    rc = check_data(path, dir, s->gpt.vocab, s->o.seq, s->events, err);
    if (!rc)
        rc = tokenise_detect(path, &kind, s->events, err);
    if (!rc && !(full = realpath(path, NULL)))
        rc = err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!rc && kind == TOKENS_TEXT) {
        snprintf(out, sizeof out, "%s/%s.bin", s->dir, what);
        snprintf(key, sizeof key, "%s.text", what);
        rc = tokenizer_open(&tok, dir, err);
        if (!rc)
            rc = tokenise_files(tok, (const char *const[]){ full }, 1, out, &count, s->events, err);
        if (!rc)
            rc = session_set(s, key, full, err);
        if (!rc)
            rc = check_tokens(out, path, s->gpt.vocab, s->o.seq, s->events, err);
    }
    if (!rc)
        rc = session_store_tokens(s, what, kind == TOKENS_TEXT ? out : full, err);
    tokenizer_close(tok);
    free(full);
    return rc;
}

/* ---- the folder ---- */

/* A name that creation gives (run.lock, run.db.new..., data.bin..., eval.bin..., train.ex...,
 * tokenizer, dev0, image0, ...). */
static int is_ours(const char *name)
{
    static const char *const exact[] = { ".", "..", "run.lock", "tokenizer" };
    static const char *const begins[] = { "run.db.new", "data.bin",  "eval.bin", "train.ex",
                                          "dev.ex",     "dev_mm.ex", "test.ex",  "test_mm.ex" };
    static const char *const numbered[] = { "dev", "image" };

    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (!strcmp(name, exact[i]))
            return 1;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(name, begins[i], strlen(begins[i])))
            return 1;
    for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++)
        if (!strncmp(name, numbered[i], strlen(numbered[i])) &&
            isdigit((unsigned char)name[strlen(numbered[i])]))
            return 1;
    return 0;
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
    DIR           *d;
    struct dirent *e;
    int            rc = 0;

    if (session_is_run(dir))
        return err_misuse(err,
                          "%s is a run already: go on with --resume %s, or choose another name",
                          dir, dir);
    d = opendir(dir);
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
    char       *slash;

    if (strchr(path, '\n'))
        return err_misuse(err,
                          "--device: a path without line breaks is expected, but one has a line "
                          "break after %.*s",
                          (int)strcspn(path, "\n"), path);
    if (stat(path, &st) == 0)
        return 0;
    snprintf(dir, sizeof dir, "%s", path);
    slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    if (errno == ENOENT && (!slash || stat(dir, &st) == 0))
        return 0;
    return err_misuse(err, "--device %s: %s: a folder, a file or a block device is expected", path,
                      strerror(errno));
}

/* Is this one named before, and no folder? */
static int is_twice(const struct opt_strings *devices, size_t i)
{
    struct stat st;
    size_t      j = 0;

    while (j < i && strcmp(devices->item[j], devices->item[i]))
        j++;
    return j < i && !(stat(devices->item[i], &st) == 0 && S_ISDIR(st.st_mode));
}

static int has_dev(const struct newrun *n)
{
    for (size_t i = 0; i < n->n_examples; i++)
        if (!strcmp(n->examples[i].name, "dev"))
            return 1;
    return 0;
}

/* Where the states would be, if they are stored at all; mem's images may be in RAM: they are images
 * of it. */
static int check_devices(const struct newrun *n, struct err *err)
{
    const struct train_opts *o = n->o;
    int  stored = o->mode != TRAIN_MEM && strcmp(train_csd_names[o->csd], "null") &&
                 strcmp(train_disk_names[o->disk], "null");
    int  rc = stored && !o->device.n ? devices_place_check(n->dir, 0, o->device_in_ram, err) : 0;

    for (size_t i = 0; i < o->device.n && !rc; i++) {
        rc = check_device(o->device.item[i], err);
        if (!rc && is_twice(&o->device, i))
            rc = err_misuse(err,
                            "--device %s was given twice: a file or a drive holds one device, a "
                            "folder any number",
                            o->device.item[i]);
        if (!rc && stored)
            rc = devices_place_check(o->device.item[i], 1, o->device_in_ram, err);
    }
    return rc;
}

int newrun_check(const struct newrun *n, struct err *err)
{
    int rc = check_folder(n->dir, err);

    if (!rc)
        rc = check_devices(n, err);
    if (!rc && n->tokenizer && !tokenise_has_files(n->tokenizer))
        rc = err_misuse(err,
                        "%s: no tokenizer there: tokenizer.json, or vocab.json and merges.txt, is "
                        "expected",
                        n->tokenizer);
    if (!rc && n->o->keep_best && !n->eval_data && !has_dev(n))
        rc = err_misuse(err, "--keep-best needs something to evaluate on: give %s",
                        n->examples ? "--eval-file FILE" : "--eval-data FILE");
    if (!rc && n->data)
        rc = check_data(n->data, n->tokenizer, n->gpt.vocab, n->o->seq, n->events, err);
    if (!rc && n->eval_data)
        rc = check_data(n->eval_data, n->tokenizer, n->gpt.vocab, n->o->seq, n->events, err);
    return rc;
}

/* ---- what the run's row says of where it was made ---- */

static void cpu_name(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char  line[256];

    snprintf(out, size, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(out, size, "%s", strchr(line, ':') + 2);
            out[strcspn(out, "\n")] = '\0';
            break;
        }
    if (f)
        fclose(f);
}

static int store_origin(struct session *s, const struct newrun *n, struct err *err)
{
    char           command[4096] = "siTrain", created[32], system[512], cpu[256];
    time_t         now = time(NULL);
    struct tm      tm;
    struct utsname u;
    size_t         at = strlen(command);
    int            rc;

    for (int i = 0; i < n->argc && at < sizeof command - 1; i++)
        at += (size_t)snprintf(command + at, sizeof command - at, " %s", n->argv[i]);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    uname(&u);
    snprintf(system, sizeof system, "%s %s %s", u.sysname, u.release, u.machine);
    cpu_name(cpu, sizeof cpu);
    const char *const rows[][2] = { { "id", s->id },        { "command", command },
                                    { "created", created }, { "version", SITRAIN_VERSION },
                                    { "host", u.nodename }, { "system", system },
                                    { "cpu", cpu } };

    rc = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !rc; i++)
        rc = session_set(s, rows[i][0], rows[i][1], err);
    return rc;
}

/* ---- creation ---- */

static int init_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct session *s = ctx;

    (void)err;
    gpt_init_values(out, &s->gpt, block, first, n, s->o.seed);
    return 0;
}

static int make_id(char id[33], struct err *err)
{
    unsigned char raw[16];

    if (getrandom(raw, sizeof raw, 0) != sizeof raw)
        return err_set(err, -EIO, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof raw; i++)
        snprintf(id + 2 * i, 3, "%02x", raw[i]);
    return 0;
}

/* A model with another head: all but score.weight is the source's. */
struct new_head {
    const struct session *s;
    struct params_source  body;
};

static int new_head_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                         struct err *err)
{
    const struct new_head   *h = ctx;
    const struct gpt_config *g = &h->s->gpt;
    size_t                   head = block == g->n_layer + 1 ? gpt_offset(g, GPT_SCORE_W) : SIZE_MAX;
    size_t                   old = first >= head ? 0 : n < head - first ? n : head - first;
    int                      rc = old ? h->body.read(h->body.ctx, block, first, old, out, err) : 0;

    if (!rc && old < n)
        gpt_init_values(out + old, g, block, first + old, n - old, h->s->o.seed);
    return rc;
}

static int format_run(struct session *s, const struct newrun *n, struct err *err)
{
    struct params_source source = n->source ? *n->source : (struct params_source){ init_read, s };
    struct new_head      head = { s, source };
    struct hf           *hf = NULL;
    struct finite        init;
    struct watch         w;
    size_t               labels = n->source_labels;
    int                  rc = 0;

    if (n->init) {
        w = work_begin(n->events, "checking %s", n->init);
        rc = hf_open(&hf, n->init, &w, err);
        work_end(n->events);
        if (!rc) {
            init = (struct finite){ hf_source(hf), hf_gpt(hf), n->init };
            source = head.body = finite_source(&init);
            labels = hf_gpt(hf)->n_labels;
        }
    }
    if ((n->init || n->source) && labels != s->gpt.n_labels)
        source = (struct params_source){ new_head_read, &head };
    w = work_begin(n->events, "making the states of %s", n->dir);
    s->run.watch = &w;
    if (!rc)
        rc = run_format(&s->run, &source, err);
    s->run.watch = NULL;
    work_end(n->events);
    hf_close(hf);
    return rc;
}

/* ---- what is read while it is made ---- */

static int add_examples(struct session *s, const struct newrun *n, struct tokenizer *tok,
                        struct err *err)
{
    char text[32];
    int  rc = session_set(s, "task", n->examples[0].task->name, err);

    snprintf(text, sizeof text, "%" PRIu64, n->epochs);
    if (!rc)
        rc = session_set(s, "epochs", text, err);
    if (!rc)
        rc = columns_store(s, &n->examples[0].read, err);
    for (size_t i = 0; i < n->n_examples && !rc; i++) {
        const struct encode *e = &n->examples[i];
        char                 path[SESSION_PATH + 32];
        uint32_t             sum;

        snprintf(path, sizeof path, "%s/%s.ex", s->dir, e->name);
        rc = encode_file(e, tok, s->o.seq, tokenizer_endoftext(tok), path, &sum, err);
        if (!rc)
            rc = labelled_store(s, e, sum, err);
    }
    return rc;
}

/* The tokenizer into RUN, and what is made with it. */
static int add_tokenizer(struct session *s, const struct newrun *n, struct err *err)
{
    char              path[SESSION_PATH + 16], text[32];
    struct tokenizer *tok = NULL;
    int               copied, rc;

    snprintf(path, sizeof path, "%s/tokenizer", s->dir);
    if (mkdir(path, 0777))
        return err_set(err, -errno, "mkdir %s: %s", path, strerror(errno));
    rc = hf_copy_tokenizer(n->tokenizer, path, &copied, err);
    if (!rc)
        rc = tokenizer_open(&tok, path, err);
    if (rc)
        return rc;
    snprintf(text, sizeof text, "%ld", (long)tokenizer_endoftext(tok));
    rc = session_set(s, "endoftext", text, err);
    if (!rc && n->n_examples)
        rc = add_examples(s, n, tok, err);
    tokenizer_close(tok);
    return rc;
}

/* What else a classifier's folder says: its labels by name, and what it pads with. */
static int store_classifier(struct session *s, const struct newrun *n, struct err *err)
{
    long pad = n->init ? hf_pad(n->init) : -1;
    char text[32];
    int  rc = 0;

    if (!n->gpt.n_labels)
        return 0;
    if (n->labels && n->labels->n)
        rc = session_store_labels(s, n->labels, err);
    for (size_t i = 0; i < NEWRUN_NOTICES && !rc; i++)
        if (n->notice[i] && *n->notice[i])
            rc = session_notice(s, n->notice[i], err);
    snprintf(text, sizeof text, "%ld", pad);
    return rc || pad < 0 ? rc : session_set(s, "config.pad", text, err);
}

/* run.db.new with everything in it; closed again, so that one file holds it all. */
static int fill_folder(struct session *s, const struct newrun *n, struct err *err)
{
    int rc = runlog_begin(s->log, err);

    if (rc)
        return rc;
    if ((rc = store_origin(s, n, err)) || (rc = session_store_config(s, err)) ||
        (rc = session_store_options(s, err)) || (rc = recipe_store(s, &n->recipe, err)) ||
        (s->spares && (rc = session_set(s, "spares", "1", err))) ||
        (rc = store_classifier(s, n, err)) ||
        (rc = runlog_commit(s->log, err))) {
        runlog_rollback(s->log);
        return rc;
    }
    if (n->tokenizer)
        rc = add_tokenizer(s, n, err);
    if (!rc && n->data)
        rc = newrun_add_data(s, "data", n->data, err);
    if (!rc && n->eval_data)
        rc = newrun_add_data(s, "eval", n->eval_data, err);
    return rc ? rc : format_run(s, n, err);
}

static int name_database(struct session *s, struct err *err)
{
    char from[SESSION_PATH + 32], to[SESSION_PATH + 32], wal[SESSION_PATH + 40];
    int  rc;

    snprintf(from, sizeof from, "%s/run.db.new", s->dir);
    snprintf(to, sizeof to, "%s/run.db", s->dir);
    snprintf(wal, sizeof wal, "%s-wal", from);
    runlog_close(s->log);
    s->log = NULL;
    if (access(wal, F_OK) == 0)
        return err_set(err, -EIO, "%s could not be written completely (its log %s is still there)",
                       from, wal);
    if (rename(from, to))
        return err_set(err, -errno, "rename %s to %s: %s", from, to, strerror(errno));
    rc = file_sync_dir(s->dir, err);
    if (!rc)
        rc = file_sync_parent(s->dir, err); // RUN itself
    if (rc) // what it names will be removed
        unlink(to);
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
    int                fd;

    snprintf(path, sizeof path, "%s/sitrain-%.8s-dev%zu", device, id, i);
    unlink(path);
    if (stat(device, &st))
        return;
    fd = file_open_device(device, S_ISBLK(st.st_mode) ? O_RDWR | O_EXCL : O_RDONLY);
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

static void clear_devices(struct session *s)
{
    char *id = session_get(s, "id"), *devices = session_get(s, "option.device"), *rest = devices;

    for (size_t i = 0; id && rest && *rest; i++)
        clear_device(strsep(&rest, "\n"), id, i);
    free(id);
    free(devices);
}

/* Make the folder, or take over what a killed creation left in it; with the lock held. */
static int claim_folder(struct session *s, const char *dir, int *made, struct err *err)
{
    char  path[SESSION_PATH + 16], *full;
    int   rc;

    *made = mkdir(dir, 0777) == 0;
    if (!*made && errno != EEXIST)
        return err_set(err, -errno, "mkdir %s: %s", dir, strerror(errno));
    full = realpath(dir, NULL);
    if (!full)
        return err_set(err, -errno, "%s: %s", dir, strerror(errno));
    if (strlen(full) >= sizeof s->dir) {
        free(full);
        return err_set(err, -ENAMETOOLONG, "%s: the path is too long", dir);
    }
    snprintf(s->dir, sizeof s->dir, "%s", full);
    free(full);
    snprintf(path, sizeof path, "%s/run.db.new", s->dir);
    if (access(path, F_OK) == 0) { // is its maker still alive?
        struct err dead;

        rc = runlog_open(&s->log, path, 0, 0, &dead);
        if (!rc)
            clear_devices(s);
        runlog_close(s->log);
        s->log = NULL;
        if (rc == -EBUSY)
            return err_set(err, rc, "%s", dead.text);
        clear_folder(s->dir, 1);
    }
    rc = runlog_create(&s->log, path, s->o.durability == TRAIN_DURABLE_STEP, err);
    if (!rc)
        clear_folder(s->dir, 0);
    return rc;
}

int newrun_create(const struct newrun *n, struct err *err)
{
    // options stay the caller's: has_opts is 0
    struct session s = { .gpt = n->gpt, .o = *n->o, .spares = n->o->speculate, .events = n->events };
    int            made = 0, claimed = 0, rc = newrun_check(n, err);

    events_kill_costs(n->events, "leaves %s half made, which a new run of that name clears", n->dir);
    if (!rc)
        rc = make_id(s.id, err);
    if (!rc)
        rc = claim_folder(&s, n->dir, &made, err);
    claimed = !rc;
    if (!rc)
        rc = session_config(&s, err);
    s.run.records = n->records;
    if (!rc)
        rc = fill_folder(&s, n, err);
    if (!rc)
        rc = name_database(&s, err);
    for (size_t i = 0; rc && claimed && i < s.run.n_devices && s.run.device_paths; i++)
        clear_device(s.run.device_paths[i], s.id, i);
    session_close(&s);
    events_kill_costs(n->events, NULL);
    if (rc && claimed)
        clear_folder(n->dir, 1);
    if (rc && made) {
        char lock[SESSION_PATH + 16];

        snprintf(lock, sizeof lock, "%s/run.lock", n->dir);
        unlink(lock);
        rmdir(n->dir);
    }
    return rc;
}
