# bash completion of siTrain: source it, or put it into /etc/bash_completion.d/
_siTrain() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" options="" words="" files=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "pretrain finetune eval generate prepare import export plan report watch check reshard devices bench --help --version --man --completion" -- "$word"))
        return
    fi
    case "${COMP_WORDS[1]}" in
    --completion) words="bash zsh fish" ;;
    pretrain)
        options="--help --config --run --resume --data --eval-data --data-format --tokenizer --init --model --n-layer --n-head --n-kv-head --head-dim --n-embd --n-inner --vocab --steps --schedule-steps --batch --seq --grad-accum --groups --lr --min-lr --warmup --schedule --decay-steps --optimizer --beta1 --beta2 --eps --weight-decay --decay --clip --seed --order --mask-prob --mask-id --dropout --label-smoothing --neftune-alpha --dtype --mode --csd --devices --device --act-device --fpga --xclbin --force-device --device-in-ram --csd-mem --compress --error-feedback --speculate --spare-slots --link-bw --csd-read-bw --csd-write-bw --csd-latency --topology --host-mem --activations --blas --threads --disk --io-timeout --rank-timeout --endurance --durability --commit-every --eval-every --log-every --max-skipped --keep-best --early-stopping --time-limit --tensorboard --quiet"
        case "$before" in
        --config) files=1 ;;
        --run) files=1 ;;
        --resume) files=1 ;;
        --data) files=1 ;;
        --eval-data) files=1 ;;
        --data-format) words="auto text u16 u32" ;;
        --tokenizer) files=1 ;;
        --init) files=1 ;;
        --model) words="gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large" ;;
        --n-layer) words=" " ;;
        --n-head) words=" " ;;
        --n-kv-head) words=" " ;;
        --head-dim) words=" " ;;
        --n-embd) words=" " ;;
        --n-inner) words=" " ;;
        --vocab) words=" " ;;
        --steps) words=" " ;;
        --schedule-steps) words=" " ;;
        --batch) words=" " ;;
        --seq) words=" " ;;
        --grad-accum) words=" " ;;
        --groups) words=" " ;;
        --lr) words=" " ;;
        --min-lr) words=" " ;;
        --warmup) words=" " ;;
        --schedule) words="cosine linear constant wsd" ;;
        --decay-steps) words=" " ;;
        --optimizer) words="adamw adam sgd adagrad" ;;
        --beta1) words=" " ;;
        --beta2) words=" " ;;
        --eps) words=" " ;;
        --weight-decay) words=" " ;;
        --decay) words="matrices all" ;;
        --clip) words=" " ;;
        --seed) words=" " ;;
        --order) words="shuffled sequential" ;;
        --mask-prob) words=" " ;;
        --mask-id) words=" " ;;
        --dropout) words=" " ;;
        --label-smoothing) words=" " ;;
        --neftune-alpha) words=" " ;;
        --dtype) words="fp32 bf16" ;;
        --mode) words="mem base su su+o su+o+c" ;;
        --csd) words="emu null xrt opencl" ;;
        --devices) words=" " ;;
        --device) files=1 ;;
        --act-device) words="none" ;;
        --fpga) files=1 ;;
        --xclbin) files=1 ;;
        --csd-mem) words=" " ;;
        --compress) words=" " ;;
        --spare-slots) words="auto half few" ;;
        --link-bw) words=" " ;;
        --csd-read-bw) words=" " ;;
        --csd-write-bw) words=" " ;;
        --csd-latency) words=" " ;;
        --topology) words="none" ;;
        --host-mem) words=" " ;;
        --activations) words="keep recompute offload auto ssdtrain" ;;
        --blas) words="auto openblas onednn" ;;
        --threads) words=" " ;;
        --disk) words="uring sync null" ;;
        --io-timeout) words=" " ;;
        --rank-timeout) words=" " ;;
        --endurance) words=" " ;;
        --durability) words="step none" ;;
        --commit-every) words=" " ;;
        --eval-every) words=" " ;;
        --log-every) words=" " ;;
        --max-skipped) words=" " ;;
        --early-stopping) words=" " ;;
        --time-limit) words=" " ;;
        --tensorboard) words="none auto" ;;
        esac ;;
    finetune)
        options="--help --config --run --resume --init --tokenizer --data --task --train-file --eval-file --test-file --regression --epochs --max-seq --predict --max-train-samples --max-eval-samples --max-predict-samples --text-column --pair-column --label-column --rows --chat-template --loss-on --special-in-text --date --packing --group-by-length --long-rows --messages-column --prompt-column --completion-column --loss --beta --chosen-column --rejected-column --steps --schedule-steps --batch --seq --grad-accum --groups --lr --min-lr --warmup --schedule --decay-steps --optimizer --beta1 --beta2 --eps --weight-decay --decay --clip --seed --order --mask-prob --mask-id --dropout --label-smoothing --neftune-alpha --dtype --mode --csd --devices --device --act-device --fpga --xclbin --force-device --device-in-ram --csd-mem --compress --error-feedback --speculate --spare-slots --link-bw --csd-read-bw --csd-write-bw --csd-latency --topology --host-mem --activations --blas --threads --disk --io-timeout --rank-timeout --endurance --durability --commit-every --eval-every --log-every --max-skipped --keep-best --early-stopping --time-limit --tensorboard --quiet"
        case "$before" in
        --config) files=1 ;;
        --run) files=1 ;;
        --resume) files=1 ;;
        --init) files=1 ;;
        --tokenizer) files=1 ;;
        --data) files=1 ;;
        --task) words="cola sst2 mrpc stsb qqp mnli qnli rte wnli chat dpo" ;;
        --train-file) files=1 ;;
        --eval-file) files=1 ;;
        --test-file) files=1 ;;
        --epochs) words=" " ;;
        --max-seq) words=" " ;;
        --max-train-samples) words=" " ;;
        --max-eval-samples) words=" " ;;
        --max-predict-samples) words=" " ;;
        --text-column) files=1 ;;
        --pair-column) files=1 ;;
        --label-column) files=1 ;;
        --rows) words="auto messages sharegpt alpaca completion text preference" ;;
        --chat-template) files=1 ;;
        --loss-on) words="answers last all" ;;
        --date) files=1 ;;
        --long-rows) words="cut drop refuse" ;;
        --messages-column) files=1 ;;
        --prompt-column) files=1 ;;
        --completion-column) files=1 ;;
        --loss) words="sigmoid robust ipo" ;;
        --beta) words=" " ;;
        --chosen-column) files=1 ;;
        --rejected-column) files=1 ;;
        --steps) words=" " ;;
        --schedule-steps) words=" " ;;
        --batch) words=" " ;;
        --seq) words=" " ;;
        --grad-accum) words=" " ;;
        --groups) words=" " ;;
        --lr) words=" " ;;
        --min-lr) words=" " ;;
        --warmup) words=" " ;;
        --schedule) words="cosine linear constant wsd" ;;
        --decay-steps) words=" " ;;
        --optimizer) words="adamw adam sgd adagrad" ;;
        --beta1) words=" " ;;
        --beta2) words=" " ;;
        --eps) words=" " ;;
        --weight-decay) words=" " ;;
        --decay) words="matrices all" ;;
        --clip) words=" " ;;
        --seed) words=" " ;;
        --order) words="shuffled sequential" ;;
        --mask-prob) words=" " ;;
        --mask-id) words=" " ;;
        --dropout) words=" " ;;
        --label-smoothing) words=" " ;;
        --neftune-alpha) words=" " ;;
        --dtype) words="fp32 bf16" ;;
        --mode) words="mem base su su+o su+o+c" ;;
        --csd) words="emu null xrt opencl" ;;
        --devices) words=" " ;;
        --device) files=1 ;;
        --act-device) words="none" ;;
        --fpga) files=1 ;;
        --xclbin) files=1 ;;
        --csd-mem) words=" " ;;
        --compress) words=" " ;;
        --spare-slots) words="auto half few" ;;
        --link-bw) words=" " ;;
        --csd-read-bw) words=" " ;;
        --csd-write-bw) words=" " ;;
        --csd-latency) words=" " ;;
        --topology) words="none" ;;
        --host-mem) words=" " ;;
        --activations) words="keep recompute offload auto ssdtrain" ;;
        --blas) words="auto openblas onednn" ;;
        --threads) words=" " ;;
        --disk) words="uring sync null" ;;
        --io-timeout) words=" " ;;
        --rank-timeout) words=" " ;;
        --endurance) words=" " ;;
        --durability) words="step none" ;;
        --commit-every) words=" " ;;
        --eval-every) words=" " ;;
        --log-every) words=" " ;;
        --max-skipped) words=" " ;;
        --early-stopping) words=" " ;;
        --time-limit) words=" " ;;
        --tensorboard) words="none auto" ;;
        esac ;;
    eval)
        options="--help --data --data-format --tokenizer --task --eval-file --reference --test-file --predict --max-seq --mask-prob --mask-id --max-eval-samples --max-predict-samples --text-column --pair-column --label-column --rows --chat-template --loss-on --special-in-text --date --packing --group-by-length --long-rows --messages-column --prompt-column --completion-column --loss --beta --chosen-column --rejected-column --best --last --seq --batch --dtype --host-mem --blas --threads --disk"
        case "$before" in
        --data) files=1 ;;
        --data-format) words="auto text u16 u32" ;;
        --tokenizer) files=1 ;;
        --task) words="cola sst2 mrpc stsb qqp mnli qnli rte wnli chat dpo" ;;
        --eval-file) files=1 ;;
        --reference) files=1 ;;
        --test-file) files=1 ;;
        --predict) files=1 ;;
        --max-seq) words=" " ;;
        --mask-prob) words=" " ;;
        --mask-id) words=" " ;;
        --max-eval-samples) words=" " ;;
        --max-predict-samples) words=" " ;;
        --text-column) files=1 ;;
        --pair-column) files=1 ;;
        --label-column) files=1 ;;
        --rows) words="auto messages sharegpt alpaca completion text preference" ;;
        --chat-template) files=1 ;;
        --loss-on) words="answers last all" ;;
        --date) files=1 ;;
        --long-rows) words="cut drop refuse" ;;
        --messages-column) files=1 ;;
        --prompt-column) files=1 ;;
        --completion-column) files=1 ;;
        --loss) words="sigmoid robust ipo" ;;
        --beta) words=" " ;;
        --chosen-column) files=1 ;;
        --rejected-column) files=1 ;;
        --seq) words=" " ;;
        --batch) words=" " ;;
        --dtype) words="fp32 bf16" ;;
        --host-mem) words=" " ;;
        --blas) words="auto openblas onednn" ;;
        --threads) words=" " ;;
        --disk) words="uring sync null" ;;
        esac ;;
    generate)
        options="--help --prompt --prompt-file --chat --system --chat-template --date --tokens --stop --temperature --top-k --top-p --min-p --repetition-penalty --seed --tokenizer --best --last --seq --batch --dtype --host-mem --blas --threads --disk"
        case "$before" in
        --prompt) files=1 ;;
        --prompt-file) files=1 ;;
        --system) files=1 ;;
        --chat-template) files=1 ;;
        --date) files=1 ;;
        --tokens) words=" " ;;
        --stop) files=1 ;;
        --temperature) words=" " ;;
        --top-k) words=" " ;;
        --top-p) words=" " ;;
        --min-p) words=" " ;;
        --repetition-penalty) words=" " ;;
        --seed) words=" " ;;
        --tokenizer) files=1 ;;
        --seq) words=" " ;;
        --batch) words=" " ;;
        --dtype) words="fp32 bf16" ;;
        --host-mem) words=" " ;;
        --blas) words="auto openblas onednn" ;;
        --threads) words=" " ;;
        --disk) words="uring sync null" ;;
        esac ;;
    prepare)
        options="--help --out --tokenizer --train-tokenizer --data-format --text-column --eval-split --eval-out --threads --vocab --render --show --init --chat-template --rows --messages-column --prompt-column --completion-column --generation-prompt --bos --eos --loss-on --special-in-text --date"
        case "$before" in
        --out) files=1 ;;
        --tokenizer) files=1 ;;
        --data-format) words="auto text u16 u32" ;;
        --text-column) files=1 ;;
        --eval-split) words=" " ;;
        --eval-out) files=1 ;;
        --threads) words=" " ;;
        --vocab) words=" " ;;
        --show) words=" " ;;
        --init) files=1 ;;
        --chat-template) files=1 ;;
        --rows) words="auto messages sharegpt alpaca completion text preference" ;;
        --messages-column) files=1 ;;
        --prompt-column) files=1 ;;
        --completion-column) files=1 ;;
        --bos) files=1 ;;
        --eos) files=1 ;;
        --loss-on) words="answers last all" ;;
        --date) files=1 ;;
        esac ;;
    import)
        options="--help --steps --schedule-steps --batch --seq --grad-accum --groups --lr --min-lr --warmup --schedule --decay-steps --optimizer --beta1 --beta2 --eps --weight-decay --decay --clip --seed --order --mask-prob --mask-id --dropout --label-smoothing --neftune-alpha --dtype --mode --csd --devices --device --act-device --fpga --xclbin --force-device --device-in-ram --csd-mem --compress --error-feedback --speculate --spare-slots --link-bw --csd-read-bw --csd-write-bw --csd-latency --topology --host-mem --activations --blas --threads --disk --io-timeout --rank-timeout --endurance --durability --commit-every --eval-every --log-every --max-skipped --keep-best --early-stopping --time-limit --tensorboard --quiet"
        case "$before" in
        --steps) words=" " ;;
        --schedule-steps) words=" " ;;
        --batch) words=" " ;;
        --seq) words=" " ;;
        --grad-accum) words=" " ;;
        --groups) words=" " ;;
        --lr) words=" " ;;
        --min-lr) words=" " ;;
        --warmup) words=" " ;;
        --schedule) words="cosine linear constant wsd" ;;
        --decay-steps) words=" " ;;
        --optimizer) words="adamw adam sgd adagrad" ;;
        --beta1) words=" " ;;
        --beta2) words=" " ;;
        --eps) words=" " ;;
        --weight-decay) words=" " ;;
        --decay) words="matrices all" ;;
        --clip) words=" " ;;
        --seed) words=" " ;;
        --order) words="shuffled sequential" ;;
        --mask-prob) words=" " ;;
        --mask-id) words=" " ;;
        --dropout) words=" " ;;
        --label-smoothing) words=" " ;;
        --neftune-alpha) words=" " ;;
        --dtype) words="fp32 bf16" ;;
        --mode) words="mem base su su+o su+o+c" ;;
        --csd) words="emu null xrt opencl" ;;
        --devices) words=" " ;;
        --device) files=1 ;;
        --act-device) words="none" ;;
        --fpga) files=1 ;;
        --xclbin) files=1 ;;
        --csd-mem) words=" " ;;
        --compress) words=" " ;;
        --spare-slots) words="auto half few" ;;
        --link-bw) words=" " ;;
        --csd-read-bw) words=" " ;;
        --csd-write-bw) words=" " ;;
        --csd-latency) words=" " ;;
        --topology) words="none" ;;
        --host-mem) words=" " ;;
        --activations) words="keep recompute offload auto ssdtrain" ;;
        --blas) words="auto openblas onednn" ;;
        --threads) words=" " ;;
        --disk) words="uring sync null" ;;
        --io-timeout) words=" " ;;
        --rank-timeout) words=" " ;;
        --endurance) words=" " ;;
        --durability) words="step none" ;;
        --commit-every) words=" " ;;
        --eval-every) words=" " ;;
        --log-every) words=" " ;;
        --max-skipped) words=" " ;;
        --early-stopping) words=" " ;;
        --time-limit) words=" " ;;
        --tensorboard) words="none auto" ;;
        esac ;;
    export)
        options="--help --dtype --max-shard-size --best --last"
        case "$before" in
        --dtype) words="fp32 bf16 fp16" ;;
        --max-shard-size) words=" " ;;
        esac ;;
    plan)
        options="--help --config --run --probe --machine --compare --ranks --network-bw --network-latency --traffic --json --data --eval-data --data-format --tokenizer --task --train-file --eval-file --test-file --regression --epochs --max-seq --predict --max-train-samples --max-eval-samples --max-predict-samples --text-column --pair-column --label-column --rows --chat-template --loss-on --special-in-text --date --packing --group-by-length --long-rows --messages-column --prompt-column --completion-column --loss --beta --chosen-column --rejected-column --init --model --n-layer --n-head --n-kv-head --head-dim --n-embd --n-inner --vocab --steps --schedule-steps --batch --seq --grad-accum --groups --lr --min-lr --warmup --schedule --decay-steps --optimizer --beta1 --beta2 --eps --weight-decay --decay --clip --seed --order --mask-prob --mask-id --dropout --label-smoothing --neftune-alpha --dtype --mode --csd --devices --device --act-device --fpga --xclbin --force-device --device-in-ram --csd-mem --compress --error-feedback --speculate --spare-slots --link-bw --csd-read-bw --csd-write-bw --csd-latency --topology --host-mem --activations --blas --threads --disk --io-timeout --rank-timeout --endurance --durability --commit-every --eval-every --log-every --max-skipped --keep-best --early-stopping --time-limit --tensorboard --quiet"
        case "$before" in
        --config) files=1 ;;
        --run) files=1 ;;
        --probe) words="on off" ;;
        --machine) files=1 ;;
        --ranks) words=" " ;;
        --network-bw) words=" " ;;
        --network-latency) words=" " ;;
        --json) files=1 ;;
        --data) files=1 ;;
        --eval-data) files=1 ;;
        --data-format) words="auto text u16 u32" ;;
        --tokenizer) files=1 ;;
        --task) words="cola sst2 mrpc stsb qqp mnli qnli rte wnli chat dpo" ;;
        --train-file) files=1 ;;
        --eval-file) files=1 ;;
        --test-file) files=1 ;;
        --epochs) words=" " ;;
        --max-seq) words=" " ;;
        --max-train-samples) words=" " ;;
        --max-eval-samples) words=" " ;;
        --max-predict-samples) words=" " ;;
        --text-column) files=1 ;;
        --pair-column) files=1 ;;
        --label-column) files=1 ;;
        --rows) words="auto messages sharegpt alpaca completion text preference" ;;
        --chat-template) files=1 ;;
        --loss-on) words="answers last all" ;;
        --date) files=1 ;;
        --long-rows) words="cut drop refuse" ;;
        --messages-column) files=1 ;;
        --prompt-column) files=1 ;;
        --completion-column) files=1 ;;
        --loss) words="sigmoid robust ipo" ;;
        --beta) words=" " ;;
        --chosen-column) files=1 ;;
        --rejected-column) files=1 ;;
        --init) files=1 ;;
        --model) words="gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large" ;;
        --n-layer) words=" " ;;
        --n-head) words=" " ;;
        --n-kv-head) words=" " ;;
        --head-dim) words=" " ;;
        --n-embd) words=" " ;;
        --n-inner) words=" " ;;
        --vocab) words=" " ;;
        --steps) words=" " ;;
        --schedule-steps) words=" " ;;
        --batch) words=" " ;;
        --seq) words=" " ;;
        --grad-accum) words=" " ;;
        --groups) words=" " ;;
        --lr) words=" " ;;
        --min-lr) words=" " ;;
        --warmup) words=" " ;;
        --schedule) words="cosine linear constant wsd" ;;
        --decay-steps) words=" " ;;
        --optimizer) words="adamw adam sgd adagrad" ;;
        --beta1) words=" " ;;
        --beta2) words=" " ;;
        --eps) words=" " ;;
        --weight-decay) words=" " ;;
        --decay) words="matrices all" ;;
        --clip) words=" " ;;
        --seed) words=" " ;;
        --order) words="shuffled sequential" ;;
        --mask-prob) words=" " ;;
        --mask-id) words=" " ;;
        --dropout) words=" " ;;
        --label-smoothing) words=" " ;;
        --neftune-alpha) words=" " ;;
        --dtype) words="fp32 bf16" ;;
        --mode) words="mem base su su+o su+o+c" ;;
        --csd) words="emu null xrt opencl" ;;
        --devices) words=" " ;;
        --device) files=1 ;;
        --act-device) words="none" ;;
        --fpga) files=1 ;;
        --xclbin) files=1 ;;
        --csd-mem) words=" " ;;
        --compress) words=" " ;;
        --spare-slots) words="auto half few" ;;
        --link-bw) words=" " ;;
        --csd-read-bw) words=" " ;;
        --csd-write-bw) words=" " ;;
        --csd-latency) words=" " ;;
        --topology) words="none" ;;
        --host-mem) words=" " ;;
        --activations) words="keep recompute offload auto ssdtrain" ;;
        --blas) words="auto openblas onednn" ;;
        --threads) words=" " ;;
        --disk) words="uring sync null" ;;
        --io-timeout) words=" " ;;
        --rank-timeout) words=" " ;;
        --endurance) words=" " ;;
        --durability) words="step none" ;;
        --commit-every) words=" " ;;
        --eval-every) words=" " ;;
        --log-every) words=" " ;;
        --max-skipped) words=" " ;;
        --early-stopping) words=" " ;;
        --time-limit) words=" " ;;
        --tensorboard) words="none auto" ;;
        esac ;;
    report)
        options="--help --by --json --csv --html --sql --config --openmetrics --trace --trace-steps"
        case "$before" in
        --by) files=1 ;;
        --html) files=1 ;;
        --sql) words="steps times curve breakdown breakdown_serial breakdown_steps phases waits update timeline traffic written overlap bandwidth drives devices memory results evals choices skipped notices processes settings list" ;;
        --trace) files=1 ;;
        --trace-steps) files=1 ;;
        esac ;;
    watch)
        options="--help --interval --once"
        case "$before" in
        --interval) words=" " ;;
        esac ;;
    check)
        options="--help --repair --disk --quiet"
        case "$before" in
        --disk) words="uring sync" ;;
        esac ;;
    reshard)
        options="--help --device --devices --fpga --ranks --new-run --csd-mem --force-device --device-in-ram --quiet"
        case "$before" in
        --device) files=1 ;;
        --devices) words=" " ;;
        --fpga) files=1 ;;
        --ranks) words=" " ;;
        --new-run) files=1 ;;
        --csd-mem) words=" " ;;
        esac ;;
    devices)
        options="--help --dir"
        case "$before" in
        --dir) files=1 ;;
        esac ;;
    bench)
        options="--help --dir --only --save --probe --rounds --quick --json --layer-us --init --model --n-layer --n-head --n-kv-head --head-dim --n-embd --n-inner --vocab --steps --schedule-steps --batch --seq --grad-accum --groups --lr --min-lr --warmup --schedule --decay-steps --optimizer --beta1 --beta2 --eps --weight-decay --decay --clip --seed --order --mask-prob --mask-id --dropout --label-smoothing --neftune-alpha --dtype --mode --csd --devices --device --act-device --fpga --xclbin --force-device --device-in-ram --csd-mem --compress --error-feedback --speculate --spare-slots --link-bw --csd-read-bw --csd-write-bw --csd-latency --topology --host-mem --activations --blas --threads --disk --io-timeout --rank-timeout --endurance --durability --commit-every --eval-every --log-every --max-skipped --keep-best --early-stopping --time-limit --tensorboard --quiet"
        case "$before" in
        --dir) files=1 ;;
        --only) words="products memory kernels disk steps" ;;
        --save) files=1 ;;
        --rounds) words=" " ;;
        --json) files=1 ;;
        --layer-us) words=" " ;;
        --init) files=1 ;;
        --model) words="gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large" ;;
        --n-layer) words=" " ;;
        --n-head) words=" " ;;
        --n-kv-head) words=" " ;;
        --head-dim) words=" " ;;
        --n-embd) words=" " ;;
        --n-inner) words=" " ;;
        --vocab) words=" " ;;
        --steps) words=" " ;;
        --schedule-steps) words=" " ;;
        --batch) words=" " ;;
        --seq) words=" " ;;
        --grad-accum) words=" " ;;
        --groups) words=" " ;;
        --lr) words=" " ;;
        --min-lr) words=" " ;;
        --warmup) words=" " ;;
        --schedule) words="cosine linear constant wsd" ;;
        --decay-steps) words=" " ;;
        --optimizer) words="adamw adam sgd adagrad" ;;
        --beta1) words=" " ;;
        --beta2) words=" " ;;
        --eps) words=" " ;;
        --weight-decay) words=" " ;;
        --decay) words="matrices all" ;;
        --clip) words=" " ;;
        --seed) words=" " ;;
        --order) words="shuffled sequential" ;;
        --mask-prob) words=" " ;;
        --mask-id) words=" " ;;
        --dropout) words=" " ;;
        --label-smoothing) words=" " ;;
        --neftune-alpha) words=" " ;;
        --dtype) words="fp32 bf16" ;;
        --mode) words="mem base su su+o su+o+c" ;;
        --csd) words="emu null xrt opencl" ;;
        --devices) words=" " ;;
        --device) files=1 ;;
        --act-device) words="none" ;;
        --fpga) files=1 ;;
        --xclbin) files=1 ;;
        --csd-mem) words=" " ;;
        --compress) words=" " ;;
        --spare-slots) words="auto half few" ;;
        --link-bw) words=" " ;;
        --csd-read-bw) words=" " ;;
        --csd-write-bw) words=" " ;;
        --csd-latency) words=" " ;;
        --topology) words="none" ;;
        --host-mem) words=" " ;;
        --activations) words="keep recompute offload auto ssdtrain" ;;
        --blas) words="auto openblas onednn" ;;
        --threads) words=" " ;;
        --disk) words="uring sync null" ;;
        --io-timeout) words=" " ;;
        --rank-timeout) words=" " ;;
        --endurance) words=" " ;;
        --durability) words="step none" ;;
        --commit-every) words=" " ;;
        --eval-every) words=" " ;;
        --log-every) words=" " ;;
        --max-skipped) words=" " ;;
        --early-stopping) words=" " ;;
        --time-limit) words=" " ;;
        --tensorboard) words="none auto" ;;
        esac ;;
    esac
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    elif [ -z "$files" ] && [ "${word#-}" != "$word" ]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    else
        local IFS=$'\n'
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _siTrain siTrain
