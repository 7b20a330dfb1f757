/* test_thread.c: a module's thread: what was asked for before the stop is done, it may be started
 * again, and its closers accept what was never opened. Under TSan: the lock guards it all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/thread.h"

struct sum { struct thread thread; unsigned left, added; };

static int work(void *ctx)
{
    struct sum *s = ctx;

    if (s->left == 0)
        return 0;
    s->left--;
    thread_unlock(&s->thread);
    thread_lock(&s->thread); // others may change things in between
    s->added++;
    thread_changed(&s->thread);
    return 1;
}

static void ask(struct sum *s, unsigned n)
{
    thread_lock(&s->thread);
    s->left += n;
    thread_changed(&s->thread);
    thread_unlock(&s->thread);
}

static void test_turns(void **state)
{
    static struct sum s;
    struct err        err = { 0 };

    (void)state;
    thread_release(&s.thread); // the zero state
    thread_init(&s.thread, work, &s);
    thread_stop(&s.thread); // it does not run
    for (unsigned round = 1; round <= 20; round++) {
        assert_int_equal(thread_start(&s.thread, "sum", &err), 0);
        ask(&s, 100);
        if (round % 2) { // to the end of the work, or of the thread, whichever is waited for
            thread_lock(&s.thread);
            while (s.added < 100 * round)
                thread_wait(&s.thread);
            thread_unlock(&s.thread);
        }
        ask(&s, 0);
        thread_stop(&s.thread);
        assert_int_equal(s.added, 100 * round);
    }
    thread_release(&s.thread);
    thread_release(&s.thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_turns) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
