/* memory.h: the memory of a software SmartSSD: banks, and buffers in them. */
#pragma once

#include "tests/smartssd/image.h"

#include <stddef.h>

enum { MEMORY_BUFFERS = 2048, MEMORY_EXEC = -1 };

struct buffer {
    int      live, bank;   // bank: MEMORY_EXEC: a command, in host memory alone
    int      p2p;          // the mapping is device memory itself
    unsigned flags;        // as they were asked for
    size_t   bytes;
    uint64_t offset;       // in its bank
    void    *host;         // the host's half, or the mapping; NULL: none yet
    int      host_is_ours; // else whoever allocated the buffer owns that memory
};

struct bank {
    uint64_t base, bytes;
    int      same_as; // groups may name one bank several times: the first that has this base
    int      fd;      // bytes 0: not there
    char    *device;  // all of it; what is in no buffer cannot be touched
};

struct memory {
    struct bank   bank[IMAGE_BANKS];
    int           n_banks;
    struct buffer buffer[MEMORY_BUFFERS];
};

/* The banks that an image has; 0 or -errno. */
int  memory_open(struct memory *m, const struct image *i);
void memory_close(struct memory *m); // frees buffers that are alive, too

/* A buffer's number, or -errno. user: its host half, NULL: one of its own. */
int   memory_alloc(struct memory *m, size_t bytes, unsigned flags, void *user);
void *memory_map(struct memory *m, unsigned buffer); // NULL and errno
void  memory_unmap(struct memory *m, unsigned buffer);
void  memory_free(struct memory *m, unsigned buffer);
/* NULL where none is alive under this number. */
struct buffer *memory_buffer(struct memory *m, unsigned buffer);
char          *memory_device(struct memory *m, const struct buffer *b);
uint64_t       memory_address(struct memory *m, const struct buffer *b);
/* The live buffer that a device address is in, and the host address of it; NULL: none. */
struct buffer *memory_at(struct memory *m, uint64_t address, void **at);
int            memory_live(struct memory *m); // buffers, without commands
