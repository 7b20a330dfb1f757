#!/usr/bin/env python3
"""fuzz_tokenizer.py: the ids of `siTrain prepare` against those of Hugging Face's tokenizers, on strings of every kind.

    fuzz_tokenizer.py [--strings 3000] [--seed 1] [--tokenizer DIR] [--whole]

Strings are drawn by seed: any code points (assigned or not), combining marks, the ends of the surrogates' range, every white space and what
looks like it, contractions in every case, long runs, control characters, <|endoftext|> whole and in part, emoji sequences, windows of a text
and mixtures of all. NUL bytes are left out: prepare takes no text with them.
A batch of strings is a file each of one `prepare`, which puts <|endoftext|> between two; where a batch differs, its strings are asked one by one.
The tokenizer is read in all its forms: tokenizer.json, vocab.json + merges.txt, encoder.json + vocab.bpe. Without --tokenizer and SITRAIN_DATA
one is trained on what is drawn here. --whole: each text of SITRAIN_DATA is one more string, as it is.
Then folders with added tokens, in every file that may name them, against AutoTokenizer; and a folder that siTrain itself has written.
Environment: SITRAIN the program (./siTrain), SITRAIN_DATA a folder with gpt2-30m/ and text/. Needs tokenizers, transformers and numpy.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unicodedata

import numpy
from tokenizers import Tokenizer
from transformers import AutoTokenizer

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
DATA = os.environ.get("SITRAIN_DATA") or ""
END = "<|endoftext|>"
BATCH = 1000

SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200b))) + "\u2028\u2029\u202f\u205f\u3000"
NO_SPACES = "\x1c\x1d\x1e\x1f\u180e\u200b\u200c\u200d\u2060\ufeff\u2800\u3164\u115f"  # they look like it, or Python says so
SUFFIXES = ["s", "t", "re", "ve", "m", "ll", "d", "\u017f", "r", "v", "l", "em", "x", ""]  # U+017F folds to s
APOSTROPHES = "''''\u2019\u02bc`\uff07"
WORDS = ["the", "Hello", "WORLD", "naïve", "Straße", "ΑΒΓ", "привет", "東京", "ไทย", "한국어", "हिन्दी", "العربية", "א", "１２３", "٣٤", "Ⅷ", "½", "²",
         "1851", "007", "x1y2", "_", "__init__", "http://a.b/c?d=e&f#g", "$9.99", "...", "!?", "—", "“quoted”", "\\ud83d\\ude00", "&#128512;"]
EMOJI = ["👨‍👩‍👧‍👦", "👩🏽‍🚀", "🏳️‍🌈", "🇩🇪", "1️⃣", "❤️", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🙂", "🏿", "\u200d", "\ufe0f", "🇩"]
EDGES = [0x7f, 0x80, 0xff, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xf8ff, 0xfdd0, 0xfdef, 0xfffd, 0xfffe, 0xffff, 0x10000, 0x1fffe, 0x1ffff, 0x2ffff,
         0xe0001, 0xe01ef, 0xeffff, 0xf0000, 0xfffff, 0x100000, 0x10fffd, 0x10fffe, 0x10ffff]
MARKS = [chr(c) for c in range(0x300, 0x1ffff) if unicodedata.combining(chr(c)) or unicodedata.category(chr(c)).startswith("M")]


# ---- strings ----

def code_point(r, low, high):
    c = r.randrange(low, high)
    return "\ufffd" if 0xd800 <= c < 0xe000 else chr(c)


def any_plane(r):
    plane = r.choice([0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 13, 14, 15, 16])
    return code_point(r, max(1, plane << 16), (plane + 1) << 16)


def block(r):
    """Neighbours in one block, so that letters, marks, numbers and holes of a script meet."""
    start = r.choice([0, 0, 1]) << 16 | r.randrange(0, 0x10000, 64)
    return "".join(code_point(r, max(1, start), start + 128) for _ in range(r.randrange(1, 12)))


def end_of_text(r):
    i, j = sorted((r.randrange(len(END) + 1), r.randrange(len(END) + 1)))
    return r.choice([END, END[:j], END[i:], END[i:j], END[:j] + END, END + END[i:], END.upper(), END.replace("|", "||", 1)])


def contraction(r):
    s = r.choice(SUFFIXES)
    s = "".join(c.upper() if r.random() < 0.3 else c for c in s)
    return r.choice(["", " ", "it", "I", "東", "1", "\n", "."]) + r.choice(APOSTROPHES) + s + r.choice(["", " ", "s", "'", "1", "\n", "é"])


KINDS = {
    "planes": any_plane,
    "block": block,
    "ascii": lambda r: "".join(chr(r.randrange(1, 128)) for _ in range(r.randrange(1, 10))),
    "latin": lambda r: code_point(r, 0x80, 0x600),
    "marks": lambda r: r.choice(["e", "א", " ", "1", "", "ก", "🙂"]) + "".join(r.choice(MARKS) for _ in range(r.randrange(1, 5))),
    "edges": lambda r: chr(r.choice(EDGES)),
    "spaces": lambda r: "".join(r.choice(SPACES if r.random() < 0.8 else NO_SPACES) for _ in range(r.randrange(1, 6))) + r.choice(["", "a", "1", "!"]),
    "plain spaces": lambda r: r.choice([" ", "\n", "\r\n", "\t", "  "]) * r.randrange(1, 4),
    "contractions": contraction,
    "controls": lambda r: chr(r.choice([*range(1, 32), *range(127, 160)])),
    "end of text": end_of_text,
    "emoji": lambda r: r.choice(EMOJI),
    "words": lambda r: r.choice(["", " ", "  "]) + r.choice(WORDS),
}
BITS = list(KINDS.values())


def draw(r, text):
    """One string that is not empty (prepare refuses an empty file), and the kind it is of."""
    kind, s = "", ""
    while not s:
        kind, s = draw_any(r, text)
    return kind, s


def draw_any(r, text):
    kind = r.choice([*KINDS, "mixture", "mixture", "mixture", "run", "window", "window"])
    if kind == "mixture":
        return kind, "".join(r.choice(BITS)(r) for _ in range(r.randrange(1, 40)))
    if kind == "run":
        one = r.choice(BITS)(r)
        return kind, r.choice(["", "a", " "]) + one * r.choice([2, 3, 5, 9, 33, 129, 700]) + r.choice(["", "a", " ", "\n"])
    if kind == "window":
        at, n = r.randrange(len(text)), r.choice([5, 30, 200, 1500])
        return kind, text[at:at + n]
    return kind, "".join(KINDS[kind](r) for _ in range(r.randrange(1, 25)))


# ---- ids ----

def token_ids(path):
    """The ids of an llm.c token file, of 16 bits each or, by its header, of 32."""
    with open(path, "rb") as f:
        head, body = numpy.frombuffer(f.read(1024), "<i4"), f.read()
    kind = {(20240520, 1): "<u2", (20240801, 7): "<u4"}[int(head[0]), int(head[1])]
    ids = numpy.frombuffer(body, kind).astype("<u4")
    assert len(ids) == head[2], f"{path}: {len(ids)} ids, its header says {head[2]}"
    return ids


def prepared(folder, names, tmp):
    """The ids that prepare gives the files of these names in `tmp`, <|endoftext|> between two."""
    out = os.path.join(tmp, "ids.bin")
    done = subprocess.run([BIN, "prepare", *names, "--tokenizer", folder, "--out", out], cwd=tmp, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"prepare: {done.stderr.strip()}")
    return token_ids(out)


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)


def describe(text, got, want):
    at = next((i for i, (a, b) in enumerate(zip(got, want.ids)) if a != b), min(len(got), len(want.ids)))
    where = want.offsets[min(at, len(want.offsets) - 1)][0] if want.offsets else 0
    near = text[max(0, where - 5):where + 6]
    return (f"# {len(got)} ids, expected {len(want.ids)}; from {at} on {list(got[at:at + 4])}, expected {want.ids[at:at + 4]}\n"
            f"# at character {where} of {len(text)}: {near!r} = {[hex(ord(c)) for c in near]}")


def differing(folder, tokenizer, strings, tmp):
    """The strings of a batch whose ids are others, each with what differs. A byte order mark at the beginning of a file is no text."""
    for i, s in enumerate(strings):
        write(os.path.join(tmp, f"s{i}"), s)
    want = tokenizer.encode_batch([s.removeprefix("\ufeff") for s in strings], add_special_tokens=False)
    end = tokenizer.token_to_id(END)
    joined = numpy.array([i for w in want for i in (*w.ids, end)][:-1], "<u4")
    got = prepared(folder, [f"s{i}" for i in range(len(strings))], tmp)
    if numpy.array_equal(got, joined):
        return []
    bad = []
    for i, (s, w) in enumerate(zip(strings, want)):
        one = prepared(folder, [f"s{i}"], tmp)
        if one.tolist() != w.ids:
            bad.append((s, describe(s, one.tolist(), w)))
    return bad or [("", "# a batch differs, but none of its strings alone")]


def forms(folder, tmp):
    """The tokenizer's folder in each of its three forms: {name: folder}."""
    files = {"tokenizer.json": ["tokenizer.json"], "vocab.json and merges.txt": ["vocab.json", "merges.txt"],
             "encoder.json and vocab.bpe": ["encoder.json", "vocab.bpe"]}
    older = {"encoder.json": "vocab.json", "vocab.bpe": "merges.txt"}
    out = {}
    for i, (name, members) in enumerate(files.items()):
        out[name] = os.path.join(tmp, f"form{i}")
        os.mkdir(out[name])
        for m in members:
            source = os.path.join(folder, m)
            shutil.copy(source if os.path.exists(source) else os.path.join(folder, older[m]), os.path.join(out[name], m))
    return out


def trained(tmp, seed):
    """A tokenizer of our own, for where no other is at hand."""
    r, folder = random.Random(seed), os.path.join(tmp, "trained")
    write(os.path.join(tmp, "train.txt"), "".join(draw(r, " ".join(WORDS))[1] for _ in range(4000)))
    subprocess.run([BIN, "prepare", "train.txt", "--train-tokenizer", "--vocab", "3000", "--out", folder], cwd=tmp, check=True, stdout=subprocess.DEVNULL)
    return folder


# ---- folders with added tokens ----

def added(content, special=False, **more):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special, "special": special, **more}


def folders_with_added(n):
    """{what: (base files, {file: content})} for a vocabulary of n tokens. tokenizer.json: only its added_tokens, after those it has."""
    names = {k: END for k in ("bos_token", "eos_token", "unk_token")}
    config = {"tokenizer_class": "GPT2TokenizerFast", **names}
    decoder = {str(n + 1): added("foo bar"), str(n): added("[PAD]", True), str(n + 2): added("x[PAD]y")}
    one, pair = ["tokenizer.json"], ["vocab.json", "merges.txt"]
    out = {
        "no other file": {},
        "added_tokens.json": {"added_tokens": {"foo bar": n + 1, "[PAD]": n}, "tokenizer_config": config},
        "added_tokens.json and the map": {"added_tokens": {"[PAD]": n, "foo bar": n + 1}, "special_tokens_map": {**names, "pad_token": "[PAD]"}},
        "added_tokens_decoder": {"tokenizer_config": {**config, "pad_token": "[PAD]", "added_tokens_decoder": decoder}},
        "added_tokens_decoder before added_tokens.json": {"added_tokens": {"[CLS]": n},
                                                          "tokenizer_config": {**config, "added_tokens_decoder": decoder}},
        "a pad_token": {"tokenizer_config": {**config, "pad_token": "[PAD]", "mask_token": added("[PAD]x", True, __type="AddedToken")}},
        "the map alone": {"special_tokens_map": {"pad_token": added("[PAD]"), "additional_special_tokens": ["foo bar", "x[PAD]y"]}},
    }
    folders = {f"{base[0]}, {what}": (base, files) for what, files in out.items() for base in (one, pair)}
    folders["tokenizer.json's own"] = (one, {"tokenizer": [added("[PAD]", True, id=n), added("x[PAD]y", id=n + 1), added("[PAD]x", id=n + 2),
                                                           added("foo bar", id=n + 3), added("foo b", id=n + 4)], "tokenizer_config": config})
    return folders


def folder_make(source, where, base, files):
    os.mkdir(where)
    write(os.path.join(where, "config.json"), '{"model_type": "gpt2"}')
    for f in base:
        shutil.copyfile(os.path.join(source, f), os.path.join(where, f))
    for name, content in files.items():
        path = os.path.join(where, name + ".json")
        if name == "tokenizer":
            with open(path, encoding="utf-8") as f:
                whole = json.load(f)
            whole["added_tokens"] += content
            content = whole
        write(path, json.dumps(content))


def added_text(r, text):
    bits = ["[PAD]", "foo bar", "x[PAD]y", "[PAD]x", "foo b", "foo", "[", "x", "[PA", "<s>", "[CLS]", END, " ", "foo bar[PAD]"]
    return "".join(r.choice(bits) if r.random() < 0.7 else draw(r, text)[1] for _ in range(60))


def check_folder(folder, r, text, tmp):
    theirs = AutoTokenizer.from_pretrained(folder)
    for _ in range(4):
        s = added_text(r, text)
        write(os.path.join(tmp, "s0"), s)
        got, want = prepared(folder, ["s0"], tmp).tolist(), theirs.encode(s.removeprefix("\ufeff"), add_special_tokens=False)
        if got != want:
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            return f"# from {at} on {got[at:at + 6]}, expected {want[at:at + 6]} = {theirs.decode(want[max(0, at - 3):at + 6])!r}"
    return None


def check_added(source, tmp, seed, text, count):
    """The number of failures, and that of the tests so far."""
    with open(os.path.join(source, "vocab.json"), encoding="utf-8") as f:
        folders = folders_with_added(len(json.load(f)))
    r, failed, own = random.Random(seed), 0, trained(tmp, seed)
    write(os.path.join(own, "config.json"), '{"model_type": "gpt2"}')
    tests = {"a folder that siTrain wrote": own}
    for i, (name, (base, files)) in enumerate(folders.items()):
        tests[name] = os.path.join(tmp, f"added{i}")
        folder_make(source, tests[name], base, files)
    for name, folder in tests.items():
        try:
            why = check_folder(folder, r, text, tmp)
        except Exception as e:
            why = f"# {e}"
        count += 1
        failed += bool(why)
        print(f"{'not ok' if why else 'ok'} {count} - AutoTokenizer's ids: {name}" + (f"\n{why}" if why else ""), flush=True)
    return failed, count


def texts_of_data():
    folder = os.path.join(DATA, "text")
    return {f: open(os.path.join(folder, f), encoding="utf-8", newline="").read() for f in sorted(os.listdir(folder))} if DATA else {}


def run(args, tmp):
    own = os.path.join(tmp, "own")
    os.mkdir(own)
    folder = args.tokenizer or (os.path.join(DATA, "gpt2-30m") if DATA else trained(own, args.seed))
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    texts = texts_of_data()
    text = max(texts.values(), key=len) if texts else " ".join(WORDS * 50)
    kinds = forms(folder, tmp)
    r, failed, drawn, count = random.Random(args.seed), 0, {}, 0
    while sum(drawn.values()) < args.strings:
        batch = []
        for _ in range(min(BATCH, args.strings - sum(drawn.values()))):
            kind, s = draw(r, text)
            drawn[kind] = drawn.get(kind, 0) + 1
            batch.append(s)
        form = list(kinds)[count % len(kinds)]
        bad = differing(kinds[form], tokenizer, batch, tmp)
        count += 1
        failed += len(bad)
        if bad:
            print(f"not ok {count} - {form}: {len(bad)} of {len(batch)} strings have other ids; the first:\n{bad[0][1]}", flush=True)
        else:
            print(f"ok {count} - {form}: the ids of {len(batch)} strings", flush=True)
    for name, whole in texts.items() if args.whole else ():
        for form, where in kinds.items():
            bad = differing(where, tokenizer, [whole], tmp)
            count += 1
            failed += len(bad)
            print(f"{'not ok' if bad else 'ok'} {count} - {form}: the ids of {name}" + (f"\n{bad[0][1]}" if bad else ""), flush=True)
    more, count = check_added(folder, tmp, args.seed, text, count)
    failed += more
    print(f"# {sum(drawn.values())} strings (seed {args.seed}): " + ", ".join(f"{n} {k}" for k, n in sorted(drawn.items())))
    print(f"1..{count}")
    return 1 if failed else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--strings", type=int, default=3000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--tokenizer", help="a folder with tokenizer.json, vocab.json and merges.txt")
    p.add_argument("--whole", action="store_true", help="the texts of SITRAIN_DATA too, as they are")
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="sitrain-fuzz-", dir="/var/tmp") as tmp:
        return run(args, tmp)


if __name__ == "__main__":
    sys.exit(main())
