/* compare.c: runs beside the first of them, as the papers' figures have SU, SU+O and SU+O+C beside
 * BASE. How fast a run is are the tokens a second of its median steady step, so that runs of unlike
 * batches can be compared, too; what else is unlike is said in words. */
#include "cmd/report/report.h"

#include "cmd/report/figures.h"

/* What makes two runs unlike, in the order in which it is said. */
static const struct trait { const char *key, *words; } traits[] = {
    { "config.n_layer", "another model" },
    { "config.n_head", "another model" },
    { "config.n_embd", "another model" },
    { "config.vocab", "another model" },
    { "config.n_labels", "another model" },
    { "option.batch", "another batch" },
    { "option.seq", "another length of rows" },
    { "option.grad-accum", "another accumulation" },
    { "option.dtype", "another dtype" },
    { "option.optimizer", "another optimizer" },
    { "option.threads", "other threads" },
    { "engine", "another engine" },
    { "cpu", "another processor" },
};

static void unlike(char *buf, size_t size, const json_t *a, const json_t *b)
{
    *buf = '\0';
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
        size_t n = strlen(buf);

        if (strcmp(report_setting_text(a, traits[i].key), report_setting_text(b, traits[i].key)) &&
            !strstr(buf, traits[i].words))
            snprintf(buf + n, size - n, "%s%s", n ? ", " : "", traits[i].words);
    }
}

void report_compare(json_t *reports)
{
    const json_t *first = json_array_get(reports, 0);
    double  pace = json_num(json_object_get(first, "times"), "tokens_per_second");
    json_t *report;
    size_t  i;

    json_array_foreach(reports, i, report) {
        double  its = json_num(json_object_get(report, "times"), "tokens_per_second");
        json_t *c = json_object();
        char    words[256];

        unlike(words, sizeof words, first, report);
        if (pace > 0 && its > 0)
            json_object_set_new(c, "speedup", json_real(its / pace));
        json_object_set_new(c, "unlike", json_string(words));
        json_object_set_new(report, "comparison", c);
    }
}
