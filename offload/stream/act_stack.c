/* act_stack.c: stacks the activations that forward leaves to backward: pushes and pops them through
 * a few buffers, and writes and reads those that do not stay in memory. */
#include "offload/stream/act_stack.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"

#include <assert.h>

size_t act_stack_buffer(const struct run_config *cfg)
{
    return devices_act_part(cfg, cfg->acts.bytes) * devices_acts(cfg);
}

void act_stack_tables(struct act_stack *k, struct arena *a)
{
    const struct run_config *cfg = &k->sched->cfg;
    size_t                   n = cfg->acts.n ? cfg->acts.buffers : 0;

    k->rule.n = n;
    k->rule.slot = arena_take(a, n * sizeof *k->rule.slot);
    k->buffers = arena_take(a, n * sizeof *k->buffers);
    k->tasks = arena_take(a, n * devices_acts(cfg) * sizeof *k->tasks);
    k->place = arena_take(a, cfg->acts.n * sizeof *k->place);
    k->crc = arena_take(a, cfg->acts.n * devices_acts(cfg) * sizeof *k->crc);
}

static void lay(struct act_stack *k)
{
    const struct run_config *cfg = &k->sched->cfg;

    for (size_t i = 0; i < k->rule.n; i++)
        k->buffers[i] = (struct act_buffer){
            .values = arena_take(&k->memory, act_stack_buffer(cfg)),
            .parts = k->tasks + i * devices_acts(cfg) };
}

int act_stack_open(struct act_stack *k, struct err *err)
{
    const struct run_acts *acts = &k->sched->cfg.acts;

    assert(!acts->n || (acts->buffers > 0 && acts->bytes > 0));
    k->memory = (struct arena){ .align = ARENA_IO };
    lay(k);
    int rc = arena_map(&k->memory, "buffers of activations", err);
    if (!rc)
        lay(k);
    return rc;
}

void act_stack_close(struct act_stack *k) { arena_free(&k->memory); }

void act_stack_rest(struct act_stack *k)
{
    assert(act_stack_depth(k) == 0);
    arena_give_back(k->memory.base, k->memory.bytes);
}

static size_t part_payload(const struct act_stack *k, size_t bytes, size_t d)
{
    size_t part = devices_act_part(&k->sched->cfg, bytes), first = d * part;

    return first >= bytes ? 0 : size_min(bytes - first, part);
}

/* The buffer of an item, or NULL. */
static struct act_buffer *buffer_of(const struct act_stack *k, size_t item)
{
    for (size_t i = 0; i < k->rule.n; i++)
        if (k->rule.slot[i].entry == item)
            return &k->buffers[i];
    return NULL;
}

/* The item that is popped after this one, or SIZE_MAX. */
static size_t popped_after(const struct act_stack *k, size_t item)
{
    size_t begin = k->place[item].begin;

    if (item + 1 < k->rule.pushed && k->place[item + 1].begin == begin)
        return item + 1;
    return begin > 0 ? k->place[begin - 1].begin : SIZE_MAX;
}

/* ---- the model's side. The scheduler looks at the rule only while items are popped. */

int act_stack_push(struct act_stack *k, int first, void **item, struct err *err)
{
    struct scheduler_wait wait = { .block = -1 };

    scheduler_lock(k->sched);
    if (act_stack_depth(k) == 0) {
        act_rule_begin(&k->rule);
        k->popped = 0;
        k->popping = 0;
    }
    assert(!k->popping && k->rule.pushed < k->sched->cfg.acts.n);
    struct act_buffer *b = &k->buffers[act_rule_push(&k->rule, first)];
    assert(!b->lent);
    k->place[k->rule.pushed - 1].begin = k->rule.begin;
    while (b->state != ACT_IDLE && scheduler_wait(k->sched, &wait, PHASE_WAIT_ACT_WRITE))
        ;
    b->lent = 1;
    *item = b->values;
    scheduler_waited(k->sched, &wait);
    return scheduler_unlock(k->sched, 0, err);
}

void act_stack_pushed(struct act_stack *k, size_t bytes, size_t left)
{
    const struct run_config *cfg = &k->sched->cfg;
    size_t                   n = devices_acts(cfg), at = k->rule.now, item = k->rule.pushed - 1;
    struct act_place        *p = &k->place[item];

    assert(bytes > 0 && bytes <= cfg->acts.bytes && left < cfg->acts.n - item);
    p->bytes = bytes;
    p->off = item ? p[-1].off + devices_act_part(cfg, p[-1].bytes) : 0;
    assert(p->off + devices_act_part(cfg, bytes) <= devices_act_area(cfg));
    k->buffers[at].lent = 0;
    size_t out = act_rule_pushed(&k->rule, left);
    if (out == SIZE_MAX)
        return;
    struct act_buffer *b = &k->buffers[out];
    item = k->rule.slot[out].entry;
    bytes = k->place[item].bytes;
    size_t part = devices_act_part(cfg, bytes);
    for (size_t d = 0; d < n && part_payload(k, bytes, d) > 0; d++)
        k->crc[item * n + d] = crc32c_shared((char *)b->values + d * part, part);
    scheduler_lock(k->sched);
    b->state = ACT_FILLED;
    b->moves = item;
    scheduler_unlock(k->sched, 1, NULL);
}

int act_stack_pop(struct act_stack *k, void **item, struct err *err)
{
    struct scheduler_wait    wait = { .block = -1 };
    struct act_buffer *b;

    scheduler_lock(k->sched);
    assert(act_stack_depth(k) > 0);
    if (!k->popping) {
        act_rule_reverse(&k->rule);
        k->popping = 1;
        k->next = k->ahead = k->rule.begin;
        bell_ring(&k->sched->dev.bell);
    }
    while ((!(b = buffer_of(k, k->next)) || b->state == ACT_READING) &&
           scheduler_wait(k->sched, &wait, PHASE_WAIT_ACT_READ))
        ;
    if (b) {
        b->lent = 1;
        *item = b->values;
    }
    scheduler_waited(k->sched, &wait);
    return scheduler_unlock(k->sched, 0, err);
}

void act_stack_popped(struct act_stack *k)
{
    scheduler_lock(k->sched);
    struct act_buffer *b = buffer_of(k, k->next);
    size_t             after = popped_after(k, k->next);

    b->lent = 0;
    k->rule.slot[b - k->buffers].entry = SIZE_MAX;
    k->ahead = k->ahead == k->next ? after : k->ahead;
    k->next = after;
    k->popped++;
    scheduler_unlock(k->sched, 1, NULL);
}

void act_stack_settle(struct act_stack *k)
{
    struct scheduler_wait wait = { .block = -1 };

    for (size_t i = 0; i < k->rule.n; i++)
        while (k->buffers[i].state != ACT_IDLE &&
               scheduler_wait(k->sched, &wait, PHASE_WAIT_ACT_WRITE))
            ;
    scheduler_waited(k->sched, &wait);
}

/* ---- the scheduler's side */

static void part_done(void *stack, struct task *t)
{
    struct act_buffer *b = t->job.user;

    (void)stack;
    if (--b->unfinished == 0)
        b->state = ACT_IDLE;
}

/* Submits the writes or reads of item b->moves. */
static void transfer(struct act_stack *k, struct act_buffer *b, enum csd_kind kind)
{
    static const struct task_kind writing = { TASK_OF_STEP, part_done, NULL, NULL };
    static const struct task_kind reading = { TASK_OF_STEP, part_done, "activations", "are" };
    const struct run_config *cfg = &k->sched->cfg;
    size_t                   item = b->moves, n = devices_acts(cfg), to = devices_act_first(cfg);
    const struct act_place  *p = &k->place[item];
    size_t                   part = devices_act_part(cfg, p->bytes);
    int                      writes = kind == CSD_WRITE;

    b->state = writes ? ACT_WRITING : ACT_READING;
    for (size_t d = 0; d < n && part_payload(k, p->bytes, d) > 0; d++) {
        b->parts[d] = (struct task){
            .kind = writes ? &writing : &reading, .part = k, .step = k->sched->step,
            .phase = writes ? PHASE_ACT_WRITE : PHASE_ACT_READ,
            .job = { .kind = kind, .cls = CLASS_ACTIVATION, .buf = (char *)b->values + d * part,
                     .off = p->off + (to ? 0 : k->sched->dev.store.device_bytes[d]), .bytes = part,
                     .payload = part_payload(k, p->bytes, d), .tag = k->crc[item * n + d],
                     .user = b },
        };
        b->unfinished++;
        scheduler_submit(k->sched, to + d, &b->parts[d]);
    }
}

/* The first item in the order of pops that is in no buffer. SIZE_MAX: there is none, or it is still
 * being written. */
static size_t wanted(struct act_stack *k)
{
    while (k->ahead != SIZE_MAX && buffer_of(k, k->ahead))
        k->ahead = popped_after(k, k->ahead);
    for (size_t i = 0; i < k->rule.n; i++)
        if (k->buffers[i].state != ACT_IDLE && k->buffers[i].moves == k->ahead)
            return SIZE_MAX;
    return k->ahead;
}

/* Whether another read may begin. Reads under way share a drive, so the first would end with the
 * last. Only enough to keep a drive busy are under way. */
static int may_read(const struct act_stack *k)
{
    static const size_t enough = 8u << 20;
    size_t              bytes = 0;

    for (size_t i = 0; i < k->rule.n; i++)
        if (k->buffers[i].state == ACT_READING)
            bytes += k->place[k->buffers[i].moves].bytes;
    return bytes < enough;
}

int act_stack_advance(struct act_stack *k)
{
    int progress = 0;

    for (size_t i = 0; i < k->rule.n; i++) {
        struct act_buffer *b = &k->buffers[i];
        size_t            *in = &k->rule.slot[i].entry;

        if (b->state == ACT_FILLED) {
            transfer(k, b, CSD_WRITE);
        } else if (k->popping && b->state == ACT_IDLE && *in == SIZE_MAX &&
                   wanted(k) != SIZE_MAX && may_read(k)) {
            *in = b->moves = k->ahead;
            transfer(k, b, CSD_READ);
        } else {
            continue;
        }
        progress = 1;
    }
    return progress;
}
