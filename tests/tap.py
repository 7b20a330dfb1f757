"""tap.py: what Python tests share: TAP; and, for those that look at the sources, the sources."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ["cmd", "bench", "report", "run", "plan", "model", "offload", "chat", "csd", "comm", "kernels",
         "data"]
# What is no code: comments, texts, characters, lines of the preprocessor.
NO_CODE = re.compile(r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
                         | ^[ \t]*\#(?:\\\n|[^\n])*""", re.S | re.M | re.X)
LAST_LINES = 30  # of why something failed, at most
count = failed = 0


def result(ok, name, why=""):
    """A check; where it failed the last lines of `why`. Returns ok."""
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}", flush=True)
    if not ok and why:
        print("\n".join("# " + line for line in str(why).strip().splitlines()[-LAST_LINES:]), flush=True)
    return ok


def skip(name, why):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {why}", flush=True)


def report(name, offenders):
    """ok where there are no offenders, else a line for each."""
    result(not offenders, name)
    for line in offenders:
        print(f"# {line}")


def done():
    """The plan; returns the exit status."""
    print(f"1..{count}")
    return 1 if failed else 0


def sources(*folders):
    """The .c and .h files in these folders, as paths from the repository's root, in order."""
    return sorted(str(p.relative_to(ROOT)) for f in folders for p in (ROOT / f).rglob("*.[ch]"))
