#!/bin/sh
# siTrain prepare --show: rows as tokens, and which count in the loss; on a terminal, too. Prints TAP. (tests/test_chat_encode.c compares with
# transformers and TRL.)
. tests/tap.sh

m=$tmp/m
mkdir -p "$m" "$tmp/none"
python3 - "$m" "$tmp/none" <<'END'
import json, sys
said = json.load(open("tests/fixtures/chat.json"))["qwen"]
for folder in sys.argv[1:]:
    json.dump(said["tokenizer"], open(folder + "/tokenizer.json", "w"))
    json.dump(said["config"], open(folder + "/tokenizer_config.json", "w"))
open(sys.argv[1] + "/chat_template.jinja", "w").write("{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}")
END
printf '%s\n' '{"messages": [{"role": "user", "content": "a<|im_end|>"}, {"role": "assistant", "content": "b\u001b\n"}]}' \
    '{"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}, {"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}]}' >"$tmp/a.jsonl"

# shown NAME WANT ARGUMENTS...: the texts of all tokens, those that count in [ ]
shown() {
    name=$1 want=$2
    shift 2
    run prepare "$@" --init "$m"
    marked=$(awk -F '\t' 'function mark(on) { if (on != was) printf "%s", on ? "[" : "]"; was = on }
                          NF == 3 { mark($2 == "+" ? 1 : 0); printf "%s", $3; next }
                          { mark(0); if (NR != 1) printf " / " } END { mark(0) }' "$tmp/out")
    [ "$got" = 0 ] && [ "$marked" = "$want" ] && [ ! -s "$tmp/err" ]
    ok=$?
    result $ok "$name"
    [ $ok = 0 ] || printf '# wanted %s\n# got    %s\n' "$want" "$marked"
}

shown "a row" '<|im_start|>user:a<|im_end|><|im_end|>\n<|im_start|>assistant:[b\x1b\n<|im_end|>]\n' "$tmp/a.jsonl" --show 1
result "$(grep -c '<|im_end|>$' "$tmp/out" | sed 's/^2$/0/')" "whose user spells a control token, and does not get it"
shown "but may, if asked" '<|im_start|>user:a<|im_end|><|im_end|>\n<|im_start|>assistant:[b\x1b\n<|im_end|>]\n' "$tmp/a.jsonl" --show 1 --special-in-text
result "$(grep -c '<|im_end|>$' "$tmp/out" | sed 's/^3$/0/')" "and then gets it"
tail -n 1 "$tmp/a.jsonl" >"$tmp/b.jsonl"
before='<|im_start|>user:c<|im_end|>\n<|im_start|>assistant:'
shown "the last answer" "${before}d<|im_end|>\\n<|im_start|>user:e<|im_end|>\\n<|im_start|>assistant:[f<|im_end|>]\\n" "$tmp/b.jsonl" --show 9 --loss-on last
shown "all answers" "${before}[d<|im_end|>]\\n<|im_start|>user:e<|im_end|>\\n<|im_start|>assistant:[f<|im_end|>]\\n" "$tmp/b.jsonl" --show 9
shown "all" "[${before}d<|im_end|>\\n<|im_start|>user:e<|im_end|>\\n<|im_start|>assistant:f<|im_end|>\\n]" "$tmp/b.jsonl" --show 9 --loss-on all
echo '{"prompt": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "train": false}, {"role": "user", "content": "e"}], "completion": [{"role": "assistant", "content": "f"}]}' >"$tmp/q.jsonl"
shown "a prompt does not count" "${before}d<|im_end|>\\n<|im_start|>user:e<|im_end|>\\n<|im_start|>assistant:[f<|im_end|>]\\n" "$tmp/q.jsonl" --show 1
shown "but where all does, except for a turn that never counts" "[${before}]d<|im_end|>[\\n<|im_start|>user:e<|im_end|>\\n<|im_start|>assistant:f<|im_end|>\\n]" "$tmp/q.jsonl" --show 1 --loss-on all
echo '{"prompt": "a", "chosen": "b", "rejected": "c"}' >"$tmp/p.jsonl"
shown "both answers of a preference" 'a[b<|im_end|>] / a[c<|im_end|>]' "$tmp/p.jsonl" --show 1
result "$(grep -c "^$tmp/p.jsonl:1: [a-z]*: 3 tokens, 2 count$" "$tmp/out" | sed 's/^2$/0/')" "with their tokens"

python3 - "$bin" "$tmp/b.jsonl" "$m" >"$tmp/tty" <<'END'
import os, pty, sys
for color in (True, False):
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": "" if color else "1"}
    out = b""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(sys.argv[1], [sys.argv[1], "prepare", sys.argv[2], "--init", sys.argv[3], "--show", "1"], env)
    try:
        while piece := os.read(fd, 4096):
            out += piece
    except OSError:
        pass
    os.waitpid(pid, 0)
    print(out.decode().replace("\r\n", "\n").replace("\033", "^"))
END
grep -qF '^[32md^[' "$tmp/tty" && grep -qF '^[0mc^[' "$tmp/tty"
result $? "in colour on a terminal"
grep -qF '|:|[d|<|im_end|>]|\n' "$tmp/tty"
result $? "in brackets, if colours are not wanted"

for _ in $(seq 3000); do cat "$tmp/b.jsonl"; done >"$tmp/many.jsonl"
{ "$bin" prepare "$tmp/many.jsonl" --show 9000 --init "$m" 2>"$tmp/err"; echo $? >"$tmp/code"; } | head -n 1 >"$tmp/null"
same "0" "$(cat "$tmp/code" "$tmp/err")" "a reader that has seen enough is no failure"

printf 'Ask,Say\na,b\n' >"$tmp/named.csv"
refuses 2 "--prompt-column, --completion-column and --text-column name other keys" prepare "$tmp/named.csv" --show 1 --init "$m"
shown "columns of other names" 'a[b<|im_end|>]' "$tmp/named.csv" --show 1 --prompt-column Ask --completion-column Say
refuses 2 "--prompt-column goes with --render or --show only" prepare "$tmp/named.csv" --prompt-column Ask --tokenizer "$m" --out "$tmp/x"
echo '{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}' >"$tmp/parts.jsonl"
echo "{% for m in messages %}{{ m.role + ':' + m.content }}{% endfor %}" >"$tmp/adds.jinja"
refuses 2 'the "content" of message 1 is a list of parts, and a template may want a text there' \
    prepare "$tmp/parts.jsonl" --show 1 --init "$m" --chat-template "$tmp/adds.jinja"
echo "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}" >"$tmp/writes.jinja"
refuses 2 'parts.jsonl:1: the "content" of message 1 is a list of parts, and the chat template takes texts alone' \
    prepare "$tmp/parts.jsonl" --show 1 --init "$m" --chat-template "$tmp/writes.jinja"
run prepare "$tmp/parts.jsonl" --render --init "$m" --chat-template "$tmp/writes.jinja"
same "\"user:[{'type': 'text', 'text': 'a'}]\"" "$(cat "$tmp/out")" "  which --render shows as it would be written"
echo "{% for m in messages %}{{ m.role }}:{{ m.content | tojson }}{% endfor %}" >"$tmp/json.jinja"
run prepare "$tmp/parts.jsonl" --show 1 --init "$m" --chat-template "$tmp/json.jinja"
same "0" "$got" "a template that writes lists as JSON means to"
echo "{% for m in messages %}{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}" >"$tmp/takes.jinja"
run prepare "$tmp/parts.jsonl" --render --init "$m" --chat-template "$tmp/takes.jinja"
same '"user:a"' "$(cat "$tmp/out")" "a template that takes lists of parts"

refuses 2 "b.jsonl:1: a conversation needs a chat template" prepare "$tmp/b.jsonl" --show 1 --init "$tmp/none"
refuses 2 "--show needs --init" prepare "$tmp/b.jsonl" --show 1
refuses 2 "--show and --render exclude each other" prepare "$tmp/b.jsonl" --show 1 --render --init "$m"
refuses 2 "--eos goes with --render only" prepare "$tmp/b.jsonl" --show 1 --eos x --init "$m"
refuses 2 "--loss-on goes with --show only" prepare "$tmp/b.jsonl" --render --loss-on all --init "$m"
refuses 2 "--date goes with --render or --show only" prepare "$tmp/b.jsonl" --date 2024-01-01 --tokenizer "$m" --out "$tmp/x"
refuses 2 "--out and --show exclude each other" prepare "$tmp/b.jsonl" --show 1 --init "$m" --out "$tmp/x"
done_testing
