#!/bin/sh
# apt.sh PACKAGE...: install those Debian packages that are missing, with sudo where we are not root. Says what it does and how far it
# is, a line every 20%; what apt itself says is shown only where it failed. Fails with one sentence where it cannot.
set -eu
missing=
for p in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
root=
[ "$(id -u)" = 0 ] || root=sudo
if ! command -v apt-get >/dev/null || { [ -n "$root" ] && ! command -v sudo >/dev/null; }; then
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

echo "installing:$missing"
# shellcheck disable=SC2086
if ! { apt update && apt install -y --no-install-recommends $missing; }; then
    cat "$log" >&2
    echo "these packages could not be installed:$missing" >&2
    exit 1
fi
