/* test_route.c: what follows from the order of passes: a GPT-2's, by hand; embeddings in pieces;
 * and orders that no stream could follow. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/family/gpt2.h"
#include "tests/routes.h"

#include <stdio.h>
#include <string.h>

/* The blocks of all such uses of a pass, one after the other. */
static void uses(const struct route *o, enum stream_pass pass, enum route_use use,
                 const char *expected)
{
    char   text[256] = "";
    size_t n = route_uses(o, pass, use);

    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(text);

        snprintf(text + at, sizeof text - at, "%s%zu", i ? " " : "",
                 route_block(o, pass, use, i));
    }
    assert_string_equal(text, expected);
}

static void test_gpt2(void **state)
{
    const struct route o = route_gpt2(3);
    const char        *reads = "0 1 2 3 4 0";

    (void)state;
    assert_null(route_fault(&o));
    assert_int_equal(route_blocks(&o), 5);
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 0 3 2 1");
    uses(&o, STREAM_TRAIN, ROUTE_ADD, "0 4 3 2 1 0");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "4 3 2 1 0");
    uses(&o, STREAM_EVAL, ROUTE_READ, reads);
    uses(&o, STREAM_GENERATE, ROUTE_READ, reads);
    uses(&o, STREAM_GENERATE, ROUTE_SEND, "");
    assert_true(route_at(&o, STREAM_TRAIN, 5).block == 0);
    assert_int_equal(route_at(&o, STREAM_TRAIN, 5).uses, ROUTE_READ | ROUTE_ADD);
    assert_int_equal(route_at(&o, STREAM_TRAIN, 10).uses, ROUTE_ADD | ROUTE_SEND);
    assert_int_equal(route_at(&o, STREAM_TRAIN, 11).uses, 0);
    assert_int_equal(route_last(&o), 0);
    assert_int_equal(route_first(&o).end, 1);
    assert_true(route_shared(&o).first == 1 && route_shared(&o).end == 4);
}

/* Its embeddings are read once more before their gradient is complete, from the frame in which they
 * stand: nothing more is read. */
static void test_encoder(void **state)
{
    const struct model_config three = { .arch = &bert_arch, .n_layer = 3 },
                              three_gpt2 = { .arch = &gpt2_arch, .n_layer = 3 };
    const struct route o = pass_order_of(&three), gpt2 = pass_order_of(&three_gpt2);
    const size_t params[] = { 11, 7, 7, 7, 5 };

    (void)state;
    assert_null(route_fault(&o));
    uses(&gpt2, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 0 3 2 1");
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 0 3 2 1 0");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "4 3 2 1 0");
    uses(&o, STREAM_EVAL, ROUTE_READ, "0 1 2 3 4 0");
    for (size_t frames = 1; frames <= 3; frames++)
        assert_int_equal(route_reads(&o, STREAM_TRAIN, frames, params, 0).params,
                         route_reads(&gpt2, STREAM_TRAIN, frames, params, 0).params);
}

/* A head of its own, whole and in pieces as the embeddings are; a classifier made of such a model.
 */
static void test_untied(void **state)
{
    struct model_config g = { .arch = &llama_arch, .n_layer = 2, .vocab = 9, .untied = 1 };
    struct route        o = pass_order_of(&g);

    (void)state;
    assert_null(route_fault(&o));
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 2 1");
    uses(&o, STREAM_TRAIN, ROUTE_ADD, "4 3 4 2 1 0");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "3 4 2 1 0");
    uses(&o, STREAM_EVAL, ROUTE_READ, "0 1 2 3 4");
    assert_int_equal(route_last(&o), 0);
    g.pieces = 3;
    o = pass_order_of(&g);
    assert_null(route_fault(&o));
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 5 6 7 8 8 7 6 4 3");
    uses(&o, STREAM_TRAIN, ROUTE_ADD, "5 8 7 6 4 3 0 1 2");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "5 8 7 6 4 3 0 1 2");
    uses(&o, STREAM_GENERATE, ROUTE_READ, "0 1 2 3 4 5 6 7 8");
    // frames for two pieces of each; of the head's on the way back two are there still
    assert_int_equal(route_buffers(&o, ROUTE_FRAMES, 1), 2 + 1 + 1 + 2);
    assert_int_equal(route_reads(&o, STREAM_TRAIN, 2, (size_t[9]){ 0 }, 0).blocks, 9 + 1);
    g.n_labels = 2;
    o = pass_order_of(&g);
    assert_null(route_fault(&o));
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 5 4 3");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "5 4 3 0 1 2");
}

static void faulty(struct route o, const char *why)
{
    assert_non_null(route_fault(&o));
    assert_non_null(strstr(route_fault(&o), why));
}

/* Frozen layers have a lane of their own, through which backward goes only if the embeddings are
 * trained. They need no buffers for gradients. */
static void test_frozen(void **state)
{
    struct model_config g = { .arch = &gpt2_arch, .n_layer = 3, .n_head = 1, .n_embd = 1,
                              .vocab = 1, .n_positions = 1, .frozen = { .layers = 2 } };
    struct route        o;

    (void)state;
    g = arch_config(&gpt2_arch, g);
    o = pass_order_of(&g);
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 0 3 2 1");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "4 3 0");
    assert_null(route_fault(&o));
    assert_true(route_trains(&o, 0) && !route_trains(&o, 1) && !route_trains(&o, 2) &&
                route_trains(&o, 3) && route_trains(&o, 4));
    assert_int_equal(route_buffers(&o, ROUTE_FRAMES, 1), 1 + 2 + 1 + 1);
    assert_int_equal(route_buffers(&o, ROUTE_GRADS, 1), 1 + 0 + 1 + 1);
    assert_int_equal(route_buffer(&o, ROUTE_GRADS, 1, 3), 1);
    g.frozen.tensors = 1 << GPT2_WTE | 1 << GPT2_WPE;
    o = pass_order_of(&g);
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 0 3");
    uses(&o, STREAM_TRAIN, ROUTE_ADD, "4 3");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "4 3");
    uses(&o, STREAM_EVAL, ROUTE_READ, "0 1 2 3 4 0");
    assert_null(route_fault(&o));
}

/* Each layer comes with its adapter, up and down; the frozen layers' last frames are still there
 * when the lane comes down, and the adapters' too. */
static void test_in_step(void **state)
{
    struct route o = route_adapters(3);
    const size_t params[] = { 50, 100, 101, 102, 1, 2, 3, 7 };

    (void)state;
    assert_null(route_fault(&o));
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 4 2 5 3 6 7 0 3 6 2 5 1 4");
    uses(&o, STREAM_TRAIN, ROUTE_ADD, "6 5 4");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "6 5 4");
    uses(&o, STREAM_EVAL, ROUTE_READ, "0 1 4 2 5 3 6 7 0");
    assert_int_equal(route_at(&o, STREAM_TRAIN, 9).block, 3);
    assert_int_equal(route_at(&o, STREAM_TRAIN, 9).uses, ROUTE_READ);
    assert_int_equal(route_at(&o, STREAM_TRAIN, 10).block, 6);
    assert_int_equal(route_at(&o, STREAM_TRAIN, 10).uses, ROUTE_READ | ROUTE_ADD | ROUTE_SEND);
    assert_int_equal(route_at(&o, STREAM_TRAIN, 15).uses, 0);
    assert_int_equal(route_last(&o), 4);
    for (size_t b = 0; b < 8; b++) {
        assert_int_equal(route_trains(&o, b), b >= 4 && b < 7);
        assert_int_equal(route_once(&o, b), b >= 4 && b < 7);
    }
    assert_int_equal(route_buffers(&o, ROUTE_GRADS, 2), 2);
    assert_int_equal(route_buffers(&o, ROUTE_FRAMES, 1), 1 + 1 + 2 + 1);
    // one frame for layers, two for adapters: two and one of each are read again
    assert_int_equal(route_reads(&o, STREAM_TRAIN, 1, params, 0).blocks, 8 + 2 + 1);
    assert_int_equal(route_reads(&o, STREAM_TRAIN, 1, params, 0).params, 366 + 201 + 1);
    o.runs[STREAM_EVAL][1].with = 1;
    faulty(o, "move together");
    o = route_adapters(3);
    o.lanes[2].n = 2;
    faulty(o, "move together");
    o = route_adapters(3);
    o.runs[STREAM_TRAIN][4].uses_with = ROUTE_READ; // and nothing is trained
    faulty(o, "nothing is trained");
    o = route_adapters(3);
    o.runs[STREAM_TRAIN][4].uses |= ROUTE_ADD | ROUTE_SEND; // trained layers between adapters
    faulty(o, "numbered");
}

static void test_buffers(void **state)
{
    const struct route o = route_gpt2(5);

    (void)state;
    assert_int_equal(route_buffers(&o, ROUTE_FRAMES, 2), 4);
    assert_int_equal(route_buffers(&o, ROUTE_FRAMES, 9), 7); // one for each block
    assert_int_equal(route_buffers(&o, ROUTE_GRADS, 0), 2);  // the layers' are left out
    assert_int_equal(route_buffer(&o, ROUTE_FRAMES, 2, 0), 0);
    assert_int_equal(route_buffer(&o, ROUTE_FRAMES, 2, 1), 1);
    assert_int_equal(route_buffer(&o, ROUTE_FRAMES, 2, 2), 2);
    assert_int_equal(route_buffer(&o, ROUTE_FRAMES, 2, 5), 1);
    assert_int_equal(route_buffer(&o, ROUTE_FRAMES, 2, 6), 3);
    for (size_t i = 0; i < 4; i++) {
        struct route_span of = route_buffer_blocks(&o, ROUTE_FRAMES, 2, i);

        assert_int_equal(of.first, i == 0 ? 0 : i == 3 ? 6 : 1);
        assert_int_equal(of.end, i == 0 ? 1 : i == 3 ? 7 : 6);
        assert_int_equal(route_buffers_alike(&o, ROUTE_FRAMES, 2, i), i == 1 ? 2 : 1);
    }
    assert_int_equal(route_buffers_alike(&o, ROUTE_FRAMES, 2, 4), 0);
}

static void reads(const struct route *o, enum stream_pass pass, size_t frames, int again,
                  size_t blocks, uint64_t params)
{
    static const size_t sizes[] = { 1000, 100, 101, 102, 103, 7 };
    struct route_reads  r = route_reads(o, pass, frames, sizes, again);

    assert_int_equal(r.blocks, blocks);
    assert_int_equal(r.params, params);
}

/* Four layers. The last ones of forward are still there in backward, and in evaluations those that
 * no other layer shares its frame with. */
static void test_reads(void **state)
{
    const struct route o = route_gpt2(4);

    (void)state;
    reads(&o, STREAM_TRAIN, 1, 0, 6 + 3, 1413 + 303);
    reads(&o, STREAM_TRAIN, 3, 0, 6 + 1, 1413 + 100);
    reads(&o, STREAM_TRAIN, 4, 0, 6, 1413);
    reads(&o, STREAM_EVAL, 1, 0, 6, 1413);
    reads(&o, STREAM_EVAL, 1, 1, 4, 406);
    reads(&o, STREAM_EVAL, 3, 1, 2, 203); // 1 and 4 share a frame
    reads(&o, STREAM_GENERATE, 9, 1, 0, 0);
}

/* Three pieces of embeddings, through two frames, one behind the other; two layers; the final norm.
 */
static void test_pieces(void **state)
{
    const struct route o = route_pieces(3, 2, 0), untied = route_pieces(3, 2, 2);

    (void)state;
    assert_null(route_fault(&o));
    uses(&o, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 5 2 1 0 4 3 0 1 2");
    uses(&o, STREAM_TRAIN, ROUTE_SEND, "5 4 3 0 1 2");
    uses(&o, STREAM_EVAL, ROUTE_READ, "0 1 2 3 4 5 2 1 0");
    assert_int_equal(route_last(&o), 2); // the next forward needs piece 0 first
    assert_int_equal(route_first(&o).end, 3);
    assert_int_equal(route_buffers(&o, ROUTE_FRAMES, 1), 2 + 1 + 1);
    // forward 3; the head 1 (2 and 1 are there); the gradients 1 (0 and 1 are); layers 2 + 1; 1
    assert_int_equal(route_reads(&o, STREAM_TRAIN, 1, (size_t[]){ 1, 1, 1, 1, 1, 1 }, 0).blocks,
                     3 + 1 + 1 + 2 + 1 + 1);
    assert_null(route_fault(&untied));
    uses(&untied, STREAM_TRAIN, ROUTE_READ, "0 1 2 3 4 5 6 7 7 6 4 3");
    uses(&untied, STREAM_TRAIN, ROUTE_SEND, "7 6 5 4 3 2 1 0");
    uses(&untied, STREAM_TRAIN, ROUTE_ADD, "7 6 5 4 3 2 1 0");
    assert_int_equal(route_last(&untied), 0);
}

static void test_faults(void **state)
{
    struct route      o = route_gpt2(2);
    struct route_run *train = o.runs[STREAM_TRAIN];

    (void)state;
    faulty((struct route){ .lanes = { { 0 } } }, "no blocks");
    train[1].way = ROUTE_DOWN; // forward begins with the last layer
    faulty(o, "numbered");
    o = route_gpt2(2);
    train[1].lane = 2; // and does not read the layers
    faulty(o, "numbered");
    o = route_gpt2(2);
    train[6].uses = 0; // block 0's is never sent
    faulty(o, "sent once");
    o = route_gpt2(2);
    train[3].uses |= ROUTE_SEND; // and here twice
    faulty(o, "after it was sent");
    o = route_gpt2(2);
    train[3].uses = ROUTE_READ;
    train[4] = (struct route_run){ 0, ROUTE_UP, ROUTE_ADD | ROUTE_SEND, 0, 0 };
    train[6].uses = 0;
    assert_null(route_fault(&o)); // the final norm's is not, nor added to: it is frozen
    assert_false(route_trains(&o, 3));
    train[5].uses = ROUTE_READ | ROUTE_ADD; // but a layer's is added to
    faulty(o, "sent once");
    o = route_gpt2(2);
    train[7] = (struct route_run){ 1, ROUTE_UP, ROUTE_READ, 0, 0 };
    faulty(o, "read after its gradient");
    o = route_gpt2(2);
    o.runs[STREAM_EVAL][1].uses |= ROUTE_ADD;
    faulty(o, "outside of training");
    o = route_pieces(3, 2, 0); // the head adds to pieces that are complete later
    train[3].uses |= ROUTE_ADD;
    faulty(o, "no buffers to wait in");
    o.lanes[0].buffers[ROUTE_GRADS] = 3;
    assert_null(route_fault(&o));
    o = route_gpt2(0);
    assert_null(route_fault(&o));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2), cmocka_unit_test(test_encoder), cmocka_unit_test(test_untied),
        cmocka_unit_test(test_frozen), cmocka_unit_test(test_in_step),
        cmocka_unit_test(test_buffers), cmocka_unit_test(test_reads),
        cmocka_unit_test(test_pieces), cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
