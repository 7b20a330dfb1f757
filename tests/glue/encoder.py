#!/usr/bin/env python3
"""encoder.py: a small BERT fine-tuned by siTrain and by PyTorch, from the same parameters, on the same rows of SST-2. `make glue-encoder` runs it.

The BERT (4 layers of 256, WordPiece trained on the rows) is a classifier of random numbers, made once: no pretrained one is needed, and what a program
learns is all that it shows. Both train it by the recipe of reference.py (AdamW on all parameters, linear decay after 6% warm-up, clip 1) in fp32.
  --seeds   with dropout 0.1 and an order of the rows by seed, which each program draws for itself: accuracy and loss on the development set. Equal are
            two programs whose means are no further apart than their seeds scatter: |difference| <= 2 sqrt((s1^2 + s2^2) / seeds).
  --curve   without dropout, rows in the file's order: the losses of so many steps, which may differ by 1e-3.
The exit code is 1 where one of these does not hold. Needs torch, transformers, tokenizers. Environment: SITRAIN the program (./siTrain)."""
import argparse
import json
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile

import tokenizers
import torch
import transformers

import reference
from table import BIN, FOLDERS

WORDS, LR, BATCH = 8192, 3e-4, 32
SIZES = dict(num_hidden_layers=4, hidden_size=256, num_attention_heads=4, intermediate_size=1024, max_position_embeddings=128)


def make_folder(to, data):
    """A classifier of random numbers, with its tokenizer."""
    texts = [line.split("\t")[0] for line in open(os.path.join(data, "train.tsv"), encoding="utf-8")][1:]
    pieces = tokenizers.BertWordPieceTokenizer()
    pieces.train_from_iterator(texts, vocab_size=WORDS, show_progress=False)
    vocab = sorted(pieces.get_vocab().items(), key=lambda x: x[1])
    transformers.BertTokenizerFast(vocab=dict(vocab)).save_pretrained(to)
    torch.manual_seed(1)
    config = transformers.BertConfig(vocab_size=len(vocab), num_labels=2, **SIZES)
    transformers.BertForSequenceClassification(config).save_pretrained(to)


def sitrain(a, seed, options):
    """One run: its evaluation, and the losses of its steps."""
    with tempfile.TemporaryDirectory(prefix="glue-", dir=a.dir) as folder:
        run = os.path.join(folder, "run")
        command = [BIN, "finetune", "--run", run, "--task", "sst2", "--data", a.data, "--init", a.init, "--batch", BATCH, "--seed", seed,
                   "--lr", LR, "--schedule", "linear", "--weight-decay", reference.DECAY, "--decay", "all", "--clip", 1, "--max-seq", reference.LENGTH,
                   "--max-train-samples", a.rows, "--warmup", round(reference.WARMUP * a.steps), "--mode", "mem", "--dtype", "fp32", "--durability", "none", "--commit-every", 1000000,
                   "--eval-every", 1000000, "--quiet", "--threads", a.threads, *options]
        subprocess.run(list(map(str, command)), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "eval_results.json"), encoding="utf-8") as f:
            found = json.load(f)
        db = sqlite3.connect(os.path.join(run, "run.db"))
        losses = [r[0] for r in db.execute("SELECT loss FROM steps ORDER BY step")]
        db.close()
    return found["eval_accuracy"], found["eval_loss"], losses


def pytorch(a, seed, rows, dev, steps, **changes):
    recipe = reference.Recipe(lr=LR, batch=BATCH, epochs=a.epochs, precision=torch.float32, max_steps=steps, **changes)
    model, losses = reference.train(a, recipe, seed, rows)
    right, loss = 0, 0.0
    for out, y in reference.outputs(model, a, recipe, dev):
        right += int((out.argmax(-1) == y).sum())
        loss += float(torch.nn.functional.cross_entropy(out, y, reduction="sum"))
    return right / len(dev), loss / len(dev), losses


def near(name, ours, theirs):
    """Whether two means are as near as their scatter asks for; says so."""
    bound = 2 * math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / len(ours))
    apart = statistics.mean(ours) - statistics.mean(theirs)
    each = lambda x: f"{statistics.mean(x):.4f} ({', '.join(f'{v:.4f}' for v in x)})"
    print(f"{name}: siTrain {each(ours)}, PyTorch {each(theirs)}: {apart:+.4f} apart, {bound:.4f} allowed", flush=True)
    return abs(apart) <= bound


def curve(a, rows, dev):
    """In the rows' order without dropout the two are one computation."""
    ours = sitrain(a, 1, ["--steps", a.curve, "--schedule-steps", a.steps, "--order", "sequential", "--dropout", 0])[2]
    theirs = pytorch(a, 1, rows, dev, a.curve, shuffled=False, dropout=0.0)[2]
    apart = [abs(x - y) for x, y in zip(ours, theirs)]
    print(f"without dropout, in order: losses of {len(apart)} steps, {ours[0]:.4f} to {statistics.mean(ours[-10:]):.4f} (the last ten): "
          f"at most {max(apart):.1e} apart, {statistics.mean(apart):.1e} in the mean", flush=True)
    return len(apart) == a.curve and max(apart) <= 1e-3


def scatter(a, rows, dev):
    ours, theirs = [], []
    for seed in range(1, a.seeds + 1):
        ours.append(sitrain(a, seed, ["--steps", a.steps])[:2])
        theirs.append(pytorch(a, seed, rows, dev, -1)[:2])
        print(f"seed {seed}: accuracy, loss: siTrain {ours[-1][0]:.4f}, {ours[-1][1]:.4f}; PyTorch {theirs[-1][0]:.4f}, {theirs[-1][1]:.4f}", flush=True)
    good = [near(name, [x[i] for x in ours], [x[i] for x in theirs]) for i, name in enumerate(("accuracy", "loss"))]
    return all(good)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, help="GLUE's folder, with SST-2 in it")
    p.add_argument("--rows", type=int, default=4000, help="of the training data, the first so many")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--seeds", type=int, default=3, help="at least 2")
    p.add_argument("--curve", type=int, default=100, help="steps")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--dir", default=None, help="for the runs; removed as they end")
    a = p.parse_args()
    if a.seeds < 2 or a.curve < 10 or a.curve * BATCH > a.rows * a.epochs:
        p.error("--seeds: at least 2; --curve: at least 10, and no more than the epochs' steps")
    a.data, a.task, a.device = os.path.join(a.data, FOLDERS["sst2"]), "sst2", "cpu"
    torch.set_num_threads(a.threads)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="glue-init-", dir=a.dir) as a.init:
        make_folder(a.init, a.data)
        rows, dev = (reference.read(os.path.join(a.data, f), a.task, reference.tokenizer_of(a), a.rows) for f in ("train.tsv", "dev.tsv"))
        a.steps = -(-len(rows) // BATCH) * a.epochs
        good = [curve(a, rows, dev), scatter(a, rows, dev)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
