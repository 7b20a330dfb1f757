#!/bin/sh
# run.db as others leave it: no byte free beside it, another program that has it locked, its log damaged. What only reads reads on, what
# writes waits, and what cannot be read is refused with what is still whole. Prints TAP.
. tests/tap.sh

make_text 1500 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
run prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
shape="--data $tmp/text.bin --tokenizer $tmp/tok --n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 2 --csd-mem 192K --threads 1 --lr 1e-3
       --schedule-steps 12 --disk sync --durability none"

made() { # NAME STEPS ARGUMENTS...
    made_name=$1 made_steps=$2
    shift 2
    run pretrain --run "$tmp/$made_name" $shape --steps "$made_steps" "$@"
    result "$got" "a run: $made_name"
}

made own 1
for file in run.db dev0/states; do
    refuses 2 "is the name of a part of a run" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/own/$file"
    refuses 2 "is the name of a part of a run" bench --quick --only memory --json "$tmp/own/$file"
done
works "which is whole" check "$tmp/own"
mkdir "$tmp/program" && echo mine >"$tmp/program/run.db" # another program's, which is not called a run
refuses 2 "run.db.html is the name of a part of a run (its journal), and $tmp/program has run.db: choose another name" \
    report "$tmp/own" --html "$tmp/program/run.db.html"
# what a stranger's schema would compute is not read, however its statement is written
for sql in "CREATE TABLE z (a, b AS (a + 1))" "CREATE /* */ VIRTUAL TABLE z USING fts5(a)" \
    "DROP TABLE notices; CREATE TABLE notices (id, time, text AS (1) STORED)" \
    "CREATE TABLE z (a); PRAGMA writable_schema=1; UPDATE sqlite_master SET type = 'TABLE', sql = CAST('CREATE TABLE z (a, b AS (1))' AS BLOB) WHERE name = 'z'"; do
    rm -rf "$tmp/theirs"
    cp -a "$tmp/own" "$tmp/theirs"
    sqlite3 "$tmp/theirs/run.db" ".dbconfig defensive off" "$sql" >"$tmp/said" 2>&1
    refuses 1 "it has virtual tables or computed columns, which no siTrain run has" report "$tmp/theirs"
done
# nor does anything of theirs answer for a view, or take the place of a table that the run gets later; other names are theirs
for sql in "CREATE TABLE scrubs (a)" "CREATE VIEW Scrubs AS SELECT 1" "CREATE INDEX damages ON steps (loss)" "CREATE TABLE left_steps (step)" \
    "DROP VIEW overlap; CREATE TABLE Overlap (step, phase, seconds)" "DROP TABLE snapshots; CREATE TABLE snapshots (n, step, path)"; do
    rm -rf "$tmp/theirs"
    cp -a "$tmp/own" "$tmp/theirs"
    sqlite3 "$tmp/theirs/run.db" "$sql"
    was=$(sums "$tmp/theirs")
    refuses 2 "has a name that siTrain gives, and is not of siTrain: rename or drop it" report "$tmp/theirs"
    refuses 2 "has a name that siTrain gives" pretrain --resume "$tmp/theirs" --steps 2 --scrub-bw 1M
    same "$was" "$(sums "$tmp/theirs")" "and nothing was changed: $sql"
done
rm -rf "$tmp/theirs"
cp -a "$tmp/own" "$tmp/theirs"
sqlite3 "$tmp/theirs/run.db" "CREATE TABLE scrubs_of_mine (a); CREATE VIEW mine AS SELECT 1"
works "a run with tables of somebody's, of other names" pretrain --resume "$tmp/theirs" --steps 2 --scrub-bw 1M --quiet

# hold RUN SQL: someone's sqlite3 says that to the run's database, and stays
hold() {
    rm -f "$tmp/say" "$tmp/said"
    mkfifo "$tmp/say"
    sqlite3 "$1/run.db" <"$tmp/say" >"$tmp/said" 2>&1 &
    holder=$!
    exec 3>"$tmp/say"
    printf '.timeout 20000\n%s; SELECT "it is " || "held";\n' "$2" >&3
    until_there "it is held" "$tmp/said"
}

let_go() {
    echo .quit >&3
    exec 3>&-
    wait $holder
}

until_there() { # TEXT FILE: 60 s at most
    for _ in $(seq 1200); do
        grep -q -- "$1" "$2" 2>/dev/null && return 0
        sleep 0.05
    done
    return 1
}

# ---- a full disk

# What each command that only reads says of RUN, in $tmp/NAME.*
look() { # RUN NAME
    look_failed=
    for words in "report RUN --csv" "check RUN" "eval RUN --data $tmp/text.bin --seq 24 --batch 2" "generate RUN --prompt sea --tokens 4 --seed 1" "export RUN $tmp/$2.hf"; do
        run $(echo "$words" | sed "s,RUN,$1,")
        [ "$got" = 0 ] || look_failed="$look_failed$words: $(tail -n 1 "$tmp/err"); "
        # an export is known to one alone; how much of run.db is in its log may differ; so does the time
        sed -e "s,$1,RUN,g" -e '/^export /d' -e '/^run.db\|is whole/s/ *[0-9.]*[KMG]//' -e 's/ [0-9.]* tokens a second.*//' "$tmp/out" >"$tmp/$2.${words%% *}"
    done
    sha256sum <"$tmp/$2.hf/model.safetensors" >"$tmp/$2.export"
}

same_looks() { # A B NAME
    same_failed=$look_failed
    for what in report check eval generate export; do
        [ -s "$tmp/$1.$what" ] && cmp -s "$tmp/$1.$what" "$tmp/$2.$what" || same_failed="$same_failed$what differs; "
    done
    result "$([ -z "$same_failed" ]; echo $?)" "$3 $same_failed"
}

made closed 5 --mode su+o --devices 2
made inram 5 --mode mem

# left NAME MODE: a run whose log nobody took in
left() {
    made "$1" 3 --mode "$2" --commit-every 1
    run export "$tmp/$1" "$tmp/$1.hf"
    hold "$tmp/$1" "BEGIN; SELECT count(*) FROM steps"
    run pretrain --resume "$tmp/$1" --steps 6
    kill -9 $holder
    exec 3>&-
    wait $holder 2>/dev/null
    result "$([ "$got" = 0 ] && [ -s "$tmp/$1/run.db-wal" ]; echo $?)" "and its log nobody took in"
}
left left su+o
left leftmem mem
cp -a "$tmp/left" "$tmp/noindex"
cp -a "$tmp/left" "$tmp/log-su+o"
mv "$tmp/leftmem" "$tmp/log-mem"
rm "$tmp/noindex/run.db-shm"

mkdir "$tmp/small"
if mount -t tmpfs -o size=24m sitrain-test "$tmp/small" 2>/dev/null; then
    trap 'umount "$tmp/small" 2>/dev/null; rm -rf "$tmp"' EXIT
    for name in closed inram left noindex; do
        rm -f "$tmp/small/filler"
        cp -a "$tmp/$name" "$tmp/small/$name"
        like=$name
        if [ $name = noindex ]; then
            like=left
        else
            cp -a "$tmp/$name" "$tmp/roomy"
            look "$tmp/roomy" "$name-roomy"
            rm -rf "$tmp/roomy"
        fi
        dd if=/dev/zero of="$tmp/small/filler" bs=4096 2>/dev/null
        look "$tmp/small/$name" "$name-full"
        grep -q "keeps no record of $tmp/$name-full.hf" "$tmp/err"
        result $? "$name: an export without a record says so"
        same_looks "$like-roomy" "$name-full" "$name: what only reads says the same on a full disk"
    done
    works "devices only tries such a disk" devices --dir "$tmp/small"
    run pretrain --resume "$tmp/small/closed" --steps 7
    result "$([ "$got" = 1 ] && grep -qE 'full|No space' "$tmp/err"; echo $?)" "training says that it is full"
    rm "$tmp/small/filler"
    for name in closed left; do
        run pretrain --resume "$tmp/small/$name" --steps 7
        run pretrain --resume "$tmp/$name" --steps 7
        same "$(exported "$tmp/$name")" "$(exported "$tmp/small/$name")" "$name: and goes on when there is room"
    done
    umount "$tmp/small"
else
    skip "a full disk" "no tmpfs may be mounted here"
fi

# ---- another program that has it locked

want=$(run pretrain --resume "$tmp/inram" --steps 8; exported "$tmp/inram")

# resumes NAME ARGUMENTS...: in the background, until it has done a step
resumes() {
    resumes_name=$1
    shift
    : >"$tmp/log" # what an older one said is not this one's
    : >"$tmp/notices"
    "$bin" pretrain --resume "$tmp/$resumes_name" --steps 8 "$@" >"$tmp/log" 2>"$tmp/notices" </dev/null 3>&- &
    pid=$!
}

waits() { # NAME
    until_there "run.db is locked by sqlite3 (process $holder): waiting until it lets go" "$tmp/notices"
    result $? "$1: training waits, and says for whom"
}

goes_on() { # RUN NAME
    wait $pid
    result $? "$2: and goes on"
    same "$want" "$(exported "$1")" "$2: to the same parameters"
}

for mode in su+o mem; do
    made "lock-$mode" 4 --mode $mode --commit-every 1
    if [ $mode = su+o ]; then # in the middle of a step
        resumes "lock-$mode" --csd-read-bw 1M --io-timeout 1
        until_there '^step' "$tmp/log"
        hold "$tmp/lock-$mode" "BEGIN IMMEDIATE"
    else
        hold "$tmp/lock-$mode" "BEGIN IMMEDIATE; INSERT INTO notices (text) VALUES (1)"
        resumes "lock-$mode"
    fi
    waits "$mode"
    run report "$tmp/lock-$mode" --csv
    result "$got" "$mode: a report does not wait for a transaction"
    let_go
    goes_on "$tmp/lock-$mode" "$mode"
    rm -rf "$tmp/lock-$mode"

    made "stop-$mode" 4 --mode $mode --commit-every 1
    hold "$tmp/stop-$mode" "BEGIN IMMEDIATE"
    resumes "stop-$mode"
    waits "$mode"
    kill -INT $pid
    wait $pid
    result "$([ $? = 130 ] && tail -n 1 "$tmp/notices" | grep -q 'stopped.*go.* on with.*--resume'; echo $?)" "$mode: Ctrl-C ends the waiting"
    let_go
    resumes "stop-$mode"
    goes_on "$tmp/stop-$mode" "$mode, stopped"
done
made whole 4 --mode su
hold "$tmp/whole" "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE"
resumes whole
waits "locked against readers too"
: >"$tmp/err"
"$bin" report "$tmp/whole" --csv >"$tmp/out" 2>"$tmp/err" </dev/null 3>&- &
reporter=$!
until_there "run.db is locked by sqlite3" "$tmp/err"
result $? "a report waits then, too, and says so"
find_shim
if [ -f "$shim" ]; then # SQLite says busy, too, if the kernel has no memory for a lock of the index
    (export LD_PRELOAD="$shim" SHIM_FAIL=fcntl=ENOMEM@run.lock; exec timeout -s KILL 60 "$bin" report "$tmp/whole" >"$tmp/out" 2>"$tmp/err.lock" </dev/null 3>&-)
    result "$([ $? = 1 ] && grep -q "lock $tmp/whole/run.db: Cannot allocate memory" "$tmp/err.lock" && [ "$(wc -l <"$tmp/err.lock")" = 1 ]; echo $?)" \
        "if no lock can be taken at all, nothing is waited for"
else
    skip "a lock for which there is no memory" "no shim"
fi
let_go
wait $reporter
result $? "and reports"
goes_on "$tmp/whole" "locked against readers"
# ---- a damaged log

# ends_right RUN NAME: goes on to the right parameters, or is refused with a sentence
ends_right() {
    run pretrain --resume "$1" --steps 8
    if [ "$got" = 0 ]; then
        same "$want" "$(exported "$1")" "$2: the same parameters"
    else
        [ "$got" = 1 ] && tail -n 1 "$tmp/err" | grep -q "siTrain check $1 lists all damage.*whole is that after step 3, in $tmp/left"
        result $? "$2: refused in a sentence with the way on"
    fi
}

# a database and a log that are of two times: both are named, and nothing is changed
apart() { # NAME [TEXT]: of $tmp/apart, refused by all that opens it
    before=$(sums "$tmp/apart")
    for command in "pretrain --resume $tmp/apart --steps 99" "check $tmp/apart" ${2:+"check --repair $tmp/apart"} "export $tmp/apart $tmp/none"; do
        # shellcheck disable=SC2086
        run $command
        [ "$got" = 1 ] && grep -q "$tmp/apart/run.db.*${2:-of different times}" "$tmp/err" && [ "$before" = "$(sums "$tmp/apart")" ]
        result $? "$1: ${command%% "$tmp"*} names both"
    done
}
log="$tmp/log-su+o"
made old 1 --mode su+o
rm -rf "$tmp/apart"
cp -a "$log" "$tmp/apart"
rm "$tmp/apart/run.lock" # as after a start of the machine
works "a run with its log" pretrain --resume "$tmp/apart" --steps 11
cp "$log/run.db-wal" "$tmp/apart/run.db-wal"
rm -f "$tmp/apart/run.lock" "$tmp/apart/run.db-shm"
apart "an older log beside a newer run.db"
made other 2 --mode su+o # SQLite mixed them, and the run was trained on
for other in old other; do
    rm -rf "$tmp/apart"
    cp -a "$tmp/log-su+o" "$tmp/apart"
    rm -f "$tmp/apart/run.lock" "$tmp/apart/run.db-shm"
    cp "$tmp/$other/run.db" "$tmp/apart/run.db"
    apart "the run.db of another run ($other) beside a log" "are of two runs; nothing was changed"
done
for how in pretrain check export; do # without a log: what another run's run.db has is not noted as this one's
    rm -rf "$tmp/apart" "$tmp/none"
    cp -a "$tmp/old" "$tmp/apart"
    cp "$tmp/other/run.db" "$tmp/apart/run.db"
    case $how in
    pretrain) run pretrain --resume "$tmp/apart" --steps 9 ;;
    check) run check "$tmp/apart" --repair ;;
    export) run export "$tmp/apart" "$tmp/none" ;;
    esac
    result "$([ "$got" = 1 ] && grep -q "$tmp/apart/dev0/states belongs to another run" "$tmp/err"; echo $?)" "another run's run.db: $how is refused"
    cp "$tmp/old/run.db" "$tmp/apart/run.db"
    works "with its own again it goes on" pretrain --resume "$tmp/apart" --steps 2
done

back=0
for mode in su+o mem; do
    log="$tmp/log-$mode"
    size=$(wc -c <"$log/run.db-wal")
    for off in 8 5000 $((size / 2)) $((size * 4 / 5)) $((size - 5000)) $((size - 100)); do
        name="$mode, byte $off of $size"
        rm -rf "$tmp/turned"
        cp -a "$log" "$tmp/turned"
        turn "$tmp/turned/run.db-wal" $off
        cp -a "$tmp/turned" "$tmp/bare"
        rm "$tmp/bare/run.db-shm" "$tmp/bare/run.lock"
        before=$(sums "$tmp/turned")
        run pretrain --resume "$tmp/turned" --steps 8
        [ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "log is damaged\|head of the database's log is damaged" "$tmp/err" &&
            grep -q "run.db is whole up to step [0-9]*: siTrain check $tmp/turned says" "$tmp/err" && [ "$before" = "$(sums "$tmp/turned")" ]
        result $? "$name: refused, with what is whole and what helps"
        run check "$tmp/turned"
        checked=$got
        run report "$tmp/turned"
        [ $checked = 1 ] && [ "$got" = 1 ] && grep -q 'up to step' "$tmp/err" && [ "$before" = "$(sums "$tmp/turned")" ]
        result $? "$name: looking writes nothing"
        run check "$tmp/turned" --repair
        if [ "$got" = 0 ]; then
            back=$((back + 1))
            [ "$(cmp -l "$tmp/turned/run.db-wal.damaged" "$log/run.db-wal" | wc -l)" = 1 ]
            result $? "$name: the log is kept"
            run pretrain --resume "$tmp/turned" --steps 8
            same "$want" "$(exported "$tmp/turned")" "$name: the run goes back, and on to the same parameters"
        else
            [ "$got" = 1 ] && [ "$before" = "$(sums "$tmp/turned")" ] && grep -q 'exported state' "$tmp/err"
            result $? "$name: nothing to go back to, and nothing is changed"
        fi
        ends_right "$tmp/bare" "$name, nobody knows how much there was"
        rm -rf "$tmp/bare"
    done
done
result "$([ $back -ge 2 ]; echo $?)" "some go back ($back)"

# A drive that drops out and comes back has lost the commits that were not flushed: in mode mem, the steps since the last image.
# shellcheck disable=SC2086
works "a run in memory, flushed" pretrain --run "$tmp/drops" ${shape%--schedule-steps*} --schedule constant --steps 2 --mode mem --commit-every 2
cp -a "$tmp/drops" "$tmp/stays"
works "whose twin goes on" pretrain --resume "$tmp/stays" --steps 4
"$bin" pretrain --resume "$tmp/drops" --steps 100000 --commit-every 100000 >"$tmp/said" 2>&1 </dev/null &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -q "^step  *4" "$tmp/said"; do sleep 0.01; done
kill -9 $pid
wait $pid
same 137 $? "one is killed between two images"
# the log without its last commit
python3 - "$tmp/drops/run.db-wal" <<'PY'
import struct, sys
with open(sys.argv[1], "r+b") as f:
    log = f.read()
    frame = 24 + struct.unpack(">I", log[8:12])[0]
    salt = log[16:24]
    ends = [32]
    for at in range(32, len(log) - frame + 1, frame):
        if log[at + 8:at + 16] != salt:
            break
        if struct.unpack(">I", log[at + 4:at + 8])[0]:
            ends.append(at + frame)
    f.truncate(ends[-2])
PY
rm -f "$tmp/drops/run.db-shm"
works "without the last step's rows it goes on" pretrain --resume "$tmp/drops" --steps 4
same "$(exported "$tmp/stays")" "$(exported "$tmp/drops")" "to the same parameters"
works "and is whole" check "$tmp/drops"

# ---- run.db is away: the folder was a run, and is not one that is being made

mv "$tmp/drops/run.db" "$tmp/away.db"
for command in "pretrain --steps 5 --resume" check report "export --last" restore snapshots "reshard --devices 2" "watch --once"; do
    # shellcheck disable=SC2086
    refuses 2 "$tmp/drops was a run, and its run.db is missing: bring it back" $command "$tmp/drops" $([ "$command" != "export --last" ] || echo "$tmp/no")
done
mv "$tmp/away.db" "$tmp/drops/run.db"
works "it is back" check "$tmp/drops"
find_shim
if [ -n "$shim" ]; then
    mkdir "$tmp/anew"
    cp "$tmp/drops/run.lock" "$tmp/anew/"
    # shellcheck disable=SC2086
    (export LD_PRELOAD="$shim" SHIM_AT="name:/anew/:3:kill"; exec "$bin" pretrain --run "$tmp/anew" $shape --steps 1) >"$tmp/out" 2>"$tmp/err"
    refuses 2 "$tmp/anew is not a run yet" pretrain --resume "$tmp/anew"
    # a drive that fails one read of run.db: SQLite calls that damage
    wrong='' seen=0
    for what in check=EIO report=EIO snapshots=EIO check=ESTALE check=EACCES; do
        fail=${what#*=} what=${what%=*}
        for n in $(seq 1 45); do
            (export LD_PRELOAD="$shim" SHIM_AT="pread:/drops/run.db:$n:fail=$fail"; exec "$bin" $what "$tmp/drops") >"$tmp/out" 2>"$tmp/err"
            got=$?
            [ "$got" = 0 ] || { [ "$got" = 1 ] && tail -n 1 "$tmp/err" | grep -qE "run.db.*(Input/output error|Stale file handle|Permission denied)$" && seen=$((seen + 1)); } || wrong="$wrong $what:$fail:$n"
            ! grep -qE 'damaged|begin a new run' "$tmp/out" "$tmp/err" || wrong="$wrong $what:$fail:$n:damage"
        done
    done
    result "$([ -z "$wrong" ] && [ "$seen" -gt 20 ]; echo $?)" "one read of run.db that fails is not damage ($seen were seen):$wrong"
    works "and the run is whole" check "$tmp/drops"
else
    skip "a run that is made where one was" "no shim"
fi

done_testing
