#!/bin/sh
# victims.sh: what somebody has, of each kind, at each place that a command writes to by a name that it was given or that it makes
# itself: GGUF files, adapters, folders of snapshots and their parts, models of --export-every, devices that restore makes, RUN/best.
# The bytes of each victim are as before, whatever the command says. tests/cli/owners.sh does this for new runs, outputs.sh for
# other outputs, and owners.txt has the table. Prints TAP.
set -u
. tests/tap.sh
smallest
train="$data $shape --lr 1e-2 --mode su+o"
# shellcheck disable=SC2086
{
    works "a run" pretrain --run "$tmp/run" $train --steps 2 --keep-best --eval-data "$tmp/text.bin" --eval-every 1 --devices 2 --snapshot-every 2
    works "a model" export "$tmp/run" "$tmp/hf"
    works "another model" export "$tmp/run" "$tmp/other" --last --dtype bf16
    works "adapters" pretrain --run "$tmp/lora" --init "$tmp/hf" --data "$tmp/text.bin" --lora-rank 2 --seq 8 --batch 1 --steps 1 --threads 1 --csd-mem 128K --quiet
    "$bin" pretrain --run "$tmp/live" $train --steps 1000000 >/dev/null 2>&1 &
}
live=$!
mounts=
trap 'for m in $mounts; do umount -l "$m"; done 2>/dev/null; kill -KILL $live 2>/dev/null; rm -rf "$tmp"' EXIT
mkdir "$tmp/base"
cp -a "$tmp/run" "$tmp/base/run"
# far: a run whose devices lie elsewhere
far() {
    rm -rf "$tmp/run/"* "$tmp/a" "$tmp/b"
    mkdir "$tmp/a" "$tmp/b"
    # shellcheck disable=SC2086
    run pretrain --run "$tmp/run" $train --steps 2 --device "$tmp/a" --device "$tmp/b" --snapshot-every 2
    id=$(ask "$tmp/run" "SELECT value FROM runs WHERE key = 'id'")
}

# again WRITER: the run as it was, in the same folder
again() {
    for m in $mounts; do umount -l "$m"; done
    mounts=
    rm -rf "$tmp/at" "$tmp/aside" "$tmp/snapshots"
    case $1 in
    given | drive-folder) far ;;
    *)
        rm -rf "$tmp/run/"* "$tmp/board"
        cp -a "$tmp/base/run/." "$tmp/run/"
        id=$(ask "$tmp/run" "SELECT value FROM runs WHERE key = 'id'")
        ;;
    esac
    mkdir "$tmp/aside"
    echo mine >"$tmp/aside/photo"
}

# picture PATH...: all that is there. A folder's own size and links say only how much it holds.
picture() { { find -H "$@" -type d -printf '%p %m\n' -o -printf '%p %y %m %n %s %l\n' && find -H "$@" -type f -exec sha256sum {} +; } 2>/dev/null | sort; }

# put PLACE PATH: it is there
put() {
    mkdir -p "${2%/*}"
    case $1 in
    file) echo mine >"$2" ;;
    empty) : >"$2" ;;
    link-file) ln -s "$tmp/aside/photo" "$2" ;;
    link-folder) ln -s "$tmp/aside" "$2" ;;
    link-nowhere) ln -s "$tmp/aside/nowhere" "$2" ;;
    second) ln "$tmp/aside/photo" "$2" ;;
    pipe) mkfifo "$2" ;;
    folder) mkdir "$2" && echo mine >"$2/photo" && mkdir "$2/step-00000001" && echo mine >"$2/step-00000001/run.db" ;;
    model) cp -r "$tmp/other" "$2" ;;
    run) cp -r "$tmp/base/run" "$2" ;;
    device) cp "$tmp/base/run/dev0/states" "$2" ;;
    mounted) mkdir "$2" && mount --bind "$tmp/aside" "$2" 2>/dev/null && mounts=$2 ;;
    mounted-file) echo mine >"$2" && mount --bind "$tmp/aside/photo" "$2" 2>/dev/null && mounts=$2 ;;
    esac
}
places="file empty link-file link-folder link-nowhere second pipe folder model run device mounted mounted-file"
[ "$(id -u)" = 0 ] || places=${places% mounted mounted-file}

# What writes: writer NAME, which sets $victim to the place, and the command in $@ of `write`.
more="--resume $tmp/run --steps 4 --quiet"
where() {
    case $1 in
    gguf) victim=$tmp/at/x.gguf ;;
    held | export | adapter) victim=$tmp/at/x ;;
    snapshot-dir) victim=$tmp/snapshots ;;
    its-folder) victim=$tmp/snapshots/run-$id ;;
    its-step) victim=$tmp/snapshots/run-$id/step-00000003 ;;
    drive-folder) victim=$tmp/b/run-$id ;;
    own-snapshots) victim=$tmp/run/snapshots ;;
    checkpoint) victim=$tmp/run/checkpoint-3 ;;
    lost) victim=$tmp/run/dev1/states ;;
    given) victim=$(ls "$tmp"/b/sitrain-*) ;;
    best | from) victim=$tmp/run/best ;;
    tensorboard) victim=$tmp/board ;;
    spare) victim=$tmp/at/spare ;;
    esac
}
# before NAME: what goes before the victim comes
before() {
    case $1 in
    lost) rm "$victim" ;;
    given) rm "$victim" && victim=$tmp/at/new && mkdir -p "$tmp/at" ;;
    own-snapshots) rm -rf "$victim" ;;
    best | from) rm -rf "$victim" ;;
    tensorboard) rm -rf "$victim" ;;
    esac
}
write() {
    # shellcheck disable=SC2086
    case $1 in
    gguf) timed export "$tmp/run" "$victim" ;;
    held) timed prepare "$tmp/text.txt" --tokenizer "$tmp/tok" --out "$tmp/at/out.bin" --eval-out "$victim" --eval-split 10% ;;
    export) timed export "$tmp/run" "$victim" ;;
    adapter) timed export "$tmp/lora" "$victim" --adapter ;;
    snapshot-dir | its-folder | its-step) timed pretrain $more --snapshot-every 1 --snapshots 1 --snapshot-dir "$tmp/snapshots" ;;
    drive-folder) timed pretrain $more --snapshot-every 1 --snapshots 1 --snapshot-on devices ;;
    own-snapshots) timed pretrain $more --snapshot-every 1 --snapshots 1 ;;
    checkpoint) timed pretrain $more --export-every 1 --export-limit 1 ;;
    lost) timed restore "$tmp/run" ;;
    given) timed restore "$tmp/run" --device "1=$victim" ;;
    best) timed pretrain $more --eval-every 1 --keep-best ;;
    from) timed pretrain $more --from 0 ;;
    tensorboard) timed pretrain $more --tensorboard "$victim" ;;
    spare) timed reshard "$tmp/run" --device "$victim" --quiet ;;
    esac
}
timed() {
    timeout -s KILL 60 "$bin" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
}
# goes WRITER PLACE: 0, or 1 or 2 and a sentence; nothing of the victim's has changed, whatever was added to it
for writer in gguf held export adapter snapshot-dir its-folder its-step drive-folder own-snapshots checkpoint lost given best from tensorboard spare; do
    for place in $places; do
        again $writer
        where $writer
        before $writer
        put "$place" "$victim"
        was=$(picture "$victim" "$tmp/aside")
        write $writer
        printf '%s\n' "$was" >"$tmp/was"
        picture "$victim" "$tmp/aside" >"$tmp/now"
        why=
        case $got in
        0) ;;
        1 | 2) grep -q '^siTrain.*: ' "$tmp/err" || why="no sentence" ;;
        *) why="ended with $got" ;;
        esac
        gone=$(grep -vxFf "$tmp/now" "$tmp/was")
        # an empty file may become the file that was asked for
        [ "$place$got" = empty0 ] && [ -s "$victim" ] && gone=
        # restore moves what is no device's file to another name next to it
        for cut in "$victim".cut-*; do
            [ $writer$got = lost0 ] && [ "$(picture "$cut" "$tmp/aside" | sed "s,$cut,$victim,")" = "$was" ] && gone=
        done
        [ -z "$gone" ] || why="$why; something is another: $gone"
        [ ! -e "$tmp/aside/nowhere" ] || why="$why; it went through a link to nothing"
        echo "# $writer $place: $got $(tail -n 1 "$tmp/err" | cut -c 1-200)"
        result "$([ -z "$why" ]; echo $?)" "$writer where there is $place $why"
    done
done
again end
kill -INT $live && wait $live
result "$([ $? = 130 ]; echo $?)" "the live run was stopped"
done_testing
