/* scene.h: a run that stopped half way, in a folder of its own, damaged and looked at again and
 * again. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/crc32c.h"
#include "kernels/rng.h"
#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "offload/devices/journal.h"
#include "offload/upkeep/verify.h"
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


static inline void must(const struct scene *s, int rc)
{
    if (rc)
        fail_msg("%s", s->err.text);
}

/* ---- runs ---- */

static inline void open_log(struct scene *s, const char *dir)
{
    char path[96];

    snprintf(path, sizeof path, "%s/run.db", dir);
    must(s, runlog_open(&s->cfg.log, path, 0, 0, &s->err));
    s->cfg.dir = dir;
}

static inline void close_log(struct scene *s)
{
    runlog_close(s->cfg.log);
    s->cfg.log = NULL;
}

/* Train to `until`, or to the first error. */
static inline int train(struct scene *s, uint64_t until)
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

static inline uint32_t params_sum(struct scene *s)
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
static inline char *slurp(const char *dir, const char *name, size_t *n)
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

static inline void copy(const char *from, const char *to)
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

static inline uint32_t content(const char *dir)
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
static inline void stop_half_way(struct scene *s)
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
    must(s, stream_grad(st, BLOCKS - 1, 0, &grad, &fresh, &s->err)); // waits for A
    stream_close(st);
    csd_hold_set(0);
    s->cfg.csd = &csd_emu;
    must(s, run_position(&s->cfg, &step, &applied, &s->err));
    assert_int_equal(step, STOP + 1);
}

/* init NULL: toy_init, and some steps. */
static inline struct scene *scene_from(const struct variant *v, const struct params_source *init)
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
        .route = toy_route(BLOCKS),
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

static inline struct scene *scene_new(const struct variant *v)
{
    return scene_from(v, NULL);
}

static inline void scene_free(struct scene *s)
{
    char *root = strdup(s->root);

    tempdir_remove(root);
    free(s);
}

/* ---- one byte ---- */

static inline void flip(const char *path, uint64_t off, unsigned char mask)
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

static inline void hear(void *ctx, int damage, const char *sentence)
{
    struct heard *h = ctx;

    h->damages += damage;
    h->remarks += !damage;
    if (damage && h->damages == 1)
        snprintf(h->text, sizeof h->text, "%s", sentence);
}

static inline struct verify look(struct scene *s, int mend, struct heard *h)
{
    struct verify v = {.mend = mend, .say = hear, .ctx = h};

    *h = (struct heard){0};
    must(s, verify_run(&v, &s->cfg, &s->err));
    return v;
}
