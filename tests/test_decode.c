/* test_decode.c: generation against PyTorch's logits: a prompt of any length and the rest token by token give
 * what one pass over the whole row gives; sampling follows its distribution and its seed. */
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
#include "tests/fixture.h"
#include "tests/stream_plain.h"

struct setting { struct fixture *f; struct stream *stream; struct decode_options o; size_t seq; };

static struct setting setting_open(const char *path, size_t prompt, enum dtype dtype)
{
    struct setting s = { .f = fixture_open(path) };
    const int32_t *c = fixture_i32(s.f, "config", 7);
    struct stream_plain_options so;

    s.seq = (size_t)c[6];
    s.o = (struct decode_options){.gpt = {.n_layer = (size_t)c[0],
                                          .n_head = (size_t)c[1],
                                          .n_embd = (size_t)c[2],
                                          .vocab = (size_t)c[3],
                                          .n_positions = (size_t)c[4],
                                          .norm_eps = 1e-5f},
                                  .batch = (size_t)c[5],
                                  .prompt = prompt,
                                  .positions = s.seq,
                                  .dtype = dtype,
                                  .threads = 1};
    so =
        (struct stream_plain_options){.gpt = s.o.gpt, .wire = dtype, .params = fixture_f32(s.f, "params", 0)};
    s.stream = stream_plain_open(&so);
    return s;
}

static void setting_close(struct setting *s)
{
    stream_close(s->stream);
    fixture_close(s->f);
}

/* The logits of position t of every sequence. */
static void compare(const struct setting *s, const float *logits, size_t t, double tolerance)
{
    size_t V = s->o.gpt.vocab, n = s->o.batch * s->seq * V;
    const float *all = fixture_f32(s->f, "logits", n);
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)all[i]));
    for (size_t b = 0; b < s->o.batch; b++)
        for (size_t v = 0; v < V; v++)
            assert_true(fabs((double)logits[b * V + v] - (double)all[(b * s->seq + t) * V + v]) / largest <
                        tolerance);
}

static void check_logits(const char *path, size_t prompt, enum dtype dtype, double tolerance)
{
    struct setting s = setting_open(path, prompt, dtype);
    const int32_t *x = fixture_i32(s.f, "x", s.o.batch * s.seq);
    int32_t       *ids = malloc(s.o.batch * s.seq * sizeof *ids);
    struct decode *d;
    const float   *logits;
    struct err     err = { 0 };

    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), 0);
    for (int again = 0; again < 2; again++) { // another prompt starts over
        for (size_t b = 0; b < s.o.batch; b++)
            memcpy(ids + b * prompt, x + b * s.seq, prompt * sizeof *ids);
        assert_int_equal(decode_prompt(d, ids, &logits, &err), 0);
        compare(&s, logits, prompt - 1, tolerance);
        for (size_t t = prompt; t < s.seq; t++) {
            for (size_t b = 0; b < s.o.batch; b++)
                ids[b] = x[b * s.seq + t];
            assert_int_equal(decode_next(d, ids, &logits, &err), 0);
            compare(&s, logits, t, tolerance);
        }
    }
    decode_close(d);
    free(ids);
    setting_close(&s);
}

static void test_logits(void **state)
{
    (void)state;
    check_logits("tests/fixtures/gpt_a.fix", 1, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_a.fix", 7, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_a.fix", 19, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_b.fix", 1, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_b.fix", 32, DT_F32, 1e-5);
    check_logits("tests/fixtures/gpt_b.fix", 5, DT_BF16, 3e-2);
}

static void test_refusals(void **state)
{
    struct setting s = setting_open("tests/fixtures/gpt_a.fix", 3, DT_F32);
    struct decode *d;
    struct err     err = { 0 };

    (void)state;
    s.o.positions = s.o.gpt.n_positions + 1;
    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), -EINVAL);
    assert_true(err.misuse && err.text[0]);
    s.o.positions = 2;
    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), -EINVAL);
    s.o.prompt = 0;
    assert_int_equal(decode_open(&d, &s.o, s.stream, &err), -EINVAL);
    decode_close(NULL);
    setting_close(&s);
}

static void test_greedy(void **state)
{
    struct sampling s = { .temperature = 0 };
    float logits[5] = { 1, 3, -2, 3, 0 }, scratch[5];

    (void)state;
    assert_int_equal(sampling_pick(&s, logits, 5, 0, 0, scratch), 1);
}

static void test_sampling(void **state)
{
    enum { N = 20000 };
    struct sampling s = { .temperature = 2.0, .seed = 9 };
    float  logits[6] = { 2, 0, 4, -8, 4, 1 }, scratch[6];
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

        assert_true(fabs(count[i] / (double)N - expected) < 5 * sqrt(expected * (1 - expected) / N) + 1e-4);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_sampling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
