#!/bin/sh
# Several sources of one training: pooled and by weights, in every mode, stopped in the middle of an epoch, by two processes; what is refused; what
# check, report and eval say of them; a part of the rows to evaluate on. Prints TAP.
. tests/tap.sh

find_shim

# Texts of disjoint letters, and tokens. The second one is short: a training reads it several times.
python3 - "$tmp" <<'PY'
import random, sys
draw = random.Random(3)
for name, letters, n in ("a", "abcdefgh", 4000), ("b", "pqrstuvw", 700), ("c", "ijklmn", 900):
    with open(f"{sys.argv[1]}/{name}.txt", "w") as f:
        f.write(" ".join("".join(draw.choice(letters) for _ in range(5)) for _ in range(n)))
PY
printf '%s' "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}" >"$tmp/template.jinja"
chat_template=$tmp/template.jinja
root=$PWD
cd "$tmp" || exit 1
run prepare a.txt b.txt c.txt --train-tokenizer --vocab 280 --out tok
run prepare c.txt --tokenizer tok --out c.bin
works "three sources" prepare c.txt --tokenizer tok --out c.bin
model="--n-head 2 --seq 16 --threads 1 --lr 3e-3 --schedule constant --seed 4"
small="--n-layer 2 --n-embd 16" large="--n-layer 3 --n-embd 64"
machine="--csd-mem 1M --durability none --quiet"
three="--data a.txt --data b.txt --data c.bin --tokenizer tok"

sources() { # RUN: rows read of each source
    "$bin" report "$1" --json | python3 -c 'import json, sys; print(*(s["rows_read"] for s in json.load(sys.stdin)["sources"]))'
}

# ---- a look that fails once gives no other mixture ----
if [ -n "$shim" ]; then
    mkdir one two
    for name in a b; do run prepare $name.txt --tokenizer tok --out one/$name.bin; done
    cp c.bin two/
    parts="pretrain --run once --data one --data two --mix 7,3 --tokenizer tok $model $small --batch 8 --steps 2 --mode mem --durability none --quiet"
    run $parts
    undisturbed=$(exported once)
    gone() { rm -rf once; }
    whole_or_none() { if [ "$got" = 0 ]; then [ "$(exported once)" = "$undisturbed" ]; else [ "$got" = 1 ] && [ ! -e once ]; fi; }
    fails_once look:/b.bin:EIO gone whole_or_none "the same rows, or none" $parts
    rm -rf once one two
fi

# ---- what is said and counted ----
run pretrain --run said $three --mix 5,3,2 $model $small --batch 8 --steps 3 --mode mem --durability none
result "$(grep -q 'siTrain: source .*/a.txt: [0-9]* tokens, 50% of the rows' err && grep -q 'source .*/c.bin: [0-9]* tokens, 20% of the rows' err; echo $?)" \
    "the start says the sources, their tokens and shares"
result "$(! grep -q 'times until step' err; echo $?)" "no source is repeated often"
run pretrain --run often $three --mix 5,3,2 $model $small --batch 128 --steps 64 --mode mem --durability none --log-every 100
same 2 "$(grep -c 'b.txt is read 9.38 times until step 64\|c.bin is read 4.86 times until step 64' err)" "a source that is repeated more than four times is named"
same "4096 2458 1638" "$(sources often)" "two blocks of 4,096 rows have the weights, exactly"
same 6 "$(sqlite3 often/run.db "PRAGMA user_version")" "an older siTrain, which would train on the first source alone, refuses the run by its format"
run report often
result "$(grep -q '^Sources' out && grep -q 'b.txt .* 2458 ' out; echo $?)" "report has them"
run report often --html=often.html
result "$(grep -q '<h2[^>]*>Sources' often.html; echo $?)" "so has the page"

# ---- a pool: an epoch has each row of each source once ----
run pretrain --run pool $three $model $small $machine --batch 7 --steps 1 --mode mem
rows=$(sqlite3 pool/run.db "SELECT group_concat(value, ' ') FROM (SELECT value FROM runs WHERE key LIKE 'data%.rows' ORDER BY key)")
sum=$(sqlite3 pool/run.db "SELECT sum(value) FROM runs WHERE key LIKE 'data%.rows'")
run pretrain --run epoch $three $model $small $machine --batch "$sum" --steps 2 --mode mem
same "$(for n in $(sources epoch); do echo $((n / 2)); done | sort -n | tr '\n' ' ')" "$(echo "$rows" | tr ' ' '\n' | sort -n | tr '\n' ' ')" "a pool has each row once an epoch"

# ---- the same bits, whatever stops it ----
# 29 rows a step: a stop lies in the middle of an epoch, of a block of 4,096 rows and of a source's epoch
same_bits() { # NAME ARGUMENTS...
    name=$1
    shift
    rm -rf whole stopped
    run pretrain --run whole $three $model $small $machine --batch 29 --eval-data b.txt --eval-data c.bin --eval-every 4 "$@" --steps 9
    whole=$(exported whole) said=$(losses whole)
    run pretrain --run stopped $three $model $small $machine --batch 29 --eval-data b.txt --eval-data c.bin --eval-every 4 "$@" --steps 4
    run pretrain --resume stopped --steps 7 --quiet
    run pretrain --resume stopped --steps 9 --quiet
    same "$whole $said" "$(exported stopped) $(losses stopped)" "$name: stopped twice, the same bits"
}
for mode in mem base su+o "su+o --activations offload"; do
    same_bits "pool, $mode" --mode $mode
    pool=${pool:-$whole}
    same "$pool" "$whole" "pool, $mode: the bits of the other modes"
    same_bits "weights, $mode" --mode $mode --mix 5,3,2
    mixed=${mixed:-$whole}
    same "$mixed" "$whole" "weights, $mode: the bits of the other modes"
done
same_bits "weights, sequential" --mode su+o --mix 5,3,2 --order sequential
result "$([ "$mixed" != "$whole" ] && [ "$mixed" != "$pool" ]; echo $?)" "weights and order decide the rows"
cp -r whole kept

# rows of a masked language model stand between its tokenizer's own tokens, and come from the same sources
(cd "$root" && python3 tests/cli/tiny_folder.py bert "$tmp/bert" ForMaskedLM)
masked="--init bert --data a.txt --data b.txt --mix 2,1 --eval-data c.txt --seq 24 --batch 29 --threads 1 --schedule constant --seed 4 $machine --mode su+o"
run pretrain --run masked $masked --steps 9
mhash=$(exported masked)
run pretrain --run unmasked $masked --steps 5
run pretrain --resume unmasked --steps 9 --quiet
same "$mhash" "$(exported unmasked)" "a masked model, stopped: the same bits"
same 261 "$(sources masked | tr ' ' '\n' | awk '{ n += $1 } END { print n }')" "  and its rows are counted"

# ---- what a resume takes ----
works "equal weights in other words" pretrain --resume kept --mix 0.5,30%,0.2 --steps 9 --quiet
works "the same files" pretrain --resume kept --data a.txt --data ./b.txt --data c.bin --steps 9 --quiet
refuses 2 "--mix 1,1,1: this run has other weights and a resume keeps it" pretrain --resume kept --mix 1,1,1
refuses 2 "--mix 1,1 has 2 weights, and --data was given 3 times" pretrain --resume kept --mix 1,1
refuses 2 "--mix 1,1,1: this run has one pool of rows, without weights" pretrain --resume epoch --mix 1,1,1
refuses 2 "--data was given 1 time, and this run has 3 sources" pretrain --resume kept --data a.txt
refuses 2 "b.txt: this run has $tmp/a.txt and a resume keeps it" pretrain --resume kept --data b.txt --data a.txt --data c.bin
refuses 2 "--eval-split: this run took all of its documents to train on" pretrain --resume kept --eval-split 5%
cp c.bin d.bin
works "the same tokens at another place" pretrain --resume kept --data a.txt --data b.txt --data d.bin --steps 9 --quiet
same "$tmp/d.bin" "$(sqlite3 kept/run.db "SELECT value FROM runs WHERE key = 'data.2.path'")" "  where the run finds them now"
run report kept --config
cp out config
rm -rf again
works "report --config" pretrain --run again --config config --steps 9 $machine
same "$whole" "$(exported again)" "  makes the same run"

# ---- a folder of token files ----
mkdir -p bins/deeper
run prepare a.txt --tokenizer tok --out bins/1.bin
run prepare b.txt --tokenizer tok --out bins/deeper/2.bin
tokens="$model $small $machine --mode mem --batch 29 --steps 5"
rm -rf binned listed
works "a folder of token files" pretrain --run binned --data bins --data c.bin --tokenizer tok $tokens --eval-data bins
run pretrain --run listed --data bins/1.bin --data bins/deeper/2.bin --data c.bin --tokenizer tok $tokens
same "$(exported listed)" "$(exported binned)" "  is its files, in one pool"
same "$tmp/bins/1.bin $tmp/bins/deeper/2.bin" "$(sqlite3 binned/run.db "SELECT group_concat(value, ' ') FROM (SELECT value FROM runs WHERE key IN ('eval.path', 'eval.1.path') ORDER BY key DESC)")" "  read in place"
rm -rf binned
run pretrain --run binned --data bins --data c.bin --mix 3,1 --tokenizer tok $model $small $machine --mode mem --batch 128 --steps 32
same 3072 "$(sources binned | awk '{ print $1 + $2 }')" "its files share its weight"
result "$(sources binned | awk -v a="$(stat -c %s bins/1.bin)" -v b="$(stat -c %s bins/deeper/2.bin)" '{ d = $1 / $2 - a / b; exit !(d * d < 0.01) }'; echo $?)" "  by their sizes"
works "  a resume takes the folder" pretrain --resume binned --data bins --data c.bin --mix 3,1 --steps 32 --quiet
run eval binned --data bins/1.bin --data bins/deeper/2.bin --seq 16
cp out evaluated
run eval binned --data bins --seq 16
result "$([ "$got" = 0 ] && cmp -s out evaluated; echo $?)" "  and so does eval"
works "  and plan" plan --data bins --mix 1 $model $small --probe off
cp a.txt bins/x.txt
refuses 2 "bins/x.txt is no token file, as others in the folder bins are" pretrain --run none --data bins --tokenizer tok $model $small --steps 1
rm bins/x.txt

# ---- evaluation, check, damage ----
run eval kept --data b.txt --data c.bin --last --seq 16 --batch 29
same "$(sqlite3 kept/run.db "SELECT printf('loss %.6f', value) FROM evals WHERE name = 'loss' AND step = 8")" "$(head -n 1 out)" "eval over two files gives the loss that the run gave"
run check kept
same "5 $tmp/d.bin" "$(grep -c '^tokens ' out) $(sed -n 's/^tokens .* in \(.*d.bin\)/\1/p' out)" "check reads each source"
turn kept/data.1.bin 1500
refuses_check() { run check kept; [ "$got" = 1 ] && grep -q "$1" err; result $? "check: $1"; }
refuses_check "kept/data.1.bin was changed since it was first used"
mv kept/data.1.bin kept/away
refuses_check "kept/data.1.bin"
run pretrain --resume kept --steps 12 --schedule-steps 12 --quiet
result "$([ "$got" != 0 ] && grep -q 'data.1.bin' err; echo $?)" "a source that is gone is named"
mv kept/away kept/data.1.bin

# ---- two processes ----
two="$three --mix 5,3,2 $model $large $machine --batch 5 --grad-accum 4 --groups 2"
run pretrain --run alone $two --steps 6
alone="$(losses alone)"
rm -rf ranks
works "reshard to two ranks" reshard alone --ranks 2 --new-run ranks --devices 1
result "$(cmp -s alone/data.1.bin ranks/data.1.bin && cmp -s alone/data.1.bin ranks.rank1/data.1.bin; echo $?)" "  copies each source"
if command -v mpirun >/dev/null && ldd "$bin" | grep -q libmpi; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_backing_directory="$tmp"
    case $(mpirun --version) in *"Open MPI"*) more="--oversubscribe --bind-to none" ;; *) more= ;; esac
    for steps in "--run both $two --steps 4" "--resume both --steps 6"; do
        timeout 120 mpirun $more -n 2 "$bin" pretrain $steps >out 2>err </dev/null
    done
    same "$alone" "$(losses both)" "two processes, stopped after a step: the losses of one, to the bit"
    timeout 120 mpirun $more -n 2 "$bin" pretrain --run none --data - --tokenizer tok $model $small --groups 2 --steps 1 >out 2>err </dev/null
    result "$([ $? != 0 ] && grep -q 'standard input) reaches one process alone' err; echo $?)" "standard input is refused there"
else
    skip "two processes" "no mpirun here, or siTrain is built without MPI"
fi

# ---- what is refused ----
before=$(ls)
for bad in 0.7 0.7,0.3,0 0.7,0.3,nan 0.7,0.3,-1 0.7,0.3,inf 1,,1 1,1,1, "" 1e999,1,1 x 1,1,1,1; do
    run pretrain --run none $three --mix "$bad" $model $small --steps 1
    [ "$got" = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q -- "--mix $bad" err && [ "$before" = "$(ls)" ]
    result $? "refused: --mix '$bad'"
done
refuses 2 "weight 3 is so small that not one of 4096 rows is of its source" pretrain --run none $three --mix 1,1,1e-5 $model $small --steps 1
refuses 2 "a.txt: No such file" pretrain --run none --data b.txt --data x/a.txt --tokenizer tok $model $small --steps 1
refuses 2 "c.bin holds token ids, and --eval-split chooses by documents" pretrain --run none $three --eval-split 10% $model $small --steps 1
refuses 2 "--eval-split takes a part of --data to evaluate on, and --eval-data names other data" pretrain --run none --data a.txt --eval-data b.txt --eval-split 10% --tokenizer tok $model $small --steps 1
refuses 2 "--text-column story names the text in rows, and the data are token ids" pretrain --run none --data c.bin --tokenizer tok --text-column story $model $small --steps 1
refuses 2 "- (standard input) was given twice" pretrain --run none --data - --data - --tokenizer tok $model $small --steps 1
head -c 12 a.txt >short.txt
refuses 2 "short.txt has" pretrain --run none --data a.txt --data short.txt --tokenizer tok $model $small --steps 1
result "$([ ! -e none ]; echo $?)" "nothing is left of these"

# ---- texts of every kind are the same source ----
python3 - <<'PY'
import gzip, json, os
text = open("a.txt").read()
docs = [text[i:i + 400] for i in range(0, 4000, 400)]
os.makedirs("folder/below")
for i, d in enumerate(docs):
    open(f"folder/below/{i}.txt" if i > 4 else f"folder/{i}.txt", "w").write(d)
rows = [json.dumps({"id": i, "story": d}) + "\n" for i, d in enumerate(docs[:5] + docs[5:])]
open("rows.jsonl", "w").writelines(rows)
open("rows.json", "w").write(json.dumps([json.loads(r) for r in rows], indent=1))
open("rows.jsonl.gz", "wb").write(gzip.compress("".join(rows).encode()))
open("rows.csv", "w").write("id,story\n" + "".join(f"{i},{d}\n" for i, d in enumerate(docs)))
os.mkdir("files")
for i, r in enumerate(rows):
    open(f"files/{i}.jsonl", "w").write(r)
PY
zstd -q rows.jsonl -o rows.jsonl.zst
sum=
for file in rows.jsonl rows.json rows.jsonl.gz rows.jsonl.zst rows.csv files folder -; do
    column="--text-column story"
    [ $file = folder ] && column=
    rm -rf kind
    "$bin" pretrain --run kind --data b.txt --data $file --mix 1,1 $column --tokenizer tok $model $small $machine --batch 4 --steps 2 <rows.jsonl >out 2>err
    sum=${sum:-$(sha256sum <kind/data.1.bin)}
    same "$sum" "$(sha256sum <kind/data.1.bin)" "--data $file: the same tokens"
    [ "$file" = - ] && continue
    works "  goes on by its name" pretrain --resume kind --data b.txt --data $file $column --steps 2 --quiet
    run eval kind --data b.txt --data $file $column --seq 16
    eval=${eval:-$(cat out)}
    same "$eval" "$(cat out)" "  and is evaluated on"
    works "  and planned with" plan $small --n-head 2 --vocab 280 --data b.txt --data $file --mix 1,1 $column --probe off
done
refuses 2 "--data -: a resume keeps the run's data" pretrain --resume kind --data b.txt --data -
refuses 2 "--text-column other: this run took its texts from story" pretrain --resume kind --text-column other
echo x >>folder/0.txt
rm -rf kind
run pretrain --run kind --data folder --tokenizer tok $model $small $machine --batch 4 --steps 2
echo x >>folder/1.txt
refuses 2 "/folder: this file was changed after the run took its tokens" pretrain --resume kind --data folder

# ---- a part of the documents, or of one's own rows, to evaluate on ----
python3 - <<'PY'
import json
with open("docs.jsonl", "w") as docs, open("rows.csv", "w") as csv, open("chat.jsonl", "w") as chat:
    print("sentence,label", file=csv)
    for i in range(600):
        n = i % 400 # two hundred are there twice
        print(json.dumps({"text": f"{n} abcdefg hgfedcba of {n}", "i": i}), file=docs)
        print(f"row {n} of it,{i % 2 if i < 400 else (i + 1) % 2}", file=csv)
        turns = [{"role": "user", "content": f"row {n}"}, {"role": "assistant", "content": f"of {n}"}]
        row = {"messages": turns, "id": i} if i < 400 else {"id": -i, "messages": [dict(reversed(t.items())) for t in turns]}
        print(json.dumps(row, separators=(",", ":") if i % 2 else None), file=chat)
PY
# sides RUN: every text is on one side, and all rows are there
sides() {
    python3 - "$1" <<'PY'
import os, sqlite3, struct, sys
run = sys.argv[1]
settings = dict(sqlite3.connect(run + "/run.db").execute("SELECT key, value FROM runs"))
def rows(side):
    path = f"{run}/{side}.ex"
    if os.path.exists(path):
        data = open(path, "rb").read()
        _, _, _, n, ids = struct.unpack_from("<8sIIQQ", data)
        stored = struct.unpack_from(f"<{ids}i", data, 48)
        for i in range(n):
            first, length = struct.unpack_from("<QI", data, 48 + 4 * ids + 24 * i)
            yield tuple(v if v >= 0 else ~v for v in stored[first:first + length])
        return
    data = open(f"{run}/{side}.bin", "rb").read()[1024:]
    ids, doc = struct.unpack(f"<{len(data) // 2}H", data), []
    for v in ids + (int(settings["endoftext"]),):
        if v == int(settings["endoftext"]):
            yield tuple(doc)
            doc = []
        else:
            doc.append(v)
train, held = (list(rows(s)) for s in (("train", "dev") if "task" in settings else ("data", "eval")))
assert len(train) + len(held) == 600, (len(train), len(held))
assert not set(train) & set(held) and len(set(train) | set(held)) == 400
assert 70 <= len(held) <= 180, len(held) # of 120 that are expected
print(len(held))
PY
}
tune="--steps 2 --eval-every 1 --keep-best --max-seq 32 --mode mem --durability none --quiet"
run pretrain --run lm --data a.txt --tokenizer tok $small --n-head 2 --seq 64 --batch 2 --steps 1 $machine
run export lm hf
run pretrain --run documents --data docs.jsonl --tokenizer tok --eval-split 20% $model $small $machine --batch 4 --steps 2 --eval-every 1 --keep-best
result "$got" "pretrain --eval-split"
result "$(sides documents >out; echo $?)" "  has every document on one side"
held=$(cat out)
printf '{"_": 0, "text": "one more"}\n' | cat - docs.jsonl >more.jsonl
rm -rf other
same 4 "$(sqlite3 documents/run.db "PRAGMA user_version")" "  and one source has the format of before"
run pretrain --run other --data more.jsonl --tokenizer tok --eval-split 20% $model $small $machine --batch 4 --steps 2
result "$(python3 - <<'PY'
a, b = (open(f"{run}/eval.bin", "rb").read()[1024:] for run in ("documents", "other"))
assert a in b, "another document moves others"
PY
echo $?)" "  the same ones, whatever else is there"
works "  goes on" pretrain --resume documents --eval-split 0.2 --steps 4 --schedule-steps 4 --quiet
refuses 2 "--eval-split: this run has another part to evaluate on" pretrain --resume documents --eval-split 10%
run report documents --config
cp out config
result "$(grep -q '^eval-split = 0.2$' config && ! grep -q '^eval-data' config; echo $?)" "  report --config has it"
run finetune --run labelled --init hf --train-file rows.csv --eval-split 20% $tune
result "$got" "finetune --eval-split, labelled rows"
result "$(sides labelled >out; echo $?)" "  has every row on one side"
run finetune --run talk --task chat --init hf --chat-template "$chat_template" --train-file chat.jsonl --eval-split 20% $tune
result "$got" "finetune --eval-split, conversations"
result "$(sides talk >out; echo $?)" "  has every row on one side"
refuses 2 "--eval-split takes a part of --train-file" finetune --run none --task chat --init hf --train-file chat.jsonl --eval-file chat.jsonl --eval-split 20% $tune
refuses 2 "--eval-split takes a part of --train-file" finetune --run none --init hf --train-file rows.csv --eval-file rows.csv --eval-split 20% $tune
refuses 2 "--eval-split is for your own rows" finetune --run none --init hf --task sst2 --data . --eval-split 20% $tune
refuses 2 "--resume keeps the run's model, task and rows" finetune --resume labelled --eval-split 20%
head -n 3 rows.csv >few.csv
head -n 1 chat.jsonl >few.jsonl
refuses 2 "leaves none to evaluate on" finetune --run none --init hf --train-file few.csv --eval-split 0.01% $tune
refuses 2 "leaves none to" finetune --run none --task chat --init hf --chat-template "$chat_template" --train-file few.jsonl --eval-split 20% $tune
# an imported model takes all of it with its first resume, or nothing
run import hf imported
before=$(cd imported && ls)
refuses 2 "short.txt has" pretrain --resume imported --data docs.jsonl --data short.txt --mix 1,3 --eval-split 10% --seq 16 --batch 4 --steps 2
same "$before" "$(cd imported && ls)" "what a resume could not take leaves nothing in the run"
refuses 2 "all documents of b.txt would be evaluated on" pretrain --resume imported --data docs.jsonl --data b.txt --mix 1,3 --eval-split 10% --seq 16 --batch 4 --steps 2
works "and another one takes its data" pretrain --resume imported --data docs.jsonl --data more.jsonl --mix 1,3 --eval-split 10% --seq 16 --batch 4 --steps 2 --quiet
works "which a resume keeps" pretrain --resume imported --data docs.jsonl --data more.jsonl --mix 25,75 --eval-split 0.1 --steps 3 --schedule-steps 3 --quiet
mkdir talks talks/more
head -n 300 chat.jsonl >talks/more/1.jsonl
tail -n 300 chat.jsonl >talks/z.jsonl
run finetune --run folder-of --task chat --init hf --chat-template "$chat_template" --train-file talks --eval-split 20% $tune
result "$(cmp talk/train.ex folder-of/train.ex && cmp talk/dev.ex folder-of/dev.ex; echo $?)" "--train-file takes a folder of conversations, in byte order"
works "  and so does plan" plan --init hf --task chat --train-file talks --chat-template "$chat_template" --probe off
result "$([ ! -e none ]; echo $?)" "nothing is left of what was refused"

done_testing
