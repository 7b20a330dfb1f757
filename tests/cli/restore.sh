#!/bin/sh
# restore.sh: siTrain restore: a device of a run is lost, and is made again from a snapshot; --resume then gives the bits of a run that
# has lost nothing. Prints TAP.
. tests/tap.sh
find_shim
smallest
small="$data $shape --lr 1e-2"
# goes_on NAME: the run in $tmp/run goes on after step 4 to what $whole says
goes_on() {
    same "4" "$(steps_of "$tmp/run" | wc -l)" "$1: is after step 4"
    works "$1: goes on" pretrain --resume "$tmp/run" --steps 9 --quiet
    same "$whole" "$(exported "$tmp/run") $(steps_of "$tmp/run")" "$1: to the same bits"
    works "$1: is whole" check "$tmp/run"
}
# lose FILE...: a run of which these are gone
lose() {
    rm -rf "$tmp/run" "$tmp/a" "$tmp/b" "$tmp/c"
    mkdir "$tmp/a" "$tmp/b" "$tmp/c"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/run" $train --steps 4 --snapshot-every 4
    run pretrain --resume "$tmp/run" --steps 7 --snapshot-every 0 --quiet
    rm -r "$@"
}

train="$small --mode su+o --compress 20% --error-feedback --device $tmp/a --device $tmp/b"
mkdir "$tmp/a" "$tmp/b"
run pretrain --run "$tmp/whole" $train --steps 9
whole="$(exported "$tmp/whole") $(steps_of "$tmp/whole")"
lose "$tmp/b" && mkdir "$tmp/b"
refuses 1 "siTrain restore $tmp/run makes it again and goes back to the newest snapshot" pretrain --resume "$tmp/run" --quiet
works "a lost file" restore "$tmp/run"
goes_on "a lost file"
refuses 2 "no device of $tmp/run is gone" restore "$tmp/run"
turn "$tmp/text.bin" 1500
run pretrain --resume "$tmp/run" --steps 14 --schedule-steps 14 --quiet
result "$([ "$got" = 1 ] && grep -q ": bring back the file as it was$" "$tmp/err"; echo $?)" "restore is not named where tokens were changed, which are in no snapshot"
turn "$tmp/text.bin" 1500

if [ -n "$shim" ]; then
    lose_inside() {
        rm -rf "$tmp/inside"
        # shellcheck disable=SC2086
        run pretrain --run "$tmp/inside" $small --steps 1 --snapshot-every 1 --devices 2
        rm -r "$tmp/inside/dev1"
    }
    is_done_or_said() { [ "$got" = 0 ] || { [ "$got" = 1 ] && grep -q "Input/output error" "$tmp/err" && ! grep -q "is not there" "$tmp/err"; }; }
    fails_once 'look:/inside$:EIO' lose_inside is_done_or_said "a folder that one look cannot see is not said to be away" restore "$tmp/inside"

    rm -r "$tmp/inside"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/inside" $small --steps 3 --snapshot-every 1
    rm "$tmp/inside/dev0/states"
    mv "$tmp/inside" "$tmp/kept"
    again() { rm -rf "$tmp/inside" && cp -a "$tmp/kept" "$tmp/inside"; }
    is_newest_or_said() {
        { [ "$got" = 0 ] && grep -qE "went back to step 3$|step 3 is passed over: .*Input/output error" "$tmp/err"; } || { [ "$got" = 1 ] && grep -q "Input/output error" "$tmp/err"; }
    }
    fails_once pread:step-00000003/run.db:EIO again is_newest_or_said "a read of the newest snapshot that fails once does not silently take an older one" restore "$tmp/inside"
    rm -r "$tmp/inside" "$tmp/kept"
else
    skip "looks and reads that fail once" "no library that fails them"
fi
lose "$tmp/a" "$tmp/b"
refuses 2 "is the place of device 0, too: a file or a drive holds one device" restore "$tmp/run" --device "0=$tmp/c/new" --device "1=$tmp/c/new"
result "$([ -z "$(ls "$tmp/c")" ]; echo $?)" "and nothing is made"
lose "$tmp/b"
refuses 2 "the folder $tmp/b of device 1 is not there: mount its drive, or make the folder, or name another place with --device 1=PATH" restore "$tmp/run"
refuses 2 "device 0 of $tmp/run is there" restore "$tmp/run" --device "0=$tmp/c"
refuses 2 "expected I=PATH" restore "$tmp/run" --device "2=$tmp/c"
works "another place" restore "$tmp/run" --device "1=$tmp/c"
result "$(ls "$tmp/c"/sitrain-*-dev1 >"$tmp/null"; echo $?)" "is where it lies"
goes_on "another place"

# a bad place changes nothing: the run is not on its way back
lose "$tmp/b"
echo mine >"$tmp/file"
mkdir "$tmp/b"
going() { ask "$tmp/run" "SELECT count(*) FROM runs WHERE key = 'going_back'"; }
refuses 2 "$tmp/none/states: No such file or directory; expected a folder for a device" restore "$tmp/run" --device "1=$tmp/none/states"
refuses 2 "--device $tmp/file exists" restore "$tmp/run" --device "1=$tmp/file"
refuses 2 "there is no such drive" restore "$tmp/run" --device 1=/dev/none
same "0 mine" "$(going) $(cat "$tmp/file")" "and the run is not on its way back"
works "the old place" restore "$tmp/run"
goes_on "the old place"

# nor a drive that is too small, or not mounted any more
mkdir "$tmp/small"
if mount -t tmpfs -o size=64k none "$tmp/small" 2>"$tmp/null"; then
    was=$train train="$train --device-in-ram"
    lose "$tmp/b"
    train=$was
    refuses 1 "the file system of $tmp/small has " restore "$tmp/run" --device "1=$tmp/small"
    same "0" "$(going)" "and the run is not on its way back"
    mount -o remount,size=8m "$tmp/small"
    works "a drive" restore "$tmp/run" --device "1=$tmp/small"
    umount -l "$tmp/small"
    refuses 2 "its drive was mounted at $tmp/small, where another file system is now" restore "$tmp/run"
    mount -t tmpfs -o size=8m none "$tmp/small"
    works "another drive in its place" restore "$tmp/run"
    goes_on "another drive in its place"
    umount -l "$tmp/small"
else
    skip "drives" "nothing may be mounted here"
fi

# a drive that is not mounted is not taken for lost
lose "$tmp/b"
mkdir "$tmp/b"
ask "$tmp/run" "DELETE FROM runs WHERE key = 'mount.1'" # of an older version
refuses 2 "that folder is empty, as if its drive were not mounted" restore "$tmp/run"
result "$([ -z "$(ls "$tmp/b")" ] && [ "$(going)" = 0 ]; echo $?)" "nothing is made there"
works "the user says so" restore "$tmp/run" --device "1=$tmp/b"
goes_on "the user says so"

# files that were cut: with the run's superblock and without it, in images, too
lose "$tmp/c" && mkdir "$tmp/c"
truncate -s 20000 "$tmp"/b/sitrain-*
refuses 1 "siTrain restore $tmp/run makes it again" pretrain --resume "$tmp/run" --quiet
works "a device that was cut" restore "$tmp/run"
goes_on "a device that was cut"
lose "$tmp/c" && mkdir "$tmp/c"
truncate -s 3000 "$tmp"/b/sitrain-*
sum=$(cat "$tmp"/b/sitrain-* | sha256sum)
works "one without a superblock" restore "$tmp/run"
same "$sum" "$(cat "$tmp"/b/sitrain-*.cut-* | sha256sum)" "which stays under another name"
goes_on "one without a superblock"

# a damaged snapshot is passed over
lose "$tmp/b"
cp -r "$tmp/run" "$tmp/again"
states=$(ls "$tmp"/run/snapshots/*/step-00000004/dev0/states)
python3 -c '
import sys
with open(sys.argv[1], "r+b") as f:
    data = bytearray(f.read())
    for at in range(4096, len(data), 4096):
        data[at] ^= 1
    f.seek(0)
    f.write(data)' "$states"
works "a damaged newest snapshot" restore "$tmp/run" --device "1=$tmp/c"
result "$(grep -q "the snapshot after step 4 is passed over: .*damaged" "$tmp/err"; echo $?)" "is named"
same "0" "$(steps_of "$tmp/run" | wc -l)" "the run is at the one before"
run pretrain --resume "$tmp/run" --steps 9 --quiet
same "$whole" "$(exported "$tmp/run") $(steps_of "$tmp/run")" "and goes on to the same bits"
rm -rf "$tmp/again"

if [ -n "$shim" ]; then
    lose_b() { lose "$tmp/b"; }
    killed_restores lose_b "$tmp/c" $(seq -f pwrite:/run/run.db-wal:%g 2 6 60) pwrite:/c/:1 rename:/c/:1
    result "$([ -z "$bad" ] && [ $kills -gt 5 ]; echo $?)" "killed $kills times, the same command finishes$bad"
else
    skip "kills" "no shim here"
fi

# devices in RUN, and images
for train in "$small --mode base --devices 2" "$small --mode mem --commit-every 2"; do
    rm -rf "$tmp/whole"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/whole" $train --steps 9
    whole="$(exported "$tmp/whole") $(steps_of "$tmp/whole")"
    name=${train#*--mode }
    name=${name%% *}
    lose "$tmp/a" # which it does not use
    rm -r "$tmp"/run/image* "$tmp/run/dev1" 2>"$tmp/null"
    works "$name, in RUN" restore "$tmp/run"
    goes_on "$name, in RUN"
    lose "$tmp/a"
    for file in "$tmp"/run/image* "$tmp/run/dev1/states"; do [ ! -f "$file" ] || truncate -s 9000 "$file"; done
    works "$name, cut" restore "$tmp/run"
    goes_on "$name, cut"
done

# a run that went back with other options, and has no snapshot since: it keeps them, and its lengths
for train in "$small --mode su+o" "$small --mode mem --commit-every 2"; do
    name=${train#*--mode }
    name=${name%% *}
    rm -rf "$tmp/run"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/run" $train --steps 6 --snapshot-every 4
    works "$name, another branch" pretrain --resume "$tmp/run" --from 4 --lr 2e-3 --schedule linear --snapshot-every 0 --steps 9 --schedule-steps 10
    branched="$(exported "$tmp/run") $(steps_of "$tmp/run")"
    word=$(ask "$tmp/run" "SELECT value FROM runs WHERE key = 'branch'")
    rm -r "$tmp"/run/image* "$tmp/run/dev0" 2>"$tmp/null"
    works "$name, another branch: is restored" restore "$tmp/run"
    result "$(grep -q "went back to step 4, .*; it goes on with lr: 0.002 instead of 0.01;schedule: linear instead of constant$" "$tmp/err"; echo $?)" "$name, another branch: says with which options"
    works "$name, another branch: goes on" pretrain --resume "$tmp/run" --quiet
    same "$branched $word" "$(exported "$tmp/run") $(steps_of "$tmp/run") $(ask "$tmp/run" "SELECT value FROM runs WHERE key = 'branch'")" "$name, another branch: with those, to the same bits"
done

# a device that cannot be made where it was
train="$small --mode base --devices 2"
lose "$tmp/a"
rm -r "$tmp/run/dev1"
echo mine >"$tmp/run/dev1"
refuses 2 "$tmp/run/dev1 is no folder" restore "$tmp/run"
same "0 mine" "$(going) $(cat "$tmp/run/dev1")" "and the run is not on its way back"

# nor may it be something else, or a file that cannot be moved aside
rm "$tmp/run/dev1"
mkdir -p "$tmp/run/dev1/states"
run restore "$tmp/run"
result "$([ "$got" = 1 ] && tail -n 1 "$tmp/err" | grep -q 'restore: .*run/dev1/states is neither a file nor a block device$'; echo $?)" "nor is a folder in its place taken for one"
rmdir "$tmp/run/dev1/states"
echo mine >"$tmp/run/dev1/states"
if mount --bind "$tmp/run/dev1/states" "$tmp/run/dev1/states" 2>"$tmp/null"; then
    refuses 2 "run/dev1/states is mounted: unmount it first" restore "$tmp/run"
    umount "$tmp/run/dev1/states"
    same "0 mine" "$(going) $(cat "$tmp/run/dev1/states")" "and the run is not on its way back"
else
    skip "a mounted file in a device's place" "only root may mount one"
fi

# Devices that may be another run's: of a copy, of another run's file in the place, of two that changed places, and of a path that leads to another run.
train="$small --mode su+o --device $tmp/a --device $tmp/b --tensorboard $tmp/board"
lose "$tmp/c" && mkdir "$tmp/c"
cp -a "$tmp/run" "$tmp/copy"
states=$(cat "$tmp"/a/* "$tmp"/b/* | sha256sum)
refuses 1 "it is a copy of $tmp/run, which is still there" restore "$tmp/copy"
refuses 1 "siTrain restore $tmp/copy with --device I=PATH for each device makes new ones" restore "$tmp/copy" --device "1=$tmp/c"
refuses 2 "a device is there, which may be another run's" restore "$tmp/copy" --device "0=$tmp/a" --device "1=$tmp/c"
mv "$tmp"/b/sitrain-* "$tmp/x"
refuses 1 "it is a copy of $tmp/run, which is still there" restore "$tmp/copy"
mv "$tmp/x" "$tmp/b/$(basename "$tmp"/a/* | sed 's/dev0$/dev1/')"
same "$states" "$(cat "$tmp"/a/* "$tmp"/b/* | sha256sum)" "the original's devices are as they were"
if [ -n "$shim" ]; then
    cp -a "$tmp/copy" "$tmp/unkilled"
    bad='' kills=0
    for at in $(seq -f pwrite:/copy/run.db-wal:%g 7 3 28) rename:/c/:1 rename:/c/:2; do
        LD_PRELOAD="$shim" SHIM_AT="$at:kill" "$bin" restore "$tmp/copy" --device "0=$tmp/c" --device "1=$tmp/c" >"$tmp/out" 2>"$tmp/err" </dev/null
        [ $? = 137 ] && kills=$((kills + 1))
        run restore "$tmp/copy" --device "0=$tmp/c" --device "1=$tmp/c"
        [ "$got" = 0 ] || grep -q "all of its states were read and are whole" "$tmp/err" || bad="$bad $at"
        "$bin" check "$tmp/copy" >"$tmp/out" || bad="$bad check-$at"
        [ "$(ask "$tmp/copy" "SELECT value FROM runs WHERE key = 'option.tensorboard'")" = none ] || bad="$bad board-$at"
        rm -r "$tmp/copy" "$tmp"/c/*
        cp -a "$tmp/unkilled" "$tmp/copy"
    done
    result "$([ -z "$bad" ] && [ $kills -gt 5 ]; echo $?)" "killed $kills times as a copy got new ones, the same command finishes$bad"
    rm -r "$tmp/unkilled"
    same "$states" "$(cat "$tmp"/a/* "$tmp"/b/* | sha256sum)" "the original's are as they were"
else
    skip "kills of a copy's restore" "no shim here"
fi
works "a copy gets new ones where its user says" restore "$tmp/copy" --device "0=$tmp/c" --device "1=$tmp/c"
works "and is whole" check "$tmp/copy"
result "$([ -n "$(ask "$tmp/copy" "SELECT value FROM runs WHERE key = 'owner'")" ]; echo $?)" "they have a word, which the original's have not"
works "as the original is" check "$tmp/run"
rm -r "$tmp/copy"
train="$small --mode su+o --device $tmp/a/one --device $tmp/b/two"
lose "$tmp/b/two"
# shellcheck disable=SC2086
works "another run takes the name that is free" pretrain --run "$tmp/other" $small --mode base --device "$tmp/b/two" --steps 1
truncate -s 8192 "$tmp/b/two" # as of a smaller model
ask "$tmp/run" "DELETE FROM runs WHERE key GLOB 'device.[0-9]*' OR key = 'place'" # of an older version, which has no identities
ln "$tmp/b/two" "$tmp/x"
refuses 2 "$tmp/b/two holds the states of another run" restore "$tmp/run"
result "$([ "$tmp/b/two" -ef "$tmp/x" ] && [ "$(going)" = 0 ]; echo $?)" "and it stays"
truncate -s 10M "$tmp/b/two" # as of a larger one
run restore "$tmp/run"
result "$([ "$got" = 2 ] && grep -q "$tmp/b/two holds the states of another run" "$tmp/err"; echo $?)" "nor is it taken if it is long enough"
works "the device gets another place" restore "$tmp/run" --device "1=$tmp/c"
goes_on "the device gets another place"
rm -r "$tmp/x" "$tmp/other"
train="$small --mode su+o --device $tmp/a --device $tmp/a"
lose "$tmp/b"
set -- "$tmp"/a/*
mv "$1" "$tmp/x" && mv "$2" "$1" && mv "$tmp/x" "$2"
ask "$tmp/run" "DELETE FROM runs WHERE key GLOB 'device.[0-9]*' OR key = 'place'"
states=$(cat "$1" "$2" | sha256sum)
for i in 1 2; do # of unlike and of equal lengths
    run restore "$tmp/run"
    result "$([ "$got" = 2 ] && grep -q "$1 holds the states of device 1 of this run, not of device 0: put the file of each device back in its place" "$tmp/err"; echo $?)" "two devices that changed places: $i"
    [ $i = 2 ] || { same "$states 0" "$(cat "$1" "$2" | sha256sum) $(going)" "and both are as they were"; truncate -s "$(stat -c %s "$2")" "$1"; }
done
truncate -s 8192 "$1" # as if device 1 were shorter
refuses 2 "$1 holds the states of device 1 of this run, not of device 0: put the file of each device back in its place" restore "$tmp/run"
same "2 0" "$(ls "$tmp/a" | wc -l) $(going)" "and both stay"
lose "$tmp/a"
mkdir -p "$tmp/there/best"
: >"$tmp/there/run.db"
ln -s "$tmp/there/best" "$tmp/a"
refuses 2 "best is the name of a part of a run" restore "$tmp/run"
rm "$tmp/a"
train="$small --mode su+o"
lose "$tmp/a"
cp -a "$tmp/run" "$tmp/copy" # with its device
run pretrain --resume "$tmp/copy" --steps 9 --quiet
states=$(sha256sum <"$tmp/copy/dev0/states")
for link in dev0 dev0/states; do
    rm -r "$tmp/run/$link"
    ln -s "$tmp/copy/$link" "$tmp/run/$link"
    run restore "$tmp/run"
    result "$([ "$got" = 2 ] && grep -q "$tmp/run/dev0/states leads to $tmp/copy/dev0/states, a part of another run" "$tmp/err"; echo $?)" "a link to another run's device: $link"
    same "$states 0" "$(sha256sum <"$tmp/copy/dev0/states") $(going)" "  which is as it was"
    rm "$tmp/run/$link"
    works "  it is made again without the link" restore "$tmp/run"
done
rm -r "$tmp/copy"

# A device that a copy has taken, by --device or by its own restore; a snapshot's file in its place.
train="$small --mode su+o --device $tmp/a"
taken() { # HOW: the run cannot go on there, and goes on in another place; what took its device is as it was
    states=$(cat "$tmp"/a/sitrain-*-dev0 | sha256sum)
    for command in "pretrain --resume $tmp/run --quiet" "restore $tmp/run" "reshard $tmp/run --devices 2"; do
        run $command
        result "$([ "$got" = 1 ] && tail -n 1 "$tmp/err" | grep -q "was taken by a copy of this run, or is the file of a snapshot or of an older backup; siTrain restore $tmp/run --device 0=PATH makes device 0 in another place"; echo $?)" "$1: ${command%% *}"
    done
    works "$1: the sentence's way" restore "$tmp/run" --device "0=$tmp/c"
    goes_on "$1: in another place"
    same "$states" "$(cat "$tmp"/a/sitrain-*-dev0 | sha256sum)" "$1: what is in the old place stays"
}
rm -rf "$tmp/whole"
# shellcheck disable=SC2086
run pretrain --run "$tmp/whole" $small --mode su+o --steps 9
whole="$(exported "$tmp/whole") $(steps_of "$tmp/whole")"
for by in --device restore; do
    lose "$tmp/b"
    cp -a "$tmp/run" "$tmp/copy"
    if [ $by = restore ]; then
        rm "$tmp"/a/sitrain-*
        works "a copy makes a lost device anew" restore "$tmp/copy" --device "0=$tmp/a"
    else
        works "a copy takes a device" pretrain --resume "$tmp/copy" --device "$tmp/a" --steps 8
    fi
    taken "taken by $by"
    works "  and the copy is whole" check "$tmp/copy"
    rm -r "$tmp/copy"
done
train="$train --device $tmp/a --snapshot-on devices"
lose "$tmp/b"
cp "$tmp"/a/run-*/step-00000004.*.dev0 "$(ls "$tmp"/a/sitrain-*-dev0)"
taken "a snapshot's file"
train="$small --mode su+o"
lose "$tmp/b"
states=$tmp/run/dev0/states
cp "$(ls "$tmp"/run/snapshots/run-*/step-00000004/dev0/states)" "$states"
for command in "pretrain --resume $tmp/run --quiet" "pretrain --resume $tmp/run --from 4 --quiet" "restore $tmp/run" "check $tmp/run"; do
    run $command
    result "$([ "$got" = 1 ] && grep -q "$states was taken by a copy of this run, or is the file of a snapshot or of an older backup; move it aside, and siTrain restore $tmp/run makes it again, from a snapshot" "$tmp/err"; echo $?)" "a snapshot's file in RUN: ${command%% *}"
done
mv "$states" "$tmp/b"
works "  the sentence's way" restore "$tmp/run"
goes_on "  in its old place"

# A device that its user has moved is not gone: the sentence says how the run takes it.
train="$small --mode su+o --device $tmp/a"
lose "$tmp/b"
mkdir "$tmp/b"
mv "$tmp"/a/sitrain-* "$tmp/b/"
refuses 2 "no device of $tmp/run is gone: the states were read where --device says; go on with: siTrain pretrain --resume $tmp/run --device $tmp/b" restore "$tmp/run" --device "0=$tmp/b"
works "  and that works" pretrain --resume "$tmp/run" --device "$tmp/b" --quiet
refuses 2 "no device of $tmp/run is gone, and all of its states were read and are whole" restore "$tmp/run" --device "0=$tmp/b"

# without a snapshot there is nothing to restore from
train="$small --mode su+o"
rm -rf "$tmp/run"
run pretrain --run "$tmp/run" $train --steps 2
rm -r "$tmp/run/dev0"
refuses 1 "has no complete snapshot" restore "$tmp/run"
result "$([ ! -e "$tmp/run/dev0" ]; echo $?)" "and nothing is made"
# RUN/best that its user changed: its parameters are those of the snapshot, and a file next to them is not
# shellcheck disable=SC2086
run pretrain --run "$tmp/kept" $small --eval-data "$tmp/text.bin" --eval-every 2 --keep-best --steps 4 --snapshot-every 4 --mode su+o
cp -a "$tmp/kept" "$tmp/nest"
rm "$tmp/kept/dev0/states" "$tmp/kept/best/config.json"
works "a lost file of a run whose best model lacks config.json" restore "$tmp/kept"
works "  is whole with its best model" check "$tmp/kept"
rm "$tmp/nest/dev0/states" "$tmp/nest/best/config.json"
mkdir "$tmp/nest/best/config.json"
refuses 2 "$tmp/nest/best/config.json, in the folder of the best model, which training replaces, is a folder" restore "$tmp/nest" --device "0=$tmp/nest/dev0"
rmdir "$tmp/nest/best/config.json"
works "  without the folder it is restored" restore "$tmp/nest" --device "0=$tmp/nest/dev0"
works "  and is whole with its best model" check "$tmp/nest"

done_testing
