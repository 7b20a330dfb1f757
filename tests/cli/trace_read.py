#!/usr/bin/env python3
"""trace_read.py TRACE [DATABASE FIRST LAST]: what must hold in a file of Chrome's trace events, whatever reads it: slices of a thread lie within each other or
apart, every flow begins in a slice and ends in one after it, counters are never below 0. Prints "slices N flows N", then a line for each
process with its threads; exits 1 with a word where something is wrong. With run.db and the trace's steps from 0: every flow comes from the
device that the view waits names."""
import collections
import json
import sqlite3
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    events = json.load(f)["traceEvents"]
threads, names, flows = collections.defaultdict(list), {}, collections.defaultdict(dict)
for e in events:
    if e["ph"] == "X":
        threads[e["pid"], e["tid"]].append((e["ts"], -e["dur"], e["name"]))
        assert e["ts"] >= 0 and e["dur"] >= 0 and isinstance(e["ts"], int), e
    elif e["ph"] == "M" and e["name"].endswith("_name"):
        names[e["pid"], e["tid"] if e["name"] == "thread_name" else None] = e["args"]["name"]
    elif e["ph"] in "sf":
        flows[e["id"]][e["ph"]] = e
    elif e["ph"] == "C":
        assert e["args"]["value"] >= -1e-6, e
assert min(ts for slices in threads.values() for ts, _, _ in slices) == 0
for thread, slices in threads.items():
    open_until = []
    for ts, minus, name in sorted(slices):
        while open_until and open_until[-1] <= ts:
            open_until.pop()
        assert not open_until or ts - minus <= open_until[-1], f"{names[thread]}: {name} at {ts} ends after what it lies in"
        open_until.append(ts - minus)


def slice_at(e):
    return [s for s in threads[e["pid"], e["tid"]] if s[0] <= e["ts"] < s[0] - s[1]]


for f in flows.values():
    assert set(f) == {"s", "f"} and slice_at(f["s"]) and slice_at(f["f"]) and f["s"]["ts"] < f["f"]["ts"], f
    assert names[f["f"]["pid"], None] == "host", f
assert not any(name.startswith("training (") for name in names.values()), "what the training thread did overlaps in part"
if len(sys.argv) > 2:
    db, steps = sqlite3.connect(sys.argv[2]), [int(a) for a in sys.argv[3:]]
    first, = db.execute("SELECT min(start_ns) FROM spans WHERE start_ns > 0 AND step BETWEEN ? AND ?", steps).fetchone()
    waits = {((start - first) // 1000, phase): device for phase, start, device in
             db.execute("SELECT phase, start_ns, device FROM waits WHERE step BETWEEN ? AND ?", steps)}
    for f in flows.values():
        ts, _, name = [s for s in slice_at(f["f"]) if s[2].startswith("wait")][-1]
        device = waits[ts, name.split()[0]]
        assert f["s"]["pid"] == (1 if device is None else 2 + device), f"{name} at {ts}: {f}, {device}"
print("slices", sum(map(len, threads.values())), "flows", len(flows))
for pid in sorted({p for p, _ in threads}):
    print(" ".join(names[pid, None].split()[:2]) + ":", ", ".join(sorted({names[t].split(" (")[0] for t in threads if t[0] == pid})))
