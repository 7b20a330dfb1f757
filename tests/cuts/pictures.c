/* pictures.c: see pictures.h. */
#include "tests/cuts/pictures.h"

#include "data/base/crc32c.h"
#include "offload/devices/image.h"
#include "offload/devices/journal.h"
#include "run/snapshots/snapshots.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A row of steps: each once, in order. */
static int row_read(void *ctx, int n, const char **values, const char **names)
{
    struct picture *p = ctx;

    (void)n, (void)names;
    if (p->steps >= PICTURE_STEPS || strtoull(values[0], NULL, 10) != p->steps)
        return 1;
    p->loss[p->steps++] = strtod(values[1], NULL);
    return 0;
}

static int devices_sum(const struct session *s, uint32_t *sum, struct err *err)
{
    struct store   st;
    struct journal j = { 0 };
    int            rc = store_init(&st, &s->run, err);

    rc = rc ? rc : journal_open(&j, s->log, st.n_subs, st.error_feedback, err);
    for (size_t i = 0; i < st.n_subs && !rc; i++) {
        uint32_t of[] = { j.subs[i].states_crc, j.subs[i].wire_crc,
                          j.residuals ? j.residuals[i] : 0 };

        *sum = crc32c(*sum, of, sizeof of);
    }
    journal_close(&j);
    store_release(&st);
    return rc;
}

static int image_sum(const struct session *s, uint32_t *sum, struct err *err)
{
    struct image_state at;
    uint32_t          *sums = NULL;
    int                rc = image_latest(&s->run, &at, err);

    rc = rc ? rc : image_sums(&s->run, at.area, &sums, err);
    if (!rc)
        *sum = crc32c(*sum, sums, run_blocks(&s->run) * sizeof *sums);
    free(sums);
    return rc;
}

int picture_take(struct picture *out, const char *path, struct err *err)
{
    struct session s;
    int            rc = session_open(&s, path, SESSION_READ, NULL, err);

    *out = (struct picture){ 0 };
    rc = rc ? rc : snapshot_verify(&s, err);
    if (!rc)
        runlog_query(s.log, "SELECT step, printf('%!.17g', loss) FROM steps ORDER BY step",
                     row_read, out, NULL);
    rc = rc                      ? rc
         : s.run.mode == RUN_MEM ? image_sum(&s, &out->states, err)
                                 : devices_sum(&s, &out->states, err);
    session_close(&s);
    return rc;
}

int picture_same(const struct picture *a, const struct picture *b)
{
    return a->steps == b->steps && a->states == b->states &&
           !memcmp(a->loss, b->loss, a->steps * sizeof *a->loss);
}

int album_has(const struct album *a, const struct picture *p)
{
    for (size_t i = 0; i < a->n; i++)
        if (picture_same(&a->at[i], p))
            return 1;
    return 0;
}

int album_take(struct album *out, const char *run, struct err *err)
{
    struct session   s;
    struct snapshots list = { 0 };
    int              rc = session_open(&s, run, SESSION_LOOK, NULL, err);

    *out = (struct album){ 0 };
    rc = rc ? rc : snapshots_list(&list, &s, err);
    for (size_t i = 0; i < list.n && !rc; i++) {
        const struct snapshot *at = &list.at[i];

        out->lacking += !at->whole;
        out->by_parity += !at->whole && at->files && at->lost && at->lost <= at->parity;
        assert(out->n < PICTURES);
        if (at->whole && !(rc = picture_take(&out->at[out->n], at->path, err)))
            rc = out->at[out->n++].steps == at->step
                     ? 0 : err_set(err, -EPROTO, "%s has the rows of another step", at->path);
    }
    snapshots_free(&list);
    session_close(&s);
    return rc;
}
