/* parity.c: where parity lies, and its computation by ISA-L. Of ISA-L's matrices for Reed-Solomon
 * codes this uses the one whose parity rows are all ones, and powers of 2: for one and two rows,
 * every square part of them can be inverted as long as the powers differ (up to 255 chunks). */
#include "offload/upkeep/parity.h"

#include "data/base/round.h"

#include <isa-l/erasure_code.h>

enum { CHUNKS_WANTED = 64, TABLE = 32 }; // TABLE: ISA-L's bytes for each factor

int parity_can(size_t devices, size_t parity, struct err *err)
{
    if (devices <= parity)
        return err_misuse(err, "--parity %zu needs at least %zu devices, and this run has %zu: "
                          "%s", parity, parity + 1, devices,
                          devices > 1 ? "give --parity 1" : "give --snapshot-on dir, with a "
                          "--snapshot-dir on another drive");
    return devices > PARITY_DEVICES
               ? err_misuse(err, "--snapshot-on devices is for at most %d devices, and this run "
                            "has %zu", PARITY_DEVICES, devices)
               : 0;
}

struct parity_shape parity_shape(size_t devices, size_t parity, uint64_t longest)
{
    struct parity_shape s = { .devices = devices, .parity = parity };
    uint64_t            want = longest / CHUNKS_WANTED + 1;

    s.chunk = round_up(size_min((size_t)want, PARITY_CHUNK), PARITY_SECTOR);
    uint64_t chunks = longest / s.chunk + (longest % s.chunk != 0), data = devices - parity;
    s.stripes = chunks / data * devices;
    for (size_t d = 0; d < devices; d++) // until each device has so many data chunks
        while (s.stripes - parity_before(&s, s.stripes, d) < chunks)
            s.stripes++;
    return s;
}

size_t parity_place(const struct parity_shape *s, uint64_t stripe, size_t device)
{
    return (device + s->devices - (size_t)(stripe % s->devices)) % s->devices;
}

uint64_t parity_before(const struct parity_shape *s, uint64_t stripe, size_t device)
{
    uint64_t n = stripe / s->devices * s->parity;

    for (size_t i = 0; i < stripe % s->devices; i++)
        n += parity_place(s, i, device) < s->parity;
    return n;
}

uint64_t parity_bytes(const struct parity_shape *s, size_t device)
{
    return parity_before(s, s->stripes, device) * s->chunk;
}

/* ---- ISA-L ---- */

struct code {
    int           data, parity;
    unsigned char rows[PARITY_DEVICES * PARITY_DEVICES]; // (data + parity, data)
    unsigned char tables[PARITY_MOST * PARITY_DEVICES * TABLE];
};

static unsigned char *row_at(struct code *c, int i)
{
    return c->rows + (size_t)i * (size_t)c->data;
}

static struct code *code_new(const struct parity_shape *s)
{
    struct code *c = malloc(sizeof *c);

    if (!c)
        return NULL;
    c->data = (int)(s->devices - s->parity);
    c->parity = (int)s->parity;
    gf_gen_rs_matrix(c->rows, c->data + c->parity, c->data);
    return c;
}

static int encode(struct code *c, const struct parity_shape *s, unsigned char **chunk,
                  unsigned char **parity)
{
    ec_init_tables(c->data, c->parity, row_at(c, c->data), c->tables);
    ec_encode_data((int)s->chunk, c->data, c->parity, c->tables, chunk + s->parity, parity);
    return 0;
}

int parity_encode(const struct parity_shape *s, unsigned char **chunk)
{
    struct code *c = code_new(s);
    int          rc = c ? encode(c, s, chunk, chunk) : -ENOMEM;

    free(c);
    return rc;
}

/* Makes the bad data chunks again: from as many good chunks of the stripe as it has data. */
static int decode_data(struct code *c, const struct parity_shape *s, unsigned char **chunk,
                       const unsigned char *bad)
{
    unsigned char  taken[PARITY_DEVICES * PARITY_DEVICES], back[sizeof taken];
    unsigned char  want[PARITY_MOST * PARITY_DEVICES];
    unsigned char *from[PARITY_DEVICES], *to[PARITY_MOST];
    size_t         data = (size_t)c->data;
    int            n = 0, lost = 0;

    for (size_t i = 0; i < s->devices && n < c->data; i++) {
        size_t place = (i + s->parity) % s->devices; // data first, and its rows, too
        if (bad[place])
            continue;
        memcpy(taken + (size_t)n * data, row_at(c, (int)i), data);
        from[n++] = chunk[place];
    }
    if (n < c->data || gf_invert_matrix(taken, back, c->data))
        return -EBADMSG;
    for (size_t i = 0; i < data; i++) {
        if (!bad[i + s->parity])
            continue;
        memcpy(want + (size_t)lost * data, back + i * data, data);
        to[lost++] = chunk[i + s->parity];
    }
    if (!lost)
        return 0;
    ec_init_tables(c->data, lost, want, c->tables);
    ec_encode_data((int)s->chunk, c->data, lost, c->tables, from, to);
    return 0;
}

int parity_decode(const struct parity_shape *s, unsigned char **chunk, const unsigned char *bad)
{
    unsigned char *parity[PARITY_MOST] = { 0 }, *scratch;
    size_t         lost = 0, lost_parity = 0;

    for (size_t i = 0; i < s->devices; i++) {
        lost += bad[i] != 0;
        lost_parity += bad[i] && i < s->parity;
    }
    if (lost > s->parity)
        return -EBADMSG;
    struct code *c = code_new(s);
    scratch = lost_parity ? aligned_alloc(PARITY_SECTOR, s->chunk) : NULL;
    int rc = !c || (lost_parity && !scratch) ? -ENOMEM : 0;
    if (!rc && lost > lost_parity)
        rc = decode_data(c, s, chunk, bad);
    for (size_t i = 0; i < s->parity; i++) // one that is whole is not written over
        parity[i] = bad[i] ? chunk[i] : scratch;
    if (!rc && lost_parity)
        rc = encode(c, s, chunk, parity);
    free(scratch);
    free(c);
    return rc;
}
