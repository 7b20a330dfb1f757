#!/bin/sh
# A real GPT-2 (30 million parameters), imported: the loss and the greedy continuations that PyTorch computed, and the same from its export.
# Prints TAP. Needs the folder $SITRAIN_DATA with gpt2-30m and text/.
. tests/tap.sh

model=$SITRAIN_DATA/gpt2-30m text=$SITRAIN_DATA/text/wikitext2.test.raw
if [ -z "$SITRAIN_DATA" ] || [ ! -f "$model/reference.json" ] || [ ! -f "$text" ]; then
    skip "gpt2-30m" "SITRAIN_DATA with gpt2-30m and text/wikitext2.test.raw is not there"
    done_testing
fi

works "the text becomes tokens" prepare "$text" --tokenizer "$model" --out "$tmp/all.bin"
# The first 64 windows of 512 and the target of the last: 32,769 tokens, with the header that says so.
first() { # COUNT-AS-4-BYTES BYTES
    { head -c 8 "$tmp/all.bin"; printf "$1"; tail -c +13 "$tmp/all.bin" | head -c 1012; tail -c +1025 "$tmp/all.bin" | head -c "$2"; }
}
first '\001\200\000\000' 65538 >"$tmp/windows.bin"
first '\001\004\000\000' 2050 >"$tmp/two.bin"

reference=$(sed -n 's/.*"mean_loss": \([0-9.]*\).*/\1/p' "$model/reference.json")
close() { # LOSS NAME
    awk -v a="$1" -v b="$reference" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d < 1e-4 && d > -1e-4) }'
    result $? "$2: loss $1, reference $reference"
}
loss_of() { # RUN|HFDIR FILE
    run eval "$1" --data "$2" --seq 512 --batch 8 --dtype fp32 --host-mem 1G
    sed -n 's/^loss //p' "$tmp/out"
}

works "gpt2-30m is imported" import "$model" "$tmp/run" --mode su+o --devices 2 --csd-mem 32M --durability none
close "$(loss_of "$tmp/run" "$tmp/windows.bin")" "the run"

works "exported in shards" export "$tmp/run" "$tmp/shards" --max-shard-size 40M
same "3 1" "$(ls "$tmp/shards" | grep -c '^model-0000[123]-of-00003.safetensors$') $(ls "$tmp/shards" | grep -c '^model.safetensors.index.json$')" "three files and their index"
works "check knows them" check "$tmp/run"
grep -q "shards" "$tmp/out"
result $? "by name"
close "$(loss_of "$tmp/shards" "$tmp/windows.bin")" "the shards"
run export "$tmp/shards" "$tmp/joined"

works "and exported" export "$tmp/run" "$tmp/hf"
run export "$model" "$tmp/direct"
same "$(sha256sum <"$tmp/direct/model.safetensors")" "$(sha256sum <"$tmp/hf/model.safetensors")" "the same file as without a run between"
same "$(sha256sum <"$tmp/hf/model.safetensors")" "$(sha256sum <"$tmp/joined/model.safetensors")" "and as what was in shards"
run export "$tmp/hf" "$tmp/half" --dtype fp16
run export "$tmp/half" "$tmp/back"
same "$(sha256sum <"$tmp/hf/model.safetensors")" "$(sha256sum <"$tmp/back/model.safetensors")" "fp16 holds what was fp16"
same "$(loss_of "$tmp/run" "$tmp/two.bin")" "$(loss_of "$tmp/half" "$tmp/two.bin")" "and gives the same loss"
for f in tokenizer.json vocab.json merges.txt; do
    same "$(sha256sum <"$model/$f")" "$(sha256sum <"$tmp/hf/$f")" "$f is exported as it came"
done

continues() { # PROMPT: the reference's greedy continuation of 40 tokens, its line breaks and quotes as JSON has them
    run generate "$tmp/run" --prompt "$1" --tokens 40 --temperature 0 --dtype fp32
    got_text=$(sed 's/\\/\\\\/g; s/"/\\"/g' "$tmp/out" | awk '{ printf "%s%s", sep, $0; sep = "\\n" }')
    grep -qF "\"text\": \"$got_text\"" "$model/reference.json"
    result $? "greedy: $1"
}
continues "The history of the town"
continues "In 1943 , the"

# examples/chat.sh: it learns to answer as JSON, also to questions that it has not seen, which it could not before.
chat=$PWD/examples/chat.sh
mkdir "$tmp/chat"
(cd "$tmp/chat" && PATH=$(dirname "$bin"):$PATH sh "$chat" "$model") >"$tmp/out" 2>"$tmp/err"
result $? "examples/chat.sh"
grep -qxF '{"thing": "forest", "is": "quiet"}' "$tmp/out" && grep -qxF '{"thing": "boat", "is": "golden"}' "$tmp/out"
result $? "answers two questions that it has not seen"
if grep -q 'quiet forest' "$tmp/chat/chat.jsonl"; then seen=1; else seen=0; fi
same 0 "$seen" "which are not in its conversations"
echo "Tell me about the quiet forest." | "$bin" generate "$model" --chat --chat-template "$tmp/chat/turns.jinja" --temperature 0 --tokens 20 >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 0 ] && [ -s "$tmp/out" ] && ! grep -q '{' "$tmp/out"; echo $?)" "before that it went on with something else"

done_testing
