#!/bin/sh
# siTrain check as a person runs it: a byte turned in anything that a run keeps is found, named, and changes nothing; training does not
# take it in either; turned back, all is well, and what can be made again is made again. Prints TAP.
. tests/tap.sh

make_text 3000 >"$tmp/text.txt"
make_text 400 >"$tmp/held.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
shape="--data $tmp/text.txt --eval-data $tmp/held.txt --tokenizer $tmp/tok --n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 3 --lr 1e-3
       --csd-mem 192K --durability none --schedule-steps 8 --quiet"

# made NAME STEPS ARGUMENTS...
made() {
    made_name=$1 made_steps=$2
    shift 2
    run pretrain --run "$tmp/$made_name" $shape --steps "$made_steps" "$@"
}

# damaged NAME RUN FILE OFFSET TEXT: found by check, one sentence with TEXT, nothing written; turned back, whole again
damaged() {
    turn "$3" "$4"
    damaged_before=$(sums "$2")
    run check "$2"
    damaged_ok=1
    if [ "$got" = 1 ] && [ "$(grep -cF -- "$5" "$tmp/err")" = 1 ] && grep -q 'is damaged: 1 sentence above' "$tmp/out" &&
        [ "$damaged_before" = "$(sums "$2")" ]; then
        damaged_ok=0
    fi
    result $damaged_ok "check finds and names: $1"
}

mended() { # RUN FILE OFFSET
    turn "$2" "$3"
    run check "$1"
    result "$got" "turned back, it is whole"
}

made whole 8 --mode su+o --devices 2 --compress 10% --error-feedback
want=$(exported "$tmp/whole")
# a pair of files whose class nothing names, as in runs of older versions: nothing is damaged
cp -a "$tmp/whole" "$tmp/pair"
rm "$tmp/pair/tokenizer/tokenizer.json" "$tmp/pair/tokenizer/tokenizer_config.json" "$tmp/pair/tokenizer/special_tokens_map.json"
sed -i "s/<|endoftext|>/<|end|>/" "$tmp/pair/tokenizer/vocab.json"
run check "$tmp/pair"
result "$([ "$got" = 1 ] && grep -q "pair/tokenizer/.* was .* since the run was made" "$tmp/err"; echo $?)" "a tokenizer of no class whose files have changed is damaged"
sqlite3 "$tmp/pair/run.db" "DELETE FROM runs WHERE key = 'tokenizer.files'"
run check "$tmp/pair"
result "$([ "$got" = 0 ] && grep -q "is whole" "$tmp/out" && grep -q 'put {"tokenizer_class": "GPT2Tokenizer"} into' "$tmp/err"; echo $?)" "a tokenizer of no class is not damaged, and what to do is said"
rm -rf "$tmp/pair"
made run 5 --mode su+o --devices 2 --compress 10% --error-feedback --keep-best
before=$(sums "$tmp/run")
works "a run is whole" check "$tmp/run"
grep -q '^states' "$tmp/out" && grep -q '^residuals' "$tmp/out" && grep -q '^tokens' "$tmp/out" && grep -q '^best' "$tmp/out"
result $? "each kind has its line"
same "$before" "$(sums "$tmp/run")" "looking writes nothing"
run check "$tmp/run" --quiet
result "$([ "$got" = 0 ] && [ ! -s "$tmp/out" ]; echo $?)" "--quiet says only what is damaged"
works "so is an export" export "$tmp/run" "$tmp/hf"
works "by its checksums" check "$tmp/hf"
grep -q '^tokenizer' "$tmp/out"
result $? "and its tokenizer is opened"
cp -r "$tmp/hf" "$tmp/cut"
truncate -s 100 "$tmp/cut/tokenizer.json"
refuses 1 "cut/tokenizer.json is not valid JSON" check "$tmp/cut" --quiet
rm -rf "$tmp/cut"
refuses 2 "neither a run" check "$tmp/tok"
refuses 2 "neither a run" check "$tmp/nowhere"
mkdir "$tmp/uri"
cp -a "$tmp/run" "$tmp/uri/file:run"
(cd "$tmp/uri" && "$bin" report file:run) >"$tmp/out" 2>"$tmp/err"
result "$(grep -q "^file:run: " "$tmp/out"; echo $?)" "a name that SQLite would take for a URI"
rm -rf "$tmp/uri"

# files
for file in tokenizer.json tokenizer_config.json vocab.json merges.txt; do
    cp "$tmp/run/tokenizer/$file" "$tmp/kept"
    echo >>"$tmp/run/tokenizer/$file"
    damaged_before=$(sums "$tmp/run")
    run check "$tmp/run"
    result "$([ "$got" = 1 ] && grep -q "tokenizer/$file was changed since the run was made" "$tmp/err" && [ "$damaged_before" = "$(sums "$tmp/run")" ]; echo $?)" "check names $file"
    run export "$tmp/run" "$tmp/none"
    result "$([ "$got" = 1 ] && [ ! -e "$tmp/none" ] && grep -q "tokenizer/$file was changed" "$tmp/err"; echo $?)" "export refuses it"
    cp "$tmp/kept" "$tmp/run/tokenizer/$file"
done
damaged "tokens" "$tmp/run" "$tmp/run/data.bin" 2000 "data.bin was changed since it was first used: the MiB at byte 0"
run pretrain --resume "$tmp/run" --steps 6
result "$([ "$got" = 1 ] && grep -q 'data.bin was changed.*: bring back the file as it was$' "$tmp/err"; echo $?)" "training does not read them, and restore is not named"
mended "$tmp/run" "$tmp/run/data.bin" 2000
damaged "tokens to evaluate on" "$tmp/run" "$tmp/run/eval.bin" 1030 "eval.bin was changed"
mended "$tmp/run" "$tmp/run/eval.bin" 1030
damaged "the best model's header" "$tmp/run" "$tmp/run/best/model.safetensors" 40 "best/model.safetensors"
mended "$tmp/run" "$tmp/run/best/model.safetensors" 40
cp "$tmp/run/best/tokenizer.json" "$tmp/kept"
echo junk >"$tmp/run/best/tokenizer.json"
refuses 1 "best/tokenizer.json" check "$tmp/run" --quiet
mv "$tmp/kept" "$tmp/run/best/tokenizer.json"
mv "$tmp/run/best/config.json" "$tmp/kept"
refuses 1 "best has no config.json" check "$tmp/run" --quiet
sed 's/"n_embd": [0-9]*/"n_embd": 4096/' "$tmp/kept" >"$tmp/run/best/config.json"
refuses 1 "put a copy of that model there" check "$tmp/run" --quiet
mv "$tmp/kept" "$tmp/run/best/config.json"
damaged "an export's tensor" "$tmp/run" "$tmp/hf/model.safetensors" 9000 "hf/model.safetensors is corrupt"
run check "$tmp/hf"
result "$([ "$got" = 1 ] && grep -q 'tensor transformer' "$tmp/err"; echo $?)" "the export's own check says so too"
run eval "$tmp/hf" --data "$tmp/held.txt" --seq 24
result "$([ "$got" = 1 ] && grep -q 'is corrupt' "$tmp/err"; echo $?)" "and nobody reads it"
mended "$tmp/run" "$tmp/hf/model.safetensors" 9000
cp -r "$tmp/hf" "$tmp/beside" # a reader reads more than tensors
truncate -s -9 "$tmp/beside/generation_config.json"
run check "$tmp/beside"
same "1 1" "$got $(grep -c "beside/generation_config.json is not valid JSON" "$tmp/err")" "half a generation_config.json is damage"
cp "$tmp/hf/generation_config.json" "$tmp/beside/"
rm "$tmp/beside/vocab.json"
mkdir "$tmp/beside/vocab.json"
run check "$tmp/beside"
same "1 1" "$got $(grep -c "beside/vocab.json is a folder" "$tmp/err")" "and a folder in a file's place"
mv "$tmp/hf" "$tmp/hf.away"
works "an export that was removed is no damage" check "$tmp/run"
mv "$tmp/hf.away" "$tmp/hf"
mv "$tmp/run/best" "$tmp/best.away"
run check "$tmp/run"
result "$([ "$got" = 1 ] && grep -q 'run/best is not there any more' "$tmp/err"; echo $?)" "a best model that was removed is missed"
mv "$tmp/best.away" "$tmp/run/best"
# Shards of two exports are each whole, and no model together.
cp -r "$tmp/run" "$tmp/later"
works "an export in shards" export "$tmp/later" "$tmp/shards" --max-shard-size 60K --last
run pretrain --resume "$tmp/later" --steps 6 --quiet
works "a later one" export "$tmp/later" "$tmp/shards.later" --max-shard-size 60K --last
works "which is whole" check "$tmp/shards.later"
cp "$tmp"/shards.later/model-00002-of-*.safetensors "$tmp/shards/"
run check "$tmp/shards"
result "$([ "$got" = 1 ] && grep -q 'is of another export than one of the files that it names' "$tmp/err"; echo $?)" "files of two exports are no model"
refuses 1 "is of another export" import "$tmp/shards" "$tmp/mixed"

# states on devices: look for a place of each kind
place() { # KIND FROM STEP TO: an offset in dev0 where it is hit
    for at in $(seq "$2" "$3" "$4"); do
        turn "$tmp/run/dev0/states" "$at"
        "$bin" check "$tmp/run" --quiet 2>"$tmp/err" >/dev/null
        turn "$tmp/run/dev0/states" "$at"
        grep -q "the $1 of block" "$tmp/err" && return
    done
}
damaged "a superblock" "$tmp/run" "$tmp/run/dev1/states" 100 "dev1/states: the superblock is damaged"
works "a superblock is made again" check "$tmp/run" --repair
works "and whole" check "$tmp/run"
end=$(($(wc -c <"$tmp/run/dev0/states") - 3000)) # residuals are the last on a device
place residual $end -6000 $((end - 200000))
damaged "a residual" "$tmp/run" "$tmp/run/dev0/states" "$at" "dev0/states): the residual of block"
mended "$tmp/run" "$tmp/run/dev0/states" "$at"
place "wire parameters" 4200 6000 400000
damaged "wire parameters" "$tmp/run" "$tmp/run/dev0/states" "$at" "dev0/states): the wire parameters of block"
run pretrain --resume "$tmp/run" --steps 6
result "$([ "$got" = 1 ] && grep -q 'wire parameters of block.*--repair' "$tmp/err"; echo $?)" "training stops at them and says what helps"
works "they are made again from their master" check "$tmp/run" --repair
works "and are whole" check "$tmp/run"
place "states (master and moments)" 4200 6000 400000
damaged "a master" "$tmp/run" "$tmp/run/dev0/states" "$at" "dev0/states): the states (master and moments) of block"
result "$(grep -q "last exported state that is whole is that after step 5, in $tmp/hf" "$tmp/err"; echo $?)" "and what is whole is said"
run check "$tmp/run" --repair
result "$([ "$got" = 1 ]; echo $?)" "which nothing repairs"
run pretrain --resume "$tmp/run"
result "$([ "$got" = 1 ] && grep -q "after step 5, in $tmp/hf" "$tmp/err"; echo $?)" "training says the same"
run export "$tmp/run" "$tmp/never" --last
result "$([ "$got" = 1 ] && [ ! -e "$tmp/never" ] && grep -q "after step 5, in $tmp/hf" "$tmp/err"; echo $?)" "and so does export"
turn "$tmp/run/dev0/states" "$at"
works "turned back, it goes on" pretrain --resume "$tmp/run" --steps 8
same "$want" "$(exported "$tmp/run")" "to the same parameters as if nothing had been"
works "and is whole" check "$tmp/run"
mv "$tmp/run/dev1" "$tmp/run/away"
run check "$tmp/run"
result "$([ "$got" = 1 ] && grep -q 'device 1: ' "$tmp/err" && grep -q '^states' "$tmp/out"; echo $?)" "a device that is gone is named, the others are read"
mv "$tmp/run/away" "$tmp/run/dev1"

# images
made whole-mem 8 --mode mem
want=$(exported "$tmp/whole-mem")
made mem 6 --mode mem --commit-every 4
newest=$tmp/mem/image0
[ "$tmp/mem/image1" -nt "$newest" ] && newest=$tmp/mem/image1
damaged "an image" "$tmp/mem" "$newest" 5000 "${newest#"$tmp/"}: block 0 at offset 0 is damaged"
run pretrain --resume "$tmp/mem" --steps 8
result "$([ "$got" = 1 ] && grep -q 'last whole committed state is that after step 4' "$tmp/err"; echo $?)" "training names the one that is whole"
works "check --repair goes back to it" check "$tmp/mem" --repair
works "the run goes on from there" pretrain --resume "$tmp/mem" --steps 8
same "$want" "$(exported "$tmp/mem")" "to the same parameters"

# rows
awk 'BEGIN { print "label,sentence"; for (i = 0; i < 60; i++) print i % 2 "," (i % 2 ? "the sea loves" : "a ship fears") " it" }' >"$tmp/rows.csv"
run finetune --run "$tmp/fine" --train-file "$tmp/rows.csv" --eval-file "$tmp/rows.csv" --init "$tmp/hf" --batch 8 --max-seq 16 --steps 4 \
    --mode mem --durability none --quiet
works "a fine-tuning is whole" check "$tmp/fine"
result "$(grep -q "^results .*/eval_results.json$" "$tmp/out" && ! grep -q "^not checked" "$tmp/out"; echo $?)" "its results are looked at"
cp "$tmp/fine/eval_results.json" "$tmp/results"
cp "$tmp/fine/dev.ex" "$tmp/fine/test.ex"
echo '{"eval_loss": 0.1}' >"$tmp/fine/eval_results.json"
printf 'index\tprediction\n' >"$tmp/fine/predict_results_None.txt"
works "with another's results and rows it is whole, too" check "$tmp/fine"
result "$([ "$(grep -c "^not checked .*/\(eval_results.json: this run did not\|test.ex: this run did not\|predict_results_None.txt: run.db has no\)" "$tmp/out")" = 3 ]; echo $?)" \
    "but that these were not checked is said"
mv "$tmp/results" "$tmp/fine/eval_results.json"
rm "$tmp/fine/test.ex" "$tmp/fine/predict_results_None.txt"
damaged "an example" "$tmp/fine" "$tmp/fine/train.ex" 100 "train.ex: row"
mended "$tmp/fine" "$tmp/fine/train.ex" 100
damaged "the examples' header" "$tmp/fine" "$tmp/fine/dev.ex" 20 "dev.ex"
mended "$tmp/fine" "$tmp/fine/dev.ex" 20

# Who may not read something has not damaged it: it is said apart, and nothing is written. Not as root, who may read all.
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid 65534 --regid 65534 --clear-groups"
cp "$bin" "$tmp/siTrain" && chmod 755 "$tmp"
run export "$tmp/fine" "$tmp/fine.hf"
mkdir "$tmp/theirs" && cp -r "$tmp/whole" "$tmp/fine" "$tmp/theirs" && chmod -R a+rX "$tmp/fine.hf"
[ -z "$as" ] || chown -R 65534:65534 "$tmp/theirs"
if $as "$tmp/siTrain" check "$tmp/theirs/whole" >"$tmp/out" 2>"$tmp/err" </dev/null; then
    # denied RUN FILE KIND
    denied() {
        chmod 000 "$tmp/theirs/$1/$2"
        denied_before=$(sums "$tmp/theirs/$1")
        $as "$tmp/siTrain" check "$tmp/theirs/$1" >"$tmp/out" 2>"$tmp/err" </dev/null
        got=$?
        chmod 644 "$tmp/theirs/$1/$2"
        [ "$got" = 1 ] && [ "$(grep -c "cannot be read.*$2.*Permission denied" "$tmp/err")" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] &&
            ! grep -q damaged "$tmp/out" "$tmp/err" && grep -q "is not known to be whole: 1 of its parts cannot be read" "$tmp/out"
        result $? "no permission is no damage: $2"
    }
    # nor has a process that may start no thread
    if $as prlimit --nproc=0 true 2>"$tmp/null"; then
        $as prlimit --nproc=0 "$tmp/siTrain" check "$tmp/theirs/whole" >"$tmp/out" 2>"$tmp/err" </dev/null
        [ $? = 1 ] && grep -q "cannot be read: start the thread" "$tmp/err" && ! grep -q damaged "$tmp/out" "$tmp/err"
        result $? "no threads are no damage"
    else
        skip "no threads" "no prlimit"
    fi
    denied whole dev1/states
    denied whole data.bin
    denied whole tokenizer/tokenizer.json
    denied fine image1
    cp -a "$tmp/theirs/whole" "$tmp/theirs/kept"
    $as "$tmp/siTrain" pretrain --resume "$tmp/theirs/whole" --steps 11 --schedule-steps 11 --snapshot-every 1 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
    result $? "a run of somebody's, with snapshots"
    newest=$(ls -d "$tmp"/theirs/whole/snapshots/*/step-* | tail -n 1)
    for what in dev1/states dev1 .; do # a file, a folder in it, the snapshot itself
        mode=$(stat -c %a "$newest/$what")
        chmod 000 "$newest/$what"
        for command in "check --scrub" "snapshots --check" "restore"; do
            [ "$command" != restore ] || rm "$tmp/theirs/whole/dev0/states"
            $as "$tmp/siTrain" ${command% *} "$tmp/theirs/whole" $(echo "$command" | grep -o -e '--.*') >"$tmp/out" 2>"$tmp/err" </dev/null
            [ $? = "$([ "$command" = restore ]; echo $?)" ] && grep -q "${newest##*/}.*: Permission denied" "$tmp/err" &&
                ! grep -q "damaged\|not whole\|missing" "$tmp/out" "$tmp/err"
            result $? "no permission for $what of a snapshot: $command says so"
        done
        chmod "$mode" "$newest/$what"
        $as "$tmp/siTrain" pretrain --resume "$tmp/theirs/whole" --from "${newest##*/step-}" --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
        result $? "  and it is there still"
    done
    rm -r "$tmp/theirs/whole"
    mv "$tmp/theirs/kept" "$tmp/theirs/whole"
    denied fine train.ex
    chmod 000 "$tmp/theirs/whole/run.db"
    $as "$tmp/siTrain" check "$tmp/theirs/whole" >"$tmp/out" 2>"$tmp/err" </dev/null
    [ $? = 1 ] && grep -q 'run.db cannot be opened.*Permission denied' "$tmp/err" && ! grep -q damaged "$tmp/out" "$tmp/err"
    result $? "no permission is no damage: run.db"
    chmod 644 "$tmp/theirs/whole/run.db" && chmod 000 "$tmp/theirs/whole"
    $as "$tmp/siTrain" check "$tmp/theirs/whole" >"$tmp/out" 2>"$tmp/err" </dev/null
    [ $? = 1 ] && grep -q 'whole/run.db cannot be read: Permission denied' "$tmp/err"
    result $? "no permission is no damage: the folder"
    chmod 755 "$tmp/theirs/whole"
    $as "$tmp/siTrain" check "$tmp/theirs/whole" >"$tmp/out" 2>"$tmp/err" </dev/null
    result $? "it is whole all the same"
else
    skip "no permission is no damage" "no other user's process can be started here: $(head -n 1 "$tmp/err")"
fi

# run.db
if command -v sqlite3 >/dev/null; then
    sql() { # NAME TEXT STATEMENT...
        sql_name=$1 sql_text=$2
        shift 2
        cp "$tmp/fine/run.db" "$tmp/kept.db"
        sqlite3 "$tmp/fine/run.db" "$@"
        run check "$tmp/fine"
        result "$([ "$got" = 1 ] && grep -qF -- "$sql_text" "$tmp/err"; echo $?)" "run.db: $sql_name"
        cp "$tmp/kept.db" "$tmp/fine/run.db"
    }
    sql "a setting" "the setting option.lr is damaged" "UPDATE runs SET value = '0.1' WHERE key = 'option.lr'"
    sql "the journal" "journal" "UPDATE journal_image SET crc = crc + 1 WHERE block = 1"
    sql "a step" "the row of step 3 is damaged" "UPDATE steps SET loss = loss + 1 WHERE step = 2"
    sql "a step that is missing" "step 2 should come" "DELETE FROM steps WHERE step = 1"
    sql "an evaluation" "table evals" "UPDATE evals SET value = value + 1"
    sqlite3 "$tmp/fine/run.db" "UPDATE steps SET loss = loss + 1 WHERE step = 2; DELETE FROM steps WHERE step IN (0, 3); UPDATE evals SET value = 0"
    works "run.db: rows of measurements that are damaged are given up" check "$tmp/fine" --repair
    works "and the run is whole" check "$tmp/fine"
    same "4|1|0" "$(sqlite3 "$tmp/fine/run.db" "SELECT count(*), count(loss), (SELECT count(*) FROM evals) FROM steps")" "but for what they said"
    works "it goes on" finetune --resume "$tmp/fine" --steps 6 --schedule-steps 6
else
    skip "run.db changed by SQL" "no sqlite3"
fi

# long names: the sentence keeps its reason, and the command behind it its whole path
long=$tmp/$(printf '%0200d/%0140d' 1 2)
mkdir -p "${long%/*}"
made long 2 --mode su+o
run export "$tmp/long" "$tmp/kept"
mv "$tmp/long" "$long"
turn_all "$long/dev0/states"
refuses 1 "differs); siTrain check $long lists all damage, and with --repair repairs it as far as possible; the last exported state that is whole is" export "$long" "$tmp/none"
done_testing
