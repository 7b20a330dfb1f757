#!/bin/sh
# habits.sh: what people expect of a training loop: it ends early when evaluations become no better, and in time; it goes on by itself in as many
# processes as it takes; a schedule that stays and then decays is lengthened; labels are smoothed and embeddings noisy, to the same bits in every
# mode and after a stop. Prints TAP.
examples=$(pwd)/examples
. tests/tap.sh
smallest
shape="--n-layer 3 --n-head 2 --n-embd 32 --seq 16 --batch 2 --csd-mem 192K --threads 1 --durability none"
new="$data --eval-data $tmp/text.bin $shape"
setting() { sqlite3 "$1/run.db" "SELECT value FROM runs WHERE key = '$2'"; }
trained() { sqlite3 "$1/run.db" "SELECT step, printf('%.17g %.17g', loss, grad_norm) FROM steps; SELECT step, name, printf('%.17g', value) FROM evals"; }

# ---- --early-stopping: at a rate of 0 no evaluation is better than the first
still="--schedule constant --lr 0 --steps 100 --eval-every 2 --early-stopping 3"
ended="ended early, after step 8 of 100: 3 evaluations without a better loss; the best was"
# shellcheck disable=SC2086
works "training ends early" pretrain --run "$tmp/early" $new $still
result "$(tail -n 1 "$tmp/out" | grep -q "^$tmp/early $ended [0-9.]* after step 2; --early-stopping N with a larger N, or 0, goes further$"; echo $?)" "and says why, and which step was best"
same "0,1,2,3,4,5,6,7 early" "$(sqlite3 "$tmp/early/run.db" "SELECT group_concat(step) FROM steps") $(setting "$tmp/early" finished)" "its steps are committed, and run.db says how it ended"
run watch "$tmp/early" --once
result "$(grep -q "ended early" "$tmp/out"; echo $?)" "watch says so"
works "a resume trains nothing" pretrain --resume "$tmp/early" --quiet
result "$(grep -q "$ended" "$tmp/out"; echo $?)" "and says it again"
trained "$tmp/early" >"$tmp/want"
for mode in mem su+o; do
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/again" $new --schedule constant --lr 0 --steps 5 --eval-every 2 --mode $mode --quiet
    run pretrain --resume "$tmp/again" --steps 7 --early-stopping 3 --quiet
    sqlite3 "$tmp/again/run.db" "DELETE FROM evals WHERE step IN (4, 6)" # those at the ends of parts
    works "$mode: in three processes" pretrain --resume "$tmp/again" --steps 100
    result "$(grep -q "ended early, after step 8 of 100" "$tmp/out"; echo $?)" "it counts the evaluations in run.db"
    rm -rf "$tmp/again"
done
# shellcheck disable=SC2086
"$bin" pretrain --run "$tmp/killed" $new $still --csd-latency 20000 >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
for _ in $(seq 1200); do [ "$(grep -c '^eval' "$tmp/out")" -ge 2 ] && break; sleep 0.05; done
kill -KILL $pid
wait $pid 2>/dev/null
works "after a kill it ends" pretrain --resume "$tmp/killed" --quiet
trained "$tmp/killed" | cmp -s - "$tmp/want"
result $? "where a run without one ended"
works "a larger number goes further" pretrain --resume "$tmp/early" --early-stopping 5 --quiet
same "12 early" "$(sqlite3 "$tmp/early/run.db" "SELECT count(*) FROM steps") $(setting "$tmp/early" finished)" "by as many evaluations"
works "0 goes on to the last step" pretrain --resume "$tmp/early" --early-stopping 0 --steps 14 --quiet
same "14 steps" "$(sqlite3 "$tmp/early/run.db" "SELECT count(*) FROM steps") $(setting "$tmp/early" finished)" "which ends the run"
works "a run that goes further" pretrain --resume "$tmp/early" --steps 15 --eval-every 0 --quiet
# shellcheck disable=SC2086
works "losses that are no numbers" pretrain --run "$tmp/nan" $new --schedule constant --optimizer sgd --lr 1e30 --clip 0 --steps 100 --eval-every 1 --early-stopping 2 --quiet
result "$(grep -Eq "ended early, after step [0-9]* of 100: 2 evaluations without a better loss; (no value was a number|the best was .* after step 1);" "$tmp/out"; echo $?)" "are no better"
# shellcheck disable=SC2086
refuses 2 "--early-stopping needs something to evaluate on: give --eval-data FILE" pretrain --run "$tmp/none" $data $shape --early-stopping 2 --quiet
# shellcheck disable=SC2086
refuses 2 "--early-stopping counts evaluations, and there would be one at the end alone: give --eval-every N too" pretrain --run "$tmp/none" $new --early-stopping 2 --quiet
refuses 2 "has one at its end alone: give --eval-every N too" pretrain --resume "$tmp/early" --early-stopping 2 --quiet
result "$([ ! -e "$tmp/none" ]; echo $?)" "nothing was made"

# a classifier, by its metric; what comes after training is of the steps that were done
printf 'sentence,label\nthe ship loves,good\na storm fears,bad\nthe sea,good\na whale,bad\n' >"$tmp/rows.csv"
run export "$tmp/early" "$tmp/hf"
works "a fine-tuning ends early" finetune --run "$tmp/class" --init "$tmp/hf" --train-file "$tmp/rows.csv" --eval-file "$tmp/rows.csv" --test-file "$tmp/rows.csv" --predict \
    --batch 2 --epochs 20 --max-seq 16 --lr 0 --early-stopping 1 --threads 1 --mode mem --quiet
result "$(grep -q "ended early, after step 4 of 40: 1 evaluation without a better accuracy; the best was" "$tmp/out"; echo $?)" "by the metric of its task"
same "4 2.0" "$(python3 -c 'import json, sys; s = json.load(open(sys.argv[1] + "/trainer_state.json")); print(s["global_step"], float(s["epoch"]))' "$tmp/class")" "its results are those of the steps that were done"
result "$([ -s "$tmp/class/predict_results_None.txt" ]; echo $?)" "and it predicts"

# ---- --time-limit: a step takes a third of a second, by its modelled link
slow="$new --steps 8 --eval-every 4 --link-bw 300K --schedule cosine --lr 1e-3"
# shellcheck disable=SC2086
run pretrain --run "$tmp/once" $new --steps 8 --eval-every 4 --schedule cosine --lr 1e-3 --quiet
trained "$tmp/once" >"$tmp/want"
# shellcheck disable=SC2086
works "a run with a time limit" pretrain --run "$tmp/timed" $slow --time-limit 1s --quiet
grep -q "^siTrain: stopped after step [1-7] of 8: the next step would take \(about\|less than\) [0-9.]*m*s, and not end within --time-limit 1s; go on with: siTrain pretrain --resume $tmp/timed --time-limit 1s$" "$tmp/err"
result $? "stops in time, and says how to go on"
result "$([ -z "$(setting "$tmp/timed" finished)$(setting "$tmp/timed" option.time-limit)" ]; echo $?)" "it is not finished, and the limit is the process's own"
i=0
while [ -z "$(setting "$tmp/timed" finished)" ] && [ $i -lt 10 ]; do
    run pretrain --resume "$tmp/timed" --time-limit 1s --quiet
    [ "$got" = 0 ] || break
    i=$((i + 1))
done
trained "$tmp/timed" | cmp -s - "$tmp/want"
result $? "in $((i + 1)) processes it has the bits of one"
refuses 2 "--time-limit 90: expected a time, such as 90s, 45m, 2h, 1h30m, 1d or 1:30:00" pretrain --resume "$tmp/timed" --time-limit 90
for bad in 0s 1:60:00 -1:00:00 -1h 5x 1m2h; do refuses 2 "--time-limit $bad: expected a time" pretrain --resume "$tmp/timed" --time-limit "$bad"; done
for good in 2h 1h30m 0.5d 45m 1:30:00 100:00:00; do works "--time-limit $good" pretrain --resume "$tmp/timed" --time-limit $good --quiet; done
works "a fine-tuning with a time limit" finetune --run "$tmp/late" --init "$tmp/hf" --train-file "$tmp/rows.csv" --batch 2 --epochs 4 --max-seq 16 --link-bw 300K --threads 1 \
    --durability none --csd-mem 192K --time-limit 1s --quiet
result "$(grep -q "go on with: siTrain finetune --resume $tmp/late --time-limit 1s$" "$tmp/err" && [ ! -e "$tmp/late/train_results.json" ]; echo $?)" "has no results yet"

# an evaluation that no process has measured yet is foreseen by its rows: here about 1,000 steps' worth
make_text 2000 >"$tmp/much.txt"
# shellcheck disable=SC2086
run pretrain --run "$tmp/foreseen" $new --steps 8 --eval-data "$tmp/much.txt" --eval-every 2 --link-bw 300K --time-limit 20s --quiet
result "$(grep -q "stopped after step 1 of 8: the next step and its evaluation would take about" "$tmp/err"; echo $?)" "the first evaluation is foreseen"
# killed between its last step and its results, a fine-tuning is not finished; a resume writes them
find_shim
if [ -n "$shim" ]; then
    for name in all_results.json predict_results_None.txt; do
        rm -rf "$tmp/cut"
        LD_PRELOAD="$shim" SHIM_AT="name:$name:1:kill" "$bin" finetune --run "$tmp/cut" --init "$tmp/hf" --train-file "$tmp/rows.csv" --test-file "$tmp/rows.csv" --predict \
            --batch 2 --epochs 1 --max-seq 16 --threads 1 --mode mem --quiet >/dev/null 2>&1
        result "$([ "$(sqlite3 "$tmp/cut/run.db" "SELECT count(*) FROM steps")" = 2 ] && [ -z "$(setting "$tmp/cut" finished)" ]; echo $?)" "killed at $name: it is not finished"
        works "  goes on" finetune --resume "$tmp/cut" --quiet
        result "$([ "$(setting "$tmp/cut" finished)" = steps ] && [ -s "$tmp/cut/all_results.json" ] && [ -s "$tmp/cut/predict_results_None.txt" ]; echo $?)" "  to its results, and is"
    done
else
    skip "killed before its results" "no library to kill it with"
fi

# ---- a Slurm job that goes on by itself: examples/job.sh, with what Slurm would do around it
mkdir "$tmp/bin"
ln -s "$bin" "$tmp/bin/siTrain"
printf '#!/bin/sh\n[ "$1 $2" = "requeue 7" ] && touch "%s"\n' "$tmp/requeued" >"$tmp/bin/scontrol"
chmod +x "$tmp/bin/scontrol"
jobs=0
while [ $jobs -lt 10 ]; do
    rm -f "$tmp/requeued"
    # shellcheck disable=SC2086
    PATH="$tmp/bin:$PATH" MARGIN=0 SLURM_JOB_ID=7 SLURM_JOB_END_TIME=$(($(date +%s) + 2)) sh "$examples/job.sh" "$tmp/job" pretrain $slow --quiet >"$tmp/out" 2>"$tmp/err"
    got=$?
    jobs=$((jobs + 1))
    [ -e "$tmp/requeued" ] || break
done
result "$([ "$got" = 0 ] && [ "$(setting "$tmp/job" finished)" = steps ]; echo $?)" "examples/job.sh goes on until the run is finished ($jobs jobs)"
trained "$tmp/job" | cmp -s - "$tmp/want"
result $? "and it has the bits of one process"
PATH="$tmp/bin:$PATH" SLURM_JOB_ID=7 SLURM_JOB_END_TIME=$(($(date +%s) + 60)) sh "$examples/job.sh" "$tmp/short" pretrain $slow >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 1 ] && grep -q "this job ends within MARGIN, 120 seconds" "$tmp/err" && [ ! -e "$tmp/short" ]; echo $?)" "a job that is too short is refused"
PATH="$tmp/bin:$PATH" MARGIN=0 SLURM_JOB_ID=7 SLURM_JOB_END_TIME=$(($(date +%s) + 60)) sh "$examples/job.sh" "$tmp/fails" pretrain --data "$tmp/absent" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 2 ] && [ ! -e "$tmp/requeued" ]; echo $?)" "a job that fails is not repeated"

# ---- --schedule wsd
wsd="$new --schedule wsd --warmup 2 --lr 1e-3 --min-lr 1e-4"
rates() { sqlite3 "$1/run.db" "SELECT group_concat(printf('%.4g', lr * 1e4), ' ') FROM (SELECT lr FROM steps ORDER BY step)"; }
# shellcheck disable=SC2086
works "warm-up, stable, decay" pretrain --run "$tmp/wsd" $wsd --steps 10 --decay-steps 3 --quiet
same "5 10 10 10 10 10 10 10 7 4" "$(rates "$tmp/wsd")" "its rates are the formula's"
same "6" "$(sqlite3 "$tmp/wsd/run.db" "PRAGMA user_version")" "an older siTrain refuses the run by its format"
for part in 30% 0.3; do
    rm -rf "$tmp/part"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/part" $wsd --steps 10 --decay-steps $part --quiet
    same "$(rates "$tmp/wsd")" "$(rates "$tmp/part")" "--decay-steps $part"
done
refuses 2 "the wsd schedule of $tmp/wsd ends at step 10" pretrain --resume "$tmp/wsd" --steps 14 --quiet
# from the stable phase: lengthened twice, it is the longest run, bit for bit up to that one's decay, and then it as well
# shellcheck disable=SC2086
run pretrain --run "$tmp/long" $wsd --steps 16 --decay-steps 3 --mode mem --quiet
# shellcheck disable=SC2086
run pretrain --run "$tmp/grown" $wsd --steps 6 --schedule-steps 10 --decay-steps 3 --mode mem --quiet
works "lengthened once" pretrain --resume "$tmp/grown" --steps 9 --schedule-steps 13 --quiet
works "lengthened twice" pretrain --resume "$tmp/grown" --steps 16 --schedule-steps 16 --quiet
same "$(trained "$tmp/long" | sort)" "$(trained "$tmp/grown" | grep -v '^\(5\|8\)|\(loss\|perplexity\)' | sort)" "is the longest run"
same "$(exported "$tmp/long")" "$(exported "$tmp/grown")" "to the last bit"
# from its end: the rate rises again at once, as docs/design.md says
works "a decayed run goes on" pretrain --resume "$tmp/wsd" --steps 14 --schedule-steps 14 --quiet
works "and on" pretrain --resume "$tmp/wsd" --steps 18 --schedule-steps 18 --quiet
same "5 10 10 10 10 10 10 10 7 4 10 10 7 4 10 10 7 4" "$(rates "$tmp/wsd")" "at the rates of each new horizon"
# shellcheck disable=SC2086
refuses 2 "--decay-steps is for --schedule wsd" pretrain --run "$tmp/none" $new --steps 10 --decay-steps 3
# shellcheck disable=SC2086
refuses 2 "a warm-up of 2 steps (--warmup) and a decay of 9 (--decay-steps) do not fit into a schedule of 10 steps" pretrain --run "$tmp/none" $wsd --steps 10 --decay-steps 9
refuses 2 "--decay-steps is 3 in this run and a resume keeps it" pretrain --resume "$tmp/wsd" --decay-steps 4

# ---- --label-smoothing and --neftune-alpha: the same bits in every mode, however activations come back, and after a stop
loss="--label-smoothing 0.1 --neftune-alpha 5 --grad-accum 2 --eval-every 3 --schedule constant --lr 1e-3"
while read -r mode activations; do
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/$mode" $new $loss --steps 6 --mode "$mode" $activations --quiet
    trained "$tmp/$mode" >"$tmp/$mode.bits"
    [ "$got" = 0 ] && cmp -s "$tmp/mem.bits" "$tmp/$mode.bits"
    result $? "$mode $activations: the same bits"
done <<END
mem
su+o --activations recompute
su --activations offload
base --speculate
END
# shellcheck disable=SC2086
run pretrain --run "$tmp/parts" $new $loss --steps 2 --quiet
sqlite3 "$tmp/parts/run.db" "DELETE FROM evals"
works "goes on" pretrain --resume "$tmp/parts" --steps 6 --quiet
trained "$tmp/parts" | cmp -s - "$tmp/mem.bits"
result $? "to the same bits"
same "6" "$(sqlite3 "$tmp/parts/run.db" "PRAGMA user_version")" "an older siTrain refuses it by its format"
refuses 2 "--label-smoothing is 0.1 in this run and a resume keeps it" pretrain --resume "$tmp/parts" --label-smoothing 0.2
refuses 2 "--neftune-alpha is 5 in this run and a resume keeps it" pretrain --resume "$tmp/parts" --neftune-alpha 0
"$bin" report "$tmp/parts" --config >"$tmp/conf" && grep -qx "label-smoothing = 0.1" "$tmp/conf" && grep -qx "neftune-alpha = 5" "$tmp/conf"
result $? "a file of its options has them"
run eval "$tmp/parts" --data "$tmp/text.bin" --seq 16
result "$(awk -v with="$(sqlite3 "$tmp/parts/run.db" "SELECT value FROM evals WHERE name = 'loss' AND step = 5")" '/^loss/ { exit !($2 < with) }' "$tmp/out"; echo $?)" "siTrain eval tells the loss without smoothing"
# shellcheck disable=SC2086
run pretrain --run "$tmp/plain" $new --label-smoothing 0 --neftune-alpha 0 --steps 1 --quiet
same 4 "$(sqlite3 "$tmp/plain/run.db" "PRAGMA user_version")" "a run without them has the format of before"
printf 'sentence,label\nthe ship loves,1.5\na storm fears,0.5\n' >"$tmp/values.csv"
refuses 2 "--label-smoothing is for words and classes, and a regressor has neither" finetune --run "$tmp/none" --init "$tmp/hf" --train-file "$tmp/values.csv" --label-smoothing 0.1 --steps 1 --quiet
result "$([ ! -e "$tmp/none" ]; echo $?)" "nothing was made"

done_testing
