#!/bin/sh
# checkpoints.sh: --export-every and --export-limit: the folders RUN/checkpoint-STEP, what a kill leaves of them, and whose they are. Prints TAP.
. tests/tap.sh
find_shim
smallest
there() { (cd "$1" && echo checkpoint-*); }
known() { sqlite3 "$1/run.db" "SELECT group_concat(substr(key, 12) || CASE WHEN value LIKE '%writing' THEN ' unfinished' ELSE '' END, ' ') FROM
    (SELECT * FROM runs WHERE key GLOB 'checkpoint.*' ORDER BY CAST(substr(key, 12) AS INTEGER))"; }
# like_export RUN STEP NAME [--adapter]: the folder has the files of what a run of so many steps exports, byte for byte
like_export() {
    rm -rf "$tmp/short" "$tmp/hf"
    run pretrain --run "$tmp/short" $shape --mode $mode --steps "$2"
    run export "$tmp/short" "$tmp/hf" $4
    result "$(diff -r "$tmp/hf" "$1/checkpoint-$2" >"$tmp/out"; echo $?)" "$3"
}

shape="$data $shape --lr 1e-2"
for mode in su+o mem; do
    rm -rf "$tmp/run"
    works "$mode: a model every 3 steps, 2 of them" pretrain --run "$tmp/run" $shape --mode $mode --steps 10 --export-every 3 --export-limit 2
    same "checkpoint-10 checkpoint-9" "$(there "$tmp/run")" "$mode: the newest are there, that of the last step, too"
    same "9 10" "$(known "$tmp/run")" "$mode: run.db knows them"
    like_export "$tmp/run" 9 "$mode: one is the export of that step"
    like_export "$tmp/run" 10 "$mode: so is the other"
    works "$mode: a resume goes on with them" pretrain --resume "$tmp/run" --steps 13 --quiet
    same "checkpoint-12 checkpoint-13" "$(there "$tmp/run")" "$mode: in the place of the oldest"
    works "$mode: and ends them" pretrain --resume "$tmp/run" --steps 20 --export-every 0 --quiet
    same "checkpoint-12 checkpoint-13" "$(there "$tmp/run")" "$mode: those that are there stay"
    works "$mode: the run is whole" check "$tmp/run"
done
works "generate reads one" generate "$tmp/run/checkpoint-12" --prompt sea --tokens 2 --threads 1
works "and a new run begins from it" pretrain --run "$tmp/next" --init "$tmp/run/checkpoint-12" --data "$tmp/text.bin" --seq 8 --steps 1 --quiet
works "the plan" plan --n-layer 1 --n-head 1 --n-embd 8 --vocab 260 --seq 8 --steps 10 --export-every 3 --export-limit 2 --probe off
grep -q '^Exports: .* for 2 models in RUN/checkpoint-STEP, and for the next one; .* written in all$' "$tmp/out"
result $? "says what they take"

# a kill at any call that names or writes them: the resume has all that a run left alone has
if [ -n "$shim" ]; then
    for mode in su+o mem; do
        whole="$shape --mode $mode --commit-every 2 --steps 6 --export-every 2 --export-limit 2"
        rm -rf "$tmp/whole"
        run pretrain --run "$tmp/whole" $whole
        n=1 bad= got=137
        while [ $n -lt 400 ]; do
            rm -rf "$tmp/at"
            LD_PRELOAD="$shim" SHIM_AT="any:/checkpoint-:$n:kill" "$bin" pretrain --run "$tmp/at" $whole >"$tmp/out" 2>"$tmp/err" </dev/null
            killed=$?
            [ $killed = 137 ] || break
            run pretrain --resume "$tmp/at" --quiet
            [ "$got" = 0 ] && diff -r "$tmp/whole/checkpoint-4" "$tmp/at/checkpoint-4" >"$tmp/out" && diff -r "$tmp/whole/checkpoint-6" "$tmp/at/checkpoint-6" >"$tmp/out" &&
                [ "$(there "$tmp/at")" = "checkpoint-4 checkpoint-6" ] && [ "$(known "$tmp/at")" = "4 6" ] || bad="$bad $n"
            n=$((n + 1 + n % 11))
        done
        result "$([ -z "$bad" ] && [ $n -gt 20 ] && [ $killed = 0 ]; echo $?)" "$mode: killed at calls up to $n$bad"
    done
else
    skip "kills" "no shim here"
fi

# A tokenizer that was changed since goes into no model, nor does anything train on.
rm -rf "$tmp/words"
works "a run with a tokenizer" pretrain --run "$tmp/words" $shape --steps 2 --export-every 1
for how in 'sed -i "s/\"!\": 0/\"!\": 1/; s/\"\\\\\"\": 1/\"\\\\\"\": 0/" tokenizer.json vocab.json' 'rm merges.txt' 'mv vocab.json ../x; ln -s ../x vocab.json' 'rm *'; do
    rm -rf "$tmp/at"
    cp -a "$tmp/words" "$tmp/at"
    (cd "$tmp/at/tokenizer" && eval "$how")
    run pretrain --resume "$tmp/at" --steps 4 --quiet
    [ "$got" != 0 ] && grep -q "$tmp/at/tokenizer" "$tmp/err" && [ "$(there "$tmp/at")" = "checkpoint-1 checkpoint-2" ] && [ "$(steps_of "$tmp/at")" = "$(steps_of "$tmp/words")" ]
    result $? "refused before a step: $how"
done
for gone in tokenizer/merges.txt tokenizer; do
    [ -n "$shim" ] || break
    rm -rf "$tmp/at"
    cp -a "$tmp/words" "$tmp/at"
    held "any:/checkpoint-3:1" pretrain --resume "$tmp/at" --steps 4 --quiet
    mv "$tmp/at/$gone" "$tmp/x"
    rm "$tmp/held"
    wait $pid
    result "$([ $? = 1 ] && grep -q "was removed since the run was made: put the file back" "$tmp/err" && [ "$(there "$tmp/at")" = "checkpoint-1 checkpoint-2" ]; echo $?)" "nor is a model written without $gone, removed meanwhile"
    mv "$tmp/x" "$tmp/at/$gone"
    works "which goes on when it is back" pretrain --resume "$tmp/at" --steps 4 --quiet
    same "checkpoint-1 checkpoint-2 checkpoint-3 checkpoint-4" "$(there "$tmp/at")" "with all models"
done

# somebody's folders
mode=su+o
rm -rf "$tmp/run"
run pretrain --run "$tmp/run" $shape --steps 4 --export-every 2
cp -R "$tmp/run" "$tmp/noted"
echo mine >"$tmp/noted/checkpoint-4/notes"
works "the last step's model, with somebody's file in it, is none to come" pretrain --resume "$tmp/noted" --steps 6 --quiet
same "mine checkpoint-2 checkpoint-4 checkpoint-6" "$(cat "$tmp/noted/checkpoint-4/notes") $(there "$tmp/noted")" "and stays"
mkdir "$tmp/run/checkpoint-6"
echo mine >"$tmp/run/checkpoint-6/notes"
refuses 2 "checkpoint-6 is not a model of this run" pretrain --resume "$tmp/run" --steps 8 --quiet
same "mine" "$(cat "$tmp/run/checkpoint-6/notes")" "and stays"
same "4" "$(sqlite3 "$tmp/run/run.db" "SELECT count(*) FROM steps")" "before any step"
works "without a step of this number it is nobody's business" pretrain --resume "$tmp/run" --steps 8 --export-every 4 --quiet
same "mine" "$(cat "$tmp/run/checkpoint-6/notes")" "it stays again"
echo mine >"$tmp/run/checkpoint-2/notes"
echo '{}' >"$tmp/run/checkpoint-4/config.json"
works "folders that somebody has changed" pretrain --resume "$tmp/run" --steps 12 --export-limit 1 --quiet
same "2" "$(grep -c 'holds something that this run did not write, so it stays' "$tmp/err")" "are named"
same "checkpoint-12 checkpoint-2 checkpoint-4 checkpoint-6" "$(there "$tmp/run")" "and stay"
same "12" "$(known "$tmp/run")" "and do not count any more"
# a tensor that was changed in place: its file's header is as it was
works "two folders" pretrain --resume "$tmp/run" --steps 14 --export-limit 2 --quiet
at=$tmp/run/checkpoint-12/model.safetensors
printf changed | dd of="$at" bs=1 seek=$(($(stat -c %s "$at") - 400)) conv=notrunc 2>/dev/null
refuses 1 "checkpoint-12/model.safetensors is corrupt" check "$tmp/run" --quiet
works "and training goes on" pretrain --resume "$tmp/run" --steps 16 --export-limit 1 --quiet
same "1" "$(grep -c 'checkpoint-12 holds something that this run did not write, so it stays' "$tmp/err")" "the folder is named"
result "$([ -e "$at" ]; echo $?)" "and stays"
# a file in a folder's place
works "two folders again" pretrain --resume "$tmp/run" --steps 18 --export-limit 2 --quiet
rm -r "$tmp/run/checkpoint-16"
echo mine >"$tmp/run/checkpoint-16"
works "a file with the name of a folder that is to go" pretrain --resume "$tmp/run" --steps 20 --export-limit 1 --quiet
same "mine 1" "$(cat "$tmp/run/checkpoint-16") $(grep -c 'checkpoint-16 holds something that this run did not write, so it stays' "$tmp/err")" "stays, and is named"
refuses 2 "checkpoint-7 is the name of a part of a run" export "$tmp/run" "$tmp/run/checkpoint-7"
refuses 2 "--export-limit needs --export-every" pretrain --run "$tmp/none" $shape --export-limit 2
refuses 2 "devices that store nothing have none" pretrain --run "$tmp/none" $shape --csd null --export-every 2

# a process that works in a folder puts a file into it, whatever its name is by then: the file stays
if [ -n "$shim" ]; then
    rm -rf "$tmp/whole"
    run pretrain --run "$tmp/whole" $shape --mode su+o --steps 2 --export-every 2 --export-limit 1
    cp -a "$tmp/whole" "$tmp/unread"
    run pretrain --resume "$tmp/unread" --steps 4 --export-limit 2 --quiet
    (export LD_PRELOAD="$shim" SHIM_FAIL=look=EIO@/checkpoint-2; exec "$bin" pretrain --resume "$tmp/unread" --steps 6 --export-limit 1 --quiet) >"$tmp/out" 2>"$tmp/err"
    result "$([ $? = 1 ] && grep -q "checkpoint-2 cannot be read: Input/output error" "$tmp/err"; echo $?)" "a folder that nobody could look at is not called somebody's"
    works "the next one removes it" pretrain --resume "$tmp/unread" --steps 8 --quiet
    same checkpoint-8 "$(there "$tmp/unread")" "and all but the newest"
    comes() { # WHAT FILE ENDS: somebody saves FILE into a folder that is being removed, at each of its calls; then ENDS
        n=1 bad=
        while [ $n -lt 400 ]; do
            rm -rf "$tmp/at"
            cp -a "$tmp/whole" "$tmp/at"
            exec 9<"$tmp/at/checkpoint-2"
            held "any:/checkpoint-2:$n" pretrain --resume "$tmp/at" --steps 4 --quiet || break
            sleep 0.02 # a tick of the clock that files have
            echo mine >"/proc/self/fd/9/$2" 2>"$tmp/null" && put=1 || put=0
            $3
            run pretrain --resume "$tmp/at" --steps 6 --quiet
            [ $put = 0 ] || [ "$(cat "$tmp/at/checkpoint-2/$2" 2>&1)" = mine ] || bad="$bad $n"
            [ -z "$(find "$tmp/at" -name '*.new-*')" ] || bad="$bad $n:left"
            n=$((n + 1 + n % 3))
        done
        wait $pid
        exec 9<&-
        result "$([ -z "$bad" ] && [ $n -gt 20 ]; echo $?)" "$1, at calls up to $n$bad"
    }
    goes_on() {
        rm "$tmp/held"
        wait $pid
        got=$?
        [ $put$got = 12 ] || [ $got = 0 ] || bad="$bad $n:$got"
    }
    is_killed() {
        kill -9 $pid
        wait $pid
    }
    comes "what comes to a folder that is removed" notes goes_on
    comes "and of a name of the model's, where the process is then killed" config.json is_killed
    # a folder of this name has come since: the removed one cannot get its name back
    rm -rf "$tmp/at"
    cp -a "$tmp/whole" "$tmp/at"
    mkdir "$tmp/at/checkpoint-1.gone-0000000000000001.new-12345678b2131df3" "$tmp/at/checkpoint-1"
    echo mine >"$tmp/at/checkpoint-1.gone-0000000000000001.new-12345678b2131df3/config.json"
    works "what is left of a removed folder whose name is taken" pretrain --resume "$tmp/at" --steps 4 --quiet
    result "$(grep -q "checkpoint-1.gone.*it holds somebody's files: move them elsewhere" "$tmp/err"; echo $?)" "is named"
    same mine "$(cat "$tmp/at"/checkpoint-1.gone*/config.json)" "and stays"
else
    skip "a file that comes to a folder that is removed" "no shim here"
fi

# adapters
run export "$tmp/run" "$tmp/base"
shape="$data --init $tmp/base --seq 8 --batch 1 --lora-rank 2 --lr 1e-2 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"
for mode in su+o "mem --base-dtype nf4"; do
    rm -rf "$tmp/tuned"
    works "adapters, $mode" pretrain --run "$tmp/tuned" $shape --mode $mode --steps 3 --export-every 2
    like_export "$tmp/tuned" 2 "$mode: a folder is what export --adapter writes" --adapter
done

# what cannot be removed keeps its name: a folder that its user has write-protected, of root's with an attribute
protect() { if [ "$(id -u)" = 0 ]; then chattr +i "$@"; else chmod a-w "$@"; fi 2>"$tmp/null"; }
release() { if [ "$(id -u)" = 0 ]; then chattr -i "$@"; else chmod u+w "$@"; fi; }
rm -rf "$tmp/run"
run pretrain --run "$tmp/run" $shape --mode su+o --steps 2 --export-every 1 --export-limit 1 --snapshot-every 1 --snapshots 1
snapshot=$(ls -d "$tmp"/run/snapshots/run-*/step-00000002)
if protect "$tmp/run/checkpoint-2" "$snapshot"; then
    works "protected folders: the run goes on" pretrain --resume "$tmp/run" --steps 3 --quiet
    same "1 1" "$(grep -c "checkpoint-2 is .*, so it stays" "$tmp/err") $(grep -c "step-00000002 is .*; it is not removed" "$tmp/err")" "they are named"
    release "$tmp/run/checkpoint-2" "$snapshot"
    same "checkpoint-2 checkpoint-3" "$(there "$tmp/run")" "the model stays under its name"
    same "step-00000002 step-00000003" "$(cd "${snapshot%/*}" && echo *)" "and the snapshot"
else
    skip "protected folders" "no attributes can be set here"
fi

# several ranks: the first has the whole model
by_ranks
few_words 2000
model="--n-layer 3 --n-head 4 --n-embd 64 --seq 16 --batch 1 --grad-accum 2 --groups 2 --threads 1 --csd-mem 1M --data $tmp/text --tokenizer $tmp/tok --quiet"
# shellcheck disable=SC2086
timeout 120 mpirun $more -n 2 "$bin" pretrain --run "$tmp/job" $model --steps 5 --export-every 2 --export-limit 2 >"$tmp/out" 2>"$tmp/err" </dev/null
result $? "two ranks"
same "checkpoint-4 checkpoint-5" "$(there "$tmp/job")" "rank 0 has the folders"
result "$([ "$(there "$tmp/job.rank1")" = "checkpoint-*" ]; echo $?)" "rank 1 has none"
run export "$tmp/job" "$tmp/job-hf"
result "$(diff -r "$tmp/job-hf" "$tmp/job/checkpoint-5" >"$tmp/out"; echo $?)" "which are whole models"
done_testing
