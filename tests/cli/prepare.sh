#!/bin/sh
# What people have becomes token files: folders, rows of JSON, tables, packed files, standard input; a split by documents; and what is wrong is
# named by file and line. Prints TAP.
. tests/tap.sh

make_text 3000 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 280 --out "$tmp/tok"
tok="--tokenizer $tmp/tok"
sum() { sha256sum <"$1" | cut -d' ' -f1; }
count() { python3 -c 'import struct, sys; print(struct.unpack("<3i", open(sys.argv[1], "rb").read(12))[2])' "$1"; }

python3 - "$tmp" <<'END'
import csv, gzip, json, os, sys
tmp = sys.argv[1]
lines = open(tmp + "/text.txt").read().splitlines()
docs = ["\n".join(lines[i:i + 10]) + ' "caf\u00e9" \\ \t \U0001F600' for i in range(0, 3000, 10)]
rows = [{"id": i, "meta": {"text": "no", "n": [1, 2.5e3, None, {"a": []}]}, "text": d} for i, d in enumerate(docs)]
def jsonl(rows, **more): return "".join(json.dumps(r, **more) + "\n" for r in rows).encode()
os.makedirs(tmp + "/in/b/c")
os.makedirs(tmp + "/in/.hidden")
put = lambda name, data: open(tmp + "/" + name, "wb").write(data)
put("all.jsonl", jsonl(rows))
put("want.jsonl", jsonl(rows + rows[:1]))
put("backwards.jsonl", jsonl(rows[::-1]))
put("body.jsonl", jsonl([{"text": "no", "body": r["text"]} for r in rows]))
put("in/.hidden/x.jsonl", b"{")
put("in/.y", b"\0")
put("in/empty", b"")
put("in/a.jsonl", jsonl(rows[:50], ensure_ascii=False))
put("in/b-1.json", b"\xef\xbb\xbf" + json.dumps(rows[50:100], indent=1).encode())  # b-1 is before b/
with open(tmp + "/in/b/a.csv", "w", newline="") as f:
    table = csv.writer(f)
    table.writerows([["id", "text"]] + [[r["id"], r["text"]] for r in rows[100:150]])
put("in/b/b", gzip.compress(jsonl(rows[150:180])) + gzip.compress(jsonl(rows[180:200])))  # two members, no ending
put("plain.jsonl", jsonl(rows[200:]))
put("in/z.txt", docs[0].encode())
END
zstd -q "$tmp/plain.jsonl" -o "$tmp/in/b/c/d.zst"

# ---- kinds of files, and where they come from ----
works "rows of JSON" prepare "$tmp/want.jsonl" $tok --out "$tmp/want.bin"
works "a folder: lists, tables, packed files and texts in byte order of their paths" prepare "$tmp/in" $tok --out "$tmp/got.bin"
same "$(sum "$tmp/want.bin")" "$(sum "$tmp/got.bin")" "  have the same tokens"
"$bin" prepare - $tok --out "$tmp/got.bin" >/dev/null 2>"$tmp/err" <"$tmp/want.jsonl"
same "$(sum "$tmp/want.bin")" "$(sum "$tmp/got.bin")" "standard input"
zstd -qc "$tmp/want.jsonl" | "$bin" prepare - $tok --out "$tmp/got.bin" >/dev/null 2>"$tmp/err"
same "$(sum "$tmp/want.bin")" "$(sum "$tmp/got.bin")" "  also packed"
{ printf '\120\052\115\030\004\000\000\000abcd' && zstd -qc "$tmp/want.jsonl"; } >"$tmp/pzstd" # begins so
works "what pzstd packed" prepare "$tmp/pzstd" $tok --out "$tmp/got.bin"
same "$(sum "$tmp/want.bin")" "$(sum "$tmp/got.bin")" "  is unpacked, too"
{ printf '\357\273\277' && cat "$tmp/text.txt"; } >"$tmp/marked.txt"
works "a text" prepare "$tmp/text.txt" $tok --out "$tmp/unmarked.bin"
works "  behind a byte order mark" prepare "$tmp/marked.txt" $tok --out "$tmp/got.bin"
same "$(sum "$tmp/unmarked.bin")" "$(sum "$tmp/got.bin")" "  has the same tokens"
works "with one thread" prepare "$tmp/in" $tok --out "$tmp/got.bin" --threads 1
same "$(sum "$tmp/want.bin")" "$(sum "$tmp/got.bin")" "  the tokens are the same"
works "another key" prepare "$tmp/body.jsonl" --text-column body $tok --out "$tmp/body.bin"
works "  of the same texts" prepare "$tmp/all.jsonl" $tok --out "$tmp/all.bin"
same "$(sum "$tmp/all.bin")" "$(sum "$tmp/body.bin")" "  has the same tokens"
works "rows as a plain text" prepare "$tmp/all.jsonl" --data-format text $tok --out "$tmp/got.bin"
result "$([ "$(count "$tmp/got.bin")" -gt "$(count "$tmp/all.bin")" ]; echo $?)" "  have more"

# ---- a split ----
works "a split of rows" prepare "$tmp/all.jsonl" $tok --out "$tmp/train.bin" --eval-split 10% --eval-out "$tmp/eval.bin"
result "$([ $(($(count "$tmp/train.bin") + $(count "$tmp/eval.bin") + 1)) = "$(count "$tmp/all.bin")" ]; echo $?)" "  each document is on one side"
works "the same rows in another order" prepare "$tmp/backwards.jsonl" $tok --out "$tmp/train2.bin" --eval-split 0.1 --eval-out "$tmp/eval2.bin"
python3 - "$tmp" <<'END'
import struct, sys
def documents(name):
    data = open(sys.argv[1] + name, "rb").read()[1024:]
    ids = struct.unpack(f"<{len(data) // 2}H", data)
    docs, last = [], 0
    for i, id in enumerate(ids + (279,)):
        if id == 279:
            docs.append(ids[last:i])
            last = i + 1
    return docs
a, b = documents("/eval.bin"), documents("/eval2.bin")
sys.exit(not (a == b[::-1] and 10 < len(a) < 60 and documents("/train.bin") == documents("/train2.bin")[::-1]))
END
result $? "  has the same documents on each side"
works "a split of a text" prepare "$tmp/text.txt" $tok --out "$tmp/train.bin" --eval-split 30% --eval-out "$tmp/eval.bin" --threads 3
works "  in one thread" prepare "$tmp/text.txt" $tok --out "$tmp/train2.bin" --eval-split 30% --eval-out "$tmp/eval2.bin" --threads 1
same "$(sum "$tmp/train.bin") $(sum "$tmp/eval.bin")" "$(sum "$tmp/train2.bin") $(sum "$tmp/eval2.bin")" "  is the same"

# ---- what is wrong ----
bad() { printf "$1" >"$tmp/bad.jsonl"; }
refuse() { refuses 2 "$1" prepare "$tmp/all.jsonl" "$tmp/bad.jsonl" $tok --out "$tmp/none"; }
bad '{"text": "a"}\n\n{"title": "b", "body": "c", "n": 1}\n'
refuse 'bad.jsonl:3: the row has no key "text"; its texts are "title", "body": --text-column names'
bad '{"text": "a"}\n{"instruction": "b", "input": "", "output": "c"}\n'
refuse 'bad.jsonl:2: the row is a conversation, and a text under "text" is expected: finetune --task chat'
bad '{"text": "a"}\n{"text": null}\n'
refuse 'bad.jsonl:2: "text" is null in this row'
bad '{"text": "a"}\n{"text": "b"\n'
refuse "bad.jsonl:2 is not valid JSON"
bad '{"text": "a", "text": "b"}\n'
refuse "bad.jsonl:1 is not valid JSON"
bad '{\n "text": "a"\n}\n'
refuse "bad.jsonl:1: an object that is not in a list stands on one line"
bad '[{"text": "a"},\n {"text": "b"}'
refuse "bad.jsonl:2: the list does not end: the file was cut off"
bad '{"text": "a"}\n{"text": "caf\351"}\n'
refuse "bad.jsonl is not UTF-8: byte 27, in line 2, is 0xE9; if it is Latin-1: iconv"
bad 'a text\nwith a \000 byte\n'
refuse "bad.jsonl is not a text: byte 14, in line 2, is 0x00 (NUL)"
bad 'PAR1\001\002\003\004'
refuse "bad.jsonl is a Parquet file, not a text: python3 -c"
zstd -qf "$tmp/bad.jsonl" -o "$tmp/bad.zst" && mv "$tmp/bad.zst" "$tmp/bad.jsonl"
refuse "bad.jsonl is a zstd file, which is unpacked, but "
zstd -q </dev/null >"$tmp/bad.jsonl"
refuse "bad.jsonl is a zstd file with nothing in it, not a text"
zstd -qc --long=28 <"$tmp/all.jsonl" >"$tmp/bad.jsonl"
refuse "bad.jsonl was packed with a window of more than 128 MiB"
bad '\357\273\277'
refuse "bad.jsonl is empty, not a text"
bad '{"text": "a", "score": NaN}\n'
refuse "bad.jsonl:1 is not valid JSON: line 1, column 26: NaN and Infinity are Python's, and no JSON: write null"
bad '{"text": "a\\u0000"}\n'
refuse 'bad.jsonl:1 is not valid JSON: line 1, column 18: \u0000 (NUL) is no character of a text'
gzip -c "$tmp/all.jsonl" | head -c 5000 >"$tmp/bad.jsonl"
refuse "bad.jsonl is a gzip file that was cut off"
printf '\211PNG\r\n\032\n' >"$tmp/in/b/bad"
refuses 2 "in/b/bad is a PNG picture, not a text" prepare "$tmp/in" $tok --out "$tmp/none"
"$bin" prepare - $tok --out "$tmp/none" >"$tmp/out" 2>"$tmp/err" <"$tmp/in/b/bad"
result "$([ $? = 2 ] && grep -q "^siTrain prepare: standard input, as FILE: FILE is a PNG picture" "$tmp/err"; echo $?)" "standard input of another kind is named"
refuses 2 "standard input (-) is named twice" prepare - - $tok --out "$tmp/none"
mkdir "$tmp/nothing"
refuses 2 "nothing is a folder without files to read" prepare "$tmp/nothing" $tok --out "$tmp/none"
ln -s gone "$tmp/nothing/link"
refuses 2 "nothing/link is a link to a file that is not there" prepare "$tmp/nothing" $tok --out "$tmp/none"
rm "$tmp/nothing/link"
ln -s . "$tmp/nothing/up"
refuses 2 "nothing/up leads back to a folder around it" prepare "$tmp/nothing" $tok --out "$tmp/none"
refuses 2 "none lies in the folder $tmp/in, which is read" prepare "$tmp/in" $tok --out "$tmp/in/none"
refuses 2 "none lies in the folder $tmp/in, which is read" prepare "$tmp/in" $tok --out "$tmp/none" --eval-split 5% --eval-out "$tmp/in/none"
refuses 2 'the table has no column "b" (--text-column); its columns are "id", "text"' prepare "$tmp/in/b/a.csv" --text-column b $tok --out "$tmp/none"
refuses 2 "--eval-split PART and --eval-out FILE go together" prepare "$tmp/all.jsonl" $tok --out "$tmp/none" --eval-split 5%
refuses 2 "leaves one of the two files empty" prepare "$tmp/all.jsonl" $tok --out "$tmp/none" --eval-split 0 --eval-out "$tmp/none2"
refuses 2 "is named twice" prepare "$tmp/all.jsonl" $tok --out "$tmp/none" --eval-split 5% --eval-out "$tmp/none"
refuses 2 "leaves nothing for" prepare "$tmp/in/z.txt" $tok --out "$tmp/none" --eval-split 1% --eval-out "$tmp/none2"
result "$([ -z "$(find "$tmp" -name 'none*')" ]; echo $?)" "and nothing is left of any"

# ---- a run that is ended while it is made goes on behind its tokens ----
python3 -c 'import random, sys
words = [format(random.Random(i).getrandbits(40), "x") for i in range(200)]
draw = random.Random(1)
open(sys.argv[1], "w").writelines(" ".join(draw.choices(words, k=9)) + "\\n" for _ in range(150000))' "$tmp/long.txt" # four blocks
lm="$tok --n-layer 1 --n-head 1 --n-embd 8 --seq 16 --batch 1 --csd-mem 1M --schedule constant --durability none --steps 1 --quiet"
two="--data $tmp/all.jsonl --data $tmp/long.txt $lm"
sums() { cat "$1"/data*.bin | sha256sum; }
left() { find "$tmp/run" -name '*.tmp' -o -name '*.new*'; }
# shellcheck disable=SC2086
works "a run on two texts" pretrain --run "$tmp/whole" $two
whole=$(sums "$tmp/whole")
find_shim
ends() { # AT: the maker is killed there
    LD_PRELOAD="$shim" SHIM_AT="$1:kill" "$bin" pretrain --run "$tmp/run" $two >"$tmp/out" 2>"$tmp/err"
    result "$([ $? = 137 ] && [ ! -e "$tmp/run/run.db" ]; echo $?)" "killed at $1, it is no run yet"
}
no_run() { # ARGUMENTS...: siTrain says how to go on with what a kill left
    refuses 2 "$tmp/run is not a run yet: the command that makes it is still at work, or was ended too early" "$@"
}
goes_on() { # WHAT
    # shellcheck disable=SC2086
    works "  the same command goes on" pretrain --run "$tmp/run" $two
    result "$(grep -q "$1" "$tmp/err"; echo $?)" "  and says so"
    same "$whole" "$(sums "$tmp/run")" "  to the same bytes"
    result "$([ -z "$(left)" ]; echo $?)" "  and nothing else is left"
}
if [ -n "$shim" ]; then
    there="the [0-9]* tokens of $tmp/all.jsonl are in $tmp/run already"
    for at in name:/data.1.bin:1 rename:/data.1.bin:1 name:dev0:1 rename:/run.db:1; do
        ends "$at"
        goes_on "$there"
        rm -rf "$tmp/run"
    done
    # tokens that were changed meanwhile are no tokens of this text
    ends name:/data.1.bin:1
    printf '\1\1\1\1' | dd of="$tmp/run/data.bin" bs=1 seek=1100 conv=notrunc 2>/dev/null
    # shellcheck disable=SC2086
    refuses 2 "$tmp/run exists and holds data.bin" pretrain --run "$tmp/run" $two
    rm -rf "$tmp/run"
    ends name:/data.bin:1
    no_run pretrain --resume "$tmp/run"
    no_run report "$tmp/run"
    no_run check "$tmp/run"
    no_run generate "$tmp/run" --prompt x
    # shellcheck disable=SC2086
    works "  begun anew before anything was saved" pretrain --run "$tmp/run" $two
    same "$whole" "$(sums "$tmp/run")" "  it has the same bytes"
    rm -rf "$tmp/run"

    # Ctrl-C, another maker meanwhile, and again a kill of what goes on
    # shellcheck disable=SC2086
    held name:/data.1.bin:1 pretrain --run "$tmp/run" $two
    cp "$tmp/err" "$tmp/err.first"
    "$bin" pretrain --run "$tmp/run" $two >/dev/null 2>"$tmp/err.other"
    result "$([ $? = 1 ] && grep -q "is being made by" "$tmp/err.other"; echo $?)" "of two makers one is refused"
    kill -INT $pid
    rm -f "$tmp/held"
    wait $pid
    result "$([ $? = 130 ] && grep -q "stopped; the same command goes on behind the tokens that are left in $tmp/run" "$tmp/err"; echo $?)" "Ctrl-C ends the other with 130, and it says how to go on"
    ends name:dev0:1
    goes_on "the [0-9]* tokens of $tmp/long.txt are in $tmp/run already"
    rm -rf "$tmp/run"

    # the time limit is over when the second text begins
    # shellcheck disable=SC2086
    held name:/data.bin:1 pretrain --run "$tmp/run" $two --time-limit 1s
    sleep 1
    rm -f "$tmp/held"
    wait $pid
    result "$([ $? = 0 ] && grep -q "stopped, since --time-limit 1s is over; the same command goes on behind the [1-9][0-9]* tokens in $tmp/run" "$tmp/err"; echo $?)" "--time-limit ends it with 0, and it says how to go on"
    cp -r "$tmp/run" "$tmp/limited"
    ends rename:/data.1.bin:1
    result "$(grep -q "it goes on behind [1-9][0-9]* tokens that were left in $tmp/run" "$tmp/err"; echo $?)" "  which went on behind them"
    goes_on "the [0-9]* tokens of $tmp/long.txt are in $tmp/run already"
    rm -rf "$tmp/run"

    # one look, open or read that fails: what was left is neither lost nor taken for that of other texts
    mkdir "$tmp/left"
    held pread:long.txt:100 prepare "$tmp/long.txt" $tok --out "$tmp/left/long.bin" --threads 1
    kill -INT $pid
    rm -f "$tmp/held"
    wait $pid
    cp -a "$tmp/left" "$tmp/kept"
    wrong='' seen=0
    for at in look:/tokenizer.json:1 look:/tokenizer.json:2 look:/vocab.json:1 look:/vocab.json:2 look:/added_tokens.json:1 look:/left:1 look:/left/long.bin.:1 open:/left/long.bin.:1 open:/left:1 \
        pread:/left/long.bin.:1 pread:/left/long.bin.:2 pread:/left/long.bin.:3 pread:/left/long.bin.:4 pread:long.txt:20; do
        rm -rf "$tmp/left"
        cp -a "$tmp/kept" "$tmp/left"
        LD_PRELOAD="$shim" SHIM_AT="$at:fail" "$bin" prepare "$tmp/long.txt" $tok --out "$tmp/left/long.bin" --threads 1 >"$tmp/out" 2>"$tmp/err"
        case $? in
        0) grep -q "goes on behind" "$tmp/err" || wrong="$wrong $at" ;;
        1) ls "$tmp/left"/long.bin.*.tmp >/dev/null 2>&1 && grep -q "Input/output error" "$tmp/err" && seen=$((seen + 1)) || wrong="$wrong $at" ;;
        *) wrong="$wrong $at" ;;
        esac
    done
    result "$([ -z "$wrong" ] && [ $seen -ge 7 ]; echo $?)" "what fails once takes nothing of the tokens that Ctrl-C left ($seen were seen):$wrong"
    works "  and the same command goes on" prepare "$tmp/long.txt" $tok --out "$tmp/left/long.bin"
    result "$(grep -q "goes on behind [1-9]" "$tmp/err"; echo $?)" "  behind them"
    rm -rf "$tmp/left"
    cp -a "$tmp/kept" "$tmp/left"
    truncate -s 2K "$tmp/left"/long.bin.*.tmp
    works "  tokens that were cut are made anew" prepare "$tmp/long.txt" $tok --out "$tmp/left/long.bin"

    # one that fails as complete tokens get their names
    halves="--eval-split 5% --eval-out $tmp/left/ev.bin"
    sed 's/\\n/\n/g' "$tmp/long.txt" >"$tmp/lines.txt"
    rm -rf "$tmp/left" "$tmp/kept"
    mkdir "$tmp/left"
    # shellcheck disable=SC2086
    held pread:lines.txt:100 prepare "$tmp/lines.txt" $tok --out "$tmp/left/long.bin" $halves --threads 1
    kill -INT $pid
    rm -f "$tmp/held"
    wait $pid
    cp -a "$tmp/left" "$tmp/kept"
    wrong='' seen=0
    for at in look:/long.bin look:/ev.bin; do
        for n in 1 2 3 4 5 6 7 8 9 10; do
            rm -rf "$tmp/left"
            cp -a "$tmp/kept" "$tmp/left"
            # shellcheck disable=SC2086
            LD_PRELOAD="$shim" SHIM_AT="$at:$n:fail=ESTALE" "$bin" prepare "$tmp/lines.txt" $tok --out "$tmp/left/long.bin" $halves --threads 2 >"$tmp/out" 2>"$tmp/err"
            [ $? = 0 ] && continue
            seen=$((seen + 1))
            # shellcheck disable=SC2086
            run prepare "$tmp/lines.txt" $tok --out "$tmp/left/long.bin" $halves
            [ "$got" = 0 ] && grep -q "goes on behind [1-9]" "$tmp/err" || wrong="$wrong $at:$n"
        done
    done
    result "$([ -z "$wrong" ] && [ $seen -ge 6 ]; echo $?)" "nor does a look that fails as they get their names ($seen did):$wrong"
    rm -rf "$tmp/left"
    cp -a "$tmp/kept" "$tmp/left"
    # shellcheck disable=SC2086
    LD_PRELOAD="$shim" SHIM_FAIL=flock=EIO@/left/ev.bin. "$bin" prepare "$tmp/lines.txt" $tok --out "$tmp/left/long.bin" $halves >"$tmp/out" 2>"$tmp/err"
    result "$([ $? = 1 ] && grep -q "which an earlier process left, cannot be read now: Input/output error; try again, or remove it to begin anew" "$tmp/err"; echo $?)" "nor does a lock that fails"
    # shellcheck disable=SC2086
    works "  and the same command goes on" prepare "$tmp/lines.txt" $tok --out "$tmp/left/long.bin" $halves
    result "$(grep -q "goes on behind [1-9]" "$tmp/err"; echo $?)" "  behind them"
    rm -rf "$tmp/left" "$tmp/kept" "$tmp/lines.txt"
    wrong=''
    # of what Ctrl-C left: the first read, and one of its tokens; of the whole file: the first one, and two as its checksums are made
    for at in '/data.bin.:1' '/data.bin.:5' '/data.bin$:1' '/data.bin$:9' '/data.bin$:20'; do
        rm -rf "$tmp/run"
        # shellcheck disable=SC2086
        held pread:long.txt:100 pretrain --run "$tmp/run" --data "$tmp/long.txt" $lm
        kill -INT $pid
        rm -f "$tmp/held"
        wait $pid
        # shellcheck disable=SC2086
        LD_PRELOAD="$shim" SHIM_AT="pread:$at:fail" "$bin" pretrain --run "$tmp/run" --data "$tmp/long.txt" $lm >"$tmp/out" 2>"$tmp/err"
        [ $? = 1 ] && grep -q "Input/output error" "$tmp/err" || wrong="$wrong $at"
        # shellcheck disable=SC2086
        run pretrain --run "$tmp/run" --data "$tmp/long.txt" $lm
        [ "$got" = 0 ] && grep -qE "goes on behind [1-9]|tokens of $tmp/long.txt are in" "$tmp/err" || wrong="$wrong $at-again"
    done
    result "$([ -z "$wrong" ]; echo $?)" "nor does a read that fails in a run that is being made:$wrong"
    same "$(sum "$tmp/whole/data.1.bin")" "$(sum "$tmp/run/data.bin")" "  whose tokens are those of a whole run"
    rm -rf "$tmp/run"

    # nor are an empty folder, or its lock, said to be another than they are
    mkdir "$tmp/run"
    for at in FAIL=readdir=EIO@/run AT=look:/run/run.lock:1:fail; do
        # shellcheck disable=SC2086
        env LD_PRELOAD="$shim" "SHIM_$at" "$bin" pretrain --run "$tmp/run" --data "$tmp/long.txt" $lm >"$tmp/out" 2>"$tmp/err"
        result "$([ $? = 1 ] && grep -q ": Input/output error$" "$tmp/err"; echo $?)" "$at is said as it is"
    done
    rm -rf "$tmp/run"

    # what was left is of other texts, and of more of them
    held name:/data.1.bin:1 pretrain --run "$tmp/run" --data "$tmp/text.txt" --data "$tmp/all.jsonl" --data "$tmp/long.txt" $lm --time-limit 1s
    sleep 1
    rm -f "$tmp/held"
    wait $pid
    # shellcheck disable=SC2086
    works "other texts" pretrain --run "$tmp/run" $two
    result "$(grep -q "an unfinished file of $tmp/run is there, made of other files or with other options, or changed since: it is removed, and all begins anew" "$tmp/err"; echo $?)" "  begin anew, which is said"
    same "$whole" "$(sums "$tmp/run")" "  to the bytes that they always have"
    result "$([ -z "$(left)" ]; echo $?)" "  and nothing else is left"
    refuses 2 "was copied or moved here" pretrain --run "$tmp/limited" --data "$tmp/long.txt" $lm

    # in the run of an import only what such a process made is replaced (train.sh has the file of somebody's)
    run export "$tmp/whole" "$tmp/whole.hf"
    works "a run without data" import "$tmp/whole.hf" "$tmp/imported" --mode mem
    resumed="--seq 16 --batch 1 --steps 1 --quiet"
    # shellcheck disable=SC2086
    LD_PRELOAD="$shim" SHIM_AT="name:/data.1.bin:1:kill" "$bin" pretrain --resume "$tmp/imported" --data "$tmp/all.jsonl" --data "$tmp/long.txt" $resumed >/dev/null 2>&1
    result "$([ $? = 137 ] && [ -s "$tmp/imported/data.bin" ]; echo $?)" "  whose first resume is killed behind its first text"
    # shellcheck disable=SC2086
    LD_PRELOAD="$shim" SHIM_AT="rename:/data.1.bin:1:kill" "$bin" pretrain --resume "$tmp/imported" --data - --data "$tmp/long.txt" $resumed <"$tmp/text.txt" >/dev/null 2>&1
    result "$([ $? = 137 ] && [ -s "$tmp/imported/data.bin" ]; echo $?)" "  whose second one is killed behind standard input"
    # shellcheck disable=SC2086
    works "  takes another text" pretrain --resume "$tmp/imported" --data "$tmp/long.txt" $resumed
    same "$(sha256sum <"$tmp/whole/data.1.bin")" "$(sha256sum <"$tmp/imported/data.bin")" "  to its bytes"
    result "$([ -z "$(find "$tmp/imported" -name '*.tmp')" ]; echo $?)" "  and nothing of the other one is left"
else
    skip "a run that is ended while it is made" "no library that kills a process at a call"
fi
"$bin" pretrain --run "$tmp/none" --data - $lm --time-limit 1s <"$tmp/long.txt" >/dev/null 2>"$tmp/err"
got=$?
result "$({ [ $got = 0 ] || { [ $got = 1 ] && [ ! -e "$tmp/none" ] && grep -q "nothing is kept of the tokens of standard input" "$tmp/err"; }; }; echo $?)" "of standard input nothing is kept"
done_testing
