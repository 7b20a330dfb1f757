/* export_gguf.c: a model as a GGUF file. An existing file of that name is replaced only if siTrain
 * wrote it, which is asked once more when the new one is complete. */
#include "cmd/export_gguf.h"

#include "chat/template.h"
#include "cmd/terminal/line.h"
#include "run/folder/output.h"

#include <strings.h>

int export_is_gguf(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && !strcasecmp(path + n - 5, ".gguf");
}

int export_gguf_options(const struct opt_line *line, int gguf, struct err *err)
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

int export_gguf(const char *path, struct hf_export *x, int type, const char *run, struct err *err)
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
