#!/bin/sh
# Block devices, tried on loop devices: what is mounted, carries a signature or is another run's is refused without --force-device; a run
# on two of them trains, is killed and goes on to the same parameters. Skipped where loop devices cannot be made. Prints TAP.
. tests/tap.sh
PATH=$PATH:/usr/sbin:/sbin

loops=
cleanup() {
    umount "$tmp/mnt" 2>/dev/null
    for l in $loops; do
        losetup -d "$l" 2>/dev/null
    done
    rm -rf "$tmp"
}
trap cleanup EXIT

loop() { # SIZE: a new one, in $new
    image=$tmp/image$(echo "$loops" | wc -w)
    truncate -s "$1" "$image" && new=$(losetup -f --show "$image" 2>"$tmp/err") && loops="$loops $new"
}

if ! loop 8M; then
    skip "block devices" "no loop device can be made here: $(head -n 1 "$tmp/err")"
    done_testing
fi
a=$new
loop 8M
b=$new
make_text 1500 >"$tmp/text.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a text becomes a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
set -- --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 2 --seed 5 --csd-mem 192K --threads 1 \
    --steps 30

refused() { # WHAT TEXT DEVICE, with the options of the run
    what=$1 text=$2 device=$3
    shift 3
    before=$(sha256sum <"$device")
    run pretrain --run "$tmp/refused" "$@" --device "$device"
    [ "$got" != 0 ] && grep -qF "$device" "$tmp/err" && grep -q "$text" "$tmp/err" && [ ! -e "$tmp/refused" ] &&
        [ "$(sha256sum <"$device")" = "$before" ]
    result $? "refused: $what"
}

# bench WHAT CODE TEXT DEVICE OPTIONS...: is refused, too, and writes nothing
bench() {
    what=$1 code=$2 text=$3 device=$4
    shift 4
    before=$(sha256sum <"$device")
    run bench --quick --only disk,steps --csd-mem 192K --dir "$tmp" --device "$device" "$@"
    [ "$got" = "$code" ] && grep -qF "$device" "$tmp/err" && grep -qF -- "$text" "$tmp/err" && [ "$(sha256sum <"$device")" = "$before" ]
    result $? "bench: refused: $what"
}

for offset in 0 1M; do
    second=$(losetup -f --show -o $offset "$tmp/image1")
    loops="$loops $second"
    for device in "$b" "$second"; do
        refused "two loop devices of one file, of which one begins at $offset" "show the same bytes" "$device" "$@" --force-device
    done
    losetup -d "$second"
done
truncate -s 16M "$tmp/halves"
second=$(losetup -f --show --sizelimit 8M "$tmp/halves")
loops="$loops $second"
third=$(losetup -f --show -o 8M "$tmp/halves")
loops="$loops $third"
works "the halves of a file have no byte in common" pretrain --run "$tmp/half" "$@" --device "$second"
losetup -d "$second"
losetup -d "$third"
rm -rf "$tmp/half"

# What is beneath a device: a run there as a whole keeps its bytes, by whatever way they are shown.
loop 8M
whole=$new
works "a run on a loop device" pretrain --run "$tmp/whole" "$@" --device "$whole"
second=$(losetup -f --show -o 32K "$whole")
loops="$second $loops"
for device in "$whole" "$second"; do
    refused "a loop device on top of another one" "show the same bytes" "$device" "$@" --force-device
done
run pretrain --resume "$tmp/whole" --steps 32 --schedule-steps 32
result "$([ "$got" != 0 ] && grep -q "show the same bytes" "$tmp/err"; echo $?)" "nor does the run go on while another loop device shows its bytes"
losetup -d "$second"
works "it does when that one is detached" pretrain --resume "$tmp/whole" --steps 32 --schedule-steps 32
if command -v addpart >/dev/null && addpart "$whole" 1 64 8000 2>"$tmp/err" && [ -b "${whole}p1" ]; then
    refused "a partition of a drive that a run has" "is a part of $whole, which holds the states of a siTrain run" "${whole}p1" "$@"
    works "--force-device takes it" pretrain --run "$tmp/part" "$@" --device "${whole}p1" --force-device
    for _ in $(seq 100); do # what has just ended may have it open still
        delpart "$whole" 1 2>"$tmp/err" && break
        sleep 0.05
    done
else
    skip "a partition of a drive that a run has" "no partition can be made here: $(head -n 1 "$tmp/err")"
fi
mkdir "$tmp/folder"
works "a run with a device's file" pretrain --run "$tmp/filed" "$@" --device "$tmp/folder"
file=$(echo "$tmp"/folder/sitrain-*)
second=$(losetup -f --show -o 32K "$file")
loops="$loops $second"
refused "a loop device behind the beginning of a run's file" "is a part of $file, which holds the states" "$second" "$@"
exec 9<"$file"
flock -x 9
refused "one whose file another process has, with --force-device" "shows bytes of $file, which is mounted or in use" "$second" "$@" --force-device
exec 9<&-
losetup -d "$second"
works "the run with the file is whole" check "$tmp/filed"
# who has a part alone, and may not look at what is around it
if command -v setpriv >/dev/null; then
    truncate -s 16M "$tmp/drive" && chmod 600 "$tmp/drive"
    second=$(losetup -f --show -o 1M "$tmp/drive")
    loops="$loops $second"
    owner=$(stat -c %u:%g "$second")
    chmod 755 "$tmp" && mkdir "$tmp/user" && chown 65534 "$tmp/user" "$second"
    setpriv --reuid 65534 --clear-groups "$bin" pretrain --run "$tmp/user/run" "$@" --device "$second" >"$tmp/out" 2>"$tmp/err"
    result $? "a part of a drive is taken by a user who has the part alone"
    chown "$owner" "$second"
    losetup -d "$second"
else
    skip "a part of a drive that a user has alone" "no setpriv here"
fi
if command -v mkfs.ext4 >/dev/null; then
    mkfs.ext4 -q "$a" >"$tmp/out" 2>"$tmp/err"
    refused "a file system" "signature is ext4" "$a" "$@"
    mkdir "$tmp/mnt"
    if mount -o ro "$a" "$tmp/mnt" 2>/dev/null; then
        refused "one that is mounted" "mounted or in use" "$a" "$@"
        refused "one that is mounted, with --force-device" "mounted or in use" "$a" "$@" --force-device
        bench "one that is mounted" 1 "mounted or in use" "$a" --force-device
        umount "$tmp/mnt"
    else
        skip "one that is mounted" "nothing may be mounted here"
    fi
else
    skip "a file system" "no mkfs.ext4"
fi
dd if=/dev/zero of="$a" bs=1M count=8 2>/dev/null
if command -v python3 >/dev/null; then
    python3 - "$a" <<'END'
import struct, sys, zlib
body = struct.pack("<I8s", 32, b"LVM2 001") + b"Pv0" + b"x" * 29 + struct.pack("<Q", 8 << 20) + bytes(512 - 20 - 12 - 40)
crc = ~zlib.crc32(body, ~0xf597a6cf & 0xffffffff) & 0xffffffff
with open(sys.argv[1], "r+b") as f:
    f.seek(512)
    f.write(struct.pack("<8sQI", b"LABELONE", 1, crc) + body)
END
    refused "LVM" "signature is LVM2_member" "$a" "$@"
else
    skip "LVM" "no python3"
fi
dd if=/dev/zero of="$a" bs=1M count=1 2>/dev/null
printf '\200\1\1\0\203\376\377\377\0\10\0\0\0\40\0\0' | dd of="$a" bs=1 seek=446 conv=notrunc 2>/dev/null
printf '\125\252' | dd of="$a" bs=1 seek=510 conv=notrunc 2>/dev/null
refused "a partition table" "signature is dos" "$a" "$@"
works "--force-device takes it" pretrain --run "$tmp/forced" "$@" --device "$a" --force-device
# Another run's, before every command that writes to a device.
id=$(sqlite3 "$tmp/forced/run.db" "SELECT value FROM runs WHERE key = 'id'")
held="$a holds the states of a siTrain run ($id, device 0 of 1)"
states=$(exported "$tmp/forced")
refused "another run's" "device $held" "$a" "$@"
bench "another run's" 2 "--device $held" "$a"
works "a run in a folder" pretrain --run "$tmp/plain" "$@"
works "a model" export "$tmp/plain" "$tmp/hf"
deep="--n-layer 6 --n-head 2 --n-embd 64 --seq 24 --batch 48 --csd-mem 256K --durability none --activations offload --schedule-steps 9"
run plan $deep --vocab 300 --host-mem 1M
least=$(sed -n 's/.*needs at least \([0-9]*M\).*/\1/p' "$tmp/err")
works "a run that offloads" pretrain --run "$tmp/deep" --data "$tmp/text.bin" --tokenizer "$tmp/tok" $deep --host-mem "$least" --steps 1
for line in "pretrain --run $tmp/refused $* --act-device $a --activations offload" "pretrain --resume $tmp/deep --steps 2 --act-device $a" \
    "reshard $tmp/plain --device $a" "import $tmp/hf $tmp/refused --device $a --csd-mem 192K"; do
    before=$(sha256sum <"$a")
    # shellcheck disable=SC2086
    run $line
    [ "$got" = 2 ] && grep -qF "device $held" "$tmp/err" && [ ! -e "$tmp/refused" ] && [ "$(sha256sum <"$a")" = "$before" ]
    result $? "refused: another run's: ${line%% *} $(echo "$line" | grep -o -- '--[a-z]*-*device')"
done
works "the run in the folder is whole" check "$tmp/plain"
same "$states" "$(exported "$tmp/forced")" "and so is the run on the device, to the byte"
printf x | dd of="$a" bs=1 seek=600 conv=notrunc 2>/dev/null
bench "another run's with a damaged superblock" 2 "$a holds what was the states of a siTrain run" "$a"
dd if=/dev/zero of="$a" bs=1 seek=600 count=1 conv=notrunc 2>/dev/null
loop 16K
refused "one that is too small" "$new" "$new" "$@"

# A creation that fails takes its superblocks back, so that the next one is not refused. Another's stays.
loop 16K
small=$new
loop 8M
states=$(sha256sum <"$a")
for second in "$small" "$a"; do
    run pretrain --run "$tmp/refused" "$@" --device "$new" --device "$second"
    [ "$got" != 0 ] && [ ! -e "$tmp/refused" ] && cmp -s -n 4096 "$new" /dev/zero && [ "$(sha256sum <"$a")" = "$states" ]
    result $? "a creation whose second drive is refused leaves the first as it was"
done
find_shim
if [ -n "$shim" ]; then
    held rename:/run.db:1 pretrain --run "$tmp/refused" "$@" --device "$new"
    result "$([ "$(head -c 14 "$new")" = "siTrain device" ]; echo $?)" "a creation is held, its drive has a superblock"
    mkdir "$tmp/refused/tokenizer"
    rm -f "$tmp/held"
    wait "$pid"
    [ $? = 1 ] && cmp -s -n 4096 "$new" /dev/zero && [ -d "$tmp/refused/tokenizer" ] && ! ls -d "$tmp"/refused/run.new-* "$tmp/refused/run.db" >/dev/null 2>&1
    result $? "it fails, and takes the superblock back"
    rm -rf "$tmp/refused"
else
    skip "a creation that fails late" "no library that holds it"
fi
works "the next one takes the drive without --force-device" pretrain --run "$tmp/refused" "$@" --device "$new"
rm -rf "$tmp/refused"

works "the same run in memory" pretrain --run "$tmp/mem" "$@" --mode mem
whole=$(exported "$tmp/mem")
dd if=/dev/zero of="$a" bs=1M count=1 2>/dev/null
"$bin" pretrain --run "$tmp/two" "$@" --mode su+o --device "$a" --device "$b" --csd-write-bw 1M >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
for _ in $(seq 1200); do
    [ "$(grep -c '^step' "$tmp/out")" -ge 5 ] && break
    sleep 0.05
done
run pretrain --run "$tmp/refused" "$@" --device "$b" --force-device
[ "$got" = 1 ] && grep -qF "$b is mounted or in use" "$tmp/err"
result $? "refused: one that a run is at work on"
run bench --quick --only disk --dir "$tmp" --device "$b" --force-device
[ "$got" = 1 ] && grep -qF "$b is mounted or in use" "$tmp/err"
result $? "  by bench, too"
kill -9 $pid
wait $pid
result "$([ $? = 137 ]; echo $?)" "a run on two block devices is killed"
works "and resumed" pretrain --resume "$tmp/two" --csd-write-bw 0
same "$whole" "$(exported "$tmp/two")" "to the same parameters"
works "and whole" check "$tmp/two"

# A drive that has no medium, or one that is too short, has lost nothing: restore writes nothing, and the run goes on when it is back.
loop 8M
away=$new
works "a run with snapshots on a drive" pretrain --run "$tmp/away" "$@" --device "$away" --snapshot-every 30
works "which goes on without" pretrain --resume "$tmp/away" --steps 32 --snapshot-every 0 --schedule-steps 30
cp "$image" "$tmp/medium"
for bytes in 0 40960; do
    truncate -s $bytes "$image"
    losetup -c "$away"
    run restore "$tmp/away"
    result "$([ "$got" = 1 ] && tail -n 1 "$tmp/err" | grep -q "$away is $bytes bytes, device 0 needs "; echo $?)" "a drive of $bytes bytes is not made again"
done
cat "$tmp/medium" >"$image"
losetup -c "$away"
works "when it is back, the run goes on from where it was" pretrain --resume "$tmp/away" --steps 33 --schedule-steps 30
result "$(! grep -q "on its way back\|went back" "$tmp/err"; echo $?)" "  and did not go back"
works "  and is whole" check "$tmp/away"

# bench leaves nothing of its own on a drive that it may write over: it runs there again.
loop 600M
for i in 1 2; do
    works "bench on a free drive, $i" bench --quick --rounds 1 --only steps --n-layer 1 --n-head 1 --n-embd 32 --vocab 300 --csd-mem 192K --dir "$tmp" --device "$new"
done

done_testing
