#!/bin/sh
# xclbin.sh PLATFORM hw|hw_emu MHZ FOLDER: the kernels beside it through Vitis into FOLDER/siTrain.xclbin: each compiled, both linked by
# connectivity.cfg. What v++ says of frequency, II and resources is in FOLDER/reports and its logs; nothing of it is judged here.
platform=$1 target=$2 mhz=$3 out=$4

die() {
    echo "$*" >&2
    exit 1
}
[ -n "$platform" ] || die "no platform: make xclbin PLATFORM=NAME, as xilinx_u2_gen3x4_xdma_gc_2_202110_1 for a SmartSSD, or the path of its .xpfm"
case $target in hw | hw_emu) ;; *) die "FOR=$target: hw (a bitstream, hours) or hw_emu (a simulation of the synthesised kernels)" ;; esac
command -v v++ >/dev/null || die "v++ is missing: it is part of Vitis (the last one for a SmartSSD is 2021.2); source its settings64.sh before"

set -e
mkdir -p "$out/reports"
for kernel in update scatter; do
    v++ --compile --target "$target" --platform "$platform" --kernel "sitrain_$kernel" -I. --hls.clock "${mhz}000000:sitrain_$kernel" \
        --save-temps --temp_dir "$out/temp" --log_dir "$out/logs" --report_dir "$out/reports" --output "$out/$kernel.xo" "csd/hls/$kernel.cpp"
done
v++ --link --target "$target" --platform "$platform" --config csd/hls/connectivity.cfg --kernel_frequency "$mhz" \
    --save-temps --temp_dir "$out/temp" --log_dir "$out/logs" --report_dir "$out/reports" --output "$out/siTrain.xclbin" "$out/update.xo" "$out/scatter.xo"
[ -f "$out/siTrain.xclbin" ] || die "v++ ended without an error and without $out/siTrain.xclbin"
if [ "$target" = hw_emu ]; then
    emconfigutil --platform "$platform" --od "$out"
    echo "$out/siTrain.xclbin is for simulation: run with XCL_EMULATION_MODE=hw_emu, in $out, where emconfig.json is"
else
    echo "$out/siTrain.xclbin: look at $out/reports for the frequency that was reached before you use it"
fi
