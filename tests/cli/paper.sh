#!/bin/sh
# make paper's machinery: a quick trial with every section, gone on with, and refused where the disk is too slow for the modelled drives; the papers'
# figures agree with each other and with what is predicted from them. Nothing is said of speed. Prints TAP.
bench=$(pwd)/tests/bench
. tests/tap.sh
cd "$tmp" || exit 1
paper() { SITRAIN=$bin timeout 300 python3 "$bench/paper.py" --quick --steps 2 --threads 2 --json p.json --out page/paper.md --glue-results "$bench/../../docs/lab/glue" "$@" >out 2>err; }
for seconds in 4 8 16 32; do # until there is a run to go on behind: on a busy machine the first one takes longer
    paper --seconds $seconds
    got=$?
    grep -q "^round 1: base 1:" out && break
done
[ $got = 1 ] && grep -q "call again to go on" err && [ ! -e page/paper.md ]
result $? "a trial that is stopped"
paper
result $? "goes on"
grep -q "^round 1: base 1:" out
result "$([ $? = 1 ]; echo $?)" "with what is not there yet"
paper
result "$([ $? = 0 ] && ! grep -q '^round' out; echo $?)" "and measures nothing twice"
sed 's/"cores": [0-9]*/"cores": 3/' p.json >other.json
cp page/paper.md first.md
paper --page --json other.json
result "$([ $? = 0 ] && sed 's/, [0-9]* cores/, 3 cores/' first.md | cmp -s - page/paper.md; echo $?)" "the page of another machine's runs"
same "$(grep -c '^## ' page/paper.md)" 13 "every section is in the page"
grep -o 'paper/[a-z_]*\.svg' page/paper.md | sort -u >pictures
[ "$(wc -l <pictures)" -ge 5 ] && (cd page && while read -r p; do python3 -c 'import sys, xml.dom.minidom as d; d.parse(sys.argv[1])' "$p" || exit 1; done) <pictures >out 2>err
result $? "its pictures are XML"
! grep -qi "nan\|none\b" page/paper.md
result $? "no figure is missing without a word"

PYTHONPATH=$bench SITRAIN=$bin python3 - >out 2>err <<'END'
import types
import paper_facts as f
import paper_runs as r
base = f.BREAKDOWN["GPT-2 8.4B"][6]["base"]
assert abs(1 - base[0] / base[1] - f.UPDATE_SHARE) < 0.005
for n, modes in f.SPOKEN.items():  # sentences and drawings: BERT 8.3B is drawn at 1.47
    for mode, (low, high) in modes.items():
        got = [by[n]["base"][1] / by[n][mode][1] for m, by in f.BREAKDOWN.items() if m.split()[1] in ("4.0B", "8.3B", "8.4B")]
        assert low - 0.08 < min(got) and max(got) < high + 0.08, (n, mode, got)
assert abs(f.seconds_as_written("su", 10, 4.0, 5.99) / 15.62 - 1) < 0.02
assert abs(r.inside(r.fastest_link(1e8, 10), 10) - 5e7) < 1  # half of the disk
r.common.disk_rate, r.computing_seconds = lambda folder: 1e8, lambda batch, a, data: 0.02 * batch
try:
    r.set_up(types.SimpleNamespace(), "x/y", 10)
except SystemExit as why:
    assert "below half" in str(why)
else:
    raise AssertionError("not refused")
r.common.disk_rate = lambda folder: 4e9
s = r.set_up(types.SimpleNamespace(), "x/y", 10)
assert abs(s["computing"] * s["link"] / (2 * r.parameters(*r.SIZES["1"], r.LENGTH)) - f.proportions()["computing"]) < 1e-6 and s["link"] <= r.MOST_LINK
END
result $? "the papers' figures agree, and the links keep the proportions"
done_testing
