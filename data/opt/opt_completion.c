/* opt_completion.c: says how a command line may go on, and has the scripts in which bash, zsh and
 * fish ask for that at a Tab. All words and sentences come from the rows. A value that can only be
 * typed is not completed. */
#include "data/opt/opt.h"

enum shell { BASH, ZSH, FISH };

TABLE_WORDS(opt_shells, [BASH] = "bash", [ZSH] = "zsh", [FISH] = "fish")

/* This line asks the shell for the names of files. No word is a slash. */
#define FILES "/"

/* ---- the scripts ---- */

/* Each asks "siTrain --completion SHELL WORD..." with the words typed so far, the last of them
 * under way, and gets lines of a word, a tab and a sentence. */
static const char *const scripts[] = {
    [BASH] =
        "# bash completion of siTrain: source it, or put it into /etc/bash_completion.d/\n"
        "_siTrain() {\n"
        "    local IFS=$'\\n' n=$COMP_CWORD word=\"${COMP_WORDS[COMP_CWORD]}\" option= offered\n"
        "    if [ \"$word\" = = ]; then # bash parts --NAME=WORD at =\n"
        "        n=$((n - 1)) word=\n"
        "    elif [ \"${COMP_WORDS[n-1]}\" = = ]; then\n"
        "        n=$((n - 2))\n"
        "    fi\n"
        "    [ $n = $COMP_CWORD ] || option=${COMP_WORDS[n]}=\n"
        "    offered=$(command \"${COMP_WORDS[0]/#\\~/$HOME}\" --completion bash \\\n"
        "        \"${COMP_WORDS[@]:1:n-1}\" \"$option$word\" 2>/dev/null | cut -f 1)\n"
        "    offered=${offered//\"$option\"/}\n"
        "    if [ \"$offered\" = " FILES " ]; then\n"
        "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
        "    else\n"
        "        COMPREPLY=($(compgen -W \"$offered\" -- \"$word\"))\n"
        "    fi\n"
        "}\n"
        "complete -o filenames -F _siTrain siTrain\n",
    [ZSH] =
        "#compdef siTrain\n"
        "# zsh completion of siTrain: as _siTrain into a folder of $fpath\n"
        "_siTrain() {\n"
        "    local -a offered\n"
        "    offered=(${(f)\"$(command ${~words[1]} --completion zsh \"${(@)words[2,CURRENT]}\" "
        "2>/dev/null)\"})\n"
        "    if [ \"$offered\" = " FILES " ]; then\n"
        "        _files\n"
        "    else\n"
        "        offered=(\"${(@)offered//:/\\\\:}\")\n"
        "        offered=(\"${(@)offered/$'\\t'/:}\")\n"
        "        _describe siTrain offered\n"
        "    fi\n"
        "}\n"
        "if [ \"$funcstack[1]\" = _siTrain ]; then\n    _siTrain \"$@\"\n"
        "else\n    compdef _siTrain siTrain\nfi\n",
    [FISH] =
        "# fish completion of siTrain: as siTrain.fish into ~/.config/fish/completions\n"
        "function __siTrain_offered\n"
        "    set -l typed (commandline -opc)\n"
        "    set -l word (commandline -ct)\n"
        "    set -l program (string replace -r '^~(?=/)' $HOME -- $typed[1])\n"
        "    set -l offered (command $program --completion fish $typed[2..-1] \"$word\" "
        "2>/dev/null)\n"
        "    if test \"$offered\" = " FILES "\n"
        "        __fish_complete_path \"$word\"\n"
        "    else\n"
        "        printf '%s\\n' $offered\n"
        "    end\n"
        "end\n"
        "complete -c siTrain -f -a '(__siTrain_offered)'\n",
};

/* ---- how a line goes on ---- */

static void offer(FILE *out, const char *before, const char *name, const char *sentence)
{
    fprintf(out, "%s%s\t%.*s\n", before, name, (int)strcspn(sentence, "\n"), sentence);
}

/* Offers a row's words. `typed` begins with what stays: "--NAME=", or the words of a list up to its
 * last comma. */
static void offer_words(FILE *out, const struct opt_row *r, const char *typed)
{
    const char *comma = r->type == OPT_SET ? strrchr(typed, ',') : NULL;
    const char *last = comma ? comma : *typed == '-' ? strchr(typed, '=') : NULL;

    for (size_t i = 0; r->words(i); i++)
        fprintf(out, "%.*s%s\t\n", last ? (int)(last - typed) + 1 : 0, typed, r->words(i));
}

/* The option that word[0..n), "--NAME", names; NULL if it names none. */
static const struct opt_row *named_by(const struct opt_command *cmd, const char *word, size_t n)
{
    int row = strncmp(word, "--", 2) ? -1 : opt_row_find(cmd, word + 2, n - 2);

    return row < 0 ? NULL : opt_row_at(cmd, (size_t)row, NULL);
}

static int takes_files(const struct opt_command *cmd)
{
    const struct opt_row *r;
    int                   takes = 0;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        takes |= opt_row_is_arg(r);
    return takes;
}

/* Offers what may stand for `typed` behind the word `before`. Behind "--NAME=" only words are
 * offered, no files. */
static void offer_of(FILE *out, const struct opt_command *cmd, const char *before,
                     const char *typed)
{
    int                   joined = !strncmp(typed, "--", 2) && strchr(typed, '=');
    const struct opt_row *r = joined ? named_by(cmd, typed, strcspn(typed, "="))
                                     : named_by(cmd, before, strlen(before));
    char                  help[OPT_HELP_BYTES];

    if (joined && !(r && r->words))
        return;
    if (r && r->words) {
        offer_words(out, r, typed);
    } else if (r && opt_value_name(r)) {
        if (r->type >= OPT_STRING && r->type <= OPT_PATHS)
            fputs(FILES "\n", out);
    } else if (*typed != '-' && takes_files(cmd)) {
        fputs(FILES "\n", out);
    } else {
        offer(out, "--", "help", "what it takes");
        for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
            if (!opt_row_is_arg(r))
                offer(out, "--", r->name, opt_row_help(r, help, sizeof help));
    }
}

void opt_complete(const struct opt_command *const *cmds, size_t n, char *const *words,
                  size_t n_words, FILE *out)
{
    static const char *const own[] = { "--help", "--version", "--man", "--completion" };

    for (size_t i = 0; i < n; i++)
        if (n_words < 2)
            offer(out, "", cmds[i]->name, cmds[i]->summary);
        else if (!strcmp(words[0], cmds[i]->name))
            offer_of(out, cmds[i], words[n_words - 2], words[n_words - 1]);
    for (size_t i = 0; n_words < 2 && i < sizeof own / sizeof *own; i++)
        offer(out, "", own[i], "");
    for (size_t i = 0; n_words == 2 && !strcmp(words[0], "--completion") && opt_shells(i); i++)
        offer(out, "", opt_shells(i), "");
}

const char *opt_completion(int shell) { return scripts[shell]; }
