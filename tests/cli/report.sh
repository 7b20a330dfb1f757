#!/bin/sh
# siTrain report on small runs of every mode: what was measured is what was computed, the three formats are well formed, the parts of a
# step add up. Prints TAP. The binary is $SITRAIN, or ./siTrain.
. tests/tap.sh

# Token ids 0..99 as nanoGPT's uint16.
awk 'BEGIN { for (i = 0; i < 4000; i++) printf "%c%c", 33 + (i * 7919) % 90, 0 }' >"$tmp/tokens.bin" 2>/dev/null
[ "$(wc -c <"$tmp/tokens.bin")" -eq 8000 ] || head -c 8000 /dev/zero >"$tmp/tokens.bin"

train() { # MODE OPTIONS...
    mode=$1
    shift
    rm -rf "$tmp/run"
    "$bin" pretrain --run "$tmp/run" --data "$tmp/tokens.bin" --n-layer 5 --n-head 2 --n-embd 64 --vocab 128 --seq 32 --batch 2 \
        --steps "${steps:-4}" --mode "$mode" --csd-mem 1M --threads 1 --quiet "$@" >"$tmp/out" 2>"$tmp/err"
    result $? "pretrain --mode $mode $*"
}

# Every row of traffic that was measured or computed: least, most and computed are one number.
exact() {
    "$bin" report "$tmp/run" --csv >"$tmp/out" 2>"$tmp/err" &&
        awk -F, '$1 == "traffic" { v[$2, $3] = $4; row[$2] = 1 }
                 END { for (r in row) { n++; if (v[r, "least"] != v[r, "most"] || v[r, "most"] != v[r, "computed"]) bad++ }
                       exit bad || !n }' "$tmp/out"
    result $? "mode $1: traffic measured is traffic computed"
}

for mode in base su su+o su+o+c; do
    train $mode --devices 2
    exact $mode
done
train base --compress 10% --dtype fp32 --optimizer sgd --durability none
exact "base, compressed, fp32, sgd"

"$bin" report "$tmp/run" >"$tmp/out" 2>"$tmp/err"
for words in "Breakdown of a step" "Traffic, bytes a step" "Bandwidth per device" "Overlap:"; do
    grep -q "$words" "$tmp/out"
    result $? "report has: $words"
done
adds_up() {
    "$bin" report "$tmp/run" --csv | awk -F, '$1 == "breakdown" { v[$3] = $4 }
        END { d = v["seconds"] - v["forward"] - v["backward_and_gradient_offload"] - v["update_and_optimizer_transfers"] - v["other"]
              exit !(v["seconds"] > 0 && d > -1e-3 && d < 1e-3) }'
    result $? "the breakdown adds up to the step$1"
}
adds_up ""
if command -v python3 >/dev/null; then
    "$bin" report "$tmp/run" --json | python3 -c 'import json, sys; r = json.load(sys.stdin); assert r["steps"]["steps"] == 4 and r["traffic"]'  2>"$tmp/err"
    result $? "--json is JSON"
fi
[ ! -e "$tmp/run/run.db-wal" ]
result $? "a report leaves nothing behind"

train su+o --devices 2 --eval-data "$tmp/tokens.bin" --eval-every 1
adds_up ", evaluations apart"
same "1|2|3|4|" "$(sqlite3 "$tmp/run/run.db" "SELECT DISTINCT step FROM spans WHERE phase = 'eval' ORDER BY step" | tr '\n' '|')" \
    "what evaluations took is there, after the last step too"

# what drives are written, and how long they last that
"$bin" report "$tmp/run" --csv | awk -F, '$1 == "traffic" { v[$2, $3] = $4; row[$2] = 1 } $1 == "written" && $3 == "bytes_per_step" { all += $4; n++ }
    END { for (r in row) if (v[r, "direction"] == "write") sum += v[r, "bytes_per_step"] + v[r, "padding_bytes_per_step"]
          exit !(n == 2 && all > 0 && all - sum < 1 && sum - all < 1) }'
result $? "what the devices are written is what crossed the links"
steps=12
train su --endurance 1G
grep -q 'warning: .* is worn out in' "$tmp/err" && "$bin" report "$tmp/run" | grep -q 'worn out in'
result $? "drives that would not last a year are said: by training, by report"
train su --endurance 1000000T
! grep -q 'worn out' "$tmp/err"
result $? "drives that last are not"
steps=
works "so by plan" plan --probe off --model gpt2 --endurance 600T --steps 1000
grep -q 'a drive of --endurance 600T lasts .* million steps' "$tmp/out"
result $? "in steps"

train mem
"$bin" report "$tmp/run" >"$tmp/out" 2>"$tmp/err" && ! grep -q "Traffic" "$tmp/out"
result $? "mode mem: nothing crosses a link"

done_testing
