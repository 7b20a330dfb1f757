/* image.h: what an .xclbin says of memory and kernels. */
#pragma once

#include <stdint.h>
#include <xclbin.h>

enum { IMAGE_BANKS = 32, IMAGE_UNITS = 16, IMAGE_ARGS = 16 };

/* A compute unit: an instance of a kernel on the card. */
struct unit {
    char     kernel[64];
    uint64_t order;              // units are numbered by it
    int      n_args;
    int      offset[IMAGE_ARGS]; // of each argument in the unit's registers, in bytes
    uint32_t banks[IMAGE_ARGS];  // bit b: this argument reaches bank b
    int      shared, exclusive;  // contexts open on it
    int      hangs;              // a run on it never ends, so that none behind it begins
};

struct image {
    xuid_t      id;
    uint64_t    bank_base[IMAGE_BANKS], bank_bytes[IMAGE_BANKS]; // bytes 0: not used
    int         n_banks;
    struct unit unit[IMAGE_UNITS];
    int         n_units;
};

/* 0 or -EINVAL. */
int image_read(struct image *to, const struct axlf *from);
