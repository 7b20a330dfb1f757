/* product.c: computes a product task by task. The depth has two levels. A panel is what of the
 * operands is packed before tasks begin; few products have more than one. A piece is what a task
 * goes through at a time, so that its strips stay in caches. Sums wait in fp32 between pieces, in
 * the task's own memory, and between panels in C or, if C has no room for them, in scratch. */
#include "kernels/product/product.h"

#include "data/base/round.h"
#include "kernels/simd.h"

#include <omp.h>

enum { LINE = 64 };

/* ---- plan ---- */

static size_t strips_of(const struct strips *s, size_t block)
{
    return round_up(s->n, block) / s->lanes;
}

static void plan_operands(struct product *p)
{
    const struct matmul_shape *s = &p->s;
    const struct block_form   *f = p->form;

    p->a = (struct strips){ s->m, s->k, s->form != MATMUL_TN, s->ab_dt, f->dt, f->left, f->tiled };
    p->b = (struct strips){ s->n, s->k, s->form == MATMUL_NT, s->ab_dt, f->dt, f->right, 0 };
    p->words = strips_words(&p->a);
}

static size_t tasks(const struct product *p)
{
    return div_up(p->s.m, p->cuts.rows) * div_up(p->s.n, p->cuts.cols);
}

/* Makes tasks smaller until all threads have their turns. */
static void tasks_halve(struct product *p, size_t least_rows, size_t least_cols)
{
    struct cuts *cut = &p->cuts;
    size_t       turns = cut->turns * (size_t)p->threads;

    while (tasks(p) < turns) {
        int rows = cut->rows > least_rows, cols = cut->cols > least_cols;

        if (rows && (!cols || cut->rows >= cut->cols))
            cut->rows = round_up(cut->rows / 2, p->form->rows);
        else if (cols)
            cut->cols = round_up(cut->cols / 2, p->form->cols);
        else
            return;
    }
}

/* Chooses who packs, and the size of tasks. What all threads pack lies in the caches of other
 * cores, from where it comes slowly. So a task packs the longer operand itself if it can span the
 * shorter one and there are enough tasks; and it packs A itself if B was packed before. */
static void plan_tasks(struct product *p)
{
    const struct block_form *f = p->form;
    struct cuts             *cut = &p->cuts;
    size_t m = round_up(p->s.m, f->rows), n = round_up(p->s.n, f->cols);
    size_t lanes = cut->lanes, turns = cut->turns * (size_t)p->threads;

    while (size_max(m, n) / lanes < turns + turns / 2 && lanes > f->rows)
        lanes /= 2;
    p->own_a = p->s.pack_b || (m >= n && m / lanes >= turns);
    p->own_b = !p->own_a && n > m && n / lanes >= turns;
    if (p->own_a)
        cut->rows = p->s.pack_b ? cut->tall : lanes, cut->cols = p->s.pack_b ? cut->wide : n;
    if (p->own_b)
        cut->rows = m, cut->cols = lanes;
    cut->rows = size_min(round_up(cut->rows, f->rows), m);
    cut->cols = size_min(round_up(cut->cols, f->cols), n);
    if (p->s.pack_b)
        tasks_halve(p, m, size_max(4 * cut->tall, f->cols)); // narrower ones pack A too often
    else if (!p->own_a && !p->own_b)
        tasks_halve(p, f->rows, f->cols);
}

static void plan_depth(struct product *p)
{
    size_t pieces = div_up(p->words, p->cuts.depth), depth = div_up(p->words, pieces);
    size_t whole = (p->own_a ? 0 : p->s.m) + (p->own_b || p->s.pack_b ? 0 : p->s.n);

    depth = round_up(depth, WORD_UNIT);
    p->cuts.depth = depth;
    p->panel = size_max(p->cuts.whole / size_max(whole, 1) / depth, 1) * depth;
    if (p->panel >= p->words || whole == 0)
        p->panel = p->words;
}

static size_t lay(size_t *at, size_t bytes)
{
    size_t here = *at;

    *at += round_up(bytes, LINE);
    return here;
}

static void plan_scratch(struct product *p)
{
    const struct block_form *f = p->form;
    const struct cuts       *cut = &p->cuts;
    size_t at = 0, own, block = f->rows * f->cols * sizeof(float);
    int    in_c = p->s.c_dt == DT_F32 && !p->s.accumulate, panels = p->panel < p->words ? 2 : 1;

    lay(&at, p->own_a ? 0 : strips_of(&p->a, f->rows) * f->left * p->panel * sizeof(word));
    p->b_at = lay(&at, p->own_b || p->s.pack_b
                           ? 0
                           : strips_of(&p->b, f->cols) * f->right * p->panel * sizeof(word));
    p->panel_bytes = at;
    lay(&at, (size_t)(panels - 1) * p->panel_bytes);
    p->sums_at = lay(&at, p->panel < p->words && !in_c ? p->s.m * p->s.n * sizeof(float) : 0);
    p->own_at = at;
    own = p->own_a ? cut->rows : p->own_b ? cut->cols : 0;
    own = own * cut->depth * sizeof(word) +
          (cut->depth < p->panel ? cut->rows * cut->cols / (f->rows * f->cols) : 1) * block;
    p->own_bytes = round_up(own, 4096);
    p->scratch_bytes = at + (size_t)p->threads * p->own_bytes;
}

void product_plan(struct product *p, const struct matmul_shape *s, int threads,
                  const struct block_form *form, const struct cuts *cuts)
{
    form = form ? form : block_form_of(s->ab_dt);
    *p = (struct product){ .s = *s, .form = form, .threads = threads,
                           .cuts = cuts ? *cuts : form->cuts };
    plan_operands(p);
    plan_tasks(p);
    plan_depth(p);
    plan_scratch(p);
}

/* ---- packing by all threads ---- */

/* Packs words of all strips of an operand. All threads of a parallel region call this together;
 * none waits for the others. */
static void pack_shared(word *out, const struct strips *s, size_t strips, const void *x,
                        struct range words)
{
    size_t wide = s->along ? 64 / s->lanes : 256 / s->lanes, deep = s->along ? 128 : 32;
    size_t across = div_up(strips, wide), length = words.to - words.from,
           along = div_up(length, deep), next = length * s->lanes;

    #pragma omp for schedule(dynamic) nowait
    for (size_t u = 0; u < across * along; u++) {
        size_t strip = u / along * wide, w = u % along * deep;

        strips_pack(out + strip * next + w * s->lanes, next, s, x,
                    (struct range){ strip, size_min(strip + wide, strips) },
                    (struct range){ words.from + w, words.from + size_min(w + deep, length) });
    }
}

size_t product_packed(const struct product *p)
{
    return round_up(strips_of(&p->b, p->form->cols) * p->form->right * p->words * sizeof(word),
                    LINE);
}

void product_pack(const struct product *p, void *packed, const void *b)
{
    #pragma omp parallel
    pack_shared(packed, &p->b, strips_of(&p->b, p->form->cols), b, (struct range){ 0, p->words });
}

/* ---- a task ---- */

struct call { // product_run's arguments
    void       *c;
    const void *a, *b, *bias;
    char       *scratch;
};

/* Panels are in two places by turns. */
static char *panel_at(const struct product *p, const struct call *call, struct range all)
{
    return call->scratch + all.from / p->panel % 2 * p->panel_bytes;
}

struct placed { const word *at; size_t next; }; // strips: the first, and the distance to the next

/* A block of C: where, and how much of it there is. */
struct part { size_t i, j, rows, cols; };

/* Writes a block's sums to C. */
SIMD_CLONES static void put(const struct product *p, const struct call *call, struct part at,
                            const float *restrict sums)
{
    const size_t ld = p->form->cols, n = at.cols;
    float        bias[MOST_BLOCK];

    for (size_t j = 0; j < n; j++)
        bias[j] = call->bias ? dtype_get(call->bias, p->s.ab_dt, at.j + j) : 0.0f;
    for (size_t i = 0; i < at.rows; i++, sums += ld) {
        size_t first = (at.i + i) * p->s.n + at.j;

        if (p->s.c_dt == DT_BF16) {
            bf16 *c = (bf16 *)call->c + first;

            for (size_t j = 0; j < n; j++)
                c[j] = bf16_from_f32(sums[j] + bias[j]);
        } else {
            float *c = (float *)call->c + first;

            if (p->s.accumulate)
                for (size_t j = 0; j < n; j++)
                    c[j] += sums[j];
            else
                for (size_t j = 0; j < n; j++)
                    c[j] = sums[j] + bias[j];
        }
    }
}

/* Asks for the lines of C that put writes, while the block is computed. */
static void ask(const struct product *p, const struct call *call, struct part at)
{
    size_t bytes = dtype_bytes(p->s.c_dt), step = LINE / bytes;

    for (size_t i = 0; i < at.rows; i++) {
        const char *c = (char *)call->c + ((at.i + i) * p->s.n + at.j) * bytes;

        for (size_t j = 0; j < at.cols; j += step)
            __builtin_prefetch(c + j * bytes, 1);
    }
}

/* Where sums wait between panels. */
static float *waiting(const struct product *p, const struct call *call, struct part at)
{
    float *all = p->s.c_dt == DT_F32 && !p->s.accumulate
                     ? call->c
                     : (float *)(void *)(call->scratch + p->sums_at);

    return all + at.i * p->s.n + at.j;
}

static void sums_keep(const struct product *p, float *wait, struct part at, const float *sums)
{
    for (size_t i = 0; i < at.rows; i++)
        memcpy(wait + i * p->s.n, sums + i * p->form->cols, at.cols * sizeof *sums);
}

static void sums_take(const struct product *p, float *sums, struct part at, const float *wait)
{
    memset(sums, 0, p->form->rows * p->form->cols * sizeof *sums);
    for (size_t i = 0; i < at.rows; i++)
        memcpy(sums + i * p->form->cols, wait + i * p->s.n, at.cols * sizeof *sums);
}

struct task { size_t i, j, rows, cols; }; // of C, whole blocks

/* Multiplies a piece of a task's depth. `all` is the panel. sums: of all blocks of the task, or if
 * the piece is the panel, room for one. */
static void piece_multiply(const struct product *p, const struct call *call, struct task t,
                           struct placed a, struct placed b, float *sums, struct range all,
                           struct range piece)
{
    const struct block_form *f = p->form;
    int    one = piece.from == all.from && piece.to == all.to;

    for (size_t j = 0; j < t.cols; j += f->cols)
        for (size_t i = 0; i < t.rows; i += f->rows) {
            struct part at = { t.i + i, t.j + j, size_min(f->rows, p->s.m - t.i - i),
                               size_min(f->cols, p->s.n - t.j - j) };

            if (piece.to == p->words)
                ask(p, call, at);
            if (piece.from == all.from && all.from > 0)
                sums_take(p, sums, at, waiting(p, call, at));
            f->multiply(&(struct block){
                .sums = sums, .a = a.at + i / f->left * a.next, .b = b.at + j / f->right * b.next,
                .a_next = a.next, .b_next = b.next, .words = piece.to - piece.from,
                .fresh = piece.from == 0, .ahead = p->cuts.ahead });
            if (piece.to == p->words)
                put(p, call, at, sums);
            else if (piece.to == all.to)
                sums_keep(p, waiting(p, call, at), at, sums);
            sums += one ? 0 : f->rows * f->cols;
        }
}

/* An operand's strips for a piece of a task: packed here into `own`, or those of the panel. */
static struct placed operand(const struct strips *s, const void *x, word *own, const word *packed,
                             size_t lane, size_t lanes, struct range all, struct range piece)
{
    size_t strip = lane / s->lanes, words = own ? piece.to - piece.from : all.to - all.from,
           next = words * s->lanes;

    if (!own)
        return (struct placed){ packed + strip * next + (piece.from - all.from) * s->lanes, next };
    strips_pack(own, next, s, x, (struct range){ strip, strip + lanes / s->lanes }, piece);
    return (struct placed){ own, next };
}

static void task_run(const struct product *p, const struct call *call, struct task t,
                     struct range all)
{
    char *own = call->scratch + p->own_at + (size_t)omp_get_thread_num() * p->own_bytes;
    size_t own_lanes = p->own_a ? p->cuts.rows : p->own_b ? p->cuts.cols : 0;
    word  *strips = (word *)(void *)own;
    float *sums = (float *)(strips + own_lanes * p->cuts.depth);
    const char  *panel = panel_at(p, call, all);
    const void  *whole_b = p->s.pack_b ? call->b : panel + p->b_at;
    struct range all_b = p->s.pack_b ? (struct range){ 0, p->words } : all;

    for (size_t k = all.from; k < all.to; k += p->cuts.depth) {
        struct range  piece = { k, size_min(k + p->cuts.depth, all.to) };
        struct placed a = operand(&p->a, call->a, p->own_a ? strips : NULL,
                                  (const void *)panel, t.i, t.rows, all, piece);
        struct placed b = operand(&p->b, call->b, p->own_b ? strips : NULL, whole_b, t.j, t.cols,
                                  all_b, piece);

        piece_multiply(p, call, t, a, b, sums, all, piece);
    }
}

/* ---- the product: all threads call these functions together ---- */

static void panel_pack(const struct product *p, const struct call *call, struct range all)
{
    char *panel = panel_at(p, call, all);

    if (!p->own_a)
        pack_shared((word *)(void *)panel, &p->a, strips_of(&p->a, p->form->rows), call->a, all);
    if (!p->own_b && !p->s.pack_b)
        pack_shared((word *)(void *)(panel + p->b_at), &p->b, strips_of(&p->b, p->form->cols),
                    call->b, all);
}

static void panel_run(const struct product *p, const struct call *call, struct range all)
{
    size_t across = div_up(p->s.n, p->cuts.cols), m = round_up(p->s.m, p->form->rows),
           n = round_up(p->s.n, p->form->cols);

    #pragma omp for schedule(dynamic) nowait
    for (size_t u = 0; u < tasks(p); u++) {
        size_t i = u / across * p->cuts.rows, j = u % across * p->cuts.cols;

        task_run(p, call, (struct task){ i, j, size_min(p->cuts.rows, m - i),
                                         size_min(p->cuts.cols, n - j) }, all);
    }
}

static struct range panel_of(const struct product *p, size_t k)
{
    return (struct range){ size_min(k, p->words), size_min(k + p->panel, p->words) };
}

/* Threads that find no task of a panel any more pack the next one. */
static void panels_run(const struct product *p, const struct call *call)
{
    int shares = !p->own_a || (!p->own_b && !p->s.pack_b);

    if (shares)
        panel_pack(p, call, panel_of(p, 0));
    for (size_t k = 0; k < p->words; k += p->panel) {
        if (shares) {
            #pragma omp barrier
        }
        panel_run(p, call, panel_of(p, k));
        if (k + p->panel < p->words)
            panel_pack(p, call, panel_of(p, k + p->panel));
    }
}

void product_run(const struct product *p, void *c, const void *a, const void *b, const void *bias,
                 void *scratch)
{
    struct call call = { c, a, b, bias, scratch };

    #pragma omp parallel
    {
        if (p->form->begin)
            p->form->begin();
        panels_run(p, &call);
        if (p->form->end)
            p->form->end();
    }
}
