/* damaged.c: proves damage by reading, and says the way on. */
#include "run/loop/damaged.h"

#include "data/base/machine.h"
#include "offload/upkeep/verify.h"
#include "run/folder/snapshots.h"

static void say(void *session, int damage, const char *sentence)
{
    struct session *s = session;

    (void)damage;
    events_notice(s->events, "%s", sentence);
}

int damaged_count(struct session *s, uint64_t *n, uint64_t *wire, struct err *err)
{
    struct watch  w = work_begin(s->events, "reading the states of %s", s->dir);
    struct verify v = { .say = say, .ctx = s, .watch = &w };
    int           rc = verify_run(&v, &s->run, err);

    work_end(s->events);
    *n = 0;
    for (size_t k = 0; k < VERIFY_KINDS; k++)
        *n += v.count[k].damaged;
    *wire = v.count[VERIFY_WIRE].damaged + v.count[VERIFY_SUPERBLOCK].damaged;
    *n -= *wire;
    return rc;
}

int damaged_explain(struct session *s, int rc, struct err *err)
{
    struct snapshots       list;
    const struct snapshot *newest;
    struct err             unsaid;
    char                   word[SESSION_PATH];

    if ((rc != -EBADMSG && rc != -EIO) || strstr(err->text, "siTrain restore ") ||
        snapshots_list(&list, s, &unsaid))
        return rc;
    if ((newest = snapshots_newest(&list)))
        err_set(err, rc, "%.800s; siTrain restore %s goes back to a snapshot, the newest of which "
                "is after step %" PRIu64 ", and writes all states again", err->text,
                machine_word(word, sizeof word, s->dir), newest->step);
    snapshots_free(&list);
    return rc;
}
