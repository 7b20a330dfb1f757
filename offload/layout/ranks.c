/* ranks.c: cuts blocks into portions, one for each rank, says which nodes of the sum a rank
 * computes, and finds rank 0's folder by that of a rank. */
#include "offload/layout/ranks.h"

#include "data/base/machine.h"
#include "data/base/round.h"
#include "kernels/update/reduce.h"

#include <stdio.h>
#include <string.h>

size_t ranks_first(size_t n, size_t rank, size_t size)
{
    return size_min(rank * div_up(n, REDUCE_BLOCK) / size * REDUCE_BLOCK, n);
}

size_t ranks_portions(size_t *portion, const struct run_ranks *r, const size_t *params, size_t n)
{
    size_t size = size_max(r->size, 1), all = 0;

    for (size_t b = 0; b < n; b++) {
        portion[b] = ranks_first(params[b], r->rank + 1, size) -
                     ranks_first(params[b], r->rank, size);
        all += portion[b];
    }
    return all;
}

size_t ranks_nodes(const struct run_ranks *r, size_t rank, struct sum_node *out)
{
    size_t each = r->groups / r->size;

    return sum_nodes(out, rank * each, each, r->groups);
}

size_t ranks_first_length(const char *dir, size_t rank)
{
    char   tail[32] = "";
    size_t n = strlen(dir);
    size_t end = rank ? (size_t)snprintf(tail, sizeof tail, ".rank%zu", rank) : 0;

    return n > end && !strcmp(dir + n - end, tail) ? n - end : n;
}

const char *ranks_command(char out[RANKS_COMMAND], const char *dir, const struct run_ranks *r,
                          const char *command)
{
    char run[PATH_MAX];
    int  n = 0;

    if (r->size > 1)
        n = snprintf(out, RANKS_COMMAND, "mpirun -n %zu ", r->size);
    n += snprintf(out + n, RANKS_COMMAND - (size_t)n, "siTrain %s ", command);
    snprintf(run, sizeof run, "%.*s", (int)ranks_first_length(dir, r->rank), dir);
    machine_word(out + n, RANKS_COMMAND - (size_t)n, run);
    return out;
}
