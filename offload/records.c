/* records.c: the stack of records on the devices (stream.h), for what forward leaves to backward.
 *
 * Record r lies at a place of its own behind each device's states, a part of it on each device, and
 * passes through buffer r % n in both directions. Pushing, a buffer is given again as soon as the
 * record in it is written; popping, as soon as it was popped the record n below is read into it.
 * The last n that a pass pushes are popped from memory and never written (SSDTrain keeps the last
 * module's).
 *
 * Nothing here outlives a step, so nothing is flushed or committed; the checksum of a part is in
 * memory, taken when it was pushed and looked at when it comes back. */
#include "offload/scheduler.h"

#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { UNIT = 4096 };

/* Of a record of `bytes`, on each device. */
static size_t part_bytes(size_t bytes, size_t n_devices)
{
    return n_devices ? round_up(div_up(bytes, n_devices), UNIT) : 0;
}

size_t records_buffer(const struct run_config *cfg)
{
    return part_bytes(cfg->records.bytes, cfg->n_devices) * cfg->n_devices;
}

uint64_t records_device(const struct run_config *cfg)
{
    return (uint64_t)cfg->records.n * part_bytes(cfg->records.bytes, cfg->n_devices);
}

size_t records_tables(const struct run_config *cfg)
{
    size_t n = cfg->records.n, parts = cfg->n_devices;

    return n * (sizeof(size_t) + parts * sizeof(uint32_t)) +
           cfg->records.buffers * (sizeof(struct record_buffer) + parts * sizeof(struct task));
}

int records_open(struct scheduler *s, struct err *err)
{
    struct records *k = &s->records;
    size_t          n = s->cfg.records.n, parts = s->cfg.n_devices;

    if (n == 0)
        return 0;
    assert(s->cfg.records.buffers > 0 && s->cfg.records.bytes > 0);
    k->n_buffers = s->cfg.records.buffers;
    k->buffers = calloc(k->n_buffers, sizeof *k->buffers);
    k->tasks = calloc(k->n_buffers * parts, sizeof *k->tasks);
    k->bytes = calloc(n, sizeof *k->bytes);
    k->crc = calloc(n * parts, sizeof *k->crc);
    if (!k->buffers || !k->tasks || !k->bytes || !k->crc)
        return err_set(err, -ENOMEM, "out of memory for the tables of %zu activations", n);
    for (size_t i = 0; i < k->n_buffers; i++)
        k->buffers[i] = (struct record_buffer){ .record = SIZE_MAX, .parts = k->tasks + i * parts };
    return 0;
}

void records_close(struct scheduler *s)
{
    free(s->records.buffers);
    free(s->records.tasks);
    free(s->records.bytes);
    free(s->records.crc);
}

/* ---- the model's side ---- */

static struct record_buffer *buffer_of(struct records *k, size_t record)
{
    return &k->buffers[record % k->n_buffers];
}

/* Mutex held. */
static int is_ready(const struct record_buffer *b, int popping, size_t record)
{
    return popping ? b->record == record && b->state != RECORD_READING : b->state == RECORD_IDLE;
}

/* Lend the buffer of `record` when it is the record's. */
static int lend(struct scheduler *s, size_t record, int popping, void **out, struct err *err)
{
    struct record_buffer *b = buffer_of(&s->records, record);
    uint64_t              start = clock_ns();
    int                   waited = 0;

    pthread_mutex_lock(&s->mutex);
    assert(!b->lent);
    s->records.popping = popping;
    while (!s->failed && !is_ready(b, popping, record)) {
        pthread_cond_wait(&s->changed, &s->mutex);
        waited = 1;
    }
    b->lent = 1;
    b->record = record;
    *out = b->values;
    pthread_mutex_unlock(&s->mutex);
    if (waited)
        meter_span(s->meter, s->pass_step, popping ? PHASE_ACT_READ : PHASE_ACT_WRITE, -1, -1,
                   start, clock_ns(), 0);
    return scheduler_failed(s, err);
}

int records_push(struct stream *stream, void **record, struct err *err)
{
    struct scheduler *s = (struct scheduler *)stream;

    assert(s->records.depth < s->cfg.records.n);
    return lend(s, s->records.depth, 0, record, err);
}

/* What part d of a record of `bytes` holds of it. */
static size_t part_payload(size_t bytes, size_t n_devices, size_t d)
{
    size_t part = part_bytes(bytes, n_devices), first = d * part;

    return first >= bytes ? 0 : bytes - first < part ? bytes - first : part;
}

void records_pushed(struct stream *stream, size_t bytes, size_t left)
{
    struct scheduler     *s = (struct scheduler *)stream;
    struct records       *k = &s->records;
    size_t                n = s->cfg.n_devices, part = part_bytes(bytes, n);
    struct record_buffer *b = buffer_of(k, k->depth);
    int                   stays = left < k->n_buffers; // nothing else comes into its buffer

    assert(bytes > 0 && bytes <= s->cfg.records.bytes);
    for (size_t d = 0; !stays && d < n && part_payload(bytes, n, d) > 0; d++)
        k->crc[k->depth * n + d] = crc32c(0, (char *)b->values + d * part, part);
    pthread_mutex_lock(&s->mutex);
    k->bytes[k->depth++] = bytes;
    b->lent = 0;
    b->state = stays ? RECORD_IDLE : RECORD_FILLED;
    pthread_mutex_unlock(&s->mutex);
    csd_bell_ring(&s->dev.bell);
}

int records_pop(struct stream *stream, void **record, struct err *err)
{
    struct scheduler *s = (struct scheduler *)stream;

    assert(s->records.depth > 0);
    return lend(s, s->records.depth - 1, 1, record, err);
}

void records_popped(struct stream *stream)
{
    struct scheduler *s = (struct scheduler *)stream;

    pthread_mutex_lock(&s->mutex);
    buffer_of(&s->records, --s->records.depth)->lent = 0;
    pthread_mutex_unlock(&s->mutex);
    csd_bell_ring(&s->dev.bell);
}

/* ---- the scheduler's side ---- */

/* Write or read the record in buffer b. */
static void transfer(struct scheduler *s, struct record_buffer *b, enum csd_kind kind)
{
    struct records *k = &s->records;
    size_t          n = s->cfg.n_devices, bytes = k->bytes[b->record], part = part_bytes(bytes, n);
    uint64_t        off = (uint64_t)b->record * part_bytes(s->cfg.records.bytes, n);

    b->state = kind == CSD_WRITE ? RECORD_WRITING : RECORD_READING;
    for (size_t d = 0; d < n && part_payload(bytes, n, d) > 0; d++) {
        struct task *t = &b->parts[d];

        *t = (struct task){ .kind = kind == CSD_WRITE ? TASK_RECORD_WRITE : TASK_RECORD_READ,
                            .step = s->pass_step,
                            .phase = kind == CSD_WRITE ? PHASE_ACT_WRITE : PHASE_ACT_READ };
        t->job = (struct csd_job){ .kind = kind,
                                   .cls = CLASS_ACTIVATION,
                                   .buf = (char *)b->values + d * part,
                                   .off = s->dev.store.device_bytes[d] + off,
                                   .bytes = part,
                                   .payload = part_payload(bytes, n, d),
                                   .tag = k->crc[b->record * n + d],
                                   .user = b };
        b->unfinished++;
        s->dev.csd[d]->ops->submit(s->dev.csd[d], &t->job);
    }
}

/* The record that is popped next from buffer i; SIZE_MAX: none. */
static size_t wanted(const struct records *k, size_t i)
{
    return k->depth <= i ? SIZE_MAX : i + (k->depth - 1 - i) / k->n_buffers * k->n_buffers;
}

int records_advance(struct scheduler *s)
{
    struct records *k = &s->records;
    int             progress = 0;

    for (size_t i = 0; i < k->n_buffers; i++) {
        struct record_buffer *b = &k->buffers[i];

        if (b->state == RECORD_FILLED) {
            transfer(s, b, CSD_WRITE);
        } else if (k->popping && b->state == RECORD_IDLE && !b->lent && wanted(k, i) != SIZE_MAX &&
                   b->record != wanted(k, i)) {
            b->record = wanted(k, i);
            transfer(s, b, CSD_READ);
        } else {
            continue;
        }
        progress = 1;
    }
    return progress;
}

void records_done(const struct task *t)
{
    struct record_buffer *b = t->job.user;

    if (--b->unfinished == 0)
        b->state = RECORD_IDLE;
}

static int is_idle(const struct records *k)
{
    size_t i = 0;

    while (i < k->n_buffers && k->buffers[i].state == RECORD_IDLE)
        i++;
    return i == k->n_buffers;
}

void records_settle(struct scheduler *s)
{
    uint64_t start = clock_ns();
    int      waited = 0;

    while (!s->failed && !is_idle(&s->records)) {
        pthread_cond_wait(&s->changed, &s->mutex);
        waited = 1;
    }
    if (waited)
        meter_span(s->meter, s->pass_step, PHASE_ACT_WRITE, -1, -1, start, clock_ns(), 0);
}
