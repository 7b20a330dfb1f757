# ranks_job.sh: what tests/cli/ranks_back.sh and ranks_restore.sh share: a small run, and jobs of so many ranks. Read after tests/tap.sh and by_ranks.
few_words 2000
shape="--data $tmp/text --tokenizer $tmp/tok --n-layer 2 --n-head 1 --n-embd 64 --seq 8 --batch 1 --grad-accum 6 --groups 6 --csd-mem 128K --threads 1 --durability none
    --schedule constant --disk sync --quiet"
ask() { sqlite3 "$1/run.db" "$2"; }
steps_of() { ask "$1" "SELECT step + 1, printf('%.17g %.17g %.17g', loss, lr, grad_norm) FROM steps ORDER BY step"; }
# state: what the run is, of all ranks
state() {
    exported "$tmp/run"
    for dir in "$tmp"/run "$tmp"/run.rank?; do steps_of "$dir"; done
}
# job N COMMAND...: by so many ranks
job() {
    job_n=$1
    shift
    timeout 120 mpirun $more -n "$job_n" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
works_by() { # N NAME COMMAND...
    by=$1 name=$2
    shift 2
    job "$by" "$bin" "$@"
    result "$got" "$name"
}
refused_by() { # N NAME SENTENCE COMMAND...
    by=$1 name=$2 sentence=$3
    shift 3
    job "$by" "$bin" "$@"
    result "$(refused_by_ranks && grep -q "$sentence" "$tmp/err"; echo $?)" "$name"
}
clear_all() { rm -rf "$tmp"/run "$tmp"/run.rank? "$tmp"/lost "$tmp"/x; }
put_back() { # from $tmp/x
    rm -rf "$tmp"/run "$tmp"/run.rank?
    for dir in "$tmp"/x/*; do cp -a "$dir" "$tmp/"; done
}
keep_all() {
    mkdir "$tmp/x"
    for dir in "$tmp"/run "$tmp"/run.rank?; do cp -a "$dir" "$tmp/x/"; done
}
