"""scene.py: what the checks of other people's tools share: TAP (tests/tap.py), and a small run that
was stopped and goes on."""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tap import done, result  # noqa: E402

SITRAIN = os.environ["SITRAIN"]
STEPS = 8


def check(ok, name, *why):
    """A check with the reasons, a line each, for where it failed."""
    return result(bool(ok), name, "\n".join(map(str, why)))


def sitrain(*arguments):
    return subprocess.run([SITRAIN, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def train(folder, *more):
    """A run of 8 steps on two devices with evaluations, by two processes."""
    data, run = os.path.join(folder, "tokens.bin"), os.path.join(folder, "run")
    with open(data, "wb") as f:
        f.write(b"".join((33 + i * 7919 % 90).to_bytes(2, "little") for i in range(4000)))
    sitrain("pretrain", "--run", run, "--data", data, "--eval-data", data, "--eval-every", "3", "--n-layer", "5", "--n-head", "2", "--n-embd",
            "64", "--vocab", "128", "--seq", "32", "--batch", "2", "--steps", "5", "--schedule", "constant", "--devices", "2", "--csd-mem",
            "1M", "--threads", "1", "--quiet", *more)
    sitrain("pretrain", "--resume", run, "--steps", str(STEPS), "--quiet")
    return run
