#!/usr/bin/env python3
"""table.py: what gradient compression costs in accuracy: fine-tuning on GLUE, dense and with Top-K gradients. `make glue-table` runs it.

After Smart-Infinity's Table IV (HPCA 2024), at the size of the model given. Every run is a `siTrain finetune` of its own, read from its
eval_results.json. The dense rows hold for mem, base, su and su+o, which give the same bits; the compressed ones for su+o+c, as `--mode mem
--compress` gives its bits. A run that is already in --out/results.json is not run again, so that a table may be made in parts.

    table.py --data GLUE --init HFDIR --out docs/lab/glue [--tasks sst2,cola,mrpc,qnli,mnli,qqp] [--ratios 0,10,5,2,1] [--jobs 1 --threads 2]

Standard library only. Environment: SITRAIN the program (./siTrain)."""
import argparse
import collections
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
FOLDERS = {"sst2": "SST-2", "cola": "CoLA", "mrpc": "MRPC", "wnli": "WNLI", "qnli": "QNLI", "mnli": "MNLI", "qqp": "QQP"}
RATIOS = (0, 10, 5, 2, 1)
USUAL = 2  # per cent: the paper's ratio, which gets the most seeds
# rows: of the training data, the first so many; 0: all. The three largest tasks are subsets, as long as SST-2.
Recipe = collections.namedtuple("Recipe", "epochs batch dense_seeds compressed_seeds usual_seeds metrics rows", defaults=(0,))
RECIPE = {
    "sst2": Recipe(3, 32, 1, 1, 3, ["accuracy"]),
    "cola": Recipe(5, 16, 8, 2, 2, ["matthews_correlation"]),
    "mrpc": Recipe(5, 16, 3, 1, 1, ["f1", "accuracy"]),
    "wnli": Recipe(5, 16, 3, 1, 1, ["accuracy"]),
    "qnli": Recipe(3, 32, 1, 1, 1, ["accuracy"], 30000),
    "mnli": Recipe(3, 32, 1, 1, 1, ["accuracy"], 30000),
    "qqp": Recipe(3, 32, 1, 1, 1, ["accuracy"], 30000),
}
COMMON = ("--lr 1e-4 --schedule linear --warmup 6% --weight-decay 0.01 --decay all --clip 1 --max-seq 128 --mode mem --dtype bf16 "
          "--durability none --commit-every 1000000 --eval-every 1000000 --quiet").split()
lock = threading.Lock()


def seeds(task, ratio):
    r = RECIPE[task]
    return range(1, (r.usual_seeds if ratio == USUAL else r.compressed_seeds if ratio else r.dense_seeds) + 1)


def key(task, ratio, seed):
    return f"{task} {ratio}% seed {seed}"


def run(a, task, ratio, seed):
    epochs, batch = RECIPE[task].epochs, RECIPE[task].batch
    folder = tempfile.mkdtemp(prefix="glue-", dir=a.dir)
    command = [BIN, "finetune", "--run", os.path.join(folder, "run"), "--task", task, "--data", os.path.join(a.data, FOLDERS[task]), "--init", a.init,
               "--epochs", str(epochs), "--batch", str(batch), "--seed", str(seed), "--threads", str(a.threads), *COMMON]
    if ratio:
        command += ["--compress", f"{ratio}%"]
    if RECIPE[task].rows:
        command += ["--max-train-samples", str(RECIPE[task].rows)]
    env = dict(os.environ, OMP_NUM_THREADS=str(a.threads))
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env)
        with open(os.path.join(folder, "run", "all_results.json"), encoding="utf-8") as f:
            return json.load(f)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def load(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def save(path, results):
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(results, f, indent=1, sort_keys=True)
    os.replace(path + ".new", path)


def one(a, path, results, task, ratio, seed):
    found = run(a, task, ratio, seed)
    with lock:
        results[key(task, ratio, seed)] = found
        save(path, results)
        print(key(task, ratio, seed), {k: v for k, v in found.items() if k.startswith("eval_")}, flush=True)


def cell(results, task, ratio):
    parts = []
    for metric in RECIPE[task].metrics:
        got = [results[key(task, ratio, s)][f"eval_{metric}"] for s in seeds(task, ratio) if key(task, ratio, s) in results]
        if not got:
            return "-"
        values = " ".join(f"{100 * v:.1f}" for v in got)
        parts.append(f"{100 * statistics.mean(got):.1f}" + (f" ({values})" if len(got) > 1 else ""))
    return " / ".join(parts)


def table(results, tasks, ratios):
    lines = ["| gradients | " + " | ".join(f"{FOLDERS[t]}, {' / '.join(RECIPE[t].metrics)}" for t in tasks) + " |", "|---" * (len(tasks) + 1) + "|"]
    for r in ratios:
        name = f"Top-K, {r}% of the bytes" if r else "dense"
        lines.append(f"| {name} | " + " | ".join(cell(results, t, r) for t in tasks) + " |")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, help="a folder with SST-2, CoLA, MRPC, and as many others as there are")
    p.add_argument("--init", required=True, help="a Hugging Face folder of a GPT-2")
    p.add_argument("--out", default="docs/lab/glue")
    p.add_argument("--dir", default=None, help="for the runs; removed as they end")
    p.add_argument("--tasks", default="sst2,cola,mrpc,qnli,mnli,qqp", help="those of them that have a folder are run")
    p.add_argument("--ratios", default=",".join(map(str, RATIOS)), help="in per cent of the dense gradient's bytes; 0: dense")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    a = p.parse_args()
    ratios = [int(r) for r in a.ratios.split(",")]
    os.makedirs(a.out, exist_ok=True)
    path = os.path.join(a.out, "results.json")
    results = load(path)
    here = [t for t in a.tasks.split(",") if os.path.isdir(os.path.join(a.data, FOLDERS[t]))]
    todo = [(t, r, s) for t in here for r in ratios for s in seeds(t, r) if key(t, r, s) not in results]
    todo.sort(key=lambda job: (job[1] > 0, job[2]))  # the dense rows first, then a first seed of everything
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        jobs = [pool.submit(one, a, path, results, *job) for job in todo]
    failed = [str(j.exception()) for j in jobs if j.exception()]
    text = table(results, [t for t in RECIPE if any(k.startswith(f"{t} ") for k in results)], RATIOS)  # all that is there, not what was asked for alone
    print(text)
    with open(os.path.join(a.out, "table.md"), "w", encoding="utf-8") as f:
        f.write(text)
    for line in failed:
        print("failed:", line, file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
