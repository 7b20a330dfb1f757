/* glue.cpp: a software SmartSSD made known to libxrt. The classes that libxrt's client half talks
 * to are C++ without public headers; those of its own emulation do, compiled, as libxrt-dev brings
 * them (libxrt_swemu.a, libxrt_hwemu.a): tests/tests.mk takes them out of there. They call the xcl..
 * of hal.c, and what else they need is here.
 *
 * What is declared below is libxrt 2.13's, by the names that the linker knows it under. */
#include "tests/smartssd/device.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

namespace xrt_core {
class device {
public:
    void register_axlf(const axlf *);
};
std::shared_ptr<device> get_userpf_device(void *handle, unsigned int index);
std::shared_ptr<device> get_userpf_device(void *handle);
namespace query {
enum class key_type : int {};
}
} // namespace xrt_core

/* ---- asked for by hal.c ---- */

void *glue_open(void *device, unsigned index)
{
    try {
        return new std::shared_ptr<xrt_core::device>(xrt_core::get_userpf_device(device, index));
    } catch (const std::exception &) {
        return nullptr;
    }
}

void glue_close(void *core) { delete static_cast<std::shared_ptr<xrt_core::device> *>(core); }

int glue_load(void *device, const struct axlf *image)
{
    try {
        auto core = xrt_core::get_userpf_device(device);

        if (!core)
            return -ENODEV;
        core->register_axlf(image);
        return 0;
    } catch (const std::exception &) {
        return -EINVAL;
    }
}

/* ---- asked for by libxrt's classes ---- */

/* Instead of a method of libxrt's, which knows numbers alone: a device by its place on the bus. */
extern "C" unsigned smartssd_device_id(const void *, const std::string &name)
{
    unsigned domain, bus, device, function;

    if (sscanf(name.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
        return static_cast<unsigned>(std::stoul(name));
    for (unsigned i = 0; i < xclProbe(); i++)
        if (device_slot(i) == (domain << 16 | bus << 8 | device << 3 | function))
            return i;
    throw std::runtime_error("No such device '" + name + "'");
}

int xclUpdateSchedulerStat(void *) { return 0; }
int xclInternalResetDevice(void *, xclResetKind) { return -ENOTSUP; }
int xclCmaEnable(void *, bool, uint64_t) { return -ENOTSUP; }
int xclCloseExportHandle(int) { return 0; }

namespace xclcpuemhal2 {
struct CpuemShim {
    uint32_t          deviceQuery(xrt_core::query::key_type);
    static CpuemShim *handleCheck(void *);
};
uint32_t   CpuemShim::deviceQuery(xrt_core::query::key_type) { return 0; } // is it in hardware: no
CpuemShim *CpuemShim::handleCheck(void *) { return nullptr; }
} // namespace xclcpuemhal2
