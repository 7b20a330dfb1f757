/* comm.c: opens the ranks of a job, with MPI or as a single process, and implements calls that all
 * kinds share: gathers are exchanges, and waiting is testing now and then. */
#include "comm/comm.h"

#include "data/base/clock.h"
#include "data/base/round.h"

#include <assert.h>
#include <math.h>

/* ---- which kind ---- */

static size_t said(const char *name)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : 0;
}

/* The number of ranks that starters put into the environment: Open MPI's mpirun; MPICH's, Intel's,
 * or srun with PMI; srun with PMIx. One may be started within another, like mpirun in a shell that
 * srun gave. Such a shell has one rank, so the largest number counts. */
size_t comm_started(void)
{
    size_t of_mpirun = size_max(said("OMPI_COMM_WORLD_SIZE"), said("PMI_SIZE")),
           of_srun = getenv("PMIX_RANK") ? said("SLURM_STEP_NUM_TASKS") : 0;

    return size_max(size_max(of_mpirun, of_srun), 1);
}

int comm_by_starter(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK");
}

int comm_open(struct comm **out, struct err *err)
{
    static struct comm self = { .size = 1 };
    size_t             n = comm_started();

    *out = &self;
    if (n == 1)
        return 0;
    if (!comm_mpi_open)
        return err_misuse(err, "%zu processes were started together, but this siTrain is built "
                               "without MPI: install libopenmpi-dev and make it again", n);
    int rc = comm_mpi_open(out, err);
    if (rc || (*out)->size > 1)
        return rc;
    comm_close(*out);
    *out = NULL;
    return err_misuse(err, "%zu processes were started together, but the MPI that this siTrain is "
                           "built with sees one: start them with its own mpirun, or with an srun "
                           "that knows it (srun --mpi=list)", n);
}

void comm_close(struct comm *c)
{
    if (c && c->ops)
        c->ops->close(c);
}

size_t comm_host(const struct comm *c, size_t rank)
{
    size_t first = 0;

    while (c->ops && c->ops->near && first < rank && !c->ops->near(c, first, rank))
        first++;
    return first;
}

void comm_abort(struct comm *c, int code)
{
    if (c->ops)
        c->ops->abort(c, code);
}

/* ---- between ranks ---- */

/* Shares data through memory of its own. After a failure this memory is kept, because others may
 * still write to it. If there is nothing to share, a byte is shared, so that all ranks wait for
 * each other. */
int comm_share(struct comm *c, const void *mine, size_t bytes, void *all, struct err *err)
{
    size_t              n = bytes ? bytes : 1;
    struct comm_peer   *peers = calloc(c->size, sizeof *peers);
    char               *room = calloc(c->size + 1, n);
    struct comm_request r = { 0 };
    int                 rc = peers && room ? 0 : err_set(err, -ENOMEM, "out of memory");

    if (!rc && bytes)
        memcpy(room + c->size * n, mine, bytes);
    for (size_t p = 0; p < c->size && !rc; p++)
        peers[p] = (struct comm_peer){ room + c->size * n, n, room + p * n, n };
    rc = rc ? rc : comm_exchange(c, COMM_SHARES, peers, &r, err);
    rc = rc ? rc : comm_wait(c, &r, INFINITY, err);
    if (!rc && bytes)
        memcpy(all, room, c->size * bytes);
    free(peers);
    if (comm_give_up(c, &r))
        free(room);
    return rc;
}

int comm_first_begin(struct comm *c, struct err *err)
{
    return c && c->rank > 0 ? comm_share(c, NULL, 0, NULL, err) : 0;
}

int comm_first_end(struct comm *c, struct err *err)
{
    return c && c->rank == 0 ? comm_share(c, NULL, 0, NULL, err) : 0;
}

void *comm_collect(struct comm *c, const void *mine, size_t bytes, int *rc, struct err *err)
{
    void *all = calloc(c->size, bytes);

    *rc = all ? comm_share(c, mine, bytes, all, err)
              : err_set(err, -ENOMEM, "out of memory for %zu ranks", c->size);
    if (!*rc)
        return all;
    free(all);
    return NULL;
}

int comm_exchange(struct comm *c, enum comm_channel channel, const struct comm_peer *peers,
                  struct comm_request *r, struct err *err)
{
    const struct comm_peer *own = &peers[c->rank];

    assert(!r->own && own->send_bytes == own->recv_bytes);
    if (own->send_bytes > 0 && own->recv != own->send)
        memmove(own->recv, own->send, own->send_bytes);
    return c->ops ? c->ops->exchange(c, channel, peers, r, err) : 0;
}

int comm_gather(struct comm *c, enum comm_channel channel, void *buf, const size_t *at,
                struct comm_request *r, struct err *err)
{
    struct comm_peer *peers = calloc(c->size, sizeof *peers);
    char             *bytes = buf;

    if (!peers)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t p = 0; p < c->size; p++)
        peers[p] = (struct comm_peer){ bytes + at[c->rank], at[c->rank + 1] - at[c->rank],
                                       bytes + at[p], at[p + 1] - at[p] };
    int rc = comm_exchange(c, channel, peers, r, err);
    free(peers);
    return rc;
}

/* Tests a request once and adds the time since the last test. At most COUNTS_NS of that counts: a
 * waiting caller tests a thousand times as often, so a longer gap means that this process did not
 * run. */
static int look(struct comm *c, struct comm_request *r, double seconds, struct err *err)
{
    enum { COUNTS_NS = 50000000 };
    size_t   waits_for = c->rank;
    char     who[128];
    int      rc = c->ops ? c->ops->test(c, r, &waits_for, err) : 1;
    uint64_t now = clock_ns(), gap = r->looked_ns ? now - r->looked_ns : 0;

    r->looked_ns = rc > 0 ? 0 : now;
    r->waited_ns = rc > 0 ? 0 : r->waited_ns + (gap < COUNTS_NS ? gap : COUNTS_NS);
    if (rc || (double)r->waited_ns * 1e-9 <= seconds)
        return rc;
    c->ops->who(c, waits_for, who, sizeof who);
    return err_set(err, -ETIMEDOUT, "rank %zu (%s) has not answered for %.4g s", waits_for, who,
                   seconds);
}

static double patience(const struct comm *c) { return c->patience > 0 ? c->patience : INFINITY; }

int comm_test(struct comm *c, struct comm_request *r, struct err *err)
{
    return look(c, r, patience(c), err);
}

int comm_wait(struct comm *c, struct comm_request *r, double seconds, struct err *err)
{
    enum { HOT_NS = 100000, NAP_NS = 50000 };
    double most = isinf(seconds) ? patience(c) : seconds;
    int    rc;

    while ((rc = look(c, r, most, err)) == 0)
        if (r->waited_ns > HOT_NS)
            nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    return rc < 0 ? rc : 0;
}

int comm_give_up(struct comm *c, struct comm_request *r)
{
    return !r->own || c->ops->give_up(c, r);
}
