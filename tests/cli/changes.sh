#!/bin/sh
# kill -9 again and again, and each resume with other options of those that may change: memory, activations, disk, speculation,
# durability, the links' speeds. The run ends in the bits of one that nothing happened to. By seed (SEED); prints TAP.
. tests/tap.sh

if ! command -v python3 >/dev/null; then
    skip "kills and other options" "no python3"
    done_testing
fi
make_text 3000 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
shape="--data $tmp/text.txt --tokenizer $tmp/tok --n-layer 4 --n-head 2 --n-embd 32 --seq 24 --batch 8 --grad-accum 2 --lr 1e-3 --clip 0.5
       --csd-mem 192K --schedule-steps 60"
seed=${SEED:-1}

draw() { # N: a number below it into $drawn
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

pick() { # WORD...: one of them into $picked
    draw $#
    shift "$drawn"
    picked=$1
}

# options MODE: what the next resume is given, into $options
options() {
    pick "$least" 1G 4G
    options="--host-mem $picked"
    pick step none
    options="$options --durability $picked"
    pick 1 3 7
    options="$options --commit-every $picked"
    if [ "${1%% *}" = mem ]; then
        pick recompute keep
        options="$options --activations $picked"
        return
    fi
    pick recompute keep offload auto
    options="$options --activations $picked"
    pick sync uring
    options="$options --disk $picked"
    pick 0 2G
    options="$options --link-bw $picked"
    pick "" --speculate
    [ "$1" = su ] || options="$options $picked"
}

# killed MODE: to the end through kills, each resume with other options; how many kills in $kills, the options in $said
killed() {
    kills=0 said=
    args="pretrain --run $tmp/run $shape --steps 40 --threads 1 --mode $1"
    while :; do
        draw 9
        lines=$((drawn + 1))
        [ $kills -lt 6 ] || lines=1000 # more than it says
        python3 tests/cli/killed_after.py $lines step "$bin" $args 2>"$tmp/err"
        got=$?
        [ $got = 137 ] || break
        kills=$((kills + 1))
        options "$1"
        said="$said; $options"
        args="pretrain --resume $tmp/run $options"
    done
}

for mode in "su+o --devices 2" "base --devices 2" "su" "mem"; do
    run plan $shape --vocab 300 --mode $mode --host-mem 1M
    least=$(sed -n 's/.*needs at least \([0-9]*\)M.*/\1/p' "$tmp/err")
    least=$((least + 2))M # what the program itself takes is not the same each time
    rm -rf "$tmp/run" "$tmp/straight"
    run pretrain --run "$tmp/straight" $shape --steps 40 --threads 1 --mode $mode --quiet
    want=$(exported "$tmp/straight")
    killed "$mode"
    result "$got" "$mode: trained through $kills kills, each resume with other options$said"
    result "$([ $kills -ge 3 ]; echo $?)" "$mode: there were kills"
    same "$want" "$(exported "$tmp/run")" "$mode: to the bits of the run that nothing happened to"
    works "$mode: and is whole" check "$tmp/run"
done

# what is fixed stays fixed, also after a kill
refuses 2 "a resume keeps it" pretrain --resume "$tmp/run" --threads 2
refuses 2 "a resume keeps it" pretrain --resume "$tmp/run" --lr 1e-4
done_testing
