#!/bin/sh
# Faults as a person meets them: a full disk, a file that may not grow, devices that go away, a gradient that is not finite, a reader
# that closes its pipe. Each ends with a sentence and its exit code, and the run goes on to the same parameters. Prints TAP.
. tests/tap.sh

make_text 1500 >"$tmp/text.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a text becomes a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
set -- --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 2 --seed 5 --csd-mem 192K --threads 1

sane="--lr 1e-3 --schedule-steps 40"

run pretrain --run "$tmp/whole" "$@" $sane --steps 40 --mode mem --commit-every 3
whole=$(exported "$tmp/whole")
result "$([ -n "$whole" ]; echo $?)" "a run that nothing happens to"

one_sentence() { # NAME TEXT...: exit 1, one line on stderr that is not a notice, with each TEXT
    tap_name=$1 tap_ok=0
    shift
    [ "$got" = 1 ] || tap_ok=1
    for text in "$@"; do
        tail -n 1 "$tmp/err" | grep -qF -- "$text" || tap_ok=1
    done
    result $tap_ok "$tap_name"
}

goes_on() { # NAME RUN ARGUMENTS...: to the parameters $whole
    tap_what=$1 tap_run=$2
    shift 2
    run pretrain --resume "$tap_run" --steps 40 "$@"
    same "$whole" "$([ "$got" = 0 ] && exported "$tap_run")" "$tap_what: goes on to the same parameters"
}

steps_done() { # LOG N: wait until so many steps are logged, 60 s at most
    for _ in $(seq 1200); do
        [ "$(grep -c '^step' "$1" 2>/dev/null)" -ge "$2" ] && return 0
        sleep 0.05
    done
    return 1
}

# a disk that fills up while a run is at work: one of the model that is described here, and of other families
fill() { # KEEP: all of it but so much
    dd if=/dev/zero of="$tmp/small/filler" bs=4096 2>/dev/null
    truncate -s "-$1" "$tmp/small/filler"
}
fills_up() { # NAME ARGUMENTS...
    what=$1 at=$tmp/small/run
    shift
    run pretrain --run "$at" "$@" $sane --steps 5 --commit-every 3 --disk sync --device-in-ram
    fill 160K
    run pretrain --resume "$at" --steps 40
    one_sentence "$what: a disk that fills up is named" "$at"
    result "$(grep -qE 'full|No space' "$tmp/err"; echo $?)" "$what: and that it is full"
    run pretrain --resume "$at" --steps 40
    one_sentence "$what: a resume while it is full says so" "$at"
    rm "$tmp/small/filler"
    goes_on "$what: a full disk" "$at"
    rm -rf "$at"
}
family_fills_up() { # FAMILY MODE
    family=$1 own=$whole
    [ "$family" = bert ] || cp -r "$tmp/tok" "$tmp/$family"
    python3 tests/cli/tiny_folder.py "$family" "$tmp/$family"
    set -- --init "$tmp/$family" --data "$tmp/text.txt" --seq 24 --batch 2 --csd-mem 192K --threads 1 --mode "$2"
    run pretrain --run "$tmp/$family/run" "$@" $sane --steps 40 --durability none
    whole=$(exported "$tmp/$family/run")
    fills_up "$family" "$@"
    fill 100K
    run import "$tmp/$family" "$tmp/small/imported" --disk sync --device-in-ram
    one_sentence "$family: an import that does not fit" "$tmp/small/imported"
    fill 40K
    run export "$tmp/$family" "$tmp/small/exported" --max-shard-size 20K
    one_sentence "$family: an export that does not fit" "$tmp/small/exported"
    result "$(ls "$tmp/small" | grep -qvx filler; echo $((1 - $?)))" "$family: and nothing of them is left"
    rm "$tmp/small/filler"
    whole=$own
}
mkdir "$tmp/small"
if mount -t tmpfs -o size=16m sitrain-test "$tmp/small" 2>/dev/null; then
    trap 'umount "$tmp/small" 2>/dev/null; rm -rf "$tmp"' EXIT
    for mode in su+o mem; do
        fills_up "$mode" "$@" --mode $mode
    done
    family_fills_up llama su+o
    family_fills_up gemma3_text mem
    family_fills_up bert su+o
    fill 300K
    run pretrain --run "$tmp/small/new" "$@" $sane --mode su+o --disk sync --device-in-ram
    one_sentence "a run that does not fit is not made" "$tmp/small/new"
    result "$([ ! -e "$tmp/small/new" ]; echo $?)" "and nothing of it is left"
    rm -rf "$tmp/small/filler" "$tmp/small/new"
    mkdir "$tmp/elsewhere"
    ok=0
    for kib in $(seq 60 20 300); do # wherever in its making the room ends, its log taken in at the end among it
        fill "${kib}K"
        run pretrain --run "$tmp/small/new" "$@" $sane --mode su+o --device "$tmp/elsewhere" --durability none --steps 1
        { [ "$got" = 0 ] || tail -n 1 "$tmp/err" | grep -qE 'full|No space'; } || ok=1
        rm -rf "$tmp/small/new" "$tmp/small/filler"
    done
    result $ok "wherever the room ends while a run is made, that is said"
    umount "$tmp/small"
else
    skip "a disk that fills up" "no tmpfs may be mounted here"
fi

# a limit on the size of files
(ulimit -f 400 && exec "$bin" pretrain --run "$tmp/limit" "$@" $sane --mode mem --commit-every 3) >"$tmp/out" 2>"$tmp/err" </dev/null
got=$?
one_sentence "files that may not grow: refused" "$tmp/limit" "large"
result "$([ ! -e "$tmp/limit" ]; echo $?)" "and nothing is left of it"

# devices that go away
run pretrain --run "$tmp/gone" "$@" $sane --mode su+o --devices 2 --steps 7
mv "$tmp/gone/dev1" "$tmp/aside"
run pretrain --resume "$tmp/gone" --steps 40
one_sentence "a device that is not there is named" "$tmp/gone/dev1/states" "No such file"
if command -v sqlite3 >/dev/null; then
    same 7 "$(sqlite3 "$tmp/gone/run.db" "SELECT value FROM runs WHERE key = 'option.steps'")" "and the options of that resume are not the run's"
fi
mv "$tmp/aside" "$tmp/gone/dev1"
cp "$tmp/gone/dev0/states" "$tmp/aside"
truncate -s 8192 "$tmp/gone/dev0/states"
run pretrain --resume "$tmp/gone" --steps 40
one_sentence "so is one that was cut" "$tmp/gone/dev0/states" "8192 bytes"
mv "$tmp/aside" "$tmp/gone/dev0/states"
"$bin" pretrain --resume "$tmp/gone" --steps 40 --csd-read-bw 5M >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
steps_done "$tmp/out" 3
mv "$tmp/gone/dev1/states" "$tmp/aside"
wait $pid
got=$?
one_sentence "a device that goes while the run is at work is named" "device 1" "$tmp/gone/dev1/states is gone"
mv "$tmp/aside" "$tmp/gone/dev1/states"
goes_on "devices that were away" "$tmp/gone" --csd-read-bw 0
if [ "$(id -u)" != 0 ]; then
    chmod 0 "$tmp/gone/dev0/states"
    run pretrain --resume "$tmp/gone" --steps 41 --schedule-steps 41
    one_sentence "a device that may not be opened is named" "$tmp/gone/dev0/states" "denied"
    chmod 600 "$tmp/gone/dev0/states"
else
    skip "a device that may not be opened" "root may open everything"
fi

# a reader that goes away
("$bin" pretrain --run "$tmp/pipe" "$@" $sane --steps 40 --mode su+o --devices 2; echo $? >"$tmp/code") 2>"$tmp/err" </dev/null | head -n 5 >"$tmp/out"
got=$(cat "$tmp/code")
result "$([ "$got" = 130 ] && grep -q 'go on with: siTrain pretrain --resume' "$tmp/err"; echo $?)" "training whose reader goes away stops cleanly"
goes_on "a reader that went away" "$tmp/pipe"
mkfifo "$tmp/closed"
for command in --man "report --help" "report $tmp/pipe" "report $tmp/pipe --json" "plan --model gpt2" "eval $tmp/pipe --data $tmp/text.bin" "check $tmp/pipe" \
    "bench --only memory --json -"; do
    # the reader is gone before the first byte: the program begins when the fifo says so
    { read -r _ <"$tmp/closed"; "$bin" $command 2>"$tmp/err" </dev/null; echo $? >"$tmp/code"; } | { exec <&-; echo >"$tmp/closed"; }
    result "$([ "$(cat "$tmp/code")" = 0 ] && [ ! -s "$tmp/err" ]; echo $?)" "$command into a closed pipe: nothing is said, nothing failed"
done
"$bin" report "$tmp/pipe" --json >/dev/full 2>"$tmp/err"
result "$([ $? = 1 ] && grep -q 'writing to stdout: No space' "$tmp/err"; echo $?)" "what could not be written is said"

# gradients that are not finite, step after step
for mode in mem su+o; do
    run pretrain --run "$tmp/large-$mode" "$@" --mode $mode --lr 1e20 --clip 0 --weight-decay 0 --max-skipped 3
    one_sentence "$mode: skipped steps end the run" "3 steps in a row were skipped" "block" "--max-skipped"
    result "$([ "$(grep -c 'is skipped' "$tmp/err")" = 3 ]; echo $?)" "$mode: each of them is said"
    grep skipped "$tmp/err" | sed "s/large-$mode/RUN/" >"$tmp/said-$mode"
    run pretrain --resume "$tmp/large-$mode" --max-skipped 5
    one_sentence "$mode: they are counted on over a resume" "5 steps in a row were skipped"
done
same "$(cat "$tmp/said-mem")" "$(cat "$tmp/said-su+o")" "both say the same"

done_testing
