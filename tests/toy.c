/* toy.c: see toy.h. */
#include "tests/toy.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "offload/devices/devices.h"
#include "offload/layout/act_rule.h"

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
    i += ctx ? run_first(ctx, block) : 0;
    size_t left = 700 - i % 700;

    *count = left < n ? left : n;
    return i / 700 % 3 ? 0.0f : 0.1f;
}

struct route toy_route(size_t n)
{
    const struct route_run first = { 0, ROUTE_UP, ROUTE_READ, 0, 0 },
                           layers = { 1, ROUTE_UP, ROUTE_READ, 0, 0 },
                           last = { 2, ROUTE_UP, ROUTE_READ, 0, 0 };

    return (struct route){
        .lanes = { { 1, { 1, 1 } }, { n - 2, { 0, 0 } }, { 1, { 1, 1 } } },
        .runs = { [STREAM_TRAIN] = { first, layers, last,
                                     { 0, ROUTE_UP, ROUTE_READ | ROUTE_ADD, 0, 0 },
                                     { 2, ROUTE_UP, ROUTE_ADD | ROUTE_SEND, 0, 0 },
                                     { 1, ROUTE_DOWN, ROUTE_READ | ROUTE_ADD | ROUTE_SEND, 0, 0 },
                                     { 0, ROUTE_UP, ROUTE_ADD | ROUTE_SEND, 0, 0 } },
                  [STREAM_EVAL] = { first, layers, last, first },
                  [STREAM_GENERATE] = { first, layers, last, first } },
    };
}

struct run_config toy_config(const char *dir, enum run_mode mode, const size_t *sizes, size_t n)
{
    return (struct run_config){
        .dir = dir,
        .id = "00112233445566778899aabbccddeeff",
        .mode = mode,
        .route = toy_route(n),
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

/* ---- activations */

struct run_acts toy_acts(const struct run_config *cfg, size_t a_layer, size_t bytes, size_t buffers)
{
    size_t n = a_layer * (run_blocks(cfg) - 2);

    assert(n <= TOY_PIECES);
    return (struct run_acts){ .n = n, .bytes = bytes, .buffers = buffers,
                              .area = (uint64_t)n * bytes };
}

/* Of a step's pieces those of one layer. A layer may have none, but the first; pieces are of any
 * size, and go on with the record under way as often as they begin one. */
static size_t pieces_of(const struct run_config *cfg, uint64_t step, size_t block,
                        struct act_item *piece)
{
    size_t layers = run_blocks(cfg) - 2, most = cfg->acts.n / layers;
    size_t n = most, seed = (size_t)step * 131 + block * 17 + cfg->acts.bytes;

    if (block < 1 || block > layers)
        return 0;
    if (step % 4 == 3 && block > 1)
        n = seed % (most + 1);
    for (size_t j = 0; j < n; j++) {
        size_t odd = (seed + j * 29) * 2654435761u >> 7;

        piece[j].first = j == 0 || odd % (1 + seed % 13) == 0;
        piece[j].bytes = step % 2 && j % 3 == 0 ? cfg->acts.bytes : 1 + odd % cfg->acts.bytes;
    }
    return n;
}

size_t toy_pieces(const struct run_config *cfg, uint64_t step, struct act_item *piece)
{
    size_t n = 0;

    for (size_t b = 0; b < run_blocks(cfg); b++)
        n += pieces_of(cfg, step, b, piece + n);
    return n;
}

static unsigned char piece_byte(uint64_t step, size_t block, size_t j, size_t i)
{
    return (unsigned char)((step * 31 + block * 7 + j + 1) * (i + 3) >> 3);
}

static int pieces_leave(const struct run_config *cfg, struct stream *s, uint64_t step, size_t block,
                        size_t *left, struct err *err)
{
    struct act_item piece[TOY_PIECES];
    size_t           n = pieces_of(cfg, step, block, piece);

    for (size_t j = 0; j < n; j++) {
        void *place;
        int   rc = stream_push(s, piece[j].first, &place, err);

        if (rc)
            return rc;
        for (size_t i = 0; i < piece[j].bytes; i++)
            ((unsigned char *)place)[i] = piece_byte(step, block, j, i);
        stream_pushed(s, piece[j].bytes, --*left);
    }
    return 0;
}

static int piece_find(const struct run_config *cfg, struct stream *s, uint64_t step, size_t block,
                      size_t j, size_t bytes, struct err *err)
{
    void *place;
    int   rc = stream_pop(s, &place, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < bytes && !devices_fake(cfg); i++)
        assert(((unsigned char *)place)[i] == piece_byte(step, block, j, i));
    stream_popped(s);
    return 0;
}

static int pieces_find(const struct run_config *cfg, struct stream *s, uint64_t step, size_t block,
                       struct err *err)
{
    struct act_item piece[TOY_PIECES];
    size_t           end = pieces_of(cfg, step, block, piece);
    int              rc = 0;

    for (size_t begin = end; end > 0 && !rc; end = begin) {
        while (!piece[--begin].first)
            ;
        for (size_t j = begin; j < end && !rc; j++)
            rc = piece_find(cfg, s, step, block, j, piece[j].bytes, err);
    }
    return rc;
}

/* ---- a step */

int toy_forward(const struct run_config *cfg, struct stream *s, uint64_t step, const void **wire,
                double *loss, struct err *err)
{
    struct act_item all[TOY_PIECES];
    size_t           left = toy_pieces(cfg, step, all);
    int              rc = stream_begin(s, STREAM_TRAIN, step, err);

    *loss = 0;
    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++) {
        rc = stream_acquire(s, b, &wire[b], err);
        for (size_t i = 0; !rc && i < run_whole(cfg, b); i++)
            *loss += dtype_get(wire[b], cfg->wire_dt, i) * (double)(i % 13);
        if (!rc)
            rc = pieces_leave(cfg, s, step, b, &left, err);
        if (!rc && b < run_blocks(cfg) - 1)
            stream_release(s, b);
    }
    return rc ? rc : stream_acquire(s, 0, &wire[0], err);
}

/* A block's gradient of one group of this rank's, which must come fresh; block 0's is asked for
 * twice, as a tied head has it. wire NULL: its parameters are not at hand. poison: a NaN, in the
 * last group of all. */
static int gradient(const struct run_config *cfg, struct stream *s, uint64_t step, size_t b,
                    size_t group, const void *wire, int poison, struct err *err)
{
    size_t of_all = cfg->ranks.rank * run_groups(cfg) + group;
    float *grad, *again;
    int    fresh, rc = stream_grad(s, b, group, &grad, &fresh, err);

    assert(rc || fresh == 1);
    if (rc)
        return rc;
    for (size_t i = 0; i < run_whole(cfg, b); i++) {
        float w = wire ? 0.1f * dtype_get(wire, cfg->wire_dt, i) : 0.001f * (float)(i % 7);

        grad[i] = w + sinf((float)(i * (b + 1) + step + 3 * of_all)) * 0.3f;
    }
    if (poison && of_all + 1 == size_max(cfg->ranks.groups, 1))
        grad[5] = NAN;
    if (b > 0)
        return 0;
    rc = stream_grad(s, b, group, &again, &fresh, err);
    assert(rc || (fresh == 0 && again == grad));
    return rc;
}

/* A block on the way back. */
static int backward(const struct run_config *cfg, struct stream *s, uint64_t step, size_t b,
                    const void **wire, int poison, struct norm_sum *norm, struct err *err)
{
    size_t last = run_blocks(cfg) - 1;
    int    rc = b > 0 && b < last ? stream_acquire(s, b, &wire[b], err) : 0;

    for (size_t g = 0; g < run_groups(cfg) && !rc; g++)
        rc = gradient(cfg, s, step, b, g, b ? wire[b] : NULL, poison && b == 2, err);
    if (!rc)
        rc = pieces_find(cfg, s, step, b, err);
    if (rc)
        return rc;
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

/* What a step ends with when all gradients are sent: every third is clipped. */
static int update(const struct run_config *cfg, struct stream *s, struct stream_step *up,
                  const struct norm_sum *norm, double loss, struct err *err)
{
    assert(norm->nonfinite == up->row.skipped);
    up->skip = norm->nonfinite;
    if (up->row.step % 3 == 1 && !up->skip)
        update_numbers(cfg, s, 1.0 / (1.0 + sqrt(norm->sumsq)), &up->optim);
    up->row.loss = loss;
    return stream_update(s, up, err);
}

int toy_step(const struct run_config *cfg, struct stream *s, uint64_t step, int poison, size_t quit,
             double *loss, struct err *err)
{
    const void        *wire[TOY_BLOCKS];
    struct norm_sum norm = { 0 };
    struct stream_step up = { .row = { .step = step, .skipped = poison } };
    int                rc = toy_forward(cfg, s, step, wire, loss, err);

    assert(run_blocks(cfg) <= TOY_BLOCKS);
    update_numbers(cfg, s, 1.0, &up.optim);
    stream_expect(s, &up.optim);
    for (size_t b = run_blocks(cfg); b-- > 0 && !rc;) {
        rc = backward(cfg, s, step, b, wire, poison, &norm, err);
        if (quit && b == quit)
            return rc;
        if (!rc && b == 1 && toy_before_norm)
            toy_before_norm(s, step);
    }
    rc = rc ? rc : stream_norm_end(s, &norm, err);
    return rc ? rc : update(cfg, s, &up, &norm, *loss, err);
}

/* One use of a block: what it reads counts for the loss, and for the gradient if there is one. */
static int use(const struct run_config *cfg, struct stream *s, struct route_at at, uint64_t step,
               int poison, double *loss, struct norm_sum *norm, struct err *err)
{
    const void *wire = NULL;
    size_t      n = run_whole(cfg, at.block);
    int         rc = 0;

    if (at.uses & ROUTE_READ)
        rc = stream_acquire(s, at.block, &wire, err);
    for (size_t i = 0; !rc && wire && i < n; i++)
        *loss += dtype_get(wire, cfg->wire_dt, i) * (double)(i % 13);
    for (size_t g = 0; g < run_groups(cfg) && !rc && at.uses & ROUTE_ADD; g++)
        rc = gradient(cfg, s, step, at.block, g, wire, poison, err);
    if (wire)
        stream_release(s, at.block);
    return !rc && at.uses & ROUTE_SEND ? stream_send_grad(s, at.block, norm, err) : rc;
}

int toy_pass(const struct run_config *cfg, struct stream *s, enum stream_pass pass, uint64_t step,
             int poison, double *loss, struct norm_sum *norm, struct err *err)
{
    size_t first = route_block(&cfg->route, STREAM_TRAIN, ROUTE_SEND, 0);
    int    rc = stream_begin(s, pass, step, err);

    *loss = 0;
    for (size_t i = 0; !rc && route_at(&cfg->route, pass, i).uses; i++) {
        struct route_at at = route_at(&cfg->route, pass, i);

        rc = use(cfg, s, at, step, poison && at.block == first, loss, norm, err);
    }
    return rc;
}

int toy_order_step(const struct run_config *cfg, struct stream *s, uint64_t step, int poison,
                   double *loss, struct err *err)
{
    struct norm_sum norm = { 0 };
    struct stream_step up = { .row = { .step = step, .skipped = poison } };
    int                rc;

    update_numbers(cfg, s, 1.0, &up.optim);
    stream_expect(s, &up.optim);
    rc = toy_pass(cfg, s, STREAM_TRAIN, step, poison, loss, &norm, err);
    rc = rc ? rc : stream_norm_end(s, &norm, err);
    return rc ? rc : update(cfg, s, &up, &norm, *loss, err);
}

int toy_params_sum(const struct run_config *cfg, uint32_t *sum, struct err *err)
{
    struct run_reader   *r = NULL;
    struct params_source src;
    int                  rc = run_reader(&r, &src, cfg, err);

    *sum = 0;
    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++) {
        float *p = malloc(sizeof *p * cfg->block_params[b]);

        assert(p);
        rc = src.read(src.ctx, b, 0, cfg->block_params[b], p, err);
        *sum = crc32c(*sum, p, sizeof *p * cfg->block_params[b]);
        free(p);
    }
    run_reader_close(r);
    return rc;
}
