/* family.c: see family.h. */
#include "tests/family.h"

#include "data/json/json.h"
#include "data/base/round.h"
#include "data/tensors/safetensors.h"
#include "kernels/rng.h"
#include "model/decode.h"
#include "model/file/hf.h"
#include "tests/rig.h"
#include "tests/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* As make_families.py has them. */
enum { SEED = 20261123, SIGNS = 8, SAMPLES = 64, TOKENS = 1 << 20, HEAD = 2 + SIGNS };

/* ---- what is in the file ---- */

/* A line of `tensors`; what follows it. */
static const char *tensor_read(struct family_tensor *t, const char *line)
{
    int used;

    memset(t, 0, sizeof *t);
    assert_int_equal(sscanf(line, "%95s %f %f %d%n", t->name, &t->base,
                            &t->scale, &t->loose, &used),
                     4);
    t->count = 1;
    for (line += used; *line == ' '; t->n_dims++) {
        assert_true(t->n_dims < 4);
        t->dims[t->n_dims] = strtoull(line, (char **)&line, 10);
        t->count *= t->dims[t->n_dims];
    }
    assert_true(*line == '\n');
    return line + 1;
}

static void ids_make(struct family *m)
{
    size_t n = m->steps * m->accum * m->batch * (m->seq + 1);

    m->ids = malloc(n * sizeof *m->ids);
    assert_non_null(m->ids);
    for (size_t i = 0; i < n; i++)
        m->ids[i] = (int32_t)((rng_bits(SEED, TOKENS, i) >> 40) % m->vocab);
}

void family_list(struct family *m, const char *what)
{
    m->n = 0;
    for (const char *line = fixture_text(m->f, what); *line; m->n++) {
        assert_true(m->n < FAMILY_TENSORS);
        line = tensor_read(&m->tensor[m->n], line);
    }
}

void family_open(struct family *m, const char *name)
{
    char           path[256];
    const int32_t *size;

    snprintf(path, sizeof path, "tests/fixtures/families/%s.fix", name);
    *m = (struct family){ .name = name, .f = fixture_open(path) };
    size = fixture_i32(m->f, "sizes", 5);
    m->kind = fixture_text(m->f, "kind");
    m->batch = (size_t)size[0];
    m->seq = (size_t)size[1];
    m->accum = (size_t)size[2];
    m->steps = (size_t)size[3];
    m->vocab = (size_t)size[4];
    family_list(m, "tensors");
    if (!strcmp(m->kind, "causal"))
        ids_make(m);
}

void family_close(struct family *m)
{
    free(m->ids);
    fixture_close(m->f);
}

char *family_type(const struct family *m)
{
    json_t *config = json_loads(fixture_text(m->f, "config5"), 0, NULL);
    char   *type;

    assert_non_null(config);
    type = strdup(json_string_value(json_object_get(config, "model_type")));
    json_decref(config);
    return type;
}

/* ---- its folder ---- */

void family_values(const struct family_tensor *t, size_t stream, float *out)
{
    for (size_t k = 0; k < t->count; k++)
        out[k] = t->base + t->scale * (rng_uniform(SEED, stream, k) - 0.5f);
}

static void weights_write(const struct family *m, const char *path)
{
    struct safetensors_writer w;
    struct err                err;

    assert_int_equal(safetensors_writer_open(&w, path, ST_F32, &err), 0);
    for (size_t i = 0; i < m->n; i++)
        assert_int_equal(safetensors_writer_declare(&w, m->tensor[i].name, m->tensor[i].n_dims,
                                                    m->tensor[i].dims, &err),
                         0);
    for (size_t i = 0; i < m->n; i++) {
        const struct family_tensor *t = &m->tensor[i];
        float                      *values = malloc(t->count * sizeof *values);

        assert_non_null(values);
        family_values(t, i, values);
        assert_int_equal(safetensors_writer_add(&w, values, t->count, &err), 0);
        free(values);
    }
    assert_int_equal(safetensors_writer_commit(&w, &err), 0);
    safetensors_writer_close(&w);
}

void family_folder(const struct family *m, int version, const char *dir)
{
    const char *config = fixture_text(m->f, version == 4 ? "config4" : "config5");
    char        path[512];
    FILE       *f;

    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/config.json", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(config, f) >= 0);
    assert_int_equal(fclose(f), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    weights_write(m, path);
}

struct family_model family_read(const struct family *m, int version)
{
    struct hf          *h;
    struct err          err;
    struct family_model out;
    char                dir[512], name[64];

    snprintf(name, sizeof name, "%s-%d", m->name, version);
    snprintf(dir, sizeof dir, "%s", tempdir_at(name));
    family_folder(m, version, dir);
    if (hf_open(&h, dir, NULL, &err))
        fail_msg("%s", err.text);
    out.config = *hf_model(h);
    out.params = malloc(arch_total(&out.config) * sizeof *out.params);
    assert_non_null(out.params);
    struct params_source source = hf_source(h);
    for (size_t b = 0, at = 0; b < arch_blocks(&out.config); b++) {
        size_t n = arch_block_size(&out.config, b);

        assert_int_equal(source.read(source.ctx, b, 0, n, out.params + at, &err), 0);
        at += n;
    }
    hf_close(h);
    return out;
}

/* Blocks one after the other, as parameters. */
struct flat { const struct model_config *config; const float *values; };

static int flat_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct flat *f = ctx;

    (void)err;
    for (size_t b = 0; b < block; b++)
        first += arch_block_size(f->config, b);
    memcpy(out, f->values + first, n * sizeof *out);
    return 0;
}

const char *family_written(const struct model_config *config, const float *values, const char *name)
{
    struct flat      flat = { config, values };
    struct hf_export x = { .config = *config, .dtype = ST_F32, .source = { flat_read, &flat },
                           .endoftext = -1, .begin = -1, .pad = -1 };
    const char      *dir = tempdir_at(name);
    struct err       err;

    if (hf_export(dir, &x, &err))
        fail_msg("%s", err.text);
    return dir;
}

/* ---- its batches ---- */

static void causal_batch(const struct family *m, uint64_t step, size_t micro, struct batch *b)
{
    const int32_t *row = m->ids + (step * m->accum + micro) * m->batch * (m->seq + 1);

    for (size_t i = 0; i < m->batch; i++, row += m->seq + 1) {
        memcpy(b->x + i * m->seq, row, m->seq * sizeof *row);
        memcpy(b->y + i * m->seq, row + 1, m->seq * sizeof *row);
    }
}

/* Labelled rows, or tokens of which some are masked. */
static void padded_batch(const struct family *m, uint64_t step, struct batch *b)
{
    size_t         rows = m->steps * m->batch, at = step * m->batch;
    const int32_t *x = fixture_i32(m->f, "x", rows * m->seq) + at * m->seq;
    const int32_t *length = fixture_i32(m->f, "lengths", rows) + at;

    memcpy(b->x, x, m->batch * m->seq * sizeof *x);
    if (b->y)
        memcpy(b->y, fixture_i32(m->f, "y", rows * m->seq) + at * m->seq,
               m->batch * m->seq * sizeof *x);
    else
        memcpy(b->label, fixture_i32(m->f, "y", rows) + at, m->batch * sizeof *b->label);
    for (size_t i = 0; i < m->batch; i++)
        b->last[i] = length[i] - 1;
    if (b->types)
        memcpy(b->types, fixture_i32(m->f, "types", rows * m->seq) + at * m->seq,
               m->batch * m->seq * sizeof *x);
}

int family_batch(void *family, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    const struct family *m = family;

    (void)err;
    assert_true(b->rows == m->batch && b->seq == m->seq && step < m->steps && micro < m->accum);
    if (m->ids)
        causal_batch(m, step, micro, b);
    else
        padded_batch(m, step, b);
    return 0;
}

/* ---- what was computed ---- */

/* A tensor of a folder, under its name or without what stands before the first point: GPT-2's
 * folders may leave "transformer." out. */
static float *tensor_load(struct safetensors *s, const struct family_tensor *t)
{
    const struct st_tensor *found = safetensors_find(s, t->name);
    float                  *values = malloc(t->count * sizeof *values);
    struct err              err;

    if (!found && strchr(t->name, '.'))
        found = safetensors_find(s, strchr(t->name, '.') + 1);
    if (!found)
        fail_msg("there is no %s", t->name);
    assert_non_null(values);
    assert_int_equal(found->count, t->count);
    assert_int_equal(safetensors_read(s, found, 0, t->count, values, &err), 0);
    return values;
}

static size_t samples_of(const struct family_tensor *t) { return size_min(t->count, SAMPLES); }

/* How large: the norm and the largest magnitude. */
struct extent { double norm, most; };

/* Tensor i against its sketch, measured by `scale`. */
static double distance(const struct family_tensor *t, size_t i, const float *a, const float *sketch,
                       const struct extent *scale, int by_norm)
{
    double sum[SIGNS] = { 0 }, square = 0, worst = 0;
    size_t n = samples_of(t);

    for (size_t k = 0; k < t->count; k++) {
        uint64_t signs = rng_bits(SEED + 1, i, k);

        if (!isfinite(a[k]))
            return INFINITY;
        for (int p = 0; p < SIGNS; p++)
            sum[p] += signs >> p & 1 ? -(double)a[k] : (double)a[k];
    }
    for (int p = 0; p < SIGNS; p++)
        square += pow(sum[p] - (double)sketch[2 + p], 2);
    for (size_t j = 0; !by_norm && j < n; j++)
        worst = fmax(worst, fabs((double)a[j * t->count / n] - (double)sketch[HEAD + j]));
    return fmax(worst / scale->most, sqrt(square / SIGNS) / scale->norm);
}

double family_compare(const struct family *m, const char *what, const char *dir, int by_norm,
                      int loose, double tolerance)
{
    const float        *sketch = fixture_f32(m->f, what, 0);
    struct extent       all = { 0 };
    struct safetensors *s;
    struct err          err;
    double              worst = 0;

    for (size_t i = 0, at = 0; i < m->n; at += HEAD + samples_of(&m->tensor[i++])) {
        all.norm = hypot(all.norm, (double)sketch[at]);
        all.most = fmax(all.most, (double)sketch[at + 1]);
    }
    if (safetensors_open(&s, dir, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < m->n; sketch += HEAD + samples_of(&m->tensor[i++])) {
        struct extent own = { (double)sketch[0], (double)sketch[1] };
        float        *a = tensor_load(s, &m->tensor[i]);
        double        d = distance(&m->tensor[i], i, a, sketch,
                                   own.norm < 1e-6 * all.norm ? &all : &own, by_norm);

        free(a);
        if (m->tensor[i].loose && !loose)
            continue;
        if (!(d <= tolerance))
            fail_msg("%s: %s of %s: %g, tolerance %g", m->name, what, m->tensor[i].name, d,
                     tolerance);
        worst = fmax(worst, d);
    }
    safetensors_close(s);
    return worst;
}

void family_logits(const struct family *m, const struct model_config *config, const float *params,
                   size_t single)
{
    struct stream_plain_options so = { .config = *config, .wire = DT_F32, .params = params };
    struct decode_options       o = { .config = *config, .batch = m->batch, .positions = m->seq,
                                      .prefill = m->seq, .dtype = DT_F32, .threads = 2 };
    struct stream              *s = stream_plain_open(&so);
    const int32_t              *ids[8];
    size_t                      n[8];
    const float                *out;
    struct decode              *d;
    struct err                  err;

    assert_true(m->batch <= 8);
    if (decode_open(&d, &o, s, &err))
        fail_msg("%s", err.text);
    for (size_t k = 0; k <= single; k++) {
        for (size_t i = 0; i < m->batch; i++) {
            ids[i] = k ? ids[i] + n[i] : m->ids + i * (m->seq + 1);
            n[i] = k ? 1 : m->seq - single;
        }
        assert_int_equal(decode_feed(d, ids, n, &out, &err), 0);
    }
    n[0] = m->batch * m->vocab;
    double off = max_distance(out, fixture_f32(m->f, "last_logits", n[0]), n[0], 0);
    if (!(off <= 1e-5))
        fail_msg("logits off by %g", off);
    decode_close(d);
    stream_close(s);
}
