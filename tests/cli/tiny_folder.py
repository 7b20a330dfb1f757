#!/usr/bin/env python3
"""tiny_folder.py FAMILY FOLDER [CLASS | IDS POSITIONS]: a Hugging Face folder of a tiny model of random numbers, for the tests of families.

FAMILY is config.json's model_type. A decoder's folder may be there already, with a tokenizer of IDS ids (300). An encoder gets a WordPiece
tokenizer of letters, and is what CLASS says: Model, ForMaskedLM (Bert and Roberta go before it).
"""
import json
import os
import random
import struct
import sys

DECODERS = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma3_text": "Gemma3"}
ENCODERS = {"bert": "Bert", "roberta": "Roberta"}


def write(to, config, tensors, spread):
    """config.json and model.safetensors: tensors, (name, shape, base), of random numbers about base, by the model's type."""
    rng, header, data = random.Random(config["model_type"]), {}, b""
    for name, shape, base in tensors:
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{n}f", *(base + rng.gauss(0, spread) for _ in range(n)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    head = json.dumps(header).encode()
    with open(to + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)
    with open(to + "/config.json", "w") as f:
        json.dump(config, f)


def decoder(family, to, V=300, positions=64, sizes=None, more=None, spread=0.05):
    """sizes: layers, width, heads, heads of keys, size of a head, width of the MLP; more: of config.json."""
    L, C, H, KV, D, I = sizes or (3, 24, 4, 2, 10 if family == "mistral" else 6, 28)
    config = {"model_type": family, "architectures": [DECODERS[family] + "ForCausalLM"],
              "num_hidden_layers": L, "hidden_size": C, "num_attention_heads": H, "num_key_value_heads": KV, "head_dim": D, "intermediate_size": I,
              "vocab_size": V, "max_position_embeddings": positions, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": family[0] in "qg"}
    if family == "llama":
        config |= {"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                            "original_max_position_embeddings": 16}}
    else:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    if family in ("mistral", "gemma3_text"):
        config["sliding_window"] = 9
    if family == "gemma3_text":
        del config["rope_parameters"], config["hidden_act"]
        config |= {"rope_local_base_freq": 500.0, "sliding_window_pattern": 3, "query_pre_attn_scalar": D, "hidden_activation": "gelu_pytorch_tanh"}
    config |= more or {}
    shapes = {"model.embed_tokens.weight": [V, C], "model.norm.weight": [C]}
    for l in range(L):
        at = f"model.layers.{l}."
        shapes |= {at + "input_layernorm.weight": [C], at + "post_attention_layernorm.weight": [C], at + "self_attn.o_proj.weight": [C, H * D],
                   at + "mlp.gate_proj.weight": [I, C], at + "mlp.up_proj.weight": [I, C], at + "mlp.down_proj.weight": [C, I]}
        if family == "gemma3_text":
            shapes |= {at + "pre_feedforward_layernorm.weight": [C], at + "post_feedforward_layernorm.weight": [C]}
        for name, heads in ("q", H), ("k", KV), ("v", KV):
            shapes[f"{at}self_attn.{name}_proj.weight"] = [heads * D, C]
            if family == "qwen2":
                shapes[f"{at}self_attn.{name}_proj.bias"] = [heads * D]
            if family in ("qwen3", "gemma3_text") and name != "v":
                shapes[f"{at}self_attn.{name}_norm.weight"] = [D]
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [V, C]
    write(to, config, [(name, shape, int("norm" in name and family[0] != "g")) for name, shape in shapes.items()], spread)


def encoder(family, to, kind):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [mark + c for c in "abcdefghijklmnopqrstuvwxyz" for mark in ("", "##")]
    L, C, H, I, V, P, types = 3, 24, 3, 40, len(pieces) if family == "bert" else 270, 48, 2 if family == "bert" else 1
    config = {"model_type": family, "architectures": [ENCODERS[family] + kind], "num_hidden_layers": L, "hidden_size": C, "num_attention_heads": H,
              "intermediate_size": I, "vocab_size": V, "max_position_embeddings": P, "type_vocab_size": types, "layer_norm_eps": 1e-5,
              "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "pad_token_id": 0}
    shapes = {"embeddings.word_embeddings.weight": [V, C], "embeddings.position_embeddings.weight": [P, C],
              "embeddings.token_type_embeddings.weight": [types, C], "embeddings.LayerNorm": [C]}
    for l in range(L):
        at = f"encoder.layer.{l}."
        shapes |= {at + "attention.output.LayerNorm": [C], at + "output.LayerNorm": [C]}
        for name, out, inner in (("attention.self.query", C, C), ("attention.self.key", C, C), ("attention.self.value", C, C),
                                 ("attention.output.dense", C, C), ("intermediate.dense", I, C), ("output.dense", C, I)):
            shapes |= {f"{at}{name}.weight": [out, inner], f"{at}{name}.bias": [out]}
    shapes = {f"{family}.{name}": shape for name, shape in shapes.items()}
    if kind == "ForMaskedLM":
        head, dense, norm = ("cls.predictions.", "transform.dense", "transform.LayerNorm") if family == "bert" else ("lm_head.", "dense", "layer_norm")
        shapes |= {head + "bias": [V], head + dense + ".weight": [C, C], head + dense + ".bias": [C], head + norm: [C]}
    tensors = []
    for name, shape in shapes.items():
        norm = name.endswith(("LayerNorm", "layer_norm"))
        tensors += [(name + ".weight", shape, 1), (name + ".bias", shape, 0)] if norm else [(name, shape, 0)]
    write(to, config, tensors, 0.2)
    with open(to + "/vocab.txt", "w") as f:
        f.write("".join(p + "\n" for p in pieces))
    with open(to + "/tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True}, f)


def tiny(family, to, *more):
    os.makedirs(to, exist_ok=True)
    if family in DECODERS:
        decoder(family, to, *map(int, more))
    else:
        encoder(family, to, *more or ["ForMaskedLM"])


if __name__ == "__main__":
    tiny(*sys.argv[1:])
