/* test_image.c: what mode mem leaves: images that alternate, a kill at any time, damage, a creation
 * that fails, a second process. */
#include "tests/mem_run.h"

/* A second process is refused, whatever became of run.lock; a descriptor of our own counts as one.
 */
static void test_images_are_locked(void **state)
{
    struct fixture *f = *state;
    struct stream  *second;
    struct err      err = { 0 };

    open_run(f);
    assert_int_equal(stream_mem_open(&second, &f->cfg, &err), -EBUSY);
    assert_non_null(strstr(err.text, "image0 is in use by another process"));
    for (unsigned area = 0; area < IMAGE_AREAS; area++) { // the other one is the next to be
                                                          // committed
        char path[128];
        int  fd;

        image_path(&f->cfg, area, path, sizeof path);
        fd = open(path, O_RDONLY);
        assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), -1);
        close(fd);
    }
}

/* Closed without a drain, as a kill: the steps since the last image are computed again, to the same
 * bits and one row each. */
static void test_kill(void **state)
{
    struct fixture *f = *state;
    struct oracle   o;

    f->cfg.commit_every = 2;
    f->cfg.durable = 1;
    oracle_init(&o);
    open_run(f);
    for (uint64_t t = 0; t < 5; t++) {
        run_step(f, t);
        oracle_step(&o, &f->cfg, t);
    }
    assert_true(query(f, "PRAGMA synchronous") == 1.0);
    close_run(f);
    open_run(f);
    expect_position(f, 4, 4);
    assert_int_equal(f->s->applied, 4);
    assert_true(query(f, "SELECT COUNT(*) FROM steps") == 5.0);
    run_step(f, 4);
    same_wire(f, &o);
    assert_true(query(f, "SELECT COUNT(*) FROM steps") == 5.0);
    assert_true(query(f, "SELECT loss FROM steps WHERE step = 4") == 1.5);
    assert_true(query(f, "SELECT seconds > 0 AND peak_rss > 1000000 FROM steps WHERE step = 4") ==
                1.0);
    assert_true(query(f, "SELECT COUNT(*) FROM spans WHERE step = 4 AND phase = 'update'") == 1.0);
    assert_true(query(f, "SELECT COUNT(*) FROM spans WHERE step = 3 AND phase = 'commit'") == 1.0);
    oracle_release(&o);
}

/* Without --commit-every the only commits are drains; the areas alternate. */
static void test_alternate(void **state)
{
    struct fixture    *f = *state;
    struct image_state s;
    struct err         err;

    open_run(f);
    for (uint64_t t = 0; t < 3; t++) {
        run_step(f, t);
        assert_int_equal(stream_drain(f->s, &err), 0);
        assert_int_equal(stream_drain(f->s, &err), 0); // nothing is uncommitted: nothing is written
        assert_int_equal(image_latest(&f->cfg, &s, &err), 0);
        assert_int_equal(s.area, (t + 1) % 2);
        assert_int_equal(s.step, t + 1);
    }
}

static void image_poke(struct fixture *f, unsigned area, off_t at)
{
    char          path[128];
    unsigned char byte;
    int           fd;

    image_path(&f->cfg, area, path, sizeof path);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void expect_refused(struct fixture *f, const char *what, const char *rest)
{
    struct err           err = { 0 };
    struct stream       *s;
    struct image_reader  r;
    struct params_source source;

    assert_int_equal(runlog_open(&f->log, f->db, 0, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(stream_mem_open(&s, &f->cfg, &err), -EBADMSG);
    assert_null(s);
    if (!strstr(err.text, what) || !strstr(err.text, rest))
        fail_msg("%s", err.text);
    assert_int_equal(image_reader_open(&r, &source, &f->cfg, &err), -EBADMSG);
    assert_null(r.newest.cfg); // nothing is open
    runlog_close(f->log);
    f->log = NULL;
}

static void test_damage(void **state)
{
    struct fixture *f = *state;
    char            path[128];
    struct err      err;

    f->cfg.commit_every = 1;
    open_run(f);
    run_step(f, 0); // image1
    close_run(f);
    image_poke(f, 1, (off_t)image_block_offset(&f->cfg, 2) + 12345);
    expect_refused(f, "/image1: block 2 at offset 1320012 is damaged: its checksum is ",
                   "; the last whole committed state is that after step 0, in image0");
    image_poke(f, 0, 7);
    expect_refused(f, "/image1: block 2", "; no other whole committed state is left");
    image_poke(f, 1, (off_t)image_block_offset(&f->cfg, 2) + 12345); // mended
    open_run(f); // the other area's damage does not matter
    run_step(f, 1);
    assert_int_equal(stream_drain(f->s, &err), 0);
    close_run(f);
    image_path(&f->cfg, 0, path, sizeof path);
    assert_int_equal(truncate(path, (off_t)image_block_offset(&f->cfg, 1) + 5), 0);
    expect_refused(f, "/image0: block 1 is cut off at offset 480017, it should end at 1320012",
                   "; the last whole committed state is that after step 1, in image1");
}

static void test_damaged_row(void **state)
{
    struct fixture *f = *state;
    struct err      err = { 0 };

    assert_int_equal(runlog_open(&f->log, f->db, 0, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(sqlite3_exec(f->log->db.sql,
                                  "UPDATE journal_image SET applied = 9 WHERE block = 3", NULL,
                                  NULL, NULL),
                     0);
    runlog_close(f->log);
    expect_refused(f, "row 3 of image0 in the journal is damaged", "");
}

/* A source that fails leaves nothing behind. */
static void test_format_fails(void **state)
{
    struct fixture            *f = *state;
    const struct params_source broken = { .read = init_read, .ctx = f };
    char                       path[128];
    struct err                 err = { 0 };

    image_path(&f->cfg, 0, path, sizeof path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(runlog_open(&f->log, f->db, 0, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(image_format(&f->cfg, &broken, &err), -EIO);
    assert_string_equal(err.text, "no values for block 0");
    assert_int_equal(access(path, F_OK), -1); // and teardown finds the folder without anything else
    runlog_close(f->log);
    f->log = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_alternate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_format_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_images_are_locked, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
