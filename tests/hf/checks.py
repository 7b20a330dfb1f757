"""checks.py: what the checks against Hugging Face's libraries share: TAP, and the program's words."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from tap import done, result, skip  # noqa: E402, F401

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")


def sitrain(*arguments):
    """The program's stdout as bytes; its words and an AssertionError if it fails."""
    ran = subprocess.run([BIN, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, f"siTrain {' '.join(map(str, arguments))}: exit {ran.returncode}\n{ran.stderr.decode()}"
    return ran.stdout


def python_of(page, heading):
    """The lines of Python below a heading of docs/page."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as f:
        section = f.read().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.search(r"^```python\n(.*?)^```", section, re.M | re.S)[1]


def in_python(lines, folder):
    """What these lines print there."""
    ran = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout
