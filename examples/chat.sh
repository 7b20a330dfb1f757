#!/bin/sh
# chat.sh [INIT]: a language model learns to answer in a form: from 500 made-up conversations it learns to say as JSON what a question is about.
# INIT is a Hugging Face folder or a run of siTrain; without it, pretrain.sh's run. The model needs no chat template: turns.jinja is one. 100 other
# questions show whether it answers as well where it has not seen the question. Leaves chat.jsonl, chat-dev.jsonl, turns.jinja, the run answers and
# the folder answers-hf.
set -euC # what is there already is not written over
here=$(dirname "$(realpath "$0")")
command -v siTrain >/dev/null || PATH=$(dirname "$here"):$PATH

[ $# -le 1 ] || { echo "usage: chat.sh [INIT]" >&2; exit 2; }
: >chat.jsonl
: >chat-dev.jsonl
awk 'BEGIN {
    colours = split("red green blue yellow black white brown grey golden silver old young small large cold warm dark bright quiet quick", colour);
    things = split("cat dog ship house tree river stone bird horse book lamp table window garden road bridge letter coat sword crown " \
                   "boat field hill door mirror candle castle forest island mountain", thing);
    for (i = 0; i < 600; i++) { # every pair once
        c = colour[i % colours + 1]; t = thing[int(i / colours) % things + 1]; file = i % 6 ? "chat.jsonl" : "chat-dev.jsonl";
        printf "{\"messages\": [{\"role\": \"user\", \"content\": \"Tell me about the %s %s.\"}, ", c, t >file;
        printf "{\"role\": \"assistant\", \"content\": \"{\\\"thing\\\": \\\"%s\\\", \\\"is\\\": \\\"%s\\\"}\"}]}\n", t, c >file;
    }
}'
cat >turns.jinja <<'TEMPLATE'
{%- for message in messages %}
{{- message.role | title + ':\n' + message.content }}
{%- if message.role == 'assistant' %}{{ eos_token }}{% endif %}
{{- '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'Assistant:\n' }}{% endif %}
TEMPLATE
siTrain prepare chat.jsonl --init "${1:-first}" --chat-template turns.jinja --show 1
siTrain finetune --task chat --init "${1:-first}" --chat-template turns.jinja --train-file chat.jsonl --eval-file chat-dev.jsonl --run answers \
    --epochs 2 --max-seq 64 --lr 2e-4 --keep-best --host-mem 1G --log-every 20
for question in "Tell me about the quiet forest." "Tell me about the golden boat."; do
    echo "$question" | siTrain generate answers --chat --temperature 0 --tokens 20
done
siTrain export answers answers-hf # with the template: transformers' apply_chat_template writes the same turns
