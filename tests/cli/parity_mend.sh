#!/bin/sh
# parity_mend.sh: what siTrain restore mends of snapshots with parity, and what it says of those that stay damaged. Prints TAP.
. tests/tap.sh
smallest
train="$data $shape --lr 1e-2 --mode su+o --keep-best --eval-data $tmp/text.bin --eval-every 2"
devices="--device $tmp/d0 --device $tmp/d1 --device $tmp/d2"
# begin: $tmp/run, on three drives, after step 4, with snapshots after 0, 2 and 4
begin() {
    rm -rf "$tmp/run" "$tmp"/d?
    mkdir "$tmp/d0" "$tmp/d1" "$tmp/d2"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/run" $train $devices --steps 4 --snapshot-every 2 --snapshot-on devices
}

folder() { ls -d "$tmp"/run/snapshots/run-*/step-0000000"$1"; }
# ruin STEP DEVICE: all that this device has of that snapshot
ruin() {
    for ruined in "$tmp/d$2"/run-*/step-0000000"$1".*; do turn_all "$ruined"; done
}
says() { grep -q -- "$1" "$tmp/err"; }
# lists WHOLE OTHERS: snapshots --check lists so many
lists() {
    run snapshots "$tmp/run" --check
    same "$((${2} > 0)) $1 $2" "$got $(grep -c "Z  whole  " "$tmp/out") $(grep -c "not whole" "$tmp/out")" "and snapshots --check says the same"
}

begin
ruin 4 0
ruin 2 0
ruin 2 1
run restore "$tmp/run"
result "$([ "$got" = 1 ] && says "step-00000004 is whole again, by its parity (" && says "has lost nothing itself, and of its snapshots, 1 cannot be made whole; siTrain snapshots $tmp/run --check lists all"; echo $?)" \
    "one snapshot is mended, and one is not: both are said, with exit code 1"
result "$([ ! -s "$tmp/out" ]; echo $?)" "and not that all are whole"
run restore "$tmp/run"
result "$([ "$got" = 1 ] && says "of its snapshots, 1 cannot be made whole"; echo $?)" "also if there is nothing more to mend"
lists 2 1
rm "$(folder 2)/tokenizer/tokenizer.json"
run restore "$tmp/run"
result "$([ "$got" = 1 ] && says "step-00000002 lacks files of its folder, which no parity has"; echo $?)" "a file of a snapshot's folder is missing"

# its states are mended, and its best model is not: it is not whole
begin
ruin 4 0
turn "$(folder 4)/best/model.safetensors" 2000
run restore "$tmp/run"
result "$([ "$got" = 1 ] && ! says "is whole again" && says "step-00000004 is not whole, but its parity has mended some of it (parts that were made again: [1-9]" && says "best/model.safetensors" && says "of its snapshots, 1 cannot be made whole"; echo $?)" \
    "a snapshot whose best model is damaged is not called whole"
turn "$(folder 4)/best/model.safetensors" 2000
lists 3 0

# its run.db cannot be read: it is named, not left out
dd if=/dev/zero of="$(folder 4)/run.db" bs=100 count=1 conv=notrunc 2>"$tmp/null"
for command in "snapshots $tmp/run" "restore $tmp/run" "check --scrub --quiet $tmp/run" "export $tmp/run $tmp/out-4 --step 4"; do
    # shellcheck disable=SC2086
    run $command
    result "$([ "$got" = 1 ] && says "step-00000004/run.db is not a SQLite database"; echo $?)" "${command%% *} names a snapshot whose run.db cannot be read"
done

refuses 2 "there are snapshots after the steps 0 and 2" pretrain --resume "$tmp/run" --from 3
run pretrain --resume "$tmp/run" --from 4
result "$([ "$got" = 1 ] && says "no snapshot after step 4 that can be read"; echo $?)" "a step whose snapshot may be the one that cannot be read is no misuse"

# all that is read of parity counts at the pace of a scrub: each file, and the checksums of one of them before that
begin
run check --scrub "$(folder 4)"
same "$(stat -c %s "$tmp"/d?/run-*/step-00000004.*.parity? | awk '{ n += $1 } END { printf "%gK", (n + 4096) / 1024 }')" \
    "$(awk '/^parity/ { print $2 }' "$tmp/out")" "check --scrub counts what it reads of parity"

# wire parameters of the run are damaged, too: the snapshots that stay damaged come first
begin
ruin 4 0
ruin 4 1
turn "$(echo "$tmp"/d0/sitrain-*-dev0)" $((4096 + $(ask "$tmp/run" "SELECT slot FROM journal_subs WHERE sub = 0") * 28672 + 24576 + 100))
run restore "$tmp/run"
result "$([ "$got" = 1 ] && says "has lost nothing itself that siTrain check --repair $tmp/run cannot make again, and of its snapshots, 1 cannot be made whole; "; echo $?)" \
    "snapshots that stay damaged, and wire parameters that check --repair makes again"

# Who may not read a snapshot has not damaged it: it is counted apart. One that may only be read is mended by nobody, and is fine if it is whole. Not as root.
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid 65534 --regid 65534 --clear-groups"
cp "$bin" "$tmp/siTrain" && chmod 755 "$tmp" "$tmp/siTrain"
begin
[ -z "$as" ] || chown -R 65534:65534 "$tmp/run" "$tmp"/d?
as_user() { $as "$tmp/siTrain" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null; got=$?; }
as_user snapshots "$tmp/run"
if [ "$got" = 0 ]; then
    ruin 4 0
    ruin 4 1
    chmod 000 "$tmp"/d1/run-*/step-00000002.*.dev1
    as_user restore "$tmp/run"
    result "$([ "$got" = 1 ] && says "of its snapshots, 1 cannot be made whole, and 1 could not be read or mended; " && says "open $tmp/d1/.*step-00000002.*.dev1: Permission denied" && ! says "step-00000002.*damaged"; echo $?)" \
        "a snapshot that may not be read is counted apart, and named"
    rm "$tmp"/d2/sitrain-*
    chmod 000 "$tmp"/d1/run-*/step-00000000.*.dev1
    as_user restore "$tmp/run"
    result "$([ "$got" = 1 ] && says "has no snapshot that is known to be whole: let this user read and write those that are named above" && ! says "nowhere else"; echo $?)" \
        "what was lost is not said to be nowhere else"
    chmod 400 "$tmp"/d1/run-*/step-0000000[02].*.dev1
    as_user restore "$tmp/run"
    same "0 1" "$got $(grep -c "went back to step 2" "$tmp/err")" "one that may only be read, and is whole"
    chmod 600 "$tmp"/d1/run-*/step-00000002.*.dev1
    turn_all "$tmp"/d1/run-*/step-00000002.*.dev1
    chmod 400 "$tmp"/d1/run-*/step-00000002.*.dev1
    as_user restore "$tmp/run"
    result "$([ "$got" = 1 ] && says "of its snapshots, 1 cannot be made whole, and 1 could not be read or mended; " && says "step-00000002.*.dev1 is damaged, and is not mended, because this user may only read it"; echo $?)" "one that may only be read, and is damaged"
    chmod 600 "$tmp"/d1/run-*/step-00000002.*.dev1
    as_user restore "$tmp/run"
    result "$([ "$got" = 1 ] && says "step-00000002 is whole again, by its parity" && says "of its snapshots, 1 cannot be made whole; "; echo $?)" "and is mended where it may be written"
else
    skip "who may not read a snapshot" "no other user's process can be started here: $(head -n 1 "$tmp/err")"
fi

# a snapshot that is whole by its parity alone is not said to be none: who wants it is told what makes it whole
begin
rm "$tmp"/d1/run-*/step-00000002.*.dev1
refuses 2 "the snapshot after step 2 lacks files on device 1, which its parity has: first siTrain restore $tmp/run" pretrain --resume "$tmp/run" --from 2
refuses 2 "which its parity has: first siTrain restore $tmp/run" export "$tmp/run" "$tmp/out-2" --step 2
works "restore makes it whole" restore "$tmp/run"
ruin 2 1
run pretrain --resume "$tmp/run" --from 2
result "$([ "$got" = 1 ] && says "step-00000002 lists all damage; siTrain restore $tmp/run mends what its parity bears"; echo $?)" "a damaged one names what mends it"
run export "$tmp/run" "$tmp/out-2" --step 2
result "$([ "$got" = 1 ] && says "step-00000002 lists all damage; siTrain restore $tmp/run mends what its parity bears"; echo $?)" "so does export"

# files with other lengths: one that is too long is mended, and two that were cut where the others are whole are not said to be lost
begin
echo more >>"$(echo "$tmp"/d1/run-*/step-00000002.*.parity1)"
run restore "$tmp/run"
same "0 1" "$got $(grep -c "step-00000002 is whole again, by its parity (parts that were made again: 1)" "$tmp/err")" "a file that is too long"
for file in "$tmp"/d[01]/run-*/step-00000002.*.dev?; do truncate -s -1 "$file"; done
run snapshots "$tmp/run" --check
same "1 1" "$got $(grep -c "Z  whole by parity: a device is damaged  .*step-00000002" "$tmp/out")" "two files that were cut, each behind its states"
works "both are mended" restore "$tmp/run"
lists 3 0

# parity alone is damaged: who reads in the background finds it, and names what mends it
begin
turn "$(echo "$tmp"/d1/run-*/step-00000002.*.parity1)" 4200
run check --scrub "$tmp/run"
result "$([ "$got" = 1 ] && says "step-00000002.*parity1: .*damaged" && [ "$(grep -c "^parity" "$tmp/out")" = 3 ]; echo $?)" "check --scrub reads parity"
: >"$tmp/training.err"
"$bin" pretrain --resume "$tmp/run" --steps 100000 --snapshot-every 0 --eval-every 0 --scrub-bw 1G --quiet >"$tmp/out" 2>"$tmp/training.err" </dev/null &
pid=$!
for _ in $(seq 600); do grep -q "parity1: .*damaged" "$tmp/training.err" && break; sleep 0.05; done
kill -INT $pid
wait $pid
result "$(grep -q "step-00000002.*parity1: .*damaged.*; training does not need this snapshot; siTrain restore $tmp/run makes it whole again" "$tmp/training.err"; echo $?)" \
    "so does --scrub-bw"
works "and restore mends it" restore "$tmp/run"
works "check --scrub finds it whole" check --scrub "$tmp/run" --quiet
# the position in a larger snapshot of this name: the smaller one is read from its beginning
sqlite3 "$tmp/run/run.db" "UPDATE scrubs SET position = 5000, passes = 0, verified_ns = 0 WHERE portion LIKE '%step-%'"
"$bin" pretrain --resume "$tmp/run" --steps 100000 --snapshot-every 0 --eval-every 0 --scrub-bw 1G --quiet >"$tmp/out" 2>"$tmp/training.err" </dev/null &
pid=$!
for _ in $(seq 600); do [ "$(ask "$tmp/run" "SELECT count(*) FROM scrubs WHERE portion LIKE '%step-%' AND passes = 0")" = 0 ] && break; sleep 0.05; done
kill -INT $pid
wait $pid
same "0 " "$(ask "$tmp/run" "SELECT count(*) FROM scrubs WHERE portion LIKE '%step-%' AND passes = 0") $(grep "parity" "$tmp/training.err")" \
    "a position behind the end of a snapshot's parity is no damage"

# a device in a new place, and a snapshot that cannot be mended there: nothing of that one stays in the new place
begin
ruin 4 0
rm -r "$tmp/d1"
mkdir "$tmp/new"
works "a device in another place, from an older snapshot" restore "$tmp/run" --device "1=$tmp/new"
result "$(says "the snapshot after step 4 is passed over"; echo $?)" "the newest is passed over"
same "2 2 0" "$(for step in 0 2 4; do find "$tmp"/new/run-* -name "step-0000000$step.*" | wc -l; done | tr '\n' ' ' | sed 's/ $//')" \
    "and files of the mended ones alone are in the new place"
lists 2 1

# somebody has put the lost drive's files into the new place: they stay there, too
begin
mkdir "$tmp/new2"
cp -a "$tmp"/d1/run-* "$tmp/new2/"
rm -r "$tmp/d1"
ruin 4 0
ruin 4 2
works "a device in another place, which has the old one's files" restore "$tmp/run" --device "1=$tmp/new2"
same "2" "$(find "$tmp"/new2/run-* -name "step-00000004.*" | wc -l)" "those of a snapshot that cannot be mended stay"

# a copy of a run, by a long path: the sentence keeps its end
begin
long=$tmp/$(printf "%0200d/%0190d" 1 2)
mkdir -p "$long"
cp -a "$tmp/run" "$long/copy"
ruin 4 0
ruin 2 0
mkdir "$long/new"
run restore "$long/copy"
result "$([ "$got" = 1 ] && says "it is a copy of $tmp/run, which is still there"; echo $?)" "a copy is not restored onto the devices of its original"
run restore "$long/copy" --device "0=$long/new" --device "1=$long/new" --device "2=$long/new"
result "$([ "$got" = 0 ] && says "is a copy: restore that run first"; echo $?)" "a copy names the run that is to be restored first"

# a run that cp has moved: its snapshots' files are those of the folder that is gone, until it has its name again
begin
cp -a "$tmp/run" "$tmp/moved"
rm -r "$tmp/run"
# shellcheck disable=SC2086
works "a run that cp has moved goes on" pretrain --resume "$tmp/moved" $devices --steps 4 --quiet
ruin 4 0
run restore "$tmp/moved"
result "$([ "$got" = 1 ] && says "of which $tmp/moved is a copy: that run is not there; if it was moved, move it back"; echo $?)" "  and does not mend what may be another's"
mv "$tmp/moved" "$tmp/run"
works "  moved back, it does" restore "$tmp/run"
works "  and they are whole" snapshots "$tmp/run" --check

# RUN's parent was renamed, and a backup was put back where it was: its drives lie at the paths that RUN's snapshots name
mkdir -p "$tmp/p/d" "$tmp/p/e"
# shellcheck disable=SC2086
run pretrain --run "$tmp/p/r" $train --device "$tmp/p/d" --device "$tmp/p/e" --steps 4 --snapshot-every 2 --snapshot-on devices
cp -a "$tmp/p" "$tmp/backup"
mv "$tmp/p" "$tmp/q"
cp -a "$tmp/backup" "$tmp/p"
works "a renamed run, with a backup at its old place, goes on" pretrain --resume "$tmp/q/r" --device "$tmp/q/d" --device "$tmp/q/e" --steps 6
result "$(says "p/d/r-.*/step-00000000..*.dev0 and other files of the removed snapshot stay: RUN was renamed"; echo $?)" "  it says which files it leaves"
same "0" "$(ls "$tmp"/q/r/snapshots/r-*/ | grep -c 00000000)" "  and removes what it has of that snapshot itself"
works "  all of the backup's snapshots are whole" snapshots "$tmp/p/r" --check
run snapshots "$tmp/q/r"
same "3 0" "$(grep -c " complete " "$tmp/out") $(grep -c "/p/r/" "$tmp/out")" "  and none of them is listed as the run's"
for f in "$tmp"/p/d/r-*/step-00000004.*.dev0; do turn_all "$f"; done
sum=$(cat "$tmp"/p/[de]/r-*/* "$tmp"/p/r/snapshots/r-*/*/run.db | sha256sum)
run restore "$tmp/q/r"
result "$(says "/q/r/.*step-00000004 is damaged, and it is not mended, because $tmp/p/./r-.* may be that of a backup"; echo $?)" "restore says why it mends none of the backup's"
same "$sum" "$(cat "$tmp"/p/[de]/r-*/* "$tmp"/p/r/snapshots/r-*/*/run.db | sha256sum)" "  and writes to none"
works "the backup goes on with its drives" pretrain --resume "$tmp/p/r" --device "$tmp/p/d" --device "$tmp/p/e" --steps 4 --quiet
works "  and its restore mends them" restore "$tmp/p/r"
works "  to whole ones" snapshots "$tmp/p/r" --check
rm -r "$tmp/p"

# renamed alone, a run still mends and removes its own, also on a drive that was lost
rm -r "$tmp"/d?
mkdir "$tmp/p" "$tmp/d0" "$tmp/d1" "$tmp/d2"
# shellcheck disable=SC2086
run pretrain --run "$tmp/p/run" $train $devices --steps 4 --snapshot-every 2 --snapshot-on devices
rm -r "$tmp/q" && mkdir "$tmp/q"
mv "$tmp/p/run" "$tmp/q/run"
rm -r "$tmp/d1" && mkdir "$tmp/d1"
works "a renamed run has its lost drive made again" restore "$tmp/q/run"
ruin 4 1
run restore "$tmp/q/run"
result "$(says "step-00000004 is whole again, by its parity"; echo $?)" "  and mends what is damaged there"
works "  and goes on" pretrain --resume "$tmp/q/run" --steps 6
same "0 0" "$(ls "$tmp"/d?/run-*/ | grep -c 00000000) $(grep -c "stay: RUN was renamed" "$tmp/err")" "  and removes the files of an old snapshot"
done_testing
