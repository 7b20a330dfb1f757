#!/usr/bin/env python3
"""plan_grid.py: what `siTrain plan` predicts beside what runs take, over models, modes, batches, budgets, links and the bare disk.

Each case is measured in rounds: its machine file (siTrain bench --save --probe: the sizes of this one model), its run, and the next case; each round
begins with another one. A prediction is the median of what the rounds' files give, a measurement the median of all steady steps. --whole predicts from
one file a round that has no case's sizes among its own (bench --save as it is by default). The exit code is 1 where a prediction is further off than
--limit. Standard library only."""
import argparse
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile

import common
from common import BIN

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import tiny_folder

VOCAB = 4096
PHASES = {"forward": "forward", "loss": "head", "backward": "backward", "grad_norm": "gradients", "grad_compress": "gradients"}


def model(layers, width, heads, batch, seq=128, accum=1):
    return ["--n-layer", layers, "--n-head", heads, "--n-embd", width, "--vocab", VOCAB, "--batch", batch, "--seq", seq, "--grad-accum", accum]


def slow(read, write, link, devices=2):
    return ["--devices", devices, "--csd-read-bw", read, "--csd-write-bw", write, "--link-bw", link]


def family(name, layers, batch, seq):
    """A Llama or Qwen2 by name, of fewer layers and words."""
    return ["--model", name, "--n-layer", layers, "--vocab", VOCAB, "--batch", batch, "--seq", seq]


def encoder(layers, width, heads, batch, seq):
    """A BERT, fine-tuned on rows that are all as long as they may be; its folder and rows are made by encoder_make."""
    return [ENCODER, (layers, width, heads), "--batch", batch, "--max-seq", seq]


ENCODER = "--init"
SMALL, WIDE, DEEP, LARGE = model(4, 128, 2, 4), model(3, 384, 6, 4), model(10, 192, 3, 2), model(4, 512, 8, 4, 256)
RECOMPUTE = ["--activations", "recompute"]
# name, what the run is, its options
CASES = [
    ("mem, 384 wide", WIDE + ["--mode", "mem"]),
    ("mem, 512 wide, 4 x 256", LARGE + ["--mode", "mem"]),
    ("mem, fp32, 10 layers", DEEP + ["--mode", "mem", "--dtype", "fp32"]),
    ("base, slow drives", WIDE + ["--mode", "base"] + slow("60M", "40M", "400M")),
    ("base, slow link", WIDE + ["--mode", "base"] + slow("400M", "300M", "60M")),
    ("su, slow drives", DEEP + ["--mode", "su"] + slow("60M", "40M", "400M")),
    ("su+o, slow drives", WIDE + ["--mode", "su+o"] + slow("60M", "40M", "400M")),
    ("su+o, 4 slow drives", DEEP + ["--mode", "su+o"] + slow("40M", "25M", "100M", 4)),
    ("su+o, slow link", WIDE + ["--mode", "su+o"] + slow("400M", "300M", "20M")),
    ("su+o, slow, recomputing", WIDE + ["--mode", "su+o", *RECOMPUTE] + slow("60M", "40M", "400M")),
    ("su+o, slow, offloading", WIDE + ["--mode", "su+o", "--activations", "offload", "--host-mem", "TIGHT"] + slow("60M", "40M", "100M")),
    ("su+o+c, slow drives", WIDE + ["--mode", "su+o+c"] + slow("60M", "40M", "400M")),
    ("su+o, disk, 8 x 256", model(4, 384, 6, 8, 256) + ["--mode", "su+o", "--devices", 2]),
    ("su+o, disk, tight", model(4, 384, 6, 8, 256) + ["--mode", "su+o", "--devices", 2, "--host-mem", "TIGHT"]),
    ("base, disk, 2 x 4 x 256", model(4, 384, 6, 4, 256, 2) + ["--mode", "base", "--devices", 2]),
    ("su+o, disk, 8 layers", model(8, 512, 8, 4, 256) + ["--mode", "su+o", "--devices", 2]),
    ("su+o, disk, few tokens", model(6, 384, 6, 1) + ["--mode", "su+o", "--devices", 2]),
    ("SmolLM2, mem, 8 layers", family("smollm2-135m", 8, 2, 256) + ["--mode", "mem"]),
    ("SmolLM2, su+o, slow drives", family("smollm2-135m", 4, 2, 256) + ["--mode", "su+o"] + slow("60M", "40M", "400M")),
    ("SmolLM2, su+o, disk", family("smollm2-135m", 8, 4, 256) + ["--mode", "su+o", "--devices", 2]),
    ("Qwen2.5, mem, fp32, 3 layers", family("qwen2.5-0.5b", 3, 2, 256) + ["--mode", "mem", "--dtype", "fp32"]),
    ("Qwen2.5, su+o, tight", family("qwen2.5-0.5b", 4, 4, 256) + ["--mode", "su+o", "--devices", 2, "--host-mem", "TIGHT"]),
    ("BERT, mem", encoder(4, 384, 6, 16, 128) + ["--mode", "mem"]),
    ("BERT, su+o, disk", encoder(6, 384, 6, 16, 128) + ["--mode", "su+o", "--devices", 2]),
    ("SmolLM2-135M whole, mem", ["--model", "smollm2-135m", "--batch", 2, "--seq", 256, "--mode", "mem"]),
    ("SmolLM2-135M whole, su+o", ["--model", "smollm2-135m", "--batch", 2, "--seq", 256, "--mode", "su+o", "--devices", 2, "--csd-mem", "48M"]),
]


def encoder_make(folder, layers, width, heads):
    """A folder of random numbers with a tokenizer of letters, and rows of 126 of them: the options that name both."""
    at, pieces = os.path.join(folder, f"bert-{layers}-{width}"), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    rows = os.path.join(at, "rows.tsv")
    named = {"embeddings.word_embeddings": [len(pieces), width], "embeddings.position_embeddings": [128, width],
             "embeddings.token_type_embeddings": [2, width]}
    shapes, norms = {name + ".weight": shape for name, shape in named.items()}, ["embeddings"]
    for layer in (f"encoder.layer.{i}." for i in range(layers)):
        for name, out, inner in (("attention.self.query", 1, 1), ("attention.self.key", 1, 1), ("attention.self.value", 1, 1),
                                 ("attention.output.dense", 1, 1), ("intermediate.dense", 4, 1), ("output.dense", 1, 4)):
            shapes |= {f"{layer}{name}.weight": [out * width, inner * width], f"{layer}{name}.bias": [out * width]}
        norms += [layer + "attention.output", layer + "output"]
    tensors = [(name, shape, 0) for name, shape in shapes.items()]
    tensors += [(f"{n}.LayerNorm.{part}", [width], base) for n in norms for part, base in (("weight", 1), ("bias", 0))]
    os.mkdir(at)
    tiny_folder.write(at, {"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": layers, "hidden_size": width,
                           "num_attention_heads": heads, "intermediate_size": 4 * width, "vocab_size": len(pieces),
                           "max_position_embeddings": 128}, tensors, 0.02)
    with open(os.path.join(at, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("".join(p + "\n" for p in pieces))
    with open(os.path.join(at, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True}, f)
    with open(rows, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n" + "".join(f"{' '.join(random.Random(i).choices('abcdefgh', k=126))}\t{i % 2}\n" for i in range(512)))
    return ["--init", at, "--train-file", rows]


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    common.options(p, rounds=3, steps=8, skip=3)
    p.add_argument("--limit", type=float, default=10, help="%% that a prediction may be off (default 10)")
    p.add_argument("--only", action="append", help="cases whose name has this in it")
    p.add_argument("--whole", action="store_true", help="predict from bench --save's default sizes")
    p.add_argument("--phases", action="store_true", help="print the parts of each step, predicted and measured")
    p.add_argument("--markdown", action="store_true", help="print the table as docs have it")
    return common.parse(p)


def said(argv, a):
    done = subprocess.run([str(x) for x in argv], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS=str(a.threads)))
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, argv))}: {done.stderr.strip()}")
    return done.stdout


def phases(db):
    """Medians of the computing thread's parts, and of its waits, over the steady steps."""
    rows = db.execute("SELECT step, phase, sum(end_ns - start_ns) / 1e9 FROM spans WHERE device < 0 OR phase LIKE 'wait_%' GROUP BY step, phase").fetchall()
    steps = {}
    for step, phase, seconds in rows:
        part = "waits" if phase.startswith("wait_") else PHASES.get(phase)
        if part:
            of = steps.setdefault(step, {})
            of[part] = of.get(part, 0) + seconds
    return [steps[s] for s in sorted(steps)]


def of_file(case, machine, a, folder):
    """What plan --machine says: seconds, and its parts."""
    out = json.loads(said([BIN, "plan", *case, "--machine", machine, "--run", os.path.join(folder, "run"), "--threads", a.threads, "--json", "-"], a))
    return out["step"]


def probe(case, a, folder):
    """A machine file with this model's sizes, measured now. What the model is not is left to plan."""
    keep, file = [], os.path.join(folder, "machine.conf")
    names = {"--init", "--model", "--n-layer", "--n-head", "--n-embd", "--vocab", "--batch", "--seq", "--max-seq", "--dtype"}
    for name, value in zip(case, case[1:]):
        if name in names:
            keep += ["--seq" if name == "--max-seq" else name, value]
    if "--init" in case:
        keep += ["--dropout", 0.1]  # as its config.json says, which is BERT's own
    said([BIN, "bench", "--save", file, "--probe", "--dir", folder, "--threads", a.threads, "--json", os.path.join(folder, "bench.json"), *keep], a)
    return file


def measure(name, case, tokens, whole, a):
    with tempfile.TemporaryDirectory(prefix="sitrain-plan-", dir=a.dir) as folder:
        machine = whole or probe(case, a, folder)
        step = of_file(case, machine, a, folder)
        run = ["finetune", "--eval-file", case[case.index("--train-file") + 1], "--eval-every", 1000000, "--max-eval-samples", 8] \
            if "--train-file" in case else ["pretrain", "--data", tokens]
        run = common.sitrain([*run, *([] if "--csd-mem" in case else ["--csd-mem", "16M"]), *case], a, lambda db: {"phases": phases(db)})
    return {"predicted": step, "seconds": run["seconds"][a.skip:], "phases": run["phases"][a.skip:a.steps]}


def median_parts(rows):
    keys = sorted({k for r in rows for k in r if isinstance(r[k], (int, float))})
    return {k: statistics.median(r.get(k, 0) for r in rows) for k in keys}


def summary(rounds):
    predicted = median_parts([r["predicted"] for r in rounds])
    measured = median_parts([p for r in rounds for p in r["phases"]])
    measured["seconds"] = statistics.median(s for r in rounds for s in r["seconds"])
    return predicted, measured


def table(results, a):
    worst, rows = 0, []
    for name, rounds in results.items():
        predicted, measured = summary(rounds)
        ratio = predicted["seconds"] / measured["seconds"]
        worst = max(worst, abs(ratio - 1))
        pace = statistics.mode(r["predicted"]["pace"] for r in rounds)
        rows.append((name, predicted, measured, ratio, pace))
    form = "| {:<26} | {:>9} | {:>9} | {:>6} | {} |" if a.markdown else "{:<26} {:>9} {:>9} {:>6}  {}"
    print(form.format("run", "predicted", "measured", "ratio", "pace"))
    if a.markdown:
        print("|---|---|---|---|---|")
    for name, predicted, measured, ratio, pace in rows:
        print(form.format(name, f"{predicted['seconds']:.3f} s", f"{measured['seconds']:.3f} s", f"{ratio:.2f}", pace))
        if a.phases:
            for part in ("forward", "head", "backward", "gradients", "waits"):
                print(f"    {part:<22} {predicted.get(part, 0):>9.3f} {measured.get(part, 0):>9.3f}")
    print(f"=> at most {100 * worst:.0f} % off")
    return worst


def main():
    a = options()
    cases = [c for c in CASES if not a.only or any(o in c[0] for o in a.only)]
    results = {name: [] for name, _ in cases}
    with tempfile.TemporaryDirectory(prefix="sitrain-plan-", dir=a.dir) as folder:
        tokens, whole = os.path.join(folder, "tokens.bin"), None
        common.make_tokens(tokens, 200000, VOCAB)
        given = {}
        for name, case in cases:
            if case[0] == ENCODER:
                case = [*encoder_make(folder, *case[1]), *case[2:]]
            if "TIGHT" in case:
                at = case.index("TIGHT")
                case[at] = common.host_mem(["--csd-mem", "16M", *case[:at - 1], *case[at + 1:]], 1.02)
            given[name] = case
        for r in range(a.rounds):
            if a.whole:
                whole = os.path.join(folder, "whole.conf")
                said([BIN, "bench", "--save", whole, "--dir", folder, "--threads", a.threads, "--vocab", VOCAB, "--n-layer", 1, "--n-head", 4, "--n-embd", 256], a)
            for i in range(len(cases)):
                name = cases[(i + r) % len(cases)][0]
                try:
                    results[name].append(measure(name, given[name], tokens, whole, a))
                except common.OutOfTime:
                    a.clock.end = 0
                if a.clock.left() < 0:
                    break
                predicted, measured = summary(results[name])
                print(f"{r + 1}/{a.rounds} {name}: {predicted['seconds']:.3f} {measured['seconds']:.3f}", file=sys.stderr, flush=True)
    results = {n: r for n, r in results.items() if r}
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"machine": common.machine(), "runs": results}, f, indent=1)
    return 1 if table(results, a) > a.limit / 100 else 0


if __name__ == "__main__":
    sys.exit(main())
