/* packing.c: best-fit decreasing. Rows that have the same room left are a list, and a bit for each
 * room says whether its list has any, so that the row which fits best is a search for a bit.
 *
 * Time is that of n such searches, memory some words an example: a million examples take 24 MB
 * while they are packed and 8 MB afterwards. */
#include "run/sources/packing.h"

#include <assert.h>

#define NONE UINT32_MAX

/* While rows are filled. */
struct filling {
    const uint32_t *length;
    uint64_t        n;
    uint32_t        size;
    uint32_t       *order; // (n) examples, the longest first; then row of each example
    uint32_t       *row;   // (n) row of each example
    uint32_t       *next;  // (n) of a row: the next one with as much room
    uint32_t       *head;  // (size + 1) the first row with so much room, or NONE
    uint64_t       *bits;  // (size + 1) whether there is one
    uint32_t        rows;
};

static size_t words_of(uint32_t size) { return (size_t)size / 64 + 1; }

/* Sort by counting; of equally long examples the earlier one comes first. */
static void sort(struct filling *f)
{
    uint32_t *at = f->head; // free until rows are filled

    memset(at, 0, ((size_t)f->size + 1) * sizeof *at);
    for (uint64_t i = 0; i < f->n; i++)
        at[f->length[i]]++;
    for (uint32_t len = f->size + 1, first = 0; len-- > 0;) {
        uint32_t count = at[len];

        at[len] = first;
        first += count;
    }
    for (uint64_t i = 0; i < f->n; i++)
        f->order[at[f->length[i]]++] = (uint32_t)i;
}

static void put(struct filling *f, uint32_t row, uint32_t room)
{
    f->next[row] = f->head[room];
    f->head[room] = row;
    f->bits[room / 64] |= UINT64_C(1) << room % 64;
}

static uint32_t take(struct filling *f, uint32_t room)
{
    uint32_t row = f->head[room];

    f->head[room] = f->next[row];
    if (f->head[room] == NONE)
        f->bits[room / 64] &= ~(UINT64_C(1) << room % 64);
    return row;
}

/* The least room of a row that has at least `least`; NONE: there is no such row. */
static uint32_t best_room(const struct filling *f, uint32_t least)
{
    size_t   w = least / 64, words = words_of(f->size);
    uint64_t bits = f->bits[w] & (UINT64_MAX << least % 64);

    while (!bits && ++w < words)
        bits = f->bits[w];
    return bits ? (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits) : NONE;
}

static void fill(struct filling *f)
{
    memset(f->head, 0xff, ((size_t)f->size + 1) * sizeof *f->head);
    for (uint64_t i = 0; i < f->n; i++) {
        uint32_t len = f->length[f->order[i]], room = best_room(f, len);
        uint32_t row = room == NONE ? f->rows++ : take(f, room);

        f->row[f->order[i]] = row;
        put(f, row, (room == NONE ? f->size : room) - len);
    }
}

/* Number the rows by their first examples, and list each one's. `order` is free by now: it becomes
 * the new number of a row. */
static void list(struct packing *out, struct filling *f)
{
    uint32_t *number = f->order, rows = 0;

    memset(number, 0xff, f->rows * sizeof *number);
    for (uint64_t i = 0; i < f->n; i++) {
        if (number[f->row[i]] == NONE)
            number[f->row[i]] = rows++;
        f->row[i] = number[f->row[i]];
    }
    memset(out->start, 0, ((size_t)rows + 1) * sizeof *out->start);
    for (uint64_t i = 0; i < f->n; i++)
        out->start[f->row[i] + 1]++;
    for (uint32_t r = 0; r < rows; r++)
        out->start[r + 1] += out->start[r];
    uint32_t *at = f->next; // of a row: where its next example goes
    memcpy(at, out->start, rows * sizeof *at);
    for (uint64_t i = 0; i < f->n; i++)
        out->item[at[f->row[i]]++] = (uint32_t)i;
    out->rows = rows;
    out->items = f->n;
}

int packing_make(struct packing *out, const uint32_t *length, uint64_t n, uint32_t size,
                 struct err *err)
{
    struct filling f = { .length = length, .n = n, .size = size,
                         .order = malloc(n * sizeof *f.order), .row = malloc(n * sizeof *f.row),
                         .next = malloc(n * sizeof *f.next),
                         .head = malloc(((size_t)size + 1) * sizeof *f.head),
                         .bits = calloc(words_of(size), sizeof *f.bits) };
    int            rc = 0;

    assert(n > 0 && n < NONE);
    *out = (struct packing){ 0 };
    if (f.order && f.row && f.next && f.head && f.bits) {
        sort(&f);
        fill(&f);
        out->item = malloc(n * sizeof *out->item);
        out->start = malloc(((size_t)f.rows + 1) * sizeof *out->start);
    }
    if (out->item && out->start)
        list(out, &f);
    else
        rc = err_set(err, -ENOMEM, "out of memory to pack %" PRIu64 " examples", n);
    if (rc)
        packing_free(out);
    free(f.order);
    free(f.row);
    free(f.next);
    free(f.head);
    free(f.bits);
    return rc;
}

/* Puts the rows of a part behind those before it. */
static void join(struct packing *all, const struct packing *part)
{
    for (uint64_t i = 0; i < part->items; i++)
        all->item[all->items + i] = (uint32_t)all->items + part->item[i];
    for (uint64_t r = 0; r <= part->rows; r++)
        all->start[all->rows + r] = (uint32_t)all->items + part->start[r];
    all->items += part->items;
    all->rows += part->rows;
}

int packing_make_parts(struct packing *out, const uint32_t *length, uint64_t *part, size_t n,
                       uint32_t size, struct err *err)
{
    uint64_t all = 0;
    int      rc = 0;

    for (size_t i = 0; i < n; i++)
        all += part[i];
    *out = (struct packing){ malloc((all + 1) * sizeof *out->item),
                             calloc(all + 1, sizeof *out->start), 0, 0 };
    if (!out->item || !out->start)
        rc = err_set(err, -ENOMEM, "out of memory to pack %" PRIu64 " examples", all);
    for (size_t i = 0; i < n && !rc; i++) {
        struct packing p = { 0 };

        rc = part[i] ? packing_make(&p, length + out->items, part[i], size, err) : 0;
        if (!rc && part[i])
            join(out, &p);
        part[i] = p.rows;
        packing_free(&p);
    }
    if (rc)
        packing_free(out);
    return rc;
}

void packing_free(struct packing *p)
{
    free(p->item);
    free(p->start);
    *p = (struct packing){ 0 };
}
