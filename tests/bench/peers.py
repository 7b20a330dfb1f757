#!/usr/bin/env python3
"""peers.py: siTrain's training speed and memory beside PyTorch's and DeepSpeed's, on the CPU. `make bench-peers` runs it.

The same work for each: GPT-2 124M from random parameters, batch 4 x 256 tokens, AdamW, clipping at 1.0, no dropout, products in bf16, fp32 master
parameters and moments, the same tokens, all cores.
  in memory     siTrain --mode mem                        against PyTorch (transformers' model, autocast bf16, fused AdamW; --compile adds
                                                          torch.compile)
  from drives   siTrain --mode su+o, 2 devices,           against DeepSpeed ZeRO-3, parameters and optimizer on NVMe (its CPU accelerator;
                --csd-mem 48M --host-mem 600M             left out, saying why, where it cannot be imported)
Every run is a process of its own. Rounds are interleaved and each begins with another engine, since a shared machine's speed drifts:
the ratios are formed inside a round, then the median is taken. tokens/s come from each engine's own steps after the first --skip, and
peak RSS from the kernel when the process has ended. Writes peers.json and peers.md into --out. Needs about 10 GB of disk in --dir.

DeepSpeed compiles its parts (into --out/extensions) in its first run only: some minutes.
A full run (5 rounds of 12 steps) takes 15 to 25 minutes on 2 cores, --compile 10 more.
Environment: SITRAIN the program (./siTrain).
"""
import argparse
import importlib.util
import json
import os
import platform
import random
import shutil
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
VOCAB, BATCH, SEQ, LR, CLIP = 50257, 4, 256, 3e-4, 1.0
TOKENS = BATCH * SEQ
TITLES = {
    "siTrain mem": "siTrain, mode mem, bf16",
    "torch": "PyTorch, autocast bf16",
    "torch compiled": "PyTorch, autocast bf16, torch.compile",
    "siTrain su+o": "siTrain, mode su+o, 2 emulated CSDs, --csd-mem 48M --host-mem 600M",
    "deepspeed": "DeepSpeed ZeRO-3, NVMe parameters and optimizer, bf16",
}
RATIOS = [("siTrain mem", "torch"), ("siTrain mem", "torch compiled"), ("siTrain su+o", "deepspeed"), ("siTrain su+o", "siTrain mem")]


# ---- the workers: one engine in this process; the result is a line of JSON ----

def read_rows(path, steps):
    import numpy
    import torch
    ids = torch.from_numpy(numpy.fromfile(path, "<u2", offset=1024).astype("int64"))
    return [ids[s * TOKENS:(s + 1) * TOKENS].view(BATCH, SEQ) for s in range(steps)]


def gpt2(torch):
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.set_num_threads(os.cpu_count())
    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)).train()


def timed_steps(step, rows):
    seconds, losses = [], []
    for x in rows:
        start = time.perf_counter()
        losses.append(float(step(x)))
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "losses": losses}


def torch_worker(a):
    import torch
    model = gpt2(torch)
    run = torch.compile(model) if a.worker == "torch compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01, fused=True)

    def step(x):
        with torch.autocast("cpu", torch.bfloat16):
            loss = run(input_ids=x, labels=x).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()
    return timed_steps(step, read_rows(a.data, a.steps)) | {"version": torch.__version__}


def deepspeed_config(folder):
    nvme = {"device": "nvme", "nvme_path": folder, "pin_memory": False, "buffer_count": 16}
    return {
        "train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": 1, "gradient_clipping": CLIP, "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": LR, "weight_decay": 0.01}},
        "zero_optimization": {
            "stage": 3, "contiguous_gradients": True, "overlap_comm": False,
            # 16 buffers must hold what is live and what is prefetched: about two layers of it
            "stage3_prefetch_bucket_size": 8_000_000, "stage3_max_live_parameters": 60_000_000, "stage3_max_reuse_distance": 60_000_000,
            "offload_param": nvme | {"buffer_size": 40_000_000, "max_in_cpu": 0},  # wte has 38.6 M parameters
            "offload_optimizer": nvme | {"pipeline_read": True, "pipeline_write": True},
        },
        "aio": {"block_size": 1 << 20, "queue_depth": 16, "single_submit": False, "overlap_events": True},
        "steps_per_print": 1000,
    }


def deepspeed_worker(a):
    os.environ |= {"DS_ACCELERATOR": "cpu", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randrange(20000, 60000)), "RANK": "0",
                   "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_SIZE": "1", "OMP_NUM_THREADS": str(os.cpu_count())}
    import torch
    import deepspeed
    config = deepspeed_config(a.folder)
    deepspeed.init_distributed("gloo", dist_init_required=True)
    model = gpt2(torch)
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

    def step(x):
        loss = engine(input_ids=x, labels=x).loss
        engine.backward(loss)
        engine.step()
        return loss.detach()
    return timed_steps(step, read_rows(a.data, a.steps)) | {"version": deepspeed.__version__}


def worker(a):
    out = (deepspeed_worker if a.worker == "deepspeed" else torch_worker)(a)
    with open(a.result, "w", encoding="utf-8") as f:
        json.dump(out, f)
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed's threads need not be waited for


# ---- the rounds ----

def run_process(argv, log):
    """Returns its peak RSS in bytes; RuntimeError with the log's end if it fails."""
    with open(log, "wb") as f:
        child = subprocess.Popen(argv, stdout=f, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:  # Ctrl-C: what was begun here ends here
            child.kill()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        with open(log, encoding="utf-8", errors="replace") as f:
            raise RuntimeError(f"{argv[0]} ended with {child.returncode}:\n" + "".join(f.readlines()[-12:]))
    return usage.ru_maxrss * 1024


def sitrain_arguments(engine, run, a):
    common = ["pretrain", "--run", run, "--data", a.data, "--model", "gpt2", "--batch", BATCH, "--seq", SEQ, "--order", "sequential",
              "--lr", LR, "--schedule", "constant", "--clip", CLIP, "--dtype", "bf16", "--steps", a.steps]
    mode = ["--mode", "mem"] if engine == "siTrain mem" else ["--mode", "su+o", "--devices", 2, "--csd-mem", "48M", "--host-mem", "600M"]
    return [BIN, *map(str, common + mode)]


def run_sitrain(engine, folder, a):
    run = os.path.join(folder, "run")
    rss = run_process(sitrain_arguments(engine, run, a), os.path.join(folder, "log"))
    db = sqlite3.connect(os.path.join(run, "run.db"))
    rows = db.execute("SELECT seconds, loss FROM steps ORDER BY step").fetchall()
    db.close()
    return {"seconds": [r[0] for r in rows], "losses": [r[1] for r in rows]}, rss


def run_peer(engine, folder, a):
    result = os.path.join(folder, "result.json")
    rss = run_process([sys.executable, os.path.abspath(__file__), "--worker", engine, "--steps", str(a.steps), "--data", a.data,
                       "--folder", folder, "--result", result], os.path.join(folder, "log"))
    with open(result, encoding="utf-8") as f:
        return json.load(f), rss


def measure(engine, a):
    with tempfile.TemporaryDirectory(prefix="sitrain-peers-", dir=a.dir) as folder:
        start = time.monotonic()
        out, rss = (run_sitrain if engine.startswith("siTrain") else run_peer)(engine, folder, a)
    steady = out["seconds"][a.skip:]
    assert len(out["seconds"]) == a.steps, f"{engine}: {len(out['seconds'])} steps"
    return out | {"tokens_per_second": TOKENS * len(steady) / sum(steady), "peak_rss": rss, "process_seconds": time.monotonic() - start}


def make_tokens(path, steps):
    r = random.Random(1)
    n = (steps + 1) * TOKENS + 1
    with open(path, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, n, *[0] * 253))
        f.write(struct.pack(f"<{n}H", *(min(int(r.paretovariate(0.7)), VOCAB) - 1 for _ in range(n))))


def engines_of(a):
    have = ["siTrain mem", "torch"] + (["torch compiled"] if a.compile else []) + ["siTrain su+o"]
    left_out = {}
    if importlib.util.find_spec("deepspeed"):
        have.append("deepspeed")
    else:
        left_out["deepspeed"] = "it is not installed"
    return [e for e in have if not a.only or e in a.only.split(",")], left_out


def rounds(engines, a, left_out):
    runs = {e: [] for e in engines}
    for r in range(a.rounds):
        at = r % len(engines)
        for e in engines[at:] + engines[:at]:
            if e in left_out:
                continue
            try:
                runs[e].append(measure(e, a))
            except RuntimeError as why:
                if e.startswith("siTrain"):
                    raise
                left_out[e] = str(why)
                print(f"{e}: left out: {why}", flush=True)
                continue
            x = runs[e][-1]
            print(f"round {r + 1}: {e:15} {x['tokens_per_second']:7.1f} tokens/s  peak RSS {x['peak_rss'] / 1e9:6.2f} GB  "
                  f"loss {x['losses'][0]:.3f} -> {x['losses'][-1]:.3f}  ({x['process_seconds']:.0f} s)", flush=True)
    return {e: v for e, v in runs.items() if e not in left_out}


# ---- the tables ----

def keep_extensions(folder):
    """DeepSpeed compiles its parts at first use and waits for ever where a killed process left a lock: a folder of our own has none."""
    for parent, _, files in os.walk(folder):
        if "lock" in files:
            os.unlink(os.path.join(parent, "lock"))
    os.environ["TORCH_EXTENSIONS_DIR"] = folder


def machine():
    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        info = f.read()
    for line in info.splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    flags = [x for x in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f" {x}" in info]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": cpu, "cores": os.cpu_count(), "flags": flags, "memory": memory, "kernel": platform.release(), "python": platform.python_version()}


def summary(runs):
    engines = {e: {"title": TITLES[e],
                   "tokens_per_second": statistics.median(x["tokens_per_second"] for x in v),
                   "lowest": min(x["tokens_per_second"] for x in v), "highest": max(x["tokens_per_second"] for x in v),
                   "peak_rss": max(x["peak_rss"] for x in v)} for e, v in runs.items()}
    ratios = {}
    for ours, theirs in RATIOS:
        if ours in runs and theirs in runs:
            each = [x["tokens_per_second"] / y["tokens_per_second"] for x, y in zip(runs[ours], runs[theirs])]
            ratios[f"{ours} / {theirs}"] = {"median": statistics.median(each), "lowest": min(each), "highest": max(each)}
    return {"engines": engines, "ratios": ratios}


def markdown(result):
    m, a = result["machine"], result["arguments"]
    versions = ", ".join(f"{e} {v[-1]['version']}" for e, v in result["runs"].items() if "version" in v[-1])
    out = [f"GPT-2 124M, batch {BATCH} x {SEQ}, AdamW, clip {CLIP}; {a['rounds']} interleaved rounds of {a['steps']} steps, the first {a['skip']} of each left out; "
           f"{m['cpu']}, {m['cores']} cores ({' '.join(m['flags'])}), {m['memory'] / 1e9:.0f} GB; {versions}; {result['date']}.", "",
           "| | tokens/s: median (lowest - highest) | peak RSS |", "|---|---|---|"]
    for e in result["summary"]["engines"].values():
        out.append(f"| {e['title']} | {e['tokens_per_second']:.0f} ({e['lowest']:.0f} - {e['highest']:.0f}) | {e['peak_rss'] / 1e9:.2f} GB |")
    out += ["", "| ratio of tokens/s, in the same round | median (lowest - highest) |", "|---|---|"]
    for name, r in result["summary"]["ratios"].items():
        out.append(f"| {name} | {r['median']:.2f} ({r['lowest']:.2f} - {r['highest']:.2f}) |")
    for name, why in result["left_out"].items():
        out += ["", f"{name} was left out: {why.splitlines()[0]}"]
    return "\n".join(out) + "\n"


def arguments():
    p = argparse.ArgumentParser(description="siTrain beside PyTorch and DeepSpeed")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=12, help="of each run")
    p.add_argument("--skip", type=int, default=3, help="first steps that are not counted")
    p.add_argument("--compile", action="store_true", help="torch.compile, too")
    p.add_argument("--only", help="names of engines, with commas between them")
    p.add_argument("--dir", default="/tmp", help="for runs and DeepSpeed's swap files")
    p.add_argument("--out", default=".", help="folder for peers.json and peers.md")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    for hidden in ("--data", "--folder", "--result"):
        p.add_argument(hidden, help=argparse.SUPPRESS)
    a = p.parse_args()
    if not a.worker and (a.rounds < 1 or a.steps <= a.skip):
        p.error("at least one round, and more steps than are skipped")
    return a


def main():
    a = arguments()
    if a.worker:
        return worker(a)
    if not shutil.which(BIN):
        sys.exit(f"{BIN}: not there; build it first")
    engines, left_out = engines_of(a)
    os.makedirs(a.out, exist_ok=True)
    keep_extensions(os.path.join(os.path.abspath(a.out), "extensions"))
    with tempfile.TemporaryDirectory(prefix="sitrain-peers-", dir=a.dir) as folder:
        a.data = os.path.join(folder, "tokens.bin")
        make_tokens(a.data, a.steps)
        runs = rounds(engines, a, left_out)
    options = {k: getattr(a, k) for k in ("rounds", "steps", "skip", "compile")}
    result = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "arguments": options, "summary": summary(runs),
              "left_out": left_out, "runs": runs}
    with open(os.path.join(a.out, "peers.json"), "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
    text = markdown(result)
    with open(os.path.join(a.out, "peers.md"), "w", encoding="utf-8") as f:
        f.write(text)
    print("\n" + text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
