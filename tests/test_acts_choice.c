/* The choice of a placement: against all placements there are, on problems made by a seed, and
 * against numbers computed on paper. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/acts_choice.h"

#include <math.h>
#include <stdlib.h>

static unsigned seed;

static double some(double most)
{
    return most * (double)rand_r(&seed) / (double)RAND_MAX;
}

static struct choice_problem problem_of(unsigned number)
{
    seed = number;
    struct choice_problem p = {
        .n_layer = 1 + number % 4, .pool = some(40), .spare = some(10), .stays = some(6),
        .may_offload = number % 7 != 0, .F = some(10), .B = some(20), .before = some(3),
        .forward = { some(12), some(12), some(6), 0 },
        .backward = { some(20), some(10), some(20), some(9) },
        .write = { some(1), 0, some(1), 0 }, .read = { some(1), some(1), 0, 0 },
    };

    for (enum acts_part i = 0; i < ACTS_PARTS; i++)
        p.part[i] = (struct choice_part){ 1 + some(5), some(5), some(3), some(0.2), some(0.2) };
    return p;
}

/* The shortest of all placements. */
static double all_placements(const struct choice_problem *p, const struct placement *so_far,
                             int part)
{
    struct placement w = *so_far;
    double           best = INFINITY;

    if (part == ACTS_PARTS)
        return choice_sums(p, &w).kept > p->pool + (placement_offloads(&w) ? 0 : p->spare)
                   ? INFINITY : choice_seconds(p, &w);
    for (size_t kept = 0; kept <= p->n_layer; kept++) {
        for (size_t off = 0; off <= (p->may_offload ? p->n_layer - kept : 0); off++) {
            if (part == ACTS_INPUT && kept + off < p->n_layer)
                continue;
            w.of[part].kept = kept;
            w.of[part].offloaded = off;
            best = fmin(best, all_placements(p, &w, part + 1));
        }
    }
    return best;
}

static void test_exact(void **state)
{
    int found = 0, offloads = 0, recomputes = 0;

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        struct choice_problem p = problem_of(i);
        struct placement      w;
        double                best = all_placements(&p, &(struct placement){ 0 }, 0);
        int                   rc = choice_best(&w, &p);

        assert_int_equal(rc != 0, isinf(best));
        if (rc)
            continue;
        assert_true(choice_sums(&p, &w).kept <= p.pool + (placement_offloads(&w) ? 0 : p.spare));
        if (!(fabs(choice_seconds(&p, &w) / best - 1) < 0.00301))
            fail_msg("problem %u: %g, the best is %g", i, choice_seconds(&p, &w), best);
        found++;
        offloads += placement_offloads(&w);
        recomputes += w.of[ACTS_MLP].kept + w.of[ACTS_MLP].offloaded < p.n_layer;
    }
    assert_true(found > 2000 && offloads > 500 && recomputes > 500);
}

/* Four layers of 10 bytes for each part, nothing kept, 1 s to compute each again. */
static const struct choice_problem paper = {
    .n_layer = 4, .may_offload = 1, .F = 8, .B = 16, .pool = 40,
    .part = { { .kept = 10, .moved = 10 }, { 10, 10, 1, 0, 0 }, { 10, 10, 1, 0, 0 } },
    .forward = { .down = 2 }, .backward = { .up = 6 }, .write = { .down = 0.1 },
    .read = { .up = 0.1 },
};

static void test_on_paper(void **state)
{
    struct choice_problem p = paper;
    struct placement      w;

    (void)state;
    // inputs are kept; of 8 parts 1 s each: 6 are written in the 6 s that forward has beside
    // what it writes anyhow; two are computed again, and read are 60 bytes in 6 + 6 of 18 s
    assert_int_equal(choice_best(&w, &p), 0);
    assert_int_equal(w.of[ACTS_INPUT].kept, 4);
    assert_int_equal(w.of[ACTS_ATTN].offloaded + w.of[ACTS_MLP].offloaded, 6);
    assert_true(fabs(choice_seconds(&p, &w) - (8 + 18)) < 1e-9);
    // a link a hundred times as slow: all is computed again
    p.write.down = p.read.up = 10;
    assert_int_equal(choice_best(&w, &p), 0);
    assert_int_equal(placement_offloads(&w), 0);
    assert_true(fabs(choice_seconds(&p, &w) - (8 + 24)) < 1e-9);
    // where computing waits anyhow nothing is written, though it would cost nothing
    p = paper;
    p.backward.up = 30;
    p.forward.down = 0;
    assert_int_equal(choice_best(&w, &p), 0);
    assert_true(choice_sums(&p, &w).moved == 0);
    // no room for the inputs, and nowhere to put them
    p.pool = 39;
    p.may_offload = 0;
    assert_int_equal(choice_best(&w, &p), -1);
}

/* Of SSDTrain's rule: (30 n + 60) x 0.1 s of writing in 3 x 8 - 2 x 2 n of time. */
static void test_ssdtrain(void **state)
{
    struct choice_problem p = paper;

    (void)state;
    p.pool = 120;
    // n = 0: 6 in 24; 1: 9 in 20; 2: 12 in 16; 3: 15 in 12
    struct placement w = choice_ssdtrain(&p);
    assert_int_equal(w.of[ACTS_MLP].offloaded, 3);
    assert_int_equal(w.of[ACTS_INPUT].kept, 1);
    p.write.down = 1; // 60 in 24
    assert_int_equal(choice_ssdtrain(&p).of[ACTS_MLP].offloaded, 0);
    p.pool = 89; // room for two
    assert_int_equal(choice_ssdtrain(&p).of[ACTS_MLP].offloaded, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_exact),
                                        cmocka_unit_test(test_on_paper),
                                        cmocka_unit_test(test_ssdtrain) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
