/* test_csd.c: devices. Updates in every mode, over every disk, must equal optim_update on arrays,
 * bit for bit, and move exactly the bytes of the traffic table; what is wrong must be refused with
 * nothing written.
 */
#include "tests/csd_rig.h"

#include "data/base/clock.h"
#include "data/opt/opt_row.h"

/* What devices have mapped, and the most at once: our objects' mappings come through here. */
static size_t mapped, mapped_most;

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    mapped += n;
    mapped_most = mapped > mapped_most ? mapped : mapped_most;
    return __real_mmap(at, n, prot, flags, fd, off);
}

int __real_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n)
{
    mapped -= n;
    return __real_munmap(at, n);
}

/* With what is ahead of it: that comes first, with the sum of what may be read. */
static void ahead_check(const struct csd_job *j, const struct csd_job *ahead)
{
    assert_null(j->update.ahead);
    assert_true(ahead->tag < j->tag);
    assert_int_equal(ahead->status, 0);
    assert_int_equal(ahead->update.wire_crc, j->update.wire_crc);
    assert_true(ahead->start_ns[SPAN_WRITE] == j->start_ns[SPAN_WRITE] &&
                ahead->end_ns[SPAN_WRITE] >= ahead->start_ns[SPAN_WRITE] &&
                ahead->end_ns[SPAN_WRITE] <= j->end_ns[SPAN_WRITE] &&
                ahead->end_ns[SPAN_JOB] <= j->end_ns[SPAN_JOB]);
}

static void updates_run(const struct csd_ops *ops, const struct csd_config *cfg, int pairs,
                        int jobs)
{
    struct rig      r;
    struct subgroup g[JOBS];
    struct csd_job  j[JOBS], ahead[JOBS];

    mapped = mapped_most = 0;
    rig_open(&r, ops, cfg);
    for (int k = 0; k < jobs; k++) {
        subgroup_make(&r, &g[k], k, pairs);
        j[k] = (struct csd_job){.kind = CSD_UPDATE, .update = g[k].u};
        ahead[k] = (struct csd_job){.kind = CSD_AHEAD};
        j[k].update.ahead = k % 2 ? &ahead[k] : NULL;
    }
    for (int k = 0; k < jobs; k++)
        r.c->ops->submit(r.c, &j[k]);
    jobs_wait(&r, jobs + jobs / 2);
    for (int k = 0; k < jobs; k++) {
        if (k % 2)
            ahead_check(&j[k], &ahead[k]);
        subgroup_check(&r, &g[k], &j[k]);
        subgroup_free(&g[k]);
    }
    int on_card = ops == &csd_xrt && cfg->update_link == LINK_INTERNAL;
    assert_int_equal(mapped_most, on_card ? 0 : ops->memory(&r.cfg));
    rig_close(&r);
}

static void test_updates(void **state)
{
    static const struct disk_ops *const disks[] = {&disk_uring, &disk_sync};

    for (int d = 0; d < (*state == &csd_xrt ? 1 : 2); d++) // a card wants io_uring
        for (int mode = 0; mode < 3; mode++)
            for (int pairs = 0; pairs < 2; pairs++)
                for (int moments = 1; moments <= 2; moments++) {
                    struct csd_config cfg = {.id = d,
                                             .disk = disks[d],
                                             .moments = moments,
                                             .handler = mode == 1 ? CSD_NAIVE : CSD_HANDED_OVER,
                                             .wire_dt = moments == 1 ? DT_F32 : DT_BF16,
                                             .update_link = mode == 2 ? LINK_HOST : LINK_INTERNAL};

                    updates_run(*state, &cfg, pairs, JOBS);
                }
}

/* A wrong checksum, or a disk that fails, ends the job with a sentence and leaves the slot it would
 * have written. */
static void refused(struct rig *r, struct subgroup *g, struct csd_job *j, int status,
                    const char *word)
{
    char *got = malloc(r->slot);

    job_run(r, j);
    assert_int_equal(j->status, status);
    assert_non_null(strstr(j->why, "device 0"));
    if (!strstr(j->why, word))
        fail_msg("no \"%s\" in: %s", word, j->why);
    range_move(r, CSD_READ, g->u.dst_off, got, r->slot);
    for (size_t i = 0; i < r->slot; i++)
        assert_int_equal(got[i], 0);
    free(got);
}

static void test_corruption(void **state)
{
    for (int pairs = 0; pairs < 2; pairs++) {
        struct csd_config cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                             .wire_dt = DT_BF16};
        struct rig        r;
        struct subgroup   g;
        struct csd_job    j;

        rig_open(&r, *state, &cfg);
        subgroup_make(&r, &g, 0, pairs);
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        j.update.src_crc ^= 1;
        refused(&r, &g, &j, -EBADMSG, "states");
        j.update = g.u;
        j.update.grad_crc ^= 1;
        refused(&r, &g, &j, -EBADMSG, "gradient");
        j.update = g.u;
        j.update.dst_off = r.cfg.bytes;
        refused(&r, &g, &j, -EINVAL, "outside");
        j.update = g.u; // and the device goes on
        job_run(&r, &j);
        subgroup_check(&r, &g, &j);
        subgroup_free(&g);
        rig_close(&r);
    }
}

static void test_faults(void **state)
{
    struct disk_fault_plan plan = {.inner = &disk_sync};
    struct csd_config      cfg = {
             .disk = &disk_fault, .update_link = LINK_INTERNAL, .moments = 2, .wire_dt = DT_BF16
    };
    struct rig             r;
    struct subgroup        g;
    struct csd_job         j;

    disk_fault_set(&plan);
    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
    plan.ops = 1u << DISK_READ;
    plan.from = g.u.grad_off;
    plan.to = g.u.grad_off + 4096;
    plan.eio = 1;
    disk_fault_set(&plan);
    refused(&r, &g, &j, -EIO, "Input/output error");
    assert_non_null(strstr(j.why, "read of"));
    assert_non_null(strstr(j.why, r.path));
    plan = (struct disk_fault_plan){
        .inner = &disk_sync, .ops = 1u << DISK_WRITE, .eio = 1, .delay_ns = 1000000
    };
    disk_fault_set(&plan);
    j.update = g.u;
    refused(&r, &g, &j, -EIO, "write of");
    plan = (struct disk_fault_plan){
        .inner = &disk_sync, .ops = 3, .short_io = 1, .delay_ns = 1000000
    };
    disk_fault_set(&plan);
    j.update = g.u;
    job_run(&r, &j);
    subgroup_check(&r, &g, &j);
    assert_true(disk_fault_count() > 0);
    plan = (struct disk_fault_plan){.inner = &disk_sync, .ops = 1u << DISK_FLUSH, .eio = 1};
    disk_fault_set(&plan);
    j = (struct csd_job){.kind = CSD_FLUSH};
    job_run(&r, &j);
    assert_int_equal(j.status, -EIO);
    assert_non_null(strstr(j.why, "flush"));
    subgroup_free(&g);
    rig_close(&r);
}

/* So large that an update comes in chunks, more than are on their way at once. */
static void test_large_updates(void **state)
{
    struct disk_fault_plan plan = {.inner = &disk_sync};
    struct csd_config      cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                             .wire_dt = DT_BF16};
    struct rig             r;
    struct subgroup        g;
    struct csd_job         j;

    cfg.update_params = (1 << 20) + N_PAD;
    for (int naive = 1; naive >= 0; naive--)
        for (int pairs = 0; pairs < 2; pairs++) {
            cfg.handler = naive ? CSD_NAIVE : CSD_HANDED_OVER;
            updates_run(*state, &cfg, pairs, 2);
        }
    cfg.disk = &disk_fault;
    disk_fault_set(&plan);
    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
    j.update.src_crc ^= 1;
    refused(&r, &g, &j, -EBADMSG, "states");
    plan.ops = 1u << DISK_READ; // the end of the master
    plan.from = g.u.src_off + sizeof(float) * r.n_pad - 4096;
    plan.to = plan.from + 4096;
    plan.eio = 1;
    disk_fault_set(&plan);
    j.update = g.u;
    refused(&r, &g, &j, -EIO, "read of");
    subgroup_free(&g);
    rig_close(&r);
}

/* What a faulty disk lost or tore is noticed when it is read next. */
static void test_lost_writes(void **state)
{
    for (int torn = 0; torn < 2; torn++) {
        struct disk_fault_plan plan = {.inner = &disk_sync};
        struct csd_config      cfg = {
                 .disk = &disk_fault, .update_link = LINK_INTERNAL, .moments = 2, .wire_dt = DT_BF16
        };
        struct rig        r;
        struct subgroup   g;
        struct csd_job    j;

        disk_fault_set(&plan);
        rig_open(&r, *state, &cfg);
        subgroup_make(&r, &g, 0, 0);
        plan = (struct disk_fault_plan){
            .inner = &disk_sync, .ops = 1u << DISK_WRITE, .torn = torn, .dropped = !torn};
        disk_fault_set(&plan);
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        job_run(&r, &j);
        assert_int_equal(j.status, 0);
        assert_true(disk_fault_count() > 0);
        g.u.src_crc = j.update.dst_crc;
        g.u.src_off = j.update.dst_off;
        g.u.dst_off = slot_off(&r, 1, 1);
        plan = (struct disk_fault_plan){.inner = &disk_sync};
        disk_fault_set(&plan);
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        refused(&r, &g, &j, -EBADMSG, "states");
        subgroup_free(&g);
        rig_close(&r);
    }
}

/* Many host jobs at once, mixed with updates; nothing gets lost, and each is metered on the host
 * link. */
static void test_host_jobs(void **state)
{
    enum { MANY = 200 };
    struct csd_config cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                             .wire_dt = DT_BF16};
    struct rig        r;
    struct subgroup   g;
    struct csd_job    u;

    accelerator_give(&cfg, *state);
    struct csd_job *j = calloc(MANY, sizeof *j);
    char           *mem = aligned_alloc(4096, (size_t)MANY * 4096);
    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    u = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
    r.c->ops->submit(r.c, &u);
    for (int i = 0; i < MANY; i++) {
        memset(mem + i * 4096, i, 4096);
        j[i] = (struct csd_job){.kind = CSD_WRITE,
                                .cls = CLASS_ACTIVATION,
                                .buf = mem + i * 4096,
                                .bytes = 4096,
                                .payload = 4000,
                                .off = grad_off(&r, 2) + (uint64_t)(i % 12) * 4096};
        r.c->ops->submit(r.c, &j[i]);
    }
    jobs_wait(&r, MANY + 1);
    subgroup_check(&r, &g, &u);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(j[i].status, 0);
        assert_int_equal(j[i].meter.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE], 4000);
        assert_int_equal(j[i].meter.padding[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE], 96);
    }
    u = (struct csd_job){.kind = CSD_FLUSH};
    job_run(&r, &u);
    assert_int_equal(u.status, 0);
    u = (struct csd_job){
        .kind = CSD_READ, .buf = mem, .bytes = 4096, .payload = 4096, .off = r.cfg.bytes
    };
    job_run(&r, &u);
    assert_int_equal(u.status, -EINVAL);
    subgroup_free(&g);
    rig_close(&r);
    free(j);
    free(mem);
}

/* A modelled link delays; only lower bounds are certain. */
static void test_link_delay(void **state)
{
    const struct link_rates rates = {.bytes_per_s = {10e6, 10e6}, .shared = 1};
    struct link_ends        ends = {0};
    struct csd_config       cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                                   .wire_dt = DT_BF16, .links = &ends};
    struct rig              r;
    struct subgroup         g;
    struct csd_job          j;

    accelerator_give(&cfg, *state);
    ends.drive = link_new(&rates, NULL);
    rig_open(&r, *state, &cfg);
    subgroup_make(&r, &g, 0, 0);
    j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
    job_run(&r, &j);
    subgroup_check(&r, &g, &j);
    assert_true((double)(j.end_ns[SPAN_READ] - j.start_ns[SPAN_READ]) >
                16.0 * N_PAD / 10e6 * 1e9 * 0.99);
    assert_true((double)(j.end_ns[SPAN_WRITE] - j.start_ns[SPAN_WRITE]) >
                14.0 * N_PAD / 10e6 * 1e9 * 0.99);
    subgroup_free(&g);
    rig_close(&r);
    link_free(ends.drive);
}

/* A read that is kept as long as it is to be. */
static struct { uint64_t off; int is; } kept;

static int kept_hold(const struct disk_req *r)
{
    return r->op == DISK_READ && r->off == kept.off && __atomic_load_n(&kept.is, __ATOMIC_SEQ_CST);
}

/* The third run of a card's kernels, an update's, goes wrong while a read of the host's is under
 * way. Where the card alone broke the drive still serves the host; where both are silent all is
 * given up, and each says what it waited for. */
static void test_engine_breaks(void **state)
{
    for (int silent = 0; silent < 2; silent++) {
        struct disk_fault_plan plan = {.inner = &disk_sync, .hold = kept_hold};
        struct csd_config      cfg = {.disk = &disk_fault, .moments = 2, .wire_dt = DT_BF16,
                                      .update_link = LINK_INTERNAL,
                                      .timeout_ns = silent ? 300000000 : 0};
        struct rig             r;
        struct subgroup        g;
        struct csd_job         j, ahead = {.kind = CSD_AHEAD}, read = {.kind = CSD_READ};

        setenv("SMARTSSD_FAULT", silent ? "hang=3" : "error=3", 1);
        kept.is = 0;
        disk_fault_set(&plan);
        rig_open(&r, *state, &cfg);
        unsetenv("SMARTSSD_FAULT");
        subgroup_make(&r, &g, 0, 0);
        kept.off = grad_off(&r, 1);
        kept.is = 1;
        read.off = kept.off;
        read.buf = r.buf;
        read.bytes = read.payload = 4096;
        j = (struct csd_job){.kind = CSD_UPDATE, .update = g.u};
        j.update.ahead = &ahead;
        r.c->ops->submit(r.c, &read);
        r.c->ops->submit(r.c, &j);
        jobs_wait(&r, silent ? 3 : 2);
        assert_int_equal(j.status, silent ? -ETIMEDOUT : -EIO);
        assert_int_equal(ahead.status, j.status);
        if (silent) { // which of them says so first is not certain
            assert_non_null(strstr(read.why, "had no answer"));
            assert_true(strstr(j.why, "has not ended") || strstr(j.why, "the disk cannot be used"));
        } else {
            assert_non_null(strstr(j.why, "ended in state"));
            j.update = g.u;
            job_run(&r, &j);
            assert_non_null(strstr(j.why, "its engine cannot be used any more"));
            __atomic_store_n(&kept.is, 0, __ATOMIC_SEQ_CST);
            jobs_wait(&r, 1);
            assert_int_equal(read.status, 0);
            range_move(&r, CSD_READ, g.u.dst_off, g.slot, r.slot);
        }
        assert_int_equal(r.c->ops->close(r.c), silent);
        r.c = NULL;
        subgroup_free(&g);
        rig_close(&r);
    }
}

static void test_memory_limit(void **state)
{
    const struct csd_ops *ops = *state;
    struct csd_config     one = {
        .moments = 2, .wire_dt = DT_BF16, .update_params = CSD_ALIGN_PARAMS};
    struct csd_config     cfg = {.disk = &disk_uring, .update_link = LINK_INTERNAL, .moments = 2,
                                 .wire_dt = DT_BF16, .path = "/var/tmp/sitrain-never", .create = 1,
                                 .bytes = 1 << 20, .update_params = 8192, .mem = 128 << 10};
    struct csd           *c;
    struct err            err = {0};
    char                  notice[64];

    accelerator_give(&cfg, ops);
    assert_true(ops->memory(&one) <= 128 << 10);
    assert_true(ops->open(&c, &cfg, notice, sizeof notice, &err) < 0);
    assert_true(err.misuse);
    assert_non_null(strstr(err.text, "131072"));
    assert_int_equal(access(cfg.path, F_OK), -1);
}

static void test_null(void **state)
{
    struct bell   bell;
    struct csd_config cfg = {.moments = 2, .wire_dt = DT_BF16, .update_link = LINK_INTERNAL,
                             .bell = &bell, .path = "x"};
    struct csd       *c;
    struct err        err;
    struct csd_job    ahead = {.kind = CSD_AHEAD}, *done[3];
    struct csd_job    j = {
           .kind = CSD_UPDATE, .update = {.n = N, .n_pad = N_PAD, .ahead = &ahead}
    };
    uint64_t          seen;

    (void)state;
    bell_init(&bell);
    assert_int_equal(opt_words_find(csd_name, "null", 4), 1);
    assert_ptr_equal(csd_at(1), &csd_null);
    assert_int_equal(opt_words_find(csd_name, "emu", 3), 0);
    assert_ptr_equal(csd_at(0), &csd_emu);
    assert_true(opt_words_find(csd_name, "cloud", 5) < 0);
    assert_true(opt_words_find(csd_name, "skeleton", 8) < 0);
    assert_int_equal(csd_null.open(&c, &cfg, NULL, 0, &err), 0);
    c->ops->submit(c, &j);
    seen = bell_wait(&bell, 0, 1000000000);
    assert_int_equal(seen, 1);
    assert_int_equal(bell_wait(&bell, seen, 1000), 1);
    assert_int_equal(c->ops->reap(c, done, 3), 2);
    assert_ptr_equal(done[0], &ahead);
    assert_ptr_equal(done[1], &j);
    assert_int_equal(j.meter.bytes[LINK_INTERNAL][CLASS_STATES][LINK_READ], 12 * N);
    assert_int_equal(c->ops->reap(c, done, 2), 0);
    c->ops->close(c);
    bell_release(&bell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_updates),
        EACH(test_corruption),
        EACH(test_faults),
        WITH(emu, test_large_updates), // the skeleton has no chunks
        WITH(xrt, test_large_updates),
        WITH(opencl, test_large_updates),
        EACH(test_lost_writes),
        EACH(test_host_jobs),
        EACH(test_link_delay),
        WITH(xrt, test_engine_breaks),
        EACH(test_memory_limit),
        cmocka_unit_test(test_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
