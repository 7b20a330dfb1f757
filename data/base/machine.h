/* machine.h: what the kernel says of this machine and this process, and its random numbers. */
#pragma once

#include "data/base/err.h"

uint64_t rss_now(void);  // bytes of this process that are resident; 0 where /proc does not say
uint64_t rss_peak(void); // the most there ever were

/* Bytes that this process may still map where ulimit -v or -d sets that, the less of both; *option
 * is 'v' or 'd'. UINT64_MAX where neither does. */
uint64_t machine_room(char *option);

/* What follows `key` and blanks, colons in the first line that begins with it of a file of the
 * kernel, as `model name` in /proc/cpuinfo, up to blanks at its end: buf, "" where there is no such
 * line. */
const char *machine_field(char *buf, size_t size, const char *path, const char *key);
/* The processor's name, or "unknown". */
const char *machine_cpu(char *buf, size_t size);

/* What this process runs on. */
struct machine {
    char     host[72], system[256], cpu[256];
    int      cpus;         // that it may use
    int      cpus_online;  // that there are
    uint64_t memory_bytes;
};
void machine_here(struct machine *m);
/* The command line of this process, quoted where a shell needs it; malloced, NULL if /proc does not
 * say. */
char *machine_command(void);

/* The path as it can stand in '...' in a line of python3 -c "...", or "FOLDER" for one that cannot
 * or is long. */
const char *machine_python_path(const char *path);

/* One word as a shell takes it, in quotes where it needs them; what has no room is cut off. */
const char *machine_word(char *buf, size_t size, const char *word);

/* `digits` (even, at most 32) random digits 0 to 9 and a to f, with a 0 behind them. */
int machine_hex(char *out, size_t digits, struct err *err);

int machine_cpus(void); // that this process may run on, however many the machine has; at least 1
/* The threads to compute with: `asked`, or as many as that. */
uint64_t threads_here(uint64_t asked);
