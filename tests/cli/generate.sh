#!/bin/sh
# Continuing texts: several prompts at once give what each gives alone, streamed parameters what resident ones do; stop texts, a
# conversation, what is refused. Prints TAP.
. tests/tap.sh

make_text 400 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a run to generate from" pretrain --run "$tmp/run" --n-layer 4 --n-head 2 --n-embd 32 --seq 64 --batch 4 --steps 60 --lr 1e-2 --mode mem \
    --durability none --data "$tmp/text.txt" --tokenizer "$tmp/tok"
run export "$tmp/run" "$tmp/hf"

generates() { # ARGUMENTS...: what is printed, with a mark that keeps line breaks at the end
    "$bin" generate "$tmp/hf" "$@" 2>"$tmp/err" </dev/null
    printf .
}
alone() { # ARGUMENTS...: the three prompts one after the other
    run_one "the sea sees" "$@"
    echo ---
    run_one "a" "$@"
    echo ---
    run_one "every captain follows that ship. the" "$@"
    printf .
}
run_one() { # PROMPT ARGUMENTS...
    one=$1
    shift
    "$bin" generate "$tmp/hf" --prompt "$one" "$@" 2>/dev/null </dev/null
}
printf 'the sea sees\r\na\nevery captain follows that ship. the' >"$tmp/prompts"
three() { generates --prompt "the sea sees" --prompt a --prompt "every captain follows that ship. the" "$@"; }

for kind in "--temperature 0" "--temperature 0 --dtype fp32" "--seed 3 --top-p 90%" "--seed 4 --top-k 5 --batch 2 --threads 3"; do
    same "$(three --tokens 30 $kind)" "$(alone --tokens 30 $kind)" "three prompts at once are what each is alone: $kind"
done
same "$(generates --prompt-file "$tmp/prompts" --tokens 9)" "$(three --tokens 9)" "prompts from a file"
same "$("$bin" generate "$tmp/hf" --prompt-file - --tokens 9 <"$tmp/prompts" 2>/dev/null; printf .)" "$(three --tokens 9)" "  or from standard input"
tr -d '\r' <"$tmp/prompts" | tr '\n' '\r' >"$tmp/returns"
same "$(generates --prompt-file "$tmp/returns" --tokens 9)" "$(three --tokens 9)" "  whose lines end with a carriage return alone"
{ printf '\357\273\277'; tr -d '\r' <"$tmp/prompts" | sed 's/$/\r/'; } >"$tmp/returns"
same "$(generates --prompt-file "$tmp/returns" --tokens 9)" "$(three --tokens 9)" "  or with both, behind a byte order mark"
same "$(run_one a --tokens 20 --seed 1)" "$(run_one a --tokens 20 --seed 1)" "a seed gives one text"
result "$([ "$(run_one a --tokens 20 --seed 1)" != "$(run_one a --tokens 20 --seed 2)" ]; echo $?)" "another seed another one"
same "$(run_one a --tokens 20 --seed 2 --top-p 1e-9)" "$(run_one a --tokens 20 --temperature 0)" "a nucleus of nothing is the likeliest token"
same "$(generates --temperature 0)" "$(generates --temperature 0 --tokens 63)" "without --tokens it ends where the positions do"

# stop texts: cut at every place of the greedy text, so that they begin and end inside tokens
text=$(run_one "the sea sees" --tokens 40 --temperature 0)
bad=0
for n in 14 17 18 21 26 33; do
    stop=$(printf %s "$text" | cut -c "$n-$((n + 6))")
    rest=${text#the sea sees}
    [ "$(run_one "the sea sees" --tokens 40 --temperature 0 --stop nowhere --stop "$stop")" = "the sea sees${rest%%"$stop"*}" ] || bad=$n
done
result "$bad" "a text ends before a stop text, wherever its tokens end"

# more than fits: the smallest --host-mem there is
"$bin" generate "$tmp/hf" --prompt "the sea sees" --host-mem 1M >/dev/null 2>"$tmp/err"
least=$(sed -n 's/.*needs at least \([0-9]*M\).*/\1/p' "$tmp/err")
result "$([ -n "$least" ]; echo $?)" "too little memory: it says how much would do"
same "$(run_one "the sea sees" --tokens 30 --host-mem "$least")" "$(run_one "the sea sees" --tokens 30)" "and with that the text is the same"

# what ends a text besides, by the folder
cp -r "$tmp/hf" "$tmp/ends"
ended() { "$bin" generate "$tmp/ends" --prompt "the sea sees" --tokens 9 --temperature 0 2>"$tmp/err" </dev/null; }
echo '{"eos_token_id": null}' >"$tmp/ends/generation_config.json"
same "$(ended)" "$(run_one "the sea sees" --tokens 9 --temperature 0)" "a generation_config.json that names no end of a text"
echo "{\"eos_token_id\": [$(seq -s , 0 30)]}" >"$tmp/ends/generation_config.json"
works "one that names many" generate "$tmp/ends" --prompt "the sea sees" --tokens 9 --temperature 0
echo '{"eos_token_id": [1, "2"]}' >"$tmp/ends/generation_config.json"
refuses 2 "eos_token_id is no id" generate "$tmp/ends" --prompt "the sea sees"
echo '{"eos_token_id": [1, 99999]}' >"$tmp/ends/generation_config.json"
refuses 2 "eos_token_id 99999 is not below the vocabulary" generate "$tmp/ends" --prompt "the sea sees"
refuses 2 "eos_token_id 99999 is not below the vocabulary" import "$tmp/ends" "$tmp/no"
python3 - "$tmp/hf/vocab.json" >"$tmp/ends/generation_config.json" <<'END'
import json, sys
print(json.dumps({"eos_token_id": [1, json.load(open(sys.argv[1]))["."]]}))
END
whole=$(run_one "the sea sees" --tokens 9 --temperature 0)
same "$(ended)" "${whole%%.*}" "a text ends before any of them"
run import "$tmp/ends" "$tmp/ends-run" --durability none
for at in ends-run ends-hf; do
    same "$("$bin" generate "$tmp/$at" --prompt "the sea sees" --tokens 9 --temperature 0 2>"$tmp/err" </dev/null)" "${whole%%.*}" \
        "so it does in a run that came from the folder, and in what that exports: $at"
    run export "$tmp/ends-run" "$tmp/ends-hf"
done
run pretrain --resume "$tmp/ends-run" --data "$tmp/text.txt" --eval-data "$tmp/text.txt" --eval-every 1 --keep-best --steps 1 --seq 16 --batch 1
run export "$tmp/ends-run/best" "$tmp/ends-best"
same "$(cat "$tmp/ends-best/generation_config.json")" "$(cat "$tmp/ends-hf/generation_config.json")" "and so does its best model"

# a tokenizer with a token more than the model has embeddings: refused where a text or a prompt holds it, by its name and place
cp -r "$tmp/hf" "$tmp/more"
python3 - "$tmp/more" <<'END'
import json, sys
path = sys.argv[1] + "/tokenizer_config.json"
json.dump({**json.load(open(path)), "pad_token": "[PAD]", "extra_special_tokens": {"image_token": "<image>"}}, open(path, "w"))
END
same "$("$bin" generate "$tmp/more" --prompt "the sea sees" --tokens 30 --seed 3 2>"$tmp/err" </dev/null)" "$(run_one "the sea sees" --tokens 30 --seed 3)" \
    "ids beyond the embeddings change nothing of a text without them"
{ make_text 30; printf 'the[PAD] sea\n'; } >"$tmp/pad.txt"
refuses 2 'the prompt: token 2 is "[PAD]" (id 300), but the model has the ids below 300 alone' generate "$tmp/more" --prompt "a[PAD]"
refuses 2 'is "<image>" (id 301)' generate "$tmp/more" --prompt "a<image>"
refuses 2 'pad.txt: token ' eval "$tmp/more" --data "$tmp/pad.txt" --seq 16
refuses 2 'is "[PAD]" (id 300)' pretrain --run "$tmp/no" --init "$tmp/more" --data "$tmp/pad.txt" --seq 16 --steps 1
run eval "$tmp/hf" --data "$tmp/text.txt" --seq 16
cp "$tmp/out" "$tmp/eval.hf"
works "a text without them is measured" eval "$tmp/more" --data "$tmp/text.txt" --seq 16
same "$(cat "$tmp/out")" "$(cat "$tmp/eval.hf")" "and its loss is that of the tokenizer without them"
works "and trained on" pretrain --run "$tmp/run-more" --init "$tmp/more" --data "$tmp/text.txt" --seq 16 --batch 1 --steps 1 --mode mem --durability none
works "prepare has no model to ask" prepare "$tmp/pad.txt" --tokenizer "$tmp/more" --out "$tmp/pad.bin"
refuses 2 "pad.bin" pretrain --run "$tmp/no" --init "$tmp/more" --data "$tmp/pad.bin" --seq 16 --steps 1
printf 'sentence,label\nthe sea,0\nthe[PAD] sea,1\n' >"$tmp/pad.csv"
refuses 2 'pad.csv, row 2: token 2 is "[PAD]"' finetune --run "$tmp/no" --init "$tmp/more" --train-file "$tmp/pad.csv" --steps 1
result "$([ ! -e "$tmp/no" ]; echo $?)" "nothing was made of what was refused"

# generation_config.json's defaults, where an option is not given
cp -r "$tmp/hf" "$tmp/says"
says() { # JSON ARGUMENTS...: what is generated where the file says this
    printf %s "$1" >"$tmp/says/generation_config.json"
    shift
    "$bin" generate "$tmp/says" --prompt "the sea sees" --tokens 30 --seed 5 "$@" 2>"$tmp/err" </dev/null
}
all='{"do_sample": true, "temperature": 0.7, "top_k": 5, "top_p": 0.8, "min_p": 0.3, "repetition_penalty": 1.3}'
same "$(says "$all")" "$(run_one "the sea sees" --tokens 30 --seed 5 --temperature 0.7 --top-k 5 --top-p 0.8 --min-p 30% --repetition-penalty 1.3)" \
    "temperature, top_k, top_p, min_p and repetition_penalty are the file's"
same "$(cat "$tmp/err")" "siTrain generate: the model's generation_config.json says --temperature 0.7 --top-k 5 --top-p 0.8 --min-p 0.3 --repetition-penalty 1.3" \
    "which is said in one line"
same "$(says "$all" --temperature 1 --top-k 0 --min-p 0 --repetition-penalty 1)" "$(run_one "the sea sees" --tokens 30 --seed 5 --top-p 0.8)" \
    "an option that is given counts instead, one of its default, too"
same "$(cat "$tmp/err")" "siTrain generate: the model's generation_config.json says --top-p 0.8" "and only the others are named"
same "$(says '{"do_sample": false, "top_k": 3}')" "$(run_one "the sea sees" --tokens 30 --temperature 0)" "do_sample false is the likeliest token"
same "$(cat "$tmp/err")" "siTrain generate: the model's generation_config.json says --temperature 0" "as a temperature"
same "$(says '{"temperature": null}')" "$(run_one "the sea sees" --tokens 30 --seed 5)" "null says nothing"
result "$([ ! -s "$tmp/err" ]; echo $?)" "and is not spoken of"
result "$([ "$(run_one "the sea sees" --tokens 30 --temperature 0 --repetition-penalty 1.5)" != "$(run_one "the sea sees" --tokens 30 --temperature 0)" ]; echo $?)" \
    "a penalty changes the likeliest text"
result "$([ "$(run_one "the sea sees" --tokens 30 --seed 5 --min-p 1)" = "$(run_one "the sea sees" --tokens 30 --temperature 0)" ]; echo $?)" \
    "nothing but the likeliest token has all of its probability"
# what would change the text and is not computed is said
same "$(says '{"do_sample": false, "num_beams": 4, "no_repeat_ngram_size": 3, "suppress_tokens": [5], "typical_p": 0.5, "max_length": 20}')" \
    "$(run_one "the sea sees" --tokens 30 --temperature 0)" "beams, ngrams and suppressed tokens are not computed"
same "$(tail -n 1 "$tmp/err")" "siTrain generate: the model's generation_config.json sets num_beams, no_repeat_ngram_size, suppress_tokens, which are not computed here: texts are generated without" \
    "  which is said"
says '{"typical_p": 0.5}' >"$tmp/out"
same "$(cat "$tmp/err")" "siTrain generate: the model's generation_config.json sets typical_p, which is not computed here: texts are generated without" "  of one, too"
says '{"num_beams": 1, "no_repeat_ngram_size": 0, "suppress_tokens": [], "bad_words_ids": null, "typical_p": 1.0, "min_p": null, "token_healing": false}' >"$tmp/out"
result "$([ ! -s "$tmp/err" ]; echo $?)" "  what changes nothing is not spoken of"
echo '{"temperature": "hot"}' >"$tmp/says/generation_config.json"
refuses 2 '"temperature" must be a number from 0 to 1e+06: give --temperature' generate "$tmp/says" --prompt a
works "which counts instead" generate "$tmp/says" --prompt a --temperature 0 --tokens 2
printf %s "$all" >"$tmp/says/generation_config.json"
run import "$tmp/says" "$tmp/says-run" --durability none
same "$("$bin" generate "$tmp/says-run" --prompt "the sea sees" --tokens 30 --seed 5 2>"$tmp/err" </dev/null)" "$(says "$all")" "a run keeps them"

# what stands beside a tokenizer comes along, byte for byte; no token begins texts that the source has none for
printf '{%%- for m in messages %%}\r\n{{ m.content }}' >"$tmp/says/chat_template.jinja"
python3 -c 'import sys
for piece in ("<unk>", "\u2581the", "sea"):
    text = piece.encode()
    inner = b"\n" + bytes([len(text)]) + text + b"\x15\0\0\0\0"
    sys.stdout.buffer.write(b"\n" + bytes([len(inner)]) + inner)' >"$tmp/says/tokenizer.model"
python3 - "$tmp/says" <<'END'
import json, sys
for name, change in (("config.json", {"bos_token_id": None}), ("tokenizer_config.json", {"bos_token": None}),
                     ("special_tokens_map.json", {"bos_token": None}), ("generation_config.json", {})):
    path = f"{sys.argv[1]}/{name}"
    said = {**json.load(open(path)), **change}
    if not change:
        said.pop("bos_token_id", None)
    json.dump(said, open(path, "w"))
END
run import "$tmp/says" "$tmp/beside-run" --durability none
run pretrain --resume "$tmp/beside-run" --data "$tmp/text.txt" --eval-data "$tmp/text.txt" --eval-every 1 --keep-best --steps 1 --seq 16 --batch 1
run export "$tmp/beside-run" "$tmp/beside-hf"
run export "$tmp/says" "$tmp/beside-direct"
run pretrain --run "$tmp/beside-own" --n-layer 1 --n-head 2 --n-embd 16 --seq 16 --batch 1 --steps 1 --mode mem --durability none --data "$tmp/text.txt" \
    --tokenizer "$tmp/says" --eval-data "$tmp/text.txt" --eval-every 1 --keep-best
run export "$tmp/beside-own" "$tmp/beside-of-own"
for at in beside-run/best beside-hf beside-direct beside-own/best beside-of-own; do
    same "$(cat "$tmp/$at/chat_template.jinja" "$tmp/$at/tokenizer.model" | sha256sum)" "$(cat "$tmp/says/chat_template.jinja" "$tmp/says/tokenizer.model" | sha256sum)" \
        "$at has the chat template and SentencePiece's model"
    same "$(python3 -c 'import json, sys; a, b = (json.load(open(sys.argv[1] + "/" + n)) for n in ("config.json", "generation_config.json")); print(a["bos_token_id"], b.get("bos_token_id"), a["eos_token_id"])' "$tmp/$at")" \
        "None None 299" "and no beginning of a text"
done

# config.json's pad_token_id stays in config.json; one that generation_config.json alone has does not come there
pads() { # FOLDER: the pad_token_id of both files
    python3 -c 'import json, sys; print(*(json.load(open(sys.argv[1] + "/" + n)).get("pad_token_id") for n in ("config.json", "generation_config.json")))' "$1"
}
for what in "5 5" "None 6" "5 6"; do
    rm -rf "$tmp"/pads*
    cp -r "$tmp/hf" "$tmp/pads"
    rm -f "$tmp/pads/generation_config.json"
    [ "$what" = "5 5" ] || echo '{"pad_token_id": 6}' >"$tmp/pads/generation_config.json"
    [ "$what" = "None 6" ] || sed -i 's/"vocab_size"/"pad_token_id": 5, "vocab_size"/' "$tmp/pads/config.json"
    run pretrain --run "$tmp/pads-run" --init "$tmp/pads" --data "$tmp/text.txt" --eval-data "$tmp/text.txt" --eval-every 1 --keep-best --steps 1 \
        --seq 16 --batch 1 --mode mem --durability none
    run export "$tmp/pads-run" "$tmp/pads-hf"
    run export "$tmp/pads" "$tmp/pads-direct"
    for at in pads-run/best pads-hf pads-direct; do
        same "$what" "$(pads "$tmp/$at")" "$at: pad_token_id of config.json and generation_config.json ($what)"
    done
done

# a conversation
chat() { printf "$1" | "$bin" generate "$tmp/hf" --chat --temperature 0 --dtype fp32 --tokens "$2" 2>"$tmp/err"; }
first=$(run_one "the sea sees" --temperature 0 --dtype fp32 --tokens 8)
second=$(run_one "$first
a ship" --temperature 0 --dtype fp32 --tokens 8)
same "$(chat 'the sea sees\na ship\n\nnot read\n' 8)" "${first#the sea sees}
${second#"$first
a ship"}" "a conversation goes on with all that was said"
chat 'the sea sees\na ship\nthe captain\nthe storm\n' 30 >"$tmp/out"
result "$([ $? = 0 ] && [ "$(wc -l <"$tmp/out")" -ge 4 ] && grep -q "goes on with the latest 32 tokens" "$tmp/err"; echo $?)" \
    "and with the latest half where the positions are used up"
two="--chat --temperature 0 --tokens 6 --seq 2"
text=$(printf 'a\n' | "$bin" generate "$tmp/hf" $two 2>/dev/null)
stop=$(echo "$text" | tail -c +3)
short=$(printf 'a\n' | "$bin" generate "$tmp/hf" $two --stop "$stop" 2>"$tmp/err" || echo failed)
same "<$short>" "<$(printf %s "${text%%"$stop"*}")>" "a stop text longer than what is left of the conversation"

# whoever reads may go
"$bin" generate "$tmp/hf" --prompt a --batch 500 2>"$tmp/err" | head -c 1 >/dev/null
"$bin" generate "$tmp/hf" --prompt a --tokens 5 >/dev/full 2>"$tmp/full"
result "$([ $? = 1 ] && [ ! -s "$tmp/err" ] && grep -q "writing to stdout" "$tmp/full"; echo $?)" "a closed pipe is no failure, a full disk is"

refuses 2 "the prompt has 3 tokens, with --tokens 63 more than the 64 positions" generate "$tmp/hf" --prompt "the sea" --tokens 63
make_text 20 | tr '\n' ' ' >"$tmp/long"
refuses 2 "long:1 has" generate "$tmp/hf" --prompt-file "$tmp/long"
printf 'a\n\nb\n' >"$tmp/gap"
refuses 2 "gap:2: the line is empty" generate "$tmp/hf" --prompt-file "$tmp/gap"
refuses 2 "give one of them" generate "$tmp/hf" --prompt a --prompt-file "$tmp/gap"
if has_terminals; then
    python3 tests/cli/on_tty.py 80 --key "> " "$bin" generate "$tmp/hf" --chat >"$tmp/out" 2>&1
    result "$(grep -q "^An empty line ends it; Ctrl-C stops an answer" "$tmp/out"; echo $?)" "on a terminal a chat says first how it ends"
else
    skip "a chat on a terminal" "no python3, or no pseudo-terminals"
fi
refuses 2 "one conversation" generate "$tmp/hf" --chat --batch 2
refuses 2 "1 to 1024 sequences" generate "$tmp/hf" --prompt a --batch 2000
refuses 2 "--top-p" generate "$tmp/hf" --prompt a --top-p 1.5

# a prompt that spells the beginning of a text, as one that a chat template wrote does, begins once
mkdir "$tmp/begins"
python3 - "$tmp/begins" <<'END'
import json, sys
said = json.load(open("tests/fixtures/chat.json"))["llama"]
json.dump(said["tokenizer"], open(sys.argv[1] + "/tokenizer.json", "w"))
json.dump(said["config"], open(sys.argv[1] + "/tokenizer_config.json", "w"))
END
python3 tests/cli/tiny_folder.py llama "$tmp/begins" 512 64
for prompt in "a ship" "<|begin_of_text|>a ship"; do
    refuses 2 "the prompt has 7 tokens" generate "$tmp/begins" --prompt "$prompt" --seq 7 --tokens 1 --threads 1
done
echo "<|begin_of_text|>a ship" | "$bin" generate "$tmp/begins" --chat --seq 7 --tokens 1 --threads 1 >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 0 ] && ! grep -q "positions are used" "$tmp/err"; echo $?)" "and so has a chat without a template"

done_testing
