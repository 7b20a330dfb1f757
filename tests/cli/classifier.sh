#!/bin/sh
# A Hugging Face classifier through a run and out again: the same parameters and config.json, labels by name. Prints TAP.
. tests/tap.sh

language_model 300 280 --n-layer 2 --n-head 3 --n-embd 15 --seq 16 --batch 2 --steps 1

# A head beside it, and what config.json says of one.
python3 - "$tmp/hf" "$tmp/classifier" <<'EOF'
import json, os, shutil, struct, sys
source, to = sys.argv[1:]
shutil.copytree(source, to)
with open(os.path.join(source, "model.safetensors"), "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
del header["__metadata__"]
header["score.weight"] = {"dtype": "F32", "shape": [3, 15], "data_offsets": [len(data), len(data) + 180]}
head = json.dumps(header).encode()
with open(os.path.join(to, "model.safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head + data + struct.pack("<45f", *(i / 7 for i in range(45))))
with open(os.path.join(to, "config.json"), encoding="utf-8") as f:
    config = json.load(f)
names = ["entailment", "not \"it\"", "σ"]
config |= {"architectures": ["GPT2ForSequenceClassification"], "id2label": dict(enumerate(names)), "pad_token_id": 7, "attn_pdrop": 0.125,
           "label2id": {n: i for i, n in enumerate(names)}}
with open(os.path.join(to, "config.json"), "w", encoding="utf-8") as f:
    json.dump(config, f)
EOF
result $? "a classifier's folder"

for mode in mem su+o; do
    works "imported in $mode" import "$tmp/classifier" "$tmp/run-$mode" --mode $mode --durability none
    grep -qF 'entailment, not "it", σ' "$tmp/out"
    result $? "which names its labels"
    works "and exported" export "$tmp/run-$mode" "$tmp/out-$mode"
done
run export "$tmp/classifier" "$tmp/direct"
for f in model.safetensors config.json tokenizer.json; do
    for mode in mem su+o; do
        cmp "$tmp/direct/$f" "$tmp/out-$mode/$f" >"$tmp/out" 2>"$tmp/err"
        result $? "$f is the one that $mode gives, and without a run between"
    done
done
python3 - "$tmp/classifier/config.json" "$tmp/direct/config.json" >"$tmp/out" 2>"$tmp/err" <<'EOF'
import json, sys
a, b = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
assert b.pop("problem_type") == "single_label_classification"
assert a == b, f"{a}\n{b}"
EOF
result $? "config.json says what it said"

# what transformers pads a batch with, and what a classifier takes for padding, are the same token
printf 'text,label\na ship,yes\na storm,no\n' >"$tmp/rows.csv"
pads() { # NAME TOKENIZER-CONFIG FILE...: a model whose folder says that of its tokenizer (nothing: has no such file), without the files
    name=$1 says=$2
    shift 2
    rm -rf "$tmp/source" "$tmp/tuned" "$tmp/padded"
    cp -r "$tmp/hf" "$tmp/source"
    (cd "$tmp/source" && rm -f tokenizer_config.json "$@")
    [ -z "$says" ] || printf '%s' "$says" >"$tmp/source/tokenizer_config.json"
    run finetune --run "$tmp/tuned" --init "$tmp/source" --train-file "$tmp/rows.csv" --eval-file "$tmp/rows.csv" --steps 1 --batch 2 --mode mem \
        --durability none --keep-best --quiet
    run export "$tmp/tuned" "$tmp/padded"
    for folder in padded tuned/best; do
        python3 - "$tmp/source" "$tmp/$folder" >"$tmp/out" 2>"$tmp/err" <<'EOF'
import json, os, sys
source, made = sys.argv[1:]
def read(folder, name):
    path = os.path.join(folder, name)
    return json.load(open(path, encoding="utf-8")) if os.path.exists(path) else None
config, was, now = read(made, "config.json"), read(source, "tokenizer_config.json"), read(made, "tokenizer_config.json")
pad = (was or {}).get("pad_token", "<|endoftext|>")  # its own, where it has one
tokens = read(made, "tokenizer.json")
ids = {t["content"]: t["id"] for t in tokens["added_tokens"]} | tokens["model"]["vocab"]
asked = read(source, "config.json").get("pad_token_id", ids[pad])
assert config["eos_token_id"] is not None and config["pad_token_id"] == asked, config
assert now == (was or {}) | {"pad_token": pad}, now
was, now = read(source, "special_tokens_map.json"), read(made, "special_tokens_map.json")
assert now == (was and was | ({} if pad == "!" else {"pad_token": pad})), now
EOF
        result $? "$folder pads with its own token, else with <|endoftext|>: $name"
    done
    works "  and opens again" eval "$tmp/padded" --eval-file "$tmp/rows.csv" --max-seq 16
}
pads "a source that does not pad" '{"tokenizer_class": "GPT2TokenizerFast", "unk_token": "<|endoftext|>", "model_max_length": 1000000000000000019884624838656}'
# a look at a tokenizer's file that fails once: all of the files are exported, or none
find_shim
if [ -n "$shim" ]; then
    not_yet() { rm -rf "$tmp/unseen"; }
    is_whole_or_said() {
        [ "$got" = 0 ] || { [ "$got" = 1 ] && grep -q "Input/output error" "$tmp/err"; } || return 1
        [ ! -e "$tmp/unseen" ] || diff -r "$tmp/padded" "$tmp/unseen" >"$tmp/out"
    }
    for at in /tokenizer/ /unseen; do
        fails_once look:$at:EIO not_yet is_whole_or_said "a sentence, and all of the files or none" export "$tmp/tuned" "$tmp/unseen"
    done
else
    skip "a look at a tokenizer's file fails" "no library that fails it"
fi
pads "a source that pads with something else" '{"pad_token": "!", "more": ["\"12345678901234567890", -7, 1.5]}'
pads "a source without these files" "" special_tokens_map.json
python3 - "$tmp/hf/config.json" <<'EOF'
import json, sys
config = json.load(open(sys.argv[1])) | {"pad_token_id": 0}
json.dump(config, open(sys.argv[1], "w"))
EOF
pads "a source whose config.json says it, too" '{"pad_token": "!"}'

# where nobody says how long rows may be, the tokenizer does, if it is less
printf 'text,label\nthe ship sees the storm the captain finds a whale,yes\na storm,no\n' >"$tmp/rows.csv"
cut_at() { # RUN: how long its rows may be
    sqlite3 "$tmp/$1/run.db" "SELECT value FROM runs WHERE key = 'option.seq'"
}
rows="--train-file $tmp/rows.csv --steps 1 --batch 2 --mode mem --durability none --quiet"
rm -rf "$tmp/source"
cp -r "$tmp/hf" "$tmp/source"
for most in 6 20 1000000000000000019884624838656 -1 '"six"'; do
    echo "{\"model_max_length\": $most}" >"$tmp/source/tokenizer_config.json"
    rm -rf "$tmp/cut"
    run finetune --run "$tmp/cut" --init "$tmp/source" $rows
    same "$([ "$most" = 6 ] && echo 6 || echo 16)" "$(cut_at cut)" "model_max_length $most"
done
echo '{"model_max_length": 6}' >"$tmp/source/tokenizer_config.json"
run finetune --run "$tmp/long" --init "$tmp/source" $rows --max-seq 16
same 16 "$(cut_at long)" "what is asked for counts instead"
run export "$tmp/long" "$tmp/long-hf"
same "$("$bin" eval "$tmp/long-hf" --eval-file "$tmp/rows.csv" --max-seq 6)" "$("$bin" eval "$tmp/long-hf" --eval-file "$tmp/rows.csv")" "eval cuts there, too"
result "$([ "$("$bin" eval "$tmp/long-hf" --eval-file "$tmp/rows.csv" --max-seq 16)" != "$("$bin" eval "$tmp/long-hf" --eval-file "$tmp/rows.csv")" ]; echo $?)" \
    "  which is another value"
for seq in "" "--max-seq 6" "--max-seq 16"; do
    run plan --init "$tmp/source" --train-file "$tmp/rows.csv" $seq --probe off --host-mem 1G
    cp "$tmp/out" "$tmp/plan$(echo $seq | tr -d ' -')"
done
result "$(cmp -s "$tmp/plan" "$tmp/planmaxseq6" && ! cmp -s "$tmp/plan" "$tmp/planmaxseq16"; echo $?)" "and so does plan"

rm -r "$tmp/run-mem/tokenizer"
works "a run without its tokenizer" export "$tmp/run-mem" "$tmp/alone"
grep -qF "has no tokenizer" "$tmp/err"
result $? "says that the folder holds the model alone"

sed -i 's/"architectures"/"problem_type": "multi_label_classification", "architectures"/' "$tmp/classifier/config.json"
refuses 2 "multi_label_classification" import "$tmp/classifier" "$tmp/no" --mode mem
result "$([ ! -e "$tmp/no" ]; echo $?)" "and nothing was made"

done_testing
