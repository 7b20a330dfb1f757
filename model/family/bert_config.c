/* bert_config.c: reads and writes the config.json of BERT and RoBERTa, and checks the sizes. If
 * transformers would compute something differently, the key is named and refused. */
#include "model/family/bert.h"

void bert_settle(struct model_config *g)
{
    g->n_kv_head = g->n_head;
    g->head_dim = g->n_head ? g->n_embd / g->n_head : 0;
    g->n_inner = g->n_inner ? g->n_inner : 4 * g->n_embd;
    g->n_types = g->n_types ? g->n_types : 1;
    g->window = g->global_every = g->untied = g->qkv_bias = g->qk_norm = 0;
    g->rope = (struct rope){ 0 };
}

int bert_check(const struct model_config *g, struct err *err)
{
    const size_t most = 1u << 20;

    if (g->n_head == 0 || g->n_embd % g->n_head != 0)
        return err_misuse(err, "the width %zu is not divisible by %zu heads", g->n_embd, g->n_head);
    if (g->n_inner == 0 || g->n_inner > most * 4)
        return err_misuse(err, "the width of the MLP (intermediate_size) must be 1 to %zu, not %zu",
                          most * 4, g->n_inner);
    if (g->n_types == 0 || g->n_types > most)
        return err_misuse(err, "there must be 1 to %zu types of tokens (type_vocab_size), not %zu",
                          most, g->n_types);
    if (g->pad >= g->vocab)
        return err_misuse(err, "pad_token_id must be an id of the vocabulary of %zu, not %zu",
                          g->vocab, g->pad);
    return 0;
}

/* Reads pad_token_id. If it is absent or null, transformers' default holds. */
static int config_pad(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    const json_t *pad = json_object_get(k->config, "pad_token_id");

    g->pad = g->arch->padded_positions ? 1 : 0;
    if (!hf_key_has(k, "pad_token_id"))
        return 0;
    if (!json_is_integer(pad) || json_integer_value(pad) < 0)
        return err_misuse(err, "%s: \"pad_token_id\" must be a token's id", k->path);
    g->pad = (size_t)json_integer_value(pad);
    return 0;
}

/* Reads the dropout rates. Embeddings and both projections share one rate, and so does the head if
 * it has none of its own. */
static int config_dropout(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    float head;
    int   rc = hf_key_rate(&g->drop_resid, 0.1f, k, "hidden_dropout_prob", err);

    rc = rc ? rc : hf_key_rate(&g->drop_attn, 0.1f, k, "attention_probs_dropout_prob", err);
    head = g->drop_embd = g->drop_resid;
    if (!rc && hf_key_has(k, "classifier_dropout"))
        rc = hf_key_rate(&head, 0, k, "classifier_dropout", err);
    if (!rc && head != g->drop_resid)
        rc = err_misuse(err, "%s: this version knows \"classifier_dropout\" only where it is null "
                        "or what \"hidden_dropout_prob\" is", k->path);
    return rc;
}

/* Reads the number of positions. In families whose texts begin behind the padding's position, the
 * first rows of the table are not used. */
static int config_positions(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    size_t first = arch_first_position(g);

    if (g->n_positions <= first)
        return err_misuse(err, "%s: \"max_position_embeddings\" must be more than %zu, with which "
                          "positions begin", k->path, first);
    g->n_positions -= first;
    return 0;
}

int bert_config_read(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    static const struct { const char *key; int value; } flags[] = {
        { "is_decoder", 0 }, { "add_cross_attention", 0 }, { "tie_word_embeddings", 1 },
    };
    const struct { const char *key; size_t *to; } sizes[] = {
        { "num_hidden_layers", &g->n_layer }, { "num_attention_heads", &g->n_head },
        { "hidden_size", &g->n_embd }, { "vocab_size", &g->vocab },
        { "max_position_embeddings", &g->n_positions }, { "intermediate_size", &g->n_inner },
    };
    int rc = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = hf_key_size(sizes[i].to, k, sizes[i].key, err);
    rc = rc ? rc : hf_key_size_or(&g->n_types, 2, k, "type_vocab_size", err);
    rc = rc ? rc : hf_key_epsilon(&g->norm_eps, 1e-12f, k, "layer_norm_eps", err);
    rc = rc ? rc : config_dropout(g, k, err);
    rc = rc ? rc : config_pad(g, k, err);
    rc = rc ? rc : config_positions(g, k, err);
    rc = rc ? rc : hf_key_word("gelu", "gelu", k, "hidden_act", err);
    rc = rc ? rc : hf_key_word("absolute", "absolute", k, "position_embedding_type", err);
    for (size_t i = 0; i < sizeof flags / sizeof *flags && !rc; i++)
        rc = hf_key_must(flags[i].value, k, flags[i].key, g->arch->title, err);
    return rc;
}

json_t *bert_config_write(const struct model_config *g)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:n, s:I, "
                     "s:b, s:b}",
                     "hidden_act", "gelu", "position_embedding_type", "absolute",
                     "num_hidden_layers", (json_int_t)g->n_layer, "num_attention_heads",
                     (json_int_t)g->n_head, "hidden_size", (json_int_t)g->n_embd,
                     "intermediate_size", (json_int_t)g->n_inner, "vocab_size",
                     (json_int_t)g->vocab, "max_position_embeddings",
                     (json_int_t)(g->n_positions + arch_first_position(g)), "type_vocab_size",
                     (json_int_t)g->n_types, "layer_norm_eps", hf_decimal(g->norm_eps),
                     "initializer_range", 0.02, "hidden_dropout_prob", hf_decimal(g->drop_resid),
                     "attention_probs_dropout_prob", hf_decimal(g->drop_attn),
                     "classifier_dropout", "pad_token_id", (json_int_t)g->pad, "is_decoder", 0,
                     "tie_word_embeddings", 1);
}
