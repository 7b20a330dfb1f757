#!/usr/bin/env python3
"""on_tty.py COLUMNS [--key PATTERN]... COMMAND...: run it on a terminal of so many columns, its input, output and errors; what
it wrote there goes to stdout as it is, and as it comes. --key: press Ctrl-C as soon as the regular expression has appeared; given again, once
more as soon as that one has appeared behind the first, and more than a second later. --type PATTERN TEXT and --size PATTERN COLUMNS[xROWS] do these in the same row. Exits as
it did."""
import os, pty, re, select, struct, sys, fcntl, termios, time

args = sys.argv[1:]
columns = int(args.pop(0))
keys = []  # (pattern, what is done then)
while args[0] in ("--key", "--type", "--size"):
    value = args[2] if args[0] != "--key" else "\x03"
    do = (lambda size: set_size(fd, *map(int, size.split("x")))) if args[0] == "--size" else lambda text: os.write(fd, text.encode())
    keys.append((re.compile(args[1].encode()), lambda do=do, value=value: do(value)))
    args = args[2 if args[0] == "--key" else 3:]


def set_size(terminal, columns, rows=24):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


pid, fd = pty.fork()
if pid == 0:
    set_size(0, columns)
    os.execvp(args[0], args)
seen, after, deadline = b"", 0, time.monotonic() + 600
while time.monotonic() < deadline:
    ready, _, _ = select.select([fd], [], [], 1)
    try:
        part = os.read(fd, 65536) if ready else None
    except OSError:  # the other end is closed
        break
    if part == b"":
        break
    seen += part or b""
    sys.stdout.buffer.write(part or b"")
    sys.stdout.flush()
    if keys and keys[0][0].search(seen, after):
        if after:  # what comes within a second of the first Ctrl-C is the first
            time.sleep(1.2)
        after = len(seen)
        deadline = time.monotonic() + 120  # it is answered
        keys.pop(0)[1]()
else:
    os.kill(pid, 9)
_, status = os.waitpid(pid, 0)
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
