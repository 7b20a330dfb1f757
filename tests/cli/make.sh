#!/bin/sh
# make where something is missing: one sentence says what, and that make deps installs it; tests that want data say so. Prints TAP.
. tests/tap.sh

# lacks NAME TEXT COMPILER: a build of one object with this compiler fails with TEXT and says what to do
lacks() {
    make BUILD="$tmp/build" CC="$3" "$tmp/build/data/base/err.o" >"$tmp/out" 2>"$tmp/err"
    [ $? != 0 ] && grep -q "^$2 is missing: make deps installs what the build needs$" "$tmp/err" && [ ! -e "$tmp/build/data/base/err.o" ]
    result $? "$1"
}
lacks "no compiler" no-such-compiler no-such-compiler
lacks "no headers" cblas.h "${CC:-gcc} -nostdinc"

built=$(dirname "${SITRAIN_OPENBLAS:-build/tests/siTrain-openblas}")
SITRAIN_DATA= CMOCKA_MESSAGE_OUTPUT=TAP "$built/test_data" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 0 ] && [ "$(grep -c '# SKIP' "$tmp/out")" = 2 ]; echo $?)" "an empty SITRAIN_DATA is none"

done_testing
