#!/bin/sh
# The command line: what is refused, in which words, with which exit code; help, man page (completion: completion.sh); report and devices without a run.
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
for command in $("$bin" --help | sed -n 's/^  \([a-z][a-z_]*\)  *[a-z].*/\1/p'); do
    expect 0 out "Usage: siTrain $command" "$command" --help
    same "Examples 2" "$(sed -n '/^Examples$/,$p' "$tmp/out" | awk '/^Examples/ { print } /^  siTrain / { n++ } END { print n }' | tr '\n' ' ' | sed 's/ $//')" \
        "  ends with two examples"
    "$bin" $command --help all | awk 'length > 80' >"$tmp/out"
    result "$([ ! -s "$tmp/out" ]; echo $?)" "  in 80 columns"
    "$bin" --man >"$tmp/out"
    grep -q "^\.SS $command" "$tmp/out"
    result $? "the man page has $command"
done
"$bin" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 2 ] && [ ! -s "$tmp/out" ]
result $? "no command: 2"

expect 2 err "did you mean pretrain?" pretrian
expect 2 err "there is no command train; the commands are pretrain, finetune, eval" train

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
refuse "--steps 99999999999999999999: expected a whole number from 1 to 9223372036854775807" --steps 99999999999999999999
refuse "--device was given more than 1024 times" $(seq -f '--device ./x%.0f' 1025)
refuse "--steps was given twice" --steps 1 --steps 2
refuse "--quiet takes no value" --quiet=1
refuse "expected mem, base, su, su+o or su+o+c (did you mean su?)" --mode sux
refuse "--csd cuda: expected emu, null, xrt or opencl" --csd cuda
refuse "--lr nan: expected a number" --lr nan
refuse "--lr -1: expected a number from 0 to 1e+30" --lr -1
refuse "--beta1 1: expected a number from 0 to 0.9999999" --beta1 1
refuse "--csd-mem 64K: expected a size" --csd-mem 64K
refuse "from 128K up" --csd-mem 1Q
refuse "--csd-mem 1 : expected a size" --csd-mem '1 '
refuse "--csd-mem 200000.5: expected a size" --csd-mem 200000.5
refuse "--compress 200%: expected a part such as 2% or 0.02" --compress 200%
refuse "--warmup 101%: expected a number of steps" --warmup 101%
refuse "--warmup 1.5: expected a number of steps" --warmup 1.5
refuse "did you mean" --warmup 0.05 --neftune-alhpa 5
refuse "there is no option -x" -x
refuse "there is no option --trace; siTrain pretrain --help all lists all options" --trace
result "$([ "$(grep -o 'there is no option' "$tmp/err" | wc -l)" = 1 ]; echo $?)" "  which is said once"

# what people know from other trainers has an answer; a word that is merely as long has no suggestion
refuse "there is no option --learning_rate: siTrain has --lr" --learning_rate 1
refuse "there is no option --learning-rate: siTrain has --lr" --learning-rate=1
refuse "there is no option --gpu: siTrain trains on the CPU; --threads N" --gpu 0
refuse "there is no option --fp16: siTrain has --dtype; fp16 is no precision of computing here" --fp16
refuse "there is no option --bf16: siTrain has --dtype" --bf16
refuse "there is no option --lora-r: siTrain has --lora-rank" --lora-r 8
refuse "there is no option --lora_target_modules: siTrain has --lora-targets" --lora_target_modules all
expect 2 err "there is no option --outtype: siTrain has --gguf-type" export x y --outtype f16
expect 2 err "there is no option --base-model: siTrain has --base" generate x --base-model y
expect 2 err "there is no option --adapter: an adapter's folder stands where a model's does" generate x --adapter y
expect 2 err "there is no option --lora_alpha: adapters (LoRA) are trained by pretrain and finetune" import x y --lora_alpha 8
refuse "there is no option --num_train_epochs: siTrain has --steps; pretraining counts steps" --num_train_epochs 3
refuse "there is no option --gradient_accumulation_steps: siTrain has --grad-accum" --gradient_accumulation_steps 3
refuse "there is no option --per_device_train_batch_size: siTrain has --batch" --per_device_train_batch_size 3
refuse "there is no option --deepspeed: optimizer states live on drives in any case: --mode, --device PATH" --deepspeed ds.json
refuse "there is no option --local_rank: several processes are started as mpirun -n N" --local_rank 0
refuse "there is no option --wandb: siTrain has --tensorboard" --wandb
refuse "there is no option --val_size: siTrain has --eval-split" --val_size 0.1
expect 2 err "there is no option --eval-data: eval takes texts and token files with --data" eval x --eval-data y
expect 2 err "there is no option --num_epochs: siTrain has --epochs" finetune --num_epochs 3
expect 2 err "there is no option --max_new_tokens: siTrain has --tokens" generate x --max_new_tokens 3
for far in lara tpu nomad zip; do
    refuse "there is no option --$far;" --$far 1
done
refuse "c.txt was not expected: --data takes one value, and is repeated for another one: --data c.txt" --data a.txt --steps 2 --data b.txt c.txt d.txt
refuse "c.txt was not expected; usage: siTrain pretrain" --data a.txt --steps 2 c.txt
refuse "- was not expected; usage: siTrain pretrain" --data=a.txt --steps 2 - c.txt
expect 2 err "siTrain devices: x was not expected" devices -- x
# an environment that changes how getopt reads a line changes nothing here
POSIXLY_CORRECT=1 expect 2 err "siTrain export: c was not expected" export a --last b c
refuse "there is no option --max-eval-samples: pretrain evaluates on all of --eval-data" --max-eval-samples 4
refuse "did you mean --grad-accum?" --grad-acum 2
refuse "did you mean --weight-decay?" --weigth-decay 2
refuse "did you mean --host-mem?" --hostmem 2

# sizes as people write them: all powers of 1024
for size in 300M 300m 300MB 300mb 300MiB "300 MB" "300 M"; do
    "$bin" plan --model gpt2 --probe off --mode su --csd-mem "$size" --devices 1 --host-mem 2G >"$tmp/out" 2>"$tmp/err"
    result $? "$size is a size"
    grep 'arenas of emulated' "$tmp/out" >"$tmp/size.${first:-first}"
    [ -z "$first" ] || cmp -s "$tmp/size.first" "$tmp/size.next"
    result $? "  and the same one"
    first=next
done
for size in 4Gi 4GBB "4  GB" "4G B" 4B 4iB; do
    refuse "--csd-mem $size: expected a size in bytes, or with K, M, G or T (powers of 1024; 4GB and 4GiB are 4G), from" --csd-mem "$size"
done

# help of a command, and of all
"$bin" pretrain --help >"$tmp/whole"
expect 0 out "Usage: siTrain pretrain" help pretrain
cmp -s "$tmp/whole" "$tmp/out"
result $? "help COMMAND is COMMAND --help"
listed() { sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' "$1" | sort; } # the options in a help
for command in pretrain finetune; do
    "$bin" $command --help >"$tmp/few"
    "$bin" $command --help all >"$tmp/whole"
    "$bin" help $command all | cmp -s - "$tmp/whole"
    result $? "help $command all is $command --help all"
    listed "$tmp/few" >"$tmp/few.rows"
    listed "$tmp/whole" >"$tmp/whole.rows"
    same "15 $(($(wc -l <"$tmp/whole.rows") - 15))" \
        "$(wc -l <"$tmp/few.rows" | tr -d ' ') $(sed -n "s/^The other \([0-9]*\) options: siTrain $command --help all$/\1/p" "$tmp/few")" \
        "$command's help has fifteen options, and says how many there are besides"
    result "$(comm -23 "$tmp/few.rows" "$tmp/whole.rows" | grep -q . ; echo $((1 - $?)))" "  which the other help has, too"
    "$bin" --man | sed -n "/^\.SS $command\$/,/^\.SS /p" | sed -n 's/^\.B \\-\\-\([^ ]*\).*/--\1/p' | sed 's/\\-/-/g' | sort | comm -3 - "$tmp/whole.rows" >"$tmp/out"
    result "$([ ! -s "$tmp/out" ]; echo $?)" "  and so has the man page"
done
rm -f "$tmp"/size.* "$tmp/whole"* "$tmp/few"*
expect 0 out "Usage: siTrain COMMAND" help
expect 2 err "did you mean pretrain?" help pretrian

# finetune takes run_glue.py's names: each stands for a row of ours, with hyphens too, and not beside it.
stands() { # ALIAS ROW VALUE: no value for a flag
    other=$(echo "$1" | tr _ -)
    [ "$other" != "$2" ] || other=$1
    refuse_finetune "--$1 and --$2 are the same option; give one of them" "--$other" $3 "--$2" $3
    refuse_finetune "--$1 was given twice" "--$1${3:+=$3}" "--$other" $3
}
refuse_finetune() { # TEXT ARGUMENTS of finetune
    text=$1
    shift
    expect 2 err "$text" finetune "$@"
}
while read -r alias row value; do
    stands "$alias" "$row" "$value"
done <<'END'
task_name task cola
data_dir data x
test_file test-file x.csv
max_seq_length max-seq 128
max_train_samples max-train-samples 8
max_eval_samples max-eval-samples 8
max_predict_samples max-predict-samples 8
model_name_or_path init x
tokenizer_name tokenizer x
do_predict predict
output_dir run x
num_train_epochs epochs 3.0
max_steps steps 10
per_device_train_batch_size batch 8
per_gpu_train_batch_size batch 8
gradient_accumulation_steps grad-accum 2
learning_rate lr 2e-5
warmup_ratio warmup 0.06
warmup_steps warmup 100
lr_scheduler_type schedule linear
optim optimizer adamw_torch
weight_decay weight-decay 0.1
adam_beta1 beta1 0.9
adam_beta2 beta2 0.98
adam_epsilon eps 1e-6
max_grad_norm clip 1.0
label_smoothing_factor label-smoothing 0.1
neftune_noise_alpha neftune-alpha 5
eval_steps eval-every 50
load_best_model_at_end keep-best
logging_steps log-every 10
report_to tensorboard tensorboard
END
# a training file may be given several times, by either name
refuse_finetune "x.csv: No such file" --train_file x.csv --train-file y.csv --run x --init x
refuse_finetune "--bf16 and --dtype are the same option" --bf16 --dtype fp32
refuse_finetune "--fp16 and --dtype are the same option" --dtype fp32 --fp16 True
refuse_finetune "--gradient_checkpointing and --activations are the same option" --gradient_checkpointing --activations keep
refuse_finetune "--warmup_ratio and --warmup_steps both stand for --warmup" --warmup_ratio 0.1 --warmup-steps 10
refuse_finetune "--bf16 and --fp16 both stand for --dtype" --bf16 --fp16=true

refuse_finetune "--lr x: expected a number from 0 to 1e+30 (--learning_rate is --lr here)" --learning_rate x
refuse_finetune "--warmup 150%: expected a number of steps" --warmup_ratio 1.5
refuse_finetune "--epochs 2.5: expected a whole number" --num_train_epochs 2.5
refuse_finetune "--lr_scheduler_type polynomial is not in this version; use linear" --lr_scheduler_type polynomial
refuse_finetune "--task sft: expected cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli, chat or dpo" --run none --task sft --packing --train-file x
refuse_finetune "--optim lion_32bit is not in this version; use adamw_torch" --optim lion_32bit
refuse_finetune "write --optimizer sgd --beta1 0" --optim sgd
refuse_finetune "--dataset_name imdb: nothing is downloaded; give --data DIR" --dataset_name imdb
refuse_finetune "--resume_from_checkpoint x: write --resume RUN" --resume_from_checkpoint x
refuse_finetune "--eval_delay 0.1 is not in this version" --eval_delay 0.1
refuse_finetune "--save_steps needs a value but is followed by --bf16" --save_steps --bf16
refuse_finetune "--predict takes no value: out.txt was not expected; usage: siTrain finetune" --predict out.txt
refuse_finetune "--output_dir needs a value, but was given an empty one" --output_dir ""
refuse_finetune "--do_train=maybe: expected True or False" --do_train=maybe
refuse_finetune "did you mean --learning_rate?" --lerning_rate 1
refuse_finetune "did you mean --max-seq?" --max-sek 128

# A script of today: what changes nothing is said a line each, and what it stands for arrives.
run finetune --model_name_or_path "$tmp/none" --task_name SST-2 --data_dir "$tmp/none" --do_train --do_eval True --bf16 False --fp16 \
    --max_seq_length 128 --per_device_train_batch_size=32 --learning_rate 2e-5 --num_train_epochs 3.0 --save_steps 500 --report_to none \
    --max_steps -1 --push_to_hub false --output_dir "$tmp/run" --overwrite_output_dir
[ "$got" != 0 ] && [ "$(wc -l <"$tmp/err")" = 4 ] && grep -q "^siTrain finetune: --save_steps changes nothing here: " "$tmp/err" &&
    grep -q "^siTrain finetune: --fp16 is --dtype bf16 here: " "$tmp/err" && grep -q -- "--overwrite_output_dir changes nothing" "$tmp/err" &&
    tail -n 1 "$tmp/err" | grep -qF "$tmp/none" && [ ! -e "$tmp/run" ]
result $? "run_glue.py's options: three notices, and the folder that is not there"

# Defaults of the command's own for rows that it shares.
"$bin" finetune --help all >"$tmp/out"
grep -A 1 -e "--schedule " "$tmp/out" | grep -qF "(default: linear)" && "$bin" pretrain --help all | grep -A 1 -e "--schedule " | grep -qF "(default: cosine)"
result $? "finetune's schedule is linear by default, pretrain's is not"
grep -qF "Another program's options are accepted" "$tmp/out"
result $? "finetune's help says that other names are taken"
"$bin" --man >"$tmp/out"
grep -qF '\-\-learning_rate: \-\-lr' "$tmp/out"
result $? "the man page lists them"

expect 2 err "RUN is missing" report
expect 2 err "--config is about one run; name one" report "$tmp" extra --config
expect 2 err "is not a run: there is no" report "$tmp"
expect 2 err "--html needs a value" report "$tmp" --html
expect 2 err "expected steps, times, curve" report "$tmp" --sql nothing
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
