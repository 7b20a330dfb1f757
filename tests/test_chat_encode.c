/* test_chat_encode.c: rows as ids and what counts of them, against transformers and TRL
 * (tests/fixtures/chat.json, made by make_chat.py): each with the template's {% generation %}, and
 * with the same template without it; where ids come from; texts that spell control tokens.
 *
 *     test_chat_encode FOLDER ROWS    prints ids, and which count, of each row (make_chat.py) */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "chat/prompt.h"
#include "data/json/json.h"
#include "tests/tempdir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct err e;

struct model { struct tokenizer *tok; struct chat_template *chat; };

static void put_text(const char *name, const char *text) { tempdir_put(name, text, strlen(text)); }

static void model_open(struct model *m, const json_t *said, const char *template)
{
    const json_t *config = json_object_get(said, "config"),
                 *tokenizer = json_object_get(said, "tokenizer");

    assert_int_equal(json_write(config, tempdir_at("tokenizer_config.json"), 0, &e), 0);
    assert_int_equal(json_write(tokenizer, tempdir_at("tokenizer.json"), 0, &e), 0);
    put_text("chat_template.jinja", template);
    if (tokenizer_open(&m->tok, tempdir, &e) || chat_template_open(&m->chat, tempdir, NULL, &e))
        fail_msg("%s", e.text);
}

static void model_close(struct model *m)
{
    tokenizer_close(m->tok);
    chat_template_close(m->chat);
}

/* The first row of a file, encoded. */
static int encoded(const struct chat_encoding *how, const char *path, struct chat_ids *out,
                   struct chat_ids *other)
{
    struct chat_rows      *rows;
    const struct chat_row *row;
    int                    rc = chat_rows_open(&rows, path, CHAT_FORM_FOUND, NULL, &e);

    if (rc == 0 && chat_rows_next(rows, &row, &e) != 1)
        rc = -1;
    rc = rc ? rc : chat_encode(how, row, out, other, &e);
    chat_rows_close(rows);
    return rc;
}

static int row_encoded(const struct chat_encoding *how, const json_t *row, struct chat_ids *out)
{
    struct chat_ids other = { 0 };
    char           *line = json_dumps(row, JSON_COMPACT);

    put_text("rows.jsonl", line);
    free(line);
    int rc = encoded(how, tempdir_at("rows.jsonl"), out, &other);

    chat_ids_free(&other);
    return rc;
}

static void same(const struct chat_ids *got, const json_t *c, const char *what)
{
    const json_t *ids = json_object_get(c, "ids"), *counts = json_object_get(c, "counts");
    size_t        n = json_array_size(ids), i = 0, counted = 0;

    for (; i < n && i < got->ids.n; i++) {
        json_int_t count = json_integer_value(json_array_get(counts, i));

        if (json_integer_value(json_array_get(ids, i)) != got->ids.ids[i] ||
            count != got->counts[i])
            break;
        counted += got->counts[i];
    }
    if (i < n || i < got->ids.n) {
        char *row = json_dumps(json_object_get(c, "row"), JSON_COMPACT);

        fail_msg("%s: %s: token %zu of %zu (expected %zu): %d, counts %d, instead of %lld, %lld",
                 what, row, i, got->ids.n, n, i < got->ids.n ? got->ids.ids[i] : -1,
                 i < got->ids.n ? got->counts[i] : -1,
                 (long long)json_integer_value(json_array_get(ids, i)),
                 (long long)json_integer_value(json_array_get(counts, i)));
    }
    assert_int_equal(got->counted, counted);
}

static enum chat_loss loss_of(const json_t *c)
{
    const char *loss = json_str(c, "loss");

    return !strcmp(loss, "all") ? CHAT_LOSS_ALL
           : *loss == 'l'       ? CHAT_LOSS_LAST
                                : CHAT_LOSS_ANSWERS;
}

/* Whether a row has an answer that is empty. Where the template does not write its role, nothing
 * says by origin that it is there. */
static int has_empty(const json_t *row)
{
    const json_t *messages = json_object_get(row, "messages");
    size_t        i = 0, n = json_array_size(messages);

    while (i < n && (*json_str(json_array_get(messages, i), "content") ||
                     json_object_get(json_array_get(messages, i), "tool_calls")))
        i++;
    return i < n;
}

static void check_cases(const struct model *m, const json_t *said, const char *what)
{
    const json_t   *cases = json_object_get(said, "cases");
    struct chat_ids got = { 0 };

    int writes_role = !strcmp(what, "qwen") || !strcmp(what, "llama");

    assert_true(json_array_size(cases) >= 25);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t        *c = json_array_get(cases, i);
        struct chat_encoding how = { .tok = m->tok, .chat = m->chat, .loss = loss_of(c) };

        if (has_empty(json_object_get(c, "row")) && !writes_role &&
            !chat_template_marks(m->chat, NULL))
            continue;
        if (row_encoded(&how, json_object_get(c, "row"), &got))
            fail_msg("%s: %s", what, e.text);
        same(&got, c, what);
    }
    chat_ids_free(&got);
}

/* ---- where ids come from ---- */

/* The bytes of each id, with the whole characters that they are of. */
static void check_offsets(struct tokenizer *t, const json_t *said, const char *what)
{
    const json_t      *cases = json_object_get(said, "offsets");
    struct token_buf   ids = { 0 };
    struct token_spans got = { 0 };

    assert_true(json_array_size(cases) >= 20);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t       *c = json_array_get(cases, i), *want = json_object_get(c, "spans");
        const char         *text = json_str(c, "text");
        struct token_source source = { text, strlen(text), NULL, 0 };

        ids.n = got.n = 0;
        assert_int_equal(tokenizer_encode_spans(t, &source, &ids, &got, &e), 0);
        assert_int_equal(got.n, json_array_size(want));
        for (size_t k = 0; k < got.n; k++) {
            const json_t     *w = json_array_get(want, k);
            struct token_span s = got.list[k];

            while (s.from && (text[s.from] & 0xC0) == 0x80)
                s.from--;
            while ((text[s.to] & 0xC0) == 0x80)
                s.to++;
            if ((json_int_t)s.from != json_integer_value(json_array_get(w, 0)) ||
                (json_int_t)s.to != json_integer_value(json_array_get(w, 1)))
                fail_msg("%s: id %zu of \"%s\" comes from %zu to %zu", what, k, text, s.from, s.to);
        }
    }
    token_buf_free(&ids);
    token_spans_free(&got);
}

/* ---- texts that spell control tokens ---- */

static size_t controls(const struct tokenizer *t, const struct token_buf *ids)
{
    size_t n = 0;

    for (size_t i = 0; i < ids->n; i++)
        n += tokenizer_is_control(t, ids->ids[i]) != 0;
    return n;
}

/* A row whose contents are all "x". */
static json_t *harmless(const json_t *row)
{
    json_t *copy = json_deep_copy(row), *messages = json_object_get(copy, "messages");

    for (size_t i = 0; i < json_array_size(messages); i++)
        json_object_set_new(json_array_get(messages, i), "content", json_string("x"));
    return copy;
}

static void check_text(const struct tokenizer *t, const struct token_buf *ids, const char *want,
                       const char *what)
{
    struct token_text x = { 0 };

    for (size_t i = 0; i < ids->n; i++)
        assert_int_equal(tokenizer_text_add(t, &x, ids->ids[i], 0, &e), 0);
    assert_int_equal(tokenizer_text_end(t, &x, &e), 0);
    if (x.n != strlen(want) || memcmp(x.text, want, x.n))
        fail_msg("%s: \"%.*s\" instead of \"%s\"", what, (int)x.n, x.text, want);
    token_text_free(&x);
}

static void check_spelled(const struct model *m, const json_t *said, const char *what)
{
    const json_t        *cases = json_object_get(said, "spelled");
    struct chat_encoding how = { .tok = m->tok, .chat = m->chat };
    struct chat_ids      got = { 0 }, plain = { 0 };

    assert_true(json_array_size(cases) >= 10);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *row = json_object_get(c, "row");
        const json_t *want = json_object_get(c, "with_special");
        const char   *text = json_str(c, "text");
        json_t       *other = harmless(row);

        how.special_in_text = 0;
        assert_int_equal(row_encoded(&how, row, &got), 0);
        assert_int_equal(row_encoded(&how, other, &plain), 0);
        assert_int_equal(controls(m->tok, &got.ids), controls(m->tok, &plain.ids));
        // a decoder makes spaces of Gemma's marks, and Mistral's drops spaces
        if (strcmp(what, "mistral") && (strcmp(what, "gemma") || !strstr(text, "\u2581")))
            check_text(m->tok, &got.ids, text, what);
        how.special_in_text = 1;
        assert_int_equal(row_encoded(&how, row, &got), 0);
        assert_int_equal(got.ids.n, json_array_size(want));
        for (size_t k = 0; k < got.ids.n; k++)
            assert_int_equal(got.ids.ids[k], json_integer_value(json_array_get(want, k)));
        json_decref(other);
    }
    chat_ids_free(&got);
    chat_ids_free(&plain);
}

static json_t *fixture(void)
{
    json_t *models;

    if (json_read(&models, "tests/fixtures/chat.json", (size_t)1 << 26, &e))
        fail_msg("%s", e.text);
    return models;
}

static void test_fixture(void **state)
{
    static const char *const templates[] = { "template", "unmarked" };
    json_t                  *models = fixture(), *said;
    const char              *name;

    (void)state;
    assert_int_equal(json_object_size(models), 5);
    json_object_foreach(models, name, said)
        for (size_t i = 0; i < 2; i++) {
            struct model m;

            print_message("# %s, %s\n", name, templates[i]);
            model_open(&m, said, json_str(said, templates[i]));
            assert_int_equal(chat_template_marks(m.chat, NULL), i == 0);
            check_cases(&m, said, name);
            check_spelled(&m, said, name);
            check_offsets(m.tok, said, name);
            model_close(&m);
        }
    json_decref(models);
}

/* Of a row as JSON, in which X stands for a word. */
static size_t controls_with(const struct model *m, const char *row, const char *word)
{
    struct chat_encoding how = { .tok = m->tok, .chat = m->chat };
    struct chat_ids      got = { 0 }, other = { 0 };
    char                 text[2000] = "";

    for (const char *at = row; *at; at++)
        strncat(text, *at == 'X' ? word : at, *at == 'X' ? strlen(word) : 1);
    put_text("rows.jsonl", text);
    if (encoded(&how, tempdir_at("rows.jsonl"), &got, &other))
        fail_msg("%s", e.text);
    size_t n = controls(m->tok, &got.ids);

    chat_ids_free(&got);
    chat_ids_free(&other);
    return n;
}

/* Wherever a row says something: names, keys of objects, numbers of a list, further variables. */
static void test_spelled_anywhere(void **state)
{
    static const char row[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"X\", "
        "\"X\": 1}], \"name\": \"X\"}, {\"role\": \"assistant\", \"content\": \"\", \"thinking\": "
        "\"X\", \"tool_calls\": [{\"id\": \"X\", \"function\": {\"name\": \"X\", \"arguments\": "
        "{\"X\": [\"X\", {\"aX\": null}]}}}]}], \"tools\": [{\"X\": {\"X\": \"X\"}}], "
        "\"chat_template_kwargs\": {\"more\": {\"X\": \"X\"}}}";
    static const char *const templates[] = {
        "<|im_start|>{{ messages | tojson }}{{ tools | tojson(indent=2) }}{{ more }}",
        "<|im_start|>{% for m in messages %}{{ m.content | tojson }}{{ m.name }}{{ m.thinking }}"
        "{{ m.tool_calls }}{% endfor %}"
        "{% for t in tools %}{% for k, v in t.items() %}{{ k }}{{ v }}"
        "{% endfor %}{% endfor %}{% for k in more %}{{ k | upper | lower }}{{ more[k] }}"
        "{% endfor %}{{ messages[1].tool_calls[0].function.arguments | dictsort }}",
    };
    json_t *models = fixture();

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct model m;

        model_open(&m, json_object_get(models, "qwen"), templates[i]);
        assert_int_equal(controls_with(&m, row, "x"), 1);
        assert_int_equal(controls_with(&m, row, "<|im_end|>"), 1);
        model_close(&m);
    }
    json_decref(models);
}

/* ---- what turns end with ---- */

/* A row of a template, with what counts in brackets. */
static void marked(char *out, const struct model *m, const char *row)
{
    struct chat_encoding how = { .tok = m->tok, .chat = m->chat };
    struct chat_ids      got = { 0 }, other = { 0 };
    struct token_text    x = { 0 };
    int                  open = 0;

    put_text("rows.jsonl", row);
    if (encoded(&how, tempdir_at("rows.jsonl"), &got, &other))
        fail_msg("%s", e.text);
    for (size_t i = 0; i < got.ids.n; i++) {
        if (got.counts[i] != open) {
            assert_int_equal(tokenizer_text_end(m->tok, &x, &e), 0);
            out += sprintf(out, "%.*s%s", (int)x.n, x.text, open ? "]" : "[");
            x.n = 0;
        }
        open = got.counts[i];
        assert_int_equal(tokenizer_text_add(m->tok, &x, got.ids.ids[i], 0, &e), 0);
    }
    assert_int_equal(tokenizer_text_end(m->tok, &x, &e), 0);
    sprintf(out, "%.*s%s", (int)x.n, x.text, open ? "]" : "");
    token_text_free(&x);
    chat_ids_free(&got);
    chat_ids_free(&other);
}

#define SAID(role, content) "{\"role\": \"" role "\", \"content\": \"" content "\"}"
#define ROW                                                                           \
    "{\"messages\": [" SAID("user", "a") ", " SAID("assistant", "b c") ", " SAID("user", "d") \
    ", " SAID("assistant", "e") "]}"
#define CALLS                                                                                    \
    "{\"messages\": [" SAID("user", "a") ", {\"role\": \"assistant\", \"content\": \"\", "     \
    "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {}}}]}]}"
#define TOLD                                                                        \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"train\": true}, "          \
    "{\"role\": \"assistant\", \"content\": \"b\", \"train\": false}]}"

static void test_closing(void **state)
{
    static const struct { const char *template, *row, *want; } cases[] = {
        // closed by text, which is what both turns have behind them
        { "{% for m in messages %}[{{ m.role }}] {{ m.content }} end.\n{% endfor %}"
          "{% if add_generation_prompt %}[assistant] {% endif %}", ROW,
          "[user] a end.\n[assistant] [b c end.\n][user] d end.\n[assistant] [e end.\n]" },
        // closed by nothing; no word of what goes on
        { "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '\n' if not loop.last }}"
          "{% endfor %}", ROW, "user: a\nassistant: [b c]\nuser: d\nassistant: [e]" },
        // a token that begins the next turn closes this one, as GLM has it
        { "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}", ROW,
          "<|im_start|>a<|im_start|>[b c<|im_start|>]d<|im_start|>[e]" },
        // a row says what counts; the user's turn is closed, too
        { "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
          "{% endfor %}", TOLD,
          "<|im_start|>user\n[a<|im_end|>]\n<|im_start|>assistant\nb<|im_end|>\n" },
        // with a token that ends texts behind another
        { "{% for m in messages %}{{ m.role }}\n{{ m.content }}<|endoftext|><|im_end|>\n"
          "{% endfor %}", ROW,
          "user\na<|endoftext|><|im_end|>\nassistant\n[b c<|endoftext|><|im_end|>]\nuser\nd"
          "<|endoftext|><|im_end|>\nassistant\n[e<|endoftext|><|im_end|>]\n" },
        // content that is changed on its way; nobody else writes what begins a turn
        { "{% for m in messages %}<|im_start|>{{ m.content | upper | replace('B', 'xBx') }}"
          "<|im_end|>{% endfor %}", ROW, "<|im_start|>A<|im_end|>[<|im_start|>xBx C<|im_end|>]"
          "<|im_start|>D<|im_end|>[<|im_start|>E<|im_end|>]" },
        // calls as JSON, with the brackets that open it, of a template that asks for no answer
        { "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
          "{{ (m.tool_calls | tojson) if m.tool_calls }}<|im_end|>{% endfor %}", CALLS,
          "<|im_start|>user\na<|im_end|><|im_start|>assistant\n"
          "[[{\"function\": {\"name\": \"f\", \"arguments\": {}}}]<|im_end|>]" },
    };
    json_t *models = fixture();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        char         out[1000];

        model_open(&m, json_object_get(models, "qwen"), cases[i].template);
        marked(out, &m, cases[i].row);
        assert_string_equal(out, cases[i].want);
        model_close(&m);
    }
    json_decref(models);
}

/* Of a folder's two templates, the one that writes a row says whether it marks what counts. */
static void test_two_templates(void **state)
{
    static const char row[] = "{\"messages\": [" SAID("user", "a") ", " SAID("assistant", "b") "]";
    json_t           *models = fixture();
    struct model      m;
    char              out[200], line[200];

    (void)state;
    assert_int_equal(mkdir(tempdir_at("additional_chat_templates"), 0700), 0);
    put_text("additional_chat_templates/tool_use.jinja",
             "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}");
    model_open(&m, json_object_get(models, "qwen"),
               "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}-"
               "{% endfor %}");
    snprintf(line, sizeof line, "%s}", row);
    marked(out, &m, line);
    assert_string_equal(out, "[a]-[b]-");
    snprintf(line, sizeof line, "%s, \"tools\": [{}]}", row);
    marked(out, &m, line);
    assert_string_equal(out, "<|im_start|>a<|im_end|>[<|im_start|>b<|im_end|>]");
    model_close(&m);
    json_decref(models);
}

/* Both answers of a preference, and rows without a template. */
static void test_others(void **state)
{
    json_t         *models = fixture();
    struct model    m;
    struct chat_ids one = { 0 }, other = { 0 };

    (void)state;
    model_open(&m, json_object_get(models, "llama"), "{{ messages[0].role }}");
    struct chat_encoding how = { .tok = m.tok };

    put_text("rows.jsonl", "{\"prompt\": \"a b\", \"chosen\": \" yes\", \"rejected\": \" no\"}");
    assert_int_equal(encoded(&how, tempdir_at("rows.jsonl"), &one, &other), 0);
    assert_true(one.ids.n > 3 && other.ids.n > 3 && one.counted && other.counted);
    assert_int_equal(one.counts[0] | other.counts[0], 0);
    assert_memory_equal(one.ids.ids, other.ids.ids, 3 * sizeof *one.ids.ids);
    put_text("rows.jsonl", ROW);
    assert_int_not_equal(encoded(&how, tempdir_at("rows.jsonl"), &one, &other), 0);
    assert_non_null(strstr(e.text, "rows.jsonl:1: a conversation needs a chat template"));
    how.chat = m.chat;
    assert_int_equal(encoded(&how, tempdir_at("rows.jsonl"), &one, &other), 0);
    assert_int_equal(one.counted, 0);
    put_text("empty", "{% if 0 %}{% endif %}");
    struct chat_template *empty;
    assert_int_equal(chat_template_open(&empty, tempdir, tempdir_at("empty"), &e), 0);
    chat_ids_free(&one);
    how.chat = empty;
    assert_int_equal(encoded(&how, tempdir_at("rows.jsonl"), &one, &other), 0);
    assert_int_equal(one.ids.n, 0);
    chat_template_close(empty);
    model_close(&m);
    chat_ids_free(&one);
    chat_ids_free(&other);
    json_decref(models);
}

/* Which token closes an answer, as generation asks, or which text. {% generation %} may have a
 * newline behind it. */
static void test_closing_token(void **state)
{
#define TURN(inner) "{% for m in messages %}<|im_start|>{{ m.role }}:" inner "{% endfor %}"
    static const struct { const char *template; int closes; const char *text; } cases[] = {
        { TURN("{{ m.content }}<|im_end|>\n"), 1, NULL },
        { TURN("{% generation %}{{ m.content }}<|im_end|>\n{% endgeneration %}"), 1, NULL },
        { TURN("{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>\n"), 0, NULL },
        { TURN("{{ m.content }} <|no_token|>\n"), 0, "<|no_token|>" },
        { TURN("{{ m.content }}\n"), 0, NULL },
        { TURN("{% generation %}<|im_end|>{{ m.content }}{% endgeneration %}"), 0, NULL },
    };
#undef TURN
    json_t *models = fixture();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        int32_t      id;
        char        *text;

        model_open(&m, json_object_get(models, "qwen"), cases[i].template);
        struct chat_encoding how = { .tok = m.tok, .chat = m.chat };

        assert_int_equal(chat_closing(&how, &id, &text, &e), 0);
        assert_int_equal(id, cases[i].closes ? tokenizer_endoftext(m.tok) : -1);
        if (cases[i].text)
            assert_string_equal(text, cases[i].text);
        else
            assert_null(text);
        free(text);
        model_close(&m);
    }
    json_decref(models);
}

/* A text that was rendered before begins once, whether the tokenizer begins it or the text does. */
static void test_begins_once(void **state)
{
    static const char *const rows[] = {
        "{\"text\": \"<|begin_of_text|>a<|eot_id|>\"}", "{\"text\": \"a<|eot_id|>\"}",
        "{\"prompt\": \"<|begin_of_text|>a\", \"completion\": \"<|eot_id|>\"}",
    };
    json_t         *models = fixture();
    struct model    m;
    struct chat_ids got[3] = { { .counted = 0 } }, other = { 0 };

    (void)state;
    model_open(&m, json_object_get(models, "llama"), "{{ messages[0].role }}");
    struct chat_encoding how = { .tok = m.tok, .special_in_text = 1 };

    for (size_t i = 0; i < 3; i++) {
        put_text("rows.jsonl", rows[i]);
        assert_int_equal(encoded(&how, tempdir_at("rows.jsonl"), &got[i], &other), 0);
        assert_int_equal(got[i].ids.n, 3);
        assert_int_equal(got[i].ids.ids[0], tokenizer_begin(m.tok));
        assert_int_equal(got[i].ids.ids[2], tokenizer_endoftext(m.tok));
        assert_memory_equal(got[i].ids.ids, got[0].ids.ids, 3 * sizeof *got[i].ids.ids);
        assert_int_equal(got[i].counts[1], i < 2);
        assert_int_equal(got[i].counts[2], 1);
    }
    for (size_t i = 0; i < 3; i++)
        chat_ids_free(&got[i]);
    model_close(&m);
    json_decref(models);
}

/* ---- rows of a file, for make_chat.py ---- */

static int print_rows(const char *dir, const char *path)
{
    struct model           m = { 0 };
    struct chat_rows      *rows = NULL;
    const struct chat_row *row;
    struct chat_ids        out = { 0 }, other = { 0 };
    int rc = tokenizer_open(&m.tok, dir, &e), got = 0;

    rc = rc ? rc : chat_template_open(&m.chat, dir, NULL, &e);
    rc = rc ? rc : chat_rows_open(&rows, path, CHAT_FORM_FOUND, NULL, &e);
    struct chat_encoding how = { .tok = m.tok, .chat = m.chat, .now = time(NULL) };

    while (!rc && (got = chat_rows_next(rows, &row, &e)) > 0) {
        printf("[");
        if (chat_encode(&how, row, &out, &other, &e))
            printf("\"refused\"");
        else
            for (size_t i = 0; i < out.ids.n; i++)
                printf("%s[%d,%d]", i ? "," : "", out.ids.ids[i], out.counts[i]);
        printf("]\n");
    }
    if (rc || got < 0)
        fprintf(stderr, "%s\n", e.text);
    chat_rows_close(rows);
    model_close(&m);
    chat_ids_free(&out);
    chat_ids_free(&other);
    return rc || got < 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_fixture),
        IN_TEMPDIR(test_spelled_anywhere),
        IN_TEMPDIR(test_closing),
        IN_TEMPDIR(test_two_templates),
        IN_TEMPDIR(test_others),
        IN_TEMPDIR(test_closing_token),
        IN_TEMPDIR(test_begins_once),
    };

    if (argc == 3)
        return print_rows(argv[1], argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
