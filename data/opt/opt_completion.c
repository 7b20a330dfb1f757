/* opt_completion.c: prints scripts with which bash, zsh and fish complete a command line: commands,
 * options, words, files. Everything comes from the rows; zsh and fish also show the rows'
 * sentences. Values that can only be typed are not completed. */
#include "data/opt/opt.h"

enum shell { BASH, ZSH, FISH };

TABLE_WORDS(opt_shells, [BASH] = "bash", [ZSH] = "zsh", [FISH] = "fish")

static const char own_options[] = "--help --version --man --completion";

static int takes_files(const struct opt_row *r)
{
    return !r->words && r->type >= OPT_STRING && r->type <= OPT_PATHS;
}

static const char *words_of(const struct opt_row *r, char *buf, size_t size)
{
    return opt_words_join(buf, size, r->words, " ", " ");
}

/* Prints text for single quotes. A quote in it is written as `quote`, and each character of
 * `special` gets a backslash. */
static void print_quoted(FILE *out, const char *text, const char *quote, const char *special)
{
    for (; *text && *text != '\n'; text++) {
        if (*text == '\'') {
            fputs(quote, out);
            continue;
        }
        if (strchr(special, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

/* ---- bash ---- */

static void bash_command(const struct opt_command *cmd, FILE *out)
{
    const struct opt_row *r;
    char                  words[512];

    fprintf(out, "    %s)\n        options=\"--help", cmd->name);
    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (!opt_row_is_arg(r))
            fprintf(out, " --%s", r->name);
    fputs("\"\n        case \"$before\" in\n", out);
    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++) {
        if (r->words)
            fprintf(out, "        --%s) words=\"%s\" ;;\n", r->name,
                    words_of(r, words, sizeof words));
        else if (takes_files(r))
            fprintf(out, "        --%s) files=1 ;;\n", r->name);
        else if (opt_value_name(r) && !opt_row_is_arg(r))
            fprintf(out, "        --%s) words=\" \" ;;\n", r->name);
    }
    fputs("        esac ;;\n", out);
}

static void bash_completion(const struct opt_command *const *cmds, size_t n, FILE *out)
{
    fputs("# bash completion of siTrain: source it, or put it into /etc/bash_completion.d/\n"
          "_siTrain() {\n"
          "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\""
          " options=\"\" words=\"\" files=\"\"\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s ", cmds[i]->name);
    fprintf(out, "%s\" -- \"$word\"))\n        return\n    fi\n"
                 "    case \"${COMP_WORDS[1]}\" in\n"
                 "    --completion) words=\"bash zsh fish\" ;;\n", own_options);
    for (size_t i = 0; i < n; i++)
        bash_command(cmds[i], out);
    fputs("    esac\n"
          "    if [ -n \"$words\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "    elif [ -z \"$files\" ] && [ \"${word#-}\" != \"$word\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "    else\n"
          "        local IFS=$'\\n'\n" // a name with blanks is one
          "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _siTrain siTrain\n", out);
}

/* ---- zsh: _arguments' specifications ---- */

static void zsh_quoted(FILE *out, const char *text)
{
    print_quoted(out, text, "'\\''", "\\:[]");
}

static void zsh_row(const struct opt_row *r, FILE *out)
{
    const char *value = opt_value_name(r);
    char        words[512], help[OPT_HELP_BYTES];

    if (opt_row_is_arg(r)) {
        fprintf(out, "            '%s:%s:_files' \\\n", r->type == OPT_ARGS ? "*" : "", r->name);
        return;
    }
    fprintf(out, "            '%s--%s%s[", opt_row_is_many(r) ? "*" : "", r->name,
            value || r->words ? "=" : "");
    zsh_quoted(out, opt_row_help(r, help, sizeof help));
    fputc(']', out);
    if (r->words && r->type == OPT_SET)
        fprintf(out, ":%s:_values -s , %s %s", r->name, r->name,
                words_of(r, words, sizeof words));
    else if (r->words)
        fprintf(out, ":%s:(%s)", r->name, words_of(r, words, sizeof words));
    else if (value) {
        fputc(':', out);
        zsh_quoted(out, value);
        fputs(takes_files(r) ? ":_files" : ": ", out);
    }
    fputs("' \\\n", out);
}

static void zsh_completion(const struct opt_command *const *cmds, size_t n, FILE *out)
{
    const struct opt_row *r;

    fputs("#compdef siTrain\n"
          "# zsh completion of siTrain: as _siTrain into a folder of $fpath\n"
          "_siTrain() {\n"
          "    if (( CURRENT == 2 )); then\n"
          "        local -a commands=(\n", out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "            '%s:", cmds[i]->name);
        zsh_quoted(out, cmds[i]->summary);
        fputs("'\n", out);
    }
    fprintf(out, "        )\n"
                 "        _describe command commands\n"
                 "        compadd -- %s\n"
                 "        return\n"
                 "    fi\n"
                 "    local command=$words[2]\n"
                 "    shift words\n"
                 "    (( CURRENT-- ))\n"
                 "    case $command in\n"
                 "    --completion) compadd bash zsh fish ;;\n", own_options);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "    %s)\n        _arguments \\\n", cmds[i]->name);
        for (size_t k = 0; (r = opt_row_at(cmds[i], k, NULL)); k++)
            zsh_row(r, out);
        fputs("            '--help[what it takes]' ;;\n", out);
    }
    fputs("    esac\n}\n"
          "if [ \"$funcstack[1]\" = _siTrain ]; then\n    _siTrain \"$@\"\n"
          "else\n    compdef _siTrain siTrain\nfi\n", out);
}

/* ---- fish ---- */

static void fish_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    print_quoted(out, text, "\\'", "\\");
    fputs("'\n", out);
}

static void fish_row(const struct opt_command *cmd, const struct opt_row *r, FILE *out)
{
    char words[512], help[OPT_HELP_BYTES];

    fprintf(out, "complete -c siTrain -n '__siTrain_command %s'", cmd->name);
    if (opt_row_is_arg(r)) {
        fputs(" -F\n", out);
        return;
    }
    fprintf(out, " -l %s", r->name);
    if (r->words)
        fprintf(out, r->type == OPT_SET ? " -x -a '(__fish_append , %s)'" : " -x -a '%s'",
                words_of(r, words, sizeof words));
    else if (opt_value_name(r))
        fputs(takes_files(r) ? " -r -F" : " -x", out);
    fputs(" -d ", out);
    fish_quoted(out, opt_row_help(r, help, sizeof help));
}

static void fish_completion(const struct opt_command *const *cmds, size_t n, FILE *out)
{
    const struct opt_row *r;

    fputs("# fish completion of siTrain: as siTrain.fish into ~/.config/fish/completions\n"
          "function __siTrain_command\n"
          "    set -l typed (commandline -opc)\n"
          "    test (count $typed) -ge 2; and test $typed[2] = $argv[1]\n"
          "end\n"
          "function __siTrain_first\n"
          "    test (count (commandline -opc)) -eq 1\n"
          "end\n"
          "complete -c siTrain -f\n"
          "complete -c siTrain -n '__siTrain_command --completion' -a 'bash zsh fish'\n", out);
    fprintf(out, "complete -c siTrain -n __siTrain_first -a '%s'\n", own_options);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "complete -c siTrain -n __siTrain_first -a %s -d ", cmds[i]->name);
        fish_quoted(out, cmds[i]->summary);
        fprintf(out, "complete -c siTrain -n '__siTrain_command %s' -l help -d 'what it takes'\n",
                cmds[i]->name);
        for (size_t k = 0; (r = opt_row_at(cmds[i], k, NULL)); k++)
            fish_row(cmds[i], r, out);
    }
}

void opt_completion(int shell, const struct opt_command *const *cmds, size_t n, FILE *out)
{
    static void (*const write[])(const struct opt_command *const *, size_t, FILE *) = {
        [BASH] = bash_completion, [ZSH] = zsh_completion, [FISH] = fish_completion
    };

    write[shell](cmds, n, out);
}
