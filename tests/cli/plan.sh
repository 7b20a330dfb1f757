#!/bin/sh
# plan's prediction of the time: it is there in every mode and hangs together, says what it comes from, or why there is none, and leaves
# nothing behind; on a machine in a file it is what its lines say. No measured time is tested. TAP.
. tests/tap.sh

mkdir "$tmp/d" "$tmp/dev"
# Little memory, so that the largest run that fits it is found soon.
small="--n-layer 3 --n-head 2 --n-embd 32 --vocab 96 --seq 16 --batch 2 --grad-accum 2 --steps 70 --csd-mem 1M --host-mem 64M"
ram=$(mktemp -d /dev/shm/sitrain-cli.XXXXXX 2>/dev/null)
trap 'rm -rf "$tmp" ${ram:+"$ram"}' EXIT
[ -n "$ram" ] && [ "$(stat -f -c %T "$ram")" = tmpfs ] && in_ram="--device $ram --device-in-ram" || in_ram=

# estimated NAME: $tmp/out has a step's time, and the same from its tokens a second and its parts
estimated() {
    awk 'NR == 1 && $1 == "Time:" && $3 $4 $5 == "sastep," { step = $2; rate = $6; steps = $8 == 70 && $9 == "steps:" && $10 ~ /^([0-9]+[hm])?(<?[0-9]+)[sm]$/ }
         NR <= 6 && /^(Memory|Disk|Written): / { answer++ }
         /^Traffic|bytes/ { raw = 1 }
         /^Time of a step, predicted from / { there = 1 }
         there && $2 == "it" && $3 == "forward" { forward = $4; for (i = 5; i < NF; i++) if ($i == "backward") backward = $(i + 1) } # the head between them is left out where it took no time
         there && $1 == "pace" { pace = 1 }
         length($0) > 80 && (there || (NR <= 6 && !/^Model/)) && !memory { long = 1 }
         /^Memory$/ { memory = 1 }
         END { exit !(steps && answer == 3 && !raw && pace && !long && memory && forward > 0 && backward > 0 && step > 0.98 * (forward + backward) && rate * step > 60 && rate * step < 68) }' \
        "$tmp/out"
    [ $? = 0 ] && [ "$got" = 0 ] && [ -z "$(ls -A "$tmp/d")$(ls -A "$tmp/dev")${ram:+$(ls -A "$ram")}" ] || { sed -n '/^Time/,/^Memory$/p' "$tmp/out" >>"$tmp/err" && false; }
    result $? "$1: a step's time, of which computing is a part; nothing is left"
}
# this machine is measured once, its drive and its RAM: on a terminal, which is told of the seconds
through='out=$1; shift; exec "$@" >"$out"'
has_terminals && on_tty="python3 tests/cli/on_tty.py 80" || on_tty=
# shellcheck disable=SC2086
$on_tty sh -c "$through" sh "$tmp/out" "$bin" plan $small --run "$tmp/d/run" --device "$tmp/dev/file" $in_ram --compress 5% --error-feedback --speculate >"$tmp/err" 2>&1 </dev/null
got=$?
estimated "measured in a file for a device${in_ram:+, and in RAM}"
if [ -n "$on_tty" ]; then
    result "$(grep -q 'measuring how fast this machine is  for [0-9]*s' "$tmp/err"; echo $?)" "its seconds are not silent on a terminal"
fi

# a machine in a file: nothing is measured, and the same figures give the same prediction
works "bench --save" bench --n-layer 1 --n-head 2 --n-embd 32 --vocab 96 --seq 16 --batch 2 --threads 1 --probe --dir "$tmp/d" --save "$tmp/m.conf"
sed -i 's/^name = .*/name = this one/' "$tmp/m.conf"
grep -q "^# a drive: " "$tmp/m.conf" && grep -q "^drive = " "$tmp/m.conf" && [ -z "$(ls -A "$tmp/d")" ]
result $? "writes a file with a word to each line, and leaves nothing else"
estimate() { # NAME ARGUMENTS...
    name=$1
    shift
    # shellcheck disable=SC2086
    run plan $small --threads 1 --machine "$tmp/m.conf" --run "$tmp/d/run" "$@"
    estimated "$name"
}
estimate mem --mode mem
estimate "recomputed, in a device's folder" --device "$tmp/dev" --activations recompute --mode su
estimate "devices that answer at once" --csd null
grep -q "updates beside it 0 s" "$tmp/out"
result $? "their updates take no time"
json() { run plan --n-layer 20 --n-head 2 --n-embd 32 --vocab 96 --seq 16 --batch 2 --threads 1 --host-mem 64M --machine "$tmp/m.conf" --run "$tmp/d/run" --json - "$@" && cp "$tmp/out" "$tmp/json"; }
json --endurance 1T --devices 2 --csd-read-bw 1M --csd-write-bw 500K
python3 - "$tmp/json" <<'EOF'
import json, sys
d = json.load(open(sys.argv[1]))
step, more = d["step"], {r["what"]: r for r in d["more"]}
assert step["pace"] == "drives" and step["kept_layers"] == 20
# 16 bytes read, 14 written, gradients and parameters: what drives of 1 MiB/s and 500 KiB/s take, shared by two of them, in parts
# of 2,048 parameters
read, write, n = 2**20, 500 * 2**10, d["model"]["parameters"]
least = (18 / read + 18 / write) * n / 2
assert 0.9 * least < step["seconds"] < 1.4 * least, (least, step["seconds"])
assert more["one more drive"]["seconds"] < 0.8 * step["seconds"]
assert abs(more["one more core"]["change"]) < 0.05
assert abs(d["drives"]["years"] - 2**40 / d["drives"]["bytes_per_day"] / 365.25) < 1e-6 * d["drives"]["years"]
assert d["largest"]["batch"] >= 2 and d["largest"]["n_layer"] >= 20 and d["largest"]["fits"]
EOF
result $? "--json: modelled drives set the pace, and one more of them takes a good part of it away"
# what it names as the largest can be typed: no option refuses it, and the plan of it fits. A model so small that the options' own
# bounds come before those of memory and disk, which others change meanwhile
tiny="--n-head 1 --n-embd 2 --vocab 2 --seq 2 --threads 1 --host-mem 8G --run $tmp/d/run"
# shellcheck disable=SC2086
run plan --n-layer 3 --batch 2 $tiny --machine "$tmp/m.conf" --json -
python3 -c 'import json, sys; d = json.load(open(sys.argv[1]))["largest"]; print(*(int(d[k]) for k in ("n_layer", "batch")))' "$tmp/out" >"$tmp/largest"
read -r layers batch <"$tmp/largest"
# shellcheck disable=SC2086
works "the largest --n-layer, $layers, is taken" plan --n-layer "$layers" --batch 2 $tiny --probe off
# shellcheck disable=SC2086
works "the largest --batch, $batch, is taken" plan --n-layer 3 --batch "$batch" $tiny --probe off
json --mode mem
python3 -c 'import json, sys; s = json.load(open(sys.argv[1]))["step"]; assert s["pace"] == "computing" and s["waits"] == 0 and s["update"] > 0' "$tmp/json"
result $? "in mem nothing is waited for"
sed '/^drive/d' "$tmp/m.conf" >"$tmp/none.conf"
# shellcheck disable=SC2086
refuses 2 "the drives have no speed" plan $small --machine "$tmp/none.conf" --run "$tmp/d/run"
# shellcheck disable=SC2086
refuses 2 "no figures of fp32" plan $small --machine "$tmp/m.conf" --dtype fp32 --run "$tmp/d/run"
printf 'flops = 1e12\nflops = 1e12\n' >"$tmp/twice.conf"
# shellcheck disable=SC2086
refuses 2 "twice.conf, line 2: flops is there twice" plan $small --machine "$tmp/twice.conf"
printf 'name = "of three lines"\nflops = 1e12\nhost-update = 1e9\ndevice-update = 1e9\n' >"$tmp/old.conf"
# what --activations auto will choose: nothing crosses a slow link, all of a layer that is dear to compute crosses a fast one
printf 'flops = 1e9\n' >"$tmp/slow.conf"
acts() { run plan --n-layer 8 --n-head 2 --n-embd 128 --vocab 512 --seq 256 --batch 4 --grad-accum 2 --csd-mem 4M --devices 2 --activations auto --machine "$tmp/slow.conf" --run "$tmp/d/run" --json - --csd-read-bw "$1" --csd-write-bw "$1" --link-bw "$1" --host-mem "$2M"; }
chosen() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1]))["activations"]; print(*(d[p]["offloaded"] for p in ("attentions", "mlps")))' "$tmp/out"; }
acts 1M 16
least=$(sed -n 's/.*needs at least \([0-9]*\)M.*/\1/p' "$tmp/err")
acts 1M $((least + 4))
same "0 0" "$(chosen)" "auto offloads nothing over a slow link"
acts 10G $((least + 4))
case $(chosen) in 0\ 0) false ;; *\ *) true ;; *) false ;; esac
result $? "and something over a fast one"
moved=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["activations"]["bytes_written"])' "$tmp/out")
auto="--n-layer 8 --n-head 2 --n-embd 128 --vocab 512 --seq 256 --batch 4 --grad-accum 2 --csd-mem 4M --devices 2 --activations auto --host-mem $((least + 4))M --run $tmp/d/run"
# shellcheck disable=SC2086
run plan $auto --traffic --machine "$tmp/slow.conf" --csd-read-bw 10G --csd-write-bw 10G --link-bw 10G
[ "$moved" -gt 0 ] && grep -q "^  host  *activation  *write  *$moved bytes .*, as predicted" "$tmp/out" && grep -q "^  activation  *$((moved / 2)) bytes" "$tmp/out"
result $? "which stands in the traffic and in what is written to each of two devices"
# what is offloaded leaves whole, but over a link that takes longer for it than a product that makes it again, or through few buffers
whole() { run plan --n-layer 8 --n-head 2 --n-embd 128 --vocab 512 --seq 256 --batch 4 --csd-mem 4M --devices 2 --activations offload --machine "$tmp/slow.conf" --run "$tmp/d/run" --json - --host-mem "$1M" --csd-read-bw "$2" --csd-write-bw "$2" --link-bw "$2" && python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(d["activations"]["whole"])' "$tmp/out"; }
run plan --n-layer 8 --n-head 2 --n-embd 128 --vocab 512 --seq 256 --batch 4 --csd-mem 4M --devices 2 --activations offload --probe off --host-mem 1M
least=$(sed -n 's/.*needs at least \([0-9]*\)M.*/\1/p' "$tmp/err")
same "True False False" "$(echo $(whole $((least + 16)) 1000G) $(whole $((least + 16)) 100M) $(whole "$least" 1000G))" "offloaded MLPs leave whole over a fast link, through buffers enough"
# shellcheck disable=SC2086
run plan $auto --traffic --probe off
grep -q "^  Activations that it will choose to offload are not in what is written" "$tmp/out" && ! grep -q "^  host  *activation" "$tmp/out"
result $? "where nothing is predicted, that is said"
mkdir -p "$tmp/aside"
# shellcheck disable=SC2086
run plan $auto --act-device "$tmp/aside" --machine "$tmp/slow.conf" --csd-read-bw 10G --csd-write-bw 10G --link-bw 10G
grep -q "^  Drives of --act-device were not measured" "$tmp/out"
result $? "drives of --act-device are said to be none that was measured"
# shellcheck disable=SC2086
works "a file of the three lines there once were" plan $small --machine "$tmp/old.conf" --run "$tmp/d/run" --csd-read-bw 1M --csd-write-bw 1M
# shellcheck disable=SC2086
refuses 2 "probe off" plan $small --probe off --json -

# shellcheck disable=SC2086
works "--probe off" plan $small --probe off --run "$tmp/none/run"
! grep -q "^Time" "$tmp/out"
result $? "says no time"
# shellcheck disable=SC2086
run plan $small --run "$tmp/none/run"
[ "$got" = 0 ] && grep -q "^Disk: " "$tmp/out" && grep -q "^Time: not measured: make a folder in .*No such file" "$tmp/out"
result $? "where nothing can be written the plan is there, and why there is no time"
for json in - "$tmp/none.json"; do # there is nothing to write
    # shellcheck disable=SC2086
    refuses 1 "--json prints the time of a step, which could not be measured: make a folder in " plan $small --run "$tmp/none/run" --json "$json"
done

if [ -n "$in_ram" ]; then
    # shellcheck disable=SC2086
    run plan $small --run "$ram/run"
    [ "$got" = 0 ] && grep -q "^Time: not measured: .* is in RAM (tmpfs).*--device-in-ram" "$tmp/out"
    result $? "where a run would be refused the plan says why there is no time"
else
    skip "a place in RAM" "/dev/shm is no tmpfs that can be written here"
fi

# Who has the memory is told of mem, with what both write: computed by hand from an image and from the traffic, and by the day at both paces
python3 - "$bin" "$tmp" >"$tmp/out" 2>"$tmp/err" <<'EOF'
import json, re, subprocess, sys
bin, tmp = sys.argv[1:]
sizes = ["--n-layer", "4", "--n-head", "2", "--n-embd", "64"]
own = ["--vocab", "96", "--seq", "16", "--batch", "2", "--csd-mem", "1M", "--devices", "2", "--steps", "70"]
def plan(*more):
    done = subprocess.run([bin, "plan", *own, *(sizes if "--n-layer" not in more else []), "--run", f"{tmp}/d/run", *map(str, more)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
size = lambda text: float(text.rstrip("KMGT")) * 1024 ** "KMGT".find(text[-1]) * 1024 if text[-1] in "KMGT" else float(text)
near = lambda a, b: abs(a - b) <= 0.006 * max(a, b)
m = ["--machine", f"{tmp}/m.conf", "--commit-every", 50, "--csd-read-bw", "1M", "--csd-write-bw", "1M", "--host-mem", "64M"]
d = json.loads(plan(*m, "--json", "-"))
text = plan(*m, "--traffic")
mem = d["mem"]
n = d["model"]["parameters"]
image = mem["bytes_per_step"] * 50
assert mem["fits"] and 12 * n <= image < 12.2 * n + 65536, (image, n)
device, journal = [float(re.search(p, text, re.M)[1]) for p in (r"^  all +(\d+) bytes$", r"and about ([\d.]+)K in a step to the drive of RUN")]
assert abs(mem["own_bytes_per_step"] - 2 * device - 1024 * journal) < 16, (mem, device, journal)
in_mem = json.loads(plan(*m, "--mode", "mem", "--json", "-"))
assert mem["seconds"] == in_mem["step"]["seconds"] < d["step"]["seconds"]
assert "mem" in in_mem and not in_mem["mem"]["fits"]
assert near(mem["bytes_per_day"], image / 50 / mem["seconds"] * 86400) and near(mem["own_bytes_per_day"], mem["own_bytes_per_step"] / d["step"]["seconds"] * 86400)
said = re.search(r"^--mode mem fits, too: (\S+) of (\S+), (\S+) s a step, and\n  (\S+) instead of (\S+) written a day", text, re.M)
assert near(size(said[1]), mem["memory"]) and near(float(said[3]), mem["seconds"]) and near(size(said[4]), mem["bytes_per_day"]) and near(size(said[5]), mem["own_bytes_per_day"]), said[0]
# without a time: by the step
said = re.search(r"^--mode mem fits, too: .*, as fast or faster, and\n  (\S+) instead of (\S+) written a step", plan("--probe", "off", "--commit-every", 50), re.M)
assert near(size(said[1]), mem["bytes_per_step"]) and near(size(said[2]), mem["own_bytes_per_step"])
# not where there is no room for it, where it is the mode already, or cannot do what is asked for
big = ["--n-layer", "8", "--n-embd", "512", "--n-head", "8"]
least = int(re.search(r"total +([\d.]+)", plan("--probe", "off", *big))[1].split(".")[0])
for more in ["--probe", "off", "--mode", "mem"], ["--probe", "off", *big, "--host-mem", f"{least}M", "--activations", "recompute"], \
        ["--probe", "off", "--csd", "null"], ["--probe", "off", "--ranks", 2, "--grad-accum", 2]:
    assert "mode mem" not in plan(*more), more
EOF
result $? "that mem fits is said where it does, with what both write"

# frozen embeddings and a frozen head take less time: two products instead of three (pieces of words: one more), and no gradient of embeddings
for memory in 1e9 1e12; do
    printf 'flops = 1e12\nmemory = %s\nhost-update = 1e9\ndrive = 1e9 1e9 1e9\n' $memory >"$tmp/memory$memory.conf"
done
python3 - "$bin" "$tmp" 2>"$tmp/err" <<'EOF'
import json, subprocess, sys
bin, tmp = sys.argv[1:]
def step(vocab, *more, memory="1e9"):
    done = subprocess.run([bin, "plan", "--model", "smollm2-1.7b", "--n-layer", "1", "--vocab", str(vocab), "--seq", "16", "--batch", "2", "--mode", "mem", "--host-mem", "16G",
                           "--machine", f"{tmp}/memory{memory}.conf", "--run", f"{tmp}/none", "--json", "-", *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["step"]
product = 2 * 2048 * 32 / 1e12  # seconds for each word
for products, pieced, more in (3, 4, ()), (2, 3, ("--lora-rank", "2")):
    whole, pieces = step(2000, *more), step(160000, *more)
    assert abs(whole["head"] / (2000 * product) - products) < 1e-6 and abs(pieces["head"] / (160000 * product) - pieced) < 1e-6, (whole, pieces)
    assert (whole["backward"] > step(2000, *more, memory="1e12")["backward"]) == (not more), whole
EOF
result $? "a base that stays as it is takes the time of what is computed of it"

# several ranks: half of every block each, and the network between them
two="plan --n-layer 3 --n-head 2 --n-embd 128 --vocab 512 --seq 16 --batch 2 --grad-accum 4 --csd-mem 1M --csd-read-bw 1G --csd-write-bw 1G --machine $tmp/slow.conf --host-mem 64M --run $tmp/d/run"
seconds() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["step"][sys.argv[2]])' "$1" "$2"; }
# shellcheck disable=SC2086
run $two --traffic --ranks 2 --network-bw 1M --network-latency 10
[ "$got" = 0 ] && grep -q "^Ranks: 2; each computes 2 of these" "$tmp/out" && grep -q "^  network  *gradient  *read" "$tmp/out" &&
    grep -q "pace *it waits for the network" "$tmp/out"
result $? "two ranks on a slow network: their traffic, and that it sets the pace"
for bw in 1M 2M; do
    # shellcheck disable=SC2086
    run $two --ranks 2 --network-bw $bw --json "$tmp/ranks$bw.json"
done
python3 -c "assert 1.99 < $(seconds "$tmp/ranks1M.json" network) / $(seconds "$tmp/ranks2M.json" network) < 2.01"
result $? "twice the network, half the time on it"
# shellcheck disable=SC2086
refuses 2 "cannot be divided" $two --ranks 3
# shellcheck disable=SC2086
refuses 2 "give --ranks" $two --network-bw 1G

# a fine-tuning's steps come from its rows and epochs
printf 'sentence,label\n' >"$tmp/rows.csv"
for i in 1 2 3 4 5 6 7 8 9; do printf 'text %s,%s\n' $i $((i % 2)) >>"$tmp/rows.csv"; done
works "a fine-tuning" plan --n-layer 1 --n-head 2 --n-embd 16 --vocab 96 --max-seq 8 --seq 8 --batch 2 --mode mem --train-file "$tmp/rows.csv" --epochs 4 --run "$tmp/d/run" --machine "$tmp/m.conf"
grep -q "^Time: .*; 20 steps: " "$tmp/out"
result $? "takes as many steps as its epochs have"
# a model of 8 million million parameters is refused as soon as any other: nothing is counted one by one
timeout 30 "$bin" plan --mode mem --n-layer 10000 --n-head 64 --n-embd 8192 --seq 65536 --batch 1024 --grad-accum 1000 --probe off >"$tmp/out" 2>"$tmp/err"
[ $? -eq 2 ] && grep -q "needs at least" "$tmp/err"
result $? "in mem what is absurdly large is refused at once"

done_testing
