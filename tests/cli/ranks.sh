#!/bin/sh
# One run, trained by several processes on this machine (mpirun): the bits of one process, whatever the number of ranks, devices and the
# mode, compressed or not; what goes over the network, to the byte; a rank that is killed at any time, and one that cannot go on. Prints TAP.
. tests/tap.sh
by_ranks
few_words 20000
head -c 8000 "$tmp/text" >"$tmp/held" # an evaluation of all of it would be a third of the time
model="--n-layer 3 --n-head 4 --n-embd 64 --seq 32 --batch 2 --grad-accum 12 --groups 12 --threads 1 --csd-mem 1M --seed 3"
data="--data $tmp/text --eval-data $tmp/held --eval-every 3 --tokenizer $tmp/tok"
steps="SELECT step, printf('%.17g %.17g', loss, grad_norm) FROM steps"
trained() { # RUN: its steps and evaluations, to the bit
    sqlite3 "$1/run.db" "$steps; SELECT step, name, printf('%.17g', value) FROM evals"
}
train() { # RANKS ARGUMENTS...: out, err, got
    n=$1
    shift
    # shellcheck disable=SC2086
    if [ "$n" = 1 ]; then
        timeout 120 "$bin" pretrain "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    else
        timeout 120 mpirun $more -n "$n" "$bin" pretrain "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    fi
    got=$?
}

# mpirun of one process may bind it to a core: that is said, with what to type; the line at the start names the threads
alone="pretrain --n-layer 1 --n-head 2 --n-embd 32 --seq 16 --batch 2 --steps 1 --csd-mem 1M --durability none --data $tmp/text --tokenizer $tmp/tok"
if [ "$(nproc)" -gt 1 ] && command -v taskset >/dev/null; then
    core=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
    # shellcheck disable=SC2086
    OMPI_COMM_WORLD_SIZE=1 taskset -c "$core" "$bin" $alone --run "$tmp/bound" >"$tmp/out" 2>"$tmp/err"
    result "$(grep -q "^siTrain: mpirun or srun lets this process use 1 of [0-9]* CPUs, and it computes with 1 thread; with mpirun --bind-to none" "$tmp/err" && grep -q ", 1 thread (the last bits depend on them); memory" "$tmp/err"; echo $?)" "a process that mpirun binds says so"
    # shellcheck disable=SC2086
    OMPI_COMM_WORLD_SIZE=1 "$bin" $alone --run "$tmp/free" >"$tmp/out" 2>"$tmp/err"
    result "$(! grep -q 'lets this process use' "$tmp/err" && grep -q ", $(nproc) threads (the last bits depend on them); memory" "$tmp/err"; echo $?)" "one that it does not bind does not"
    # shellcheck disable=SC2086
    taskset -c "$core" "$bin" $alone --run "$tmp/set" >"$tmp/out" 2>"$tmp/err"
    result "$(! grep -q 'lets this process use' "$tmp/err" && grep -q ", 1 thread (the" "$tmp/err"; echo $?)" "nor one that was bound by its user"
else
    skip "a process that mpirun binds" "one core, or no taskset"
fi

# mpirun gives a process a terminal where its own output is a file: nothing is drawn there
# shellcheck disable=SC2086
timeout 120 mpirun $more -n 1 "$bin" $alone --run "$tmp/lines" --log-every 1 >"$tmp/out" 2>"$tmp/err" </dev/null
result "$(grep -q '^step 1/1  loss' "$tmp/out" && ! cat "$tmp/out" "$tmp/err" | LC_ALL=C grep -q "$(printf '\033')"; echo $?)" "a redirected log of a job has lines, not a bar"

# shellcheck disable=SC2086
train 1 $model $data --devices 2 --steps 6 --run "$tmp/one"
result "$got" "one process, twelve groups"
trained "$tmp/one" >"$tmp/bits"
while read -r n devices mode rest; do
    # shellcheck disable=SC2086
    train "$n" $model $data --devices "$devices" --mode "$mode" $rest --steps 6 --run "$tmp/run"
    same=$got
    for r in "$tmp"/run "$tmp"/run.rank*; do
        trained "$r" | cmp -s - "$tmp/bits" || same=1
    done
    result "$same" "$n ranks, $devices devices each, $mode $rest: the same bits on every rank"
    rm -rf "$tmp"/run "$tmp"/run.rank*
done <<END
2 1 su+o
2 3 su --activations offload
3 2 base --speculate
4 1 su+o --host-mem $least
END


# mem and one process say the same; with --compress pairs of each group are chosen, exchanged and added.
bits="$tmp/bits"
while read -r n devices mode rest; do
    # shellcheck disable=SC2086
    train "$n" $model $data --devices "$devices" --mode "$mode" $rest --steps 6 --run "$tmp/run"
    same=$got
    [ "$bits" ] || { bits="$tmp/pairs" && trained "$tmp/run" >"$bits"; }
    for r in "$tmp"/run "$tmp"/run.rank*; do
        [ ! -d "$r" ] || trained "$r" | cmp -s - "$bits" || same=1
    done
    result "$same" "$n ranks, $devices devices each, $mode $rest: the same bits"
    [ "$mode" != mem ] || [ "$rest" ] || bits=
    [ "$n" != 3 ] || "$bin" report "$tmp/run" --json >"$tmp/report"
    rm -rf "$tmp"/run "$tmp"/run.rank*
done <<'END'
1 1 mem
1 1 mem --compress 5%
1 2 su+o --compress 5%
2 3 su --compress 5%
3 2 base --speculate --compress 5%
4 1 su+o --compress 5%
END
result "$(cmp -s "$tmp/bits" "$tmp/pairs" && echo 1 || echo 0)" "what is compressed is not what is not"
python3 - "$tmp/report" <<'END'
import json, sys
rows = {r["direction"]: r for r in json.load(open(sys.argv[1]))["traffic"] if r["link"] == "network" and r["class"] == "gradient"}
dense = {"read": 393216, "write": 481024} # of 3 ranks' first one, four groups each
for way, row in rows.items():
    assert "computed" not in row and 0 < row["most"] < dense[way] / 3, row
assert len(rows) == 2
END
result $? "pairs are fewer on the network, and not computed to the byte"
refuses 2 "error-feedback does not work with several groups" pretrain $model $data --compress 5% --error-feedback --steps 2 --run "$tmp/none"
line="$bin pretrain $model $data --steps 6 --run $tmp/mixed"
# shellcheck disable=SC2086
timeout 120 mpirun $more -n 1 $line --devices 1 : -n 1 $line --devices 2 : -n 1 $line --devices 3 >"$tmp/out" 2>"$tmp/err"
result "$(trained "$tmp/mixed" | cmp -s - "$tmp/bits"; echo $?)" "ranks with 1, 2 and 3 devices"
"$bin" report "$tmp/mixed" --json >"$tmp/report"
python3 - "$tmp/report" <<'END'
import json, sys
rows = [r for r in json.load(open(sys.argv[1]))["traffic"] if r["link"] == "network"]
assert len(rows) == 4 and all(r["least"] == r["most"] == r["computed"] > 0 for r in rows), rows
END
result $? "what goes over the network is what was computed, to the byte"
"$bin" report "$tmp/mixed.rank2" >"$tmp/out"
result "$(grep -q ' on 3 devices, rank 2 of 3' "$tmp/out" && sed -n '/^Written/,/^$/p' "$tmp/out" | grep -c '/dev[0-9]' | grep -qx 3; echo $?)" "the report of a rank says which it is, and what its drives write"

refuses 2 "rank 1 of a run of 3 ranks" generate "$tmp/mixed.rank1" --prompt alpha
refuses 2 "has 3 ranks, but this job has 1" pretrain --resume "$tmp/mixed"
train 2 --resume "$tmp/mixed"
result "$(refused_by_ranks && grep -q 'has 3 ranks, but this job has 2' "$tmp/err"; echo $?)" "another number of ranks is refused"
# shellcheck disable=SC2086
train 5 $model $data --steps 2 --run "$tmp/none"
result "$(refused_by_ranks && grep -q 'multiple of 5, such as 15' "$tmp/err" && [ ! -e "$tmp/none" ]; echo $?)" "groups that cannot be divided are refused"

# Smoothed labels and noisy embeddings; an end that all ranks agree on: early, and by the time of any of them.
habits="--label-smoothing 0.1 --neftune-alpha 5 --steps 3"
# shellcheck disable=SC2086
train 1 $model $data $habits --run "$tmp/alone" && trained "$tmp/alone" >"$tmp/noisy"
# shellcheck disable=SC2086
train 3 $model $data $habits --run "$tmp/three"
same=$got
for r in "$tmp"/three "$tmp"/three.rank1 "$tmp"/three.rank2; do
    trained "$r" | cmp -s - "$tmp/noisy" || same=1
done
result "$same" "label smoothing and noise have one process's bits on every rank"
state() { sqlite3 "$1/run.db" "SELECT count(*), (SELECT value FROM runs WHERE key = 'finished') FROM steps"; }
# shellcheck disable=SC2086
train 2 $model $data --schedule constant --lr 0 --steps 60 --early-stopping 2 --run "$tmp/stops"
result "$([ "$got" = 0 ] && grep -q "ended early, after step 9 of 60: 2 evaluations without a better loss" "$tmp/out"; echo $?)" "ranks end early"
same "9|early 9|early" "$(state "$tmp/stops") $(state "$tmp/stops.rank1")" "together"
train 2 --resume "$tmp/stops"
same "0 9|early 9|early" "$got $(state "$tmp/stops") $(state "$tmp/stops.rank1")" "and go no further"
trained "$tmp/stops" >"$tmp/evaluated"
sqlite3 "$tmp/stops.rank1/run.db" "DELETE FROM evals WHERE step = 8; DELETE FROM runs WHERE key = 'finished'" # as a kill leaves it
train 2 --resume "$tmp/stops"
result "$([ "$got" = 0 ] && [ "$(state "$tmp/stops.rank1")" = "9|early" ] && trained "$tmp/stops.rank1" | cmp -s - "$tmp/evaluated"; echo $?)" "an evaluation that one of them lacks is made again"
line="$bin pretrain $model $data --steps 500 --link-bw 4M --run $tmp/timed"
# shellcheck disable=SC2086
timeout 120 mpirun $more -n 1 $line : -n 1 $line --time-limit 3s >"$tmp/out" 2>"$tmp/err"
got=$?
result "$([ "$got" = 0 ] && [ "$(state "$tmp/timed")" = "$(state "$tmp/timed.rank1")" ] && [ "$(state "$tmp/timed" | cut -d'|' -f1)" -lt 500 ]; echo $?)" "ranks end together, by the time of one"

# A rank is killed at any time; all end within seconds, and a resume goes on to the same bits.
SITRAIN=$bin MPIRUN_OPTIONS=$more python3 tests/prove/rank_kills.py --short --seed 5 >"$tmp/out" 2>"$tmp/err"
result $? "$(grep '^# dense' "$tmp/out"), and the same bits in the end"
done_testing
