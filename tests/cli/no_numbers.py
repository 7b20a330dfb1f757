#!/usr/bin/env python3
"""no_numbers.py kill HFDIR TEXT: the embedding of the token TEXT becomes values that are numbers, of which none can be computed with.
no_numbers.py compare PROGRAM RUN LOG STEPS: of a fine-tuning of values, whose STEPS (from 1, with commas) have a loss that is no number, and
which printed LOG, every output that holds a number says what run.db does. Prints what is not so and exits 1."""
import csv
import html
import io
import json
import math
import os
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile


def kill(folder, text):
    with open(f"{folder}/vocab.json", encoding="utf-8") as f:
        token = json.load(f)[text]
    with open(f"{folder}/model.safetensors", "rb") as f:
        data = bytearray(f.read())
    n, = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)  # our checksums
    tensor = next(head[name] for name in head if name.endswith("wte.weight"))
    row = tensor["shape"][1] * 4
    at = 8 + n + tensor["data_offsets"][0] + token * row
    data[at:at + row] = struct.pack("<f", 3e38) * (row // 4)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data[8 + n:])


failed = []


def expect(ok, what):
    if not ok:
        failed.append(what)


def same(found, number, digits, what):
    """found: a text or a number of an output (NULL, of JSON, is None). number: run.db's; None is no number."""
    if found is None or number is None:
        expect((found is None or str(found).lower() == "nan") and number is None, f"{what}: {found}, in run.db {number}")
    else:
        expect(abs(float(found) - number) <= 10.0 ** -digits * max(abs(number), 1), f"{what}: {found}, in run.db {number}")


def compare(program, run, log, dead):
    dead = {int(s) for s in dead.split(",")}
    db = sqlite3.connect(f"file:{run}/run.db?mode=ro", uri=True)
    steps = dict(db.execute("SELECT step + 1, loss FROM steps"))
    norms = dict(db.execute("SELECT step + 1, grad_norm FROM steps"))
    evals = {(step, name): v for step, name, v in db.execute("SELECT step + 1, name, value FROM evals")}
    expect({s for s in steps if steps[s] is None} == dead, f"steps that are none: {steps}")
    first, last = min(steps), max(steps)
    numbers = [steps[s] for s in sorted(steps) if steps[s] is not None]
    mean = sum(numbers) / len(numbers)
    finals = {name: v for (step, name), v in evals.items() if step == last}
    expect(set(finals) == {"loss", "mse"} or len(finals) > 1, f"evaluations {finals}")

    def ask(*args):
        return subprocess.run([program, *args], stdout=subprocess.PIPE, check=True).stdout.decode()

    def read(name):
        with open(f"{run}/{name}", encoding="utf-8") as f:
            return json.load(f, parse_constant=lambda c: expect(False, f"{name} has {c}, which is no JSON"))

    # what was printed
    lines = open(log, encoding="utf-8").read().splitlines()
    found = {int(m[1]): (m[2], m[3]) for m in (re.match(r"step (\d+)/\d+  loss (\S+)  .*norm (\S+)", line) for line in lines) if m}
    expect(set(found) == set(steps), f"lines of steps: {found}")
    for s, (loss, norm) in found.items():
        same(loss, steps[s], 4, f"line of step {s}")
        same(norm, norms[s], 3, f"norm of step {s}")
    for line in lines:
        m = re.match(r"eval after step (\d+)  (.*?)  \(", line)
        words = m[2].split() if m else []
        for name, v in zip(words[::2], words[1::2]):
            same(v, evals[int(m[1]), name], 4, line)
    heads = next(line for line in lines if line.split()[:1] == ["rows"]).split()
    cells = next(line for line in lines if line.startswith("dev ")).split()[1:]
    for name, v in zip(heads[1:], cells[1:]):
        same(v, finals[name], 4, f"the table's {name}")

    # run_glue.py's files
    for name in "eval_results.json", "all_results.json":
        for metric, v in finals.items():
            same(read(name)[f"eval_{metric}"], v, 12, f"{name}: {metric}")
    for name in "train_results.json", "all_results.json":
        same(read(name)["train_loss"], mean, 12, f"{name}: train_loss")
        expect(read(name).get("train_finite_steps") == len(numbers), f"{name}: of how many steps")
    history = read("trainer_state.json")["log_history"]
    for row in history[:-1]:
        if "loss" in row:
            same(row["loss"], steps[row["step"]], 12, f"history of step {row['step']}")
            expect(("finite_steps" in row) == (row["step"] in dead), f"history of step {row['step']}: {row}")
        for name, v in row.items():
            if name.startswith("eval_"):
                same(v, evals[row["step"], name[5:]], 12, f"history of step {row['step']}: {name}")
    same(history[-1]["train_loss"], mean, 12, "the history's last row")

    # reports
    text = ask("report", run)
    with tempfile.TemporaryDirectory() as folder:
        ask("report", run, "--html", f"{folder}/page.html")
        page = html.unescape(open(f"{folder}/page.html", encoding="utf-8").read())
        ask("report", run, "--trace", f"{folder}/trace.json", "--trace-steps", f"{first}-{last}")
        trace = json.load(open(f"{folder}/trace.json", encoding="utf-8"))["traceEvents"]
    words = re.sub("<[^>]*>", " ", page)
    for form, said in ("text", text), ("page", words):
        said = re.sub(r"\s+", " ", said)
        m = re.search(r"Loss:? (\S+?),? at step (\d+); (\S+) at step (\d+); a number in (\d+) of (\d+) steps:"
                      r" (\S+) at step (\d+), (\S+) at step (\d+)", said)
        expect(m, f"the {form}'s losses")
        if m:
            for at, step in (1, last), (3, first), (7, min(set(steps) - dead)), (9, max(set(steps) - dead)):
                same(m[at], steps[step], 4, f"the {form}'s loss")
                expect(int(m[at + 1]) == step, f"the {form}'s step {m[at + 1]}, not {step}")
            expect((int(m[5]), int(m[6])) == (len(numbers), len(steps)), f"the {form}'s steps that are numbers")
        for name in finals:
            begin = min(step for step, its in evals if its == name)
            m = re.search(rf" {name} (\S+) {begin} (\S+) {last} ", said)
            expect(m, f"the {form}'s {name}")
            if m:
                same(m[1], evals[begin, name], 4, f"the {form}'s {name} after step {begin}")
                same(m[2], evals[last, name], 4, f"the {form}'s {name} after step {last}")
        for s in dead:
            expect(re.search(rf" {s} nan \S+ ", said), f"the {form}'s skipped step {s}")
    report = json.loads(ask("report", run, "--json"))
    same(report["steps"]["first_loss"], steps[first], 12, "JSON: first loss")
    same(report["steps"]["last_loss"], steps[last], 12, "JSON: last loss")
    expect([(r["step"] + 1, r["measure"]) for r in report["evals"]] == sorted(evals), "JSON: evaluations")
    for r in report["evals"]:
        same(r["value"], evals[r["step"] + 1, r["measure"]], 12, "JSON: an evaluation")
    for r in report["skipped"]:
        same(r["loss"], steps[r["step"] + 1], 12, "JSON: a skipped step")
    for r in report["curve"]:
        for field in "loss", "loss_least", "loss_most":
            same(r[field], steps[r["first"] + 1], 12, f"JSON: the curve's {field}")
    cells = {(r["section"], int(r["row"]), r["field"]): r["value"] for r in csv.DictReader(io.StringIO(ask("report", run, "--csv")))}
    same(cells["steps", 0, "first_loss"], steps[first], 12, "CSV: first loss")
    same(cells["steps", 0, "last_loss"], steps[last], 12, "CSV: last loss")
    for i, r in enumerate(report["evals"]):
        same(cells["evals", i, "value"], r["value"], 12, "CSV: an evaluation")
    for i, r in enumerate(report["skipped"]):
        same(cells["skipped", i, "loss"], r["loss"], 12, "CSV: a skipped step")
    for form, rows in ("--csv", csv.DictReader(io.StringIO(ask("report", run, "--sql", "evals", "--csv")))), \
            ("table", csv.DictReader(re.sub(" +", ",", line.strip()) for line in ask("report", run, "--sql", "evals").splitlines())):
        for r in rows:
            same(r["value"], evals[int(r["step"]) + 1, r["measure"]], 4, f"--sql evals, {form}")
    counted = [e["args"]["value"] for e in trace if e["ph"] == "C" and e["name"] == "loss"]
    for v, number in zip(counted, numbers):
        same(v, number, 6, "the trace's loss")
    expect(len(counted) == len(numbers), f"the trace's losses: {counted}")
    expect({e["name"] for e in trace if e["ph"] == "i"} == {f"step {s}: loss nan" for s in dead}, "the trace's steps that are none")

    # other programs
    metrics = dict(re.findall(r"^(sitrain_loss|sitrain_gradient_norm|sitrain_evaluation)\{[^}]*?(?:name=\"(?:\w+)\")?\} (\S+)$", ask("report", run, "--openmetrics"), re.M))
    same(metrics.get("sitrain_loss"), steps[last], 6, "OpenMetrics: loss")
    same(metrics.get("sitrain_gradient_norm"), norms[last], 6, "OpenMetrics: norm")
    expect("sitrain_loss" in metrics, "OpenMetrics has no loss")
    for name, v in finals.items():
        m = re.search(rf"^sitrain_evaluation\{{[^}}]*name=\"{name}\"\}} (\S+)$", ask("report", run, "--openmetrics"), re.M)
        expect(m, f"OpenMetrics has no {name}")
        if m:
            same(m[1], v, 6, f"OpenMetrics: {name}")
    board = subprocess.run([sys.executable, "tests/cli/tfevents.py", *(f"{run}/tensorboard/{f}" for f in os.listdir(f"{run}/tensorboard"))],
                           stdout=subprocess.PIPE, check=True).stdout.decode()
    values = {(int(w[0]), w[1]): w[2] for w in map(str.split, board.splitlines()) if len(w) == 3 and w[0].isdigit()}
    for s, loss in steps.items():
        same(values[s, "train/loss"], loss, 5, f"TensorBoard: step {s}")
    for (step, name), v in evals.items():
        same(values[step, f"eval/{name}"], v, 5, f"TensorBoard: {name} after step {step}")
    look = ask("watch", run, "--once")
    same(re.search(r"^loss (\S+)", look, re.M)[1], steps[last], 4, "watch: loss")
    m = re.search(rf"evaluation after step {last}(.*)", look)
    words = m[1].split()
    for name, v in zip(words[::2], words[1::2]):
        same(v, finals[name], 4, f"watch: {name}")
    expect(set(words[::2]) == set(finals), f"watch: {words}")
    expect("-nan" not in text + page + look + "".join(lines), "a NaN with a sign")
    expect(not math.isnan(mean), "no step is a number")


if sys.argv[1] == "kill":
    kill(*sys.argv[2:])
else:
    compare(*sys.argv[2:])
print("\n".join(failed))
sys.exit(1 if failed else 0)
