#!/usr/bin/env python3
"""on_tty.py COLUMNS [--key PATTERN] COMMAND...: run it on a terminal of so many columns, its input, output and errors; what it
wrote there goes to stdout as it is. --key: press Ctrl-C as soon as the regular expression has appeared. Exits as it did."""
import os, pty, re, select, struct, sys, fcntl, termios, time

args = sys.argv[1:]
columns = int(args.pop(0))
key = None
if args[0] == "--key":
    key = re.compile(args[1].encode(), re.S)
    args = args[2:]

pid, fd = pty.fork()
if pid == 0:
    time.sleep(0.05)  # until the size is set
    os.execvp(args[0], args)
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
seen, pressed, deadline = b"", False, time.monotonic() + 120
while time.monotonic() < deadline:
    ready, _, _ = select.select([fd], [], [], 1)
    try:
        part = os.read(fd, 65536) if ready else None
    except OSError:  # the other end is closed
        break
    if part == b"":
        break
    seen += part or b""
    if key and not pressed and key.search(seen):
        pressed = True
        deadline = time.monotonic() + 30  # it is answered
        os.write(fd, b"\x03")
else:
    os.kill(pid, 9)
sys.stdout.buffer.write(seen)
sys.stdout.flush()
_, status = os.waitpid(pid, 0)
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
