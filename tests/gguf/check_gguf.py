#!/usr/bin/env python3
"""GGUF files of every family against llama.cpp and the package gguf. Prints TAP.

A tiny model of each family is trained for some steps and exported in each type. The package gguf reads every tensor: it is the folder's export
within the type's rounding, and Q8_0 has the very bytes of its quantize. llama.cpp gives the same ids for texts, the same greedy text, and the same
perplexity. What is imported and exported again is the same file. The lines of Python in docs/gguf.md say what `generate --chat` says, also of the
tutorial's chat model with adapters (DATA).
"""
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np
from gguf import quants
from llama_cpp import Llama

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "hf"), os.path.join(HERE, "..", "cli"), os.path.join(HERE, "..")]
from checks import BIN, ROOT, done, in_python, python_of, result, sitrain, skip  # noqa: E402
from tiny_folder import decoder  # noqa: E402

SEQ, POSITIONS, TOKENS = 24, 128, 24
BEGIN, END, TURN = "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"
MARK = "\u2581"
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = ["the sea", " the  old   ship", "It's 1851, and we're 12345 miles\tfrom land.\n\n  Call me\r\nIshmael!", "naïve Ünïcode — 我想在apple工作 кит", "3 33 333 3333 3.3",
         "'Tis THE'LL don't", "\n \n\n \n\n\n \t \t\t", "🚀 (normal) 😶\u200d🌫️ ", "a" * 40, "whaleWhale WHALE wHaLe", "!!!???...---===", "x", "ships and seas and",
         f"a {END} word {TURN}behind", "<unk> and <s> in <0x41> text"]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
QUESTION = r'"content": "(.*?)"'  # in the lines of docs/gguf.md
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
# family, tokenizer, sizes (layers, width, heads, heads of keys, size of a head, MLP), more of config.json
MODELS = {
    "GPT-2": ("gpt2", "gpt-2", None, {}),
    "Llama 3.1": ("llama", "llama-bpe", (3, 64, 4, 2, 32, 96), {"rope_theta": 500000.0, "rope_scaling": LLAMA3}),
    "SmolLM2": ("llama", "smollm", (3, 96, 3, 1, 32, 64), {"rope_theta": 100000.0, "rope_scaling": None, "tie_word_embeddings": True}),
    "Llama 2": ("llama", "spm prefix", (2, 64, 2, 2, 32, 100), {"rope_theta": 10000.0, "rope_scaling": None}),
    "Llama 2, linear": ("llama", "spm prefix", (2, 64, 2, 2, 32, 96), {"rope_theta": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "Llama 2, yarn": ("llama", "smaug-bpe", (2, 64, 2, 2, 32, 96), {"rope_theta": 10000.0, "rope_scaling": YARN}),
    "Llama 2, yarn, attention scaled": ("llama", "spm prefix", (2, 64, 2, 2, 32, 96), {"rope_theta": 10000.0, "rope_scaling": YARN | {"attention_factor": 1.5}}),
    "Mistral": ("mistral", "spm prefix", (3, 64, 4, 2, 48, 96), {"sliding_window": 64}),
    "Mistral NeMo": ("mistral", "tekken", (3, 64, 4, 2, 32, 96), {"sliding_window": None}),
    "Qwen2": ("qwen2", "qwen2", (3, 96, 3, 1, 32, 64), {}),
    "Qwen2, untied, yarn": ("qwen2", "stablelm2", (2, 64, 2, 1, 32, 64), {"tie_word_embeddings": False, "rope_parameters": YARN | {"rope_theta": 10000.0}}),
    "Qwen3": ("qwen3", "qwen2", (3, 64, 4, 2, 32, 96), {}),
    "Gemma 3": ("gemma3_text", "spm", (7, 64, 2, 1, 48, 96), {"sliding_window": 9, "sliding_window_pattern": 3, "query_pre_attn_scalar": 48}),
}


def corpus():
    words = "the sea ship whale old captain Ahab said that we're 1851 naïve and then I'll go; to land, boats! кит 我想".split()
    out, x = [], 7
    for _ in range(9000):
        x = x * 1103515245 + 12345 & 0x7fffffff
        out.append(words[(x >> 16) % len(words) * ((x >> 8) % 3 + 1) % len(words)])
        out.append("\n" if x % 97 < 7 else "  " if x % 97 == 50 else " ")
    return "".join(out)


def byte_level(folder, kind, base):
    """A tokenizer trained by siTrain, made one that splits as this kind does."""
    shutil.copytree(base, folder)
    for name in ("vocab.json", "merges.txt", "special_tokens_map.json", "tokenizer_config.json"):
        os.unlink(os.path.join(folder, name))
    path = os.path.join(folder, "tokenizer.json")
    t = json.load(open(path))
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"llama-bpe": PATTERN % "{1,3}", "smaug-bpe": PATTERN % "{1,3}", "qwen2": PATTERN % "", "stablelm2": PATTERN % "", "tekken": TEKKEN}.get(kind)
    if kind == "smollm":
        t["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level | {"use_regex": True}]}
    elif split:
        t["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}, level]}
    t["normalizer"] = {"type": "NFC"} if kind == "qwen2" else None
    t["model"]["ignore_merges"] = kind == "llama-bpe"
    t["model"]["vocab"].pop("<|endoftext|>")
    n = len(t["model"]["vocab"])
    t["added_tokens"] = [{"id": n + i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                         for i, c in enumerate((END, BEGIN, TURN))]
    if kind in ("llama-bpe", "tekken"):
        t["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": BEGIN, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                               "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                               "special_tokens": {BEGIN: {"id": BEGIN, "ids": [n + 1], "tokens": [BEGIN]}}}
    else:
        t["post_processor"] = None
    json.dump(t, open(path, "w"))
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BEGIN, "eos_token": END, "chat_template": TEMPLATE},
              open(os.path.join(folder, "tokenizer_config.json"), "w"))
    return n + 3


def characters(folder, prefix, text):
    """SentencePiece's kind, of the most frequent pieces of the text: every pair whose union is a token is a merge."""
    os.makedirs(folder)
    counts = {}
    for word in re.findall(r" ?[^ \n]+| +|\n+", text):
        word = word.replace(" ", MARK)
        for i in range(len(word)):
            for k in range(i + 2, min(i + 9, len(word)) + 1):
                counts[word[i:k]] = counts.get(word[i:k], 0) + 1
    letters = sorted(set(text.replace(" ", MARK)) | set(map(chr, range(33, 127))))
    tokens = ["<unk>", "<s>", "</s>", TURN] + [f"<0x{b:02X}>" for b in range(256)]
    made = set(letters)
    pieces = []
    for piece in sorted(sorted(counts), key=lambda p: (len(p), -counts[p]))[:400] + sorted(sorted(counts), key=lambda p: -counts[p] * len(p))[:300]:
        if piece not in made and any(piece[:i] in made and piece[i:] in made for i in range(1, len(piece))):
            made.add(piece)
            pieces.append(piece)
    doubled = [] if prefix else [MARK * n for n in (2, 3)]
    pieces = [p for p in pieces if p not in doubled]
    tokens += doubled + pieces + [c for c in letters if c not in tokens]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = [[p[:i], p[i:]] for p in doubled + pieces for i in range(1, len(p)) if p[:i] in vocab and p[i:] in vocab]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    steps = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    added = ["<unk>", "<s>", "</s>", TURN] + doubled
    t = {"version": "1.0", "truncation": None, "padding": None,
         "added_tokens": [{"id": vocab[c], "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": c[0] == "<"}
                          for c in added],
         "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, replace]} if prefix else replace, "pre_tokenizer": None,
         "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
         "decoder": {"type": "Sequence", "decoders": steps + ([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else [])},
         "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
                   "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": merges}}
    json.dump(t, open(os.path.join(folder, "tokenizer.json"), "w"))
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": TEMPLATE},
              open(os.path.join(folder, "tokenizer_config.json"), "w"))
    return len(tokens)


def without_amx():
    """llama.cpp's products of Q8_0 on AMX end with an illegal instruction (0.3.36, tilezero without
    a configuration of tiles in that thread). Without buffers of its own kind it does not take AMX."""
    default = llama_cpp.llama_model_default_params

    def plain():
        params = default()
        params.use_extra_bufts = False
        return params
    llama_cpp.llama_model_default_params = llama_cpp.llama_cpp.llama_model_default_params = plain


def token_ids(path):
    return np.fromfile(path, dtype=np.uint16, offset=1024).tolist()


def ids_of(text, tokenizer, tmp):
    path, out = os.path.join(tmp, "text"), os.path.join(tmp, "ids.bin")
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    sitrain("prepare", path, "--tokenizer", tokenizer, "--out", out)
    ids = token_ids(out)
    os.unlink(out)
    return ids


def safetensors(folder):
    data = open(os.path.join(folder, "model.safetensors"), "rb").read()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__")
    return {k: np.frombuffer(data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], dtype=np.float32).reshape(v["shape"]) for k, v in header.items()}


NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
         "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GEMMA = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}


def theirs(name, value, family, heads, kv):
    """A tensor of the folder under llama.cpp's name, with its rows."""
    m = re.match(r"(?:model\.layers|transformer\.h)\.(\d+)\.(.*)\.(weight|bias)$", name)
    stem, end = (m[2], m[3]) if m else name.rsplit(".", 1)
    new = (GEMMA if family == "gemma3_text" else {}).get(stem) or NAMES[stem]
    if family in ("llama", "mistral") and new in ("attn_q", "attn_k"):
        n = heads if new == "attn_q" else kv
        value = value.reshape(n, 2, value.shape[0] // n // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
    if stem in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj") and end == "weight":
        value = value.T
    if family == "gemma3_text" and new.endswith("norm"):
        value = value + np.float32(1)
    return (f"blk.{m[1]}." if m else "") + f"{new}.{end}", np.ascontiguousarray(value)


def check_tensors(name, path, want, kind):
    reader, wrong = gguf.GGUFReader(path), []
    types = {"f32": "F32", "f16": "F16", "bf16": "BF16", "q8_0": "Q8_0"}
    for t in reader.tensors:
        if t.name == "rope_freqs.weight":
            continue
        w = want.pop(t.name, None)
        if w is None:
            wrong.append(f"{t.name} is not the model's")
            continue
        plain = w.ndim == 1 or t.name == "position_embd.weight"
        expect = "F32" if plain else "F16" if kind == "q8_0" and w.shape[1] % 32 else types[kind]
        if t.tensor_type.name != expect or list(reversed(t.shape.tolist())) != list(w.shape):
            wrong.append(f"{t.name}: {t.tensor_type.name} {t.shape}, not {expect} {w.shape}")
        elif quants.quantize(w, t.tensor_type).tobytes() != np.ascontiguousarray(t.data).tobytes():
            wrong.append(f"{t.name}: other bytes than the package's")
        elif abs(quants.dequantize(t.data, t.tensor_type).reshape(w.shape) - w).max() > {"F32": 0, "F16": 2e-3, "BF16": 1.6e-2, "Q8_0": 2e-2}[expect] * abs(w).max():
            wrong.append(f"{t.name}: other values")
    wrong += [f"{k} is missing" for k in want]
    result(not wrong, f"{name}, {kind}: every tensor is the model's", "\n".join(wrong))


def perplexity(llm, ids):
    total, n = 0.0, 0
    for at in range(0, len(ids) - SEQ, SEQ):
        llm.reset()
        llm.eval(ids[at:at + SEQ])
        logits = llm.scores[:SEQ].astype(np.float64)
        top = logits.max(axis=1)
        total += float((top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) - logits[np.arange(SEQ), ids[at + 1:at + SEQ + 1]]).sum())
        n += SEQ
    return math.exp(total / n)


def greedy(llm, ids):
    llm.reset()
    out = []
    for _ in range(TOKENS):
        llm.eval(ids if not out else out[-1:])
        out.append(int(llm.scores[llm.n_tokens - 1].argmax()))
        if out[-1] == llm.token_eos():
            break
    return out


def check_llama(name, path, run, tokenizer, held, tmp, kind):
    llm = Llama(path, n_ctx=POSITIONS, logits_all=True, type_k=0, type_v=0, flash_attn=False, verbose=False, n_threads=2)
    if kind == "f32":
        wrong = [f"{text!r}: {ours} here, {them} there" for text in TEXTS
                 for ours, them in [(ids_of(text, tokenizer, tmp), llm.tokenize(text.encode(), add_bos=True, special=True))] if ours != them]
        result(not wrong, f"{name}: llama.cpp gives the same ids for texts", "\n".join(wrong))
        prompt = "the old whale"
        ids = llm.tokenize(prompt.encode(), add_bos=True, special=True)
        ours = sitrain("generate", run, "--prompt", prompt, "--tokens", TOKENS, "--temperature", 0, "--dtype", "fp32").decode(errors="replace").rstrip("\n")
        out = greedy(llm, ids)
        begun = ids[0] == llm.token_bos()
        text = llm.detokenize(ids[begun:] + [i for i in out if i != llm.token_eos()]).decode(errors="replace").strip(" ").rstrip("\n")
        result(ours.strip(" ") == text, f"{name}: and the same greedy text", f"{ours!r}\n{text!r}")
        result(llm.metadata.get("tokenizer.chat_template") == TEMPLATE or name == "GPT-2", f"{name}: with the chat template")
    ids = token_ids(held)
    out = sitrain("eval", run, "--data", held, "--seq", SEQ, "--dtype", "fp32").decode()
    ours, them = float(re.search(r"perplexity ([\d.]+)", out)[1]), perplexity(llm, ids)
    result(abs(them / ours - 1) < {"f32": 1e-3, "f16": 2e-3, "bf16": 1e-2, "q8_0": 1e-2}[kind], f"{name}, {kind}: and the same perplexity ({ours:.4f}, {them:.4f})")
    llm.close()


def check_model(name, tmp, text, base):
    family, kind, sizes, more = MODELS[name]
    folder, run = os.path.join(tmp, "model"), os.path.join(tmp, "run")
    for path in (folder, run, folder + "-hf"):
        shutil.rmtree(path, ignore_errors=True)
    training = ["--data", os.path.join(tmp, "text.txt"), "--seq", 64, "--batch", 4, "--steps", 40, "--lr", "3e-3", "--mode", "mem", "--device-in-ram", "--quiet",
                "--dtype", "fp32"]
    if kind.startswith("spm"):
        vocab = characters(folder, kind == "spm prefix", text)
    elif kind == "gpt-2":
        shutil.copytree(base, folder)
    else:
        vocab = byte_level(folder, kind, base)
    if sizes:
        decoder(family, folder, vocab + (5 if family == "qwen2" else 0), POSITIONS, sizes, more, spread=0.1)
        end = "</s>" if kind.startswith("spm") else END
        json.dump({"eos_token_id": [json.load(open(folder + "/tokenizer.json"))["model"]["vocab"].get(end, vocab - 3)]}, open(folder + "/generation_config.json", "w"))
        sitrain("pretrain", "--run", run, "--init", folder, *training)
    else:
        sitrain("pretrain", "--run", run, "--n-layer", 3, "--n-head", 2, "--n-embd", 64, "--tokenizer", folder, *training)
    held = os.path.join(tmp, "held.bin")
    if os.path.exists(held):
        os.unlink(held)
    sitrain("prepare", os.path.join(tmp, "held.txt"), "--tokenizer", folder, "--out", held)
    sitrain("export", run, folder + "-hf")
    tensors = safetensors(folder + "-hf")
    heads, kv = sizes[2:4] if sizes else (2, 2)
    for dtype in ("f32", "f16", "bf16", "q8_0"):
        path, again = os.path.join(tmp, "m.gguf"), os.path.join(tmp, "again.gguf")
        sitrain("export", run, path, "--gguf-type", dtype)
        check_tensors(name, path, dict(theirs(k, v, family, heads, kv) for k, v in tensors.items()), dtype)
        check_llama(name, path, run, folder, held, tmp, dtype)
        sitrain("export", path, again, "--gguf-type", dtype)
        result(open(path, "rb").read() == open(again, "rb").read(), f"{name}, {dtype}: what is read is written again, byte for byte")
    shutil.rmtree(os.path.join(tmp, "imported"), ignore_errors=True)
    sitrain("export", path, os.path.join(tmp, "imported"))
    wrong = [f"{t!r}" for t in TEXTS if ids_of(t, folder, tmp) != ids_of(t, os.path.join(tmp, "imported"), tmp)]
    result(not wrong, f"{name}: the tokenizer that is read back gives the same ids", "\n".join(wrong))


def answer(run, question):
    """What `generate --chat` says in fp32."""
    return subprocess.run([BIN, "generate", run, "--chat", "--temperature", "0", "--tokens", "20", "--dtype", "fp32"], input=question + "\n",
                          capture_output=True, text=True, check=True).stdout.strip()


def check_docs(tmp):
    """A chat model with adapters, as the tutorial trains it, in docs/gguf.md's lines."""
    folder, run = os.path.join(tmp, "model"), os.path.join(tmp, "run")
    for path in (folder, run):
        shutil.rmtree(path, ignore_errors=True)
    os.mkdir(folder)
    with open(os.path.join(ROOT, "tests", "fixtures", "chat.json"), encoding="utf-8") as f:
        kind = json.load(f)["llama"]
    with open(os.path.join(ROOT, "examples", "chat.sh"), encoding="utf-8") as f:
        template = re.search(r"<<'TEMPLATE'\n(.*?)^TEMPLATE", f.read(), re.M | re.S)[1]
    for name, text in (("tokenizer.json", json.dumps(kind["tokenizer"])), ("tokenizer_config.json", json.dumps(kind["config"])), ("turns.jinja", template),
                       ("chat.jsonl", "".join(json.dumps({"messages": [
                           {"role": "user", "content": f"Tell me about the {how} {what}."},
                           {"role": "assistant", "content": json.dumps({"thing": what, "is": how})}]}) + "\n"
                           for how in ("quiet", "old", "red") for what in ("forest", "ship", "sea")))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    decoder("llama", folder, 512, 256, (2, 64, 4, 2, 32, 96))
    sitrain("finetune", "--task", "chat", "--init", folder, "--chat-template", folder + "/turns.jinja", "--train-file", folder + "/chat.jsonl", "--run", run,
            "--lora-rank", 8, "--lora-targets", "all", "--lr", "1e-2", "--epochs", 60, "--max-seq", 128, "--mode", "mem", "--dtype", "fp32", "--quiet")
    sitrain("export", run, os.path.join(tmp, "adapted.gguf"), "--gguf-type", "f32")
    lines = python_of("gguf.md", "The same answer in Python")
    ours = answer(run, re.search(QUESTION, lines)[1])
    said = in_python(lines, tmp).strip()
    result(ours == said and len(ours) > 3, "the lines of docs/gguf.md: the same answer", f"{ours!r}\n{said!r}")


def check_tutorial(tmp):
    """Section 8 of docs/tutorial.md with the GPT-2 of DATA, its commands as they stand there; then llama.cpp answers questions that were not trained on."""
    model = os.path.join(os.environ.get("SITRAIN_DATA") or "", "gpt2-30m")
    if not os.path.isdir(model):
        skip("the tutorial's chat model with adapters in llama.cpp", "DATA=FOLDER with gpt2-30m is not given")
        return
    here = os.path.join(tmp, "tutorial")
    os.mkdir(here)
    os.symlink(model, os.path.join(here, "gpt2"))
    os.symlink(BIN, os.path.join(here, "siTrain"))
    with open(os.path.join(ROOT, "examples", "chat.sh"), encoding="utf-8") as f:
        rows = re.search(r"^: >chat\.jsonl\n.*?^TEMPLATE$", f.read(), re.M | re.S)[0]
    with open(os.path.join(ROOT, "docs", "tutorial.md"), encoding="utf-8") as f:
        section = re.search(r"^## 8\..*?(?=^## )", f.read(), re.M | re.S)[0]
    commands = re.findall(r"^\$ ((?:.*\\\n)*.*)$", section, re.M)
    ran = subprocess.run(["sh", "-e", "-c", "\n".join([rows, *commands])], cwd=here, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    shown = re.search(r"^\{.*\}$", section, re.M)[0]
    result(ran.returncode == 0 and shown in ran.stdout.splitlines(), "the tutorial's chat model with adapters answers as shown", ran.stdout + ran.stderr[-1500:])

    lines = python_of("gguf.md", "The same answer in Python")
    said = in_python(lines, here).strip()
    result(said == shown, "  and llama.cpp answers the same, by the lines of docs/gguf.md", repr(said))
    run = os.path.join(here, "adapted")
    sitrain("export", run, os.path.join(here, "adapted.gguf"), "--gguf-type", "f32")
    with open(os.path.join(here, "chat-dev.jsonl"), encoding="utf-8") as f:
        asked = [json.loads(line)["messages"][0]["content"] for line in f][::12]
    asked.append("What is the sea? Tell me more.")  # a form that it was not trained on
    wrong = []
    for question in asked:
        ours = answer(run, question)
        said = in_python(re.sub(QUESTION, lambda _: '"content": ' + json.dumps(question), lines), here).strip()
        if ours != said or not ours:
            wrong.append(f"{question!r}: {ours!r} here, {said!r} there")
    result(len(asked) > 8 and not wrong, f"  and {len(asked)} more questions, from a file in f32", "\n".join(wrong))


def main():
    without_amx()
    tmp = tempfile.mkdtemp()
    try:
        text = corpus()
        for name, part in ("text.txt", text), ("held.txt", text[::-1][:2500][::-1]):
            with open(os.path.join(tmp, name), "w", encoding="utf-8") as f:
                f.write(part)
        base = os.path.join(tmp, "base")
        sitrain("prepare", os.path.join(tmp, "text.txt"), "--train-tokenizer", "--vocab", 330, "--out", base)
        only = sys.argv[1:]
        for name in MODELS:
            if not only or name in only:
                try:
                    check_model(name, tmp, text, base)
                except (AssertionError, ValueError) as e:
                    result(False, f"{name}: works", str(e))
        if not only or "docs" in only:
            check_docs(tmp)
        if not only or "tutorial" in only:
            check_tutorial(tmp)
    finally:
        shutil.rmtree(tmp)
    return done()


if __name__ == "__main__":
    sys.exit(main())
