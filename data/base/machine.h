/* machine.h: facts from the kernel about this machine and this process, and random numbers. */
#pragma once

#include "data/base/err.h"

uint64_t rss_now(void);  // resident bytes of this process; 0 if /proc does not say
uint64_t rss_peak(void); // peak of the resident bytes

/* Returns how many more bytes this process may map under ulimit -v and -d, whichever leaves
 * less. *option becomes 'v' or 'd'. Returns UINT64_MAX if neither limit is set. */
uint64_t machine_room(char *option);

/* Reads a value from a kernel file such as /proc/cpuinfo: the first line that begins with `key`,
 * for example `model name`. The value follows the key, blanks and colons; blanks at its end are
 * dropped. Returns buf, which is "" if there is no such line. */
const char *machine_field(char *buf, size_t size, const char *path, const char *key);
/* Writes the processor's name, or "unknown", into buf and returns buf. */
const char *machine_cpu(char *buf, size_t size);

/* Writes this machine's name into buf as one word that may stand in a line and in a file's name,
 * and returns buf. A byte that may not stand there becomes '_'; a machine without a name is
 * `localhost`. */
const char *machine_host(char *buf, size_t size);

/* The machine on which this process runs. */
struct machine {
    char     host[72], system[256], cpu[256];
    int      cpus;         // processors that this process may use
    int      cpus_online;  // processors that are online
    uint64_t memory_bytes;
};
void machine_here(struct machine *m);
/* Returns the command line of this process, quoted for a shell: malloced, or NULL if /proc does
 * not say. */
char *machine_command(void);

/* Returns when a process of this machine began, in ticks of sysconf(_SC_CLK_TCK) since the machine
 * did. 0: it is dead, or not seen here. */
uint64_t machine_begun(long pid);
/* Returns whether the process that began then stands still, as after Ctrl-Z or SIGSTOP. 0: it runs,
 * or is not seen here. */
int machine_is_stopped(long pid, uint64_t begun);
/* Returns how many seconds ago this process began. */
double machine_age(void);

/* Writes the path, without slashes at its end, if it can stand in '...' in a line of python3 -c
 * "...", and `instead` if it cannot, is empty or long, or ends in . or .., behind which nothing may
 * be written. Returns out. */
enum { MACHINE_PYTHON_PATH = 96 };
const char *machine_python_path(char out[MACHINE_PYTHON_PATH], const char *path,
                                const char *instead);

/* Writes one word into buf as a shell reads it, in quotes if needed, and returns buf. A word
 * that is too long is cut off. */
const char *machine_word(char *buf, size_t size, const char *word);

/* Writes `digits` (even, at most 32) random hexadecimal digits and a terminating 0 into `out`. */
int machine_hex(char *out, size_t digits, struct err *err);

int machine_cpus(void); // processors that this process may run on; at least 1
/* Returns the number of threads to compute with: `asked` if it is not 0, or else machine_cpus(). */
uint64_t threads_here(uint64_t asked);
