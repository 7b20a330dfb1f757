#!/bin/sh
# Runs that a program before this one stopped in the middle (tests/fixtures/make_runs.sh), in the formats of then: this one reads them,
# finishes the step that was half done, and goes on. Prints TAP.
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
for each in runs/devices runs/feedback runs/mem runs/fine runs/half runs3/devices runs3/half; do
    here=$(pwd)/tests/fixtures/${each%/*} run=${each#*/}
    case $run in
    fine) go=finetune given="--eval-file $tmp/rows.tsv" ;;
    *) go=pretrain given="--data $tmp/text.txt --seq 8 --batch 2" ;;
    esac
    printf 'sentence\tlabel\nthe sea\t1\na ship\t0\n' >"$tmp/rows.tsv"
    unpack $run
    result $? "$each: a run of the program before"
    before=$(cksum "$tmp/run/run.db" "$tmp/run"/dev*/states "$tmp/run"/image? 2>/dev/null)
    works "$each: check" check "$tmp/run"
    grep -q 'is half done' "$tmp/out"
    [ $? = "$([ $run = half ]; echo $?)" ]
    result $? "$each: and what is half done"
    works "$each: report" report "$tmp/run"
    works "$each: a page of it" report "$tmp/run" --html "$tmp/page.html"
    works "$each: report --config" report "$tmp/run" --config
    [ $run = half ] || same "$before" "$(cksum "$tmp/run/run.db" "$tmp/run"/dev*/states "$tmp/run"/image? 2>/dev/null)" "$each: looking changes nothing"
    [ $run != half ] || works "$each: the step is finished" pretrain --resume "$tmp/run" --steps 2 --quiet
    works "$each: eval" eval "$tmp/run" $given --threads 1
    same "$(value $run masters)" "$(exported "$tmp/run")" "$each: the parameters of then"
    works "$each: and whole" check "$tmp/run"
    works "$each: goes on" $go --resume "$tmp/run" --steps 6 --quiet
    grep -q 'products ran on' "$tmp/err" # another engine, or version of it, goes on with it
    other=$?
    machine=$(sqlite3 "$tmp/run/run.db" "SELECT group_concat(value, ', ') FROM (SELECT value FROM runs WHERE key IN ('cpu', 'engine') ORDER BY key)")
    losses_are "$([ $other = 0 ] && echo 3e-4 || echo 1e-5)" $run
    result $? "$each: to the losses of then"
    if [ $other = 1 ] && [ "$machine" = "$(value all machine)" ] && [ "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" = "${machine%%,*}" ]; then
        losses_are 0 $run
        result $? "$each: bit for bit"
        same "$(value $run end)" "$(exported "$tmp/run")" "$each: and to the same parameters"
    else
        skip "$each: bit for bit" "the processor or the engine of products is another one"
    fi
    same 0 "$(sqlite3 "$tmp/run/run.db" "SELECT count(*) FROM spans WHERE phase = 'optimizer_wait' OR (device = -1 AND start_ns > 0 AND phase = 'param_read')")" \
        "$each: its waits have names"
    works "$each: whole in the end" check "$tmp/run"
done
done_testing
