#!/bin/sh
# A run of which a part is from another time: one device, all but one, run.db alone, images; a copy that was taken while it trained; files
# whose times are of another year. It goes on to the bits of a run that nothing happened to, or it is refused with a sentence and stays
# as it is; it never misreads. Prints TAP.
. tests/tap.sh

make_text 3000 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
shape="--data $tmp/text.txt --tokenizer $tmp/tok --n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 3 --lr 1e-3 --csd-mem 192K --durability none
       --threads 1 --schedule-steps 60"

put() { # FROM NAME: of the run in $tmp/run, as it is in FROM; run.db with its log, where it has one
    rm -rf "$tmp/run/$2" "$tmp/run/$2-wal" "$tmp/run/$2-shm"
    for put_part in "$2" "$2-wal" "$2-shm"; do
        [ ! -e "$1/$put_part" ] || cp -a "$1/$put_part" "$tmp/run/$put_part"
    done
}

stored_sums() { # all that a run stores on its devices or in its images
    (cd "$tmp/run" && find . -type f ! -name 'run.*' -exec sha256sum {} + | sort -k 2 | sha256sum)
}

# back WHAT NAME...: those parts of an earlier time are refused wherever they are read, with nothing changed; put back, all is well
back() {
    back_what=$1
    shift
    for name in "$@"; do
        put "$tmp/before" "$name"
    done
    back_sums=$(stored_sums)
    run pretrain --resume "$tmp/run" --steps 12 --quiet
    back_ok=1
    [ "$got" = 1 ] && [ -s "$tmp/err" ] && [ ! -s "$tmp/out" ] && back_ok=0
    result $back_ok "$back_what of an earlier time: refused"
    run export "$tmp/run" "$tmp/never"
    result "$([ "$got" = 1 ] && [ ! -e "$tmp/never" ]; echo $?)" "$back_what: not exported"
    run check "$tmp/run" --quiet
    result "$([ "$got" = 1 ] && [ -s "$tmp/err" ]; echo $?)" "$back_what: found by check"
    same "$back_sums" "$(stored_sums)" "$back_what: nothing was written to states"
    for name in "$@"; do
        put "$tmp/now" "$name"
    done
}

for mode in "su+o --devices 3" "base --devices 3 --compress 10% --error-feedback" "mem --commit-every 2"; do
    rm -rf "$tmp/run" "$tmp/before" "$tmp/now"
    run pretrain --run "$tmp/run" $shape --steps 4 --quiet --mode $mode
    cp -a "$tmp/run" "$tmp/before"
    run pretrain --resume "$tmp/run" --steps 9 --quiet
    cp -a "$tmp/run" "$tmp/now"
    run pretrain --resume "$tmp/run" --steps 12 --quiet
    want=$(exported "$tmp/run")
    rm -rf "$tmp/run"
    cp -a "$tmp/now" "$tmp/run"
    back "$mode: run.db" run.db
    case $mode in
    mem*)
        back "$mode: the images" image0 image1
        ;;
    *)
        back "$mode: one device" dev1
        back "$mode: all devices but one" dev0 dev2
        back "$mode: all devices" dev0 dev1 dev2
        ;;
    esac
    run pretrain --resume "$tmp/run" --steps 12 --quiet
    same "$want" "$(exported "$tmp/run")" "$mode: put back, it goes on as if nothing had been"
    rm -rf "$tmp/run"
    cp -a "$tmp/before" "$tmp/run"
    run pretrain --resume "$tmp/run" --steps 12 --quiet
    same "$want" "$(exported "$tmp/run")" "$mode: all of it of an earlier time is the run of that time"
done

# run.db of the step before: the slots that it names may still hold what it says
refused=0 right=0 wrong=0
run pretrain --run "$tmp/near" $shape --steps 1 --quiet --mode su+o --devices 2
for step in 2 3 4 5 6; do
    cp "$tmp/near/run.db" "$tmp/near.db"
    run pretrain --resume "$tmp/near" --steps $step --quiet
    rm -rf "$tmp/try"
    cp -a "$tmp/near" "$tmp/try"
    cp "$tmp/near.db" "$tmp/try/run.db"
    run pretrain --resume "$tmp/try" --steps $step --quiet
    if [ "$got" = 1 ]; then
        refused=$((refused + 1))
    elif [ "$got" = 0 ] && [ "$(exported "$tmp/try")" = "$(exported "$tmp/near")" ]; then
        right=$((right + 1))
    else
        wrong=$((wrong + 1))
    fi
done
result $wrong "run.db of the step before: never misread ($refused refused, $right to the same bits)"

# seen STEP: the run in the background is past it
seen() {
    until grep -q "^step $1/" "$tmp/log"; do
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.01
    done
}

# copies HOW MODE...: of a run that trains, as it moves or held still; each is trained to the end
copies() {
    how=$1
    shift
    rm -rf "$tmp/run" "$tmp"/copy*
    : >"$tmp/log" # before the process is there to do it
    "$bin" pretrain --run "$tmp/run" $shape --steps 60 --mode "$@" >>"$tmp/log" 2>"$tmp/err" </dev/null &
    pid=$!
    for at in 3 9 17 28; do
        seen $at || break
        [ "$how" = moving ] || kill -STOP $pid
        cp -a "$tmp/run" "$tmp/copy$at" 2>/dev/null # what goes away meanwhile is not copied
        [ "$how" = moving ] || kill -CONT $pid
    done
    wait $pid
    want=$(exported "$tmp/run")
    refused=0 right=0 wrong=0
    for copy in "$tmp"/copy*; do
        run pretrain --resume "$copy" --quiet
        if [ "$got" = 1 ] && [ -s "$tmp/err" ]; then
            refused=$((refused + 1))
        elif [ "$got" = 0 ] && [ "$(exported "$copy")" = "$want" ]; then
            right=$((right + 1))
        else
            wrong=$((wrong + 1))
        fi
    done
    [ "$how" = moving ] || wrong=$((wrong + refused)) # it is what a kill leaves
    result "$([ $wrong = 0 ] && [ $((right + refused)) -ge 3 ]; echo $?)" "copies of a run that trains, $how, $*: $right to the same bits, $refused refused, $wrong neither"
}

for mode in "su+o --devices 2" "base --speculate" "mem --commit-every 3"; do
    copies moving $mode
    copies "held still" $mode
done

# the clock: nothing depends on when a file was written
for time in 1990-01-01 2100-01-01; do
    : >"$tmp/log"
    "$bin" pretrain --run "$tmp/y$time" $shape --steps 60 --mode su+o >>"$tmp/log" 2>"$tmp/err" </dev/null &
    pid=$!
    seen 20
    kill -9 $pid
    wait $pid 2>/dev/null
    find "$tmp/y$time" -exec touch -d "$time" {} +
    works "killed, and all its files of $time: it goes on" pretrain --resume "$tmp/y$time" --quiet
    find "$tmp/y$time" -exec touch -d "$time" {} +
    works "and is whole" check "$tmp/y$time"
    run pretrain --run "$tmp/straight" $shape --steps 60 --mode su+o --quiet
    same "$(exported "$tmp/straight")" "$(exported "$tmp/y$time")" "to the same bits"
    rm -rf "$tmp/straight"
done
done_testing
