/* hf_other.c: recognises what people pass instead of a Hugging Face folder (an adapter, a GGUF
 * file), names it in the message, and says what would work. */
#include "model/hf.h"

#include "data/base/file.h"
#include "data/base/machine.h"

#include <dirent.h>
#include <limits.h>
#include <strings.h>
#include <unistd.h>

int hf_has(const char *dir, const char *name)
{
    char path[HF_PATH_BYTES];

    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path &&
           !access(path, F_OK);
}

/* Finds a GGUF file in a folder that has no config.json. name is empty if there is none. */
static void gguf_find(char name[NAME_MAX + 1], const char *dir)
{
    DIR           *d = hf_has(dir, "config.json") ? NULL : opendir(dir);
    struct dirent *e;

    *name = '\0';
    while (d && !*name && (e = readdir(d))) {
        const char *dot = strrchr(e->d_name, '.');

        if (dot && !strcasecmp(dot, ".gguf"))
            snprintf(name, NAME_MAX + 1, "%s", e->d_name);
    }
    file_close_dir(d);
}

int hf_refuse_other(const char *path, struct err *err)
{
    char gguf[NAME_MAX + 1];

    if (!hf_has(path, "."))
        return 0;
    gguf_find(gguf, path);
    if (*gguf)
        return err_misuse(err, "%.300s is a folder with a GGUF file: give the file itself, "
                          "%.300s/%s", path, path, gguf);
    int beside = hf_has(path, "model.safetensors") || hf_has(path, "model.safetensors.index.json");

    if (!hf_has(path, "adapter_config.json"))
        return 0;
    return err_misuse(err, "%.200s %s an adapter (adapter_config.json)%s, which is not in this "
                      "version; %smerged into its model it is one: python3 -c \"from peft import "
                      "AutoPeftModelForCausalLM as M; M.from_pretrained('%.100s')"
                      ".merge_and_unload().save_pretrained('%.100s-merged')\" (pip install peft)",
                      path, beside ? "has" : "is", beside ? " beside its model" : "",
                      beside ? "without that file the model is taken alone, and " : "",
                      machine_python_path(path), machine_python_path(path));
}
