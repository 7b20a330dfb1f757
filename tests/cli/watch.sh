#!/bin/sh
# siTrain watch: what it shows is what run.db and report have; a terminal is as it was afterwards; a training under watch computes the same
# bits and leaves the same files. Prints TAP.
. tests/tap.sh
unset NO_COLOR
export TERM=xterm LC_ALL=C.UTF-8

make_text 200 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
train() { # RUN ARGUMENTS...
    where=$1
    shift
    "$bin" pretrain --run "$tmp/$where" --data "$tmp/text.txt" --eval-data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 3 --n-head 2 \
        --n-embd 32 --seq 16 --batch 2 --devices 2 --csd-mem 1M --threads 1 --schedule constant --quiet "$@"
}
on_tty() { python3 tests/cli/on_tty.py "$@"; }
number() { awk -v key="$1" -v at="$2" '$1 == key { print $at; exit }' "$tmp/out"; }

train run --steps 8 --eval-every 4 --host-mem 200M >"$tmp/out" 2>"$tmp/err"
result $? "a run"
works "a look at it" watch "$tmp/run"
for words in "mode su+o  finished" "step 8 of 8" "tok/s" "evaluation after step 8  loss" "M of 200M + [0-9.]*K devices" "device 1 .*host read"; do
    grep -q "$words" "$tmp/out"
    result $? "it says: $words"
done
same "$(sqlite3 "$tmp/run/run.db" "SELECT printf('%.4f %.4f %.4f %.4f', avg(fw), avg(bw_grad), avg(\"update\"), avg(other)) FROM breakdown")" \
    "$(for part in forward backward update other; do sed -n "s/^$part .*% *\([0-9.]*\) s.*/\1/p" "$tmp/out"; done | paste -sd' ')" \
    "the parts of a step are those of the view breakdown"
same "$(sqlite3 "$tmp/run/run.db" "SELECT printf('%.4g %.4g', r.bytes_per_second / 1e6, w.bytes_per_second / 1e6) FROM device_rate r, device_rate w
        WHERE r.device = 0 AND w.device = 0 AND r.link = 'internal' AND w.link = 'internal' AND r.direction = 'read' AND w.direction = 'write'")" \
    "$(sed -n 's/^device 0 .*internal read \([0-9.e+]*\), write \([0-9.e+]*\).*/\1 \2/p' "$tmp/out")" "bandwidths are those of the view device_rate"
# the arenas of emulated devices do not count against --host-mem: what the process held is both
python3 - "$tmp/run/run.db" "$tmp/out" <<'PY'
import re, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
peak = db.execute("SELECT max(peak_rss) FROM steps").fetchone()[0] / 2**20
plan = dict(reversed(v.split(" ", 1)) for v, in db.execute("SELECT value FROM runs WHERE key LIKE 'memory.__'"))
own, limit, arenas = map(float, re.search(r"  ([\d.]+)M of ([\d.]+)M \+ ([\d.]+)K devices", open(sys.argv[2]).read()).groups())
assert arenas > 0 and abs(arenas * 2**10 - int(plan["arenas of emulated devices"])) < 11, (arenas, plan)
assert limit == 200 and abs(own + arenas / 1024 - peak) < 0.03, (own, arenas, peak)
PY
result $? "memory is what the process held without its devices, against its limit"
[ "$(wc -L <"$tmp/out")" -le 80 ] && LC_ALL=C grep -q "$(printf '\342\240')" "$tmp/out"
result $? "within 80 columns, a curve of Braille"
grep -q '^device 0 MB/s .* write [0-9.e+]*$' "$tmp/out" && ! grep -q '^loss.* $' "$tmp/out"
result $? "bandwidths have their unit, lines of figures no blanks at their end"
LC_ALL=C "$bin" watch "$tmp/run" >"$tmp/out" 2>"$tmp/err"
[ -z "$(LC_ALL=C tr -d '\n -~' <"$tmp/out")" ] && grep -q '|.*\*' "$tmp/out"
result $? "elsewhere one of ASCII"
refuses 2 "is not a run" watch "$tmp/nowhere"
refuses 2 "not of a siTrain run" watch "$(mkdir "$tmp/foreign" && sqlite3 "$tmp/foreign/run.db" 'CREATE TABLE t (a)' && echo "$tmp/foreign")"

# texts of a stranger
cp -r "$tmp/run" "$tmp/other"
sqlite3 "$tmp/other/run.db" "INSERT INTO notices (time, text) VALUES ('2026', 'a' || char(27) || '[31mb' || char(155) || 'c')"
works "a stranger's notice" watch "$tmp/other"
grep -qF 'a\x1b[31mb\xc2\x9bc' "$tmp/out"
result $? "does not speak to the terminal"
sqlite3 "$tmp/other/run.db" "UPDATE steps SET loss = iif(step % 2, 1.7e308, -1.7e308), seconds = 1e300"
works "a stranger's figures, beyond all others" watch "$tmp/other"

if ! has_terminals; then
    skip "on a terminal" "there are none here"
    done_testing
fi
# q, Ctrl-C, and a smaller window: the page goes, the settings are those of before
end=$(printf '\033[?25h\033[?1049l')
on_tty 90 --size 'does not notice' 50 --type 'does not notice' q sh -c "stty -a >$tmp/before; '$bin' watch '$tmp/run' --interval 60; code=\$?
    stty -a >$tmp/after; exit \$code" >"$tmp/out" 2>"$tmp/err"
result $? "q ends it"
grep -qF "$end" "$tmp/out" && same "$(sed 's/columns [0-9]*//' "$tmp/before")" "$(sed 's/columns [0-9]*//' "$tmp/after")" "the terminal is as it was"
python3 - "$tmp/out" <<'PY'
import re, sys
draws = open(sys.argv[1], encoding="utf-8").read().split("\033[H")[1:]
widths = [max(len(re.sub("\033\\[[?0-9;]*[a-zA-Z]", "", line)) for line in draw.replace("\r", "").split("\n")) for draw in draws]
assert len(draws) == 2 and 50 < widths[0] <= 90 and 25 < widths[1] <= 50, widths
PY
result $? "a window that becomes smaller is drawn anew"
on_tty 80 --key 'does not notice' "$bin" watch "$tmp/run" --interval 60 >"$tmp/out" 2>"$tmp/err"
code=$?
grep -qF "$end" "$tmp/out" && same 0 $code "Ctrl-C ends it, too"
grep -q "$(printf '\033')\[1m" "$tmp/out"
result $? "in colours"
NO_COLOR=1 on_tty 80 --type 'does not notice' q "$bin" watch "$tmp/run" >"$tmp/out" 2>"$tmp/err"
grep -q "$(printf '\033')\[[0-9]*m" "$tmp/out"
[ $? = 1 ]
result $? "without them where NO_COLOR is set"
on_tty 80 --type '\[J' q sh -c "stty rows 1; '$bin' watch '$tmp/run' --interval 60" >"$tmp/out" 2>"$tmp/err"
result $? "a terminal of one line, which has no room for a page"
for rows in 4 1; do
    on_tty 80 --size 'does not notice' 80x$rows --type 'does not notice' q "$bin" watch "$tmp/run" --interval 60 >"$tmp/out" 2>"$tmp/err" &&
        python3 - "$tmp/out" $rows <<'PY'
import sys
draws = open(sys.argv[1], encoding="utf-8", newline="").read().split("\033[H")[1:]
lines = [draw.split("\033[J")[0].split("\n") for draw in draws]
assert [len(x) for x in lines] == [24, int(sys.argv[2])] and all("does not notice" in x[-1] for x in lines), lines
PY
    result $? "one that shrinks to $rows: as many lines, the last says how to leave"
done

# before there is a run, while it is made and trained, and when it was killed
on_tty 80 --type 'killed' q "$bin" watch "$tmp/live" --interval 0.05 >"$tmp/seen" 2>"$tmp/err" &
watcher=$!
seen() { sed "s/$(printf '\033')\[[0-9]*m//g" "$tmp/seen" | grep -q "$1"; }
until_seen() { for _ in $(seq 1200); do seen "$1" && break; sleep 0.05; done; } # the checks below say so where it is not
until_seen "is not a run"
train live --steps 40 --eval-every 20 >"$tmp/out" 2>"$tmp/err"
result $? "a training under watch"
until_seen "finished"
train alone --steps 40 --eval-every 20 >"$tmp/out" 2>"$tmp/err"
same "$(exported "$tmp/alone")" "$(exported "$tmp/live")" "has the bits of one that is not"
same "$(sqlite3 "$tmp/alone/run.db" 'SELECT step, loss, grad_norm FROM steps' | cksum)" \
    "$(sqlite3 "$tmp/live/run.db" 'SELECT step, loss, grad_norm FROM steps' | cksum)" "and its losses"
"$bin" pretrain --resume "$tmp/live" --steps 1000000 --quiet >"$tmp/out" 2>"$tmp/err" &
trainer=$!
for _ in $(seq 600); do
    [ "$(sqlite3 "$tmp/live/run.db" 'SELECT count(*) FROM steps' 2>/dev/null)" -ge 60 ] && break
    sleep 0.1
done
until_seen "at work (process $trainer on"
sleep 1 # of its looks
wal=$(wc -c <"$tmp/live/run.db-wal")
kill -9 $trainer
wait $trainer 2>/dev/null
wait $watcher
result $? "it goes on until q"
for words in "is not a run" "at work (process" "finished" "at work (process $trainer on" "left " "killed"; do
    seen "$words"
    result $? "it said: $words"
done
[ "$wal" -lt 9000000 ] # a thousand pages and what the last commits wrote
result $? "the log does not grow meanwhile ($wal bytes)"

# who only looks whether the run is taken keeps nobody from taking it
python3 - "$tmp/live/run.lock" <<'PY' &
import fcntl, sys, time
with open(sys.argv[1]) as f:
    for _ in range(40):
        fcntl.flock(f, fcntl.LOCK_SH)
        time.sleep(0.03)
        fcntl.flock(f, fcntl.LOCK_UN)
        time.sleep(0.01)
PY
looks=$!
sleep 0.1
works "a training begins while others look" pretrain --resume "$tmp/live" --steps "$(($(sqlite3 "$tmp/live/run.db" 'SELECT count(*) FROM steps') + 2))" --quiet
wait $looks
done_testing
