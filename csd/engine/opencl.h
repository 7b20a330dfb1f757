/* opencl.h: the OpenCL library: those of its calls that engine_opencl.c makes, found when an
 * accelerator is first asked for. A program that never asks for one never loads it, and runs where
 * it is not installed. */
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

/* The library, loaded once; NULL and a sentence where it is not here or lacks a call. */
const struct opencl *opencl_load(struct err *err);

/* Accelerator number `nth`, counted from 0 and round and round, of those of the first of these
 * types that there is: accelerators proper, GPUs, processors. One that cannot round as all of
 * siTrain does is refused. name: its own. */
int opencl_device(const struct opencl *cl, unsigned nth, cl_device_id *out, char name[OPENCL_NAME],
                  struct err *err);
