#!/bin/sh
# Small runs of several families under ThreadSanitizer, as a person starts them: $bin is built with it. Kernels run on one thread each,
# since libgomp is not visible to it. `make tsan`. Prints TAP.
. tests/tap.sh

# clean NAME ARGUMENTS...: exit 0; a race makes it 66
clean() {
    tap_name=$1
    shift
    TSAN_OPTIONS="exitcode=66 $TSAN_OPTIONS" run "$@"
    result "$got" "$tap_name"
}

make_text 1500 >"$tmp/text.txt"
make_text 60 >"$tmp/held.txt"
clean "prepare" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
set -- --data "$tmp/text.txt" --seq 24 --batch 2 --grad-accum 2 --csd-mem 192K --devices 2 --clip 0.5 --threads 1
for family in llama gemma3_text bert; do
    [ $family = bert ] || cp -r "$tmp/tok" "$tmp/$family"
    python3 tests/cli/tiny_folder.py $family "$tmp/$family"
    begin="--init $tmp/$family --eval-data $tmp/held.txt --eval-every 2"
    clean "$family: offloaded activations" pretrain --run "$tmp/run" "$@" $begin --mode su+o --activations offload --snapshot-every 1 --steps 3
    clean "$family: resumed" pretrain --resume "$tmp/run" --steps 5 --schedule-steps 5
    clean "$family: check" check "$tmp/run"
    clean "$family: export" export "$tmp/run" "$tmp/hf"
    rm -rf "$tmp/run" "$tmp/hf"
    clean "$family: activations as they pay" pretrain --run "$tmp/run" "$@" $begin --mode su+o+c --activations auto --link-bw 20M --steps 6
    rm -rf "$tmp/run"
    clean "$family: base, ahead of the norm" pretrain --run "$tmp/run" "$@" $begin --mode base --speculate --dtype bf16 --keep-best --steps 4
    rm -rf "$tmp/run"
    for mode in su+o mem; do # the thread that reads in the background
        clean "$family: reads in the background, $mode" pretrain --run "$tmp/run" "$@" $begin --mode $mode --steps 8 --keep-best --commit-every 2 \
            --snapshot-every 2 --snapshots 2 --scrub-bw 1G
        rm -rf "$tmp/run"
    done
done
clean "generate" generate "$tmp/llama" --prompt "the sea" --tokens 5 --threads 1

done_testing
