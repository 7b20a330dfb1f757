/* opt.c: option rows to values and back. A first pass over the command line (opt_scan) finds what
 * is wrong with its options, so that the sentence can name the option and what would work;
 * argtable2 then takes it apart, and each value is read by its row.
 *
 * Invariants: strings in an options struct are always malloc'd, also defaults, so that opt_release
 * frees them all; a value's text (value_text) is taken back by value_parse with the same result. */
#include "cmd/opt_alias.h"

#include <argtable2.h>
#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- rows ---- */

const struct opt_row *opt_row_at(const struct opt_command *cmd, size_t i, size_t *offset)
{
    for (const struct opt_part *p = cmd->parts; p && p->rows; p++)
        for (const struct opt_row *r = p->rows; r->type; r++)
            if (i-- == 0) {
                if (offset)
                    *offset = p->offset + r->offset;
                return r;
            }
    return NULL;
}

static int row_is_arg(const struct opt_row *r)
{
    return r->type == OPT_ARG || r->type == OPT_ARGS;
}

int opt_row_find(const struct opt_command *cmd, const char *name, size_t n)
{
    const struct opt_row *r;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (!row_is_arg(r) && strlen(r->name) == n && !memcmp(r->name, name, n))
            return (int)i;
    return -1;
}

const char *opt_row_default(const struct opt_command *cmd, const struct opt_row *r)
{
    for (const struct opt_default *d = cmd->defaults; d && d->row; d++)
        if (!strcmp(d->row, r->name))
            return d->text;
    return r->def;
}

int opt_was_given(const struct opt_command *cmd, const struct opt_given *given, const char *name)
{
    int i = opt_row_find(cmd, name, strlen(name));

    assert(i >= 0);
    return given->row[i];
}

void opt_mark_given(const struct opt_command *cmd, struct opt_given *given, const char *name)
{
    int i = opt_row_find(cmd, name, strlen(name));

    assert(i >= 0);
    given->row[i] = 1;
}

/* ---- words ---- */

/* Edit distance; words are short. */
static size_t word_distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);

    if (n >= 64 || strlen(a) >= 64)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

const char *opt_nearest(const char *typed, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t      best_distance = strlen(typed) / 3 + 2; // further away is another word

    for (size_t i = 0; i < n; i++) {
        size_t d = word_distance(typed, words[i]);

        if (d < best_distance) {
            best_distance = d;
            best = words[i];
        }
    }
    if (!best && strlen(typed) >= 3)
        for (size_t i = 0; i < n && !best; i++)
            if (!strncmp(words[i], typed, strlen(typed)))
                best = words[i];
    return best;
}

const char *opt_words_text(char *buf, size_t size, const char *words)
{
    size_t n = 0;

    buf[0] = '\0';
    while (*words && n < size) {
        size_t len = strcspn(words, "|");
        int    more = words[len] == '|', last = more && !strchr(words + len + 1, '|');

        n += (size_t)snprintf(buf + n, size - n, "%.*s%s", (int)len, words, last ? " or " : more ? ", " : "");
        words += len + (size_t)more;
    }
    return buf;
}

/* The index of text in "a|b|c", or -1. */
static int words_find(const char *words, const char *text)
{
    size_t len = strlen(text);

    for (int i = 0; words && len; i++) {
        size_t n = strcspn(words, "|");

        if (n == len && !memcmp(words, text, n))
            return i;
        words = words[n] ? words + n + 1 : NULL;
    }
    return -1;
}

/* ---- numbers ---- */

const char *opt_size_text(char *buf, size_t size, double bytes)
{
    const char *units = "KMGT";
    double      v = bytes;
    int         u = -1;

    while (v >= 1024 && u < 3) {
        v /= 1024;
        u++;
    }
    if (u < 0)
        snprintf(buf, size, "%.0f", v);
    else
        snprintf(buf, size, v == floor(v) ? "%.0f%c" : "%.2f%c", v, units[u]);
    return buf;
}

/* The shortest decimal that reads back as v; a million without an exponent. */
static void double_text(char *buf, size_t size, double v)
{
    for (int digits = 7; digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            return;
    }
}

static int number_refuse(const struct opt_row *r, const char *text, const char *what, struct err *err)
{
    char min[32], max[48] = "", limit[32];
    int  sizes = r->type == OPT_SIZE;

    if (sizes)
        opt_size_text(min, sizeof min, r->min);
    else
        double_text(min, sizeof min, r->min);
    if (r->max > 0) {
        if (sizes)
            opt_size_text(limit, sizeof limit, r->max);
        else
            double_text(limit, sizeof limit, r->max);
        snprintf(max, sizeof max, " to %s", limit);
    }
    return err_misuse(err, "--%s %s: expected %s from %s%s", r->name, text, what, min, *max ? max : " up");
}

static int number_in_range(const struct opt_row *r, double v)
{
    return v >= r->min && !(r->max > 0 && v > r->max);
}

/* A plain decimal at the start of text; its end, or NULL. */
static const char *decimal(const char *text, double *v)
{
    char *end;

    if (!strchr("0123456789.", text[0]) || !text[0] || strncasecmp(text, "0x", 2) == 0)
        return NULL;
    *v = strtod(text, &end);
    return end == text || !(fabs(*v) <= DBL_MAX) ? NULL : end;
}

static int parse_uint(const struct opt_row *r, const char *text, uint64_t *out, struct err *err)
{
    char *end = NULL;

    errno = 0;
    *out = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || *out > INT64_MAX || !number_in_range(r, (double)*out))
        return number_refuse(r, text, "a whole number", err);
    return 0;
}

static int parse_size(const struct opt_row *r, const char *text, uint64_t *out, struct err *err)
{
    const char *what = "a size in bytes, or with K, M, G or T (powers of 1024),";
    const char *units = "KMGT", *end, *unit;
    double      v;

    end = decimal(text, &v);
    if (end && !*end && v != floor(v))
        v = -1;
    if (end && *end) {
        unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);
        v = unit && !end[1] ? ldexp(v, 10 * (int)(unit - units + 1)) : -1;
    }
    if (!end || !(v >= 0 && v < 0x1p62) || !number_in_range(r, v))
        return number_refuse(r, text, what, err);
    *out = (uint64_t)v;
    return 0;
}

static int parse_double(const struct opt_row *r, const char *text, double *out, struct err *err)
{
    const char *end = decimal(text, out);

    if (!end || *end || !number_in_range(r, *out))
        return number_refuse(r, text, "a number", err);
    return 0;
}

/* "2%" or "0.02". */
static int parse_ratio(const struct opt_row *r, const char *text, double *out, struct err *err)
{
    const char *end = decimal(text, out);

    if (end && !strcmp(end, "%")) {
        *out /= 100;
        end++;
    }
    if (!end || *end || !number_in_range(r, *out))
        return number_refuse(r, text, "a part such as 2% or 0.02,", err);
    return 0;
}

static int parse_warmup(const struct opt_row *r, const char *text, struct opt_warmup *out, struct err *err)
{
    const char *end = decimal(text, &out->value);

    out->percent = end && !strcmp(end, "%");
    if (out->percent && out->value <= 100) {
        out->value /= 100;
        return 0;
    }
    if (!end || *end || out->value != floor(out->value) || out->value > 1e15)
        return err_misuse(err, "--%s %s: expected a number of steps, or a part of them from 0%% to 100%%",
                          r->name, text);
    return 0;
}

static int parse_word(const struct opt_row *r, const char *text, int *out, struct err *err)
{
    char        known[256], copy[256];
    const char *words[32], *near;
    size_t      n = 0;

    *out = words_find(r->words, text);
    if (*out >= 0)
        return 0;
    opt_words_text(known, sizeof known, r->words);
    if (words_find(r->later, text) >= 0)
        return err_misuse(err, "--%s %s is not in this version; use %s", r->name, text, known);
    snprintf(copy, sizeof copy, "%s", r->words);
    for (char *save, *w = strtok_r(copy, "|", &save); w && n < 32; w = strtok_r(NULL, "|", &save))
        words[n++] = w;
    near = opt_nearest(text, words, n);
    if (near)
        return err_misuse(err, "--%s %s: expected %s (did you mean %s?)", r->name, text, known, near);
    return err_misuse(err, "--%s %s: expected %s", r->name, text, known);
}

/* ---- values ---- */

static int no_memory(struct err *err)
{
    return err_set(err, -ENOMEM, "out of memory while reading the options");
}

static void strings_release(struct opt_strings *s)
{
    for (size_t i = 0; i < s->n; i++)
        free((void *)(uintptr_t)s->item[i]);
    free(s->item);
    *s = (struct opt_strings){ 0 };
}

static int strings_add(struct opt_strings *s, const char *text, size_t len, struct err *err)
{
    const char **items = realloc(s->item, (s->n + 1) * sizeof *items);
    char        *copy = items ? strndup(text, len) : NULL;

    if (items)
        s->item = items;
    if (!copy)
        return no_memory(err);
    s->item[s->n++] = copy;
    return 0;
}

static int set_string(const char **field, const char *text, struct err *err)
{
    char *copy = strdup(text);

    if (!copy)
        return no_memory(err);
    free((void *)(uintptr_t)*field);
    *field = copy;
    return 0;
}

static int parse_flag(const struct opt_row *r, const char *text, int *out, struct err *err)
{
    *out = !strcmp(text, "1");
    return *out || !strcmp(text, "0") ? 0 : err_misuse(err, "--%s %s: expected 0 or 1", r->name, text);
}

/* Read one value into its field. Repeated strings: one more. */
static int value_parse(const struct opt_row *r, const char *text, void *field, struct err *err)
{
    switch (r->type) {
    case OPT_FLAG:    return parse_flag(r, text, field, err);
    case OPT_ARG:
    case OPT_STRING:  return set_string(field, text, err);
    case OPT_ARGS:
    case OPT_STRINGS: return strings_add(field, text, strlen(text), err);
    case OPT_UINT:    return parse_uint(r, text, field, err);
    case OPT_SIZE:    return parse_size(r, text, field, err);
    case OPT_DOUBLE:  return parse_double(r, text, field, err);
    case OPT_RATIO:   return parse_ratio(r, text, field, err);
    case OPT_WORD:    return parse_word(r, text, field, err);
    case OPT_WARMUP:  return parse_warmup(r, text, field, err);
    case OPT_LATER:   break;
    }
    return err_misuse(err, "--%s is not in this version: %s", r->name, r->help);
}

static void word_text(const struct opt_row *r, int index, char *buf, size_t size)
{
    const char *w = r->words;

    while (index-- > 0)
        w += strcspn(w, "|") + 1;
    snprintf(buf, size, "%.*s", (int)strcspn(w, "|"), w);
}

static void warmup_text(const struct opt_warmup *w, char *buf, size_t size)
{
    if (!w->percent)
        double_text(buf, size, w->value);
    for (int digits = 6; w->percent && digits <= 17; digits++) {
        snprintf(buf, size, "%.*g%%", digits, w->value * 100);
        if (strtod(buf, NULL) / 100 == w->value) // as it is read back
            return;
    }
}

/* The text of a value that fits in buf: all but strings. */
static void value_text(const struct opt_row *r, const void *field, char *buf, size_t size)
{
    switch (r->type) {
    case OPT_FLAG:   snprintf(buf, size, "%d", *(const int *)field); break;
    case OPT_UINT:
    case OPT_SIZE:   snprintf(buf, size, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case OPT_DOUBLE:
    case OPT_RATIO:  double_text(buf, size, *(const double *)field); break;
    case OPT_WORD:   word_text(r, *(const int *)field, buf, size); break;
    case OPT_WARMUP: warmup_text(field, buf, size); break;
    default:         buf[0] = '\0';
    }
}

static int strings_each(const struct opt_row *r, const struct opt_strings *s,
                        int (*each)(void *, const char *, const char *), void *ctx)
{
    size_t len = 1;
    char  *text, *at;
    int    rc;

    for (size_t i = 0; i < s->n; i++)
        len += strlen(s->item[i]) + 1;
    text = at = malloc(len);
    if (!text)
        return -ENOMEM;
    *at = '\0';
    for (size_t i = 0; i < s->n; i++)
        at += sprintf(at, "%s%s", i ? "\n" : "", s->item[i]);
    rc = each(ctx, r->name, text);
    free(text);
    return rc;
}

int opt_each(const struct opt_command *cmd, const void *options,
             int (*each)(void *ctx, const char *name, const char *text), void *ctx)
{
    const struct opt_row *r;
    size_t                offset;
    char                  buf[256];
    int                   rc = 0;

    for (size_t i = 0; (r = opt_row_at(cmd, i, &offset)) && !rc; i++) {
        const void *field = (const char *)options + offset;

        if (row_is_arg(r) || r->type == OPT_LATER)
            continue;
        value_text(r, field, buf, sizeof buf);
        if (r->type == OPT_STRINGS)
            rc = strings_each(r, field, each, ctx);
        else if (r->type == OPT_STRING)
            rc = each(ctx, r->name, *(const char *const *)field ? *(const char *const *)field : "");
        else
            rc = each(ctx, r->name, buf);
    }
    return rc;
}

int opt_set(const struct opt_command *cmd, void *options, const char *name, const char *text, struct err *err)
{
    int                   i = opt_row_find(cmd, name, strlen(name)), rc = 0;
    size_t                offset;
    const struct opt_row *r;
    char                 *field;

    if (i < 0)
        return err_misuse(err, "there is no option --%s", name);
    r = opt_row_at(cmd, (size_t)i, &offset);
    field = (char *)options + offset;
    if (r->type == OPT_STRING && !*text) {
        free(*(char **)(void *)field);
        *(const char **)(void *)field = NULL;
        return 0;
    }
    if (r->type != OPT_STRINGS)
        return value_parse(r, text, field, err);
    strings_release((struct opt_strings *)(void *)field);
    while (*text && !rc) {
        size_t len = strcspn(text, "\n");

        rc = strings_add((struct opt_strings *)(void *)field, text, len, err);
        text += len + (text[len] == '\n');
    }
    return rc;
}

uint64_t opt_warmup_steps(struct opt_warmup w, uint64_t horizon)
{
    return w.percent ? (uint64_t)ceil(w.value * (double)horizon - 1e-9) : (uint64_t)w.value;
}

/* ---- the command line ---- */

static int refuse_unknown(const struct opt_command *cmd, const char *arg, size_t name_len, struct err *err)
{
    const char           *names[OPT_MAX_ROWS + OPT_MAX_ALIASES], *near;
    char                  typed[64];
    const struct opt_row *r;
    size_t                n = 0;

    snprintf(typed, sizeof typed, "%.*s", (int)name_len, arg);
    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (!row_is_arg(r))
            names[n++] = r->name;
    for (const struct opt_alias *a = cmd->aliases; a && a->name; a++) {
        assert(n < OPT_MAX_ROWS + OPT_MAX_ALIASES);
        names[n++] = a->name;
    }
    near = opt_nearest(typed, names, n);
    if (near)
        return err_misuse(err, "there is no option --%s; did you mean --%s?", typed, near);
    return err_misuse(err, "there is no option --%s; siTrain %s --help lists them", typed, cmd->name);
}

static int refuse_missing(const struct opt_row *r, const char *next, struct err *err)
{
    char        words[256];
    const char *what = r->type == OPT_WORD ? opt_words_text(words, sizeof words, r->words) : r->help;

    if (next)
        return err_misuse(err, "--%s needs a value but is followed by %s; it takes: %s", r->name, next, what);
    return err_misuse(err, "--%s needs a value; it takes: %s", r->name, what);
}

/* One option at argv[i]: 0 or how many further arguments it takes (1), or the refusal. */
static int scan_option(const struct opt_command *cmd, int argc, char **argv, int i,
                       struct opt_given *given, struct err *err)
{
    const char           *name = argv[i] + 2, *value = strchr(name, '=');
    size_t                len = value ? (size_t)(value - name) : strlen(name);
    int                   found = opt_row_find(cmd, name, len);
    const struct opt_row *r;

    if (found < 0)
        return refuse_unknown(cmd, name, len, err);
    r = opt_row_at(cmd, (size_t)found, NULL);
    if (r->type == OPT_LATER)
        return err_misuse(err, "--%s is not in this version: %s", r->name, r->help);
    if (given->row[found] && r->type != OPT_STRINGS)
        return err_misuse(err, "--%s was given twice; expected it once", r->name);
    given->row[found] = 1;
    if (r->type == OPT_FLAG)
        return value ? err_misuse(err, "--%s takes no value, but was given %s", r->name, value + 1) : 0;
    if (value && value[1])
        return 0;
    if (value || (i + 1 < argc && !*argv[i + 1]))
        return err_misuse(err, "--%s needs a value, but was given an empty one", r->name);
    if (i + 1 >= argc)
        return refuse_missing(r, NULL, err);
    if (!strncmp(argv[i + 1], "--", 2))
        return refuse_missing(r, argv[i + 1], err);
    return 1;
}

/* The options of the command line: 0, 1 if help is asked for, or the refusal. */
static int opt_scan(const struct opt_command *cmd, int argc, char **argv, struct opt_given *given,
                    struct err *err)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        int rc;

        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return 1;
        if (argv[i][0] != '-' || !argv[i][1])
            continue;
        if (argv[i][1] != '-')
            return err_misuse(err, "there is no option %s; options are written --name, and siTrain "
                              "%s --help lists them", argv[i], cmd->name);
        rc = scan_option(cmd, argc, argv, i, given, err);
        if (rc < 0)
            return rc;
        i += rc;
    }
    return 0;
}

/* argtable2's table for the rows; ends with arg_end. NULL entries for later options are not
 * there: they were refused. */
static int table_make(const struct opt_command *cmd, int argc, void **table, size_t *n, struct err *err)
{
    const struct opt_row *r;
    size_t                at = 0;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++) {
        int many = r->type == OPT_STRINGS || r->type == OPT_ARGS;

        assert(i < OPT_MAX_ROWS);
        if (r->type == OPT_FLAG || r->type == OPT_LATER)
            table[at++] = arg_lit0(NULL, r->name, NULL);
        else
            table[at++] = arg_strn(NULL, row_is_arg(r) ? NULL : r->name, NULL, row_is_arg(r),
                                   many ? argc + 1 : 1, NULL);
    }
    table[at++] = arg_end(4);
    *n = at;
    return arg_nullcheck(table) ? no_memory(err) : 0;
}

/* What is left to go wrong after opt_scan: too many positional arguments, or too few. */
static int refuse_positional(const struct opt_command *cmd, void *const *table,
                             const struct arg_end *end, struct err *err)
{
    const struct opt_row *r;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (row_is_arg(r) && !((const struct arg_str *)table[i])->count)
            return err_misuse(err, "%s is missing (%s); usage: siTrain %s %s", r->name, r->help,
                              cmd->name, cmd->usage);
    return err_misuse(err, "%s was not expected; usage: siTrain %s %s",
                      end->argval[0] ? end->argval[0] : "an argument", cmd->name, cmd->usage);
}

static int row_fill(const struct opt_row *r, const char *def, const void *entry, void *field, struct err *err)
{
    const struct arg_str *s = entry;
    int                   rc = 0;

    if (r->type == OPT_LATER)
        return 0;
    if (r->type == OPT_FLAG) {
        *(int *)field = ((const struct arg_lit *)entry)->count > 0;
        return 0;
    }
    if (!s->count)
        return def ? value_parse(r, def, field, err) : 0;
    for (int i = 0; i < s->count && !rc; i++)
        rc = value_parse(r, s->sval[i], field, err);
    return rc;
}

static int opt_fill(const struct opt_command *cmd, int argc, char **argv, char *options, struct err *err)
{
    void                 *table[OPT_MAX_ROWS + 1] = { 0 };
    const struct opt_row *r;
    size_t                n = 0, offset;
    int                   rc = table_make(cmd, argc, table, &n, err);

    if (!rc && arg_parse(argc, argv, table))
        rc = refuse_positional(cmd, table, table[n - 1], err);
    for (size_t i = 0; !rc && (r = opt_row_at(cmd, i, &offset)); i++)
        rc = row_fill(r, opt_row_default(cmd, r), table[i], options + offset, err);
    arg_freetable(table, n);
    return rc;
}

/* The command line in the names of rows. */
static int parse_rows(const struct opt_command *cmd, int argc, char **argv, void *options,
                      struct opt_given *given, struct err *err)
{
    int rc = opt_scan(cmd, argc, argv, given, err);

    if (rc)
        return rc;
    rc = opt_fill(cmd, argc, argv, options, err);
    if (rc)
        opt_release(cmd, options);
    return rc;
}

int opt_parse(const struct opt_command *cmd, int argc, char **argv, void *options,
              struct opt_given *given, struct err *err)
{
    struct opt_given   unused, *g = given ? given : &unused;
    struct opt_rewrite w;
    int                rc;

    memset(options, 0, cmd->size);
    memset(g, 0, sizeof *g);
    for (const struct opt_default *d = cmd->defaults; d && d->row; d++)
        assert(opt_row_find(cmd, d->row, strlen(d->row)) >= 0);
    if (!cmd->aliases)
        return parse_rows(cmd, argc, argv, options, g, err);
    rc = opt_rewrite(&w, cmd, argc, argv, err);
    if (!rc) {
        rc = parse_rows(cmd, w.argc, w.argv, options, g, err);
        if (rc < 0)
            opt_rewrite_blame(&w, cmd, err);
        else if (!rc && w.notices)
            fputs(w.notices, stderr);
    }
    opt_rewrite_release(&w);
    return rc;
}

void opt_release(const struct opt_command *cmd, void *options)
{
    const struct opt_row *r;
    size_t                offset;

    for (size_t i = 0; (r = opt_row_at(cmd, i, &offset)); i++) {
        void *field = (char *)options + offset;

        if (r->type == OPT_STRING || r->type == OPT_ARG) {
            free(*(char **)field);
            *(char **)field = NULL;
        } else if (r->type == OPT_STRINGS || r->type == OPT_ARGS) {
            strings_release(field);
        }
    }
}

int opt_fail(const char *name, const struct err *err)
{
    fprintf(stderr, "siTrain %s: %s\n", name, err->text);
    return err->misuse ? 2 : 1;
}

int opt_start(const struct opt_command *cmd, int argc, char **argv, void *options, struct opt_given *given)
{
    struct err err = { 0 };
    int        rc = opt_parse(cmd, argc, argv, options, given, &err);

    if (rc < 0)
        return opt_fail(cmd->name, &err);
    if (rc)
        opt_help(cmd, stdout);
    return rc ? 0 : -1;
}
