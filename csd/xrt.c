/* xrt.c: see the header. */
#include "csd/xrt.h"

#include <dlfcn.h>

#define LIBRARY "libxrt_coreutil.so.2"

#define XRT_NAME(name) {#name, offsetof(struct xrt, name)},
static const struct { const char *name; size_t at; } calls[] = {XRT_CALLS(XRT_NAME)};
#undef XRT_NAME

const struct xrt *xrt_load(struct err *err)
{
    static struct xrt found;
    static void      *library;

    if (library)
        return &found;
    void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!opened) {
        err_set(err, -ENOENT, "libxrt is not here (%s): install it with the card's driver, or as "
                "Debian's libxrt2", dlerror());
        return NULL;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *call = dlsym(opened, calls[i].name);

        if (!call) {
            err_set(err, -ENOENT, LIBRARY " has no %s: it is older or newer than 2.13, with which "
                    "siTrain was built", calls[i].name);
            dlclose(opened);
            return NULL;
        }
        memcpy((char *)&found + calls[i].at, &call, sizeof call);
    }
    library = opened;
    // where its driver cannot be loaded the library's own log would end the process
    found.xrtIniStringSet("Runtime.runtime_log", "null");
    return &found;
}
