#!/bin/sh
# examples/train.c, a program that has siTrain in it: it trains, says what it asked to hear and nothing else; what it made is a run like
# any other. Prints TAP.
. tests/tap.sh

train=${SITRAIN_EXAMPLES:-build/examples}/train
make_text 300 >"$tmp/text.txt"

"$train" "$tmp/text.txt" "$tmp/dir" >"$tmp/out" 2>"$tmp/err"
result $? "the example trains"
same "$(grep -c '^step' "$tmp/out") $(grep -c '^loss .* over .* tokens$' "$tmp/out") $(wc -l <"$tmp/out")" "20 2 22" \
    "it prints its steps and evaluations, and nothing else"
[ ! -s "$tmp/err" ]
result $? "nothing is on stderr"
awk '/^loss/ { if (last && $2 >= last) exit 1; last = $2 }' "$tmp/out"
result $? "the loss falls"
works "the run is whole" check "$tmp/dir/run"
works "it goes on" pretrain --resume "$tmp/dir/run" --steps 21 --schedule-steps 21 --quiet
"$train" "$tmp/text.txt" "$tmp/dir" >"$tmp/out" 2>"$tmp/err"
same "$? $(cat "$tmp/err")" "1 $tmp/dir: a folder that does not exist is expected" "a folder that is there is refused in words"
done_testing
