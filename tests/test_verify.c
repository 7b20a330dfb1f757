/* test_verify.c: one byte turned, anywhere in what a run stores. Each is found by verify_run,
 * named, with nothing written; training stops at its next read of it and no parameter ever shows
 * it: with the byte turned back, the run ends in the bits of one that nobody disturbed. And what
 * can be made again is made again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/crc32c.h"
#include "kernels/rng.h"
#include "offload/devices.h"
#include "offload/image.h"
#include "offload/journal.h"
#include "offload/verify.h"
#include "tests/csd_hold.h"
#include "tests/tempdir.h"
#include "tests/toy.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 4, STOP = 3, STEPS = 5 };
static const size_t sizes[BLOCKS] = {9000, 5000, 5000, 77};

struct variant {
    enum run_mode mode;
    size_t        devices;
    double        compress;
    int           feedback, half_done;
};

/* A run in a folder of its own, taken out again and again. */
struct scene {
    struct run_config cfg;
    char              root[48], base[64], work[64];
    uint32_t          want; // of the parameters of an undisturbed run
    struct err        err;
};

static unsigned       turned;

static void must(const struct scene *s, int rc)
{
    if (rc)
        fail_msg("%s", s->err.text);
}

/* ---- runs ---- */

static void open_log(struct scene *s, const char *dir)
{
    char path[96];

    snprintf(path, sizeof path, "%s/run.db", dir);
    must(s, runlog_open(&s->cfg.log, path, 0, 0, &s->err));
    s->cfg.dir = dir;
}

static void close_log(struct scene *s)
{
    runlog_close(s->cfg.log);
    s->cfg.log = NULL;
}

/* Train to `until`, or to the first error. */
static int train(struct scene *s, uint64_t until)
{
    struct stream *st = NULL;
    char           notice[512];
    uint64_t       step, applied;
    double         loss;
    int            rc = run_train(&st, &s->cfg, notice, sizeof notice, &s->err);

    if (!rc)
        rc = stream_drain(st, &s->err);
    if (!rc)
        rc = run_position(&s->cfg, &step, &applied, &s->err);
    for (; !rc && step < until; step++)
        rc = toy_step(&s->cfg, st, step, 0, 0, &loss, &s->err);
    if (!rc)
        rc = stream_drain(st, &s->err);
    stream_close(st);
    return rc;
}

static uint32_t params_sum(struct scene *s)
{
    struct run_reader   *r;
    struct params_source src;
    float                p[9000];
    uint32_t             sum = 0;

    must(s, run_reader(&r, &src, &s->cfg, &s->err));
    for (size_t b = 0; b < BLOCKS; b++) {
        must(s, src.read(src.ctx, b, 0, sizes[b], p, &s->err));
        sum = crc32c(sum, p, sizeof *p * sizes[b]);
    }
    run_reader_close(r);
    return sum;
}

/* All that a run stores, but for the lock. */
static const char *const files[] = {"run.db",      "image0",      "image1",
                                    "dev0/states", "dev1/states", "dev2/states"};
enum { FILES = sizeof files / sizeof *files };

/* A file's bytes, malloced; NULL if it is not there. */
static char *slurp(const char *dir, const char *name, size_t *n)
{
    char        path[96], *bytes;
    struct stat st;
    int         fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDONLY);
    if (fd < 0)
        return NULL;
    assert_int_equal(fstat(fd, &st), 0);
    *n = (size_t)st.st_size;
    bytes = malloc(*n + 1);
    assert_int_equal(read(fd, bytes, *n), *n);
    close(fd);
    return bytes;
}

static void copy(const char *from, const char *to)
{
    char path[96];

    mkdir(to, 0700);
    snprintf(path, sizeof path, "%s/run.lock", to);
    unlink(path); // it knows of the commits of what was there
    for (size_t i = 0; i < FILES; i++) {
        size_t n;
        char  *bytes = slurp(from, files[i], &n);
        int    fd;

        if (!bytes)
            continue;
        snprintf(path, sizeof path, "%s/%s", to, files[i]);
        if (strchr(files[i], '/')) {
            *strrchr(path, '/') = '\0';
            mkdir(path, 0700);
            path[strlen(path)] = '/';
        }
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, bytes, n), n);
        close(fd);
        free(bytes);
    }
}

static uint32_t content(const char *dir)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < FILES; i++) {
        size_t n;
        char  *bytes = slurp(dir, files[i], &n);

        if (bytes)
            sum = crc32c(sum, bytes, n);
        free(bytes);
    }
    return sum;
}

/* The step's commit A is written, none of its updates is begun. */
static void stop_half_way(struct scene *s)
{
    struct stream *st;
    char           notice[512];
    uint64_t       step, applied;
    double         loss;
    float         *grad;
    int            fresh;

    s->cfg.csd = &csd_hold;
    csd_hold_set(1u << CSD_UPDATE);
    must(s, run_train(&st, &s->cfg, notice, sizeof notice, &s->err));
    must(s, toy_step(&s->cfg, st, STOP, 0, 0, &loss, &s->err));
    must(s, stream_grad(st, BLOCKS - 1, &grad, &fresh, &s->err)); // waits for A
    stream_close(st);
    csd_hold_set(0);
    s->cfg.csd = &csd_emu;
    must(s, run_position(&s->cfg, &step, &applied, &s->err));
    assert_int_equal(step, STOP + 1);
}

/* init NULL: toy_init, and some steps. */
static struct scene *scene_from(const struct variant *v, const struct params_source *init)
{
    struct scene *s = calloc(1, sizeof *s);
    char         *root = tempdir_new(), path[96];

    snprintf(s->root, sizeof s->root, "%s", root);
    free(root);
    snprintf(s->base, sizeof s->base, "%s/base", s->root);
    snprintf(s->work, sizeof s->work, "%s/work", s->root);
    snprintf(path, sizeof path, "%s/run.db", s->base);
    assert_int_equal(mkdir(s->base, 0700), 0);
    must(s, runlog_create(&s->cfg.log, path, 0, &s->err));
    s->cfg = (struct run_config){
        .dir = s->base,
        .log = s->cfg.log,
        .id = "00112233445566778899aabbccddeeff",
        .mode = v->mode,
        .n_blocks = BLOCKS,
        .block_params = sizes,
        .decay = toy_decay,
        .wire_dt = DT_BF16,
        .optim = OPTIM_ADAMW,
        .compress = v->compress,
        .n_devices = v->devices,
        .csd = &csd_emu,
        .disk = "sync",
        .csd_mem = 128 << 10,
        .frames = 2,
        .grad_buffers = 1,
        .commit_every = 2,
        .error_feedback = v->feedback,
    };
    must(s, runlog_set(s->cfg.log, "option.lr", "0.01", &s->err));
    must(s, run_format(&s->cfg, init ? init : &toy_init, &s->err));
    if (init)
        return s;
    must(s, train(s, STOP));
    must(s, runlog_eval(s->cfg.log, STOP - 1, "loss", 1.25, &s->err));
    if (v->half_done)
        stop_half_way(s);
    close_log(s);
    copy(s->base, s->work);
    open_log(s, s->work);
    must(s, train(s, STEPS));
    s->want = params_sum(s);
    close_log(s);
    return s;
}

static struct scene *scene_new(const struct variant *v)
{
    return scene_from(v, NULL);
}

static void scene_free(struct scene *s)
{
    char *root = strdup(s->root);

    tempdir_remove(root);
    free(s);
}

/* ---- one byte ---- */

static void flip(const char *path, uint64_t off, unsigned char mask)
{
    unsigned char c;
    int           fd = open(path, O_RDWR);

    assert_int_equal(pread(fd, &c, 1, (off_t)off), 1);
    c ^= mask;
    assert_int_equal(pwrite(fd, &c, 1, (off_t)off), 1);
    close(fd);
}

struct heard {
    int  damages, remarks;
    char text[1024];
};

static void hear(void *ctx, int damage, const char *sentence)
{
    struct heard *h = ctx;

    h->damages += damage;
    h->remarks += !damage;
    if (damage && h->damages == 1)
        snprintf(h->text, sizeof h->text, "%s", sentence);
}

static struct verify look(struct scene *s, int mend, struct heard *h)
{
    struct verify v = {.mend = mend, .say = hear, .ctx = h};

    *h = (struct heard){0};
    must(s, verify_run(&v, &s->cfg, &s->err));
    return v;
}

struct spot {
    enum verify_kind kind;
    size_t           device;
    uint64_t         off, area;
};

/* In a fresh copy: found, named, nothing written; training finds it too; without it all is as if it
 * had never been. */
static void turn_one(struct scene *s, const struct spot *p, unsigned char mask)
{
    char          path[128], where[32];
    struct heard  h;
    struct verify v;
    uint32_t      before;

    turned++;
    copy(s->base, s->work);
    snprintf(path, sizeof path, s->cfg.mode == RUN_MEM ? "%s/image%zu" : "%s/dev%zu/states",
             s->work, p->device);
    snprintf(where, sizeof where, "offset %llu", (unsigned long long)p->area);
    flip(path, p->off, mask);
    open_log(s, s->work);
    before = content(s->work);
    v = look(s, 0, &h);
    if (v.count[p->kind].damaged != 1 || h.damages != 1 || !strstr(h.text, path))
        fail_msg("%s at %llu, %s: %d damages, %s", path, (unsigned long long)p->off,
                 verify_names[p->kind], h.damages, h.text);
    assert_true(p->kind == VERIFY_SUPERBLOCK || strstr(h.text, where));
    assert_int_equal(content(s->work), before);
    if (train(s, STEPS) != -EBADMSG || !strstr(s->err.text, path) ||
        (p->kind != VERIFY_SUPERBLOCK && !strstr(s->err.text, where)))
        fail_msg("%s at %llu: training did not see it: %s", path, (unsigned long long)p->off,
                 s->err.text);
    close_log(s);
    flip(path, p->off, mask);
    open_log(s, s->work);
    must(s, train(s, STEPS));
    assert_int_equal(params_sum(s), s->want);
    look(s, 0, &h);
    assert_int_equal(h.damages, 0);
    close_log(s);
}

/* Nothing is written by looking, and what is mended is what it was. */
static void mend_one(struct scene *s, const struct spot *p, unsigned char mask)
{
    char          path[128];
    struct heard  h;
    struct verify v;
    uint32_t      whole, damaged;

    copy(s->base, s->work);
    snprintf(path, sizeof path, "%s/dev%zu/states", s->work, p->device);
    whole = content(s->work);
    flip(path, p->off, mask);
    damaged = content(s->work);
    open_log(s, s->work);
    look(s, 0, &h);
    assert_int_equal(content(s->work), damaged);
    v = look(s, 1, &h);
    assert_int_equal(h.damages, 1);
    assert_int_equal(v.count[p->kind].mended,
                     p->kind == VERIFY_WIRE || p->kind == VERIFY_SUPERBLOCK);
    assert_int_equal(content(s->work), v.count[p->kind].mended ? whole : damaged);
    close_log(s);
}

/* Bytes of every kind of area of some subgroups: first, last, and some in between. */
static void turn_all(struct scene *s)
{
    struct store         st;
    struct spot          p = {VERIFY_SUPERBLOCK, 0, 0, 0};
    struct journal       j;

    must(s, devices_layout(&st, &s->cfg, &s->err));
    open_log(s, s->base);
    must(s, journal_open(&j, s->cfg.log, st.n_subs, 0, &s->err));
    close_log(s);
    static const uint64_t supers[] = {0, 20, 60, 2000, STORE_SUPERBLOCK - 1};

    for (size_t i = 0; i < sizeof supers / sizeof *supers; i++) {
        p.off = supers[i];
        p.device = s->cfg.n_devices - 1;
        turn_one(s, &p, 1);
        mend_one(s, &p, 0x80);
    }
    for (size_t i = 0; i < st.n_subs; i += 4) {
        const struct store_sub *u = &st.subs[i];
        uint64_t slot = store_slot_off(&st, u->class_, j.subs[i].slot), master = 4 * u->n_pad,
                 wire = 3 * master;
        struct spot spots[] = {
            { VERIFY_STATES, u->device, slot, slot }, // master, m and v, and the padding behind
                                                      // each
            { VERIFY_STATES, u->device, slot + master - 1, slot },
            { VERIFY_STATES, u->device, slot + master + 4 * (u->n - 1), slot },
            { VERIFY_STATES, u->device, slot + 2 * master + 333, slot },
            { VERIFY_STATES, u->device, slot + 3 * master - 1, slot },
            { VERIFY_WIRE, u->device, slot + wire, slot + wire },
            { VERIFY_WIRE, u->device, slot + wire + 2 * u->n_pad - 1, slot + wire },
            { VERIFY_RESIDUAL, u->device, store_residual_off(u, j.state.applied) + 5,
              store_residual_off(u, j.state.applied) },
            { VERIFY_GRADIENT, u->device, u->grad_off, u->grad_off }, // packed: the header, a pair,
                                                                      // the rest
            { VERIFY_GRADIENT, u->device, u->grad_off + 77, u->grad_off },
            { VERIFY_GRADIENT, u->device, u->grad_off + 4095, u->grad_off },
        };

        for (size_t k = 0; k < sizeof spots / sizeof *spots; k++) {
            // its update reads states and gradient, makes the wire
            int waits = j.subs[i].version < j.state.applied;

            if ((spots[k].kind == VERIFY_RESIDUAL && !s->cfg.error_feedback) ||
                (spots[k].kind == VERIFY_GRADIENT && !waits))
                continue;
            if (spots[k].kind != VERIFY_WIRE || !waits)
                turn_one(s, &spots[k], (unsigned char)(1u << (i + k) % 8));
            if (spots[k].kind == VERIFY_WIRE || k == 0)
                mend_one(s, &spots[k], (unsigned char)(1u << (i + k) % 8));
        }
    }
    journal_close(&j);
    store_release(&st);
}

static void devices_every_kind(void **state)
{
    (void)state;
    const struct variant variants[] = {
        {RUN_SUO, 2, 0, 0, 1},
        {RUN_BASE, 1, 0.05, 1, 1},
        {RUN_SU, 3, 0.05, 1, 0},
    };

    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        struct scene *s = scene_new(&variants[i]);

        turn_all(s);
        scene_free(s);
    }
    print_message("%u bytes turned\n", turned);
}

static void images(void **state)
{
    (void)state;
    const struct variant v = {RUN_MEM, 1, 0.05, 1, 0};
    struct scene        *s = scene_new(&v);
    struct image_state   now;
    struct heard         h;
    struct verify        found;
    char                 path[128];
    int                  fd;

    open_log(s, s->base);
    must(s, image_latest(&s->cfg, &now, &s->err));
    close_log(s);
    for (size_t b = 0; b < BLOCKS; b++) {
        uint64_t area = image_block_offset(&s->cfg, b), end = image_block_offset(&s->cfg, b + 1);

        turn_one(s, &(struct spot){VERIFY_IMAGE, now.area, area, area}, 1);
        turn_one(s, &(struct spot){VERIFY_IMAGE, now.area, end - 1, area}, 0x80);
    }

    copy(s->base, s->work); // the way back: to the image before, and forward to the same bits
    snprintf(path, sizeof path, "%s/image%u", s->work, now.area);
    flip(path, 1234, 4);
    open_log(s, s->work);
    found = look(s, 1, &h);
    assert_int_equal(found.count[VERIFY_IMAGE].mended, 1);
    assert_true(found.next_step < now.step);
    must(s, train(s, STEPS));
    assert_int_equal(params_sum(s), s->want);
    close_log(s);

    copy(s->base, s->work); // the other image is nobody's state: a remark
    snprintf(path, sizeof path, "%s/image%u", s->work, 1 - now.area);
    flip(path, 1234, 4);
    open_log(s, s->work);
    found = look(s, 0, &h);
    assert_true(h.damages == 0 && h.remarks == 1);
    must(s, train(s, STEPS));
    assert_int_equal(params_sum(s), s->want);
    close_log(s);

    copy(s->base, s->work); // one that another process writes is in use, not damaged: nothing goes
                            // back
    open_log(s, s->work);
    must(s, image_open(&s->cfg, now.area, &fd, &s->err));
    h = (struct heard){0};
    found = (struct verify){.mend = 1, .say = hear, .ctx = &h};
    assert_int_equal(verify_run(&found, &s->cfg, &s->err), -EBUSY);
    assert_true(h.damages == 0 && found.count[VERIFY_IMAGE].mended == 0);
    close(fd);
    close_log(s);
    scene_free(s);
}

/* ---- run.db ---- */

static int sum_row(void *ctx, int n, const char **values, const char **names)
{
    (void)names;
    for (int i = 0; i < n; i++)
        *(uint32_t *)ctx = crc32c(*(uint32_t *)ctx, values[i] ? values[i] : "NULL",
                                  values[i] ? strlen(values[i]) + 1 : 5);
    return 0;
}

static uint32_t rows_sum(struct scene *s, const char *const *sql, size_t n)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        must(s, runlog_query(s->cfg.log, sql[i], sum_row, &sum, &s->err));
    return sum;
}

static void hear_database(void *ctx, const char *sentence)
{
    hear(ctx, 1, sentence);
}

/* What a resume reads of the database. */
static int journal_read(struct scene *s)
{
    struct image_state image;
    struct heard       h = {0};
    struct verify      v = {.say = hear, .ctx = &h};

    if (s->cfg.mode == RUN_MEM)
        return image_latest(&s->cfg, &image, &s->err);
    return verify_run(&v, &s->cfg, &s->err);
}

static const char *const mem_rows[] = {"SELECT key, value FROM runs ORDER BY key",
                                       "SELECT * FROM journal_image ORDER BY area, block"};
static const char *const csd_rows[] = {
    "SELECT key, value FROM runs ORDER BY key", "SELECT * FROM journal_subs ORDER BY sub",
    "SELECT * FROM journal_grads ORDER BY sub", "SELECT * FROM journal_residuals ORDER BY sub",
    "SELECT * FROM journal_state"};
static const char *const log_rows[] = {
    "SELECT step, tokens, loss, lr, grad_norm, clipped, skipped FROM steps ORDER BY step",
    "SELECT step, name, value FROM evals ORDER BY step, name"};

/* Any byte of the file, by seed: what opens has the settings and the journal that it had, and what
 * is found whole has its steps, too. */
static void any_byte_of_the_database(struct scene *s, unsigned flips)
{
    int                mem = s->cfg.mode == RUN_MEM, opened = 0, whole = 0;
    const char *const *rows = mem ? mem_rows : csd_rows;
    size_t             n = mem ? 2 : 5;
    char               path[96];
    uint32_t           want, want_log;
    struct stat        st;

    snprintf(path, sizeof path, "%s/run.db", s->work);
    copy(s->base, s->work);
    open_log(s, s->work);
    want = rows_sum(s, rows, n);
    want_log = rows_sum(s, log_rows, 2);
    close_log(s);
    assert_int_equal(stat(path, &st), 0);
    for (unsigned i = 0; i < flips; i++) {
        uint64_t            off = (uint64_t)(rng_uniform(6, 1, 2 * i) * (float)st.st_size);
        unsigned char mask = (unsigned char)(1u << (unsigned)(rng_uniform(6, 1, 2 * i + 1) * 8));
        struct runlog_check check;
        struct heard        h = {0};

        off = i < 100 ? i : off < (uint64_t)st.st_size ? off : 0; // the header whole
        flip(path, off, mask);
        s->cfg.log = NULL;
        if (!runlog_open(&s->cfg.log, path, 1, 0, &s->err) && !journal_read(s)) {
            opened++;
            if (rows_sum(s, rows, n) != want)
                fail_msg("seed 6, flip %u: byte %llu by %02x: other settings or another journal "
                         "passed",
                         i, (unsigned long long)off, mask);
            if (!runlog_check(s->cfg.log, 0, hear_database, &h, &check, &s->err) && !h.damages) {
                whole++;
                if (rows_sum(s, log_rows, 2) != want_log)
                    fail_msg("seed 6, flip %u: byte %llu by %02x: other steps passed", i,
                             (unsigned long long)off, mask);
            }
        }
        close_log(s);
        flip(path, off, mask);
    }
    print_message("%u bytes turned: %u found, %d in steps and evaluations found by check alone, %d "
                  "hold nothing\n",
                  flips, flips - (unsigned)opened, opened - whole, whole);
}

/* A value changed by SQL: its row is named. `check`: by runlog_check, not by a resume. */
static void change_row(struct scene *s, const char *sql, const char *named, int check)
{
    struct heard        h = {0};
    struct runlog_check c;
    sqlite3            *db;
    char                path[96];
    int                 rc;

    copy(s->base, s->work);
    snprintf(path, sizeof path, "%s/run.db", s->work);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_true(sqlite3_changes(db) > 0);
    sqlite3_close(db);
    rc = runlog_open(&s->cfg.log, path, 1, 0, &s->err);
    if (!rc)
        rc = journal_read(s);
    if (check)
        must(s, runlog_check(s->cfg.log, 0, hear_database, &h, &c, &s->err));
    if (check ? h.damages == 0 || !strstr(h.text, named)
              : rc != -EBADMSG || !strstr(s->err.text, named))
        fail_msg("%s: %s", sql, check ? h.text : s->err.text);
    close_log(s);
}

static void database(void **state)
{
    (void)state;
    static const struct {
        const char *table, *columns[8];
    } tables[] = {
        {"journal_subs", {"slot", "version", "states_crc", "wire_crc", "sum"}},
        {"journal_grads", {"crc", "pairs", "sum"}},
        {"journal_residuals", {"crc", "sum"}},
        {"journal_state", {"next_step", "applied", "optimizer", "lr", "eps", "first", "sum"}},
        {"steps", {"tokens", "loss", "lr", "grad_norm", "clipped", "skipped", "sum"}},
        {"evals", {"value", "sum"}},
    };
    const struct variant v = {RUN_SUO, 2, 0.05, 1, 1}, mem = {RUN_MEM, 1, 0, 0, 0};
    struct scene        *s = scene_new(&v);
    char                 sql[256];

    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (size_t c = 0; c < 8 && tables[t].columns[c]; c++)
            for (int high = 0; high < 2; high++) {
                snprintf(sql, sizeof sql,
                         "UPDATE %s SET %s = %s + %s WHERE rowid = (SELECT max(rowid) FROM %s)",
                         tables[t].table, tables[t].columns[c], tables[t].columns[c],
                         high ? "4294967296" : "1", tables[t].table);
                change_row(s, sql, tables[t].table, t >= 4);
            }
    change_row(s, "UPDATE journal_state SET grad_scale = grad_scale / 2", "journal_state", 0);
    change_row(s, "DELETE FROM journal_subs WHERE sub = 2", "row 2 is missing", 0);
    change_row(s, "UPDATE runs SET value = '0.02' WHERE key = 'option.lr'", "option.lr", 0);
    change_row(s, "UPDATE runs SET key = 'option.ln' WHERE key = 'option.lr'", "option.ln", 0);
    change_row(s, "DELETE FROM steps WHERE step = 1", "step 2 should come", 1);
    change_row(s, "UPDATE evals SET name = 'lost'", "lost", 1);
    any_byte_of_the_database(s, 700);
    scene_free(s);

    s = scene_new(&mem);
    change_row(s, "UPDATE journal_image SET crc = crc + 4294967296 WHERE area = 0 AND block = 1",
               "image0", 0);
    change_row(s, "UPDATE journal_image SET step = step - 1 WHERE area = 1", "image1", 0);
    any_byte_of_the_database(s, 500);
    scene_free(s);
}

/* Masters as an older siTrain may have left them: two cannot be computed with. */
static int broken_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n; i++)
        out[i] = block == 1 && first + i == 4321 ? NAN
                 : block == 2 && first + i == 7  ? -INFINITY
                                                 : 0.5f;
    return 0;
}

static void not_finite(void **state)
{
    const struct params_source broken = {.read = broken_read};
    const struct variant       variants[] = {
        {RUN_MEM, 1, 0, 0, 0}, {RUN_SUO, 1, 0, 0, 0}, {RUN_BASE, 3, 0, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        struct scene *s = scene_from(&variants[i], &broken);
        struct heard  h;
        struct verify v = look(s, 0, &h);

        assert_int_equal(h.damages, 1);
        assert_true(v.beyond.n == 2 && v.beyond.block == 1 && v.beyond.first == 4321);
        assert_non_null(strstr(h.text, "2 of the parameters"));
        assert_non_null(strstr(h.text, "parameter 4321 of block 1"));
        close_log(s);
        scene_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_every_kind),
        cmocka_unit_test(images),
        cmocka_unit_test(database),
        cmocka_unit_test(not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
