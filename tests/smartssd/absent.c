/* absent.c: calls that a driver library must have and that a software SmartSSD answers with "no":
 * exports to other processes, single registers, debugging, clocks. */
#include <errno.h>
#include <xrt.h>

xclBufferExportHandle xclExportBO(xclDeviceHandle d, xclBufferHandle b)
{
    (void)d, (void)b;
    return XRT_NULL_BO_EXPORT;
}

xclBufferHandle xclImportBO(xclDeviceHandle d, xclBufferExportHandle fd, unsigned flags)
{
    (void)d, (void)fd, (void)flags;
    return XRT_NULL_BO;
}

int xclRegRead(xclDeviceHandle d, uint32_t unit, uint32_t offset, uint32_t *to)
{
    (void)d, (void)unit, (void)offset, (void)to;
    return -ENOTSUP;
}

int xclRegWrite(xclDeviceHandle d, uint32_t unit, uint32_t offset, uint32_t x)
{
    (void)d, (void)unit, (void)offset, (void)x;
    return -ENOTSUP;
}

size_t xclRead(xclDeviceHandle d, enum xclAddressSpace s, uint64_t at, void *to, size_t n)
{
    (void)d, (void)s, (void)at, (void)to, (void)n;
    return 0;
}

size_t xclWrite(xclDeviceHandle d, enum xclAddressSpace s, uint64_t at, const void *from, size_t n)
{
    (void)d, (void)s, (void)at, (void)from, (void)n;
    return 0;
}

ssize_t xclUnmgdPread(xclDeviceHandle d, unsigned flags, void *to, size_t n, uint64_t at)
{
    (void)d, (void)flags, (void)to, (void)n, (void)at;
    return -ENOTSUP;
}

ssize_t xclUnmgdPwrite(xclDeviceHandle d, unsigned flags, const void *from, size_t n, uint64_t at)
{
    (void)d, (void)flags, (void)from, (void)n, (void)at;
    return -ENOTSUP;
}

int xclReClock2(xclDeviceHandle d, unsigned short region, const unsigned short *mhz)
{
    (void)d, (void)region, (void)mhz;
    return -ENOTSUP;
}

int xclP2pEnable(xclDeviceHandle d, bool enable, bool force)
{
    (void)d, (void)enable, (void)force;
    return -ENOTSUP;
}
