#!/bin/sh
# Copied and moved runs: a copy never reaches the devices that its original has outside its folder, whatever is done with it, and who moved a
# run goes on with it. And names within another run, where a device or a run is to be made. Prints TAP.
. tests/tap.sh
find_shim
make_text 60 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$tmp/tok"
shape="--n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"
train() { # RUN OPTIONS...
    at=$1
    shift
    works "a run ($*)" pretrain --run "$at" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape "$@"
}
picture() { find "$@" ! -name 'run.*' -printf '%p %y %m %l\n' -type f -printf '%n %T@ %p\n' -exec sha256sum {} + 2>/dev/null | sort; }

refused() { # WHAT TEXT: with 1, in one sentence
    [ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q -- "$2" "$tmp/err"
    result $? "$1"
}

# each DEVICES WHAT: a copy of the run $tmp/a may be read, and does nothing to these devices
each() {
    cp -a "$tmp/a" "$tmp/copy"
    picture "$1" "$tmp/a" >"$tmp/before"
    for command in "pretrain --resume copy --steps 4" "reshard copy --devices 2" "check copy --repair"; do
        run $(echo "$command" | sed "s|copy|$tmp/copy|")
        refused "$2: $command" "was copied or moved since it was last used"
    done
    rm -rf "$tmp/hf"
    works "$2: its copy is exported" export "$tmp/copy" "$tmp/hf"
    works "$2: and evaluated" eval "$tmp/copy" --data "$tmp/text.txt"
    works "$2: and checked" check "$tmp/copy"
    picture "$1" "$tmp/a" >"$tmp/after"
    cmp -s "$tmp/before" "$tmp/after"
    result $? "$2: the original and its devices are as they were"
}

mkdir "$tmp/drive" "$tmp/drive2"
train "$tmp/a" --steps 2 --device "$tmp/drive"
each "$tmp/drive" "a folder given with --device"
cp -a "$tmp/drive/." "$tmp/drive2"
works "a copy with copied devices goes on" pretrain --resume "$tmp/copy" --device "$tmp/drive2" --steps 3 --quiet
works "and without naming them again" pretrain --resume "$tmp/copy" --steps 4 --quiet
works "and the original, too" pretrain --resume "$tmp/a" --steps 4 --quiet
result "$([ "$(exported "$tmp/a")" = "$(exported "$tmp/copy")" ]; echo $?)" "to the same bits"
mv "$tmp/a" "$tmp/b"
works "a run that was renamed goes on" pretrain --resume "$tmp/b" --steps 5 --quiet
cp -a "$tmp/b" "$tmp/c" && rm -rf "$tmp/b" # as mv does it from one file system to another
run pretrain --resume "$tmp/c" --steps 6 --quiet
refused "a run that was moved elsewhere asks" "go on with: siTrain pretrain --resume .* --device .*; if"
works "its devices named as they are, it goes on" pretrain --resume "$tmp/c" --device "$tmp/drive" --steps 6 --quiet
works "and moves to others" reshard "$tmp/c" --devices 1 --quiet
result "$([ -z "$(ls "$tmp/drive")" ]; echo $?)" "which removes those it had"
cp -a "$tmp/c" "$tmp/d"
works "a copy with all its devices in it needs no word" pretrain --resume "$tmp/d" --steps 7 --quiet
rm -rf "$tmp/a" "$tmp/copy" "$tmp/c" "$tmp/d" "$tmp/drive2"

# a copy that is told the original's own drive: by a name that no lock shows, or after the original went on
train "$tmp/a" --steps 2 --device "$tmp/drive"
cp -a "$tmp/a" "$tmp/copy"
"$bin" pretrain --resume "$tmp/a" --steps 300000 --quiet >"$tmp/out.a" 2>&1 </dev/null &
pid=$!
until [ "$(sqlite3 "$tmp/a/run.db" 'SELECT count(*) FROM steps' 2>/dev/null || echo 0)" -gt 3 ] || ! kill -0 $pid 2>/dev/null; do
    sleep 0.05
done
run pretrain --resume "$tmp/copy" --steps 5 --device "$tmp/drive" --quiet
refused "while the original trains" "$tmp/copy is a copy of $tmp/a, which is in use by process $pid on "
kill -INT $pid
wait $pid
result "$([ $? = 130 ]; echo $?)" "the original is stopped"
run pretrain --resume "$tmp/copy" --steps 5 --device "$tmp/drive" --quiet
refused "and later" "the devices hold other states than run.db of $tmp/copy names"
if [ -n "$shim" ]; then
    held pwrite:/a/run.lock:1 pretrain --resume "$tmp/a" --steps 300000 --quiet
    "$bin" pretrain --resume "$tmp/copy" --steps 5 --device "$tmp/drive" --quiet >"$tmp/out" 2>"$tmp/err.copy" </dev/null
    got=$?
    kill -INT $pid
    rm -f "$tmp/held"
    wait $pid
    mv "$tmp/err.copy" "$tmp/err"
    refused "while a process that has not said its name has the original" "which is in use by another process. A drive may"
else
    skip "a process that has not said its name" "no library that holds it"
fi
works "the original is whole" check "$tmp/a"
rm -rf "$tmp/a" "$tmp/copy"

# while the drive is away
train "$tmp/a" --steps 2 --device "$tmp/drive"
cp -a "$tmp/a" "$tmp/copy"
mv "$tmp/drive" "$tmp/away"
for command in "pretrain --resume copy --steps 4" "check copy --repair" "finetune --resume copy" "export copy none" "reshard copy --devices 2"; do
    run $(echo "$command" | sed "s|copy|$tmp/copy|; s|none|$tmp/none|")
    result "$([ "$got" = 1 ] || [ "$got" = 2 ]; echo $?)" "the drive is away: $command"
done
mv "$tmp/away" "$tmp/drive"
rm -rf "$tmp/copy.hf"
run pretrain --resume "$tmp/copy" --steps 4 --quiet
refused "and when it is there again, the copy is one still" "was copied or moved since it was last used"
works "and the run is the run" pretrain --resume "$tmp/a" --steps 3 --quiet
rm -rf "$tmp/a" "$tmp/copy"

# devices with a path of their own in RUN
train "$tmp/a" --steps 2
mkdir "$tmp/a/drive"
run reshard "$tmp/a" --device "$tmp/a/drive" --quiet
mv "$tmp/a" "$tmp/old" && cp -a "$tmp/old" "$tmp/a"
picture "$tmp/a" >"$tmp/before"
run pretrain --resume "$tmp/old" --steps 4 --quiet
refused "a renamed run does not use what its copy has under its old name" "was copied or moved since it was last used"
picture "$tmp/a" >"$tmp/after"
cmp -s "$tmp/before" "$tmp/after"
result $? "and that is as it was"
works "the copy in the old place goes on" pretrain --resume "$tmp/a" --steps 4 --quiet
works "and the run, with its own" pretrain --resume "$tmp/old" --device "$tmp/old/drive" --steps 4 --quiet
result "$([ "$(exported "$tmp/a")" = "$(exported "$tmp/old")" ]; echo $?)" "to the same bits"
rm -rf "$tmp/a" "$tmp/old"

# a snapshot of the file system has the same inodes
truncate -s 16M "$tmp/image1"
mkdir "$tmp/m1" "$tmp/m2"
if [ "$(id -u)" = 0 ] && command -v mkfs.ext4 >"$tmp/null" && mkfs.ext4 -q "$tmp/image1" && mount -o loop "$tmp/image1" "$tmp/m1" 2>"$tmp/null"; then
    train "$tmp/m1/a" --steps 2 --device "$tmp/drive"
    umount "$tmp/m1"
    cp "$tmp/image1" "$tmp/image2"
    mount -o loop "$tmp/image1" "$tmp/m1"
    mount -o loop "$tmp/image2" "$tmp/m2"
    run pretrain --resume "$tmp/m2/a" --steps 4 --quiet
    refused "a snapshot is a copy" "was copied or moved since it was last used"
    works "and the run goes on" pretrain --resume "$tmp/m1/a" --steps 3 --quiet
    mkdir "$tmp/m3"
    mount --bind "$tmp/m1" "$tmp/m3"
    works "by another path to the same folder, too" pretrain --resume "$tmp/m3/a" --steps 4 --quiet
    mv "$tmp/m1/a" "$tmp/m1/b"
    works "and under another name" pretrain --resume "$tmp/m1/b" --steps 5 --quiet
    run reshard "$tmp/m2/a" --devices 1
    refused "the snapshot is a copy still" "was copied or moved since it was last used"
    umount "$tmp/m1" "$tmp/m3"
    run pretrain --resume "$tmp/m2/a" --steps 4 --quiet
    refused "and where the original is not mounted" "was copied or moved since it was last used"
    umount "$tmp/m2"
    mkdir "$tmp/m2/disk1" && mount -o loop "$tmp/image1" "$tmp/m2/disk1"
    mv "$tmp/m2/disk1/b" "$tmp/m2/disk1/a"
    works "the run, mounted elsewhere and named" pretrain --resume "$tmp/m2/disk1/a" --device "$tmp/drive" --steps 6 --quiet
    umount "$tmp/m2/disk1"
    cp "$tmp/image1" "$tmp/image2"
    mount -o loop "$tmp/image2" "$tmp/m2"
    for command in "pretrain --resume $tmp/m2/a --steps 7" "reshard $tmp/m2/a --devices 1"; do
        run $command
        refused "a clone mounted above the original's place: ${command%% *}" "was copied or moved since it was last used"
    done
    umount "$tmp/m2"
    mount -o loop "$tmp/image1" "$tmp/m1"
    mkdir "$tmp/kept"
    train "$tmp/m1/in" --steps 2 --snapshot-every 1
    train "$tmp/m1/out" --steps 2 --snapshot-every 1 --snapshot-dir "$tmp/kept"
    sync -f "$tmp/m1"
    cp "$tmp/image1" "$tmp/image2"
    mount -o loop "$tmp/image2" "$tmp/m2"
    picture "$tmp/m1/in" "$tmp/kept" >"$tmp/before"
    for run in in out; do
        works "a clone whose devices are in it, mounted elsewhere: $run" pretrain --resume "$tmp/m2/$run" --steps 6 --snapshots 1 --quiet
    done
    picture "$tmp/m1/in" "$tmp/kept" | grep -v step-0000000[3-6] >"$tmp/after"
    cmp -s "$tmp/before" "$tmp/after"
    result $? "has removed no snapshot of its original"
    works "the original goes on" pretrain --resume "$tmp/m1/out" --steps 3 --quiet
    umount -l "$tmp/m1" "$tmp/m2"
else
    skip "a snapshot" "nothing may be mounted here"
fi
rm -rf "$tmp/drive"/* "$tmp/kept"

# a renamed run whose paths lead to its copy's files now
renamed() { # WHAT FROM TO RUN-BELOW: after mv FROM TO and cp -a TO FROM, TO's run leaves alone what is below FROM
    mv "$2" "$3" && cp -a "$3" "$2"
    picture "$2" >"$tmp/before"
    run pretrain --resume "$3$4" --steps 4 --quiet
    refused "$1: a renamed run" "was copied or moved since it was last used"
    run reshard "$3$4" --devices 1
    refused "$1: and its reshard" "was copied or moved since it was last used"
    picture "$2" >"$tmp/after"
    cmp -s "$tmp/before" "$tmp/after"
    result $? "$1: its copy is as it was"
    works "$1: the copy is exported" export "$2$4" "$tmp/hf.$count"
    count=$((count + 1))
    rm -rf "$2" "$3"
}
count=0
mkdir -p "$tmp/p/drive"
train "$tmp/p/a" --steps 2 --device "$tmp/p/drive"
renamed "the parent, with the drive" "$tmp/p" "$tmp/q" /a
train "$tmp/real" --steps 2
mkdir "$tmp/real/drive" && ln -s real "$tmp/lnk"
run reshard "$tmp/lnk" --device "$tmp/lnk/drive"
renamed "by a link" "$tmp/real" "$tmp/old" ""
train "$tmp/a" --steps 2
mkdir "$tmp/a/real" && mv "$tmp/a/dev0" "$tmp/a/real/dev0" && ln -s "$tmp/a/real/dev0" "$tmp/a/dev0"
works "a link within the run" pretrain --resume "$tmp/a" --steps 3 --quiet
renamed "an absolute link" "$tmp/a" "$tmp/old" ""
train "$tmp/a" --steps 2 --device "$tmp/drive"
mv "$tmp/a" "$tmp/b"
works "renamed alone it needs no word" pretrain --resume "$tmp/b" --steps 4 --quiet
rm -rf "$tmp/b" "$tmp/drive"/*

# snapshots of a copy that stands where the run was: in it, and next to it
mkdir -p "$tmp/p/snap" "$tmp/p/drive"
for to in "" "--snapshot-dir $tmp/p/snap"; do
    # shellcheck disable=SC2086
    train "$tmp/p/a" --steps 2 --snapshot-every 1 --snapshots 2 $to
    mv "$tmp/p" "$tmp/q" && cp -a "$tmp/q" "$tmp/p"
    picture "$tmp/p" >"$tmp/before"
    works "a renamed run goes on beside its copy ($to)" pretrain --resume "$tmp/q/a" --steps 4 --quiet ${to:+--snapshot-dir "$tmp/p/snap"}
    picture "$tmp/p" >"$tmp/after"
    result "$([ -z "$(grep -vxFf "$tmp/after" "$tmp/before")" ]; echo $?)" "and leaves the copy's snapshots ($to)"
    works "which are whole" snapshots "$tmp/p/a" --check
    works "and go with it" pretrain --resume "$tmp/p/a" --steps 4 --quiet
    rm -rf "$tmp/q" "$tmp/p/a" "$tmp/p/snap"/*
done
rm -rf "$tmp/p"
run import "$tmp/hf" "$tmp/im" --device "$tmp/drive" --csd-mem 128K
mkdir "$tmp/drive3" && mv "$tmp/drive"/* "$tmp/drive3"
refuses 2 "has its devices where --device says, but no data yet" pretrain --resume "$tmp/im" --device "$tmp/drive3"
works "an imported run, moved, is exported" export "$tmp/im" "$tmp/hf.im"
rm -rf "$tmp/im" "$tmp/drive3"

# a device's folder that is a link
train "$tmp/a" --steps 2
mv "$tmp/a/dev0" "$tmp/drive/dev0" && ln -s "$tmp/drive/dev0" "$tmp/a/dev0"
works "a device's folder behind a link" pretrain --resume "$tmp/a" --steps 3 --quiet
each "$tmp/drive" "a link in the folder"
rm -rf "$tmp/copy"

# what a reshard has left for later
run reshard "$tmp/a" --device "$tmp/drive" --quiet
rm "$tmp/a/dev0"
dev=$(echo "$tmp/drive"/sitrain-*-dev0)
exec 9<"$dev" && flock -s 9 # as one that reads the run
works "a reshard leaves what another process uses" reshard "$tmp/a" --devices 1
result "$([ -f "$dev" ]; echo $?)" "for later"
exec 9<&-
cp -a "$tmp/a" "$tmp/copy"
works "a copy goes on" pretrain --resume "$tmp/copy" --steps 4 --quiet
grep -q "the run was copied or moved" "$tmp/err" && [ -f "$dev" ]
result $? "and leaves it to the original"
run pretrain --resume "$tmp/a" --steps 4 --quiet
result "$([ ! -e "$dev" ]; echo $?)" "which removes it"

rm -rf "$tmp/a" "$tmp/copy" "$tmp/drive"/*

# whose a device is that two runs of one id know: who named it last
train "$tmp/a" --steps 2 --device "$tmp/drive"
cp -a "$tmp/a" "$tmp/copy"
dev=$(echo "$tmp/drive"/sitrain-*-dev0)
exec 9<"$dev" && flock -s 9
works "a reshard leaves a device for later" reshard "$tmp/a" --devices 1 --quiet
exec 9<&-
works "its copy gets the device by name" pretrain --resume "$tmp/copy" --device "$tmp/drive" --steps 5 --quiet
run pretrain --resume "$tmp/a" --steps 3 --quiet
grep -q "a copy of the run has taken it" "$tmp/err"
result $? "and the original does not remove it"
works "the copy is whole" check "$tmp/copy"
works "and goes on" pretrain --resume "$tmp/copy" --steps 6 --quiet
rm -rf "$tmp/a" "$tmp/copy" "$tmp/drive"/*
mkdir -p "$tmp/drive2"
for trained in yes no; do # drives that changed places
    train "$tmp/a" --steps 2 --device "$tmp/drive"
    cp -a "$tmp/a" "$tmp/copy"
    cp -a "$tmp/drive/." "$tmp/drive2"
    [ $trained = no ] || works "a copy on a drive of its own" pretrain --resume "$tmp/copy" --device "$tmp/drive2" --steps 3 --quiet
    mv "$tmp/drive" "$tmp/drive3" && mv "$tmp/drive2" "$tmp/drive" && mv "$tmp/drive3" "$tmp/drive2"
    picture "$tmp/drive" "$tmp/drive2" >"$tmp/before"
    for command in "pretrain --resume $tmp/a --steps 6" "reshard $tmp/a --devices 1"; do
        run $command
        refused "drives changed places (the copy was trained: $trained): ${command%% *}" "was copied or moved since it was last used"
    done
    if [ $trained = yes ]; then
        run pretrain --resume "$tmp/a" --steps 6 --device "$tmp/drive"
        refused "and by name" "was taken by a copy of this run"
        run check "$tmp/a" --repair
        result "$([ "$got" = 1 ]; echo $?)" "and no repair takes it"
    fi
    picture "$tmp/drive" "$tmp/drive2" >"$tmp/after"
    cmp -s "$tmp/before" "$tmp/after"
    result $? "and both drives are as they were"
    mv "$tmp/drive" "$tmp/drive3" && mv "$tmp/drive2" "$tmp/drive" && mv "$tmp/drive3" "$tmp/drive2"
    works "back in its place the run goes on" pretrain --resume "$tmp/a" --steps 6 --quiet
    works "and is whole" check "$tmp/a"
    [ $trained = no ] || works "and the copy" pretrain --resume "$tmp/copy" --steps 6 --quiet
    rm -rf "$tmp/a" "$tmp/copy" "$tmp/drive"/* "$tmp/drive2"/*
done
# the word by which they are known
train "$tmp/a" --steps 2 --device "$tmp/drive"
cp -a "$tmp/a" "$tmp/copy"
cp -a "$tmp/drive/." "$tmp/drive2"
works "a copy gets its word" pretrain --resume "$tmp/copy" --device "$tmp/drive2" --steps 3 --quiet
word=$(sqlite3 "$tmp/copy/run.db" "SELECT value FROM runs WHERE key = 'owner'" 2>"$tmp/null")
result "$([ ${#word} = 16 ] && head -c 300 "$tmp/drive2"/sitrain-*-dev0 | tr '\0' '\n' | grep -qx "owner $word"; echo $?)" "which its device has, too"
rm -rf "$tmp/a" "$tmp/copy" "$tmp/drive"/* "$tmp/drive2"
# what is mounted in a copy
train "$tmp/a" --steps 2
mkdir -p "$tmp/copy/dev0" && cp -a "$tmp/a/run.db" "$tmp/a/tokenizer" "$tmp/copy/"
[ ! -e "$tmp/a/data.bin" ] || cp -a "$tmp/a/data.bin" "$tmp/copy/"
if [ "$(id -u)" = 0 ] && mount --bind "$tmp/a/dev0" "$tmp/copy/dev0" 2>"$tmp/null"; then
    picture "$tmp/a" >"$tmp/before"
    for command in "pretrain --resume $tmp/copy --steps 6" "reshard $tmp/copy --devices 2"; do
        run $command
        refused "the original's device is mounted in a copy: ${command%% *}" "was copied or moved since it was last used"
    done
    picture "$tmp/a" >"$tmp/after"
    cmp -s "$tmp/before" "$tmp/after"
    result $? "and is as it was"
    umount "$tmp/copy/dev0"
else
    skip "a device mounted in a copy" "nothing may be mounted here"
fi
rm -rf "$tmp/copy"

# where TensorBoard's files of a copy go
train "$tmp/tb" --steps 2 --tensorboard "$tmp/board"
cp -a "$tmp/tb" "$tmp/tb2"
picture "$tmp/board" >"$tmp/before"
run pretrain --resume "$tmp/tb2" --steps 3 --quiet
refused "a copy does not write for TensorBoard where its original does" "name the folder with --tensorboard DIR"
picture "$tmp/board" >"$tmp/after"
cmp -s "$tmp/before" "$tmp/after"
result $? "and nothing is there of it"
works "named, it goes on" pretrain --resume "$tmp/tb2" --steps 3 --quiet --tensorboard auto
works "and without" pretrain --resume "$tmp/tb2" --steps 4 --quiet
cp -a "$tmp/tb" "$tmp/tb5"
refuses 2 "$tmp/none" reshard "$tmp/tb5" --device "$tmp/none/x"
same "$tmp/board" "$(sqlite3 "$tmp/tb5/run.db" "SELECT value FROM runs WHERE key = 'option.tensorboard'")" "  and it is still the original's folder that is known"
works "a copy is divided anew" reshard "$tmp/tb5" --devices 2
result "$(grep -q "writes none until --resume names a folder with --tensorboard DIR" "$tmp/err"; echo $?)" "with a notice"
works "and goes on" pretrain --resume "$tmp/tb5" --steps 3 --quiet
picture "$tmp/board" >"$tmp/after"
cmp -s "$tmp/before" "$tmp/after"
result $? "and writes nothing where the original does"
works "the original writes where it did" pretrain --resume "$tmp/tb" --steps 3 --quiet
mv "$tmp/tb" "$tmp/tb3"
works "renamed, too" pretrain --resume "$tmp/tb3" --steps 4 --quiet
works "and with a folder in it" pretrain --resume "$tmp/tb3" --steps 5 --quiet --tensorboard "$tmp/tb3/own"
mv "$tmp/tb3" "$tmp/tb4"
run pretrain --resume "$tmp/tb4" --steps 6 --quiet
refused "which, renamed again, would be made under the old name" "name the folder with --tensorboard DIR"
result "$([ ! -e "$tmp/tb3" ]; echo $?)" "and is not"
rm -rf "$tmp/tb"* "$tmp/board"

# ---- names within another run

run_there() { # OPTION NAME COMMAND...: refused, and nothing is made
    what=$1 name=$2
    shift 2
    picture "$tmp/a" >"$tmp/before"
    refuses 2 "is the name of a part of a run" "$@"
    picture "$tmp/a" >"$tmp/after"
    cmp -s "$tmp/before" "$tmp/after" && [ ! -e "$tmp/new" ]
    result $? "and nothing is made ($what $name)"
}
new="pretrain --run $tmp/new --data $tmp/text.txt --tokenizer $tmp/tok $shape --steps 2"
for name in run.db-wal run.db-journal eval_results.json dev3 image1 best tokenizer dev0; do
    run_there --device "$name" $new --device "$tmp/a/$name"
    run_there --run "$name" pretrain --run "$tmp/a/$name" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape --steps 2
done
mkdir "$tmp/a/best" "$tmp/a/checkpoint-4"
train "$tmp/m" --steps 1
for part in tokenizer best dev0 checkpoint-4; do # a link that leads there
    ln -sfn "$tmp/a/$part" "$tmp/link"
    run_there --device "link to $part" $new --device "$tmp/link"
    run_there --act-device "link to $part" $new --activations offload --act-device "$tmp/link"
    run_there --tensorboard "link to $part" $new --tensorboard "$tmp/link"
    run_there reshard "link to $part" reshard "$tmp/m" --device "$tmp/link"
    for dir in "$tmp/link" "$tmp/a/$part"; do
        run_there --snapshot-dir "$dir" $new --snapshot-every 1 --snapshot-dir "$dir"
        run_there "a resume's --snapshot-dir" "$dir" pretrain --resume "$tmp/m" --steps 2 --snapshot-every 1 --snapshot-dir "$dir"
    done
done
mkdir "$tmp/a/snapshots"
works "another run's folder of snapshots holds these, too" pretrain --resume "$tmp/m" --steps 2 --snapshot-every 1 --snapshot-dir "$tmp/a/snapshots" --quiet
mkdir "$tmp/sn"
works "a run with snapshots elsewhere" pretrain --resume "$tmp/m" --steps 4 --snapshot-every 1 --snapshots 1 --snapshot-dir "$tmp/sn" --quiet
mkdir "$(echo "$tmp"/sn/m-*)/step-00000009"
for dir in "$tmp"/sn/m-*/step-*; do # which goes when it is rotated, or is made later
    run_there --device "$dir" $new --device "$dir"
    run_there --snapshot-dir "$dir" $new --snapshot-every 1 --snapshot-dir "$dir"
    run_there --run "$dir" pretrain --run "$dir/new" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape --steps 2
done
rm -r "$tmp/sn"
mkdir "$tmp/D" "$tmp/sn" "$tmp/c"
works "a run with places elsewhere" pretrain --run "$tmp/far" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape --steps 2 --snapshot-every 1 --snapshot-dir "$tmp/sn" --device "$tmp/D" --activations offload --act-device "$tmp/c"
picture "$tmp/a" >"$tmp/before"
for place in D sn c; do # one that run.db has, and that has become a link
    mv "$tmp/$place" "$tmp/was"
    ln -s "$tmp/a/best" "$tmp/$place"
    case $place in
    D) refuses 2 "best is the name of a part of a run" restore "$tmp/far" ;;
    sn)
        run pretrain --resume "$tmp/far" --steps 3
        result "$([ "$got" = 0 ] && grep -q "no snapshot after step 3: .*best is the name of a part of a run" "$tmp/err"; echo $?)" "no snapshot is taken there"
        ;;
    c) refuses 2 "best is the name of a part of a run" pretrain --resume "$tmp/far" --steps 4 ;;
    esac
    rm "$tmp/$place"
    mv "$tmp/was" "$tmp/$place"
done
picture "$tmp/a" >"$tmp/after"
cmp -s "$tmp/before" "$tmp/after"
result $? "and nothing is made in the run where the links led"
rm -r "$tmp/far" "$tmp/D" "$tmp/sn" "$tmp/c"
rm -r "$tmp/m" "$tmp/link" "$tmp/a/best" "$tmp/a/checkpoint-4" "$tmp/a/snapshots"
run_there --act-device run.db-wal $new --activations offload --act-device "$tmp/a/run.db-wal"
run_there import best import "$tmp/hf" "$tmp/a/dev7"
run_there reshard dev1 reshard "$tmp/a" --device "$tmp/a/dev1"
run_there --act-device image0 pretrain --resume "$tmp/a" --activations offload --act-device "$tmp/a/image0"
refuses 2 "a folder, a file or a block device is expected" $new --device "$tmp/new/run.db-wal"

# The refusal says what was compared and what differs, and the command that it names goes on.
named_by() { # WHAT TEXT: what the last command said; then the command that it names goes on
    refused "$1" "$2"
    line=$(sed -n 's/.* go on with: siTrain \([^;]*\);.*/\1/p' "$tmp/err")
    [ -n "$line" ] && eval "run $line --quiet" && [ "$got" = 0 ]
    result $? "and goes on with the command that is named"
    run pretrain --resume "$3" --steps "$4" --quiet
    result "$got" "and without it from then on"
}
rm -rf "$tmp/drive" "$tmp/m r"
mkdir -p "$tmp/drive/folder" "$tmp/m r"
train "$tmp/m r/a" --steps 2 --device "$tmp/drive/file" --device "$tmp/drive/folder"
cp -a "$tmp/m r/a" "$tmp/b"
run pretrain --resume "$tmp/b" --steps 3 --quiet
refused "a copy" "it is a copy of $tmp/m r/a, which is still there and has $tmp/drive/file; copy its devices, too, and name the copies"
rm -rf "$tmp/b"
mkdir "$tmp/elsewhere"
mv "$tmp/m r/a" "$tmp/elsewhere/a"
rmdir "$tmp/m r"
run pretrain --resume "$tmp/elsewhere/a" --steps 3 --quiet
named_by "a run that was moved, whose folder's folder is gone" "run.db names the folder $tmp/m r/a, and the folder around that is not there" "$tmp/elsewhere/a" 3
cp -a "$tmp/elsewhere" "$tmp/m r"
rm -rf "$tmp/elsewhere"
run pretrain --resume "$tmp/m r/a" --steps 4 --quiet
named_by "a run that was moved by copying" "run.db names the folder $tmp/elsewhere/a, which has another inode or time of birth" "$tmp/m r/a" 4
cp "$tmp/drive/file" "$tmp/drive/file2" && mv "$tmp/drive/file2" "$tmp/drive/file"
run pretrain --resume "$tmp/m r/a" --steps 5 --quiet
named_by "a device that was put back" "$tmp/drive/file was copied or moved since it was last used: as device 0 of $tmp/m r/a run.db names a file with another inode" "$tmp/m r/a" 5
mkdir "$tmp/b" "$tmp/clone"
if [ "$(id -u)" = 0 ] && mount --bind "$tmp/m r/a" "$tmp/b" 2>"$tmp/null"; then
    works "a run that is mounted elsewhere (--bind) is the run" pretrain --resume "$tmp/b" --steps 6 --quiet
    umount "$tmp/b"
    works "and so it is in its place" pretrain --resume "$tmp/m r/a" --steps 7 --quiet
    cp -a "$tmp/drive/." "$tmp/clone"
    mount --bind "$tmp/clone" "$tmp/drive"
    run pretrain --resume "$tmp/m r/a" --steps 8 --quiet
    refused "a copy of the drive is mounted over it" "$tmp/drive/file was copied or moved since it was last used: as device 0 of"
    umount "$tmp/drive"
    works "the drive is there again" pretrain --resume "$tmp/m r/a" --steps 8 --quiet
else
    skip "bind mounts" "nothing may be mounted here"
fi
# ---- a copy that has lost a device of its own folder

train "$tmp/K" --devices 2 --steps 2 --snapshot-every 1
cp -a "$tmp/K" "$tmp/lacks"
rm "$tmp/lacks/dev1/states"
run pretrain --resume "$tmp/lacks" --steps 3
result "$([ "$got" != 0 ] && ! grep -q "it is a copy of" "$tmp/err" && grep -q "siTrain restore $tmp/lacks" "$tmp/err"; echo $?)" "a copy without one of its devices names restore"
works "which makes it again" restore "$tmp/lacks"
works "and the copy goes on" pretrain --resume "$tmp/lacks" --steps 3

# ---- RUN is moved, and a link left in its place, while a copy is opened for its first training

if [ -n "$shim" ]; then
    cp -a "$tmp/K" "$tmp/linked"
    held pwrite:/linked/run.db-wal:1 pretrain --resume "$tmp/linked" --steps 4 --quiet --snapshot-every 1
    mv "$tmp/linked" "$tmp/where"
    ln -s where "$tmp/linked"
    rm "$tmp/held"
    wait $pid
    result $? "a run that is moved, with a link in its place, goes on"
    rm "$tmp/linked"
    mv "$tmp/where" "$tmp/linked"
    works "and when it is back" pretrain --resume "$tmp/linked" --steps 5 --quiet
    same "$(stat -c %i "$tmp/linked")" "$(sqlite3 "$(find "$tmp/linked/snapshots" -path '*/step-00000004/run.db')" "SELECT value FROM runs WHERE key = 'snapshot.of'" | cut -d' ' -f1)" "its snapshots are its own"
else
    skip "a run that is moved while it is opened" "no shim"
fi

# ---- a device in RUN itself that --device names: with the folder's old name its path is gone
train "$tmp/within" --mode su+o --steps 2
run reshard "$tmp/within" --device "$tmp/within"
cp -a "$tmp/within" "$tmp/within2"
mv "$tmp/within" "$tmp/within9"
refuses 1 "run.db has device 0 in $tmp/within, which is not there: mount its drive or, if it was moved, too, go on with: siTrain pretrain --resume $tmp/within2 with --device PATH for its device" \
    pretrain --resume "$tmp/within2" --steps 3 --quiet
works "as it says, it goes on" pretrain --resume "$tmp/within2" --device "$tmp/within2" --steps 3 --quiet
train "$tmp/inner" --mode su+o --steps 2 --snapshot-every 2
run pretrain --resume "$tmp/inner" --device "$tmp/inner/dev0/states" --steps 3 --quiet
rm "$tmp/inner/dev0/states"
works "a device in RUN that was named by its own path is made again" restore "$tmp/inner"

done_testing
