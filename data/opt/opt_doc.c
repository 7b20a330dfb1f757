/* opt_doc.c: prints --help and the man page. All their text comes from rows and commands. */
#include "data/opt/opt.h"

#include "data/base/visible.h"

#include <assert.h>

// terminals open with 80 columns
enum { USAGE_COLUMN = 7, HELP_COLUMN = 30, HELP_WIDTH = 80 };

/* Names of values, unless the row has one. NULL: no value can be typed. */
static const char *const value_names[] = {
    [OPT_STRING] = "TEXT", [OPT_PATH] = "PATH", [OPT_STRINGS] = "TEXT", [OPT_PATHS] = "PATH",
    [OPT_FILES] = "FILE",
    [OPT_UINT] = "N",      [OPT_SIZE] = "SIZE", [OPT_SIZES] = "SIZE,..", [OPT_DOUBLE] = "X",
    [OPT_RATIO] = "PART",  [OPT_TIME] = "TIME",  [OPT_WARMUP] = "N|PART", [OPT_ARGS] = NULL,
};

const char *opt_value_name(const struct opt_row *r)
{
    return r->arg ? r->arg : value_names[r->type];
}

/* Writes "--name VALUE", or the argument's name. */
static void row_head(const struct opt_row *r, char *buf, size_t size)
{
    char        words[256];
    const char *value = opt_value_name(r);

    if (!r->arg && r->words)
        value = opt_words_join(words, sizeof words, r->words, r->type == OPT_SET ? "," : "|",
                               r->type == OPT_SET ? "," : "|");
    if (opt_row_is_arg(r))
        snprintf(buf, size, "%s%s", r->name, r->type == OPT_ARGS ? "..." : "");
    else
        snprintf(buf, size, "--%s%s%s", r->name, value ? " " : "", value ? value : "");
}

size_t opt_sentence(const char *help)
{
    const char *stop = strstr(help, ". ");
    size_t      line = strcspn(help, "\n");

    return stop && stop < help + line ? (size_t)(stop - help) : line;
}

/* Writes the row's help with "(repeated; default: X)" at the end of its first sentence, or in the
 * parenthesis that ends it. If the help describes its own default and the command has another, the
 * command's is shown. */
static void row_help(const struct opt_command *cmd, const struct opt_row *r, char *buf, size_t size)
{
    char        full[OPT_HELP_BYTES];
    const char *help = opt_row_help(r, full, sizeof full), *def = opt_row_default(cmd, r);
    const char *described = strstr(help, "default: ");
    int         repeated = opt_row_is_many(r) && !opt_row_is_arg(r);
    int         shown = def && *def && !(described && def == r->def);
    size_t      at = opt_sentence(help);

    if (shown && described) {
        snprintf(buf, size, "%.*sdefault: %s%s", (int)(described - help), help, def,
                 described + strcspn(described, ")"));
        return;
    }
    int open = (repeated || shown) && at && help[at - 1] == ')';
    snprintf(buf, size, "%.*s%s%s%s%s%s%s%s", (int)(at - (size_t)open), help,
             !repeated && !shown ? "" : open ? "; " : " (", repeated ? "repeated" : "",
             repeated && shown ? "; " : "", shown ? "default: " : "", shown ? def : "",
             repeated || shown ? ")" : "", help + at);
}

static void print_row(const struct opt_command *cmd, const struct opt_row *r, FILE *out)
{
    char head[256], help[OPT_HELP_BYTES];

    row_head(r, head, sizeof head);
    row_help(cmd, r, help, sizeof help);
    int at = fprintf(out, "  %s", head);
    if (at + 2 > HELP_COLUMN)
        at = fprintf(out, "\n") - 1;
    visible_words(out, help, at, HELP_COLUMN, HELP_WIDTH);
    fputc('\n', out);
}

static void print_first(const struct opt_command *cmd, FILE *out)
{
    size_t n = 0, rows = 0;

    fputs("\nThe options to begin with\n", out);
    for (const char *at = cmd->first; *at; at += strspn(at, " "), n++) {
        size_t length = strcspn(at, " ");
        int    row = opt_row_find(cmd, at, length);

        assert(row >= 0);
        print_row(cmd, opt_row_at(cmd, (size_t)row, NULL), out);
        at += length;
    }
    while (opt_row_at(cmd, rows, NULL))
        rows++;
    fprintf(out, "\nThe other %zu options: siTrain %s --help all\n", rows - n, cmd->name);
}

void opt_help(const struct opt_command *cmd, int all, FILE *out)
{
    visible_words(out, cmd->usage, fprintf(out, "Usage: siTrain %s ", cmd->name), USAGE_COLUMN,
                  HELP_WIDTH);
    fputs("\n\n", out);
    visible_words(out, cmd->summary, 0, 0, HELP_WIDTH);
    fputs(cmd->text ? "\n\n" : "\n", out);
    if (cmd->text) {
        visible_words(out, cmd->text, 0, 0, HELP_WIDTH);
        fputc('\n', out);
    }
    if (cmd->first && !all)
        print_first(cmd, out);
    for (const struct opt_part *p = cmd->parts; p->rows && (all || !cmd->first); p++) {
        fprintf(out, "\n%s\n", p->title);
        for (const struct opt_row *r = p->rows; r->type; r++)
            print_row(cmd, r, out);
    }
    if (cmd->aliases)
        fputs("\nAnother program's options are accepted, too: siTrain --man lists them.\n", out);
    fprintf(out, "\nExamples\n  %s\n  %s\n", cmd->examples[0], cmd->examples[1]);
}

/* ---- man ---- */

/* Prints a line for man: a typed hyphen is \-, a backslash \e, and no line begins with a control
 * character. */
void opt_man_line(FILE *out, const char *macro, const char *text)
{
    fputs(macro, out);
    if (!*macro && (*text == '.' || *text == '\''))
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\n.br\n", out);
        else if (*text == '-' || *text == '\\')
            fputs(*text == '-' ? "\\-" : "\\e", out);
        else
            fputc(*text, out);
    }
    fputc('\n', out);
}

static void man_aliases(const struct opt_command *cmd, FILE *out)
{
    char   buf[256];
    size_t n;

    fputs(".PP\n.I Taken too, as another program has them\n", out);
    for (const struct opt_alias *a = cmd->aliases; a->names; a++)
        for (const char *at = a->names; a->row && (n = opt_alias_next(&at));) {
            snprintf(buf, sizeof buf, "--%.*s: --%s%s%s", (int)n, at - n, a->row,
                     a->value ? " " : "", a->value ? a->value : "");
            opt_man_line(out, ".br\n", buf);
        }
}

void opt_man(const struct opt_command *cmd, FILE *out)
{
    char buf[OPT_HELP_BYTES];

    opt_man_line(out, ".SS ", cmd->name);
    opt_man_line(out, ".B siTrain ", cmd->name);
    opt_man_line(out, "", cmd->usage);
    opt_man_line(out, ".PP\n", cmd->summary);
    if (cmd->text)
        opt_man_line(out, ".PP\n", cmd->text);
    for (const struct opt_part *p = cmd->parts; p->rows; p++) {
        opt_man_line(out, ".PP\n.I ", p->title);
        for (const struct opt_row *r = p->rows; r->type; r++) {
            row_head(r, buf, sizeof buf);
            opt_man_line(out, ".TP\n.B ", buf);
            row_help(cmd, r, buf, sizeof buf);
            opt_man_line(out, "", buf);
        }
    }
    if (cmd->aliases)
        man_aliases(cmd, out);
}
