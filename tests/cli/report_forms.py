#!/usr/bin/env python3
"""report_forms.py [--hostile] PROGRAM RUN [RUN...]: the forms of a report agree with each other and with run.db, asked here in other words; a page is
well-formed, whole in itself and without script. Prints what is not so and exits 1. Of several runs the page is looked at, and in which settings they differ. --hostile: of
a run whose texts are written by a stranger that all can be read, and nothing speaks to a terminal or a browser."""
import csv
import html
import html.parser
import io
import json
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

hostile = sys.argv[1] == "--hostile"
program, *runs = sys.argv[1 + hostile:]
VOID = {"meta", "br", "hr", "img", "link", "input"}
failed = []


def ask(*args):
    return subprocess.run([program, "report", *runs, *args], stdout=subprocess.PIPE, check=True).stdout.decode()


def expect(ok, what):
    if not ok:
        failed.append(what)


def same(a, b, what):
    expect(a == b or isinstance(a, (int, float)) and isinstance(b, (int, float)) and abs(a - b) <= 1e-9 * max(abs(a), abs(b)), f"{what}: {a}, {b}")


class Page(html.parser.HTMLParser):
    """Tags that open and close in order; the text of each cell that holds a figure."""

    def __init__(self):
        super().__init__()
        self.open, self.figures, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        expect(not [a for a, _ in attrs if a.startswith("on") or a in ("src", "href")], f"<{tag}> of the page has {attrs}")
        if tag not in VOID:
            self.open.append("figure" if dict(attrs).get("class") == "n" else tag)

    def handle_endtag(self, tag):
        expect(self.open and self.open[-1] in (tag, "figure"), f"</{tag}> within {self.open[-3:]}")
        if self.open:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "figure":
            self.figures.append(data)


def look_at_page():
    with tempfile.NamedTemporaryFile(suffix=".html") as f:
        ask("--html", f.name)
        text = open(f.name, encoding="utf-8").read()
    page = Page()
    page.feed(text)
    page.close()
    expect(not page.open, f"the page leaves {page.open} open")
    expect(not page.tags & {"script", "iframe", "object", "link", "img"}, f"the page has {page.tags}")
    expect(not re.search(r"https?:|url\(|@import", text), "the page names places outside of it")
    expect(not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), "the page has control characters")
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    expect(pictures, "the page has no picture")
    for p in pictures:
        xml.fromstring(p)
        expect(not re.search(r"\b(?:nan|inf)\b", p), "a picture has coordinates that are no figures")
    return text, page.figures


def look_at_forms(page, figures):
    report = json.loads(ask("--json"))
    rows = list(csv.DictReader(io.StringIO(ask("--csv"))))
    expect(len(rows) > 50, "the lines of CSV are few")
    for r in rows:
        section = report if r["section"] == "run" else report[r["section"]]
        value = (section[int(r["row"])] if isinstance(section, list) else section)[r["field"]]
        text = "" if value is None else value
        same(float(r["value"]) if isinstance(value, (int, float)) else r["value"], text, f"CSV {r['section']} {r['field']}, JSON")
    for name in [line.split()[0] for line in ask("--sql", "list").splitlines()]:
        answer = json.loads(ask("--sql", name, "--json"))
        table = list(csv.reader(io.StringIO(ask("--sql", name, "--csv"))))
        same(max(len(table) - 1, 0), len(answer), f"rows of --sql {name} --csv and --json")
        if name not in ("settings", "traffic", "written"):  # the report adds to these
            expect(answer == (report.get(name) if isinstance(report.get(name), list) else [report[name]] if name in report else []),
                   f"--sql {name} is not what the report has")
    db = sqlite3.connect(f"file:{runs[0]}/run.db?mode=ro", uri=True)
    steps = db.execute("SELECT step, loss, seconds, skipped FROM steps ORDER BY step").fetchall()
    evals = {s for s, in db.execute("SELECT step FROM evals")}
    begun = {s for s, in db.execute("SELECT first_step FROM processes")}
    kept = dict(db.execute("SELECT key, value FROM runs WHERE key LIKE 'config.%'"))
    for field, key in ("layers", "config.n_layer"), ("width", "config.n_embd"):
        same(report["model"][field], int(kept[key]), f"{field} of the model")
    steady = [s[2] for before, s in zip(steps, steps[1:]) if before[0] + 1 == s[0] and s[0] not in begun and before[0] not in evals
              and not s[3] and not before[3]]
    same(report["steps"]["steps"], len(steps), "steps")
    same(report["steps"]["last_loss"], steps[-1][1], "the last loss")
    expect(f"{steps[-1][1]:.4f}" in page, "the page has not the last loss")
    if len(steady) > 1:
        low, median, high = statistics.quantiles(steady, n=4, method="inclusive")
        for field, value in (("lower_quartile", low), ("median", median), ("upper_quartile", high), ("mean", statistics.mean(steady))):
            same(report["times"][field], value, f"{field} of the steady steps")
    moved = {}
    for step, link, cls, direction, n in db.execute("SELECT step, link, class, direction, sum(bytes) FROM traffic WHERE phase NOT IN ('redo', 'setup', 'eval')"
                                                    " GROUP BY step, link, class, direction"):
        if not next(s[3] for s in steps if s[0] == step):
            moved.setdefault((link, cls, direction), {})[step] = n
    for row in report["traffic"]:
        per = moved.pop((row["link"], row["class"], row["direction"]), {0: 0})
        same(row["bytes_per_step"], sum(per.values()) / row["steps"] if row.get("steps") else 0, f"bytes a step of {row}")
        for field in ("bytes_per_step", "computed", "padding_bytes_per_step"):
            expect(field not in row or f"{row[field]:.0f}" in figures, f"the page has not {field} {row.get(field)}")
    expect(not moved, f"the report has not {moved}")
    for row in report["memory"]:
        expect(row["part"] in page or not row["bytes"], f"the page has not the plan's {row['part']}")
    expect(sum(r["bytes"] for r in report["memory"][:-3]) == report["memory"][-3]["bytes"], "the plan does not add up")


def look_at_words(page):
    """What the text says in its tables, the page says in the same words. (Bars, curves and lists have their own forms.)"""
    words = html.unescape(re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page)))
    seen = 0
    for part in ask().split("\n\n")[1:]:
        heading, *rows = part.split("\n")
        expect(heading in words, f"the page has not the section {heading}")
        for cell in (c for row in rows if "|" not in row for c in re.split(r" {2,}", row.strip())):
            if re.search("[a-z0-9] [a-zA-Z]", cell):
                seen += 1
                expect(re.sub(r"^\S (?=[a-z])", "", cell) in words, f"the page does not say: {cell}")  # a legend has letters
    expect(seen > 20, "the text says little")


def sections(report):
    """The keys of a report: a line for each section, with the fields of its rows."""
    for name, v in report.items():
        rows = v if isinstance(v, list) else [v] if isinstance(v, dict) and name != "settings" else []
        yield " ".join([name, *dict.fromkeys(f for row in rows for f in row)])


def look_at_keys():
    """The sections that a report has, and their fields, are those that users' scripts know."""
    with open("tests/fixtures/report.keys", encoding="utf-8") as f:
        known = {line.split()[0]: line.split()[1:] for line in f}
    for name, *fields in map(str.split, sections(json.loads(ask("--json")))):
        expect(name in known, f"JSON has a section {name}")
        expect(not fields or fields == [f for f in known.get(name, []) if f in fields], f"JSON: {name} has {fields}")
        if name not in ("traffic", "written"):  # some rows have more than others
            expect(not fields or fields == known.get(name), f"JSON: {name} has {fields}, not {known.get(name)}")
        known.pop(name, None)
    expect(not set(known) - {"compress", "endurance", "times"}, f"JSON has not {list(known)}")


def look_at_differences(page):
    """Every option in which a run is unlike the first is said by every form, and no other."""
    said = {"device", "act-device", "tensorboard", "log-every", "endurance", "quiet", "force-device"}
    options, evals = [], []
    for run in runs:
        db = sqlite3.connect(f"file:{run}/run.db?mode=ro", uri=True)
        options.append({k[7:]: v for k, v in db.execute("SELECT key, value FROM runs WHERE key LIKE 'option.%'") if k[7:] not in said})
        evals.append(dict(db.execute("SELECT name, value FROM evals WHERE step = (SELECT max(step) FROM evals)")))
    wanted = [{k: v or "none" for k, v in o.items() if v != options[0][k]} for o in options]
    reports = json.loads(ask("--json"))
    lines = {}
    for r in csv.DictReader(io.StringIO(ask("--csv"))):
        if r["section"] == "differs":
            lines.setdefault(r["run"], {}).setdefault(r["row"], {})[r["field"]] = r["value"]
    whole = ask()
    parts = re.split(r"^\d+ \S+, mode ", re.split("\n(?:Evaluations|Breakdown)", whole)[0], flags=re.M)[1:]
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.search("Settings that differ.*?</section>", page, re.S)[0].split("\n")]
    rows = {row[0]: row[1:] for row in rows if row}
    for i, (run, want) in enumerate(zip(runs, wanted)):
        def options_of(found):
            return {k: v for k, v in found.items() if k in options[0]}
        same(options_of({d["setting"]: d["value"] for d in reports[i]["differs"]}), want, f"JSON: {run} differs")
        same(options_of({d["setting"]: d["value"] for d in lines.get(run, {}).values()}), want, f"CSV: {run} differs")
        text = re.sub(r"\s+", " ", parts[i])
        listed = re.search(r"unlike the first: (.*?\))(?! ?,)", text)
        found = dict(re.findall(r"([\w-]+) ([^ ,]+) \([^)]*\)", listed[1])) if listed else {}
        same(options_of(found), want, f"text: {run} differs")
        for name, v in evals[i].items():
            expect(re.search(rf"^  {i + 1}  .* {v:.4f} ", whole, re.M) and f">{v:.4f}<" in page, f"{run}: no {name} {v:.4f} beside the others")
    for name, cells in rows.items():
        if name in options[0]:
            same(cells, [o[name] or "none" for o in options], f"the page's row of {name}")
    same({name for name in rows if name in options[0]}, {k for w in wanted for k in w}, "the page's settings")


page, figures = look_at_page()
if hostile:
    json.loads(ask("--json"))
    of_one = [["--openmetrics"], ["--sql", "notices"], ["--sql", "notices", "--json"], ["--sql", "evals", "--csv"]]
    for form in [], ["--csv"], ["--json"], *(of_one if len(runs) == 1 else [["--by", "loss"]]):
        expect(not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ask(*form)), f"control characters in {form}")
    if len(runs) == 1:
        with tempfile.TemporaryDirectory() as folder:
            ask("--trace", f"{folder}/trace.json")
            json.load(open(f"{folder}/trace.json", encoding="utf-8"))
elif len(runs) == 1:
    look_at_forms(page, figures)
    look_at_words(page)
    look_at_keys()
else:
    look_at_differences(page)
print("\n".join(failed))
sys.exit(1 if failed else 0)
