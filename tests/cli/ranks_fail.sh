#!/bin/sh
# Several processes train one run, and something fails: a rank that falls silent, a full disk on one, mpirun killed, all or one asked to stop.
# The others end within seconds with a sentence that names it, and a resume goes on to the same bits. Prints TAP.
. tests/tap.sh
by_ranks
if [ -z "$more" ]; then
    skip "several processes that fail" "what mpirun does then is said for Open MPI's alone"
    done_testing
fi
export bin tmp more
cat >"$tmp/fail.py" <<'END'
"""A job of three ranks whose steps take a while, what is done to it, and how it ends."""
import os, re, signal, subprocess, sys, time

bin, tmp, more = os.environ["bin"], os.environ["tmp"], os.environ["more"].split()
what = sys.argv[1]


def start(*line):
    """Of a new run, or one that goes on. full: rank 1 can write no further than 64 KB into a file."""
    line = ["--resume", f"{tmp}/run"] if os.path.exists(f"{tmp}/run/run.db") else [*line, "--run", f"{tmp}/run"]
    full = "case $OMPI_COMM_WORLD_RANK in 1) ulimit -f 128 ;; esac; exec \"$0\" \"$@\""
    return subprocess.Popen(["mpirun", *more, "-n", "3", *(["sh", "-c", full] if what == "full" else []), bin, "pretrain", *line,
                             "--rank-timeout", "2"], stdin=subprocess.DEVNULL, stdout=open(f"{tmp}/out", "w"), stderr=open(f"{tmp}/err", "w"))


def ranks(p):
    """Process ids by rank."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1]) == p.pid:
                env = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
                rank = [e.split(b"=")[1] for e in env if e.startswith(b"OMPI_COMM_WORLD_RANK=")]
                found[int(rank[0])] = int(pid)
        except (OSError, IndexError):
            pass
    return found


def trains(p):
    """Wait until steps are printed."""
    end = time.monotonic() + 60
    while time.monotonic() < end and p.poll() is None and "loss" not in open(f"{tmp}/out").read():
        time.sleep(0.05)
    assert p.poll() is None, "it ended before a step was made"
    return ranks(p)


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pids, seconds):
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    left = [p for p in pids if alive(p)]
    for p in left:
        os.kill(p, signal.SIGKILL)
    assert not left, f"{len(left)} ranks went on"


p = start(*sys.argv[2:])
pids = {} if what == "full" else trains(p)
assert what == "full" or len(pids) == 3, pids
begun = time.monotonic()
if what == "silent":
    os.kill(pids[1], signal.SIGSTOP)
    code = p.wait(60)
    said = open(f"{tmp}/err").read()
    assert code == 1, code
    assert re.search(r"rank [02]: rank 1 \(process %d on .*\) has not answered for 2 s" % pids[1], said), said
elif what == "stopped":
    # All at once, as a machine that sleeps, several times within one wait: that is no silence of anybody's.
    for _ in range(5):
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.3)
        for pid in pids.values():
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.002)
    made = open(f"{tmp}/out").read().count("loss")
    end = time.monotonic() + 60
    while time.monotonic() < end and p.poll() is None and open(f"{tmp}/out").read().count("loss") < made + 3:
        time.sleep(0.05)
    assert p.poll() is None, (p.returncode, open(f"{tmp}/err").read())
    assert open(f"{tmp}/out").read().count("loss") >= made + 3, "no step was made any more"
    p.send_signal(signal.SIGINT)
    p.wait(60)
elif what == "full":
    code = p.wait(60)
    said = open(f"{tmp}/err").read()
    assert code == 1 and re.search(r"rank 1: .*run\.rank1/", said), (code, said)
elif what == "mpirun":
    p.kill()
    p.wait()
elif what == "one":
    os.kill(pids[2], signal.SIGTERM)
    assert p.wait(60) == 130, p.returncode
else:
    p.send_signal(signal.SIGINT)
    p.wait(60)
gone(pids.values(), 20)
print("%.1f s" % (time.monotonic() - begun))
END
few_words 20000
model="--n-layer 3 --n-head 4 --n-embd 64 --seq 32 --batch 2 --grad-accum 6 --groups 6 --threads 1 --csd-mem 1M --seed 3 "
data="--data $tmp/text --tokenizer $tmp/tok"
steps="SELECT step, printf('%.17g %.17g', loss, grad_norm) FROM steps"
# mpirun starts what it is told: ranks look themselves whether they were started alike.
unlike() { # WHAT SENTENCE OPTIONS-OF-RANK-1
    for _ in 1 2 3; do # mpirun may write its own lines into the middle of the sentence
        # shellcheck disable=SC2086
        timeout 60 mpirun $more -n 1 "$bin" pretrain $model $data --steps 2 --run "$tmp/unlike" : -n 1 "$bin" pretrain $3 --steps 2 \
            --run "$tmp/unlike" >"$tmp/out" 2>"$tmp/err" </dev/null
        got=$?
        grep -q "rank 1: .*$2" "$tmp/err" && break
    done
    [ $got != 0 ] && grep -q "rank 1: .*$2" "$tmp/err"
    result $? "$1: $(grep -m 1 "rank 1:" "$tmp/err")"
}
unlike "another learning rate" "--lr is 0.001 here and 0.0003 on rank 0" "$model $data --lr 1e-3"
unlike "another model" "the sum of its model is" "--n-head 2 ${model#--n-layer 3 --n-head 4} --n-layer 3 $data"
[ ! -e "$tmp/unlike" ] && [ ! -e "$tmp/unlike.rank1" ]
result $? "  and nothing is made"
tr a e <"$tmp/text" >"$tmp/text2"
unlike "other data" "the sum of --data is" "$model --data $tmp/text2 --tokenizer $tmp/tok"
[ ! -e "$tmp/unlike/run.db" ] && [ ! -e "$tmp/unlike.rank1" ]
result $? "  and no run is made"
rm -rf "$tmp"/unlike "$tmp"/unlike.rank1
# shellcheck disable=SC2086
timeout 60 mpirun $more -n 1 "$bin" pretrain $model $data --steps 2 --run "$tmp/unlike" --blas openblas : -n 1 "$bin" pretrain $model $data \
    --steps 2 --run "$tmp/unlike" --blas onednn >"$tmp/out" 2>"$tmp/err" </dev/null
got=$?
if grep -q "built without onednn" "$tmp/err"; then
    skip "another engine of products" "siTrain is built without oneDNN"
elif grep -q "onednn does not run bf16 products" "$tmp/err"; then
    skip "another engine of products" "oneDNN has no bf16 products for this CPU"
else
    result "$([ $got = 0 ] && grep -q 'products run on openblas.* on rank 0, on onednn.* on rank 1: the last bits' "$tmp/err"; echo $?)" \
        "another engine of products is said"
fi
rm -rf "$tmp"/unlike "$tmp"/unlike.rank1
for what in one full stopped silent mpirun interrupt; do
    # shellcheck disable=SC2086
    python3 "$tmp/fail.py" $what $model $data --link-bw 3M --steps 1000 >"$tmp/said" 2>&1
    result $? "$what: $(tail -n 1 "$tmp/said")"
done
n=$(sqlite3 "$tmp/run/run.db" "SELECT max(step) + 1 FROM steps")
# shellcheck disable=SC2086
timeout 60 "$bin" pretrain $model $data --steps "$n" --schedule-steps 1000 --run "$tmp/one" >"$tmp/out" 2>"$tmp/err"
sqlite3 "$tmp/one/run.db" "$steps" >"$tmp/bits"
for r in "$tmp"/run "$tmp"/run.rank1 "$tmp"/run.rank2; do
    sqlite3 "$r/run.db" "$steps" | cmp - "$tmp/bits"
    result $? "the bits of one process after all that"
done

# A job that is stopped as it stores the options of a resume may have stored them on some ranks only: the next resume takes rank 0's.
python3 tests/cli/setting.py "$tmp/run" option.steps $((n + 1)) option.eval-every 3
python3 tests/cli/setting.py "$tmp/run.rank1" option.steps $((n + 5)) option.snapshot-every 1
timeout 60 mpirun $more -n 3 "$bin" pretrain --resume "$tmp/run" --log-every 100 >"$tmp/out" 2>"$tmp/err" </dev/null
result $? "options that a stopped job has stored on some ranks only are rank 0's again"
for r in "$tmp"/run "$tmp"/run.rank1 "$tmp"/run.rank2; do
    sqlite3 "$r/run.db" "SELECT (SELECT max(step) FROM steps), group_concat(value) FROM (SELECT value FROM runs
        WHERE key IN ('option.steps', 'option.eval-every', 'option.snapshot-every') ORDER BY key)"
done >"$tmp/levels"
same "$n|3,0,$((n + 1))" "$(uniq "$tmp/levels")" "  and stored so"
done_testing
