"""tap.py: what the Python scripts that look at the sources share: TAP, and the sources."""
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ["cmd", "model", "offload", "csd", "comm", "kernels", "data"]
failed = False
reports = 0


def report(name, offenders):
    """ok where there are no offenders, else a line for each."""
    global failed, reports
    reports += 1
    print(f"{'not ok' if offenders else 'ok'} - {name}")
    for line in offenders:
        print(f"# {line}")
    failed |= bool(offenders)


def sources(*folders):
    """The .c and .h files in these folders, as paths from the repository's root, in order."""
    return sorted(str(p.relative_to(ROOT)) for f in folders for p in (ROOT / f).rglob("*.[ch]"))


def done():
    print(f"1..{reports}")
    sys.exit(failed)
