/* newranks.c: folder after folder is filled; then all get the name run.db that makes a run of them,
 * rank 0's the last. */
#include "cmd/run/newranks.h"

#include "cmd/run/ranked.h"
#include "cmd/run/settings.h"
#include "cmd/run/tokenise.h"
#include "data/base/file.h"
#include "data/base/machine.h"
#include "data/base/round.h"
#include "model/hf.h"
#include "offload/devices.h"
#include "offload/rerank.h"

#include <sys/stat.h>
#include <unistd.h>

enum { NEW_PATH = SESSION_PATH + 32 };

static int check(const struct session *from, const struct newranks *n, struct err *err)
{
    struct session to = *from; // of which the options are asked, and may be settled
    size_t         ranks = size_max(from->ranks.size, 1);

    if (n->ranks == ranks)
        return err_misuse(err, "%s is of %zu rank%s already", from->dir, ranks,
                          ranks > 1 ? "s" : "");
    if (from->run.mode == RUN_MEM || devices_fake(&from->run))
        return err_misuse(err, "%s has no devices that store something, which is what ranks share",
                          from->dir);
    if (from->run.error_feedback)
        return err_misuse(err, "%s has residuals of --error-feedback, which is of one group, and "
                          "so of one rank", from->dir);
    to.o.groups = to.o.groups ? to.o.groups : ranks;
    to.ranks.size = n->ranks;
    return ranked_groups(&to, err);
}

/* Its tokenizer, and tokens and rows that stand in its folder. */
static int copy_files(const struct session *from, const char *dir, struct err *err)
{
    static const char *const names[] = { "data.bin", "eval.bin", "train.ex", "dev.ex",
                                         "dev_mm.ex", "test.ex", "test_mm.ex" };
    char old[NEW_PATH], new[NEW_PATH];
    int  copied, rc = 0;

    snprintf(old, sizeof old, "%s/tokenizer", from->dir);
    snprintf(new, sizeof new, "%s/tokenizer", dir);
    if (tokenise_has_files(old)) {
        if (mkdir(new, 0777))
            return err_set(err, -errno, "mkdir %s: %s", new, strerror(errno));
        rc = hf_copy_tokenizer(old, new, &copied, err);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !rc; i++) {
        snprintf(old, sizeof old, "%s/%s", from->dir, names[i]);
        snprintf(new, sizeof new, "%s/%s", dir, names[i]);
        if (!access(old, F_OK))
            rc = file_copy(old, new, UINT64_MAX, err);
    }
    return rc;
}

/* What is said otherwise in the copy. */
static int settle(struct session *to, const struct session *from, const struct newranks *n,
                  size_t rank, struct err *err)
{
    int rc = settings_set(to->log, err, "id=%s\noption.devices=%zu\noption.groups=%zu", to->id,
                          n->devices ? n->devices : from->run.n_devices,
                          size_max(from->o.groups ? from->o.groups : from->ranks.size, 1));

    rc = rc ? rc : runlog_set(to->log, "option.device", "", err);
    rc = rc ? rc : runlog_set(to->log, "option.fpga", "", err);
    rc = rc ? rc : runlog_unset(to->log, "layout", err);
    rc = rc ? rc : runlog_unset(to->log, "reshard.remove", err);
    if (!rc && n->ranks > 1)
        return settings_set(to->log, err, "ranks=%zu\nrank=%zu", n->ranks, rank);
    rc = rc ? rc : runlog_unset(to->log, "ranks", err);
    return rc ? rc : runlog_unset(to->log, "rank", err);
}

static int fill(const struct parts *parts, const struct session *from, const struct newranks *n,
                const char *id, size_t rank, struct err *err)
{
    struct session to = { .events = from->events, .spares = from->spares };
    char           dir[SESSION_PATH], path[NEW_PATH];
    struct watch   w;

    ranked_dir(dir, n->dir, rank);
    if (!realpath(dir, to.dir))
        return err_set(err, -errno, "%s: %s", dir, strerror(errno));
    ranked_id_of(to.id, id, rank);
    snprintf(path, sizeof path, "%s/run.db.new", to.dir);
    int rc = copy_files(from, to.dir, err);
    rc = rc ? rc : runlog_copy(from->log, path, err);
    rc = rc ? rc : runlog_open(&to.log, path, 0, 1, err);
    rc = rc ? rc : settle(&to, from, n, rank, err);
    rc = rc ? rc : session_load(&to, err);
    if (!rc) {
        w = work_begin(from->events, "making the states of %s", dir);
        rc = rerank_states(parts, &to.run, &w, err);
        work_end(from->events);
    }
    session_close(&to);
    return rc;
}

/* They are complete: from the last rank to the first. */
static int name_all(const struct newranks *n, struct err *err)
{
    char dir[SESSION_PATH], from[NEW_PATH], to[NEW_PATH];
    int  rc = 0;

    for (size_t i = n->ranks; i-- > 0 && !rc;) {
        ranked_dir(dir, n->dir, i);
        snprintf(from, sizeof from, "%s/run.db.new", dir);
        snprintf(to, sizeof to, "%s/run.db", dir);
        rc = file_sync_dir(dir, err);
        if (!rc && rename(from, to))
            rc = err_set(err, -errno, "rename %s to %s: %s", from, to, strerror(errno));
        rc = rc ? rc : file_sync_dir(dir, err);
        rc = rc ? rc : file_sync_parent(dir, err);
    }
    return rc;
}

int newranks_create(struct session *from, const struct newranks *n, struct err *err)
{
    struct parts parts = { 0 };
    char         dir[SESSION_PATH], id[33] = "";
    size_t       made = 0;
    int          rc = check(from, n, err);

    rc = rc ? rc : parts_open(&parts, &from->run, err);
    if (rc == -EBUSY && !(rc = session_recover(from, err))) { // a step was half done
        parts_close(&parts);
        rc = parts_open(&parts, &from->run, err);
    }
    rc = rc ? rc : machine_hex(id, sizeof id - 1, err);
    while (made < n->ranks && !rc) {
        ranked_dir(dir, n->dir, made);
        if (mkdir(dir, 0777))
            rc = err_misuse(err, "%s: %s: a folder that does not exist is expected", dir,
                            strerror(errno));
        made += !rc;
    }
    for (size_t i = 0; i < n->ranks && !rc; i++)
        rc = fill(&parts, from, n, id, i, err);
    rc = rc ? rc : name_all(n, err);
    parts_close(&parts);
    for (size_t i = 0; i < made && rc; i++) {
        ranked_dir(dir, n->dir, i);
        file_remove_tree(dir);
    }
    return rc;
}
