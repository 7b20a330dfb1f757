/* records.c: copies items of activations to the stream and back. */
#include "model/layer/records.h"

#include "kernels/elementwise.h"

int records_push(struct records *r, void **place, struct err *err)
{
    uint64_t since = clock_ns();
    int      rc = stream_push(r->stream, r->first, place, err);

    open_span_waited(r->span, r->stream->meter, since);
    r->first = 0;
    return rc;
}

void records_push_done(struct records *r, size_t bytes)
{
    stream_pushed(r->stream, bytes, --r->left);
}

int records_pop(struct records *r, void **place, struct err *err)
{
    uint64_t since = clock_ns();
    int      rc = stream_pop(r->stream, place, err);

    open_span_waited(r->span, r->stream->meter, since);
    return rc;
}

void records_pop_done(struct records *r) { stream_popped(r->stream); }

int records_push_rows(struct records *r, const struct acts_rows *rows, size_t arrays, size_t n,
                      struct err *err)
{
    void *place;
    int   rc = records_push(r, &place, err);

    if (rc)
        return rc;
    char *at = place;
    for (size_t k = 0; k < arrays; at += n * rows[k++].bytes)
        copy_wide(at, rows[k].base, n * rows[k].bytes);
    records_push_done(r, (size_t)(at - (char *)place));
    return 0;
}

int records_pop_rows(struct records *r, const struct acts_rows *rows, size_t arrays, size_t n,
                     struct err *err)
{
    void *place;
    int   rc = records_pop(r, &place, err);

    if (rc)
        return rc;
    const char *at = place;
    for (size_t k = 0; k < arrays; at += n * rows[k++].bytes)
        copy_wide(rows[k].base, at, n * rows[k].bytes);
    records_pop_done(r);
    return 0;
}
