#!/usr/bin/env python3
"""finetune.py: fine-tuning speed beside PyTorch's, on the CPU. `make bench-finetune` runs it.

The same work for each: a GPT-2 for sequence classification from the folder --init, rows of GLUE's SST-2 from the folder --data, batch 32, at
most 128 tokens, rows padded to their batch's longest rounded up to 16, AdamW, clipping at 1.0, fp32 master parameters, dropout as config.json
says. Each round takes other rows, the same for all. Tokenising, evaluating and writing the result are left out on both sides.
  siTrain bf16, siTrain fp32     finetune --mode mem
  PyTorch autocast               transformers' model, products in bf16: only where the CPU has bf16 products (else some hundred times slower)
  PyTorch fp32                   the same in fp32
Rounds are interleaved (common.py). Needs torch and transformers. Environment: SITRAIN the program (./siTrain)."""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time

from common import Results, options, parse, run_process, sitrain, spread, machine_line

BATCH, LONGEST = 32, 128
NAMES = ["siTrain bf16", "siTrain fp32", "PyTorch autocast", "PyTorch fp32"]
RATIOS = [("siTrain bf16", "PyTorch autocast"), ("siTrain bf16", "PyTorch fp32"), ("siTrain fp32", "PyTorch fp32")]


# ---- PyTorch, in a process of its own ----

def read_batches(a, torch, tokenizer):
    with open(os.path.join(a.data, "train.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f][1:]
    ids = [tokenizer(text)["input_ids"][:LONGEST] for text, _ in rows]
    for first in range(0, a.steps * BATCH, BATCH):
        batch = ids[first:first + BATCH]
        length = -(-max(map(len, batch)) // 16) * 16
        x = torch.tensor([row + [50256] * (length - len(row)) for row in batch])
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in batch])
        yield x, mask, torch.tensor([int(label) for _, label in rows[first:first + BATCH]])


def worker(a):
    import torch
    from transformers import AutoTokenizer, GPT2ForSequenceClassification
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = GPT2ForSequenceClassification.from_pretrained(a.init, num_labels=2, pad_token_id=50256, dtype=torch.float32).train()
    model.config.use_cache = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    seconds, losses = [], []
    for x, mask, y in read_batches(a, torch, AutoTokenizer.from_pretrained(a.init)):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=a.worker == "PyTorch autocast"):
            loss = model(input_ids=x, attention_mask=mask, labels=y).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
    with open(a.result, "w", encoding="utf-8") as f:
        json.dump({"seconds": seconds, "losses": losses, "version": torch.__version__}, f)


# ---- the rounds ----

def run_torch(name, a, data):
    result, start = os.path.join(data, "result.json"), time.monotonic()
    rss = run_process([sys.executable, __file__, "--worker", name, "--init", a.init, "--data", data, "--steps", a.steps, "--skip", a.skip, "--threads",
                       a.threads, "--result", result], os.path.join(data, "log"), a.clock)
    with open(result, encoding="utf-8") as f:
        return json.load(f) | {"peak_rss": rss, "process_seconds": time.monotonic() - start}


def measure(name, a, data):
    if name.startswith("siTrain"):
        out = sitrain(["finetune", "--task", "sst2", "--data", data, "--init", a.init, "--epochs", 1, "--batch", BATCH, "--lr", "1e-4", "--max-seq", LONGEST,
                       "--mode", "mem", "--dtype", name.split()[1], "--durability", "none", "--commit-every", 1000000], a)
    else:
        out = run_torch(name, a, data)
    return out | {"rate": BATCH * (a.steps - a.skip) / sum(out["seconds"][a.skip:])}


def write_rows(a, r, folder):
    """Rows for one round: a folder as GLUE has it."""
    with open(os.path.join(a.data, "train.tsv"), encoding="utf-8") as f:
        head, *lines = f.read().splitlines()
    for name, count in (("train", a.steps * BATCH), ("dev", BATCH)):
        with open(os.path.join(folder, name + ".tsv"), "w", encoding="utf-8") as f:
            f.write("\n".join([head, *random.Random(r).sample(lines, count)]) + "\n")


def markdown(results, a):
    data = results.data
    version = next((x["version"] for runs in data["runs"].values() for x in runs.values() if "version" in x), "none")
    out = [f"{a.rounds} interleaved rounds of {a.steps} steps, the first {a.skip} of each left out; {a.threads} threads, "
           f"{machine_line(data['machine'])}; PyTorch {version}; {data['date']}.", "", "| | rows/s: median (lowest - highest) | peak RSS |", "|---|---|---|"]
    for name in NAMES:
        rates = results.get(name, "rate").values()
        if rates:
            out.append(f"| {name} | {spread(rates, 1)} | {max(results.get(name, 'peak_rss').values()) / 1e9:.2f} GB |")
    out += ["", "| ratio of rows/s, in the same round | median (lowest - highest) |", "|---|---|"]
    out += [f"| {x} / {y} | {spread(ratio, 2)} |" for x, y in RATIOS if (ratio := results.ratios(x, y, "rate"))]
    return "\n".join(out + [f"\n{name}: left out: {why.splitlines()[0]}" for name, why in data["left_out"].items()])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(p, steps=60, skip=5)
    p.add_argument("--init", required=True, help="a Hugging Face folder of a GPT-2")
    p.add_argument("--data", required=True, help="SST-2's own folder")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--result", help=argparse.SUPPRESS)
    a = parse(p)
    if a.worker:
        return worker(a)
    results = Results(a.json, {k: getattr(a, k) for k in ("steps", "skip", "threads")})
    if not {"avx512_bf16", "amx_bf16"} & set(results.data["machine"]["flags"]):
        results.leave_out("PyTorch autocast", "this CPU has no bf16 products")
    say = lambda x: f"{x['rate']:.1f} rows/s, loss {x['losses'][0]:.3f} -> {statistics.mean(x['losses'][-5:]):.3f}, {x['process_seconds']:.0f} s"
    for r in range(a.rounds):
        with tempfile.TemporaryDirectory(prefix="finetune-", dir=a.dir) as folder:
            write_rows(a, r, folder)
            if not results.round(r, NAMES, lambda name: measure(name, a, folder), a, say):
                break
    print(markdown(results, a))


main()
