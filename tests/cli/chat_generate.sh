#!/bin/sh
# chat_generate.sh: `siTrain generate --chat` in the words of a chat template. Prints TAP.
. tests/tap.sh
export OMP_WAIT_POLICY=passive

make_text 80 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a model" pretrain --run "$tmp/run" --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 16 --seq 256 --batch 2 --steps 3 --quiet --threads 1
works "its folder" export "$tmp/run" "$tmp/hf"
cat >"$tmp/hf/chat_template.jinja" <<'T'
{%- for m in messages %}{{ m.role + ':' + m.content + '<|endoftext|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ 'assistant:' }}{% endif %}
T
how="--temperature 0 --dtype fp32 --threads 1 --tokens 12"
chat() { printf "$1" | "$bin" generate "$tmp/hf" --chat $how $2 2>"$tmp/err" >"$tmp/said"; } # LINES OPTIONS
plain() { # MESSAGES: the answer to a conversation, as a continuation of its rendered text
    printf '{"messages": [%s]}\n' "$1" >"$tmp/row.jsonl"
    "$bin" prepare "$tmp/row.jsonl" --init "$tmp/hf" --render --generation-prompt >"$tmp/rendered" 2>"$tmp/err" || return
    prompt=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1])))' "$tmp/rendered")
    "$bin" generate "$tmp/hf" --prompt "$prompt" $how 2>"$tmp/err" | python3 -c 'import sys; sys.stdout.write(sys.stdin.read()[len(sys.argv[1]):])' "$prompt"
}
quoted() { python3 -c 'import json, sys; print(json.dumps(sys.argv[1]))' "$1"; }

chat 'the sea\na ship\n\nnot read\n'
first=$(plain '{"role": "user", "content": "the sea"}')
result "$([ -n "$first" ] && [ "$(head -c ${#first} "$tmp/said")" = "$first" ]; echo $?)" "the first answer is that to the rendered conversation"
second=$(plain "{\"role\": \"user\", \"content\": \"the sea\"}, {\"role\": \"assistant\", \"content\": $(quoted "$first")}, {\"role\": \"user\", \"content\": \"a ship\"}")
same "$(printf '%s\n%s' "$first" "$second")" "$(cat "$tmp/said")" "and the second one, with the first turn before it"
result "$(grep -q "no chat template" "$tmp/err"; [ $? = 1 ]; echo $?)" "nothing is said of a missing template"

chat 'the sea\n' "--system ahoy"
same "$(plain '{"role": "system", "content": "ahoy"}, {"role": "user", "content": "the sea"}')" "$(cat "$tmp/said")" "a system message stands first"
chat '' "--prompt sea"
same "$(plain '{"role": "user", "content": "sea"}')" "$(cat "$tmp/said")" "--prompt is the first message"

# a template that closes answers by a text: the first three bytes of what the model says, which is all colons
closing=$(printf %s "$first" | cut -c 1-3)
sed "s/ + '<|endoftext|>' }}/ }}{{ '$closing\\\\n' if m.role == 'assistant' else '<|endoftext|>' }}/" "$tmp/hf/chat_template.jinja" >"$tmp/close.jinja"
chat 'the sea\n' "--chat-template $tmp/close.jinja"
result "$(grep -qF "'$closing\\n'" "$tmp/close.jinja" && printf '\n' | cmp -s - "$tmp/said"; echo $?)" "a text that closes answers ends one, and is not printed"

i=0
while [ $i -lt 12 ]; do echo "the sea sees a ship and the captain follows the storm"; i=$((i + 1)); done >"$tmp/lines"
"$bin" generate "$tmp/hf" --chat $how --seq 96 <"$tmp/lines" >"$tmp/said" 2>"$tmp/err"
result "$([ $? = 0 ] && [ "$(grep -c "oldest turns are left out" "$tmp/err")" = 1 ]; echo $?)" "a conversation that is longer than the positions loses its oldest turns, which is said once"
"$bin" generate "$tmp/hf" --chat $how --seq 16 <"$tmp/lines" >"$tmp/said" 2>"$tmp/err"
result "$([ $? = 2 ] && grep -q "the message has .* tokens" "$tmp/err"; echo $?)" "a message that does not fit alone is refused"

cp -r "$tmp/hf" "$tmp/bare"
rm "$tmp/bare/chat_template.jinja"
printf 'the sea\n' | "$bin" generate "$tmp/bare" --chat $how >"$tmp/said" 2>"$tmp/err"
result "$([ $? = 0 ] && grep -q "has no chat template: the model continues the text as it stands" "$tmp/err"; echo $?)" "without a template that is said, and the text goes on"
printf 'the sea\n' | "$bin" generate "$tmp/bare" --chat $how --chat-template "$tmp/hf/chat_template.jinja" >"$tmp/said" 2>"$tmp/err"
same "$first" "$(cat "$tmp/said")" "--chat-template FILE gives one"
"$bin" generate "$tmp/hf" --chat $how <"$tmp" >"$tmp/said" 2>"$tmp/err"
same "1 1" "$? $(grep -c "read standard input: Is a directory" "$tmp/err")" "an input that cannot be read is no end of it"
refuses 2 "needs a chat template" generate "$tmp/bare" --chat --system ahoy
refuses 2 "other is neither a file nor a chat template of" generate "$tmp/hf" --chat --chat-template other
refuses 2 "give --chat too" generate "$tmp/hf" --prompt x --system ahoy
printf '{%% for m in messages %%}{%% if m.role == "assistant" %%}{{ m.content }}{%% endif %%}{%% endfor %%}' >"$tmp/hf/chat_template.jinja"
refuses 2 "the chat template writes nothing for this conversation" generate "$tmp/hf" --chat --prompt x
printf '{{ raise_exception("no such role") }}' >"$tmp/hf/chat_template.jinja"
refuses 2 "no such role" generate "$tmp/hf" --chat --prompt x

done_testing
