"""checks.py: what the checks against Hugging Face's libraries share: TAP, and the program's words."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import done, result, skip  # noqa: E402, F401

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")


def sitrain(*arguments):
    """The program's stdout as bytes; its words and an AssertionError if it fails."""
    ran = subprocess.run([BIN, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, f"siTrain {' '.join(map(str, arguments))}: exit {ran.returncode}\n{ran.stderr.decode()}"
    return ran.stdout
