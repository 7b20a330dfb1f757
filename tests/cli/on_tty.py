#!/usr/bin/env python3
"""on_tty.py COLUMNS [--key PATTERN]... COMMAND...: run it on a terminal of so many columns, its input, output and errors; what
it wrote there goes to stdout as it is. --key: press Ctrl-C as soon as the regular expression has appeared; given again, once
more as soon as that one has appeared behind the first. Exits as it did."""
import os, pty, re, select, struct, sys, fcntl, termios, time

args = sys.argv[1:]
columns = int(args.pop(0))
keys = []
while args[0] == "--key":
    keys.append(re.compile(args[1].encode()))
    args = args[2:]

pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execvp(args[0], args)
seen, after, deadline = b"", 0, time.monotonic() + 120
while time.monotonic() < deadline:
    ready, _, _ = select.select([fd], [], [], 1)
    try:
        part = os.read(fd, 65536) if ready else None
    except OSError:  # the other end is closed
        break
    if part == b"":
        break
    seen += part or b""
    if keys and keys[0].search(seen, after):
        after = len(seen)
        deadline = time.monotonic() + 30  # it is answered
        del keys[0]
        os.write(fd, b"\x03")
else:
    os.kill(pid, 9)
sys.stdout.buffer.write(seen)
sys.stdout.flush()
_, status = os.waitpid(pid, 0)
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
