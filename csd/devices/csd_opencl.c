/* csd_opencl.c: combines any drive with any accelerator that OpenCL sees: a worker whose engine is
 * the accelerator. If nothing is updated, or on the host (--mode base), the drive is used alone. */
#include "csd/devices/worker.h"
#include "csd/engine/hls_call.h"

// the capabilities of the FPGA's kernels, whose commands these take; updates are in host memory
static const struct csd_caps opencl_caps = {
    .optims = 1u << OPTIM_ADAMW | 1u << OPTIM_ADAM | 1u << OPTIM_SGD | 1u << OPTIM_ADAGRAD,
    .pairs = 1, .segments = HLS_SEGMENTS,
};

static int opencl_usable(struct err *err)
{
    return &engine_opencl ? engine_opencl.usable(err)
           : err_misuse(err, "this siTrain was built without OpenCL: install opencl-headers (make "
                        "deps does) and build it again");
}

static int opencl_open(struct csd **out, const struct csd_config *cfg, char *notice,
                       size_t notice_size, struct err *err)
{
    int alone = cfg->update_params == 0 || cfg->update_link == LINK_HOST;
    int rc = alone ? 0 : opencl_usable(err);

    return rc ? rc : worker_open(out, &csd_opencl, alone ? &engine_cpu : &engine_opencl, cfg,
                                 notice, notice_size, err);
}

const struct csd_ops csd_opencl = {
    .name = "opencl", .about = "a drive and an accelerator beside it, through OpenCL",
    .caps = &opencl_caps, .usable = opencl_usable, .memory = worker_memory, .open = opencl_open,
    .submit = worker_submit, .reap = worker_reap, .close = worker_close,
};
