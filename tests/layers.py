#!/usr/bin/env python3
"""layers.py: the rooms and their law (docs/design.md). A room uses only itself and rooms below it, by
what it includes and by what it calls; units stand in no circle, by neither; sqlite3.h is known to one
room; what a unit shows is used by others, or by tests; and every file that a comment or a page of
docs names is there. TAP.

A unit is NAME.c with NAME.h; a header without a .c belongs to the unit that its name begins with. A
circle may hide behind one header that declares what several units define, so calls count, too: those
that the objects in the build folder (BUILD, else build) leave to the linker, so those must be there
(`make all test-bins`). Calls, not data: a table may name those that call the table's unit, as csd.c
names the devices.
"""
import graphlib
import os
import re
import subprocess
import sys

from tap import ROOT, ROOMS, done, report, sources

# room: what it may use beside itself
LAW = {
    "cmd": "cmd/terminal bench report run run/loop run/ranks run/sources plan run/snapshots run/texts run/folder model offload csd comm kernels chat data",
    "cmd/terminal": "run/loop plan run/folder model comm data",
    "bench": "cmd/terminal run run/loop run/ranks run/sources plan run/texts run/folder model offload csd comm kernels data",
    "report": "run run/loop run/folder plan model offload csd kernels data",
    "run": "run/loop run/ranks run/sources plan run/snapshots run/texts run/folder model offload csd comm kernels chat data",
    "run/loop": "run/ranks run/sources plan run/snapshots run/texts run/folder model offload csd comm kernels chat data",
    "plan": "run/sources run/texts run/folder model offload csd kernels data",
    "run/ranks": "run/sources run/snapshots run/texts run/folder model offload csd comm kernels data",
    "run/sources": "run/texts run/folder model offload csd kernels chat data",
    "run/texts": "run/folder model offload csd kernels chat data",
    "run/snapshots": "run/folder model offload csd comm kernels chat data",
    "run/folder": "model offload csd comm kernels chat data",
    "model": "model/file model/family model/layer model/lora model/arch offload csd comm kernels data",
    "model/file": "model/lora model/family model/arch offload csd comm kernels data",
    "model/family": "model/layer model/arch kernels data",
    "model/layer": "model/lora model/arch offload csd comm kernels data",
    "model/lora": "model/arch offload kernels data",
    "model/arch": "kernels data",
    "offload": "offload/upkeep offload/stream offload/devices offload/layout csd comm kernels data",
    "offload/upkeep": "offload/stream offload/devices offload/layout csd comm kernels data",
    "offload/stream": "offload/gradient offload/devices offload/estimate offload/layout csd comm kernels data",
    "offload/gradient": "offload/devices offload/layout csd comm kernels data",
    "offload/devices": "offload/layout csd comm kernels data",
    "offload/estimate": "offload/layout csd comm kernels data",
    "offload/layout": "csd comm kernels data",
    "chat": "chat/jinja data/task data/text data/json data/file data/base",
    "chat/jinja": "data/json data/base",
    "comm": "data/base",
    "csd/devices": "csd/engine csd/disk csd kernels data/base",
    "csd/engine": "csd/hls csd/disk csd kernels data/file data/base",
    "csd": "csd/disk kernels data/file data/base",
    "csd/disk": "data/file data/base",
    "csd/hls": "",
    "kernels/attention": "kernels data/base",
    "kernels/product": "kernels data/base",
    "kernels/quant": "kernels data/base",
    "kernels/rows": "kernels data/base",
    "kernels/update": "kernels data/base",
    "kernels": "data/base",
    "data/task": "data/db data/text data/json data/file data/base",
    "data/text": "data/tensors data/json data/file data/base",
    "data/tensors": "data/json data/file data/base",
    "data/db": "data/file data/base",
    "data/opt": "data/file data/base",
    "data/json": "data/file data/base",
    "data/file": "data/base",
    "data/base": "",
}
# Named in words, but not ours. What a reader is to fill in is NAME.
OTHERS = {"hls_stream.h", "hls_vector.h", "llm.c", "llama2.c", "run_glue.py", "convert_lora_to_gguf.py", "setup.sh", "/opt/xilinx/xrt/setup.sh"}


def room(file):
    return os.path.dirname(file)


def allowed(user, used):
    """Whether a file of the room `user` may use one of the room `used`. Who may use a room may use
    the folders in it, too; within the room each folder has a line of its own."""
    below = LAW.get(user, "").split()
    return used == user or used in below or os.path.dirname(used) in below


def unlawful(edges):
    return [f"{a} {b}" for a, b in sorted(edges) if not allowed(room(a), room(b))]


def unit(file, files):
    """The unit that a file is of: the .c that bears its name, or the longest beginning of it."""
    name = file[:-2]
    while name + ".c" not in files and "_" in os.path.basename(name):
        name = name[:name.rindex("_")]
    return name if name + ".c" in files else file[:-2]


def circles(edges):
    """Circles "a -> b -> a", one at a time: each is cut at an edge before the next is looked for."""
    edges, found = {(a, b) for a, b in edges if a != b}, []
    while True:
        graph = {}
        for a, b in sorted(edges):
            graph.setdefault(a, []).append(b)
        try:
            graphlib.TopologicalSorter(graph).prepare()
            return found
        except graphlib.CycleError as error:
            circle = error.args[1][::-1]  # each is used by the one before it
            found.append(" -> ".join(circle))
            edges.remove((circle[0], circle[1]))


def includes(files):
    """(file, file that it includes) of ours."""
    return {(f, used) for f in files
            for used in re.findall(r'^#include "([^"]*)"', (ROOT / f).read_text(encoding="utf-8"), re.M)}


# Built where what they need is there.
OPTIONAL = re.compile("onednn|mpi|xrt|smartssd|opencl")


def symbols(files, build):
    """(file, name, kind as nm says it) of all that their objects define or leave to the linker, and the
    files whose object is not there, or older than the source."""
    objects, missing = {}, []
    for f in (f for f in files if f.endswith(".c")):
        o = ROOT / build / (f[:-2] + ".o")
        if o.exists() and o.stat().st_mtime >= (ROOT / f).stat().st_mtime:
            objects[str(o)] = f
        elif not OPTIONAL.search(f):
            missing.append(f)
    if not objects:
        return [], missing
    lines = subprocess.run(["nm", "-AP", *objects], capture_output=True, text=True, check=True).stdout
    return [(objects[where.rstrip(":")], name, kind)
            for where, name, kind in (line.split()[:3] for line in lines.splitlines())], missing


def calls(rows):
    """(file, file that defines a function which it uses)."""
    defines = {name: f for f, name, kind in rows if kind in "TWi"}
    return {(f, defines[name]) for f, name, kind in rows if kind == "U" and name in defines}


def lonely(rows, tests):
    """Functions that others could call, and nobody does, no test and no example (tests: their rows) either."""
    called = {name for _, name, kind in rows + tests if kind == "U"}
    return [f"{f}: {name}" for f, name, kind in sorted(rows)
            if kind == "T" and name not in called | {"main"}]


def named_but_absent():
    """Files that words name and nobody has: in pages, and in comments of sources."""
    every = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    if not every:
        return
    paths, names = set(every), {os.path.basename(f) for f in every}
    comment = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
    for f in every:
        if not f.endswith((".md", ".c", ".h")) or not (ROOT / f).exists():
            continue
        text = (ROOT / f).read_text(encoding="utf-8")
        words = [text] if f.endswith(".md") else comment.findall(text)
        for name in re.findall(r"(?<![\w./<-])[\w/-]+\.(?:c|h|sh|py)\b", "\n".join(words)):
            there = {name, os.path.normpath(os.path.join(room(f), name))} & paths if "/" in name \
                else name in names
            if not there and name not in OTHERS and "NAME" not in name \
                    and not os.path.exists(f"/usr/include/{name}"):
                yield f"{f}: {name}"


def broken_links():
    """Links of pages to files that are not there."""
    pages = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8") if (ROOT / page).exists() else ""
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            if not re.match(r"[a-z]+:", link) and not (ROOT / room(page) / link).exists():
                yield f"{page}: {link}"


def sees():
    """What is seen and what is not in a few made up edges."""
    files = {"csd/a.c", "csd/a.h", "csd/b.c", "csd/a_parts.h"}
    lawful = [("cmd/x.c", "run/y.h"), ("run/y.c", "data/db/z.h"), ("csd/a.c", "data/base/z.h"),
              ("data/task/a.c", "data/db/a.h"), ("kernels/a.c", "kernels/b.h")]
    against = [("run/y.c", "cmd/terminal/z.h"), ("csd/a.c", "offload/b.h"), ("csd/a.c", "data/db/b.h"),
               ("data/db/a.c", "data/task/b.h"), ("data/opt/a.c", "cmd/cmd.h"), ("nowhere/a.c", "csd/b.h")]
    if unlawful(lawful):
        yield f"what is lawful: {unlawful(lawful)}"
    if len(unlawful(against)) != len(against):
        yield f"of what is against the law only {unlawful(against)}"
    if circles([("a", "b"), ("b", "c"), ("a", "c"), ("a", "a")]):
        yield "a circle where there is none"
    if circles([("a", "b"), ("b", "a")]) != ["a -> b -> a"] or \
            len(circles([("a", "b"), ("b", "c"), ("c", "a"), ("d", "e"), ("e", "d")])) != 2:
        yield "circles are not seen"
    if unit("csd/a_parts.h", files) != "csd/a" or unit("csd/b.c", files) != "csd/b":
        yield "a file's unit is not found"


report("offenders are seen, and nothing else", list(sees()))
all_files = sources(*ROOMS)
known = set(all_files)
used = includes(all_files)
build = os.environ.get("BUILD", "build")
linked, missing = symbols(all_files, build)
tests, _ = symbols(sources("tests", "examples"), build)
called = calls(linked)

report("every room stands in the law", sorted({room(f) for f in all_files} - set(LAW)))
report("a room includes only what is below it", unlawful(used))
report("sqlite3.h is known to data/db alone",
       [f for f in all_files if room(f) != "data/db" and "#include <sqlite3.h>" in (ROOT / f).read_text()])
report("no circle of units, by what they include",
       circles({(unit(a, known), unit(b, known)) for a, b in used}))
report("every object is there, and newer than its source (make all test-bins)", missing)
report("a room calls only what is below it", unlawful(called))
report("no circle of units, by what they call", circles(called))
report("what nobody else calls is static", lonely(linked, tests))
report("every file that words name is there", list(named_but_absent()))
report("every link of a page leads to a file", list(broken_links()))
sys.exit(done())
