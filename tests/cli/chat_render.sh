#!/bin/sh
# siTrain prepare --render: rows of every form as a model's chat template writes them, which template of a folder is taken, what is refused, and
# templates that would not end. Prints TAP. (make check-hf compares with transformers.)
. tests/tap.sh

# rendered NAME WANT ARGUMENTS...: stdout, without its last newline, is WANT, and stderr is empty.
rendered() {
    name=$1 want=$2
    shift 2
    run prepare "$@" --render
    [ "$got" = 0 ] && [ "$(cat "$tmp/out")" = "$want" ] && [ ! -s "$tmp/err" ]
    ok=$?
    result $ok "$name"
    [ $ok = 0 ] || printf '# wanted:\n%s\n' "$want"
}

m=$tmp/m
mkdir -p "$m/additional_chat_templates" "$tmp/list" "$tmp/none"
cat >"$m/chat_template.jinja" <<'END'
{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{{ eos_token }}{% endfor %}
{%- if tools %} tools {{ tools | length }}{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}
END
printf '%s' '{% if tools is none %}no {% endif %}{{ strftime_now("%d %b %Y") }}{{ thinking }}' >"$m/additional_chat_templates/day.jinja"
echo '{"bos_token": {"content": "<s>"}, "eos_token": "</s>"}' >"$m/tokenizer_config.json"

printf '%s\n' '{"messages": [{"role": "user", "content": "é😀 \u0085\u2028\n"}, {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}], "tools": [{}, {}]}' '' \
    '{"messages": [{"role": "user", "content": "q"}]}' >"$tmp/a.jsonl"
rendered "messages" '"<s>[user]é😀 \u0085\u2028\n</s>[assistant][{\"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]</s> tools 2"
"<s>[user]q</s>"' "$tmp/a.jsonl" --init "$m"
tail -n 1 "$tmp/a.jsonl" >"$tmp/b.jsonl"
rendered "a generation prompt, other special tokens" '"B[user]qE[assistant]"' "$tmp/b.jsonl" --init "$m" --generation-prompt --bos B --eos E
echo '{"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "system": "s"}' >"$tmp/s.json"
rendered "ShareGPT" '"<s>[system]s</s>[user]q</s>[assistant]a</s>"' "$tmp/s.json" --init "$m"
same '"<s>[system]s</s>[user]q</s>[assistant]a</s>"' "$("$bin" prepare - --render --init "$m" <"$tmp/s.json" 2>&1)" "standard input"
printf 'instruction,input,output\n"a, b",c,d\ne,,f\n' >"$tmp/p.csv"
rendered "Alpaca, as CSV" '"<s>[user]a, b\nc</s>[assistant]d</s>"
"<s>[user]e</s>[assistant]f</s>"' "$tmp/p.csv" --init "$m"
echo '[{"prompt": "p ", "completion": "c"}]' >"$tmp/c.json"
echo '{"text": "t"}' >"$tmp/t.jsonl"
rendered "texts, without a template, and several files" '"p c"
"t"' "$tmp/c.json" "$tmp/t.jsonl" --init "$tmp/none"
echo '{"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]}' >"$tmp/d.jsonl"
rendered "a preference is two texts" '"<s>[user]q</s>[assistant]a</s>"
"<s>[user]q</s>[assistant]b</s>"' "$tmp/d.jsonl" --init "$m"
echo '{"messages": [{"role": "user", "content": "q"}], "text": "t", "chat_template_kwargs": {"thinking": "!"}}' >"$tmp/two.jsonl"
rendered "a form by --rows" '"t"' "$tmp/two.jsonl" --init "$m" --rows text
rendered "a template by its name, the day by --date, and a row's own variables" '"no 29 Feb 2024!"' "$tmp/two.jsonl" --init "$m" --rows messages \
    --chat-template day --date 2024-02-29
printf 'own {{ messages | length }}' >"$tmp/own.jinja"
rendered "a template of one's own" '"own 1"' "$tmp/b.jsonl" --init "$m" --chat-template "$tmp/own.jinja"
echo '{"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]}' >"$tmp/list/tokenizer_config.json"
rendered "tool_use where there are tools" '"t"
"d"' "$tmp/a.jsonl" --init "$tmp/list"

python3 - "$tmp" <<'END'
import gzip, sys
tmp = sys.argv[1]
rows = open(tmp + "/a.jsonl", "rb").read()
open(tmp + "/a.gz", "wb").write(gzip.compress(rows))
open(tmp + "/cut.gz", "wb").write(gzip.compress(rows)[:-9])
END
run prepare "$tmp/a.jsonl" --render --init "$m"
cp "$tmp/out" "$tmp/want"
rendered "a gzip file, whatever its name" "$(cat "$tmp/want")" "$tmp/a.gz" --init "$m"
run prepare "$tmp/cut.gz" --render --init "$m"
[ "$got" = 2 ] && grep -q "cut.gz is a gzip file that was cut off: after" "$tmp/err"
result $? "a gzip file that was cut off is said to be"

for _ in $(seq 3000); do cat "$tmp/a.jsonl"; done >"$tmp/many.jsonl"
{ "$bin" prepare "$tmp/many.jsonl" --render --init "$m" 2>"$tmp/err"; echo $? >"$tmp/code"; } | head -n 1 >"$tmp/null"
same "0" "$(cat "$tmp/code" "$tmp/err")" "a reader that has seen enough is no failure"
printf '{"q": "a ", "r": "b"}\n' >"$tmp/named.jsonl"
rendered "keys that the user names" '"a b"' "$tmp/named.jsonl" --init "$m" --prompt-column q --completion-column r
works "into a file" prepare "$tmp/a.jsonl" --render --init "$m" --out "$tmp/file"
same "$(cat "$tmp/want")" "$(cat "$tmp/file")" "which has the same lines"
refuses 2 "$tmp/file is there" prepare "$tmp/a.jsonl" --render --init "$m" --out "$tmp/file"
refuses 2 "cut off" prepare "$tmp/a.jsonl" "$tmp/cut.gz" --render --init "$m" --out "$tmp/half"
result "$(! ls "$tmp" | grep -q half; echo $?)" "nothing half is left"

refuses 2 "b.jsonl:1: a conversation needs a chat template, and $tmp/none has none: --chat-template FILE" prepare "$tmp/b.jsonl" --render --init "$tmp/none"
refuses 2 "--render needs --init" prepare "$tmp/b.jsonl" --render
refuses 2 "--init $tmp/no: No such file" prepare "$tmp/b.jsonl" --render --init "$tmp/no"
refuses 2 "--vocab and --render exclude" prepare "$tmp/b.jsonl" --render --init "$m" --vocab 300
refuses 2 "--bos goes with --render only" prepare "$tmp/b.jsonl" --bos x --tokenizer "$m" --out "$tmp/x"
refuses 2 "xyz is neither a file nor a chat template of $m, which has: default, day" prepare "$tmp/b.jsonl" --render --init "$m" --chat-template xyz
refuses 2 '--date 2024-02-30: a day is expected' prepare "$tmp/b.jsonl" --render --init "$m" --date 2024-02-30
refuses 2 "fits the forms messages and text: --rows" prepare "$tmp/two.jsonl" --render --init "$m"
refuses 2 "two.jsonl:1: there is no \"chosen\"" prepare "$tmp/two.jsonl" --render --init "$m" --rows preference
printf 'PAR1\001\002\003' >"$tmp/x.parquet"
refuses 2 "x.parquet is a Parquet file, not rows of conversations: python3 -c" prepare "$tmp/x.parquet" --render --init "$m"

# hostile TEXT SAYS: the template ends with a sentence that names row, template and line, in 600 MB and a few seconds
hostile() {
    printf '%s' "$1" >"$tmp/h.jinja"
    run_in=$(command -v timeout)
    (ulimit -v 4000000; exec ${run_in:+timeout 60} "$bin" prepare "$tmp/b.jsonl" --render --init "$m" --chat-template "$tmp/h.jinja") >"$tmp/out" 2>"$tmp/err"
    [ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -qF -- "$2" "$tmp/err" && [ ! -s "$tmp/out" ]
    result $? "a hostile template: $2"
}
hostile '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}' "h.jinja, line 1: "
hostile '{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}' "h.jinja, line 1: "
hostile '{% set ns = namespace(s="aaaaaaaa") %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}' "h.jinja, line 1: "
hostile '{{ "a" * 99999999999 }}' "h.jinja, line 1: "
hostile '{{ "%99999999d" | format(1) }}' "h.jinja, line 1: "
hostile "$(python3 -c 'print("(" * 100000)' | sed 's/^/{{ /')" "h.jinja, line 1: "
hostile '{% include "/etc/passwd" %}' "h.jinja, line 1: "
hostile '{{ messages.__class__.__mro__ }}{{ messages.x.y }}' "h.jinja, line 1: "
hostile '{{ raise_exception("no \u001b[31m rows") }}' 'b.jsonl:1: '
done_testing
