# tap.sh: sourced by tests/cli: TAP, a temporary folder, and the few things that the scripts share.
# $bin is the program; $tmp is removed at the end; done_testing gives the exit code.
bin=${SITRAIN:-./siTrain}
case $bin in /*) ;; *) bin=$(pwd)/$bin ;; esac
tmp=$(mktemp -d /var/tmp/sitrain-cli.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT
tap_count=0
tap_failed=0

result() { # OK NAME
    tap_count=$((tap_count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tap_count - $2"
    else
        echo "not ok $tap_count - $2"
        for f in "$tmp/out" "$tmp/err"; do
            [ -f "$f" ] && tail -n 15 "$f" | sed 's/^/# /'
        done
        tap_failed=1
    fi
}

skip() { # NAME WHY
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# local_fs NAME: $tmp is on a file system that Linux may serve by NFS; where it is not, NAME is skipped
local_fs() {
    case $(stat -f -c %T "$tmp") in ext2/ext3 | xfs | btrfs | f2fs) return 0 ;; esac
    skip "$1" "the file system here is not one that Linux serves"
    return 1
}

# run ARGUMENTS...: the program, what it says in $tmp/out and $tmp/err, its exit code in $got.
run() {
    "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}

# works NAME ARGUMENTS...
works() {
    tap_name=$1
    shift
    run "$@"
    result "$got" "$tap_name"
}

# refuses CODE TEXT ARGUMENTS...: that exit code, nothing on stdout, one line on stderr with TEXT in it.
refuses() {
    tap_code=$1 tap_text=$2
    shift 2
    run "$@"
    tap_ok=1
    if [ "$got" = "$tap_code" ] && grep -qF -- "$tap_text" "$tmp/err" && [ ! -s "$tmp/out" ] && [ "$(wc -l <"$tmp/err")" = 1 ]; then
        tap_ok=0
    fi
    result $tap_ok "refused with $tap_code: $tap_text"
}

# $shim: the library that holds, delays or kills a process at its calls (tests/shim/delay.c); "" where there is none, or a sanitizer is to load first
find_shim() {
    shim=$(dirname "${SITRAIN_OPENBLAS:-build/tests/siTrain-openblas}")/delay.so
    case $shim in /*) ;; *) shim=$(pwd)/$shim ;; esac
    if [ ! -f "$shim" ] || ldd "$bin" | grep -q libasan; then shim=; fi
}

# held AT ARGUMENTS...: the program, which then stands at that call until $tmp/held is gone; $pid
held() {
    tap_at=$1
    shift
    rm -f "$tmp/held" "$tmp/held.over"
    (export LD_PRELOAD="$shim" SHIM_AT="$tap_at:$tmp/held"; exec "$bin" "$@") >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    while [ ! -e "$tmp/held" ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done
    [ -e "$tmp/held" ]
}

# fails_once CALL:TEXT:ERRNO BEGIN HOLDS NAME ARGUMENTS...: one CALL of the program on a path with TEXT fails, the first, then the second, until there is none left.
# BEGIN makes what it begins with, and HOLDS says whether all is right after each, by $got, $tmp/out, $tmp/err and $tmp/told, which has the call that failed.
fails_once() {
    once_at=$1 once_begin=$2 once_holds=$3 once_name=$4 once_bad='' once_n=0
    shift 4
    while once_n=$((once_n + 1)) && [ $once_n -lt 200 ]; do
        "$once_begin"
        rm -f "$tmp/told"
        (export LD_PRELOAD="$shim" SHIM_TOLD="$tmp/told" SHIM_AT="${once_at%:*}:$once_n:fail=${once_at##*:}"; exec "$bin" "$@") >"$tmp/out" 2>"$tmp/err" </dev/null
        got=$?
        [ -s "$tmp/told" ] || break
        "$once_holds" || once_bad="$once_bad $once_n:$got:$(cat "$tmp/told")"
    done
    [ -z "$once_bad" ] && [ "$got" = 0 ] && [ $once_n -gt 1 ] && [ $once_n -lt 200 ]
    result $? "$once_at: $once_name ($((once_n - 1)) calls)$once_bad"
}

same() { # A B NAME
    [ -n "$1" ] && [ "$1" = "$2" ]
    tap_same=$?
    result $tap_same "$3"
    [ $tap_same = 0 ] || printf '# %s\n# %s\n' "$1" "$2"
}

# Text with some structure, the same every time.
make_text() { # LINES
    awk -v n="$1" 'BEGIN {
        split("the a one some any every that this", a, " "); split("sea ship storm sailor island whale captain harbour", b, " ");
        split("sees finds loves leaves fears follows calls remembers", c, " "); s = 12345;
        for (i = 0; i < n; i++) {
            line = "";
            for (j = 0; j < 6; j++) {
                s = (s * 1103515245 + 12345) % 2147483648; r = int(s / 65536);
                line = line (j ? " " : "") (j % 3 == 0 ? a[r % 8 + 1] : j % 3 == 1 ? b[r % 8 + 1] : c[r % 8 + 1]);
            }
            print line ".";
        }
    }'
}

# A text, its tokenizer and tokens; $data has the options of a training on them, $shape those of the smallest model.
smallest() {
    make_text 60 >"$tmp/text.txt"
    run prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$tmp/tok"
    works "a tokenizer and a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
    data="--data $tmp/text.bin --tokenizer $tmp/tok"
    shape="--n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"
}

# exported RUN: the hash of what it exports: the parameters after its last step.
exported() {
    rm -rf "$tmp/exported"
    run export "$1" "$tmp/exported" --last
    [ "$got" = 0 ] && sha256sum <"$tmp/exported/model.safetensors" | cut -d' ' -f1
}

# language_model LINES VOCAB ARGUMENTS...: one trained on so many lines for a few steps, in $tmp/hf, with its tokenizer in $tmp/tok
language_model() {
    make_text "$1" >"$tmp/text.txt"
    run prepare "$tmp/text.txt" --train-tokenizer --vocab "$2" --out "$tmp/tok"
    shift 2
    run pretrain --run "$tmp/lm" --data "$tmp/text.txt" --tokenizer "$tmp/tok" "$@" --mode mem --durability none --quiet
    works "a language model to begin with" export "$tmp/lm" "$tmp/hf"
}

# in_shards RUN HASH NAME: it exports in several files, which are the same model again; not with one of them cut, changed or missing.
in_shards() {
    rm -rf "$tmp/shards" "$tmp/shard"
    works "$3: export in files of 20 KB" export "$1" "$tmp/shards" --max-shard-size 20K
    run import "$tmp/shards" "$tmp/shard"
    same "$2" "$(exported "$tmp/shard")" "$3: which are the same model"
    rm -rf "$tmp/shard"
    tap_shard=$tmp/shards/$(cd "$tmp/shards" && ls model-00002-of-*)
    cp "$tap_shard" "$tmp/shard"
    truncate -s -4 "$tap_shard"
    refuses 2 "model-00002-of-" import "$tmp/shards" "$tmp/none"
    cp "$tmp/shard" "$tap_shard"
    turn "$tap_shard" $(($(stat -c %s "$tap_shard") - 4))
    refuses 1 "model-00002-of-" import "$tmp/shards" "$tmp/none"
    rm "$tap_shard"
    refuses 2 "model-00002-of-" import "$tmp/shards" "$tmp/none"
    result "$([ ! -e "$tmp/none" ]; echo $?)" "$3: and nothing is left of it"
    rm -rf "$tmp/shards" "$tmp/shard"
}

# by_ranks: what starts several processes of a job here is `mpirun $more`; where there is none, all is skipped.
by_ranks() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # as root, where tests run in a container
    export OMPI_MCA_btl_vader_backing_directory="$tmp" # what a killed rank shared with others would stay in /dev/shm
    if ! command -v mpirun >/dev/null || ! ldd "$bin" | grep -q libmpi; then
        skip "several processes" "no mpirun here, or siTrain is built without MPI"
        done_testing
    fi
    case $(mpirun --version) in
    *"Open MPI"*) more="--oversubscribe --bind-to none" least=64M ;;
    *) more='' least=256M ;; # MPICH's libraries take 112 MiB a process
    esac
}

# refused_by_ranks: $got is what a job of several that is refused ends with; MPICH's mpirun says how it ended the others instead.
refused_by_ranks() { [ "$got" = 2 ] || { [ -z "$more" ] && [ "$got" != 0 ]; }; }

# few_words N: a text of so many, the same every time, in $tmp/text, with its tokenizer in $tmp/tok
few_words() {
    python3 -c '
import random, sys
draw = random.Random(1)
words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
print(" ".join(draw.choice(words) for _ in range(int(sys.argv[1]))), end="")' "$1" >"$tmp/text"
    "$bin" prepare "$tmp/text" --train-tokenizer --vocab 270 --out "$tmp/tok" >/dev/null
}

# turn FILE OFFSET: its lowest bit
turn() {
    turn_byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf "\\$(printf %o $((turn_byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# turn_all FILE: the lowest bit of every page behind the first that is not all zeros: which slots of a device's states count is a matter of time
turn_all() {
    python3 -c '
import sys
with open(sys.argv[1], "r+b") as f:
    data = bytearray(f.read())
    for at in range(4096, len(data), 4096):
        if any(data[at:at + 4096]):
            data[at] ^= 1
    f.seek(0)
    f.write(data)' "$1"
}

# sums RUN: of everything in it but the lock
sums() {
    (cd "$1" && find . -type f ! -name run.lock -exec sha256sum {} + | sort -k 2 | sha256sum)
}

# ask RUN SQL: what its database says
ask() { sqlite3 "$1/run.db" "$2"; }

losses() { ask "$1" "SELECT (step + 1) || ' ' || printf('%!.17g', loss) FROM steps ORDER BY step"; } # RUN: of each step, all digits

steps_of() { ask "$1" "SELECT step + 1, printf('%!.17g %!.17g %!.17g', loss, lr, grad_norm) FROM steps ORDER BY step"; } # RUN: what each computed

# killed_restores BEGIN PLACE AT...: BEGIN makes $tmp/run, whose device 1 is lost. At each call AT, siTrain restore is killed, which puts it in PLACE. The
# same command finishes, and --resume goes on to what $whole says, with whole snapshots. $kills: how often it was killed; $bad: where something was wrong
killed_restores() {
    tap_begin=$1 tap_place=$2 bad='' kills=0
    shift 2
    for at in "$@"; do
        "$tap_begin"
        LD_PRELOAD="$shim" SHIM_AT="$at:kill" "$bin" restore "$tmp/run" --device "1=$tap_place" >"$tmp/out" 2>"$tmp/err" </dev/null
        [ $? = 137 ] && kills=$((kills + 1))
        run snapshots "$tmp/run" --check # it may have been killed when the run was restored, and other snapshots were not yet
        [ "$got$(steps_of "$tmp/run" | wc -l)" = 04 ] || run restore "$tmp/run" --device "1=$tap_place"
        [ "$got" = 0 ] || bad="$bad same-$at"
        run pretrain --resume "$tmp/run" --steps 9 --quiet
        [ "$got" = 0 ] && [ "$(exported "$tmp/run") $(steps_of "$tmp/run")" = "$whole" ] || bad="$bad $at"
        run snapshots "$tmp/run" --check
        [ "$got" = 0 ] || bad="$bad snapshots-$at"
    done
}

# for tests/cli/on_tty.py
has_terminals() { python3 -c 'import os; os.openpty()' 2>/dev/null; }

done_testing() {
    echo "1..$tap_count"
    exit $tap_failed
}
