/* xrt.h: libxrt, the vendor's runtime for accelerator cards: those of its calls that engine_xrt.c
 * makes, found when a card is first asked for. A program that never asks for one never loads it,
 * and runs where it is not installed.
 *
 * They are not for several threads at once, but for those of one run each (xrtRun..). */
#pragma once

#include "data/base/err.h"

#include <experimental/xrt_ini.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#define XRT_CALLS(CALL)                                                                            \
    CALL(xrtIniStringSet) CALL(xrtDeviceOpenByBDF) CALL(xrtDeviceClose)                            \
    CALL(xrtDeviceLoadXclbinFile) CALL(xrtDeviceGetXclbinUUID) CALL(xrtPLKernelOpenExclusive)      \
    CALL(xrtKernelClose) CALL(xrtKernelArgGroupId) CALL(xrtBOAlloc) CALL(xrtBOFree)                \
    CALL(xrtBOMap) CALL(xrtBOSync) CALL(xrtRunOpen) CALL(xrtRunClose) CALL(xrtRunSetArg)           \
    CALL(xrtRunStart) CALL(xrtRunWait) CALL(xrtRunWaitFor)

#define XRT_POINTER(name) __typeof__(&name) name;
struct xrt { XRT_CALLS(XRT_POINTER) };
#undef XRT_POINTER

/* The library, loaded once; NULL and a sentence where it is not here or lacks a call. */
const struct xrt *xrt_load(struct err *err);
