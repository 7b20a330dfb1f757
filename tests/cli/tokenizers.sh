#!/bin/sh
# Tokenizers of other kinds than byte-level, as a person uses them: text to ids, a model trained on them, texts that it continues, with
# spaces where words begin; what is refused. test_tokenizer_kinds has the ids themselves. Prints TAP.
. tests/tap.sh

make_text 400 >"$tmp/text.txt"
# Llama 2's kind and Metaspace's of the words of the text, each a token that is merged letter by letter; BERT's of the fixture
python3 - "$tmp" <<'END'
import json, os, sys
tmp, mark = sys.argv[1], "\u2581"
words = sorted({mark + w for w in open(tmp + "/text.txt").read().replace(".", " ").split()})
merges = list(dict.fromkeys((w[:k], w[k]) for w in words for k in range(1, len(w))))
names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + sorted({c for w in words for c in w} | {"."}) + [a + b for a, b in merges]
model = {"type": "BPE", "unk_token": "<unk>", "vocab": {n: i for i, n in enumerate(names)}, "merges": merges}
added = [{"id": i, "content": names[i], "special": True, "normalized": False} for i in range(3)]
replace = {"type": "Replace", "pattern": {"String": " "}, "content": mark}
back = {"type": "Replace", "pattern": {"String": mark}, "content": " "}
steps = [back, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
meta = {"type": "Metaspace", "replacement": mark, "prepend_scheme": "always", "split": True}
kinds = {"llama": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": mark}, replace]},
                   "decoder": {"type": "Sequence", "decoders": steps}, "model": {**model, "byte_fallback": True, "fuse_unk": True}},
         "words": {"pre_tokenizer": meta, "decoder": meta, "model": model}}
for name, said in kinds.items():
    os.mkdir(f"{tmp}/{name}")
    json.dump({"added_tokens": added, **said}, open(f"{tmp}/{name}/tokenizer.json", "w"))
os.mkdir(tmp + "/bert")
json.dump(json.load(open("tests/fixtures/tokenizers.json"))["bert"]["tokenizer"], open(tmp + "/bert/tokenizer.json", "w"))
END
printf 'Caf\303\251 \360\237\231\202 zz\n' >"$tmp/odd.txt"

for kind in llama words bert; do
    works "$kind: texts to ids" prepare "$tmp/text.txt" "$tmp/odd.txt" --tokenizer "$tmp/$kind" --out "$tmp/$kind.bin"
done

# words of a model that knows its text by heart follow a prompt with the space that stands there
for kind in llama words; do
    works "$kind: a run" pretrain --run "$tmp/run-$kind" --n-layer 2 --n-head 2 --n-embd 32 --seq 64 --batch 4 --steps 60 --lr 1e-2 --mode mem \
        --durability none --data "$tmp/text.txt" --tokenizer "$tmp/$kind"
    for prompt in "captain follows that" "the sea"; do
        "$bin" generate "$tmp/run-$kind" --prompt "$prompt" --tokens 3 --temperature 0 >"$tmp/out" 2>"$tmp/err" </dev/null
        rest=$(cat "$tmp/out")
        rest=${rest#"$prompt"}
        result "$(case $rest in " "[a-z]*) echo 0 ;; *) echo 1 ;; esac)" "$kind: '$prompt' goes on with a space"
    done
    word=${rest%%.*}
    same "$("$bin" generate "$tmp/run-$kind" --prompt "the sea" --tokens 3 --temperature 0 --stop "$word" 2>"$tmp/err" </dev/null)" \
        "the sea" "$kind: a stop text may begin with the space"
done
same "$(printf 'the sea\n\n' | "$bin" generate "$tmp/run-llama" --chat --tokens 3 --temperature 0 2>"$tmp/err" | cut -c 1)" " " "a conversation, too"

# what is not known
sed 's/"type": "WordPiece", "unk/"type": "Unigram", "unk/' "$tmp/bert/tokenizer.json" >"$tmp/words/tokenizer.json"
refuses 2 "its model is Unigram, but only BPE and WordPiece are known" prepare "$tmp/text.txt" --tokenizer "$tmp/words" --out "$tmp/x.bin"
mkdir "$tmp/vocab"
printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n' >"$tmp/vocab/vocab.txt"
refuses 2 "has no tokenizer_config.json next to it" prepare "$tmp/text.txt" --tokenizer "$tmp/vocab" --out "$tmp/x.bin"
echo '{"do_lower_case": true}' >"$tmp/vocab/tokenizer_config.json"
works "a vocab.txt with its configuration is BERT's" prepare "$tmp/text.txt" --tokenizer "$tmp/vocab" --out "$tmp/x.bin"
for wrong in '{"do_lower_case": 3}' '{"strip_accents": "no"}' '[]'; do
    echo "$wrong" >"$tmp/vocab/tokenizer_config.json"
    refuses 2 "vocab/tokenizer_config.json: " prepare "$tmp/text.txt" --tokenizer "$tmp/vocab" --out "$tmp/x.bin"
done
for name in merges added_tokens; do # lists: of another kind they would be none, and the ids others
    python3 - "$tmp/llama/tokenizer.json" "$tmp/words/tokenizer.json" $name <<'PYTHON'
import json, sys
with open(sys.argv[1]) as f:
    tokenizer = json.load(f)
(tokenizer["model"] if sys.argv[3] == "merges" else tokenizer)[sys.argv[3]] = {"0": "a b"}
with open(sys.argv[2], "w") as f:
    json.dump(tokenizer, f)
PYTHON
    refuses 2 "\"$name\" must be a list" prepare "$tmp/text.txt" --tokenizer "$tmp/words" --out "$tmp/x.bin"
done

# vocab.json and merges.txt: whose they are
python3 - "$tmp" <<'END'
import json, os, sys
folder = sys.argv[1] + "/qwen2"
os.mkdir(folder)
for file, content in json.load(open("tests/fixtures/tokenizers.json"))["qwen2's pair, by config.json"]["files"].items():
    with open(f"{folder}/{file}", "w", encoding="utf-8") as f:
        f.write(content if isinstance(content, str) else json.dumps(content))
END
printf 'e\314\201 is one letter, and 123 three.\n' >"$tmp/e.txt"
mkdir "$tmp/old" # as an older version left it in a run: the pair alone
cp "$tmp/qwen2/merges.txt" "$tmp/old/"
sed 's/<|endoftext|>/<|end|>/' "$tmp/qwen2/vocab.json" >"$tmp/old/vocab.json"
refuses 2 'put {"tokenizer_class": "GPT2Tokenizer"} into tokenizer_config.json there' prepare "$tmp/e.txt" --tokenizer "$tmp/old" --out "$tmp/e.bin"
echo '{"tokenizer_class": "GPT2Tokenizer"}' >"$tmp/old/tokenizer_config.json"
works "a pair that nothing says the class of, after what is advised" prepare "$tmp/e.txt" --tokenizer "$tmp/old" --out "$tmp/e.bin"
works "a pair of Qwen2's, by config.json" prepare "$tmp/e.txt" --tokenizer "$tmp/qwen2" --out "$tmp/e.bin"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok300"
works "a run keeps whose it is" pretrain --run "$tmp/run-qwen2" --n-layer 1 --n-head 2 --n-embd 16 --seq 16 --batch 2 --steps 1 --mode mem \
    --durability none --data "$tmp/text.txt" --tokenizer "$tmp/qwen2"
run prepare "$tmp/e.txt" --tokenizer "$tmp/run-qwen2/tokenizer" --out "$tmp/e2.bin"
same "$(sha256sum <"$tmp/e.bin")" "$(sha256sum <"$tmp/e2.bin")" "and gives the same ids, with no config.json beside it"
python3 - "$tmp" <<'END'
import json, sys
path = sys.argv[1] + "/qwen2/tokenizer_config.json"
said = json.load(open(path))
json.dump({**said, "tokenizer_class": "DebertaTokenizer"}, open(path, "w"))
END
refuses 2 "the tokenizer is a DebertaTokenizer's" prepare "$tmp/e.txt" --tokenizer "$tmp/qwen2" --out "$tmp/x.bin"
rm "$tmp/qwen2/tokenizer_config.json"
echo '{"model_type": "falcon"}' >"$tmp/qwen2/config.json"
refuses 2 "the tokenizer is of the family falcon" prepare "$tmp/e.txt" --tokenizer "$tmp/qwen2" --out "$tmp/x.bin"
rm "$tmp/qwen2/config.json"
refuses 2 "nothing says whose class the tokenizer is: put" prepare "$tmp/e.txt" --tokenizer "$tmp/qwen2" --out "$tmp/x.bin"
rm "$tmp/tok300/tokenizer.json" "$tmp/tok300/tokenizer_config.json"
works "without a class, <|endoftext|> is GPT-2's" prepare "$tmp/e.txt" --tokenizer "$tmp/tok300" --out "$tmp/x.bin"

# a tokenizer of a kind that transformers makes tokenizer.json of: refused wherever it is asked for, and not lost on the way
language_model 100 270 --n-layer 1 --n-head 1 --n-embd 8 --seq 16 --batch 2 --steps 1
run prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/ids.bin"
for file in tokenizer.model spiece.model sentencepiece.bpe.model tekken.json; do
    rm -rf "$tmp/other"
    cp -r "$tmp/hf" "$tmp/other"
    rm "$tmp/other/vocab.json" "$tmp/other/merges.txt"
    mv "$tmp/other/tokenizer.json" "$tmp/other/$file"
    said="from_pretrained('$tmp/other').save_pretrained('$tmp/other')\" makes tokenizer.json"
    refuses 2 "$said" prepare "$tmp/text.txt" --tokenizer "$tmp/other" --out "$tmp/x.bin"
    grep -q "^siTrain prepare: $tmp/other/$file is a .* and no tokenizer.json is beside it" "$tmp/err"
    result $? "  for $file"
done
refuses 2 "$said" import "$tmp/other" "$tmp/none"
refuses 2 "$said" eval "$tmp/other" --data "$tmp/text.txt"
refuses 2 "$said" generate "$tmp/other" --prompt sea
refuses 2 "$said" pretrain --run "$tmp/none" --init "$tmp/other" --data "$tmp/text.txt" --steps 1
works "token ids need none" eval "$tmp/other" --data "$tmp/ids.bin"
works "another folder's is taken" eval "$tmp/other" --data "$tmp/text.txt" --tokenizer "$tmp/tok"
works "  by a run, too" pretrain --run "$tmp/others" --init "$tmp/other" --tokenizer "$tmp/tok" --data "$tmp/text.txt" --steps 1 --mode mem --durability none

# a masked language model's rows stand between two tokens
python3 tests/cli/tiny_folder.py roberta "$tmp/masked" ForMaskedLM
rm "$tmp/masked/vocab.txt" "$tmp/masked/tokenizer_config.json"
refuses 2 "the tokenizer has no template" pretrain --run "$tmp/no" --init "$tmp/masked" --tokenizer "$tmp/tok" --data "$tmp/text.txt" --seq 16 --mask-id 7 --steps 1

done_testing
