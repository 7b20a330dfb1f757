/* test_file.c: what may stand behind a name, and what makers of new files and folders leave and
 * remove. */
#include "data/file/file.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void refused(const char *name, const char *says)
{
    struct err err = { 0 };
    int        fd = -1;

    assert_int_equal(file_open_own(tempdir_at(name), O_CREAT, &fd, &err), -EINVAL);
    assert_int_equal(fd, -1);
    assert_true(err.misuse);
    if (!strstr(err.text, says))
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(file_check_own(tempdir_at(name), 1, &err), -EINVAL);
}

static void test_what_is_written_is_our_own(void **state)
{
    char       victim[512];
    struct err err = { 0 };
    uint64_t   size = 0;
    int        fd;

    (void)state;
    snprintf(victim, sizeof victim, "%s", tempdir_at("victim"));
    tempdir_put("victim", "abc", 3);
    assert_int_equal(symlink(victim, tempdir_at("link")), 0);
    assert_int_equal(symlink("nowhere", tempdir_at("dangling")), 0);
    assert_int_equal(mkfifo(tempdir_at("pipe"), 0600), 0);
    assert_int_equal(mkdir(tempdir_at("folder"), 0700), 0);
    refused("link", "is a symbolic link");
    refused("dangling", "is a symbolic link");
    refused("pipe", "is a pipe");
    refused("folder", "is a folder");
    assert_int_not_equal(access(tempdir_at("nowhere"), F_OK), 0);

    assert_int_equal(file_open_own(victim, 0, &fd, &err), 0);
    close(fd);
    assert_int_equal(link(victim, tempdir_at("second")), 0);
    refused("second", "hard links");
    assert_int_equal(file_check_own(victim, 0, &err), 0); // only read
    assert_int_equal(file_check_own(tempdir_at("none"), 1, &err), 0);

    assert_int_equal(file_open_read(tempdir_at("link"), &fd, &size, &err), 0); // a user's link
    assert_int_equal(size, 3);
    close(fd);
    assert_int_equal(file_open_read(tempdir_at("pipe"), &fd, &size, &err), -EINVAL);
    fd = file_open_device(tempdir_at("link"), O_RDWR);
    assert_true(fd >= 0);
    assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
    close(fd);
    assert_int_equal(file_open_device(tempdir_at("pipe"), O_RDWR), -ENODEV);
    assert_int_equal(file_open_device("/dev/null", O_RDWR), -ENODEV);
}

/* A process makes out and folder, each with something in it, and is killed. */
static void leave(void)
{
    pid_t child = fork();

    if (!child) {
        struct file_new file, folder;
        char            inside[600];

        if (file_new_open(&file, tempdir_at("out"), NULL) ||
            file_new_scratch(&folder, tempdir_at("folder/"), NULL))
            _exit(1);
        snprintf(inside, sizeof inside, "%s/file", folder.temp);
        close(open(inside, O_CREAT | O_WRONLY, 0600));
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_what_the_dead_left(void **state)
{
    struct file_new file, other, folder;
    struct stat     st;
    struct err      err = { 0 };
    char            strange[600];

    (void)state;
    leave();
    assert_int_equal(files_count(tempdir), 2);
    assert_int_equal(file_new_open(&other, tempdir_at("other"), &err), 0); // of other names: they
                                                                           // stay
    file_new_abort(&other);
    assert_int_equal(files_count(tempdir), 2);
    assert_int_equal(file_new_open(&file, tempdir_at("out"), &err), 0);
    assert_int_equal(files_count(tempdir), 2); // the folder, and this one
    assert_int_equal(file_new_scratch(&folder, tempdir_at("folder"), &err), 0);
    assert_int_equal(files_count(tempdir), 2);
    assert_int_equal(fstat(folder.fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    file_new_abort(&folder);
    leave();
    assert_int_equal(file_new_folder(&folder, tempdir_at("folder"), &err), 0);
    file_new_abort(&file);
    assert_int_equal(file_new_open(&file, tempdir_at("out"), &err), 0);
    assert_int_equal(files_count(tempdir), 2);

    // what a living process makes stays, and so does what only looks like ours
    assert_int_equal(file_new_open(&other, tempdir_at("out"), &err), 0);
    assert_int_equal(files_count(tempdir), 3);
    file_new_abort(&other);
    tempdir_put("out.0123456789abcdef.tmp", "mine", 4);
    assert_int_equal(mkdir(tempdir_at("folder.new-0123456789abcdef"), 0700), 0);
    assert_int_equal(mkdir(tempdir_at("folder.new-01234567"), 0700), 0);
    snprintf(strange, sizeof strange, "%s/folder.new-0123456789abcdef/file", tempdir);
    close(open(strange, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(file_new_open(&other, tempdir_at("out"), &err), 0);
    file_new_abort(&other);
    assert_int_equal(file_new_folder(&other, tempdir_at("folder"), &err), 0);
    file_new_abort(&other);
    assert_int_equal(files_count(tempdir), 5);

    assert_int_equal(file_new_commit(&file, &err), 0);
    assert_int_equal(file_new_commit(&folder, &err), 0);
    assert_int_equal(access(tempdir_at("out"), F_OK), 0);
    assert_int_equal(access(tempdir_at("folder"), F_OK), 0);
    assert_int_equal(files_count(tempdir), 5);
}

/* What came since file_new_open, or was changed, is not replaced. */
static void test_nothing_else_is_replaced(void **state)
{
    enum { CAME, REPLACED, CHANGED, REMOVED, STAYED, CASES };
    struct err err = { 0 };

    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct file_new f;
        char           *text = NULL;
        size_t          n;

        unlink(tempdir_at("out"));
        if (i != CAME)
            tempdir_put("out", "old", 3);
        assert_int_equal(file_new_open(&f, tempdir_at("out"), &err), 0);
        assert_int_equal(file_pwrite(f.fd, "new", 3, 0, "out", &err), 0);
        if (i == REPLACED || i == REMOVED)
            assert_int_equal(unlink(tempdir_at("out")), 0);
        if (i == CAME || i == REPLACED || i == CHANGED)
            tempdir_put("out", "mine", 4);
        assert_int_equal(file_new_commit(&f, &err), i < REMOVED ? -EEXIST : 0);
        assert_int_equal(file_read_whole(&text, &n, tempdir_at("out"), 9, &err), 0);
        assert_string_equal(text, i < REMOVED ? "mine" : "new");
        assert_int_equal(files_count(tempdir), 1);
        free(text);
    }
}

/* A file that nobody can look at any more is not called another program's; file_stat says why. */
static void test_what_nobody_can_look_at(void **state)
{
    struct err      err = { 0 };
    struct stat     st;
    struct file_new f;

    (void)state;
    assert_int_equal(mkdir(tempdir_at("at"), 0777), 0);
    assert_int_equal(file_stat(tempdir_at("at/out"), &st, &err), 0);
    tempdir_put("at/out", "old", 3);
    assert_int_equal(file_stat(tempdir_at("at/out"), &st, &err), 1);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(file_stat(tempdir_at("at/out/below"), &st, &err), 0);
    assert_int_equal(file_new_open(&f, tempdir_at("at/out"), &err), 0);
    assert_int_equal(chdir(tempdir), 0);
    assert_int_equal(rename("at", "away"), 0);
    assert_int_equal(symlink("at", "at"), 0);
    assert_int_equal(file_stat(tempdir_at("at/out"), &st, &err), -ELOOP);
    assert_non_null(strstr(err.text, "at/out cannot be read: "));
    assert_int_equal(file_new_commit(&f, &err), -ELOOP);
}

static void test_what_leads_through_proc(void **state)
{
    static const char empty[] = "";

    (void)state;
    assert_true(file_is_in_proc("/proc/self/fd/0"));
    assert_true(file_is_in_proc("//dev/stdin"));
    assert_false(file_is_in_proc("/dev/null"));
    assert_false(file_is_in_proc(tempdir_at("none/below")));
    assert_false(file_is_in_proc(empty));
}

/* What root makes in somebody's folder is that one's; nobody else gives anything away. */
static void test_whose_it_is(void **state)
{
    enum { SOMEBODY = 4711 };
    struct err      err = { 0 };
    struct file_new file, folder;
    struct stat     st;
    int             fd;

    (void)state;
    if (geteuid())
        skip();
    assert_int_equal(mkdir(tempdir_at("home"), 0755), 0);
    assert_int_equal(chown(tempdir_at("home"), SOMEBODY, SOMEBODY + 1), 0);
    assert_int_equal(file_open_own(tempdir_at("home/own"), O_CREAT, &fd, &err), 0);
    close(fd);
    assert_int_equal(file_write_whole(tempdir_at("home/whole"), "x", 1, &err), 0);
    assert_int_equal(file_make_folder(tempdir_at("home/made")), 0);
    assert_int_equal(file_new_folder(&folder, tempdir_at("home/folder"), &err), 0);
    assert_int_equal(file_new_commit(&folder, &err), 0);
    static const char *const names[] = { "home/own", "home/whole", "home/made", "home/folder" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(stat(tempdir_at(names[i]), &st), 0);
        assert_int_equal(st.st_uid, SOMEBODY);
        assert_int_equal(st.st_gid, SOMEBODY + 1);
    }
    assert_int_equal(file_new_open(&file, tempdir_at("mine"), &err), 0);
    assert_int_equal(fstat(file.fd, &st), 0);
    assert_int_equal(st.st_uid, 0);
    file_new_abort(&file);

    // what root's process left is removed by the next one, whether of root or of the owner
    assert_int_equal(file_new_open(&file, tempdir_at("home/left"), &err), 0);
    flock(file.fd, LOCK_UN);
    file_new_clear_left(tempdir_at("home/left"), 0);
    assert_int_equal(access(file.temp, F_OK), -1);
    file_new_abort(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_what_is_written_is_our_own),
        IN_TEMPDIR(test_what_the_dead_left),
        IN_TEMPDIR(test_nothing_else_is_replaced),
        IN_TEMPDIR(test_what_nobody_can_look_at),
        IN_TEMPDIR(test_what_leads_through_proc),
        IN_TEMPDIR(test_whose_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
