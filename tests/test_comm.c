/* test_comm.c: what ranks give each other arrives, whole and where it belongs, whatever else is
 * under way. Alone it is a job of one; tests/cli/network.sh starts it with several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/comm.h"

#include <unistd.h>

static struct comm *comm;
static struct err   err;

/* The i-th byte of what rank `from` sends to rank `to` in the turn. */
static uint8_t byte(size_t from, size_t to, size_t turn, size_t i)
{
    return (uint8_t)((from * 31 + to * 17 + turn * 7 + i * 131 + (i >> 8)) * 2654435761u >> 13);
}

/* Of one to another in a turn: some send nothing. */
static size_t length(size_t from, size_t to, size_t turn)
{
    return (from * 5 + to * 3 + turn) % 4 == 0 ? 0 : (from + 1) * 1001 * turn * turn + to * 77 + 1;
}

static void finish(struct comm_request *r)
{
    assert_int_equal(comm_wait(comm, r, 60, &err), 0);
    assert_null(r->own);
}

static void test_share(void **state)
{
    uint64_t mine[3] = { comm->rank, comm->rank * comm->rank, ~comm->rank }, all[64][3];

    (void)state;
    assert_true(comm->size <= 64 && comm->rank < comm->size);
    for (size_t turn = 0; turn < 100; turn++) {
        mine[1] += turn;
        assert_int_equal(comm_share(comm, mine, sizeof mine, all, &err), 0);
        for (size_t p = 0; p < comm->size; p++) {
            assert_int_equal(all[p][0], p);
            assert_int_equal(all[p][1], p * p + turn * (turn + 1) / 2);
            assert_int_equal(all[p][2], ~p);
        }
        assert_int_equal(comm_share(comm, NULL, 0, NULL, &err), 0);
    }
}

/* Parts of odd sizes, two gathers at once, asked for in the other order. */
static void test_gather(void **state)
{
    enum { TURNS = 6 };

    (void)state;
    for (size_t turn = 1; turn < TURNS; turn++) {
        struct comm_request r[2] = { { 0 } };
        size_t              at[65] = { 0 };
        uint8_t            *buf[2];

        for (size_t p = 0; p < comm->size; p++)
            at[p + 1] = at[p] + length(p, 0, turn);
        for (size_t k = 0; k < 2; k++) {
            buf[k] = calloc(at[comm->size] + 1, 1);
            for (size_t i = at[comm->rank]; i < at[comm->rank + 1]; i++)
                buf[k][i] = byte(comm->rank, k, turn, i);
            buf[k][at[comm->size]] = 0xAB;
            assert_int_equal(comm_gather(comm, COMM_PARAMS, buf[k], at, &r[k], &err), 0);
        }
        finish(&r[1]);
        finish(&r[0]);
        for (size_t k = 0; k < 2; k++) {
            for (size_t p = 0; p < comm->size; p++)
                for (size_t i = at[p]; i < at[p + 1]; i++)
                    assert_int_equal(buf[k][i], byte(p, k, turn, i));
            assert_int_equal(buf[k][at[comm->size]], 0xAB);
            free(buf[k]);
        }
    }
}

/* Each to each, other sizes for each pair, sharing in between; large enough that a transfer is not
 * over when it has begun. */
static void test_exchange(void **state)
{
    enum { TURNS = 40 };

    (void)state;
    for (size_t turn = 1; turn <= TURNS; turn += 3) {
        struct comm_peer    peers[64] = { { 0 } };
        struct comm_request r = { 0 };
        int                 rc, looks = 0;

        for (size_t p = 0; p < comm->size; p++) {
            uint8_t *send = malloc(length(comm->rank, p, turn) + 1),
                    *recv = calloc(length(p, comm->rank, turn) + 1, 1);

            peers[p] = (struct comm_peer){ send, length(comm->rank, p, turn), recv,
                                           length(p, comm->rank, turn) };
            for (size_t i = 0; i < peers[p].send_bytes; i++)
                send[i] = byte(comm->rank, p, turn, i);
        }
        assert_int_equal(comm_exchange(comm, COMM_GRADIENTS, peers, &r, &err), 0);
        test_share(state);
        while ((rc = comm_test(comm, &r, &err)) == 0)
            looks++;
        assert_int_equal(rc, 1);
        assert_int_equal(comm_test(comm, &r, &err), 1); // of nothing
        for (size_t p = 0; p < comm->size; p++) {
            const uint8_t *got = peers[p].recv;

            for (size_t i = 0; i < peers[p].recv_bytes; i++)
                assert_int_equal(got[i], byte(p, comm->rank, turn, i));
            free((void *)(uintptr_t)peers[p].send);
            free(peers[p].recv);
        }
    }
}

/* More than MPI's ints can count is two messages: 1 GiB and a little, from rank 0 to 1, where
 * SITRAIN_COMM_LARGE asks for it. */
static void test_large(void **state)
{
    size_t              bytes = ((size_t)1 << 30) + 4099, at[65] = { 0 };
    struct comm_request r = { 0 };
    uint8_t            *buf;

    (void)state;
    if (comm->size < 2 || !getenv("SITRAIN_COMM_LARGE"))
        skip();
    for (size_t p = 1; p <= comm->size; p++)
        at[p] = bytes;
    buf = calloc(bytes, 1);
    for (size_t i = 0; comm->rank == 0 && i < bytes; i += 4093)
        buf[i] = byte(0, 0, 0, i);
    assert_int_equal(comm_gather(comm, COMM_PARAMS, buf, at, &r, &err), 0);
    finish(&r);
    for (size_t i = 0; i < bytes; i += 4093)
        assert_int_equal(buf[i], byte(0, 0, 0, i));
    free(buf);
}

/* Who does not answer is named: the last rank is late. */
static void test_late(void **state)
{
    size_t              at[65] = { 0 }, last = comm->size - 1;
    uint8_t             buf[64] = { 0 };
    struct comm_request r = { 0 };
    char                rank[32];

    (void)state;
    if (comm->size < 2)
        skip();
    for (size_t p = 0; p < comm->size; p++)
        at[p + 1] = p == last ? sizeof buf : 0;
    snprintf(rank, sizeof rank, "rank %zu (process ", last);
    if (comm->rank == last)
        sleep(1);
    assert_int_equal(comm_gather(comm, COMM_PARAMS, buf, at, &r, &err), 0);
    if (comm->rank != last) {
        assert_int_equal(comm_wait(comm, &r, 0.2, &err), -ETIMEDOUT);
        assert_non_null(strstr(err.text, rank));
        assert_non_null(strstr(err.text, "has not answered for 0.2 s"));
    }
    finish(&r); // a timeout is the caller's to judge: the request stands
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share), cmocka_unit_test(test_gather),
        cmocka_unit_test(test_exchange), cmocka_unit_test(test_large),
        cmocka_unit_test(test_late),
    };

    if (comm_open(&comm, &err)) {
        printf("Bail out! %s\n", err.text);
        return 1;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    if (failures)
        comm_abort(comm, 1);
    comm_close(comm);
    return failures != 0;
}
