/* exchange.c: exchanges one block's gradient at a time between ranks, adds what came, and shares
 * the sums for the norm. */
#include "offload/gradient/exchange.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "kernels/update/reduce.h"

#include <assert.h>
#include <math.h>
#include <omp.h>

/* ---- what is sent, and where it arrives ---- */

static size_t portion_of(const struct run_config *cfg, size_t block, size_t rank)
{
    size_t n = run_whole(cfg, block);

    return ranks_first(n, rank + 1, cfg->ranks.size) - ranks_first(n, rank, cfg->ranks.size);
}

/* Partial sums of a rank's portion; of a frozen block there are none. */
static size_t sums_of(const struct run_config *cfg, size_t block, size_t rank)
{
    return run_trains(cfg, block) ? div_up(portion_of(cfg, block, rank), REDUCE_BLOCK) : 0;
}

/* Where this rank's portion of a block begins, and its length. */
static size_t own_first(const struct exchange *x, size_t block)
{
    return run_first(&x->sched->cfg, block);
}

static size_t own_n(const struct exchange *x, size_t block)
{
    return x->sched->cfg.block_params[block];
}

/* The most bytes of an incoming node, for this rank's portion of a block. */
static size_t comes_bytes(const struct run_config *cfg, size_t block, struct sum_node node)
{
    size_t n = cfg->block_params[block],
           groups = sum_end(node, cfg->ranks.groups) - sum_first(node);

    if (!run_pair_sums(cfg))
        return n * sizeof(float);
    return size_min(groups * topk_count(run_whole(cfg, block), cfg->compress), n) *
           sizeof(struct topk_pair);
}

/* Bytes for what the other ranks send. *merged: bytes of the sum, with compression. */
static size_t inbox_bytes(const struct run_config *cfg, size_t *merged)
{
    struct sum_node some[SUM_NODES_MOST], root = { 8 * sizeof(size_t) - 1, 0 };
    size_t          most = 0;

    *merged = 0;
    for (size_t b = 0; b < run_blocks(cfg); b++) {
        size_t bytes = 0;

        if (!run_trains(cfg, b))
            continue;
        for (size_t p = 0; p < cfg->ranks.size; p++)
            for (size_t k = ranks_nodes(&cfg->ranks, p, some); p != cfg->ranks.rank && k-- > 0;)
                bytes += comes_bytes(cfg, b, some[k]);
        most = size_max(most, bytes);
        *merged = size_max(*merged, run_pair_sums(cfg) ? comes_bytes(cfg, b, root) : 0);
    }
    return most;
}

void exchange_tables(struct exchange *x, const struct run_config *cfg, struct arena *a)
{
    const struct run_ranks *r = &cfg->ranks;
    struct sum_node         some[SUM_NODES_MOST];
    size_t                  n_blocks = run_blocks(cfg), all = 0, sums = 0, merged;

    if (r->size < 2)
        return;
    x->rounds = 0;
    for (size_t p = 0; p < r->size; p++) {
        size_t n = ranks_nodes(r, p, some);

        x->rounds = size_max(x->rounds, n);
        all += n;
    }
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t p = 0; p < r->size; p++)
            sums += sums_of(cfg, b, p);
    x->first = arena_take(a, (r->size + 1) * sizeof *x->first);
    x->nodes = arena_take(a, all * sizeof *x->nodes);
    x->work = arena_take(a, all * sizeof *x->work);
    x->x = arena_take(a, all * sizeof *x->x);
    x->slice = arena_take(a, all * sizeof *x->slice);
    x->peers = arena_take(a, r->size * sizeof *x->peers);
    x->requests = arena_take(a, x->rounds * sizeof *x->requests);
    x->sums_at = arena_take(a, (r->size * n_blocks + 1) * sizeof *x->sums_at);
    x->sums = arena_take(a, sums * sizeof *x->sums);
    x->inbox = arena_take(a, inbox_bytes(cfg, &merged));
    x->lists = arena_take(a, all * sizeof *x->lists);
    x->come = arena_take(a, all * sizeof *x->come);
    x->go = arena_take(a, r->size * x->rounds * sizeof *x->go);
    x->merged.pairs = arena_take(a, merged);
    x->scratch = arena_take(a, run_pair_sums(cfg) ? pair_sum_scratch(all) : 0);
}

static void tables_fill(struct exchange *x)
{
    const struct run_config *cfg = &x->sched->cfg;
    const struct run_ranks  *r = &cfg->ranks;
    size_t                   n_blocks = run_blocks(cfg), at = 0;

    x->first[0] = 0;
    for (size_t p = 0; p < r->size; p++)
        x->first[p + 1] = x->first[p] + ranks_nodes(r, p, x->nodes + x->first[p]);
    for (size_t p = 0; p < r->size; p++)
        for (size_t b = 0; b < n_blocks; b++) {
            x->sums_at[p * n_blocks + b] = at;
            at += sums_of(cfg, b, p);
        }
    x->sums_at[r->size * n_blocks] = at;
}

/* ---- the merger ---- */

static void merge_pairs(struct exchange *x)
{
    const struct run_ranks *r = &x->sched->cfg.ranks;
    struct pair_sum         s = { .lists = x->lists, .nodes = x->nodes,
                                  .n_lists = x->first[r->size], .groups = r->groups,
                                  .first = own_first(x, x->block), .n = own_n(x, x->block),
                                  .scratch = x->scratch };

    x->merged.n = pair_sum(&s, x->merged.pairs, (double *)exchange_sum(x, x->block));
}

/* Adds all nodes' values of this rank's portion into the first of its own nodes, in slices that
 * stay in the cache. */
static void merge(struct exchange *x)
{
    enum { SLICE = 4096 };
    const struct run_ranks *r = &x->sched->cfg.ranks;
    size_t                  n = own_n(x, x->block), all = x->first[r->size];
    float                  *to = x->x[x->first[r->rank]];

    for (size_t i = 0; i < n; i += SLICE) {
        size_t len = size_min(n - i, SLICE);

        memcpy(x->work, x->nodes, all * sizeof *x->work);
        for (size_t k = 0; k < all; k++)
            x->slice[k] = x->x[k] + i;
        size_t left = sum_merge(x->work, x->slice, all, r->groups, len);
        assert(left == 1);
        (void)left;
        if (x->slice[0] != to + i)
            memcpy(to + i, x->slice[0], len * sizeof *to);
    }
    reduce_sums((double *)exchange_sum(x, x->block), to, n);
}

static int merger_work(void *exchange)
{
    struct exchange *x = exchange;

    if (x->state != EXCHANGE_MERGING)
        return 0;
    thread_unlock(&x->merger);
    omp_set_num_threads(1); // the model's threads use the other cores
    if (x->pairs)
        merge_pairs(x);
    else
        merge(x);
    x->ready(x->ctx, x->block);
    thread_lock(&x->merger);
    x->state = EXCHANGE_MERGED;
    bell_ring(&x->sched->dev.bell);
    return 1;
}

int exchange_open(struct exchange *x, struct err *err)
{
    if (x->sched->cfg.ranks.size < 2)
        return 0;
    tables_fill(x);
    thread_init(&x->merger, merger_work, x);
    return thread_start(&x->merger, "merger", err);
}

enum exchange_phase exchange_state(struct exchange *x)
{
    if (!x->merger.running)
        return EXCHANGE_IDLE;
    thread_lock(&x->merger);
    enum exchange_phase state = x->state;
    thread_unlock(&x->merger);
    return state;
}

static void state_set(struct exchange *x, enum exchange_phase state)
{
    thread_lock(&x->merger);
    x->state = state;
    thread_changed(&x->merger);
    thread_unlock(&x->merger);
}

int exchange_give_up(struct exchange *x)
{
    int all = 1;

    for (size_t k = 0; x->merger.running && k < x->rounds; k++)
        all &= comm_give_up(x->sched->cfg.ranks.comm, &x->requests[k]);
    return all && (!x->merger.running || comm_give_up(x->sched->cfg.ranks.comm, &x->norm));
}

void exchange_close(struct exchange *x) { thread_release(&x->merger); }

/* ---- the scheduler's side ---- */

static size_t nodes_of(const struct exchange *x, size_t rank)
{
    return x->first[rank + 1] - x->first[rank];
}

/* The part of this rank's k-th node that belongs to rank p. */
static void part_goes(const struct exchange *x, size_t p, size_t k, struct comm_peer *peer)
{
    const struct run_config *cfg = &x->sched->cfg;
    size_t first = ranks_first(run_whole(cfg, x->block), p, cfg->ranks.size),
           n = portion_of(cfg, x->block, p);

    *peer = (struct comm_peer){ .send = x->dense ? x->dense[k] + first : NULL,
                                .send_bytes = n * sizeof(float) };
    if (!x->pairs)
        return;
    struct pair_list part = pair_list_part(x->pairs[k], first, n);
    peer->send = part.pairs;
    peer->send_bytes = part.n * sizeof *part.pairs;
}

/* The part of the i-th of all nodes that belongs to this rank. */
static void part_comes(struct exchange *x, size_t i, struct comm_peer *peer, char **inbox)
{
    x->x[i] = (float *)*inbox;
    x->lists[i] = (struct pair_list){ (struct topk_pair *)*inbox, x->come[i] };
    peer->recv = *inbox;
    peer->recv_bytes = x->pairs ? x->come[i] * sizeof(struct topk_pair)
                                : own_n(x, x->block) * sizeof(float);
    *inbox += peer->recv_bytes;
}

/* Begins the k-th exchange with what the peers say. */
static int round_begin(struct exchange *x, size_t k, struct err *err)
{
    const struct run_ranks *r = &x->sched->cfg.ranks;

    for (size_t p = 0; p < r->size; p++) {
        x->sent += x->peers[p].send_bytes;
        x->came += x->peers[p].recv_bytes;
    }
    return comm_exchange(r->comm, COMM_GRADIENTS, x->peers, &x->requests[k], err);
}

/* Sends each other rank its part of this rank's k-th node, for all k. Not every rank has so many
 * nodes. */
static int nodes_begin(struct exchange *x, struct err *err)
{
    const struct run_ranks *r = &x->sched->cfg.ranks;
    char                   *inbox = x->inbox;
    int                     rc = 0;

    for (size_t k = 0; k < x->rounds && !rc; k++) {
        for (size_t p = 0; p < r->size; p++) {
            x->peers[p] = (struct comm_peer){ 0 };
            if (p != r->rank && k < nodes_of(x, r->rank))
                part_goes(x, p, k, &x->peers[p]);
            if (p != r->rank && k < nodes_of(x, p))
                part_comes(x, x->first[p] + k, &x->peers[p], &inbox);
        }
        rc = round_begin(x, k, err);
    }
    return rc;
}

static void begin(struct exchange *x, size_t block)
{
    assert(exchange_state(x) == EXCHANGE_IDLE);
    x->block = block;
    x->since = clock_ns();
    x->sent = x->came = 0;
    x->dense = NULL;
    x->pairs = NULL;
    x->tells = 0;
}

int exchange_begin(struct exchange *x, size_t block, float *const *nodes, struct err *err)
{
    size_t rank = x->sched->cfg.ranks.rank;

    begin(x, block);
    x->dense = nodes;
    for (size_t k = 0; k < nodes_of(x, rank); k++)
        x->x[x->first[rank] + k] = nodes[k] + own_first(x, block);
    int rc = nodes_begin(x, err);
    state_set(x, EXCHANGE_UNDER_WAY);
    return rc;
}

int exchange_begin_pairs(struct exchange *x, size_t block, const struct pair_list *nodes,
                         struct err *err)
{
    const struct run_ranks *r = &x->sched->cfg.ranks;
    size_t                  own = nodes_of(x, r->rank);

    begin(x, block);
    x->pairs = nodes;
    x->tells = 1;
    for (size_t k = 0; k < own; k++)
        x->lists[x->first[r->rank] + k] =
            pair_list_part(nodes[k], own_first(x, block), own_n(x, block));
    for (size_t p = 0; p < r->size; p++) {
        struct comm_peer part;

        x->peers[p] = (struct comm_peer){ 0 };
        if (p == r->rank)
            continue;
        for (size_t k = 0; k < own; k++) {
            part_goes(x, p, k, &part);
            x->go[p * x->rounds + k] = part.send_bytes / sizeof(struct topk_pair);
        }
        x->peers[p] = (struct comm_peer){ x->go + p * x->rounds, own * sizeof *x->go,
                                          x->come + x->first[p], nodes_of(x, p) * sizeof *x->come };
    }
    int rc = round_begin(x, 0, err);
    state_set(x, EXCHANGE_UNDER_WAY);
    return rc;
}

/* The numbers of pairs are known now. They must fit into the inbox; otherwise the ranks do not
 * agree on the run. */
static int pairs_begin(struct exchange *x, struct err *err)
{
    const struct run_config *cfg = &x->sched->cfg;

    x->tells = 0;
    for (size_t p = 0; p < cfg->ranks.size; p++)
        for (size_t i = x->first[p]; p != cfg->ranks.rank && i < x->first[p + 1]; i++)
            if (x->come[i] > comes_bytes(cfg, x->block, x->nodes[i]) / sizeof(struct topk_pair))
                return err_set(err, -EBADMSG, "rank %zu has %" PRIu64 " pairs of the gradient of "
                               "block %zu for this one, more than there can be", p, x->come[i],
                               x->block);
    return nodes_begin(x, err);
}

int exchange_advance(struct exchange *x, struct err *err)
{
    int rc = 1;

    if (exchange_state(x) != EXCHANGE_UNDER_WAY)
        return 0;
    for (size_t k = 0; k < x->rounds && rc > 0; k++)
        if (x->requests[k].own)
            rc = comm_test(x->sched->cfg.ranks.comm, &x->requests[k], err);
    if (rc <= 0)
        return rc;
    if (x->tells) {
        rc = pairs_begin(x, err);
        return rc ? rc : 1;
    }
    scheduler_network(x->sched, PHASE_EXCHANGE, x->block, CLASS_GRADIENT, x->sent, x->came,
                      x->since);
    state_set(x, EXCHANGE_MERGING);
    return 1;
}

void exchange_end(struct exchange *x) { state_set(x, EXCHANGE_IDLE); }

/* ---- the norm ---- */

size_t exchange_sums(const struct exchange *x, size_t block)
{
    return sums_of(&x->sched->cfg, block, x->sched->cfg.ranks.rank);
}

const double *exchange_sum(const struct exchange *x, size_t block)
{
    const struct run_config *cfg = &x->sched->cfg;

    return x->sums + x->sums_at[cfg->ranks.rank * run_blocks(cfg) + block];
}

int exchange_norm(struct exchange *x, struct norm_sum *norm, struct err *err)
{
    const struct run_config *cfg = &x->sched->cfg;
    size_t                   n_blocks = run_blocks(cfg), size = cfg->ranks.size;
    size_t                  *at = calloc(size + 1, sizeof *at);

    if (!at)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t p = 0; p <= size; p++)
        at[p] = x->sums_at[p * n_blocks] * sizeof *x->sums;
    int rc = comm_gather(cfg->ranks.comm, COMM_SHARES, x->sums, at, &x->norm, err);
    rc = rc ? rc : comm_wait(cfg->ranks.comm, &x->norm, INFINITY, err);
    free(at);
    for (size_t i = 0; i < route_uses(&cfg->route, STREAM_TRAIN, ROUTE_SEND) && !rc; i++) {
        size_t block = route_block(&cfg->route, STREAM_TRAIN, ROUTE_SEND, i);
        double sum = 0;

        for (size_t p = 0; p < size; p++)
            for (size_t k = 0; k < sums_of(cfg, block, p); k++)
                sum += x->sums[x->sums_at[p * n_blocks + block] + k];
        if (!isfinite(sum))
            norm_sum_flag(norm, block);
        norm->sumsq += sum;
    }
    return rc;
}
