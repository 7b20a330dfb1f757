/* gathered.c: rank 0 says which parameters it wants, at most SPAN of a block; each rank that has
 * some of them sends them. A span of no parameters is the end. */
#include "run/ranks/gathered.h"

#include "data/base/round.h"

#include <math.h>

enum { SPAN = 1 << 16 };

struct span { uint64_t block, first, n; };

struct gathered {
    const struct run_config *cfg;
    struct comm             *comm;
    struct params_source     own;
    int                      failed;  // on rank 0: the others are not told anything more
    struct err               why;     // its sentence
    struct span             *wanted;  // (ranks) of which rank 0's counts
    struct comm_peer        *peers;   // (ranks)
    struct comm_request      request; // under way if an exchange has failed
    float                    part[SPAN]; // the span; of other ranks', what this one has of it
};

/* The parameters of a span that a rank has, counted in the whole block. */
static struct span part_of(const struct gathered *g, const struct span *w, size_t rank)
{
    size_t all = run_whole(g->cfg, w->block), size = g->comm->size;
    size_t from = size_max(w->first, ranks_first(all, rank, size));
    size_t to = size_min(w->first + w->n, ranks_first(all, rank + 1, size));

    return (struct span){ w->block, from, to > from ? to - from : 0 };
}

static float *place_of(struct gathered *g, const struct span *w, const struct span *part)
{
    return g->part + (part->n ? part->first - w->first : 0);
}

/* Moves a span from the ranks that have it to rank 0's g->part. */
static int move_span(struct gathered *g, const struct span *w, struct err *err)
{
    struct comm *c = g->comm;
    struct span mine = part_of(g, w, c->rank);
    float       *to = place_of(g, w, &mine);
    int rc = mine.n ? g->own.read(g->own.ctx, w->block, mine.first - run_first(g->cfg, w->block),
                                  mine.n, to, err)
                    : 0;

    memset(g->peers, 0, c->size * sizeof *g->peers);
    if (c->rank)
        g->peers[0] = (struct comm_peer){ .send = to, .send_bytes = mine.n * sizeof *to };
    for (size_t p = 1; !c->rank && p < c->size; p++) {
        struct span theirs = part_of(g, w, p);

        g->peers[p] = (struct comm_peer){ .recv = place_of(g, w, &theirs),
                                          .recv_bytes = theirs.n * sizeof *to };
    }
    rc = rc ? rc : comm_exchange(c, COMM_SHARES, g->peers, &g->request, err);
    return rc ? rc : comm_wait(c, &g->request, (double)INFINITY, err);
}

/* Rank 0's params_source.read. */
static int read_whole(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct gathered *g = ctx;

    for (size_t k; n > 0 && !g->failed; first += k, out += k, n -= k) {
        struct span w = { block, first, k = size_min(n, SPAN) };

        g->failed = comm_share(g->comm, &w, sizeof w, g->wanted, &g->why);
        g->failed = g->failed ? g->failed : move_span(g, &w, &g->why);
        if (!g->failed)
            memcpy(out, g->part, k * sizeof *out);
    }
    if (g->failed && err)
        *err = g->why;
    return g->failed;
}

static int serve(struct gathered *g, struct err *err)
{
    struct span none = { 0 };
    int          rc;

    while (!(rc = comm_share(g->comm, &none, sizeof none, g->wanted, err)) && g->wanted[0].n &&
           !(rc = move_span(g, &g->wanted[0], err)))
        ;
    return rc;
}

int gathered_begin(struct gathered **out, const struct run_config *cfg,
                   const struct params_source *own, struct params_source *source, struct err *err)
{
    struct comm     *comm = cfg->ranks.comm;
    struct gathered *g = *out = comm ? calloc(1, sizeof *g) : NULL;

    *source = *own;
    if (!comm)
        return 0;
    if (g) {
        g->wanted = calloc(comm->size, sizeof *g->wanted);
        g->peers = calloc(comm->size, sizeof *g->peers);
    }
    if (!g || !g->wanted || !g->peers)
        return err_set(err, -ENOMEM, "out of memory for the model of all ranks");
    g->cfg = cfg;
    g->comm = comm;
    g->own = *own;
    *source = (struct params_source){ read_whole, g };
    return comm->rank ? serve(g, err) : 0;
}

int gathered_end(struct gathered *g, struct err *err)
{
    struct span none = { 0 };

    if (!g)
        return 0;
    int rc = g->failed;
    if (rc)
        *err = g->why;
    else if (g->wanted && g->peers && !g->comm->rank)
        rc = comm_share(g->comm, &none, sizeof none, g->wanted, err);
    free(g->wanted);
    free(g->peers);
    if (comm_give_up(g->comm, &g->request)) // otherwise others may still write to it
        free(g);
    return rc;
}
