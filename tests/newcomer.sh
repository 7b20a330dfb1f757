#!/bin/sh
# newcomer.sh [WORD]...: `make newcomer`. The lines of README.md (set-up, a first result) and of docs/tutorial.md (a first run on one's
# own text), word by word, in Debians that have nothing but their base: as root, and as a user without sudo, for whom an administrator
# has run `make deps`. What is tested is a fresh clone of this checkout's HEAD. Prints TAP.
# Words choose: bookworm, trixie; root, user; demo, check, first (the first result, then the first run on one's own text, whose
# trainings are stopped by Ctrl-C), build (set-up alone), deb (make deb; its package in a system of its own, as root). All of a kind
# where none of it is named.
# The base systems (debootstrap) and the packages that were fetched stay in $NEWCOMER_DIR for the next time. All mounts are in a namespace
# of this script's own: nothing is left mounted however it ends.
set -u
cd "$(dirname "$0")/.." || exit 1
dir=${NEWCOMER_DIR:-build/newcomer}
ctrl_c=${NEWCOMER_SECONDS:-60} # how long a training goes on before Ctrl-C

case $0 in /*) self=$0 ;; *) self=tests/newcomer.sh ;; esac
if [ -z "${NEWCOMER_INSIDE:-}" ]; then
    why=
    [ "$(id -u)" = 0 ] || why="it makes whole systems, for which it must be root"
    command -v debootstrap >/dev/null || why="debootstrap is missing: apt-get install debootstrap"
    [ -n "$why" ] || unshare --mount --pid --fork true 2>/dev/null || why="here root may not make namespaces"
    [ -z "$why" ] || { printf 'ok 1 - newcomers # SKIP %s\n1..1\n' "$why"; exit 0; }
    NEWCOMER_INSIDE=1 exec unshare --mount --pid --fork --kill-child sh "$self" "$@"
fi

. tests/tap.sh

chosen() { # WORDS OF A KIND: those that were named, or all
    some=
    for w in $1; do
        case " $words " in *" $w "*) some="$some $w" ;; esac
    done
    echo "${some:-$1}"
}

# The mirror that this machine installs from.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$' || echo http://deb.debian.org/debian
}

# lines FILE HEADING: the commands of the sh blocks below this heading, one a line.
lines() {
    awk -v heading="$2" '
        /^## / { current = substr($0, 4) }
        /^```/ { inside = $0 == "```sh"; next }
        inside && current == heading { if (sub(/\\$/, "")) { printf "%s", $0 } else print }' "$1"
}

# in_base: $root becomes a copy of the release's base system, ready to be worked in, with the clone's source in it.
in_base() {
    umount -R -l "$root" 2>/dev/null # lazily: the kernel may still be ending what a program asked of it
    rm -rf --one-file-system "$root"
    cp -a "$dir/$release" "$root" && cp "$tmp/siTrain.bundle" "$root/" && cp /etc/resolv.conf "$root/etc/" &&
        mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" &&
        mount --bind "$dir/packages-$release" "$root/var/cache/apt/archives"
}

# base: the release's base system, made where it is not there yet; its lists of packages are gone, as in an image of a container.
base() {
    mkdir -p "$dir/packages-$release"
    [ -d "$dir/$release" ] && return
    rm -rf "$dir/$release.new"
    debootstrap --variant=minbase "$release" "$dir/$release.new" "$(mirror)" >"$tmp/out" 2>&1 &&
        rm -rf "$dir/$release.new/var/lib/apt/lists" "$dir/$release.new"/var/cache/apt/archives/*.deb &&
        mv "$dir/$release.new" "$dir/$release"
}

# as WHO NAME LINE: what this user types, in the clone if there is one. It is shown as it runs in $dir/log.
as() {
    began=$(date +%s)
    chroot "$root" su - "$1" -c "if [ -d siTrain ]; then cd siTrain; fi; $3" </dev/null >"$tmp/out" 2>&1
    as_rc=$?
    { echo "== $release: $1: $3"; cat "$tmp/out"; } >>"$dir/log"
    result $as_rc "$release, $who: $2 ($(($(date +%s) - began)) s)"
    return $as_rc
}

newcomer() { # WHO: a system for them, with a clone and with packages where they cannot install any
    who=$1
    in_base >"$tmp/out" 2>&1 || { result 1 "$release, $who: a base system"; return 1; }
    lines README.md Set-up | grep apt-get >"$tmp/first"
    as root "$(cat "$tmp/first")" "$(cat "$tmp/first")" || return 1
    as root "git clone" "git clone -q /siTrain.bundle siTrain" || return 1
    [ "$who" = root ] && return
    as root "make deps, by an administrator" "make deps" || return 1
    chroot "$root" useradd --create-home --shell /bin/bash "$who" || return 1
    as "$who" "git clone" "git clone -q /siTrain.bundle siTrain"
}

first_run() {
    as "$who" "my.txt" "cat docs/*.md docs/*/*.md */*.[ch] >my.txt" || return
    { lines README.md 'A first result'; lines docs/tutorial.md 'A first run on your own text'; } >"$tmp/lines"
    while read -r line; do
        case $line in # Ctrl-C: the step ends, what is done is committed, 130
        "./siTrain pretrain"*) as "$who" "${line%%  *} ... Ctrl-C" "timeout -s INT --preserve-status $ctrl_c $line
            case \$? in 0 | 130) ;; *) false ;; esac" ;;
        *) as "$who" "${line%%  *}" "$line" ;;
        esac || return
    done <"$tmp/lines"
}

# The package on a system that has never seen the sources: installed, used, removed; nothing of it stays.
package() {
    as root "make deb" "make deb" && mv "$root"/root/siTrain/build/sitrain_*.deb "$tmp/" && in_base >"$tmp/out" 2>&1 &&
        rm "$root/siTrain.bundle" && mv "$tmp"/sitrain_*.deb "$root/root/" || return
    as root "apt-get install ./sitrain_*.deb on a clean system" "apt-get -q update && apt-get -qy install --no-install-recommends ./sitrain_*.deb" || return
    as root "siTrain --version" "siTrain --version"
    as root "completions and manual page lie where they are looked for" "cd /usr/share && ls bash-completion/completions/siTrain \
        zsh/vendor-completions/_siTrain fish/vendor_completions.d/siTrain.fish man/man1/siTrain.1.gz doc/sitrain/copyright"
    as root "a small pretraining" "seq 2000 | sed 's/.*/& sailors of & ships/' >my.txt && siTrain prepare my.txt --train-tokenizer --vocab 300 --out tok &&
        siTrain pretrain --data my.txt --tokenizer tok --n-layer 2 --n-head 2 --n-embd 32 --seq 32 --batch 2 --steps 3 --mode su+o --devices 2 --run run &&
        siTrain report run && rm -r run tok my.txt"
    as root "removed, nothing of it is left" "apt-get -qy purge sitrain && rm sitrain_*.deb && ! find / -xdev -iname '*sitrain*' | grep ."
}

parts() {
    for part in $(chosen "demo check first build deb"); do
        case $part in
        first | build | deb)
            line=$(lines README.md Set-up | grep -v apt-get)
            as "$who" "set-up" "${line:-false README.md has no line of set-up}" || return ;;
        esac
        case $part in
        first) first_run ;;
        deb) [ "$who" != root ] || package ;;
        demo | check) as "$who" "make $part" "$(grep -q "\`make $part\`" README.md || echo false README.md has no) make $part" ;;
        esac
    done
}

words=$*
for w in $words; do
    case " bookworm trixie root user demo check first build deb " in
    *" $w "*) ;;
    *) echo "$w is none of bookworm, trixie, root, user, demo, check, first, build, deb" >&2; exit 2 ;;
    esac
done
mkdir -p "$dir" && dir=$(cd "$dir" && pwd) && root=$dir/system || exit 1
: >"$dir/log"
[ -z "$(git status --porcelain)" ] || echo "# changes that are not committed are not in it"
git bundle create -q "$tmp/siTrain.bundle" HEAD || exit 1
for release in $(chosen "bookworm trixie"); do
    base || { result 1 "$release: debootstrap"; continue; }
    for who in $(chosen "root user"); do
        newcomer "$who" && parts
    done
done
umount -R -l "$root"
rm -rf --one-file-system "$root"
done_testing
