/* test_csd_ahead.c: an update's parameters are there, and their job is back, before its moments are
 * written, whatever becomes of those. */
#include "tests/csd_rig.h"

/* The writes of moments, by offset; who waits for what is ahead of them; whether they stay, go on,
 * or fail, and whether any came before what is ahead of them was complete. */
static struct {
    uint64_t              from, to;
    const struct csd_job *ahead;
    int                   fate, early; // fate: as disk_fault_plan.hold says
} moments;

static int moments_hold(const struct disk_req *r)
{
    if (r->op != DISK_WRITE || r->off + r->bytes <= moments.from || r->off >= moments.to)
        return 0;
    moments.early |= moments.ahead->end_ns[SPAN_JOB] == 0;
    return __atomic_load_n(&moments.fate, __ATOMIC_SEQ_CST);
}

/* Parameters first: they are on the device, and their job is back, while the moments are not
 * written, and may then never be. */
static void test_ahead(void **state)
{
    struct disk_fault_plan plan = {.inner = &disk_sync, .hold = moments_hold};
    struct csd_config      cfg = {.disk = &disk_fault, .moments = 2, .wire_dt = DT_BF16};
    int             holds = *state != (void *)(uintptr_t)&csd_skeleton; // all is done in its submit
    struct rig      r;
    struct subgroup g;
    struct csd_job  j, ahead;
    char           *got;

    moments.to = 0;
    disk_fault_set(&plan);
    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    got = malloc(r.slot);
    moments.from = g.u.dst_off + 4 * r.n_pad;
    moments.to = g.u.dst_off + r.states;
    moments.ahead = &ahead;
    for (int fails = 0; fails < 2; fails++) {
        moments.fate = holds ? 1 : fails ? -EIO : 0;
        moments.early = 0;
        range_move(&r, CSD_WRITE, g.u.dst_off, memset(got, 0, 4 * r.n_pad), 4 * r.n_pad);
        ahead = (struct csd_job){.kind = CSD_AHEAD};
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        j.update.ahead = &ahead;
        r.c->ops->submit(r.c, &j);
        jobs_wait(&r, 1);
        assert_int_equal(ahead.tag, 1);
        assert_int_equal(ahead.status, 0);
        range_move(&r, CSD_READ, g.u.dst_off + r.states, got, r.wire);
        assert_memory_equal(got, (char *)g.expect + r.states, r.wire);
        assert_int_equal(ahead.update.wire_crc, crc32c(0, got, r.wire));
        __atomic_store_n(&moments.fate, fails ? -EIO : 0, __ATOMIC_SEQ_CST);
        if (holds)
            jobs_wait(&r, 1);
        assert_false(moments.early);
        assert_int_equal(j.status, fails ? -EIO : 0);
        assert_true(!fails || strstr(j.why, "write of"));
        if (!fails)
            subgroup_check(&r, &g, &j);
    }
    for (int read = 0; read < 2; read++) { // what fails before fails both, with one sentence
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        j.update.ahead = &ahead;
        j.update.grad_crc ^= !read;
        j.update.src_off += read ? r.cfg.bytes : 0;
        r.c->ops->submit(r.c, &j);
        jobs_wait(&r, 2);
        assert_true(ahead.tag < j.tag);
        assert_int_equal(j.status, read ? -EINVAL : -EBADMSG);
        assert_int_equal(ahead.status, j.status);
        assert_string_equal(ahead.why, j.why);
    }
    free(got);
    subgroup_free(&g);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { EACH(test_ahead) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
