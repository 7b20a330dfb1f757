#!/bin/sh
# Options from a file: what a line may be, what is refused in which words, what the command line has over it; a run's own options as such
# a file make the run again, bit for bit. Prints TAP.
. tests/tap.sh

make_text 300 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 280 --out "$tmp/tok"
mkdir "$tmp/one" "$tmp/two #2"

cat >"$tmp/small.conf" <<END
# a small model
n-layer = 2
n-head 2                # two heads
--n-embd=16

seq = 16
batch = 2
steps = 9
data = "$tmp/text.txt"  # a text
tokenizer = $tmp/tok
device = $tmp/one
device = "$tmp/two #2"
csd-mem = 1M
durability = none
lr = 1e-3
warmup = 50%
dropout = 10%
quiet
error-feedback = 0
compress = 50%
activations offload
END

works "a run by a file of options" pretrain --config "$tmp/small.conf" --run "$tmp/run" --steps 3
first=$(exported "$tmp/run")
run pretrain --n-layer 2 --n-head 2 --n-embd 16 --seq 16 --batch 2 --steps 3 --data "$tmp/text.txt" --tokenizer "$tmp/tok" --devices 2 \
    --csd-mem 1M --durability none --lr 1e-3 --warmup 50% --dropout 10% --quiet --compress 50% --run "$tmp/typed"
same "$first" "$(exported "$tmp/typed")" "it is the run that typing them makes, with the command line's --steps"
[ -n "$(ls "$tmp/one")" ] && [ -n "$(ls "$tmp/two #2")" ]
result $? "its devices are both that the file names"

works "the run's options as a file" report "$tmp/run" --config
cp "$tmp/out" "$tmp/again.conf"
grep -qx "steps = 3" "$tmp/again.conf" && grep -qxF "device = \"$tmp/two #2\"" "$tmp/again.conf" && grep -qx "csd-mem = 1M" "$tmp/again.conf" &&
    ! grep -q "^devices\|^quiet\|^run\|^config" "$tmp/again.conf"
result $? "it has what the run has, and nothing of the command only"
run pretrain --resume "$tmp/run" --steps 1
run report "$tmp/run" --config
cmp -s "$tmp/out" "$tmp/again.conf"
result $? "  nor is it another where a resume asks for fewer steps than are done"
(cd "$tmp/one" && "$bin" pretrain --config "$tmp/again.conf" --run "$tmp/again") >"$tmp/out" 2>"$tmp/err"
same "$first" "$(exported "$tmp/again")" "which makes it again, bit for bit, from another folder"
run report "$tmp/again" --config
cmp -s "$tmp/out" "$tmp/again.conf"
result $? "and that run's file is the same"
mkdir "$tmp/three"
run pretrain --config "$tmp/again.conf" --run "$tmp/moved" --device "$tmp/three"
result "$(grep -Eq "memory [0-9.]+M of .* planned and [0-9.]+[KM] of emulated devices, " "$tmp/err"; echo $?)" "what a run says first has the devices' memory, too"
[ "$got" = 0 ] && [ "$(ls "$tmp/three" | wc -l)" = 1 ] && run report "$tmp/moved" --config && [ "$(grep -c "^device = " "$tmp/out")" = 1 ]
result $? "--device on the command line stands for all of the file's"

printf 'n-layer = 1\nn-head = 1\nn-embd = 8\nseq = 16\nbatch = 2\nsteps = 1\ndata = "%s"\ntokenizer = %s\ndevices = 2\n' "$tmp/text.txt" "$tmp/tok" >"$tmp/two.conf"
mkdir "$tmp/four"
run pretrain --config "$tmp/two.conf" --run "$tmp/one-drive" --device "$tmp/four"
[ "$got" = 0 ] && [ "$(ls "$tmp/four" | wc -l)" = 1 ] && [ ! -e "$tmp/one-drive/dev0" ] && run report "$tmp/one-drive" --config && ! grep -q "^devices" "$tmp/out"
result $? "  and of its number of devices"
run pretrain --config "$tmp/again.conf" --run "$tmp/folders" --devices 3
[ "$got" = 0 ] && [ -d "$tmp/folders/dev2" ] && run report "$tmp/folders" --config && grep -qx "devices = 3" "$tmp/out"
result $? "  as --devices there does of the file's places"

# A model with dropout of its own to begin with, imported or not, and a classifier of one's own rows.
run export "$tmp/run" "$tmp/hf"
sed 's/_pdrop": [^,]*/_pdrop": 0.25/' "$tmp/hf/config.json" >"$tmp/config.json" && mv "$tmp/config.json" "$tmp/hf/config.json"
again() { # NAME COMMAND: the run NAME once more
    run report "$tmp/$1" --config
    cp "$tmp/out" "$tmp/$1.conf"
    run "$2" --config "$tmp/$1.conf" --run "$tmp/$1-again"
    same "$(exported "$tmp/$1")" "$(exported "$tmp/$1-again")" "$3"
}
machine="--csd-mem 1M --durability none --quiet"
run import "$tmp/hf" "$tmp/imported" $machine
run pretrain --resume "$tmp/imported" --data "$tmp/text.txt" --steps 2 --batch 2
run pretrain --resume "$tmp/imported" --steps 3
again imported pretrain "an imported run, resumed to a later end"
awk 'BEGIN { print "label,sentence"; for (i = 0; i < 40; i++) print i % 2 "," (i % 2 ? "the ship loves" : "a storm fears") }' >"$tmp/rows.csv"
run finetune --init "$tmp/hf" --train-file "$tmp/rows.csv" --run "$tmp/own" --max-seq 8 --batch 8 --epochs 1 --max-train-samples 20 $machine
again own finetune "a fine-tuning on rows of one's own, without a development set"
! grep -q "^dropout\|^eval-every" "$tmp/own.conf"
result $? "its dropout is the first model's"
run finetune --init "$tmp/own" --train-file "$tmp/rows.csv" --eval-file "$tmp/rows.csv" --run "$tmp/second" --max-seq 8 --batch 8 --steps 4 \
    --dropout 5% --keep-best --model_type gpt2 --learning_rate 1e-3 $machine
again second finetune "a fine-tuning that begins with a run"

# Another program's names in a file, and plan.
printf 'model_name_or_path = %s\ntrain_file = %s\noutput_dir = %s\nlearning_rate = 1e-3\nmax_seq_length = 8\nsave_steps = 5\nbf16\nfp16 = false\nsteps = 1\n' \
    "$tmp/hf" "$tmp/rows.csv" "$tmp/glue" >"$tmp/glue.conf"
run finetune --config "$tmp/glue.conf" $machine
[ "$got" = 0 ] && grep -q "save_steps changes nothing here" "$tmp/err" && run report "$tmp/glue" --config && grep -qx "lr = 0.001" "$tmp/out"
result $? "run_glue.py's names in a file"
run plan --probe off --config "$tmp/small.conf" --host-mem 80M
cp "$tmp/out" "$tmp/plan"
run plan --probe off --n-layer 2 --n-head 2 --n-embd 16 --seq 16 --batch 2 --steps 9 --tokenizer "$tmp/tok" --devices 2 --csd-mem 1M --durability none \
    --compress 50% --activations offload --host-mem 80M --dropout 10%
same "$(grep -v '^the\|MiB\|^Memory:\|fits, too' "$tmp/plan")" "$(grep -v '^the\|MiB\|^Memory:\|fits, too' "$tmp/out")" "a file of options can be planned"
works "so can a fine-tuning's" plan --probe off --config "$tmp/own.conf"

# refused TEXT LINES: a file with these lines is refused, the sentence naming it.
refused() {
    printf '%b' "$2" >"$tmp/bad.conf"
    refuses 2 "$tmp/bad.conf$1" pretrain --config "$tmp/bad.conf" --run "$tmp/new"
}
refused ", line 2: there is no option --bacth; did you mean --batch?" "# one\nbacth = 2\n"
refused ", line 1: --lr fast: expected a number" "lr = fast\n"
refused ", line 2: --steps was given twice" "steps = 3\nsteps = 3\n"
refused ", line 2: --quiet was given twice" "quiet = 0\nquiet = 1\n"
refused ", line 1: --quiet maybe: expected 0 or 1" "quiet maybe\n"
refused ", line 1: --steps needs a value; it takes: number of training steps" "steps\n"
refused ", line 1: --steps needs a value, but was given an empty one" "steps = # none\n"
refused ", line 1: there is no option --trace" "trace = x\n"
refused ", line 1: an option's name is expected before =" "= 3\n"
refused ", line 1: the value's closing quote is missing" 'data = "x\n'
refused ", line 1: after a backslash in quotes" 'data = "\\x"\n'
refused ", line 1: nothing but a comment is expected" 'data = "x" y\n'
refused ", line 2: the line has no end: the file was cut off" "steps = 10\nlr = 1"
refused ", line 1: there is a zero byte" "lr = 1\\0000\n"
refused ", line 1: --config is for the command line" "config = $tmp/small.conf\n"
refused " is empty" ""
head -c 1100000 /dev/zero >"$tmp/huge.conf"
refuses 2 "huge.conf has 1100000 bytes" pretrain --config "$tmp/huge.conf" --run "$tmp/new"
mkfifo "$tmp/pipe"
refuses 2 "$tmp/pipe" pretrain --config "$tmp/pipe" --run "$tmp/new"
refuses 2 "$tmp/one" pretrain --config "$tmp/one" --run "$tmp/new"
refuses 2 "No such file" pretrain --config "$tmp/none" --run "$tmp/new"
printf 'lr = fast\n' >"$tmp/bad.conf"
refuses 2 "line 1: --lr fast" pretrain --config "$tmp/bad.conf" --run "$tmp/new" --lr 1
printf '\357\273\277lr = fast\r\n' >"$tmp/bad.conf"
refuses 2 "line 1: --lr fast" pretrain --config "$tmp/bad.conf" --run "$tmp/new" # of an editor that marks its files
refuses 2 "exclude each other" report "$tmp/run" --config --json
[ ! -e "$tmp/new" ]
result $? "and nothing was made"

cp "$tmp/text.txt" "$tmp/$(printf 'text\033[2J')"
run pretrain --config "$tmp/small.conf" --run "$tmp/loud" --steps 1 --device "$tmp/three" --data "$tmp/$(printf 'text\033[2J')"
run report "$tmp/loud" --config
[ "$got" = 1 ] && grep -q "the option data holds a control character, which no file of options can hold" "$tmp/err" && [ ! -s "$tmp/out" ]
result $? "what no line of a file can hold is said"

if command -v sqlite3 >/dev/null; then
    sqlite3 "$tmp/typed/run.db" "DELETE FROM runs WHERE key LIKE 'given.%'"
    refuses 1 "does not keep what it was made from, as runs of this version do; its command line was: siTrain pretrain --n-layer 2" report "$tmp/typed" --config
else
    skip "a run of an older version" "no sqlite3 here"
fi
done_testing
