#!/usr/bin/env python3
"""run.py [--jobs N] TEST...: run test programs side by side and count what they say.

A test is a cmocka program, a shell script or a Python script; all speak TAP. One that dies, or ends without a plan
('1..N') or with another number of results than it says, counts as failed. A line for each as it ends, with its failed checks and the last lines of what it printed
where it failed; what runs is named whenever nothing ended for a while. They begin in the order given: those that
take longest first. The last lines name the tests that took most of the processors' time and what failed, and say
'N passed, N failed, N skipped'.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

QUIET_SECONDS = 15  # without a line for so long, the tests that run are named
LAST_LINES = 60
CHECK_LINES = 30  # at most, of what is printed about a failed check
SLOWEST = 5  # tests are named at the end, with the seconds that they took of the processors
LAST_CHECK_LINES = 8  # of these, what is said again at the end, where a log that was cut still has it

OK = re.compile(r"^ok\b")
NOT_OK = re.compile(r"^not ok\b")
SKIP = re.compile(r"# *skip", re.I)
PLAN = re.compile(r"^1\.\.(\d+)\b")

ENVIRONMENT = {
    "CMOCKA_MESSAGE_OUTPUT": "TAP",
    "OMP_WAIT_POLICY": "passive",  # threads that spin slow each other down on shared cores
    # Freed memory that is kept longer leaves the caches: with the default of 256 the power cuts take half as long again.
    "ASAN_OPTIONS": "quarantine_size_mb=2:thread_local_quarantine_size_kb=128",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",  # undefined behaviour is a failure, not a remark
}


def count(code, lines):
    """(passed, failed, skipped) of a program that exited with `code` and printed `lines`."""
    results = [line for line in lines if OK.match(line) or NOT_OK.match(line)]
    skipped = sum(1 for line in results if SKIP.search(line))
    failed = sum(1 for line in results if NOT_OK.match(line) and not SKIP.search(line))
    passed = len(results) - skipped - failed
    plan = [int(PLAN.match(line)[1]) for line in lines if PLAN.match(line)]
    if failed == 0 and (code != 0 or not results or plan != [len(results)]):
        failed += 1
    return passed, failed, skipped


def failures(lines):
    """The failed checks, each with what was printed about it: the lines from it to the next result."""
    found, about = [], None
    for line in lines:
        if OK.match(line) or NOT_OK.match(line):
            about = None
            if NOT_OK.match(line) and not SKIP.search(line):
                found.append(about := [])
        if about is not None and len(about) < CHECK_LINES:
            about.append(line)
    return found


def command(test):
    if test.endswith(".sh"):
        return ["sh", test]
    return [sys.executable, test] if test.endswith(".py") else [test]


class Runner:
    """What has run and what runs; `lock` guards all of it and standard output."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = {}  # test -> when it began
        self.sums = [0, 0, 0]
        self.used = []  # (seconds of processors, test)
        self.failed = []  # a line for each test that failed, then some for each of its checks
        self.spoke = time.monotonic()
        self.ended = threading.Event()

    def say(self, text):
        print(text, flush=True)
        self.spoke = time.monotonic()

    def run(self, test):
        began = time.monotonic()
        with self.lock:
            self.running[test] = began
        with tempfile.TemporaryFile() as log:
            try:
                p = subprocess.Popen(command(test), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     env={**ENVIRONMENT, **os.environ})
                _, status, used = os.wait4(p.pid, 0)
                code = p.returncode = os.waitstatus_to_exitcode(status)
                processors = used.ru_utime + used.ru_stime
            except OSError as e:
                code, processors = 126, 0
                log.write(f"{e}\n".encode())
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
        self.report(test, code, lines, (time.monotonic() - began, processors))

    def report(self, test, code, lines, times):
        passed, failed, skipped = count(code, lines)
        with self.lock:
            del self.running[test]
            self.used.append((times[1], test))
            self.sums = [a + b for a, b in zip(self.sums, (passed, failed, skipped))]
            self.say(f"{test:<44} {passed:4} passed {failed:3} failed {skipped:3} skipped  {times[0]:4.0f} s, processors {times[1]:4.0f} s")
            if failed:
                checks = failures(lines)
                self.failed += [f"failed: {test} (exited {code})", *("    " + line for about in checks for line in about[:LAST_CHECK_LINES])]
                self.say("\n".join([f"--- {test} exited {code}; its failed checks:", *sum(checks, []),
                                    "--- its last lines:", *lines[-LAST_LINES:], "---"]))
            for line in lines:
                if SKIP.search(line):
                    self.say("    " + line)

    def tell_what_runs(self):
        while not self.ended.wait(1):
            with self.lock:
                now = time.monotonic()
                if self.running and now - self.spoke > QUIET_SECONDS:
                    self.say("    running: " + ", ".join(f"{t} ({now - b:.0f} s)" for t, b in self.running.items()))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) + 2,
                   help="tests at a time (two more than CPUs: tests wait for drives, for other processes and for time)")
    p.add_argument("tests", nargs="*", metavar="TEST")
    o = p.parse_args()
    runner = Runner()
    threading.Thread(target=runner.tell_what_runs, daemon=True).start()
    with concurrent.futures.ThreadPoolExecutor(max(o.jobs, 1)) as pool:
        list(pool.map(runner.run, o.tests))
    runner.ended.set()
    print("most processor time: " + ", ".join(f"{test} {used:.0f} s" for used, test in sorted(runner.used)[:-SLOWEST - 1:-1]))
    print("\n".join(runner.failed), end="\n" if runner.failed else "")
    passed, failed, skipped = runner.sums
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
