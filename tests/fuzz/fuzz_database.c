/* fuzz_database.c: run.db as data/runlog*.c, offload/devices/journal.c and offload/devices/image.c
 * read it. */
#include "tests/fuzz/database.h"

#include "data/db/runlog.h"
#include "offload/devices/image.h"
#include "offload/devices/journal.h"
#include "report/report.h"
#include "tests/routes.h"

#include <sqlite3.h>
#include <string.h>

enum { SUBS = 3, BLOCKS = 2 };

static struct database base;
static const size_t    block_params[BLOCKS] = { 10, 20 };

static struct run_config config(struct runlog *log)
{
    return (struct run_config){ .dir = fuzz_dir(),
                                .log = log,
                                .id = "0123",
                                .mode = RUN_MEM,
                                .route = route_gpt2(BLOCKS - 2),
                                .block_params = block_params,
                                .optim = OPTIM_ADAMW };
}

static int ones(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)ctx, (void)block, (void)first, (void)err;
    for (size_t i = 0; i < n; i++)
        out[i] = 1;
    return 0;
}

static int measure(struct runlog *log, uint64_t step, struct err *err)
{
    struct runlog_step    row = { .step = step,
                                  .tokens = 64,
                                  .loss = 3.5,
                                  .lr = 1e-3,
                                  .grad_norm = 1,
                                  .seconds = 0.5,
                                  .peak_rss = 1 << 20 };
    struct runlog_span    span = { .step = step,
                                   .phase = PHASE_FORWARD,
                                   .block = 1,
                                   .device = -1,
                                   .start_ns = 5,
                                   .end_ns = 9,
                                   .bytes = 1 };
    struct runlog_traffic traffic = { .step = step,
                                      .phase = PHASE_UPDATE,
                                      .link = "host",
                                      .device = 0,
                                      .cls = "states",
                                      .dir = "read",
                                      .bytes = 4096,
                                      .padding_bytes = 96 };
    int                   rc = runlog_step(log, &row, err);

    return rc ? rc : runlog_measure(log, step, &span, 1, &traffic, 1, err);
}

static void start(void)
{
    struct runlog           *log;
    struct err               err;
    struct journal_sub subs[SUBS] = { { 0, 1, 2, 0 }, { 1, 3, 4, 0 }, { 2, 5, 6, 0 } };
    struct params_source     init = { .read = ones };
    uint32_t           residuals[SUBS] = { 7, 8, 9 };
    struct run_config        cfg;

    FUZZ_CHECK(!runlog_create(&log, fuzz_path("run.db"), 0, &err));
    cfg = config(log);
    FUZZ_CHECK(!runlog_set(log, "id", "0123", &err) &&
               !runlog_set(log, "option.mode", "mem", &err));
    FUZZ_CHECK(!runlog_begin(log, &err) && 
               !journal_format(log, &(struct journal){ .subs = subs, .residuals = residuals },
                              SUBS, 0, &err));
    FUZZ_CHECK(!runlog_commit(log, &err) && !image_format(&cfg, &init, &err));
    FUZZ_CHECK(!measure(log, 0, &err) && !runlog_eval(log, 0, "loss", 3.25, &err) &&
               !runlog_notice(log, "a notice", &err));
    FUZZ_CHECK(!runlog_device(log, 0, "dev0/states", "emu", "uring", 4096, &err));
    runlog_close(log);
    fuzz_take("run.db", &base.p, &base.n);
}

static int row_seen(void *ctx, int n, const char **values, const char **names)
{
    (void)values;
    FUZZ_CHECK(n > 0 && names[0]);
    return ++*(int *)ctx > 1000;
}

static void tables_read(struct runlog *log)
{
    static const char *const queries[] = {
        "SELECT * FROM steps",      "SELECT * FROM phase_seconds", "SELECT * FROM breakdown",
        "SELECT * FROM phase_wall", "SELECT * FROM device_rate",   "SELECT * FROM traffic_per_step",
        "SELECT * FROM evals",      "SELECT * FROM devices"
    };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct err err = { 0 };
        int        rows = 0, rc = runlog_query(log, queries[i], row_seen, &rows, &err);

        if (rc < 0)
            fuzz_refused(rc, &err);
    }
}

/* What is made of its rows for other programs. */
static void reports_made(struct runlog *log)
{
    struct err err = { 0 };
    FILE      *out = fopen("/dev/null", "w");
    int        rc = report_metrics(out, log, "run", &err);

    fclose(out);
    if (rc < 0)
        fuzz_refused(rc, &err);
    rc = report_trace(&(struct output){ fuzz_path("trace.json"), OUTPUT_TIMELINE, NULL, 0 }, log,
                      NULL, &err);
    if (rc < 0)
        fuzz_refused(rc, &err);
}

/* 1 if the journal's rows are all there. */
static int journal_read(struct runlog *log, int write)
{
    struct journal j;
    struct err     err = { 0 };
    int            rc = journal_open(&j, log, SUBS, 0, &err), of_residuals;

    if (rc) {
        journal_close(&j);
        return fuzz_refused(rc, &err);
    }
    journal_close(&j);
    of_residuals = journal_open(&j, log, SUBS, 1, &err);
    if (of_residuals)
        fuzz_refused(of_residuals, &err);
    for (size_t i = 0; write && !rc && i < SUBS; i++)
        rc = journal_put_sub(log, i, &j.subs[i], &err);
    if (write && !rc)
        rc = journal_put_state(log, &j.state, &err);
    journal_close(&j);
    return rc ? fuzz_refused(rc, &err) : 1;
}

static void image_read(struct runlog *log)
{
    struct run_config  cfg = config(log);
    struct image_state s;
    struct err         err = { 0 };
    int                rc = image_latest(&cfg, &s, &err);

    if (rc)
        fuzz_refused(rc, &err);
    memset(&err, 0, sizeof err);
    rc = image_load(&cfg, &s, NULL, &err);
    if (rc)
        fuzz_refused(rc, &err);
}

static void settings_read(struct runlog *log)
{
    char       value[64];
    struct err err = { 0 };
    int        rc = runlog_get(log, "option.mode", value, sizeof value, &err);

    if (rc && rc != -2) // ENOENT has no sentence
        fuzz_refused(rc, &err);
}

/* What a resume does: a transaction more. */
static int go_on(void)
{
    struct runlog *log;
    struct err     err = { 0 };
    int            rc = runlog_open(&log, fuzz_path("run.db"), 0, 0, &err);

    if (rc)
        return fuzz_refused(rc, &err);
    rc = runlog_begin(log, &err);
    if (!rc)
        journal_read(log, 1);
    if (!rc)
        rc = measure(log, 1, &err);
    if (!rc)
        rc = runlog_commit(log, &err);
    runlog_close(log);
    return rc ? fuzz_refused(rc, &err) : 1;
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in in = { bytes, n };
    struct runlog *log;
    struct err     err = { 0 };
    int            rc;

    database_change("run.db", &base, &in);
    rc = runlog_open(&log, fuzz_path("run.db"), 1, 0, &err);
    if (rc)
        return fuzz_refused(rc, &err);
    settings_read(log);
    journal_read(log, 0);
    image_read(log);
    tables_read(log);
    reports_made(log);
    runlog_close(log);
    return go_on();
}

static void seeds(void)
{
    fuzz_seed("", 0);
    database_seed_bytes(24, "\x01\x02\x03", 3);
    database_seed_bytes(4096 * 3, "\x0D\x00\x00\x00\x01", 5);
    database_seed_size(40960);
    database_seed_sql("UPDATE runs SET value = 'x', crc = sum_of_text(key, 'x') WHERE key = "
                      "'option.mode'");
    database_seed_sql("UPDATE runs SET key = NULL, value = x'00ff'");
    database_seed_sql("UPDATE journal_subs SET slot = -1, sum = sum_of(sub, 4294967295, version, "
                      "states_crc, wire_crc)");
    database_seed_sql("UPDATE journal_state SET applied = 9, sum = sum_of_state(next_step, 9, "
                      "optim); DELETE FROM journal_grads WHERE sub = 1");
    database_seed_sql("UPDATE journal_image SET step = 'a', applied = 1.5, crc = NULL; INSERT INTO "
                      "journal_image VALUES (1, 0, 5, 5, 0, 0)");
    database_seed_sql("DROP TABLE runs; CREATE VIEW runs AS WITH RECURSIVE r(x) AS (SELECT 1 UNION "
                      "ALL SELECT x + 1 FROM r) SELECT x AS key, x AS value, x AS crc FROM r");
    database_seed_sql("CREATE TRIGGER t AFTER INSERT ON steps BEGIN INSERT INTO notices (text) "
                      "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x "
                      "FROM r; END");
    database_seed_sql("DROP VIEW breakdown; CREATE VIEW breakdown AS WITH RECURSIVE r(x) AS "
                      "(SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT max(x) AS step FROM r");
    database_seed_sql("DROP TABLE steps; CREATE TABLE steps (step INTEGER PRIMARY KEY, tokens AS "
                      "(zeroblob(900000000)), loss)");
    database_seed_sql("DROP TABLE journal_subs; CREATE TABLE journal_subs (sub INTEGER PRIMARY "
                      "KEY); INSERT INTO journal_subs VALUES (0), (1), (2)");
    database_seed_sql("INSERT INTO spans VALUES (0, 'loss', 1, -1, -9, 9223372036854775807, NULL), "
                      "('x', x'00', 'y', 1e300, 'z', 2, 3)");
}

const struct fuzz_target fuzz_database = { "database",       start, one, seeds,
                                           (size_t)16 << 20, 4096,  150 };
