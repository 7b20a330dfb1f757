/* fuzz_jinja.c: any text as a chat template, over variables that are any JSON, or a conversation.
 * What it writes is UTF-8 where its text was, all of it is in spans, and spans come from strings of
 * the variables. Steps and memory end what would not. */
#include "tests/fuzz/fuzz.h"

#include "chat/jinja/jinja.h"

#include <string.h>

enum { BYTES = 1 << 20, STEPS = 100000 };

static const char talk[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" a<b> \\u00e9\"}, {\"role\": "
    "\"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}], \"tool_calls\": "
    "[{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5, \"y\": null}}}]}], \"tools\": "
    "[{\"type\": \"function\"}], \"bos_token\": \"<s>\", \"add_generation_prompt\": true}";

/* Whether a string, or an object, whose keys are strings, is one of those within v. */
static int is_within(const json_t *v, const json_t *string)
{
    const char   *key;
    const json_t *in;
    size_t        i;

    if (v == string)
        return json_is_string(v) || json_is_object(v);
    json_object_foreach((json_t *)(uintptr_t)v, key, in)
        if (is_within(in, string))
            return 1;
    json_array_foreach(v, i, in)
        if (is_within(in, string))
            return 1;
    return 0;
}

static void check(const struct jinja_output *o, const json_t *variables)
{
    size_t at = 0;

    FUZZ_CHECK(strlen(o->text) <= o->bytes && o->bytes <= BYTES);
    for (size_t i = 0; i < o->n_spans; i++) {
        const struct jinja_span *s = &o->span[i], *before = i ? s - 1 : NULL;

        at += s->bytes;
        FUZZ_CHECK(s->bytes && (!s->from || i > 100 || is_within(variables, s->from)));
        FUZZ_CHECK(!before || before->generation != s->generation || before->from != s->from ||
                   s->from); // two equal strings are two origins
    }
    FUZZ_CHECK(at == o->bytes);
}

static int one(const uint8_t *bytes, size_t n)
{
    const struct jinja_limits limits = { BYTES, STEPS, 1000000000 };
    struct fuzz_in            in = { bytes, n }, text = fuzz_part(&in);
    const char               *json = in.n ? (const char *)in.p : talk;
    struct jinja_output       out;
    struct jinja             *j;
    json_t                   *variables = NULL;
    struct err                err = { 0 };
    int rc = json_parse_object(&variables, json, in.n ? in.n : sizeof talk - 1, "v", &err);

    if (rc)
        return fuzz_refused(rc, &err);
    rc = jinja_parse(&j, (const char *)text.p, text.n, "t", &err);
    if (!rc && !(rc = jinja_render(j, variables, &limits, &out, &err))) {
        check(&out, variables);
        FUZZ_CHECK(jinja_marks(j) == 0 || jinja_marks(j) == 1);
        jinja_output_free(&out);
    }
    jinja_free(j);
    json_decref(variables);
    return rc ? fuzz_refused(rc, &err) : 1;
}

static void seeds(void)
{
    static const char *const templates[] = {
        "{{ bos_token }}{% for m in messages %}{{ '<|' ~ m['role'] ~ '|>\\n' }}{% if m.content is "
        "string %}{{ m.content | trim }}{% else %}{% for p in m.content if p.type == 'text' %}{{ "
        "p.text }}{% else %}-{% endfor %}{% endif %}{% if m.tool_calls %}{{ m.tool_calls | "
        "tojson(indent=2) }}{% endif %}{%- endfor -%}{% if add_generation_prompt %}<|a|>{% endif "
        "%}",
        "{%- macro f(a, b='x', c=none) -%}[{{ a }}|{{ b }}]{% if a %}{{ f(a[1:]) }}{% endif %}{% "
        "endmacro %}{% set ns = namespace(n=0, s='') %}{% for c in 'abc' %}{% set ns.n = ns.n + 1 "
        "%}{% if loop.last %}{% continue %}{% endif %}{{ loop.index0 }}{{ loop.previtem }}{% break "
        "%}{% endfor %}{{ f(messages[0].content[::-1], c=ns.n) }}",
        "{% generation %}{% set x %}{{ messages | map(attribute='role') | join(', ') }}{% endset "
        "%}{{ x | upper | replace('U', x) }}{% endgeneration %}{{ range(9, 0, -2) | list }}{{ "
        "{'a': 1, 'b': [1.5, -2e9, true]} | dictsort }}{{ messages | selectattr('role', 'equalto', "
        "'user') | list | length }}",
        "{# c #}{% raw %}{{ x }}{% endraw %}{% with a=1, b=(2, 3) %}{{ a + b[0] ** 2 // 3 % 4 }}{% "
        "endwith %}{{ 'a' in 'abc' and 1 < 2 <= 3 or not x }}{{ x is defined }}{{ 'é'.split('x') "
        "}}{{ strftime_now('%d %b %Y') }}{{ x.y if x else raise_exception('no') }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ 'xxxxxxxxxxxxxxxx' * 99 }}{% "
        "endfor %}{% endfor %}",
        "{% macro f(x) %}{{ f(x + x) }}{% endmacro %}{{ f('aaaa') }}",
        "{% set ns = namespace(s='a') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% "
        "endfor %}{{ 'a'.replace('', ns.s) }}{{ ns.s.split('') }}{{ ((((((ns.s)))))) }}",
    };

    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct fuzz_out out = { 0 };

        fuzz_add(&out, templates[i], strlen(templates[i]));
        if (i % 2) {
            fuzz_add_mark(&out);
            fuzz_add(&out, talk, sizeof talk - 1);
        }
        fuzz_seed_out(&out);
    }
}

/* A rendering's memory, and its spans: 24 bytes for each of its bytes, at most. */
const struct fuzz_target fuzz_jinja = { "jinja", NULL, one, seeds, 8 << 20, 4096, 4000 };
