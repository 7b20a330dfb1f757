/* test_comm_mpi.c: MPI is called by one thread at a time (MPI_THREAD_SERIALIZED), also where a call
 * fails and is asked why. The MPI is this file's: two ranks, of which the other never answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#if __has_include(<mpi.h>)
#include "comm/comm.h"

#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int inside, together, opened, fails;

static int call(int us, int rc)
{
    if (atomic_fetch_add(&inside, 1))
        atomic_store(&together, 1);
    if (us)
        usleep((useconds_t)us);
    atomic_fetch_sub(&inside, 1);
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *has)
{
    (void)argc, (void)argv;
    *has = wanted;
    return MPI_SUCCESS;
}

int MPI_Comm_dup(MPI_Comm from, MPI_Comm *to)
{
    *to = from;
    return MPI_SUCCESS;
}

int MPI_Comm_set_errhandler(MPI_Comm c, MPI_Errhandler h)
{
    (void)c, (void)h;
    return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm c, int *rank)
{
    (void)c;
    *rank = 0;
    return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm c, int *size)
{
    (void)c;
    *size = 2;
    return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *c)
{
    (void)c;
    return MPI_SUCCESS;
}

int MPI_Finalize(void) { return MPI_SUCCESS; }
int MPI_Abort(MPI_Comm c, int code)
{
    (void)c;
    return call(300000, code ? MPI_SUCCESS : MPI_ERR_OTHER);
}

int MPI_Isend(const void *buf, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
    (void)buf, (void)n, (void)t, (void)to, (void)tag, (void)c;
    memset(r, 1, sizeof *r); // is not MPI_REQUEST_NULL
    return call(0, MPI_SUCCESS);
}

int MPI_Irecv(void *buf, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r)
{
    (void)buf, (void)n, (void)t, (void)from, (void)tag, (void)c;
    memset(r, 1, sizeof *r);
    return call(0, MPI_SUCCESS);
}

/* Before it is open all is over at once. */
int MPI_Test(MPI_Request *r, int *done, MPI_Status *s)
{
    (void)r, (void)s;
    *done = !atomic_load(&opened);
    return call(0, atomic_exchange(&fails, 0) ? MPI_ERR_OTHER : MPI_SUCCESS);
}

int MPI_Cancel(MPI_Request *r)
{
    (void)r;
    return call(0, MPI_SUCCESS);
}

int MPI_Error_string(int code, char *text, int *n)
{
    *n = code == MPI_ERR_OTHER ? 4 : 0;
    memcpy(text, "that", 4);
    return call(300000, MPI_SUCCESS);
}

static struct comm *comm;

/* Another thread's exchange, looked at all the time. */
static void *look(void *stop)
{
    uint8_t             out = 1, in = 0;
    struct comm_peer    peers[2] = { { 0 }, { &out, 1, &in, 1 } };
    struct comm_request r = { 0 };
    struct err          err;

    int rc = comm_exchange(comm, COMM_PARAMS, peers, &r, &err);
    while (!rc && !atomic_load((atomic_int *)stop))
        rc = comm_test(comm, &r, &err);
    return NULL;
}

static void test_serialized(void **state)
{
    uint8_t             out = 1, in = 0;
    struct comm_peer    peers[2] = { { 0 }, { &out, 1, &in, 1 } };
    struct comm_request r = { 0 };
    struct err          err = { 0 };
    atomic_int          stop = 0;
    pthread_t           other;

    (void)state;
    assert_int_equal(comm_mpi_open(&comm, &err), 0);
    atomic_store(&opened, 1);
    assert_int_equal(comm_exchange(comm, COMM_GRADIENTS, peers, &r, &err), 0);
    atomic_store(&fails, 1);
    assert_int_equal(comm_test(comm, &r, &err), -EIO);
    assert_string_equal(err.text, "MPI: an exchange with other ranks: that");
    assert_int_equal(pthread_create(&other, NULL, look, &stop), 0);
    for (int i = 0; i < 3; i++) { // whichever of the two is told
        atomic_store(&fails, 1);
        comm_test(comm, &r, &err);
    }
    comm_abort(comm, 1);
    atomic_store(&stop, 1);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&together), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_serialized) };

    if (comm_mpi_open)
        return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("1..0 # SKIP siTrain is built without MPI\n");
    return 77;
}
#else
int main(void)
{
    print_message("1..0 # SKIP there is no MPI here\n");
    return 77;
}
#endif
