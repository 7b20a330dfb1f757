#!/usr/bin/env python3
"""peers.py: siTrain's training speed and memory beside PyTorch's and DeepSpeed's, on the CPU. `make bench-peers` runs it.

The same work for each: a GPT-2 (10M, 124M, 355M: --models) or a Llama (SmolLM2-135M) from random parameters, AdamW, clipping at 1.0, no dropout, the same
tokens, the same number of threads. --tokens are micro-batch x length, then x micro-batches a step: 4x256, 8x1024, 4x256x8.
  in memory     siTrain mem fp32, bf16 (fp32 masters) against PyTorch fp32, autocast (fp32 masters), bf16 (parameters and moments too), each plain
                and compiled (torch.compile): on scaled_dot_product_attention, fused AdamW (peer.py)
  from drives   siTrain su+o bf16, fp32: 2 emulated devices, --csd-mem 48M, --host-mem 15% above the least that it can do with, against DeepSpeed
                ZeRO-3 with parameters and optimizer on NVMe (its CPU accelerator, libaio), bf16 and fp32
Every run is a process of its own; rounds are interleaved (common.py). Left out, saying why, is what is not installed or fails; PyTorch in bf16 on a CPU
without bf16 products (a hundred times slower than in fp32); and compiled variants without a C++ compiler. --keep keeps PyTorch's processes alive from
round to round, warm, where memory allows: starts and compilation are then paid once. --list prints the names that --variants takes parts of.

Needs torch (2.11 or later); DeepSpeed compiles its parts once, some minutes; and 10 GB (355M: 25 GB) of disk in --dir. Environment: SITRAIN the program."""
import argparse
import collections
import contextlib
import importlib.util
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import common

# kv: heads of keys and values; 0: a GPT-2. positions: 0: as many as a row has tokens. options: siTrain's.
Sizes = collections.namedtuple("Sizes", "layers heads width vocab positions options kv inner", defaults=(0, 0))
MODELS = {
    "10M": Sizes(6, 5, 320, 8192, 0, ["--n-layer", 6, "--n-head", 5, "--n-embd", 320, "--vocab", 8192]),
    "124M": Sizes(12, 12, 768, 50257, 1024, ["--model", "gpt2"]),
    "355M": Sizes(24, 16, 1024, 50257, 1024, ["--model", "gpt2-medium"]),
    "SmolLM2-135M": Sizes(30, 9, 576, 49152, 8192, ["--model", "smollm2-135m"], kv=3, inner=1536),
}
TORCH = ["PyTorch autocast", "PyTorch autocast compiled", "PyTorch bf16", "PyTorch bf16 compiled", "PyTorch fp32", "PyTorch fp32 compiled"]
VARIANTS = ["siTrain mem bf16", "siTrain mem fp32", *TORCH, "siTrain su+o bf16", "siTrain su+o fp32", "DeepSpeed bf16", "DeepSpeed fp32"]
RATIOS = [  # ours, theirs: the best of the round
    ("siTrain mem bf16", TORCH[:2] + TORCH[4:], "PyTorch's best with fp32 masters"),
    ("siTrain mem bf16", TORCH, "PyTorch's best"),
    ("siTrain mem fp32", TORCH[4:], "PyTorch's best in fp32"),
    ("siTrain su+o bf16", ["DeepSpeed bf16", "DeepSpeed fp32"], "DeepSpeed's best"),
    ("siTrain su+o fp32", ["DeepSpeed fp32"], "DeepSpeed fp32"),
    ("siTrain su+o bf16", ["siTrain mem bf16"], "siTrain mem bf16"),
    ("siTrain su+o fp32", ["siTrain mem fp32"], "siTrain mem fp32"),
]


class Case:
    """A model and the tokens of a step."""

    def __init__(self, model, shape):
        sizes = [int(n) for n in shape.split("x")]
        self.name, self.sizes = f"{model} {shape}", MODELS[model]
        self.title = f"{'' if self.sizes.kv else 'GPT-2 '}{model}, {shape}"
        self.batch, self.seq, self.accum = (sizes + [1])[:3]
        self.options = self.sizes.options
        self.tokens = self.batch * self.seq * self.accum

    def parameters(self):
        s = self.sizes
        if s.kv:
            return s.layers * s.width * (s.width * 2 + s.width * 2 * s.kv // s.heads + 3 * s.inner + 2) + (s.vocab + 1) * s.width
        return s.layers * (12 * s.width + 13) * s.width + (s.vocab + self.positions() + 2) * s.width

    def flops(self):
        """Of a step, forward and backward, causal attention counted as half."""
        return self.tokens * (6 * self.parameters() + 6 * self.sizes.layers * self.sizes.width * self.seq)

    def positions(self):
        return self.sizes.positions or self.seq


class Peer:
    """A peer.py, warm when the constructor returns."""

    def __init__(self, case, engine, a):
        self.folder, self.a = tempfile.TemporaryDirectory(prefix="sitrain-peer-", dir=a.dir), a
        self.log = os.path.join(self.folder.name, "log")
        argv = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py"), engine, "--data", a.data, "--folder", self.folder.name]
        of_model = {key: getattr(case.sizes, key) for key in ("layers", "heads", "kv", "width", "inner", "vocab")}
        for key, value in {"batch": case.batch, "seq": case.seq, "accum": case.accum, "threads": a.threads, **of_model, "positions": case.positions(),
                           "warm": a.skip}.items():
            argv += ["--" + key, str(value)]
        with open(self.log, "wb") as f:
            self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=f, start_new_session=True,
                                          env=dict(os.environ, OMP_NUM_THREADS=str(a.threads)))

    def line(self):
        """What it answers next."""
        left = self.a.clock.left()
        ready, _, _ = select.select([self.child.stdout], [], [], None if left == float("inf") else max(0, left))
        if not ready:
            raise common.OutOfTime
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"ended with {self.child.wait()}: {common.tail(self.log)}")
        return line

    def steps(self, count):
        with contextlib.suppress(BrokenPipeError):  # line() says how it ended
            self.child.stdin.write(b"%d\n" % count)
            self.child.stdin.flush()
        return json.loads(self.line())

    def close(self):
        with contextlib.suppress(ProcessLookupError):  # it may have ended: out of memory, say
            os.killpg(self.child.pid, signal.SIGKILL)  # with the compilers that it began
        self.child.wait()
        self.folder.cleanup()


class Peers:
    """Those that are kept from round to round."""

    def __init__(self, a):
        self.a, self.kept = a, {}

    def start_all(self, cases, names, results):
        """Together, as each compiles for a minute; results says what failed."""
        todo = {(c, n): f"{c.name} {n}" for c in cases for n in names if n.startswith("PyTorch")}
        for (case, engine), name in todo.items():
            if any(results.todo(name, r) for r in range(self.a.rounds)):
                self.kept[name] = Peer(case, engine, self.a)
        for name in list(self.kept):
            try:
                self.kept[name].line()
            except RuntimeError as why:
                self.kept.pop(name).close()
                results.leave_out(name, str(why))
                print(f"{name}: left out: {why}", flush=True)

    def measure(self, case, engine):
        name, start = f"{case.name} {engine}", time.monotonic()
        peer = self.kept.get(name) or Peer(case, engine, self.a)
        try:
            if name not in self.kept:
                peer.line()
            out = peer.steps(self.a.steps - self.a.skip)
        finally:
            if name not in self.kept:
                peer.close()
        return out | {"process_seconds": time.monotonic() - start}

    def close(self):
        for peer in self.kept.values():
            peer.close()


def measure_sitrain(case, engine, a):
    _, mode, dtype = engine.split()
    argv = ["--data", a.data, *case.options, "--batch", case.batch, "--seq", case.seq, "--grad-accum", case.accum, "--order", "sequential",
            "--lr", 3e-4, "--schedule", "constant", "--clip", 1.0, "--dtype", dtype, "--mode", mode]
    if mode == "mem":
        argv += ["--durability", "none", "--commit-every", 1000000]
    else:
        argv += ["--devices", 2, "--csd-mem", "48M", *a.drives.split()]
        argv += ["--host-mem", a.host_mem or common.host_mem(argv)]
    out = common.sitrain(["pretrain", *argv], a)
    return out | {"seconds": out["seconds"][a.skip:]}


def left_out(variant, flags):
    """Why a variant cannot be measured here, or None."""
    if variant.startswith("siTrain"):
        return None
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if variant.startswith("DeepSpeed") and importlib.util.find_spec("deepspeed") is None:
        return "DeepSpeed is not installed"
    if "fp32" not in variant and not {"avx512_bf16", "amx_bf16"} & set(flags):
        return "this CPU has no bf16 products"
    if variant.endswith("compiled") and not (shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")):
        return "no C++ compiler"
    return None


def use_cache(folder):
    """A build that was killed leaves its lock, and the next one would wait for it for ever."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["TORCH_EXTENSIONS_DIR"] = os.path.join(folder, "extensions")
    for parent, _, files in os.walk(os.environ["TORCH_EXTENSIONS_DIR"]):
        if "lock" in files:
            os.unlink(os.path.join(parent, "lock"))


# ---- the tables ----

def best_ratios(results, case, ours, theirs):
    mine, each = results.get(f"{case.name} {ours}", "rate"), [results.get(f"{case.name} {t}", "rate") for t in theirs]
    rounds = [r for r in mine if any(r in e for e in each)]
    return [mine[r] / max(e[r] for e in each if r in e) for r in rounds]


def table(results, case):
    out = [f"### {case.title}: {case.tokens} tokens a step", "",
           "| | tokens/s: median (lowest - highest) | GFLOP/s of the model's work | peak RSS |", "|---|---|---|---|"]
    for variant in VARIANTS:
        rates = list(results.get(f"{case.name} {variant}", "rate").values())
        if rates:
            rss = max(results.get(f"{case.name} {variant}", "peak_rss").values())
            work = statistics.median(rates) / case.tokens * case.flops() / 1e9
            out.append(f"| {variant} | {common.spread(rates)} | {work:.0f} | {rss / 1e9:.2f} GB |")
    out += ["", "| ratio of tokens/s, in the same round | median (lowest - highest) |", "|---|---|"]
    for ours, theirs, title in RATIOS:
        each = best_ratios(results, case, ours, theirs)
        if each:
            out.append(f"| {ours} / {title} | {common.spread(each, 2)} |")
    return out + [""]


def markdown(results, cases, a):
    data = results.data
    versions = {n.split()[2]: x["version"] for n, runs in data["runs"].items() for x in runs.values() if "version" in x}
    out = [f"AdamW, clip 1.0; {a.rounds} interleaved rounds of {a.steps} steps, the first {a.skip} of each left out; {a.threads} threads, "
           f"{common.machine_line(data['machine'])}; {', '.join(f'{k} {v}' for k, v in versions.items())}; {data['date']}.", ""]
    for case in cases:
        out += table(results, case)
    out += [f"{name}: left out: {why.splitlines()[0]}" for name, why in data["left_out"].items()]
    return "\n".join(out) + "\n"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.options(p)
    p.add_argument("--models", default="124M", help="with commas: " + ", ".join(MODELS))
    p.add_argument("--tokens", default="4x256", help="micro-batch x length (x micro-batches), with commas")
    p.add_argument("--variants", default="", help="parts of names, with commas: 'mem,PyTorch', 'su+o bf16,DeepSpeed bf16'; all")
    p.add_argument("--host-mem", help="of siTrain su+o")
    p.add_argument("--drives", default="", help="more options of siTrain su+o: \"--activations offload\", say")
    p.add_argument("--keep", action="store_true", help="keep PyTorch's processes from round to round")
    p.add_argument("--cache", help="folder for what torch.compile and DeepSpeed build, so that it is built once")
    p.add_argument("--plain", action="store_true", help="leave compiled variants out, which take a minute each")
    p.add_argument("--list", action="store_true", help="names of the variants")
    return common.parse(p)


def main():
    a = arguments()
    variants = [v for v in VARIANTS if any(part in v for part in a.variants.split(",")) and not (a.plain and v.endswith("compiled"))]
    if a.list:
        return print("\n".join(variants))
    cases = [Case(m, t) for m in a.models.split(",") for t in a.tokens.split(",")]
    results = common.Results(a.json, {k: getattr(a, k) for k in ("steps", "skip", "threads", "keep", "drives")})
    if a.cache:
        use_cache(os.path.abspath(a.cache))
    for variant in variants:
        for case in cases:
            if why := left_out(variant, results.data["machine"]["flags"]):
                results.leave_out(f"{case.name} {variant}", why)
    peers = Peers(a)
    with tempfile.TemporaryDirectory(prefix="sitrain-peers-", dir=a.dir) as folder:
        a.data = os.path.join(folder, "tokens.bin")
        common.make_tokens(a.data, 16 * 8192, min(c.sizes.vocab for c in cases))
        try:
            run(cases, variants, results, peers, a)
        except common.OutOfTime:
            pass
        finally:
            peers.close()
    print("\n" + markdown(results, cases, a), end="")


def run(cases, variants, results, peers, a):
    if a.keep:
        peers.start_all(cases, variants, results)
    by_name = {f"{c.name} {v}": (c, v) for c in cases for v in variants}

    def measure(name):
        case, engine = by_name[name]
        out = measure_sitrain(case, engine, a) if engine.startswith("siTrain") else peers.measure(case, engine)
        return out | {"rate": case.tokens * len(out["seconds"]) / sum(out["seconds"])}

    def say(x):
        return (f"{x['rate']:.1f} tokens/s, peak RSS {x['peak_rss'] / 1e9:.2f} GB, loss {x['losses'][0]:.3f} -> {x['losses'][-1]:.3f}, "
                f"{x['process_seconds']:.0f} s")
    for r in range(a.rounds):
        for case in cases:
            if not results.round(r, [f"{case.name} {v}" for v in variants], measure, a, say):
                return


main()
