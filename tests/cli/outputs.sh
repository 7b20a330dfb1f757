#!/bin/sh
# What a command may write over: every option that names an output, against inputs, parts of runs (also of one that trains), models,
# devices, links, and a person's own files. Each refusal is looked at in the victim's bytes. What siTrain wrote itself is replaced, and keeps
# its mode. Then tokenizers as whole folders, and what a terminal, a table and a spreadsheet get of a stranger's text. Prints TAP.
set -u
. tests/tap.sh

make_text 60 >"$tmp/text.txt"
shape="--n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$tmp/tok"
# shellcheck disable=SC2086
works "a run" pretrain --run "$tmp/run" --data "$tmp/text.txt" --eval-data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape --steps 2 --keep-best --tensorboard auto
works "a model" export "$tmp/run" "$tmp/hf"
printf 'text,label\na sea,yes\na ship,no\nthe storm,yes\nany whale,no\n' >"$tmp/rows.csv"
works "a classifier" finetune --run "$tmp/tuned" --train-file "$tmp/rows.csv" --init "$tmp/hf" --steps 1 --batch 2 --max-seq 8 --mode mem --durability none --threads 1
printf '# A machine\nname = mine\nflops = 1e12\ndrive = 2e9 1e9 1e9\n' >"$tmp/machine"
# shellcheck disable=SC2086
"$bin" pretrain --run "$tmp/live" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape --steps 1000000 >/dev/null 2>&1 &
live=$!
trap 'kill -KILL $live 2>/dev/null; rm -rf "$tmp"' EXIT

# put OPTION PATH: the command that writes there
put() {
    case $1 in
    html) run report "$tmp/run" --html "$2" ;;
    many) run report "$tmp/run" "$tmp/tuned" --html "$2" ;;
    trace) run report "$tmp/run" --trace "$2" ;;
    tokens) run prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$2" ;;
    render) run prepare "$tmp/chat.jsonl" --render --init "$tmp/hf" --out "$2" ;;
    predict) run eval "$tmp/tuned" --test-file "$tmp/rows.csv" --max-seq 8 --batch 2 --threads 1 --predict "$2" ;;
    plan) run plan --n-layer 1 --n-head 1 --n-embd 16 --vocab 96 --batch 1 --seq 16 --machine "$tmp/machine" --compare --run "$tmp/none" --csd-mem 128K --json "$2" ;;
    figures) run bench --quick --n-layer 1 --n-head 1 --n-embd 16 --vocab 96 --batch 1 --seq 16 --rounds 1 --threads 1 --only disk --dir "$tmp/d" --json "$2" ;;
    save) run bench --quick --n-layer 1 --n-head 1 --n-embd 16 --dir "$tmp/d" --save "$2" ;;
    tokenizer) run prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$2" ;;
    export) run export "$tmp/run" "$2" ;;
    esac
}
mkdir "$tmp/d"
echo '{"text": "a row"}' >"$tmp/chat.jsonl"
files="html trace tokens render predict plan figures save"

# state PATH: what it is, and its bytes; of a run that trains the file itself, since its bytes change
state() {
    case $1 in
    "$tmp"/live/*) stat -c '%i %a' "$1" ;;
    *) stat -c '%F %h %a' "$1" && { [ ! -f "$1" ] || sha256sum <"$1"; } && { [ ! -d "$1" ] || (cd "$1" && find . -type f -exec sha256sum {} + | sort -k 2); } ;;
    esac 2>&1
}
# keeps PATH OPTION...: each refuses to write there, with one sentence and 2, and it is what it was, or not there
keeps() {
    keeps_at=$1 wrong=
    shift
    before=$(state "$keeps_at")
    for option; do
        put "$option" "$keeps_at"
        [ "$got" = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && [ ! -s "$tmp/out" ] || wrong="$wrong$option ended with $got; "
        [ "$(state "$keeps_at")" = "$before" ] || wrong="$wrong$option changed it; "
    done
    result "$([ -z "$wrong" ]; echo $?)" "kept: ${keeps_at#"$tmp"/} $wrong"
}
all() { # PATH...
    for at; do
        # shellcheck disable=SC2086
        keeps "$at" $files
    done
}

# ---- a run, idle and under way, with what it may get later; a model ----

while [ ! -s "$tmp/live/run.db" ] && kill -0 $live 2>/dev/null; do sleep 0.1; done
all "$tmp/live/run.db" "$tmp/live/dev0/states" "$tmp/live/run.lock"
kill -INT $live && wait $live
result "$([ $? = 130 ]; echo $?)" "the training went on, and was stopped"
works "  and its run is whole" check "$tmp/live" --quiet
sums "$tmp/run" >"$tmp/before"
for part in run.db run.lock dev0/states data.bin tokenizer/vocab.json best/model.safetensors tensorboard/x.html run.db-journal dev3 image0 train.ex \
    trainer_state.json predict_results_None.txt best.next/x DATA.BIN Eval.bin Run.db-WAL; do
    keeps "$tmp/run/$part" html tokens plan
done
keeps "$tmp/run/tokenizer" tokenizer export
keeps "$tmp/run" tokenizer export html
keeps "$tmp/run/dev1" tokenizer export
for at in dev0 best/x tokenizer dev7/y; do
    # shellcheck disable=SC2086
    refuses 2 "a part of a run" pretrain --run "$tmp/none" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape --steps 1 --tensorboard "$tmp/run/$at"
done
result "$([ ! -e "$tmp/none" ]; echo $?)" "  and no run is made"
same "$(cat "$tmp/before")" "$(sums "$tmp/run")" "the run is what it was"
all "$tmp/hf/model.safetensors" "$tmp/hf/config.json" "$tmp/hf/tokenizer.json"
for part in tokenizer.model Config.JSON; do
    keeps "$tmp/hf/$part" html plan tokens
done
keeps "$tmp/hf" tokenizer export
for at in run/report.html run/notes.json; do
    put html "$tmp/$at" && put html "$tmp/$at"
    result "$got" "a name that no run has may be used, and again: $at"
done

# ---- inputs ----

keeps "$tmp/text.txt" tokens
keeps "$tmp/tok/vocab.json" tokens
keeps "$tmp/machine" plan
keeps "$tmp/rows.csv" predict
keeps "$tmp/tuned/run.db" predict
cp -r "$tmp/tok" "$tmp/tok3"
cp "$tmp/text.txt" "$tmp/tok3/merges.txt"
refuses 2 "which is read" prepare "$tmp/tok3/merges.txt" --train-tokenizer --vocab 260 --out "$tmp/tok3"
same "$(cat "$tmp/text.txt")" "$(cat "$tmp/tok3/merges.txt")" "  and it is what it was"
mkdir "$tmp/mnli"
printf 'x\n' >"$tmp/mnli/dev_matched.tsv"
refuses 2 "mnli/p-mm is there" eval "$tmp/tuned" --task mnli --data "$tmp/mnli" --predict "$(: >"$tmp/mnli/p" && echo mine >"$tmp/mnli/p-mm" && echo "$tmp/mnli/p")"
mkdir "$tmp/mnli/below"
for at in mnli/own mnli/below/own; do # directly in the folder that is read, and below it
    echo mine >"$tmp/$at"
    refuses 2 "$at is there, in $tmp/mnli, which is read, and does not begin as predictions of siTrain eval --predict do: choose another name" \
        eval "$tmp/tuned" --task mnli --data "$tmp/mnli" --predict "$tmp/$at"
    result "$(! grep -q 'remove it' "$tmp/err" && [ "$(cat "$tmp/$at")" = mine ]; echo $?)" "  and nobody is told to remove it"
done
refuses 2 "is named twice" bench --json "$tmp/both" --save "$tmp/both"
refuses 2 "the name of a file is expected, and this is not written to standard output" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out -

# ---- a person's own files; what is no file ----

mkdir "$tmp/own"
printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>mine</title>\n' >"$tmp/own/a.html"
printf '{\n  "version": "1.0",\n  "machine": "mine"\n}\n' >"$tmp/own/a.json"
printf '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 400"></svg>\n' >"$tmp/own/a.svg"
printf 'a,b\n1,2\n' >"$tmp/own/a.csv"
printf 'index\tprediction\n0\tyes\n1\tno\n' >"$tmp/own/a.tsv" # as run_glue.py writes them
printf 'mine\n' >"$tmp/own/a.txt"
python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<256i2H", 20240520, 1, 2, *[0] * 253, 1, 2))' >"$tmp/own/llmc.bin"
printf '\1\0\2\0' >"$tmp/own/nano.bin"
cp "$tmp/run/dev0/states" "$tmp/own/device"
ln "$tmp/own/a.csv" "$tmp/own/second"
ln -s a.txt "$tmp/own/link"
ln -s nowhere "$tmp/own/dangling"
mkfifo "$tmp/own/pipe"
mkdir "$tmp/own/folder"
for at in "$tmp"/own/*; do
    all "$at"
done
same "mine" "$(cat "$tmp/own/a.txt")" "what the link leads to is what it was"
result "$([ ! -e "$tmp/own/nowhere" ]; echo $?)" "and nothing is where one leads nowhere"
keeps /dev/null html plan tokens
keeps "$tmp/own/a.txt" tokenizer export
keeps "$tmp/own" tokenizer export
keeps "$tmp/none/x" html tokens plan predict
keeps "$tmp/new/" html tokens plan

# ---- its own ----

for option in html many trace tokens predict plan figures; do
    at=$tmp/kind.$option
    : >"$at"
    chmod 640 "$at"
    put "$option" "$at"
    result "$([ "$got" = 0 ] && [ "$(stat -c %a "$at")" = 640 ]; echo $?)" "$option: an empty file is replaced, and its mode stays"
    chmod 600 "$at"
    echo more >>"$at"
    put "$option" "$at"
    if [ "$option$got" = predict2 ] && grep -q 'not marked' "$tmp/err"; then
        skip "predict: its own file is replaced" "no attributes on this file system"
    else
        result "$([ "$got" = 0 ] && [ "$(stat -c %a "$at")" = 600 ] && ! tail -n 1 "$at" | grep -q more; echo $?)" "$option: its own file is replaced, and its mode stays"
    fi
done
for pair in html:plan plan:figures figures:plan trace:html tokens:html predict:tokens; do
    keeps "$tmp/kind.${pair%:*}" "${pair#*:}"
done
if [ "$(id -u)" = 0 ]; then
    chown 12345:12345 "$tmp/kind.html"
    put html "$tmp/kind.html"
    same "12345 12345" "$(stat -c '%u %g' "$tmp/kind.html")" "and so does its owner"
fi
sed -i '/name="generator"/d' "$tmp/kind.html"
sed -i '/"about"/d' "$tmp/kind.plan" "$tmp/kind.figures"
for option in html plan figures; do
    put "$option" "$tmp/kind.$option"
    result "$got" "$option: as an older version wrote it, it is replaced, too"
done

# What is mounted, or may not be moved, is not replaced.
mkdir "$tmp/held" && put tokenizer "$tmp/held/t" && put html "$tmp/held/p"
if [ "$(id -u)" = 0 ] && cp "$tmp/held/t/merges.txt" "$tmp/held/mine" && mount --bind "$tmp/held/mine" "$tmp/held/t/merges.txt" 2>"$tmp/out"; then
    refuses 2 "held/t/merges.txt is mounted: unmount it first" prepare "$tmp/text.txt" --train-tokenizer --vocab 262 --out "$tmp/held/t"
    umount "$tmp/held/t/merges.txt"
    mount --bind "$tmp/held/p" "$tmp/held/p"
    refuses 2 "held/p is mounted: unmount it first" report "$tmp/run" --html "$tmp/held/p"
    umount "$tmp/held/p"
    same "mine p t" "$(echo $(ls "$tmp/held"))" "and nothing is left next to them"
else
    skip "a mounted output" "only root may mount one"
fi
if chattr +i "$tmp/held/p" 2>"$tmp/out"; then
    refuses 2 "held/p is immutable or append-only" report "$tmp/run" --html "$tmp/held/p"
    chattr -i "$tmp/held/p"
    cp -r "$tmp/run" "$tmp/held/i"
    for at in run.lock dev0/states; do
        chattr +i "$tmp/held/i/$at"
        refuses 1 "$at is immutable or append-only: take the attribute away first (chattr -i -a)" pretrain --resume "$tmp/held/i" --steps 99 --quiet
        chattr -i "$tmp/held/i/$at"
    done
    rm -r "$tmp/held/i"
    # In such a folder nothing that is made gets its name, and nothing can be removed again.
    cp -r "$tmp/run" "$tmp/held/r"
    for at in held held/r/dev0 held/r; do
        was=$(find "$tmp/held" | sort)
        chattr +a "$tmp/$at"
        case $at in
        held) refuses 2 "held is immutable or append-only" report "$tmp/run" --html "$tmp/held/new" ;;
        held/r/dev0) refuses 2 "held/r/dev0 is immutable or append-only" reshard "$tmp/held/r" --devices 2 --quiet ;;
        held/r) refuses 2 "held/r is immutable or append-only" pretrain --resume "$tmp/held/r" --steps 99 --keep-best --eval-every 1 --quiet ;;
        esac
        chattr -a "$tmp/$at"
        [ $at = held/r ] || same "$was" "$(find "$tmp/held" | sort)" "  and nothing is left there"
    done
else
    skip "an immutable output" "no such attributes here"
fi
# shellcheck disable=SC2086
refuses 2 "--tensorboard $tmp/text.txt: Not a directory" pretrain --run "$tmp/none" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape --steps 1 --tensorboard "$tmp/text.txt"
result "$([ ! -e "$tmp/none" ]; echo $?)" "  and no run is made"

# ---- a tokenizer's folder ----

folder() { (cd "$1" && sha256sum -- * | sha256sum); }
mkdir "$tmp/t" && chmod 700 "$tmp/t"
works "an empty folder becomes a tokenizer" prepare "$tmp/text.txt" --train-tokenizer --vocab 258 --out "$tmp/t"
chmod 600 "$tmp/t/vocab.json"
one=$(folder "$tmp/t")
works "another one takes its place" prepare "$tmp/text.txt" --train-tokenizer --vocab 262 --out "$tmp/t"
two=$(folder "$tmp/t")
same "700 600" "$(echo $(stat -c %a "$tmp/t" "$tmp/t/vocab.json"))" "  and has its modes"
mixed=
for i in 1 2 3 4; do
    rm -rf "$tmp/t"
    n=0 pids= done=
    for vocab in 258 262 258; do
        n=$((n + 1))
        "$bin" prepare "$tmp/text.txt" --train-tokenizer --vocab $vocab --out "$tmp/t" >"$tmp/null" 2>"$tmp/at.$n" &
        pids="$pids $!"
    done
    n=0
    for pid in $pids; do
        n=$((n + 1))
        if wait "$pid"; then done=yes; else grep -q "was made or changed by another program meanwhile" "$tmp/at.$n" || mixed="$mixed one failed: $(cat "$tmp/at.$n");"; fi
    done
    [ "$done" ] || mixed="$mixed all failed;"
    case $(folder "$tmp/t") in "$one" | "$two") ;; *) mixed="$mixed round $i is mixed;" ;; esac
done
result "$([ -z "$mixed" ] && [ "$(ls -d "$tmp"/t*new* 2>/dev/null)" = '' ]; echo $?)" "three at once leave one of them, whole, and nothing beside it; one that came too late says so $mixed"
# a process that works in the folder puts a file into it while it is replaced, whatever its name is by then: the file stays
find_shim
rm -rf "$tmp/held" # the name of the file at which a process is held
if [ -n "$shim" ]; then
    for ends in goes-on killed; do
        n=1 bad=
        while [ $n -lt 400 ]; do
            rm -rf "$tmp"/t "$tmp"/t.*
            cp -r "$tmp/tok" "$tmp/t"
            exec 9<"$tmp/t"
            held "any:$tmp/t:$n" prepare "$tmp/text.txt" --train-tokenizer --vocab 262 --out "$tmp/t" || break
            echo mine >/proc/self/fd/9/notes
            [ $ends = killed ] && kill -9 $pid
            rm "$tmp/held"
            wait $pid
            got=$?
            [ $got = 0 ] && bad="$bad $n:$got"
            run prepare "$tmp/text.txt" --train-tokenizer --vocab 263 --out "$tmp/t"
            [ "$(cat "$tmp"/t/notes "$tmp"/t.old-*/notes 2>"$tmp/null")" = mine ] || bad="$bad $n"
            n=$((n + 1 + n % 3))
        done
        wait $pid
        exec 9<&-
        result "$([ -z "$bad" ] && [ $n -gt 20 ]; echo $?)" "what comes to a tokenizer's folder that is replaced, at calls up to $n ($ends)$bad"
    done
    rm -rf "$tmp"/t.*
else
    skip "a file that comes to a folder that is replaced" "no shim here"
fi
rm -rf "$tmp/t" && cp -r "$tmp/tok" "$tmp/t"
echo mine >"$tmp/t/notes"
keeps "$tmp/t" tokenizer
rm "$tmp/t/notes"
ln -sf "$tmp/text.txt" "$tmp/t/merges.txt"
keeps "$tmp/t" tokenizer
python3 - "$tmp/tok" "$tmp/theirs" <<'PY'
import json, os, sys
os.mkdir(sys.argv[2])
for name in os.listdir(sys.argv[1]):  # as transformers would write it
    text = open(f"{sys.argv[1]}/{name}", encoding="utf-8").read()
    if name == "vocab.json":
        text = json.dumps(json.loads(text), ensure_ascii=False)
    elif name == "tokenizer_config.json":
        text = json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    open(f"{sys.argv[2]}/{name}", "w", encoding="utf-8").write(text)
PY
keeps "$tmp/theirs" tokenizer
ln -s tok "$tmp/linked"
refuses 2 "linked: is a symbolic link: export needs a folder" export "$tmp/run" "$tmp/linked"
keeps "$tmp/linked" tokenizer

# ---- what a stranger wrote, as it is printed ----

esc=$(printf '\033[31m')
tame() { ! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" "$1"; } # no control character but tabs and newlines
run report "$tmp/a${esc}b"
result "$([ "$got" = 2 ] && tame "$tmp/err" && grep -qF 'a\x1b[31mb' "$tmp/err"; echo $?)" "a path in a refusal"
run "wh${esc}at"
result "$([ "$got" = 2 ] && tame "$tmp/err" && grep -qF 'wh\x1b[31mat' "$tmp/err"; echo $?)" "a command"
printf 'te\033xt,label\na,"y\033]0;es"\nb,"=1+1"\nc,"two\tparts"\n' >"$tmp/strange.csv"
run finetune --run "$tmp/strange" --train-file "$tmp/strange.csv" --eval-file "$tmp/strange.csv" --test-file "$tmp/strange.csv" --predict --init "$tmp/hf" --steps 40 \
    --lr 1e-2 --batch 3 --max-seq 8 --mode mem --durability none --threads 1
result "$([ "$got" = 0 ] && tame "$tmp/err" && tame "$tmp/out" && grep -qF 'te\x1bxt' "$tmp/err" && grep -qF 'y\x1b]0;es' "$tmp/err"; echo $?)" "columns and labels"
result "$([ "$(awk -F'\t' 'NF != 5' "$tmp/strange/predict_results_None.txt" | wc -l)" = 0 ] && ! grep -q '	[=+@]' "$tmp/strange/predict_results_None.txt"; echo $?)" "predictions are rows of two fields and a probability a class, and no formulas"
cp -r "$tmp/run" "$tmp/=run"
(cd "$tmp" && "$bin" report =run run --csv >"$tmp/csv")
result "$(grep -q "^'=run," "$tmp/csv" && ! grep -q '^=\|,=' "$tmp/csv"; echo $?)" "nor are fields of --csv"
cp -r "$tmp/run" "$tmp/r${esc}n"
for command in report watch check; do
    run $command "$tmp/r${esc}n"
    result "$([ "$got" = 0 ] && tame "$tmp/out" && tame "$tmp/err" && grep -qF '\x1b[31mn' "$tmp/out"; echo $?)" "$command of a folder of such a name"
done
prompt="a${esc}"
run generate "$tmp/hf" --prompt "$prompt" --tokens 1 --threads 1
result "$([ "$got" = 0 ] && grep -qF "$prompt" "$tmp/out"; echo $?)" "a file gets a prompt as it is"
if has_terminals; then
    python3 tests/cli/on_tty.py 80 "$bin" generate "$tmp/hf" --prompt "$prompt" --tokens 1 --threads 1 >"$tmp/out" 2>&1
    result "$(grep -qF 'a\x1b[31m' "$tmp/out" && ! grep -qF "$esc" "$tmp/out"; echo $?)" "a terminal does not"
else
    skip "a terminal does not" "no terminals here"
fi

done_testing
