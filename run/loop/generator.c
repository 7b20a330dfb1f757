/* generator.c: opens what generation needs. The chunks in which a prompt is fed become smaller
 * until the memory plan fits. */
#include "run/loop/generator.h"

#include "data/base/machine.h"
#include "data/base/number.h"
#include "data/base/round.h"
#include "offload/devices/meter.h"
#include "offload/stream/stream_open.h"

#include <math.h>

enum { LEAST_PREFILL = 64 };

int generator_ends(const struct generator *g, int32_t id)
{
    size_t i = 0;

    while (i < g->n_stops && g->stops[i] != id)
        i++;
    return i < g->n_stops;
}

/* Find the ids that end a text: the tokenizer's, and those of the model's folder. */
static int find_stops(struct generator *g, const char *model, struct err *err)
{
    int32_t end = tokenizer_endoftext(g->tok);
    size_t  n = 0;
    int     rc = model_folder_generation(&g->generation, &g->model, err);

    rc = rc ? rc : hf_stops(g->stops, &n, g->generation, model, err);
    if (end >= 0)
        g->stops[n++] = end;
    g->n_stops = n;
    return rc;
}

int generator_open(struct generator *g, const char *model, enum model_which which,
                   const char *tokenizer, const struct read_opts *read,
                   const struct sampling *sampling, const struct events *events, struct err *err)
{
    *g = (struct generator){ .read = *read, .sampling = *sampling };
    int rc = model_folder_open(&g->model, model, read->base, which,
                               disk_name((size_t)read->disk), events, err);
    if (rc)
        return rc;
    if (arch_classifies(&g->model.config))
        return err_misuse(err, "%s is a classifier, it does not continue texts: siTrain eval "
                          "measures it", model);
    if (read->dtype < 0)
        g->read.dtype = model_folder_dtype(&g->model);
    g->context = read->seq ? read->seq : g->model.config.n_positions;
    g->vocab = g->model.config.vocab;
    if (g->context > g->model.config.n_positions)
        return err_misuse(err, "--seq %zu: the model has %zu positions", g->context,
                          g->model.config.n_positions);
    rc = model_folder_given(&g->model, tokenizer, err);
    rc = rc ? rc : model_folder_tokenizer(&g->tok, &g->model, tokenizer, err);
    return rc ? rc : find_stops(g, model, err);
}

static int open_stream(struct generator *g, const struct decode_options *d, struct err *err)
{
    struct memory_request want = { .host_mem = g->read.host_mem,
                                   .reads = &g->model.run.run,
                                   .source_bytes = g->model.bytes,
                                   .decode = d,
                                   .model = { .config = d->config, .dtype = d->dtype } };
    struct budget         plan;
    int                   rc = memory_plan(&plan, &want, err);

    rc = rc ? rc : memory_limits(&plan, &want, err);
    if (rc)
        return rc;
    g->frames = plan.frames;
    if (g->model.masters)
        run_reader_rounded(g->model.masters, d->dtype);
    return stream_read_open(&g->stream, &g->model.source, &g->model.run.run.route,
                            g->model.run.run.unpacked, d->dtype, plan.frames, err);
}

int generator_start(struct generator *g, size_t batch, size_t positions, size_t longest,
                    struct err *err)
{
    const struct read_opts *o = &g->read;
    struct decode_options   d = { .config = g->model.config, .batch = batch, .positions = positions,
                                  .prefill = longest, .dtype = (enum dtype)g->read.dtype,
                                  .engine = (enum matmul_engine)o->blas,
                                  .threads = (int)threads_here(o->threads) };
    int                     rc;

    g->batch = batch;
    g->scratch = malloc(3 * g->vocab * sizeof *g->scratch);
    g->marks = calloc(g->vocab, 1);
    if (!g->scratch || !g->marks)
        return err_set(err, -ENOMEM, "out of memory for %zu logits", g->vocab);
    while ((rc = open_stream(g, &d, err)) && err->misuse && d.prefill > LEAST_PREFILL)
        d.prefill = size_max(d.prefill / 2, LEAST_PREFILL);
    if (rc)
        return rc;
    memset(err, 0, sizeof *err);
    g->prefill = d.prefill;
    return decode_open(&g->decode, &d, g->stream, err);
}

void generator_close(struct generator *g)
{
    decode_close(g->decode);
    stream_close(g->stream);
    tokenizer_close(g->tok);
    model_folder_close(&g->model);
    json_decref(g->generation);
    free(g->scratch);
    free(g->marks);
    memset(g, 0, sizeof *g);
}

/* Report the streaming speed. The bytes that one pass reads again are computed; the rate is
 * measured over the first `passes` passes. */
static void tell_speed(const struct generator *g, size_t passes)
{
    const struct events     *e = g->model.events;
    const struct model_config *config = &g->model.config;
    double   wire = (double)dtype_bytes((enum dtype)g->read.dtype);
    struct route_reads each = route_reads(&g->model.run.run.route, STREAM_GENERATE, g->frames,
                                          g->model.run.run.unpacked, 1);
    double   again = wire * (double)each.params;
    double   all = wire * (double)arch_total(config) + (double)(passes - 1) * again;
    double   seconds = (double)meter_total(g->stream->meter, 0, PHASE_PARAM_READ) / 1e9;

    if (each.blocks && seconds > 0 && e && e->streaming)
        e->streaming(e->ctx, &(struct streaming){ arch_blocks(config), each.blocks, again,
                                                  all / seconds });
}

int generator_feed(struct generator *g, const int32_t *const *ids, const size_t *n,
                   const float **logits, struct err *err)
{
    size_t passes = 1;
    int    rc = decode_feed(g->decode, ids, n, logits, err);

    for (size_t i = 0; !rc && i < g->batch * g->vocab; i++)
        if (n[i / g->vocab] && !isfinite((*logits)[i]))
            rc = err_set(err, -ERANGE, "a logit of the model is %f, no number: what it computes is "
                         "too large", nan_plain((*logits)[i]));
    if (rc || g->timed)
        return rc;
    for (size_t b = 0; b < g->batch; b++)
        passes = size_max(passes, div_up(n[b], g->prefill));
    tell_speed(g, passes);
    g->timed = 1;
    return 0;
}

int32_t generator_choose(const struct generator *g, const float *logits, uint64_t sequence,
                         uint64_t position, const struct token_buf *ids)
{
    size_t                 n = size_min(tokenizer_vocab(g->tok), g->vocab);
    const struct sampling *s = &g->sampling;

    if (s->penalty > 0 && (s->penalty < 1 || s->penalty > 1)) {
        sampling_penalise(s, logits, n, ids->ids, ids->n, g->scratch + 2 * n, g->marks);
        logits = g->scratch + 2 * n;
    }
    return sampling_pick(s, logits, n, sequence, position, g->scratch);
}
