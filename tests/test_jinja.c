/* test_jinja.c: chat templates beside what jinja2 makes of them (tests/fixtures/make_jinja.py);
 * where each byte of a text comes from; sentences with the line; templates that would not come
 * to an end. With two arguments, TEMPLATE and VARIABLES, it prints a rendering (make_jinja.py
 * --check). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "chat/jinja/jinja.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const CHAT = "{% for m in messages %}<{{ m.role }}>{% if m.role == 'a' %}"
    "{% generation %}{{ m.content | trim }}!{% endgeneration %}{% else %}{{ m.content[1:] }}"
    "{% endif %}{% endfor %}";

static json_t *json_of(const char *text)
{
    struct err e = { 0 };
    json_t    *v;

    assert_int_equal(json_parse(&v, text, strlen(text), "a test", &e), 0);
    return v;
}

/* 0, or what is refused, with its sentence in e. */
static int render(struct jinja_output *out, const char *template, const json_t *variables,
                  struct jinja_limits limits, struct err *e)
{
    struct jinja *j;
    int           rc = jinja_parse(&j, template, strlen(template), "t", e);

    *out = (struct jinja_output){ 0 };
    rc = rc ? rc : jinja_render(j, variables, &limits, out, e);
    jinja_free(j);
    return rc;
}

static void as_jinja2(void **state)
{
    json_t     *all, *one;
    struct err  e = { 0 };
    size_t      i;

    (void)state;
    assert_int_equal(json_read(&all, "tests/fixtures/jinja.json", 1 << 20, &e), 0);
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        const char         *template = json_str(one, "template");
        const json_t       *text = json_object_get(one, "text");
        struct jinja_output out;
        int                 rc = render(&out, template, json_object_get(all, "variables"),
                                        (struct jinja_limits){ 0 }, &e);

        if (!rc != json_is_string(text) ||
            (!rc && strcmp(out.text, json_string_value(text)) != 0))
            fail_msg("%s\ngives: %s\njinja2: %s", template, rc ? e.text : out.text,
                     json_is_string(text) ? json_string_value(text) : "refuses it");
        if (rc && (!e.misuse || strncmp(e.text, "t, line ", 8) != 0))
            fail_msg("%s: a sentence without its line: %s", template, e.text);
        jinja_output_free(&out);
    }
    assert_true(i > 40);
    json_decref(all);
}

/* The text of all spans that come from this string, or (NULL) from the template. */
static void from_text(char *to, const struct jinja_output *o, const json_t *from, int generation)
{
    size_t at = 0;

    for (size_t i = 0; i < o->n_spans; at += o->span[i++].bytes)
        if (o->span[i].from == from && o->span[i].generation == generation) {
            memcpy(to, o->text + at, o->span[i].bytes);
            to += o->span[i].bytes;
        }
    *to = 0;
    assert_int_equal(at, o->bytes);
}

static void origins(void **state)
{
    json_t             *v = json_of("{\"messages\": [{\"role\": \"u\", \"content\": \"xq\"},"
                                    " {\"role\": \"a\", \"content\": \" yes \"}]}");
    const json_t       *messages = json_object_get(v, "messages");
    struct err          e = { 0 };
    struct jinja_output o;
    char                text[64];

    (void)state;
    assert_int_equal(render(&o, CHAT, v, (struct jinja_limits){ 0 }, &e), 0);
    assert_string_equal(o.text, "<u>q<a>yes!");
    from_text(text, &o, json_object_get(json_array_get(messages, 0), "content"), 0);
    assert_string_equal(text, "q");
    from_text(text, &o, json_object_get(json_array_get(messages, 1), "content"), 1);
    assert_string_equal(text, "yes");
    from_text(text, &o, NULL, 1);
    assert_string_equal(text, "!");
    from_text(text, &o, NULL, 0);
    assert_string_equal(text, "<><>");
    jinja_output_free(&o);

    // through joining, replacing, splitting, other cases, JSON, macros and captured texts
    const char *const ways[] = {
        "{{ ['<', s] | join('') }}", "{{ s.replace('b', '<') }}", "{{ s.split('b') | join('<') }}",
        "{{ '<' ~ s.upper() }}", "{{ {'<': s} | tojson }}", "{{ '<' + s[::-1] }}",
        "{% macro f(x) %}<{{ x }}{% endmacro %}{{ f(s) }}",
        "{% set x %}<{{ s }}{% endset %}{{ x }}",
        "{{ '%' ~ s | string | trim | safe | default('<') }}<",
    };

    json_decref(v);
    v = json_of("{\"s\": \"abc\"}");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        assert_int_equal(render(&o, ways[i], v, (struct jinja_limits){ 0 }, &e), 0);
        from_text(text, &o, json_object_get(v, "s"), 0);
        if (strlen(text) < 2 || strpbrk(text, "<%\"{}: "))
            fail_msg("%s: of \"%s\" from the string: \"%s\"", ways[i], o.text, text);
        jinja_output_free(&o);
    }
    json_decref(v);
}

/* Each ends with a sentence, in bounded memory and time. */
static void hostile(void **state)
{
    static const char *const templates[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{{ f(n + 1) ~ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(100) %}"
        "{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{{ 'a' * 100000000000 }}", "{{ [1] * 100000000000 }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}"
        "{% endfor %}{{ ns.x == [ns.x] }}",
        "{% for i in range(99999) %}{{ 'aaaaaaaaaa'.replace('', 'bbbbbbbbbbbbbbbbbbbbbbbb') * 99 }}"
        "{% endfor %}",
        "{{ {}|tojson(indent=60) }}{% set ns = namespace(x={}) %}{% for i in range(200) %}"
        "{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x|tojson }}",
    };
    struct err e = { 0 };
    json_t    *none = json_object();

    (void)state;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct jinja_output out;

        e.text[0] = 0;
        assert_int_equal(render(&out, templates[i], none,
                                (struct jinja_limits){ .bytes = 16 << 20, .steps = 3000000 }, &e),
                         -EINVAL);
        assert_non_null(strstr(e.text, "t, line 1: "));
    }
    // deep nesting and long chains of a template's text
    for (int kind = 0; kind < 4; kind++) {
        enum { MANY = 20000 };
        static const char *const open[] = { "(", "[", "{% if 1 %}", "1+" };
        char  *text = calloc(MANY, 16);
        struct jinja_output out;

        strcpy(text, kind == 2 ? "" : "{{ ");
        for (int k = 0; k < MANY / 10; k++)
            strcat(text + strlen(text), open[kind]);
        strcat(text, kind == 3 ? "1 }}" : "");
        assert_int_equal(render(&out, text, none, (struct jinja_limits){ 0 }, &e), -EINVAL);
        free(text);
    }
    json_decref(none);
}

/* What recurses comes to its bound within the stack that some systems give to threads. */
static void *recurse(void *unused)
{
    static const char *const templates[] = {
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% macro f(n) %}{% for i in [n] %}{% if i >= 0 %}{% set x %}{{ ((f(i + 1))) ~ '' }}"
        "{% endset %}{{ x }}{% endif %}{% endfor %}{% endmacro %}{{ f(0) }}",
        "{% macro f(n) %}{{ [[{'a': (f(n + 1) | trim | upper) or 1}]] | tojson }}{% endmacro %}"
        "{{ f(0) }}",
        "{% set ns = namespace(x=1, y=1) %}{% for i in range(400) %}{% set ns.x = [ns.x] %}"
        "{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    };
    enum { LOOPS = 190 }; // nested, in a macro that calls itself
    char    loops[LOOPS * 40] = "{% macro f() %}";
    json_t *none = json_object();

    for (int i = 0; i < LOOPS; i++)
        strcat(loops, "{% for a in [1] %}");
    strcat(loops, "{{ f() }}");
    for (int i = 0; i < LOOPS; i++)
        strcat(loops, "{% endfor %}");
    strcat(loops, "{% endmacro %}{{ f() }}");
    for (size_t i = 0; i <= sizeof templates / sizeof *templates; i++) {
        const char         *one = i ? templates[i - 1] : loops;
        struct jinja_output out;
        struct err          e = { 0 };

        if (render(&out, one, none, (struct jinja_limits){ 0 }, &e) != -EINVAL ||
            !strstr(e.text, "nested more than 300 deep"))
            return strdup(one);
    }
    json_decref(none);
    return unused;
}

static void small_stack(void **state)
{
    size_t         bytes = 512 << 10;
    pthread_attr_t how;
    pthread_t      thread;
    void          *failed = NULL;

    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    bytes *= 8; // frames are larger there
#endif
    pthread_attr_init(&how);
    assert_int_equal(pthread_attr_setstacksize(&how, bytes), 0);
    assert_int_equal(pthread_create(&thread, &how, recurse, NULL), 0);
    pthread_join(thread, &failed);
    pthread_attr_destroy(&how);
    if (failed)
        fail_msg("%s", (char *)failed);
}

/* Lines are counted, and what is not known has its name. */
static void sentences(void **state)
{
    static const struct { const char *template, *says; } rows[] = {
        { "a\n{{ 1 }}\n{{ x.y }}", "t, line 3: x is not defined, so it has no y" },
        { "\n{% include 'x' %}", "t, line 2: the statement include is not known" },
        { "{{ 'a' | frobnicate }}", "the filter frobnicate is not known" },
        { "{{ 'a' is frobnicated }}", "the test frobnicated is not known" },
        { "{{ 'a'.casefold() }}", "the method casefold of a str is not known" },
        { "\n\n{{ raise_exception('roles must alternate') }}",
          "t, line 3: the template refuses this: roles must alternate" },
        { "{{ strftime_now('%600d') }}", "strftime_now: it writes more than 510 bytes" },
        { "{{ '\xEF\xAC\x81' | upper }}", "another case of U+FB01 is not known" },
        { "{{ '\xC3\x9F'.upper() }}", "another case of U+00DF is not known" },
        { "{{ '\xCE\x91\xCE\xA3' | lower }}", "another case of U+03A3 is not known" },
        { "{% for x in y recursive %}{% endfor %}", "recursive loops are not known" },
    };
    json_t    *none = json_object();
    struct err e = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct jinja_output out;

        assert_int_equal(render(&out, rows[i].template, none, (struct jinja_limits){ 0 }, &e),
                         -EINVAL);
        if (!strstr(e.text, rows[i].says))
            fail_msg("%s: %s", rows[i].template, e.text);
    }
    json_decref(none);
}

static void now(void **state)
{
    json_t             *none = json_object();
    struct err          e = { 0 };
    struct jinja_output out;

    (void)state;
    assert_int_equal(render(&out, "{{ strftime_now('%Y') }}", none,
                            (struct jinja_limits){ .now = 1750000000 }, &e), 0);
    assert_string_equal(out.text, "2025");
    jinja_output_free(&out);
    assert_int_equal(render(&out, "{{ strftime_now('') }}{{ strftime_now('[%Z%z] %d%%') }}", none,
                            (struct jinja_limits){ .now = 1750000000 }, &e), 0);
    assert_string_equal(out.text, "[] 15%"); // as a datetime without a time zone
    jinja_output_free(&out);
    json_decref(none);
}

static int print(const char *template, const char *variables)
{
    enum { MOST = 1 << 22 };
    struct jinja_output out = { 0 };
    struct err          e = { 0 };
    json_t             *v = NULL;
    char               *text = calloc(MOST, 1);
    FILE               *f = fopen(template, "rb");
    int                 rc = !f || !text || !fread(text, 1, MOST - 1, f);

    rc = rc || json_read(&v, variables, MOST, &e) ||
         render(&out, text, v, (struct jinja_limits){ .now = 1750000000 }, &e);
    if (rc)
        fprintf(stderr, "%s\n", e.text);
    fwrite(out.text ? out.text : "", 1, out.bytes, stdout);
    jinja_output_free(&out);
    json_decref(v);
    free(text);
    if (f)
        fclose(f);
    return rc;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_jinja2), cmocka_unit_test(origins),
                                        cmocka_unit_test(hostile), cmocka_unit_test(small_stack),
                                        cmocka_unit_test(sentences),
                                        cmocka_unit_test(now) };

    return argc == 3 ? print(argv[1], argv[2]) : cmocka_run_group_tests(tests, NULL, NULL);
}
