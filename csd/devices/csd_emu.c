/* csd_emu.c: emulates a device: a worker whose engine is a core of this processor. With --mode base
 * it does what ZeRO-Infinity does: the same pipeline over the host link, in host memory. */
#include "csd/devices/worker.h"

static int emu_open(struct csd **out, const struct csd_config *cfg, char *notice,
                    size_t notice_size, struct err *err)
{
    return worker_open(out, &csd_emu, &engine_cpu, cfg, notice, notice_size, err);
}

const struct csd_ops csd_emu = {
    .name = "emu", .about = "emulated: its own worker, ring and memory", .caps = &engine_cpu_caps,
    .memory = worker_memory, .open = emu_open, .submit = worker_submit, .reap = worker_reap,
    .close = worker_close,
};
