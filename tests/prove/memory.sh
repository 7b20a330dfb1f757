#!/bin/sh
# memory.sh: GPT-2 124M trains within --host-mem 600M and 774M within 1500M (batch 4 x 256, su+o, 2 emulated devices of 48M, whose arenas come on
# top), as getrusage sees the whole process. Takes 20 GB of disk and some minutes. TAP.
set -u
bin=${SITRAIN:-./siTrain}
tmp=$(mktemp -d "${TMPDIR:-/var/tmp}/sitrain-memory.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

# One million tokens of a linear congruence: what is learnt does not matter here.
python3 - "$tmp/tokens.bin" <<'P'
import sys, struct, array
n, s, ids = 1000000, 1, array.array('H')
for _ in range(n):
    s = (s * 1103515245 + 12345) % 2147483648
    ids.append(s // 65536 % 32768)
with open(sys.argv[1], 'wb') as f:
    f.write(struct.pack('<256i', 20240520, 1, n, *[0] * 253))
    ids.tofile(f)
P

prove() { # MODEL HOST_MEM_MIB STEPS
    rm -rf "$tmp/run"
    peak=$(python3 - "$bin" pretrain --run "$tmp/run" --model "$1" --data "$tmp/tokens.bin" --batch 4 --seq 256 --mode su+o --devices 2 \
        --csd-mem 48M --host-mem "$2M" --steps "$3" <<'P'
import resource, subprocess, sys
r = subprocess.run(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024 if r.returncode == 0 else -1)
P
    )
    limit=$(($2 + 2 * 48))
    if [ "$peak" -ge 0 ] && [ "$peak" -le "$limit" ]; then
        echo "ok - $1 within $2M: peak $peak MiB, promised $2 + at most 96 of arenas"
    else
        echo "not ok - $1 within $2M: peak $peak MiB, promised $2 + at most 96 of arenas"
        failed=1
    fi
}

prove gpt2 600 4
prove gpt2-large 1500 3
exit $failed
