"""Runs a command, and kills it behind N lines that begin with a word: killed_after.py N WORD COMMAND... Exits as a shell says it: 137 if it was killed.

Its output is a pipe that holds one write at a time (O_DIRECT makes packets of them, and there is room for one), so that it cannot run
ahead of the reader: how many lines it has written when it is killed does not depend on time."""
import fcntl
import os
import subprocess
import sys


def main():
    most, word = int(sys.argv[1]), sys.argv[2].encode()
    reads, writes = os.pipe2(os.O_DIRECT)
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=writes) as child, open(reads, "rb") as lines:
        os.close(writes)
        for line in lines:
            most -= line.startswith(word)
            if most <= 0:
                child.kill()
                break
        code = child.wait()
    return 128 - code if code < 0 else code


sys.exit(main())
