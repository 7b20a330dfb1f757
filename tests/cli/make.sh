#!/bin/sh
# make where something is missing: one sentence says what, and that make deps installs it. make elsewhere, and with other flags. Tests
# that want data say so. Prints TAP.
. tests/tap.sh

# lacks NAME TEXT COMPILER: a build of one object with this compiler fails with TEXT and says what to do
lacks() {
    make BUILD="$tmp/build" CC="$3" "$tmp/build/data/base/err.o" >"$tmp/out" 2>"$tmp/err"
    [ $? != 0 ] && grep -q "^$2 is missing: make deps installs what the build needs$" "$tmp/err" && [ ! -e "$tmp/build/data/base/err.o" ]
    result $? "$1"
}
lacks "no compiler" no-such-compiler no-such-compiler
lacks "no headers" cblas.h "${CC:-gcc} -nostdinc"

# A build in another folder, of a source with .incbin; with other flags it is compiled again.
sources=$(pwd)
mkdir "$tmp/here"
here() {
    (cd "$tmp/here" && make -f "$sources/Makefile" BUILD=there there/data/db/questions.o "$@") >"$tmp/out" 2>"$tmp/err"
    grep -c '^  cc ' "$tmp/out"
}
same "1 0 1 0" "$(here) $(here) $(here CPPFLAGS=-DX='"a b"') $(here CPPFLAGS=-DX='"a b"')" "an object is compiled once, and again with other flags"
same there "$(ls "$tmp/here")" "what is built elsewhere lies there"

built=$(dirname "${SITRAIN_OPENBLAS:-build/tests/siTrain-openblas}")
SITRAIN_DATA= CMOCKA_MESSAGE_OUTPUT=TAP "$built/test_data" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 0 ] && [ "$(grep -c '# SKIP' "$tmp/out")" = 2 ]; echo $?)" "an empty SITRAIN_DATA is none"

done_testing
