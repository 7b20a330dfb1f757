#!/bin/sh
# going_back.sh: --resume RUN --from STEP: a run goes back to a snapshot, with the same options or others; kills on the way; the branch
# that it leaves; and how that is undone. Prints TAP.
. tests/tap.sh
find_shim
smallest
small="$data $shape --lr 1e-2"
evals_of() { ask "$1" "SELECT step, name, printf('%!.17g', value) FROM evals ORDER BY step, name"; }
# alike RUN OTHER NAME: the same parameters, steps and evaluations
alike() {
    same "$(exported "$1") $(steps_of "$1") $(evals_of "$1")" "$(exported "$2") $(steps_of "$2") $(evals_of "$2")" "$3"
}

# images and devices: to the bits of a run that never went further; then with another lr, and back to where it was
for mode in mem "su+o+c --compress 20% --error-feedback --devices 2"; do
    name=${mode%% *}
    train="$small --mode $mode --commit-every 3 --eval-data $tmp/text.bin --eval-every 3 --snapshot-every 6 --snapshots 20"
    rm -rf "$tmp/whole" "$tmp/other" "$tmp/run"
    works "$name: a run" pretrain --run "$tmp/whole" $train --steps 18
    cp -r "$tmp/whole" "$tmp/run"
    works "$name: goes back to step 6" pretrain --resume "$tmp/run" --from 6 --quiet
    result "$(grep -q "went back to step 6, from step 18; steps 7 to 18 are branch 1 now" "$tmp/err"; echo $?)" "$name: says so"
    alike "$tmp/run" "$tmp/whole" "$name: and is the run that never went further"
    works "$name: is whole" check "$tmp/run"
    rm -rf "$tmp/run"
    cp -r "$tmp/whole" "$tmp/run"
    works "$name: with another learning rate" pretrain --resume "$tmp/run" --from 6 --lr 2e-2 --steps 15 --quiet
    result "$([ "$(steps_of "$tmp/run" | head -n 6)" = "$(steps_of "$tmp/whole" | head -n 6)" ] && [ "$(steps_of "$tmp/run")" != "$(steps_of "$tmp/whole" | head -n 15)" ]; echo $?)" \
        "$name: gives other steps from there on"
    same "1|6|18|6|lr: 0.02 instead of 0.01" "$(ask "$tmp/run" "SELECT branch, first_step, steps, to_step, options FROM branches")" "$name: a branch is left"
    same "$(steps_of "$tmp/whole" | tail -n 12)" "$(ask "$tmp/run" "SELECT step + 1, printf('%!.17g %!.17g %!.17g', loss, lr, grad_norm) FROM left_steps WHERE branch = 1 ORDER BY step")" \
        "$name: which has its steps"
    exported "$tmp/run" >"$tmp/second"
    works "$name: that is undone" pretrain --resume "$tmp/run" --from 18 --steps 18 --quiet
    alike "$tmp/run" "$tmp/whole" "$name: to the run that there was"
    same "2|6|15|18|" "$(ask "$tmp/run" "SELECT branch, first_step, steps, to_step, options FROM branches")" "$name: now the other one is left"
    works "$name: and taken up" pretrain --resume "$tmp/run" --from 15 --steps 15 --quiet
    same "$(cat "$tmp/second")" "$(exported "$tmp/run")" "$name: to its bits"
    works "$name: is whole again" check "$tmp/run"
done

# a --snapshot-dir that takes no snapshot of the present state: RUN/snapshots does
rm -rf "$tmp/odd" "$tmp/dir"
mkdir "$tmp/dir"
run pretrain --run "$tmp/odd" $small --steps 4 --snapshot-every 2 --snapshot-dir "$tmp/dir"
run pretrain --resume "$tmp/odd" --steps 5 --schedule-steps 5 --snapshot-every 0 --quiet
was=$(exported "$tmp/odd")
: >"$(echo "$tmp"/dir/odd-*)/step-00000005"
works "a directory that fails" pretrain --resume "$tmp/odd" --from 2 --steps 2 --quiet
result "$(grep -q "step-00000005 is not certainly .*: RUN/snapshots is tried" "$tmp/err"; echo $?)" "is named"
works "and the way back is undone" pretrain --resume "$tmp/odd" --from 5 --quiet
same "$was" "$(exported "$tmp/odd")" "from RUN/snapshots"

# the branch in reports
works "a report" report "$tmp/run"
result "$(grep -A2 "^Branches that were left" "$tmp/out" | grep -q "lr: 0.02 instead of 0.01\|^  *branch"; echo $?)" "has the branch that was left"
run report "$tmp/run" --json
result "$(python3 -c 'import json, sys; r = json.load(sys.stdin); assert [b["first_step"] for b in r["branches"]] == [6] and all(p["first"] >= 6 for p in r["branch_curves"])' <"$tmp/out"; echo $?)" "as JSON, too"
run report "$tmp/run" --html "$tmp/page.html"
result "$(grep -q 'class="curve left other"' "$tmp/page.html" && grep -q "left: branch" "$tmp/page.html"; echo $?)" "and as a thin line in a page"
for clip in 0.1 0.2 0.3; do
    works "branches of the same learning rates are left, $clip" pretrain --resume "$tmp/run" --from 6 --steps 15 --clip $clip --quiet
done
run report "$tmp/run" --html "$tmp/page.html"
result "$(grep -q "left: branch [0-9]*, lies on left: branch [0-9]*<" "$tmp/page.html"; echo $?)" "of equal curves the legend says so, with the other's name"

# adapters on frozen blocks, packed or not
run export "$tmp/run" "$tmp/base" --last
for mode in mem "su+o --devices 2 --base-dtype nf4"; do
    rm -rf "$tmp/tuned" "$tmp/again"
    works "adapters, $mode" pretrain --run "$tmp/tuned" $data --init "$tmp/base" --seq 8 --batch 1 --lora-rank 2 --lora-dropout 10% --lr 1e-2 --csd-mem 128K --threads 1 \
        --durability none --quiet --mode $mode --steps 6 --snapshot-every 3
    cp -r "$tmp/tuned" "$tmp/again"
    works "adapters, $mode: go back" pretrain --resume "$tmp/again" --from 3 --quiet
    alike "$tmp/again" "$tmp/tuned" "adapters, $mode: to the same bits"
    run pretrain --resume "$tmp/again" --from 3 --lora-dropout 0 --quiet
    result "$([ "$got" = 0 ] && [ "$(exported "$tmp/again")" != "$(exported "$tmp/tuned")" ]; echo $?)" "adapters, $mode: with another dropout to others"
    works "adapters, $mode: whole" check "$tmp/again"
done

# kills at calls of the way back: nothing but the same command opens the run, which then is what it would be
if [ -n "$shim" ]; then
    for mode in "su+o --disk sync" "mem --keep-best --eval-data $tmp/text.bin --eval-every 2"; do
        name=${mode%% *}
        rm -rf "$tmp/whole" "$tmp/from"
        run pretrain --run "$tmp/from" $small --mode $mode --commit-every 2 --steps 12 --snapshot-every 4 --snapshots 20
        run pretrain --resume "$tmp/from" --steps 14 --snapshot-every 0 --quiet
        plain="$(exported "$tmp/from") $(steps_of "$tmp/from")"
        cp -r "$tmp/from" "$tmp/whole"
        run pretrain --resume "$tmp/whole" --from 4 --lr 5e-3 --steps 8 --quiet
        wanted="$(exported "$tmp/whole") $(steps_of "$tmp/whole")"
        bad= n=0 half=0 refused=0 states="$(seq -f pwrite:/run/dev0/:%g 1 4 12)"
        [ $name != mem ] || states="pwrite:/run/image:1 pwrite:/run/image:2"
        # in what is written to run.db, to the states, and to anything: before, on the way and behind it
        for at in $(seq -f pwrite:/run/run.db-wal:%g 3 33 110) $states $(seq -f any:/run/:%g 1 500 1400); do
            rm -rf "$tmp/run"
            cp -r "$tmp/from" "$tmp/run"
            LD_PRELOAD="$shim" SHIM_AT="$at:kill" "$bin" pretrain --resume "$tmp/run" --from 4 --lr 5e-3 --steps 8 --quiet >"$tmp/out" 2>"$tmp/err" </dev/null
            [ $? = 137 ] && n=$((n + 1))
            if [ "$(ask "$tmp/run" "SELECT count(*) FROM runs WHERE key = 'going_back'")" = 1 ]; then
                half=$((half + 1))
                run pretrain --resume "$tmp/run" --steps 8 --quiet
                [ "$got" = 2 ] && grep -q "is on its way back to the snapshot after step 4, .* --from 4 --steps 8 --lr 0.005$" "$tmp/err" && refused=$((refused + 1))
                if [ $half = 1 ]; then # once is enough
                    run export "$tmp/run" "$tmp/none"
                    [ "$got" = 2 ] && grep -q "is on its way back" "$tmp/err" || bad="$bad export-$at"
                    run snapshots "$tmp/run"
                    [ "$got" = 0 ] && grep -q " 4 .* complete " "$tmp/out" || bad="$bad snapshots-$at"
                    # restore goes there, and says with which options the command that was killed is finished
                    rm -rf "$tmp/other"
                    cp -r "$tmp/run" "$tmp/other"
                    rm -rf "$tmp"/other/dev0 "$tmp"/other/image*
                    run restore "$tmp/other"
                    [ "$got" = 0 ] && grep -q "is whole, after step 4; go on with: siTrain pretrain --resume $tmp/other --from 4 --steps 8 --lr 0.005$" "$tmp/out" || bad="$bad restore-$at"
                    run pretrain --resume "$tmp/other" --from 4 --steps 8 --lr 0.005
                    [ "$got" = 0 ] && [ "$(exported "$tmp/other") $(steps_of "$tmp/other")" = "$wanted" ] || bad="$bad restored-$at"
                    # without that snapshot, another one will do
                    rm -rf "$tmp/other"
                    cp -r "$tmp/run" "$tmp/other"
                    rm -r "$tmp"/other/snapshots/*/step-00000004
                    run pretrain --resume "$tmp/other" --from 4 --quiet
                    [ "$got" = 2 ] && grep -q "has no snapshot after step 4.* any whole snapshot ends that" "$tmp/err" || bad="$bad gone-$at"
                    run pretrain --resume "$tmp/other" --from 8 --steps 14 --quiet
                    [ "$got" = 0 ] && [ "$(exported "$tmp/other") $(steps_of "$tmp/other")" = "$plain" ] || bad="$bad other-$at"
                    run check "$tmp/other"
                    [ "$got" = 0 ] || bad="$bad check-other-$at"
                fi
            fi
            run pretrain --resume "$tmp/run" --from 4 --lr 5e-3 --steps 8 --quiet
            [ "$got" = 0 ] && [ "$(exported "$tmp/run") $(steps_of "$tmp/run")" = "$wanted" ] || bad="$bad $at"
            run check "$tmp/run"
            [ "$got" = 0 ] || bad="$bad check-$at"
        done
        result "$([ -z "$bad" ] && [ $n -gt 6 ] && [ $half -gt 1 ] && [ $half = $refused ]; echo $?)" "$name: killed $n times, $half times half way$bad"
    done
else
    skip "kills" "no shim here"
fi

# the best model
best="$small --eval-data $tmp/text.bin --eval-every 2 --keep-best --snapshot-every 4 --snapshots 20"
works "a run that keeps its best" pretrain --run "$tmp/kept" $best --steps 4
sum=$(sha256sum <"$tmp/kept/best/model.safetensors")
works "and has a better one later" pretrain --resume "$tmp/kept" --steps 12 --schedule-steps 4 --quiet
echo mine >"$tmp/kept/best/notes"
if [ "$(id -u)" = 0 ] && mount --bind "$tmp/kept/best" "$tmp/kept/best" 2>"$tmp/null"; then
    was=$(ls -RA "$tmp/kept")
    refuses 2 "which training replaces, is mounted: unmount it first" pretrain --resume "$tmp/kept" --from 4 --lr 2e-3
    same 0 "$(ask "$tmp/kept" "SELECT count(*) FROM runs WHERE key = 'going_back'")" "before the run is on its way back"
    same "$was" "$(ls -RA "$tmp/kept")" "and before a snapshot is taken"
    umount "$tmp/kept/best"
else
    skip "a mounted best" "only root mounts it"
fi
mv "$tmp/kept/best/config.json" "$tmp/config.json"
mkdir "$tmp/kept/best/config.json"
was=$(ls -RA "$tmp/kept")
refuses 2 "is a folder with the name of a model's file: rename it" pretrain --resume "$tmp/kept" --from 0 --lr 2e-3
same "12 $was" "$(ask "$tmp/kept" "SELECT count(*) FROM steps") $(ls -RA "$tmp/kept")" "also where the snapshot has no best model: the run has not gone back"
works "if no training follows, the run may" pretrain --resume "$tmp/kept" --from 12 --quiet
rmdir "$tmp/kept/best/config.json"
mv "$tmp/config.json" "$tmp/kept/best/config.json"
run pretrain --resume "$tmp/kept" --from 4 --lr 1e-9 --steps 5 --schedule-steps 5 --eval-every 100 --quiet
step=$(ask "$tmp/kept" "SELECT value FROM runs WHERE key = 'best.step'")
result "$([ "$got" = 0 ] && [ "$step" -lt 5 ]; echo $?)" "goes back to the best model of that time"
[ "$step" = 4 ] || same "$sum" "$(sha256sum <"$tmp/kept/best/model.safetensors")" "which is in RUN/best again"
same "mine" "$(cat "$tmp/kept/best/notes")" "with somebody's file in it"
works "the run is whole" check "$tmp/kept"
# killed before a better model takes the place of the best one, it goes back to a time without one
if [ -n "$shim" ]; then
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/early" $small --eval-data "$tmp/text.bin" --eval-every 3 --keep-best --snapshot-every 2 --steps 3
    LD_PRELOAD="$shim" SHIM_AT="rename:best.old:1:kill" "$bin" pretrain --resume "$tmp/early" --steps 4 >"$tmp/out" 2>"$tmp/err" </dev/null
    copy_early() { rm -rf "$tmp/late" && cp -a "$tmp/early" "$tmp/late"; }
    is_said() { [ "$got" = 1 ] && grep -q "best/model.*Input/output error" "$tmp/err"; }
    for at in open:/late/best/model:EIO pread:/late/best/model:EIO; do
        fails_once $at copy_early is_said "a call on the best model that fails" pretrain --resume "$tmp/late" --from 2 --steps 5 --snapshot-every 0 --quiet
    done
    copy_early
    for at in early late; do # a run, and its copy
        works "killed before the exchange: $at goes back" pretrain --resume "$tmp/$at" --from 2 --steps 5 --quiet
        works "  and its best model is a new one" check "$tmp/$at"
    done
else
    skip "a kill before the exchange" "no shim here"
fi

# a fine-tuning
{ echo text,label; for i in 1 2 3 4 5 6 7 8; do echo "the sea $i,yes"; echo "a ship $i,no"; done; } >"$tmp/rows.csv"
run export "$tmp/kept" "$tmp/hf" --last
tune="--init $tmp/hf --train-file $tmp/rows.csv --eval-file $tmp/rows.csv --batch 4 --max-seq 8 --csd-mem 192K --threads 1 --steps 8 --durability none --quiet"
rm -rf "$tmp/tuned" "$tmp/again"
works "a fine-tuning" finetune --run "$tmp/tuned" $tune --snapshot-every 2 --snapshots 20
cp -r "$tmp/tuned" "$tmp/again"
works "goes back" finetune --resume "$tmp/again" --from 4 --quiet
alike "$tmp/again" "$tmp/tuned" "to the same bits"
works "with other batches and another seed" finetune --resume "$tmp/again" --from 4 --batch 2 --seed 9 --quiet
same "batch: 2 instead of 4,seed: 9 instead of 1" "$(ask "$tmp/again" "SELECT replace(options, char(10), ',') FROM branches ORDER BY branch DESC LIMIT 1")" "a branch says so"
refuses 2 "siTrain finetune --resume" pretrain --resume "$tmp/again" --from 4
refuses 2 "--dropout is " finetune --resume "$tmp/again" --from 4 --dropout 10%

# what is refused
refuses 2 "has no snapshot after step 3" pretrain --resume "$tmp/kept" --from 3 --quiet
refuses 2 "--seq is 8 in this run, and --from does not change it, either" pretrain --resume "$tmp/kept" --from 4 --seq 4
refuses 2 "or go back to a snapshot with --from STEP" pretrain --resume "$tmp/kept" --lr 1
refuses 2 "--from STEP goes back to a snapshot of a run" pretrain --run "$tmp/none" $small --from 4
branches=$(ask "$tmp/kept" "SELECT count(*) FROM branches")
refuses 2 "this run has 1 source" pretrain --resume "$tmp/kept" --from 4 --data "$tmp/text.bin" --data "$tmp/text.bin"
refuses 2 "--compress is 0 in this run" pretrain --resume "$tmp/kept" --from 4 --compress 20%
refuses 2 "--base says where a base is that is read in place" pretrain --resume "$tmp/kept" --from 4 --base "$tmp"
refuses 2 "--devices is 1 in this run" pretrain --resume "$tmp/kept" --from 4 --devices 2
same "$branches|0" "$(ask "$tmp/kept" "SELECT count(*), (SELECT count(*) FROM runs WHERE key = 'going_back') FROM branches")" "and the run has not gone back"
refuses 2 "--min-lr 1 is above --lr" pretrain --resume "$tmp/kept" --from 4 --min-lr 1
snapshot=$(ls -d "$tmp"/kept/snapshots/*/step-00000004)
turn_all "$snapshot/dev0/states"
before=$(steps_of "$tmp/kept") hash=$(exported "$tmp/kept")
run pretrain --resume "$tmp/kept" --from 4 --quiet
result "$([ "$got" = 1 ] && grep -q "/step-00000004/.*: damaged" "$tmp/err"; echo $?)" "a damaged snapshot is refused"
same "$before $hash" "$(steps_of "$tmp/kept") $(exported "$tmp/kept")" "before anything changes"
done_testing
