#!/bin/sh
# --csd opencl on whatever OpenCL sees here: the same bits as emulated devices, in every mode and by every optimizer, and from one kind to the
# other and back. Prints TAP.
. "$(dirname "$0")/../tap.sh"
run devices --dir "$tmp"
said=$(sed -n 's/^  opencl  *//p' "$tmp/out")
result "$([ -n "$said" ]; echo $?)" "devices says whether --csd opencl can be had"
case $said in
"not available: "*)
    skip "updates through OpenCL" "${said#not available: }"
    done_testing
    ;;
esac

make_text 400 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
set -- --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 64 --seq 32 --batch 2 --seed 5 --devices 2 \
    --threads 1 --lr 1e-3 --schedule-steps 6 --durability none --csd-mem 512K

# both NAME ARGUMENTS...: on emulated devices and through OpenCL
both() {
    name=$1
    shift
    run pretrain --run "$tmp/emu-$name" "$@" --steps 6
    works "$name trains through OpenCL" pretrain --run "$tmp/opencl-$name" "$@" --steps 6 --csd opencl
    same "$(exported "$tmp/emu-$name")" "$(exported "$tmp/opencl-$name")" "  to the parameters of emulated devices"
}
both "su+o" "$@" --mode su+o
both "su" "$@" --mode su --optimizer adam --weight-decay 0.1
both "base" "$@" --mode base
both "su+o sgd fp32" "$@" --mode su+o --optimizer sgd --dtype fp32
both "su+o adagrad" "$@" --mode su+o --optimizer adagrad --weight-decay 0.1
both "su+o+c" "$@" --mode su+o+c --compress 5% --error-feedback

planned() { # KIND: what its devices take of the host's memory
    run plan --probe off "$@" --n-layer 2 --n-head 2 --n-embd 64 --vocab 300 --seq 32 --batch 2 --devices 2 --csd-mem 512K --mode su+o
    grep "^arenas" "$tmp/out"
}
same "$(planned --csd emu)" "$(planned --csd opencl)" "their memory is the host's, and plan counts it"

run pretrain --run "$tmp/moved" "$@" --mode su+o --steps 2
works "a run made on emulated devices goes on through OpenCL" pretrain --resume "$tmp/moved" --csd opencl --steps 4
works "  and back" pretrain --resume "$tmp/moved" --csd emu --steps 6
same "$(exported "$tmp/emu-su+o")" "$(exported "$tmp/moved")" "  to the same parameters"

never() { # TEXT ARGUMENTS...
    text=$1
    shift
    refuses 1 "$text" pretrain --run "$tmp/never" "$@" --mode su+o --steps 6 --csd opencl
    [ ! -e "$tmp/never" ]
    result $? "  and nothing is left"
}
# Nothing answers within 10 us: which is found silent first, the accelerator or the drive, is not
# certain; both sentences name the option and what becomes of it.
never "(--io-timeout): " "$@" --io-timeout 0.00001
grep -Eq '\(--io-timeout\): (it is|they are) given up' "$tmp/err"
result $? "  and the sentence says so"
mkdir "$tmp/none"
export OCL_ICD_VENDORS="$tmp/none"
never "OpenCL sees no accelerator here" "$@"
done_testing
