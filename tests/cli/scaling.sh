#!/bin/sh
# tests/bench/devices.py and plan --machine: what they print and what their JSON says hangs together, what they refuse, and nothing is left behind.
# No time is tested. TAP.
set -u
. tests/tap.sh

mkdir "$tmp/d"
model="--n-layer 2 --n-head 2 --n-embd 64 --vocab 96 --batch 1 --seq 16"
devices() { # ARGUMENTS...: as run
    # shellcheck disable=SC2086
    SITRAIN=$bin python3 tests/bench/devices.py $model --dir "$tmp/d" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
turned_down() { # CODE TEXT ARGUMENTS...: as refuses
    want=$1 text=$2
    shift 2
    devices "$@"
    [ "$got" = "$want" ] && grep -qF -- "$text" "$tmp/err" && [ ! -s "$tmp/out" ]
    result $? "refused with $want: $text"
}

# drives that read 8 and write 4 MiB/s: a real disk is much faster
devices --devices 2 --rounds 1 --steps 1 --csd-read-bw 8M --csd-write-bw 4M,4M --link-bw 10M --json "$tmp/s.json" --plot "$tmp/s.svg"
result "$got" "two tiny devices, predicted and measured"
[ "$(grep -c '^  *[12]  ' "$tmp/out")" = 2 ] && grep -q '^=> predicted: at most ' "$tmp/out" && grep -q '^=> the links are full of reads' "$tmp/out"
result $? "a row for each, where the links are full, and how far off it is"
cat >"$tmp/check.py" <<'PY'
import json, sys
s = json.load(open(sys.argv[1]))["scaling"]
close = lambda a, b: abs(a - b) <= 1e-9 * max(abs(a), abs(b))
one, two = s["rows"]
assert s["mode"] == "su+o" and (one["devices"], two["devices"]) == (1, 2), s
for row in one, two:
    assert close(row["difference"], row["predicted"] / row["seconds"] - 1) and close(row["predicted"], row["forward"] + row["backward"]), row
    assert len(row["steps"]) == 1 and row["least"] == row["seconds"] == row["most"] == row["steps"][0], row
    assert row["forward_by"] == "drives" and row["backward_by"] in ("drives", "link"), row
assert close(two["speedup"], one["seconds"] / two["seconds"]) and one["speedup"] == 1 and two["predicted"] < one["predicted"]
# 2 bytes of each parameter are read once (with all frames kept, that is all), gradients have 4; shards are padded
parameters = 2 * (12 * 64 * 64 + 13 * 64) + (96 + 16) * 64 + 2 * 64
assert 1 <= s["one"]["T_swap"] / (2 * parameters / (8 << 20)) < 1.1 and 1 <= s["one"]["T_grad"] / (4 * parameters / (4 << 20)) < 1.1, s["one"]
assert abs(s["saturation"]["T_swap"] - 10 / 8) < 0.2 and abs(s["saturation"]["T_grad"] - 10 / 4) < 0.3 and s["saturation"]["T_opt"] == 0, s["saturation"]
assert s["disk"]["room"] >= 2 and close(s["disk"]["room"], s["disk"]["bytes_per_second"] / s["disk"]["modelled_bytes_per_second"])
PY
python3 "$tmp/check.py" "$tmp/s.json" >"$tmp/out" 2>"$tmp/err"
result $? "its figures follow from each other and from the bandwidths"
python3 -c 'import sys, xml.dom.minidom as m; d = m.parse(sys.argv[1]); assert d.documentElement.tagName == "svg" and "measured" in d.toxml()' "$tmp/s.svg" 2>"$tmp/err"
result $? "the plot is well-formed"
turned_down 1 "more than half of it, so they would not be as fast" --devices 2 --csd-read-bw 900G --csd-write-bw 900G
turned_down 2 "invalid choice: 'mem'" --mode mem
turned_down 1 "--all-of-it" --all-of-it
turned_down 2 "--devices: from 1 to 63" --devices 64
refuses 2 "expected machine or network" bench scaling
[ -z "$(ls -A "$tmp/d")" ]
result $? "nothing is left, of what was measured and of what was refused"

# ---- a machine that is described ----

cat >"$tmp/machine" <<'EOF'
name = "a machine \"of\" paper"   # for people
flops = 1e12
host-update = 1e9
device-update 5e8
EOF
links="--link-bw 100M --csd-read-bw 20M --csd-write-bw 10M"
# shellcheck disable=SC2086
works "plan --machine" plan $model $links --devices 4 --machine "$tmp/machine" --compare --json "$tmp/p.json"
[ "$(grep -c '^  su+o+c ' "$tmp/out")" = 2 ] && grep -q '^Time on 4 devices of a machine "of" paper' "$tmp/out" && grep -q '^Memory' "$tmp/out" && ! grep -q measured\ here "$tmp/out"
result $? "prints the plan, and every mode in both ways; nothing is measured"
# shellcheck disable=SC2086
works "to stdout" plan $model $links --devices 4 --machine "$tmp/machine" --mode su+o+c --json -
cat >"$tmp/check.py" <<'PY'
import json, sys
all, one = (json.load(open(path)) for path in sys.argv[1:])
rows = {x["mode"]: x for x in all["predictions"]}
assert list(rows) == ["base", "su", "su+o", "su+o+c"] and all["devices"] == 4 and all["model"]["parameters"] == 107264, all
for x in rows.values():
    assert abs(x["step"] - x["forward"] - x["backward"]) < 1e-9 * x["step"], x
    assert abs(x["speedup"] - rows["base"]["step"] / x["step"]) < 1e-9 and x["turns"]["step"] > 0
    t = x["turns"]
    assert abs(t["step"] - t["forward"] - t["backward"] - t["update"]) < 1e-9 * t["step"], t
assert rows["base"]["speedup"] == 1 and rows["su+o+c"]["turns"]["speedup"] > rows["su+o"]["turns"]["speedup"] > rows["su"]["turns"]["speedup"]
only, = one["predictions"]
assert {k: v for k, v in only.items() if k != "turns"} == {k: v for k, v in rows["su+o+c"].items() if k not in ("turns", "speedup")}, (only, rows["su+o+c"])
PY
python3 "$tmp/check.py" "$tmp/p.json" "$tmp/out" 2>"$tmp/err"
result $? "its figures follow from each other"
for gpu in a5000 a100; do
    works "the hardware of Smart-Infinity, $gpu" plan --n-layer 50 --n-head 20 --n-embd 2560 --seq 1024 --devices 10 --activations recompute --host-mem 512G \
        --topology examples/topology/smart-infinity.txt --machine "examples/machine/$gpu.conf" --compare
done

bad() { # SENTENCE LINES
    printf '%b' "$2" >"$tmp/bad"
    # shellcheck disable=SC2086
    refuses 2 "$1" plan $model $links --machine "$tmp/bad"
}
bad "flops is missing" 'name = x\n'
bad "flops -3: a number from 1" 'flops = -3\n'
bad "flops: 1 value is expected: FLOP/s" 'flops = 3 TFLOP\n'
bad "flops inf: a number from 1" 'flops = inf\n'
bad "flops 1e-307: a number from 1" 'flops = 1e-307\n'
bad "line 2: name: a text" 'flops = 1e12\nname = \0377\n'
bad "flops is there twice" 'flops = 1e9\nflops = 2e9\n'
bad "flips is nothing that a machine has" 'flips = 3\n'
bad "flops stands alone" 'flops\n'
# shellcheck disable=SC2086
{
    refuses 2 "none: No such file" plan $model $links --machine "$tmp/none"
    refuses 2 "the drives have no speed" plan $model --machine "$tmp/machine"
    works "mode mem, which has no drives" plan $model --mode mem --machine "$tmp/machine"
    refuses 2 "compare needs --machine" plan $model --compare
    refuses 2 "probe off does not measure it" plan $model --probe off --json -
}
done_testing
