#!/usr/bin/env python3
"""snapshots.py: what snapshots cost a training next to which they are copied. `make bench-snapshots` runs it.

A run without limits says how long its steps take and what each drive moves. Drives are then modelled of such a speed that they are busy for these
shares of a step (--busy, in percent), and the run goes without snapshots and with one every --every steps:

  median       of the seconds of a step, the commit and the wait for the drives included
  mean         of the seconds from one step to the next: what snapshots keep a training from between two steps is in it
  predicted    the mean with snapshots by the mean without, as `siTrain plan` says it for this machine (bench --probe) and these drives
  a snapshot   the seconds from its begin until it is whole

--parity N: the snapshots lie on the devices' drives, with parity (--snapshot-on devices).
Rounds are interleaved (common.py). Standard library only. Environment: SITRAIN the program (./siTrain)."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

import common


def look(a):
    def ask(db):
        begun = [row[0] for row in db.execute("SELECT start_ns FROM spans WHERE phase = 'step' AND step >= ? ORDER BY start_ns", (a.skip,))]
        moved = db.execute("SELECT max(b) FROM (SELECT sum(bytes + padding_bytes) AS b FROM traffic WHERE step = ? AND device >= 0 "
                           "AND phase != 'snapshot' GROUP BY device)", (a.skip + 2,)).fetchone()[0]
        taken = [row[0] for row in db.execute("SELECT seconds FROM snapshots WHERE step > 0")]
        return {"begun_ns": begun, "moved": moved, "snapshots": taken}
    return ask


def options(a, bw, every, folder):
    argv = ["--model", "gpt2", "--n-layer", a.layers, "--n-embd", a.width, "--n-head", 4, "--batch", a.batch, "--seq", 256, "--mode", a.mode, "--csd-mem", "48M"]
    argv += [x for d in range(a.devices) for x in ("--device", os.path.join(folder, f"d{d}"))] if a.parity else ["--devices", a.devices]
    argv += ["--csd-read-bw", bw, "--csd-write-bw", bw] if bw else []
    argv += ["--snapshot-every", every, "--snapshots", 1] if every else []
    return argv + (["--snapshot-on", "devices", "--parity", a.parity] if every and a.parity else [])


def predicted(a, bw):
    """How much longer a step takes on average, as plan says."""
    with tempfile.TemporaryDirectory(prefix="sitrain-bench-", dir=a.dir) as folder:
        argv = [common.BIN, "plan", *options(a, bw, a.every, folder), "--run", os.path.join(folder, "run"), "--machine", a.machine, "--threads", a.threads, "--json", "-"]
        return json.loads(subprocess.run(list(map(str, argv)), check=True, stdout=subprocess.PIPE).stdout)["snapshots"]["longer"]


def measure(name, a, bw, every):
    with tempfile.TemporaryDirectory(prefix="sitrain-bench-", dir=a.dir) as folder:
        for d in range(a.devices):
            os.mkdir(os.path.join(folder, f"d{d}"))
        out = common.sitrain(["pretrain", "--data", a.data, "--order", "sequential", *options(a, bw, every, folder)], a, look(a))
    between = [(y - x) * 1e-9 for x, y in zip(out["begun_ns"], out["begun_ns"][1:])]
    return {"median": statistics.median(out["seconds"][a.skip:]), "mean": statistics.mean(between), "moved": out["moved"],
            "snapshot": statistics.median(out["snapshots"]) if out["snapshots"] else 0}


def say(x):
    return f"median {x['median']:.3f} s, mean {x['mean']:.3f} s a step" + (f", a snapshot {x['snapshot']:.2f} s" if x["snapshot"] else "")


def markdown(results, shares, plans, a):
    data = results.data
    where = f" on {a.devices} devices with --parity {a.parity}" if a.parity else ""
    out = [f"{a.layers} layers of width {a.width}, {a.mode}, a snapshot{where} every {a.every} of {a.steps} steps; {a.rounds} interleaved rounds; {a.threads} threads, "
           f"{common.machine_line(data['machine'])}; {data['date']}.", "",
           "| drives busy | s a step without | median, with / without | mean, with / without | predicted | a snapshot, s |", "|---|---|---|---|---|---|"]
    for share in shares:
        alone, beside = f"{share} % without", f"{share} % with"
        seconds = results.get(alone, "median").values()
        taken = results.get(beside, "snapshot").values()
        if seconds and taken:
            out.append(f"| {share} % | {statistics.median(seconds):.3f} | {common.spread(results.ratios(beside, alone, 'median'), 3)} | "
                       f"{common.spread(results.ratios(beside, alone, 'mean'), 3)} | {plans[share]:.3f} | {statistics.median(taken):.2f} |")
    return "\n".join(out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.options(p, rounds=5, steps=60, skip=5)
    p.add_argument("--busy", default="50,80,100", help="shares of a step, in percent")
    p.add_argument("--every", type=int, default=20)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--mode", default="su+o")
    p.add_argument("--devices", type=int, default=2)
    p.add_argument("--parity", type=int, default=0, help="drives that may be lost; 0: the snapshots lie in a folder")
    a = common.parse(p)
    shares = [int(s) for s in a.busy.split(",")]
    results = common.Results(a.json, {k: getattr(a, k) for k in ("steps", "skip", "threads", "every", "layers", "width", "batch", "mode", "devices", "parity")})
    with tempfile.TemporaryDirectory(prefix="sitrain-snapshots-", dir=a.dir) as folder:
        a.data = os.path.join(folder, "tokens.bin")
        common.make_tokens(a.data, 64 * 8192)
        free = measure("free", a, 0, 0)
        print("without limits:", say(free), flush=True)
        a.machine = os.path.join(folder, "machine.conf")
        common.run_process([common.BIN, "bench", "--n-layer", 1, "--n-head", 4, "--n-embd", a.width, "--vocab", 50257, "--seq", 256, "--batch", a.batch,
                            "--threads", a.threads, "--probe", "--dir", folder, "--save", a.machine], os.path.join(folder, "log"), a.clock)
        # a drive of which all is busy moves its bytes in the time that the step takes without limits
        runs = {f"{s} % {kind}": (int(free["moved"] / free["median"] * 100 / s), every) for s in shares for kind, every in (("without", 0), ("with", a.every))}
        plans = {s: predicted(a, runs[f"{s} % with"][0]) for s in shares}
        for r in range(a.rounds):
            if not results.round(r, list(runs), lambda name: measure(name, a, *runs[name]), a, say):
                break
    print("\n" + markdown(results, shares, plans, a))


common.main(main)
