/* library.c: loads a shared library and finds its calls. */
#include "csd/engine/library.h"

#include <dlfcn.h>

int library_load(const struct library *l, const struct library_call *calls, size_t n, void *table,
                 struct err *err)
{
    void *opened = dlopen(l->file, RTLD_NOW | (l->global ? RTLD_GLOBAL : RTLD_LOCAL));

    if (!opened)
        return err_set(err, -ENOENT, "%s is not here (%s): %s", l->name, dlerror(), l->get);
    for (size_t i = 0; i < n; i++) {
        void *call = dlsym(opened, calls[i].name);

        if (!call) {
            dlclose(opened);
            return err_set(err, -ENOENT, "%s has no %s: %s", l->file, calls[i].name, l->lacking);
        }
        memcpy((char *)table + calls[i].at, &call, sizeof call);
    }
    return 0;
}
