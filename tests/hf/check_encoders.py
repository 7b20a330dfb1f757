#!/usr/bin/env python3
"""BERT and RoBERTa against transformers. Prints TAP.

A masked language model that transformers made, of random numbers, with its tokenizer, is fine-tuned by siTrain on pairs of texts; what it exports
loads as ...ForSequenceClassification with the tokenizer, whose rows (token types, padding, what is too long) give the loss, the accuracy and the
predictions that siTrain tells; and a classifier that transformers made gives siTrain its own loss. Before that it is trained further as what it is: its
loss is that of ...ForMaskedLM with the same tokens masked, before and after. Needs torch, transformers 5 and tokenizers."""
import os
import random
import sys
import tempfile

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification,
                          BertTokenizerFast, PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM, RobertaForSequenceClassification)
from transformers.utils import logging

from checks import done, result, sitrain

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MOST = 24  # tokens of a row; some pairs have more
SIZES = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=100)


def pairs(seed, n):
    r = random.Random(seed)
    out = []
    for _ in range(n):
        one, two = (" ".join(r.choices("abcdefgh", k=r.randint(1, most))) for most in (9, 22))
        out.append((one, two, "yes" if set(one) & set(two) - {" "} else "no"))
    return out


def write(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines("\t".join(row) + "\n" for row in [("sentence1", "sentence2", "label"), *rows])
    return path


def bert():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [mark + c for c in "abcdefghijklmnopqrstuvwxyz" for mark in ("", "##")]
    config = BertConfig(vocab_size=len(pieces), max_position_embeddings=40, **SIZES)
    return BertTokenizerFast(vocab={p: i for i, p in enumerate(pieces)}), config, BertForMaskedLM, BertForSequenceClassification


def roberta():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=SPECIAL, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    t.train_from_iterator([f"{one} {two}" for one, two, _ in pairs(1, 64)], trainer)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), SPECIAL), cls_token="<s>", sep_token="</s>")
    config = RobertaConfig(vocab_size=t.get_vocab_size(), max_position_embeddings=42, type_vocab_size=1, pad_token_id=1, **SIZES)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=t, model_input_names=["input_ids", "attention_mask"], **names)
    return tokenizer, config, RobertaForMaskedLM, RobertaForSequenceClassification


def theirs(folder, rows):
    """Loss, accuracy and labels as transformers computes them of a folder."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    x = tokenizer([r[0] for r in rows], [r[1] for r in rows], padding=True, truncation=True, max_length=MOST, return_tensors="pt")
    logits = model(**x).logits
    y = torch.tensor([model.config.label2id[r[2]] for r in rows])
    return torch.nn.functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def compare(name, folder, ours, rows):
    said = ours.decode().split()
    try:
        loss, accuracy = theirs(folder, rows)
        result(abs(float(said[1]) - loss) <= 1e-5 * loss + 1e-6 and abs(float(said[3]) - accuracy) < 1e-6, name,
               f"{said}, transformers' loss {loss:.6f}, accuracy {accuracy:.6f}")
    except Exception as e:  # whatever it was, it is this test's failure
        result(False, name, f"{type(e).__name__}: {e}")


# ---- masked tokens: kernels/rng.h, run/sources/masking.c ----

WIDE = (1 << 64) - 1


def bits(seed, stream, index):
    c, k = [index & 0xffffffff, index >> 32, stream & 0xffffffff, stream >> 32], [seed & 0xffffffff, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xd2511f53 * c[0], 0xcd9e8d57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xffffffff, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xffffffff]
        k = [(k[0] + 0x9e3779b9) & 0xffffffff, (k[1] + 0xbb67ae85) & 0xffffffff]
    return c[1] << 32 | c[0]


def mix(x):
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & WIDE
    x = (x ^ x >> 27) * 0x94d049bb133111eb & WIDE
    return x ^ x >> 31


def permute(seed, stream, i, n):
    golden, key = 0x9e3779b97f4a7c15, mix(seed + mix(stream + 0x9e3779b97f4a7c15 & WIDE) & WIDE)
    width = max(8, (n - 1).bit_length())
    low = width // 2
    while True:
        left, right = i & (1 << low) - 1, i >> low
        for r in range(0, 8, 2):
            left ^= mix(right + key + r * golden & WIDE) & (1 << low) - 1
            right ^= mix(left + key + (r + 1) * golden & WIDE) & (1 << width - low) - 1
        i = right << low | left
        if i < n:
            return i


def masked_rows(tokenizer, text, vocab, seq):
    """The rows of an evaluation: what is seen, and what is asked for."""
    ids, (before, behind) = tokenizer(text)["input_ids"], tokenizer("")["input_ids"]
    own = {before, behind, tokenizer.mask_token_id, tokenizer.pad_token_id}
    seen, asked = [], []
    for row in range(len(ids) // (seq - 2)):
        x, stream = [before, *ids[row * (seq - 2):(row + 1) * (seq - 2)], behind], 0x6576616c00000000 + row
        places = [i for i, t in enumerate(x) if t not in own]
        most = max(1, int(0.15 * len(places) + 0.5))
        y = [-100] * seq
        for k, i in enumerate(places):
            if permute(0, stream, k, len(places)) < most:
                y[i], b = x[i], bits(0, stream, i)
                how, other = (b & 0xffffffff) % 10, (b >> 32) * (vocab - 1) >> 32
                x[i] = tokenizer.mask_token_id if how < 8 else other + (other >= tokenizer.pad_token_id) if how == 8 else x[i]
        seen.append(x)
        asked.append(y)
    return torch.tensor(seen), torch.tensor(asked)


def compare_masked(name, folder, text, ours):
    """siTrain's loss beside that of ...ForMaskedLM, which loads the folder with every tensor."""
    try:
        model, info = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
        left = [f"{k}: {v}" for k, v in info.items() if v]
        x, y = masked_rows(AutoTokenizer.from_pretrained(folder), text, model.config.vocab_size, MOST)
        loss, said = model.eval()(input_ids=x, labels=y).loss.item(), float(ours.decode().split()[1])
        result(abs(said - loss) <= 1e-5 * loss + 1e-6 and not left, name, f"{said}, transformers' loss {loss:.6f}; {left}")
    except Exception as e:  # whatever it was, it is this test's failure
        result(False, name, f"{type(e).__name__}: {e}")


def check_masked(name, at, mode):
    text = " ".join(f"{one} {two}" for one, two, _ in pairs(3, 90))
    with open(at("text"), "w", encoding="utf-8") as f:
        f.write(text)
    rows = ["--data", at("text"), "--seq", MOST]
    compare_masked(f"{name}: a masked language model of transformers, its loss", at("masked"), text, sitrain("eval", at("masked"), *rows, "--dtype", "fp32"))
    sitrain("pretrain", "--run", at("further"), "--init", at("masked"), *rows, "--batch", 8, "--lr", "1e-3", "--steps", 20, "--csd-mem", "256K", "--quiet", *mode)
    ours = sitrain("eval", at("further"), *rows, "--dtype", "fp32")
    sitrain("export", at("further"), at("trained"))
    compare_masked(f"{name}: trained further with {' '.join(mode)}, what is exported gives transformers the run's loss", at("trained"), text, ours)


def check(make, tmp, mode):
    tokenizer, config, masked, classifier = make()
    name, at = make.__name__, lambda f: os.path.join(tmp, f)
    train, rows = write(at("train.tsv"), pairs(1, 64)), pairs(2, 40)
    dev = write(at("dev.tsv"), rows)
    evaluate = ["--eval-file", dev, "--max-seq", MOST, "--dtype", "fp32"]
    torch.manual_seed(1)
    masked(config).save_pretrained(at("masked"))
    config.id2label, config.label2id = {0: "yes", 1: "no"}, {"yes": 0, "no": 1}
    model = classifier(config)
    for p in model.parameters():
        p.add_(torch.randn_like(p), alpha=0.1)
    model.save_pretrained(at("labelled"))
    for folder in "masked", "labelled":
        tokenizer.save_pretrained(at(folder))
    check_masked(name, at, mode)
    compare(f"{name}: a classifier of transformers, its loss", at("labelled"), sitrain("eval", at("labelled"), *evaluate), rows)
    sitrain("finetune", "--run", at("run"), "--init", at("trained"), "--train-file", train, "--eval-file", dev, "--batch", 8, "--max-seq", MOST,
            "--lr", "1e-3", "--steps", 30, "--csd-mem", "256K", "--quiet", *mode)
    ours = sitrain("eval", at("run"), *evaluate)
    sitrain("export", at("run"), at("exported"))
    compare(f"{name}: fine-tuned with {' '.join(mode)}, what is exported gives transformers the run's loss", at("exported"), ours, rows)


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_grad_enabled(False)
    for make, mode in ((bert, ["--mode", "su+o", "--devices", "2"]), (roberta, ["--mode", "base"]), (bert, ["--mode", "su+o+c"])):
        with tempfile.TemporaryDirectory(prefix="sitrain-hf-", dir="/var/tmp") as tmp:
            try:
                check(make, tmp, mode)
            except Exception as e:  # whatever it was, it is this test's failure
                result(False, make.__name__, e)
    return done()


if __name__ == "__main__":
    sys.exit(main())
