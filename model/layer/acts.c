/* acts.c: lays out the arena of activations, and says where each of its arrays stands. Each group
 * of buffers has one function that takes them from the arena, one after the other. Run without
 * memory, it computes their size. Run with memory, it sets the pointers. Plan and arena therefore
 * cannot disagree. */
#include "model/layer/acts.h"

#include "data/base/round.h"
#include "kernels/attention/attention.h"
#include "kernels/elementwise.h"
#include "kernels/product/matvec.h"
#include "kernels/tiled.h"

#include <assert.h>
#include <omp.h>

static size_t tokens(const struct model_options *o) { return o->batch * o->seq; }

/* The most tokens of a layer's chunk, and of the head's. */
static size_t at_once(const struct model_options *o)
{
    return size_min(tokens(o), products_at_once(o, CHUNK_ROWS));
}
static size_t head_at_once(const struct model_options *o)
{
    return size_min(products_head_rows(o), products_at_once(o, HEAD_ROWS));
}

static const struct arch_array *arrays_of(const struct model_options *o, enum acts_part part)
{
    static const struct arch_array input[ARCH_ARRAYS] = { { DIM_WIDTH, 1 } };

    return part == ACTS_INPUT ? input : o->config.arch->arrays[part];
}

static int is_array(const struct model_options *o, enum acts_part part, size_t array)
{
    return array < ARCH_ARRAYS && arrays_of(o, part)[array].cols != DIM_NONE;
}

size_t acts_row_bytes(const struct model_options *o, enum acts_part part, size_t array)
{
    const struct arch_array *of = arrays_of(o, part) + array;

    return arch_dim(&o->config, of->cols) * (of->fp32 ? sizeof(float) : dtype_bytes(o->dtype));
}

void acts_lay(struct arena *a, struct acts_set *s, const struct model_options *o,
              enum acts_part part, size_t N)
{
    for (size_t i = 0; is_array(o, part, i); i++)
        s->at[i] = arena_take(a, N * acts_row_bytes(o, part, i));
}

void acts_lay_rope(struct arena *a, struct acts_work *w, const struct model_config *g, size_t T)
{
    size_t bytes = T * g->rope.D * sizeof(float);

    w->rope = bytes ? arena_take(a, bytes) : NULL;
    w->rope_local = bytes && g->global_every ? arena_take(a, bytes) : NULL;
}

void acts_fill_rope(struct acts_work *w, const struct model_config *g, size_t T)
{
    struct rope local = { .D = g->rope.D, .theta = g->theta_local };

    if (w->rope)
        rope_table(w->rope, &g->rope, T);
    if (w->rope_local)
        rope_table(w->rope_local, &local, T);
}

/* Columns of the adapters' widest input or output, and of their widest output that is a part of a
 * product's. `tensors`: most tensors of an adapted matrix. */
struct widths { size_t any, part, tensors; };

static struct widths adapter_widths(const struct model_config *g)
{
    struct widths w = { 0 };

    for (size_t m = 0; m < g->arch->n_matrices; m++) {
        struct arch_matrix of = arch_matrix(g, m);

        for (size_t t = of.weight; t < of.weight + of.n; t++) {
            size_t out = arch_size(g, arch_b(t)) ? arch_rows(g, arch_b(t)) : 0,
                   in = out ? arch_cols(g, arch_a(t)) : 0;

            w.any = size_max(w.any, size_max(out, in));
            w.part = size_max(w.part, of.n > 1 ? out : 0);
            w.tensors = size_max(w.tensors, out ? of.n : 0);
        }
    }
    return w;
}

void acts_lay_adapter(struct arena *a, struct acts_work *w, const struct model_options *o, size_t R)
{
    const struct arch_lora *lora = &o->config.lora;
    struct widths           widths = adapter_widths(&o->config);
    size_t                  e = dtype_bytes(o->dtype);

    if (!lora->rank)
        return;
    w->adapter.wide = arena_take(a, R * widths.any * sizeof(float));
    w->adapter.sums = arena_take(a, R * lora->rank * sizeof(float));
    w->adapter.h = arena_take(a, R * lora->rank * e);
    if (o->training)
        w->adapter.dh = arena_take(a, widths.tensors * R * lora->rank * e);
    if (o->training && lora->dropout > 0)
        w->adapter.in = arena_take(a, R * widths.any * e);
    if (o->training && widths.part)
        w->adapter.part = arena_take(a, R * widths.part * e);
}

size_t acts_adapter_matvec(const struct model_config *g, size_t rows)
{
    return matvec_scratch(rows, adapter_widths(g).any, g->lora.rank);
}

static void lay_work(struct arena *a, struct acts_work *w, const struct model_options *o)
{
    const struct model_config *g = &o->config;
    size_t N = tokens(o), C = g->n_embd, e = dtype_bytes(o->dtype), R = at_once(o),
           qkv = arch_dim(g, DIM_QKV), heads = arch_dim(g, DIM_HEADS), fc = arch_fc(g),
           inner = arch_dim(g, DIM_INNER),
           encoder_labels = g->arch->encoder ? g->n_labels : 0;

    w->shape = arena_take(a, o->grad_accum * sizeof *w->shape);
    w->x     = arena_take(a, o->grad_accum * N * sizeof(int32_t));
    if (arch_classifies(&o->config)) {
        w->last  = arena_take(a, o->grad_accum * o->batch * sizeof(int32_t));
        w->label = arena_take(a, o->grad_accum * o->batch * sizeof(int32_t));
        w->value = arena_take(a, o->grad_accum * o->batch * sizeof(float));
    } else {
        w->y = arena_take(a, o->grad_accum * N * sizeof(int32_t));
    }
    if (arch_is_masked(g))
        w->last = arena_take(a, o->grad_accum * o->batch * sizeof(int32_t));
    w->ln   = arena_take(a, R * C * e);
    w->proj = arena_take(a, R * C * sizeof(float));
    w->act  = arena_take(a, R * inner * e);
    w->attention =
        arena_take(a, o->training ? attention_scratch(o->seq, heads, g->n_head, g->n_kv_head,
                                                      o->threads)
                                  : attention_scratch_forward(o->seq, heads, g->n_head,
                                                              o->threads));
    acts_lay_rope(a, w, g, o->seq);
    acts_lay_adapter(a, w, o, R);
    if (o->packed) {
        w->begin = arena_take(a, o->grad_accum * N * sizeof(int32_t));
        w->at    = arena_take(a, o->grad_accum * N * sizeof(int32_t));
    }
    if (o->paired) {
        w->reference = arena_take(a, o->grad_accum * o->batch * sizeof *w->reference);
        w->weight    = arena_take(a, o->grad_accum * N * sizeof *w->weight);
    }
    if (g->n_types)
        w->types = arena_take(a, o->grad_accum * N * sizeof(int32_t));
    if (g->arch->encoder) {
        w->length = arena_take(a, o->grad_accum * o->batch * sizeof(int32_t));
        w->mean   = arena_take(a, R * sizeof(float));
        w->rstd   = arena_take(a, R * sizeof(float));
    }
    if (o->training) {
        w->dx    = arena_take(a, o->grad_accum * N * C * sizeof(float));
        w->dy    = arena_take(a, R * C * e);
        w->dact  = arena_take(a, R * inner * sizeof(float));
        w->dfc   = arena_take(a, R * fc * e);
        w->dattn = arena_take(a, N * heads * e);
        w->dqkv  = arena_take(a, N * qkv * e);
        // A classifier's head has one row per sequence, and an encoder's head has a bias. A norm's
        // backward sums three rows. The bias of a masked head has all words.
        size_t rows = colsum_scratch(size_max(R, o->batch),
                                     size_max(size_max(fc, qkv), size_max(3 * C, encoder_labels))),
               head = colsum_scratch(head_at_once(o), size_max(g->vocab, 3 * C));

        w->sums = arena_take(a, arch_is_masked(g) ? size_max(rows, head) : rows);
    }
}

/* The arrays that all layers share which do not keep their own. */
static void lay_shared(struct arena *a, struct acts_set shared[ACTS_PARTS],
                       const struct model_options *o)
{
    acts_lay(a, &shared[ACTS_ATTN], o, ACTS_ATTN, tokens(o));
    acts_lay(a, &shared[ACTS_MLP], o, ACTS_MLP, at_once(o));
}

static void lay_head(struct arena *a, struct acts_head *h, const struct model_options *o)
{
    size_t L = o->config.n_labels,
           R = L ? o->batch : head_at_once(o),
           V = L ? L : arch_words(&o->config, 0).n;
    size_t C = o->config.n_embd, e = dtype_bytes(o->dtype),
           P = L ? R : size_min(R, products_at_once(o, LOGIT_ROWS));
    int    pieces = !L && arch_pieces(&o->config) > 1;
    size_t all = pieces ? o->grad_accum * tokens(o) : R; // rows that exist at once
    int    in_place = o->training && (L || o->dtype == DT_F32); // the gradient overwrites the
                                                                // logits
    int    masked = arch_is_masked(&o->config);

    if (L || masked)
        h->x = arena_take(a, R * C * sizeof(float));
    if ((L || masked) && o->training)
        h->dx = arena_take(a, R * C * sizeof(float));
    if (masked) {
        h->masked = arena_take(a, tokens(o) * sizeof(int32_t));
        h->target = arena_take(a, R * sizeof(int32_t));
        h->act    = arena_take(a, R * C * sizeof(float));
    }
    if (o->config.arch->encoder) {
        h->narrow = arena_take(a, R * C * e);
        h->pooled = arena_take(a, R * C * sizeof(float));
    }
    h->ln     = arena_take(a, all * C * e);
    h->mean   = arena_take(a, all * sizeof(float));
    h->rstd   = arena_take(a, all * sizeof(float));
    h->logits = arena_take(a, (in_place ? R : P) * V * sizeof(float));
    h->losses = arena_take(a, R * sizeof(float));
    if (o->training) {
        h->dlogits = in_place ? h->logits : arena_take(a, tiled_size(R, V) * e);
        h->dln     = arena_take(a, R * C * sizeof(float));
    }
    if (pieces) {
        h->so_far  = arena_take(a, all * sizeof *h->so_far);
        h->factors = arena_take(a, R * sizeof(float));
        h->words   = o->training ? arena_take(a, all * C * e) : NULL;
        h->total   = o->training && o->smoothing > 0 ? arena_take(a, C * sizeof *h->total) : NULL;
    }
}

/* The options that are asked for, without those that do not go together. */
static struct model_options settled(const struct model_options *asked)
{
    struct model_options o = *asked;

    if (!o.training) // without backward, all layers use the shared arrays
        o.placement = (struct placement){ 0 };
    if (!o.threads)
        o.threads = omp_get_max_threads();
    return o;
}

static enum item_kind item_of(enum acts_part part, size_t array)
{
    if (part == ACTS_MLP)
        return array == MLP_FC ? ITEM_FC : ITEM_MLP;
    return part == ACTS_ATTN && array == ATTN_QKV ? ITEM_QKV : ITEM_MID;
}

static size_t part_row_bytes(const struct model_options *o, enum acts_part part,
                             enum item_kind item)
{
    size_t bytes = 0;

    for (size_t i = 0; is_array(o, part, i); i++)
        bytes += item_of(part, i) == item ? acts_row_bytes(o, part, i) : 0;
    return bytes;
}

int acts_can_whole(const struct model_options *o)
{
    return !o->config.arch->ends_normed;
}

size_t acts_rest_bytes(const struct model_options *o)
{
    return part_row_bytes(o, ACTS_MLP, ITEM_MLP);
}

/* Bytes of the largest item, if everything were offloaded. */
static uint64_t item_bytes(const struct model_options *o)
{
    uint64_t most = 0;

    for (enum item_kind i = 0; i < ITEMS; i++) {
        uint64_t row = 0;

        for (enum acts_part p = 0; p < ACTS_PARTS; p++)
            row += part_row_bytes(o, p, i);
        most = row > most && (i != ITEM_MLP || acts_can_whole(o)) ? row : most;
    }
    return most * at_once(o);
}

/* The sizes of a part, of one micro-batch and of one token. */
static void part_sizes(struct acts_sizes *s, const struct model_options *o, enum acts_part part)
{
    struct arena in = { 0 };
    uint64_t     moved = 0;

    for (; is_array(o, part, s->n[part]); s->n[part]++) {
        size_t i = s->n[part];

        s->at[part][i] = in.used;
        s->row[part][i] = acts_row_bytes(o, part, i);
        arena_take(&in, tokens(o) * s->row[part][i]);
    }
    s->part[part] = in.used;
    for (enum item_kind i = 0; i < ITEMS; i++) {
        s->item_row[part][i] = i == ITEM_MLP && !o->whole ? 0 : part_row_bytes(o, part, i);
        moved += s->item_row[part][i];
    }
    if (o->training) {
        s->kept_per_layer[part] = o->grad_accum * s->part[part];
        s->moved_per_layer[part] = o->grad_accum * tokens(o) * moved;
    }
}

struct acts_sizes acts_sizes(const struct model_options *asked)
{
    struct model_options settled_o = settled(asked), *o = &settled_o;
    struct arena      work = { 0 }, head = { 0 };
    struct acts_set   shared[ACTS_PARTS];
    struct acts_work  w;
    struct acts_head  h;
    struct acts_sizes out = { .n_layer = o->config.n_layer, .accum = o->grad_accum,
                              .tokens = tokens(o), .unit = products_unit(o),
                              .chunk = products_at_once(o, CHUNK_ROWS) };

    lay_work(&work, &w, o);
    lay_shared(&work, shared, o);
    lay_head(&head, &h, o);
    for (enum acts_part p = 0; p < ACTS_PARTS; p++)
        part_sizes(&out, o, p);
    out.flow = out.accum * out.part[ACTS_INPUT];
    out.work = work.used;
    out.head = head.used;
    out.item = o->training ? item_bytes(o) : 0;
    return out;
}

/* ---- what is offloaded ---- */

/* Bytes per token of a layer's item. Counts offloaded parts only. */
static size_t item_row_bytes(const struct acts_sizes *s, const struct placement *w, size_t layer,
                             enum item_kind item)
{
    size_t bytes = 0;

    for (enum acts_part p = 0; p < ACTS_PARTS; p++)
        if (placement_of(w, s->n_layer, layer, p) == ACTS_OFFLOADED)
            bytes += s->item_row[p][item];
    return bytes;
}

/* The most chunks that a micro-batch has: whole ones and, if lengths vary, one of each smaller
 * size. */
static size_t chunks(const struct acts_sizes *s)
{
    size_t n = s->tokens / s->chunk;

    for (size_t rows = s->chunk / 2; s->unit && rows >= s->unit; rows /= 2)
        n++;
    return s->unit ? n : div_up(s->tokens, s->chunk);
}

int acts_inputs_first(const struct placement *w, size_t n_layer, size_t layer)
{
    return placement_of(w, n_layer, layer, ACTS_INPUT) == ACTS_OFFLOADED &&
           placement_of(w, n_layer, layer, ACTS_ATTN) == ACTS_RECOMPUTED;
}

size_t acts_records(const struct acts_sizes *s, const struct placement *w, size_t layer)
{
    int attn = item_row_bytes(s, w, layer, ITEM_QKV) > 0,
        rest = item_row_bytes(s, w, layer, ITEM_MID) + item_row_bytes(s, w, layer, ITEM_FC) > 0;

    return (size_t)attn + (size_t)rest;
}

/* Lists the items of a layer's micro-batch. With `before`, these are the items that all chunks
 * push before anything else; otherwise the others, chunk by chunk. `first` says that they begin a
 * record. */
static size_t list_layer(const struct acts_sizes *s, const struct placement *w, size_t layer,
                         int before, int first, struct act_item *out)
{
    enum item_kind alone = acts_inputs_first(w, s->n_layer, layer) ? ITEM_MID : ITEM_QKV;
    size_t          row[ITEMS], kinds = 0, n = 0, rows;

    for (enum item_kind i = 0; i < ITEMS; i++) {
        row[i] = (i == alone) == before ? item_row_bytes(s, w, layer, i) : 0;
        kinds += row[i] > 0;
    }
    if (!out)
        return chunks(s) * kinds;
    for (size_t at = 0; at < s->tokens; at += rows) {
        rows = products_rows(s->tokens - at, s->chunk, s->unit);
        for (enum item_kind i = 0; i < ITEMS; i++) {
            if (!row[i])
                continue;
            out[n++] = (struct act_item){ rows * row[i], first };
            first = 0;
        }
    }
    return n;
}

size_t acts_list(const struct acts_sizes *s, const struct placement *w, struct act_item *out)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_layer * s->accum; i++) {
        size_t layer = i / s->accum + 1;

        n += list_layer(s, w, layer, 1, 1, out ? out + n : NULL);
        n += list_layer(s, w, layer, 0, !acts_inputs_first(w, s->n_layer, layer),
                        out ? out + n : NULL);
    }
    return n;
}

int acts_moves(struct acts_moves *out, const struct acts_sizes *s, const struct placement *w,
               size_t buffers, struct err *err)
{
    size_t            n = acts_list(s, w, NULL);
    struct act_item *list = calloc(n + 1, sizeof *list);
    int               rc = 0;

    *out = (struct acts_moves){ 0 };
    if (!list)
        return err_set(err, -ENOMEM, "out of memory for a plan of %zu activations", n);
    n = acts_list(s, w, list);
    for (size_t i = 0; i < n; i++)
        out->all += list[i].bytes;
    if (n)
        rc = act_rule_moves(&out->written, &out->read, buffers, list, n, err);
    free(list);
    return rc;
}

double acts_stay(const struct acts_sizes *s, size_t buffers)
{
    double items = (double)(s->accum * chunks(s)), stay = (double)act_rule_stay(buffers);

    return stay * (double)s->moved_per_layer[ACTS_INPUT] / items;
}

/* ---- the arena ---- */

static void lay(struct acts *a, uint64_t pool)
{
    const struct model_options *o = &a->o;

    a->flow = arena_take(&a->arena, a->sizes.flow);
    a->pool = arena_take(&a->arena, pool);
    lay_work(&a->arena, &a->work, o);
    lay_shared(&a->arena, a->shared, o);
    lay_head(&a->arena, &a->head, o);
}

int acts_open(struct acts *a, const struct model_options *o, struct err *err)
{
    const struct placement *w = &o->placement;

    assert(!o->training || w->of[ACTS_INPUT].kept + w->of[ACTS_INPUT].offloaded ==
                               o->config.n_layer);
    *a = (struct acts){ .o = settled(o), .sizes = acts_sizes(o) };
    uint64_t need = 0; // bytes of all kept activations

    for (enum acts_part p = 0; p < ACTS_PARTS; p++)
        need += a->o.placement.of[p].kept * a->sizes.kept_per_layer[p];
    a->o.pool = size_max(a->o.pool, need);
    uint64_t pool = a->o.pool + o->spare;
    lay(a, pool);
    int rc = arena_map(&a->arena, "the activations", err);
    if (rc)
        return rc;
    lay(a, pool);
    acts_place(a, &a->o.placement);
    acts_fill_rope(&a->work, &o->config, o->seq);
    for (size_t i = 0; i < o->grad_accum; i++)
        a->work.shape[i] = (struct acts_shape){ o->batch, o->seq };
    return 0;
}

/* ---- the placement ---- */

void acts_place(struct acts *a, const struct placement *w)
{
    uint64_t at = 0;

    a->placement = *w;
    for (enum acts_part p = 0; p < ACTS_PARTS; p++) {
        assert(w->of[p].kept + w->of[p].offloaded <= a->o.config.n_layer);
        a->at[p] = at;
        at += w->of[p].kept * a->sizes.kept_per_layer[p];
    }
    assert(at <= a->o.pool + (placement_offloads(w) ? 0 : a->o.spare));
    arena_give_back(a->pool + at, a->o.pool + a->o.spare - at);
}

enum acts_policy acts_policy(const struct acts *a, size_t layer, enum acts_part part)
{
    return placement_of(&a->placement, a->o.config.n_layer, layer, part);
}

/* ---- where activations stand ---- */

static char *kept_at(const struct acts *a, size_t layer, size_t micro, enum acts_part part)
{
    size_t among = layer + a->placement.of[part].kept - a->o.config.n_layer - 1; // index among the
                                                                            // layers that keep it

    return a->pool + a->at[part] + (among * a->o.grad_accum + micro) * a->sizes.part[part];
}

static int is_kept(const struct acts *a, size_t layer, enum acts_part part)
{
    return layer <= a->o.config.n_layer && acts_policy(a, layer, part) == ACTS_KEPT;
}

float *acts_input(const struct acts *a, size_t block, size_t micro)
{
    assert(block >= 1 && block <= a->o.config.n_layer + 1 && micro < a->o.grad_accum);
    return (float *)(is_kept(a, block, ACTS_INPUT)
                         ? kept_at(a, block, micro, ACTS_INPUT)
                         : a->flow + micro * a->sizes.part[ACTS_INPUT]);
}

struct acts_set acts_at(const struct acts *a, enum acts_part part, size_t layer, size_t micro,
                        size_t first)
{
    const struct acts_sizes *s = &a->sizes;
    struct acts_set          set = a->shared[part];
    char                    *kept = is_kept(a, layer, part) ? kept_at(a, layer, micro, part) : NULL;
    size_t                   skipped = kept || part != ACTS_MLP ? first : 0;

    for (size_t i = 0; i < s->n[part]; i++)
        set.at[i] = (kept ? kept + s->at[part][i] : (char *)set.at[i]) + skipped * s->row[part][i];
    return set;
}

int acts_holds(const struct acts *a, enum acts_part part, size_t layer, size_t micro, size_t first)
{
    const struct acts_held *h = &a->held[part];

    return is_kept(a, layer, part) ||
           (h->layer == layer && h->micro == micro && h->first == first);
}

void acts_hold(struct acts *a, enum acts_part part, size_t layer, size_t micro, size_t first)
{
    if (layer == 0 || !is_kept(a, layer, part))
        a->held[part] = (struct acts_held){ layer, micro, first };
}

size_t acts_items(const struct acts *a, size_t layer)
{
    size_t n = 0;

    for (enum item_kind i = 0; i < ITEMS; i++)
        n += item_row_bytes(&a->sizes, &a->placement, layer, i) > 0;
    return n;
}

size_t acts_rows(const struct acts *a, size_t layer, size_t micro, enum item_kind item,
                 size_t first, struct acts_rows out[ACTS_ROWS])
{
    const struct acts_sizes *s = &a->sizes;
    size_t                   n = 0;

    for (enum acts_part p = 0; p < ACTS_PARTS && (item != ITEM_MLP || a->o.whole); p++) {
        struct acts_set set = { { (char *)acts_input(a, layer, micro) +
                                  first * s->row[ACTS_INPUT][0] } };

        if (acts_policy(a, layer, p) != ACTS_OFFLOADED)
            continue;
        if (p != ACTS_INPUT)
            set = acts_at(a, p, layer, micro, first);
        for (size_t i = 0; i < s->n[p]; i++)
            if (item_of(p, i) == item)
                out[n++] = (struct acts_rows){ set.at[i], s->row[p][i] };
    }
    return n;
}
