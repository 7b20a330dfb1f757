/* test_runlog.c: the run's database: rows, folding of old steps, the lock, refusals, views. */
#include "tests/runlog_dir.h"

static void test_settings(void **state)
{
    struct runlog *log = create(1);
    char           buf[32];

    (void)state;
    assert_int_equal(runlog_set(log, "mode", "su+o", &err), 0);
    assert_int_equal(runlog_set(log, "mode", "base", &err), 0);
    assert_int_equal(runlog_get(log, "mode", buf, sizeof buf, &err), 0);
    assert_string_equal(buf, "base");
    assert_int_equal(runlog_get(log, "none", buf, sizeof buf, &err), -ENOENT);
    assert_string_equal(err.text, "");
    assert_int_equal(runlog_get(log, "mode", buf, 3, &err), -E2BIG);
    assert_non_null(strstr(err.text, "run.db"));
    assert_int_equal(runlog_notice(log, "something fell back", &err), 0);
    assert_int_equal(runlog_device(log, 0, "/d0", "emu", "sync", 4096, &err), 0);
    assert_int_equal(runlog_eval(log, 3, "loss", 2.5, &err), 0);
    assert_int_equal(number(log, "SELECT count(*) FROM notices"), 1);
    runlog_close(log);
    assert_int_equal(runlog_open(&log, path, 1, 1, &err), 0);
    assert_int_equal(runlog_get(log, "mode", buf, sizeof buf, &err), 0);
    assert_string_equal(buf, "base");
    assert_int_equal(number(log, "SELECT bytes FROM devices"), 4096);
    assert_int_not_equal(runlog_set(log, "mode", "su", &err), 0);
    assert_non_null(strstr(err.text, "cannot be written"));
    runlog_close(log);
    strcat(path, "-wal");
    assert_int_equal(access(path, F_OK), -1); // a reader leaves nothing behind
    runlog_close(NULL);
}

static void test_step_rows_and_transactions(void **state)
{
    struct runlog     *log = create(0);
    struct runlog_step s = { .step = 7, .tokens = 8, .loss = 1.5, .lr = 0.1, .grad_norm = NAN };

    (void)state;
    assert_int_equal(runlog_begin(log, &err), 0);
    assert_int_equal(runlog_step(log, &s, &err), 0);
    runlog_rollback(log);
    runlog_rollback(log);
    assert_int_equal(number(log, "SELECT count(*) FROM steps"), 0);
    assert_int_equal(runlog_begin(log, &err), 0);
    assert_int_equal(runlog_step(log, &s, &err), 0);
    assert_int_equal(runlog_step(log, &s, &err), 0);
    assert_int_equal(runlog_step_done(log, 7, 0.25, 1234, &err), 0);
    assert_int_equal(runlog_commit(log, &err), 0);
    assert_int_equal(number(log, "SELECT count(*) FROM steps"), 1);
    assert_int_equal(number(log, "SELECT peak_rss FROM steps WHERE seconds = 0.25 AND loss = 1.5"),
                     1234);
    assert_int_equal(number(log, "SELECT grad_norm FROM steps"), INT64_MIN); // NaN is NULL
    runlog_close(log);
}

/* Three spans and two rows of traffic for a step. */
static void measure(struct runlog *log, uint64_t step)
{
    const struct runlog_span    spans[] = { { step, PHASE_FORWARD, 1, -1, 100, 150, 0, 50 },
                                            { step, PHASE_FORWARD, 2, -1, 150, 170, 0, 20 },
                                            { step, PHASE_UPDATE_READ, 1, 1, 110, 120, 64, 10 } };
    const struct runlog_traffic traffic[] = {
        { step, PHASE_PARAM_READ, "host", 0, "wire", "read", 10, 1 },
        { step, PHASE_PARAM_READ, "host", 1, "wire", "read", 20, 2 }
    };

    assert_int_equal(runlog_measure(log, step, spans, 3, traffic, 2, &err), 0);
}

static void test_folding(void **state)
{
    struct runlog *log = create(0);

    (void)state;
    assert_int_equal(runlog_begin(log, &err), 0);
    for (uint64_t s = 0; s < 1300; s++)
        measure(log, s);
    measure(log, 1299); // again: replaces
    assert_int_equal(runlog_commit(log, &err), 0);
    assert_int_equal(number(log, "SELECT count(DISTINCT step) FROM spans"), 1300);
    assert_int_equal(number(log, "SELECT count(*) FROM (SELECT step FROM spans GROUP BY step "
                                 "HAVING count(*) = 3)"),
                     201);
    assert_int_equal(number(log, "SELECT count(*) FROM (SELECT step FROM spans GROUP BY step "
                                 "HAVING count(*) = 2)"),
                     1099);
    assert_int_equal(number(log, "SELECT count(*) FROM spans WHERE step IN (99, 1000, 1200)"), 9);
    assert_int_equal(number(log, "SELECT count(*) FROM spans WHERE step IN (100, 999, 1199) AND "
                                 "start_ns = 0 AND (device IS -1) = (phase = 'forward')"),
                     6);
    assert_int_equal(number(log, "SELECT end_ns FROM spans WHERE step = 500 AND phase = 'forward'"),
                     70);
    assert_int_equal(number(log, "SELECT bytes FROM spans WHERE step = 500 AND phase = "
                                 "'update_read'"),
                     64);
    assert_int_equal(number(log, "SELECT bytes * 100 + padding_bytes FROM traffic WHERE step = "
                                 "500"),
                     3003);
    assert_int_equal(number(log, "SELECT count(*) FROM traffic WHERE step = 1250"), 2);
    assert_int_equal(number(log, "SELECT bytes FROM traffic_per_step WHERE step = 3"), 30);
    assert_int_equal(number(log, "SELECT count(*) FROM whole"), 100);
    runlog_close(log);
    assert_int_equal(runlog_open(&log, path, 0, 0, &err), 0);
    measure(log, 1500); // a gap: everything up to 1400 is folded
    assert_int_equal(number(log, "SELECT count(*) FROM whole"), 1);
    runlog_close(log);
}

static void test_lock(void **state)
{
    struct runlog *log = create(1), *second = NULL, *reader = NULL;
    char           pid[64], host[64] = "";
    pid_t          child;
    int            status = -1;

    (void)state;
    child = fork();
    if (!child) {
        struct runlog *other = NULL;

        gethostname(host, sizeof host - 1);
        snprintf(pid, sizeof pid, "process %ld on", (long)getppid());
        status = runlog_open(&other, path, 0, 1, &err);
        _exit(status == -EBUSY && strstr(err.text, pid) && strstr(err.text, host) &&
                      strstr(err.text, path)
                  ? 0
                  : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(runlog_open(&second, path, 0, 1, &err), -EBUSY);
    assert_null(second);
    assert_int_equal(runlog_open(&reader, path, 1, 1, &err), 0); // reading beside the writer is
                                                                 // fine
    assert_int_equal(runlog_set(log, "a", "b", &err), 0);
    assert_int_equal(number(reader, "SELECT count(*) FROM runs"), 1);
    runlog_close(reader);
    runlog_close(log);
    assert_int_equal(runlog_open(&second, path, 0, 1, &err), 0);
    runlog_close(second);
}

static void write_text(const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static void refuse(int rc, int misuse, const char *says)
{
    struct runlog *log = NULL;

    for (int read_only = 0; read_only < 2; read_only++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(runlog_open(&log, path, read_only, 1, &err), rc);
        assert_null(log);
        assert_int_equal(err.misuse, misuse);
        assert_non_null(strstr(err.text, path));
        assert_non_null(strstr(err.text, says));
    }
}

static void test_refusals(void **state)
{
    char           garbage[8192];
    struct runlog *log;
    sqlite3       *db = NULL;

    (void)state;
    refuse(-ENOENT, 0, "no such file");
    write_text("", 0);
    refuse(-EINVAL, 1, "not a SQLite database");
    memset(garbage, 'x', sizeof garbage);
    write_text(garbage, sizeof garbage);
    refuse(-EINVAL, 1, "not a SQLite database");
    assert_int_equal(runlog_create(&log, path, 1, &err), -EEXIST);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t (a)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refuse(-EINVAL, 1, "not of a siTrain run");
}

/* A run of a format that another siTrain reads is refused, by a reader and a writer. */
static void test_formats(void **state)
{
    static const struct { const char *set, *says; } formats[] = {
        { "PRAGMA user_version = 3", "of a siTrain before the first release" },
        { "PRAGMA user_version = 99", "of a newer siTrain" },
    };
    sqlite3 *db = NULL;

    (void)state;
    runlog_close(create(1));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, formats[i].set, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        refuse(-EINVAL, 1, formats[i].says);
    }
}

static void test_corruption(void **state)
{
    struct runlog *log = create(0);
    FILE          *f;
    char           junk[4096];
    int            rc = 0;

    (void)state;
    for (uint64_t s = 0; s < 99; s++)
        measure(log, s);
    runlog_close(log);
    f = fopen(path, "r+b");
    memset(junk, 0x5a, sizeof junk);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    for (long pages = ftell(f) / 4096, p = 1; p < pages; p++) {
        fseek(f, p * 4096, SEEK_SET);
        assert_int_equal(fwrite(junk, 1, sizeof junk, f), sizeof junk);
    }
    fclose(f);
    rc = runlog_open(&log, path, 0, 0, &err);
    if (!rc)
        rc = runlog_measure(log, 99, NULL, 0, NULL, 0, &err);
    assert_int_equal(rc, -EBADMSG);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "damaged"));
    runlog_close(rc && log ? log : NULL);
}

static void test_full_disk(void **state)
{
    struct runlog *log = create(0);
    int            rc = 0;

    (void)state;
    assert_int_equal(number(log, "PRAGMA max_page_count = 60"), 60); // SQLite's own way to be full
    assert_int_equal(runlog_begin(log, &err), 0);
    for (uint64_t s = 0; s < 100000 && !rc; s++)
        rc = runlog_notice(log, dir, &err);
    assert_int_equal(rc, -ENOSPC);
    assert_non_null(strstr(err.text, path));
    runlog_close(log);
}

/* A setting that was changed behind the program's back is no setting. */
static void test_damaged_setting(void **state)
{
    struct runlog *log = create(1);

    (void)state;
    assert_int_equal(runlog_set(log, "option.lr", "0.0003", &err), 0);
    assert_int_equal(sqlite3_exec(log->db.sql, "UPDATE runs SET value = '0.0005'", NULL, NULL,
                                  NULL),
                     SQLITE_OK);
    runlog_close(log);
    assert_int_equal(runlog_open(&log, path, 1, 1, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "option.lr"));
}

/* Rows of steps that are not there, or not what they were, although what was committed after them
 * is. */
static void test_lost_steps(void **state)
{
    static const char *const damages[] = { "DELETE FROM steps WHERE step = 3",
                                           "DELETE FROM steps WHERE step = 1",
                                           "UPDATE steps SET loss = 2 WHERE step = 0" };
    static const char *const words[] = { "ends after step 3", "step 2 should come",
                                         "row of step 1 is damaged" };
    struct runlog           *log = create(1);

    (void)state;
    for (uint64_t step = 0; step < 4; step++)
        assert_int_equal(runlog_step(log, &(struct runlog_step){ .step = step, .loss = 1.5 }, &err),
                         0);
    assert_int_equal(runlog_check_steps(log, 4, &err), 0);
    assert_int_equal(runlog_check_steps(log, 2, &err), 0); // mem: rows that the image is behind of
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        assert_int_equal(runlog_begin(log, &err), 0);
        assert_int_equal(sqlite3_exec(log->db.sql, damages[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(runlog_check_steps(log, 4, &err), -EBADMSG);
        assert_non_null(strstr(err.text, words[i]));
        runlog_rollback(log);
    }
    runlog_close(log);
}

static void test_read_only_folder(void **state)
{
    struct runlog *log = create(1);

    (void)state;
    runlog_set(log, "a", "b", &err);
    runlog_close(log);
    if (!geteuid())
        skip(); // root writes anywhere
    chmod(dir, 0555);
    assert_int_equal(runlog_open(&log, path, 1, 1, &err), 0);
    assert_int_equal(number(log, "SELECT count(*) FROM runs"), 1);
    runlog_close(log);
}

/* ---- another program has it locked ---- */

struct said { int sentences, calls, stop_after; char first[256]; };

static int say(void *ctx, const char *sentence)
{
    struct said *s = ctx;

    s->calls++;
    if (sentence && !s->sentences++)
        snprintf(s->first, sizeof s->first, "%s", sentence);
    return s->stop_after && s->calls >= s->stop_after;
}

/* It is waited for, said once, and in the end, or when it is asked for, refused; then the run's own
 * transactions are what they were. */
static void test_waiting(void **state)
{
    struct said        said = { 0 };
    struct db_wait_rule wait = { .notice_ms = 20, .limit_ms = 400, .say = say, .ctx = &said };
    struct runlog     *log = create(0);
    sqlite3           *other = NULL;

    (void)state;
    db_wait_set(&wait);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    for (int stopped = 0; stopped < 2; stopped++) {
        said = (struct said){ .stop_after = stopped ? 3 : 0 };
        err = (struct err){ 0 };
        assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(runlog_begin(log, &err), stopped ? -EINTR : -EBUSY);
        assert_int_equal(said.sentences, 1);
        assert_true(stopped ? said.calls == 3 : said.calls > 3);
        assert_non_null(strstr(said.first, "is locked by"));
        assert_non_null(strstr(err.text, path));
        assert_non_null(
            strstr(err.text, stopped ? "stopped" : "locked by another program, for 0.00"));
        assert_int_equal(err.stopped, stopped);
        assert_int_equal(runlog_begin(log, NULL), stopped ? -EINTR : -EBUSY); // at once: nobody
                                                                              // waits twice
        assert_int_equal(said.sentences, 1);
        assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        runlog_close(log);
        assert_int_equal(runlog_open(&log, path, 0, 0, &err), 0);
        assert_int_equal(runlog_begin(log, &err), 0);
        assert_int_equal(runlog_commit(log, &err), 0);
    }
    db_wait_set(&(struct db_wait_rule){ .notice_ms = 2000, .limit_ms = 600000 });
    sqlite3_close(other);
    runlog_close(log);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_settings),
        CASE(test_step_rows_and_transactions),
        CASE(test_folding),
        CASE(test_lock),
        CASE(test_refusals),
        CASE(test_formats),
        CASE(test_corruption),
        CASE(test_damaged_setting),
        CASE(test_lost_steps),
        CASE(test_full_disk),
        CASE(test_read_only_folder),
        CASE(test_waiting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
