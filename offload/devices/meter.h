/* meter.h: what a step did and when, collected in bounded memory until the step's last commit
 * writes it to run.db. At most two steps are open at once: updates of step t run during the forward
 * of t + 1. Any thread may call. Recording never fails and never allocates; spans beyond the bound
 * are added to a total for each phase. */
#pragma once

#include "csd/link.h"
#include "data/db/runlog.h"

struct meter;

struct meter *meter_new(size_t max_spans, size_t n_devices); // NULL: out of memory
void meter_free(struct meter *m);

/* Record one span of time. device -1: the host. bytes: moved in it, or 0. meter_span records a span
 * that was busy all the time. */
void meter_add(struct meter *m, const struct runlog_span *span);
void meter_span(struct meter *m, uint64_t step, enum runlog_phase phase, int block, int device,
                uint64_t start_ns, uint64_t end_ns, uint64_t bytes);

/* The training thread's present work, since start_ns. */
struct open_span {
    uint64_t          step, start_ns;
    enum runlog_phase phase;
    int               block;
};

/* The thread waited for a device from since_ns until now. The span is recorded up to since_ns, and
 * a new one of the same work begins now. After a short wait, the span stays open. */
void open_span_waited(struct open_span *span, struct meter *m, uint64_t since_ns);
/* Record bytes that crossed links. */
void meter_traffic(struct meter *m, uint64_t step, enum runlog_phase phase, int device,
                   const struct link_meter *moved);

/* Nanoseconds of a phase in a step so far, all spans added. */
uint64_t meter_total(struct meter *m, uint64_t step, enum runlog_phase phase);

/* Since the meter was made: how long at least one device was busy for training; how long of that
 * the training thread waited, for anything (the rest was hidden; the view overlap of run.db says it
 * for the recorded steps); how many bytes crossed links, padding included. */
struct meter_io { uint64_t busy_ns, waited_ns, bytes; };
struct meter_io meter_io(struct meter *m);

/* What else is to be recorded with a step's rows: meter_flush calls write(ctx, log) inside its
 * transaction, in the thread that commits. NULL: nothing any more. */
struct meter_also { int (*write)(void *ctx, struct runlog *log, struct err *err); void *ctx; };
void meter_also(struct meter *m, const struct meter_also *also); // copied

/* Inside the caller's transaction: write a step's rows, and forget them. 0 or -errno. */
int meter_flush(struct meter *m, uint64_t step, struct runlog *log, struct err *err);
