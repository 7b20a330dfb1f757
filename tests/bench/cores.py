#!/usr/bin/env python3
"""cores.py: would OpenBLAS be faster with other kernels? `make bench-cores` runs it.

OpenBLAS chooses its kernels when it is loaded, by the processor's name; an old library does not
know a new processor and takes slow ones. Its variable OPENBLAS_CORETYPE says otherwise, and siTrain
sets it where it knows better. So `siTrain bench --only products` runs with each that this processor
has the instructions for, and once with none, by turns; another core is worth a word where its
slowest turn beats the fastest of the one in use.
Options that are not listed here go to bench. Standard library only. Environment: SITRAIN the
program (./siTrain)."""

import argparse
import json
import os
import statistics

import common

CORES = {
    "Haswell": "avx2",
    "Zen": "avx2",
    "SkylakeX": "avx512f",
    "Cooperlake": "avx512_bf16",
}  # and the instructions that each needs


def measure(core, given):
    """(the core that OpenBLAS took, FLOP/s of a step's products)"""
    environ = {k: v for k, v in os.environ.items() if core or k != "OPENBLAS_CORETYPE"} | (
        {"OPENBLAS_CORETYPE": core} if core else {}
    )
    said = json.loads(
        common.program(
            "bench",
            "--only",
            "products",
            "--blas",
            "openblas",
            "--dtype",
            "fp32",
            "--rounds",
            1,
            "--json",
            "-",
            *given,
            env=environ,
        )
    )
    row = next(e for e in said["products"]["engines"] if e["name"] == "openblas fp32")
    return row["library"].split()[-1], row["step_flops_per_second"]


def main():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--json", help="file for the results")
    a, given = p.parse_known_args()
    common.usable(p)
    used, rates = None, {}
    for _ in range(a.rounds):
        for core in [
            None,
            *(c for c, needs in CORES.items() if needs in common.machine()["flags"]),
        ]:
            took, rate = measure(core, given)
            used = used if core else took
            if core == took or not core:  # else this library does not have it
                rates.setdefault(took, []).append(rate)
    rows = [
        {
            "core": core,
            "flops_per_second": statistics.median(each),
            "least": min(each),
            "most": max(each),
            "note": "in use" if core == used else "",
        }
        for core, each in rates.items()
    ]
    print(
        common.table(
            rows,
            [
                ("core", "OPENBLAS_CORETYPE", None, 1),
                ("flops_per_second", "GFLOP/s", "%.0f", 1e-9),
                ("least", "least", "%.0f", 1e-9),
                ("most", "most", "%.0f", 1e-9),
                ("note", "", None, 1),
            ],
        )
    )
    best, own = max(rows, key=lambda r: r["flops_per_second"]), next(r for r in rows if r["note"])
    if best["least"] > own["most"]:
        print(
            f"=> OPENBLAS_CORETYPE={best['core']} in the environment makes OpenBLAS "
            f"{best['flops_per_second'] / own['flops_per_second']:.2f} times as fast"
        )
    else:
        print(f"=> no other OPENBLAS_CORETYPE is surely faster than {used}, the one in use")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"machine": common.machine(), "openblas_cores": rows}, f, indent=1)


common.main(main)
