#!/bin/sh
# bench.sh: siTrain bench: what it prints, what its JSON says and whether that hangs together, what it refuses, and that nothing is left
# behind. No time is tested. TAP.
set -u
. tests/tap.sh

mkdir "$tmp/d" "$tmp/dev"
model="--quick --n-layer 2 --n-head 2 --n-embd 32 --vocab 96 --batch 2 --seq 16"
small="$model --rounds 1 --dir $tmp/d"

nothing_left() { # NAME
    [ -z "$(ls -A "$tmp/d")" ] && [ -z "$(ls -A "$tmp/dev")" ]
    result $? "$1: nothing is left"
}

# ---- all of it ----

# shellcheck disable=SC2086
works "bench --quick of a tiny model" bench $small --json "$tmp/all.json" --device "$tmp/dev"
nothing_left "after it"
for title in "Products of the model" "Memory bandwidth" "Kernels, each" "Disk under a device" "Steps of"; do
    grep -q "^$title" "$tmp/out"
    result $? "a section begins with: $title"
done
[ "$(grep -c '^=> ' "$tmp/out")" -ge 6 ] && [ "$(awk 'length > 160' "$tmp/out" | wc -l)" = 0 ]
result $? "each section has its conclusion, no line is very long"

cat >"$tmp/check.py" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
close = lambda a, b: abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-9)
row = lambda rows, key, value: next(x for x in rows if x[key] == value)

m, tokens = r["model"], 2 * 16
assert (m["n_layer"], m["n_embd"], m["vocab"], m["dtype"]) == (2, 32, 96, "bf16"), m
flops = tokens * (6 * (12 * 2 * 32 * 32 + 96 * 32) + 12 * 2 * 32 * 16 / 2)
assert close(r["steps"]["flops"], flops), (r["steps"]["flops"], flops)

p = r["products"]
assert len(p["shapes"]) == 15, len(p["shapes"])
assert sum(2 * s["m"] * s["n"] * s["k"] * s["times_a_step"] for s in p["shapes"]) == tokens * 6 * (12 * 2 * 32 * 32 + 96 * 32)
ran = [e for e in p["engines"] if "note" not in e]
assert row(ran, "name", "openblas fp32")["library"].startswith("openblas"), ran
for e in ran:
    seconds = sum(2 * s["m"] * s["n"] * s["k"] * s["times_a_step"] / s[e["name"]] for s in p["shapes"])
    unit = next((u for u in p["units"] if u["precision"] == e["precision"]), p["units"][0])["flops_per_second"]
    assert close(seconds, e["step_seconds"]) and unit > 0 and close(e["share"], e["step_flops_per_second"] / unit), e
unit = p["units"][-1]["flops_per_second"]
assert p["units"][0]["precision"] == "fp32" and len(p["units"]) <= 2, p["units"]
assert all(close(s["share"], max(s[e["name"]] for e in ran) / unit) for s in p["shapes"]), p["shapes"]

assert [x["kind"] for x in r["memory"]] == ["read", "write", "copy", "triad", "in place"]
assert all(x["one_thread"] > 0 and x["all_threads"] > 0 for x in r["memory"])
assert len(r["kernels"]) >= 15 and all(k["bound"] in ("memory", "arithmetic") and close(k["share"], k["bound_seconds"] / k["seconds"])
                                       for k in r["kernels"])
d, = r["disk"]
assert [x["pattern"] for x in d["patterns"]][:2] == ["read", "write"] and all(x["bytes_per_second"] > 0 for x in d["patterns"])

s, f = r["steps"], r["steps"]["figures"]
run = lambda name: row(s["runs"], "run", name)
for name in "mem", "computing", "both":
    assert close(run(name)["share_of_unit"], run(name)["flops_per_second"] / unit), run(name)
    assert len(run(name)["steps"]) == 2 and close(run(name)["tokens_per_second"], tokens / run(name)["seconds"]), run(name)
assert close(f["F"], run("computing")["forward"]) and f["U"] >= f["u0"] > 0 and f["W"] > 0, f
least = row(s["bounds"], "bound", "u0 + max(F, U - u0) + max(B + w0, W)")
assert close(least["bound_seconds"], f["u0"] + max(f["F"], f["U"] - f["u0"]) + max(f["B"] + f["w0"], f["W"])), (least, f)
assert close(least["ratio"], run("both")["seconds"] / least["bound_seconds"])
PY
python3 "$tmp/check.py" "$tmp/all.json" >"$tmp/out" 2>"$tmp/err"
result $? "the figures in the JSON follow from each other"

# ---- what a prediction needs ----

wide="--n-layer 2 --n-head 16 --n-embd 1024 --vocab 300 --batch 2 --seq 512"
# shellcheck disable=SC2086
works "a probe of a wide model" bench --save "$tmp/wide.conf" --probe $wide --dir "$tmp/d"
[ "$(awk '$1 == "layer" { print $4 }' "$tmp/out" | sort -u | wc -l)" = 2 ]
result $? "it measures two lengths of a chunk, from which a whole one is extrapolated"

# ---- parts of it ----

mkdir "$tmp/empty"
(
    PATH=$tmp/empty
    # shellcheck disable=SC2086
    "$bin" bench $small --mode mem --dtype fp32 --only disk,steps --json - >"$tmp/out" 2>"$tmp/err"
)
result $? "--only disk,steps --json -, mode mem, nothing in PATH"
python3 - "$tmp/out" <<'PY' 2>"$tmp/err"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["about"] == "siTrain bench" and sorted(r) == ["about", "disk", "machine", "model", "products", "steps", "version"], sorted(r)
assert [x["run"] for x in r["steps"]["runs"]] == ["mem"], r["steps"]["runs"]
assert all(e["precision"] == "fp32" for e in r["products"]["engines"])
PY
result $? "it is JSON alone, with those sections and what they go by"
# shellcheck disable=SC2086
# The process that measures is a background one, which the terminal may stop.
if has_terminals; then
    timeout -k 5 60 python3 tests/cli/on_tty.py 80 sh -c 'stty tostop; exec "$@"' sh "$bin" bench $small --only products >"$tmp/out" 2>&1
    result $? "bench on a terminal with stty tostop"
else
    skip "bench on a terminal with stty tostop" "no terminals"
fi

works "--mode base, compressed" bench $small --mode base --compress 2% --only steps
parts() { # NAME ARGUMENTS...
    name=$1
    shift
    SITRAIN=$bin OPENBLAS_CORETYPE=Haswell python3 tests/bench/parts.py --rounds 1 --dir "$tmp/d" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    result $? "$name"
}
# shellcheck disable=SC2086
parts "where a step goes" --threads 1 $model --json "$tmp/parts.json"
python3 - "$tmp/parts.json" <<'PY' 2>"$tmp/err"
import json, sys
p = json.load(open(sys.argv[1]))["parts"]
rows = {r["part"]: r for r in p["rows"]}
assert abs(sum(r["seconds"] for r in rows.values()) - p["step_seconds"]) < 1e-9, p
assert p["start_seconds"] > 0, p
assert p["step_seconds"] > 0 and p["starts"] == sum(r["starts"] for r in rows.values()), p
assert all(r["seconds"] > 0 and "bound_share" in r for n, r in rows.items() if n != "not accounted for"), p
PY
result $? "its parts and what is left of it make up the step"
nothing_left "after parts"

# The passes of the family at hand, and no other's; products that are the step's FLOPs but for attention's, with a masked head's rows a
# multiple of 16. (A core that is named is not compared with others, which takes long.)
cat >"$tmp/family.py" <<'PY'
import json, sys
r, matrices, head, attention = json.load(open(sys.argv[1])), *map(int, sys.argv[2:5])
has, not_has = sys.argv[5].split(","), sys.argv[6].split(",")
tokens, rows = 2 * 16, {p["part"]: p for p in r["parts"]["rows"]}
asked = tokens if r["model"]["vocab"] == 96 else 4
flops = sum(2 * s["m"] * s["n"] * s["k"] * s["times_a_step"] for s in r["products"]["shapes"])
assert flops == 6 * (tokens * matrices + (tokens if asked == tokens else 16) * head), (flops, r["products"]["shapes"])
share = 1 if asked == tokens else 0.15
assert abs(r["steps"]["flops"] / tokens - 6 * (matrices + share * head) - attention) < 1, (r["steps"]["flops"], attention)
assert [x for x in has if x not in rows] == [] and [x for x in not_has if x in rows] == [], sorted(rows)
assert all(p["seconds"] > 0 and 0 < p["bound_share"] for n, p in rows.items() if n != "not accounted for"), rows
calls = {n: p["calls"] for n, p in rows.items()}
print(*(f"{n}={calls[n]:g}" for n in has))
PY
of_family() { # NAME MATRICES HEAD ATTENTION HAS HAS-NOT OPTION..: its matrices, and attention's FLOPs a token
    family=$1 matrices=$2 head=$3 attention=$4 has=$5 has_not=$6
    shift 6
    parts "parts of a $family's step" --quick --threads 1 --n-layer 2 --n-head 2 --n-embd 32 --n-inner 48 --batch 2 --seq 16 --json "$tmp/family.json" "$@"
    python3 "$tmp/family.py" "$tmp/family.json" "$matrices" "$head" "$attention" "$has" "$has_not" >"$tmp/out" 2>"$tmp/err"
    result $? "they are a $family's"
}
of_family BERT $((2 * (4 * 32 * 32 + 2 * 32 * 48))) $((97 * 32 + 32 * 32)) $((12 * 2 * 32 * 16)) \
    "bidirectional attention forward,gelu (erf) backward,layernorm apply,embedding of types,transform" \
    "attention forward,gelu forward,rmsnorm forward" --model bert-base --vocab 97
of_family Llama $((2 * (3 * 32 * 32 + 3 * 32 * 48))) $((96 * 32)) $((12 * 2 * 32 * 8)) \
    "grouped attention backward,swiglu forward,rope backward,rmsnorm backward,convert to bf16" \
    "attention forward,layernorm forward,geglu forward,rmsnorm of heads" --model smollm2-135m --n-kv-head 1 --vocab 96
of_family "Gemma 3" $((2 * (2 * 32 * 48 + 2 * 32 * 24 + 3 * 32 * 48))) $((96 * 32)) $((12 * 2 * 48 * 8)) \
    "windowed attention forward,geglu backward,rmsnorm (1 + w) and sum,rmsnorm of heads,scaling of embeddings" \
    "swiglu forward,residual,rmsnorm forward,softmax of a piece" --model gemma-3-270m --n-kv-head 1 --head-dim 24 --vocab 96
nothing_left "after families"

# ---- beside others: OpenBLAS with other kernels, fio ----

# A stand-in for the library, which has no Zen: what it says is what the table is made of, and no time is tested.
cat >"$tmp/blas" <<'SH'
#!/bin/sh
core=${OPENBLAS_CORETYPE:-Haswell}
case $core in Haswell) rate=2e9 ;; Zen) core=Haswell rate=9e9 ;; *) rate=5e9 ;; esac
echo "{\"products\": {\"engines\": [{\"name\": \"openblas fp32\", \"library\": \"openblas 0.3 $core\", \"step_flops_per_second\": $rate}]}}"
SH
chmod +x "$tmp/blas"
cat >"$tmp/cores.py" <<'PY'
import runpy, sys
sys.path.insert(0, "tests/bench")
import common
common.machine = lambda: {"flags": ["avx2", "avx512f"]}
runpy.run_path("tests/bench/cores.py", run_name="__main__")
PY
SITRAIN=$tmp/blas python3 "$tmp/cores.py" --rounds 2 --json "$tmp/cores.json" >"$tmp/out" 2>"$tmp/err" &&
    grep -q '^=> OPENBLAS_CORETYPE=SkylakeX in the environment makes OpenBLAS 2.50 times as fast' "$tmp/out" && [ "$(grep -c '^  Haswell .* in use' "$tmp/out")" = 1 ]
result $? "OpenBLAS's cores: another one that is faster is named, one that the library does not have is not"
# shellcheck disable=SC2086
SITRAIN=$bin python3 tests/bench/cores.py $small --rounds 1 >"$tmp/out" 2>"$tmp/err" && [ "$(grep -c '  in use$' "$tmp/out")" = 1 ] && grep -q '^=> ' "$tmp/out"
result $? "the cores of this machine, of which one is in use"
cat >"$tmp/empty/fio" <<'SH'
#!/bin/sh
case "$*" in *--rw=read*) read=1000000 ;; *) read=500000 ;; esac
echo "fio: a line before; {\"jobs\": [{\"read\": {\"io_bytes\": $read, \"runtime\": 500}, \"write\": {\"io_bytes\": 500000, \"runtime\": 400}}]}"
SH
chmod +x "$tmp/empty/fio"
# shellcheck disable=SC2086
PATH=$tmp/empty:$PATH SITRAIN=$bin python3 tests/bench/fio.py $small --rounds 1 --json "$tmp/fio.json" >"$tmp/out" 2>"$tmp/err" &&
    python3 - "$tmp/fio.json" <<'PY' 2>>"$tmp/err"
import json, sys
rows = {r["pattern"]: r for r in json.load(open(sys.argv[1]))["fio"]}
assert rows["read"]["fio_bytes_per_second"] == 3e6 and rows["write"]["fio_bytes_per_second"] == 2e6, rows
assert rows["update's mix"]["fio_bytes_per_second"] == 2e6 and rows["update's mix"]["share_of_fio"] == rows["update's mix"]["bytes_per_second"] / 2e6, rows
PY
result $? "siTrain's disk beside fio"
nothing_left "after them"

# ---- refusals ----

# shellcheck disable=SC2086
{
    refuses 2 "--only speed: products, memory, kernels, disk and steps" bench $small --only products,speed
    refuses 2 "both say which model" bench $small --init "$tmp"
    refuses 2 "a folder or a block device is expected" bench $small --device "$tmp/none"
    refuses 1 "one that can be written is expected" bench $model --dir "$tmp/none"
    refuses 2 "there is no disk to measure" bench $small --disk null
    refuses 2 "bench runs steps with devices and without" bench $small --csd null
    refuses 2 "--mode mem keeps everything in RAM" bench $small --mode mem --device "$tmp/dev"
}

# A disk that takes no more: the sentence of whoever wrote, and nothing left.
(
    ulimit -f 20000
    # shellcheck disable=SC2086
    "$bin" bench $small --only disk >"$tmp/out" 2>"$tmp/err"
)
[ $? -eq 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q '^siTrain bench: ' "$tmp/err"
result $? "a file that cannot grow is one sentence"
nothing_left "after a failure"

# ---- signals ----

for signal in INT TERM; do
    for command in "bench $model --dir $tmp/d --rounds 64 --only disk" "plan ${model#--quick } --run $tmp/d/run"; do
        # shellcheck disable=SC2086
        "$bin" $command >"$tmp/out" 2>"$tmp/err" &
        pid=$!
        i=0
        while [ -z "$(ls "$tmp"/d/.siTrain-bench.*/ 2>/dev/null)" ] && [ $i -lt 1200 ]; do
            sleep 0.05
            i=$((i + 1))
        done
        kill -$signal $pid
        wait $pid
        [ $? -eq 130 ] && grep -qx "siTrain ${command%% *}: stopped; nothing half-made is left" "$tmp/err"
        result $? "SIG$signal: ${command%% *} says so, and 130"
        nothing_left "SIG$signal"
    done
done

# ---- a drive ----

truncate -s 256M "$tmp/image"
if loop=$(losetup -f --show "$tmp/image" 2>/dev/null); then
    trap 'losetup -d "$loop"; rm -rf "$tmp"' EXIT
    # shellcheck disable=SC2086
    works "steps on a drive" bench $small --only steps --device "$loop"
    nothing_left "steps on a drive"
    # shellcheck disable=SC2086
    "$bin" bench $model --dir "$tmp/d" --rounds 64 --threads 1 --only kernels --device "$loop" >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    for _ in $(seq 1200); do
        [ -n "$(ls -d "$tmp"/d/.siTrain-bench.* 2>/dev/null)" ] && break
        sleep 0.05
    done
    make_text 20 >"$tmp/text.txt"
    "$bin" prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$tmp/tok" >"$tmp/out.run" 2>&1 &&
        "$bin" pretrain --run "$tmp/theirs" --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 \
            --csd-mem 128K --threads 1 --steps 1 --quiet --device "$loop" >"$tmp/out.run" 2>&1
    result $? "a run on the same drive meanwhile, which bench has left to nobody"
    kill -INT $pid
    wait $pid
    works "is whole when bench has ended" check "$tmp/theirs"
    # A run that is made at any moment: bench is held before each of its openings of the drive in turn. It then leaves the run alone, and says so.
    find_shim
    for only in disk steps; do
        n=$(($$ % 2)) made=0 said=0 wrong=
        while [ -f "$shim" ] && n=$((n + 2)) && [ $n -lt 99 ]; do # every second one
            dd if=/dev/zero of="$loop" bs=4096 count=1 conv=notrunc 2>"$tmp/out"
            rm -rf "$tmp/theirs" "$tmp/held" "$tmp/held.over"
            # shellcheck disable=SC2086
            LD_PRELOAD="$shim" SHIM_AT="open:$loop:$n:$tmp/held" "$bin" bench $small --only $only --device "$loop" >"$tmp/out" 2>"$tmp/err" &
            pid=$!
            while [ ! -e "$tmp/held" ] && kill -0 $pid 2>"$tmp/out.run"; do sleep 0.02; done
            [ -e "$tmp/held" ] || break
            "$bin" pretrain --run "$tmp/theirs" --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 \
                --csd-mem 128K --threads 1 --steps 1 --quiet --device "$loop" >"$tmp/out.run" 2>&1
            rm "$tmp/held"
            wait $pid
            [ -e "$tmp/theirs" ] || continue
            made=$((made + 1))
            grep -q "$loop holds the states of a siTrain run" "$tmp/out" "$tmp/err" && said=$((said + 1))
            "$bin" check "$tmp/theirs" >"$tmp/out.run" 2>&1 || wrong="$wrong $n"
        done
        [ -f "$shim" ] || skip "a drive that is taken at any moment" "no shim"
        [ -f "$shim" ] || break
        result "$([ $said -gt 0 ] && [ -z "$wrong" ]; echo $?)" "a run on the drive, made at any moment, is whole afterwards ($only: $made, $said of them named, lost:$wrong)"
    done
    losetup -d "$loop"
    trap 'rm -rf "$tmp"' EXIT
else
    skip "a drive" "no loop device can be made here"
fi

done_testing
