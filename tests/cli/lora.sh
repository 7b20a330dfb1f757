#!/bin/sh
# Adapters (LoRA), as a person trains them: in every mode the same bits, also through a kill; exports merged and apart; the folder of an adapter is
# evaluated, continued and merged; classifiers, chat and preferences; what cannot be trained is refused in words. Prints TAP.
. tests/tap.sh

language_model 60 270 --n-layer 2 --n-head 2 --n-embd 16 --seq 16 --batch 2 --steps 3 --dtype fp32
text=$tmp/text.txt fixtures=tests/fixtures
plain="--seq 16 --batch 2 --lr 1e-2 --csd-mem 128K --durability none --quiet"
lora="--init $tmp/hf --data $text $plain"
adapted="$lora --lora-rank 4 --lora-targets all --lora-dropout 10% --lora-alpha 6"
loss_of() { # RUN|HFDIR OPTIONS...
    of=$1
    shift
    run eval "$of" --data "$text" --seq 16 --dtype fp32 "$@"
    sed -n 's/^loss //p' "$tmp/out"
}
says() { # FOLDER: what it goes on with
    run generate "$1" --prompt "the sea" --tokens 8 --temperature 0 --dtype fp32
    cat "$tmp/out"
}
equal() { # A B: the files of two adapters
    cmp -s "$1/adapter_model.safetensors" "$2/adapter_model.safetensors" && cmp -s "$1/adapter_config.json" "$2/adapter_config.json"
}

# the same bits in every mode, and after a stop and a kill
first=
for mode in mem base su su+o "su+o --activations offload" "base --speculate" "mem --activations recompute"; do
    rm -rf "$tmp/modes"
    run pretrain --run "$tmp/modes" $adapted --steps 6 --mode $mode
    hash=$(exported "$tmp/modes")
    first=${first:-$hash}
    same "$first" "$hash" "--mode $mode gives the same bits"
done
works "training stops" pretrain --run "$tmp/ends" $adapted --steps 3 --schedule-steps 6 --mode su+o
works "  and goes on" pretrain --resume "$tmp/ends" --steps 6 --quiet
same "$first" "$(exported "$tmp/ends")" "  to the same bits"
find_shim
if [ -n "$shim" ]; then
    works "training stops" pretrain --run "$tmp/killed" $adapted --steps 2 --schedule-steps 6 --mode base
    (export LD_PRELOAD="$shim" SHIM_AT="pwrite:/killed/run.db-wal:20:kill"; exec "$bin" pretrain --resume "$tmp/killed" --steps 6 --quiet) >"$tmp/out" 2>"$tmp/err"
    same 137 $? "  and is killed in its second process"
    works "  and goes on" pretrain --resume "$tmp/killed" --steps 6 --quiet
    same "$first" "$(exported "$tmp/killed")" "  to the same bits"
else
    skip "a killed run" "no library that kills it"
fi
run check "$tmp/ends"
grep -q "frozen parameters" "$tmp/out"
result $? "check reads the frozen base"
works "the run moves to 3 devices" reshard "$tmp/ends" --devices 3 --quiet
same "$first" "$(exported "$tmp/ends")" "  with the same bits"
same 7 "$(sqlite3 "$tmp/ends/run.db" "PRAGMA user_version")" "an older siTrain refuses the run by its format"
run report "$tmp/ends"
grep -q "2 layers of width 16, trains .* of .* parameters (.*%)" "$tmp/out"
result $? "a report says how many parameters are trained"
run report "$tmp/ends" --config
cp "$tmp/out" "$tmp/options"
grep -q "^lora-rank = 4$" "$tmp/options" && grep -q "^lora-targets = all$" "$tmp/options" && grep -q "^lora-alpha = 6$" "$tmp/options"
result $? "and its options"
works "  make it again" pretrain --config "$tmp/options" --run "$tmp/again" --quiet
same "$first" "$(exported "$tmp/again")" "  to the same bits"
works "the plan" plan --init "$tmp/hf" --seq 16 --batch 2 --lora-rank 4 --probe off
grep -q "trains 0.000.* of 0.01.* million parameters (.*%)" "$tmp/out"
result $? "  says what is trained"

# both exports
run pretrain --run "$tmp/fp32" $adapted --dtype fp32 --mode su+o --steps 8 --eval-data "$text" --eval-every 4 --keep-best
works "an export is merged" export "$tmp/fp32" "$tmp/merged"
works "or apart" export "$tmp/fp32" "$tmp/adapter" --adapter
python3 -c '
import json, sys
from pathlib import Path
tmp = Path(sys.argv[1])
c = json.loads((tmp / "adapter/adapter_config.json").read_text())
assert c["base_model_name_or_path"] == str((tmp / "hf").resolve()), c
assert (c["peft_type"], c["task_type"], c["r"], c["lora_alpha"], c["lora_dropout"], c["bias"]) == ("LORA", "CAUSAL_LM", 4, 6, 0.1, "none"), c
assert c["fan_in_fan_out"] and c["inference_mode"] and not c["use_rslora"] and c["modules_to_save"] is None, c
assert sorted(c["target_modules"]) == ["c_attn", "c_fc", "c_proj"], c
data = (tmp / "adapter/adapter_model.safetensors").read_bytes()
header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
assert header["base_model.model.transformer.h.0.attn.c_attn.lora_A.weight"]["shape"] == [4, 16], header
assert header["base_model.model.transformer.h.1.mlp.c_fc.lora_B.weight"]["shape"] == [64, 4], header
assert len(header) == 1 + 2 * 4 * 2, header' "$tmp"
result $? "  with the names and settings of peft"
result "$([ -f "$tmp/adapter/tokenizer.json" ] && [ ! -e "$tmp/adapter/model.safetensors" ]; echo $?)" "  its tokenizer, and no model"
same "$(cd "$tmp/fp32/best" && ls)" "$(cd "$tmp/adapter" && ls)" "RUN/best is an adapter's folder, too"
equal "$tmp/fp32/best" "$tmp/adapter"
result $? "  with the same bytes"
whole=$(loss_of "$tmp/merged") text_of=$(says "$tmp/merged")
for of in fp32 adapter fp32/best; do
    same "$whole" "$(loss_of "$tmp/$of")" "the same loss: $of"
    same "$text_of" "$(says "$tmp/$of")" "  and text"
done
result "$([ "$whole" != "$(loss_of "$tmp/hf")" ]; echo $?)" "which is not that of the model without adapters"
works "an adapter's folder is merged" export "$tmp/adapter" "$tmp/folded"
cmp -s "$tmp/merged/model.safetensors" "$tmp/folded/model.safetensors"
result $? "  to the same bytes"
run export "$tmp/adapter" "$tmp/copy" --adapter
equal "$tmp/adapter" "$tmp/copy"
result $? "  or copied, byte for byte"
works "check of the run" check "$tmp/fp32"
cp "$tmp/fp32/best/adapter_config.json" "$tmp/kept.json"
: >"$tmp/fp32/best/adapter_config.json"
refuses 1 "best/adapter_config.json" check "$tmp/fp32" --quiet
sed 's/"r": 4/"r": 2/' "$tmp/kept.json" >"$tmp/fp32/best/adapter_config.json"
refuses 1 "adapter_config.json has \"r\" 2" check "$tmp/fp32" --quiet
cp "$tmp/kept.json" "$tmp/fp32/best/adapter_config.json"
works "as it was, it is whole" check "$tmp/fp32"
grep -q "^best .*/fp32/best, after step" "$tmp/out" && grep -q "^export .*/merged, after step\|^export .*/adapter, after step" "$tmp/out"
result $? "  looks at both"
works "check of an adapter's folder" check "$tmp/adapter"
turn "$tmp/copy/adapter_model.safetensors" $(($(stat -c %s "$tmp/copy/adapter_model.safetensors") - 3))
refuses 1 "adapter_model.safetensors" eval "$tmp/copy" --data "$text"

# going on with an adapter
on="--init $tmp/adapter --data $text --seq 16 --batch 2 --csd-mem 128K --durability none --quiet --dtype fp32 --steps 1 --lr 0"
works "training goes on with an adapter's folder" pretrain --run "$tmp/on" $on --mode mem
run export "$tmp/on" "$tmp/back" --adapter
equal "$tmp/adapter" "$tmp/back"
result $? "  which comes out as it went in"
mv "$tmp/hf" "$tmp/moved"
refuses 2 "is an adapter of the model $tmp/hf, which is no folder here: give --base HFDIR" pretrain --run "$tmp/none" $on
works "with --base, where its model is elsewhere" pretrain --run "$tmp/on2" $on --mode base --base "$tmp/moved"
same "$whole" "$(loss_of "$tmp/on2")" "  the same model"
same "$whole" "$(loss_of "$tmp/adapter" --base "$tmp/moved")" "eval takes it, too"
mv "$tmp/moved" "$tmp/hf"

# another model of the same sizes as its base, and the same model in another format
run export "$tmp/hf" "$tmp/rounded" --dtype bf16
for base in merged rounded; do
    run eval "$tmp/adapter" --data "$text" --seq 16 --base "$tmp/$base"
    cp "$tmp/err" "$tmp/notices"
    works "pretrain on the base $base" pretrain --run "$tmp/on-$base" $on --mode mem --base "$tmp/$base"
    same "$([ $base = rounded ] && echo 0 || echo 2)" \
        "$(cat "$tmp/err" "$tmp/notices" | grep -c "$tmp/adapter was trained on another model than the one in $tmp/$base")" "  it is said where that is another model"
done

# what a folder of somebody's may hold
plain_adapter() { # FOLDER RANK VALUE: of GPT-2's c_fc in both layers, with this value as the last of each B
    python3 -c '
import json, os, struct, sys
to, rank, last = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
os.mkdir(to)
header, data = {}, b""
for layer in 0, 1:
    for name, shape in ("A", [rank, 16]), ("B", [64, rank]):
        n = shape[0] * shape[1]
        values = struct.pack(f"<{n}f", *[4 if last > 1 else 0.01] * (n - 1), last if name == "B" else 4 if last > 1 else 0.01)
        header[f"base_model.model.transformer.h.{layer}.mlp.c_fc.lora_{name}.weight"] = {
            "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
head = json.dumps(header).encode()
open(to + "/adapter_model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 8, "target_modules": ["c_fc"], "base_model_name_or_path": sys.argv[4]},
          open(to + "/adapter_config.json", "w"))' "$1" "$2" "$3" "$tmp/hf"
}
theirs="--data $tmp/text.txt --seq 16 --batch 2 --csd-mem 128K --durability none --quiet --steps 1 --mode base"
plain_adapter "$tmp/large" 20 0.5
works "a rank larger than a matrix" pretrain --run "$tmp/of-large" --init "$tmp/large" $theirs --lora-dropout 10%
works "  goes on" pretrain --resume "$tmp/of-large" --steps 2 --schedule-steps 2 --quiet
run report "$tmp/of-large" --config
grep -q "^lora-rank = 20$" "$tmp/out" && grep -q "^lora-dropout = 10%\|^lora-dropout = 0.1" "$tmp/out"
result $? "  its dropout is the option's, the rest the folder's"
plain_adapter "$tmp/nan" 4 nan
refuses 1 "lora_B.weight: 1 of its 256 values are infinite or not a number" pretrain --run "$tmp/none" --init "$tmp/nan" $theirs
refuses 1 "lora_B.weight: 1 of its 256 values are infinite or not a number" export "$tmp/nan" "$tmp/none"
run check "$tmp/nan"
result "$([ "$got" = 1 ] && grep -q "lora_B.weight: 1 of its 256 values" "$tmp/err"; echo $?)" "check says it, too"
plain_adapter "$tmp/beyond" 4 3e38
cp -r "$tmp/large" "$tmp/settings"
for bound in '"r": 20=3000000000=2147483647' '"lora_alpha": 8=1e10=1e9'; do # above the largest: the sentence names it
    key=${bound%%=*} rest=${bound#*=}
    sed "s/$key/${key%: *}: ${rest%=*}/" "$tmp/large/adapter_config.json" >"$tmp/settings/adapter_config.json"
    refuses 2 "${key%: *} must be" export "$tmp/settings" "$tmp/none"
    result "$(grep -q " to ${rest#*=}$" "$tmp/err"; echo $?)" "  from a least value to ${rest#*=}"
done
cp -r "$tmp/large" "$tmp/fewer"
sed -i 's/"c_fc"/"attn.c_proj", "fc"/' "$tmp/fewer/adapter_config.json"
refuses 2 '"target_modules" does not name transformer.h.0.mlp.c_fc, of which adapter_model.safetensors has an adapter: peft would leave that out' \
    eval "$tmp/fewer" --data "$text"
refuses 1 "mlp.c_fc.weight: 16 of its 1024 values are infinite or not a number" export "$tmp/beyond" "$tmp/none" --dtype fp16

# classifiers, chat, preferences
{ echo text,label; for i in 1 2 3 4 5 6; do printf 'the sea sees a ship,good\na storm leaves the island,bad\n'; done; } >"$tmp/rows.csv"
works "a classifier" finetune --run "$tmp/sorter" --init "$tmp/hf" --train-file "$tmp/rows.csv" --eval-file "$tmp/rows.csv" --lora-rank 2 --epochs 2 --lr 1e-2 \
    --max-seq 16 --mode su --csd-mem 128K --dtype fp32 --keep-best --quiet
run export "$tmp/sorter" "$tmp/sorter-adapter" --adapter
run export "$tmp/sorter" "$tmp/sorter-merged"
grep -q '"SEQ_CLS"' "$tmp/sorter-adapter/adapter_config.json" && grep -q '"score"' "$tmp/sorter-adapter/adapter_config.json"
result $? "  its adapter has the head"
run eval "$tmp/sorter-adapter" --eval-file "$tmp/rows.csv" --dtype fp32
cp "$tmp/out" "$tmp/apart"
run eval "$tmp/sorter-merged" --eval-file "$tmp/rows.csv" --dtype fp32
same "$(cat "$tmp/apart")" "$(cat "$tmp/out")" "  and says what the merged one does"
run finetune --run "$tmp/sorter2" --init "$tmp/sorter-adapter" --train-file "$tmp/rows.csv" --steps 1 --lr 0 --max-seq 16 --mode mem --dtype fp32 --quiet
run export "$tmp/sorter2" "$tmp/sorter2-adapter" --adapter
cmp -s "$tmp/sorter-adapter/adapter_model.safetensors" "$tmp/sorter2-adapter/adapter_model.safetensors"
result $? "  it goes on, head and all"
works "one that begins with a run, and predicts with its best model" finetune --run "$tmp/guess" --init "$tmp/lm" --train-file "$tmp/rows.csv" --eval-file "$tmp/rows.csv" \
    --test-file "$tmp/rows.csv" --predict --keep-best --lora-rank 2 --epochs 1 --max-seq 16 --mode mem --quiet
same 13 "$(wc -l <"$tmp/guess/predict_results_None.txt")" "  all rows, although its adapter names no folder as base"
works "a language model goes on with its adapters" pretrain --run "$tmp/unsorted" --init "$tmp/sorter-adapter" --data "$text" --seq 16 --batch 2 --steps 1 --lr 0 --mode mem \
    --dtype fp32 --quiet
grep -q "sorter-adapter is a classifier: its head is left out" "$tmp/err"
result $? "  and leaves the head out"
chat="--init $fixtures/chat_steps/llama --chat-template $fixtures/dpo/template.jinja --lora-rank 4 --steps 2 --csd-mem 192K --quiet"
works "conversations" finetune --run "$tmp/chat" --task chat --train-file $fixtures/chat_steps/rows.jsonl --mode su+o $chat
works "preferences" finetune --run "$tmp/dpo" --task dpo --train-file $fixtures/dpo/rows.jsonl --mode base $chat
same "0.6931471805599453" "$(sqlite3 "$tmp/dpo/run.db" "SELECT printf('%.16g', loss) FROM steps WHERE step = 0")" "  whose reference is the model without adapters"
run export "$tmp/dpo" "$tmp/dpo-adapter" --adapter
sed -i "s,\"base_model_name_or_path\": .*,\"base_model_name_or_path\": \"some/model\"\,," "$tmp/dpo-adapter/adapter_config.json"
works "  an adapter and its reference take the same --base" eval "$tmp/dpo-adapter" --task dpo --eval-file $fixtures/dpo/rows.jsonl --reference "$tmp/dpo-adapter" \
    --base $fixtures/chat_steps/llama --chat-template $fixtures/dpo/template.jinja
works "a run with adapters begins another" finetune --run "$tmp/chat2" --task chat --train-file $fixtures/chat_steps/rows.jsonl --mode mem --init "$tmp/chat" \
    --chat-template $fixtures/dpo/template.jinja --steps 1 --quiet
grep -q "has adapters: they are merged into its model" "$tmp/err"
result $? "  which says that they are merged"
run finetune --run "$tmp/sorter3" --init "$tmp/sorter" --train-file "$tmp/rows.csv" --steps 1 --max-seq 16 --mode mem --quiet
grep -q "begins with the last model of $tmp/sorter; siTrain export $tmp/sorter HFDIR writes the best one" "$tmp/err"
result $? "  and how to begin with the best one"
run export "$tmp/hf" "$tmp/base.gguf"
run pretrain --run "$tmp/of-gguf" --data "$text" $plain --init "$tmp/base.gguf" --lora-rank 2 --steps 1 --mode mem
works "an adapter of a GGUF file's model" export "$tmp/of-gguf" "$tmp/of-gguf-adapter" --adapter
grep -q "the base of $tmp/of-gguf-adapter is a GGUF file, of which peft makes no model: give --base" "$tmp/err"
result $? "  which peft cannot find, as a notice says"
run export "$tmp/of-gguf" "$tmp/of-gguf-named" --adapter --base org/model
result "$(! grep -q "is a GGUF file" "$tmp/err"; echo $?)" "  unless the model is named"
python3 tests/cli/tiny_folder.py bert "$tmp/bert"
works "a masked language model" pretrain --run "$tmp/masked" --init "$tmp/bert" --data "$text" --seq 16 --lora-rank 2 --lora-targets mlp --steps 1 --mode mem --quiet
run export "$tmp/masked" "$tmp/bert-adapter" --adapter
grep -q '"encoder.layer.0.output.dense"' "$tmp/bert-adapter/adapter_config.json"
result $? "  whose matrices are named so that peft takes no others"
works "random parameters" pretrain --run "$tmp/random" --data "$text" --tokenizer "$tmp/tok" --n-layer 1 --n-head 1 --n-embd 8 --seq 8 --lora-rank 2 --steps 1 --mode mem --quiet
grep -q -- "--lora-rank without --init" "$tmp/err"
result $? "  are noticed"

# a base in 8 or 4 bits: the same bits in all modes, on any devices, by several ranks, and through a kill; near the loss of one in 16 bits
frozen() { stat -c %s "$1/frozen"; }
first() { # RUN: the loss of its first step
    sqlite3 "$1/run.db" "SELECT printf('%.17g', loss) FROM steps WHERE step = 0"
}
whole_base="$lora --lora-rank 4 --lora-targets all --dtype fp32 --grad-accum 2 --groups 2 --eval-data $text"
works "a base in 32 bits" pretrain --run "$tmp/wide" $whole_base --steps 6 --mode mem
works "  in 16" pretrain --run "$tmp/half" $whole_base --mode mem --base-dtype bf16 --steps 6
# 2 layers of 48 x 16 + 16 x 16 + 64 x 16 + 16 x 64 (tensors are (in, out)); nf4: 4 bytes, 4 per 256 blocks, 1 per block, 1/2 per value
same $((2 * 2 * 3072)) $(($(frozen "$tmp/wide") - $(frozen "$tmp/half"))) "  which takes 2 bytes less per value"
for base in "int8 $((3072 + 4 * (3 * 16 + 64)))" "nf4 $((4 * 4 * 2 + 12 + 4 + 2 * 16 + 3072 / 2))"; do
    set -- $base
    works "a base in $1" pretrain --run "$tmp/$1" $whole_base --mode mem --base-dtype "$1" --steps 6
    same $((2 * (4 * 3072 - $2))) $(($(frozen "$tmp/wide") - $(frozen "$tmp/$1"))) "  of so many bytes"
    python3 -c 'import sys
one, other = map(float, sys.argv[1:3])
assert one != other and abs(one - other) < 0.02, (one, other)' "$(first "$tmp/half")" "$(first "$tmp/$1")" 2>"$tmp/err"
    result $? "  whose loss is near that of 16 bits, and another"
    want=$(exported "$tmp/$1")
    for mode in "base --devices 2" "su+o --devices 3 --activations offload"; do
        rm -rf "$tmp/modes"
        works "  --mode $mode" pretrain --run "$tmp/modes" $whole_base --mode $mode --base-dtype "$1" --keep-best --steps 6
        same "$want" "$(exported "$tmp/modes")" "  gives the same bits"
    done
    run report "$tmp/modes"
    awk '$2 == "wire" && $3 == "read" { n++; bad += $4 != $5 || $4 < 1 } END { exit !n || bad }' "$tmp/out"
    result $? "  reads as many bytes as were computed"
    same "$(loss_of "$tmp/exported")" "$(loss_of "$tmp/modes" --last)" "  and is evaluated as its export is"
    same "$(says "$tmp/exported")" "$(says "$tmp/modes")" "  and says the same"
    works "  it moves to other devices" reshard "$tmp/modes" --devices 2
    same "$want" "$(exported "$tmp/modes")" "  with the same bits"
    works "  and is whole" check "$tmp/modes"
    cp -r "$tmp/$1" "$tmp/hurt"
    turn "$tmp/hurt/frozen" $(($(frozen "$tmp/hurt") / 2))
    run check "$tmp/hurt"
    result "$([ "$got" = 1 ] && grep -q "^frozen parameters .* 1 damaged" "$tmp/out"; echo $?)" "  a bit of it that turned is found"
    rm -rf "$tmp/hurt" "$tmp/killed" "$tmp/modes"
    [ -n "$shim" ] || continue
    works "training stops" pretrain --run "$tmp/killed" $whole_base --steps 2 --schedule-steps 6 --mode base --base-dtype "$1"
    (export LD_PRELOAD="$shim" SHIM_AT="pwrite:/killed/run.db-wal:20:kill"; exec "$bin" pretrain --resume "$tmp/killed" --steps 6 --quiet) >"$tmp/out" 2>"$tmp/err"
    same 137 $? "  and is killed"
    works "  and goes on" pretrain --resume "$tmp/killed" --steps 6 --quiet
    same "$want" "$(exported "$tmp/killed")" "  to the same bits"
done
same "8 7" "$(sqlite3 "$tmp/nf4/run.db" "PRAGMA user_version") $(sqlite3 "$tmp/wide/run.db" "PRAGMA user_version")" "an older siTrain refuses them by their format"
works "an adapter goes on with a base in 4 bits" pretrain --run "$tmp/on4" $on --mode su --base-dtype nf4
for sort in "chat su+o" "dpo base"; do
    set -- $sort
    works "  --task $1" finetune --run "$tmp/four-$1" --task "$1" --train-file $fixtures/$([ "$1" = dpo ] && echo dpo || echo chat_steps)/rows.jsonl --mode "$2" $chat --base-dtype nf4
done
same "0.6931471805599453" "$(sqlite3 "$tmp/four-dpo/run.db" "SELECT printf('%.16g', loss) FROM steps WHERE step = 0")" "  whose reference is this base"

# adapters that are none of LoRA, or of another library: the message ends with what makes a model of them
cp -r "$tmp/adapter" "$tmp/theirs"
other() { # SED TEXT: adapter_config.json with this change is refused so
    sed "$1" "$tmp/adapter/adapter_config.json" >"$tmp/theirs/adapter_config.json"
    refuses 2 "$2" eval "$tmp/theirs/" --data "$text"
}
merges() { result "$(grep -qF "$1" "$tmp/err"; echo $?)" "  with the command that merges it"; }
other 's/"use_dora": false/"use_dora": true/' '"use_dora" is set, which this version does not compute: python3 -c "from transformers'
merges "d = '$tmp/theirs'; b = '$tmp/hf'; m = M.from_pretrained(b); [k.save_pretrained(d + '-merged') for k in (P.from_pretrained(m, d).merge_and_unload(), T.from_pretrained(d))]"
other 's/"LORA"/"LOHA"/' 'but this version knows adapters of the type "LORA" only: python3 -c'
other 's/"LORA"/"PROMPT_TUNING"/' "cannot be merged into its matrices: begin with the model without it"
other 's/"peft_type".*/"fine_tune_type": "lora", "model": "m",/' 'is an adapter of MLX (adapter_config.json has "fine_tune_type")'
merges "python3 -m mlx_lm fuse --dequantize --model 'm' --adapter-path '$tmp/theirs' --save-path '$tmp/theirs-merged'"
other 's/"peft_type".*//' 'has no "peft_type": this is an adapter of another library than PEFT'
sed 's/"use_dora": false/"use_dora": true/' "$tmp/sorter-adapter/adapter_config.json" >"$tmp/theirs/adapter_config.json"
cp "$tmp/sorter-adapter/adapter_model.safetensors" "$tmp/theirs"
refuses 2 "AutoModelForSequenceClassification as M" eval "$tmp/theirs" --eval-file "$tmp/rows.csv"
result "$(grep -qF "M.from_pretrained(b, num_labels=2)" "$tmp/err"; echo $?)" "  a classifier's with its classes"

# added tokens with LoRA of embeddings that are tied: peft gets rows for them, loads the adapter, and only then unties; the longest message is whole
long=$(printf '%090d' 0)
mkdir "$tmp/$long"
sed "s|\"base_model_name_or_path\": \"[^\"]*\"|\"base_model_name_or_path\": \"$long\"|; s/\"modules_to_save\": null/\"modules_to_save\": [\"$long\"]/" "$tmp/adapter/adapter_config.json" >"$tmp/$long/adapter_config.json"
adds() { # NAME SHAPE: the adapter's tensors are this one, of zeros, and a LoRA of the embeddings
    python3 -c 'import json, math, sys
tensors, at = {}, 0
for name, shape in ((sys.argv[2], json.loads(sys.argv[3])), ("embed_tokens.lora_embedding_A", [4, 70000])):
    end = at + 4 * math.prod(shape)
    tensors["base_model.model.model." + name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
    at = end
head = json.dumps(tensors).encode()
open(sys.argv[1], "wb").write(len(head).to_bytes(8, "little") + head + bytes(at))' "$tmp/$long/adapter_model.safetensors" "$1" "$2"
    (cd "$tmp" && exec "$bin" eval "$long/" --base "$tmp/hf" --data "$text") >"$tmp/out" 2>"$tmp/err"
    same 2 $? "an adapter with $1 is refused"
    merges "d = '$long'; b = '$long'; m = M.from_pretrained(b); m.resize_token_embeddings(70000); p = P.from_pretrained(m, d); [setattr(k, 'weight', "
    result "$(grep -q "k in (p.merge_and_unload(), T.from_pretrained(d))\]\" makes the folder $long-merged, .*(pip install torch transformers peft)$" "$tmp/err"; echo $?)" "  which is whole"
}
cp "$tmp/adapter"/tokenizer* "$tmp/$long/"
adds embed_tokens.base_layer.weight "[70000, 2]"
adds embed_tokens.token_adapter.base_layer.weight "[70000, 2]"

# refusals
new="pretrain --run $tmp/none $lora"
refuses 2 "--lora-alpha is for adapters, and there are none: give --lora-rank N" $new --lora-alpha 16
refuses 2 "--lora-alpha 0: adapters of that scale change nothing" $new --lora-rank 2 --lora-alpha 0
refuses 2 "--lora-targets is for adapters" $new --lora-targets all
refuses 2 "--lora-rank 17: attn.c_attn is a matrix of 48 x 16, whose rank is at most 16" $new --lora-rank 17
refuses 2 '--lora-targets: "q_proj" names no matrix in a layer of GPT-2: name some of attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj' $new --lora-rank 2 --lora-targets q_proj
refuses 2 "--lora-rank: the adapter $tmp/adapter has 4, which training goes on with" pretrain --run "$tmp/none" $on --lora-rank 8
refuses 2 "--base-dtype nf4 is for a model that stays as it is, next to adapters" $new --base-dtype nf4
refuses 2 "--base-dtype is nf4 in this run and a resume keeps it" pretrain --resume "$tmp/nf4" --steps 7 --base-dtype int8
refuses 2 "there is no option --load-in-4bit: siTrain has --base-dtype; nf4, with --lora-rank" $new --load-in-4bit
refuses 2 "--base $tmp/none: No such file or directory: give the folder of the model that the adapter $tmp/adapter belongs to" eval "$tmp/adapter" --base "$tmp/none" --data "$text"
refuses 2 "--base is for adapter folders" $new --base "$tmp/hf"
refuses 2 "--lora-rank is 4 in this run and a resume keeps it" pretrain --resume "$tmp/ends" --steps 7 --lora-rank 8
run import "$tmp/hf" "$tmp/imported" --mode mem
refuses 2 "--lora-rank is not set in this run and a resume keeps it" pretrain --resume "$tmp/imported" --data "$text" --steps 2 --lora-rank 8
refuses 2 "is an adapter (adapter_config.json): siTrain finetune or pretrain --init" import "$tmp/adapter" "$tmp/none"
refuses 2 "--adapter: $tmp/hf has no adapters" export "$tmp/hf" "$tmp/none" --adapter
refuses 2 "--adapter writes a folder" export "$tmp/fp32" "$tmp/none.gguf" --adapter --last
for quantized in "gptq GPTQ gptqmodel.utils.model_dequant" "awq AWQ AutoAWQConverter.from_pretrained" "fp8 FP8 gptqmodel.utils.model_dequant" "compressed-tensors compressed-tensors run_compressed=False" "bitsandbytes bitsandbytes dequantize()" "hqq HQQ begin"; do
    set -- $quantized
    rm -rf "$tmp/quantized"
    cp -r "$tmp/hf" "$tmp/quantized"
    sed -i "1s/{/{ \"quantization_config\": {\"quant_method\": \"$1\"},/" "$tmp/quantized/config.json"
    refuses 2 "a model that is quantized with $2" eval "$tmp/quantized" --data "$text"
    result "$(grep -qF "$3" "$tmp/err"; echo $?)" "  with what converts it: $3"
done
sed "1s/{/{ \"quantization\": {\"group_size\": 64, \"bits\": 4},/" "$tmp/hf/config.json" >"$tmp/quantized/config.json"
refuses 2 'a model that is quantized with MLX ("quantization"), which cannot be trained: python3 -m mlx_lm convert --dequantize' eval "$tmp/quantized" --data "$text"
cp "$tmp/hf/config.json" "$tmp/quantized/config.json"
mkdir "$tmp/quantized/onnx"
mv "$tmp/quantized/model.safetensors" "$tmp/quantized/onnx/model.onnx"
refuses 2 "has an ONNX model (onnx), but no model.safetensors, which is read here: begin with the model" eval "$tmp/quantized" --data "$text"
result "$([ ! -e "$tmp/none" ]; echo $?)" "nothing was made"

by_ranks
run pretrain --run "$tmp/lm64" --data "$text" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 64 --seq 16 --steps 1 --mode mem --durability none --quiet
run export "$tmp/lm64" "$tmp/hf64"
whole_base="--init $tmp/hf64 --data $text $plain --lora-rank 4 --grad-accum 2 --groups 2 --steps 3"
for base in int8 nf4; do
    run pretrain --run "$tmp/one-$base" $whole_base --mode mem --base-dtype $base
    mpirun -n 2 $more "$bin" pretrain --run "$tmp/two-$base" $whole_base --mode base --base-dtype $base >"$tmp/out" 2>"$tmp/err"
    same "$(exported "$tmp/one-$base")" "$(exported "$tmp/two-$base")" "two ranks with a base in $base: the same bits"
done

done_testing
