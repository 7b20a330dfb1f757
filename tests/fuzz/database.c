/* database.c: changes to a run's database. SQL runs with the journal off, so that the file is all
 * there is, and in bounded steps. */
#include "tests/fuzz/database.h"

#include "data/base/crc32c.h"
#include "data/db/real_bits.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum change { BYTES, SIZE, SQL, CHANGES };

static void sum_of(sqlite3_context *c, int n, sqlite3_value **v)
{
    uint32_t crc = 0;

    for (int i = 0; i < n; i++) {
        uint64_t bits = sqlite3_value_type(v[i]) == SQLITE_FLOAT
                            ? real_bits(sqlite3_value_double(v[i]))
                            : (uint64_t)sqlite3_value_int64(v[i]);

        crc = crc32c(crc, &bits, sizeof bits);
    }
    sqlite3_result_int64(c, crc);
}

static void sum_of_text(sqlite3_context *c, int n, sqlite3_value **v)
{
    const char *key = (const char *)sqlite3_value_text(v[0]),
               *value = (const char *)sqlite3_value_text(v[1]);

    (void)n;
    if (key && value)
        sqlite3_result_int64(c, crc32c(crc32c(0, key, strlen(key) + 1), value, strlen(value)));
}

/* Nothing outside the file. */
static int authorise(void *ctx, int action, const char *a, const char *b, const char *c,
                     const char *d)
{
    (void)ctx, (void)b, (void)c, (void)d;
    if (action == SQLITE_ATTACH || (action == SQLITE_PRAGMA && strcmp(a, "writable_schema")))
        return SQLITE_DENY;
    return SQLITE_OK;
}

static int stop(void *ctx)
{
    (void)ctx;
    return 1;
}

static void run_sql(const char *name, const struct fuzz_in *text)
{
    sqlite3 *db = NULL;
    char     sql[4096];

    snprintf(sql, sizeof sql, "%.*s", (int)text->n, (const char *)text->p);
    if (!sqlite3_open(fuzz_path(name), &db) &&
        !sqlite3_exec(db, "PRAGMA locking_mode=EXCLUSIVE", NULL, NULL, NULL)) {
        sqlite3_create_function(db, "sum_of", -1, SQLITE_UTF8, NULL, sum_of, NULL, NULL);
        sqlite3_create_function(db, "sum_of_text", 2, SQLITE_UTF8, NULL, sum_of_text, NULL, NULL);
        sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);
        sqlite3_set_authorizer(db, authorise, NULL);
        sqlite3_progress_handler(db, 20000, stop, NULL);
        sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    sqlite3_close(db);
}

static void change(const char *name, size_t size, struct fuzz_in *in)
{
    switch ((enum change)(fuzz_number(in, 1) % CHANGES)) {
    case BYTES: {
        size_t at = (size_t)fuzz_number(in, 3) % (size + 1), n = (size_t)fuzz_number(in, 1);
        int    fd = open(fuzz_path(name), O_WRONLY | O_CLOEXEC);

        n = n < in->n ? n : in->n;
        FUZZ_CHECK(fd >= 0 && pwrite(fd, in->p, n, (off_t)at) == (ssize_t)n);
        close(fd);
        in->p += n;
        in->n -= n;
        break;
    }
    case SIZE:
        FUZZ_CHECK(!truncate(fuzz_path(name), (off_t)(fuzz_number(in, 3) % (2 * size + 1))));
        break;
    default: {
        struct fuzz_in text = fuzz_part(in);

        run_sql(name, &text);
    }
    }
}

void database_change(const char *name, const struct database *of, struct fuzz_in *in)
{
    static const char *const tails[] = { "-wal", "-shm", "-journal" };
    const char              *slash = strrchr(name, '/');
    char                     beside[128];

    for (size_t i = 0; i < 3; i++) {
        snprintf(beside, sizeof beside, "%s%s", name, tails[i]);
        fuzz_remove(beside);
    }
    snprintf(beside, sizeof beside, "%.*srun.lock", slash ? (int)(slash - name) + 1 : 0, name);
    fuzz_remove(beside); // it knows of commits that are not in this file
    fuzz_put(name, of->p, of->n);
    for (int i = 0; in->n && i < 8; i++)
        change(name, of->n, in);
    for (size_t i = 0; i < 3; i++) {
        snprintf(beside, sizeof beside, "%s%s", name, tails[i]);
        fuzz_remove(beside);
    }
}

void database_seed_sql(const char *sql)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, SQL, 1);
    fuzz_add(&out, sql, strlen(sql));
    fuzz_seed_out(&out);
}

void database_seed_bytes(size_t at, const void *bytes, size_t n)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, BYTES, 1);
    fuzz_add_number(&out, at, 3);
    fuzz_add_number(&out, n, 1);
    fuzz_add(&out, bytes, n);
    fuzz_seed_out(&out);
}

void database_seed_size(size_t n)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, SIZE, 1);
    fuzz_add_number(&out, n, 3);
    fuzz_seed_out(&out);
}
