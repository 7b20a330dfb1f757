#!/usr/bin/env python3
"""finetune.py: fine-tuning speed beside PyTorch's, on the CPU. `make bench-finetune` runs it.

The same work for each: a GPT-2 for sequence classification from the folder --init, GLUE's SST-2 from the folder --data, batch 32, rows padded to their
batch's longest rounded up to 16, AdamW, clipping at 1.0, products in bf16 (PyTorch: autocast), fp32 master parameters, all cores (--threads).
Rounds are interleaved, each a run of --steps steps of which the first --skip are left out, since a shared machine's speed drifts; the ratio
is formed inside a round, then the median is taken. Rows per second of siTrain come from its own steps in run.db. Tokenising is left out on
both sides. siTrain runs in --mode mem.

Environment: SITRAIN the program (./siTrain)."""
import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
BATCH = 32


def torch_worker(a):
    import torch
    from transformers import AutoTokenizer, GPT2ForSequenceClassification
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    tokenizer = AutoTokenizer.from_pretrained(a.init)
    model = GPT2ForSequenceClassification.from_pretrained(a.init, num_labels=2, pad_token_id=50256, dtype=torch.float32).train()
    model.config.use_cache = False
    with open(os.path.join(a.data, "train.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f][1:]
    order = torch.randperm(len(rows))[:a.steps * BATCH].tolist()
    ids = [(tokenizer(rows[i][0])["input_ids"][:128], int(rows[i][1])) for i in order]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    seconds = []
    for s in range(a.steps):
        batch = ids[s * BATCH:(s + 1) * BATCH]
        length = -(-max(len(x) for x, _ in batch) // 16) * 16
        x = torch.full((BATCH, length), 50256)
        mask = torch.zeros(BATCH, length, dtype=torch.long)
        for i, (row, _) in enumerate(batch):
            x[i, :len(row)] = torch.tensor(row)
            mask[i, :len(row)] = 1
        y = torch.tensor([label for _, label in batch])
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=x, attention_mask=mask, labels=y).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


def run_torch(a, seed):
    command = [sys.executable, __file__, "--worker", "--init", a.init, "--data", a.data, "--steps", str(a.steps), "--threads", str(a.threads), "--seed", str(seed)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    return json.loads(out.splitlines()[-1])


def run_sitrain(a, seed):
    folder = tempfile.mkdtemp(prefix="finetune-", dir=a.dir)
    try:
        subprocess.run([BIN, "finetune", "--run", folder + "/run", "--task", "sst2", "--data", a.data, "--init", a.init, "--epochs", "1", "--steps", str(a.steps),
                        "--batch", str(BATCH), "--lr", "1e-4", "--max-seq", "128", "--mode", "mem", "--dtype", "bf16", "--seed", str(seed), "--threads",
                        str(a.threads), "--max-eval-samples", "32", "--quiet"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        db = sqlite3.connect(folder + "/run/run.db")
        return [s for (s,) in db.execute("SELECT seconds FROM steps ORDER BY step")]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--init", required=True)
    p.add_argument("--data", required=True, help="SST-2's own folder")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--skip", type=int, default=5)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--dir", default=None)
    a = p.parse_args()
    if a.worker:
        return torch_worker(a)
    rate = {"siTrain": [], "PyTorch": []}
    for r in range(a.rounds):
        for name, runner in [("siTrain", run_sitrain), ("PyTorch", run_torch)][::1 if r % 2 == 0 else -1]:
            seconds = runner(a, r + 1)[a.skip:]
            rate[name].append(BATCH * len(seconds) / sum(seconds))
            print(f"round {r + 1}: {name} {rate[name][-1]:.1f} rows/s", flush=True)
    ratios = [s / t for s, t in zip(rate["siTrain"], rate["PyTorch"])]
    for name, rates in rate.items():
        print(f"{name}: median {statistics.median(rates):.1f} rows/s ({min(rates):.1f} - {max(rates):.1f})")
    print(f"siTrain / PyTorch: median {statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f}), {a.rounds} rounds of {a.steps} steps, {a.threads} threads")


main()
