#!/usr/bin/env python3
"""check_tensorboard.py: --tensorboard, read by TensorBoard: what it shows is what run.db has, and steps that a kill took back are shown
once. TAP."""
import glob
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from scene import SITRAIN, STEPS, check, done, sitrain, train


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def curves(folder):
    a = EventAccumulator(folder, size_guidance={"scalars": 0})
    a.Reload()
    return {tag: [(e.step, e.value) for e in a.Scalars(tag)] for tag in a.Tags()["scalars"]}


def of_database(run, query):
    return [(step + 1, float32(v)) for step, v in sqlite3.connect(os.path.join(run, "run.db")).execute(query)]


def whole_run(folder):
    run = train(folder, "--tensorboard", "auto")
    files = sorted(glob.glob(os.path.join(run, "tensorboard", "*")))
    events = [list(EventFileLoader(f).Load()) for f in files]
    check([e[0].file_version for e in events] == ["brain.Event:2"] * 2, f"TensorBoard's loader reads {sum(map(len, events))} events of two files")
    seen = curves(os.path.join(run, "tensorboard"))
    for tag, query in (("train/loss", "SELECT step, loss FROM steps"), ("train/learning_rate", "SELECT step, lr FROM steps"),
                       ("train/gradient_norm", "SELECT step, grad_norm FROM steps"),
                       ("eval/loss", "SELECT step, value FROM evals WHERE name = 'loss'")):
        check(seen[tag] == of_database(run, query), f"its {tag} is run.db's", seen[tag], of_database(run, query))
    for tag in ("speed/step_seconds", "speed/tokens_per_second", "devices/bytes_per_second", "devices/hidden_share",
                "memory/peak_resident_bytes"):
        steps, values = zip(*seen[tag])
        check(steps == tuple(range(1, STEPS + 1)) and min(values) >= 0, f"there is {tag} of every step", seen[tag])


def killed_run(folder):
    """In mem, an image every 100 steps: a kill takes steps back that TensorBoard has seen."""
    run, board = os.path.join(folder, "killed"), os.path.join(folder, "board")
    with subprocess.Popen([SITRAIN, "pretrain", "--run", run, "--data", os.path.join(folder, "tokens.bin"), "--n-layer", "2", "--n-head", "2",
                           "--n-embd", "32", "--vocab", "128", "--seq", "16", "--batch", "2", "--steps", "100000", "--schedule", "constant",
                           "--mode", "mem", "--threads", "1", "--tensorboard", board], stdout=subprocess.PIPE, text=True) as p:
        while not next(p.stdout).startswith("step 130/"):
            pass
        p.send_signal(signal.SIGKILL)
    before = curves(board)["train/loss"]
    time.sleep(0.1)
    sitrain("pretrain", "--resume", run, "--steps", "140", "--quiet")
    seen = curves(board)["train/loss"]
    check(len(before) >= 130 and seen == of_database(run, "SELECT step, loss FROM steps"),
          f"after a kill at step {len(before)}, which took it back to 100, it shows every step once")


with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
    whole_run(folder)
    killed_run(folder)
sys.exit(done())
