/* test_tensorboard.c: a file that cannot grow (--tensorboard on a full disk): one notice, the
 * records before it stay, the training goes on. What the records say is tests/cli's. */
#include "run/folder/tensorboard.h"
#include "tests/tempdir.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { STEPS = 50, LIMIT = 4000 };

static int  notices;
static char said[1024];

static void hear(void *ctx, const char *sentence)
{
    (void)ctx;
    notices++;
    snprintf(said, sizeof said, "%s", sentence);
}

/* The records' lengths in the only file of the folder, until one is not whole; its size. */
static off_t whole_records(const char *dir, int *n)
{
    char           path[4096];
    struct stat    st;
    struct dirent *e;
    DIR           *d = opendir(dir);
    uint64_t       length;
    off_t          at = 0;

    assert_non_null(d);
    while ((e = readdir(d)) && *e->d_name == '.')
        ;
    assert_non_null(e);
    assert_true(snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path);
    closedir(d);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(stat(path, &st), 0);
    for (*n = 0; fseek(f, at, SEEK_SET) == 0 && fread(&length, sizeof length, 1, f) == 1; ++*n)
        at += (off_t)(8 + 4 + length + 4);
    fclose(f);
    assert_int_equal(at, st.st_size);
    return at;
}

static void test_a_full_disk(void **state)
{
    static const struct events e = { .notice = hear };
    struct step_result         r = { .loss = 1, .tokens = 64 };
    struct tensorboard        *t;
    struct err                 err = { 0 };
    struct rlimit              all, few;
    char                       dir[4096];
    int                        n;

    (void)state;
    snprintf(dir, sizeof dir, "%s/a/b", tempdir);
    assert_int_equal(tensorboard_open(&t, dir, "unused", 0, &e, &err), 0);
    signal(SIGXFSZ, SIG_IGN); // as main.c
    getrlimit(RLIMIT_FSIZE, &all);
    few = (struct rlimit){ LIMIT, all.rlim_max };
    setrlimit(RLIMIT_FSIZE, &few);
    for (uint64_t step = 0; step < STEPS; step++)
        tensorboard_step(t, &(struct training_step){ step, &r, 0.5, 1 << 20 }, 0.1, 1000);
    setrlimit(RLIMIT_FSIZE, &all);
    tensorboard_step(t, &(struct training_step){ STEPS, &r, 0.5, 1 << 20 }, 0.1, 1000);
    tensorboard_close(t);
    assert_int_equal(notices, 1);
    assert_non_null(strstr(said, "training goes on"));
    assert_true(whole_records(dir, &n) <= LIMIT);
    assert_in_range(n, 8, STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = { IN_TEMPDIR(test_a_full_disk) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
