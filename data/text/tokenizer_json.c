/* tokenizer_json.c: makes the parts of a tokenizer.json that files of other forms do not have, as
 * Hugging Face writes them. */
#include "data/text/tokenizer_parts.h"

/* The rest of a tokenizer.json, as for GPT-2. */
json_t *tokenizer_said_make(void)
{
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:b, s:b, s:b}, "
                     "s:{s:s, s:b, s:b, s:b}}",
                     "version", "1.0", "truncation", "padding", "added_tokens", "normalizer",
                     "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                     "use_regex", 1,
                     "post_processor", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets",
                     0, "use_regex", 1, "decoder", "type", "ByteLevel", "add_prefix_space", 1,
                     "trim_offsets", 1, "use_regex", 1);
}

/* The model of a tokenizer.json, as for GPT-2. */
json_t *tokenizer_model_make(void)
{
    return json_pack("{s:s, s:n, s:n, s:s, s:s, s:b, s:b, s:b}", "type", "BPE", "dropout",
                     "unk_token", "continuing_subword_prefix", "", "end_of_word_suffix", "",
                     "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0);
}

json_t *tokenizer_split_make(const char *expression)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", expression,
                     "behavior", "Isolated", "invert", 0);
}

static void special_append(json_t *pieces, const char *name, int type)
{
    if (name)
        json_array_append_new(pieces, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", name,
                                                "type_id", type));
}

json_t *tokenizer_template_make(const char *const around[2], const json_int_t ids[2])
{
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();

    for (int i = 0; i < 3; i++) { // a text alone; then two
        json_t *to = i ? pair : single;
        int     type = i == 2;

        special_append(to, around[0], type);
        json_array_append_new(to, json_pack("{s:{s:s, s:i}}", "Sequence", "id", type ? "B" : "A",
                                            "type_id", type));
        special_append(to, around[1], type);
    }
    for (int i = 0; i < 2; i++)
        if (around[i])
            json_object_set_new(tokens, around[i],
                                json_pack("{s:s, s:[I], s:[s]}", "id", around[i], "ids", ids[i],
                                          "tokens", around[i]));
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair",
                     pair, "special_tokens", tokens);
}
