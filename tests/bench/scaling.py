#!/usr/bin/env python3
"""scaling.py: how a token's time grows with layers, width, length, devices and accumulation. `make bench-scaling` runs it.

Small models (mode mem; devices: su+o), one thing varied at a time, each run a process of its own, rounds interleaved (common.py). Beside the time stands
the arithmetic of a token, forward and backward: 6 FLOPs a parameter (the update's work grows with the parameters, too) and 6 x layers x width x length for
attention. From both come exponents (a line through the logarithms). A sweep is fine if its time's exponent is at most its arithmetic's + 0.1, or, where
the arithmetic stays the same (devices, accumulation), if the last time is at most 1.1 times the first. Exit 1 where one is not.
Writes table.md and scaling.svg into --out. Standard library only. Environment: SITRAIN the program (./siTrain)."""
import argparse
import math
import os
import statistics
import sys
import tempfile

import common

BASE = {"layers": 4, "width": 256, "length": 256, "batch": 4, "accumulation": 1, "devices": 0}
VOCAB = 4096
SWEEPS = {  # of what, its values, and what else differs from BASE
    "layers": ([2, 4, 8, 16], {}),
    "width": ([128, 256, 512, 1024], {}),
    "length": ([128, 256, 512, 1024, 2048], {"batch": None}),  # batch: so that a step has 2,048 tokens
    "devices": ([1, 2, 4, 8], {"layers": 8}),
    "accumulation": ([1, 2, 4, 8], {}),
}
SLACK = 0.1


def config(sweep, value):
    c = BASE | SWEEPS[sweep][1] | {sweep: value}
    return c | {"batch": c["batch"] or 2048 // c["length"]}


def arithmetic(c):
    """FLOPs a token"""
    parameters = c["layers"] * (12 * c["width"] + 13) * c["width"] + (VOCAB + c["length"] + 2) * c["width"]
    return 6 * parameters + 6 * c["layers"] * c["width"] * c["length"]


def measure(sweep, value, a, data):
    c = config(sweep, value)
    argv = ["pretrain", "--data", data, "--n-layer", c["layers"], "--n-head", c["width"] // 64, "--n-embd", c["width"], "--vocab", VOCAB, "--seq", c["length"],
            "--batch", c["batch"], "--grad-accum", c["accumulation"], "--order", "sequential", "--dtype", a.dtype]
    if c["devices"]:
        argv += ["--mode", "su+o", "--devices", c["devices"], "--csd-mem", "16M", "--host-mem", "1G", "--durability", "none"]
    else:
        argv += ["--mode", "mem", "--durability", "none", "--commit-every", 1000000]
    out = common.sitrain(argv, a)
    tokens = c["batch"] * c["length"] * c["accumulation"]
    return out | {"token_us": 1e6 * statistics.median(out["seconds"][a.skip:]) / tokens}


def exponent(xs, ys):
    """The slope of a line through the logarithms."""
    lx, ly = [math.log(x) for x in xs], [math.log(y) for y in ys]
    mx, my = statistics.mean(lx), statistics.mean(ly)
    return sum((x - mx) * (y - my) for x, y in zip(lx, ly)) / sum((x - mx) ** 2 for x in lx)


class Sweep:
    """What was measured of one."""

    def __init__(self, name, results):
        self.name = name
        found = {v: results.get(f"{name} {v}", "token_us") for v in SWEEPS[name][0]}
        self.times = {v: statistics.median(t.values()) for v, t in found.items() if t}
        self.work = {v: arithmetic(config(name, v)) for v in self.times}
        first, last = min(self.times), max(self.times)
        self.grows = self.work[last] > 1.01 * self.work[first]
        self.exponent, self.allowed = exponent(self.times, self.times.values()), exponent(self.times, self.work.values())
        self.ratio = self.times[last] / self.times[first]
        self.fine = self.exponent <= self.allowed + SLACK if self.grows else self.ratio <= 1 + SLACK

    def rows(self):
        first = min(self.times)
        return [f"| {self.name} {v} | {t:.1f} | {t / self.times[first]:.2f} | {self.work[v] / self.work[first]:.2f} |" for v, t in self.times.items()]

    def verdict(self):
        last = max(self.times)
        fine = "fine" if self.fine else "GROWS FASTER"
        if self.grows:
            return f"| {self.name} | {self.exponent:.2f} | {self.allowed:.2f} | {fine} |"
        return f"| {self.name} | x {self.ratio:.2f} at {last} | x 1 | {fine} |"


def markdown(sweeps, results, a):
    data = results.data
    out = [f"4 layers, 256 wide, {VOCAB} words, batch 4 x 256 tokens where nothing else is said (length: 2,048 tokens a step; devices: 8 layers, su+o), {a.dtype}, "
           f"medians of {a.rounds} interleaved rounds of {a.steps} steps, the first {a.skip} of each left out; {a.threads} threads, "
           f"{common.machine_line(data['machine'])}; {data['date']}.", "",
           "| | time grows with exponent | arithmetic with | |", "|---|---|---|---|", *[s.verdict() for s in sweeps], "",
           "| | us a token | time, first = 1 | arithmetic, first = 1 |", "|---|---|---|---|", *[row for s in sweeps for row in s.rows()]]
    return "\n".join(out) + "\n"


# ---- the picture: a panel a sweep, both axes logarithmic ----

PANEL, GAP, TOP, HEIGHT = 190, 46, 44, 190


def ticks(low, high):
    """1, 2, 5, 10 ... within"""
    every = [m * 10 ** e for e in range(-3, 7) for m in (1, 2, 5)]
    return [t for t in every if low <= t <= high]


def panel(s, left):
    values = list(s.times)
    scaled = [s.times[values[0]] * s.work[v] / s.work[values[0]] for v in values]  # as it would be if time were arithmetic
    low, high = min([*s.times.values(), *scaled]) / 1.25, max([*s.times.values(), *scaled]) * 1.25
    at_x = lambda v: left + math.log(v / values[0]) / math.log(values[-1] / values[0]) * PANEL
    at_y = lambda t: TOP + (math.log(high) - math.log(t)) / (math.log(high) - math.log(low)) * HEIGHT
    out = [f'<text x="{left}" y="{TOP - 10}" font-weight="bold">{s.name}</text>']
    for t in ticks(low, high):
        out.append(f'<path d="M{left} {at_y(t):.1f}h{PANEL}" stroke="#ddd"/><text x="{left - 5}" y="{at_y(t) + 4:.1f}" text-anchor="end">{t:g}</text>')
    out += [f'<text x="{at_x(v):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{v}</text>' for v in values]
    line = lambda ys: " ".join(f"{at_x(v):.1f},{at_y(y):.1f}" for v, y in zip(values, ys))
    out.append(f'<polyline points="{line(scaled)}" fill="none" stroke="#888" stroke-dasharray="5 4"/>')
    out.append(f'<polyline points="{line(s.times.values())}" fill="none" stroke="#1b6ca8" stroke-width="2"/>')
    out += [f'<circle cx="{at_x(v):.1f}" cy="{at_y(t):.1f}" r="3" fill="#1b6ca8"/>' for v, t in s.times.items()]
    return out


def svg(sweeps):
    width, height = (PANEL + GAP) * len(sweeps) + GAP // 2, TOP + HEIGHT + 48
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#333">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, s in enumerate(sweeps):
        out += panel(s, GAP + i * (PANEL + GAP))
    out.append(f'<text x="{GAP}" y="{height - 10}"><tspan fill="#1b6ca8" font-weight="bold">measured, microseconds a token</tspan>'
               '<tspan dx="14" fill="#666">dashed: as the arithmetic grows</tspan></text></svg>\n')
    return "\n".join(out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.options(p, rounds=3, steps=6, skip=2)
    p.add_argument("--dtype", default="bf16")
    p.add_argument("--out", default="docs/lab/scaling")
    p.add_argument("--sweeps", default=",".join(SWEEPS))
    a = common.parse(p)
    names = a.sweeps.split(",")
    results = common.Results(a.json, {k: getattr(a, k) for k in ("steps", "skip", "threads", "dtype")})
    runs = {f"{s} {v}": (s, v) for s in names for v in SWEEPS[s][0]}
    with tempfile.TemporaryDirectory(prefix="sitrain-scaling-", dir=a.dir) as folder:
        data = os.path.join(folder, "tokens.bin")
        common.make_tokens(data, 1 << 17, VOCAB)
        for r in range(a.rounds):
            if not results.round(r, list(runs), lambda name: measure(*runs[name], a, data), a, lambda x: f"{x['token_us']:.1f} us a token"):
                sys.exit("the time ended first: call again to go on")
    if results.data["left_out"]:
        sys.exit("some runs failed")
    sweeps = [Sweep(name, results) for name in names]
    os.makedirs(a.out, exist_ok=True)
    for name, text in (("table.md", markdown(sweeps, results, a)), ("scaling.svg", svg(sweeps))):
        with open(os.path.join(a.out, name), "w", encoding="utf-8") as f:
            f.write(text)
    print(markdown(sweeps, results, a))
    sys.exit(0 if all(s.fine for s in sweeps) else 1)


main()
