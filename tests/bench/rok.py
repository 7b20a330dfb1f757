#!/usr/bin/env python3
"""rok.py: the ROK curve of SSDTrain (DAC 2025, arXiv 2408.10013): what recomputing, offloading and
keeping activations give for the memory that they take, and what those ways give that choose.
`make bench-rok` runs it; docs/activations.md has what it found.

x  the activations' peak, bytes in RAM: all of the memory plan whose size goes by a step's tokens
   (ITEMS below). It is made at open and so is what is held at most; where a way chooses what it
   keeps, that much of it counts. Beside it stands the peak of the process's resident set, which has
   parameters, gradients, the program and emulated devices' memory too.
y  the model's throughput: FLOPs of forward and backward over the step's time. They are those of the
   algorithm: what is computed again counts once.

A point is a way and a batch. Without --host-mem each way gets the memory that it needs: `keep` what
keeps all, and `ssdtrain`, which would leave in memory what cannot be written in time, as much;
`recompute` and `offload` what they can work with; `auto` what `offload` gets; and all the same
buffers for parameters and gradients. There is one run for each batch, and the ways take turns with
it, each time in a process of its own that resumes it.
Options that are not listed here go to plan and to pretrain. Standard library only. Environment:
SITRAIN the program (./siTrain)."""

import argparse
import json
import os
import re
import statistics
import tempfile

import charts
import common

MODEL = ["--n-layer", 4, "--n-head", 4, "--n-embd", 256]
REST = ["--seq", 1024, "--csd-mem", "16M", "--devices", 2, "--mode", "su+o"]
ITEMS = ("kept activations", "activation buffers", "block inputs", "work buffers", "head chunks")
NEEDS = {"auto": "offload", "ssdtrain": "keep"}  # whose memory a way gets
# First steps of each visit that are left out: the first update looks at every value, and the step
# behind it waits for it; a way that chooses has measured and
# chosen before the others.
UNSTEADY = {"auto": 26, "ssdtrain": 7}
# Between what a plan needs here and in the run, whose measured parts may come out a step larger.
SLACK = 4 << 20


def plan(argv, batch, way, megabytes, accum):
    """What plan prints; RuntimeError where it does not fit."""
    return common.program(
        "plan",
        *argv,
        "--batch",
        batch,
        "--activations",
        way,
        "--host-mem",
        f"{megabytes}M",
        "--probe",
        "off",
        "--grad-accum",
        accum,
    )


def flops(argv, batch):
    """Of a micro-batch: those of a million, which are printed to a tenth of a GFLOP."""
    said = plan(argv, batch, "recompute", 1 << 30, 10**6)
    return float(re.search(r"([\d.]+) GFLOP", said)[1]) * 1e3


def enough(a, argv, batch, way, megabytes):
    """Is there all that makes a step faster but for kept activations, and with `keep` these too?"""
    try:
        said = plan(argv, batch, way, megabytes, a.accum)
    except RuntimeError as why:
        if "needs at least" not in str(why):
            raise
        return False
    has = {
        m[1]: (int(m[2]), int(m[3]))
        for m in re.finditer(r"^(\w[\w ]*?) +[\d.]+ MiB +(\d+) of (\d+) layers", said, re.M)
    }
    wanted = {"layer frames": 3, "layer gradients": 2} | (
        {"kept activations": 1 << 30} if way == "keep" else {}
    )
    return all(has[item][0] >= min(has[item][1], n) for item, n in wanted.items())


def need(a, argv, batch, way):
    """The least --host-mem with enough, to a MiB, and SLACK."""
    low, high = 1, 2
    while not enough(a, argv, batch, way, high):
        low, high = high, high * 2
        if high > 1 << 20:
            raise RuntimeError(f"no --host-mem is enough for --activations {way}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(a, argv, batch, way, middle) else (middle, high)
    return (high << 20) + SLACK


def points(a, argv):
    out = []
    for way in a.ways:
        for batch in a.batches:
            memory = a.host_mem or need(a, argv, batch, NEEDS.get(way, way))
            plan(argv, batch, way, memory >> 20, a.accum)  # it fits
            out.append(
                {
                    "way": way,
                    "batch": batch,
                    "host_mem": memory,
                    "flop": flops(argv, batch) * a.accum,
                    "steps": [],
                }
            )
    return out


def visit(a, argv, folder, p):
    """One more opening of the batch's run, for a point of it."""
    run, skip = os.path.join(folder, f"batch-{p['batch']}"), UNSTEADY.get(p["way"], 1)
    make = [
        "--data",
        os.path.join(folder, "tokens.bin"),
        *argv,
        "--batch",
        p["batch"],
        "--grad-accum",
        a.accum,
        "--durability",
        "none",
    ]
    first = common.visit(
        run,
        make,
        ["--activations", p["way"], "--host-mem", p["host_mem"], "--schedule-steps", 10**6],
        skip + a.steps,
    )
    rows = common.query(
        run, "SELECT seconds, peak_rss FROM steps WHERE step >= ? ORDER BY step", first + skip
    )
    chosen = common.query(
        run,
        "SELECT kept_bytes, step FROM choices WHERE step >= ? ORDER BY step DESC LIMIT 1",
        first,
    )
    memory = dict(
        reversed(value.split(" ", 1))
        for value, in common.query(run, "SELECT value FROM runs WHERE key LIKE 'memory.%'")
    )
    held = {name: int(memory.get(name, 0)) for name in ITEMS}
    if chosen:
        held["kept activations"] = chosen[0][0]
        p["late"] = p.get("late", False) or chosen[0][1] >= first + skip
    p["steps"] += [s for s, _ in rows]
    p |= {"activation_bytes": sum(held.values()), "peak_rss": rows[-1][1]}


def rows_of(a, all_points):
    rows, of_first = [], {}
    for p in all_points:
        s, tokens = statistics.median(p["steps"]), p["batch"] * a.seq * a.accum
        first = of_first.setdefault(p["batch"], {"seconds": s, "bytes": p["activation_bytes"]})
        rows.append(
            {k: p[k] for k in ("way", "batch", "host_mem", "activation_bytes", "peak_rss", "steps")}
            | {
                "seconds": s,
                "least": min(p["steps"]),
                "most": max(p["steps"]),
                "flops_per_second": p["flop"] / s,
                "tokens_per_second": tokens / s,
                "bytes_of_first": p["activation_bytes"] / first["bytes"] - 1,
                "seconds_of_first": s / first["seconds"] - 1,
                "late": p.get("late", False),
            }
        )
    return rows


def show(a, rows):
    print(f"Activations' peak and rate of the model's arithmetic, mode {a.mode}")
    print(
        common.table(
            rows,
            [
                ("way", "", None, 1),
                ("batch", "batch", "%d", 1),
                ("activation_bytes", "activations MB", "%.1f", 1e-6),
                ("bytes_of_first", "difference", "%+.0f %%", 100),
                ("peak_rss", "RSS MB", "%.0f", 1e-6),
                ("host_mem", "host-mem MB", "%.0f", 1e-6),
                ("seconds", "s a step", "%.3f", 1),
                ("least", "least", "%.3f", 1),
                ("most", "most", "%.3f", 1),
                ("seconds_of_first", "difference", "%+.1f %%", 100),
                ("flops_per_second", "GFLOP/s", "%.1f", 1e-9),
            ],
        )
    )
    for r in rows:
        if r["late"]:
            print(
                f"  {r['way']}, batch {r['batch']}: it was still choosing while it was measured: "
                "others use the machine, or steps vary"
            )
    print(f"  differences: from {a.ways[0]} with the same batch")


def plot(a, rows):
    series = [
        (
            way,
            [
                (r["activation_bytes"] / 1e6, r["flops_per_second"] / 1e9)
                for r in rows
                if r["way"] == way
            ],
        )
        for way in a.ways
    ]
    with open(a.plot, "w", encoding="utf-8") as f:
        f.write(
            charts.lines(
                "The rate of a step's arithmetic against the activations' peak",
                "GFLOP/s",
                "MB",
                series,
                even=True,
            )
        )


def known_ways():
    return re.search(r"--activations (\S+)", common.program("pretrain", "--help", "all"))[1].split(
        "|"
    )


def options():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("--batches", default="1,2,4,8", help="values of --batch: a point of each curve")
    p.add_argument("--ways", help="values of --activations, with commas between (default: all)")
    p.add_argument("--host-mem", help="the same for all ways, instead of what each needs")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=2, help="of each visit, that count")
    p.add_argument("--vocab", type=int, default=2048, help="of the model, and of its random tokens")
    p.add_argument("--grad-accum", type=int, default=1, dest="accum")
    p.add_argument("--dir", default=".", help="for the runs, which are removed at the end")
    p.add_argument("--json", help="file for the results")
    p.add_argument("--plot", help="file for the curves (SVG)")
    a, given = p.parse_known_args()
    common.usable(p)
    a.ways = a.ways.split(",") if a.ways else known_ways()
    unknown = [w for w in a.ways if w not in known_ways()]
    if unknown:
        p.error(f"--ways {unknown[0]}: expected {', '.join(known_ways())}")
    if not re.fullmatch(r"\d+(,\d+)*", a.batches) or a.rounds < 1 or a.steps < 1:
        p.error("--batches: sizes with commas between; --rounds and --steps: at least 1")
    a.batches = [int(b) for b in a.batches.split(",")]
    size = re.fullmatch(r"(\d+)([MG])", a.host_mem) if a.host_mem else None
    if a.host_mem and not size:
        p.error("--host-mem: a size in M or G")
    a.host_mem = int(size[1]) << {"M": 20, "G": 30}[size[2]] if size else 0
    argv = common.completed(given, [(MODEL, {"--model", "--init"}), (REST, set())]) + [
        "--vocab",
        str(a.vocab),
    ]
    a.seq, a.mode = (argv[argv.index(name) + 1] for name in ("--seq", "--mode"))
    a.seq = int(a.seq)
    if a.mode == "mem":
        p.error("--mode mem has no devices to offload to; base, su and su+o have")
    return a, argv


def main():
    a, argv = options()
    with tempfile.TemporaryDirectory(prefix="sitrain-rok-", dir=a.dir) as folder:
        common.make_tokens(os.path.join(folder, "tokens.bin"), 64 * a.seq, a.vocab)
        found = points(a, argv)
        for r in range(a.rounds):
            for i in range(len(found)):
                visit(a, argv, folder, found[(i + r) % len(found)])
    rows = rows_of(a, found)
    show(a, rows)
    if a.plot:
        plot(a, rows)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(
                {
                    "machine": common.machine(),
                    "arguments": argv,
                    "rok": {"mode": a.mode, "ways": a.ways, "rows": rows},
                },
                f,
                indent=1,
            )


common.main(main)
