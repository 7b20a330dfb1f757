/* products.c: builds the list of shapes from the model's sizes and finds a product in it again. Ids are not
 * kept by hand: an id is looked up by (product, rows), and asking for one that was not announced is a
 * programmer's error. */
#include "model/products.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { ROW_CLASSES = 11, MAX_SHAPES = PRODUCTS * ROW_CLASSES }; // 1, 2, 4, ..., CHUNK_ROWS

struct products {
    struct matmul *matmul;
    size_t         n;
    struct { enum product which; size_t rows; } key[MAX_SHAPES];
    struct matmul_shape shape[MAX_SHAPES];
};

static struct matmul_shape forward(size_t rows, size_t n, size_t k, enum dtype dt, enum dtype out)
{
    return (struct matmul_shape){ MATMUL_NN, rows, n, k, dt, out, 1, 0 };
}

static struct matmul_shape backward(size_t rows, size_t n, size_t k, enum dtype dt, enum dtype out)
{
    return (struct matmul_shape){ MATMUL_NT, rows, n, k, dt, out, 0, 0 };
}

static struct matmul_shape gradient(size_t m, size_t n, size_t rows, enum dtype dt)
{
    return (struct matmul_shape){ MATMUL_TN, m, n, rows, dt, DT_F32, 0, 1 };
}

static struct matmul_shape shape_of(enum product which, size_t rows, size_t C, size_t V, enum dtype dt)
{
    switch (which) {
    case PRODUCT_QKV:           return forward(rows, 3 * C, C, dt, dt);
    case PRODUCT_ATTN_PROJ:     return forward(rows, C, C, dt, DT_F32);
    case PRODUCT_FC:            return forward(rows, 4 * C, C, dt, dt);
    case PRODUCT_MLP_PROJ:      return forward(rows, C, 4 * C, dt, DT_F32);
    case PRODUCT_D_GELU:        return backward(rows, 4 * C, C, dt, DT_F32);
    case PRODUCT_D_LN2:         return backward(rows, C, 4 * C, dt, DT_F32);
    case PRODUCT_D_ATTN:        return backward(rows, C, C, dt, dt);
    case PRODUCT_D_LN1:         return backward(rows, C, 3 * C, dt, DT_F32);
    case PRODUCT_D_MLP_PROJ_W:  return gradient(4 * C, C, rows, dt);
    case PRODUCT_D_FC_W:        return gradient(C, 4 * C, rows, dt);
    case PRODUCT_D_ATTN_PROJ_W: return gradient(C, C, rows, dt);
    case PRODUCT_D_QKV_W:       return gradient(C, 3 * C, rows, dt);
    case PRODUCT_LOGITS:        return (struct matmul_shape){ MATMUL_NT, rows, V, C, dt, DT_F32, 0, 0 };
    case PRODUCT_D_LNF:         return (struct matmul_shape){ MATMUL_NN, rows, C, V, dt, DT_F32, 0, 0 };
    default:                    return gradient(V, C, rows, dt); // PRODUCT_D_WTE
    }
}

static void add(struct products *p, const struct products_options *o, enum product which, size_t rows)
{
    assert(p->n < MAX_SHAPES);
    p->key[p->n].which = which;
    p->key[p->n].rows = rows;
    p->shape[p->n++] = shape_of(which, rows, o->gpt.n_embd, o->gpt.vocab, o->dtype);
}

/* Products [first, end) for tokens cut into chunks: a whole chunk if there is one, and what can remain. */
static void add_chunked(struct products *p, const struct products_options *o, enum product first,
                        enum product end, size_t chunk)
{
    for (enum product which = first; which < end; which++) {
        if (o->tokens >= chunk)
            add(p, o, which, chunk);
        for (size_t rows = chunk / 2; o->unit && rows >= o->unit; rows /= 2)
            if (rows <= o->tokens)
                add(p, o, which, rows);
        if (!o->unit && o->tokens % chunk)
            add(p, o, which, o->tokens % chunk);
    }
}

int products_open(struct products **out, const struct products_options *o, struct err *err)
{
    struct products *p = calloc(1, sizeof *p);
    char             why[512] = "";
    int              rc;

    *out = NULL;
    if (!p)
        return err_set(err, -ENOMEM, "out of memory for the list of matrix products");
    add_chunked(p, o, PRODUCT_QKV, o->training ? PRODUCT_LOGITS : PRODUCT_D_GELU, CHUNK_ROWS);
    if (!o->no_head)
        add_chunked(p, o, PRODUCT_LOGITS, o->training ? PRODUCTS : PRODUCT_D_LNF, HEAD_ROWS);
    rc = matmul_open(&p->matmul, o->engine, p->shape, p->n, o->threads, why, sizeof why);
    if (rc) {
        free(p);
        return err_set(err, rc, "%s", why);
    }
    *out = p;
    return 0;
}

void products_close(struct products *p)
{
    if (!p)
        return;
    matmul_close(p->matmul);
    free(p);
}

struct matmul *products_matmul(const struct products *p)
{
    return p->matmul;
}

const struct matmul_shape *products_shape(const struct products *p, size_t i, enum product *which,
                                          size_t *rows)
{
    if (i >= p->n)
        return NULL;
    *which = p->key[i].which;
    *rows = p->key[i].rows;
    return &p->shape[i];
}

const char *products_name(enum product which)
{
    static const char *const names[PRODUCTS] = {
        [PRODUCT_QKV] = "qkv",       [PRODUCT_ATTN_PROJ] = "attn_proj",
        [PRODUCT_FC] = "fc",         [PRODUCT_MLP_PROJ] = "mlp_proj",
        [PRODUCT_D_GELU] = "d_gelu", [PRODUCT_D_LN2] = "d_ln2",
        [PRODUCT_D_ATTN] = "d_attn", [PRODUCT_D_LN1] = "d_ln1",
        [PRODUCT_D_MLP_PROJ_W] = "d_mlp_proj_w",   [PRODUCT_D_FC_W] = "d_fc_w",
        [PRODUCT_D_ATTN_PROJ_W] = "d_attn_proj_w", [PRODUCT_D_QKV_W] = "d_qkv_w",
        [PRODUCT_LOGITS] = "logits", [PRODUCT_D_LNF] = "d_lnf",
        [PRODUCT_D_WTE] = "d_wte"
    };

    return names[which];
}

void products_run(const struct products *p, enum product which, size_t rows, void *c, const void *a,
                  const void *b, const void *bias, void *scratch)
{
    size_t id = 0;

    while (id < p->n && (p->key[id].which != which || p->key[id].rows != rows))
        id++;
    assert(id < p->n);
    matmul_run(p->matmul, id, c, a, b, bias, scratch);
}
