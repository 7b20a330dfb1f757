/* toy.c: see toy.h. */
#include "tests/toy.h"

#include "data/base/crc32c.h"
#include "offload/devices.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static int init_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n; i++)
        out[i] = 0.02f * sinf((float)(block * 1000 + first + i));
    return 0;
}

void (*toy_before_norm)(struct stream *s, uint64_t step);

const struct params_source toy_init = { .read = init_read };

float toy_decay(void *ctx, size_t block, size_t i, size_t n, size_t *count)
{
    size_t left = 700 - i % 700;

    (void)ctx, (void)block;
    *count = left < n ? left : n;
    return i / 700 % 3 ? 0.0f : 0.1f;
}

struct run_config toy_config(const char *dir, enum run_mode mode, const size_t *sizes, size_t n)
{
    return (struct run_config){
        .dir = dir,
        .id = "00112233445566778899aabbccddeeff",
        .mode = mode,
        .n_blocks = n,
        .block_params = sizes,
        .decay = toy_decay,
        .wire_dt = DT_BF16,
        .optim = OPTIM_ADAMW,
        .n_devices = 1,
        .csd = &csd_emu,
        .disk = "sync",
        .csd_mem = csd_emu.memory(&(struct csd_config){ .update_params = CSD_ALIGN_PARAMS,
                                                        .moments = optim_moments(OPTIM_ADAMW),
                                                        .wire_dt = DT_BF16 }),
        .frames = 2,
        .grad_buffers = 1,
    };
}

/* Layers leave their records in forward, each the same number, and find them in backward. */
static size_t records_of(const struct run_config *cfg, uint64_t step, size_t block)
{
    return block >= 1 && block < cfg->n_blocks - 1 ? toy_records(cfg, step) / (cfg->n_blocks - 2)
                                                   : 0;
}

size_t toy_records(const struct run_config *cfg, uint64_t step)
{
    size_t layers = cfg->n_blocks - 2;

    return step % 4 == 3 && cfg->acts.n > layers ? cfg->acts.n - layers : cfg->acts.n;
}

size_t toy_record_bytes(const struct run_config *cfg, uint64_t step)
{
    return step ? cfg->acts.bytes : cfg->acts.bytes / 3 + 1;
}

static unsigned char record_byte(uint64_t step, size_t block, size_t record, size_t i)
{
    return (unsigned char)((step * 31 + block * 7 + record + 1) * (i + 3) >> 3);
}

static int records_leave(const struct run_config *cfg, struct stream *s, uint64_t step,
                         size_t block, struct err *err)
{
    size_t left =
        toy_records(cfg, step) - (block > 0 ? (block - 1) * records_of(cfg, step, block) : 0);

    for (size_t r = 0; r < records_of(cfg, step, block); r++) {
        void *record;
        int   rc = stream_push(s, &record, err);

        if (rc)
            return rc;
        for (size_t i = 0; i < toy_record_bytes(cfg, step); i++)
            ((unsigned char *)record)[i] = record_byte(step, block, r, i);
        stream_pushed(s, toy_record_bytes(cfg, step), --left);
    }
    return 0;
}

static int records_find(const struct run_config *cfg, struct stream *s, uint64_t step, size_t block,
                        struct err *err)
{
    for (size_t r = records_of(cfg, step, block); r-- > 0;) {
        void *record;
        int   rc = stream_pop(s, &record, err);

        if (rc)
            return rc;
        for (size_t i = 0; i < toy_record_bytes(cfg, step) && !devices_fake(cfg); i++)
            assert(((unsigned char *)record)[i] == record_byte(step, block, r, i));
        stream_popped(s);
    }
    return 0;
}

int toy_forward(const struct run_config *cfg, struct stream *s, uint64_t step, const void **wire,
                double *loss, struct err *err)
{
    int rc = stream_begin(s, STREAM_TRAIN, step, err);

    *loss = 0;
    for (size_t b = 0; b < cfg->n_blocks && !rc; b++) {
        rc = stream_acquire(s, b, &wire[b], err);
        for (size_t i = 0; !rc && i < cfg->block_params[b]; i++)
            *loss += dtype_get(wire[b], cfg->wire_dt, i) * (double)(i % 13);
        if (!rc)
            rc = records_leave(cfg, s, step, b, err);
        if (!rc && b < cfg->n_blocks - 1)
            stream_release(s, b);
    }
    return rc ? rc : stream_acquire(s, 0, &wire[0], err);
}

/* A block's gradient, which must come fresh; block 0's is asked for twice, as a tied head has it.
 */
static int gradient(struct stream *s, size_t b, float **grad, struct err *err)
{
    float *again;
    int    fresh, rc = stream_grad(s, b, grad, &fresh, err);

    assert(rc || fresh == 1);
    if (rc || b > 0)
        return rc;
    rc = stream_grad(s, b, &again, &fresh, err);
    assert(rc || (fresh == 0 && again == *grad));
    return rc;
}

/* A block on the way back. */
static int backward(const struct run_config *cfg, struct stream *s, uint64_t step, size_t b,
                    const void **wire, int poison, struct stream_norm *norm, struct err *err)
{
    size_t last = cfg->n_blocks - 1;
    float *grad;
    int    rc = b > 0 && b < last ? stream_acquire(s, b, &wire[b], err) : 0;

    if (!rc)
        rc = gradient(s, b, &grad, err);
    if (!rc)
        rc = records_find(cfg, s, step, b, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < cfg->block_params[b]; i++) {
        float w = b ? dtype_get(wire[b], cfg->wire_dt, i) : 0.01f * (float)(i % 7);

        grad[i] = 0.1f * w + sinf((float)(i * (b + 1) + step)) * 0.3f;
    }
    if (poison && b == 2)
        grad[5] = NAN;
    if (b > 0)
        stream_release(s, b);
    if (b == last)
        stream_release(s, 0);
    return stream_send_grad(s, b, norm, err);
}

static void update_numbers(const struct run_config *cfg, struct stream *s, double clip_factor,
                           struct optim_step *out)
{
    optim_scalars(out, cfg->optim, 1e-2, 0.9, 0.95, 1e-8, clip_factor, s->applied + 1);
}

int toy_step(const struct run_config *cfg, struct stream *s, uint64_t step, int poison, size_t quit,
             double *loss, struct err *err)
{
    const void        *wire[TOY_BLOCKS];
    struct stream_norm norm = { 0 };
    struct stream_step up = { .row = { .step = step, .skipped = poison } };
    int                rc = toy_forward(cfg, s, step, wire, loss, err);

    assert(cfg->n_blocks <= TOY_BLOCKS);
    update_numbers(cfg, s, 1.0, &up.optim);
    stream_expect(s, &up.optim);
    for (size_t b = cfg->n_blocks; b-- > 0 && !rc;) {
        rc = backward(cfg, s, step, b, wire, poison, &norm, err);
        if (quit && b == quit)
            return rc;
        if (!rc && b == 1 && toy_before_norm)
            toy_before_norm(s, step);
    }
    if (rc)
        return rc;
    assert(norm.nonfinite == poison);
    up.skip = norm.nonfinite;
    if (step % 3 == 1 && !up.skip)
        update_numbers(cfg, s, 1.0 / (1.0 + sqrt(norm.sumsq)), &up.optim);
    up.row.loss = *loss;
    return stream_update(s, &up, err);
}

int toy_params_sum(const struct run_config *cfg, uint32_t *sum, struct err *err)
{
    struct run_reader   *r = NULL;
    struct params_source src;
    int                  rc = run_reader(&r, &src, cfg, err);

    *sum = 0;
    for (size_t b = 0; b < cfg->n_blocks && !rc; b++) {
        float *p = malloc(sizeof *p * cfg->block_params[b]);

        assert(p);
        rc = src.read(src.ctx, b, 0, cfg->block_params[b], p, err);
        *sum = crc32c(*sum, p, sizeof *p * cfg->block_params[b]);
        free(p);
    }
    run_reader_close(r);
    return rc;
}
