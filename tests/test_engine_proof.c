/* test_engine_proof.c: an engine that makes this processor's bits is believed; one that is wrong
 * anywhere, be it once, is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/engine/engine_proof.h"

enum flaw { NONE, MASTER, LAST_MOMENT, WIRE, SUM, GRAD_SUM, OVERFLOWED, BOUNDS, PAIR, FLAWS };

/* engine_cpu's, but for a flaw in one of its updates. */
static struct flawed { struct engine base, *cpu; enum flaw flaw; int updates, flawed_update; } it;

static int flawed_alloc(struct engine *e, struct engine_set *s, size_t bytes, struct err *err)
{
    (void)e;
    return it.cpu->ops->alloc(it.cpu, s, bytes, err);
}

static void flawed_release(struct engine *e, struct engine_set *s)
{
    (void)e;
    it.cpu->ops->release(it.cpu, s);
}

static void flawed_start(struct engine *e, struct engine_set *s)
{
    (void)e;
    it.cpu->ops->start(it.cpu, s);
}

static struct engine_set *flawed_poll(struct engine *e)
{
    struct engine_set  *s = it.cpu->ops->poll(it.cpu);
    struct update_area *a = &s->area;

    (void)e;
    if (it.updates != it.flawed_update) {
        it.updates += s->what == ENGINE_PASS;
        return s;
    }
    it.updates += s->what == ENGINE_PASS;
    switch (it.flaw) {
    case MASTER: ((char *)a->states)[0] ^= 1; break;
    case LAST_MOMENT: ((char *)a->states)[a->states_bytes - 1] ^= 1; break;
    case WIRE: ((char *)a->wire)[a->wire_bytes / 2] ^= 1; break;
    case SUM: s->sums.written[1] ^= 1; break;
    case GRAD_SUM: s->sums.grad ^= 1; break;
    case OVERFLOWED: s->u->overflow.n++; break;
    case BOUNDS: s->u->bounds.m *= 2; break;
    case PAIR: s->status = err_set(&s->why, -EBADMSG, "no such pair"); break;
    default: break;
    }
    return s;
}

static const struct engine_ops ops = {
    .alloc = flawed_alloc, .release = flawed_release, .start = flawed_start, .poll = flawed_poll,
};

static void test_proof(void **state)
{
    static const int updates[] = {0, 5, 23};
    struct err       err = {0};

    (void)state;
    it.base.ops = &ops;
    assert_int_equal(engine_cpu.open(&it.cpu, &(struct csd_config){0}, NULL, NULL, &err), 0);
    for (enum flaw flaw = NONE; flaw < FLAWS; flaw++)
        for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
            it.flaw = flaw;
            it.updates = 0;
            it.flawed_update = updates[i];
            int hidden = flaw == BOUNDS && updates[i] != 5; // of unchecked ones nothing is said
            int rc = engine_prove(&it.base, "the flawed one", &err);

            assert_true((rc == 0) == (flaw == NONE || hidden));
            if (rc)
                assert_non_null(strstr(err.text, flaw == PAIR ? "no such pair" : "the flawed one"));
        }
    engine_cpu.close(it.cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_proof)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
