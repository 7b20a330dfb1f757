#!/bin/sh
# Spare slots: few of them train to the bits of many, are taken where a disk has no room for many, and what is left of the disk is said.
# Prints TAP. Needs leave to mount a tmpfs for the full disk.
. tests/tap.sh

make_text 1500 >"$tmp/text.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a text becomes a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
set -- --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 6 --n-head 2 --n-embd 64 --seq 24 --batch 2 --seed 5 --csd-mem 192K --threads 1 --steps 4

bytes() { stat -c %s "$1"/dev*/states | awk '{ n += $1 } END { print n }'; }
of_plan() { # WORD: the bytes of this word in the plan's sentence, "Disk: 8.30M on 1 device (--spare-slots half; few: 6.55M)"
    sed -n "s/^Disk: \([0-9.]*\)M on .*(--spare-slots $1;.*/\1/p; s/^Disk: .*; $1: \([0-9.]*\)M)/\1/p" "$tmp/out"
}
is_of() { # RUN MIB
    awk -v got="$(bytes "$1")" -v want="$2" 'BEGIN { got /= 1048576; exit !(want > 0 && got > want - 0.01 && got < want + 0.01) }'
    result $? "$1: $(bytes "$1") bytes, $2 MiB planned"
}

works "half as many, by default" pretrain --run "$tmp/half" "$@"
works "few" pretrain --run "$tmp/few" "$@" --spare-slots few
works "few, and updates ahead of the norm" pretrain --run "$tmp/ahead" "$@" --spare-slots few --speculate
result "$(grep -q "is limited by the devices' spare slots, .* or with --spare-slots half or few" "$tmp/err"; echo $?)" "of which it says how far they go"
run plan "$@" --probe off --spare-slots few
half=$(of_plan half) few=$(of_plan few)
is_of "$tmp/half" "$half"
is_of "$tmp/few" "$few"
is_of "$tmp/ahead" "$few"
want=$(exported "$tmp/half")
same "$want" "$(exported "$tmp/few")" "the same parameters"
same "$want" "$(exported "$tmp/ahead")" "and with updates ahead"
works "a resume knows its slots" pretrain --resume "$tmp/few" --steps 6 --schedule-steps 6
run pretrain --resume "$tmp/half" --steps 6 --schedule-steps 6
same "$(exported "$tmp/half")" "$(exported "$tmp/few")" "and goes on to the same parameters"
refuses 2 "spare-slots" pretrain --resume "$tmp/few" --steps 7 --schedule-steps 7 --spare-slots half
works "check finds nothing" check "$tmp/few"
works "a run is moved with its spare slots" reshard "$tmp/few" --devices 2
run pretrain --resume "$tmp/half" --steps 8 --schedule-steps 8
run pretrain --resume "$tmp/few" --steps 8 --schedule-steps 8
same "$(exported "$tmp/half")" "$(exported "$tmp/few")" "and goes on there"

# a disk with room for few alone: a tenth of what is free stays free with them, not with more
mkdir "$tmp/small"
if mount -t tmpfs -o size=9m sitrain-test "$tmp/small" 2>/dev/null; then
    trap 'umount "$tmp/small" 2>/dev/null; rm -rf "$tmp"' EXIT
    works "a disk with little room" pretrain --run "$tmp/run" "$@" --disk sync --device-in-ram --device "$tmp/small"
    grep -q "spare slots are few" "$tmp/err"
    result $? "says that there are few"
    awk -v got="$(stat -c %s "$tmp/small"/sitrain-*)" -v want="$few" 'BEGIN { exit !(got / 1048576 < want + 0.01) }'
    result $? "and has few"
    same "$want" "$(exported "$tmp/run")" "the same parameters"
    rm "$tmp/small"/sitrain-*
    works "what was asked for is made" pretrain --run "$tmp/other" "$@" --disk sync --device-in-ram --device "$tmp/small" --spare-slots half
    awk -v got="$(stat -c %s "$tmp/small"/sitrain-*)" -v want="$half" 'BEGIN { exit !(got / 1048576 > want - 0.01) }'
    result $? "with half as many"
    umount "$tmp/small"
else
    skip "a disk with little room" "no tmpfs may be mounted here"
fi

done_testing
