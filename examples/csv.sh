#!/bin/sh
# csv.sh [TRAIN.csv DEV.csv]: a classifier of one's own rows, from pretrain.sh's run. The columns may have any names; labels are words or numbers, as
# many as there are. Without files: rows of a made-up post office. Leaves the folder mine, with the
# predictions for DEV.csv's rows in it, and without files mine.csv and mine-dev.csv.
set -euC # what is there already is not written over
here=$(dirname "$(realpath "$0")")
command -v siTrain >/dev/null || PATH=$(dirname "$here"):$PATH

case $# in 0 | 2) ;; *) echo "usage: csv.sh [TRAIN.csv DEV.csv]" >&2; exit 2 ;; esac
if [ $# = 0 ]; then
    for file in mine.csv mine-dev.csv; do
        {
            echo "message,department"
            for i in $(seq 150); do
                echo "\"my parcel number $i, of last week, is lost\",parcels"
                echo "a letter of $i pages has not arrived,letters"
                echo "what does a stamp for $i grams cost,counter"
            done | if [ $file = mine.csv ]; then cat; else tail -n 60; fi
        } >$file
    done
    set -- mine.csv mine-dev.csv
fi
siTrain finetune --init first --train-file "$1" --eval-file "$2" --test-file "$2" --text-column message --label-column department --predict \
    --epochs 2 --batch 16 --max-seq 32 --lr 1e-3 --mode su+o --devices 2 --csd-mem 16M --host-mem 1G --log-every 20 --run mine
head -n 4 mine/predict_results_*.txt
