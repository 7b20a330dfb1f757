#!/usr/bin/env python3
"""parts.py: where a step of mode mem goes. `make bench-parts` runs it; docs/bench.md says how to
read it.

Nothing in a step is timed for this: what products and kernels take by themselves (`siTrain bench
--only products,kernels,steps`), times how often a step has them, is laid beside the measured step,
and what is left over is said. Products are timed on operands that are in cache where they fit,
kernels on such as come from memory: in a step products are slower and kernels faster. Dropout is
none, and nothing is computed again.
And how often a step starts all threads, which costs what the kernel "start of all threads" takes,
or more where they sleep.
Options that are not listed here go to bench. Standard library only. Environment: SITRAIN the
program (./siTrain)."""

import argparse
import json

import common

# The kernels of a step beside its products, read off the families' files (model/family/gpt2.c, llama.c,
# bert.c) and the ends that they share (head.c): name, what counts it, times in a layer, CHUNK:
# times outside of all layers, and what the model must have.
CHUNK, LAYER, WINDOW, BATCH, LOGITS, PARAMS = range(6)
NARROW = lambda m: m["dtype"] != "fp32"
SHARES = lambda m: m["n_kv_head"] < m["n_head"]
WHOLE = lambda m: m["pieces"] == 1
NOT = lambda f: lambda m: not f(m)

ENDS = [
    ("sum of squares", PARAMS, 1), ("AdamW and rounding", PARAMS, 1),
]
GPT2 = [
    ("attention forward", LAYER, 1), ("attention backward", LAYER, 1),
    ("layernorm forward", CHUNK, 1, 1), ("residual and layernorm", CHUNK, 1),
    ("gelu forward", CHUNK, 1), ("residual", CHUNK, 1), ("sum of columns, rounding", CHUNK, 1),
    ("gelu backward and sums", CHUNK, 1), ("layernorm backward, rows, sums", CHUNK, 1),
    ("sum of columns", CHUNK, 1), ("layernorm backward, rows", CHUNK, 1),
    ("layernorm backward", CHUNK, 0, 1), ("softmax, loss and gradient", LOGITS, 1),
    ("embedding forward", BATCH, 1), ("embedding backward", BATCH, 1), *ENDS,
]
CAUSAL = [
    ("attention forward", LAYER, 1, 0, NOT(SHARES)),
    ("attention backward", LAYER, 1, 0, NOT(SHARES)),
    ("grouped attention forward", LAYER, 1, 0, SHARES),
    ("grouped attention backward", LAYER, 1, 0, SHARES), ("windowed attention forward", WINDOW, 1),
    ("windowed attention backward", WINDOW, 1),
    ("rmsnorm of heads", CHUNK, 1, 0, lambda m: m["qk_norm"]),
    ("rmsnorm of heads, backward", CHUNK, 1, 0, lambda m: m["qk_norm"]), ("rope forward", CHUNK, 1),
    ("rope backward", CHUNK, 1), ("sum of columns", CHUNK, 1, 0, lambda m: m["qkv_bias"]),
    ("softmax, loss and gradient", LOGITS, 1, 0, WHOLE),
    ("softmax of a piece", LOGITS, 1, 0, NOT(WHOLE)),
    ("rows of a piece, added", LOGITS, 1, 0, NOT(WHOLE)),
    ("gradient of a piece", LOGITS, 1, 0, NOT(WHOLE)), ("embedding, no positions", BATCH, 1),
    ("embedding backward, no positions", BATCH, 1), *ENDS,
]
LLAMA = [
    *CAUSAL, ("rmsnorm forward", CHUNK, 1, 1), ("residual and rmsnorm", CHUNK, 1),
    ("swiglu forward", CHUNK, 1), ("residual", CHUNK, 1), ("convert to bf16", CHUNK, 1, 0, NARROW),
    ("swiglu backward", CHUNK, 1), ("rmsnorm backward, rows, rounding", CHUNK, 1),
    ("rmsnorm backward, rows", CHUNK, 1), ("rmsnorm backward", CHUNK, 0, 1),
]
GEMMA = [
    *CAUSAL, ("rmsnorm (1 + w) forward", CHUNK, 2, 1), ("rmsnorm (1 + w) and sum", CHUNK, 2),
    ("geglu forward", CHUNK, 1), ("geglu backward", CHUNK, 1),
    ("rmsnorm (1 + w) backward, written", CHUNK, 2), ("rmsnorm (1 + w) backward, rows", CHUNK, 2),
    ("rmsnorm (1 + w) backward", CHUNK, 0, 1), ("scaling of embeddings", BATCH, 2),
]
# A layer's input is converted, and the embeddings are made, again in backward.
BERT = [
    ("bidirectional attention forward", LAYER, 1), ("bidirectional attention backward", LAYER, 1),
    ("convert to bf16", CHUNK, 2, 0, NARROW), ("residual and layernorm", CHUNK, 1),
    ("layernorm apply, wide", CHUNK, 1), ("gelu (erf) forward", CHUNK, 1), ("residual", CHUNK, 3),
    ("layernorm forward, wide", CHUNK, 1, 1), ("layernorm backward, written", CHUNK, 2, 1),
    ("copy", CHUNK, 2, 2), ("gelu (erf) backward", CHUNK, 1), ("layernorm apply", CHUNK, 1),
    ("sum of columns", CHUNK, 1), ("layernorm forward", CHUNK, 0, 1),
    ("softmax, loss and gradient", LOGITS, 1), ("sum of columns of logits", LOGITS, 1),
    ("embedding forward", BATCH, 2), ("embedding of types", BATCH, 2),
    ("embedding backward", BATCH, 1), ("embedding of types, backward", BATCH, 1), *ENDS,
]
PASSES = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "gemma": GEMMA,
    "bert": BERT,
}  # by the name that a machine file has for such layers


def calls(m, unit, each, behind, rows):
    micros, local = m["grad_accum"], m["windowed_layers"]
    tokens = micros * m["batch"] * m["seq"]
    return {
        CHUNK: (each * m["n_layer"] + behind) * tokens / rows,
        LAYER: each * (m["n_layer"] - local) * micros,
        WINDOW: each * local * micros,
        BATCH: each * micros,
        LOGITS: each * tokens * m["asked"] / rows * m["pieces"],
        PARAMS: each * m["parameters"] / rows,
    }[unit]


def kernel_parts(report):
    """(name, calls, seconds, least seconds, starts of all threads); the norm and the update go
    over all of a block's, or of the model's, at once."""
    m, measured = report["model"], {k["kernel"]: k for k in report["kernels"]}
    for name, unit, each, behind, needs in (
        p + (0, None)[len(p) - 3 :] for p in PASSES[m["layers"]]
    ):
        k = measured[name]
        n = calls(m, unit, each, behind, k["rows"]) if not needs or needs(m) else 0
        starts = (
            n * (k["threads"] > 1)
            if unit != PARAMS
            else m["blocks"] if name == "sum of squares" else 1
        )
        if n > 0:
            yield name, n, n * k["seconds"], n * k["bound_seconds"], starts


def product_parts(report):
    """By the engine that makes the most of a step in this precision, as `auto` takes it.

    oneDNN starts threads once for a product, and once for what it packs before, which of a layer's
    parameters is once for all its chunks; logits are two products."""
    bf16, products = report["model"]["dtype"] == "bf16", report["products"]
    engine = max(
        (
            e
            for e in products["engines"]
            if e["precision"].startswith("bf16") == bf16 and "note" not in e
        ),
        key=lambda e: e["step_flops_per_second"],
    )
    units = {u["precision"]: u["flops_per_second"] for u in products["units"]}
    unit = units.get(engine["precision"], units["fp32"])
    for s in products["shapes"]:
        n, flops, two = (
            s["times_a_step"],
            2 * s["m"] * s["n"] * s["k"],
            "A' B" in s["form"] or "logits" in s["product"],
        )
        starts = n * (2 if bf16 else 1) if two else n + s["packed"] * report["model"]["n_layer"]
        yield s["product"], n, n * flops / s[engine["name"]], n * flops / unit, starts


def parts(report):
    step = next(r for r in report["steps"]["runs"] if r["run"] == "mem")["seconds"]
    rows = {}
    for name, n, seconds, least, starts in [*product_parts(report), *kernel_parts(report)]:
        row = rows.setdefault(
            name, {"part": name, "calls": 0, "seconds": 0, "least": 0, "starts": 0}
        )
        for key, value in (
            ("calls", n),
            ("seconds", seconds),
            ("least", least),
            ("starts", starts),
        ):
            row[key] += value
        row["bound_share"] = row["least"] / row["seconds"]
    rows, taken = list(rows.values()), sum(r["seconds"] for r in rows.values())
    rows.append(
        {"part": "not accounted for", "calls": 0, "seconds": step - taken, "least": 0, "starts": 0}
    )
    for r in rows:
        r["share"] = r["seconds"] / step
    start = next(k for k in report["kernels"] if k["kernel"] == "start of all threads")["seconds"]
    return {
        "rows": rows,
        "parts_seconds": taken,
        "step_seconds": step,
        "rest_seconds": step - taken,
        "starts": sum(r["starts"] for r in rows),
        "start_seconds": start,
    }


def main():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("--json", help="file for the results")
    a, given = p.parse_known_args()
    common.usable(p)
    report = json.loads(
        common.program(
            "bench", *given, "--mode", "mem", "--only", "products,kernels,steps", "--json", "-"
        )
    )
    found = parts(report)
    print("Parts of a step of mode mem, each measured by itself")
    print(
        common.table(
            found["rows"],
            [
                ("part", "part", None, 1),
                ("calls", "calls", "%.0f", 1),
                ("seconds", "seconds", "%.4f", 1),
                ("share", "of a step", "%.1f %%", 100),
                ("bound_share", "of its bound", "%.0f %%", 100),
                ("starts", "starts", "%.0f", 1),
            ],
        )
    )
    print(f"=> the parts take {found['parts_seconds']:.3f} s, a step {found['step_seconds']:.3f}")
    print(
        f"=> {found['starts']:.0f} starts of all threads, {1e6 * found['start_seconds']:.1f} us "
        f"each where they spin: {found['starts'] * found['start_seconds']:.4f} s a step"
    )
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(report | {"parts": found}, f, indent=1)


common.main(main)
