/* opt_row.c: finds rows by number and name, and reads, checks and prints their values. */
#include "data/opt/opt_row.h"

#include "data/file/file.h"
#include "data/base/number.h"
#include "data/base/round.h"
#include "data/base/text_made.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- rows ---- */

const struct opt_row *opt_row_at(const struct opt_command *cmd, size_t i, size_t *offset)
{
    for (const struct opt_part *p = cmd->parts; p->rows; p++)
        for (const struct opt_row *r = p->rows; r->type; r++)
            if (i-- == 0) {
                if (offset)
                    *offset = p->offset + r->offset;
                return r;
            }
    return NULL;
}

int opt_row_is_arg(const struct opt_row *r) { return r->type == OPT_ARG || r->type == OPT_ARGS; }

int opt_row_is_many(const struct opt_row *r)
{
    return r->type == OPT_STRINGS || r->type == OPT_FILES || r->type == OPT_PATHS ||
           r->type == OPT_ARGS;
}

int opt_row_find(const struct opt_command *cmd, const char *name, size_t n)
{
    const struct opt_row *r;

    for (int i = 0; (r = opt_row_at(cmd, (size_t)i, NULL)); i++)
        if (!opt_row_is_arg(r) && strlen(r->name) == n && !memcmp(r->name, name, n))
            return i;
    return -1;
}

const char *opt_row_default(const struct opt_command *cmd, const struct opt_row *r)
{
    for (const struct opt_default *d = cmd->defaults; d && d->row; d++)
        if (!strcmp(d->row, r->name))
            return d->text;
    return r->def;
}

size_t opt_alias_next(const char **names)
{
    *names += strspn(*names, " ?");
    size_t n = strcspn(*names, " ?");
    *names += n;
    return n;
}

/* ---- words ---- */

const char *opt_row_help(const struct opt_row *r, char *buf, size_t size)
{
    const char *at = strstr(r->help, "%w");
    char        words[512];

    if (!at)
        return r->help;
    snprintf(buf, size, "%.*s%s%s", (int)(at - r->help), r->help,
             opt_words_join(words, sizeof words, r->words, ", ", ", "), at + 2);
    return buf;
}

char *opt_words_join(char *buf, size_t size, opt_words *words, const char *between,
                     const char *last)
{
    size_t n = 0;

    buf[0] = '\0';
    for (size_t i = 0; words(i) && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s",
                              !i ? "" : words(i + 1) ? between : last, words(i));
    return buf;
}

int opt_words_find(opt_words *words, const char *text, size_t n)
{
    for (int i = 0; words((size_t)i); i++)
        if (strlen(words((size_t)i)) == n && !memcmp(words((size_t)i), text, n))
            return i;
    return -1;
}

int opt_words_refuse(const char *name, const char *text, opt_words *words, struct err *err)
{
    char        all[512], known[512];
    const char *near = opt_nearest(text, opt_words_join(all, sizeof all, words, " ", " "));

    opt_words_join(known, sizeof known, words, ", ", " or ");
    if (near)
        return err_misuse(err, "--%s %s: expected %s (did you mean %s?)", name, text, known, near);
    return err_misuse(err, "--%s %s: expected %s", name, text, known);
}

int opt_name_is(const char *name, const char *typed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] != typed[i] && !(name[i] == '_' && typed[i] == '-'))
            return 0;
    return 1;
}

enum { WORD = 64 }; // words are short

/* Edit distance. Two exchanged letters are one edit. *stem: the longest piece that both have. */
static size_t word_distance(const char *a, const char *b, size_t *stem)
{
    size_t rows[3][WORD], same[WORD] = { 0 }, n = strlen(b);
    size_t *row = rows[0], *above = rows[1], *two = rows[2], *spare;

    *stem = 0;
    if (n >= WORD)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        spare = two;
        two = above;
        above = row;
        row = spare;
        row[0] = i;
        for (size_t j = n; j > 0; j--) { // same[j]: length of the piece that ends here
            same[j] = a[i - 1] == b[j - 1] ? same[j - 1] + 1 : 0;
            *stem = same[j] > *stem ? same[j] : *stem;
        }
        for (size_t j = 1; j <= n; j++) {
            row[j] = size_min(above[j - 1] + (a[i - 1] != b[j - 1]),
                           size_min(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = size_min(row[j], two[j - 2] + 1);
        }
    }
    return row[n];
}

const char *opt_nearest(const char *typed, char *words)
{
    const char *best = NULL, *longer = NULL;
    size_t      length = strlen(typed), best_distance = length / 4 + 2, stem; // further: another

    for (char *rest = words, *word; (word = strsep(&rest, " ?"));) {
        size_t d = word_distance(typed, word, &stem);
        int    kin = stem * 2 >= length && stem * 2 >= strlen(word);

        if (*word && d < best_distance && (d == 1 || kin)) {
            best_distance = d;
            best = word;
        }
        if (!longer && length >= 3 && !strncmp(word, typed, length))
            longer = word;
    }
    return best ? best : longer;
}

const char *opt_time_text(char *buf, size_t size, double seconds)
{
    unsigned long s = seconds > 0 ? (unsigned long)fmin(seconds + 0.5, 1e15) : 0;

    if (s < 60)
        snprintf(buf, size, s || !(seconds > 0) ? "%lus" : "<1s", s);
    else if (s < 3600)
        snprintf(buf, size, "%lum%02lus", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buf, size, "%luh%02lum", s / 3600, s / 60 % 60);
    else
        snprintf(buf, size, "%lud%02luh", s / 86400, s / 3600 % 24);
    return buf;
}

int opt_no_memory(struct err *err)
{
    return err_set(err, -ENOMEM, "out of memory while reading the options");
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

const char *opt_size_exact(char *buf, size_t size, const char *text)
{
    uint64_t bytes = strtoull(text, NULL, 10);
    int      unit = -1;

    while (unit < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buf, size, "%" PRIu64 "%.1s", bytes, unit < 0 ? "" : &"KMGT"[unit]);
    return buf;
}

/* The shortest decimal that reads back as v, or as a percentage of 1. A million has no exponent. */
static char *double_text(char *buf, size_t size, double v, int percent)
{
    for (int digits = 7 - percent; digits <= 17; digits++) {
        snprintf(buf, size, percent ? "%.*g%%" : "%.*g", digits, percent ? v * 100 : v);
        if (strtod(buf, NULL) / (percent ? 100 : 1) == v)
            break;
    }
    return buf;
}

static const char *limit_text(const struct opt_row *r, char *buf, size_t size, double limit)
{
    return r->type == OPT_SIZE ? opt_size_text(buf, size, limit) : double_text(buf, size, limit, 0);
}

static int number_refuse(const struct opt_row *r, const char *text, struct err *err)
{
    static const char *const what[] = {
        [OPT_UINT] = "a whole number",
        [OPT_SIZE] = "a size in bytes, or with K, M, G or T (powers of 1024; 4GB and 4GiB are 4G),",
        [OPT_SIZES] = "sizes, in bytes or with K, M, G or T (powers of 1024; 4GB and 4GiB are 4G), "
                      "commas between,",
        [OPT_DOUBLE] = "a number",
        [OPT_RATIO] = "a part such as 2% or 0.02,",
    };
    char min[32], max[48] = " up", limit[32];

    if (r->max > 0)
        snprintf(max, sizeof max, " to %s", limit_text(r, limit, sizeof limit, r->max));
    else if (r->type == OPT_UINT && !text[strspn(text, "0123456789")] && strtod(text, NULL) > 1)
        snprintf(max, sizeof max, " to %lld", (long long)INT64_MAX);
    return err_misuse(err, "--%s %s: expected %s from %s%s", r->name, text, what[r->type],
                      limit_text(r, min, sizeof min, r->min), max);
}

static int number_in_range(const struct opt_row *r, double v)
{
    return v >= r->min && !(r->max > 0 && v > r->max);
}

static int parse_uint(const struct opt_row *r, const char *text, uint64_t *out, struct err *err)
{
    char *end = NULL;

    errno = 0;
    *out = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || *out > INT64_MAX || !number_in_range(r, (double)*out))
        return number_refuse(r, text, err);
    return 0;
}

static int parse_size(const struct opt_row *r, const char *text, uint64_t *out, struct err *err)
{
    double v = 0;

    if (!number_size(text, &v) || !(v < 0x1p62) || !number_in_range(r, v))
        return number_refuse(r, text, err);
    *out = (uint64_t)v;
    return 0;
}

static int parse_sizes(const struct opt_row *r, const char *text, struct opt_sizes *out,
                       struct err *err)
{
    char  *copy = strdup(text), *rest = copy, *one;
    size_t most = 1;
    int    rc = 0;

    for (const char *c = text; *c; c++)
        most += *c == ',';
    free(out->item);
    *out = (struct opt_sizes){ calloc(most, sizeof *out->item), 0 };
    if (!copy || !out->item)
        rc = opt_no_memory(err);
    while (!rc && (one = strsep(&rest, ",")))
        rc = parse_size(r, one, &out->item[out->n++], err);
    free(copy);
    return rc;
}

/* Parses "2%" or "0.02" for a ratio, and other numbers without %. */
static int parse_double(const struct opt_row *r, const char *text, double *out, struct err *err)
{
    const char *end = number_decimal(text, out);

    if (r->type == OPT_RATIO && end && !strcmp(end, "%")) {
        *out /= 100;
        end++;
    }
    return end && !*end && number_in_range(r, *out) ? 0 : number_refuse(r, text, err);
}

static int parse_warmup(const struct opt_row *r, const char *text, struct opt_warmup *out,
                        struct err *err)
{
    const char *end = number_decimal(text, &out->value);

    out->percent = end && !strcmp(end, "%");
    if (out->percent && out->value <= 100) {
        out->value /= 100;
        return 0;
    }
    if (end && !*end && out->value > 0 && out->value < 1) { // no number of steps: a part, too
        out->percent = 1;
        return 0;
    }
    if (end && !*end && out->value == floor(out->value) && out->value <= 1e15)
        return 0;
    return err_misuse(err, "--%s %s: expected a number of steps, or a part of them from 0%% to "
                      "100%% or between 0 and 1", r->name, text);
}

/* Parses H:MM:SS. Returns whether the text is one. */
static int clock_time(const char *text, uint64_t *seconds)
{
    uint64_t part[3];
    int      end = 0;

    if (text[strspn(text, "0123456789:")] || // no sign, no blank
        sscanf(text, "%5" SCNu64 ":%2" SCNu64 ":%2" SCNu64 "%n", &part[0], &part[1], &part[2],
               &end) != 3 || text[end] || part[1] > 59 || part[2] > 59)
        return 0;
    *seconds = part[0] * 3600 + part[1] * 60 + part[2];
    return 1;
}

/* A number without a unit is refused: to sbatch it is minutes, to timeout seconds. */
static int parse_time(const struct opt_row *r, const char *text, uint64_t *out, struct err *err)
{
    static const struct { char unit; double seconds; } units[] = { { 'd', 86400 }, { 'h', 3600 },
                                                                   { 'm', 60 }, { 's', 1 } };
    const char *at = text, *end;
    double      sum = 0, value;

    if (strchr(text, ':') && clock_time(text, out) && *out)
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units && *at; i++)
        if ((end = number_decimal(at, &value)) && *end == units[i].unit) {
            sum += value * units[i].seconds;
            at = end + 1;
        }
    *out = sum > 0 && sum < 1e12 ? (uint64_t)ceil(sum) : 0;
    if (!*at && *out)
        return 0;
    return err_misuse(err, "--%s %s: expected a time, such as 90s, 45m, 2h, 1h30m, 1d or 1:30:00",
                      r->name, text);
}

uint64_t opt_warmup_steps(struct opt_warmup w, uint64_t horizon)
{
    return w.percent ? (uint64_t)ceil(w.value * (double)horizon - 1e-9) : (uint64_t)w.value;
}

/* ---- words ---- */

static int parse_flag(const struct opt_row *r, const char *text, int *out, struct err *err)
{
    *out = !strcmp(text, "1");
    if (*out || !strcmp(text, "0"))
        return 0;
    return err_misuse(err, "--%s %s: expected 0 or 1", r->name, text);
}

static int parse_word(const struct opt_row *r, const char *text, int *out, struct err *err)
{
    struct err why;

    *out = opt_words_find(r->words, text, strlen(text));
    if (*out >= 0)
        return 0;
    if (!r->other)
        return opt_words_refuse(r->name, text, r->words, err);
    opt_words_refuse(r->name, text, r->words, &why);
    return err_misuse(err, "%s; %s", why.text, r->other);
}

static int parse_set(const struct opt_row *r, const char *text, uint64_t *out, struct err *err)
{
    char known[512];

    *out = 0;
    for (size_t n; *text; text += n + (text[n] == ',')) {
        int i = opt_words_find(r->words, text, n = strcspn(text, ","));

        if (i < 0)
            return err_misuse(err, "--%s %.*s: %s, with commas between, are expected", r->name,
                              (int)n, text,
                              opt_words_join(known, sizeof known, r->words, ", ", " and "));
        *out |= (uint64_t)1 << i;
    }
    return 0;
}

/* ---- strings ---- */

/* Whether text is the path of a file that stands for its folder. *folder: the folder's length. */
static int names_file_of(const struct opt_row *r, const char *text, size_t *folder)
{
    const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text, *at = r->file;
    size_t      n;
    struct stat st;

    *folder = slash ? (size_t)(slash - text) + (slash == text) : 0;
    while (at && (n = opt_alias_next(&at)))
        if (strlen(name) == n && !memcmp(name, at - n, n))
            return !stat(text, &st) && S_ISREG(st.st_mode);
    return 0;
}

static int set_string(const struct opt_row *r, char **field, const char *text, struct err *err)
{
    size_t folder;

    free(*field);
    *field = !names_file_of(r, text, &folder) ? strdup(text)
             : folder                         ? strndup(text, folder)
                                              : strdup(".");
    return *field ? 0 : opt_no_memory(err);
}

static int add_string(const struct opt_row *r, const char *text, struct opt_strings *out,
                      struct err *err)
{
    const char **items;

    if (r->max > 0 && (double)out->n >= r->max)
        return err_misuse(err, "--%s was given more than %.0f times", r->name, r->max);
    int is_path = r->type == OPT_PATHS &&
                  !(r->words && opt_words_find(r->words, text, strlen(text)) >= 0);
    if (is_path && !strchr(text, '/') && access(text, F_OK))
        return opt_place_missing(r, text, err);
    items = realloc(out->item, (out->n + 1) * sizeof *items);
    if (!items)
        return opt_no_memory(err);
    out->item = items;
    char *copy = is_path ? NULL : file_path(err, "%s", text);
    int   rc = is_path ? opt_place(&copy, r->name, text, err) : copy ? 0 : -ENOMEM;
    if (!rc)
        items[out->n++] = copy; // opt_value_release frees it
    return rc;
}

/* ---- any value ---- */

int opt_value_parse(const struct opt_row *r, const char *text, void *field, struct err *err)
{
    switch (r->type) {
    case OPT_FLAG:    return parse_flag(r, text, field, err);
    case OPT_ARG:
    case OPT_PATH:
    case OPT_STRING:  return set_string(r, field, text, err);
    case OPT_ARGS:
    case OPT_FILES:
    case OPT_PATHS:
    case OPT_STRINGS: return add_string(r, text, field, err);
    case OPT_UINT:    return parse_uint(r, text, field, err);
    case OPT_SIZE:    return parse_size(r, text, field, err);
    case OPT_SIZES:   return parse_sizes(r, text, field, err);
    case OPT_DOUBLE:
    case OPT_RATIO:   return parse_double(r, text, field, err);
    case OPT_WORD:    return parse_word(r, text, field, err);
    case OPT_SET:     return parse_set(r, text, field, err);
    case OPT_TIME:    return parse_time(r, text, field, err);
    case OPT_WARMUP:  return parse_warmup(r, text, field, err);
    }
    return 0;
}

char *opt_value_text(const struct opt_row *r, const void *field)
{
    const struct opt_strings *many = field;
    const struct opt_sizes   *sizes = field;
    const struct opt_warmup  *w = field;
    const char               *one, *comma = "";
    char                      number[32], *text = NULL;
    size_t                    n;
    FILE                     *out = open_memstream(&text, &n);

    if (!out)
        return NULL;
    switch (r->type) {
    case OPT_FLAG:   fprintf(out, "%d", *(const int *)field); break;
    case OPT_UINT:
    case OPT_SIZE:   fprintf(out, "%" PRIu64, *(const uint64_t *)field); break;
    case OPT_SIZES:
        for (size_t i = 0; i < sizes->n; i++)
            fprintf(out, "%s%" PRIu64, i ? "," : "", sizes->item[i]);
        break;
    case OPT_DOUBLE:
    case OPT_RATIO:
        fputs(double_text(number, sizeof number, *(const double *)field, 0), out);
        break;
    case OPT_TIME:   // 0, no limit, is not typed
        if (*(const uint64_t *)field)
            fprintf(out, "%" PRIu64 "s", *(const uint64_t *)field);
        break;
    case OPT_WARMUP: fputs(double_text(number, sizeof number, w->value, w->percent), out); break;
    case OPT_WORD:   fputs(r->words((size_t)*(const int *)field), out); break;
    case OPT_SET:
        for (size_t i = 0; (one = r->words(i)); i++)
            if (*(const uint64_t *)field >> i & 1) {
                fprintf(out, "%s%s", comma, one);
                comma = ",";
            }
        break;
    case OPT_ARGS:
    case OPT_FILES:
    case OPT_PATHS:
    case OPT_STRINGS:
        for (size_t i = 0; i < many->n; i++)
            fprintf(out, "%s%s", i ? "\n" : "", many->item[i]);
        break;
    case OPT_ARG:
    case OPT_PATH:
    case OPT_STRING:
        one = *(const char *const *)field;
        fputs(one ? one : "", out);
    }
    return text_made(out, &text, 0);
}

void opt_value_release(const struct opt_row *r, void *field)
{
    struct opt_strings *s = field;

    if (opt_row_is_many(r)) {
        for (size_t i = 0; i < s->n; i++)
            free((void *)(uintptr_t)s->item[i]);
        free(s->item);
        *s = (struct opt_strings){ 0 };
    } else if (r->type == OPT_SIZES) {
        free(((struct opt_sizes *)field)->item);
        *(struct opt_sizes *)field = (struct opt_sizes){ 0 };
    } else if (r->type == OPT_ARG || r->type == OPT_PATH || r->type == OPT_STRING) {
        free(*(char **)field);
        *(char **)field = NULL;
    }
}
