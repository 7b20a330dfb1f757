#!/bin/sh
# siTrain report on small runs of every mode: what was measured is what was computed, text, CSV, JSON, pages, questions and the database
# agree, the parts of a step add up; several runs; what strangers write into a run.db. Prints TAP. The binary is $SITRAIN, or ./siTrain.
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

# all forms of one run; several runs beside the first
agree() { # NAME RUN...
    name=$1
    shift
    python3 tests/cli/report_forms.py "$bin" "$@" >"$tmp/out" 2>"$tmp/err"
    result $? "$name: the forms and run.db agree"
}
steps=12
train su+o --devices 3 --eval-data "$tmp/tokens.bin" --eval-every 5
mv "$tmp/run" "$tmp/three"
train base --compress 10% --dtype fp32 --endurance 600T
mv "$tmp/run" "$tmp/other"
train mem
mv "$tmp/run" "$tmp/mem"
steps=
agree "su+o" "$tmp/three"
"$bin" report "$tmp/three" >"$tmp/out" 2>"$tmp/err"
python3 - "$tmp/three/run.db" "$tmp/out" <<'EOF'
import re, sqlite3, sys
size = lambda n, unit: float(n) * {"KiB": 2**10, "MiB": 2**20}[unit]
peak = sqlite3.connect(sys.argv[1]).execute("SELECT max(peak_rss) FROM steps").fetchone()[0]
said = open(sys.argv[2]).read()
found = re.search(r"^Peak resident memory: ([\d.]+) (.iB) \+ ([\d.]+) (.iB) devices$", said, re.M).groups()
assert abs(size(*found[:2]) + size(*found[2:]) - peak) < 0.01 * peak, (found, peak)
assert re.search(rf"^  peak of the process, these apart *{re.escape(found[0])} {found[1]} ", said, re.M), said
EOF
result $? "what was held is the process and its devices, apart"
agree "base, compressed" "$tmp/other"
agree "mem" "$tmp/mem"
agree "three runs" "$tmp/three" "$tmp/other" "$tmp/mem"
works "three runs side by side" report "$tmp/three" "$tmp/other" "$tmp/mem"
[ "$(grep -c 'x .* a step .* tokens/s' "$tmp/out")" = 3 ] && tr '\n' ' ' <"$tmp/out" | grep -q 'unlike the first: .*dtype *fp32 (bf16).*eval-data none (' && grep -q "^Evaluations: the last and the best$" "$tmp/out"
result $? "each beside the first, and what is unlike it"
run report "$tmp/three" "$tmp/three"
! grep -q 'unlike the first' "$tmp/out"
result $? "of a run beside itself none is said"

# pictures of several: equal curves, many runs, devices
steps=6
for n in 1 2; do
    train su+o --devices $n
    mv "$tmp/run" "$tmp/by-$n"
    train base --devices $n
    mv "$tmp/run" "$tmp/base-$n"
done
steps=12
run report "$tmp/by-1" "$tmp/by-2" "$tmp/base-1" "$tmp/base-2" --html "$tmp/page.html"
same "7 21 -0, 7 21 -7, 7 21 -14, 7 21 -21, " "$(sed -n 's/.*stroke-dasharray:\([0-9 ]*\);stroke-dashoffset:\(-[0-9]*\).*/\1 \2, /p' "$tmp/page.html" | tr -d '\n')" \
    "equal curves are dashed, each in the gaps of the others"
same 2 "$(sed -n '/aria-label="speed against devices"/,/<\/svg>/p' "$tmp/page.html" | grep -c 'class="curve')" "speed against devices, a line a mode"
same "1 2" "$(sed -n '/aria-label="speed against devices"/,/<\/svg>/s/.*class="tick".*text-anchor="\(middle\|end\)">\([12.][0-9.]*\)<.*/\2/p' "$tmp/page.html" | tail -n 2 | paste -sd' ')" "whose marks are whole numbers of devices"
same "su+o, 1 device su+o, 2 devices base, 1 device base, 2 devices" \
    "$(sed -n '/aria-label="speed-up/,/<\/svg>/s/.*>[1-4] \([^,]*, [12] devices*\),.*/\1/p' "$tmp/page.html" | paste -sd' ')" "bars say how many devices a run has"
steps=6
train su+o --devices 2 --lr 3e-2
mv "$tmp/run" "$tmp/fast"
steps=12
run report "$tmp/by-1" "$tmp/fast" --html "$tmp/page.html"
! grep -q "speed against devices" "$tmp/page.html" && ! grep -q 'style="stroke-dasharray' "$tmp/page.html"
result $? "none of runs that differ in more; nor are unequal curves dashed"
many=$(for _ in $(seq 24); do echo "$tmp/by-1"; done)
run report $many --html "$tmp/page.html"
sed -n '/<h2>Losses/,/<\/ul>/p' "$tmp/page.html" >"$tmp/legend"
same "24 12 23" "$(grep -o '<span class="[a-z ]*"' "$tmp/legend" | sort -u | wc -l) $(grep -o 'dashed"' "$tmp/legend" | wc -l) $(grep -o ', lies on 1<' "$tmp/legend" | wc -l)" \
    "24 runs are told apart, twelve by dashes; the legend says which curves lie on the first"

# a page has the settings, wherever they came from
printf 'lr = 2e-3\nbeta2 = 0.95\ncsd-mem = 1M\n' >"$tmp/some.conf"
run pretrain --config "$tmp/some.conf" --run "$tmp/conf" --data "$tmp/tokens.bin" --n-layer 2 --n-head 2 --n-embd 64 --vocab 128 --seq 32 --batch 2 --steps 3 --threads 1 --quiet
run report "$tmp/conf" --html "$tmp/page.html"
for setting in "lr</dt><dd>0.002" "beta2</dt><dd>0.95" "csd-mem</dt><dd>1M" "n-layer</dt><dd>2" "schedule</dt><dd>cosine"; do
    grep -qF "<dt>$setting</dd>" "$tmp/page.html"
    result $? "the page of a run with a file of options has $setting"
done
run report "$tmp/three" --html "$tmp/page.html"
same "$(sqlite3 "$tmp/three/run.db" "SELECT printf('%.4f', value) FROM evals WHERE name = 'loss' AND step = 11") 1" \
    "$(sed -n 's/.*<dt>loss evaluated<\/dt><dd>\([0-9.]*\)<.*/\1/p' "$tmp/page.html") $(grep -nE '<h2>|<dt>loss evaluated' "$tmp/page.html" | grep -n evaluated | cut -d: -f1)" "what an evaluation gave stands before all else"

run report "$tmp/three" "$tmp/mem" --csv
[ "$(sed -n 's/^[^,]*\/\([a-z]*\),comparison,0,speedup,.*/\1/p' "$tmp/out" | tr '\n' ' ')" = "three mem " ]
result $? "in CSV, too"
refuses 2 "is about one run; name one" report "$tmp/three" "$tmp/mem" --sql times
refuses 2 "is not a run" report "$tmp/three" "$tmp/none" --html "$tmp/none.html"
[ ! -e "$tmp/none.html" ]
result $? "no page of what is no run"
same "$(basename -s .sql -a data/db/sql/*.sql | sort)" "$("$bin" report "$tmp/three" --sql list | cut -d' ' -f1 | sort)" "the files of data/db/sql are the questions"
same "." "$(head -qn 1 data/db/sql/*.sql | grep -v '^-- [A-Z].*\.$')." "and say in their first line what they answer"

# a terminal of 80 columns
for what in "$tmp/three" "$tmp/other" "$tmp/three $tmp/mem"; do
    run report $what
    same "." "$(awk 'length > 80' "$tmp/out")." "at most 80 columns"
done
if has_terminals; then
    python3 tests/cli/on_tty.py 80 "$bin" report "$tmp/three" >"$tmp/coloured"
    NO_COLOR=1 python3 tests/cli/on_tty.py 80 "$bin" report "$tmp/three" >"$tmp/plain"
    run report "$tmp/three"
    escape=$(printf '\033')
    grep -q "$escape" "$tmp/coloured" && ! grep -q "$escape" "$tmp/plain" && ! grep -q "$escape" "$tmp/out"
    result $? "colours on a terminal only, and none with NO_COLOR"
fi

# pages where they may not be, and where there is no room
refuses 2 "none/page.html: there is no folder" report "$tmp/three" --html "$tmp/none/page.html"
ln -s /dev/full "$tmp/full"
refuses 2 "$tmp/full" report "$tmp/three" --html "$tmp/full"
mkdir "$tmp/page"
run report "$tmp/three" --html "$tmp/page/page.html"
cp "$tmp/page/page.html" "$tmp/page.before"
(ulimit -f 8 && run report "$tmp/three" --html "$tmp/page/page.html"; [ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ]) &&
    [ "$(ls "$tmp/page")" = page.html ] && cmp -s "$tmp/page/page.html" "$tmp/page.before"
result $? "no room: one sentence, and the page of before"

# what strangers write
cp -r "$tmp/three" "$tmp/hostile"
sqlite3 "$tmp/hostile/run.db" >"$tmp/out" 2>"$tmp/err" <<'EOF'
INSERT INTO notices (time, text) VALUES ('</td><script>alert(1)</script>', 'x"onload="y' || char(27) || '[2J' || char(0x9b) || '31m' || char(10) || '<!--');
UPDATE devices SET path = '<img src=x onerror=alert(1)>' || char(27) || ']0;x' || char(7);
UPDATE processes SET command = '<script>' || char(27) || '[31m', begun = '"><svg>';
INSERT INTO evals (step, name, value) VALUES (4, '<script>&' || char(27), 1), (9, '<script>&' || char(27), 2), (9, 'y', 9e999);
UPDATE spans SET phase = '"><script>' || char(27) WHERE phase = 'param_read' AND block = 2;
UPDATE traffic SET class = '<b>' || char(27) WHERE class = 'wire';
UPDATE traffic SET link = '"}' || char(27) WHERE class = 'gradient' AND step = 11;
UPDATE spans SET end_ns = 9223372036854775807 WHERE phase = 'commit';
UPDATE spans SET start_ns = -1, block = 'x' WHERE phase = 'wait_update';
UPDATE steps SET seconds = 9e999, loss = 'x' WHERE step = 3;
UPDATE steps SET seconds = -5, lr = 1e308 WHERE step = 5;
UPDATE steps SET loss = -1e308, lr = -1e308 WHERE step = 6;
UPDATE steps SET loss = 1e308, seconds = 1e16 WHERE step = 7;
EOF
result $? "a stranger's run.db"
python3 tests/cli/report_forms.py --hostile "$bin" "$tmp/hostile" >"$tmp/out" 2>"$tmp/err"
result $? "what it holds speaks neither to the browser nor to the terminal"
esc=$(printf '\033[31m')
set --
for key in option.lr option.seed option.mode data.path host; do
    set -- "$@" $key "<b>$key$esc"
done
python3 tests/cli/setting.py "$tmp/hostile" "$@"
python3 tests/cli/report_forms.py --hostile "$bin" "$tmp/three" "$tmp/hostile" >"$tmp/out" 2>"$tmp/err"
result $? "nor does it next to another run, in labels and in what runs differ in"
run report "$tmp/three" "$tmp/hostile" --by none
[ "$got" = 2 ] && [ "$(LC_ALL=C tr -d '[:print:]\n' <"$tmp/err" | wc -c)" = 0 ]
result $? "nor in the list of what they can be sorted by"

train mem
"$bin" report "$tmp/run" >"$tmp/out" 2>"$tmp/err" && ! grep -q "Traffic" "$tmp/out"
result $? "mode mem: nothing crosses a link"

done_testing
