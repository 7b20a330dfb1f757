#!/bin/sh
# Nobody else's file: each command that makes, writes, renames or removes something, at each place where something of somebody's is, and
# what is there afterwards, byte by byte (the table: tests/cli/owners.txt). Commands that are killed, held and stopped while they make a
# run; runs whose ids look alike; file systems without locks, and without the exchange of folders. Prints TAP.
. tests/tap.sh
find_shim
export OMP_WAIT_POLICY=passive # threads that spin slow each other down

make_text 60 >"$tmp/text.txt"
printf 'label,sentence\n0,the sea\n1,a ship\n' >"$tmp/rows.csv"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$tmp/tok"
works "a tokenizer and a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
small="--csd-mem 128K --threads 1 --durability none"
shape="--n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 $small --schedule constant --quiet"
data="--data $tmp/text.bin --tokenizer $tmp/tok"
wide="--n-layer 2 --n-head 2 --n-embd 64 --seq 8 --batch 1 --grad-accum 2 --groups 2 $small --schedule constant --steps 1 --quiet"
works "a run" pretrain --run "$tmp/run" $data $shape --steps 2
works "a model" export "$tmp/run" "$tmp/hf"
works "a run that can be divided" pretrain --run "$tmp/two" $data $wide
works "a run in memory" pretrain --run "$tmp/ram" $data $shape --steps 2 --mode mem
want=$(exported "$tmp/run")

# ---- what is looked at

# picture PATH...: every name below, its kind, mode, links, and bytes
picture() { find "$@" -printf '%p %y %m %n %s %l\n' -type f -exec sha256sum {} + 2>/dev/null | sort; }

# make MAKER AT OPTIONS...: a new run at AT; $got, out, err
make() {
    maker=$1 at=$2
    shift 2
    case $maker in
    pretrain) set -- pretrain --run "$at" $data $shape --steps 2 "$@" ;;
    mem) set -- pretrain --run "$at" $data $shape --steps 2 --mode mem "$@" ;;
    finetune) set -- finetune --init "$tmp/hf" --train-file "$tmp/rows.csv" --run "$at" $small --steps 1 --max-seq 8 --quiet "$@" ;;
    import) set -- import "$tmp/hf" "$at" $small "$@" ;;
    ranks) set -- reshard "$tmp/two" --ranks 2 --new-run "$at" --quiet "$@" ;;
    esac
    if [ "$maker" = job ]; then
        # shellcheck disable=SC2086
        timeout -s KILL 60 mpirun $more -n 2 "$bin" pretrain --run "$at" $data $wide "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    else
        timeout -s KILL 60 "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    fi
    got=$?
}

# refused TEXT: $got and err are those of one sentence with TEXT in it (a job's mpirun adds its own)
refused() {
    grep -qF -- "$1" "$tmp/err" || return 1
    [ "$maker" = job ] && { refused_by_ranks && return 0; return 1; }
    { [ "$got" = 2 ] || [ "$got" = 1 ]; } && [ "$(wc -l <"$tmp/err")" = 1 ]
}

# ---- the places: what somebody has where a run is to be made

# put PLACE AT: it is there; $says: what the refusal has to name
put() {
    says=$1
    rm -rf "$2" "$tmp/aside"
    mkdir "$tmp/aside"
    echo 'of somebody else' >"$tmp/aside/victim"
    case $1 in file | link | nowhere | run | moved) ;; *) mkdir "$2" ;; esac
    case $1 in
    notes.txt | image001.jpg | .hidden | data.bin | dev0 | image0 | train.ex | best | run.db.new | run.db-wal) echo mine >"$2/$1" ;;
    run.lock) echo 'a list of my own' >"$2/run.lock" ;;
    lock-line) printf '\nmy list\n' >"$2/run.lock" && says=run.lock ;;
    lock-process) echo 'process 12 orders on Monday' >"$2/run.lock" && says=run.lock ;;
    lock-more) printf 'process 12 on Monday\nand 13\n' >"$2/run.lock" && says=run.lock ;;
    dev2024-backup | dev0/ | tokenizer/ | best.next | run.new-0123456789abcdef | run.lock/ | run.db.new/) mkdir "$2/$1" && echo mine >"$2/$1/photo" && says=${1%/} ;;
    trained) cp -r "$tmp/tok" "$2/tokenizer" && cp "$tmp/text.bin" "$2/data.bin" && says="$2" ;; # what `prepare` was told to make there
    empty) : >"$2/run.db.new" && says=run.db.new ;;
    other) cp "$tmp/run/run.db" "$2/run.db.new" && says=run.db.new ;;
    pipe) mkfifo "$2/run.db.new" && says=run.db.new ;;
    to-file) ln -s "$tmp/aside/victim" "$2/data.bin" && says=data.bin ;;
    to-folder) ln -s "$tmp/aside" "$2/dev0" && says=dev0 ;;
    to-lock) ln -s "$tmp/aside/victim" "$2/run.lock" && says=run.lock ;;
    second) ln "$tmp/aside/victim" "$2/run.lock" && says=run.lock ;;
    model) cp "$tmp"/hf/* "$2/" && says="$2" ;;
    file) echo mine >"$2" && says="$2" ;;
    link) ln -s "$tmp/aside" "$2" && says=victim ;;
    nowhere) ln -s "$tmp/aside/made" "$2" && says="$2" ;;
    run) cp -r "$tmp/run" "$2" && says="is a run already" ;;
    moved) cp -r "$tmp/run" "$2" && mv "$2/run.db" "$tmp/aside/saved" && says="$2" ;;
    esac
}

# stays MAKER PLACE AT VICTIM: a run made at AT, where VICTIM has PLACE, is refused, and nothing has changed there
stays() {
    rm -rf "$tmp/at" "$tmp/at.rank1"
    put "$2" "$4"
    was=$(picture "$tmp/aside" "$tmp/at" "$tmp/at.rank1")
    make "$1" "$3"
    now=$(picture "$tmp/aside" "$tmp/at" "$tmp/at.rank1")
    why=
    refused "$says" || why="ended with $got, which is no refusal that names $says"
    [ "$was" = "$now" ] || why="$why; something is another"
    result "$([ -z "$why" ]; echo $?)" "$1 where there is $2${5:+ ($5)} $why"
    [ "$was" = "$now" ] || { printf '%s\n' "$was" >"$tmp/was" && printf '%s\n' "$now" | diff "$tmp/was" - | sed 's/^/# /'; }
}

places="notes.txt image001.jpg .hidden data.bin dev0 image0 train.ex best run.db.new run.db-wal run.lock dev2024-backup dev0/ tokenizer/
    best.next run.new-0123456789abcdef run.lock/ run.db.new/ trained empty other pipe to-file to-folder to-lock second lock-line lock-process lock-more model file link
    nowhere run moved"
for place in $places; do
    for maker in pretrain mem finetune import ranks; do
        stays $maker "$place" "$tmp/at" "$tmp/at"
    done
done
for place in notes.txt dev0/ run.db.new run.lock run moved link; do # nobody named it
    stays ranks "$place" "$tmp/at" "$tmp/at.rank1" "in .rank1"
done
if command -v mpirun >/dev/null && ldd "$bin" | grep -q libmpi; then
    by_ranks
    for place in dev2024-backup moved; do
        stays job "$place" "$tmp/at" "$tmp/at.rank1" "in .rank1"
    done
    stays job image001.jpg "$tmp/at" "$tmp/at"
else
    skip "jobs of several ranks" "no mpirun here, or siTrain is built without MPI"
fi
mkdir -p "$tmp/mounted/dev0"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=1M tmpfs "$tmp/mounted/dev0" 2>/dev/null; then
    trap 'umount "$tmp/mounted/dev0"; rm -rf "$tmp"' EXIT
    echo mine >"$tmp/mounted/dev0/photo"
    was=$(picture "$tmp/mounted")
    for maker in pretrain mem finetune import ranks; do
        make $maker "$tmp/mounted"
        refused dev0 && [ "$was" = "$(picture "$tmp/mounted")" ]
        result $? "$maker where a drive is mounted in the folder"
    done
    umount "$tmp/mounted/dev0"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "a mounted folder" "only root may mount one"
fi

# What may be used: nothing, an empty folder, one with a lock that siTrain left there.
for maker in pretrain mem finetune import ranks; do
    rm -rf "$tmp/at" "$tmp/at.rank1"
    mkdir "$tmp/at"
    make $maker "$tmp/at"
    result "$got" "$maker in an empty folder"
    cp "$tmp/at/run.lock" "$tmp/lock"
    rm -rf "$tmp/at" "$tmp/at.rank1"
    mkdir "$tmp/at"
    cp "$tmp/lock" "$tmp/at/run.lock"
    make $maker "$tmp/at"
    result "$got" "$maker in one that has the lock of a run that was"
done

# ---- a run that is there, idle and live

# extra RUN: what its user has put into it
extra() {
    mkdir -p "$1/dev9" "$1/image9" "$1/notes" "$1/best"
    for f in README.md dev0/my.txt dev9/photo image7.jpg image9/x notes/x data.txt best/README.md tokenizer/words.md states; do
        echo mine >"$1/$f"
    done
}
extras() {
    (cd "$1" && sha256sum README.md dev0/my.txt dev9/photo image7.jpg image9/x notes/x data.txt best/README.md tokenizer/words.md states 2>&1)
}
works "a run that keeps its best" pretrain --run "$tmp/kept" --eval-data "$tmp/text.bin" $data $shape --steps 2 --keep-best --eval-every 1 --lr 1e-2
rm -rf "$tmp/mine"
cp -al "$tmp/kept/best" "$tmp/mine"
extra "$tmp/kept"
was=$(extras "$tmp/kept") mine=$(cat "$tmp"/mine/* | sha256sum)
best=$(sha256sum <"$tmp/kept/best/model.safetensors")
cp -a "$tmp/kept" "$tmp/kept.from"
works "and goes on with files of its user's in it" pretrain --resume "$tmp/kept" --steps 4 --quiet
result "$([ "$best" != "$(sha256sum <"$tmp/kept/best/model.safetensors")" ]; echo $?)" "with another best"
same "$was" "$(extras "$tmp/kept")" "which all stay, in best too"
same "$mine" "$(cat "$tmp"/mine/* | sha256sum)" "and so does a copy of best that has the files themselves"
works "reshard within it" reshard "$tmp/kept" --devices 3 --quiet
works "and back" reshard "$tmp/kept" --devices 1 --quiet
same "$was" "$(extras "$tmp/kept")" "leaves them as well"
works "it is whole" check "$tmp/kept"
# Of files under way only a run's own go: those of an output stay for the command that makes it, such as a token file that was begun.
rm -rf "$tmp/at"
cp -a "$tmp/run" "$tmp/at"
for f in data.bin x.bin; do echo begun >"$tmp/at/$f.12345678b2131df3.tmp"; done # a checksum that fits
works "a run with files that killed processes left goes on" pretrain --resume "$tmp/at" --steps 3 --quiet
same "x.bin.12345678b2131df3.tmp" "$(cd "$tmp/at" && ls ./*.tmp | cut -c3-)" "and leaves the one that is no run's"
rm -rf "$tmp/kept" "$tmp/aside"
cp -a "$tmp/kept.from" "$tmp/kept"
if [ "$(id -u)" = 0 ] && echo mounted >"$tmp/from" && mount --bind "$tmp/from" "$tmp/kept/best/README.md" 2>/dev/null; then
    trap 'umount "$tmp/kept/best/README.md"; rm -rf "$tmp"' EXIT
    refuses 2 "best/README.md, in the folder of the best model, which training replaces, is mounted: unmount it" pretrain --resume "$tmp/kept" --steps 3 --quiet
    same mounted "$(cat "$tmp/kept/best/README.md")" "and stays where it is"
    umount "$tmp/kept/best/README.md"
    trap 'rm -rf "$tmp"' EXIT
    works "after umount it goes on" pretrain --resume "$tmp/kept" --steps 3 --quiet
    result "$([ -z "$(ls -d "$tmp"/kept/best.* 2>/dev/null)" ]; echo $?)" "and nothing is left next to best"
else
    skip "a file mounted within best" "only root may mount one"
fi
rm -f "$tmp/from"
for kind in folder file link; do
    rm -rf "$tmp/kept" "$tmp/aside"
    cp -a "$tmp/kept.from" "$tmp/kept"
    mkdir "$tmp/aside"
    echo mine >"$tmp/aside/photo"
    case $kind in
    folder) cp -r "$tmp/aside" "$tmp/kept/best.next" ;;
    file) echo mine >"$tmp/kept/best.next" ;;
    link) ln -s "$tmp/aside" "$tmp/kept/best.next" ;;
    esac
    was=$(picture "$tmp/kept/best.next" "$tmp/aside")
    run pretrain --resume "$tmp/kept" --steps 3 --quiet
    same "$was" "$(picture "$tmp/kept/best.next" "$tmp/aside")" "best.next, a $kind of the user's, stays at the next best ($got)"
    works "and best is whole" check "$tmp/kept/best"
done

# A link in the place of a device's folder, hard links of devices and images: nothing is written or removed through them.
rm -rf "$tmp/at" "$tmp/aside"
cp -a "$tmp/run" "$tmp/at"
mkdir "$tmp/aside"
echo mine >"$tmp/aside/photo"
ln -s "$tmp/aside" "$tmp/at/dev1"
was=$(picture "$tmp/aside")
run reshard "$tmp/at" --devices 2 --quiet
same "$was" "$(picture "$tmp/aside")" "reshard where dev1 is a link to somebody's folder ($got)"
rm -rf "$tmp/at"
cp -a "$tmp/two" "$tmp/from"
rm -rf "$tmp/from/data.bin" "$tmp/at.rank1"
ln -s "$tmp/aside/photo" "$tmp/from/data.bin"
refuses 2 "data.bin is a symbolic link; a regular file is expected there" reshard "$tmp/from" --ranks 2 --new-run "$tmp/at"
result "$([ ! -e "$tmp/at" ]; echo $?)" "and of what it leads to no copy is made"
rm -rf "$tmp/from" "$tmp/at"
cp -a "$tmp/run" "$tmp/at"
(ulimit -f 600; run pretrain --resume "$tmp/at" --steps 5000 --quiet; exit "$got")
result "$([ $? = 1 ] && grep -q 'run.db: committing failed: .*: File too large' "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "a commit above ulimit -f says so"
for of in run/dev0/states ram/image0 ram/image1 run/run.db run/run.db-shm run/run.lock; do
    rm -rf "$tmp/at"
    cp -a "$tmp/${of%%/*}" "$tmp/at"
    [ -e "$tmp/at/${of#*/}" ] || head -c 32768 /dev/zero >"$tmp/at/${of#*/}"
    ln "$tmp/at/${of#*/}" "$tmp/second"
    was=$(sha256sum <"$tmp/second")
    run pretrain --resume "$tmp/at" --steps 9 --quiet
    result "$([ "$got" = 1 ] || [ "$got" = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "a resume refuses $of with a second name"
    same "$was" "$(sha256sum <"$tmp/second")" "which is not written"
    if [ "${of%%/*}" = run ]; then
        run reshard "$tmp/at" --devices 2 --quiet
        same "$was" "$(sha256sum <"$tmp/second")" "which a reshard does not write either ($got)"
    fi
    rm -f "$tmp/second"
done

# ---- --device, --act-device, --tensorboard, export

mkdir "$tmp/drive"
echo mine >"$tmp/drive/photo"
echo mine >"$tmp/drive/sitrain-0123abcd-dev0"
echo mine >"$tmp/drive/sitrain-0123abcd-acts0"
echo mine >"$tmp/drive/sitrain-0123abcd0123abcd0123abcd0123abcd-dev0"
echo mine >"$tmp/aside/victim"
ln -sf "$tmp/aside/victim" "$tmp/drive/link"
ln -sf "$tmp/aside/made" "$tmp/drive/nowhere"
was=$(picture "$tmp/drive" "$tmp/aside")
works "a run with a device in somebody's folder" pretrain --run "$tmp/away" $data $shape --steps 2 --device "$tmp/drive" --activations offload --act-device "$tmp/drive"
id=$(sqlite3 "$tmp/away/run.db" "SELECT value FROM runs WHERE key = 'id'" 2>/dev/null)
same "sitrain-$id-dev0" "$(ls "$tmp/drive" | grep -v 0123abcd | grep sitrain)" "has a file there with its whole id"
works "which goes again" reshard "$tmp/away" --devices 1 --quiet
same "$was" "$(picture "$tmp/drive" "$tmp/aside")" "and nothing else has changed"
for option in --device --act-device; do
    for place in photo link nowhere; do
        rm -rf "$tmp/at"
        run pretrain --run "$tmp/at" $data $shape --steps 2 --activations offload $option "$tmp/drive/$place"
        [ $option = --act-device ] || result "$([ "$got" = 2 ] || [ "$got" = 1 ]; echo $?)" "$option onto $place is refused"
        [ $option = --act-device ] || result "$([ ! -e "$tmp/at" ]; echo $?)" "and no run is left"
        run pretrain --resume "$tmp/away" --steps 3 --quiet $option "$tmp/drive/$place"
        same "$was" "$(picture "$tmp/drive" "$tmp/aside")" "and what is there stays, also at a resume ($got)"
    done
done
run reshard "$tmp/away" --device "$tmp/drive/photo"
result "$([ "$got" = 2 ]; echo $?)" "reshard --device onto a file is refused"
mkdir "$tmp/board" "$tmp/board/sub"
echo mine >"$tmp/board/events.txt"
echo mine >"$tmp/board/sub/events.out.tfevents.1.mine.1.0"
board=$(cd "$tmp/board" && sha256sum events.txt sub/*)
run pretrain --resume "$tmp/away" --steps 4 --quiet --tensorboard "$tmp/board"
result "$got" "a resume that writes for TensorBoard"
same "$board" "$(cd "$tmp/board" && sha256sum events.txt sub/*)" "leaves what is there"
run pretrain --resume "$tmp/away" --steps 5 --quiet --tensorboard "$tmp/drive/photo"
result "$([ "$got" = 2 ] || [ "$got" = 1 ]; echo $?)" "--tensorboard onto a file is refused"
same "$was" "$(picture "$tmp/drive" "$tmp/aside")" "and nothing there has changed"
for place in notes.txt .hidden model run link file nowhere; do
    rm -rf "$tmp/at"
    put $place "$tmp/at"
    was=$(picture "$tmp/at" "$tmp/aside")
    run export "$tmp/run" "$tmp/at"
    result "$([ "$got" = 2 ] && [ "$was" = "$(picture "$tmp/at" "$tmp/aside")" ]; echo $?)" "export where there is $place"
done
same "$want" "$(exported "$tmp/run")" "the run stayed as it was"

# ---- creations that fail leave all as it was

# fails NAME COMMAND...: made where nothing is, in an empty folder, and with a device elsewhere
fails() {
    name=$1 why=
    shift
    for form in new empty; do
        rm -rf "$tmp/at" "$tmp/at.rank1"
        [ $form = new ] || mkdir "$tmp/at"
        was=$(picture "$tmp/at" "$tmp/at.rank1" "$tmp/drive")
        "$@" >"$tmp/fails.out" 2>"$tmp/fails.err" </dev/null
        got=$?
        [ $got = 1 ] || [ $got = 2 ] || [ $got = 130 ] || why="$why; $form: ended with $got"
        # what became a run, and then could not be trained, stays
        [ "$was" = "$(picture "$tmp/at" "$tmp/at.rank1" "$tmp/drive")" ] || [ -e "$tmp/at/run.db" ] || why="$why; $form: it is another"
    done
    result "$([ -z "$why" ]; echo $?)" "nothing is left: $name $why"
}
limited() {
    (ulimit -f "$1" && shift && make "$@" && exit "$got")
    limited_got=$?
    cp "$tmp/err" "$tmp/said"
    return $limited_got
}
few_files() { # clearing up opens files, too
    (ulimit -n "$1" && shift && make "$@" && exit "$got")
}
printf 'label,sentence\n0,the sea\n1,a ship\n2' >"$tmp/bad.csv"
head -c 700 "$tmp/text.bin" >"$tmp/short.bin"
fails "a token file that is cut" "$bin" pretrain --run "$tmp/at" --data "$tmp/short.bin" --tokenizer "$tmp/tok" $shape --steps 1
fails "rows that end early" "$bin" finetune --init "$tmp/hf" --train-file "$tmp/bad.csv" --run "$tmp/at" $small --steps 1 --max-seq 8 --quiet
fails "--host-mem" "$bin" pretrain --run "$tmp/at" $data $shape --steps 1 --host-mem 64K
for blocks in 16 100 400; do # of 512 bytes: the database, its log, the states do not fit
    for maker in pretrain mem import ranks; do
        fails "$maker, no file above $blocks blocks" limited $blocks $maker "$tmp/at"
    done
    fails "pretrain --device, no file above $blocks blocks" limited $blocks pretrain "$tmp/at" --device "$tmp/drive"
done
for maker in pretrain import ranks; do
    for open in 4 5 7 9 12; do
        fails "$maker with $open files open at most" few_files "$open" $maker "$tmp/at"
    done
done

[ -n "$shim" ] || { skip "kills, holds and failing locks" "$(ldd "$bin" | grep -q libasan && echo "a sanitizer loads first" || echo "no delay.so was built")" && done_testing; }

# shimmed VARIABLE=VALUE... COMMAND...: with tests/shim/delay.c between it and the system
shimmed() { (export LD_PRELOAD="$shim"; while case $1 in SHIM_*=*) true ;; *) false ;; esac; do export "${1%%=*}=${1#*=}"; shift; done; "$@"; exit "$got"); }

# ---- killed at each call of its devices, a folder's and a file's, and of what names them: the same command goes on

mkdir -p "$tmp/apart/folder"
kills=0 why=
for call in name pwrite fsync open; do
    n=0
    while n=$((n + 1)); do
        rm -rf "$tmp/half" "$tmp"/apart/*
        mkdir "$tmp/apart/folder"
        shimmed SHIM_AT=$call:/apart/:$n:kill make pretrain "$tmp/half" --device "$tmp/apart/file" --device "$tmp/apart/folder" 2>/dev/null
        [ $? = 137 ] || break
        kills=$((kills + 1))
        make pretrain "$tmp/half" --device "$tmp/apart/file" --device "$tmp/apart/folder"
        [ "$got" = 0 ] || grep -q "is a run already" "$tmp/err" || why="$why; $call $n: $(cat "$tmp/err")"
        run check "$tmp/half"
        [ "$got" = 0 ] || why="$why; $call $n: not whole: $(cat "$tmp/err")"
        left=$(find "$tmp/apart" "$tmp/half" -name '*.tmp' -o -name '*.new-*')$(find "$tmp/apart" -type f | sed -n 3p)
        [ -z "$left" ] || why="$why; $call $n: left: $left"
    done
done
result "$([ -z "$why" ] && [ $kills -gt 10 ]; echo $?)" "$kills kills while devices outside RUN are made: the same command completes the run, and leaves nothing else $why"
rm -rf "$tmp/half" "$tmp/apart"

# ---- killed at each call that changes a name: made again, it is a run; its copy, and with something of somebody's in it, it is refused

# of_folder AT: names of all there; of ranks, too
of_folder() { find "$1" "$1.rank1" 2>/dev/null | sed 's/-[0-9a-f]\{16\}//' | grep -v -e '\.db-' -e /run.lock | sort; }
# settled AT: its bytes but for what SQLite and locks note for themselves
settled() { picture "$1" "$tmp/drive" | grep -v -e run.lock -e run.db; }

killed_everywhere() { # MAKER OPTIONS...
    kills=$1 n=$first by=$stride why=
    shift
    [ $kills != ranks ] || [ $stride = 1 ] || by=$((2 * stride)) # it syncs all that it makes
    rm -rf "$tmp/half" "$tmp/half.rank1"
    make $kills "$tmp/half" "$@"
    names=$(of_folder "$tmp/half")
    run reshard "$tmp/half" --devices 1 --quiet # its devices go from the drive
    while n=$((n + by)); do
        rm -rf "$tmp/half" "$tmp/half.rank1" "$tmp/copy" "$tmp/copy.rank1"
        shimmed SHIM_AT=name:/half:$n:kill make $kills "$tmp/half" "$@" 2>/dev/null
        [ $? = 137 ] || break
        [ -d "$tmp/half" ] || continue
        cp -a "$tmp/half" "$tmp/copy" # another folder, though with the same things in it
        was=$(settled "$tmp/copy")
        make $kills "$tmp/copy" "$@"
        if [ "$got" = 0 ]; then
            printf '%s\n' "$was" | grep -q '/\(states\|image[01]\|tokenizer\) ' && why="$why; $n: a copy was cleared"
        elif [ "$was" != "$(settled "$tmp/copy")" ]; then
            why="$why; $n: a copy was changed"
        fi
        [ "$got" != 0 ] || [ $# = 0 ] || run reshard "$tmp/copy" --devices 1 --quiet
        echo mine >"$tmp/half/notes.txt"
        was=$(settled "$tmp/half")
        make $kills "$tmp/half" "$@"
        grep -q "is a run already" "$tmp/err" || { [ "$got" = 2 ] && [ "$was" = "$(settled "$tmp/half")" ]; } ||
            why="$why; $n: a user's file in it: $got $(cat "$tmp/err")"
        [ "$(cat "$tmp/half/notes.txt" 2>&1)" = mine ] || why="$why; $n: a user's file in it went"
        rm -f "$tmp/half/notes.txt"
        make $kills "$tmp/half" "$@"
        [ "$got" = 0 ] || grep -q "is a run already" "$tmp/err" || why="$why; $n: $(cat "$tmp/err")"
        case $kills in # what opens it to write finishes what a kill left
        ranks) rm -rf "$tmp/one" && run reshard "$tmp/half" --ranks 1 --new-run "$tmp/one" --quiet ;;
        *) run pretrain --resume "$tmp/half" --steps 3 --quiet ;;
        esac
        [ "$got" = 0 ] || why="$why; $n: it does not go on: $(cat "$tmp/err")"
        "$bin" check "$tmp/half" >"$tmp/out" 2>"$tmp/err" || why="$why; $n: not whole: $(cat "$tmp/err")"
        now=$(of_folder "$tmp/half")
        [ "$now" = "$names" ] || why="$why; $n: left $(echo "$now" | tr '\n' ' ')"
        [ $# = 0 ] || run reshard "$tmp/half" --devices 1 --quiet
    done
    [ $# = 0 ] || run reshard "$tmp/half" --devices 1 --quiet
    result "$([ -z "$why" ] && [ $n -gt 5 ]; echo $?)" "$kills $*, killed at every $by of $n changes of names, begins anew $why"
}
stride=${STRIDE:-6} # of kills; 1: all
first=$(($$ % stride))
for maker in pretrain ranks; do # the others: races.py
    killed_everywhere $maker
done
picture "$tmp/drive" >"$tmp/was"
killed_everywhere pretrain --device "$tmp/drive"
result "$(picture "$tmp/drive" | diff "$tmp/was" - >"$tmp/out"; echo $?)" "and no device of a killed one stays"
picture "$tmp/drive" >"$tmp/was"

# A drive that somebody mounts in what a killed maker left is not emptied.
rm -rf "$tmp/half"
shimmed SHIM_AT=rename:/half:4:kill make pretrain "$tmp/half" 2>/dev/null
part=$(echo "$tmp"/half/run.new-*)
[ -d "$part" ] || part=$tmp/half
mkdir -p "$part/dev7"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=1M tmpfs "$part/dev7" 2>/dev/null; then
    trap 'umount "$part/dev7"; rm -rf "$tmp"' EXIT
    echo mine >"$part/dev7/photo"
    make pretrain "$tmp/half"
    same mine "$(cat "$part/dev7/photo" 2>&1)" "a drive that is mounted in what a killed maker left is not emptied ($got)"
    umount "$part/dev7"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "a folder mounted in what a killed maker left" "only root may mount one"
fi

# A half-made run is copied while it is made, and trained again: the first one keeps its devices.
hold() { # MAKER OPTIONS...: it stands before its run.db gets its name; $pid
    rm -rf "$tmp/half" "$tmp/copy" "$tmp/held" "$tmp/held.over"
    shimmed SHIM_AT="rename:/half/run.db:1:$tmp/held" make "$@" &
    pid=$!
    for _ in $(seq 1200); do
        [ -e "$tmp/held" ] && break
        sleep 0.05
    done
}
hold pretrain "$tmp/half" --device "$tmp/drive"
result "$([ -e "$tmp/held" ]; echo $?)" "a run is about to be one"
cp -a "$tmp/half" "$tmp/copy"
was=$(settled "$tmp/copy")
run pretrain --run "$tmp/copy" $data $shape --steps 2 --device "$tmp/drive"
result "$([ "$got" = 2 ] || [ "$got" = 1 ]; echo $?)" "its copy is refused"
same "$was" "$(settled "$tmp/copy")" "and all stays as it is"
run pretrain --run "$tmp/half" $data $shape --steps 2 --device "$tmp/drive"
result "$([ "$got" = 1 ] && grep -q 'process [0-9]' "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "a second maker of it is told by which process it is being made"
same "$was" "$(settled "$tmp/copy")" "and all stays as it is"
rm "$tmp/held"
wait $pid
result $? "the first one goes on"
works "and is whole" check "$tmp/half"
same "$want" "$(exported "$tmp/half")" "with the same bits"
run reshard "$tmp/half" --devices 1 --quiet
result "$(picture "$tmp/drive" | cmp -s - "$tmp/was"; echo $?)" "nothing of it stays on the drive"
rm -rf "$tmp/half"
hold pretrain "$tmp/half"
echo mine >"$tmp/half/run.db"
rm "$tmp/held"
wait $pid
result "$([ $? = 1 ] && grep -q "half/run.db was made by another program meanwhile: it stays; move it elsewhere" "$tmp/err"; echo $?)" "a run.db that comes while a run is made is named"
same mine "$(cat "$tmp/half/run.db")" "and stays"
# The part of a rank, complete, that a kill left without its name: nobody makes a run of his own in its place.
if [ -n "${more+x}" ]; then
    rm -rf "$tmp/job" "$tmp/job.rank1"
    shimmed SHIM_AT="rename:/job.rank1/tokenizer:1:kill" make job "$tmp/job"
    result "$([ -f "$tmp/job/run.db" ] && [ ! -e "$tmp/job.rank1/run.db" ]; echo $?)" "a job is a run, and one of its parts is not named yet"
    refuses 2 "is the part of rank 1 of the run" pretrain --run "$tmp/job.rank1" $data $shape --steps 2
    timeout -s KILL 60 mpirun $more -n 2 "$bin" pretrain --resume "$tmp/job" --steps 2 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
    result $? "and the job goes on"
    rm -rf "$tmp/job" "$tmp/job.rank1"
fi

# A snapshot of the file system on which it is made has the same inodes.
truncate -s 16M "$tmp/image1"
mkdir "$tmp/m1" "$tmp/m2"
if [ "$(id -u)" = 0 ] && command -v mkfs.ext4 >"$tmp/out" && mkfs.ext4 -q "$tmp/image1" && mount -o loop "$tmp/image1" "$tmp/m1" 2>"$tmp/out"; then
    trap 'umount "$tmp/m1" "$tmp/m2"; rm -rf "$tmp"' EXIT
    hold pretrain "$tmp/m1/half" --device "$tmp/drive"
    sync
    cp "$tmp/image1" "$tmp/image2"
    rm "$tmp/held"
    wait $pid
    mount -o loop "$tmp/image2" "$tmp/m2"
    was=$(picture "$tmp/drive")
    for options in "--device $tmp/drive" ""; do
        run pretrain --run "$tmp/m2/half" $data $shape --steps 2 $options
        result "$([ "$got" = 2 ] && grep -q "was copied or moved here" "$tmp/err"; echo $?)" "a snapshot of a half-made run is refused ($options)"
    done
    same "$was" "$(picture "$tmp/drive")" "and the finished run keeps its device"
    works "which is whole" check "$tmp/m1/half"
    run reshard "$tmp/m1/half" --devices 1 --quiet
    umount -l "$tmp/m1" "$tmp/m2"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "a snapshot of a half-made run" "only root may mount one"
fi
rm -rf "$tmp/m1" "$tmp/m2" "$tmp/image1" "$tmp/image2"

# ---- ids that begin alike: 8 digits of them were a device's name once, of ranks 4

rm -rf "$tmp/alike" "$tmp/at" "$tmp/at.rank1"
mkdir "$tmp/alike"
alike() { shimmed SHIM_HEX=0123abcd make "$@" --device "$tmp/alike"; }
alike pretrain "$tmp/first"
result $? "a run"
was=$(picture "$tmp/first" "$tmp/alike")
alike pretrain "$tmp/at"
result $? "another one whose id begins with the same 8 digits, on the same drive"
works "is whole" check "$tmp/at"
works "and so is the first" check "$tmp/first"
run reshard "$tmp/at" --devices 1 --quiet
same "$was" "$(picture "$tmp/first" "$tmp/alike")" "when the second leaves, the first stays as it was"
for maker in pretrain import; do
    rm -rf "$tmp/at"
    (ulimit -f 400 && alike $maker "$tmp/at") # the states do not fit
    result "$([ $? != 0 ] && [ ! -e "$tmp/at" ]; echo $?)" "$maker of such a one fails"
    same "$was" "$(picture "$tmp/first" "$tmp/alike")" "and the first stays as it was"
    shimmed SHIM_HEX=0123abcd SHIM_AT=any:/at/:90:kill make $maker "$tmp/at" --device "$tmp/alike" 2>/dev/null
    alike $maker "$tmp/at"
    result "$([ $? = 0 ] || [ -e "$tmp/at/run.db" ]; echo $?)" "killed, it begins anew"
    run reshard "$tmp/at" --devices 1 --quiet
    same "$was" "$(picture "$tmp/first" "$tmp/alike")" "and the first stays as it was"
done
if [ -n "${more+x}" ]; then
    rm -rf "$tmp/job" "$tmp/job.rank1" "$tmp/at" "$tmp/at.rank1"
    rm -rf "$tmp/alike" && mkdir "$tmp/alike"
    shimmed SHIM_HEX=0123 make job "$tmp/job" --device "$tmp/alike"
    result $? "a job"
    was=$(picture "$tmp/job" "$tmp/job.rank1" "$tmp/alike")
    shimmed SHIM_HEX=0123 make job "$tmp/at" --device "$tmp/alike"
    result $? "another one whose id begins with the same 4 digits, on the same drive"
    rm -rf "$tmp/at" "$tmp/at.rank1"
    shimmed SHIM_HEX=0123 SHIM_AT=any:/at.rank1/:120:kill make job "$tmp/at" --device "$tmp/alike"
    result "$([ $? != 0 ] && [ ! -e "$tmp/at/run.db" ]; echo $?)" "one of which a rank is killed fails"
    shimmed SHIM_HEX=0123 make job "$tmp/at" --device "$tmp/alike"
    result $? "and begins anew"
    picture "$tmp/job" "$tmp/job.rank1" "$tmp/alike" >"$tmp/now"
    result "$(printf '%s\n' "$was" | grep -v alike[^/] | grep -vxFf "$tmp/now" >"$tmp/out"; echo $((1 - $?)))" "the first one and its devices stay as they were"
    works "and it is whole" check "$tmp/job"
fi

# All 32 digits alike: who fails has made nothing there, and removes nothing.
rm -rf "$tmp/alike" "$tmp/at" "$tmp/first" && mkdir "$tmp/alike"
all=0123abcd0123abcd0123abcd0123abcd
shimmed SHIM_HEX=$all make pretrain "$tmp/first" --device "$tmp/alike"
result "$([ $? = 0 ] && [ "$(ls "$tmp/alike")" = "sitrain-$all-dev0" ]; echo $?)" "a run of an id that another will have"
was=$(picture "$tmp/first" "$tmp/alike")
for maker in pretrain import; do
    shimmed SHIM_HEX=$all make $maker "$tmp/at" --device "$tmp/alike"
    result "$([ $? = 1 ] && grep -q "dev0: File exists" "$tmp/err" && [ ! -e "$tmp/at" ]; echo $?)" "$maker with the same id at the same place is refused"
    same "$was" "$(picture "$tmp/first" "$tmp/alike")" "and the first stays as it was"
done

# Runs of older versions have 8 digits there: found, and removed with them.
rm -rf "$tmp/alike" "$tmp/at" && mkdir "$tmp/alike"
make pretrain "$tmp/at" --device "$tmp/alike"
f=$(ls "$tmp/alike")
older=$(echo "$f" | sed 's/^\(sitrain-[0-9a-f]\{8\}\)[0-9a-f]*\(-dev0\)$/\1\2/')
[ "$f" = "$older" ] || mv "$tmp/alike/$f" "$tmp/alike/$older"
works "a run of an older version goes on" pretrain --resume "$tmp/at" --steps 3 --quiet
works "and is whole" check "$tmp/at"
works "and moves" reshard "$tmp/at" --devices 1 --quiet
result "$([ -z "$(ls "$tmp/alike")" ]; echo $?)" "nothing is left of it"

# ---- what somebody saves under a name while siTrain writes what gets it

# stands PATH-PART N COMMAND...: held before its N-th call that moves or exchanges such a name
stands() {
    part=$1 n=$2
    shift 2
    held "rename:$part:$n" "$@"
}
at_last() {
    stands "$@"
    result $? "$3 is about to rename"
}
go_on() { rm -f "$tmp/held" && wait $pid; }

for exchanges in yes no; do
    [ $exchanges = yes ] || export SHIM_FAIL=exchange=EINVAL
    n=1 found=
    while [ -z "$found" ]; do # the exchange itself: the folder is the best one's next
        rm -rf "$tmp/kept"
        cp -a "$tmp/kept.from" "$tmp/kept"
        sleep 1.1 # what was saved just now gets no second name
        stands /kept/best $n pretrain --resume "$tmp/kept" --steps 3 --quiet || break
        next=$(echo "$tmp"/kept/best.old.new-*)
        if [ -e "$next/README.md" ]; then found=1; else go_on; n=$((n + 1)); fi
    done
    result "$([ -n "$found" ]; echo $?)" "a better model is about to take its place (exchange: $exchanges)"
    echo again >"$tmp/kept/best/notes.tmp" && mv "$tmp/kept/best/notes.tmp" "$tmp/kept/best/README.md"
    go_on
    result $? "it does"
    same again "$(cat "$tmp/kept/best/README.md")" "and has the file as it was saved last"
    works "and is whole" check "$tmp/kept/best"
    unset SHIM_FAIL
done
rm -rf "$tmp/class" "$tmp/p.tsv"
make finetune "$tmp/class"
at_last /p.tsv 1 eval "$tmp/class" --test-file "$tmp/rows.csv" --predict "$tmp/p.tsv"
echo mine >"$tmp/p.tsv"
go_on
result "$([ $? = 1 ] && grep -q "p.tsv was made or changed by another program" "$tmp/err"; echo $?)" "predictions where a file came meanwhile are refused"
same mine "$(cat "$tmp/p.tsv")" "and it stays"
rm -f "$tmp/p.tsv"
works "predictions" eval "$tmp/class" --test-file "$tmp/rows.csv" --predict "$tmp/p.tsv"
at_last /p.tsv 1 eval "$tmp/class" --test-file "$tmp/rows.csv" --predict "$tmp/p.tsv"
echo mine >"$tmp/p.new" && mv "$tmp/p.new" "$tmp/p.tsv"
go_on
result "$([ $? = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "and where one took the place of earlier ones"
same mine "$(cat "$tmp/p.tsv")" "and it stays"
for what in file folder; do # of the same kind, so that the names alone tell nothing
    rm -rf "$tmp/words" "$tmp/aside" && cp -r "$tmp/tok" "$tmp/words"
    at_last /words 1 prepare "$tmp/text.txt" --train-tokenizer --vocab 261 --out "$tmp/words"
    [ $what = file ] || { cp -r "$tmp/words" "$tmp/aside" && rm -r "$tmp/words" && mv "$tmp/aside" "$tmp/words"; }
    echo mine >"$tmp/words/merges.txt"
    go_on
    result "$([ $? = 1 ] && grep -q "words was made or changed by another program meanwhile: it stays" "$tmp/err"; echo $?)" "a tokenizer is refused where its $what was changed meanwhile"
    same "mine" "$(cat "$tmp/words/merges.txt")" "and it stays"
done
works "a tokenizer takes the place of another one" prepare "$tmp/text.txt" --train-tokenizer --vocab 261 --out "$tmp/words"
result "$([ "$(cat "$tmp/words/merges.txt")" != mine ] && [ -z "$(ls -d "$tmp"/words.* 2>/dev/null)" ]; echo $?)" "and nothing is left next to it"
for name in trainer_state.json all_results.json; do
    rm -rf "$tmp/at"
    cp -a "$tmp/class" "$tmp/at"
    at_last /at/$name 1 finetune --resume "$tmp/at" --steps 2 --schedule-steps 2 --quiet
    echo mine >"$tmp/mine.json" && mv "$tmp/mine.json" "$tmp/at/$name"
    go_on
    result "$([ $? = 1 ] && grep -q "$name is there and is not what siTrain wrote" "$tmp/err"; echo $?)" "a result where somebody's file came meanwhile is refused: $name"
    same mine "$(cat "$tmp/at/$name")" "and it stays"
    rm "$tmp/at/$name"
    works "without it the results are written" finetune --resume "$tmp/at" --steps 2 --schedule-steps 2 --quiet
    result "$([ -s "$tmp/at/$name" ]; echo $?)" "all of them"
done

# ---- file systems without locks are refused, at once

no_locks() { # FAIL NAME COMMAND...
    fail=$1 name=$2
    shift 2
    (export LD_PRELOAD="$shim" SHIM_FAIL="$fail"; exec timeout -s KILL 60 "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null)
    got=$?
    result "$({ [ "$got" = 1 ] || [ "$got" = 2 ]; } && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q 'no locks' "$tmp/err"; echo $?)" "no locks ($fail): $name"
}
was=$(picture "$tmp/run/dev0" "$tmp/ram/image0" "$tmp/ram/image1")
for at in run/dev0/states ram/image1; do
    (export LD_PRELOAD="$shim" SHIM_FAIL="flock=EIO@$at"; exec timeout -s KILL 60 "$bin" pretrain --resume "$tmp/${at%%/*}" --steps 3 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null)
    result "$([ $? = 1 ] && grep -q "lock $tmp/$at: Input/output error" "$tmp/err" && ! grep -q 'no locks' "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" \
        "a lock that fails otherwise is named: $at"
done
for error in ENOLCK ENOSYS EOPNOTSUPP; do
    no_locks flock=$error@run.lock "a resume" pretrain --resume "$tmp/run" --steps 3 --quiet
done
no_locks flock=ENOLCK@states "a resume, of a device" pretrain --resume "$tmp/run" --steps 3 --quiet
no_locks flock=ENOSYS@states "an export, of a device" export "$tmp/run" "$tmp/at.hf"
no_locks flock=ENOLCK@states "a reshard, of a device" reshard "$tmp/run" --devices 2
no_locks flock=ENOLCK@image "a resume, of an image" pretrain --resume "$tmp/ram" --steps 3 --quiet
no_locks fcntl=ENOLCK "a resume, of the database" pretrain --resume "$tmp/run" --steps 3 --quiet
same "$was" "$(picture "$tmp/run/dev0" "$tmp/ram/image0" "$tmp/ram/image1")" "and no states have changed"
rm -rf "$tmp/at"
for fail in flock=ENOLCK flock=ENOLCK@states fcntl=ENOLCK; do
    no_locks $fail "a new run" pretrain --run "$tmp/at" $data $shape --steps 1
    result "$([ ! -e "$tmp/at" ]; echo $?)" "and nothing is left"
    rm -rf "$tmp/at"
done

# ---- a folder of which not all names can be read may hold more: nothing goes on as if that were all

rm -rf "$tmp/at" "$tmp/kept"
cp -a "$tmp/kept.from" "$tmp/kept"
# shellcheck disable=SC2086
shimmed SHIM_FAIL=readdir=EIO@/run.new- run pretrain --run "$tmp/at" $data $shape --steps 1
result "$([ $? = 1 ] && [ ! -e "$tmp/at/run.db" ] && grep -q "read the names in $tmp/at/run.new-.*: Input/output error" "$tmp/err"; echo $?)" "no run is made of a part of its files"
# shellcheck disable=SC2086
works "the same again makes it" pretrain --run "$tmp/at" $data $shape --steps 1
shimmed SHIM_FAIL=readdir=EIO@/kept/best.old.new- run pretrain --resume "$tmp/kept" --steps 3 --quiet
result "$([ $? = 1 ] && grep -q "read the names in $tmp/kept/best.old.new-.*: Input/output error" "$tmp/err"; echo $?)" "a better model whose old folder cannot be read says so"
works "the next opening carries the user's files" pretrain --resume "$tmp/kept" --steps 4 --quiet
same mine "$(cat "$tmp/kept/best/README.md")" "into best"
rm -rf "$tmp/at" && mkdir "$tmp/at"
shimmed SHIM_FAIL=readdir=EIO@/at run export "$tmp/run" "$tmp/at" --last
result "$([ $? = 2 ] && grep -q 'cannot be read to its end' "$tmp/err"; echo $?)" "nor is such a folder taken for an empty one by export"

# ---- what nobody could look at (a drive that fails, a stale handle of NFS) is not absent: nothing is made in its place, nothing left out

rm -rf "$tmp/at"
run pretrain --run "$tmp/at" $data $shape --steps 2 --snapshot-every 1
was=$(settled "$tmp/at")
for look in "/at/run.db pretrain --resume $tmp/at --steps 4" "/at/run.db export $tmp/at $tmp/at.hf" "/at/dev0 restore $tmp/at" "/at/dev0/states restore $tmp/at"; do
    # shellcheck disable=SC2086
    shimmed SHIM_FAIL="look=EIO@${look%% *}" run ${look#* }
    result "$([ $? = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "cannot be read: Input/output error" "$tmp/err"; echo $?)" "${look%% *} that nobody could look at is not absent: ${look#* /at*}"
done
same "$was" "$(settled "$tmp/at")" "and nothing was changed"
shimmed SHIM_FAIL=look=EIO@/at/tokenizer run export "$tmp/at" "$tmp/at.hf" --last
result "$([ $? != 0 ] && [ ! -e "$tmp/at.hf" ]; echo $?)" "nor is a tokenizer left out of an export"
run export "$tmp/at" "$tmp/at.hf" --last
run import "$tmp/at.hf" "$tmp/imported"
shimmed SHIM_FAIL=look=EIO@/imported/data.bin run pretrain --resume "$tmp/imported" --data "$tmp/text.txt" --steps 1 --seq 8 --batch 1 --quiet
result "$([ $? = 1 ] && grep -q "$tmp/imported/data.bin cannot be read: Input/output error" "$tmp/err"; echo $?)" "nor are tokens somebody's that nobody could look at"
rm -rf "$tmp/kept" "$tmp/at.hf" "$tmp/imported"
cp -a "$tmp/kept.from" "$tmp/kept"
shimmed SHIM_FAIL=look=EIO@/kept/best run pretrain --resume "$tmp/kept" --steps 3 --quiet
result "$([ $? = 1 ] && grep -q "$tmp/kept/best cannot be read: Input/output error" "$tmp/err"; echo $?)" "nor a best model"
held open:/raced/run.lock:1 pretrain --run "$tmp/raced" $data $shape --steps 2 # a second maker is faster
(make pretrain "$tmp/raced")
counts=$(grep commits "$tmp/raced/run.lock")
rm "$tmp/held"
wait $pid
result "$([ $? = 2 ] && [ -n "$counts" ] && [ "$counts" = "$(grep commits "$tmp/raced/run.lock")" ]; echo $?)" "a maker that is too late leaves the numbers in run.lock"
for part in "" /run.lock; do # a loop of links stands for it while a training goes on
    rm -rf "$tmp/seen"
    cp -a "$tmp/at" "$tmp/seen"
    held pwrite:/seen/run.lock:3 pretrain --resume "$tmp/seen" --steps 9 --quiet
    mv "$tmp/seen$part" "$tmp/aside.seen"
    ln -s "$(basename "$tmp/seen$part")" "$tmp/seen$part"
    rm "$tmp/held"
    wait $pid
    result "$([ $? = 1 ] && grep -q "${part:-run.db} cannot be read any more: Too many levels of symbolic links; go on with --resume when its drive is back" "$tmp/err"; echo $?)" "nor is ${part:-run.db} of a training removed or another process's"
    rm "$tmp/seen$part"
    mv "$tmp/aside.seen" "$tmp/seen$part"
    works "which goes on when it is back" pretrain --resume "$tmp/seen" --steps 9 --quiet
done
if strace -o "$tmp/null" true 2>"$tmp/null"; then # one look fails
    for n in 2 4 5 7 8; do
        rm -rf "$tmp/seen"
        cp -a "$tmp/at" "$tmp/seen"
        strace -f -qq -o "$tmp/trace" -P "$tmp/seen/run.db" -e trace=newfstatat,?stat,statx -e "inject=newfstatat,?stat,statx:error=ESTALE:when=$n" "$bin" pretrain --resume "$tmp/seen" --steps 5 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
        result "$(grep -q INJECTED "$tmp/trace" && ! grep -q "was removed" "$tmp/err"; echo $?)" "run.db is not said to be removed if look $n at it fails"
    done
else
    skip "one look that fails" "no strace here, or it may trace nothing"
fi

# ---- without the exchange of two folders: a kill before each change of a name leaves a best, or the next opening makes it whole

n=$((first % 3)) bad= lost=0
while n=$((n + (stride > 1 ? 3 : 1))); do
    rm -rf "$tmp/kept"
    cp -a "$tmp/kept.from" "$tmp/kept"
    (export LD_PRELOAD="$shim" SHIM_FAIL=exchange=EINVAL SHIM_AT="name:/kept/best:$n:kill"; exec "$bin" pretrain --resume "$tmp/kept" --steps 3 --quiet) >"$tmp/out" 2>&1 </dev/null
    [ $? = 137 ] || break
    [ -e "$tmp/kept/best/model.safetensors" ] || lost=$((lost + 1))
    (export LD_PRELOAD="$shim" SHIM_FAIL=exchange=EINVAL; exec "$bin" pretrain --resume "$tmp/kept" --steps 2 --quiet) >"$tmp/out" 2>"$tmp/err" </dev/null || bad="$bad; $n: $(cat "$tmp/err")"
    "$bin" check "$tmp/kept/best" >"$tmp/out" 2>"$tmp/err" || bad="$bad; $n: $(cat "$tmp/err")"
    [ "$(cat "$tmp/kept/best/README.md" 2>&1)" = mine ] || bad="$bad; $n: the user's file is gone"
done
echo "# up to $n kills; after $lost of them there was none until the next opening"
result "$([ -z "$bad" ] && [ $n -gt 5 ]; echo $?)" "killed before each change of a name, best is whole at the next opening $bad"
result "$("$bin" check "$tmp/kept/best" >"$tmp/out" 2>"$tmp/err" && [ "$(cat "$tmp/kept/best/README.md")" = mine ]; echo $?)" "and where nothing is killed"

# ---- files that come into best while a better one is made: of a name of the model's own the better one has its own, any other stays

rm -rf "$tmp/kept" "$tmp/held" "$tmp/held.over"
cp -a "$tmp/kept.from" "$tmp/kept"
stands /kept/best.new- 1 pretrain --resume "$tmp/kept" --steps 3 --quiet
result $? "a better model is being written"
echo mine >"$tmp/kept/best/came.txt"
echo mine >"$tmp/kept/best/config.json"
rm -f "$tmp/held"
wait $pid
result $? "the training goes on"
same "mine mine" "$(echo $(cat "$tmp/kept/best/came.txt" "$tmp/kept/best/README.md"))" "a file of another name stays"
works "and best is whole, with the model's own" check "$tmp/kept/best"
result "$([ -z "$(ls -d "$tmp"/kept/best.* 2>/dev/null)" ]; echo $?)" "and nothing is left next to it"

# ---- killed after the exchange, before what came late was carried over: the next opening carries it

for links in yes no; do # no: a file system without hard links
    [ $links = yes ] || export SHIM_FAIL=link=EOPNOTSUPP
    n=0 late=
    while [ -z "$late" ] && n=$((n + 1)) && [ $n -le 40 ]; do
        rm -rf "$tmp/kept"
        cp -a "$tmp/kept.from" "$tmp/kept"
        echo mine >"$tmp/kept/best/spiece.model" # of a model, but not of this one
        old=$(stat -c %i "$tmp/kept/best")
        held fsync:/kept:$n pretrain --resume "$tmp/kept" --steps 3 --quiet || break
        for part in "$tmp"/kept/best.old.new-*; do
            [ "$(stat -c %i "$part" 2>/dev/null)" != "$old" ] || late=$part
        done
        [ -z "$late" ] || { echo mine >"$late/late.txt" && kill -9 "$pid"; }
        rm -f "$tmp/held"
        wait "$pid" 2>/dev/null
    done
    result "$([ -n "$late" ] && [ ! -e "$tmp/kept/best/late.txt" ]; echo $?)" "killed when the folders are exchanged, while a file is in the old one (links: $links)"
    rm -rf "$tmp/at" && cp -a "$tmp/kept" "$tmp/at" && rm -r "$tmp/at/best"
    works "without the new one" pretrain --resume "$tmp/at" --steps 3 --quiet
    same "mine mine mine" "$(echo $(cd "$tmp/at/best" && cat late.txt README.md spiece.model))" "the old one is put back, with the files"
    works "it goes on" pretrain --resume "$tmp/kept" --steps 2 --quiet
    same "mine mine mine" "$(echo $(cd "$tmp/kept/best" && cat late.txt README.md spiece.model))" "the files are in best"
    works "and best is whole" check "$tmp/kept/best"
    result "$([ -z "$(ls -d "$tmp"/kept/best.* 2>/dev/null)" ]; echo $?)" "and nothing is left next to it"
    unset SHIM_FAIL
done
done_testing
