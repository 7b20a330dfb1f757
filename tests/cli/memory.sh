#!/bin/sh
# --host-mem: the smallest that the refusal names does indeed do, in every mode, and the process stays within it, the arenas of emulated
# devices on top. Prints TAP.
. tests/tap.sh

make_text 2000 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
run prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
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
    run plan "$@" $extra --mode "$mode" --host-mem ${budget}M
    arenas=$(sed -n 's/^arenas of emulated devices *\([0-9.]*\) MiB.*/\1/p' "$tmp/out")
    run pretrain --run "$tmp/run" "$@" $extra --mode "$mode" --host-mem ${budget}M
    rss=$(mib "$(sed -n 's/^step 3.*RSS \([0-9.]*[KMG]\).*/\1/p' "$tmp/out")")
    [ "$got" = 0 ] && [ "$rss" -gt 0 ] && [ "$rss" -le $((budget + $(mib "${arenas:-0}M"))) ]
    result $? "$how: $rss MiB of $budget, and ${arenas:-0} of arenas"
    run eval "$tmp/run" --data "$tmp/text.bin" --host-mem ${budget}M
    result "$got" "$how: eval within the same"
    rm -rf "$tmp/run"
done

done_testing
