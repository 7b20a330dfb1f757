#!/bin/sh
# demo_xrt.sh: `make demo-xrt`. What --csd xrt does with 3 SmartSSDs, without any: the real libxrt on the software SmartSSD of the tests
# (in $1), the FPGAs' kernels simulated from the sources that Vitis synthesises. A small GPT on the King James Bible, in steps that say more
# than their speed: a simulated kernel takes a hundred times as long as a processor's.
set -eu
bin=${SITRAIN:-./siTrain}
at=$1
run=${DEMO_RUN:-demo-xrt-run}
rm -rf "$run"
mkdir -p "$run"
export XILINX_XRT="$at" SMARTSSD_DEVICES=3 SMARTSSD_FOLDER="$run"

say() { printf '\n== %s\n' "$*"; }

say "The text: the Gospels; and a byte-level BPE of 1,024 entries, trained on it"
bible -f mat1:1-john21:25 | sed 's/^[^ ]* //' >"$run/gospels.txt"
"$bin" prepare "$run/gospels.txt" --train-tokenizer --vocab 1024 --out "$run/tokenizer"
set -- --n-layer 4 --n-head 4 --n-embd 128 --seq 128 --data "$run/gospels.txt" --tokenizer "$run/tokenizer" --mode su+o+c --compress 10% \
    --error-feedback --devices 3 --csd-mem 2M --batch 8 --lr 3e-3 --warmup 10% --schedule-steps "${DEMO_STEPS:-60}" --log-every 10
half=$((${DEMO_STEPS:-60} / 2))

say "What this machine has: libxrt, and no card in /sys"
"$bin" devices --dir "$run" | sed -n '/^Computational storage/,$p'

say "Half of a training on 3 emulated CSDs"
"$bin" pretrain --run "$run/run" "$@" --steps $half
cp -r "$run/run" "$run/emulated"

say "The other half on 3 software SmartSSDs: states go from drive to card and back, the kernels of csd/hls update them"
"$bin" pretrain --resume "$run/run" --csd xrt --xclbin "$at/sitrain.xclbin" --fpga 0000:31:00.1 --fpga 0000:32:00.1 --fpga 0000:33:00.1 \
    --steps $((2 * half))

say "The other half once more, on emulated CSDs: the same losses"
"$bin" pretrain --resume "$run/emulated" --steps $((2 * half))

say "And the same parameters"
"$bin" export "$run/run" "$run/from-cards" >/dev/null
"$bin" export "$run/emulated" "$run/from-emulated" >/dev/null
(cd "$run" && sha256sum from-cards/model.safetensors from-emulated/model.safetensors)
cmp "$run/from-cards/model.safetensors" "$run/from-emulated/model.safetensors"

say "What it writes"
"$bin" generate "$run/run" --prompt "And Jesus said" --tokens 40 --temperature 0.8 --seed 7

say "What crossed the links"
"$bin" report "$run/run"
