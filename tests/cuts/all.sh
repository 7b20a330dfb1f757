#!/bin/sh
# all.sh PROGRAM OPTIONS...: tests/cuts on all processors: each process has its part of the points of every story.
# Prints what is wrong, then one table with the sums. Exit 1: something is wrong.
set -eu
program=$1
shift
n=$(nproc)
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
i=0
while [ "$i" -lt "$n" ]; do
    (OMP_NUM_THREADS=1 "$program" --all --part "$i" --parts "$n" "$@" >"$tmp/$i" || echo "$i" >>"$tmp/failed") &
    i=$((i + 1))
done
wait
i=0
while [ "$i" -lt "$n" ]; do
    grep '^cuts --story\|: aborted' "$tmp/$i" || true
    i=$((i + 1))
done
head -n 1 "$tmp/0"
# A row ends with 12 numbers; its story is what stands before them.
awk 'FNR > 1 && !/^cuts --story/ && NF > 12 {
         name = $1
         for (i = 2; i <= NF - 12; i++) name = name " " $i
         if (!(name in seen)) { seen[name] = 1; order[++rows] = name }
         for (i = 0; i < 12; i++) sum[name, i] += $(NF - 11 + i)
     }
     END {
         for (r = 1; r <= rows; r++) {
             printf "%-22s %6d", order[r], sum[order[r], 0]
             for (i = 1; i < 11; i++) printf " %7d", sum[order[r], i]
             printf " %5d\n", sum[order[r], 11]
         }
     }' $(seq -f "$tmp/%g" 0 $((n - 1)))
[ ! -e "$tmp/failed" ]
