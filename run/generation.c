/* generation.c: a folder's generation_config.json has defaults for options of `generate`, as
 * transformers' generate takes them from there. do_sample false is a temperature of 0. */
#include "run/generation.h"

#include <math.h>

struct row { const char *option, *key; double *value, least, most; };

/* A number of the file; *said: whether it is there. */
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
        { "repetition-penalty", "repetition_penalty", &s->penalty, 0.01, 100 },
    };
    int greedy = json_is_false(json_object_get(generation, "do_sample")), rc = 0;

    *taken = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !rc; i++) {
        int    said, first = i == 0, choosing = i > 0 && i < 3;
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
