/* memory.c: makes the memory plan: asks every part of the program for its size. The program itself
 * is measured: its resident size before anything is opened, and its growth when the products are
 * opened, because oneDNN generates code. They are opened once and closed again, to know their
 * scratch (products_scratch). */
#include "plan/memory.h"

#include "csd/disk/disk.h"
#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/machine.h"
#include "data/base/round.h"
#include "kernels/product/matmul.h"
#include "offload/estimate/step_work.h"
#include "offload/stream/stream_open.h"
#include "run/sources/evaluate.h"
#include "run/sources/packing.h"

#include <malloc.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>

#define MIB ((uint64_t)1 << 20)

/* Memory that comes later and is not planned by itself: threads' stacks, SQLite's cache and log,
 * rings, the heap. */
enum { PROCESS_GROWTH_MIB = 24, PRODUCTS_LEAST_MIB = 8 };

/* Measurements are rounded up to these, so that `plan` and the run agree. */
enum { PROCESS_STEP_MIB = 8, PRODUCTS_STEP_MIB = 4 };

uint64_t memory_baseline(void)
{
    static uint64_t first; // measured once: a second plan must not count what is open by then

    if (!first)
        first = rss_now();
    return first;
}

/* Scratch of the products, and memory of their code. tiled: struct products' own. */
static int products_bytes(uint64_t *out, int *tiled, const struct memory_request *r,
                          struct err *err)
{
    struct model_options o = r->decode ? decode_model(r->decode) : r->model;
    static uint64_t most; // code is generated only once
    uint64_t        before = rss_now();
    size_t          scratch;
    int             rc = products_scratch(&scratch, tiled, &o, err);

    if (rc)
        return rc;
    uint64_t grown = rss_now() > before ? rss_now() - before : 0;
    most = grown > most ? grown : most;
    *out = scratch + (most > PRODUCTS_LEAST_MIB * MIB ? round_up(most, PRODUCTS_STEP_MIB * MIB)
                                                      : PRODUCTS_LEAST_MIB * MIB);
    return 0;
}

static int training_bytes(struct budget_request *b, const struct memory_request *r, struct err *err)
{
    struct run_config cfg = *r->run;
    struct run_memory m;

    cfg.frames = cfg.grad_buffers = 0; // the part that does not depend on the choice
    cfg.acts = (struct run_acts){ 0 };
    if (b->record_buffer) { // as many as there can be
        struct placement     all = placement_offload(r->model.config.n_layer, 0);
        struct model_options model = r->model;
        struct acts_sizes    sizes;

        model.whole = acts_can_whole(&model);
        model.doubled = 0;
        sizes = acts_sizes(&model);
        cfg.acts = (struct run_acts){ .n = acts_list(&sizes, &all, NULL),
                                      .bytes = b->record_buffer, .buffers = BUDGET_BUFFERS_MOST };
    }
    int rc = run_memory(&cfg, &m, err);
    if (rc)
        return rc;
    b->training = 1;
    b->in_memory = cfg.mode == RUN_MEM;
    b->fixed_streams = m.states + (b->in_memory ? 0 : m.frames + m.grads);
    b->layer_frame = m.layer_frame;
    b->layer_grad = m.layer_grad;
    b->record_buffer = m.record_buffer;
    b->compress = m.compress;
    b->spans = m.spans;
    b->base = m.base;
    b->tables = m.tables + (r->exporting ? m.masters : 0);
    if (cfg.error_feedback) {
        b->residual_ram = m.residual_ram;
        b->residual_ends = m.residual_ends;
        b->residual_layer = m.residual_layer;
    }
    *(cfg.mode == RUN_BASE ? &b->host_update : &b->arenas) = m.arenas;
    return 0;
}

/* The placement before anything is measured. Whatever fits is kept, the rest recomputed. Inputs
 * come first, because they cannot be recomputed. */
static struct placement placement_first(const struct acts_sizes *s, size_t n_layer, uint64_t pool,
                                        uint64_t spare)
{
    const uint64_t *each = s->kept_per_layer;

    if (pool + spare >= n_layer * each[ACTS_INPUT]) // nothing is offloaded
        pool += spare;
    size_t           inputs = size_min(n_layer, pool / each[ACTS_INPUT]), whole;
    struct placement w = { .of[ACTS_INPUT] = { inputs, n_layer - inputs } };

    pool -= inputs * each[ACTS_INPUT];
    whole = size_min(n_layer, pool / (each[ACTS_ATTN] + each[ACTS_MLP]));
    pool -= whole * (each[ACTS_ATTN] + each[ACTS_MLP]);
    w.of[ACTS_ATTN].kept = w.of[ACTS_MLP].kept = whole;
    if (whole < n_layer && pool >= each[ACTS_MLP])
        w.of[ACTS_MLP].kept++;
    else if (whole < n_layer && pool >= each[ACTS_ATTN])
        w.of[ACTS_ATTN].kept++;
    return w;
}

struct placement memory_placement(const struct budget *plan, const struct model_options *model,
                                  const struct train_activations *acts)
{
    struct acts_sizes sizes = acts_sizes(model);
    size_t            L = model->config.n_layer;

    if (!plan->record_buffers) // offloading is impossible or unnecessary
        return placement_recompute(L, plan->kept);
    return acts->adapts ? placement_first(&sizes, L, plan->pool, plan->spare)
                        : placement_offload(L, plan->kept);
}

/* Seconds that modelled links take to write and read a byte. */
static double link_seconds(const struct run_config *run)
{
    struct step_rates  unknown = { 0 };
    struct step_halves half = { 0 };
    struct topology   *links;
    struct err         why;

    if (topology_open(&links, &run->links, run->n_devices, &why))
        return 0; // the next one to open it reports why
    int rc = step_work_halves(&half, run, links, &unknown, &why);
    topology_close(links);
    return rc ? 0 : step_move(&half.write, 1) + step_move(&half.read, 1);
}

/* Measures the FLOP/s of a product in the run's engine and dtype, the best of a few calls. It is
 * measured once and rounded to a power of two, so that `plan` and the run agree. 0 and a sentence:
 * the engine does not run here. */
static double product_rate(const struct model_options *model, struct err *err)
{
    enum { M = 256, N = 512, K = 256, CALLS = 5 };
    static double             rate;
    const struct matmul_shape shape = { .form = MATMUL_NN, .m = M, .n = N, .k = K,
                                        .ab_dt = model->dtype, .c_dt = DT_F32 };
    int            threads = model->threads ? model->threads : omp_get_max_threads();
    struct matmul *mm = NULL;
    struct arena   memory = { .align = ARENA_IO };
    void          *a = NULL, *b = NULL, *c = NULL, *scratch = NULL;
    double         least = INFINITY;

    int rc = rate > 0 ? 0 : matmul_open(&mm, model->engine, &shape, 1, threads, err);
    for (int laid = 0; laid < 2 && mm && !rc; laid++) {
        rc = laid ? arena_map(&memory, "a product that is timed", err) : 0;
        a = arena_take(&memory, dtype_bytes(model->dtype) * M * K);
        b = arena_take(&memory, dtype_bytes(model->dtype) * K * N);
        c = arena_take(&memory, sizeof(float) * M * N);
        scratch = arena_take(&memory, mm->scratch_bytes);
    }
    for (int call = 0; call < CALLS && mm && !rc; call++) {
        uint64_t start_ns = clock_ns();

        matmul_run(mm, 0, c, a, b, NULL, scratch);
        least = fmin(least, (double)(clock_ns() - start_ns) * 1e-9);
    }
    if (mm && !rc)
        rate = exp2(round(log2(2.0 * M * N * K / least)));
    arena_free(&memory);
    matmul_close(mm);
    return rc ? 0 : rate;
}

int memory_whole(const struct budget *plan, const struct run_config *run,
                 const struct model_options *model)
{
    double     link = link_seconds(run), rate;
    struct err why;

    if (!acts_can_whole(model) || 2 * plan->record_buffers < BUDGET_BUFFERS_MOST)
        return 0;
    if (!(link > 0))
        return 1;
    rate = product_rate(model, &why); // the next one to open the engine reports why it cannot
    return rate > 0 && (double)acts_rest_bytes(model) * link <=
                           2 * (double)arch_fetched(&model->config) / rate;
}

/* Sets which activations go to devices. If that is chosen later, it is all. If lengths vary, there
 * are fewer bytes than with full micro-batches, but there may be more items. */
static int acts_set(struct run_acts *out, const struct budget *plan,
                    const struct memory_request *r, struct err *err)
{
    size_t           L = r->model.config.n_layer;
    struct placement w = placement_offload(L, r->acts->adapts ? 0 : plan->kept);
    struct model_options model = r->model;
    struct acts_moves moves;
    struct acts_sizes sizes, single;
    int               rc;

    model.whole = memory_whole(plan, r->run, &model);
    sizes = acts_sizes(&model);
    rc = acts_moves(&moves, &sizes, &w, plan->record_buffers, err);
    model.doubled = 0; // their area on devices has room for single chunks, with any memory
    single = acts_sizes(&model);
    *out = (struct run_acts){ .n = acts_list(&single, &w, NULL), .area = moves.all,
                              .bytes = sizes.item, .buffers = plan->record_buffers };
    if (!r->acts->adapts) { // later choices are not computed here
        out->written = moves.written;
        out->read = moves.read;
    }
    return rc;
}

static void acts_request(struct budget_request *b, const struct memory_request *r)
{
    struct acts_sizes acts = acts_sizes(&r->model);
    uint64_t          L = r->model.config.n_layer, inputs = acts.kept_per_layer[ACTS_INPUT],
             inside = acts.kept_per_layer[ACTS_ATTN] + acts.kept_per_layer[ACTS_MLP];
    int offloads = r->run && r->run->mode != RUN_MEM && r->acts->offloads;

    b->work = acts.work + packed_frame(&r->model.config, r->model.dtype);
    b->head = acts.head;
    b->block_inputs = acts.flow + (offloads ? 0 : L * inputs);
    b->kept_per_layer = inside + (offloads ? inputs : 0);
    b->record_buffer = offloads ? acts.item : 0;
    b->pool_most = offloads && r->acts->adapts ? L * b->kept_per_layer : 0;
    b->keep = r->acts ? r->acts->keep : 0;
}

/* out->packs_head: whether it would help to pack the head's words, if they are not. */
static int plan_one(struct budget *out, const struct memory_request *r, struct err *err)
{
    struct budget_request b = { .host_mem = r->host_mem,
                                .n_layer = r->model.config.n_layer,
                                .kv_cache = r->decode ? decode_bytes(r->decode) : 0 };
    struct run_memory     m;
    int                   rc = 0, tiled = 0;

    memset(out, 0, sizeof *out);
    if (!r->decode)
        acts_request(&b, r);
    b.process = round_up(memory_baseline(), PROCESS_STEP_MIB * MIB) + PROCESS_GROWTH_MIB * MIB;
    if (r->run) {
        rc = training_bytes(&b, r, err);
    } else {
        const size_t *whole = r->reads->ranks.whole_params; // read whole, whoever has it

        if (!whole)
            whole = r->reads->block_params;
        stream_read_memory(&m, &r->reads->route, r->reads->unpacked ? r->reads->unpacked : whole,
                           r->model.dtype);
        b.layer_frame = m.layer_frame;
        b.fixed_streams = m.frames + r->source_bytes;
    }
    rc = rc ? rc : products_bytes(&b.products, &tiled, r, err);
    if (arch_classifies(&r->model.config))
        b.predictions = predictions_bytes(r->rows, r->model.config.n_labels, r->reads != NULL);
    else
        b.order = packing_bytes(r->rows);
    if (r->model.paired) // the losses of a step's tokens, for the reference
        b.order += r->model.batch * r->model.seq * r->model.micros * sizeof(float);
    rc = rc ? rc : budget_plan(out, &b, err);
    out->packs_head = tiled && b.in_memory && out->kept == b.n_layer;
    out->doubled = r->model.doubled;
    if (rc || !r->run)
        return rc;
    r->run->frames = out->frames;
    r->run->grad_buffers = out->grad_buffers;
    r->run->residual_in_ram = out->residual_in_ram;
    r->run->acts = (struct run_acts){ 0 };
    return out->record_buffers ? acts_set(&r->run->acts, out, r, err) : 0;
}

/* ---- limits of this process ---- */

/* OpenBLAS's threads have their buffers from the start; the thread that multiplies takes one more.
 * OTHER_THREADS: threads that do not compute. Each device adds two, and those of its disk. */
enum { BLAS_BUFFER_MIB = 128, OTHER_THREADS = 6 };

/* Bytes of the stacks of threads that are still to be started. */
static uint64_t stack_bytes(const struct memory_request *r)
{
    char           text[64];
    pthread_attr_t usual;
    size_t         stack = 0;
    uint64_t       here, all = threads_here((uint64_t)r->model.threads) + OTHER_THREADS;

    if (r->run && r->run->mode != RUN_MEM)
        all += (r->run->n_devices + r->run->n_act_devices) *
               (2 + disk_find(r->run->disk)->threads);
    machine_field(text, sizeof text, "/proc/self/status", "Threads");
    here = strtoull(text, NULL, 10);
    if (!pthread_getattr_default_np(&usual)) {
        pthread_attr_getstacksize(&usual, &stack);
        pthread_attr_destroy(&usual);
    }
    return all > here ? (all - here) * stack : 0;
}

int memory_limits(const struct budget *plan, const struct memory_request *r, struct err *err)
{
    char     option = 'v';
    uint64_t room = machine_room(&option), mapped = memory_baseline(), beside = stack_bytes(r);

    if (matmul_chosen(r->model.engine, r->model.dtype) == MATMUL_OPENBLAS)
        beside += BLAS_BUFFER_MIB * MIB;
    uint64_t all = plan->total + plan->arenas + beside;
    if (room == UINT64_MAX)
        return 0;
    mallopt(M_ARENA_MAX, 1); // an arena for each thread would reserve 64 MiB
    if (all <= room + mapped)
        return 0;
    beside += plan->arenas;
    return err_misuse(err, "with ulimit -%c %s more can be mapped here, but %s are needed: raise "
                      "it (ulimit -%c unlimited)%s%s", option, SIZE_TEXT(room),
                      SIZE_TEXT(all - mapped), option,
                      room + mapped > beside ? ", or --host-mem of at most " : "",
                      room + mapped > beside ? SIZE_TEXT(room + mapped - beside) : "");
}

/* ---- suggestions ---- */

/* Room that a suggestion leaves: measurements differ a little between starts, which after rounding
 * may be one step. */
enum { FIT_SLACK_MIB = PROCESS_STEP_MIB + PRODUCTS_STEP_MIB };

static int fits(struct memory_request *r)
{
    struct budget b;
    struct err    refusal;

    return !plan_one(&b, r, &refusal);
}

/* The largest size below *size that fits, all else unchanged; 0: not even 1. *size is unchanged. */
static size_t fits_most(struct memory_request *r, size_t *size)
{
    size_t was = *size, least = 0, most = was;

    while (most - least > 1) {
        *size = least + (most - least) / 2;
        *(fits(r) ? &least : &most) = *size;
    }
    *size = was;
    return least;
}

static const char *fits_activations(struct memory_request *r)
{
    static const int others[] = { TRAIN_RECOMPUTE, TRAIN_OFFLOAD };
    const struct train_activations *was = r->acts;
    const char                     *found = NULL;

    if (!r->run || r->run->mode == RUN_MEM) // in mode mem, all that can be recomputed is
        return NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others && !found; i++) {
        r->acts = &train_activations[others[i]];
        found = r->acts != was && fits(r) ? r->acts->name : NULL;
    }
    r->acts = was;
    return found;
}

/* Adds to the message that names the least --host-mem what would fit into the given one. */
static void add_what_fits(const struct memory_request *asked, uint64_t limit, struct err *err)
{
    struct run_config     run = asked->run ? *asked->run : (struct run_config){ 0 };
    struct memory_request r = *asked;
    char                  batch[32] = "", seq[32] = "", activations[64] = "";
    const char           *other;
    size_t                n;

    if (limit <= FIT_SLACK_MIB * MIB)
        return;
    r.host_mem = limit - FIT_SLACK_MIB * MIB;
    r.run = asked->run ? &run : NULL;
    if ((n = fits_most(&r, &r.model.batch)))
        snprintf(batch, sizeof batch, "--batch %zu", n);
    if ((n = fits_most(&r, &r.model.seq)))
        snprintf(seq, sizeof seq, "%s--seq %zu", *batch ? ", or " : "", n);
    if ((other = fits_activations(&r)))
        snprintf(activations, sizeof activations, "%s--activations %s",
                 *batch || *seq ? ", or " : "", other);
    if (*batch || *seq || *activations)
        err_misuse(err, "%s; %s%s%s would fit", err->text, batch, seq, activations);
    else
        err_misuse(err, "%s; no smaller --batch or --seq would fit", err->text);
}

/* Plans the run with another model, and leaves its settings in *run. 0: that does not fit. */
static int plan_with(struct budget *out, struct run_config *run, struct memory_request r)
{
    struct err refusal;

    *run = *r.run;
    r.run = run;
    return !plan_one(out, &r, &refusal) && !memory_limits(out, &r, &refusal);
}

/* In mode mem, memory that is left when all layers are kept serves to pack the words of the head
 * for siTrain's own products. Two products pack them, so this takes twice their bytes. */
static void add_packs(struct budget *out, const struct memory_request *r)
{
    struct memory_request packs = *r;
    struct run_config     unused;
    struct budget         more;

    packs.model.packs_head = 1;
    out->packs_head = plan_with(&more, &unused, packs) && more.packs_head;
    if (out->packs_head)
        *out = more;
}

/* True if a plan with doubled chunks leaves the rest what it had, or nearly so: they make the
 * products of all layers faster, at the price of some layers' activations or parameters that would
 * stay in memory. */
static int worth_doubling(const struct budget *with, const struct budget *without, size_t n_layer)
{
    size_t few = n_layer / 8;
    int    all = without->kept == n_layer;

    return with->grad_buffers >= without->grad_buffers &&
           !with->record_buffers == !without->record_buffers &&
           with->record_buffers >= without->record_buffers &&
           with->residual_in_ram >= without->residual_in_ram &&
           with->kept + (all ? 0 : few) >= without->kept && with->frames + few >= without->frames &&
           with->frames >= size_min(without->frames, 4) && with->pool >= without->pool / 8 * 7;
}

static void add_doubled(struct budget *out, const struct memory_request *r)
{
    struct memory_request twice = *r;
    struct run_config     run;
    struct budget         more;

    twice.model.doubled = 1;
    if (!plan_with(&more, &run, twice) ||
        !worth_doubling(&more, out, r->model.config.n_layer))
        return;
    *out = more;
    *r->run = run;
}

int memory_plan(struct budget *out, const struct memory_request *r, struct err *err)
{
    struct memory_request chosen = *r;
    int                   rc = plan_one(out, r, err);

    struct budget plain = *out;
    if (!rc && r->run && products_doubles(&r->model))
        add_doubled(out, r);
    chosen.model.doubled = out->doubled;
    if (!rc && out->packs_head)
        add_packs(out, &chosen);
    if (!rc && plain.packs_head && !out->packs_head) { // not both: packed words gain as much
        add_packs(&plain, r);
        if (plain.packs_head)
            *out = plain;
    }
    // without room for buffers there is nothing to choose
    if (rc && out->n_items && r->run && r->acts->adapts) {
        struct memory_request kept = *r;
        struct budget         other;
        struct err            refusal;

        kept.acts = &train_activations[TRAIN_KEEP];
        if (!plan_one(&other, &kept, &refusal)) {
            *out = other;
            out->packs_head = 0;
            return 0;
        }
    }
    if (rc && out->n_items && !r->decode) // the budget refused it, and rows could be fewer
        add_what_fits(r, out->limit, err);
    return rc;
}
