#!/usr/bin/env python3
"""kills.py [--short] [--seed N] [--rounds N] [NAME...]: kill -9 at random moments, in every mode, of every family, in every command.

A run is made, killed, resumed, killed again, until it is done; then it is compared with one that nothing happened to: the exported
parameters, every row of steps and evals, what the last rows of measurement may be, RUN/best, the results' files and the names of all
files. After each kill RUN is whole or absent, and so are RUN/best and RUN/checkpoint-STEP. The other commands (prepare, import, export, eval, generate, check,
report, reshard) are killed and run again: what they write is whole or absent, and the run that they work on stays as it was. Ctrl-C and
SIGTERM stop after the step, one more than a second later at once. The moments are drawn from the seed, which is printed; the machine's speed decides
where in the program they fall. Prints TAP. `make prove-kills`; tests/cli/kill.sh is the short form. Environment: SITRAIN the program.
"""
import argparse
import filecmp
import hashlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from common import BIN, ENV, must, result, run, tap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import tiny_folder  # noqa: E402

kills = {}  # scenario: (kills, of them before the creation was complete)


def run_killed(args, delay, sig=signal.SIGKILL, twice=False):
    """The exit code, negative where a signal ended it; out and err."""
    p = subprocess.Popen([BIN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                         env=ENV)
    try:
        out, err = p.communicate(timeout=delay)
    except subprocess.TimeoutExpired:
        p.send_signal(sig)
        if twice:  # within a second it would be the first once more
            try:
                p.communicate(timeout=1.1)
            except subprocess.TimeoutExpired:
                p.send_signal(sig)
        out, err = p.communicate()
    return p.returncode, out, err


def sha(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def folder(path):
    """Every file below path, by name and hash."""
    return {os.path.relpath(os.path.join(d, f), path): sha(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs}


def rows(db, sql):
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as c:
        return c.execute(sql).fetchall()


# ---- material ----

def make_text(path, lines, seed):
    r = random.Random(seed)
    with open(path, "w") as f:
        for _ in range(lines):
            f.write(" ".join(r.choice(w) for w in (["the", "a", "one", "some", "any", "every"], ["sea", "ship", "whale", "storm", "sailor", "island", "harbour"], ["sees", "finds", "loves", "remembers", "follows"]) * 2)
                    + ".\n")


def make_sst2(path, lines, seed, head="sentence\tlabel", test=False):
    r = random.Random(seed)
    with open(path, "w") as f:
        f.write(head + "\n")
        for i in range(lines):
            good, words = r.randrange(2), " ".join(r.choices(["sea", "ship", "storm", "whale"], k=r.randrange(1, 9)))
            f.write(f"{i}\t{words} loves\n" if test else f"{words} {'loves' if good else 'fears'}\t{good}\n")


def make_material(tmp):
    make_text(f"{tmp}/text.txt", 2500, 1)
    make_text(f"{tmp}/held.txt", 60, 2)
    make_text(f"{tmp}/long.txt", 40000, 6)
    must("prepare", f"{tmp}/text.txt", "--train-tokenizer", "--vocab", "300", "--out", f"{tmp}/tok")
    for name in "text", "held":
        must("prepare", f"{tmp}/{name}.txt", "--tokenizer", f"{tmp}/tok", "--out", f"{tmp}/{name}.bin")
    must("pretrain", "--run", f"{tmp}/lm", "--data", f"{tmp}/text.bin", "--tokenizer", f"{tmp}/tok", "--mode", "su", "--steps", "2", "--quiet",
         "--durability", "none", "--n-layer", "2", "--n-head", "2", "--n-embd", "32", "--seq", "32", "--csd-mem", "192K", "--devices", "2")
    must("export", f"{tmp}/lm", f"{tmp}/hf")
    os.mkdir(f"{tmp}/sst2")
    make_sst2(f"{tmp}/sst2/train.tsv", 160, 3)
    make_sst2(f"{tmp}/sst2/dev.tsv", 20, 4)
    make_sst2(f"{tmp}/sst2/test.tsv", 20, 5, "index\tsentence", True)


def make_families(tmp):
    """tmp/FAMILY: a model of random numbers, its tokenizer with it; tmp/FAMILY-shards: what it exports, in files of 20 KB."""
    for family in "llama", "qwen2", "gemma3_text", "bert", "roberta":
        if family in tiny_folder.DECODERS:
            shutil.copytree(f"{tmp}/tok", f"{tmp}/{family}")
        tiny_folder.tiny(family, f"{tmp}/{family}")
    for family in "llama", "bert":
        must("export", f"{tmp}/{family}", f"{tmp}/{family}-shards", "--max-shard-size", "20K")


# ---- training ----

SHAPE = "--n-layer 2 --n-head 2 --n-embd 32 --seq 24 --batch 2 --grad-accum 2 --lr 1e-3 --warmup 2 --clip 0.5 --seed 5 --threads 1".split()
STATES = ["steps", "evals"]


def least(args):
    """The smallest --host-mem that this command can do with: no room to keep activations."""
    _, _, err = run("plan", *args[1:], "--host-mem", "1M")
    return re.search(r"needs at least (\d+M)", err).group(1)


def scenarios(tmp, steps):
    lm = ["pretrain", "--data", f"{tmp}/text.bin", "--tokenizer", f"{tmp}/tok", *SHAPE, "--steps", str(steps), "--eval-data", f"{tmp}/held.bin",
          "--eval-every", "4", "--csd-mem", "192K"]
    sst2 = ["finetune", "--task", "sst2", "--data", f"{tmp}/sst2", "--init", f"{tmp}/hf", "--batch", "4", "--lr", "1e-3", "--max-seq", "32",
            "--seed", "3", "--epochs", "1", "--eval-every", "6", "--csd-mem", "192K", "--threads", "1"]
    some = "--compress 10% --error-feedback".split()
    heavy = [*lm, "--mode", "su+o", "--devices", "2", "--activations", "offload"]
    heavy[heavy.index("--n-embd") + 1] = "64"
    heavy[heavy.index("--batch") + 1] = "48"
    return {
        **family_scenarios(tmp, steps),
        "mem": lm + "--mode mem --commit-every 3".split(),
        "base": lm + "--mode base --devices 2".split(),
        "su": lm + "--mode su --devices 2".split(),
        "su+o": lm + "--mode su+o --devices 2 --dropout 0.1".split(),
        "base, speculate": lm + "--mode base --devices 2 --speculate".split(),
        "su+o, speculate": lm + ["--mode", "su+o", "--speculate", *some],
        "text": ["pretrain", "--data", f"{tmp}/text.txt", *lm[3:], "--mode", "su+o", "--durability", "none"],
        "mem, best": lm + "--mode mem --commit-every 5 --keep-best --dropout 0.1".split(),
        "su+o, best": lm + "--mode su+o --keep-best --durability none".split(),
        "mem, models": lm + "--mode mem --commit-every 2 --keep-best --export-every 3 --export-limit 2 --snapshot-every 5 --snapshots 2".split(),
        "su+o, models": lm + "--mode su+o --devices 2 --keep-best --export-every 3 --export-limit 2 --snapshot-every 4 --snapshots 2".split(),
        "mem, feedback": lm + ["--mode", "mem", "--commit-every", "3", *some],
        "base, feedback": lm + ["--mode", "base", "--durability", "none", *some],
        "su+o, feedback": lm + ["--mode", "su+o", "--devices", "2", *some],
        "sync disk": lm + "--mode su+o --disk sync --activations recompute --dropout 0.1".split(),
        "su+o, offload": heavy + ["--host-mem", least(heavy)],
        "finetune mem": sst2 + "--mode mem --commit-every 3 --predict".split(),
        "finetune su+o, best": sst2 + "--mode su+o --devices 2 --keep-best --predict --dropout 0.1".split(),
    }


def family_scenarios(tmp, steps):
    """One for each family that differs in what a step does or stores: their modes are others, too."""
    how = "--seq 24 --batch 2 --grad-accum 2 --lr 1e-3 --warmup 2 --clip 0.5 --seed 5 --threads 1 --eval-every 4 --csd-mem 192K".split()
    heads = "--n-layer 1 --n-head 4 --n-kv-head 2 --n-embd 256 --n-inner 64 --vocab 400000".split()  # 4 pieces, and 4 of the head

    def own(family, *mode, text="text.bin", held="held.bin"):
        return ["pretrain", "--init", f"{tmp}/{family}", "--data", f"{tmp}/{text}", "--eval-data", f"{tmp}/{held}", "--steps", str(steps), *how, *mode]

    def rows_of(family, *mode):
        return ["finetune", "--task", "sst2", "--data", f"{tmp}/sst2", "--init", f"{tmp}/{family}", "--batch", "4", "--lr", "1e-3", "--max-seq", "32",
                "--seed", "3", "--epochs", "1", "--eval-every", "6", "--csd-mem", "192K", "--threads", "1", *mode]

    return {
        "llama": own("llama-shards", *"--mode su+o --devices 2 --activations offload --keep-best".split()),
        "llama, pieces": ["pretrain", "--model", "llama-3.1-8b", *heads, "--data", f"{tmp}/text.bin", "--tokenizer", f"{tmp}/tok", *"--seq 16 --batch 2 "
                          "--optimizer sgd --beta1 0 --lr 1e-2 --clip 0.5 --seed 5 --threads 1 --steps 4 --mode su+o --devices 2 --durability none".split()],
        "gemma": own("gemma3_text", *"--mode base --speculate --dtype bf16 --devices 2".split()),
        "qwen2": own("qwen2", *"--mode mem --commit-every 3 --dtype fp32".split()),
        "bert, masked": own("bert-shards", *"--mode su+o --devices 2 --dropout 0.1 --keep-best".split(), text="text.txt", held="held.txt"),
        "roberta, masked": own("roberta", *"--mode su --devices 3 --dropout 0.1".split(), text="text.txt", held="held.txt"),
        "finetune llama": rows_of("llama", *"--mode su+o --speculate --devices 2 --keep-best --predict --durability none".split()),
        "finetune bert": rows_of("bert", *"--mode su+o --devices 2 --keep-best --predict".split()),
    }


def with_steps(args, steps):
    at = args.index("--steps")
    return [*args[:at], "--steps", str(steps), *args[at + 2:]]


def resume_of(args):
    return [args[0], "--resume"]


def exported(tmp, run_dir):
    shutil.rmtree(f"{tmp}/exported", ignore_errors=True)
    code, _, err = run("export", run_dir, f"{tmp}/exported", "--last")
    return sha(f"{tmp}/exported/model.safetensors") if code == 0 else err


def without_times(d, name):
    """A results' file with the numbers that a clock made, and the run's place, left out."""
    with open(f"{d}/{name}", encoding="utf-8", errors="replace") as f:
        return [line.replace(d, "RUN") for line in f if "runtime" not in line and "per_second" not in line]


def picture(tmp, d):
    """What must be the same however often a run was killed."""
    db = f"{d}/run.db"
    out = {
        "parameters": exported(tmp, d),
        "steps": rows(db, "SELECT step, tokens, loss, lr, grad_norm, clipped, skipped FROM steps ORDER BY step"),
        "evals": rows(db, "SELECT step, name, value FROM evals ORDER BY step, name"),
        "best": rows(db, "SELECT key, value FROM runs WHERE key IN ('best.step', 'best.name', 'best.value') ORDER BY key"),
        "best's files": folder(f"{d}/best") if os.path.isdir(f"{d}/best") else None,
        "names": sorted(n for n in os.listdir(d) if not n.startswith("run.db-")),
        "spans and traffic": [rows(db, f"SELECT count(*) FROM steps WHERE step NOT IN (SELECT step FROM {t})") for t in ("spans",)],
    }
    for name in sorted(os.listdir(d)):
        if name.endswith((".json", ".txt")):
            out[name] = without_times(d, name)
        if name.startswith("checkpoint-"):
            out[name] = folder(f"{d}/{name}")
    return out


def whole(tmp, d):
    """A sentence about what a kill left, or None: RUN is a run or nothing yet, RUN/best is whole or not there."""
    for name in os.listdir(d) if os.path.isdir(d) else []:
        if name == "best" or re.fullmatch(r"checkpoint-\d+", name):
            code, out, err = run("check", f"{d}/{name}", "--quiet")
            if code:
                return f"RUN/{name} is not whole: {err}"
    return None


def differences(a, b):
    return "\n".join(f"{k}: {a.get(k)} {b.get(k)}"[:900] for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k))


def begin_or_resume(args, d):
    return [*resume_of(args), d] if os.path.exists(f"{d}/run.db") else [*args, "--run", d]


def timed_run(args, d):
    """The run that nothing happens to: the seconds until it was made, and until it was done."""
    begun = time.monotonic()
    p = subprocess.Popen([BIN, *args, "--run", d], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENV)
    made = None
    while p.poll() is None:
        if made is None and os.path.exists(f"{d}/run.db"):
            made = time.monotonic() - begun
        time.sleep(0.002)
    if p.returncode or made is None:
        raise SystemExit(f"{' '.join(args)}: exit {p.returncode}: {p.stderr.read()}")
    return made, time.monotonic() - begun


def kill_run(tmp, name, args, rounds, r):
    ref, d = f"{tmp}/ref", f"{tmp}/killed"
    made, lasted = timed_run(args, ref)
    want = picture(tmp, ref)
    n = early = in_best = 0
    code = -1
    while code:
        there = os.path.exists(f"{d}/run.db")
        # a quarter while the run is made, or right after a resume's start, where a recovery is under way
        early_one = r.random() < 0.25
        delay = r.uniform(0, made) if early_one and not there else r.uniform(0, 0.05) if early_one else \
            (0 if there else made) + r.uniform(0, (lasted - made) * r.choice([0.3, 0.6, 1.0]))
        delay = delay if n < rounds else None
        code, out, err = run_killed(begin_or_resume(args, d), delay)
        if code not in (0, -signal.SIGKILL):
            return result(False, f"{name}: after {n} kills", f"exit {code}: {err}")
        n += code != 0
        early += code != 0 and not there
        why = whole(tmp, d)
        in_best += os.path.isdir(f"{d}/best")
        if why:
            return result(False, f"{name}: after {n} kills", why)
        if code == 0 and n < rounds and r.random() < 0.9:  # done before the rounds were: another run of it
            result_of(tmp, name, want, d, n, early)
            shutil.rmtree(d)
            code = -1
    kills[name] = (n, early)
    result_of(tmp, name, want, d, n, early)
    shutil.rmtree(ref)
    shutil.rmtree(d)


def result_of(tmp, name, want, d, n, early):
    diff = differences(want, picture(tmp, d))
    code, out, err = run("check", d, "--quiet")
    result(not diff and code == 0, f"{name}: as if never killed ({n} kills, {early} of them of the creation)", diff + err)


# ---- signals ----

def stop_run(tmp, name, args, r):
    for sig in signal.SIGINT, signal.SIGTERM:
        d = f"{tmp}/stopped"
        p = subprocess.Popen([BIN, *with_steps(args, 4000), "--run", d], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)
        steps = r.randrange(3, 12)
        seen = 0
        while seen < steps and p.poll() is None:
            seen += p.stdout.readline().startswith("step")
        p.send_signal(sig)
        out, err = p.stdout.read(), p.stderr.read()
        p.wait()
        seen += sum(line.startswith("step") for line in out.splitlines())
        stood = rows(f"{d}/run.db", "SELECT count(*), max(step) + 1 FROM steps")[0]
        result(p.returncode == 130 and stood == (seen, seen), f"{name}: {sig.name} after a step: all {seen} steps that were said are committed",
               f"exit {p.returncode}, {seen} lines, rows {stood}: {err}")
        n = 0
        for _ in range(2):
            code, out, err = run_killed([*resume_of(args), d], r.uniform(0.05, 0.4), sig, twice=True)
            n += code == 130
        code, out, err = run("check", d, "--quiet")
        result(code == 0, f"{name}: {sig.name} twice ends it at once, and the run is whole ({n} of 2 came in time)", err)
        shutil.rmtree(d)


# ---- other commands ----

def leftovers(d, known):
    return [n for n in os.listdir(d) if n not in known]


def kill_writer(tmp, name, args, target, rounds, r, wipe=True):
    """A command that makes `target`: after each kill it is whole or absent. Names of what else is left say that it is no final file."""
    place = f"{tmp}/place"
    os.mkdir(place)
    begun = time.monotonic()
    must(*args)
    lasted = time.monotonic() - begun
    want = folder(target) if os.path.isdir(target) else sha(target)
    bad, done, n, most = "", 0, 0, 0
    for _ in range(rounds):
        shutil.rmtree(place)
        os.mkdir(place)
        code, out, err = run_killed(args, r.uniform(0, lasted * 1.1))
        n += code == -signal.SIGKILL
        have = None if not os.path.exists(target) else folder(target) if os.path.isdir(target) else sha(target)
        left = leftovers(place, [os.path.basename(target)])
        most = max(most, len(left))
        if have is not None and have != want and not is_part_of_run(target):
            bad += f"half of it is under its name: {have}\n"
        if len(left) > 1 or any(".tmp" not in x and ".new-" not in x for x in left):
            bad += f"left: {left}\n"
        done += have is not None
        if have is None or is_part_of_run(target):
            code, out, err = run(*args)
            if code:
                bad += f"again: {err}\n"
    result(not bad, f"{name}: whole or absent ({n} kills, {done} of them after it was done, at most {most} temporary left)", bad)
    kills[name] = (n, 0)
    shutil.rmtree(place)


def is_part_of_run(target):
    return os.path.isdir(target) and not os.path.exists(f"{target}/run.db") and not os.path.exists(f"{target}/config.json") and \
        not os.path.exists(f"{target}/tokenizer.json")


def kill_import(tmp, name, source, rounds, r):
    d, args = f"{tmp}/imported", ["import", source, f"{tmp}/imported", "--mode", "su+o", "--devices", "2", "--csd-mem", "192K"]
    begun = time.monotonic()
    must(*args)
    lasted = time.monotonic() - begun
    want, bad, n, early = exported(tmp, d), "", 0, 0
    names = sorted(os.listdir(d))
    for _ in range(rounds):
        shutil.rmtree(d, ignore_errors=True)
        code = -1
        while code:
            code, out, err = run_killed(args, r.uniform(0, lasted * 2))
            n += code == -signal.SIGKILL
            if os.path.exists(f"{d}/run.db"):
                break
            early += 1
            if code not in (0, -signal.SIGKILL):
                bad += err
                break
        if exported(tmp, d) != want:
            bad += "another model\n"
        if sorted(os.listdir(d)) != names:
            bad += f"{sorted(os.listdir(d))} instead of {names}\n"
    result(not bad, f"{name}: a run or none ({n} kills, {early} of them before there was one)", bad)
    kills[name] = (n, early)
    shutil.rmtree(d)


def kill_reader(tmp, name, args, rounds, r, again=True):
    """A command that reads a run, or moves it: the run keeps its parameters and its rows, and the command says the same again."""
    d = f"{tmp}/read"
    shutil.copytree(f"{tmp}/half", d)
    begun = time.monotonic()
    want = must(*args, d) if again else ""
    lasted = max(time.monotonic() - begun, 0.05)
    bad, n = "", 0
    for _ in range(rounds):
        shutil.rmtree(d)
        shutil.copytree(f"{tmp}/half", d)  # with the step that a kill left half done
        code, out, err = run_killed([*args, d], r.uniform(0, lasted * 1.1))
        n += code == -signal.SIGKILL
        code, out, err = run(*args, d)
        if code or (again and out != want):
            bad += f"again: exit {code}: {out}{err}\n"
        code, out, err = run("pretrain", "--resume", d, "--steps", "14", "--quiet")
        got = picture(tmp, d)
        if code or differences(whole_run, {k: got[k] for k in whole_run}):
            bad += f"the run: exit {code}: {err}{differences(whole_run, {k: got[k] for k in whole_run})}\n"
    result(not bad, f"{name} of a run that was killed in a step, killed itself ({n} kills)", bad)
    kills[name] = (n, 0)
    shutil.rmtree(d)


def kill_reshard(tmp, rounds, r):
    d = f"{tmp}/read"
    shutil.copytree(f"{tmp}/half", d)
    begun = time.monotonic()
    must("reshard", d, "--devices", "3", "--quiet")
    lasted = time.monotonic() - begun
    bad, n, old = "", 0, 0
    for _ in range(rounds):
        shutil.rmtree(d)
        shutil.copytree(f"{tmp}/half", d)
        code, out, err = run_killed(["reshard", d, "--devices", "3", "--quiet"], r.uniform(0, lasted * 1.1))
        n += code == -signal.SIGKILL
        if r.random() < 0.5:
            code, out, err = run("reshard", d, "--devices", "3", "--quiet")
            if code:
                bad += err
        code, out, err = run("pretrain", "--resume", d, "--steps", "14", "--quiet")
        got = picture(tmp, d)
        devices = rows(f"{d}/run.db", "SELECT value FROM runs WHERE key = 'option.devices'")[0][0]
        old += devices == "2"
        files = sum(len(fs) for x, _, fs in os.walk(d) if "/dev" in x)
        if code or files != int(devices) or any(got[k] != whole_run[k] for k in ("parameters", "steps", "evals")):
            bad += f"exit {code}: {files} files of {devices} devices: {err}{differences(whole_run, got)}\n"
    result(not bad, f"reshard: on the one set or the other ({n} kills, {old} runs stayed where they were)", bad)
    kills["reshard"] = (n, 0)
    shutil.rmtree(d)


whole_run = {}


def half_done(tmp, args, r):
    """tmp/half: a run killed while an update was under way; whole_run: what it is at the end."""
    args = with_steps(args, 14)
    must(*args, "--run", f"{tmp}/ref")
    want = picture(tmp, f"{tmp}/ref")
    whole_run.update({k: want[k] for k in ("parameters", "steps", "evals")})
    shutil.rmtree(f"{tmp}/ref")
    for _ in range(60):
        shutil.rmtree(f"{tmp}/half", ignore_errors=True)
        p = subprocess.Popen([BIN, *args, "--csd-write-bw", "3M", "--run", f"{tmp}/half"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, env=ENV)
        for _ in range(r.randrange(2, 5)):
            p.stdout.readline()
        time.sleep(r.uniform(0, 0.1))
        p.kill()
        p.stdout.read()
        p.wait()
        must("check", f"{tmp}/half", "--quiet")
        applied = rows(f"{tmp}/half/run.db", "SELECT applied FROM journal_state")[0][0]
        behind = rows(f"{tmp}/half/run.db", f"SELECT count(*) FROM journal_subs WHERE version < {applied}")[0][0]
        if behind:
            return True
    return False


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--short", action="store_true", help="some seconds: a few kills of a few of them")
    a.add_argument("--seed", type=int, default=int(time.time()))
    a.add_argument("--rounds", type=int, default=12, help="kills of each")
    a.add_argument("names", nargs="*", help="only these")
    o = a.parse_args()
    print(f"# seed {o.seed}", flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where it was ignored, it would be in what is started here
    tmp = tempfile.mkdtemp(prefix="sitrain-kill.", dir="/var/tmp")
    rounds, steps = (2, 10) if o.short else (o.rounds, 24)
    short = ["su+o", "mem, best", "finetune su+o, best", "bert, masked", "finetune llama"]

    def wanted(name):
        return name in o.names if o.names else not o.short or name in [*short, "export", "prepare", "import", "import llama", "reshard"]

    def dice(name):
        return random.Random(f"{o.seed} {name}")
    try:
        make_material(tmp)
        make_families(tmp)
        runs = scenarios(tmp, steps)
        for name, args in runs.items():
            if wanted(name):
                kill_run(tmp, name, args, rounds, dice(name))
        for name in "mem", "su+o":
            if wanted("stop " + name):
                stop_run(tmp, name, runs[name], dice("stop " + name))
        place = f"{tmp}/place"
        for name, args, target in [
                ("prepare", ["prepare", f"{tmp}/long.txt", "--tokenizer", f"{tmp}/tok", "--out", f"{place}/x.bin"], f"{place}/x.bin"),
                ("prepare, tokenizer", ["prepare", f"{tmp}/long.txt", "--train-tokenizer", "--vocab", "300", "--out", f"{place}/tok"], f"{place}/tok"),
                ("export", ["export", f"{tmp}/lm", f"{place}/hf"], f"{place}/hf"),
                ("export llama", ["export", f"{tmp}/llama", f"{place}/hf", "--max-shard-size", "20K"], f"{place}/hf"),
                ("export bert", ["export", f"{tmp}/bert", f"{place}/hf", "--max-shard-size", "20K"], f"{place}/hf")]:
            if wanted(name):
                kill_writer(tmp, name, args, target, rounds, dice(name))
        for name, source in ("import", "hf"), ("import llama", "llama-shards"), ("import bert", "bert"):
            if wanted(name):
                kill_import(tmp, name, f"{tmp}/{source}", rounds, dice(name))
        others = [("eval", ["eval", "--data", f"{tmp}/held.bin", "--threads", "1"]), ("generate", ["generate", "--prompt", "the sea", "--tokens", "4"]),
                  ("check", ["check", "--quiet"]), ("report", ["report"]), ("reshard", None)]
        if any(wanted(name) for name, _ in others):
            found = half_done(tmp, runs["su+o"], dice("half"))
            print(f"# a run killed within an update was{'' if found else ' not'} found", flush=True)
        for name, args in others:
            if not wanted(name):
                continue
            if name == "reshard":
                kill_reshard(tmp, rounds, dice(name))
            else:
                kill_reader(tmp, name, args, rounds, dice(name), again=name != "report")
        print(f"# {sum(n for n, _ in kills.values())} kills, seed {o.seed}")
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
