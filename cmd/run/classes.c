/* classes.c: a params_source that changes the order of one matrix's rows, and the names that say
 * which. */
#include "cmd/run/classes.h"

#include "cmd/run/labels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void own_order(struct classes *c)
{
    for (size_t i = 0; i < c->gpt->n_labels; i++)
        c->place[i] = i;
}

int classes_open(struct classes *c, const struct model_folder *r, const char *path, struct err *err)
{
    *c = (struct classes){ .gpt = &r->gpt, .body = r->source };
    c->place = calloc(r->gpt.n_labels + 1, sizeof *c->place);
    if (!c->place)
        return err_set(err, -ENOMEM, "out of memory");
    own_order(c);
    return r->hf ? hf_labels(&c->names, path, err)
                 : labels_load(&c->names, r->run.log, r->run.dir, r->gpt.n_labels, err);
}

void classes_close(struct classes *c)
{
    hf_labels_free(&c->names);
    free(c->place);
    *c = (struct classes){ 0 };
}

int classes_named(const struct classes *c)
{
    for (size_t i = 0; i < c->names.n; i++) {
        char plain[32];

        snprintf(plain, sizeof plain, "LABEL_%zu", i);
        if (strcmp(plain, c->names.name[i]))
            return 1;
    }
    return 0;
}

int classes_match(struct classes *c, const char *const *names, size_t n)
{
    size_t found = 0;

    if (!names || n != c->gpt->n_labels || n != c->names.n)
        return 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (!strcasecmp(names[i], c->names.name[k])) {
                c->place[i] = k;
                found++;
                break;
            }
    if (found == n)
        return 1;
    own_order(c);
    return 0;
}

static int read_ordered(void *ctx, size_t block, size_t first, size_t n, float *out,
                        struct err *err)
{
    const struct classes    *c = ctx;
    const struct gpt_config *g = c->gpt;
    size_t                   head = block == g->n_layer + 1 ? gpt_offset(g, GPT_SCORE_W) : SIZE_MAX;
    int                      rc = 0;

    while (n > 0 && !rc) {
        size_t from = first, part = first < head && n > head - first ? head - first : n;

        if (first >= head) {
            size_t row = (first - head) / g->n_embd, col = (first - head) % g->n_embd;

            from = head + c->place[row] * g->n_embd + col;
            part = g->n_embd - col < n ? g->n_embd - col : n;
        }
        rc = c->body.read(c->body.ctx, block, from, part, out, err);
        first += part;
        out += part;
        n -= part;
    }
    return rc;
}

struct params_source classes_source(const struct classes *c)
{
    return (struct params_source){ read_ordered, (struct classes *)(uintptr_t)c };
}
