#!/bin/sh
# tests/bench/rok.py: its points hang together, each way does what its name says within the memory that is said of it, what it refuses, and nothing is left
# behind. No time is tested. TAP.
set -u
. tests/tap.sh

mkdir "$tmp/d"
model="--n-layer 3 --n-head 2 --n-embd 64 --vocab 96 --seq 64 --csd-mem 1M"
rok() { # ARGUMENTS...: as run
    # shellcheck disable=SC2086
    SITRAIN=$bin python3 tests/bench/rok.py $model --rounds 1 --steps 1 --dir "$tmp/d" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
turned_down() { # CODE TEXT ARGUMENTS...: as refuses
    want=$1 text=$2
    shift 2
    rok "$@"
    [ "$got" = "$want" ] && grep -qF -- "$text" "$tmp/err" && [ ! -s "$tmp/out" ]
    result $? "refused with $want: $text"
}

rok --batches 16,32 --json "$tmp/r.json" --plot "$tmp/r.svg"
result "$got" "all ways of a tiny model"
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
    assert abs(r["flops_per_second"] * r["seconds"] / flops - 1) < 1e-6 and close(r["tokens_per_second"], tokens / r["seconds"]), r
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

rok --ways keep,offload --batches 16 --host-mem 256M --json "$tmp/two.json"
result "$got" "two ways within one budget"
same "$(python3 -c 'import json, sys
print(*((r["way"], r["host_mem"]) for r in json.load(open(sys.argv[1]))["rok"]["rows"]))' "$tmp/two.json")" "('keep', $((256 << 20))) ('offload', $((256 << 20)))" "they have it, and no other"
turned_down 2 "mode mem has no devices" --mode mem
turned_down 1 "this run needs at least" --host-mem 8M
turned_down 2 "expected keep, recompute, offload" --ways keeping
turned_down 2 "--batches: sizes" --batches 1,x
[ -z "$(ls -A "$tmp/d")" ]
result $? "nothing is left of what was refused"
done_testing
