#!/bin/sh
# One look, open or read that fails while a model is exported: the command ends with a sentence and leaves nothing, or what it writes is what it
# writes undisturbed. So no file of a model is left out because nobody could look whether it is there. Prints TAP.
. tests/tap.sh
find_shim
if [ -z "$shim" ]; then
    skip "a look fails" "no library that fails it"
    done_testing
fi
smallest
# shellcheck disable=SC2086
works "a run" pretrain --run "$tmp/run" $data $shape --steps 1
works "a model" export "$tmp/run" "$tmp/hf"
works "a GGUF file" export "$tmp/hf" "$tmp/m.gguf"
cp "$tmp/m.gguf" "$tmp/nameless"

none() { rm -rf "$tmp/out-hf"; }
whole_or_none() {
    case $got in
    0) [ ! -s "$tmp/err" ] && diff -r "$tmp/want" "$tmp/out-hf" >"$tmp/out" ;;
    1) [ -s "$tmp/err" ] && [ ! -e "$tmp/out-hf" ] ;;
    *) false ;;
    esac && ! ls "$tmp"/out-hf.* >/dev/null 2>&1
}
# sweep FROM CALL:TEXT:ERRNO...: each such call fails once while FROM is exported
sweep() {
    from=$1
    shift
    rm -rf "$tmp/want"
    works "$from is exported" export "$tmp/$from" "$tmp/want"
    for at in "$@"; do
        fails_once "$at" none whole_or_none "$from, whole or not at all" export "$tmp/$from" "$tmp/out-hf"
    done
}
sweep hf "look:$tmp:EIO" "look:$tmp:EACCES" "open:$tmp/:EIO"
sweep m.gguf look:m.gguf:EIO open:m.gguf:EIO fstat:m.gguf:EIO pread:m.gguf:EIO
sweep nameless look:nameless:EACCES
done_testing
