#!/bin/sh
# Modelled links: a topology from a file, unlike drives, latency; a resume reads the file again; what is wrong is said with file and line.
# And devices that store nothing say so. TAP.
. tests/tap.sh

make_text 60 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
shape="--data $tmp/text.txt --tokenizer $tmp/tok --n-layer 2 --n-head 2 --n-embd 64 --seq 24 --batch 2 --threads 1 --csd-mem 1M --durability none --schedule-steps 4"

# busy RUN DEVICE FROM: seconds that the longest update of the steps from FROM (from 0) took a device
busy() {
    sqlite3 "$tmp/$1/run.db" "SELECT max(end_ns - start_ns) / 1e9 FROM spans WHERE phase = 'update' AND device = $2 AND step >= $3"
}
above() { # SECONDS LEAST NAME
    awk -v s="$1" -v least="$2" 'BEGIN { exit !(s > least) }'
    result $? "$3: $1 s, not less than $2"
}

works "a run without modelled links" pretrain --run "$tmp/plain" $shape --devices 2 --steps 4
want=$(exported "$tmp/plain")

# an update of the first layer's half: 25,000 parameters, padded, of which a drive reads 16 bytes each and writes 14
works "unlike drives" pretrain --run "$tmp/unlike" $shape --devices 2 --steps 4 --csd-read-bw 0,2M --csd-write-bw 0,1M --csd-latency 50
same "$want" "$(exported "$tmp/unlike")" "the same bits"
above "$(busy unlike 1 0)" 0.5 "the slower drive's update takes its reads and its writes together"
refuses 2 "--csd-read-bw has 2 values, and there are 3 devices" reshard "$tmp/unlike" --devices 3
works "a resume with other drives" pretrain --resume "$tmp/unlike" --steps 5 --schedule-steps 5 --csd-read-bw 4M,8M
"$bin" report "$tmp/unlike" --config | grep -q '^csd-read-bw = 4194304,8388608$'
result $? "which report --config has"
refuses 2 "--csd-read-bw has 2 values, and there are 3 devices" pretrain --run "$tmp/no" $shape --devices 3 --csd-read-bw 1M,2M
refuses 2 "--csd-read-bw x: expected sizes, in bytes" pretrain --run "$tmp/no" $shape --devices 2 --csd-read-bw 1M,x

mkdir "$tmp/elsewhere"
cat >"$tmp/elsewhere/box" <<END
# kind  name above up down latency
link    port host  4M 4M
link    box  port  -  -    1
drive   0    box   -  -    20   # unlimited
drive   1    box   2M 1M   20
drive   2    box   1M 1M
END
(cd "$tmp/elsewhere" && "$bin" pretrain --run "$tmp/box" $shape --devices 2 --steps 2 --topology box) >"$tmp/out" 2>"$tmp/err"
result $? "a topology from a file, which may have more drives than the run"
above "$(busy box 1 0)" 0.5 "the slower drive's update"
sed -i 's/^drive *1 .*/drive 1 box 2M 0.5M/' "$tmp/elsewhere/box"
works "a resume from another folder" pretrain --resume "$tmp/box" --steps 4
above "$(busy box 1 2)" 0.85 "reads the file again: the drive's update"
same "$want" "$(exported "$tmp/box")" "the same bits"
echo "flops = 1e9" >"$tmp/machine"
works "plan takes it" plan $shape --devices 2 --topology "$tmp/elsewhere/box" --run "$tmp/planned" --machine "$tmp/machine" --host-mem 96M
grep -q "^Time of a step, predicted" "$tmp/out"
result $? "and predicts with it"

refuses 2 "give one of the two" pretrain --resume "$tmp/box" --steps 5 --schedule-steps 5 --link-bw 4M
echo "drive 3 bx 2M 1M" >>"$tmp/elsewhere/box"
refuses 2 "elsewhere/box, line 7: no link above this line is called bx; host is the root" pretrain --resume "$tmp/box" --steps 5 --schedule-steps 5
rm "$tmp/elsewhere/box"
refuses 2 "a resume with --topology none goes on without it" pretrain --resume "$tmp/box" --steps 5 --schedule-steps 5
works "and so it does" pretrain --resume "$tmp/box" --steps 5 --schedule-steps 5 --topology none
works "for good" pretrain --resume "$tmp/box" --steps 6 --schedule-steps 6
echo "drive 0 host 1G 1G" >"$tmp/one"
refuses 2 "one has no drive 1: there are 2 devices" pretrain --run "$tmp/no" $shape --devices 2 --topology "$tmp/one"
result "$([ ! -e "$tmp/no" ]; echo $?)" "and nothing is made"
for f in examples/topology/*; do
    works "$f" plan --model gpt2 --devices 10 --probe off --csd-mem 64M --topology "$f"
done

works "devices that store nothing" pretrain --run "$tmp/null" $shape --csd null --steps 2
grep -q "^siTrain: --csd null stores nothing and trains nothing: the losses mean nothing" "$tmp/err"
result $? "say so"
"$bin" devices --dir "$tmp" | grep -q "^  null .*stores nothing and trains nothing"
result $? "and so does siTrain devices"
done_testing
