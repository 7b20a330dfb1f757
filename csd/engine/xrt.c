/* xrt.c: loads libxrt and finds its calls. */
#include "csd/engine/xrt.h"

#include "csd/engine/library.h"

#define XRT_NAME(name) {#name, offsetof(struct xrt, name)},
static const struct library_call calls[] = {XRT_CALLS(XRT_NAME)};
#undef XRT_NAME

const struct xrt *xrt_load(struct err *err)
{
    static const struct library library = {
        .file = "libxrt_coreutil.so.2", .name = "libxrt", .global = 1,
        .get = "install it with the card's driver, or as Debian's libxrt2",
        .lacking = "it is older or newer than 2.13, with which siTrain was built",
    };
    static struct xrt found;
    static int        loaded;

    if (loaded)
        return &found;
    if (library_load(&library, calls, sizeof calls / sizeof *calls, &found, err))
        return NULL;
    loaded = 1;
    // otherwise, if its driver cannot be loaded, the library's own log would end the process
    found.xrtIniStringSet("Runtime.runtime_log", "null");
    return &found;
}
