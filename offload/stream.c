/* stream.c: the calls of stream.h, each handed to the backend behind the stream. No state, no
 * arithmetic: what a pass means stands in stream.h, how it is done in the backends. */
#include "offload/stream.h"

#include <assert.h>
#include <errno.h>

static int only_reads(struct err *err)
{
    return err_set(err, -ENOTSUP,
                   "this stream only reads: it can evaluate and generate, not train");
}

int stream_begin(struct stream *s, enum stream_pass pass, uint64_t step, struct err *err)
{
    return pass == STREAM_TRAIN && !s->ops->update ? only_reads(err)
                                                   : s->ops->begin(s, pass, step, err);
}

void param_set_join(struct param_set *all, const struct param_set *part)
{
    if (part->n && (!all->n || part->block < all->block ||
                    (part->block == all->block && part->first < all->first))) {
        all->block = part->block;
        all->first = part->first;
    }
    all->n += part->n;
}

void param_set_add(struct param_set *all, size_t block, size_t from, struct reach_kept part)
{
    param_set_join(all, &(struct param_set){ part.n, block, from + part.first });
}

void stream_expect(struct stream *s, const struct optim_step *optim)
{
    if (s->ops->expect)
        s->ops->expect(s, optim);
}

int stream_acquire(struct stream *s, size_t block, const void **wire, struct err *err)
{
    return s->ops->acquire(s, block, wire, err);
}

void stream_release(struct stream *s, size_t block)
{
    s->ops->release(s, block);
}

int stream_grad(struct stream *s, size_t block, float **grad, int *fresh, struct err *err)
{
    return s->ops->grad ? s->ops->grad(s, block, grad, fresh, err) : only_reads(err);
}

int stream_send_grad(struct stream *s, size_t block, struct stream_norm *norm, struct err *err)
{
    return s->ops->send_grad ? s->ops->send_grad(s, block, norm, err) : only_reads(err);
}

int stream_push(struct stream *s, void **act, struct err *err)
{
    assert(s->ops->push);
    return s->ops->push(s, act, err);
}

void stream_pushed(struct stream *s, size_t bytes, size_t left)
{
    s->ops->pushed(s, bytes, left);
}

int stream_pop(struct stream *s, void **act, struct err *err)
{
    assert(s->ops->pop);
    return s->ops->pop(s, act, err);
}

void stream_popped(struct stream *s)
{
    s->ops->popped(s);
}

int stream_update(struct stream *s, const struct stream_step *step, struct err *err)
{
    return s->ops->update ? s->ops->update(s, step, err) : only_reads(err);
}

int stream_drain(struct stream *s, struct err *err)
{
    return s->ops->drain ? s->ops->drain(s, err) : 0;
}

int stream_masters(struct stream *s, uint64_t step, struct params_source *out, struct err *err)
{
    assert(s->ops->masters);
    return s->ops->masters(s, step, out, err);
}

int stream_masters_end(struct stream *s, struct err *err)
{
    return s->ops->masters_end(s, err);
}

uint64_t stream_applied(const struct stream *s)
{
    return s->ops->applied ? s->ops->applied(s) : 0;
}

struct meter *stream_meter(struct stream *s)
{
    return s->ops->meter(s);
}

void stream_close(struct stream *s)
{
    if (s)
        s->ops->close(s);
}
