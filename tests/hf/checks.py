"""checks.py: what the checks against Hugging Face's libraries share: TAP, and the program's words."""
import os
import subprocess

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
failed = count = 0


def result(ok, name, why=""):
    global failed, count
    count += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}", flush=True)
    if not ok:
        failed += 1
        print("\n".join("# " + line for line in str(why).splitlines()[-15:]), flush=True)


def skip(name, why):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {why}", flush=True)


def done():
    """The exit status."""
    print(f"1..{count}")
    return 1 if failed else 0


def sitrain(*arguments):
    """The program's stdout as bytes; its words and an AssertionError if it fails."""
    ran = subprocess.run([BIN, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, f"siTrain {' '.join(map(str, arguments))}: exit {ran.returncode}\n{ran.stderr.decode()}"
    return ran.stdout
