/* areas.c: says where an area of a run's states lies, and what is in it. */
#include "offload/devices/areas.h"

const char *const verify_names[VERIFY_KINDS] = {
    "superblocks", "states", "frozen parameters", "wire parameters", "gradients", "residuals",
    "images"
};

enum verify_kind area_kind(const struct store_sub *u, size_t k)
{
    return k == 0 ? VERIFY_STATES : k == 2 ? VERIFY_RESIDUAL
                                  : u->trains ? VERIFY_WIRE : VERIFY_FROZEN;
}

struct area area_of(const struct store *st, size_t i, enum verify_kind kind,
                    const struct journal_sub *row, uint64_t applied, uint32_t residual)
{
    const struct store_sub *u = &st->subs[i];
    struct area a = { .kind = kind, .file = u->device, .sub = i, .block = u->block,
                      .first = u->first, .n = u->n, .version = row->version };
    uint64_t slot = store_slot_off(st, u->class_, row->slot);
    size_t   states = store_states_of(st, u);

    if (kind == (u->trains ? VERIFY_WIRE : VERIFY_FROZEN)) {
        a.off = slot + states;
        a.bytes = store_wire_bytes(st, u->n_pad);
        a.crc = row->wire_crc;
    } else if (kind == VERIFY_STATES && u->trains) {
        a.off = slot;
        a.bytes = states;
        a.crc = row->states_crc;
    } else if (kind == VERIFY_RESIDUAL && u->trains && st->error_feedback) {
        a.off = store_residual_off(u, applied);
        a.bytes = store_residual_bytes(u->n_pad);
        a.crc = residual;
        a.version = applied;
    }
    return a;
}

int area_same(const struct area *a, const struct area *b)
{
    return a->file == b->file && a->off == b->off && a->bytes == b->bytes && a->crc == b->crc &&
           a->version == b->version;
}

const char *area_tensors(char out[AREA_TENSORS], const struct run_config *cfg, size_t block,
                         size_t first, size_t n)
{
    char from[RUN_NAME], to[RUN_NAME];

    *out = '\0';
    if (!cfg->name || !n || run_packed(cfg, block))
        return out;
    run_name(cfg, block, first, from);
    run_name(cfg, block, first + n - 1, to);
    if (strcmp(from, to))
        snprintf(out, AREA_TENSORS, " (%s to %s)", from, to);
    else
        snprintf(out, AREA_TENSORS, " (%s)", from);
    return out;
}

int area_says(struct err *out, const struct run_config *cfg, const struct area *a,
              const char *path, const char *why)
{
    static const char *const what[VERIFY_KINDS] = {
        [VERIFY_STATES] = "states (master and moments)",
        [VERIFY_FROZEN] = "frozen parameters", [VERIFY_WIRE] = "wire parameters",
        [VERIFY_GRADIENT] = "gradient", [VERIFY_RESIDUAL] = "residual", [VERIFY_IMAGE] = "states"
    };
    char device[48] = "", names[AREA_TENSORS];

    area_tensors(names, cfg, a->block, a->first, a->n);
    if (cfg->mode == RUN_MEM)
        return err_set(out, -EBADMSG, "%s: the %s of block %zu%s, %" PRIu64 " bytes at offset %"
                       PRIu64 ": %s", path, what[a->kind], a->block, names, a->bytes, a->off, why);
    snprintf(device, sizeof device, "device %zu (", a->file);
    return err_set(out, -EBADMSG, "%s%s): the %s of block %zu, parameters %zu to %zu%s, %" PRIu64
                   " bytes at offset %" PRIu64 ": %s", device, path, what[a->kind], a->block,
                   a->first, a->first + a->n - 1, names, a->bytes, a->off, why);
}
