/* hf_other.c: recognises what people pass instead of a Hugging Face folder (an adapter, a GGUF
 * file), names it in the message, and says what would work. */
#include "model/file/hf.h"

#include "data/base/table.h"
#include "data/file/file.h"
#include "data/base/machine.h"
#include "data/tensors/gguf.h"

#include <dirent.h>
#include <limits.h>
#include <strings.h>
#include <unistd.h>

int hf_has(const char *dir, const char *name)
{
    char path[HF_PATH_BYTES];

    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path &&
           file_may_be(path);
}

/* Finds a GGUF file in a folder that has no config.json. name is empty if there is none. */
static void find_gguf(char name[NAME_MAX + 1], const char *dir)
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
    char        gguf[NAME_MAX + 1];
    const char *dot = strrchr(path, '.');
    int         is_named_gguf = dot && !strcasecmp(dot, ".gguf");

    if (is_named_gguf && !file_may_be(path))
        return err_misuse(err, "%.300s: %s: a GGUF file is expected", path, strerror(errno));
    if (is_named_gguf && !hf_has(path, ".") && !gguf_is_file(path))
        return err_misuse(err, "%.300s is no GGUF file: it does not begin with \"GGUF\" (a clone "
                          "without git-lfs has texts instead): download or export it again", path);
    if (!hf_has(path, "."))
        return 0;
    find_gguf(gguf, path);
    if (*gguf)
        return err_misuse(err, "%.300s is a folder with a GGUF file: give the file itself, "
                          "%.300s/%s", path, path, gguf);
    return hf_has(path, "config.json") ? 0 : hf_refuse_adapter(path, err);
}

int hf_refuse_adapter(const char *path, struct err *err)
{
    if (!hf_has(path, "adapter_config.json"))
        return 0;
    return err_misuse(err, "%.200s is an adapter (adapter_config.json): siTrain finetune or "
                      "pretrain --init %.200s goes on with it, and siTrain export %.200s HFDIR "
                      "merges it into its model", path, path, path);
}

int hf_refuse_exported(const char *dir, struct err *err)
{
    static const struct { const char *name, *of; } files[] = {
        { "model.onnx", "an ONNX model" }, { "decoder_model.onnx", "an ONNX model" },
        { "decoder_model_merged.onnx", "an ONNX model" }, { "onnx", "an ONNX model" },
        { "tf_model.h5", "a TensorFlow model" },
        { "flax_model.msgpack", "a Flax model" }, { "openvino_model.xml", "an OpenVINO model" } };

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (hf_has(dir, files[i].name))
            return err_misuse(err, "%.200s has %s (%s), but no model.safetensors, which is read "
                              "here: begin with the model that it was made from", dir, files[i].of,
                              files[i].name);
    return 0;
}

/* ---- quantized models ---- */

/* How models are quantized: the word in config.json, its name, and the packages that convert them;
 * NULL: none does. MLX's files have no word. gptqmodel 7.7 leaves AWQ's columns in the order in
 * which they are packed, which is another model; compressed-tensors puts them in their own. */
static const struct quantized { const char *method, *name, *by; } quantized[] = {
    { "gptq", "GPTQ", "gptqmodel" }, { "awq", "AWQ", "compressed-tensors" },
    { "compressed-tensors", "compressed-tensors", "compressed-tensors" },
    { "fp8", "FP8", "gptqmodel" }, { "fbgemm_fp8", "FP8 (FBGEMM)", NULL },
    { "mxfp4", "MXFP4", "gptqmodel" }, { "bitsandbytes", "bitsandbytes", "bitsandbytes" },
    { "mlx", "MLX", "mlx-lm" }, { "hqq", "HQQ", NULL }, { "torchao", "torchao", NULL },
    { "quanto", "Quanto", NULL }, { "auto-round", "AutoRound", NULL }, { "bitnet", "BitNet", NULL },
};

/* Writes the end of the sentence: the command that makes a folder of plain numbers. */
static void dequantize(char *out, size_t size, const struct quantized *q, const char *dir)
{
    char        word[MACHINE_PYTHON_PATH];
    const char *path = machine_python_path(word, dir, "FOLDER");

    if (!q || !q->by)
        snprintf(out, size, "begin with the model that it was made from");
    else if (!strcmp(q->method, "awq")) // by way of a folder in compressed-tensors' own form
        snprintf(out, size, "python3 -c \"from compressed_tensors.entrypoints.convert import *; "
                 "from torch import float16 as h; d = '%.100s'; convert_checkpoint(d, d + '-ct', "
                 "AutoAWQConverter.from_pretrained(d)); convert_checkpoint(d + '-ct', d + "
                 "'-plain', CompressedTensorsDequantizer(d + '-ct', dtype=h))\" makes the folder "
                 "%.100s-plain, and %.100s-ct on the way (pip install torch transformers %s)",
                 path, path, path, q->by);
    else if (!strcmp(q->by, "bitsandbytes") || !strcmp(q->by, "compressed-tensors"))
        snprintf(out, size, "python3 -c \"from transformers import AutoTokenizer, %s"
                 "AutoModelForCausalLM as M; [k.save_pretrained('%.100s-plain') for k in "
                 "(M.from_pretrained('%.100s'%s, AutoTokenizer.from_pretrained('%.100s'))]\" makes "
                 "the folder %.100s-plain (pip install torch transformers %s)",
                 *q->by == 'c' ? "CompressedTensorsConfig as C, " : "", path, path,
                 *q->by == 'c' ? ", quantization_config=C(run_compressed=False))"
                               : ").dequantize()", path, path, q->by);
    else if (!strcmp(q->by, "mlx-lm"))
        snprintf(out, size, "python3 -m mlx_lm convert --dequantize --hf-path '%.100s' --mlx-path "
                 "'%.100s-plain' makes the folder %.100s-plain (pip install mlx-lm, on "
                 "Linux with 'mlx[cpu]')", path, path, path);
    else
        snprintf(out, size, "python3 -c \"from gptqmodel.utils.model_dequant import "
                 "dequantize_model as d; d('%.100s', '%.100s-plain')\" makes the folder "
                 "%.100s-plain (pip install %s)", path, path, path, q->by);
}

int hf_refuse_quantized(const char *dir, const struct hf_keys *k, struct err *err)
{
    const json_t *mlx = json_object_get(k->config, "quantization"),
                 *settings = json_object_get(k->config, "quantization_config");
    const char   *method = json_str(settings, "quant_method");
    char          end[768];

    if (!hf_key_has(k, "quantization_config") && !hf_key_has(k, "quantization"))
        return 0;
    // the first files of bitsandbytes do not name it
    if (!*method && (json_flag(settings, "load_in_4bit", 0) ||
                     json_flag(settings, "load_in_8bit", 0)))
        method = "bitsandbytes";
    if (!*method && json_is_integer(json_object_get(mlx, "group_size")))
        method = "mlx"; // its files name no method
    const struct quantized *q = TABLE_FIND(quantized, method);
    dequantize(end, sizeof end, q, dir);
    return err_misuse(err, "%.200s: a model that is quantized with %.40s "
                      "(\"%s\"), which cannot be trained: %s", k->path,
                      q ? q->name : *method ? method : "an unknown method",
                      settings ? "quantization_config" : "quantization", end);
}
