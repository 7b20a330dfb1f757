/* check_folder.c: checks a Hugging Face folder, an adapter's, or a GGUF file, whoever made it: all
 * that a reader of the model would read. */
#include "cmd/check_data.h"

#include "cmd/cmd.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "data/file/file.h"
#include "data/tensors/safetensors.h"
#include "data/text/tokenizer.h"
#include "model/file/finite.h"
#include "model/file/hf.h"
#include "model/file/peft.h"

int check_besides(const char *dir, const struct model_config *config, int words, struct err *err)
{
    struct hf_labels labels = { 0 };
    json_t          *generation = NULL;
    const char      *name;
    int              rc = 0;

    if (config && arch_classifies(config))
        rc = hf_labels(&labels, dir, err);
    else if (config)
        rc = hf_generation(&generation, dir, config->vocab, err);

    for (size_t i = 0; words && (name = tokenizer_file(i)) && !rc; i++) {
        char   path[HF_PATH_BYTES], *text = NULL;
        size_t n;

        rc = hf_path(path, dir, name, err);
        if (!rc && (rc = file_exists(path, err)) > 0)
            rc = file_read_whole(&text, &n, path, TOKENIZER_FILE_MAX, err);
        free(text);
    }
    hf_labels_free(&labels);
    json_decref(generation);
    return rc;
}

int check_folder(struct check *c, struct err *err)
{
    struct hf          *hf = NULL;
    struct safetensors *st = NULL;
    struct tokenizer   *tok = NULL;
    int                 adapter = peft_is_folder(c->o->what); // its base may be elsewhere
    struct watch        w = work_begin(&say_events, "checking %s", c->o->what);
    struct hf_files     files = { 0 };
    int rc = adapter ? peft_files_open(&st, c->o->what, err) : hf_open(&hf, c->o->what, &w, err);

    rc = rc || !adapter ? rc : safetensors_verify(st, &w, err);
    work_end(&say_events);
    if (!rc && adapter)
        files = (struct hf_files){ st->n, st->bytes, st->summed };
    else if (!rc)
        files = hf_files(hf); // hf_open has verified them
    if (!rc)
        check_line(c, "tensors", files.bytes, "%zu%s", files.tensors,
                   files.summed ? "" : ", without checksums of siTrain: their structure alone was "
                                       "checked");
    if (!rc) {
        struct finite all = { .what = c->o->what };

        if (hf)
            all = (struct finite){ hf_source(hf), hf_model(hf), c->o->what };
        w = work_begin(&say_events, "looking at the values of %s", c->o->what);
        rc = hf ? finite_check(&all, &w, err) : finite_check_file(st, c->o->what, &w, err);
        work_end(&say_events);
    }
    rc = check_part_over(c, rc ? rc : check_besides(c->o->what, hf ? hf_model(hf) : NULL, 1, err),
                         err);
    safetensors_close(st);
    hf_close(hf);
    if (!rc && tokenizer_is_there(c->o->what)) // a folder may have none
        rc = check_part_over(c, check_words(&tok, c, c->o->what, err), err);
    tokenizer_close(tok);
    return rc;
}
