#!/bin/sh
# Several processes that want the same run, at once: the short form of tests/prove/races.py. Prints TAP.
bin=${SITRAIN:-./siTrain}
shim=$(dirname "${SITRAIN_OPENBLAS:-build/tests/siTrain-openblas}")/delay.so
ldd "$bin" | grep -q libasan && shim=/none # a sanitizer is to load first
SITRAIN_SHIM=$shim exec python3 tests/prove/races.py --short
