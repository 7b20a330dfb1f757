#!/bin/sh
# --tensorboard: its files, read by a small reader of our own (tfevents.py), hold what run.db has; TensorBoard itself is asked by
# `make check-tools`. Prints TAP.
. tests/tap.sh

make_text 200 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
events() { python3 tests/cli/tfevents.py "$@"; }
of_database() { # as the reader prints it, float by float
    sqlite3 "$1/run.db" "SELECT step + 1, 'train/loss', printf('%.17g', loss) FROM steps
                         UNION ALL SELECT step + 1, 'eval/' || name, printf('%.17g', value) FROM evals" |
        python3 -c 'import struct, sys
for line in sys.stdin:
    step, tag, value = line.strip().split("|")
    print(step, tag, repr(struct.unpack("<f", struct.pack("<f", float(value)))[0]))' | sort
}

works "a run with --tensorboard auto" pretrain --run "$tmp/run" --data "$tmp/text.txt" --eval-data "$tmp/text.txt" --tokenizer "$tmp/tok" \
    --n-layer 2 --n-head 2 --n-embd 32 --seq 16 --batch 2 --steps 6 --eval-every 2 --threads 1 --schedule constant --tensorboard auto
events "$tmp"/run/tensorboard/* >"$tmp/out" 2>"$tmp/err"
result $? "every record is whole"
same "$(of_database "$tmp/run")" "$(grep -e ' train/loss ' -e ' eval/' "$tmp/out" | sort)" "losses and evaluations are those of run.db"
same "version brain.Event:2 start 1 1" "$(head -n 2 "$tmp/out" | paste -sd' ')" "it begins with its version and the first step"
same 6 "$(grep -c ' devices/bytes_per_second ' "$tmp/out")" "what the devices moved is there"

# a stop and a resume: one more file, which is behind the first in the order of names, and says where it goes on
works "a resume goes on with it" pretrain --resume "$tmp/run" --steps 9
set -- "$tmp"/run/tensorboard/*
same 2 $# "in a file of its own"
same "start 7 1" "$(events "$2" | sed -n 2p)" "which says that what was at step 7 and after it is void"
events "$@" >"$tmp/out" 2>"$tmp/err"
same "$(of_database "$tmp/run")" "$(grep -e ' train/loss ' -e ' eval/' "$tmp/out" | sort)" "both together are run.db"
works "a resume without it" pretrain --resume "$tmp/run" --steps 10 --tensorboard none
same 2 "$(ls "$tmp/run/tensorboard" | wc -l)" "writes none"

# a kill leaves whole records, and none that is not so
"$bin" pretrain --run "$tmp/killed" --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 32 --seq 16 --batch 2 \
    --steps 100000 --threads 1 --tensorboard "$tmp/board/deep" >"$tmp/out" 2>"$tmp/err" &
killed=$!
for _ in $(seq 600); do
    [ "$(grep -c '^step' "$tmp/out")" -ge 20 ] && break
    sleep 0.1
done
kill -9 $killed
wait $killed 2>/dev/null
events "$tmp"/board/deep/* >"$tmp/seen" 2>"$tmp/err"
result $? "after a kill every record is whole, in the folder that was named"
works "it goes on" pretrain --resume "$tmp/killed" --steps "$(($(sqlite3 "$tmp/killed/run.db" 'SELECT count(*) FROM steps') + 3))" --quiet
events "$tmp"/board/deep/* | python3 -c 'import sys
kept = {}
for line in sys.stdin:
    words = line.split()
    if words[0] == "start":  # as TensorBoard does
        kept = {step: v for step, v in kept.items() if step < int(words[1])}
    elif words[1] == "train/loss":
        assert int(words[0]) not in kept
        kept[int(words[0])] = words[2]
for step in sorted(kept):
    print(step, "train/loss", kept[step])' | sort >"$tmp/out" 2>"$tmp/err"
same "$(of_database "$tmp/killed")" "$(cat "$tmp/out")" "and no step is there twice"

echo >"$tmp/file"
refuses 2 "expected a folder" pretrain --resume "$tmp/run" --steps 12 --tensorboard "$tmp/file"
ln -s "$tmp/nowhere/x" "$tmp/link"
for dir in "$tmp/link" "$tmp/link/deep"; do
    refuses 2 "$tmp/link: No such file or directory; expected a folder" pretrain --run "$tmp/new" --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 1 \
        --n-head 1 --n-embd 8 --seq 8 --batch 1 --steps 1 --tensorboard "$dir"
    result "$([ ! -e "$tmp/new" ]; echo $?)" "and no run is made"
done
for dir in board/one/ board//two board/three//four//; do
    works "slashes count once: $dir" pretrain --run "$tmp/new" --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 1 \
        --n-head 1 --n-embd 8 --seq 8 --batch 1 --steps 1 --threads 1 --tensorboard "$tmp/$dir"
    same 1 "$(ls "$tmp/$dir" | wc -l)" "the files are there"
    rm -r "$tmp/new"
done
small="--data $tmp/text.txt --tokenizer $tmp/tok --n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 --steps 1 --threads 1 --schedule constant"
for name in tokenizer dev0 snapshots data.bin best checkpoint-3 dev0/x Best; do
    for is in absent empty; do
        [ $is = absent ] || mkdir "$tmp/new"
        refuses 2 "$tmp/new/$name: ${name%/x} is the name of a part of a run" pretrain --run "$tmp/new" $small --tensorboard "$tmp/new/$name"
        same "$is" "$([ -e "$tmp/new" ] && echo empty || echo absent)" "  and no run is made ($is)"
        [ $is = absent ] || rmdir "$tmp/new" # it is empty again
    done
done
for name in tensorboard tensorboard/deep events; do
    works "other names in a new run are free: $name" pretrain --run "$tmp/new" $small --tensorboard "$tmp/new/$name"
    works "  and it goes on" pretrain --resume "$tmp/new" --steps 2
    same 2 "$(ls "$tmp/new/$name" | wc -l)" "  with files there"
    rm -r "$tmp/new"
done
refuses 1 "make the folder /proc/no" pretrain --resume "$tmp/run" --steps 12 --tensorboard /proc/no/where
same none "$(sqlite3 "$tmp/run/run.db" "SELECT value FROM runs WHERE key = 'option.tensorboard'")" "and not remembered"
done_testing
