#!/bin/sh
# fuzz.sh FOLDER SECONDS TARGET...: libFuzzer on each target, its inputs kept in FOLDER/corpus/TARGET, and a table of what was run. What
# falls is left in FOLDER/fallen, and named.
set -u
dir=$1 seconds=$2
shift 2
fuzz=$dir/tests/fuzz/fuzz
mkdir -p "$dir/fallen" || exit 1
export ASAN_OPTIONS="allocator_may_return_null=1:handle_abort=1:detect_leaks=1"
export OMP_NUM_THREADS=1
failed=0
printf '%-14s %12s %10s %10s  %s\n' target executions 'a second' inputs result
for t in "$@"; do
    corpus=$dir/corpus/$t
    mkdir -p "$corpus" || exit 1
    "$fuzz" --target="$t" --seeds="$corpus" || exit 1
    case $t in
    tokenizer | database | run | options | config | chat) most=16384 ;;
    *) most=65536 ;;
    esac
    "$fuzz" "$corpus" --target="$t" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=$most \
        -close_fd_mask=1 -print_final_stats=1 -artifact_prefix="$dir/fallen/$t-" >"$dir/fallen/$t.log" 2>&1
    rc=$?
    stat() { sed -n "s/^stat::$1: *//p" "$dir/fallen/$t.log"; }
    printf '%-14s %12s %10s %10s  %s\n' "$t" "$(stat number_of_executed_units)" "$(stat average_exec_per_sec)" \
        "$(find "$corpus" -type f | wc -l)" "$([ $rc = 0 ] && echo fine || echo "FAILED: $dir/fallen/$t.log")"
    [ $rc = 0 ] || failed=1
done
exit $failed
