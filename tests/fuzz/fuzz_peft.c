/* fuzz_peft.c: an adapter's folder, adapter_config.json and adapter_model.safetensors, on a small
 * base of a family. What is accepted is opened, and the ends of every block are read. */
#include "tests/fuzz/fuzz.h"

#include "model/file/peft.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void start(void)
{
    FUZZ_CHECK(!mkdir(fuzz_path("a"), 0700));
}

static int zeros(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)ctx, (void)block, (void)first, (void)err;
    memset(out, 0, n * sizeof *out);
    return 0;
}

/* The base: the first byte of the input says of which family. */
static struct model_config base_of(unsigned which)
{
    static const struct arch *const families[] = { &gpt2_arch, &llama_arch, &bert_arch };

    return arch_config(families[which % 3], (struct model_config){
        .n_layer = 2, .n_head = 2, .n_kv_head = 2, .head_dim = 2, .n_embd = 4, .n_inner = 6,
        .vocab = 10, .n_positions = 8, .norm_eps = 1e-5f, .n_types = which % 3 == 2 ? 2 : 0,
        .rope = { .theta = which % 3 == 1 ? 1e4 : 0 } });
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in      in = { bytes, n };
    struct model_config g = base_of((unsigned)fuzz_number(&in, 1));
    struct fuzz_in      settings = fuzz_part(&in);
    struct peft_base    base = { { .read = zeros }, g.n_labels, 0 };
    struct peft        *p;
    struct err          err = { 0 };
    char                path[HF_PATH_BYTES];
    float               value;

    fuzz_put("a/adapter_config.json", settings.p, settings.n);
    fuzz_put("a/adapter_model.safetensors", in.p, in.n);
    int rc = peft_base(path, fuzz_path("a"), NULL, &err);
    if (rc)
        fuzz_refused(rc, &err);
    rc = peft_config(&g, fuzz_path("a"), &err);
    rc = rc ? rc : peft_open(&p, &g, &base, fuzz_path("a"), NULL, &err);
    if (rc)
        return fuzz_refused(rc, &err);
    for (size_t b = 0; b < arch_blocks(&g); b++) {
        struct params_source s = peft_source(p);
        size_t               size = arch_block_size(&g, b);

        FUZZ_CHECK(!size || (!s.read(s.ctx, b, 0, 1, &value, &err) &&
                             !s.read(s.ctx, b, size - 1, 1, &value, &err)));
    }
    peft_close(p);
    return 1;
}

/* What the project exports of adapters on such a base. */
static void seed_of(unsigned which, size_t labels, const char *words)
{
    struct model_config g = base_of(which);
    struct arch_lora    lora = { .rank = 2, .alpha = 4 };
    struct hf_export    x = { .dtype = ST_F32, .source = { .read = zeros }, .base = ".",
                                 .base_sum = labels ? "0123cdef" : NULL };
    struct fuzz_out     out = { 0 };
    uint8_t            *p;
    size_t              n;

    g.n_labels = labels;
    FUZZ_CHECK(!lora_targets_named(g.arch, words, &lora.targets, NULL) &&
               !lora_set(&g, &lora, NULL));
    x.config = g;
    fuzz_remove("w");
    FUZZ_CHECK(!mkdir(fuzz_path("w"), 0700) && !hf_export_into(fuzz_path("w"), &x, NULL));
    fuzz_add_number(&out, which, 1);
    fuzz_take("w/adapter_config.json", &p, &n);
    fuzz_add(&out, p, n);
    free(p);
    fuzz_add_mark(&out);
    fuzz_take("w/adapter_model.safetensors", &p, &n);
    fuzz_add(&out, p, n);
    free(p);
    fuzz_seed_out(&out);
}

static void seeds(void)
{
    for (unsigned which = 0; which < 3; which++) {
        seed_of(which, 0, NULL);
        seed_of(which, 3, "all");
    }
}

/* 2^16 labels are the most that an adapter's head can have. */
const struct fuzz_target fuzz_peft = { "peft", start, one, seeds, (size_t)48 << 20, 256, 1000 };
