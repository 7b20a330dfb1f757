#!/usr/bin/env python3
"""fio.py: siTrain's disk beside fio, by turns, in the same folder. `make bench-fio`
runs it.

fio moves pieces of 1 MiB, 64 in flight, as siTrain does (`siTrain bench --only disk`), and reads
and writes 53 to 47, which is an update's mix of 16 bytes read for 14 written. Options that
are not listed here go to bench. Standard library only. Environment: SITRAIN the program
(./siTrain)."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

import common

PATTERNS = {"read": "read", "write": "write", "update's mix": "rw"}  # ours, fio's
URING = ["--ioengine=io_uring", "--iodepth=64"]


def fio(path, megabytes, pattern):
    """Bytes a second."""
    argv = [
        "fio",
        "--name=siTrain",
        "--rwmixread=53",
        "--bs=1M",
        "--direct=1",
        "--thread",
        "--group_reporting",
        "--fallocate=none",
        "--output-format=json",
        f"--rw={pattern}",
        f"--size={megabytes}M",
        f"--io_size={megabytes // 2}M",
        f"--filename={path}",
        *URING,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"fio: {(done.stderr or done.stdout).strip()}")
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return (job["read"]["io_bytes"] + job["write"]["io_bytes"]) / (
        1e-3 * max(job["read"]["runtime"], job["write"]["runtime"])
    )


def ours(given, folder):
    """{pattern: bytes a second}"""
    said = json.loads(
        common.program(
            "bench", "--only", "disk", "--rounds", 1, "--json", "-", "--dir", folder, *given
        )
    )
    return {p["pattern"]: p["bytes_per_second"] for p in said["disk"][0]["patterns"]}


def main():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument(
        "--dir", default=".", help="for the files, which are removed at the end, on the disk"
    )
    p.add_argument("--json", help="file for the results")
    a, given = p.parse_known_args()
    common.usable(p)
    if not shutil.which("fio"):
        p.error("fio is not installed")
    own, theirs = {}, {}
    with tempfile.TemporaryDirectory(prefix="sitrain-fio-", dir=a.dir) as folder:
        path, megabytes = os.path.join(folder, "file"), 128 if "--quick" in given else 1024
        fio(path, megabytes, "write")
        for _ in range(a.rounds):
            for pattern, rate in ours(given, folder).items():
                own.setdefault(pattern, []).append(rate)
            for pattern, word in PATTERNS.items():
                theirs.setdefault(pattern, []).append(fio(path, megabytes, word))
    rows = []
    for pattern, rates in own.items():
        row = {"pattern": pattern, "bytes_per_second": statistics.median(rates)}
        against = theirs[pattern]
        row |= {
            "fio_bytes_per_second": statistics.median(against),
            "share_of_fio": statistics.median(x / y for x, y in zip(rates, against)),
        }
        rows.append(row)
    print(
        common.table(
            rows,
            [
                ("pattern", "disk", None, 1),
                ("bytes_per_second", "MB/s", "%.0f", 1e-6),
                ("fio_bytes_per_second", "fio", "%.0f", 1e-6),
                ("share_of_fio", "share", "%.0f %%", 100),
            ],
        )
    )
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"machine": common.machine(), "fio": rows}, f, indent=1)


common.main(main)
