#!/bin/sh
# scrub.sh: what nobody reads is read: by check --scrub next to a training, and by --scrub-bw in the training itself; damage is found,
# named and recorded, hinders no training that does not need it, and restore mends it. Prints TAP.
. tests/tap.sh
find_shim
export OMP_WAIT_POLICY=passive # threads that spin slow each other down
smallest
shape="$data $shape --lr 1e-2"
# named FILE OFFSET TEXT NAME: a byte of $tmp/run turned there is found by check --scrub, with TEXT; and turned back, nothing is
named() {
    turn "$1" "$2"
    run check --scrub "$tmp/run"
    result "$([ "$got" = 1 ] && [ "$(grep -cF -- "$3" "$tmp/err")" = 1 ] && grep -q "$tmp/run is damaged" "$tmp/out"; echo $?)" "$4: is found"
    turn "$1" "$2"
    works "$4: turned back, all is whole" check --scrub "$tmp/run" --quiet
}

run pretrain --run "$tmp/run" $shape --mode su+o --devices 2 --compress 20% --error-feedback --steps 4 --snapshot-every 2
refuses 2 "leave one of them out" check --scrub --repair "$tmp/run"
refuses 2 "give both" check --scrub-bw 1M "$tmp/run"
refuses 2 "reads a run" check --scrub "$tmp/tok"
before=$(sums "$tmp/run")
works "a run at rest" check --scrub "$tmp/run"
result "$(grep -q '^residuals' "$tmp/out" && [ "$(grep -c '^snapshot' "$tmp/out")" = 3 ] && grep -q '^not checked .* data' "$tmp/out"; echo $?)" "says what was read, and what was not"
same "$before" "$(sums "$tmp/run")" "and changes nothing"
slot=$(ask "$tmp/run" "SELECT slot FROM journal_subs WHERE sub = 0")
named "$tmp/run/dev0/states" $((4096 + slot * 28672 + 5000)) "$tmp/run/dev0/states): the states (master and moments) of block 0, parameters 0 to 2047 (" "a committed slot"
first=$(dirname "$tmp"/run/snapshots/*/step-00000002)/step-00000002
slot=$(ask "$first" "SELECT slot FROM journal_subs WHERE sub = 0")
named "$first/dev0/states" $((4096 + slot * 28672 + 5000)) "$first/dev0/states): the states (master and moments) of block 0" "a snapshot"

# ---- next to a training
rm -rf "$tmp/run"
"$bin" pretrain --run "$tmp/run" $shape --mode su+o --steps 1000000 >"$tmp/training.out" 2>"$tmp/training.err" </dev/null &
pid=$!
for _ in $(seq 1200); do [ ! -e "$tmp/run/run.db" ] || [ "$(ask "$tmp/run" "SELECT count(*) FROM steps" 2>"$tmp/null" || echo 0)" -lt 4 ] || break; sleep 0.05; done
refuses 1 "is in use by process $pid" check "$tmp/run"
bad=
for _ in 1 2 3 4 5; do
    run check --scrub "$tmp/run" --scrub-bw 4M
    [ "$got" = 0 ] && grep -q '^states' "$tmp/out" || bad=1
done
result "${bad:-0}" "a training: its states are whole, five times"
kill -INT $pid
wait $pid
same 130 $? "it was not hindered"
works "and is whole" check "$tmp/run" --quiet
run pretrain --resume "$tmp/run" --steps $(($(ask "$tmp/run" "SELECT count(*) FROM steps") + 2)) --snapshot-every 1 --quiet
"$bin" pretrain --resume "$tmp/run" --steps 1000000 --schedule-steps 1000000 --snapshot-every 0 --scrub-bw 20M >"$tmp/training.out" 2>"$tmp/training.err" </dev/null &
pid=$!
oldest=$(ls -d "$tmp"/run/snapshots/*/step-* | head -n 1)
slot=$(ask "$oldest" "SELECT slot FROM journal_subs WHERE sub = 0")
turn "$oldest/dev0/states" $((4096 + slot * 28672 + 5000))
for _ in $(seq 600); do grep -q "$oldest/dev0/states" "$tmp/training.err" && break; sleep 0.05; done
result "$(grep -q "$oldest/dev0/states): the states (master and moments) of block 0.*training does not need this snapshot" "$tmp/training.err"; echo $?)" "--scrub-bw: a damaged snapshot is a notice"
run check --scrub "$tmp/run"
same "1 1" "$got $(grep -cF "$oldest/dev0/states" "$tmp/err")" "check --scrub finds it, too, meanwhile"
kill -INT $pid
wait $pid
same 130 $? "and training goes on"
same 1 "$(ask "$tmp/run" "SELECT count(*) FROM damages")" "the damage is in run.db, once"
works "report" report "$tmp/run"
result "$(grep -q "^Damage" "$tmp/out" && tr -s ' \n' ' ' <"$tmp/out" | grep -q "Read in the background: [^;]*; 1 damaged"; echo $?)" "shows it"
works "check" check "$tmp/run" --quiet
result "$(grep -q "found by --scrub-bw at .*$oldest/dev0/states" "$tmp/err"; echo $?)" "says it, too"
rm -r "$oldest"
works "without that snapshot, another part of the training" pretrain --resume "$tmp/run" --steps $(($(ask "$tmp/run" "SELECT count(*) FROM steps") + 2)) --scrub-bw 1G --quiet
same "0 0" "$(ask "$tmp/run" "SELECT count(*), (SELECT count(*) FROM scrubs WHERE portion = '$oldest') FROM damages" | tr '|' ' ')" "it is forgotten"

# what was removed while it is read gives its room back: its files are closed long before they would have been read
oldest=$(ls -d "$tmp"/run/snapshots/*/step-* | head -n 1)
sqlite3 "$tmp/run/run.db" "UPDATE scrubs SET position = 0, verified_ns = iif(portion = '$oldest', 0, 4e18)"
"$bin" pretrain --resume "$tmp/run" --steps 1000000 --schedule-steps 1000000 --snapshot-every 0 --scrub-bw 3K >"$tmp/training.out" 2>"$tmp/training.err" </dev/null &
pid=$!
open_files() { find "/proc/$pid/fd" -lname "$oldest$1*" 2>"$tmp/null" | wc -l; }
for _ in $(seq 600); do [ "$(open_files /dev0)" = 0 ] || break; sleep 0.05; done
before=$(open_files /dev0)
rm -r "$oldest"
for _ in $(seq 500); do [ "$(open_files)" != 0 ] || break; sleep 0.05; done
same "1 0" "$before $(open_files)" "a snapshot that is removed while --scrub-bw reads it is closed"
kill -INT $pid
wait $pid

# ---- frozen blocks
run export "$tmp/run" "$tmp/base" --last
for mode in su+o mem; do
    rm -rf "$tmp/run"
    run pretrain --run "$tmp/run" $data --init "$tmp/base" --seq 8 --batch 1 --lora-rank 2 --csd-mem 128K --threads 1 --durability none --mode $mode --steps 3 --quiet --snapshot-every 2
    if [ $mode = mem ]; then file=$tmp/run/frozen; else file=$tmp/run/dev0/states; fi
    named "$file" $((4096 + 100)) "frozen parameters of block 0" "$mode: a frozen block"
    whole=$(exported "$tmp/run")
    turn "$file" $((4096 + 100))
    works "$mode: and is mended by restore" restore "$tmp/run"
    works "$mode: to the same" pretrain --resume "$tmp/run" --steps 3 --quiet
    same "$whole" "$(exported "$tmp/run")" "$mode: bits"
done

# ---- the same bits, and less than a row per step
for mode in "su+o --devices 2" "mem --commit-every 2"; do
    rm -rf "$tmp/run" "$tmp/plain"
    options="--mode $mode --steps 30 --snapshot-every 10 --keep-best --eval-every 5 --eval-data $tmp/text.bin"
    # shellcheck disable=SC2086
    works "$mode: --scrub-bw" pretrain --run "$tmp/run" $shape $options --scrub-bw 100M
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/plain" $shape $options
    same "$(exported "$tmp/plain") $(steps_of "$tmp/plain")" "$(exported "$tmp/run") $(steps_of "$tmp/run")" "$mode: changes no bit"
    works "$mode: and is whole" check "$tmp/run" --quiet
    result "$([ "$(ask "$tmp/run" "SELECT sum(bytes) > 0 FROM traffic WHERE phase = 'scrub'")" = 1 ] && [ "$(ask "$tmp/run" "SELECT count(*) < 12 FROM scrubs")" = 1 ] && [ "$(ask "$tmp/run" "SELECT count(*) FROM damages")" = 0 ]; echo $?)" "$mode: what it read is in run.db, in few rows"
done

# ---- a log of run.db that cannot be written: restore, which writes states, is no help
if strace -o "$tmp/null" true 2>"$tmp/null"; then
    rm -rf "$tmp/run"
    run pretrain --run "$tmp/run" $shape --mode su+o --steps 4 --snapshot-every 4
    strace -f -qq -o "$tmp/null" -P "$tmp/run/run.db-wal" -e trace=pwrite64 -e inject=pwrite64:error=EIO:when=4+ "$bin" pretrain --resume "$tmp/run" --steps 6 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
    result "$([ $? = 1 ] && grep -q "run.db: committing failed: disk I/O error: Input/output error\$" "$tmp/err"; echo $?)" "a log that cannot be written is no damage of states"
else
    skip "a log that cannot be written" "no strace here, or it may trace nothing"
fi

# ---- a drive that cannot read some blocks
if [ -n "$shim" ]; then
    rm -rf "$tmp/run"
    run pretrain --run "$tmp/run" $shape --mode su+o --disk sync --steps 4 --snapshot-every 4
    run pretrain --resume "$tmp/run" --steps 6 --snapshot-every 0 --quiet
    fail() { # N ARGUMENTS...: the Nth read of the device fails
        fail_at=$1
        shift
        LD_PRELOAD="$shim" SHIM_AT="pread:dev0/states:$fail_at:fail" "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
        got=$?
    }
    fail 4 pretrain --resume "$tmp/run" --steps 8 --quiet
    same 1 $got "a read that fails ends training"
    result "$(grep "$tmp/run/dev0/states" "$tmp/err" | grep "Input/output error" | grep -q "siTrain restore $tmp/run goes back to a snapshot, the newest of which is after step 4"; echo $?)" "and says the way on"
    refuses 2 "all of its states were read and are whole" restore "$tmp/run"
    fail 4 check "$tmp/run"
    same 1 $got "check finds a read that fails"
    for at in $(seq 2 16); do # a superblock is read again; check --repair makes wire parameters
        fail $at restore "$tmp/run"
        [ $got = 2 ] && grep -q -e "check --repair" -e "were read and are whole" "$tmp/err" || break
    done
    same 0 $got "restore goes back if it proves it"
    same 4 "$(steps_of "$tmp/run" | wc -l)" "to the snapshot"
else
    skip "reads that fail" "no shim here"
fi

done_testing
