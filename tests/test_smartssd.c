/* test_smartssd.c: the software SmartSSD (tests/smartssd), through libxrt's C calls as a program
 * finds them with dlopen: both kernels of csd/hls, with what they work on from a file by O_DIRECT
 * and io_uring and back, against the same kernels in host memory; what a client forgets shows; each
 * fault that can be asked for shows, and the process gets away with it. All in processes of their
 * own: libxrt loads a driver once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#if !__has_include(<xrt/xrt_device.h>)
#include <stdio.h>
int main(void)
{
    puts("1..1\nok 1 - a software SmartSSD # SKIP libxrt-dev and uuid-dev were not here, or XRT=0");
    return 77;
}
#else

#include "csd/csd.h"
#include "csd/engine/grad_wire.h"
#include "csd/hls/command.h"
#include "tests/tempdir.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>
#include <ert.h>
#include <experimental/xrt_ini.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

/* csd/hls: lines of 64 bytes. */
void sitrain_update(const void *command, const void *w, const void *m, const void *v,
                    const void *grad, void *w_out, void *m_out, void *v_out, void *wire,
                    void *result);
void sitrain_scatter(const void *command, const void *packed, void *dense, void *result);

#define CALLS(X) \
    X(xrtIniStringSet) X(xrtDeviceOpen) X(xrtDeviceOpenByBDF) X(xrtDeviceClose) \
    X(xrtDeviceLoadXclbinFile) X(xrtDeviceGetXclbinUUID) X(xrtDeviceToXclDevice) \
    X(xrtPLKernelOpen) X(xrtKernelClose) X(xrtKernelArgGroupId) X(xrtBOAlloc) X(xrtBOFree) \
    X(xrtBOMap) X(xrtBOSync) X(xrtBOAddress) X(xrtRunOpen) X(xrtRunClose) X(xrtRunSetArg) \
    X(xrtRunStart) X(xrtRunWaitFor) X(xrtRunState)
#define FIELD(f) __typeof__(f) *f;
static struct { CALLS(FIELD) } xrt;

enum { FTZ = 0x8000, DAZ = 0x0040, N = 3000, PAD = 4096, UPDATE_ARGS = 10, SCATTER_ARGS = 4 };
enum { COMMAND, AREA, RESULT, BUFFERS }; // AREA: P2P, all that a kernel works on
enum { W, M, V, GRAD, WIRE, PARTS };     // of an area, PAD floats each
enum { PART = PAD * sizeof(float), LINES = PART / HLS_LINE };

static const int update_buffers[UPDATE_ARGS] = { COMMAND, AREA, AREA, AREA, AREA, AREA, AREA, AREA,
                                                 AREA, RESULT };
static const int scatter_buffers[SCATTER_ARGS] = { COMMAND, AREA, AREA, RESULT };
static const char *folder; // what XILINX_XRT is

/* ---- a client ---- */

/* How far it came; of a run that ended wrongly, RUN plus its state. */
enum step { OPENED, LOADED, KERNELS, ALLOCATED, MAPPED, SYNCED, STARTED, DONE, RUN = 20 };

struct client {
    xrtDeviceHandle device;
    xrtKernelHandle update, scatter;
    xrtBufferHandle buffer[BUFFERS];
    char           *map[BUFFERS];
    xrtRunHandle    run;
};

static size_t bytes_of(int buffer) { return buffer == AREA ? PARTS * PART : 4096; }

/* The calls that a program finds where libxrt is; nothing is said of what fails. */
static void find_calls(void)
{
    void *library = dlopen("libxrt_coreutil.so.2", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        exit(99);
#define FIND(f) \
    xrt.f = (__typeof__(f) *)dlsym(library, #f); \
    if (!xrt.f) \
        exit(99);
    CALLS(FIND)
    xrt.xrtIniStringSet("Runtime.runtime_log", "null");
}

/* All arguments of a kernel in one bank: that bank's group; -1: it is not so. */
static int group_of(xrtKernelHandle kernel, int n_args)
{
    int group = xrt.xrtKernelArgGroupId(kernel, 0);

    for (int i = 1; i < n_args; i++)
        if (xrt.xrtKernelArgGroupId(kernel, i) != group)
            return -1;
    return group;
}

static enum step client_open(struct client *c, unsigned device, const char *image)
{
    char   path[4096];
    xuid_t id;

    *c = (struct client){ 0 };
    snprintf(path, sizeof path, "%s/%s.xclbin", folder, image);
    c->device = xrt.xrtDeviceOpen(device);
    if (!c->device)
        return OPENED;
    if (xrt.xrtDeviceLoadXclbinFile(c->device, path) || xrt.xrtDeviceGetXclbinUUID(c->device, id))
        return LOADED;
    c->update = xrt.xrtPLKernelOpen(c->device, id, "sitrain_update");
    c->scatter = xrt.xrtPLKernelOpen(c->device, id, "sitrain_scatter");
    int group = c->update && c->scatter ? group_of(c->update, UPDATE_ARGS) : -1;
    if (group < 0 || group_of(c->scatter, SCATTER_ARGS) != group)
        return KERNELS;
    for (int i = 0; i < BUFFERS; i++) {
        c->buffer[i] = xrt.xrtBOAlloc(c->device, bytes_of(i),
                                      i == AREA ? XRT_BO_FLAGS_P2P : XRT_BO_FLAGS_NONE,
                                      (unsigned)group);
        if (!c->buffer[i])
            return ALLOCATED;
        c->map[i] = xrt.xrtBOMap(c->buffer[i]);
        if (!c->map[i] || (uintptr_t)c->map[i] % 4096)
            return MAPPED;
    }
    return DONE;
}

/* Also after a failure, in any state. */
static void client_close(struct client *c)
{
    if (c->run)
        xrt.xrtRunClose(c->run);
    for (int i = 0; i < BUFFERS; i++)
        if (c->buffer[i])
            xrt.xrtBOFree(c->buffer[i]);
    if (c->update)
        xrt.xrtKernelClose(c->update);
    if (c->scatter)
        xrt.xrtKernelClose(c->scatter);
    if (c->device)
        xrt.xrtDeviceClose(c->device);
}

static int sync_of(struct client *c, int buffer, enum xclBOSyncDirection direction)
{
    return xrt.xrtBOSync(c->buffer[buffer], direction, bytes_of(buffer), 0);
}

/* DONE, or how far it came. */
static enum step run(struct client *c, xrtKernelHandle kernel, const int *buffers, int n)
{
    if (c->run)
        xrt.xrtRunClose(c->run);
    c->run = xrt.xrtRunOpen(kernel);
    for (int i = 0; i < n; i++)
        if (!c->run || xrt.xrtRunSetArg(c->run, i, c->buffer[buffers[i]]))
            return STARTED;
    if (xrt.xrtRunStart(c->run))
        return STARTED;
    int state = (int)xrt.xrtRunWaitFor(c->run, 500);
    return state == ERT_CMD_STATE_COMPLETED ? DONE : (enum step)(RUN + state);
}

/* ---- what it asks for ---- */

struct work {
    struct hls_update_command command;
    uint32_t                  end, decay, rest[14];
    float                     part[PARTS][PAD];
    struct hls_update_result  result;
};

static uint32_t bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

static struct work *work_new(void)
{
    struct work *k = aligned_alloc(4096, (sizeof *k + 4095) / 4096 * 4096);

    if (!k)
        exit(99);
    memset(k, 0, sizeof *k);
    k->command = (struct hls_update_command){
        .version = HLS_VERSION, .kind = OPTIM_ADAMW, .moments = 2, .unchecked = 1, .n = N,
        .n_pad = PAD, .n_segments = 1, .grad_scale = bits(1),
        .beta1 = bits(0.9f), .beta2 = bits(0.999f),
        .one_minus_beta1 = bits(0.1f), .one_minus_beta2 = bits(0.001f), .step_size = bits(1e-2f),
        .bias2_sqrt = bits(0.5f), .eps = bits(1e-8f), .w = W * LINES, .m = M * LINES,
        .v = V * LINES, .grad = GRAD * LINES, .w_out = W * LINES, .m_out = M * LINES,
        .v_out = V * LINES, .wire = WIRE * LINES };
    k->end = N;
    k->decay = bits(0.999f);
    for (int i = 0; i < N; i++) {
        k->part[W][i] = sinf((float)i);
        k->part[M][i] = cosf((float)i) * 0.1f;
        k->part[V][i] = i % 9 ? fabsf(k->part[M][i]) : 1e-41f; // subnormal ones, too
        k->part[GRAD][i] = sinf((float)i * 0.7f);
    }
    return k;
}

/* What the kernel makes of it in host memory. */
static void expect(struct work *k)
{
    unsigned csr = _mm_getcsr();
    void    *all = k->part;

    _mm_setcsr(csr | FTZ | DAZ);
    sitrain_update(k, all, all, all, all, all, all, all, all, &k->result);
    _mm_setcsr(csr);
}

static void put_command(struct client *c, const void *command, size_t n)
{
    memset(c->map[COMMAND], 0, bytes_of(COMMAND));
    memcpy(c->map[COMMAND], command, n);
}

static int ring_once(struct io_uring *r, int writes, int fd, void *at, unsigned bytes, off_t off)
{
    struct io_uring_sqe *s = io_uring_get_sqe(r);
    struct io_uring_cqe *done;

    if (writes)
        io_uring_prep_write(s, fd, at, bytes, (uint64_t)off);
    else
        io_uring_prep_read(s, fd, at, bytes, (uint64_t)off);
    if (io_uring_submit_and_wait(r, 1) < 0 || io_uring_peek_cqe(r, &done))
        return -1;
    int got = done->res;
    io_uring_cqe_seen(r, done);
    return got;
}

/* The area between the file and P2P memory, no host memory between: the first part by pread or
 * pwrite, the others by io_uring. */
static int transfer(struct client *c, int fd, struct io_uring *r, int writes)
{
    char    *at = c->map[AREA];
    unsigned rest = (PARTS - 1) * PART;
    ssize_t  got = writes ? pwrite(fd, at, PART, 0) : pread(fd, at, PART, 0);

    return got == PART && ring_once(r, writes, fd, at + PART, rest, PART) == (int)rest ? 0 : -1;
}

/* The kernel refuses to pin what a file lies behind, as it does with a card's memory; a tmpfs is
 * none in that sense. */
static int registered(struct io_uring *r, const struct client *c)
{
    struct statfs fs;
    struct iovec  v = { c->map[AREA], PARTS * PART };
    const char   *at = getenv("SMARTSSD_FOLDER");

    if (statfs(at ? at : "/var/tmp", &fs) || fs.f_type == 0x01021994)
        return 0;
    return io_uring_register_buffers(r, &v, 1) == 0;
}

#define NEED(x) if (!rc && !(x)) rc = __LINE__

/* The update of what is in a file: 0, or the line where it went wrong. */
static int update_of_file(struct client *c, const char *path)
{
    struct work    *k = work_new();
    struct io_uring r;
    char           *area = c->map[AREA];
    int             fd = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600), rc = 0;

    NEED(fd >= 0 && io_uring_queue_init(4, &r, 0) == 0);
    memcpy(area, k->part, sizeof k->part);
    NEED(transfer(c, fd, &r, 1) == 0);
    memset(area, 0, sizeof k->part);
    NEED(transfer(c, fd, &r, 0) == 0);
    NEED(!registered(&r, c));
    put_command(c, k, offsetof(struct work, part));
    NEED(sync_of(c, COMMAND, XCL_BO_SYNC_BO_TO_DEVICE) == 0);
    NEED(run(c, c->update, update_buffers, UPDATE_ARGS) == DONE);
    NEED(transfer(c, fd, &r, 1) == 0);
    memset(area, 0, sizeof k->part);
    NEED(transfer(c, fd, &r, 0) == 0);
    NEED(sync_of(c, RESULT, XCL_BO_SYNC_BO_FROM_DEVICE) == 0);
    expect(k);
    NEED(k->part[WIRE][1] != 0 && k->part[W][1] != sinf(1));
    NEED(memcmp(area, k->part, sizeof k->part) == 0);
    NEED(memcmp(c->map[RESULT], &k->result, sizeof k->result) == 0);
    io_uring_queue_exit(&r);
    close(fd);
    free(k);
    return rc;
}

/* A packed gradient in GRAD becomes a dense one in W. */
static int scatter_of_memory(struct client *c)
{
    struct topk_pair           pair[] = { { 5, 1.5f }, { 2999, -2 } };
    struct hls_scatter_command command = {
        .version = HLS_VERSION, .n = N, .n_pad = PAD, .pairs = 2, .packed = GRAD * LINES,
        .dense = W * LINES, .lines = (uint32_t)(grad_wire_bytes(2) / HLS_LINE), .ends = 1 };
    const struct hls_scatter_result *r = (const void *)c->map[RESULT];
    int                              rc = 0;

    put_command(c, &command, sizeof command);
    grad_wire_pack(c->map[AREA] + GRAD * PART, pair, 2, 0, N);
    NEED(sync_of(c, COMMAND, XCL_BO_SYNC_BO_TO_DEVICE) == 0);
    NEED(run(c, c->scatter, scatter_buffers, SCATTER_ARGS) == DONE);
    NEED(sync_of(c, RESULT, XCL_BO_SYNC_BO_FROM_DEVICE) == 0);
    NEED(r->version == HLS_VERSION && r->fault == 0 && r->state.seen == 2);
    for (int i = 0; i < PAD; i++)
        NEED(((float *)c->map[AREA])[i] == (i == 5 ? 1.5f : i == 2999 ? -2 : 0));
    return rc;
}

/* ---- each in a process ---- */

static int in_process(int (*what)(const char *), const char *arg)
{
    int status = 0;

    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        find_calls();
        exit(what(arg)); // through all that libxrt does at the end of a process
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

struct worker { struct client client; char path[4096]; int line; };

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < 4 && !w->line; i++)
        w->line = update_of_file(&w->client, w->path);
    if (!w->line)
        w->line = scatter_of_memory(&w->client);
    return NULL;
}

/* On two devices at once, a thread each, which one thread has opened. */
static int both_kernels(const char *path)
{
    static struct worker w[2];
    pthread_t            thread[2];
    int                  rc = 0;

    for (unsigned i = 0; i < 2; i++) {
        snprintf(w[i].path, sizeof w[i].path, "%s%u", path, i);
        NEED(client_open(&w[i].client, i, "sitrain") == DONE);
    }
    for (int i = 0; i < 2; i++)
        NEED(pthread_create(&thread[i], NULL, work, &w[i]) == 0);
    for (int i = 0; i < 2; i++) {
        NEED(pthread_join(thread[i], NULL) == 0);
        rc = rc ? rc : w[i].line;
    }
    for (int i = 0; i < 2; i++)
        client_close(&w[i].client);
    if (rc)
        fprintf(stderr, "wrong in line %d\n", rc);
    return rc != 0;
}

static void test_kernels(void **state)
{
    (void)state;
    setenv("SMARTSSD_DEVICES", "2", 1);
    assert_int_equal(in_process(both_kernels, tempdir_at("states")), 0);
    unsetenv("SMARTSSD_DEVICES");
}

/* Two updates; how far it came. */
static int two_updates(const char *image)
{
    struct client c;
    struct work  *k = work_new();
    enum step     step = client_open(&c, 0, image);

    if (step == DONE) {
        memcpy(c.map[AREA], k->part, sizeof k->part);
        put_command(&c, k, offsetof(struct work, part));
        if (sync_of(&c, COMMAND, XCL_BO_SYNC_BO_TO_DEVICE) ||
            sync_of(&c, RESULT, XCL_BO_SYNC_BO_TO_DEVICE))
            step = SYNCED;
    }
    for (int i = 0; i < 2 && step == DONE; i++)
        step = run(&c, c.update, update_buffers, UPDATE_ARGS);
    client_close(&c);
    free(k);
    return (int)step;
}

static void test_faults(void **state)
{
    static const struct { const char *variable, *value, *image; int step; } row[] = {
        { "SMARTSSD_FAULT", "", "sitrain", DONE },
        { "SMARTSSD_FAULT", "open@1,exec=9", "sitrain", DONE }, // another device's; not so many
        { "SMARTSSD_DEVICES", "0", "sitrain", OPENED },
        { "SMARTSSD_FAULT", "open@0", "sitrain", OPENED },
        { "SMARTSSD_FAULT", "load=1:16", "sitrain", LOADED },
        { "SMARTSSD_FAULT", "context", "sitrain", KERNELS },
        { "SMARTSSD_FAULT", "alloc=2", "sitrain", ALLOCATED },
        { "SMARTSSD_P2P", "0", "sitrain", ALLOCATED },
        { "SMARTSSD_MEMORY", "0", "sitrain", ALLOCATED },
        { "SMARTSSD_FAULT", "map=1", "sitrain", ALLOCATED }, // libxrt maps P2P when it allocates
        { "SMARTSSD_FAULT", "sync=2", "sitrain", SYNCED },
        { "SMARTSSD_FAULT", "exec=2", "sitrain", STARTED },
        { "SMARTSSD_FAULT", "vanish=1", "sitrain", STARTED },
        { "SMARTSSD_FAULT", "hang=2", "sitrain", RUN + ERT_CMD_STATE_TIMEOUT },
        { "SMARTSSD_FAULT", "error=2", "sitrain", RUN + ERT_CMD_STATE_ERROR },
        { "SMARTSSD_FAULT", "error=1:6", "sitrain", RUN + ERT_CMD_STATE_ABORT },
        { "SMARTSSD_LATENCY_MS", "1000", "sitrain", RUN + ERT_CMD_STATE_TIMEOUT },
        { "SMARTSSD_FAULT", "", "without", KERNELS },
        { "SMARTSSD_FAULT", "", "short", KERNELS },
        { "SMARTSSD_FAULT", "", "scattered", KERNELS },
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        setenv(row[i].variable, row[i].value, 1);
        int step = in_process(two_updates, row[i].image);
        if (step != row[i].step)
            fail_msg("%s=%s, %s.xclbin: %d and not %d", row[i].variable, row[i].value,
                     row[i].image, step, row[i].step);
        unsetenv(row[i].variable);
    }
}

/* ---- a client's mistakes ---- */

static int mistake(const char *what)
{
    struct client c;
    struct work  *k = work_new();
    enum step     step = client_open(&c, 0, "sitrain");
    int           buffers[UPDATE_ARGS];

    memcpy(buffers, update_buffers, sizeof buffers);
    if (strcmp(what, "too long") == 0)
        k->command.n_pad = 64 * PAD; // the area ends long before
    if (strcmp(what, "far away") == 0)
        k->command.wire = UINT32_MAX - PAD; // lines: behind all memory
    if (strcmp(what, "small") == 0)
        buffers[1] = RESULT; // a page, of which W's place is not
    if (step != DONE)
        return (int)step;
    memcpy(c.map[AREA], k->part, sizeof k->part);
    put_command(&c, k, offsetof(struct work, part));
    if (strcmp(what, "no sync") != 0)
        sync_of(&c, COMMAND, XCL_BO_SYNC_BO_TO_DEVICE);
    step = run(&c, c.update, buffers, UPDATE_ARGS);
    if (step == DONE) { // of what nobody wrote the kernel makes no version
        sync_of(&c, RESULT, XCL_BO_SYNC_BO_FROM_DEVICE);
        step = ((struct hls_update_result *)c.map[RESULT])->version == HLS_VERSION ? DONE : SYNCED;
    }
    client_close(&c);
    free(k);
    return (int)step;
}

static void test_mistakes(void **state)
{
    (void)state;
    assert_int_equal(in_process(mistake, "none"), DONE);
    assert_int_equal(in_process(mistake, "no sync"), SYNCED);
    assert_int_equal(in_process(mistake, "too long"), RUN + ERT_CMD_STATE_ERROR);
    assert_int_equal(in_process(mistake, "far away"), RUN + ERT_CMD_STATE_ERROR);
    assert_int_equal(in_process(mistake, "small"), RUN + ERT_CMD_STATE_ERROR);
}

/* ---- places ---- */

/* Device 1 is 0000:32:00.1, and what it says of itself is that. */
static int by_place(const char *unused)
{
    xrtDeviceHandle d = xrt.xrtDeviceOpenByBDF("0000:32:00.1");
    struct xclDeviceInfo2 info;

    (void)unused;
    int (*ask)(xclDeviceHandle, struct xclDeviceInfo2 *) =
        (int (*)(xclDeviceHandle, struct xclDeviceInfo2 *))dlsym(RTLD_DEFAULT, "xclGetDeviceInfo2");
    if (!d || !ask || ask(xrt.xrtDeviceToXclDevice(d), &info) || info.mPciSlot != 0x3201)
        return 1;
    xrt.xrtDeviceClose(d);
    return xrt.xrtDeviceOpenByBDF("0000:40:00.1") != NULL;
}

static void test_places(void **state)
{
    (void)state;
    setenv("SMARTSSD_DEVICES", "2", 1);
    assert_int_equal(in_process(by_place, NULL), 0);
    unsetenv("SMARTSSD_DEVICES");
}

/* Beside this program, in the build folder. */
static const char *find_folder(void)
{
    static char path[4096];
    ssize_t     n = readlink("/proc/self/exe", path, sizeof path - 64);

    path[n < 0 ? 0 : n] = 0;
    strcpy(strrchr(path, '/') + 1, "smartssd");
    return path;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_kernels),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_places),
    };
    char driver[4200];

    folder = find_folder();
    snprintf(driver, sizeof driver, "%s/lib/libxrt_core.so.2", folder);
    if (access(driver, R_OK) != 0) {
        puts("1..1\nok 1 - a software SmartSSD # SKIP it was not built: make smartssd says why");
        return 77;
    }
    setenv("XILINX_XRT", folder, 1);
    unsetenv("XCL_EMULATION_MODE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
