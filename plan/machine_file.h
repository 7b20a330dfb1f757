/* machine_file.h: a machine in a file, for `siTrain plan --machine`: how fast it computes, and
 * how fast its drives are. `siTrain bench --save` writes measured figures; a person may write
 * figures from a data sheet. The lines are those of a file of options (opt_file.h), in any
 * order:
 *
 *     name = "..."           a name for people
 *     flops = X              FLOP/s of forward and backward at any size; or, size by size, these:
 *     layer = DT K C N F B R a layer without attention: dtype, kind, width, tokens of a chunk,
 *                            FLOP/s of forward, of backward, and of recomputation
 *     attention = DT K H T F B  attention: dtype, kind of the layer (gpt2 if left out), width of a
 *                            head, tokens of a row, FLOP/s of forward and of backward
 *     head = DT C X          the tied head with its loss: dtype, width, FLOP/s of its 3 products
 *     threads = X            number of threads of these measurements
 *     serial = X             the part of the time, 0 to 1, that more threads do not shorten
 *     memory = X             bytes/s of passes that read and write memory
 *     norm = X, top-k = X    parameters/s of the pass over gradients, and of Top-K in addition
 *     unpack-int8 = X, unpack-nf4 = X  parameters/s of unpacking a frozen base (--base-dtype)
 *     host-update = X        parameters/s that the host's processor updates (base, mem)
 *     device-update = X      parameters/s that one device's engine updates (base, su, su+o)
 *     updates-beside = X     parameters that devices update per second of computing time that they
 *                            take away; without this line: by their share of the cores
 *     emulated = 1           devices compute on the host's processor: device-update is one core's
 *     drive = R W M          bytes/s of a drive: read, written, and moved by an update (16 bytes
 *                            read for 14 written); one line for all drives, or one per device
 *
 * A figure that is missing counts as no time. A bandwidth of a topology (csd/topology.h)
 * replaces a higher one of this file. Numbers are written as in C (55e12), from 1 to 1e30; parts
 * from 0 to 1. */
#pragma once

#include "data/base/dtype.h"
#include "offload/estimate/step_work.h"

enum { MACHINE_POINTS = 128, MACHINE_DRIVES = 64 };

/* Layers of one kind are made of the same passes, whatever the family (struct arch's `passes`). A
 * file that was written before there were kinds is of kind gpt2. */
enum machine_kind { MACHINE_GPT2, MACHINE_LLAMA, MACHINE_BERT, MACHINE_GEMMA, MACHINE_KINDS };
extern const char *const machine_kinds[MACHINE_KINDS];

struct machine_layer {
    enum dtype        dt;
    enum machine_kind kind;
    double            width, tokens, forward, backward, again;
};
struct machine_attention {
    enum dtype        dt;
    enum machine_kind kind;
    double            head, seq, forward, backward;
};
struct machine_head { enum dtype dt; double width, rate; };

struct machine_file {
    char   name[128];
    double flops;
    size_t n_layers, n_attentions, n_heads, n_drives;
    struct machine_layer     layer[MACHINE_POINTS];
    struct machine_attention attention[MACHINE_POINTS];
    struct machine_head      head[MACHINE_POINTS];
    struct step_drive        drive[MACHINE_DRIVES];
    struct step_rates        update;
    double threads, serial, memory, norm, topk, unpack_int8, unpack_nf4, emulated;
    int    adapted; // no line: a probe measured the layers with the model's adapters
};

/* Misuse (-EINVAL): the file cannot be read, or has an unknown line, a number out of bounds, or a
 * name that is not text; or it has neither `flops` nor a layer, an attention and a head. */
int machine_file_read(struct machine_file *out, const char *path, struct err *err);

/* Refuses a machine without the figures that a prediction needs; its sentence begins with
 * `what`. */
int machine_file_check(const struct machine_file *m, const char *what, struct err *err);

/* Calls `each` for all lines of *m in order. comment: what the line says, at the first line of a
 * name; else NULL. */
typedef int machine_file_line(void *ctx, const char *name, const char *value, const char *comment);
int machine_file_each(const struct machine_file *m, machine_file_line *each, void *ctx);

/* A file of these lines, with their comments, malloced; NULL and a sentence: no memory. */
char *machine_file_text(const struct machine_file *m, struct err *err);
