#!/bin/sh
# ranks_parity.sh: several ranks whose snapshots lie on their devices' drives (--snapshot-on devices): going back and restoring with parts
# that are whole by parity, and parts that stay damaged. Prints TAP.
. tests/tap.sh
by_ranks
. tests/ranks_job.sh
clear_all
mkdir "$tmp/a" "$tmp/b" "$tmp/c" "$tmp/one" "$tmp/two"
on="--device $tmp/a --device $tmp/b --device $tmp/c --snapshot-on devices --snapshots 9"
says() { grep -q -- "$1" "$tmp/err"; }
goes_on() { # NAME
    works_by 2 "$1: goes on" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --quiet
    same "$whole" "$(state)" "$1: to the same bits"
}

# shellcheck disable=SC2086
works_by 2 "snapshots on devices" pretrain --run "$tmp/run" $shape $on --steps 4 --snapshot-every 2 --snapshot-dir "$tmp/one"
job 2 "$bin" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --snapshot-every 0
whole=$(state)

# a part that is whole by its parity alone: the list says so, of one process and of all ranks, and with --check
mkdir "$tmp/away"
list() { # STATE NAME RANKS ARGUMENTS...: the state of the snapshot after step 4, and that not all are whole
    list_state=$1 list_name=$2 list_ranks=$3
    shift 3
    if [ "$list_ranks" = 1 ]; then run snapshots "$tmp/run" "$@"; else job "$list_ranks" "$bin" snapshots "$tmp/run" "$@"; fi
    same "1 4 $list_state" "$got $(grep "Z  $list_state  " "$tmp/out" | awk '{ print $1 }') $list_state" "$list_name"
}
mv "$tmp"/b/run-*/step-00000004.rank1.*.dev1 "$tmp/away/"
list "whole by parity: a device of rank 1 is missing" "a part that is whole by parity is not said to lack" 1
list "whole by parity: a device of rank 1 is missing" "nor by all ranks" 2
list "whole by parity: a device of rank 1 is missing" "and it would be" 2 --check --quiet
run snapshots "$tmp/run" --json
same "1 false true null" "$got $(python3 -c 'import json, sys; print(*[json.dumps(a[k]) for a in json.load(sys.stdin) if a["step"] == 4 for k in ("whole", "by_parity", "lacks_rank")])' <"$tmp/out")" "--json, too"
refused_by 2 "who wants it is told what makes it whole" "the snapshot after step 4 lacks files on devices, which its parity has: first mpirun -n 2 siTrain restore" pretrain --resume "$tmp/run" --from 4
unread=$(echo "$tmp"/one/run-*/step-00000002)/run.db
cp "$unread" "$tmp/away/run.db"
dd if=/dev/zero of="$unread" bs=100 count=1 conv=notrunc 2>"$tmp/null"
refused_by 2 "so it is next to one that cannot be read" "which its parity has: first mpirun -n 2 siTrain restore" pretrain --resume "$tmp/run" --from 4
same "2" "$(grep -c "a snapshot is passed over, since it cannot be read" "$tmp/err")" "which each rank names once"
cp "$tmp/away/run.db" "$unread"
part=$(echo "$tmp"/c/run-*/step-00000004.rank1.*.dev2)
cp "$part" "$tmp/away/whole"
turn_all "$part"
list "not whole" "more than parity bears is not whole, by one process" 1 --check --quiet
list "not whole" "and by all ranks" 2 --check --quiet
cp "$tmp/away/whole" "$part"
mv "$tmp/away/"*.dev1 "$(dirname "$tmp"/b/run-*/step-00000004.rank1.*.parity1)/"
# a rank that lists fewer of its own than others do reads with them
mv "$tmp"/one/run-*/step-00000004.rank1 "$tmp/away/"
list "lacks rank 1" "a part that one rank lacks" 2 --check --quiet
mv "$tmp/away/step-00000004.rank1" "$(dirname "$tmp"/one/run-*/step-00000004)/"
works_by 2 "put back, all is whole" snapshots "$tmp/run" --check --quiet

# a part of the newest snapshot has lost more than its parity bears, and a device of the run is lost
for part in "$tmp"/[ab]/run-*/step-00000004.????????????????.*; do turn_all "$part"; done
rm "$tmp"/b/sitrain-????0001*
works_by 2 "an older snapshot" restore "$tmp/run"
same "1 0" "$(grep -c "the part of rank 0 of the snapshot after step 4 is passed over: .*more than their parity bears" "$tmp/err") $(grep "more than their parity bears" "$tmp/err" | grep -vc "passed over")" \
    "the newest is read and named once"
goes_on "an older snapshot"

# a rank's folder is lost, and a drive with a device of each rank, and its parts of all snapshots
rm -r "$tmp/run.rank1" "$tmp"/b/*
works_by 2 "a lost folder and a lost drive" restore "$tmp/run"
same "2 2" "$(steps_of "$tmp/run" | wc -l) $(steps_of "$tmp/run.rank1" | wc -l)" "all ranks are after step 2"
goes_on "a lost folder and a lost drive"

# two parts of one snapshot, of which the newer one lacks a file: the whole one is taken
works_by 2 "back, and there again" pretrain --resume "$tmp/run" --from 0 --steps 4 --snapshot-every 2 --snapshot-dir "$tmp/two" --quiet
# shellcheck disable=SC2012
rm "$(ls -t "$tmp"/c/run-*/step-00000002.rank1.*.dev2 | head -n 1)"
works_by 2 "of two parts, the whole one" pretrain --resume "$tmp/run" --from 2 --steps 6 --schedule-steps 6 --snapshot-every 0 --quiet
same "$whole" "$(state)" "to the same bits"

# of two parts, the one that is taken first is damaged: the other one is taken
for step in 0 4; do rm -r "$tmp"/one/run-*/step-0000000$step* "$tmp"/two/run-*/step-0000000$step*; done 2>"$tmp/null"
word=$(ask "$(echo "$tmp"/two/run-*/step-00000002)" "SELECT value FROM runs WHERE key = 'owner'")
for part in "$tmp"/[ab]/run-*/step-00000002."$word".*; do turn_all "$part"; done
rm "$tmp"/b/sitrain-????0001*
works_by 2 "of two parts, the one that is not damaged" restore "$tmp/run"
same "2 1" "$(steps_of "$tmp/run" | wc -l) $(grep -c "the part of rank 0 of the snapshot after step 2 is passed over: .*more than their parity bears" "$tmp/err")" "with a notice of the other"
goes_on "of two parts"
for part in "$tmp"/[ab]/run-*/step-00000002.*.dev?; do turn_all "$part"; done
run export "$tmp/run" "$tmp/out-2" --step 2
result "$([ "$got" = 1 ] && says "lists all damage; mpirun -n 2 siTrain restore $tmp/run mends what its parity bears"; echo $?)" "the sentence of a damaged snapshot names the command of all ranks"

# a rank's own part has a damaged run.db: what the next host keeps takes its name, and the damaged folder stays under another one
clear_all
works_by 2 "snapshots on hosts" pretrain --run "$tmp/run" $shape --steps 2 --snapshot-every 2 --snapshot-on hosts
own=$(echo "$tmp"/run.rank1/snapshots/run-*/step-00000002.rank1)
dd if=/dev/zero of="$own/run.db" bs=100 count=1 conv=notrunc 2>"$tmp/null"
rm "$tmp/run/dev0/states"
works_by 2 "a part with a damaged run.db comes from the next host" restore "$tmp/run"
same "1 1 2" "$(ask "$tmp/run.rank1" "SELECT count(*) FROM notices WHERE text LIKE '%step-00000002.rank1 has a damaged run.db, and stays as %.damaged-%'") $(ls -d "$own".damaged-*/dev0/states | wc -l) $(steps_of "$tmp/run" | wc -l)" \
    "and nothing of the damaged one is lost"
works "all are whole" snapshots "$tmp/run" --check --quiet
done_testing
