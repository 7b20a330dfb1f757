#!/bin/sh
# Llama, Mistral, Qwen2, Qwen3 and Gemma 3 through the program: every mode gives the same parameters, whatever becomes of activations; a run goes on;
# what it exports is read again, evaluated and continued like the run. Prints TAP.
. tests/tap.sh

make_text 1000 >"$tmp/text.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 300 --out "$tmp/tok"

# folder NAME: a tiny model of this family, of random numbers, with the tokenizer.
folder() {
    cp -r "$tmp/tok" "$tmp/$1"
    python3 tests/cli/tiny_folder.py "$1" "$tmp/$1"
}

set -- --seq 24 --batch 2 --grad-accum 2 --lr 1e-3 --csd-mem 192K --durability none
for family in llama mistral qwen2 qwen3 gemma3_text; do
    folder $family
    begin="--init $tmp/$family --data $tmp/text.txt"
    works "$family: mem trains" pretrain --run "$tmp/mem" $begin --mode mem "$@" --steps 4
    hash=$(exported "$tmp/mem")
    for how in "base --activations recompute" "su" "su+o --activations offload" "su+o --speculate --devices 3"; do
        run pretrain --run "$tmp/other" $begin --mode $how "$@" --steps 4
        same "$hash" "$(exported "$tmp/other")" "$family: $how gives its parameters"
        rm -rf "$tmp/other"
    done
    run pretrain --run "$tmp/other" $begin --mode su+o "$@" --steps 2 --schedule-steps 4
    run pretrain --resume "$tmp/other" --steps 4
    same "$hash" "$(exported "$tmp/other")" "$family: a run goes on"
    rm -rf "$tmp/other"
    works "$family: bf16 trains" pretrain --run "$tmp/other" $begin --mode su+o+c "$@" --steps 2 --dtype bf16
    works "$family: report" report "$tmp/other"
    grep -q '3 layers of width 24' "$tmp/out"
    result $? "$family: which says what it is"

    in_shards "$tmp/mem" "$hash" "$family"
    works "$family: export" export "$tmp/mem" "$tmp/hf"
    for from in mem hf; do
        run eval "$tmp/$from" --data "$tmp/text.txt" --seq 24 --dtype fp32
        cp "$tmp/out" "$tmp/eval.$from"
        run generate "$tmp/$from" --prompt "a" --prompt "the sea" --tokens 30 --temperature 0 --dtype fp32
        cp "$tmp/out" "$tmp/text.$from"
    done
    same "$(cat "$tmp/eval.mem")" "$(cat "$tmp/eval.hf")" "$family: the export has the run's loss"
    same "$(cat "$tmp/text.mem")" "$(cat "$tmp/text.hf")" "$family: and its words"
    same "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["model_type"])' "$tmp/hf/config.json")" $family "$family: by its name"
    works "$family: the export is imported" import "$tmp/hf" "$tmp/again"
    same "$hash" "$(exported "$tmp/again")" "$family: to the same parameters"
    rm -rf "$tmp/mem" "$tmp/other" "$tmp/hf" "$tmp/again"
done

# Tensors under the names of what a model was wrapped in, or, where they are tied, of the head alone.
renamed() { # FOLDER BEFORE [HEAD]: in $tmp/named, with BEFORE before all names; HEAD: the embeddings are lm_head.weight's
    rm -rf "$tmp/named"
    cp -r "$1" "$tmp/named"
    python3 - "$tmp/named/model.safetensors" "$2" "$3" <<'END'
import json, struct, sys
path, before, head = sys.argv[1:]
data = open(path, "rb").read()
n, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + n])
header.pop("__metadata__", None)
names = {name: "lm_head.weight" if head and name.endswith(("embed_tokens.weight", "wte.weight")) else name for name in header}
text = json.dumps({before + names[name]: header[name] for name in header}).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
END
}
works "a GPT-2" pretrain --run "$tmp/mem" --n-layer 2 --n-head 2 --n-embd 16 --data "$tmp/text.txt" --tokenizer "$tmp/tok" --seq 16 --batch 1 --steps 1 --mode mem --durability none
run export "$tmp/mem" "$tmp/gpt2"
for family in llama qwen2 gpt2; do
    run export "$tmp/$family" "$tmp/plain"
    hash=$(sha256sum <"$tmp/plain/model.safetensors")
    for before in _orig_mod. module. module._orig_mod. model.; do
        renamed "$tmp/$family" $before
        works "$family: names with $before before them" export "$tmp/named" "$tmp/out-named"
        same "$hash" "$(sha256sum <"$tmp/out-named/model.safetensors")" "$family: the same parameters"
        rm -rf "$tmp/out-named"
    done
    renamed "$tmp/$family" module. head
    if [ $family = llama ]; then # a head of its own: the embeddings are not in lm_head.weight
        refuses 2 "tensor module.model.embed_tokens.weight is missing" export "$tmp/named" "$tmp/out-named"
    else
        for before in "" module.; do
            renamed "$tmp/$family" "$before" head
            works "$family: the head alone, '$before'" export "$tmp/named" "$tmp/out-named"
            same "$hash" "$(sha256sum <"$tmp/out-named/model.safetensors")" "$family: the same parameters"
            rm -rf "$tmp/out-named"
        done
    fi
    renamed "$tmp/$family" what.
    refuses 2 "is missing; the first that is there is what." export "$tmp/named" "$tmp/out-named"
    rm -rf "$tmp/plain"
done
rm -rf "$tmp/mem"

# A model of one's own of these families: sizes that are given go over those of a name.
own="--data $tmp/text.txt --tokenizer $tmp/tok --seq 24 --batch 2 --steps 2 --csd-mem 192K --durability none"
llama="--model llama-3.2-1b --n-layer 3 --n-embd 24 --n-head 4 --n-kv-head 2 --n-inner 40"
works "a small Llama" pretrain --run "$tmp/mem" $llama $own --mode mem
hash=$(exported "$tmp/mem")
works "  in su+o" pretrain --run "$tmp/other" $llama $own --mode su+o
same "$hash" "$(exported "$tmp/other")" "  has the same parameters"
works "  is exported" export "$tmp/mem" "$tmp/hf"
said() { python3 -c 'import json, sys; c = json.load(open(sys.argv[1])); print(*[c[k] for k in sys.argv[2:]])' "$tmp/hf/config.json" "$@"; }
same "$(said model_type num_hidden_layers hidden_size num_attention_heads num_key_value_heads head_dim intermediate_size vocab_size)" \
    "llama 3 24 4 2 6 40 300" "  with the sizes that were given"
same "$(said rope_theta tie_word_embeddings max_position_embeddings)" "500000.0 True 131072" "  and those that were not"
rm -rf "$tmp/other"
run report "$tmp/mem" --config
cp "$tmp/out" "$tmp/again.conf"
works "  and made again" pretrain --config "$tmp/again.conf" --run "$tmp/other"
same "$hash" "$(exported "$tmp/other")" "  from the file of its options"
rm -rf "$tmp/mem" "$tmp/other" "$tmp/hf"
works "  with heads wider than its width divided" pretrain --run "$tmp/mem" --model qwen2.5-7b --n-layer 2 --n-embd 24 --n-head 4 --n-kv-head 1 --head-dim 10 --n-inner 28 $own --mode su
works "  and a head of its own" export "$tmp/mem" "$tmp/hf"
same "$(said model_type num_attention_heads num_key_value_heads head_dim tie_word_embeddings)" "qwen2 4 1 10 False" "  is exported as such"
rm -rf "$tmp/mem" "$tmp/hf"
works "  a GPT-2 by name, of two layers" plan --probe off --model gpt2 --n-layer 2 --vocab 300
grep -q '2 layers, 12 heads, 768 wide, 300 words' "$tmp/out"
result $? "  and 12 heads"
refuses_own() { # TEXT ARGUMENTS...
    said=$1
    shift
    refuses 2 "$said" pretrain --run "$tmp/none" "$@" $own
}
refuses_own "--n-kv-head 2: in a GPT-2, this size follows from the other sizes, and is 12 here" --model gpt2 --n-kv-head 2
refuses_own "--n-inner 100: in a GPT-2, this size follows" --n-layer 1 --n-head 2 --n-embd 16 --n-inner 100
refuses_own "--head-dim 4: in a GPT-2, this size follows" --n-layer 1 --n-head 2 --n-embd 16 --head-dim 4
refuses_own "3 heads of queries cannot share 8 heads of keys" --model llama-3.2-1b --n-head 3 --n-embd 24
refuses_own "the width 24 is not divisible by 5 heads" --model llama-3.2-1b --n-head 5 --n-embd 24 --n-kv-head 5
refuses_own "--init and sizes such as --n-layer both say" --init "$tmp/llama" --n-kv-head 2
refuses_own "--n-embd is missing" --n-layer 1 --n-head 2 --head-dim 8

# A head of its own beside a config.json that ties it: transformers 4 ties it, 5 does not.
cp -r "$tmp/llama" "$tmp/mixed"
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$tmp/mixed/config.json"
refuses 2 "ties the head to the embeddings, but the files have lm_head.weight" import "$tmp/mixed" "$tmp/none"
refuses 2 "ties the head to the embeddings, but the files have lm_head.weight" generate "$tmp/mixed" --prompt a
python3 - "$tmp/mixed/model.safetensors" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    n, = struct.unpack("<Q", f.read(8))
    head = json.loads(f.read(n))
    first, end = head["model.embed_tokens.weight"]["data_offsets"]
    f.seek(8 + n + first)
    words = f.read(end - first)
    f.seek(8 + n + head["lm_head.weight"]["data_offsets"][0])
    f.write(words)
PYTHON
works "the embeddings twice are a head that is tied" import "$tmp/mixed" "$tmp/none"
rm -rf "$tmp/none"

# The tokenizer of the folder is the model's: another one would give its ids other words.
sed 's/ship/boat/g; s/sea/lake/g' "$tmp/text.txt" >"$tmp/lakes.txt"
run prepare "$tmp/lakes.txt" --train-tokenizer --vocab 300 --out "$tmp/lakes"
cp -r "$tmp/tok" "$tmp/same"
for command in "pretrain --data $tmp/text.txt" "pretrain --data $tmp/text.bin"; do
    run prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
    # shellcheck disable=SC2086
    refuses 2 "is not the tokenizer of $tmp/llama" $command --run "$tmp/none" --init "$tmp/llama" --tokenizer "$tmp/lakes" "$@" --steps 1
done
# the same words, but two that are swapped, or two merges that are
for way in ids merges; do
    rm -rf "$tmp/swapped"
    cp -r "$tmp/tok" "$tmp/swapped"
    python3 - "$tmp/swapped/tokenizer.json" $way <<'PYTHON'
import json, sys
with open(sys.argv[1]) as f:
    tokenizer = json.load(f)
vocab, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
if sys.argv[2] == "ids":
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
else:
    merges[0], merges[-1] = merges[-1], merges[0]
with open(sys.argv[1], "w") as f:
    json.dump(tokenizer, f)
PYTHON
    why="whose merges are others or in another order: leave --tokenizer out"
    [ $way = merges ] || why="is another word: leave --tokenizer out"
    for command in "eval $tmp/llama --data $tmp/text.txt" "eval $tmp/llama --data $tmp/text.bin" "generate $tmp/llama --prompt sea"; do
        # shellcheck disable=SC2086
        refuses 2 "--tokenizer $tmp/swapped is not the tokenizer of $tmp/llama, whose" $command --tokenizer "$tmp/swapped"
        result "$(grep -qF "$why" "$tmp/err"; echo $?)" "  for its $way"
    done
done
works "eval takes a copy of it" eval "$tmp/llama" --data "$tmp/text.txt" --tokenizer "$tmp/same"
works "generate takes a copy of it" generate "$tmp/llama" --prompt sea --tokens 1 --tokenizer "$tmp/same"
works "a copy of it is taken" pretrain --run "$tmp/none" --init "$tmp/llama" --tokenizer "$tmp/same" --data "$tmp/text.txt" "$@" --steps 1
rm -rf "$tmp/none"

# A classifier of a family that has dropout on attention's probabilities alone: asked for, it is no other than config.json's.
{ printf 'sentence\tlabel\n'; for word in sea ship storm land sail wave; do printf 'the %s\t1\nthe old %s\t0\n' $word $word; done; } >"$tmp/rows.tsv"
drops() { # FOLDER ARGUMENTS...: the parameters after two steps
    run finetune --run "$tmp/drops" --init "$@" --train-file "$tmp/rows.tsv" --max-seq 16 --batch 4 --steps 2 --lr 1e-2 --mode mem --quiet
    exported "$tmp/drops"
    rm -rf "$tmp/drops"
}
cp -r "$tmp/llama" "$tmp/dropping"
sed -i 's/"vocab_size"/"attention_dropout": 0.5, "vocab_size"/' "$tmp/dropping/config.json"
hash=$(drops "$tmp/dropping")
same "$hash" "$(drops "$tmp/llama" --dropout 0.5)" "a Llama's --dropout is attention's"
result "$([ "$hash" != "$(drops "$tmp/llama")" ]; echo $?)" "  and more than none"

# More positions than fit anywhere: a conversation has room for as many tokens as a row usually has.
cp -r "$tmp/llama" "$tmp/long"
sed -i 's/"max_position_embeddings": 64/"max_position_embeddings": 4194304/' "$tmp/long/config.json"
printf 'the sea\n\n' >"$tmp/said"
works "a conversation of a model of four million positions" generate "$tmp/long" --chat --tokens 2 --host-mem 100M <"$tmp/said"

# What a prediction goes by is measured of a model's own kind of layers, and there is none from another kind's.
for family in llama qwen3; do
    works "$family: a machine's file" bench --save "$tmp/$family.conf" --probe --quick --init "$tmp/$family" --batch 2 --seq 32 --dtype fp32 --dir "$tmp"
    kinds=$(sed -n 's/^\(layer\|attention\) = fp32 \([a-z]*\) .*/\1 \2/p' "$tmp/$family.conf" | sort -u)
    same "attention llama
layer llama" "$kinds" "$family: its layers and attention are of Llama's kind"
    works "$family: plan by it" plan --init "$tmp/$family" --batch 2 --seq 32 --dtype fp32 --host-mem 64M --machine "$tmp/$family.conf"
done
sed 's/ llama / /' "$tmp/llama.conf" >"$tmp/gpt2.conf"
refuses 2 "no figures of layers like Llama's in fp32" plan --init "$tmp/llama" --batch 2 --seq 32 --dtype fp32 --host-mem 96M --machine "$tmp/gpt2.conf"
works "GPT-2's plan by such a file" plan --n-layer 1 --n-head 2 --n-embd 24 --seq 32 --dtype fp32 --host-mem 96M --machine "$tmp/gpt2.conf"

# What is not known is refused by its name.
refuses_config() { # SED TEXT
    cp -r "$tmp/$family" "$tmp/bad"
    sed -i "$1" "$tmp/bad/config.json"
    refuses 2 "$2" import "$tmp/bad" "$tmp/new"
    rm -rf "$tmp/bad"
}
family=llama
refuses_config 's/"silu"/"gelu"/' hidden_act
refuses_config 's/"llama3"/"longrope"/' longrope
refuses_config 's/"factor": 4.0, //' factor
refuses_config 's/"factor": 4.0/"factor": 4.0, "short_factor": 1/' short_factor
refuses_config 's/"vocab_size"/"attention_bias": true, "vocab_size"/' attention_bias
refuses_config 's/"vocab_size"/"mlp_bias": true, "vocab_size"/' mlp_bias
refuses_config 's/"num_key_value_heads": 2/"num_key_value_heads": 3/' "heads of keys and values"
refuses_config 's/"head_dim": 6/"head_dim": 5/' "even number"
refuses_config 's/500000.0/1/' rope_theta
refuses_config 's/"head_dim": 6/"head_dim": 258/' "at most 256 elements"
refuses_config 's/"llama3"/3/' "not known here"
refuses_config 's/"rope_scaling"/"rope_parameters": [], "rope_scaling"/' "say different things"
refuses_config 's/"rope_scaling": {/"rope_scaling": 1, "x": {/' "must be an object"
refuses_config 's/"vocab_size"/"layer_types": "sliding_attention", "vocab_size"/' layer_types
refuses_config 's/"vocab_size"/"is_causal": false, "vocab_size"/' is_causal
refuses_config 's/"vocab_size"/"quantization_config": {"quant_method": "fp8"}, "vocab_size"/' quantization_config
refuses_config 's/"model_type": "llama"/"model_type": 7/' model_type
family=qwen3
refuses_config 's/"vocab_size"/"use_sliding_window": true, "vocab_size"/' use_sliding_window
refuses_config 's/"vocab_size"/"layer_types": ["sliding_attention"], "vocab_size"/' sliding_attention
refuses_config 's/"head_dim": 6, //' head_dim
family=gemma3_text
refuses_config 's/"query_pre_attn_scalar": 6/"query_pre_attn_scalar": 9/' query_pre_attn_scalar
refuses_config 's/"vocab_size"/"final_logit_softcapping": 30.0, "vocab_size"/' final_logit_softcapping
refuses_config 's/"vocab_size"/"use_bidirectional_attention": true, "vocab_size"/' use_bidirectional_attention
refuses_config 's/"sliding_window_pattern": 3/"layer_types": ["full_attention", "sliding_attention", "full_attention"]/' layer_types
refuses_config 's/"gelu_pytorch_tanh"/"silu"/' hidden_activation

done_testing
