#!/usr/bin/env python3
"""modes.py: base, su, su+o and su+o+c on 1 to 10 modelled drives behind a link that they share, beside Smart-Infinity's figures. `make bench-modes` runs it.

A small model, so that computing takes little, on drives and a link (docs/topology.md) that are as much slower: a drive reads and writes in the proportion of
a SmartSSD's SSD and FPGA (requests of 1 MiB: 1.59 and 0.99 GB/s), and the link carries what four drives need for base, which in the paper gains nothing by more.
--accelerators: the congested case, in which what computes stands behind the same link as the drives and takes it, too.
Rounds are interleaved (common.py); the speed of a mode is that of base on as many drives in the same round. Writes a page into --out. Standard library only.
Environment: SITRAIN the program (./siTrain)."""
import argparse
import os
import statistics
import sys
import tempfile

import common

MODES = ("base", "su", "su+o", "su+o+c")
LAYERS, WIDTH, VOCAB, LENGTH = 4, 256, 2048, 64
PAPER = {  # speed over base: HPCA 2024, figures for GPT-2 and BERT of 4.0 to 8.4 billion parameters
    1: {"su": "a little below 1"},
    6: {"su": "1.18 - 1.24"},
    10: {"su": "1.54 - 1.60", "su+o": "1.60 - 1.66", "su+o+c": "1.85 - 1.98"},
}


def links(devices, accelerators, a, folder):
    """The options that model the drives, their link and the accelerators behind it."""
    if not accelerators:
        return ["--link-bw", a.link_bw, "--csd-read-bw", a.csd_read_bw, "--csd-write-bw", a.csd_write_bw]
    path = os.path.join(folder, "topology")
    with open(path, "w", encoding="utf-8") as f:
        print(f"link box host {a.link_bw} {a.link_bw}", file=f)
        for i in range(devices):
            print(f"drive {i} box {a.csd_read_bw} {a.csd_write_bw}", file=f)
        for i in range(accelerators):
            print(f"accelerator {i} box - -", file=f)
    return ["--topology", path]


def measure(mode, devices, accelerators, a, folder):
    data = os.path.join(folder, "tokens.bin")
    argv = ["pretrain", "--data", data, "--order", "sequential", "--n-layer", LAYERS, "--n-head", 4, "--n-embd", WIDTH, "--vocab", VOCAB, "--seq", LENGTH, "--batch", 1,
            "--dtype", "bf16", "--mode", mode, "--devices", devices, "--csd-mem", "16M", "--host-mem", "1G", "--durability", "none",
            *links(devices, accelerators, a, folder)]
    out = common.sitrain(argv, a)
    return out | {"step_seconds": statistics.median(out["seconds"][a.skip:])}


def name_of(mode, devices, accelerators):
    return f"{mode} {devices}" + (f" with {accelerators}" if accelerators else "")


def row(results, devices, accelerators=0):
    base = name_of("base", devices, accelerators)
    seconds, alone = (results.get(name, "step_seconds") for name in (base, "base 1"))
    cells = [f"{statistics.median(seconds.values()):.2f}", f"{statistics.median([alone[r] / seconds[r] for r in alone if r in seconds] or [float('nan')]):.2f}"]
    for mode in MODES[1:]:
        speeds = results.ratios(base, name_of(mode, devices, accelerators), "step_seconds")
        paper = None if accelerators else PAPER.get(devices, {}).get(mode)
        cells.append(common.spread(speeds, 2) + (f"; {paper}" if paper else ""))
    return f"| {devices}{f', {accelerators} accelerator' + 's' * (accelerators > 1) if accelerators else ''} | " + " | ".join(cells) + " |"


def page(results, devices, accelerators, a):
    data, link = results.data, f"--link-bw {a.link_bw} --csd-read-bw {a.csd_read_bw} --csd-write-bw {a.csd_write_bw}"
    return "\n".join([
        "# The modes on modelled drives", "",
        "Made by `make bench-modes` ([tests/bench/modes.py](../tests/bench/modes.py)).", "",
        f"A model of {LAYERS} layers, {WIDTH} wide, {VOCAB} words, {LENGTH} tokens a step, bf16, whose computing is a small part of a step, on modelled drives ([topology.md](topology.md)): "
        f"`{link}`. A drive reads and writes in the proportion that a SmartSSD showed with requests of 1 MiB (1.59 and 0.99 GB/s); the link, which they share, carries what four of them need in `base`, "
        "since in the paper more than four SSDs gain nothing there. "
        f"Medians (lowest - highest) of {a.rounds} interleaved rounds of {a.steps} steps, the first {a.skip} of each left out; {a.threads} threads, "
        f"{common.machine_line(data['machine'])}; {data['date']}.", "",
        "Speed over `base` on as many drives; after a semicolon that of Smart-Infinity (HPCA 2024; GPT-2 and BERT of 4.0 to 8.4 billion parameters on SmartSSDs behind PCIe 3.0 x16, "
        "computing on a GPU). `su+o+c` sends 2% of a gradient's bytes.", "",
        "| drives | base, s a step | base over one drive | su | su+o | su+o+c |", "|---|---|---|---|---|---|",
        *(row(results, n) for n in devices), *(row(results, max(devices), k) for k in accelerators), "",
        "A drive has one time for reads and writes, so on one drive `su`, `su+o` and `base` move the same bytes in the same time, and only compression gains. From where the shared link is full "
        "`base` stays as it is, and the others go on with every drive; `su+o` hides from `su` the update's arithmetic and the memory that it maps anew each time. "
        "The gains are larger than the paper's: computing, which all modes have alike, is less of a step here than there (a quarter of `base` with six SSDs).", "",
        "With accelerators: the congested case, in which what computes stands behind the same link as the drives. Parameters go up to the host's memory and down again to each accelerator, "
        "gradients up from each and down to the drives, so the link has more to carry in every mode.", ""])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.options(p, rounds=5, steps=4, skip=1)
    p.add_argument("--devices", default="1,2,4,6,8,10")
    p.add_argument("--accelerators", default="1,3", help="behind the link of the most drives; '': none")
    p.add_argument("--link-bw", default="120M", help="bytes a second of the link that all share, each way")
    p.add_argument("--csd-read-bw", default="64M", help="bytes a second of a drive")
    p.add_argument("--csd-write-bw", default="40M")
    p.add_argument("--out", default="docs/modes.md")
    a = common.parse(p)
    devices = [int(n) for n in a.devices.split(",")]
    accelerators = [int(k) for k in a.accelerators.split(",") if k]
    places = [(n, 0) for n in devices] + [(max(devices), k) for k in accelerators]
    runs = {name_of(mode, n, k): (mode, n, k) for n, k in places for mode in MODES}
    results = common.Results(a.json, {k: getattr(a, k) for k in ("steps", "skip", "threads", "link_bw", "csd_read_bw", "csd_write_bw")})
    with tempfile.TemporaryDirectory(prefix="sitrain-modes-", dir=a.dir) as folder:
        common.make_tokens(os.path.join(folder, "tokens.bin"), 1 << 14, VOCAB)
        for r in range(a.rounds):
            if not results.round(r, list(runs), lambda name: measure(*runs[name], a, folder), a, lambda x: f"{x['step_seconds']:.3f} s a step"):
                sys.exit("the time ended first: call again to go on")
    if results.data["left_out"]:
        sys.exit("some runs failed")
    text = page(results, devices, accelerators, a)
    with open(a.out, "w", encoding="utf-8") as f:
        f.write(text)
    print(text)


main()
