#!/usr/bin/env python3
"""network.py [--rate BITS] [--ranks N,..] [--layer-ms MS]: ranks between which there is a network, on one machine.

Each rank is in a network namespace of its own, joined to a bridge by a veth whose two directions a token bucket (tc tbf) holds to --rate
bits a second. mpirun starts them as it would over ssh; a script of two lines stands for ssh. Three things are shown:

- `bench network` says what the buckets let through;
- a run of several ranks through it has the bits of one process, and its bytes on the wire are what traffic_computed says, and headers;
- weak scaling: every rank's stream moves a whole step's parameters and gradients while its computing is given time (bench network
  --layer-us), for each number of ranks: how much longer than one alone.

It wants root, for namespaces. All that it makes is removed. Prints TAP. `make prove-network`. Environment: SITRAIN the program.
"""
import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

from common import BIN, result, tap

NET = "10.213.77"
HEADERS = 1.12  # of TCP, IP and Ethernet, of acknowledgements, of what MPI and mpirun say to each other
PAYLOAD = 1448 / 1514  # of a frame's bytes


def root(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


class Hosts:
    """Namespaces 0..n-1, and one more that has the bridge. own: a folder that is another one for each of them: tmp/host0, tmp/host1, ..."""

    def __init__(self, n, rate, tmp, own=None):
        self.n, self.rate, self.tmp, self.own, self.tag, self.child = n, rate, tmp, own, f"sitrain{os.getpid()}", None
        self.agent = os.path.join(tmp, "agent")
        with open(self.agent, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\nn=$((${{1##*.}} - 1))\nshift\n" + self.entry("$n", '"exec $*"') + "\n")
        os.chmod(self.agent, 0o755)

    def name(self, i):
        return f"{self.tag}-{i}"

    def entry(self, i, command):
        """A line for a shell that runs the command, a word of it, on host i."""
        mounts = f"mount --bind {self.tmp}/host$1 {self.own} && " if self.own else ""
        return f"exec ip netns exec {self.name(i)} unshare --uts --mount sh -c '{mounts}hostname {self.name('$1')} && eval \"$0\"' {command} {i}"

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        switch = self.name("switch")
        root("ip", "netns", "add", switch)
        root("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        root("ip", "-n", switch, "link", "set", "br0", "up")
        for i in range(self.n):
            ns = self.name(i)
            root("ip", "netns", "add", ns)
            root("ip", "-n", ns, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", switch)
            root("ip", "-n", ns, "addr", "add", f"{NET}.{i + 1}/24", "dev", "eth0")
            for where, link in (ns, "lo"), (ns, "eth0"), (switch, f"port{i}"):
                root("ip", "-n", where, "link", "set", link, "up")
            root("ip", "-n", switch, "link", "set", f"port{i}", "master", "br0")
            for where, link in (ns, "eth0"), (switch, f"port{i}"):
                root("ip", "netns", "exec", where, "tc", "qdisc", "add", "dev", link, "root", "tbf", "rate", self.rate,
                     "burst", "256kb", "latency", "40ms")

    def __exit__(self, *_):
        if self.child and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
        for i in [*range(self.n), "switch"]:
            self.kill(i)
            root("ip", "netns", "del", self.name(i), check=False)

    def kill(self, i):
        """All processes of this namespace, which is ours."""
        for pid in map(int, root("ip", "netns", "pids", self.name(i), check=False).stdout.split()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def start(self, hosts, *words):
        """Start a job with one rank on each of these hosts, by mpirun on the first."""
        with open(f"{self.tmp}/hosts", "w", encoding="ascii") as f:
            f.writelines(f"{NET}.{i + 1} slots=1\n" for i in hosts)
        line = ["mpirun", "--hostfile", f"{self.tmp}/hosts", "-n", str(len(hosts)), "--bind-to", "none"]
        for key, value in (("plm_rsh_agent", self.agent), ("plm", "rsh"), ("pml", "ob1"), ("btl", "tcp,self"),
                           ("btl_tcp_if_include", f"{NET}.0/24"), ("oob_tcp_if_include", f"{NET}.0/24")):
            line += ["--mca", key, value]
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = shlex.quote("exec " + shlex.join([*line, *words]))
        self.child = subprocess.Popen(["sh", "-c", self.entry(hosts[0], command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                                      stdin=subprocess.DEVNULL, start_new_session=True)

    def end(self, seconds=300):
        """(exit code, stdout, stderr) of the job."""
        try:
            out, err = self.child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            out, err = self.child.communicate()
        return self.child.returncode, out, err

    def mpirun(self, ranks, *words):
        """(exit code, stdout); what went wrong is printed."""
        self.start(range(ranks), *words)
        code, out, err = self.end()
        if code:
            print("# " + "\n# ".join((out + err).splitlines()[-15:]), flush=True)
        return code, out

    def sent(self, i):
        """Bytes that have left namespace i."""
        show = root("ip", "-n", self.name(i), "-j", "-s", "link", "show", "eth0").stdout
        return json.loads(show)[0]["stats64"]["tx"]["bytes"]


def bits(rate):
    for unit, times in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if rate.endswith(unit):
            return float(rate[:-len(unit)]) * times
    return float(rate)


def bench(hosts, ranks, a):
    code, out = hosts.mpirun(ranks, BIN, "bench", "network", "--rounds", "3", "--dir", a.tmp, "--json", "-")
    if code:
        return result(False, f"bench network, {ranks} ranks")
    found = json.loads(out)["network"]
    row = found["sizes"][-1]
    most = bits(a.rate) / 8
    print(f"# {ranks} ranks at {a.rate}: gather {row['gather'] / 1e6:.1f} MB/s, exchange {row['exchange'] / 1e6:.1f} MB/s of "
          f"{most / 1e6:.1f}; together within {found['share_seconds'] * 1e3:.2f} ms", flush=True)
    # the buckets let a burst through beyond their rate, and headers take a part of it
    return result(0.3 * most < row["gather"] < 1.1 * most and 0.3 * most < row["exchange"] < 1.1 * most,
                  f"{ranks} ranks: gathers and exchanges by the network's rate")


def pretrain(hosts, ranks, a):
    model = ["--n-layer", "3", "--n-head", "4", "--n-embd", "128", "--vocab", "270", "--seq", "32", "--batch", "2", "--grad-accum", "8",
             "--groups", "8", "--threads", "1", "--csd-mem", "1M", "--devices", "2", "--steps", "4"]
    model += ["--data", f"{a.tmp}/text", "--tokenizer", f"{a.tmp}/tok", "--quiet"]
    one, many = f"{a.tmp}/one", f"{a.tmp}/many{ranks}"
    if not os.path.exists(one):
        subprocess.run([BIN, "pretrain", *model, "--run", one], check=True, capture_output=True)
    before = [hosts.sent(i) for i in range(ranks)]
    code, _ = hosts.mpirun(ranks, BIN, "pretrain", *model, "--run", many)
    after = [hosts.sent(i) for i in range(ranks)]
    ok = code == 0
    for r in range(ranks if ok else 0):
        ok = ok and steps(f"{many}.rank{r}" if r else many) == steps(one)
    result(ok, f"pretrain, {ranks} ranks: the bits of one process")
    if not ok:
        return
    for r in range(ranks):
        out = subprocess.run([BIN, "report", f"{many}.rank{r}" if r else many, "--json"], check=True, capture_output=True, text=True)
        rows = [x for x in json.loads(out.stdout)["traffic"] if x["link"] == "network" and x["direction"] == "write"]
        computed, wire = 4 * sum(x["computed"] for x in rows), after[r] - before[r]
        print(f"# rank {r}: {computed} bytes computed, {wire} left it", flush=True)
        ok = ok and computed < wire < HEADERS * computed + (1 << 20)
    result(ok, "  what leaves each rank is what was computed, and headers")


def predicted(ranks, step, a):
    """What plan says of the same steps, on a machine that computes them in the time that they were given."""
    model = ["--n-layer", "8", "--n-head", "4", "--n-embd", "256", "--vocab", "1024", "--seq", "128", "--batch", "1"]
    plan = [BIN, "plan", *model, "--grad-accum", "1000", "--probe", "off"]
    said = subprocess.run(plan, check=True, capture_output=True, text=True).stdout
    gflop = float(re.search(r"([0-9.]+) GFLOP", said).group(1)) / 1000
    machine = f"{a.tmp}/machine.conf"
    with open(machine, "w", encoding="ascii") as f:
        f.write(f"flops = {gflop * 1e9 / step['computing']:.6g}\nhost-update = 1e12\n")
    plan[-3:] = [str(ranks), "--machine", machine, "--csd", "null", "--ranks", str(ranks), "--json", "-"]
    if ranks > 1:
        plan += ["--network-bw", str(round(PAYLOAD * bits(a.rate) / 8))]
    return json.loads(subprocess.run(plan, check=True, capture_output=True, text=True).stdout)["step"]


def weak(hosts, a):
    """Each rank computes one micro-batch, however many there are; nothing but what moves between them may take longer."""
    alone = None
    for n in [1, *a.ranks]:
        code, out = hosts.mpirun(n, BIN, "bench", "network", "--rounds", "1", "--dir", a.tmp, "--layer-us", str(int(a.layer_ms * 1000)),
                                 "--steps", "4", "--durability", "none", "--json", "-")
        if code:
            return result(False, f"steps of {n} ranks")
        step = json.loads(out)["network"]["steps"]
        alone = alone or step["seconds"]
        told = predicted(n, step, a)
        print(f"# {n} rank{'s' if n > 1 else ''}: a step takes {step['seconds']:.3f} s, computing {step['computing']:.3f} s of it; "
              f"efficiency {100 * alone / step['seconds']:.1f} %; plan says {told['seconds']:.3f} s, over the network {told['network']:.3f} s",
              flush=True)
    return result(alone / step["seconds"] >= a.least, f"weak scaling to {n} ranks: at least {100 * a.least:.0f} % of one alone")


def steps(run):
    db = sqlite3.connect(f"{run}/run.db")
    rows = db.execute("SELECT step, printf('%.17g %.17g', loss, grad_norm) FROM steps").fetchall()
    db.close()
    return rows


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--rate", default="1gbit")
    p.add_argument("--ranks", default="2,4,8")
    p.add_argument("--layer-ms", type=float, default=100, help="what a layer's forward is given")
    p.add_argument("--least", type=float, default=0.9, help="of weak scaling's efficiency")
    a = p.parse_args()
    a.ranks = [int(n) for n in a.ranks.split(",")]
    return a


def main():
    a = parse()
    if os.geteuid() or not all(shutil.which(x) for x in ("ip", "tc", "mpirun", "unshare")):
        print("1..0 # SKIP wants root, ip, tc, unshare and mpirun")
        return 77
    a.tmp = tempfile.mkdtemp(prefix="sitrain-network.", dir="/var/tmp")
    try:
        draw = random.Random(1)
        with open(f"{a.tmp}/text", "w", encoding="ascii") as f:
            f.write(" ".join(draw.choice(["alpha", "beta", "gamma", "delta", "eta", "theta"]) for _ in range(20000)))
        subprocess.run([BIN, "prepare", f"{a.tmp}/text", "--train-tokenizer", "--vocab", "270", "--out", f"{a.tmp}/tok"], check=True,
                       capture_output=True)
        with Hosts(max(a.ranks), a.rate, a.tmp) as hosts:
            for n in a.ranks:
                bench(hosts, n, a)
                pretrain(hosts, n, a)
            weak(hosts, a)
    finally:
        shutil.rmtree(a.tmp)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
