#!/usr/bin/env python3
"""sweep_forms.py PROGRAM BY RUN...: what report --by BY says of several runs ("": without --by), asked of their run.db in other words: their order,
the last and the best value of each measure, mean and deviation of the runs that differ in the seed alone; in JSON, CSV, text and the page. Prints
what is not so and exits 1."""
import csv
import io
import json
import math
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile

program, by, *runs = sys.argv[1:]
failed = []
SMALLER = {"loss", "mse", "perplexity"}


def expect(ok, what):
    if not ok:
        failed.append(what)


def ask(*args):
    return subprocess.run([program, "report", *runs, *(["--by", by] if by else []), *args], stdout=subprocess.PIPE, check=True).stdout.decode()


def alike(a, b):
    return a == b or None not in (a, b) and abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-3)


class Run:
    def __init__(self, folder):
        db = sqlite3.connect(f"file:{folder}/run.db?mode=ro", uri=True)
        self.name, self.kept = folder, dict(db.execute("SELECT key, value FROM runs"))
        self.evals = {}
        for step, name, value in db.execute("SELECT step, name, value FROM evals ORDER BY step"):
            self.evals.setdefault(name, {})[step] = value
        self.lr, self.seed = self.kept["option.lr"], self.kept["option.seed"]

    def last(self, measure):
        return self.evals[measure][max(self.evals[measure])]

    def best(self, measure):
        found = [v for v in self.evals[measure].values() if v is not None]
        return (min if measure in SMALLER else max)(found) if found else None

    def key(self):
        """Numbers, the better first; then what is no number; then what is not there."""
        measure = by.removeprefix("eval_")
        if by == "lr":
            return 0, float(self.lr)
        if measure not in self.evals:
            return 2, 0
        step = self.kept.get("best.step")
        value = self.evals[measure][int(step)] if step else self.last(measure)
        return (1, 0) if value is None else (0, value if measure in SMALLER else -value)


def shown(value):
    return "nan" if value is None else f"{value:.4f}"


def look_at_results(reports, rows, text, page):
    for i, r in enumerate(reports):
        run = known[r["run"]]
        expect({x["measure"] for x in r["results"]} == set(run.evals), f"{run.name} has measures {r['results']}")
        for k, x in enumerate(r["results"]):
            m = x["measure"]
            for field, want in ("last_value", run.last(m)), ("best_value", run.best(m)):
                expect(alike(x[field], want), f"JSON: {run.name} {m} {field} {x[field]}, not {want}")
                line = rows.get((run.name, "results", str(k), field), "")
                expect(line == "nan" if want is None else alike(float(line), want), f"CSV: {run.name} {m} {field} {line}, not {want}")
            expect(x["best_step"] == next((s for s, v in run.evals[m].items() if v is not None and v == run.best(m)), None), f"step of {x}")
            cells = [shown(run.last(m)), shown(run.best(m)), "-" if run.best(m) is None else str(x["best_step"] + 1)]
            lr = f"{float(run.lr):g}"
            expect(re.search(rf"^  {i + 1}  {run.name} +{lr} +{run.seed} +{' +'.join(cells)}$", text, re.M), f"text: no {run.name} {m} {cells}")
            expect("".join(f'<td class="n">{"–" if c == "-" else c}</td>' for c in cells) in page, f"the page has no {cells} of {run.name}")


def look_at_seeds(reports, rows, text, page):
    groups = {}
    for i, r in enumerate(reports):
        groups.setdefault(known[r["run"]].lr, []).append((i, known[r["run"]]))
    groups = [g for g in groups.values() if len(g) > 1]
    expect([r["run"] for r in reports if "seeds" in r] == [g[0][1].name for g in groups], "the groups are others")
    for g in groups:
        said = reports[g[0][0]]["seeds"]
        expect({r["run"] for r in reports if r["comparison"].get("group") == said[0]["group"] if said} == {run.name for _, run in g} or not said,
               f"group of {g[0][1].name}")
        for k, row in enumerate(said):
            cells = []
            for which in "last", "best":
                all_of = [getattr(run, which)(row["measure"]) for _, run in g if row["measure"] in run.evals]
                numbers = [v for v in all_of if v is not None]
                mean = statistics.mean(numbers) if numbers else None
                deviation = statistics.stdev(numbers) if len(numbers) > 1 else None
                expect(row[f"{which}_n"] == len(numbers) and alike(row[f"{which}_mean"], mean) and alike(row.get(f"{which}_deviation"), deviation),
                       f"JSON: {row}, not {mean} {deviation}")
                line = rows[(g[0][1].name, "seeds", str(k), f"{which}_mean")]
                expect(line == "nan" if mean is None else alike(float(line), mean), f"CSV: {line}, not {mean}")
                cells += [str(len(numbers)), shown(mean), "-" if deviation is None else f"{deviation:.4f}"]
            numbers = ", ".join(str(i + 1) for i, _ in g)
            expect(re.search(rf"^  {numbers} .*{' +'.join(map(re.escape, cells))}$", text, re.M), f"text: no {numbers}: {cells}")
            expect("".join(f'<td class="n">{"–" if c == "-" else c}</td>' for c in cells) in page, f"the page has no {cells}")


def look_at_picture(reports, page):
    picture = re.search(r"<h2>Losses.*?</section>", page, re.S)[0]
    points = sum(1 for r in reports for v in known[r["run"]].evals.get("loss", {}).values() if v is not None)
    expect(picture.count("<circle") == points, f"{picture.count('<circle')} points of {points} evaluations")
    for i, r in enumerate(reports):
        label = r["comparison"]["label"]
        expect(label.startswith(f"{i + 1} lr {float(known[r['run']].lr):g}, seed {known[r['run']].seed}"), f"label {label}")
        expect(f"</span>{label}" in picture, f"the legend has no {label}")


known = {folder: Run(folder) for folder in runs}
reports, text = json.loads(ask("--json")), ask()
rows = {(r["run"], r["section"], r["row"], r["field"]): r["value"] for r in csv.DictReader(io.StringIO(ask("--csv")))}
with tempfile.NamedTemporaryFile(suffix=".html") as f:
    ask("--html", f.name)
    page = open(f.name, encoding="utf-8").read()
wanted = sorted(known.values(), key=Run.key) if by else list(known.values())
for name, order in (("JSON", [r["run"] for r in reports]), ("CSV", list(dict.fromkeys(k[0] for k in rows))),
                    ("text", re.findall(r"^\d+ (\S+), mode", text, re.M)), ("page", re.findall(r"<tr><td>\d+  (\S+)</td><td>", page))):
    expect(order == [r.name for r in wanted], f"{name}: the order is {order}, not {[r.name for r in wanted]}")
expect(not re.search(r"-nan|\binf\b", text + page), "there is -nan, or inf")
look_at_results(reports, rows, text, page)
look_at_seeds(reports, rows, text, page)
look_at_picture(reports, page)
print("\n".join(failed))
sys.exit(1 if failed else 0)
