#!/bin/sh
# What is taken away, replaced or put in place under a living process: a run's images, its best model, its whole file system. The process ends
# with a sentence, and what stands there then is as somebody has put it. Prints TAP.
. tests/tap.sh
shim=$(dirname "${SITRAIN_OPENBLAS:-build/tests/siTrain-openblas}")/delay.so
case $shim in /*) ;; *) shim=$(pwd)/$shim ;; esac
ldd "$bin" | grep -q libasan && shim= # a sanitizer is to load first
export OMP_WAIT_POLICY=passive # threads that spin slow each other down

make_text 60 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$tmp/tok"
works "a tokenizer and a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
data="--data $tmp/text.bin --tokenizer $tmp/tok"
shape="--n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"

# begin RUN OPTIONS...: a training that goes on for long, in $pid; it has begun
begin() {
    at=$1
    shift
    "$bin" pretrain --resume "$at" --steps 1000000 --quiet "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    for _ in $(seq 200); do
        [ "$(python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1] + "/run.db", 9).execute("SELECT count(*) FROM steps").fetchone()[0])' "$at")" -gt 4 ] && break
        sleep 0.05
    done
}

# ends TEXT NAME: it ends by itself with 1 and one sentence that has TEXT
ends() {
    for _ in $(seq 100); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
    kill -INT $pid 2>/dev/null
    wait $pid
    got=$?
    result "$([ $got = 1 ] && grep -q "$1" "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "$2 ($got)"
}

# ---- images of mode mem

works "a run in memory" pretrain --run "$tmp/ram" $data $shape --steps 2 --mode mem
for how in removed replaced; do
    for image in image0 image1; do
        rm -rf "$tmp/at"
        cp -a "$tmp/ram" "$tmp/at"
        begin "$tmp/at" --commit-every 3
        mv "$tmp/at/$image" "$tmp/kept"
        [ $how = removed ] || cp -a "$tmp/kept" "$tmp/at/$image"
        ends "at/$image is gone, or another file.*go on with --resume" "$image is $how: the training ends"
        mv "$tmp/kept" "$tmp/at/$image"
        works "and goes on from the last commit with it" pretrain --resume "$tmp/at" --steps 1 --quiet
        works "and is whole" check "$tmp/at"
    done
done

# ---- more

done_testing
