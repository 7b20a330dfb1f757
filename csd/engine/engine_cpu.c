/* engine_cpu.c: updates with this processor, in memory of this process. Emulated devices use it,
 * and with --mode base all devices do. It computes within poll, on the worker's core: one core is
 * one device. */
#include "csd/engine/engine.h"

#include "data/base/arena.h"
#include "data/base/crc32c.h"

struct cpu {
    struct engine      base;
    struct engine_set *at_work;
};

static int cpu_open(struct engine **out, const struct csd_config *cfg, void (*wake)(void *ctx),
                    void *ctx, struct err *err)
{
    struct cpu *e = calloc(1, sizeof *e);

    (void)wake, (void)ctx;
    if (!e)
        return err_set(err, -ENOMEM, "device %d: out of memory", cfg->id);
    e->base.ops = &engine_cpu;
    *out = &e->base;
    return 0;
}

static int cpu_alloc(struct engine *e, struct engine_set *s, size_t bytes, struct err *err)
{
    struct arena mem = {.align = ARENA_IO};

    (void)e;
    arena_take(&mem, bytes);
    int rc = arena_map(&mem, "updates of an emulated device", err);
    s->base = mem.base;
    s->bytes = mem.bytes;
    return rc;
}

static void cpu_release(struct engine *e, struct engine_set *s)
{
    struct arena mem = {.base = s->base, .bytes = s->bytes};

    (void)e;
    arena_free(&mem);
    s->base = NULL;
    s->bytes = 0;
}

static void scatter(struct engine_set *s)
{
    if (s->at == 0) {
        memset(s->area.grad, 0, s->area.grad_bytes);
        grad_wire_begin(&s->reader, s->u->n, s->u->pairs);
    }
    s->sums.grad = crc32c(s->sums.grad, s->area.wire, s->n);
    s->status = grad_wire_scatter(&s->reader, s->area.grad, s->area.wire, s->n, &s->why);
}

static void cpu_start(struct engine *e, struct engine_set *s) { ((struct cpu *)e)->at_work = s; }

static struct engine_set *cpu_poll(struct engine *base)
{
    struct cpu        *e = (struct cpu *)base;
    struct engine_set *s = e->at_work;

    e->at_work = NULL;
    if (!s)
        return NULL;
    s->status = 0;
    if (s->what == ENGINE_SCATTER)
        scatter(s);
    else
        update_area_pass(&s->area, s->u, s->at, s->n, &s->sums);
    return s;
}

static void cpu_close(struct engine *e) { free(e); }

const struct csd_caps engine_cpu_caps = {.optims = ~0u, .pairs = 1};

const struct engine_ops engine_cpu = {
    .in_slices = 1,
    .open = cpu_open, .alloc = cpu_alloc, .release = cpu_release, .start = cpu_start,
    .poll = cpu_poll, .close = cpu_close,
};
