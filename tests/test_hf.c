/* Hugging Face folders: what is written is read back; variants of names are found; what we would
 * compute otherwise is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/dtype.h"
#include "model/file/hf_base.h"
#include "model/lora/lora.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ODD                                                                                \
    .arch = &gpt2_arch, .n_layer = 2, .n_head = 3, .n_embd = 15, .vocab = 37,              \
    .n_positions = 11, .norm_eps = 1e-5f, .n_kv_head = 3, .head_dim = 5, .n_inner = 60
static const struct model_config odd = { ODD };
static const struct model_config sorter = { ODD, .n_labels = 3, .drop_embd = 0.25f,
                                            .drop_attn = 0.1f, .drop_resid = 0.05f };

static int make_values(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)err;
    arch_init_values(out, ctx, block, first, n, 7);
    for (size_t i = 0; i < n; i++) // so that biases and norms differ from each other too
        out[i] += (float)((first + i) % 64) / 64.0f + (float)block;
    return 0;
}

static struct params_source values_of(const struct model_config *g)
{
    return (struct params_source){ make_values, (void *)(uintptr_t)g };
}

static void export_model(const char *dir, const struct model_config *g,
                         const struct hf_labels *labels, enum st_dtype dtype)
{
    struct hf_export x = { .config = *g,
                           .dtype = dtype,
                           .source = values_of(g),
                           .endoftext = 36,
                           .begin = 36,
                           .labels = labels,
                           .pad = 5 };
    struct err       err = { 0 };

    if (hf_export(dir, &x, &err))
        fail_msg("%s", err.text);
}

static void export_to(const char *dir, enum st_dtype dtype)
{
    export_model(dir, &odd, NULL, dtype);
}

/* Every block of `got`, read in pieces of an odd size, against what was written. */
static void check_values(const struct model_config *g, struct params_source got, float tolerance)
{
    struct params_source want = values_of(g);

    for (size_t b = 0; b < arch_blocks(g); b++) {
        size_t n = arch_block_size(g, b);
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);

        assert_int_equal(want.read(want.ctx, b, 0, n, x, NULL), 0);
        for (size_t at = 0; at < n; at += 101)
            assert_int_equal(got.read(got.ctx, b, at, n - at < 101 ? n - at : 101, y + at, NULL),
                             0);
        for (size_t i = 0; i < n; i++)
            assert_true(y[i] - x[i] <= tolerance && x[i] - y[i] <= tolerance);
        free(x);
        free(y);
    }
}

static void path_of(char out[512], const char *dir, const char *name)
{
    assert_true(snprintf(out, 512, "%s/%s", dir, name) < 512);
}

static void test_round_trip(void **state)
{
    static const struct {
        enum st_dtype dtype;
        float         tolerance;
    } kinds[] = { { ST_F32, 0.0f }, { ST_F16, 4e-3f }, { ST_BF16, 3e-2f } };
    char *tmp = tempdir_new();

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char       dir[512], name[8];
        struct hf *h;
        struct err err = { 0 };

        snprintf(name, sizeof name, "m%zu", i);
        path_of(dir, tmp, name);
        assert_false(hf_is_folder(dir));
        export_to(dir, kinds[i].dtype);
        assert_true(hf_is_folder(dir));
        if (hf_open(&h, dir, NULL, &err))
            fail_msg("%s", err.text);
        assert_memory_equal(hf_model(h), &odd, sizeof odd);
        check_values(&odd, hf_source(h), kinds[i].tolerance);
        hf_close(h);
    }
    tempdir_remove(tmp);
}

static void test_same_bytes(void **state)
{
    char  *tmp = tempdir_new(), a[512], b[512], *x, *y;
    size_t n, m;

    (void)state;
    path_of(a, tmp, "a");
    path_of(b, tmp, "b");
    export_to(a, ST_F32);
    export_to(b, ST_F32);
    path_of(a, tmp, "a/model.safetensors");
    path_of(b, tmp, "b/model.safetensors");
    x = files_read(a, &n);
    y = files_read(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
    tempdir_remove(tmp);
}

/* The tensors again under names without "transformer.", with the mask and the tied head that older
 * files hold. */
static void write_plain(const char *path, struct hf *h)
{
    const struct model_config   *g = hf_model(h);
    struct safetensors_writer w;
    struct params_source       source = hf_source(h);
    const uint64_t             mask[4] = { 1, 1, 11, 11 }, head[2] = { 37, 15 };
    float                     *x = calloc(100000, sizeof *x);

    assert_int_equal(safetensors_writer_open(&w, path, ST_F32, NULL), 0);
    for (int writing = 0; writing < 2; writing++)
        for (size_t b = 0; b < arch_blocks(g); b++) {
            size_t t, end;

            arch_block_tensors(g, b, &t, &end);
            for (; t < end; t++) {
                uint64_t dims[2] = { arch_rows(g, t), arch_cols(g, t) };
                int      vector = arch_is_vector(g, t);
                char     name[96];

                if (!arch_size(g, t))
                    continue;
                if (b && b <= g->n_layer)
                    snprintf(name, sizeof name, "h.%zu.%s", b - 1, arch_param(g, t)->name);
                else
                    snprintf(name, sizeof name, "%s", arch_param(g, t)->name);
                if (!writing)
                    assert_int_equal(safetensors_writer_declare(&w, name, vector ? 1 : 2,
                                                                vector ? dims + 1 : dims, NULL),
                                     0);
                else if (!source.read(source.ctx, b, arch_offset(g, t), arch_size(g, t), x, NULL))
                    assert_int_equal(safetensors_writer_add(&w, x, arch_size(g, t), NULL), 0);
            }
            if (b + 1 == arch_blocks(g) && !writing) {
                assert_int_equal(safetensors_writer_declare(&w, "h.0.attn.bias", 4, mask, NULL), 0);
                assert_int_equal(safetensors_writer_declare(&w, "lm_head.weight", 2, head, NULL),
                                 0);
            } else if (b + 1 == arch_blocks(g)) {
                assert_int_equal(safetensors_writer_add(&w, x, 121, NULL), 0);
                source.read(source.ctx, 0, arch_offset(g, g->arch->tokens), 37 * 15, x, NULL);
                assert_int_equal(safetensors_writer_add(&w, x, 37 * 15, NULL), 0);
            }
        }
    assert_int_equal(safetensors_writer_commit(&w, NULL), 0);
    safetensors_writer_close(&w);
    free(x);
}

static void test_names_without_prefix(void **state)
{
    char      *tmp = tempdir_new(), dir[512], path[512];
    struct hf *h, *plain;
    struct err err = { 0 };

    (void)state;
    path_of(dir, tmp, "m");
    export_to(dir, ST_F32);
    assert_int_equal(hf_open(&h, dir, NULL, &err), 0);
    path_of(path, dir, "model.safetensors");
    write_plain(path, h);
    hf_close(h);
    if (hf_open(&plain, dir, NULL, &err))
        fail_msg("%s", err.text);
    check_values(&odd, hf_source(plain), 0.0f);
    hf_close(plain);
    tempdir_remove(tmp);
}

/* config.json with `from` replaced by `to`; returns what stood there before, for the caller to
 * files_write and free. */
static char *edit_config(const char *dir, const char *from, const char *to, size_t *n)
{
    char   path[512], *text, *at, *changed;
    size_t head;

    path_of(path, dir, "config.json");
    text = files_read(path, n);
    at = strstr(text, from);
    if (!at)
        fail_msg("%s has no %s", path, from);
    head = (size_t)(at - text);
    changed = malloc(*n + strlen(to) + 1);
    memcpy(changed, text, head);
    strcpy(changed + head, to);
    strcat(changed, at + strlen(from));
    files_write(path, changed, strlen(changed));
    free(changed);
    return text;
}

static void restore_config(const char *dir, char *text, size_t n)
{
    char path[512];

    path_of(path, dir, "config.json");
    files_write(path, text, n);
    free(text);
}

/* So changed, it is refused with a misuse sentence that has `word` in it. */
static void refuses(const char *dir, const char *from, const char *to, const char *word)
{
    size_t            n;
    char             *text = edit_config(dir, from, to, &n);
    struct model_config g;
    struct hf_labels  labels;
    struct err        err = { 0 };

    assert_true(hf_config(&g, dir, &err) < 0 || hf_labels(&labels, dir, &err) < 0);
    assert_true(err.misuse);
    if (!strstr(err.text, word))
        fail_msg("%s: %s is expected there", err.text, word);
    restore_config(dir, text, n);
}

static void test_variants_are_refused(void **state)
{
    char             *tmp = tempdir_new(), dir[512];
    struct model_config g;
    struct err        err = { 0 };

    (void)state;
    path_of(dir, tmp, "m");
    export_to(dir, ST_F32);
    assert_int_equal(hf_config(&g, dir, &err), 0);
    refuses(dir, "\"gelu_new\"", "\"relu\"", "activation_function");
    refuses(dir, "\"gpt2\"", "\"gpt_neox\"", "model_type");
    refuses(dir, "\"n_head\": 3", "\"n_head\": 4", "15");
    refuses(dir, "\"n_head\": 3", "\"n_head\": -3", "n_head");
    refuses(dir, "\"n_layer\": 2", "\"n_layer\": 2.5", "n_layer");
    refuses(dir, "\"n_inner\": null", "\"n_inner\": 61", "n_inner");
    refuses(dir, "\"scale_attn_weights\": true", "\"scale_attn_weights\": false",
            "scale_attn_weights");
    refuses(dir, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
            "tie_word_embeddings");
    refuses(dir, "\"use_cache\": true", "\"scale_attn_by_inverse_layer_idx\": true",
            "scale_attn_by_inverse_layer_idx");
    refuses(dir, "\"use_cache\": true", "\"add_cross_attention\": true", "add_cross_attention");
    refuses(dir, "\"attn_pdrop\": 0.0", "\"attn_pdrop\": 1.0", "attn_pdrop");
    assert_int_equal(hf_config(&g, dir, &err), 0);
    tempdir_remove(tmp);
}

/* ---- classifiers ---- */

static void check_sorter(const char *dir, const char *const *names)
{
    struct hf       *h;
    struct hf_labels labels;
    struct err       err = { 0 };

    if (hf_open(&h, dir, NULL, &err) || hf_labels(&labels, dir, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(hf_model(h), &sorter, sizeof sorter);
    check_values(&sorter, hf_source(h), 0.0f);
    assert_int_equal(labels.n, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(labels.name[i], names[i]);
    hf_labels_free(&labels);
    hf_close(h);
}

static void test_classifier(void **state)
{
    static char *given[] = { (char *)(uintptr_t) "entailment", (char *)(uintptr_t) "ναί \"2\"",
                             (char *)(uintptr_t) "no" };
    static const char *const none[] = { "LABEL_0", "LABEL_1", "LABEL_2" };
    const struct hf_labels   labels = { given, 3 };
    char                    *tmp = tempdir_new(), dir[512], path[512], *text;
    struct hf               *h;
    struct hf_labels         got;
    struct err               err = { 0 };
    size_t                   n;
    long                     pad;

    (void)state;
    path_of(dir, tmp, "named");
    export_model(dir, &sorter, &labels, ST_F32);
    check_sorter(dir, (const char *const *)given);
    path_of(path, dir, "generation_config.json");
    assert_int_not_equal(access(path, F_OK), 0);
    text = edit_config(dir, "\"architectures\": [", "\"architecture\": [", &n); // then the tensors
                                                                                // tell
    check_sorter(dir, (const char *const *)given);
    restore_config(dir, text, n);

    assert_int_equal(hf_open(&h, dir, NULL, &err), 0);
    path_of(path, dir, "model.safetensors");
    write_plain(path, h);
    hf_close(h);
    check_sorter(dir, (const char *const *)given);

    path_of(dir, tmp, "plain");
    export_model(dir, &sorter, NULL, ST_F32);
    check_sorter(dir, none);
    assert_int_equal(hf_pad(&pad, dir, &err), 0);
    assert_int_equal(pad, 5);
    free(edit_config(dir, "\"id2label\"", "\"num_labels\": 3, \"my_labels\"", &n));
    check_sorter(dir, none);

    path_of(dir, tmp, "language");
    export_to(dir, ST_F32);
    assert_int_equal(hf_labels(&got, dir, &err), 0);
    assert_int_equal(got.n, 0);
    assert_int_equal(hf_pad(&pad, dir, &err), 0);
    assert_int_equal(pad, 5);
    hf_labels_free(&got);
    tempdir_remove(tmp);
}

static void test_classifiers_are_refused(void **state)
{
    char       *tmp = tempdir_new(), dir[512], *text;
    struct hf  *h;
    struct err  err = { 0 };
    size_t      n;

    (void)state;
    path_of(dir, tmp, "m");
    export_model(dir, &sorter, NULL, ST_F32);
    refuses(dir, "\"single_label", "\"multi_label", "multi_label_classification");
    refuses(dir, "\"single_label_classification", "\"regression", "regression");
    refuses(dir, "\"id2label\": {", "\"id2label\": 3, \"x\": {", "id2label");
    refuses(dir, "\"2\": ", "\"3\": ", "\"2\" has no name");
    refuses(dir, "\"LABEL_1\"", "true", "\"1\" has no name");
    refuses(dir, "\"id2label\"", "\"num_labels\": 0, \"x\"", "num_labels");

    text = edit_config(dir, "\"id2label\"", "\"x\"", &n); // then it has 2 labels, and the head
                                                          // another shape
    assert_true(hf_open(&h, dir, NULL, &err) < 0);
    assert_non_null(strstr(err.text, "score.weight does not have the shape [2, 15]"));
    restore_config(dir, text, n);
    free(edit_config(dir, "GPT2ForSequenceClassification", "GPT2LMHeadModel", &n));
    assert_true(hf_open(&h, dir, NULL, &err) < 0);
    assert_non_null(strstr(err.text, "score.weight does not belong"));

    path_of(dir, tmp, "language");
    export_to(dir, ST_F32);
    free(edit_config(dir, "GPT2LMHeadModel", "GPT2ForSequenceClassification", &n));
    assert_true(hf_open(&h, dir, NULL, &err) < 0);
    assert_non_null(strstr(err.text, "score.weight is missing"));
    tempdir_remove(tmp);
}

/* A source that fails leaves no folder, and a folder with something in it is left alone. */
static int fail_late(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)ctx;
    if (block == 2)
        return err_set(err, -5, "block 2 is damaged");
    return make_values((void *)(uintptr_t)&odd, block, first, n, out, err);
}

static void test_failure_leaves_nothing(void **state)
{
    char            *tmp = tempdir_new(), dir[512], path[512];
    struct hf_export x = {
        .config = odd, .dtype = ST_F32, .source = { fail_late, NULL }, .endoftext = -1,
        .begin = -1
    };
    struct err       err = { 0 };

    (void)state;
    path_of(dir, tmp, "m");
    assert_int_equal(hf_export(dir, &x, &err), -5);
    assert_string_equal(err.text, "block 2 is damaged");
    assert_int_equal(remove(tmp), 0); // only an empty folder can be removed
    free(tmp);

    tmp = tempdir_new();
    path_of(path, tmp, "mine");
    files_write(path, "x", 1);
    assert_true(hf_export(tmp, &x, &err) < 0);
    assert_true(err.misuse);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(tmp), 0);
    free(tmp);
}

/* ---- a base in place whose words are in pieces ---- */

enum { FEW = 16, MANY = 196700, WIDTH = 512, SEEN = 40 }; // MANY words are cut, FEW are not

/* Parameter i of a matrix of words, where it is looked at. */
static float word_value(size_t i, int head) { return (float)(i % 127 + 1) * (head ? -1 : 1); }

/* Writes the parameters around `at` of a matrix that begins at byte `off`. */
static void put_words(int fd, uint64_t off, size_t at, int head)
{
    size_t end = (size_t)MANY * WIDTH, i = at > SEEN ? at - SEEN : 0;
    bf16   values[2 * SEEN];
    size_t n = 0;

    for (size_t k = i; k < at + SEEN && k < end; k++)
        values[n++] = bf16_from_f32(word_value(k, head));
    assert_int_equal(pwrite(fd, values, n * 2, (off_t)(off + i * 2)), n * 2);
}

/* Writes the tensors of the folder again, with MANY words. What nobody looks at is a hole. */
static void widen(const char *dir, const struct model_config *g)
{
    char                path[512], header[1 << 14] = "{", *config;
    struct safetensors *st;
    uint64_t            at = 0, n = 1;
    size_t              ignored;
    struct err          err;

    path_of(path, dir, "config.json");
    config = files_read(path, &ignored);
    char *words = strstr(config, "\"vocab_size\": 16");
    assert_non_null(words);
    snprintf(header, sizeof header, "%.*s\"vocab_size\": %d%s", (int)(words - config), config, MANY,
             words + strlen("\"vocab_size\": 16"));
    files_write(path, header, strlen(header));
    free(config);

    assert_int_equal(safetensors_open(&st, dir, &err), 0);
    strcpy(header, "{");
    for (size_t i = 0; i < st->n; i++) {
        struct st_tensor *t = &st->tensors[i];
        int               is_words = t->n_dims == 2 && t->dims[0] == FEW;
        uint64_t          rows = is_words ? MANY : t->dims[0];
        uint64_t          count = t->n_dims == 2 ? rows * t->dims[1] : rows;
        char              cols[32] = "";

        if (t->n_dims == 2)
            snprintf(cols, sizeof cols, ",%" PRIu64, t->dims[1]);
        t->offset = at;
        n += (size_t)snprintf(header + n, sizeof header - n,
                              "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%" PRIu64
                              "%s],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", i ? "," : "",
                              t->name, rows, cols, at, at + count * 2);
        at += count * 2;
    }
    n += (size_t)snprintf(header + n, sizeof header - n, "}");
    path_of(path, dir, "model.safetensors");
    assert_int_equal(remove(path), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && pwrite(fd, &n, 8, 0) == 8 && pwrite(fd, header, n, 8) == (ssize_t)n);
    assert_int_equal(ftruncate(fd, (off_t)(8 + n + at)), 0);
    for (size_t i = 0; i < st->n; i++)
        for (size_t p = 0; p <= arch_pieces(g) && st->tensors[i].dims[0] == FEW; p++)
            put_words(fd, 8 + n + st->tensors[i].offset,
                      p < arch_pieces(g) ? arch_words(g, p).first * WIDTH : (size_t)MANY * WIDTH,
                      !strcmp(st->tensors[i].name, "lm_head.weight"));
    close(fd);
    safetensors_close(st);
}

/* The first and the last parameters of a block, from the files, and as a copy gets them. */
static void compare_ends(const struct base_files *files, struct params_source copy,
                         const struct model_config *g, size_t block)
{
    size_t of = lora_base_block(g, block), size = arch_block_size(g, block), per = arch_pieces(g);
    size_t n = size < SEEN ? size : SEEN, head = arch_head_block(g);
    int    is_head = block >= head, is_words = block < per || is_head;
    float  x[SEEN], y[SEEN];

    for (size_t last = 0; last < 2; last++) {
        size_t     first = last ? size - n : 0;
        struct err err;

        assert_int_equal(base_files_read(files, DT_BF16, block, first, n, x, &err), 0);
        assert_int_equal(copy.read(copy.ctx, of, first, n, y, &err), 0);
        assert_memory_equal(x, y, n * sizeof *x);
        for (size_t i = 0; i < n && is_words; i++)
            assert_true(x[i] == word_value(arch_words(g, is_head ? block - head : block).first *
                                           WIDTH + first + i, is_head));
    }
}

static void test_base_in_pieces(void **state)
{
    const struct model_config sizes = {
        .n_layer = 1, .n_head = 2, .n_kv_head = 1, .head_dim = 4, .n_embd = WIDTH, .n_inner = 8,
        .vocab = FEW, .n_positions = 8, .norm_eps = 1e-5f, .untied = 1, .rope = { .theta = 10000 }
    };
    struct model_config few = arch_config(arch_named("llama"), sizes), g = few;
    struct arch_lora    lora = { .rank = 2, .alpha = 4 };
    struct hf_base     *base;
    struct hf          *h;
    char               *dir = tempdir_new(), folder[512];
    struct err          err = { 0 };

    (void)state;
    path_of(folder, dir, "words");
    export_model(folder, &few, NULL, ST_BF16);
    g.vocab = MANY;
    assert_true(arch_pieces(&g) == 4 && arch_head_blocks(&g) == 4);
    widen(folder, &g);
    assert_int_equal(lora_targets_named(g.arch, "all", &lora.targets, &err), 0);
    assert_int_equal(lora_set(&g, &lora, &err), 0);
    if (hf_open_known(&h, folder, &err) || hf_base_open(&base, folder, &g, &err))
        fail_msg("%s", err.text);
    for (size_t b = 0; b < arch_blocks(&g); b++)
        if (lora_base_block(&g, b) != SIZE_MAX)
            compare_ends(hf_base_files(base), hf_source(h), &g, b);
    hf_base_close(base);
    hf_close(h);
    tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_names_without_prefix),
        cmocka_unit_test(test_variants_are_refused),
        cmocka_unit_test(test_classifier),
        cmocka_unit_test(test_classifiers_are_refused),
        cmocka_unit_test(test_failure_leaves_nothing),
        cmocka_unit_test(test_base_in_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
