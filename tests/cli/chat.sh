#!/bin/sh
# A language model that learns from conversations: ids, losses, gradients and steps are those of transformers; every mode, activations, packing and
# ranks; a run goes on where it was killed; what cannot be trained on is refused. Prints TAP.
. tests/tap.sh
task=chat
. tests/finetuned.sh

fixtures=tests/fixtures/chat_steps
rows=$fixtures/rows.jsonl

# against transformers
exact="--train-file $rows --order sequential --batch 3 --grad-accum 2 --max-seq 96 --dtype fp32 --warmup 0 --schedule constant --mode mem"
for model in gpt2 llama qwen3 gemma3; do
    finetuned $model --init $fixtures/$model $exact --steps 12 --lr 2e-3 --weight-decay 0.1
    compare "$model: ids and marks" ids $fixtures "$tmp/$model/train.ex"
    compare "$model: 12 steps" steps $fixtures $model "$tmp/$model" "$tmp/exported/model.safetensors"
    finetuned $model-1 --init $fixtures/$model $exact --steps 1 --optimizer sgd --beta1 0 --weight-decay 0 --clip 0 --lr 1024
    compare "$model: gradients" gradients $fixtures $model $fixtures/$model/model.safetensors "$tmp/exported/model.safetensors" 1024
done
run finetune --task chat --run "$tmp/said" --init $fixtures/llama --train-file $rows --steps 1 --mode mem
result "$(grep -q "rows.jsonl: 22 rows of the form messages, 941 tokens, of which [0-9]* count in the loss" "$tmp/err"; echo $?)" "what the file was taken for is said"

# a step over all rows is the same whatever rows they are put into
for how in "" --packing --group-by-length; do
    finetuned all$how --init $fixtures/qwen3 --train-file $rows --max-seq 96 --batch 22 --steps 1 --dtype fp32 --mode mem --clip 0 --lr 0 $how
done
same "$(column all "printf('%.5f %.5f', loss, grad_norm), tokens")" "$(column all--packing "printf('%.5f %.5f', loss, grad_norm), tokens")" \
    "packed rows have the loss, the gradient and the tokens of rows of their own"
same "$(column all "printf('%.5f %.5f', loss, grad_norm), tokens")" "$(column all--group-by-length "printf('%.5f %.5f', loss, grad_norm), tokens")" \
    "and so have rows by length"
for how in "" --packing --group-by-length "--order sequential"; do
    rm -rf "$tmp/epochs"
    finetuned epochs --init $fixtures/qwen3 --train-file $rows --max-seq 96 --batch 2 --grad-accum 3 --epochs 3 --mode mem --lr 0 $how
    same 2823 "$(sqlite3 "$tmp/epochs/run.db" "SELECT sum(tokens) FROM steps")" \
        "three epochs have every row three times: ${how:-padded}"
done
same "941" "$(column all tokens)" "padding does not count among the tokens"

# every mode, and what activations do, gives the same bits
shape="--init $fixtures/llama --train-file $rows --eval-file $rows --max-seq 64 --batch 2 --grad-accum 2 --epochs 2 --lr 1e-3 --csd-mem 192K --seed 5"
for how in "" --packing --group-by-length; do
    first=
    for mode in mem base su su+o "su+o --activations offload" "base --activations recompute" "mem --threads 1"; do
        rm -rf "$tmp/mode"
        finetuned mode $shape $how --mode $mode
        first=${first:-$hash}
        same "$first" "$hash" "rows ${how:-padded}: --mode $mode gives the same bits"
    done
done
result "$(grep -q "rows have more than --max-seq 64 tokens and are cut off there" "$tmp/mode.err"; echo $?)" "how many rows are cut off is said"
finetuned compressed $shape --mode su+o+c
same "$(column compressed "count(*)" | head -n 1)" "$(column mode "count(*)" | head -n 1)" "compressed gradients, too"

# killed while it makes the rows, and while it trains
finetuned whole $shape --packing --mode su+o
whole=$hash
"$bin" finetune --task chat --run "$tmp/stopped" $shape --packing --mode su+o --steps 7 --schedule-steps "$(column whole 'count(*)')" --quiet >/dev/null 2>&1
run finetune --resume "$tmp/stopped" --steps "$(column whole 'count(*)')" --quiet
same "$whole" "$(exported "$tmp/stopped")" "a run that stopped in the middle of an epoch goes on to the same bits"
find_shim
for at in train.ex dev.ex; do
    if [ -z "$shim" ]; then
        skip "killed while it makes $at" "no library that kills a process at a call"
        continue
    fi
    rm -rf "$tmp/killed"
    LD_PRELOAD="$shim" SHIM_AT="name:$at:1:kill" "$bin" finetune --task chat --run "$tmp/killed" $shape --packing --mode su+o --quiet >/dev/null 2>&1
    result "$([ -e "$tmp/killed" ] && [ ! -e "$tmp/killed/run.db" ]; echo $?)" "killed while it makes $at, it is no run yet"
    run finetune --task chat --run "$tmp/killed" $shape --packing --mode su+o --quiet
    same "$whole" "$(exported "$tmp/killed")" "  and the next one of that name has the same bits"
done
for after in 0.2 0.4 0.7; do
    rm -rf "$tmp/killed"
    "$bin" finetune --task chat --run "$tmp/killed" $shape --packing --mode su+o --quiet >/dev/null 2>&1 &
    pid=$!
    sleep $after
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    if [ -f "$tmp/killed/run.db" ]; then
        run finetune --resume "$tmp/killed" --quiet
    else
        run finetune --task chat --run "$tmp/killed" $shape --packing --mode su+o --quiet
        # it was killed when its parts moved into the folder, and the next maker has moved the rest
        grep -q "is a run already: go on with --resume" "$tmp/err" && run finetune --resume "$tmp/killed" --quiet
    fi
    same "$whole" "$(exported "$tmp/killed")" "killed after $after s, it ends with the same bits"
done

# the run says what it was made from, and can be made again; its exports carry the template
run report "$tmp/whole" --config
cp "$tmp/out" "$tmp/options"
result "$(grep -q '^task = chat$' "$tmp/out" && grep -q '^packing$' "$tmp/out" && grep -q '^loss-on = answers$' "$tmp/out" && grep -q '^date = ' "$tmp/out"; echo $?)" \
    "report --config has the choices"
run finetune --config "$tmp/options" --run "$tmp/again" --quiet
same "$whole" "$(exported "$tmp/again")" "the run is made again from its options"
cmp -s "$tmp/exported/chat_template.jinja" $fixtures/llama/chat_template.jinja
result $? "an export carries the template"
run finetune --task chat --run "$tmp/next" --init "$tmp/whole" --train-file $rows --max-seq 64 --steps 1 --mode mem --quiet
result "$got" "a run goes on from another one, with its template"
python3 -c 'import json, math, sys
e = json.load(open(sys.argv[1] + "/eval_results.json"))
s = json.load(open(sys.argv[1] + "/trainer_state.json"))
assert abs(math.log(e["perplexity"]) - e["eval_loss"]) < 1e-9 and e["eval_samples"] == 22
assert [h["eval_loss"] for h in s["log_history"] if "eval_loss" in h][-1] == e["eval_loss"]' "$tmp/whole"
result $? "results have the loss and the perplexity"
finetuned best $shape --mode base --keep-best
result "$([ -f "$tmp/best/best/chat_template.jinja" ]; echo $?)" "and so has the best model"
works "check of such a run" check "$tmp/best"
same 5 "$(sqlite3 "$tmp/best/run.db" "PRAGMA user_version")" "an older siTrain refuses the run by its format"

# rows of other forms, several files, another template
printf '%s\n' '{"prompt":"a ship ","completion":"sees the sea"}' '{"prompt":"the captain ","completion":"fears"}' >"$tmp/pairs.jsonl"
printf '%s\n' '{"text":"a whale follows"}' >"$tmp/text.jsonl"
printf '{%% for m in messages %%}{{ m.role + ": " + m.content + eos_token }}{%% endfor %%}\n' >"$tmp/plain.jinja"
finetuned forms --init $fixtures/gpt2 --train-file "$tmp/pairs.jsonl" --train-file "$tmp/text.jsonl" --train-file $rows --chat-template "$tmp/plain.jinja" --steps 2 --mode mem
(cd "$tmp" && "$bin" finetune --task chat --init "$OLDPWD/$fixtures/gpt2" --train-file pairs.jsonl --chat-template plain.jinja --steps 1 --mode mem --run placed --quiet) >"$tmp/null" 2>"$tmp/err"
run report "$tmp/placed" --config
result "$(grep -qx "chat-template = $tmp/plain.jinja" "$tmp/out"; echo $?)" "the options have the template's file by its whole path"
run report "$tmp/forms" --config
cp "$tmp/out" "$tmp/options"
works "such a run, without rows to evaluate on, is made again from its options" finetune --config "$tmp/options" --run "$tmp/forms-again"
cmp -s "$tmp/forms/train.ex" "$tmp/forms-again/train.ex"
result $? "with the same rows"
same "25" "$(sqlite3 "$tmp/forms/run.db" "SELECT value FROM runs WHERE key = 'train.rows'")" "several files, each of its form"
cmp -s "$tmp/plain.jinja" "$tmp/exported/chat_template.jinja"
result $? "the template that was given is the run's"
cp -r $fixtures/llama "$tmp/templates"
mkdir "$tmp/templates/additional_chat_templates"
printf '{%% for m in messages %%}{{ m.role ~ " with tools: " ~ m.content ~ eos_token }}{%% endfor %%}\n' >"$tmp/templates/additional_chat_templates/tool_use.jinja"
printf '%s\n' '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"tools":[{"type":"function","function":{"name":"f"}}]}' >"$tmp/tools.jsonl"
finetuned several --init "$tmp/templates" --train-file "$tmp/tools.jsonl" --train-file $rows --steps 1 --mode mem
run prepare "$tmp/tools.jsonl" --render --init "$tmp/exported"
same '"user with tools: a<|im_end|>assistant with tools: b<|im_end|>"' "$(cat "$tmp/out")" "several templates of a folder are the run's, and its export's"
gzip -c $rows >"$tmp/rows.jsonl.gz"
finetuned packed --init $fixtures/gpt2 --train-file "$tmp/rows.jsonl.gz" --steps 1 --mode mem
finetuned plain --init $fixtures/gpt2 --train-file $rows --steps 1 --mode mem
cmp -s "$tmp/packed/train.ex" "$tmp/plain/train.ex"
result $? "a packed file has the rows of the plain one"
finetuned threads --init $fixtures/gpt2 --train-file $rows --steps 1 --mode mem --threads 7
cmp -s "$tmp/threads/train.ex" "$tmp/plain/train.ex"
result $? "whatever the number of threads that encode them"

# refused, and nothing is left
no() { # TEXT ARGUMENTS...
    text=$1
    shift
    refuses 2 "$text" finetune --task chat --run "$tmp/no" "$@"
    [ ! -e "$tmp/no" ] || { rm -rf "$tmp/no"; result 1 "  and nothing is left"; }
}
gpt2="--init $fixtures/gpt2"
no "--train-file FILE is missing" $gpt2
no "--init is missing" --train-file $rows
no "--data is the folder of a GLUE task" $gpt2 --data x
no "--label-column is for rows with labels" $gpt2 --train-file $rows --label-column x
no "--predict is for classifiers" $gpt2 --train-file $rows --predict --test-file $rows
no "--eval-every needs something to evaluate on" $gpt2 --train-file $rows --eval-every 2
no "--keep-best needs something to evaluate on: give --eval-file FILE" $gpt2 --train-file $rows --keep-best
no "--group-by-length saves padding, and rows that --packing fills" $gpt2 --train-file $rows --packing --group-by-length
no "give one of them" $gpt2 --train-file $rows --order sequential --group-by-length
no "--date yesterday: a day is expected, such as 2026-01-31" $gpt2 --train-file $rows --date yesterday
no "--max-seq 200: the model has 128 positions" $gpt2 --train-file $rows --max-seq 200
no "a row needs at least 2 tokens" $gpt2 --train-file $rows --max-seq 1
no "more than --max-seq 20: give a larger --max-seq, or --long-rows cut or drop" $gpt2 --train-file $rows --max-seq 20 --long-rows refuse
no "--long-rows drop leaves them out" $gpt2 --train-file $rows --max-seq 8 --long-rows drop
no "no token that counts in the loss lies within --max-seq 8: they stand behind it in 22 of its 22 rows; give a larger --max-seq" \
    $gpt2 --train-file $rows --max-seq 8
echo '{"messages":[{"role":"user","content":"a"}]}' >"$tmp/asks.jsonl"
no "no token of its 1 row counts in the loss: see --loss-on; the first row is \"<|im_start|>user" $gpt2 --train-file "$tmp/asks.jsonl"
printf '%s\n' '{"messages":[{"role":"user","content":"a"}],"x":1}' '{"prompt":"a","completion":"b"}' >"$tmp/mixed.jsonl"
no "mixed.jsonl:2:" $gpt2 --train-file "$tmp/mixed.jsonl"
printf '%s\n' '{"prompt":"a","chosen":"b","rejected":"c"}' >"$tmp/prefers.jsonl"
no "prefers.jsonl:1: a row with chosen and rejected is a preference" $gpt2 --train-file "$tmp/prefers.jsonl"
cp -r $fixtures/gpt2 "$tmp/bare"
rm "$tmp/bare/chat_template.jinja"
python3 tests/cli/tiny_folder.py bert "$tmp/bert" ForMaskedLM
no "a BERT predicts masked tokens, and --task chat and dpo train models that continue a text" --init "$tmp/bert" --train-file $rows
refuses 2 "a BERT predicts masked tokens, and --task chat and dpo train models that continue a text" plan --task chat --init "$tmp/bert" --train-file $rows
no "the model's folder has no chat template for it: give --chat-template FILE" --init "$tmp/bare" --train-file $rows
refuses 2 "--packing is for conversations: give --task chat" finetune --run "$tmp/no" --init $fixtures/gpt2 --train-file "$tmp/x.csv" --packing
refuses 2 "--resume keeps the run's rows as they were encoded: leave --packing out" finetune --resume "$tmp/whole" --packing
refuses 2 "is a fine-tuning: siTrain finetune --resume" pretrain --resume "$tmp/whole"

# eval of other rows, as the run evaluates its own
finetuned judged --init $fixtures/llama --train-file $rows --eval-file $rows --loss-on last --max-seq 64 --packing --steps 2 --lr 1e-3 --mode mem
last=$(sqlite3 "$tmp/judged/run.db" "SELECT printf('%s %.3f', name, value) FROM evals ORDER BY name")
run eval "$tmp/judged" --eval-file $rows --threads 1
same "$last" "$(awk '{ printf "%s %.3f\n", $1, $2 }' "$tmp/out")" "eval of a run gives what its training gives, with its choices"
run eval "$tmp/exported" --eval-file $rows --loss-on last --max-seq 64 --batch 3 --dtype bf16
same "$last" "$(awk '{ printf "%s %.3f\n", $1, $2 }' "$tmp/out")" "so does eval of its export, if they are given"
works "several files, and plain ones" eval $fixtures/gpt2 --eval-file "$tmp/pairs.jsonl" --eval-file $rows --max-eval-samples 30
refuses 2 "prefers.jsonl:1: a row with chosen and rejected is a preference" eval "$tmp/judged" --eval-file "$tmp/prefers.jsonl"
refuses 2 "--packing is for training" eval "$tmp/judged" --eval-file $rows --packing
refuses 2 "--data is a text or tokens, and --eval-file has rows" eval "$tmp/judged" --eval-file $rows --data $rows
refuses 2 "--reference is for preferences: give --task dpo" eval "$tmp/judged" --eval-file $rows --reference "$tmp/whole"
refuses 2 "--predict is for classifiers" eval "$tmp/judged" --eval-file $rows --test-file $rows --predict "$tmp/predicted"

# the template of a run is a part of it
works "check of a run with its template" check "$tmp/whole"
cp "$tmp/whole/tokenizer/chat_template.jinja" "$tmp/template"
for other in "{# mine #}$(cat "$tmp/template")" "{% if" ""; do
    rm "$tmp/whole/tokenizer/chat_template.jinja"
    [ -z "$other" ] || printf '%s' "$other" >"$tmp/whole/tokenizer/chat_template.jinja"
    run check "$tmp/whole"
    result "$([ "$got" = 1 ] && grep -q "whole/tokenizer does not have the chat template that this run was made with: put that one back" "$tmp/err"; echo $?)" \
        "another template is damage: $other"
done
cp "$tmp/template" "$tmp/whole/tokenizer/chat_template.jinja"
works "and of the same template put back" check "$tmp/whole"

# a huge row, and rows that begin otherwise
python3 -c 'import json, sys
for n in 1, 2 << 20:
    print(json.dumps({"prompt": "the sea ", "completion": "ship " * n}))' >"$tmp/huge.jsonl"
refuses 2 "bytes, which take more memory than --host-mem leaves: give more, or leave the row out" \
    plan --probe off --mode mem --task chat --init $fixtures/gpt2 --train-file "$tmp/huge.jsonl" --host-mem 100M
printf '# my rows\n{"prompt":"a","completion":"b"}\n' >"$tmp/remark.jsonl"
no "remark.jsonl: its name says JSON, but it does not begin with an object or a list: remove what stands before its first row" --init $fixtures/gpt2 --train-file "$tmp/remark.jsonl"

# the plan
echo 'flops = 1e9' >"$tmp/machine"
works "plan knows the task" plan --task chat --init $fixtures/llama --train-file $rows --packing --probe off
result "$(grep -q "^Step: 1 x 8 x 128 tokens at most" "$tmp/out" && grep -q "order of rows" "$tmp/out"; echo $?)" "with rows of --max-seq tokens at most, and their order in memory"

mode=$(sqlite3 "$tmp/whole/run.db" "SELECT value FROM runs WHERE key = 'train.packed'")
run plan --task chat --init $fixtures/llama --train-file $rows --max-seq 64 --batch 2 --grad-accum 2 --epochs 2 --packing --mode mem --machine "$tmp/machine" --host-mem 96M
result "$(grep -q "tokens/s without padding, $((2 * ((mode + 3) / 4))) steps" "$tmp/out"; echo $?)" "and the steps of its epochs, and tokens/s without padding"

# a run to begin with, as finetune takes it
exported "$tmp/whole" >"$tmp/hash"
for init in "$tmp/whole" "$tmp/exported"; do
    run plan --task chat --init "$init" --train-file $rows --max-seq 64 --batch 2 --packing --probe off --mode mem
    same "$(sed -n '/^Model\|^Step\|^Disk/p' "$tmp/out")" "${planned:=$(sed -n '/^Model\|^Step\|^Disk/p' "$tmp/out")}" "the plan of going on from $(basename "$init")"
done
result "$(echo "$planned" | grep -q '^Step: 1 x 2 x 64 tokens at most'; echo $?)" "is that of its model and tokenizer"
refuses 2 "is a run: siTrain export" plan --init "$tmp/whole" --probe off

python3 -c 'import json, sys
for name, words in ("short", 3), ("long", 50):
    with open(sys.argv[1] + "/" + name + ".jsonl", "w") as f:
        for i in range(1800):
            f.write(json.dumps({"prompt": "the sea ", "completion": " ".join(["ship"] * (1 + i % words))}) + "\n")' "$tmp"
unlike="--init $fixtures/gpt2 --max-seq 64 --batch 2 --packing --mode mem"
for files in "short long" "long short"; do
    set -- $files
    rm -rf "$tmp/unlike"
    finetuned unlike $unlike --train-file "$tmp/$1.jsonl" --train-file "$tmp/$2.jsonl" --steps 1
    rows=$(sqlite3 "$tmp/unlike/run.db" "SELECT value FROM runs WHERE key = 'train.packed'")
    run plan --task chat $unlike --train-file "$tmp/$1.jsonl" --train-file "$tmp/$2.jsonl" --epochs 2 --machine "$tmp/machine" --host-mem 96M
    steps=$(sed -n 's/^Time:.* \([0-9]*\) steps.*/\1/p' "$tmp/out")
    result "$([ $((steps * 100)) -gt $((rows * 95)) ] && [ $((steps * 100)) -lt $((rows * 105)) ]; echo $?)" \
        "files of unlike rows ($files): about $rows steps are planned ($steps)"
done
rows=$fixtures/rows.jsonl

# ranks
by_ranks
job() { # N ARGUMENTS of finetune
    n=$1
    shift
    mpirun $more -n "$n" "$bin" finetune "$@" </dev/null >"$tmp/out" 2>"$tmp/err"
    got=$?
}
language_model 400 300 --n-layer 2 --n-head 2 --n-embd 64 --seq 64 --batch 4 --steps 3
shape=$(echo "$shape" | sed "s|$fixtures/llama|$tmp/hf|") plain="--chat-template $tmp/plain.jinja"
for how in "" --packing; do
    finetuned one $shape $plain $how --mode su+o --groups 2
    rm -rf "$tmp"/two*
    job 2 --task chat --run "$tmp/two" $shape $plain $how --mode su+o --durability none --quiet
    same "$hash" "$(exported "$tmp/two")" "two ranks, rows ${how:-padded}: the bits of one process with two groups"
    rm -rf "$tmp"/one*
done
# it is never the same day in these two places
if [ -n "$more" ]; then
    rm -rf "$tmp"/two*
    set -- "$bin" finetune --task chat --run "$tmp/two" $shape $plain --steps 1 --quiet
    mpirun $more -n 1 env TZ=XXX+12 "$@" : -n 1 env TZ=XXX-14 "$@" </dev/null >"$tmp/out" 2>"$tmp/err"
    day() { sqlite3 "$1/run.db" "SELECT value FROM runs WHERE key = 'given.date'"; }
    same "$(TZ=XXX+12 date +%F)" "$(day "$tmp/two")" "the day of rank 0"
    same "$(day "$tmp/two")" "$(day "$tmp/two.rank1")" "is that of all ranks"
fi
done_testing
