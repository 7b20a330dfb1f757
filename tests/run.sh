#!/bin/sh
# run.sh PROGRAM...: run test programs (cmocka binaries and shell scripts, all speaking TAP), show what failed, and end with one line
# that counts. A program that dies, or ends without a single result, counts as failed.
set -u
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}" # threads that spin slow each other down on shared cores
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}" # undefined behaviour is a failure, not a remark
passed=0 failed=0 skipped=0
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
for t in "$@"; do
    start=$(date +%s)
    case $t in
    *.sh) sh "$t" >"$log" 2>&1 ;;
    *) CMOCKA_MESSAGE_OUTPUT=TAP "$t" >"$log" 2>&1 ;;
    esac
    rc=$?
    p=$(grep -cE '^ok' "$log") s=$(grep -ciE '^(ok|not ok).*# *skip' "$log") f=$(grep -E '^not ok' "$log" | grep -civE '# *skip')
    p=$((p - $(grep -ciE '^ok.*# *skip' "$log")))
    if [ "$rc" = 77 ] && [ $((p + f)) = 0 ]; then
        s=$((s > 0 ? s : 1))
    elif [ "$rc" != 0 ] && [ "$f" = 0 ] || [ $((p + s + f)) = 0 ]; then
        f=$((f + 1))
    fi
    printf '%-44s %4s passed %3s failed %3s skipped  %3ss\n' "$t" "$p" "$f" "$s" $(($(date +%s) - start))
    if [ "$f" != 0 ]; then
        echo "--- $t exited $rc; its last lines:"
        tail -n 60 "$log"
        echo "---"
    fi
    grep -iE '# *skip' "$log" | sed 's/^/    /'
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
