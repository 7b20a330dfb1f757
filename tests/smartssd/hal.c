/* hal.c: a software SmartSSD: the calls (xcl..) that libxrt makes of a card's driver library. Built
 * as libxrt_core.so.2 and found through XILINX_XRT, it lies under the client half of libxrt as
 * Debian has it, so that a program runs on it as it would on cards. Device memory is apart from the
 * host's: what was not synced or transferred is not there (memory.c). The kernels are those of
 * csd/hls (runs.c). What a client does wrong is said on stderr, with "smartssd:" before it.
 *
 * SMARTSSD_DEVICES     how many cards there are: 0000:31:00.1, 0000:32:00.1, ..; 1
 * SMARTSSD_MEMORY      MiB of each bank, where that is less than what the xclbin says
 * SMARTSSD_FOLDER      where the files are that device memory is made of; /var/tmp
 * SMARTSSD_P2P         0: P2P is not enabled: such buffers are refused
 * SMARTSSD_LATENCY_MS  before each run
 * SMARTSSD_SYSFS       what paths in sysfs begin with, instead of /sys
 * SMARTSSD_FAULT       OP[@DEVICE][=NTH[:VALUE]],..: what fails: the NTH call since the device was
 *                      opened, or each; on that device, or on each. These fail with the error VALUE
 *                      (EIO): open load alloc map sync context exec. Of runs: hang (and all behind
 *                      it on that kernel), error (it ends in the state VALUE, ERT_CMD_STATE_ERROR),
 *                      vanish: behind that run every call fails with ENODEV */
#include "tests/smartssd/device.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUS = 0x31, FUNCTION = 1, DEVICES = 64 }; // the first one's bus; at most

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device  *list; // all that ever were open

void device_complain(const struct device *d, const char *format, ...)
{
    char    text[512];
    va_list a;

    va_start(a, format);
    vsnprintf(text, sizeof text, format, a);
    va_end(a);
    fprintf(stderr, "smartssd: device %u: %s\n", d->index, text);
}

unsigned device_slot(unsigned index) { return (BUS + index) << 8 | FUNCTION; }

/* Begins a call that may fail: 0, the lock held; or -errno. */
static int enter(struct device *d, enum fault what)
{
    pthread_mutex_lock(&d->lock);
    int e = d->open && !d->gone ? faults_hit(&d->faults, what, EIO) : ENODEV;
    if (e)
        pthread_mutex_unlock(&d->lock);
    return -e;
}

static int leave(struct device *d, int rc)
{
    pthread_mutex_unlock(&d->lock);
    return rc;
}

/* ---- devices ---- */

unsigned xclProbe(void)
{
    const char   *s = getenv("SMARTSSD_DEVICES");
    unsigned long n = s ? strtoul(s, NULL, 10) : 1;

    return n < DEVICES ? (unsigned)n : DEVICES;
}

unsigned xclVersion(void) { return 2; }

xclDeviceHandle xclOpen(unsigned index, const char *unused, enum xclVerbosityLevel unused_too)
{
    struct device *d = index < xclProbe() ? calloc(1, sizeof *d) : NULL;

    (void)unused, (void)unused_too;
    errno = ENODEV;
    if (!d)
        return NULL;
    d->index = index;
    pthread_mutex_init(&d->lock, NULL);
    faults_read(&d->faults, index);
    int e = faults_hit(&d->faults, FAULT_OPEN, EIO);
    if (!e)
        e = -runs_open(d);
    if (e) {
        free(d);
        errno = e;
        return NULL;
    }
    d->open = 1;
    d->core = glue_open(d, index);
    pthread_mutex_lock(&list_lock);
    d->next = list;
    list = d;
    pthread_mutex_unlock(&list_lock);
    return d;
}

void xclClose(xclDeviceHandle handle)
{
    struct device *d = handle;

    if (!d || !d->open)
        return;
    runs_close(d);
    pthread_mutex_lock(&d->lock);
    d->open = 0;
    if (memory_live(&d->memory))
        device_complain(d, "closed with %d buffers alive", memory_live(&d->memory));
    memory_close(&d->memory);
    pthread_mutex_unlock(&d->lock);
    glue_close(d->core);
    d->core = NULL;
}

int xclGetDeviceInfo2(xclDeviceHandle handle, struct xclDeviceInfo2 *to)
{
    const struct device *d = handle;

    *to = (struct xclDeviceInfo2){ .mMagic = 0x586c0c6c, .mHALMajorVersion = 2,
                                   .mHALMinorVersion = 1, .mVendorId = 0x10ee,
                                   .mDataAlignment = 4096, .mDDRBankCount = 1, .mDMAThreads = 1,
                                   .mPCIeLinkWidth = 4, .mPCIeLinkSpeed = 3 };
    snprintf(to->mName, sizeof to->mName, "xilinx_u2_gen3x4_xdma_gc_base_2");
    to->mPciSlot = device_slot(d->index);
    return 0;
}

/* As the driver's: the folder of a part of the card, and a file in it. */
int xclGetSysfsPath(xclDeviceHandle handle, const char *part, const char *entry, char *path,
                    size_t size)
{
    const struct device *d = handle;
    const char          *root = getenv("SMARTSSD_SYSFS");
    char                 folder[64] = "";

    if (*part)
        snprintf(folder, sizeof folder, "%s.u.%u/", part, d->index);
    int n = snprintf(path, size, "%s/bus/pci/devices/0000:%02x:00.%d/%s%s",
                     root ? root : "/sys", BUS + d->index, FUNCTION, folder, entry);
    return n < 0 || (size_t)n >= size ? -EINVAL : 0;
}

static int load(struct device *d, const struct axlf *from)
{
    struct image image;

    if (d->loaded && memcmp(d->image.id, from->m_header.uuid, sizeof d->image.id) == 0)
        return 0;
    for (int i = 0; i < d->image.n_units; i++)
        if (d->image.unit[i].shared || d->image.unit[i].exclusive)
            return -EBUSY;
    int rc = image_read(&image, from);
    if (rc)
        return rc;
    memory_close(&d->memory);
    d->image = image;
    rc = memory_open(&d->memory, &image);
    d->loaded = !rc;
    return rc;
}

int xclLoadXclBin(xclDeviceHandle handle, const struct axlf *from)
{
    struct device *d = handle;
    int            rc = enter(d, FAULT_LOAD);

    if (rc)
        return rc;
    rc = leave(d, load(d, from));
    return rc ? rc : glue_load(d, from);
}

/* unit: ~0: the one that holds the image alone. */
static int context_open(struct device *d, const xuid_t image, unsigned unit, int shared)
{
    if (!d->loaded || memcmp(d->image.id, image, sizeof d->image.id) != 0)
        return -EINVAL;
    if (unit == ~0u)
        return 0;
    if (unit >= (unsigned)d->image.n_units)
        return -EINVAL;
    struct unit *u = &d->image.unit[unit];
    if (u->exclusive || (!shared && u->shared))
        return -EBUSY;
    u->shared += shared;
    u->exclusive = !shared;
    return 0;
}

int xclOpenContext(xclDeviceHandle handle, const xuid_t image, unsigned unit, bool shared)
{
    struct device *d = handle;
    int            rc = enter(d, FAULT_CONTEXT);

    return rc ? rc : leave(d, context_open(d, image, unit, shared));
}

int xclCloseContext(xclDeviceHandle handle, const xuid_t image, unsigned unit)
{
    struct device *d = handle;

    (void)image;
    pthread_mutex_lock(&d->lock);
    if (unit < (unsigned)d->image.n_units) {
        struct unit *u = &d->image.unit[unit];

        if (u->exclusive)
            u->exclusive = 0;
        else
            u->shared--;
    }
    return leave(d, 0);
}

/* ---- buffers ---- */

static xclBufferHandle alloc(struct device *d, size_t bytes, unsigned flags, void *user)
{
    const char *p2p = getenv("SMARTSSD_P2P");
    int         exec = (flags & XCL_BO_FLAGS_EXECBUF) != 0;
    int         rc;

    if (exec) { // no call of the client's: not counted
        pthread_mutex_lock(&d->lock);
        rc = d->open && !d->gone ? 0 : leave(d, -ENODEV);
    } else {
        rc = enter(d, FAULT_ALLOC);
    }
    if (!rc)
        rc = leave(d, flags & XCL_BO_FLAGS_P2P && p2p && strcmp(p2p, "0") == 0
                          ? -EINVAL
                          : memory_alloc(&d->memory, bytes, flags, user));
    errno = -1; // what a driver library of 2.13 leaves there: nobody may rely on it
    return rc < 0 ? XRT_NULL_BO : (xclBufferHandle)rc;
}

xclBufferHandle xclAllocBO(xclDeviceHandle handle, size_t bytes, int unused, unsigned flags)
{
    (void)unused;
    return alloc(handle, bytes, flags, NULL);
}

xclBufferHandle xclAllocUserPtrBO(xclDeviceHandle handle, void *user, size_t bytes, unsigned flags)
{
    if ((uintptr_t)user % 4096) {
        errno = EINVAL;
        return XRT_NULL_BO;
    }
    return alloc(handle, bytes, flags, user);
}

void *xclMapBO(xclDeviceHandle handle, xclBufferHandle buffer, bool write)
{
    struct device *d = handle;
    int            rc = 0;
    void          *p = NULL;

    (void)write;
    pthread_mutex_lock(&d->lock);
    const struct buffer *b = memory_buffer(&d->memory, buffer);
    if (b && b->bank != MEMORY_EXEC)
        rc = -faults_hit(&d->faults, FAULT_MAP, EIO);
    if (d->gone)
        rc = -ENODEV;
    if (!rc)
        p = memory_map(&d->memory, buffer);
    else
        errno = -rc;
    pthread_mutex_unlock(&d->lock);
    return p;
}

int xclUnmapBO(xclDeviceHandle handle, xclBufferHandle buffer, void *at)
{
    struct device *d = handle;

    (void)at;
    pthread_mutex_lock(&d->lock);
    memory_unmap(&d->memory, buffer);
    return leave(d, 0);
}

void xclFreeBO(xclDeviceHandle handle, xclBufferHandle buffer)
{
    struct device *d = handle;

    pthread_mutex_lock(&d->lock);
    memory_free(&d->memory, buffer);
    pthread_mutex_unlock(&d->lock);
}

static int sync_part(struct device *d, xclBufferHandle buffer, enum xclBOSyncDirection direction,
                     size_t bytes, size_t offset)
{
    struct buffer *b = memory_buffer(&d->memory, buffer);

    if (!b || b->bank == MEMORY_EXEC || offset > b->bytes || bytes > b->bytes - offset)
        return -EINVAL;
    if (b->p2p || !b->host) // one half alone, or none that the host could have written
        return 0;
    char *host = (char *)b->host + offset, *device = memory_device(&d->memory, b) + offset;
    if (direction == XCL_BO_SYNC_BO_TO_DEVICE)
        memcpy(device, host, bytes);
    else
        memcpy(host, device, bytes);
    return 0;
}

int xclSyncBO(xclDeviceHandle handle, xclBufferHandle buffer, enum xclBOSyncDirection direction,
              size_t bytes, size_t offset)
{
    struct device *d = handle;
    int            rc = enter(d, FAULT_SYNC);

    return rc ? rc : leave(d, sync_part(d, buffer, direction, bytes, offset));
}

static int copy(struct memory *m, const struct buffer *to, const struct buffer *from, size_t bytes,
                size_t to_offset, size_t from_offset)
{
    if (!to || !from || to->bank == MEMORY_EXEC || from->bank == MEMORY_EXEC ||
        to_offset > to->bytes || bytes > to->bytes - to_offset || from_offset > from->bytes ||
        bytes > from->bytes - from_offset)
        return -EINVAL;
    memmove(memory_device(m, to) + to_offset, memory_device(m, from) + from_offset, bytes);
    return 0;
}

int xclCopyBO(xclDeviceHandle handle, xclBufferHandle to, xclBufferHandle from, size_t bytes,
              size_t to_offset, size_t from_offset)
{
    struct device *d = handle;
    int            rc = enter(d, FAULT_SYNC);

    return rc ? rc : leave(d, copy(&d->memory, memory_buffer(&d->memory, to),
                                   memory_buffer(&d->memory, from), bytes, to_offset, from_offset));
}

int xclGetBOProperties(xclDeviceHandle handle, xclBufferHandle buffer, struct xclBOProperties *to)
{
    struct device *d = handle;

    pthread_mutex_lock(&d->lock);
    const struct buffer *b = memory_buffer(&d->memory, buffer);
    *to = (struct xclBOProperties){ .handle = buffer };
    if (!b)
        return leave(d, -ENOENT);
    to->flags = b->flags;
    to->size = b->bytes;
    to->paddr = memory_address(&d->memory, b);
    return leave(d, 0);
}

/* ---- runs ---- */

int xclExecBuf(xclDeviceHandle handle, xclBufferHandle buffer)
{
    struct device *d = handle;
    int            rc = enter(d, FAULT_EXEC);

    return rc ? rc : leave(d, runs_submit(d, buffer));
}

int xclExecWait(xclDeviceHandle handle, int ms)
{
    struct device *d = handle;

    pthread_mutex_lock(&d->lock);
    return leave(d, runs_wait(d, ms));
}
