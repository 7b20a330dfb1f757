#!/bin/sh
# What is around a run: a machine of any name, a disk that is full, an overlay as containers have it, several users, long paths, few files
# that may be open. A run goes on, or one sentence says what to do. Prints TAP.
. tests/tap.sh
find_shim
export OMP_WAIT_POLICY=passive # threads that spin slow each other down

smallest
works "a run" pretrain --run "$tmp/run" $data $shape --steps 2
works "a run in memory" pretrain --run "$tmp/ram" $data $shape --steps 2 --mode mem
works "a run with a best model" pretrain --run "$tmp/best" $data --eval-data "$tmp/text.bin" $shape --steps 2 --keep-best --eval-every 1 --lr 1e-2
root=$([ "$(id -u)" = 0 ] && echo yes)

# ---- the machine's name

# named NAME COMMAND...: the program on a machine of that name
named() {
    unshare -u python3 -c 'import os, socket, sys
socket.sethostname(sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])' "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
if [ "$root" ] && unshare -u true 2>"$tmp/null"; then
    for name in 'a b' '' 'a/b' 'a
b' '=' '%s'; do
        rm -rf "$tmp/named"
        named "$name" "$bin" pretrain --run "$tmp/named" $data $shape --steps 2 --tensorboard auto
        result "$got" "a run is made on a machine with the name '$(echo "$name" | tr '\n' '|')'"
        works "and is whole" check "$tmp/named"
        [ -f "$shim" ] || continue
        rm -rf "$tmp/named"
        (export LD_PRELOAD="$shim" SHIM_AT="name:/named:3:kill" && named "$name" "$bin" pretrain --run "$tmp/named" $data $shape --steps 2) 2>"$tmp/null"
        result "$([ -e "$tmp/named/run.lock" ] && [ ! -e "$tmp/named/run.db" ]; echo $?)" "killed as it makes one"
        works "it is made by the next" pretrain --run "$tmp/named" $data $shape --steps 2
    done
else
    skip "a machine's name" "only root may change it"
fi

# ---- a full disk: run.db-shm has holes where blocks are small, and a hole that cannot be filled is a signal

truncate -s 12M "$tmp/image"
mkdir "$tmp/m"
if [ "$root" ] && command -v mkfs.ext4 >"$tmp/null" && mkfs.ext4 -q -m 0 -b 1024 "$tmp/image" && mount -o loop "$tmp/image" "$tmp/m" 2>"$tmp/null"; then
    trap 'umount "$tmp/m"; rm -rf "$tmp"' EXIT
    wrong= full=0
    for room in 4 12 20 28 36 44 60 80 120; do # KiB
        rm -rf "$tmp"/m/*
        cp -a "$tmp/ram" "$tmp/m/ram"
        sync
        head -c $((($(stat -f -c '%a * %S / 1024' "$tmp/m") - room) * 1024)) /dev/zero >"$tmp/m/fill" 2>"$tmp/null"
        sync
        run pretrain --resume "$tmp/m/ram" --steps 4 --quiet
        [ "$got" = 0 ] || full=$((full + 1))
        { [ "$got" = 0 ] || { [ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ]; }; } || wrong="$wrong $room:$got"
        rm "$tmp/m/fill"
        run pretrain --resume "$tmp/m/ram" --steps 4 --quiet
        [ "$got" = 0 ] && "$bin" check "$tmp/m/ram" >"$tmp/out" 2>"$tmp/err" || wrong="$wrong $room:not whole"
    done
    result "$([ -z "$wrong" ] && [ $full -gt 2 ]; echo $?)" "on a disk with little room a training ends with a sentence ($full times), and goes on with more$wrong"
    umount "$tmp/m"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "a full disk" "nothing may be mounted here"
fi

# ---- an overlay: what lies in a lower layer cannot be renamed; with several file systems a file's drive is not its folder's

mkdir -p "$tmp/lower" "$tmp/up/u" "$tmp/up/w"
for what in run best tok; do cp -a "$tmp/$what" "$tmp/lower/"; done
over() { # UPPER: mounted at $tmp/m
    mkdir -p "$1/u" "$1/w" && mount -t overlay overlay -o "lowerdir=$tmp/lower,upperdir=$1/u,workdir=$1/w" "$tmp/m" 2>"$tmp/null"
}
leave() { for _ in $(seq 600); do umount "$tmp/m" 2>"$tmp/null" && break; sleep 0.1; done; } # a ring is taken down after its process
if [ "$root" ] && over "$tmp/up"; then
    trap 'umount "$tmp/m"; umount "$tmp/ramdisk"; rm -rf "$tmp"' EXIT
    refuses 1 "is in a layer below this overlay" pretrain --resume "$tmp/m/best" --steps 4 --quiet
    works "and all is whole" check "$tmp/m/best"
    mv "$tmp/m/best/best" "$tmp/m/best/best.1" && mv "$tmp/m/best/best.1" "$tmp/m/best/best"
    works "as it says, the run goes on" pretrain --resume "$tmp/m/best" --steps 4 --quiet
    "$bin" pretrain --resume "$tmp/m/run" --steps 1000000 --quiet >"$tmp/log" 2>&1 </dev/null &
    pid=$!
    for _ in $(seq 1200); do grep -q "^process $pid " "$tmp/up/u/run/run.lock" 2>"$tmp/null" && break; sleep 0.05; done
    refuses 1 ", whose lock is not seen by this path" pretrain --resume "$tmp/up/u/run" --quiet
    kill -INT $pid
    wait $pid
    result "$([ $? = 130 ]; echo $?)" "a run by an overlay is not disturbed by the layer's path"
    works "and is whole" check "$tmp/m/run"
    refuses 1 "cannot exchange two folders in one step: remove" prepare "$tmp/text.txt" --train-tokenizer --vocab 262 --out "$tmp/m/tok"
    leave
    mkdir "$tmp/ramdisk" && mount -t tmpfs tmpfs "$tmp/ramdisk" && over "$tmp/ramdisk"
    for steps in 3 4; do
        works "a run of which a part is in a layer on another file system goes on to $steps" pretrain --resume "$tmp/m/run" --steps $steps --quiet
    done
    works "and is whole" check "$tmp/m/run"
    leave
    umount "$tmp/ramdisk"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "an overlay" "nothing may be mounted here"
fi

# ---- a file system with room, but without names for more files

mkdir "$tmp/few"
if [ "$root" ] && mount -t tmpfs -o size=20M tmpfs "$tmp/few" 2>"$tmp/null"; then
    trap 'umount -l "$tmp/few"; rm -rf "$tmp"' EXIT
    works "a run on it" pretrain --run "$tmp/few/run" $data $shape --steps 2 --device-in-ram
    wrong= short=0
    for more in 2 4 6 8 9 10 11 12 13 14; do
        rm -rf "$tmp/few/run/snapshots"
        mount -o "remount,nr_inodes=$(($(stat -f -c '%c - %d' "$tmp/few") + more))" "$tmp/few"
        run pretrain --resume "$tmp/few/run" --steps $((more + 2)) --snapshot-every 100 --quiet
        [ "$got" = 0 ] || wrong="$wrong $more:$got"
        grep -q "No space left on device" "$tmp/err" && short=$((short + 1))
        ! grep "No such file" "$tmp/err" >"$tmp/null" || wrong="$wrong $more:$(cat "$tmp/err")"
    done
    result "$([ -z "$wrong" ] && [ $short -gt 4 ]; echo $?)" "a snapshot without names for its files says so ($short times), and training goes on$wrong"
    umount -l "$tmp/few"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "a file system without names" "nothing may be mounted here"
fi

# ---- two users of one group

if [ "$root" ] && command -v setpriv >"$tmp/null"; then
    chmod 755 "$tmp"
    one() { (umask 002 && setpriv --reuid 4711 --regid 4700 --clear-groups "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null); got=$?; }
    two() { (umask 002 && setpriv --reuid 4712 --regid 4700 --clear-groups "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null); got=$?; }
    cp -a "$tmp/best" "$tmp/shared"
    chown -R 4711:4700 "$tmp/shared" && chmod -R g+rwX "$tmp/shared" && find "$tmp/shared" -type d -exec chmod g+s {} +
    for step in 1 2 3; do
        two reshard "$tmp/shared" --devices $((step % 2 + 1)) --quiet
        [ "$got" != 0 ] || one pretrain --resume "$tmp/shared" --steps $((step + 2)) --quiet
        result "$got" "one user trains what another one has divided anew, and the other way round ($step)"
    done
    # in a folder that the group may write to, a run that it may only read: nobody leaves a file that its owner could not write
    cp -a "$tmp/shared" "$tmp/team"
    chown -R 4711:4700 "$tmp/team" && chmod -R g-w "$tmp/team" && chmod 2775 "$tmp/team"
    for lock in "" run.lock; do # the second time, as after somebody removed it
        [ -z "$lock" ] || rm "$tmp/team/$lock"
        (cd "$tmp/team" && find . | sort) >"$tmp/before"
        for command in report check snapshots "watch --once" "eval --data $tmp/text.bin --batch 1" "check --repair" "pretrain --steps 9 --resume"; do
            # shellcheck disable=SC2086
            two $command "$tmp/team"
            case $command in
            *--repair* | *--resume*) result "$([ "$got" = 1 ]; echo $?)" "another user may not: $command" ;;
            *) result "$got" "another user may: $command" ;;
            esac
        done
        (cd "$tmp/team" && find . | sort) | diff "$tmp/before" - >"$tmp/out" 2>&1
        result $? "and nothing was left there${lock:+, nor a run.lock}"
    done
    one pretrain --resume "$tmp/team" --steps 6 --quiet
    result "$got" "and its owner goes on"
    # what root makes for their run in a folder of root's is theirs
    mkdir -m 1777 "$tmp/drive" "$tmp/kept"
    mkdir "$tmp/theirs" && chown 4711:4700 "$tmp/theirs"
    one pretrain --run "$tmp/theirs/r" $data $shape --steps 2 --snapshot-every 1 --device "$tmp/drive"
    rm "$tmp"/drive/*
    works "root makes their lost device again" restore "$tmp/theirs/r"
    one pretrain --resume "$tmp/theirs/r" --steps 3
    result "$got" "and they go on"
    works "root trains their run" pretrain --resume "$tmp/theirs/r" --steps 4 --snapshot-dir "$tmp/kept" --tensorboard "$tmp/drive/board"
    one pretrain --resume "$tmp/theirs/r" --steps 5
    same "0 0 2" "$got $(grep -c "no snapshot" "$tmp/err") $(ls -d "$tmp"/kept/r-*/step-* | wc -l)" "and they go on and take snapshots there"
    result "$([ -z "$(find "$tmp/theirs" "$tmp"/drive/* "$tmp"/kept/* ! -user 4711 2>&1)" ]; echo $?)" "and nothing of it is root's"
    # one who may write the run, whose own group is another one, is killed while reading it
    cp -a "$tmp/team" "$tmp/wide"
    chmod -R g+w "$tmp/wide" && chmod 775 "$tmp/wide"
    (umask 002; LD_PRELOAD="$shim" SHIM_AT=any:wide/dev0/states:1:kill setpriv --reuid 4712 --regid 4799 --groups 4700 \
        "$bin" eval "$tmp/wide" --last --data "$tmp/text.bin") >"$tmp/out" 2>"$tmp/err" </dev/null
    same "137 4700 4700" "$? $(echo $(stat -c %g "$tmp/wide/run.db-wal" "$tmp/wide/run.db-shm"))" "what a killed reader leaves has the group of run.db"
    one pretrain --resume "$tmp/wide" --steps 7 --quiet
    result "$got" "so its owner goes on"
    mkdir "$tmp/shared/best/notes" && echo private >"$tmp/shared/best/private" && echo mine >"$tmp/shared/best/notes/x"
    chown 4712:4700 "$tmp/shared/best/notes" "$tmp/shared/best/private" "$tmp/shared/best/notes/x" && chmod 600 "$tmp/shared/best/private"
    chmod 755 "$tmp/shared/best/notes"
    one pretrain --resume "$tmp/shared" --steps 6 --quiet
    result "$([ "$got" = 2 ] && grep -q "best/notes, in the folder of the best model.*another user's" "$tmp/err"; echo $?)" "a folder that only its owner may move is refused"
    chmod 775 "$tmp/shared/best/notes"
    one pretrain --resume "$tmp/shared" --steps 12 --quiet
    result "$got" "one that the group may move comes along"
    same "4712 600 4712 644 4712 2775" "$(echo $(cd "$tmp/shared/best" && stat -c '%u %a' private notes/x notes))" "and all are whose they were"
    result "$([ -z "$(ls -d "$tmp"/shared/best.* 2>"$tmp/null")" ]; echo $?)" "nothing is left next to best"
    for what in best best/own; do
        mkdir -p "$tmp/shared/best/own" && chown 4711 "$tmp/shared/best/own" && chmod 555 "$tmp/shared/$what"
        one pretrain --resume "$tmp/shared" --steps 13 --quiet
        result "$([ "$got" = 2 ] && grep -q "shared/$what.* is write-protected: allow writing first" "$tmp/err"; echo $?)" "a folder that its owner protects is not moved ($what)"
        chmod 775 "$tmp/shared/$what"
    done
    chmod 775 "$tmp/shared"
    for what in best tokenizer dev0 .; do # not missing, not copied, not somebody else's
        chmod 000 "$tmp/shared/$what"
        one check "$tmp/shared"
        result "$([ "$got" = 1 ] && grep -q "shared.*: Permission denied" "$tmp/err" && ! grep -q "damaged" "$tmp/out"; echo $?)" "what its owner may not read is no damage ($what)"
        one pretrain --resume "$tmp/shared" --steps 13 --quiet
        result "$([ "$got" != 0 ] && grep -q "shared.*: Permission denied\|best.*is write-protected" "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "and training names it ($what)"
        chmod 775 "$tmp/shared/$what"
    done
    chmod 555 "$tmp/shared"
    one pretrain --resume "$tmp/shared" --steps 13 --quiet
    result "$([ "$got" = 1 ] && grep -q "shared may not be written: Permission denied" "$tmp/err"; echo $?)" "a folder that may not be written is named"
    chmod 775 "$tmp/shared"
    echo log >"$tmp/shared/run.db-wal"
    chmod 600 "$tmp/shared/run.db-wal"
    one report "$tmp/shared"
    result "$([ "$got" = 1 ] && grep -q "shared/run.db-wal may not be read: Permission denied" "$tmp/err"; echo $?)" "a log that may not be read is named"
    rm "$tmp/shared/run.db-wal"
    if chattr +i "$tmp/shared" 2>"$tmp/null"; then
        refuses 1 "shared is immutable or append-only" pretrain --resume "$tmp/shared" --steps 13 --quiet
        chattr -i "$tmp/shared"
    fi
else
    skip "two users" "only root may be both"
fi

# ---- a FUSE file system that keeps locks to itself: by its path the run has no lock

mkdir "$tmp/fuse"
sftp=/usr/lib/openssh/sftp-server
printf '#!/bin/sh\nexec %s\n' $sftp >"$tmp/sftp"
chmod +x "$tmp/sftp"
mounted() {
    case $1 in
    bindfs) bindfs "$tmp" "$tmp/fuse" ;;
    *) [ -x $sftp ] && sshfs -o dir_cache=no -o ssh_command="$tmp/sftp" "here:$tmp" "$tmp/fuse" ;; # it numbers files anew, and tells no time of birth
    esac 2>"$tmp/null"
}
for fs in bindfs sshfs; do
    if ! command -v $fs >"$tmp/null" || ! mounted $fs; then
        skip "a FUSE file system" "no $fs here"
        continue
    fi
    trap 'umount -l "$tmp/fuse"; rm -rf "$tmp"' EXIT
    for path in "" /fuse; do # the first process has it by this path, the others by the other one
        [ "$path" ] && other= || other=/fuse
        "$bin" pretrain --resume "$tmp$path/run" --steps 1000000 --quiet >"$tmp/log" 2>&1 </dev/null &
        pid=$!
        for _ in $(seq 1200); do grep -q "^process $pid " "$tmp/run/run.lock" && break; sleep 0.05; done
        kill -0 $pid 2>"$tmp/null" || { result 1 "$fs: a training: $(cat "$tmp/log")" && continue; }
        for command in "pretrain --resume" check report reshard; do
            # shellcheck disable=SC2086
            run $command "$tmp$other/run" $([ "$command" != reshard ] || echo --devices 2)
            result "$([ "$got" = 1 ] && grep -q "in use by process $pid on .*, whose lock is not seen by this path" "$tmp/err"; echo $?)" \
                "$fs: a run that is trained by ${path:-its own path} is refused by ${other:-its own path}: $command"
        done
        # as from another container, or where /proc does not show the process
        for space in "-p -f --mount-proc" -u "-T --boottime 1000 -f" "-m sh -c 'umount -l /proc; exec \"\$@\"' sh"; do
            unshare -m -u -p -f -T true 2>"$tmp/null" || { skip "$fs: unshare $space" "not allowed here" && continue; }
            eval "unshare $space \"\$bin\" pretrain --resume \"\$tmp\$other/run\" --quiet" >"$tmp/out" 2>"$tmp/err"
            result "$([ $? = 1 ] && grep -q "in use by process $pid on .*, whose lock is not seen by this path" "$tmp/err"; echo $?)" \
                "$fs: and from another namespace: unshare $space"
        done
        kill -INT $pid
        wait $pid
        result "$([ $? = 130 ]; echo $?)" "$fs: the training was not disturbed"
        works "$fs: and the run is whole" check "$tmp/run"
    done
    # two at once: one has looked at run.lock, and writes to it when the other one has written, too
    if [ -f "$shim" ]; then
        rm -rf "$tmp/pair"
        run pretrain --run "$tmp/pair" $data $shape --steps 2
        held pwrite:/pair/run.lock:1 pretrain --resume "$tmp/fuse/pair" --steps 1000000 --quiet
        late=$pid
        "$bin" pretrain --resume "$tmp/pair" --steps 1000000 --quiet >"$tmp/log" 2>&1 </dev/null &
        pid=$!
        for _ in $(seq 1200); do grep -q "^process $pid " "$tmp/pair/run.lock" && break; sleep 0.05; done
        rm "$tmp/held"
        for _ in $(seq 100); do kill -0 $pid 2>"$tmp/null" && kill -0 $late 2>"$tmp/null" || break; sleep 0.05; done
        kill -INT $pid $late 2>"$tmp/null"
        wait $pid
        ended=$?
        wait $late
        result "$([ "$ended" = 1 ] || [ $? = 1 ]; echo $?)" "$fs: of two that take a run at once by two paths, one ends by itself"
        grep -q "the run is in use by .*by another path" "$tmp/log" "$tmp/err"
        result $? "$fs: and says why"
        works "$fs: and the run is whole" check "$tmp/pair"
        # two containers: siTrain is process 1 in both, and begun when /proc says (here: when the machine's process 1 was)
        if unshare -p -f true 2>"$tmp/null"; then
            printf '#!/bin/sh\nexec unshare -p -f --kill-child %s "$@"\n' "$bin" >"$tmp/contained"
            chmod +x "$tmp/contained"
            rm -f "$tmp/late" "$tmp/ended"
            (bin=$tmp/contained; held pwrite:/pair/run.lock:1 pretrain --resume "$tmp/fuse/pair" --steps 1000000 --quiet; echo $pid >"$tmp/late"; wait $pid; echo $? >"$tmp/ended") &
            outer=$!
            until [ -s "$tmp/late" ]; do sleep 0.05; done
            "$tmp/contained" pretrain --resume "$tmp/pair" --steps 1000000 --quiet >"$tmp/log" 2>&1 </dev/null &
            pid=$! late=$(cat "$tmp/late")
            for _ in $(seq 1200); do grep -q "^process 1 " "$tmp/pair/run.lock" && break; sleep 0.05; done
            rm "$tmp/held"
            for _ in $(seq 100); do kill -0 $pid 2>"$tmp/null" && kill -0 "$late" 2>"$tmp/null" || break; sleep 0.05; done
            for one in $pid "$late"; do # unshare itself ignores the signal
                kill -INT "$(cat "/proc/$one/task/$one/children" 2>"$tmp/null")" 2>"$tmp/null"
            done
            wait $pid
            ended=$?
            wait $outer
            result "$([ "$ended" = 1 ] || [ "$(cat "$tmp/ended")" = 1 ]; echo $?)" "$fs: of two containers' processes of one number and beginning, one ends by itself"
            grep -q "the run is in use by process 1 .*by another path" "$tmp/log" "$tmp/err"
            result $? "$fs: and says why"
            works "$fs: and the run is whole" check "$tmp/pair"
        else
            skip "$fs: two containers" "not allowed here"
        fi
    fi
    if [ $fs = sshfs ]; then # after each mount the folder that is looked up first has the same number
        mkdir "$tmp/drive"
        umount -l "$tmp/fuse"
        mounted $fs
        works "a run with a device outside it" pretrain --run "$tmp/fuse/afar" $data $shape --steps 2 --device "$tmp/drive"
        cp -a "$tmp/afar" "$tmp/copied"
        umount -l "$tmp/fuse"
        mounted $fs
        refuses 1 "this file system tells no time of birth" pretrain --resume "$tmp/fuse/copied" --steps 4 --quiet
    fi
    umount -l "$tmp/fuse"
    trap 'rm -rf "$tmp"' EXIT
done

# ---- a file system that opens files with O_DIRECT and refuses to read them

mkdir "$tmp/lower2" "$tmp/upper2" "$tmp/union"
cp -a "$tmp/run" "$tmp/lower2/"
if [ "$root" ] && command -v unionfs-fuse >"$tmp/null" && unionfs-fuse -o cow "$tmp/upper2=RW:$tmp/lower2=RO" "$tmp/union" 2>"$tmp/null"; then
    trap 'umount -l "$tmp/union"; rm -rf "$tmp"' EXIT
    works "unionfs: a run is whole" check "$tmp/union/run"
    works "unionfs: and goes on, with snapshots" pretrain --resume "$tmp/union/run" --steps 40 --quiet --snapshot-every 40
    result "$(! grep -q "no snapshot" "$tmp/err"; echo $?)" "unionfs: which are made"
    works "unionfs: and is whole" check "$tmp/union/run" --scrub
    mkdir "$tmp/union/d0" "$tmp/union/d1" "$tmp/union/d2"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/union/p" $data $shape --mode su+o --device "$tmp/union/d0" --device "$tmp/union/d1" --device "$tmp/union/d2" --steps 2 --snapshot-every 2 --snapshot-on devices
    rm -r "$tmp"/union/d1/*
    works "unionfs: a lost device" restore "$tmp/union/p"
    result "$(grep -q "went back to step 2" "$tmp/err"; echo $?)" "unionfs: is made again by parity"
    umount -l "$tmp/union"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "unionfs" "no unionfs-fuse here, or nothing may be mounted"
fi

# ---- one that refuses to write them

mkdir "$tmp/branch" "$tmp/merged"
if [ "$root" ] && command -v mergerfs >"$tmp/null" && mergerfs "$tmp/branch" "$tmp/merged" 2>"$tmp/null"; then
    trap 'umount -l "$tmp/merged"; rm -rf "$tmp"' EXIT
    # shellcheck disable=SC2086
    works "mergerfs: a run" pretrain --run "$tmp/merged/run" $data $shape --steps 2 --snapshot-every 2
    works "mergerfs: goes on" pretrain --resume "$tmp/merged/run" --steps 4 --quiet
    works "mergerfs: and is whole" check "$tmp/merged/run" --scrub
    mkdir "$tmp/merged/drive" "$tmp/links"
    works "mergerfs: a run with a device behind a link" pretrain --run "$tmp/links/run" $data $shape --steps 1
    mv "$tmp/links/run/dev0/states" "$tmp/merged/drive/states"
    ln -s "$tmp/merged/drive/states" "$tmp/links/run/dev0/states"
    works "mergerfs: it goes on there" pretrain --resume "$tmp/links/run" --steps 3 --quiet --device "$tmp/links/run/dev0/states"
    result "$([ -z "$(find "$tmp/branch" -name '*.tmp')" ]; echo $?)" "mergerfs: nothing that was tried is left"
    umount -l "$tmp/merged"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "mergerfs" "no mergerfs here, or nothing may be mounted"
fi

# ---- one without memory that processes share, which SQLite's log needs

mkdir "$tmp/direct"
if [ "$root" ] && command -v bindfs >"$tmp/null" && bindfs -o direct_io "$tmp" "$tmp/direct" 2>"$tmp/null"; then
    trap 'umount -l "$tmp/direct"; rm -rf "$tmp"' EXIT
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/direct/unshared" $data $shape --steps 2
    if [ "$got" = 0 ]; then
        skip "a file system without shared memory" "this kernel shares it"
    else
        for line in "pretrain --run $tmp/direct/unshared $data $shape --steps 2" "check $tmp/direct/run" "pretrain --resume $tmp/direct/run --steps 50"; do
            # shellcheck disable=SC2086
            refuses 1 "its file system has no memory that processes share (mmap), which the database needs" $line
        done
        works "the run is whole" check "$tmp/run"
    fi
    umount -l "$tmp/direct"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "a file system without shared memory" "no bindfs here, or nothing may be mounted"
fi

# ---- vfat and exFAT number files anew at any time

for fs in vfat exfat; do
    mkdir "$tmp/$fs"
    truncate -s 64M "$tmp/$fs.image"
    if ! { [ "$root" ] && command -v mkfs.$fs && mkfs.$fs "$tmp/$fs.image" && mount -t $fs -o loop "$tmp/$fs.image" "$tmp/$fs"; } >"$tmp/null" 2>&1; then
        skip "$fs" "no mkfs.$fs here, or it cannot be mounted"
        continue
    fi
    trap 'umount "$tmp/$fs"; rm -rf "$tmp"' EXIT
    mkdir "$tmp/$fs/drive" "$tmp/$fs/more"
    # shellcheck disable=SC2086
    works "$fs: a run with a device outside it" pretrain --run "$tmp/$fs/run" $data $shape --steps 2 --device "$tmp/$fs/drive"
    # shellcheck disable=SC2086
    works "$fs: a run" pretrain --run "$tmp/$fs/own" $data $shape --steps 2 --snapshot-dir "$tmp/$fs/more" --snapshot-every 2 --snapshots 1 \
        --export-every 2 --export-limit 1
    for steps in 4 6; do
        umount "$tmp/$fs"
        mount -t $fs -o loop "$tmp/$fs.image" "$tmp/$fs"
        ls -lR "$tmp/$fs/drive" >"$tmp/null" # so that other files come first
        works "$fs: after a mount it goes on to $steps" pretrain --resume "$tmp/$fs/run" --steps $steps --quiet
        works "$fs: and the other one" pretrain --resume "$tmp/$fs/own" --steps $steps --quiet
        same 1 "$(ls "$tmp/$fs/more"/own-* | wc -l)" "$fs: which removes its older snapshots"
        same "checkpoint-$steps" "$(cd "$tmp/$fs/own" && echo checkpoint-*)" "$fs: and its older models"
    done
    cp -r "$tmp/$fs/run" "$tmp/$fs/copy"
    refuses 1 "was copied or moved since it was last used" pretrain --resume "$tmp/$fs/copy" --steps 8 --quiet
    works "$fs: the run is whole" check "$tmp/$fs/run"
    umount "$tmp/$fs"
    trap 'rm -rf "$tmp"' EXIT
done

# ---- a rollback journal of another program: SQLite would write its pages over run.db, whoever opens it

rm -rf "$tmp/journal" && cp -a "$tmp/run" "$tmp/journal"
python3 - "$tmp" <<'PY'
import shutil, sqlite3, sys
other = sqlite3.connect(sys.argv[1] + "/other.db", isolation_level=None)
other.execute("CREATE TABLE t (a)")
other.execute("PRAGMA synchronous = OFF") # so that its header is complete
other.execute("PRAGMA cache_size = 1")
other.execute("BEGIN IMMEDIATE")
for _ in range(100):
    other.execute("INSERT INTO t VALUES (randomblob(3000))")
shutil.copy(sys.argv[1] + "/other.db-journal", sys.argv[1] + "/journal/run.db-journal")
PY
was=$(cat "$tmp/journal/run.db" "$tmp/journal/run.db-journal" | sha256sum)
for command in report check "watch --once" "pretrain --steps 9 --resume"; do
    # shellcheck disable=SC2086
    refuses 2 "run.db-journal is not of siTrain" $command "$tmp/journal"
done
same "$was" "$(cat "$tmp/journal/run.db" "$tmp/journal/run.db-journal" | sha256sum)" "and both files are as they were"

# ---- somebody's file under a name that SQLite takes for its own: it would write over it, and remove it

for f in run.db-wal run.db-shm; do
    rm -rf "$tmp/journal" && cp -a "$tmp/run" "$tmp/journal"
    echo 'a list of my own' >"$tmp/journal/$f"
    for command in report check "pretrain --steps 9 --resume"; do
        # shellcheck disable=SC2086
        refuses 2 "$f is not of siTrain" $command "$tmp/journal"
    done
    same 'a list of my own' "$(cat "$tmp/journal/$f")" "and it is as it was"
done

# ---- a path that SQLite does not take

long=$tmp/$(printf 'd%.0s' $(seq 200))/$(printf 'd%.0s' $(seq 200))
mkdir -p "$long"
refuses 1 "bytes is too long, 504 are the most" pretrain --run "$long/$(printf 'r%.0s' $(seq 80))" $data $shape --steps 1
deep=$tmp
while [ ${#deep} -lt 1500 ]; do deep=$deep/$(printf 'd%.0s' $(seq 99)); done
mkdir -p "$deep"
refuses 1 "bytes is too long, 504 are the most" pretrain --run "$deep/run" $data $shape --steps 1
wide=$tmp/$(printf 'w%.0s' $(seq 250))
works "a run of a long name" pretrain --run "$wide" $data $shape --steps 1 --snapshot-every 1
result "$([ -d "$wide"/snapshots/*/step-00000001 ]; echo $?)" "has its snapshots"
rm -rf "$wide"
wide=$tmp/w$(printf 'ж%.0s' $(seq 50))
works "a run of a long name of other letters" pretrain --run "$wide" $data $shape --steps 1 --snapshot-every 1
same "w$(printf 'ж%.0s' $(seq 31))" "$(cd "$wide/snapshots" && echo * | sed 's/-.*//')" "which is cut between two letters"
deep=$long/$(printf 'r%.0s' $(seq 30))
refuses 2 "a snapshot there would have a path of" pretrain --run "$deep" $data $shape --steps 1 --snapshot-every 1
works "with a folder for them it goes on" pretrain --resume "$deep" --snapshot-dir "$tmp" --snapshot-every 1 --quiet
rm -rf "$deep" "$tmp"/rrrr*-*
rm -rf "$wide"
result "$([ -z "$(ls "$long")" ]; echo $?)" "and nothing is left"
# an output is made under a longer name: this is said before the work, not after it
refuses 2 "the name is too long: at most 234 bytes" report "$tmp/run" --html "$tmp/$(printf 'h%.0s' $(seq 235))"

# ---- another machine, by a network file system

# A server of NFS has its clients' locks as those of fcntl. Each end of one is told from the other by it.
locked() { # COMMAND...: while another process has such a lock of the run
    python3 -c 'import fcntl, subprocess, sys
f = open(sys.argv[1], "r+")
fcntl.lockf(f, fcntl.LOCK_EX)
sys.exit(subprocess.call(sys.argv[2:]))' "$tmp/run/run.lock" "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
if local_fs "a client of NFS"; then
    for command in "pretrain --resume $tmp/run --steps 9" "check $tmp/run" "reshard $tmp/run --devices 2"; do
        locked $command
        [ "$got" = 1 ] && grep -q "the run is in use by" "$tmp/err"
        result $? "where a client of NFS has the run: ${command%% *} is refused"
    done
fi
"$bin" pretrain --resume "$tmp/run" --steps 1000000 --quiet >"$tmp/null" 2>&1 </dev/null &
live=$!
trap 'kill -KILL $live 2>/dev/null; rm -rf "$tmp"' EXIT
until grep -q "^process $live on" "$tmp/run/run.lock"; do sleep 0.05; done
if local_fs "a lock that a client of NFS sees"; then
    python3 -c 'import fcntl, sys; fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)' "$tmp/run/run.lock" 2>"$tmp/null"
    result "$([ $? != 0 ]; echo $?)" "a training's lock is seen by a client of NFS"
fi
# by the machine's start that the kernel tells: a container may have its own
elsewhere() { # COMMAND...
    unshare -m sh -c 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"' sh "$tmp/boot" "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
if [ "$root" ] && echo 01234567-89ab-4def-8123-456789abcdef >"$tmp/boot" && unshare -m mount --bind "$tmp/boot" /proc/sys/kernel/random/boot_id 2>"$tmp/null"; then
    if local_fs "a training of another container"; then
        for command in "report $tmp/run" "check $tmp/run --scrub" "export $tmp/run $tmp/far"; do
            elsewhere $command
            result "$got" "while a process of another container trains the run, which says that the machine started another time: ${command%% *} reads it"
        done
        elsewhere pretrain --resume "$tmp/run"
        [ "$got" = 1 ] && grep -q "the run is in use by process $live" "$tmp/err"
        result $? "and a second one does not write"
    fi
    if mkdir "$tmp/disk" && mount -t tmpfs none "$tmp/disk" 2>"$tmp/null"; then # which Linux does not tell from a client's
        "$bin" pretrain --run "$tmp/disk/run" $data $shape --steps 1000000 --device-in-ram >"$tmp/null" 2>&1 </dev/null &
        far=$!
        trap 'kill -KILL $live $far 2>/dev/null; wait; umount -l "$tmp/disk"; rm -rf "$tmp"' EXIT
        until grep -qs "^process $far on" "$tmp/disk/run/run.lock" && [ -e "$tmp/disk/run/run.db" ]; do sleep 0.05; done
        for command in "report $tmp/disk/run" "check $tmp/disk/run --scrub" "export $tmp/disk/run $tmp/never" "pretrain --resume $tmp/disk/run"; do
            elsewhere $command
            [ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "on another machine" "$tmp/err"
            result $? "while another machine trains the run: ${command%% *} is refused"
        done
        works "this machine reads that, too" report "$tmp/disk/run"
        kill -INT $far
        wait $far
        works "and it is whole" check "$tmp/disk/run"
        trap 'kill -KILL $live 2>/dev/null; rm -rf "$tmp"' EXIT
        umount -l "$tmp/disk"
    else
        skip "a run of another machine" "nothing can be mounted here"
    fi
else
    skip "another machine" "only root may seem to be one"
fi
works "this machine reads it" report "$tmp/run"
kill -INT $live
wait $live
works "and it is whole" check "$tmp/run"

# ---- one look, open or read that fails: its file is not taken for missing, or for somebody else's

anew() {
    rm -rf "$tmp/fresh" "$tmp/once" "$tmp/q"
    mkdir "$tmp/q"
    cp -a "$tmp/best" "$tmp/once"
}
is_not_untrue() { [ "$got" = 0 ] || { [ "$got" = 1 ] && ! grep -qE -- "$untrue" "$tmp/err"; }; }
# never_says PATTERN CALL:TEXT:ERRNO ARGUMENTS...: wherever one such call fails, nor is the exit code that of misuse
never_says() {
    untrue=$1 at=$2
    shift 2
    fails_once "$at" anew is_not_untrue "$1 has no word of '$untrue'" "$@"
}
if [ -f "$shim" ]; then
    cp -a "$tmp/tok" "$tmp/tokens"
    rm "$tmp/tokens/tokenizer.json"
    for at in look:/tok:EIO open:tokenizer_config.json:EIO open:vocab.json:ESTALE pread:/tok:EIO; do
        never_says "prepare did not write|remove it|changed by another" $at prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$tmp/tok"
    done
    never_says "there is no folder" look:/q:EACCES prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/q/t.bin"
    # shellcheck disable=SC2086
    never_says "No such file" 'look:/fresh$:EIO' pretrain --run "$tmp/fresh" --data "$tmp/text.bin" --tokenizer "$tmp/tokens" $shape --steps 1
    # shellcheck disable=SC2086
    never_says "No such file" look:encoder.json:EIO pretrain --run "$tmp/fresh" --data "$tmp/text.bin" --tokenizer "$tmp/tokens" $shape --steps 1
    never_says "is mounted" 'look:/once/best$:EIO' pretrain --resume "$tmp/once" --steps 3 --quiet
    never_says "not this run's best model" open:/once/best:EINTR pretrain --resume "$tmp/once" --steps 3 --quiet
    # shellcheck disable=SC2086
    never_says "not a folder" look:/q:EIO pretrain --run "$tmp/fresh" $data $shape --steps 1 --device "$tmp/q/x" --mode su+o
else
    skip "looks, opens and reads that fail once" "no shim"
fi

done_testing
