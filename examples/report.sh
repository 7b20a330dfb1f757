#!/bin/sh
# report.sh [RUN]: what a run has measured, pretrain.sh's without a RUN: in words, as a page for a browser, as rows for a spreadsheet, as JSON for a
# program, and asked of its database. Leaves report.html, report.csv, report.json and again.conf.
set -euC # what is there already is not written over
here=$(dirname "$(realpath "$0")")
command -v siTrain >/dev/null || PATH=$(dirname "$here"):$PATH
run=${1:-first}

siTrain report "$run"
siTrain report "$run" --html report.html
siTrain report "$run" --csv >report.csv
siTrain report "$run" --json >report.json
siTrain report "$run" --config >again.conf # siTrain pretrain --config again.conf --run NEW makes the same run again
siTrain report "$run" --sql breakdown      # a question that it brings along; --sql list says which there are
if command -v sqlite3 >/dev/null; then
    # or one's own: the slowest steps
    sqlite3 -readonly -header -column "$run/run.db" \
        'SELECT step + 1 AS step, round(loss, 3) AS loss, round(seconds, 3) AS seconds FROM steps ORDER BY seconds DESC LIMIT 5'
fi
