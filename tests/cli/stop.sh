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
    result "$([ "$got" = 130 ] && grep -q 'stopping .*; Ctrl-C again after a second ends it at once' "$tmp/out"; echo $?)" "$name: Ctrl-C is answered, 130"
    [ -z "$left" ] || result "$([ -z "$(ls -d $left* 2>/dev/null)" ]; echo $?)" "$name: nothing half-made is left"
}
shown() { result "$(grep -qE "$1  [0-9]+%  left (<1|[0-9]+[dhm]?[0-9]*)[hms]" "$tmp/out"; echo $?)" "$2"; }

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
interrupt "tokenising" 'tokenising .*  left' "" prepare "$tmp/words.txt" --tokenizer "$tmp/tok" --out "$tmp/words.bin"
result "$([ ! -e "$tmp/words.bin" ] && grep -q 'the same command goes on behind the [1-9][0-9]* tokens in .*/words.bin.[0-9a-f]*.tmp' "$tmp/out"; echo $?)" \
    "tokenising: what is done stays for the same command"
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
result "$(grep -q 'stopping when step 2 is done and committed; Ctrl-C again after a second ends it at once, and --resume computes this step again' "$tmp/out"; echo $?)" "it says what it waits for, and what a second one does"
works "it goes on" pretrain --resume "$tmp/long" --link-bw 0
same "$big_params" "$(exported "$tmp/long")" "to the same parameters"

# ---- one wish that arrives as several signals ----
# A step over this link takes a good part of a second; in mem an image is made at the stop alone. The reader of what is printed may be gone.
cat >"$tmp/signals.py" <<'END'
import random, re, signal, sqlite3, subprocess, sys, time
bin, run, first, second, delay, pipe, rounds, *more = sys.argv[1:]
draw, code, delay = random.Random(1), 0, float(delay)
for k in range(int(rounds)):
    p = subprocess.Popen([bin, "pretrain", "--resume", run, "--steps", "100000", *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=open(run + ".err", "w"), text=True)
    while not p.stdout.readline().startswith("step"):
        if p.poll() is not None:
            sys.exit(open(run + ".err").read())
    if pipe == "gone":
        p.stdout.close()
    p.send_signal(getattr(signal, first))
    time.sleep(delay * draw.random() if delay < 1 else delay)
    p.send_signal(getattr(signal, second))
    if pipe != "gone":
        p.stdout.read()
    p.wait()
    said = re.search(r"stopped after step (\d+) of", open(run + ".err").read())
    stood = sqlite3.connect(run + "/run.db").execute("SELECT max(step) + 1 FROM steps").fetchone()[0]
    print(first, second, p.returncode, said and said[0], stood)
    if p.returncode != 130 or (delay < 1) != bool(said) or (said and int(said[1]) != stood):
        code = 1
sys.exit(code)
END
signals() { # NAME RUN FIRST SECOND DELAY PIPE ROUNDS ARGUMENTS...
    name=$1
    shift
    python3 "$tmp/signals.py" "$bin" "$@" >"$tmp/out" 2>"$tmp/err"
    result $? "$name"
}
works "a run in memory" pretrain --run "$tmp/twice" --data "$tmp/text.bin" $big --mode mem --steps 1 --commit-every 100000 --schedule constant
works "and one that is not" pretrain --run "$tmp/twice-su" --data "$tmp/text.bin" $big --mode su --steps 1 --schedule constant
signals "TERM twice within 50 ms is one: each time a commit (mem)" "$tmp/twice" SIGTERM SIGTERM 0.05 there 8
signals "TERM twice within 50 ms is one: each time a commit (su)" "$tmp/twice-su" SIGTERM SIGTERM 0.05 there 8 --link-bw 40M
signals "so are INT and TERM" "$tmp/twice-su" SIGINT SIGTERM 0.05 there 3 --link-bw 40M
signals "and USR1 and TERM, as Slurm sends them" "$tmp/twice-su" SIGUSR1 SIGTERM 0.05 there 3 --link-bw 40M
# what it says to go on with is a line to be pasted, also where a path needs quotes
mkdir "$tmp/it's a place" "$tmp/path" && ln -s "$bin" "$tmp/path/siTrain"
works "a run whose path needs quotes" pretrain --run "$tmp/it's a place/long run" --data "$tmp/text.bin" $big --mode mem --steps 1 --schedule constant
signals "and its stop" "$tmp/it's a place/long run" SIGINT SIGINT 0.01 there 1
line=$(sed -n 's/.*; go on with: //p' "$tmp/it's a place/long run.err")
(PATH=$tmp/path:$PATH && eval "$line --steps 1") >"$tmp/out" 2>"$tmp/err"
result "$(grep -q "long run is finished: its [0-9]* steps are done; " "$tmp/out"; echo $?)" "the line that it says goes on with it: $line"
signals "and HUP twice, where the reader of what is printed is gone" "$tmp/twice" SIGHUP SIGHUP 0.05 gone 4
signals "a second one after more than a second ends it at once" "$tmp/twice-su" SIGTERM SIGTERM 1.1 there 1 --link-bw 2M
if command -v timeout >/dev/null; then
    : >"$tmp/out"
    timeout 600 "$bin" pretrain --resume "$tmp/twice" --steps 100000 >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    while kill -0 $pid 2>/dev/null && ! grep -q '^step' "$tmp/out"; do sleep 0.05; done
    kill -TERM $pid # as when its time is over
    wait $pid
    result "$(grep -q 'stopped after step [0-9]* of 100000' "$tmp/err"; echo $?)" "timeout, which signals its child and then its group, ends it with a commit"
fi

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
bar 80 '\[#+\] 3/3  loss \d+\.\d{4}  left 0s  \d+ tok/s  lr \S+( .*)?' "80 columns: loss, time left and tokens/s come first, and a bar is there"
bar 40 '(\[#+\] )?3/3  loss \d+\.\d{4}  left 0s(  \d+ tok/s)?' "40 columns: what does not fit is left out whole"
bar 200 '\[#{24}\] 3/3  loss .*  left 0s  \d+ tok/s  lr .*  norm .*  I/O hidden \d+%  RSS \S+' "200 columns: everything"
small="--n-layer 2 --n-head 2 --n-embd 32 --vocab 300 --seq 24 --batch 1 --lr 1e-3 --seed 5 --threads 1 --csd-mem 192K --durability none"
python3 tests/cli/on_tty.py 80 "$bin" pretrain --run "$tmp/every" --data "$tmp/text.bin" $small --mode mem --steps 5 --log-every 2 >"$tmp/out"
same "2/5 4/5 5/5 " "$(tr '\r' '\n' <"$tmp/out" | awk 'on && !/./ { printf "%s ", on } { on = match($0, /[0-9]\/5 /) ? substr($0, RSTART, 3) : "" }')" "--log-every: lines that stay"

# ---- evaluations ----
tokens "$tmp/held.bin" 150000
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
