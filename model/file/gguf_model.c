/* gguf_model.c: reads parameters from a GGUF file, in Hugging Face's order of rows.
 *
 * Rows of interleaved tensors are read one by one. GPT-2's matrices are transposed: a band of our
 * rows is gathered at once, from a piece of each row of the file, and kept for the next call, since
 * blocks are read from front to back. */
#include "model/file/gguf_model.h"

#include "data/base/round.h"
#include "model/file/gguf_config.h"

#include <assert.h>

enum { BAND = 4 << 20 }; // elements of a band, unless one row of ours has more

struct gguf_model {
    struct gguf               *file;
    struct model_config        config;
    const struct gguf_tensor **tensor; // [block * n_params + t]
    float                     *band;   // rows [first, first + rows) of the tensor `of`
    const struct gguf_tensor  *of;
    size_t                     first, rows;
};

int gguf_model_config(json_t **out, const char *path, struct err *err)
{
    struct gguf *file;
    int          rc = gguf_open(&file, path, err);

    *out = NULL;
    rc = rc ? rc : gguf_config_json(out, file, err);
    gguf_close(file);
    return rc;
}

/* ---- opening ---- */

static int check_tensor(const struct gguf_model *m, const struct gguf_tensor *has, size_t t,
                        struct err *err)
{
    const char *type = gguf_type_name(has->type);
    uint64_t    dims[2];
    int         n = gguf_dims(dims, &m->config, t);

    if (!gguf_type_is_read(has->type))
        return err_misuse(err, "%s: tensor %s is %s, but F32, F16, BF16 and Q8_0 are read here: "
                          "llama-quantize --allow-requantize %s NEW.gguf F16 (of llama.cpp) makes "
                          "such a file, with what the quantisation has left",
                          m->file->path, has->name, type ? type : "of an unknown type",
                          m->file->path);
    if (has->n_dims == n && has->dims[0] == dims[0] && (n == 1 || has->dims[1] == dims[1]))
        return 0;
    return err_misuse(err, "%s: tensor %s does not have the shape that the file's keys ask for",
                      m->file->path, has->name);
}

/* A tied head may be there a second time. Its bytes must be those of the embeddings. */
static int check_head(struct gguf_model *m, const struct gguf_tensor *head, struct err *err)
{
    enum { PIECE = 4096 };
    const struct gguf_tensor *words = m->tensor[m->config.arch->tokens];
    float                     a[PIECE], b[PIECE];
    int                       rc = check_tensor(m, head, m->config.arch->tokens, err);

    for (uint64_t at = 0; at < head->count && !rc; at += PIECE) {
        size_t n = size_min(head->count - at, PIECE);

        rc = gguf_read(m->file, head, at, n, a, err);
        rc = rc ? rc : gguf_read(m->file, words, at, n, b, err);
        if (!rc && memcmp(a, b, n * sizeof *a))
            rc = err_misuse(err, "%s: the head output.weight is not the embeddings, but a %s has a "
                            "tied head", m->file->path, m->config.arch->title);
    }
    return rc;
}

static int refuse_others(struct gguf_model *m, struct err *err)
{
    size_t slots = arch_blocks(&m->config) * m->config.arch->n_params;
    int    rc = 0;

    for (size_t i = 0; i < m->file->n_tensors && !rc; i++) {
        const struct gguf_tensor *t = &m->file->tensors[i];
        size_t                    k = 0;

        while (k < slots && m->tensor[k] != t)
            k++;
        if (k < slots || !strcmp(t->name, GGUF_ROPE_FREQS))
            continue;
        rc = strcmp(t->name, "output.weight")
                 ? err_misuse(err, "%s: tensor %s does not belong to a %s of %zu layers",
                              m->file->path, t->name, m->config.arch->title, m->config.n_layer)
                 : check_head(m, t, err);
    }
    return rc;
}

static int find_tensors(struct gguf_model *m, struct err *err)
{
    const struct model_config *g = &m->config;
    int                        rc = 0;

    for (size_t b = 0; b < arch_blocks(g) && !rc; b++)
        for (size_t t = ARCH_BEFORE; !rc && arch_next(g, b, &t);) {
            const struct gguf_tensor **slot = &m->tensor[b * g->arch->n_params + t];
            char                       name[GGUF_NAME];

            gguf_name(name, g, b, t);
            *slot = gguf_tensor(m->file, name);
            rc = *slot ? check_tensor(m, *slot, t, err)
                       : err_misuse(err, "%s: tensor %s is missing", m->file->path, name);
        }
    return rc ? rc : refuse_others(m, err);
}

int gguf_model_open(struct gguf_model **out, const char *path, const struct model_config *g,
                    struct err *err)
{
    struct gguf_model *m = calloc(1, sizeof *m);
    int                rc = m ? 0 : err_set(err, -ENOMEM, "%s: out of memory", path);

    *out = NULL;
    if (rc)
        return rc;
    m->config = *g;
    m->tensor = calloc(arch_blocks(g) * g->arch->n_params, sizeof *m->tensor);
    rc = m->tensor ? gguf_open(&m->file, path, err)
                   : err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = rc ? rc : find_tensors(m, err);
    if (rc) {
        gguf_model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

void gguf_model_close(struct gguf_model *m)
{
    if (!m)
        return;
    gguf_close(m->file);
    free(m->tensor);
    free(m->band);
    free(m);
}

uint32_t gguf_model_sum(const struct gguf_model *m) { return m->file->sum; }

size_t gguf_model_tensors(const struct gguf_model *m, uint64_t *bytes)
{
    *bytes = m->file->bytes;
    return m->file->n_tensors;
}

/* ---- reading ---- */

/* Gathers the rows from `first` on of our matrix (in, out), which is the file's (out, in). */
static int band_read(struct gguf_model *m, const struct gguf_tensor *t, size_t first,
                     struct err *err)
{
    size_t in = t->dims[0], outs = t->dims[1], most = size_max(BAND / outs, 1);
    size_t rows = size_min(in - first, most), room = size_min(in, most);
    int    rc = 0;

    m->of = NULL;
    free(m->band);
    m->band = malloc((room * outs + room) * sizeof *m->band); // with room for a piece
    if (!m->band)
        return err_set(err, -ENOMEM, "no memory for a part of tensor %s", t->name);
    float *piece = m->band + room * outs;

    for (size_t o = 0; o < outs && !rc; o++) {
        rc = gguf_read(m->file, t, o * in + first, rows, piece, err);
        for (size_t i = 0; i < rows && !rc; i++)
            m->band[i * outs + o] = piece[i];
    }
    if (!rc)
        m->of = t, m->first = first, m->rows = rows;
    return rc;
}

static int read_transposed(struct gguf_model *m, const struct gguf_tensor *t, size_t in, size_t n,
                           float *out, struct err *err)
{
    size_t outs = t->dims[1];

    for (size_t part; n > 0; in += part, out += part, n -= part) {
        size_t row = in / outs;
        int    kept = m->of == t && row >= m->first && row < m->first + m->rows,
            rc = kept ? 0 : band_read(m, t, row, err);

        if (rc)
            return rc;
        part = size_min(n, (m->first + m->rows) * outs - in);
        memcpy(out, m->band + (in - m->first * outs), part * sizeof *out);
    }
    return 0;
}

static int read_interleaved(struct gguf_model *m, const struct gguf_tensor *t, size_t in, size_t n,
                            float *out, struct err *err)
{
    size_t width = t->dims[0];
    int    rc = 0;

    for (size_t part; n > 0 && !rc; in += part, out += part, n -= part) {
        size_t row = gguf_row_theirs(&m->config, in / width);

        part = size_min(n, width - in % width);
        rc = gguf_read(m->file, t, row * width + in % width, part, out, err);
    }
    return rc;
}

int gguf_model_read(struct gguf_model *m, size_t block, size_t t, size_t in, size_t n, float *out,
                    struct err *err)
{
    const struct gguf_tensor *has = m->tensor[block * m->config.arch->n_params + t];
    enum gguf_rows            rows = gguf_rows(&m->config, t);
    float                     plus = gguf_plus(&m->config, t);
    int rc = rows == GGUF_ROWS_TRANSPOSED    ? read_transposed(m, has, in, n, out, err)
             : rows == GGUF_ROWS_INTERLEAVED ? read_interleaved(m, has, in, n, out, err)
                                             : gguf_read(m->file, has, in, n, out, err);

    for (size_t i = 0; i < n && !rc && plus > 0; i++)
        out[i] -= plus;
    return rc;
}
