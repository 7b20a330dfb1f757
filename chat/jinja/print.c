/* print.c: writes values as Python's str and repr do, and as JSON. */
#include "chat/jinja/value.h"

#include "data/base/utf8.h"

#include <math.h>
#include <utf8proc.h>

/* Writes a number as Python's repr does, with the fewest digits that read back as it. */
static void real_say(struct text *t, double x)
{
    char text[40], digits[64];
    int  precision = 1, exponent;

    if (!isfinite(x)) {
        text_say(t, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    do
        snprintf(text, sizeof text, "%.*e", precision - 1, x);
    while (strtod(text, NULL) != x && precision++ < 17); // NOLINT: the same number, bit for bit
    exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int after = precision - 1 - exponent;

        snprintf(digits, sizeof digits, "%.*f", after > 0 ? after : 1, x);
        text_say(t, digits);
        return;
    }
    *strchr(text, 'e') = 0;
    snprintf(digits, sizeof digits, "%se%c%02d", text, exponent < 0 ? '-' : '+', abs(exponent));
    text_say(t, digits);
}

static void number_say(struct text *t, struct value v)
{
    char text[32];

    if (v.kind == VALUE_FLOAT) {
        real_say(t, v.real);
        return;
    }
    snprintf(text, sizeof text, "%lld", v.i);
    text_say(t, text);
}

/* Python's str.isprintable: no control, format or unassigned character, no white space but " ". */
static int is_printable(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN: case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS: case UTF8PROC_CATEGORY_CO: case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return 0;
    case UTF8PROC_CATEGORY_ZS:
        return cp == ' ';
    default:
        return 1;
    }
}

/* Writes a str as Python's repr: in single quotes, or in double if it has only single ones. */
static void repr_string(struct text *t, struct value v)
{
    const char *s = v.text.s;
    size_t      n = v.text.n;
    char        quote = n && memchr(s, '\'', n) && !memchr(s, '"', n) ? '"' : '\'', code[12];
    int         bytes = 1;

    text_add(t, &quote, NULL, 1);
    for (size_t i = 0; i < n; i += (size_t)bytes) {
        const uint32_t *from = v.text.from ? v.text.from + i : NULL;
        uint32_t        c = 0;

        bytes = utf8_at(s + i, n - i, &c);
        bytes = bytes > 0 ? bytes : 1;
        if (c == (unsigned char)quote || c == '\\')
            text_add(t, "\\", NULL, 1);
        if (is_printable(c)) {
            text_add(t, s + i, from, (size_t)bytes);
            continue;
        }
        snprintf(code, sizeof code, c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t"
                 : c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        text_say(t, code);
    }
    text_add(t, &quote, NULL, 1);
}

static void json_string_say(struct text *t, struct value v)
{
    static const char names[] = "\b\f\n\r\t\"\\", codes[] = "bfnrt\"\\";
    char              code[8];

    text_say(t, "\"");
    for (size_t i = 0; i < v.text.n; i++) {
        const char *at = memchr(names, v.text.s[i], sizeof names - 1);

        if (at)
            snprintf(code, sizeof code, "\\%c", codes[at - names]);
        else if ((unsigned char)v.text.s[i] < 0x20)
            snprintf(code, sizeof code, "\\u%04x", (unsigned)v.text.s[i]);
        if (at || (unsigned char)v.text.s[i] < 0x20)
            for (size_t c = 0; code[c]; c++)
                text_add(t, code + c, v.text.from ? v.text.from + i : NULL, 1);
        else
            text_add(t, v.text.s + i, v.text.from ? v.text.from + i : NULL, 1);
    }
    text_say(t, "\"");
}

/* ---- any value ---- */

struct style { int python, indent, sorted; }; // indent -1: one line

static void say(struct text *t, struct value v, const struct style *s, int depth);

static void line_say(struct text *t, const struct style *s, int depth)
{
    if (s->indent < 0)
        return;
    text_say(t, "\n");
    for (int i = 0; i < s->indent * depth && run_goes_on(t->r, 1); i++)
        text_say(t, " ");
}

static void key_say(struct text *t, struct value key, const struct style *s, int depth)
{
    int quoted = !s->python && (value_is_number(key) || key.kind == VALUE_NONE);

    if (!s->python && !quoted && key.kind != VALUE_STRING)
        run_fails(t->r, "tojson: a key must be a str or a number, not %s", value_kind_name(key));
    text_say(t, quoted ? "\"" : "");
    say(t, key, s, depth);
    text_say(t, quoted ? "\"" : "");
}

/* An object of a row stands for its keys, and so for the bracket that opens it. */
static const uint32_t *object_from(const struct value_pairs *p)
{
    const struct value *key = p->n ? &p->pair[0].key : NULL;

    return key && key->kind == VALUE_STRING && key->text.n ? key->text.from : NULL;
}

/* The bracket of a list is its first object's. */
static const uint32_t *list_from(struct value v)
{
    for (int depth = 0; depth < 100; depth++) {
        if (v.kind != VALUE_LIST && v.kind != VALUE_TUPLE)
            return v.kind == VALUE_DICT ? object_from(v.pairs) : NULL;
        if (!v.list.n)
            return NULL;
        v = v.list.item[0];
    }
    return NULL;
}

static int pair_order(const void *a, const void *b)
{
    const struct value_pair *x = a, *y = b;

    return value_text_order(x->key, y->key);
}

static void pairs_say(struct text *t, const struct value_pairs *p, const struct style *s, int depth)
{
    struct value_pair *pair = p->pair;

    if (s->sorted && p->n) {
        for (size_t i = 0; i < p->n; i++)
            if (p->pair[i].key.kind != VALUE_STRING)
                run_fails(t->r, "tojson: sort_keys wants keys of type str");
        if (t->r->rc || !(pair = run_take(t->r, p->n * sizeof *pair)))
            return;
        memcpy(pair, p->pair, p->n * sizeof *pair);
        qsort(pair, p->n, sizeof *pair, pair_order);
    }
    text_add(t, "{", object_from(p), 1);
    for (size_t i = 0; i < p->n && !t->r->rc; i++) {
        text_say(t, i ? s->indent < 0 ? ", " : "," : "");
        line_say(t, s, depth + 1);
        key_say(t, pair[i].key, s, depth + 1);
        text_say(t, ": ");
        say(t, pair[i].value, s, depth + 1);
    }
    if (p->n)
        line_say(t, s, depth);
    text_say(t, "}");
}

static void items_say(struct text *t, struct value v, const struct style *s, int depth)
{
    int tuple = s->python && v.kind == VALUE_TUPLE;

    text_add(t, tuple ? "(" : "[", list_from(v), 1);
    for (size_t i = 0; i < v.list.n && !t->r->rc; i++) {
        text_say(t, i ? s->indent < 0 ? ", " : "," : "");
        line_say(t, s, depth + 1);
        say(t, v.list.item[i], s, depth + 1);
    }
    if (v.list.n)
        line_say(t, s, depth);
    text_say(t, !tuple ? "]" : v.list.n == 1 ? ",)" : ")");
}

static void say(struct text *t, struct value v, const struct style *s, int depth)
{
    int python = s->python;

    if (depth > 100)
        run_fails(t->r, "%sa value is nested too deep", python ? "" : "tojson: ");
    if (!run_goes_on(t->r, 1))
        return;
    switch (v.kind) {
    case VALUE_NONE:   text_say(t, python ? "None" : "null"); break;
    case VALUE_BOOL:
        text_say(t, python ? v.i ? "True" : "False" : v.i ? "true" : "false");
        break;
    case VALUE_STRING:
        if (python && !depth)
            text_value(t, v);
        else
            (python ? repr_string : json_string_say)(t, v);
        break;
    case VALUE_INT:    number_say(t, v); break;
    case VALUE_FLOAT:
        if (python || isfinite(v.real))
            number_say(t, v);
        else
            text_say(t, isnan(v.real) ? "NaN" : v.real > 0 ? "Infinity" : "-Infinity");
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:  items_say(t, v, s, depth); break;
    case VALUE_DICT:   pairs_say(t, v.pairs, s, depth); break;
    default:
        if (python && v.kind == VALUE_UNDEFINED)
            text_say(t, depth ? "Undefined" : "");
        else if (python)
            run_fails(t->r, "a %s cannot be printed", value_kind_name(v));
        else
            run_fails(t->r, "tojson: %s%sis not JSON serializable", value_kind_name(v),
                      v.kind == VALUE_UNDEFINED ? " (what is not defined) " : " ");
    }
}

struct value value_str(struct run *r, struct value v)
{
    struct text t = { .r = r };

    if (v.kind == VALUE_STRING)
        return v;
    say(&t, v, &(struct style){ .python = 1, .indent = -1 }, 0);
    return text_end(&t);
}

struct value value_json(struct run *r, struct value v, int indent, int sorted)
{
    struct text t = { .r = r };

    say(&t, v, &(struct style){ 0, indent, sorted }, 0);
    return text_end(&t);
}
