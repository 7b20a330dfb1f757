/* opencl.h: the OpenCL library: the calls that engine_opencl.c makes, loaded when an accelerator is
 * first asked for (library.h). */
#pragma once

#include "data/base/err.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

enum { OPENCL_NAME = 128 };

#define OPENCL_CALLS(CALL)                                                                         \
    CALL(clGetPlatformIDs) CALL(clGetDeviceIDs) CALL(clGetDeviceInfo) CALL(clCreateContext)        \
    CALL(clReleaseContext) CALL(clCreateCommandQueue) CALL(clReleaseCommandQueue)                  \
    CALL(clCreateProgramWithSource) CALL(clBuildProgram) CALL(clGetProgramBuildInfo)               \
    CALL(clReleaseProgram) CALL(clCreateKernel) CALL(clReleaseKernel) CALL(clSetKernelArg)         \
    CALL(clCreateBuffer) CALL(clReleaseMemObject) CALL(clEnqueueMigrateMemObjects)                 \
    CALL(clEnqueueFillBuffer) CALL(clEnqueueWriteBuffer) CALL(clEnqueueReadBuffer)                 \
    CALL(clEnqueueNDRangeKernel) CALL(clFlush) CALL(clFinish) CALL(clSetEventCallback)             \
    CALL(clReleaseEvent)

#define OPENCL_POINTER(name) __typeof__(&name) name;
struct opencl { OPENCL_CALLS(OPENCL_POINTER) };
#undef OPENCL_POINTER

/* The library, loaded once. NULL and a sentence if it or one of these calls is missing. */
const struct opencl *opencl_load(struct err *err);

/* Accelerator `nth`, modulo their number, among the devices of the first type that exists:
 * accelerators, GPUs, processors. One that cannot round as siTrain does is refused. name: gets the
 * device's name. 0 or -errno. */
int opencl_device(const struct opencl *cl, unsigned nth, cl_device_id *out, char name[OPENCL_NAME],
                  struct err *err);
