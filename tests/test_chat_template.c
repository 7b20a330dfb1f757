/* test_chat_template.c: the chat template of a folder: where its text comes from, which messages a
 * template gets, which of several is taken, and folders that have none or a wrong one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "chat/template.h"
#include "tests/tempdir.h"

#include <string.h>
#include <sys/stat.h>

static struct err e;

static void put(const char *name, const char *text) { tempdir_put(name, text, strlen(text)); }

static json_t *json_of(const char *text)
{
    json_t *v;

    assert_int_equal(json_parse(&v, text, strlen(text), "a test", &e), 0);
    return v;
}

static struct chat_template *opened(const char *name)
{
    struct chat_template *t;

    if (chat_template_open(&t, tempdir, name, &e))
        fail_msg("%s", e.text);
    return t;
}

/* What the folder's template, or the one of this name, writes. */
static void writes(const char *name, const char *messages, const char *tools, const char *want)
{
    struct chat_template *t = opened(name);
    json_t               *m = json_of(messages), *with = tools ? json_of(tools) : NULL, *kept;
    const struct chat_rendering how = { .messages = m, .tools = with };
    struct jinja_output   out;

    assert_non_null(t);
    if (chat_template_render(t, &how, &out, &kept, &e))
        fail_msg("%s", e.text);
    assert_string_equal(out.text, want);
    jinja_output_free(&out);
    json_decref(kept);
    json_decref(m);
    json_decref(with);
    chat_template_close(t);
}

static void refuses(const char *name, const char *says)
{
    struct chat_template *t;

    assert_int_equal(chat_template_open(&t, tempdir, name, &e), -EINVAL);
    assert_null(t);
    if (!e.misuse || !strstr(e.text, says))
        fail_msg("'%s' without '%s'", e.text, says);
}

#define ONE "[{\"role\": \"user\", \"content\": \"q\"}]"

static void test_places(void **state)
{
    (void)state;
    assert_null(opened(NULL));
    put("tokenizer_config.json", "{\"chat_template\": null}");
    assert_null(opened(NULL));
    refuses("x", "x is neither a file nor a chat template of");
    put("chat_template.json", "{\"chat_template\": \"processor\"}");
    writes(NULL, ONE, NULL, "processor");
    put("tokenizer_config.json", "{\"chat_template\": \"text {{ eos_token }}\", \"eos_token\": "
                                 "{\"content\": \"E\"}, \"x_token\": \"X\"}");
    writes(NULL, ONE, "[]", "text E");
    writes("default", ONE, NULL, "text E");
    put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\", \"template\": "
                                 "\"d\"}, {\"name\": \"tool_use\", \"template\": \"t\"}]}");
    writes(NULL, ONE, NULL, "d");
    writes(NULL, ONE, "[]", "t");
    writes("default", ONE, "[]", "d");
    put("tokenizer_config.json", "{\"chat_template\": {\"a\": \"x\", \"b\": \"y\"}}");
    refuses(NULL, "none is named default: --chat-template takes one of a, b");
    writes("b", ONE, NULL, "y");
    put("chat_template.jinja", "{{ bos_token is defined }}");
    writes(NULL, ONE, NULL, "False");
    mkdir(tempdir_at("additional_chat_templates"), 0700);
    put("additional_chat_templates/rag.jinja", "rag");
    writes("rag", ONE, NULL, "rag");
    refuses("other", "which has: default, rag");
    put("chat_template.jinja", "{% if %}");
    refuses(NULL, "chat_template.jinja, line 1: ");
    put("chat_template.jinja", "a\xFF");
    refuses(NULL, "chat_template.jinja is not a chat template: it is not UTF-8");
    put("own", "own");
    char *own = strdup(tempdir_at("own"));
    writes(own, ONE, NULL, "own"); // whatever the folder has
    free(own);
}

/* What is null goes, and thoughts are under both of their names. */
static void test_messages(void **state)
{
    (void)state;
    put("chat_template.jinja", "{{ messages | tojson }}{{ tools is none }}{{ documents is none }}");
    writes(NULL, "[{\"role\": \"assistant\", \"content\": null, \"reasoning\": \"r\", \"x\": "
                 "[null]}]", NULL,
           "[{\"thinking\": \"r\", \"role\": \"assistant\", \"reasoning\": \"r\", \"x\": [null], "
           "\"reasoning_content\": \"r\"}]TrueTrue");
    writes(NULL, "[{\"role\": \"user\", \"thinking\": \"t\", \"reasoning_content\": \"r\"}]", "[]",
           "[{\"thinking\": \"t\", \"role\": \"user\", \"reasoning_content\": \"r\"}]FalseTrue");
}

/* Spans point to the strings of the caller's messages; a template says whether it marks. */
static void test_origins(void **state)
{
    json_t                     *m = json_of("[{\"role\": \"assistant\", \"content\": \" yes \"}]"),
                               *kept;
    const struct chat_rendering how = { .messages = m, .generation_prompt = 1, .bos = "<s>" };
    struct jinja_output         out;

    (void)state;
    put("chat_template.jinja", "{{ bos_token }}{% for m in messages %}{% generation %}"
                               "{{ m.content | trim }}!{% endgeneration %}{% endfor %}"
                               "{% if add_generation_prompt %}?{% endif %}");
    struct chat_template *t = opened(NULL);
    assert_int_equal(chat_template_marks(t, NULL), 1);
    assert_int_equal(chat_template_render(t, &how, &out, &kept, &e), 0);
    assert_string_equal(out.text, "<s>yes!?");
    assert_int_equal(out.n_spans, 4);
    assert_ptr_equal(out.span[1].from, json_object_get(json_array_get(m, 0), "content"));
    assert_true(out.span[1].generation && out.span[2].generation && !out.span[3].generation);
    jinja_output_free(&out);
    json_decref(kept);
    chat_template_close(t);
    json_decref(m);
    put("chat_template.jinja", "x");
    t = opened(NULL);
    assert_int_equal(chat_template_marks(t, NULL), 0);
    chat_template_close(t);
}

/* What the folder's own files say, without our preference for one of them. */
static void config_says(const char *want)
{
    json_t *config;

    assert_int_equal(json_read(&config, tempdir_at("tokenizer_config.json"), 1 << 20, &e), 0);
    assert_string_equal(json_str(config, "chat_template"), want);
    assert_true(json_number_value(json_object_get(config, "model_max_length")) > 9e29);
    json_decref(config);
}

/* Another template replaces the folder's own everywhere: llama.cpp's converter looks into
 * tokenizer_config.json first. */
static void test_keep(void **state)
{
    (void)state;
    put("tokenizer_config.json", "{\"chat_template\": \"old\", \"model_max_length\": "
                                 "1000000000000000019884624838656}");
    put("own", "own");
    char                 *own = strdup(tempdir_at("own"));
    struct chat_template *t = opened(own);

    assert_int_equal(chat_template_keep(t, tempdir, &e), 0);
    chat_template_close(t);
    free(own);
    config_says("own");
    writes(NULL, ONE, NULL, "own");
}

static void test_date(void **state)
{
    const char *const wrong[] = { "", "2024-02-30", "2024-1-1", "24-01-01", "2024-01-01x" };
    time_t            at;
    struct tm         tm;

    (void)state;
    assert_int_equal(chat_date(&at, "2024-02-29", &e), 0);
    localtime_r(&at, &tm);
    assert_true(tm.tm_year == 124 && tm.tm_mon == 1 && tm.tm_mday == 29 && tm.tm_hour == 12);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(chat_date(&at, wrong[i], &e), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_places), IN_TEMPDIR(test_messages), IN_TEMPDIR(test_origins),
        IN_TEMPDIR(test_keep), cmocka_unit_test(test_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
