#!/usr/bin/env python3
"""steps.py: whole steps from drives against what bounds them, and what durable steps cost. `make bench-steps` runs it.

  bounds       `siTrain bench --only steps` for each model, mode and number of tokens: the time of a step over u0 + max(F, U - u0) + max(B + w0, W),
               and with --speculate over max(F + B + w0 + u0, U + W + h) (the letters are those of bench/bench_steps.c; on emulated devices also with the
               updates' arithmetic A on the computing side). --clipping: the same with a --clip that every step exceeds.
  durability   --durability step over none, su+o on 2 emulated devices, seconds a step; --durable-tokens
Rounds are interleaved (common.py). Standard library only. Environment: SITRAIN the program (./siTrain)."""
import argparse
import json
import os
import statistics
import tempfile
import time

import common

MODELS = {"124M": "gpt2", "355M": "gpt2-medium"}


def shape(tokens):
    batch, seq, accum = ([int(n) for n in tokens.split("x")] + [1])[:3]
    return ["--batch", batch, "--seq", seq, "--grad-accum", accum]


def model_arguments(model, tokens, mode, a):
    argv = ["--model", MODELS[model], *shape(tokens), "--dtype", a.dtype, "--mode", mode, "--devices", 2, "--csd-mem", "48M"]
    return argv + ["--host-mem", common.host_mem(argv)]


def measure_bound(model, mode, tokens, clip, a):
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sitrain-steps-", dir=a.dir) as folder:
        found = os.path.join(folder, "bench.json")
        argv = [common.BIN, "bench", "--only", "steps", "--dir", folder, "--json", found, "--rounds", 1, "--steps", a.steps, "--clip", clip, "--threads", a.threads]
        common.run_process(argv + model_arguments(model, tokens, mode, a), os.path.join(folder, "log"), a.clock)
        with open(found, encoding="utf-8") as f:
            section = json.load(f)["steps"]
    return {"bounds": section["bounds"] + speculation(section["bounds"]), "figures": section["figures"], "process_seconds": time.monotonic() - start}


def speculation(bounds):
    """The run with --speculate against the one without."""
    seconds = {b["run"]: b["seconds"] for b in bounds}
    ours, other = (seconds.get(run) for run in ("both, --speculate", "both"))
    if not ours or not other:
        return []
    return [{"run": "both, --speculate", "bound": "the run without it", "bound_seconds": other, "seconds": ours, "ratio": ours / other}]


def measure_run(model, tokens, mode, options, a):
    argv = ["pretrain", "--data", a.data, *model_arguments(model, tokens, mode, a), "--order", "sequential", *options]
    out = common.sitrain(argv, a)
    return out | {"step_seconds": statistics.median(out["seconds"][a.skip:])}


def say(x):
    if "step_seconds" in x:
        return f"{x['step_seconds']:.3f} s a step"
    return ", ".join(f"{b['run']} {b['seconds']:.3f} s, {b['ratio']:.2f} of {b['bound']}" for b in x["bounds"] if b["run"].startswith("both"))


def bound_rows(results, name):
    rounds = results.get(name, "bounds")
    for i, first in enumerate(next(iter(rounds.values()), [])):
        if first["run"].startswith("both"):
            each = [bounds[i] for bounds in rounds.values()]
            yield (f"| {name} | {first['run']} | {statistics.median(b['seconds'] for b in each):.3f} | {first['bound']} | "
                   f"{statistics.median(b['bound_seconds'] for b in each):.3f} | {common.spread([b['ratio'] for b in each], 2)} |")


def durable_table(results, names):
    """Of the names with `durability step`: over the same with `none`."""
    ratios = {n: results.ratios(n, n.replace("durability step", "durability none"), "step_seconds") for n in names if n.endswith("durability step")}
    if not any(ratios.values()):
        return []
    return ["| seconds a step, durability step / none | median (lowest - highest) |", "|---|---|", *(f"| {n} | {common.spread(r, 3)} |" for n, r in ratios.items() if r), ""]


def markdown(results, bounds, durable, a):
    data = results.data
    out = [f"{a.dtype}; {a.rounds} interleaved rounds; {a.threads} threads, {common.machine_line(data['machine'])}; {data['date']}.", ""]
    if bounds:
        out += ["| | run | s a step | bound | s | ratio: median (lowest - highest) |", "|---|---|---|---|---|---|"]
        out += [row for name in bounds for row in bound_rows(results, name)] + [""]
    out += durable_table(results, durable)
    return "\n".join(out + [f"{name}: left out: {why.splitlines()[0]}" for name, why in data["left_out"].items()])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.options(p, rounds=5, steps=4, skip=1)
    p.add_argument("--models", default="124M", help="124M,355M")
    p.add_argument("--modes", default="su+o,base")
    p.add_argument("--tokens", default="1x256,4x256,8x256,8x1024", help="for the bounds: micro-batch x length (x micro-batches), with commas; '': none")
    p.add_argument("--clipping", action="store_true", help="the bounds with steps that all clip, too")
    p.add_argument("--durable-tokens", default="8x1024", help="for the durability; '': none")
    p.add_argument("--dtype", default="bf16")
    a = common.parse(p)
    models, several = a.models.split(","), lambda text: [t for t in text.split(",") if t]
    bounds = {f"{m} {t} {mode}" + (" clipping" if clip else ""): (m, mode, t, clip)
              for m in models for t in several(a.tokens) for mode in a.modes.split(",") for clip in ([0, 1e-6] if a.clipping else [0])}
    durable = {f"{m} {t} durability {d}": (m, t, "su+o", ["--durability", d]) for m in models for t in several(a.durable_tokens) for d in ("step", "none")}
    results = common.Results(a.json, {k: getattr(a, k) for k in ("steps", "skip", "threads", "dtype")})
    measure = lambda name: measure_bound(*bounds[name], a) if name in bounds else measure_run(*durable[name], a)
    with tempfile.TemporaryDirectory(prefix="sitrain-steps-", dir=a.dir) as folder:
        a.data = os.path.join(folder, "tokens.bin")
        common.make_tokens(a.data, 16 * 8192)
        for r in range(a.rounds):
            if not all(results.round(r, list(group), measure, a, say) for group in (bounds, durable) if group):
                break
    print("\n" + markdown(results, bounds, durable, a))


main()
