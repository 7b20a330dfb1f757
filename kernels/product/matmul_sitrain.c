/* matmul_sitrain.c: siTrain's own engine of products (product.h). It needs no library, runs every
 * shape on every CPU, and its results have the same bits for any number of threads. */
#include "kernels/product/matmul_engine.h"

#include "data/base/round.h"
#include "kernels/product/product.h"

static struct product *products(const struct matmul *mm) { return mm->own; }

static int sitrain_open(struct matmul *mm, struct err *err)
{
    const char *form = "";

    mm->own = calloc(mm->n_shapes + 1, sizeof(struct product));
    if (!mm->own)
        return err_set(err, -ENOMEM, "out of memory for the plans of %zu products", mm->n_shapes);
    for (size_t i = 0; i < mm->n_shapes; i++) {
        struct product *p = &products(mm)[i];

        product_plan(p, &mm->shapes[i], mm->threads, NULL, NULL);
        mm->scratch_bytes = size_max(mm->scratch_bytes, p->scratch_bytes);
        form = p->form->name;
    }
    snprintf(mm->describe, sizeof mm->describe, "sitrain 1 %s", form);
    return 0;
}

static void sitrain_run(const struct matmul *mm, size_t shape, void *c, const void *a,
                        const void *b, const void *bias, void *scratch)
{
    product_run(&products(mm)[shape], c, a, b, bias, scratch);
}

static void sitrain_begin(const struct matmul *mm, size_t shape, void *scratch)
{
    product_begin(&products(mm)[shape], scratch);
}

static void sitrain_join(const struct matmul *mm, size_t shape, void *c, const void *a,
                         const void *b, const void *bias, void *scratch)
{
    product_join(&products(mm)[shape], c, a, b, bias, scratch);
}

static size_t sitrain_packed(const struct matmul *mm, size_t shape)
{
    return product_packed(&products(mm)[shape]);
}

static void sitrain_pack(const struct matmul *mm, size_t shape, void *packed, const void *b)
{
    product_pack(&products(mm)[shape], packed, b);
}

static int sitrain_tiled(const struct matmul *mm, size_t shape)
{
    return products(mm)[shape].s.tiled_a;
}

static void sitrain_close(struct matmul *mm) { free(mm->own); }

const struct matmul_ops matmul_sitrain = {
    .open = sitrain_open, .run = sitrain_run, .begin = sitrain_begin, .join = sitrain_join,
    .packed = sitrain_packed, .pack = sitrain_pack,
    .tiled = sitrain_tiled, .close = sitrain_close,
};
