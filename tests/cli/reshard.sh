#!/bin/sh
# A run that moves: siTrain reshard onto other drives and other numbers of them, killed anywhere; devices and runs that were moved or copied
# by hand; and who may use a run: two processes, a copy, one who may only read. Prints TAP. SEED=n replays the kills, KILLS=n makes more.
. tests/tap.sh

make_text 1500 >"$tmp/text.txt"
make_text 200 >"$tmp/held.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a text becomes a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
shape="--n-layer 2 --n-head 2 --n-embd 64 --seq 24 --batch 3 --lr 1e-3 --warmup 2 --seed 5 --csd-mem 192K"

# begin RUN ARGUMENTS...: a run of 3 steps, of 6 that its schedule has
begin() {
    name=$1
    shift
    run pretrain --run "$tmp/$name" --data "$tmp/text.bin" --tokenizer "$tmp/tok" $shape --steps 3 --schedule-steps 6 --quiet "$@"
    result "$got" "a run $*"
}

# ends RUN WANT NAME: trained to its end it has these parameters
ends() {
    run pretrain --resume "$tmp/$1" --steps 6 --quiet
    same "$2" "$(exported "$tmp/$1")" "$3"
}

begin stays --mode mem
ends stays "$(run pretrain --resume "$tmp/stays" --steps 6 --quiet && exported "$tmp/stays")" "mem trains to the end"
want=$(exported "$tmp/stays")

# ---- a run.db that is older than run.lock says
begin past
cp -p "$tmp/past/run.db" "$tmp/past.before"
run pretrain --resume "$tmp/past" --steps 5 --quiet
cp -p "$tmp/past.before" "$tmp/past/run.db"
run reshard "$tmp/past" --ranks 2 --new-run "$tmp/of-past"
result "$([ "$got" = 1 ] && grep -q "commits" "$tmp/err" && [ ! -e "$tmp/of-past" ]; echo $?)" "becomes no ranks, and a sentence says why"
rm -r "$tmp/past" "$tmp"/past.*

# ---- moves

begin run --devices 2
half=$(exported "$tmp/run")
works "reshard onto 3 devices" reshard "$tmp/run" --devices 3
same "$half" "$(exported "$tmp/run")" "the parameters stay"
same "3" "$(find "$tmp/run" -name 'states*' | wc -l)" "its 3 files are all that is there"
works "all of it is whole" check "$tmp/run"
mkdir "$tmp/a" "$tmp/b c"
works "reshard onto drives, and other subgroups" reshard "$tmp/run" --device "$tmp/a" --device "$tmp/b c" --device "$tmp/new file" --device "$tmp/a" --csd-mem 1M
same "0" "$(find "$tmp/run" -name 'states*' -o -name 'dev*' | wc -l)" "nothing is left in the run's folder"
works "it is whole there" check "$tmp/run"
(cd "$tmp" && run pretrain --resume run --steps 5 --quiet)
works "it goes on there" pretrain --resume "$tmp/run" --steps 5 --quiet
works "reshard back into the folder" reshard "$tmp/run" --devices 1
same "0" "$(find "$tmp/a" "$tmp/b c" -type f -o -name 'new file' | wc -l)" "nothing is left on the drives"
ends run "$want" "moved three times and trained on: as if it had stayed"

ef="--compress 10% --error-feedback"
begin ef-stays --mode mem $ef
ends ef-stays "$(run pretrain --resume "$tmp/ef-stays" --steps 6 --quiet && exported "$tmp/ef-stays")" "mem with error feedback trains to the end"
begin ef --devices 3 $ef
works "reshard with residuals" reshard "$tmp/ef" --devices 2
works "they are whole" check "$tmp/ef"
ends ef "$(exported "$tmp/ef-stays")" "residuals move along"

# ---- refusals

begin two --device "$tmp/a" --device "$tmp/b c"
first=$(echo "$tmp"/a/sitrain-*-dev0) second=$(echo "$tmp/b c"/sitrain-*-dev1)
hash=$(exported "$tmp/two")
refuses 2 "where to? give --device PATH" reshard "$tmp/two"
refuses 2 "where to? give --device PATH" reshard "$tmp/two" --devices 2 --device "$tmp/a"
refuses 2 "is in mode mem" reshard "$tmp/stays" --devices 2
refuses 2 "expected a folder, a block device or the name of a new file" reshard "$tmp/two" --device "$tmp/text.bin"
refuses 2 "expected a folder for a device" reshard "$tmp/two" --device "$tmp/none/there"
refuses 2 "give a path without line breaks" reshard "$tmp/two" --device "$tmp/new
line"
refuses 2 "siTrain reshard $tmp/two --devices 3 moves it" pretrain --resume "$tmp/two" --devices 3
refuses 2 "siTrain reshard changes the number" pretrain --resume "$tmp/two" --device "$tmp/a"
refuses 1 "holds the states of device 1 of this run, not of device 0: put the file of each device back" pretrain --resume "$tmp/two" --device "$second" --device "$first"
result "$(grep -q -e --repair "$tmp/err"; [ $? = 1 ]; echo $?)" "which no repair would mend"
begin other --devices 2
refuses 1 "belongs to another run: found run" pretrain --resume "$tmp/two" --device "$tmp/other/dev0/states" --device "$second"
cp "$first" "$tmp/older"
printf 'siTrain device 0' | dd of="$tmp/older" conv=notrunc 2>/dev/null
refuses 1 "$tmp/older was made by another version of siTrain" pretrain --resume "$tmp/two" --device "$tmp/older" --device "$second"
refuses 1 "$tmp/text.bin is not a siTrain device" pretrain --resume "$tmp/two" --device "$tmp/text.bin" --device "$second"
same "$hash" "$(exported "$tmp/two")" "what is refused changes nothing"

# ---- moved and copied by hand

mkdir "$tmp/elsewhere"
mv "$first" "$tmp/elsewhere/drive 0"
mv "$second" "$tmp/elsewhere"
refuses 1 "$first" pretrain --resume "$tmp/two" --steps 4
works "devices that moved are found with --device" pretrain --resume "$tmp/two" --device "$tmp/elsewhere/drive 0" --device "$tmp/elsewhere" --steps 4 --quiet
works "and are known from then on" pretrain --resume "$tmp/two" --steps 5 --quiet
ends two "$want" "as if they had stayed"
cp -a "$tmp/run" "$tmp/copy"
mv "$tmp/run" "$tmp/gone"
same "$want" "$(exported "$tmp/copy")" "a copied run is whole where it is"
mkdir "$tmp/data"
cp "$tmp/text.bin" "$tmp/data/moved.bin"
run prepare "$tmp/held.txt" --tokenizer "$tmp/tok" --out "$tmp/data/other.bin"
refuses 2 "leave the option out, or name a file with the same tokens" pretrain --resume "$tmp/copy" --data "$tmp/data/other.bin"
mv "$tmp/text.bin" "$tmp/data/away.bin"
works "its tokens are found where --data says" pretrain --resume "$tmp/copy" --data "$tmp/data/moved.bin" --steps 7 --schedule-steps 7 --quiet
mv "$tmp/data/away.bin" "$tmp/text.bin"
works "and are from then on" check "$tmp/copy"
want7=$(exported "$tmp/copy")
cp "$tmp/elsewhere/drive 0" "$tmp/stale"
works "reshard after that" reshard "$tmp/two" --devices 2
refuses 1 "was device 0 of 2 of this run at another time" pretrain --resume "$tmp/two" --device "$tmp/stale" --device "$tmp/two/dev1"
same "$want" "$(exported "$tmp/two")" "devices that a run has left are not taken for its own"

# ---- block devices

begin block --devices 2
truncate -s 8M "$tmp/img0" "$tmp/img1"
if [ "$(id -u)" = 0 ] && loop0=$(losetup -f --show "$tmp/img0" 2>/dev/null) && loop1=$(losetup -f --show "$tmp/img1" 2>/dev/null); then
    trap 'losetup -d "$loop0" "$loop1"; rm -rf "$tmp"' EXIT
    works "reshard onto block devices" reshard "$tmp/block" --device "$loop0" --device "$loop1"
    same "$half" "$(exported "$tmp/block")" "the run is there"
    refuses 2 "holds the run now; its states cannot be moved onto the same drive" reshard "$tmp/block" --device "$loop1"
    works "it goes on there" pretrain --resume "$tmp/block" --steps 4 --quiet
    works "and back" reshard "$tmp/block" --devices 1
    same 0 "$(head -c 4096 "$loop0" "$loop1" | grep -c siTrain)" "the drives are nobody's then"
    ends block "$want" "as if it had stayed"
    # A run that comes onto the new drive between a look at it and its opening: one of the two has it, and is whole.
    find_shim
    n=0 theirs=0 ours=0 bad=
    begin came
    while [ -n "$shim" ] && n=$((n + 1)) && [ $n -le 30 ]; do
        rm -rf "$tmp/came2" "$tmp/theirs"
        cp -a "$tmp/came" "$tmp/came2"
        dd if=/dev/zero of="$loop0" bs=4k count=1 2>/dev/null
        held "open:$loop0:$n" reshard "$tmp/came2" --device "$loop0" || break
        "$bin" pretrain --run "$tmp/theirs" --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 1 --n-head 2 --n-embd 32 --seq 8 --batch 1 --csd-mem 192K --steps 1 \
            --device "$loop0" >"$tmp/out.theirs" 2>&1 </dev/null
        came=$?
        rm -f "$tmp/held"
        wait "$pid"
        got=$?
        if [ $came = 0 ]; then
            theirs=$((theirs + 1))
            [ $got != 0 ] && "$bin" check "$tmp/theirs" >"$tmp/out" 2>&1 && "$bin" check "$tmp/came2" >"$tmp/out" 2>&1 || bad="$bad $n"
        else
            ours=$((ours + 1))
            [ $got = 0 ] && "$bin" check "$tmp/came2" >"$tmp/out" 2>&1 && [ ! -e "$tmp/theirs" ] || bad="$bad $n"
        fi
    done
    dd if=/dev/zero of="$loop0" bs=4k count=1 2>/dev/null
    if [ -n "$shim" ]; then
        echo "# $theirs times the other run had it, $ours times the reshard"
        result "$([ -z "$bad" ] && [ $theirs -gt 2 ] && [ $ours -gt 0 ]; echo $?)" "a run that comes onto the new drive meanwhile is not written over, nor is the reshard $bad"
    else
        skip "a run that comes onto the new drive meanwhile" "no library that holds the reshard"
    fi
else
    skip "block devices" "no root, or no loop devices"
fi

# ---- kills: wherever they hit, the run is whole on the old devices or on the new ones, and what is left of the others goes

random() { # MODULUS: $random from 0 to below it
    r=$(((r * 1103515245 + 12345) % 2147483648))
    random=$((r / 65536 % $1))
}
if command -v sqlite3 >/dev/null; then
    seed=${SEED:-$(date +%s)} kills=${KILLS:-12} r=${SEED:-$seed}
    set -- --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 3 --n-head 2 --n-embd 128 --seq 16 --batch 2 --compress 10% --error-feedback \
        --schedule-steps 3 --csd-mem 192K --quiet
    run pretrain --run "$tmp/unkilled" "$@" --steps 3 --mode mem
    unkilled=$(exported "$tmp/unkilled")
    run pretrain --run "$tmp/killed" "$@" --steps 2 --devices 2
    result "$got" "a run to kill"
    hash=$(exported "$tmp/killed")
    mkdir "$tmp/k1" "$tmp/k2"
    from=$(date +%s%N)
    run reshard "$tmp/killed" --devices 3
    whole_ms=$((($(date +%s%N) - from) / 1000000))
    lost=0 moved=0 left=0 was=
    for i in $(seq "$kills"); do
        random 4
        [ $((i % 2)) = 0 ] && set -- --devices $((random + 1)) || set -- --device "$tmp/k1" --device "$tmp/k2" --device "$tmp/k1"
        random $((whole_ms + 1))
        "$bin" reshard "$tmp/killed" "$@" >/dev/null 2>&1 </dev/null &
        pid=$!
        sleep "$(printf '%d.%03d' $((random / 1000)) $((random % 1000)))"
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        [ "$(exported "$tmp/killed")" = "$hash" ] || lost=$((lost + 1))
        # where the killed process has not ended after two seconds, the next opening removes what it held
        for opening in 1 2 3; do
            files=$(find "$tmp/killed" "$tmp/k1" "$tmp/k2" -name 'states*' -o -name 'sitrain-*-dev*' | wc -l)
            grep -q "another process uses it" "$tmp/err" || break
            run export "$tmp/killed" "$tmp/exported$opening"
            rm -rf "$tmp/exported$opening"
        done
        now=$(sqlite3 "$tmp/killed/run.db" "SELECT value FROM runs WHERE key = 'layout'")
        [ "$files" = "$(sqlite3 "$tmp/killed/run.db" "SELECT count(*) FROM devices")" ] || left=$((left + 1))
        [ "$now" = "$was" ] || moved=$((moved + 1))
        was=$now
    done
    echo "# SEED=$seed KILLS=$kills, within $whole_ms ms each: $moved came after the switch"
    same 0 $lost "no kill loses anything"
    same 0 $left "nothing is left behind by one"
    works "a reshard that nobody kills moves it" reshard "$tmp/killed" --devices 2
    works "all of it is whole then" check "$tmp/killed"
    run pretrain --resume "$tmp/killed" --steps 3 --quiet
    same "$unkilled" "$(exported "$tmp/killed")" "and what is trained from there is what a run that stayed comes to"
else
    skip "kills during a reshard" "no sqlite3"
fi

# ---- new devices that go away before the run is on them

find_shim
if [ -f "$shim" ]; then
    mkdir "$tmp/g1" "$tmp/g2" "$tmp/away"
    run pretrain --run "$tmp/goes" --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 \
        --csd-mem 128K --threads 1 --disk sync --schedule constant --quiet --steps 2 --device "$tmp/g1"
    hash=$(exported "$tmp/goes") was=$(sums "$tmp/g1")
    for how in removed moved replaced; do
        held "pwrite:/g2/sitrain:2" reshard "$tmp/goes" --device "$tmp/g2" --quiet
        result $? "new states are being written"
        f=$(echo "$tmp"/g2/*)
        case $how in
        removed) rm "$f" ;;
        moved) mv "$f" "$tmp/away/" ;;
        replaced) cp "$f" "$tmp/away/x" && mv "$tmp/away/x" "$f" ;;
        esac
        rm "$tmp/held"
        wait $pid
        got=$?
        result "$([ $got = 1 ] && grep -q 'device 0: .*/g2/sitrain.* is \(gone\|another\).*the run is where it was' "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" \
            "a reshard whose new device was $how meanwhile ends ($got)"
        same "$was" "$(sums "$tmp/g1")" "and the old ones stay"
        rm -rf "$tmp/g2" && mkdir "$tmp/g2"
    done
    same "$hash" "$(exported "$tmp/goes")" "with the run on them"
    # A drive that goes at any moment, and comes back.
    n=0 wrong=
    while n=$((n + 1)) && held "pwrite:/goes/run.db-wal:$n" reshard "$tmp/goes" --device "$tmp/g2" --quiet; do
        mv "$tmp"/g2/* "$tmp/away/" 2>/dev/null
        rm "$tmp/held"
        wait $pid
        mv "$tmp"/away/sitrain* "$tmp/g2/" 2>/dev/null
        [ "$(exported "$tmp/goes")" = "$hash" ] || wrong="$wrong $n"
        run reshard "$tmp/goes" --device "$tmp/g1" --quiet
        rm -rf "$tmp/g2" && mkdir "$tmp/g2"
    done
    wait $pid
    result "$([ $n -gt 2 ] && [ -z "$wrong" ]; echo $?)" "a new drive that is away for a moment, at $((n - 1)) moments, costs nothing$wrong"
else
    skip "new devices that go away" "no shim"
fi

# ---- a copy that is moved to another drive, killed anywhere, is a run of its own; and where its device was is known from then on

works "a run with a device in its folder" pretrain --run "$tmp/orig" --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 1 --n-head 1 --n-embd 8 --seq 8 \
    --batch 1 --csd-mem 128K --threads 1 --schedule constant --quiet --steps 2 --snapshot-every 1
mkdir "$tmp/m1"
if [ -f "$shim" ]; then
    n=0 wrong=
    while n=$((n + 1)) && rm -rf "$tmp/M" "$tmp"/m1/* && cp -a "$tmp/orig" "$tmp/M" &&
        ! (export LD_PRELOAD="$shim" SHIM_AT="pwrite:/M/run.db-wal:$n:kill"; exec "$bin" reshard "$tmp/M" --device "$tmp/m1" --quiet); do
        run pretrain --resume "$tmp/M" --steps 3 --quiet
        [ "$got" = 0 ] && [ ! -s "$tmp/err" ] && [ "$(find "$tmp/M" "$tmp/m1" -path "*/dev0/states" ! -path "*/snapshots/*" -o -name "sitrain-*-dev0" | wc -l)" = 1 ] || wrong="$wrong $n"
    done 2>"$tmp/null"
    result "$([ $n -gt 20 ] && [ -z "$wrong" ]; echo $?)" "a copy goes on after a kill at any of $((n - 1)) moments, on one device$wrong"
else
    skip "a copy that is killed" "no shim"
fi
rm -rf "$tmp/M" "$tmp"/m1/*
cp -a "$tmp/orig" "$tmp/M"
works "a copy is moved" reshard "$tmp/M" --device "$tmp/m1"
rm "$tmp"/m1/*
works "its lost device is restored" restore "$tmp/M"
result "$([ -n "$(find "$tmp/m1" -name "sitrain-*-dev0")" ]; echo $?)" "where it was"
run pretrain --resume "$tmp/orig" --steps 3 --quiet
run pretrain --resume "$tmp/M" --steps 3 --quiet
same "$(exported "$tmp/orig")" "$(exported "$tmp/M")" "and it goes on like its original"

# ---- a reshard whose run.lock somebody removes while it switches, and another one that comes: it removes nothing that the first one switches to

if [ -f "$shim" ]; then
    works "a run on one device" pretrain --run "$tmp/late" --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 1 --n-head 1 --n-embd 8 --seq 8 \
        --batch 1 --csd-mem 128K --threads 1 --disk sync --schedule constant --quiet --steps 2
    hash=$(exported "$tmp/late") n=0
    until [ -e "$tmp/L/dev1" ] && [ -n "$(ls "$tmp/L/dev1")" ]; do # the first commit after the new devices were made
        n=$((n + 1))
        rm -rf "$tmp/L"
        cp -a "$tmp/late" "$tmp/L"
        (export LD_PRELOAD="$shim" SHIM_AT="pwrite:/L/run.db-wal:$n:kill"; exec "$bin" reshard "$tmp/L" --devices 2 --quiet) && break
    done 2>"$tmp/null"
    rm -rf "$tmp/L"
    cp -a "$tmp/late" "$tmp/L"
    held "pwrite:/L/run.db-wal:$n" reshard "$tmp/L" --devices 2 --quiet
    result $? "a reshard stands in the transaction that switches"
    first=$pid
    rm "$tmp/L/run.lock"
    LD_PRELOAD="$shim" SHIM_AT="open:/L/dev0/states-:1:$tmp/stands" "$bin" reshard "$tmp/L" --devices 3 --quiet >"$tmp/out2" 2>"$tmp/err2" </dev/null &
    other=$!
    # it waits for that transaction; it must not stand where it opens a new device to remove it
    while [ ! -e "$tmp/stands" ] && ! grep -qs "run.db is locked by siTrain" "$tmp/err2" && kill -0 $other 2>/dev/null; do sleep 0.02; done
    result "$([ ! -e "$tmp/stands" ] && kill -0 $other 2>/dev/null; echo $?)" "another one waits until the first has switched"
    rm "$tmp/held"
    [ ! -e "$tmp/stands" ] || wait $first
    rm -f "$tmp/stands"
    wait $other
    same 1 $? "it ends"
    result "$(grep -q "run.db was written by another process while this one had it open" "$tmp/err2"; echo $?)" "with a sentence"
    wait $first
    same 0 $? "the first one has moved the run"
    works "which is whole" check "$tmp/L"
    same "$hash" "$(exported "$tmp/L")" "with its parameters"
    same "2 2" "$(find "$tmp/L" -name 'states*' | wc -l) $(find "$tmp/L" -name 'dev?' | wc -l)" "and nothing is left of the other"
else
    skip "a reshard whose run.lock is removed" "no shim"
fi

# ---- who may use a run

# busy RUN OPTIONS...: a training of it that is at work, in $pid
busy() {
    name=$1
    shift
    : >"$tmp/busy" # the background process empties it too late: an older one's steps would be seen
    "$bin" pretrain --resume "$tmp/$name" --steps 100000 --schedule-steps 100000 "$@" >"$tmp/busy" 2>&1 </dev/null &
    pid=$!
    for _ in $(seq 1200); do
        grep -q '^step' "$tmp/busy" && break
        sleep 0.05
    done
}
used="the run is in use by process"
busy other
refuses 1 "$used $pid on $(uname -n); wait for it to end or stop it" pretrain --resume "$tmp/other" --steps 9 --schedule-steps 9
refuses 1 "$used $pid on" reshard "$tmp/other" --devices 1
works "a report is for everybody" report "$tmp/other"
mv "$tmp/other/run.lock" "$tmp/lock"
run check "$tmp/other"
[ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "in use by" "$tmp/err" && ! grep -q damaged "$tmp/out"
result $? "whose lock's file somebody removed is in use, not damaged"
mv "$tmp/lock" "$tmp/other/run.lock"
kill -9 $pid
wait $pid 2>/dev/null
result "$(grep -q "process $pid on" "$tmp/other/run.lock"; echo $?)" "who was killed still stands in the lock's file"
works "but holds it no more" check "$tmp/other"
cat >"$tmp/nolock.c" <<'C'
#include <errno.h>
int flock(int fd, int how) { (void)fd, (void)how; errno = ENOLCK; return -1; }
C
if ${CC:-cc} -shared -fPIC -o "$tmp/nolock.so" "$tmp/nolock.c" 2>/dev/null && ! ldd "$bin" | grep -q libasan; then
    export LD_PRELOAD="$tmp/nolock.so"
    refuses 1 "the file system has no locks, so a second process could not be kept from this run; put it on a local one" pretrain --resume "$tmp/other"
    # Where flock works, or nobody asks for it, SQLite's fcntl is refused: no other program is waited for.
    cat >"$tmp/nolock.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>
int fcntl(int fd, int cmd, ...)
{
    va_list ap;
    va_start(ap, cmd);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    if (cmd == F_SETLK)
        return errno = ENOLCK, -1;
    return (int)syscall(SYS_fcntl, fd, cmd, arg);
}
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));
C
    unset LD_PRELOAD
    ${CC:-cc} -shared -fPIC -o "$tmp/nolock.so" "$tmp/nolock.c" 2>"$tmp/err" || result 1 "a file system whose fcntl has no locks"
    before=$(sums "$tmp/other")
    for line in "pretrain --resume $tmp/other" "report $tmp/other" "export $tmp/other $tmp/other.hf" "check $tmp/other"; do
        # shellcheck disable=SC2086
        LD_PRELOAD=$tmp/nolock.so timeout -s KILL 30 "$bin" $line >"$tmp/out" 2>"$tmp/err" </dev/null
        [ $? = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "lock $tmp/other/run.db: .*: the file system has no locks, so a second process could not be kept from this run; put it on a local one" "$tmp/err"
        result $? "a file system whose fcntl has no locks: ${line%% *}"
    done
    same "$before" "$(sums "$tmp/other")" "and nothing is changed"
else
    skip "a file system without locks" "no compiler, or a sanitizer that loads first"
fi

mkdir "$tmp/drive"
begin shared --device "$tmp/drive"
cp -a "$tmp/shared" "$tmp/shared-copy"
busy shared
refuses 1 "which is in use by process" pretrain --resume "$tmp/shared-copy" --device "$tmp/drive" --steps 6 --schedule-steps 6 --quiet
kill -9 $pid
wait $pid 2>/dev/null

# ---- who may only read

reader=
if [ "$(id -u)" != 0 ]; then
    reader=none
elif setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
    reader="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
may_read() { # NAME COMMAND...
    name=$1
    shift
    $reader "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    result $got "who may only read: $name"
}
read_only() { # RUN: all that reads
    may_read "eval of $1" eval "$tmp/$1" --data "$tmp/held.txt" --seq 24
    may_read "generate of $1" generate "$tmp/$1" --prompt "the sea" --tokens 3
    may_read "report of $1" report "$tmp/$1"
    may_read "check of $1" check "$tmp/$1"
    rm -rf "$tmp/for all/hf"
    may_read "export of $1" export "$tmp/$1" "$tmp/for all/hf"
    same "$2" "$(sha256sum <"$tmp/for all/hf/model.safetensors" | cut -d' ' -f1)" "and it gives the same"
}
if [ "$reader" = none ]; then
    reader=
    mkdir "$tmp/for all"
    chmod -R a-w "$tmp/copy" "$tmp/stays"
    read_only copy "$want7"
    read_only stays "$want"
    chmod -R u+w "$tmp/copy" "$tmp/stays"
elif [ "$reader" ]; then
    cp "$bin" "$tmp/siTrain"
    chmod 755 "$tmp" "$tmp/siTrain"
    bin="$tmp/siTrain"
    mkdir -m 777 "$tmp/for all"
    chmod a+r "$tmp/held.txt" "$tmp/text.bin"
    begin log --mode mem
    hash=$(exported "$tmp/log")
    busy log
    kill -9 $pid
    wait $pid 2>/dev/null
    result "$([ -s "$tmp/log/run.db-wal" ]; echo $?)" "a killed run has a log beside its database"
    cp -a "$tmp/log" "$tmp/no-shm"
    rm "$tmp/no-shm/run.db-shm"
    for after in 0.5 1 1.5 2 0.2 0.7 1.2 1.7; do # an update takes seconds: killed at some moment, it is half done
        rm -rf "$tmp/half"
        begin half
        busy half --csd-read-bw 500K
        sleep $after
        kill -9 $pid
        wait $pid 2>/dev/null
        run check "$tmp/half"
        grep -q 'half done' "$tmp/out" && break
    done
    for r in copy stays log half no-shm; do
        chmod -R a+rX "$tmp/$r"
    done
    read_only copy "$want7"
    read_only stays "$want"
    read_only log "$hash"
    $reader "$bin" eval "$tmp/half" --data "$tmp/text.bin" --seq 24 >"$tmp/out" 2>"$tmp/err"
    got=$?
    result "$([ $got = 1 ] && grep -q "cannot be written here: .siTrain pretrain --resume. (or finetune) finishes the step where the run can be written" "$tmp/err"; echo $?)" \
        "a step that is half done needs somebody who may write"
    run check "$tmp/half"
    result "$(grep -q 'half done' "$tmp/out"; echo $?)" "it still waits"
    works "and is finished before a reshard" reshard "$tmp/half" --devices 2
    run check "$tmp/half"
    result "$([ $got = 0 ] && ! grep -q 'half done' "$tmp/out"; echo $?)" "then all is whole"
    read_only no-shm "$hash" # its log without its index
    $reader "$bin" pretrain --resume "$tmp/copy" --steps 9 --schedule-steps 9 >"$tmp/out" 2>"$tmp/err"
    got=$?
    result "$([ $got = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "training is refused in a sentence"
    $reader "$bin" reshard "$tmp/copy" --devices 3 >"$tmp/out" 2>"$tmp/err"
    got=$?
    result "$([ $got = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "so is a reshard"
else
    skip "who may only read" "root, and no setpriv to be somebody else"
fi

done_testing
