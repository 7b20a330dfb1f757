#!/bin/sh
# make xclbin, with a v++ that writes down how it was called: both kernels are compiled by the names that they have, and linked by a file
# that names every pointer argument of theirs once. Without Vitis it says what is missing. Prints TAP.
. tests/tap.sh

xclbin() { # what make xclbin runs
    PATH="$path" sh csd/hls/xclbin.sh "$@" >"$tmp/out" 2>"$tmp/err"
}
mkdir "$tmp/tools" "$tmp/bare"
for tool in sh mkdir; do ln -s "$(command -v $tool)" "$tmp/bare/$tool"; done
cat >"$tmp/tools/v++" <<END
#!/bin/sh
echo "\$*" >>"$tmp/calls"
while [ \$# -gt 1 ]; do
    [ "\$1" = --output ] && [ -z "\$LAZY" ] && : >"\$2"
    shift
done
END
printf '#!/bin/sh\n' >"$tmp/tools/emconfigutil"
chmod +x "$tmp/tools"/*

path=$tmp/bare
xclbin card hw 200 "$tmp/x"
result $([ $? = 1 ] && grep -q "^v++ is missing" "$tmp/err" && [ ! -e "$tmp/x" ]; echo $?) "without Vitis one sentence, and nothing is made"
path=$tmp/tools:$PATH
xclbin "" hw 200 "$tmp/x"
result $([ $? = 1 ] && grep -q "^no platform" "$tmp/err"; echo $?) "without a platform too"
xclbin card sw 200 "$tmp/x"
result $([ $? = 1 ] && grep -q "hw_emu" "$tmp/err"; echo $?) "and for what is no target"
LAZY=1 xclbin card hw 200 "$tmp/x"
result $([ $? = 1 ]; echo $?) "a link that makes nothing is a failure"

for kernel in update scatter; do
    : >"$tmp/calls"
    xclbin card hw_emu 200 "$tmp/x" && grep -q "^--compile .*--kernel sitrain_$kernel .*csd/hls/$kernel.cpp" "$tmp/calls" &&
        grep -q "^--link .*connectivity.cfg .*$kernel.xo" "$tmp/calls" && grep -q "^extern \"C\" void sitrain_$kernel(" csd/hls/$kernel.cpp
    result $? "sitrain_$kernel is compiled and linked"
    # every *NAME of the kernel's arguments, against the names in the .cfg
    tr '\n' ' ' <csd/hls/$kernel.cpp | grep -o "void sitrain_$kernel([^)]*)" | grep -o '\*[a-z_]*' | tr -d '*' | sort >"$tmp/has"
    sed -n "s/^sp=sitrain_${kernel}_1\.\([a-z_]*\):bank0$/\1/p" csd/hls/connectivity.cfg |
        sort >"$tmp/named"
    result $([ -s "$tmp/has" ] && cmp -s "$tmp/has" "$tmp/named"; echo $?) "connectivity.cfg names each of its arguments once"
done
done_testing
