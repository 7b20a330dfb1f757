/* balance.h: how many layers' activations are offloaded (--activations auto): what the devices can
 * carry in the time that computing leaves them. A pure function of what one step took. */
#ifndef MODEL_BALANCE_H
#define MODEL_BALANCE_H

#include <stddef.h>

/* Seconds of a step in which no layer's were offloaded. */
struct balance {
    double step;      // all of it
    double busy;      // the devices were at work: moving, or updating
    double recompute; // one layer's activations, all micro-batches, computed again
    double carry;     // the same written to the devices and read back, at the rate of their work
};

/* Layers, `most` at most. */
size_t balance_layers(const struct balance *b, size_t most);

#endif
