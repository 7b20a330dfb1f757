/* opt_value.c: the values of options: what a row takes from its text, what it refuses, and the text
 * again.
 *
 * Invariant: a value's text (opt_value_text) is taken back by opt_value_parse with the same result.
 */
#include "cmd/opt/opt_value.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

        n += (size_t)snprintf(buf + n, size - n, "%.*s%s", (int)len, words,
                              last   ? " or "
                              : more ? ", "
                                     : "");
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

static int number_refuse(const struct opt_row *r, const char *text, const char *what,
                         struct err *err)
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
    } else if (r->type == OPT_UINT && !text[strspn(text, "0123456789")] && strtod(text, NULL) > 1) {
        snprintf(max, sizeof max, " to %lld", (long long)INT64_MAX);
    }
    return err_misuse(err, "--%s %s: expected %s from %s%s", r->name, text, what, min,
                      *max ? max : " up");
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

static int parse_warmup(const struct opt_row *r, const char *text, struct opt_warmup *out,
                        struct err *err)
{
    const char *end = decimal(text, &out->value);

    out->percent = end && !strcmp(end, "%");
    if (out->percent && out->value <= 100) {
        out->value /= 100;
        return 0;
    }
    if (!end || *end || out->value != floor(out->value) || out->value > 1e15)
        return err_misuse(err,
                          "--%s %s: expected a number of steps, or a part of them from 0%% to "
                          "100%%",
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
        return err_misuse(err, "--%s %s: expected %s (did you mean %s?)", r->name, text, known,
                          near);
    return err_misuse(err, "--%s %s: expected %s", r->name, text, known);
}

/* ---- values ---- */

int opt_no_memory(struct err *err)
{
    return err_set(err, -ENOMEM, "out of memory while reading the options");
}

void opt_strings_release(struct opt_strings *s)
{
    for (size_t i = 0; i < s->n; i++)
        free((void *)(uintptr_t)s->item[i]);
    free(s->item);
    *s = (struct opt_strings){ 0 };
}

int opt_strings_add(struct opt_strings *s, const char *text, size_t len, struct err *err)
{
    const char **items = realloc(s->item, (s->n + 1) * sizeof *items);
    char        *copy = items ? strndup(text, len) : NULL;

    if (items)
        s->item = items;
    if (!copy)
        return opt_no_memory(err);
    s->item[s->n++] = copy;
    return 0;
}

static int set_string(const char **field, const char *text, struct err *err)
{
    char *copy = strdup(text);

    if (!copy)
        return opt_no_memory(err);
    free((void *)(uintptr_t)*field);
    *field = copy;
    return 0;
}

static int parse_string(const struct opt_row *r, const char *text, struct opt_strings *out,
                        struct err *err)
{
    return r->max > 0 && (double)out->n >= r->max
               ? err_misuse(err, "--%s was given more than %.0f times", r->name, r->max)
               : opt_strings_add(out, text, strlen(text), err);
}

static int parse_flag(const struct opt_row *r, const char *text, int *out, struct err *err)
{
    *out = !strcmp(text, "1");
    return *out || !strcmp(text, "0") ? 0
                                      : err_misuse(err, "--%s %s: expected 0 or 1", r->name, text);
}

/* Read one value into its field. Repeated strings: one more. */
int opt_value_parse(const struct opt_row *r, const char *text, void *field, struct err *err)
{
    switch (r->type) {
    case OPT_FLAG:    return parse_flag(r, text, field, err);
    case OPT_ARG:
    case OPT_CONFIG:
    case OPT_STRING:  return set_string(field, text, err);
    case OPT_ARGS:
    case OPT_STRINGS: return parse_string(r, text, field, err);
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
void opt_value_text(const struct opt_row *r, const void *field, char *buf, size_t size)
{
    switch (r->type) {
    case OPT_FLAG:   snprintf(buf, size, "%d", *(const int *)field); break;
    case OPT_UINT:
    case OPT_SIZE:
        snprintf(buf, size, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case OPT_DOUBLE:
    case OPT_RATIO:  double_text(buf, size, *(const double *)field); break;
    case OPT_WORD:   word_text(r, *(const int *)field, buf, size); break;
    case OPT_WARMUP: warmup_text(field, buf, size); break;
    default:         buf[0] = '\0';
    }
}

uint64_t opt_warmup_steps(struct opt_warmup w, uint64_t horizon)
{
    return w.percent ? (uint64_t)ceil(w.value * (double)horizon - 1e-9) : (uint64_t)w.value;
}
