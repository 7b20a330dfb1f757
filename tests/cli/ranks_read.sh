#!/bin/sh
# A run of several ranks, read by one process that sees the folders of all: exported, evaluated, continued, checked; and fine-tuned by
# several. Prints TAP.
. tests/tap.sh
by_ranks
few_words 5000
model="--n-layer 3 --n-head 4 --n-embd 64 --seq 32 --batch 2 --grad-accum 6 --groups 6 --threads 1 --csd-mem 1M --seed 3 --min-lr 1e-4"
data="--data $tmp/text --tokenizer $tmp/tok"
ranks() { # RANKS COMMAND ARGUMENTS...: out, err, got
    n=$1
    shift
    # shellcheck disable=SC2086
    if [ "$n" = 1 ]; then
        timeout 120 "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    else
        timeout 120 mpirun $more -n "$n" "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    fi
    got=$?
}
steps="SELECT step, printf('%.17g %.17g', loss, grad_norm) FROM steps"

# shellcheck disable=SC2086
ranks 1 pretrain $model $data --steps 3 --run "$tmp/one" && ranks 3 pretrain $model $data --devices 2 --tensorboard "$tmp/board" --steps 3 --run "$tmp/run"
result "$(ls "$tmp/board" | grep -c . | grep -qx 1; echo $?)" "three ranks write one file for TensorBoard"
"$bin" export "$tmp/one" "$tmp/hf1" >/dev/null
"$bin" export "$tmp/run/" "$tmp/hf3" >/dev/null 2>"$tmp/err"
result "$(diff -r "$tmp/hf1" "$tmp/hf3" >/dev/null; echo $?)" "three ranks' export is that of one process, byte for byte"
for command in "eval RUN --data $tmp/text --batch 2" "eval RUN --data $tmp/text --batch 2 --dtype fp32" \
               "generate RUN --prompt alpha --tokens 8 --seed 1"; do
    # shellcheck disable=SC2086
    "$bin" $(echo "$command" | sed "s|RUN|$tmp/one|") >"$tmp/a" 2>/dev/null && "$bin" $(echo "$command" | sed "s|RUN|$tmp/run|") >"$tmp/b" 2>"$tmp/err" &&
        sed -i "s|$tmp/one|$tmp/run|" "$tmp/a"
    result "$(sed 's/ in .* s.*//' "$tmp/a" >"$tmp/c" && sed 's/ in .* s.*//' "$tmp/b" | cmp -s - "$tmp/c" && [ -s "$tmp/c" ]; echo $?)" \
        "$(echo "$command" | cut -d' ' -f1,2,7-) says what it says of one process"
done
"$bin" check "$tmp/run" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 0 ] && [ "$(grep -c 'is whole: ' "$tmp/out")" = 3 ]; echo $?)" "check reads all ranks' folders"

# Another number of ranks goes on to the same bits; the old run stays.
cp -r "$tmp/one" "$tmp/on"
ranks 1 pretrain --resume "$tmp/on" --steps 5 --schedule-steps 5
sqlite3 "$tmp/on/run.db" "$steps" >"$tmp/bits"
"$bin" export "$tmp/on" "$tmp/on-hf" >/dev/null
while read -r from to name; do
    "$bin" reshard "$tmp/$from" --ranks "$to" --new-run "$tmp/$name" >"$tmp/out" 2>"$tmp/err" && "$bin" check "$tmp/$name" >>"$tmp/out" 2>>"$tmp/err"
    same=$?
    [ "$to" = 1 ] || sqlite3 "$tmp/$name.rank1/run.db" "SELECT value FROM runs WHERE key = 'place.first'" | grep -q " $tmp/$name\$" || same=1
    ranks "$to" pretrain --resume "$tmp/$name" --steps 5 --schedule-steps 5
    sqlite3 "$tmp/$name/run.db" "$steps" | cmp -s - "$tmp/bits" || same=1
    "$bin" export "$tmp/$name" "$tmp/$name-hf" >/dev/null 2>&1
    diff -r "$tmp/on-hf" "$tmp/$name-hf" >/dev/null || same=1
    result "$same" "$from is made again for $to, and goes on to the bits of one process"
done <<'LIST'
run 2 two
run 1 alone
one 3 three
LIST
same 1 "$(ls "$tmp/board" | wc -l)" "none of them writes for TensorBoard where the old run does"
# A run that is being trained: rank 0 gives the model of all.
for mode in su+o base; do
    # shellcheck disable=SC2086
    mpirun $more -n 3 "$bin" pretrain $model $data --mode $mode --steps 1000000 --run "$tmp/at" >"$tmp/training.out" 2>"$tmp/training.err" </dev/null &
    pid=$!
    for _ in $(seq 1200); do
        [ ! -e "$tmp/at/run.db" ] || [ "$(sqlite3 "$tmp/at/run.db" "SELECT count(*) FROM steps" 2>/dev/null || echo 0)" -lt 3 ] || break
        sleep 0.05
    done
    works "$mode: export of a run in training" export "$tmp/at" "$tmp/at-hf"
    step=$(sed -n 's/.*the model after step \([0-9]*\) is taken.*/\1/p' "$tmp/err")
    "$bin" export "$tmp/at" "$tmp/at2-hf" >"$tmp/many" 2>&1 &
    reader=$!
    works "$mode: eval, while another one asks" eval "$tmp/at" --data "$tmp/text" --batch 2 --threads 1
    wait $reader
    result "$([ $? = 0 ] && [ -e "$tmp/at2-hf/model.safetensors" ]; echo $?)" "$mode: which is answered, too"
    refuses 2 "rank 1" export "$tmp/at.rank1" "$tmp/none"
    kill -INT $pid
    wait $pid
    "$bin" check "$tmp/at" >"$tmp/out" 2>"$tmp/err"
    result "$([ $? = 0 ] && ! ls -d "$tmp"/at*/asked* 2>/dev/null; echo $?)" "$mode: the run is whole, and nothing stays in its folders"
    # shellcheck disable=SC2086
    ranks 1 pretrain $model $data --mode $mode --steps "${step:-0}" --schedule-steps 1000000 --run "$tmp/alike"
    "$bin" export "$tmp/alike" "$tmp/alike-hf" >/dev/null
    result "$([ "${step:-0}" -ge 3 ] && diff -r "$tmp/at-hf" "$tmp/alike-hf" >/dev/null; echo $?)" "$mode: the model is that of one process after as many steps"
    rm -rf "$tmp"/at "$tmp"/at.rank* "$tmp"/at*-hf "$tmp"/alike*
done
# Folders of two trainings that were one: neither read nor trained together.
ranks 2 pretrain --resume "$tmp/two" --steps 6 --schedule-steps 9
for part in "" .rank1; do cp -a "$tmp/two$part" "$tmp/twin$part"; done
ranks 2 pretrain --resume "$tmp/two" --steps 8
ranks 2 pretrain --resume "$tmp/twin" --steps 7 --schedule-steps 7 --tensorboard none && ranks 2 pretrain --resume "$tmp/twin" --steps 8 --schedule-steps 9
result "$got" "two trainings of one run"
cp -a "$tmp/two.rank1" "$tmp/two.own" && rm -rf "$tmp/two.rank1" && cp -a "$tmp/twin.rank1" "$tmp/two.rank1"
for command in "check RUN" "export RUN $tmp/mixed" "eval RUN --data $tmp/text --batch 2" "reshard RUN --ranks 1 --new-run $tmp/mixed"; do
    # shellcheck disable=SC2086
    ranks 1 $(echo "$command" | sed "s|RUN|$tmp/two|")
    result "$([ "$got" = 1 ] && grep -q 'not of one training' "$tmp/err" && [ ! -e "$tmp/mixed" ]; echo $?)" "their folders together: ${command%% *}"
done
ranks 2 pretrain --resume "$tmp/two" --steps 9
result "$([ "$got" != 0 ] && grep -q 'not of one training' "$tmp/err"; echo $?)" "and a resume"
rm -rf "$tmp/two.rank1" && mv "$tmp/two.own" "$tmp/two.rank1"
ranks 2 pretrain --resume "$tmp/two" --steps 9 --tensorboard none # its folder is a copy now
result "$got" "with its own the run goes on"
rm -rf "$tmp/twin" "$tmp/twin.rank1"

unlike="pretrain $data --seq 32 --batch 2 --grad-accum 2 --threads 1 --csd-mem 1M --steps 1 --run $tmp/unlike"
# shellcheck disable=SC2086
timeout 60 mpirun $more -n 1 "$bin" $unlike --init "$tmp/hf1" : -n 1 "$bin" $unlike --init "$tmp/on-hf" >"$tmp/out" 2>"$tmp/err" </dev/null
result "$([ $? != 0 ] && grep -q 'rank 1: a sum of its beginning is' "$tmp/err" && [ ! -e "$tmp/unlike/run.db" ]; echo $?)" "ranks that begin with other parameters are refused"
"$bin" export "$tmp/run" "$tmp/still" >/dev/null 2>"$tmp/err"
result "$(diff -r "$tmp/hf1" "$tmp/still" >/dev/null; echo $?)" "the run that was moved is as it was"
refuses 2 "cannot be divided over 4 ranks" reshard "$tmp/run" --ranks 4 --new-run "$tmp/four"
refuses 2 "is of 3 ranks already" reshard "$tmp/run" --ranks 3 --new-run "$tmp/four"
mkdir "$tmp/four.rank1"
touch "$tmp/four.rank1/mine"
refuses 2 "four.rank1 exists and holds mine" reshard "$tmp/run" --ranks 2 --new-run "$tmp/four"
result "$([ ! -e "$tmp/four" ] && rm "$tmp/four.rank1/mine"; echo $?)" "and nothing of it is left"
(ulimit -f 1000 && "$bin" reshard "$tmp/run" --ranks 2 --new-run "$tmp/full") >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 1 ] && [ ! -e "$tmp/full" ] && [ ! -e "$tmp/full.rank1" ]; echo $?)" "nor where a disk is full: $(cat "$tmp/err")"
# What kills leave: folders of which none is a run yet (one that is made again, as a maker's folder is that was not moved); then rank 0's
# that is one, where a kill came before the last move in the other.
works "a run for 2 ranks" reshard "$tmp/run" --ranks 2 --new-run "$tmp/four"
# unmoved DIR: what was moved last is in the maker's folder again
unmoved() {
    mkdir "$1/run.new-12345678b2131df3"
    mv "$1/run.db" "$1/run.new-12345678b2131df3/"
    sqlite3 "$1/run.new-12345678b2131df3/run.db" "DELETE FROM runs WHERE key = 'place'" # it says another folder
}
unmoved "$tmp/four.rank1"
ranks 2 pretrain --resume "$tmp/four" --steps 5 --schedule-steps 5
result "$([ "$got" = 0 ] && sqlite3 "$tmp/four.rank1/run.db" "$steps" | cmp -s - "$tmp/bits"; echo $?)" "ranks finish a folder that was complete and no run yet"
unmoved "$tmp/four.rank1"
"$bin" export "$tmp/four" "$tmp/four-hf" >"$tmp/out" 2>"$tmp/err"
result "$(diff -r "$tmp/on-hf" "$tmp/four-hf" >/dev/null; echo $?)" "and so does one process that reads all"
ranks 2 pretrain --resume "$tmp/four" --keep-best
result "$([ "$got" = 2 ] && sqlite3 "$tmp/four/run.db" "SELECT value FROM runs WHERE key = 'option.keep-best'" | grep -qx 0; echo $?)" "--keep-best is not stored where it is refused"
"$bin" import "$tmp/hf1" "$tmp/taken" >/dev/null
refuses 2 "cannot be divided into 5 groups" pretrain --resume "$tmp/taken" --data "$tmp/text" --grad-accum 12 --groups 5 --steps 1

# However the folder is named, the others' stand beside it, not within it nor beside a link to it.
mkdir -p "$tmp/in/dot" "$tmp/in/real" "$tmp/in/down"
ln -s real "$tmp/in/link"
for run in dot:. real:link up:down/../up new:new/. plain:../in/plain//; do
    name=${run%%:*} given=${run#*:} from=$tmp/in
    [ "$name" != dot ] || from=$tmp/in/dot
    # shellcheck disable=SC2086
    (cd "$from" && timeout 60 mpirun $more -n 2 "$bin" pretrain $model $data --steps 1 --quiet --run "$given" >"$tmp/out" 2>"$tmp/err" </dev/null &&
        "$bin" export "$given" "$tmp/in-$name" >"$tmp/out" 2>"$tmp/err")
    result "$([ $? = 0 ] && [ -e "$tmp/in/$name.rank1/run.db" ] && "$bin" check "$tmp/in/$name" 2>&1 | grep -c 'is whole: ' | grep -qx 2; echo $?)" \
        "a run named $given has its second rank in $name.rank1"
done
same "dot dot.rank1 down link new new.rank1 plain plain.rank1 real real.rank1 up up.rank1" "$(cd "$tmp/in" && echo *)" "and nothing else is made"
[ -z "$(find "$tmp/in/dot" "$tmp/in/real/" -name '*rank1')" ] && cmp "$tmp/in-dot/model.safetensors" "$tmp/in-real/model.safetensors"
result $? "all are the same run"
mv "$tmp/in/real.rank1" "$tmp/in/link.rank1"
ranks 2 pretrain --resume "$tmp/in/link" --steps 2 --schedule-steps 2 --quiet
result "$([ "$got" = 0 ] && "$bin" check "$tmp/in/link" 2>&1 | grep -c 'is whole: ' | grep -qx 2; echo $?)" "what an older version made beside a link is found there"
find_shim
if [ -n "$shim" ]; then
    LD_PRELOAD="$shim" SHIM_FAIL=look=EIO@/link.rank1 "$bin" check "$tmp/in/link" >"$tmp/out" 2>"$tmp/err"
    result "$(grep -q "link.rank1: Input/output error" "$tmp/err"; echo $?)" "  and is not called missing where it cannot be looked at"
fi

# What is not there, not of this run, not of this time, or damaged is named.
mv "$tmp/run.rank1" "$tmp/kept"
refuses 2 "has 3 ranks, but $tmp/run.rank1 is missing" export "$tmp/run" "$tmp/none"
"$bin" check "$tmp/run" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 1 ] && grep -q 'rank1 is missing' "$tmp/err"; echo $?)" "check says which folder is missing"
cp -r "$tmp/run.rank2" "$tmp/run.rank1"
refuses 2 "run.rank1 is not the part of rank 1" export "$tmp/run" "$tmp/none"
rm -rf "$tmp/run.rank1"
cp -r "$tmp/kept" "$tmp/run.rank1"
ranks 3 pretrain --resume "$tmp/run" --steps 5 --schedule-steps 5 --tensorboard none # of a copy it is asked
refuses 2 "run.rank1 is the part of rank 1 of a run of 3 ranks: give the folder of rank 0" export "$tmp/run.rank1" "$tmp/none"
cp -r "$tmp/run.rank1" "$tmp/late"
rm -rf "$tmp/run.rank1"
mv "$tmp/kept" "$tmp/run.rank1"
refuses 1 "rank 1 at 3: its folder is of another time" export "$tmp/run" "$tmp/none"
"$bin" check "$tmp/run" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 1 ] && grep -q 'run is at step 5, but rank 1 at 3: its folder is of another time' "$tmp/err" && grep -q 'resume refuses' "$tmp/err"; echo $?)" "check says which folder is of another time"
rm -rf "$tmp/run.rank1"
mv "$tmp/late" "$tmp/run.rank1"
cp -r "$tmp/run.rank1" "$tmp/five"
ranks 3 pretrain --resume "$tmp/run" --steps 6 --schedule-steps 5
mv "$tmp/run.rank1" "$tmp/six" && mv "$tmp/five" "$tmp/run.rank1"
said='run is at step 6, whose update has begun, but rank 1 at 5: its folder is of another time'
"$bin" check "$tmp/run" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 1 ] && grep -q "$said" "$tmp/err" && grep -q 'resume refuses' "$tmp/err" && ! grep -q 'back to step' "$tmp/out"; echo $?)" "of one step before, too"
ranks 3 pretrain --resume "$tmp/run" --steps 7 --schedule-steps 5
result "$([ "$got" != 0 ] && grep -q "$said" "$tmp/err"; echo $?)" "  and a resume refuses it with that sentence"
rm -rf "$tmp/run.rank1" && mv "$tmp/six" "$tmp/run.rank1"
works "of one time again" check "$tmp/run"
# Rank 1's folder in the place of rank 0's is not the run.
mv "$tmp/run" "$tmp/rank0" && mv "$tmp/run.rank1" "$tmp/run"
said="run is the part of rank 1 of a run of 3 ranks, but has the name of rank 0's folder, which is missing"
"$bin" check "$tmp/run" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 1 ] && grep -q "$said" "$tmp/err"; echo $?)" "check says whose folder stands in rank 0's place"
for command in "export $tmp/run $tmp/none" "eval $tmp/run --data $tmp/text" "generate $tmp/run --prompt a"; do
    # shellcheck disable=SC2086
    refuses 2 "$said" $command
done
ranks 3 pretrain --resume "$tmp/run" --steps 7 --schedule-steps 5
result "$([ "$got" != 0 ] && grep -q "$said" "$tmp/err"; echo $?)" "  and so do the ranks"
mv "$tmp/run" "$tmp/run.rank1" && mv "$tmp/rank0" "$tmp/run"
"$bin" check "$tmp/run.rank1" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 0 ] && grep -q "rank 1 of a run of 3 ranks: give the folder of rank 0, which stands next to it: $tmp/run\$" "$tmp/err"; echo $?)" "of a rank's folder in its own place it says whose it is"
python3 - "$tmp"/run.rank2/dev0/states* <<'PY'
import os, sys
with open(sys.argv[1], "r+b") as f:
    n = os.fstat(f.fileno()).st_size - 4096
    f.seek(4096)
    f.write(bytes(b ^ 0xff for b in os.pread(f.fileno(), n, 4096)))
PY
"$bin" check "$tmp/run" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 1 ] && grep -q 'run.rank2 is damaged' "$tmp/out"; echo $?)" "check says whose folder is damaged"

# Fine-tuning: rows, dev and test of which micro-batches are some rank's alone; metrics, files and parameters are one process's.
mkdir "$tmp/sst2"
python3 - "$tmp/sst2" <<'PY'
import random, sys
draw = random.Random(2)
words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
def rows(name, n, head, labelled):
    with open(f"{sys.argv[1]}/{name}.tsv", "w") as f:
        f.write(head)
        for i in range(n):
            text, good = " ".join(draw.choices(words, k=draw.randint(1, 9))), draw.randint(0, 1)
            text += " beta" if good else " eta"
            f.write(f"{text}\t{good}\n" if labelled else f"{i}\t{text}\n")
rows("train", 45, "sentence\tlabel\n", True)
rows("dev", 23, "sentence\tlabel\n", True)
rows("test", 11, "index\tsentence\n", False)
PY
tune="--task sst2 --data $tmp/sst2 --batch 2 --grad-accum 4 --groups 4 --epochs 1 --lr 1e-3 --max-seq 32 --seed 3 --threads 1 --csd-mem 1M --predict"
# shellcheck disable=SC2086
ranks 1 finetune --run "$tmp/tuned1" --init "$tmp/hf1" $tune && cp "$tmp/out" "$tmp/said1"
# shellcheck disable=SC2086
ranks 2 finetune --run "$tmp/tuned" --init "$tmp/hf1" $tune
same=$got
for r in "$tmp/tuned" "$tmp/tuned.rank1"; do
    sqlite3 "$r/run.db" "$steps; SELECT step, name, printf('%.17g', value) FROM evals" >"$tmp/b"
    sqlite3 "$tmp/tuned1/run.db" "$steps; SELECT step, name, printf('%.17g', value) FROM evals" | cmp -s - "$tmp/b" && grep -q accuracy "$tmp/b" || same=1
done
result "$same" "two ranks fine-tune to the losses and metrics of one process, on every rank"
"$bin" export "$tmp/tuned1" "$tmp/tuned1-hf" >/dev/null && "$bin" export "$tmp/tuned" "$tmp/tuned-hf" >/dev/null 2>"$tmp/err"
result "$(diff -r "$tmp/tuned1-hf" "$tmp/tuned-hf" >/dev/null; echo $?)" "and to its parameters"
same=0
for f in predict_results_sst2.txt eval_results.json; do
    [ -s "$tmp/tuned/$f" ] && [ ! -e "$tmp/tuned.rank1/$f" ] || same=1
done
cmp -s "$tmp/tuned1/predict_results_sst2.txt" "$tmp/tuned/predict_results_sst2.txt" || same=1
result "$same" "predictions and results are one process's, and are rank 0's alone to write"
# shellcheck disable=SC2086
ranks 2 finetune --run "$tmp/best" --init "$tmp/hf1" $tune --keep-best
result "$(refused_by_ranks && grep -q 'keep-best does not work with several ranks' "$tmp/err" && [ ! -e "$tmp/best" ]; echo $?)" "--keep-best with several ranks is refused"
# shellcheck disable=SC2086
run finetune --run "$tmp/best" --init "$tmp/hf1" $tune --keep-best
works "a run with a best model becomes one for 2 ranks" reshard "$tmp/best" --ranks 2 --new-run "$tmp/best2"
works "  which is whole" check "$tmp/best2"
ranks 2 finetune --resume "$tmp/best2"
result "$got" "  and goes on"
ranks 2 eval "$tmp/tuned" --task sst2 --data "$tmp/sst2"
result "$(refused_by_ranks && grep -q 'this command is one process: start it without them' "$tmp/err"; echo $?)" "eval through mpirun is refused"
# A copy of rank 0's folder alone: it does not go on with the other folders of its original.
# shellcheck disable=SC2086
ranks 2 pretrain --run "$tmp/orig" $model $data --schedule constant --steps 2 --tensorboard none
cp -a "$tmp/orig" "$tmp/copy"
ln -s orig.rank1 "$tmp/copy.rank1"
before=$(sqlite3 "$tmp/orig.rank1/run.db" "SELECT max(step) FROM steps")
ranks 2 pretrain --resume "$tmp/copy" --steps 4
result "$(refused_by_ranks && grep -q "$tmp/orig.rank1 belongs to $tmp/orig, and the folder of rank 0 that was given is another" "$tmp/err"; echo $?)" "a copy of rank 0's folder with the original's other rank"
refuses 2 "$tmp/orig.rank1 belongs to $tmp/orig, and" reshard "$tmp/copy" --ranks 1 --new-run "$tmp/one-of-copy"
same "$before" "$(sqlite3 "$tmp/orig.rank1/run.db" "SELECT max(step) FROM steps")" "and the original's is as it was"
works "  it may be read" export "$tmp/copy" "$tmp/copy-hf" --last
cp -a "$tmp/orig.rank1" "$tmp/kept.rank1"
for f in "$tmp"/copy/dev0/states "$tmp"/orig.rank1/dev0/states; do turn "$f" 5000; done
theirs=$(cat "$tmp"/orig.rank1/dev0/states "$tmp"/orig.rank1/run.db | sha256sum)
run check --repair "$tmp/copy"
result "$([ "$got" = 2 ] && grep -q "$tmp/orig.rank1 belongs to $tmp/orig, and" "$tmp/err"; echo $?)" "  it is not repaired by way of the copy"
ranks 2 restore "$tmp/copy"
result "$(refused_by_ranks && grep -q "$tmp/orig.rank1 belongs to $tmp/orig, and" "$tmp/err"; echo $?)" "  nor restored"
mv "$tmp/orig" "$tmp/x"
mkdir "$tmp/orig"
echo no >"$tmp/orig/run.db"
ranks 2 restore "$tmp/copy"
result "$(refused_by_ranks && grep -q "$tmp/copy.rank1 leads to $tmp/orig.rank1, next to which $tmp/orig is a run that cannot be read" "$tmp/err"; echo $?)" "  where that cannot be read, either"
rm -r "$tmp/orig"
mv "$tmp/x" "$tmp/orig"
same "$theirs" "$(cat "$tmp"/orig.rank1/dev0/states "$tmp"/orig.rank1/run.db | sha256sum)" "  and the original's is as it was"
rm -r "$tmp/orig.rank1" "$tmp/copy-hf"
turn "$tmp/copy/dev0/states" 5000
mv "$tmp/kept.rank1" "$tmp/orig.rank1"
mkdir "$tmp/far"
mv "$tmp/orig.rank1" "$tmp/far/orig.rank1"
ln -s far/orig.rank1 "$tmp/orig.rank1"
ranks 2 pretrain --resume "$tmp/copy" --steps 4
result "$(refused_by_ranks && grep -q "$tmp/far/orig.rank1 belongs to $tmp/orig, and the folder of rank 0 that was given is another" "$tmp/err"; echo $?)" "  and where that is a link, too"
rm "$tmp/orig.rank1" "$tmp/copy.rank1"
mv "$tmp/far/orig.rank1" "$tmp/orig.rank1"
for r in "" .rank1; do
    cp -a "$tmp/orig$r" "$tmp/idle$r"
    mv "$tmp/orig$r" "$tmp/new$r"
done
for r in idle new; do
    cp -a "$tmp/$r" "$tmp/other"
    ln -s $r.rank1 "$tmp/other.rank1"
    ranks 2 pretrain --resume "$tmp/other" --steps 4
    result "$(refused_by_ranks && grep -q "$tmp/$r.rank1 belongs to $tmp/$r, and" "$tmp/err"; echo $?)" "a copy of rank 0's folder with the other rank of a run at a new place: $r"
    same "$before" "$(sqlite3 "$tmp/$r.rank1/run.db" "SELECT max(step) FROM steps")" "  which is as it was"
    rm -r "$tmp/other" "$tmp/other.rank1"
done
for r in "" .rank1; do
    mv "$tmp/new$r" "$tmp/orig$r"
done
cp -a "$tmp/orig.rank1" "$tmp/copy.rank1"
ranks 2 pretrain --resume "$tmp/copy" --steps 4
result "$got" "a copy of all folders goes on"
mkdir "$tmp/moved"
mv "$tmp/orig" "$tmp/moved/orig"
ln -s ../orig.rank1 "$tmp/moved/orig.rank1"
ranks 2 pretrain --resume "$tmp/moved/orig" --steps 4
result "$got" "and so does the original, whose rank 0 was moved away from the others"
# Rank 1's folder lies behind a link, which a copy has, too. It belongs to the folder of rank 0 that trained it last, wherever that is now.
# shellcheck disable=SC2086
ranks 2 pretrain --run "$tmp/p" $model $data --schedule constant --steps 2 --snapshot-every 1 --snapshot-on hosts --tensorboard none
mkdir "$tmp/nas"
cp -a "$tmp/p.rank1" "$tmp/nas/p.rank1" # as to another drive
rm -r "$tmp/p.rank1"
ln -s "$tmp/nas/p.rank1" "$tmp/p.rank1"
for r in "" .rank1; do cp -a "$tmp/p$r" "$tmp/pc$r"; done
for r in "" .rank1; do mv "$tmp/p$r" "$tmp/q$r"; done
shared() { cat "$tmp/nas/p.rank1/dev0/states" "$tmp/nas/p.rank1/run.db" | sha256sum; }
is=$(shared)
lone="$tmp/nas/p.rank1 belongs to another folder of rank 0, which was $tmp/p and is not there any more"
ranks 2 pretrain --resume "$tmp/pc" --steps 3
result "$(refused_by_ranks && grep -q "$lone" "$tmp/err"; echo $?)" "a copy does not train the rank that it shares with its renamed original"
ranks 2 restore "$tmp/pc"
result "$(refused_by_ranks && grep -q "$lone" "$tmp/err"; echo $?)" "  nor restores it"
run check --repair "$tmp/pc"
result "$([ "$got" = 2 ] && grep -q "$lone" "$tmp/err"; echo $?)" "  nor repairs it"
works "  it may be read" export "$tmp/pc" "$tmp/pc-hf" --last
same "$is" "$(shared)" "  and the rank is as it was"
ranks 2 pretrain --resume "$tmp/q" --steps 3
result "$got" "the renamed original goes on"
ranks 2 pretrain --resume "$tmp/pc" --steps 3
result "$(refused_by_ranks && grep -q "$tmp/nas/p.rank1 belongs to $tmp/q, and" "$tmp/err"; echo $?)" "  and the copy is told where it is now"
is=$(shared)
ln -s "$tmp/nas/p.rank1" "$tmp/w.rank1"
ranks 2 restore "$tmp/w"
result "$(refused_by_ranks && grep -q "$tmp/nas/p.rank1 belongs to $tmp/q, and" "$tmp/err"; echo $?)" "restore takes no rank whose rank 0 is there for one whose rank 0 is lost"
same "$is" "$(shared)" "  and the rank is as it was"
result "$(find "$tmp/w" -type f; [ -e "$tmp/w" ]; [ $? = 1 ]; echo $?)" "  and no folder is made"
for r in "" .rank1; do # to another drive
    cp -aL "$tmp/q$r" "$tmp/far/q$r" && rm -r "$tmp/q$r"
done
ranks 2 pretrain --resume "$tmp/far/q" --steps 4
result "$got" "a run that was moved as a whole goes on"
cp -a "$tmp/far/q" "$tmp/q" # rank 0's drive is replaced, and its folder is elsewhere
rm -r "$tmp/far/q"
mv "$tmp/far/q.rank1" "$tmp/q.rank1"
ranks 2 pretrain --resume "$tmp/q" --steps 5
result "$(refused_by_ranks && grep -q "if it is lost, move $tmp/q to $tmp/far/q, and" "$tmp/err"; echo $?)" "rank 0's folder alone was copied: the sentence says what to do"
for r in "" .rank1; do mv "$tmp/q$r" "$tmp/far/q$r"; done
ranks 2 pretrain --resume "$tmp/far/q" --steps 5
result "$got" "  it goes on in the old one's place"
cp -a "$tmp/far/q" "$tmp/q" # rank 0's folder alone is moved, and leaves a link
rm -r "$tmp/far/q"
ln -s "$tmp/q" "$tmp/far/q"
ranks 2 pretrain --resume "$tmp/far/q" --steps 5
result "$got" "rank 0's folder was moved behind a link"
rm "$tmp/far/q"
mv "$tmp/q" "$tmp/far/q"
for r in "" .rank1; do sqlite3 "$tmp/far/q$r/run.db" "DELETE FROM runs WHERE key = 'place.first'"; done
mv "$tmp/far/q" "$tmp/q"
mv "$tmp/far/q.rank1" "$tmp/q.rank1"
ranks 2 pretrain --resume "$tmp/q" --steps 6
result "$got" "a run of an older version goes on"
swap() { mv "$tmp/q/dev0/states" "$tmp/x" && mv "$tmp/q.rank1/dev0/states" "$tmp/q/dev0/states" && mv "$tmp/x" "$tmp/q.rank1/dev0/states"; }
swap
run check "$tmp/q"
result "$(grep -q "$tmp/q/dev0/states holds the states of device 0 of rank 1 of this run, not of device 0 of rank 0: put the file of each device" "$tmp/err"; echo $?)" \
    "two ranks' devices that changed places are this run's"
ranks 2 restore "$tmp/q"
result "$(refused_by_ranks && grep -q "of rank .* of this run, not of device 0 of rank .: put the file of each device back in its place" "$tmp/err"; echo $?)" "  restore says so, too"
swap
rm -r "$tmp/q" # rank 0 is lost, and made again elsewhere
mv "$tmp/q.rank1" "$tmp/r.rank1"
ranks 2 restore "$tmp/r" && ranks 2 pretrain --resume "$tmp/r" --steps 7
result "$got" "and so does one whose rank 0 was lost, and is made again elsewhere"
find "$tmp/r" -mindepth 1 -delete
ranks 2 restore "$tmp/r" && ranks 2 pretrain --resume "$tmp/r" --steps 8
result "$got" "or in its own emptied folder"
# A link from one rank's folder to another's.
rm -r "$tmp/copy.rank1"
ln -s copy "$tmp/copy.rank1"
refuses 2 "$tmp/copy.rank1 leads to $tmp/copy, the folder of rank 0: put the folder of rank 1 in its place" export "$tmp/copy" "$tmp/copy-hf"
run check --repair "$tmp/copy"
result "$([ "$got" = 2 ] && grep -q "$tmp/copy.rank1 leads to $tmp/copy, the folder of rank 0" "$tmp/err"; echo $?)" "check says so"
ranks 2 pretrain --resume "$tmp/copy" --steps 5
result "$(refused_by_ranks && grep -q "$tmp/copy.rank1 leads to $tmp/copy, the folder of rank 0" "$tmp/err"; echo $?)" "and a resume says so, too"
# All folders were copied, and rank 0's lies behind a link, on another drive; the others stand next to the link.
cp -a "$tmp/r" "$tmp/nas/v"
ln -s "$tmp/nas/v" "$tmp/v"
cp -a "$tmp/r.rank1" "$tmp/v.rank1"
turn "$tmp/v.rank1/dev0/states" 5000
ranks 2 restore "$tmp/v" && ranks 2 pretrain --resume "$tmp/v" --steps 9
result "$got" "a copy whose rank 0 lies behind a link is restored, and goes on"
works "  and is whole" check "$tmp/v"
cp -a "$tmp/nas/v" "$tmp/nas/vc"
ln -s "$tmp/nas/vc" "$tmp/vc"
ln -s "$tmp/v.rank1" "$tmp/vc.rank1"
ranks 2 pretrain --resume "$tmp/vc" --steps 9
result "$(refused_by_ranks && grep -q "$tmp/v.rank1 belongs to $tmp/" "$tmp/err"; echo $?)" "  but not with a copy of rank 0 alone"
# mpirun gives each rank a command line of its own.
apart() { # COMMAND; what rank 0 is given; what rank 1 is given
    # shellcheck disable=SC2086
    timeout 120 mpirun -n 1 $more "$bin" $1 $2 : -n 1 "$bin" $1 $3 >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
for r in "" .rank1; do cp -a "$tmp/r$r" "$tmp/twin$r"; done
before=$(cat "$tmp"/r*/run.db "$tmp"/twin*/run.db | sha256sum)
apart "pretrain --steps 9" "--resume $tmp/r" "--resume $tmp/twin"
result "$(refused_by_ranks && grep -q "$tmp/twin is the run here and $tmp/r on rank 0: give all ranks the same run" "$tmp/err"; echo $?)" "a rank that is given a copy's name is refused"
apart restore "$tmp/r" "$tmp/twin"
result "$(refused_by_ranks && grep -q "give all ranks the same run" "$tmp/err"; echo $?)" "  restore says so, too"
for other in "--from 1" ""; do
    apart "pretrain --resume $tmp/r --steps 9" "--from 2" "$other"
    result "$(refused_by_ranks && grep -q "^siTrain pretrain: rank 1: --from is not what rank 0 was given: give all ranks the same" "$tmp/err"; echo $?)" "and one with another --from: '$other'"
done
same "$before" "$(cat "$tmp"/r*/run.db "$tmp"/twin*/run.db | sha256sum)" "all are as they were"
done_testing
