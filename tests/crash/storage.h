/* storage.h: the files of simulated machines, in RAM, for the proof that a power cut loses
 * nothing. Of every file it knows what is durable and, apart from that, every change since: a cut
 * keeps, loses or tears each of those by seed. Names are the same: what was made, renamed or
 * removed is durable when its folder was synced; a cut keeps any first part of the rest (names.h).
 *
 * Every call that changes something is a point at which power may be cut (power.h). Threads:
 * threads.h runs one at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The whole machine's storage, to be tried again from the same state. */
struct storage;
struct storage *storage_save(void);
void storage_load(const struct storage *saved); // NULL: an empty machine; nothing cut, nothing
                                                // armed
void storage_free(struct storage *saved);

/* From here on flushes and syncs say that they are done, and are not. */
void storage_lie(int lies);

/* The power is back: what was not durable has been kept, lost or torn as this seed says. 0 loses
 * all of it, 1 keeps all. */
void storage_power_on(uint64_t seed);
unsigned storage_boots(void); // how often it came back, or another machine was loaded
/* How many changes were not durable when the power went. */
unsigned storage_loose(void);

/* ---- names; all return 0 (or what is said) or -errno */
int         storage_find(const char *path);            // the file, or -ENOENT
int         storage_create(const char *path, int dir); // the file, or -EEXIST
int         storage_rename(const char *from, const char *to, int exchanges);
int         storage_link(const char *from, const char *to);
int         storage_unlink(const char *path);
int         storage_remove_folder(const char *path); // -ENOTEMPTY
int         storage_sync_folder(const char *dir);
int         storage_sync_names(int dir); // the same of a folder, whatever its name is
const char *storage_path(int file);      // a name of it
/* The next path in a folder from the *at-th name of the machine on; NULL: there is none. */
const char *storage_next(const char *dir, size_t *at);

/* ---- files */
int      storage_is_dir(int file);
size_t   storage_links(int file);   // how many names it has
uint64_t storage_written(int file); // when it was last written, in nanoseconds
uint64_t storage_size(int file);
int      storage_resize(int file, uint64_t size);
size_t   storage_read(int file, void *buf, size_t n, uint64_t off); // what there is of it
int      storage_write(int file, const void *buf, size_t n, uint64_t off);
int      storage_sync(int file);
/* The time at which it was written is durable, too: fsync does that, fdatasync and flushes of a
 * disk need not. After a cut the time is the latest one or the durable one. */
void     storage_sync_time(int file);

/* The same for a disk: a write is loose from its start, seen by reads and covered by later flushes
 * from its end. It keeps buf. Programming errors of the one who writes stop the test: a buffer
 * changed on its way, two requests over the same bytes at once. */
int      storage_write_start(int file, const void *buf, size_t n, uint64_t off, uint64_t *id);
void     storage_write_end(int file, uint64_t id);
uint64_t storage_flush_start(void);
int      storage_flush_end(int file, uint64_t started);
