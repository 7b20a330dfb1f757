#!/usr/bin/env python3
"""style.py: what can be counted of how the code should read: no line has more than 100 columns, no
file more than 600 lines, no function more than 70, none more than 8 parameters; the Makefile has at
most 200 lines; pages' prose has 100 columns, too; and every message
that docs/messages.md explains is one that the program has. TAP."""
import re
import sys

from tap import NO_CODE, ROOT, ROOMS, done, report, sources

COLUMNS, FILE_LINES, FUNCTION_LINES, PARAMETERS = 100, 600, 70, 8
MAKEFILE_LINES = 200

# Parentheses with parentheses inside, three deep.
INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
ATTRIBUTE = re.compile(rf"__attribute__\s*\({INSIDE}\)")
HEAD = re.compile(rf"\b\w+\s*\(({INSIDE})\)\s*$")


def functions(text):
    """(line, lines between its braces, parameters) of each function that the text defines."""
    code = NO_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    code = ATTRIBUTE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), code)
    line = lambda at: code.count("\n", 0, at) + 1
    depth, begin, found = 0, 0, None
    for m in re.finditer(r"[{};]", code):
        if m.group() == "{":
            head = HEAD.search(code[begin:m.start()]) if depth == 0 else None
            if head:
                first = begin + len(code[begin:]) - len(code[begin:].lstrip())
                found = (line(first), line(m.start()), parameters(head.group(1)))
            depth += 1
        elif m.group() == "}":
            depth -= 1
            if depth == 0 and found:
                yield found[0], max(0, line(m.start()) - found[1] - 1), found[2]
                found = None
        if depth == 0:
            begin = m.end()


def parameters(text):
    """How many a list of parameters has: commas outside of inner parentheses, and one."""
    while re.search(r"\([^()]*\)", text):
        text = re.sub(r"\([^()]*\)", "", text)
    return 0 if text.strip() in ("", "void") else text.count(",") + 1


def offenders(name, text):
    """(rule, "FILE:LINE: N") of all that is too much in a file."""
    lines = text.splitlines()
    yield from (("columns", f"{name}:{i}: {len(s)}") for i, s in enumerate(lines, 1) if len(s) > COLUMNS)
    if len(lines) > FILE_LINES:
        yield "file", f"{name}: {len(lines)}"
    for line, length, n in functions(text):
        if length > FUNCTION_LINES:
            yield "function", f"{name}:{line}: {length}"
        if n > PARAMETERS:
            yield "parameters", f"{name}:{line}: {n}"


def long_prose(page):
    """Lines of a page's prose with too many columns. What cannot be wrapped is left: code, tables, and a
    word or a command that is too long by itself."""
    code, blank, indented = False, True, False
    for i, line in enumerate(page.splitlines(), 1):
        if re.match(r"\s*```", line):
            code = not code
        indented = line.startswith("    ") and (blank or indented)
        blank = not line.strip()
        if len(line) > COLUMNS and not (code or indented or re.match(r"\s*(\||!\[)", line)) \
                and len(re.sub("`[^`]*`", "code", line).split()) > 1:
            yield i


def sees():
    """What is seen and what is not in texts that are just within the limits and just beyond."""
    nine = ",\n".join(f"int p{i}" for i in range(9))
    body = lambda n: "{\n" + "    f();\n" * n + "}\n"
    within = [
        "int f(void)\n" + body(70),
        f"int f({nine[:-8]})\n" + body(1),
        "int f(int (*g)(int, int, int), struct s { int a, b; } *p, " + nine[:-24] + ")\n" + body(1),
        f"int f({nine});\nint g(void)\n" + body(1),
        "int x[] = {\n" + "    1,\n" * 80 + "};\nstruct s {\n" + "    int a;\n" * 80 + "};\n",
        "// " + "ü" * 97 + "\n",
        "int f(void)\n{\n    puts(\"}\"); // }\n" + "    f();\n" * 60 + "}\n",
        "\n" * 600,
    ]
    beyond = [
        ("function", 1, "int f(void)\n" + body(71)),
        ("function", 2, "\nstatic inline struct s *\nf(int a)\n" + body(71)),
        ("function", 3, "#define M(x) \\\n    { x }\nint f(void)\n" + body(71)),
        ("function", 1, "int f(void)\n{\n    puts(\"{\"); /* } */\n" + "    f();\n" * 70 + "}\n"),
        ("function", 1, "__attribute__((format(printf, 1, 2))) int f(const char *s, ...)\n" + body(71)),
        ("parameters", 1, f"static inline struct s *\nf({nine})\n" + body(1)),
        ("parameters", 1, f"static inline int f({nine}) {{ return 0; }}\n"),
        ("parameters", 1, "int f(int a, // first, (of all\n" + nine[:-8] + ")\n" + body(1)),
        ("file", 0, "\n" * 601),
        ("columns", 1, "// " + "ü" * 98 + "\n"),
    ]
    for text in within:
        yield from (f"{rule} seen in {text[:60]!r}" for rule, _ in offenders("x.c", text))
    for rule, line, text in beyond:
        found = list(offenders("x.c", text))
        place = f"x.c:{line}:" if line else "x.c:"
        if len(found) != 1 or found[0][0] != rule or not found[0][1].startswith(place):
            yield f"{rule} not seen in {text[:60]!r}: {found}"


def no_messages(page, files):
    """What the page quotes in bold, "..." for what varies, and no text of the sources has."""
    said = "".join("".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', f)) for f in files)
    for quote in re.findall(r"\*\*`([^`]*)`\*\*", page):
        for part in re.split(r"\.\.\.", " ".join(quote.split())):
            if part.strip(" ;:,()") not in said:
                yield f"{quote!r}: {part!r}"


def lost_places(page):
    """Rows of docs/internals/where.md whose file is gone, or no longer defines the function."""
    for file, function in re.findall(r"\| `([^`]*)` \| `([^`]*)` \|", page):
        text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
        if not re.search(rf"^[a-z][^;\n]*\b{function}\(", text, re.M):
            yield f"{file}: {function}"


report("offenders are seen, and nothing else", list(sees()))
files = sources(*ROOMS, "examples", "tests")
all_of_them = [o for f in files for o in offenders(f, (ROOT / f).read_text(encoding="utf-8"))]
for rule, name in (("columns", f"no line has more than {COLUMNS} columns"),
                   ("file", f"no file has more than {FILE_LINES} lines"),
                   ("function", f"no function has more than {FUNCTION_LINES} lines"),
                   ("parameters", f"no function has more than {PARAMETERS} parameters")):
    report(name, [place for r, place in all_of_them if r == rule])
word = "word " * 20
pages = [p for p in ROOT.rglob("*.md") if not any(part.startswith(("build", ".")) for part in p.relative_to(ROOT).parts)]
seen = list(long_prose(f"{word}\n{word}x\n- {word}x\n\n    {word}\n\n| {word} |\n```\n{word}x\n```\n{word}x\n"))
report(f"no line of a page's prose has more than {COLUMNS} columns",
       [f"{p.relative_to(ROOT)}:{i}" for p in pages for i in long_prose(p.read_text(encoding="utf-8"))]
       + ([] if seen == [2, 3, 11] else [f"seen: {seen}"]))
lines = (ROOT / "Makefile").read_text(encoding="utf-8").count("\n")
report(f"the Makefile has at most {MAKEFILE_LINES} lines", [lines] if lines > MAKEFILE_LINES else [])
messages = (ROOT / "docs/messages.md").read_text(encoding="utf-8")
texts = [(ROOT / f).read_text(encoding="utf-8") for f in sources(*ROOMS) if f.endswith(".c")]
lost = list(no_messages(messages + "**`nobody says ... this`**", texts))
report("every message that docs/messages.md explains is the program's", lost[:-1] if "nobody says" in lost[-1] else ["lost"])
places = (ROOT / "docs/internals/where.md").read_text(encoding="utf-8")
lost = list(lost_places(places + "| `tests/ref.c` | `nowhere` |"))
report("every function that docs/internals/where.md names is in its file",
       lost[:-1] if "nowhere" in lost[-1] and "| `" in places else ["lost"])
sys.exit(done())
