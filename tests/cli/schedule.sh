#!/bin/sh
# A run goes on beyond the end of its schedule only where that was said: the schedule is extended, and is then what docs/design.md has for
# the new horizon, or its end is kept by name. Prints TAP.
. tests/tap.sh

make_text 200 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
shape="--data $tmp/text.txt --tokenizer $tmp/tok --n-layer 2 --n-head 2 --n-embd 32 --seq 16 --batch 2 --csd-mem 192K --durability none --threads 1
       --lr 1e-3 --min-lr 1e-5 --quiet"

# rates RUN: of its steps from 0; formula KIND WARMUP HORIZON FIRST LAST: by the formula of design.md
rates() { sqlite3 -separator ' ' "$1/run.db" "SELECT step, printf('%.6e', lr) FROM steps ORDER BY step"; }
formula() {
    awk -v kind="$1" -v warmup="$2" -v horizon="$3" -v first="$4" -v last="$5" -v lr="${6:-1e-3}" -v min="${7:-1e-5}" 'BEGIN {
        for (s = first; s <= last; s++) {
            f = (s - warmup) / (horizon - warmup > 1 ? horizon - warmup : 1); f = f > 1 ? 1 : f;
            r = lr;
            if (kind == "cosine") r = min + (lr - min) * (1 + cos(atan2(0, -1) * f)) / 2;
            if (kind == "linear") r = min + (lr - min) * (1 - f);
            if (s < warmup) r = lr * (s + 1) / warmup;
            printf "%d %.6e\n", s, r
        }
    }'
}
option() { sqlite3 "$1/run.db" "SELECT value FROM runs WHERE key = 'option.$2'"; }

for mode in mem su+o; do
    for kind in cosine linear; do
        at=$tmp/$kind-$mode
        run pretrain --run "$at" $shape --schedule $kind --warmup 25% --steps 8 --mode $mode
        before=$(sums "$at")
        refuses 2 "the $kind schedule of $at ends at step 8, so the learning rate of the steps up to 16 would be --min-lr, 1e-05: give --steps 16 --schedule-steps 16 to extend the schedule, or --schedule-steps 8 to train on at --min-lr" \
            pretrain --resume "$at" --steps 16 --quiet
        same "$before" "$(sums "$at")" "$mode, $kind: and nothing is changed"
        works "a schedule that is extended, and a stop" pretrain --resume "$at" --steps 12 --schedule-steps 16 --quiet
        grep -q "from step 9 on the schedule ends at step 16, not 8" "$tmp/err"
        result $? "is said"
        same 1 "$(sqlite3 "$at/run.db" "SELECT count(*) FROM notices WHERE text LIKE 'from step 9 on the schedule ends at step 16, not 8'")" "and kept with the run"
        "$bin" report "$at" --config >"$tmp/$kind.conf"
        same "schedule-steps = 16" "$(grep '^schedule-steps' "$tmp/$kind.conf")" "a file of its options has it"
        result "$(grep -q '^# but for its schedule, which ended at step 8 until step 8 was done$' "$tmp/$kind.conf"; echo $?)" "and says what it had been"
        works "a resume knows it" pretrain --resume "$at" --steps 16 --quiet
        result "$([ ! -s "$tmp/err" ]; echo $?)" "and has nothing to say"
        same "$(formula $kind 2 8 0 7; formula $kind 4 16 8 15)" "$(rates "$at")" "$mode, $kind: each rate is the formula's, by the new horizon from there on"
        run pretrain --run "$tmp/once" $shape --schedule $kind --warmup 25% --steps 8 --mode $mode
        works "$mode, $kind: in one go" pretrain --resume "$tmp/once" --steps 16 --schedule-steps 16 --quiet
        same "$(exported "$tmp/once")" "$(exported "$at")" "$mode, $kind: the same parameters"
        rm -rf "$tmp/once"
    done
done
same "$(exported "$tmp/cosine-mem")" "$(exported "$tmp/cosine-su+o")" "both modes: the same parameters"

# not over yet, but it would be: the same kind
run pretrain --run "$tmp/half" $shape --steps 4 --schedule-steps 8 --mode mem
refuses 2 "ends at step 8, so the learning rate of the steps up to 12" pretrain --resume "$tmp/half" --steps 12
works "to its end" pretrain --resume "$tmp/half" --steps 8 --quiet
same "$(formula cosine 0 8 0 7)" "$(rates "$tmp/half")" "its rates are the whole schedule's"
run pretrain --resume "$tmp/half"
same "$tmp/half is finished: its 8 steps are done; --steps N --schedule-steps N goes further" "$(cat "$tmp/out")" "what goes further is said"
# its end by name: as it always was
works "on at --min-lr, where that is said" pretrain --resume "$tmp/half" --steps 10 --schedule-steps 8
grep -q "the schedule ends at step 8: from there to step 10 the learning rate is --min-lr, 1e-05" "$tmp/err"
result $? "and told"
same "$(formula cosine 0 8 0 9)" "$(rates "$tmp/half")" "which it is"
same 8 "$(option "$tmp/half" schedule-steps)" "the horizon stays"
run pretrain --run "$tmp/tail" $shape --steps 6 --schedule-steps 3 --mode mem
works "one that was made so is finished as it is" pretrain --resume "$tmp/tail" --quiet
run pretrain --run "$tmp/constant" $shape --schedule constant --steps 3 --mode mem
works "a constant schedule has no end" pretrain --resume "$tmp/constant" --steps 6 --quiet
same "$(formula constant 0 3 0 5)" "$(rates "$tmp/constant")" "its rate stays"
works "0 is the run's end" pretrain --resume "$tmp/half" --steps 14 --schedule-steps 0 --quiet
same 14 "$(option "$tmp/half" schedule-steps)" "also with --resume"

# a fine-tuning, in epochs
printf 'sentence,label\na ship,yes\na storm,no\na sea,no\nthe whale,yes\n' >"$tmp/rows.csv"
run export "$tmp/half" "$tmp/hf"
run finetune --run "$tmp/tuned" --init "$tmp/hf" --train-file "$tmp/rows.csv" --batch 1 --epochs 2 --max-seq 16 --lr 1e-3 --warmup 25% --mode mem --threads 1 --quiet
refuses 2 "the linear schedule of $tmp/tuned ends at step 8, so the learning rate of the steps up to 16 would be --min-lr, 0: give --steps 16 --schedule-steps 16 to extend" \
    finetune --resume "$tmp/tuned" --epochs 4
works "a fine-tuning's schedule is extended" finetune --resume "$tmp/tuned" --epochs 4 --schedule-steps 16 --quiet
same "$(formula linear 2 8 0 7 1e-3 0; formula linear 4 16 8 15 1e-3 0)" "$(rates "$tmp/tuned")" "each rate is the formula's"

# wsd: a run whose decay has begun is told that its learning rate rises again, one before it is not
for steps in 6 8; do
    run pretrain --run "$tmp/wsd$steps" $shape --schedule wsd --decay-steps 3 --steps $steps --schedule-steps 8 --mode mem
    run pretrain --resume "$tmp/wsd$steps" --steps 9 --schedule-steps 16 --quiet
    same "$steps $((steps == 8))" "$steps $(grep -c "not 8; its decay had begun, and the learning rate rises to --lr again" "$tmp/err")" "wsd, lengthened after $steps of 8 steps: a rise is said"
done
done_testing
