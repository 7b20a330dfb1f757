/* link.h: what crosses the links between drives, accelerators and the host is metered, and where
 * links are modelled, delayed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

// the network's: what a rank gets from others, and sends to them (offload/layout/ranks.h)
enum link_kind  { LINK_HOST, LINK_INTERNAL, LINK_NETWORK, LINK_KINDS };
// seen from the memory: read = storage, or another rank, to memory
enum link_dir   { LINK_READ, LINK_WRITE, LINK_DIRS };
enum link_class { CLASS_STATES, CLASS_GRADIENT, CLASS_WIRE, CLASS_ACTIVATION, CLASS_RESIDUAL,
                  LINK_CLASSES };

extern const char *const link_kind_names[LINK_KINDS];   // "host", "internal", "network"
extern const char *const link_dir_names[LINK_DIRS];     // "read", "write"
// "states", "gradient", "wire", "activation", "residual"
extern const char *const link_class_names[LINK_CLASSES];

/* What a job moved: payload, and the alignment around it. */
struct link_meter {
    uint64_t bytes[LINK_KINDS][LINK_CLASSES][LINK_DIRS];
    uint64_t padding[LINK_KINDS][LINK_CLASSES][LINK_DIRS];
};
/* Enter one transfer: payload of its bytes. */
void link_meter_count(struct link_meter *m, enum link_kind link, enum link_class cls,
                      enum link_dir dir, size_t payload, size_t bytes);
void link_meter_add(struct link_meter *to, const struct link_meter *from);
uint64_t link_meter_total(const struct link_meter *m); // all of it, padding too

struct link; // a modelled link; thread-safe

/* A link leads from an end (a drive, a switch, an accelerator) to the end above it, and so to the
 * host. LINK_READ is the way up to the host, LINK_WRITE the way down. */
struct link_rates {
    double   bytes_per_s[LINK_DIRS]; // 0: unlimited
    int      shared;     // a drive: both ways share its time, each at its own rate; else each way
                         // has its own, as PCIe has
    uint64_t latency_ns; // a request is over so much later; the link serves others meanwhile
};

/* above: NULL is the host; it outlives the link. NULL if out of memory. */
struct link *link_new(const struct link_rates *rates, struct link *above);
void         link_free(struct link *l); // NULL is fine
struct link *link_above(const struct link *l);
double       link_rate(const struct link *l, enum link_dir dir); // bytes a second; 0: unlimited

/* Move bytes from the end `from` to the end `to` (a link stands for its lower end; NULL for the
 * host), ready to start at now_ns: every link between them is taken, up and then down. Returns the
 * clock_ns time at which the last of them is done, their latencies added. */
uint64_t link_take(struct link *from, struct link *to, uint64_t bytes, uint64_t now_ns);

/* The ends that the transfers of one device go between. engine: that of the device's own
 * accelerator. accelerators: those that compute forward and backward elsewhere than the host; what
 * they read or make comes through the host's memory. */
struct link_ends {
    struct link        *drive, *engine;
    struct link *const *accelerator; // (n_accelerators)
    size_t              n_accelerators;
};
