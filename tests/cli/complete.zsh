# complete.zsh FILE OUT LINE...: types each line and a Tab at an interactive zsh that has FILE for completion, and writes into OUT, a line each,
# what was offered: the line's number, a tab, the match. The last of OUT is what the first line, accepted after its Tab, ran as.
zmodload zsh/zpty
file=$1 out=$2
shift 2
: >$out
zpty z zsh -f -i
zpty -w z "PROMPT= PS2= LISTMAX=1000; autoload -Uz compinit; compinit -D -u; . $file; out=$out n=0; siTrain() { print -r -- ran \$* >>\$out }
compadd() {
    local -a offered
    if [[ \${@[1,(i)(-|--)]} == *-[OAD]\ * ]]; then builtin compadd \"\$@\"; return; fi
    builtin compadd -A offered \"\$@\"
    (( \$#offered )) && print -rl -- \$n$'\t'\$^offered >>\$out
    builtin compadd \"\$@\"
}
zle-line-init() { print -n \"edits \$n.\" }
zle -N zle-line-init
print read''y"
zpty -r z seen '*ready*'

# types TEXT at line N once zsh edits it: what is typed earlier is the terminal's, to which a control character means something else
type_at() {
    zpty -w z "n=$1"
    zpty -r z seen "*edits $1.*"
    zpty -w -n z "$2"
}
integer at=0
for line; do
    type_at $(( ++at )) "$line"$'\t\C-u'
done
type_at 0 "$1"$'\t\n'
zpty -w z exit
while zpty -r z seen; do :; done
