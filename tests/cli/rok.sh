#!/bin/sh
# bench rok: its points hang together, each way does what its name says within the memory that is said of it, what it refuses, and nothing is left
# behind. No time is tested. TAP.
set -u
. tests/tap.sh

mkdir "$tmp/d"
model="--n-layer 3 --n-head 2 --n-embd 64 --vocab 96 --seq 64 --csd-mem 1M"
# shellcheck disable=SC2086
works "bench rok of a tiny model" bench rok $model --batches 16,32 --rounds 1 --steps 1 --dir "$tmp/d" --json "$tmp/r.json" --plot "$tmp/r.svg"
[ -z "$(ls -A "$tmp/d")" ]
result $? "nothing is left"
cat >"$tmp/check.py" <<'PY'
import json, sys
import xml.dom.minidom
s = json.load(open(sys.argv[1]))["rok"]
close = lambda a, b: abs(a - b) <= 1e-9 * max(abs(a), abs(b))
rows = {(r["way"], r["batch"]): r for r in s["rows"]}
assert s["ways"][:4] == ["keep", "recompute", "offload", "auto"] and set(rows) == {(w, b) for w in s["ways"] for b in (16, 32)}, s
for (way, batch), r in rows.items():
    tokens = batch * 64
    flops = tokens * (6 * (12 * 3 * 64 * 64 + 96 * 64) + 12 * 3 * 64 * 64 / 2)
    assert close(r["flops_per_second"], flops / r["seconds"]) and close(r["tokens_per_second"], tokens / r["seconds"]), r
    keep = rows["keep", batch]
    assert close(r["seconds_of_first"], r["seconds"] / keep["seconds"] - 1), r
    assert close(r["bytes_of_first"], r["activation_bytes"] / keep["activation_bytes"] - 1), r
    assert r["least"] <= r["seconds"] <= r["most"] and 0 < r["activation_bytes"] < r["peak_rss"], r
    if way == "recompute":
        assert r["host_mem"] <= keep["host_mem"] and r["activation_bytes"] < keep["activation_bytes"], r
for way in "keep", "recompute":  # twice the tokens, nearly twice the activations
    ratio = rows[way, 32]["activation_bytes"] / rows[way, 16]["activation_bytes"]
    assert 1.2 < ratio < 2, ratio
drawn = xml.dom.minidom.parse(sys.argv[2]).toxml()
assert drawn.startswith("<?xml") and all(f">{way}<" in drawn for way in s["ways"]), drawn
PY
python3 "$tmp/check.py" "$tmp/r.json" "$tmp/r.svg" >"$tmp/out" 2>"$tmp/err"
result $? "its figures follow from each other, and all ways are in the picture"

# shellcheck disable=SC2086
{
    works "two ways within one budget" bench rok $model --ways keep,offload --batches 16 --rounds 1 --steps 1 --dir "$tmp/d" --host-mem 256M --json -
    same "$(python3 -c 'import json, sys
print(*((r["way"], r["host_mem"]) for r in json.load(open(sys.argv[1]))["rok"]["rows"]))' "$tmp/out")" "('keep', $((256 << 20))) ('offload', $((256 << 20)))" "they have it, and no other"
    refuses 2 "mode mem has no devices" bench rok $model --mode mem --dir "$tmp/d"
    refuses 2 "this run needs at least" bench rok $model --host-mem 8M --dir "$tmp/d"
    refuses 2 "leave out --only" bench rok $model --only disk --dir "$tmp/d"
    refuses 2 "expected sizes" bench rok $model --batches 1,x --dir "$tmp/d"
    refuses 2 "--batches and --ways are for bench rok" bench --ways keep --dir "$tmp/d"
}
[ -z "$(ls -A "$tmp/d")" ]
result $? "nothing is left of what was refused"
done_testing
