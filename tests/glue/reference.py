#!/usr/bin/env python3
"""reference.py: the recipe of table.py in PyTorch, to know what a figure should be and how far seeds scatter it.

transformers' model: a GPT-2 with a linear head on the last token that is not padding, or an encoder's classifier as its folder has it; AdamW on all
parameters, autocast bf16, linear decay after 6% warm-up, clip 1. Prints a line a seed and the mean. Needs torch, transformers, tokenizers; --device cuda
where there is one.

    reference.py --data GLUE --init HFDIR --task cola --seeds 1,2,3 [--device cuda] [--max-steps N]"""
import argparse
import collections
import os
import statistics

import tokenizers
import torch
import transformers

from table import FOLDERS, RECIPE

COLUMNS = {"cola": (0, [3], 1), "sst2": (1, [0], 1), "mrpc": (1, [3, 4], 0)}  # header lines, columns of the texts, of the label
END, LENGTH, LR, WARMUP, DECAY = 50256, 128, 1e-4, 0.06, 0.01
# dropout None: as config.json says; max_steps -1: all
Recipe = collections.namedtuple("Recipe", "lr batch epochs precision max_steps shuffled dropout", defaults=(torch.bfloat16, -1, True, None))


def is_encoder(a):
    return transformers.AutoConfig.from_pretrained(a.init).model_type in ("bert", "roberta")


def tokenizer_of(a):
    """texts of a row to (ids, token types): as the tokenizer's template has them, or, of a GPT-2, A, END, B."""
    if is_encoder(a):
        encoder = transformers.AutoTokenizer.from_pretrained(a.init)

        def rows(*texts):
            x = encoder(*texts, truncation=True, max_length=LENGTH, return_token_type_ids=True)
            return x["input_ids"], x["token_type_ids"]
        return rows
    tok = tokenizers.Tokenizer.from_file(os.path.join(a.init, "tokenizer.json"))

    def joined(first, *more):
        ids = tok.encode(first).ids
        for t in more:
            ids = ids + [END] + tok.encode(t).ids
        return ids[:LENGTH], None
    return joined


def read(path, task, tok, most=None):
    header, texts, label = COLUMNS[task]
    rows = []
    with open(path, encoding="utf-8-sig") as f:
        for line in list(f)[header:][:most]:
            part = line.rstrip("\r\n").split("\t")
            rows.append((*tok(*(part[t] for t in texts)), int(part[label])))
    return rows


def padded(rows, value):
    x = torch.full((len(rows), max(map(len, rows))), value)
    for i, row in enumerate(rows):
        x[i, :len(row)] = torch.tensor(row)
    return x


class Classifier(torch.nn.Module):
    """A GPT-2's."""

    def __init__(self, folder):
        super().__init__()
        self.body = transformers.GPT2Model.from_pretrained(folder, dtype=torch.float32)
        self.head = torch.nn.Linear(self.body.config.n_embd, 2)

    def forward(self, ids, _):
        last = torch.tensor([len(row) - 1 for row in ids])
        device = self.head.weight.device
        hidden = self.body(input_ids=padded(ids, END).to(device)).last_hidden_state
        return self.head(hidden[torch.arange(len(ids)), last])


class Encoder(torch.nn.Module):
    """As its folder has it, pooler and head too."""

    def __init__(self, folder, dropout):
        super().__init__()
        rates = {} if dropout is None else {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        self.body = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, **rates)

    def forward(self, ids, types):
        x = {"input_ids": padded(ids, self.body.config.pad_token_id), "token_type_ids": padded(types, 0),
             "attention_mask": padded([[1] * len(row) for row in ids], 0)}
        return self.body(**{name: t.to(self.body.device) for name, t in x.items()}).logits


def logits(model, device, precision, rows):
    ids, types, y = zip(*rows)
    with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        return model(ids, types).float(), torch.tensor(y).to(device)


def outputs(model, a, recipe, rows):
    """Logits and labels, by batches."""
    model.eval()
    with torch.no_grad():
        for i in range(0, len(rows), 64):
            yield logits(model, a.device, recipe.precision, rows[i:i + 64])


def counts(model, a, recipe, rows):
    """True and false positives and negatives."""
    seen = {(p, y): 0 for p in (0, 1) for y in (0, 1)}
    for out, y in outputs(model, a, recipe, rows):
        for pair in zip(out.argmax(-1).tolist(), y.tolist()):
            seen[pair] += 1
    return seen[1, 1], seen[1, 0], seen[0, 0], seen[0, 1]


def metric(task, tp, fp, tn, fn):
    if task == "cola":
        root = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
        return (tp * tn - fp * fn) / root if root else 0.0
    return 2 * tp / (2 * tp + fp + fn) if task == "mrpc" else (tp + tn) / (tp + fp + tn + fn)


def train(a, recipe, seed, rows):
    """The model, and the losses of its steps."""
    size, losses = recipe.batch, []
    torch.manual_seed(seed)
    model = (Encoder(a.init, recipe.dropout) if is_encoder(a) else Classifier(a.init)).to(a.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, weight_decay=DECAY)
    steps = (len(rows) + size - 1) // size * recipe.epochs
    warm = round(WARMUP * steps)
    for _ in range(recipe.epochs):
        order = torch.randperm(len(rows)).tolist() if recipe.shuffled else range(len(rows))
        for i in range(0, len(order), size):
            step = len(losses)
            if step == recipe.max_steps:
                return model, losses
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr * ((step + 1) / warm if step < warm else 1 - (step - warm) / (steps - warm))
            out, y = logits(model, a.device, recipe.precision, [rows[j] for j in order[i:i + size]])
            loss = torch.nn.functional.cross_entropy(out, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return model, losses


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True)
    p.add_argument("--init", required=True)
    p.add_argument("--task", required=True, choices=COLUMNS)
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--device", default="cpu")
    p.add_argument("--max-steps", type=int, default=-1)
    a = p.parse_args()
    rows, dev = (read(os.path.join(a.data, FOLDERS[a.task], f), a.task, tokenizer_of(a)) for f in ("train.tsv", "dev.tsv"))
    recipe = Recipe(LR, RECIPE[a.task].batch, RECIPE[a.task].epochs, max_steps=a.max_steps)
    found = []
    for seed in a.seeds.split(","):
        model = train(a, recipe, int(seed), rows)[0]
        found.append(100 * metric(a.task, *counts(model, a, recipe, dev)))
        print(a.task, "seed", seed, f"{found[-1]:.1f}", flush=True)
    print(a.task, "mean", f"{statistics.mean(found):.1f}")


if __name__ == "__main__":
    main()
