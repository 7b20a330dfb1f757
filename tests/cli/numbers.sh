#!/bin/sh
# A model that is dead, or dies now and then, does not look alive: steps and evaluations whose numbers are none, and every output that holds
# a number beside run.db (no_numbers.py). Prints TAP.
. tests/tap.sh

language_model 200 300 --n-layer 2 --n-head 2 --n-embd 32 --seq 32 --batch 4 --steps 2
if ! command -v python3 >/dev/null; then
    skip "numbers that are none" "no python3"
    done_testing
fi

# Each value of the embedding of '#' is a number, and what a norm makes of them is none.
python3 tests/cli/no_numbers.py kill "$tmp/hf" '#'
result $? "a word whose embedding is too large"
cat >"$tmp/train.csv" <<'EOF'
label,sentence
0.5,# the sea
1.5,the ship loves
-0.5,a storm fears
0.5,a # captain
1.5,the whale finds
-0.5,the # harbour
EOF
printf 'label,sentence\n0.5,the sea\n1.5,# the ship\n' >"$tmp/dev.csv"
printf 'label,sentence\n0.5,the sea\n1.5,the ship\n' >"$tmp/alive.csv"
rows="--init $tmp/hf --train-file $tmp/train.csv --max-seq 16 --batch 1 --order sequential --epochs 1 --lr 1e-4 --csd-mem 192K --durability none
      --threads 1 --eval-every 3 --tensorboard auto"

for mode in mem su+o; do
    works "$mode: three steps of six, and every evaluation, are none" finetune --run "$tmp/$mode" $rows --eval-file "$tmp/dev.csv" --mode $mode
    cp "$tmp/out" "$tmp/$mode.log"
    python3 tests/cli/no_numbers.py compare "$bin" "$tmp/$mode" "$tmp/$mode.log" 1,4,6 >"$tmp/out" 2>"$tmp/err"
    result $? "$mode: each output says what run.db does"
done
works "steps that are none, evaluations that are numbers" finetune --run "$tmp/alive" $rows --eval-file "$tmp/alive.csv" --mode mem
cp "$tmp/out" "$tmp/alive.log"
python3 tests/cli/no_numbers.py compare "$bin" "$tmp/alive" "$tmp/alive.log" 1,4,6 >"$tmp/out" 2>"$tmp/err"
result $? "each output says what run.db does, then, too"
refuses 1 "its loss is nan" eval "$tmp/mem" --eval-file "$tmp/dev.csv" --max-seq 16
refuses 1 "a logit of the model is nan for row 1" eval "$tmp/mem" --test-file "$tmp/dev.csv" --predict "$tmp/predicted" --max-seq 16
run finetune --run "$tmp/best" $rows --eval-file "$tmp/dev.csv" --test-file "$tmp/dev.csv" --predict --mode mem --keep-best
result "$([ "$got" = 1 ] && tail -n 1 "$tmp/err" | grep -q "a logit of the model is nan for row 1" && ! ls "$tmp/predicted" "$tmp/best/"predict_* 2>/dev/null
    echo $?)" "what is no number is not predicted, nor is it the best"
result "$([ ! -e "$tmp/best/best" ] && python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["best_metric"] is not None)' \
    "$tmp/best/trainer_state.json"; echo $?)" "and nothing is kept as such"
none="siTrain: $tmp/best: --keep-best has no best model yet, since no evaluation has given a number so far: the last model is taken, after step 6"
works "the last model takes its place" export "$tmp/best" "$tmp/best-hf"
same "$none" "$(cat "$tmp/err")" "  with a notice"
works "which was asked for" export "$tmp/best" "$tmp/last-hf" --last
result "$([ ! -s "$tmp/err" ]; echo $?)" "  without one"

# a classifier whose logits are none has no accuracy, though its first class is that of most rows
printf 'sentence,label\nthe cat,a\nthe dog,a\nthe sun,a\nthe moon,a\nthe river,b\nthe king,a\n' >"$tmp/most.csv"
printf 'sentence,label\nthe cat,b\nthe dog,b\nthe sun,b\nthe moon,a\n' >"$tmp/few.csv"
works "a classifier that dies" finetune --run "$tmp/dies" --init "$tmp/lm" --train-file "$tmp/few.csv" --eval-file "$tmp/most.csv" --steps 4 --eval-every 1 \
    --batch 4 --lr 1e6 --clip 0 --schedule constant --warmup 0 --threads 1 --mode mem --durability none --keep-best
result "$(grep -q "accuracy nan  loss nan" "$tmp/out" && ! grep -qE "accuracy [0-9.]+  loss nan|nan .*best so far" "$tmp/out"; echo $?)" "  has no accuracy then"
refuses 1 "a logit of the model is nan for row 0" eval "$tmp/dies" --last --test-file "$tmp/most.csv" --predict "$tmp/predicted"

# what an older model predicted is not left beside one that predicts nothing; at this rate it is alive after one step and dead after eight,
# whatever the last bits
cp "$tmp/few.csv" "$tmp/test.csv"
works "it is alive after its first step" finetune --run "$tmp/stale" --init "$tmp/lm" --train-file "$tmp/few.csv" --test-file "$tmp/test.csv" --predict \
    --steps 1 --schedule-steps 8 --batch 4 --optimizer sgd --lr 1e2 --clip 0 --schedule constant --warmup 0 --threads 1 --mode mem --durability none --quiet
predicted=$(cat "$tmp/stale"/predict_results_*.txt)
works "  and predicts once" finetune --resume "$tmp/stale" --quiet
same "$predicted" "$(cat "$tmp/stale"/predict_results_*.txt)" "  the same"
run finetune --resume "$tmp/stale" --steps 8 --quiet
result "$([ "$got" = 1 ] && grep -qE "a logit of the model is -?(nan|inf) for row 0" "$tmp/err"; echo $?)" "  it is dead after its eighth"
same 0 "$(cat "$tmp/stale"/predict_results_* | wc -c)" "  what it predicted then is gone"

# of two development sets the second is dead
mkdir "$tmp/mnli"
python3 - "$tmp/mnli" <<'EOF'
import sys
def write(name, dead, labelled=True):
    with open(f"{sys.argv[1]}/{name}", "w", encoding="utf-8") as f:
        f.write("\t".join(["index", "promptID", "pairID", "genre", "s1b", "s2b", "s1p", "s2p", "sentence1", "sentence2"] + ["label1", "gold_label"] * labelled) + "\n")
        for i in range(6):
            text = "the sea sees" + (" #" if i in dead else "")
            f.write("\t".join([str(i)] + ["x"] * 7 + [text, "a ship loves"] + ["neutral", ["entailment", "neutral", "contradiction"][i % 3]] * labelled) + "\n")
write("train.tsv", ())
write("dev_matched.tsv", ())
write("dev_mismatched.tsv", (2,))
EOF
works "MNLI, its mismatched rows dead" finetune --run "$tmp/two" --init "$tmp/hf" --task mnli --data "$tmp/mnli" --max-seq 16 --batch 2 --epochs 2 --mode mem \
    --durability none --threads 1 --keep-best
result "$([ "$(grep -cE "accuracy [0-9.]+  loss [0-9.]+  accuracy_mm nan  loss_mm nan" "$tmp/out")" = 2 ] && grep -qE "^dev_mm +6 +nan +nan$" "$tmp/out"; echo $?)" \
    "  are no number, and the others are"
python3 - "$tmp/two" <<'EOF'
import json, sys
for name in "eval_results", "all_results":
    r = json.load(open(f"{sys.argv[1]}/{name}.json"))
    assert r["eval_accuracy_mm"] is None and r["eval_loss_mm"] is None and r["eval_accuracy"] >= 0 and r["eval_loss"] > 0, r
assert json.load(open(sys.argv[1] + "/trainer_state.json"))["best_metric"] >= 0
EOF
result $? "  in its files, too"
run eval "$tmp/two" --task mnli --data "$tmp/mnli" --max-seq 16
result "$([ "$got" = 1 ] && grep -q "its loss is nan" "$tmp/err" && ! grep -q "_mm" "$tmp/out"; echo $?)" "  and eval says it"

# beside others
run report "$tmp/mem" "$tmp/alive" --html "$tmp/both.html"
result "$(grep -q '<td class="n">nan</td>' "$tmp/both.html"; echo $?)" "beside another run, too"

# a language model that is dead from its first step: no loss, no perplexity, no pace, and nobody is 0.00 times as fast
head -n 20 "$tmp/text.txt" | sed 's/$/ #/' >"$tmp/dead.txt"
works "a dead language model" pretrain --run "$tmp/dead" --init "$tmp/hf" --data "$tmp/dead.txt" --eval-data "$tmp/dead.txt" --batch 2 --seq 32 --steps 4 \
    --eval-every 2 --mode mem --durability none
result "$([ "$(grep -c "loss nan" "$tmp/out")" = 6 ] && [ "$(grep -c "perplexity nan" "$tmp/out")" = 2 ]; echo $?)" "  says so of every step and evaluation"
run report "$tmp/dead" --json
result "$(! grep -qE '"(loss|loss_least|loss_most|first_loss|last_loss|value)": [^n]' "$tmp/out" && grep -q '"loss": null' "$tmp/out"; echo $?)" "  also as JSON"
run report "$tmp/dead" "$tmp/lm" --html "$tmp/pair.html"
result "$(! grep -q '>0.00 x<' "$tmp/pair.html"; echo $?)" "  there is no speed-up over it on the page"
run report "$tmp/dead" "$tmp/lm"
result "$(grep -q "no steady step" "$tmp/out" && ! grep -q "0.00 x" "$tmp/out" && [ "$(tr '\n' ' ' <"$tmp/out" | grep -oE "[:,] +data " | wc -l)" = 1 ]; echo $?)" \
    "  nor in the text, where a setting stands once"
done_testing
