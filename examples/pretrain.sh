#!/bin/sh
# pretrain.sh [TEXT...]: a small GPT from nothing, its states on two emulated computational storage devices, in a minute. Without a TEXT it learns
# from siTrain's own documentation. Leaves first.txt and the folders tok and first in the current directory; finetune.sh, csv.sh and report.sh go
# on from there.
set -euC # what is there already is not written over
here=$(dirname "$(realpath "$0")")
command -v siTrain >/dev/null || PATH=$(dirname "$here"):$PATH # one that is not installed
[ $# -gt 0 ] || set -- "$here"/../README.md "$here"/../docs/*.md "$here"/../docs/*/*.md
cat "$@" >first.txt

# a tokenizer of the text's own; what the run would take; the run, on to a later end; what it writes
siTrain prepare first.txt --train-tokenizer --vocab 1024 --out tok
set -- --n-layer 2 --n-head 2 --n-embd 64 --seq 64 --batch 8 --lr 3e-3 --warmup 5% --schedule-steps 120 --mode su+o --devices 2 --csd-mem 16M --host-mem 200M
siTrain plan "$@" --data first.txt --tokenizer tok --steps 100
siTrain pretrain "$@" --data first.txt --tokenizer tok --steps 100 --log-every 20 --run first
siTrain pretrain --resume first --steps 120 --log-every 20
siTrain generate first --prompt "A device" --tokens 40 --temperature 0.8 --seed 1
