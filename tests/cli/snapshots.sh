#!/bin/sh
# snapshots.sh: snapshots of a run: the run as it was at that step, in all modes; killed at any call, the run goes on and whole
# snapshots stay; nothing of others is removed; a directory that fails stops no training. Prints TAP.
. tests/tap.sh
find_shim

smallest
shape="$data --n-layer 2 --n-head 1 --n-embd 8 --seq 8 --batch 1 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"
id_of() { python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1] + "/run.db").execute("SELECT value FROM runs WHERE key = '"'id'"'").fetchone()[0])' "$1"; }
# of RUN FIELD: that field of all its snapshots, in a line
of() { "$bin" snapshots "$1" --json | python3 -c 'import json, sys; print(*[s[sys.argv[1]] for s in json.load(sys.stdin)])' "$2"; }
# of_step RUN STEP: the hash of what its snapshot exports
of_step() {
    rm -rf "$tmp/exported"
    run export "$1" "$tmp/exported" --step "$2"
    [ "$got" = 0 ] && sha256sum <"$tmp/exported/model.safetensors" | cut -d' ' -f1
}
# alone STEPS OPTIONS...: the hash of a run that was never copied
alone() {
    rm -rf "$tmp/alone"
    alone_steps=$1
    shift
    run pretrain --run "$tmp/alone" $shape --steps "$alone_steps" --schedule-steps 9 "$@"
    exported "$tmp/alone"
}

# ---- the run as it was
mkdir "$tmp/outside"
while read -r options; do
    rm -rf "$tmp/run"
    works "$options: a run with snapshots" pretrain --run "$tmp/run" $shape $options --steps 7 --schedule-steps 9 --snapshot-every 3 --snapshots 9
    same "0 3 6 7" "$(of "$tmp/run" step)" "$options: they are taken before the first step, every 3 steps and at the end"
    works "$options: and are whole" snapshots "$tmp/run" --check --quiet
    for step in 3 6; do
        same "$(alone $step $options)" "$(of_step "$tmp/run" $step)" "$options: step $step is that of a run of so many steps"
    done
    works "$options: check reads one" check "$tmp/run/snapshots/run-$(id_of "$tmp/run")/step-00000003" --quiet
    same "$(alone 7 $options)" "$(exported "$tmp/run")" "$options: the run is that of one without snapshots"
done <<END
--mode mem --lora-rank 2 --compress 10% --error-feedback
--mode su+o+c --error-feedback --devices 3 --speculate --activations offload
--mode su+o --lora-rank 2 --device $tmp/outside
END
first=$tmp/run/snapshots/run-$(id_of "$tmp/run")/step-00000003
refuses 2 "is a snapshot, and is only read; siTrain pretrain --resume $tmp/run --from 3 goes back to it" pretrain --resume "$first" --steps 9
refuses 2 "is a snapshot" reshard "$first" --devices 2
refuses 2 "has no snapshot after step 4: there are snapshots after the steps 0, 3, 6 and 7" export "$tmp/run" "$tmp/none" --step 4
refuses 2 "--step is for a run" export "$tmp/exported" "$tmp/none" --step 4
works "eval reads one" eval "$tmp/run" --step 3 --data "$tmp/text.bin" --threads 1
cp "$tmp/out" "$tmp/evaluated"
run eval "$first" --last --data "$tmp/text.bin" --threads 1
result "$(cmp -s "$tmp/out" "$tmp/evaluated"; echo $?)" "as if its folder was named"
works "so does generate" generate "$tmp/run" --step 3 --prompt sea --tokens 2 --threads 1

# ---- the best model goes with it
rm -rf "$tmp/run"
works "a run that keeps its best model" pretrain --run "$tmp/run" $shape --steps 4 --eval-every 1 --eval-data "$tmp/text.bin" --keep-best --snapshot-every 2
first=$tmp/run/snapshots/run-$(id_of "$tmp/run")/step-00000002
works "its snapshot has it" check "$first" --quiet
rm -rf "$tmp/exported"
works "and it can be exported" export "$tmp/run" "$tmp/exported" --step 2 --best
turn "$first/best/model.safetensors" 2000
run snapshots "$tmp/run" --check --quiet
same "1 1" "$got $(grep -c "best/model.safetensors" "$tmp/err")" "a byte of its best model is noticed by --check"

# ---- copied next to the training
rm -rf "$tmp/run"
refuses 2 "--snapshot-bw" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 2 --snapshot-bw fast
for mode in su+o mem; do
    rm -rf "$tmp/run"
    works "$mode: copied slowly, with few spare slots" pretrain --run "$tmp/run" $shape --mode $mode --steps 6 --schedule-steps 9 --snapshot-every 2 --snapshots 9 --snapshot-bw 400K --spare-slots few --commit-every 1
    same "0 2 4 6" "$(of "$tmp/run" step)" "$mode: a snapshot that is due waits for the one before"
    same "$(alone 4 --mode $mode)" "$(of_step "$tmp/run" 4)" "$mode: it is the run at that step"
    same "$(alone 6 --mode $mode)" "$(exported "$tmp/run")" "$mode: and the run has the same bits as alone"
done

# ---- what else a snapshot has: somebody's tokenizer, or another step's best model
rm -rf "$tmp/run"
run pretrain --run "$tmp/run" $shape --steps 4 --eval-every 1 --eval-data "$tmp/text.bin" --keep-best --snapshot-every 2
for how in "snapshots --check" "pretrain --from 2 --resume"; do # Ctrl-C while the best model in a snapshot is read
    [ -n "$shim" ] || break
    held "open:step-00000002/best/model.safetensors:1" $how "$tmp/run"
    kill -INT $pid
    rm "$tmp/held"
    wait $pid
    same "130" "$?" "$how: a stop is no damage"
done
cp -a "$tmp/run" "$tmp/edited"
touch "$tmp"/edited/snapshots/*/step-00000004/dev0/states # as in a copy by cp -r
first=$(ls -d "$tmp"/edited/snapshots/*/step-00000002)
cp "$first/best/model.safetensors" "$tmp/weights"
cp "$tmp"/edited/snapshots/*/step-00000004/best/model.safetensors "$first/best/"
run snapshots "$tmp/edited" --check --quiet
same "1 1" "$got $(grep -c "is not the model that run.db names" "$tmp/err")" "another best model is noticed by --check"
cp "$tmp/weights" "$first/best/model.safetensors"
works "and is put back" snapshots "$tmp/edited" --check --quiet
printf '{"a": 1}' | dd of="$first/tokenizer/vocab.json" conv=notrunc 2>"$tmp/null"
run snapshots "$tmp/edited" --check --quiet
same "1" "$got" "so is another tokenizer"
works "the copy goes on" pretrain --resume "$tmp/edited" --steps 7 --schedule-steps 7 --snapshots 1
same "7" "$(of "$tmp/edited" step)" "and removes its old snapshots"
same "tokenizer/vocab.json" "$(cd "$tmp"/edited/snapshots/*/step-00000002.gone.new-* && find . -name vocab.json | cut -c 3-)" "but not a file that somebody has changed"
result "$(ls "$tmp"/edited/snapshots/*/ | grep -c "0[046].gone")" "a snapshot with other times goes"
rm -rf "$tmp/edited"

# ---- nobody can look into an old snapshot: it stays with the list of its files, and goes later
if [ -n "$shim" ]; then
    cp -a "$tmp/run" "$tmp/unseen"
    (export LD_PRELOAD="$shim" SHIM_FAIL="look=EACCES@step-00000002/dev0/"; exec "$bin" pretrain --resume "$tmp/unseen" --steps 7 --schedule-steps 7 --snapshots 1) >"$tmp/out" 2>"$tmp/err"
    same "0 1 states" "$? $(grep "step-00000002 is not removed: what is in it cannot be looked at: Permission denied" "$tmp/err" | sort -u | wc -l) $(ls "$tmp"/unseen/snapshots/*/step-00000002/dev0)" \
        "a snapshot that cannot be looked into is not removed"
    works "and goes" pretrain --resume "$tmp/unseen" --steps 8 --schedule-steps 8 --snapshots 1
    same "step-00000008" "$(find "$tmp/unseen/snapshots" -name 'step-*' -printf '%f\n')" "when it can"
    wrong='' seen=0
    for n in $(seq 1 60); do
        rm -rf "$tmp/unseen"
        cp -a "$tmp/run" "$tmp/unseen"
        : >"$tmp/told"
        (export LD_PRELOAD="$shim" SHIM_TOLD="$tmp/told" SHIM_AT="look:step-00000002:$n:fail"; exec "$bin" pretrain --resume "$tmp/unseen" --steps 7 --schedule-steps 7 --snapshots 1) >"$tmp/out" 2>"$tmp/err"
        [ -s "$tmp/told" ] || break
        seen=$((seen + 1))
        for left in "$tmp"/unseen/snapshots/*/step-00000002*; do
            [ ! -e "$left" ] || [ -e "$left/run.db" ] || wrong="$wrong $n"
        done
    done
    result "$([ -z "$wrong" ] && [ "$seen" -gt 10 ]; echo $?)" "one look of $seen that fails leaves no files without their list:$wrong"
    rm -rf "$tmp/unseen"
fi

# ---- a look at a file of the tokenizer fails: a snapshot has all of them, or is not made
if [ -n "$shim" ]; then
    run pretrain --run "$tmp/whole" $shape --steps 1
    copy_whole() { rm -rf "$tmp/looked" && cp -a "$tmp/whole" "$tmp/looked"; }
    have_all_or_none() {
        [ "$got" = 0 ] || { [ "$got" = 1 ] && grep -q "Input/output error" "$tmp/err"; } || return 1
        for at in "$tmp"/looked/snapshots/*/step-*; do
            [ ! -d "$at" ] || diff -r "$tmp/whole/tokenizer" "$at/tokenizer" >"$tmp/out" 2>&1 || return 1
        done
    }
    fails_once look:looked/tokenizer:EIO copy_whole have_all_or_none "no snapshot lacks a file of the tokenizer" pretrain --resume "$tmp/looked" --steps 2 --snapshot-every 1 --quiet
    run pretrain --run "$tmp/first" $shape --steps 2 --eval-every 1 --eval-data "$tmp/text.bin" --keep-best --snapshot-every 1 --snapshots 2
    copy_first() { rm -rf "$tmp/looked" && cp -a "$tmp/first" "$tmp/looked"; }
    is_done_or_said() { # and nothing that was not seen was made once more, or taken for another run's
        if [ "$got" = 0 ]; then
            same_folders=$(cd "$tmp/looked/snapshots" && echo ./*/*)
            [ "${same_folders#*looked*step-00000002}" = "$same_folders" ]
        else
            grep -q "Input/output error" "$tmp/err"
        fi
    }
    for at in look:/looked/dev0 look:/best.old look:/step-00000002\$; do
        fails_once $at:EIO copy_first is_done_or_said "no failed look makes a copy, or another folder" pretrain --resume "$tmp/looked" --steps 3 --quiet
    done
    is_whole_or_said() { # not a list that lacks one
        { [ "$got" = 0 ] && [ "$(grep -c step-0 "$tmp/out")" = 2 ]; } || { [ "$got" = 1 ] && grep -q "Input/output error" "$tmp/out" "$tmp/err"; }
    }
    for at in look opendir readdir; do
        fails_once $at:looked/snapshots:EIO copy_first is_whole_or_said "no snapshot that could not be looked at is left out" snapshots "$tmp/looked"
    done
    rm -rf "$tmp/whole" "$tmp/looked" "$tmp/first"
else
    skip "a look at a file of the tokenizer fails" "no library that fails it"
fi

# ---- frozen blocks are copied once, and anew if the copy is damaged
rm -rf "$tmp/run" "$tmp/of-older"
run pretrain --run "$tmp/alone" $shape --steps 1
run export "$tmp/alone" "$tmp/exported"
tune="$data --init $tmp/exported --seq 8 --batch 1 --lora-rank 2 --mode mem --commit-every 1 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"
works "a run with frozen blocks" pretrain --run "$tmp/run" $tune --steps 3 --snapshot-every 1 --snapshots 2
same "2 1" "$(stat -c %h "$tmp"/run/snapshots/*/step-00000003/frozen) $(stat -c %i "$tmp"/run/snapshots/*/step-0*/frozen | sort -u | wc -l)" "its snapshots share them"
turn "$(ls "$tmp"/run/snapshots/*/step-00000003/frozen)" 100
works "goes on after a byte has turned" pretrain --resume "$tmp/run" --steps 5 --schedule-steps 5
works "with new copies" snapshots "$tmp/run" --check --quiet
same "4 5" "$(of "$tmp/run" step)" "and as many snapshots"

# ---- which are kept, and whose they are
rm -rf "$tmp/run" "$tmp/a" "$tmp/b"
mkdir "$tmp/a" "$tmp/b" "$tmp/a/somebody"
works "two directories take turns" pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 1 --snapshots 4 --snapshot-dir "$tmp/a" --snapshot-dir "$tmp/b"
id=$(id_of "$tmp/run")
same "1 2 3 4" "$(of "$tmp/run" step)" "and the oldest is gone"
same "step-00000002 step-00000004 | step-00000001 step-00000003" "$(echo $(ls "$tmp/a/run-$id") '|' $(ls "$tmp/b/run-$id"))" "each lies whole in one of them"
echo mine >"$tmp/b/run-$id/step-00000001/notes"
cp -a "$tmp/run" "$tmp/copy"
stamps() { find "$tmp"/[ab]/run-"$id" -printf '%p %T@ %C@\n' | sort; }
was=$(stamps)
works "a copy of the run takes its own" pretrain --resume "$tmp/copy" --steps 6 --schedule-steps 6 --snapshots 2
same "$was" "$(stamps)" "and makes nothing in its original's, not for a moment"
same "4" "$(ls -d "$tmp"/[ab]/run-"$id"/step-* | wc -l)" "and removes none of its original's"
same "5 6" "$(of "$tmp/copy" step)" "which are not its own"
mkdir "$tmp/twin"
cp -a "$tmp/run" "$tmp/twin/run" # a copy with the name of its original, and so with the same folders
works "the original goes on" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6
result "$(grep -q "step-00000001 is no snapshot any more: .* is in .*step-00000001.gone.new-.* now" "$tmp/err"; echo $?)" "and says where the files of somebody are"
same "3 4 5 6" "$(of "$tmp/run" step)" "and keeps as many as it did"
same "mine" "$(cat "$tmp"/b/run-"$id"/step-00000001.gone.new-*/notes)" "somebody's file in a snapshot stays"
result "$([ -d "$tmp/a/somebody" ]; echo $?)" "and so does a folder next to them"
works "a copy of the same name takes its own" pretrain --resume "$tmp/twin/run" --steps 5 --schedule-steps 5
result "$(grep -q "is not certainly a snapshot of this run" "$tmp/err"; echo $?)" "under no name that one of its original has"
same "3 4 5 6" "$(of "$tmp/run" step)" "which keeps all"
left=$(echo "$tmp/b/run-$id"/step-00000001.gone.new-*)
left=$tmp/b/run-$id/step-00000003.gone.new-${left##*-} # as if step 3 was removed before, with a file in it
mkdir "$left"
echo mine >"$left/notes"
mv "$tmp/run" "$tmp/renamed"
works "a renamed run goes on" pretrain --resume "$tmp/renamed" --steps 7 --schedule-steps 7 --snapshots 2
same "6 7" "$(of "$tmp/renamed" step)" "and its old snapshots are still its own"
same "mine" "$(cat "$left/notes")" "somebody's file stays, too, if that step is removed once more"

rm -rf "$tmp/run" "$tmp/copy"
run pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 1 --snapshots 2
cp -a "$tmp/run" "$tmp/copy"
works "a copy takes its own in RUN/snapshots of its original" pretrain --resume "$tmp/copy" --steps 6 --schedule-steps 6 --snapshot-dir "$tmp/run/snapshots"
same "3 4" "$(of "$tmp/run" step)" "which does not list them"
works "and takes its own" pretrain --resume "$tmp/run" --steps 7 --schedule-steps 7
same "6 7 | 5 6" "$(of "$tmp/run" step) | $(of "$tmp/copy" step)" "each run keeps its own two"
mv "$tmp/run" "$tmp/left"
works "renamed, it goes on" pretrain --resume "$tmp/left" --steps 8 --schedule-steps 8
same "7 8" "$(of "$tmp/left" step)" "and its old snapshots are still its own"
mv "$tmp/copy" "$tmp/moved"
works "where the copy is at another path, too" pretrain --resume "$tmp/left" --steps 10 --schedule-steps 10
same "5 6 9 10" "$(basename -a "$tmp"/left/snapshots/*-*/step-* | sed 's/step-0*//' | sort -n | paste -sd' ')" "  each run keeps its own two"
rm -rf "$tmp/left" "$tmp/moved"

rm -rf "$tmp/run"
run pretrain --run "$tmp/run" $shape --steps 4 --snapshot-every 1
python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute("UPDATE steps SET seconds = seconds + 1 WHERE step = 2"); c.commit()' "$tmp/run/run.db" # as if step 3 was trained once more
run pretrain --resume "$tmp/run" --steps 5 --schedule-steps 5
same "2 4 5" "$(of "$tmp/run" step)" "one of a branch that the run has left goes before older ones"

# ---- a snapshot shows others no more than the run
rm -rf "$tmp/run" "$tmp/shown"
mkdir "$tmp/shown"
run pretrain --run "$tmp/run" $shape --steps 3 --eval-every 1 --eval-data "$tmp/text.bin" --keep-best --snapshot-every 1 --snapshots 1 --snapshot-dir "$tmp/shown"
chmod -R go= "$tmp/run"
works "a private run goes on" pretrain --resume "$tmp/run" --steps 4 --schedule-steps 4
same "4 0" "$(of "$tmp/run" step) $(find "$tmp"/shown/run-*/step-00000004 ! -name dev0 -perm /077 | wc -l)" "and so does nobody see its snapshot elsewhere"
chmod -R g+rX "$tmp/run"
works "one of a group goes on" pretrain --resume "$tmp/run" --steps 5 --schedule-steps 5
(cd "$tmp/run" && stat -c '%A %n' . best best/* tokenizer tokenizer/* run.db) >"$tmp/before"
(cd "$tmp"/shown/run-*/step-00000005 && stat -c '%A %n' . best best/* tokenizer tokenizer/* run.db) | diff "$tmp/before" - >"$tmp/out" 2>&1
result $? "and its snapshot has the same modes"

# ---- a directory that fails
rm -rf "$tmp/run" "$tmp/a" "$tmp/b"
mkdir "$tmp/a" "$tmp/b"
refuses 2 "--snapshot-dir $tmp/none: an existing folder is expected" pretrain --run "$tmp/run" $shape --steps 2 --snapshot-every 1 --snapshot-dir "$tmp/none"
run pretrain --run "$tmp/run" $shape --steps 2
echo in the way >"$tmp/a/run-$(id_of "$tmp/run")"
works "a directory where nothing can be made" pretrain --resume "$tmp/run" --steps 4 --schedule-steps 4 --snapshot-every 1 --snapshot-dir "$tmp/a" --snapshot-dir "$tmp/b"
result "$(grep -q "the next --snapshot-dir is tried" "$tmp/err"; echo $?)" "is a notice, and the next is tried"
same "2 3 4" "$(of "$tmp/run" step)" "which has all of them"
mv "$tmp/b" "$tmp/gone"
works "without any the training goes on" pretrain --resume "$tmp/run" --steps 5 --schedule-steps 5
same "in the way" "$(cat "$tmp"/a/run-*)" "and what was in the way is there"
mv "$tmp/gone" "$tmp/b"
if [ -n "$shim" ]; then
    mkdir "$tmp/c" "$tmp/d"
    held rename:/step-00000001:1 pretrain --run "$tmp/last" $shape --steps 1 --snapshot-every 2 --snapshot-dir "$tmp/c" --snapshot-dir "$tmp/d"
    at=$(echo "$tmp"/[cd]/*/step-00000001.new-*)
    mkdir "${at%.new-*}" # somebody's
    rm "$tmp/held"
    wait $pid
    same "0 1 1" "$? $(grep -c "the next --snapshot-dir is tried" "$tmp/err") $(ls -d "$tmp"/[cd]/*/step-00000001/run.db | wc -l)" "at the end, one that cannot get its name is taken in the next directory"
    rm -r "$tmp/c" "$tmp/d"
fi
mkdir "$tmp/full"
if mount -t tmpfs -o size=96k none "$tmp/full" 2>"$tmp/null"; then
    works "a full directory" pretrain --resume "$tmp/run" --steps 6 --schedule-steps 6 --snapshot-dir "$tmp/full" --snapshot-dir "$tmp/b"
    result "$(grep -qE "No space left|the disk is full" "$tmp/err"; echo $?)" "is a notice"
    same "4 5 6" "$(of "$tmp/run" step)" "and the next one has it"
    result "$(find "$tmp/full" -name 'step*' | wc -l)" "nothing is left in the full one"
    mount -o remount,size=1m "$tmp/full"
    rm -rf "$tmp/wide" "$tmp/c"
    mkdir "$tmp/c"
    wide="$(echo "$shape" | sed 's/--n-embd 8 /--n-embd 128 /; s/--csd-mem 128K/--csd-mem 1M/') --steps 4 --schedule-steps 9"
    works "a directory that is full while a snapshot is copied" pretrain --run "$tmp/wide" $wide --snapshot-every 2 --snapshot-dir "$tmp/full" --snapshot-dir "$tmp/c"
    result "$(grep -qE "(No space left|the disk is full).*the next --snapshot-dir is tried" "$tmp/err"; echo $?)" "is a notice"
    result "$("$bin" snapshots "$tmp/wide" --check --json 2>"$tmp/null" | grep -A4 '"step": 4,' | grep -q '"whole": true'; echo $?)" "the next one has later ones"
    result "$(find "$tmp/full" -name 'step*' | wc -l)" "nothing is left in the full one"
    run pretrain --run "$tmp/narrow" $wide
    same "$(exported "$tmp/narrow")" "$(exported "$tmp/wide")" "and the run has the same bits"
    umount "$tmp/full"
else
    skip "a full directory" "nothing can be mounted here"
fi

# ---- one that is damaged
at=$(ls -d "$tmp"/b/run-*/step-00000004)
turn_all "$at/dev0/states"
run snapshots "$tmp/run" --check --quiet
same "1" "$got" "a byte of a snapshot is noticed by --check"
refuses 1 "damaged" export "$tmp/run" "$tmp/none" --step 4
rm "$at/tokenizer/vocab.json"
run snapshots "$tmp/run"
same "1 1" "$got $(grep -c 'not whole' "$tmp/out")" "a file that is missing without it"
refuses 2 "has no snapshot after step 4" export "$tmp/run" "$tmp/none" --step 4

# ---- killed
kept=2
begin() { # a run with two whole snapshots
    rm -rf "$tmp/run"
    run pretrain --run "$tmp/run" $shape --mode $1 --steps 2 --schedule-steps 9 --snapshot-every 1 --snapshots $kept
}
go_on() { run pretrain --resume "$tmp/run" --steps 4; }
if [ -n "$shim" ]; then
    for mode in su+o mem; do
        more_each=2
        [ $mode = su+o ] || more_each=3
        want=$(alone 4 --mode $mode)
        begin $mode
        cp -a "$tmp/run" "$tmp/begun"
        at=$((more_each - 1)) least=9 wrong='' kills=0
        while :; do
            rm -rf "$tmp/run"
            cp -a "$tmp/begun" "$tmp/run"
            (LD_PRELOAD="$shim" SHIM_AT="any:snapshots:$at:kill"; export LD_PRELOAD SHIM_AT; go_on; [ "$got" = 137 ])
            [ $? = 0 ] || break
            kills=$((kills + 1))
            whole=$("$bin" snapshots "$tmp/run" --check --json 2>"$tmp/null" | grep -c '"whole": true')
            [ "$whole" -ge $least ] || least=$whole
            go_on
            case "$(exported "$tmp/run") $(cd "$tmp"/run/snapshots/* && echo *)" in # the one under way is lost
            "$want step-00000003 step-00000004" | "$want step-00000002 step-00000004") ;;
            *) wrong="$wrong $at" ;;
            esac
            at=$((more_each * at + more_each - 1))
        done
        result "$([ $kills -gt 5 ]; echo $?)" "$mode: killed at $kills calls"
        result "$([ $least -ge $((kept - 1)) ]; echo $?)" "$mode: at least $least whole snapshots were there after each"
        same "none" "none$wrong" "$mode: each time the run went on to the same bits, with its snapshots and nothing else"
        rm -rf "$tmp/begun"
    done
else
    skip "kills" "the shim cannot be loaded here"
fi

# ---- where files share blocks
# shares KIND MKFS...: devices and snapshots on a file system of that kind, the run elsewhere
shares() {
    kind=$1
    shift
    rm -rf "$tmp/image" "$tmp/run"
    mkdir -p "$tmp/disk"
    truncate -s 400M "$tmp/image"
    if ! "$@" "$tmp/image" >"$tmp/null" 2>&1 || ! mount -o loop "$tmp/image" "$tmp/disk" 2>"$tmp/null"; then
        skip "$kind: files that share blocks" "none can be made and mounted here"
        return
    fi
    mkdir "$tmp/disk/a" "$tmp/disk/b" "$tmp/disk/snapshots"
    for mode in mem su+o; do
        case $mode in mem) at=$tmp/disk/run places= ;; *) at=$tmp/run places="--device $tmp/disk/a --device $tmp/disk/b --snapshot-dir $tmp/disk/snapshots" ;; esac
        works "$kind, $mode: a run with snapshots" pretrain --run "$at" $shape --mode $mode $places --steps 6 --schedule-steps 9 --snapshot-every 2 --snapshots 9
        same "$(alone 2 --mode $mode) $(alone 6 --mode $mode)" "$(of_step "$at" 2) $(exported "$at")" "$kind, $mode: they are the run at that step, and the run has the same bits as alone"
        run report "$at" --json
        result "$(python3 -c 'import json, sys; s = json.load(sys.stdin)["snapshots"]; sys.exit(not 0 < s["bytes"] == s["shared_bytes"])' <"$tmp/out"; echo $?)" "$kind, $mode: all of them share their blocks with the run"
        works "$kind, $mode: and are whole" snapshots "$at" --check --quiet
    done
    for _ in $(seq 600); do umount "$tmp/disk" 2>"$tmp/null" && break; sleep 0.1; done # a ring is taken down after its process
}
shares xfs mkfs.xfs -q -m reflink=1
shares btrfs mkfs.btrfs -q

# ---- a folder whose name is no UTF-8
rm -rf "$tmp/run"
odd="$tmp/$(printf 'caf\351')"
mkdir "$odd"
run pretrain --run "$tmp/run" $shape --steps 1 --snapshot-every 1 --snapshot-dir "$odd"
works "it has snapshots" snapshots "$tmp/run" --check
same "0 1" "$(of "$tmp/run" step)" "and --json lists them"

# ---- a list that leads through a link to somebody's file
rm -rf "$tmp/run"
mkdir -p "$tmp/theirs/sub"
echo hello >"$tmp/theirs/sub/file"
run pretrain --run "$tmp/run" $shape --steps 2 --snapshot-every 2
first=$(ls -d "$tmp"/run/snapshots/run-*/step-00000002)
ln -s "$tmp/theirs" "$first/link"
for key in files times; do
    python3 tests/cli/setting.py "$first" snapshot.$key "$(sqlite3 "$first/run.db" "SELECT value FROM runs WHERE key = 'snapshot.$key'")
$([ $key = files ] && echo 6 || stat -c %Y000000000 "$tmp/theirs/sub/file") link/sub/file"
done
touch -d "@$(stat -c %Y "$tmp/theirs/sub/file")" "$tmp/theirs/sub/file"
works "a run whose oldest snapshot lists somebody's file" pretrain --resume "$tmp/run" --steps 4 --snapshots 1 --quiet
same "hello" "$(cat "$tmp/theirs/sub/file")" "the file stays"

# ---- somebody's folder is mounted in a snapshot
rm -rf "$tmp/run" "$tmp/theirs"
run pretrain --run "$tmp/run" $shape --steps 2 --snapshot-every 2
first=$(ls -d "$tmp"/run/snapshots/run-*/step-00000002)
cp -a "$first/dev0" "$tmp/theirs"
if mount --bind "$tmp/theirs" "$first/dev0" 2>"$tmp/null"; then
    works "a run whose oldest snapshot has a mounted folder" pretrain --resume "$tmp/run" --steps 4 --snapshots 1 --quiet
    umount "$first/dev0"
    result "$([ -f "$tmp/theirs/states" ] && [ -f "$first/run.db" ]; echo $?)" "what is mounted stays, and the snapshot under it"
    works "it is not mounted any more" pretrain --resume "$tmp/run" --steps 5 --snapshots 1 --quiet
    same "1" "$(find "$tmp"/run/snapshots/run-*/* -maxdepth 0 | wc -l)" "all of that snapshot goes"
else
    skip "a folder mounted in a snapshot" "nothing may be mounted here"
fi

# ---- a folder of snapshots that is given by two paths, and a copy of one: they count once
rm -rf "$tmp/run" "$tmp/twice"
mkdir "$tmp/twice" "$tmp/twice/a" "$tmp/twice/b"
run pretrain --run "$tmp/run" $shape --steps 2 --snapshot-every 1 --snapshots 2 --snapshot-dir "$tmp/twice/a"
cp -a "$tmp/twice/a/." "$tmp/twice/b/"
run pretrain --resume "$tmp/run" --steps 3 --snapshot-every 2 --snapshots 3 --snapshot-dir "$tmp/twice/a" --snapshot-dir "$tmp/twice/b" --quiet
same "1 1 2 2 3" "$(of "$tmp/run" step)" "copies of snapshots count once"
run pretrain --resume "$tmp/run" --steps 4 --snapshot-every 2 --quiet
same "2 2 3 4" "$(of "$tmp/run" step)" "and go together"
if command -v bindfs >"$tmp/null" && mkdir "$tmp/seen" && bindfs "$tmp/twice/a" "$tmp/seen" 2>"$tmp/null"; then
    run pretrain --resume "$tmp/run" --steps 5 --snapshot-every 1 --snapshots 1 --snapshot-dir "$tmp/twice/a" --snapshot-dir "$tmp/seen" --quiet
    run pretrain --resume "$tmp/run" --steps 6 --quiet
    result "$([ "$got" = 0 ] && [ ! -s "$tmp/err" ] && [ "$(of "$tmp/run" step)" = "6 6" ] && [ -n "$(ls -d "$tmp"/twice/a/*/step-00000006)" ]; echo $?)" "FUSE: a folder by two paths keeps the newest snapshot"
    umount "$tmp/seen"
else
    skip "a folder by two paths" "no bindfs here"
fi

# ---- a snapshot that cannot be opened: the others are listed, and it is named
rm -rf "$tmp/run"
run pretrain --run "$tmp/run" $shape --steps 2 --snapshot-every 1
first=$(ls -d "$tmp"/run/snapshots/run-*/step-00000001)
python3 tests/cli/setting.py "$first" option.devices 0
run snapshots "$tmp/run" --check
same "1 2 1" "$got $(grep -c "  whole  " "$tmp/out") $(grep -c "step-00000001: --devices 0" "$tmp/err")" "a snapshot with a bad option is named, and the others are listed"
run check --scrub "$tmp/run"
same "1 1" "$got $(grep -c "step-00000001: --devices 0" "$tmp/err")" "check --scrub names it, too"
python3 tests/cli/setting.py "$tmp/run" option.snapshot-dir /proc/self/cwd # which older versions took
works "a path in /proc that is not typed now is no reason not to open the run" export "$tmp/run" "$tmp/of-older"

# ---- several ranks
shape="$data --n-layer 2 --n-head 1 --n-embd 64 --seq 8 --batch 1 --grad-accum 2 --csd-mem 128K --threads 1 --durability none --schedule constant --quiet"
by_ranks
ranks() { mpirun $more -n 2 "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null; }
rm -rf "$tmp"/run* "$tmp/alone"
ranks pretrain --run "$tmp/run" $shape --steps 4 --schedule-steps 9 --snapshot-every 2 --snapshots 2
result $? "ranks: a run with snapshots"
id=$(id_of "$tmp/run")
same "step-00000002 step-00000002.rank1 step-00000004 step-00000004.rank1" "$(cd "$tmp/run/snapshots/run-$id" && echo *)" "ranks: each has its portion, next to the others'"
works "ranks: all are whole" snapshots "$tmp/run" --check --quiet
ranks pretrain --run "$tmp/alone" $shape --steps 2 --schedule-steps 9
same "$(exported "$tmp/alone")" "$(of_step "$tmp/run" 2)" "ranks: step 2 is that of a run of so many steps"
mkdir "$tmp/x"
mv "$tmp/run/snapshots/run-$id/step-00000002" "$tmp/x/step-00000002"
ranks pretrain --resume "$tmp/run" --steps 5 --schedule-steps 9
result $? "ranks: the run goes on without one of them"
same "step-00000004 step-00000004.rank1 step-00000005 step-00000005.rank1" "$(cd "$tmp/run/snapshots/run-$id" && echo *)" "ranks: all keep the same ones"

# ---- a process that may open no more files

rm -rf "$tmp/few" "$tmp/few-ram"
works "a run with snapshots" pretrain --run "$tmp/few" $shape --steps 3 --snapshot-every 1 --export-every 1
works "and one in memory" pretrain --run "$tmp/few-ram" $shape --steps 2 --mode mem
why='' failed=0
for n in 4 5 6 7 8 9 10 11 12; do
    for line in "check $tmp/few" "check $tmp/few-ram" "check --scrub $tmp/few" "restore $tmp/few" "snapshots $tmp/few" "snapshots --check $tmp/few"; do
        # shellcheck disable=SC2086
        sh -c "ulimit -n $n && exec \"\$@\"" - "$bin" $line >"$tmp/out" 2>&1 </dev/null || failed=$((failed + 1))
        if grep -q -e damaged -e 'nowhere else' -e 'has no snapshots' -e 'no complete snapshot' "$tmp/out"; then why="$why; $n: $line: $(tail -n 1 "$tmp/out")"; fi
    done
done
result "$([ -z "$why" ] && [ $failed -gt 10 ]; echo $?)" "what a process cannot open for lack of descriptors is neither damaged nor lost ($failed commands) $why"
works "and it is whole" check "$tmp/few"

done_testing
