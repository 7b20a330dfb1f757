/* test_verify.c: one byte turned, anywhere in what a run stores. Each is found by verify_run,
 * named, with nothing written; training stops at its next read of it and no parameter ever shows
 * it: with the byte turned back, the run ends in the bits of one that nobody disturbed. And what
 * can be made again is made again. */
#include "tests/disk_fault.h"
#include "tests/scene.h"

static unsigned turned;

struct spot {
    enum verify_kind kind;
    size_t           device;
    uint64_t         off, area;
};

/* In a fresh copy: found, named, nothing written; training finds it too; without it all is as if it
 * had never been. */
static void turn_one(struct scene *s, const struct spot *p, unsigned char mask)
{
    char          path[128], where[32];
    struct heard  h;
    struct verify v;
    uint32_t      before;

    turned++;
    copy(s->base, s->work);
    snprintf(path, sizeof path, s->cfg.mode == RUN_MEM ? "%s/image%zu" : "%s/dev%zu/states",
             s->work, p->device);
    snprintf(where, sizeof where, "offset %llu", (unsigned long long)p->area);
    flip(path, p->off, mask);
    open_log(s, s->work);
    before = content(s->work);
    v = look(s, 0, &h);
    if (v.count[p->kind].damaged != 1 || h.damages != 1 || !strstr(h.text, path))
        fail_msg("%s at %llu, %s: %d damages, %s", path, (unsigned long long)p->off,
                 verify_names[p->kind], h.damages, h.text);
    assert_true(p->kind == VERIFY_SUPERBLOCK || strstr(h.text, where));
    assert_int_equal(content(s->work), before);
    if (train(s, STEPS) != -EBADMSG || !strstr(s->err.text, path) ||
        (p->kind != VERIFY_SUPERBLOCK && !strstr(s->err.text, where)))
        fail_msg("%s at %llu: training did not see it: %s", path, (unsigned long long)p->off,
                 s->err.text);
    close_log(s);
    flip(path, p->off, mask);
    open_log(s, s->work);
    must(s, train(s, STEPS));
    assert_int_equal(params_sum(s), s->want);
    look(s, 0, &h);
    assert_int_equal(h.damages, 0);
    close_log(s);
}

/* Nothing is written by looking, and what is mended is what it was. */
static void mend_one(struct scene *s, const struct spot *p, unsigned char mask)
{
    char          path[128];
    struct heard  h;
    struct verify v;
    uint32_t      whole, damaged;

    copy(s->base, s->work);
    snprintf(path, sizeof path, "%s/dev%zu/states", s->work, p->device);
    whole = content(s->work);
    flip(path, p->off, mask);
    damaged = content(s->work);
    open_log(s, s->work);
    look(s, 0, &h);
    assert_int_equal(content(s->work), damaged);
    v = look(s, 1, &h);
    assert_int_equal(h.damages, 1);
    assert_int_equal(v.count[p->kind].mended,
                     p->kind == VERIFY_WIRE || p->kind == VERIFY_SUPERBLOCK);
    assert_int_equal(content(s->work), v.count[p->kind].mended ? whole : damaged);
    close_log(s);
}

/* Bytes of every kind of area of some subgroups: first, last, and some in between. */
static void turn_all(struct scene *s)
{
    struct store         st;
    struct spot          p = {VERIFY_SUPERBLOCK, 0, 0, 0};
    struct journal       j;

    must(s, store_init(&st, &s->cfg, &s->err));
    open_log(s, s->base);
    must(s, journal_open(&j, s->cfg.log, st.n_subs, 0, &s->err));
    close_log(s);
    static const uint64_t supers[] = {0, 20, 60, 2000, SUPERBLOCK_BYTES - 1};

    for (size_t i = 0; i < sizeof supers / sizeof *supers; i++) {
        p.off = supers[i];
        p.device = s->cfg.n_devices - 1;
        turn_one(s, &p, 1);
        mend_one(s, &p, 0x80);
    }
    for (size_t i = 0; i < st.n_subs; i += 4) {
        const struct store_sub *u = &st.subs[i];
        uint64_t slot = store_slot_off(&st, u->class_, j.subs[i].slot), master = 4 * u->n_pad,
                 wire = 3 * master;
        struct spot spots[] = {
            { VERIFY_STATES, u->device, slot, slot }, // master, m and v, and the padding behind
                                                      // each
            { VERIFY_STATES, u->device, slot + master - 1, slot },
            { VERIFY_STATES, u->device, slot + master + 4 * (u->n - 1), slot },
            { VERIFY_STATES, u->device, slot + 2 * master + 333, slot },
            { VERIFY_STATES, u->device, slot + 3 * master - 1, slot },
            { VERIFY_WIRE, u->device, slot + wire, slot + wire },
            { VERIFY_WIRE, u->device, slot + wire + 2 * u->n_pad - 1, slot + wire },
            { VERIFY_RESIDUAL, u->device, store_residual_off(u, j.state.applied) + 5,
              store_residual_off(u, j.state.applied) },
            { VERIFY_GRADIENT, u->device, u->grad_off, u->grad_off }, // packed: the header, a pair,
                                                                      // the rest
            { VERIFY_GRADIENT, u->device, u->grad_off + 77, u->grad_off },
            { VERIFY_GRADIENT, u->device, u->grad_off + 4095, u->grad_off },
        };

        for (size_t k = 0; k < sizeof spots / sizeof *spots; k++) {
            // its update reads states and gradient, makes the wire
            int waits = j.subs[i].version < j.state.applied;

            if ((spots[k].kind == VERIFY_RESIDUAL && !s->cfg.error_feedback) ||
                (spots[k].kind == VERIFY_GRADIENT && !waits))
                continue;
            if (spots[k].kind != VERIFY_WIRE || !waits)
                turn_one(s, &spots[k], (unsigned char)(1u << (i + k) % 8));
            if (spots[k].kind == VERIFY_WIRE || k == 0)
                mend_one(s, &spots[k], (unsigned char)(1u << (i + k) % 8));
        }
    }
    journal_close(&j);
    store_release(&st);
}

static void devices_every_kind(void **state)
{
    (void)state;
    const struct variant variants[] = {
        {RUN_SUO, 2, 0, 0, 1},
        {RUN_BASE, 1, 0.05, 1, 1},
        {RUN_SU, 3, 0.05, 1, 0},
    };

    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        struct scene *s = scene_new(&variants[i]);

        turn_all(s);
        scene_free(s);
    }
    print_message("%u bytes turned\n", turned);
}

static void images(void **state)
{
    (void)state;
    const struct variant v = {RUN_MEM, 1, 0.05, 1, 0};
    struct scene        *s = scene_new(&v);
    struct image_state   now;
    struct heard         h;
    struct verify        found;
    char                 path[128];
    int                  fd;

    open_log(s, s->base);
    must(s, image_latest(&s->cfg, &now, &s->err));
    close_log(s);
    for (size_t b = 0; b < BLOCKS; b++) {
        uint64_t area = image_block_offset(&s->cfg, b), end = image_block_offset(&s->cfg, b + 1);

        turn_one(s, &(struct spot){VERIFY_IMAGE, now.area, area, area}, 1);
        turn_one(s, &(struct spot){VERIFY_IMAGE, now.area, end - 1, area}, 0x80);
    }

    copy(s->base, s->work); // the way back: to the image before, and forward to the same bits
    snprintf(path, sizeof path, "%s/image%u", s->work, now.area);
    flip(path, 1234, 4);
    open_log(s, s->work);
    found = look(s, 1, &h);
    assert_int_equal(found.count[VERIFY_IMAGE].mended, 1);
    assert_true(found.next_step < now.step);
    must(s, train(s, STEPS));
    assert_int_equal(params_sum(s), s->want);
    close_log(s);

    copy(s->base, s->work); // the other image is nobody's state: a remark
    snprintf(path, sizeof path, "%s/image%u", s->work, 1 - now.area);
    flip(path, 1234, 4);
    open_log(s, s->work);
    found = look(s, 0, &h);
    assert_true(h.damages == 0 && h.remarks == 1);
    must(s, train(s, STEPS));
    assert_int_equal(params_sum(s), s->want);
    close_log(s);

    copy(s->base, s->work); // one that another process writes is in use, not damaged: nothing goes
                            // back
    open_log(s, s->work);
    must(s, image_open(&s->cfg, now.area, &fd, &s->err));
    h = (struct heard){0};
    found = (struct verify){.mend = 1, .say = hear, .ctx = &h};
    assert_int_equal(verify_run(&found, &s->cfg, &s->err), -EBUSY);
    assert_true(h.damages == 0 && found.count[VERIFY_IMAGE].mended == 0);
    close(fd);
    close_log(s);
    scene_free(s);
}

/* Masters as an older siTrain may have left them: two cannot be computed with. */
static int broken_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n; i++)
        out[i] = block == 1 && first + i == 4321 ? NAN
                 : block == 2 && first + i == 7  ? -INFINITY
                                                 : 0.5f;
    return 0;
}

static void not_finite(void **state)
{
    const struct params_source broken = {.read = broken_read};
    const struct variant       variants[] = {
        {RUN_MEM, 1, 0, 0, 0}, {RUN_SUO, 1, 0, 0, 0}, {RUN_BASE, 3, 0, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        struct scene *s = scene_from(&variants[i], &broken);
        struct heard  h;
        struct verify v = look(s, 0, &h);

        assert_int_equal(h.damages, 1);
        assert_true(v.beyond.n == 2 && v.beyond.block == 1 && v.beyond.first == 4321);
        assert_non_null(strstr(h.text, "2 of the parameters"));
        assert_non_null(strstr(h.text, "parameter 4321 of block 1"));
        close_log(s);
        scene_free(s);
    }
}

static int none_read(const struct disk_req *r)
{
    return r->op == DISK_READ && r->off >= SUPERBLOCK_BYTES ? -ECANCELED : 0;
}

/* The kernel cancels reads for which it finds no thread: nothing is known to be damaged. */
static void cancelled(void **state)
{
    (void)state;
    const struct disk_fault_plan plan = { .inner = &disk_sync, .hold = none_read };
    struct scene *s = scene_new(&(struct variant){ RUN_SUO, 2, 0, 0, 0 });
    struct heard  h = { 0 };
    struct verify v = { .mend = 1, .say = hear, .ctx = &h };

    copy(s->base, s->work);
    uint32_t before = content(s->work);
    open_log(s, s->work);
    disk_fault_set(&plan);
    s->cfg.csd = disk_fault_csd(&csd_emu);
    assert_int_equal(verify_run(&v, &s->cfg, &s->err), -ECANCELED);
    assert_non_null(strstr(s->err.text, "Operation canceled"));
    assert_int_equal(h.damages + h.remarks, 0);
    assert_int_equal(content(s->work), before);
    close_log(s);
    scene_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled),
        cmocka_unit_test(devices_every_kind),
        cmocka_unit_test(images),
        cmocka_unit_test(not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
