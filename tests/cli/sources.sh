#!/bin/sh
# Rows of a fine-tuning from several files and folders: pooled and by weights, labelled, conversations and preferences, packed, stopped in the middle
# of an epoch, by two processes; a part of all of them to evaluate on; what the report, the plan and the run say of them; what is refused. Prints TAP.
. tests/tap.sh

language_model 100 280 --n-layer 1 --n-head 1 --n-embd 8 --seq 64 --batch 2 --steps 1
cd "$tmp" || exit 1
python3 - <<'PY'
import csv, gzip, json, os, random
draw = random.Random(5)
text = lambda of: " ".join(draw.choice(of) for _ in range(draw.randrange(2, 9)))
sea, land = "sea ship storm sailor island whale".split(), "hill tree house road field".split()
def rows(n, of, first): return [{"sentence": text(of), "label": draw.choice(first), "note": "x"} for _ in range(n)]
def write(name, all, opened=open):
    with opened(name, "wt") as f:
        w = csv.DictWriter(f, ["sentence", "label"], extrasaction="ignore")
        w.writeheader(); w.writerows(all)
def lines(name, all, opened=open):
    with opened(name, "wt") as f: f.writelines(json.dumps(r) + "\n" for r in all)
a, b, c = rows(60, sea, ["yes", "no"]), rows(23, land, ["no", "yes", "maybe"]), rows(17, sea + land, ["no"])
b[7]["sentence"] = c[3]["sentence"] = a[0]["sentence"] # the same text in three files
write("a.csv", a); lines("b.jsonl", b)
os.makedirs("c/deeper"); write("c/1.csv.gz", c[:5], gzip.open); lines("c/2.json", c[5:9]); lines("c/deeper/3.jsonl", c[9:])
open("c/.hidden", "wb").write(b"\0"); open("c/empty.csv", "w")
write("all.csv", a + b + c)
def turns(n, of): return [{"messages": [{"role": "user", "content": text(of)}, {"role": "assistant", "content": text(of)}]} for _ in range(n)]
lines("x.jsonl", turns(40, sea)); lines("y.jsonl", turns(13, land)); os.makedirs("z"); lines("z/1.jsonl", turns(6, sea)); lines("z/2.jsonl.gz", turns(5, land), gzip.open)
def pairs(n, of): return [{"prompt": text(of), "chosen": text(of) + " one", "rejected": text(of) + " two"} for _ in range(n)]
lines("p.jsonl", pairs(30, sea)); lines("q.jsonl", pairs(9, land))
PY
printf '%s' "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}" >template.jinja
machine="--init hf --csd-mem 1M --durability none --quiet --threads 1 --lr 1e-3 --schedule constant --seed 4 --max-seq 64"
three="--train-file a.csv --train-file b.jsonl --train-file c"
tune() { # RUN ARGUMENTS...
    rm -rf "$1"
    run finetune --run $machine "$@"
}
sources() { # RUN: rows read of each source
    "$bin" report "$1" --json | python3 -c 'import json, sys; print(*(s["rows_read"] for s in json.load(sys.stdin)["sources"]))'
}
setting() { sqlite3 "$1/run.db" "SELECT value FROM runs WHERE key = '$2'"; }

# ---- one pool: the rows of one file that has them all ----
tune_all="--mode mem --batch 7 --epochs 2"
rm -rf one pool
run finetune --run one $machine --train-file all.csv $tune_all
one=$(exported one)
run finetune --run pool $machine $three $tune_all
result "$got" "three sources, one of them a folder with packed files"
same "$one" "$(exported pool)" "  one pool has the bits of one file with all rows"
same '["maybe", "no", "yes"]' "$(setting pool config.labels | sed 's/","/", "/g')" "  a label of the second file is a class"
same "120 46 34" "$(sources pool)" "  two epochs have each row twice"
run finetune --run part $machine $three --mode mem --batch 7 --steps 19 --epochs 2
same 128 "$(sources part | tr ' ' '\n' | awk '{ n += $1 } END { print n }')" "  and a begun one is counted row by row"
run report pool
result "$(grep -q '^Sources' out && grep -q 'a.csv .* 120 ' out; echo $?)" "  report has them"
same "60 23 17" "$(for i in 0 1 2; do setting pool source.$i.rows; done | tr '\n' ' ' | sed 's/ $//')" "  and the run their numbers"
same "$(sqlite3 one/run.db "PRAGMA user_version")" "$(sqlite3 pool/run.db "PRAGMA user_version")" "  an older siTrain may go on with a pool"

# ---- weights ----
rm -rf mixed
run finetune --run mixed $machine $three --mix 5,3,2 --mode mem --batch 128 --steps 64
same "4096 2458 1638" "$(sources mixed)" "two blocks of 4,096 rows have the weights, exactly"
same 6 "$(sqlite3 mixed/run.db "PRAGMA user_version")" "  which an older siTrain refuses by its format"
rm -rf said
"$bin" finetune --run said $machine $three --mix 5,3,2 --mode mem --batch 128 --steps 16 --log-every 100 >out 2>err </dev/null
rm -rf said
run finetune --run said --init hf --max-seq 64 $three --mix 5,3,2 --mode mem --durability none --batch 128 --steps 16 --log-every 100
result "$(grep -q 'source .*/a.csv: [0-9]* tokens, 50% of the rows' err && grep -q 'c is read 24.1 times until step 16' err; echo $?)" "  the start says shares, and what is often repeated"

# ---- the same bits, whatever stops it: labelled rows, conversations padded and packed, preferences ----
same_bits() { # NAME ARGUMENTS...
    name=$1
    shift
    rm -rf whole stopped
    run finetune --run whole $machine "$@" --steps 9
    whole=$(exported whole) said=$(losses whole)
    run finetune --run stopped $machine "$@" --steps 4 --schedule-steps 9
    run finetune --resume stopped --steps 7 --quiet
    run finetune --resume stopped --steps 9 --quiet
    same "$whole $said" "$(exported stopped) $(losses stopped)" "$name: stopped twice, the same bits"
}
chats="--task chat --chat-template template.jinja --train-file x.jsonl --train-file y.jsonl --train-file z"
pairs="--task dpo --train-file p.jsonl --train-file q.jsonl"
for mode in mem su+o; do
    same_bits "labelled, $mode" $three --mix 5,3,2 --batch 5 --grad-accum 2 --eval-split 10% --mode $mode
    labelled=${labelled:-$whole}
    same "$labelled" "$whole" "  the bits of the other modes"
done
same_bits "conversations" $chats --mix 2,2,1 --batch 5 --eval-split 10% --mode mem
same_bits "packed" $chats --mix 2,2,1 --batch 2 --grad-accum 2 --packing --mode su+o
same 36 "$(sources whole | awk '{ print $1 + $2 + $3 }')" "  its rows are counted by their sources"
same_bits "preferences" $pairs --mix 3,1 --batch 6 --mode su+o
same 27 "$(sources whole | awk '{ print $1 + $2 }')" "  whose rows are pairs"
same_bits "sequential" $three --mix 5,3,2 --batch 5 --order sequential --mode mem
same_bits "packed, one pool" $chats --batch 2 --packing --mode mem
same "$(setting whole train.packed)" "$(for i in 0 1 2; do setting whole source.$i.packed; done | awk '{ n += $1 } END { print n }')" "  a packed row is of one source"
run finetune --run whole2 $machine $chats --batch 2 --packing --mode mem --epochs 2
same "$(for i in 0 1 2; do echo $((2 * $(setting whole source.$i.packed))); done | tr '\n' ' ')" "$(sources whole2) " "  and two epochs have each twice"

# ---- a part of all of them to evaluate on ----
for rows in "--train-file all.csv" "$three"; do
    rm -rf split
    run finetune --run split $machine $rows --eval-split 20% --mode mem --batch 7 --steps 3
    split="$split $(setting split dev.sum) $(setting split train.sum)"
done
same "$(echo $split | cut -d' ' -f1,2)" "$(echo $split | cut -d' ' -f3,4)" "--eval-split takes the rows that it takes of one file"
run finetune --run config $machine $three --mix 5,3,2 --batch 5 --eval-split 10% --mode mem --steps 5
run report config --config
cp out config.txt
rm -rf again
works "report --config" finetune --run again --config config.txt --threads 1
same "$(exported config)" "$(exported again)" "  makes the same run"
run eval pool --eval-file all.csv --max-seq 64
cp out evaluated
run eval pool --eval-file a.csv --eval-file b.jsonl --eval-file c --max-seq 64
result "$([ "$got" = 0 ] && cmp -s out evaluated; echo $?)" "eval takes several files, too"
cat all.csv | "$bin" eval pool --eval-file - --max-seq 64 >out 2>err
result "$([ $? = 0 ] && cmp -s out evaluated; echo $?)" "  and standard input"
cat x.jsonl | "$bin" eval hf --eval-file - --chat-template template.jinja --max-seq 64 >evaluated 2>err
run eval hf --eval-file x.jsonl --chat-template template.jinja --max-seq 64
result "$([ "$got" = 0 ] && cmp -s out evaluated; echo $?)" "  also of conversations"
refuses 2 "- (standard input) was given twice" eval pool --eval-file - --test-file - --predict none --max-seq 64
run plan $three --mix 5,3,2 --init hf --max-seq 64 --batch 7 --probe off
result "$got" "plan, too"
grep '^Step\|^Model\|epoch' out >planned
run plan --train-file all.csv --init hf --max-seq 64 --batch 7 --probe off
result "$([ "$got" = 0 ] && grep '^Step\|^Model\|epoch' out | cmp -s - planned; echo $?)" "  with the rows of one file"
works "plan of conversations" plan $chats --mix 2,2,1 --init hf --probe off

# ---- standard input: read to its end into a file without a name, and then as any file ----
tsv() { python3 -c 'import csv, sys
for r in csv.reader(open(sys.argv[1])): print("\t".join(r))' "$1"; }
tsv a.csv >a.tsv
for file in a.csv a.tsv b.jsonl b.jsonl.gz; do
    [ -e $file ] || gzip -k b.jsonl
    rm -rf piped named
    (head -c 300 $file; sleep 0.1; tail -c +301 $file) | "$bin" finetune --run piped $machine --train-file - --eval-split 20% --mode mem --steps 3 >out 2>err
    result $? "rows through a pipe: $file"
    run finetune --run named $machine --train-file $file --eval-split 20% --mode mem --steps 3
    result "$(cmp piped/train.ex named/train.ex && cmp piped/dev.ex named/dev.ex; echo $?)" "  are those of the file"
done
"$bin" finetune --run redirected $machine --train-file - --mode mem --steps 3 <a.csv >out 2>err
result $? "a file as standard input"
same "standard input" "$(setting redirected source.0.file)" "  is called so"
"$bin" finetune --run both-ways $machine $chats --train-file - --mix 1,1,1,1 --mode mem --steps 2 <x.jsonl >out 2>err
result $? "standard input among others, by weights"
printf 'sentence;label\na;b\n' | "$bin" finetune --run none $machine --train-file - >out 2>err
result "$([ $? = 2 ] && grep -q 'standard input has semicolons between its columns' err; echo $?)" "its columns are looked at"
printf '\211PNG\r\n\032\n0000000000' | "$bin" finetune --run none $machine --train-file - >out 2>err
result "$([ $? = 2 ] && grep -q 'standard input is a PNG picture' err; echo $?)" "and its contents"
"$bin" finetune --run none $machine --train-file - </dev/null >out 2>err
result "$([ $? = 2 ] && grep -q 'standard input is empty' err; echo $?)" "an empty one is refused"
refuses 2 "- (standard input) was given twice" finetune --run none $machine --train-file - --eval-file -
refuses 2 "- (standard input) can be read only once, and rows are read twice: give a file" plan --init hf --train-file -
# killed, and stopped by Ctrl-C, while it waits for more: nothing is left
mkfifo fifo
for how in KILL TERM; do
    "$bin" finetune --run none $machine --train-file - <fifo >out 2>err &
    pid=$!
    exec 3>fifo
    head -c 1000 a.csv >&3
    kill -$how $pid
    wait $pid 2>/dev/null
    exec 3>&-
    result "$([ -z "$(find . -name 'none*' -o -name '*.tmp')" ]; echo $?)" "SIG$how while it is read: nothing is left"
done

# ---- two processes ----
if command -v mpirun >/dev/null && ldd "$bin" | grep -q libmpi; then
    by_ranks
    run pretrain --run wide --data text.txt --tokenizer tok --n-layer 2 --n-head 2 --n-embd 64 --seq 64 --batch 2 --steps 1 --mode mem --durability none
    run export wide wide-hf
    two="${machine#--init hf} --init wide-hf $three --batch 5 --grad-accum 4 --groups 2 --mode su+o --eval-split 10%"
    run finetune --run alone $two --mix 5,3,2 --steps 5
    for steps in "--run both $two --mix 5,3,2 --steps 3 --schedule-steps 5" "--resume both --steps 5"; do
        timeout 120 mpirun $more -n 2 "$bin" finetune $steps >out 2>err </dev/null
    done
    same "$(losses alone)" "$(losses both)" "two processes, stopped after a step: the losses of one, to the bit"
    timeout 120 mpirun $more -n 2 "$bin" finetune --run none $two --train-file - --steps 1 >out 2>err </dev/null
    got=$?
    result "$(refused_by_ranks && grep -q 'standard input) reaches one process alone' err; echo $?)" "standard input is refused there"
else
    skip "two processes" "no mpirun here, or siTrain is built without MPI"
fi

# ---- what is refused ----
none="--run none $machine --mode mem --steps 1"
before=$(ls)
for bad in 0.7 0.7,0.3,0 nan,1,1 1,,1 "" 1,1,1,1; do
    run finetune $none $three --mix "$bad"
    [ "$got" = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q -- "--mix $bad" err && [ "$before" = "$(ls)" ]
    result $? "refused: --mix '$bad'"
done
refuses 2 "--mix 1,1 has 2 weights, and --train-file was given 3 times" finetune $none $three --mix 1,1
refuses 2 "weight 3 is so small that not one of 4096 rows is of its source" finetune $none $three --mix 1,1,1e-5
refuses 2 "--mix has weights of several --train-file, and --task sst2 takes its rows from --data" finetune $none --task sst2 --data c --mix 1
refuses 2 "--group-by-length chooses the order of rows, and so does --mix" finetune $none $chats --mix 1,1,1 --group-by-length
refuses 2 "--mix: not one row of c is trained on: leave the file out" finetune $none $three --mix 1,1,1 --max-train-samples 80
refuses 2 "leave --init, --tokenizer, --task, --data, the files and their columns, --mix," finetune --resume mixed --mix 1,1,1
mkdir other && printf '\211PNG\r\n\032\n0000000000' >other/x.csv && cp a.csv other/a.csv
refuses 2 "other/x.csv is a PNG picture" finetune $none --train-file other
rm other/x.csv && printf 'a,b\n' >other/notes.txt
refuses 2 "other/notes.txt: a name that ends in .csv, .tsv, .json or .jsonl is expected" finetune $none --train-file other
printf 'sentence,label\n' >other/notes.txt && mv other/notes.txt other/b.csv
refuses 2 "other/b.csv has no rows" finetune $none --train-file other
printf 'text,label\na,yes\n' >other/b.csv
refuses 2 "other/b.csv has no column 'sentence', but 'text', 'label'" finetune $none --train-file other
mkdir bare
refuses 2 "bare is a folder without files to read" finetune $none --train-file bare
refuses 2 "d.csv: No such file" finetune $none $three --train-file d.csv
printf '\211PNG\r\n\032\n0000000000' >picture && gzip -c picture >picture.csv
refuses 2 "picture is a PNG picture, not a chat template" finetune $none --task chat --train-file x.jsonl --chat-template picture
refuses 2 "picture.csv is a gzip file, which is unpacked, but picture.unpacked is a PNG picture, not rows. First: zcat picture.csv" finetune $none --train-file picture.csv
# A long name leaves the end of the sentence, which says what to do.
long=$(printf '%0190d' 0)
printf 'PAR1\0\1\2\3' >"$long" && gzip -c "$long" >packed-"$long"
refuses 2 "$long.csv makes rows of it" finetune $none --train-file "$long"
refuses 2 "is a gzip file, which is unpacked, but what is in it is a Parquet file, not rows" finetune $none --train-file packed-"$long"
rm "$long" packed-"$long"
printf 'caf\351 au lait\n' | gzip >latin.txt
refuses 2 "First: zcat $tmp/latin.txt >" pretrain --run none --steps 1 --seq 16 --mode mem --data latin.txt --tokenizer tok --n-layer 1 --n-head 1 --n-embd 8
rm -f picture picture.csv latin.txt
same "$before bare other" "$(ls | grep -v '^bare$\|^other$' | tr '\n' ' ' | sed 's/ $//' | tr ' ' '\n') bare other" "nothing was made"
done_testing
