/* normalizer.c: passes text through the steps of a normalizer.
 *
 * A step passes what it makes of a piece to the next step at once. Incoming pieces are cut between
 * characters (an incomplete character waits), and no step cuts a character in two, so a step need
 * not look beyond its piece. NFC and NFD hold what may still combine. */
#include "data/text/normalizer.h"

#include "data/base/grow.h"
#include "data/base/utf8.h"
#include "data/text/unicode.h"

#include <assert.h>

struct stage {
    enum normalizer_kind kind;
    char                *from, *to;
    size_t               n_from, n_to;
    struct nfc          *nfc;
    int                  begun; // PREPEND: text has come already
    char                *out;
    size_t               n, cap;
};

struct normalizer {
    struct stage *stages;
    size_t        n;
    unsigned char held[4]; // the beginning of a character
    size_t        n_held;
};

/* A stage, and the receiver of the last stage's output. */
struct flow {
    struct normalizer    *c;
    size_t                stage;
    const struct text_to *to;
};

int normalizer_open(struct normalizer **out, const struct normalizer_step *steps, size_t n,
                    struct err *err)
{
    struct normalizer *c = *out = calloc(1, sizeof *c);
    int                rc = 0;

    if (c)
        c->stages = calloc(n + 1, sizeof *c->stages);
    if (!c || !c->stages)
        return err_set(err, -ENOMEM, "no memory for a normalizer");
    for (c->n = 0; c->n < n && !rc; c->n++) {
        const struct normalizer_step *s = &steps[c->n];
        struct stage                 *g = &c->stages[c->n];

        g->kind = s->kind;
        if ((s->from && !(g->from = strdup(s->from))) || (s->to && !(g->to = strdup(s->to))))
            rc = err_set(err, -ENOMEM, "no memory for a normalizer");
        g->n_from = s->from ? strlen(s->from) : 0;
        g->n_to = s->to ? strlen(s->to) : 0;
        if (!rc && (s->kind == NORMALIZER_NFC || s->kind == NORMALIZER_NFD))
            rc = nfc_open(&g->nfc, s->kind == NORMALIZER_NFC, err);
    }
    return rc;
}

int normalizer_copy(struct normalizer **out, const struct normalizer *c, struct err *err)
{
    struct normalizer_step *steps = calloc(c->n + 1, sizeof *steps);

    *out = NULL;
    if (!steps)
        return err_set(err, -ENOMEM, "no memory for a normalizer");
    for (size_t i = 0; i < c->n; i++)
        steps[i] = (struct normalizer_step){ c->stages[i].kind, c->stages[i].from,
                                             c->stages[i].to };
    int rc = normalizer_open(out, steps, c->n, err);

    free(steps);
    return rc;
}

enum normalizer_cuts normalizer_cuts(const struct normalizer *c)
{
    enum normalizer_cuts cuts = NORMALIZER_CUTS_ANY;

    for (size_t i = 0; i < c->n; i++) {
        enum normalizer_kind kind = c->stages[i].kind;

        if (kind == NORMALIZER_PREPEND || kind == NORMALIZER_REPLACE)
            return NORMALIZER_CUTS_NONE;
        if (kind != NORMALIZER_NFC && kind != NORMALIZER_NFD && kind != NORMALIZER_LOWERCASE)
            cuts = NORMALIZER_CUTS_WORDS;
    }
    return cuts;
}

void normalizer_close(struct normalizer *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->stages && i < c->n; i++) {
        free(c->stages[i].from);
        free(c->stages[i].to);
        free(c->stages[i].out);
        nfc_close(c->stages[i].nfc);
    }
    free(c->stages);
    free(c);
}

void normalizer_reset(struct normalizer *c)
{
    c->n_held = 0;
    for (struct stage *g = c->stages; g < c->stages + c->n; g++) {
        g->begun = 0;
        if (g->nfc)
            nfc_reset(g->nfc);
    }
}

/* ---- one character ---- */

static int is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static void put(struct stage *g, const char *bytes, size_t n)
{
    if (n)
        memcpy(g->out + g->n, bytes, n);
    g->n += n;
}

/* Writes what the stage makes of a character, the n bytes at p. That is at most two bytes more, or
 * for lower case half as many again, or n_to. */
static void point(struct stage *g, const char *p, size_t n, uint32_t cp)
{
    uint32_t lower[2];
    unsigned flags = g->kind == NORMALIZER_CLEAN || g->kind == NORMALIZER_UNMARK
                         ? unicode_flags(cp)
                         : 0;

    if (g->kind == NORMALIZER_CLEAN && flags & (UNICODE_OTHER | UNICODE_SPACE)) {
        put(g, " ", flags & UNICODE_OTHER ? 0 : 1);
    } else if (g->kind == NORMALIZER_CHINESE && is_chinese(cp)) {
        put(g, " ", 1);
        put(g, p, n);
        put(g, " ", 1);
    } else if (g->kind == NORMALIZER_LOWERCASE) {
        int k = unicode_lower(cp, lower);

        if (k == 1 && lower[0] == cp)
            put(g, p, n);
        else
            for (int i = 0; i < k; i++)
                g->n += utf8_encode(g->out + g->n, lower[i]);
    } else if (g->kind == NORMALIZER_REPLACE && n == g->n_from && !memcmp(p, g->from, n)) {
        put(g, g->to, g->n_to);
    } else if (g->kind != NORMALIZER_UNMARK || !(flags & UNICODE_MARK)) {
        put(g, p, n);
    }
}

static int points(struct stage *g, const char *text, size_t n, struct err *err)
{
    size_t most = g->kind == NORMALIZER_REPLACE && g->n_to > 4 ? g->n_to : 4;
    int    rc = grow(&g->out, &g->cap, n * most, 1, "bytes of text", err);

    g->n = 0;
    for (size_t i = 0, len; i < n && !rc; i += len) {
        uint32_t cp;
        int      k = utf8_at(text + i, n - i, &cp);

        len = k > 0 ? (size_t)k : 1;
        if (k > 0)
            point(g, text + i, len, cp);
        else if (g->kind != NORMALIZER_CLEAN)
            put(g, text + i, 1);
    }
    return rc;
}

/* ---- a piece through the stages ---- */

static int flow_on(const struct flow *f, const char *text, size_t n, int last, struct err *err);

static int nfc_out(void *arg, const char *text, size_t n, struct err *err)
{
    return flow_on(arg, text, n, 0, err);
}

/* Passes a piece into the stage f->stage. */
static int stage_feed(const struct flow *f, const char *text, size_t n, int last, struct err *err)
{
    struct stage *g = &f->c->stages[f->stage];
    struct flow   next = { f->c, f->stage + 1, f->to };
    int           rc = 0;

    if (g->nfc) {
        rc = nfc_feed(g->nfc, text, n, last, &(struct text_to){ nfc_out, &next }, err);
    } else if (g->kind == NORMALIZER_PREPEND) {
        if (n && !g->begun)
            rc = flow_on(&next, g->to, g->n_to, 0, err);
        rc = rc ? rc : flow_on(&next, text, n, 0, err);
        g->begun = !last && (g->begun || n);
    } else if (n) {
        rc = points(g, text, n, err);
        rc = rc ? rc : flow_on(&next, g->out, g->n, 0, err);
    }
    return rc || !last ? rc : flow_on(&next, NULL, 0, 1, err);
}

static int flow_on(const struct flow *f, const char *text, size_t n, int last, struct err *err)
{
    if (n == 0 && !last)
        return 0;
    if (f->stage < f->c->n)
        return stage_feed(f, text, n, last, err);
    return n ? f->to->fn(f->to->arg, text, n, err) : 0;
}

/* ---- incoming text ---- */

static int feed(struct normalizer *c, const struct flow *f, const char *text, size_t n, int last,
                struct err *err)
{
    int rc = 0;

    while (c->n_held && n && !rc) { // the waiting bytes are a character now, or will never be one
        c->held[c->n_held] = (unsigned char)*text;
        int len = utf8_length(c->held, c->n_held + 1);

        if (len >= 0) {
            c->n_held++;
            text++;
            n--;
        }
        if (len == 0)
            continue;
        rc = flow_on(f, (char *)c->held, c->n_held, 0, err);
        c->n_held = 0;
    }
    if (rc)
        return rc;
    if (last && c->n_held) {
        rc = flow_on(f, (char *)c->held, c->n_held, 0, err);
        c->n_held = 0;
    }
    size_t cut = last ? 0 : utf8_unfinished(text, n);
    rc = rc ? rc : flow_on(f, text, n - cut, last, err);
    if (cut && !rc) {
        memcpy(c->held, text + n - cut, cut);
        c->n_held = cut;
    }
    return rc;
}

int normalizer_feed(struct normalizer *c, const char *text, size_t n, int last,
                    const struct text_to *to, struct err *err)
{
    struct flow f = { c, 0, to };
    int         rc = feed(c, &f, text, n, last, err);

    assert(rc || !last || !c->n_held);
    if (rc)
        normalizer_reset(c);
    return rc;
}

/* ---- a whole text, with the origin of each byte ---- */

/* A piece of `in`, and where a stage's output for it goes. */
struct tracing { struct traced *out; const struct traced *in; size_t at, len; };

static int traced_out(void *arg, const char *text, size_t n, struct err *err)
{
    const struct tracing *t = arg;

    return traced_add(t->out, t->in, t->at, t->len, text, n, err);
}

/* Passes through the stage the bytes from t->at on that it handles alone. */
static int stage_trace(struct stage *g, struct tracing *t, struct err *err)
{
    const char *text = t->in->text + t->at;
    size_t      n = t->in->n - t->at;

    if (g->nfc) {
        t->len = nfc_unit(g->nfc, text, n);
        return nfc_feed(g->nfc, text, t->len, 1, &(struct text_to){ traced_out, t }, err);
    }
    int k = utf8_length(text, n), rc = 0;

    t->len = k > 0 ? (size_t)k : 1;
    if (g->kind != NORMALIZER_PREPEND)
        return (rc = points(g, text, t->len, err)) ? rc : traced_out(t, g->out, g->n, err);
    if (t->at == 0)
        rc = traced_out(t, g->to, g->n_to, err);
    return rc ? rc : traced_out(t, text, t->len, err);
}

int normalizer_trace(struct normalizer *c, struct traced *x, struct err *err)
{
    int rc = 0;

    for (struct stage *g = c->stages; g < c->stages + c->n && !rc; g++) {
        struct traced  made = { 0 };
        struct tracing t = { .out = &made, .in = x };

        for (; t.at < x->n && !rc; t.at += t.len)
            rc = stage_trace(g, &t, err);
        traced_free(x);
        *x = made;
    }
    return rc;
}
