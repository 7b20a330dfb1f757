/* stream_read.c: runs the stream for evaluation and generation. One thread reads masters from any
 * source and converts them, ahead of the pass.
 *
 * Frames are those of route.h. The reader follows the announced pass and claims a frame for each
 * use. A frame with another block in it is refilled when all its uses are released. A frame is
 * never stale, because no version changes: if a claim finds its block there, nothing is read. So if
 * lanes have a frame for every block, nothing is read twice.
 *
 * Threads: the reader's lock guards everything below it in the struct. A frame's content belongs to
 * the reader while it fills the frame, and to the caller while the frame is claimed. After an error
 * the reader reads nothing more, and acquire returns its sentence. */
#include "offload/stream/stream_open.h"

#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/round.h"
#include "data/base/thread.h"
#include "kernels/elementwise.h"
#include "offload/layout/route.h"

#include <assert.h>
#include <omp.h>

enum {
    CONVERT_PARAMS = 65536, // read and converted at once, within the cache
    MAX_SPANS    = 1024,
};

#define NO_BLOCK SIZE_MAX

struct frame {
    unsigned char *bytes;
    size_t         holds;  // the block that is complete in it, or NO_BLOCK
    size_t         claims; // uses in this pass that are not released yet
};

struct stream_read {
    struct stream        stream;
    struct params_source source;
    struct route         route;
    size_t               n_frames, shared; // shared: frames of a lane that does not say how many
    enum dtype           dt;
    struct arena         arena;
    size_t              *block_params;
    struct frame        *frames; // (n_frames)
    float               *fp32;
    struct thread        reader; // its lock guards what follows
    uint64_t pass, step; // passes announced; the step of the first, under which all reading is
                         // recorded
    enum stream_pass kind;      // of the pass
    size_t          uses, claimed, acquired; // of the pass: all uses; those with a frame; those
                                             // that the caller has asked for
    int             failed;     // -errno, with why
    struct err      why;
};

static struct stream_read *of(struct stream *s) { return (struct stream_read *)s; }

static struct frame *frame_of(struct stream_read *r, size_t block)
{
    return &r->frames[route_buffer(&r->route, ROUTE_FRAMES, r->shared, block)];
}

/* ---- the reader ---- */

/* Reads a block into a frame. Called without the lock: the frame is the reader's alone. */
static int fill_frame(struct stream_read *r, const struct frame *f, size_t block, uint64_t step,
                      struct err *err)
{
    uint64_t start = clock_ns();
    size_t   params = r->block_params[block];

    for (size_t i = 0; i < params; i += CONVERT_PARAMS) {
        size_t n = size_min(params - i, CONVERT_PARAMS);
        float *fp32 = r->dt == DT_F32 ? (float *)(void *)f->bytes + i : r->fp32;
        int    rc = r->source.read(r->source.ctx, block, i, n, fp32, err);

        if (rc)
            return rc;
        if (r->dt != DT_F32)
            convert(f->bytes + i * dtype_bytes(r->dt), r->dt, fp32, DT_F32, n);
    }
    meter_span(r->stream.meter, step, PHASE_PARAM_READ, (int)block, -1, start, clock_ns(),
               (uint64_t)params * dtype_bytes(r->dt));
    return 0;
}

/* Claims a frame for the pass's next use, and fills it, unless the frame is claimed for another
 * block. */
static int reader_work(void *arg)
{
    struct stream_read *r = arg;

    if (r->reader.stop || r->failed || r->claimed == r->uses)
        return 0;
    size_t        block = route_block(&r->route, r->kind, ROUTE_READ, r->claimed);
    uint64_t      pass = r->pass, step = r->step;
    struct frame *f = frame_of(r, block);

    if (f->holds != block) {
        if (f->claims > 0)
            return 0;
        f->holds = NO_BLOCK;
        thread_unlock(&r->reader);
        omp_set_num_threads(1); // more threads would disturb those that compute
        int rc = fill_frame(r, f, block, step, &r->why); // read by others only if `failed`
        thread_lock(&r->reader);
        r->failed = rc;
        f->holds = rc ? NO_BLOCK : block;
    }
    if (r->pass == pass && !r->failed) {
        f->claims++;
        r->claimed++;
    }
    thread_changed(&r->reader);
    return 1;
}

/* ---- the pass ---- */

/* A new pass takes back what an old one claimed and did not use. */
static int read_begin(struct stream *s, enum stream_pass pass, uint64_t step, struct err *err)
{
    struct stream_read *r = of(s);

    (void)err;
    thread_lock(&r->reader);
    if (r->pass == 0)
        r->step = step;
    r->pass++;
    r->kind = pass;
    r->uses = route_uses(&r->route, pass, ROUTE_READ);
    r->claimed = r->acquired = 0;
    for (size_t i = 0; i < r->n_frames; i++)
        r->frames[i].claims = 0;
    thread_changed(&r->reader);
    thread_unlock(&r->reader);
    return 0;
}

static int read_acquire(struct stream *s, size_t block, const void **wire, struct err *err)
{
    struct stream_read *r = of(s);
    struct frame       *f = frame_of(r, block);

    thread_lock(&r->reader);
    assert(r->acquired < r->uses &&
           route_block(&r->route, r->kind, ROUTE_READ, r->acquired) == block);
    while (!r->failed && r->claimed <= r->acquired)
        thread_wait(&r->reader);
    r->acquired++;
    int rc = r->failed;
    if (rc && err)
        *err = r->why;
    thread_unlock(&r->reader);
    *wire = f->bytes;
    return rc;
}

static void read_release(struct stream *s, size_t block)
{
    struct stream_read *r = of(s);

    thread_lock(&r->reader);
    assert(frame_of(r, block)->holds == block && frame_of(r, block)->claims > 0);
    frame_of(r, block)->claims--;
    thread_changed(&r->reader);
    thread_unlock(&r->reader);
}

static void read_close(struct stream *s)
{
    struct stream_read *r = of(s);

    thread_release(&r->reader);
    arena_free(&r->arena);
    meter_free(r->stream.meter);
    free(r);
}

static const struct stream_ops stream_read_ops = {
    .begin = read_begin,
    .acquire = read_acquire,
    .release = read_release,
    .close = read_close,
};

/* ---- opening ---- */

static size_t frame_bytes(const size_t *block_params, struct route_span of, enum dtype dt)
{
    size_t params = 0;

    for (size_t b = of.first; b < of.end; b++)
        params = size_max(params, block_params[b]);
    return params * dtype_bytes(dt);
}

static void lay(struct stream_read *r, const size_t *block_params, struct arena *a)
{
    r->block_params = arena_take(a, route_blocks(&r->route) * sizeof *r->block_params);
    r->fp32 = arena_take(a, CONVERT_PARAMS * sizeof *r->fp32);
    r->frames = arena_take(a, r->n_frames * sizeof *r->frames);
    for (size_t i = 0; i < r->n_frames; i++) {
        struct route_span of = route_buffer_blocks(&r->route, ROUTE_FRAMES, r->shared, i);
        void             *bytes = arena_take(a, frame_bytes(block_params, of, r->dt));

        if (r->frames)
            r->frames[i] = (struct frame){ .bytes = bytes, .holds = NO_BLOCK };
    }
}

int stream_read_open(struct stream **out, const struct params_source *source,
                     const struct route *route, const size_t *block_params, enum dtype dt,
                     size_t frames, struct err *err)
{
    struct stream_read *r = calloc(1, sizeof *r);

    *out = NULL;
    assert(!route_fault(route));
    if (!r)
        return err_set(err, -ENOMEM, "out of memory for a stream");
    r->stream.ops = &stream_read_ops;
    r->source = *source;
    r->route = *route;
    r->shared = frames;
    r->n_frames = route_buffers(route, ROUTE_FRAMES, frames);
    r->dt = dt;
    thread_init(&r->reader, reader_work, r);
    lay(r, block_params, &r->arena);
    int rc = arena_map(&r->arena, "frames of parameters", err);
    if (!rc) {
        lay(r, block_params, &r->arena);
        memcpy(r->block_params, block_params, route_blocks(route) * sizeof *block_params);
        r->stream.meter = meter_new(MAX_SPANS, 0);
        rc = r->stream.meter ? thread_start(&r->reader, "reader", err)
                             : err_set(err, -ENOMEM, "out of memory for a stream");
    }
    if (rc)
        read_close(&r->stream);
    else
        *out = &r->stream;
    return rc;
}

void stream_read_memory(struct run_memory *out, const struct route *route,
                        const size_t *block_params, enum dtype dt)
{
    *out = (struct run_memory){
        .layer_frame = frame_bytes(block_params, route_shared(route), dt),
    };
    for (size_t i = 0; i < route_buffers(route, ROUTE_FRAMES, 0); i++)
        out->frames +=
            frame_bytes(block_params, route_buffer_blocks(route, ROUTE_FRAMES, 0, i), dt);
}
