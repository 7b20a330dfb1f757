#!/bin/sh
# venv.sh DIR PACKAGE...: a Python environment in DIR with those packages (from PyPI), made where it is not there, left alone where it is complete.
set -eu
dir=$1
shift
if [ ! -x "$dir/bin/python" ]; then
    sh "$(dirname "$0")/../apt.sh" python3 python3-venv
    echo "making $dir: $*"
    python3 -m venv "$dir"
fi
"$dir/bin/pip" install -q --disable-pip-version-check "$@"
