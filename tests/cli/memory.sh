#!/bin/sh
# --host-mem: the smallest that the refusal names does indeed do, in every mode, and the process stays within it, the arenas of emulated
# devices on top. Prints TAP.
. tests/tap.sh

make_text 2000 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
run prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
make_text 100 >"$tmp/held.txt"
run prepare "$tmp/held.txt" --tokenizer "$tmp/tok" --out "$tmp/held.bin"
set -- --n-layer 6 --n-head 4 --n-embd 256 --seq 128 --batch 4 --csd-mem 16M --devices 2 --durability none --steps 3 --data "$tmp/text.bin" \
    --tokenizer "$tmp/tok"

mib() { # of "61.20M" or "1.02G", rounded up
    echo "$1" | awk '{ v = $1 + 0; if ($1 ~ /G$/) v *= 1024; if ($1 ~ /K$/) v /= 1024; print int(v) + (v > int(v)) }'
}

for how in "mem" "base" "su" "su+o" "su+o+c" "su+o fp32" "su+o+c ef"; do
    mode=${how%% *}
    extra=
    case $how in *fp32) extra="--dtype fp32" ;; *ef) extra="--error-feedback" ;; esac
    refuses 2 "is too small" pretrain --run "$tmp/run" "$@" $extra --mode "$mode" --host-mem 1M
    least=$(sed -n 's/.*needs at least \([0-9]*\)M.*/\1/p' "$tmp/err")
    # what the refusal measured of the program itself differs a little from run to run
    budget=$((least + 2))
    run plan --probe off "$@" $extra --mode "$mode" --host-mem ${budget}M
    arenas=$(sed -n 's/^arenas of emulated devices *\([0-9.]*\) MiB.*/\1/p' "$tmp/out")
    run pretrain --run "$tmp/run" "$@" $extra --mode "$mode" --host-mem ${budget}M
    rss=$(mib "$(sed -n 's/^step 3.*RSS \([0-9.]*[KMG]\).*/\1/p' "$tmp/out")")
    [ "$got" = 0 ] && [ "$rss" -gt 0 ] && [ "$rss" -le $((budget + $(mib "${arenas:-0}M"))) ]
    result $? "$how: $rss MiB of $budget, and ${arenas:-0} of arenas"
    run eval "$tmp/run" --data "$tmp/held.bin" --host-mem ${budget}M
    result "$got" "$how: eval within the same"
    rm -rf "$tmp/model"
    mv "$tmp/run" "$tmp/model"
done

# The refusal names what would fit in the memory there is: the largest of each, since half as much again does not.
sizes="--n-head 4 --n-embd 256 --csd-mem 16M --durability none --data $tmp/text.bin --tokenizer $tmp/tok"
deep="pretrain --run $tmp/new --n-layer 24 $sizes"
named() { sed -n "s/.*too small.*--$1 \([a-z0-9]*\).* would fit.*/\1/p" "$tmp/err"; }
refuses 2 " would fit" $deep --seq 128 --batch 32 --host-mem 192M
batch=$(named batch) seq=$(named seq) activations=$(named activations)
for fit in "$batch 128 keep" "32 $seq keep" "32 128 $activations"; do
    set -- $fit
    works "what is named fits: --batch $1 --seq $2 --activations ${3:-missing}" \
        plan --probe off --n-layer 24 $sizes --batch "$1" --seq "$2" --activations "$3" --host-mem 192M
done
refuses 2 "is too small" $deep --seq 128 --batch $((batch + batch / 2)) --host-mem 192M
refuses 2 "is too small" $deep --seq $((seq + seq / 2)) --batch 32 --host-mem 192M
# One layer's input is less than the buffers of three pieces.
refuses 2 "--activations recompute would fit" pretrain --run "$tmp/new" --n-layer 1 --n-head 4 --n-embd 1024 --dtype fp32 --csd-mem 16M --data "$tmp/text.bin" \
    --tokenizer "$tmp/tok" --seq 128 --batch 8 --host-mem 308M --activations offload
refuses 2 "no smaller --batch or --seq would fit" $deep --seq 128 --batch 32 --host-mem 40M
refuses 2 " would fit" eval "$tmp/model" --data "$tmp/held.bin" --seq 128 --batch 400 --host-mem 100M
works "what eval names fits" eval "$tmp/model" --data "$tmp/held.bin" --seq 128 --batch "$(named batch)" --host-mem 100M

# ulimit -v and -d: one sentence within seconds, where OpenBLAS would try for ever to get its buffers; room enough is taken.
works "a model of a layer" pretrain --run "$tmp/small" --schedule constant --n-layer 1 --n-head 2 --n-embd 32 --seq 16 --batch 1 --csd-mem 192K --steps 1 --data "$tmp/text.bin" --tokenizer "$tmp/tok"
limited() { # LIMIT ARGUMENTS...: refused under ulimit -LIMIT (v:KIB or d:KIB)
    limit=$1
    shift
    (ulimit "-${limit%:*}" "${limit#*:}" && exec timeout -s KILL 60 "$bin" "$@") >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    { [ $got = 1 ] || [ $got = 2 ]; } && grep -q "ulimit -${limit%:*}\|ulimit -v or -d" "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ] && [ ! -e "$tmp/limited" ]
    result $? "ulimit -${limit%:*} ${limit#*:}: $1 $2 is refused"
}
for limit in v:100000 d:20000; do # before any command begins
    limited $limit pretrain --resume "$tmp/small" --steps 2
done
for limit in v:450000 d:300000; do
    limited $limit pretrain --resume "$tmp/small" --steps 2
    limited $limit eval "$tmp/small" --data "$tmp/held.bin"
    limited $limit generate "$tmp/small" --prompt sea --tokens 1
    limited $limit pretrain --run "$tmp/limited" --n-layer 1 --n-head 2 --n-embd 32 --seq 16 --batch 1 --csd-mem 192K --steps 1 --data "$tmp/text.bin" --tokenizer "$tmp/tok"
done
# Rows of conversations are encoded within --host-mem, however many threads there are; one that would not fit is refused.
python3 -c 'for n in [1 << 18] * 12: print("{\"messages\": [{\"role\": \"user\", \"content\": \"" + "sea " * n + "\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}")' >"$tmp/large.jsonl"
large="finetune --task chat --init tests/fixtures/chat_steps/qwen3 --train-file $tmp/large.jsonl --loss-on all --steps 1 --threads 8 --quiet"
rm -rf "$tmp/limited"
# shellcheck disable=SC2086
python3 -c 'import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
print("peak", peak, "MiB")
sys.exit(code or peak > 220)' "$bin" $large --run "$tmp/limited" --host-mem 220M >"$tmp/out" 2>"$tmp/err"
result $? "long rows are encoded within --host-mem ($(tail -n 1 "$tmp/out"))"
# shellcheck disable=SC2086
refuses 2 "bytes, which take more memory than --host-mem leaves: give more, or leave the row out" $large --run "$tmp/never" --host-mem 64M
result "$([ ! -e "$tmp/never" ]; echo $?)" "and nothing is made"

# oneDNN crashes where it cannot map the code of a product. Rows of conversations have products of many shapes.
bad=
for limit in 360000 400000 440000 480000 520000; do
    (ulimit -v $limit && exec timeout -s KILL 60 "$bin" finetune --task chat --init tests/fixtures/chat_steps/qwen3 --run "$tmp/limited" \
        --train-file tests/fixtures/chat_steps/rows.jsonl --steps 1 --quiet) >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    [ $got -le 2 ] || bad="$bad $limit:$got"
    rm -rf "$tmp/limited"
done
result "$([ -z "$bad" ]; echo $?)" "many products under ulimit -v: a sentence or a run, no crash$bad"
(ulimit -s 64 && exec "$bin" --version) >"$tmp/out" 2>"$tmp/err" </dev/null
result "$([ $? = 1 ] && grep -q "^siTrain: ulimit -s leaves a stack of 65536 bytes" "$tmp/err"; echo $?)" "a stack that is too small is named"
(ulimit -v 64000000 && ulimit -d 64000000 && exec "$bin" pretrain --resume "$tmp/small" --steps 2 --host-mem 100M) >"$tmp/out" 2>"$tmp/err" </dev/null
result $? "with room enough it trains"
works "no step was lost" check "$tmp/small"
# What the check asks for is what the chosen engine maps, but for the stacks of threads that may come: 100 MB at most.
# asked FILE LIMIT: the smallest limit, in KiB, that the refusal in FILE asks for.
asked() {
    sed 's/.*ulimit -v \([0-9.]*\)\([KMG]\) more.* but \([0-9.]*\)\([KMG]\) are.*/\1 \2 \3 \4/' "$1" |
        awk -v limit="$2" '{ k["K"] = 1; k["M"] = 1024; k["G"] = 1048576; printf "%d\n", limit + $3 * k[$4] - $1 * k[$2] }'
}
for blas in auto openblas; do
    line="--schedule constant --n-layer 1 --n-head 2 --n-embd 32 --seq 16 --batch 1 --csd-mem 192K --blas $blas --data $tmp/text.bin --tokenizer $tmp/tok"
    # shellcheck disable=SC2086
    (ulimit -v 450000 && exec "$bin" pretrain --run "$tmp/$blas.0" $line --steps 3) >"$tmp/out" 2>"$tmp/err" </dev/null
    limit=$(asked "$tmp/err" 450000)
    # shellcheck disable=SC2086
    (ulimit -v 64000000 && exec "$bin" pretrain --run "$tmp/$blas.1" $line --steps 60) >"$tmp/out" 2>"$tmp/err" </dev/null &
    peak=0
    while now=$(sed -n 's/^VmPeak:[^0-9]*\([0-9]*\).*/\1/p' /proc/$!/status 2>/dev/null) && [ -n "$now" ]; do
        peak=$now
        sleep 0.01 # the last of 60 steps maps nothing that the others did not
    done
    wait $!
    result $? "--blas $blas trains with a limit"
    [ "$((limit - peak))" -ge 0 ] && [ "$((limit - peak))" -le 100000 ]
    result $? "the limit that --blas $blas asks for, $limit, is what it maps, $peak, and some tens of MB"
    # shellcheck disable=SC2086
    (ulimit -v $((limit + 24000)) && exec "$bin" pretrain --run "$tmp/$blas.2" $line --steps 3) >"$tmp/out" 2>"$tmp/err" </dev/null
    result $? "with little more it trains"
done

done_testing
