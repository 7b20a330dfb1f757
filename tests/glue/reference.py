#!/usr/bin/env python3
"""reference.py: the recipe of table.py in PyTorch, to know what a figure should be and how far seeds scatter it.

GPT2Model of transformers, a linear head on the last token that is not padding, AdamW on all parameters, autocast bf16, linear decay after
6% warm-up, clip 1. Prints a line a seed and the mean. Needs torch, transformers, tokenizers; --device cuda where there is one.

    reference.py --data GLUE --init HFDIR --task cola --seeds 1,2,3 [--device cuda] [--max-steps N]"""
import argparse
import os
import statistics

import tokenizers
import torch
import transformers

from table import FOLDERS, RECIPE

COLUMNS = {"cola": (0, [3], 1), "sst2": (1, [0], 1), "mrpc": (1, [3, 4], 0)}  # header lines, columns of the texts, of the label
END, LENGTH, LR, WARMUP, DECAY = 50256, 128, 1e-4, 0.06, 0.01


def read(path, task, tok):
    header, texts, label = COLUMNS[task]
    rows = []
    with open(path, encoding="utf-8-sig") as f:
        for line in list(f)[header:]:
            part = line.rstrip("\r\n").split("\t")
            ids = tok.encode(part[texts[0]]).ids
            for t in texts[1:]:
                ids = ids + [END] + tok.encode(part[t]).ids
            rows.append((ids[:LENGTH], int(part[label])))
    return rows


def batch(rows, device):
    x = torch.full((len(rows), max(len(ids) for ids, _ in rows)), END)
    for i, (ids, _) in enumerate(rows):
        x[i, :len(ids)] = torch.tensor(ids)
    last = torch.tensor([len(ids) - 1 for ids, _ in rows])
    return x.to(device), last.to(device), torch.tensor([y for _, y in rows]).to(device)


class Classifier(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        self.body = transformers.GPT2Model.from_pretrained(folder, dtype=torch.float32)
        self.head = torch.nn.Linear(self.body.config.n_embd, 2)

    def forward(self, x, last):
        hidden = self.body(input_ids=x).last_hidden_state
        return self.head(hidden[torch.arange(len(x), device=x.device), last])


def logits(model, device, rows):
    x, last, y = batch(rows, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        return model(x, last).float(), y


def counts(model, device, rows):
    """True and false positives and negatives."""
    seen = {(p, y): 0 for p in (0, 1) for y in (0, 1)}
    model.eval()
    with torch.no_grad():
        for i in range(0, len(rows), 64):
            out, y = logits(model, device, rows[i:i + 64])
            for pair in zip(out.argmax(-1).tolist(), y.tolist()):
                seen[pair] += 1
    return seen[1, 1], seen[1, 0], seen[0, 0], seen[0, 1]


def metric(task, tp, fp, tn, fn):
    if task == "cola":
        root = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
        return (tp * tn - fp * fn) / root if root else 0.0
    return 2 * tp / (2 * tp + fp + fn) if task == "mrpc" else (tp + tn) / (tp + fp + tn + fn)


def train(a, task, seed, rows):
    epochs, size = RECIPE[task].epochs, RECIPE[task].batch
    torch.manual_seed(seed)
    model = Classifier(a.init).to(a.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY)
    steps = (len(rows) + size - 1) // size * epochs
    warm = round(WARMUP * steps)
    step = 0
    for _ in range(epochs):
        order = torch.randperm(len(rows)).tolist()
        for i in range(0, len(order), size):
            if step == a.max_steps:
                return model
            for group in optimizer.param_groups:
                group["lr"] = LR * ((step + 1) / warm if step < warm else 1 - (step - warm) / (steps - warm))
            out, y = logits(model, a.device, [rows[j] for j in order[i:i + size]])
            torch.nn.functional.cross_entropy(out, y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
    return model


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True)
    p.add_argument("--init", required=True)
    p.add_argument("--task", required=True, choices=COLUMNS)
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--device", default="cpu")
    p.add_argument("--max-steps", type=int, default=-1)
    a = p.parse_args()
    tok = tokenizers.Tokenizer.from_file(os.path.join(a.init, "tokenizer.json"))
    rows, dev = (read(os.path.join(a.data, FOLDERS[a.task], f), a.task, tok) for f in ("train.tsv", "dev.tsv"))
    found = []
    for seed in a.seeds.split(","):
        model = train(a, a.task, int(seed), rows)
        found.append(100 * metric(a.task, *counts(model, a.device, dev)))
        print(a.task, "seed", seed, f"{found[-1]:.1f}", flush=True)
    print(a.task, "mean", f"{statistics.mean(found):.1f}")


if __name__ == "__main__":
    main()
