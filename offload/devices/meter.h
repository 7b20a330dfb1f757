/* meter.h: what a step did and when, collected in bounded memory until the step's last commit
 * writes it to run.db. Two steps are open at once at most (updates of step t run beside the forward
 * of t + 1). Thread-safe; recording never fails and never allocates: spans beyond the bound are
 * folded into a total per phase. */
#pragma once

#include "csd/link.h"
#include "data/db/runlog.h"

struct meter;

struct meter *meter_new(size_t max_spans, size_t n_devices); // NULL: out of memory
void meter_free(struct meter *m);

/* One thing that took time. device -1: the host. bytes 0 where nothing was moved. meter_span: one
 * that was under way all the time. */
void meter_add(struct meter *m, const struct runlog_span *span);
void meter_span(struct meter *m, uint64_t step, enum runlog_phase phase, int block, int device,
                uint64_t start_ns, uint64_t end_ns, uint64_t bytes);
/* One thing that crossed links. */
void meter_traffic(struct meter *m, uint64_t step, enum runlog_phase phase, int device,
                   const struct link_meter *moved);

/* Total nanoseconds of a phase in step, so far. */
uint64_t meter_total(struct meter *m, uint64_t step, enum runlog_phase phase);

/* Since the meter was made, over time: how long at least one device was busy with what a training
 * asks of it; how much of that the training thread stood waiting, for whatever it was: the rest was
 * hidden (view overlap of run.db says the same of the steps kept whole); and how many bytes of all
 * that crossed a link, padding too. */
struct meter_io { uint64_t busy_ns, waited_ns, bytes; };
struct meter_io meter_io(struct meter *m);

/* Write a step's rows (inside the caller's transaction) and forget them. */
int meter_flush(struct meter *m, uint64_t step, struct runlog *log, struct err *err);
