/* test_decode.c: generation against PyTorch's logits: a prompt of any length, in chunks or not, and
 * the rest token by token give what one pass over the whole row gives; a sequence gives the same
 * bits in any company; sampling follows its distribution and its seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/decode.h"
#include "model/sampling.h"
#include "tests/fixture.h"
#include "tests/stream_plain.h"

struct setting { struct fixture *f; struct stream *stream; struct decode_options o; size_t seq; };

static struct setting setting_open(const char *path, size_t prefill, enum dtype dtype)
{
    struct setting s = { .f = fixture_open(path) };
    const int32_t *c = fixture_i32(s.f, "config", 7);
    struct stream_plain_options so;

    s.seq = (size_t)c[6];
    s.o = (struct decode_options){.config = arch_config(&gpt2_arch,
                                                        (struct model_config){
                                                            .n_layer = (size_t)c[0],
                                                            .n_head = (size_t)c[1],
                                                            .n_embd = (size_t)c[2],
                                                            .vocab = (size_t)c[3],
                                                            .n_positions = (size_t)c[4],
                                                            .norm_eps = 1e-5f}),
                                  .batch = (size_t)c[5],
                                  .positions = s.seq,
                                  .prefill = prefill,
                                  .dtype = dtype,
                                  .threads = 1};
    so = (struct stream_plain_options){ .config = s.o.config,
                                        .wire = dtype,
                                        .params = fixture_f32(s.f, "params", 0) };
    s.stream = stream_plain_open(&so);
    return s;
}

static void setting_close(struct setting *s)
{
    stream_close(s->stream);
    fixture_close(s->f);
}

static void feed(struct decode *d, const int32_t *const *ids, const size_t *n, const float **logits)
{
    struct err err = { 0 };
    int        rc = decode_feed(d, ids, n, logits, &err);

    if (rc)
        fail_msg("%s", err.text);
}

/* The logits of position t of sequence b. */
static void compare(const struct setting *s, const float *logits, size_t b, size_t t,
                    double tolerance)
{
    size_t V = s->o.config.vocab, n = s->o.batch * s->seq * V;
    const float *all = fixture_f32(s->f, "logits", n);
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)all[i]));
    for (size_t v = 0; v < V; v++)
        assert_true(fabs((double)logits[v] - (double)all[(b * s->seq + t) * V + v]) / largest <
                    tolerance);
}

/* Sequence b begins with prompt + b tokens. */
static void check_logits(const char *path, size_t prompt, size_t prefill, enum dtype dtype,
                         double tolerance)
{
    struct setting s = setting_open(path, prefill, dtype);
    const int32_t *x = fixture_i32(s.f, "x", s.o.batch * s.seq), *ids[16];
    size_t         n[16];
    struct decode *d;
    const float   *logits;
    struct err     err = { 0 };

    assert_true(s.o.batch <= 16);
    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), 0);
    for (int again = 0; again < 2; again++) { // another text starts over
        size_t going = s.o.batch;

        for (size_t b = 0; b < s.o.batch; b++) {
            decode_rewind(d, b, 0);
            n[b] = prompt + b < s.seq ? prompt + b : s.seq;
        }
        while (going) {
            for (size_t b = 0; b < s.o.batch; b++)
                ids[b] = x + b * s.seq + decode_length(d, b);
            feed(d, ids, n, &logits);
            going = 0;
            for (size_t b = 0; b < s.o.batch; b++) {
                if (n[b])
                    compare(&s, logits + b * s.o.config.vocab, b, decode_length(d, b) - 1,
                            tolerance);
                going += n[b] = decode_length(d, b) < s.seq;
            }
        }
    }
    decode_close(d);
    setting_close(&s);
}

static void test_logits(void **state)
{
    (void)state;
    check_logits("tests/fixtures/gpt_a.fix", 1, 1, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_a.fix", 7, 19, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_a.fix", 19, 19, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_a.fix", 17, 5, DT_F32, 1e-5); // in chunks
    check_logits("tests/fixtures/gpt_b.fix", 1, 2, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_b.fix", 31, 32, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_b.fix", 5, 32, DT_BF16, 3e-2);
}

/* Six sequences of different lengths, the last of which rests for a while: each is what it is
 * alone, bit for bit (on as many threads: the product engine's bits may depend on them). */
static void check_company(enum dtype dtype, int threads)
{
    enum { B = 6, STEPS = 4 };
    struct setting s = setting_open("tests/fixtures/gpt_b.fix", 27, dtype);
    const int32_t *x = fixture_i32(s.f, "x", s.o.batch * s.seq), *ids[B];
    size_t         V = s.o.config.vocab, n[B], one;
    float         *alone = malloc((STEPS + 1) * B * V * sizeof *alone);
    struct decode *d;
    const float   *logits;

    s.o.batch = 1;
    s.o.threads = threads;
    for (size_t b = 0; b < B; b++) {
        assert_int_equal(decode_open(&d, &s.o, s.stream, NULL), 0);
        for (size_t t = 0; t <= STEPS; t++) {
            ids[0] = x + decode_length(d, 0);
            one = t ? 1 : 1 + 5 * b;
            feed(d, ids, &one, &logits);
            memcpy(alone + (t * B + b) * V, logits, V * sizeof *alone);
        }
        decode_close(d);
    }
    s.o.batch = B;
    assert_int_equal(decode_open(&d, &s.o, s.stream, NULL), 0);
    for (size_t t = 0; t <= STEPS; t++) {
        for (size_t b = 0; b < B; b++) {
            ids[b] = x + decode_length(d, b);
            n[b] = t ? b + 1 < B || t > 2 : 1 + 5 * b;
        }
        feed(d, ids, n, &logits);
        for (size_t b = 0; b < B; b++)
            if (n[b])
                assert_memory_equal(logits + b * V,
                                    alone + ((b + 1 < B || t == 0 ? t : t - 2) * B + b) * V,
                                    V * sizeof *logits);
    }
    decode_close(d);
    free(alone);
    setting_close(&s);
}

static void test_company(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        check_company(DT_F32, threads);
        check_company(DT_BF16, threads);
    }
}

static void test_refusals(void **state)
{
    struct setting s = setting_open("tests/fixtures/gpt_a.fix", 3, DT_F32);
    struct decode *d;
    struct err     err = { 0 };

    (void)state;
    s.o.positions = s.o.config.n_positions + 1;
    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), -EINVAL);
    assert_true(err.misuse && err.text[0]);
    s.o.positions = 2;
    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), -EINVAL);
    s.o.prefill = 0;
    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), -EINVAL);
    s.o.prefill = 1;
    s.o.config.n_labels = 2;
    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), -EINVAL);
    decode_close(NULL);
    setting_close(&s);
}

static void test_greedy(void **state)
{
    struct sampling s = { .temperature = 0 };
    float logits[5] = { 1, 3, -2, 3, 0 }, scratch[10];

    (void)state;
    assert_int_equal(sampling_pick(&s, logits, 5, 0, 0, scratch), 1);
}

static void test_sampling(void **state)
{
    enum { N = 20000 };
    struct sampling s = { .temperature = 2.0, .seed = 9 };
    float  logits[6] = { 2, 0, 4, -8, 4, 1 }, scratch[12];
    double p[6], total = 0;
    int    count[6] = { 0 }, differ = 0;

    (void)state;
    for (int i = 0; i < 6; i++)
        total += p[i] = exp((double)logits[i] / 2.0);
    for (uint64_t i = 0; i < N; i++) {
        int32_t id = sampling_pick(&s, logits, 6, 1, i, scratch);

        assert_int_equal(id, sampling_pick(&s, logits, 6, 1, i, scratch)); // the same again
        differ += id != sampling_pick(&s, logits, 6, 2, i, scratch);       // another sequence
        count[id]++;
    }
    assert_true(differ > N / 10);
    for (int i = 0; i < 6; i++) {
        double expected = p[i] / total;

        assert_true(fabs(count[i] / (double)N - expected) <
                    5 * sqrt(expected * (1 - expected) / N) + 1e-4);
    }
    s.top_k = 3;
    for (uint64_t i = 0; i < 2000; i++) {
        int32_t id = sampling_pick(&s, logits, 6, 3, i, scratch);

        assert_true(id == 0 || id == 2 || id == 4);
    }
    s.top_k = 1; // two are equal to the largest: both may come
    for (uint64_t i = 0; i < 100; i++)
        assert_true(logits[sampling_pick(&s, logits, 6, 4, i, scratch)] == 4.0f);
}

/* transformers' numbers, to their last bit or the one before: it may multiply by the inverse. */
static void test_penalty(void **state)
{
    enum { V = 97, N = 45, PENALTIES = 4 };
    struct fixture *f = fixture_open("tests/fixtures/penalty.fix");
    const float    *x = fixture_f32(f, "x", V), *p = fixture_f32(f, "p", PENALTIES),
                *y = fixture_f32(f, "y", (size_t)PENALTIES * V);
    const int32_t *ids = fixture_i32(f, "i", N);
    int32_t        more[N + 1] = { V + 5 }; // an id that the model does not have
    unsigned char  marks[V] = { 0 }, none[V] = { 0 };
    float          out[V];

    (void)state;
    memcpy(more + 1, ids, N * sizeof *ids);
    for (size_t k = 0; k < PENALTIES; k++) {
        struct sampling s = { .penalty = (double)p[k] };

        sampling_penalise(&s, x, V, more, N + 1, out, marks);
        for (size_t i = 0; i < V; i++)
            if (!(fabsf(out[i] - y[k * V + i]) <= 1.2e-7f * fabsf(y[k * V + i])))
                fail_msg("penalty %g, id %zu: %.9g, expected %.9g", s.penalty, i, (double)out[i],
                         (double)y[k * V + i]);
        assert_memory_equal(marks, none, V);
    }
    fixture_close(f);
}

/* Which of the six may come, as bits. */
static unsigned kept(const float *logits, struct sampling s)
{
    float    scratch[12];
    unsigned seen = 0;

    for (uint64_t i = 0; i < 4000; i++)
        seen |= 1u << sampling_pick(&s, logits, 6, 0, i, scratch);
    return seen;
}

static void test_top_p(void **state)
{
    const float logits[6] = { logf(0.1f), logf(0.4f), logf(0.05f),
                              logf(0.2f), logf(0.2f), logf(0.05f) };

    (void)state;
    // never less than the likeliest; of equal ones the first
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 0.01, 1, 1, 0 }), 1u << 1);
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 0.39, 1, 1, 0 }), 1u << 1);
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 0.41, 1, 1, 0 }), 1u << 1 | 1u << 3);
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 0.61, 1, 1, 0 }),
                     1u << 1 | 1u << 3 | 1u << 4);
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 0.81, 1, 1, 0 }),
                     1u << 0 | 1u << 1 | 1u << 3 | 1u << 4);
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 1, 1, 1, 0 }), 63);
    // of the 3 likeliest: 0.5, 0.25, 0.25
    assert_int_equal(kept(logits, (struct sampling){ 1, 3, 0.51, 1, 1, 0 }), 1u << 1 | 1u << 3);
    // cooler: the likeliest has 0.62 of all
    assert_int_equal(kept(logits, (struct sampling){ 0.5, 0, 0.6, 1, 1, 0 }), 1u << 1);
    // min_p, as transformers' MinPLogitsWarper has it: of those that top_p leaves
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 1, 1, 1, 0.4 }),
                     1u << 1 | 1u << 3 | 1u << 4);
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 1, 1, 1, 0.24 }),
                     1u << 0 | 1u << 1 | 1u << 3 | 1u << 4);
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 0.41, 1, 1, 0.1 }), 1u << 1 | 1u << 3);
    assert_int_equal(kept(logits, (struct sampling){ 1, 0, 1, 1, 1, 1 }), 1u << 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_company),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_top_p),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
