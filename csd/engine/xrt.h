/* xrt.h: libxrt, the vendor's runtime for accelerator cards: the calls that engine_xrt.c makes,
 * loaded when a card is first asked for (library.h). Only one thread at a time may make these
 * calls, except that each run (xrtRun..) may have a thread of its own. */
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

/* The library, loaded once. NULL and a sentence if it or one of these calls is missing. */
const struct xrt *xrt_load(struct err *err);
