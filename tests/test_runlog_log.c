/* test_runlog_log.c: what a killed process left of a run's database: a log that is whole, damaged
 * or gone, and what can be gone back to. */
#include "tests/runlog_dir.h"

/* ---- what a killed process left ---- */

enum { LEFT = 4 };
struct left { char *bytes; size_t n; };

static void left_name(char name[sizeof path + 16], int i)
{
    static const char *const tails[] = { "", "-wal", "-shm" };

    if (i < 3)
        snprintf(name, sizeof path + 16, "%s%s", path, tails[i]);
    else
        snprintf(name, sizeof path + 16, "%s/run.lock", dir);
}

static void left_take(struct left *l)
{
    for (int i = 0; i < LEFT; i++) {
        char        name[sizeof path + 16];
        struct stat st;
        int         fd;

        left_name(name, i);
        fd = open(name, O_RDONLY);
        assert_int_equal(fstat(fd, &st), 0);
        l[i].n = (size_t)st.st_size;
        l[i].bytes = malloc(l[i].n);
        assert_int_equal(read(fd, l[i].bytes, l[i].n), l[i].n);
        close(fd);
    }
}

static void left_put(const struct left *l)
{
    for (int i = 0; i < LEFT; i++) {
        char name[sizeof path + 16];
        int  fd;

        left_name(name, i);
        unlink(name);
        fd = open(name, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(fd, l[i].bytes, l[i].n), l[i].n);
        close(fd);
    }
}

static void shm_time(time_t at)
{
    const struct timespec times[2] = { { .tv_sec = at }, { .tv_sec = at } };
    char                  name[sizeof path + 8];

    snprintf(name, sizeof name, "%s-shm", path);
    assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
}

static void other_start(void)
{
    char  name[sizeof path + 16];
    FILE *f;

    snprintf(name, sizeof name, "%s/run.lock", dir);
    f = fopen(name, "w");
    assert_non_null(f);
    fputs("process 1 on another\nboot 00000000-0000-0000-0000-000000000000\n", f);
    fclose(f);
}

/* A byte that turned in the log would take all later commits with it: it is named, and nothing is
 * touched. Turned back, all is there. */
static void test_damaged_log(void **state)
{
    enum { COMMITS = 20 };
    struct left    l[LEFT], again[LEFT];
    struct runlog *log;
    size_t         frames, turned = 0;
    pid_t          child = fork();
    int            status;

    (void)state;
    if (child == 0) {
        log = create(1);
        for (uint64_t i = 0; i < COMMITS; i++)
            runlog_eval(log, i, "loss", 1, &err);
        _exit(0); // as if killed: nothing is closed
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    left_take(l);
    frames = (l[1].n - 32) / (24 + 4096);
    for (size_t off = 0; off < l[1].n; off += off < 80 ? 1 : 709) {
        l[1].bytes[off] = (char)(l[1].bytes[off] ^ 0x10);
        turned++;
        left_put(l);
        assert_int_equal(runlog_open(&log, path, off % 2, 1, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "-wal: the "));
        left_take(again);
        for (int i = 0; i < LEFT; i++) {
            if (i < 3) // run.lock says who holds it
                assert_memory_equal(again[i].bytes, l[i].bytes, l[i].n);
            free(again[i].bytes);
        }
        l[1].bytes[off] = (char)(l[1].bytes[off] ^ 0x10);
    }
    print_message("%zu bytes turned in a log of %zu\n", turned, l[1].n);
    assert_true(frames > COMMITS);
    left_put(l);
    strcat(path, "-wal");
    unlink(path);
    path[strlen(path) - 4] = '\0';
    assert_int_equal(runlog_open(&log, path, 0, 1, &err), -EBADMSG);
    left_put(l);
    assert_int_equal(runlog_open(&log, path, 1, 1, &err), 0);
    assert_int_equal(number(log, "SELECT count(*) FROM evals"), COMMITS);
    runlog_close(log);

    // whatever the clock: the start of the machine tells whether the index is to be believed
    l[1].bytes[l[1].n - 1] ^= 1;
    left_put(l);
    shm_time(0);
    assert_int_equal(runlog_open(&log, path, 1, 1, &err), -EBADMSG);
    assert_int_equal(runlog_open(&log, path, 0, 1, &err), -EBADMSG);
    assert_int_equal(runlog_open(&log, path, 0, 1, &err), -EBADMSG); // who was refused takes
                                                                     // nothing away
    other_start(); // a power cut, which may tear a log
    shm_time(4102444800);
    assert_int_equal(runlog_open(&log, path, 0, 1, &err), 0);
    assert_int_equal(number(log, "SELECT count(*) FROM evals"), COMMITS - 1);
    runlog_close(log);
    for (int i = 0; i < LEFT; i++)
        free(l[i].bytes);
}

/* COMMITS rows, each of its own; of the log's frames none, those of the first `taken` commits, or
 * all are taken into run.db, as a checkpoint does beside somebody who reads at that commit. Then
 * the process is killed. */
static void leave_log(int commits, int taken, struct left *l)
{
    pid_t child;
    int   status;

    for (int i = 0; i < LEFT; i++) {
        char name[sizeof path + 16];

        left_name(name, i);
        unlink(name);
    }
    child = fork();
    if (child == 0) {
        struct runlog *log = create(1);
        sqlite3       *reader = NULL;

        for (int i = 0; i < commits; i++) {
            runlog_eval(log, (uint64_t)i, "loss", 1, &err);
            if (i + 1 == taken &&
                (sqlite3_open(path, &reader) ||
                 sqlite3_exec(reader, "BEGIN; SELECT * FROM evals", NULL, NULL, NULL)))
                _exit(1);
        }
        if (taken)
            runlog_checkpoint(log);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    left_take(l);
}

/* Whatever byte of the log turned: what is shown is what some commit left, or nothing; cutting
 * makes that the run. */
static void test_past_of_damaged_log(void **state)
{
    enum { COMMITS = 20 };
    static const int takens[] = { 0, 10, COMMITS };

    (void)state;
    for (size_t t = 0; t < sizeof takens / sizeof *takens; t++) {
        struct left l[LEFT];
        int64_t     least = COMMITS, most = 0;

        leave_log(COMMITS, takens[t], l);
        for (size_t off = 0; off < l[1].n; off += off < 32 ? 7 : 2111) {
            struct runlog *log = NULL;
            int64_t        rows;
            int            past = 0;

            l[1].bytes[off] = (char)(l[1].bytes[off] ^ 0x10);
            left_put(l);
            l[1].bytes[off] = (char)(l[1].bytes[off] ^ 0x10);
            rows = runlog_open_past(&log, path, &past, &err);
            if (rows == -EBADMSG) { // before the run's tables, or before what run.db has some pages
                                    // of
                assert_non_null(strstr(err.text, takens[t] ? "log is damaged" : "no run yet")
                                    ? err.text
                                    : strstr(err.text, "head of the database's log"));
                assert_true(takens[t] != COMMITS && off < l[1].n * 7 / 8);
                continue;
            }
            assert_int_equal(rows, 0);
            assert_true(past || takens[t] == COMMITS); // what run.db has is not missed in its log
            rows = number(log, "SELECT count(*) FROM evals");
            assert_int_equal(number(log, "SELECT count(*) FROM pragma_integrity_check WHERE "
                                         "integrity_check = 'ok'"),
                             1);
            assert_int_equal(number(log, "SELECT coalesce(max(step), -1) + 1 FROM evals"), rows);
            assert_true(rows >= takens[t] && rows <= COMMITS);
            runlog_close(log);
            assert_int_equal(runlog_open(&log, path, 1, 1, &err), past ? -EBADMSG : 0);
            if (!past) {
                assert_int_equal(number(log, "SELECT count(*) FROM evals"), COMMITS);
                runlog_close(log);
            }
            assert_int_equal(runlog_cut(path, &err), 0);
            assert_int_equal(runlog_open(&log, path, 0, 1, &err), 0);
            assert_int_equal(number(log, "SELECT count(*) FROM evals"), rows);
            runlog_close(log);
            least = rows < least ? rows : least;
            most = rows > most ? rows : most;
        }
        assert_true(takens[t] == COMMITS ? least == COMMITS : least < COMMITS && most > least);
        for (int i = 0; i < LEFT; i++)
            free(l[i].bytes);
    }
}

/* A kill after the log was cut, but before run.lock said so: what the log was is not kept over by
 * what is left of it. */
static void test_cut_that_was_killed(void **state)
{
    enum { COMMITS = 20 };
    char        name[sizeof path + 16];
    struct left l[LEFT];
    struct stat st;
    FILE       *f;

    (void)state;
    leave_log(COMMITS, 0, l);
    l[1].bytes[l[1].n / 2] ^= 0x10;
    left_put(l);
    assert_int_equal(runlog_cut(path, &err), 0);
    for (int i = 2; i < LEFT; i++) {
        left_name(name, i);
        f = fopen(name, "w");
        assert_int_equal(fwrite(l[i].bytes, 1, l[i].n, f), l[i].n);
        fclose(f);
    }
    assert_int_equal(runlog_cut(path, &err), 0);
    snprintf(name, sizeof name, "%s-wal.damaged", path);
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_size, l[1].n);
    unlink(name);
    for (int i = 0; i < LEFT; i++)
        free(l[i].bytes);
}

static void file_put(const char *name, const struct left *l)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, l->bytes, l->n), l->n);
    close(fd);
}

/* A database that was put back next to a newer log. The machine has started since, so run.lock
 * says nothing: the log itself says what run.db has to have. older: one of before that. */
static void test_database_of_before(void **state)
{
    enum { COMMITS = 20 };
    struct left    was[LEFT], l[LEFT];
    struct runlog *log;
    char           none[sizeof path + 8];
    int            status;

    (void)state;
    for (int older = 0; older < 2; older++) {
        leave_log(COMMITS, 0, was);
        assert_int_equal(runlog_open(&log, path, 0, 1, &err), 0);
        runlog_eval(log, COMMITS, "loss", 1, &err);
        runlog_close(log); // takes the log in
        free(was[0].bytes);
        int   fd = open(path, O_RDONLY);
        off_t size = lseek(fd, 0, SEEK_END);
        was[0] = (struct left){ malloc((size_t)size), (size_t)size };
        assert_int_equal(pread(fd, was[0].bytes, was[0].n, 0), size);
        close(fd);
        pid_t child = fork();
        if (child == 0) {
            assert_int_equal(runlog_open(&log, path, 0, 1, &err), 0);
            for (uint64_t i = 1; i <= COMMITS; i++) {
                runlog_eval(log, COMMITS + i, "loss", 1, &err);
                if (i == COMMITS / 2) // the log begins anew
                    runlog_checkpoint(log);
            }
            if (older)
                db_exec(&log->db, "test", &err, "UPDATE commits SET taken = NULL");
            _exit(0); // as if killed
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        left_take(l);
        snprintf(none, sizeof none, "%s-shm", path);
        for (int back = 0; back < 2; back++) { // its own database; that of before
            unlink(none);
            other_start();
            file_put(path, back ? &was[0] : &l[0]);
            if (back && !older) {
                for (int writes = 0; writes < 2; writes++) {
                    assert_int_equal(runlog_open(&log, path, !writes, 1, &err), -EBADMSG);
                    assert_non_null(strstr(err.text, "begins after later ones: they are of "
                                                     "different times"));
                }
                continue;
            }
            assert_int_equal(runlog_open(&log, path, 1, 1, &err), 0);
            if (!back)
                assert_int_equal(number(log, "SELECT count(*) FROM evals"), 2 * COMMITS + 1);
            runlog_close(log);
        }
        for (int i = 0; i < LEFT; i++) {
            free(l[i].bytes);
            free(was[i].bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_damaged_log, setup, teardown),
        cmocka_unit_test_setup_teardown(test_past_of_damaged_log, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_that_was_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_database_of_before, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
