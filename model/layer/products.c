/* products.c: builds the list of a model's product shapes, and runs products by name. Ids are not
 * kept by hand: a product is looked up by its name and number of rows. Asking for one that is not
 * in the list is a programmer's error.
 *
 * A layer's parameters are operand B of its forward and, transposed, of its backward products. If
 * they serve several chunks, they are packed (matmul.h) at the first one. Forward and backward
 * share one place: a layer that is recomputed packs for forward, then for backward, each
 * micro-batch. */
#include "model/layer/products.h"

#include "data/base/round.h"

#include <assert.h>

size_t products_unit(const struct model_options *o)
{
    size_t unit = o->varying ? 16 : 0;

    while (unit && o->seq % unit)
        unit /= 2;
    return unit;
}

enum { MASKED_UNIT = 16 };

size_t products_head_unit(const struct model_options *o)
{
    return arch_is_masked(&o->config) ? MASKED_UNIT : products_unit(o);
}

size_t products_head_rows(const struct model_options *o)
{
    size_t tokens = o->batch * o->seq;

    return arch_is_masked(&o->config) ? round_up(tokens, MASKED_UNIT) : tokens;
}

/* The rows of a micro-batch that go through a product, and the unit of which they are multiples. */
struct through { size_t rows, unit; };

static struct through through(const struct model_options *o, size_t which)
{
    if (products_matrix(which) >= ARCH_HEAD)
        return (struct through){ products_head_rows(o), products_head_unit(o) };
    return (struct through){ o->batch * o->seq, products_unit(o) };
}

static int is_backward(size_t which) { return products_kind(which) != PRODUCT_FORWARD; }

static enum matmul_form form_of(const struct model_config *g, size_t which)
{
    int linear = arch_is_linear(g, products_matrix(which));

    if (products_kind(which) == PRODUCT_GRADIENT)
        return MATMUL_TN;
    return linear == (products_kind(which) == PRODUCT_FORWARD) ? MATMUL_NT : MATMUL_NN;
}

/* Only siTrain's own products can fold sums; bench runs others as fast as they are. */
static int folds(const struct model_options *o)
{
    return o->engine == MATMUL_AUTO || o->engine == MATMUL_SITRAIN;
}

static struct matmul_shape shape_of(const struct model_options *o, size_t which, size_t tokens)
{
    const struct model_config *g = &o->config;
    size_t             matrix = products_matrix(which);
    struct arch_matrix of = arch_matrix(g, matrix);
    size_t             out = arch_matrix_out(g, matrix), in = arch_matrix_in(g, matrix);
    int                linear = arch_is_linear(g, matrix);
    struct matmul_shape s = { .form = form_of(g, which), .m = tokens, .n = out, .k = in,
                              .ab_dt = o->dtype, .c_dt = DT_F32 };

    switch (products_kind(which)) {
    case PRODUCT_FORWARD:
        s.c_dt = of.out_rounded ? o->dtype : DT_F32;
        s.bias = arch_has_bias(g, matrix);
        break;
    case PRODUCT_BACK:
        s.n = in;
        s.k = out;
        s.c_dt = of.in_rounded ? o->dtype : DT_F32;
        break;
    default:
        s.m = linear ? out : in;
        s.n = linear ? in : out;
        s.k = tokens;
        s.fold = folds(o) && tokens > products_fold(which) ? products_fold(which) : 0;
    }
    return s;
}

/* The gradient of a language model's logits comes in tiles, if the engine takes them. Of a masked
 * one's, columns are summed, too. */
static int is_tiled(const struct model_options *o, size_t which)
{
    size_t matrix = products_matrix(which);

    return (matrix == ARCH_HEAD || matrix == ARCH_HEAD_LAST) && is_backward(which) &&
           !arch_is_masked(&o->config);
}

/* Returns whether a product's parameters are packed. Those of a head are packed only if each
 * micro-batch has several chunks. */
static int packs(const struct model_options *o, size_t which)
{
    size_t matrix = products_matrix(which);

    if (matrix == ARCH_HEAD)
        return o->packs_head && arch_pieces(&o->config) == 1 &&
               through(o, which).rows > products_chunk(o, which);
    return matrix < ARCH_HEAD;
}

static struct matmul_shape adapter_shape(const struct model_options *o, size_t t,
                                         enum adapter_product kind, size_t rows)
{
    const struct model_config *g = &o->config;
    size_t rank = g->lora.rank, in = arch_cols(g, arch_a(t)), out = arch_rows(g, arch_b(t));
    struct matmul_shape s = { .form = MATMUL_NN, .m = rows, .n = rank, .k = rank,
                              .ab_dt = o->dtype, .c_dt = DT_F32 };

    if (kind == ADAPTER_DOWN || kind == ADAPTER_UP)
        s.form = MATMUL_NT;
    if (kind == ADAPTER_DA || kind == ADAPTER_DB) {
        s.form = MATMUL_TN;
        s.accumulate = 1;
        s.k = rows;
        s.fold = folds(o) && rows > CHUNK_ROWS ? CHUNK_ROWS : 0;
    }
    switch (kind) {
    case ADAPTER_DOWN:      s.k = in; break;
    case ADAPTER_UP:        s.n = out; break;
    case ADAPTER_BACK_UP:   s.k = out; break;
    case ADAPTER_BACK_DOWN: s.n = in; break;
    case ADAPTER_DA:        s.m = rank; s.n = in; break;
    default:                s.m = out; break;
    }
    return s;
}

static void announce(struct products *p, size_t which, size_t rows, struct matmul_shape shape)
{
    assert(p->n < MAX_SHAPES);
    p->key[p->n].which = which;
    p->key[p->n].rows = rows;
    p->shape[p->n++] = shape;
}

/* Adds the shapes of a product for this many rows. A step's first chunk writes a gradient, and all
 * others add to it. If micro-batches have a fixed size, the first chunk is one of the largest;
 * otherwise any size can be first. Parameters are packed for a layer's largest chunk, if there are
 * several. */
static void add(struct products *p, const struct model_options *o, size_t which, size_t rows)
{
    struct matmul_shape shape = shape_of(o, which, rows);
    struct through      of = through(o, which);
    size_t largest = products_rows(of.rows, products_chunk(o, which), of.unit);
    size_t micros = o->micros ? o->micros : o->grad_accum; // of all ranks: no bit depends on them
    int several = micros * (of.rows / largest) > 1, dw = shape.form == MATMUL_TN;

    shape.tiled_a = is_tiled(o, which);
    shape.pack_b = packs(o, which) && !dw && rows == largest && several;
    if (!dw || rows == largest || of.unit)
        announce(p, which, rows, shape);
    shape.accumulate = 1;
    if (dw && (rows != largest || several))
        announce(p, which, rows, shape);
}

/* Adds a product for tokens cut into chunks: for whole chunks, if there are any, and for
 * remainders. */
static void add_chunked(struct products *p, const struct model_options *o, size_t which)
{
    struct through of = through(o, which);
    size_t         chunk = products_chunk(o, which);

    if (of.rows >= chunk)
        add(p, o, which, chunk);
    for (size_t rows = chunk / 2; of.unit && rows >= of.unit; rows /= 2)
        if (rows <= of.rows)
            add(p, o, which, rows);
    if (!of.unit && of.rows % chunk)
        add(p, o, which, of.rows % chunk);
}

/* Adds an adapter's products for all numbers of rows that a chunk of a layer may have. */
static void add_adapter(struct products *p, const struct model_options *o, size_t t)
{
    struct through      of = through(o, 0);
    size_t              chunk = products_at_once(o, CHUNK_ROWS);
    enum adapter_product kinds = o->training ? ADAPTER_KINDS : ADAPTER_UP + 1;

    for (enum adapter_product kind = 0; kind < kinds; kind++) {
        size_t which = products_adapter(t, kind);

        if (of.rows >= chunk)
            announce(p, which, chunk, adapter_shape(o, t, kind, chunk));
        for (size_t rows = chunk / 2; of.unit && rows >= of.unit; rows /= 2)
            if (rows <= of.rows)
                announce(p, which, rows, adapter_shape(o, t, kind, rows));
        if (!of.unit && of.rows % chunk)
            announce(p, which, of.rows % chunk, adapter_shape(o, t, kind, of.rows % chunk));
    }
}

/* If the words are in pieces, the last piece may have another size and is a head of its own. */
static int has_head(const struct model_options *o, size_t head)
{
    if (arch_classifies(&o->config) || o->generates)
        return 0;
    return head == ARCH_HEAD ||
           (head == ARCH_TRANSFORM ? arch_is_masked(&o->config) : arch_pieces(&o->config) > 1);
}

static void add_all(struct products *p, const struct model_options *o)
{
    size_t n = o->config.arch->n_matrices;

    for (size_t matrix = 0; matrix < n; matrix++)
        add_chunked(p, o, products_of(matrix, PRODUCT_FORWARD));
    for (enum product_kind kind = PRODUCT_BACK; o->training && kind < PRODUCT_KINDS; kind++)
        for (size_t matrix = n; matrix-- > 0;)
            add_chunked(p, o, products_of(matrix, kind));
    for (size_t t = 0; t < o->config.arch->n_params; t++)
        if (arch_size(&o->config, arch_a(t)))
            add_adapter(p, o, t);
    for (size_t head = ARCH_HEAD; head <= ARCH_TRANSFORM; head++)
        for (enum product_kind kind = 0; kind < PRODUCT_KINDS; kind++)
            if (has_head(o, head) && (o->training || !kind))
                add_chunked(p, o, products_of(head, kind));
}

/* Lists the shapes for matmul: every product, then the second parts of those that have two. */
static size_t list_ids(struct products *p, struct matmul_shape *out)
{
    size_t end = p->n;

    for (size_t i = 0; i < p->n; i++) {
        out[i] = p->shape[i];
        if (products_is_logits(p->key[i].which)) // no adapter is
            out[i].n = products_split(out[i].n, out[i].ab_dt);
        if (out[i].n == p->shape[i].n)
            continue;
        p->key[i].rest = end;
        out[end] = p->shape[i];
        out[end].pack_b = 0;
        out[end++].n -= out[i].n;
    }
    return end;
}

/* Places packed parameters. Of a layer, forward's stand side by side, and backward's overwrite
 * them. The head's overwrite both. */
static void place_packed(struct products *p)
{
    size_t at[3] = { 0, 0, 0 };

    for (size_t id = 0; id < p->n; id++)
        if (matmul_packed(p->matmul, id)) {
            size_t which = p->key[id].which;
            size_t *end = &at[products_matrix(which) >= ARCH_HEAD ? 2 : is_backward(which)];

            p->packed_at[which] = *end;
            *end += matmul_packed(p->matmul, id);
        }
    p->run_bytes = round_up(p->matmul->scratch_bytes, 64);
    p->scratch_bytes = p->run_bytes + size_max(size_max(at[0], at[1]), at[2]);
}

int products_doubles(const struct model_options *o)
{
    size_t least = products_unit(o) ? 2 * CHUNK_ROWS : CHUNK_ROWS + 1; // powers of two are cut off

    return o->batch * o->seq >= least &&
           matmul_is_own(o->engine, o->dtype, CHUNK_ROWS, o->threads);
}

int products_open(struct products **out, const struct model_options *o, struct err *err)
{
    struct products    *p = calloc(1, sizeof *p);
    struct matmul_shape ids[MAX_SHAPES + 2 * ROW_CLASSES];

    *out = NULL;
    if (!p)
        return err_set(err, -ENOMEM, "out of memory for the list of matrix products");
    add_all(p, o);
    int rc = matmul_open(&p->matmul, o->engine, ids, list_ids(p, ids), o->threads, err);
    if (rc) {
        products_close(p);
        return rc;
    }
    place_packed(p);
    for (size_t id = 0; id < p->n; id++) // one engine has them all
        p->tiled |= matmul_tiled(p->matmul, id);
    *out = p;
    return 0;
}

void products_close(struct products *p)
{
    if (p)
        matmul_close(p->matmul);
    free(p);
}

/* ---- scratch, for a plan ---- */

enum { KNOWN = 4 };

static int same_list(const struct products *a, const struct products *b)
{
    int same = a->n == b->n;

    for (size_t i = 0; i < a->n && same; i++)
        same = a->key[i].which == b->key[i].which && matmul_same_shape(&a->shape[i], &b->shape[i]);
    return same;
}

int products_scratch(size_t *bytes, int *tiled, const struct model_options *o, struct err *err)
{
    static struct known { struct products *list; int engine, threads; } known[KNOWN]; // the last
    static size_t next;
    struct products *list = calloc(1, sizeof *list), *p;

    if (!list)
        return err_set(err, -ENOMEM, "out of memory for the list of matrix products");
    add_all(list, o);
    for (const struct known *k = known; k < known + KNOWN; k++)
        if (k->list && k->engine == (int)o->engine && k->threads == o->threads &&
            same_list(k->list, list)) {
            free(list);
            *bytes = k->list->scratch_bytes;
            *tiled = k->list->tiled;
            return 0;
        }
    int rc = products_open(&p, o, err);
    if (rc) {
        free(list);
        return rc;
    }
    *bytes = list->scratch_bytes = p->scratch_bytes;
    *tiled = list->tiled = p->tiled;
    products_close(p);
    struct known *k = &known[next++ % KNOWN];
    free(k->list);
    *k = (struct known){ list, (int)o->engine, o->threads };
    return 0;
}

void products_begin(struct products *p) { memset(p->packed, 0, sizeof p->packed); }

/* Operand B of product `id` in packed form. Packing overwrites what was packed for the other
 * direction. */
static const void *packed(struct products *p, size_t id, const void *b, void *scratch)
{
    size_t which = p->key[id].which;
    char        *at = (char *)scratch + p->run_bytes + p->packed_at[which];

    if (p->packed[which])
        return at;
    for (size_t other = 0; products_matrix(which) < ARCH_HEAD && other < PRODUCTS; other++)
        if (is_backward(other) != is_backward(which))
            p->packed[other] = 0;
    matmul_pack(p->matmul, id, at, b);
    p->packed[which] = 1;
    return at;
}

static size_t id_of(const struct products *p, size_t which, size_t rows, int accumulate)
{
    size_t id = 0;

    while (id < p->n && (p->key[id].which != which || p->key[id].rows != rows ||
                         p->shape[id].accumulate != accumulate))
        id++;
    assert(id < p->n);
    return id;
}

void products_run(struct products *p, size_t which, size_t rows, void *c, const void *a,
                  const void *b, const void *bias, void *scratch)
{
    size_t                     id = id_of(p, which, rows, 0);
    const struct matmul_shape *s = &p->shape[id];
    size_t                     split = products_split(s->n, s->ab_dt);

    matmul_run(p->matmul, id, c, a,
               matmul_packed(p->matmul, id) ? packed(p, id, b, scratch) : b, bias, scratch);
    if (p->key[id].rest) // the other columns of logits, from the other rows of the words' tensor
        matmul_run(p->matmul, p->key[id].rest, (float *)c + s->m * split, a,
                   dtype_at(b, s->ab_dt, split * s->k),
                   bias ? dtype_at(bias, s->ab_dt, split) : NULL, scratch);
}

struct matmul_call products_gradient(const struct products *p, size_t which, size_t rows, int adds,
                                     float *c, const void *a, const void *b, void *scratch)
{
    return (struct matmul_call){ .mm = p->matmul, .id = id_of(p, which, rows, adds), .c = c,
                                 .a = a, .b = b, .scratch = scratch };
}

void products_add(struct products *p, size_t which, size_t rows, float *c, const void *a,
                  const void *b, void *scratch)
{
    struct matmul_call call = products_gradient(p, which, rows, 1, c, a, b, scratch);

    matmul_call_run(&call);
}
