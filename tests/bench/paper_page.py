"""paper_page.py: docs/lab/paper.md and its pictures, from the runs that tests/bench/paper.py kept. Nothing is measured here. Beside each figure of the paper stand
ours, the difference, and the reason as far as numbers can say it."""
import json
import os
import statistics
import subprocess
import tempfile

import charts
import common
import paper_facts as facts
import paper_runs as runs
from paper_runs import MODES, Run

PARTS = ("FW", "BW + gradient offload", "update + optimizer traffic")
UPPER = {"base": "BASE", "su": "SU", "su+o": "SU+O", "su+o+c": "SU+O+C"}
NONE = "-"
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")


class Page:
    def __init__(self, results, setup, a, more=None):
        self.results, self.setup, self.a, self.more = results, setup, a, more
        self.lines, self.pictures = [], {}
        if more:  # what it says comes onto this page
            more.lines, more.pictures = self.lines, self.pictures

    # ---- what the runs gave ----

    def value(self, run, part):
        """The median over rounds (of lists: of each place); None if there is no such run."""
        found = list(self.results.get(runs.name(run), part).values())
        if not found:
            return None
        if isinstance(found[0], list):
            return [statistics.median(v[i] for v in found) for i in range(len(found[0]))]
        return statistics.median(found)

    def seconds(self, run):
        return self.value(run, "step_seconds")

    def having(self, run):
        """The page with the runs of a section that compares with none of another: this one's or, where it has no such run, those of --more, which is said."""
        if self.seconds(run) or not self.more:
            return self
        data, rounds = self.more.results.data, len(self.more.results.get(runs.name(run), "step_seconds"))
        self.say(f"The runs of this section are of another machine: {common.machine_line(data['machine'])}; {data['arguments']['threads']} threads; {data['date']}. Medians of {rounds} round{'s' * (rounds > 1)}.")
        return self.more

    def speed(self, run, over=None):
        """over base on as many drives, or over another run"""
        mine, base = self.seconds(run), self.seconds(over or run._replace(mode="base", compress=2))
        return base / mine if mine and base else None

    def as_there(self, run):
        """Seconds of a step if parameters were moved as in the paper's system, from those measured: there base's host has the 16-bit parameters in memory (here they
        are written to the drives and read again: M each way), and SU's are not written twice, but go up in 32 bits after the update (2M), of which the handler
        hides a part; here they go up in 16 bits while the update still writes."""
        seconds, p = self.seconds(run), facts.proportions()
        if not seconds:
            return None
        link = self.setup["link"] / run.slower
        m = 2 * runs.parameters(*runs.SIZES[run.size], runs.LENGTH, family=run.family)
        own = m * (1 / p["read"] + 1 / p["write"]) / link / run.devices
        if run.mode == "base":
            return seconds - max(own, m / link)
        hidden = 0 if run.mode == "su" else facts.handler_hides()
        return seconds - own + (1 - hidden) * 2 * m / min(link, run.devices * p["read"] * link)

    def speed_there(self, run):
        mine, base = self.as_there(run), self.as_there(run._replace(mode="base", compress=2))
        return base / mine if mine and base else None

    def speeds(self, run, paper):
        """Five cells: the paper's, ours, its difference, ours with the parameters moved as there, its difference."""
        ours, there = self.speed(run), self.speed_there(run)
        return [number(paper), number(ours), off(ours, paper), number(there), off(there, paper)]

    # ---- words ----

    def say(self, *lines):
        self.lines += [*lines, ""]

    def table(self, head, rows):
        self.say("| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(cells) + " |" for cells in rows)) if rows else None

    def picture(self, name, svg, what):
        self.pictures[name] = svg
        self.say(f"![{what}](paper/{name})")


def number(x, digits=2):
    return NONE if x is None else f"{x:.{digits}f}"


def off(ours, theirs):
    return NONE if not ours or not theirs else f"{100 * (ours / theirs - 1):+.0f}%".replace("-0%", "+0%")


def percent(x):
    return NONE if x is None else f"{100 * x:.0f}%"


def share(bars):
    return bars[2] / sum(bars) if bars else None


# ---- the sections ----

def opening(page):
    p, s = facts.proportions(), page.setup
    layers, width = runs.SIZES["1"]
    most = runs.inside(s["link"], max(facts.DEVICES))
    data = page.results.data
    page.say("# The papers' evaluation, repeated", "",
             f"Made by `make paper`{' QUICK=1 (a trial of the machinery: its figures mean nothing)' if page.a.quick else ''} ([tests/bench/paper.py](../../tests/bench/paper.py)), never by hand: "
             "Smart-Infinity (H. Jang et al., HPCA 2024, arXiv 2403.06664), at our scale, on modelled drives "
             "and links ([topology.md](../internals/topology.md)). The papers' figures are in [paper_facts.py](../../tests/bench/paper_facts.py), with where each was read; what they do not say is left out.")
    page.say(f"{common.machine_line(data['machine'])}; {page.a.threads} threads; {data['date']}. {page.a.rounds} round{'s' * (page.a.rounds > 1)} of runs of {page.a.steps} steps each; "
             "a run counts with the median of its steady steps, those after the first, which waits for no update.")
    page.say("**The links.** The paper's machine, GPT-2 4.0B (M = 8 GB of 16-bit parameters): base with ten SSDs reads 8M in an update of "
             f"{facts.BREAKDOWN['GPT-2 4.0B'][10]['base'][1] - facts.BREAKDOWN['GPT-2 4.0B'][10]['base'][0]:.1f} s and writes 6M beside it, so its link carries {p['link']:.2f} GB/s each way, whatever PCIe "
             f"allows; a SmartSSD's SSD reads {facts.DRIVE_READ} and writes {facts.DRIVE_WRITE} GB/s to and from its FPGA (Fig. 14): {p['read']:.3f} and {p['write']:.3f} of the link; and the GPU takes "
             f"{facts.COMPUTING['A5000']} s (FW + BW of SU+O+C, which offloads nearly no gradients): {p['computing']:.2f} M / link. Ours: {layers} layers, {width} wide, {runs.VOCAB} words, "
             f"{runs.parameters(layers, width, runs.LENGTH) / 1e6:.2f} million parameters, {s['batch']} x {runs.LENGTH} tokens a step, bf16, AdamW, for which computing takes {s['computing']:.3f} s; so the link "
             f"carries {s['link'] / 1e6:.1f} MB/s each way, a drive reads {s['link'] * p['read'] / 1e6:.1f} and writes {s['link'] * p['write'] / 1e6:.1f} MB/s, of one time.")
    page.say(f"**The disk behind them** moved {s['disk'] / 1e6:.0f} MB/s of an update's mix of reads and writes (`siTrain bench --only disk`, at the start); ten modelled drives move {most / 1e6:.0f} MB/s "
             f"inside themselves together, {percent(most / s['disk'])} of it. Above half, `make paper` refuses.")
    page.say("**Lived and serialised.** *Lived* is what a step took; its bars are forward's computing, backward until the gradients are handed over, and all else, which is the update and what waits "
             "behind it. *Serialised* adds computing and what the devices did, each moment once, as if nothing overlapped.")
    page.say("**Parameters as there.** The largest difference between the two systems is how parameters come back. In the paper base's host has the 16-bit ones in memory, and SU's devices send 2M of "
             f"32-bit ones up after the update, of which SU+O and SU+O+C hide {percent(facts.handler_hides())} (what its times show: below). siTrain's devices write 16-bit parameters beside the master, which go up "
             "(M) while the update still writes the rest; so does its base. The column *as there* takes our measured seconds, takes our way out of them (M written and read by the drives; in base over the link) "
             "and puts the paper's in.")


def traffic(page):
    page.say("## Traffic over the shared link (Table I)", "", "Bytes of a step in M, the 16-bit parameters, as run.db counted them.")
    n = 10 if page.seconds(Run("base", 10)) else 2
    m = 2 * runs.parameters(*runs.SIZES["1"], runs.LENGTH)
    rows = []
    for mode in ("base", "su", "su+o+c"):
        found = next(iter(page.results.get(runs.name(Run(mode, n)), "traffic").values()), None)
        if found:
            moved = [[f"{b / m:.2f} {what.split()[0]}" for what, b in sorted(found.items()) if what.endswith(way)] for way in (" read", " write")]
            rows.append([UPPER[mode], facts.TRAFFIC[mode], *(" + ".join(kinds) or "0" for kinds in moved)])
    page.table(["", "paper: read, written", "ours: read", "written"], rows)
    page.say("`wire` is the bf16 parameters, which forward and backward read. In the paper they go up in 32 bits (2M), and base's host has them in memory; here all layers fit in memory, so that they are read once. "
             "`su+o+c` sends 2% of the gradient's bytes.")


def breakdown(page):
    page.say("## Time breakdown against devices (Fig. 3, 9)")
    theirs = facts.BREAKDOWN["GPT-2 4.0B"]
    rows = []
    for n in facts.DEVICES:
        for m in MODES:
            run, paper = Run(m, n), theirs.get(n, {}).get(m)
            lived, serial = page.value(run, "lived"), page.value(run, "serial")
            if not lived:
                continue
            published = percent(1 - paper[0] / paper[1]) if paper else NONE
            rows.append([str(n), UPPER[m], published, percent(share(lived)), percent(share(serial)), number(paper and paper[1], 2),
                         " + ".join(f"{b:.2f}" for b in lived), number(sum(lived)), " + ".join(f"{b:.2f}" for b in serial)])
    page.table(["SSDs", "", "update's share, paper", "ours, lived", "serialised", "paper, s", "ours, lived: FW + BW + update, s", "s",
                "serialised: FW + BW + update, s"], rows)
    base = page.value(Run("base", 6), "lived")
    if base:
        page.say(f"With 6 SSDs the update is {percent(share(base))} of base here; the paper has {100 * facts.UPDATE_SHARE:.1f}% for 8.4B and {percent(1 - theirs[6]['base'][0] / theirs[6]['base'][1])} "
                 "for 4.0B: the links were set from computing alone, so that this share is a check of them.")
    for kind, words in (("lived", "as lived"), ("serial", "serialised")):
        bars = {n: [(UPPER[m], page.value(Run(m, n), kind)) for m in MODES if page.value(Run(m, n), kind)] for n in facts.DEVICES}
        groups = [(f"{n} SSD{'s' * (n > 1)}", group) for n, group in bars.items() if group]
        if groups:
            page.picture(f"breakdown_{kind}.svg", charts.bars(f"Seconds of a step, {words}", "s", PARTS, groups), f"time breakdown against devices, {words}")
    groups = [(f"{n} SSD{'s' * (n > 1)}", [(UPPER[m], [t[0], t[1] - t[0]]) for m, t in modes.items()]) for n, modes in theirs.items()]
    page.picture("breakdown_paper.svg", charts.bars("The paper: GPT-2 4.0B, seconds of an iteration", "s", ("FW, BW + gradient offload", PARTS[2]), groups), "the paper's breakdown")


def reason(page, run, paper):
    """The words of a row: do the parameters explain the difference?"""
    lived, there = page.speed(run), page.speed_there(run)
    if abs(lived / paper - 1) <= 0.1:
        return "within 10%"
    if abs(there / paper - 1) <= 0.1:
        return "the parameters' way: with the paper's it is within 10%"
    if abs(there - paper) < abs(lived - paper):
        return f"the parameters' way, {100 * (lived - there) / (lived - paper):.0f}% of it; below"
    return "below"


def devices(page):
    page.say("## Speed against devices (Fig. 9, 11a)", "", "Over base on as many SSDs.")
    rows = []
    for i, n in enumerate(facts.DEVICES):
        for m in MODES[1:]:
            if m == "su":
                pair = facts.BREAKDOWN["GPT-2 4.0B"].get(n)
                paper = pair and pair["base"][1] / pair["su"][1]
            else:
                paper = facts.SPEED["A5000"][m][i] / facts.SPEED["A5000"]["base"][i]
            spoken = facts.SPOKEN.get(n, {}).get(m)
            if page.speed(Run(m, n)):
                rows.append([str(n), UPPER[m], f"{spoken[0]:.2f} - {spoken[1]:.2f}" if spoken else NONE, *page.speeds(Run(m, n), paper),
                             reason(page, Run(m, n), paper) if paper else "not published"])
    page.table(["SSDs", "", "paper, all models, in words", "GPT-2 4.0B", "ours, lived", "", "as there", "", "why it differs"], rows)
    series = []
    for m in ("base", "su+o", "su+o+c"):
        points = [(n, page.speed(Run(m, n), Run("base", 1))) for n in facts.DEVICES]
        series += [(f"{UPPER[m]}, paper", list(zip(facts.DEVICES, facts.SPEED["A5000"][m]))), (f"{UPPER[m]}, ours", [p for p in points if p[1]])]
    if all(line for _, line in series):
        page.picture("speed.svg", charts.lines("Speed over base with one SSD", "x", "SSDs", series, (0, 2, 4)), "speed against devices")
    page.say("What the parameters' way leaves has no account in published numbers; what is known of it: with one SSD the paper's base reads faster from an SSD than the FPGA does, which makes SU slower than base "
             "(here both are the same modelled drive); SU+O+C there has a Top-K on the GPU, and a decompressor on the FPGA that is hardly faster than the SSD (Fig. 14), which no modelled drive has; and forward "
             "computes before or after the update there, here beside it. Base gains nothing from where the link is full, there and here.")


def models(page):
    page.say("## Models (Fig. 9, 10)", "", "The paper's models by parameters; ours are 1, 2.1 and 4.2 times the smallest, with as many tokens; its BERTs are compared with BERTs, which are trained to find masked tokens. 24 and 33 billion would be too large here for half an hour; "
             "what is predicted for 33 stands below.")
    rows = []
    for model, size in (("GPT-2 4.0B", "1"), ("BERT 4.0B", "1"), ("GPT-2 8.4B", "2.1"), ("BERT 8.3B", "2.1"), ("GPT-2 16.6B", "4.2")):
        for n, modes in facts.BREAKDOWN[model].items():
            mine = {m: Run(m, n, size=size, family=model.split()[0].lower().replace("-", "")) for m in MODES[1:] if m in modes}
            rows += [[model, size, str(n), UPPER[m], *page.speeds(run, modes["base"][1] / modes[m][1])] for m, run in mine.items() if page.speed(run)]
    page.table(["paper's model", "ours", "SSDs", "", "paper", "ours, lived", "", "as there", ""], rows)
    by_size = [[page.speed(Run(m, n, size=z)) for z in runs.SIZES] for m in MODES[1:] for n in (6, 10)]
    spreads = [max(v) / min(v) - 1 for v in (list(filter(None, speeds)) for speeds in by_size) if len(v) > 1]
    if spreads:
        page.say(f"The paper: the trend is almost the same for all models, since bytes and computing both grow with the parameters. Ours: a mode's speed on as many SSDs differs by at most "
                 f"{percent(max(spreads))} between sizes.")


def ratios(page):
    page.say("## Compression (Fig. 16)", "", "SU+O+C by the gradient's bytes that are sent; time over SU+O's.")
    rows = []
    for n in (6, 10):
        for c in (10, 5, 2, 1):
            paper = facts.RATIOS[n][c] / facts.RATIOS[n][100]
            ours, dense = page.seconds(Run("su+o+c", n, compress=c)), page.seconds(Run("su+o", n))
            if ours and dense:
                rows.append([str(n), f"{c}%", number(paper), number(ours / dense), off(ours / dense, paper)])
    page.table(["SSDs", "sent", "paper", "ours", ""], rows)
    page.say("The paper's times do not fall evenly (10% is slower than dense with 6 SSDs, 1% slower than 2%): its Top-K on the GPU and its decompressor, which is hardly faster than "
             f"the SSD reads ({facts.DECOMPRESSOR} GB/s, Fig. 14), are in them. Ours has the same traffic, a Top-K on the host's processor, and no FPGA in its way.")


def optimizers(page):
    page.say("## Optimizers (Fig. 12)", "", "Speed over base with the same optimizer.")
    rows = []
    for o, by_devices in {"adamw": facts.BREAKDOWN["GPT-2 4.0B"], **facts.OPTIMIZERS}.items():
        for n, modes in by_devices.items():
            for m in ("su+o", "su+o+c"):
                if page.speed(Run(m, n, optimizer=o)):
                    rows.append([{"adamw": "Adam (ours AdamW)", "sgd": "SGD with momentum", "adagrad": "AdaGrad"}[o], str(n), UPPER[m],
                                 *page.speeds(Run(m, n, optimizer=o), modes["base"][1] / modes[m][1])])
    page.table(["", "SSDs", "", "paper", "ours, lived", "", "as there", ""], rows)
    page.say("The states of SGD with momentum and of AdaGrad are two thirds of Adam's, so an update moves less, and its modes have less to gain.")


def faster(page):
    page.say("## A faster compute side (Fig. 11)", "",
             f"Computing that is 1.5 times faster is the same as links that are 1.5 times slower; of the paper's A100 it is {facts.COMPUTING['A5000'] / facts.COMPUTING['A100']:.2f} times "
             "(FW + BW of SU+O+C with ten SSDs).")
    rows = []
    for i, n in enumerate(facts.DEVICES):
        for m in ("su+o", "su+o+c"):
            slow, fast = (facts.SPEED[gpu][m][i] / facts.SPEED[gpu]["base"][i] for gpu in ("A5000", "A100"))
            if page.speed(Run(m, n, slower=1.5)):
                rows.append([str(n), UPPER[m], f"{slow:.2f}, {number(page.speed(Run(m, n)))}", *page.speeds(Run(m, n, slower=1.5), fast)])
    page.table(["SSDs", "", "A5000: paper, ours", "A100: paper", "ours, 1.5 times faster, lived", "", "as there", ""], rows)


def congested(page):
    n = 2 if page.a.quick else 10
    page.say("## The congested topology (Fig. 17)", "",
             f"What computes stands behind the drives' own link and takes it, too: 1 to 3 accelerators, {n} SSDs, twice the tokens (the paper's model of 1.16B on an A4000 computes twice as "
             "long beside its bytes). The paper splits the model among its GPUs (tensor parallelism), so that computing becomes shorter with each; here each accelerator gets all parameters and computing "
             "stays the same.")
    page, rows = page.having(Run("su+o+c", n, accelerators=1)), []
    for k, modes in facts.CONGESTED.items():
        c, base = Run("su+o+c", n, accelerators=k), Run("base", n, accelerators=k)
        ours, paper = page.speed(c), modes["base"][1] / modes["su+o+c"][1]
        if ours:
            there, here = modes["su+o+c"][0] / modes["base"][1], sum(page.value(c, "lived")[:2]) / page.seconds(base)
            rows.append([str(k), number(paper), number(ours), off(ours, paper), number(page.speed(c._replace(mode="su+o"))), f"{page.seconds(base):.2f}", f"{page.seconds(c):.2f}",
                         f"{100 * there:.0f}%", f"{100 * here:.0f}%"])
    page.table(["accelerators", "paper: SU+O+C", "ours", "", "ours: SU+O", "ours: base, s", "SU+O+C, s", "FW + BW in base's time, paper", "ours"], rows)
    page.say("The last two columns are why the speeds differ: what no mode makes shorter, FW + BW as SU+O+C has them, as a share of base's step. At most 1 over it is to be gained.")


def accuracy(page):
    page.say("## Fine-tuning accuracy (Table IV)")
    found, path = {}, os.path.join(page.a.glue_results, "results.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
    page.say("SU and SU+O give base's bits, so that their accuracy is base's own; compression is what may cost some. Ours: a GPT-2 of 30 million parameters, three to five epochs, from "
             "[glue/](glue/table.md), which `make glue-table` (hours; `GLUE=`, `INIT=`) made and extends by whatever tasks are in GLUE's folder. What stands here is the change against dense gradients, in points of "
             "accuracy; with several seeds the means, and in brackets how many.")
    tasks = {"SST-2": "sst2", "QNLI": "qnli", "QQP": "qqp", "MNLI": "mnli", "MRPC": "mrpc"}
    rows = []
    for c in (10, 5, 2, 1):
        cells = [f"{c}%"]
        for shown, task in tasks.items():
            got = {r: [v["eval_accuracy"] for k, v in found.items() if k.startswith(f"{task} {r}% ") and "eval_accuracy" in v] for r in (0, c)}
            papers = [f"{t[shown][c] - t[shown][100]:+.2f}" for t in facts.TABLE_IV.values() if shown in t]
            ours = f"{100 * (statistics.mean(got[c]) - statistics.mean(got[0])):+.2f} ({len(got[c])})" if got[0] and got[c] else "not run: no data"
            cells.append(f"{' '.join(papers) + '; ' if papers else ''}{ours}")
        rows.append(cells)
    page.table(["sent", *(f"{t}: {'paper (BERT-0.34B, GPT2-0.77B, GPT2-1.6B); ' if t in facts.TABLE_IV['GPT2-1.6B'] else ''}ours" for t in tasks)], rows)
    rows_of = {"SST-2": 872, "MRPC": 408}
    page.say(f"One row of SST-2's development set ({rows_of['SST-2']}) is {100 / rows_of['SST-2']:.2f} points, one of MRPC's ({rows_of['MRPC']}) {100 / rows_of['MRPC']:.2f}: a model of 30 million "
             "parameters differs by one to two points between seeds.")


def cost(page):
    p = facts.PRICE
    page.say("## Cost efficiency (Fig. 15)", "",
             f"Prices as the paper names them (section VII-I): server ${p['server']:,}, A5000 ${p['A5000']:,}, SSD ${p['SSD']:,}, SmartSSD ${p['SmartSSD']:,}; they stand in "
             "[paper_facts.py](../../tests/bench/paper_facts.py) alone. Steps a second for each dollar, base with one SSD = 1.")
    rows, series = [], {k: [] for k in ("BASE, paper", "BASE, ours", "SU+O+C, paper", "SU+O+C, ours")}
    one = page.seconds(Run("base", 1))
    for i, n in enumerate(facts.DEVICES):
        dollars = {m: p["server"] + p["A5000"] + n * p["SSD" if m == "base" else "SmartSSD"] for m in ("base", "su+o+c")}
        cells = [str(n)]
        for m in dollars:
            paper, seconds = facts.COST[m][i] / facts.COST["base"][0], page.seconds(Run(m, n))
            ours = one and seconds and one / seconds * (p["server"] + p["A5000"] + p["SSD"]) / dollars[m]
            cells += [number(paper), number(ours), off(ours, paper)]
            series[f"{UPPER[m]}, paper"].append((n, paper))
            if ours:
                series[f"{UPPER[m]}, ours"].append((n, ours))
        if cells[2] != NONE:
            rows.append(cells)
    page.table(["SSDs", "BASE, paper", "ours", "", "SU+O+C, paper", "ours", ""], rows)
    if all(series.values()):
        page.picture("cost.svg", charts.lines("Steps a second for each dollar, base with one SSD = 1", "x", "SSDs", list(series.items()), (0, 2)), "cost efficiency")
    ours = {n: (page.seconds(Run("base", n)), page.seconds(Run("su+o+c", n))) for n in facts.DEVICES}
    machine = p["server"] + p["A5000"]
    pays = [n for n, (b, c) in ours.items() if b and c and b / c > (machine + n * p["SmartSSD"]) / (machine + n * p["SSD"])]
    if pays:
        page.say(f"A CSD for each SSD pays from {min(pays)} on here, in the paper from more than four.")


def planned(gpu, model, devices, topology):
    """{mode: (speed over base as siTrain runs, and with one thing after the other)} as `siTrain plan` says of the paper's machine."""
    layers, width, heads = SHAPES[model]
    argv = [common.BIN, "plan", "--n-layer", layers, "--n-head", heads, "--n-embd", width, "--seq", 1024, "--batch", 4, "--devices", devices, "--activations", "recompute",
            "--host-mem", "512G", "--topology", topology, "--machine", os.path.join(EXAMPLES, f"machine/{gpu}.conf"), "--compare", "--json", "-"]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"siTrain plan: {done.stderr.strip()}")
    return {r["mode"]: (r["speedup"], r["turns"]["speedup"]) for r in json.loads(done.stdout)["predictions"]}


def with_link(topology, link, path):
    """A copy of a topology whose links next to the host carry `link` bytes a second each way."""
    with open(topology, encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
        for line in f:
            words = line.split()
            at_host = words[:1] == ["link"] and words[2:3] == ["host"]
            print(f"link {words[1]} host {link:.0f} {link:.0f}" if at_host else line.rstrip(), file=out)
    return path


# Layers, width and heads of GPT-2s with as many parameters; the paper does not say its own.
SHAPES = {"GPT-2 4.0B": (50, 2560, 20), "GPT-2 8.4B": (73, 3072, 24), "GPT-2 16.6B": (81, 4096, 32), "GPT-2 33.0B": (72, 6144, 48)}


def plan_of_its_machine(page):
    page.say("## `siTrain plan` for the paper's own machine", "",
             "`siTrain plan --machine examples/machine/a5000.conf --topology examples/topology/smart-infinity.txt --compare`: PCIe 3.0 x16 shared, ten SmartSSDs, the GPU's arithmetic, "
             "nothing fitted to the paper's speeds; batch 4 x 1024, activations recomputed. In turns: one thing after the other, as the paper's system mostly does. As siTrain runs: with its overlap, "
             f"and with the link at the {facts.proportions()['link']:.1f} GB/s each way that the paper's base shows of it, as in our runs; beside it what those measured.")
    rows, near = [], []
    whole = os.path.join(EXAMPLES, "topology/smart-infinity.txt")
    with tempfile.TemporaryDirectory() as folder:
        slow = with_link(whole, facts.proportions()["link"] * 1e9, os.path.join(folder, "link"))
        for gpu, model, n in [("a5000", m, n) for m in SHAPES for n in (6, 10)] + [("a100", "GPT-2 4.0B", 10)]:
            said, own = planned(gpu, model, n, whole), planned(gpu, model, n, slow)
            modes = facts.BREAKDOWN[model][n] if gpu == "a5000" else {m: (0, 1 / v[-1]) for m, v in facts.SPEED["A100"].items()}
            for m in (x for x in MODES[1:] if x in modes):
                paper = modes["base"][1] / modes[m][1]
                size = {"GPT-2 4.0B": "1", "GPT-2 8.4B": "2.1", "GPT-2 16.6B": "4.2"}.get(model, "")
                measured = page.speed(Run(m, n, size=size, slower=1 if gpu == "a5000" else 1.5))
                near.append(abs(said[m][1] / paper - 1) <= 0.1)
                rows.append([f"{model}, {gpu.upper()}", str(n), UPPER[m], number(paper), number(said[m][1]), off(said[m][1], paper),
                             number(own[m][0]), number(measured), off(own[m][0], measured)])
    page.table(["", "SSDs", "", "published", "plan, in turns", "", "plan, as siTrain runs", "ours, lived", ""], rows)
    page.say(f"{sum(near)} of {len(near)} published speeds are within 10% in turns. The largest cause of what is off: the x16 link, which in the plan carries what PCIe 3.0 does, while the paper's base "
             "saturates at less than a third of that; a slower link makes base slower, and with it every speed over base higher. The next section takes the link as base shows it. For the A100 ours are the runs whose computing is "
             "1.5 times faster, which is what the paper's times say of it; the plan goes by its data sheet, 2.8 times.")


def predicted(page):
    p = facts.proportions()
    page.say("## Predicted from the paper's own account (Fig. 9, 10)", "",
             f"From the text's account of an iteration, one thing after the other: FW and BW as published; base's update 8M / {p['link']:.2f} GB/s; SmartUpdate's (8M / {facts.DRIVE_READ} + 6M / "
             f"{facts.DRIVE_WRITE} GB/s) / n, then 2M up at {p['link']:.2f} GB/s, of which the handler of SU+O and SU+O+C hides {percent(facts.handler_hides())}: the one number that is fitted, to GPT-2 4.0B "
             "alone. M: 2 bytes a parameter.")
    rows, worst = [], []
    for model, by_devices in facts.BREAKDOWN.items():
        billions = float(model.split()[1][:-1])
        for n, modes in by_devices.items():
            base = facts.seconds_as_written("base", n, billions, modes["base"][0])
            for m in MODES[1:]:
                if m not in modes:
                    continue
                computing, seconds = modes[m]
                guess = facts.seconds_as_written(m, n, billions, computing)
                ours, paper = base / guess, modes["base"][1] / seconds
                worst.append((abs(ours / paper - 1), f"{model}, {n} SSDs, {UPPER[m]}"))
                rows.append([model, str(n), UPPER[m], number(seconds, 1), number(guess, 1), off(guess, seconds), number(paper), number(ours), off(ours, paper)])
    page.table(["model", "SSDs", "", "published, s", "predicted, s", "", "published speed over base", "predicted", ""], rows)
    beyond = [f"{what} ({percent(w)})" for w, what in worst if w > 0.1]
    page.say(f"{sum(w <= 0.1 for w, _ in worst)} of {len(worst)} speeds are within 10%" + (f"; the others: {', '.join(beyond)}. There the published update takes as long as if nothing of the parameters' way up were "
             "hidden: with few SSDs and large models the drives are the slower side, and reading parameters up takes them away from the update." if beyond else "."))


def left_out(page):
    page.say("## What is not repeated", "",
             "Fig. 13 (BLOOM, ViT): siTrain has neither. Fig. 14 and Table III (the FPGA's throughput and resources): they want an FPGA; the drives' speeds of Fig. 14 are in the links "
             "above, and [fpga.md](../internals/fpga.md) has estimates for our kernels. Table II is the paper's machine. Figures 1, 2, 4 to 8 are drawings. SSDTrain's ROK curve stands in [activations.md](../activations.md).")


SECTIONS = (opening, traffic, breakdown, devices, models, ratios, optimizers, faster, congested, accuracy, cost, plan_of_its_machine, predicted, left_out)


def write(results, setup, a, more=None):
    page = Page(results, setup, a, more and Page(more, more.data["setup"], a))
    for section in SECTIONS:
        section(page)
    folder = os.path.join(os.path.dirname(os.path.abspath(a.out)), "paper")
    os.makedirs(folder, exist_ok=True)
    for name, svg in page.pictures.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(svg)
    with open(a.out, "w", encoding="utf-8") as f:
        f.write("\n".join(page.lines).rstrip() + "\n")
