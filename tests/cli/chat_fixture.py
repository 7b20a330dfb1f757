#!/usr/bin/env python3
"""What siTrain made of the conversations in tests/fixtures/chat_steps, against what transformers computes (make_chat_steps.py); and of the
preferences in tests/fixtures/dpo, against TRL (make_dpo.py).

    chat_fixture.py ids FIXTURES TRAIN.ex [texts]     the rows' ids and marks
    chat_fixture.py steps FIXTURES MODEL RUN FILE     losses, norms and rewards of run.db, and the parameters in FILE after the last step
    chat_fixture.py gradients FIXTURES MODEL BEFORE AFTER RATE
                                                      parameters before and after a step of plain descent at this rate

Each prints the largest difference, relative to the number or, of a tensor's elements, to its norm's share for one; above 1e-5 it fails.
"""
import json
import os
import sqlite3
import struct
import sys

MOST, SAMPLES = 1e-5, 16


def tensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head, data = json.loads(f.read(n)), f.read()
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            assert t["dtype"] == "F32", t
            out[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return out


def off(found, expected, scale=None):
    return abs(found - expected) / (scale or abs(expected))


def sketches_off(found, expected):
    """found: name -> values; expected: name -> norm and samples."""
    worst = 0.0
    for name, (norm, *samples) in expected.items():
        t = found[name]
        n = len(t)
        at = [i * n // min(n, SAMPLES) for i in range(min(n, SAMPLES))]
        worst = max(worst, off(sum(v * v for v in t) ** 0.5, norm))
        worst = max([worst] + [off(t[i], v, norm) for i, v in zip(at, samples)])
    return worst


def ids(fixtures, path, which="rows"):
    expected = json.load(open(os.path.join(fixtures, "expected.json")))[which]
    with open(path, "rb") as f:
        data = f.read()
    magic, version, longest, rows, n = struct.unpack_from("<8sIIQQ", data)
    assert (magic, version, rows) == (b"siTrainE", 3, len(expected)), (magic, version, rows)
    stored = struct.unpack_from(f"<{n}i", data, 48)
    for i, row in enumerate(expected):
        first, length = struct.unpack_from("<QI", data, 48 + 4 * n + 24 * i)
        here = stored[first:first + length]
        assert [v if v >= 0 else ~v for v in here] == row["ids"], f"row {i}"
        assert [int(v >= 0) for v in here] == row["marks"], f"row {i}: marks"
    return 0.0


def steps(fixtures, model, run, file):
    all_of_it = json.load(open(os.path.join(fixtures, "expected.json")))
    expected = all_of_it["models"][model]
    db = sqlite3.connect(os.path.join(run, "run.db"))
    found = db.execute("SELECT loss, grad_norm FROM steps ORDER BY step").fetchall()
    assert len(found) == all_of_it["steps"], found
    worst = max(max(off(f[0], loss), off(f[1], norm)) for f, loss, norm in zip(found, expected["losses"], expected["norms"]))
    if "rewards" in expected:
        found = db.execute("SELECT chosen, rejected, accuracy FROM rewards ORDER BY step").fetchall()
        assert len(found) == all_of_it["steps"], found
        worst = max([worst] + [off(f, r, max(1, abs(r))) for row, due in zip(found, zip(*expected["rewards"])) for f, r in zip(row, due)])
    # a bias of keys has no gradient but what rounding leaves, and AdamW makes steps of that
    after = {n: s for n, s in expected["after"].items() if not n.endswith("c_attn.bias")}
    return max(worst, sketches_off(tensors(file), after))


def gradients(fixtures, model, before, after, rate):
    expected = json.load(open(os.path.join(fixtures, "expected.json")))["models"][model]["grads"]
    a, b = tensors(before), tensors(after)
    return sketches_off({name: [(x - y) / float(rate) for x, y in zip(a[name], b[name])] for name in expected}, expected)


worst = {"ids": ids, "steps": steps, "gradients": gradients}[sys.argv[1]](*sys.argv[2:])
print(f"off by {worst:.1e} at most")
sys.exit(worst > MOST)
