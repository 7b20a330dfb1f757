#!/usr/bin/env python3
"""adapters.py: adapters (LoRA) beside all parameters of the same model, in turns: tokens a second,
peak memory, bytes written and read a step, and what `siTrain plan` predicts just before each turn.
`make bench-adapters` runs it.

The model is a Llama of random numbers, a folder in bf16 (TinyLlama's sizes unless --sizes says
otherwise). Each variant has one run on emulated devices, which every round resumes for --steps
steps, in a process of its own; the first --skip of them are not counted. Each round begins with
another variant. Ratios are formed inside a round; the table has medians over the rounds. "Of least"
is the least prediction over the shortest step, which tells more where others use the machine. The
exit code is 1 where adapters on drives take more memory than --most-rss, or a prediction is further
off than --limit.
Options that are not listed here go to plan and to pretrain, in place of a variant's own. Standard
library only. Environment: SITRAIN the program (./siTrain)."""

import argparse
import json
import os
import random
import statistics
import struct
import tempfile

import common

ADAPTERS, PLACE = ["--lora-rank", 16, "--lora-targets", "all", "--host-mem", "1000M"], "--base-in-place"
# Options beside those of all, and flags; "LEAST": memory that is just enough, as plan says.
VARIANTS = {
    "all parameters": (["--host-mem", "LEAST"], []),
    "adapters": (ADAPTERS, [PLACE]),
    "adapters, mem": ([*ADAPTERS[:4], "--mode", "mem", "--activations", "keep"], [PLACE]),
    "adapters, copied": (ADAPTERS, []),
    "adapters, int8": ([*ADAPTERS, "--base-dtype", "int8"], []),
    "adapters, nf4": ([*ADAPTERS, "--base-dtype", "nf4"], []),
}
REST = ["--batch", 4, "--seq", 512, "--mode", "su+o", "--activations", "offload"]
POOL = (1 << 20) + 7  # numbers that all tensors are cut from


def tensors(layers, width, heads, keys, inner, vocab):
    """(name, shape) of a Llama's."""
    head = width // heads
    yield "model.embed_tokens.weight", [vocab, width]
    for i in range(layers):
        at = f"model.layers.{i}."
        for name, rows in (("q", heads), ("k", keys), ("v", keys)):
            yield f"{at}self_attn.{name}_proj.weight", [rows * head, width]
        yield at + "self_attn.o_proj.weight", [width, heads * head]
        for name, shape in (("gate", [inner, width]), ("up", [inner, width]), ("down", [width, inner])):
            yield f"{at}mlp.{name}_proj.weight", shape
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{name}.weight", [width]
    yield "model.norm.weight", [width]
    yield "lm_head.weight", [vocab, width]


def make_model(folder, sizes):
    """A Hugging Face folder in bf16, written tensor by tensor."""
    layers, width, heads, keys, inner, vocab = sizes
    r = random.Random(1)
    pool = bytearray()  # a child's peak memory begins with its parent's: nothing large is made here
    while len(pool) < 2 * POOL:
        pool += struct.pack("<f", r.gauss(0, 0.02))[2:]
    header, at = {}, 0
    for name, shape in tensors(*sizes):
        n = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    head = json.dumps(header).encode()
    os.mkdir(folder)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for name, info in header.items():
            left = info["data_offsets"][1] - info["data_offsets"][0]
            part = struct.pack("<f", 1)[2:] * (left // 2) if "norm" in name else pool
            while left:
                left -= f.write(memoryview(part)[:left])
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": layers,
              "hidden_size": width, "num_attention_heads": heads, "num_key_value_heads": keys,
              "intermediate_size": inner, "vocab_size": vocab, "max_position_embeddings": 2048,
              "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
              "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


def arguments(name, base, rest):
    own, flags = VARIANTS[name]
    out = ["--init", base, *flags, *common.completed(common.completed(rest, [(own, set())]), [(REST, set())])]
    if "LEAST" in out:
        at = out.index("LEAST")
        out[at] = common.host_mem(out[:at - 1] + out[at + 1:])
    return out


def measure(name, argv, folder, a):
    """One turn: the prediction, then so many steps more of this variant's run."""
    run, out = os.path.join(folder, name.replace(" ", "-").replace(",", "")), {}
    threads = ["--threads", a.threads]
    if not a.no_plan:
        said = common.program("plan", *argv, *threads, "--data", a.tokens, "--run", run + ".plan",
                              "--json", "-")
        out["predicted"] = json.loads(said)["step"]["seconds"]
    first = common.visit(run, ["--data", a.tokens, *argv, "--durability", "none"],
                         ["--schedule-steps", 10**6, *threads], a.steps)
    rows = common.query(run, "SELECT seconds, tokens, peak_rss FROM steps WHERE step >= ? ORDER BY step", first)
    moved = dict(common.query(run, "SELECT direction, sum(bytes) FROM traffic WHERE step >= ? "
                                   "GROUP BY direction", first + a.skip))
    steady, count = rows[a.skip:], a.steps - a.skip
    out["seconds"] = statistics.median(s for s, _, _ in steady)
    out["least"] = min(s for s, _, _ in steady)
    out["rate"] = statistics.median(t / s for s, t, _ in steady)
    out["rss"] = max(r for _, _, r in rows)
    return out | {k: moved.get(k, 0) / count for k in ("read", "write")}


def table(results, names):
    """Prints the rows; returns the most that a prediction is off."""
    form, worst = "{:<18} {:>9} {:>9} {:>9} {:>9} {:>9} {:>22} {:>22} {:>9}", 0
    print(form.format("", "tokens/s", "RSS, MiB", "written", "read, GB", "step, s", "of all parameters' rate",
                      "predicted / measured", "of least"))
    for name in names:
        of = list(results.data["runs"].get(name, {}).values())
        if not of:
            continue
        middle = {k: statistics.median(x[k] for x in of) for k in ("rate", "seconds", "read", "write")}
        ratios = results.ratios(name, names[0], "rate")
        off = [x["predicted"] / x["seconds"] for x in of if "predicted" in x]
        worst = max(worst, abs(statistics.median(off) - 1)) if off else worst
        least = min(x["predicted"] for x in of) / min(x["least"] for x in of) if off else 0
        print(form.format(name, f"{middle['rate']:.1f}", f"{max(x['rss'] for x in of) / 2**20:.0f}",
                          f"{middle['write'] / 1e9:.2f}", f"{middle['read'] / 1e9:.2f}",
                          f"{middle['seconds']:.2f}",
                          common.spread(ratios, 2) if ratios else "-", common.spread(off, 2) if off else "-",
                          f"{least:.2f}" if off else "-"))
    return worst


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    common.options(p, rounds=3, steps=3, skip=1)
    p.add_argument("--sizes", default="22,2048,32,4,5632,32000",
                   help="layers, width, heads, heads of keys, width of the MLP, words (default: "
                        "1.1 billion parameters)")
    p.add_argument("--variants", default="all parameters;adapters",
                   help=f"of {'; '.join(VARIANTS)}, with ; between")
    p.add_argument("--most-rss", type=float, default=1024, help="MiB that runs of adapters on drives may take (0: any)")
    p.add_argument("--limit", type=float, default=0, help="%% that a prediction may be off (0: any)")
    p.add_argument("--no-plan", action="store_true", help="predict nothing")
    a, rest = p.parse_known_args()
    if a.rounds < 1 or a.steps <= a.skip:
        p.error("--rounds: at least one, and --steps: more than --skip")
    a.names = [n.strip() for n in a.variants.split(";")]
    for n in a.names:
        if n not in VARIANTS:
            p.error(f"--variants: {n} is none of {'; '.join(VARIANTS)}")
    common.usable(p)
    a.clock = common.Clock(a.seconds)
    return a, rest


def main():
    a, rest = options()
    results = common.Results(a.json, [a.sizes, a.steps, a.skip, *rest])
    with tempfile.TemporaryDirectory(prefix="sitrain-bench-", dir=a.dir) as folder:
        base, a.tokens = os.path.join(folder, "model"), os.path.join(folder, "tokens.bin")
        sizes = [int(n) for n in a.sizes.split(",")]
        make_model(base, sizes)
        common.make_tokens(a.tokens, 200000, sizes[-1])
        argv = {name: arguments(name, base, rest) for name in a.names}
        say = lambda x: f"{x['rate']:.1f} tokens/s, {x['rss'] / 2**20:.0f} MiB of RSS"
        for r in range(a.rounds):
            if not results.round(r, a.names, lambda name: measure(name, argv[name], folder, a), a, say):
                break
    print(common.machine_line(results.data["machine"]))
    off = table(results, a.names)
    most = max((x["rss"] for n in a.names if "1000M" in VARIANTS[n][0]
                for x in results.data["runs"].get(n, {}).values()), default=0)
    heavy, far = a.most_rss and most > a.most_rss * 2**20, a.limit and off > a.limit / 100
    return 1 if heavy or far or results.data["left_out"] else 0


if __name__ == "__main__":
    common.main(main)
