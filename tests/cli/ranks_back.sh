#!/bin/sh
# ranks_back.sh: several ranks go back to a snapshot together, and are restored: a rank's device, its folder, rank 0's, from the parts that
# the next host's ranks keep (--snapshot-on hosts). Killed at any call of any rank, the same command finishes. Prints TAP.
. tests/tap.sh
find_shim
by_ranks
few_words 2000
shape="--data $tmp/text --tokenizer $tmp/tok --n-layer 2 --n-head 1 --n-embd 64 --seq 8 --batch 1 --grad-accum 6 --groups 6 --csd-mem 128K --threads 1 --durability none
    --schedule constant --disk sync --quiet"
ask() { sqlite3 "$1/run.db" "$2"; }
steps_of() { ask "$1" "SELECT step + 1, printf('%.17g %.17g %.17g', loss, lr, grad_norm) FROM steps ORDER BY step"; }
# state: what the run is, of all ranks
state() {
    exported "$tmp/run"
    for dir in "$tmp"/run "$tmp"/run.rank?; do steps_of "$dir"; done
}
# job N COMMAND...: by so many ranks
job() {
    job_n=$1
    shift
    timeout 120 mpirun $more -n "$job_n" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
works_by() { # N NAME COMMAND...
    by=$1 name=$2
    shift 2
    job "$by" "$bin" "$@"
    result "$got" "$name"
}
refused_by() { # N NAME SENTENCE COMMAND...
    by=$1 name=$2 sentence=$3
    shift 3
    job "$by" "$bin" "$@"
    result "$(refused_by_ranks && grep -q "$sentence" "$tmp/err"; echo $?)" "$name"
}
clear_all() { rm -rf "$tmp"/run "$tmp"/run.rank? "$tmp"/lost "$tmp"/x; }
put_back() { # from $tmp/x
    rm -rf "$tmp"/run "$tmp"/run.rank?
    for dir in "$tmp"/x/*; do cp -a "$dir" "$tmp/"; done
}
keep_all() {
    mkdir "$tmp/x"
    for dir in "$tmp"/run "$tmp"/run.rank?; do cp -a "$dir" "$tmp/x/"; done
}

# ---- back
for n in 2 3; do
    clear_all
    works_by $n "$n ranks: a run" pretrain --run "$tmp/run" $shape --steps 6 --snapshot-every 2 --snapshots 20
    whole=$(state)
    refuses 2 "this job has 1: start it with mpirun -n $n" pretrain --resume "$tmp/run" --from 2
    works_by $n "$n ranks: go back to step 2" pretrain --resume "$tmp/run" --from 2 --quiet
    result "$(grep -q "went back to step 2, from step 6; steps 3 to 6 are branch 1 now" "$tmp/err"; echo $?)" "$n ranks: and say so"
    same "$whole" "$(state)" "$n ranks: they are the run that never went further"
    works_by $n "$n ranks: with another rate" pretrain --resume "$tmp/run" --from 2 --lr 1e-3 --steps 5 --quiet
    result "$([ "$(state)" != "$whole" ]; echo $?)" "$n ranks: they are another one"
    same "2|lr: 0.001 instead of 0.0003" "$(ask "$tmp/run.rank1" "SELECT branch, options FROM branches ORDER BY branch DESC LIMIT 1")" "$n ranks: every rank has the branch"
    works_by $n "$n ranks: that is undone" pretrain --resume "$tmp/run" --from 6 --steps 6 --quiet
    same "$whole" "$(state)" "$n ranks: to the run that there was"
    works "$n ranks: all is whole" check "$tmp/run"
done
refused_by 3 "3 ranks: no such step is refused" "has no snapshot after step 3" pretrain --resume "$tmp/run" --from 3
part=$(ls -d "$tmp"/run/snapshots/run-*/step-00000004.rank2)
mv "$part" "$tmp/part"
run snapshots "$tmp/run"
same "1 1" "$got $(grep -c "lacks rank 2" "$tmp/out")" "a snapshot that lacks a part says so"
refused_by 3 "and is not gone to" "the snapshot after step 4 lacks the part of rank 2" pretrain --resume "$tmp/run" --from 4
mv "$tmp/part" "$part"
works "with it the list is whole" snapshots "$tmp/run" --check --quiet
python3 -c '
import sys
with open(sys.argv[1], "r+b") as f:
    data = bytearray(f.read())
    for at in range(4096, len(data), 4096):
        data[at] ^= any(data[at:at + 4096])
    f.seek(0)
    f.write(data)' "$part/dev0/states"
before=$(state)
job 3 "$bin" snapshots "$tmp/run" --check --quiet
same "1 1" "$got $(grep -c "not whole" "$tmp/out")" "a damaged part is noticed by all ranks together"
job 3 "$bin" pretrain --resume "$tmp/run" --from 4 --quiet
result "$([ "$got" != 0 ] && grep -q "rank 2: .*damaged" "$tmp/err"; echo $?)" "and is not gone to"
same "$before" "$(state)" "before any rank has changed"

# ---- killed on the way back
if [ -n "$shim" ]; then
    clear_all
    job 2 "$bin" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2 --snapshots 20
    job 2 "$bin" pretrain --resume "$tmp/run" --steps 5 --schedule-steps 5 --snapshot-every 0
    keep_all
    job 2 "$bin" pretrain --resume "$tmp/run" --from 2 --lr 1e-3 --steps 4 --quiet
    wanted=$(state) bad='' killed=0 half=0 refused=0
    for at in any:/run.rank1/:1 any:/run.rank1/:40 any:/run.rank1/:160 pwrite:/run.rank1/run.db-wal:3 pwrite:/run.rank1/run.db-wal:8 pwrite:/run.rank1/run.db-wal:12 \
        pwrite:/run.rank1/dev0/:1 pwrite:/run.rank1/dev0/:4 pwrite:/run/run.db-wal:8 pwrite:/run/run.db-wal:12 pwrite:/run/run.db-wal:16 pwrite:/run/dev0/:2; do
        put_back
        job 2 env LD_PRELOAD="$shim" SHIM_AT="$at:kill" "$bin" pretrain --resume "$tmp/run" --from 2 --lr 1e-3 --steps 4 --quiet
        [ "$got" = 0 ] || killed=$((killed + 1))
        if [ "$(ask "$tmp/run" "SELECT 1 FROM runs WHERE key = 'going_back'")$(ask "$tmp/run.rank1" "SELECT 1 FROM runs WHERE key = 'going_back'")" ]; then
            half=$((half + 1))
            job 2 "$bin" pretrain --resume "$tmp/run" --quiet
            [ "$got" != 0 ] && grep -q "on its way back to the snapshot after step 2, .*mpirun -n 2 siTrain pretrain --resume $tmp/run --from 2" "$tmp/err" && refused=$((refused + 1))
        fi
        job 2 "$bin" pretrain --resume "$tmp/run" --from 2 --lr 1e-3 --steps 4 --quiet
        [ "$got" = 0 ] && [ "$(state)" = "$wanted" ] || bad="$bad $at"
    done
    result "$([ -z "$bad" ] && [ $killed -gt 5 ] && [ $half -gt 2 ] && [ $half = $refused ]; echo $?)" "a rank killed $killed times, $half times half way: refused, and then finished$bad"
else
    skip "kills" "no shim here"
fi

# ---- a lost device, and a lost folder with a snapshot directory of its own drive
clear_all
rm -rf "$tmp/a" "$tmp/dir"
mkdir "$tmp/a" "$tmp/dir"
job 2 "$bin" pretrain --run "$tmp/run" $shape --device "$tmp/a" --steps 4 --snapshot-every 4 --snapshot-dir "$tmp/dir"
job 2 "$bin" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --snapshot-every 0
whole=$(state)
refuses 2 "has 2 ranks, which are restored together: mpirun -n 2 siTrain restore $tmp/run" restore "$tmp/run"
refused_by 2 "nothing is lost" "no device of $tmp/run is gone" restore "$tmp/run"
lost_device=$(ls "$tmp"/a/sitrain-???[0-9a-f]0001*-dev0)
rm "$lost_device"
job 2 "$bin" pretrain --resume "$tmp/run"
result "$([ "$got" != 0 ] && grep -q "rank 1: .*mpirun -n 2 siTrain restore $tmp/run makes it again" "$tmp/err"; echo $?)" "a lost device of a rank: refused with the command"
works_by 2 "is restored" restore "$tmp/run"
same "4 4" "$(steps_of "$tmp/run" | wc -l) $(steps_of "$tmp/run.rank1" | wc -l)" "all ranks are after step 4"
works_by 2 "and goes on" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --quiet
same "$whole" "$(state)" "to the same bits"
for lose in run.rank1 run; do
    mkdir "$tmp/lost"
    mv "$tmp/$lose" "$tmp/lost/"
    refused_by 2 "$lose is lost: refused with the command" "$lose is not there, or not a run.*siTrain restore $tmp/run" pretrain --resume "$tmp/run"
    mkdir "$tmp/$lose"
    echo mine >"$tmp/$lose/notes"
    refused_by 2 "a folder that is not empty is refused" "holds notes" restore "$tmp/run"
    same "mine notes" "$(cat "$tmp/$lose/notes") $(ls "$tmp/$lose")" "and stays"
    rm -r "${tmp:?}/$lose"
    works_by 2 "$lose is made again" restore "$tmp/run"
    works_by 2 "$lose goes on" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --quiet
    same "$whole" "$(state)" "$lose: to the same bits"
    works "$lose: all is whole" check "$tmp/run"
    rm -r "$tmp/lost"
done

# ---- what the next host keeps
clear_all
refuses 2 "--snapshot-on hosts is for several ranks" pretrain --run "$tmp/run" $shape --steps 1 --snapshot-every 1 --snapshot-on hosts
refuses 2 "leave --snapshot-dir out" pretrain --run "$tmp/run" $shape --steps 1 --snapshot-every 1 --snapshot-on hosts --snapshot-dir "$tmp/dir"
clear_all
works_by 3 "snapshots on hosts" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2 --snapshots 2 --snapshot-on hosts
same "step-00000002 step-00000002.rank1 step-00000004 step-00000004.rank1" "$(cd "$tmp"/run.rank1/snapshots/run-* && echo *)" "rank 1 has its parts and rank 0's, as many as are kept"
works "all are whole" snapshots "$tmp/run" --check --quiet
job 3 "$bin" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --snapshot-every 0
whole=$(state)
keep_all
for lose in run.rank2 run.rank1 run; do
    put_back
    rm -r "${tmp:?}/$lose"
    works_by 3 "hosts: $lose is made again" restore "$tmp/run"
    works_by 3 "hosts: $lose goes on" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --quiet
    same "$whole" "$(state)" "hosts: $lose: to the same bits"
    works "hosts: $lose: all is whole" check "$tmp/run"
done
put_back
rm -r "$tmp/run" "$tmp/run.rank1"
refused_by 3 "hosts: two that follow each other are more than is kept" "lacks the part of rank 0" restore "$tmp/run"
result "$([ ! -e "$tmp/run/run.db" ] && [ ! -e "$tmp/run.rank1" ]; echo $?)" "and nothing is made"

# ---- killed while it restores
if [ -n "$shim" ]; then
    bad='' killed=0
    for at in any:/run.rank1/:4 any:/run.rank1/:30 any:/run.rank1/:60 any:/run.rank1/:120 pwrite:/run.rank1/run.db-wal:4 pwrite:/run.rank1/dev0/:2 rename:/run.rank1/:1 \
        pwrite:/run/run.db-wal:4 pwrite:/run/dev0/:1 pwrite:/run.rank2/run.db-wal:9; do
        put_back
        rm -r "$tmp/run.rank1"
        job 3 env LD_PRELOAD="$shim" SHIM_AT="$at:kill" "$bin" restore "$tmp/run"
        [ "$got" = 0 ] || killed=$((killed + 1))
        [ "$got" = 0 ] || job 3 "$bin" restore "$tmp/run"
        [ "$got" = 0 ] || grep -q "no device of .* is gone" "$tmp/err" || bad="$bad restore-$at"
        job 3 "$bin" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --quiet
        [ "$got" = 0 ] && [ "$(state)" = "$whole" ] || bad="$bad $at"
    done
    result "$([ -z "$bad" ] && [ $killed -gt 5 ]; echo $?)" "killed $killed times as it was restored, and then finished$bad"
fi
done_testing
