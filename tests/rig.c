/* rig.c: a trainer over the simplest stream, and distances between tensors. */
#include "tests/rig.h"

#include "model/family/bert.h"
#include "model/family/gpt2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

struct rig rig_open(const struct trainer_options *o, const float *params, float weight_decay,
                    int decay_all)
{
    struct stream_plain_options so = { .config = o->model.config,
                                       .wire = o->model.dtype,
                                       .optim = o->optim,
                                       .weight_decay = weight_decay,
                                       .decay_all = decay_all,
                                       .params = params,
                                       .piece_bytes = acts_sizes(&o->model).item };
    struct rig rig = { .stream = stream_plain_open(&so) };
    struct err err = { 0 };

    if (trainer_open(&rig.trainer, o, rig.stream, &err))
        fail_msg("%s", err.text);
    return rig;
}

void rig_close(struct rig *rig)
{
    trainer_close(rig->trainer);
    stream_close(rig->stream);
}

int rig_batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    struct rig_rows *r = ctx;
    size_t       at = (step * r->accum + micro) * r->micro_tokens;

    (void)err;
    memcpy(b->x, r->x + at, r->micro_tokens * sizeof *b->x);
    memcpy(b->y, r->y + at, r->micro_tokens * sizeof *b->y);
    return 0;
}

struct model_config rig_config(const struct fixture *f, size_t *batch, size_t *seq)
{
    const int32_t *c = fixture_i32(f, "config", 7);

    *batch = (size_t)c[5];
    *seq = (size_t)c[6];
    return arch_config(&gpt2_arch, (struct model_config){.n_layer = (size_t)c[0],
                                                         .n_head = (size_t)c[1],
                                                         .n_embd = (size_t)c[2],
                                                         .vocab = (size_t)c[3],
                                                         .n_positions = (size_t)c[4],
                                                         .norm_eps = 1e-5f});
}

void rig_steps(struct stream *s, const struct trainer_options *o, const struct batch_source *data,
               uint64_t from, uint64_t until, double *loss)
{
    struct trainer    *trainer = NULL;
    struct step_result result;
    struct err         err;
    int                rc = trainer_open(&trainer, o, s, &err);

    for (uint64_t step = from; step < until && !rc; step++) {
        rc = train_step(trainer, step, data, &result, &err);
        loss[step] = result.loss;
    }
    if (rc || stream_drain(s, &err))
        fail_msg("%s", err.text);
    trainer_close(trainer);
}

struct trainer_options rig_options(struct model_config config, size_t batch, size_t seq,
                                   enum dtype dtype, enum matmul_engine engine)
{
    return (struct trainer_options){
        .model = {.config = config,
                  .batch = batch,
                  .seq = seq,
                  .grad_accum = 1,
                  .dtype = dtype,
                  .engine = engine,
                  .threads = 2,
                  .placement = placement_recompute(config.n_layer, config.n_layer),
                  .training = 1},
        .schedule = {.kind = SCHEDULE_CONSTANT, .lr = 1e-3},
        .optim = OPTIM_ADAMW,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
    };
}

void rig_placement(struct trainer_options *o, size_t how)
{
    struct placement *w = &o->model.placement;
    size_t            L = o->model.config.n_layer, n = how % RIG_OFFLOAD;

    o->adapts = how >= RIG_AUTO ? ADAPT_BEST : ADAPT_NOT;
    o->model.whole = how % 2 && acts_can_whole(&o->model);
    how -= how >= RIG_AUTO ? RIG_AUTO : 0;
    *w = how >= RIG_OFFLOAD ? placement_offload(L, n % (L + 1))
                            : placement_recompute(L, n % (L + 1));
    for (enum acts_part p = 0; how >= RIG_MIXED && p < ACTS_PARTS; p++, n /= 2) {
        w->of[p].kept = n % (L + 1);
        w->of[p].offloaded = p == ACTS_INPUT ? L - w->of[p].kept : (n + 1) % (L - n % (L + 1) + 1);
    }
}

int rig_runs_bf16(enum matmul_engine engine)
{
    struct matmul_shape shape = { .form = MATMUL_NN, .m = 4, .n = 4, .k = 4, .ab_dt = DT_BF16 };
    struct matmul      *mm;
    struct err          why;
    int                 rc = matmul_open(&mm, engine, &shape, 1, 1, &why);

    matmul_close(mm);
    if (rc)
        print_message("not here: %s\n", why.text);
    return !rc;
}

enum matmul_engine rig_engine(size_t i)
{
    return i % 2 && matmul_has(MATMUL_ONEDNN) ? MATMUL_ONEDNN : MATMUL_OPENBLAS;
}

double max_distance(const float *a, const float *b, size_t n, size_t skip)
{
    double diff = 0, largest = 0;

    for (size_t i = 0; i < n; i++) {
        if (skip && i / skip == 1)
            continue;
        if (!isfinite(a[i]))
            return INFINITY;
        diff = fmax(diff, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)b[i]));
    }
    return largest > 0 ? diff / largest : diff;
}

double norm_distance(const float *a, const float *b, size_t n, size_t skip)
{
    double diff = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        if (skip && i / skip == 1)
            continue;
        if (!isfinite(a[i]))
            return INFINITY;
        diff += pow((double)a[i] - (double)b[i], 2);
        norm += pow((double)b[i], 2);
    }
    return norm > 0 ? sqrt(diff / norm) : sqrt(diff);
}

double compare_tensors(const struct model_config *g, const float *a, const float *b,
                       distance_fn *distance, double tolerance)
{
    size_t at = 0;
    double worst = 0;

    for (size_t block = 0; block < arch_blocks(g); block++) {
        size_t t, end;

        for (arch_block_tensors(g, block, &t, &end); t < end; at += arch_size(g, t), t++) {
            size_t keys = g->arch == &gpt2_arch && t == GPT2_QKV_B ? g->n_embd : 0;
            if (g->arch->encoder && t == BERT_K_B) // likewise: all of it is rounding
                continue;
            double d = distance(a + at, b + at, arch_size(g, t), keys);

            if (!(d <= tolerance))
                fail_msg("block %zu %s: %g, tolerance %g", block, arch_param(g, t)->name, d,
                         tolerance);
            worst = fmax(worst, d);
        }
    }
    assert_int_equal(at, arch_total(g));
    return worst;
}
