/* test_task.c: the nine GLUE tasks in their official layouts, one's own files of every kind, and
 * every way a row can be bad. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/task/task.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct err e;

static void put(const char *name, const char *text)
{
    tempdir_put(name, text, strlen(text));
}

/* Rows as one reads them: "line|text1|text2|label;" each, "-" where there is none. */
struct seen {
    char   text[4096], names[64];
    size_t n, rows;
}; // names: of the columns, if they have some

static int see(void *ctx, const struct task_row *row, struct err *err)
{
    struct seen *s = ctx;

    (void)err;
    s->rows++;
    if (row->names)
        snprintf(s->names, sizeof s->names, "%.20s %.20s %.20s", row->names->text,
                 row->names->pair ? row->names->pair : "-",
                 row->names->label ? row->names->label : "-");
    if (s->n < sizeof s->text)
        s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%zu|%s|%s|%s;", row->line,
                                 row->text1, row->text2 ? row->text2 : "-",
                                 row->label ? row->label : "-");
    return 0;
}

static const char *own(const char *name, const char *text)
{
    static struct seen s;

    s = (struct seen){ .n = 0 };
    put(name, text);
    if (task_read_own(tempdir_at(name), NULL, 0, see, &s, &e))
        fail_msg("%s", e.text);
    return s.text;
}

/* The sentence of a file that is refused, from its name on. */
static const char *refused_bytes(const char *name, const struct task_columns *c, const void *bytes,
                                 size_t n)
{
    struct seen s = { .n = 0 };
    const char *begin;
    int         rc;

    tempdir_put(name, bytes, n);
    e = (struct err){ 0 };
    rc = c ? task_read_glue(tempdir_at(name), c, 0, see, &s, &e)
           : task_read_own(tempdir_at(name), NULL, 0, see, &s, &e);
    assert_int_equal(rc, -EINVAL);
    assert_int_equal(e.misuse, 1);
    begin = strstr(e.text, name);
    assert_non_null(begin);
    return begin;
}

/* The file is refused with this sentence, or one that begins so. */
static void bad(const char *name, const struct task_columns *c, const char *text, const char *says)
{
    const char *said = refused_bytes(name, c, text, strlen(text));

    if (strncmp(said, says, strlen(says)) != 0)
        fail_msg("'%s' does not begin with '%s'", said, says);
}

#define MNLI_HEAD "index\tpromptID\tpairID\tgenre\ts1b\ts2b\ts1p\ts2p\tsentence1\tsentence2"
#define MNLI_ROW  "0\t1\t2\tg\t(\t(\t(\t(\tA\tB"
#define STSB_HEAD "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
#define STSB_ROW  "0\tn\tf\t2012\t1\tnone\tnone\tA\tB"

/* Each task's official columns: train and dev and what is read there; test; what the last label
 * means. */
static void test_layouts(void **state)
{
    static const struct {
        const char *task, *dev, *want, *test;
        int32_t class;
        float value;
    } cases[] = {
        { "cola", "gj04\t1\t\tC \"a\ncj99\t0\t*\tA", "1|C \"a|-|1;2|A|-|0;",
          "index\tsentence\n0\tA\n", 0, 0 },
        { "sst2", "sentence\tlabel\nA\t1\n", "2|A|-|1;", "index\tsentence\n0\tA\n", 1, 0 },
        { "mrpc", "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\t\"A\tB\r\n",
          "2|\"A|B|1;", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tA\tB\n", 1, 0 },
        { "stsb", STSB_HEAD "\tscore\n" STSB_ROW "\t3.800\n", "2|A|B|3.800;",
          STSB_HEAD "\n" STSB_ROW "\n", 0, 3.8f },
        { "qqp",
          "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tA\tB\t1\n4\t5\t6\ttorn\n"
          "\tapart\t0\n7\t8\t9\tA\t\t0\n7\t8\t9\tA\tB\t\n",
          "2|A|B|1;5|A||0;", "id\tquestion1\tquestion2\n0\tA\tB\n", 0, 0 },
        { "mnli",
          MNLI_HEAD "\tlabel1\tl2\tl3\tl4\tl5\tgold_label\n" MNLI_ROW "\tx\tn\tn\tn\tn\tcontradicti"
                                                                      "on\n",
          "2|A|B|contradiction;", MNLI_HEAD "\n" MNLI_ROW "\n", 2, 0 },
        { "qnli", "index\tquestion\tsentence\tlabel\n0\tA\tB\tnot_entailment\n",
          "2|A|B|not_entailment;", "index\tquestion\tsentence\n0\tA\tB\n", 1, 0 },
        { "rte", "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n", "2|A|B|entailment;",
          "index\tsentence1\tsentence2\n0\tA\tB\n", 0, 0 },
        { "wnli", "index\tsentence1\tsentence2\tlabel\n0\tA\tB\t1\n", "2|A|B|1;",
          "index\tsentence1\tsentence2\n0\tA\tB\n", 1, 0 },
    };

    (void)state;
    assert_int_equal(task_count, sizeof cases / sizeof *cases);
    for (size_t i = 0; i < task_count; i++) {
        const struct task *t = task_find(cases[i].task);
        struct seen        s = { .n = 0 }, u = { .n = 0 };
        struct task_row    row = { .path = "dev.tsv", .line = 2 };
        int32_t            class;
        float              value;

        assert_ptr_equal(t, &task_table[i]);
        put("dev.tsv", cases[i].dev);
        put("test.tsv", cases[i].test);
        assert_int_equal(task_read_glue(tempdir_at("dev.tsv"), &t->train, 0, see, &s, &e), 0);
        assert_string_equal(s.text, cases[i].want);
        assert_int_equal(task_read_glue(tempdir_at("test.tsv"), &t->test, 0, see, &u, &e), 0);
        assert_string_equal(u.text, t->train.text2 < 0 ? "2|A|-|-;" : "2|A|B|-;");
        s.text[s.n - 1] = 0; // the last row's label
        row.label = strrchr(s.text, '|') + 1;
        assert_int_equal(task_label(t, &row, &class, &value, &e), 0);
        assert_int_equal(class, cases[i].class);
        assert_true(value == cases[i].value);
        if (t->train.label == -2)
            bad("test.tsv", &t->train, cases[i].test, "test.tsv:1: the header has"); // no labels to
                                                                                     // train on
    }
}

/* MNLI's train.tsv has fewer columns than its dev files. */
static void test_mnli_train(void **state)
{
    struct seen s = { .n = 0 };

    (void)state;
    put("train.tsv", MNLI_HEAD "\tlabel1\tgold_label\n" MNLI_ROW "\tx\tneutral\n");
    assert_int_equal(task_read_glue(tempdir_at("train.tsv"), &task_find("MNLI")->train, 0, see, &s,
                                    &e),
                     0);
    assert_string_equal(s.text, "2|A|B|neutral;");
}

/* Names, labels in Hugging Face's order, files and metrics. */
static void test_table(void **state)
{
    const struct task *t;

    (void)state;
    for (size_t i = 0; i < task_count; i++) {
        t = &task_table[i];
        assert_ptr_equal(task_find(t->title), t);
        assert_non_null(t->dev[0]);
        assert_non_null(t->tests[0]);
        assert_string_equal(t->suffix[0], "");
        assert_int_equal(!t->labels, t->n_labels == 1);
        assert_int_equal(metric_of_values(t->metric[0]), t->n_labels == 1);
    }
    assert_string_equal(task_find("sst-2")->name, "sst2");
    assert_string_equal(task_find("STS_B")->name, "stsb");
    assert_null(task_find("sst"));
    assert_null(task_find(""));
    assert_null(task_find("cola-cola-cola-cola-cola"));
    t = task_find("mnli");
    assert_string_equal(t->labels[0], "entailment");
    assert_string_equal(t->labels[1], "neutral");
    assert_string_equal(t->dev[1], "dev_mismatched.tsv");
    assert_string_equal(t->suffix[1], "_mm");
    assert_string_equal(task_find("cola")->labels[1], "acceptable");
    assert_string_equal(task_find("rte")->labels[0], "entailment");
    assert_string_equal(task_find("wnli")->labels[0], "not_entailment");
    assert_int_equal(task_find("cola")->metric[0], METRIC_MATTHEWS);
    assert_int_equal(task_find("qqp")->metric[1], METRIC_F1);
    assert_int_equal(task_find("stsb")->metric[1], METRIC_SPEARMAN);
}

/* What is wrong with a GLUE row is said with file and line. */
static void test_bad_rows(void **state)
{
    const struct task_columns *c = &task_find("rte")->train;
    static const char          nul[] = "i\ta\tb\tl\n0\tA\tB\tx\n1\tA\0A\tB\tx\n";
    struct seen                s = { .n = 0 };

    (void)state;
    bad("dev.tsv", c, "i\ta\tb\tl\n0\tA\tB\tx\n1\tA\tx\n", "dev.tsv:3: 3 columns, 4 are expected");
    bad("dev.tsv", c, "i\ta\tb\tl\n0\tA\tB\tC\tx\n", "dev.tsv:2: 5 columns, 4 are expected");
    bad("dev.tsv", c, "i\ta\tb\tl\n\n0", "dev.tsv:3: 1 column, 4 are expected");
    bad("dev.tsv", c, "i\ta\tb\n0\tA\tB\n",
        "dev.tsv:1: the header has 3 columns, at least 4 are expected");
    bad("dev.tsv", &task_find("sst2")->train, "gj04\t1\t\tA\ngj04\t0\t*\tB\n", // CoLA's
        "dev.tsv:1: a header is expected, but '1' stands where it names the label: is this file "
        "the task's?");
    bad("dev.tsv", &task_find("stsb")->train, STSB_ROW "\t3.2\n" STSB_ROW "\t1\n",
        "dev.tsv:1: a header is expected, but '3.2' stands where it names the label: is this file "
        "the task's?");
    bad("dev.tsv", c, "i\ta\tb\tl\n0\t\tB\tx\n", "dev.tsv:2: the first text is empty");
    bad("dev.tsv", c, "i\ta\tb\tl\n0\tA\t\tx\n", "dev.tsv:2: the second text is empty");
    bad("dev.tsv", c, "i\ta\tb\tl\n0\tA\xC3\tB\tx\n",
        "dev.tsv:2: column 2 is not valid UTF-8 (byte 2 of it, 0xc3)");
    bad("dev.tsv", c, "i\ta\tb\tl\n0\tA\t\xED\xA0\x80\tx\n",
        "dev.tsv:2: column 3 is not valid UTF-8 (byte 1 of it, 0xed)");
    assert_string_equal(refused_bytes("dev.tsv", c, nul, sizeof nul - 1),
                        "dev.tsv:3: a NUL byte, which no text has");
    bad("dev.tsv", c, "i\ta\tb\tl\n\r\n\n", "dev.tsv has no rows");
    bad("dev.tsv", c, "", "dev.tsv is empty");
    bad("dev.tsv", &task_find("cola")->train, "", "dev.tsv has no rows");
    assert_int_equal(task_read_glue(tempdir_at("none.tsv"), c, 0, see, &s, &e), -ENOENT);
    assert_non_null(strstr(e.text, "none.tsv: No such file"));
    assert_int_equal(e.misuse, 1);
    assert_int_equal(task_read_glue(tempdir, c, 0, see, &s, &e), -EINVAL);
    assert_int_equal(s.rows, 0);
}

static int stop_at_two(void *ctx, const struct task_row *row, struct err *err)
{
    (void)err;
    ++*(int *)ctx;
    return row->line == 3 ? -ECANCELED : 0;
}

/* `most` reads no further, and so does a callback that says so. */
static void test_stops(void **state)
{
    const struct task_columns *c = &task_find("sst2")->train;
    struct seen                s = { .n = 0 };
    int                        n = 0;

    (void)state;
    put("train.tsv", "sentence\tlabel\nA\t1\nB\t0\nbad row\n");
    assert_int_equal(task_read_glue(tempdir_at("train.tsv"), c, 2, see, &s, &e), 0);
    assert_string_equal(s.text, "2|A|-|1;3|B|-|0;");
    assert_int_equal(task_read_glue(tempdir_at("train.tsv"), c, 0, stop_at_two, &n, &e),
                     -ECANCELED);
    assert_int_equal(n, 2);
}

/* A row of megabytes is read; one of more than 64 MiB is refused, and so are more than 1,024
 * columns. */
static void test_long_rows(void **state)
{
    const struct task_columns *c = &task_find("sst2")->train;
    size_t                     n = ((size_t)64 << 20) + 32;
    char                      *text = malloc(n);
    struct seen                s = { .n = 0 };

    (void)state;
    assert_non_null(text);
    memset(text, 'a', n);
    memcpy(text, "sentence\tlabel\n", 15);
    memcpy(text + (5 << 20), "\t1\nB\t0\n", 7);
    tempdir_put("dev.tsv", text, (5 << 20) + 7);
    assert_int_equal(task_read_glue(tempdir_at("dev.tsv"), c, 0, see, &s, &e), 0);
    assert_int_equal(s.rows, 2);
    memset(text + (5 << 20), 'a', 7);
    assert_string_equal(refused_bytes("dev.tsv", c, text, n),
                        "dev.tsv:2: this row has more than 67108864 bytes");
    memset(text, '\t', 2000);
    assert_string_equal(refused_bytes("dev.tsv", c, text, 2000), "dev.tsv:1: more than 1024 "
                                                                 "columns");
    free(text);
}

static void test_labels(void **state)
{
    static const struct { const char *task, *label, *says;
    } cases[] = {
        { "sst2", "2",
          "dev.tsv:9: the label '2' is unknown: known are 0 (negative), 1 (positive)" },
        { "sst2", "positive",
          "dev.tsv:9: the label 'positive' is unknown: known are 0 (negative), 1 (positive)" },
        { "sst2", "01",
          "dev.tsv:9: the label '01' is unknown: known are 0 (negative), 1 (positive)" },
        { "mnli", "-",
          "dev.tsv:9: the label '-' is unknown: known are entailment, neutral, contradiction" },
        { "mnli", "",
          "dev.tsv:9: the label '' is unknown: known are entailment, neutral, contradiction" },
        { "rte", NULL, "dev.tsv:9: no label: a column or a field of that name is expected" },
        { "stsb", "3.8x", "dev.tsv:9: the label '3.8x' is no number, which STS-B needs" },
        { "stsb", " 3", "dev.tsv:9: the label ' 3' is no number, which STS-B needs" },
        { "stsb", "nan", "dev.tsv:9: the label 'nan' is no number, which STS-B needs" },
        { "stsb", "0x1", "dev.tsv:9: the label '0x1' is no number, which STS-B needs" },
        { "stsb", "1e99", "dev.tsv:9: the label '1e99' is no number, which STS-B needs" },
        { "stsb", "", "dev.tsv:9: the label '' is no number, which STS-B needs" },
        { "stsb", "-", "dev.tsv:9: the label '-' is no number, which STS-B needs" },
    };
    struct task_row row = { .path = "dev.tsv", .line = 9, .label = "-1.25e0" };
    int32_t         class;
    float           value;

    (void)state;
    assert_int_equal(task_label(task_find("stsb"), &row, &class, &value, &e), 0);
    assert_true(value == -1.25f && class == 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        row.label = cases[i].label;
        e = (struct err){ 0 };
        assert_int_equal(task_label(task_find(cases[i].task), &row, &class, &value, &e), -EINVAL);
        assert_int_equal(e.misuse, 1);
        assert_string_equal(e.text, cases[i].says);
    }
}

/* RFC 4180 and its corners. */
static void test_csv(void **state)
{
    (void)state;
    assert_string_equal(own("a.csv", "sentence,label\nplain,x\n\"with, comma\",y"),
                        "2|plain|-|x;3|with, comma|-|y;");
    assert_string_equal(own("a.csv", "\xEF\xBB\xBF\"sentence1\",\"sentence2\",label\r\n\"say "
                                     "\"\"hi\"\"\",\"two\r\nlines\",0\r\nC,D,1\r\n"),
                        "2|say \"hi\"|two\r\nlines|0;4|C|D|1;");
    assert_string_equal(own("a.csv", "sentence,label\n5\" disk,x\n \"quoted late\",\"\"\n"),
                        "2|5\" disk|-|x;3| \"quoted late\"|-|;");
    assert_string_equal(own("a.csv", "label,sentence\nx,\"\"\"\"\r\n\r\n\ny,\"end\"\r"),
                        "2|\"|-|x;5|end|-|y;");
    assert_string_equal(own("A.CSV", "sentence\ta,label\nA\tB,x\n"), "2|A\tB|-|x;"); // not named
                                                                                     // label
    bad("a.csv", NULL, "sentence,label\nA,x\n\"never\nclosed,y\n",
        "a.csv:3: in the row that begins here a double quote is opened and never closed");
    bad("a.csv", NULL, "sentence,label\n\"A\nB\"C,x\n",
        "a.csv:3: text after the closing double quote of column 1");
    bad("a.csv", NULL, "sentence,label\n\"A\"\rB,x\n", "a.csv:2: text after the closing");
    bad("a.csv", NULL, "sentence,label\nA,B,x\n", "a.csv:2: 3 columns, 2 are expected");
    bad("a.csv", NULL, "sentence,label\n\"\",x\n", "a.csv:2: the text is empty");
    bad("a.csv", NULL, "sentence\n\"\"\n", "a.csv:2: the text is empty");
    bad("a.csv", NULL, "sentence,label,label\nA,x,y\n", "a.csv:1: two columns are named 'label'");
    bad("a.csv", NULL, "label\nx\n",
        "a.csv has no text: a column named sentence, or sentence1 and sentence2, is expected");
    bad("a.csv", NULL, "sentence,label\n\"A\n\xFF\",x\n",
        "a.csv:2: column 1 is not valid UTF-8 (byte 3 of it, 0xff)");
    bad("a.csv", NULL, "", "a.csv is empty");
    bad("a.csv", NULL, "sentence,label\n", "a.csv has no rows");
    bad("a.txt", NULL, "sentence\nA\n", "a.txt: a name that ends in .csv, .tsv, .json or .jsonl");
}

/* Which columns are texts, as run_glue.py chooses; a file to predict has no label. */
static void test_columns(void **state)
{
    (void)state;
    assert_string_equal(own("a.tsv", "idx\tsentence\tlabel\n7\tsay \"A\t1\n"), "2|say \"A|-|1;");
    assert_string_equal(own("a.tsv", "sentence2\tx\tsentence1\nB\t0\tA\n"), "2|A|B|-;");
    assert_string_equal(own("a.tsv", "sentence1\tlabel\tid\nA\t1\t0\n"), "2|A|-|1;");
    assert_string_equal(own("a.tsv", "question\tlabel\tanswer\tid\nA\t1\tB\t0\n"), "2|A|B|1;");
    assert_string_equal(own("a.tsv", "label\treview\n1\tA\n"), "2|A|-|1;");
    assert_string_equal(own("a.tsv", "id\ttext\tlabel\n7\tA\t1\n"), "2|A|-|1;");
    assert_string_equal(own("a.tsv", "summary\ttext\ttext_pair\nS\tA\tB\n"), "2|A|B|-;");
    assert_string_equal(own("a.tsv", "\tID\treview\tlabel\n7\t8\tA\t1\n"), "2|A|-|1;");
    assert_string_equal(own("a.tsv", "id\tlabel\n7\t1\n"), "2|7|-|1;"); // there is no other
}

/* Columns asked for by name: what was read, with the names of what was read. */
static void test_asked_columns(void **state)
{
    static const struct task_names text = { "b", NULL, NULL }, all = { "b", "a", "c" };
    static const struct task_names none = { "d", NULL, NULL }, no_pair = { "a", "d", NULL };
    static const struct task_names label = { NULL, NULL, "c" }, no_label = { NULL, NULL, "d" };
    static const struct {
        const char              *name, *bytes;
        const struct task_names *asked;
        const char              *want;
    } cases[] = {
        { "a.csv", "a,b,c,label\nA,B,C,1\n", &text, "2|B|-|1;b - label" },
        { "a.csv", "a,b,c,label\nA,B,C,1\n", &all, "2|B|A|C;b a c" },
        { "a.csv", "a,b,c,label\nA,B,C,1\n", &label, "2|A|B|C;a b c" },
        { "a.jsonl", "{\"a\": \"A\", \"b\": \"B\", \"c\": 3, \"label\": 1}\n", &all,
          "1|B|A|3;b a c" },
        { "a.csv", "a,b,c,label\nA,B,C,1\n", &none,
          "a.csv has no column 'd', but 'a', 'b', 'c', 'label': --text-column" },
        { "a.tsv", "a\tb\nA\tB\n", &no_label,
          "a.tsv has no column 'd', but 'a', 'b': --text-column" },
        { "a.csv", "a,b\nA,B\n", &no_pair, "a.csv has no column 'd', but 'a', 'b': --text-column" },
        { "a.jsonl", "{\"a\": \"A\"}\n", &none,
          "a.jsonl has no column 'd', but 'a': --text-column" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct seen s = { 0 };
        char        got[128];

        put(cases[i].name, cases[i].bytes);
        e = (struct err){ 0 };
        if (task_read_own(tempdir_at(cases[i].name), cases[i].asked, 0, see, &s, &e)) {
            assert_int_equal(e.misuse, 1);
            assert_memory_equal(strstr(e.text, cases[i].name), cases[i].want,
                                strlen(cases[i].want));
            continue;
        }
        snprintf(got, sizeof got, "%.60s%s", s.text, s.names);
        assert_string_equal(got, cases[i].want);
    }
}

/* A delimiter that is not the one of the file's kind is named, and the one that would work. */
static void test_delimiters(void **state)
{
    (void)state;
    bad("a.csv", NULL, "sentence;label\nA;1\n",
        "a.csv has semicolons between its columns, where .csv has commas: write it with commas");
    bad("a.csv", NULL, "\"sentence\";\"label\"\nA, B;1\n",
        "a.csv has semicolons between its columns");
    bad("a.csv", NULL, "sentence, raw;label\nA;1\n", "a.csv has semicolons between its columns");
    bad("a.csv", NULL, "sentence\tlabel\nA\t1\n",
        "a.csv has tabs between its columns, where .csv has commas: name it .tsv, or write it with "
        "commas");
    bad("a.tsv", NULL, "sentence,label\nA,1\n",
        "a.tsv has commas between its columns, where .tsv has tabs: name it .csv, or write it with "
        "tabs");
    bad("a.tsv", NULL, "sentence|label\nA|1\n",
        "a.tsv has vertical bars between its columns, where .tsv");
    assert_string_equal(own("a.csv", "\"sentence; all\",label\nA,1\n"), "2|A|-|1;");
    assert_string_equal(own("a.tsv", "5\" disk, or tape\tlabel\nA\t1\n"), "2|A|-|1;");
    assert_string_equal(own("a.csv", "sentence\nA;B\tC\n"), "2|A;B\tC|-|-;");
}

static void test_json(void **state)
{
    (void)state;
    assert_string_equal(own("a.jsonl", "{\"label\": \"x\", \"sentence\": \"\\u00e9\\n\\\"A\\\"\", "
                                       "\"id\": [1]}\n\n{\"sentence\":\"B\",\"label\":3}\r\n"),
                        "1|\xC3\xA9\n\"A\"|-|x;3|B|-|3;");
    assert_string_equal(own("a.json", "{\"sentence1\": \"A\", \"sentence2\": \"B\", \"label\": "
                                      "2.5}\n"
                                      "{\"sentence1\": \"C\", \"sentence2\": \"D\", \"label\": "
                                      "null}\n{\"sentence2\": \"F\", \"sentence1\": \"E\"}"),
                        "1|A|B|2.5;2|C|D|-;3|E|F|-;");
    assert_string_equal(own("a.jsonl", "{\"premise\": \"A\", \"label\": 1.0, \"claim\": \"B\"}\n"),
                        "1|A|B|1.0;");
    assert_string_equal(own("a.jsonl", "{\"text\": \"A\", \"label\": true}\n"
                                       "{\"text\": \"B\", \"label\": false}\n"),
                        "1|A|-|true;2|B|-|false;");
    bad("a.jsonl", NULL, "{\"sentence\": \"A\"}\n{\"text\": \"B\"}\n",
        "a.jsonl:2: no \"sentence\", a string is expected");
    bad("a.jsonl", NULL, "{\"sentence\": 5}\n",
        "a.jsonl:1: no string in \"sentence\", a string is expected");
    bad("a.jsonl", NULL, "{\"sentence\": \"\"}\n", "a.jsonl:1: the text is empty");
    bad("a.jsonl", NULL, "{\"title\": 1, \"messages\": [{}]}\n",
        "a.jsonl has conversations, and a classifier's rows are texts with labels: --task chat");
    bad("a.jsonl", NULL, "{\"sentence\": \"A\", \"label\": [true]}\n",
        "a.jsonl:1: the label is a list or an object, where a string, a number or a truth value");
    bad("a.json", NULL, "{\"data\": [{\"sentence\": \"A\", \"label\": 1}]}",
        "a.json is one object of JSON, where rows are expected, one a line or in one list: "
        "jq '.\"data\"' ");
    bad("a.json", NULL, "{\n \"version\": 1,\n \"rows\": [\n  {\"sentence\": \"A\"}\n ]\n}\n",
        "a.json is one object of JSON, where rows are expected, one a line or in one list: "
        "jq '.\"rows\"' ");
    bad("a.json", NULL, "{\"sentence\": \"A\"}\n[5]\n",
        "a.json:2: this is no JSON object; one object a line is expected");
    bad("a.json", NULL, "{\n\"sentence\": \"A\"}\n", "a.json:1 is not valid JSON");
    bad("a.jsonl", NULL, "{\"sentence\": \"A\\u0000\"}\n", "a.jsonl:1 is not valid JSON");
    bad("a.jsonl", NULL, "{\"sentence\": \"A\", \"sentence\": \"B\"}\n",
        "a.jsonl:1 is not valid JSON");
    bad("a.jsonl", NULL, "{\"label\": 1}\n",
        "a.jsonl has no text: a column named sentence, or sentence1 and sentence2, is expected");
    bad("a.jsonl", NULL, "\n", "a.jsonl has no rows");
    bad("a.jsonl", NULL, "{\"sentence\": \"\xC3\x28\"}\n",
        "a.jsonl:1: column 1 is not valid UTF-8 (byte 15 of it, 0xc3)");
}

/* The task of a training file: "labels|metric" or the sentence. */
static const char *settle(const char *name, const char *text, int regression)
{
    static char  out[1200];
    struct task *t;
    size_t       n = 0;

    put(name, text);
    e = (struct err){ 0 };
    if (task_own(&t, (char *[]){ (char *)(uintptr_t)tempdir_at(name) }, 1, NULL, regression, &e)) {
        assert_null(t);
        assert_int_equal(e.misuse, 1);
        return strstr(e.text, name);
    }
    assert_string_equal(t->name, "custom");
    assert_int_equal(!t->labels, t->n_labels == 1);
    assert_int_equal(t->n_metrics, 1);
    for (size_t i = 0; t->labels && i < t->n_labels; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s,", t->labels[i]);
    snprintf(out + n, sizeof out - n, "|%s", metric_names[t->metric[0]]);
    task_own_free(t);
    return out;
}

static void test_own(void **state)
{
    static char text[200000];
    size_t      n = 0;

    (void)state;
    assert_string_equal(settle("t.csv", "sentence,label\nA,pos\nB,neg\nC,pos\nD,maybe\n", 0),
                        "maybe,neg,pos,|accuracy");
    assert_string_equal(settle("t.csv", "sentence,label\nA,10\nB,9\nC,-1\nD,9\n", 0), "-1,9,10,|"
                                                                                      "accuracy");
    assert_string_equal(settle("t.csv", "sentence,label\nA,10\nB,9\nC,x\n", 0), "10,9,x,|accuracy");
    assert_string_equal(settle("t.csv", "sentence,label\nA,5.0\nB,4\nC,2.25\n", 0), "|mse");
    assert_string_equal(settle("t.csv", "sentence,label\nA,5\nB,5\n", 1), "|mse");
    assert_string_equal(settle("t.jsonl",
                               "{\"sentence\":\"A\",\"label\":0.5}\n{\"sentence\":\"B\",\"label\":"
                               "1}\n",
                               0),
                        "|mse");
    assert_string_equal(settle("t.csv", "sentence,label\nA,5\nB,x\n", 1),
                        "t.csv:3: the label 'x' is no number, which regression needs");
    assert_string_equal(settle("t.csv", "sentence,label\nA,x\nB,\n", 0),
                        "t.csv:3: the label is empty");
    assert_string_equal(settle("t.csv", "sentence\nA\n", 0), "t.csv:2: no label: a column or a "
                                                             "field of that name is expected, or "
                                                             "the one that --label-column names; "
                                                             "the file has 'sentence'");
    assert_string_equal(settle("t.csv", "sentence,label\nA,x\nB,x\n", 0),
                        "t.csv has one label only, 'x': to tell classes apart takes two");
    n += (size_t)sprintf(text, "sentence,label\n");
    for (int i = 0; i < 5000; i++)
        n += (size_t)sprintf(text + n, "A,%d.%d\n", i, i % 2);
    assert_string_equal(settle("t.csv", text, 0), "|mse"); // values are no classes, however many
    sprintf(text + n, "A,none\n");
    assert_string_equal(settle("t.csv", text, 0), "t.csv:5002: the label 'none' is no number, as "
                                                  "the others are: leave out rows without a label");
    sprintf(text + n, "A,x\n");
    assert_string_equal(settle("t.csv", text, 0), "t.csv has more than 4096 different labels: is "
                                                  "its column label what it says?");
    task_own_free(NULL);
}

/* The labels of one's own are looked up by name, and those known are told. */
static void test_own_labels(void **state)
{
    struct task_row row = { .path = "dev.csv", .line = 4, .label = "9" };
    struct task    *t;
    int32_t         class;
    float           value;

    (void)state;
    put("t.csv", "sentence,label\nA,10\nB,9\n");
    char *paths[] = { (char *)(uintptr_t)tempdir_at("t.csv") };
    assert_int_equal(task_own(&t, paths, 1, NULL, 0, &e), 0);
    assert_int_equal(task_label(t, &row, &class, &value, &e), 0);
    assert_int_equal(class, 0);
    row.label = "1";
    assert_int_equal(task_label(t, &row, &class, &value, &e), -EINVAL);
    assert_string_equal(e.text, "dev.csv:4: the label '1' is unknown: known are 9, 10");
    task_own_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_layouts),
        IN_TEMPDIR(test_mnli_train),
        IN_TEMPDIR(test_table),
        IN_TEMPDIR(test_bad_rows),
        IN_TEMPDIR(test_stops),
        IN_TEMPDIR(test_long_rows),
        IN_TEMPDIR(test_labels),
        IN_TEMPDIR(test_csv),
        IN_TEMPDIR(test_columns),
        IN_TEMPDIR(test_asked_columns),
        IN_TEMPDIR(test_delimiters),
        IN_TEMPDIR(test_json),
        IN_TEMPDIR(test_own),
        IN_TEMPDIR(test_own_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
