#!/bin/sh
# A language model that learns from preferences: ids, losses, rewards, gradients and steps are those of TRL's DPOTrainer; every mode, activations and
# ranks; what the reference model says is computed once, and again after a kill; what cannot be trained on is refused. Prints TAP.
. tests/tap.sh
task=dpo
. tests/finetuned.sh

fixtures=tests/fixtures/dpo models=tests/fixtures/chat_steps
rows=$fixtures/rows.jsonl template="--chat-template $fixtures/template.jinja"
rewards() { sqlite3 "$tmp/$1/run.db" "SELECT * FROM rewards ORDER BY step"; }

# against TRL
exact="--train-file $rows $template --order sequential --batch 4 --grad-accum 2 --max-seq 96 --dtype fp32 --warmup 0 --schedule constant --mode mem"
while read -r model loss; do
    finetuned $model --init $models/$model $exact --steps 8 --lr 2e-3 --weight-decay 0.1 $loss
    compare "$model: ids and marks" ids $fixtures "$tmp/$model/train.ex"
    compare "$model: 8 steps of $loss" steps $fixtures $model "$tmp/$model" "$tmp/exported/model.safetensors"
    finetuned $model-1 --init $models/$model $exact --steps 1 --optimizer sgd --beta1 0 --weight-decay 0 --clip 0 --lr 1024 $loss
    compare "$model: gradients" gradients $fixtures $model $models/$model/model.safetensors "$tmp/exported/model.safetensors" 1024
done <<EOF
llama --loss sigmoid --beta 0.3
qwen3 --loss ipo --beta 0.1
gpt2 --loss robust --beta 0.5 --label-smoothing 10%
EOF
run report "$tmp/llama" "$tmp/gpt2" --json
same "sigmoid robust 0.3 0.5 0 0.1" "$(python3 -c 'import json, sys; d = {x["setting"]: x for x in json.load(sys.stdin)[1]["differs"]}
print(*[d[k][v] for k in ("loss", "beta", "label-smoothing") for v in ("first", "value")])' <"$tmp/out")" "a report says that their losses differ"
finetuned texts --init $models/llama --train-file $fixtures/texts.jsonl --steps 1 --mode mem
compare "texts: ids and marks" ids $fixtures "$tmp/texts/train.ex" texts

# every mode, and what activations do, gives the same bits; the reference's are those of the first step
shape="--init $models/llama $template --train-file $rows --eval-file $rows --max-seq 64 --batch 4 --grad-accum 2 --epochs 2 --lr 1e-3 --csd-mem 192K --seed 5"
for how in "" --group-by-length; do
    first=
    for mode in mem base su su+o "su+o --activations offload" "base --activations recompute" "mem --threads 1"; do
        rm -rf "$tmp/mode"
        finetuned mode $shape $how --mode $mode
        first=${first:-$hash $(sha256sum <"$tmp/mode/train.ref")}
        same "$first" "$hash $(sha256sum <"$tmp/mode/train.ref")" "rows ${how:-shuffled}: --mode $mode gives the same bits"
    done
done
same "0|4|0.0|0.0|0.0" "$(rewards mode | head -n 1 | cut -d '|' -f 1-5)" "before a step, the model is the reference: all rewards are 0"
same "0.6931471805599453" "$(column mode "printf('%.16g', loss)" | head -n 1)" "and the loss is log 2"
finetuned compressed $shape --mode su+o+c
same "$(column compressed "count(*)")" "$(column mode "count(*)")" "compressed gradients, too"
same "$(column mode "count(*)")" "$(sqlite3 "$tmp/mode/run.db" "SELECT count(*) FROM rewards")" "each step has its rewards"
works "check of such a run" check "$tmp/mode"
result "$(grep -q "^reference .* 24 in .*/train.ref" "$tmp/out" && grep -q "^reference .* 24 in .*/dev.ref" "$tmp/out"; echo $?)" "looks at what the reference said"

# what is said and kept
finetuned best $shape --mode base --keep-best --log-every 2 --tensorboard auto
python3 -c 'import json, sqlite3, sys
run = sys.argv[1]
e, s = json.load(open(run + "/eval_results.json")), json.load(open(run + "/trainer_state.json"))
names = ["rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins"]
assert e["eval_samples"] == 12 and "perplexity" not in e, e
assert abs(e["eval_rewards/chosen"] - e["eval_rewards/rejected"] - e["eval_rewards/margins"]) < 1e-12
steps = [h for h in s["log_history"] if "loss" in h]
first = sqlite3.connect(run + "/run.db").execute("SELECT avg(chosen), avg(rejected), avg(accuracy) FROM rewards WHERE step < 2").fetchone()
assert len(steps) == 3 and all(abs(steps[0][n] - v) < 1e-12 for n, v in zip(names, first)), steps
losses = [h["eval_loss"] for h in s["log_history"] if "eval_loss" in h]
assert s["best_metric"] == e["eval_loss"] == min(losses), losses
assert json.load(open(run + "/train_results.json"))["train_samples"] == 12' "$tmp/best"
result $? "results and the history have the rewards by TRL's names; the best model has the least loss"
run finetune --task dpo --run "$tmp/said" $shape --mode mem
result "$(grep -q "^step 1/6  loss 0.6931  accuracy 0.000  margin 0.0000" "$tmp/out" && grep -q "^eval after step 6  loss .*  rewards/margins .*(12 pairs)" "$tmp/out"; echo $?)" \
    "steps and evaluations show accuracy and margin"
result "$(grep -q "rows.jsonl: 12 rows of the form preference" "$tmp/err"; echo $?)" "what the file was taken for is said"
"$bin" report "$tmp/best" --html "$tmp/page.html" && grep -q "Rewards along the run" "$tmp/page.html"
result $? "a page of the report draws them"
"$bin" report "$tmp/best" --json | python3 -c 'import json, sqlite3, sys
last = json.load(sys.stdin)["curve"][-1]
row = sqlite3.connect(sys.argv[1]).execute("SELECT chosen, rejected, accuracy FROM rewards ORDER BY step DESC").fetchone()
assert all(abs(last["rewards_" + n] - v) < 1e-12 for n, v in zip(("chosen", "rejected", "accuracies"), row)), last' "$tmp/best/run.db"
result $? "and --json has them"
sqlite3 "$tmp/best/run.db" "UPDATE rewards SET chosen = 5 WHERE step = 1"
run check "$tmp/best"
result "$([ "$got" = 1 ] && grep -q "table rewards: the row of step 2 is damaged (checksum differs)" "$tmp/err"; echo $?)" "check finds a row that was changed"
run report "$tmp/best" --config
cp "$tmp/out" "$tmp/options"
run finetune --config "$tmp/options" --run "$tmp/again" --quiet
same "$hash" "$(exported "$tmp/again")" "the run is made again from its options"
same 1e-06 "$(sqlite3 "$tmp/texts/run.db" "SELECT value FROM runs WHERE key = 'option.lr'")" "--lr is 1e-6, if it is not given"

# the reference is computed once, whatever stops it
for i in $(seq 40); do cat $rows; done >"$tmp/many.jsonl"
long="--init $models/llama $template --train-file $tmp/many.jsonl --max-seq 64 --batch 8 --lr 1e-3 --csd-mem 192K --mode su+o"
finetuned whole $long --steps 3
whole=$hash
begun() { # NAME: a run that is being made, until it is one; its process in $pid
    "$bin" finetune --task dpo --run "$tmp/$1" $long --steps 3 --durability none --quiet >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    while [ ! -f "$tmp/$1/run.db" ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
}
for signal in KILL INT; do
    begun $signal
    kill -$signal $pid
    wait $pid
    [ $signal = INT ] && result "$(grep -q "stopped before a step was begun; go on with: siTrain finetune --resume" "$tmp/err"; echo $?)" "Ctrl-C stops it"
    [ ! -f "$tmp/$signal/train.ref" ]
    result $? "stopped by $signal before the reference was known"
    run finetune --resume "$tmp/$signal" --quiet
    same "$whole" "$(exported "$tmp/$signal")" "--resume computes it again, and ends with the same bits"
done
finetuned part $long --steps 1 --schedule-steps 3
cp -a "$tmp/part/train.ref" "$tmp/kept"
run finetune --resume "$tmp/part" --steps 3 --quiet
same "$whole" "$(exported "$tmp/part")" "later steps take what was computed"
cmp -s "$tmp/kept" "$tmp/part/train.ref"
result $? "and leave it as it is"
printf 'x' | dd of="$tmp/part/train.ref" bs=1 seek=100 conv=notrunc status=none
refuses 1 "train.ref is not what this run was made with (checksum differs)" finetune --resume "$tmp/part" --steps 4 --schedule-steps 4
run check "$tmp/part"
result "$([ "$got" = 1 ] && grep -q "train.ref is not what" "$tmp/err"; echo $?)" "check finds the damage"
rm "$tmp/part/train.ref"
run finetune --resume "$tmp/part" --steps 4 --schedule-steps 4
result "$([ "$got" = 1 ] && grep -q "lacks what the model said to its pairs before the first step" "$tmp/err"; echo $?)" "without it, the run does not go on"
cp -a "$tmp/kept" "$tmp/part/train.ref"
works "with its file, the run goes on" finetune --resume "$tmp/part" --steps 4 --schedule-steps 4 --quiet

# rows of other forms, other keys, a template of one's own, rows that are too long
printf '%s\n' '{"q":"a ship ","good":"sees the sea","bad":"fears"}' '{"q":"a whale ","good":"follows","bad":"sees"}' >"$tmp/keys.jsonl"
finetuned keys --init $models/gpt2 --train-file "$tmp/keys.jsonl" --prompt-column q --chosen-column good --rejected-column bad --steps 1 --mode mem
same 4 "$(sqlite3 "$tmp/keys/run.db" "SELECT value FROM runs WHERE key = 'train.rows'")" "keys of other names"
printf '%s\n' '{"chosen":[{"role":"user","content":"a"},{"role":"assistant","content":"ship"}],"rejected":[{"role":"user","content":"a"},{"role":"assistant","content":"sea"}]}' >"$tmp/bare.jsonl"
finetuned bare --init $models/llama --train-file "$tmp/bare.jsonl" --steps 1 --mode mem
same 2 "$(sqlite3 "$tmp/bare/run.db" "SELECT value FROM runs WHERE key = 'train.rows'")" "lists without a prompt"
finetuned short --init $models/llama $template --train-file $rows --max-seq 40 --steps 1 --mode mem
result "$(grep -q "of 12 training rows have an answer that does not begin within --max-seq, or two that are the same there, and are left out" "$tmp/short.err" && grep -q "rows have more than --max-seq 40 tokens and are cut off there" "$tmp/short.err"; echo $?)" \
    "pairs that are cut off"
finetuned dropped --init $models/llama $template --train-file $rows --max-seq 40 --long-rows drop --steps 1 --mode mem
result "$(grep -q "rows have more than --max-seq 40 tokens and are left out" "$tmp/dropped.err"; echo $?)" "or left out"
# eval of other pairs, as the run evaluates its own
finetuned judged --init $models/llama $template --train-file $rows --eval-file $rows --steps 4 --lr 1e-2 --beta 0.3 --mode mem
run eval "$tmp/judged" --eval-file $rows --reference $models/llama --batch 8
same "$(sqlite3 "$tmp/judged/run.db" "SELECT printf('%s %.3f', name, value) FROM evals WHERE step = 3 ORDER BY name")" \
    "$(awk '{ printf "%s %.3f\n", $1, $2 }' "$tmp/out" | sort)" "eval gives the rewards that training gives"
run eval "$tmp/exported" --task dpo --eval-file $rows --reference "$tmp/exported"
result "$(grep -q '^loss 0.693147' "$tmp/out" && grep -q '^rewards/margins 0.000000' "$tmp/out"; echo $?)" "compared with itself a model gets none"
refuses 2 "--reference RUN|HFDIR is missing: rewards compare $tmp/judged with the model that its training began with, which was" eval "$tmp/judged" --eval-file $rows
refuses 2 "--batch 3: each pair takes two rows" eval "$tmp/judged" --eval-file $rows --reference $models/llama --batch 3

works "plan knows the task" plan --task dpo --init $models/llama --train-file $rows --probe off
asked="--task dpo --init $models/llama --train-file $rows --mode su+o --host-mem 60M --csd-mem 192K"
# shellcheck disable=SC2086
run plan $asked --json "$tmp/plan.json"
most=$(python3 -c 'import json, sys; print(int(json.load(open(sys.argv[1]))["largest"]["batch"]))' "$tmp/plan.json")
# shellcheck disable=SC2086
works "the largest batch that plan names fits, of $most" plan $asked --probe off --batch "$most"

# refused, and nothing is left
no() { # TEXT ARGUMENTS...
    text=$1
    shift
    refuses 2 "$text" finetune --task dpo --run "$tmp/no" "$@"
    [ ! -e "$tmp/no" ] || { rm -rf "$tmp/no"; result 1 "  and nothing is left"; }
}
llama="--init $models/llama --train-file $rows"
no "--train-file FILE is missing: a file of preferences" --init $models/llama
no "--beta 0: a number above 0 is expected" $llama --beta 0
no "--label-smoothing" $llama --label-smoothing 0.5
no "--loss ipo has no --label-smoothing" $llama --loss ipo --label-smoothing 0.1
no "--packing is for --task chat" $llama --packing
no "--loss-on is for --task chat" $llama --loss-on last
no "--batch 3: each pair takes two rows" $llama --batch 3
no "--predict is for classifiers and regressors: leave it out with --task dpo" $llama --predict
no "rows.jsonl:1: the row is of the form messages, and --task dpo needs a chosen and a rejected answer in each row" --init $models/llama --train-file $models/rows.jsonl
printf '%s\n' '{"prompt":"a","chosen":"b","rejected":"c"}' '{"prompt":"a","chosen":"b"}' >"$tmp/half.jsonl"
no "half.jsonl:2:" --init $models/llama --train-file "$tmp/half.jsonl"
printf '%s\n' '{"prompt":"a","chosen":"b","rejected":"c"}' '{"prompt":"a","chosen":"b","rejected":"b"}' >"$tmp/equal.jsonl"
no "no two answers begin, and differ, within --max-seq 8: they do behind it in 12 of its 12 rows; give a larger --max-seq" $llama $template --max-seq 8
no "equal.jsonl:2: the chosen and the rejected answer are the same" --init $models/llama --train-file "$tmp/equal.jsonl"
refuses 2 "a row with chosen and rejected is a preference, and --task chat trains on conversations: give --task dpo" finetune --task chat --run "$tmp/no" $llama
refuses 2 "--beta is for preferences: give --task dpo" finetune --task chat --run "$tmp/no" --init $models/llama --train-file $models/rows.jsonl --beta 0.2
refuses 2 "--beta is for preferences: give --task dpo" finetune --run "$tmp/no" --init $models/llama --train-file "$tmp/x.csv" --beta 0.2
refuses 2 "--resume keeps the run's loss: leave --beta out" finetune --resume "$tmp/whole" --beta 0.2

# ranks
by_ranks
language_model 400 300 --n-layer 2 --n-head 2 --n-embd 64 --seq 64 --batch 4 --steps 3
shape=$(echo "$shape" | sed "s|$models/llama|$tmp/hf|")
finetuned one $shape --mode su+o --groups 2
mpirun $more -n 2 "$bin" finetune --task dpo --run "$tmp/two" $shape --mode su+o --durability none --quiet </dev/null >"$tmp/out" 2>"$tmp/err"
got=$?
same "$hash" "$(exported "$tmp/two")" "two ranks: the bits of one process with two groups"
same "$(rewards one)" "$(rewards two)" "and its rewards"
cmp -s "$tmp/two/train.ref" "$tmp/two.rank1/train.ref" && cmp -s "$tmp/two/train.ref" "$tmp/one/train.ref"
result $? "each rank keeps what the reference said"
run reshard "$tmp/two" --ranks 1 --new-run "$tmp/joined"
cmp -s "$tmp/two/train.ref" "$tmp/joined/train.ref" && cmp -s "$tmp/two/dev.ref" "$tmp/joined/dev.ref"
result $? "and so does the run that is made of both"
works "which goes on" finetune --resume "$tmp/joined" --steps 6 --schedule-steps 6 --quiet
rm "$tmp/two.rank1/train.ref"
mpirun $more -n 2 "$bin" finetune --resume "$tmp/two" --steps 8 --schedule-steps 8 --quiet </dev/null >"$tmp/out" 2>"$tmp/err"
result "$([ $? != 0 ] && grep -q "lacks what the model said to its pairs" "$tmp/err"; echo $?)" "and no rank goes on without it"
done_testing
