#!/usr/bin/env python3
"""paper.py: the evaluation of Smart-Infinity at our scale, beside the paper's figures. `make paper` runs it.

First a look at the disk and at how fast this machine computes, from which the modelled links follow (paper_runs.py); then the runs, in rounds (common.py); then
the page and its pictures (paper_page.py). What is there in --json is not measured again, so that it may be interrupted; --page makes the page
alone, also from another machine's.
Standard library only. Environment: SITRAIN the program (./siTrain)."""
import argparse
import json
import os
import sys
import tempfile

import common
import paper_facts as facts
import paper_page
import paper_runs as runs


def results_of(path):
    if not path or not os.path.exists(path):
        sys.exit(f"--page: {path or 'no --json'}: not there; make paper without --page measures first")
    results = common.Results(None, {})
    with open(path, encoding="utf-8") as f:
        results.data = json.load(f)
    return results


def page_alone(a):
    """From what --json has, which may be another machine's."""
    results = results_of(a.json)
    vars(a).update(results.data["arguments"], rounds=max(len(by_round) for by_round in results.data["runs"].values()))
    paper_page.write(results, results.data["setup"], a, a.more and results_of(a.more))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.options(p, rounds=1, steps=4, skip=1)
    p.add_argument("--quick", action="store_true", help="two devices, few runs: a trial of the machinery")
    p.add_argument("--out", default="docs/lab/paper.md")
    p.add_argument("--family", choices=("gpt2", "bert"), help="only the runs of this one; what needs others is left out of the page")
    p.add_argument("--glue-results", default="docs/lab/glue", help="the folder that make glue-table fills")
    p.add_argument("--page", action="store_true", help="measure nothing: the page from what --json has")
    p.add_argument("--more", help="with --page: results of another machine, for sections of which --json has no run")
    a = common.parse(p)
    if a.page:
        return page_alone(a)
    results = common.Results(a.json, {k: getattr(a, k) for k in ("steps", "threads", "quick")})
    for path in filter(None, (a.json, a.out)):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sitrain-paper-", dir=a.dir or os.path.dirname(os.path.abspath(a.json or a.out))) as folder:
        a.dir = folder  # the disk that is looked at is the one that the runs are on
        data = os.path.join(folder, "tokens.bin")
        common.make_tokens(data, 1 << 17, runs.VOCAB)
        setup = results.data.get("setup")
        if not setup:
            setup = results.data["setup"] = runs.quick_set_up() if a.quick else runs.set_up(a, data, max(facts.DEVICES))
            results.save()
        print(f"disk {setup['disk'] / 1e6:.0f} MB/s; link {setup['link'] / 1e6:.1f} MB/s; {setup['batch']} x {runs.LENGTH} tokens in {setup['computing']:.3f} s", flush=True)
        by_name = {runs.name(r): r for r in runs.all_runs(a.quick) if a.family in (None, r.family)}
        for r in range(a.rounds):
            if not results.round(r, list(by_name), lambda name: runs.measure(by_name[name], setup, a, data), a, lambda x: f"{x['step_seconds']:.3f} s a step"):
                sys.exit("the time ended first: call again to go on")
    if results.data["left_out"]:
        sys.exit("some runs failed; they are named in --json, and tried again where left_out is empty")
    paper_page.write(results, setup, a)


main()
