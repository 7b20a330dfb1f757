/* act_stack.c: what forward leaves to backward, through a few buffers. */
#include "offload/act_stack.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"

#include <assert.h>

size_t act_stack_buffer(const struct run_config *cfg)
{
    return devices_act_part(cfg, cfg->acts.bytes) * cfg->n_devices;
}

void act_stack_tables(struct act_stack *k, struct arena *a)
{
    const struct run_config *cfg = &k->hub->cfg;

    k->n_buffers = cfg->acts.n ? cfg->acts.buffers : 0;
    k->buffers = arena_take(a, k->n_buffers * sizeof *k->buffers);
    k->tasks = arena_take(a, k->n_buffers * cfg->n_devices * sizeof *k->tasks);
    k->bytes = arena_take(a, cfg->acts.n * sizeof *k->bytes);
    k->crc = arena_take(a, cfg->acts.n * cfg->n_devices * sizeof *k->crc);
}

void act_stack_lay(struct act_stack *k, struct arena *a)
{
    const struct run_config *cfg = &k->hub->cfg;

    assert(!cfg->acts.n || (cfg->acts.buffers > 0 && cfg->acts.bytes > 0));
    for (size_t i = 0; i < k->n_buffers; i++)
        k->buffers[i] = (struct act_buffer){ .values = arena_take(a, act_stack_buffer(cfg)),
                                             .entry = SIZE_MAX,
                                             .parts = k->tasks + i * cfg->n_devices };
}

/* ---- the model's side */

static struct act_buffer *buffer_of(struct act_stack *k, size_t entry)
{
    return &k->buffers[entry % k->n_buffers];
}

int act_stack_lend(struct act_stack *k, int popping, void **out, struct err *err)
{
    size_t             entry = popping ? k->depth - 1 : k->depth;
    struct act_buffer *b = buffer_of(k, entry);
    uint64_t           since = 0;

    assert(entry < k->hub->cfg.acts.n);
    hub_enter(k->hub);
    assert(!b->lent);
    k->popping = popping;
    while (!(popping ? b->entry == entry && b->state != ACT_READING : b->state == ACT_IDLE) &&
           hub_wait(k->hub, &since))
        ;
    b->lent = 1;
    b->entry = entry;
    *out = b->values;
    hub_waited(k->hub, since, popping ? PHASE_ACT_READ : PHASE_ACT_WRITE, -1);
    return hub_leave(k->hub, 0, err);
}

/* What part d of an entry of `bytes` holds of it. */
static size_t part_payload(const struct act_stack *k, size_t bytes, size_t d)
{
    size_t part = devices_act_part(&k->hub->cfg, bytes), first = d * part;

    return first >= bytes ? 0 : size_min(bytes - first, part);
}

void act_stack_pushed(struct act_stack *k, size_t bytes, size_t left)
{
    size_t             n = k->hub->cfg.n_devices, part = devices_act_part(&k->hub->cfg, bytes);
    struct act_buffer *b = buffer_of(k, k->depth);
    int                stays = left < k->n_buffers; // nothing else comes into its buffer

    assert(bytes > 0 && bytes <= k->hub->cfg.acts.bytes);
    for (size_t d = 0; !stays && d < n && part_payload(k, bytes, d) > 0; d++)
        k->crc[k->depth * n + d] = crc32c(0, (char *)b->values + d * part, part);
    hub_enter(k->hub);
    k->bytes[k->depth++] = bytes;
    b->lent = 0;
    b->state = stays ? ACT_IDLE : ACT_FILLED;
    hub_leave(k->hub, 1, NULL);
}

void act_stack_popped(struct act_stack *k)
{
    hub_enter(k->hub);
    buffer_of(k, --k->depth)->lent = 0;
    hub_leave(k->hub, 1, NULL);
}

void act_stack_settle(struct act_stack *k)
{
    uint64_t since = 0;

    for (size_t i = 0; i < k->n_buffers; i++)
        while (k->buffers[i].state != ACT_IDLE && hub_wait(k->hub, &since))
            ;
    hub_waited(k->hub, since, PHASE_ACT_WRITE, -1);
}

/* ---- the scheduler's side */

static void part_done(void *stack, struct task *t)
{
    struct act_buffer *b = t->job.user;

    (void)stack;
    if (--b->unfinished == 0)
        b->state = ACT_IDLE;
}

/* Write or read the entry in buffer b. */
static void transfer(struct act_stack *k, struct act_buffer *b, enum csd_kind kind)
{
    static const struct task_kind writing = { TASK_OF_STEP, part_done, NULL, NULL };
    static const struct task_kind reading = { TASK_OF_STEP, part_done, "activations", "are" };
    const struct run_config *cfg = &k->hub->cfg;
    size_t                   bytes = k->bytes[b->entry], part = devices_act_part(cfg, bytes);
    uint64_t off = (uint64_t)b->entry * devices_act_part(cfg, cfg->acts.bytes);
    int                      writes = kind == CSD_WRITE;

    b->state = writes ? ACT_WRITING : ACT_READING;
    for (size_t d = 0; d < cfg->n_devices && part_payload(k, bytes, d) > 0; d++) {
        b->parts[d] = (struct task){
            .kind = writes ? &writing : &reading, .part = k, .step = k->hub->step,
            .phase = writes ? PHASE_ACT_WRITE : PHASE_ACT_READ,
            .job = { .kind = kind, .cls = CLASS_ACTIVATION, .buf = (char *)b->values + d * part,
                     .off = k->hub->dev.store.device_bytes[d] + off, .bytes = part,
                     .payload = part_payload(k, bytes, d),
                     .tag = k->crc[b->entry * cfg->n_devices + d], .user = b },
        };
        b->unfinished++;
        hub_submit(k->hub, d, &b->parts[d]);
    }
}

/* The entry that is popped next from buffer i; SIZE_MAX: none. */
static size_t wanted(const struct act_stack *k, size_t i)
{
    return k->depth <= i ? SIZE_MAX : i + (k->depth - 1 - i) / k->n_buffers * k->n_buffers;
}

int act_stack_advance(struct act_stack *k)
{
    int progress = 0;

    for (size_t i = 0; i < k->n_buffers; i++) {
        struct act_buffer *b = &k->buffers[i];
        size_t             next = wanted(k, i);

        if (b->state == ACT_FILLED) {
            transfer(k, b, CSD_WRITE);
        } else if (k->popping && b->state == ACT_IDLE && !b->lent && next != SIZE_MAX &&
                   b->entry != next) {
            b->entry = next;
            transfer(k, b, CSD_READ);
        } else {
            continue;
        }
        progress = 1;
    }
    return progress;
}
