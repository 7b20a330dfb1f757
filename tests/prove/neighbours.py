#!/usr/bin/env python3
"""neighbours.py [--seed N] [--minutes N] [--one SEED]: a user's files next to siTrain's, and random sequences of ordinary commands.

A small file system has five runs (devices in RUN and elsewhere, in memory, fine-tuned, adapters; with best models, checkpoints and snapshots),
a tokenizer, models, reports, and files of a user's of each kind, also within the runs. A sequence of 6 to 15 commands goes over it: siTrain's
with their outputs at any path that is there or could be, whole, killed at a call, two at once, one of them stopped while the user works;
and the user's: saves, copies, moves, links, removes, mounts, protects, fills the disk. After each command every file is compared with before:

  - a file of the user's has its bytes and its name;
  - what changes is the run's that the command was given, or the command's output, where siTrain made that for the same purpose;
  - a command ends by itself, with 0, 1, 2 or 130, and without an assertion.

At the end each run that `check` calls whole exports, bit for bit, what a run that nothing happened to had after that step; a run is not whole
only if the user damaged it. Prints TAP. Needs root: the file system is a loop device in a mount namespace of its own. `make prove-neighbours`
(NEIGHBOURS=). Environment: SITRAIN the program, SITRAIN_SHIM the library (tests/shim/delay.c)."""
import argparse
import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time

from common import BIN, ENV, must, result, tap

SHIM = os.path.abspath(os.environ.get("SITRAIN_SHIM") or "build/tests/delay.so")
DEVICES = "--csd-mem 128K --threads 1 --durability none".split()
SHAPE = "--n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 --schedule constant --lr 1e-2 --quiet".split() + DEVICES
UNDER_WAY = re.compile(r"\.(new-)?[0-9a-f]{16}(\.tmp)?(/|$)")  # a name that siTrain gives what it makes
HOLDERS = ("", "lib", "drive", "snaps", "A", "B", "C", "D", "L", "hf", "ad")  # no command made them during a sequence
FIRST = {"pred.tsv": "eval --predict", "rep.html": "report --html", "tr.json": "report --trace", "out.gguf": "export gguf", "text.bin": "prepare",
         "tok": "prepare --train-tokenizer"}
NAMES = """new1 new2 x.gguf X.html data.bin run.db.new dev1 dev0 states image0 best best.next config.json model.safetensors tokenizer run.lock
    checkpoint-4 checkpoint-5 snapshots vocab.json train.ex asked trainer_state.json predict_results_x.txt step-00000004 eval_results.json
    run.db-journal run A.rank1 nested/new""".split()
MINE = """mine1 mine2 notes.txt data.bin dev7 image7 states.bak README.md best.txt x.ex spiece.model events.out.tfevents.1.mine step-00000009
    .hidden run.db.bak checkpoint-9 checkpoint-4 trainer_state.json dev1 train.ref""".split()


def sha(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def state(path):
    """What is at a path; None: nothing."""
    try:
        st = os.lstat(path)
        if stat.S_ISLNK(st.st_mode):
            return "link to " + os.readlink(path)
        return sha(path) if stat.S_ISREG(st.st_mode) else f"mode {st.st_mode:o}"
    except FileNotFoundError:
        return None


def write(path, text):
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())


def quietly(*args):
    return subprocess.run(args, capture_output=True).returncode == 0


# ---- the file system with which each sequence begins

def build(at):
    """Makes it, mounted at `at`, and unmounts it; the hashes of all models by kind and step."""
    models, r = {}, random.Random(1)
    words = "the sea ship wind rope sail deck wave star sees finds loves leaves".split()
    os.chdir(at)
    write("text.txt", "\n".join(" ".join(r.choice(words) for _ in range(10)) for _ in range(60)) + "\n")
    write("rows.csv", "label,sentence\n0,the sea\n1,a ship\n0,the wind\n1,a sail\n")
    must("prepare", "text.txt", "--train-tokenizer", "--vocab", "260", "--out", "tok")
    must("prepare", "text.txt", "--tokenizer", "tok", "--out", "text.bin")
    data = ["--data", f"{at}/text.bin", "--tokenizer", f"{at}/tok"]
    plain = ["pretrain", *data, *SHAPE]
    fine = ["finetune", "--init", f"{at}/hf", "--train-file", f"{at}/rows.csv", *DEVICES, *"--max-seq 8 --batch 1 --schedule constant --quiet".split()]
    lora = ["pretrain", "--init", f"{at}/hf", *data, *"--seq 8 --batch 1 --lora-rank 2 --lr 1e-2 --schedule constant --quiet".split(), *DEVICES]

    def models_of(kind, command, steps, name, *how):
        must(*command, "--run", "ref", "--steps", str(steps), "--export-every", "1", "--snapshot-every", str(steps))
        must("export", "ref", "zero", "--step", "0", *how)
        models[kind] = {int(p.split("-")[-1]): sha(f"{p}/{name}") for p in glob.glob("ref/checkpoint-*")} | {0: sha(f"zero/{name}")}
        shutil.rmtree("zero")
        if not os.path.exists("hf"):
            must("export", "ref", "hf", "--last")
        shutil.rmtree("ref")
    models_of("plain", plain, 14, "model.safetensors")
    models_of("fine", fine, 10, "model.safetensors")
    models_of("lora", lora, 10, "adapter_model.safetensors", "--adapter")
    best = ["--eval-data", f"{at}/text.bin", "--eval-every", "1", "--keep-best"]
    os.mkdir("drive")
    os.mkdir("snaps")
    must(*plain, *best, *"--run A --steps 3 --export-every 1 --export-limit 2 --snapshot-every 1 --snapshots 2 --tensorboard auto".split())
    must(*plain, *"--run B --steps 3 --mode mem --snapshot-every 2".split())
    must(*fine, *"--run C --steps 2".split())
    must(*plain, *"--run D --steps 3 --snapshot-every 1 --activations offload".split(), "--device", f"{at}/drive", "--act-device", f"{at}/drive",
         "--snapshot-dir", f"{at}/snaps")
    must(*lora, *best, *"--run L --steps 2 --export-every 2".split())
    must(*"eval C --test-file rows.csv --max-seq 8 --batch 1 --threads 1 --predict pred.tsv".split())
    must("report", "A", "--html", "rep.html")
    must("report", "A", "--trace", "tr.json")
    must("export", "A", "out.gguf")
    must("export", "L", "--adapter", "ad")
    os.mkdir("lib")
    for name, text in (("photo.jpg", r.randbytes(5000)), ("notes.txt", "my notes\n"), ("list.csv", "a,b\n1,2\n"), ("x.bin", r.randbytes(4096)),
                       ("my.gguf", b"GGUF\3" + r.randbytes(300)), ("page.html", '<!DOCTYPE html>\n<html lang="en">\nmine'), ("t.json", '{"mine": 1}\n'),
                       ("p.tsv", "index\tprediction\n0\t1\n"), ("model.safetensors", r.randbytes(100)), ("config.json", "{}"),
                       ("machine", "# A machine\nname = mine\nflops = 1e12\ndrive = 2e9 1e9 1e9\n")):
        write("lib/" + name, text)
    mine = """A/best/README.md A/best/spiece.model A/dev0/mine.txt A/tokenizer/words.md A/snapshots/note A/README A/tensorboard/mine B/photo9.jpg
        C/notes C/my_results.json L/best/my.md D/x drive/photo snaps/mine hf/README.md tok2""".split()
    for name in mine:
        write(name, "mine: " + name)
    for name, to in (("l_notes", "lib/notes.txt"), ("l_A", "A"), ("l_lib", "lib"), ("l_states", "A/dev0/states"), ("l_none", "nowhere")):
        os.symlink(to, name)
        mine.append(name)
    os.link("lib/photo.jpg", "A/photo.jpg")
    os.link("text.txt", "h_text")
    mine += ["A/photo.jpg", "h_text", "text.txt", "rows.csv", *("lib/" + n for n in os.listdir("lib"))]
    os.chdir("/")
    while not quietly("umount", at):  # the kernel closes the files of a ring a moment after its process has ended
        time.sleep(.1)
    return {"models": models, "mine": mine}


# ---- one sequence

class Sequence:
    def __init__(self, at, mine, seed):
        self.at, self.r, self.log, self.finds, self.commands = at, random.Random(seed), [], [], 0
        self.mine, self.made, self.changed, self.mounts = set(mine), dict(FIRST), set(), []
        self.run = None  # that of the last command

    def tree(self):
        out = {}
        for at, folders, files in os.walk(self.at):
            folders[:] = [d for d in folders if d != "lost+found"]
            for name in files + [d for d in folders if os.path.islink(f"{at}/{d}")]:
                out[f"{at}/{name}"[len(self.at) + 1:]] = state(f"{at}/{name}")
        return out

    def folders(self):
        return sorted(at[len(self.at) + 1:] for at, _, _ in os.walk(self.at) if at != self.at and "lost+found" not in at)

    def runs(self):
        return [d for d in self.folders() if os.path.exists(f"{self.at}/{d}/run.db") and "/step-" not in d]

    def real(self, path):
        return os.path.relpath(os.path.realpath(f"{self.at}/{path}"), self.at)

    def find(self, what, why):
        self.finds.append(f"{what.replace(self.at + '/', '')}: {why}")
        self.log.append("!!! " + self.finds[-1])

    # ---- what a command may change

    def parts(self, run):
        """The run's folder, and what it has elsewhere."""
        out = [self.real(run)]
        try:
            db = sqlite3.connect(f"file:{self.at}/{run}/run.db?immutable=1&mode=ro", uri=True)  # or else it is made; its -shm may lie on a full disk: SIGBUS
            of = db.execute("SELECT value FROM runs WHERE key = 'id'").fetchone()[0]
            db.close()
            out += [p for p in self.folders() if p.endswith("-" + of)] + [p for p in self.tree() if "sitrain-" + of in p]
            out += [f"{d}/sitrain-{of}-dev{i}" for d in ("drive", "lib") for i in range(4)]
        except (sqlite3.Error, TypeError, UnicodeDecodeError):  # a run.db that the user has damaged
            pass
        return out

    def outputs(self, args, *paths):
        """Those outputs that siTrain made for the same purpose."""
        return [p for p in map(self.real, paths) if p not in self.mine and self.made.get(p) == purpose(args)]

    def kept(self, path, was):
        """Where it is within a tokenizer's old folder, or what is left of a removed snapshot, as a sentence has said."""
        for n, c in enumerate(path):
            for of in glob.glob(glob.escape(f"{self.at}/{path[:n]}") + ".*") if c == "/" else []:
                if re.search(r"\.(old-|gone.*\.new-)[0-9a-f]{16}$", of) and state(of + path[n:]) == was:
                    return (of + path[n:])[len(self.at) + 1:]
        return None

    def compare(self, what, before, may):
        after = self.tree()
        for path, was in before.items():
            now = after.get(path)
            if now == was:
                continue
            if path in self.mine:
                self.mine.discard(path)
                if self.kept(path, was):
                    self.mine.add(self.kept(path, was))
                else:
                    self.find(what, f"the user's {path} was {was}, is {now}")
            elif not (any(path == m or path.startswith(m + "/") or (path.startswith(m) and UNDER_WAY.match(path[len(m):])) for m in may) or
                      path.endswith(("/run.lock", "/run.db-shm", "/run.db-wal")) or (UNDER_WAY.search(path) and now is None)):
                self.find(what, f"{path} was {was}, is {now}")

    def note(self, before, args):
        """Remembers for what purpose new files were made."""
        for path in self.tree():
            if path not in before and path not in self.mine and not UNDER_WAY.search(path):
                self.made[path] = purpose(args)
                if os.path.dirname(path) not in HOLDERS:
                    self.made.setdefault(os.path.dirname(path), purpose(args))

    # ---- commands

    def any_path(self):
        r, k = self.r, self.r.random()
        if k < .3:
            return r.choice(["", "", "lib/", "hf/", "A/", "new/", "l_lib/"]) + r.choice(["n%d", "n%d.html", "n%d.json", "n%d.tsv"]) % r.randrange(4)
        if k < .65:
            return r.choice(sorted(self.tree()))
        return r.choice(self.folders()) if k < .8 else r.choice(["", *(d + "/" for d in self.folders()), "l_A/", "l_lib/"]) + r.choice(NAMES)

    def command(self):
        """Arguments, what it may change, its output."""
        r, at, out = self.r, self.at + "/", self.any_path()
        run = r.choice([d for d in ["A", "B", "C", "D", "L", "l_A", *self.runs()] if os.path.exists(f"{at}{d}/run.db")] or ["A"])
        run = self.any_path() if r.random() < .06 else run
        to, of, data = at + out, at + run, ["--data", at + "text.bin", "--tokenizer", at + "tok"]
        best = ["--keep-best", "--eval-every", "1", "--eval-data", at + "text.bin"]
        which = r.choice("train train train train train new new new import export gguf prepare tokenizer eval report plan reshard check restore "
                         "finetune read again".split())
        if which == "train":
            more = r.choice([[], best, ["--tensorboard", to], ["--act-device", to, "--activations", "offload"], ["--snapshot-every", "1", "--snapshot-dir", to],
                             ["--from", str(r.randrange(4))], ["--device", to],
                             *(w.split() for w in ("--export-every 1 --export-limit 1", "--snapshot-every 1 --snapshots 1", "--mode mem", "--commit-every 2",
                                                   "--snapshot-every 0", "--export-every 2 --export-limit 2"))])
            args = ["finetune" if os.path.exists(of + "/trainer_state.json") else "pretrain", "--resume", of, "--steps", str(r.randrange(3, 9)), "--quiet", *more]
        elif which == "new":
            more = r.choice([[], ["--mode", "mem"], ["--device", at + self.any_path()], best, ["--snapshot-every", "1", "--snapshot-dir", at + self.any_path()],
                             ["--export-every", "1"], ["--activations", "offload", "--act-device", at + self.any_path()]])
            args = ["pretrain", "--run", to, *(data if r.random() < .8 else ["--data", at + "text.txt", "--tokenizer", at + "tok"]), *SHAPE, "--steps",
                    str(r.randrange(1, 4)), *more]
        elif which == "import":
            args = ["import", at + r.choice("hf A/best ad lib l_lib A/checkpoint-3 A".split()), to, *DEVICES]
        elif which == "export":
            args = ["export", of, to, *r.choice([[], ["--last"], ["--best"], ["--adapter"], ["--max-shard-size", "8K"], ["--step", "2"]])]
        elif which == "gguf":
            out = out if out.endswith(".gguf") else out + ".gguf"
            args = ["export", of, at + out]
        elif which == "prepare":
            more = r.choice([[], [], ["--eval-split", "0.2", "--eval-out", at + self.any_path()]])
            args = ["prepare", at + r.choice(["text.txt", "lib/notes.txt", "l_notes", "h_text", out]), "--tokenizer", at + r.choice("tok A/tokenizer hf".split()),
                    "--out", to, *more]
        elif which == "tokenizer":
            args = ["prepare", at + "text.txt", "--train-tokenizer", "--vocab", str(r.randrange(258, 263)), "--out", to]
        elif which == "eval":
            run = r.choice(["C", "C", run])
            args = ["eval", at + run, "--test-file", at + "rows.csv", *"--max-seq 8 --batch 1 --threads 1 --predict".split(), to]
        elif which == "report":
            args = ["report", of, r.choice(["--html", "--trace"]), to]
        elif which == "plan":
            args = ["plan", *SHAPE[:10], "--vocab", "260", "--machine", at + "lib/machine", "--compare", "--run", at + "none", "--csd-mem", "128K", "--json", to]
        elif which == "reshard":
            args = ["reshard", of, "--quiet", *r.choice([["--devices", "1"], ["--devices", "2"], ["--devices", "3"], ["--device", to], ["--device", at + "drive"],
                                                          ["--device", at + "lib", "--device", at + "drive"]])]
        elif which == "check":
            args = ["check", of, *r.choice([[], ["--scrub"], ["--repair"]])]
        elif which == "restore":
            args = ["restore", of, *r.choice([[], ["--device", "0=" + to]])]
        elif which == "finetune":
            args = ["finetune", "--init", at + "hf", "--train-file", at + "rows.csv", "--run", to, *DEVICES, *"--max-seq 8 --batch 1 --schedule constant".split(),
                    *"--quiet --steps 1".split(), *r.choice([[], ["--test-file", at + "rows.csv", "--predict"], ["--eval-file", at + "rows.csv", "--keep-best"]])]
        elif which == "read":
            args = r.choice([["snapshots", of], ["watch", of, "--once"], ["generate", of, *"--prompt sea --tokens 2 --threads 1".split()]])
        else:
            args = ["export", at + r.choice(["hf", "ad", "A/best", "lib"]), to]
        more = [args[args.index("--eval-out") + 1][len(at):]] if "--eval-out" in args else []
        self.run = run
        return args, self.parts(run) + self.outputs(args, out, *more), out

    def start(self, args, blocks=None, **env):
        """Also in a folder of the file system, and then with names from there."""
        cwd = self.at
        if self.r.random() < .3:
            cwd = os.path.realpath(f"{self.at}/{self.r.choice(self.folders())}")
            args = [re.sub("(^|=)(" + re.escape(self.at) + "/.*)", lambda m: m[1] + os.path.relpath(m[2], cwd), a) for a in args]
        self.log.append(f"  in {cwd[len(self.at):] or '/'}: siTrain {' '.join(args).replace(self.at + '/', '')}")
        limit = f"ulimit -f {blocks}; " if blocks else ""
        return subprocess.Popen(["sh", "-c", limit + 'exec "$@"', "sh", BIN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                cwd=cwd, env=dict(ENV, **env))

    def end(self, p, args, signalled=False):
        self.commands += 1
        try:
            out = p.communicate(timeout=60)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            p.kill()
            return self.find(" ".join(args), "does not end: " + p.communicate()[0].decode(errors="replace")[-300:])
        self.log.append(f"    {p.returncode}: {out.strip()[-250:]}")
        if (p.returncode not in (0, 1, 2, 130) and not signalled) or "ssertion" in out:
            self.find(" ".join(args), f"ended with {p.returncode}: {out[-300:]}")

    def one(self):
        args, may, _ = self.command()
        before = self.tree()
        self.end(self.start(args, self.r.choice([None] * 9 + [16, 100, 400])), args)
        self.compare(" ".join(args), before, may)
        self.note(before, args)

    def killed(self):
        args, may, out = self.command()
        before = self.tree()
        call = f"{self.r.choice(['any', 'any', 'name', 'fsync', 'pwrite'])}:{self.at}/:{int(2 ** self.r.uniform(0, 8))}:kill"
        self.log.append("  " + call)
        self.end(self.start(args, LD_PRELOAD=SHIM, SHIM_AT=call), args, True)
        self.compare("killed: " + " ".join(args), before, may)
        self.note(before, args)
        if self.r.random() < .7:
            before, may = self.tree(), may + self.parts(self.run) + [p for p in self.made if p.startswith(self.real(out))]
            self.end(self.start(args), args)
            self.compare("again: " + " ".join(args), before, may)
            self.note(before, args)

    def two(self):
        r, before = self.r, self.tree()
        first, may, out = self.command()
        second, more, _ = (first, [], out) if r.random() < .4 else self.command()
        may = may + more
        p = self.start(first, **(r.choice([{}, {"LD_PRELOAD": SHIM, "SHIM_SEED": str(r.randrange(10 ** 6)), "SHIM_US": "4000"}])))
        time.sleep(r.choice([0, .01, .05, .1]))
        stops = r.random() < .5
        if stops:
            p.send_signal(signal.SIGSTOP)
        q = self.start(second)
        if stops:
            try:
                q.wait(timeout=r.choice([1, 3]))
            except subprocess.TimeoutExpired:
                pass
            before = self.meanwhile(before, may, out)
            p.send_signal(signal.SIGCONT)
        signalled = r.choice([None] * 4 + [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
        if signalled:
            time.sleep(r.uniform(0, .2))
            p.send_signal(signalled)
        self.end(p, first, signalled is not None)
        self.end(q, second)
        self.compare(f"{' '.join(first)} || {' '.join(second)}", before, may)
        self.note(before, first if first == second else ["?"])

    def meanwhile(self, before, may, out):
        """What the user does while a command stands: saves something under its output's name, or anything else."""
        k, was = self.r.random(), self.tree()
        if k < .4:
            self.save_at(out)
        elif k < .8:
            self.user()
        now = self.tree()
        before = {p: s for p, s in before.items() if p in now or p in self.mine}
        for path in now:
            if path not in before or now[path] != was.get(path):
                before[path] = now[path]
                may += [] if path in self.mine else [path]
        may += [d for d in self.runs() if d.startswith("moved")]
        return before

    # ---- the user's

    def save_at(self, out):
        path = f"{self.at}/{out}"
        if any(out.startswith(d + "/") for d in self.runs()) and not out.endswith(("html", "tsv", "json")):
            return
        if os.path.isdir(path) and out not in HOLDERS:
            path, out = path + "/came.txt", out + "/came.txt"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write(path + "~", f"mine {self.r.randrange(10 ** 9)}")
            os.rename(path + "~", path)
            self.own(out)
            self.changed |= {d for d in self.runs() if out.startswith(d + "/")}
        except OSError as e:
            self.log.append(f"  ({e})")

    def own(self, path):
        path = f"{self.real(os.path.dirname(path) or '.')}/{os.path.basename(path)}".removeprefix("./")
        self.mine.add(path)
        self.made.pop(path, None)
        self.log.append("  the user's: " + path)

    def user(self):
        r, at = self.r, self.at
        folder, run = r.choice(self.folders()), r.choice(self.runs() or ["A"])
        new = f"{folder}/{r.choice(MINE + NAMES[:-1])}"
        free = not os.path.lexists(f"{at}/{new}") and not re.search(r"(best|checkpoint-\d+|tokenizer|ad|hf)/(config|vocab|model)|/run\.|run\.lock", new)
        try:
            match r.randrange(15):
                case 0 | 1 | 2 if free:
                    write(f"{at}/{new}", f"mine {r.randrange(10 ** 9)}")
                    self.own(new)
                case 3 if not os.path.lexists(f"{at}/copy{(n := r.randrange(9))}"):
                    if quietly("cp", r.choice(["-a", "-r", "-al"]), f"{at}/{run}", f"{at}/copy{n}"):
                        self.moved(run, f"copy{n}", False)
                    else:
                        shutil.rmtree(f"{at}/copy{n}")
                case 4 if not os.path.lexists(f"{at}/moved{(n := r.randrange(9))}") and not os.path.islink(f"{at}/{run}"):
                    os.rename(f"{at}/{run}", f"{at}/moved{n}")
                    self.moved(run, f"moved{n}", True)
                case 5:
                    os.unlink(f"{at}/{run}/run.lock")
                    self.log.append(f"  rm {run}/run.lock")
                case 6:
                    part = r.choice("best tokenizer snapshots dev0/states image0 image1 data.bin checkpoint-3".split())
                    self.mine = {m for m in self.mine if not m.startswith(f"{run}/{part}")}
                    shutil.rmtree(f"{at}/{run}/{part}") if os.path.isdir(f"{at}/{run}/{part}") else os.unlink(f"{at}/{run}/{part}")
                    self.changed.add(run)
                    self.log.append(f"  rm -r {run}/{part}")
                case 7 if free:
                    os.symlink(r.choice([f"{at}/lib", f"{at}/lib/notes.txt", f"{at}/nowhere", f"{at}/A/dev0/states"]), f"{at}/{new}")
                    self.own(new)
                case 8 if free:
                    os.link(f"{at}/lib/" + r.choice(["photo.jpg", "notes.txt", "x.bin"]), f"{at}/{new}")
                    self.own(new)
                case 9 if free:
                    os.mkdir(f"{at}/{new}")
                    write(f"{at}/{new}/photo", "mine")
                    self.own(new + "/photo")
                case 10:
                    os.chmod(f"{at}/{folder}", r.choice([0o755, 0o555, 0o700]))
                    self.log.append(f"  chmod {folder}")
                case 11:
                    self.mount(f"{run}/{r.choice(['dev1', 'mnt', 'best', 'tensorboard', 'snapshots'])}")
                case 12:
                    self.fill()
                case 13:
                    self.damage(run, r.choice("dev0/states image0 image1 best/model.safetensors checkpoint-3/model.safetensors run.db-wal run.db".split()))
                case 14:
                    path = r.choice(sorted(m for m in self.mine if m.startswith("lib/") and os.path.isfile(f"{at}/{m}")))
                    write(f"{at}/{path}~", f"mine {r.randrange(10 ** 9)}")
                    os.rename(f"{at}/{path}~", f"{at}/{path}")
                    self.log.append("  saved: " + path)
        except OSError as e:
            self.log.append(f"  ({e})")

    def moved(self, a, b, goes):
        self.mine |= {b + m[len(a):] for m in self.mine if m.startswith(a + "/")}
        self.mine = {m for m in self.mine if not (goes and m.startswith(a + "/"))}
        self.changed |= {a, b}  # it may stand with another's devices
        self.log.append(f"  {'mv' if goes else 'cp'} {a} {b}")

    def mount(self, path):
        if self.mounts:
            at, hidden = self.mounts.pop()
            quietly("umount", "-l", f"{self.at}/{at}")
            self.mine = {m for m in self.mine if not m.startswith(at + "/")} | hidden
            return self.log.append(f"  umount {at}")
        os.makedirs(f"{self.at}/{path}", exist_ok=True)
        hidden = {m for m in self.mine if m.startswith(path + "/")}
        if quietly("mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", f"{self.at}/{path}"):
            self.mounts.append((path, hidden))
            self.mine -= hidden
            self.changed.add(path.split("/")[0])
            write(f"{self.at}/{path}/photo", "mine")
            self.own(path + "/photo")

    def fill(self):
        path, st = f"{self.at}/fill", os.statvfs(self.at)
        if os.path.exists(path):
            os.unlink(path)
        else:
            quietly("fallocate", "-l", str(max(4096, st.f_bavail * st.f_frsize - self.r.choice([0, 50_000, 500_000, 2_000_000]))), path)
        self.log.append("  the disk is fuller or emptier")

    def damage(self, run, part):
        path = f"{self.at}/{run}/{part}"
        n = os.path.getsize(path)
        self.changed.add(run)
        self.log.append(f"  damaged: {run}/{part}")
        if self.r.random() < .3:
            return os.truncate(path, self.r.randrange(n + 1))
        fd = os.open(path, os.O_WRONLY)
        os.pwrite(fd, self.r.randbytes(self.r.choice([1, 64, 5000])), self.r.randrange(n + 1))
        os.close(fd)

    # ---- in the end

    def last(self, models):
        for path, _ in self.mounts:
            quietly("umount", "-l", f"{self.at}/{path}")
        subprocess.run(["sh", "-c", f"rm -f {self.at}/fill; find {self.at} -type d -exec chmod u+rwx {{}} +"], check=True)
        for run in self.runs():
            self.last_of(run, models)

    def last_of(self, run, models):
        def ask(*args):
            p = subprocess.run([BIN, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=ENV, cwd=self.at, timeout=120)
            return p.returncode, (p.stdout + p.stderr)[-300:]
        code, says = ask("check", run)
        self.log.append(f"check {run}: {code} {says}")
        if code:
            if code not in (1, 2) or (run not in self.changed and "is on its way back" not in says):
                self.find(f"check {run}", says)
            return
        shutil.rmtree(f"{self.at}/last", ignore_errors=True)
        adapted, _ = ask("export", run, "last", "--adapter", "--last")
        code, says = (0, "") if adapted == 0 else ask("export", run, "last", "--last")
        if code:
            if "has other names too" not in says and "base" not in says:
                self.find(f"{run} is whole", "its export fails: " + says)
            return
        db = sqlite3.connect(f"file:{self.at}/{run}/run.db?mode=ro", uri=True)
        rows = db.execute("SELECT coalesce(max(step) + 1, 0) FROM steps").fetchone()[0]
        settings = dict(db.execute("SELECT key, value FROM runs"))
        db.close()
        named = settings.get("export.path") == f"{self.at}/last"  # a run that cannot be written to keeps no record
        steps = int(settings["export.step"]) if named else rows
        is_of = sha(f"{self.at}/last/{'adapter_' if adapted == 0 else ''}model.safetensors")
        if not any(h == is_of and int(s) in (steps, steps or int(s)) for kind in models.values() for s, h in kind.items()):
            self.find(f"{run} is whole", f"but it is not the model after its {steps} steps")
        elif steps != rows and (steps > rows or settings["option.mode"] != "mem"):  # in memory rows may be ahead of the last image
            self.find(f"{run} is whole", f"but it has {rows} steps, and its model is that after {steps}")


def purpose(args):
    option = next((o for o in ("--html", "--trace", "--train-tokenizer", "--predict", "--json") if o in args), "")
    return f"{args[0]} {option}".strip() + (" gguf" if args[0] == "export" and args[-1].endswith(".gguf") else "")


def sequence(base, work, known, seed):
    image, at = f"{work}/image", f"{work}/at"
    subprocess.run(["cp", "--sparse=always", base, image], check=True)
    subprocess.run(["mount", "-o", "loop", image, at], check=True)
    s = Sequence(at, known["mine"], seed)
    try:
        for _ in range(s.r.randrange(6, 16)):
            k = s.r.random()
            (s.user if k < .28 else s.one if k < .62 else s.killed if k < .82 else s.two)()
        s.last(known["models"])
    finally:
        for line in reversed(open("/proc/mounts", encoding="utf-8").read().splitlines()):
            if line.split()[1].startswith(at):
                quietly("umount", line.split()[1]) or quietly("umount", "-l", line.split()[1])
        os.unlink(image)
    return s


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=int(time.time()) % 10 ** 6 * 1000)
    p.add_argument("--minutes", type=float, default=20)
    p.add_argument("--one", type=int, help="this sequence alone, with all that it does")
    o = p.parse_args()
    if os.geteuid() or not os.path.exists(SHIM):
        tap.skip("a user's files next to siTrain's", "only root may mount file systems, and tests/shim/delay.c is to be built")
        return tap.done()
    if not os.environ.get("NEIGHBOURS_APART"):
        os.execvp("unshare", ["unshare", "-m", "env", "NEIGHBOURS_APART=1", sys.executable, *sys.argv])
    work = tempfile.mkdtemp(prefix="sitrain-neighbours.", dir="/var/tmp")
    base, n, commands = f"{work}/base", 0, 0
    try:
        os.mkdir(f"{work}/at")
        subprocess.run(["sh", "-c", f"truncate -s 160M {base} && mkfs.ext4 -q -O ^has_journal -m 0 -I 256 {base} && mount -o loop {base} {work}/at"], check=True)
        known = json.loads(json.dumps(build(f"{work}/at")))
        until = time.time() + 60 * o.minutes
        while n == 0 or (time.time() < until and o.one is None):
            seed = o.seed + n if o.one is None else o.one
            s = sequence(base, work, known, seed)
            n, commands = n + 1, commands + s.commands
            if s.finds or o.one is not None:
                print("\n".join("# " + line for line in s.log))
                result(not s.finds, f"--one {seed}: {'; '.join(s.finds)[:1000]}")
        result(True, f"{n} sequences, {commands} commands")
    finally:
        os.chdir("/")
        shutil.rmtree(work, ignore_errors=True)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
