/* budget.c: computes the memory plan. Memory beyond the minimum is spent where it gains most, in
 * this order: writing while computing, reading while computing, less error feedback over the host
 * link, no recomputing or offloading, and at last a cache of wire parameters.
 *
 * Invariants: if the plan is accepted, total <= limit. total is the sum of the items. Arenas are
 * counted apart and outside the limit, unless the limit is taken from the machine, which has to
 * hold them too. */
#include "offload/estimate/budget.h"

#include "data/base/machine.h"
#include "data/base/round.h"

#include <assert.h>
#include <stdarg.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

uint64_t budget_available(void)
{
    char text[64];
    uint64_t kib = strtoull(machine_field(text, sizeof text, "/proc/meminfo", "MemAvailable"), NULL,
                            10);

    if (!kib) // a kernel without MemAvailable
        kib = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
    return kib * 1024 / 10 * 9;
}

/* Sets what a plan needs at least: frames, buffers and kept layers. */
static void choose_minimum(struct budget *b, const struct budget_request *r)
{
    size_t n = r->n_layer;

    b->frames = r->in_memory ? n : size_min(n, 2);
    b->grad_buffers = !r->training ? 0 : r->in_memory ? n : size_min(n, 1);
    b->residual_in_ram = r->in_memory && r->residual_ram > 0;
    b->record_buffers = r->record_buffer ? BUDGET_BUFFERS_LEAST : 0;
}

static uint64_t residual_bytes(const struct budget *b, const struct budget_request *r)
{
    return b->residual_in_ram ? r->residual_ram
                              : r->residual_ends + b->grad_buffers * r->residual_layer;
}

/* Raises a count up to `most`, as far as `room` has space. */
static void choose_more(size_t *count, size_t most, uint64_t each, uint64_t *room)
{
    while (*count < most && *room >= each) {
        (*count)++;
        *room -= each;
    }
}

/* Replaces `was` bytes by `bytes`, if there is room. */
static int choose_instead(uint64_t bytes, uint64_t was, uint64_t *room)
{
    if (*room + was < bytes)
        return 0;
    *room = *room + was - bytes;
    return 1;
}

static void choose_rest(struct budget *b, const struct budget_request *r, uint64_t room)
{
    size_t   n = r->n_layer;
    uint64_t grad = r->layer_grad + (b->residual_in_ram ? 0 : r->residual_layer);

    if (r->training)
        choose_more(&b->grad_buffers, size_min(n, 2), grad, &room);
    choose_more(&b->frames, size_min(n, 3), r->layer_frame, &room);
    if (b->record_buffers) {
        // kept layers may use this memory later, but not while anything is offloaded
        uint64_t theirs = r->pool_most ? room / 4 : room, left = theirs;

        choose_more(&b->record_buffers, BUDGET_BUFFERS_MOST, r->record_buffer, &left);
        room -= theirs - left;
    }
    if (r->residual_ram && !b->residual_in_ram)
        b->residual_in_ram = choose_instead(r->residual_ram, residual_bytes(b, r), &room);
    if (r->pool_most) {
        b->pool = room < r->pool_most ? room : r->pool_most;
        room -= b->pool;
    } else if (r->training && r->keep) {
        choose_more(&b->kept, n, r->kept_per_layer, &room);
    }
    // if the buffers' memory can hold all remaining activations, offloading ends
    if (b->record_buffers && choose_instead((n - b->kept) * r->kept_per_layer,
                                            b->pool + b->record_buffers * r->record_buffer,
                                            &room)) {
        b->kept = n;
        b->pool = 0;
        b->record_buffers = 0;
    }
    choose_more(&b->frames, n, r->layer_frame, &room);
}

__attribute__((format(printf, 4, 5))) static void
add(struct budget *b, const char *name, uint64_t bytes, const char *fmt, ...)
{
    struct budget_item *item = &b->items[b->n_items];
    va_list             ap;

    if (bytes == 0)
        return;
    assert(b->n_items < sizeof b->items / sizeof *b->items);
    b->n_items++;
    item->name = name;
    item->bytes = bytes;
    va_start(ap, fmt);
    vsnprintf(item->note, sizeof item->note, fmt, ap);
    va_end(ap);
    b->total += bytes;
}

/* Fills in the table and its total. */
static void fill_items(struct budget *b, const struct budget_request *r)
{
    size_t n = r->n_layer;
    const char *ends = r->in_memory  ? "with the states of all blocks"
                       : r->training ? "parameters and gradients"
                                     : "parameters";
    const char *frames = b->frames == n  ? "all stay in memory"
                         : b->frames > 3 ? "more than three are a cache"
                                         : "the others stream through them";
    const char *residual = r->in_memory         ? "what was not sent"
                           : b->residual_in_ram ? "what was not sent stays in memory and is written"
                           : "what was not sent streams both ways: there is no room for it";
    const char *others = b->kept == n        ? ""
                         : b->record_buffers ? "; the others are offloaded"
                                             : "; the others are recomputed";

    b->n_items = b->total = 0;
    add(b, "the program and its libraries", r->process, "with the database");
    add(b, "embeddings, final norm and head", r->fixed_streams, "%s", ends);
    add(b, "layer frames", b->frames * r->layer_frame, "%zu of %zu layers; %s", b->frames, n,
        frames);
    add(b, "layer gradients", b->grad_buffers * r->layer_grad, "%zu of %zu layers",
        b->grad_buffers, n);
    add(b, "error feedback", residual_bytes(b, r), "%s", residual);
    add(b, "kept activations", b->kept * r->kept_per_layer, "%zu of %zu layers%s", b->kept, n,
        others);
    add(b, "kept activations", b->pool, "which, is chosen from measured steps");
    add(b, "activation buffers", b->record_buffers * r->record_buffer,
        r->pool_most ? "%zu, for what is offloaded" :
        "%zu, through which those of %zu of %zu layers go to the devices and back",
        b->record_buffers, n - b->kept, n);
    add(b, "block inputs", r->block_inputs, "of all micro-batches");
    add(b, "work buffers", r->work, "of one layer");
    add(b, "head chunks", r->head, "logits and their gradient");
    add(b, "matrix products", r->products, "scratch and code of the engine");
    add(b, "norm and Top-K buffers", r->compress, "%s", "");
    add(b, "reads of the base", r->base, "on their way from its files");
    add(b, "update buffers", r->host_update, "states that pass through the host");
    add(b, "measurements", r->spans, "of the steps that are open");
    add(b, "tables", r->tables, "of what is updated");
    add(b, "predictions", r->predictions, "of the rows that are evaluated");
    add(b, "order of rows", r->order, "of their lengths, and which are in a row together");
    add(b, "keys and values", r->kv_cache, "cached while generating");
}

/* Rounds up, so that the number in a message is enough: 412M. In whole MiB, or KiB below one. */
static const char *size_text(char *buf, size_t size, uint64_t bytes)
{
    if (bytes < MIB)
        snprintf(buf, size, "%" PRIu64 "K", (bytes + 1023) / 1024);
    else
        snprintf(buf, size, "%" PRIu64 "M", (bytes + MIB - 1) / MIB);
    return buf;
}

static int refuse(const struct budget *b, const struct budget_request *r, struct err *err)
{
    const struct budget_item *most = b->items;
    const char               *hint = "";
    char                      has[32], needs[32], part[32];

    for (size_t i = 0; i < b->n_items; i++)
        most = b->items[i].bytes > most->bytes ? &b->items[i] : most;
    size_text(has, sizeof has, b->limit < MIB ? b->limit : b->limit / MIB * MIB); // rounded down
    if (r->host_mem && r->host_mem < 1024) // e.g. 400 for 400M
        snprintf(has, sizeof has, "%" PRIu64 " bytes", b->limit);
    size_text(needs, sizeof needs, b->total);
    size_text(part, sizeof part, most->bytes);
    if (r->in_memory)
        hint = "; --mode su+o needs less";
    return err_misuse(err, "%s %s %s: this run needs at least %s, of which %s take %s%s",
                      r->host_mem ? "--host-mem" : "this machine has", has,
                      r->host_mem ? "is too small" : "of memory to spare", needs, most->name, part,
                      hint);
}

int budget_plan(struct budget *out, const struct budget_request *r, struct err *err)
{
    uint64_t available = r->host_mem ? 0 : budget_available();

    *out = (struct budget){ .arenas = r->arenas, .limit = r->host_mem };
    if (available > r->arenas)
        out->limit = available - r->arenas;
    choose_minimum(out, r);
    fill_items(out, r);
    if (out->total > out->limit)
        return refuse(out, r, err);
    choose_rest(out, r, out->limit - out->total);
    out->spare = r->pool_most ? out->record_buffers * r->record_buffer : 0;
    fill_items(out, r);
    return 0;
}

static void print_line(char *buf, size_t size, const char *name, uint64_t bytes, const char *note)
{
    size_t used = strlen(buf);

    snprintf(buf + used, size - used, "%-34s %10.1f MiB%s%s\n", name, (double)bytes / (double)MIB,
             note[0] ? "  " : "", note);
}

void budget_print(const struct budget *b, char *buf, size_t size)
{
    assert(size > 0);
    buf[0] = '\0';
    for (size_t i = 0; i < b->n_items; i++)
        print_line(buf, size, b->items[i].name, b->items[i].bytes, b->items[i].note);
    print_line(buf, size, "total", b->total, "");
    print_line(buf, size, "limit", b->limit, "");
    if (b->arenas)
        print_line(buf, size, "arenas of emulated devices", b->arenas, "on top of it");
}
