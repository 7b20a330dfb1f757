/* gguf_export.c: writes a GGUF file: the sizes (gguf_config.c), the tokenizer
 * (data/text/tokenizer_gguf_write.c), then the tensors, each in the file's order of rows. A piece
 * of at most PIECE parameters is in memory, or a band of rows of one of GPT-2's matrices. */
#include "model/file/gguf_export.h"

#include "data/base/round.h"
#include "data/text/tokenizer_gguf.h"
#include "model/file/gguf_config.h"

enum { PIECE = 1 << 16, BAND = 4 << 20 };

static const struct { const char *word; enum gguf_type type; } types[] = {
    { "f16", GGUF_TYPE_F16 }, { "bf16", GGUF_TYPE_BF16 }, { "f32", GGUF_TYPE_F32 },
    { "q8_0", GGUF_TYPE_Q8_0 },
};
enum { TYPES = sizeof types / sizeof *types };

const char    *gguf_type_word(size_t i) { return i < TYPES ? types[i].word : NULL; }
enum gguf_type gguf_type_at(size_t i) { return types[i].type; }

/* ---- one tensor ---- */

struct writing {
    struct gguf_writer     *w;
    const struct hf_export *x;
    enum gguf_type          type;     // of matrices
    size_t                  block, t; // the tensor being written, and its first block
    float                  *values;   // room for a piece, and for a band
    uint64_t                done;     // parameters written
};

static int read_part(struct writing *k, size_t at, size_t n, float *out, struct err *err)
{
    const struct params_source *s = &k->x->source;
    int                         rc = 0;

    for (size_t part; n > 0 && !rc; at += part, out += part, n -= part) {
        struct arch_spot spot = arch_spot(&k->x->config, k->block, k->t, at);

        part = size_min(spot.left, n);
        rc = s->read(s->ctx, spot.block, spot.i, part, out, err);
    }
    return rc;
}

static int add(struct writing *k, float *values, size_t n, struct err *err)
{
    float plus = gguf_plus(&k->x->config, k->t);

    for (size_t i = 0; i < n && plus > 0; i++)
        values[i] += plus;
    int rc = gguf_writer_add(k->w, values, n, err);

    return rc ? rc : watch_look(k->x->watch, k->done += n, arch_total(&k->x->config), err);
}

/* Writes rows as they are, or permuted. Pieces are whole blocks of the type. */
static int write_rows(struct writing *k, struct err *err)
{
    const struct model_config *g = &k->x->config;
    size_t width = arch_cols(g, k->t), total = arch_size(g, k->t);
    int    permuted = gguf_rows(g, k->t) == GGUF_ROWS_INTERLEAVED, rc = 0;

    for (size_t at = 0, n; at < total && !rc; at += n) {
        size_t from = permuted ? gguf_row_ours(g, at / width) * width + at % width : at;

        n = size_min(PIECE, permuted ? width - at % width : total - at);
        rc = read_part(k, from, n, k->values, err);
        rc = rc ? rc : add(k, k->values, n, err);
    }
    return rc;
}

/* Fills a band: `cols` columns from `first` on, turned into rows. Whole rows of ours are read
 * several at a time. */
static int read_band(struct writing *k, size_t first, size_t cols, float *band, float *piece,
                     struct err *err)
{
    size_t in = arch_rows(&k->x->config, k->t), outs = arch_cols(&k->x->config, k->t);
    size_t most = cols == outs ? size_max(PIECE / outs, 1) : 1;
    int    rc = 0;

    for (size_t i = 0, rows; i < in && !rc; i += rows) {
        rows = size_min(most, in - i);
        rc = read_part(k, i * outs + first, rows * cols, piece, err);
        for (size_t at = 0; at < rows * cols && !rc; at++)
            band[at % cols * in + i + at / cols] = piece[at];
    }
    return rc;
}

/* Writes the columns of our matrix (in, out) as rows, a band of them at a time. */
static int write_transposed(struct writing *k, struct err *err)
{
    const struct model_config *g = &k->x->config;
    size_t in = arch_rows(g, k->t), outs = arch_cols(g, k->t),
           most = size_min(outs, size_max(BAND / in, 1));
    float *band = malloc(most * in * sizeof *band),
          *piece = malloc(size_max(most, PIECE) * sizeof *piece);
    int    rc = band && piece ? 0 : err_set(err, -ENOMEM, "no memory to turn a tensor round");

    for (size_t first = 0, cols; first < outs && !rc; first += cols) {
        cols = size_min(most, outs - first);
        rc = read_band(k, first, cols, band, piece, err);
        rc = rc ? rc : add(k, band, cols * in, err);
    }
    free(band);
    free(piece);
    return rc;
}

/* ---- all tensors ---- */

static int each(struct writing *k, int (*fn)(struct writing *k, struct err *err), struct err *err)
{
    const struct model_config *g = &k->x->config;
    int                        rc = 0;

    for (k->block = 0; k->block < arch_blocks(g) && !rc; k->block++)
        for (k->t = ARCH_BEFORE; !rc && !arch_is_later(g, k->block) &&
                                 arch_next(g, k->block, &k->t);)
            rc = fn(k, err);
    return rc;
}

static int declare(struct writing *k, struct err *err)
{
    char     name[GGUF_NAME];
    uint64_t dims[2];
    int      n = gguf_dims(dims, &k->x->config, k->t);

    gguf_name(name, &k->x->config, k->block, k->t);
    return gguf_writer_declare(k->w, name, gguf_type_of(&k->x->config, k->t, k->type), n, dims,
                               err);
}

static int write_one(struct writing *k, struct err *err)
{
    return gguf_rows(&k->x->config, k->t) == GGUF_ROWS_TRANSPOSED ? write_transposed(k, err)
                                                                  : write_rows(k, err);
}

/* Declares or writes the factors of Llama 3.1's RoPE. */
static int freqs(struct writing *k, int writes, struct err *err)
{
    const struct rope *r = &k->x->config.rope;
    size_t             n = r->D / 2;

    if (r->type != ROPE_LLAMA3)
        return 0;
    if (!writes)
        return gguf_writer_declare(k->w, GGUF_ROPE_FREQS, GGUF_TYPE_F32, 1, &(uint64_t){ n }, err);
    for (size_t j = 0; j < n; j++)
        k->values[j] = gguf_rope_factor(r, j);
    return gguf_writer_add(k->w, k->values, n, err);
}

static int write_tensors(struct writing *k, struct err *err)
{
    int rc = freqs(k, 0, err);

    rc = rc ? rc : each(k, declare, err);
    rc = rc ? rc : freqs(k, 1, err);
    rc = rc ? rc : each(k, write_one, err);
    return rc ? rc : gguf_writer_flush(k->w, err);
}

/* ---- the file ---- */

static int put_tokenizer(struct gguf_writer *w, const struct gguf_export *x, struct err *err)
{
    const struct hf_export *m = x->model;
    struct tokenizer_gguf   to = { .vocab = m->config.vocab, .begin = m->begin, .end = -1,
                                   .turn = -1, .pad = m->pad };
    struct tokenizer       *tok = NULL;
    int32_t                 stops[HF_STOPS];
    const json_t           *begin = json_object_get(m->generation, "bos_token_id");
    size_t                  n = 0;
    int rc = m->generation ? hf_stops(stops, &n, m->generation, "generation_config.json", err) : 0;

    if (rc)
        return rc;
    if (!m->tokenizer) { // llama.cpp loads the model and takes ids
        gguf_put_text(w, "tokenizer.ggml.model", "none", 4);
        return 0;
    }
    to.end = m->endoftext >= 0 ? m->endoftext : n ? stops[0] : -1;
    for (size_t i = 0; i < n && to.turn < 0; i++)
        to.turn = stops[i] != to.end ? stops[i] : -1;
    if (to.begin < 0 && json_is_integer(begin))
        to.begin = (long)json_integer_value(begin);
    rc = tokenizer_open(&tok, m->tokenizer, err);
    rc = rc ? rc : tokenizer_gguf_put(w, tok, &to, m->notice, m->notice_size, err);
    if (!rc && x->template)
        gguf_put_text(w, "tokenizer.chat_template", x->template, strlen(x->template));
    tokenizer_close(tok);
    return rc;
}

int gguf_export(struct gguf_writer *w, const char *path, const struct gguf_export *x,
                struct err *err)
{
    struct writing k = { .w = w, .x = x->model, .type = x->type,
                         .values = malloc(PIECE * sizeof(float)) };
    int            rc = k.values ? 0 : err_set(err, -ENOMEM, "%s: out of memory", path);

    *w = (struct gguf_writer){ .data.f.fd = -1 };
    rc = rc ? rc : gguf_config_check(&x->model->config, err);
    rc = rc ? rc : gguf_writer_open(w, path, err);
    if (!rc)
        gguf_config_put(w, &x->model->config, x->type);
    rc = rc ? rc : put_tokenizer(w, x, err);
    rc = rc ? rc : write_tensors(&k, err);
    free(k.values);
    return rc;
}
