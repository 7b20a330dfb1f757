/* subs.c: moves each subgroup through its states (subs.h), and keeps the lists of free slots. */
#include "offload/stream/subs.h"

#include <math.h>

void subs_tables(struct subs *s, const struct store *st, struct arena *a)
{
    size_t slots = 0;

    for (size_t c = 0; c < st->n_classes; c++)
        slots += st->classes[c].slots;
    s->sub = arena_take(a, st->n_subs * sizeof *s->sub);
    s->free = arena_take(a, st->n_classes * sizeof *s->free);
    s->slots = arena_take(a, slots * sizeof *s->slots);
    s->owed = arena_take(a, st->n_subs * sizeof *s->owed);
}

static struct class_free *free_of(const struct subs *s, size_t i)
{
    return &s->free[s->store->subs[i].class_];
}

static void slot_give(struct subs *s, size_t i, uint32_t slot)
{
    struct class_free *f = free_of(s, i);

    f->slots[f->n++] = slot;
}

/* Fills the lists of free slots: all that the journal does not name. Until then, a list's memory
 * marks which slots are taken. */
static int free_fill(struct subs *s, const char *dir, struct err *err)
{
    const struct store *st = s->store;
    uint32_t           *at = s->slots;

    for (size_t c = 0; c < st->n_classes; at += st->classes[c++].slots)
        s->free[c].slots = at;
    for (size_t i = 0; i < st->n_subs; i++) {
        uint32_t slot = s->sub[i].committed.slot;

        if (slot >= st->classes[st->subs[i].class_].slots || free_of(s, i)->slots[slot]++)
            return err_set(err, -EBADMSG, "%s/run.db: the journal gives subgroup %zu the slot %u "
                           "of device %zu, which is taken by another subgroup or does not exist",
                           dir, i, slot, st->subs[i].device);
    }
    for (size_t c = 0; c < st->n_classes; c++) {
        struct class_free *f = &s->free[c];

        for (uint32_t slot = 0; slot < st->classes[c].slots; slot++)
            if (!f->slots[slot])
                f->slots[f->n++] = slot;
    }
    return 0;
}

static struct sub_wire wire_of(const struct journal_sub *newest)
{
    return (struct sub_wire){ newest->version, newest->slot, newest->wire_crc };
}

int subs_open(struct subs *s, const struct store *st, const struct journal *j, const char *dir,
              struct err *err)
{
    s->store = st;
    s->state = j->state;
    s->asked = SUBS_NONE;
    for (size_t i = 0; i < st->n_subs; i++) {
        struct journal_sub row = j->subs[i];
        uint64_t           version = st->subs[i].trains ? row.version : s->state.applied;

        if (!st->subs[i].trains)
            row.version = SUBS_FROZEN;
        s->sub[i] = (struct sub){ .newest = row, .committed = row,
                                  .wire = wire_of(&row), .grad = j->grads[i],
                                  .residual_crc = j->residuals ? j->residuals[i] : 0,
                                  .bounds = BOUNDS_UNKNOWN, .grad_most = INFINITY };
        if (version > s->state.applied || version + 1 < s->state.applied)
            return err_set(err, -EBADMSG,
                           "%s/run.db: subgroup %zu is at version %llu, but the last commit at "
                           "%llu", dir, i, (unsigned long long)version,
                           (unsigned long long)s->state.applied);
    }
    return free_fill(s, dir, err);
}

int subs_all(const struct subs *s, size_t block, uint64_t version, int committed)
{
    size_t i = s->store->block_sub[block], end = s->store->block_sub[block + 1];

    while (i < end &&
           (committed ? s->sub[i].committed.version : s->sub[i].wire.version) >= version)
        i++;
    return i == end;
}

int subs_slot_free(const struct subs *s, size_t i) { return free_of(s, i)->n > 0; }

uint32_t subs_begin(struct subs *s, size_t i)
{
    struct class_free *f = free_of(s, i);

    s->sub[i].state = SUB_UPDATING;
    return f->slots[--f->n];
}

void subs_ahead(struct subs *s, size_t i, const struct sub_wire *wire)
{
    if (s->sub[i].state == SUB_UPDATING)
        s->sub[i].wire = *wire;
}

int subs_end(struct subs *s, size_t i, const struct journal_sub *newest)
{
    struct sub *u = &s->sub[i];
    int         stands = u->state == SUB_UPDATING;

    u->state = stands ? SUB_UPDATED : SUB_CLEAN;
    if (stands) {
        u->newest = *newest;
        u->wire = wire_of(newest);
        free_of(s, i)->uncommitted++;
    } else {
        slot_give(s, i, newest->slot);
        s->dropping--;
    }
    return stands;
}

void subs_drop(struct subs *s, size_t i, int again)
{
    struct sub *u = &s->sub[i];

    if (u->state == SUB_CLEAN)
        return;
    u->again = again;
    u->bounds = BOUNDS_UNKNOWN; // known only for the dropped version
    u->wire = wire_of(&u->committed);
    if (u->state == SUB_UPDATING) {
        u->state = SUB_DROPPED;
        s->dropping++;
        return;
    }
    slot_give(s, i, u->newest.slot);
    free_of(s, i)->uncommitted--;
    u->newest = u->committed;
    u->state = SUB_CLEAN;
}

size_t subs_cover(struct subs *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->store->n_subs; i++)
        if (s->sub[i].state == SUB_UPDATED) {
            s->sub[i].state = SUB_COVERED;
            n++;
        }
    return n;
}

/* The slot of the committed version will be free: at once, or when a snapshot has it. */
static void slot_leave(struct subs *s, size_t i)
{
    struct sub *u = &s->sub[i];

    if (u->held != SUB_HELD) {
        slot_give(s, i, u->committed.slot);
        return;
    }
    u->held = SUB_OWED;
    free_of(s, i)->owed++;
    s->owed[s->n_owed++] = i;
}

void subs_commit(struct subs *s)
{
    for (size_t i = 0; i < s->store->n_subs; i++) {
        const struct store_sub *at = &s->store->subs[i];
        struct sub             *u = &s->sub[i];

        if (u->state != SUB_COVERED)
            continue;
        slot_leave(s, i);
        free_of(s, i)->uncommitted--;
        u->committed = u->newest;
        param_set_add(&s->overflow, at->block, at->first, u->overflow);
        u->state = SUB_CLEAN;
    }
}

/* ---- a snapshot that is being copied */

void subs_hold(struct subs *s)
{
    s->n_owed = s->owed_next = s->held = s->at = 0;
    s->asked = SUBS_NONE;
    s->wanted = 0;
    s->held_applied = s->state.applied;
    for (size_t i = 0; i < s->store->n_subs; i++) {
        struct sub *u = &s->sub[i];

        if (!s->store->subs[i].trains)
            continue;
        u->held = SUB_HELD;
        u->held_slot = u->committed.slot;
        s->held++;
    }
}

int subs_held_next(struct subs *s, int reverse, size_t *i)
{
    size_t n = s->store->n_subs;

    *i = s->asked;
    s->asked = SUBS_NONE;
    if (*i != SUBS_NONE && s->sub[*i].held)
        return 1;
    while (s->owed_next < s->n_owed) {
        *i = s->owed[s->owed_next++];
        if (s->sub[*i].held)
            return 1;
    }
    for (; s->at < 2 * n; s->at++) { // trained ones, then frozen ones
        *i = reverse ? n - 1 - s->at % n : s->at % n;
        if (s->at < n ? s->sub[*i].held != SUB_FREE : !s->store->subs[*i].trains) {
            s->at++;
            return 1;
        }
    }
    return 0;
}

void subs_let_go(struct subs *s, size_t i)
{
    struct sub *u = &s->sub[i];

    if (u->held == SUB_FREE)
        return;
    if (u->held == SUB_OWED) {
        slot_give(s, i, u->held_slot);
        free_of(s, i)->owed--;
    }
    u->held = SUB_FREE;
    s->held--;
    s->wanted = 0; // who still waits will say so
}

void subs_want(struct subs *s, size_t i)
{
    struct class_free *f = free_of(s, i);

    s->wanted |= f->owed > 0;
}

int subs_residual_held(struct subs *s, size_t block)
{
    if (!s->held || !s->store->error_feedback || (s->state.applied + 1 - s->held_applied) % 2)
        return 0;
    for (size_t i = s->store->block_sub[block]; i < s->store->block_sub[block + 1]; i++)
        if (s->sub[i].held) {
            s->asked = i;
            s->wanted = 1;
            return 1;
        }
    return 0;
}
