#!/bin/sh
# recipes.sh: every line of docs/chat.md, docs/lora.md, docs/gguf.md (those of the shell) and docs/data.md as it stands there, on models of the same kinds that are tiny. `hf download NAME --local-dir DIR` gives such
# a one. Prints TAP.
. tests/tap.sh
export OMP_WAIT_POLICY=passive

docs=$PWD/docs fixtures=$PWD/tests/fixtures examples=$PWD/examples
mkdir "$tmp/work" "$tmp/models" "$tmp/bin"
for family in qwen2 llama gemma3_text; do
    kind=${family%2}
    kind=${kind%3_text}
    mkdir "$tmp/models/$kind"
    python3 - "$fixtures/chat.json" "$kind" "$tmp/models/$kind" <<'PY'
import json, sys
fixture, kind, folder = sys.argv[1:]
model = json.load(open(fixture))[kind]
json.dump(model["tokenizer"], open(folder + "/tokenizer.json", "w"))
json.dump(model["config"] | {"chat_template": model["unmarked"]}, open(folder + "/tokenizer_config.json", "w"))
PY
    python3 tests/cli/tiny_folder.py $family "$tmp/models/$kind" 512 256
done
cat >"$tmp/bin/hf" <<'SH'
#!/bin/sh
[ "$1 $3" = "download --local-dir" ] && cp -r "$MODELS/$4" "$4"
SH
chmod +x "$tmp/bin/hf"
export MODELS="$tmp/models" PATH="$tmp/bin:$PATH"

cd "$tmp/work" || exit 1
ln -s "$bin" siTrain
ln -s "$examples" examples
for set in chat chat-dev; do
    for i in 1 2 3 4 5 6; do
        printf '{"messages": [{"role": "user", "content": "%s %d?"}, {"role": "assistant", "content": "Ship %d."}]}\n' $set $i $i
    done >$set.jsonl
done

# blocks PAGE LEAST: the blocks of sh, one after the other, of all headings but the one whose model must be a real one
blocks() {
    awk '/^## / { heading = $0 } /^```/ { inside = $0 == "```sh"; inside = inside && heading !~ /without a template/; if (inside) print "# BLOCK"; next } inside' "$docs/$1" >blocks
    n=$(grep -c '^# BLOCK' blocks)
    result "$([ "$n" -ge "$2" ]; echo $?)" "docs/$1 has blocks of commands ($n)"
    i=1
    while [ $i -le "$n" ]; do
        awk -v n=$i '/^# BLOCK/ { k++; next } k == n' blocks >block
        echo "Who are you?" | sh -e block >"$tmp/out" 2>"$tmp/err"
        result $? "$1, block $i: $(head -n 1 block)"
        i=$((i + 1))
    done
}
blocks chat.md 5
rm -rf qwen
blocks lora.md 2

"$bin" import "$MODELS/llama" mine --quiet >"$tmp/out" && "$bin" export mine theirs.gguf >"$tmp/out"
make_text 60 >text.txt
blocks gguf.md 2

mkdir -p corpus/more
make_text 1500 >corpus/prose.txt
make_text 900 | sed 's/.*/{"text": "& And so on."}/' >corpus/more/rows.jsonl
make_text 300 | gzip >corpus/more/packed.txt.gz
make_text 200 | sed 's/.*/{"text": "&", "n": 1}/' | gzip >notes.jsonl.gz
make_text 700 | tr a-m n-z >old.txt
make_text 60 >held-out.txt
blocks data.md 3
"$bin" report weighted >"$tmp/out"
result "$([ -f more-hf/tokenizer.json ] && grep -q '^Sources' "$tmp/out"; echo $?)" "the best model is exported, and the report has the sources"


# docs/tutorial.md, section 8: what examples/chat.sh leaves, on a tiny model and few conversations.
mkdir tutorial
ln -s "$bin" tutorial/siTrain
cp -r "$MODELS/llama" tutorial/gpt2
cp chat.jsonl chat-dev.jsonl tutorial/
sed -n "/<<'TEMPLATE'/,/^TEMPLATE/p" "$examples/chat.sh" | sed '1d; $d' >tutorial/turns.jinja
awk '/^## / { inside = /^## 8\./; next } inside && (more || /^\$ /) { more = /\\$/; sub(/^\$ /, ""); print }' "$docs/tutorial.md" >block
same 3 "$(grep -c '\./siTrain' block)" "docs/tutorial.md has the commands of section 8"
(cd tutorial && sh -e ../block) >"$tmp/out" 2>"$tmp/err"
result $? "  which run"
grep -aqF 'message.role | title' tutorial/adapted.gguf
result $? "  and leave a file with the template"

done_testing
