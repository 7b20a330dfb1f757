/* test_chat_rows.c: files of conversations: each form as people have it, what is refused and in
 * which words, packed files whole, cut off and corrupt, and many rows in little memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "chat/rows.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static struct err e;

static void put(const char *name, const char *text) { tempdir_put(name, text, strlen(text)); }

static void say_turns(char *out, const struct chat_turns *t)
{
    char *m = json_dumps(t->messages, JSON_COMPACT);

    sprintf(out + strlen(out), "%s ", m);
    for (size_t i = 0; i < json_array_size(t->messages); i++)
        strncat(out, &"r-+p"[t->counts[i]], 1); // in the order of enum chat_counts
    free(m);
}

/* "line: messages counts", or "line: prompt|completion", then the other answer, tools, variables */
static void say_row(char *out, const struct chat_row *row)
{
    int two = row->form == CHAT_FORM_PREFERENCE;

    sprintf(out + strlen(out), "%zu: ", row->line);
    if (row->has_turns) {
        say_turns(out, &row->turns);
        if (two)
            strcat(out, " / "), say_turns(out, &row->other_turns);
    } else {
        sprintf(out + strlen(out), "%s|%s%s%s", row->prompt, row->completion, two ? "|" : "",
                two ? row->other : "");
    }
    const json_t *const besides[] = { row->tools, row->variables };
    for (size_t i = 0; i < 2; i++)
        if (besides[i]) {
            char *text = json_dumps(besides[i], JSON_COMPACT);
            sprintf(out + strlen(out), " %s", text);
            free(text);
        }
    strcat(out, "\n");
}

static int read_all(char *out, const char *name, enum chat_form form,
                    const struct chat_names *names)
{
    const struct chat_row *row;
    struct chat_rows      *r;
    int                    rc = chat_rows_open(&r, tempdir_at(name), form, names, &e);

    *out = 0;
    if (rc) {
        assert_null(r);
        return rc;
    }
    while ((rc = chat_rows_next(r, &row, &e)) > 0) {
        assert_int_equal(row->form, chat_rows_form(r));
        if (!*out)
            sprintf(out, "%s\n", chat_form_name(row->form));
        say_row(out, row);
    }
    chat_rows_close(r);
    return rc;
}

static void reads(const char *text, const char *want)
{
    char got[8192];

    put("r", text);
    if (read_all(got, "r", CHAT_FORM_FOUND, NULL))
        fail_msg("%s\n%s", text, e.text);
    assert_string_equal(got, want);
}

/* What is said behind the file's name. */
static void refuses_as(const char *text, const char *says, enum chat_form form,
                       const struct chat_names *names)
{
    char got[8192];

    put("r", text);
    assert_int_equal(read_all(got, "r", form, names), -EINVAL);
    const char *said = strstr(e.text, tempdir);
    said = said ? said + strlen(tempdir) + 2 : e.text;
    if (!e.misuse || strncmp(said, says, strlen(says)) != 0)
        fail_msg("%s\n'%s' does not begin with '%s'", text, said, says);
}

static void refuses(const char *text, const char *says)
{
    refuses_as(text, says, CHAT_FORM_FOUND, NULL);
}

#define U "{\"role\":\"user\",\"content\":\"q\"}"
#define A "{\"role\":\"assistant\",\"content\":\"a\"}"
#define B "{\"role\":\"assistant\",\"content\":\"b\"}"

static void test_messages(void **state)
{
    (void)state;
    reads("{\"messages\": [" U ", " A "], \"id\": 7}\n\n{\"x\": null, \"messages\": [" A "]}\n",
          "messages\n1: [" U "," A "] rr\n3: [" A "] r\n");
    // members stay as they are, in their order; parts, calls and what is said of training
    reads("[{\"messages\": [{\"content\": \"\\u00e9\\ud83d\\ude00\", \"role\": \"system\", "
          "\"x\": {\"b\": 1, \"a\": null}}, {\"role\": \"user\", \"content\": [{\"type\": "
          "\"text\", \"text\": \"q\"}]}, {\"role\": \"assistant\", \"content\": null, "
          "\"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", "
          "\"arguments\": \"{}\"}}], \"train\": false}, {\"role\": \"tool\", \"content\": \"1\"}, "
          "{\"role\": \"assistant\", \"content\": \"\", \"weight\": 1.0, \"train\": null}, "
          "{\"role\": \"user\", \"content\": \"\", \"train\": true}, "
          "{\"role\": \"assistant\", \"content\": \"x\", \"weight\": 0}], \"tools\": []},\n {"
          "\"messages\": [" A "], \"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\", "
          "\"chat_template_kwargs\": {\"enable_thinking\": false}}]",
          "messages\n1: [{\"content\":\"é😀\",\"role\":\"system\",\"x\":{\"b\":1,\"a\":null}},"
          "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]},"
          "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"type\":\"function\","
          "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}],\"train\":false},"
          "{\"role\":\"tool\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"\","
          "\"weight\":1.0,\"train\":null},{\"role\":\"user\",\"content\":\"\",\"train\":true},"
          "{\"role\":\"assistant\",\"content\":\"x\",\"weight\":0}] rr-r++- []\n"
          "2: [" A "] r [{\"name\":\"f\"}] {\"enable_thinking\":false}\n");
}

static void test_translated(void **state)
{
    (void)state;
    reads("{\"conversations\": [{\"from\": \"human\", \"value\": \"q\", \"weight\": null}, "
          "{\"from\": \"function_call\", \"value\": \"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": "
          "{\\\"x\\\": 1}}\"}, {\"from\": \"observation\", \"value\": \"1\"}, {\"value\": \"a\", "
          "\"from\": \"gpt\", \"weight\": 1}], \"system\": \"s\", \"tools\": \"[{\\\"name\\\": "
          "\\\"f\\\"}]\"}\n"
          "{\"conversations\": [" U ", " A "], \"system\": \"\", \"tools\": \"[]\"}",
          "sharegpt\n1: [{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":"
          "\"q\",\"weight\":null},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":["
          "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},"
          "{\"role\":\"tool\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"a\","
          "\"weight\":1}] rrrr+ [{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]\n"
          "2: [" U "," A "] rr\n");
    reads("{\"conversation\": [{\"from\": \"user\", \"value\": \"q\"}, {\"from\": \"chatgpt\", "
          "\"value\": \"a\"}]}", "sharegpt\n1: [" U "," A "] rr\n");
    reads("{\"instruction\": \"i\", \"input\": \"j\", \"output\": \"a\", \"system\": \"s\", "
          "\"history\": [[\"q\", \"b\"]]}\n{\"output\": \"\", \"instruction\": \"q\"}\n"
          "{\"instruction\": \"\", \"input\": \"q\", \"output\": \"a\", \"history\": []}",
          "alpaca\n1: [{\"role\":\"system\",\"content\":\"s\"}," U "," B ",{\"role\":\"user\","
          "\"content\":\"i\\nj\"}," A "] rrrrr\n"
          "2: [" U ",{\"role\":\"assistant\",\"content\":\"\"}] rr\n3: [" U "," A "] rr\n");
}

static void test_answers(void **state)
{
    (void)state;
    reads("{\"prompt\": \"p\", \"completion\": \"c\"}", "completion\n1: p|c\n");
    reads("{\"prompt\": [" U "], \"completion\": [" A "]}", "completion\n1: [" U "," A "] pr\n");
    reads("{\"text\": \"t\"}\n{\"text\": \"\"}", "text\n1: |t\n2: |\n");
    reads("{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"d\"}\n"
          "{\"chosen\": \"so yes\", \"rejected\": \"so no\"}\n"
          "{\"chosen\": \"\\u00e9\", \"rejected\": \"\\u00e8\"}\n"
          "{\"chosen\": \"ab\", \"rejected\": \"abc\"}",
          "preference\n1: p|c|d\n2: so| yes| no\n3: |é|è\n4: a|b|bc\n");
    reads("{\"prompt\": [" U "], \"chosen\": [" A "], \"rejected\": [" B "]}\n"
          "{\"chosen\": [" U ", " A "], \"rejected\": [" U ", " B "]}\n"
          "{\"prompt\": \"q\", \"chosen\": [" U ", " A "], \"rejected\": [" U ", " A "]}",
          "preference\n1: [" U "," A "] -r / [" U "," B "] -r\n"
          "2: [" U "," A "] -r / [" U "," B "] -r\n3: [" U "," A "] -r / [" U "," A "] -r\n");
}

static void test_csv(void **state)
{
    (void)state;
    reads("prompt,id,completion\n\"a, \"\"b\"\"\nc\",1,d\r\nx,2,\n",
          "completion\n2: a, \"b\"\nc|d\n4: x|\n");
    reads("\xEF\xBB\xBFinstruction,input,output,tools\nq,,a,\n", "alpaca\n2: [" U "," A "] rr\n");
    reads("\xEF\xBB\xBF{\"text\": \"a\"}\n\xEF\xBB\xBF{\"text\": \"b\"}\n", "text\n1: |a\n2: |b\n");
    refuses("messages\nx\n", ":2: \"messages\" is a text, a list of turns is expected: save such");
    refuses("a,a\n", ":1: two columns are named \"a\"");
    refuses("text,b\nx\n", ":2: 1 columns, 2 are expected");
    refuses("a;b\nx;y\n", ":2: the one column is named \"a;b\": a .csv has commas between its "
            "columns, and this file seems to have semicolons");
    refuses("a\tb\nx\ty\n", ":2: the one column is named \"a\\tb\": a .csv has commas between "
            "its columns, and this file seems to have tabs");
    refuses("a,b\nx,y\n", ":2: this row has the keys \"a\", \"b\", and fits no form of rows");
    refuses("a,b\n\"x\";y\n", ":2: a semicolon after the closing double quote of column 1");
}

static void test_names(void **state)
{
    struct chat_names names = { .messages = "chat" };
    char              got[1024];

    (void)state;
    put("r", "{\"chat\": [{\"from\": \"human\", \"value\": \"q\"}], \"text\": \"t\"}");
    assert_int_equal(read_all(got, "r", CHAT_FORM_FOUND, &names), 0);
    assert_string_equal(got, "sharegpt\n1: [" U "] r\n");
    put("r", "{\"chat\": [" U "], \"messages\": 1}");
    assert_int_equal(read_all(got, "r", CHAT_FORM_FOUND, &names), 0);
    assert_string_equal(got, "messages\n1: [" U "] r\n");
    names = (struct chat_names){ .prompt = "question", .completion = "answer" };
    put("r", "{\"question\": \"x\", \"answer\": \"y\"}\n{\"question\": \"x\"}");
    assert_int_equal(read_all(got, "r", CHAT_FORM_FOUND, &names), -EINVAL);
    assert_string_equal(got, "completion\n1: x|y\n");
    assert_non_null(strstr(e.text, "r:2: there is no \"answer\", which each row of the form "
                                   "completion has"));
    refuses_as("{\"text\": \"t\"}", ": a name is given for a key that rows of the form text",
               CHAT_FORM_TEXT, &names);
    names.text = "t";
    refuses_as("{}", ": the names of keys are of several forms", CHAT_FORM_FOUND, &names);
}

static void test_refused_rows(void **state)
{
    (void)state;
    refuses("", " is empty");
    refuses("[]", " has no rows");
    refuses_as("\n \n", " has no rows", CHAT_FORM_TEXT, NULL);
    refuses("{\"messages\": [" U "]}\n{\"text\": \"x\"}\n", ":2: there is no \"messages\"");
    refuses("{\"messages\": [" U "]}\n{\"messages\": null}\n", ":2: \"messages\" is null");
    refuses("{\"a\": 1, \"b\": 2}", ":1: this row has the keys \"a\", \"b\", and fits no form");
    refuses("{\"messages\": null}", ":1: this row has the keys \"messages\": null, and fits");
    refuses("{\"data\": [{\"messages\": []}]}", ":1: this row has the keys \"data\", and fits");
    assert_non_null(strstr(e.text, "jq -c '.\"data\"[]' writes them one per line"));
    refuses("{\"text\": \"x\", \"messages\": [" U "]}",
            ":1: this row fits the forms messages and text: --rows says");
    refuses("{\"messages\": [" U "]}\n{\"messages\": [" U "}\n", ":2 is not valid JSON: line 1");
    refuses("{\"text\": \"a\", \"text\": \"b\"}", ":1 is not valid JSON: line 1");
    refuses("{\n\"text\": \"a\"}\n", ":1: an object that is not in a list stands on one line");
    refuses("[{\"text\": \"a\"},\n{\"text\": \"b\"",
            ":2: the object that begins here does not end");
    refuses("{\"text\": 1}", ":1: \"text\" is a number, a text is expected");
    refuses("{\"text\": \"\\u0000\"}", ":1 is not valid JSON");
    refuses("{\"messages\": [" U "], \"images\": [\"a.png\"]}", ":1: it has \"images\"");
    refuses("{\"messages\": [" U "], \"system\": \"s\"}", ":1: it has \"system\" beside");
    refuses("{\"messages\": [" U "], \"tools\": \"x\"}", ":1: \"tools\" is a text, a list of tools "
            "is expected in it as JSON");
    refuses("{\"messages\": [" U "], \"tools\": [1]}", ":1: tool 1 of \"tools\" is a number");
    refuses("{\"messages\": [" U "], \"functions\": [{}]}", ":1: \"functions\" is not read");
    refuses("{\"prompt\": \"p\", \"completion\": [" A "]}", ":1: \"prompt\" is a text and "
            "\"completion\" is a list: both");
    refuses("{\"prompt\": \"p\", \"completion\": 3}", ":1: \"completion\" is a number, a text or");
    refuses("{\"chosen\": \"a\", \"rejected\": \"a\"}", ":1: \"chosen\" and \"rejected\" are the");
    refuses("{\"prompt\": \"x\", \"chosen\": [" U "," A "], \"rejected\": [" U "," B "]}",
            ":1: \"prompt\" is a text beside lists of turns, and is not");
    refuses("{\"instruction\": \"x\", \"chosen\": \"a\", \"rejected\": \"b\"}",
            ":1: it has \"instruction\" beside");
    refuses("{\"instruction\": \"x\", \"output\": \"a\"}\n{\"instruction\": \"\", \"output\": "
            "\"a\"}", ":2: \"instruction\" is missing or empty, and so is \"input\"");
    refuses("{\"instruction\": \"x\", \"output\": \"a\", \"history\": [[\"a\"]]}",
            ":1: pair 1 of \"history\"");
    refuses_as("{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}], \"system\": \"s\"}",
               ":1: both \"system\" and the first turn", CHAT_FORM_SHAREGPT, NULL);
}

static void test_refused_turns(void **state)
{
    static const struct { const char *turn, *says; } cases[] = {
        { "1", "it is a number, an object is expected" },
        { "{\"content\": \"x\"}", "it has no \"role\"" },
        { "{\"role\": 1, \"content\": \"x\"}", "\"role\" is a number, a text is expected" },
        { "{\"role\": \"bot\", \"content\": \"x\"}", "the \"role\" \"bot\" is not known" },
        { "{\"role\": \"user\"}", "it has no \"content\"" },
        { "{\"role\": \"user\", \"content\": null}", "\"content\" is null, a text is expected" },
        { "{\"role\": \"assistant\", \"content\": null}", "\"content\" is null" },
        { "{\"role\": \"user\", \"content\": []}", "\"content\" is an empty list" },
        { "{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}",
          "\"content\" has a part of type \"image_url\"" },
        { "{\"role\": \"user\", \"content\": [\"x\"]}", "\"content\" is a list whose part 1 is" },
        { "{\"from\": \"human\", \"value\": \"x\"}", "it has \"from\" where \"role\" is expected" },
        { "{\"role\": \"user\", \"content\": \"x\", \"train\": 1}", "\"train\" is a number, true" },
        { "{\"role\": \"user\", \"content\": \"x\", \"weight\": 0.5}", "\"weight\" is another" },
        { "{\"role\": \"user\", \"content\": \"x\", \"weight\": 0, \"train\": true}",
          "\"train\" and \"weight\" disagree" },
        { "{\"role\": \"assistant\", \"content\": \"x\", \"function_call\": {}}",
          "\"function_call\" is not read" },
        { "{\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [{\"function\": {}}]}",
          "a tool call has no \"name\"" },
        { "{\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [{\"name\": \"f\", "
          "\"arguments\": 1}]}", "\"arguments\" of a tool call is a number" },
    };
    char row[1024], says[1024];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sprintf(row, "{\"messages\": [" U ", %s]}", cases[i].turn);
        sprintf(says, ":1: turn 2 of \"messages\": %s", cases[i].says);
        refuses(row, says);
    }
    refuses("{\"messages\": []}", ":1: \"messages\" is an empty list");
    refuses("{\"messages\": {}}", ":1: \"messages\" is an object, a list of turns is expected");
    refuses("{\"conversations\": [{\"from\": \"me\", \"value\": \"x\"}]}",
            ":1: turn 1 of \"conversations\": \"from\" is \"me\", which is not known");
    refuses("{\"conversations\": [{\"from\": \"gpt\", \"content\": \"x\"}]}",
            ":1: turn 1 of \"conversations\": it has no \"value\"");
    refuses("{\"conversations\": [{\"from\": \"function_call\", \"value\": \"f()\"}]}",
            ":1: turn 1 of \"conversations\": the value of a function_call is not JSON");
}

/* ---- packed */

static size_t gzip(unsigned char *to, size_t most, const char *text)
{
    z_stream z = { 0 };

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)strlen(text);
    z.next_out = to;
    z.avail_out = (uInt)most;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return most - z.avail_out;
}

static size_t zstd(unsigned char *to, size_t most, const char *text)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();

    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1); // as the program zstd does
    size_t n = ZSTD_compress2(c, to, most, text, strlen(text));

    ZSTD_freeCCtx(c);
    return n;
}

static void test_packed(void **state)
{
    static const struct {
        size_t (*pack)(unsigned char *to, size_t most, const char *text);
        const char *name;
    } ways[] = { { gzip, "gzip" }, { zstd, "zstd" } };
    static char text[300000];
    char       *end = text, got[8192];

    (void)state;
    for (int i = 0; end - text < 290000; i++) // not all alike, and beyond one buffer
        end += sprintf(end, "{\"text\": \"row %d %u\"}\n", i, (unsigned)i * 2654435761u);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        static unsigned char packed[400000];
        size_t               n = ways[i].pack(packed, sizeof packed, "{\"text\": \"a\"}\n");
        char                 says[200];

        // two members are one text, also where the form is a list or a .csv
        n += ways[i].pack(packed + n, sizeof packed - n, "{\"text\": \"b\"}\n");
        tempdir_put("r", packed, n);
        assert_int_equal(read_all(got, "r", CHAT_FORM_FOUND, NULL), 0);
        assert_string_equal(got, "text\n1: |a\n2: |b\n");
        n = ways[i].pack(packed, sizeof packed, "\xEF\xBB\xBFtext\nx\n");
        tempdir_put("r", packed, n);
        assert_int_equal(read_all(got, "r", CHAT_FORM_FOUND, NULL), 0);
        assert_string_equal(got, "text\n2: |x\n");

        n = ways[i].pack(packed, sizeof packed, text);
        static char many[1 << 20];
        tempdir_put("r", packed, n);
        assert_int_equal(read_all(many, "r", CHAT_FORM_FOUND, NULL), 0);
        assert_non_null(strstr(many, "\n9000: |row 8999 "));
        for (size_t keep = 1; keep < 100; keep += 7) { // cut off at many places
            tempdir_put("r", packed, n * keep / 100);
            assert_int_equal(read_all(many, "r", CHAT_FORM_FOUND, NULL), -EINVAL);
            sprintf(says, "r is a %s file that was cut off: after ", ways[i].name);
            if (!strstr(e.text, says))
                fail_msg("%zu%%: %s", keep, e.text);
        }
        packed[n / 2] ^= 0x55;
        packed[n / 2 + 1] ^= 0x55;
        tempdir_put("r", packed, n);
        assert_int_equal(read_all(many, "r", CHAT_FORM_FOUND, NULL), -EINVAL);
        sprintf(says, "r is a %s file that is corrupt: after ", ways[i].name);
        if (!strstr(e.text, says))
            fail_msg("%s", e.text);
        n = ways[i].pack(packed, sizeof packed, "{\"text\": \"a\"}\n");
        memcpy(packed + n, "rubbish", 7);
        tempdir_put("r", packed, n + 7);
        assert_int_equal(read_all(got, "r", CHAT_FORM_FOUND, NULL), -EINVAL);
        assert_non_null(strstr(e.text, "corrupt"));
        n = ways[i].pack(packed, sizeof packed, "PAR1\1\2\3\4");
        tempdir_put("r", packed, n);
        assert_int_equal(read_all(got, "r", CHAT_FORM_FOUND, NULL), -EINVAL);
        assert_non_null(strstr(e.text, "a Parquet file, not rows of conversations: python3"));
    }
    refuses("PAR1\1\2\3\4", " is a Parquet file, not rows of conversations: python3 -c \"import "
            "sys, pandas; print(pandas.read_parquet(sys.argv[1]).to_json(orient='records', "
            "lines=True, force_ascii=False), end='')\"");
}

/* Memory is that of the longest row. */
static void test_many(void **state)
{
    const char *const row = "{\"messages\": [" U ", {\"role\": \"assistant\", \"content\": "
                            "\"%0*d\"}]}\n";
    const struct chat_row *is;
    struct chat_rows      *r;
    FILE                  *f = fopen(tempdir_at("r"), "w");
    size_t                 n = 0, begun = 0, most = 0;

    (void)state;
    for (int i = 0; i < 100000; i++)
        fprintf(f, row, i == 500 ? 100000 : 60, i);
    fclose(f);
    assert_int_equal(chat_rows_open(&r, tempdir_at("r"), CHAT_FORM_FOUND, NULL, &e), 0);
    while (chat_rows_next(r, &is, &e) > 0)
        if (++n == 1000)
            begun = most = mallinfo2().uordblks;
        else if (n > 1000 && n % 1000 == 0 && mallinfo2().uordblks > most)
            most = mallinfo2().uordblks;
    chat_rows_close(r);
    assert_int_equal(n, 100000);
    assert_true(most < begun + 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_messages), IN_TEMPDIR(test_translated), IN_TEMPDIR(test_answers),
        IN_TEMPDIR(test_csv), IN_TEMPDIR(test_names), IN_TEMPDIR(test_refused_rows),
        IN_TEMPDIR(test_refused_turns), IN_TEMPDIR(test_packed), IN_TEMPDIR(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
