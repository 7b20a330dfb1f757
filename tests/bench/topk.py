#!/usr/bin/env python3
"""topk.py: the selection of a gradient's largest elements, beside torch.topk, on the same number of threads.

    topk.py [--rounds 5] [--threads N] [--compress 2%] [--json FILE] [-- OPTIONS of siTrain bench, such as --n-embd 912 --n-head 12]

Rounds are interleaved and every other one begins with torch, since a shared machine's speed drifts: the ratio is formed inside a round, then
medians are taken. The size is that of one layer of the model (`siTrain bench --only kernels`), elements normally distributed, k = half of --compress of them.
  siTrain  topk_select: indices and values of exactly the k of largest magnitude, ties to the lower index, sorted by index.
  torch    torch.topk(x, k, sorted=False) of magnitudes that were taken before, outside the measured time: the k largest in any order, any of those
           that are equal. The values with their signs would have to be gathered yet.
Environment: SITRAIN the program (./siTrain). Needs torch.
"""
import argparse
import json
import os
import subprocess
import time

import torch

from common import BIN, spread


def ours(args):
    """{elements: (k, seconds)}"""
    out = subprocess.run([BIN, "bench", "--only", "kernels", "--rounds", "1", "--threads", str(args.threads), "--compress", args.compress, "--json", "-",
                          *args.options], check=True, stdout=subprocess.PIPE).stdout
    row = next(r for r in json.loads(out)["kernels"] if r["kernel"] == "Top-K")
    ratio = float(args.compress.rstrip("%")) / (100 if "%" in args.compress else 1)
    return {row["rows"]: (max(1, int(ratio / 2 * row["rows"])), row["seconds"])}


def torchs(sizes):
    """{elements: seconds}"""
    taken = {}
    for n, k in sizes.items():
        x = torch.randn(n).abs()
        torch.topk(x, k, sorted=False)  # not counted, as bench does it
        begin, calls = time.perf_counter(), 0
        while time.perf_counter() - begin < 0.02:
            torch.topk(x, k, sorted=False)
            calls += 1
        taken[n] = (time.perf_counter() - begin) / calls
    return taken


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--compress", default="2%")
    p.add_argument("--json")
    p.add_argument("options", nargs="*")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    sizes = {n: k for n, (k, _) in ours(args).items()}
    torchs(sizes)  # a first call of each is not counted
    rounds = []
    for i in range(args.rounds):
        theirs = torchs(sizes) if i % 2 else None
        mine = ours(args)
        rounds.append((mine, theirs or torchs(sizes)))
    print(f"Top-K, {args.threads} threads, torch {torch.__version__}, {args.rounds} rounds: medians (lowest - highest), GB of gradient a second")
    result = []
    for n, k in sizes.items():
        row = {"elements": n, "k": k, "siTrain": [4 * n / m[n][1] for m, _ in rounds], "torch": [4 * n / t[n] for _, t in rounds],
               "ratio": [t[n] / m[n][1] for m, t in rounds]}
        result.append(row)
        mine, theirs = ([rate / 1e9 for rate in row[name]] for name in ("siTrain", "torch"))
        print(f"{k} of {n}: siTrain {spread(mine, 2)}, torch {spread(theirs, 3)}, ratio {spread(row['ratio'])}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
