#!/usr/bin/env python3
"""cluster.py --out FILE: from 2 hosts to 1,000, as arithmetic: docs/lab/cluster-arithmetic.md.

Steps are what `siTrain plan --ranks` predicts; what plan does not know (how a network is built, what fails) is computed here from the
figures at the top, each of which the page names. Nothing is measured. `make cluster-arithmetic`. Environment: SITRAIN the program."""
import argparse
import functools
import json
import math
import os
import subprocess
import textwrap

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
MODEL = "llama-3.1-8b"
MICROS = 2           # of each host: 2 rows of 8,192 tokens a step
HOST = ["--machine", "examples/machine/a100.conf", "--devices", "8", "--csd-mem", "4G", "--csd-read-bw", "3G", "--csd-write-bw", "1500M",
        "--host-mem", "256G", "--batch", "1", "--seq", "8192"]
HOSTS = [1, 2, 4, 8, 16, 64, 256, 1000]
NETWORKS = [("10 Gbit/s", 1.25e9), ("25 Gbit/s", 3.125e9), ("100 Gbit/s", 12.5e9), ("400 Gbit/s", 50e9)]
LATENCY_US = 10
MESSAGE_US = 2       # of the processor, for each message that is sent or comes
POD = 32             # hosts under one switch
# Llama 3 (arXiv 2407.21783, section 3.3.4): 419 unexpected interruptions in 54 days on 16,384 GPUs, 8 a host
HOST_DAYS = 54 * 16384 / 8 / 419
DRIVE_YEARS = 100    # an annualised failure rate of 1 %
RESTART = 120        # seconds from a failure until all ranks compute again: noticed, a host replaced, mpirun, run_agree
SPREAD = 0.01        # of a host's step: the standard deviation


@functools.lru_cache(None)
def plan(hosts, bandwidth, micros):
    words = [BIN, "plan", "--model", MODEL, *HOST, "--grad-accum", str(micros * hosts), "--json", "-"]
    if hosts > 1:
        words += ["--ranks", str(hosts), "--network-bw", str(int(bandwidth)), "--network-latency", str(LATENCY_US)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def step(hosts, bandwidth, micros=MICROS):
    return plan(hosts, bandwidth, micros)["step"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(x) for x in row) + " |" for row in rows]) + "\n"


def steps_table():
    alone = step(1, 1)["seconds"]
    rows = []
    for n in HOSTS:
        row = [f"{n:,}"]
        for _, bandwidth in NETWORKS:
            s = step(n, bandwidth)
            row.append(f"{s['seconds']:.3g} s, {100 * alone / s['seconds']:.0f} %, {s['pace']}")
        rows.append(row)
    return table(["hosts", *(name for name, _ in NETWORKS)], rows)


def saturation_table():
    """What comes to a host, and what its drives do."""
    rows = []
    for n in HOSTS:
        s = step(n, NETWORKS[0][1])
        came = max(0, s["network"] - LATENCY_US * 1e-6) * NETWORKS[0][1]
        rows.append([f"{n:,}", f"{came / 1e9:.1f} GB", f"{s['update']:.3g} s", f"{s['forward'] + s['backward'] + s['head']:.3g} s"])
    return table(["hosts", "over the network to each host", "its drives' updates", "its computing"], rows)


def tokens_table():
    """How many micro-batches a host needs until computing hides the network: doubled until it does."""
    rows = []
    for name, bandwidth in NETWORKS:
        for micros in (1, 2, 4, 8, 16, 32, 64, 128):
            s = step(64, bandwidth, micros)
            if s["pace"] == "computing":
                break
        hidden = s["pace"] == "computing"
        rows.append([name, f"{micros * 8192:,}" if hidden else f"more than {micros * 8192:,}", f"{s['seconds']:.3g} s"])
    return table(["network", "tokens of a host and step", "which takes"], rows)


def messages_table():
    blocks = plan_blocks()
    rows = []
    for n in HOSTS[1:]:
        gathers, each = 2 * blocks, 2 * (n - 1)
        exchanges = blocks
        seconds = (gathers + exchanges) * each * MESSAGE_US * 1e-6
        rows.append([f"{n:,}", f"{(gathers + exchanges) * each:,}", f"{LAYER / n * 2 / 1e6:.3g} MB", f"{seconds:.3g} s"])
    return table(["hosts", "messages of a host and step", "of a layer's gather, each", "of a processor"], rows)


LAYER = 218.1e6      # parameters of one of its layers


def plan_blocks():
    """Two embeddings of 16 pieces, 32 layers and the final norm."""
    return 2 * 16 + 32 + 1


def hierarchy_table():
    """A block's gather in units of what the block takes over one host's own link, N = 1,000: each host by itself, or each pod once."""
    n = 1000
    rows = []
    for over in (1, 2, 4, 8, 16):
        up = POD / over  # of a pod's uplink, in hosts' links
        far = 1 - POD / n
        direct = max(1 - 1 / n, POD * far / up)
        # every host takes a 32nd of what is far, then all give each other what they took
        once = max(far / up, far / POD) + (1 - 1 / n)
        rows.append([f"1 : {over}", f"{direct:.2f}", f"{once:.2f}", f"{direct / once:.1f}"])
    return table(["uplinks to hosts' links", "each host by itself", "each pod once, then within", "gain"], rows)


def rails_table():
    rows = []
    for rails in (1, 2, 4, 8):
        s = step(64, rails * 12.5e9)
        rows.append([rails, f"{s['network']:.3g} s", f"{s['seconds']:.3g} s", s["pace"]])
    return table(["rails of 100 Gbit/s", "network", "a step", "pace"], rows)


def span(seconds):
    for unit, many in (("years", 365.25 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * many:
            return f"{seconds / many:.3g} {unit}"
    return f"{seconds:.3g} s"


def failures_table():
    rows = []
    for n in HOSTS[1:]:
        s = step(n, 12.5e9)["seconds"]
        between = HOST_DAYS * 86400 / n
        lost = RESTART + 1.5 * s  # the step under way, half of it on average; then the first one, with nothing read ahead
        rows.append([f"{n:,}", span(between), span(DRIVE_YEARS * 365.25 * 86400 / (8 * n)), span(lost), f"{100 * lost / between:.2g} %",
                     f"{100 * SPREAD * math.sqrt(2 * math.log(n)):.2g} %"])
    return table(["hosts", "a host fails every", "a drive of 8 a host every", "lost each time", "of all time", "waiting for the slowest"], rows)


PAGE = """# From 2 hosts to 1,000, as arithmetic

- 16 hosts are nearly as fast per host as 1,000: beyond 16, the bytes to each host hardly grow.
- 100 Gbit/s to a host hide behind computing here; with 10 Gbit/s the network bounds the step.
- Messages grow with the number of hosts, and show at 1,000.
- Failed hosts cost 1,000 hosts less than 1 % of their time; waiting for the slowest costs more.

`make cluster-arithmetic` writes this page (tests/bench/cluster.py): steps are what `siTrain plan --ranks` predicts, and the rest follows from the
figures that are named. Nothing here is measured; what was is in [cluster.md](../cluster.md). `plan` takes hosts to be alike and the network to give each its
bandwidth; it does not count the processor's time for messages, and for adding gradients.

The model is {model}, bf16 with Adam; a host is [a100.conf](../../examples/machine/a100.conf)'s machine with eight drives that read 3 GB/s and write
1.5, and has {micros} rows of 8,192 tokens a step: the work of a host stays, that of all grows (weak scaling). `plan`'s line, for N hosts:

    siTrain plan --model {model} {host} --grad-accum {micros}N --ranks N --network-bw B --network-latency {latency}

## Time of a step, and what is left of one host's speed

{steps}
## Where the gather saturates

{saturation}
A host reads 1/N of the parameters from its drives and updates 1/N of the states, but computes with all of them: (N - 1)/N of every block comes over the
network in forward, again in backward where it is not still in a frame, and (N - 1)/N of a gradient in fp32 leaves for where it belongs while as many bytes
of others come. So what drives do vanishes with N and what the network does does not: 16 hosts have nearly what 1,000 have. It does not grow
either: beyond 16 hosts, more of them hardly make a step longer by their bytes, and a network that hides behind computing on 16 hosts does on 1,000.

What it must hide behind is a host's own computing. On 64 hosts, doubling a host's tokens until computing sets the pace:

{tokens}
## Messages

Each rank sends its portion of a block to all others by itself ({blocks} blocks, two gathers and an exchange each). With {message} us of a processor for a
message:

{messages}
Bytes hardly grow with N, messages do: at 1,000 hosts they are a part of a step that shows, and of small models' steps the largest.
A block has portions of at least 16,384 parameters; a smaller one is one rank's.

## Hierarchical gathers

Where the network's upper layers have less than all hosts' links together, {pod} hosts that each fetch the same far-away parameters take the pod's uplink
{pod} times. Fetched once for the pod (each host a {pod}th part, which it passes on inside), of 1,000 hosts, in units of what a block takes over a
host's own link:

{hierarchy}
It gains about what uplinks lack, and nothing where they are full. siTrain gathers directly: this is arithmetic for a
network that has them. The other way is to keep all states within each pod, so that only gradients cross its uplink: {pod} portions instead of N, and drives that hold
N/{pod} times as much in all.

## Rails

{rails}
A host with several network cards has as many rails; Open MPI spreads large messages over them (`--mca btl_tcp_if_include eth0,eth1`). On 64 hosts.

## What fails first, and how often

A host fails once in {host_days:.0f} days (Llama 3's training: 419 unexpected interruptions in 54 days on 2,048 hosts, arXiv 2407.21783), a drive once in
{drive_years} years (1 % of them a year). A failure takes the step under way, half of it on average, the first step behind it, and {restart} s to notice, to
replace a host and to start again. Hosts whose steps differ by {spread:.0f} % (a standard deviation) wait for the slowest, sqrt(2 ln N) of it:

{failures}
A host that fails loses no committed step, because every step is on the drives when it is committed. This does not depend on how often somebody saves.
What has to be read is what the next step reads anyhow.

A drive that is lost takes its part of the states with it. At 1,000 hosts that is the first thing to end a run. With `--snapshot-on hosts`, a rank of the
next host keeps each rank's part of a snapshot, too, and the run goes back to the newest one ([snapshots](../snapshots.md#several-ranks)). Drives under
RAID 1 or 10 (`mdadm`) lose nothing, at half the drives' writing speed.
"""


def wrapped(page):
    """The page with its paragraphs in lines of 100 columns."""
    return "\n\n".join(p if p.startswith(("#", "|", "    ", "- ")) else textwrap.fill(p, 100, break_long_words=False, break_on_hyphens=False)
                       for p in page.rstrip("\n").split("\n\n")) + "\n"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    out = p.parse_args().out
    page = PAGE.format(model=MODEL, micros=MICROS, host=" ".join(HOST), latency=LATENCY_US, steps=steps_table(), saturation=saturation_table(),
                       tokens=tokens_table(), messages=messages_table(), message=MESSAGE_US, blocks=plan_blocks(), hierarchy=hierarchy_table(),
                       pod=POD, rails=rails_table(), failures=failures_table(), host_days=HOST_DAYS, drive_years=DRIVE_YEARS, restart=RESTART,
                       spread=100 * SPREAD)
    with open(out, "w", encoding="utf-8") as f:
        f.write(wrapped(page))


if __name__ == "__main__":
    main()
