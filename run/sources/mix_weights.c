/* mix_weights.c: reads weights, and writes the parts that they become. */
#include "run/sources/mix_weights.h"

#include "data/base/number.h"

int mix_weights_read(uint64_t *parts, const char *text, size_t n, const char *option,
                     struct err *err)
{
    double      weight[MIX_MOST];
    const char *at = text;
    size_t      found = 0;

    for (const char *end; ; at = end + 1) {
        double w = 0;

        end = number_decimal(at, &w);
        if (end && *end == '%') {
            w /= 100;
            end++;
        }
        if (!end || (*end && *end != ',') || !(w > 0) || !(w < 1e300))
            return err_misuse(err, "--mix %s: a weight above 0 for each --%s is expected, commas "
                              "between, such as 0.7,0.3", text, option);
        if (found < MIX_MOST)
            weight[found] = w;
        found++;
        if (!*end)
            break;
    }
    if (found != n)
        return err_misuse(err, "--mix %s has %zu weight%s, and --%s was given %zu time%s: give "
                          "one weight for each", text, found, found == 1 ? "" : "s", option, n,
                          n == 1 ? "" : "s");
    size_t none = mixture_divide(weight, n, parts);
    return none == n ? 0
                     : err_misuse(err, "--mix %s: weight %zu is so small that not one of %d rows "
                                  "is of its source: give a larger one, or leave the source out",
                                  text, none + 1, MIXTURE_BLOCK);
}

int mix_weights_text(char **out, const char *mix, size_t n, const char *option, struct err *err)
{
    uint64_t parts[MIX_MOST];
    size_t   bytes;
    int      rc = mix_weights_read(parts, mix, n, option, err);
    FILE    *f = rc ? NULL : open_memstream(out, &bytes);

    for (size_t i = 0; i < n && f; i++)
        fprintf(f, "%s%" PRIu64, i ? "," : "", parts[i]);
    return rc || (f && !fclose(f)) ? rc : err_set(err, -ENOMEM, "out of memory for --mix");
}

int mix_weights_apply(struct mixture *out, const char *parts, const char *where, struct err *err)
{
    uint64_t part[MIX_MOST];

    out->weighted = parts != NULL;
    if (!parts)
        return 0;
    if (out->n > MIX_MOST || mix_weights_read(part, parts, out->n, "data", err))
        return err_set(err, -EBADMSG, "%s is damaged: %s", where, parts);
    for (size_t i = 0; i < out->n; i++)
        out->source[i].part = part[i];
    return 0;
}
