#!/usr/bin/env python3
"""races.py [--short] [--seed N] [--rounds N] [--keep] [NAME...]: several processes that want the same run, at once.

Creators, resumers, reshards, imports, exports, those that go back (`--from`) or restore a lost device, snapshots that rotate and
their readers, in twos, threes and fives, delayed by seed before calls of files and locks
(tests/shim/delay.c); meanwhile the lock's file may be removed, renamed, or copied over, and one of them gets INT or KILL. What may be:

  - every process ends by itself, with 0, or with 1 or 2 and one sentence (and notices of what it waits for or leaves); one that was sent INT with 130 too, or by it where it had only begun; one that was sent KILL by it;
  - of creators exactly one ends with 0; none may where one got a signal, or somebody meddled with the lock: a trainer whose lock another
    process has ends with a sentence, since it may not write any more;
  - of resumers, reshards and exporters at least one (a later resumer of a finished run has nothing to do, and ends with 0 too);
  - then RUN is a run (where none of the creators got so far: made anew without a word), `check` says whole, a resume takes it to its end,
    each step has one row, nothing half made is left, and the exported parameters are those of a run that nothing happened to, bit for bit.

Prints TAP. `make prove-races` (RACES=) takes some minutes; tests/cli/races.sh runs the short form. Environment: SITRAIN the program,
SITRAIN_SHIM the library; MPIRUN_OPTIONS mpirun's.
"""
import argparse
import functools
import glob
import hashlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import common
from common import BIN, ENV, result, tap

SHIM = os.path.abspath(os.environ.get("SITRAIN_SHIM") or "build/tests/delay.so")
run = functools.partial(common.run, timeout=120)
must = functools.partial(common.must, timeout=120)
MPIRUN = ["mpirun", *os.environ.get("MPIRUN_OPTIONS", "--oversubscribe --bind-to none").split(), "-n", "2"]
STEPS = 8
DEVICES = "--csd-mem 128K --threads 1 --durability none".split()
SHAPE = "--n-layer 2 --n-head 2 --n-embd 64 --seq 8 --batch 1 --grad-accum 2 --groups 2 --schedule constant --quiet".split() + DEVICES
MODES = ["mem", "base", "su+o"]
NOTICES = [  # which are not why a process ended: of a signal; of the transaction in which another one removes devices; of devices that another one uses
    r"siTrain: stopping ", r"siTrain: .*/run\.db is locked by siTrain \(process \d+\): waiting until it lets go, ",
    r"siTrain: .*/states\S* is not of this run any more and was left where it is: another process uses it$",
    # of a run that went back, which somebody else trains before this process does
    r"siTrain: .* went back to step \d+",
    # of what restore reads before it goes back
    r"siTrain: .* is damaged: its checksum is ", r"siTrain: the last whole committed state is that after step ",
    r"siTrain: open .*/image1: No such file or directory: it holds the "]
MEDDLING = ["nothing", "remove", "rename", "copy", "truncate"]


def folder(d):
    """Every name below d, what it is, and its bytes."""
    found = {}
    for at, dirs, files in os.walk(d):
        for n in dirs + files:
            p = os.path.join(at, n)
            found[os.path.relpath(p, d)] = hashlib.sha256(open(p, "rb").read()).hexdigest() if os.path.isfile(p) else os.lstat(p).st_mode
    return found


class Process:
    """One of those that race; what it was told, and how it may end."""

    def __init__(self, races, i, args, job=False, env=None):
        self.args, self.sent = args, None
        self.err = f"{races.tmp}/err{i}"
        extra = {"LD_PRELOAD": SHIM, "SHIM_SEED": str(races.draw.getrandbits(40)), "SHIM_US": str(races.draw.choice([1000, 4000, 20000])),
                 "SHIM_BUDGET_US": "500000"} if os.path.exists(SHIM) else {}
        with open(self.err, "wb") as err:
            self.p = subprocess.Popen([*(MPIRUN if job else []), BIN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                                      env={**ENV, **extra, **(env or {})})
        self.job = job

    def send(self, sig):
        if self.p.poll() is None:
            self.sent = sig
            self.p.send_signal(sig)

    def end(self):
        """Its exit code, or a sentence about what may not be."""
        try:
            self.code = self.p.wait(90)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            self.code = None
        with open(self.err, encoding="utf-8", errors="replace") as f:
            self.said = [s for s in f.read().splitlines() if s and "Killed" not in s and not any(re.match(n, s) for n in NOTICES)]
        ok = self.code in (0, 1, 2) or (self.code in (130, -2) and self.sent == signal.SIGINT) or (self.code == -9 and self.sent == signal.SIGKILL)
        one = self.job or self.code in (0, 130, -2, -9) or len(self.said) == 1
        assertion = any("ssertion" in s for s in self.said)
        return "" if ok and one and not assertion else f"{self}\n"

    def __str__(self):
        return f"[{' '.join(self.args[:3])}] {f'was sent {self.sent.name}, ' if self.sent else ''}ended with {self.code}: " + " / ".join(self.said)


class Races:
    def __init__(self, tmp, seed):
        self.tmp, self.draw, self.x = tmp, random.Random(seed), f"{tmp}/x"
        self.material()

    def pretrain(self, mode, steps=STEPS):
        return ["pretrain", "--data", f"{self.tmp}/text.bin", "--tokenizer", f"{self.tmp}/tok", *SHAPE, "--mode", mode, "--steps", str(steps),
                *(["--commit-every", "1"] if mode == "mem" else [])]

    def material(self):
        draw, tmp = random.Random(1), self.tmp
        with open(f"{tmp}/text", "w", encoding="ascii") as f:
            f.write(" ".join(draw.choice("alpha beta gamma delta epsilon zeta eta theta".split()) for _ in range(4000)))
        with open(f"{tmp}/rows.csv", "w", encoding="ascii") as f:
            f.write("label,sentence\n0,alpha beta\n1,gamma delta\n")
        must("prepare", f"{tmp}/text", "--train-tokenizer", "--vocab", "270", "--out", f"{tmp}/tok")
        must("prepare", f"{tmp}/text", "--tokenizer", f"{tmp}/tok", "--out", f"{tmp}/text.bin")
        self.want, self.begun = {}, {}
        for mode in MODES:
            must(*self.pretrain(mode), "--run", f"{tmp}/ref-{mode}")
            self.want[mode] = self.exported(f"{tmp}/ref-{mode}")
            must(*self.pretrain(mode, 2), "--run", f"{tmp}/begun-{mode}")
            self.begun[mode] = self.exported(f"{tmp}/begun-{mode}")
            must(*self.pretrain(mode, 2), "--run", f"{tmp}/kept-{mode}", "--snapshot-every", "2", "--snapshots", "9")
            must("pretrain", "--resume", f"{tmp}/kept-{mode}", "--steps", "5", "--quiet")
        must("export", f"{tmp}/begun-su+o", f"{tmp}/hf")
        self.finetune = ["finetune", "--init", f"{tmp}/hf", "--train-file", f"{tmp}/rows.csv", "--steps", "2", "--max-seq", "8", "--quiet", *DEVICES]
        must(*self.finetune, "--run", f"{tmp}/ref-fine")
        self.want["finetune"] = self.exported(f"{tmp}/ref-fine")

    def exported(self, run_):
        shutil.rmtree(f"{self.tmp}/exported", ignore_errors=True)
        must("export", run_, f"{self.tmp}/exported")
        with open(f"{self.tmp}/exported/model.safetensors", "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def clear(self):
        for d in glob.glob(f"{self.x}*"):
            shutil.rmtree(d, ignore_errors=True)

    # ---- what happens to them meanwhile ----

    def meddle(self, how):
        lock, saved = f"{self.x}/run.lock", f"{self.tmp}/lock"
        try:
            if how == "remove":
                os.remove(lock)
            elif how == "rename":
                os.rename(lock, saved)
            elif how == "copy":
                shutil.copy(lock, saved)
                os.rename(saved, lock)
            elif how == "truncate":
                os.truncate(lock, 0)
        except OSError:
            return False
        return how != "nothing"

    def go(self, lines, how, sig, job=False, apart=0.3):
        """All of them at once, one after the other within a moment. (processes, whether somebody meddled, what may not be)."""
        order = sorted((self.draw.random() * apart * self.draw.choice([0, 0.1, 1]), i) for i in range(len(lines)))
        events = [(at, "start", i) for at, i in order]
        for _ in range(self.draw.choice([1, 1, 2, 4]) if how != "nothing" else 0):
            events.append((self.draw.uniform(0, 2.5 * apart), "meddle", 0))
        if sig:
            events.append((self.draw.uniform(0, 3 * apart), "signal", self.draw.randrange(len(lines))))
        begun, meddled, at = time.monotonic(), False, {}
        for when, what, i in sorted(events):
            time.sleep(max(0, when - (time.monotonic() - begun)))
            if what == "start":
                at[i] = Process(self, i, lines[i], job)
            elif what == "meddle":
                meddled |= self.meddle(how)
            elif i in at:
                at[i].send(sig)
        why = "".join(p.end() for p in at.values())
        return [at[i] for i in range(len(lines))], meddled, why

    # ---- what has to be ----

    def became(self, mode, want=None, steps=STEPS):
        """What is wrong with the run; '' where it is as if nothing had happened."""
        why = ""
        if not os.path.exists(f"{self.x}/run.db"):
            code, _, err = run(*self.pretrain(mode), "--run", self.x)
            why += f"made anew: exit {code}: {err}" if code else ""
        code, _, err = run("check", self.x, "--quiet")
        why += f"check: exit {code}: {err}" if code else ""
        if steps:
            code, _, err = run("pretrain", "--resume", self.x, "--steps", str(steps), "--quiet")
            why += f"resume: exit {code}: {err}" if code else ""
            code, _, err = run("check", self.x, "--quiet")
            why += f"check after it: exit {code}: {err}" if code else ""
        if why:
            return why
        if self.exported(self.x) != (want or self.want[mode]):
            why += "other parameters\n"
        with sqlite3.connect(f"file:{self.x}/run.db?mode=ro", uri=True) as c:
            rows = [r[0] for r in c.execute("SELECT step FROM steps ORDER BY step")]
        if steps and rows != list(range(steps)):
            why += f"rows of steps {rows}\n"
        left = [n for n in os.listdir(self.x) if ".new" in n or ".tmp" in n or n.endswith("-journal")]
        return why + (f"{left} is left\n" if left else "")

    def judge(self, name, processes, excused, why, exactly, then):
        zeros = sum(p.code == 0 for p in processes)
        if zeros == 0 and not excused:
            why += "nobody ended with 0\n"
        if exactly and zeros > 1:
            why += f"{zeros} ended with 0\n"
        why += then() if not why else ""
        if why:
            why += "\n".join(map(str, processes))
        result(not why, name, why)
        return not why

    # ---- the races ----

    def draws(self, meddling=True, signals=True):
        n = self.draw.choice([2, 2, 3, 3, 5])
        how = self.draw.choice(MEDDLING) if meddling and self.draw.random() < 0.6 else "nothing"
        sig = self.draw.choice([signal.SIGINT, signal.SIGKILL]) if signals and self.draw.random() < 0.5 else None
        return n, how, sig

    def create(self, calm=False):
        n, how, sig = self.draws(not calm, not calm)
        mode = self.draw.choice(MODES)
        ps, meddled, why = self.go([[*self.pretrain(mode), "--run", self.x]] * n, how, sig)
        return self.judge(f"{n} creators, {mode}, {how}, {sig and sig.name}", ps, meddled or any(p.sent for p in ps), why, True, lambda: self.became(mode))

    def create_calm(self):
        return self.create(True)

    def resume(self):
        n, how, sig = self.draws()
        mode = self.draw.choice(MODES)
        shutil.copytree(f"{self.tmp}/begun-{mode}", self.x)
        ps, meddled, why = self.go([["pretrain", "--resume", self.x, "--steps", str(STEPS), "--quiet"]] * n, how, sig)
        return self.judge(f"{n} resumers, {mode}, {how}, {sig and sig.name}", ps, meddled or any(p.sent for p in ps), why, False, lambda: self.became(mode))

    def live(self):
        """The lock of a run that is trained is removed, and another process resumes it; the first gets a signal."""
        mode, how = self.draw.choice(MODES), self.draw.choice(MEDDLING[1:])
        sig = self.draw.choice([signal.SIGINT, signal.SIGKILL, None])
        first = Process(self, 0, [*self.pretrain(mode), "--run", self.x], env={"SHIM_US": "20000", "SHIM_BUDGET_US": "3000000"})
        for _ in range(400):
            if os.path.exists(f"{self.x}/run.db") or first.p.poll() is not None:
                break
            time.sleep(0.005)
        self.meddle(how)
        others = [Process(self, i, ["pretrain", "--resume", self.x, "--steps", str(STEPS), "--quiet"]) for i in range(1, self.draw.choice([2, 2, 3]))]
        time.sleep(self.draw.uniform(0, 1.2))
        if sig:
            first.send(sig)
        why = "".join(p.end() for p in [first, *others])
        return self.judge(f"a trainer, lock: {how}, {len(others)} resumers, {sig and sig.name} to the first, {mode}", [first, *others], True, why, False,
                          lambda: self.became(mode))

    def mix(self):
        """Creators of several kinds: the run is the winner's."""
        n, how, sig = self.draws()
        tmp = self.tmp
        kinds = {
            "pretrain": ([*self.pretrain("su+o"), "--run", self.x], self.want["su+o"], STEPS),
            "import": (["import", f"{tmp}/hf", self.x, *DEVICES], self.begun["su+o"], 0),
            "finetune": ([*self.finetune, "--run", self.x], self.want["finetune"], 0),
            "ranks": (["reshard", f"{tmp}/begun-su+o", "--ranks", "2", "--new-run", self.x, "--quiet"], self.begun["su+o"], 0),
        }
        chosen = [self.draw.choice(list(kinds)) for _ in range(n)]
        if chosen.count("ranks") > 1:  # who reads the run that is divided has it for himself
            chosen = [k if k != "ranks" else self.draw.choice(["import", "pretrain"]) for k in chosen]
        ps, meddled, why = self.go([kinds[k][0] for k in chosen], how, sig)
        winner = [k for k, p in zip(chosen, ps) if p.code == 0]

        def then():
            if not winner:
                return "" if run("check", self.x, "--quiet")[0] in (0, 1, 2) else "check died"
            _, want, steps = kinds[winner[0]]
            return self.became("su+o", want, steps)
        return self.judge(f"{' '.join(chosen)}, {how}, {sig and sig.name}", ps, meddled or any(p.sent for p in ps), why, True, then)

    def reshard(self):
        n, how, sig = self.draws()
        mode = self.draw.choice(MODES[1:])
        shutil.copytree(f"{self.tmp}/begun-{mode}", self.x)
        lines = [["reshard", self.x, "--devices", str(self.draw.choice([1, 2, 3])), "--quiet"] for _ in range(n)]
        if self.draw.random() < 0.5:
            lines[0] = ["pretrain", "--resume", self.x, "--steps", str(STEPS), "--quiet"]
        ps, _, why = self.go(lines, how, sig)

        def then():
            wrong = self.became(mode)
            with sqlite3.connect(f"file:{self.x}/run.db?mode=ro", uri=True) as c:
                devices = c.execute("SELECT count(*) FROM devices").fetchone()[0]
            files = len(glob.glob(f"{self.x}/dev*/states*"))
            return wrong + (f"{files} files of {devices} devices\n" if files != devices else "")
        # onto as many as there are is refused
        return self.judge(f"{n} reshards of {mode}, {how}, {sig and sig.name}", ps, True, why, False, then)

    def kept(self):
        """A run after step 5, with snapshots after 0, 2 and 4; its mode."""
        mode = self.draw.choice(MODES)
        shutil.copytree(f"{self.tmp}/kept-{mode}", self.x)
        return mode

    def goes_on(self, mode, again):
        """What is wrong with the run, once the command `again` has ended what a kill left half done; with its snapshots, too."""
        with sqlite3.connect(f"file:{self.x}/run.db?mode=ro", uri=True) as c:
            half = c.execute("SELECT count(*) FROM runs WHERE key = 'going_back'").fetchone()[0]
        states = f"{self.x}/image1" if mode == "mem" else f"{self.x}/dev0/states"
        code, _, err = run(*again) if half or not os.path.exists(states) else (0, "", "")
        done = code == 0 or (code == 2 and "is gone, and all of its states were read and are whole" in err)  # in mem one image may do
        why = self.became(mode) if done else f"{again[0]} again: exit {code}: {err}"
        code, out, err = run("snapshots", self.x, "--check")
        return why + (f"snapshots --check: exit {code}: {out}{err}" if code else "")

    def back(self):
        """Some go back to a snapshot, and train; others go on from where the run is."""
        n, how, sig = self.draws()
        mode = self.kept()
        again = ["pretrain", "--resume", self.x, "--from", "2", "--steps", str(STEPS), "--quiet"]
        resume = ["pretrain", "--resume", self.x, "--steps", str(STEPS), "--quiet"]
        ps, meddled, why = self.go([again if i == 0 or self.draw.random() < 0.6 else resume for i in range(n)], how, sig)
        return self.judge(f"{n} that go back or on, {mode}, {how}, {sig and sig.name}", ps, meddled or any(p.sent for p in ps), why, False,
                          lambda: self.goes_on(mode, again))

    def restore(self):
        """A device is lost; some restore it, others resume, go back or check."""
        n, how, sig = self.draws()
        mode = self.kept()
        os.remove(f"{self.x}/image1" if mode == "mem" else f"{self.x}/dev0/states")
        again = ["restore", self.x]
        others = [again, ["pretrain", "--resume", self.x, "--steps", str(STEPS), "--quiet"], ["export", self.x, f"{self.x}.out", "--last"],
                  ["pretrain", "--resume", self.x, "--from", "2", "--steps", str(STEPS), "--quiet"]]
        lines = [again, *[self.draw.choice(others) for _ in range(n - 1)]]
        ps, meddled, why = self.go(lines, how, sig)
        return self.judge(f"{n} of a lost device, {mode}, {how}, {sig and sig.name}", ps, meddled or any(p.sent for p in ps), why, False,
                          lambda: self.goes_on(mode, again))

    def rotate(self):
        """Trainers take snapshots and remove old ones, which others read."""
        n, how, sig = self.draws()
        mode = self.kept()
        train = ["pretrain", "--resume", self.x, "--steps", str(STEPS), "--quiet", "--snapshot-every", "1", "--snapshots"]
        lines = [[*train, "1"]]
        for i in range(1, n):
            lines.append(self.draw.choice([[*train, "2"], ["export", self.x, f"{self.x}.{i}", "--step", "2"], ["check", self.x, "--quiet"],
                                           ["snapshots", self.x], ["export", self.x, f"{self.x}.{i}", "--step", "6"]]))
        ps, meddled, why = self.go(lines, how, sig)
        for i, p in enumerate(ps):
            if p.code == 0 and lines[i][0] == "export" and lines[i][-1] == "2":
                with open(f"{self.x}.{i}/model.safetensors", "rb") as f:
                    why += "" if hashlib.sha256(f.read()).hexdigest() == self.begun[mode] else f"{p}: other parameters\n"
        return self.judge(f"{n} of snapshots, {mode}, {how}, {sig and sig.name}", ps, meddled or any(p.sent for p in ps), why, False,
                          lambda: self.goes_on(mode, lines[0]))

    def export(self):
        n, _, sig = self.draws(False)
        ps, _, why = self.go([["export", f"{self.tmp}/ref-su+o", self.x]] * n, "nothing", sig)

        def then():
            if not os.path.exists(f"{self.x}/model.safetensors"):
                must("export", f"{self.tmp}/ref-su+o", self.x)
            left = [p for p in glob.glob(f"{self.x}.new-*")]
            sha = hashlib.sha256(open(f"{self.x}/model.safetensors", "rb").read()).hexdigest()
            must("check", self.x, "--quiet")
            killed = any(p.sent == signal.SIGKILL for p in ps)
            return ("" if sha == self.want["su+o"] else "other parameters\n") + (f"{left} is left\n" if left and not killed else "")
        return self.judge(f"{n} exports, {sig and sig.name}", ps, any(p.sent for p in ps), why, True, then)

    def moved(self):
        """run.db is moved away, and its folder is to become another run: it does not."""
        mode = self.draw.choice(MODES)
        shutil.copytree(f"{self.tmp}/begun-{mode}", self.x)
        os.rename(f"{self.x}/run.db", f"{self.tmp}/saved")
        was = folder(self.x)
        ps, _, why = self.go([[*self.pretrain(mode, 1), "--run", self.x]] * 2, "nothing", None)
        why += "something is another\n" if folder(self.x) != was else ""
        why += "one of them made it\n" if any(p.code == 0 for p in ps) else ""
        os.rename(f"{self.tmp}/saved", f"{self.x}/run.db")
        return self.judge(f"a run whose run.db is elsewhere, {mode}", ps, True, why, False, lambda: self.became(mode))

    def jobs(self):
        """Two jobs of two ranks."""
        args = [*self.pretrain("su+o"), "--run", self.x]
        ps, _, why = self.go([args, args], "nothing", None, job=True)

        def then():
            code = subprocess.run([*MPIRUN, BIN, "pretrain", "--resume", self.x, "--steps", str(STEPS), "--quiet"], env=ENV, timeout=120,
                                  stdin=subprocess.DEVNULL, capture_output=True).returncode
            same = self.exported(self.x) == self.want["su+o"]
            return ("" if code == 0 else f"resume: exit {code}\n") + ("" if same else "other parameters\n")
        return self.judge("2 jobs of 2 ranks", ps, False, why, True, then)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--short", action="store_true", help="some seconds: each kind of race a time or two")
    a.add_argument("--seed", type=int, default=int(time.time()))
    a.add_argument("--rounds", type=int, default=60, help="of each kind")
    a.add_argument("--keep", action="store_true", help="stop at what fails first, and keep its folders")
    a.add_argument("names", nargs="*", help="only these: create create_calm resume live mix reshard back restore rotate export moved jobs")
    o = a.parse_args()
    kinds = {"create_calm": 2, "create": 2, "resume": 1, "live": 3, "mix": 1, "reshard": 1, "back": 1, "restore": 1, "rotate": 1, "export": 1, "moved": 1} if o.short else \
        {k: o.rounds for k in ("create_calm", "create", "resume", "live", "mix", "reshard", "back", "restore", "rotate", "export", "moved", "jobs")}
    if not shutil.which("mpirun"):
        kinds.pop("jobs", None)
    elif "jobs" in kinds:
        kinds["jobs"] = max(1, kinds["jobs"] // 6)
    print(f"# seed {o.seed}{'' if os.path.exists(SHIM) else ', without the library that delays: ' + SHIM + ' is not there'}", flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where it was ignored, it would be in what is started here
    tmp = tempfile.mkdtemp(prefix="sitrain-races.", dir="/var/tmp")
    try:
        races = Races(tmp, 0)
        for kind, n in kinds.items():
            for i in range(n if not o.names or kind in o.names else 0):
                races.draw = random.Random(f"{o.seed} {kind} {i}")
                races.clear()
                try:
                    ok = getattr(races, kind)()
                except (RuntimeError, OSError, sqlite3.Error, subprocess.TimeoutExpired) as e:
                    ok = result(False, f"{kind}, round {i}", e)
                if not ok:
                    print(f"# round {i} of {kind}, seed {o.seed}", flush=True)
                    if o.keep:
                        raise SystemExit(f"it stays in {tmp}")
    finally:
        if not (o.keep and tap.failed):
            shutil.rmtree(tmp, ignore_errors=True)
    return tap.done()


sys.exit(main())
