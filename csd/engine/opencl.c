/* opencl.c: loads the OpenCL library and finds its n-th accelerator. */
#include "csd/engine/opencl.h"

#include "csd/engine/library.h"

#define OPENCL_ROW(name) {#name, offsetof(struct opencl, name)},
static const struct library_call calls[] = {OPENCL_CALLS(OPENCL_ROW)};
#undef OPENCL_ROW

const struct opencl *opencl_load(struct err *err)
{
    static const struct library library = {
        .file = "libOpenCL.so.1", .name = "OpenCL",
        .get = "install it with the accelerator's driver, or as Debian's ocl-icd-libopencl1",
        .lacking = "it is older than OpenCL 1.2",
    };
    static struct opencl found;
    static int           loaded;

    loaded = loaded || !library_load(&library, calls, sizeof calls / sizeof *calls, &found, err);
    return loaded ? &found : NULL;
}

enum { PLATFORMS = 16, DEVICES = 64 };

int opencl_device(const struct opencl *cl, unsigned nth, cl_device_id *out, char name[OPENCL_NAME],
                  struct err *err)
{
    static const cl_device_type types[] = {CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_GPU,
                                           CL_DEVICE_TYPE_CPU};
    cl_platform_id platform[PLATFORMS];
    cl_device_id   device[DEVICES];
    cl_uint        n_platforms = 0, n = 0, more;
    cl_device_fp_config fp = 0;

    if (cl->clGetPlatformIDs(PLATFORMS, platform, &n_platforms))
        n_platforms = 0;
    n_platforms = n_platforms < PLATFORMS ? n_platforms : PLATFORMS;
    for (size_t t = 0; t < sizeof types / sizeof *types && n == 0; t++)
        for (cl_uint p = 0; p < n_platforms && n < DEVICES; p++)
            if (!cl->clGetDeviceIDs(platform[p], types[t], DEVICES - n, device + n, &more))
                n += more < DEVICES - n ? more : DEVICES - n;
    if (n == 0)
        return err_set(err, -ENODEV, "OpenCL sees no accelerator here (clinfo lists what it sees)");
    *out = device[nth % n];
    if (cl->clGetDeviceInfo(*out, CL_DEVICE_NAME, OPENCL_NAME, name, NULL))
        snprintf(name, OPENCL_NAME, "device %u", nth % n);
    cl->clGetDeviceInfo(*out, CL_DEVICE_SINGLE_FP_CONFIG, sizeof fp, &fp, NULL);
    return fp & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? 0
           : err_set(err, -ENOTSUP, "OpenCL's %s does not round quotients and roots correctly: it "
                     "would train to other parameters", name);
}
