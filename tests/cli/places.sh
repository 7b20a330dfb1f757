#!/bin/sh
# Where files are made, and how: modes follow the umask, no shell is called, paths may hold any byte, places that may not be written are
# refused with a sentence. Prints TAP.
. tests/tap.sh
make_text 600 >"$tmp/text.txt"
shape="--n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 2 --csd-mem 192K --threads 1 --durability none --steps 3"

# everything DIR: a run and all that is made from one, below it; the name of what failed in $failed
everything() {
    failed=
    for step in "prepare text.txt --train-tokenizer --vocab 300 --out tok" "prepare text.txt --tokenizer tok --out text.bin" \
        "pretrain --run run --data text.txt --eval-data text.bin --tokenizer tok $shape --mode su+o --keep-best" \
        "pretrain --resume run --steps 4 --schedule-steps 4" "pretrain --run inram --data text.bin --tokenizer tok $shape --mode mem" \
        "export run hf" "import hf imported --csd-mem 192K" "eval hf --data text.bin" "generate run --prompt sea --tokens 2" "report run" \
        "check run" "reshard run --devices 2 --quiet" "finetune --run tuned --init hf --train-file rows.csv --eval-file rows.csv --steps 2 --csd-mem 192K --keep-best" \
        "pretrain --run disks --data text.bin --tokenizer tok $shape --device disk"; do
        at=$1
        set --
        for word in $step; do # the names of files and folders stand in DIR
            case $word in
            text.* | tok | run | inram | hf | imported | tuned | rows.csv | disks | disk) set -- "$@" "$at/$word" ;;
            *) set -- "$@" "$word" ;;
            esac
        done
        run "$@"
        [ "$got" = 0 ] || failed="$failed$step: $(tail -n 1 "$tmp/err"); "
        set -- "$at"
    done
}
place() { # DIR: with what everything needs
    mkdir -p "$1" && cp "$tmp/text.txt" "$1/" && mkdir "$1/disk" &&
        printf 'label,sentence\n0,the sea\n1,a ship\n0,the storm\n1,the whale\n' >"$1/rows.csv"
}

for mask in 022 077; do
    (umask $mask && place "$tmp/u$mask") # the subshell's umask
    old=$(umask)
    umask $mask
    everything "$tmp/u$mask"
    umask "$old"
    result "$([ -z "$failed" ]; echo $?)" "everything works with umask $mask $failed"
    wide=$(find "$tmp/u$mask" -perm "/$mask" | head -n 3)
    result "$([ -z "$wide" ]; echo $?)" "nothing is made wider than umask $mask $wide"
    left=$(find "$tmp/u$mask" -name '*.tmp' -o -name '*.new*' -o -name 'best.next*' | head -n 3)
    result "$([ -z "$left" ]; echo $?)" "no temporary name is left $left"
done

odd=$(printf 'with space, "quotes", a\nline break, \303\244 and \377 %%s $(x)')
place "$tmp/$odd"
everything "$tmp/$odd"
failed=${failed#*"the path contains a line break after"*"give a path without line breaks; "} # --device, at the end: the one that is refused
result "$([ -z "$failed" ]; echo $?)" "paths with spaces, line breaks and bytes that are no UTF-8 $failed"
place "$tmp/b"
(cd "$tmp/b" && SITRAIN=$bin && "$bin" pretrain --run ./-x --data text.txt --tokenizer ../u022/tok $shape >"$tmp/out" 2>"$tmp/err" </dev/null)
result $? "relative paths"
refuses 2 "line break" pretrain --run "$tmp/nl" --data "$tmp/u022/text.bin" --tokenizer "$tmp/u022/tok" $shape --device "$tmp/$odd/new"

if [ -d cmd ] && [ -d offload ]; then
    shells=$(grep -nE '\b(system|popen|execl|execlp|execle|execv|execvp|execve|posix_spawn|posix_spawnp|fork|vfork|mktemp|tmpnam|tempnam)[[:space:]]*\(' \
        $(find bench cmd comm csd data kernels model offload plan report run -name '*.c') | grep -v 'execv(self' |
        grep -vE '^bench/(bench|probe)\.c:[0-9]+: +(pid = fork\(\)|pid_t pid = .*fork\(\)|execv\("/proc/self/exe")' | head -n 3) # bench and plan start themselves
    result "$([ -z "$shells" ]; echo $?)" "no shell is ever called, and no program but itself $shells"
fi

# one_sentence NAME TEXT: refused, one line on stderr with TEXT in it
one_sentence() {
    [ "$got" != 0 ] && [ "$got" -lt 100 ] && [ "$(grep -c . "$tmp/err")" = 1 ] && grep -q "$2" "$tmp/err"
    result $? "$1"
}
new="--data $tmp/u022/text.bin --tokenizer $tmp/u022/tok $shape"
run pretrain --run "$tmp/u022/text.txt/run" $new
one_sentence "a run below a file" "text.txt"
run pretrain --run "$tmp/nowhere/run" $new
one_sentence "a run in a folder that is not there" "nowhere"
mkdir "$tmp/ro"
if mount -t tmpfs -o size=64m sitrain-test "$tmp/ro" 2>/dev/null; then
    trap 'umount "$tmp/ro" 2>/dev/null; rm -rf "$tmp"' EXIT
    cp -r "$tmp/u022/run" "$tmp/u022/hf" "$tmp/ro/"
    mount -o remount,ro "$tmp/ro"
    run pretrain --run "$tmp/ro/new" $new --device-in-ram
    one_sentence "a new run in a read-only place" "Read-only file system"
    run pretrain --resume "$tmp/ro/run" --steps 9
    one_sentence "a resume in one" "ead-only"
    run export "$tmp/u022/run" "$tmp/ro/out" --last
    one_sentence "an export into one" "Read-only file system"
    run prepare "$tmp/text.txt" --tokenizer "$tmp/u022/tok" --out "$tmp/ro/x.bin"
    one_sentence "a token file into one" "Read-only file system"
    works "a run in one can be evaluated" eval "$tmp/ro/run" --data "$tmp/u022/text.bin"
    works "and reported" report "$tmp/ro/run"
    umount "$tmp/ro"
else
    skip "a read-only place" "no tmpfs may be mounted here"
fi
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null; then
    chmod 755 "$tmp"
    real=$bin
    cp "$real" "$tmp/program" # the build folder may be private
    as_other() {
        setpriv --reuid 65534 --regid 65534 --clear-groups "$tmp/program" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
        got=$?
    }
    as_other pretrain --resume "$tmp/u022/run" --steps 9
    one_sentence "another user's run" "ermission denied"
    as_other pretrain --run "$tmp/theirs" $new
    one_sentence "a new run in another user's folder" "ermission denied"
    mkdir -m 1777 "$tmp/shared"
    as_other pretrain --run "$tmp/shared/run" $new
    result $got "a run in a folder that all may write"
    wide=$(find "$tmp/shared/run" -perm /022 | head -n 3)
    result "$([ -z "$wide" ]; echo $?)" "is the user's own $wide"
    mkdir -m 733 "$tmp/box" # it cannot be opened and flushed: what was written there was said to have failed
    for output in "report $tmp/shared/run --html $tmp/box/page.html" "prepare $tmp/text.txt --tokenizer $tmp/u022/tok --out $tmp/box/text.bin" \
        "export $tmp/shared/run $tmp/box/hf" "pretrain --run $tmp/box/run $new"; do
        # shellcheck disable=SC2086
        as_other $output
        result $got "${output%% *} into a folder that may be written and not read"
    done
else
    skip "another user's run" "only root can be somebody else"
fi

done_testing
