#!/bin/sh
# Every kind of file on every option that takes a file of data: it is read, to the value that the plain file gives, or refused in one
# sentence that names the kind, with nothing left behind. Prints TAP, a line an option.
. tests/tap.sh

language_model 120 270 --n-layer 1 --n-head 1 --n-embd 8 --seq 256 --batch 2 --steps 1
run prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/ids.bin"

# kind;file, as a text;what is said of it;file, as rows;what is said of it
python3 - "$tmp" >"$tmp/kinds" <<'END'
import gzip, json, os, struct, sys
tmp = sys.argv[1]
os.mkdir(tmp + "/in")
text = open(tmp + "/text.txt", "rb").read()
ids = open(tmp + "/ids.bin", "rb").read()[1024:]
n = len(ids) // 2
ids = struct.unpack(f"<{n}H", ids)
lines = [line.decode()[:12].strip() for line in text.splitlines()[:4]]
rows = [{"sentence": s, "label": i % 2} for i, s in enumerate(lines)]
csv = "sentence,label\n" + "".join(f"{r['sentence']},{r['label']}\n" for r in rows)
jsonl = "".join(json.dumps(r) + "\n" for r in rows)

def kind(name, a, bytes_a, says_a, b=None, bytes_b=None, says_b=None):
    for file, data in (a, bytes_a), (b or a, bytes_b or bytes_a):
        if data is not None:
            open(f"{tmp}/in/{file}", "wb").write(data)
    print(f"{name};{tmp}/in/{a};{says_a};{tmp}/in/{b or a};{says_b or says_a}")

def table(name, end, data, says, rows_end=None):
    kind(name, f"{name}.{end}", data.encode() if isinstance(data, str) else data, says)

kind("text", "text.txt", text, "-", says_b="a name that ends in .csv")
kind("ids16h", "h16.bin", struct.pack("<256i", 20240520, 1, n, *[0] * 253) + struct.pack(f"<{n}H", *ids), "token ids")
kind("ids32h", "h32.bin", struct.pack("<256i", 20240801, 7, n, *[0] * 253) + struct.pack(f"<{n}I", *ids), "token ids")
kind("ids16", "u16.bin", struct.pack(f"<{n}H", *ids), "NUL", says_b="a name that ends in .csv")
kind("ids32", "u32.bin", struct.pack(f"<{n}I", *ids), "uint32 ids|NUL", says_b="a name that ends in .csv")
kind("dat16", "u16.dat", struct.pack(f"<{n}H", *ids), "--data-format u16|NUL", says_b="a name that ends in .csv")
table("csv", "csv", csv, "a table")
table("tsv", "tsv", csv.replace(",", "\t"), "a table")
table("jsonl", "jsonl", jsonl, "is JSON|:1: the row has no key \"text\"")
table("list", "json", json.dumps(rows, indent=1), "a JSON list|:2: the row has no key")
table("listline", "json", json.dumps(rows), "a JSON list|:1: the row has no key")
for name, end in ("crlf", "\r\n"), ("cr", "\r"):
    for of, data in ("csv", csv), ("tsv", csv.replace(",", "\t")), ("jsonl", jsonl), ("json", json.dumps(rows, indent=1)):
        table(f"{name}{of}", of, data.replace("\n", end), "JSON" if of[0] == "j" else "a table")
table("bom", "csv", b"\xef\xbb\xbf" + csv.encode(), "a table")
kind("gz", "text.txt.gz", gzip.compress(text), "a gzip file", "rows.csv.gz", gzip.compress(csv.encode()))
kind("zst", "text.zst", b"\x28\xb5\x2f\xfd\x04\x00" + text[:64], "a zstd file")
kind("png", "a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), "a PNG picture")
kind("pdf", "a.pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + text, "a PDF file", "pdf.csv")
kind("parquet", "a.parquet", b"PAR1\x15\x04\x15\x10" + bytes(64) + b"PAR1", "a Parquet file")
kind("safetensors", "a.safetensors", struct.pack("<Q", 16) + b'{"a":{"b":[0]} }' + bytes(64), "a safetensors file", "st.bin")
kind("gguf", "a.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(64), "a GGUF model", "gguf.bin")
for name, code in ("utf16", "utf-16"), ("utf16le", "utf-16-le"), ("utf16be", "utf-16-be"):
    kind(name, f"{name}.txt", text.decode().encode(code), "UTF-16", f"{name}.csv", csv.encode(code))
kind("utf16bin", "utf16.bin", text.decode().encode("utf-16"), "UTF-16")
kind("latin1", "latin1.txt", text + b"caf\xe9\n", "iconv -f LATIN1", "latin1.csv", csv.encode() + b"caf\xe9,1\n")
kind("nul", "nul.txt", text + b"a\0b\n", "NUL", "nul.csv", csv.encode() + b"a\0b,1\n")
kind("empty", "empty.txt", b"", "empty", "empty.csv")
for name, says in ("dir", "a folder"), ("fifo", "a pipe"):
    (os.mkdir if name == "dir" else os.mkfifo)(f"{tmp}/in/{name}.csv")
    kind(name, f"{name}.csv", None, says)
print("device;/dev/zero;a device;/dev/zero;a device")
END
tables="csv tsv jsonl list listline bom gz" ends="crlfcsv crlftsv crlfjsonl crlfjson crcsv crtsv crjsonl crjson"
packed="gz zst png pdf parquet safetensors gguf utf16 utf16le utf16be dir fifo device" # what a file of options or JSON cannot be, either

# with FILE COMMAND...: @ is the file
with() {
    with_file=$1 with_n=$#
    shift
    for arg; do
        case $arg in
        @) arg=$with_file ;;
        esac
        set -- "$@" "$arg"
    done
    shift $((with_n - 1))
    timeout 60 "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}

# each NAME COLUMN TRIED READ VALUE COMMAND...: the command with each kind of file; TRIED: these ("": all), READ: those that are read, to one
# value, which the command VALUE prints; made is all that may be left, and only by those. $instead: what is said of all others, if not what they
# are; $link: leads to the file, which then stands in a folder
instead='' link=''
each() {
    each_name=$1 column=$2 tried=" $3 " read=" $4 " value=$5 wrong='' first=''
    shift 5
    count=0
    ls -A "$tmp" >"$tmp.before"
    while IFS=';' read -r kind text text_says rows rows_says; do
        case $tried in *" $kind "* | "  ") ;; *) continue ;; esac
        case "$column$kind" in textcsv | texttsv | textbom) continue ;; esac # texts like any other, to which a notice is due
        case "$kind $read" in cr*" crcsv "*) ;; cr*) continue ;; esac # how lines end is a matter of rows, and of one reader
        eval "file=\$$column says=\${instead:-\$${column}_says}"
        [ -z "$link" ] || ln -sfn "$file" "$link"
        with "$file" "$@"
        count=$((count + 1))
        case $read in
        *" $kind "*)
            is=$(eval "$value")
            first=${first:-$is}
            [ "$got" = 0 ] && [ -n "$is" ] && [ "$is" = "$first" ] || wrong="$wrong $kind"
            ;;
        *)
            [ "$got" = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && [ ! -s "$tmp/out" ] && [ ! -e "$tmp/made" ] &&
                grep -qE -- "$says" "$tmp/err" || wrong="$wrong $kind"
            ;;
        esac
        case $wrong in *" $kind") sed "s|^|# $kind, $got: |" "$tmp/err" ;; esac
        rm -rf "$tmp/made"
        ls -A "$tmp" | cmp -s - "$tmp.before" || wrong="$wrong left:$kind"
    done <"$tmp/kinds"
    [ -z "$wrong" ] && [ $count -gt 10 ] && { [ -z "$4" ] || [ -n "$first" ] || [ "$read" = "  " ]; }
    result $? "$each_name: $count kinds of file${wrong:+, wrong:$wrong}"
}
touch "$tmp/err" "$tmp/out"

in_sums() { find "$tmp/in" -type f -exec sha256sum {} + | sort -k 2 | sha256sum; }
sums_before=$(in_sums)

losses='sqlite3 "$tmp/made/run.db" "SELECT group_concat(loss) FROM steps"'
evals='sqlite3 "$tmp/made/run.db" "SELECT group_concat(value) FROM evals"'
sums='sqlite3 "$tmp/made/run.db" "SELECT group_concat(value) FROM (SELECT value FROM runs WHERE key LIKE '\''%.sum'\'' ORDER BY key)"'
out='cat "$tmp/out"'
lm="--n-layer 1 --n-head 1 --n-embd 8 --seq 16 --batch 2 --steps 1 --schedule constant --mode mem --durability none --quiet"
cls="--init $tmp/hf --steps 1 --batch 4 --max-seq 16 --mode mem --durability none --quiet"

each "pretrain --data" text "" "text gz ids16h ids32h ids16" "$losses" pretrain --run "$tmp/made" --data @ --tokenizer "$tmp/tok" $lm
each "pretrain --data --data-format u32" text "ids32h ids32 gz png safetensors utf16 utf16bin dir fifo device empty" "ids32h ids32" "$losses" \
    pretrain --run "$tmp/made" --data @ --data-format u32 --tokenizer "$tmp/tok" $lm
each "pretrain --eval-data" text "" "text gz ids16h ids32h ids16" "$evals" pretrain --run "$tmp/made" --data "$tmp/text.txt" --eval-data @ --tokenizer "$tmp/tok" $lm
each "eval --data" text "" "text gz ids16h ids32h ids16" "$out" eval "$tmp/hf" --data @ --seq 16
# a plan looks at the beginning of texts
each "plan --data" text "text ids16h ids32h ids16 ids32 dat16 jsonl list listline $packed utf16bin empty" "text gz jsonl list listline ids16h ids32h ids16" "sed 3q $tmp/out" plan --init "$tmp/hf" --data @ --probe off --host-mem 1G
each "prepare" text "" "text gz" 'sha256sum <"$tmp/made"' prepare @ --tokenizer "$tmp/tok" --out "$tmp/made"
rows_of="csv jsonl list listline bom gz crlfcsv crlfjsonl crlfjson crcsv crjsonl crjson"
each "prepare --text-column" rows "$rows_of ${packed#gz } ids16h nul latin1 empty" "$rows_of" 'sha256sum <"$tmp/made"' prepare @ --text-column sentence --tokenizer "$tmp/tok" --out "$tmp/made"
each "prepare --train-tokenizer" text "" "text gz" 'sha256sum <"$tmp/made/tokenizer.json"' prepare @ --train-tokenizer --vocab 270 --out "$tmp/made"
each "generate --prompt-file" text "" "text jsonl list listline" 'echo read' generate "$tmp/hf" --prompt-file @ --tokens 1
each "finetune --train-file" rows "" "$tables $ends" "$sums" finetune --run "$tmp/made" --train-file @ $cls
each "finetune --eval-file" rows "" "$tables" "$sums" finetune --run "$tmp/made" --train-file "$tmp/in/csv.csv" --eval-file @ $cls
each "finetune --test-file" rows "" "$tables" "$sums" finetune --run "$tmp/made" --train-file "$tmp/in/csv.csv" --test-file @ --predict $cls
each "plan --train-file" rows "" "$tables" 'grep steps "$tmp/out"' plan --init "$tmp/hf" --train-file @ --max-seq 16 --probe off
run finetune --run "$tmp/cls" --train-file "$tmp/in/csv.csv" $cls
each "eval --eval-file" rows "" "$tables" "$out" eval "$tmp/cls" --eval-file @ --max-seq 16
each "eval --test-file" rows "" "$tables" 'sha256sum <"$tmp/made"' eval "$tmp/cls" --test-file @ --predict "$tmp/made" --max-seq 16
each "pretrain --tokenizer" text "text ids16h jsonl ${packed% dir*} fifo device" "" "" pretrain --run "$tmp/made" --data "$tmp/text.txt" $lm --tokenizer @
each "pretrain --config" text "$packed" "" "" pretrain --run "$tmp/made" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $lm --config @
each "pretrain --topology" text "$packed" "" "" pretrain --run "$tmp/made" --data "$tmp/text.txt" --tokenizer "$tmp/tok" $lm --topology @
each "plan --machine" text "$packed" "" "" plan --init "$tmp/hf" --machine @

# where a folder is wanted: a model, a run, a task, a device
few="--steps 2 --schedule-steps 2 --quiet"
instead="Hugging Face folder|a model of llama.cpp's architecture \"\"" # a GGUF file is a model, but this one is empty
others=$(cut -d';' -f1 "$tmp/kinds" | grep -v gguf | tr '\n' ' ')
for line in "import @ $tmp/made" "pretrain --run $tmp/made --init @ --data $tmp/text.txt $few" "finetune --run $tmp/made --init @ --train-file $tmp/in/csv.csv $few" \
    "eval @ --data $tmp/text.txt" "generate @ --prompt x" "export @ $tmp/made" "check @" "plan --init @"; do
    tried=
    [ "$line" != "check @" ] || tried=$others # it says that such a file is damaged
    each "a model: ${line%%@*}" text "$tried" "" "" $line
done
instead="is not a run"
for line in "report @" "watch @ --once" "pretrain --resume @ $few" "finetune --resume @ $few" "reshard @ --devices 2"; do
    each "a run: ${line%%@*}" text "" "" "" $line
done
instead="/train.tsv: "
each "finetune --task --data" text "" "" "" finetune --run "$tmp/made" --task sst2 --data @ --init "$tmp/hf" $few
instead="exists; expected a folder|there are in RAM"
each "pretrain --device" rows "csv jsonl list ids16h latin1 empty ${packed% dir*} fifo device" "" "" pretrain --run "$tmp/made" --device @ --data "$tmp/text.txt" \
    --tokenizer "$tmp/tok" --n-layer 1 --n-head 1 --n-embd 8 --seq 16 $few

# in the place of a file in a model's folder
cp -r "$tmp/hf" "$tmp/as"
for part in config.json model.safetensors tokenizer.json tokenizer_config.json special_tokens_map.json generation_config.json; do
    instead="/as/$part" link=$tmp/as/$part
    each "import: $part" text "" "" "" import "$tmp/as" "$tmp/made"
    cp --remove-destination "$tmp/hf/$part" "$link"
done
instead='' link=''
same "$sums_before" "$(in_sums)" "all files are as they were"
rm "$tmp.before"

works "a table is a text" eval "$tmp/hf" --data "$tmp/in/csv.csv" --seq 16
result "$(grep -qF "csv.csv is read as one text, with the separators and all columns of a table" "$tmp/err"; echo $?)" "  and that is said"
works "JSON is, where it is asked for" eval "$tmp/hf" --data "$tmp/in/jsonl.jsonl" --data-format text --seq 16

# truth values are two classes, false before true, as transformers' run_glue.py has them
printf '{"sentence": "the sea", "label": true}\n{"sentence": "a ship", "label": false}\n' >"$tmp/truth.jsonl"
works "labels that are truth values" finetune --run "$tmp/truth" --train-file "$tmp/truth.jsonl" $cls
same '["false","true"]' "$(sqlite3 "$tmp/truth/run.db" "SELECT value FROM runs WHERE key = 'config.labels'" | tr -d ' ')" "  are the classes false and true"

# ids without a header stay what they were taken for, wherever the file is then
loss2='sqlite3 "$tmp/made/run.db" "SELECT printf('\''%.17g'\'', loss) FROM steps WHERE step = 1"'
works "ids of 16 bits in a file of any name" pretrain --run "$tmp/made" --data "$tmp/in/u16.dat" --data-format u16 --vocab 270 $lm
sqlite3 "$tmp/made/run.db" "DELETE FROM runs WHERE key = 'given.data-format'" # as runs that were made before there was the option
works "go on without a word" pretrain --resume "$tmp/made" --steps 2 --quiet
narrow=$(eval "$loss2")
works "  by their name, too" pretrain --resume "$tmp/made" --data "$tmp/in/u16.dat" --steps 2
cp "$tmp/in/u16.dat" "$tmp/moved"
works "  and elsewhere" pretrain --resume "$tmp/made" --data "$tmp/moved" --steps 2
same "$tmp/moved" "$(sqlite3 "$tmp/made/run.db" "SELECT value FROM runs WHERE key = 'data.path'")" "  where the run finds them now"
refuses 2 "this run took $tmp/moved as u16 and keeps it" pretrain --resume "$tmp/made" --data "$tmp/moved" --data-format u32 --steps 3
refuses 2 "this run has $tmp/moved and a resume keeps it" pretrain --resume "$tmp/made" --data "$tmp/in/u32.bin" --steps 3
refuses 2 "--data $tmp/nothing: there is no such file; this run has $tmp/moved and a resume keeps it" pretrain --resume "$tmp/made" --data "$tmp/nothing" --steps 3
rm -rf "$tmp/made"
works "ids of 32 bits" pretrain --run "$tmp/made" --data "$tmp/in/u32.bin" --data-format u32 --vocab 270 $lm
works "go on as such" pretrain --resume "$tmp/made" --steps 2 --quiet
same "$narrow" "$(eval "$loss2")" "  to the same bits"
run report "$tmp/made" --config
result "$(grep -q '^data-format = u32' "$tmp/out"; echo $?)" "  and --config makes such a run again"
# a text is not asked for again, so that no other is advised
cp "$tmp/text.txt" "$tmp/moved"
refuses 2 "this run has $tmp/text.txt and a resume keeps it: leave the option out" pretrain --resume "$tmp/lm" --data "$tmp/moved" --steps 2 --schedule-steps 2
result "$(grep -q "leave the option out$" "$tmp/err"; echo $?)" "  and nothing else works"
# nor is the same name with another text in it taken for what it was
rm -rf "$tmp/made"
later="--steps 2 --schedule-steps 2 --quiet"
cp "$tmp/text.txt" "$tmp/mine"
works "a run of a text" pretrain --run "$tmp/made" --data "$tmp/mine" --eval-data "$tmp/mine" --tokenizer "$tmp/tok" $lm
touch "$tmp/mine"
works "  goes on by its name" pretrain --resume "$tmp/made" --data "$tmp/mine" --eval-data "$tmp/mine" $later
sed -i '1s/^./X/' "$tmp/mine"
refuses 2 "--data $tmp/mine: this file was changed after the run took its tokens" pretrain --resume "$tmp/made" --data "$tmp/mine" $later
refuses 2 "--eval-data $tmp/mine: this file was changed" pretrain --resume "$tmp/made" --eval-data "$tmp/mine" $later
works "  without the option it goes on with what it has" pretrain --resume "$tmp/made" $later
sqlite3 "$tmp/made/run.db" "DELETE FROM runs WHERE key LIKE '%.text.sums'"
works "  a run from before texts had checksums goes on" pretrain --resume "$tmp/made" --data "$tmp/mine" $later
done_testing
