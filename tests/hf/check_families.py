#!/usr/bin/env python3
"""Llama, SmolLM, Mistral, Qwen and Gemma against transformers. Prints TAP.

Of each family a tiny model of odd sizes is made by transformers (every parameter random), with a tokenizer of its kind and a generation_config.json
that names several tokens as ends of a text, and saved as people save it. It goes through siTrain: imported, exported in each dtype, trained for two
steps, exported again, whole and in shards. transformers loads what is exported: the same parameters' bits, the same logits, the run's loss, its
greedy texts up to the first end that comes, the same special ids; AutoTokenizer gives the ids of the one it came from."""
import json
import os
import random
import shutil
import sys
import tempfile

import torch
from transformers import (AutoModelForCausalLM, AutoTokenizer, Gemma3TextConfig, LlamaConfig, MistralConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen3Config)
from transformers.utils import logging

from check_hf import TIE, TORCH, check_logits, check_loss, check_round_trip, compare_parameters, load, part, random_unicode, read_tokens, weight_map
from checks import done, result, sitrain

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures"))
from make_tokenizers import KINDS, WORDS  # noqa: E402

SIZES = dict(num_hidden_layers=3, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=44, max_position_embeddings=64,
             rms_norm_eps=1e-5)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LOCAL, FULL = "sliding_attention", "full_attention"
SP, END = ("<s>", "</s>"), "<|endoftext|>"
FAMILIES = {
    # config, tokenizer, its first and last token of a text, tied, theta, more of rope_parameters, other sizes, saved as, sharded, how to import
    "Llama 2": (LlamaConfig, "llama2", SP, False, 1e4, {}, dict(num_key_value_heads=6), "fp16", True, ["--mode", "su+o", "--devices", "2"]),
    "Llama 2, linear": (LlamaConfig, "across words", SP, False, 1e4, dict(rope_type="linear", factor=4.0), {}, "fp32", False, ["--mode", "mem"]),
    "Llama 2, yarn": (LlamaConfig, "llama2", SP, True, 1e4, YARN, {}, "bf16", False, ["--mode", "base"]),
    "Llama 3": (LlamaConfig, "llama3", ("<|begin_of_text|>", "<|end_of_text|>"), True, 5e5, LLAMA3,
                dict(hidden_size=42, num_attention_heads=7, num_key_value_heads=1), "bf16", True, ["--mode", "su+o", "--speculate"]),
    "SmolLM2": (LlamaConfig, "smollm", (END, END), True, 1e5, {}, dict(hidden_size=27, num_attention_heads=9, num_key_value_heads=3, head_dim=4),
                "fp32", False, ["--mode", "su", "--csd-mem", "192K"]),
    "Mistral": (MistralConfig, "mistral", SP, False, 1e6, {}, dict(sliding_window=9, head_dim=10), "bf16", True, ["--mode", "base", "--devices", "3"]),
    "Mistral, no window": (MistralConfig, "words", SP, False, 1e4, {}, dict(sliding_window=None), "fp32", False, ["--mode", "mem"]),
    "Qwen2": (Qwen2Config, "qwen2", (END, END), True, 1e6, {}, dict(hidden_size=40, num_attention_heads=10, rms_norm_eps=1e-6), "fp32", True, ["--mode", "su+o"]),
    "Qwen2, untied, yarn": (Qwen2Config, "qwen2", (END, END), False, 1e6, YARN, {}, "fp16", False, ["--mode", "su+o", "--devices", "3"]),
    "Qwen2, yarn, positions as they were": (Qwen2Config, "qwen2", (END, END), True, 1e6, YARN | dict(original_max_position_embeddings=64), {}, "fp32", False,
                                            ["--mode", "mem"]),
    "Qwen3": (Qwen3Config, "qwen2", (END, END), True, 1e6, {}, dict(head_dim=14, rms_norm_eps=1e-6), "bf16", False, ["--mode", "su"]),
    "Gemma 3": (Gemma3TextConfig, "gemma", SP, True, 1e6, {},
                dict(head_dim=10, query_pre_attn_scalar=10, sliding_window=9, layer_types=[LOCAL, FULL, LOCAL]), "bf16", True, ["--mode", "su+o"]),
    "Gemma 3, scaled": (Gemma3TextConfig, "gemma", SP, True, 1e6, dict(rope_type="linear", factor=8.0),
                        dict(head_dim=8, query_pre_attn_scalar=8, sliding_window=7, layer_types=[LOCAL, LOCAL, FULL]), "fp32", False, ["--mode", "mem"]),
    "Qwen3, untied": (Qwen3Config, "qwen2", (END, END), False, 1e6, {}, dict(head_dim=8), "fp32", True, ["--mode", "mem"]),
}
PROMPTS = ("the sea", "it's 1851", "naïve ships the")
SEQ, TOKENS = 24, 40


def greedy(model, ids, n, **more):
    """What transformers goes on with, by the folder's generation_config.json, and where two tokens were nearly as likely (None: nowhere)."""
    out = model.generate(torch.tensor([ids]), max_new_tokens=n, do_sample=False, **more, return_dict_in_generate=True, output_scores=True)
    top = [step[0].topk(2).values for step in out.scores]
    return out.sequences[0].tolist()[len(ids):], next((i for i, t in enumerate(top) if t[0] - t[1] < TIE), None)


def make(name, folder):
    """The model and its tokenizer, saved; two of the tokens that it says greedily are ends of a text, too."""
    config, kind, (first, last), tied, theta, rope, sizes, dtype, sharded, _ = FAMILIES[name]
    t = PreTrainedTokenizerFast(tokenizer_object=KINDS[kind](), bos_token=first, eos_token=last)
    torch.manual_seed(sum(map(ord, name)))
    ids = dict(bos_token_id=t.convert_tokens_to_ids(first), eos_token_id=t.convert_tokens_to_ids(last))
    turned, plain = dict(rope_type="default", rope_theta=theta) | rope, dict(rope_type="default", rope_theta=1e4)
    config = config(**SIZES | sizes | ids, vocab_size=len(t), tie_word_embeddings=tied,
                    rope_parameters={FULL: turned, LOCAL: plain} if config is Gemma3TextConfig else turned)
    model = AutoModelForCausalLM.from_config(config).eval()
    for key, p in model.named_parameters():
        p.normal_(1.0 if key.endswith("norm.weight") else 0.0, 0.25)
    model = model.to(TORCH[dtype]).float()  # as it is saved
    said = [greedy(model, t(prompt)["input_ids"], TOKENS)[0] for prompt in PROMPTS[:2]]
    model.generation_config.eos_token_id = [ids["eos_token_id"], said[0][9], said[1][20]]
    model.generation_config.pad_token_id = ids["eos_token_id"]
    model.to(TORCH[dtype]).save_pretrained(folder, max_shard_size="20KB" if sharded else "5GB")
    t.save_pretrained(folder)
    assert sharded == os.path.exists(os.path.join(folder, "model.safetensors.index.json"))
    return model, t


def check_shards(model, run, tmp):
    """An export in several files, none larger than was asked for but of one tensor, and the way back."""
    ours, theirs, back = (os.path.join(tmp, f"shards-{k}") for k in ("ours", "theirs", "back"))
    sitrain("export", run, ours, "--max-shard-size", 20 << 10)
    model.save_pretrained(theirs, max_shard_size=20 << 10)
    got, want = weight_map(ours), weight_map(theirs)
    if set(got["weight_map"]) != set(want["weight_map"]) or got["metadata"]["total_size"] != want["metadata"]["total_size"]:
        return f"index {got}, transformers' {want}"
    for f in set(got["weight_map"].values()):
        if os.path.getsize(os.path.join(ours, f)) > 22 << 10 and list(got["weight_map"].values()).count(f) > 1:
            return f"{f} is too large"
    sitrain("import", ours, back, "--durability", "none")
    return compare_parameters(model, ours, "fp32") or check_round_trip(load(AutoModelForCausalLM, ours), ours, back, theirs + "2", "fp32")


def check_tokenizer(exported, t, tmp):
    auto, r = AutoTokenizer.from_pretrained(exported), random.Random(5)
    texts = [*PROMPTS, " ".join(r.choices(WORDS, k=300)), random_unicode(r, 2000)]
    for text in texts:
        if auto(text)["input_ids"] != t(text)["input_ids"]:
            return f"other ids of {text[:40]!r}"
    path, ids = (os.path.join(tmp, f) for f in ("words.txt", "words.bin"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(texts[-2])
    sitrain("prepare", path, "--tokenizer", exported, "--out", ids)
    return None if read_tokens(ids) == t(texts[-2])["input_ids"] else "prepare gives other ids"


def check_ends(folder, exported):
    """What begins, ends and pads a text."""
    a, b = (json.load(open(os.path.join(d, "generation_config.json"), encoding="utf-8")) for d in (folder, exported))
    wrong = [(key, a.get(key), b.get(key)) for key in ("bos_token_id", "eos_token_id", "pad_token_id") if a.get(key) != b.get(key)]
    return f"{wrong}" if wrong or len(a["eos_token_id"]) != 3 else None


def check_generation(model, t, where, ended):
    """ended: of how many texts the end is to be one that only generation_config.json names."""
    ends = 0
    for prompt, penalty in [(p, 1.0) for p in PROMPTS] + [(PROMPTS[0], 1.3)]:
        start = t(prompt)["input_ids"]
        ids, tie = greedy(model, start, TOKENS, repetition_penalty=penalty)
        stops = model.generation_config.eos_token_id
        if ids[-1] in stops and tie is None:
            ends += ids[-1] != t.eos_token_id
            ids = ids[:-1]
        ids = ids if tie is None else ids[:tie]
        text = prompt + t.decode(start + ids).removeprefix(t.decode(start))
        got = sitrain("generate", where, "--prompt", prompt, "--tokens", TOKENS, "--temperature", 0, "--dtype", "fp32", "--repetition-penalty", penalty).decode()
        if got != text + "\n" and (tie is None or not got.startswith(text.removesuffix("\ufffd"))):
            return f"{got!r}\n{text!r}"
    return None if ends >= ended else f"{ends} texts ended at one of the folder's own tokens"


def check(name, tmp):
    folder, run, tuned, text = (os.path.join(tmp, f) for f in ("hf", "run", "tuned", "text.txt"))
    r = random.Random(name)
    with open(text, "w", encoding="utf-8") as f:
        f.writelines(" ".join(r.choices(WORDS, k=9)) + ".\n" for _ in range(60))
    model, t = make(name, folder)
    sitrain("import", folder, run, "--durability", "none", *FAMILIES[name][-1], "--dtype", "fp32")
    for dtype in TORCH:
        exported = os.path.join(tmp, dtype)
        part(f"{name}: exported as {dtype}, every parameter's bits", check_round_trip, model, folder, run, exported, dtype)
        part(f"{name}: exported as {dtype}, transformers loads it, the same logits", check_logits, model, exported, dtype)
    exported = os.path.join(tmp, "fp32")
    part(f"{name}: greedy texts, up to the folder's ends of a text", check_generation, load(AutoModelForCausalLM, exported), t, run, 1)
    part(f"{name}: the ids that begin and end a text", check_ends, folder, exported)
    part(f"{name}: the tokenizer", check_tokenizer, exported, t, tmp)
    sitrain("pretrain", "--resume", run, "--data", text, "--steps", 2, "--batch", 2, "--seq", SEQ, "--lr", "1e-2", "--quiet")
    sitrain("export", run, tuned)
    trained = load(AutoModelForCausalLM, tuned)
    result(any(not torch.equal(a, b) for a, b in zip(model.float().parameters(), trained.parameters(), strict=True)), f"{name}: trained")
    sitrain("prepare", text, "--tokenizer", tuned, "--out", os.path.join(tmp, "eval.bin"))
    ids = read_tokens(os.path.join(tmp, "eval.bin"))
    for where in (run, tuned):
        said = os.path.basename(where)
        part(f"{name}: trained, the loss of {said}", check_loss, trained, where, os.path.join(tmp, "eval.bin"), ids, 60)
        part(f"{name}: trained, greedy texts of {said}", check_generation, trained, t, where, 0)
    part(f"{name}: trained, in shards", check_shards, trained, run, tmp)


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_grad_enabled(False)
    for name in sys.argv[1:] or FAMILIES:
        with tempfile.TemporaryDirectory(prefix="sitrain-hf-", dir="/var/tmp") as tmp:
            try:
                check(name, tmp)
            except Exception as e:  # whatever it was, it is this test's failure
                result(False, name, f"{type(e).__name__}: {e}")
    return done()


if __name__ == "__main__":
    sys.exit(main())
