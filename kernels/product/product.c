/* product.c: computes a product task by task (turns.h). The depth has two levels. A panel is the
 * part of the depth that is packed at a time; few products have more than one. A piece is the part
 * of a panel that a block is multiplied over at a time, so that strips stay in caches.
 * Sums wait in fp32 between pieces, in the task's own memory, and between panels in C or, if C has
 * no room for them, in scratch. */
#include "kernels/product/product.h"

#include "data/base/round.h"
#include "kernels/product/turns.h"
#include "kernels/simd.h"

#include <assert.h>
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>

enum { LINE = 64 };

/* How many parts of the first panel are not packed yet. */
struct packing { _Alignas(LINE) _Atomic size_t left; };

/* ---- plan ---- */

static size_t strips_of(const struct strips *s, size_t block)
{
    return round_up(s->n, block) / s->lanes;
}

static void plan_operands(struct product *p)
{
    const struct matmul_shape *s = &p->s;
    const struct block_form   *f = p->form;

    p->a = (struct strips){ s->m, s->k, s->form != MATMUL_TN, s->ab_dt, f->dt, f->left, f->tiled,
                            s->tiled_a && s->form == MATMUL_TN };
    p->b = (struct strips){ s->n, s->k, s->form == MATMUL_NT, s->ab_dt, f->dt, f->right, 0, 0 };
    p->words = strips_words(&p->a);
}

/* Words of the depth whose sums are added to C before the next ones are begun. */
static size_t fold_words(const struct product *p)
{
    size_t fold = p->s.fold / (p->form->dt == DT_F32 ? 1 : 2);

    assert(fold % WORD_UNIT == 0 && (!p->s.fold || p->s.c_dt == DT_F32));
    return fold && fold < p->words ? fold : p->words;
}

/* The largest half, quarter, ... of a fold that is a multiple of WORD_UNIT and at most `most`, or
 * the smallest that there is. */
static size_t part_of(size_t fold, size_t most)
{
    while (fold > most && fold % (2 * WORD_UNIT) == 0)
        fold /= 2;
    return fold;
}

/* A task packs lanes of the longer operand itself, and reads lanes of the other one, which all
 * threads have packed. If B was packed before, A is the task's own; otherwise, if A lies in tiles
 * that are its strips, B is. */
static void plan_depth(struct product *p)
{
    const struct cuts *cut = &p->cuts;
    size_t most = cut->deep;

    int strips = p->s.tiled_a && p->s.form != MATMUL_TN;

    p->own_b = !p->s.pack_b && (strips || p->s.n > p->s.m);
    p->ready = p->own_b ? strips : p->s.pack_b;
    p->own_ready = strips && !p->own_b;
    if (p->own_ready) // more of them are read by turns than a cache holds beside the others
        most = size_min(most, cut->own / (2 * cut->least));
    if (!p->s.pack_b)
        most = size_min(most, cut->shared / size_min(p->s.m, p->s.n));
    most = size_max(most / WORD_UNIT * WORD_UNIT, WORD_UNIT);
    p->fold = fold_words(p);
    p->panel = p->fold < p->words
                   ? size_min(p->words, most / p->fold * p->fold)
                   : round_up(div_up(p->words, div_up(p->words, most)), WORD_UNIT);
    if (!p->panel) // less than a fold
        p->panel = part_of(p->fold, most);
    p->piece = p->fold < p->words
                   ? part_of(size_min(p->fold, p->panel), cut->piece)
                   : round_up(div_up(p->panel, div_up(p->panel, cut->piece)), WORD_UNIT);
    p->one = p->piece == p->fold || p->piece >= p->panel;
}

/* Tasks of the same own lanes follow each other, so that a thread packs these once. */
static void plan_tasks(struct product *p)
{
    const struct block_form *f = p->form;
    const struct cuts       *cut = &p->cuts;
    size_t m = round_up(p->s.m, f->rows), n = round_up(p->s.n, f->cols);
    size_t unit = p->own_b ? f->cols : f->rows, step = p->own_b ? f->rows : f->cols;
    size_t longer = p->own_b ? n : m, other = p->own_b ? m : n;
    size_t threads = (size_t)p->threads, own, wide, parts;

    own = size_max(size_min(longer / (2 * threads), cut->most), cut->least);
    own = size_min(own, cut->own / p->panel);
    own = size_min(size_max(own / unit, 1) * unit, longer);
    wide = size_min(other * div_up(longer, own) / (cut->turns * threads), cut->wide);
    parts = div_up(other, size_max(wide / step, 1) * step);
    wide = round_up(div_up(other, parts), step);
    p->rows = p->own_b ? wide : own;
    p->cols = p->own_b ? own : wide;
    p->parts = div_up(other, wide);
    p->tasks = p->parts * div_up(longer, own);
    assert(p->tasks <= UINT32_MAX); // struct turns
}

static size_t lay(size_t *at, size_t bytes)
{
    size_t here = *at;

    *at += round_up(bytes, LINE);
    return here;
}

/* Sums wait between panels in C, if nothing else stands there. */
static int waits_in_c(const struct product *p)
{
    return p->s.c_dt == DT_F32 && !p->s.accumulate && p->fold >= p->words;
}

/* How many lists of tasks a thread has: one for each panel, or two that panels use by turns. */
static size_t lists_of(const struct product *p) { return p->ready ? p->panels : 2; }

static void plan_scratch(struct product *p)
{
    const struct block_form *f = p->form;
    size_t at = 0, block = f->rows * f->cols, threads = (size_t)p->threads;

    p->panels = div_up(p->words, p->panel);
    if (!p->ready)
        lay(&at, (p->own_b ? strips_of(&p->a, f->rows) * f->left
                           : strips_of(&p->b, f->cols) * f->right) * p->panel * sizeof(word));
    p->panel_bytes = at;
    lay(&at, p->panels > 1 ? p->panel_bytes : 0);
    p->sums_at = lay(&at, p->panel < p->fold && !waits_in_c(p) ? p->s.m * p->s.n * sizeof(float)
                                                               : 0);
    p->turns_at = lay(&at, lists_of(p) * threads * sizeof(struct turns));
    p->packing_at = lay(&at, sizeof(struct packing));
    p->done_at = lay(&at, p->ready ? p->tasks * sizeof(_Atomic size_t) : 0);
    p->own_at = at;
    at = 0;
    lay(&at, (p->own_ready ? 0 : p->own_b ? p->cols : p->rows) * p->panel * sizeof(word));
    p->block_at = lay(&at, (p->one ? 2 * block : p->rows * p->cols) * sizeof(float));
    p->own_bytes = round_up(at, 4096);
    p->scratch_bytes = p->own_at + threads * p->own_bytes;
}

void product_plan(struct product *p, const struct matmul_shape *s, int threads,
                  const struct block_form *form, const struct cuts *cuts)
{
    form = form ? form : block_form_of(s->ab_dt);
    *p = (struct product){ .s = *s, .form = form, .threads = threads,
                           .cuts = cuts ? *cuts : form->cuts };
    p->s.tiled_a = s->tiled_a && form->tiled && s->ab_dt == DT_BF16;
    plan_operands(p);
    plan_depth(p);
    plan_tasks(p);
    plan_scratch(p);
}

/* ---- packing by all threads ---- */

/* How all threads pack an operand: by parts of `wide` strips and `deep` words. */
struct split { size_t strips, wide, deep, along, parts; };

static struct split split_of(const struct strips *s, size_t block, size_t words)
{
    struct split x = { strips_of(s, block), s->along ? 64 / s->lanes : 256 / s->lanes,
                       s->along ? 128 : 32, 0, 0 };

    x.along = div_up(words, x.deep);
    x.parts = div_up(x.strips, x.wide) * x.along;
    return x;
}

/* Packs words of all strips of an operand. All threads of a parallel region call this together;
 * none waits for the others. packing: counts what is left; NULL: nobody asks. */
static void pack_shared(word *out, const struct strips *s, size_t block, const void *x,
                        struct range words, struct packing *packing)
{
    size_t       length = words.to - words.from, next = length * s->lanes;
    struct split by = split_of(s, block, length);

    #pragma omp for schedule(dynamic) nowait
    for (size_t i = 0; i < by.parts; i++) {
        size_t strip = i / by.along * by.wide, w = i % by.along * by.deep;

        strips_pack(out + strip * next + w * s->lanes, next, s, x,
                    (struct range){ strip, size_min(strip + by.wide, by.strips) },
                    (struct range){ words.from + w, words.from + size_min(w + by.deep, length) });
        if (packing)
            atomic_fetch_sub_explicit(&packing->left, 1, memory_order_release);
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
    pack_shared(packed, &p->b, p->form->cols, b, (struct range){ 0, p->words }, NULL);
}

/* ---- results ---- */

/* A block of C: where, and how much of it there is. */
struct part { size_t i, j, rows, cols; };

/* The sums of a block that is done, on their way to C row by row, beside the next block. With each
 * row, a row of C that the next block will write is asked for: for many lines at once the unit's
 * own loads would wait. */
struct result {
    struct aside aside; // must be first
    const struct matmul_shape *s;
    const float *sums; // the next row
    size_t       step, cols; // floats from row to row; of C
    int          adds;       // to what stands in C
    char        *c;
    const void  *bias;
    const char  *coming; // the next block's row, or NULL
};

struct call { // product_run's arguments, and what a thread has not written yet
    void       *c;
    const void *a, *b, *bias;
    char       *scratch;
    struct result result;
    size_t        turn; // which of the two places of sums is the next block's
};

SIMD_INLINE void row_put(const struct result *r, const size_t n)
{
    const float *restrict sums = r->sums, *bias = r->bias;
    const bf16           *low = r->bias;
    float *restrict       c = (float *)(void *)r->c;
    bf16 *restrict        rounded = (bf16 *)(void *)r->c;

    if (r->adds)
        for (size_t j = 0; j < n; j++)
            c[j] += sums[j];
    else if (r->s->c_dt == DT_BF16)
        for (size_t j = 0; j < n; j++)
            rounded[j] = bf16_from_f32(sums[j] + (low ? bf16_to_f32(low[j]) : 0.0f));
    else if (r->s->ab_dt == DT_BF16)
        for (size_t j = 0; j < n; j++)
            c[j] = sums[j] + (low ? bf16_to_f32(low[j]) : 0.0f);
    else
        for (size_t j = 0; j < n; j++)
            c[j] = sums[j] + (bias ? bias[j] : 0.0f);
}

/* Writes a row of a block to C. */
SIMD_CLONES static void result_next(struct aside *aside)
{
    enum { USUAL = 32 }; // columns of an AMX block
    struct result *r = (struct result *)(void *)aside;
    const size_t   bytes = dtype_bytes(r->s->c_dt);

    for (size_t i = 0; i < r->cols * bytes && r->coming; i += LINE)
        __builtin_prefetch(r->coming + i, 1);
    r->coming += r->coming ? r->s->n * bytes : 0;
    if (r->cols == USUAL)
        row_put(r, USUAL);
    else
        row_put(r, r->cols);
    r->sums += r->step;
    r->c += r->s->n * bytes;
    r->aside.left--;
}

static void result_finish(struct call *call)
{
    while (call->result.aside.left > 0)
        result_next(&call->result.aside);
}

/* The place of a block in C. */
static char *place(const struct product *p, const struct call *call, struct part at)
{
    return (char *)call->c + (at.i * p->s.n + at.j) * dtype_bytes(p->s.c_dt);
}

static void result_begin(const struct product *p, struct call *call, struct part at,
                         const float *sums, int adds)
{
    call->result = (struct result){
        { result_next, at.rows }, &p->s, sums, p->form->cols, at.cols, adds, place(p, call, at),
        call->bias ? dtype_at(call->bias, p->s.ab_dt, at.j) : NULL, NULL };
}

/* Panels are in two places by turns. */
static char *panel_at(const struct product *p, const struct call *call, struct range all)
{
    return call->scratch + all.from / p->panel % 2 * p->panel_bytes;
}

/* Where sums wait between panels. */
static float *waiting(const struct product *p, const struct call *call, struct part at)
{
    float *all = waits_in_c(p) ? call->c : (float *)(void *)(call->scratch + p->sums_at);

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

/* ---- a task ---- */

struct placed { const word *at; size_t next; }; // strips: the first, and the distance to the next

struct task { size_t i, j, rows, cols; }; // of C, whole blocks

static struct task task_at(const struct product *p, size_t own, size_t part)
{
    struct task t = { (p->own_b ? part : own) * p->rows, (p->own_b ? own : part) * p->cols, 0, 0 };

    t.rows = size_min(p->rows, round_up(p->s.m, p->form->rows) - t.i);
    t.cols = size_min(p->cols, round_up(p->s.n, p->form->cols) - t.j);
    return t;
}

/* A piece of a task's depth, in a panel. */
struct piece {
    struct range all, words; // the panel's and the piece's
    struct placed mine;      // the task's own strips: first words of the piece
};

static int ends_fold(const struct product *p, size_t at)
{
    return at % p->fold == 0 || at == p->words;
}

static void block_run(const struct product *p, struct call *call, struct part at,
                      const struct piece *x, struct placed a, struct placed b, float *sums)
{
    int fresh = x->words.from % p->fold == 0, done = ends_fold(p, x->words.to);

    call->result.coming = done ? place(p, call, at) : NULL;
    if (x->words.from == x->all.from && !fresh)
        sums_take(p, sums, at, waiting(p, call, at));
    p->form->multiply(&(struct block){
        .sums = sums, .a = a.at, .b = b.at, .a_next = a.next, .b_next = b.next,
        .words = x->words.to - x->words.from, .fresh = fresh,
        .asks_a = p->own_b, .ahead = p->cuts.ahead, .aside = &call->result.aside });
    result_finish(call);
    if (done)
        result_begin(p, call, at, sums, p->s.accumulate || x->words.from >= p->fold);
    else if (x->words.to == x->all.to)
        sums_keep(p, waiting(p, call, at), at, sums);
}

/* Multiplies all own strips by those of one block of the other operand. sums: of these blocks, or
 * with p->one, two places for one by turns. */
static void lane_multiply(const struct product *p, struct call *call, struct task t,
                          const struct piece *x, struct placed other, size_t lane, float *sums)
{
    const struct block_form *f = p->form;
    size_t lanes = p->own_b ? t.cols : t.rows, step = p->own_b ? f->cols : f->rows;
    size_t of_strip = p->own_b ? f->right : f->left;
    size_t block = f->rows * f->cols;

    for (size_t l = 0; l < lanes; l += step) {
        struct placed own = { x->mine.at + l / of_strip * x->mine.next, x->mine.next };
        struct part   at = { t.i + (p->own_b ? lane : l), t.j + (p->own_b ? l : lane), 0, 0 };

        at.rows = size_min(f->rows, p->s.m - at.i);
        at.cols = size_min(f->cols, p->s.n - at.j);
        block_run(p, call, at, x, p->own_b ? other : own, p->own_b ? own : other,
                  p->one ? sums + call->turn * block : sums + l / step * block);
        call->turn ^= 1;
    }
}

/* Strips of an operand that came packed over all of the depth. */
static struct placed come_at(const struct product *p, const void *x, const struct strips *s,
                             size_t lane, struct range all)
{
    return (struct placed){ (const word *)x + lane * p->words + all.from * s->lanes,
                            p->words * s->lanes };
}

/* The first strips that a task shares with others. */
static struct placed shared(const struct product *p, const struct call *call, struct task t,
                            struct range all)
{
    const struct strips *s = p->own_b ? &p->a : &p->b;
    const word          *panel = (const word *)(const void *)panel_at(p, call, all);
    size_t               words = all.to - all.from, lane = p->own_b ? t.i : t.j;

    if (p->ready)
        return come_at(p, p->own_b ? call->a : call->b, s, lane, all);
    return (struct placed){ panel + lane * words, words * s->lanes };
}

static struct packing *packing_of(const struct product *p, const struct call *call)
{
    return (struct packing *)(void *)(call->scratch + p->packing_at);
}

/* How many panels of a task are done, if the shared operand comes packed. */
static _Atomic size_t *done_of(const struct product *p, const struct call *call, size_t task)
{
    return (_Atomic size_t *)(void *)(call->scratch + p->done_at) + task;
}

/* Waits until other threads set *count to `value`. A barrier would also wait for threads that have
 * not begun. */
static void wait_for(const _Atomic size_t *count, size_t value)
{
    enum { SPINS = 4096 };

    for (unsigned i = 1; atomic_load_explicit(count, memory_order_acquire) != value; i++)
        if (i % SPINS)
            __builtin_ia32_pause();
        else
            sched_yield();
}

/* Computes a panel of a task. `packs`: its own strips are not those of the thread's task before. */
static void task_run(const struct product *p, struct call *call, size_t task, struct range all,
                     int packs)
{
    struct task t = task_at(p, task / p->parts, task % p->parts);
    const struct strips *s = p->own_b ? &p->b : &p->a, *others = p->own_b ? &p->a : &p->b;
    char  *mine = call->scratch + p->own_at + (size_t)omp_get_thread_num() * p->own_bytes;
    size_t lane = p->own_b ? t.j : t.i, lanes = p->own_b ? t.cols : t.rows;
    size_t wide = p->own_b ? t.rows : t.cols, step = p->own_b ? p->form->rows : p->form->cols;
    struct placed own = { (const word *)(void *)mine, (all.to - all.from) * s->lanes };
    struct placed other = shared(p, call, t, all);

    if (p->own_ready)
        own = come_at(p, call->a, s, lane, all);
    else if (packs)
        strips_pack((word *)(void *)mine, own.next, s, p->own_b ? call->b : call->a,
                    (struct range){ lane / s->lanes, (lane + lanes) / s->lanes }, all);
    wait_for(&packing_of(p, call)->left, 0);
    if (p->ready)
        wait_for(done_of(p, call, task), all.from / p->panel);
    for (size_t k = all.from; k < all.to; k += p->piece) {
        size_t off = k - all.from;
        struct piece x = { all, { k, size_min(k + p->piece, all.to) },
                           { own.at + off * s->lanes, own.next } };
        float *sums = (float *)(void *)(mine + p->block_at);

        for (size_t l = 0; l < wide; l += step) {
            struct placed at = { other.at + l / others->lanes * other.next + off * others->lanes,
                                 other.next };

            lane_multiply(p, call, t, &x, at, l, sums);
            sums += p->one ? 0 : lanes * step;
        }
        if (!p->one && ends_fold(p, x.words.to)) // the next sums take these one's place
            result_finish(call);
    }
    if (p->ready && all.to < p->words) {
        result_finish(call);
        atomic_store_explicit(done_of(p, call, task), all.from / p->panel + 1,
                              memory_order_release);
    }
}

/* ---- who computes which task ---- */

/* Computes tasks until nobody has any left. */
static void turns_run(const struct product *p, struct call *call, struct range all,
                      struct turns *turns)
{
    size_t me = (size_t)omp_get_thread_num(), from = me, packed = SIZE_MAX;

    for (size_t task; turns_take(turns, (size_t)p->threads, me, &from, &task);) {
        size_t own = task / p->parts;

        task_run(p, call, task, all, own != packed);
        packed = own;
    }
    result_finish(call);
}

/* ---- the product: all threads call these functions together ---- */

static void panel_pack(const struct product *p, const struct call *call, struct range all)
{
    if (!p->ready)
        pack_shared((word *)(void *)panel_at(p, call, all), p->own_b ? &p->a : &p->b,
                    p->own_b ? p->form->rows : p->form->cols, p->own_b ? call->a : call->b, all,
                    all.from > 0 ? NULL : packing_of(p, call));
}

/* Parts of the first panel. */
static size_t shared_parts(const struct product *p)
{
    return split_of(p->own_b ? &p->a : &p->b, p->own_b ? p->form->rows : p->form->cols,
                    p->panel).parts;
}

static struct range panel_of(const struct product *p, size_t k)
{
    return (struct range){ size_min(k, p->words), size_min(k + p->panel, p->words) };
}

static struct turns *turns_of(const struct product *p, const struct call *call, size_t panel)
{
    struct turns *all = (struct turns *)(void *)(call->scratch + p->turns_at);

    return all + panel % lists_of(p) * (size_t)p->threads;
}

/* Threads that find no task of a panel any more pack the next one. Between two barriers, tasks are
 * taken from one of two lists, and the other is made for the next panel. Where nothing is to be
 * packed, threads go on with the next panel; a task waits until its own previous panel is
 * done. */
static void panels_run(const struct product *p, struct call *call)
{
    panel_pack(p, call, panel_of(p, 0));
    for (size_t k = 0, i = 0; k < p->words; k += p->panel, i++) {
        if (i > 0 && !p->ready) {
            #pragma omp barrier
        }
        turns_run(p, call, panel_of(p, k), turns_of(p, call, i));
        if (k + p->panel < p->words && !p->ready) {
            #pragma omp single nowait
            turns_set(turns_of(p, call, i + 1), p->tasks, (size_t)p->threads);
            panel_pack(p, call, panel_of(p, k + p->panel));
        }
    }
}

void product_begin(const struct product *p, void *scratch)
{
    struct call call = { .scratch = scratch };

    for (size_t i = 0; i < (p->ready ? p->panels : 1); i++)
        turns_set(turns_of(p, &call, i), p->tasks, (size_t)p->threads);
    for (size_t i = 0; p->ready && i < p->tasks; i++)
        atomic_init(done_of(p, &call, i), 0);
    atomic_store(&packing_of(p, &call)->left, p->ready ? 0 : shared_parts(p));
}

void product_join(const struct product *p, void *c, const void *a, const void *b,
                  const void *bias, void *scratch)
{
    struct call call = { c, a, b, bias, scratch, .turn = 0 };

    assert(omp_get_num_threads() <= p->threads); // of scratch
    if (p->form->begin)
        p->form->begin();
    panels_run(p, &call);
    if (p->form->end)
        p->form->end();
}

void product_run(const struct product *p, void *c, const void *a, const void *b, const void *bias,
                 void *scratch)
{
    product_begin(p, scratch);
    #pragma omp parallel
    product_join(p, c, a, b, bias, scratch);
}
