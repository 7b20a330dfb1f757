#!/usr/bin/env python3
"""growth.py [STEPS]: nothing grows over 10,000 steps: open files, memory, what RUN takes on the disk, run.db beyond its bytes a step.

A tiny model in su+o on two devices, without flushes; every STEPS/10 steps the process is looked at from outside. Prints TAP and a table
with run.db's growth per million steps. `make prove-growth`. Environment: SITRAIN the program.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

from common import BIN, result, tap

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
RSS_GROWTH = 1 << 20    # bytes, after the first fifth
WAL_MOST = 16 << 20     # bytes; SQLite moves it into run.db every 1,000 pages, and once more while a transaction is large
ROW_BYTES = 1700        # of run.db a step, at most: its row and the folded rows of spans and traffic


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def look(pid, run):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f)
    with open(f"/proc/{pid}/io", encoding="ascii") as f:
        io = dict(line.split(":", 1) for line in f)
    files = [os.path.join(d, x) for d, _, fs in os.walk(run) for x in fs]
    return {"fds": len(os.listdir(f"/proc/{pid}/fd")), "threads": int(status["Threads"]), "rss": int(status["VmRSS"].split()[0]) << 10,
            "files": len(files), "db": size(f"{run}/run.db"), "wal": size(f"{run}/run.db-wal"),
            "rest": sum(size(f) for f in files if "run.db" not in f and "run.lock" not in f), "written": int(io["write_bytes"])}


def main():
    tmp = tempfile.mkdtemp(prefix="sitrain-growth.", dir="/var/tmp")
    try:
        r = random.Random(1)
        with open(f"{tmp}/text.txt", "w", encoding="ascii") as f:
            f.writelines(" ".join(r.choice("the a one some any sea ship whale storm sees finds loves".split()) for _ in range(6)) + ".\n"
                         for _ in range(2000))
        for args in (["prepare", f"{tmp}/text.txt", "--train-tokenizer", "--vocab", "270", "--out", f"{tmp}/tok"],
                     ["prepare", f"{tmp}/text.txt", "--tokenizer", f"{tmp}/tok", "--out", f"{tmp}/text.bin"]):
            subprocess.run([BIN, *args], check=True, stdout=subprocess.DEVNULL)
        run = f"{tmp}/run"
        p = subprocess.Popen([BIN, "pretrain", "--run", run, "--data", f"{tmp}/text.bin", "--tokenizer", f"{tmp}/tok", "--n-layer", "2", "--n-head",
                              "1", "--n-embd", "16", "--seq", "8", "--batch", "1", "--threads", "1", "--mode", "su+o", "--devices", "2", "--csd-mem",
                              "128K", "--durability", "none", "--steps", str(STEPS), "--log-every", str(STEPS // 10)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        seen = []
        print("#   step  fds  threads      RSS  files   run.db      WAL   devices   written", flush=True)
        for line in p.stdout:
            if not line.startswith("step") or p.poll() is not None:
                continue
            step = int(line.split()[1].split("/")[0])
            if step == STEPS:
                continue  # it may be gone before it is looked at
            s = look(p.pid, run)
            seen.append((step, s))
            print(f"# {step:6} {s['fds']:4} {s['threads']:8} {s['rss']:8} {s['files']:6} {s['db']:8} {s['wal']:8} {s['rest']:9} {s['written']:9}",
                  flush=True)
        result(p.wait() == 0, f"{STEPS} steps")
        first, last = [s for s in seen if s[0] >= STEPS // 5][0], seen[-1]
        for key, name in (("fds", "open files"), ("threads", "threads"), ("files", "files in RUN"), ("rest", "bytes of the devices")):
            result(first[1][key] == last[1][key], f"{name}: {first[1][key]}, then {last[1][key]}")
        result(last[1]["rss"] - first[1]["rss"] < RSS_GROWTH, f"memory: {first[1]['rss']}, then {last[1]['rss']} bytes")
        result(max(s["wal"] for _, s in seen) < WAL_MOST, f"the WAL: {max(s['wal'] for _, s in seen)} bytes at most")
        step_bytes = (last[1]["db"] - first[1]["db"]) / (last[0] - first[0])
        result(step_bytes < ROW_BYTES, f"run.db: {step_bytes:.0f} bytes a step, {step_bytes * 1e6 / 2**20:.0f} MiB per million steps")
        written = (last[1]["written"] - first[1]["written"]) / (last[0] - first[0])
        print(f"# {written:.0f} bytes a step reached the block layer")
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    return tap.done()


sys.exit(main())
