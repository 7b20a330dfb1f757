/* link.h: the links of a storage topology: what crosses them is metered, and where a bandwidth is
 * given, delayed. A link carries both directions independently (PCIe is full duplex). */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum link_kind  { LINK_HOST, LINK_INTERNAL, LINK_KINDS };
// seen from the memory: read = storage to memory
enum link_dir   { LINK_READ, LINK_WRITE, LINK_DIRS };
enum link_class { CLASS_STATES, CLASS_GRADIENT, CLASS_WIRE, CLASS_ACTIVATION, CLASS_RESIDUAL,
                  LINK_CLASSES };

extern const char *const link_kind_names[LINK_KINDS];   // "host", "internal"
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

/* bytes_per_s[dir] 0: unlimited. NULL if out of memory. */
struct link *link_new(const double bytes_per_s[LINK_DIRS]);
void link_free(struct link *l);

/* Occupy l with a transfer that is ready to start at now_ns; returns the clock_ns time at which it
 * is over. NULL: now_ns. */
uint64_t link_reserve(struct link *l, enum link_dir dir, uint64_t bytes, uint64_t now_ns);
