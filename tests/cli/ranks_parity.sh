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
done_testing
