/* test_data.c: what real data is needed for, which is not part of the project: the official GLUE
 * files and a real tokenizer. Their folder is SITRAIN_DATA (`make check-data DATA=FOLDER`); what is
 * not there is skipped. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/json/json.h"
#include "data/task/task.h"
#include "data/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct err e;

/* Whether SITRAIN_DATA has this file; an empty SITRAIN_DATA is as good as none. */
static int found(char *path, size_t size, const char *name)
{
    const char *data = getenv("SITRAIN_DATA");

    if (!data || !*data)
        return 0;
    snprintf(path, size, "%s/%s", data, name);
    return access(path, R_OK) == 0;
}

struct counts { const struct task *t; size_t rows; };

static int count(void *ctx, const struct task_row *row, struct err *err)
{
    struct counts *c = ctx;
    int32_t        class;
    float          value;
    int            rc = row->label ? task_label(c->t, row, &class, &value, err) : 0;

    c->rows++;
    return rc;
}

/* The official files, as many rows as their authors say. */
static void test_real(void **state)
{
    static const struct { const char *folder, *file; size_t rows; } cases[] = {
        { "CoLA", "train.tsv", 8551 }, { "CoLA", "dev.tsv", 1043 }, { "CoLA", "test.tsv", 1063 },
        { "SST-2", "train.tsv", 67349 }, { "SST-2", "dev.tsv", 872 }, { "SST-2", "test.tsv", 1821 },
        { "MRPC", "train.tsv", 3668 }, { "MRPC", "dev.tsv", 408 }, { "MRPC", "test.tsv", 1725 },
        { "STS-B", "train.tsv", 5749 }, { "STS-B", "dev.tsv", 1500 },
        { "QQP", "train.tsv", 363846 }, { "QQP", "dev.tsv", 40430 },
        { "MNLI", "train.tsv", 392702 }, { "MNLI", "dev_matched.tsv", 9815 },
        { "MNLI", "dev_mismatched.tsv", 9832 },
        { "QNLI", "train.tsv", 104743 }, { "QNLI", "dev.tsv", 5463 },
        { "RTE", "train.tsv", 2490 }, { "RTE", "dev.tsv", 277 },
        { "WNLI", "train.tsv", 635 }, { "WNLI", "dev.tsv", 71 }, { "WNLI", "test.tsv", 146 },
    };
    size_t read = 0;
    char   path[512], name[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct counts              c = { .t = task_find(cases[i].folder) };
        const struct task_columns *columns =
            strncmp(cases[i].file, "test", 4) == 0 ? &c.t->test : &c.t->train;

        snprintf(name, sizeof name, "glue/%s/%s", cases[i].folder, cases[i].file);
        if (!found(path, sizeof path, name))
            continue;
        if (task_read_glue(path, columns, 0, count, &c, &e))
            fail_msg("%s", e.text);
        assert_int_equal(c.rows, cases[i].rows);
        read++;
    }
    if (read == 0) {
        print_message("SITRAIN_DATA names no folder that holds glue/TASK\n");
        skip();
    }
    print_message("%zu of %zu official files stand there and were counted\n", read,
                  sizeof cases / sizeof *cases);
}

/* Hugging Face's ids of odd strings, as recorded beside a model. */
static void test_reference(void **state)
{
    const char       *text;
    struct token_buf  ids = { 0 };
    struct tokenizer *t;
    json_t           *root, *want;
    char              path[512];

    (void)state;
    if (!found(path, sizeof path, "gpt2-30m/reference.json")) {
        print_message("SITRAIN_DATA names no folder that holds gpt2-30m/reference.json\n");
        skip();
    }
    assert_int_equal(json_read(&root, path, 1 << 20, &e), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(tokenizer_open(&t, path, &e), 0);
    assert_int_equal(tokenizer_vocab(t), 50257);
    assert_int_equal(tokenizer_endoftext(t), 50256);
    assert_true(json_object_size(json_object_get(root, "tokenizer")) > 5);
    json_object_foreach(json_object_get(root, "tokenizer"), text, want) {
        ids.n = 0;
        assert_int_equal(tokenizer_encode(t, text, strlen(text), &ids, &e), 0);
        assert_int_equal(ids.n, json_array_size(want));
        for (size_t i = 0; i < ids.n; i++)
            assert_int_equal(ids.ids[i], json_integer_value(json_array_get(want, i)));
    }
    json_decref(root);
    token_buf_free(&ids);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_real),
                                        cmocka_unit_test(test_reference) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
