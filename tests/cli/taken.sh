#!/bin/sh
# What is taken away, replaced or put in place under a living process: a run's images, its best model, its whole file system. The process ends
# with a sentence, and what stands there then is as somebody has put it. Prints TAP.
. tests/tap.sh
find_shim
export OMP_WAIT_POLICY=passive # threads that spin slow each other down

smallest

# begin RUN OPTIONS...: a training that goes on for long, in $pid; it has begun
begin() {
    at=$1
    shift
    "$bin" pretrain --resume "$at" --steps 1000000 --quiet "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    for _ in $(seq 1200); do
        [ "$(python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1] + "/run.db", 9).execute("SELECT count(*) FROM steps").fetchone()[0])' "$at")" -gt 4 ] && break
        sleep 0.05
    done
}

# ends TEXT NAME: it ends by itself with 1 and one sentence that has TEXT
ends() {
    for _ in $(seq 600); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
    kill -INT $pid 2>/dev/null
    wait $pid
    got=$?
    result "$([ $got = 1 ] && grep -q "$1" "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "$2 ($got)"
}

# ---- images of mode mem

works "a run in memory" pretrain --run "$tmp/ram" $data $shape --steps 2 --mode mem
for how in removed replaced; do
    for image in image0 image1; do
        rm -rf "$tmp/at"
        cp -a "$tmp/ram" "$tmp/at"
        begin "$tmp/at" --commit-every 3
        mv "$tmp/at/$image" "$tmp/kept"
        [ $how = removed ] || cp -a "$tmp/kept" "$tmp/at/$image"
        ends "at/$image is gone, or another file.*go on with --resume" "$image is $how: the training ends"
        mv "$tmp/kept" "$tmp/at/$image"
        works "and goes on from the last commit with it" pretrain --resume "$tmp/at" --steps 1 --quiet
        works "and is whole" check "$tmp/at"
    done
done

# ---- the log of its database

rm -rf "$tmp/at" && cp -a "$tmp/ram" "$tmp/at"
begin "$tmp/at"
rm "$tmp/at/run.db-wal"
ends "run.db-wal was removed by another program" "the log is removed: the training ends"
works "nothing is lost" check "$tmp/at"
works "and it goes on" pretrain --resume "$tmp/at" --steps 1 --quiet
rm -rf "$tmp/at" && cp -a "$tmp/ram" "$tmp/at"
begin "$tmp/at"
kill -STOP $pid
mv "$tmp/at/run.db-wal" "$tmp/kept"
echo mine >"$tmp/at/run.db-wal"
kill -CONT $pid
ends "run.db-wal was replaced by another program" "the log is replaced: the training ends"
same mine "$(cat "$tmp/at/run.db-wal")" "and what is in its place stays"
rm "$tmp/at/run.db-wal"
works "nothing is lost" check "$tmp/at"

# ---- run.db is written over in place, as by cp and rsync --inplace: the file is the same one

works "another run" pretrain --run "$tmp/over" $data $shape --steps 9
rm -rf "$tmp/at" && cp -a "$tmp/ram" "$tmp/at"
begin "$tmp/at"
kill -STOP $pid
cp "$tmp/at/run.db" "$tmp/kept"
cp "$tmp/over/run.db" "$tmp/at/run.db"
was=$(sha256sum <"$tmp/at/run.db")
kill -CONT $pid
ends "run.db was written by another program while the run used it" "run.db is written over: the training ends"
same "$was" "$(sha256sum <"$tmp/at/run.db")" "and what was written there stays"
cp "$tmp/kept" "$tmp/at/run.db"
works "with the former one, and the log that stayed, nothing is lost" check "$tmp/at"
works "and it goes on" pretrain --resume "$tmp/at" --steps 1 --quiet
begin "$tmp/at"
touch "$tmp/at/run.db" # another time alone says nothing
kill -INT $pid
wait $pid
result "$([ $? = 130 ] && ! grep -q "another program" "$tmp/err"; echo $?)" "a run.db with another time is the same one"

# ---- RUN/best

works "a run with a best model" pretrain --run "$tmp/best" $data --eval-data "$tmp/text.bin" $shape --steps 2 --keep-best --eval-every 1 --lr 1e-2
for exchanges in yes no; do
    [ -f "$shim" ] || break
    [ $exchanges = yes ] || export SHIM_FAIL=exchange=EINVAL
    n=0 wrong=
    while n=$((n + 1)); do # somebody's own model comes in its place while the better one is written
        rm -rf "$tmp/K"
        cp -a "$tmp/best" "$tmp/K"
        held "rename:/K/best:$n" pretrain --resume "$tmp/K" --steps 3 --quiet || break
        last=$([ -e "$tmp/K/best" ] || echo yes)
        [ -n "$last" ] || mv "$tmp/K/best" "$tmp/keep"
        mkdir "$tmp/K/best" && echo "my own model" >"$tmp/K/best/model.safetensors" && echo "{}" >"$tmp/K/best/config.json"
        rm "$tmp/held"
        wait $pid
        got=$?
        [ $got = 1 ] || [ $got = 2 ] || wrong="$wrong $n:$got"
        [ "$(cat "$tmp/K/best/model.safetensors" 2>&1)" = "my own model" ] || wrong="$wrong $n:lost"
        rm -rf "$tmp/K/best"
        [ -n "$last" ] || mv "$tmp/keep" "$tmp/K/best"
        SHIM_FAIL='' "$bin" pretrain --resume "$tmp/K" --steps 4 --quiet >"$tmp/out" 2>&1 && "$bin" export "$tmp/K" "$tmp/hf" >"$tmp/out" 2>&1 || wrong="$wrong $n:$(cat "$tmp/out")"
        rm -rf "$tmp/hf"
    done
    wait $pid
    result "$([ $n -gt 6 ] && [ -z "$wrong" ]; echo $?)" "somebody's model that comes to RUN/best at any of $((n - 1)) moments stays (exchange: $exchanges)$wrong"
    unset SHIM_FAIL
done
[ -f "$shim" ] || skip "RUN/best is exchanged meanwhile" "no shim"

if [ -f "$shim" ]; then
    rm -rf "$tmp/K" && cp -a "$tmp/best" "$tmp/K"
    held "rename:/K/best:1" pretrain --resume "$tmp/K" --steps 3 --quiet # between two transactions
    : >"$tmp/K/run.db-wal"
    rm "$tmp/held"
    ends "run.db-wal was cut by another program" "the log is cut: the training ends"
    refuses 1 "are missing: its log (run.db-wal) is gone" report "$tmp/K"
fi

# a folder with the name of a file of the model: refused before the first step
rm -rf "$tmp/K" && cp -a "$tmp/best" "$tmp/K"
rm "$tmp/K/best/config.json" && mkdir "$tmp/K/best/config.json" && echo mine >"$tmp/K/best/config.json/notes"
refuses 2 "best/config.json, in the folder of the best model, which training replaces, is a folder with the name of a model's file: rename it" \
    pretrain --resume "$tmp/K" --steps 3 --quiet
same "mine 2" "$(cat "$tmp/K/best/config.json/notes") $(sqlite3 "$tmp/K/run.db" "SELECT count(*) FROM steps")" "it stays where it is"
mv "$tmp/K/best/config.json" "$tmp/K/best/mine"
works "under another name it goes on" pretrain --resume "$tmp/K" --steps 3 --quiet
same "mine" "$(cat "$tmp/K/best/mine/notes")" "with the folder"

# run.lock is removed, and a second process comes, which does not have the devices: it leaves the better model that the first one writes
works "a run in memory with a best model" pretrain --run "$tmp/best-ram" $data --eval-data "$tmp/text.bin" $shape --steps 2 --keep-best --eval-every 1 --lr 1e-2 --mode mem
for from in best best-ram; do
    [ -f "$shim" ] || break
    rm -rf "$tmp/K"
    cp -a "$tmp/$from" "$tmp/K"
    held "rename:/K/best:1" pretrain --resume "$tmp/K" --steps 3 --quiet
    first=$pid
    rm "$tmp/K/run.lock"
    "$bin" pretrain --resume "$tmp/K" --steps 4 --quiet >"$tmp/second" 2>&1 </dev/null
    result "$([ $? = 1 ] && grep -q "is in use by another process" "$tmp/second" && ls -d "$tmp"/K/best.new-* >"$tmp/null"; echo $?)" "$from: a second process is refused"
    rm "$tmp/held"
    wait $first
    result $? "and the first one's better model takes its place"
    works "and all is whole" check "$tmp/K"
done

# `check` knows the best model and the tokenizer, as `export` and `generate` do.
works "another run with a best model" pretrain --run "$tmp/other" $data --eval-data "$tmp/text.bin" $shape --steps 2 --keep-best --eval-every 1 --seed 9
swap() { # FOLDER: the ids of two words change places in its tokenizer
    python3 - "$1" <<'PY'
import json, sys
for name in "tokenizer.json", "vocab.json":
    path = sys.argv[1] + "/" + name
    whole = json.load(open(path))
    words = whole["model"]["vocab"] if name == "tokenizer.json" else whole
    words["a"], words["b"] = words["b"], words["a"]
    json.dump(whole, open(path, "w"))
PY
}
for what in other gone tokenizer; do
    rm -rf "$tmp/K"
    cp -a "$tmp/best" "$tmp/K"
    case $what in
    other) rm -r "$tmp/K/best" && cp -r "$tmp/other/best" "$tmp/K/best" && says="K/best is not the model that run.db names" ;;
    gone) rm -r "$tmp/K/best" && says="K/best is not there any more" ;;
    tokenizer) swap "$tmp/K/tokenizer" && says="K/tokenizer is not the tokenizer that this run was made with" ;;
    esac
    for command in check generate export; do
        case $command in
        generate) run generate "$tmp/K" --prompt sea --tokens 1 --threads 1 ;;
        export) run export "$tmp/K" "$tmp/hf" ;;
        *) run check "$tmp/K" ;;
        esac
        result "$([ "$got" = 1 ] && grep -q "$says" "$tmp/err" && ! grep -q 'is whole' "$tmp/out"; echo $?)" "$command: $says"
    done
done
works "with the right ones it is whole" check "$tmp/best"
if [ -f "$shim" ]; then # its name is taken, and the evaluation that it is the best of is not committed
    rm -rf "$tmp/K"
    cp -a "$tmp/best" "$tmp/K"
    held "unlink:/K/best.old.new:1" pretrain --resume "$tmp/K" --steps 3 --quiet
    result $? "a better model has its name, and the old one is about to be removed"
    kill -KILL $pid
    wait $pid 2>"$tmp/null"
    works "killed before the old one is removed it is whole" check "$tmp/K"
    works "and goes on" pretrain --resume "$tmp/K" --steps 3 --quiet
fi

# ---- what somebody has in RUN/best, where a better model takes its place

if [ -f "$shim" ]; then
    rm -rf "$tmp/K" "$tmp/KC"
    cp -a "$tmp/best" "$tmp/K"
    mkdir "$tmp/K/best/sub"
    for f in saved kept sub/saved; do echo old >"$tmp/K/best/$f"; done
    held "unlink:/K/best.old.new:1" pretrain --resume "$tmp/K" --steps 3 --quiet
    kill -KILL $pid
    wait $pid 2>"$tmp/null"
    cp -a "$tmp/K" "$tmp/KC"
    works "a copy of a run that was killed before its better model was committed is whole" check "$tmp/KC"
    works "and goes on" pretrain --resume "$tmp/KC" --steps 3 --quiet
    for f in saved sub/saved; do echo new >"$tmp/K/best/t" && mv "$tmp/K/best/t" "$tmp/K/best/$f"; done
    works "the run goes on after its user saved files in best" pretrain --resume "$tmp/K" --steps 3 --quiet
    same "new new old" "$(cd "$tmp/K/best" && echo $(cat saved sub/saved kept))" "which stay as they were saved"
    result "$([ -z "$(ls -d "$tmp"/K/best.* 2>"$tmp/null")" ]; echo $?)" "and nothing is left next to best"

    rm -rf "$tmp/K"
    cp -a "$tmp/best" "$tmp/K"
    echo old >"$tmp/K/best/saved"
    held "rename:/K/best:1" pretrain --resume "$tmp/K" --steps 3 --quiet
    echo new >"$tmp/K/best/t" && mv "$tmp/K/best/t" "$tmp/K/best/saved"
    mkdir "$tmp/K/best/sub" && echo late >"$tmp/K/best/sub/late"
    rm "$tmp/held"
    wait $pid
    same "0 new late" "$(echo $? $(cd "$tmp/K/best" && cat saved sub/late))" "what is saved right before the exchange comes along"

    slow=yes
    while [ $slow ]; do
        rm -rf "$tmp/K"
        cp -a "$tmp/best" "$tmp/K"
        echo old >"$tmp/K/best/saved"
        sleep 1.1 # so it gets a second name. What is saved just now is about to be renamed
        echo new >"$tmp/K/best/t"
        at=$(stat -c %Z "$tmp/K/best/t")
        held "unlink:/K/best.old.new:1" pretrain --resume "$tmp/K" --steps 3 --quiet
        names=$(echo $(stat -c %h "$tmp/K/best/saved" "$tmp/K/best/t"))
        [ "$(stat -c %Z "$tmp/K/best/saved")" -gt $((at + 1)) ] || slow=
        late=$(echo "$tmp"/K/best.old.new-*)/late
        echo late >"$late" # as from a process that works in the old folder
        rm "$tmp/held"
        wait $pid
    done
    same "2 1" "$names" "a temporary file has no second name, which a later one could be taken for"
    same late "$(cat "$tmp/K/best/late" 2>&1)" "what comes to the old folder while that is removed comes along"
    result "$([ -z "$(ls -d "$tmp"/K/best.* 2>"$tmp/null")" ]; echo $?)" "and nothing is left next to best"
fi
rm -rf "$tmp/K"
cp -a "$tmp/best" "$tmp/K"
mkdir "$tmp/K/best/sub" && echo mine >"$tmp/K/best/sub/x" && chmod 1777 "$tmp/K/best/sub"
was=$(stat -c '%i %a' "$tmp/K/best/sub" "$tmp/K/best/sub/x")
run pretrain --resume "$tmp/K" --steps 4 --quiet
same "$was" "$(stat -c '%i %a' "$tmp/K/best/sub" "$tmp/K/best/sub/x")" "a folder in best is the same folder after a better model, and its file the same file"
for flag in i a; do
    for what in note model.safetensors sub .; do
        rm -rf "$tmp/K"
        cp -a "$tmp/best" "$tmp/K"
        echo mine >"$tmp/K/best/note" && mkdir "$tmp/K/best/sub"
        if ! chattr +$flag "$tmp/K/best/$what" 2>"$tmp/null"; then
            skip "$what in best that may not be moved (+$flag)" "no such attributes here"
            continue
        fi
        ls -a "$tmp/K" >"$tmp/was"
        refuses 2 "is immutable or append-only: take the attribute away first" pretrain --resume "$tmp/K" --steps 3 --quiet
        chattr -$flag "$tmp/K/best/$what"
        ls -a "$tmp/K" | cmp -s - "$tmp/was" && [ "$(cat "$tmp/K/best/note")" = mine ]
        result $? "and nothing has moved ($what, +$flag)"
        works "without it the run goes on" pretrain --resume "$tmp/K" --steps 3 --quiet
    done
done
rm -rf "$tmp/K"
cp -a "$tmp/best" "$tmp/K" # which its checksum alone tells
sh -c 'ulimit -n 9 && exec "$@"' - "$bin" pretrain --resume "$tmp/K" --steps 3 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
result "$(grep -q "Too many open files" "$tmp/err" && ! grep -q "move it elsewhere" "$tmp/err"; echo $?)" "a best model that cannot be opened is not called somebody's"

# ---- what replaces a folder is no more open than it

for mode in 700 2770 755; do
    rm -rf "$tmp/K" "$tmp/O"
    cp -a "$tmp/best" "$tmp/K"
    mkdir "$tmp/O" && chmod $mode "$tmp/O" "$tmp/K/best" && chmod 600 "$tmp"/K/best/*
    [ "$(id -u)" = 0 ] && chgrp 4711 "$tmp/O" "$tmp/K/best" "$tmp"/K/best/*
    was=$(stat -c '%a %u %g' "$tmp/O") file=$(stat -c '%a %u %g' "$tmp/K/best/model.safetensors")
    works "an export into an empty folder of mode $mode" export "$tmp/K" "$tmp/O"
    same "$was" "$(stat -c '%a %u %g' "$tmp/O")" "has its mode and owner"
    before=$(sums "$tmp/K/best")
    run pretrain --resume "$tmp/K" --steps 4 --quiet
    [ "$before" != "$(sums "$tmp/K/best")" ]
    result $? "a better model takes the place of one of mode $mode"
    same "$was" "$(stat -c '%a %u %g' "$tmp/K/best")" "and has its mode and owner"
    same "$file" "$(stat -c '%a %u %g' "$tmp/K/best/model.safetensors")" "and so have its files"
done

# access lists: 4711 reads and writes, the group reads; a mode has the mask where the group's bits are
list() { # set|get PATH...
    python3 - "$@" <<'PY'
import os, struct, sys
entries = [(1, 6, -1), (2, 6, 4711), (4, 4, -1), (16, 6, -1), (32, 0, -1)]
for path in sys.argv[2:]:
    if sys.argv[1] == "set":
        os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries))
    print(os.getxattr(path, "system.posix_acl_access").hex(), oct(os.stat(path).st_mode))
PY
}
rm -rf "$tmp/K" "$tmp/page.html"
cp -a "$tmp/best" "$tmp/K"
run report "$tmp/best" --html "$tmp/page.html"
mkdir "$tmp/K/best/sub"
if was=$(list set "$tmp/page.html" "$tmp/K/best/config.json" "$tmp/K/best/sub" 2>"$tmp/null"); then
    works "a page with an access list is written anew" report "$tmp/best" --html "$tmp/page.html"
    run pretrain --resume "$tmp/K" --steps 4 --quiet
    same "$was" "$(list get "$tmp/page.html" "$tmp/K/best/config.json" "$tmp/K/best/sub")" "and has its list, as have the files and folders of best"
else
    skip "access lists" "the file system has none"
fi

# ---- a snapshot that is put in the place of the file system under a living process

works "a run on a device" pretrain --run "$tmp/dev" $data $shape --steps 2
truncate -s 256M "$tmp/image1" # sparse: a training that nobody stops fills 32M within a minute
mkdir "$tmp/m"
if [ "$(id -u)" = 0 ] && command -v mkfs.ext4 >"$tmp/null" && mkfs.ext4 -q "$tmp/image1" && mount -o loop "$tmp/image1" "$tmp/m" 2>"$tmp/null"; then
    trap 'umount "$tmp/m" "$tmp/m"; rm -rf "$tmp"' EXIT
    unmount() { for _ in $(seq 600); do umount "$tmp/m" 2>"$tmp/null" && break; sleep 0.1; done; } # a ring is taken down after its process
    for kind in ram dev ram+lock; do # lock: it comes while the process opens a run.lock that was removed
        [ $kind != ram+lock ] || [ -f "$shim" ] || break
        rm -rf "$tmp/m/at" "$tmp/held" "$tmp/held.over" # an earlier one would let it pass
        cp -a "$tmp/${kind%+lock}" "$tmp/m/at"
        works "a run on the file system ($kind)" pretrain --resume "$tmp/m/at" --steps 3 --quiet
        [ $kind = dev ] || set -- --commit-every 1
        [ $kind != ram+lock ] || export LD_PRELOAD="$shim" SHIM_AT="open:/run.lock:3:$tmp/held"
        begin "$tmp/m/at" "$@"
        unset LD_PRELOAD SHIM_AT
        kill -STOP $pid
        sync
        cp "$tmp/image1" "$tmp/image2"
        if [ $kind = ram+lock ]; then
            rm "$tmp/m/at/run.lock"
            kill -CONT $pid
            for _ in $(seq 600); do [ ! -e "$tmp/held" ] || break; sleep 0.1; done
            result "$([ -e "$tmp/held" ]; echo $?)" "it stands where it opens a run.lock that was removed"
        fi
        mount -o loop "$tmp/image2" "$tmp/m"
        was=$(cd "$tmp/m/at" && find . -type f -exec sha256sum {} + | sort -k 2)
        kill -CONT $pid
        rm -f "$tmp/held"
        ends "by now\|was removed, renamed or replaced\|was replaced by another program" "the process ends ($kind)"
        same "$was" "$(cd "$tmp/m/at" && find . -type f -exec sha256sum {} + | sort -k 2)" "what was put there is as it was"
        works "is whole" check "$tmp/m/at"
        works "and goes on" pretrain --resume "$tmp/m/at" --steps 1 --quiet
        unmount
        set --
    done
    unmount
    trap 'rm -rf "$tmp"' EXIT
else
    skip "a snapshot" "nothing may be mounted here"
fi

# ---- who reads writes nothing: what a killed training left of its log stays for who goes on with it

rm -rf "$tmp/at"
cp -a "$tmp/dev" "$tmp/at"
begin "$tmp/at"
kill -KILL $pid
wait $pid 2>"$tmp/null"
left() { (cd "$tmp/at" && find . -type f ! -name run.db-shm -exec sha256sum {} + | sort -k 2); }
was=$(left)
result "$([ -s "$tmp/at/run.db-wal" ]; echo $?)" "a killed training left its log"
for command in report check; do # eval, generate and export finish a step that was begun
    works "it is read: $command" $command "$tmp/at"
    same "$was" "$(left)" "nothing of it changed"
done
works "and it goes on" pretrain --resume "$tmp/at" --steps 1 --quiet
result "$([ ! -e "$tmp/at/run.db-wal" ]; echo $?)" "which leaves no log"

# ---- a model that is written over in place while it is read: what was read before and after are of two models

if [ -n "$shim" ]; then
    works "a model in a folder" export "$tmp/dev" "$tmp/model" --last
    works "and in a GGUF file" export "$tmp/dev" "$tmp/model.gguf" --last
    for from in model/model.safetensors model.gguf; do
        for how in none written grown removed; do
            rm -rf "$tmp/from" "$tmp/from.gguf" "$tmp/copy"
            cp -r "$tmp/model" "$tmp/from" && cp "$tmp/model.gguf" "$tmp/from.gguf"
            file=$tmp/from${from#model} # of the folder, or the file itself
            case $from in model/*) at=$tmp/from ;; *) at=$file ;; esac
            held "mkdir:/copy.new-:1" export "$at" "$tmp/copy"
            case $how in
            written) head -c "$(stat -c %s "$file")" /dev/zero >"$tmp/zeros" && cat "$tmp/zeros" >"$file" ;;
            grown) echo x >>"$file" ;;
            removed) rm "$file" ;;
            esac
            rm -f "$tmp/held"
            wait $pid
            got=$?
            case $how-$from in
            none-* | removed-*.safetensors) result "$([ $got = 0 ] && "$bin" check "$tmp/copy" --quiet; echo $?)" "export of $from ($how)" ;;
            *) result "$([ $got != 0 ] && [ $got -le 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && [ ! -e "$tmp/copy" ]; echo $?)" "export refuses $from ($how)" ;;
            esac
            [ $how != grown ] || result "$(grep -q "$file was changed while it was read" "$tmp/err"; echo $?)" "  and says so"
        done
    done
fi

# ---- restore writes to no file that is not certainly the run's own

cp "$tmp/text.txt" "$tmp/mine"
for n in 1 2 3 4 5 6 7; do cat "$tmp/text.txt" "$tmp/text.txt" "$tmp/text.txt" >>"$tmp/mine"; done
head -c 3M /dev/zero | tr '\0' x >>"$tmp/mine"
mine=$(sha256sum <"$tmp/mine")
is_mine() { same "$mine" "$(sha256sum <"$1")" "  the user's file is as it was"; }
mkdir "$tmp/place" "$tmp/user"
snapped="--snapshot-every 2 --steps 4 --mode base --spare-slots few"
# shellcheck disable=SC2086
works "a run with a device elsewhere" pretrain --run "$tmp/linked" $data $shape $snapped --device "$tmp/place"
file=$(echo "$tmp/place"/sitrain-*-dev0)
cp "$tmp/mine" "$tmp/user/states"
rm "$file"
ln -s "$tmp/user/states" "$file"
works "a link leads from the device's name to a user's file" restore "$tmp/linked"
is_mine "$tmp/user/states"
result "$([ -L "$(echo "$file".cut-*)" ] && grep -q "$file is not certainly device 0 of this run: it is $file.cut-" "$tmp/err"; echo $?)" "  and the link has another name, which is said"
rm "$file".cut-*
mv "$file" "$tmp/place/kept"
cp "$tmp/mine" "$file"
works "a user's file has the device's name" restore "$tmp/linked"
is_mine "$(echo "$file".cut-*)"
dd if=/dev/urandom of="$file" bs=4096 count=1 conv=notrunc 2>"$tmp/null"
works "the device's own file without its superblock" restore "$tmp/linked"
works "  is whole" check "$tmp/linked"
ln "$file" "$tmp/user/backup"
truncate -s 60K "$file"
refuses 2 "has other names too (hard links)" restore "$tmp/linked"
same 61440 "$(stat -c %s "$tmp/user/backup")" "  which has its length"
result "$(sqlite3 "$tmp/linked/run.db" "SELECT count(*) FROM runs WHERE key = 'going_back'" | grep -qx 0; echo $?)" "  nor does the run go back"
# shellcheck disable=SC2086
run pretrain --run "$tmp/within" $data $shape $snapped
rm -r "$tmp/within/dev0"
ln -s "$tmp/user" "$tmp/within/dev0"
refuses 2 "$tmp/within/dev0 is a link: remove it; then the same command makes device 0 in $tmp/within" restore "$tmp/within"
is_mine "$tmp/user/states"
rm "$tmp/within/dev0"
works "as it says" restore "$tmp/within"

# a snapshot's file on a drive
mkdir "$tmp/p1" "$tmp/p2"
# shellcheck disable=SC2086
run pretrain --run "$tmp/parity" $data $shape $snapped --snapshot-on devices --device "$tmp/p1" --device "$tmp/p2"
file=$(echo "$tmp/p1"/parity-*/step-00000002.*.parity0)
rm "$file"
ln -s "$tmp/user/states" "$file"
run restore "$tmp/parity"
result "$([ "$got" = 1 ] && grep -q "of its snapshots, 1 cannot be made whole" "$tmp/err"; echo $?)" "a link in the place of a snapshot's file on a drive"
is_mine "$tmp/user/states"
rm "$file"
works "without the link its parity is made again" restore "$tmp/parity"
works "  and it is whole" snapshots "$tmp/parity" --check

# a backup was put in the place of a run whose parent was renamed
mkdir -p "$tmp/old/d" "$tmp/new"
# shellcheck disable=SC2086
run pretrain --run "$tmp/old/r" $data $shape $snapped --device "$tmp/old/d"
cp -a "$tmp/old" "$tmp/backup"
mv "$tmp/old" "$tmp/moved"
cp -a "$tmp/backup" "$tmp/old"
theirs=$(sha256sum "$tmp/old/d"/*)
refuses 1 "is not the file that $tmp/moved/r was trained with, and may be another run's" restore "$tmp/moved/r"
same "$theirs" "$(sha256sum "$tmp/old/d"/*)" "  the backup's device is as it was"
works "another place" restore "$tmp/moved/r" --device "0=$tmp/new"
same "$theirs" "$(sha256sum "$tmp/old/d"/*)" "  the backup's device is as it was"
works "  both are whole" check "$tmp/moved/r"
works "  both are whole" check "$tmp/old/r"

# --device names a place where a copy's device lies
mkdir "$tmp/d1" "$tmp/d2" "$tmp/d3"
# shellcheck disable=SC2086
run pretrain --run "$tmp/origin" $data $shape $snapped --device "$tmp/d1"
cp -a "$tmp/d1"/* "$tmp/d2"
theirs=$(sha256sum "$tmp/d2"/*)
run pretrain --resume "$tmp/origin" --steps 6 --quiet
rm "$tmp/d1"/*
run restore "$tmp/origin" --device "0=$tmp/d2"
result "$([ "$got" = 1 ] && grep -q "is not the file that $tmp/origin was trained with" "$tmp/err"; echo $?)" "a copy's device in the place that --device names"
same "$theirs" "$(sha256sum "$tmp/d2"/*)" "  it is as it was"
works "another place" restore "$tmp/origin" --device "0=$tmp/d3"

# a copy's drive, or a backup's, is mounted where the drive of the run was
mkdir "$tmp/h1" "$tmp/h2"
# shellcheck disable=SC2086
run pretrain --run "$tmp/stays" $data $shape $snapped --device "$tmp/h1"
cp -a "$tmp/stays" "$tmp/copied"
cp -a "$tmp/h1"/. "$tmp/h2"
run pretrain --resume "$tmp/stays" --steps 5 --quiet
mv "$tmp/h1" "$tmp/h0"
mv "$tmp/h2" "$tmp/h1"
file=$(echo "$tmp/h1"/sitrain-*-dev0)
theirs=$(sha256sum "$file")
for where in "" "--device 0=$tmp/h1"; do
    # shellcheck disable=SC2086
    refuses 1 "$file is not the file that $tmp/stays was trained with, and may be another run's, as a copy's or a backup's: if it holds the states of $tmp/stays, go on with: siTrain pretrain --resume $tmp/stays --device $tmp/h1; if not, name another place with --device 0=PATH, or move it aside (mv), and the same command makes device 0 again" \
        restore "$tmp/stays" $where
done
same "$theirs" "$(sha256sum "$file")" "  the copy's device is as it was"
refuses 1 "the devices hold other states than run.db of $tmp/stays names" pretrain --resume "$tmp/stays" --device "$tmp/h1" --quiet
same "$theirs" "$(sha256sum "$file")" "  the copy's device is as it was"
refuses 2 "no device of $tmp/stays is gone: the states were read where --device says; go on with: siTrain pretrain --resume $tmp/stays --device $tmp/h0" restore "$tmp/stays" --device "0=$tmp/h0"
mkdir "$tmp/h3"
mv "$file" "$tmp/h3"
works "moved aside" restore "$tmp/stays"
works "  the run is whole" check "$tmp/stays"
works "  and its copy has its device" pretrain --resume "$tmp/copied" --device "$tmp/h3" --steps 6 --quiet

# the same in RUN: a copy's device, or a backup's
# shellcheck disable=SC2086
run pretrain --run "$tmp/inner" $data $shape $snapped
cp -a "$tmp/inner" "$tmp/inner2"
run pretrain --resume "$tmp/inner" --steps 5 --quiet
mv "$tmp/inner/dev0" "$tmp/inner0"
mv "$tmp/inner2/dev0" "$tmp/inner/dev0"
theirs=$(sha256sum "$tmp/inner/dev0/states")
refuses 1 "$tmp/inner/dev0/states is not the file that $tmp/inner was trained with, and may be another run's, as a copy's or a backup's: if it holds the states of $tmp/inner, go on with: siTrain pretrain --resume $tmp/inner; if not, move it aside (mv), and the same command makes device 0 again" \
    restore "$tmp/inner"
same "$theirs" "$(sha256sum "$tmp/inner/dev0/states")" "  it is as it was"
run pretrain --resume "$tmp/inner" --steps 6 --quiet
result "$([ "$got" = 1 ]; echo $?)" "  nor does the run go on with it"
same "$theirs" "$(sha256sum "$tmp/inner/dev0/states")" "  it is as it was"
mv "$tmp/inner/dev0" "$tmp/inner2/dev0"
works "moved aside" restore "$tmp/inner"
works "  the run is whole" check "$tmp/inner"
works "  and its copy" check "$tmp/inner2"
cp -a "$tmp/inner" "$tmp/inner3"
rm -r "$tmp/inner/dev0"
cp -a "$tmp/inner3/." "$tmp/inner" # as from a backup
works "put back whole, it goes on" pretrain --resume "$tmp/inner" --steps 5 --quiet
truncate -s 20000 "$tmp/inner/dev0/states"
works "and is restored" restore "$tmp/inner"

# a copy that took the device and was resharded has another layout
# shellcheck disable=SC2086
run pretrain --run "$tmp/first" $data $shape $snapped --device "$tmp/place/f"
cp -a "$tmp/first" "$tmp/taker"
run pretrain --resume "$tmp/taker" --device "$tmp/place/f" --steps 5 --quiet
run reshard "$tmp/taker" --device "$tmp/place/g" --device "$tmp/place/h"
run reshard "$tmp/taker" --device "$tmp/place/f" --device "$tmp/place/i"
theirs=$(sha256sum "$tmp/place/f")
refuses 1 "$tmp/place/f was taken by a copy of this run" restore "$tmp/first"
works "as it says" restore "$tmp/first" --device "0=$tmp/place/j"
same "$theirs" "$(sha256sum "$tmp/place/f")" "  the copy's device is as it was"

# a copy one step behind, of whose states some are still in their slots
mkdir "$tmp/e1"
# shellcheck disable=SC2086
run pretrain --run "$tmp/ahead" $data --n-layer 3 --n-head 1 --n-embd 16 --seq 16 --batch 1 --schedule constant --quiet --steps 4 --mode base --spare-slots few --device "$tmp/e1"
cp -a "$tmp/ahead" "$tmp/behind"
run pretrain --resume "$tmp/ahead" --steps 5 --quiet
refuses 1 "the devices hold other states than run.db of $tmp/behind names (1 of 5 parts)" pretrain --resume "$tmp/behind" --steps 6 --device "$tmp/e1" --quiet
works "the original goes on" pretrain --resume "$tmp/ahead" --steps 6 --quiet

# a reshard that was killed before it removed the old devices, in whose place a copy's are by now
if [ -n "$shim" ]; then
    mkdir "$tmp/g1" "$tmp/g2" "$tmp/g3"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/switched" $data $shape --steps 3 --mode base --device "$tmp/g1"
    cp -a "$tmp/g1"/* "$tmp/g2"
    LD_PRELOAD="$shim" SHIM_AT=unlink:/g1/sit:1:kill "$bin" reshard "$tmp/switched" --device "$tmp/g3" >"$tmp/out" 2>"$tmp/err" </dev/null
    mv "$tmp/g1" "$tmp/g4"
    mv "$tmp/g2" "$tmp/g1"
    theirs=$(sha256sum "$tmp/g1"/sitrain-*)
    works "a reshard killed behind its switch" pretrain --resume "$tmp/switched" --steps 4 --quiet
    result "$(grep -q "was left where it is: it is another file than the run had there" "$tmp/err"; echo $?)" "  says what it has left"
    same "$theirs" "$(sha256sum "$tmp/g1"/sitrain-*)" "  which is as it was"
else
    skip "a reshard killed behind its switch" "no shim"
fi

done_testing
