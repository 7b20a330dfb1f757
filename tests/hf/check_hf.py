#!/usr/bin/env python3
"""check_hf.py: siTrain against Hugging Face's transformers, tokenizers and PyTorch. `make check-hf` runs it; it prints TAP.

Tiny GPT-2s of odd shapes are made by transformers (every parameter random, so that no tensor can be mistaken for another), saved as
people save them (fp32, bf16, fp16, sharded, with and without "transformer." before the names), and go through siTrain:
  parameters  import, then export in each dtype: the bits that torch has when it casts;
  logits      of the exported folder, computed by transformers, against the original's;
  loss        `siTrain eval` against torch's cross-entropy;
  generation  `siTrain generate --temperature 0` against transformers' greedy one;
  classifiers GPT2ForSequenceClassification's folders, the same way: parameters, logits of padded rows, labels' names, the tokenizer;
  fine-tuning `siTrain finetune`'s export, loaded by transformers: the evaluation's loss, the predictions, batches of a pipeline;
  token ids   `siTrain prepare` against tokenizers', on text and on random Unicode.
Environment: SITRAIN the program (./siTrain), SITRAIN_DATA a folder with gpt2-30m/ and text/ (without it those parts are skipped).
"""
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import time

import numpy
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import (AutoModelForSequenceClassification, AutoTokenizer, GPT2Config, GPT2ForSequenceClassification,
                          GPT2LMHeadModel, pipeline)
from transformers.utils import logging

from checks import done, result, sitrain, skip
from fuzz_tokenizer import token_ids

DATA = os.environ.get("SITRAIN_DATA")
TORCH = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LOSS_TOLERANCE = 2e-6    # relative; the program prints 6 decimals
LOGIT_TOLERANCE = 1e-6   # relative to the largest logit
TIE = 1e-4               # two logits closer than this may be ranked either way by two correct programs


def part(name, function, *arguments):
    """One part of the test; what it raises is a failure of it."""
    start = time.monotonic()
    try:
        why = function(*arguments)
    except Exception as e:  # whatever it was, it is this test's failure
        why = f"{type(e).__name__}: {e}"
    result(not why, f"{name} ({time.monotonic() - start:.1f} s)", why)


# ---- the models ----

CASES = [
    # name, layers, heads, width, positions, tokens more than the tokenizer, eps, saved as, sharded, prefix, how to import
    ("fp32, one head of 7", 1, 1, 7, 33, 0, 1e-5, "fp32", False, True, ["--mode", "mem"]),
    ("fp32, no prefix, padded vocabulary", 2, 3, 21, 40, 13, 1e-3, "fp32", False, False, ["--mode", "su+o", "--devices", "3"]),
    ("fp32, sharded", 3, 5, 40, 64, 0, 1e-5, "fp32", True, True, ["--mode", "base", "--devices", "2"]),
    ("bf16, sharded, no prefix", 2, 4, 36, 51, 1, 1e-5, "bf16", True, False, ["--mode", "su", "--csd-mem", "192K"]),
    ("bf16", 2, 2, 64, 64, 0, 1e-6, "bf16", False, True, ["--mode", "su+o", "--dtype", "fp32"]),
    ("fp16", 4, 3, 27, 47, 5, 1e-5, "fp16", False, True, ["--mode", "su+o+c", "--devices", "2"]),
]


def make_model(case, vocab, folder, tok_dir):
    name, layers, heads, width, positions, more, eps, dtype, sharded, prefix, _ = case
    torch.manual_seed(sum(map(ord, name)))
    end = Tokenizer.from_file(os.path.join(tok_dir, "tokenizer.json")).token_to_id("<|endoftext|>")
    config = GPT2Config(n_layer=layers, n_head=heads, n_embd=width, n_positions=positions, vocab_size=vocab + more, layer_norm_epsilon=eps,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=end, eos_token_id=end)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.normal_(1.0 if ".ln_" in key and key.endswith("weight") else 0.0, 0.25)
        # Nothing reads the last position below: values that are hard to convert stand there.
        odd = torch.tensor([-0.0, 1e-40, -3e-39, 60000.0, 6e-8, 1.00390625, 1.01171875])
        model.transformer.wpe.weight[-1, :7] = odd
    model = model.to(TORCH[dtype])
    (model if prefix else model.transformer).save_pretrained(folder, max_shard_size="30KB" if sharded else "5GB")
    shutil.copy(os.path.join(tok_dir, "tokenizer.json"), folder)
    files = [f for f in os.listdir(folder) if f.endswith(".safetensors")]
    names = set().union(*(load_file(os.path.join(folder, f)).keys() for f in files))
    assert sharded == (len(files) > 1), f"{folder}: {files}"
    assert prefix == any(n.startswith("transformer.") for n in names), f"{folder}: {sorted(names)[:3]}"
    return model


def parameters(folder):
    """All tensors of a folder by their names without prefix."""
    out = {}
    for f in sorted(os.listdir(folder)):
        if f.endswith(".safetensors"):
            for key, t in load_file(os.path.join(folder, f)).items():
                out[key.removeprefix("transformer.")] = t
    return out


def bits(t):
    return t.contiguous().view({4: torch.int32, 2: torch.int16}[t.element_size()])


def compare_parameters(original, folder, dtype):
    got = parameters(folder)
    want = {k.removeprefix("transformer."): p.detach().to(torch.float32).to(TORCH[dtype]) for k, p in original.named_parameters()}
    if set(got) != set(want):
        return f"other tensors: {sorted(set(got) ^ set(want))}"
    for key, w in want.items():
        if got[key].dtype != TORCH[dtype] or got[key].shape != w.shape:
            return f"{key}: {got[key].dtype} {tuple(got[key].shape)}, expected {w.dtype} {tuple(w.shape)}"
        if not torch.equal(bits(got[key]), bits(w)):
            at = (bits(got[key]) != bits(w)).nonzero()[0].tolist()
            return f"{key}{at}: {got[key][tuple(at)].item()!r}, expected {w[tuple(at)].item()!r}"
    return None


# ---- what is compared ----

def check_round_trip(model, folder, run, exported, dtype):
    sitrain("export", run, exported, "--dtype", dtype)
    return compare_parameters(model, exported, dtype)


def weight_map(folder):
    with open(os.path.join(folder, "model.safetensors.index.json")) as f:
        return json.load(f)


def check_shards(model, run, tmp, dtype):
    """An export in shards: the files and the index that transformers makes of the same limit, the bits, and the way back."""
    ours, theirs, back, whole, again = (os.path.join(tmp, f"shards-{k}") for k in ("ours", "theirs", "back", "whole", "again"))
    try:
        size = sum(p.numel() for p in model.parameters()) * TORCH[dtype].itemsize
        for limit in (size // 2, size // 8):  # in the second, tensors that are larger than a file may be
            sitrain("export", run, ours, "--dtype", dtype, "--max-shard-size", limit)
            type(model)(model.config).to(TORCH[dtype]).save_pretrained(theirs, max_shard_size=limit)
            got, want = weight_map(ours), weight_map(theirs)
            if got["weight_map"] != want["weight_map"] or got["metadata"]["total_size"] != want["metadata"]["total_size"]:
                return f"index {got}, transformers' {want}"
            wrong = compare_parameters(model, ours, dtype)
            if wrong:
                return wrong
            load(type(model), ours)
            sitrain("import", ours, back, "--durability", "none")
            sitrain("export", run, whole, "--dtype", dtype)
            sitrain("export", back, again, "--dtype", dtype)
            with open(os.path.join(whole, "model.safetensors"), "rb") as a, open(os.path.join(again, "model.safetensors"), "rb") as b:
                if a.read() != b.read():
                    return "what was imported from the shards is another model"
            for d in (ours, theirs, back, whole, again):
                shutil.rmtree(d)
    finally:
        for d in (ours, theirs, back, whole, again):
            shutil.rmtree(d, ignore_errors=True)
    return None


def in_dtype(model, dtype):
    """The model in fp32, its parameters rounded as an export in dtype rounds them."""
    out = type(model)(model.config)
    out.load_state_dict({k: v.to(torch.float32).to(TORCH[dtype]).float() for k, v in model.state_dict().items()})
    return out.eval()


def load(kind, folder):
    """What transformers loads, and what it misses."""
    model, info = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    missing = {k: sorted(map(str, v)) for k, v in info.items() if v and k != "error_msgs"}
    assert not missing, f"loading says {missing}"
    return model.eval()


def check_logits(model, exported, dtype):
    got, want = load(type(model), exported), in_dtype(model, dtype)
    ids = torch.randint(0, model.config.vocab_size, (3, model.config.max_position_embeddings - 1))
    with torch.no_grad():
        a, b = got(ids).logits, want(ids).logits
    worst = ((a - b).abs().max() / b.abs().max()).item()
    return None if worst <= LOGIT_TOLERANCE else f"logits differ by {worst:.3g} of the largest"


def torch_loss(model, ids, seq):
    rows = (len(ids) - 1) // seq
    x = torch.tensor(ids[:rows * seq]).view(rows, seq)
    y = torch.tensor(ids[1:rows * seq + 1]).view(rows, seq)
    total = 0.0
    with torch.no_grad():
        for r in range(0, rows, 8):
            logits = model(x[r:r + 8]).logits
            total += torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).double(), y[r:r + 8].reshape(-1),
                                                       reduction="sum").item()
    return total / (rows * seq)


def sitrain_loss(where, data, seq, *more):
    return float(sitrain("eval", where, "--data", data, "--seq", seq, "--dtype", "fp32", *more).split()[1])


def check_loss(model, where, tokens, ids, seq):
    want, got = torch_loss(model, ids, seq), sitrain_loss(where, tokens, seq, "--batch", "3")
    return None if abs(got - want) <= LOSS_TOLERANCE * want + 1e-6 else f"loss {got:.6f}, torch's {want:.6f}"


def ids_to_bytes(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=False).encode()


def greedy_ids(model, tokenizer, prompt, n):
    """transformers' continuation up to <|endoftext|>, and where two tokens were nearly as likely (None: nowhere). Ids that the
    tokenizer does not have, of a padded vocabulary, are not text: siTrain does not choose them."""
    start = tokenizer.encode(prompt, add_special_tokens=False).ids
    end = tokenizer.token_to_id("<|endoftext|>")
    unknown = list(range(tokenizer.get_vocab_size(), model.config.vocab_size)) or None
    out = model.generate(torch.tensor([start]), attention_mask=torch.ones(1, len(start), dtype=torch.long), max_new_tokens=n,
                         do_sample=False, eos_token_id=end, pad_token_id=end, suppress_tokens=unknown, return_dict_in_generate=True,
                         output_scores=True)
    top = [step[0].topk(2).values for step in out.scores]
    tie = next((i for i, t in enumerate(top) if t[0] - t[1] < TIE), None)
    ids = out.sequences[0].tolist()[len(start):]
    return ids[:ids.index(end)] if end in ids else ids, tie


def check_generation(model, where, tokenizer, prompt, n):
    ids, tie = greedy_ids(model, tokenizer, prompt, n)
    ids = ids if tie is None else ids[:tie]
    want = prompt.encode() + ids_to_bytes(tokenizer, ids)
    got = sitrain("generate", where, "--prompt", prompt, "--tokens", n, "--temperature", "0", "--dtype", "fp32")
    return None if got == want + b"\n" or (tie is not None and got.startswith(want.removesuffix("\ufffd".encode()))) else f"{got!r}\n{want!r}"


# ---- token ids ----

def read_tokens(path):
    return token_ids(path).tolist()


def check_ids(tokenizer, tok_dir, text, tmp):
    """text: str. Compares ids; says where the first differs."""
    path, out = os.path.join(tmp, "text"), os.path.join(tmp, "ids.bin")
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    sitrain("prepare", path, "--tokenizer", tok_dir, "--out", out)
    got, want = read_tokens(out), tokenizer.encode(text, add_special_tokens=False)
    os.unlink(out)
    if got == want.ids:
        return None
    at = next((i for i, (a, b) in enumerate(zip(got, want.ids)) if a != b), min(len(got), len(want.ids)))
    where = want.offsets[min(at, len(want.offsets) - 1)][0]
    return (f"{len(got)} ids, expected {len(want.ids)}; the first to differ is {at}: {got[at:at + 4]}, expected {want.ids[at:at + 4]}\n"
            f"at {text[max(0, where - 8):where + 8]!r} = {[hex(ord(c)) for c in text[max(0, where - 3):where + 4]]}")


def random_unicode(r, n):
    """Runs of everything: any code point but NUL and surrogates, and much of what the pre-tokeniser distinguishes."""
    common = " \n\t\r  aZé09'’ß٣Ⅷ½一ก\u00a0\u2003\u3000\u0301\u200d\ufeff\U0001f642\U00010348"
    endings = ["'s", "'ll", "'RE", "'t", "'", "  ", "\n\n", " \n ", "<|endoftext|>", "<|endof", "|>", "123", " 4a"]
    out = []
    while len(out) < n:
        kind = r.randrange(6)
        if kind == 0:
            c = r.randrange(1, 0x110000)
        elif kind == 1:
            c = r.randrange(1, 0x3000)
        elif kind == 2:
            c = r.randrange(1, 0x80)
        elif kind == 3:
            out.append(r.choice(endings))
            continue
        else:
            c = ord(r.choice(common))
        if not 0xd800 <= c < 0xe000:
            out.append(chr(c))
    return "".join(out)


def all_unicode(step):
    return "".join(f" {chr(c)}a{chr(c)}1{chr(c)}{chr(c)} ." for c in range(1, 0x110000, step) if not 0xd800 <= c < 0xe000)


def check_tokenizer(name, tok_dir, texts, tmp, step=1):
    """step: of the code points, every one or every step-th (tokenizers is slow where a tokenizer knows few merges)."""
    tokenizer = Tokenizer.from_file(os.path.join(tok_dir, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    r = random.Random(20240520)
    for i in range(4):
        part(f"{name}: ids of random Unicode, {i + 1}", check_ids, tokenizer, tok_dir, random_unicode(r, 20000), tmp)
    part(f"{name}: ids of {'every code point' if step == 1 else f'every {step}th code point'}", check_ids, tokenizer, tok_dir,
         all_unicode(step), tmp)
    for label, text in texts:
        part(f"{name}: ids of {label}", check_ids, tokenizer, tok_dir, text, tmp)


# ---- fine-tuned ----

FINETUNED = [
    # name, labels (none: a regression), are the rows pairs, how to train
    ("fine-tuned on pairs", ["agrees", "differs", "unrelated"], True, ["--mode", "su+o", "--devices", "2"]),
    ("fine-tuned on sentences", ["0", "1"], False, ["--mode", "mem"]),
    ("fine-tuned to a number", None, True, ["--mode", "base"]),
]
MAX_SEQ = 40


def task_files_rows(r, n, labels, pairs):
    sentences = [line for line in make_text(4 * n).splitlines() if line.strip()]
    rows = []
    for i in range(n):
        row = {"sentence1": sentences[2 * i], "sentence2": sentences[2 * i + 1]} if pairs else {"sentence": sentences[2 * i]}
        rows.append(row | {"label": r.choice(labels) if labels else r.randrange(0, 51) / 10})
    return rows


def check_finetuned(case, tokenizer, tok_dir, tmp):
    name, labels, pairs, how = case
    folder, run, exported = os.path.join(tmp, "lm"), os.path.join(tmp, "tuned"), os.path.join(tmp, "out")
    r = random.Random(name)
    files = {part: os.path.join(tmp, part + ".json") for part in ("train", "eval", "test")}
    rows = {"train": task_files_rows(r, 50, labels, pairs), "eval": task_files_rows(r, 21, labels, pairs)}
    rows["test"] = rows["eval"]
    for key, path in files.items():
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows[key])
    try:
        make_model((name, 2, 3, 24, 48, 0, 1e-5, "fp32", False, True, None), tokenizer.get_vocab_size(), folder, tok_dir)
        sitrain("finetune", "--run", run, "--init", folder, "--train-file", files["train"], "--eval-file", files["eval"], "--test-file",
                files["test"], "--predict", "--epochs", "2", "--batch", "8", "--lr", "1e-3", "--max-seq", MAX_SEQ, "--dtype", "fp32",
                "--durability", "none", *how)
        sitrain("export", run, exported)
        model = load(AutoModelForSequenceClassification, exported)
        logits = classifier_logits(model, tokenizer, rows["eval"], MAX_SEQ)
    except Exception as e:
        return result(False, name, f"{type(e).__name__}: {e}")
    part(f"{name}: the evaluation's loss", check_tuned_loss, model, run, rows["eval"], labels, logits)
    part(f"{name}: the predictions", check_predictions, run, labels, logits)
    part(f"{name}: AutoTokenizer", check_auto_tokenizer, exported, tokenizer, make_text(50))
    if labels:
        part(f"{name}: a pipeline's batches", check_pipeline, exported, rows["eval"])
    for d in (folder, run, exported):
        shutil.rmtree(d, ignore_errors=True)


def classifier_logits(model, tokenizer, rows, most):
    """One padded batch, as people give it: A, <|endoftext|>, B."""
    pad, end, ids = model.config.pad_token_id, model.config.eos_token_id, []
    for row in rows:
        texts = [tokenizer.encode(row[key], add_special_tokens=False).ids for key in ("sentence", "sentence1", "sentence2") if key in row]
        ids.append((texts[0] + ([end] + texts[1] if len(texts) > 1 else []))[:most])
    assert not any(pad == row[-1] for row in ids)
    longest = max(map(len, ids))
    return model(torch.tensor([row + [pad] * (longest - len(row)) for row in ids])).logits


def check_pipeline(exported, rows):
    """Four rows at once, which must be padded, and each alone; the source's tokenizer names no token that pads."""
    classify = pipeline("text-classification", model=exported)
    texts = [row.get("sentence") or {"text": row["sentence1"], "text_pair": row["sentence2"]} for row in rows]
    together = classify(texts, batch_size=4, truncation=True, max_length=MAX_SEQ)
    alone = [classify([text], truncation=True, max_length=MAX_SEQ)[0] for text in texts]
    worst = max(abs(a["score"] - b["score"]) for a, b in zip(together, alone, strict=True))
    if [a["label"] for a in together] != [b["label"] for b in alone] or worst > 1e-5:
        return f"scores of batches differ from those of single rows by {worst}"
    return None


def labelled_loss(logits, rows, labels):
    if labels:
        return torch.nn.functional.cross_entropy(logits.double(), torch.tensor([labels.index(row["label"]) for row in rows])).item()
    return ((logits[:, 0].double() - torch.tensor([row["label"] for row in rows])) ** 2).mean().item()


def check_tuned_loss(model, run, rows, labels, logits):
    with open(os.path.join(run, "eval_results.json"), encoding="utf-8") as f:
        got = json.load(f)["eval_loss"]
    if labels and model.config.id2label != dict(enumerate(labels)):
        return f"labels {model.config.id2label}"
    want = labelled_loss(logits, rows, labels)
    return None if abs(got - want) <= 1e-5 * want else f"loss {got}, torch's {want}"


def check_predictions(run, labels, logits):
    with open(os.path.join(run, "predict_results_None.txt"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    got = [row[1] for row in rows[1:]]
    if not labels:
        worst = max(abs(float(a) - b) for a, b in zip(got, logits[:, 0].tolist(), strict=True))
        return None if worst < 6e-4 else f"values differ by {worst}"
    p = torch.tensor([[float(x) for x in row[2:]] for row in rows[1:]])
    if rows[0][2:] != ["p_" + label for label in labels] or (p - logits.softmax(-1)).abs().max() > 1e-4:
        return "probabilities are not torch's"
    want = [labels[i] for i in logits.argmax(-1)]
    top = logits.topk(2).values
    clear = (top[:, 0] - top[:, 1] > TIE).tolist()
    wrong = [i for i in range(len(want)) if clear[i] and got[i] != want[i]]
    return f"rows {wrong}" if wrong or len(got) != len(want) else None


# ---- the parts together ----

def make_text(lines):
    r, out = random.Random(7), []
    words = "the sea a ship storm sailor island whale captain sees finds loves leaves fears follows calls it's they'll 1851 naïve café".split()
    for _ in range(lines):
        out.append(" ".join(r.choice(words) for _ in range(r.randrange(3, 12))) + r.choice([".", "!", "?\n", ";", " --", "…"]))
    return "\n".join(out) + "\n"


def check_case(case, tokenizer, tok_dir, tmp):
    name, positions = case[0], case[4]
    folder, run = os.path.join(tmp, "hf"), os.path.join(tmp, "run")
    try:
        model = make_model(case, tokenizer.get_vocab_size(), folder, tok_dir)
        sitrain("import", folder, run, *case[-1])
    except Exception as e:
        return result(False, f"{name}: import", e)
    for dtype in TORCH:
        exported = os.path.join(tmp, dtype)
        part(f"{name}: exported as {dtype}, every parameter's bits", check_round_trip, model, folder, run, exported, dtype)
        part(f"{name}: exported as {dtype}, transformers loads it, the same logits", check_logits, model, exported, dtype)
        part(f"{name}: exported as {dtype} in shards, as transformers cuts them", check_shards, model, run, tmp, dtype)
    model = model.float()
    ids = read_tokens(os.path.join(tmp, "train.bin"))[:1500]
    tokens = os.path.join(tmp, "eval.bin")
    with open(tokens, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + numpy.array(ids, "<u2").tobytes())
    for where in (folder, run, os.path.join(tmp, "fp32")):
        part(f"{name}: loss of {os.path.basename(where)}", check_loss, model, where, tokens, ids, positions - 1)
    part(f"{name}: loss at a shorter row", check_loss, model, run, tokens, ids, 11)
    for prompt in ("the sea", "it's a whale that they'll find: 1851", "é"):
        n = positions - 1 - len(tokenizer.encode(prompt, add_special_tokens=False).ids)
        part(f"{name}: greedy continuation of {prompt!r}", check_generation, model, run, tokenizer, prompt, n)
    for d in (folder, run, *(os.path.join(tmp, t) for t in TORCH)):
        shutil.rmtree(d, ignore_errors=True)


# ---- classifiers ----

CLASSIFIERS = [
    # name, labels, layers, heads, width, positions, saved as, sharded, how to import
    ("a classifier", ["entailment", "it's \"neutral\"", "σ"], 2, 3, 21, 40, "fp32", False, ["--mode", "mem"]),
    ("a classifier that pads with another token", ["no", "yes"], 2, 2, 18, 40, "fp32", False, ["--mode", "su"]),
    ("a classifier of two, unnamed", ["LABEL_0", "LABEL_1"], 1, 2, 36, 64, "bf16", True, ["--mode", "su+o", "--devices", "3"]),
    ("a regressor", ["score"], 3, 1, 12, 33, "fp16", False, ["--mode", "base", "--devices", "2"]),
]


def make_classifier(case, tokenizer, folder, tok_dir):
    name, labels, layers, heads, width, positions, dtype, sharded, _ = case
    torch.manual_seed(sum(map(ord, name)))
    end = tokenizer.token_to_id("<|endoftext|>")
    config = GPT2Config(n_layer=layers, n_head=heads, n_embd=width, n_positions=positions, vocab_size=tokenizer.get_vocab_size(),
                        resid_pdrop=0.05, embd_pdrop=0.1, attn_pdrop=0.15, id2label=dict(enumerate(labels)),
                        label2id={label: i for i, label in enumerate(labels)}, bos_token_id=end, eos_token_id=end,
                        pad_token_id=7 if "another" in name else end)
    model = GPT2ForSequenceClassification(config).eval()
    for key, p in model.named_parameters():
        p.normal_(1.0 if ".ln_" in key and key.endswith("weight") else 0.0, 0.25)
    model = model.to(TORCH[dtype])
    model.save_pretrained(folder, max_shard_size="30KB" if sharded else "5GB")
    for f in os.listdir(tok_dir):
        if not os.path.exists(os.path.join(folder, f)):
            shutil.copy(os.path.join(tok_dir, f), folder)
    assert sharded == (len([f for f in os.listdir(folder) if f.endswith(".safetensors")]) > 1), f"{os.listdir(folder)}"
    return model


def check_classifier_logits(model, exported, dtype):
    got, want = load(AutoModelForSequenceClassification, exported), in_dtype(model, dtype)
    pad, longest = model.config.pad_token_id, model.config.n_positions
    ids = torch.randint(pad + 1, pad + 300, (5, longest)) % model.config.vocab_size  # none of them the one that pads
    for row, n in enumerate([1, 2, longest // 2, longest - 1, longest]):
        ids[row, n:] = pad
    a, b = got(ids).logits, want(ids).logits
    worst = ((a - b).abs().max() / b.abs().max()).item()
    return None if worst <= LOGIT_TOLERANCE else f"logits differ by {worst:.3g} of the largest"


def check_classifier_config(model, exported):
    got, want = load(AutoModelForSequenceClassification, exported).config, model.config
    keys = ["architectures", "id2label", "label2id", "num_labels", "pad_token_id", "eos_token_id", "attn_pdrop", "embd_pdrop",
            "resid_pdrop"]
    for key in keys:
        if getattr(got, key) != getattr(want, key):
            return f"{key}: {getattr(got, key)!r}, expected {getattr(want, key)!r}"
    kind = "regression" if want.num_labels == 1 else "single_label_classification"
    return None if got.problem_type == kind else f"problem_type: {got.problem_type!r}"


def check_auto_tokenizer(exported, tokenizer, text):
    auto = AutoTokenizer.from_pretrained(exported)
    if auto(text)["input_ids"] != tokenizer.encode(text, add_special_tokens=False).ids:
        return "other ids than the tokenizer's"
    return None if auto.eos_token == "<|endoftext|>" else f"eos_token: {auto.eos_token!r}"


def check_classifier_loss(model, where, labels, tokenizer, tmp):
    """Pairs in a file of one's own; a class without a name is its number there."""
    path = os.path.join(tmp, "rows.json")
    called = [label.removeprefix("LABEL_") for label in labels] if len(labels) > 1 else None
    rows = task_files_rows(random.Random(3), 19, called, True)
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
    most = min(MAX_SEQ, model.config.n_positions)
    said = sitrain("eval", where, "--eval-file", path, "--dtype", "fp32", "--batch", "4", "--max-seq", most).decode().split()
    want = labelled_loss(classifier_logits(model, tokenizer, rows, most), rows, called)
    return None if abs(float(said[1]) - want) <= 1e-5 * want + 1e-6 else f"{said}, torch's loss {want:.6f}"


def check_classifier(case, tokenizer, tok_dir, tmp):
    name = case[0]
    folder, run, again = os.path.join(tmp, "hf"), os.path.join(tmp, "run"), os.path.join(tmp, "again")
    try:
        model = make_classifier(case, tokenizer, folder, tok_dir)
        sitrain("import", folder, run, *case[-1])
    except Exception as e:
        return result(False, f"{name}: import", e)
    for dtype in TORCH:
        exported = os.path.join(tmp, dtype)
        part(f"{name}: exported as {dtype}, every parameter's bits", check_round_trip, model, folder, run, exported, dtype)
        part(f"{name}: exported as {dtype}, transformers loads it, the same logits", check_classifier_logits, model, exported, dtype)
    exported = os.path.join(tmp, "fp32")
    part(f"{name}: labels by name and the rest of config.json", check_classifier_config, model, exported)
    part(f"{name}: AutoTokenizer", check_auto_tokenizer, exported, tokenizer, make_text(50))
    for where in (folder, run):
        part(f"{name}: loss of {os.path.basename(where)}", check_classifier_loss, model.float(), where, case[1], tokenizer, tmp)

    def converted():
        sitrain("export", exported, again)
        for f in os.listdir(exported):
            with open(os.path.join(exported, f), "rb") as a, open(os.path.join(again, f), "rb") as b:
                assert a.read() == b.read(), f"{f} differs"
    part(f"{name}: exported once more from its folder, the same files", converted)
    for d in (folder, run, again, *(os.path.join(tmp, t) for t in TORCH)):
        shutil.rmtree(d, ignore_errors=True)


def check_reference(model, tokenizer, folder, run, tmp):
    """gpt2-30m against what stands in its reference.json, made by PyTorch elsewhere."""
    with open(os.path.join(folder, "reference.json"), encoding="utf-8") as f:
        reference = json.load(f)
    with open(os.path.join(DATA, "text", "wikitext2.test.raw"), encoding="utf-8", newline="") as f:
        text = f.read()
    seq, windows = reference["seq"], reference["windows"]
    ids = tokenizer.encode(text, add_special_tokens=False).ids[:seq * windows + 1]
    tokens = os.path.join(tmp, "wiki.bin")
    with open(tokens, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + numpy.array(ids, "<u2").tobytes())

    def loss():
        got, want = sitrain_loss(run, tokens, seq), reference["mean_loss"]
        return None if abs(got - want) <= 1e-5 * want else f"loss {got}, expected {want}"
    part("gpt2-30m: the reference's loss", loss)
    short = ids[:seq * 4 + 1]
    with open(tokens, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, len(short), *[0] * 253) + numpy.array(short, "<u2").tobytes())
    part("gpt2-30m: torch's loss", check_loss, model, run, tokens, short, seq)
    for prompt, r in reference["greedy"].items():
        n = len(r["ids"]) - len(r["prompt_ids"])
        part(f"gpt2-30m: greedy continuation of {prompt!r}", check_generation, model, run, tokenizer, prompt, n)
        part(f"gpt2-30m: transformers still continues {prompt!r} so",
             lambda p, n, w: None if greedy_ids(model, tokenizer, p, n)[0] == w else "other ids than the reference has",
             prompt, n, r["ids"][len(r["prompt_ids"]):])


def check_gpt2_30m(tmp):
    folder, run, exported = os.path.join(DATA, "gpt2-30m"), os.path.join(tmp, "run30"), os.path.join(tmp, "hf30")
    model = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float16).eval()
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    try:
        sitrain("import", folder, run, "--mode", "su+o", "--devices", "2")
    except AssertionError as e:
        return result(False, "gpt2-30m: import", e)
    for dtype in TORCH:
        shutil.rmtree(exported, ignore_errors=True)
        part(f"gpt2-30m: exported as {dtype}, every parameter's bits", check_round_trip, model, folder, run, exported, dtype)
        part(f"gpt2-30m: exported as {dtype}, transformers loads it, the same logits", check_logits, model, exported, dtype)
    check_reference(model.float(), tokenizer, folder, run, tmp)
    texts = []
    for f in sorted(os.listdir(os.path.join(DATA, "text"))):
        with open(os.path.join(DATA, "text", f), encoding="utf-8", newline="") as t:
            texts.append((f, t.read(3_000_000)))
    check_tokenizer("GPT-2's tokenizer", folder, texts, tmp)


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory(prefix="sitrain-hf-", dir="/var/tmp") as tmp:
        text, tok_dir = os.path.join(tmp, "train.txt"), os.path.join(tmp, "tok")
        with open(text, "w", encoding="utf-8") as f:
            f.write(make_text(4000))
        try:
            sitrain("prepare", text, "--train-tokenizer", "--vocab", "331", "--out", tok_dir)
            sitrain("prepare", text, "--tokenizer", tok_dir, "--out", os.path.join(tmp, "train.bin"))
        except AssertionError as e:
            result(False, "a tokenizer is trained", e)
        else:
            tokenizer = Tokenizer.from_file(os.path.join(tok_dir, "tokenizer.json"))
            check_tokenizer("a tokenizer of our own", tok_dir, [("its text", make_text(4000))], tmp, 11)
            for case in CASES:
                check_case(case, tokenizer, tok_dir, tmp)
            for case in CLASSIFIERS:
                check_classifier(case, tokenizer, tok_dir, tmp)
            for case in FINETUNED:
                check_finetuned(case, tokenizer, tok_dir, tmp)
        if DATA:
            check_gpt2_30m(tmp)
        else:
            skip("gpt2-30m", "make check-hf DATA=FOLDER says where it is")
    return done()


if __name__ == "__main__":
    sys.exit(main())
