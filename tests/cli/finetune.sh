#!/bin/sh
# Fine-tuning as a person runs it: it learns what can be learnt, every mode gives the same parameters, whatever stops it; bad rows leave
# nothing behind; results' files are there and parse. Prints TAP.
. tests/tap.sh

language_model 400 300 --n-layer 2 --n-head 2 --n-embd 32 --seq 64 --batch 4 --steps 3

# rows KIND SEED LINES: words, and a label that one word decides
rows() {
    awk -v kind="$1" -v s="$2" -v n="$3" 'function pick(k) { s = (s * 1103515245 + 12345) % 2147483648; return int(s / 65536) % k }
    BEGIN {
        split("sea ship storm sailor island whale captain harbour", w, " ");
        if (kind == "sst2") print "sentence\tlabel";
        if (kind == "rte") print "index\tsentence1\tsentence2\tlabel";
        if (kind == "csv") print "label,sentence";
        for (i = 0; i < n; i++) {
            good = pick(2); text = "";
            for (j = pick(12); j >= 0; j--) text = text w[pick(8) + 1] " ";
            if (kind == "sst2") print text (good ? "loves" : "fears") "\t" good;
            if (kind == "rte") print i "\t" text "\t" (good ? "loves" : "fears") "\t" (good ? "entailment" : "not_entailment");
            if (kind == "csv") print (good ? 1.5 : -0.5) ",\"" text (good ? "loves" : "fears") "\"";
        }
    }'
}

mkdir "$tmp/sst2" "$tmp/rte"
rows sst2 1 200 >"$tmp/sst2/train.tsv"
rows sst2 2 20 >"$tmp/sst2/dev.tsv"
awk -F'\t' 'NR == 1 { print "index\tsentence" } NR > 1 { print NR - 2 "\t" $1 }' "$tmp/sst2/dev.tsv" >"$tmp/sst2/test.tsv"
rows rte 3 200 >"$tmp/rte/train.tsv"
rows rte 4 20 >"$tmp/rte/dev.tsv"
rows csv 5 200 >"$tmp/train.csv"
rows csv 6 20 >"$tmp/dev.csv"

machine="--csd-mem 192K --durability none --quiet"
shape="--init $tmp/hf --batch 8 --grad-accum 2 --lr 1e-3 --max-seq 32 --seed 3"
sst2="--task sst2 --data $tmp/sst2 $shape"

# tuned NAME ARGUMENTS...: a run; what it exports in $hash, what it says at the end in $said
tuned() {
    name=$1
    shift
    run finetune --run "$tmp/$name" "$@"
    cp "$tmp/out" "$tmp/$name.log"
    said=$(tail -n 1 "$tmp/out") hash=
    [ "$got" = 0 ] && hash=$(exported "$tmp/$name")
}

# nothing PATHS NAME: there is no such file (a pattern stands for itself then)
nothing() {
    [ $# = 2 ] && [ ! -e "$1" ]
    result $? "$(shift $(($# - 1)) && echo "$1")"
}

# json FILE KEY VALUE: the file parses, and says so
json() {
    python3 -c 'import json, sys
v = json.load(open(sys.argv[1]))[sys.argv[2]]
sys.exit(0 if abs(v - float(sys.argv[3])) < 1e-6 else print(v) or 1)' "$@"
}

# tokens/s are of real tokens, of all steps since the line before: four long rows and a short one, in their order, are 5 steps a line
python3 - "$tmp/lengths.csv" <<'END'
import sys
with open(sys.argv[1], "w") as f:
    f.write("sentence,label\n")
    for i in range(40):
        f.write(("a " * 60 if i % 5 < 4 else "a") + f",{i % 2}\n")
END
run finetune --run "$tmp/lengths" --train-file "$tmp/lengths.csv" --init "$tmp/hf" --order sequential --batch 1 --max-seq 64 --steps 40 --log-every 5 --mode mem --lr 0
python3 - "$tmp/lengths/run.db" "$tmp/out" <<'END'
import re, sqlite3, sys
steps = sqlite3.connect(sys.argv[1]).execute("SELECT tokens, seconds FROM steps ORDER BY step").fetchall()
rates = [float(r) for r in re.findall(r"^step .* (\d+) tok/s", open(sys.argv[2]).read(), re.M)]
assert len(rates) == 8 and max(t for t, _ in steps) >= 60 and min(t for t, _ in steps) <= 8, (rates, steps)
parts = [(sum(t for t, _ in steps[i:i + 5]) / sum(s for _, s in steps[i:i + 5]), steps[i + 4][0] * 5 / sum(s for _, s in steps[i:i + 5])) for i in range(0, 40, 5)]
# of the last row alone they would be a tenth; a line's time is that of its steps and of what is between them
assert sorted(rate / own for rate, (own, _) in zip(rates, parts))[4] > 0.3 and all(rate < 1.1 * own for rate, (own, _) in zip(rates, parts)), (rates, parts)
END
result $? "tokens/s of a line are the real tokens of its steps"

# what can be learnt is learnt
tuned learnt $sst2 $machine --epochs 8 --mode mem --predict
same "dev 20 1.0000" "$(echo "$said" | awk '{ print $1, $2, $3 }')" "a task that can be learnt is learnt"
tuned pairs --task rte --data "$tmp/rte" $shape $machine --epochs 12 --mode mem
result "$(echo "$said" | awk '{ exit !($3 >= 0.9) }'; echo $?)" "pairs, too: the second text is seen"
awk -F'\t' -v OFS='\t' 'NR > 1 { $4 = $4 == "entailment" } { print }' "$tmp/rte/dev.tsv" >"$tmp/wnli.tsv"
mkdir "$tmp/wnli" && cp "$tmp/wnli.tsv" "$tmp/wnli/train.tsv" && mv "$tmp/wnli.tsv" "$tmp/wnli/dev.tsv"
wnli=$said
tuned other --task wnli --data "$tmp/wnli" --init "$tmp/pairs" --batch 8 --max-seq 32 --seed 3 $machine --steps 1 --lr 0 --mode mem
same "$(echo "$wnli" | awk '{ print $3, $4 }')" "$(echo "$said" | awk '{ print $3, $4 }')" "a classifier's classes are known by their names in another order"
tuned values --train-file "$tmp/train.csv" --eval-file "$tmp/dev.csv" --test-file "$tmp/dev.csv" $shape $machine --epochs 8 --mode mem --predict
result "$(echo "$said" | awk '{ exit !($3 < 0.2) }'; echo $?)" "labels that are not whole are values to come near to"
run finetune --run "$tmp/new" --train-file "$tmp/train.csv" --init "$tmp/pairs" --max-seq 32 --steps 1 --mode mem --quiet
result "$(grep -q 'has 2 classes, not 1: a new one is made' "$tmp/err"; echo $?)" "a head for another number of classes is new, and that is said"
printf 'claim,reason,label\n1,a ship,yes\n2,a storm, yes\n3,a sea,no\n' >"$tmp/two.csv"
run finetune --run "$tmp/two" --train-file "$tmp/two.csv" $shape --steps 1 --mode mem
result "$(grep -q "two.csv: 3 rows of two texts ('claim', 'reason'), 3 classes: . yes., .no., .yes." "$tmp/err"; echo $?)" "what one's own rows are taken for is said"
run report "$tmp/two" --config
cp "$tmp/out" "$tmp/two.conf"
works "without rows to evaluate on, a run is made again from its options" finetune --config "$tmp/two.conf" --run "$tmp/two-again" --quiet

# what is left beside the run
if command -v python3 >/dev/null; then
    for f in train_results eval_results all_results trainer_state; do
        result "$(python3 -m json.tool "$tmp/learnt/$f.json" >/dev/null; echo $?)" "$f.json parses"
    done
    result "$(json "$tmp/learnt/eval_results.json" eval_accuracy 1; echo $?)" "eval_results.json has the accuracy"
    result "$(json "$tmp/learnt/trainer_state.json" max_steps 104; echo $?)" "trainer_state.json has the steps"
else
    skip "the results' files parse" "no python3"
fi
same "$(awk -F'\t' 'NR > 1 { print NR - 2, $2 }' "$tmp/sst2/dev.tsv")" \
    "$(awk -F'\t' 'NR > 1 { print $1, $2 == "positive" || $2 == "1" }' "$tmp/learnt/predict_results_sst2.txt")" "predictions of the test rows"
python3 - "$tmp/learnt/predict_results_sst2.txt" <<'EOF'
import sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
names = [name[2:] for name in rows[0][2:]]
assert rows[0][:2] == ["index", "prediction"] and all(name.startswith("p_") for name in rows[0][2:]) and len(names) == 2, rows[0]
for row in rows[1:]:
    p = [float(x) for x in row[2:]]
    assert abs(sum(p) - 1) < 1e-5 and names[p.index(max(p))] == row[1], row
EOF
result $? "with the probability of each class, of which the predicted one's is the largest"
same "index	prediction" "$(head -n 1 "$tmp/values/predict_results_None.txt")" "values have none"
same 21 "$(wc -l <"$tmp/values/predict_results_None.txt")" "one's own rows are predicted, too"
rm "$tmp/learnt/eval_results.json" "$tmp/learnt/predict_results_sst2.txt"
works "a finished run is resumed" finetune --resume "$tmp/learnt"
result "$([ -f "$tmp/learnt/eval_results.json" ] && [ -f "$tmp/learnt/predict_results_sst2.txt" ]; echo $?)" "what is missing is written"
works "report of a fine-tuning" report "$tmp/learnt"
cp -r "$tmp/learnt" "$tmp/blocked"
rm "$tmp/blocked/all_results.json"
mkdir -p "$tmp/blocked/all_results.json/x"
run finetune --resume "$tmp/blocked" --quiet
result "$([ "$got" = 1 ] && grep -q 'all_results.json is there and is not what siTrain wrote' "$tmp/err" && ! grep -q 'after step' "$tmp/out"; echo $?)" \
    "results that cannot be written are not printed"
# a result's file is replaced only if siTrain wrote it; the others are written, and what is advised brings the rest
theirs() { # FILE: a resume with a user's file there
    run finetune --resume "$tmp/theirs" --quiet
    result "$([ "$got" = 1 ] && grep -qF "$1 is there and is not what siTrain wrote: move it elsewhere; then siTrain finetune --resume $tmp/theirs writes the results" \
        "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "$1 of the user's is named"
    same mine "$(cat "$tmp/theirs/$1" 2>&1)" "  and it stays"
    rm -r "$tmp/theirs/$1"
    works "  moved away" finetune --resume "$tmp/theirs" --quiet
    same "$(sha256sum <"$tmp/learnt/$1")" "$(sha256sum <"$tmp/theirs/$1")" "  the results are written"
}
cp -r "$tmp/learnt" "$tmp/theirs"
for f in eval_results.json predict_results_sst2.txt trainer_state.json; do
    echo mine >"$tmp/theirs/$f"
    rm "$tmp/theirs/train_results.json"
    theirs $f
    result "$([ -f "$tmp/theirs/train_results.json" ]; echo $?)" "  all of them"
done
echo mine >"$tmp/mine"
ln -s "$tmp/mine" "$tmp/theirs/all" && mv "$tmp/theirs/all" "$tmp/theirs/all_results.json"
theirs all_results.json
same mine "$(cat "$tmp/mine")" "nor is a link written through"
echo mine >"$tmp/theirs/predict_results_sst2.txt"
refuses 1 "predict_results_sst2.txt is there and is not what siTrain wrote" finetune --resume "$tmp/theirs" --steps 106 --schedule-steps 106 --quiet
same 104 "$(sqlite3 "$tmp/theirs/run.db" "SELECT count(*) FROM steps")" "before more steps, not after them"
rm "$tmp/theirs/predict_results_sst2.txt"
works "without it" finetune --resume "$tmp/theirs" --steps 106 --schedule-steps 106 --quiet
result "$(json "$tmp/theirs/trainer_state.json" global_step 106; echo $?)" "its own files are replaced by those of the later end"
cp -r "$tmp/learnt" "$tmp/early"
works "an end that is long past" finetune --resume "$tmp/early" --steps 5
same "$(cat "$tmp/learnt/eval_results.json")" "$(cat "$tmp/early/eval_results.json")" "the results are those of what was done"

# eval: of the run, of its export, whose classes have names
run eval "$tmp/learnt" --task sst2 --data "$tmp/sst2" --max-seq 32 --batch 8
same "accuracy 1.000000" "$(grep accuracy "$tmp/out")" "eval of the run"
first=$(cat "$tmp/out")
refuses 2 "run.db is the name of a part of a run" eval "$tmp/learnt" --task sst2 --data "$tmp/sst2" --predict "$tmp/learnt/run.db"
run export "$tmp/learnt" "$tmp/learnt-hf"
run eval "$tmp/learnt-hf" --task sst2 --data "$tmp/sst2" --max-seq 32 --batch 8 --predict "$tmp/predictions"
same "$first" "$(cat "$tmp/out")" "eval of its export"
same "$(cat "$tmp/learnt/predict_results_sst2.txt")" "$(cat "$tmp/predictions")" "which predicts the same"
refuses 2 "dev.csv is also the input" eval "$tmp/values" --test-file "$tmp/dev.csv" --predict "$tmp/dev.csv"
ln -s /dev/full "$tmp/device"
refuses 2 "not a regular file" eval "$tmp/values" --test-file "$tmp/dev.csv" --predict "$tmp/device"
result "$([ -L "$tmp/device" ]; echo $?)" "a device's name is not taken from it"
sed -i 's/negative/+/g; s/positive/negative/g; s/+/positive/g' "$tmp/learnt-hf/config.json"
run eval "$tmp/learnt-hf" --task sst2 --data "$tmp/sst2" --max-seq 32 --batch 8
same "accuracy 0.000000" "$(grep accuracy "$tmp/out")" "classes are known by their names, not their places"
refuses 2 "has 2 classes, MNLI has 3" eval "$tmp/learnt-hf" --task mnli --data "$tmp/sst2"

# what transformers would take for padding is not a row's end
printf '{"sentence": "%s"}\n' "the storm fears" "the storm fears<|endoftext|>" >"$tmp/ends.jsonl"
run eval "$tmp/values" --test-file "$tmp/ends.jsonl" --max-seq 32 --predict "$tmp/ends"
same "$(sed -n 's/^0//p' "$tmp/ends")" "$(sed -n 's/^1//p' "$tmp/ends")" "padding at a row's end does not count"

# every mode, the same bits
tuned mem $sst2 $machine --epochs 1 --mode mem
dense=$hash
for mode in base su su+o; do
    tuned $mode $sst2 $machine --epochs 1 --mode $mode --devices 2
    same "$dense" "$hash" "$mode gives mem's parameters"
done
run report "$tmp/su+o"
same "." "$(awk '/^Traffic/ { t = 1 } /^Overlap/ { t = 0 } t && $3 ~ /^(read|write)$/ && $4 != $5' "$tmp/out")." "report: what was moved is what is computed"
works "the plan of a fine-tuning" plan --probe off --init "$tmp/hf" --task sst2 --data "$tmp/sst2" --max-seq 32
result "$(grep -q '^predictions ' "$tmp/out"; echo $?)" "has room for the rows that are evaluated"
echo "flops = 1e9" >"$tmp/machine"
run plan $sst2 --epochs 1 --mode mem --machine "$tmp/machine" --host-mem 96M --json -
python3 - "$tmp/out" "$tmp/mem/run.db" <<'END'
import json, sqlite3, sys
plan = json.load(open(sys.argv[1]))
real, steps = sqlite3.connect(sys.argv[2]).execute("SELECT sum(tokens), count(*) FROM steps").fetchone()
room, rows, step = plan["tokens"] * steps, plan["rows"], plan["step"]
assert steps == 13 and abs(rows["filled"] * room - real) < 1e-6 * real, (rows, room, real)
assert rows["filled"] < rows["computed"] < 1 and rows["tokens_per_second"] < step["padded_tokens_per_second"] and "tokens_per_second" not in step, (rows, step)
assert abs(rows["tokens_per_second"] * rows["seconds"] * steps / real - 1) < 1e-6, rows
END
result $? "its tokens/s are of real tokens, as many as the run's steps have"
tuned recompute $sst2 $machine --epochs 1 --mode su+o --activations recompute
same "$dense" "$hash" "recomputed activations, the same parameters"
# lengths of 48 leave two pieces where full rows of 64 leave one
long="--task sst2 --data $tmp/sst2 --init $tmp/hf --batch 8 --grad-accum 24 --lr 1e-3 --max-seq 64 --seed 3 --epochs 6 --dtype fp32 $machine --mode su+o"
tuned long $long --activations recompute
recomputed=$hash
run finetune --run "$tmp/none" $long --activations offload --host-mem 1M
least=$(sed -n 's/.*needs at least \([0-9]*\)M.*/\1/p' "$tmp/err")
for way in offload auto; do
    tuned "long-$way" $long --activations $way --host-mem $((least + 8))M
    same "$recomputed" "$hash" "rows of varying length: $way gives the same parameters"
done
result "$(sqlite3 "$tmp/long-offload/run.db" "SELECT sum(bytes) FROM traffic_per_step WHERE class = 'activation'" | awk '{ exit !($1 > 0) }'; echo $?)" "what they leave is offloaded"
tuned c-mem $sst2 $machine --epochs 1 --mode mem --compress 10%
compressed=$hash
tuned c-suo $sst2 $machine --epochs 1 --mode su+o+c --compress 10% --devices 2
same "$compressed" "$hash" "su+o+c gives the parameters of mem --compress"
tuned drop-mem $sst2 $machine --epochs 1 --mode mem --dropout 10%
result "$([ -n "$hash" ] && [ "$hash" != "$dense" ]; echo $?)" "dropout trains otherwise"
dropped=$hash
tuned drop-suo $sst2 $machine --epochs 1 --mode su+o --dropout 10% --activations recompute
same "$dropped" "$hash" "dropout: su+o, recomputed, gives mem's parameters"

# a script of today, the program's name changed
run finetune --model_name_or_path "$tmp/hf" --task_name SST-2 --data_dir "$tmp/sst2" --do_train --do_eval --do_predict --max_seq_length 32 \
    --per_device_train_batch_size=8 --gradient_accumulation_steps 2 --learning_rate 1e-3 --num_train_epochs 1.0 --output_dir "$tmp/glue" \
    --overwrite_output_dir --seed 3 $machine --mode mem
result "$got" "a command line of run_glue.py"
same "$dense" "$(exported "$tmp/glue")" "trains the same"

# one run begins with another
works "a run begins with a run" finetune --run "$tmp/again" --init "$tmp/learnt" --task sst2 --data "$tmp/sst2" --batch 8 --max-seq 32 \
    --steps 1 --lr 1e-9 --mode mem $machine
result "$(grep -q 'dev  *20  *1.0000 ' "$tmp/out"; echo $?)" "and keeps its head"
works "a language model from a classifier" pretrain --run "$tmp/body" --init "$tmp/learnt-hf" --data "$tmp/text.txt" --seq 32 --steps 1 $machine
result "$(grep -q 'its head is left out' "$tmp/err"; echo $?)" "which is said"
refuses 2 "siTrain finetune --resume" pretrain --resume "$tmp/learnt"
refuses 2 "siTrain pretrain --resume" finetune --resume "$tmp/body"
refuses 2 "batch is 8 in this run" finetune --resume "$tmp/learnt" --batch 4

# stopped, killed, resumed; the best is kept whole whatever happens
best="$sst2 --csd-mem 192K --keep-best --eval-every 2 --epochs 2 --durability none"
best_hash() { [ -f "$1/best/model.safetensors" ] && sha256sum <"$1/best/model.safetensors" | cut -d' ' -f1; }
tuned whole $best --mode mem
whole=$hash whole_best=$(best_hash "$tmp/whole")
result "$([ -n "$whole_best" ] && [ "$whole_best" != "$whole" ]; echo $?)" "the best is not the last"
best_step=$(sqlite3 "$tmp/whole/run.db" "SELECT value + 1 FROM runs WHERE key = 'best.step'")
table=$(echo "$said" | awk '{ print "loss", $4; print "accuracy", $3 }')
measure() { # ARGUMENTS...: what eval says of the rows that the table is of
    run eval "$@" --task sst2 --data "$tmp/sst2" --max-seq 32 --batch 8 --dtype bf16
    awk '{ printf "%s %.4f\n", $1, $2 }' "$tmp/out" # as many decimals as the table has
}
for mode in mem su+o; do
    [ $mode = mem ] || tuned whole-$mode $best --mode $mode
    at=$tmp/whole$([ $mode = mem ] || echo -$mode)
    rm -rf "$tmp/whole-hf" "$tmp/last-hf" "$tmp/best-hf"
    run export "$at" "$tmp/whole-hf"
    same "siTrain: $at: the best model is taken, after step $best_step (accuracy $(echo "$table" | awk 'NR == 2 { print $2 }')); --last takes the one after step 26" \
        "$(cat "$tmp/err")" "$mode: an export says that it is the best"
    same "$whole_best" "$(sha256sum <"$tmp/whole-hf/model.safetensors" | cut -d' ' -f1)" "$mode: and is it"
    same "$(cat "$tmp/whole-hf/config.json")" "$(cat "$at/best/config.json")" "$mode: and says of itself what the best does"
    run export "$at" "$tmp/best-hf" --best
    same "$whole_best" "$(sha256sum <"$tmp/best-hf/model.safetensors" | cut -d' ' -f1)" "$mode: --best, too"
    run export "$at" "$tmp/last-hf" --last
    result "$([ ! -s "$tmp/err" ]; echo $?)" "$mode: of --last nothing is said"
    same "$whole" "$(sha256sum <"$tmp/last-hf/model.safetensors" | cut -d' ' -f1)" "$mode: which is the last"
    same "$table" "$(measure "$at")" "$mode: eval measures what the table says"
    same "$table" "$(measure "$tmp/whole-hf")" "$mode: and of the export"
    same "$(measure "$tmp/last-hf")" "$(measure "$at" --last)" "$mode: --last is the last's"
    result "$([ "$(measure "$at" --last)" != "$table" ]; echo $?)" "$mode: which is another model"
done
refuses 2 "give one of them" export "$tmp/whole" "$tmp/none-hf" --best --last
refuses 2 "--best: $tmp/mem kept no best model" eval "$tmp/mem" --task sst2 --data "$tmp/sst2" --best
refuses 2 "--last is for a run, and $tmp/last-hf is a folder" export "$tmp/last-hf" "$tmp/none-hf" --last
# a best model that is not whole, not there, or not the one that is meant is never replaced by the last in silence
spoilt() { # WHAT TEXT
    run eval "$tmp/spoilt" --task sst2 --data "$tmp/sst2" --max-seq 32
    result "$([ "$got" = 1 ] && [ ! -s "$tmp/out" ] && grep -qF -- "$2" "$tmp/err" && grep -qF -- "--last takes the parameters after the last step" "$tmp/err"; echo $?)" \
        "$1 best model is refused: $2"
    run export "$tmp/spoilt" "$tmp/none-hf"
    result "$([ "$got" = 1 ] && [ ! -e "$tmp/none-hf" ]; echo $?)" "and not exported"
    rm -rf "$tmp/last-hf"
    works "but --last is" export "$tmp/spoilt" "$tmp/last-hf" --last
    same "$whole" "$(sha256sum <"$tmp/last-hf/model.safetensors" | cut -d' ' -f1)" "to the last"
}
cp -r "$tmp/whole" "$tmp/spoilt"
turn "$tmp/spoilt/best/model.safetensors" $(($(stat -c %s "$tmp/spoilt/best/model.safetensors") - 4))
spoilt "a damaged" "best/model.safetensors"
cp "$tmp/last-hf/model.safetensors" "$tmp/spoilt/best/"
spoilt "another" "is not the model that run.db names as the best one"
rm -r "$tmp/spoilt/best"
spoilt "a missing" "best is not there any more"
works "a run begins with a run that kept its best" finetune --run "$tmp/from-best" --init "$tmp/whole" --task sst2 --data "$tmp/sst2" --batch 8 --max-seq 32 \
    --steps 1 --mode mem $machine
grep -qF "training begins with the last model of $tmp/whole; --init $tmp/whole/best takes the best one" "$tmp/err"
result $? "which of its models is said"
for mode in mem su+o; do
    tuned stop-$mode $sst2 $machine --mode $mode --keep-best --eval-every 2 --epochs 2 --steps 13 --schedule-steps 26
    works "$mode: a resume goes on to a later end" finetune --resume "$tmp/stop-$mode" --epochs 2 --quiet
    same "$whole" "$(exported "$tmp/stop-$mode")" "$mode: to the same parameters"
    same "$whole_best" "$(best_hash "$tmp/stop-$mode")" "$mode: and the same best"

    "$bin" finetune --run "$tmp/kill-$mode" $best --mode $mode --commit-every 4 >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$! broken=0
    for after in 1 3 6 9 12; do
        for _ in $(seq 400); do
            [ "$(grep -c '^eval' "$tmp/out")" -ge $((after < 3 ? after : 2)) ] && break
            kill -0 $pid 2>/dev/null || break
            sleep 0.01
        done
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        [ -d "$tmp/kill-$mode/best" ] && { "$bin" export "$tmp/kill-$mode/best" "$tmp/whole-$mode-$after" >/dev/null 2>&1 || broken=1; }
        "$bin" finetune --resume "$tmp/kill-$mode" >"$tmp/out" 2>"$tmp/err" </dev/null &
        pid=$!
    done
    wait $pid
    result $? "$mode: killed and resumed again and again, it ends"
    same 0 $broken "$mode: the best was whole at every kill"
    same "$whole" "$(exported "$tmp/kill-$mode")" "$mode: killed and resumed, the same parameters"
    same "$whole_best" "$(best_hash "$tmp/kill-$mode")" "$mode: and the same best"
    nothing "$tmp/kill-$mode"/best.* "$mode: nothing of a killed export is left"
done
works "the best of a language model" pretrain --run "$tmp/lm-best" --init "$tmp/hf" --data "$tmp/text.txt" --eval-data "$tmp/text.txt" --seq 32 \
    --steps 4 --eval-every 2 --keep-best --lr 1e-3 $machine
works "is a folder to go on with" eval "$tmp/lm-best/best" --data "$tmp/text.txt" --seq 32
cp "$tmp/out" "$tmp/of-best"
run eval "$tmp/lm-best" --data "$tmp/text.txt" --seq 32
same "$(cat "$tmp/of-best")" "$(cat "$tmp/out")" "eval of the run is that of its best"
run generate "$tmp/lm-best" --prompt "the sea" --tokens 5 --temperature 0
same "1 $("$bin" generate "$tmp/lm-best/best" --prompt "the sea" --tokens 5 --temperature 0)" \
    "$(grep -c "lm-best: the best model is taken" "$tmp/err") $(cat "$tmp/out")" "its best speaks, and that is said"
works "or its last" generate "$tmp/lm-best" --prompt "the sea" --tokens 5 --temperature 0 --last
result "$([ ! -s "$tmp/err" ]; echo $?)" "of which nothing is said"
refuses 2 "--keep-best needs something to evaluate on" pretrain --run "$tmp/none" --init "$tmp/hf" --data "$tmp/text.txt" --seq 32 --keep-best
refuses 2 "--eval-every needs something to evaluate on" pretrain --run "$tmp/none" --init "$tmp/hf" --data "$tmp/text.txt" --seq 32 --eval-every 2
refuses 2 "--keep-best needs something to evaluate on" finetune --run "$tmp/none" --train-file "$tmp/train.csv" $shape --keep-best
refuses 2 "--eval-every needs something to evaluate on" finetune --run "$tmp/none" --train-file "$tmp/train.csv" $shape --eval-every 2

# bad rows: file and line are named, nothing is left
mkdir "$tmp/bad"
bad() { # NAME-OF-FILE AWK-PROGRAM TEXT
    cp "$tmp/sst2/"*.tsv "$tmp/bad"
    awk -F'\t' -v OFS='\t' "$2" "$tmp/sst2/$1" >"$tmp/bad/$1"
    refuses 2 "$3" finetune --run "$tmp/none" --task sst2 --data "$tmp/bad" $shape
    nothing "$tmp"/none* "nothing is left"
}
bad train.tsv 'NR == 5 { print $1; next } { print }' "train.tsv:5:"
bad train.tsv 'NR == 6 { $2 = "maybe" } { print }' "train.tsv:6:"
bad dev.tsv 'NR == 7 { $1 = "" } { print }' "dev.tsv:7:"
bad dev.tsv 'NR == 8 { $1 = "\377\376" } { print }' "dev.tsv:8:"
rm "$tmp/bad/dev.tsv"
refuses 2 "dev.tsv" finetune --run "$tmp/none" --task sst2 --data "$tmp/bad" $shape
refuses 2 "--data DIR is missing" finetune --run "$tmp/none" --task sst2 $shape
refuses 2 "a whole number from 1 to 1000000" finetune --run "$tmp/none" --train-file "$tmp/train.csv" $shape --epochs 0
refuses 2 "--task sst" finetune --run "$tmp/none" --task sst --data "$tmp/sst2" $shape
printf 'sentence1,sentence2,label\na,b,1.5\n' >"$tmp/pairs.csv"
refuses 2 "pairs.csv has no column 'sentence', but 'sentence1', 'sentence2', 'label'" finetune --run "$tmp/none" --train-file "$tmp/train.csv" --eval-file "$tmp/pairs.csv" $shape
refuses 2 "--test-file" finetune --run "$tmp/none" --train-file "$tmp/train.csv" $shape --predict
refuses 2 "give --predict too" finetune --run "$tmp/none" --train-file "$tmp/train.csv" --test-file "$tmp/dev.csv" $shape
refuses 2 "--max-predict-samples is for predictions: give --predict too" finetune --run "$tmp/none" --train-file "$tmp/train.csv" --max-predict-samples 3 $shape
refuses 2 "--max-predict-samples is for predictions: give --predict FILE too" eval "$tmp/values" --eval-file "$tmp/dev.csv" --max-predict-samples 3
refuses 2 "is a run: siTrain export" pretrain --run "$tmp/none" --data "$tmp/text.txt" --init "$tmp/lm"
refuses 2 "positions" finetune --run "$tmp/none" --task sst2 --data "$tmp/sst2" --init "$tmp/hf" --max-seq 65
nothing "$tmp"/none* "refused before anything is made"

done_testing
