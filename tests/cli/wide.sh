#!/bin/sh
# A vocabulary of more than 65,536 ids: a tokenizer of it, token files of 32 bits, a training on them, and such files damaged or of another model.
# Prints TAP.
. tests/tap.sh

awk 'BEGIN { srand(1)
    for (i = 0; i < 60000; i++) {
        w = ""
        for (n = 4 + int(rand() * 5); n > 0; n--) w = w substr("abcdefghijklmnopqrstuvwxyz", 1 + int(rand() * 26), 1)
        print w, w
    }
}' >"$tmp/words.txt"
number() { od -An -td4 -j "$((4 * $2))" -N 4 "$1" | tr -d ' '; } # FILE INDEX
put() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; } # FILE OFFSET BYTES

works "a tokenizer of 66,000 ids" prepare "$tmp/words.txt" --train-tokenizer --vocab 66000 --out "$tmp/tok"
works "  gives a token file" prepare "$tmp/words.txt" --tokenizer "$tmp/tok" --out "$tmp/words.bin"
same "20240801 7" "$(number "$tmp/words.bin" 0) $(number "$tmp/words.bin" 1)" "  with llm.c's header for 32 bits"
same "$(stat -c %s "$tmp/words.bin")" "$((1024 + 4 * $(number "$tmp/words.bin" 2)))" "  and 4 bytes for each token"
small="--n-layer 1 --n-head 1 --n-embd 8 --seq 16 --batch 2 --steps 2 --mode su+o --csd-mem 8M --durability none"
works "a training on it" pretrain --run "$tmp/a" $small --data "$tmp/words.bin" --tokenizer "$tmp/tok"
works "a training on the text" pretrain --run "$tmp/b" $small --data "$tmp/words.txt" --tokenizer "$tmp/tok"
same "$(exported "$tmp/a")" "$(exported "$tmp/b")" "  comes to the same model"

refuses 2 "is not below the vocabulary's 65000" pretrain --run "$tmp/none" $small --vocab 65000 --data "$tmp/words.bin"
cp "$tmp/words.bin" "$tmp/bad.bin"
put "$tmp/bad.bin" 1027 '\377' # the last byte of the first id: as int32 it would be negative
refuses 2 "at position 0 is not below the vocabulary's 66000" pretrain --run "$tmp/none" $small --data "$tmp/bad.bin" --tokenizer "$tmp/tok"
cp "$tmp/words.bin" "$tmp/bad.bin"
put "$tmp/bad.bin" 4 '\001'
refuses 2 "only version 7 (uint32 ids) is known" pretrain --run "$tmp/none" $small --data "$tmp/bad.bin" --tokenizer "$tmp/tok"
head -c 5000 "$tmp/words.bin" >"$tmp/bad.bin"
refuses 2 "bad.bin has 5000 bytes, but its header says" pretrain --run "$tmp/none" $small --data "$tmp/bad.bin" --tokenizer "$tmp/tok"
result "$([ ! -e "$tmp/none" ]; echo $?)" "  and nothing was made"

done_testing
