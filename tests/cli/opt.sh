#!/bin/sh
# The command line: what is refused, in which words, with which exit code; help, man page, completion; report and devices without a run.
# Prints TAP. The binary is $SITRAIN, or ./siTrain.
. tests/tap.sh

# expect CODE STREAM TEXT ARGUMENTS...: the exit code, and text on one stream, which for refusals is one line of stderr alone.
expect() {
    code=$1 stream=$2 text=$3
    shift 3
    "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    ok=1
    if [ $got -eq "$code" ] && grep -qF -- "$text" "$tmp/$stream"; then ok=0; fi
    if [ "$code" -ne 0 ] && { [ -s "$tmp/out" ] || [ "$(wc -l <"$tmp/err")" -ne 1 ]; }; then ok=1; fi
    result $ok "siTrain $*: $code, $text"
}

expect 0 out "siTrain " --version
expect 0 out "Usage: siTrain COMMAND" --help
expect 0 out ".TH SITRAIN 1" --man
expect 0 out "complete -o filenames -F _siTrain siTrain" --completion
for command in pretrain eval generate prepare import export plan report devices; do
    expect 0 out "Usage: siTrain $command" "$command" --help
    "$bin" --man >"$tmp/out"
    grep -q "^\.SS $command" "$tmp/out"
    result $? "the man page has $command"
done
if command -v bash >/dev/null; then
    "$bin" --completion >"$tmp/out" && bash -n "$tmp/out"
    result $? "the completion is bash"
fi
"$bin" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 2 ] && [ ! -s "$tmp/out" ]
result $? "no command: 2"

expect 2 err "did you mean pretrain?" pretrian
expect 2 err "siTrain --help lists them" frobnicate
for later in finetune bench check reshard watch; do
    expect 2 err "$later is not in this version" $later
done

refuse() { # TEXT ARGUMENTS of pretrain
    text=$1
    shift
    expect 2 err "$text" pretrain "$@"
}
refuse "did you mean --steps?" --stesp 4
refuse "did you mean --activations?" --activation keep
refuse "--steps needs a value" --steps
refuse "--steps needs a value but is followed by --batch" --steps --batch 2
refuse "--steps x: expected a whole number from 1 up" --steps x
refuse "--steps 0: expected a whole number from 1 up" --steps 0
refuse "--steps -1: expected a whole number" --steps -1
refuse "--steps 99999999999999999999: expected a whole number" --steps 99999999999999999999
refuse "--steps was given twice" --steps 1 --steps 2
refuse "--quiet takes no value" --quiet=1
refuse "expected mem, base, su, su+o or su+o+c (did you mean su?)" --mode sux
refuse "--csd xrt is not in this version; use emu or null" --csd xrt
refuse "--activations offload is not in this version; use keep or recompute" --activations offload
refuse "--activations auto is not in this version" --activations auto
refuse "--lr nan: expected a number" --lr nan
refuse "--lr -1: expected a number from 0 to 1e+30" --lr -1
refuse "--beta1 1: expected a number from 0 to 0.9999999" --beta1 1
refuse "--csd-mem 64K: expected a size" --csd-mem 64K
refuse "from 128K up" --csd-mem 1Q
refuse "--csd-mem 200000.5: expected a size" --csd-mem 200000.5
refuse "--compress 200%: expected a part such as 2% or 0.02" --compress 200%
refuse "--warmup 101%: expected a number of steps" --warmup 101%
refuse "--warmup 1.5: expected a number of steps" --warmup 1.5
refuse "there is no option -x" -x
for later in dropout speculate keep-best trace tensorboard; do
    refuse "--$later is not in this version" --$later
done

expect 2 err "RUN is missing" report
expect 2 err "extra was not expected" report "$tmp" extra
expect 2 err "is not a run: there is no" report "$tmp"
expect 2 err "--html is not in this version" report "$tmp" --html
expect 2 err "exclude each other" report "$tmp" --json --csv
echo hello >"$tmp/run.db"
expect 2 err "$tmp/run.db is not a SQLite database" report "$tmp"
rm -f "$tmp/run.db" "$tmp/run.lock"

expect 0 out "NVMe drives" devices --dir "$tmp"
expect 0 out "sync      available" devices --dir "$tmp"
expect 1 err "No such file or directory" devices --dir "$tmp/none"
[ -z "$(ls -A "$tmp" | grep -v -e '^out$' -e '^err$')" ]
result $? "nothing was left behind"

done_testing
