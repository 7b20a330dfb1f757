#!/bin/sh
# layers.sh: the rooms and their law (docs/design.md): a room includes only itself and rooms below it,
# units include each other in no circle, and sqlite3.h is known to one room. TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
fail=0

# room: what it may include beside itself
law='
cmd            cmd/bench cmd/report cmd/say cmd/run cmd/opt model offload csd kernels data
cmd/bench      cmd/say cmd/run cmd/opt model offload csd kernels data
cmd/report     cmd/say cmd/run cmd/opt model offload csd kernels data
cmd/say        cmd/run cmd/opt model offload csd kernels data
cmd/run        cmd/opt model offload csd kernels data
cmd/opt        data/base
model          offload csd kernels data
offload        csd kernels data
csd            kernels data/base
kernels        data/base
data/task      data/db data/text data/base
data/text      data/base
data/tensors   data/base
data/db        data/base
data/base
'

# report NAME OFFENDERS: ok where there are none
report() {
    if [ -n "$2" ]; then
        echo "not ok - $1"
        printf '%s\n' "$2" | sed 's/^/# /'
        fail=1
    else
        echo "ok - $1"
    fi
}

# FILE INCLUDED, a line each, of all includes of ours
includes=$(find cmd model offload csd kernels data -name '*.[ch]' | sort | xargs grep -o '^#include "[^"]*"' |
    sed 's/:#include "/ /; s/"$//')

for room in $(printf '%s\n' "$law" | awk 'NF { print $1 }'); do
    below=$(printf '%s\n' "$law" | awk -v r="$room" '$1 == r { $1 = ""; print }')
    report "$room includes only what is below it" "$(printf '%s\n' "$includes" | awk -v r="$room" -v below="$below" '
        function room_of(f) { sub(/\/[^\/]*$/, "", f); return f }
        BEGIN { n = split(below, b, " ") }
        room_of($1) == r {
            ok = room_of($2) == r
            for (i = 1; i <= n; i++)
                ok = ok || room_of($2) == b[i] || index(room_of($2), b[i] "/") == 1 && b[i] != "cmd"
            if (!ok) print
        }')"
done
report "every room stands in the law" "$(find cmd model offload csd kernels data -name '*.c' | sed 's|/[^/]*$||' | sort -u |
    while read -r room; do printf '%s\n' "$law" | grep -q "^$room\( \|\$\)" || echo "$room"; done)"
report "sqlite3.h is known to data/db alone" "$(grep -l '^#include <sqlite3.h>' -r cmd model offload csd kernels data |
    grep -v '^data/db/')"

# A unit is NAME.c with NAME.h. A header without a .c is private to the unit that its name begins with.
# tsort says where a circle is.
circles=$(printf '%s\n' "$includes" | awk '
    function unit(f, n) {
        sub(/\.[ch]$/, "", f)
        for (n = f; (getline line < (n ".c")) < 0 && n ~ /_[^_\/]*$/; )
            sub(/_[^_\/]*$/, "", n)
        close(n ".c")
        return (getline line < (n ".c")) < 0 ? f : n
    }
    { a = unit($1); b = unit($2); if (a != b) print a, b }' | tsort 2>&1 >/dev/null | grep -v 'contains a loop')
report "no circle of units" "$circles"
exit $fail
