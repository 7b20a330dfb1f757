/* link.h: links between drives, accelerators and the host. Bytes that cross them are metered.
 * Transfers over modelled links are delayed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

// network: between ranks (offload/layout/ranks.h); files: from files that are no device's, over
// the host's own disk, which is not modelled
enum link_kind  { LINK_HOST, LINK_INTERNAL, LINK_NETWORK, LINK_FILES, LINK_KINDS };
// as memory sees it: read = from storage, or from another rank, into memory
enum link_dir   { LINK_READ, LINK_WRITE, LINK_DIRS };
enum link_class { CLASS_STATES, CLASS_GRADIENT, CLASS_WIRE, CLASS_ACTIVATION, CLASS_RESIDUAL,
                  CLASS_BASE, CLASS_SNAPSHOT, CLASS_PARITY, LINK_CLASSES };

extern const char *const link_kind_names[LINK_KINDS];   // "host", "internal", "network", "files"
extern const char *const link_dir_names[LINK_DIRS];     // "read", "write"
// "states", "gradient", "wire", "activation", "residual", "base" (frozen blocks in their own
// files), "snapshot" (states that are copied to a snapshot, and read back), "parity" (of it)
extern const char *const link_class_names[LINK_CLASSES];

/* Bytes that were moved: payload, and padding for alignment. */
struct link_meter {
    uint64_t bytes[LINK_KINDS][LINK_CLASSES][LINK_DIRS];
    uint64_t padding[LINK_KINDS][LINK_CLASSES][LINK_DIRS];
};
/* Add one transfer of `bytes`, of which `payload` are payload and the rest is padding. */
void link_meter_count(struct link_meter *m, enum link_kind link, enum link_class cls,
                      enum link_dir dir, size_t payload, size_t bytes);
void link_meter_add(struct link_meter *to, const struct link_meter *from);
uint64_t link_meter_total(const struct link_meter *m); // all bytes, with padding

struct link; // a modelled link; any thread may use it

/* A link leads from its lower end (a drive, a switch, an accelerator) to the link above, and so to
 * the host. LINK_READ is the direction up to the host, LINK_WRITE the direction down. */
struct link_rates {
    double   bytes_per_s[LINK_DIRS]; // 0: unlimited
    int      shared;     // true (a drive): both directions share its time, each at its own rate;
                         // false (PCIe): each direction has its own time
    uint64_t latency_ns; // added to each request; the link serves others meanwhile
};

/* above: the next link towards the host, which must outlive this one; NULL: the host. NULL if out
 * of memory. */
struct link *link_new(const struct link_rates *rates, struct link *above);
void         link_free(struct link *l); // NULL is fine
struct link *link_above(const struct link *l);
double       link_rate(const struct link *l, enum link_dir dir); // bytes a second; 0: unlimited

/* Model a transfer that is ready at now_ns: take every link from the end `from` up and then down to
 * the end `to`. A link stands for its lower end, NULL for the host. Returns the clock_ns time at
 * which the last link is done, with latencies added. Does not wait. */
uint64_t link_take(struct link *from, struct link *to, uint64_t bytes, uint64_t now_ns);

/* The clock_ns time from which on no link from this end up to the host has something to read. */
uint64_t link_idle_ns(struct link *from);

/* The ends between which one device's transfers go. engine: the device's own accelerator.
 * accelerator: those that compute forward and backward, if not the host; their data pass through
 * the host's memory. */
struct link_ends {
    struct link        *drive, *engine;
    struct link *const *accelerator; // (n_accelerators)
    size_t              n_accelerators;
};
