#!/bin/sh
# Numbers that leave the numbers: what an update would make infinite or NaN stays as it was, in every mode alike, and the run ends with a
# sentence; models that hold such values are refused where they are read. Prints TAP.
. tests/tap.sh

make_text 3000 >"$tmp/text.txt"
make_text 60 >"$tmp/held.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
shape="--data $tmp/text.txt --tokenizer $tmp/tok --n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 3 --csd-mem 192K --durability none
       --threads 1 --quiet"

# ends NAME STEP ARGUMENTS...: training that ends with the sentence at that step, from which the rest follows; in $hash what it left
ends() {
    ends_name=$1 ends_step=$2
    shift 2
    run pretrain --run "$tmp/$ends_name" $shape "$@"
    ends_ok=1
    if [ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "step $ends_step would have made $parameters parameters infinite or not a number" "$tmp/err" &&
        grep -qF "first in $tensor: these were left unchanged" "$tmp/err"; then
        ends_ok=0
    fi
    result $ends_ok "$ends_name: $* ends at step $ends_step"
    hash=$(exported "$tmp/$ends_name")
}

# everywhere NAME STEP ARGUMENTS...: in every mode the same end
everywhere() {
    every_name=$1 every_step=$2
    shift 2
    ends "$every_name-mem" "$every_step" "$@" --mode mem
    want=$hash
    i=0
    for mode in "base --devices 2" "su" "su+o --devices 3" "su+o --speculate" "base --speculate --devices 2" "su+o --disk sync"; do
        i=$((i + 1))
        ends "$every_name-$i" "$every_step" "$@" --mode $mode
        same "$want" "$hash" "$mode: the bits of mem"
    done
}

# decay alone sends every matrix out of the numbers; biases and norms move
parameters=34944 tensor=wte.weight
everywhere decay 1 --steps 4 --lr 1e25 --weight-decay 1e20
works "what is left can be read" export "$tmp/decay-mem" "$tmp/decay-hf"
refuses 1 "its loss is" eval "$tmp/decay-mem" --data "$tmp/held.txt"
works "and checked" check "$tmp/decay-3"
# resume RUN: on from the next step: how it ended, without the run's name, and what it left
resume() {
    run pretrain --resume "$1" --quiet
    echo "$got $(sed "s|$1||" "$tmp/err") $(exported "$1")"
}
same "$(resume "$tmp/decay-mem")" "$(resume "$tmp/decay-3")" "a resume tries the next step, in each mode with the same end"

# the last step, and one with an evaluation after it, end in the same way
for last in "--steps 1" "--steps 3 --eval-data $tmp/held.txt --eval-every 1"; do
    for mode in mem su+o; do
        ends "last-$mode-${#last}" 1 --lr 1e25 --weight-decay 1e20 --mode $mode $last
        same "$want" "$hash" "$mode $last: the bits of mem"
    done
done

# compressed gradients, with what is owed
everywhere_c() {
    ends feedback-mem 1 --steps 3 --lr 1e25 --weight-decay 1e20 --compress 10% --error-feedback --mode mem
    want=$hash
    ends feedback-suo 1 --steps 3 --lr 1e25 --weight-decay 1e20 --compress 10% --error-feedback --mode su+o --devices 2
    same "$want" "$hash" "compressed: the bits of mem"
}
everywhere_c

# a usual step is what it was: nothing is kept back, and no optimizer ends
for optimizer in adamw adam sgd adagrad; do
    works "$optimizer trains" pretrain --run "$tmp/$optimizer" $shape --steps 3 --lr 1e-3 --optimizer $optimizer --mode su+o
done

# a folder whose checksums are gone (as others write them) and of whose third value the bits are those of a NaN
run export "$tmp/adamw" "$tmp/hf"
file=$tmp/hf/model.safetensors
LC_ALL=C sed -i 's/sitrain\.header/another-things/; s/sitrain\.crc32c/further-things/' "$file"
cp -r "$tmp/hf" "$tmp/good"
data=$((8 + $(od -An -tu8 -N 8 "$file" | tr -d ' ')))
printf '\000\000\300\177' | dd of="$file" bs=1 seek=$((data + 8)) conv=notrunc 2>/dev/null
sentence="tensor wte.weight: 1 of its 9600 values are infinite or not a number, the first of them at index 2"
works "a folder without checksums is whole" check "$tmp/good"
run check "$tmp/hf"
result "$([ "$got" = 1 ] && grep -qF "$sentence" "$tmp/err"; echo $?)" "check names the tensor"
refuses 1 "$sentence" import "$tmp/hf" "$tmp/imported" --csd-mem 192K
result "$([ ! -e "$tmp/imported" ]; echo $?)" "and nothing is left of the run"
refuses 1 "$sentence" import "$tmp/hf" "$tmp/imported" --mode mem
refuses 1 "$sentence" eval "$tmp/hf" --data "$tmp/held.txt"
run generate "$tmp/hf" --prompt "the sea" --tokens 2
result "$([ "$got" = 1 ] && grep -qF "$sentence" "$tmp/err"; echo $?)" "generate names it, too"
refuses 1 "$sentence" export "$tmp/hf" "$tmp/again"
result "$([ ! -e "$tmp/again" ]; echo $?)" "and nothing is exported"

# every value is a number, 3.4e38, but what is computed from them is none
file=$tmp/good/model.safetensors
bytes=$(($(wc -c <"$file") - data))
head -c "$bytes" /dev/zero | tr '\000' '\177' | dd of="$file" bs=65536 oflag=seek_bytes seek="$data" conv=notrunc 2>/dev/null
refuses 1 "its loss is" eval "$tmp/good" --data "$tmp/held.txt"
run generate "$tmp/good" --prompt "the sea" --tokens 2
result "$([ "$got" = 1 ] && grep -q "a logit of the model is .*nan" "$tmp/err"; echo $?)" "generate stops where a logit is no number"
printf x >>"$file"
run check "$tmp/good"
result "$([ "$got" = 1 ] && grep -q "1 bytes behind the data of its last tensor" "$tmp/err"; echo $?)" "a folder's file ends with its last tensor"
done_testing
