"""common.py: what the long proofs share: the program, how it is started, and tests/tap.py."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # noqa: E402

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
ENV = dict(os.environ, OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
result = tap.result


def run(*args, timeout=None):
    """Exit code, stdout and stderr of the program."""
    p = subprocess.run([BIN, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=ENV, timeout=timeout)
    return p.returncode, p.stdout, p.stderr


def must(*args, timeout=None):
    """Stdout; RuntimeError where the program fails."""
    code, out, err = run(*args, timeout=timeout)
    if code:
        raise RuntimeError(f"{' '.join(args)}: exit {code}: {err}")
    return out
