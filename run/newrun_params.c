/* newrun_params.c: finds the initial parameters of a new run, and writes its states with them. */
#include "run/newrun_params.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "model/file/finite.h"
#include "model/file/peft.h"
#include "model/lora/adapted.h"
#include "run/folder/base_folder.h"
#include "run/folder/settings.h"

/* Initial parameters: those of a model, with new values for a head that it does not have; or,
 * without a model, all new values. */
struct beginning {
    const struct session *s;
    struct params_source  body;
    int                   bare; // an encoder with another kind of head: the whole head is new
};

static int begin_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct beginning  *b = ctx;
    const struct model_config *g = &b->s->config;
    size_t head = b->bare && block == arch_final_block(g) ? 0 : arch_score_offset(g, block);
    size_t old = !b->body.read || first >= head ? 0 : n < head - first ? n : head - first;
    int    rc = old ? b->body.read(b->body.ctx, block, first, old, out, err) : 0;

    if (!rc && old < n)
        arch_init_values(out + old, g, block, first + old, n - old, b->s->o.seed);
    return rc;
}

/* Store a checksum of sample values from each block. Each rank reads the initial parameters itself,
 * and job_run_alike compares the checksums. */
static int store_sample(struct session *s, const struct params_source *source, struct err *err)
{
    enum { VALUES = 64 };
    float    values[VALUES];
    uint32_t sum = 0;
    int      rc = 0;

    for (size_t b = 0; b < arch_blocks(&s->config) && !rc; b++) {
        size_t all = arch_block_size(&s->config, b), n = size_min(all - all / 2, VALUES);

        rc = source->read(source->ctx, b, all / 2, n, values, err); // skips norms, which are all 1
        sum = rc ? sum : crc32c(sum, values, n * sizeof *values);
    }
    return rc ? rc : settings_set(s->log, err, "init.sum=%08" PRIx32, sum);
}

/* Stores the checksum of the base, which exported adapters have. */
static int store_base(struct session *s, const struct params_source *source, struct err *err)
{
    char sum[BASE_SUM];
    int  rc = base_sum(sum, &s->config, source, err);

    return rc ? rc : settings_set(s->log, err, "lora.sum=%s", sum);
}

/* What a run begins with, while it is made. */
struct begun {
    struct beginning     new;
    struct params_source source;
    struct hf           *hf;
    struct peft         *adapter;
    struct finite        init;
    struct adapted       adapted; // of new adapters
};

/* Open the folders of the model and of its adapters. */
static int open_begun(struct begun *o, const struct session *s, const struct newrun *n,
                      struct err *err)
{
    struct watch w = work_begin(n->events, "checking %s", n->init);
    int          rc = hf_open(&o->hf, n->init, &w, err);

    if (!rc && n->adapter) {
        struct peft_base base = { hf_source(o->hf), hf_model(o->hf)->n_labels, 0 };

        rc = peft_open(&o->adapter, &s->config, &base, n->adapter, &w, err);
    }
    work_end(n->events);
    if (!rc && n->adapter)
        base_folder_other(n->events, o->adapter, n->adapter, n->init);
    if (rc)
        return rc;
    if (o->adapter)
        o->init = (struct finite){ peft_source(o->adapter), &s->config, n->adapter };
    else
        o->init = (struct finite){ hf_source(o->hf), hf_model(o->hf), n->init };
    o->new.body = finite_source(&o->init);
    return 0;
}

/* Find the initial parameters, by the blocks of the run's model. */
static int find_begun(struct begun *o, struct session *s, const struct newrun *n,
                      struct err *err)
{
    size_t labels = n->source_labels;
    int    headless = 0, rc = n->init ? open_begun(o, s, n, err) : 0;

    if (rc)
        return rc;
    if (n->source)
        o->new.body = *n->source;
    if (o->hf) {
        labels = hf_model(o->hf)->n_labels;
        headless = hf_model(o->hf)->headless != 0;
    }
    if (o->new.body.read && s->config.lora.rank && !o->adapter && !n->adapted) {
        o->adapted = (struct adapted){ &s->config, o->new.body, s->o.seed };
        o->new.body = adapted_source(&o->adapted);
    }
    o->new.bare = s->config.arch->encoder && (headless || !labels != !s->config.n_labels);
    o->source = o->new.body.read && labels == s->config.n_labels && !headless
                    ? o->new.body : (struct params_source){ begin_read, &o->new };
    return 0;
}

int newrun_params(struct session *s, const struct newrun *n, struct err *err)
{
    struct begun o = { .new = { .s = s } };
    int           rc = find_begun(&o, s, n, err);

    rc = rc ? rc : base_folder_make(s, n->base, &o.source, err);
    struct watch w = work_begin(n->events, "making the states of %s", n->dir);

    s->run.watch = &w;
    if (!rc && s->ranks.size > 1)
        rc = store_sample(s, &o.source, err);
    if (!rc && s->config.lora.rank && n->base)
        rc = store_base(s, &o.source, err);
    rc = rc ? rc : packed_format(&s->run, &s->config, &o.source, err);
    s->run.watch = NULL;
    work_end(n->events);
    peft_close(o.adapter);
    hf_close(o.hf);
    return rc;
}
