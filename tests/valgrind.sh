#!/bin/sh
# Small runs and every command under valgrind: no invalid or undefined reads, no leaks, no descriptor left open. What libraries do is
# suppressed in tests/valgrind.supp, each with its reason. `make valgrind`. Prints TAP.
. tests/tap.sh
command -v valgrind >/dev/null || { skip valgrind "not installed"; done_testing; }
export OMP_NUM_THREADS=1

# clean NAME ARGUMENTS...: the program under valgrind: exit 0, nothing said by valgrind
clean() {
    tap_name=$1
    shift
    valgrind --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect,possible --errors-for-leak-kinds=definite,indirect,possible \
        --track-fds=yes --suppressions=tests/valgrind.supp --log-file="$tmp/said" "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    [ $got = 0 ] && opened=$(awk '/Open file descriptor/ { fd = $0; next } fd && !/inherited/ { print fd; print } { fd = "" }' "$tmp/said") && [ ! "$opened" ]
    ok=$?
    result $ok "$tap_name"
    [ $ok = 0 ] || { echo "$opened"; head -n 80 "$tmp/said"; } | sed 's/^/# /'
}

make_text 1500 >"$tmp/text.txt"
clean "prepare, a tokenizer" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
clean "prepare" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
set -- --data "$tmp/text.bin" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 2 --csd-mem 192K --threads 1
clean "mem" pretrain --run "$tmp/mem" "$@" --mode mem --steps 3
clean "su+o" pretrain --run "$tmp/suo" "$@" --mode su+o --devices 2 --steps 3 --dropout 0.1
clean "su+o, resumed" pretrain --resume "$tmp/suo" --steps 5
clean "base, the sync disk" pretrain --run "$tmp/base" "$@" --mode base --disk sync --steps 3 --eval-data "$tmp/text.bin" --keep-best
clean "su+o, error feedback" pretrain --run "$tmp/ef" "$@" --mode su+o --compress 10% --error-feedback --steps 3
clean "export" export "$tmp/suo" "$tmp/hf"
clean "import" import "$tmp/hf" "$tmp/imported" --csd-mem 192K
clean "eval" eval "$tmp/suo" --data "$tmp/text.bin" --threads 1
clean "generate" generate "$tmp/hf" --prompt "the sea" --tokens 5 --threads 1
clean "check" check "$tmp/suo"
clean "reshard" reshard "$tmp/suo" --devices 3
clean "report" report "$tmp/suo"
clean "plan" plan --probe off --model gpt2 --mode su+o

done_testing
