#!/bin/sh
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# A Slurm job that trains a run and goes on by itself, in as many jobs as it takes:
#     sbatch examples/job.sh RUN pretrain --data my.txt --tokenizer tok --model gpt2 --steps 100000
# Each job ends before its time is up, with everything committed, and asks for the next one until
# run.db says that the run is finished. A run that is there goes on with the options it was made
# with, and OPTIONS are not read again. docs/cluster.md explains the lines.
run=${1:?"usage: sbatch examples/job.sh RUN pretrain|finetune OPTIONS..."}
command=$2
shift 2

left=$((SLURM_JOB_END_TIME - $(date +%s) - ${MARGIN:-120})) # what a last evaluation may take longer
if [ "$left" -le 0 ]; then
    echo "job.sh: this job ends within MARGIN, ${MARGIN:-120} seconds: give sbatch a longer --time" >&2
    exit 1
fi
if [ -e "$run/run.db" ]; then
    set -- --resume "$run"
else
    set -- --run "$run" "$@"
fi
$LAUNCH siTrain "$command" "$@" --time-limit "${left}s" || exit # a failure is not repeated
siTrain report "$run" --json | grep -q '"finished": ' || scontrol requeue "$SLURM_JOB_ID"
