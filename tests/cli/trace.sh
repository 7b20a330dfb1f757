#!/bin/sh
# siTrain report --trace and --openmetrics: what must hold whatever reads them (trace_read.py); Perfetto, Chrome and Prometheus themselves
# are asked by `make check-tools`. Prints TAP.
. tests/tap.sh

make_text 200 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
train() { # MODE ARGUMENTS...
    rm -rf "$tmp/run"
    mode=$1
    shift
    run pretrain --run "$tmp/run" --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 3 --n-head 2 --n-embd 32 --seq 16 --batch 2 \
        --threads 1 --quiet --mode "$mode" --csd-mem 1M "$@"
}
none() { # TEXT NAME
    [ -z "$1" ]
    result $? "$2"
    [ -z "$1" ] || echo "$1" | sed 's/^/# /'
}
whole() { sqlite3 "$tmp/run/run.db" "SELECT count(*) FROM spans WHERE start_ns > 0 AND step BETWEEN $1 - 1 AND $2 - 1"; } # FIRST LAST

for given in "su+o --devices 2 --steps 14" "base --steps 12" "su --devices 3 --steps 12 --activations offload --host-mem 60M" "mem --steps 12"; do
    # shellcheck disable=SC2086
    train $given
    # shellcheck disable=SC2086
    [ "$got" = 0 ] || train ${given% --host-mem*} # under a sanitizer
    works "$given: --trace" report "$tmp/run" --trace "$tmp/trace.json"
    python3 tests/cli/trace_read.py "$tmp/trace.json" >"$tmp/seen" 2>"$tmp/err"
    result $? "slices nest, flows have their ends"
    last=${given##*--steps }
    last=${last%% *}
    same "slices $(whole $((last - 9)) $((last + 1)))" "$(sed -n 's/ flows.*//p' "$tmp/seen")" "the last 10 steps and what followed are there, each span a slice"
    case $given in mem*) ;; *)
        [ "$(sed -n 's/.* flows //p' "$tmp/seen")" -gt 0 ]
        result $? "with arrows" ;;
    esac
done

train su+o --devices 2 --steps 6
works "chosen steps" report "$tmp/run" --trace "$tmp/trace.json" --trace-steps 2-3
python3 tests/cli/trace_read.py "$tmp/trace.json" "$tmp/run/run.db" 1 2 >"$tmp/seen" 2>"$tmp/err"
result $? "every arrow comes from the device that the view waits names"
same "slices $(whole 2 3)" "$(sed -n 's/ flows.*//p' "$tmp/seen")" "are those and no others"
same "host: committer, training|device 0: gradients written, parameters read, updates, updates: compute, updates: read, updates: write" \
    "$(sed -n '2,3p' "$tmp/seen" | paste -sd'|')" "the host has its threads, a device its own"
for wrong in 0 3-2 x 2- 2-3x; do
    refuses 2 "expected a step or two" report "$tmp/run" --trace "$tmp/no.json" --trace-steps "$wrong"
done
refuses 2 "no whole spans of step 100-200" report "$tmp/run" --trace "$tmp/no.json" --trace-steps 100-200
refuses 2 "not a regular file" report "$tmp/run" --trace /dev/full
[ ! -e "$tmp/no.json" ]
result $? "what is refused leaves no file"

# a run whose clock went back between two processes (another start of the machine), and a path that speaks to terminals
cp -r "$tmp/run" "$tmp/other"
sqlite3 "$tmp/other/run.db" "UPDATE spans SET start_ns = start_ns - (SELECT min(start_ns) FROM spans WHERE step = 3) + 1000,
    end_ns = end_ns - (SELECT min(start_ns) FROM spans WHERE step = 3) + 1000 WHERE step >= 3;
    DELETE FROM processes; UPDATE devices SET path = char(27) || '[31m\"<' || char(10) WHERE device = 0;
    UPDATE traffic SET link = 'a\"b' || char(27) WHERE link = 'internal'"
works "another start of the machine in between, of which nothing is known" report "$tmp/other" --trace "$tmp/trace.json"
python3 tests/cli/trace_read.py "$tmp/trace.json" >"$tmp/seen" 2>"$tmp/err"
same "slices $(whole 1 7)" "$(sed -n 's/ flows.*//p' "$tmp/seen")" "one time goes through both"
grep -q "$(printf '\033')" "$tmp/trace.json"
[ $? = 1 ]
result $? "a stranger's path and link are escaped"

# two processes, an hour between them: the calendar's time tells
sqlite3 "$tmp/other/run.db" "INSERT INTO processes (process, first_step, clock_ns, unix_ns)
    SELECT 1, 0, (SELECT min(start_ns) FROM spans WHERE step = 0), 1000000000
    UNION ALL SELECT 2, 3, (SELECT min(start_ns) FROM spans WHERE step = 3), 3601000000000"
works "another start of the machine, of which all is known" report "$tmp/other" --trace "$tmp/trace.json"
python3 tests/cli/trace_read.py "$tmp/trace.json" >"$tmp/seen" 2>"$tmp/err"
same 3600000000 "$(grep '"name":"step 4"' "$tmp/trace.json" | sed 's/.*"ts":\([0-9]*\).*/\1/')" "the second begins an hour after the first"

works "--openmetrics" report "$tmp/run" --openmetrics
cp "$tmp/out" "$tmp/metrics"
same "# EOF" "$(tail -n 1 "$tmp/metrics")" "ends as it must"
same 6 "$(sed -n 's/^sitrain_steps_total{.*} //p' "$tmp/metrics")" "steps are counted"
same "$(sqlite3 "$tmp/run/run.db" "SELECT sum(bytes) FROM traffic WHERE link = 'host' AND class = 'gradient'")" \
    "$(sed -n 's/^sitrain_link_bytes_total{.*link="host",class="gradient".*} //p' "$tmp/metrics")" "bytes over the host's link"
none "$(sed '/^#/d' "$tmp/metrics" | grep -vE '^sitrain_[a-z_]+\{run="[^"]*"(,[a-z]+="([^"\\]|\\.)*")*\} [-+0-9.e]+$')" "every line is a sample or a word about them"
none "$(sed '/^#/d; s/ [^ ]*$//' "$tmp/metrics" | sort | uniq -d)" "none is there twice"
done_testing
