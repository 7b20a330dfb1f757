/* stream.c: what streams that only read refuse, and sets of parameters. */
#include "offload/stream.h"

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

int stream_grad(struct stream *s, size_t block, float **grad, int *fresh, struct err *err)
{
    return s->ops->grad ? s->ops->grad(s, block, grad, fresh, err) : only_reads(err);
}

int stream_send_grad(struct stream *s, size_t block, struct stream_norm *norm, struct err *err)
{
    return s->ops->send_grad ? s->ops->send_grad(s, block, norm, err) : only_reads(err);
}

int stream_update(struct stream *s, const struct stream_step *step, struct err *err)
{
    return s->ops->update ? s->ops->update(s, step, err) : only_reads(err);
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
