#!/bin/sh
# finetune.sh [INIT SST-2]: a classifier by GLUE's SST-2 from INIT, a GPT-2 in a Hugging Face folder or a run of siTrain; SST-2 is the folder that
# GLUE gives (train.tsv, dev.tsv). Without them: from pretrain.sh's run, and a folder of that layout with sentences as simple as they come.
# Gradients go to the devices compressed to 10%. Leaves the folders sst2 and sst2-hf, and without INIT SST-2.
set -eu
here=$(dirname "$(realpath "$0")")
command -v siTrain >/dev/null || PATH=$(dirname "$here"):$PATH

case $# in 0 | 2) ;; *) echo "usage: finetune.sh [INIT SST-2]" >&2; exit 2 ;; esac
if [ $# = 0 ]; then
    mkdir SST-2 # one that is there already is not written over
    awk 'BEGIN {
        split("film story cast music ending script", thing); split("lovely warm funny brilliant", good); split("dull cold tired awful", bad);
        for (i = 0; i < 1200; i++) {
            label = i % 2; file = i % 10 ? "SST-2/train.tsv" : "SST-2/dev.tsv"; if (i % 10 == 0) label = int(i / 10) % 2;
            if (!(file in seen)) { print "sentence\tlabel" >file; seen[file] = 1 }
            printf "the %s is %s\t%d\n", thing[i % 6 + 1], label ? good[int(i / 7) % 4 + 1] : bad[int(i / 7) % 4 + 1], label >file;
        }
    }'
    set -- first SST-2
fi
siTrain finetune --init "$1" --task sst2 --data "$2" --epochs 1 --batch 16 --max-seq 32 --lr 1e-3 --keep-best \
    --mode su+o+c --compress 10% --devices 2 --csd-mem 16M --host-mem 1G --log-every 20 --run sst2
siTrain eval sst2 --task sst2 --data "$2"
siTrain export sst2 sst2-hf # for transformers: GPT2ForSequenceClassification
