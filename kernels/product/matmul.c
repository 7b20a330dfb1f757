/* matmul.c: opens an engine for the dense products and passes each call on to it. Engines are in
 * files of their own (matmul_engine.h). Equal shapes become one product here, so engines need not
 * compare them. The caller's number of OpenMP threads is set aside while an engine runs, and then
 * restored. */
#include "kernels/product/matmul_engine.h"

#include <assert.h>
#include <limits.h>
#include <omp.h>

#include "kernels/simd.h"

const char *matmul_engine_name(size_t e)
{
    static const char *const names[] = {
        [MATMUL_AUTO] = "auto", [MATMUL_OPENBLAS] = "openblas", [MATMUL_ONEDNN] = "onednn",
        [MATMUL_SITRAIN] = "sitrain", NULL,
    };

    return names[e];
}

int matmul_by_threads(const char *describe)
{
    const char *own = matmul_engine_name(MATMUL_SITRAIN);

    return strncmp(describe, own, strlen(own)) != 0;
}

int matmul_has(enum matmul_engine e) { return e != MATMUL_ONEDNN || &matmul_onednn != NULL; }

int matmul_same_shape(const struct matmul_shape *x, const struct matmul_shape *y)
{
    return x->form == y->form && x->m == y->m && x->n == y->n && x->k == y->k &&
           x->ab_dt == y->ab_dt && x->c_dt == y->c_dt && !x->bias == !y->bias &&
           !x->accumulate == !y->accumulate && !x->pack_b == !y->pack_b &&
           !x->tiled_a == !y->tiled_a && x->fold == y->fold;
}

static int shape_ok(const struct matmul_shape *s)
{
    int dt_ok = (s->ab_dt == DT_F32 && s->c_dt == DT_F32) ||
                (s->ab_dt == DT_BF16 && (s->c_dt == DT_F32 || s->c_dt == DT_BF16));
    int sum_ok = !s->accumulate || (s->c_dt == DT_F32 && !s->bias);

    int fold_ok = !s->fold || (s->fold % 32 == 0 && s->c_dt == DT_F32 && !s->bias);

    return dt_ok && sum_ok && fold_ok && s->m > 0 && s->n > 0 && s->k > 0 && s->m <= INT_MAX &&
           s->n <= INT_MAX && s->k <= INT_MAX;
}

// Adds shape i of the caller's list. Each different shape is kept once.
static void shape_add(struct matmul *mm, size_t i, const struct matmul_shape *shape)
{
    size_t j = 0;

    while (j < mm->n_shapes && !matmul_same_shape(&mm->shapes[j], shape))
        j++;
    if (j == mm->n_shapes)
        mm->shapes[mm->n_shapes++] = *shape;
    mm->unique[i] = j;
}

int matmul_open_engine(struct matmul **out, const struct matmul_ops *ops,
                       const struct matmul_shape *shapes, size_t n_shapes, int threads,
                       struct err *err)
{
    int            before = omp_get_max_threads();
    struct matmul *mm;

    assert(ops->open && ops->run && !ops->packed == !ops->pack && !ops->begin == !ops->join);
    *out = NULL;
    for (size_t i = 0; i < n_shapes; i++)
        if (!shape_ok(&shapes[i]))
            return err_set(err, -EINVAL, "product %zu (%zu x %zu x %zu) has a size or a "
                           "combination of formats that no engine runs", i, shapes[i].m,
                           shapes[i].n, shapes[i].k);
    mm = calloc(1, sizeof *mm);
    if (mm) {
        mm->ops     = ops;
        mm->threads = threads > 0 ? threads : before;
        mm->n_ids   = n_shapes;
        mm->unique  = calloc(n_shapes + 1, sizeof *mm->unique);
        mm->shapes  = calloc(n_shapes + 1, sizeof *mm->shapes);
    }
    int rc = mm && mm->unique && mm->shapes
                 ? 0
                 : err_set(err, -ENOMEM, "no memory for a list of %zu products", n_shapes);
    for (size_t i = 0; i < n_shapes && !rc; i++)
        shape_add(mm, i, &shapes[i]);
    for (size_t i = 0; !rc && !ops->tiled && i < mm->n_shapes; i++)
        mm->shapes[i].tiled_a = 0; // two shapes may be equal now, which costs nothing
    if (!rc) {
        omp_set_num_threads(mm->threads);
        rc = ops->open(mm, err);
        omp_set_num_threads(before);
    }
    if (rc)
        matmul_close(mm);
    else
        *out = mm;
    return rc;
}

/* Chooses oneDNN if the CPU has fast instructions for the format. Without these, bf16 takes oneDNN
 * twice as long as OpenBLAS, for which bf16 is widened first (docs/lab/performance.md). */
enum matmul_engine matmul_chosen(enum matmul_engine engine, enum dtype ab)
{
    int amx = ab == DT_BF16 && simd_amx_bf16();

    if (engine != MATMUL_AUTO)
        return engine;
    int faster = ab == DT_BF16 ? amx || simd_fast_bf16() : simd_avx512();
    if (faster && matmul_has(MATMUL_ONEDNN))
        return MATMUL_ONEDNN;
    return amx ? MATMUL_SITRAIN : MATMUL_OPENBLAS;
}

/* True if siTrain's own products are faster than the libraries': for bf16 on AMX, from OWN_ROWS
 * rows and OWN_THREADS threads on. With 1,024 rows they are 1.44 times as fast on 8 threads and
 * 1.38 times on 2; with 128 rows 1.11 times on 16 and on 2; with 256 rows on one thread 0.98 times.
 * In fp32 they are 1.25 times as fast on 16 threads of these CPUs and 1.1 to 1.3 times on 8, with
 * 1,024 rows; others were not measured (docs/lab/performance.md). */
static int own_is_faster(enum dtype ab, size_t rows, int threads)
{
    enum { OWN_ROWS = 128, OWN_THREADS = 2, FP32_ROWS = 1024, FP32_THREADS = 8 };

    return simd_amx_bf16() && (ab == DT_BF16 ? rows >= OWN_ROWS && threads >= OWN_THREADS
                                             : rows >= FP32_ROWS && threads >= FP32_THREADS);
}

/* The most rows of a product of ab. */
static size_t most_rows(const struct matmul_shape *shapes, size_t n_shapes, enum dtype ab)
{
    size_t most = 0;

    for (size_t i = 0; i < n_shapes; i++)
        if (shapes[i].form == MATMUL_NN && shapes[i].ab_dt == ab && shapes[i].m > most)
            most = shapes[i].m;
    return most;
}

int matmul_is_own(enum matmul_engine engine, enum dtype ab, size_t rows, int threads)
{
    int many = threads > 0 ? threads : omp_get_max_threads();

    return matmul_chosen(engine, ab) == MATMUL_SITRAIN ||
           (engine == MATMUL_AUTO && own_is_faster(ab, rows, many));
}

/* One product of bf16 decides for all. */
static enum dtype dtype_of(const struct matmul_shape *shapes, size_t n_shapes)
{
    for (size_t i = 0; i < n_shapes; i++)
        if (shapes[i].ab_dt == DT_BF16)
            return DT_BF16;
    return DT_F32;
}

int matmul_open(struct matmul **out, enum matmul_engine engine, const struct matmul_shape *shapes,
                size_t n_shapes, int threads, struct err *err)
{
    int many = threads > 0 ? threads : omp_get_max_threads(), rc = -ENOTSUP;
    enum dtype ab = dtype_of(shapes, n_shapes);
    int own = engine == MATMUL_AUTO && own_is_faster(ab, most_rows(shapes, n_shapes, ab), many);
    enum matmul_engine chosen = own ? MATMUL_SITRAIN : matmul_chosen(engine, ab);

    *out = NULL;
    if (chosen == MATMUL_SITRAIN)
        return matmul_open_engine(out, &matmul_sitrain, shapes, n_shapes, threads, err);
    for (size_t i = 0; i < n_shapes; i++)
        assert(!shapes[i].fold);
    if (chosen == MATMUL_ONEDNN && !matmul_has(MATMUL_ONEDNN))
        err_misuse(err, "this siTrain was built without onednn; openblas runs all products");
    else if (chosen == MATMUL_ONEDNN)
        rc = matmul_open_engine(out, &matmul_onednn, shapes, n_shapes, threads, err);
    if (rc == -ENOTSUP && engine != MATMUL_ONEDNN)
        rc = matmul_open_engine(out, &matmul_openblas, shapes, n_shapes, threads, err);
    return rc;
}

void matmul_close(struct matmul *mm)
{
    if (!mm)
        return;
    if (mm->ops->close)
        mm->ops->close(mm);
    free(mm->unique);
    free(mm->shapes);
    free(mm);
}

size_t matmul_packed(const struct matmul *mm, size_t id)
{
    assert(id < mm->n_ids);
    if (!mm->ops->packed || !mm->shapes[mm->unique[id]].pack_b)
        return 0;
    return mm->ops->packed(mm, mm->unique[id]);
}

int matmul_tiled(const struct matmul *mm, size_t id)
{
    assert(id < mm->n_ids);
    return mm->shapes[mm->unique[id]].tiled_a && mm->ops->tiled(mm, mm->unique[id]);
}

void matmul_pack(const struct matmul *mm, size_t id, void *packed, const void *b)
{
    int before = omp_get_max_threads();

    assert(matmul_packed(mm, id) > 0);
    omp_set_num_threads(mm->threads);
    mm->ops->pack(mm, mm->unique[id], packed, b);
    omp_set_num_threads(before);
}

void matmul_run(const struct matmul *mm, size_t id, void *c, const void *a, const void *b,
                const void *bias, void *scratch)
{
    int before = omp_get_max_threads();

    assert(id < mm->n_ids);
    assert(!mm->shapes[mm->unique[id]].bias == !bias);
    omp_set_num_threads(mm->threads);
    mm->ops->run(mm, mm->unique[id], c, a, b, bias, scratch);
    omp_set_num_threads(before);
}

void matmul_call_run(const struct matmul_call *call)
{
    matmul_run(call->mm, call->id, call->c, call->a, call->b, call->bias, call->scratch);
}

int matmul_joins(const struct matmul *mm)
{
    return mm->ops->join && omp_get_max_threads() <= mm->threads;
}

void matmul_begin(const struct matmul_call *call)
{
    assert(matmul_joins(call->mm) && call->id < call->mm->n_ids);
    call->mm->ops->begin(call->mm, call->mm->unique[call->id], call->scratch);
}

void matmul_join(const struct matmul_call *call)
{
    call->mm->ops->join(call->mm, call->mm->unique[call->id], call->c, call->a, call->b,
                        call->bias, call->scratch);
}
