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
none="siTrain: $tmp/best: --keep-best found no best model, since no evaluation gave a number: the last model is taken, after step 6"
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
