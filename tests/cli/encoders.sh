#!/bin/sh
# BERT and RoBERTa through the program: a pair task with types of tokens and padding, and masked tokens to be found; every mode to the same
# parameters, whatever becomes of activations; a run goes on; its export is evaluated as the run is. Prints TAP.
. tests/tap.sh

# folder FAMILY NAME CLASS: a tiny encoder of random numbers and a WordPiece tokenizer.
folder() {
    python3 tests/cli/tiny_folder.py "$1" "$tmp/$2" "$3"
}

# A task that types of tokens decide: is a letter of the second text in the first one?
python3 - "$tmp" <<'PYTHON'
import random, sys
rng = random.Random(1)
for name, rows in (("train", 96), ("dev", 40)):
    with open(f"{sys.argv[1]}/{name}.tsv", "w") as f:
        f.write("one\ttwo\tlabel\n")
        for _ in range(rows):
            one = " ".join(rng.choices("abcdefgh", k=rng.randint(1, 7)))
            two = " ".join(rng.choices("abcdefgh", k=rng.randint(1, 5)))
            f.write(f"{one}\t{two}\t{'yes' if set(one) & set(two) - {' '} else 'no'}\n")
PYTHON

columns="--text-column one --pair-column two --label-column label"
set -- --train-file "$tmp/train.tsv" --eval-file "$tmp/dev.tsv" $columns
how="--batch 8 --max-seq 24 --lr 1e-3 --csd-mem 192K --durability none --quiet"
works "a tokenizer is trained" prepare "$tmp/train.tsv" --train-tokenizer --vocab 270 --out "$tmp/tok"
folder bert bert ForMaskedLM
folder roberta roberta ForMaskedLM
folder bert headless Model
cp -r "$tmp/tok" "$tmp/bare"
python3 - "$tmp/roberta" "$tmp/tok" <<'PYTHON'
import json, os, sys
for name in "vocab.txt", "tokenizer_config.json":
    os.remove(f"{sys.argv[1]}/{name}")
with open(sys.argv[2] + "/tokenizer.json") as f:
    tokenizer = json.load(f)
end = {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}
a, b = ({"Sequence": {"id": text, "type_id": 0}} for text in "AB")
ids = [t["id"] for t in tokenizer["added_tokens"] if t["content"] == "<|endoftext|>"]
tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": [end, a, end], "pair": [end, a, end, end, b, end],
                               "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": ids, "tokens": ["<|endoftext|>"]}}}
with open(sys.argv[1] + "/tokenizer.json", "w") as f:
    json.dump(tokenizer, f)
PYTHON

for family in bert roberta; do
    begin="--init $tmp/$family"
    works "$family: mem trains" finetune --run "$tmp/mem" $begin "$@" $how --mode mem --steps 12
    hash=$(exported "$tmp/mem")
    for mode in "base --activations recompute" "su" "su+o --activations offload" "su+o --speculate --devices 3"; do
        run finetune --run "$tmp/other" $begin "$@" $how --mode $mode --steps 12
        same "$hash" "$(exported "$tmp/other")" "$family: $mode gives its parameters"
        rm -rf "$tmp/other"
    done
    run finetune --run "$tmp/other" $begin "$@" $how --mode su+o --steps 5 --schedule-steps 12
    run finetune --resume "$tmp/other" --steps 12 --quiet
    same "$hash" "$(exported "$tmp/other")" "$family: a run goes on"
    rm -rf "$tmp/other"
    works "$family: bf16 trains, compressed" finetune --run "$tmp/other" $begin "$@" $how --mode su+o+c --steps 4 --dtype bf16
    works "$family: check" check "$tmp/other"
    rm -rf "$tmp/other" "$tmp/hf" "$tmp/again"

    works "$family: export" export "$tmp/mem" "$tmp/hf"
    for from in mem hf; do
        run eval "$tmp/$from" --eval-file "$tmp/dev.tsv" $columns --max-seq 24 --dtype fp32
        cp "$tmp/out" "$tmp/eval.$from"
    done
    grep -q accuracy "$tmp/eval.mem"
    result $? "$family: eval tells the accuracy"
    same "$(cat "$tmp/eval.mem")" "$(cat "$tmp/eval.hf")" "$family: the export has the run's loss and accuracy"
    works "$family: the export is imported" import "$tmp/hf" "$tmp/again"
    same "$hash" "$(exported "$tmp/again")" "$family: to the same parameters"
    rm -rf "$tmp/mem" "$tmp/again"
    mv "$tmp/hf" "$tmp/$family.hf"
done

# Masked tokens are found: the same bits in all modes, on any number of devices, and where a run goes on.
make_text 80 >"$tmp/text"
for family in bert roberta; do
    mask=
    [ $family = bert ] || mask="--mask-id 7"
    text="--data $tmp/text --seq 24 $mask"
    masked="--init $tmp/$family $text --eval-data $tmp/text --batch 3 --grad-accum 2 --dropout 10% --lr 2e-3 --csd-mem 192K --durability none --quiet"
    works "$family: masked, mem trains" pretrain --run "$tmp/mem" $masked --mode mem --steps 8
    hash=$(exported "$tmp/mem")
    for mode in "base --activations recompute" "su" "su+o --activations offload" "su+o --speculate --devices 3 --host-mem 64M"; do
        run pretrain --run "$tmp/other" $masked --mode $mode --steps 8
        same "$hash" "$(exported "$tmp/other")" "$family: masked, $mode gives its parameters"
        rm -rf "$tmp/other"
    done
    run pretrain --run "$tmp/other" $masked --mode su+o --steps 3 --schedule-steps 8
    run pretrain --resume "$tmp/other" --steps 8 --quiet
    same "$hash" "$(exported "$tmp/other")" "$family: masked, a run goes on"
    rm -rf "$tmp/other"
    run pretrain --run "$tmp/other" $masked --mode mem --steps 8 --mask-prob 30%
    [ "$got" = 0 ] && [ "$hash" != "$(exported "$tmp/other")" ]
    result $? "$family: --mask-prob masks others"
    hash_30=$(exported "$tmp/other")
    run report "$tmp/other" --config
    cp "$tmp/out" "$tmp/again.conf"
    rm -rf "$tmp/other"
    run pretrain --config "$tmp/again.conf" --run "$tmp/other"
    same "$hash_30" "$(exported "$tmp/other")" "$family: and so does a run that is made again from its options"
    rm -rf "$tmp/other"
    works "$family: masked, bf16 trains, compressed" pretrain --run "$tmp/other" $masked --mode su+o+c --steps 4 --dtype bf16
    works "$family: masked, check" check "$tmp/other"
    rm -rf "$tmp/other"

    in_shards "$tmp/mem" "$hash" "$family, masked"
    works "$family: masked, export" export "$tmp/mem" "$tmp/hf"
    works "$family: masked, the export is imported" import "$tmp/hf" "$tmp/again"
    same "$hash" "$(exported "$tmp/again")" "$family: masked, to the same parameters"
    for from in mem hf again; do
        run eval "$tmp/$from" $text --dtype fp32
        cp "$tmp/out" "$tmp/eval.$from"
    done
    grep -q perplexity "$tmp/eval.mem"
    result $? "$family: masked, eval tells the perplexity"
    same "$(cat "$tmp/eval.mem")" "$(cat "$tmp/eval.hf")" "$family: masked, the export has the run's loss"
    same "$(cat "$tmp/eval.mem")" "$(cat "$tmp/eval.again")" "$family: masked, and so has what was imported"
    works "$family: what was trained so becomes a classifier" finetune --run "$tmp/other" --init "$tmp/hf" "$@" $how --mode mem --steps 3
    works "$family: and a classifier a masked language model" pretrain --run "$tmp/third" --init "$tmp/$family.hf" $text --batch 2 --mode mem --steps 2
    rm -rf "$tmp/mem" "$tmp/again" "$tmp/hf" "$tmp/other" "$tmp/third"
    for split in "6 --grad-accum 1" "2 --grad-accum 3"; do
        run pretrain --run "$tmp/other" --init "$tmp/$family" $text --batch $split --mode mem --steps 1
        losses "$tmp/other" | awk '{ printf "%.4f\n", $2 }' >"$tmp/losses.${split%% *}"
        rm -rf "$tmp/other"
    done
    same "$(cat "$tmp/losses.6")" "$(cat "$tmp/losses.2")" "$family: the same tokens are masked however a step is split"
done
works "an encoder without a head gets one" pretrain --run "$tmp/other" --init "$tmp/headless" --data "$tmp/text" --seq 24 --mode mem --steps 1
works "and a classifier's" finetune --run "$tmp/third" --init "$tmp/headless" "$@" $how --mode mem --steps 1
rm -rf "$tmp/other" "$tmp/third"
works "a BERT of one's own" pretrain --run "$tmp/other" --model bert-base --n-layer 2 --n-head 2 --n-embd 16 --n-inner 32 --tokenizer "$tmp/bert" --data "$tmp/text" --seq 16 --steps 2 --mode mem
rm -rf "$tmp/other"

# BERT's oldest files have other names for the norms.
cp -r "$tmp/bert" "$tmp/old"
python3 - "$tmp/old/model.safetensors" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    n, = struct.unpack("<Q", f.read(8))
    head, data = json.loads(f.read(n)), f.read()
text = json.dumps({k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in head.items()}).encode()
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
PYTHON
run import "$tmp/bert" "$tmp/other"
run import "$tmp/old" "$tmp/third"
same "$(exported "$tmp/other")" "$(exported "$tmp/third")" "gamma and beta are a norm's weight and bias"
rm -rf "$tmp/other" "$tmp/third"

# The classes by other numbers: the rows of the head and its bias go with their names.
cp -r "$tmp/bert.hf" "$tmp/turned"
python3 - "$tmp/turned" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1] + "/config.json") as f:
    config = json.load(f)
config["id2label"] = {"0": config["id2label"]["1"], "1": config["id2label"]["0"]}
config["label2id"] = {name: int(i) for i, name in config["id2label"].items()}
with open(sys.argv[1] + "/config.json", "w") as f:
    json.dump(config, f)
with open(sys.argv[1] + "/model.safetensors", "rb") as f:
    n, = struct.unpack("<Q", f.read(8))
    head, data = json.loads(f.read(n)), bytearray(f.read())
head.pop("__metadata__", None)
for name in "classifier.weight", "classifier.bias":
    first, end = head[name]["data_offsets"]
    half = (first + end) // 2
    data[first:end] = data[half:end] + data[first:half]
text = json.dumps(head).encode()
with open(sys.argv[1] + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
PYTHON
for from in bert.hf turned; do
    run finetune --run "$tmp/other" --init "$tmp/$from" "$@" $how --mode mem --steps 3
    exported "$tmp/other" >"$tmp/hash.$from"
    rm -rf "$tmp/other"
done
same "$(cat "$tmp/hash.bert.hf")" "$(cat "$tmp/hash.turned")" "classes by other numbers are the same classes"

# What is not known is refused by its name.
refuses 2 "template" finetune --run "$tmp/no" --init "$tmp/roberta" --tokenizer "$tmp/bare" "$@" $how --steps 2
refuses 2 "does not continue texts" generate "$tmp/bert.hf" --prompt a
refuses 2 "does not continue one" generate "$tmp/bert" --prompt a
refuses 2 "has no head" import "$tmp/headless" "$tmp/no"
refuses 2 "has no head" export "$tmp/headless" "$tmp/no"
refuses 2 "has no head" eval "$tmp/headless" --data "$tmp/text" --seq 16
# again FAMILY weight|bias same|other: the folder, with the head's tensor once more, as transformers 4 ties it and 5 does not.
again() {
    cp -r "$tmp/$1" "$tmp/mixed"
    python3 - "$tmp/mixed/model.safetensors" "$@" <<'PYTHON'
import json, struct, sys
path, family, what, how = sys.argv[1:]
with open(path, "rb") as f:
    n, = struct.unpack("<Q", f.read(8))
    head, data = json.loads(f.read(n)), f.read()
stem = "cls.predictions." if family == "bert" else "lm_head."
once = head[family + ".embeddings.word_embeddings.weight" if what == "weight" else stem + "bias"]
begin, end = once["data_offsets"]
head[stem + "decoder." + what] = {**once, "data_offsets": [len(data), len(data) + end - begin]}
text = json.dumps(head).encode()
with open(path, "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data + (data[begin:end] if how == "same" else b"\0\0\x80\x3f" * ((end - begin) // 4)))
PYTHON
}
for family in bert roberta; do
    for what in weight bias; do
        again $family $what other
        refuses 2 "decoder.$what, which is not" eval "$tmp/mixed" --data "$tmp/text" --seq 16 --mask-id 4
        rm -rf "$tmp/mixed"
        again $family $what same
        works "a $family with decoder.$what once more" eval "$tmp/mixed" --data "$tmp/text" --seq 16 --mask-id 4
        rm -rf "$tmp/mixed"
    done
done
refuses 2 "which id masks a token" pretrain --run "$tmp/no" --init "$tmp/roberta" --data "$tmp/text" --seq 16
refuses 2 "leaves no room in it" pretrain --run "$tmp/no" --init "$tmp/bert" --data "$tmp/text" --seq 2
for mask in "--mask-prob 20%" "--mask-id 5"; do
    # shellcheck disable=SC2086
    refuses 2 "which this GPT-2 is not" plan --n-layer 1 --n-head 2 --n-embd 16 --seq 16 --vocab 96 --probe off $mask
    # shellcheck disable=SC2086
    refuses 2 "which this BERT classifier is not" finetune --run "$tmp/no" --init "$tmp/bert" "$@" $how --steps 2 $mask
done
refuses 2 "--mask-id 0" eval "$tmp/roberta" --data "$tmp/text" --seq 16 --mask-id 0
refuses 2 "--mask-id 0" pretrain --run "$tmp/no" --init "$tmp/roberta" --data "$tmp/text" --seq 16 --mask-id 0
printf '[PAD]%.0s' $(seq 20) >"$tmp/own"
refuses 2 "no token of the evaluation data can be masked" eval "$tmp/bert" --data "$tmp/own" --seq 16
refuses 2 "which this GPT-2 is not" pretrain --run "$tmp/no" --n-layer 1 --n-head 2 --n-embd 16 --seq 16 --data "$tmp/text" --tokenizer "$tmp/tok" --mask-id 5
refuses 2 "which id masks a token" eval "$tmp/roberta" --data "$tmp/text" --seq 16
refuses 2 "not below the model's vocabulary" pretrain --run "$tmp/no" --init "$tmp/roberta" --data "$tmp/text" --seq 16 --mask-id 270
refuses 2 "the tokenizer's mask has the id 4" pretrain --run "$tmp/no" --init "$tmp/bert" --data "$tmp/text" --seq 16 --mask-id 5
refuses 2 "--mask-prob" pretrain --run "$tmp/no" --init "$tmp/bert" --data "$tmp/text" --seq 16 --mask-prob 100%
{ echo 'no!'; cat "$tmp/text"; } >"$tmp/pad"
refuses 2 "is the padding" eval "$tmp/roberta" --data "$tmp/pad" --seq 16 --mask-id 7
works "plan of a fine-tuning" plan --init "$tmp/bert" --task mrpc --batch 4 --steps 10 --host-mem 96M --run "$tmp/no"
grep -q "^Time: [0-9.e-]* s a step" "$tmp/out"
result $? "with its time, from layers like its own"
works "plan of a masked language model" plan --model bert-base --steps 10 --probe off
refuses_config() { # SED TEXT
    cp -r "$tmp/bert.hf" "$tmp/bad"
    sed -i "$1" "$tmp/bad/config.json"
    refuses 2 "$2" import "$tmp/bad" "$tmp/new"
    rm -rf "$tmp/bad"
}
refuses_config 's/"gelu"/"relu"/' hidden_act
refuses_config 's/"absolute"/"relative_key"/' position_embedding_type
refuses_config 's/"is_decoder": false/"is_decoder": true/' is_decoder
refuses_config 's/"classifier_dropout": null/"classifier_dropout": 0.3/' classifier_dropout
refuses_config 's/"pad_token_id": 0/"pad_token_id": -1/' pad_token_id

done_testing
