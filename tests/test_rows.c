/* test_rows.c: rows of one's own as people have them: one list of JSON, any line ends, GLUE's tasks
 * as datasets writes them, labels that are none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/task/task.h"
#include "tests/tempdir.h"

#include <stdio.h>
#include <string.h>

static struct err e;

static void put(const char *name, const char *text) { tempdir_put(name, text, strlen(text)); }

/* Rows as "line|text1|text2|label;" each, "-" where there is none. */
static int see(void *ctx, const struct task_row *row, struct err *err)
{
    char *seen = ctx;

    (void)err;
    sprintf(seen + strlen(seen), "%zu|%.40s|%.40s|%.40s;", row->line, row->text1,
            row->text2 ? row->text2 : "-", row->label ? row->label : "-");
    return 0;
}

static const char *own(const char *name, const char *text)
{
    static char seen[4096];

    *seen = 0;
    put(name, text);
    if (task_read_own(tempdir_at(name), NULL, 0, see, seen, &e))
        fail_msg("%s", e.text);
    return seen;
}

/* The file is refused with this sentence, or one that begins so. */
static void bad(const char *name, const char *text, const char *says)
{
    char seen[4096] = "";

    put(name, text);
    assert_int_equal(task_read_own(tempdir_at(name), NULL, 0, see, seen, &e), -EINVAL);
    const char *said = strstr(e.text, name);
    if (!e.misuse || !said || strncmp(said, says, strlen(says)))
        fail_msg("'%s' does not begin with '%s'", said, says);
}

/* One list holds all rows, however it is laid out; a row's line is where its object begins. */
static void test_json_list(void **state)
{
    (void)state;
    assert_string_equal(own("a.json", "[{\"sentence\": \"A ] } \\\" {\", \"label\": 1, "
                                      "\"more\": [{}]},{\"label\":2,\"sentence\":\"\\\\\"}]"),
                        "1|A ] } \" {|-|1;1|\\|-|2;");
    assert_string_equal(own("a.jsonl", "\xEF\xBB\xBF\n [\n  {\n    \"sentence\": \"A\",\n    "
                                       "\"label\": \"x\"\n  }\n  ,\n  {\"sentence\": \"B\"}\n]"
                                       "\n\n"),
                        "3|A|-|x;8|B|-|-;");
    assert_string_equal(own("a.json", "[\r{\"sentence\": \"A\"},\r{\"sentence\": \"B\"}\r]\r"),
                        "2|A|-|-;3|B|-|-;");
    bad("a.json", "[]\n", "a.json has no rows");
    bad("a.json", "[", "a.json:1: the list does not end: the file was cut off");
    bad("a.json", "[{\"sentence\": \"A\"},\n{\"sentence\": ",
        "a.json:2: the object that begins here does not end: the file was cut off");
    bad("a.json", "[{\"sentence\": \"A\"}", "a.json:1: the list does not end");
    bad("a.json", "[{\"sentence\": \"A\"}\n{\"sentence\": \"B\"}]",
        "a.json:2: a comma or the list's end is expected between two objects");
    bad("a.json", "[{\"sentence\": \"A\"},\n\"B\"]",
        "a.json:2: no JSON object begins here; a list of objects is expected");
    bad("a.json", "[{\"sentence\": \"A\"}]\n[]",
        "a.json:2: something stands behind the list's end");
    bad("a.json", "[{\"sentence\" \"A\"}]", "a.json:1 is not valid JSON");
    bad("a.json", "[{\"sentence\": \"\xE9\"}]", "a.json:1: column 1 is not valid UTF-8");
}

/* \r alone ends lines where it ends the first one, \r\n everywhere. */
static void test_line_ends(void **state)
{
    (void)state;
    assert_string_equal(own("a.csv", "sentence,label\rA,1\r\"B\rb\",2\r\rC,3"),
                        "2|A|-|1;3|B\rb|-|2;6|C|-|3;");
    assert_string_equal(own("a.csv", "sentence,label\r\nA,1\r\n\"B\r\nb\",2\r\n"),
                        "2|A|-|1;3|B\r\nb|-|2;");
    assert_string_equal(own("a.tsv", "sentence\tlabel\rA\t1\rB\t2\r"), "2|A|-|1;3|B|-|2;");
    assert_string_equal(own("a.jsonl", "{\"sentence\": \"A\"}\r{\"sentence\": \"B\"}"),
                        "1|A|-|-;2|B|-|-;");
    assert_string_equal(own("a.csv", "sentence,label\nA\rB,1\n"), "2|A\rB|-|1;"); // a character
}

/* Texts that nobody reads: "names read; unread". */
static int see_unread(void *ctx, const struct task_row *row, struct err *err)
{
    (void)err;
    snprintf(ctx, 128, "%s %s; %s", row->names->text, row->names->pair ? row->names->pair : "-",
             row->unread);
    return 0;
}

static void test_pairs_of_tasks(void **state)
{
    static const struct task_names text = { "text", NULL, NULL };
    static const struct {
        const char *name, *bytes;
        const struct task_names *asked;
        const char *want;
    } cases[] = {
        { "a.csv", "question,sentence,label,idx\nwho is it,it is he,0,0\n", NULL,
          "question sentence; " },
        { "a.csv", "sentence1,sentence2,label,idx\na b,c d,0,0\n", NULL, "sentence1 sentence2; " },
        { "a.tsv", "premise\thypothesis\tlabel\tidx\na b\tc d\t0\t0\n", NULL,
          "premise hypothesis; " },
        { "a.jsonl", "{\"label\": 1, \"question2\": \"a\", \"question1\": \"b\"}\n", NULL,
          "question1 question2; " },
        { "a.csv", "sentence,label,idx\na b,0,0\n", NULL, "sentence -; " },
        { "a.csv", "passage,sentence,label\nx,a b,0\nof a sea,c,1\n", NULL,
          "sentence -; 'passage'" },
        { "a.csv", "title,text,date,who,label\na sea,b,2020-01-01 10:00,ann,0\n", NULL,
          "text -; 'title'" },
        { "a.jsonl", "{\"text\": \"a\", \"label\": 0, \"reason\": \"since it is\", \"n\": 5}\n"
                     "{\"text\": \"a\", \"label\": 0, \"reason\": \"and so on\"}\n", NULL,
          "text -; 'reason'" },
        { "a.csv", "question,premise,sentence1,label\na b,c d,e f,0\n", NULL,
          "sentence1 -; 'question', 'premise'" },
        { "a.csv", "title,text,label\na sea,b,0\n", &text, "text -; " },
    };
    char got[128];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(cases[i].name, cases[i].bytes);
        if (task_read_own(tempdir_at(cases[i].name), cases[i].asked, 0, see_unread, got, &e))
            fail_msg("%s", e.text);
        assert_string_equal(got, cases[i].want);
    }
}

/* The task of a training file: "labels|metric", or the sentence from the file's name on. */
static const char *settle(const char *name, const char *text)
{
    static char  out[1200];
    struct task *t;
    size_t       n = 0;

    put(name, text);
    if (task_own(&t, (char *[]){ (char *)(uintptr_t)tempdir_at(name) }, 1, NULL, 0, &e))
        return e.misuse ? strstr(e.text, name) : "no misuse";
    for (size_t i = 0; t->labels && i < t->n_labels; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s,", t->labels[i]);
    snprintf(out + n, sizeof out - n, "|%s", metric_names[t->metric[0]]);
    task_own_free(t);
    return out;
}

/* What stands for no label is no class: the first such row is named. */
static void test_no_label(void **state)
{
    static const struct { const char *name, *text, *want; } cases[] = {
        { "t.csv", "sentence,label\nA,5.0\nB,nan\nC,NaN\n",
          "t.csv:3: the label 'nan' is no number" },
        { "t.csv", "sentence,label\nA,N/A\nB,0\nC,1\n", "t.csv:2: the label 'N/A' is no number" },
        { "t.csv", "sentence,label\nA,1.5\nB,2\nC,-inf\n", "t.csv:4: the label '-inf' is no" },
        { "t.jsonl", "{\"sentence\":\"A\",\"label\":1}\n{\"sentence\":\"B\",\"label\":\"null\"}\n",
          "t.jsonl:2: the label 'null' is no number" },
        { "t.csv", "sentence,label\nA,yes\nB,no\nC,none\n", "no,none,yes,|accuracy" },
        { "t.csv", "sentence,label\nA,0\nB,1\nC,2\nD,-1\n",
          "t.csv:5: the label -1 stands for no label, where the others count from 0" },
        { "t.csv", "sentence,label\nA,-1\nB,0\n", "t.csv:2: the label -1 stands for no label" },
        { "t.csv", "sentence,label\nA,-1\nB,-1\n",
          "t.csv:2: the label -1 stands for no label, and there is no other" },
        { "t.csv", "sentence,label\nA,0\nB,1\nC,-1\n", "-1,0,1,|accuracy" }, // a scale
        { "t.csv", "sentence,label,idx\nA,0,0\nB,1,1\nC,-1,2\n",
          "t.csv:4: the label -1 stands for no label" },
        { "t.csv", "sentence,label,idx\nA,1,0\nB,-1,1\n", "-1,1,|accuracy" },
        { "t.csv", "sentence,label\nA,-1\nB,0.5\n", "|mse" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = settle(cases[i].name, cases[i].text);

        if (strncmp(got, cases[i].want, strlen(cases[i].want)))
            fail_msg("%zu: %s", i, got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_json_list),
        IN_TEMPDIR(test_line_ends),
        IN_TEMPDIR(test_pairs_of_tasks),
        IN_TEMPDIR(test_no_label),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
