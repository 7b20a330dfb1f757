#!/usr/bin/env python3
"""BERT and RoBERTa against transformers. Prints TAP.

A masked language model that transformers made, of random numbers, with its tokenizer, is fine-tuned by siTrain on pairs of texts; what it exports
loads as ...ForSequenceClassification with the tokenizer, whose rows (token types, padding, what is too long) give the loss, the accuracy and the
predictions that siTrain tells; and a classifier that transformers made gives siTrain its own loss. Needs torch, transformers 5 and tokenizers."""
import os
import random
import sys
import tempfile

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification,
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
    compare(f"{name}: a classifier of transformers, its loss", at("labelled"), sitrain("eval", at("labelled"), *evaluate), rows)
    sitrain("finetune", "--run", at("run"), "--init", at("masked"), "--train-file", train, "--eval-file", dev, "--batch", 8, "--max-seq", MOST,
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
