#!/usr/bin/env python3
"""rank_kills.py [--short] [--seed N] [--kills N] [NAME...]: a job of three ranks, of which kill -9 ends one, any, at random moments.

Jobs are started by mpirun, killed while they are made, recover or train, and resumed, until each of the ways to train has had its kills; one that
reaches its end is compared, and another begun. What is compared is what one process has that nothing happened to: every row of
steps and evals on every rank, the export, names of files; and `check` reads all. The ranks that are left end by themselves, within seconds. Moments
are drawn from the seed; the machine's speed decides where in the program they fall. Prints TAP. `make prove-rank-kills`; tests/cli/ranks.sh
runs the short form. Environment: SITRAIN the program; MPIRUN_OPTIONS mpirun's.
"""
import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from common import BIN, ENV, must, result, tap

MPIRUN = ["mpirun", *os.environ.get("MPIRUN_OPTIONS", "--oversubscribe --bind-to none").split()]
SHAPE = "--n-layer 3 --n-head 4 --n-embd 64 --seq 32 --batch 2 --grad-accum 12 --groups 12 --threads 1 --csd-mem 1M --seed 3 --eval-every 3".split()
WAYS = {
    "dense": "--mode su+o".split(),
    "compressed": "--mode su+o --compress 5%".split(),
    "base, speculate": "--mode base --speculate".split(),
    "compressed, offload": "--mode su+o --compress 5% --activations offload --durability none".split(),
}
RANKS = 3


def folders(run):
    return [run, *(f"{run}.rank{i}" for i in range(1, RANKS))]


def remove(run):
    for d in folders(run):
        shutil.rmtree(d, ignore_errors=True)


def trained(d):
    with sqlite3.connect(f"file:{d}/run.db?mode=ro", uri=True) as c:
        return c.execute("SELECT step, tokens, loss, lr, grad_norm, clipped, skipped FROM steps ORDER BY step").fetchall() + \
            c.execute("SELECT step, name, value FROM evals ORDER BY step, name").fetchall()


def exported(tmp, run):
    shutil.rmtree(f"{tmp}/hf", ignore_errors=True)
    must("export", run, f"{tmp}/hf")
    with open(f"{tmp}/hf/model.safetensors", "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def processes(run):
    """Ids of the ranks that are alive, whose starter may be another process than mpirun."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.samefile(f"/proc/{pid}/exe", BIN):
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if run.encode() in f.read().split(b"\0"):
                        found.append(int(pid))
        except OSError:
            pass
    return found


class Job:
    """A run from its first start to its end."""

    def __init__(self, tmp, mode, steps):
        self.tmp, self.run, self.n, self.early, self.slowest = tmp, f"{tmp}/run", 0, 0, 0.0
        self.line = ["pretrain", "--data", f"{tmp}/text", "--eval-data", f"{tmp}/held", "--tokenizer", f"{tmp}/tok", *SHAPE, *mode,
                     "--steps", str(steps)]

    def start(self, line=None):
        line = line or (["pretrain", "--resume", self.run] if any(os.path.exists(f"{d}/run.db") for d in folders(self.run)) else
                        [*self.line, "--devices", "2", "--run", self.run])
        with open(f"{self.tmp}/out", "w", encoding="utf-8") as out, open(f"{self.tmp}/err", "w", encoding="utf-8") as err:
            return subprocess.Popen([*MPIRUN, "-n", str(RANKS), BIN, *line], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=ENV)

    def said(self):
        with open(f"{self.tmp}/err", encoding="utf-8", errors="replace") as f:
            return f.read()

    def go(self, delay, draw):
        """Start it or go on, kill a rank so much later (None: none). Whether it came to its end; what is wrong otherwise is raised."""
        there = os.path.exists(f"{self.run}/run.db")
        p = self.start()
        try:
            p.wait(180 if delay is None else delay)
        except subprocess.TimeoutExpired:
            pass
        victims = processes(self.run) if p.poll() is None else []
        if victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(victims), signal.SIGKILL)
            self.n += 1
            self.early += not there
        return self.ended(p, victims)

    def ended(self, p, victims):
        begun = time.monotonic()
        try:
            code = p.wait(120)
        except subprocess.TimeoutExpired as e:
            alone = not processes(self.run)  # all ranks have ended; Open MPI's starter may miss one killed while it connects
            p.kill()
            code = p.wait()
            if not (alone and victims):
                raise RuntimeError("it did not end\n" + self.said()) from e
            print("# mpirun did not end behind its ranks", flush=True)
            begun = time.monotonic()
        while processes(self.run) and time.monotonic() - begun < 20:
            time.sleep(0.02)
        left = processes(self.run)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victims:
            self.slowest = max(self.slowest, time.monotonic() - begun)
        if left:
            raise RuntimeError(f"{len(left)} ranks went on\n" + self.said())
        if code and not victims:
            raise RuntimeError(f"exit {code}\n" + self.said())
        return code == 0


def compare(job, want, name):
    why = []
    for d in folders(job.run):
        if trained(d) != want["rows"]:
            why.append(f"{d}: other steps or evaluations")
        why += [f"{d}/{n} is left" for n in os.listdir(d) if ".new" in n or ".tmp" in n]
    if exported(job.tmp, job.run) != want["parameters"]:
        why.append("other parameters")
    must("check", job.run, "--quiet")
    return result(not why, f"{name}: as one process that was never killed, on every rank ({job.n} kills by now, {job.early} of them before there was a run)",
                  "\n".join(why))


def kill_way(tmp, way, o):
    draw = random.Random(f"{o.seed} {way}")
    job = Job(tmp, WAYS[way], o.steps)
    must(*job.line, "--run", f"{tmp}/one")
    want = {"rows": trained(f"{tmp}/one"), "parameters": exported(tmp, f"{tmp}/one")}
    lasts, same = o.lasts, True
    try:
        if not lasts:
            begun = time.monotonic()
            job.go(None, draw)
            lasts = time.monotonic() - begun
            same = compare(job, want, way)
            remove(job.run)
        while same and job.n < o.kills:
            # a quarter while all begin, or a resume recovers; the others anywhere
            if job.go(draw.uniform(0.1, 0.35 * lasts if draw.random() < 0.25 else 0.9 * lasts), draw):
                same = compare(job, want, way)
                remove(job.run)
        if same and os.path.exists(job.run):
            job.go(None, draw)
            same = compare(job, want, way)
    except (RuntimeError, sqlite3.Error) as e:
        same = result(False, f"{way}: after {job.n} kills", e)
    print(f"# {way}: {job.n} kills, {job.early} of them before there was a run; the others had ended {job.slowest:.1f} s later at the latest", flush=True)
    if not same and o.keep:
        raise SystemExit(f"it stays in {tmp}")
    remove(job.run)
    shutil.rmtree(f"{tmp}/one")
    return job.n


def make_text(tmp):
    """A text, a held one and the tokenizer."""
    draw = random.Random(1)
    for name, words in ("text", 20000), ("held", 2000):  # an evaluation of all of text would be most of the time
        with open(f"{tmp}/{name}", "w", encoding="ascii") as f:
            f.write(" ".join(draw.choice("alpha beta gamma delta epsilon zeta eta theta".split()) for _ in range(words)))
    must("prepare", f"{tmp}/text", "--train-tokenizer", "--vocab", "270", "--out", f"{tmp}/tok")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--short", action="store_true", help="some seconds: a few kills of the first way")
    a.add_argument("--seed", type=int, default=int(time.time()))
    a.add_argument("--kills", type=int, default=55, help="of each way")
    a.add_argument("--steps", type=int, default=30)
    a.add_argument("--keep", action="store_true", help="keep the folders of what fails")
    a.add_argument("names", nargs="*", help="only these ways")
    o = a.parse_args()
    o.lasts = None
    print(f"# seed {o.seed}", flush=True)
    tmp = tempfile.mkdtemp(prefix="sitrain-rank-kill.", dir="/var/tmp")
    ENV["OMPI_MCA_btl_vader_backing_directory"] = tmp  # what a killed rank shared with others would stay in /dev/shm
    if o.short:
        o.kills, o.names, o.steps, o.lasts = 8, ["dense"], 60, 1.6
    try:
        make_text(tmp)
        kills = sum(kill_way(tmp, way, o) for way in WAYS if not o.names or way in o.names)
        print(f"# {kills} kills, seed {o.seed}")
    finally:
        if not (o.keep and tap.failed):
            shutil.rmtree(tmp, ignore_errors=True)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
