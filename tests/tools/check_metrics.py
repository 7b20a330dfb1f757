#!/usr/bin/env python3
"""check_metrics.py: report --openmetrics, read by Prometheus's own parsers: the OpenMetrics one and the older one, and promtool, which
node_exporter's textfile collector is built on; what they read is what run.db has. TAP."""
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as classic

from scene import STEPS, check, done, sitrain, train

with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
    run = train(folder)
    text = sitrain("report", run, "--openmetrics")
    samples = {}
    for family in openmetrics(text):
        for s in family.samples:
            samples[s.name, tuple(sorted((k, v) for k, v in s.labels.items() if k != "run"))] = s.value
    check(len(samples) > 30, f"OpenMetrics' parser reads {len(samples)} samples")
    check(sum(len(f.samples) for f in classic(text)) == len(samples), "the older text format's parser reads as many")
    db = sqlite3.connect(os.path.join(run, "run.db"))
    tokens, loss = db.execute("SELECT sum(tokens), (SELECT loss FROM steps ORDER BY step DESC LIMIT 1) FROM steps").fetchone()
    check(samples["sitrain_steps_total", ()] == STEPS and samples["sitrain_tokens_total", ()] == tokens and
          abs(samples["sitrain_loss", ()] - loss) < 1e-12 * loss, "steps, tokens and loss are run.db's")
    moved = {tuple(sorted(zip(("link", "class", "direction"), row[:3]))): row[3] for row in
             db.execute("SELECT link, class, direction, sum(bytes) FROM traffic GROUP BY link, class, direction")}
    check(moved == {labels: v for (name, labels), v in samples.items() if name == "sitrain_link_bytes_total"}, "bytes of each link are run.db's")
    if shutil.which("promtool"):
        p = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        # 3: it reads them, and misses help texts of counters, whose names it takes with _total
        words = [line for line in p.stderr.splitlines() if not line.endswith("_total no help text")]
        check(p.returncode in (0, 3) and not words, "promtool reads them", p.returncode, *words)
    else:
        print("ok - promtool reads them # SKIP promtool is not here (Debian: prometheus)")
sys.exit(done())
