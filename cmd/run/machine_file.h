/* machine_file.h: a machine in a file, for `siTrain plan --machine`: how fast it computes, and how
 * fast what moves does. `siTrain bench --save` writes what it measured; a person may write what
 * hardware is said to do. Lines as in a file of options (opt_file.h), in any order:
 *
 *     name = "..."           for people
 *     flops = X              FLOP/s that forward and backward reach at any size, or sizes one by
 * one:
 *     layer = DT K C N F B R a layer without its attention: dtype, kind, width, tokens of a chunk,
 *                            and the FLOP/s of forward, of backward, and of what is computed again
 *     attention = DT K H T F B  attention: dtype, kind, width of a head, tokens of a row, FLOP/s
 *                            both ways. K: whose layers it is of, gpt2 where it is left out
 *     head = DT C X          the tied head with its loss: dtype, width, FLOP/s of its three
 * products
 *     threads = X            with which that was measured
 *     serial = X             the part of its time, from 0 to 1, that more threads do not shorten
 *     memory = X             bytes/s of passes that read and write
 *     norm = X, top-k = X    parameters/s of the pass over gradients, and of Top-K beside it
 *     host-update = X        parameters/s that the host's processor updates (base, mem)
 *     device-update = X      parameters/s that one device's engine updates (base, su, su+o)
 *     updates-beside = X     parameters that devices update in a second that they take from
 *                            computing; where it is missing, their part of the cores
 *     emulated = 1           devices compute on the host's processor: device-update is a core's
 *     drive = R W M          bytes/s of a drive that reads, writes, or updates (16 bytes read for
 * 14
 *                            written); one line for all drives, or one for each device
 *
 * What is not there takes no time; bandwidths that a topology gives (csd/topology.h) hold where
 * they are lower. Numbers as C has them, 55e12, from 1 to 1e30; parts from 0 to 1. */
#pragma once

#include "data/base/dtype.h"
#include "offload/step_work.h"

enum { MACHINE_POINTS = 128, MACHINE_DRIVES = 64 };

/* Layers of one kind are made of the same passes, whatever the family (arch.h). A file that was
 * written before there were kinds is of gpt2. */
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
    double threads, serial, memory, norm, topk, emulated;
};

/* -EINVAL, misuse: the file cannot be read, has another line, a number that is none or out of its
 * bounds, a name that is no text, neither flops nor a layer, attention and head. */
int machine_file_read(struct machine_file *out, const char *path, struct err *err);

/* One line into *m, which begins as { 0 }; and whether all are there that a prediction needs:
 * `what` they are of is named. */
int machine_file_take(struct machine_file *m, const char *name, const char *value, struct err *err);
int machine_file_check(const struct machine_file *m, const char *what, struct err *err);

/* All lines of *m in their order, each with what it is; `comment` where a name comes first. */
typedef int machine_file_line(void *ctx, const char *name, const char *value, const char *comment);
int machine_file_each(const struct machine_file *m, machine_file_line *each, void *ctx);

/* A new file of them, with the comments. */
int machine_file_write(const struct machine_file *m, const char *path, struct err *err);
