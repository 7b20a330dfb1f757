#!/bin/sh
# live.sh: the model of a run while another process trains it, for export, generate and eval. Prints TAP.
. tests/tap.sh
find_shim
export OMP_WAIT_POLICY=passive # threads that spin slow each other down

smallest
shape="$data $shape"
# steps_done RUN: how many there are; 0 where there is no table yet, or the training holds it
steps_done() { sqlite3 "$1/run.db" ".timeout 9000" "SELECT count(*) FROM steps" 2>"$tmp/null" || echo 0; }

# begin OPTIONS...: a training of $tmp/at that goes on for long, in $pid; it has begun
begin() {
    rm -rf "$tmp/at"
    "$bin" pretrain --run "$tmp/at" $shape --steps 1000000 "$@" >"$tmp/training.out" 2>"$tmp/training.err" </dev/null &
    pid=$!
    for _ in $(seq 1200); do [ ! -e "$tmp/at/run.db" ] || [ "$(steps_done "$tmp/at")" -lt 4 ] || break; sleep 0.05; done
}
stop() {
    kill -INT $pid 2>"$tmp/null"
    wait $pid
    got=$?
    result "$([ $got = 130 ]; echo $?)" "the training is stopped as usual ($got)"
}
step_said() { sed -n 's/.*the model after step \([0-9]*\) is taken.*/\1/p' "$tmp/err"; }
left() { find "$tmp/at" -name 'asked*' | wc -l; }

for mode in su+o mem; do
    begin --mode $mode
    rm -rf "$tmp/hf" "$tmp/same" "$tmp/hf2"
    works "$mode: export" export "$tmp/at" "$tmp/hf"
    step=$(step_said)
    result "$([ "${step:-0}" -gt 3 ]; echo $?)" "$mode: says after which step"
    result "$(grep -q "$tmp/at keeps no record of $tmp/hf, .* it is being trained" "$tmp/err"; echo $?)" "$mode: and that the run keeps no record"
    works "$mode: generate" generate "$tmp/at" --prompt sea --tokens 2 --threads 1
    works "$mode: eval" eval "$tmp/at" --data "$tmp/text.bin" --threads 1
    result "$(left)" "$mode: nothing stays in the run's folder"
    stop

    works "$mode: the run is whole" check "$tmp/at"
    works "$mode: so many steps once more" pretrain --run "$tmp/same" $shape --mode $mode --steps "$step" --schedule-steps 1000000
    works "$mode: exported" export "$tmp/same" "$tmp/hf2"
    same "$(sums "$tmp/hf")" "$(sums "$tmp/hf2")" "$mode: are the same files as what was exported meanwhile"
done

# adapters: the merged model and the adapter, in a packed base or not
run export "$tmp/same" "$tmp/base"
whole_shape=$shape
shape="$data --init $tmp/base --seq 8 --batch 1 --lora-rank 2 --lora-dropout 10% --lr 1e-2 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"
for mode in "su+o --devices 2" "mem --base-dtype nf4"; do
    begin --mode $mode
    rm -rf "$tmp/adapter" "$tmp/hf" "$tmp/same" "$tmp/adapter2"
    works "adapters, $mode: export --adapter" export "$tmp/at" "$tmp/adapter" --adapter
    step=$(step_said)
    works "$mode: export" export "$tmp/at" "$tmp/hf"
    works "$mode: generate" generate "$tmp/at" --prompt sea --tokens 2 --threads 1
    works "$mode: eval" eval "$tmp/at" --data "$tmp/text.bin" --threads 1
    works "$mode: report" report "$tmp/at"
    result "$(grep -q "trains .* of .* parameters" "$tmp/out"; echo $?)" "$mode: says what is trained"
    refuses 1 "is in use by process $pid" check "$tmp/at"
    result "$(left)" "$mode: nothing stays in the run's folder"
    stop
    works "$mode: the run is whole" check "$tmp/at"
    works "$mode: so many steps once more" pretrain --run "$tmp/same" $shape --mode $mode --steps "$step" --schedule-steps 1000000
    works "$mode: exported" export "$tmp/same" "$tmp/adapter2" --adapter
    same "$(sums "$tmp/adapter")" "$(sums "$tmp/adapter2")" "$mode: are the same files as what was exported meanwhile"
done
shape=$whole_shape

begin --mode su+o
for n in 1 2 3; do
    "$bin" export "$tmp/at" "$tmp/many$n" >"$tmp/many$n.out" 2>&1 &
    eval "reader$n=\$!"
done
bad=
for n in 1 2 3; do eval "wait \$reader$n" || bad="$bad $(cat "$tmp/many$n.out")"; done
result "$([ -z "$bad" ] && ls "$tmp"/many[123]/model.safetensors >"$tmp/null"; echo $?)" "three at once get one each$bad"
kill -STOP $pid
"$bin" export "$tmp/at" "$tmp/never" >"$tmp/out" 2>"$tmp/err" &
reader=$!
for _ in $(seq 1200); do [ "$(left)" = 0 ] || break; sleep 0.05; done
kill -KILL $reader
wait $reader 2>"$tmp/null"
result "$([ "$(left)" = 1 ] && [ ! -e "$tmp/never" ]; echo $?)" "one that is killed while it waits leaves what it asked with"
kill -CONT $pid
works "the next one is answered" export "$tmp/at" "$tmp/next"
result "$(left)" "and removes that"
kill -STOP $pid
"$bin" export "$tmp/at" "$tmp/early" >"$tmp/out" 2>"$tmp/err" &
reader=$!
for _ in $(seq 1200); do [ "$(left)" = 0 ] || break; sleep 0.05; done
touch -d 2001-01-01 "$tmp/at"
kill -CONT $pid
for _ in $(seq 1200); do [ -e "$tmp/early/config.json" ] || sleep 0.05; done
[ -e "$tmp/early/config.json" ] || kill -KILL $reader
wait $reader 2>"$tmp/null"
result $? "so is one where the file system's clock is behind"
kill -STOP $pid
"$bin" export "$tmp/at" "$tmp/last" >"$tmp/out" 2>"$tmp/err" &
reader=$!
for _ in $(seq 1200); do [ "$(left)" = 0 ] || break; sleep 0.05; done
kill -KILL $pid
wait $pid 2>"$tmp/null"
wait $reader
result $? "where the training is killed meanwhile, it exports what is there"
result "$(left)" "and nothing stays"

begin --mode su+o
mkdir "$tmp/at/asked.new-12345678b2131df3" "$tmp/at/asked.new-1" && echo mine >"$tmp/at/asked.new-1/mine"
steps=$(steps_done "$tmp/at") # after each step it looks
for _ in $(seq 1200); do [ "$(steps_done "$tmp/at")" -lt $((steps + 4)) ] || break; sleep 0.05; done
result "$([ -z "$(ls "$tmp/at/asked.new-12345678b2131df3")" ] && [ "$(cat "$tmp/at/asked.new-1/mine")" = mine ]; echo $?)" "a folder that nobody has locked gets no model"
rm -r "$tmp"/at/asked.new-*
stop

begin --mode su+o --eval-data "$tmp/text.bin" --eval-every 5 --keep-best --lr 1e-2
for _ in $(seq 1200); do
    [ "$(sqlite3 "$tmp/at/run.db" ".timeout 9000" "SELECT count(*) FROM runs WHERE key = 'best.step'" 2>"$tmp/null")" = 1 ] && break
    sleep 0.05
done
rm -rf "$tmp/hf"
works "with --keep-best" export "$tmp/at" "$tmp/hf"
result "$(grep -q "the best model is taken, .*; --last takes the one that is being trained" "$tmp/err"; echo $?)" "the best one is taken"
works "--last" export "$tmp/at" "$tmp/hf-last" --last
result "$([ -n "$(step_said)" ]; echo $?)" "the last one is taken"
if [ "$(id -u)" = 0 ] && command -v setpriv >"$tmp/null"; then
    chmod 755 "$tmp"
    cp "$bin" "$tmp/siTrain"
    setpriv --reuid 65534 --regid 65534 --clear-groups "$tmp/siTrain" export "$tmp/at" /var/tmp/nobody-$$ --last >"$tmp/out" 2>"$tmp/err"
    result "$([ $? = 1 ] && grep -q "is another user's" "$tmp/err" && [ ! -e /var/tmp/nobody-$$ ]; echo $?)" "another user is refused with a sentence"
fi
stop

if command -v flock >"$tmp/null"; then # another program has the folder locked: it is not waited for
    rm -rf "$tmp/hf"
    mkdir "$tmp/locked"
    exec 9<"$tmp/locked"
    flock 9
    "$bin" pretrain --run "$tmp/locked" $shape --steps 1000000 >"$tmp/training.out" 2>"$tmp/training.err" </dev/null 9<&- &
    pid=$!
    for _ in $(seq 1200); do [ ! -e "$tmp/locked/run.db" ] || [ "$(steps_done "$tmp/locked")" -lt 4 ] || break; sleep 0.05; done
    works "a run is trained in a folder that somebody has locked, and its model read" export "$tmp/locked" "$tmp/hf"
    kill -STOP $pid
    "$bin" export "$tmp/locked" "$tmp/hf-locked" >"$tmp/out" 2>"$tmp/err" </dev/null &
    reader=$!
    for _ in $(seq 1200); do grep -q "is stopped" "$tmp/err" && break; sleep 0.05; done
    result "$(grep -q "is trained by process $pid on .*, which is stopped: .* (kill -CONT $pid)" "$tmp/err"; echo $?)" "who waits for a training that is stopped is told so"
    kill -KILL $pid
    wait $pid 2>"$tmp/null"
    wait $reader
    result $? "who waits for its model has it also if the training is killed"
    exec 9<&-
fi

if [ -f "$shim" ]; then # somebody who does not train
    held "open:/best/model.safetensors:1" eval "$tmp/at" --data "$tmp/text.bin" --threads 1
    run export "$tmp/at" "$tmp/busy" --last
    result "$([ "$got" = 1 ] && grep -q "in use by process $pid" "$tmp/err" && [ ! -e "$tmp/busy" ]; echo $?)" "a run that is used, but not trained, is in use"
    rm "$tmp/held"
    wait $pid

    # a training that is to stop while it writes the model
    rm -rf "$tmp/at" "$tmp/hf" "$tmp/held" "$tmp/held.over"
    (export LD_PRELOAD="$shim" SHIM_AT="open:/answer.new-:1:$tmp/held"; exec "$bin" pretrain --run "$tmp/at" $shape --steps 1000000) >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    for _ in $(seq 1200); do [ ! -e "$tmp/at/run.db" ] || [ "$(steps_done "$tmp/at")" -lt 4 ] || break; sleep 0.05; done
    "$bin" export "$tmp/at" "$tmp/hf" >"$tmp/reader" 2>&1 &
    reader=$!
    while [ ! -e "$tmp/held" ] && kill -0 $pid 2>"$tmp/null"; do sleep 0.02; done
    steps=$(steps_done "$tmp/at")
    kill -INT $pid
    rm "$tmp/held"
    wait $pid
    same "130 $steps" "$? $(steps_done "$tmp/at")" "it stops at once, without another step"
    wait $reader

    # a tokenizer that goes while the tensors are written, which may take minutes
    rm -rf "$tmp/hf"
    works "an export" export "$tmp/at" "$tmp/whole"
    held "open:/model.safetensors:1" export "$tmp/at" "$tmp/hf"
    mv "$tmp/at/tokenizer" "$tmp/elsewhere"
    rm "$tmp/held"
    wait $pid
    result "$([ $? = 0 ] && diff -r "$tmp/whole" "$tmp/hf" >/dev/null; echo $?)" "an export has the run's tokenizer, also if that goes meanwhile"
    mv "$tmp/elsewhere" "$tmp/at/tokenizer"
fi

done_testing
