#!/bin/sh
# Completion in bash, zsh and fish, each asked as a person's Tab asks it: commands, options, an option's words and files. Each command's options
# are those that its --help all has. Prints TAP.
typed=$(pwd)/tests/cli/complete.zsh
. tests/tap.sh

commands=$("$bin" --help | sed -n 's/^  \([a-z][a-z_]*\)  *[a-z].*/\1/p')
PATH=$(cd "$(dirname "$bin")" && pwd):$PATH # the scripts ask siTrain
mkdir "$tmp/files" && touch "$tmp/files/my.txt" "$tmp/files/other.bin"
for shell in bash zsh fish; do
    "$bin" --completion $shell >"$tmp/siTrain.$shell"
    result $? "the completion of $shell"
    cmp "$tmp/siTrain.$shell" share/siTrain.$shell
    result $? "make install has this completion (if not, make share writes it)"
done
"$bin" --man >"$tmp/out"
cmp "$tmp/out" share/siTrain.1
result $? "make install has the manual page that the program prints (if not, make share writes it)"
"$bin" --completion >"$tmp/out"
cmp -s "$tmp/out" "$tmp/siTrain.bash"
result $? "bash's is the one that is not named"
refuses 2 "--completion csh: expected bash, zsh or fish" --completion csh

# The lines that are asked in every shell; offered NUMBER has what came of each.
{
    printf '%s\n' "siTrain pretrain --mode su+o+" "siTrain pre" "siTrain pretrain --mode su" "siTrain pretrain --data my" "siTrain pretrain --steps " "siTrain check my" \
        "siTrain --completion f" "siTrain bench --only disk,pro" "siTrain pretrain --mode=su+o+"
    for c in $commands; do echo "siTrain $c --"; done
} >"$tmp/lines"

# bash parts words at =
ask_bash() {
    n=0
    while read -r line; do
        n=$((n + 1))
        bash -c '. "$1"; COMP_LINE=$2; read -ra COMP_WORDS <<<"${2//=/ = }"; case $2 in *" ") COMP_WORDS+=("") ;; esac
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _siTrain; printf "$3\t%s\n" "${COMPREPLY[@]}"' - "$tmp/siTrain.bash" "$line" $n
    done <"$tmp/lines"
}

ask_zsh() {
    set --
    while read -r line; do set -- "$@" "$line"; done <"$tmp/lines"
    zsh -f "$typed" "$tmp/siTrain.zsh" "$tmp/offered.zsh" "$@" >/dev/null
    cat "$tmp/offered.zsh"
}

ask_fish() {
    fish --no-config -c 'source $argv[1]; set n 0
        while read -l line; set n (math $n + 1); for m in (complete -C "$line"); printf "%s\t%s\n" $n $m; end; end' \
        "$tmp/siTrain.fish" <"$tmp/lines"
}

offered() { # NUMBER: its matches on one line
    awk -F'\t' -v n="$1" '$1 == n && $2 != "" { print $2 }' "$tmp/out" | sort -u | tr '\n' ' ' | sed 's/ $//'
}

# read -r takes the blank at a line's end away, which is what "--steps " is about
IFS=
for shell in bash zsh fish; do
    command -v $shell >/dev/null || { skip "completion in $shell" "$shell is not here"; continue; }
    (cd "$tmp/files" && HOME=$tmp ask_$shell) >"$tmp/out" 2>"$tmp/err"
    same "$(offered 2)" "prepare pretrain" "$shell: commands"
    same "$(offered 3)" "su su+o su+o+c" "$shell: an option's words"
    same "$(offered 4)" my.txt "$shell: an option's files"
    same "none$(offered 5)" none "$shell: a number is typed"
    same "$(offered 6)" my.txt "$shell: a command's files"
    same "$(offered 7)" fish "$shell: its own name"
    [ $shell = bash ] || same "$(offered 8 | sed 's/^disk,//')" products "$shell: the second of a list of words"
    same "$(offered 9 | sed 's/^--mode=//')" "su+o+c" "$shell: an option's word behind ="
    n=9
    echo "$commands" >"$tmp/commands"
    while read -r c; do
        n=$((n + 1))
        same "$(offered $n)" "$({ echo --help; "$bin" "$c" --help all | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p'; } | sort -u | tr '\n' ' ' | sed 's/ $//')" "$shell: $c's options"
    done <"$tmp/commands"
    if [ $shell = bash ]; then
        touch "$tmp/one two.txt"
        (cd "$tmp" && bash -c '. ./siTrain.bash; COMP_WORDS=(siTrain check one); COMP_CWORD=2; _siTrain; printf "%s|" "${COMPREPLY[@]}"') >"$tmp/out"
        same "$(cat "$tmp/out")" "one two.txt|" "bash: a file whose name has a blank"
    fi
    if [ $shell = zsh ]; then
        grep -qx "ran pretrain --mode su+o+c" "$tmp/out"
        result $? "zsh: what is completed is typed"
    fi
done
done_testing
