#!/bin/sh
# A base that is read where it lies (--base-in-place): the same bits as with a copy, in every mode, through a kill, of files in each format and
# number; nothing of it on devices; another base is refused, whether it comes between two trainings or during one. Prints TAP.
. tests/tap.sh

language_model 60 270 --n-layer 2 --n-head 2 --n-embd 16 --seq 16 --batch 2 --steps 3 --dtype fp32
text=$tmp/text.txt fixtures=tests/fixtures
plain="--seq 16 --batch 2 --lr 1e-2 --csd-mem 128K --durability none --quiet"
adapted="--data $text $plain --lora-rank 4 --lora-targets all --lora-dropout 10%"
few="$adapted --steps 6"
here="--base-in-place"

# every mode, device and way of activations: the same bits
run pretrain --run "$tmp/copy" --init "$tmp/hf" $few --mode su
first=$(exported "$tmp/copy")
for how in "mem" "base" "su --devices 3" "su+o --disk sync" "su+o --activations offload" "base --speculate" "mem --activations recompute" \
    "su+o --compress 5% --error-feedback"; do
    rm -rf "$tmp/modes"
    want=$first
    case $how in *compress*)
        run pretrain --run "$tmp/compressed" --init "$tmp/hf" $few --mode $how
        want=$(exported "$tmp/compressed") ;;
    esac
    works "in place, --mode $how" pretrain --run "$tmp/modes" --init "$tmp/hf" $few $here --mode $how
    same "$want" "$(exported "$tmp/modes")" "  gives the same bits"
done
run report "$tmp/modes"
awk '$1 == "files" && $2 == "base" && $3 == "read" { n++; bad += $4 != $5 || $4 < 1 } END { exit !n || bad }' "$tmp/out"
result $? "the report has the reads of its files, as many bytes as were computed"
same 9 "$(sqlite3 "$tmp/modes/run.db" "PRAGMA user_version")" "an older siTrain refuses the run by its format"

# what is stored: nothing of the base
works "a run in mem" pretrain --run "$tmp/mem" --init "$tmp/hf" $few $here --mode mem
result "$([ ! -e "$tmp/mem/frozen" ]; echo $?)" "  has no file of frozen parameters"
works "a run on a device" pretrain --run "$tmp/su" --init "$tmp/hf" $few $here --mode su
works "check" check "$tmp/su"
result "$(grep -q "^base .* 1 file of the model, in place" "$tmp/out" && ! grep -q "^frozen parameters" "$tmp/out"; echo $?)" "  reads the base's files, and no copy"
held_bytes() { sqlite3 "$1/run.db" "SELECT sum(bytes) FROM devices"; }
result "$([ "$(held_bytes "$tmp/su")" -lt "$(held_bytes "$tmp/copy")" ]; echo $?)" "  which takes less of the device"
plan="plan --init $tmp/hf --seq 16 --batch 2 --lora-rank 4 --lora-targets all --csd-mem 128K --probe off --mode su --traffic --dtype"
works "the plan" $plan bf16 $here
grep -q "^Base: .* in its own files, not on the devices; .* read from them a step" "$tmp/out"
result $? "  says so"
same "$(sqlite3 "$tmp/su/run.db" "SELECT sum(bytes) FROM traffic WHERE step = 3 AND class = 'base'")" \
    "$(awk '$1 == "files" && $2 == "base" { print $4 }' "$tmp/out")" "  and as many bytes as the run has read"

# other ways with such a run
grown=$(exported "$tmp/su")
run eval "$tmp/copy" --data "$text" --seq 16 --last
cp "$tmp/out" "$tmp/said"
run eval "$tmp/su" --data "$text" --seq 16 --last
same "$(cat "$tmp/said")" "$(cat "$tmp/out")" "eval says the same as of a copy"
run generate "$tmp/copy" --prompt "the sea" --tokens 8 --temperature 0
cp "$tmp/out" "$tmp/said"
run generate "$tmp/su" --prompt "the sea" --tokens 8 --temperature 0
same "$(cat "$tmp/said")" "$(cat "$tmp/out")" "generate, too"
for of in copy su; do
    run export "$tmp/$of" "$tmp/$of-adapter" --adapter
    run export "$tmp/$of" "$tmp/$of.gguf"
done
cmp -s "$tmp/copy-adapter/adapter_model.safetensors" "$tmp/su-adapter/adapter_model.safetensors" && cmp -s "$tmp/copy-adapter/adapter_config.json" "$tmp/su-adapter/adapter_config.json"
result $? "the adapter alone has the same bytes"
cmp -s "$tmp/copy.gguf" "$tmp/su.gguf"
result $? "and the GGUF file"
works "it moves to 2 devices" reshard "$tmp/su" --devices 2 --quiet
same "$grown" "$(exported "$tmp/su")" "  with the same bits"
works "it goes on there" pretrain --resume "$tmp/su" --steps 8 --schedule-steps 8 --quiet
run report "$tmp/su" --config
grep -q "^base-in-place" "$tmp/out"
result $? "its options name it"

# a stop, and a kill
works "training stops" pretrain --run "$tmp/ends" --init "$tmp/hf" $adapted $here --steps 3 --schedule-steps 6 --mode su+o
works "  and goes on" pretrain --resume "$tmp/ends" --steps 6 --quiet
same "$first" "$(exported "$tmp/ends")" "  to the same bits"
find_shim
if [ -n "$shim" ]; then
    for mode in base mem; do
        rm -rf "$tmp/killed"
        works "training stops in $mode" pretrain --run "$tmp/killed" --init "$tmp/hf" $adapted $here --steps 2 --schedule-steps 6 --mode $mode
        (export LD_PRELOAD="$shim" SHIM_AT="pwrite:/killed/run.db-wal:20:kill"; exec "$bin" pretrain --resume "$tmp/killed" --steps 6 --quiet) >"$tmp/out" 2>"$tmp/err"
        same 137 $? "  and is killed in its second process"
        works "  and goes on" pretrain --resume "$tmp/killed" --steps 6 --quiet
        same "$first" "$(exported "$tmp/killed")" "  to the same bits"
    done
else
    skip "a killed run" "no library that kills it"
fi

# a read that fails, and one that never ends
if [ -n "$shim" ]; then
    for how in "su 30" "su 90" "mem 4" "base 30 --disk sync"; do
        set -- $how
        mode=$1 at=pread:/hf/model.safetensors nth=$2
        shift 2
        rm -rf "$tmp/read"
        works "training stops in $mode" pretrain --run "$tmp/read" --init "$tmp/hf" $adapted $here --steps 2 --schedule-steps 6 --mode $mode $*
        (export LD_PRELOAD="$shim" SHIM_AT="$at:$nth:fail"; exec "$bin" pretrain --resume "$tmp/read" --steps 6 --quiet) >"$tmp/out" 2>"$tmp/err"
        same 1 $? "  a read fails: it ends with 1"
        result "$(grep -q "^siTrain pretrain: read $tmp/hf/model.safetensors at byte [0-9]*: Input/output error (block [0-9]*)" "$tmp/err" &&
            [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "  and a sentence"
        held "$at:$((nth < 12 ? nth : 12))" pretrain --resume "$tmp/read" --steps 6 --io-timeout 0.5 --quiet
        result $? "  a read does not end"
        wait $pid
        same 1 $? "  it ends with 1"
        result "$(grep -q "^siTrain pretrain: $tmp/hf/model.safetensors: read of [0-9]* bytes at offset [0-9]* has had no answer for 0.5 s, nor has any of the [1-4] reads in flight (--io-timeout): they are given up (block [0-9]*)" "$tmp/err" &&
            [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "  and a sentence"
        rm -f "$tmp/held"
        works "  the run goes on" pretrain --resume "$tmp/read" --steps 6 --quiet
        same "$first" "$(exported "$tmp/read")" "  to the same bits"
    done
fi

# files of each format, one or several, with a run in each precision
for of in fp32 fp16 bf16; do
    for dtype in bf16 fp32; do
        rm -rf "$tmp/in" "$tmp/a" "$tmp/b"
        run export "$tmp/hf" "$tmp/in" --dtype $of $([ $of = fp16 ] && echo --max-shard-size 20K)
        run pretrain --run "$tmp/a" --init "$tmp/in" $few --mode base --dtype $dtype
        works "files in $of, a run in $dtype" pretrain --run "$tmp/b" --init "$tmp/in" $few $here --mode su --dtype $dtype
        same "$(exported "$tmp/a")" "$(exported "$tmp/b")" "  the same bits"
        run report "$tmp/b"
        awk '$1 == "files" { n++; bad += $4 != $5 } END { exit !n || bad }' "$tmp/out"
        result $? "  and as many bytes as were computed"
    done
done

# families, tasks
for family in llama gemma3_text; do
    cp -r "$tmp/tok" "$tmp/$family"
    python3 tests/cli/tiny_folder.py $family "$tmp/$family" 270 64
    run pretrain --run "$tmp/$family-a" --init "$tmp/$family" $few --mode mem
    works "$family" pretrain --run "$tmp/$family-b" --init "$tmp/$family" $few $here --mode su+o
    same "$(exported "$tmp/$family-a")" "$(exported "$tmp/$family-b")" "  the same bits"
done
python3 tests/cli/tiny_folder.py bert "$tmp/bert"
masked="--init $tmp/bert --data $text --seq 16 --lora-rank 2 --lora-targets mlp --steps 2 --csd-mem 128K --quiet"
run pretrain --run "$tmp/bert-a" $masked --mode base
works "a masked language model" pretrain --run "$tmp/bert-b" $masked $here --mode base
same "$(exported "$tmp/bert-a")" "$(exported "$tmp/bert-b")" "  the same bits"
{ echo text,label; for i in 1 2 3 4 5 6; do printf 'the sea sees a ship,good\na storm leaves the island,bad\n'; done; } >"$tmp/rows.csv"
sorter="--init $tmp/hf --train-file $tmp/rows.csv --eval-file $tmp/rows.csv --lora-rank 2 --epochs 2 --lr 1e-2 --max-seq 16 --csd-mem 128K --keep-best --quiet"
chat="--init $fixtures/chat_steps/llama --chat-template $fixtures/dpo/template.jinja --lora-rank 4 --steps 2 --csd-mem 192K --quiet"
for task in "sorter su $sorter" "chat su+o --task chat --train-file $fixtures/chat_steps/rows.jsonl $chat" "dpo base --task dpo --train-file $fixtures/dpo/rows.jsonl $chat"; do
    set -- $task
    name=$1 mode=$2
    shift 2
    run finetune --run "$tmp/$name-a" --mode mem "$@"
    works "finetune: $name" finetune --run "$tmp/$name-b" --mode $mode "$@" $here
    same "$(exported "$tmp/$name-a")" "$(exported "$tmp/$name-b")" "  the same bits"
    works "  it goes on" finetune --resume "$tmp/$name-b" --quiet
done
same "$(run eval "$tmp/sorter-a" --eval-file "$tmp/rows.csv" && cat "$tmp/out")" "$(run eval "$tmp/sorter-b" --eval-file "$tmp/rows.csv" && cat "$tmp/out")" \
    "the best model is evaluated with the base in place"
works "an adapter's folder goes on with its base in place" pretrain --run "$tmp/on" --init "$tmp/su-adapter" --data "$text" --seq 16 --batch 2 --lr 0 --csd-mem 128K --quiet --steps 1 --mode su $here
run export "$tmp/on" "$tmp/on-adapter" --adapter
cmp -s "$tmp/su-adapter/adapter_model.safetensors" "$tmp/on-adapter/adapter_model.safetensors"
result $? "  and comes out as it went in"

# a base that is not the same any more
base=$tmp/base
rm -rf "$base"
cp -r "$tmp/hf" "$base"
works "a run with a base of its own" pretrain --run "$tmp/r" --init "$base" $adapted $here --mode su --steps 3 --schedule-steps 20
on="pretrain --resume $tmp/r --quiet --steps"
touch "$base/model.safetensors"
works "a file that was touched has the same checksum" $on 4
cp -p "$base/model.safetensors" "$tmp/good"
spoil() { # one bit of its contents, and nothing that a file's size and time say
    turn "$base/model.safetensors" $(($(stat -c %s "$base/model.safetensors") - 5))
    touch -r "$tmp/good" "$base/model.safetensors"
}
spoil
refuses 1 "$base/model.safetensors is not the file with which $tmp/r was made: its checksum differs" $on 5
refuses 1 "its checksum differs" export "$tmp/r" "$tmp/none"
run check "$tmp/r"
result "$([ "$got" = 1 ] && grep -q "$base/model.safetensors is not the file" "$tmp/err"; echo $?)" "check finds it"
cp -p "$tmp/good" "$base/model.safetensors"
works "the file is back" $on 5
truncate -s -4096 "$base/model.safetensors"
refuses 1 "put it back as it was, or say with --base HFDIR where it is" $on 6
cp "$tmp/good" "$base/model.safetensors"
run export "$tmp/r" "$tmp/with" --adapter
mv "$base" "$tmp/elsewhere"
refuses 1 "say with --base HFDIR where it is" $on 6
refuses 1 "say with --base HFDIR where it is" eval "$tmp/r" --data "$text" --seq 16
refuses 1 "say with --base HFDIR where it is" $on 6 --base "$tmp/none"
refuses 1 "say with --base HFDIR where it is" export "$tmp/r" "$tmp/export" --base "$tmp/none"
works "adapters leave a run that lost its base" export "$tmp/r" "$tmp/saved" --adapter
same "$(sha256sum <"$tmp/with/adapter_model.safetensors")" "$(sha256sum <"$tmp/saved/adapter_model.safetensors")" "  the same ones"
works "it moved: --base says where" $on 6 --base "$tmp/elsewhere"
works "  which is known from then on" $on 7
mv "$tmp/elsewhere" "$tmp/again"
works "eval takes --base, too" eval "$tmp/r" --data "$text" --seq 16 --base "$tmp/again"
refuses 1 "cannot be read in $tmp/elsewhere" eval "$tmp/r" --data "$text" --seq 16
mv "$tmp/again" "$base"
works "and check" check "$tmp/r" --base "$base"
works "and export" export "$tmp/r" "$tmp/r-hf" --base "$base"
refuses 1 "it has a model of other sizes" $on 8 --base "$tmp/llama"
works "the run stands" $on 8 --base "$base"

# a base that changes during a training
if [ -n "$shim" ]; then
    for mode in su mem; do
        rm -rf "$tmp/r"
        run pretrain --run "$tmp/r" --init "$base" $adapted $here --mode $mode --steps 2 --schedule-steps 12
        for hurt in touch "truncate -s -9000" spoil; do
            held "pwrite:/r/run.db-wal:30" pretrain --resume "$tmp/r" --steps 12 --quiet
            result $? "a training in $mode is under way"
            $hurt "$base/model.safetensors"
            rm -f "$tmp/held"
            wait $pid
            same 1 $? "  $hurt: it ends with 1"
            result "$(grep -q "^siTrain pretrain: $base/model.safetensors is a file of the base, and was changed while this run used it" "$tmp/err" &&
                [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "  and a sentence"
            cp "$tmp/good" "$base/model.safetensors"
        done
        held "pwrite:/r/run.db-wal:30" pretrain --resume "$tmp/r" --steps 12 --quiet
        chmod g+w "$base/model.safetensors"
        rm -f "$tmp/held"
        wait $pid
        same 0 $? "  the run goes on, also if the file gets another mode"
        run pretrain --run "$tmp/r2" --init "$base" $adapted --mode base --steps 12
        same "$(exported "$tmp/r2")" "$(exported "$tmp/r")" "  to the same bits"
        rm -rf "$tmp/r2"
    done
    for to in none none.gguf; do
        held "$([ $to = none ] && echo mkdir || echo open):/none:1" export "$tmp/r" "$tmp/$to"
        result $? "an export begins"
        touch "$base/model.safetensors"
        rm -f "$tmp/held"
        wait $pid
        same "1 $base/model.safetensors is a file of the base, and was changed" "$? $(sed 's/^siTrain export: //; s/ while .*//' "$tmp/err")" "  a file changes: it fails"
        result "$(ls -d "$tmp/none"* >"$tmp/out" 2>&1; [ $? != 0 ]; echo $?)" "  and leaves nothing"
    done
else
    skip "a base that changes during a training" "no library that holds it"
fi

if [ -n "$shim" ]; then
    held "open:$base/model.safetensors:2" pretrain --run "$tmp/none" --init "$base" $few $here
    result $? "a run is being made"
    cp "$tmp/good" "$base/other"
    mv "$base/other" "$base/model.safetensors"
    rm -f "$tmp/held"
    wait $pid
    same "1 siTrain pretrain: $base was changed while its model was looked at" "$? $(sed 's/: begin again.*//' "$tmp/err")" "  its base is replaced: it is not made"
fi

# refusals
new="pretrain --run $tmp/none --data $text $plain"
refuses 2 "--base-in-place is for a model that stays as it is, next to adapters" $new --init "$tmp/hf" $here
refuses 2 "--base-in-place reads the numbers of the model's files, and --base-dtype nf4 packs them" $new --init "$tmp/hf" --lora-rank 2 $here --base-dtype nf4
run export "$tmp/hf" "$tmp/base.gguf"
refuses 2 "--base-in-place reads safetensors files, and $tmp/base.gguf is a GGUF file" $new --init "$tmp/base.gguf" --lora-rank 2 $here
refuses 2 "give --init HFDIR, or leave the option out" finetune --run "$tmp/none" --train-file "$tmp/rows.csv" --init "$tmp/lm" --lora-rank 2 $here --max-seq 16
refuses 2 "$tmp/copy has its model itself: leave it out" pretrain --resume "$tmp/copy" --steps 7 --base "$tmp/hf"
refuses 2 "--base-in-place is 0 in this run and a resume keeps it" pretrain --resume "$tmp/copy" --steps 7 $here
result "$([ ! -e "$tmp/none" ]; echo $?)" "nothing was made"

by_ranks
run pretrain --run "$tmp/lm64" --data "$text" --tokenizer "$tmp/tok" --n-layer 2 --n-head 2 --n-embd 64 --seq 16 --steps 1 --mode mem --durability none --quiet
run export "$tmp/lm64" "$tmp/hf64"
job="--init $tmp/hf64 --data $text $plain --lora-rank 4 --grad-accum 2 --groups 2 --steps 3 --schedule-steps 6"
run pretrain --run "$tmp/one" $job --mode mem
mpirun -n 2 $more "$bin" pretrain --run "$tmp/two" $job $here --mode base >"$tmp/out" 2>"$tmp/err"
same "$(exported "$tmp/one")" "$(exported "$tmp/two")" "two ranks: the same bits"
run pretrain --resume "$tmp/one" --steps 6 --quiet
mv "$tmp/hf64" "$tmp/hf64-moved"
mpirun -n 2 $more "$bin" pretrain --resume "$tmp/two" --steps 6 --quiet --base "$tmp/hf64-moved" >"$tmp/out" 2>"$tmp/err"
same "$(exported "$tmp/one")" "$(exported "$tmp/two")" "  which go on with a base that moved"
run report "$tmp/two.rank1"
awk '$1 == "files" { n++; bad += $4 != $5 } END { exit !n || bad }' "$tmp/out"
result $? "  and each reads its portion"
works "ranks become one" reshard "$tmp/two" --ranks 1 --new-run "$tmp/alone" --quiet
same "$(exported "$tmp/one")" "$(exported "$tmp/alone")" "  with the same bits"

done_testing
