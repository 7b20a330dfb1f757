/* doing.c: calls between the program's own files come here first (--wrap of tests/tests.mk). The
 * innermost that the cut fell into names it. A snapshot is taken from its beginning to its
 * end, also while training goes on beside. */
#include "tests/cuts/doing.h"

#include "run/loop/best.h"
#include "run/loop/checkpoints.h"
#include "run/loop/going_back.h"
#include "run/snapshots/portions.h"
#include "run/snapshots/snapshot_make.h"
#include "run/snapshots/snapshot_removal.h"
#include "tests/crash/power.h"

static enum doing doing;
static int        taking; // snapshots that are under way

void doing_reset(void)
{
    doing = DOING_ELSE;
    taking = 0;
}

enum doing doing_at_cut(void)
{
    return doing == DOING_ELSE && taking && power_was_cut() ? DOING_SNAPSHOT : doing;
}

static void left(int was_cut, enum doing here)
{
    if (!was_cut && power_was_cut() && doing == DOING_ELSE)
        doing = here;
}

int __real_snapshot_begin(struct snapshot_making **out, struct session *s,
                          const struct snapshot_ask *ask, struct err *err);
int __real_snapshot_finish(struct snapshot *out, struct snapshot_making *m, struct err *err);
void __real_snapshot_drop(struct snapshot_making *m);
int __real_portions_encode(struct portions *p, const struct run_config *to, uint64_t step,
                           const struct watch *watch, uint64_t moved[LINK_DIRS], struct err *err);
int __real_snapshots_rotate(struct session *s, struct err *err);
int __real_going_back(struct session *s, uint64_t step, const struct opt_line *line,
                      const struct going_back_check *check, struct err *err);
int __real_going_back_restore(struct session *s, uint64_t *step, struct err *err);
int __real_checkpoints_export(struct session *s, struct stream *stream, uint64_t done,
                              struct err *err);
int __real_best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err);
int __wrap_snapshot_begin(struct snapshot_making **out, struct session *s,
                          const struct snapshot_ask *ask, struct err *err);
int __wrap_snapshot_finish(struct snapshot *out, struct snapshot_making *m, struct err *err);
void __wrap_snapshot_drop(struct snapshot_making *m);
int __wrap_portions_encode(struct portions *p, const struct run_config *to, uint64_t step,
                           const struct watch *watch, uint64_t moved[LINK_DIRS], struct err *err);
int __wrap_snapshots_rotate(struct session *s, struct err *err);
int __wrap_going_back(struct session *s, uint64_t step, const struct opt_line *line,
                      const struct going_back_check *check, struct err *err);
int __wrap_going_back_restore(struct session *s, uint64_t *step, struct err *err);
int __wrap_checkpoints_export(struct session *s, struct stream *stream, uint64_t done,
                              struct err *err);
int __wrap_best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err);

int __wrap_snapshot_begin(struct snapshot_making **out, struct session *s,
                          const struct snapshot_ask *ask, struct err *err)
{
    int was = power_was_cut(), rc = __real_snapshot_begin(out, s, ask, err);

    left(was, DOING_SNAPSHOT);
    taking += !rc;
    return rc;
}

int __wrap_snapshot_finish(struct snapshot *out, struct snapshot_making *m, struct err *err)
{
    int rc = __real_snapshot_finish(out, m, err);

    left(0, DOING_SNAPSHOT);
    taking = 0;
    return rc;
}

void __wrap_snapshot_drop(struct snapshot_making *m)
{
    __real_snapshot_drop(m);
    if (taking)
        left(0, DOING_SNAPSHOT);
    taking = 0;
}

int __wrap_portions_encode(struct portions *p, const struct run_config *to, uint64_t step,
                           const struct watch *watch, uint64_t moved[LINK_DIRS], struct err *err)
{
    int was = power_was_cut(), rc = __real_portions_encode(p, to, step, watch, moved, err);

    left(was, DOING_PARITY);
    return rc;
}

int __wrap_snapshots_rotate(struct session *s, struct err *err)
{
    int was = power_was_cut(), rc = __real_snapshots_rotate(s, err);

    left(was, DOING_ROTATION);
    return rc;
}

int __wrap_going_back(struct session *s, uint64_t step, const struct opt_line *line,
                      const struct going_back_check *check, struct err *err)
{
    int was = power_was_cut(), rc = __real_going_back(s, step, line, check, err);

    left(was, DOING_BACK);
    return rc;
}

int __wrap_going_back_restore(struct session *s, uint64_t *step, struct err *err)
{
    int was = power_was_cut(), rc = __real_going_back_restore(s, step, err);

    left(was, DOING_RESTORE);
    return rc;
}

int __wrap_checkpoints_export(struct session *s, struct stream *stream, uint64_t done,
                              struct err *err)
{
    int was = power_was_cut(), rc = __real_checkpoints_export(s, stream, done, err);

    left(was, DOING_MODELS);
    return rc;
}

int __wrap_best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err)
{
    int was = power_was_cut(), rc = __real_best_export(s, stream, step, err);

    left(was, DOING_MODELS);
    return rc;
}
