/* grad_wire.c: packs and unpacks compressed gradients. A chunk never splits a pair: header, pairs
 * and chunks are all multiples of 8 bytes. Nothing read is trusted: an index is used only after it
 * was compared. */
#include "csd/engine/grad_wire.h"

#include "data/base/round.h"

#include <assert.h>

struct grad_wire_header {
    char          magic[8];
    uint64_t      n, pairs;
    unsigned char zero[GRAD_WIRE_HEADER - 24];
};

static_assert(sizeof(struct grad_wire_header) == GRAD_WIRE_HEADER, "the header has no holes");
static_assert(sizeof(struct topk_pair) == 8, "a pair is 8 bytes on the device");

static const char grad_wire_magic[8] = {'s', 'i', 'T', 'r', 'G', 'r', 'd', '1'};

enum { NO_HEADER_YET = -2 }; // value of `last`

size_t grad_wire_bytes(size_t pairs)
{
    return round_up(GRAD_WIRE_HEADER + pairs * sizeof(struct topk_pair), GRAD_WIRE_ALIGN);
}

void grad_wire_pack(void *out, const struct topk_pair *in, size_t pairs, size_t first, size_t n)
{
    struct grad_wire_header h = {.n = n, .pairs = pairs};
    struct topk_pair       *to = (struct topk_pair *)((char *)out + GRAD_WIRE_HEADER);
    size_t                  used = GRAD_WIRE_HEADER + pairs * sizeof *to;

    memcpy(h.magic, grad_wire_magic, sizeof h.magic);
    memcpy(out, &h, sizeof h);
    for (size_t i = 0; i < pairs; i++) {
        assert(in[i].index >= first && in[i].index - first < n);
        to[i] = (struct topk_pair){(uint32_t)(in[i].index - first), in[i].value};
    }
    memset((char *)out + used, 0, grad_wire_bytes(pairs) - used);
}

void grad_wire_begin(struct grad_wire_reader *r, size_t n, size_t pairs)
{
    *r = (struct grad_wire_reader){.n = n, .pairs = pairs, .last = NO_HEADER_YET};
}

static int header_check(struct grad_wire_reader *r, const void *bytes, struct err *err)
{
    struct grad_wire_header h;

    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, grad_wire_magic, sizeof h.magic) != 0)
        return err_set(err, -EBADMSG, "no compressed gradient begins here");
    if (h.n != r->n || h.pairs != r->pairs)
        return err_set(err, -EBADMSG, "the compressed gradient holds %" PRIu64 " pairs of %" PRIu64
                       " parameters, %zu of %zu were expected", h.pairs, h.n, r->pairs, r->n);
    r->last = -1;
    return 0;
}

int grad_wire_refuse(const struct grad_wire_reader *r, uint32_t index, struct err *err)
{
    return err_set(err, -EBADMSG, "pair %zu of the compressed gradient has index %" PRIu32
                   " after %" PRId64 ", of %zu parameters", r->seen, index, r->last, r->n);
}

int grad_wire_scatter(struct grad_wire_reader *r, float *dense, const void *bytes, size_t n_bytes,
                      struct err *err)
{
    const char *at = bytes, *end = at + n_bytes;

    if (r->last == NO_HEADER_YET) {
        int rc = header_check(r, at, err);
        if (rc)
            return rc;
        at += GRAD_WIRE_HEADER;
    }
    for (; at < end && r->seen < r->pairs; at += sizeof(struct topk_pair), r->seen++) {
        struct topk_pair p;

        memcpy(&p, at, sizeof p);
        if (p.index >= r->n || (int64_t)p.index <= r->last)
            return grad_wire_refuse(r, p.index, err);
        dense[p.index] = p.value;
        r->last = p.index;
    }
    return 0;
}
