#!/bin/sh
# The engines of the products: what a run was computed with it goes on with; a siTrain without oneDNN (SITRAIN_OPENBLAS) refuses it by
# name, and takes such a run over with OpenBLAS, saying so. Prints TAP.
. tests/tap.sh
without=${SITRAIN_OPENBLAS:-build/tests/siTrain-openblas}

make_text 600 >"$tmp/text.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"
set -- --schedule constant --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 1 --n-head 2 --n-embd 32 --seq 16 --batch 2 --mode mem --dtype fp32 \
    --durability none

changed() { # FROM TO NAME: the last command went on with another engine, which it said and put on record
    [ "$got" = 0 ] && grep -qF "products ran on $1" "$tmp/err" && grep -q "now on $2 .*: the last bits may differ" "$tmp/err" &&
        sqlite3 "$tmp/run/run.db" .dump | grep -q "products ran on $1.*now on $2 "
    result $? "$3"
}

# A machine of more processors than a cpu_set_t has room for, whose kernel refuses one.
cat >"$tmp/cpus.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    if (size < 192)
        return errno = EINVAL, -1;
    memset(set, 0, size);
    for (int i = 0; i < 1500; i++)
        CPU_SET_S((size_t)i, size, set);
    return 0;
}
C
if ${CC:-cc} -shared -fPIC -o "$tmp/cpus.so" "$tmp/cpus.c" 2>/dev/null && ! ldd "$bin" | grep -q libasan; then
    LD_PRELOAD=$tmp/cpus.so "$bin" devices --dir "$tmp" >"$tmp/out" 2>"$tmp/err" </dev/null
    result "$(grep -q ', 1500 threads for this process' "$tmp/out"; echo $?)" "1,500 processors are counted"
else
    skip "1,500 processors" "no compiler, or a sanitizer that loads first"
fi

# OpenMP would bind the starting thread to one processor, and whatever it starts would share that one.
if [ "$(nproc)" -gt 1 ]; then
    OMP_PROC_BIND=true OMP_PLACES=cores "$bin" devices --dir "$tmp" >"$tmp/out" 2>"$tmp/err" </dev/null
    result "$(grep -q ", $(env -u OMP_NUM_THREADS nproc) threads for this process" "$tmp/out" && grep -q 'OMP_PROC_BIND.*taskset' "$tmp/err"; echo $?)" \
        "a bound program keeps its processors"
else
    skip "a bound program" "one processor"
fi

if [ ! -x "$without" ]; then
    skip "a siTrain without oneDNN" "make test-bins builds it"
    done_testing
fi
full=$bin
bin=$without
refuses 2 "built without onednn; openblas" pretrain --run "$tmp/refused" "$@" --steps 1 --blas onednn
result "$([ ! -e "$tmp/refused" ]; echo $?)" "and no run is made"
works "it chooses OpenBLAS" pretrain --run "$tmp/auto" "$@" --steps 1
run devices
result "$(grep -q '^  auto  *fp32  openblas' "$tmp/out" && grep -q '^  onednn  *fp32  .*without onednn' "$tmp/out"; echo $?)" \
    "devices lists what it has"

# siTrain's own engine: any number of threads gives the same bits, and a run that it began goes on with it.
for n in 1 3; do
    works "sitrain trains with $n threads" pretrain --run "$tmp/own$n" "$@" --steps 2 --blas sitrain --threads $n
    result "$(grep -q 'sitrain 1 .* thread' "$tmp/err" && ! grep -q 'last bits' "$tmp/err"; echo $?)" "  and says of no bits that they depend on it"
    works "the model of $n threads" export "$tmp/own$n" "$tmp/out$n"
done
cmp "$tmp/out1/model.safetensors" "$tmp/out3/model.safetensors"
result $? "the same parameters"

# A head of two chunks, of which one is a part of a tile: mem packs its words where they are read from tiles, su+o does not.
for mode in mem su+o; do
    works "bf16 in $mode" pretrain --run "$tmp/head $mode" --data "$tmp/text.txt" --tokenizer "$tmp/tok" --n-layer 1 --n-head 2 --n-embd 32 \
        --seq 60 --batch 9 --mode $mode --csd-mem 192K --durability none --steps 2 --blas sitrain
    works "  its model" export "$tmp/head $mode" "$tmp/out $mode"
done
cmp "$tmp/out mem/model.safetensors" "$tmp/out su+o/model.safetensors"
result $? "the same parameters"
works "it goes on" pretrain --resume "$tmp/own1" --steps 4
result "$(! grep -q 'products ran on' "$tmp/err" && grep -q 'sitrain 1 ' "$tmp/err"; echo $?)" "with the engine that it began with"

bin=$full
run devices
if ! grep -q '^  onednn  *fp32  onednn' "$tmp/out"; then
    skip "a run that oneDNN began" "siTrain was built without oneDNN"
    done_testing
fi
works "oneDNN begins a run" pretrain --run "$tmp/run" "$@" --steps 2 --blas onednn
bin=$without
works "the run goes on with OpenBLAS" pretrain --resume "$tmp/run" --steps 4
changed onednn openblas "its notice says from what to what"
bin=$full
works "and again with oneDNN, which is there" pretrain --resume "$tmp/run" --steps 6
result "$(! grep -q "products ran on" "$tmp/err"; echo $?)" "which is what the run has on record"
done_testing
