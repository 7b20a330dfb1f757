/* runlog_dir.h: a run's database in a folder of its own, for the tests of runlog. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/db/runlog_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char       dir[64], path[128];
static struct err err;

static inline int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/var/tmp/test_runlog.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/run.db", dir);
    memset(&err, 0, sizeof err);
    return 0;
}

static inline int teardown(void **state)
{
    char command[192];

    (void)state;
    snprintf(command, sizeof command, "chmod -R u+w %s && rm -rf %s", dir, dir);
    return system(command);
}

static inline struct runlog *create(int durable)
{
    struct runlog *log = NULL;

    assert_int_equal(runlog_create(&log, path, durable, &err), 0);
    return log;
}

static inline int take_int(void *ctx, int n, const char **values, const char **names)
{
    (void)names;
    assert_true(n >= 1);
    *(int64_t *)ctx = values[0] ? strtoll(values[0], NULL, 10) : INT64_MIN;
    return 0;
}

static inline int64_t number(struct runlog *log, const char *sql)
{
    int64_t v = INT64_MIN + 1;

    assert_int_equal(runlog_query(log, sql, take_int, &v, &err), 0);
    return v;
}
