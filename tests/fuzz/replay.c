/* replay.c: the targets without libFuzzer: every seed, then mutations of seeds, the same ones each
 * time. Without arguments all targets in their short form, as TAP; `replay NAME RUNS [SEED]` goes
 * on longer, `replay NAME FILE` runs one input. An input that fails is left in the working folder
 * as fuzz-NAME.input.
 *
 * Each target runs in a process of its own: what dies is said by name, and the others still run. */
#include "tests/fuzz/fuzz.h"

#include <ctype.h>
#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_SEEDS = 256, MAX_WORDS = 512, MAX_INPUT = 1 << 18, HANG_SECONDS = 60, SAMPLE_SEED = 1 };

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return "handle_abort=1:allocator_may_return_null=1:detect_stack_use_after_return=1";
}

const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:print_stacktrace=1";
}

/* ---- the input at hand, and what becomes of it when the process dies ---- */

static const struct fuzz_target *target;
static uint8_t                   input[MAX_INPUT];
static size_t                    input_n;
static uint64_t                  accepted, refused, sample;

static void input_keep(void)
{
    char path[64];
    int  fd;

    snprintf(path, sizeof path, "fuzz-%s.input", target->name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0 && write(fd, input, input_n) == (ssize_t)input_n)
        dprintf(STDERR_FILENO, "the input is in %s: replay %s %s\n", path, target->name, path);
    close(fd);
}

static void on_alarm(int signal_)
{
    (void)signal_;
    dprintf(STDERR_FILENO, "an input of %s takes more than %d s\n", target->name, HANG_SECONDS);
    input_keep();
    _exit(1);
}

static void input_run(void)
{
    alarm(HANG_SECONDS);
    if (fuzz_watch(target, input, input_n))
        accepted++;
    else
        refused++;
}

/* ---- seeds, and the words in them ---- */

static struct { uint8_t *p; size_t n; } seeds[MAX_SEEDS];
static struct { const uint8_t *p; size_t n; } words[MAX_WORDS];
static size_t n_seeds, n_words;

static void word_add(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n_words; i++)
        if (words[i].n == n && !memcmp(words[i].p, p, n))
            return;
    if (n >= 2 && n <= 40 && n_words < MAX_WORDS) {
        words[n_words].p = p;
        words[n_words++].n = n;
    }
}

static void seed_add(const uint8_t *in, size_t n)
{
    uint8_t *p = malloc(n + 1);

    FUZZ_CHECK(n_seeds < MAX_SEEDS && n < MAX_INPUT && p);
    if (n)
        memcpy(p, in, n);
    seeds[n_seeds].p = p;
    seeds[n_seeds++].n = n;
    for (size_t i = 0, from = 0; i <= n; i++)
        if (i == n || !(isalnum(p[i]) || strchr("_.-", p[i]))) {
            word_add(p + from, i - from);
            from = i + 1;
        }
}

/* ---- mutations ---- */

static uint64_t random_next(void)
{
    static uint64_t mixed;

    mixed = sample += 0x9e3779b97f4a7c15u; // splitmix64
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static size_t below(size_t n)
{
    return n ? (size_t)(random_next() % n) : 0;
}

/* input[at..at + old) becomes with[0..n). */
static void replace(size_t at, size_t old, const void *with, size_t n)
{
    if (input_n - old + n > MAX_INPUT)
        return;
    memmove(input + at + n, input + at + old, input_n - at - old);
    if (n)
        memcpy(input + at, with, n);
    input_n += n - old;
}

/* Some bytes of another seed, or of this input, over some of this one's. */
static void other_mix(void)
{
    size_t         other = below(n_seeds), from, n, at = below(input_n + 1);
    static uint8_t copy[4096];

    if (!seeds[other].n)
        return;
    from = below(seeds[other].n);
    n = 1 + below(seeds[other].n - from);
    n = n > sizeof copy ? sizeof copy : n;
    memcpy(copy, seeds[other].p + from, n);
    replace(at, below(2) ? 0 : below(input_n - at < n ? input_n - at : n), copy, n);
}

/* A run of digits becomes another number. */
static void number_change(void)
{
    static const char *const numbers[] = { "0",
                                           "-1",
                                           "1",
                                           "255",
                                           "65536",
                                           "2147483647",
                                           "2147483648",
                                           "4294967295",
                                           "1e400",
                                           "1.5",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "18446744073709551616",
                                           "-9223372036854775808",
                                           "0.0000001",
                                           "nan",
                                           "inf" };
    size_t at = below(input_n), n = 0;
    const char *number = numbers[below(sizeof numbers / sizeof *numbers)];

    while (at < input_n && !isdigit(input[at]))
        at++;
    while (at + n < input_n && isdigit(input[at + n]))
        n++;
    replace(at, n, number, strlen(number));
}

static void bytes_change(void)
{
    static const uint64_t edges[] = { 0,
                                      1,
                                      0x7F,
                                      0x80,
                                      0xFF,
                                      0x7FFF,
                                      0x8000,
                                      0xFFFF,
                                      0x7FFFFFFF,
                                      0x80000000,
                                      0xFFFFFFFF,
                                      INT64_MAX,
                                      (uint64_t)INT64_MAX + 1,
                                      UINT64_MAX };
    size_t   width = (size_t)1 << below(4), at;
    uint64_t v = edges[below(sizeof edges / sizeof *edges)];

    if (input_n < width)
        return;
    at = below(input_n - width + 1);
    memcpy(input + at, &v, width);
}

static void mutate_once(void)
{
    size_t at = below(input_n), n;

    switch (below(9)) {
    case 0: if (input_n) input[at] ^= (uint8_t)(1 << below(8)); break;
    case 1: if (input_n) input[at] = (uint8_t)random_next(); break;
    case 2: bytes_change(); break;
    case 3: number_change(); break;
    case 4: other_mix(); break;
    case 5:
        n = 1 + below(below(4) ? 8 : input_n - at + 1);
        replace(at, n < input_n - at ? n : input_n - at, NULL, 0);
        break;
    case 6: replace(below(input_n + 1), 0, &(uint8_t[8]){ 0 }, 1 + below(8)); break;
    case 7:
        if (n_words) {
            n = below(n_words);
            replace(at, below(2) && at + words[n].n <= input_n ? words[n].n : 0, words[n].p,
                    words[n].n);
        }
        break;
    case 8: if (!below(8)) input_n = at; break;
    default: break;
    }
}

/* ---- one target ---- */

static void target_prepare(const struct fuzz_target *t)
{
    target = t;
    __sanitizer_set_death_callback(input_keep);
    signal(SIGALRM, on_alarm);
    if (t->open)
        t->open();
    fuzz_seeds_each(t, seed_add);
}

static void target_run(const struct fuzz_target *t, uint64_t runs, uint64_t seed)
{
    target_prepare(t);
    for (size_t i = 0; i < n_seeds; i++) {
        memcpy(input, seeds[i].p, input_n = seeds[i].n);
        input_run();
    }
    FUZZ_CHECK(accepted > 0); // otherwise nothing behind the first check is reached
    for (uint64_t i = 0; i < runs; i++) {
        size_t s = below(n_seeds);

        sample = (seed << 32) + i;
        s = below(n_seeds);
        memcpy(input, seeds[s].p, input_n = seeds[s].n);
        for (size_t k = 1 + below(6); k > 0; k--)
            mutate_once();
        input_run();
    }
    alarm(0);
}

static int file_run(const struct fuzz_target *t, const char *path)
{
    int     fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, input, sizeof input);

    if (n < 0) {
        perror(path);
        return 2;
    }
    close(fd);
    target_prepare(t);
    input_n = (size_t)n;
    input_run();
    printf("%s\n", accepted ? "accepted" : "refused");
    return 0;
}

/* Standard output belongs to this program, not to what it tests. */
static FILE *report;

static void output_part(void)
{
    report = fdopen(dup(STDOUT_FILENO), "w");
    FUZZ_CHECK(report && freopen("/dev/null", "w", stdout));
}

/* In a process of its own; 0 if all went well. */
static int target_fork(const struct fuzz_target *t)
{
    pid_t child = fork();
    int   status = 1;

    if (child == 0) {
        target_run(t, t->runs, SAMPLE_SEED);
        fprintf(report, "# %s: %zu seeds and %u mutations, %llu accepted, %llu refused\n", t->name,
                n_seeds, t->runs, (unsigned long long)accepted, (unsigned long long)refused);
        fflush(report);
        exit(0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
           WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    const struct fuzz_target *t = argc > 1 ? fuzz_find(argv[1]) : NULL;
    int                       failed = 0;

    if (argc > 1 && (!t || argc < 3)) {
        fprintf(stderr, "usage: %s [NAME (RUNS [SEED] | FILE)]\n", argv[0]);
        return 2;
    }
    if (t && !isdigit((unsigned char)argv[2][0]))
        return file_run(t, argv[2]);
    output_part();
    if (t) {
        target_run(t, strtoull(argv[2], NULL, 10),
                   argc > 3 ? strtoull(argv[3], NULL, 10) : SAMPLE_SEED);
        fprintf(report, "%s: %zu seeds, %llu accepted, %llu refused\n", t->name, n_seeds,
                (unsigned long long)accepted, (unsigned long long)refused);
        return fclose(report) != 0;
    }
    size_t i = 0;
    for (; fuzz_targets[i]; i++) {
        int bad = target_fork(fuzz_targets[i]);

        failed |= bad;
        fprintf(report, "%s %zu - hostile input: %s\n", bad ? "not ok" : "ok", i + 1,
                fuzz_targets[i]->name);
        fflush(report);
    }
    fprintf(report, "1..%zu\n", i);
    return fclose(report) != 0 || failed;
}
