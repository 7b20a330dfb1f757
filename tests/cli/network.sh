#!/bin/sh
# Several processes of one job, started by mpirun on this machine: what they give each other arrives (tests/test_comm.c), bench network
# measures it, a rank that fails ends all, and commands that know one process refuse several. Prints TAP.
. tests/tap.sh
tests=$(dirname "${SITRAIN_OPENBLAS:-build/tests/siTrain-openblas}")
by_ranks
ranks() { # N ARGUMENTS...: as run
    n=$1
    shift
    # shellcheck disable=SC2086
    timeout 120 mpirun $more -n "$n" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}

for n in 2 3 4; do
    ranks $n "$tests/test_comm"
    result "$got" "$n ranks: what is sent arrives"
done

ranks 3 "$bin" bench network --rounds 2 --dir "$tmp" --json -
python3 - "$tmp/out" <<'END'
import json, sys
network = json.load(open(sys.argv[1]))["network"]  # printed once: by the first rank
rows = network["sizes"]
assert network["ranks"] == 3 and network["share_seconds"] > 0 and [r["bytes"] for r in rows] == [4096, 65536, 1 << 20, 1 << 24, 1 << 26]
for r in rows:
    for kind in "gather", "exchange":
        assert abs(r[kind] * r[kind + "_seconds"] * 3 / 2 / r["bytes"] - 1) < 1e-9
END
result $? "bench network: three ranks, printed once"
result "$(ls -A "$tmp" | grep -q siTrain-bench; test $? = 1; echo $?)" "  and nothing is left"
ranks 2 "$bin" bench network --rounds 1 --dir "$tmp"
result "$(grep -q '^Network: 2 ranks' "$tmp/out" && [ "$(grep -c KiB "$tmp/out")" = 1 ]; echo $?)" "  as a table"

ranks 2 "$bin" report "$tmp/none"
result "$(refused_by_ranks && grep -q '2 processes were started together.* start it without them' "$tmp/err"; echo $?)" "a command that is one process refuses two"
SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$bin" report "$tmp/none" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 2 ] && grep -q '2 processes were started together' "$tmp/err"; echo $?)" "also where mpirun was started in a shell of srun's"
OMPI_COMM_WORLD_SIZE=2 "$bin" pretrain --resume "$tmp/none" >"$tmp/out" 2>"$tmp/err"
result "$([ $? = 2 ] && grep -q 'built with sees one' "$tmp/err"; echo $?)" "ranks that another MPI has started are refused"
ranks 2 sh -c "ulimit -n 9; exec $bin bench network"
result "$(refused_by_ranks && grep -q 'ulimit -n lets a process open 9 files, and MPI, which connects ranks, needs 32: raise it' "$tmp/err"; echo $?)" "and so are files of which MPI would have too few"
ranks 2 "$bin" bench
result "$(refused_by_ranks && grep -q 'bench network alone is measured by several' "$tmp/err"; echo $?)" "so do other measurements"
refuses 2 "mpirun -n 2 siTrain bench network" bench network
ranks 2 sh -c "[ \$OMPI_COMM_WORLD_RANK = 0 ] || exec $bin bench network --rounds 1 --dir $tmp/none; exec $bin bench network --rounds 1 --dir $tmp"
result "$([ "$got" != 0 ] && [ "$got" != 124 ] && grep -q "$tmp/none" "$tmp/err"; echo $?)" "a rank that cannot begin says why, and all end"
done_testing
