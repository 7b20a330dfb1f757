#!/bin/sh
# layers.sh: a folder includes only what stands to its right: cmd -> model -> offload -> csd -> kernels, all of them data; kernels and
# data include nothing else of ours. TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
fail=0
allowed() {
    case $1 in
    cmd) echo 'cmd|model|offload|csd|kernels|data' ;;
    model) echo 'model|offload|csd|kernels|data' ;;
    offload) echo 'offload|csd|kernels|data' ;;
    csd) echo 'csd|kernels|data' ;;
    kernels) echo 'kernels' ;;
    data) echo 'data' ;;
    esac
}
for d in cmd model offload csd kernels data; do
    bad=$(grep -nE '^#include "' "$d"/*.c "$d"/*.h 2>/dev/null | grep -vE "#include \"($(allowed $d))/")
    if [ -n "$bad" ]; then
        echo "not ok - $d includes only what it may"
        printf '%s\n' "$bad" | sed 's/^/# /'
        fail=1
    else
        echo "ok - $d includes only what it may"
    fi
done
exit $fail
