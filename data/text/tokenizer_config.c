/* tokenizer_config.c: applies the settings of tokenizer_config.json that change ids.
 *
 * This follows transformers' fast tokenizers. Two settings are applied: truncation_side and
 * split_special_tokens. Without a tokenizer.json so are add_bos_token and add_eos_token, from which
 * alone the template is then made. Settings that would make another tokenizer than tokenizer.json's
 * are refused by name: add_prefix_space, BERT's three, and fix_mistral_regex where transformers
 * follows it. All others do not change a fast tokenizer's ids: clean_up_tokenization_spaces and
 * padding_side are about other things, and legacy, use_fast and sp_model_kwargs were used when
 * tokenizer.json was made. */
#include "data/text/tokenizer_parts.h"

#include "data/base/table.h"
#include "data/json/json.h"

/* ---- settings that must agree ---- */

static int disagree(const json_t *config, const char *name, int otherwise, int is, const char *dir,
                    struct err *err)
{
    int said = json_flag(config, name, otherwise);

    return said == is
               ? 0
               : err_misuse(err, "%s/tokenizer_config.json sets %s to %s, but the tokenizer next "
                            "to it has another setting, and siTrain computes only that one", dir,
                            name, said ? "true" : "false");
}

/* BERT's classes make the normalizer from their settings, with their own defaults. The general
 * class ignores these. */
static int bert_agrees(const json_t *bert, const json_t *config, const char *dir, struct err *err)
{
    const char *class = json_str(config, "tokenizer_class");
    int         named = *class != 0,
        own = !named || strstr(class, "BertTokenizer") || strstr(class, "ElectraTokenizer"),
        lower = json_is_true(json_object_get(bert, "lowercase")),
        chinese = json_is_true(json_object_get(bert, "handle_chinese_chars")),
        unmark = json_flag(bert, "strip_accents", lower),
        lower_said = json_flag(config, "do_lower_case", named || lower);

    if (!own)
        return 0;
    int rc = disagree(config, "do_lower_case", named || lower, lower, dir, err);
    rc = rc ? rc : disagree(config, "tokenize_chinese_chars", named || chinese, chinese, dir, err);
    return rc ? rc : disagree(config, "strip_accents", named ? lower_said : unmark, unmark, dir,
                              err);
}

static int config_agrees(const struct tokenizer_settings *s, const json_t *config, const char *dir,
                         struct err *err)
{
    int prefix = s->split.prefix != SPLIT_PREFIX_NEVER;

    for (size_t i = 0; i < s->n_steps; i++)
        prefix |= s->steps[i].kind == NORMALIZER_PREPEND;
    if (s->split.kind == SPLIT_BERT)
        return s->bert ? bert_agrees(s->bert, config, dir, err) : 0;
    return disagree(config, "add_prefix_space", prefix, prefix, dir, err);
}

/* Whether a config.json is of a kind whose tokenizer transformers (5.24) mends: Mistral's or of no
 * said kind, written before version 5.0.0 or by none that is said. */
static int mends_mistral(const json_t *model)
{
    static const char *const types[] = { "", "mistral", "mistral3", "voxtral", "ministral",
                                         "pixtral" };
    const char *type = json_str(model, "model_type"),
               *version = json_str(model, "transformers_version");

    // 5.0.0.dev0 and 5.0.0rc1 are before 5.0.0
    return TABLE_FIND(types, type) &&
           (!*version || strtol(version, NULL, 10) < 5 ||
            (!strncmp(version, "5.0.0", 5) && strpbrk(version + 5, "abcd")));
}

int tokenizer_config_mends(const struct tokenizer_settings *s, size_t vocab, const json_t *config,
                           const char *dir, struct err *err)
{
    enum { LARGE = 100000 }; // transformers mends larger vocabularies alone
    json_t *model = NULL;
    char    command[TOKENIZER_COMMAND];
    int     tekken = s->split.kind == SPLIT_PATTERN && !s->split.n_runs && s->split.pattern &&
                 s->split.pattern == split_pattern_named("Tekken");

    if (vocab <= LARGE || tekken || !json_is_true(json_object_get(config, "fix_mistral_regex")))
        return 0;
    int rc = tokenizer_companion(&model, NULL, dir, "config.json", err);
    if (!rc && model && mends_mistral(model)) {
        tokenizer_command(command, dir);
        rc = err_misuse(err, "%s/tokenizer_config.json sets fix_mistral_regex to true, but "
                        "tokenizer.json is not mended yet: %s)", dir, command);
    }
    json_decref(model);
    return rc;
}

/* ---- the template ---- */

/* Applies add_bos_token and add_eos_token, if one of them is set. */
static int ends_set(struct tokenizer_settings *s, json_t *root, const struct added_tokens *added,
                    const json_t *config, const char *dir, struct err *err)
{
    static const char *const names[2][2] = { { "add_bos_token", "bos_token" },
                                             { "add_eos_token", "eos_token" } };
    const char *around[2] = { NULL };
    json_int_t  ids[2] = { 0 };
    int         said = 0;

    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(config, names[i][0]);

        said |= v != NULL;
        if (!json_is_true(v))
            continue;
        around[i] = tokenizer_role_name(added->roles, names[i][1]);
        const struct added_token *t = around[i] ? added_tokens_find(added, around[i]) : NULL;

        if (t)
            ids[i] = t->id;
        else
            return err_misuse(err, "%s/tokenizer_config.json sets %s, but no file names the "
                              "tokenizer's %s", dir, names[i][0], names[i][1]);
    }
    if (!said)
        return 0;
    s->template = NULL;
    json_object_set_new(root, "post_processor", json_null());
    if (!around[0] && !around[1])
        return 0;
    json_t *step = tokenizer_template_make(around, ids);

    s->template = step;
    return json_object_set_new(root, "post_processor", step)
               ? err_set(err, -ENOMEM, "no memory for the template of %s", dir)
               : 0;
}

/* Fills in the ids of RoBERTa's template, which a pair of files lacks. */
static int roberta_set(const struct tokenizer_settings *s, json_t *root,
                       const struct added_tokens *added, const char *dir, struct err *err)
{
    static const char *const roles[2][2] = { { "sep", "sep_token" }, { "cls", "cls_token" } };
    json_t *step = json_object_get(root, "post_processor");

    if (!s->of_pair || step != s->template || strcmp(json_str(step, "type"), "RobertaProcessing"))
        return 0;
    for (int i = 0; i < 2; i++) {
        const char               *name = tokenizer_role_name(added->roles, roles[i][1]);
        const struct added_token *t = name ? added_tokens_find(added, name) : NULL;

        if (json_object_get(step, roles[i][0]))
            continue;
        if (!t || json_object_set_new(step, roles[i][0], json_pack("[s, I]", name, t->id)))
            return err_misuse(err, "%s: no file names the tokenizer's %s", dir, roles[i][1]);
    }
    return 0;
}

/* ---- the rest ---- */

/* Checks settings that must be true, false or absent. */
static int flags_check(const json_t *config, const char *dir, struct err *err)
{
    static const char *const names[] = {
        "add_prefix_space", "add_bos_token", "add_eos_token", "do_lower_case", "strip_accents",
        "tokenize_chinese_chars", "split_special_tokens", "fix_mistral_regex" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = json_object_get(config, names[i]);

        if (v && !json_is_null(v) && !json_is_boolean(v))
            return err_misuse(err, "%s/tokenizer_config.json: \"%s\" must be true or false", dir,
                              names[i]);
    }
    return 0;
}

/* Reads at which end texts are cut: from tokenizer_config.json, otherwise from tokenizer.json. */
static int side_read(struct tokenizer_settings *s, const json_t *root, const json_t *config,
                     const char *dir, struct err *err)
{
    const json_t *said = json_object_get(config, "truncation_side");
    const char   *side = json_is_string(said) ? json_string_value(said) : "";

    if (!said)
        side = json_str(json_object_get(root, "truncation"), "direction");
    s->cut_left = !strcmp(side, "left") || !strcmp(side, "Left");
    return !said || s->cut_left || !strcmp(side, "right")
               ? 0
               : err_misuse(err, "%s/tokenizer_config.json: \"truncation_side\" must be \"right\" "
                            "or \"left\"", dir);
}

int tokenizer_max_length(size_t *out, const char *dir, struct err *err)
{
    static const double most = 1 << 30; // transformers writes 1e30 for no limit
    json_t             *config = NULL;
    int                 rc = tokenizer_companion(&config, NULL, dir, "tokenizer_config.json", err);
    double              n = json_num(config, "model_max_length");

    *out = n >= 1 && n < most ? (size_t)n : 0;
    json_decref(config);
    return rc;
}

int tokenizer_config_apply(struct tokenizer_settings *s, json_t *root,
                           const struct added_tokens *added, const json_t *config, const char *dir,
                           struct err *err)
{
    int rc = flags_check(config, dir, err);

    rc = rc ? rc : config_agrees(s, config, dir, err);
    rc = rc ? rc : side_read(s, root, config, dir, err);
    s->split_specials = json_is_true(json_object_get(config, "split_special_tokens"));
    rc = rc ? rc : roberta_set(s, root, added, dir, err);
    return rc || !s->of_pair ? rc : ends_set(s, root, added, config, dir, err);
}
