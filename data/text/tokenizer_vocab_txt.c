/* tokenizer_vocab_txt.c: converts BERT's older files to a tokenizer.json: vocab.txt, with one token
 * per line in the order of ids, and tokenizer_config.json, which says how text is normalized.
 * Missing settings get transformers' defaults. */
#include "data/text/tokenizer_parts.h"

#include "data/file/file.h"
#include "data/json/json.h"
#include "data/base/text_line.h"

/* Reads {token: id}. If a token occurs twice, the later line counts. */
static int vocab_read(json_t **out, const char *path, struct err *err)
{
    char       *text = NULL;
    size_t      n = 0, len;
    int         rc = file_read_whole(&text, &n, path, TOKENIZER_FILE_MAX, err);
    const char *at = text, *line;

    *out = json_object();
    for (json_int_t id = 0; !rc && (line = text_line(&at, text + n, &len)); id++) {
        if (id >= (json_int_t)TOKENIZER_MAX_VOCAB || memchr(line, 0, len))
            rc = err_misuse(err, "%s: line %lld has a NUL, or is one more than the %zu that there "
                            "may be", path, (long long)id + 1, TOKENIZER_MAX_VOCAB);
        else if (json_object_setn_new(*out, line, len, json_integer(id)))
            rc = err_misuse(err, "%s: line %lld is not UTF-8", path, (long long)id + 1);
    }
    free(text);
    return rc;
}

/* The five tokens that BERT has by name, each with its id. cls and sep are put around a text. */
struct five { const char *names[5]; json_int_t ids[5]; };

static int five_read(struct five *f, const json_t *config, const json_t *vocab, const char *path,
                     struct err *err)
{
    static const char *const roles[5][2] = { { "cls_token", "[CLS]" }, { "sep_token", "[SEP]" },
                                             { "unk_token", "[UNK]" }, { "pad_token", "[PAD]" },
                                             { "mask_token", "[MASK]" } };

    for (size_t i = 0; i < 5; i++) {
        f->names[i] = tokenizer_role_name(config, roles[i][0]);
        f->names[i] = f->names[i] ? f->names[i] : roles[i][1];
        const json_t *id = json_object_get(vocab, f->names[i]);
        f->ids[i] = id ? json_integer_value(id) : -1;
        if (!id)
            return err_misuse(err, "%s has no line %.60s, which is its %s", path, f->names[i],
                              roles[i][0]);
    }
    return 0;
}

static json_t *added_make(const struct five *f)
{
    json_t *added = json_array();

    for (size_t i = 0; i < 5; i++)
        json_array_append_new(added, json_pack("{s:I, s:s, s:b, s:b}", "id", f->ids[i], "content",
                                               f->names[i], "normalized", 0, "special", 1));
    return added;
}

/* Makes the tokenizer.json, or NULL without memory. Takes over `vocab`. */
static json_t *root_make(const json_t *config, const struct five *f, json_t *vocab)
{
    const json_t *accents = json_object_get(config, "strip_accents");
    json_t       *root = json_pack(
        "{s:o, s:{s:s, s:b, s:b, s:b}, s:{s:s}, s:{s:s, s:[s,I], s:[s,I]}, "
              "s:{s:s, s:s, s:b}, s:{s:s, s:s, s:s, s:i, s:o}}",
        "added_tokens", added_make(f), "normalizer", "type", "BertNormalizer", "clean_text", 1,
        "handle_chinese_chars", json_flag(config, "tokenize_chinese_chars", 1), "lowercase",
        json_flag(config, "do_lower_case", 1), "pre_tokenizer", "type", "BertPreTokenizer",
        "post_processor", "type", "BertProcessing", "sep", f->names[1], f->ids[1], "cls",
        f->names[0], f->ids[0], "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 1,
        "model", "type", "WordPiece", "unk_token", f->names[2], "continuing_subword_prefix", "##",
        "max_input_chars_per_word", 100, "vocab", vocab);

    if (json_is_boolean(accents))
        json_object_set(json_object_get(root, "normalizer"), "strip_accents", (json_t *)accents);
    return root;
}

int vocab_txt_read(json_t **root, const json_t *config, const char *dir, const char *path,
                   struct err *err)
{
    const char *class = json_str(config, "tokenizer_class");
    json_t     *vocab = NULL;
    struct five f;
    int rc = config ? 0 : err_misuse(err, "%s has no tokenizer_config.json next to it, so nothing "
                                     "says whether its words are in lower case", path);

    *root = NULL;
    if (!rc && *class && !strstr(class, "BertTokenizer") && !strstr(class, "ElectraTokenizer"))
        rc = err_misuse(err, "%s/tokenizer_config.json says that vocab.txt is of a %.60s, but only "
                        "BERT's is known", dir, class);
    rc = rc ? rc : vocab_read(&vocab, path, err);
    rc = rc ? rc : five_read(&f, config, vocab, path, err);
    if (!rc) {
        *root = root_make(config, &f, json_incref(vocab));
        rc = *root ? 0 : err_set(err, -ENOMEM, "no memory for the tokens of %s", path);
    }
    json_decref(vocab);
    return rc;
}
