/* texts.c: operations on strings for the methods of str and for filters. */
#include "chat/jinja/texts.h"

#include "data/base/utf8.h"

#include <utf8proc.h>

static struct value want_string(struct run *r, struct value v)
{
    if (v.kind == VALUE_STRING)
        return v;
    if (v.kind == VALUE_UNDEFINED && !r->rc)
        run_fails(r, "join: %.60s is not defined", v.name);
    run_fails(r, "join wants a str, not %s", value_kind_name(v));
    return value_string("", 0);
}

/* The length in bytes of a white-space character of Python's at `at`, or 0. */
static size_t space_at(struct value v, size_t at)
{
    uint32_t cp = 0;
    int      n = at < v.text.n ? utf8_at(v.text.s + at, v.text.n - at, &cp) : 0;
    int      space = (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 ||
                cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 ||
                cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;

    return n > 0 && space ? (size_t)n : 0;
}

static size_t in_set(struct value v, size_t at, const struct value *set)
{
    size_t n;

    if (!set)
        return space_at(v, at);
    n = value_byte(value_part(v, at, v.text.n), 1);
    return n && memmem(set->text.s, set->text.n, v.text.s + at, n) ? n : 0;
}

/* set NULL: white space. */
struct value text_strip(struct value v, int sides, const struct value *set)
{
    size_t from = 0, to = v.text.n, n;

    while ((sides & LEFT) && from < to && (n = in_set(v, from, set)))
        from += n;
    while ((sides & RIGHT) && to > from && in_set(v, to - (n = utf8_last(v.text.s, to)), set))
        to -= n;
    return value_part(v, from, to);
}

struct value text_strip_call(struct run *r, struct value v, int sides, const struct arguments *a)
{
    const struct value *set = argument(a, 0, "chars");

    set = set && set->kind == VALUE_NONE ? NULL : set;
    if (set && set->kind != VALUE_STRING)
        run_fails(r, "what is stripped must be a str, not %s", value_kind_name(*set));
    return r->rc || !run_goes_on(r, 1 + v.text.n / 64) ? v : text_strip(v, sides, set);
}

/* Every code point is changed to one other. Where Python's answer is longer, or depends on what
 * stands around (`change` gives -1), it is refused. */
struct value text_recase(struct run *r, struct value v, int (*change)(int cp, int first))
{
    struct text t = { .r = r };
    int         first = 1;

    for (size_t at = 0, n; at < v.text.n && run_goes_on(r, 1); at += n) {
        uint32_t cp = (unsigned char)v.text.s[at];
        int      length = utf8_at(v.text.s + at, v.text.n - at, &cp);
        int      other = change((int)cp, first);
        char     to[4];

        n = length > 0 ? (size_t)length : 1;
        if (other < 0)
            run_fails(r, "another case of U+%04X is not known", (unsigned)cp);
        for (size_t i = 0, bytes = utf8_encode(to, (uint32_t)other); other >= 0 && i < bytes; i++)
            text_add(&t, to + i, v.text.from ? v.text.from + at : NULL, 1);
        first = !utf8proc_islower(other) && !utf8proc_isupper(other);
    }
    return text_end(&t);
}

/* Whether another case of it may be several letters, like a German sharp s. Its folding says so. */
static int is_several(int cp)
{
    utf8proc_int32_t folded[8];
    int              boundary = 0;

    return utf8proc_decompose_char(cp, folded, 8, UTF8PROC_CASEFOLD, &boundary) > 1;
}

int case_upper(int cp, int first)
{
    (void)first;
    return is_several(cp) ? -1 : utf8proc_toupper(cp);
}

/* I with a point becomes two; a sigma's form depends on whether its word ends. */
int case_lower(int cp, int first)
{
    (void)first;
    return cp == 0x130 || cp == 0x3A3 ? -1 : utf8proc_tolower(cp);
}

int case_title(int cp, int first)
{
    return !first ? case_lower(cp, 0) : is_several(cp) ? -1 : utf8proc_totitle(cp);
}

struct value text_capitalize(struct run *r, struct value v)
{
    size_t       one = value_byte(v, 1);
    struct text  t = { .r = r };

    text_value(&t, text_recase(r, value_part(v, 0, one), case_title));
    text_value(&t, text_recase(r, value_part(v, one, v.text.n), case_lower));
    return text_end(&t);
}

struct value text_title(struct run *r, struct value v)
{
    struct text t = { .r = r };

    v = value_str(r, v);
    for (size_t at = 0, n, first = 1; at < v.text.n && run_goes_on(r, 1); at += n) {
        n = value_byte(value_part(v, at, v.text.n), 1);
        text_value(&t, text_recase(r, value_part(v, at, at + n), first ? case_upper : case_lower));
        first = space_at(v, at) || memchr("-({[<", v.text.s[at], 5);
    }
    return text_end(&t);
}

/* most: how many are replaced; below 0: all. */
static struct value replaced(struct run *r, struct value v, struct value old, struct value by,
                             long long most)
{
    struct text t = { .r = r };
    size_t      at = 0;

    while (most && at <= v.text.n && run_goes_on(r, 1)) {
        const char *found = old.text.n ? memmem(v.text.s + at, v.text.n - at, old.text.s,
                                                old.text.n)
                                       : v.text.s + at;
        size_t      to = found ? (size_t)(found - v.text.s) : v.text.n,
                    step = old.text.n ? old.text.n : value_byte(value_part(v, to, v.text.n), 1);

        run_goes_on(r, 1 + (to - at) / 64);
        if (!found)
            break;
        text_value(&t, value_part(v, at, to));
        text_value(&t, by);
        if (!old.text.n)
            text_value(&t, value_part(v, to, to + step));
        at = to + step;
        most -= most > 0;
        if (!old.text.n && !step)
            return text_end(&t);
    }
    if (at <= v.text.n)
        text_value(&t, value_part(v, at, v.text.n));
    return text_end(&t);
}

struct value text_replace(struct run *r, struct value v, const struct arguments *a)
{
    struct value old = argument_string(r, a, 0, "old", NULL),
                 by = argument_string(r, a, 1, "new", NULL);
    long long    most = argument_int(r, a, 2, "count", -1);

    return r->rc ? v : replaced(r, v, old, by, most);
}

void items_add(struct items *g, struct value v)
{
    if (run_grow(g->r, &g->item, g->n, &g->room, sizeof *g->item))
        g->item[g->n++] = v;
}

struct value items_end(const struct items *g)
{
    struct value v = value_of(VALUE_LIST);

    v.list.item = g->item;
    v.list.n = g->n;
    return v;
}

static struct value split_words(struct run *r, struct value v, long long most)
{
    struct items g = { .r = r };
    size_t         at = 0, n;

    while (run_goes_on(r, 1)) {
        while (at < v.text.n && (n = space_at(v, at)))
            at += n;
        if (at >= v.text.n)
            break;
        size_t from = at;

        if (most >= 0 && (long long)g.n == most) {
            items_add(&g, value_part(v, from, v.text.n));
            break;
        }
        while (at < v.text.n && !space_at(v, at))
            at++;
        items_add(&g, value_part(v, from, at));
    }
    return items_end(&g);
}

struct value text_split(struct run *r, struct value v, const struct arguments *a)
{
    const struct value *by = argument(a, 0, "sep");
    struct items      g = { .r = r };
    long long           most = argument_int(r, a, 1, "maxsplit", -1);
    size_t              at = 0;
    const char         *found;

    run_goes_on(r, 1 + v.text.n / 64);
    if (!by || by->kind == VALUE_NONE)
        return r->rc ? v : split_words(r, v, most);
    if (by->kind != VALUE_STRING || !by->text.n)
        run_fails(r, "split wants a str that is not empty");
    while (!r->rc && most && run_goes_on(r, 1) &&
           (found = memmem(v.text.s + at, v.text.n - at, by->text.s, by->text.n))) {
        items_add(&g, value_part(v, at, (size_t)(found - v.text.s)));
        at = (size_t)(found - v.text.s) + by->text.n;
        most -= most > 0;
    }
    items_add(&g, value_part(v, at, v.text.n));
    return items_end(&g);
}

int text_begins(struct value v, struct value with, int at_end)
{
    return v.text.n >= with.text.n &&
           (!with.text.n || !memcmp(v.text.s + (at_end ? v.text.n - with.text.n : 0), with.text.s,
                                    with.text.n));
}

struct value text_begins_call(struct run *r, struct value v, const struct arguments *a, int end)
{
    const struct value *with = argument(a, 0, "prefix");

    if (!with || with->kind != VALUE_TUPLE) {
        struct value one = argument_string(r, a, 0, "prefix", NULL);

        return value_bool(!r->rc && text_begins(v, one, end));
    }
    for (size_t i = 0; i < with->list.n; i++)
        if (with->list.item[i].kind == VALUE_STRING && text_begins(v, with->list.item[i], end))
            return value_bool(1);
    return value_bool(0);
}

struct value text_join(struct run *r, struct value v, struct value list, int strict)
{
    struct text t = { .r = r };

    list = value_items(r, list);
    for (size_t i = 0; i < list.list.n && !r->rc; i++) {
        struct value item = list.list.item[i];

        if (i)
            text_value(&t, v);
        text_value(&t, strict ? want_string(r, item) : value_str(r, item));
    }
    return text_end(&t);
}
