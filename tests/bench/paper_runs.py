"""paper_runs.py: the runs that tests/bench/paper.py shows: which there are, on which modelled links, and what is taken from each one's run.db.

The links are in the proportions of the paper's machine (paper_facts.proportions): the model is ours, the number of its tokens a step such that computing takes
what the paper's GPU takes beside what the link takes for M bytes, and the link as fast as a real disk behind ten drives allows: all that the modelled drives
move inside their devices together stays below half of what the disk was measured to do."""
import collections
import os
import statistics

import common
import paper_facts as facts

MODES = ("base", "su", "su+o", "su+o+c")
VOCAB, LENGTH, HEADS = 1024, 64, 4
# Layers and width of our models, by how many times the smallest's parameters they have; the paper's have 4.0, 8.4 and 16.6 billion.
SIZES = {"1": (6, 256), "2.1": (13, 256), "4.2": (12, 384)}
BERT_POSITIONS = 512  # of bert-base, whose other sizes are replaced by these; it finds 15% of its tokens, which are masked
MASK = VOCAB - 1
MOST_LINK = 80e6  # bytes a second: faster ones leave steps of less than a second, which an operating system disturbs
LEAST_LINK = 16e6

Run = collections.namedtuple("Run", "mode devices size optimizer compress slower accelerators family", defaults=("1", "adamw", 2, 1, 0, "gpt2"))


def name(run):
    other = [f"{k} {v}" for k, v, usual in zip(run._fields[2:], run[2:], Run._field_defaults.values()) if v != usual]
    return " ".join([run.mode, str(run.devices), *other])


def parameters(layers, width, length, vocab=VOCAB, family="gpt2"):
    inside = layers * (12 * width + 13) * width
    if family == "bert":  # two types of tokens, the norm of the embeddings; a matrix, a norm and a bias a word in front of the embeddings once more
        return inside + (vocab + BERT_POSITIONS + 2 + 2) * width + (width + 3) * width + vocab
    return inside + (vocab + length + 2) * width


def all_runs(quick):
    """Section by section; a run that two sections have is there once."""
    both, counts, few = ((6, 10), facts.DEVICES, (1, 4, 6, 10)) if not quick else ((2,), (1, 2), (2,))
    three = ("base", "su+o", "su+o+c")
    out = [Run(m, n) for n in counts for m in MODES]
    out += [Run(m, n, size="2.1") for n in both for m in MODES if not quick] + [Run(m, 10, size="4.2") for m in MODES if not quick]
    out += [Run("su+o+c", n, compress=c) for c in (10, 5, 1) for n in both]
    out += [Run(m, n, optimizer=o) for o in facts.OPTIMIZERS for n in both for m in three]
    out += [Run(m, n, slower=1.5) for n in few for m in three]
    out += [Run(m, both[-1], accelerators=k) for k in facts.CONGESTED for m in three]
    out += [Run(m, n, size=z, family="bert") for z in ("1", "2.1")[:1 if quick else 2] for n in both for m in MODES]
    return list(dict.fromkeys(out))


# ---- what stands before all runs ----

def inside(link, devices):
    """Bytes a second that the modelled drives move inside their devices together: an update's 8M read and 7M written (the bf16 parameters with them)."""
    p = facts.proportions()
    return devices * link * (8 + 7) / (8 / p["read"] + 7 / p["write"])


def fastest_link(disk, devices):
    """With which `inside` is half of the disk's rate, or MOST_LINK."""
    return min(MOST_LINK, disk / 2 / inside(1, devices))


def shape(layers, width, length, batch, vocab=VOCAB, family="gpt2"):
    bert = ["--model", "bert-base", "--n-inner", 4 * width, "--mask-id", MASK] if family == "bert" else []
    return [*bert, "--n-layer", layers, "--n-head", HEADS, "--n-embd", width, "--vocab", vocab, "--seq", length, "--batch", batch, "--dtype", "bf16"]


def computing_seconds(batch, a, data):
    """Of a step on devices that answer at once: the shortest, since others on the machine only make it longer."""
    argv = ["pretrain", "--data", data, "--order", "sequential", *shape(*SIZES["1"], LENGTH, batch), "--mode", "su+o", "--csd", "null", "--devices", 1, "--csd-mem", "16M",
            "--host-mem", "4G", "--durability", "none"]
    return min(common.sitrain(argv, a)["seconds"][1:])


def quick_set_up():
    """For a trial of the machinery: links that nobody waits for."""
    return {"disk": 8e9, "link": 1e9, "batch": 2, "computing": 0.1}


def set_up(a, data, devices):
    """{"disk", "link", "batch", "computing"}: the tokens with which computing takes what the proportions say of the fastest link that the disk allows,
    and the link that fits exactly."""
    disk = common.disk_rate(os.path.dirname(data))
    fastest = fastest_link(disk, devices)
    if fastest < LEAST_LINK:
        raise SystemExit(f"the disk moves {disk / 1e6:.0f} MB/s: the modelled drives, which together are to stay below half of it, would be too slow to wait for; "
                         "--dir names a place on another disk")
    wanted = facts.proportions()["computing"] * 2 * parameters(*SIZES["1"], LENGTH)  # over the link: seconds
    batch = 8
    for _ in range(8):
        seconds = computing_seconds(batch, a, data)
        if wanted / seconds <= fastest:
            break
        batch = max(batch + 1, round(batch * wanted / seconds / fastest * 1.02))
    if not LEAST_LINK <= wanted / seconds <= fastest:
        raise SystemExit(f"computing {batch} x {LENGTH} tokens takes {seconds:.3f} s here: no link between {LEAST_LINK / 1e6:.0f} and {fastest / 1e6:.0f} MB/s has the paper's proportion to it")
    return {"disk": disk, "link": wanted / seconds, "batch": batch, "computing": seconds}


# ---- a run ----

def topology(run, link, folder):
    """Drives behind one link; accelerators, where there are some, behind it, too."""
    p = facts.proportions()
    path = os.path.join(folder, f"topology-{run.devices}-{run.accelerators}-{run.slower}")
    with open(path, "w", encoding="utf-8") as f:
        print(f"link box host {link:.0f} {link:.0f}", file=f)
        for i in range(run.devices):
            print(f"drive {i} box {link * p['read']:.0f} {link * p['write']:.0f}", file=f)
        for i in range(run.accelerators):
            print(f"accelerator {i} box - -", file=f)
    return path


def look(db):
    """The paper's three bars, seconds of a steady step. As lived: forward is its computing, backward has all that the training thread did and waited for until
    the gradients were handed over, and the update all else, since what forward waits for is the update or stands behind it. Serialised: nothing overlaps."""
    steady = "step IN (SELECT step FROM steady_steps)"
    lived = db.execute(f'SELECT step, seconds, bw_grad FROM breakdown WHERE {steady}').fetchall()
    forward = dict(db.execute(f"SELECT step, seconds FROM phase_seconds WHERE phase = 'forward' AND place = 'host' AND {steady}").fetchall())
    bars = [(forward[step], bw, seconds - forward[step] - bw) for step, seconds, bw in lived]
    serial = db.execute('SELECT fw, bw_grad, "update" FROM breakdown_serial').fetchone()
    (last,) = db.execute("SELECT max(step) FROM steady_steps").fetchone()
    rows = db.execute("SELECT class, direction, bytes FROM traffic_per_step WHERE link = 'host' AND step = ?", (last,)).fetchall()
    return {"traffic": {f"{what} {way}": n for what, way, n in rows}, "step_seconds": statistics.median(r[1] for r in lived),
            "lived": [statistics.median(b[i] for b in bars) for i in range(3)], "serial": list(serial)}


def measure(run, setup, a, data):
    batch = setup["batch"] * (2 if run.accelerators else 1)  # the paper's 1.16B model on an A4000: computing is twice as much beside its bytes
    argv = ["pretrain", "--data", data, "--order", "sequential", *shape(*SIZES[run.size], LENGTH, batch, family=run.family), "--mode", run.mode, "--devices", run.devices, "--csd-mem", "16M",
            "--host-mem", "4G", "--durability", "none", "--optimizer", run.optimizer, "--topology", topology(run, setup["link"] / run.slower, os.path.dirname(data))]
    if run.mode == "su+o+c":
        argv += ["--compress", f"{run.compress}%"]
    return common.sitrain(argv, a, look)
