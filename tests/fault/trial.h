/* trial.h: short runs of the toy to which something happens, and what every failure must be: a
 * sentence, no thread and no descriptor left, and a run that goes on to the same end. */
#pragma once

#include "tests/toy.h"

enum { BLOCKS = 4, STEPS = 3, WATCHDOG = 120 }; // seconds without an end are a hang

struct plan {
    const char   *name;
    enum run_mode mode;
    const char   *disk; // "fault": the faulty disk around sync
    double        compress;
    int           feedback, in_ram, speculate, pieces;
    int           cards; // on the software SmartSSD
    int           in_place; // frozen blocks in a file of their own, and adapters
};

struct trial {
    struct run_config cfg;
    struct err        err;
    char             *dir, db[4096];
    double            loss[STEPS];
    uint32_t          params;
};

/* For main: "all" as the first word takes every place where something can fail, not some; a second
 * word chooses tests by name. Whoever hangs is ended. */
void       trial_set_up(int argc, char **argv);
extern int trial_all; // whether "all" was said

/* A folder; in memory, where flushes cost nothing, unless transfers are to be direct: that takes
 * none. */
char *trial_folder(int direct);

/* A run of p that is not made yet; its folder goes with trial_end. */
void trial_begin(struct trial *t, const struct plan *p);
void trial_end(struct trial *t);

/* 0, or what went wrong, in t->err: make it; train from its last commit to its end; read what it
 * ends with. */
int trial_make(struct trial *t);
int trial_train(struct trial *t);
int trial_read(struct trial *t);

/* What trial_train opens and closes, for tests that train by themselves. Opening does not fail. */
struct stream *trial_open(struct trial *t);
void           trial_close(struct trial *t, struct stream *s);

/* What a run ends with to which nothing happens. */
struct trial trial_whole(const struct plan *p);

/* Before something happens; then nothing more may run, or be open, than did here. */
void trial_watch(void);
void trial_nothing_runs(const char *text);

void trial_nothing_left(const struct trial *t); // of a failed creation, but the lock
void trial_is_sentence(const struct trial *t, int rc, const char *what, uint64_t k);

/* After a failure that is over: the run goes on to the same end. */
void trial_goes_on(struct trial *t, const struct trial *want, const char *what, uint64_t k);

/* A whole life, in which something may fail: made, then trained. */
int trial_live(struct trial *t, int *made);
/* What comes after: made if it was not, and, if something failed, on to the end that it wants; then
 * all of it goes. */
void trial_live_on(struct trial *t, int made, const struct trial *want, const char *what,
                   uint64_t k);
