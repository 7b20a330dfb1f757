#!/bin/sh
# --act-device: drives of their own for offloaded activations. The parameters are the same with and without, all activations go there and
# nothing else does, nothing is left behind, and a resume may give others or take them back. What is damaged, missing, full, in RAM or
# somebody's is said. Prints TAP.
. tests/tap.sh

make_text 1500 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
mkdir "$tmp/a" "$tmp/b"
shape="--n-layer 6 --n-head 2 --n-embd 64 --seq 24 --batch 48 --csd-mem 256K --durability none --mode su+o"
run plan $shape --vocab 300 --activations offload --host-mem 1M
least=$(sed -n 's/.*needs at least \([0-9]*M\).*/\1/p' "$tmp/err")
set -- --data "$tmp/text.bin" --tokenizer "$tmp/tok" $shape --host-mem "$least" --schedule-steps 4000
keep="$* --devices 2" # the scratch folder's name has no blanks
set -- "$@" --devices 2 --activations offload

works "without" pretrain --run "$tmp/without" "$@" --steps 4
want=$(exported "$tmp/without")
works "with two folders and a new file" pretrain --run "$tmp/with" "$@" --act-device "$tmp/a" --act-device "$tmp/a" --act-device "$tmp/b/new" --steps 4
same "$want" "$(exported "$tmp/with")" "the same parameters"
same "0" "$(find "$tmp/a" "$tmp/b" -type f | wc -l)" "nothing is left there"
same "0 1 2 3 4" "$(sqlite3 "$tmp/with/run.db" 'SELECT group_concat(device, " ") FROM devices')" "run.db has them as devices"
same "2 3 4" "$(sqlite3 "$tmp/with/run.db" 'SELECT group_concat(device, " ") FROM (SELECT DISTINCT device FROM traffic WHERE class = "activation" AND bytes > 0 ORDER BY device)')" \
    "all activations went there"
same "0" "$(sqlite3 "$tmp/with/run.db" 'SELECT count(*) FROM traffic WHERE class != "activation" AND device > 1')" "and nothing else did"
works "report" report "$tmp/with"
same "0" "$(awk '/^Traffic/ { t = 1 } /^Overlap/ { t = 0 } t && $3 ~ /^(read|write)$/ && $4 != $5' "$tmp/out" | wc -l)" "what was moved is what is computed"
run report "$tmp/with" --json
result "$(grep -qF "$tmp/b/new" "$tmp/out"; echo $?)" "report names them"
states=$(sqlite3 "$tmp/with/run.db" 'SELECT sum(bytes) FROM devices WHERE device < 2')
same "$states" "$(cat "$tmp"/with/dev*/states* | wc -c)" "the devices' files have no room for activations"

works "one step without" pretrain --run "$tmp/later" "$@" --steps 1
works "a resume gives one" pretrain --resume "$tmp/later" --steps 2 --act-device "$tmp/a"
works "the next one another" pretrain --resume "$tmp/later" --steps 3 --act-device "$tmp/b"
works "which is kept where nothing is said" pretrain --resume "$tmp/later" --steps 3
same "$tmp/b" "$(sqlite3 "$tmp/later/run.db" 'SELECT path FROM devices WHERE device > 1')" "it is the one of run.db"
rmdir "$tmp/b"
refuses 2 "expected a folder, a block device or the name of a new file" pretrain --resume "$tmp/later" --steps 4 --act-device "$tmp/b/none/new"
mkdir "$tmp/b"
works "the last one takes it back" pretrain --resume "$tmp/later" --steps 4 --act-device none
same "2 " "$(sqlite3 -separator ' ' "$tmp/later/run.db" "SELECT count(*), (SELECT value FROM runs WHERE key = 'option.act-device' AND value != 'none') FROM devices")" \
    "it is not the run's any more"
same "$want" "$(exported "$tmp/later")" "the same parameters, whatever it had"
works "check finds nothing wrong" check "$tmp/later"

# two runs with one folder, at the same time
"$bin" pretrain --run "$tmp/one" "$@" --steps 4 --act-device "$tmp/a" --quiet >"$tmp/one.log" 2>&1 </dev/null &
one=$!
works "beside another run, one folder for both" pretrain --run "$tmp/two" "$@" --steps 4 --act-device "$tmp/a"
wait $one
same "0 $want $want" "$? $(exported "$tmp/one") $(exported "$tmp/two")" "both end with the same parameters"

# what is written there is damaged while it trains
"$bin" pretrain --run "$tmp/hurt" "$@" --steps 4000 --act-device "$tmp/a" --quiet >"$tmp/out" 2>"$tmp/err" </dev/null &
hurt=$!
while kill -0 $hurt 2>/dev/null; do
    for fd in /proc/$hurt/fd/*; do
        case $(readlink "$fd") in
        *-acts0*) dd if=/dev/urandom of="$fd" bs=64K count=16 conv=notrunc 2>/dev/null ;;
        esac
    done
    sleep 0.02
done
wait $hurt
got=$?
same "1 1" "$got $(wc -l <"$tmp/err")" "a damaged one ends the run with one sentence"
result "$(grep -qE 'device 2 \(.*acts0\.[0-9a-f]{16}\.tmp\): the activations of step [0-9]+, [0-9]+ bytes at offset' "$tmp/err"; echo $?)" "which names it"
works "the states are whole" check "$tmp/hurt"

echo text >"$tmp/b/file"
refuses 2 "exists; expected a folder, a block device or the name of a new file" pretrain --run "$tmp/no" "$@" --steps 1 --act-device "$tmp/b/file"
same "text" "$(cat "$tmp/b/file")" "a file that is there stays"
refuses 2 "given twice" pretrain --run "$tmp/no" "$@" --steps 1 --act-device "$tmp/b/x" --act-device "$tmp/b/x"
refuses 2 "is also the place of device 0's states" pretrain --run "$tmp/no" "$@" --steps 1 --device "$tmp/b/x" --device "$tmp/b" --act-device "$tmp/b/x"
result "$([ ! -e "$tmp/no" ] && [ ! -e "$tmp/b/x" ]; echo $?)" "  and no run is left"
refuses 2 "--activations keep offloads none" pretrain --run "$tmp/no" $keep --steps 1 --act-device "$tmp/a"
refuses 2 "--activations recompute offloads none" pretrain --run "$tmp/no" $keep --steps 1 --activations recompute --act-device "$tmp/a"
refuses 2 "--mode mem keeps everything in RAM" pretrain --run "$tmp/no" --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 32 --seq 24 --mode mem --act-device "$tmp/a"
refuses 2 "give it alone" pretrain --run "$tmp/no" "$@" --steps 1 --act-device none --act-device "$tmp/a"
if [ -d /dev/shm ] && [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
    refuses 2 "is in RAM (tmpfs)" pretrain --run "$tmp/no" "$@" --steps 1 --act-device /dev/shm
else
    skip "one in RAM" "no tmpfs at /dev/shm"
fi
mkdir "$tmp/small"
if mount -t tmpfs -o size=64K none "$tmp/small" 2>/dev/null; then
    refuses 1 "for activations; --activations keep or recompute needs none" pretrain --resume "$tmp/one" --steps 5 --device-in-ram --act-device "$tmp/small"
    same "0" "$(find "$tmp/small" -type f | wc -l)" "a full disk: nothing is left there"
    umount "$tmp/small"
else
    skip "a full disk" "nothing may be mounted here"
fi
truncate -s 64M "$tmp/image"
if loop=$(losetup -f --show "$tmp/image" 2>/dev/null); then
    works "a drive" pretrain --resume "$tmp/two" --steps 5 --act-device "$loop"
    works "a run on it" pretrain --run "$tmp/on" --data "$tmp/text.bin" --tokenizer "$tmp/tok" $shape --steps 1 --device "$loop"
    refuses 2 "holds the states of a siTrain run" pretrain --resume "$tmp/two" --steps 6 --act-device "$loop"
    works "unless it is forced" pretrain --resume "$tmp/two" --steps 6 --act-device "$loop" --force-device
    works "a run on it and in a folder" pretrain --run "$tmp/own" "$@" --steps 1 --device "$loop" --device "$tmp/b" --force-device
    ln -s "$loop" "$tmp/link"
    for at in "$loop" "$tmp/link"; do # not where its own states are, whoever forces it
        refuses 2 "is also the place of device 0's states" pretrain --resume "$tmp/own" --steps 2 --schedule-steps 2 --quiet --act-device "$at" --force-device
        refuses 2 "is also the place of device 0's states" pretrain --run "$tmp/no" "$@" --steps 1 --device "$loop" --device "$tmp/b" --act-device "$at" --force-device
    done
    works "its states are as they were" check "$tmp/own"
    losetup -d "$loop"
else
    skip "a drive" "no loop device can be made here"
fi
done_testing
