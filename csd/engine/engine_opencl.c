/* engine_opencl.c: updates on an accelerator that OpenCL sees, next to an ordinary drive. Its
 * kernels (csd/opencl/update.cl) take the commands of the FPGA's (hls_call.h).
 *
 * A set's memory is the host's; transfers use it. The accelerator has a buffer of the same size.
 * What a piece of work reads is copied there before the work, and its results are copied back after
 * it. If both share one memory, the buffer is the set's memory, and nothing is copied.
 *
 * An accelerator proves itself when it is opened (engine_proof.h), because OpenCL does not promise
 * the same bits. One that does not answer in time is given up, with all memory that it may still
 * write to. */
#include "csd/engine/engine_proof.h"
#include "csd/engine/engine_thread.h"
#include "csd/engine/hls_call.h"
#include "csd/engine/library.h"
#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

/* ---- the library ---- */

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

#define OPENCL_ROW(name) {#name, offsetof(struct opencl, name)},
static const struct library_call calls[] = {OPENCL_CALLS(OPENCL_ROW)};
#undef OPENCL_ROW

/* The library, loaded once, when an accelerator is first asked for. NULL and a sentence if it or
 * one of these calls is missing. */
static const struct opencl *opencl_load(struct err *err)
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

/* Accelerator `nth`, modulo their number, among the devices of the first type that exists. One that
 * cannot round as siTrain does is refused. name: gets the device's name. */
static int opencl_device(const struct opencl *cl, unsigned nth, cl_device_id *out,
                         char name[OPENCL_NAME], struct err *err)
{
    enum { PLATFORMS = 16, DEVICES = 64 };
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

/* ---- the accelerator ---- */

/* PART: parameters of a work item. GROUP: items of a work group. POWERS: one for each bit of a
 * number of parts. */
enum { PART = 256, GROUP = 64, POWERS = 32, TABLES = 4 * 256 + POWERS, KERNELS = 2 };

__asm__(".pushsection .rodata\n"
        "update_cl: .incbin \"csd/opencl/update.cl\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char update_cl[];

struct accelerator {
    struct engine_thread thread; // first member
    const struct opencl *cl;
    char                 name[OPENCL_NAME];
    uint64_t             timeout_ns;
    int                  shares; // it shares the host's memory
    cl_device_id         device;
    cl_context           context;
    cl_command_queue     queue;
    cl_program           program;
    cl_kernel            kernels[KERNELS]; // by enum engine_what
    cl_mem               command, tables, result;
    uint32_t             asked[HLS_COMMAND_BYTES / 4], answered[HLS_RESULT_BYTES / 4];
    pthread_mutex_t      mutex; // over what follows
    pthread_cond_t       changed;
    int                  ended; // 0; 1 when the last command has ended; -1 if that failed
};

static int refused(const struct accelerator *a, const char *what, cl_int rc, struct err *err)
{
    return err_set(err, rc == CL_MEM_OBJECT_ALLOCATION_FAILURE || rc == CL_OUT_OF_RESOURCES
                   ? -ENOMEM : -EIO, "OpenCL's %s: %s fails (%d)", a->name, what, (int)rc);
}

/* ---- work */

static void CL_CALLBACK over(cl_event event, cl_int status, void *arg)
{
    struct accelerator *a = arg;

    (void)event;
    pthread_mutex_lock(&a->mutex);
    a->ended = status == CL_COMPLETE ? 1 : -1;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

static int wait_for(struct accelerator *a, cl_event last, struct err *err)
{
    uint64_t        until = clock_ns() + a->timeout_ns;
    struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    int             rc = 0;

    cl_int refusal = a->cl->clFlush(a->queue);
    if (!refusal)
        refusal = a->cl->clSetEventCallback(last, CL_COMPLETE, over, a);
    a->cl->clReleaseEvent(last);
    if (refusal) { // nothing may be under way when memory is released
        a->cl->clFinish(a->queue);
        return refused(a, "asking for the end of its work", refusal, err);
    }
    pthread_mutex_lock(&a->mutex);
    while (!a->ended && rc != ETIMEDOUT)
        rc = a->timeout_ns ? pthread_cond_clockwait(&a->changed, &a->mutex, CLOCK_MONOTONIC, &at)
                           : pthread_cond_wait(&a->changed, &a->mutex);
    int ended = a->ended;
    pthread_mutex_unlock(&a->mutex);
    if (!ended)
        return err_set(err, -ETIMEDOUT, "OpenCL's %s has not ended its work for %.3g s "
                       "(--io-timeout): it is given up", a->name, (double)a->timeout_ns * 1e-9);
    return ended > 0 ? 0 : err_set(err, -EIO, "the work of OpenCL's %s failed", a->name);
}

static size_t offset_of(const struct engine_set *s, const void *at)
{
    return (size_t)((const char *)at - (const char *)s->base);
}

/* Copies bytes of the set that the accelerator reads. */
static cl_int give(struct accelerator *a, const struct engine_set *s, const void *from, size_t n)
{
    return a->cl->clEnqueueWriteBuffer(a->queue, s->own, CL_FALSE, offset_of(s, from), n, from, 0,
                                       NULL, NULL);
}

/* Copies what it reads: states and a dense gradient; or pairs, and zeros into which the first are
 * scattered. */
static cl_int give_all(struct accelerator *a, const struct engine_set *s)
{
    const struct update_area *area = &s->area;
    const cl_uint             zero = 0;
    cl_int                    rc = 0;

    if (s->what == ENGINE_PASS) {
        rc = give(a, s, area->states, area->states_bytes);
        if (!rc && s->u->grad_form == CSD_GRAD_DENSE)
            rc = give(a, s, area->grad, area->grad_bytes);
        return rc;
    }
    if (s->at == 0)
        rc = a->cl->clEnqueueFillBuffer(a->queue, s->own, &zero, sizeof zero,
                                        offset_of(s, area->grad), area->grad_bytes, 0, NULL, NULL);
    return rc ? rc : give(a, s, area->wire, s->n);
}

/* Puts everything into the queue, which keeps its order. *last: the event of its end. */
static cl_int enqueue(struct accelerator *a, const struct engine_set *s, cl_event *last)
{
    const struct opencl *cl = a->cl;
    cl_kernel            kernel = a->kernels[s->what];
    cl_mem               memory = s->own;
    size_t               items = s->n / (s->what == ENGINE_PASS ? PART : GRAD_WIRE_ALIGN);
    size_t               group = GROUP, all = round_up(items, GROUP);
    cl_int rc = cl->clEnqueueWriteBuffer(a->queue, a->command, CL_FALSE, 0, sizeof a->asked,
                                         a->asked, 0, NULL, NULL);

    rc = rc ? rc : cl->clEnqueueWriteBuffer(a->queue, a->result, CL_FALSE, 0, sizeof a->answered,
                                            a->answered, 0, NULL, NULL);
    rc = rc ? rc : give_all(a, s);
    rc = rc ? rc : cl->clSetKernelArg(kernel, 1, sizeof memory, &memory);
    rc = rc ? rc : cl->clEnqueueNDRangeKernel(a->queue, kernel, 1, NULL, &all, &group, 0, NULL,
                                              NULL);
    if (!rc && s->what == ENGINE_PASS)
        rc = cl->clEnqueueReadBuffer(a->queue, memory, CL_FALSE, 0,
                                     s->area.states_bytes + s->area.wire_bytes, s->base, 0, NULL,
                                     NULL);
    return rc ? rc : cl->clEnqueueReadBuffer(a->queue, a->result, CL_FALSE, 0, sizeof a->answered,
                                             a->answered, 0, NULL, last);
}

/* Reads the kernel's answer, which says which pair is wrong, if any. Its neighbours are in the
 * set's memory. */
static void scatter_answer(const struct accelerator *a, const struct engine_set *s,
                           struct hls_scatter_result *r)
{
    const struct hls_scatter_command *c = (const void *)a->asked;
    size_t           skip = c->state.seen ? 0 : GRAD_WIRE_HEADER, seen = c->state.seen;
    size_t           here = size_min((s->n - skip) / sizeof(struct topk_pair), c->pairs - seen);
    uint32_t         bad = a->answered[3];
    size_t           good = bad == UINT32_MAX ? here : bad - seen;
    struct topk_pair p;

    *r = (struct hls_scatter_result){.version = HLS_VERSION, .fault = a->answered[1] ? 1 : 0,
                                     .state = {(uint32_t)(seen + good), c->state.last, 0}};
    if (good > 0) {
        memcpy(&p, (char *)s->area.wire + skip + (good - 1) * sizeof p, sizeof p);
        r->state.last = p.index;
    }
    if (!r->fault && good < here) {
        memcpy(&p, (char *)s->area.wire + skip + good * sizeof p, sizeof p);
        r->fault = 2;
        r->index = p.index;
    }
    r->state.sum = crc32c_join(c->state.sum, a->answered[5], s->n);
}

static int accelerator_run(struct engine *e, struct engine_set *s, struct err *why)
{
    struct accelerator       *a = (struct accelerator *)e;
    struct hls_update_result *r = (void *)a->answered;
    struct hls_scatter_result scattered;
    cl_event                  last;

    hls_ask(a->asked, s);
    memset(a->answered, 0, sizeof a->answered);
    a->answered[s->what == ENGINE_PASS ? 2 : 3] = UINT32_MAX; // until one is found to be wrong
    a->ended = 0;
    cl_int refusal = enqueue(a, s, &last);
    if (refusal) {
        a->cl->clFinish(a->queue);
        return refused(a, "a command of its work", refusal, why);
    }
    int rc = wait_for(a, last, why);
    if (rc)
        return rc;
    if (s->what == ENGINE_SCATTER) {
        scatter_answer(a, s, &scattered);
        return hls_take(&scattered, s, why);
    }
    r->version = HLS_VERSION;
    r->overflow_first = r->overflow ? r->overflow_first : 0;
    return hls_take(r, s, why);
}

/* ---- memory */

static void accelerator_release(struct engine *e, struct engine_set *s)
{
    struct accelerator *a = (struct accelerator *)e;
    struct arena        mem = {.base = s->base, .bytes = s->bytes};

    if (e->broken != -ETIMEDOUT) {
        if (s->own)
            a->cl->clReleaseMemObject(s->own);
        arena_free(&mem);
    }
    s->own = s->base = NULL;
    s->bytes = 0;
}

static int accelerator_alloc(struct engine *e, struct engine_set *s, size_t bytes, struct err *err)
{
    struct accelerator *a = (struct accelerator *)e;
    cl_mem_flags        flags = CL_MEM_READ_WRITE | (a->shares ? CL_MEM_USE_HOST_PTR : 0);
    struct arena        mem = {.align = ARENA_IO};
    cl_int              refusal;

    arena_take(&mem, bytes);
    int rc = arena_map(&mem, "updates of a device with an accelerator", err);
    if (rc)
        return rc;
    s->base = mem.base;
    s->bytes = mem.bytes;
    cl_mem memory = a->cl->clCreateBuffer(a->context, flags, s->bytes, a->shares ? s->base : NULL,
                                          &refusal);
    s->own = refusal ? NULL : memory;
    if (!refusal) // allocates it now, or fails
        refusal = a->cl->clEnqueueMigrateMemObjects(a->queue, 1, &memory,
                                                    CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0,
                                                    NULL, NULL);
    if (!refusal)
        refusal = a->cl->clFinish(a->queue);
    if (refusal) {
        accelerator_release(e, s);
        return err_set(err, -ENOMEM, "OpenCL's %s gives no buffer of %zu bytes (%d)", a->name,
                       bytes, (int)refusal);
    }
    return 0;
}

/* ---- opening and closing */

static void accelerator_close(struct engine *e)
{
    struct accelerator  *a = (struct accelerator *)e;
    const struct opencl *cl = a->cl;
    cl_mem               memory[] = {a->command, a->tables, a->result};

    engine_thread_close(&a->thread);
    if (e->broken == -ETIMEDOUT)
        return; // it may still write: all of it stays
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            cl->clReleaseMemObject(memory[i]);
    for (int k = 0; k < KERNELS; k++)
        if (a->kernels[k])
            cl->clReleaseKernel(a->kernels[k]);
    if (a->program)
        cl->clReleaseProgram(a->program);
    if (a->queue)
        cl->clReleaseCommandQueue(a->queue);
    if (a->context)
        cl->clReleaseContext(a->context);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->mutex);
    free(a);
}

/* The tables of CRC32C: what a byte makes of a checksum with 0 to 3 bytes behind it; then x to the
 * number of bits of 2 PART bytes, its square, and so on. */
static void tables_fill(uint32_t t[TABLES])
{
    for (uint32_t i = 0; i < 256; i++) {
        t[i] = i;
        for (int k = 0; k < 8; k++)
            t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0x82f63b78u : 0);
    }
    for (int i = 256; i < 1024; i++)
        t[i] = t[i - 256] >> 8 ^ t[t[i - 256] & 255];
    for (int k = 0; k < POWERS; k++)
        t[1024 + k] = crc32c_join(1u << 31, 0, (size_t)(2 * PART) << k);
}

static int program_open(struct accelerator *a, struct err *err)
{
    static const char *const names[KERNELS] = {[ENGINE_SCATTER] = "scatter",
                                               [ENGINE_PASS] = "update"};
    const char *source = update_cl;
    char        options[128], log[512] = "";
    cl_int      rc = 0;

    snprintf(options, sizeof options, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt "
             "-D PART=%d -D GROUP=%d -D BLOCK=%d", PART, GROUP, GRAD_WIRE_ALIGN);
    a->program = a->cl->clCreateProgramWithSource(a->context, 1, &source, NULL, &rc);
    rc = rc ? rc : a->cl->clBuildProgram(a->program, 1, &a->device, options, NULL, NULL);
    if (rc) {
        if (a->program)
            a->cl->clGetProgramBuildInfo(a->program, a->device, CL_PROGRAM_BUILD_LOG, sizeof log,
                                         log, NULL);
        return err_set(err, -EIO, "OpenCL's %s does not build the kernels (%d): %.*s", a->name,
                       (int)rc, (int)strcspn(log, "\n"), log);
    }
    for (int k = 0; k < KERNELS && !rc; k++) {
        a->kernels[k] = a->cl->clCreateKernel(a->program, names[k], &rc);
        rc = rc ? rc : a->cl->clSetKernelArg(a->kernels[k], 0, sizeof a->command, &a->command);
        rc = rc ? rc : a->cl->clSetKernelArg(a->kernels[k], 2, sizeof a->tables, &a->tables);
        rc = rc ? rc : a->cl->clSetKernelArg(a->kernels[k], 3, sizeof a->result, &a->result);
    }
    return rc ? refused(a, "making its kernels", rc, err) : 0;
}

static int parts_open(struct accelerator *a, struct err *err)
{
    const struct opencl *cl = a->cl;
    cl_bool              shares = 0;
    uint32_t             tables[TABLES];
    cl_int               rc = 0;

    cl->clGetDeviceInfo(a->device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof shares, &shares, NULL);
    a->shares = shares != 0;
    a->context = cl->clCreateContext(NULL, 1, &a->device, NULL, NULL, &rc);
    if (!rc)
        a->queue = cl->clCreateCommandQueue(a->context, a->device, 0, &rc);
    tables_fill(tables);
    if (!rc)
        a->command = cl->clCreateBuffer(a->context, CL_MEM_READ_ONLY, sizeof a->asked, NULL, &rc);
    if (!rc)
        a->result = cl->clCreateBuffer(a->context, CL_MEM_READ_WRITE, sizeof a->answered, NULL,
                                       &rc);
    if (!rc)
        a->tables = cl->clCreateBuffer(a->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                       sizeof tables, tables, &rc);
    return rc ? refused(a, "a queue and buffers", rc, err) : program_open(a, err);
}

static int accelerator_open(struct engine **out, const struct csd_config *cfg,
                            void (*wake)(void *ctx), void *ctx, struct err *err)
{
    const struct opencl *cl = opencl_load(err);
    struct accelerator  *a = cl ? calloc(1, sizeof *a) : NULL;
    char                 name[OPENCL_NAME + 16];

    if (!a)
        return cl ? err_set(err, -ENOMEM, "device %d: out of memory", cfg->id) : -ENOENT;
    a->thread.base.ops = &engine_opencl;
    a->thread.run = accelerator_run;
    a->cl = cl;
    a->timeout_ns = cfg->timeout_ns;
    pthread_mutex_init(&a->mutex, NULL);
    pthread_cond_init(&a->changed, NULL);
    int rc = opencl_device(cl, (unsigned)cfg->id, &a->device, a->name, err);
    rc = rc ? rc : parts_open(a, err);
    rc = rc ? rc : engine_thread_open(&a->thread, cfg->id, err);
    if (!rc) {
        snprintf(name, sizeof name, "OpenCL's %s", a->name);
        rc = engine_prove(&a->thread.base, name, err);
    }
    if (rc) {
        accelerator_close(&a->thread.base);
        return rc;
    }
    a->thread.wake = wake;
    a->thread.ctx = ctx;
    *out = &a->thread.base;
    return 0;
}

static int accelerator_usable(struct err *err)
{
    const struct opencl *cl = opencl_load(err);
    cl_device_id         device;
    char                 name[OPENCL_NAME];

    return cl ? opencl_device(cl, 0, &device, name, err) : -ENOENT;
}

const struct engine_ops engine_opencl = {
    .usable = accelerator_usable, .open = accelerator_open, .alloc = accelerator_alloc,
    .release = accelerator_release, .start = engine_thread_start, .poll = engine_thread_poll,
    .close = accelerator_close,
};
