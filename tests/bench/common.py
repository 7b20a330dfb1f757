"""common.py: what the comparisons of this folder share: processes and their peak memory, runs of siTrain, rounds that can be gone on with, the machine.

Machines of this kind are shared and drift, so what is compared is measured in rounds: in each, every one after the other, and each round begins
with another one. Ratios are formed inside a round; then the median is taken. Standard library only."""
import json
import os
import platform
import random
import re
import signal
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")


class OutOfTime(Exception):
    pass


class Clock:
    """The time that --seconds allows."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds if seconds else float("inf")

    def left(self):
        return self.end - time.monotonic()


def options(parser, rounds=5, steps=8, skip=3):
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=steps, help="of each run")
    parser.add_argument("--skip", type=int, default=skip, help="first steps that are not counted")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=0, help="begin nothing that would not end within them; call again to go on")
    parser.add_argument("--json", help="results: kept as they come, gone on with")
    parser.add_argument("--dir", default=None, help="for the runs, which are removed as they end")


def parse(parser, argv=None):
    a = parser.parse_args(argv)
    if a.rounds < 1 or a.steps <= a.skip:
        parser.error("--rounds: at least one, and --steps: more than --skip")
    usable(parser)
    a.clock = Clock(a.seconds)
    return a


def usable(parser):
    """The program is there, and a signal ends this process so that what was begun is ended and removed."""
    if not os.access(BIN, os.X_OK):
        parser.error(f"{BIN}: not there; build it first, or name it in SITRAIN")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))


def main(body):
    """A failure of the program is a sentence, and exit code 1."""
    try:
        sys.exit(body())
    except RuntimeError as why:
        sys.exit(str(why))


# ---- processes ----

def run_process(argv, log, clock, env=None):
    """Returns its peak RSS in bytes. RuntimeError with the log's end if it fails; OutOfTime where the clock ends first."""
    with open(log, "wb") as f:
        child = subprocess.Popen(list(map(str, argv)), stdout=f, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=dict(os.environ, **(env or {})))
        try:
            usage = wait(child, clock)
        except BaseException:  # Ctrl-C too: what was begun here ends here
            child.kill()
            child.wait()
            raise
    if child.returncode:
        raise RuntimeError(f"{argv[0]} ended with {child.returncode}: {tail(log)}")
    return usage.ru_maxrss * 1024


def wait(child, clock):
    while True:
        pid, status, usage = os.wait4(child.pid, 0 if clock.left() == float("inf") else os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return usage
        if clock.left() < 0:
            raise OutOfTime
        time.sleep(0.05)


def tail(log, lines=12):
    with open(log, encoding="utf-8", errors="replace") as f:
        return "".join(f.readlines()[-lines:]).strip()


def sitrain(arguments, a, look=None):
    """One run in a folder of its own: {"seconds": of each step, "losses", "peak_rss", "process_seconds"}, and what look(db) adds."""
    with tempfile.TemporaryDirectory(prefix="sitrain-bench-", dir=a.dir) as folder:
        run, start = os.path.join(folder, "run"), time.monotonic()
        argv = [BIN, arguments[0], "--run", run, *arguments[1:], "--steps", a.steps, "--threads", a.threads, "--quiet"]
        rss = run_process(argv, os.path.join(folder, "log"), a.clock, {"OMP_NUM_THREADS": str(a.threads)})
        took = time.monotonic() - start
        db = sqlite3.connect(os.path.join(run, "run.db"))
        rows = db.execute("SELECT seconds, loss FROM steps ORDER BY step").fetchall()
        out = {"seconds": [r[0] for r in rows], "losses": [r[1] for r in rows], "peak_rss": rss, "process_seconds": took}
        if look:
            out |= look(db)
        db.close()
    assert len(rows) == a.steps, f"{len(rows)} steps"
    return out


def program(*argv, env=None):
    """What this command of siTrain prints; RuntimeError with its sentence where it fails."""
    argv = [BIN, *map(str, argv)]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"siTrain {argv[1]} ended with {done.returncode}")
    return done.stdout


def completed(given, defaults):
    """What is given, and of each (options, whole) the options that are not given; but none where
    one of `whole` is given, or where `whole` is None and one of the options is."""
    split = lambda word: word.split("=", 1) if word.startswith("--") else [word]
    out = [part for word in given for part in split(word)]
    names = {word for word in out if word.startswith("--")}
    for options, whole in defaults:
        own = set(map(str, options[::2]))
        if not names & (own if whole is None else whole):
            missing = [p for p in zip(options[::2], options[1::2]) if p[0] not in names]
            out += [str(word) for pair in missing for word in pair]
    return out


def visit(run, make, options, steps):
    """`steps` more steps of a run, by a process of its own; the arguments `make` make the run the
    first time. Returns the number of the first step."""
    first, path = 0, os.path.join(run, "run.db")
    if os.path.exists(path):
        make = ["--resume", run]
        (first,) = query(run, "SELECT count(*) FROM steps")[0]
    else:
        make = ["--run", run, *make]
    program("pretrain", *make, *options, "--steps", first + steps, "--quiet")
    return first


def query(run, sql, *values):
    db = sqlite3.connect(os.path.join(run, "run.db"))
    try:
        return db.execute(sql, values).fetchall()
    finally:
        db.close()


def disk_rate(folder, options=()):
    """Bytes a second of the update's mix of reads and writes, by siTrain's own disk, in this folder."""
    said = program("bench", "--only", "disk", "--quick", "--dir", folder, "--json", "-", *options)
    patterns = json.loads(said)["disk"][0]["patterns"]
    return next(p["bytes_per_second"] for p in patterns if p["pattern"] == "update's mix")


def table(rows, columns):
    """Rows as text: columns are (key, title, format or None for text, scale)."""

    def cell(row, key, _, form, scale):
        return row.get(key, "-") if form is None or key not in row else form % (row[key] * scale)

    cells = [[c[1] for c in columns]] + [[cell(row, *c) for c in columns] for row in rows]
    width = [max(map(len, column)) for column in zip(*cells)]
    pad = lambda word, n, column: "  " + (word.rjust(n) if column[2] else word.ljust(n))
    return "\n".join("".join(map(pad, line, width, columns)).rstrip() for line in cells)


def host_mem(arguments, share=1.15):
    """A --host-mem of `share` times the least that these arguments can do with, as `siTrain plan` says."""
    said = subprocess.run([BIN, "plan", "--host-mem", "16M", *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL).stderr
    least = re.search(r"needs at least (\d+)M", said)
    if not least:
        raise RuntimeError(f"siTrain plan: {said}")
    return f"{int(int(least[1]) * share)}M"


def make_tokens(path, count, vocab=50257):
    """A token file as llm.c has it: count tokens and one more, frequent ones more often."""
    r = random.Random(1)
    with open(path, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, count + 1, *[0] * 253))
        f.write(struct.pack(f"<{count + 1}H", *(min(int(r.paretovariate(0.7)), vocab) - 1 for _ in range(count + 1))))


# ---- rounds ----

class Results:
    """{"machine", "arguments", "left_out": {name: why}, "runs": {name: {round: what measure returned}}}, in a file where there is a path."""

    def __init__(self, path, arguments):
        self.path = path
        self.data = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "arguments": arguments, "left_out": {}, "runs": {}}
        if path and os.path.exists(path):
            self.go_on()

    def go_on(self):
        with open(self.path, encoding="utf-8") as f:
            old = json.load(f)
        for part in ("machine", "arguments"):
            if old[part] != self.data[part]:
                sys.exit(f"{self.path}: measured with {old[part]}, not {self.data[part]}: --json must name another file")
        self.data = old

    def save(self):
        if self.path:
            with open(self.path + ".new", "w", encoding="utf-8") as f:
                json.dump(self.data, f, indent=1)
            os.replace(self.path + ".new", self.path)

    def get(self, name, part):
        """{round: value}"""
        return {r: x[part] for r, x in self.data["runs"].get(name, {}).items() if part in x}

    def add(self, name, r, result):
        self.data["runs"].setdefault(name, {})[str(r)] = result
        self.save()

    def leave_out(self, name, why):
        self.data["left_out"][name] = why
        self.save()

    def todo(self, name, r):
        return name not in self.data["left_out"] and str(r) not in self.data["runs"].get(name, {})

    def estimate(self, name):
        return max(self.get(name, "process_seconds").values(), default=0)

    def round(self, r, names, measure, a, say):
        """measure(name) for each. A name that fails is left out, saying why. False where the time ended first."""
        at = r % len(names)
        return all(self.one(name, r, measure, a, say) for name in names[at:] + names[:at] if self.todo(name, r))

    def one(self, name, r, measure, a, say):
        if a.clock.left() < self.estimate(name):
            return False
        try:
            self.add(name, r, measure(name))
            print(f"round {r + 1}: {name}: {say(self.data['runs'][name][str(r)])}", flush=True)
        except OutOfTime:
            return False
        except RuntimeError as why:
            self.leave_out(name, str(why))
            print(f"{name}: left out: {why}", flush=True)
        return True

    def ratios(self, ours, theirs, part):
        """of the rounds that have both"""
        x, y = self.get(ours, part), self.get(theirs, part)
        return [x[r] / y[r] for r in x if r in y]


def spread(values, digits=0):
    """median (lowest - highest)"""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} - {max(values):.{digits}f})"


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        info = f.read()
    names = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")]
    flags = [x for x in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f" {x}" in info]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    isa = {k: v for k, v in os.environ.items() if k.endswith("MAX_CPU_ISA")}
    return {"cpu": names[0] if names else "unknown", "cores": len(os.sched_getaffinity(0)), "flags": flags, "memory_gb": round(memory),
            "kernel": platform.release()} | isa


def machine_line(m):
    isa = "".join(f", {k}={v}" for k, v in m.items() if k.endswith("ISA"))
    return f"{m['cpu']}, {m['cores']} cores ({' '.join(m['flags'])}){isa}, {m['memory_gb']} GB"
