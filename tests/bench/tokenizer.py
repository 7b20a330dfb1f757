#!/usr/bin/env python3
"""tokenizer.py: how fast siTrain tokenises, beside tiktoken, on one thread.

    tokenizer.py TEXT TOKENIZER [--rounds 5] [--dir /tmp]

TOKENIZER is a folder with tokenizer.json; tiktoken gets the same ranks from it. Rounds are interleaved and every other one begins with the
other engine, since a shared machine's speed drifts: the ratio is formed inside a round, then medians are taken. Both are first asked for their
ids, which must be equal, so both measure the same work.
  siTrain   CPU seconds of `siTrain prepare TEXT`, less those of `prepare` on a text of one byte. So included are reading the text twice (once to
            see that it is UTF-8), the pre-tokens, merging, and writing the token file; left out are the start and the loading of the tokenizer.
  tiktoken  CPU seconds of Encoding.encode_ordinary of the text, strings in memory, in pieces of 64 KiB (faster than in one call); nothing is
            read or written.
CPU seconds and not those of the clock, as the machine may have other work; siTrain's are of all its threads.
Environment: SITRAIN the program (./siTrain). Needs tiktoken.
"""
import argparse
import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import tiktoken

BIN = os.path.abspath(os.environ.get("SITRAIN") or "./siTrain")
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"  # GPT-2's, as tiktoken writes it
END = "<|endoftext|>"


def byte_of_char():
    """GPT-2's mapping of bytes to printable characters, the other way round."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}


def encoding(folder):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        vocab = json.load(f)["model"]["vocab"]
    table = byte_of_char()
    ranks = {bytes(table[c] for c in name): i for name, i in vocab.items() if name != END}
    return tiktoken.Encoding("local", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END: len(ranks)})


def prepare(text, folder, out):
    """CPU seconds of one prepare."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([BIN, "prepare", text, "--tokenizer", folder, "--out", out], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(args, tmp):
    one, out = os.path.join(tmp, "one"), os.path.join(tmp, "ids.bin")
    with open(one, "w") as f:
        f.write("a")
    return prepare(args.text, args.tokenizer, out) - prepare(one, args.tokenizer, out)


def theirs(enc, pieces):
    start = time.process_time()
    for piece in pieces:
        enc.encode_ordinary(piece)
    return time.process_time() - start


def same_ids(enc, text, args, tmp):
    out = os.path.join(tmp, "ids.bin")
    prepare(args.text, args.tokenizer, out)
    with open(out, "rb") as f:
        ids = struct.unpack(f"<{(os.path.getsize(out) - 1024) // 2}H", f.read()[1024:])
    return list(ids) == enc.encode(text, allowed_special="all")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text")
    p.add_argument("tokenizer")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--dir", default="/tmp")
    args = p.parse_args()
    with open(args.text, encoding="utf-8", newline="") as f:
        text = f.read()
    pieces = [text[i:i + 65536] for i in range(0, len(text), 65536)]
    megabytes, enc, rounds = os.path.getsize(args.text) / 1e6, encoding(args.tokenizer), []
    with tempfile.TemporaryDirectory(prefix="sitrain-tokens-", dir=args.dir) as tmp:
        if not same_ids(enc, text, args, tmp):
            sys.exit("siTrain's ids and tiktoken's differ")
        for i in range(args.rounds):
            a = ours(args, tmp) if i % 2 == 0 else None
            b = theirs(enc, pieces)
            rounds.append((ours(args, tmp) if a is None else a, b))
            print(f"round {i + 1}: siTrain {megabytes / rounds[-1][0]:.1f} MB/s, tiktoken {megabytes / b:.1f} MB/s", flush=True)
    ratio = statistics.median(b / a for a, b in rounds)
    print(f"siTrain {megabytes / statistics.median(a for a, _ in rounds):.1f} MB/s, "
          f"tiktoken {tiktoken.__version__} {megabytes / statistics.median(b for _, b in rounds):.1f} MB/s, ratio {ratio:.2f} "
          f"(medians of {args.rounds}; {megabytes:.1f} MB, {os.path.basename(args.text)})")


if __name__ == "__main__":
    main()
