#!/usr/bin/env python3
"""report.py [STEPS]: a run of 100,000 steps is reported within 5 seconds in every form, from a run.db below 200 MB.

A tiny run of 320 steps is trained; its rows of steps, spans and traffic are repeated, as whole and as folded steps, until there are STEPS.
Prints TAP, and how long each question of data/db/sql takes. `make prove-report`. Environment: SITRAIN the program.
"""
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

from common import BIN, result, tap

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100000
TRAINED, FIRST, LAST, EVERY = 320, 100, 100, 1000  # steps; those that are kept whole
MOST_SECONDS, MOST_BYTES = 5, 200e6


def grow(path, steps):
    """Steps 50 to 99 stand for those that are whole, 110 to 209, which are folded, for the others; time goes on."""
    db = sqlite3.connect(path)
    columns = {t: [r[1] for r in db.execute(f"PRAGMA table_info({t})")] for t in ("steps", "spans", "traffic")}
    begin = dict(db.execute("SELECT step, start_ns FROM spans WHERE phase = 'step' AND start_ns > 0"))
    pace = (begin[99] - begin[50]) // 49
    for t, names in columns.items():
        db.execute(f"CREATE TEMP TABLE was_{t} AS SELECT * FROM {t}")
        db.execute(f"CREATE INDEX temp.was_{t}_step ON was_{t} (step)")
        db.execute(f"DELETE FROM {t} WHERE step >= {FIRST}")
    db.execute("CREATE TEMP TABLE made (step INTEGER PRIMARY KEY, source INTEGER)")
    db.executemany("INSERT INTO made VALUES (?, ?)", (
        (s, 50 + s % 50 if s >= steps - LAST or s % EVERY == 0 else 110 + s % 100) for s in range(FIRST, steps)))
    later = f"iif(start_ns > 0, (m.step - m.source) * {pace}, 0)"
    for t, names in columns.items():
        values = ", ".join({"step": "m.step", "start_ns": f"start_ns + {later}", "end_ns": f"end_ns + {later}"}.get(c, f'"{c}"') for c in names)
        db.execute(f"INSERT INTO {t} SELECT {values} FROM made m JOIN was_{t} w ON w.step = m.source ORDER BY m.step")
    db.execute("DELETE FROM whole")
    db.execute("INSERT INTO whole SELECT step FROM steps WHERE step >= ?", (steps - LAST,))
    db.commit()
    db.close()


def timed(*args):
    """Seconds of this process's own (other programs' are not its fault; it has one thread and reads what is cached), as they passed, and bytes."""
    begin, before = time.monotonic(), os.times()
    p = subprocess.run([BIN, "report", *args], stdout=subprocess.PIPE, check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4]), time.monotonic() - begin, len(p.stdout)


def main():
    tmp = tempfile.mkdtemp(prefix="sitrain-report.", dir="/var/tmp")
    try:
        run, page = f"{tmp}/run", f"{tmp}/page.html"
        with open(f"{tmp}/tokens.bin", "wb") as f:
            f.write(bytes(b for i in range(8000) for b in ((33 + i * 7919 % 90), 0)))
        subprocess.run([BIN, "pretrain", "--run", run, "--data", f"{tmp}/tokens.bin", "--n-layer", "6", "--n-head", "2", "--n-embd", "16", "--vocab",
                        "128", "--seq", "16", "--batch", "1", "--threads", "1", "--mode", "su+o", "--devices", "2", "--csd-mem", "128K",
                        "--durability", "none", "--steps", str(TRAINED), "--quiet"], check=True, stdout=subprocess.DEVNULL)
        grow(f"{run}/run.db", STEPS)
        result(os.path.getsize(f"{run}/run.db") < MOST_BYTES, f"run.db of {STEPS} steps has {os.path.getsize(f'{run}/run.db') / 1e6:.0f} MB")
        for form in ([], ["--csv"], ["--json"], ["--html", page], ["--openmetrics"], ["--trace", f"{tmp}/trace.json"]):
            seconds, passed, size = timed(run, *form)
            result(seconds < MOST_SECONDS, f"report {' '.join(form[:1])}: {seconds:.2f} s ({passed:.2f} s passed), {size} bytes")
        result(os.path.getsize(page) < 2e6, f"the page has {os.path.getsize(page)} bytes")
        names = [line.split()[0] for line in subprocess.run([BIN, "report", run, "--sql", "list"], capture_output=True, text=True,
                                                            check=True).stdout.splitlines()]
        for name in names:
            print(f"# {name:17} {timed(run, '--sql', name)[0]:6.2f} s")
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    return tap.done()


sys.exit(main())
