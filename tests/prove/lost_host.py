#!/usr/bin/env python3
"""lost_host.py [--seed N]: a job of two hosts loses one of them, and goes on with an empty one.

Each host is a network namespace (network.py) with a folder of its own at one path, which no other host sees. A run with --snapshot-on hosts trains
on hosts 0 and 1. At a random moment all processes of one of them are killed, its network is cut and all its files are removed. Host 2, which is
empty, takes its place in the hostfile: `mpirun siTrain restore RUN` and `mpirun siTrain pretrain --resume RUN`, as docs/snapshots.md says. In the end
the export and the rows of steps are those of one process that nothing happened to. Host 1 is lost, then, in another run, host 0, which has run.db
and where mpirun was started.

It wants root, for namespaces. All that it makes is removed. Prints TAP. `make prove-lost-host`. Environment: SITRAIN the program.
"""
import argparse
import contextlib
import hashlib
import os
import random
import shutil
import sys
import tempfile
import time

from common import BIN, must, result, tap
from network import Hosts, root, steps

STEPS, EVERY = 400, 10
SHAPE = "--n-layer 2 --n-head 2 --n-embd 64 --seq 32 --batch 2 --grad-accum 4 --groups 4 --threads 1 --csd-mem 1M --durability none --quiet".split()


def exported(run, to):
    must("export", run, to)
    with open(f"{to}/model.safetensors", "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def job(hosts, where, *words):
    hosts.start(where, BIN, *words)
    code, out, err = hosts.end()
    if code:
        raise RuntimeError(f"{' '.join(words)}: exit {code}\n{out}{err}")
    return out


def ranks_on(hosts, host):
    """How many processes of siTrain there are on a host."""
    n = 0
    for pid in root("ip", "netns", "pids", hosts.name(host)).stdout.split():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            n += os.path.samefile(f"/proc/{pid}/exe", BIN)
    return n


def lose(hosts, host, run, draw):
    """While the job trains, after a snapshot. Seconds after which the other host's rank has ended by itself."""
    while not os.path.exists(os.path.join(f"{hosts.tmp}/host{host}", os.path.basename(run) + (".rank1" if host else ""), "snapshots")):
        if hosts.child.poll() is not None:
            raise RuntimeError(str(hosts.end()))
        time.sleep(0.05)
    time.sleep(draw.uniform(1, 4))
    if not ranks_on(hosts, 0) or not ranks_on(hosts, 1):
        raise RuntimeError(f"it had ended before host {host} was lost: {hosts.end()}")
    root("ip", "-n", hosts.name(host), "link", "set", "eth0", "down")
    hosts.kill(host)
    shutil.rmtree(f"{hosts.tmp}/host{host}")
    os.mkdir(f"{hosts.tmp}/host{host}")
    begun = time.monotonic()
    while ranks_on(hosts, 1 - host):
        if time.monotonic() - begun > 60:
            raise RuntimeError("the other host's rank did not end")
        time.sleep(0.05)
    lasted = time.monotonic() - begun
    hosts.kill(1 - host)  # mpirun's daemon there may wait for its mpirun for long
    hosts.end()
    return lasted


def replace(tmp, host, want, draw):
    run, where = f"{tmp}/data/run", [0, 1]
    with Hosts(3, "1gbit", tmp, f"{tmp}/data") as hosts:
        for i in range(3):
            os.makedirs(f"{tmp}/host{i}")
        hosts.start(where, BIN, "pretrain", "--run", run, "--data", f"{tmp}/text", "--tokenizer", f"{tmp}/tok", *SHAPE, "--devices", "2", "--steps",
                    str(STEPS), "--snapshot-every", str(EVERY), "--snapshot-on", "hosts", "--rank-timeout", "10")
        lasted = lose(hosts, host, run, draw)
        where[host] = 2
        said = job(hosts, where, "restore", run)
        print(f"# host {host} was lost; the other's rank ended {lasted:.1f} s later; {said.strip()}", flush=True)
        job(hosts, where, "pretrain", "--resume", run, "--quiet")
    whole = f"{tmp}/whole"  # one process reads the folders of all ranks next to each other
    os.mkdir(whole)
    for i in where:
        for name in os.listdir(f"{tmp}/host{i}"):
            os.rename(f"{tmp}/host{i}/{name}", f"{whole}/{name}")
    got = steps(f"{whole}/run"), steps(f"{whole}/run.rank1"), exported(f"{whole}/run", f"{tmp}/hf")
    result(got == (want[0], want[0], want[1]), f"host {host} is lost and replaced by an empty one: the steps and the export of one process")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--seed", type=int, default=int(time.time()))
    o = a.parse_args()
    if os.geteuid() or not all(shutil.which(x) for x in ("ip", "tc", "mpirun", "unshare")):
        print("1..0 # SKIP wants root, ip, tc, unshare and mpirun")
        return 77
    print(f"# seed {o.seed}", flush=True)
    draw, tmp = random.Random(o.seed), tempfile.mkdtemp(prefix="sitrain-hosts.", dir="/var/tmp")
    try:
        os.mkdir(f"{tmp}/data")
        with open(f"{tmp}/text", "w", encoding="ascii") as f:
            f.write(" ".join(draw.choice(["alpha", "beta", "gamma", "delta", "eta", "theta"]) for _ in range(20000)))
        must("prepare", f"{tmp}/text", "--train-tokenizer", "--vocab", "270", "--out", f"{tmp}/tok")
        must("pretrain", "--run", f"{tmp}/one", "--data", f"{tmp}/text", "--tokenizer", f"{tmp}/tok", *SHAPE, "--steps", str(STEPS))
        want = steps(f"{tmp}/one"), exported(f"{tmp}/one", f"{tmp}/hf")
        shutil.rmtree(f"{tmp}/hf")
        for host in 1, 0:
            try:
                replace(tmp, host, want, draw)
            except RuntimeError as e:
                result(False, f"host {host} is lost", e)
            for d in "whole", "hf", "host0", "host1", "host2":
                shutil.rmtree(f"{tmp}/{d}", ignore_errors=True)
    finally:
        shutil.rmtree(tmp)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
