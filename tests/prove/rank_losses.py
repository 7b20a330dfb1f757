#!/usr/bin/env python3
"""rank_losses.py [--seed N] [--minutes M] [--rounds N] [NAME...]: a job of three ranks loses hosts and drives, and kill -9 falls into all that
then happens.

A run that takes snapshots trains by mpirun. At a random moment one of its ranks is killed, or all, or mpirun; at that moment a rank's folder is
lost, or a device, or nothing. `siTrain restore` makes it again, and is killed in the same ways; the host that it makes again may be lost once
more. Sometimes the run goes back to a snapshot (--resume RUN --from STEP), or begins a branch with another rate and schedule there and goes back
once more, and is killed as well. After each restore the run is at a step that is no older than its newest snapshot was, and that snapshot is
still listed. At the end every rank has the rows of steps and evaluations, and the export, of one process that nothing happened to, and `check`
reads all. Last, two hosts are lost together: restore is refused. Moments are drawn from the seed. Prints TAP. `make prove-rank-losses`.
Environment: SITRAIN the program; MPIRUN_OPTIONS mpirun's.
"""
import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import BIN, ENV, must, result, run, tap
from drives import hurt
from rank_kills import MPIRUN, RANKS, SHAPE, Job, compare, exported, folders, make_text, processes, remove, trained

STEPS, EVERY = 18, 3  # evaluations, too, and also after the last step of each command
WAYS = {  # name: how it trains, where its snapshots lie, the drives of all ranks
    "hosts": ("--mode su+o", "--snapshot-on hosts", 0),
    "hosts, compressed": ("--mode su+o --compress 5%", "--snapshot-on hosts", 0),
    "folder": ("--mode base --speculate", "--snapshot-dir {tmp}/dir", 0),
    "devices": ("--mode su+o", "--snapshot-on devices --snapshot-dir {tmp}/dir", 3),
}
OVER = "no device of", "has no snapshot after step"  # the command before was killed at its end, or long after it had gone back
counts = {}


def count(what):
    counts[what] = counts.get(what, 0) + 1


class Story(Job):
    def __init__(self, tmp, way, r):
        mode, kept, self.n_drives = WAYS[way]
        super().__init__(tmp, [*mode.split(), "--durability", "none"], STEPS)
        self.way, self.r, self.kept = way, r, ["--snapshot-every", str(EVERY), "--snapshots", "3", *kept.format(tmp=tmp).split()]
        self.drives = [f"{tmp}/drive{i}" for i in range(self.n_drives)]
        self.resume = ["pretrain", "--resume", self.run, "--quiet", "--snapshot-every", str(EVERY)]

    def make(self):
        for d in [*self.drives, f"{self.tmp}/dir"]:
            os.makedirs(d)
        must(*self.line, "--run", f"{self.tmp}/one")
        self.want = {"rows": trained(f"{self.tmp}/one"), "parameters": exported(self.tmp, f"{self.tmp}/one")}
        devices = [x for d in self.drives for x in ("--device", d)] or ["--devices", "2"]
        begun = time.monotonic()
        self.ended(self.start([*self.line[:-1], str(EVERY), "--schedule-steps", str(STEPS), *self.kept, *devices, "--run", self.run, "--quiet"]), [])
        self.lasts = 3 * (time.monotonic() - begun)

    def kill_some(self):
        """Kill one of the ranks, all, or mpirun. The ids of those that were there."""
        victims = processes(self.run) if self.started.poll() is None else []
        kind = self.r.choice(["a rank", "a rank", "all ranks", "mpirun"])
        chosen = {"a rank": victims[:1], "all ranks": victims, "mpirun": [self.started.pid]}[kind] if victims else []
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return victims

    def go(self, what, line, longest, lose=lambda: None):
        """Start a command, and kill it after a while (longest: None: do not). Whether it came to its end."""
        self.started = self.start(line)
        try:
            self.started.wait(300 if longest is None else self.r.uniform(0.3, longest))
        except subprocess.TimeoutExpired:
            pass
        victims = self.kill_some() if longest is not None else []
        if victims:
            count(f"kills of {what}")
            self.n += 1
        lose()
        try:
            return self.ended(self.started, victims)
        except RuntimeError as e:
            if any(x in self.said() for x in OVER):
                return True
            raise RuntimeError(f"{what}: {' '.join(line)}: {e}") from e

    def finish(self, what, line, longest, lose=lambda: None):
        """A command that is killed some times, and then comes to its end."""
        for _ in range(self.r.choice([0, 1, 2, 3, 4])):
            if self.go(what, line, longest, lose):
                return
        if not self.go(what, line, None):
            raise RuntimeError(f"{what}: it does not end\n{self.said()}")

    def steps(self):
        """Those of the snapshots that every rank has a part of."""
        p = subprocess.run([*MPIRUN, "-n", str(RANKS), BIN, "snapshots", self.run, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           env=ENV, check=False)
        if p.returncode not in (0, 1):
            raise RuntimeError(f"snapshots: exit {p.returncode}: {p.stderr}")
        return [at["step"] for at in json.loads(p.stdout) if at["whole"]]

    def lose_folder(self):
        """All at once, as a host goes: a process that has not ended yet makes nothing in it meanwhile."""
        gone = tempfile.mkdtemp(dir=self.tmp)
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.lost, f"{gone}/folder")
        shutil.rmtree(gone, ignore_errors=True)

    def lose(self):
        """A host's folder, a drive of all ranks, or a device of one. Of a rank's own states a killed process may still write some."""
        kind = self.r.choice(["folder", "folder", "device", "nothing"])
        self.lost = ""
        if kind == "folder":
            self.lost = self.r.choice(folders(self.run))
            self.lose_folder()
        elif kind == "device":
            self.lost = self.r.choice(self.drives or [f"{d}/dev{i}" for d in folders(self.run) for i in range(2)])
            how = self.r.choice(["removed", "zeroed", "cut", "flipped"])
            hurt(self.lost, how, self.r)
            kind = f"drive, {how}" if self.drives else f"device, {how}"
        count(f"lost: {kind}")

    def lose_again(self):
        if self.lost in folders(self.run) and self.r.random() < 0.3:
            count("lost again in a restore")
            self.lose_folder()

    def train(self):
        """Until it is killed, and something is lost at that moment."""
        def lose():
            if self.started.poll() is None and processes(self.run):
                count("lost while it trains")
            self.lose()

        try:
            self.go("training", [*self.resume, "--steps", str(STEPS)], self.lasts, lose)
        except RuntimeError as e:
            if not self.lost or "did not end" in str(e) or "went on" in str(e):
                raise
            count("trainings that ended by what was lost")

    def restore(self, had):
        count("restores")
        self.finish("restore", ["restore", self.run], 3.0, self.lose_again)
        if self.lost in folders(self.run) and not os.path.exists(self.lost):  # lost again when the restore had ended
            self.finish("restore", ["restore", self.run], 3.0)
        if "check --repair" in self.said():
            must("check", "--repair", self.run)
        at, now = len(trained_steps(self.run)), self.steps()
        if at < max(had) or max(now, default=-1) < max(had):
            raise RuntimeError(f"the run is at step {at}, its snapshots are {now}, and were {had}\n{self.said()}")

    def back(self):
        at, steps = len(trained_steps(self.run)), self.steps()
        step = self.r.choice([x for x in steps if x != at] or steps)  # of its own step, the snapshot may be of a branch that it left
        line = [*self.resume, "--from", str(step), "--steps", str(min(step // EVERY * EVERY + EVERY * self.r.randint(1, 2), STEPS))]
        if self.r.random() < 0.5:
            count("branches")
            self.finish("branching", [*line, "--lr", "5e-3", "--schedule", "constant", "--batch", "1"], 4.0)
            if step not in self.steps():
                raise RuntimeError(f"the snapshot after step {step} is gone, from which the branch began")
        count("goings back")
        self.finish("going back", line, 4.0)

    def round(self):
        at = len(trained_steps(self.run))
        had = [x for x in self.steps() if x <= at]  # later ones are of a branch that it left
        self.train()
        if self.lost:
            self.restore(had)
        if self.r.random() < 0.4:
            self.back()

    def two_hosts(self):
        first = self.r.randrange(RANKS)
        for i in first, (first + 1) % RANKS:
            shutil.rmtree(folders(self.run)[i])
        p = self.start(["restore", self.run])
        if p.wait(120) == 0 or f"lacks the part of rank {first}" not in self.said() or len([d for d in folders(self.run) if os.path.exists(d)]) != 1:
            raise RuntimeError(f"two hosts lost: exit {p.returncode}: {self.said()}")
        count("two hosts lost")


def trained_steps(d):
    return [row for row in trained(d) if len(row) > 3]


def tell(tmp, way, seed, rounds):
    story = Story(tmp, way, random.Random(f"{seed} {way}"))
    same = True
    try:
        story.make()
        for _ in range(rounds):
            story.round()
        story.go("training", [*story.resume, "--steps", str(STEPS)], None)
        same = compare(story, story.want, f"{way}, seed {seed}")
        if same and way.startswith("hosts"):
            story.two_hosts()
    except RuntimeError as e:
        same = result(False, f"{way}, seed {seed}: after {story.n} kills", e)
    if not same:
        kept = f"{tmp}.{seed}.{way.replace(' ', '')}"
        shutil.copytree(tmp, kept, symlinks=True)
        print(f"# all of it is in {kept}", flush=True)
    remove(story.run)
    for d in [*story.drives, f"{tmp}/dir", f"{tmp}/one"]:
        shutil.rmtree(d, ignore_errors=True)
    return same


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--seed", type=int, default=int(time.time()))
    a.add_argument("--minutes", type=float, default=20)
    a.add_argument("--rounds", type=int, default=6, help="of losses in a run")
    a.add_argument("names", nargs="*", help="only these ways")
    o = a.parse_args()
    end, seed, good = time.monotonic() + 60 * o.minutes, o.seed, True
    print(f"# seed {o.seed}", flush=True)
    tmp = tempfile.mkdtemp(prefix="sitrain-rank-losses.", dir="/var/tmp")
    ENV["OMPI_MCA_btl_vader_backing_directory"] = tmp  # what a killed rank shared with others would stay in /dev/shm
    try:
        make_text(tmp)
        while good and (time.monotonic() < end or seed == o.seed):
            for way in o.names or WAYS:
                good = tell(tmp, way, seed, o.rounds) and good
            seed += 1
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    print("# " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
