#!/bin/sh
# --activations auto and ssdtrain on a modelled link of 8 MB/s: what they chose and what they expected is in run.db, follows from the bandwidth and from
# what was measured, is undone where steps became longer, and changes no bit. No time is tested: every bound is made of the run's own figures. TAP.
. tests/tap.sh

make_text 2000 >"$tmp/text.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
works "a text becomes a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"

model="--n-layer 4 --n-head 2 --n-embd 64 --vocab 300 --seq 64 --batch 16 --grad-accum 2 --mode su+o --devices 2 --csd-mem 512K"
shape="$model --durability none --data $tmp/text.bin --tokenizer $tmp/tok --steps 30"
# shellcheck disable=SC2086
run plan --probe off $model --activations offload --host-mem 1M
least=$(sed -n 's/.*needs at least \([0-9]*\)M.*/\1/p' "$tmp/err")
for way in keep auto ssdtrain; do
    # shellcheck disable=SC2086
    works "--activations $way behind the slow link" pretrain --run "$tmp/$way" $shape --activations $way --host-mem $((least + 8))M --link-bw 8M
    eval "$way=\$(exported \"\$tmp/$way\")"
done
# shellcheck disable=SC2154
same "$keep" "$auto" "auto gives keep's parameters"
# shellcheck disable=SC2154
same "$keep" "$ssdtrain" "and so does ssdtrain"

cat >"$tmp/check.py" <<'PY'
import sqlite3, sys
link, layers = 8 << 20, 4
db = sqlite3.connect(sys.argv[1])
db.row_factory = sqlite3.Row
seconds = [r[0] for r in db.execute("SELECT seconds FROM steps ORDER BY step")]
plan = dict(db.execute("SELECT key, value FROM runs WHERE key LIKE 'record_%'").fetchall())
stay = int(plan["record_buffers"]) * int(plan["record_bytes"])
choices = db.execute("SELECT * FROM choices ORDER BY step").fetchall()
kept = None
for c, after in zip(choices, [*choices[1:], None]):
    what = dict(c)
    assert c["layers"] == layers and c["inputs_kept"] + c["inputs_offloaded"] == layers, what
    for part in "attentions", "mlps":
        assert c[part + "_kept"] >= 0 <= c[part + "_offloaded"] and c[part + "_kept"] + c[part + "_offloaded"] <= layers, what
    traffic = dict(db.execute("SELECT direction, bytes FROM traffic_per_step WHERE link = 'host' AND class = 'activation' AND step = ?", (c["step"] + 1,)).fetchall())
    moved = traffic.get("write", 0)
    # the arithmetic takes it that each buffer keeps a whole piece from the drives; those that it does keep may be smaller
    assert moved == traffic.get("read", 0) and c["moved_bytes"] <= moved <= c["moved_bytes"] + stay, (what, traffic)
    if c["why"] == "expected to be shorter":
        assert c["expected_seconds"] < c["step_seconds"], what
        assert c["moved_bytes"] <= link * c["expected_seconds"], what  # what it promises the link can carry
    elif after is None:
        assert c["expected_seconds"] == c["step_seconds"], what
last = choices[-1] if choices else None
print("offloaded in the end:", last["moved_bytes"] if last else 0, "bytes each way a step;", len(choices), "choices; a step of", seconds[-1], "s")
assert not last or last["moved_bytes"] <= link * max(seconds[last["step"]:]), "more than the link carries in the longest step since"
PY
python3 "$tmp/check.py" "$tmp/auto/run.db" >"$tmp/out" 2>"$tmp/err"
result $? "auto's choices follow from the link and from what it measured"
sqlite3 "$tmp/ssdtrain/run.db" "SELECT count(*) FROM choices WHERE attentions_kept + attentions_offloaded = layers AND mlps_kept + mlps_offloaded = layers" >"$tmp/out" 2>"$tmp/err"
same "$(sqlite3 "$tmp/ssdtrain/run.db" "SELECT max(1, count(*)) FROM choices")" "$(cat "$tmp/out")" "ssdtrain recomputes nothing"
run report "$tmp/auto"
same "$(sed -n '/^Activations, kept/,/^$/p' "$tmp/out" | grep -c ' + .* + .* + ')" "$(sqlite3 "$tmp/auto/run.db" 'SELECT count(*) FROM choices')" "report has each choice"
done_testing
