#!/bin/sh
# plan's estimate of the time: it is there in every mode and hangs together, says what it comes from, or why there is none, and leaves
# nothing behind. No time is tested. TAP.
. tests/tap.sh

mkdir "$tmp/d" "$tmp/dev"
small="--n-layer 3 --n-head 2 --n-embd 32 --vocab 96 --seq 16 --batch 2 --grad-accum 2 --steps 70 --csd-mem 1M"

# estimate NAME ARGUMENTS...: a step's time, and the same from its tokens a second and its parts
estimate() {
    name=$1
    shift
    # shellcheck disable=SC2086
    run plan $small --run "$tmp/d/run" "$@"
    awk '/^Time .estimated from 2 layers with 32 tokens/ { there = 1 }
         there && $1 == "a" { step = $3; rate = $5; forward = $8; backward = $11; updates = $16; steps = 0 }
         there && $2 == "steps" && $1 == 70 { steps = 1 }
         END { exit !(steps && forward > 0 && backward > 0 && step > 0.98 * (forward + backward) && rate * step > 60 && rate * step < 68) }' \
        "$tmp/out"
    [ $? = 0 ] && [ "$got" = 0 ] && [ -z "$(ls -A "$tmp/d")$(ls -A "$tmp/dev")" ]
    result $? "$name: a step's time, of which computing is a part; nothing is left"
}
for mode in mem base su su+o su+o+c; do
    estimate "$mode" --mode "$mode"
done
estimate "speculation" --speculate
estimate "recomputed, in a device's folder" --device "$tmp/dev" --activations recompute --dtype fp32
estimate "in a file for a device" --device "$tmp/dev/file" --compress 5% --error-feedback
estimate "devices that answer at once" --csd null
grep -q "updates 0 s, other traffic 0 s" "$tmp/out"
result $? "their updates and traffic take no time"

# shellcheck disable=SC2086
works "--probe off" plan $small --probe off --run "$tmp/none/run"
! grep -q "^Time" "$tmp/out"
result $? "says no time"
# shellcheck disable=SC2086
run plan $small --run "$tmp/none/run"
[ "$got" = 0 ] && grep -q "^Disk: " "$tmp/out" && grep -q "^Time: not measured: siTrain bench: make a folder in .*No such file" "$tmp/out"
result $? "where nothing can be written the plan is there, and why there is no time"

if ram=$(mktemp -d /dev/shm/sitrain-cli.XXXXXX 2>/dev/null) && [ "$(stat -f -c %T "$ram")" = tmpfs ]; then
    trap 'rm -rf "$tmp" "$ram"' EXIT
    # shellcheck disable=SC2086
    run plan $small --run "$ram/run"
    [ "$got" = 0 ] && grep -q "^Time: not measured: .* is in RAM (tmpfs).*--device-in-ram" "$tmp/out"
    result $? "where a run would be refused the plan says why there is no time"
    # shellcheck disable=SC2086
    run plan $small --run "$ram/run" --device-in-ram
    [ "$got" = 0 ] && grep -q "^Time (estimated" "$tmp/out" && [ -z "$(ls -A "$ram")" ]
    result $? "and where it would not there is one"
else
    skip "a place in RAM" "/dev/shm is no tmpfs that can be written here"
fi

# a fine-tuning's steps come from its rows and epochs
printf 'sentence,label\n' >"$tmp/rows.csv"
for i in 1 2 3 4 5 6 7 8 9; do printf 'text %s,%s\n' $i $((i % 2)) >>"$tmp/rows.csv"; done
works "a fine-tuning" plan --n-layer 1 --n-head 2 --n-embd 16 --vocab 96 --max-seq 8 --seq 8 --batch 2 --mode mem --train-file "$tmp/rows.csv" --epochs 4 --run "$tmp/d/run"
grep -q "^  20 steps  " "$tmp/out"
result $? "takes as many steps as its epochs have"
done_testing
