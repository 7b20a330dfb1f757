#!/bin/sh
# GGUF files: every family is exported, read, imported and exported again to the same file; what may be replaced, what is refused, a kill in the middle
# and a full disk. What llama.cpp says to them: make check-gguf. Prints TAP.
. tests/tap.sh
find_shim

make_text 600 >"$tmp/text.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
# Each family with a tokenizer of its kind: splitters of Llama 3, Qwen2 and DeepSeek-V3, SentencePiece's with and without a space in front.
for pair in llama:llama mistral:mistral qwen2:qwen qwen3:deepseek gemma3_text:gemma; do
    family=${pair%:*}
    mkdir "$tmp/$family"
    python3 - tests/fixtures/chat.json "${pair#*:}" "$tmp/$family" <<'PYTHON'
import json, sys
fixture, kind, folder = sys.argv[1:]
model = json.load(open(fixture))[kind]
json.dump(model["tokenizer"], open(folder + "/tokenizer.json", "w"))
json.dump(model["config"] | {"chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"}, open(folder + "/tokenizer_config.json", "w"))
PYTHON
    python3 tests/cli/tiny_folder.py $family "$tmp/$family" 512 64
done
printf "It's 1851,  and   we're 12345\tmiles from\n\n land: na\303\257ve \346\210\221\346\203\263 3.3\n" >"$tmp/odd.txt"
run pretrain --run "$tmp/gpt2-run" --n-layer 2 --n-head 2 --n-embd 32 --data "$tmp/text.txt" --tokenizer "$tmp/tok" --seq 24 --batch 2 --steps 2 --mode mem \
    --durability none --quiet
works "a GPT-2" export "$tmp/gpt2-run" "$tmp/gpt2"

head -n 20 "$tmp/text.txt" >"$tmp/short.txt"
says() { # WHAT NAME: its loss and what it says, in $tmp/NAME
    { "$bin" eval "$1" --data "$tmp/short.txt" --seq 24 --dtype fp32 && "$bin" generate "$1" --prompt "the sea" --tokens 20 --temperature 0 --dtype fp32; } \
        >"$tmp/$2" 2>&1
}

for family in gpt2 llama mistral qwen2 qwen3 gemma3_text; do
    types="f32 q8_0"
    [ $family != gpt2 ] || types="f32 f16 bf16 q8_0"
    for type in $types; do
        run export "$tmp/$family" "$tmp/m.gguf" --gguf-type $type
        ok=$got
        run export "$tmp/m.gguf" "$tmp/again.gguf" --gguf-type $type # it replaces the last one
        result "$([ "$ok$got" = 00 ] && cmp -s "$tmp/m.gguf" "$tmp/again.gguf"; echo $?)" "$family, $type: what is read is written again, byte for byte"
        case $family in
        mistral) grep -q "llama.cpp has no sliding window in a Mistral: texts of more than 9 tokens" "$tmp/err" ;;
        gemma3_text) grep -q "older versions of llama.cpp do not read .* which are 3 and 500 here" "$tmp/err" ;;
        *) ! grep -q "llama.cpp" "$tmp/err" ;;
        esac
        result $? "  and what llama.cpp computes differently is said"
        [ $type != f32 ] || cp "$tmp/m.gguf" "$tmp/$family.gguf"
    done
    says "$tmp/$family" from.folder
    says "$tmp/$family.gguf" from.file
    same "$(cat "$tmp/from.folder")" "$(cat "$tmp/from.file")" "$family: the file has the folder's loss and words"
    for from in "$family" "$family.gguf"; do
        rm -f "$tmp/ids.${from##*.}"
        run prepare "$tmp/odd.txt" --tokenizer "$tmp/$from" --out "$tmp/ids.${from##*.}"
    done
    result "$(cmp -s "$tmp/ids.$family" "$tmp/ids.gguf"; echo $?)" "$family: its tokenizer gives the folder's ids"
    works "$family: import" import "$tmp/$family.gguf" "$tmp/run" --mode su+o --csd-mem 192K --durability none
    run export "$tmp/run" "$tmp/again.gguf" --gguf-type f32
    result "$(cmp -s "$tmp/$family.gguf" "$tmp/again.gguf"; echo $?)" "$family: the run is exported as the same file"
    run export "$tmp/$family.gguf" "$tmp/back"
    same "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["model_type"])' "$tmp/back/config.json" 2>&1)" $family "$family: or as a folder of its family"
    rm -rf "$tmp/run" "$tmp/back"
done
python3 - "$tmp/llama.gguf" "$tmp/llama/model.safetensors" <<'PYTHON'
import json, struct, sys
file, folder = (open(p, "rb").read() for p in sys.argv[1:])
n, = struct.unpack("<Q", folder[:8])
first, end = json.loads(folder[8:8 + n])["model.layers.0.self_attn.q_proj.weight"]["data_offsets"]
rows = [folder[8 + n + first + i * 96:8 + n + first + (i + 1) * 96] for i in range(24)]  # 4 heads of 6 rows of 24 numbers
interleaved = b"".join(rows[h * 6 + j // 2 + j % 2 * 3] for h in range(4) for j in range(6))
sys.exit(interleaved not in file or b"".join(rows) in file)
PYTHON
result $? "a Llama's queries have the halves of a head interleaved"

# Wherever a folder is taken, the file is.
works "plan" plan --probe off --init "$tmp/qwen3.gguf" --batch 2 --seq 24
works "check" check "$tmp/qwen3.gguf"
works "pretrain" pretrain --run "$tmp/run" --init "$tmp/qwen3.gguf" --data "$tmp/text.txt" --seq 24 --batch 2 --steps 2 --mode mem --durability none
run report "$tmp/run" --config
result "$(grep -q "^init = .*qwen3.gguf$" "$tmp/out"; echo $?)" "  and the run's options name it"
rm -rf "$tmp/run"
printf '{"messages":[{"role":"user","content":"the sea"},{"role":"assistant","content":"the ship"}]}\n' >"$tmp/chat.jsonl"
works "finetune, by the file's chat template" finetune --task chat --run "$tmp/run" --init "$tmp/qwen3.gguf" --train-file "$tmp/chat.jsonl" --max-seq 32 --steps 1 --mode mem --durability none
run export "$tmp/run" "$tmp/chat.gguf"
result "$(grep -aqF "{{ m['role'] }}: {{ m['content'] }}" "$tmp/chat.gguf"; echo $?)" "  and its export has the template"
works "prepare takes its tokenizer" prepare "$tmp/text.txt" --tokenizer "$tmp/qwen3.gguf" --out "$tmp/a.bin"
run prepare "$tmp/text.txt" --tokenizer "$tmp/qwen3" --out "$tmp/b.bin"
result "$(cmp -s "$tmp/a.bin" "$tmp/b.bin"; echo $?)" "  which gives the same ids"

# docs/gguf.md, as it stands there.
mkdir "$tmp/docs"
cp -r "$tmp/run" "$tmp/docs/mine"
cp "$tmp/qwen3.gguf" "$tmp/docs/theirs.gguf"
cp "$tmp/short.txt" "$tmp/docs/text.txt"
ln -s "$bin" "$tmp/docs/siTrain"
awk '/^```/ { inside = $0 == "```sh"; next } inside' docs/gguf.md >"$tmp/lines"
while read -r line; do
    (cd "$tmp/docs" && sh -c "$line") >"$tmp/out" 2>"$tmp/err" </dev/null
    result $? "docs/gguf.md: $line"
done <"$tmp/lines"
same 5 "$(wc -l <"$tmp/lines")" "all its lines"

# What may be replaced.
echo mine >"$tmp/mine.gguf"
refuses 2 "mine.gguf is there and does not begin as GGUF files of siTrain export do" export "$tmp/llama" "$tmp/mine.gguf"
same mine "$(cat "$tmp/mine.gguf")" "somebody's file stays"
ln -s llama.gguf "$tmp/link.gguf"
refuses 2 "link.gguf is there and is not a regular file" export "$tmp/llama" "$tmp/link.gguf"
mkdir "$tmp/folder.gguf"
refuses 2 "folder.gguf is there and is not a regular file" export "$tmp/llama" "$tmp/folder.gguf"
refuses 2 "llama.gguf is also the input" export "$tmp/llama.gguf" "$tmp/llama.gguf"
cp "$tmp/qwen3.gguf" "$tmp/kept.gguf"
cp "$tmp/kept.gguf" "$tmp/before"
if [ -f "$shim" ]; then
    LD_PRELOAD=$shim SHIM_AT=rename:kept.gguf:1:kill "$bin" export "$tmp/llama" "$tmp/kept.gguf" >"$tmp/out" 2>&1
    result "$([ $? = 137 ] && cmp -s "$tmp/kept.gguf" "$tmp/before" && ls "$tmp"/kept.gguf.*.tmp >/dev/null; echo $?)" "a kill before the rename leaves the old file"
    works "the next export clears what it left" export "$tmp/llama" "$tmp/kept.gguf" --gguf-type f32
    result "$(cmp -s "$tmp/kept.gguf" "$tmp/llama.gguf" && ! ls "$tmp"/kept.gguf.*.tmp >/dev/null 2>&1; echo $?)" "  and is whole"
else
    skip "a kill before the rename" "no shim"
fi
cp "$tmp/before" "$tmp/kept.gguf"
(ulimit -f 60 && exec "$bin" export "$tmp/llama" "$tmp/kept.gguf" --gguf-type f32) >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 1 ] && cmp -s "$tmp/kept.gguf" "$tmp/before" && ! ls "$tmp"/kept.gguf.*.tmp >/dev/null 2>&1; echo $?)" "without room the old file stays, and nothing is left"

# Memory holds a part of one tensor: a model of 90 MB takes little more than one of some kilobytes.
PYTHONPATH=tests/bench python3 -c 'import adapters, sys; adapters.make_model(sys.argv[1], [4, 512, 8, 2, 1536, 32000])' "$tmp/large"
cp "$tmp/tok"/* "$tmp/large"
peak() {
    python3 - "$bin" export "$1" "$tmp/peak.gguf" --gguf-type f32 <<'PY'
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(-1 if done.returncode else resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
PY
    rm -f "$tmp/peak.gguf"
}
few=$(peak "$tmp/llama") most=$(peak "$tmp/large")
result "$([ "$few" -gt 0 ] && [ "$most" -gt 0 ] && [ "$most" -lt $((few + 16)) ]; echo $?)" "an export takes $few MiB of memory, of 180 MB it takes $most"
rm -rf "$tmp/large"

# What is refused.
refuses 2 "--gguf-type is for a GGUF file" export "$tmp/llama" "$tmp/none" --gguf-type f16
refuses 2 "expected f16, bf16, f32 or q8_0; llama.cpp's llama-quantize makes other types" export "$tmp/llama" "$tmp/none.gguf" --gguf-type q4_k_m
refuses 2 "--dtype is for a Hugging Face folder" export "$tmp/llama" "$tmp/none.gguf" --dtype bf16
refuses 2 "--max-shard-size is for a Hugging Face folder" export "$tmp/llama" "$tmp/none.gguf" --max-shard-size 1M
cp -r "$tmp/llama" "$tmp/more"
python3 -c 'import json, sys
t = json.load(open(sys.argv[1]))
first = 1 + max([*t["model"]["vocab"].values()] + [a["id"] for a in t["added_tokens"]])
rows = json.load(open(sys.argv[2]))["vocab_size"]
t["added_tokens"] += [{"id": i, "content": f"<|more{i}|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                      for i in range(first, rows + 1)]
json.dump(t, open(sys.argv[1], "w"))' "$tmp/more/tokenizer.json" "$tmp/more/config.json"
rows=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["vocab_size"])' "$tmp/more/config.json")
refuses 2 "the tokenizer has $((rows + 1)) ids, but the model has $rows rows of embeddings" export "$tmp/more" "$tmp/none.gguf"
python3 tests/cli/tiny_folder.py bert "$tmp/bert"
refuses 2 "a GGUF file is written of language models of the families GPT-2, Llama, Mistral, Qwen2, Qwen3, Gemma 3, not of a BERT" export "$tmp/bert" "$tmp/none.gguf"
refuses 2 "is a folder with a GGUF file: give the file itself" import "$(mkdir "$tmp/holds" && cp "$tmp/llama.gguf" "$tmp/holds" && echo "$tmp/holds")" "$tmp/none"

changed() { # PYTHON TEXT: $of.gguf with its bytes `b` changed is refused so
    python3 -c 'import struct, sys
b = bytearray(open(sys.argv[1], "rb").read())
def info(name):  # where the number of its dimensions stands
    return b.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
def put(at, fmt, *v):
    struct.pack_into("<" + fmt, b, at, *v)
def rename(old, new):
    at = b.index(old.encode())
    b[at:at + len(old)] = new.encode()
exec(sys.argv[2])
open(sys.argv[3], "wb").write(b)' "$tmp/$of.gguf" "$1" "$tmp/bad.gguf"
    refuses 2 "$2" import "$tmp/bad.gguf" "$tmp/none"
}
of=gemma3_text
changed 'put(info("gemma3.block_count") + 4, "I", 62); put(info("gemma3.embedding_length") + 4, "I", 32)' "the attention of a Gemma 3 of 62 layers is scaled by width / heads"
of=llama
changed 'put(info("llama.rope.dimension_count"), "If", 6, 1e30)' "llama.rope.dimension_count must be 6"
changed 'put(info("blk.1.ffn_up.weight") + 20, "I", 12)' "tensor blk.1.ffn_up.weight is Q4_K, but F32, F16, BF16 and Q8_0 are read here: llama-quantize --allow-requantize"
changed 'put(info("blk.1.ffn_up.weight") + 20, "I", 99)' "tensor blk.1.ffn_up.weight is of an unknown type"
changed 'put(info("blk.1.ffn_up.weight") + 4, "QQ", 28, 24)' "tensor blk.1.ffn_up.weight does not have the shape"
changed 'rename("blk.1.ffn_up.weight", "blk.1.ffn_xx.weight")' "tensor blk.1.ffn_up.weight is missing"
changed 'rename("blk.2.ffn_up.weight", "blk.1.ffn_up.weight")' "the tensor blk.1.ffn_up.weight is there twice"
changed 'put(info("blk.1.ffn_up.weight") + 24, "Q", 1 << 40)' "blk.1.ffn_up.weight go on behind the end of the file"
changed 'del b[-4000:]' "is truncated: the data of tensor"
changed 'at = info("general.architecture") + 12; b[at:at + 5] = b"l\nama"' "llama.cpp's architecture \"l?ama\", but this version reads gpt2, llama"
changed 'put(info("llama.block_count") + 4, "I", 4)' "is missing"
changed 'put(info("llama.attention.head_count") + 4, "I", 0)' "num_attention_heads"
changed 'rename("llama.context_length", "llama.context_lengtx")' "the key llama.context_length is missing"
changed 'put(info("rope_freqs.weight") + 16, "Q", 32)' "overlap"
changed 'put(b.index(struct.pack("<d", 4.0), info("sitrain.rope.factor")), "d", 9.0)' "are not those of Llama 3.1"
changed 'at = b.index(b"llama-bpe"); b[at + 6:at + 9] = b"xyz"' "splits texts as \"llama-xyz\""
changed 'at = info("general.type") + 12; b[at:at + 5] = b"vocab"' "its type (general.type) is \"vocab\", but a model is expected"
changed 'i = b.index(b"general.file_type") - 8; b[i:i + 25] = struct.pack("<Q", 11) + b"split.count"; put(i + 23, "I", 2)
at = info("general.name") + 4; n = struct.unpack_from("<Q", b, at)[0]; put(at, "Q", n + 6); b[at + 8:at + 8] = b"split "' "is one of the 2 files of a model: llama-gguf-split --merge FIRST.gguf WHOLE.gguf"
refuses 2 "none.gguf: No such file or directory: a GGUF file is expected" import "$tmp/none.gguf" "$tmp/none"
echo "version https://git-lfs.github.com/spec/v1" >"$tmp/lfs.gguf"
refuses 2 "lfs.gguf is no GGUF file: it does not begin with" import "$tmp/lfs.gguf" "$tmp/none"
result "$([ ! -e "$tmp/none" ] && [ ! -e "$tmp/none.gguf" ]; echo $?)" "and nothing was made"

done_testing
