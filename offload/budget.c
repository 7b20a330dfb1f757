/* budget.c: the arithmetic of the memory plan. Parts that have one size are summed first; what is
 * left buys, in order of what it gains: a second gradient buffer (writing beside computing), a
 * third frame (reading beside computing), a third buffer for offloaded activations, the residual of
 * error feedback (of 8 bytes a parameter over the host link 4 are left), kept activations (no
 * recomputing or offloading), and at last more frames (a cache of wire parameters).
 *
 * Invariants: total <= limit where the plan is accepted; total is the sum of the items; arenas
 * stand beside it, outside the limit, but for a limit that is taken from the machine, which has to
 * hold them too. */
#include "offload/budget.h"

#include "data/base/machine.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

uint64_t budget_available(void)
{
    char text[64];
    uint64_t kib = strtoull(machine_field(text, sizeof text, "/proc/meminfo", "MemAvailable"), NULL,
                            10);

    if (!kib) // a kernel without it
        kib = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
    return kib * 1024 / 10 * 9;
}

/* How much of what there is a choice about. */
struct choice { size_t frames, grad_buffers, kept, record_buffers; int residual_in_ram; };

static struct choice choose_minimum(const struct budget_request *r)
{
    struct choice c = { .frames = r->n_layer < 2 ? r->n_layer : 2,
                        .grad_buffers = r->training && r->n_layer ? 1 : 0 };

    if (r->in_memory) {
        c.frames = r->n_layer;
        c.grad_buffers = r->training ? r->n_layer : 0;
        c.residual_in_ram = r->residual_ram > 0;
    }
    if (r->training && r->keep == 1)
        c.kept = r->n_layer;
    if (r->record_buffer && !r->record_optional && c.kept < r->n_layer)
        c.record_buffers = 2;
    return c;
}

static uint64_t fixed_bytes(const struct budget_request *r)
{
    return r->process + r->fixed_streams + r->block_inputs + r->work + r->head + r->products +
           r->compress + r->spans + r->tokens + r->tables + r->kv_cache + r->predictions +
           r->host_update;
}

static uint64_t residual_bytes(const struct budget_request *r, const struct choice *c)
{
    return c->residual_in_ram ? r->residual_ram
                              : r->residual_ends + c->grad_buffers * r->residual_layer;
}

static uint64_t choice_bytes(const struct budget_request *r, const struct choice *c)
{
    return c->frames * r->layer_frame + c->grad_buffers * r->layer_grad +
           c->kept * r->kept_per_layer + c->record_buffers * r->record_buffer +
           residual_bytes(r, c);
}

/* As many more of one thing, up to `most`, as `room` has space for. */
static void choose_more(size_t *count, size_t most, uint64_t each, uint64_t *room)
{
    while (*count < most && *room >= each) {
        (*count)++;
        *room -= each;
    }
}

/* All of it, in place of the buffers it would stream through, or none. */
static void choose_residual(const struct budget_request *r, struct choice *c, uint64_t *room)
{
    uint64_t streamed = residual_bytes(r, c);

    if (!r->residual_ram || c->residual_in_ram || *room + streamed < r->residual_ram)
        return;
    *room = *room + streamed - r->residual_ram;
    c->residual_in_ram = 1;
}

/* Where their buffers hold the activations that are left, nothing is offloaded. */
static void choose_no_records(const struct budget_request *r, struct choice *c, uint64_t *room)
{
    uint64_t buffers = c->record_buffers * r->record_buffer;
    uint64_t left = (r->n_layer - c->kept) * r->kept_per_layer;

    if (!c->record_buffers || *room + buffers < left)
        return;
    *room = *room + buffers - left;
    c->kept = r->n_layer;
    c->record_buffers = 0;
}

static void choose_rest(const struct budget_request *r, struct choice *c, uint64_t room)
{
    size_t   third = r->n_layer < 3 ? r->n_layer : 3;
    uint64_t grad = r->layer_grad + (c->residual_in_ram ? 0 : r->residual_layer);

    if (r->training)
        choose_more(&c->grad_buffers, r->n_layer < 2 ? r->n_layer : 2, grad, &room);
    choose_more(&c->frames, third, r->layer_frame, &room);
    if (c->record_buffers || (r->record_buffer && room >= 2 * r->record_buffer))
        choose_more(&c->record_buffers, 3, r->record_buffer, &room);
    choose_residual(r, c, &room);
    if (r->training && r->keep < 0)
        choose_more(&c->kept, r->n_layer, r->kept_per_layer, &room);
    choose_no_records(r, c, &room);
    choose_more(&c->frames, r->n_layer, r->layer_frame, &room);
}

static void add(struct budget *b, const char *name, uint64_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void add(struct budget *b, const char *name, uint64_t bytes, const char *fmt, ...)
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

static const char *residual_note(const struct budget_request *r, const struct choice *c)
{
    if (r->in_memory)
        return "what was not sent";
    return c->residual_in_ram ? "what was not sent stays in memory and is written"
                              : "what was not sent streams both ways: there is no room for it";
}

static const char *frames_note(const struct budget_request *r, const struct choice *c)
{
    if (c->frames == r->n_layer)
        return "all stay in memory";
    return c->frames > 3 ? "more than three are a cache" : "the others stream through them";
}

/* The table, and the total with it. */
static void fill_items(struct budget *b, const struct budget_request *r, const struct choice *c)
{
    const char *ends = r->in_memory  ? "with the states of all blocks"
                       : r->training ? "parameters and gradients"
                                     : "parameters";

    add(b, "the program and its libraries", r->process, "with the database");
    add(b, "the embeddings and the final norm", r->fixed_streams, "%s", ends);
    add(b, "layer frames", c->frames * r->layer_frame, "%zu of %zu layers; %s", c->frames,
        r->n_layer, frames_note(r, c));
    add(b, "layer gradients", c->grad_buffers * r->layer_grad, "%zu of %zu layers", c->grad_buffers,
        r->n_layer);
    add(b, "error feedback", residual_bytes(r, c), "%s", residual_note(r, c));
    add(b, "kept activations", c->kept * r->kept_per_layer, "%zu of %zu layers%s", c->kept,
        r->n_layer,
        c->kept == r->n_layer ? ""
        : c->record_buffers   ? "; the others are offloaded"
                              : "; the others are recomputed");
    add(b, "activation buffers", c->record_buffers * r->record_buffer,
        "%zu, through which those of %zu of %zu layers go to the devices and back",
        c->record_buffers, r->n_layer - c->kept, r->n_layer);
    add(b, "block inputs", r->block_inputs, "of all micro-batches");
    add(b, "work buffers", r->work, "of one layer");
    add(b, "head chunks", r->head, "logits and their gradient");
    add(b, "matrix products", r->products, "scratch and code of the engine");
    add(b, "norm and Top-K buffers", r->compress, "%s", "");
    add(b, "update buffers", r->host_update, "states that pass through the host");
    add(b, "measurements", r->spans, "of the steps that are open");
    add(b, "tables", r->tables, "of what is updated");
    add(b, "tokens", r->tokens, "of one step");
    add(b, "predictions", r->predictions, "of the rows that are evaluated");
    add(b, "keys and values", r->kv_cache, "cached while generating");
    b->frames = c->frames;
    b->grad_buffers = c->grad_buffers;
    b->kept = c->kept;
    b->residual_in_ram = c->residual_in_ram;
    b->record_buffers = c->record_buffers;
    b->arenas = r->arenas;
}

/* Rounded up, so that what a sentence names would do: 412M. In whole MiB, or KiB below one. */
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
    char                      has[32], needs[32], part[32], hint[128] = "";

    for (size_t i = 0; i < b->n_items; i++)
        most = b->items[i].bytes > most->bytes ? &b->items[i] : most;
    size_text(has, sizeof has, b->limit);
    if (r->host_mem && r->host_mem < 1024) // as 400 for 400M
        snprintf(has, sizeof has, "%" PRIu64 " bytes", b->limit);
    if (b->limit >= MIB) // what is there is rounded down
        snprintf(has, sizeof has, "%" PRIu64 "M", b->limit / MIB);
    size_text(needs, sizeof needs, b->total);
    size_text(part, sizeof part, most->bytes);
    if (r->training && r->keep == 1 && b->kept * r->kept_per_layer > 0)
        snprintf(hint, sizeof hint, "; --activations recompute needs less");
    else if (r->in_memory)
        snprintf(hint, sizeof hint, "; --mode su+o needs less");
    if (r->host_mem)
        return err_misuse(err, "--host-mem %s is too small: "
                          "this run needs at least %s, of which %s take %s%s",
                          has, needs, most->name, part, hint);
    return err_misuse(err, "this machine has %s of memory to spare: "
                      "this run needs at least %s, of which %s take %s%s",
                      has, needs, most->name, part, hint);
}

int budget_plan(struct budget *out, const struct budget_request *r, struct err *err)
{
    struct choice c = choose_minimum(r);
    uint64_t      minimum = fixed_bytes(r) + choice_bytes(r, &c);
    uint64_t      available = r->host_mem ? 0 : budget_available();

    memset(out, 0, sizeof *out);
    out->limit = r->host_mem ? r->host_mem : available > r->arenas ? available - r->arenas : 0;
    if (minimum <= out->limit)
        choose_rest(r, &c, out->limit - minimum);
    fill_items(out, r, &c);
    return minimum <= out->limit ? 0 : refuse(out, r, err);
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
