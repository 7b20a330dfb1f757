/* export.c: a run's parameters as a Hugging Face folder, or as a GGUF file. An existing file of the
 * name is replaced only if siTrain wrote it, which is asked once more when the new one is
 * complete. */
#include "chat/template.h"
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "data/opt/opt.h"
#include "model/file/gguf_config.h"
#include "model/file/gguf_export.h"
#include "run/folder/base_folder.h"
#include "run/folder/exports.h"
#include "run/folder/output.h"
#include "run/folder/settings.h"
#include "run/loop/model_folder.h"

#include <strings.h>

struct export_opts {
    const char *run, *dir;
    const char *base;
    int         dtype, gguf_type, adapter;
    uint64_t    shard; // bytes
    struct which_opts which;
};

#define AT(field) offsetof(struct export_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARG, AT(run),
      .help = "Run to export, or Hugging Face or adapter folder to convert" },
    { "HFDIR", OPT_ARG, AT(dir),
      .help = "Folder to write, new or empty. A name that ends in .gguf is that of a GGUF file "
              "instead, for llama.cpp and Ollama." },
    { "dtype", OPT_WORD, AT(dtype), "fp32", dtype_name, .help = "Precision of the tensors" },
    { "max-shard-size", OPT_SIZE, AT(shard), "5G",
      .help = "Largest size of the tensors in one file (0: one file). A larger model becomes "
              "model-00001-of-0000N.safetensors with an index, as in transformers." },
    { "adapter", OPT_FLAG, AT(adapter),
      .help = "Write the adapters alone, as a folder that `peft` loads (default: merged into their "
              "model)" },
    OPT_BASE_ROW(AT(base), OPT_COMMAND),
    { "gguf-type", OPT_WORD, AT(gguf_type), "f16", gguf_type_word,
      .help = "Type of the matrices in a GGUF file. q8_0 takes about a byte for each parameter; "
              "rows that are no multiple of 32 stay f16. Vectors are f32.",
      .other = "llama.cpp's llama-quantize makes other types of an f16 file" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 },
                                         { "Which model of a run", which_rows, AT(which) },
                                         { 0 } };

/* ---- a GGUF file ---- */

static int export_is_gguf(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && !strcasecmp(path + n - 5, ".gguf");
}

static int export_gguf_options(const struct opt_line *line, int gguf, struct err *err)
{
    static const char *const folders[] = { "dtype", "max-shard-size" };

    if (!gguf && opt_given(line, "gguf-type"))
        return err_misuse(err, "--gguf-type is for a GGUF file: give a name that ends in .gguf, or "
                          "--dtype for a folder");
    for (size_t i = 0; i < 2 && gguf; i++)
        if (opt_given(line, folders[i]))
            return err_misuse(err, "--%s is for a Hugging Face folder: a GGUF file has --gguf-type",
                              folders[i]);
    return 0;
}

/* The chat template of the model's folder. One that is no template is left out, with a notice. */
static int template_open(struct chat_template **out, const struct hf_export *x, struct err *err)
{
    struct err why = { 0 };
    int        rc = x->tokenizer ? chat_template_open(out, x->tokenizer, NULL, &why) : 0;

    if (rc && !why.misuse) {
        *err = why;
        return rc;
    }
    if (rc)
        snprintf(x->notice, x->notice_size, "the chat template is left out: %.400s", why.text);
    return 0;
}

/* Writes the file. run: what is read, which the file may not replace. */
static int export_gguf(const char *path, struct hf_export *x, int type, const char *run,
                       struct err *err)
{
    const struct output   out = { path, OUTPUT_GGUF, &run, 1 };
    struct chat_template *t = NULL;
    struct gguf_writer    w = { .data.f.fd = -1 };
    char                  notice[GGUF_NOTICE];
    int                   rc = template_open(&t, x, err);
    struct gguf_export    g = { .model = x, .type = gguf_type_at((size_t)type),
                                .template = t ? chat_template_text(t) : NULL };

    rc = rc ? rc : gguf_export(&w, path, &g, err);
    rc = rc ? rc : output_check(&out, err); // from now on no other file can be replaced
    rc = rc ? rc : gguf_writer_commit(&w, err);
    gguf_config_notice(notice, &x->config);
    if (!rc && *notice)
        say_line(stderr, "siTrain: %s", notice);
    gguf_writer_close(&w);
    chat_template_close(t);
    return rc;
}

/* ---- both ---- */

/* Records the export in run.db, from which siTrain check names it if the run is damaged. If that
 * fails, there is a notice: the export is whole without the record. */
static void record(struct model_folder *r, const char *dir)
{
    struct err  why = { 0 };
    int         rc = r->run.read_only ? -EROFS : exports_record(r->run.log, dir, r->step, &why);
    const char *said = !session_cannot_write(rc) ? why.text
                       : r->in_training          ? "it is being trained"
                                                 : "it cannot be written to now (read-only, "
                                                   "another user's, a full disk, or a copy "
                                                   "without its devices)";

    if (rc && !settings_has(r->run.log, "snapshot"))
        say_line(stderr, "siTrain: %s keeps no record of %s, so siTrain check will not name it: "
                 "%s", r->run.dir, dir, said);
}

/* Sets *name to the name of the base that an adapter's folder gets, malloced; "": unknown. */
static int base_name(char **name, const struct model_folder *r, const struct export_opts *o,
                     struct err *err)
{
    *name = r->hf     ? file_real(r->base)
            : o->base ? strdup(o->base)
                      : settings_get(r->run.log, "lora.base");
    if (!*name && r->hf)
        return err_set(err, -errno, "%s cannot be read: %s", r->base, strerror(errno));
    *name = *name ? *name : strdup("");
    return 0;
}

static double written(const struct model_folder *r, const struct export_opts *o)
{
    const struct model_config *g = &r->config;
    size_t                     n = 0;

    for (size_t b = 0; b < arch_blocks(g); b++)
        if (!o->adapter || arch_block_kind(g, b) == ARCH_ADAPTER)
            n += arch_block_size(g, b);
    return (double)n;
}

static int write_folder(struct model_folder *r, const struct export_opts *o, struct err *err)
{
    static const enum st_dtype dtypes[] = {
        [DT_F32] = ST_F32, [DT_BF16] = ST_BF16, [DT_F16] = ST_F16
    };
    struct hf_labels           labels = { 0 };
    struct tokenizer          *tok = NULL;
    json_t                    *generation = NULL;
    char                       notice[512] = "";
    struct watch               w = work_begin(&say_events, "writing %s", o->dir);
    struct hf_export           x = { .config = r->config, .dtype = dtypes[o->dtype],
                                     .source = r->source, .shard_bytes = o->shard,
                                     .endoftext = -1, .begin = -1, .watch = &w,
                                     .tokenizer = *r->tokenizer ? r->tokenizer : NULL,
                                     .strange = r->hf != NULL, .notice = notice,
                                     .notice_size = sizeof notice };
    char                      *base = NULL;
    char                      *sum = r->hf ? NULL : settings_get(r->run.log, "lora.sum");
    int                        rc = model_folder_labels(&labels, r, o->run, err);

    rc = rc || !o->adapter ? rc : base_name(&base, r, o, err);
    x.labels = labels.n ? &labels : NULL;
    if (!rc && !arch_classifies(&r->config))
        rc = model_folder_generation(&generation, r, err);
    x.generation = generation;
    x.base = base;
    x.base_sum = r->hf && r->adapter ? peft_base_sum(r->adapter) : sum;
    if (!rc && x.tokenizer && !(rc = model_folder_tokenizer(&tok, r, NULL, err)))
        x.endoftext = tokenizer_endoftext(tok), x.begin = tokenizer_begin(tok);
    rc = rc ? rc : model_folder_pad(&x.pad, r, tok, err);
    tokenizer_close(tok);
    rc = rc                       ? rc
         : export_is_gguf(o->dir) ? export_gguf(o->dir, &x, o->gguf_type, o->run, err)
                                  : hf_export(o->dir, &x, err);
    work_end(&say_events);
    if (!r->hf && rc)
        rc = session_explain(&r->run, rc, err);
    else if (!r->hf && !export_is_gguf(o->dir)) // a run does not go on from a GGUF file
        record(r, o->dir);
    if (!rc && *notice)
        say_line(stderr, "siTrain: %s", notice);
    if (!rc && !x.tokenizer)
        say_line(stderr, "siTrain: %s has no tokenizer: %s holds the model alone", o->run, o->dir);
    if (!rc && base && !*base)
        say_line(stderr, "siTrain: the base of %s is in no folder: give its name as "
                 "base_model_name_or_path in %s/adapter_config.json, or as --base", o->run, o->dir);
    if (!rc && base && export_is_gguf(base))
        say_line(stderr, "siTrain: the base of %s is a GGUF file, of which peft makes no model: "
                 "give --base HFDIR, the folder or the name of the model that it was made from",
                 o->dir);
    hf_labels_free(&labels);
    json_decref(generation);
    free(base);
    free(sum);
    return rc;
}

/* --base as the folder in which the base is: of an adapter's folder, or of a run that reads it in
 * place. With --adapter, what is no folder is a name that the adapter gets. */
static const char *base_place(const struct export_opts *o)
{
    int place = o->base && (!o->adapter || hf_is_folder(o->base));

    return !session_is_run(o->run) || (place && base_folder_is_in_place(o->run)) ? o->base : NULL;
}

static int choose_form(struct model_folder *r, const struct export_opts *o, struct err *err)
{
    if (o->adapter && !r->config.lora.rank)
        return err_misuse(err, "--adapter: %.300s has no adapters: leave it out, and the model is "
                          "written", o->run);
    if (o->adapter && export_is_gguf(o->dir))
        return err_misuse(err, "--adapter writes a folder, and %.300s is the name of a GGUF file: "
                          "leave --adapter out, and the merged model is written", o->dir);
    if (o->base && !r->hf && !o->adapter && !r->run.o.lora.in_place)
        return err_misuse(err, "--base is for adapters: give --adapter too, or leave it out");
    return o->adapter ? 0 : model_folder_merge(r, err);
}

static int run(struct opt_line *line, struct err *err)
{
    struct export_opts *o = line->options;
    struct model_folder r = { 0 };
    int                 gguf = export_is_gguf(o->dir);
    const struct output out = { o->dir, gguf ? OUTPUT_GGUF : OUTPUT_MODEL, &o->run, 1 };
    enum model_which    which;
    int rc = export_gguf_options(line, gguf, err);

    if (!rc && !gguf)
        rc = output_check_folder_name(o->dir, "an export is a Hugging Face folder", err);
    rc = rc ? rc : output_check(&out, err);
    rc = rc || gguf ? rc : hf_export_check(o->dir, err);
    rc = rc ? rc : model_which(&which, &o->run, &o->which, line, err);
    if (!rc && o->adapter)
        rc = model_folder_open_adapters(&r, o->run, base_place(o), which, &say_events, err);
    else if (!rc)
        rc = model_folder_open(&r, o->run, base_place(o), which, NULL, &say_events, err);
    rc = rc ? rc : choose_form(&r, o, err);
    rc = rc ? rc : arch_check_head(&r.config, err); // it would be lost
    rc = rc || !gguf ? rc : gguf_config_check(&r.config, err);
    rc = rc ? rc : write_folder(&r, o, err);
    if (!rc)
        say_line(stdout, "%s: %.4g million parameters%s", o->dir, written(&r, o) / 1e6,
                 o->adapter ? " in adapters" : "");
    model_folder_close(&r);
    return rc;
}

const struct opt_command export_command = {
    .name = "export",
    .usage = "RUN HFDIR|FILE.gguf [--last] [--adapter] [--dtype fp32|bf16|fp16] "
             "[--max-shard-size SIZE] [--gguf-type f16|bf16|f32|q8_0]",
    .summary = "write a folder that Hugging Face's transformers loads, or a GGUF file",
    .text = "If a run kept its best model (--keep-best), that model is written; otherwise, the "
            "model after the last step. While another process trains the run, that is the model "
            "after its current step. Adapters (LoRA) are merged into their model, unless --adapter "
            "is given. Equal parameters give equal files, byte for byte.",
    .parts = parts, .size = sizeof(struct export_opts), .run = run,
    .examples = { "siTrain export first first-hf",
                  "siTrain export first first.gguf --gguf-type q8_0" },
};
