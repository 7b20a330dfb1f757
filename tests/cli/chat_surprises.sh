#!/bin/sh
# chat_surprises.sh: what users of other trainers were surprised by, and what siTrain does there: answers that no token ends, exports that go on
# behind an answer, texts and tool calls that are not what they look like, thoughts that are lost. Prints TAP.
. tests/tap.sh
export OMP_WAIT_POLICY=passive

m=tests/fixtures/chat_steps/qwen3
printf '{"messages": [{"role": "user", "content": "a ship"}, {"role": "assistant", "content": "the captain %s"}]}\n' sees fears follows >"$tmp/a.jsonl"
trains() { # ARGUMENTS...: a run of one step; what it says in $tmp/err
    rm -rf "$tmp/run" "$tmp/hf"
    run finetune --task chat --run "$tmp/run" --init "$m" --train-file "$tmp/a.jsonl" --steps 1 --mode mem --durability none --threads 1 "$@"
}
says() { # TEXT NAME
    result "$(grep -qF -- "$1" "$tmp/err"; echo $?)" "$2"
}
silent() { # TEXT NAME
    result "$(! grep -qF -- "$1" "$tmp/err"; echo $?)" "$2"
}
stops_at() { # IDS NAME: generation_config.json and config.json of the export
    run export "$tmp/run" "$tmp/hf"
    same "$1 $1" "$(python3 -c 'import json, sys
print(*(json.dumps(json.load(open(sys.argv[1] + "/" + f))["eos_token_id"]).replace(" ", "") for f in ("generation_config.json", "config.json")))' "$tmp/hf")" "$2"
}

# what ends answers: <|endoftext|> is id 0, <|im_end|> id 2
trains
silent "to stop" "the end of answers is learnt"
silent "answers end with" "and known"
stops_at 2 "the export stops where the model did"
cp -r $m "$tmp/base"
m=$tmp/base
sed -i 's/"eos_token": .*/"eos_token": "<|endoftext|>",/' "$m/tokenizer_config.json"
sed -i 's/"eos_token_id": 2/"eos_token_id": 0/' "$m/config.json" "$m/generation_config.json"
trains
says "answers end with <|im_end|>, which the model's generation_config.json did not name: exports of the run stop there, too" \
    "a base model that becomes a chat model stops at its template's token"
stops_at "[0,2]" "so does its export"
rm "$m/generation_config.json"
sed -i '/"eos_token_id"/d' "$m/config.json"
trains
stops_at "[0,2]" "and that of a model that named no end at all"
run finetune --task chat --run "$tmp/next" --init "$tmp/run" --train-file "$tmp/a.jsonl" --steps 1 --mode mem --durability none
silent "answers end with" "a run goes on from another one with what ends answers"
printf '%s\n' '{"prompt": "a ship ", "completion": "sails"}' >"$tmp/b.jsonl"
trains --train-file "$tmp/b.jsonl"
cp "$tmp/a.jsonl" "$tmp/turns.jsonl"
cp "$tmp/b.jsonl" "$tmp/a.jsonl"
trains
stops_at 0 "texts without turns end with the tokenizer's own token alone"
cp "$tmp/turns.jsonl" "$tmp/a.jsonl"

# answers that nothing ends
m=tests/fixtures/chat_steps/qwen3
trains --max-seq 22
says "no row teaches the model to stop: generation stops at <|im_end|>, and all rows are cut off before one: give a larger --max-seq" "rows that are all cut off"
printf '%s' '{% for m in messages %}<|im_start|>{{ m.role }} {% generation %}{{ m.content }}{% endgeneration %}<|im_end|>{% endfor %}' >"$tmp/open.jinja"
trains --chat-template "$tmp/open.jinja"
says "generation stops at <|im_end|>, and none of these counts in the loss" "a template whose {% generation %} ends before the token"
printf '%s' '{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}' >"$tmp/words.jinja"
trains --chat-template "$tmp/words.jinja"
says "the chat template must write one behind an answer" "and one that closes turns by a word"

# texts that spell special tokens
m=tests/fixtures/chat_steps/qwen3
run prepare "$tmp/turns.jsonl" --init "$m" --render
sed 's/.*/{"text": &}/' "$tmp/out" >"$tmp/a.jsonl"
echo '{"text": "a ship"}' >>"$tmp/a.jsonl"
trains
says "3 of 4 training rows spell special tokens, such as <|im_" "rows that a template rendered before"
says "which are plain text there: --special-in-text makes them tokens, as rows that were rendered before need it" "and what reads them"
trains --special-in-text
silent "spell special tokens" "which then is not said"

# what the template does not write as it is meant
cat >"$tmp/tools.jinja" <<'END'
{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>{% endfor %}
END
for arguments in '{"at": "sea"}' '"{\"at\": \"sea\"}"' '"{}"'; do
    printf '%s\n' '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": '"$arguments"'}}]}]}'
done >"$tmp/a.jsonl"
trains --chat-template "$tmp/tools.jinja"
says "1 of 3 training rows have tool calls whose arguments are a text of JSON, which the chat template quotes once more: write them as objects" "arguments as a text"
sed -i 's/ | tojson//' "$tmp/tools.jinja"
sed -i 1d "$tmp/a.jsonl"
trains --chat-template "$tmp/tools.jinja"
silent "quotes once more" "which a template may want"
cat >"$tmp/think.jinja" <<'END'
{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content.split('</think>')[-1] if not loop.last else m.content }}{{ m.reasoning_content if loop.last }}<|im_end|>{% endfor %}
END
say() { printf '%s\n' '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", '"$1"'}, {"role": "user", "content": "b"}, {"role": "assistant", '"$2"'}]}'; }
{
    say '"content": "<think>\nthe sea\n</think>\n\nc"' '"content": "d"'
    say '"content": "c", "reasoning_content": " the sea\n"' '"content": "d"'
    say '"content": "c"' '"content": "<think>the sea</think>d"'
    say '"content": "<think>\n\n</think>c"' '"content": "d", "thinking": "the sea"'
} >"$tmp/a.jsonl"
trains --chat-template "$tmp/think.jinja"
says "2 of 4 training rows have thoughts that the chat template leaves out, and their answers are learnt without: --loss-on last" "thoughts of earlier answers"
trains --chat-template "$tmp/think.jinja" --loss-on last
silent "thoughts" "which does not matter if the last answers alone are learnt"

# what tables make of missing values
{
    printf '%s\n' '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": [{"function": {"name": "f", "parameters": {"properties": {"at": {"default": null}, "to": null}}}}]}'
    printf '%s\n' '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "name": null}], "tools": [{"function": {"name": "f", "parameters": {"properties": {"at": {"default": null}}}}}]}'
    say '"content": "\n"' '"content": "c"'
    say '"content": "\n", "train": false' '"content": "c"'
} >"$tmp/a.jsonl"
printf 'prompt,completion\na,b\nc,\n' >"$tmp/a.csv"
trains --train-file "$tmp/a.csv"
says "1 of 6 training rows have tools with properties that are null, which the chat template writes: leave those out" "tools of a table"
says "2 of 6 training rows have an answer without a word, and teach the model to say nothing" "answers that are missing"

# prompts that end within a token: <| is one of Llama's
mkdir "$tmp/llama"
python3 - "$tmp/llama" <<'END'
import json, sys
said = json.load(open("tests/fixtures/chat.json"))["llama"]
json.dump(said["tokenizer"], open(sys.argv[1] + "/tokenizer.json", "w"))
json.dump(said["config"], open(sys.argv[1] + "/tokenizer_config.json", "w"))
END
python3 tests/cli/tiny_folder.py llama "$tmp/llama" 512 64
m=$tmp/llama
printf '%s\n' '{"prompt": "a<", "completion": "| b"}' '{"prompt": "a", "completion": "<| b"}' '{"prompt": "a<|", "completion": " b"}' >"$tmp/a.jsonl"
trains
says "1 of 3 training rows have a token that a prompt and its completion share" "a prompt that ends within a token"

done_testing
