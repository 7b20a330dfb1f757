/* fuzz.h: hostile input. Each parser has a target: a function that takes any bytes and must come
 * back, whatever they are. libFuzzer (libfuzzer.c, `make fuzz`) and a mutator of our own (replay.c,
 * `make check`) feed the same targets; seeds are made by the targets themselves, mostly with the
 * project's writers, so that none are kept as files.
 *
 * What is held beside "no crash, no undefined behaviour, no hang": a refusal is negative and says
 * one line of text; what is accepted satisfies the checks of its target (it reads back, it
 * round-trips); no memory and no descriptor stays behind; no more memory is taken than the target's
 * bound for an input of that size. */
#pragma once

#include "data/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name;
    void      (*open)(void);                       // once, before the first input; may be NULL
    int       (*one)(const uint8_t *in, size_t n); // 1: accepted, 0: refused
    void      (*seeds)(void);                      // calls fuzz_seed for each
    size_t base, per_byte; // the most memory that an input of n bytes may take: base + per_byte * n
    unsigned    runs;                              // mutations in `make check`
};

extern const struct fuzz_target fuzz_tokens, fuzz_safetensors, fuzz_tokenizer, fuzz_encode,
    fuzz_config, fuzz_task, fuzz_examples, fuzz_database, fuzz_run, fuzz_gradient, fuzz_options,
    fuzz_superblock, fuzz_topology, fuzz_jinja, fuzz_chat, fuzz_rows,
    fuzz_gguf, fuzz_peft;
extern const struct fuzz_target *const fuzz_targets[]; // ends with NULL
const struct fuzz_target *fuzz_find(const char *name); // NULL: none

/* ---- for targets */

/* A folder of our own, empty at the beginning and removed at the end, and files in it. fuzz_path:
 * valid until the eighth call from now. */
const char *fuzz_dir(void);
const char *fuzz_path(const char *name);
void        fuzz_put(const char *name, const void *bytes, size_t n);
void fuzz_take(const char *name, uint8_t **bytes, size_t *n); // reads a whole file; caller frees
void fuzz_remove(const char *name); // a file, or a folder with all that is in it

/* An input that is read from its front; past its end come zeros. */
struct fuzz_in { const uint8_t *p; size_t n; };
uint64_t fuzz_number(struct fuzz_in *in, size_t bytes);
/* Up to the next mark (or the end), which is taken, too. Several files in one input are parts. */
struct fuzz_in fuzz_part(struct fuzz_in *in);

/* An input being made. */
struct fuzz_out { uint8_t *p; size_t n; };
void fuzz_add(struct fuzz_out *out, const void *bytes, size_t n);
void fuzz_add_number(struct fuzz_out *out, uint64_t v, size_t bytes);
void fuzz_add_mark(struct fuzz_out *out);
void fuzz_seed(const void *bytes, size_t n);
void fuzz_seed_out(struct fuzz_out *out); // and empties it

/* The sentence of a refusal: rc negative, one line of text. Returns 0, so that `return
 * fuzz_refused(rc, &err)` reads well. */
int  fuzz_refused(int rc, const struct err *err);
/* What a target holds. */
void fuzz_fail(const char *file, int line, const char *what) __attribute__((noreturn));
#define FUZZ_CHECK(x) ((x) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #x))

/* ---- for the two drivers */

/* Hand each seed of t on. */
void fuzz_seeds_each(const struct fuzz_target *t, void (*each)(const uint8_t *in, size_t n));
/* One input with everything that is watched around it. */
int  fuzz_watch(const struct fuzz_target *t, const uint8_t *in, size_t n);
