#!/usr/bin/env python3
"""owners.py: every call in the sources that creates, renames, removes, cuts or relabels something by
name stands in tests/cli/owners.txt, with the commands that reach it and the tests that look at
somebody's bytes afterwards. A call that is added, or that goes, fails here until its row is right.
What may be called for this lies in one function (docs/internals/files.md), so those are calls, too.
TAP."""
import collections
import re
import sys

from tap import NO_CODE, ROOT, ROOMS, done, report, sources

TABLE = "tests/cli/owners.txt"
# Words that make a call one that creates or shares, and calls that name what they change.
WORDS = """O_CREAT O_TRUNC O_TMPFILE FICLONE FICLONERANGE BLKDISCARD BLKZEROOUT SQLITE_OPEN_READWRITE
    SQLITE_OPEN_CREATE""".split()
CALLS = """rename renameat renameat2 unlink unlinkat rmdir remove mkdir mkdirat link linkat symlink
    symlinkat mkstemp mkostemp mkdtemp mkfifo mknod ftruncate truncate nftw fallocate
    posix_fallocate copy_file_range creat freopen chmod fchmod fchmodat chown fchown lchown fchownat
    setxattr lsetxattr fsetxattr removexattr fremovexattr utimensat futimens
    file_new_open file_new_folder file_new_find file_new_take file_new_scratch file_new_aside
    file_new_clear_left file_new_clean file_new_remove_dead file_put_aside file_rename_new file_write_whole file_copy file_copy_like
    file_open_own file_remove_tree file_make_folder file_have_folder file_set_length append_open
    json_write output_put""".split()
SITE = re.compile(rf"(?<![\w.>])(?:({'|'.join(WORDS)})\b|({'|'.join(CALLS)})\s*\(|fopen\s*\([^;]*?, \"[wa])")


def sites(text):
    """How often each of them is called in a source, as the table has it: "rename unlink*2"."""
    code = NO_CODE.sub(lambda m: m.group() if m.group()[0] == '"' else " ", text)
    code = re.sub(r'"(?![wa][be+]*")[^"\n]*"', '""', code)  # texts, but for fopen's modes
    calls = (m for m in SITE.finditer(code) if code[code.rfind("\n", 0, m.start()) + 1].isspace())
    n = collections.Counter(m.group(1) or m.group(2) or "fopen" for m in calls)
    return " ".join(f"{name}*{times}" if times > 1 else name for name, times in sorted(n.items()))


def table(text):
    """{file: (sites, [tests])} of the rows: "FILE: SITES", indented lines of words, "shown by: TESTS"."""
    rows = {}
    for row in re.split(r"\n\n+", text):
        m = re.fullmatch(r"(\w[\w/]*\.c): ((?:[\w*]+\s+)+?)((?: {4}\S.*\n)+?) {4}shown by: ((?:[\w.]+\s*)+)", row)
        if m:
            rows[m.group(1)] = " ".join(m.group(2).split()), m.group(4).split()
    return rows


def wrong(found, rows):
    """A line for each file of which the table and the sources do not say the same."""
    for name in sorted(found.keys() | rows.keys()):
        have, says = found.get(name, ""), rows.get(name, ("", []))[0]
        if have != says:
            yield f"{name}: {have or 'no such call'}; {TABLE} says: {says or 'nothing'}"


def sees():
    """What is seen and what is not in a few made up lines."""
    code = 'int rmdir(char *p);\n    open(p, O_CREAT | O_EXCL);\n    rename(a, b); // rename(c, d)\n    f->remove(x); my_link(y);\n' \
           '    err("unlink(%s)", p); f = fopen(p, "wb"); g = fopen(p, "re"); rename(c, d);\n'
    if sites(code) != "O_CREAT fopen rename*2":
        yield f"the calls of a source: {sites(code)}"
    rows = table("words\n\na/b.c: mkdir rename*2\n    some words\n    shown by: x.sh y.py\n\nmore: words\n")
    if rows != {"a/b.c": ("mkdir rename*2", ["x.sh", "y.py"])}:
        yield f"the rows of a table: {rows}"
    if len(list(wrong({"a.c": "mkdir", "b.c": "rmdir", "c.c": "link"}, {"a.c": ("mkdir", []), "b.c": ("", []), "d.c": ("link", [])}))) != 3:
        yield "what differs is not seen"


def main():
    found = {name: sites((ROOT / name).read_text(encoding="utf-8")) for name in sources(*ROOMS)}
    found = {name: calls for name, calls in found.items() if calls}
    if sys.argv[1:] == ["--print"]:
        print("\n".join(f"{name}: {calls}" for name, calls in found.items()))
        return 0
    rows = table((ROOT / TABLE).read_text(encoding="utf-8"))
    report("calls and rows are seen, and nothing else", list(sees()))
    report("each call that changes names stands in the table of whose they are", list(wrong(found, rows)))
    places = ("tests/cli", "tests/prove", "tests/fuzz", "tests")
    report("each row names tests that are there",
           [f"{name}: {t}" for name, (_, tests) in rows.items() for t in tests or ["none"]
            if not any((ROOT / p / t).exists() for p in places)])
    return done()


if __name__ == "__main__":
    sys.exit(main())
