/* test_output.c: which file is taken for which kind (output.h): what siTrain writes, also as older
 * versions wrote it, and nothing of anybody else's. Then names in a run's folder (run_files.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/text/tokens.h"
#include "data/text/tokens_writer.h"
#include "run/folder/output.h"
#include "run/folder/run_files.h"
#include "tests/tempdir.h"

#include <sys/stat.h>
#include <unistd.h>

enum { KINDS = OUTPUT_MACHINE + 1 };

/* The kinds that may replace this file, as bits. */
static unsigned kinds_of(const char *text, size_t n)
{
    unsigned   kinds = 0;
    struct err err;

    tempdir_put("file", text, n);
    for (unsigned k = 0; k < KINDS; k++)
        kinds |= (unsigned)!output_check(&(struct output){ tempdir_at("file"), k, NULL, 0 }, &err)
                 << k;
    return kinds;
}

#define HTML "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
#define VIEW "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"

static void ours(void **state)
{
    static const struct { unsigned kinds; const char *text; } files[] = {
        { 1u << OUTPUT_PAGE, HTML "<meta name=\"generator\" content=\"siTrain 0.1.0\">\n" VIEW },
        { 1u << OUTPUT_PAGE, HTML VIEW "<meta name=\"color-scheme\" content=\"light dark\">\n"
          "<title>x</title>\n<style>\n/* page.css: how a report looks: light and dark" },
        { 1u << OUTPUT_TIMELINE, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":"
          "\"siTrain 0.1.0\"},\"traceEvents\":[" },
        { 1u << OUTPUT_PLAN, "{\n  \"about\": \"siTrain plan\",\n  \"devices\": 1" },
        { 1u << OUTPUT_PLAN, "{\n  \"devices\": 1,\n  \"flops\": 0.0,\n  \"predictions\": [" },
        { 1u << OUTPUT_FIGURES, "{\n  \"about\": \"siTrain bench\",\n  \"version\": " },
        { 1u << OUTPUT_FIGURES, "{\n  \"version\": \"0.1.0\",\n  \"machine\": {\n    \"cpu\": \"x\""
          ",\n  },\n  \"model\": {\n    \"grad_accum\": 1" },
        { 1u << OUTPUT_MACHINE, "# A machine as siTrain bench --save measured it; siTrain plan" },
        { (1u << KINDS) - 1, "" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(kinds_of(files[i].text, strlen(files[i].text)), files[i].kinds);
}

static void tokens(void **state)
{
    int32_t              llmc[256 + 1] = { 20240520, 1, 2 };
    struct tokens_writer w;
    struct err           err;
    const struct output  out = { tempdir_at("file"), OUTPUT_TOKENS, NULL, 0 };

    (void)state;
    assert_int_equal(kinds_of((char *)llmc, sizeof llmc), 0); // somebody else's, of this format
    assert_int_equal(unlink(tempdir_at("file")), 0);
    assert_int_equal(tokens_writer_open(&w, tempdir_at("file"), 256, &err), 0);
    assert_int_equal(tokens_writer_add(&w, (int32_t[]){ 1, 2 }, 2, &err), 0);
    assert_int_equal(tokens_writer_commit(&w, &err), 0);
    append_close(&w.ids);
    assert_int_equal(output_check(&out, &err), 0);
}

static void predictions(void **state)
{
    static const char   text[] = "index\tprediction\n0\tyes\n";
    const struct output out = { tempdir_at("file"), OUTPUT_PREDICTIONS, NULL, 0 };
    struct err          err;

    (void)state;
    assert_int_equal(kinds_of(text, sizeof text - 1), 0); // run_glue.py's
    assert_int_equal(kinds_of("index\tprediction\tp_no\n", 22), 0);
    assert_int_equal(output_put(&out, text, sizeof text - 1, &err), -EINVAL);
    assert_int_equal(unlink(tempdir_at("file")), 0);
    assert_int_equal(output_put(&out, text, sizeof text - 1, &err), 0);
    if (output_check(&out, &err))
        skip(); // no attributes on this file system
    assert_int_equal(output_put(&out, "index\tname\n", 11, &err), 0);
    assert_int_equal(output_check(&out, &err), -EINVAL);
}

static void others(void **state)
{
    static const char *const files[] = {
        HTML VIEW "<title>mine</title>\n<style>\nbody { }", HTML "<meta name=\"generator\" content="
        "\"Hugo 0.1\">", "<!DOCTYPE html>", "<svg>\n<style>svg{background:#fff;",
        "{}\n", "{\n  \"version\": \"1.0\",\n  \"truncation\": null", "[1, 2]", "a,b\n1,2\n",
        "index\tsentence\n0\tthe sea\n", "name = mine\nflops = 1e12\n", "mine\n", " ", "\n",
        "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[]}", "{\n  \"machine\": \"mine\"\n}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(kinds_of(files[i], strlen(files[i])), 0);
}

static void run_names(void **state)
{
    static const char *const of_run[] = {
        "run.db", "run.db-wal", "run.db-shm", "run.db-journal", "run.db.new", "run.db.new-wal",
        "run.db-wal.damaged", "run.lock", "tokenizer", "data.bin", "eval.bin", "data.1.bin",
        "eval.12.bin", "train.ex", "dev.ex",
        "dev_mm.ex", "dev0", "dev17", "image0", "image1", "best",
        "best.new-12345678b2131df3", "best.old.new-12345678b2131df3", "tensorboard",
        "checkpoint-12", "checkpoint-12.new-12345678b2131df3",
        "checkpoint-12.gone-0123456789abcdef.new-12345678b2131df3",
        "trainer_state.json", "predict_results_sst2.txt", "x.0123456789abcdef.tmp",
    };
    static const char *const others_there[] = {
        "report.html", "image001.jpg", "dev2024-backup", "dev", "image", "devx", "bests",
        "predictions.txt", "mine.json", "tokens.bin", "data.bin2", "data.x.bin", "data.1.bin.gz",
        "xrun.db", "best-of-all",
    };

    (void)state;
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++)
        assert_non_null(run_file_find(of_run[i]));
    for (size_t i = 0; i < sizeof others_there / sizeof *others_there; i++)
        assert_null(run_file_find(others_there[i]));
}

/* Of a dead maker's folder: what it made goes; all of it stays where somebody's is among it. */
static void run_removed(void **state)
{
    struct err err = { 0 };
    static const struct { const char *name; int folder; } of_others[] = {
        { "notes", 0 }, { "dev0", 0 }, { "train.ex", 1 }, { "best", 1 }, { "mine.ex", 0 },
    };

    (void)state;
    for (size_t i = 0; i <= sizeof of_others / sizeof *of_others; i++) {
        char name[64] = "part/";

        assert_int_equal(mkdir(tempdir_at("part"), 0777), 0);
        tempdir_put("part/run.db.new", "x", 1);
        tempdir_put("part/data.bin", "x", 1);
        if (i == sizeof of_others / sizeof *of_others) {
            assert_int_equal(mkdir(tempdir_at("part/dev1"), 0777), 0);
            tempdir_put("part/dev1/states", "x", 1);
            assert_int_equal(run_files_remove(tempdir_at("part"), &err), 0);
            assert_int_equal(access(tempdir_at("part"), F_OK), -1);
            return;
        }
        strcat(name, of_others[i].name);
        if (of_others[i].folder)
            assert_int_equal(mkdir(tempdir_at(name), 0777), 0);
        else
            tempdir_put(name, "mine", 4);
        assert_int_equal(run_files_remove(tempdir_at("part"), &err), -EINVAL);
        assert_non_null(strstr(err.text, of_others[i].name));
        assert_int_equal(access(tempdir_at("part/run.db.new"), F_OK), 0);
        assert_int_equal(remove(tempdir_at(name)), 0);
        assert_int_equal(run_files_remove(tempdir_at("part"), &err), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(ours), IN_TEMPDIR(tokens), IN_TEMPDIR(predictions), IN_TEMPDIR(others),
        cmocka_unit_test(run_names), IN_TEMPDIR(run_removed),
    };

    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
