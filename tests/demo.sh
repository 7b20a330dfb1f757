#!/bin/sh
# demo.sh: `make demo`. Trains a tokenizer and a small GPT on the King James Bible (Debian's bible-kjv), the states on 4 emulated CSDs, with
# less memory than the states take, and shows what came of it.
set -eu
bin=${SITRAIN:-./siTrain}
run=${DEMO_RUN:-demo-run}
rm -rf "$run"
mkdir -p "$run"

# A CPU without fast bf16 products (kernels/simd.h) takes twice as long for a step.
has() { grep -qw "$1" /proc/cpuinfo; }
fast() { has amx_bf16 || { has avx512_bf16 && ! has GenuineIntel; }; }
steps=${DEMO_STEPS:-$(fast && echo 300 || echo 150)}

say() { printf '\n== %s\n' "$*"; }

say "The text: the King James Bible; every 20th verse is held out"
bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' >"$run/bible.txt"
awk -v train="$run/train.txt" -v held="$run/held.txt" '{ print > (NR % 20 == 0 ? held : train) }' "$run/bible.txt"
wc -c "$run/train.txt" "$run/held.txt"

say "A byte-level BPE of 8,192 entries, trained on it"
"$bin" prepare "$run/train.txt" --train-tokenizer --vocab 8192 --out "$run/tokenizer"

say "A GPT, trained in mode su+o+c on 4 emulated CSDs"
set -- --n-layer 8 --n-head 5 --n-embd 320 --seq 128 --data "$run/train.txt" --tokenizer "$run/tokenizer" --mode su+o+c --compress 10% \
    --devices 4 --csd-mem 8M --host-mem "${DEMO_MEM:-143M}" --batch 4 --grad-accum 2 --lr 1e-3 --warmup 10% --min-lr 1e-4 --steps "$steps"
"$bin" plan "$@"
"$bin" pretrain --run "$run/run" --eval-data "$run/held.txt" --eval-every "$steps" --log-every 20 "$@"

say "What it writes"
"$bin" generate "$run/run" --prompt "In the beginning" --tokens 80 --temperature 0.8 --seed 7

say "Where the time went, and what crossed the links"
"$bin" report "$run/run"
