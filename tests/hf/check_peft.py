#!/usr/bin/env python3
"""check_peft.py: adapters against Hugging Face's peft. `make check-hf` runs it; it prints TAP.

Tiny models of random parameters are made by transformers, for each family a language model and a classifier:
  out    siTrain trains adapters; `peft` loads the exported folder on the base, and its logits are those of the merged export, and of what peft merges;
  in     an adapter that peft made goes in by --init, trains with a rate of 0, and comes out with the same bytes in every tensor;
  on     with a rate it goes on as peft does: the losses of each step, and the adapter after them;
  lines  the one of Python in docs/lora.md does what it says, as it stands there.
"""
import json
import os
import re
import sqlite3
import sys
import tempfile
import warnings

import numpy
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, BertConfig, GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config
from transformers.utils import logging

from checks import ROOT, done, in_python, result, sitrain

TOLERANCE = 1e-5  # of logits, relative to the largest
WORDS, SEQ, BATCH, STEPS, RATE = 40, 12, 2, 4, 1e-2
SIZES = dict(num_hidden_layers=2, hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=36, vocab_size=WORDS,
             max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2)
BASES = {
    # config, the matrices of siTrain's adapters, those of peft's
    "GPT-2": (GPT2Config(n_layer=2, n_head=2, n_embd=24, vocab_size=WORDS, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                         bos_token_id=1, eos_token_id=2, pad_token_id=0), "all", ["c_attn", "mlp.c_proj"]),
    "Llama": (LlamaConfig(**SIZES, tie_word_embeddings=False), "q_proj,v_proj", ["k_proj", "down_proj"]),
    "Qwen2": (Qwen2Config(**SIZES, tie_word_embeddings=True), "mlp", None),
    "Qwen3": (Qwen3Config(**SIZES, head_dim=6, tie_word_embeddings=True), "attention", r".*\.(q|o)_proj"),
}


def logits(model, ids):
    with torch.no_grad():
        return model.eval()(ids).logits


def apart(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def tensors(folder):
    return load_file(os.path.join(folder, "adapter_model.safetensors"))


def make(kind, config, folder):
    torch.manual_seed(7)
    model = kind.from_config(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.normal_(1.0 if "norm" in key.lower() or ".ln_" in key else 0.0, 0.2)
    model.save_pretrained(folder)
    return model


def again(kind, folder, adapter=None):
    """The base as it was saved, with the adapter of that folder."""
    base = kind.from_pretrained(folder, dtype=torch.float32)
    return base if adapter is None else PeftModel.from_pretrained(base, adapter, is_trainable=False)


def check_out(name, kind, base, adapter, merged, ids):
    alone, adapted, whole = logits(again(kind, base), ids), logits(again(kind, base, adapter), ids), logits(again(kind, merged), ids)
    by_peft = logits(again(kind, base, adapter).merge_and_unload(), ids)
    worst = max(apart(adapted, whole), apart(adapted, by_peft))
    result(apart(adapted, alone) > 1e-3 and worst <= TOLERANCE, name, f"logits differ by {worst:.3g}; by {apart(adapted, alone):.3g} from those of the base")


def random_adapter(kind, base, config, folder):
    torch.manual_seed(11)
    model = get_peft_model(again(kind, base), config)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key or "score" in key or "classifier" in key:
                p.normal_(0.0, 0.05)
    model.save_pretrained(folder)
    return model


def steps_of_peft(model, ids):
    """Losses of AdamW's steps on rows of SEQ tokens, BATCH a step, as siTrain takes them."""
    optimizer, losses = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=0.0), []
    for step in range(STEPS):
        at = numpy.arange(BATCH)[:, None] * SEQ + step * BATCH * SEQ + numpy.arange(SEQ + 1)
        rows = torch.tensor(ids[at].astype(numpy.int64))
        loss = torch.nn.functional.cross_entropy(model.train()(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check(name, tmp):
    config, ours, theirs = BASES[name]
    base, run, adapter, merged, made, data = (os.path.join(tmp, f) for f in ("hf", "run", "adapter", "merged", "made", "ids.bin"))
    kind, numbers = AutoModelForCausalLM, numpy.random.default_rng(3)
    ids = numbers.integers(0, WORDS, 2000, dtype=numpy.uint16)
    ids.tofile(data)
    make(kind, config, base)
    train = ["--data", data, "--order", "sequential", "--seq", SEQ, "--batch", BATCH, "--dtype", "fp32", "--schedule", "constant", "--clip", 0,
             "--weight-decay", 0, "--csd-mem", "192K", "--quiet", "--durability", "none"]
    sitrain("pretrain", "--run", run, "--init", base, *train, "--steps", 8, "--lr", RATE, "--lora-rank", 4, "--lora-targets", ours, "--mode", "su+o")
    sitrain("export", run, adapter, "--adapter")
    sitrain("export", run, merged)
    rows = torch.tensor(ids[:60].astype(numpy.int64)).view(5, 12)
    check_out(f"{name}: out", kind, base, adapter, merged, rows)

    model = random_adapter(kind, base, LoraConfig(task_type="CAUSAL_LM", r=3, lora_alpha=5, target_modules=theirs, use_rslora=True), made)
    sitrain("pretrain", "--run", run + "0", "--init", made, "--base", base, *train, "--steps", 1, "--lr", 0, "--mode", "mem")
    sitrain("export", run + "0", adapter + "0", "--adapter")
    a, b = tensors(made), tensors(adapter + "0")
    result(a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a), f"{name}: in, and out again", sorted(a.keys() ^ b.keys()))

    sitrain("pretrain", "--run", run + "1", "--init", made, "--base", base, *train, "--steps", STEPS, "--lr", RATE, "--mode", "base")
    sitrain("export", run + "1", adapter + "1", "--adapter")
    want = steps_of_peft(model, ids)
    got = [row[0] for row in sqlite3.connect(run + "1/run.db").execute("SELECT loss FROM steps ORDER BY step")]
    model.save_pretrained(made + "1")
    a, b = tensors(made + "1"), tensors(adapter + "1")
    worst = max((a[k] - b[k]).abs().max().item() for k in a)
    result(max(abs(x - y) for x, y in zip(got, want, strict=True)) <= 1e-5 and worst <= 2e-4, f"{name}: on", f"losses {got}, {want}; adapters differ by {worst:.3g}")


def check_classifier(name, config, tmp):
    base, run, adapter, merged, rows = (os.path.join(tmp, f) for f in ("hf", "run", "adapter", "merged", "rows.csv"))
    kind = AutoModelForSequenceClassification
    config.num_labels = 3
    make(kind, config, base)
    with open(rows, "w", encoding="utf-8") as f:
        f.write("text,label\n" + "".join(f"{w} {w} {v},{'xyz'[(i + k) % 3]}\n" for i, w in enumerate("abcde") for k, v in enumerate("fgh")))
    with open(os.path.join(tmp, "words.txt"), "w", encoding="utf-8") as f:
        f.write("a b c d e f g h\n" * 50)
    tokenizer = os.path.join(tmp, "tok")
    if config.model_type == "bert":
        os.mkdir(tokenizer)
        with open(os.path.join(tokenizer, "vocab.txt"), "w", encoding="utf-8") as f:
            f.write("".join(w + "\n" for w in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]))
        with open(os.path.join(tokenizer, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            f.write('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    else:
        sitrain("prepare", os.path.join(tmp, "words.txt"), "--train-tokenizer", "--vocab", 260, "--out", tokenizer)
    sitrain("finetune", "--run", run, "--init", base, "--tokenizer", tokenizer, "--train-file", rows, "--steps", 6, "--lr", RATE, "--dtype", "fp32",
            "--lora-rank", 4, "--lora-targets", "all", "--mode", "mem", "--max-seq", 12, "--quiet")
    sitrain("export", run, adapter, "--adapter")
    sitrain("export", run, merged)
    texts = torch.randint(3, 8, (4, 9))
    check_out(f"{name}, a classifier: out", kind, base, adapter, merged, texts)
    with open(os.path.join(ROOT, "docs", "lora.md"), encoding="utf-8") as f:
        line = re.search(r"`(AutoPeftModelForSequenceClassification\S* \S*)`", f.read())[1]
    said = in_python(f"import peft, torch; from peft import *; m = {line}; print(m.eval()(torch.tensor({texts.tolist()})).logits.tolist())", tmp)
    worst = apart(torch.tensor(json.loads(said.splitlines()[-1])), logits(again(kind, merged), texts))
    result(worst <= TOLERANCE, f"{name}, a classifier: lines", f"logits differ by {worst:.3g}")


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or BASES:
        with tempfile.TemporaryDirectory(prefix="sitrain-peft-", dir="/var/tmp") as tmp:
            try:
                check(name, tmp)
            except Exception as e:  # whatever it was, it is this test's failure
                result(False, name, f"{type(e).__name__}: {e}")
    classifiers = {
        "BERT": BertConfig(num_hidden_layers=2, hidden_size=24, num_attention_heads=4, intermediate_size=36, vocab_size=WORDS, max_position_embeddings=32,
                           hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        "GPT-2": GPT2Config(n_layer=2, n_head=2, n_embd=24, vocab_size=260, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, pad_token_id=0),
    }
    for name, config in classifiers.items() if not sys.argv[1:] else ():
        with tempfile.TemporaryDirectory(prefix="sitrain-peft-", dir="/var/tmp") as tmp:
            try:
                check_classifier(name, config, tmp)
            except Exception as e:  # whatever it was, it is this test's failure
                result(False, name, f"{type(e).__name__}: {e}")
    return done()


if __name__ == "__main__":
    sys.exit(main())
