#!/bin/sh
# The manual page's examples, and the files of examples/ as their first lines say they are run, with a small text and a small model in the
# place of a person's. Prints TAP.
examples=$(pwd)/examples
. tests/tap.sh

make_text 300 >"$tmp/my.txt"
make_text 60 >"$tmp/held-out.txt"
for rows in mine mine-dev; do
    awk 'BEGIN { print "sentence,label"; for (i = 0; i < 24; i++) print (i % 2 ? "the ship loves" : "a storm fears") "," (i % 2 ? "good" : "bad") }' \
        >"$tmp/$rows.csv"
done
cd "$tmp" || exit 1

# The manual page's, one after the other, in smaller numbers.
siTrain() { "$bin" "$@"; }
"$bin" --man | sed -n '/^\.SH EXAMPLES/,/^\.SH EXIT/p' | sed -n 's/^siTrain /&/p' | sed 's/\\-/-/g' >lines
[ "$(wc -l <lines)" -ge 12 ]
result $? "the manual page has examples"
sed 's/8192/280/; s/--n-embd 512/--n-embd 32/; s/--seq 256/--seq 32/; s/--steps 1000/--steps 2/; s/-steps 1500/-steps 3/g; s/--tokens 100/--tokens 4/' \
    lines >small
mkdir man
cp my.txt mine.csv mine-dev.csv man/
while read -r line; do
    (cd man && echo "the ship" | eval "$line") >out 2>err
    result $? "$line"
done <small

# Every command's two, one after the other, in smaller numbers.
mkdir help help/mnt help/mnt/a help/mnt/b help/path help/SST-2
cp my.txt held-out.txt mine.csv mine-dev.csv help/
mkdir help/corpus
echo '{"text": "the ship"}' >help/corpus/rows.jsonl
zstd -q help/corpus/rows.jsonl -o help/more.jsonl.zst
awk 'BEGIN { print "sentence\tlabel"; for (i = 0; i < 24; i++) print (i % 2 ? "the ship loves" : "a storm fears") "\t" i % 2 }' >help/SST-2/train.tsv
cp help/SST-2/train.tsv help/SST-2/dev.tsv
count=0
for command in prepare pretrain finetune export import eval generate plan report watch check reshard devices bench; do
    "$bin" $command --help | sed -n '/^Examples$/,$s/^  siTrain /siTrain /p; /^Examples$/,$s/^      --/--/p' >lines
    sed -e ':a' -e '/\\$/N; s/\\\n//; ta' lines | sed 's/8192/280/; s/--n-embd 512/--n-embd 32/; s/--seq 256/--seq 32/; s/--steps 1000/--steps 2/
        s/-steps 1500/-steps 3/g; s/--tokens 100/--tokens 4/; s/gpt2-xl/gpt2 --probe off/; s/mine.csv$/& --probe off/; s|/mnt|mnt|g; s/bench --quick/& --only memory/; s/bench --only disk/& --quick/
        s/^siTrain finetune.*/& --steps 2 --batch 4 --max-seq 16/' >small
    while read -r line; do
        case $line in
        *path/to*) [ -d help/path/to ] || { mkdir help/path/to && "$bin" export help/first help/path/to/gpt2 >/dev/null; } ;;
        *" second "*) cp -r help/first help/second ;;
        *" sw-"*) # runs that were evaluated
            for i in 1 2; do
                cp -r help/first help/sw-$i
                "$bin" pretrain --resume help/sw-$i --eval-data held-out.txt --steps $((3 + i)) --schedule-steps $((3 + i)) --quiet >out 2>err
            done ;;
        esac
        (cd help && echo "the ship" | eval "$line") >out 2>err
        result $? "$line"
        count=$((count + 1))
    done <small
done
same 28 $count "two examples a command were run"

# commands FILE: its commands, one a line.
commands() { sed -n 's/^#     siTrain \(.*\)/\1/p' "$examples/$1" | sed "s|examples/|$examples/|; s/ *#.*//"; }
small="--batch 2 --steps 2 --durability none"

works "prepare, as pretrain.conf says" $(commands pretrain.conf | grep ^prepare | sed 's/8192/280/')
works "plan, as pretrain.conf says" $(commands pretrain.conf | grep ^plan) --n-embd 32 --seq 16 $small
works "pretrain.conf" $(commands pretrain.conf | grep ^pretrain) --n-embd 32 --seq 16 $small
[ -f first/run.db ] && run report first --config && grep -qx "mode = su+o" out && grep -qx "devices = 2" out && grep -qx "min-lr = 0.0001" out
result $? "its run has the file's options"

mkdir -p path/to
run pretrain --n-layer 2 --n-head 2 --n-embd 32 --seq 256 --batch 2 --steps 1 --mode mem --data my.txt --tokenizer tok --run start --durability none
works "a model in place of GPT-2" export start path/to/gpt2
works "finetune.conf" $(commands finetune.conf | grep ^finetune) $small
works "its classifier is measured" $(commands finetune.conf | grep ^eval)
works "and is exported" $(commands finetune.conf | grep ^export)

works "continue.conf" $(commands continue.conf | grep ^pretrain) --seq 32 $small --grad-accum 1
echo "the ship" | "$bin" $(commands continue.conf | grep ^generate) --tokens 4 >out 2>err
result $? "its best model talks"
[ "$(cat "$examples"/*.conf | grep -c '^#     siTrain')" = 8 ]
result $? "every command of theirs was run"

# The scripts write over nothing that is a person's.
cd "$tmp" && mkdir owned owned/SST-2 && cd owned || exit 1
for file in first.txt my.txt mine.csv mine-dev.csv SST-2/train.tsv SST-2/dev.tsv report.html report.csv report.json again.conf chat.jsonl turns.jinja; do echo "mine: $file" >$file; done
find . -type f -exec sha256sum {} + | sort >../owned.sums
for script in "$examples"/*.sh; do
    case $script in */report.sh) set -- ../first ;; *) set -- ;; esac
    PATH=$(dirname "$bin"):$PATH timeout 60 sh "$script" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    [ $? != 0 ] && find . -type f -exec sha256sum {} + | sort | cmp -s - ../owned.sums
    result $? "$(basename "$script") leaves what is there"
done
cd "$tmp" || exit 1

# The scripts, as they stand, as the README's block has them.
mkdir scripts bin && ln -s "$bin" bin/siTrain && cd scripts || exit 1
scripts=$(sed -n 's/^sh examples\/\([a-z]*\.sh\) .*/\1/p' "$examples/README.md")
for script in $scripts; do
    PATH=$tmp/bin:$PATH sh "$examples/$script" >"$tmp/out" 2>"$tmp/err" </dev/null
    result $? "$script"
done
same "$(cd "$examples" && ls *.sh | grep -v "^job.sh$" | sort | tr '\n' ' ')" "$(echo "$scripts" | sort | tr '\n' ' ')" "every script of examples/ was run (habits.sh runs job.sh)"
[ "$(tail -n +2 mine/predict_results_*.txt | wc -l)" = 60 ] && [ -s report.csv ] && [ -s report.html ] && [ -s sst2-hf/model.safetensors ] && python3 -m json.tool report.json >/dev/null
result $? "what they leave is there"
done_testing
