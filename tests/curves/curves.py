#!/usr/bin/env python3
"""curves.py: does bf16 learn as fp32 does? `make curves` runs it.

The same model (10 M parameters), the same seed, the same order of the same text (the King James Bible, from Debian's bible-kjv), 300 steps in
mode mem, once with --dtype fp32 and once with bf16. Losses are read from the runs' own databases. Written: bf16_vs_fp32.csv (step, fp32,
bf16) and bf16_vs_fp32.svg in the folder given (docs/lab/curves). Fails unless bf16's loss, as a running mean over 20 steps, stays within 0.5%
of fp32's at every step, and as a mean of the last 50 too. Standard library only. Environment: SITRAIN the program, STEPS for a trial.
"""
import csv
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
STEPS = int(os.environ.get("STEPS") or 300)
DTYPES = ("fp32", "bf16")
WINDOW, LAST, LIMIT = 20, 50, 0.005
ARGUMENTS = (f"--n-layer 6 --n-head 5 --n-embd 320 --seq 128 --batch 8 --lr 1e-3 --warmup 5% --min-lr 1e-4 --seed 1 --mode mem "
             f"--steps {STEPS}").split()


def sitrain(*arguments):
    print("siTrain", *arguments, flush=True)
    subprocess.run([BIN, *arguments], check=True, stdin=subprocess.DEVNULL)


def write_text(path):
    """The verses without their numbers, one a line, as `make demo` has them."""
    text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True, text=True).stdout
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(re.sub(r"^[^ ]* ", "", line) for line in text.splitlines(keepends=True))


def train(tmp):
    """{dtype: losses}"""
    text, tok, tokens = (os.path.join(tmp, name) for name in ("bible.txt", "tokenizer", "bible.bin"))
    write_text(text)
    sitrain("prepare", text, "--train-tokenizer", "--vocab", "8192", "--out", tok)
    sitrain("prepare", text, "--tokenizer", tok, "--out", tokens)
    losses = {}
    for dtype in DTYPES:
        run = os.path.join(tmp, dtype)
        sitrain("pretrain", "--run", run, "--data", tokens, "--tokenizer", tok, "--dtype", dtype, "--log-every", "50", *ARGUMENTS)
        db = sqlite3.connect(os.path.join(run, "run.db"))
        losses[dtype] = [loss for (loss,) in db.execute("SELECT loss FROM steps ORDER BY step")]
        db.close()
        assert len(losses[dtype]) == STEPS, f"{run}: {len(losses[dtype])} steps"
    return losses


def running_mean(values, window):
    """From the window-th value on: the mean of it and those before it in the window."""
    return [sum(values[i - window:i]) / window for i in range(window, len(values) + 1)]


# ---- the picture ----

WIDTH, HEIGHT, LEFT, RIGHT, TOP, GAP, LOWER, BOTTOM = 760, 520, 62, 18, 40, 44, 110, 44
COLOR = {"fp32": "#1b6ca8", "bf16": "#d1495b"}


class Panel:
    """A rectangle of the page with a scale on each axis."""

    def __init__(self, top, height, x, y):
        self.top, self.height, self.x, self.y = top, height, x, y

    def at(self, x, y):
        return (LEFT + (x - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT),
                self.top + (self.y[1] - y) / (self.y[1] - self.y[0]) * self.height)

    def grid(self, ys, form, xs, label):
        out = []
        for y in ys:
            px, py = self.at(self.x[0], y)
            out.append(f'<path d="M{px:.1f} {py:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                       f'<text x="{px - 6:.1f}" y="{py + 4:.1f}" text-anchor="end">{form.format(y)}</text>')
        for x in xs:
            px, py = self.at(x, self.y[0])
            out.append(f'<text x="{px:.1f}" y="{py + 16:.1f}" text-anchor="middle">{x}</text>')
        out.append(f'<text x="{LEFT}" y="{self.top - 8}">{label}</text>')
        return out

    def line(self, first, values, color, width, opacity=1.0):
        points = " ".join("%.1f,%.1f" % self.at(first + i, v) for i, v in enumerate(values))
        return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{width}" stroke-opacity="{opacity}"/>'


def svg(losses, means, ratio):
    top = max(max(v) for v in losses.values())
    low = min(min(v) for v in losses.values())
    ticks = range(0, STEPS + 1, max(1, STEPS // 6))
    upper = Panel(TOP, HEIGHT - TOP - GAP - LOWER - BOTTOM, (0, STEPS), (int(low), int(top) + 1))
    bound = max(LIMIT, max(map(abs, ratio))) * 100
    lower = Panel(HEIGHT - BOTTOM - LOWER, LOWER, (0, STEPS), (-1.1 * bound, 1.1 * bound))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#333">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    out += upper.grid(range(int(low), int(top) + 2), "{}", ticks, f"training loss: each step (thin), mean of {WINDOW} steps (thick)")
    for dtype in DTYPES:
        out.append(upper.line(1, losses[dtype], COLOR[dtype], 0.8, 0.35))
    for dtype, width in zip(DTYPES, (3, 1.4)):
        out.append(upper.line(WINDOW, means[dtype], COLOR[dtype], width))
    for i, dtype in enumerate(DTYPES):
        out.append(f'<text x="{WIDTH - RIGHT - 60}" y="{TOP + 20 + 18 * i}" fill="{COLOR[dtype]}" font-weight="bold">{dtype}</text>')
    limit = LIMIT * 100
    out += lower.grid((-limit, 0, limit), "{:+.1f}%", ticks, f"bf16's mean of {WINDOW} steps against fp32's, and the limit")
    out.append(lower.line(WINDOW, [100 * r for r in ratio], COLOR["bf16"], 1.4))
    for y in (-limit, limit):
        px, py = lower.at(0, y)
        out.append(f'<path d="M{px:.1f} {py:.1f}H{WIDTH - RIGHT}" stroke="#888" stroke-dasharray="5 4"/>')
    out.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">step</text></svg>\n')
    return "\n".join(out)


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8", newline="") as f:
        f.write(text)
    os.replace(path + ".new", path)


def main():
    if len(sys.argv) != 2:
        print("usage: curves.py FOLDER", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="sitrain-curves-", dir="/var/tmp") as tmp:
        losses = train(tmp)
    means = {d: running_mean(v, WINDOW) for d, v in losses.items()}
    ratio = [b / a - 1 for a, b in zip(means["fp32"], means["bf16"])]
    end = {d: sum(v[-LAST:]) / len(v[-LAST:]) for d, v in losses.items()}
    name = os.path.join(sys.argv[1], "bf16_vs_fp32")
    with open(name + ".csv.new", "w", encoding="utf-8", newline="") as f:
        rows = csv.writer(f, lineterminator="\n")
        rows.writerow(["step", *DTYPES])
        rows.writerows([i + 1, f"{a:.6f}", f"{b:.6f}"] for i, (a, b) in enumerate(zip(losses["fp32"], losses["bf16"])))
    os.replace(name + ".csv.new", name + ".csv")
    write(name + ".svg", svg(losses, means, ratio))
    worst = max(range(len(ratio)), key=lambda i: abs(ratio[i]))
    at_end = end["bf16"] / end["fp32"] - 1
    print(f"mean of the last {LAST} steps: fp32 {end['fp32']:.4f}, bf16 {end['bf16']:.4f}: {100 * at_end:+.3f}%")
    print(f"mean of {WINDOW} steps, largest difference: {100 * ratio[worst]:+.3f}% at step {worst + WINDOW} (limit {100 * LIMIT}%)")
    if max(abs(at_end), abs(ratio[worst])) > LIMIT:
        print("bf16 strays from fp32", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
