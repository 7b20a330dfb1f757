#!/bin/sh
# apt.sh [optional:]PACKAGE...: install those Debian packages that are missing, with sudo where we are not root; an optional one only
# where apt has it. Says what it does and how far it is, a line every 20%; what apt itself says is shown only where it failed. Fails with
# one sentence where it cannot.
set -eu
missing= optional=
for p in "$@"; do
    name=${p#optional:}
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] && continue
    case $p in optional:*) optional="$optional $name" ;; *) missing="$missing $name" ;; esac
done
[ -z "$missing$optional" ] && exit 0
root=
[ "$(id -u)" = 0 ] || root=sudo
if ! command -v apt-get >/dev/null || { [ -n "$root" ] && ! command -v sudo >/dev/null; }; then
    [ -z "$missing" ] && exit 0
    echo "these packages are missing and cannot be installed from here:$missing" >&2
    exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# apt ARGUMENTS...: its lines of progress (APT::Status-Fd) become ours, all others go to the log.
apt() {
    { $root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o APT::Status-Fd=1 "$@" 2>&1 || echo "apt-get $1 failed"; } |
        awk -F: -v log_file="$log" '
            /^dlstatus:/ || /^pmstatus:/ {
                what = $1 == "dlstatus" ? "fetching" : "installing";
                if (what != last || $3 >= due) {
                    printf "  %s %d%%\n", what, $3; fflush(); last = what; due = $3 - $3 % 20 + 20;
                }
                next;
            }
            { print > log_file; if ($0 ~ /^apt-get [a-z]+ failed$/) failed = 1 }
            END { exit failed }'
}

failed() {
    cat "$log" >&2
    echo "these packages could not be installed:$missing" >&2
    exit 1
}

if [ -n "$missing" ]; then
    echo "installing:$missing"
    apt update || failed
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $missing || failed
fi
for p in $optional; do
    apt-cache show "$p" >/dev/null 2>&1 || continue
    echo "installing: $p"
    apt install -y --no-install-recommends "$p" || echo "$p could not be installed; it is not needed"
done
