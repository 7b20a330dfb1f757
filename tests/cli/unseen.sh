#!/bin/sh
# One look, open or read that fails while a model is exported or imported: the command ends with a sentence and leaves nothing, or what it writes is what it
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
more=
none() { rm -rf "$tmp/out-hf"; }
whole_or_none() {
    case $got in
    0) ! grep -v "keeps no record of" "$tmp/err" && diff -r "$tmp/want" "$tmp/out-hf" >"$tmp/out" ;;
    1) [ -s "$tmp/err" ] && [ ! -e "$tmp/out-hf" ] ;;
    *) false ;;
    esac && ! ls "$tmp"/out-hf.* >/dev/null 2>&1
}
# sweep FROM CALL:TEXT:ERRNO...: each such call fails once while FROM is exported
sweep() {
    from=$1
    shift
    rm -rf "$tmp/want"
    # shellcheck disable=SC2086
    works "$from is exported" export "$tmp/$from" "$tmp/want" $more
    for at in "$@"; do
        # shellcheck disable=SC2086
        fails_once "$at" none whole_or_none "$from, whole or not at all" export "$tmp/$from" "$tmp/out-hf" $more
    done
}
sweep hf "look:$tmp:EIO" look:/hf/:EACCES "open:$tmp:EIO" "fsync:$tmp:EIO"
sweep m.gguf look:m.gguf:EIO open:m.gguf:EIO fstat:m.gguf:EIO pread:m.gguf:EIO
sweep nameless look:nameless:EACCES
# a run, which records the export: without the record the export is whole, too
sweep run "look:$tmp/out-hf:EIO" look:run.lock:EIO "pread:$tmp/out-hf:EIO" pwrite:run.db-wal:EIO
# an adapter, and the same in a folder that has its model, too
# shellcheck disable=SC2086
lora="--init $tmp/hf --lora-rank 2 $data --seq 8 --batch 1 --csd-mem 128K --threads 1 --durability none --quiet --steps 1"
# shellcheck disable=SC2086
works "adapters" pretrain --run "$tmp/lora" $lora
works "their folder" export "$tmp/lora" "$tmp/adapter" --adapter
cp -a "$tmp/hf" "$tmp/both"
cp "$tmp/adapter"/adapter* "$tmp/both"
sweep adapter look:/adapter/:EIO
sweep both look:/both/adapter:EACCES
more=--adapter
sweep adapter look:/hf:EIO
# a run of adapters knows where its base is, or is not made
more=
rm -rf "$tmp/want"
works "an adapter" export "$tmp/lora" "$tmp/want" --adapter
no_lora() { rm -rf "$tmp/lora" "$tmp/out-hf"; }
knows_base() {
    if [ "$got" = 0 ]; then
        run export "$tmp/lora" "$tmp/out-hf" --adapter
        [ "$got" = 0 ] || return 1
    else
        [ ! -e "$tmp/lora" ] || return 1
    fi
    whole_or_none
}
# shellcheck disable=SC2086
fails_once "look:hf$:EIO" no_lora knows_base "a run that knows its base, or none" pretrain --run "$tmp/lora" $lora
# a folder that becomes a run: what is exported from it is the same, or there is no run
no_run() { rm -rf "$tmp/imported" "$tmp/out-hf"; }
same_or_none() {
    if [ "$got" = 0 ]; then
        run export "$tmp/imported" "$tmp/out-hf"
        [ "$got" = 0 ] || return 1
    else
        [ ! -e "$tmp/imported" ] || return 1
    fi
    whole_or_none
}
rm -rf "$tmp/want"
run import "$tmp/hf" "$tmp/whole" --mode mem --durability none
works "an import" export "$tmp/whole" "$tmp/want"
fails_once look:/hf/:EIO no_run same_or_none "a run of the same model, or none" import "$tmp/hf" "$tmp/imported" --mode mem --durability none

# what nobody can look at is not said to be no run
for why in "EIO:Input/output error" "EACCES:Permission denied"; do
    export LD_PRELOAD="$shim" SHIM_FAIL="look=${why%:*}@/hf/run.db"
    refuses 1 "/hf/run.db cannot be read: ${why#*:}" export "$tmp/hf" "$tmp/none"
    unset LD_PRELOAD SHIM_FAIL
done
done_testing
