/* verify.c: reads all devices at the same time and compares their checksums; repairs what can be
 * repaired. Each device is read area after area in chunks, some of which are in flight while
 * another is summed. One checksum covers an area: the states or the wire of a subgroup's committed
 * slot, its gradient if the step of the last commit A is not finished yet, or its committed
 * residual. */
#include "offload/upkeep/verify.h"

#include "csd/engine/grad_wire.h"
#include "data/base/crc32c.h"
#include "kernels/elementwise.h"
#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "offload/devices/journal.h"
#include "offload/devices/slots.h"

#include <stdarg.h>

enum { CHUNK_BYTES = 1 << 20, CHUNKS = 4, SENTENCES = 16 }; // SENTENCES: at most, about one device

struct chunk {
    struct csd_job job; // first member
    struct area    area;
    int            back; // has been read
};

/* The progress on one device. */
struct lane {
    size_t           device, sub, at; // what to ask for next: the area, and the byte in it
    enum verify_kind kind;
    uint64_t         asked, summed; // number of chunks
    uint32_t         crc;           // of the area being summed, like the next two
    struct param_set beyond;
    int              failed; // it cannot be read
    unsigned         sentences;
    struct chunk     chunk[CHUNKS];
};

struct check {
    struct verify *v;
    struct devices dev;
    struct err    *each; // (devices) errors at opening
    struct lane   *lanes;
    char          *bufs; // (devices, CHUNKS, CHUNK_BYTES)
    struct journal journal;
    unsigned char *bad; // (subgroups) bits: the kinds that are damaged
    uint64_t       done, total;
};

/* ---- sentences ---- */

__attribute__((format(printf, 3, 4))) static void say(struct verify *v, int damage,
                                                      const char *fmt, ...)
{
    char    text[sizeof((struct err *)0)->text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->say(v->ctx, damage, text);
}

/* Limits the messages per device: one that is wholly damaged would have one for every subgroup. */
static int lane_may_say(struct check *c, struct lane *l)
{
    if (l->sentences++ < SENTENCES)
        return 1;
    if (l->sentences == SENTENCES + 1)
        say(c->v, 0, "device %zu (%s): there is more, which is counted only", l->device,
            c->dev.device[l->device].path);
    return 0;
}

static void area_damaged(struct check *c, struct lane *l, const struct area *a, const char *why)
{
    struct err text;

    c->v->count[a->kind].damaged++;
    c->bad[a->sub] |= (unsigned char)(1u << a->kind);
    if (!lane_may_say(c, l))
        return;
    area_says(&text, &c->dev.cfg, a, c->dev.device[l->device].path, why);
    c->v->say(c->v->ctx, 1, text.text);
}

/* ---- reading ---- */

static struct area committed(const struct check *c, size_t i, enum verify_kind kind)
{
    const struct store       *st = &c->dev.store;
    const struct store_sub   *u = &st->subs[i];
    const struct journal     *j = &c->journal;
    const struct journal_sub *row = &j->subs[i];

    struct area a = area_of(st, i, kind, row, j->state.applied, j->residuals ? j->residuals[i] : 0);
    if (kind == VERIFY_GRADIENT && u->trains && row->version < j->state.applied) {
        a.off = u->grad_off;
        a.bytes = st->compress > 0 ? grad_wire_bytes(j->grads[i].pairs) : 4 * u->n_pad;
        a.crc = j->grads[i].crc;
    }
    return a;
}

/* Finds the device's next chunk. 0 at the end. */
static int chunk_next(const struct check *c, struct lane *l, struct chunk *p)
{
    size_t slot = l->device * CHUNKS + (size_t)(p - l->chunk);

    for (; l->sub < c->dev.store.n_subs; l->sub++, l->kind = VERIFY_STATES) {
        if (c->dev.store.subs[l->sub].device != l->device)
            continue;
        for (; l->kind <= VERIFY_RESIDUAL; l->kind++, l->at = 0) {
            struct area a = committed(c, l->sub, l->kind);
            size_t      n = size_min(a.bytes - l->at, beside_slice(c->v->beside, CHUNK_BYTES));

            if (n == 0)
                continue;
            *p = (struct chunk){ .area = a,
                                 .job = { .kind = CSD_READ, .cls = CLASS_STATES,
                                          .buf = c->bufs + slot * CHUNK_BYTES, .bytes = n,
                                          .payload = n, .off = a.off + l->at } };
            l->at += n;
            return 1;
        }
    }
    return 0;
}

/* Looks for values that are not finite. Masters and moments of a slot count for their parameter. */
static void chunk_look(struct check *c, struct lane *l, const struct chunk *p)
{
    const struct store_sub *u = &c->dev.store.subs[p->area.sub];
    struct overflow       beyond = overflow_find(p->job.buf, p->job.bytes / sizeof(float));
    size_t                  at = (p->job.off - p->area.off) / sizeof(float);

    beyond.first = (at + beyond.first) % u->n_pad;
    param_set_add(&l->beyond, u->block, u->first, beyond);
}

/* The same in wire parameters of a frozen subgroup, which has no others. */
static void frozen_look(struct check *c, struct lane *l, const struct chunk *p)
{
    const struct store_sub *u = &c->dev.store.subs[p->area.sub];
    enum dtype              dt = c->dev.store.wire_dt;

    param_set_look(&l->beyond, u->block, u->first + (p->job.off - p->area.off) / dtype_bytes(dt),
                   p->job.buf, dt, p->job.bytes / dtype_bytes(dt));
}

static void chunk_sum(struct check *c, struct lane *l, const struct chunk *p)
{
    struct verify_count *count = &c->v->count[p->area.kind];
    char                 why[64];

    c->done += p->job.bytes;
    count->bytes += p->job.bytes;
    if (p->job.status && !l->failed) {
        l->failed = 1;
        area_damaged(c, l, &p->area, p->job.why);
    }
    l->crc = crc32c(l->crc, p->job.buf, p->job.bytes);
    if (p->area.kind == VERIFY_STATES)
        chunk_look(c, l, p);
    if (p->area.kind == VERIFY_FROZEN && !c->dev.store.subs[p->area.sub].packed)
        frozen_look(c, l, p);
    if (p->job.off + p->job.bytes < p->area.off + p->area.bytes)
        return;
    count->n++;
    if (!l->failed && l->crc != p->area.crc) {
        snprintf(why, sizeof why, "damaged (its checksum is %08x, the journal has %08x)", l->crc,
                 p->area.crc);
        area_damaged(c, l, &p->area, why);
    } else if (!l->failed) { // a damaged area has random values
        param_set_join(&c->v->beyond, &l->beyond);
    }
    l->beyond = (struct param_set){0};
    l->crc = 0;
    l->failed = 0;
}

static int lane_reap(struct check *c, struct lane *l)
{
    struct csd     *csd = c->dev.device[l->device].csd;
    struct csd_job *done[CHUNKS];
    int             n = csd->ops->reap(csd, done, CHUNKS);

    for (int i = 0; i < n; i++)
        ((struct chunk *)done[i])->back = 1;
    return n;
}

/* Asks for a chunk. Next to a training, it waits for the moment, and until it is read. */
static int chunk_ask(struct check *c, struct lane *l, struct chunk *p, struct err *err)
{
    struct csd              *csd = c->dev.device[l->device].csd;
    struct beside           *b = c->v->beside;
    const struct beside_move m = { p->area.sub, p->job.bytes, c->v->link, LINK_READ };
    uint64_t                 over_ns, seen = 0;
    int                      rc = beside_begin(b, &m, &over_ns, c->v->watch, err);

    if (rc)
        return rc;
    csd->ops->submit(csd, &p->job);
    while (b && b->stream && !p->back)
        if (!lane_reap(c, l))
            seen = bell_wait(&c->dev.bell, seen, 1000000000u);
    beside_end(b, over_ns);
    return 0;
}

/* Sums what came back, in the order in which it was asked for, and asks for more. Returns whether
 * anything moved, or -errno. A read that this process could not make (file_is_unknown) is such an
 * error, and no damage. */
static int lane_move(struct check *c, struct lane *l, struct err *err)
{
    struct chunk *p;
    int           moved = lane_reap(c, l), rc;

    for (; l->summed < l->asked && (p = &l->chunk[l->summed % CHUNKS])->back; l->summed++) {
        if (file_is_unknown(p->job.status))
            return err_set(err, p->job.status, "%s", p->job.why);
        chunk_sum(c, l, p);
    }
    for (; l->asked - l->summed < CHUNKS; l->asked++, moved++) {
        p = &l->chunk[l->asked % CHUNKS];
        if (!chunk_next(c, l, p))
            break;
        if ((rc = chunk_ask(c, l, p, err)))
            return rc;
    }
    return moved;
}

/* Reads all lanes to their ends. If this is stopped, chunks in flight come back when the devices
 * are closed. */
static int lanes_run(struct check *c, struct err *err)
{
    uint64_t seen = 0;
    int      busy = 1, rc = 0;

    while (busy && !rc) {
        int moved = 0;

        busy = 0;
        for (size_t d = 0; d < c->dev.n; d++) {
            int now = c->dev.device[d].csd ? lane_move(c, &c->lanes[d], err) : 0;
            if (now < 0)
                return now;
            moved |= now;
            busy |= c->lanes[d].summed < c->lanes[d].asked;
        }
        rc = watch_look(c->v->watch, c->done, c->total, err);
        if (busy && !moved && !rc)
            seen = bell_wait(&c->dev.bell, seen, 1000000000u);
    }
    return rc;
}

/* ---- before reading ---- */

/* Reports versions that no crash leaves. */
static void map_check(struct check *c)
{
    for (size_t i = 0; i < c->dev.store.n_subs; i++) {
        const struct store_sub   *u = &c->dev.store.subs[i];
        const struct journal_sub *row = &c->journal.subs[i];
        uint64_t                  applied = c->journal.state.applied;
        int                       late = u->trains && row->version + 1 == applied;

        c->v->half_done |= late;
        if ((u->trains && row->version != applied && !late) ||
            row->slot >= c->dev.store.classes[u->class_].slots)
            say(c->v, 1, "the journal gives block %zu, parameters %zu to %zu, version %" PRIu64 " "
                "in slot %" PRIu32 " of device %zu: that cannot be after %" PRIu64 " updates",
                u->block, u->first, u->first + u->n - 1, row->version, row->slot, u->device,
                applied);
    }
}

static int lanes_open(struct check *c, struct err *err)
{
    const struct store *st = &c->dev.store;

    c->lanes = calloc(c->dev.n, sizeof *c->lanes);
    c->bufs = devices_buffer(&c->dev, c->dev.n * CHUNKS * CHUNK_BYTES);
    c->bad = calloc(st->n_subs, 1);
    if (!c->lanes || !c->bufs || !c->bad)
        return err_set(err, -ENOMEM, "out of memory to check %zu subgroups", st->n_subs);
    for (size_t d = 0; d < c->dev.n; d++)
        c->lanes[d] = (struct lane){ .device = d, .kind = VERIFY_STATES };
    for (size_t i = 0; i < st->n_subs; i++)
        for (enum verify_kind k = VERIFY_STATES; k <= VERIFY_RESIDUAL; k++)
            c->total += c->dev.device[st->subs[i].device].csd ? committed(c, i, k).bytes : 0;
    return 0;
}

static void superblocks_say(struct check *c)
{
    struct verify_count *count = &c->v->count[VERIFY_SUPERBLOCK];

    for (size_t d = 0; d < c->dev.n; d++) {
        count->n++;
        count->bytes += SUPERBLOCK_BYTES;
        count->damaged += *c->each[d].text != '\0';
        if (*c->each[d].text)
            say(c->v, 1, "device %zu: %s", d, c->each[d].text);
    }
}

/* ---- repair ---- */

/* Derives the wire of a subgroup from its master again. slots_reader_hold compares the master's
 * checksum. */
static int wire_mend(struct check *c, struct slots_reader *m, size_t i, void *wire,
                     struct err *err)
{
    const struct store     *st = &c->dev.store;
    const struct store_sub *u = &st->subs[i];
    struct area             a = committed(c, i, VERIFY_WIRE);
    struct csd_job          job = { .kind = CSD_WRITE, .cls = CLASS_WIRE, .buf = wire,
                                    .off = a.off, .bytes = a.bytes, .payload = a.bytes };
    int                     rc = slots_reader_hold(m, u->block, u->first, err);

    if (rc)
        return rc;
    convert(wire, st->wire_dt, m->buf, DT_F32, u->n_pad);
    if (crc32c(0, wire, a.bytes) != a.crc)
        return err_set(err, -EBADMSG,
                       "device %zu (%s): the wire parameters of block %zu at offset %" PRIu64 " "
                       "cannot be repaired: those made from the master parameters differ from the "
                       "journal's checksum, too", u->device, c->dev.device[u->device].path,
                       u->block, a.off);
    rc = devices_run(&c->dev, u->device, &job, err);
    c->v->count[VERIFY_WIRE].mended += !rc;
    return rc;
}

/* Repairs superblocks of devices that are otherwise whole, and wires whose master is whole. Frozen
 * parameters have no master. */
static int devices_mend(struct check *c, struct err *err)
{
    const struct store  *st = &c->dev.store;
    struct journal       states = { .subs = c->journal.subs }; // no residuals: they are not needed
    struct slots_reader m = { 0 };
    int                  rc = 0;

    for (size_t d = 0; d < c->dev.n && !rc; d++)
        if (*c->each[d].text && c->dev.device[d].csd && !c->lanes[d].sentences) {
            rc = devices_super_write(&c->dev, d, err);
            c->v->count[VERIFY_SUPERBLOCK].mended += !rc;
        }
    if (rc)
        return rc;
    void *wire = devices_buffer(&c->dev, store_wire_bytes(st, st->max_pad));
    rc = wire ? slots_reader_open(&m, &c->dev, &states, err)
              : err_set(err, -ENOMEM, "out of memory for a wire shard");
    for (size_t i = 0; i < st->n_subs && !rc; i++)
        if ((c->bad[i] & (1 << VERIFY_STATES | 1 << VERIFY_WIRE)) == 1 << VERIFY_WIRE)
            rc = wire_mend(c, &m, i, wire, err);
    slots_reader_close(&m);
    return rc ? rc : devices_flush(&c->dev, err);
}

/* ---- the whole check ---- */

static int verify_devices(struct verify *v, const struct run_config *cfg, struct err *err)
{
    struct run_config   plain = *cfg; // at the drives' full speed
    struct check        c = { .v = v, .each = calloc(cfg->n_devices, sizeof *c.each) };
    struct devices_more more = { .each = c.each };

    plain.links = (struct topology_config){ 0 };
    int rc = c.each
                 ? devices_open(&c.dev, &plain, v->mend ? DEVICES_MEND : DEVICES_READ, &more, err)
                 : err_set(err, -ENOMEM, "out of memory for %zu devices", cfg->n_devices);
    if (!rc) {
        superblocks_say(&c);
        rc = journal_open(&c.journal, cfg->log, c.dev.store.n_subs, c.dev.store.error_feedback,
                          err);
    }
    rc = rc ? rc : lanes_open(&c, err);
    if (!rc) {
        v->next_step = c.journal.state.next_step;
        v->applied = c.journal.state.applied;
        map_check(&c);
        rc = lanes_run(&c, err);
    }
    if (!rc && v->mend)
        rc = devices_mend(&c, err);
    devices_close(&c.dev);
    free(c.each);
    free(c.lanes);
    journal_close(&c.journal);
    free(c.bad);
    return rc;
}

/* Reading of images goes at the pace of v->beside. */
struct paced { struct verify *v; uint64_t done; };

static int look_paced(void *ctx, uint64_t done, uint64_t total)
{
    struct paced            *p = ctx;
    uint64_t                 before = done >= p->done ? p->done : 0; // another file was begun
    const struct beside_move m = { 0, done - before, p->v->link, LINK_READ };
    uint64_t                 over_ns;
    struct err               unsaid;
    int                      rc = beside_begin(p->v->beside, &m, &over_ns, p->v->watch, &unsaid);

    beside_end(p->v->beside, over_ns);
    p->done = done;
    return rc ? rc : watch_look(p->v->watch, done, total, &unsaid);
}

/* Checks the file of the frozen blocks, if there are any. */
static int verify_frozen(struct verify *v, const struct run_config *watched, struct err *err)
{
    struct image_check frozen = { 0 };
    int rc = v->frozen_known ? 0 : image_check(watched, IMAGE_FROZEN, &frozen, err);

    if (rc || !frozen.named)
        return rc;
    v->count[VERIFY_FROZEN] =
        (struct verify_count){ .n = frozen.n, .bytes = frozen.bytes, .damaged = frozen.damaged };
    param_set_join(&v->beyond, &frozen.beyond);
    if (frozen.damaged)
        say(v, 1, "%s%s", frozen.why.text, frozen.damaged > 1 ? " (and other blocks of it)" : "");
    return 0;
}

/* Checks both images. The committed one must be whole; of the other one, this says whether one can
 * go back to it. */
static int verify_images(struct verify *v, const struct run_config *cfg, struct err *err)
{
    struct run_config  watched = *cfg;
    struct image_check newest, other;
    struct paced       paced = { .v = v };
    const struct watch pace = { look_paced, &paced };
    struct image_state state;
    int                rc = image_latest(cfg, &state, err);

    if (rc)
        return rc;
    v->next_step = state.step;
    v->applied = state.applied;
    watched.watch = v->beside ? &pace : v->watch;
    rc = image_check(&watched, state.area, &newest, err);
    rc = rc ? rc : image_check(&watched, 1 - state.area, &other, err);
    if (rc)
        return rc;
    v->count[VERIFY_IMAGE] = (struct verify_count){ .n = 1 + (uint64_t)other.named,
                                                    .bytes = newest.bytes + other.bytes,
                                                    .damaged = newest.damaged };
    v->beyond = newest.beyond;
    if ((rc = verify_frozen(v, &watched, err)))
        return rc;
    if (newest.damaged)
        say(v, 1, "%s%s", newest.why.text, newest.damaged > 1 ? " (and other blocks of it)" : "");
    if (other.named && other.damaged)
        say(v, 0, "%s: it holds the older state, after step %" PRIu64 ", to which the run cannot "
            "go back now; the next commit overwrites it", other.why.text, other.step);
    if (newest.damaged && other.named && !other.damaged)
        say(v, 0, "the last whole committed state is that after step %" PRIu64 ", in image%u",
            other.step, 1 - state.area);
    if (!newest.damaged || !v->mend || !other.named || other.damaged)
        return 0;
    rc = image_forget(cfg, state.area, err);
    v->count[VERIFY_IMAGE].mended = rc ? 0 : newest.damaged;
    v->next_step = rc ? v->next_step : other.step;
    return rc;
}

int verify_run(struct verify *v, const struct run_config *cfg, struct err *err)
{
    char name[RUN_NAME];
    int  rc;

    memset(v->count, 0, sizeof v->count);
    v->half_done = 0;
    v->beyond = (struct param_set){ 0 };
    if (cfg->mode == RUN_MEM)
        rc = verify_images(v, cfg, err);
    else
        rc = devices_fake(cfg) ? journal_position(cfg->log, &v->next_step, &v->applied, err)
                               : verify_devices(v, cfg, err);
    if (v->beyond.n) // only an older siTrain can have left such states
        say(v, 1, "%s: %zu of the parameters and moments are infinite or not a number, the first "
            "of %s: nothing can be computed from them", cfg->dir, v->beyond.n,
            run_name(cfg, v->beyond.block, v->beyond.first, name));
    return rc;
}
