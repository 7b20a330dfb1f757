#!/usr/bin/env python3
"""drives.py [--seed N] [--minutes M] [NAME...]: drives are lost at random moments, and kill -9 falls into all that then happens.

A run with --snapshot-on devices trains on 2 to 5 drives. At a random moment, as many as its parity bears are removed, zeroed, cut short,
or have bytes flipped: while it trains, while it takes or rotates a snapshot, or after it was killed. Then it is restored, and the restore
is killed at random moments, too; of the drives that may be lost, one may be lost only then. Sometimes the run goes back to a snapshot,
or begins a branch there first, which is killed as well. At the end it must have the export, the rows of steps and the evaluations of a run that nothing happened to.
After each restore all its snapshots are whole, and there are no fewer than --snapshots less one where there were as many. Last, one
drive more than parity bears is lost: restore is refused, names what is still whole, the best model or the last export. The moments are drawn
from the seed, which is printed. Prints TAP. `make prove-drives`. Environment: SITRAIN the program.
"""
import argparse
import json
import mmap
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import BIN, ENV, must, result, run, tap
from kills import SHAPE, differences, folder, make_material, picture, run_killed

STEPS, EVERY, KEPT = 24, 3, 3
SCENARIOS = {  # name: drives, parity, and what else the run has
    "2": (2, 1, "--mode su+o --compress 10% --error-feedback --keep-best"),
    "3": (3, 1, "--mode su+o --keep-best"),
    "3, parity 2": (3, 2, "--mode base --speculate --keep-best"),
    "4, parity 2": (4, 2, "--mode su+o --compress 10% --error-feedback --keep-best"),
    "5": (5, 1, "--mode su --dropout 0.1 --keep-best"),
}
SAME = ("parameters", "steps", "evals", "best", "best's files")
counts = {}


def count(what):
    counts[what] = counts.get(what, 0) + 1


class Lost(Exception):
    """What must not be."""


def flip(path, r):
    """Some bytes, past the page cache: a write of the program that met one through it would fail."""
    page = mmap.mmap(-1, 4096)
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    try:
        pages = os.fstat(fd).st_size // 4096
        for at in r.sample(range(pages), min(pages, 1 + pages // 4)):
            if os.preadv(fd, [page], 4096 * at) == 4096:
                page[r.randrange(4096)] ^= 0x10
                os.pwritev(fd, [page], 4096 * at)
    finally:
        os.close(fd)


def hurt(drive, how, r):
    """All files of a drive. Others may write to them or remove them meanwhile."""
    count(how)
    if how == "removed":
        shutil.rmtree(drive, ignore_errors=True)
        os.makedirs(drive, exist_ok=True)
        return
    for d, _, names in os.walk(drive):
        for name in names:
            path = os.path.join(d, name)
            try:
                size = os.stat(path).st_size
                if how == "cut":
                    os.truncate(path, r.randrange(size) if size else 0)
                elif how == "zeroed":
                    os.truncate(path, 0)
                    os.truncate(path, size)
                else:
                    flip(path, r)
            except FileNotFoundError:
                pass


class Story:
    def __init__(self, tmp, name, r):
        self.n, self.parity, more = SCENARIOS[name]
        self.tmp, self.r, self.dir = tmp, r, f"{tmp}/run"
        self.drives = [f"{tmp}/d{i}" for i in range(self.n)]
        self.args = ["pretrain", "--data", f"{tmp}/text.bin", "--tokenizer", f"{tmp}/tok", *SHAPE, "--eval-data", f"{tmp}/held.bin", "--eval-every", "4",
                     "--csd-mem", "192K", "--durability", "none", "--quiet", "--schedule-steps", str(STEPS), "--steps", str(STEPS),
                     *more.split()]
        self.kept = ["--snapshot-every", str(EVERY), "--snapshot-on", "devices", "--parity", str(self.parity), "--snapshots", str(KEPT)]
        self.had = 0

    def make(self):
        for d in self.drives:
            os.makedirs(d)
        begun = time.monotonic()
        must(*self.args, "--run", f"{self.tmp}/ref", "--devices", str(self.n))
        self.lasted = time.monotonic() - begun
        self.want = picture(self.tmp, f"{self.tmp}/ref")
        at = self.args.index("--steps") + 1
        first = [*self.args[:at], str(EVERY + 1), *self.args[at + 1:]]
        must(*first, *self.kept, "--run", self.dir, *(x for d in self.drives for x in ("--device", d)))

    def hurt_some(self, n):
        for drive in self.r.sample([d for d in self.drives if d not in self.lost], n):
            self.lost.append(drive)
            hurt(drive, self.r.choice(["removed", "zeroed", "cut", "flipped"]), self.r)

    def train(self):
        """Train for a while. In half of the times, drives are lost meanwhile; then, or soon after, it is killed."""
        p = subprocess.Popen([BIN, "pretrain", "--resume", self.dir, "--steps", str(STEPS), "--quiet", *self.kept], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENV)
        try:
            p.wait(self.r.uniform(0, 1.5 * self.lasted))
        except subprocess.TimeoutExpired:
            count("lost while it trains")
        self.hurt_some(self.r.randint(1, self.parity))
        try:
            p.wait(self.r.choice([0, self.r.uniform(0, self.lasted)]))
        except subprocess.TimeoutExpired:
            p.kill()
            count("kills of training")
        err = p.stderr.read()
        if p.wait() not in (0, 1, -signal.SIGKILL):
            raise Lost(f"training: exit {p.returncode}: {err}")

    def snapshots(self):
        code, out, err = run("snapshots", self.dir, "--check", "--json")
        return json.loads(out) if code in (0, 1) else self.fail("snapshots", code, err)

    def fail(self, what, code, err):
        raise Lost(f"{what}: exit {code}: {err}")

    def killed(self, what, args, done, between):
        """A command that finishes in the end. done(err): it had nothing to do, since the one before was killed at its end."""
        code = -signal.SIGKILL
        kills = self.r.choice([0, 1, 1, 2])
        while code == -signal.SIGKILL:
            delay = self.r.uniform(0, self.r.choice([0.1, 0.5])) if kills else None
            code, _, err = run_killed(args, delay)
            kills -= 1
            if code == -signal.SIGKILL:
                count(f"kills of {what}")
                between()
        if code and not done(err):
            self.fail(what, code, err)

    def restore(self):
        def lose_another():
            if len(self.lost) < self.parity and self.r.random() < 0.5:
                self.hurt_some(1)
                count("lost in a restore")

        count("restores")
        self.killed("restore", ["restore", self.dir], lambda err: "no device of" in err, lose_another)
        self.lost = []
        seen = self.snapshots()
        if any(not at["whole"] for at in seen) or len(seen) < min(self.had, KEPT - 1):
            raise Lost(f"{len(seen)} snapshots, where there were {self.had}: {seen}")
        self.had = max(self.had, min(len(seen), KEPT))

    def go_back(self):
        """To a snapshot, in half of the times after a branch with another rate and schedule began there."""
        def back(what, steps, *more):
            count(what)
            self.killed(f"{what}s", [*resume, "--from", str(step), "--steps", str(steps), *more], lambda err: "has no snapshot after" in err, lambda: None)

        step, resume = self.r.choice(self.snapshots())["step"], ["pretrain", "--resume", self.dir, "--quiet", *self.kept]
        if step < STEPS and self.r.random() < 0.5:
            back("branch", min(step + self.r.randint(1, EVERY + 1), STEPS), "--lr", "5e-3", "--schedule", "constant", "--batch", "1")
            if step not in [at["step"] for at in self.snapshots()]:
                raise Lost(f"the snapshot after step {step} is gone, from which the branch began")
        back("way back", STEPS)

    def round(self):
        self.lost = []
        self.train()
        self.restore()
        if self.r.random() < 0.3:
            self.go_back()

    def finish(self):
        code, _, err = run("pretrain", "--resume", self.dir, "--steps", str(STEPS), "--quiet", *self.kept)
        got = picture(self.tmp, self.dir)
        diff = differences({k: self.want[k] for k in SAME}, {k: got[k] for k in SAME})
        if code or diff:
            raise Lost(f"exit {code}: {err}{diff}")

    def too_many(self):
        how = self.r.choice(["removed", "zeroed"])
        for drive in self.r.sample(self.drives, self.parity + 1):
            hurt(drive, how, self.r)
        was = {d: folder(d) for d in self.drives}
        code, _, err = run("restore", self.dir)
        whole = re.search(r"the last exported state that is whole is that after step \d+, in (\S+): begin", err)
        count("one more than parity bears")
        if code != 1 or not whole or (how == "removed" and was != {d: folder(d) for d in self.drives}):
            self.fail("one drive too many", code, err)
        must("check", whole[1], "--quiet")


def tell(tmp, name, seed, rounds):
    r = random.Random(f"{seed} {name}")
    story = Story(tmp, name, r)
    why = ""
    try:
        story.make()
        for _ in range(rounds):
            story.round()
        story.finish()
        story.too_many()
    except (Lost, RuntimeError) as e:
        why = str(e)
    result(not why, f"{name}: seed {seed}", why)
    if why:
        kept = f"{tmp}.{seed}.{name.replace(' ', '')}"
        shutil.copytree(tmp, kept, symlinks=True)
        print(f"# all of it is in {kept}", flush=True)
    for d in [*story.drives, story.dir, f"{tmp}/ref"]:
        shutil.rmtree(d, ignore_errors=True)
    return not why


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--seed", type=int, default=int(time.time()))
    a.add_argument("--minutes", type=float, default=15)
    a.add_argument("--rounds", type=int, default=8, help="of losses in a run")
    a.add_argument("names", nargs="*", help="only these")
    o = a.parse_args()
    end, seed, good = time.monotonic() + 60 * o.minutes, o.seed, True
    tmp = tempfile.mkdtemp(prefix="sitrain-drives.", dir="/var/tmp")
    try:
        make_material(tmp)
        while good and (time.monotonic() < end or seed == o.seed):
            for name in o.names or SCENARIOS:
                good = tell(tmp, name, seed, o.rounds) and good
            seed += 1
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    print("# " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
