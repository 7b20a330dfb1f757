#!/usr/bin/env python3
"""check_lines.py: the commands in messages that refuse somebody's model or adapter, run as they stand there. `make check-hf` runs
it; it prints TAP.

A tiny Llama is quantized by bitsandbytes and by MLX, and as AutoAWQ stores it, and gets adapters that siTrain does not train: DoRA, an adapted head, added
tokens (with adapted embeddings, too), IA3, MLX's own. siTrain names each, and gives a command. The folder that this makes is one that siTrain evaluates,
with the logits that the library itself has for what it was made of."""
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

import torch
from peft import IA3Config, LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, LlamaConfig, PreTrainedTokenizerFast
from transformers.utils import logging

from checks import BIN, done, result, sitrain

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures"))
from make_tokenizers import KINDS, WORDS  # noqa: E402

TOLERANCE = 1e-5  # of logits, relative to the largest
IDS = torch.arange(3, 33).view(2, 15)
ADAPTERS = {  # name: settings of peft, rows of embeddings, whether the base's head is tied to these
    "DoRA": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "up_proj"], use_dora=True), 0, False),
    "an adapted head": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "lm_head"]), 0, False),
    "an adapted head that was tied": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "lm_head"]), 0, True),
    "adapted embeddings that were tied": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "embed_tokens"]), 0, True),
    "trained embeddings that were tied": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"]), 0, True),
    "trained tokens": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"], trainable_token_indices=[5, 9]), 0, False),
    "trained tokens of a tied model": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"], trainable_token_indices=[5, 9]), 0, True),
    "adapted embeddings that stay tied": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "embed_tokens"], ensure_weight_tying=True), 0, True),
    "an adapted head that stays tied": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "lm_head"], ensure_weight_tying=True), 0, True),
    "adapted embeddings that cannot stay tied": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "embed_tokens"], ensure_weight_tying=True), 0, False),
    "trained embeddings that stay tied": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"],
                                                     ensure_weight_tying=True), 0, True),
    "added tokens": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"]), 8, False),
    "added tokens of a tied model": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"]), 8, True),
    "added tokens and adapted embeddings of a tied model": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "embed_tokens"]), 8, True),
    "added tokens and an adapted head": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "lm_head"]), 8, False),
    "added tokens and an adapted head of a tied model": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "lm_head"]), 8, True),
    "added tokens and adapted embeddings that stay tied": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "embed_tokens"],
                                                                      ensure_weight_tying=True), 8, True),
    "added tokens, trained by themselves": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"], trainable_token_indices=[5, 9]), 8, False),
    "added tokens, trained by themselves, of a tied model": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"],
                                                                        trainable_token_indices=[5, 9]), 8, True),
    "added tokens, adapted embeddings, a trained head": (LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "embed_tokens"],
                                                                    modules_to_save=["lm_head"], ensure_weight_tying=True), 8, False),
    "IA3": (IA3Config(task_type="CAUSAL_LM"), 0, False),
}


def logits(model):
    with torch.no_grad():
        return model.eval()(IDS).logits.float()


def load(folder, **more):
    return AutoModelForCausalLM.from_pretrained(folder, **more)


def make_base(folder, tied=False):
    t = PreTrainedTokenizerFast(tokenizer_object=KINDS["llama2"](), bos_token="<s>", eos_token="</s>")
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(LlamaConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=4, num_key_value_heads=2,
                                                         intermediate_size=256, vocab_size=len(t), max_position_embeddings=64, tie_word_embeddings=tied))
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.normal_(1.0 if "norm" in key else 0.0, 0.1)
    model.save_pretrained(folder)
    t.save_pretrained(folder)


def follow(folder, text):
    """Runs the command of siTrain's message, and evaluates the folder that it makes."""
    ran = subprocess.run([BIN, "eval", folder + "/", "--data", text, "--seq", "16"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    line = re.search(r"(python3 -.*) makes the folder (\S+?),? ", ran.stderr)
    assert ran.returncode == 2 and line, ran.stderr
    made = subprocess.run(line[1], shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert made.returncode == 0, f"{line[1]}\n{made.stderr[-1500:]}"
    sitrain("eval", line[2], "--data", text, "--seq", 16)
    return line[2]


def compare(name, want, folder, text, tolerance=TOLERANCE):
    try:
        got = logits(load(follow(folder, text), dtype=torch.float32))
        worst = ((got - want).abs().max() / want.abs().max()).item()
        result(worst <= tolerance, name, f"logits differ by {worst:.3g}")
    except Exception as e:  # whatever it was, it is this test's failure
        result(False, name, f"{type(e).__name__}: {e}")


def adapted(base, folder, settings, more):
    model = load(base)
    if more:
        model.resize_token_embeddings(model.config.vocab_size + more)
    model = get_peft_model(model, settings)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key or "lora_embedding" in key or "ia3" in key or "modules_to_save" in key or "trainable_tokens_delta" in key:
                p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    return logits(model)


def adapted_by_mlx(base, folder):
    """An adapter as mlx_lm stores it: (in, r) and (r, out), and a scale of its own."""
    os.mkdir(folder)
    name, scale = "model.layers.{}.self_attn.q_proj", 2.0
    pairs = {name.format(l): (torch.randn(128, 4) * 0.1, torch.randn(4, 128) * 0.1) for l in (0, 1)}
    save_file({f"{key}.lora_{n}": x for key, pair in pairs.items() for n, x in zip("ab", pair)}, folder + "/adapters.safetensors")
    with open(folder + "/adapter_config.json", "w", encoding="utf-8") as f:
        json.dump({"fine_tune_type": "lora", "num_layers": 2, "model": base,
                   "lora_parameters": {"rank": 4, "scale": scale, "dropout": 0.0, "keys": ["self_attn.q_proj"]}}, f)
    model = load(base)
    with torch.no_grad():
        for key, (a, b) in pairs.items():
            model.get_submodule(key).weight += scale * (a @ b).T
    return logits(model)


def quantized_as_awq(base, folder, group=32):
    """The matrices of the layers in 4 bits as AutoAWQ's GEMM kernels take them: eight columns in a word, in this order. The logits of what they mean."""
    order, model = [0, 2, 4, 6, 1, 3, 5, 7], load(base, dtype=torch.float16)
    state = model.state_dict()

    def packed(x):
        return sum(x[:, order[i]::8].to(torch.int64) << 4 * i for i in range(8)).to(torch.int32)  # the uppermost bit is the sign
    for key in [k for k in state if k.endswith("_proj.weight")]:
        w = state[key].T.float()  # (in, out)
        blocks = w.view(-1, group, w.shape[1])
        least, most = blocks.amin(1).clamp(max=0), blocks.amax(1).clamp(min=0)
        scale = ((most - least) / 15).to(torch.float16)
        zero = (-least / scale.float()).round().clamp(0, 15)
        grid = (blocks / scale.float()[:, None] + zero[:, None]).round().clamp(0, 15)
        plain = ((grid - zero[:, None]) * scale.float()[:, None]).view(w.shape).to(torch.float16)
        stem = key.removesuffix(".weight")
        state |= {stem + ".qweight": packed(grid.view(w.shape)), stem + ".qzeros": packed(zero), stem + ".scales": scale}
        model.get_submodule(stem).weight.data = plain.T.contiguous()
        del state[key]
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    model.config.save_pretrained(folder)
    save_file({k: v.contiguous() for k, v in state.items()}, folder + "/model.safetensors", {"format": "pt"})
    with open(folder + "/config.json", encoding="utf-8") as f:
        config = json.load(f)
    config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm",
                                     "modules_to_not_convert": None}
    with open(folder + "/config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    return logits(model.float())


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="sitrain-lines-", dir="/var/tmp") as tmp:
        base, tied, text = os.path.join(tmp, "hf"), os.path.join(tmp, "tied"), os.path.join(tmp, "text.txt")
        make_base(base)
        make_base(tied, True)
        with open(text, "w", encoding="utf-8") as f:
            f.write(" ".join(WORDS * 20))
        for name, (settings, more, of_tied) in ADAPTERS.items():
            folder = os.path.join(tmp, name.replace(" ", "-"))
            compare(name, adapted(tied if of_tied else base, folder, settings, more), folder, text)
        folder = os.path.join(tmp, "mlx-adapter")
        compare("an adapter of MLX", adapted_by_mlx(base, folder), folder, text)
        for name, how in (("4", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}), ("8", {"load_in_8bit": True})):
            folder = os.path.join(tmp, "bits" + name)
            load(base, quantization_config=BitsAndBytesConfig(**how)).save_pretrained(folder)
            AutoTokenizer.from_pretrained(base).save_pretrained(folder)
            compare(f"bitsandbytes in {name} bits", logits(load(folder, dtype=torch.float32).dequantize()), folder, text)
        folder = os.path.join(tmp, "awq")
        want = quantized_as_awq(base, folder)
        compare("AWQ", want, folder, text)
        compare("compressed-tensors, which AWQ's command makes on the way", want, folder + "-ct", text, 5e-3)
        folder = os.path.join(tmp, "mlx")
        subprocess.run([sys.executable, "-m", "mlx_lm", "convert", "--hf-path", base, "--mlx-path", folder, "-q", "--dtype", "float32"], check=True,
                       capture_output=True)
        compare("MLX in 4 bits", logits(load(base)), folder, text, 0.5)  # of the model before it was quantized
    return done()


if __name__ == "__main__":
    sys.exit(main())
