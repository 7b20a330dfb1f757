/* balance.c: a layer whose activations are offloaded takes `recompute` from the step and gives the
 * devices `carry` to do. Layers are offloaded as long as the devices are then busy for no more than
 * SHARE of it:
 *
 *     busy + n carry <= SHARE (step - n recompute)
 *
 * Where recomputing takes no time, or the devices are busy all along, nothing is gained. */
#include "model/balance.h"

#define SHARE 0.9

size_t balance_layers(const struct balance *b, size_t most)
{
    double room = SHARE * b->step - b->busy, each = b->carry + SHARE * b->recompute;

    if (!(room > 0) || !(b->recompute > 0))
        return 0;
    return room >= each * (double)most ? most : (size_t)(room / each);
}
