/* fuzz.c: what targets share, and what is watched while one runs: memory by the sanitizers' hooks,
 * descriptors by the lowest free one. */
#include "tests/fuzz/fuzz.h"

#include "tests/tempdir.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct fuzz_target *const fuzz_targets[] = {
    &fuzz_tokens, &fuzz_safetensors, &fuzz_tokenizer, &fuzz_encode,
    &fuzz_config, &fuzz_task,        &fuzz_examples,  &fuzz_database,
    &fuzz_run,    &fuzz_gradient,    &fuzz_options,   &fuzz_superblock,
    &fuzz_topology, &fuzz_jinja,     &fuzz_chat,     &fuzz_rows,
    &fuzz_gguf,   &fuzz_peft,
    NULL,
};

const struct fuzz_target *fuzz_find(const char *name)
{
    for (size_t i = 0; fuzz_targets[i]; i++)
        if (!strcmp(fuzz_targets[i]->name, name))
            return fuzz_targets[i];
    return NULL;
}

/* Of the sanitizers' run-time, which both compilers have, while gcc lacks the header. */
int    __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                                 void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *p);

/* Nothing here has to survive a power cut, and a disk would be most of the time. */
int fsync(int fd);
int fdatasync(int fd);

int fsync(int fd)
{
    (void)fd;
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

void fuzz_fail(const char *file, int line, const char *what)
{
    dprintf(STDERR_FILENO, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

/* ---- files ---- */

static char *folder;

static void folder_remove(void)
{
    tempdir_remove(folder);
}

const char *fuzz_dir(void)
{
    if (!folder) {
        folder = tempdir_new();
        atexit(folder_remove);
    }
    return folder;
}

const char *fuzz_path(const char *name)
{
    static char paths[8][256];
    static int  next;
    char       *path = paths[next++ % 8];

    FUZZ_CHECK(snprintf(path, sizeof paths[0], "%s/%s", fuzz_dir(), name) < (int)sizeof paths[0]);
    return path;
}

void fuzz_put(const char *name, const void *bytes, size_t n)
{
    int fd = open(fuzz_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    FUZZ_CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

void fuzz_take(const char *name, uint8_t **bytes, size_t *n)
{
    int   fd = open(fuzz_path(name), O_RDONLY | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);

    FUZZ_CHECK(size >= 0 && (*bytes = malloc((size_t)size + 1)));
    *n = (size_t)size;
    FUZZ_CHECK(pread(fd, *bytes, *n, 0) == size);
    close(fd);
}

void fuzz_remove(const char *name)
{
    if (unlink(fuzz_path(name)) && access(fuzz_path(name), F_OK) == 0)
        tempdir_remove(strdup(fuzz_path(name)));
}

/* ---- inputs ---- */

static const uint8_t mark[] = "\n%%%%\n";
enum { MARK_BYTES = sizeof mark - 1 };

uint64_t fuzz_number(struct fuzz_in *in, size_t bytes)
{
    uint64_t v = 0;

    for (size_t i = 0; i < bytes && in->n; i++, in->p++, in->n--)
        v |= (uint64_t)*in->p << 8 * i;
    return v;
}

struct fuzz_in fuzz_part(struct fuzz_in *in)
{
    const uint8_t *at = in->n ? memmem(in->p, in->n, mark, MARK_BYTES) : NULL;
    struct fuzz_in part = { in->p, at ? (size_t)(at - in->p) : in->n };
    size_t         taken = part.n + (at ? MARK_BYTES : 0);

    in->p += taken;
    in->n -= taken;
    return part;
}

void fuzz_add(struct fuzz_out *out, const void *bytes, size_t n)
{
    FUZZ_CHECK((out->p = realloc(out->p, out->n + n + 1)));
    if (n)
        memcpy(out->p + out->n, bytes, n);
    out->n += n;
}

void fuzz_add_number(struct fuzz_out *out, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        fuzz_add(out, &(uint8_t){ (uint8_t)(v >> 8 * i) }, 1);
}

void fuzz_add_mark(struct fuzz_out *out)
{
    fuzz_add(out, mark, MARK_BYTES);
}

static void (*seed_each)(const uint8_t *in, size_t n);

void fuzz_seed(const void *bytes, size_t n)
{
    seed_each(bytes, n);
}

void fuzz_seed_out(struct fuzz_out *out)
{
    fuzz_seed(out->p, out->n);
    free(out->p);
    *out = (struct fuzz_out){ 0 };
}

void fuzz_seeds_each(const struct fuzz_target *t, void (*each)(const uint8_t *in, size_t n))
{
    seed_each = each;
    t->seeds();
}

/* ---- what is watched ---- */

static atomic_size_t live, peak;
static atomic_long   blocks;

static void on_malloc(const volatile void *p, size_t n)
{
    size_t now = atomic_fetch_add_explicit(&live, n, memory_order_relaxed) + n,
           before = atomic_load_explicit(&peak, memory_order_relaxed);

    (void)p;
    atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
    while (now > before && !atomic_compare_exchange_weak(&peak, &before, now))
        ;
}

static void on_free(const volatile void *p)
{
    if (!p)
        return;
    atomic_fetch_sub_explicit(&live, __sanitizer_get_allocated_size(p), memory_order_relaxed);
    atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
}

static int lowest_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(fd);
    return fd;
}

int fuzz_refused(int rc, const struct err *err)
{
    size_t n = strnlen(err->text, sizeof err->text);

    FUZZ_CHECK(rc < 0);
    FUZZ_CHECK(n > 0 && n < sizeof err->text);
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK((unsigned char)err->text[i] >= ' ' && err->text[i] != 0x7F);
    return 0;
}

/* Whether the input leaves blocks of memory behind. Libraries keep some at their first call, so it
 * is asked again. */
static int leaks(const struct fuzz_target *t, const uint8_t *in, size_t n)
{
    long before;

    for (int again = 0; again < 3; again++) {
        before = atomic_load(&blocks);
        t->one(in, n);
        if (atomic_load(&blocks) == before)
            return 0;
    }
    return 1;
}

int fuzz_watch(const struct fuzz_target *t, const uint8_t *in, size_t n)
{
    static int hooked;
    int        fd = lowest_descriptor(), accepted;
    long       before;
    size_t     from;

    if (!hooked)
        hooked = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    before = atomic_load(&blocks);
    from = atomic_load(&live);
    atomic_store(&peak, from);
    accepted = t->one(in, n);
    if (atomic_load(&peak) - from > t->base + t->per_byte * n) {
        dprintf(STDERR_FILENO, "%zu bytes of memory for an input of %zu\n",
                atomic_load(&peak) - from, n);
        fuzz_fail(t->name, 0, "memory within the bound of the input's size");
    }
    if (atomic_load(&blocks) != before && leaks(t, in, n))
        fuzz_fail(t->name, 0, "no memory is left behind");
    if (lowest_descriptor() != fd)
        fuzz_fail(t->name, 0, "no descriptor is left open");
    return accepted;
}
