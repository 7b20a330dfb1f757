/* machine_file.c: reads and writes the lines of a machine_file by one table. A line is a name and
 * numbers, and each number has its place in the struct. */
#include "plan/machine_file.h"

#include "data/base/number.h"
#include "data/base/table.h"
#include "data/base/text_made.h"
#include "data/base/visible.h"
#include "data/opt/opt_file.h"

#include <assert.h>

/* Bounds that keep all times finite. */
#define LEAST 1.0
#define MOST  1e30

enum { MOST_VALUE = 192 };

/* The allowed range of a number. */
enum bound { RATE, PART };

#define AT(field)        offsetof(struct machine_file, field)
#define POINTS(field, n) AT(field), sizeof *((struct machine_file *)0)->field, n, AT(n_##field##s)

/* A kind of line. Lines with `most` may occur several times: they are the elements of an array,
 * whose number is at `count`. dt: an element begins with a dtype; kind: and then a kind of
 * layers. */
static const struct line {
    const char *name, *words;
    size_t      numbers;
    enum bound  bound;
    size_t      at, each, most, count;
    int         dt, kind;
    const char *comment;
} lines[] = {
    { "flops", "FLOP/s", 1, RATE, AT(flops), 0, 0, 0, 0, 0,
      "FLOP/s that forward and backward reach, whatever the size" },
    { "threads", "a number", 1, RATE, AT(threads), 0, 0, 0, 0, 0,
      "threads with which all of this was measured" },
    { "serial", "a part", 1, PART, AT(serial), 0, 0, 0, 0, 0,
      "the part of computing's time that more threads do not shorten" },
    { "layer", "dtype [kind] width tokens FLOP/s FLOP/s FLOP/s", 5, RATE,
      POINTS(layer, MACHINE_POINTS), 1, 1,
      "a layer without its attention: dtype, whose (gpt2, llama, bert, gemma), width, tokens of a\n"
      "# chunk; FLOP/s of forward (2 a parameter of its matrices and token; gpt2: 24 C^2), of\n"
      "# backward (4) and of what is computed again (2 of those that are)" },
    { "attention", "dtype [kind] width tokens FLOP/s FLOP/s", 4, RATE,
      POINTS(attention, MACHINE_POINTS), 1, 1,
      "attention: dtype, whose, width of a head, tokens of a row; FLOP/s of forward (4 C a token\n"
      "# and key that it sees: 2 C T where it looks back only) and backward (10 C)" },
    { "head", "dtype width FLOP/s", 2, RATE, POINTS(head, MACHINE_POINTS), 1, 0,
      "the head with its loss: dtype, width; FLOP/s of its three products (6 C V a token)" },
    { "memory", "bytes/s", 1, RATE, AT(memory), 0, 0, 0, 0, 0,
      "bytes/s of passes over arrays that read two and write one" },
    { "norm", "parameters/s", 1, RATE, AT(norm), 0, 0, 0, 0, 0,
      "parameters/s of the pass over gradients: norm and checksum" },
    { "top-k", "parameters/s", 1, RATE, AT(topk), 0, 0, 0, 0, 0,
      "parameters/s of Top-K (--compress), beside it" },
    { "unpack-int8", "parameters/s", 1, RATE, AT(unpack_int8), 0, 0, 0, 0, 0,
      "parameters/s of unpacking a frozen base in 8 bits (--base-dtype)" },
    { "unpack-nf4", "parameters/s", 1, RATE, AT(unpack_nf4), 0, 0, 0, 0, 0,
      "parameters/s of unpacking one in 4 bits" },
    { "host-update", "parameters/s", 1, RATE, AT(update.host), 0, 0, 0, 0, 0,
      "parameters/s that the host's processor updates (mem)" },
    { "device-update", "parameters/s", 1, RATE, AT(update.engine), 0, 0, 0, 0, 0,
      "parameters/s that one device updates (base, su, su+o)" },
    { "updates-beside", "parameters/s", 1, RATE, AT(update.beside), 0, 0, 0, 0, 0,
      "parameters that devices update in a second that they take from computing beside them" },
    { "emulated", "0 or 1", 1, PART, AT(emulated), 0, 0, 0, 0, 0,
      "1: devices compute on the host's processor, so device-update is what one core does" },
    { "drive", "bytes/s bytes/s bytes/s", 3, RATE, POINTS(drive, MACHINE_DRIVES), 0, 0,
      "a drive: bytes/s reading, writing, and of an update's mix (16 bytes read for 14 written)" },
};
enum { LINES = sizeof lines / sizeof *lines };

const char *const machine_kinds[MACHINE_KINDS] = { "gpt2", "llama", "bert", "gemma" };

/* The beginning of elements that have a dtype. Their numbers follow it. */
struct element { enum dtype dt; enum machine_kind kind; double first; };
static_assert(offsetof(struct element, first) == offsetof(struct machine_layer, width) &&
                  offsetof(struct element, first) == offsetof(struct machine_attention, head) &&
                  offsetof(struct element, first) == offsetof(struct machine_head, width) &&
                  offsetof(struct element, kind) == offsetof(struct machine_layer, kind) &&
                  offsetof(struct element, kind) == offsetof(struct machine_attention, kind),
              "elements begin alike");

static struct element *element_of(const struct machine_file *m, const struct line *l, size_t i)
{
    return (struct element *)(void *)((char *)(uintptr_t)m + l->at + i * l->each);
}

/* Where the numbers of line l's element i are, behind its dtype. */
static double *numbers_of(const struct machine_file *m, const struct line *l, size_t i)
{
    struct element *e = element_of(m, l, i);

    return l->dt ? &e->first : (double *)(void *)e;
}

static size_t *count_of(const struct machine_file *m, const struct line *l)
{
    return (size_t *)(void *)((char *)(uintptr_t)m + l->count);
}

/* ---- reading ---- */

static int number(double *out, const struct line *l, const char *text, struct err *err)
{
    double      x = 0, most = l->bound == PART ? 1 : MOST;
    const char *end = number_decimal(text, &x);

    if (!end || *end || !(x >= (l->bound == RATE ? LEAST : 0) && x <= most))
        return err_misuse(err, "%s %s: a number from %g to %g is expected, as %s", l->name, text,
                          l->bound == RATE ? LEAST : 0, most,
                          l->bound == RATE ? "55e12" : "0.1");
    *out = x;
    return 0;
}

/* Takes a name. It will be printed, and be part of JSON. */
static int name_take(struct machine_file *m, const char *text, struct err *err)
{
    size_t n = strlen(text);
    char   shown[4 * sizeof m->name];

    if (n >= sizeof m->name || visible_text(shown, sizeof shown, text, n) != n)
        return err_misuse(err, "name: a text of at most %zu bytes in UTF-8 is expected, without "
                          "control characters", sizeof m->name - 1);
    memcpy(m->name, text, n + 1);
    return 0;
}

static int dtype_take(enum dtype *out, const struct line *l, const char *word, struct err *err)
{
    if (strcmp(word, dtype_name(DT_F32)) && strcmp(word, dtype_name(DT_BF16)))
        return err_misuse(err, "%s %s: %s or %s is expected first", l->name, word,
                          dtype_name(DT_F32), dtype_name(DT_BF16));
    *out = strcmp(word, dtype_name(DT_F32)) ? DT_BF16 : DT_F32;
    return 0;
}

enum machine_kind machine_kind_named(const char *word)
{
    const char *const *found = TABLE_FIND(machine_kinds, word);

    return found ? (enum machine_kind)(found - machine_kinds) : MACHINE_KINDS;
}

/* Takes a line, which must have exactly as many words. The kind may be missing. */
static int line_take(struct machine_file *m, const struct line *l, const char *value,
                     struct err *err)
{
    size_t  i = l->most ? *count_of(m, l) : 0, words = 0, want = l->numbers + (l->dt ? 1 : 0);
    double *to = numbers_of(m, l, i);
    char    copy[MOST_VALUE], *rest = copy, *word;
    int     rc = 0, named = 0;

    if (l->most ? i == l->most : *to > 0)
        return err_misuse(err, l->most ? "%s is there more than %zu times" : "%s is there twice",
                          l->name, l->most);
    snprintf(copy, sizeof copy, "%s", value);
    while (!rc && strlen(value) < sizeof copy && (word = strsep(&rest, " \t"))) {
        if (!*word)
            continue;
        if (l->kind && words == 1 && !named && machine_kind_named(word) < MACHINE_KINDS) {
            element_of(m, l, i)->kind = machine_kind_named(word);
            named = 1;
            continue;
        }
        if (words == want)
            words++;
        else if (l->dt && words == 0)
            rc = dtype_take(&element_of(m, l, i)->dt, l, word, err);
        else
            rc = number(&to[words - (l->dt ? 1 : 0)], l, word, err);
        words += words < want;
    }
    if (!rc && words != want)
        rc = err_misuse(err, "%s: %zu value%s expected: %s", l->name, want,
                        want > 1 ? "s are" : " is", l->words);
    if (!rc && l->most)
        ++*count_of(m, l);
    return rc;
}

static int machine_take(void *ctx, const char *name, const char *value, struct err *err)
{
    struct machine_file *m = ctx;

    if (!value)
        return err_misuse(err, "%s stands alone: %s = value is expected", name, name);
    if (!strcmp(name, "name"))
        return name_take(m, value, err);
    const struct line *l = TABLE_FIND(lines, name);
    return l ? line_take(m, l, value, err)
             : err_misuse(err, "%s is nothing that a machine has: siTrain bench --save writes what "
                          "it can have", name);
}

int machine_file_check(const struct machine_file *m, const char *what, struct err *err)
{
    if (m->flops > 0 || (m->n_layers && m->n_attentions && m->n_heads))
        return 0;
    if (m->n_layers || m->n_attentions || m->n_heads)
        return err_misuse(err, "%s: layer, attention and head go together, and one of them is "
                          "missing", what);
    return err_misuse(err, "%s: flops is missing: the FLOP/s that forward and backward reach; or "
                      "layer, attention and head, as siTrain bench --save measures them", what);
}

int machine_file_read(struct machine_file *out, const char *path, struct err *err)
{
    *out = (struct machine_file){ 0 };
    int rc = opt_file_each(path, machine_take, out, err);

    return rc ? rc : machine_file_check(out, path, err);
}

/* ---- writing ---- */

/* Writes line l's element i as its value. 0 if there is none. */
static int value_of(char value[MOST_VALUE], const struct machine_file *m, const struct line *l,
                    size_t i)
{
    const double *x = numbers_of(m, l, i);
    size_t        used = 0;

    if (i >= (l->most ? *count_of(m, l) : 1) || (!l->most && !(*x > 0)))
        return 0;
    if (l->dt)
        used = (size_t)snprintf(value, MOST_VALUE, "%s ",
                                dtype_name((size_t)element_of(m, l, i)->dt));
    if (l->kind && element_of(m, l, i)->kind)
        used += (size_t)snprintf(value + used, MOST_VALUE - used, "%s ",
                                 machine_kinds[element_of(m, l, i)->kind]);
    for (size_t k = 0; k < l->numbers; k++)
        used += (size_t)snprintf(value + used, MOST_VALUE - used, "%s%.5g", k ? " " : "", x[k]);
    return 1;
}

int machine_file_each(const struct machine_file *m, machine_file_line *each, void *ctx)
{
    char value[MOST_VALUE];
    int  rc = *m->name ? each(ctx, "name", m->name, "what was measured") : 0;

    for (size_t l = 0; l < LINES; l++)
        for (size_t i = 0; !rc && value_of(value, m, &lines[l], i); i++) {
            rc = each(ctx, lines[l].name, value, i ? NULL : lines[l].comment);
            if (!lines[l].most)
                break;
        }
    return rc;
}

static int write_line(void *ctx, const char *name, const char *value, const char *comment)
{
    FILE *f = ctx;

    if (comment)
        fprintf(f, "\n# %s\n", comment);
    opt_file_write(f, name, value);
    return 0;
}

char *machine_file_text(const struct machine_file *m, struct err *err)
{
    char  *text = NULL;
    size_t n = 0;
    FILE  *f = open_memstream(&text, &n);

    if (f) {
        fputs("# A machine as siTrain bench --save measured it; siTrain plan --machine reads it. "
              "What is not here takes no time.\n", f);
        machine_file_each(m, write_line, f);
    }
    if (!text_made(f, &text, 0))
        err_set(err, -ENOMEM, "out of memory for a machine's figures");
    return text;
}
