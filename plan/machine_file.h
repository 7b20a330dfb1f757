/* machine_file.h: a machine in a file, for `siTrain plan --machine`: how fast it computes, and
 * how fast its drives are. `siTrain bench --save` writes measured figures; a person may write
 * figures from a data sheet. The lines are those of a file of options (opt_file.h), in any
 * order. The table in machine_file.c says what the numbers of each line are, and `bench --save`
 * writes this into the file. A layer or attention without a kind is of gpt2. Without the line
 * updates-beside, updates take time from computing by their share of the cores.
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
enum machine_kind machine_kind_named(const char *word); // MACHINE_KINDS: it is none

/* What a step does with a layer. AGAIN: computing again what backward needs. */
enum machine_pass { MACHINE_FORWARD, MACHINE_BACKWARD, MACHINE_AGAIN };
enum { MACHINE_PASSES = MACHINE_AGAIN + 1 };

struct machine_layer {
    enum dtype        dt;
    enum machine_kind kind;
    double            width, tokens, rate[MACHINE_PASSES];
};
struct machine_attention {
    enum dtype        dt;
    enum machine_kind kind;
    double            head, seq, rate[MACHINE_BACKWARD + 1];
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

/* Refuses a machine without the figures that a prediction needs. `what` begins the sentence. */
int machine_file_check(const struct machine_file *m, const char *what, struct err *err);

/* Calls `each` for all lines of *m. comment: what the line says, or NULL after a name's first. */
typedef int machine_file_line(void *ctx, const char *name, const char *value, const char *comment);
int machine_file_each(const struct machine_file *m, machine_file_line *each, void *ctx);

/* A file of these lines, with their comments, malloced; NULL and a sentence: no memory. */
char *machine_file_text(const struct machine_file *m, struct err *err);
