/* test_verify_db.c: any byte of run.db and any value in it: what is damaged is found, by whoever
 * reads or by the check. */
#include "tests/scene.h"

/* ---- run.db ---- */

static int sum_row(void *ctx, int n, const char **values, const char **names)
{
    (void)names;
    for (int i = 0; i < n; i++)
        *(uint32_t *)ctx = crc32c(*(uint32_t *)ctx, values[i] ? values[i] : "NULL",
                                  values[i] ? strlen(values[i]) + 1 : 5);
    return 0;
}

static uint32_t rows_sum(struct scene *s, const char *const *sql, size_t n)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        must(s, runlog_query(s->cfg.log, sql[i], sum_row, &sum, &s->err));
    return sum;
}

static void hear_database(void *ctx, const char *sentence)
{
    hear(ctx, 1, sentence);
}

/* What a resume reads of the database. */
static int journal_read(struct scene *s)
{
    struct image_state image;
    struct heard       h = {0};
    struct verify      v = {.say = hear, .ctx = &h};

    if (s->cfg.mode == RUN_MEM)
        return image_latest(&s->cfg, &image, &s->err);
    return verify_run(&v, &s->cfg, &s->err);
}

static const char *const mem_rows[] = {"SELECT key, value FROM runs ORDER BY key",
                                       "SELECT * FROM journal_image ORDER BY area, block"};
static const char *const csd_rows[] = {
    "SELECT key, value FROM runs ORDER BY key", "SELECT * FROM journal_subs ORDER BY sub",
    "SELECT * FROM journal_grads ORDER BY sub", "SELECT * FROM journal_residuals ORDER BY sub",
    "SELECT * FROM journal_state"};
static const char *const log_rows[] = {
    "SELECT step, tokens, loss, lr, grad_norm, clipped, skipped FROM steps ORDER BY step",
    "SELECT step, name, value FROM evals ORDER BY step, name"};

/* Any byte of the file, by seed: what opens has the settings and the journal that it had, and what
 * is found whole has its steps, too. */
static void any_byte_of_the_database(struct scene *s, unsigned flips)
{
    int                mem = s->cfg.mode == RUN_MEM, opened = 0, whole = 0;
    const char *const *rows = mem ? mem_rows : csd_rows;
    size_t             n = mem ? 2 : 5;
    char               path[96];
    uint32_t           want, want_log;
    struct stat        st;

    snprintf(path, sizeof path, "%s/run.db", s->work);
    copy(s->base, s->work);
    open_log(s, s->work);
    want = rows_sum(s, rows, n);
    want_log = rows_sum(s, log_rows, 2);
    close_log(s);
    assert_int_equal(stat(path, &st), 0);
    for (unsigned i = 0; i < flips; i++) {
        uint64_t            off = (uint64_t)(rng_uniform(6, 1, 2 * i) * (float)st.st_size);
        unsigned char mask = (unsigned char)(1u << (unsigned)(rng_uniform(6, 1, 2 * i + 1) * 8));
        struct runlog_check check;
        struct heard        h = {0};

        off = i < 100 ? i : off < (uint64_t)st.st_size ? off : 0; // the header whole
        flip(path, off, mask);
        s->cfg.log = NULL;
        if (!runlog_open(&s->cfg.log, path, 1, 0, &s->err) && !journal_read(s)) {
            opened++;
            if (rows_sum(s, rows, n) != want)
                fail_msg("seed 6, flip %u: byte %llu by %02x: other settings or another journal "
                         "passed",
                         i, (unsigned long long)off, mask);
            if (!runlog_check(s->cfg.log, 0, hear_database, &h, &check, &s->err) && !h.damages) {
                whole++;
                if (rows_sum(s, log_rows, 2) != want_log)
                    fail_msg("seed 6, flip %u: byte %llu by %02x: other steps passed", i,
                             (unsigned long long)off, mask);
            }
        }
        close_log(s);
        flip(path, off, mask);
    }
    print_message("%u bytes turned: %u found, %d in steps and evaluations found by check alone, %d "
                  "hold nothing\n",
                  flips, flips - (unsigned)opened, opened - whole, whole);
}

/* A value changed by SQL: its row is named. `check`: by runlog_check, not by a resume. */
static void change_row(struct scene *s, const char *sql, const char *named, int check)
{
    struct heard        h = {0};
    struct runlog_check c;
    sqlite3            *db;
    char                path[96];
    int                 rc;

    copy(s->base, s->work);
    snprintf(path, sizeof path, "%s/run.db", s->work);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_true(sqlite3_changes(db) > 0);
    sqlite3_close(db);
    rc = runlog_open(&s->cfg.log, path, 1, 0, &s->err);
    if (!rc)
        rc = journal_read(s);
    if (check)
        must(s, runlog_check(s->cfg.log, 0, hear_database, &h, &c, &s->err));
    if (check ? h.damages == 0 || !strstr(h.text, named)
              : rc != -EBADMSG || !strstr(s->err.text, named))
        fail_msg("%s: %s", sql, check ? h.text : s->err.text);
    close_log(s);
}

static void database(void **state)
{
    (void)state;
    static const struct {
        const char *table, *columns[8];
    } tables[] = {
        {"journal_subs", {"slot", "version", "states_crc", "wire_crc", "sum"}},
        {"journal_grads", {"crc", "pairs", "sum"}},
        {"journal_residuals", {"crc", "sum"}},
        {"journal_state", {"next_step", "applied", "optimizer", "lr", "eps", "first", "sum"}},
        {"steps", {"tokens", "loss", "lr", "grad_norm", "clipped", "skipped", "sum"}},
        {"evals", {"value", "sum"}},
    };
    const struct variant v = {RUN_SUO, 2, 0.05, 1, 1}, mem = {RUN_MEM, 1, 0, 0, 0};
    struct scene        *s = scene_new(&v);
    char                 sql[256];

    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (size_t c = 0; c < 8 && tables[t].columns[c]; c++)
            for (int high = 0; high < 2; high++) {
                snprintf(sql, sizeof sql,
                         "UPDATE %s SET %s = %s + %s WHERE rowid = (SELECT max(rowid) FROM %s)",
                         tables[t].table, tables[t].columns[c], tables[t].columns[c],
                         high ? "4294967296" : "1", tables[t].table);
                change_row(s, sql, tables[t].table, t >= 4);
            }
    change_row(s, "UPDATE journal_state SET grad_scale = grad_scale / 2", "journal_state", 0);
    change_row(s, "DELETE FROM journal_subs WHERE sub = 2", "row 2 is missing", 0);
    change_row(s, "UPDATE runs SET value = '0.02' WHERE key = 'option.lr'", "option.lr", 0);
    change_row(s, "UPDATE runs SET key = 'option.ln' WHERE key = 'option.lr'", "option.ln", 0);
    change_row(s, "DELETE FROM steps WHERE step = 1", "step 2 should come", 1);
    change_row(s, "UPDATE evals SET name = 'lost'", "lost", 1);
    any_byte_of_the_database(s, 700);
    scene_free(s);

    s = scene_new(&mem);
    change_row(s, "UPDATE journal_image SET crc = crc + 4294967296 WHERE area = 0 AND block = 1",
               "image0", 0);
    change_row(s, "UPDATE journal_image SET step = step - 1 WHERE area = 1", "image1", 0);
    any_byte_of_the_database(s, 500);
    scene_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(database),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
