/* runs.c: start packets are decoded and the kernels of csd/hls run on device memory, compiled from
 * the source that is synthesised, in a thread that takes subnormals for zeros, as the card's
 * operators do. An address that is in no buffer, or in a bank that the argument is not wired to,
 * ends a run in ERT_CMD_STATE_ERROR; so does a kernel that goes beyond its buffers: it is caught at
 * the page behind them. */
#include "tests/smartssd/device.h"

#include <ert.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xmmintrin.h>

enum { FTZ = 0x8000, DAZ = 0x0040, REGISTERS = 256 };

struct run {
    struct run  *next;
    unsigned     buffer;
    struct unit *unit;
    unsigned     n;
    uint32_t     reg[REGISTERS];
};

/* csd/hls: lines of 64 bytes. */
void sitrain_update(const void *command, const void *w, const void *m, const void *v,
                    const void *grad, void *w_out, void *m_out, void *v_out, void *wire,
                    void *result);
void sitrain_scatter(const void *command, const void *packed, void *dense, void *result);

static void update(void *const *p)
{
    sitrain_update(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9]);
}

static void scatter(void *const *p) { sitrain_scatter(p[0], p[1], p[2], p[3]); }

static const struct { const char *name; int n_args; void (*run)(void *const *p); } kernels[] = {
    { "sitrain_update", 10, update },
    { "sitrain_scatter", 4, scatter },
};

/* ---- a kernel that goes too far ---- */

static _Thread_local sigjmp_buf            landing;
static _Thread_local volatile sig_atomic_t in_kernel;
static struct sigaction                    segv_before, bus_before;

static void on_bad_access(int sig, siginfo_t *info, void *context)
{
    struct sigaction *before = sig == SIGBUS ? &bus_before : &segv_before;

    if (in_kernel)
        siglongjmp(landing, 1);
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(sig, info, context);
    else
        sigaction(sig, before, NULL); // and what was tried is tried again
}

static void catch_bad_accesses(void)
{
    struct sigaction a = { .sa_sigaction = on_bad_access, .sa_flags = SA_SIGINFO | SA_NODEFER };

    sigaction(SIGSEGV, &a, &segv_before);
    sigaction(SIGBUS, &a, &bus_before);
}

/* ---- one run ---- */

static int wired(const struct device *d, const struct unit *u, int arg, int bank)
{
    for (int i = 0; i < d->memory.n_banks; i++)
        if (u->banks[arg] >> i & 1 && d->memory.bank[i].bytes && d->memory.bank[i].same_as == bank)
            return 1;
    return 0;
}

/* Host pointers of all arguments; 0 where one of them has none. */
static int find_arguments(struct device *d, const struct run *r, int n, void **p)
{
    const struct unit *u = r->unit;

    if (u->n_args != n) {
        device_complain(d, "%s takes %d arguments, the xclbin says %d", u->kernel, n, u->n_args);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        unsigned at = (unsigned)u->offset[i] / 4;
        uint64_t address = at + 1 < r->n ? r->reg[at] | (uint64_t)r->reg[at + 1] << 32 : 0;
        struct buffer *b = memory_at(&d->memory, address, &p[i]);

        if (!b || (uintptr_t)p[i] % 64) {
            device_complain(d, "%s: argument %d: 0x%llx is no line of a buffer", u->kernel, i,
                            (unsigned long long)address);
            return 0;
        }
        if (!wired(d, u, i, b->bank)) {
            device_complain(d, "%s: argument %d does not reach bank %d", u->kernel, i, b->bank);
            return 0;
        }
    }
    return 1;
}

/* Of sanitizers, where one is there: a kernel that is left in the middle leaves its streams. */
__attribute__((weak)) void __lsan_disable(void);
__attribute__((weak)) void __lsan_enable(void);

/* 0 where it went beyond what it was given. */
static int returns(void (*kernel)(void *const *), void *const *p)
{
    volatile int done = 0;

    if (__lsan_disable)
        __lsan_disable();
    if (sigsetjmp(landing, 1) == 0) {
        in_kernel = 1;
        kernel(p);
        done = 1;
    }
    in_kernel = 0;
    if (__lsan_enable)
        __lsan_enable();
    return done;
}

/* ERT_CMD_STATE_.. that it ends in. Lock held; not while the kernel runs. */
static unsigned run_kernel(struct device *d, const struct run *r)
{
    void    *p[IMAGE_ARGS];
    unsigned k = 0, n = sizeof kernels / sizeof *kernels;

    while (k < n && strcmp(kernels[k].name, r->unit->kernel) != 0)
        k++;
    if (k == n) {
        device_complain(d, "there is no kernel %s", r->unit->kernel);
        return ERT_CMD_STATE_ERROR;
    }
    if (!find_arguments(d, r, kernels[k].n_args, p))
        return ERT_CMD_STATE_ERROR;
    pthread_mutex_unlock(&d->lock);
    int done = returns(kernels[k].run, p);
    pthread_mutex_lock(&d->lock);
    if (!done)
        device_complain(d, "%s goes beyond its buffers", r->unit->kernel);
    return done ? ERT_CMD_STATE_COMPLETED : ERT_CMD_STATE_ERROR;
}

/* ---- the worker ---- */

static void set_state(struct device *d, unsigned buffer, unsigned state)
{
    struct buffer *b = memory_buffer(&d->memory, buffer);
    uint32_t      *header = b ? b->host : NULL;

    if (header)
        __atomic_store_n(header, (__atomic_load_n(header, __ATOMIC_RELAXED) & ~0xfu) | state,
                         __ATOMIC_RELEASE);
}

static void nap(void)
{
    const char *s = getenv("SMARTSSD_LATENCY_MS");
    long        ms = s ? strtol(s, NULL, 10) : 0;

    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void run_one(struct device *d, const struct run *r)
{
    set_state(d, r->buffer, ERT_CMD_STATE_RUNNING);
    pthread_mutex_unlock(&d->lock);
    nap();
    pthread_mutex_lock(&d->lock);
    r->unit->hangs |= faults_hit(&d->faults, FAULT_HANG, 1);
    if (d->gone || r->unit->hangs)
        return;
    int      forced = faults_hit(&d->faults, FAULT_ERROR, ERT_CMD_STATE_ERROR);
    unsigned state = forced ? (unsigned)forced : run_kernel(d, r);
    set_state(d, r->buffer, state);
    d->n_ended++;
    d->gone |= faults_hit(&d->faults, FAULT_VANISH, 1);
    pthread_cond_broadcast(&d->ended);
}

static void *work(void *arg)
{
    struct device *d = arg;

    _mm_setcsr(_mm_getcsr() | FTZ | DAZ);
    pthread_mutex_lock(&d->lock);
    while (!d->stop) {
        struct run *r = d->first;

        if (!r) {
            pthread_cond_wait(&d->work, &d->lock);
            continue;
        }
        d->first = r->next;
        if (!d->first)
            d->last = &d->first;
        run_one(d, r);
        free(r);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

int runs_open(struct device *d)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_condattr_t    clock;

    pthread_once(&once, catch_bad_accesses);
    d->last = &d->first;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&d->work, NULL);
    pthread_cond_init(&d->ended, &clock);
    return -pthread_create(&d->worker, NULL, work, d);
}

void runs_close(struct device *d)
{
    pthread_mutex_lock(&d->lock);
    d->stop = 1;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->worker, NULL);
    for (struct run *r = d->first, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    d->first = NULL;
}

/* ---- the client's side ---- */

/* The unit that the packet's masks name, and its registers. */
static int decode(struct device *d, const struct ert_start_kernel_cmd *c, struct run *r)
{
    const uint32_t *word = &c->cu_mask; // count words
    unsigned        masks = 1 + c->extra_cu_masks;

    if (c->state != ERT_CMD_STATE_NEW || c->opcode != ERT_START_CU || c->count < masks ||
        c->count - masks > REGISTERS)
        return -EINVAL;
    for (int i = 0; i < d->image.n_units && !r->unit; i++)
        if ((unsigned)i / 32 < masks && word[i / 32] >> i % 32 & 1)
            r->unit = &d->image.unit[i];
    if (!r->unit || !(r->unit->shared || r->unit->exclusive))
        return -EINVAL;
    r->n = c->count - masks;
    memcpy(r->reg, word + masks, sizeof *r->reg * r->n);
    return 0;
}

int runs_submit(struct device *d, unsigned buffer)
{
    struct buffer *b = memory_buffer(&d->memory, buffer);
    struct run    *r = calloc(1, sizeof *r);
    int            rc = !r ? -ENOMEM : b && b->host ? decode(d, b->host, r) : -EINVAL;

    if (rc) {
        device_complain(d, "a command that is none, or of a unit without a context");
        free(r);
        return rc;
    }
    r->buffer = buffer;
    *d->last = r;
    d->last = &r->next;
    set_state(d, buffer, ERT_CMD_STATE_QUEUED);
    pthread_cond_signal(&d->work);
    return 0;
}

int runs_wait(struct device *d, int ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000l;
    if (until.tv_nsec >= 1000000000l) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000l;
    }
    while (!d->n_ended) {
        int rc = ms < 0 ? pthread_cond_wait(&d->ended, &d->lock)
                        : pthread_cond_timedwait(&d->ended, &d->lock, &until);
        if (rc == ETIMEDOUT)
            return 0;
    }
    d->n_ended--;
    return 1;
}
