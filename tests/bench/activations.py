#!/usr/bin/env python3
"""activations.py: is `--activations auto` ever slower than the best pure way? `make bench-activations` runs it; docs/activations.md has what it found.

A case is a model, the tokens of a step, a budget, a modelled host link, a mode, a task, and cores that are free or that as many busy processes share. In each
case the pure ways (keep, recompute, offload) and those that choose (auto, ssdtrain) take turns within the same --host-mem, in interleaved rounds (common.py). A
trial of the pure ways comes first: one that takes more than 1.5 times as long as the fastest there is not measured again. So each of auto's runs stands between
two of the best pure way, and a round's ratio is auto's over the mean of these two. What is compared is the median of --steps steps behind the first --skip, of auto
behind the first --settle, in which it tries what it finds, or as many as it takes. Batches of a fine-tuning vary: there all ways make auto's steps.
A case whose ratio's median is above --limit gets two rounds more, since others use the machine, too; if it still is, and all ratios but one are above 1, auto is
worse there, and the exit code is 1.

Budgets: `least` is what all ways can work with, as `siTrain plan` says, and a little; `half` has room beside for half of what keep would keep.
Standard library only. Environment: SITRAIN the program (./siTrain)."""
import argparse
import collections
import contextlib
import itertools
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

import common

MODELS = {"8x128": (8, 2, 128, 1024), "6x384": (6, 6, 384, 4096), "12x768": (12, 12, 768, 50257)}  # layers, heads, width, words
AXES = {
    "model": ["8x128", "6x384"],
    "tokens": ["2x4x256", "1x4x1024", "1x2x128"],  # micro-batches x rows x length
    "budget": ["least", "half"],
    "link": ["8M", "24M", "400M", "none"],
    "mode": ["su+o", "base", "su", "su+o+c"],
    "task": ["pretrain", "finetune"],
    "cores": ["free", "busy"],
}
Case = collections.namedtuple("Case", AXES)
DEFAULT = ["8x128 2x4x256 least 8M su+o pretrain free", "8x128 2x4x256 least 8M su+o pretrain busy", "8x128 2x4x256 least 24M base pretrain free",
           "8x128 2x4x256 half 400M su+o+c pretrain busy", "8x128 2x4x256 half none su pretrain free", "8x128 2x4x256 least 24M su+o finetune free"]
PURE, CHOOSING = ("keep", "recompute", "offload"), ("auto", "ssdtrain")
HOPELESS = 1.5  # times the fastest of the trial
MORE = 2  # rounds for a case that is above the limit
SLACK = 12 << 20  # between the least that a plan names and one that surely fits at every start
WORDS = "sea ship storm sailor island whale captain harbour wind wave".split()


# ---- what runs are made of ----

class Places:
    """What several cases share: token files, starts of fine-tunings and their rows, and the budgets; made when they are first asked for."""

    def __init__(self, folder, a):
        self.folder, self.a, self.made = folder, a, {}

    def once(self, name, make):
        if name not in self.made:
            self.made[name] = make(os.path.join(self.folder, name))
        return self.made[name]

    def tokens(self, case):
        def make(path):
            common.make_tokens(path, (self.a.steps + self.a.settle) * 4096, MODELS[case.model][3])
            return path
        return self.once(f"tokens-{MODELS[case.model][3]}", make)

    def tokenizer(self):
        """One of few words, trained on sentences of them."""
        def make(path):
            r = random.Random(1)
            with open(path + ".txt", "w", encoding="utf-8") as f:
                f.writelines(" ".join(r.choices(WORDS, k=8)) + ".\n" for _ in range(400))
            common.program("prepare", path + ".txt", "--train-tokenizer", "--vocab", 300, "--out", path)
            return path
        return self.once("tokenizer", make)

    def start(self, case):
        """A language model as Hugging Face has it, random but for one step."""
        def make(path):
            layers, heads, width, _ = MODELS[case.model]
            common.program("pretrain", "--run", path + ".run", "--data", self.tokenizer() + ".txt", "--tokenizer", self.tokenizer(), "--n-layer", layers, "--n-head", heads,
                    "--n-embd", width, "--seq", 256, "--batch", 1, "--steps", 1, "--mode", "mem", "--durability", "none", "--quiet")
            common.program("export", path + ".run", path)
            return path
        return self.once(f"start-{case.model}", make)

    def rows(self):
        """Labelled rows of 1 to 60 words."""
        def make(path):
            r = random.Random(2)
            with open(path, "w", encoding="utf-8") as f:
                f.write("sentence,label\n")
                f.writelines(f"{' '.join(r.choices(WORDS, k=r.randint(1, 60)))},{r.randint(0, 1)}\n" for _ in range(1024))
            return path
        return self.once("rows.csv", make)

    def host_mem(self, case):
        def make(_):
            shape = ["--probe", "off", *arguments(case, self, plan=True)]
            least = max(megabytes(shape, way) for way in self.a.ways) << 20
            if case.budget == "half":
                said = common.program("plan", *shape, "--activations", "keep", "--host-mem", "64G")
                kept = re.search(r"^kept activations +([0-9.]+) MiB", said, re.M)
                least += int(float(kept.group(1)) * (1 << 19))
            return least + SLACK
        return self.once(f"host-mem {case._replace(link='', cores='')}", make)


def megabytes(shape, way):
    return int(common.host_mem([*shape, "--activations", way], 1)[:-1])


def arguments(case, places, plan=False):
    accum, batch, length = map(int, case.tokens.split("x"))
    layers, heads, width, vocab = MODELS[case.model]
    argv = ["--batch", batch, "--grad-accum", accum, "--mode", case.mode, "--devices", 2, "--csd-mem", "4M"]
    if case.task == "finetune":
        argv += ["--init", places.start(case), "--train-file", places.rows(), "--max-seq", min(length, 256), "--steps" if plan else "--seed", 7]
    else:
        argv += ["--n-layer", layers, "--n-head", heads, "--n-embd", width, "--vocab", vocab, "--seq", length]
    return argv


# ---- measuring ----

BUSY = "import os\np = os.getppid()\nwhile os.getppid() == p:\n    for i in range(10 ** 6): pass\n"


@contextlib.contextmanager
def busy(n):
    """n processes that compute as long as this one lives and has something to measure."""
    children = [subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.DEVNULL) for _ in range(n)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def look(db):
    db.row_factory = lambda cursor, row: {c[0]: v for c, v in zip(cursor.description, row)}
    return {"choices": db.execute("SELECT * FROM choices ORDER BY step").fetchall()}


def measure(case, way, a, places):
    argv = [case.task, *arguments(case, places), "--activations", way, "--host-mem", places.host_mem(case), "--durability", "none"]
    argv += ["--data", places.tokens(case), "--order", "sequential"] if case.task == "pretrain" else ["--max-train-samples", 1024]
    if case.link != "none":
        argv += ["--link-bw", case.link]
    settle = a.settle if way == "auto" or case.task == "finetune" else a.skip
    with busy(a.threads if case.cores == "busy" else 0):
        out = common.sitrain(argv, argparse.Namespace(**vars(a) | {"steps": settle + a.steps}), look)
    return out | {"step_seconds": steady(out, settle)}


def steady(run, first):
    """Seconds of the median step from `first` on; of auto of those after its last choice, where two of them are left: the first step behind one is not counted."""
    first = max([first, *(c["step"] + 1 for c in run["choices"])])
    return statistics.median(run["seconds"][min(first, len(run["seconds"]) - 2):])


# ---- what came out ----

class Found:
    """Of one case: the best pure way, and what the choosing ones take beside it, by rounds; round 0 is the trial."""

    def __init__(self, case, results, a):
        self.case, self.a = case, a
        self.times = {way: {int(r): t for r, t in results.get(run_name(case, way), "step_seconds").items()} for way in a.ways}
        self.times = {way: rounds for way, rounds in self.times.items() if rounds}
        self.choices = results.get(run_name(case, "auto"), "choices")
        self.median = {way: statistics.median(rounds.values()) for way, rounds in self.times.items()}
        pure = self.hopeful()
        self.best = min(pure, key=self.median.get) if pure else None

    def hopeful(self):
        """The pure ways that the trial leaves."""
        trial = {way: self.times[way][0] for way in PURE if 0 in self.times.get(way, {})}
        return [way for way, t in trial.items() if t <= HOPELESS * min(trial.values())]

    def ratios(self, way):
        """Over the best pure way before and after, by rounds."""
        best = self.times.get(self.best, {})
        return [t / statistics.mean([best[r - 1], best[r]]) for r, t in self.times.get(way, {}).items() if r - 1 in best and r in best]

    def above(self):
        ratios = self.ratios("auto")
        return bool(ratios) and statistics.median(ratios) > self.a.limit

    def worse(self):
        ratios = sorted(self.ratios("auto"))
        return self.above() and ratios[1 if len(ratios) > 2 else 0] > 1

    def chosen(self):
        """What auto ended with in the last round, as run.db has it."""
        last = list(self.choices.values())[-1:]
        return choice_text(last[0]) if last else "-"

    def row(self):
        cells = [f"**{self.median[w]:.3f}**" if w == self.best else f"{self.median[w]:.3f}" if w in self.median else "-" for w in self.a.ways]
        over = [common.spread(self.ratios(w), 2) if self.ratios(w) else "-" for w in CHOOSING if w in self.a.ways]
        return "| " + " | ".join([" ".join(self.case), *cells, *over, self.chosen()]) + " |"


def choice_text(choices):
    """Of how many layers each part is kept and offloaded; the rest is recomputed."""
    if not choices:
        return "as it began"
    c = choices[-1]
    parts = ", ".join(f"{name} {c[part + '_kept']}+{c[part + '_offloaded']}" for name, part in (("I", "inputs"), ("A", "attentions"), ("M", "mlps")))
    return f"step {c['step'] + 1}: {parts} of {c['layers']}"


def run_name(case, way):
    return f"{' '.join(case)}: {way}"


def say(x):
    return f"{x['step_seconds']:.3f} s a step, {x['process_seconds']:.0f} s" + (f"; {choice_text(x['choices'])}" if x["choices"] else "")


def markdown(found, results, a):
    data = results.data
    choosing = [w for w in CHOOSING if w in a.ways]
    out = [f"{a.rounds} rounds and a trial (more where auto was above {a.limit}), medians of {a.steps} steps after {a.skip}, of auto and of all fine-tunings after {a.settle}; "
           f"{a.threads} threads, {common.machine_line(data['machine'])}; {data['date']}. Seconds of a step; the best pure way is bold. What auto ended "
           "with: inputs, attentions and MLPs of so many layers kept + offloaded, the rest recomputed.", "",
           "| model, tokens, budget, link, mode, task, cores | " + " | ".join(a.ways) + " | " + " | ".join(f"{w} / best pure" for w in choosing) + " | auto ended with |",
           "|---" * (2 + len(a.ways) + len(choosing)) + "|"]
    out += [f.row() for f in found] + [""]
    ratios = [statistics.median(f.ratios("auto")) for f in found if f.ratios("auto")]
    if ratios:
        out.append(f"auto over the best pure way: {common.spread(ratios, 2)} in {len(ratios)} cases; above {a.limit} beyond noise in {sum(f.worse() for f in found)}.")
    return "\n".join(out + [f"{name}: left out: {why.splitlines()[0]}" for name, why in data["left_out"].items()])


# ---- cases ----

def cases(a, parser):
    """--all: all; with an axis given, all of what is given and the first of each other; else DEFAULT."""
    given = {axis: getattr(a, axis) for axis in AXES}
    if not a.all and not any(given.values()):
        return [Case(*text.split()) for text in DEFAULT]
    values = []
    for axis, words in AXES.items():
        known = MODELS if axis == "model" else words if axis != "tokens" else None
        chosen = given[axis].split(",") if given[axis] else words if a.all else words[:1]
        for word in chosen:
            if known and axis != "link" and word not in known or axis == "tokens" and not re.fullmatch(r"\d+x\d+x\d+", word):
                parser.error(f"--{axis} {word}: {', '.join(known or words)}")
        values.append(chosen)
    return [Case(*c) for c in itertools.product(*values)]


def ways():
    known = subprocess.run([common.BIN, "pretrain", "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    return [*PURE, *(w for w in CHOOSING if re.search(rf"\b{w}\b", known))]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.options(p, rounds=1, steps=4, skip=2)
    for axis, words in AXES.items():
        p.add_argument(f"--{axis}", help=f"{','.join(MODELS if axis == 'model' else words)}; with commas between")
    p.add_argument("--all", action="store_true", help="the whole grid, many hours: with --json and --seconds in parts")
    p.add_argument("--settle", type=int, default=26, help="first steps of auto that are not counted")
    p.add_argument("--limit", type=float, default=1.05, help="auto's time over the best pure way's, at most")
    a = common.parse(p)
    a.ways = ways()
    grid = cases(a, p)
    results = common.Results(a.json, {k: getattr(a, k) for k in ("steps", "skip", "settle", "threads")})
    found = lambda case: Found(case, results, a)
    with tempfile.TemporaryDirectory(prefix="sitrain-activations-", dir=a.dir) as folder:
        places = Places(folder, a)
        for case in grid:
            take_turns(case, found, results, a, places)
            print(found(case).row(), flush=True)
    measured = [f for f in map(found, grid) if f.best]
    print("\n" + markdown(measured, results, a))
    return 1 if any(f.worse() for f in measured) else 0


def take_turns(case, found, results, a, places):
    for r in range(1 + a.rounds + MORE):
        if r > a.rounds and not found(case).above():
            return
        names = {run_name(case, way): way for way in (found(case).hopeful() + [w for w in a.ways if w not in PURE] if r else PURE)}
        if not results.round(r, list(names), lambda name: measure(case, names[name], a, places), a, say):
            return


sys.exit(main())
