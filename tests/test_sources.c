/* test_sources.c: the tokens that a training of several sources gets, counted: texts of disjoint
 * letters say of each token which source it is from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/batch.h"
#include "run/sitrain.h"
#include "run/sources/corpus.h"
#include "run/sources/source.h"
#include "tests/tempdir.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEQ = 8, BATCH = 4, ACCUM = 2, STEPS = 1024, SOURCES = 3, BLOCK = 4096 };

static const char *const letters[SOURCES] = { "abc", "mno", "xyz" };
static const size_t      lengths[SOURCES] = { 60000, 4000, 9000 };

static struct err err;
static char       paths[SOURCES][4096], tok[4096];

/* Single letters without a vocabulary of words: a token each. */
static void make_texts(void)
{
    static char text[60000];
    const char *files[SOURCES];

    assert_int_equal(chdir(tempdir), 0);
    for (size_t i = 0; i < SOURCES; i++) {
        for (size_t k = 0; k < lengths[i]; k++)
            text[k] = letters[i][(k * 7 + k / 5) % 3];
        tempdir_put(letters[i], text, lengths[i]);
        snprintf(paths[i], sizeof paths[i], "%s", tempdir_at(letters[i]));
        files[i] = paths[i];
    }
    snprintf(tok, sizeof tok, "%s", tempdir_at("tok"));
    struct tokenise_train train = { .texts = files, .n = SOURCES, .vocab = 257, .dir = tok };
    assert_int_equal(tokenise_train(&train, NULL, &err), 0);
}

static void make(const char *dir, const char *mix)
{
    const char        *files[SOURCES] = { paths[0], paths[1], paths[2] };
    struct corpus_opts corpus = { .data = { files, SOURCES }, .mix = mix };
    struct train_opts  o;
    struct newrun      n = { .dir = dir, .o = &o, .tokenizer = tok, .corpus = &corpus,
                             .config = arch_config(&gpt2_arch, (struct model_config){
                                 .n_layer = 1, .n_head = 1, .n_embd = 8, .vocab = 257,
                                 .n_positions = SEQ, .norm_eps = 1e-5f }) };

    assert_int_equal(train_opts_default(&o, &err), 0);
    o.mode = RUN_MEM;
    o.steps = STEPS;
    o.batch = BATCH;
    o.grad_accum = ACCUM;
    o.seq = SEQ;
    o.threads = 1;
    o.device_in_ram = 1;
    assert_int_equal(newrun_create(&n, &err), 0);
    train_opts_release(&o);
}

static size_t source_of(const struct tokenizer *t, int32_t id)
{
    size_t      n, i = 0;
    const char *bytes = tokenizer_bytes(t, id, &n);

    assert_true(bytes && n == 1);
    while (!strchr(letters[i], *bytes))
        assert_true(++i < SOURCES);
    return i;
}

/* Counts the tokens of all rows of steps 0..STEPS into counted, and after each step compares with
 * what reports say. */
static void count(const char *dir, uint64_t counted[SOURCES])
{
    struct session          s;
    struct source          *source;
    struct tokenizer       *t;
    struct training_source *told;
    size_t                  n;
    int32_t                 x[BATCH * SEQ], y[BATCH * SEQ];

    memset(counted, 0, SOURCES * sizeof *counted);
    assert_int_equal(session_open(&s, dir, SESSION_READ, NULL, &err), 0);
    assert_int_equal(source_open(&source, &s, &err), 0);
    assert_int_equal(tokenizer_open(&t, tok, &err), 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (size_t micro = 0; micro < ACCUM; micro++) {
            struct batch b = { .rows = BATCH, .seq = SEQ, .x = x, .y = y };

            assert_int_equal(source_batch(source, step, micro, &b, &err), 0);
            for (size_t r = 0; r < BATCH; r++) {
                size_t of = source_of(t, x[r * SEQ]);

                for (size_t k = 0; k < SEQ; k++) {
                    assert_int_equal(source_of(t, x[r * SEQ + k]), of);
                    assert_int_equal(source_of(t, y[r * SEQ + k]), of);
                }
                counted[of] += SEQ;
            }
        }
        if (step % 97 && step + 1 < STEPS)
            continue;
        assert_int_equal(corpus_sources(&told, &n, &s, step + 1, &err), 0);
        assert_int_equal(n, SOURCES);
        for (size_t i = 0; i < SOURCES; i++) {
            assert_string_equal(told[i].name, paths[i]);
            assert_int_equal(told[i].taken * SEQ, counted[i]);
            assert_int_equal(told[i].tokens, lengths[i]);
        }
        corpus_sources_free(told, n);
    }
    tokenizer_close(t);
    source_close(source);
    session_close(&s);
}

static void weights_are_exact(void **state)
{
    uint64_t counted[SOURCES];

    (void)state;
    make_texts();
    make("run", "0.5,0.3,0.2");
    count("run", counted);
    assert_int_equal(STEPS * ACCUM * BATCH, 2 * BLOCK);
    assert_int_equal(counted[0], 2 * 2048 * SEQ);
    assert_int_equal(counted[1], 2 * 1229 * SEQ);
    assert_int_equal(counted[2], 2 * 819 * SEQ);
}

/* 7,499 + 499 + 1,124 rows are more than the 8,192 that are read: none is read twice. */
static void a_pool_is_read_once(void **state)
{
    uint64_t counted[SOURCES];

    (void)state;
    make_texts();
    make("run", NULL);
    count("run", counted);
    for (size_t i = 0; i < SOURCES; i++) {
        uint64_t rows = (lengths[i] - 1) / SEQ;

        assert_true(counted[i] <= rows * SEQ && counted[i] > rows * SEQ * 8 / 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(weights_are_exact),
        IN_TEMPDIR(a_pool_is_read_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
