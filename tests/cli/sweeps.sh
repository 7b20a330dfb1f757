#!/bin/sh
# A sweep of seeds: the recipe of docs/finetuning.md as it stands there, on a tiny model; what report says of the runs, in which order, in every
# form; a run whose loss is no number. Prints TAP.
. tests/tap.sh

page=$PWD/docs/finetuning.md forms=$PWD/tests/cli/sweep_forms.py
language_model 300 280 --n-layer 2 --n-head 2 --n-embd 16 --seq 16 --batch 2 --steps 1
mkdir -p "$tmp/work/path/to"
mv "$tmp/hf" "$tmp/work/path/to/gpt2"
cd "$tmp/work" || exit 1
ln -s "$bin" siTrain
for set in mine mine-dev; do
    make_text 24 | awk 'BEGIN { print "sentence,label" } { print "\"" $0 "\"," (/sea|ship/ ? "wet" : "dry") }' >$set.csv
done

awk '/^## / { here = $0 == "## A sweep of three seeds" } /^```/ { inside = here && $0 == "```sh"; next } inside' "$page" >recipe
sh -e recipe >"$tmp/out" 2>"$tmp/err"
result $? "the recipe of docs/finetuning.md: $(grep -c . recipe) lines"
[ -s sweep.html ] && [ "$(echo sw-*)" = "sw-2e-5-1 sw-2e-5-2 sw-2e-5-3 sw-5e-5-1 sw-5e-5-2 sw-5e-5-3" ]
result $? "it leaves six runs and a page"
grep -q "^The runs are sorted by accuracy.$" "$tmp/out" && grep -q "^Runs that differ in the seed alone$" "$tmp/out"
result $? "and says what it sorted by, and what the seeds have in common"

# agree NAME BY RUN...
agree() {
    agree_name=$1
    shift
    python3 "$forms" "$bin" "$@" >"$tmp/out" 2>"$tmp/err"
    result $? "$agree_name: order, values and moments are those of run.db, in every form"
}
agree "by accuracy" accuracy sw-*
agree "by eval_loss" eval_loss sw-*
agree "by lr" lr sw-5e-5-2 sw-2e-5-1 sw-5e-5-1
agree "in the order given" "" sw-5e-5-2 sw-2e-5-1 sw-5e-5-1

# A run of a program without an option does not differ in it from one that has the default.
cp -r sw-2e-5-2 older
sqlite3 older/run.db "DELETE FROM runs WHERE key IN ('option.label-smoothing', 'option.early-stopping', 'option.decay-steps')"
run report sw-2e-5-1 older --json
same "seed; 1, 2" "$(python3 -c 'import json, sys; a, b = json.load(sys.stdin)
print(", ".join(d["setting"] for d in b["differs"]) + "; " + a["seeds"][0]["runs"])' <"$tmp/out")" "an option that was not known then has its default"

# A longer run, some of whose losses are no numbers: the line is the mean over a fortieth of the run on both sides, the losses are faint behind it.
cp -r sw-5e-5-2 long
sqlite3 long/run.db "DELETE FROM steps; INSERT INTO steps (step, loss, lr, tokens, seconds)
    WITH RECURSIVE c(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM c WHERE x < 899) SELECT x, iif(x % 50 < 4, NULL, (x * 7919) % 1009 / 100.0), 1, 1, 1 FROM c"
"$bin" report long --html long.html && "$bin" report long --json >"$tmp/out" && python3 - "$tmp/out" long.html <<'PY'
import json, re, sys
curve = json.load(open(sys.argv[1]))["curve"]
assert len(curve) == 400 and any(p["loss"] is None for p in curve)
for i, p in enumerate(curve):
    near = [q["loss"] for q in curve[max(0, i - 10):i + 11] if q["loss"] is not None]
    assert p["loss_smooth"] is None if p["loss"] is None else abs(p["loss_smooth"] - sum(near) / len(near)) < 1e-9, (i, p)
picture = re.search(r'aria-label="loss">.*?</svg>', open(sys.argv[2]).read().split("<h2>Loss along the run")[1], re.S)[0]
lines = re.findall(r'class="curve ([^"]*)".*? d="M0 0([^"]*)"', picture)
assert [name for name, _ in lines] == ["faint forward", "forward"] and lines[0][1].count("M") == lines[1][1].count("M") > 2, lines
PY
result $? "a long run: its loss smoothed, and as it is"

# Numbers that are none, and no evaluation at all.
sqlite3 sw-2e-5-2/run.db "UPDATE evals SET value = NULL WHERE step = (SELECT max(step) FROM evals); DELETE FROM runs WHERE key LIKE 'best.%'"
sqlite3 sw-5e-5-3/run.db "UPDATE evals SET value = NULL; DELETE FROM runs WHERE key LIKE 'best.%'"
sqlite3 sw-2e-5-1/run.db "DELETE FROM evals; DELETE FROM runs WHERE key LIKE 'best.%'"
agree "with NaN, by eval_loss" eval_loss sw-*
agree "with NaN, by accuracy" accuracy sw-*
agree "with NaN, the first run without evaluations" "" sw-*
works "the same run twice" report sw-5e-5-1 sw-5e-5-1 sw-5e-5-2 --json
same "1 None 1" "$(python3 -c 'import json, sys; print(*[r["comparison"].get("group") for r in json.load(sys.stdin)])' <"$tmp/out")" \
    "is in its group of seeds once"
works "and in the order of the loss" report sw-* --by loss --json
same "sw-5e-5-3 sw-2e-5-1" "$(python3 -c 'import json, sys; print(*[r["run"] for r in json.load(sys.stdin)][-2:])' <"$tmp/out")" \
    "no number comes last, but before no evaluation"
for form in "" --csv; do
    works "one run whose evaluations are no numbers" report sw-5e-5-3 $form
    [ "$(grep -c "nan" "$tmp/out")" -ge 3 ] && ! grep -q -- "-nan\|inf" "$tmp/out"
    result $? "are nan: report $form"
done
run report sw-5e-5-3 --html nan.html
same 6 "$(grep -o '<td class="n">nan</td>' nan.html | wc -l)" "on the page, too"
run report sw-5e-5-3 --json
same "None None" "$(python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["evals"][-1]["value"], r["results"][0]["best_value"])' <"$tmp/out")" \
    "and null in JSON"

# What is asked for and is not there.
refuses 2 "--by acuracy: these runs have no such evaluation or setting; use eval_accuracy, eval_loss, train_loss, tokens_per_second, lr or seed" \
    report sw-* --by acuracy
refuses 2 "(did you mean eval_loss?)" report sw-* --by eval_los
refuses 2 "--by lr sorts several runs, and --sql is about one run" report sw-2e-5-1 --by lr --sql times
refuses 2 "no such evaluation or setting" report sw-2e-5-1 --by nothing
works "one run is sorted" report sw-2e-5-2 --by eval_loss

done_testing
