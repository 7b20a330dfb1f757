#!/usr/bin/env python3
"""check_sqlite.py: run.db in the hands of sqlite3: its own check, its views, and each of report's questions by its file: the same rows as
siTrain report --sql prints. TAP."""
import glob
import json
import os
import subprocess
import sys
import tempfile

from scene import check, done, sitrain, train

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sqlite3(db, sql):
    p = subprocess.run(["sqlite3", "-json", db], input=sql, capture_output=True, text=True, check=False)
    return (json.loads(p.stdout) if p.stdout.strip() else []) if p.returncode == 0 and not p.stderr else p.stderr


def same(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return str(a) == str(b)  # texts that are numbers, too


with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
    run = train(folder)
    db = os.path.join(run, "run.db")
    check(sqlite3(db, "PRAGMA integrity_check") == [{"integrity_check": "ok"}], "sqlite3 finds it whole")
    for view in (r["name"] for r in sqlite3(db, "SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name")):
        rows = sqlite3(db, f'SELECT * FROM "{view}"')
        check(isinstance(rows, list), f"sqlite3 reads the view {view}", rows)
    for file in sorted(glob.glob(os.path.join(ROOT, "data", "db", "sql", "*.sql"))):
        name = os.path.splitext(os.path.basename(file))[0]
        with open(file, encoding="utf-8") as f:
            ours, theirs = json.loads(sitrain("report", run, "--sql", name, "--json")), sqlite3(db, f.read())
        check(same(ours, theirs), f"sqlite3 answers {name} as report --sql does", str(ours)[:400], str(theirs)[:400])
sys.exit(done())
