#!/usr/bin/env python3
"""check_trace.py: siTrain report --trace, opened by Perfetto's trace processor and by Chrome's trace viewer. TAP.

What they have loaded is compared with run.db: every whole span is a slice of the same length on a thread of the same device, an arrow
leads from a request to the wait that it ended, the area under a bandwidth counter is what the table traffic says."""
import collections
import json
import os
import sqlite3
import sys
import tempfile

from browser import Page
from perfetto_wasm import TraceProcessor, engine_folder
from scene import STEPS, check, done, sitrain, train

def of_database(run):
    db = sqlite3.connect(os.path.join(run, "run.db"))
    spans = collections.Counter()
    for phase, block, device, length in db.execute(
            f"SELECT phase, block, device, end_ns / 1000 - start_ns / 1000 FROM spans WHERE step < {STEPS} AND start_ns > 0"):
        spans[phase, block, device] += 1
    traffic = dict(((link, direction), n) for link, direction, n in db.execute(
        f"SELECT link, direction, sum(bytes) FROM traffic WHERE step < {STEPS} GROUP BY link, direction"))
    seconds, = db.execute(f"SELECT sum(end_ns - start_ns) / 1e9 FROM spans WHERE step < {STEPS} AND start_ns > 0").fetchone()
    return spans, traffic, seconds


def in_perfetto(trace, spans, traffic, seconds):
    tp = TraceProcessor(trace)
    try:
        bad = tp.query("SELECT name, value FROM stats WHERE value > 0 AND severity IN ('error', 'data_loss')")
        check(not bad, "Perfetto loads it without an error", *(f"{r.name} {r.value}" for r in bad))
        slices = tp.query("SELECT s.name, s.dur, p.name AS process FROM slice s JOIN thread_track k ON s.track_id = k.id"
                          " JOIN thread USING (utid) JOIN process p USING (upid)")
        seen = collections.Counter()
        for s in slices:
            words = s.name.split()
            device = int(s.process.split()[1]) if s.process.startswith("device") else -1
            seen[words[0], -1 if words[0] == "step" or len(words) == 1 else int(words[1]), device] += 1
        check(seen == spans, "its slices are the spans of run.db, by phase, block and device", seen - spans, spans - seen)
        total = sum(s.dur for s in slices) / 1e9
        check(abs(total - seconds) < 1e-6 * len(slices) + 1e-9, "they last as long", f"{total} {seconds}")
        cut = tp.query("SELECT a.name AS inner, b.name AS outer FROM slice a JOIN slice b ON a.track_id = b.track_id AND a.ts > b.ts"
                       " AND a.ts < b.ts + b.dur AND a.ts + a.dur > b.ts + b.dur")
        check(not cut, "no slice of a thread overlaps another in part", *(f"{r.inner} {r.outer}" for r in cut))
        # whichever slice began first, Perfetto calls it the outgoing one
        ends = "SELECT s.id, s.name, s.ts, s.ts + s.dur AS until, p.name AS process FROM slice s JOIN thread_track k ON s.track_id = k.id" \
               " JOIN thread USING (utid) JOIN process p USING (upid)"
        flows = [sorted(((o.process == "host", o.name, o.ts, o.until), (o.to_process == "host", o.to_name, o.to_ts, o.to_until)))
                 for o in tp.query(f"WITH e AS ({ends}) SELECT a.process, a.name, a.ts, a.until, b.process AS to_process, b.name AS to_name,"
                                   " b.ts AS to_ts, b.until AS to_until FROM flow JOIN e a ON slice_out = a.id JOIN e b ON slice_in = b.id")]
        wrong = [(request, wait) for request, wait in flows if not wait[0] or not wait[2] <= request[3] <= wait[3]]
        check(flows and not wrong, f"{len(flows)} flows connect a request to a wait of the host during which it ended", *wrong)
        area = collections.Counter()
        for r in tp.query("SELECT k.name, c.value * (lead(c.ts, 1, c.ts) OVER (PARTITION BY track_id ORDER BY c.ts) - c.ts) / 1e3 AS bytes"
                          " FROM counter c JOIN counter_track k ON c.track_id = k.id"):
            words = r.name.replace(",", "").split()
            if words[1] == "link":
                area[words[0], words[2]] += r.bytes
        check(area and all(abs(area[k] - n) < 1e-6 * n for k, n in traffic.items()) and set(area) == set(traffic),
              "the area under a link's bandwidth is its traffic", area, traffic)
    finally:
        tp.close()


def in_chrome(trace, spans):
    with Page(engine_folder(), "/assets/catapult_trace_viewer.html") as page, open(trace, encoding="utf-8") as f:
        page.js("""(() => { window.model = new tr.Model(); new tr.importer.Import(window.model).importTraces([%s]); })()"""
                % json.dumps(f.read()))
        got = page.js("""(() => { let slices = 0; for (const p of Object.values(model.processes)) for (const t of Object.values(p.threads))
                    slices += t.sliceGroup.slices.length; return { slices, flows: model.flowEvents.length, warnings: model.importWarnings.map(w => w.message) }; })()""")
    check(got["slices"] == sum(spans.values()) and got["flows"] and not got["warnings"],
          f"Chrome's trace viewer has all {got['slices']} slices, {got['flows']} flows and no warning", got)


with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
    run, trace = train(folder), os.path.join(folder, "trace.json")
    sitrain("report", run, "--trace", trace, "--trace-steps", f"1-{STEPS}")
    spans, traffic, seconds = of_database(run)
    in_perfetto(trace, spans, traffic, seconds)
    in_chrome(trace, spans)
sys.exit(done())
