#!/bin/sh
# Strangers in a run's and a model's folder: links to somebody's file, pipes, folders, what never ends, in the place of every file that is
# opened there, before every command. Nothing hangs, nothing of somebody's changes, what is refused is refused with one sentence. Then what
# killed processes leave, and devices that would be in RAM. Prints TAP.
. tests/tap.sh
make_text 60 >"$tmp/text.txt"
works "a tokenizer is trained" prepare "$tmp/text.txt" --train-tokenizer --vocab 260 --out "$tmp/tok"
works "a text becomes a token file" prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/text.bin"
shape="--n-layer 1 --n-head 1 --n-embd 8 --seq 8 --batch 1 --csd-mem 128K --threads 1 --durability none --schedule constant --steps 2 --quiet"
works "a run on a device" pretrain --run "$tmp/dev" --data "$tmp/text.txt" --eval-data "$tmp/text.txt" --tokenizer "$tmp/tok" $shape --keep-best
works "a run in memory" pretrain --run "$tmp/ram" --data "$tmp/text.bin" --tokenizer "$tmp/tok" $shape --mode mem --commit-every 1
works "a model" export "$tmp/dev" "$tmp/hf"

# attempt COMMAND: on $tmp/run
attempt() {
    rm -rf "$tmp/out.hf"
    case $1 in
    resume) set -- pretrain --resume "$tmp/run" --steps 3 --quiet ;;
    export) set -- export "$tmp/run" "$tmp/out.hf" --last ;; # the devices' model, not RUN/best
    generate) set -- generate "$tmp/run" --last --prompt sea --tokens 1 --threads 1 ;;
    eval) set -- eval "$tmp/run" --last --data "$tmp/text.bin" --threads 1 ;;
    reshard) set -- reshard "$tmp/run" --devices 2 --quiet ;;
    *) set -- "$1" "$tmp/run" ;;
    esac
    timeout -s KILL 60 "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}

# put KIND NAME: a stranger of that kind is $tmp/run/NAME
put() {
    rm -rf "$tmp/run/$2"
    case $1 in
    link) ln -s "$tmp/victim" "$tmp/run/$2" ;;
    zero) ln -s /dev/zero "$tmp/run/$2" ;;
    nowhere) ln -s "$tmp/made" "$tmp/run/$2" ;;
    second) ln "$tmp/victim" "$tmp/run/$2" ;;
    pipe) mkfifo "$tmp/run/$2" ;;
    folder) mkdir "$tmp/run/$2" ;;
    socket) ln "$tmp/socket" "$tmp/run/$2" ;;
    esac
}

# strangers RUN NAME REFUSED KIND...: in every command, of those that read the model alike in one, by turns, which with three kinds of
# stranger are all; REFUSED: those that must refuse it, the others may do without
turn=0
strangers() {
    of=$1 name=$2 must=$3 wrong=
    shift 3
    for kind; do
        rm -rf "$tmp/run"
        cp -r "$tmp/$of" "$tmp/run"
        turn=$(((turn + 1) % 3))
        case $turn in 0) reads=generate ;; 1) reads=eval ;; *) reads=export ;; esac
        [ $# -gt 2 ] || reads="generate eval export"
        for command in report check $reads reshard resume; do
            [ "$of$command" = ramreshard ] && continue
            echo 'of somebody else' >"$tmp/victim"
            put "$kind" "$name"
            attempt "$command"
            lines=$(wc -l <"$tmp/err")
            case $got in
            0) case " $must all " in *" $command "* | " all all ") wrong="$wrong$kind/$command was not refused; " ;; esac ;;
            1 | 2) [ "$lines" = 1 ] || [ "$command" = check ] || wrong="$wrong$kind/$command said $lines lines; " ;;
            *) wrong="$wrong$kind/$command ended with $got; " ;;
            esac
            [ "$(cat "$tmp/victim")" = 'of somebody else' ] && [ ! -e "$tmp/made" ] || wrong="$wrong$kind/$command wrote to it; "
            rm -f "$tmp/made"
        done
    done
    result "$([ -z "$wrong" ]; echo $?)" "$name as $* $wrong"
}

python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$tmp/socket"
strangers dev run.lock all link zero nowhere pipe folder socket
strangers dev run.lock 'resume reshard export generate eval' second # report only reads; so does check where it may not write
strangers dev run.db all link zero nowhere pipe folder
for name in run.db-wal run.db-shm run.db-journal; do
    strangers dev $name all link zero nowhere pipe
done
strangers ram image0 none link zero pipe folder # one of the two is what is read, the other one what is written next
strangers ram image1 none link zero pipe folder
for name in image0 image1; do
    strangers ram $name resume nowhere second
done
strangers dev data.bin resume zero pipe folder link
strangers dev eval.bin resume zero pipe folder link
strangers dev tokenizer none link pipe nowhere
strangers dev tokenizer/tokenizer.json 'generate export' zero pipe folder
strangers dev tokenizer/merges.txt export link zero pipe folder
strangers dev dev0 'resume reshard export eval generate check' link pipe nowhere
strangers dev dev0/states 'resume reshard export eval generate check' link zero pipe folder nowhere
# A copy by cp -al has the same device files: a writer refuses them, and neither run changes.
for command in resume repair; do
    rm -rf "$tmp/run" "$tmp/twin"
    cp -r "$tmp/dev" "$tmp/twin" && cp -r "$tmp/dev" "$tmp/run" && ln -f "$tmp/twin/dev0/states" "$tmp/run/dev0/states"
    was=$(sums "$tmp/twin")
    if [ "$command" = repair ]; then run check "$tmp/run" --repair; else attempt "$command"; fi
    [ "$got" != 0 ] && [ "$got" -le 2 ] && grep -q 'run/dev0/states has other names too (hard links).*copy it (cp)' "$tmp/err" &&
        [ "$(sums "$tmp/twin")" = "$was" ]
    result $? "hard-linked states are not written: $command"
done
run check "$tmp/run"
result "$got" "  and are read all the same"
attempt reshard
result "$([ "$got" = 0 ] && [ "$(sums "$tmp/twin")" = "$was" ]; echo $?)" "  a reshard takes its own name of them away alone"
rm -rf "$tmp/run" && cp -r "$tmp/dev" "$tmp/run" && ln -f "$tmp/twin/dev0/states" "$tmp/run/dev0/states"
mv "$tmp/run/dev0/states" "$tmp/twin.states" && cp "$tmp/twin.states" "$tmp/run/dev0/states" && rm "$tmp/twin.states"
attempt resume
result "$got" "  a copy of them is written"
rm -rf "$tmp/run" && cp -r "$tmp/dev" "$tmp/run"
attempt resume # so that it is no copy any more
mv "$tmp/run/dev0/states" "$tmp/elsewhere" && ln -s "$tmp/elsewhere" "$tmp/run/dev0/states"
attempt resume
result "$got" "  and so is what a symbolic link leads to"
strangers dev best none link pipe nowhere
strangers dev best.next none link pipe nowhere folder

# A model's folder: links are followed, as Hugging Face's cache has them, to regular files of bounded size.
mkdir "$tmp/blobs" "$tmp/cache"
for f in "$tmp"/hf/*; do
    cp "$f" "$tmp/blobs/"
    ln -s "../blobs/${f##*/}" "$tmp/cache/${f##*/}"
done
works "a model of links to blobs is imported" import "$tmp/cache" "$tmp/imported" --csd-mem 128K
works "and read" generate "$tmp/cache" --prompt sea --tokens 1 --threads 1
printf 'label,sentence\n0,the sea\n1,a ship\n' >"$tmp/rows.csv"
mkfifo "$tmp/pipe"
truncate -s 300M "$tmp/large"
wrong=
for stranger in /dev/zero "$tmp/pipe" "$tmp/blobs" "$tmp/large"; do
    for name in config.json model.safetensors vocab.json merges.txt tokenizer.json tokenizer_config.json; do
        rm -rf "$tmp/model" "$tmp/new"
        cp -r "$tmp/hf" "$tmp/model"
        [ "$name" = merges.txt ] && rm "$tmp/model/tokenizer.json"
        rm -f "$tmp/model/$name"
        ln -s "$stranger" "$tmp/model/$name"
        for command in "import $tmp/model $tmp/new --csd-mem 128K" "export $tmp/model $tmp/new" \
            "finetune --init $tmp/model --train-file $tmp/rows.csv --run $tmp/new --steps 1 --csd-mem 128K --max-seq 8"; do
            timeout -s KILL 60 "$bin" $command >"$tmp/out" 2>"$tmp/err" </dev/null
            got=$?
            [ $got = 1 ] || [ $got = 2 ] || wrong="$wrong$name as $stranger, ${command%% *}: $got; "
            [ ! -e "$tmp/new" ] && [ -z "$(find "$tmp" -maxdepth 1 -name 'new.*')" ] || wrong="$wrong$name as $stranger: ${command%% *} left something; "
        done
    done
done
result "$([ -z "$wrong" ]; echo $?)" "what never ends, blocks, is a folder or too large, in a model's folder $wrong"
# A secret of the user's that such a folder links to under a tokenizer's name goes nowhere, whatever it looks like.
mkdir "$tmp/secrets"
printf 'root:x:0:0:Marker17:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\n' >"$tmp/secrets/passwd"
printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\nMarker17\n-----END OPENSSH PRIVATE KEY-----\n' >"$tmp/secrets/key"
printf 'user Marker17\nadmin Marker17\n' >"$tmp/secrets/netrc"
printf '#version: Marker17\n' >"$tmp/secrets/version"
printf 'Marker17 is the word\n' >"$tmp/secrets/word"
printf '{"access_token": "Marker17", "other_token": "Marker17"}\n' >"$tmp/secrets/oauth.json"
printf '{"Marker17": 3, "pin": 1234}\n' >"$tmp/secrets/pins.json"
printf '["Marker17"]\n' >"$tmp/secrets/list.json"
printf 'label,sentence\n0,the sea\n1,a ship\n' >"$tmp/rows.csv"
rm -rf "$tmp/pair" && cp -r "$tmp/hf" "$tmp/pair" && rm "$tmp/pair/tokenizer.json"
wrong='' taken=0 refused=0 left=0 turn=0
for folder in hf pair; do
    for secret in "$tmp"/secrets/*; do
        turn=$((turn + 1))
        for name in tokenizer.json vocab.json merges.txt encoder.json vocab.bpe vocab.txt tokenizer_config.json special_tokens_map.json \
            added_tokens.json generation_config.json; do
            rm -rf "$tmp/model" "$tmp/new" "$tmp/new.hf"
            cp -r "$tmp/$folder" "$tmp/model"
            rm -f "$tmp/model/$name"
            ln -s "$secret" "$tmp/model/$name"
            # import and export in turn: each secret under each name comes to both, in one folder or the other
            turn=$(((turn + 1) % 2))
            case $turn$folder$name in
            ?hfmerges.txt) command="pretrain --run $tmp/new --data $tmp/text.txt --tokenizer $tmp/model $shape" ;;
            0*) command="import $tmp/model $tmp/new --csd-mem 128K" ;;
            *) command="export $tmp/model $tmp/new" ;;
            esac
            rm -rf "$tmp/new" "$tmp/new.hf"
            # shellcheck disable=SC2086
            run $command
            case $got in
            0) taken=$((taken + 1)) ;;
            1 | 2) refused=$((refused + 1)) && [ ! -e "$tmp/new" ] || wrong="$wrong$name as ${secret##*/}: ${command%% *} left something; " ;;
            *) wrong="$wrong$name as ${secret##*/}: ${command%% *}: $got; " ;;
            esac
            [ "$got" = 0 ] && grep -q "/$name.*: this file is left out" "$tmp/err" && left=$((left + 1))
            [ "$got" = 0 ] && [ -e "$tmp/new/run.db" ] && "$bin" export "$tmp/new" "$tmp/new.hf" >"$tmp/out" 2>"$tmp/err"
            grep -rqs Marker17 "$tmp/new" "$tmp/new.hf" && wrong="$wrong$folder, $name as ${secret##*/}: ${command%% *} copied it; "
        done
    done
done
result "$([ -z "$wrong" ] && [ "$taken" = "$left" ] && [ "$left" -gt 25 ] && [ "$refused" -gt 25 ]; echo $?)" \
    "a secret under a tokenizer's name: $refused refused, $left left out with a word $wrong"
# What nothing else vouches for must look like a vocabulary, whatever roles its lines are given.
mkdir "$tmp/words"
ln -s "$tmp/secrets/key" "$tmp/words/vocab.txt"
python3 - "$tmp/words" <<'END'
import json, sys
known = "-----BEGIN OPENSSH PRIVATE KEY-----"
json.dump({"tokenizer_class": "BertTokenizer"} | {f"{role}_token": known for role in ("cls", "sep", "unk", "pad", "mask")},
          open(sys.argv[1] + "/tokenizer_config.json", "w"))
END
# shellcheck disable=SC2086
refuses 2 "words/vocab.txt: line 1 is no word of a vocabulary" pretrain --run "$tmp/new" --data "$tmp/text.txt" --tokenizer "$tmp/words" $shape
result "$([ ! -e "$tmp/new" ]; echo $?)" "  and nothing is left"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' A L G V >"$tmp/words/letters"
ln -sf letters "$tmp/words/vocab.txt"
echo '{"do_lower_case": false}' >"$tmp/words/tokenizer_config.json"
rm -rf "$tmp/new"
# shellcheck disable=SC2086
works "a vocabulary of letters, with BERT's own words" pretrain --run "$tmp/new" --data "$tmp/text.txt" --tokenizer "$tmp/words" $shape
rm -rf "$tmp/new"
cp -r "$tmp/hf" "$tmp/left"
for f in vocab.txt encoder.json; do cp "$tmp/secrets/key" "$tmp/left/$f"; done
works "a tokenizer next to two files that are none of its" import "$tmp/left" "$tmp/new" --csd-mem 128K
result "$(grep -q '/encoder.json.*: this file is left out; so is vocab.txt$' "$tmp/err"; echo $?)" "  which are both named"
rm -rf "$tmp/new"
# What is what its name says is copied, byte for byte, through links of a cache, too.
works "a run of links to blobs" import "$tmp/cache" "$tmp/linked" --csd-mem 128K
result "$([ ! -s "$tmp/err" ]; echo $?)" "  with nothing to say"
for f in tokenizer.json vocab.json merges.txt tokenizer_config.json special_tokens_map.json; do
    cmp "$tmp/hf/$f" "$tmp/linked/tokenizer/$f" || break
done
result $? "  all files of the tokenizer"
rm -rf "$tmp/new"
works "of the pair alone, too" import "$tmp/pair" "$tmp/new" --csd-mem 128K
result "$([ ! -s "$tmp/err" ] && cmp "$tmp/pair/merges.txt" "$tmp/new/tokenizer/merges.txt"; echo $?)" "  with its merges"
rm -rf "$tmp/new"
ln -s "$tmp/gone" "$tmp/link"
refuses 2 "export needs a folder that does not exist or is empty" export "$tmp/dev" "$tmp/link" --last

ln -sfn "$tmp/blobs" "$tmp/link"
mkdir "$tmp/empty"
ln -s "$tmp/empty" "$tmp/to-empty"
for out in link/ to-empty to-empty// empty/. empty/../empty/.; do
    refuses 2 "export needs" export "$tmp/hf" "$tmp/$out"
done
result "$([ -z "$(ls -A "$tmp/empty")" ] && [ -z "$(find "$tmp" -name '*.new-*')" ]; echo $?)" "and nothing is left"

# What a killed export leaves is removed by the next one to the same name, and by no other; a folder that only looks like it stays.
works "a run on a slow device" pretrain --run "$tmp/slow" --data "$tmp/text.bin" --tokenizer "$tmp/tok" $shape --csd-read-bw 40K
# cut SIGNAL: an export that gets it as soon as something is made
cut() {
    "$bin" export "$tmp/slow" "$tmp/slow.hf" >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    for _ in $(seq 1200); do
        ls "$tmp"/slow.hf.new-* >/dev/null 2>&1 && break
        sleep 0.05
    done
    kill "-$1" $pid
    wait $pid 2>/dev/null
    got=$?
}
cut TERM
result "$([ "$got" = 130 ] && [ -z "$(find "$tmp" -maxdepth 1 -name 'slow.hf*')" ]; echo $?)" "a stopped export leaves nothing"
cut KILL
mkdir "$tmp/slow.hf.new-0123456789abcdef"
works "another export" export "$tmp/dev" "$tmp/slow"hf
result "$([ "$(ls -d "$tmp"/slow.hf.new-* | wc -l)" = 2 ]; echo $?)" "leaves what a killed one left"
works "the same again" export "$tmp/slow" "$tmp/slow.hf"
same "$tmp/slow.hf.new-0123456789abcdef" "$(ls -d "$tmp"/slow.hf.new-*)" "removes it, and nothing else"

# What a killed eval or bench works in is removed by the next one.
awk 'BEGIN { srand(1); for (i = 1; i < 400000; i++) printf "%s%d", i % 9 ? " " : "\n", rand() * 1e6 }' >"$tmp/long.txt"
{ echo label,sentence; sed 's/^/0,/' "$tmp/long.txt"; } >"$tmp/long.csv"
mkdir "$tmp/benched"
# killed NAME ARGUMENTS...: as soon as it works in a folder, which $left is
killed() {
    name=$1 left=
    shift
    "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    while [ -z "$left" ] && kill -0 $pid 2>/dev/null; do
        left=$(readlink /proc/$pid/fd/* | sed -n 's:^\(.*\.new-[0-9a-f]\{16\}\).*:\1:p' | head -n 1)
    done
    kill -9 $pid
    wait $pid 2>/dev/null
    result "$([ -d "$left" ]; echo $?)" "$name that is killed leaves a folder"
}
gone() { result "$([ -n "$left" ] && [ ! -e "$left" ]; echo $?)" "and it is gone"; }
killed "an eval of a text" eval "$tmp/dev" --data "$tmp/long.txt" --threads 1
works "another eval" eval "$tmp/dev" --data "$tmp/text.txt" --threads 1
gone
works "a classifier" finetune --init "$tmp/hf" --train-file "$tmp/rows.csv" --run "$tmp/cls" --steps 1 --csd-mem 128K --max-seq 8 --quiet
killed "an eval of rows" eval "$tmp/cls" --eval-file "$tmp/long.csv" --threads 1
works "another eval of rows" eval "$tmp/cls" --eval-file "$tmp/rows.csv" --threads 1
gone
killed "bench" bench --quick --only memory --dir "$tmp/benched"
works "devices" devices --dir "$tmp/benched"
"$bin" bench --quick --only memory --dir "$tmp/benched" >"$tmp/out" 2>"$tmp/err" </dev/null
gone
result "$([ -z "$(ls -A "$tmp/benched")" ]; echo $?)" "nothing else is left"

# States in RAM are refused, and a drive that is not there is not made; mem's images, which are of what is in RAM, may be anywhere.
set -- --data "$tmp/text.bin" --tokenizer "$tmp/tok" $shape
refuses 2 "--device /dev/nvme9n9: there is no such drive" pretrain --run "$tmp/new" "$@" --device /dev/nvme9n9
refuses 2 "/dev: files there are in RAM" pretrain --run "$tmp/new" "$@" --device /dev --device-in-ram
refuses 2 "--device $tmp/once was given twice" pretrain --run "$tmp/new" "$@" --device "$tmp/once" --device "$tmp/once"
refuses 2 "there is no such drive" reshard "$tmp/dev" --device /dev/nvme9n9 --device-in-ram
result "$([ ! -e /dev/nvme9n9 ] && [ ! -e "$tmp/new" ]; echo $?)" "and nothing is made"
if ram=$(mktemp -d /dev/shm/sitrain-cli.XXXXXX 2>/dev/null) && [ "$(stat -f -c %T "$ram")" = tmpfs ]; then
    trap 'rm -rf "$tmp" "$ram"' EXIT
    refuses 2 "is in RAM (tmpfs)" pretrain --run "$tmp/new" "$@" --device "$ram"
    refuses 2 "is in RAM (tmpfs)" pretrain --run "$tmp/new" "$@" --device "$ram/file"
    refuses 2 "make the run on a drive, or its devices with --device" pretrain --run "$ram/new" "$@"
    refuses 2 "is in RAM (tmpfs)" reshard "$tmp/dev" --device "$ram"
    result "$([ -z "$(ls "$ram")" ]; echo $?)" "and nothing is made"
    works "--device-in-ram allows it" pretrain --run "$ram/new" "$@" --device-in-ram
    works "such a run is resumed as any other" pretrain --resume "$ram/new" --steps 3 --quiet
    works "and moved there" reshard "$tmp/dev" --device "$ram" --device-in-ram --quiet
    works "in mem images may be in RAM" pretrain --run "$ram/images" "$@" --mode mem
else
    skip "places in RAM" "/dev/shm is no tmpfs that can be written here"
fi

done_testing
