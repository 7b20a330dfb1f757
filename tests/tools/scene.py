"""scene.py: what the checks of other people's tools share: TAP, and a small run that was stopped and goes on."""
import os
import subprocess

SITRAIN = os.environ["SITRAIN"]
STEPS = 8
failed = 0


def check(ok, name, *why):
    """A line of TAP, and where it is not so the reasons."""
    global failed
    failed |= not ok
    print(f"{'ok' if ok else 'not ok'} - {name}", flush=True)
    for line in () if ok else why:
        print(f"# {line}")


def code():
    return int(failed)


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
