#!/bin/sh
# Rows of one's own: which columns are read, what is said of them, how they are found again. Prints TAP.
. tests/tap.sh

language_model 200 280 --n-layer 1 --n-head 1 --n-embd 8 --seq 32 --batch 2 --steps 1

# tune NAME FILE ARGUMENTS...
tune() {
    name=$1 file=$2
    shift 2
    run finetune --run "$tmp/$name" --train-file "$tmp/$file" --init "$tmp/hf" --steps 1 --batch 2 --max-seq 32 --mode mem --durability none "$@"
}
says() { # TEXT NAME: of the last run
    result "$([ "$got" = 0 ] && grep -qF -- "$1" "$tmp/err"; echo $?)" "$2"
}
refuses_rows() { # TEXT FILE ARGUMENTS...: and nothing is made
    text=$1 file=$2
    shift 2
    refuses 2 "$text" finetune --run "$tmp/none" --train-file "$tmp/$file" --init "$tmp/hf" --steps 1 --mode mem "$@"
    result "$([ ! -e "$tmp/none" ]; echo $?)" "  and nothing was made"
}
columns() { # RUN: as run.db has them
    sqlite3 "$tmp/$1/run.db" "SELECT group_concat(key || '=' || value, ' ') FROM (SELECT key, value FROM runs WHERE key LIKE 'column.%' ORDER BY key)"
}

printf 'id,text,label\n1,a ship,yes\n2,a storm,no\n3,a sea,no\n' >"$tmp/id.csv"
tune id id.csv
says "id.csv: 3 rows of one text ('text'), 2 classes: 'no', 'yes'" "a column of ids is no text"
result "$(grep -q 'are numbers' "$tmp/err"; [ $? = 1 ]; echo $?)" "  and there is nothing to warn of"

printf 'key,body,note,class\n1,a ship,x,yes\n2,a storm,y,no\n3,a sea,z,no\n' >"$tmp/own.csv"
tune guessed own.csv --label-column class
says "own.csv: all values of the column 'key' are numbers, and it is read as the first text: choose other columns with --text-column" "a text that is numbers is said"
same 1 "$(sqlite3 "$tmp/guessed/run.db" "SELECT count(*) FROM notices WHERE text LIKE '%the column ''key'' are numbers%'")" "  and kept with the run"
tune own own.csv --text-column body --label-column class --eval-file "$tmp/own.csv" --test-file "$tmp/own.csv" --predict
says "own.csv: 3 rows of one text ('body'), 2 classes: 'no', 'yes'" "columns by their names"
result "$(grep -q "^$tmp/own.csv after step 1 of 1" "$tmp/out"; echo $?)" "  the table names the file that was evaluated"
same "column.label=class column.text=body" "$(columns own)" "  and the run knows them"
run finetune --resume "$tmp/own" --steps 1
result "$got" "  a resume needs no names"
same "$tmp/own is finished: its 1 step is done; --steps N --schedule-steps N goes further" "$(head -n 1 "$tmp/out")" "  and says how far the run is"
run eval "$tmp/own" --eval-file "$tmp/own.csv" --max-seq 32
own=$(cat "$tmp/out")
result "$got" "  nor does eval"
printf 'sentence,label\na ship,yes\na storm,no\na sea,no\n' >"$tmp/plain.csv"
refuses 2 "plain.csv has no column 'class', but 'sentence', 'label': --text-column, --pair-column and --label-column say" \
    eval "$tmp/own" --eval-file "$tmp/plain.csv" --max-seq 32
run eval "$tmp/own" --eval-file "$tmp/plain.csv" --max-seq 32 --text-column sentence --label-column label
same "$own" "$(cat "$tmp/out")" "  which takes other ones where it is told"
run export "$tmp/own" "$tmp/own-hf"
run eval "$tmp/own-hf" --eval-file "$tmp/own.csv" --max-seq 32 --text-column body --label-column class
same "$own" "$(cat "$tmp/out")" "  as does that of an export"
for names in 1,0 LABEL_1,LABEL_0 Yes,NO; do # of the classes 'no', 'yes'
    sed "s/,yes\$/,${names%,*}/; s/,no\$/,${names#*,}/" "$tmp/own.csv" >"$tmp/other.csv"
    run eval "$tmp/own-hf" --eval-file "$tmp/other.csv" --max-seq 32 --text-column body --label-column class
    same "$own" "$(cat "$tmp/out")" "  where the classes are called $names, too"
done
sed 's/,yes$/,2/' "$tmp/own.csv" >"$tmp/other.csv"
refuses 2 "other.csv:2: the label '2' is unknown: known are no, yes" eval "$tmp/own-hf" --eval-file "$tmp/other.csv" --max-seq 32 --text-column body \
    --label-column class
cut -d, -f1,2,3 "$tmp/own.csv" >"$tmp/test.csv"
run eval "$tmp/own" --test-file "$tmp/test.csv" --max-seq 32 --predict "$tmp/predicted"
result "$([ "$got" = 0 ] && cmp "$tmp/predicted" "$tmp/own/predict_results_None.txt" >/dev/null; echo $?)" "  rows to predict need no label"

python3 -c 'import csv, json, sys
for row in csv.DictReader(open(sys.argv[1])): print(json.dumps(row))' "$tmp/own.csv" >"$tmp/own.jsonl"
tr , '\t' <"$tmp/own.csv" >"$tmp/own.tsv"
csv=$(exported "$tmp/own")
for kind in tsv jsonl; do
    tune "own-$kind" "own.$kind" --text-column body --label-column class --quiet
    same "$csv" "$(exported "$tmp/own-$kind")" ".$kind: the same rows by the same names"
done
# quotes in a .tsv are characters: where all of a column stands in them, that is said; not where one does, as in GLUE's
quoted="begins and ends with a double quote, which a .tsv file takes as text: if these quotes are not text, save the file as .csv"
printf 'sentence\tlabel\n"a ship"\tyes\n"a storm"\tno\n' >"$tmp/texts.tsv"
printf 'sentence\tlabel\na ship\t"yes"\na "storm"\t"no"\n' >"$tmp/labels.tsv"
printf 'sentence\tlabel\n"a ship"\tyes\n"a" storm\tno\n' >"$tmp/some.tsv"
printf 'sentence,label\n"""a ship""",yes\n"""a storm""",no\n' >"$tmp/meant.csv"
tune texts texts.tsv
says "texts.tsv: every text of the first rows $quoted" "texts in quotes"
same 1 "$(sqlite3 "$tmp/texts/run.db" "SELECT count(*) FROM notices WHERE text LIKE '%double quote%'")" "  and kept with the run"
run eval "$tmp/texts" --eval-file "$tmp/texts.tsv" --max-seq 32
same 1 "$(grep -c "$quoted" "$tmp/err")" "  eval says it, too"
tune labels labels.tsv
says "labels.tsv: every label of the first rows $quoted" "labels in quotes"
printf '"sentence"\t"label"\n"a ship"\t"yes"\n"a storm"\t"no"\n' >"$tmp/all.tsv" # as R's write.table has it
refuses_rows "all.tsv: the column \"label\" stands in double quotes, which a .tsv file takes as text: save it as .csv" all.tsv
refuses_rows "all.tsv: the column \"sentence\" stands in double quotes" all.tsv --text-column sentence
for file in some.tsv meant.csv own.tsv; do
    case $file in own.tsv) set -- --text-column body --label-column class ;; *) set -- ;; esac
    tune "quiet-$file" $file "$@"
    result "$([ "$got" = 0 ] && ! grep -q "double quote" "$tmp/err"; echo $?)" "$file: nothing is said of quotes"
done
# zeros and ones as run_glue.py's float labels are
printf 'sentence,label\na ship,1.0\na storm,0.0\n' >"$tmp/floats.csv"
tune floats floats.csv
says "floats.csv: 2 rows of one text ('sentence')" "labels 1.0 and 0.0"
same 1 "$(sqlite3 "$tmp/floats/run.db" "SELECT value FROM runs WHERE key = 'config.n_labels'")" "  make a regressor"
tune pairs own.csv --text-column note --pair-column body --label-column class
says "rows of two texts ('note', 'body')" "pairs by their names"
same "column.label=class column.pair=body column.text=note" "$(columns pairs)" "  and the run knows them"
works "a plan takes them, too" plan --probe off --init "$tmp/hf" --train-file "$tmp/own.csv" --text-column body --label-column class --max-seq 32

# a task's rows as datasets writes them
printf 'question,sentence,label,idx\nwho is it,it is a ship,0,0\nwhat sea,a storm,1,1\n' >"$tmp/qnli.csv"
tune qnli qnli.csv
says "qnli.csv: 2 rows of two texts ('question', 'sentence'), 2 classes: '0', '1'" "QNLI is pairs"
result "$(grep -q 'not read' "$tmp/err"; [ $? = 1 ]; echo $?)" "  and nothing is left unread"
tune unread qnli.csv --label-column label --text-column sentence
result "$(grep -q 'not read' "$tmp/err"; [ $? = 1 ]; echo $?)" "who chooses columns is told nothing"
printf 'title,sentence,label\nof a ship,a ship,0\nof a sea,a sea,1\n' >"$tmp/title.csv"
tune title title.csv
says "title.csv: these columns of text are not read: 'title'; choose with --text-column and --pair-column" "a text that is not read is named"
same 1 "$(sqlite3 "$tmp/title/run.db" "SELECT count(*) FROM notices WHERE text LIKE '%not read: ''title''%'")" "  and kept with the run"
printf 'sentence,label\na ship,1.5\na storm,nan\n' >"$tmp/nan.csv"
refuses_rows "nan.csv:3: the label 'nan' is no number, as the others are: leave out rows without a label" nan.csv

refuses_rows "own.csv has no column 'boody', but 'key', 'body', 'note', 'class'" own.csv --text-column boody --label-column class
refuses_rows "own.csv:2: no label: a column or a field of that name is expected, or the one that --label-column names; the file has 'key', 'body', 'note', 'class'" own.csv
refuses_rows "plain.csv has no column 'text', but 'sentence', 'label'" id.csv --eval-file "$tmp/plain.csv"
refuses_rows "give --text-column NAME for the first, too" own.csv --pair-column body --label-column class
printf 'sentence,label\ncaf\351,yes\n' >"$tmp/latin.csv"
refuses_rows "latin.csv:2: column 1 is not valid UTF-8 (byte 4 of it, 0xe9): if the file is Latin-1, iconv -f LATIN1 -t UTF-8 $tmp/latin.csv >$tmp/latin.utf8.csv makes it UTF-8" latin.csv
gzip "$tmp/latin.csv"
refuses_rows "if the file is Latin-1, iconv -f LATIN1 -t UTF-8 makes it UTF-8" latin.csv.gz
refuses_rows "the column body is named twice" own.csv --text-column body --label-column body
refuses_rows "the column label is named twice" id.csv --text-column label
refuses 2 "--text-column is for your own rows" finetune --run "$tmp/none" --task sst2 --data "$tmp" --init "$tmp/hf" --text-column a
refuses 2 "the files and their columns" finetune --resume "$tmp/own" --text-column body

# delimiters
tr , ';' <"$tmp/own.csv" >"$tmp/semicolons.csv"
cp "$tmp/own.tsv" "$tmp/tabs.csv"
cp "$tmp/own.csv" "$tmp/commas.tsv"
refuses_rows "semicolons.csv has semicolons between its columns, where .csv has commas: write it with commas" semicolons.csv
refuses_rows "tabs.csv has tabs between its columns, where .csv has commas: name it .tsv, or write it with commas" tabs.csv
refuses_rows "commas.tsv has commas between its columns, where .tsv has tabs: name it .csv, or write it with tabs" commas.tsv

# the best model makes the predictions: what its folder lacks is said before training, and the earlier predictions stay
tune kept own.csv --text-column body --label-column class --eval-file "$tmp/own.csv" --test-file "$tmp/own.csv" --predict --keep-best --schedule constant --lr 1e-9
cp "$tmp/kept/best/config.json" "$tmp/config.json"
steps=$(sqlite3 "$tmp/kept/run.db" "SELECT count(*) FROM steps")
for how in missing empty; do
    rm -f "$tmp/kept/best/config.json"
    [ $how = missing ] || : >"$tmp/kept/best/config.json"
    refuses 1 "kept/best makes the predictions: put a copy of the file there, or move $tmp/kept/best elsewhere" finetune --resume "$tmp/kept" --steps 3 --quiet
    same "$steps" "$(sqlite3 "$tmp/kept/run.db" "SELECT count(*) FROM steps")" "  and nothing is trained ($how)"
    result "$([ -f "$tmp/kept/predict_results_None.txt" ]; echo $?)" "  and the earlier predictions stay"
done
mv "$tmp/kept/best" "$tmp/kept.best"
asked="best is not there any more, or has no config.json: put a copy of the best model there, and go on with --resume, for the predictions"
run finetune --resume "$tmp/kept" --steps 3 --quiet # no step is better
result "$([ "$got" = 1 ] && grep -qF "$asked" "$tmp/err" && [ ! -e "$tmp/kept/best" ]; echo $?)" "moved elsewhere, it is asked for at the end"
cp "$tmp/config.json" "$tmp/kept.best/" && mv "$tmp/kept.best" "$tmp/kept/best"
chmod 600 "$tmp/kept/predict_results_None.txt"
run finetune --resume "$tmp/kept" --steps 3 --quiet
result "$([ "$got" = 0 ] && [ -s "$tmp/kept/predict_results_None.txt" ]; echo $?)" "  and put back, it predicts"
run finetune --resume "$tmp/kept" --steps 4 --quiet
same "0 600" "$got $(stat -c %a "$tmp/kept/predict_results_None.txt")" "  into files as private as those before"

done_testing
