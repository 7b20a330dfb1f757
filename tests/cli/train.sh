#!/bin/sh
# Training as a person runs it: every mode gives the same parameters, whatever the devices, the memory and the activations; a run that was
# stopped or killed goes on as if it had not been. Prints TAP.
. tests/tap.sh

make_text 3000 >"$tmp/text.txt"
make_text 400 >"$tmp/held.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a text becomes a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"

shape="--n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 3 --grad-accum 2 --lr 1e-3 --warmup 2 --clip 0.5 --seed 5"
set -- $shape --csd-mem 192K --durability none --steps 6

# train NAME ARGUMENTS...: a run, its hash in $hash, what it said in $tmp/NAME.log
train() {
    name=$1
    shift
    run pretrain --run "$tmp/$name" "$@"
    cp "$tmp/out" "$tmp/$name.log"
    hash=
    [ "$got" = 0 ] && hash=$(exported "$tmp/$name")
}

train text --data "$tmp/text.txt" --eval-data "$tmp/held.txt" --tokenizer "$tmp/tok" --mode mem "$@"
dense=$hash
result "$([ -n "$dense" ]; echo $?)" "mem trains on a text"
losses "$tmp/text" >"$tmp/reference"
eval_run=$(sed -n 's/^eval after step 6 *\(loss [0-9.]*\).*/\1/p' "$tmp/text.log")

# From here on the token file, with the tokenizer: the same tokens.
with() {
    name=$1
    shift
    train "$name" --data "$tmp/text.bin" --tokenizer "$tmp/tok" "$@"
}

for mode in base su su+o; do
    for devices in 1 2 5; do
        with "$mode-$devices" "$@" --mode $mode --devices $devices
        same "$dense" "$hash" "$mode on $devices devices gives mem's parameters"
        same "$(cat "$tmp/reference")" "$(losses "$tmp/$mode-$devices")" "$mode on $devices devices gives mem's losses"
    done
done
with sub $shape --csd-mem 8M --durability none --steps 6 --mode su+o
same "$dense" "$hash" "other subgroups, the same parameters"
# who trains on devices and has the memory for it is told of mem: where a run begins, not where it goes on
run pretrain --run "$tmp/told" --data "$tmp/text.bin" $shape --csd-mem 8M --durability none --steps 6 --mode su+o
grep -q "^siTrain: --mode mem fits, too (memory [0-9.]*M): as fast or faster, and [0-9.]*K* written a step, not [0-9.]*[KM]$" "$tmp/err"
result $? "that mem fits is said at the start"
run pretrain --resume "$tmp/told" --steps 7 --schedule-steps 7
result "$([ "$got" = 0 ] && ! grep -q 'mode mem fits' "$tmp/err"; echo $?)" "and not of a run that goes on"
run pretrain --run "$tmp/inmem" --data "$tmp/text.bin" "$@" --mode mem
result "$([ "$got" = 0 ] && ! grep -q 'mode mem fits' "$tmp/err"; echo $?)" "nor in mem"
with recompute "$@" --mode su+o --activations recompute
same "$dense" "$hash" "recomputed activations, the same parameters"
with recompute-mem "$@" --mode mem --activations recompute
same "$dense" "$hash" "recomputed activations in mem, the same parameters"

# activations on the devices, where memory has room for none of them
heavy="--n-layer 6 --n-head 2 --n-embd 64 --seq 24 --batch 48 --grad-accum 2 --csd-mem 256K --durability none --mode su+o"
run plan $heavy --vocab 300 --activations offload --host-mem 1M
least=$(sed -n 's/.*needs at least \([0-9]*M\).*/\1/p' "$tmp/err")
with heavy $heavy --steps 3
want=$hash
with offload $heavy --devices 2 --steps 3 --activations offload --host-mem "$least"
same "$want" "$hash" "offloaded activations, the same parameters"
run report "$tmp/offload"
same ". activation" "$(awk '/^Traffic/ { t = 1 } /^Overlap/ { t = 0 } t && $3 ~ /^(read|write)$/ && $4 != $5' "$tmp/out"). $(awk '$2 == "activation" && $3 == "write" && $4 > 1e7 { print $2 }' "$tmp/out")" \
    "report: what was moved is what is computed, activations too"
with longer $heavy --steps 14
longer=$hash
for way in auto ssdtrain; do # which ways they choose, and whether any others, depends on what is measured; no bit does
    with $way $heavy --devices 2 --steps 14 --activations $way --host-mem "$((${least%M} + 4))M"
    same "$longer" "$hash" "--activations $way, which may change while it trains: the same parameters"
    same "$(grep -c '^activations from step' "$tmp/$way.log"): $(sed -n 's/^activations from step \([0-9]*\) on, of 6 layers kept + offloaded: inputs \([0-9]*\) + \([0-9]*\), attentions \([0-9]*\) + \([0-9]*\), MLPs \([0-9]*\) + \([0-9]*\) (.*/\1 \2 \3 \4 \5 \6 \7/p' "$tmp/$way.log")" \
        "$(sqlite3 "$tmp/$way/run.db" 'SELECT count(*) FROM choice_outcomes'): $(sqlite3 -separator ' ' "$tmp/$way/run.db" 'SELECT step + 1, inputs_kept, inputs_offloaded, attentions_kept, attentions_offloaded, mlps_kept, mlps_offloaded FROM choice_outcomes')" "  what it chose is said, and in run.db"
done
same "6 6" "$(sqlite3 -separator ' ' "$tmp/ssdtrain/run.db" 'SELECT step + 1, mlps_kept + mlps_offloaded FROM choices ORDER BY step LIMIT 1')" \
    "ssdtrain measures three steps after two, and computes nothing again"
with later $heavy --steps 1 --schedule-steps 3
works "a run that was made without goes on with offloaded activations" pretrain --resume "$tmp/later" --steps 3 --activations offload --host-mem "$least"
same "$want" "$(exported "$tmp/later")" "and ends with the same parameters"
works "check finds nothing wrong with it" check "$tmp/later"
works "it is moved onto three devices" reshard "$tmp/later" --devices 3
works "and goes on from there" pretrain --resume "$tmp/later" --steps 4 --schedule-steps 4

with small "$@" --mode su+o --host-mem 56M
same "$dense" "$hash" "a small memory budget, the same parameters"
with sync "$@" --mode su+o --disk sync
same "$dense" "$hash" "the sync disk, the same parameters"

with c-mem "$@" --mode mem --compress 10%
compressed=$hash
result "$([ -n "$compressed" ] && [ "$compressed" != "$dense" ]; echo $?)" "mem with compressed gradients trains otherwise"
for run in "base 2" "su+o 1" "su+o 2" "su+o 5"; do
    mode=${run% *} devices=${run#* }
    with "c-$mode-$devices" "$@" --mode "$mode" --devices "$devices" --compress 10%
    same "$compressed" "$hash" "$mode on $devices devices, compressed, gives mem's parameters"
done
with c-suoc "$@" --mode su+o+c --compress 10%
same "$compressed" "$hash" "su+o+c is su+o --compress"

with ef-mem "$@" --mode mem --compress 10% --error-feedback
want=$hash
result "$([ -n "$want" ] && [ "$want" != "$compressed" ]; echo $?)" "error feedback trains otherwise"
for run in "base 1" "su+o 2"; do
    mode=${run% *} devices=${run#* }
    with "ef-$mode" "$@" --mode "$mode" --devices "$devices" --compress 10% --error-feedback
    same "$want" "$hash" "error feedback: $mode on $devices devices gives mem's parameters"
done

for optimizer in adam sgd adagrad; do
    with $optimizer-mem "$@" --mode mem --optimizer $optimizer
    want=$hash
    for mode in base su su+o; do
        with $optimizer-$mode "$@" --mode $mode --devices 2 --optimizer $optimizer
        same "$want" "$hash" "$optimizer: $mode gives mem's parameters"
    done
done
with fp32-mem "$@" --mode mem --dtype fp32
want=$hash
with fp32-suo "$@" --mode su+o --devices 2 --dtype fp32
same "$want" "$hash" "fp32: su+o gives mem's parameters"

# eval of a run, of its export, and what the run itself said
run eval "$tmp/text" --data "$tmp/held.txt" --seq 24 --batch 3
first=$(cat "$tmp/out")
same "$(sqlite3 "$tmp/text/run.db" "SELECT printf('loss %.6f', value) FROM evals WHERE name = 'loss' AND step = 5")" "$(head -n 1 "$tmp/out")" "eval of a run gives the loss that the run gave"
run export "$tmp/text" "$tmp/hf"
run eval "$tmp/hf" --data "$tmp/held.txt" --seq 24 --batch 3
same "$first" "$(cat "$tmp/out")" "eval of its export gives the same"
run import "$tmp/hf" "$tmp/imported" --mode su+o --devices 2 --csd-mem 1M
same "$dense" "$(exported "$tmp/imported")" "import and export give the same file"
echo "somebody's" >"$tmp/imported/data.bin"
refuses 2 "data.bin is there, and is not of this run: move it elsewhere" pretrain --resume "$tmp/imported" --data "$tmp/text.txt" --steps 2 --seq 16 --batch 2
same "somebody's" "$(cat "$tmp/imported/data.bin")" "  and it stays"
rm "$tmp/imported/data.bin"
works "an imported run is trained" pretrain --resume "$tmp/imported" --data "$tmp/text.txt" --steps 2 --seq 16 --batch 2 --lr 1e-4
works "a run begins with a Hugging Face model and its tokenizer" pretrain --run "$tmp/tuned" --init "$tmp/hf" --data "$tmp/text.txt" --steps 2 --quiet
works "so does a plan" plan --probe off --init "$tmp/hf"
run plan --probe off --init "$tmp/hf"
disk=$(grep '^Disk:' "$tmp/out")
run plan --probe off --init "$tmp/hf" --speculate
result "$(grep -q '^Disk:' "$tmp/out" && ! grep -qF "$disk" "$tmp/out"; echo $?)" "it counts the slots of --speculate"
run generate "$tmp/su+o-2" --prompt "the sea" --tokens 12 --temperature 0
text=$(cat "$tmp/out")
result "$([ "${text#the sea}" != "$text" ]; echo $?)" "generate prints the prompt and more"
run generate "$tmp/hf" --prompt "the sea" --tokens 12 --temperature 0
same "$text" "$(cat "$tmp/out")" "the export writes the same"

# stop and go on
for mode in mem su+o; do
    with stop-$mode $shape --csd-mem 192K --durability none --steps 3 --schedule-steps 6 --mode $mode
    works "$mode: a resume goes on to a later end" pretrain --resume "$tmp/stop-$mode" --steps 6
    same "$dense" "$(exported "$tmp/stop-$mode")" "$mode: stopped and resumed, the same parameters"
    works "$mode: a resume of a finished run says so" pretrain --resume "$tmp/stop-$mode"
    result "$(grep -q finished "$tmp/out"; echo $?)" "$mode: in words"
done
refuses 2 "schedule of $tmp/stop-mem ends at step 6" pretrain --resume "$tmp/stop-mem" --steps 7
works "a resume beyond the schedule, where that is said" pretrain --resume "$tmp/stop-mem" --steps 7 --schedule-steps 6
result "$(grep -q 'schedule ends at step 6' "$tmp/err"; echo $?)" "says so"

# a kill -9 in the middle, wherever it hits; and Ctrl-C
long() { # NAME SIGNAL MODE DURABILITY: begin a long run, send SIGNAL after some steps
    name=$1 signal=$2 mode=$3
    "$bin" pretrain --run "$tmp/$name" --data "$tmp/text.bin" --tokenizer "$tmp/tok" $shape --csd-mem 192K --mode $mode --durability "$4" \
        --commit-every 5 --steps $long_steps >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    for _ in $(seq 600); do
        [ "$(grep -c '^step' "$tmp/out")" -ge 12 ] && break
        sleep 0.05
    done
    kill -"$signal" $pid
    wait $pid
    got=$?
}
long_steps=60
with whole $shape --durability none --steps $long_steps --mode mem
whole=$hash
for mode in mem base su su+o "su+o --speculate" "base --speculate --devices 2"; do
    long "killed-$mode" KILL "$mode" step
    result "$([ "$got" = 137 ]; echo $?)" "$mode: killed"
    works "$mode: a killed run is resumed" pretrain --resume "$tmp/killed-$mode" --durability none
    same "$whole" "$(exported "$tmp/killed-$mode")" "$mode: killed and resumed, the same parameters"
done
with few $shape --csd-mem 192K --durability none --steps 3 --schedule-steps $long_steps --mode su+o
works "a run that was made without --speculate goes on with it" pretrain --resume "$tmp/few" --steps $long_steps --speculate
result "$(grep -qF "is limited by the devices' spare slots" "$tmp/err"; echo $?)" "as far as it can, which is said"
same "$whole" "$(exported "$tmp/few")" "to the same parameters"
long stopped INT su+o none
result "$([ "$got" = 130 ]; echo $?)" "Ctrl-C ends a run with 130"
works "and it goes on" pretrain --resume "$tmp/stopped"
same "$whole" "$(exported "$tmp/stopped")" "to the same parameters"

# a creation that was killed leaves no run, and starts over; files as devices: those with its superblock are its own, any other file stays
"$bin" pretrain --run "$tmp/files" --data "$tmp/text.bin" --tokenizer "$tmp/tok" "$@" --mode su+o --device "$tmp/file0" --device "$tmp/file1" \
    --csd-write-bw 200K >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
for _ in $(seq 600); do
    [ -e "$tmp/file1" ] && break
    sleep 0.02
done
sleep 0.1
kill -9 $pid
wait $pid
result "$([ -e "$(echo "$tmp"/files/run.new-*/run.db.new)" ] && [ ! -e "$tmp/files/run.db" ]; echo $?)" "a creation on files is killed"
with files "$@" --mode su+o --device "$tmp/file0" --device "$tmp/file1"
same "$dense" "$hash" "and started over on the same files"
refuses 2 "exists" pretrain --run "$tmp/other" --data "$tmp/text.bin" --tokenizer "$tmp/tok" "$@" --mode su+o --device "$tmp/file0" --device "$tmp/new"

# what was being written when a run was killed has no name yet: the next one removes it
: >"$tmp/files/predict_results_sst2.txt.12345678b2131df3.tmp"
: >"$tmp/files/picture.0123456789abcdef.tmp"
: >"$tmp/files/notes.tmp"
works "a run in which a kill left a file under way" pretrain --resume "$tmp/files"
result "$(ls "$tmp/files" | grep -c 'tmp$' | grep -qx 2 && [ -e "$tmp/files/notes.tmp" ]; echo $?)" "that file is gone, others are not"

# an evaluation that a kill prevented: its row is missing, the next resume makes it
if command -v sqlite3 >/dev/null; then
    sqlite3 "$tmp/text/run.db" "DELETE FROM evals"
    works "a finished run whose last evaluation is missing is resumed" pretrain --resume "$tmp/text"
    same "$eval_run" "$(sed -n 's/^eval after step 6 *\(loss [0-9.]*\).*/\1/p' "$tmp/out")" "and evaluated"
else
    skip "an evaluation that a kill prevented" "no sqlite3"
fi

done_testing
