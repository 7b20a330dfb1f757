/* memory.c: device memory as files that no folder names. A bank is mapped once, as the device sees
 * it: what is in no buffer cannot be touched there, nor what lies behind the bank, as far as a
 * kernel reaches; such a page is behind every buffer, so that a kernel that goes too far is seen.
 * The host sees a P2P buffer through a mapping of its own; any other has a half in host memory,
 * which only syncing copies.
 *
 * Files, not memfds: memory of these the kernel would let io_uring register, a card's it does not.
 */
#include "tests/smartssd/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xrt.h>

static const size_t   PAGE = 4096;
static const size_t   SOILED = 16 << 20;  // bytes of a buffer; the rest takes no room yet
static const uint64_t REACH = 64ull << 32; // bytes: as far as a command's 32 bits count lines

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static int file_open(uint64_t bytes)
{
    const char *folder = getenv("SMARTSSD_FOLDER");
    char        path[4096];

    snprintf(path, sizeof path, "%s/smartssd-XXXXXX", folder ? folder : "/var/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    unlink(path);
    if (ftruncate(fd, (off_t)bytes) == 0)
        return fd;
    int rc = -errno;
    close(fd);
    return rc;
}

static int bank_open(struct memory *m, int i)
{
    struct bank *b = &m->bank[i];

    b->same_as = 0;
    while (m->bank[b->same_as].bytes == 0 || m->bank[b->same_as].base != b->base)
        b->same_as++;
    if (b->same_as < i)
        return 0;
    b->fd = file_open(b->bytes);
    if (b->fd < 0)
        return b->fd;
    void *p = mmap(NULL, b->bytes + REACH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED ||
        mmap(p, b->bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, b->fd, 0) == MAP_FAILED) {
        int rc = -errno;

        if (p != MAP_FAILED)
            munmap(p, b->bytes + REACH);
        close(b->fd);
        return rc;
    }
    b->device = p;
    return 0;
}

int memory_open(struct memory *m, const struct image *image)
{
    const char *mib = getenv("SMARTSSD_MEMORY");
    uint64_t    most = mib ? strtoull(mib, NULL, 10) << 20 : UINT64_MAX;

    for (int i = 0; i < image->n_banks; i++) {
        struct bank *b = &m->bank[m->n_banks++];

        *b = (struct bank){ .base = image->bank_base[i], .bytes = image->bank_bytes[i] };
        if (b->bytes > most)
            b->bytes = most;
        int rc = b->bytes ? bank_open(m, i) : 0;
        if (rc) {
            b->bytes = 0;
            return rc;
        }
    }
    return 0;
}

void memory_close(struct memory *m)
{
    for (unsigned i = 0; i < MEMORY_BUFFERS; i++)
        memory_free(m, i);
    for (int i = 0; i < m->n_banks; i++)
        if (m->bank[i].device) {
            munmap(m->bank[i].device, m->bank[i].bytes + REACH);
            close(m->bank[i].fd);
        }
    m->n_banks = 0;
}

/* First fit, with a page before and behind; 0: there is no such place. */
static uint64_t place(const struct memory *m, int bank, size_t bytes)
{
    uint64_t at = PAGE;

    for (int moved = 1; moved;) {
        moved = 0;
        for (int i = 0; i < MEMORY_BUFFERS; i++) {
            const struct buffer *b = &m->buffer[i];
            uint64_t             end = b->offset + pages(b->bytes) + PAGE;

            if (b->live && b->bank == bank && at < end && b->offset < at + bytes + PAGE) {
                at = end;
                moved = 1;
            }
        }
    }
    return at + bytes + PAGE <= m->bank[bank].bytes ? at : 0;
}

int memory_alloc(struct memory *m, size_t bytes, unsigned flags, void *user)
{
    int exec = (flags & XCL_BO_FLAGS_EXECBUF) != 0, i;
    int bank = exec ? MEMORY_EXEC : (int)(flags & 0xffff);

    if (bytes == 0 || (!exec && (bank >= m->n_banks || m->bank[bank].bytes == 0)))
        return -EINVAL;
    for (i = 0; i < MEMORY_BUFFERS && m->buffer[i].live; i++)
        ;
    if (i == MEMORY_BUFFERS)
        return -ENOMEM;
    struct buffer b = { .live = 1, .bank = bank, .p2p = (flags & XCL_BO_FLAGS_P2P) != 0,
                        .flags = flags, .bytes = bytes, .host = user };
    if (!exec) {
        b.bank = m->bank[bank].same_as;
        b.offset = place(m, b.bank, pages(bytes));
        if (!b.offset)
            return -ENOMEM;
        if (mprotect(memory_device(m, &b), pages(bytes), PROT_READ | PROT_WRITE))
            return -errno;
        // nobody zeroes a card's memory
        memset(memory_device(m, &b), 0xa5, bytes < SOILED ? pages(bytes) : SOILED);
    }
    m->buffer[i] = b;
    return i;
}

void *memory_map(struct memory *m, unsigned buffer)
{
    struct buffer *b = memory_buffer(m, buffer);
    int            prot = PROT_READ | PROT_WRITE;

    if (!b || b->flags & XCL_BO_FLAGS_DEV_ONLY) {
        errno = EINVAL;
        return NULL;
    }
    if (b->host)
        return b->host;
    void *p = b->p2p ? mmap(NULL, pages(b->bytes), prot, MAP_SHARED, m->bank[b->bank].fd,
                            (off_t)b->offset)
                     : mmap(NULL, pages(b->bytes), prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    b->host_is_ours = 1;
    return b->host = p;
}

void memory_unmap(struct memory *m, unsigned buffer)
{
    struct buffer *b = memory_buffer(m, buffer);

    if (!b || !b->host_is_ours || b->bank == MEMORY_EXEC)
        return;
    munmap(b->host, pages(b->bytes));
    b->host = NULL;
    b->host_is_ours = 0;
}

void memory_free(struct memory *m, unsigned buffer)
{
    struct buffer *b = memory_buffer(m, buffer);

    if (!b)
        return;
    if (b->host_is_ours)
        munmap(b->host, pages(b->bytes));
    if (b->bank != MEMORY_EXEC) {
        mprotect(memory_device(m, b), pages(b->bytes), PROT_NONE);
        fallocate(m->bank[b->bank].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)b->offset, (off_t)pages(b->bytes));
    }
    b->live = 0;
}

struct buffer *memory_buffer(struct memory *m, unsigned buffer)
{
    return buffer < MEMORY_BUFFERS && m->buffer[buffer].live ? &m->buffer[buffer] : NULL;
}

char *memory_device(struct memory *m, const struct buffer *b)
{
    return m->bank[b->bank].device + b->offset;
}

uint64_t memory_address(struct memory *m, const struct buffer *b)
{
    return b->bank == MEMORY_EXEC ? 0 : m->bank[b->bank].base + b->offset;
}

struct buffer *memory_at(struct memory *m, uint64_t address, void **at)
{
    for (unsigned i = 0; i < MEMORY_BUFFERS; i++) {
        struct buffer *b = memory_buffer(m, i);

        if (!b || b->bank == MEMORY_EXEC || address - memory_address(m, b) >= b->bytes)
            continue;
        *at = memory_device(m, b) + (address - memory_address(m, b));
        return b;
    }
    return NULL;
}

int memory_live(struct memory *m)
{
    int n = 0;

    for (int i = 0; i < MEMORY_BUFFERS; i++)
        n += m->buffer[i].live && m->buffer[i].bank != MEMORY_EXEC;
    return n;
}
