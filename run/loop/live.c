/* live.c: asks for the model of a run that is being trained, and in the training process answers.
 * live.h has the protocol. */
#include "run/loop/live.h"

#include "run/loop/model_out.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char asked_name[] = "asked", answer_name[] = "answer", after_name[] = "after-",
                  failed_name[] = "failed";

enum {
    LOOK_US = 20000,
    STOPPED_LOOKS = 25 // so many such looks: one at whether the training is stopped
};

static int open_run(const struct session *s) // -1: failed
{
    return open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- the training process ---- */

/* Removes what readers that have ended left. */
static void clear_left(const struct session *s)
{
    char path[LIVE_PATH];

    snprintf(path, sizeof path, "%s/%s", s->dir, asked_name);
    file_new_clear_left(path, 1);
}

/* Does not wait: another program may have RUN locked (flock RUN siTrain ...), even the one that has
 * started this process. A reader takes its lock for ours, and is answered. */
static void say_answers(const struct live *l)
{
    if (l->fd >= 0 && flock(l->fd, LOCK_SH | LOCK_NB))
        errno = 0; // live_asked tries again
}

void live_open(struct live *l, const struct session *s)
{
    *l = (struct live){ .fd = -1 };
    if (s->ranks.rank) // rank 0 is asked, and answers for all
        return;
    clear_left(s);
    l->fd = open_run(s);
    say_answers(l);
}

void live_close(struct live *l)
{
    file_close(l->fd);
    l->fd = -1;
}

/* Whether RUN got or lost a name since the last look. A time of change is only as exact as the file
 * system's clock, so two changes may have the same one. That clock may also be another machine's,
 * so a time that differs counts, even if it is earlier. */
static int has_changed(struct live *l)
{
    struct stat st;

    if (l->fd < 0 || fstat(l->fd, &st) ||
        (st.st_mtim.tv_sec == l->seen.tv_sec && st.st_mtim.tv_nsec == l->seen.tv_nsec &&
         st.st_mtim.tv_sec + 1 < l->looked.tv_sec))
        return 0;
    l->seen = st.st_mtim;
    clock_gettime(CLOCK_REALTIME, &l->looked);
    return 1;
}

/* Whether its reader lives and has no answer yet. */
static int waits(const char *asked)
{
    int            fd = open(asked, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), empty = 1;
    int            lives = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    DIR           *d = lives ? opendir(asked) : NULL;
    struct dirent *e;

    while (d && (e = readdir(d)))
        empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
    file_close_dir(d);
    file_close(fd);
    return d && empty;
}

/* Writes the answer. It appears complete, in one rename. */
static int write_answer(const char *asked, struct session *s, const struct params_source *source,
                        uint64_t step, struct err *err)
{
    char *path = file_path(err, "%s/%s", asked, answer_name);
    char *after = file_path(err, "%s/%s%" PRIu64, asked, after_name, step);
    struct file_new f = { 0 };
    int             rc = path && after ? file_new_folder(&f, path, err) : -ENOMEM;

    rc = rc ? rc : model_out(s, source, f.temp, 0,
                             "writing the model that another process asks for", err);
    rc = rc ? rc : file_rename_new(f.temp, after, err);
    file_new_abort(&f);
    free(path);
    free(after);
    return rc;
}

/* Reports the answer, or its failure. The run goes on in either case. */
static int tell(const char *asked, struct session *s, uint64_t step, int wrote,
                const struct err *why, struct err *err)
{
    char *path = wrote ? file_path(NULL, "%s/%s", asked, failed_name) : NULL;

    if (path)
        file_write_whole(path, why->text, strlen(why->text), NULL);
    free(path);
    if (wrote)
        return session_notice(s, err, "another process asked for the model and did not get it: %s",
                              why->text);
    return session_notice(s, err, "another process got the model after step %" PRIu64, step);
}

uint64_t live_asked(struct live *l, const struct session *s)
{
    DIR           *d = has_changed(l) ? opendir(s->dir) : NULL;
    struct dirent *e;

    *l->asked = '\0';
    if (d)
        say_answers(l);
    while (d && !*l->asked && (e = readdir(d))) {
        if (file_new_is(e->d_name, asked_name, 1))
            snprintf(l->asked, sizeof l->asked, "%s/%.64s", s->dir, e->d_name);
        if (*l->asked && !waits(l->asked)) {
            *l->asked = '\0';
            l->seen = (struct timespec){ 0 }; // its reader may be about to lock it: look again
        }
    }
    file_close_dir(d);
    return *l->asked != '\0';
}

struct answering { struct live *l; struct session *s; uint64_t step; };

static int answer(void *ctx, const struct params_source *model, struct err *err)
{
    struct answering *a = ctx;

    return write_answer(a->l->asked, a->s, model, a->step, err);
}

int live_answer(struct live *l, struct session *s, struct stream *stream, uint64_t step,
                struct err *err)
{
    struct answering    a = { l, s, step };
    struct model_writer w = { .write = answer, .ctx = &a };
    int                 rc = model_out_between(&w, s, stream, step, err);

    if (rc || s->ranks.rank)
        return rc;
    clear_left(s);                     // if the reader did not wait for it
    l->seen = (struct timespec){ 0 }; // somebody else may wait, too
    // after -EINTR the training ends, which the reader notices
    return w.rc == -EINTR ? 0 : tell(l->asked, s, step, w.rc, &w.why, err);
}

/* ---- the reader ---- */

/* Looks for an answer. 1: there is one. -EIO: the training failed to write it, and `err` has its
 * sentence. */
static int answered(struct live_model *m, struct err *err)
{
    DIR           *d = opendir(m->asked.temp);
    struct dirent *e;
    int            rc = 0;

    while (d && !rc && (e = readdir(d))) {
        char   text[sizeof err->text] = "";
        size_t n = strlen(after_name);

        snprintf(m->path, sizeof m->path, "%.4100s/%.60s", m->asked.temp, e->d_name);
        if (!strncmp(e->d_name, after_name, n)) {
            m->step = strtoull(e->d_name + n, NULL, 10);
            rc = 1;
        } else if (!strcmp(e->d_name, failed_name)) {
            FILE *f = fopen(m->path, "r");

            if (f && fread(text, 1, sizeof text - 1, f) == 0)
                *text = '\0';
            if (f)
                fclose(f);
            rc = err_set(err, -EIO, "the process that trains this run could not write the model: "
                         "%s", text);
        }
    }
    file_close_dir(d);
    return rc;
}

enum { WHO = 128 };

/* Who writes to the run. */
static enum run_lock_holder writer(const struct session *s, char who[WHO])
{
    char                *db = file_path(NULL, "%s/run.db", s->dir);
    enum run_lock_holder writes = db ? runlog_writer(db, who, WHO) : HOLDER_NONE;

    free(db);
    return writes;
}

/* 0: a training process answers. -EBUSY: nobody has RUN locked, or another program alone. */
static int trains(const struct session *s)
{
    int  fd = open_run(s), none = fd < 0 || !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;
    char who[WHO];

    file_close(fd);
    return none || !writer(s, who) ? -EBUSY : 0;
}

/* A process that stands still ends no step: says so, once. Returns whether it did. */
static int say_stopped(const struct session *s)
{
    char who[WHO];
    long pid;

    if (writer(s, who) != HOLDER_STOPPED || sscanf(who, "process %ld", &pid) != 1)
        return 0;
    events_notice(s->events, "%s is trained by %s, which is stopped: waiting until it goes on "
                  "(kill -CONT %ld) or ends", s->dir, who, pid);
    return 1;
}

static int wait_for(struct live_model *m, const struct session *s, struct err *err)
{
    struct watch w = work_begin(s->events, "waiting until the process that trains %s has ended its "
                                "step", s->dir);
    int          rc = 0, said = 0;

    for (int i = 1; !rc; i++) {
        int ended = trains(s);

        if (!said && i % STOPPED_LOOKS == 0)
            said = say_stopped(s);
        rc = answered(m, err); // after the look at the training, so that its last answer counts
        if (!rc && ended)
            rc = -EAGAIN;
        rc = rc ? rc : watch_look(&w, 0, 0, err);
        if (!rc)
            usleep(LOOK_US);
    }
    work_end(s->events);
    return rc > 0 ? 0 : rc;
}

int live_ask(struct live_model *m, const struct session *s, struct err *err)
{
    char        path[LIVE_PATH];
    struct stat run;
    int         rc = trains(s);

    *m = (struct live_model){ .asked.fd = -1 };
    if (rc)
        return rc;
    if (!stat(s->dir, &run) && geteuid() && geteuid() != run.st_uid)
        return err_set(err, -EACCES, "%s is being trained, and is another user's: only its owner "
                       "can have a model of it meanwhile", s->dir);
    snprintf(path, sizeof path, "%s/%s", s->dir, asked_name);
    rc = file_new_folder(&m->asked, path, err);
    rc = rc ? rc : wait_for(m, s, err);
    if (rc)
        live_done(m);
    return rc;
}

/* Releases the lock first: an empty folder that is locked would get another answer. */
void live_done(struct live_model *m)
{
    if (m->asked.path)
        flock(m->asked.fd, LOCK_UN);
    file_new_abort(&m->asked);
    memset(m, 0, sizeof *m);
}
