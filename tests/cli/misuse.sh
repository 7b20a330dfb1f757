#!/bin/sh
# What goes wrong before anything is made: one sentence that says what was found and what would work, the right exit code, nothing on disk
# changed. Prints TAP.
. tests/tap.sh

make_text 300 >"$tmp/text.txt"
run prepare "$tmp/text.txt" --train-tokenizer --vocab 280 --out "$tmp/tok"
run prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
sizes="--n-layer 1 --n-head 2 --n-embd 16"
small="$sizes --seq 16 --batch 2 --steps 2 --mode su+o --csd-mem 1M --durability none"
run pretrain --run "$tmp/run" $small --data "$tmp/text.bin" --tokenizer "$tmp/tok"
result "$got" "a run to misuse"
run export "$tmp/run" "$tmp/hf"
before=$(exported "$tmp/run")

refuses_pretrain() { # CODE TEXT ARGUMENTS...: and no folder is left
    code=$1 text=$2
    shift 2
    refuses "$code" "$text" pretrain --run "$tmp/new" "$@"
    result "$([ ! -e "$tmp/new" ]; echo $?)" "  and nothing was made"
}

# options
refuses_pretrain 2 "--bacth" $small --data "$tmp/text.bin" --bacth 2
refuses_pretrain 2 "--batch" $sizes --data "$tmp/text.bin" --batch 0
refuses_pretrain 2 "needs compressed gradients" $small --data "$tmp/text.bin" --error-feedback
refuses_pretrain 2 "--fpga is for --csd xrt" $small --data "$tmp/text.bin" --fpga 0000:31:00.1
refuses_pretrain 2 "--xclbin is for --csd xrt" $small --data "$tmp/text.bin" --xclbin "$tmp/none"
refuses_pretrain 2 "not mem: in mem nothing waits" $sizes --data "$tmp/text.bin" --mode mem --speculate
refuses_pretrain 2 "not su: su updates naively" $sizes --data "$tmp/text.bin" --mode su --speculate
refuses_pretrain 2 "there is no option --trace" $small --data "$tmp/text.bin" --trace
refuses_pretrain 2 "--data FILE is missing" $small
refuses_pretrain 2 "which model?" --data "$tmp/text.bin"
refuses_pretrain 2 "--model gpt3" --model gpt3 --data "$tmp/text.bin"
refuses 2 "--run RUN" pretrain $small --data "$tmp/text.bin"
refuses 2 "--schedule cosin: expected cosine, linear, constant or wsd" pretrain --run "$tmp/x" $small --data "$tmp/text.bin" --schedule cosin
refuses 2 "writes to the devices, and --mode mem has none" pretrain --run "$tmp/x" $sizes --seq 16 --batch 2 --steps 2 --data "$tmp/text.bin" --mode mem --activations offload

refuses_pretrain 2 "--lr 1e39" $small --data "$tmp/text.bin" --lr 1e39
refuses_pretrain 2 "--beta1 0.9999999999" $small --data "$tmp/text.bin" --beta1 0.9999999999
refuses_pretrain 2 "at most 256 elements" --n-layer 2 --n-head 2 --n-embd 600 --seq 16 --data "$tmp/text.bin"
refuses_pretrain 2 "--n-embd" --n-layer 2 --n-head 1000 --n-embd 100000 --seq 16 --csd-mem 128K --data "$tmp/text.bin"

# sizes
refuses_pretrain 2 "15" --n-layer 1 --n-head 2 --n-embd 15 --data "$tmp/text.bin" --tokenizer "$tmp/tok"
refuses_pretrain 2 "1024 positions" --model gpt2 --seq 2048 --data "$tmp/text.bin"
refuses_pretrain 2 "but the model has the ids below 100 alone" $small --vocab 100 --data "$tmp/text.txt" --tokenizer "$tmp/tok"
refuses_pretrain 2 "too small" $small --data "$tmp/text.bin" --host-mem 1M
refuses_pretrain 2 "this machine has" $sizes --data "$tmp/text.bin" --seq 16 --batch 1000000 --grad-accum 1000 --mode su+o --host-mem 1000000G
refuses_pretrain 2 "csd-mem" --n-layer 1 --n-head 2 --n-embd 16 --seq 16 --data "$tmp/text.bin" --csd-mem 4K

# data
refuses_pretrain 2 "needs" $sizes --seq 100000 --batch 1 --data "$tmp/text.bin"
echo "a ship" >"$tmp/short.txt"
refuses_pretrain 2 "short.txt has 4 tokens; a row of --seq 16 needs 17" $small --data "$tmp/short.txt" --tokenizer "$tmp/tok"
refuses_pretrain 2 "short.txt has 4 tokens; a row of --seq 16 needs 17" $small --data "$tmp/text.bin" --eval-data "$tmp/short.txt" --tokenizer "$tmp/tok"
refuses 2 "$tmp/short.txt has 4 tokens; a row of --seq 16 needs 17" eval "$tmp/hf" --data "$tmp/short.txt"
head -c 2001 "$tmp/text.bin" >"$tmp/cut.bin"
refuses_pretrain 2 "cut.bin" $small --data "$tmp/cut.bin"
refuses_pretrain 2 "text.bin" $small --vocab 50 --data "$tmp/text.bin"
printf '\377\000\377' >"$tmp/alien.bin"
refuses_pretrain 2 "alien.bin" $small --data "$tmp/alien.bin"
refuses_pretrain 2 "missing.bin" $small --data "$tmp/missing.bin"
refuses_pretrain 2 "--tokenizer DIR is needed" $small --data "$tmp/text.txt"
refuses_pretrain 2 "holds no tokenizer" $small --data "$tmp/text.txt" --tokenizer "$tmp"

# folders
refuses 2 "is a run already" pretrain --run "$tmp/run" $small --data "$tmp/text.bin"
mkdir "$tmp/full" && : >"$tmp/full/mine"
refuses 2 "holds mine" pretrain --run "$tmp/full" $small --data "$tmp/text.bin"
result "$([ -e "$tmp/full/mine" ] && [ "$(ls "$tmp/full")" = mine ]; echo $?)" "  and it is left as it was"
refuses 2 "is not a run" pretrain --resume "$tmp/full"
refuses 2 "not empty" export "$tmp/run" "$tmp/full"
refuses 2 "neither a run" eval "$tmp/full" --data "$tmp/text.bin"
refuses 2 "neither a run" export "$tmp/full" "$tmp/out2"

ln -s "$tmp/dangling" "$tmp/link"
refuses 1 "No such file" pretrain --run "$tmp/link" $small --data "$tmp/text.bin"
refuses_pretrain 2 "the path contains a line break after $tmp/a; run.db has one path on each line" $small --data "$tmp/text.bin" --device "$tmp/a
b"
mkdir -p "$tmp/a
b"
refuses_pretrain 2 "--snapshot-dir none: nothing here has this name, and an existing folder is expected" $small --data "$tmp/text.bin" --snapshot-every 1 --snapshot-dir none
refuses_pretrain 2 "the path contains a line break after $tmp/a; run.db has one path on each line" $small --data "$tmp/text.bin" --snapshot-every 1 --snapshot-dir "$tmp/a
b"
for at in /dev/fd/3 /dev/stdin //proc/self/cwd/states; do # a run whose device is another file in each process
    refuses_pretrain 2 "this path leads through /proc, where each process sees another file" $small --data "$tmp/text.bin" --device $at
done
refuses_pretrain 2 "this path leads through /proc, where each process sees another file" $small --data "$tmp/text.bin" --snapshot-every 1 --snapshot-dir /dev/fd/3

OMP_NUM_THREADS=100000 run plan
result "$([ "$got" = 2 ] && grep -qx "siTrain: OMP_NUM_THREADS asks for 100000 threads: expected 4096 at most" "$tmp/err"; echo $?)" "OMP_NUM_THREADS beyond all threads"

# resume
refuses 2 "--compress is 0 in this run" pretrain --resume "$tmp/run" --mode su+o+c --steps 4
refuses 2 "--error-feedback is 0 in this run" pretrain --resume "$tmp/run" --error-feedback --steps 4
run import "$tmp/hf" "$tmp/imported"
refuses 2 "has no data yet" pretrain --resume "$tmp/imported" --lr 0.5
refuses 2 "--reference is for conversations and preferences" eval "$tmp/hf" --data "$tmp/text.bin" --reference none
for given in "max-seq 8" "max-eval-samples 1" "max-predict-samples 1"; do
    refuses 2 "--${given% *} is for rows of --eval-file or --task" eval "$tmp/hf" --data "$tmp/text.bin" --${given% *} ${given#* }
done
refuses 2 "--seq and --max-seq are the same here" eval "$tmp/hf" --data "$tmp/text.bin" --seq 8 --max-seq 16
refuses 2 "was given an empty one" generate "$tmp/hf" --prompt ""
refuses 2 "--lr is" pretrain --resume "$tmp/run" --lr 0.5 --steps 4
refuses 2 "--devices is" pretrain --resume "$tmp/run" --devices 3 --steps 4
refuses 2 "leave --tokenizer" pretrain --resume "$tmp/run" --model gpt2 --steps 4
refuses 2 "leave the option out" pretrain --resume "$tmp/run" --data "$tmp/text.txt" --steps 4 --schedule-steps 4
cp "$tmp/text.bin" "$tmp/text.keep"
printf 'XX' | dd of="$tmp/text.bin" bs=1 seek=1500 conv=notrunc 2>/dev/null
run pretrain --resume "$tmp/run" --steps 4 --schedule-steps 4
result "$([ "$got" != 0 ] && grep -q text.bin "$tmp/err"; echo $?)" "data that changed since the run was made is noticed"
cp "$tmp/text.keep" "$tmp/text.bin"

# devices
refuses_pretrain 2 "nowhere" $small --data "$tmp/text.bin" --tokenizer "$tmp/tok" --device /nowhere/at/all
: >"$tmp/tiny"
truncate -s 8K "$tmp/tiny"
run pretrain --run "$tmp/new" $small --data "$tmp/text.bin" --tokenizer "$tmp/tok" --device "$tmp/tiny"
result "$([ "$got" != 0 ] && grep -q tiny "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "a device that is too small"
result "$([ ! -e "$tmp/new" ] && [ "$(stat -c %s "$tmp/tiny")" = 8192 ]; echo $?)" "  and nothing was made"

# a full disk: a file system of its own where that is allowed, else a limit on the size of files
mkdir "$tmp/disk"
if mount -t tmpfs -o size=256k tmpfs "$tmp/disk" 2>/dev/null; then
    run pretrain --run "$tmp/disk/run" $small --device-in-ram --disk sync --data "$tmp/text.bin" --tokenizer "$tmp/tok"
    result "$([ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "a full disk is said in a line"
    result "$([ ! -e "$tmp/disk/run" ]; echo $?)" "  and nothing was left"
    umount "$tmp/disk"
else
    skip "a full disk" "no file system can be mounted here"
fi

# a limit on the size of files, and streams that are closed
(ulimit -f 8; run pretrain --run "$tmp/new" $small --data "$tmp/text.bin" --tokenizer "$tmp/tok"; [ "$got" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ])
result "$?" "a file over the limit is said in a line"
result "$([ ! -e "$tmp/new" ]; echo $?)" "  and nothing was left"
"$bin" pretrain --run "$tmp/new" $small --data "$tmp/text.bin" --tokenizer "$tmp/tok" <&- >&- 2>&-
result "$([ "$?" = 1 ] && "$bin" export "$tmp/new" "$tmp/new.hf" >/dev/null; echo $?)" "closed streams fail the command, and the run is sound"
rm -rf "$tmp/new" "$tmp/new.hf"

# Hugging Face folders
printf 'sentence,label\na ship,0\na sea,1\n' >"$tmp/rows.csv"
refuses_hf() { # TEXT: of the folder bad, imported and evaluated
    refuses 2 "$1" import "$tmp/bad" "$tmp/new"
    result "$([ ! -e "$tmp/new" ]; echo $?)" "  and nothing was made"
    rm -rf "$tmp/bad"
    cp -r "$tmp/hf" "$tmp/bad"
}
config() { sed -i "$1" "$tmp/bad/config.json"; }
cp -r "$tmp/hf" "$tmp/bad"
config 's/"gelu_new"/"relu"/'
refuses_hf activation_function
config 's/"scale_attn_weights": true/"scale_attn_weights": false/'
refuses_hf scale_attn_weights
config 's/"n_head": 2/"n_head": 2, "scale_attn_by_inverse_layer_idx": true/'
refuses_hf scale_attn_by_inverse_layer_idx
config 's/"n_layer": 1/"n_layer": 2/'
refuses_hf "transformer.h.1.ln_1.weight is missing"
config 's/"vocab_size": [0-9]*/"vocab_size": 1000/'
refuses_hf "transformer.wte.weight does not have the shape"
config 's/"n_layer": 1/"n_layer": "one"/'
refuses_hf n_layer
printf '{"model_type": "opt", "architectures": ["OPTForCausalLM"], "num_hidden_layers": 2}' >"$tmp/bad/config.json"
refuses_hf 'of the family opt (OPTForCausalLM), but this version knows these ("model_type"): gpt2'
printf '{"architectures": ["OPTForCausalLM"]}' >"$tmp/bad/config.json"
refuses_hf "of the family OPTForCausalLM, but this version knows these"
for file in pytorch_model.bin pytorch_model.bin.index.json; do
    mv "$tmp/bad/model.safetensors" "$tmp/bad/$file"
    refuses_hf "bad has $file, but no model.safetensors, which is read here: python3 -c"
done
mv "$tmp/bad/model.safetensors" "$tmp/bad/pytorch_model.bin"
refuses_hf "[k.from_pretrained('$tmp/bad').save_pretrained('$tmp/bad-safetensors') for k in (M, AutoTokenizer)]"
refuses_pretrain 2 "import AutoTokenizer, AutoModelForCausalLM as M; [k.from_pretrained('gpt2').save_pretrained('gpt2')" --init gpt2 --data "$tmp/text.bin"
refuses 2 "makes the folder gpt2-small (pip install torch transformers)" finetune --run "$tmp/new" --init an-org/gpt2-small --train-file "$tmp/rows.csv"
refuses 2 "neither a run" eval "./gpt2" --data "$tmp/text.bin"
result "$(grep -q python3 "$tmp/err"; [ $? = 1 ]; echo $?)" "  a path is no model's name"
printf '\377\377\377\377\377\377\377\177' | dd of="$tmp/bad/model.safetensors" bs=1 conv=notrunc 2>/dev/null
refuses_hf model.safetensors
truncate -s -4 "$tmp/bad/model.safetensors"
refuses_hf model.safetensors
rm "$tmp/bad/model.safetensors"
refuses_hf model.safetensors
size=$(stat -c %s "$tmp/bad/model.safetensors")
printf 'XXXX' | dd of="$tmp/bad/model.safetensors" bs=1 seek=$((size - 64)) conv=notrunc 2>/dev/null
run import "$tmp/bad" "$tmp/new"
result "$([ "$got" != 0 ] && grep -qi checksum "$tmp/err" && [ ! -e "$tmp/new" ]; echo $?)" "a damaged export is noticed by its checksums"

# Files that stand for their folder, and what is known but none of ours
for line in "pretrain --run $tmp/none --data $tmp/text.txt --n-layer 1 --n-head 1 --n-embd 8 --seq 16 --tokenizer $tmp/tok/tokenizer.json --steps 1 --csd-mem 192K" \
    "prepare $tmp/text.txt --tokenizer $tmp/tok/tokenizer.json --out $tmp/none" "import $tmp/hf/config.json $tmp/none --csd-mem 192K" \
    "pretrain --run $tmp/none --data $tmp/text.bin --init $tmp/hf/model.safetensors --steps 1 --csd-mem 192K" "eval $tmp/hf/model.safetensors --data $tmp/text.bin"; do
    works "a file for its folder: ${line%% *}" $line
    rm -rf "$tmp/none"
done
refuses 2 "hf/merges.nothing" pretrain --run "$tmp/none" --data "$tmp/text.txt" --tokenizer "$tmp/hf/merges.nothing" $small
mkdir "$tmp/adapter"
echo '{"peft_type": "LORA", "base_model_name_or_path": "gpt2"}' >"$tmp/adapter/adapter_config.json"
printf 'GGUF\003\000\000\000' >"$tmp/model.gguf"
mkdir "$tmp/quantized"
cp "$tmp/model.gguf" "$tmp/quantized/model-Q4_K.gguf"
for line in "import WHAT $tmp/none" "pretrain --run $tmp/none --data $tmp/text.bin --init WHAT" "pretrain --run $tmp/none --data $tmp/text.bin --model WHAT" \
    "finetune --run $tmp/none --init WHAT --train-file $tmp/rows.csv" "eval WHAT --data $tmp/text.bin" "generate WHAT" "check WHAT" "export WHAT $tmp/none"; do
    case $line in
    import* | *--model*) says="adapter is an adapter (adapter_config.json): siTrain finetune or pretrain --init" ;;
    check*) continue ;; # it lists what is damaged
    *) says="adapter is an adapter of the model gpt2, which is no folder here: give --base HFDIR, the folder of that model; if it is the name of a model of the" ;;
    esac
    refuses 2 "$says" $(echo "$line" | sed "s|WHAT|$tmp/adapter|")
    [ "${says#adapter is an adapter of}" = "$says" ] || refuses 2 "adapter has adapter_config.json, but no adapter_model.safetensors" $(echo "$line --base $tmp/hf" | sed "s|WHAT|$tmp/adapter|")
    refuses 2 "quantized is a folder with a GGUF file: give the file itself, $tmp/quantized/model-Q4_K.gguf" $(echo "$line" | sed "s|WHAT|$tmp/quantized|")
    case $line in *--model*|check*) continue ;; esac # the name of a size; it has two sentences
    refuses 2 "model.gguf is truncated: its header goes on behind the end of the file" $(echo "$line" | sed "s|WHAT|$tmp/model.gguf|")
done
refuses 2 "the name of a size is expected, and random parameters are made; --init $tmp/hf begins with" pretrain --run "$tmp/none" --data "$tmp/text.bin" --model "$tmp/hf"
result "$([ ! -e "$tmp/none" ]; echo $?)" "  and nothing was made"

# A word that is no place: what people write who know other trainers
for line in "pretrain --run $tmp/none --data $tmp/text.bin --n-layer 1 --n-head 1 --n-embd 8" "import $tmp/hf $tmp/none" \
    "finetune --run $tmp/none --init $tmp/hf --train-file $tmp/rows.csv" "reshard $tmp/run" "bench disk" "plan --model gpt2"; do
    refuses 2 "--device cuda: nothing here has this name. --device names a drive, a folder or a file for one device's states (siTrain trains on the CPU); ./cuda makes a file of this name" $line --device cuda
done
refuses 2 "--act-device names a drive, a folder or a file for one device's activations" plan --model gpt2 --activations offload --act-device cuda:0
printf 'act-device = gpu\n' >"$tmp/gpu.conf"
refuses 2 "--act-device gpu: nothing here has this name" plan --model gpt2 --activations offload --config "$tmp/gpu.conf"
result "$([ ! -e cuda ] && [ ! -e "$tmp/none" ]; echo $?)" "  and nothing was made"
(cd "$tmp" && run import hf named --device ./cuda --csd-mem 192K && [ "$got" = 0 ] && [ -f cuda ] && run check named && [ "$got" = 0 ])
result $? "./cuda is a file"
(cd "$tmp" && mkdir place && run import hf placed --device place --csd-mem 192K && [ "$got" = 0 ] && [ -n "$(ls place)" ])
result $? "a word that is there is a place"
refuses 2 "an export is a Hugging Face folder, and .ggml is the name of a file, which a llama.cpp of today no longer reads: one that ends in .gguf makes" export "$tmp/run" "$tmp/f.ggml"
refuses 2 "an export is a Hugging Face folder, and .safetensors is the name of a file" export "$tmp/run" "$tmp/model.safetensors"
for file in tokenizer.json tok.model; do
    refuses 2 "a tokenizer is a folder, and .${file#*.} is the name of a file" prepare "$tmp/text.txt" --train-tokenizer --vocab 270 --out "$tmp/new-$file"
done
result "$([ ! -e "$tmp/new-tokenizer.json" ] && [ ! -e "$tmp/f.ggml" ] && [ ! -e "$tmp/model.safetensors" ]; echo $?)" "  and nothing was made"

# eval, generate, prepare
refuses 2 "--data FILE is missing" eval "$tmp/hf"
refuses 2 "nothing.bin" eval "$tmp/hf" --data "$tmp/nothing.bin"
refuses 2 "nothing.txt" prepare "$tmp/nothing.txt" --train-tokenizer --out "$tmp/none"
refuses 2 "16 positions" eval "$tmp/hf" --data "$tmp/text.bin" --seq 32
refuses 2 "too small" eval "$tmp/hf" --data "$tmp/text.bin" --host-mem 1M
refuses 2 "more than the 16 positions" generate "$tmp/hf" --prompt a --tokens 16
refuses 2 "--out is missing" prepare "$tmp/text.txt" --tokenizer "$tmp/tok"
refuses 2 "is needed" prepare "$tmp/text.txt" --out "$tmp/none"
refuses 2 "--vocab is the size of a tokenizer to train" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --vocab 280 --out "$tmp/none"
refuses 2 "is a file of token ids (llm.c's), not a text" prepare "$tmp/text.bin" --tokenizer "$tmp/tok" --out "$tmp/none"
{ printf '%%PDF-1.7\n\n'; head -c 4096 /dev/zero | tr '\0' '\377'; } >"$tmp/a.pdf"
refuses 2 "a.pdf is a PDF file, not a text: pdftotext " pretrain --run "$tmp/none" --data "$tmp/a.pdf" --tokenizer "$tmp/tok" --n-layer 1 --n-head 1 --n-embd 8 --seq 16 --steps 1
refuses 2 "text.bin is a file of token ids (llm.c's), not a text" prepare "$tmp/text.txt" "$tmp/text.bin" --train-tokenizer --vocab 280 --out "$tmp/none"
refuses 2 "which siTrain prepare did not write" prepare "$tmp/text.txt" --train-tokenizer --vocab 280 --out "$tmp/hf"
refuses 2 "not a folder" prepare "$tmp/text.txt" --train-tokenizer --vocab 280 --out "$tmp/text.bin"
refuses 2 "text.txt is also the input" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.txt"
mkfifo "$tmp/fifo" && refuses 2 "not a regular file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/fifo"
result "$([ ! -e "$tmp/none" ]; echo $?)" "  and nothing was made"

same "$before" "$(exported "$tmp/run")" "after all that the run is what it was"

done_testing
