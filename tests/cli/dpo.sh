#!/bin/sh
# A language model that learns from preferences: ids, losses, rewards, gradients and steps are those of TRL's DPOTrainer; every mode, activations and
# ranks; what the reference model says is computed once, and again after a kill; what cannot be trained on is refused. Prints TAP.
. tests/tap.sh

fixtures=tests/fixtures/dpo models=tests/fixtures/chat_steps
rows=$fixtures/rows.jsonl template="--chat-template $fixtures/template.jinja"
compare() { # NAME ARGUMENTS of chat_fixture.py
    name=$1
    shift
    python3 tests/cli/chat_fixture.py "$@" >"$tmp/out" 2>"$tmp/err"
    result $? "$name: $(tail -n 1 "$tmp/out")"
}
column() { sqlite3 "$tmp/$1/run.db" "SELECT $2 FROM steps ORDER BY step"; }
rewards() { sqlite3 "$tmp/$1/run.db" "SELECT * FROM rewards ORDER BY step"; }
finetuned() { # NAME ARGUMENTS...: a run; what it exports in $hash
    name=$1
    shift
    run finetune --task dpo --run "$tmp/$name" --durability none --quiet "$@"
    cp "$tmp/err" "$tmp/$name.err"
    hash=
    [ "$got" = 0 ] && hash=$(exported "$tmp/$name")
}

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
finetuned texts --init $models/llama --train-file $fixtures/texts.jsonl --steps 1 --mode mem
compare "texts: ids and marks" ids $fixtures "$tmp/texts/train.ex" texts
done_testing
