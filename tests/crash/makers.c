/* makers.c: exactly one of two makers wins, and nothing is left of the other or of those whose
 * power was cut: not in RUN, nor on the drives. */
#include "tests/crash/makers.h"

#include "run/folder/creation.h"
#include "run/folder/run_files.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"
#include "tests/toy.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct maker {
    const struct plan *plan;
    struct witness    *witness;
    int                made; // the run is this maker's
    struct err         err;
    int                rc;
};

/* What stands in run.db before anything is made outside it. */
static int settle(struct session *s, struct err *err)
{
    const struct run_config *r = &s->run;
    char                     paths[96];
    int                      rc = runlog_begin(s->log, err);

    if (rc)
        return rc;
    rc = runlog_set(s->log, "id", s->id, err);
    snprintf(paths, sizeof paths, "%s\n%s", r->device_paths ? r->device_paths[0] : "",
             r->device_paths ? r->device_paths[1] : "");
    if (!rc && r->device_paths)
        rc = runlog_set(s->log, "option.device", paths, err);
    return runlog_end(s->log, rc, err);
}

static int make(const struct plan *p, struct err *err)
{
    struct session  s = { .o.durability = TRAIN_DURABLE_STEP };
    struct creation place = CREATION_NONE;
    int             rc;

    for (int i = 0; i < 32; i++)
        s.id[i] = "0123456789abcdef"[threads_roll(16)];
    rc = creation_claim(&place, &s, RUN_AT, 0, err);
    if (!rc) {
        s.run = life_config(p, s.log, 0);
        s.run.dir = s.dir;
        s.run.home = place.dir;
        s.run.id = s.id;
        rc = settle(&s, err);
        rc = rc ? rc : run_format(&s.run, &toy_init, err);
        place.devices = !rc;
        rc = rc ? rc : creation_close(&place, &s, err);
        rc = rc ? rc : creation_name(&place, err);
    }
    if (rc)
        creation_give_up(&place, &s);
    return rc;
}

/* As the user goes on who reads that there is no lock file of siTrain. */
static int make_again(const struct plan *p, struct err *err)
{
    static const char said[] = " is no lock file of siTrain: move it elsewhere";
    int               rc = make(p, err);

    if (!rc || !strstr(err->text, said) || rename(RUN_AT "/run.lock", "/sim/moved"))
        return rc;
    return make(p, err);
}

static void *maker_main(void *maker)
{
    struct maker *m = maker;

    for (uint64_t n = threads_roll(200); n > 0; n--)
        threads_yield();
    m->err = (struct err){ 0 };
    m->rc = make_again(m->plan, &m->err);
    m->made = !m->rc;
    if (m->made)
        m->rc = life_train(m->plan, m->witness, &m->err);
    return NULL;
}

static int wrong(const char *what, const char *name, struct err *err)
{
    printf("# makers: %s%s\n", what, name);
    *err = (struct err){ 0 };
    return -EPROTO;
}

/* What a run's next opening removes of its maker. */
static int clean(struct err *err)
{
    struct runlog *log;
    int            rc = runlog_open(&log, RUN_AT "/run.db", 0, 1, err);

    if (!rc)
        run_files_clean(RUN_AT, 1);
    runlog_close(log);
    return rc;
}

/* Nothing is in RUN but the run, and on each drive one device. */
static int tidy_check(const struct plan *p, struct err *err)
{
    static const char *const names[] = { "run.db", "run.db-wal", "run.lock", "dev0", "dev1",
                                         "image0", "image1" };
    static const char *const drives[] = { "/sim/drive0", "/sim/drive1" };
    const char              *path;

    for (size_t at = 0, k; (path = storage_next(RUN_AT, &at));) {
        for (k = 0; k < sizeof names / sizeof *names; k++)
            if (!strcmp(path + strlen(RUN_AT "/"), names[k]))
                break;
        if (k == sizeof names / sizeof *names)
            return wrong("left in RUN: ", path, err);
    }
    for (size_t i = 0; p->outside && i < 2; i++) {
        size_t at = 0, n = 0;

        while (storage_next(drives[i], &at))
            n++;
        if (n != 1)
            return wrong(n ? "left of a maker on " : "no device on ", drives[i], err);
    }
    return 0;
}

int makers(const struct plan *p, struct witness *w, struct err *err)
{
    struct maker m[2] = { { .plan = p, .witness = w }, { .plan = p, .witness = w } };
    pthread_t    thread;
    int          rc;

    if (pthread_create(&thread, NULL, maker_main, &m[1]))
        abort();
    maker_main(&m[0]);
    pthread_join(thread, NULL);
    if (m[0].made && m[1].made)
        return wrong("both made the run", "", err);
    for (int i = 0; i < 2; i++)
        if (m[i].rc && !m[i].err.text[0])
            return wrong("one failed without a sentence", "", err);
    struct maker *first = m[1].made || (m[0].rc && !m[1].rc) ? &m[1] : &m[0];
    *err = first->err;
    rc = first->rc;
    if (!power_was_cut() && !first->made && !(rc = access(RUN_AT "/run.db", F_OK)))
        rc = life_train(p, w, err);
    if (!rc && !power_was_cut())
        rc = clean(err);
    return rc || power_was_cut() ? rc : tidy_check(p, err);
}
