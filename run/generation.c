/* generation.c: supplies defaults for options of `generate` from a folder's generation_config.json,
 * as in transformers' generate. do_sample false sets the temperature to 0. */
#include "run/generation.h"

#include <math.h>

struct row { const char *option, *key; double *value, least, most; };

/* Read a number of the file into *r->value. *said: true if the file has it. */
static int number(const struct row *r, int *said, const json_t *generation, struct err *err)
{
    const json_t *v = json_object_get(generation, r->key);
    double        x = json_number_value(v);

    *said = v && !json_is_null(v);
    if (*said && (!json_is_number(v) || !(x >= r->least && x <= r->most)))
        return err_misuse(err, "the model's generation_config.json: \"%s\" must be a number from "
                          "%g to %g: give --%s, which counts instead", r->key, r->least, r->most,
                          r->option);
    *r->value = *said ? x : *r->value;
    return 0;
}

int generation_defaults(struct sampling *s, const struct opt_line *line, const json_t *generation,
                        char taken[GENERATION_TAKEN], struct err *err)
{
    double top_k = (double)s->top_k;
    const struct row rows[] = {
        { "temperature", "temperature", &s->temperature, 0, 1e6 },
        { "top-k", "top_k", &top_k, 0, 1e9 },
        { "top-p", "top_p", &s->top_p, 0, 1 },
        { "min-p", "min_p", &s->min_p, 0, 1 },
        { "repetition-penalty", "repetition_penalty", &s->penalty, 0.01, 100 },
    };
    int greedy = json_is_false(json_object_get(generation, "do_sample")), rc = 0;

    *taken = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !rc; i++) {
        int    said, first = i == 0, choosing = i > 0 && i < 4;
        size_t n = strlen(taken);

        if (opt_given(line, rows[i].option) || (choosing && !(s->temperature > 0)))
            continue;
        rc = number(&rows[i], &said, generation, err);
        if (first && greedy)
            s->temperature = 0;
        if (!rc && (said || (first && greedy)))
            snprintf(taken + n, GENERATION_TAKEN - n, " --%s %g", rows[i].option, *rows[i].value);
    }
    s->top_k = (size_t)top_k;
    return rc;
}

/* Generation settings of transformers (GenerationConfig), each with its neutral number. false, null
 * and an empty list are neutral, too. Not in the table are limits of a text's length, and settings
 * that only matter together with one in the table (length_penalty with num_beams). */
static const struct other { const char *key; double neutral; int samples; } known[] = {
    { "num_beams", 1, 0 }, { "penalty_alpha", 0, 0 }, { "dola_layers", 0, 0 },
    { "guidance_scale", 1, 0 }, { "typical_p", 1, 1 }, { "epsilon_cutoff", 0, 1 },
    { "eta_cutoff", 0, 1 }, { "top_h", 0, 1 }, { "no_repeat_ngram_size", 0, 0 },
    { "encoder_no_repeat_ngram_size", 0, 0 }, { "encoder_repetition_penalty", 1, 0 },
    { "min_length", 0, 0 }, { "min_new_tokens", 0, 0 }, { "suppress_tokens", 0, 0 },
    { "exponential_decay_length_penalty", 0, 0 }, { "begin_suppress_tokens", 0, 0 },
    { "bad_words_ids", 0, 0 }, { "force_words_ids", 0, 0 }, { "constraints", 0, 0 },
    { "sequence_bias", 0, 0 }, { "forced_bos_token_id", -1, 0 }, { "forced_eos_token_id", -1, 0 },
    { "stop_strings", 0, 0 }, { "token_healing", 0, 0 }, { "watermarking_config", 0, 0 },
};

static int changes(const json_t *v, double neutral)
{
    if (json_is_number(v))
        return json_number_value(v) < neutral || json_number_value(v) > neutral;
    return json_is_true(v) || json_is_string(v) || json_array_size(v) || json_object_size(v);
}

void generation_others(char others[GENERATION_OTHERS], const json_t *generation, int samples)
{
    size_t n = 0;

    *others = '\0';
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((samples || !known[i].samples) &&
            changes(json_object_get(generation, known[i].key), known[i].neutral))
            n += (size_t)snprintf(others + n, GENERATION_OTHERS - n, "%s %s", n ? "," : "",
                                  known[i].key);
}
