#!/bin/sh
# ranks_back.sh: several ranks go back to a snapshot together. Killed at any call of any rank, the same command finishes. Prints TAP.
. tests/tap.sh
find_shim
by_ranks
. tests/ranks_job.sh

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

# ---- a lost rank's folder was made again: it owns the parts that the lost one took, and replaces that of the present step
clear_all
rm -rf "$tmp/dir"
mkdir "$tmp/dir"
job 2 "$bin" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2 --snapshot-dir "$tmp/dir"
rm -r "$tmp/run.rank1"
works_by 2 "a lost folder is made again" restore "$tmp/run"
works_by 2 "and a branch goes as far" pretrain --resume "$tmp/run" --from 2 --lr 1e-3 --steps 4 --snapshot-every 0 --quiet
branch=$(state)
works_by 2 "it goes back, too" pretrain --resume "$tmp/run" --from 0 --steps 1 --quiet
same "0 1" "$(ask "$tmp/run.rank1" "SELECT count(*) FROM notices WHERE text LIKE '%not certainly a snapshot of this run%'") $(find "$tmp/dir" -name step-00000004.rank1 | wc -l)" \
    "with its part of the present state in the place of the lost one's"
works_by 2 "and that is undone" pretrain --resume "$tmp/run" --from 4 --quiet
same "$branch" "$(state)" "to the bits of the branch"
run snapshots "$tmp/run" --check --quiet
same "1" "$(grep -c "^  *4 .*Z  whole  " "$tmp/out")" "with a whole snapshot of it"

# ---- killed on the way back
if [ -n "$shim" ]; then
    clear_all
    job 2 env LD_PRELOAD="$shim" SHIM_AT="pread:/step-00000001.rank1:1:fail" "$bin" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 1 --snapshots 20
    result "$([ "$got" = 0 ] && grep -q "no snapshot after step 1: rank 1: " "$tmp/err" && ! ls "$tmp"/run/snapshots/run-*/step-00000001* 2>"$tmp/null"; echo $?)" \
        "one rank cannot take its part: a notice, no rank has the snapshot, and training goes on"
    same "0 2 3 4" "$("$bin" snapshots "$tmp/run" | awk 'NR > 1 && $1 ~ /^[0-9]+$/ { printf "%s%s", n++ ? " " : "", $1 }')" "the others are there"
    job 2 "$bin" pretrain --resume "$tmp/run" --steps 5 --schedule-steps 5 --snapshot-every 0
    keep_all
    job 2 "$bin" pretrain --resume "$tmp/run" --from 2 --lr 1e-3 --steps 4 --quiet
    wanted=$(state) bad='' killed=0 half=0 refused=0
    for at in any:/run.rank1/:1 any:/run.rank1/:160 pwrite:/run.rank1/run.db-wal:3 pwrite:/run.rank1/run.db-wal:8 pwrite:/run.rank1/run.db-wal:12 \
        pwrite:/run.rank1/dev0/:1 pwrite:/run/run.db-wal:12 pwrite:/run/run.db-wal:16 pwrite:/run/dev0/:2; do
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
    # ---- two jobs at once: the one whose rank 0 has the lock gets all ranks' folders, and they do not end each other
    clear_all
    for how in --run --resume; do
        nth=1
        [ $how = --run ] || nth=2 # the first one is of a look at its id
        rm -f "$tmp/held" "$tmp/held.over"
        # shellcheck disable=SC2086
        timeout 120 mpirun $more -n 2 env LD_PRELOAD="$shim" SHIM_AT="flock:/run/run.lock:$nth:$tmp/held" "$bin" pretrain $how "$tmp/run" \
            $([ $how = --run ] && echo $shape || echo --quiet) --steps 4 >"$tmp/first" 2>&1 </dev/null &
        first=$!
        while [ ! -e "$tmp/held" ] && kill -0 $first 2>/dev/null; do sleep 0.02; done
        sleep 0.3 # so long its rank 1 would have had to take its lock
        result "$([ -e "$tmp/held" ]; echo $?)" "a job ($how) whose rank 0 is about to take its lock"
        # shellcheck disable=SC2086
        job 2 "$bin" pretrain $how "$tmp/run" $([ $how = --run ] && echo $shape || echo --quiet) --steps 3
        result "$got" "another one that came later goes on"
        rm -f "$tmp/held"
        wait $first
        ended=$?
        if [ $how = --run ]; then
            result "$([ $ended != 0 ] && grep -q "/run is a run already" "$tmp/first"; echo $?)" "and the first one says that there is a run"
        else
            result $ended "and the first one goes on"
        fi
    done
    same "4 4" "$(steps_of "$tmp/run" | wc -l) $(steps_of "$tmp/run.rank1" | wc -l)" "after both, both ranks are at the last step"
    part=$tmp/run.rank1/run.new-12345678b2131df3 # as a kill before the last move leaves it
    mkdir "$part"
    mv "$tmp/run.rank1/run.db" "$part/"
    sqlite3 "$part/run.db" "DELETE FROM runs WHERE key = 'place'" # it says another folder
    rm -f "$tmp/held" "$tmp/held.over"
    timeout 120 mpirun $more -n 2 env LD_PRELOAD="$shim" SHIM_AT="flock:/run.rank1/run.lock:1:$tmp/held" "$bin" pretrain --resume "$tmp/run" --steps 6 --quiet >"$tmp/first" 2>&1 </dev/null &
    first=$!
    while [ ! -e "$tmp/held" ] && kill -0 $first 2>/dev/null; do sleep 0.02; done
    result "$([ -e "$tmp/held" ]; echo $?)" "a job whose rank 1 is about to finish a folder that a killed maker has left"
    job 2 "$bin" pretrain --resume "$tmp/run" --steps 5 --quiet
    result "$got" "another one that came later finishes it, and goes on"
    rm -f "$tmp/held"
    wait $first
    result $? "and the first one finds it finished, and goes on"
    same "6 6" "$(steps_of "$tmp/run" | wc -l) $(steps_of "$tmp/run.rank1" | wc -l)" "after both, both ranks are at the last step"
else
    skip "kills, two jobs" "no shim here"
fi
# ---- rank 0's folder is of an earlier time: its step is that of the snapshot, in the same branch
clear_all
job 2 "$bin" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2
cp -a "$tmp/run" "$tmp/lost"
job 2 "$bin" pretrain --resume "$tmp/run" --steps 6
rm -r "$tmp/run"
mv "$tmp/lost" "$tmp/run"
refused_by 2 "a folder of an earlier time is not called another branch" "is at step 4 itself, and other ranks are not: .*: give --from an earlier step" \
    pretrain --resume "$tmp/run" --from 4 --steps 7
works_by 2 "an earlier step is gone back to, as it says" pretrain --resume "$tmp/run" --from 2 --steps 7 --quiet
# ---- a rank's folder of another branch, at the same step, whose last step gave the same results
clear_all
rank_kept() { rm -rf "$tmp/old.rank1" && cp -a "$tmp/run.rank1" "$tmp/old.rank1"; }
exchange() { mv "$tmp/run.rank1" "$tmp/lost" && mv "$tmp/old.rank1" "$tmp/run.rank1" && mv "$tmp/lost" "$tmp/old.rank1"; }
# mixed NAME: nothing takes the two together
mixed() {
    exchange
    for command in "check RUN" "export RUN $tmp/mixed --last" "eval RUN --data $tmp/text --batch 2" "generate RUN --prompt alpha --tokens 1" "reshard RUN --ranks 1 --new-run $tmp/mixed"; do
        # shellcheck disable=SC2086
        run $(echo "$command" | sed "s|RUN|$tmp/run|")
        result "$([ "$got" = 1 ] && grep -q "are of two branches (--from): put" "$tmp/err" && [ ! -e "$tmp/mixed" ]; echo $?)" "$1: ${command%% *}"
    done
    job 2 "$bin" pretrain --resume "$tmp/run" --steps 9
    result "$([ "$got" != 0 ] && grep -q "are of two branches (--from): put" "$tmp/err"; echo $?)" "$1: a resume"
    exchange
}
job 2 "$bin" pretrain --run "$tmp/run" $shape --steps 5 --snapshot-every 2
rank_kept
works_by 2 "an option that acts after the gradient" pretrain --resume "$tmp/run" --from 4 --weight-decay 0.5 --steps 5 --quiet
same "$(steps_of "$tmp/run")" "$(steps_of "$tmp/old.rank1")" "gives a step the same results"
mixed "one rank of before"
works_by 2 "the next option is of another branch" pretrain --resume "$tmp/run" --from 5 --weight-decay 0.01 --steps 5 --quiet
mixed "where the options are those of before again"
works_by 2 "back to what there was" pretrain --resume "$tmp/run" --from 4 --steps 5 --quiet
rank_kept
rm -r "$tmp/run.rank1/dev0"
works_by 2 "a lost device is made again" restore "$tmp/run"
works_by 2 "and the steps computed again" pretrain --resume "$tmp/run" --steps 5 --quiet
exchange
works "they are of one branch with the folder of before" check "$tmp/run"
exchange
rm -r "$tmp/run.rank1"
works_by 2 "so is a folder that is made again" restore "$tmp/run"
works_by 2 "which goes on" pretrain --resume "$tmp/run" --from 4 --lr 1e-3 --steps 6 --quiet
works "and all is whole again" check "$tmp/run"
rank_kept
works_by 2 "another branch" pretrain --resume "$tmp/run" --from 6 --beta1 0.5 --quiet
exchange # as a kill between two ranks' commits leaves it
job 2 "$bin" pretrain --resume "$tmp/run" --steps 7
result "$([ "$got" != 0 ] && grep -q "if a --from was killed, type it again" "$tmp/err"; echo $?)" "a --from that was killed between two ranks"
works_by 2 "it is typed again" pretrain --resume "$tmp/run" --from 6 --beta1 0.5 --steps 7 --quiet
works "and all is whole" check "$tmp/run"
# ---- kept on several hosts, and then of one process
clear_all
job 2 "$bin" pretrain --run "$tmp/run" $shape --steps 2 --snapshot-every 2 --snapshot-on hosts
works "ranks that keep snapshots on hosts become one" reshard "$tmp/run" --ranks 1 --new-run "$tmp/lost"
result "$(grep -q "snapshots of $tmp/lost are taken as by --snapshot-on dir" "$tmp/err"; echo $?)" "  which says how it keeps them"
works "  and does" pretrain --resume "$tmp/lost" --steps 4 --quiet
same 1 "$(find "$tmp/lost/snapshots" -name step-00000004 | wc -l)" "  in its own folder"

done_testing
