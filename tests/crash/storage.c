/* storage.c: files, what of them is durable, and what a cut leaves. The order of this file: the
 * machine, power, names, files. */
#include "tests/crash/storage.h"

#include "kernels/rng.h"
#include "tests/crash/bytes.h"
#include "tests/crash/names.h"
#include "tests/crash/power.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 4096 };
#define FIRST_TIME 1000000000000000000u // of a file, in nanoseconds: in the year 2001

/* A change of a file that is not durable. `end`: when it was complete; 0: it is on its way. */
struct change {
    int            is_size; // a new size: n
    uint64_t       id, off, end;
    size_t         n;
    unsigned char *data;
    const void    *from;
};

struct file {
    int            is_dir;
    struct bytes   now, durable;
    struct change *changes;
    size_t         n_changes, room;
    uint64_t       written, written_durable; // when; on the medium
};

struct storage {
    struct file *files[FILES];
    int          n_files;
    struct names names;
};

static struct storage machine;
static uint64_t       ids, ticks;
static int            lying;
static unsigned       loose, boots;

/* ---- the machine ---- */

static struct file *file_copy(const struct file *f)
{
    struct file *c = must_copy(f, sizeof *f);

    c->now = bytes_copy(&f->now);
    c->durable = bytes_copy(&f->durable);
    c->room = c->n_changes;
    c->changes = must_copy(f->changes, c->room * sizeof *c->changes);
    for (size_t i = 0; i < c->n_changes; i++)
        if (!c->changes[i].is_size)
            c->changes[i].data = must_copy(f->changes[i].data, f->changes[i].n);
    return c;
}

static void changes_free(struct file *f)
{
    for (size_t i = 0; i < f->n_changes; i++)
        free(f->changes[i].data);
    f->n_changes = 0;
}

static void storage_copy(struct storage *to, const struct storage *from)
{
    *to = *from;
    for (int i = 0; i < to->n_files; i++)
        to->files[i] = file_copy(from->files[i]);
    names_copy(&to->names, &from->names);
}

static void storage_release(struct storage *s)
{
    for (int i = 0; i < s->n_files; i++) {
        changes_free(s->files[i]);
        free(s->files[i]->changes);
        free(s->files[i]->now.at);
        free(s->files[i]->durable.at);
        free(s->files[i]);
    }
    names_free(&s->names);
    *s = (struct storage){ 0 };
}

struct storage *storage_save(void)
{
    struct storage *s = must_alloc(NULL, sizeof *s);

    storage_copy(s, &machine);
    return s;
}

void storage_free(struct storage *saved)
{
    if (saved)
        storage_release(saved);
    free(saved);
}

unsigned storage_boots(void)
{
    return boots;
}

void storage_load(const struct storage *saved)
{
    boots++;
    storage_release(&machine);
    storage_copy(&machine, saved ? saved : &(struct storage){ 0 });
    lying = 0;
    power_arm(UINT64_MAX);
}

/* ---- power ---- */

void storage_lie(int lies)
{
    lying = lies;
}

unsigned storage_loose(void)
{
    return loose;
}

/* Numbers of one power cut. */
struct dice {
    uint64_t seed, n;
};

static uint64_t roll(struct dice *d, uint64_t sides)
{
    return rng_bits(d->seed, 77, d->n++) % sides;
}

/* How many of n changes are kept, where any first part may be. */
static size_t roll_first(void *dice, size_t n)
{
    struct dice *d = dice;

    return d->seed == 0 ? 0 : d->seed == 1 ? n : (size_t)roll(d, n + 1);
}

/* Of one file: how likely a sector is kept, and how large sectors are. */
struct luck {
    uint64_t percent, sector;
    int      whole;
};

static struct luck file_luck(struct dice *d)
{
    static const uint64_t percent[] = { 0, 5, 50, 95, 100 };
    struct luck           l;

    l.percent = d->seed < 2 ? 100 * d->seed : percent[roll(d, 5)];
    l.sector = roll(d, 2) ? 512 : 4096;
    l.whole = roll(d, 4) == 0; // writes are kept or lost, none is torn
    return l;
}

/* The sectors of a write that reached the medium. */
static void change_land(struct bytes *b, const struct change *c, const struct luck *l,
                        struct dice *d)
{
    int all = roll(d, 100) < l->percent;

    for (uint64_t at = c->off, end; at < c->off + c->n; at = end) {
        end = (at / l->sector + 1) * l->sector;
        end = end < c->off + c->n ? end : c->off + c->n;
        if (l->whole ? all : roll(d, 100) < l->percent)
            bytes_put(b, c->data + (at - c->off), end - at, at);
    }
}

/* What a file is after the cut: of the changes of its size some first part, of what was written any
 * sectors; where it grew and nothing arrived there is rubbish or nothing. */
static void file_land(struct file *f, struct dice *d)
{
    struct luck  l = file_luck(d);
    struct bytes b = bytes_copy(&f->durable);
    size_t       full = b.n, size = b.n, kept = 0, resizes = 0;

    for (size_t i = 0; i < f->n_changes; i++) { // how many there are
        const struct change *c = &f->changes[i];
        size_t               then = c->is_size ? c->n : c->off + c->n > full ? c->off + c->n : full;

        resizes += then != full;
        full = then;
    }
    kept = roll_first(d, resizes);
    full = b.n;
    if (roll(d, 2) && d->seed > 1) {
        bytes_resize(&b, b.n + (1 << 16));
        for (size_t i = f->durable.n; i < b.n; i++)
            b.at[i] = (unsigned char)(i * 37 + d->seed);
    }
    for (size_t i = 0; i < f->n_changes; i++) {
        const struct change *c = &f->changes[i];
        size_t               then = c->is_size ? c->n : c->off + c->n > full ? c->off + c->n : full;

        if (then != full && kept > 0) {
            kept--;
            size = then;
            if (c->is_size)
                bytes_resize(&b, then);
        }
        full = then;
        if (!c->is_size)
            change_land(&b, c, &l, d);
    }
    bytes_resize(&b, size);
    free(f->durable.at);
    free(f->now.at);
    f->durable = b;
    f->now = bytes_copy(&b);
    f->written = f->written_durable = roll(d, 2) ? f->written : f->written_durable;
    changes_free(f);
}

/* A file that has no name any more, nor a process. */
static void file_forget(struct file *f)
{
    changes_free(f);
    free(f->now.at);
    free(f->durable.at);
    f->now = f->durable = (struct bytes){ 0 };
}

void storage_power_on(uint64_t seed)
{
    struct dice d = { seed, 0 };

    boots++;
    loose = (unsigned)machine.names.n_changes;
    names_land(&machine.names, roll_first, &d);
    for (int i = 0; i < machine.n_files; i++) {
        loose += (unsigned)machine.files[i]->n_changes;
        if (names_may_have(&machine.names, i))
            file_land(machine.files[i], &d);
        else
            file_forget(machine.files[i]);
    }
    power_arm(UINT64_MAX);
}

/* ---- names ---- */

static void touch(struct file *f) { f->written = FIRST_TIME + ++ticks * 1000; }

int storage_find(const char *path)
{
    int file = names_find(&machine.names, path);

    return power_is_cut() ? -EIO : file < 0 ? -ENOENT : file;
}

const char *storage_path(int file)
{
    const char *path = names_of(&machine.names, file);

    return path ? path : "(removed)";
}

const char *storage_next(const char *dir, size_t *at)
{
    return power_is_cut() ? NULL : names_next(&machine.names, dir, at);
}

/* 0 where a name may come: its folder is there. */
static int parent_check(const char *path)
{
    char dir[PATH_BYTES];

    names_parent(dir, path);
    int rc = dir[0] ? storage_find(dir) : 0;
    return rc < 0 ? rc : dir[0] && !machine.files[rc]->is_dir ? -ENOTDIR : 0;
}

int storage_create(const char *path, int dir)
{
    struct file *f;
    int          rc = storage_find(path);

    if (rc != -ENOENT)
        return rc < 0 ? rc : -EEXIST;
    if ((rc = parent_check(path)))
        return rc;
    if (power_point())
        return -EIO;
    assert(machine.n_files < FILES);
    f = must_alloc(NULL, sizeof *f);
    *f = (struct file){ .is_dir = dir };
    touch(f);
    machine.files[machine.n_files] = f;
    names_change(&machine.names, "", path, machine.n_files, 0);
    return machine.n_files++;
}

int storage_rename(const char *from, const char *to, int exchanges)
{
    int    rc = storage_find(from), other = exchanges ? storage_find(to) : parent_check(to);
    size_t at = 0;

    if (rc < 0 || other < 0)
        return rc < 0 ? rc : other;
    other = names_find(&machine.names, to);
    if (!exchanges && other >= 0 && machine.files[rc]->is_dir != machine.files[other]->is_dir)
        return machine.files[rc]->is_dir ? -ENOTDIR : -EISDIR;
    if (!exchanges && names_next(&machine.names, to, &at))
        return -ENOTEMPTY;
    if (power_point())
        return -EIO;
    names_change(&machine.names, from, to, rc, exchanges);
    return 0;
}

int storage_link(const char *from, const char *to)
{
    int rc = storage_find(from), other = storage_find(to);

    if (rc < 0 || other != -ENOENT)
        return rc < 0 ? rc : other < 0 ? other : -EEXIST;
    if ((other = parent_check(to)))
        return other;
    if (power_point())
        return -EIO;
    names_change(&machine.names, "", to, rc, 0);
    return 0;
}

int storage_unlink(const char *path)
{
    int rc = storage_find(path);

    if (rc < 0)
        return rc;
    if (power_point())
        return -EIO;
    names_change(&machine.names, path, "", -1, 0);
    return 0;
}

int storage_remove_folder(const char *path)
{
    size_t at = 0;

    if (names_next(&machine.names, path, &at))
        return power_is_cut() ? -EIO : -ENOTEMPTY;
    return storage_unlink(path);
}

int storage_sync_folder(const char *dir)
{
    int rc = dir[0] ? storage_find(dir) : NO_FILE;

    return rc < 0 && dir[0] ? rc : storage_sync_names(rc);
}

int storage_sync_names(int dir)
{
    if (power_point())
        return -EIO;
    if (!lying)
        names_sync(&machine.names, dir);
    return 0;
}

/* ---- files ---- */

static struct file *file_at(int file)
{
    assert(file >= 0 && file < machine.n_files);
    return machine.files[file];
}

static struct change *change_add(struct file *f)
{
    if (f->n_changes == f->room) {
        f->room = 2 * f->room + 16;
        f->changes = must_alloc(f->changes, f->room * sizeof *f->changes);
    }
    f->changes[f->n_changes] = (struct change){ .id = ++ids };
    return &f->changes[f->n_changes++];
}

int storage_is_dir(int file)
{
    return file_at(file)->is_dir;
}

size_t storage_links(int file) { return names_count(&machine.names, file); }

uint64_t storage_written(int file) { return file_at(file)->written; }

uint64_t storage_size(int file)
{
    return file_at(file)->now.n;
}

int storage_resize(int file, uint64_t size)
{
    struct file   *f = file_at(file);

    if (power_point())
        return -EIO;
    struct change *c = change_add(f);
    c->is_size = 1;
    c->n = size;
    c->end = ++ticks;
    bytes_resize(&f->now, size);
    touch(f);
    return 0;
}

size_t storage_read(int file, void *buf, size_t n, uint64_t off)
{
    const struct file *f = file_at(file);
    size_t             got = off >= f->now.n ? 0 : n < f->now.n - off ? n : f->now.n - off;

    if (got > 0)
        memcpy(buf, f->now.at + off, got);
    return got;
}

/* Nothing else may be on its way to or from the same bytes. */
static void check_overlap(const struct file *f, uint64_t off, size_t n)
{
    for (size_t i = 0; i < f->n_changes; i++)
        if (!f->changes[i].end && off < f->changes[i].off + f->changes[i].n &&
            f->changes[i].off < off + n) {
            fprintf(stderr, "two writes at once of bytes at offset %llu\n",
                    (unsigned long long)off);
            abort();
        }
}

int storage_write_start(int file, const void *buf, size_t n, uint64_t off, uint64_t *id)
{
    struct file   *f = file_at(file);

    if (power_point())
        return -EIO;
    check_overlap(f, off, n);
    struct change *c = change_add(f);
    c->off = off;
    c->n = n;
    c->data = must_alloc(NULL, n);
    c->from = buf;
    memcpy(c->data, buf, n);
    *id = c->id;
    return 0;
}

void storage_write_end(int file, uint64_t id)
{
    struct file *f = file_at(file);
    size_t       i = 0;

    while (f->changes[i].id != id)
        i++;
    if (memcmp(f->changes[i].data, f->changes[i].from, f->changes[i].n)) {
        fprintf(stderr, "a buffer was changed on its way to offset %llu\n",
                (unsigned long long)f->changes[i].off);
        abort();
    }
    bytes_put(&f->now, f->changes[i].data, f->changes[i].n, f->changes[i].off);
    f->changes[i].end = ++ticks;
    touch(f);
}

uint64_t storage_flush_start(void)
{
    return ++ticks;
}

int storage_flush_end(int file, uint64_t started)
{
    struct file *f = file_at(file);
    size_t       left = 0;

    if (power_point())
        return -EIO;
    for (size_t i = 0; i < f->n_changes; i++) {
        struct change *c = &f->changes[i];

        if (lying || !c->end || c->end > started) {
            f->changes[left++] = *c;
            continue;
        }
        if (c->is_size)
            bytes_resize(&f->durable, c->n);
        else
            bytes_put(&f->durable, c->data, c->n, c->off);
        free(c->data);
    }
    f->n_changes = left;
    return 0;
}

int storage_write(int file, const void *buf, size_t n, uint64_t off)
{
    uint64_t id;
    int      rc = storage_write_start(file, buf, n, off, &id);

    if (rc == 0)
        storage_write_end(file, id);
    return rc;
}

int storage_sync(int file)
{
    int rc = storage_flush_end(file, storage_flush_start());

    if (!rc)
        storage_sync_time(file);
    return rc;
}

void storage_sync_time(int file)
{
    if (!lying)
        file_at(file)->written_durable = file_at(file)->written;
}
