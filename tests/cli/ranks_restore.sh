#!/bin/sh
# ranks_restore.sh: several ranks are restored: a rank's device, its folder, rank 0's, from a snapshot directory and from the parts that the
# next host's ranks keep (--snapshot-on hosts). Killed at any call of any rank, the same command finishes. Prints TAP.
. tests/tap.sh
find_shim
by_ranks
. tests/ranks_job.sh

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
    at=4
    if [ $lose = run.rank1 ]; then
        mkdir "$tmp/$lose"
        echo mine >"$tmp/$lose/notes"
        refused_by 2 "a folder that is not empty is refused" "holds notes" restore "$tmp/run"
        same "mine notes" "$(cat "$tmp/$lose/notes") $(ls "$tmp/$lose")" "and stays"
        rm -r "${tmp:?}/$lose"
    else
        turn_all "$(echo "$tmp"/dir/run-*/step-00000004.rank1/dev0/states)"
        at=0
    fi
    works_by 2 "$lose is made again" restore "$tmp/run"
    same "$at $at" "$(steps_of "$tmp/run" | wc -l) $(steps_of "$tmp/run.rank1" | wc -l)" "$lose: all ranks are after step $at"
    same "$((1 - at / 4))" "$(grep -c "the part of rank 1 of the snapshot after step 4 is passed over: .*damaged" "$tmp/err")" "$lose: a snapshot of which one rank's part is damaged is passed over"
    works_by 2 "$lose goes on" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --quiet
    same "$whole" "$(state)" "$lose: to the same bits"
    works "$lose: all is whole" check "$tmp/run"
    rm -r "$tmp/lost"
done

# ---- a run that went back with other options, and has no snapshot since: all ranks keep them
clear_all
rm -rf "$tmp/dir"
mkdir "$tmp/dir"
job 2 "$bin" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2 --snapshot-dir "$tmp/dir"
keep_all
back="pretrain --resume $tmp/run --from 2 --lr 2e-3 --steps 5 --snapshot-every 0"
# shellcheck disable=SC2086
works_by 2 "another branch" $back
whole=$(state)
mv "$tmp/x" "$tmp/before"
keep_all
for lose in run.rank1 run; do
    put_back
    rm -r "${tmp:?}/$lose"
    works_by 2 "another branch: $lose is restored" restore "$tmp/run"
    result "$(grep -q "went back to step 2.*it goes on with lr: 0.002 instead of 0.0003" "$tmp/err"; echo $?)" "  with its options, which are named"
    result "$(grep -q "the folder of rank . was made again: its options that other ranks do not share, .* are those of the snapshot after step 2 again" "$tmp/err"; echo $?)" \
        "  and so are those that a lost run.db had alone"
    works_by 2 "  and goes on" pretrain --resume "$tmp/run"
    same "$whole" "$(state)" "  with these, to the same bits"
done
if [ -n "$shim" ]; then # killed when one rank has stored them, and the other is on its way
    rm -r "$tmp/x"
    mv "$tmp/before" "$tmp/x"
    bad='' apart=0
    lr_of() { ask "$tmp/$1" "SELECT value FROM runs WHERE key = 'option.lr'"; }
    for at in pwrite:/run.rank1/run.db-wal:42 pwrite:/run.rank1/run.db-wal:60 pwrite:/run/run.db-wal:42 pwrite:/run/run.db-wal:60; do
        put_back
        # shellcheck disable=SC2086
        job 2 env LD_PRELOAD="$shim" SHIM_AT="$at:kill" "$bin" $back
        if [ "$(lr_of run)" != "$(lr_of run.rank1)" ]; then
            apart=$((apart + 1))
            job 2 "$bin" restore "$tmp/run"
            [ "$got" = 0 ] && [ "$(lr_of run) $(lr_of run.rank1)" = "0.002 0.002" ] || bad="$bad $at"
        fi
    done
    result "$([ -z "$bad" ] && [ $apart -gt 0 ]; echo $?)" "killed $apart times when one rank alone had them, all get them$bad"
fi
rm -rf "$tmp/before"

# ---- a copy of one rank's folder, whose devices are the original's
clear_all
mkdir "$tmp/drive"
works_by 2 "a run with devices elsewhere" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2 --snapshot-on hosts --device "$tmp/drive"
job 2 "$bin" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --snapshot-every 0
states=$(cat "$tmp"/drive/* | sha256sum)
for r in "" .rank1; do
    cp -a "$tmp/run$r" "$tmp/copy$r"
    job 2 "$bin" restore "$tmp/copy"
    result "$([ "$got" != 0 ] && grep -q "it is a copy of $tmp/run$r, which is still there" "$tmp/err"; echo $?)" "a copy of the folder run$r alone is not restored"
    rm -r "$tmp/copy$r"
    result "$([ ! -e "$tmp/copy" ] && [ ! -e "$tmp/copy.rank1" ]; echo $?)" "nor is another made"
done
ln -s run.rank1 "$tmp/copy.rank1"
refused_by 2 "nor a link to one" "$tmp/run.rank1 belongs to $tmp/run, and the folder of rank 0 that was given is another" restore "$tmp/copy"
result "$([ ! -e "$tmp/copy" ]; echo $?)" "nor is rank 0's made next to it"
rm "$tmp/copy.rank1"
same "$states" "$(cat "$tmp"/drive/* | sha256sum)" "and the original's states are as they were"
for r in "" .rank1; do cp -a "$tmp/run$r" "$tmp/copy$r"; done
device_of() { echo "$tmp"/drive/sitrain-????000"$1"*-dev0; }
taken_of() {
    cat "$tmp/drive"/* "$tmp/run/run.db" "$tmp/run.rank1/run.db" | sha256sum
    for r in "" .rank1; do ask "$tmp/copy$r" "SELECT count(*) FROM runs WHERE key LIKE 'owner%'"; done
}
is=$(taken_of)
go_on="pretrain --resume $tmp/copy --steps 7 --schedule-steps 7"
for wrong in "$tmp/away" "$(device_of 0)" "$tmp/drive --act-device $tmp/drive"; do
    # shellcheck disable=SC2086
    job 1 "$bin" $go_on --device "$(device_of 0)" : -n 1 "$bin" $go_on --device $wrong
    same "yes $is" "$([ "$got" != 0 ] && echo yes) $(taken_of)" "rank 1 refuses its device, and rank 0 takes none: ${wrong#"$tmp"/}"
done
job 2 "$bin" restore "$tmp/copy"
result "$([ "$got" != 0 ] && grep -q "mpirun -n 2 siTrain restore $tmp/copy with --device I=PATH for each device makes new ones" "$tmp/err"; echo $?)" "a copy of all folders: the sentence says how it gets devices"
mkdir "$tmp/other"
refused_by 2 "one file for two ranks" "$tmp/other/one would be a device of rank 0 and of rank 1" restore "$tmp/copy" --device 0="$tmp/other/one"
same " 0 0" "$(find "$tmp/other" -type f) $(ask "$tmp/copy" "SELECT count(*) FROM runs WHERE key = 'going_back'") $(ask "$tmp/copy.rank1" "SELECT count(*) FROM runs WHERE key = 'going_back'")" "  is refused before anything changes"
refused_by 2 "  nor is a run made so" "$tmp/other/one would be a device of rank 0 and of rank 1" pretrain --run "$tmp/made" $shape --steps 1 --device "$tmp/other/one"
result "$([ ! -e "$tmp/made" ] && [ ! -e "$tmp/made.rank1" ]; echo $?)" "  which leaves nothing"
works_by 2 "and that works" restore "$tmp/copy" --device 0="$tmp/other"
works_by 2 "it goes on" pretrain --resume "$tmp/copy" --steps 7 --quiet
same "2 $states" "$(find "$tmp/other" -type f | wc -l) $(cat "$tmp"/drive/* | sha256sum)" "each rank has a device of its own, and the original's are as they were"
rm "$tmp"/other/sitrain-????0001*
job 1 "$bin" restore "$tmp/copy" : -n 1 "$bin" restore "$tmp/copy" --device 0="$tmp/other/one"
result "$got" "one rank alone names another place"
works_by 2 "  and it goes on" pretrain --resume "$tmp/copy" --steps 8 --quiet
result "$([ -s "$tmp/other/one" ]; echo $?)" "  there"
rm -r "$tmp/drive" "$tmp/other" "$tmp/copy" "$tmp/copy.rank1"

# ---- a run that was moved, of which one rank has its device behind a link
clear_all
mkdir "$tmp/other" "$tmp/moved"
works_by 2 "another run" pretrain --run "$tmp/run" $shape --steps 2
mv "$tmp/run.rank1/dev0" "$tmp/other/"
ln -s "$tmp/other/dev0" "$tmp/run.rank1/dev0"
for r in "" .rank1; do cp -a "$tmp/run$r" "$tmp/moved/" && rm -r "$tmp/run$r"; done
job 2 "$bin" pretrain --resume "$tmp/moved/run" --steps 3
result "$([ "$got" != 0 ] && grep -qE "rank 1: .*go on with: siTrain pretrain --resume .* with --device PATH for each device of each rank .mpirun -n 1 siTrain ... --device A ... : -n 1 siTrain ... --device B .*; if " "$tmp/err"; echo $?)" "one rank's device is asked for"
job 1 "$bin" pretrain --resume "$tmp/moved/run" --steps 3 : -n 1 "$bin" pretrain --resume "$tmp/moved/run" --steps 3 --device "$tmp/other/dev0/states"
result "$got" "  and that rank alone is given it"
works_by 2 "  and the run goes on" pretrain --resume "$tmp/moved/run" --steps 4
rm -r "$tmp/moved" "$tmp/other"

# ---- what the next host keeps
clear_all
refuses 2 "--snapshot-on hosts is for several ranks" pretrain --run "$tmp/run" $shape --steps 1 --snapshot-every 1 --snapshot-on hosts
refuses 2 "leave --snapshot-dir out" pretrain --run "$tmp/run" $shape --steps 1 --snapshot-every 1 --snapshot-on hosts --snapshot-dir "$tmp/dir"
clear_all
works_by 3 "snapshots on hosts" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2 --snapshots 2 --snapshot-on hosts
same "step-00000002 step-00000002.rank1 step-00000004 step-00000004.rank1" "$(cd "$tmp"/run.rank1/snapshots/run-* && echo *)" "rank 1 has its parts and rank 0's, as many as are kept"
works "all are whole" snapshots "$tmp/run" --check --quiet
if local_fs "a rank that a client of NFS trains"; then
    cp -a "$tmp/run.rank1/run.lock" "$tmp/lock"
    python3 -c '
import fcntl, subprocess, sys  # as a client of NFS has it locked
with open(sys.argv[1], "r+") as f:
    fcntl.lockf(f, fcntl.LOCK_EX)
    print("process 7 on far\nstart 1 file 1 0.000000000, shared in 1 1 01234567-89ab-4def-8123-456789abcdef", file=f, flush=True)
    sys.exit(subprocess.call(sys.argv[2:]))' "$tmp/run.rank1/run.lock" "$bin" snapshots "$tmp/run" >"$tmp/out" 2>"$tmp/err"
    result "$([ $? = 1 ] && grep -q "run.rank1/run.db: the run is in use by process 7 on far" "$tmp/err"; echo $?)" "a rank that another machine trains does not lack its parts"
    cp "$tmp/lock" "$tmp/run.rank1/run.lock"
    works "they are listed when it has ended" snapshots "$tmp/run" --quiet
fi
sent() { ask "$tmp/$1" "SELECT sum(bytes) FROM traffic WHERE phase = 'snapshot' AND class = 'snapshot' AND link = '$2' AND direction = '$3'"; }
run plan $shape --ranks 3 --steps 4 --snapshot-every 2 --snapshot-on hosts --probe off --traffic
planned=$(awk '/^Moved for one snapshot/ { on = 1 } on && $1 == "network" && $3 == "write" { print $4 }' "$tmp/out")
result "$([ "$planned" -gt 0 ] && [ "$(sent run network write)" -gt $((3 * planned)) ]; echo $?)" "what rank 0 sent is counted: its states, and run.db with them"
same "$(sent run network write)" "$(sent run.rank1 network read)" "and came to rank 1"
job 3 "$bin" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --snapshot-every 0
whole=$(state)
keep_all
for lose in run.rank2 run.rank1 run; do
    put_back
    rm -r "${tmp:?}/$lose"
    [ $lose != run ] || turn_all "$(echo "$tmp"/run.rank1/snapshots/run-*/step-00000004.rank1/dev0/states)"
    works_by 3 "hosts: $lose is made again" restore "$tmp/run"
    same "6" "$(ls -d "$tmp"/run*/snapshots/run-*/step-00000004 "$tmp"/run*/snapshots/run-*/step-00000004.rank? | wc -l)" "hosts: $lose: each part of the snapshot lies in two places again"
    same "4" "$(steps_of "$tmp/run.rank1" | wc -l)" "hosts: $lose: all are after step 4, also if a rank's own part is damaged"
    works_by 3 "hosts: $lose goes on" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --quiet
    same "$whole" "$(state)" "hosts: $lose: to the same bits"
    works "hosts: $lose: all is whole" check "$tmp/run"
done
put_back
rm -r "$tmp"/run.rank1/snapshots/run-*/step-00000004.rank1/dev0 "$tmp"/run.rank1/dev0/*
works_by 3 "hosts: a rank has lost its device and files of its own part" restore "$tmp/run"
result "$(! grep -q "lacks files" "$tmp/err"; echo $?)" "hosts: which came from the next host, so that nothing is said of them"
put_back
rm -r "$tmp/run" "$tmp/run.rank1"
refused_by 3 "hosts: two that follow each other are more than is kept" "lacks the part of rank 0" restore "$tmp/run"
result "$([ ! -e "$tmp/run/run.db" ] && [ ! -e "$tmp/run.rank1" ]; echo $?)" "and nothing is made"

put_back
ask "$tmp/run.rank1" ".backup $tmp/old.db"
works_by 3 "one step more" pretrain --resume "$tmp/run" --steps 7 --schedule-steps 7
rm -f "$tmp"/run.rank1/run.db*
cp "$tmp/old.db" "$tmp/run.rank1/run.db"
job 3 "$bin" pretrain --resume "$tmp/run"
result "$([ "$got" != 0 ] && grep -q "move $tmp/run.rank1 aside, and mpirun -n 3 siTrain restore $tmp/run makes it again" "$tmp/err"; echo $?)" "a rank whose run.db is of an older time: refused with what helps"
mv "$tmp/run.rank1" "$tmp/aside"
works_by 3 "which works" restore "$tmp/run"
rm -r "$tmp/aside"

# ---- killed while it restores
if [ -n "$shim" ]; then
    put_back
    rm -r "$tmp/run.rank1"
    job 3 env LD_PRELOAD="$shim" SHIM_AT="pwrite:/run.rank1/run.db-wal:1:kill" "$bin" restore "$tmp/run"
    places_of() { ask "$tmp/run.rank1" "SELECT count(*) FROM runs WHERE key LIKE 'was.%'"; }
    is=$(places_of)
    job_n=3
    timeout 120 flock "$tmp/run/run.lock" mpirun $more -n 3 "$bin" restore "$tmp/run" >"$tmp/out" 2>"$tmp/err" </dev/null
    result "$([ $? != 0 ] && grep -q "in use" "$tmp/err" && [ "$is" -gt 0 ] && [ "$is" = "$(places_of)" ]; echo $?)" "the new folder of a rank is not written before rank 0's lock is had"
    bad='' killed=0
    for at in any:/run.rank1/:4 any:/run.rank1/:60 pwrite:/run.rank1/run.db-wal:4 pwrite:/run.rank1/dev0/:2 rename:/run.rank1/:1 pwrite:/run/run.db-wal:4 \
        pwrite:/run.rank2/run.db-wal:9; do
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

# ---- what is a host: machines of one name, and with long names that differ in the last letter
if [ "$(id -u)" = 0 ] && unshare -u -m true 2>"$tmp/null"; then
    cat >"$tmp/on" <<'END'
case $OMPI_COMM_WORLD_RANK$PMI_RANK in [01]) at=$1 ;; *) at=$2 ;; esac
echo "${at%%:*}" >/proc/sys/kernel/hostname
[ "$at" = "${at#*:}" ] || mount --bind "${at#*:}" /proc/sys/kernel/random/boot_id || exit 99
shift 2
exec "$@"
END
    echo 01234567-89ab-4def-8123-456789abcdef >"$tmp/boot"
    long=abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk
    for pair in "one one:$tmp/boot" "${long}1 ${long}2"; do
        clear_all
        # shellcheck disable=SC2086
        job 3 unshare -u -m sh "$tmp/on" $pair "$bin" pretrain --run "$tmp/run" $shape --steps 1 --snapshot-every 1 --snapshot-on hosts
        same "0 run.rank2 run.rank2 run" "$got$(cd "$tmp" && for r in "" .rank1 .rank2; do
            for at in run run.rank1 run.rank2; do [ "$at" = "run$r" ] || ! [ -d "$(echo $at/snapshots/*/step-00000001$r)" ] || printf ' %s' $at; done
        done)" "two hosts keep each other's snapshots: ${pair%:*}"
    done
else
    skip "two hosts" "not root, or no namespaces here"
fi
# ---- rank 0 refuses the device that it always had: rank 1, whose folder is a copy now, takes none either
clear_all
rm -rf "$tmp/a"
mkdir "$tmp/a"
job 2 "$bin" pretrain --run "$tmp/run" $shape --device "$tmp/a" --steps 2
cp -a "$tmp/a" "$tmp/a.whole"
cp -a "$tmp/run.rank1" "$tmp/copied"
rm -rf "$tmp/run.rank1"
mv "$tmp/copied" "$tmp/run.rank1"
truncate -s 20000 "$tmp"/a/sitrain-????0000*
was=$(sha256sum "$tmp"/a/*)
job 2 "$bin" pretrain --resume "$tmp/run" --device "$tmp/a"
result "$([ "$got" != 0 ] && grep -q "rank 0: .* is 20000 bytes, this run needs" "$tmp/err"; echo $?)" "a device of rank 0 is cut"
same "$was" "$(sha256sum "$tmp"/a/*)" "  and no rank took its devices"
cp -a "$tmp"/a.whole/* "$tmp/a/"
rm -rf "$tmp/a.whole"
works_by 2 "with it all ranks do" pretrain --resume "$tmp/run" --device "$tmp/a" --steps 3 --quiet

# ---- a copy loses a rank's folder: its snapshots name the devices and the TensorBoard folder of the original, which trains on
for lose in .rank1 ""; do
    clear_all
    rm -rf "$tmp"/a "$tmp"/b "$tmp"/board "$tmp"/copy*
    mkdir "$tmp/a" "$tmp/b"
    job 2 "$bin" pretrain --run "$tmp/run" $shape --device "$tmp/a" --tensorboard "$tmp/board" --steps 2 --snapshot-every 2 --snapshot-on hosts
    for r in "" .rank1; do cp -a "$tmp/run$r" "$tmp/copy$r"; done
    cp -a "$tmp/a/." "$tmp/b/"
    works_by 2 "a copy that has its own devices" pretrain --resume "$tmp/copy" --device "$tmp/b" --tensorboard none --steps 4 --snapshot-every 0 --quiet
    works_by 2 "its original goes on" pretrain --resume "$tmp/run" --steps 3 --snapshot-every 0 --quiet
    was=$(sha256sum "$tmp"/a/* "$tmp"/board/*)
    rm -rf "$tmp/copy$lose"
    works_by 2 "the copy's folder${lose:-, rank 0,} is made again" restore "$tmp/copy"
    result "$(grep -q "may be those of the run that this one was copied from" "$tmp/err"; echo $?)" "  and where its devices are is said"
    works_by 2 "  and it goes on" pretrain --resume "$tmp/copy" --steps 4 --snapshot-every 0 --quiet
    same "$was" "$(sha256sum "$tmp"/a/* "$tmp"/board/*)" "  what is the original's stays"
    works_by 2 "  which goes on" pretrain --resume "$tmp/run" --steps 4 --schedule-steps 4 --quiet
done
rm -rf "$tmp"/copy*

# ---- a folder that was made again owns the snapshots of the lost one; a copy of it in its place does not
clear_all
rm -rf "$tmp/dir" "$tmp"/orig*
mkdir "$tmp/dir"
job 2 "$bin" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2 --snapshot-dir "$tmp/dir"
rm -rf "$tmp/run.rank1"
mkdir "$tmp/big"
mv "$tmp/run/data.bin" "$tmp/big/"
ln -s "$tmp/big/data.bin" "$tmp/run/data.bin"
job 2 "$bin" restore "$tmp/run"
result "$([ "$got" != 0 ] && grep -q "run/data.bin is a symbolic link" "$tmp/err" && [ ! -e "$tmp/run.rank1/run.db" ]; echo $?)" "what a new folder needs and does not get is said"
mv "$tmp/big/data.bin" "$tmp/run/data.bin"
works_by 2 "with it rank 1's folder is made again" restore "$tmp/run"
for r in "" .rank1; do
    mv "$tmp/run$r" "$tmp/orig$r"
    cp -a "$tmp/orig$r" "$tmp/run$r"
done
was=$(cd "$tmp"/dir/* && ls)
works_by 2 "a copy in the place of both" pretrain --resume "$tmp/run" --steps 8 --schedule-steps 8 --snapshots 1
result "$(cd "$tmp"/dir/* && ls $was >/dev/null; echo $?)" "  removes no snapshot of its original"
rm -rf "$tmp/run" "$tmp/run.rank1"
for r in "" .rank1; do mv "$tmp/orig$r" "$tmp/run$r"; done
works_by 2 "the original goes on" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --snapshots 1
same "0" "$(cd "$tmp"/dir/* && ls | grep -c "step-0000000[024]")" "  and removes its own, also those of the lost folder"
done_testing
