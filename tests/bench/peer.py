"""peer.py: one of peers.py's engines, in a process of its own: PyTorch or DeepSpeed on a GPT-2 or a Llama, on the CPU.

    peer.py ENGINE --batch B --seq T --accum A --threads N --data TOKENS ...

Reads a number of steps from stdin, does them, writes a line of JSON to stdout ({"seconds": of each, "losses", "peak_rss", "version"}), and so on until
stdin ends. ENGINE: "PyTorch" or "DeepSpeed", then fp32, autocast (products in bf16, parameters in fp32) or bf16 (all in bf16, moments too; DeepSpeed
keeps fp32 masters), then perhaps compiled."""
import argparse
import contextlib
import json
import math
import os
import random
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LR, DECAY, CLIP = 3e-4, 0.01, 1.0


# ---- GPT-2 and Llama: no dropout, tied head ----

class GPTLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (y.unflatten(2, (self.heads, -1)).transpose(1, 2) for y in self.attn(self.ln_1(x)).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class LlamaLayer(nn.Module):
    """Queries, keys and values are one product, gate and up another; tables: cosines and sines of (positions, a head)."""

    def __init__(self, width, heads, kv, inner):
        super().__init__()
        self.size = width // heads
        self.columns = [heads * self.size, kv * self.size, kv * self.size]
        self.norm_1, self.norm_2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attn, self.proj = nn.Linear(width, sum(self.columns), bias=False), nn.Linear(width, width, bias=False)
        self.gate_up, self.out = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def turn(self, x, tables):
        cos, sin = (t[:x.shape[2]].to(x.dtype) for t in tables)
        one, two = x.chunk(2, dim=3)
        return x * cos + torch.cat((-two, one), dim=3) * sin

    def forward(self, x, tables):
        q, k, v = (y.unflatten(2, (-1, self.size)).transpose(1, 2) for y in self.attn(self.norm_1(x)).split(self.columns, dim=2))
        y = F.scaled_dot_product_attention(self.turn(q, tables), self.turn(k, tables), v, is_causal=True, enable_gqa=True)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, dim=2)
        return x + self.out(F.silu(gate) * up)


class Model(nn.Module):
    """Of Llama where there are heads of keys and values (kv), else a GPT-2."""

    def __init__(self, a):
        super().__init__()
        self.wte = nn.Embedding(a.vocab, a.width)
        if a.kv:
            layer = lambda: LlamaLayer(a.width, a.heads, a.kv, a.inner)
            size = a.width // a.heads
            angles = torch.outer(torch.arange(a.positions).float(), 100000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
            self.tables, self.ln_f = (angles.cos(), angles.sin()), nn.RMSNorm(a.width, eps=1e-5)
        else:
            layer = lambda: GPTLayer(a.width, a.heads)
            self.wpe, self.ln_f = nn.Embedding(a.positions, a.width), nn.LayerNorm(a.width)
        self.h = nn.ModuleList(layer() for _ in range(a.layers))
        self.llama = a.kv > 0
        self.head = nn.Linear(a.width, a.vocab, bias=False)
        self.head.weight = self.wte.weight

    def init(self, gather=lambda p: contextlib.nullcontext()):
        for name, p in self.named_parameters():
            with gather(p):
                if p.dim() == 2:
                    nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * len(self.h)) if name.endswith(("proj.weight", "out.weight")) else 0.02)
        return self

    def forward(self, x, y):
        z = self.wte(x) if self.llama else self.wte(x) + self.wpe.weight[:x.shape[1]]
        for layer in self.h:
            z = layer(z, self.tables) if self.llama else layer(z)
        return F.cross_entropy(self.head(self.ln_f(z)).flatten(0, 1), y.flatten())


# ---- engines: each gives a function that does one step on micro-batches and returns the loss ----

def torch_engine(a, kind, compiled):
    model = Model(a).init()
    if kind == "bf16":
        model.to(torch.bfloat16)
    run = torch.compile(model, dynamic=False) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY, fused=True)

    def step(batches):
        loss = 0.0
        for x, y in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
                part = run(x, y) / len(batches)
            part.backward()
            loss += part.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss
    return step, torch.__version__


def deepspeed_config(a, kind):
    largest, square = a.vocab * a.width, a.width * a.width
    layer = 2 * square + 2 * square * a.kv // a.heads + 3 * a.width * a.inner if a.kv else 12 * square
    live = largest + 2 * layer  # 16 buffers, a matrix each, must hold what is live and what is prefetched
    nvme = {"device": "nvme", "nvme_path": a.folder, "pin_memory": False, "buffer_count": 16}
    return {
        "train_micro_batch_size_per_gpu": a.batch, "gradient_accumulation_steps": a.accum, "gradient_clipping": CLIP,
        "bf16": {"enabled": kind == "bf16"}, "optimizer": {"type": "AdamW", "params": {"lr": LR, "weight_decay": DECAY}},
        "zero_optimization": {
            "stage": 3, "contiguous_gradients": True, "overlap_comm": False,
            "stage3_prefetch_bucket_size": layer, "stage3_max_live_parameters": live, "stage3_max_reuse_distance": live,
            "offload_param": nvme | {"buffer_size": -(-largest // 1_000_000) * 1_000_000, "max_in_cpu": 0},
            "offload_optimizer": nvme | {"pipeline_read": True, "pipeline_write": True},
        },
        "aio": {"block_size": 1 << 20, "queue_depth": 16, "single_submit": False, "overlap_events": True},
        "steps_per_print": 100000,
    }


def deepspeed_engine(a, kind, _):
    os.environ |= {"DS_ACCELERATOR": "cpu", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randrange(20000, 60000)), "RANK": "0",
                   "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_SIZE": "1"}
    import deepspeed
    deepspeed.init_distributed("gloo", dist_init_required=True)
    config = deepspeed_config(a, kind)
    with deepspeed.zero.Init(config_dict_or_path=config):  # here it takes the precision asked for; initialize() alone may take bf16
        model = Model(a)
    model.init(lambda p: deepspeed.zero.GatheredParameters(p, modifier_rank=0))
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

    def step(batches):
        loss = 0.0
        for x, y in batches:
            part = engine(x, y)
            engine.backward(part)
            engine.step()
            loss += part.detach() / len(batches)
        return loss
    return step, deepspeed.__version__


# ---- the process ----

def read_batches(a):
    """For ever: a step's micro-batches of the token file."""
    with open(a.data, "rb") as f:
        ids = torch.frombuffer(bytearray(f.read()[1024:]), dtype=torch.uint16).long()
    size, at = a.batch * a.seq, 0
    while True:
        batches = []
        for _ in range(a.accum):
            at = 0 if at + size + 1 > len(ids) else at
            batches.append((ids[at:at + size].view(a.batch, a.seq), ids[at + 1:at + size + 1].view(a.batch, a.seq)))
            at += size
        yield batches


def set_cores(cores):
    for task in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(task), cores)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("engine")
    for name in ("batch", "seq", "accum", "threads", "layers", "heads", "kv", "width", "inner", "vocab", "positions", "warm"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--data", required=True)
    p.add_argument("--folder", required=True, help="for swap files")
    a = p.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    name, kind, *compiled = a.engine.split()
    step, version = {"PyTorch": torch_engine, "DeepSpeed": deepspeed_engine}[name](a, kind, compiled)
    batches, cores = read_batches(a), os.sched_getaffinity(0)
    set_cores(range(os.cpu_count()))  # compiling may have them all
    for _ in range(a.warm):
        step(next(batches))
    set_cores(cores)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        seconds, losses = [], []
        for _ in range(int(line)):
            start = time.perf_counter()
            losses.append(float(step(next(batches))))
            seconds.append(time.perf_counter() - start)
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "losses": losses, "peak_rss": rss, "version": version}), file=answers, flush=True)
    os._exit(0)  # DeepSpeed's threads need not be waited for


main()
