#!/bin/sh
# parity.sh: --snapshot-on devices: any drive of a run may be lost with all that is on it, of --parity 2 any two. siTrain restore makes the
# devices and their parts of snapshots again, and --resume gives the bits of a run that has lost nothing. Prints TAP.
. tests/tap.sh
find_shim
smallest
train="$data $shape --lr 1e-2 --mode su+o --compress 20% --error-feedback"
# devices N: $devices, folders for the run's devices in $tmp/d0, $tmp/d1, ...
devices() {
    devices=
    for d in $(seq 0 $(($1 - 1))); do
        mkdir -p "$tmp/d$d"
        devices="$devices --device $tmp/d$d"
    done
}
# begin N PARITY: $tmp/run, on N drives, after step 7, with snapshots after 0 and 4; a copy of all in $tmp/kept
begin() {
    rm -rf "$tmp/run" "$tmp/whole" "$tmp"/d? "$tmp/kept"
    run pretrain --run "$tmp/whole" $train --devices "$1" --steps 9
    whole="$(exported "$tmp/whole") $(steps_of "$tmp/whole")"
    devices "$1"
    run pretrain --run "$tmp/run" $train $devices --steps 4 --snapshot-every 4 --snapshot-on devices --parity "$2"
    run pretrain --resume "$tmp/run" --steps 7 --snapshot-every 0 --quiet
    mkdir "$tmp/kept"
    (cd "$tmp" && tar cf kept/run.tar run && for d in d?; do tar cf "kept/$d.tar" "$d"; done)
}
# put_back: all as begin has left it. The devices' files are other ones than those that the run knows: --device names them.
put_back() {
    rm -rf "$tmp/run/snapshots" "$tmp"/d?
    (cd "$tmp" && for t in kept/*.tar; do tar xf "$t" --overwrite; done)
    # shellcheck disable=SC2086
    run pretrain --resume "$tmp/run" $devices --quiet
}
# a drive that is gone, and has been replaced by an empty one; one that has zeros; files that were cut; bytes that flipped
hurt() { # HOW DRIVE
    case $1 in
    gone) rm -r "$2" && mkdir "$2" ;;
    zeroed) find "$2" -type f | while read -r f; do size=$(stat -c %s "$f"); truncate -s 0 "$f"; truncate -s "$size" "$f"; done ;;
    cut) find "$2" -type f | while read -r f; do truncate -s $(($(stat -c %s "$f") / 2)) "$f"; done ;;
    flipped)
        find "$2" -type f | while read -r f; do
            python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    b = bytearray(f.read())
    for i in range(11, len(b), 4099):
        b[i] ^= 0x10
    f.seek(0)
    f.write(b)' "$f"
        done ;;
    esac
}
# comes_back NAME: the run is restored, goes on to the same bits, and its snapshots are whole
comes_back() {
    run restore "$tmp/run"
    [ "$got" = 0 ] || { bad="$bad; $1: $(tail -n 1 "$tmp/err")"; return; }
    run snapshots "$tmp/run" --check
    [ "$got" = 0 ] || bad="$bad; $1: snapshots"
    run pretrain --resume "$tmp/run" --steps 9 --quiet
    [ "$got" = 0 ] && [ "$(exported "$tmp/run") $(steps_of "$tmp/run")" = "$whole" ] || bad="$bad; $1: other bits"
}

begin 3 1
# shellcheck disable=SC2086
run plan $train $devices --steps 4 --snapshot-every 4 --snapshot-on devices --probe off --traffic
same "$(awk '/^Moved for one snapshot/ { on = 1; next } !NF { on = 0 } on { print $1, $2, $3, 2 * $4 }' "$tmp/out" | sort)" \
    "$(ask "$tmp/run" "SELECT link || ' ' || class || ' ' || direction || ' ' || sum(bytes) FROM traffic WHERE phase = 'snapshot' GROUP BY link, class, direction" | sort)" \
    "two snapshots have moved what the plan says, to the byte"
run snapshots "$tmp/run" --check
same "2" "$(grep -c ' whole  ' "$tmp/out")" "snapshots with parity are whole"
result "$([ -z "$(ls "$tmp"/run/snapshots/*/step-00000004/dev* 2>"$tmp/null")" ] && [ "$(ls "$tmp"/d1/run-*/step-* | wc -l)" = 4 ]; echo $?)" \
    "the states lie on the drives, two files on each for each snapshot"
works "a snapshot is read" export "$tmp/run" "$tmp/four" --step 4
rm -r "$tmp/d1"
run snapshots "$tmp/run"
result "$([ "$got" = 1 ] && [ "$(grep -c 'whole by parity: device 1 is missing' "$tmp/out")" = 2 ]; echo $?)" "without a drive they are whole by parity"
run snapshots "$tmp/run" --check
result "$([ "$got" = 1 ] && [ "$(grep -c 'whole by parity: device 1 is missing' "$tmp/out")" = 2 ]; echo $?)" "and so if they are read"
refuses 1 "siTrain restore $tmp/run makes it again" pretrain --resume "$tmp/run" --quiet

for n in 3 2 5; do
    [ $n = 3 ] || begin $n 1
    bad=
    for d in $(seq 0 $((n - 1))); do
        case $((d + n)) in 2 | 6 | 9) hows="gone zeroed" ;; *) hows="cut flipped" ;; esac
        for how in $hows; do
            put_back
            hurt $how "$tmp/d$d"
            comes_back "$how $d"
        done
    done
    result "$([ -z "$bad" ]; echo $?)" "any drive of $n$bad"
done

begin 4 2
bad=
for pair in "0 1 gone zeroed" "1 3 cut flipped" "2 0 flipped gone" "3 2 zeroed cut"; do
    set -- $pair
    put_back
    hurt "$3" "$tmp/d$1"
    hurt "$4" "$tmp/d$2"
    comes_back "$pair"
done
result "$([ -z "$bad" ]; echo $?)" "any two drives of 4 with --parity 2$bad"

put_back
for d in 0 1 3; do hurt gone "$tmp/d$d"; done
before=$(ask "$tmp/run" "SELECT count(*) FROM steps")
run restore "$tmp/run"
result "$([ "$got" = 1 ] && grep -q "is lost on devices 0, 1, 3, and its parity bears the loss of 2" "$tmp/err"; echo $?)" "one drive more than parity bears is refused"
result "$([ -z "$(find "$tmp/d0" "$tmp/d1" -mindepth 1)" ] && [ "$(ask "$tmp/run" "SELECT count(*) FROM steps")" = "$before" ]; echo $?)" "and nothing is made"

# onto the remaining drives; then these are lost, too
begin 3 1
rm -r "$tmp/d1"
refuses 1 "if it is lost, siTrain restore $tmp/run makes it again" reshard "$tmp/run" --device "$tmp/d0" --device "$tmp/d2"
works "what was lost is made on a drive that remains" restore "$tmp/run" --device "1=$tmp/d2"
works "and two drives have all of it" reshard "$tmp/run" --device "$tmp/d0" --device "$tmp/d2" --quiet
works "they go on" pretrain --resume "$tmp/run" --steps 9 --quiet
same "$whole" "$(exported "$tmp/run") $(steps_of "$tmp/run")" "to the same bits"
run snapshots "$tmp/run" --check
same "0 2" "$got $(grep -c ' whole  ' "$tmp/out")" "with all snapshots"
rm -r "$tmp/d0" "$tmp/d2"
mkdir "$tmp/d0" "$tmp/d2"
refuses 1 "if it is lost, go on with: siTrain restore $tmp/run" pretrain --resume "$tmp/run" --quiet
run restore "$tmp/run" --device "0=$tmp/d0" --device "1=$tmp/d2"
result "$([ "$got" = 1 ] && grep -q "has no snapshot that is whole, .*; the last exported state that is whole is that after step 9" "$tmp/err"; echo $?)" "which names the last export"

# a new place, and a kill at any moment of a restore
begin 3 1
if [ -n "$shim" ]; then
    lose_d1() {
        put_back
        rm -rf "$tmp/d1" "$tmp/new"
        mkdir "$tmp/new"
    }
    killed_restores lose_d1 "$tmp/new" $(seq -f pwrite:/new/:%g 1 8 40) $(seq -f pwrite:/run.db-wal:%g 2 9 60) rename:/new/:1
    result "$([ -z "$bad" ] && [ $kills -gt 5 ]; echo $?)" "killed $kills times, the same command finishes$bad"

    # a drive that cannot read a block of a snapshot, and has damaged states of the run
    begin 3 1
    hurt flipped "$tmp/d1/sitrain-"*
    run pretrain --resume "$tmp/run" --steps 9 --quiet
    result "$([ "$got" = 1 ] && grep -q "siTrain restore .* writes all states again" "$tmp/err"; echo $?)" "a resume of damaged states names restore"
    bad=
    LD_PRELOAD="$shim" SHIM_AT="pread:.dev1:3:fail" "$bin" restore "$tmp/run" >"$tmp/out" 2>"$tmp/err" </dev/null || bad=" restore"
    grep -q "step-00000004 is whole again, by its parity (parts that were made again: 1)" "$tmp/err" || bad="$bad one"
    run pretrain --resume "$tmp/run" --steps 9 --quiet
    [ "$got" = 0 ] && [ "$(exported "$tmp/run") $(steps_of "$tmp/run")" = "$whole" ] || bad="$bad bits"
    result "$([ -z "$bad" ]; echo $?)" "a block that cannot be read$bad"

    # a kill while a snapshot is taken, or an old one removed: what was begun is removed, and all others stay
    begin 3 1
    bad= n=0 step=7
    run pretrain --resume "$tmp/run" --steps 7 --snapshot-every 1 --snapshots 3 --quiet
    for at in pwrite:DEV:1 pwrite:DEV:9 pwrite:PAR:1 pwrite:PAR:12 rename:/snapshots/:1 rename:/snapshots/:2 unlink:/d0/run-:1 unlink:/d1/run-:2 \
        pwrite:/run/run.db-wal:20 pwrite:/run/run.db-wal:45 pwrite:/run/run.db-wal:55 pwrite:/run/run.db-wal:65 pwrite:/snapshots/:3; do
        step=$((step + 1))
        name=$(printf '/step-%08d' $step)
        call=$(echo "$at" | sed "s,DEV,/d1/run-,; s,PAR,/d2/run-,")
        LD_PRELOAD="$shim" SHIM_AT="$call:kill" "$bin" pretrain --resume "$tmp/run" --steps $step --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
        [ $? = 137 ] && n=$((n + 1))
        run snapshots "$tmp/run" --check
        [ "$got" = 0 ] && [ "$(grep -c ' whole  ' "$tmp/out")" -ge 2 ] || bad="$bad $at"
        run pretrain --resume "$tmp/run" --steps $step --quiet
        [ "$got" = 0 ] || bad="$bad goes-$at"
        run snapshots "$tmp/run" --check
        [ "$got" = 0 ] && [ "$(grep -c ' whole  ' "$tmp/out")" = 3 ] && grep -q "$name" "$tmp/out" || bad="$bad then-$at"
        [ "$(ls "$tmp"/d1/run-*/ | wc -l) $(ls "$tmp"/d2/run-*/ | wc -l)" = "6 6" ] || bad="$bad left-$at"
    done
    result "$([ -z "$bad" ] && [ $n -gt 9 ]; echo $?)" "killed $n times while one is taken or removed: nothing is left of it$bad"
else
    skip "kills" "no shim here"
fi

# a line break in the run's path, and backslashes in a device's: what a killed process had begun is removed all the same
if [ -n "$shim" ]; then
    odd="$tmp/a
b\\n"
    mkdir "$odd"
    rm -rf "$tmp"/d?
    mkdir "$tmp/d1" "$tmp/odd\\n\\\\0"
    devices="--device $tmp/odd\\n\\\\0 --device $tmp/d1"
    run pretrain --run "$odd/run" $train $devices --steps 1 --snapshot-every 1 --snapshots 1 --snapshot-on devices
    result "$got" "a run whose path has a line break"
    LD_PRELOAD="$shim" SHIM_AT="pwrite:/d1/run-:2:kill" "$bin" pretrain --resume "$odd/run" --steps 2 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
    same 137 $? "killed within a run whose path has a line break"
    works "it goes on" pretrain --resume "$odd/run" --steps 3 --quiet
    same "2 2" "$(ls "$tmp"/odd*/run-*/ | wc -l) $(ls "$tmp"/d1/run-*/ | wc -l)" "and nothing is left"
    rm -rf "$tmp"/odd*
fi

# rotation removes the files on the drives, and a copy of the run none of its original's
begin 3 1
run pretrain --resume "$tmp/run" --steps 9 --snapshot-every 1 --snapshots 2 --quiet
same "4 4 4" "$(for d in 0 1 2; do ls "$tmp"/d$d/run-*/ | wc -l; done | tr '\n' ' ' | sed 's/ $//')" "rotation removes the files of old ones"
cp -a "$tmp/run" "$tmp/copy"
mkdir "$tmp/n0" "$tmp/n1" "$tmp/n2"
for d in 0 1 2; do cp "$tmp/d$d"/sitrain-* "$tmp/n$d/"; done
run pretrain --resume "$tmp/copy" --steps 9 --device "$tmp/n0" --device "$tmp/n1" --device "$tmp/n2" --quiet
part=$(ls "$tmp"/d1/run-*/step-00000009.*.dev1)
cp -p "$part" "$tmp/part"
hurt flipped "$part"
sum=$(sha256sum <"$part")
rm "$tmp"/n1/*
run restore "$tmp/copy" --device "1=$tmp/n1"
result "$([ "$got" = 0 ] && grep -q "step-00000009 is damaged, and it is not mended, .* those of the run $tmp/run, of which $tmp/copy is a copy" "$tmp/err" && [ "$(steps_of "$tmp/copy" | wc -l)" = 8 ]; echo $?)" \
    "a copy does not go back to a damaged snapshot on its original's drives"
same "$sum" "$(sha256sum <"$part")" "and does not write to it"
cp -p "$tmp/part" "$part"
run pretrain --resume "$tmp/copy" --steps 13 --device "$tmp/n0" --device "$tmp/n1" --device "$tmp/n2" --quiet
same "0" "$got" "a copy goes on, on other drives"
works "and has not removed the original's" snapshots "$tmp/run" --check

# a copy with the same --snapshot-dir leaves a snapshot that its original was removing when it was killed: no other run.db names its files
if [ -n "$shim" ]; then
    rm -rf "$tmp/run" "$tmp/copy" "$tmp"/d? "$tmp"/n?
    mkdir "$tmp/shared" "$tmp/n0" "$tmp/n1"
    devices 2
    run pretrain --run "$tmp/run" $train $devices --steps 2 --snapshot-every 1 --snapshots 2 --snapshot-on devices --snapshot-dir "$tmp/shared"
    cp -a "$tmp/run" "$tmp/copy"
    for d in 0 1; do cp "$tmp/d$d"/sitrain-* "$tmp/n$d/"; done
    LD_PRELOAD="$shim" SHIM_AT="unlink:.dev:1:kill" "$bin" pretrain --resume "$tmp/run" --steps 3 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
    same 137 $? "killed as it removes a snapshot"
    was=$(find "$tmp"/shared/run-*/*.gone.new-* "$tmp"/d? -printf '%p %T@\n' | sort)
    works "a copy with the same --snapshot-dir" pretrain --resume "$tmp/copy" --device "$tmp/n0" --device "$tmp/n1" --steps 4 --quiet
    same "$was" "$(find "$tmp"/shared/run-*/*.gone.new-* "$tmp"/d? -printf '%p %T@\n' | sort)" "leaves it as it is"
    LD_PRELOAD="$shim" SHIM_AT="pwrite:.new-:9:kill" "$bin" pretrain --resume "$tmp/run" --steps 6 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
    same "137 1" "$? $(ls -d "$tmp"/shared/run-*/step-*.new-* | wc -l)" "killed as it begins one"
    was=$(find "$tmp"/shared/run-* -printf '%p %T@\n' | sort)
    works "a copy goes on" pretrain --resume "$tmp/copy" --steps 7 --quiet
    same "$was" "$(find "$tmp"/shared/run-* -printf '%p %T@\n' | sort)" "and leaves that, too"
    works "the original goes on" pretrain --resume "$tmp/run" --steps 6 --quiet
    same "0 4 4" "$(find "$tmp/shared" -name '*.new-*' | wc -l) $(ls "$tmp"/d0/run-*/ | wc -l) $(ls "$tmp"/d1/run-*/ | wc -l)" "and removes all of it"
fi

# run.db names a file of somebody's: it is neither removed nor written to
mkdir "$tmp/theirs"
set_to() { python3 tests/cli/setting.py "$@"; }
theirs() { # NAME: it is as it was
    same "precious" "$(cat "$tmp/theirs/file")" "somebody's file stays: $1"
    echo precious >"$tmp/theirs/file"
}
echo precious >"$tmp/theirs/file"
begin 3 1
newest=$(ls -d "$tmp"/run/snapshots/run-*/step-00000004)
set_to "$tmp/run" portions.begun "$(ask "$tmp/run" "SELECT value FROM runs WHERE key = 'place'")
${newest%/*}/step-00000099.new-00
$tmp/theirs/file"
works "a run on" pretrain --resume "$tmp/run" --steps 8 --snapshot-every 8 --snapshots 9 --quiet
theirs "portions.begun"
portions=$(ask "$newest" "SELECT value FROM runs WHERE key = 'snapshot.portions'")
set_to "$newest" snapshot.portions "$(echo "$portions" | sed "1s,.*,9 $tmp/theirs/file,")"
works "one that removes old snapshots" pretrain --resume "$tmp/run" --steps 9 --snapshots 1 --quiet
theirs "snapshot.portions, removed"
begin 3 1
newest=$(ls -d "$tmp"/run/snapshots/run-*/step-00000004)
portions=$(ask "$newest" "SELECT value FROM runs WHERE key = 'snapshot.portions'")
set_to "$newest" snapshot.portions "$(echo "$portions" | sed "1s, .*, $tmp/theirs/file,")"
rm "$tmp"/d1/sitrain-*
works "restore takes the snapshot before it" restore "$tmp/run"
theirs "snapshot.portions, restored"

# a portion with a second name, as in a copy by cp -al: it is not mended, since the copy would change
begin 3 1
portion=$(ls "$tmp"/d0/run-*/step-00000004.*.dev0)
dd if=/dev/zero of="$portion" bs=4096 seek=2 count=4 conv=notrunc 2>"$tmp/null"
rm -rf "$tmp/copies"
mkdir "$tmp/copies"
cp -al "${portion%/*}" "$tmp/copies"
was=$(sums "$tmp/copies")
rm "$tmp"/d1/sitrain-*
works "restore takes another snapshot" restore "$tmp/run"
same "1 $was" "$(grep -c "has other names too (hard links), where what is written to it would be seen" "$tmp/err") $(sums "$tmp/copies")" \
    "a damaged portion with a second name is named, and not written to"
rm -rf "$tmp/copies"

# without a tokenizer, a snapshot's folder has run.db alone
rm -rf "$tmp/run" "$tmp"/d?
devices 2
run pretrain --run "$tmp/run" --data "$tmp/text.bin" $shape $devices --steps 1 --snapshot-every 1 --snapshot-on devices --snapshots 1
whole=$(exported "$tmp/run")
rm -r "$tmp/d1"
mkdir "$tmp/d1"
works "a snapshot without a tokenizer is restored" restore "$tmp/run" --device "1=$tmp/d1"
same "$whole" "$(exported "$tmp/run")" "to the same bits"

# drives whose file system cannot allocate a file's blocks
mkdir "$tmp/ext2"
truncate -s 16M "$tmp/image"
if mkfs.ext2 -q "$tmp/image" 2>"$tmp/null" && mount -o loop "$tmp/image" "$tmp/ext2" 2>"$tmp/null"; then
    mkdir "$tmp/ext2/a" "$tmp/ext2/b"
    rm -rf "$tmp/run"
    run pretrain --run "$tmp/run" $train --device "$tmp/ext2/a" --device "$tmp/ext2/b" --steps 2 --snapshot-every 2 --snapshot-on devices
    works "ext2: snapshots with parity" snapshots "$tmp/run" --check --quiet
    rm -r "$tmp"/ext2/a/*
    works "ext2: a lost device is made again" restore "$tmp/run"
    umount -l "$tmp/ext2"
else
    skip "a file system that allocates no blocks" "no ext2 can be made and mounted here"
fi

# refused, with what to do
refuses 2 "--parity 2 needs at least 3 devices, and this run has 2: give --parity 1" \
    pretrain --run "$tmp/no" $train --device "$tmp/d0" --device "$tmp/d1" --snapshot-every 4 --snapshot-on devices --parity 2
refuses 2 "--parity 1 needs at least 2 devices, and this run has 1" pretrain --run "$tmp/no" $train --device "$tmp/d0" --snapshot-every 4 --snapshot-on devices
refuses 2 "without --device all of them lie in RUN" pretrain --run "$tmp/no" $train --devices 3 --snapshot-every 4 --snapshot-on devices
refuses 2 "--mode mem has none" pretrain --run "$tmp/no" $data $shape --mode mem --snapshot-every 4 --snapshot-on devices
result "$([ ! -e "$tmp/no" ]; echo $?)" "and nothing is made"
rm -rf "$tmp/d0" "$tmp/d1" && mkdir "$tmp/d0" "$tmp/d1"
works "a run with snapshots on its two devices" pretrain --run "$tmp/two" $data $shape --device "$tmp/d0" --device "$tmp/d1" --steps 1 --snapshot-every 1 --snapshot-on devices
refuses 2 "are changed before, by siTrain pretrain --resume $tmp/two" reshard "$tmp/two" --devices 1 --quiet
works "which does so" pretrain --resume "$tmp/two" --snapshot-on dir --quiet
works "before a reshard" reshard "$tmp/two" --devices 1 --quiet
done_testing
