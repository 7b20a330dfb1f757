#!/bin/sh
# Runs that a program before this one stopped in the middle (tests/fixtures/make_runs.sh): this one reads them, finishes the step that was
# half done, and goes on. Runs of formats before the first release are refused. Prints TAP.
#
# What is compared, with what the program of then made of the same files:
# - what is read or is an update, the hash of an export: both give the same bits on every machine;
# - what further steps computed, losses within 1e-5, since sums of products depend on the processor; within 3e-4 where the engine is another
#   one, since it may round operands to bf16 that were not (attention, on processors that multiply bf16: 3.2e-5 was seen). Where both are
#   those of the fixtures' maker, losses and the last export are compared bit for bit.
. tests/tap.sh

value() { sed -n "s/^$1 $2 //p" "$here/expected"; } # RUN WHAT

# as it was, in a folder where it was not made
unpack() {
    rm -rf "$tmp/run" "$tmp/$1"
    python3 -m tarfile -e "$here/$1.tar.xz" "$tmp" >"$tmp/out" 2>"$tmp/err" && mv "$tmp/$1" "$tmp/run"
}

# close TOLERANCE RUN: the losses of all steps
losses_are() {
    sqlite3 "$tmp/run/run.db" "SELECT '$2 loss.' || (step + 1) || printf(' %.17g', loss) FROM steps ORDER BY step" >"$tmp/losses"
    grep "^$2 loss" "$here/expected" | paste -d' ' - "$tmp/losses" | awk -v most="$1" '
        $2 != $5 || $3 - $6 > most || $6 - $3 > most { bad = 1 } END { exit bad || NR != 6 }'
}

make_text 60 >"$tmp/text.txt"
here=$(pwd)/tests/fixtures/runs
for run in devices feedback mem fine half; do
    case $run in
    fine) go=finetune given="--eval-file $tmp/rows.tsv" ;;
    *) go=pretrain given="--data $tmp/text.txt --seq 8 --batch 2" ;;
    esac
    printf 'sentence\tlabel\nthe sea\t1\na ship\t0\n' >"$tmp/rows.tsv"
    unpack $run
    result $? "$run: a run of the program before"
    before=$(cksum "$tmp/run/run.db" "$tmp/run"/dev*/states "$tmp/run"/image? 2>/dev/null)
    works "$run: check" check "$tmp/run"
    grep -q 'is half done' "$tmp/out"
    [ $? = "$([ $run = half ]; echo $?)" ]
    result $? "$run: and what is half done"
    works "$run: report" report "$tmp/run"
    works "$run: a page of it" report "$tmp/run" --html "$tmp/page.html"
    works "$run: report --config" report "$tmp/run" --config
    [ $run = half ] || same "$before" "$(cksum "$tmp/run/run.db" "$tmp/run"/dev*/states "$tmp/run"/image? 2>/dev/null)" "$run: looking changes nothing"
    [ $run != half ] || works "$run: the step is finished" pretrain --resume "$tmp/run" --steps 2 --quiet
    works "$run: eval" eval "$tmp/run" $given --threads 1
    same "$(value $run masters)" "$(exported "$tmp/run")" "$run: the parameters of then"
    works "$run: and whole" check "$tmp/run"
    works "$run: goes on" $go --resume "$tmp/run" --steps 6 --quiet
    grep -q 'products ran on' "$tmp/err" # another engine, or version of it, goes on with it
    other=$?
    machine=$(sqlite3 "$tmp/run/run.db" "SELECT group_concat(value, ', ') FROM (SELECT value FROM runs WHERE key IN ('cpu', 'engine') ORDER BY key)")
    losses_are "$([ $other = 0 ] && echo 3e-4 || echo 1e-5)" $run
    result $? "$run: to the losses of then"
    if [ $other = 1 ] && [ "$machine" = "$(value all machine)" ] && [ "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" = "${machine%%,*}" ]; then
        losses_are 0 $run
        result $? "$run: bit for bit"
        same "$(value $run end)" "$(exported "$tmp/run")" "$run: and to the same parameters"
    else
        skip "$run: bit for bit" "the processor or the engine of products is another one"
    fi
    works "$run: whole in the end" check "$tmp/run"
done

for each in runs2/mem runs3/half; do
    here=$(pwd)/tests/fixtures/${each%/*}
    unpack "${each#*/}"
    before=$(cd "$tmp/run" && find . -type f ! -name run.lock ! -name '*-shm' -exec cksum {} + | sort)
    for command in check report "export $tmp/run $tmp/hf" "pretrain --steps 6 --resume"; do
        case $command in
        export*) line=$command ;;
        *) line="$command $tmp/run" ;;
        esac
        refuses 2 "before the first release" $line
    done
    same "$before" "$(cd "$tmp/run" && find . -type f ! -name run.lock ! -name '*-shm' -exec cksum {} + | sort)" "$each: and nothing of it is changed"
done
done_testing
