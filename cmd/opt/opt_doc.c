/* opt_doc.c: what the option rows say to people: --help, the man page, the shell completion.
 * Nothing is written here that a row or a command does not hold. */
#include "cmd/opt/opt.h"

#include <string.h>

// a terminal as it opens has 80 columns
enum { USAGE_COLUMN = 7, HELP_COLUMN = 30, HELP_WIDTH = 80 };

static const char *value_name(const struct opt_row *r)
{
    if (r->arg)
        return r->arg;
    switch (r->type) {
    case OPT_UINT:   return "N";
    case OPT_SIZE:   return "SIZE";
    case OPT_DOUBLE: return "X";
    case OPT_RATIO:  return "PART";
    case OPT_WORD:   return r->words;
    case OPT_WARMUP: return "N|PART";
    case OPT_FLAG:
    case OPT_ARG:
    case OPT_ARGS:
    case OPT_LATER:  return "";
    case OPT_STRING:
    case OPT_CONFIG:
    case OPT_STRINGS: break;
    }
    return "TEXT";
}

/* "--name VALUE", or the argument's name. */
static void row_head(const struct opt_row *r, char *buf, size_t size)
{
    const char *value = value_name(r);

    if (r->type == OPT_ARG || r->type == OPT_ARGS)
        snprintf(buf, size, "%s%s", r->name, r->type == OPT_ARGS ? "..." : "");
    else
        snprintf(buf, size, "--%s%s%s", r->name, *value ? " " : "", value);
}

/* The help with what belongs to it: repeated, default. */
static void row_help(const struct opt_command *cmd, const struct opt_row *r, char *buf, size_t size)
{
    const char *def = opt_row_default(cmd, r);
    int         shown = def && *def;

    snprintf(buf, size, "%s%s%s%s%s", r->help, r->type == OPT_STRINGS ? " (repeated)" : "",
             shown ? " (default " : "", shown ? def : "", shown ? ")" : "");
}

/* Print words from column `from` on, broken before HELP_WIDTH, after `at` columns that are there
 * already. */
static void print_wrapped(FILE *out, const char *text, int at, int from)
{
    int first = 1;

    while (*text) {
        int len = (int)strcspn(text, " ");

        if (at < from)
            at += fprintf(out, "%*s", from - at, "");
        else if (!first && at + 1 + len > HELP_WIDTH)
            at = fprintf(out, "\n%*s", from, "") - 1;
        else if (!first)
            at += fprintf(out, " ");
        at += fprintf(out, "%.*s", len, text);
        first = 0;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void help_row(const struct opt_command *cmd, const struct opt_row *r, FILE *out)
{
    char head[256], help[512];
    int  at;

    row_head(r, head, sizeof head);
    row_help(cmd, r, help, sizeof help);
    at = fprintf(out, "  %s", head);
    if (at + 2 > HELP_COLUMN) {
        fputc('\n', out);
        at = 0;
    }
    print_wrapped(out, help, at, HELP_COLUMN);
}

static void help_later(const struct opt_command *cmd, FILE *out)
{
    const struct opt_row *r;
    char                  text[1024] = "";
    size_t                n = 0;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (r->type == OPT_LATER && n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s--%s", n ? ", " : "", r->name);
    if (!n)
        return;
    fprintf(out, "\nNot in this version\n  ");
    print_wrapped(out, text, 2, 2);
}

void opt_help(const struct opt_command *cmd, FILE *out)
{
    print_wrapped(out, cmd->usage, fprintf(out, "Usage: siTrain %s ", cmd->name), USAGE_COLUMN);
    fputc('\n', out);
    print_wrapped(out, cmd->summary, 0, 0);
    if (cmd->text) {
        fputc('\n', out);
        print_wrapped(out, cmd->text, 0, 0);
    }
    for (const struct opt_part *p = cmd->parts; p && p->rows; p++) {
        fprintf(out, "\n%s\n", p->title);
        for (const struct opt_row *r = p->rows; r->type; r++)
            if (r->type != OPT_LATER)
                help_row(cmd, r, out);
    }
    if (cmd->aliases)
        fputs("\nNames of another program's options that are taken too: siTrain --man.\n", out);
    help_later(cmd, out);
}

/* ---- man ---- */

/* A hyphen that is typed is \-, a backslash \e, and no line may begin with a control character. */
void opt_man_text(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
    }
}

/* The aliases that stand for something here, each with its row. */
static void man_aliases(const struct opt_command *cmd, FILE *out)
{
    char buf[256];

    fputs(".PP\n.I Taken too, as another program has them\n", out);
    for (const struct opt_alias *a = cmd->aliases; a->name; a++) {
        if (!a->row)
            continue;
        snprintf(buf, sizeof buf, "--%s: --%s%s%s", a->name, a->row, a->value ? " " : "",
                 a->value ? a->value : "");
        fputs(".br\n", out);
        opt_man_text(out, buf);
        fputc('\n', out);
    }
}

void opt_man(const struct opt_command *cmd, FILE *out)
{
    char buf[512];

    fputs(".SS ", out);
    opt_man_text(out, cmd->name);
    fputs("\n.B siTrain ", out);
    opt_man_text(out, cmd->name);
    fputc('\n', out);
    opt_man_text(out, cmd->usage);
    fputs("\n.PP\n", out);
    opt_man_text(out, cmd->summary);
    fputc('\n', out);
    if (cmd->text) {
        fputs(".PP\n", out);
        opt_man_text(out, cmd->text);
        fputc('\n', out);
    }
    for (const struct opt_part *p = cmd->parts; p && p->rows; p++) {
        fputs(".PP\n.I ", out);
        opt_man_text(out, p->title);
        fputc('\n', out);
        for (const struct opt_row *r = p->rows; r->type; r++) {
            if (r->type == OPT_LATER)
                continue;
            row_head(r, buf, sizeof buf);
            fputs(".TP\n.B ", out);
            opt_man_text(out, buf);
            fputc('\n', out);
            row_help(cmd, r, buf, sizeof buf);
            opt_man_text(out, buf);
            fputc('\n', out);
        }
    }
    if (cmd->aliases)
        man_aliases(cmd, out);
}

/* ---- completion ---- */

static void completion_words(const char *words, FILE *out)
{
    for (; *words; words++)
        fputc(*words == '|' ? ' ' : *words, out);
}

static void completion_command(const struct opt_command *cmd, FILE *out)
{
    const struct opt_row *r;

    fprintf(out, "    %s)\n        options=\"--help", cmd->name);
    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (r->type != OPT_LATER && r->type != OPT_ARG && r->type != OPT_ARGS)
            fprintf(out, " --%s", r->name);
    fputs("\"\n        case \"$before\" in\n", out);
    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (r->type == OPT_WORD) {
            fprintf(out, "        --%s) words=\"", r->name);
            completion_words(r->words, out);
            fputs("\" ;;\n", out);
        } else if (r->type == OPT_UINT || r->type == OPT_SIZE || r->type == OPT_DOUBLE ||
                   r->type == OPT_RATIO || r->type == OPT_WARMUP) {
            fprintf(out, "        --%s) words=\" \" ;;\n", r->name);
        } else if (r->type == OPT_STRING || r->type == OPT_STRINGS || r->type == OPT_CONFIG) {
            fprintf(out, "        --%s) files=1 ;;\n", r->name);
        }
    fputs("        esac ;;\n", out);
}

void opt_completion(const struct opt_command *const *cmds, size_t n, FILE *out)
{
    fputs("# bash completion of siTrain: source it, or put it into /etc/bash_completion.d/\n"
          "_siTrain() {\n"
          "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\""
          " options=\"\" words=\"\" files=\"\"\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s ", cmds[i]->name);
    fputs("--help --version --man --completion\" -- \"$word\"))\n        return\n    fi\n"
          "    case \"${COMP_WORDS[1]}\" in\n", out);
    for (size_t i = 0; i < n; i++)
        if (cmds[i]->parts)
            completion_command(cmds[i], out);
    fputs("    esac\n"
          "    if [ -n \"$words\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "    elif [ -z \"$files\" ] && [ \"${word#-}\" != \"$word\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _siTrain siTrain\n", out);
}
