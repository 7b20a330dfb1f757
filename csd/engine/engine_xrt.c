/* engine_xrt.c: updates on an accelerator card next to its drive, through libxrt. The kernels are
 * those of csd/hls. They work on buffers that the drive reads into and writes from by itself
 * (peer-to-peer, P2P).
 *
 * A set's memory is one P2P buffer. It is mapped, so transfers need no call of libxrt. Command and
 * result are small ordinary buffers, which are copied before and after each run. A thread of the
 * engine starts a run and waits for it.
 *
 * A card whose run does not end, or ends badly, is given up: the engine is broken, and memory that
 * the card may still write to is kept for ever. */
#include "csd/engine/engine_thread.h"
#include "csd/engine/hls_call.h"
#include "csd/engine/library.h"
#include "data/file/file.h"

#include <assert.h>
#include <unistd.h>
#include <experimental/xrt_ini.h>
#include <xclbin.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

/* ---- the library. Only one thread at a time may make these calls, except that each run (xrtRun..)
 * may have a thread of its own. ---- */

#define XRT_CALLS(CALL)                                                                            \
    CALL(xrtIniStringSet) CALL(xrtDeviceOpenByBDF) CALL(xrtDeviceClose)                            \
    CALL(xrtDeviceLoadXclbinFile) CALL(xrtDeviceGetXclbinUUID) CALL(xrtPLKernelOpenExclusive)      \
    CALL(xrtKernelClose) CALL(xrtKernelArgGroupId) CALL(xrtBOAlloc) CALL(xrtBOFree)                \
    CALL(xrtBOMap) CALL(xrtBOSync) CALL(xrtRunOpen) CALL(xrtRunClose) CALL(xrtRunSetArg)           \
    CALL(xrtRunStart) CALL(xrtRunWait) CALL(xrtRunWaitFor)

#define XRT_POINTER(name) __typeof__(&name) name;
struct xrt { XRT_CALLS(XRT_POINTER) };
#undef XRT_POINTER

#define XRT_NAME(name) {#name, offsetof(struct xrt, name)},
static const struct library_call calls[] = {XRT_CALLS(XRT_NAME)};
#undef XRT_NAME

/* The library, loaded once, when a card is first asked for. NULL and a sentence if it or one of
 * these calls is missing. */
static const struct xrt *xrt_load(struct err *err)
{
    static const struct library library = {
        .file = "libxrt_coreutil.so.2", .name = "libxrt", .global = 1,
        .get = "install it with the card's driver, or as Debian's libxrt2",
        .lacking = "it is older or newer than 2.13, with which siTrain was built",
    };
    static struct xrt found;
    static int        loaded;

    if (loaded)
        return &found;
    if (library_load(&library, calls, sizeof calls / sizeof *calls, &found, err))
        return NULL;
    loaded = 1;
    // otherwise, if its driver cannot be loaded, the library's own log would end the process
    found.xrtIniStringSet("Runtime.runtime_log", "null");
    return &found;
}

/* ---- a card ---- */

enum { CONTROL = 4096, KERNELS = 2 }; // CONTROL: bytes of a command or result
enum { XCLBIN_MOST = 1 << 30 };       // bytes; xclbins for the largest cards have about 100 MB

static_assert((int)CONTROL >= (int)HLS_COMMAND_BYTES, "a command fits into its buffer");

static const struct kernel_kind { const char *name; int args; } kinds[KERNELS] = {
    [ENGINE_SCATTER] = {"sitrain_scatter", HLS_SCATTER_ARGS},
    [ENGINE_PASS] = {"sitrain_update", HLS_UPDATE_ARGS},
};

struct card {
    struct engine_thread thread; // first member
    const struct xrt *x;
    char              address[32];
    uint64_t          timeout_ns;
    xrtDeviceHandle   device;
    int               group; // of memory banks, the same for all arguments
    struct kernel { xrtKernelHandle kernel; xrtRunHandle run; } kernels[KERNELS];
    struct control { xrtBufferHandle buffer; void *map; } command, result;
    struct card      *before; // the next in `opened`
};

static struct card *opened; // the cards of this process; one thread opens and closes all

/* ---- runs */

static int run_wait(struct card *c, const struct kernel_kind *kind, xrtRunHandle run,
                    struct err *err)
{
    uint64_t           ms = c->timeout_ns / 1000000;
    enum ert_cmd_state state = c->timeout_ns ? c->x->xrtRunWaitFor(run, ms ? (unsigned)ms : 1)
                                             : c->x->xrtRunWait(run);

    if (state == ERT_CMD_STATE_COMPLETED)
        return 0;
    if (state == ERT_CMD_STATE_TIMEOUT)
        return err_set(err, -ETIMEDOUT, "kernel %s on card %s has not ended for %.3g s "
                       "(--io-timeout): the card is given up, and may need a reset (xbutil reset)",
                       kind->name, c->address, (double)c->timeout_ns * 1e-9);
    return err_set(err, -EIO, "kernel %s on card %s ended in state %d instead of %d", kind->name,
                   c->address, (int)state, (int)ERT_CMD_STATE_COMPLETED);
}

/* Runs the command in its buffer over `memory`. The answer is in the result's buffer. */
static int run(struct card *c, enum engine_what what, xrtBufferHandle memory, struct err *err)
{
    const struct kernel_kind *kind = &kinds[what];
    xrtRunHandle              r = c->kernels[what].run;
    int rc = c->x->xrtBOSync(c->command.buffer, XCL_BO_SYNC_BO_TO_DEVICE, CONTROL, 0);

    for (int i = 0; i < kind->args && !rc; i++)
        rc = c->x->xrtRunSetArg(r, i, i == 0 ? c->command.buffer
                                      : i == kind->args - 1 ? c->result.buffer : memory);
    rc = rc ? rc : c->x->xrtRunStart(r);
    if (rc)
        return err_set(err, -EIO, "kernel %s on card %s cannot be started (%d)", kind->name,
                       c->address, rc);
    rc = run_wait(c, kind, r, err);
    if (!rc && c->x->xrtBOSync(c->result.buffer, XCL_BO_SYNC_BO_FROM_DEVICE, CONTROL, 0))
        rc = err_set(err, -EIO, "the result of kernel %s cannot be read from card %s", kind->name,
                     c->address);
    return rc;
}

static int card_run(struct engine *e, struct engine_set *s, struct err *why)
{
    struct card *c = (struct card *)e;

    hls_ask(c->command.map, s);
    int rc = run(c, s->what, s->own, why);
    return rc ? rc : hls_take(c->result.map, s, why);
}

/* ---- memory */

static void *buffer_new(struct card *c, xrtBufferHandle *out, size_t bytes, xrtBufferFlags flags)
{
    *out = c->x->xrtBOAlloc(c->device, bytes, flags, (xrtMemoryGroup)c->group);
    void *map = *out ? c->x->xrtBOMap(*out) : NULL;

    if (*out && !map) {
        c->x->xrtBOFree(*out);
        *out = NULL;
    }
    return map;
}

static int card_alloc(struct engine *e, struct engine_set *s, size_t bytes, struct err *err)
{
    struct card    *c = (struct card *)e;
    xrtBufferHandle buffer;

    s->base = buffer_new(c, &buffer, bytes, XRT_BO_FLAGS_P2P);
    s->own = buffer;
    s->bytes = bytes;
    if (s->base)
        return 0;
    if (!buffer_new(c, &buffer, bytes, XRT_BO_FLAGS_NONE))
        return err_set(err, -ENOMEM, "card %s has no %zu bytes of memory free: --csd-mem is more "
                       "than it has", c->address, bytes);
    c->x->xrtBOFree(buffer);
    return err_set(err, -EOPNOTSUPP, "card %s has memory, but none that its drive can reach: "
                   "peer-to-peer (P2P) is off, xbutil configure --device %s --p2p enable turns it "
                   "on", c->address, c->address);
}

static void card_release(struct engine *e, struct engine_set *s)
{
    struct card *c = (struct card *)e;

    if (s->own && !e->broken)
        c->x->xrtBOFree(s->own);
    s->own = s->base = NULL;
    s->bytes = 0;
}

/* ---- opening and closing */

static void card_close(struct engine *e)
{
    struct card      *c = (struct card *)e, **at = &opened;
    const struct xrt *x = c->x;

    while (*at && *at != c)
        at = &(*at)->before;
    if (*at)
        *at = c->before;
    engine_thread_close(&c->thread);
    for (int k = 0; k < KERNELS; k++) { // if one is left open, libxrt fails when the process ends
        if (c->kernels[k].run)
            x->xrtRunClose(c->kernels[k].run);
        if (c->kernels[k].kernel)
            x->xrtKernelClose(c->kernels[k].kernel);
    }
    if (e->broken) { // the card may still write
        csd_keep(c);
        return;
    }
    if (c->command.buffer)
        x->xrtBOFree(c->command.buffer);
    if (c->result.buffer)
        x->xrtBOFree(c->result.buffer);
    if (c->device)
        x->xrtDeviceClose(c->device);
    free(c);
}

/* Opens a kernel of the xclbin. It must have the expected arguments, all in one group of memory
 * banks, because one buffer is passed for most of them. */
static int kernel_open(struct card *c, int k, const unsigned char *xclbin, const char *file,
                       struct err *err)
{
    const struct kernel_kind *kind = &kinds[k];
    xrtKernelHandle           kernel = c->x->xrtPLKernelOpenExclusive(c->device, xclbin,
                                                                      kind->name);

    c->kernels[k].kernel = kernel;
    if (!kernel)
        return err_set(err, -EINVAL, "%s has no kernel %s, or another process has it on card %s",
                       file, kind->name, c->address);
    for (int i = 0; i < kind->args; i++) {
        int group = c->x->xrtKernelArgGroupId(kernel, i);

        c->group = c->group < 0 ? group : c->group;
        if (group < 0)
            return err_set(err, -EINVAL, "kernel %s in %s has %d arguments in memory, siTrain "
                           "gives it %d: it was made for another version", kind->name, file, i,
                           kind->args);
        if (group != c->group)
            return err_set(err, -EINVAL, "argument %d of kernel %s in %s is in memory group %d, "
                           "others are in %d: all must be in one (csd/hls/connectivity.cfg)", i,
                           kind->name, file, group, c->group);
    }
    if (c->x->xrtKernelArgGroupId(kernel, kind->args) >= 0)
        return err_set(err, -EINVAL, "kernel %s in %s has more than the %d arguments that siTrain "
                       "gives it: it was made for another version", kind->name, file, kind->args);
    c->kernels[k].run = c->x->xrtRunOpen(kernel);
    return c->kernels[k].run ? 0
           : err_set(err, -EIO, "a run of kernel %s cannot be made on card %s", kind->name,
                     c->address);
}

/* Checks which version of commands both kernels understand. */
static int versions_check(struct card *c, const char *file, struct err *err)
{
    int rc = 0;

    for (int k = 0; k < KERNELS && !rc; k++) {
        hls_ask_version(c->command.map);
        memset(c->result.map, 0, CONTROL);
        rc = run(c, (enum engine_what)k, c->result.buffer, err);
        if (!rc && hls_version(c->result.map) != HLS_VERSION)
            rc = err_set(err, -EINVAL, "kernel %s in %s is not of version %d, which siTrain speaks",
                         kinds[k].name, file, HLS_VERSION);
    }
    return rc;
}

/* Whether all sections listed in the head of an xclbin of `bytes` are within it. */
static int sections_whole(int fd, const struct axlf *head, uint64_t bytes)
{
    struct axlf_section_header s;

    for (uint32_t i = 0; i < head->m_header.m_numSections; i++) {
        off_t at = (off_t)(offsetof(struct axlf, m_sections) + i * sizeof s);
        if (pread(fd, &s, sizeof s, at) != sizeof s || s.m_sectionOffset > bytes ||
            s.m_sectionSize > bytes - s.m_sectionOffset)
            return 0;
    }
    return 1;
}

/* Checks that a file is an xclbin, and whole. libxrt would read beyond its end if it was cut off or
 * lists sections that are not there. */
static int xclbin_check(const char *file, struct err *err)
{
    struct axlf head = {0};
    uint64_t    bytes;
    int         fd, rc = file_open_read(file, &fd, &bytes, err);

    if (rc)
        return rc;
    if (pread(fd, &head, sizeof head, 0) != sizeof head ||
        memcmp(head.m_magic, "xclbin2", sizeof head.m_magic) != 0)
        rc = err_set(err, -EINVAL, "%s is no xclbin", file);
    else if (bytes < head.m_header.m_length)
        rc = err_set(err, -EINVAL, "%s was cut off: it has %" PRIu64 " of %" PRIu64 " bytes", file,
                     bytes, head.m_header.m_length);
    else if (bytes > XCLBIN_MOST)
        rc = err_set(err, -EINVAL, "%s has %" PRIu64 " bytes: no xclbin is so large", file, bytes);
    else if (!sections_whole(fd, &head, bytes))
        rc = err_set(err, -EINVAL, "%s is damaged: it tells of sections that are beyond its end",
                     file);
    close(fd);
    return rc;
}

static int parts_open(struct card *c, const struct csd_config *cfg, struct err *err)
{
    unsigned char xclbin[16];
    const char   *root = getenv("XILINX_XRT");

    for (const struct card *other = opened; other; other = other->before)
        if (!strcmp(other->address, c->address))
            return err_misuse(err, "device %d: card %s is another device's already: each needs its "
                              "own", cfg->id, c->address);
    int rc = xclbin_check(cfg->xclbin, err);
    if (rc)
        return rc;
    c->device = c->x->xrtDeviceOpenByBDF(c->address);
    if (!c->device)
        return err_set(err, -ENODEV, "card %s cannot be opened by libxrt: there is none, its "
                       "driver is not loaded, or XILINX_XRT, which is %s, is not where XRT is "
                       "installed (`siTrain devices` lists cards)", c->address,
                       root && *root ? root : "not set");
    if (c->x->xrtDeviceLoadXclbinFile(c->device, cfg->xclbin) ||
        c->x->xrtDeviceGetXclbinUUID(c->device, xclbin))
        return err_set(err, -EINVAL, "%s cannot be loaded onto card %s: it is for another "
                       "platform, or another process uses the card with another one", cfg->xclbin,
                       c->address);
    for (int k = 0; k < KERNELS && !rc; k++)
        rc = kernel_open(c, k, xclbin, cfg->xclbin, err);
    if (rc)
        return rc;
    c->command.map = buffer_new(c, &c->command.buffer, CONTROL, XRT_BO_FLAGS_NONE);
    c->result.map = buffer_new(c, &c->result.buffer, CONTROL, XRT_BO_FLAGS_NONE);
    if (!c->command.map || !c->result.map)
        return err_set(err, -ENOMEM, "card %s gives no memory", c->address);
    return versions_check(c, cfg->xclbin, err);
}

static int card_open(struct engine **out, const struct csd_config *cfg, void (*wake)(void *ctx),
                     void *ctx, struct err *err)
{
    const struct xrt *x = xrt_load(err);

    if (!x)
        return -ENOENT;
    struct card *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, -ENOMEM, "device %d: out of memory", cfg->id);
    *c = (struct card){.thread = {.base = {.ops = &engine_xrt}, .run = card_run, .wake = wake,
                                  .ctx = ctx},
                       .x = x, .timeout_ns = cfg->timeout_ns, .group = -1};
    snprintf(c->address, sizeof c->address, "%s", cfg->fpga);
    int rc = parts_open(c, cfg, err);
    rc = rc ? rc : engine_thread_open(&c->thread, cfg->id, err);
    if (rc) {
        c->thread.base.broken = rc == -ETIMEDOUT ? rc : 0;
        card_close(&c->thread.base);
        return rc;
    }
    c->before = opened;
    opened = c;
    *out = &c->thread.base;
    return 0;
}

static int card_usable(struct err *err) { return xrt_load(err) ? 0 : -ENOENT; }

const struct engine_ops engine_xrt = {
    .on_card = 1, .usable = card_usable,
    .open = card_open, .alloc = card_alloc, .release = card_release, .start = engine_thread_start,
    .poll = engine_thread_poll, .close = card_close,
};
