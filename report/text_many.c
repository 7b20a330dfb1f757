/* text_many.c: several runs in a terminal: each beside the first, and in what it is unlike it. */
#include "report/report.h"

#include "report/figures.h"
#include "report/text.h"

#include <math.h>

enum { STACK = 60, FIGURE = 32 };

static void text_stack(const struct text *t, const json_t *report, double longest)
{
    const json_t *b = json_object_get(report, "breakdown");
    double        end = 0;
    int           at = 0;

    fprintf(t->out, "  ");
    for (int i = 0; i < PARTS; i++) {
        end += json_num(b, breakdown_parts[i].field);
        int to = longest > 0 ? (int)lround(end / longest * STACK) : 0;

        text_letters(t, breakdown_parts[i].letter, to - at);
        at = to;
    }
    fputc('\n', t->out);
}

/* "unlike the first: lr 0.0001 (0.0003), ...", of long values their ends. */
static void text_differs(const struct text *t, const json_t *all)
{
    const json_t *d;
    size_t        i, bytes, cut[2];
    char         *text = NULL;
    FILE         *into = json_array_size(all) ? open_memstream(&text, &bytes) : NULL;

    if (!into)
        return;
    fputs("unlike the first: ", into);
    json_array_foreach(all, i, d) {
        const char *its = text_path_end(json_str(d, "value"), &cut[0]);
        const char *was = text_path_end(json_str(d, "first"), &cut[1]);

        fprintf(into, "%s%s %s%s (%s%s)", i ? ", " : "", json_str(d, "setting"),
                cut[0] ? "..." : "", its, cut[1] ? "..." : "", was);
    }
    if (!fclose(into)) {
        fputs("  ", t->out);
        text_wrapped(t, text, 4);
    }
    free(text);
}

static void text_comparison(const struct text *t, const json_t *reports)
{
    const json_t *r;
    double        most = 0, longest = 0;
    size_t        i;
    char          a[FIGURE], evals[256];

    json_array_foreach(reports, i, r) {
        most = fmax(most, json_num(json_object_get(r, "comparison"), "speedup"));
        longest = fmax(longest, breakdown_sum(json_object_get(r, "breakdown")));
    }
    text_heading(t, "Speed-up over the first, by tokens a second of the median steady step");
    json_array_foreach(reports, i, r) {
        const json_t *c = json_object_get(r, "comparison"), *q = json_object_get(r, "times");

        fprintf(t->out, "%zu %s, mode %s\n", i + 1, json_str(r, "run"),
                figure_mode(a, sizeof a, r));
        text_differs(t, json_object_get(r, "differs"));
        if (*figure_evals(evals, sizeof evals, r)) {
            fputs("  ", t->out);
            text_wrapped(t, evals, 4);
        }
        if (!q) {
            fprintf(t->out, "  no steady step\n");
            continue;
        }
        if (json_object_get(c, "speedup")) // none where the first has no steady step
            fprintf(t->out, "  %6.2f x ", json_num(c, "speedup"));
        else
            fprintf(t->out, "  %8s ", "-");
        fprintf(t->out, "%9s a step %12.1f tokens/s  ",
                figure_seconds(a, sizeof a, json_num(q, "median")),
                json_num(q, "tokens_per_second"));
        if (most > 0)
            text_bar(t, '#', json_num(c, "speedup") / most, TEXT_BAR);
        fputc('\n', t->out);
    }
    text_heading(t, "Breakdown of a step: F forward, B backward + gradients, U update, . other");
    json_array_foreach(reports, i, r) {
        const json_t *b = json_object_get(r, "breakdown");

        fprintf(t->out, "%zu %9s\n", i + 1, figure_seconds(a, sizeof a, breakdown_sum(b)));
        text_stack(t, r, longest);
    }
}

void report_text(FILE *out, const json_t *reports, int colour_too)
{
    struct text t = { out, colour_too };

    if (json_array_size(reports) > 1)
        text_comparison(&t, reports);
    else
        text_one(&t, json_array_get(reports, 0));
}
