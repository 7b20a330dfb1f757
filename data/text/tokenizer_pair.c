/* tokenizer_pair.c: converts vocab.json and merges.txt (or encoder.json and vocab.bpe) to a
 * tokenizer.json. These files do not say how a text is cut, normalized and framed; the tokenizer's
 * class does. tokenizer_config.json or config.json names the class. If neither does, the model's
 * family (config.json's model_type) has one. Without config.json, <|endoftext|> in the vocabulary
 * means GPT-2's. An unknown class is refused. */
#include "data/text/tokenizer_parts.h"

#include "data/file/file.h"
#include "data/json/json.h"
#include "data/base/machine.h"
#include "data/base/text_line.h"

#define END_OF_TEXT "<|endoftext|>"

enum { MOST_NAMES = 16 };

/* Classes of tokenizers that are alike: the own name first, then other names. Also the families
 * whose models have it, and the special tokens that hold if no file names them. */
static const struct kind {
    const char *classes[MOST_NAMES], *models[MOST_NAMES], *roles[MOST_NAMES][2];
    const char *normalizer, *template; // types of the steps; NULL: none
    const char *expression;            // name of the Split's; NULL: GPT-2's, without a Split
} kinds[] = {
    { .classes = { "GPT2Tokenizer", "CodeGenTokenizer" },
      .models = { "gpt2", "gpt_neo", "gptj", "codegen", "phi", "opt", "starcoder2" },
      .roles = { { "bos_token", END_OF_TEXT }, { "eos_token", END_OF_TEXT },
                 { "unk_token", END_OF_TEXT } } },
    { .classes = { "Qwen2Tokenizer" },
      .models = { "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_audio", "qwen3",
                  "qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe" },
      .roles = { { "eos_token", END_OF_TEXT }, { "unk_token", END_OF_TEXT },
                 { "pad_token", END_OF_TEXT } },
      .normalizer = "NFC", .expression = "Qwen2" },
    { .classes = { "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer" },
      .models = { "roberta", "bart", "longformer", "roberta-prelayernorm", "data2vec-text",
                  "ibert" },
      .roles = { { "bos_token", "<s>" }, { "eos_token", "</s>" }, { "unk_token", "<unk>" },
                 { "sep_token", "</s>" }, { "pad_token", "<pad>" }, { "cls_token", "<s>" },
                 { "mask_token", "<mask>" } },
      .template = "RobertaProcessing" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the class ---- */

struct said { char class[64], model[64]; };

/* Whether a class does not say how a text is cut. */
static int is_general(const char *class)
{
    return !*class || !strcmp(class, "PreTrainedTokenizer") || !strcmp(class, "TokenizersBackend");
}

/* Copies a class's name, without Fast at its end, into out. */
static void class_take(char out[64], const json_t *file)
{
    size_t n = strlen(json_str(file, "tokenizer_class"));

    if (n > 4 && !strcmp(json_str(file, "tokenizer_class") + n - 4, "Fast"))
        n -= 4;
    snprintf(out, 64, "%.*s", (int)(n < 63 ? n : 63), json_str(file, "tokenizer_class"));
}

/* Reads the tokenizer's class from tokenizer_config.json (`config`, or NULL). If it has none, the
 * class comes from config.json in dir. */
static int said_read(struct said *out, const json_t *config, const char *dir, struct err *err)
{
    json_t *model = NULL;
    int     rc = tokenizer_companion(&model, NULL, dir, "config.json", err);

    *out = (struct said){ 0 };
    class_take(out->class, config);
    if (is_general(out->class))
        class_take(out->class, model);
    snprintf(out->model, sizeof out->model, "%s", json_str(model, "model_type"));
    json_decref(model);
    return rc;
}

static int is_among(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name))
        names++;
    return *names != NULL;
}

static const struct kind *kind_find(const struct said *s)
{
    for (size_t i = 0; i < KINDS; i++)
        if (is_general(s->class) ? is_among(kinds[i].models, s->model)
                                 : is_among(kinds[i].classes, s->class))
            return &kinds[i];
    return NULL;
}

void tokenizer_command(char out[TOKENIZER_COMMAND], const char *dir)
{
    char        word[MACHINE_PYTHON_PATH];
    const char *to = machine_python_path(word, dir, "FOLDER");

    snprintf(out, TOKENIZER_COMMAND, "python3 -c \"from transformers import AutoTokenizer as A; "
             "A.from_pretrained('%s').save_pretrained('%s')\" makes tokenizer.json (pip install "
             "transformers", to, to);
}

static int refuse(const struct said *s, const char *dir, const char *first, struct err *err)
{
    char who[160], command[TOKENIZER_COMMAND];

    if (!is_general(s->class))
        snprintf(who, sizeof who, "a %s's", s->class);
    else if (*s->model)
        snprintf(who, sizeof who, "of the family %s", s->model);
    else { // like runs of older versions, which took any pair for GPT-2's
        err_misuse(err, "%.200s: nothing says whose class the tokenizer is: put "
                   "{\"tokenizer_class\": \"GPT2Tokenizer\"} into tokenizer_config.json "
                   "there, if texts are cut as GPT-2 does (older versions of siTrain did "
                   "so), else Qwen2Tokenizer or RobertaTokenizer", first);
        return -ENOTSUP;
    }
    tokenizer_command(command, dir);
    return err_misuse(err, "%.200s: the tokenizer is %s (tokenizer_class in tokenizer_config.json, "
                      "model_type in config.json), but without tokenizer.json only those of "
                      "GPT2Tokenizer, Qwen2Tokenizer and RobertaTokenizer are known: %s)",
                      first, who, command);
}

/* ---- conversion ---- */

/* Reads the lines of merges.txt that are merges, as in JSON. Caller decrefs. */
static int merges_read(json_t **out, const char *path, struct err *err)
{
    char       *text;
    size_t      n, len;
    int         rc = file_read_whole(&text, &n, path, TOKENIZER_FILE_MAX, err);
    const char *at = text, *line;

    *out = json_array();
    while (!rc && json_array_size(*out) <= TOKENIZER_MAX_VOCAB &&
           (line = text_line(&at, text + n, &len)))
        if (len && (len < 8 || memcmp(line, "#version", 8)) &&
            json_array_append_new(*out, json_stringn_nocheck(line, len)))
            rc = err_set(err, -ENOMEM, "no memory for the merges of %s", path);
    free(text);
    return rc;
}

/* Sets the steps of the kind in a tokenizer.json for GPT-2. */
static void steps_set(json_t *root, const struct kind *k, int prefix)
{
    json_t *level = json_object_get(root, "pre_tokenizer");

    json_object_set_new(level, "add_prefix_space", json_boolean(prefix));
    if (k->normalizer)
        json_object_set_new(root, "normalizer", json_pack("{s:s}", "type", k->normalizer));
    if (k->template)
        json_object_set_new(root, "post_processor",
                            json_pack("{s:s, s:b, s:b}", "type", k->template, "trim_offsets", 1,
                                      "add_prefix_space", prefix));
    if (!k->expression)
        return;
    json_object_set_new(level, "use_regex", json_false());
    json_object_set_new(root, "pre_tokenizer",
                        json_pack("{s:s, s:[o, O]}", "type", "Sequence", "pretokenizers",
                                  tokenizer_split_make(split_pattern_said(k->expression)), level));
}

int pair_read(json_t **root, json_t **roles, const json_t *config, const char *dir,
              const char *first, const char *second, struct err *err)
{
    json_t     *vocab = NULL, *merges = NULL, *model;
    struct said said;

    *root = *roles = NULL;
    int rc = json_read_object(&vocab, first, TOKENIZER_FILE_MAX, err);

    rc = rc ? rc : said_read(&said, config, dir, err);
    const struct kind *k = rc ? NULL : kind_find(&said);

    if (!rc && !k && is_general(said.class) && !*said.model && json_object_get(vocab, END_OF_TEXT))
        k = &kinds[0];
    if (!rc && !k)
        rc = refuse(&said, dir, first, err);
    rc = rc ? rc : merges_read(&merges, second, err);
    if (!rc) {
        *root = tokenizer_said_make();
        model = tokenizer_model_make();
        json_object_set(model, "vocab", vocab);
        json_object_set(model, "merges", merges);
        *roles = json_object();
        steps_set(*root, k, json_flag(config, "add_prefix_space", 0));
        if (json_object_set_new(*root, "model", model) || !*roles)
            rc = err_set(err, -ENOMEM, "no memory for the tokenizer of %s", first);
        for (size_t i = 0; !rc && k->roles[i][0]; i++)
            json_object_set_new(*roles, k->roles[i][0], json_string(k->roles[i][1]));
    }
    json_decref(vocab);
    json_decref(merges);
    return rc;
}

/* ---- the class, if config.json is not copied ---- */

int tokenizer_keep_class(const char *from, const char *to, struct err *err)
{
    static const char *const name = "tokenizer_config.json";
    char              *whole = file_path(err, "%s/tokenizer.json", to),
         *path = file_path(err, "%s/%s", to, name), own[64];
    struct said        said;
    json_t            *config = NULL, *file = NULL;
    int                rc = whole && path ? tokenizer_companion(&config, NULL, from, name, err)
                                          : -ENOMEM;

    class_take(own, config);
    rc = rc ? rc : said_read(&said, config, from, err);
    const struct kind *k = rc || !is_general(own) ? NULL : kind_find(&said);

    if (!rc && k && !file_may_be(whole)) {
        rc = tokenizer_companion(&file, NULL, to, name, err);
        file = file ? file : json_object();
        json_object_set_new(file, "tokenizer_class", json_string(k->classes[0]));
        rc = rc ? rc : json_write(file, path, JSON_INDENT(2), err);
        json_decref(file);
    }
    json_decref(config);
    free(whole);
    free(path);
    return rc;
}
