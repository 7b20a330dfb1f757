#!/bin/sh
# restore.sh: siTrain restore: a device of a run is lost, and is made again from a snapshot; --resume then gives the bits of a run that
# has lost nothing. Prints TAP.
. tests/tap.sh
find_shim
smallest
small="$data $shape --lr 1e-2"
# goes_on NAME: the run in $tmp/run goes on after step 4 to what $whole says
goes_on() {
    same "4" "$(steps_of "$tmp/run" | wc -l)" "$1: is after step 4"
    works "$1: goes on" pretrain --resume "$tmp/run" --steps 9 --quiet
    same "$whole" "$(exported "$tmp/run") $(steps_of "$tmp/run")" "$1: to the same bits"
    works "$1: is whole" check "$tmp/run"
}
# lose FILE...: a run of which these are gone
lose() {
    rm -rf "$tmp/run" "$tmp/a" "$tmp/b" "$tmp/c"
    mkdir "$tmp/a" "$tmp/b" "$tmp/c"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/run" $train --steps 4 --snapshot-every 4
    run pretrain --resume "$tmp/run" --steps 7 --snapshot-every 0 --quiet
    rm -r "$@"
}

train="$small --mode su+o --compress 20% --error-feedback --device $tmp/a --device $tmp/b"
mkdir "$tmp/a" "$tmp/b"
run pretrain --run "$tmp/whole" $train --steps 9
whole="$(exported "$tmp/whole") $(steps_of "$tmp/whole")"
lose "$tmp/b" && mkdir "$tmp/b"
refuses 1 "siTrain restore $tmp/run makes it again and goes back to the newest snapshot" pretrain --resume "$tmp/run" --quiet
works "a lost file" restore "$tmp/run"
goes_on "a lost file"
refuses 2 "no device of $tmp/run is gone" restore "$tmp/run"

lose "$tmp/b"
refuses 2 "the folder $tmp/b of device 1 is not there: mount its drive, or make the folder, or name another place with --device 1=PATH" restore "$tmp/run"
refuses 2 "device 0 of $tmp/run is there" restore "$tmp/run" --device "0=$tmp/c"
refuses 2 "expected I=PATH" restore "$tmp/run" --device "2=$tmp/c"
works "another place" restore "$tmp/run" --device "1=$tmp/c"
result "$(ls "$tmp/c"/sitrain-*-dev1 >"$tmp/null"; echo $?)" "is where it lies"
goes_on "another place"

if [ -n "$shim" ]; then
    bad= n=0
    for at in $(seq -f pwrite:/run/run.db-wal:%g 2 6 60) pwrite:/c/:1 rename:/c/:1; do
        lose "$tmp/b"
        LD_PRELOAD="$shim" SHIM_AT="$at:kill" "$bin" restore "$tmp/run" --device "1=$tmp/c" >"$tmp/out" 2>"$tmp/err" </dev/null
        [ $? = 137 ] && n=$((n + 1))
        [ "$(steps_of "$tmp/run" | wc -l)" = 4 ] || run restore "$tmp/run" --device "1=$tmp/c"
        [ "$got" = 0 ] || bad="$bad same-$at"
        run pretrain --resume "$tmp/run" --steps 9 --quiet
        [ "$got" = 0 ] && [ "$(exported "$tmp/run") $(steps_of "$tmp/run")" = "$whole" ] || bad="$bad $at"
    done
    result "$([ -z "$bad" ] && [ $n -gt 5 ]; echo $?)" "killed $n times, the same command finishes$bad"
else
    skip "kills" "no shim here"
fi

# devices in RUN, and images
for train in "$small --mode base --devices 2" "$small --mode mem --commit-every 2"; do
    rm -rf "$tmp/whole"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/whole" $train --steps 9
    whole="$(exported "$tmp/whole") $(steps_of "$tmp/whole")"
    name=${train#*--mode }
    name=${name%% *}
    lose "$tmp/a" # which it does not use
    rm -r "$tmp"/run/image* "$tmp/run/dev1" 2>"$tmp/null"
    works "$name, in RUN" restore "$tmp/run"
    goes_on "$name, in RUN"
done

# without a snapshot there is nothing to restore from
train="$small --mode su+o"
rm -rf "$tmp/run"
run pretrain --run "$tmp/run" $train --steps 2
rm -r "$tmp/run/dev0"
refuses 1 "has no complete snapshot" restore "$tmp/run"
result "$([ ! -e "$tmp/run/dev0" ]; echo $?)" "and nothing is made"
done_testing
