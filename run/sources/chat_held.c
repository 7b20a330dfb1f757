/* chat_held.c: keeps a copy of a row, and encodes it within the bounds on memory. What is not
 * trained on of a long row is given back at once: a block has many of them. */
#include "run/sources/chat_held.h"

#include "data/base/hash.h"
#include "data/base/machine.h"
#include "data/base/round.h"

/* KEPT_IDS: a row's memory for so many ids is used again. A row that is encoded takes up to
 * ROW_TIMES its bytes (a tokenizer of single bytes: 62). Rows of more than LARGE bytes are encoded
 * one at a time. With --host-mem both are bounded by what it leaves, and so is the memory of a
 * template; a row of LEAST bytes is always tried. */
enum { KEPT_IDS = 1 << 14, ROW_TIMES = 80, LARGE = 1 << 20, LEAST = 64 << 10,
       TEMPLATE = 256 << 20 };

/* ---- bounds ---- */

size_t chat_row_most(uint64_t host_mem)
{
    uint64_t used = rss_now(), left = host_mem > used ? host_mem - used : 0;

    return host_mem ? size_max(LEAST, left / ROW_TIMES) : SIZE_MAX;
}

void chat_bounds_find(struct chat_bounds *b, uint64_t host_mem, int threads)
{
    size_t most = chat_row_most(host_mem), all = most == SIZE_MAX ? most : most * ROW_TIMES;

    b->row = most;
    b->large = size_min(LARGE, most / (size_t)threads);
    b->memory[0] = size_min(TEMPLATE, all / (size_t)threads);
    b->memory[1] = size_min(TEMPLATE, all);
}

/* ---- copies ---- */

static size_t text_bytes(const json_t *v)
{
    const char *key;
    json_t     *member;
    size_t      n = json_is_string(v) ? json_string_length(v) : 0;

    for (size_t i = 0; i < json_array_size(v); i++)
        n += text_bytes(json_array_get(v, i));
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
        n += text_bytes(member);
    return n + 64;
}

void chat_held_clear(struct chat_held *h)
{
    json_decref(h->row.turns.messages);
    json_decref(h->row.tools);
    json_decref((json_t *)(uintptr_t)h->row.variables);
    free(h->row.turns.counts);
    free((char *)(uintptr_t)h->row.prompt);
    free((char *)(uintptr_t)h->row.completion);
    json_decref(h->row.other_turns.messages);
    free(h->row.other_turns.counts);
    free((char *)(uintptr_t)h->row.other);
    h->row = (struct chat_row){ 0 };
    for (size_t k = 0; k < 2; k++)
        if (h->ids[k].ids.cap > KEPT_IDS)
            chat_ids_free(&h->ids[k]);
}

/* Adds about how large they are to *bytes. Returns whether there was memory. */
static int turns_copy(struct chat_turns *to, const struct chat_turns *from, size_t *bytes)
{
    size_t n = json_array_size(from->messages);

    if (!from->messages)
        return 1;
    to->messages = json_incref(from->messages);
    to->counts = malloc((n + 1) * sizeof *to->counts);
    if (to->counts)
        memcpy(to->counts, from->counts, n * sizeof *to->counts);
    *bytes += text_bytes(from->messages);
    return to->counts != NULL;
}

static int text_copy(const char **to, const char *from, size_t *bytes)
{
    *to = from ? strdup(from) : NULL;
    *bytes += from ? strlen(from) : 0;
    return !from || *to;
}

int chat_held_set(struct chat_held *h, const struct chat_row *row, struct err *err)
{
    int ok;

    h->row = (struct chat_row){ .path = row->path, .line = row->line, .form = row->form,
                                .has_turns = row->has_turns, .tools = json_incref(row->tools),
                                .variables = json_incref((json_t *)(uintptr_t)row->variables) };
    h->bytes = text_bytes(row->tools);
    if (row->has_turns)
        ok = turns_copy(&h->row.turns, &row->turns, &h->bytes) &&
             turns_copy(&h->row.other_turns, &row->other_turns, &h->bytes);
    else
        ok = text_copy(&h->row.prompt, row->prompt, &h->bytes) &&
             text_copy(&h->row.completion, row->completion, &h->bytes) &&
             text_copy(&h->row.other, row->other, &h->bytes);
    return ok ? 0 : err_set(err, -ENOMEM, "%s: out of memory for a row", row->path);
}

/* ---- a hash ---- */

static uint64_t text_hash(const char *text) { return text ? hash_bytes(text, strlen(text)) : 1; }

/* The order of an object's members does not count, that of an array's does. */
static uint64_t json_hash(const json_t *v)
{
    const char *key;
    json_t     *member;
    uint64_t    h = v ? hash_mix((uint64_t)json_typeof(v) + 1) : 1;

    if (json_is_string(v))
        return hash_mix(h ^ hash_bytes(json_string_value(v), json_string_length(v)));
    if (json_is_integer(v))
        return hash_mix(h ^ (uint64_t)json_integer_value(v));
    if (json_is_real(v)) {
        double value = json_real_value(v);

        return hash_mix(h ^ hash_bytes(&value, sizeof value));
    }
    for (size_t i = 0; i < json_array_size(v); i++)
        h = hash_mix(h * 3 + json_hash(json_array_get(v, i)));
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
        h += hash_mix(text_hash(key) * 3 + json_hash(member));
    return hash_mix(h);
}

uint64_t chat_held_hash(const struct chat_held *h)
{
    const struct chat_row *r = &h->row;
    const uint64_t         parts[] = { json_hash(r->turns.messages), json_hash(r->tools),
                                       json_hash(r->other_turns.messages), text_hash(r->prompt),
                                       text_hash(r->completion), text_hash(r->other) };

    return hash_bytes(parts, sizeof parts);
}

/* ---- encoding ---- */

static void ids_cut(struct chat_ids *x, size_t most)
{
    if (x->ids.n <= most || x->ids.cap <= KEPT_IDS)
        return;
    int32_t       *ids = realloc(x->ids.ids, most * sizeof *ids);
    unsigned char *counts = realloc(x->counts, most);

    x->ids.ids = ids ? ids : x->ids.ids;
    x->counts = counts ? counts : x->counts;
    x->ids.cap = ids ? most : x->ids.cap;
    x->counts_cap = counts ? most : x->counts_cap;
    x->ids.n = most;
}

static void encode_cut(struct chat_held *h, const struct chat_encoding *how, size_t most)
{
    const struct token_buf *a = &h->ids[0].ids, *b = &h->ids[1].ids;

    h->rc = chat_encode(how, &h->row, &h->ids[0], &h->ids[1], &h->err);
    if (h->rc)
        return;
    h->same = h->row.form == CHAT_FORM_PREFERENCE && a->n == b->n &&
              (!a->n || !memcmp(a->ids, b->ids, a->n * sizeof *a->ids));
    for (size_t k = 0; k < 2; k++) {
        h->tokens[k] = h->ids[k].ids.n;
        ids_cut(&h->ids[k], most);
    }
}

void chat_held_encode(struct chat_held *h, const struct chat_encoding *how,
                      const struct chat_bounds *bounds, size_t most)
{
    struct chat_encoding bounded = *how;
    int                  large = h->bytes > bounds->large;

    bounded.memory = bounds->memory[large];
    if (!large) {
        encode_cut(h, &bounded, most);
        return;
    }
#pragma omp critical(large_row)
    encode_cut(h, &bounded, most);
}
