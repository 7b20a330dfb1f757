/* rig.c: a trainer over the simplest stream, and distances between tensors. */
#include "tests/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

struct rig rig_open(const struct trainer_options *o, const float *params, float weight_decay,
                    int decay_all)
{
    struct stream_plain_options so = { .gpt = o->model.gpt,
                                       .wire = o->model.dtype,
                                       .optim = o->optim,
                                       .weight_decay = weight_decay,
                                       .decay_all = decay_all,
                                       .params = params,
                                       .record_bytes = trainer_sizes(o).record };
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

double compare_tensors(const struct gpt_config *g, const float *a, const float *b,
                       distance_fn *distance, double tolerance)
{
    size_t at = 0;
    double worst = 0;

    for (size_t block = 0; block < gpt_blocks(g); block++) {
        enum gpt_tensor t, end;

        for (gpt_block_tensors(g, block, &t, &end); t < end; at += gpt_size(g, t), t++) {
            double d = distance(a + at, b + at, gpt_size(g, t), t == GPT_QKV_B ? g->n_embd : 0);

            if (!(d <= tolerance))
                fail_msg("block %zu %s: %g, tolerance %g", block, gpt_params[t].name, d, tolerance);
            worst = fmax(worst, d);
        }
    }
    assert_int_equal(at, gpt_total(g));
    return worst;
}
