#!/bin/sh
# Ctrl-C and progress, on a terminal of 80 columns: what lasts says how far it is, a first Ctrl-C is answered at once and then obeyed,
# nothing half-made is left, and what goes on goes on as if it had not been stopped. Prints TAP.
. tests/tap.sh
has_terminals || { skip "Ctrl-C on a terminal" "no python3, or no pseudo-terminals"; done_testing; }

make_text 3000 >"$tmp/text.txt"
works "a tokenizer" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "tokens to train on" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
# tokens FILE N: so many, which are many small batches
tokens() {
    python3 - "$1" "$2" <<'END'
import array, random, struct, sys
n = int(sys.argv[2])
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<256i", 20240520, 1, n, *[0] * 253))
    array.array("H", random.Random(1).choices(range(300), k=n)).tofile(f)
END
}

# interrupt NAME PATTERN LEFT ARGUMENTS...: Ctrl-C when PATTERN is on the terminal, and again when $again is; LEFT is not to be there
# afterwards (or "").
again=
interrupt() {
    name=$1 pattern=$2 left=$3
    shift 3
    python3 tests/cli/on_tty.py 80 --key "$pattern" ${again:+--key "$again"} "$bin" "$@" >"$tmp/out"
    got=$?
    : >"$tmp/err"
    result "$([ "$got" = 130 ] && grep -q 'stopping .*; Ctrl-C again ends it at once' "$tmp/out"; echo $?)" "$name: Ctrl-C is answered, 130"
    [ -z "$left" ] || result "$([ -z "$(ls -d $left* 2>/dev/null)" ]; echo $?)" "$name: nothing half-made is left"
}
shown() { result "$(grep -qE "$1  [0-9]+%  left [0-9]+:[0-9]+" "$tmp/out"; echo $?)" "$2"; }

# ---- preparing ----
# So many words, and so many different ones, that no machine is done with them before it says how far it is.
python3 - "$tmp/words.txt" <<'END'
import random, sys
text = random.Random(3).randbytes(12000000).translate(b"abcdefghijklmnop" * 14 + b" " * 30 + b"\n" * 2)
with open(sys.argv[1], "wb") as f:
    for _ in range(24):
        f.write(text)
END
interrupt "training a tokenizer" '(reading .*|training a tokenizer)  [0-9]' "$tmp/tok2" prepare "$tmp/words.txt" --train-tokenizer --vocab 40000 --out "$tmp/tok2"
interrupt "tokenising" 'tokenising .*  left' "$tmp/words.bin" prepare "$tmp/words.txt" --tokenizer "$tmp/tok" --out "$tmp/words.bin"
shown "tokenising $tmp/words.txt" "how far it is and how long it takes is shown"

# ---- a run is made, trained, exported: over a link that is slow enough to see it ----
big="--n-layer 4 --n-head 4 --n-embd 256 --vocab 300 --seq 24 --batch 1 --seed 5 --csd-mem 1M --durability none"
works "a model" pretrain --run "$tmp/big" --data "$tmp/text.bin" $big --mode su --steps 2
big_params=$(exported "$tmp/big")
mv "$tmp/exported" "$tmp/hf"
interrupt "set-up" 'making the states of .*%' "$tmp/new" pretrain --run "$tmp/new" --data "$tmp/text.bin" $big --mode su --link-bw 3M --steps 1
shown "making the states of $tmp/new" "how far it is is shown"
interrupt "import" 'making the states of .*%' "$tmp/imported" import "$tmp/hf" "$tmp/imported" --mode su --link-bw 3M --csd-mem 1M
works "a slow link" pretrain --resume "$tmp/big" --link-bw 3M
interrupt "export" 'writing .*%' "$tmp/out-of-it" export "$tmp/big" "$tmp/out-of-it"
shown "writing $tmp/out-of-it" "how far it is is shown"
works "a link that is not" pretrain --resume "$tmp/big" --link-bw 0
same "$big_params" "$(exported "$tmp/big")" "the run's parameters are what they were"

# ---- steps ----
works "a run of one step" pretrain --run "$tmp/long" --data "$tmp/text.bin" $big --mode su --steps 1 --schedule-steps 2
again='Ctrl-C again'
interrupt "a very long first step, twice" "layers kept" "" pretrain --resume "$tmp/long" --steps 2 --link-bw 100K
again=
result "$(grep -q 'stopping when step 2 is done and committed; Ctrl-C again ends it at once, and --resume computes this step again' "$tmp/out"; echo $?)" "it says what it waits for, and what a second one does"
works "it goes on" pretrain --resume "$tmp/long" --link-bw 0
same "$big_params" "$(exported "$tmp/long")" "to the same parameters"

# ---- what is shown of a step, the most wanted first ----
bar() { # COLUMNS PATTERN NAME: no line is longer, and the last state of the bar is like this
    python3 tests/cli/on_tty.py "$1" "$bin" pretrain --run "$tmp/bar$1" --data "$tmp/text.bin" $big --mode su --steps 3 >"$tmp/out"
    python3 - "$tmp/out" "$1" "$2" <<'END'
import re, sys
shown = [l for l in re.split(r"[\r\n]+|\x1b\[K", open(sys.argv[1], newline="").read()) if re.search(r"\d/3  loss", l)]
sys.exit(len(shown) != 3 or any(len(l) >= int(sys.argv[2]) for l in shown) or not re.fullmatch(sys.argv[3], shown[-1]))
END
    result $? "$3"
}
bar 80 '\[#+\] 3/3  loss \d+\.\d+  left 0:00  \d+ tok/s  lr \S+( .*)?' "80 columns: loss, time left and tokens/s come first, and a bar is there"
bar 40 '(\[#+\] )?3/3  loss \d+\.\d+  left 0:00(  \d+ tok/s)?' "40 columns: what does not fit is left out whole"
bar 200 '\[#{24}\] 3/3  loss .*  left 0:00  \d+ tok/s  lr .*  norm .*  I/O hidden \d+%  RSS \S+' "200 columns: everything"
small="--n-layer 2 --n-head 2 --n-embd 32 --vocab 300 --seq 24 --batch 1 --lr 1e-3 --seed 5 --threads 1 --csd-mem 192K --durability none"
python3 tests/cli/on_tty.py 80 "$bin" pretrain --run "$tmp/every" --data "$tmp/text.bin" $small --mode mem --steps 5 --log-every 2 >"$tmp/out"
same "2/5 4/5 5/5 " "$(tr '\r' '\n' <"$tmp/out" | awk 'on && !/./ { printf "%s ", on } { on = match($0, /[0-9]\/5 /) ? substr($0, RSTART, 3) : "" }')" "--log-every: lines that stay"

# ---- evaluations ----
tokens "$tmp/held.bin" 60000
evals() { # of a run, with what is the best
    python3 - "$1/run.db" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT step, name, value FROM evals ORDER BY step, name").fetchall(),
      db.execute("SELECT key, value FROM runs WHERE key IN ('best.step', 'best.value') ORDER BY key").fetchall())
END
}
works "a run that is not stopped" pretrain --run "$tmp/whole" --data "$tmp/text.bin" --eval-data "$tmp/held.bin" $small --mode mem --steps 4 --eval-every 2 --keep-best
whole=$(evals "$tmp/whole") whole_params=$(exported "$tmp/whole") whole_best=$(sha256sum <"$tmp/whole/best/model.safetensors")
for mode in mem su+o; do
    interrupt "$mode: an evaluation in training" '2/4  loss' "" pretrain --run "$tmp/eval-$mode" --data "$tmp/text.bin" --eval-data "$tmp/held.bin" $small --mode $mode --steps 4 --eval-every 2 --keep-best
    result "$(grep -q 'stopped after step 2 of 4, within its evaluation' "$tmp/out"; echo $?)" "$mode: its step is whole"
    interrupt "$mode: the last one" '4/4  loss' "" pretrain --resume "$tmp/eval-$mode"
    works "$mode: it goes on" pretrain --resume "$tmp/eval-$mode"
    same "$whole" "$(evals "$tmp/eval-$mode")" "$mode: to the same evaluations"
    same "$whole_best" "$(sha256sum <"$tmp/eval-$mode/best/model.safetensors")" "$mode: the same best model"
    same "$whole_params" "$(exported "$tmp/eval-$mode")" "$mode: and the same parameters"
done
done_testing
