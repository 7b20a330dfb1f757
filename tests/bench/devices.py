#!/usr/bin/env python3
"""devices.py: steps on 1 to --devices modelled devices, predicted by `siTrain plan` and measured.
`make bench-devices` runs it; docs/lab/scaling-model.md has what it found.

The prediction is plan's: from the modelled bandwidths, and from what this machine computes, which
`siTrain bench --probe --save` measures first (--machine FILE: it is there already). The runs know
nothing of it. They take turns, and each round begins with another number of devices; the first two
steps of each visit are left out, since nothing is updated before the first and a process's first
update looks at every value.

A modelled drive is never faster than what is beneath it. So the disk is measured first: it must
move twice what all modelled drives move together.
Options that are not listed here go to plan and to pretrain. Standard library only. Environment:
SITRAIN the program (./siTrain)."""

import argparse
import json
import os
import statistics
import sys
import tempfile

import charts
import common

MODEL = ["--n-layer", 4, "--n-head", 4, "--n-embd", 256]
LINKS = ["--csd-read-bw", "48M", "--csd-write-bw", "30M", "--link-bw", "90M"]
REST = ["--seq", 16, "--batch", 1, "--csd-mem", "16M"]
MANY = 64  # devices, among which only links are waited for
UNSTEADY = 2  # first steps of a visit
LARGE_PART = 0.25  # of a step: more computing than that is said
ROOM = 2  # times what the modelled drives move: the disk beneath
UPDATE = 30  # bytes of a parameter that AdamW's update reads and writes
MOVES = {"T_opt": "updates", "T_swap": "reads of parameters", "T_grad": "writes of gradients"}


def of_devices(argv, n):
    """Where each device has a bandwidth of its own, n of them have the first ones; those behind
    the last are like it."""
    out = list(argv)
    for i, word in enumerate(out[:-1]):
        if word in ("--csd-read-bw", "--csd-write-bw"):
            each = out[i + 1].split(",")
            out[i + 1] = ",".join((each + each[-1:] * n)[:n]) if len(each) > 1 else each[0]
    return [*out, "--devices", n]


def predicted(a, argv, n):
    found = json.loads(
        common.program(
            "plan", *of_devices(argv, n), "--machine", a.machine, "--compare", "--json", "-"
        )
    )
    step = next(p for p in found["predictions"] if p["mode"] == a.mode)
    return step | {"parameters": found["model"]["parameters"]}


def linked(mode):
    """The moves that go over links."""
    return [move for move in MOVES if move != "T_opt" or mode == "base"]


def bound_by(one, plan, n, moves, computing):
    """What a half of the step on n devices waits for: the link, where n drives do not move n
    times what one moves."""
    seconds = sum(plan[move] for move in moves)
    if computing > seconds:
        return "computing"
    slower = seconds * n > 1.02 * sum(one[move] for move in moves)
    return "link" if slower and set(moves) & set(linked(plan["mode"])) else "drives"


def saturation(one, many):
    """From how many devices on the links are what a move waits for; 0: from none."""
    return {
        move: (
            one[move] / many[move]
            if move in linked(one["mode"]) and one[move] < 0.9 * MANY * many[move]
            else 0
        )
        for move in MOVES
    }


def disk_check(a, plans):
    """{"bytes_per_second", "modelled_bytes_per_second", "room"} of the disk beneath."""
    one = plans[0]
    needed, rate = len(plans) * UPDATE * one["parameters"] / one["T_opt"], common.disk_rate(a.dir)
    if rate < ROOM * needed:
        raise RuntimeError(
            f"the disk under {a.dir} moves {rate / 1e6:.0f} MB/s in an update's mix of reads and "
            f"writes, and {len(plans)} modelled drives together move {needed / 1e6:.0f}: "
            "more than half of it, so they would not be as fast as they are modelled. "
            "Slower drives (--csd-read-bw, --csd-write-bw, "
            "and --link-bw with them), fewer --devices or another --dir would do"
        )
    return {"bytes_per_second": rate, "modelled_bytes_per_second": needed, "room": rate / needed}


def measure(a, argv, folder):
    """Seconds of the steady steps on 1 to a.devices devices."""
    data = os.path.join(folder, "tokens.bin")
    common.make_tokens(data, 1 << 16, a.vocab)
    seconds = [[] for _ in range(a.devices)]
    for r in range(a.rounds):
        for i in range(a.devices):
            n = (i + r) % a.devices
            run = os.path.join(folder, f"devices-{n + 1}")
            make = [
                "--data",
                data,
                *of_devices(argv, n + 1),
                "--mode",
                a.mode,
                "--durability",
                "none",
            ]
            first = common.visit(run, make, ["--schedule-steps", 10**6], UNSTEADY + a.steps)
            seconds[n] += [
                s
                for s, in common.query(
                    run, "SELECT seconds FROM steps WHERE step >= ? ORDER BY step", first + UNSTEADY
                )
            ]
    return seconds


def rows_of(plans, seconds):
    medians = [statistics.median(each) for each in seconds]
    return [
        {
            "devices": n + 1,
            "predicted": p["step"],
            "seconds": s,
            "least": min(each),
            "most": max(each),
            "difference": p["step"] / s - 1,
            "speedup": medians[0] / s,
            "forward": p["forward"],
            "backward": p["backward"],
            "forward_by": bound_by(plans[0], p, n + 1, ["T_opt"], p["F"]),
            "backward_by": bound_by(plans[0], p, n + 1, ["T_swap", "T_grad"], p["B"]),
            "steps": each,
        }
        for n, (p, s, each) in enumerate(zip(plans, medians, seconds))
    ]


def show(found):
    rows, one = found["rows"], found["one"]
    print(f"Steps of mode {found['mode']} on modelled devices, seconds")
    print(
        common.table(
            rows,
            [
                ("devices", "devices", "%d", 1),
                ("predicted", "predicted", "%.3f", 1),
                ("seconds", "measured", "%.3f", 1),
                ("difference", "difference", "%+.1f %%", 100),
                ("least", "least", "%.3f", 1),
                ("most", "most", "%.3f", 1),
                ("speedup", "speed-up", "%.2f", 1),
                ("forward_by", "update and forward", None, 1),
                ("backward_by", "backward", None, 1),
            ],
        )
    )
    print(
        "\n  of one device: "
        + ", ".join(f"{k} {one[k]:.3f} s" for k in ("T_opt", "T_swap", "T_grad"))
        + f"; computing F {one['F']:.3f} s, B {one['B']:.3f} s"
    )
    print(
        f"  the disk beneath moves {found['disk']['bytes_per_second'] / 1e6:.0f} MB/s, "
        f"{found['disk']['room']:.1f} times what all modelled drives move"
    )
    if found["computing_share"] > LARGE_PART:
        print(
            f"  computing takes {100 * found['computing_share']:.0f} % of a step on {len(rows)} "
            "devices: this machine is too slow, or too busy, to model so many; "
            "slower drives and links (all by the same factor) make it a smaller part"
        )
    full = [
        f"{what} from {found['saturation'][move]:.1f} devices on"
        for move, what in MOVES.items()
        if found["saturation"][move]
    ]
    print(
        "=> the links are full of " + ", ".join(full)
        if full
        else "=> no link is shared: nothing is saturated"
    )
    print(f"=> predicted: at most {100 * max(abs(r['difference']) for r in rows):.1f} % off")


def plot(path, found):
    rows = found["rows"]
    series = [("predicted", [(r["devices"], r["predicted"]) for r in rows])]
    series += [
        (f"measured, {what}", [(r["devices"], r[key]) for r in rows])
        for what, key in (("median", "seconds"), ("least", "least"), ("most", "most"))
    ]
    with open(path, "w", encoding="utf-8") as f:
        f.write(
            charts.lines(
                f"{found['mode']}: a step against devices",
                "seconds a step",
                "devices",
                series,
                dashed=(2, 3),
            )
        )


def options():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("--devices", type=int, default=10)
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--steps", type=int, default=2, help="of each visit, that count")
    p.add_argument("--mode", choices=("base", "su", "su+o", "su+o+c"), default="su+o")
    p.add_argument("--vocab", type=int, default=2048, help="of the model, and of its random tokens")
    p.add_argument("--machine", help="a file of `siTrain bench --save`, instead of a probe")
    p.add_argument(
        "--dir", default=".", help="for the runs, which are removed at the end, on the disk beneath"
    )
    p.add_argument("--json", help="file for the results")
    p.add_argument("--plot", help="file for the curve (SVG)")
    a, given = p.parse_known_args()
    if not 1 <= a.devices < MANY or a.rounds < 1 or a.steps < 1:
        p.error(f"--devices: from 1 to {MANY - 1}; --rounds and --steps: at least 1")
    common.usable(p)
    links = LINKS if "--topology" not in given else []
    return a, common.completed(
        given, [(MODEL, {"--model", "--init"}), (links, None), (REST, set())]
    ) + ["--vocab", str(a.vocab)]


def main():
    a, argv = options()
    with tempfile.TemporaryDirectory(prefix="sitrain-devices-", dir=a.dir) as folder:
        if not a.machine:
            a.machine = os.path.join(folder, "machine.conf")
            common.program(
                "bench",
                "--probe",
                "--save",
                a.machine,
                "--dir",
                folder,
                *of_devices(argv, 1),
                "--mode",
                a.mode,
            )
        plans = [predicted(a, argv, n + 1) for n in range(a.devices)]
        one, last = plans[0], plans[-1]
        found = {
            "mode": a.mode,
            "disk": disk_check(a, plans),
            "one": {k: one[k] for k in ("F", "B", "T_opt", "T_swap", "T_grad")},
            "saturation": saturation(one, predicted(a, argv, MANY)),
            "computing_share": (last["F"] + last["B"]) / last["step"],
        }
        found["rows"] = rows_of(plans, measure(a, argv, folder))
    show(found)
    if a.plot:
        plot(a.plot, found)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(
                {"machine": common.machine(), "arguments": argv, "scaling": found}, f, indent=1
            )


common.main(main)
