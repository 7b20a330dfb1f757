#!/bin/sh
# --csd xrt on the software SmartSSD (tests/smartssd, in SITRAIN_SMARTSSD): the same bits as emulated devices, in every mode, from one kind to
# the other and back, killed and stopped; and every way in which a card, its driver or its kernels can fail. Prints TAP.
. "$(dirname "$0")/../tap.sh"
at=${SITRAIN_SMARTSSD:-}
if [ -z "$at" ]; then
    run devices --dir "$tmp"
    result "$(grep -q '^  xrt  *\(not \)*available' "$tmp/out"; echo $?)" "devices says whether --csd xrt can be had"
    skip "updates on cards" "no software SmartSSD here (libxrt-dev and uuid-dev, of version 2.13)"
    done_testing
fi
export XILINX_XRT="$at" SMARTSSD_DEVICES=3 SMARTSSD_FOLDER="$tmp"
good="--xclbin $at/sitrain.xclbin"
cards="--fpga 0000:31:00.1 --fpga 0000:32:00.1 --fpga 0000:33:00.1"
real="--csd xrt $good $cards"
memory="--csd-mem 512K"

make_text 600 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
set -- --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 3 --n-head 2 --n-embd 64 --seq 32 --batch 2 --seed 5 --devices 3 \
    --threads 1 --lr 1e-3 --schedule-steps 8 --durability none

# both NAME ARGUMENTS...: on emulated devices and on cards
both() {
    name=$1
    shift
    run pretrain --run "$tmp/emu-$name" "$@" --steps 8 $memory
    run pretrain --run "$tmp/xrt-$name" "$@" --steps 8 $memory $real
    [ "$got" = 0 ] || result 1 "$name trains on cards"
    same "$(exported "$tmp/emu-$name")" "$(exported "$tmp/xrt-$name")" "$name: cards and emulated devices end at the same parameters"
}
both "su+o" "$@" --mode su+o
both "su" "$@" --mode su --optimizer adam --weight-decay 0.1
both "base" "$@" --mode base
both "su+o sgd fp32" "$@" --mode su+o --optimizer sgd --dtype fp32
both "su+o adagrad" "$@" --mode su+o --optimizer adagrad --weight-decay 0.1
both "su+o speculate" "$@" --mode su+o --speculate --clip 100
both "su+o+c feedback" "$@" --mode su+o+c --compress 5% --error-feedback
both "su compressed" "$@" --mode su --compress 20%
want=$(exported "$tmp/emu-su+o")

# the model of `make demo`
demo="--data $tmp/text.txt --tokenizer $tmp/tok --n-layer 8 --n-head 5 --n-embd 320 --seq 128 --batch 1 --devices 3 --csd-mem 8M --durability none --steps 2"
run pretrain --run "$tmp/emu-demo" $demo --mode su+o+c --compress 10%
works "the demo's model trains on 3 cards" pretrain --run "$tmp/xrt-demo" $demo --mode su+o+c --compress 10% $real
same "$(exported "$tmp/emu-demo")" "$(exported "$tmp/xrt-demo")" "as on emulated devices"

run report "$tmp/xrt-su+o"
result "$([ "$got" = 0 ]; echo $?)" "a run on cards has a report"
"$bin" report "$tmp/xrt-su+o" --config >"$tmp/cards.conf"
same 3 "$(grep -c '^fpga = 0000:3[123]:00.1$' "$tmp/cards.conf")" "and a file of its options, with each card"
works "and is read without any card" eval "$tmp/xrt-su+o" --data "$tmp/text.txt"
(unset XILINX_XRT && "$bin" check "$tmp/xrt-su+o" >"$tmp/out" 2>"$tmp/err" </dev/null)
result $? "also where no driver is"
rm -rf "$tmp/mended"
cp -r "$tmp/xrt-su+o" "$tmp/mended"
dd if=/dev/zero of="$tmp/mended/dev1/states" bs=4096 count=1 conv=notrunc 2>/dev/null # its superblock
(unset XILINX_XRT && "$bin" check "$tmp/mended" --repair >"$tmp/out" 2>"$tmp/err" </dev/null && "$bin" check "$tmp/mended" >"$tmp/out" 2>"$tmp/err" </dev/null)
result $? "and repaired there"

# from one kind to the other
run pretrain --run "$tmp/moved" "$@" --mode su+o --steps 3 $memory
works "a run made on emulated devices goes on on cards" pretrain --resume "$tmp/moved" $real --steps 6
works "and back" pretrain --resume "$tmp/moved" --csd emu --steps 8
same "$want" "$(exported "$tmp/moved")" "to the same parameters"
cp -r "$tmp/xrt-su+o" "$tmp/resharded"
works "a run on cards moves onto fewer, which are named" reshard "$tmp/resharded" --devices 2 --fpga 0000:32:00.1 --fpga 0000:31:00.1
works "and goes on there" pretrain --resume "$tmp/resharded" --steps 9 --schedule-steps 9
run pretrain --resume "$tmp/moved" --steps 9 --schedule-steps 9
same "$(exported "$tmp/moved")" "$(exported "$tmp/resharded")" "as where it was"
refuses 2 "--csd is xrt in this run and a resume keeps it" pretrain --resume "$tmp/xrt-su+o" --csd null --steps 9

run plan "$@" --mode su+o $memory $real
result "$(grep -q 'updates beside it [0-9.e-]*[1-9]' "$tmp/out" && grep -q '^  Updates are as this processor makes them' "$tmp/out"; echo $?)" \
    "plan says that it did not measure cards"

# failed WORDS ARGUMENTS...: in the middle of a run: exit 1, one sentence, and the run goes on to the same parameters
failed() {
    words=$1
    shift
    rm -rf "$tmp/hurt"
    run pretrain --run "$tmp/hurt" "$@" --steps 8 --quiet $memory $real
    [ "$got" = 1 ] && grep -q "$words" "$tmp/err" && [ "$(grep -c '^siTrain' "$tmp/err")" = 1 ]
    result $? "a run ends with a sentence: $words"
    [ "$got" = 1 ] || return
    (unset SMARTSSD_FAULT && "$bin" pretrain --resume "$tmp/hurt" $real >"$tmp/out" 2>"$tmp/err" </dev/null)
    same "$want" "$(exported "$tmp/hurt")" "and goes on to the same parameters"
}
export SMARTSSD_FAULT
SMARTSSD_FAULT=exec@1=9
failed "device 1 .*kernel sitrain_update on card 0000:32:00.1 cannot be started" "$@" --mode su+o
SMARTSSD_FAULT=error@2=7
failed "device 2 .*on card 0000:33:00.1 ended in state 5" "$@" --mode su+o
SMARTSSD_FAULT=hang@0=8
failed "device 0 .*has not ended for 1 s (--io-timeout)" "$@" --mode su+o --io-timeout 1
SMARTSSD_FAULT=vanish@1=10
failed "device 1 .*card 0000:32:00.1" "$@" --mode su+o
SMARTSSD_FAULT=sync@1=15
failed "device 1 .*card 0000:32:00.1" "$@" --mode su+o
unset SMARTSSD_FAULT

# killed
: >"$tmp/out"
"$bin" pretrain --run "$tmp/killed" "$@" --mode su+o --steps 8 $memory $real --csd-write-bw 2M >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
for _ in $(seq 1200); do
    grep -q '^step [2-6]/' "$tmp/out" && break
    sleep 0.05
done
kill -9 $pid
wait $pid 2>/dev/null
works "a run that was killed goes on" pretrain --resume "$tmp/killed" --csd-write-bw 0
same "$want" "$(exported "$tmp/killed")" "to the same parameters"

# what cannot begin
never() { # CODE TEXT ARGUMENTS...
    code=$1 text=$2
    shift 2
    refuses_on_cards "$code" "$text" pretrain --run "$tmp/never" --steps 8 "$@"
    [ ! -e "$tmp/never" ]
    result $? "and nothing is left"
    rm -rf "$tmp/never"
}
# As refuses, but libxrt may say something of its own beside our line.
refuses_on_cards() {
    code=$1 text=$2
    shift 2
    run "$@"
    [ "$got" = "$code" ] && grep '^siTrain' "$tmp/err" | grep -qF -- "$text" && [ ! -s "$tmp/out" ] && [ "$(grep -c '^siTrain' "$tmp/err")" = 1 ]
    result $? "refused with $code: $text"
}
never 2 "--csd xrt needs --xclbin FILE" "$@" --csd xrt $cards
never 2 "--fpga names 1 card, and there are 3 devices" "$@" --csd xrt $good --fpga 0000:31:00.1
never 2 "card 0000:32:00.1 is another device's already" "$@" --csd xrt $good --fpga 0000:31:00.1 --fpga 0000:32:00.1 --fpga 32:00.1
never 2 "expected the PCI address of a card" "$@" --csd xrt $good --fpga 1 --fpga 2 --fpga 3
never 2 "expected the PCI address of a card" "$@" --csd xrt $good --fpga -1:31:00.1 --fpga 0000:32:00.1 --fpga 0000:33:00.1
never 1 "or --fpga names its card" "$@" --csd xrt $good
never 1 "card 0000:34:00.1 cannot be opened by libxrt" "$@" --csd xrt $good --fpga 0000:31:00.1 --fpga 0000:32:00.1 --fpga 0000:34:00.1
never 1 "--disk uring" "$@" $real --disk sync
never 2 "open $tmp/nothing: No such file" "$@" --csd xrt --xclbin "$tmp/nothing" $cards
never 1 "text.txt is no xclbin" "$@" --csd xrt --xclbin "$tmp/text.txt" $cards
never 1 "cut.xclbin was cut off" "$@" --csd xrt --xclbin "$at/cut.xclbin" $cards
mkfifo "$tmp/pipe"
never 2 "pipe is a pipe, not a regular file" "$@" --csd xrt --xclbin "$tmp/pipe" $cards
cp "$at/sitrain.xclbin" "$tmp/large.xclbin" && truncate -s 2G "$tmp/large.xclbin"
never 1 "no xclbin is so large" "$@" --csd xrt --xclbin "$tmp/large.xclbin" $cards
cp "$at/sitrain.xclbin" "$tmp/beyond.xclbin" && printf '\200' | dd of="$tmp/beyond.xclbin" bs=1 seek=487 conv=notrunc 2>/dev/null
never 1 "beyond.xclbin is damaged" "$@" --csd xrt --xclbin "$tmp/beyond.xclbin" $cards
never 2 "--mode mem has no devices" "$@" --mode mem $real
never 1 "without.xclbin has no kernel sitrain_update" "$@" --csd xrt --xclbin "$at/without.xclbin" $cards
never 1 "has 9 arguments in memory, siTrain gives it 10" "$@" --csd xrt --xclbin "$at/short.xclbin" $cards
never 1 "all must be in one" "$@" --csd xrt --xclbin "$at/scattered.xclbin" $cards
export SMARTSSD_P2P=0
never 1 "xbutil configure --device 0000:31:00.1 --p2p enable" "$@" $real
unset SMARTSSD_P2P
export SMARTSSD_MEMORY=1
never 1 "--csd-mem is more than it has" ${demo%% --steps*} $real
unset SMARTSSD_MEMORY
for fault in open load alloc map context exec; do
    export SMARTSSD_FAULT=$fault
    never 1 "card 0000:31:00.1" "$@" $real
done
unset SMARTSSD_FAULT
export XILINX_XRT=
never 1 "XILINX_XRT, which is not set" "$@" $real
export XILINX_XRT=/nowhere
never 1 "XILINX_XRT, which is /nowhere" "$@" $real
unset XILINX_XRT
never 1 "XILINX_XRT, which is not set" "$@" $real
works "devices says whether libxrt is here" devices --dir "$tmp"
result "$(grep -q '^  xrt  *available' "$tmp/out"; echo $?)" "and it is"
done_testing
