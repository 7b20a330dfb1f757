/* fuzz_run.c: a small run whose run.db was changed by a stranger, as the commands open it: report,
 * the reading of its parameters, and where the journal says that a step is half done, the finishing
 * of that step. The device's file is what it was. */
#include "tests/fuzz/database.h"

#include "cmd/cmd.h"
#include "cmd/terminal/command.h"
#include "run/folder/session.h"
#include "run/sources/corpus.h"
#include "run/sources/task_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct database base, device;

static void start(void)
{
    char  text[3000];
    char *run = strdup(fuzz_path("r")), *data = strdup(fuzz_path("data.bin")),
         *log = strdup(fuzz_path("log"));
    char *argv[] = { "pretrain", "--n-layer", "1",    "--n-head",     "1",    "--n-embd",
                     "8",        "--vocab",   "300",  "--seq",        "8",    "--batch",
                     "2",        "--steps",   "2",    "--mode",       "su+o", "--compress",
                     "5%",       "--csd-mem", "256K", "--durability", "none", "--disk",
                     "sync",     "--threads", "1",    "--data",       data,   "--run",
                     run,        "--quiet",   NULL };
    FILE *shown = stderr;

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i % 2 ? 0 : i * 7 % 100);
    fuzz_put("data.bin", text, sizeof text);
    stderr = fopen(log, "w");
    FUZZ_CHECK(stderr);
    FUZZ_CHECK(!command_run(&pretrain_command, sizeof argv / sizeof *argv - 1, argv));
    fclose(stderr);
    stderr = fopen("/dev/null", "w");
    fuzz_take("r/run.db", &base.p, &base.n);
    fuzz_take("r/dev0/states", &device.p, &device.n);
    free(run);
    free(data);
    free(log);
    (void)shown;
}

static void report(const char *how)
{
    char *argv[] = { "report", (char *)(uintptr_t)fuzz_path("r"), (char *)(uintptr_t)how, NULL };

    FUZZ_CHECK(command_run(&report_command, how ? 3 : 2, argv) >= 0);
}

/* The page has pictures of what is found. */
static void report_page(void)
{
    char how[512];

    snprintf(how, sizeof how, "--html=%s", fuzz_path("page.html"));
    report(how);
}

/* The first parameter of each block, as export and generate read them. */
static int read_masters(struct session *s)
{
    struct run_reader   *r = NULL;
    struct params_source source;
    struct err           err = { 0 };
    float                value;
    int                  rc = run_reader(&r, &source, &s->run, &err);

    for (size_t b = 0; !rc && b < run_blocks(&s->run) && b < 8; b++)
        rc = source.read(source.ctx, b, 0, 1, &value, &err);
    run_reader_close(r);
    if (rc == -EBUSY) {
        fuzz_refused(rc, &err);
        rc = session_recover(s, &err);
    }
    return rc ? fuzz_refused(rc, &err) : 1;
}

static int open_rest(struct session *s)
{
    struct err       err = { 0 };
    struct hf_labels labels;
    struct task_labels  task;
    struct mixture   data;
    uint64_t         next, applied;
    int              rc = session_labels(&labels, s, &err);

    if (rc)
        fuzz_refused(rc, &err);
    else
        hf_labels_free(&labels);
    rc = task_labels_load(&task, s, &err);
    if (rc)
        fuzz_refused(rc, &err);
    task_labels_release(&task);
    rc = corpus_open(&data, s, "data", &err);
    if (rc)
        fuzz_refused(rc, &err);
    mixture_close(&data);
    rc = run_position(&s->run, &next, &applied, &err);
    return rc ? fuzz_refused(rc, &err) : read_masters(s);
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in in = { bytes, n };
    struct session s;
    struct err     err = { 0 };
    int            rc, accepted = 0;

    database_change("r/run.db", &base, &in);
    fuzz_put("r/dev0/states", device.p, device.n);
    report(NULL);
    switch ((n + (n ? bytes[n - 1] : 0)) % 3) { // a report in each form takes most of the time
    case 0:  report("--json"); break;
    case 1:  report("--csv"); break;
    default: report_page();
    }
    rc = session_open(&s, fuzz_path("r"), SESSION_WRITE, NULL, &err);
    if (rc)
        fuzz_refused(rc, &err);
    else
        accepted = open_rest(&s);
    session_close(&s);
    return accepted;
}

static void set(const char *key, const char *value)
{
    char sql[512];

    snprintf(sql, sizeof sql,
             "INSERT OR REPLACE INTO runs VALUES ('%s', '%s', sum_of_text('%s', '%s'))", key, value,
             key, value);
    database_seed_sql(sql);
}

static void seeds(void)
{
    static const char *const settings[][2] = { { "config.n_layer", "65536" },
                                               { "config.n_layer", "18446744073709551613" },
                                               { "config.n_embd", "1048576" },
                                               { "config.vocab", "2147483648" },
                                               { "config.n_labels", "3" },
                                               { "config.labels", "[\"a\", \"b\", 1]" },
                                               { "config.norm_eps", "nan" },
                                               { "config.drop_embd", "-1" },
                                               { "option.mode", "su+o+c" },
                                               { "option.mode", "mem" },
                                               { "option.devices", "64" },
                                               { "option.device", "/dev/null" },
                                               { "option.csd-mem", "1" },
                                               { "option.compress", "2%" },
                                               { "option.error-feedback", "1" },
                                               { "option.optimizer", "sgd" },
                                               { "option.csd", "null" },
                                               { "option.disk", "null" },
                                               { "option.warmup", "5%" },
                                               { "option.threads", "4096" },
                                               { "data.path", "/dev/zero" },
                                               { "data.path", "../../x" },
                                               { "data.sums", "zz" },
                                               { "task", "cola" },
                                               { "task", "custom" },
                                               { "id", "0123456789012345678901234567890123456789" },
                                               { "frames", "99999999999999" },
                                               { "train.sum", "x" } };

    fuzz_seed("", 0);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        set(settings[i][0], settings[i][1]);
    database_seed_bytes(4096, "\x05\x00\x00", 3);
    database_seed_sql("UPDATE traffic SET link = NULL, class = x'ff', direction = 3");
    database_seed_sql("UPDATE spans SET phase = x'fffe', device = 'x', start_ns = NULL");
    database_seed_sql("UPDATE steps SET loss = 'inf', seconds = 1e308, tokens = 9e18");
    database_seed_sql("INSERT INTO evals VALUES (1, 'loss\n', 9e999), (1, x'ff', 'nan')");
    database_seed_sql("UPDATE devices SET path = x'ff', bytes = -1");
    database_seed_sql("UPDATE journal_subs SET slot = 99, sum = sum_of(sub, 99, version, "
                      "states_crc, wire_crc)");
    database_seed_sql("UPDATE journal_subs SET version = 3, sum = sum_of(sub, slot, 3, states_crc, "
                      "wire_crc)");
    database_seed_sql("UPDATE journal_subs SET version = 1, sum = sum_of(sub, slot, 1, states_crc, "
                      "wire_crc) WHERE sub = 1");
    database_seed_sql("UPDATE journal_subs SET version = 1, slot = 5, sum = sum_of(sub, 5, 1, "
                      "states_crc, wire_crc);UPDATE journal_grads SET pairs = 2305843009213693952, "
                      "sum = sum_of(sub, crc, 2305843009213693952)");
    database_seed_sql("UPDATE journal_subs SET version = 1, sum = sum_of(sub, slot, 1, states_crc, "
                      "wire_crc);UPDATE journal_grads SET pairs = 1, crc = 7, sum = sum_of(sub, 7, "
                      "1); UPDATE journal_state SET next_step = 1, applied = 9223372036854775807, "
                      "sum = sum_of(id, 1, 9223372036854775807, optimizer, lr, beta1, beta2, eps, "
                      "one_minus_beta1, one_minus_beta2, step_size, bias2_sqrt, grad_scale, "
                      "first)");
    database_seed_sql("UPDATE journal_state SET lr = 0.0, eps = 0.0, sum = sum_of(id, next_step, "
                      "applied, optimizer, 0.0, beta1, beta2, 0.0, one_minus_beta1, "
                      "one_minus_beta2, step_size, bias2_sqrt, grad_scale, first)");
    database_seed_sql("INSERT INTO notices (time, text) VALUES (NULL, x'ff'), ('\x1B[2J', 'x')");
}

/* The layout of a model of any size that is allowed: up to STORE_MAX_SUBGROUPS rows of some 150
 * bytes. */
const struct fuzz_target fuzz_run = { "run", start, one, seeds, (size_t)768 << 20, 4096, 40 };
