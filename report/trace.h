/* trace.h: the spans of some steps on one clock, private to report/: trace_spans.c reads them
 * from run.db, trace.c writes them as Chrome's trace events (the document "Trace Event Format"),
 * which chrome://tracing and Perfetto open.
 *
 * Times are whole microseconds from the first span on. A finer time would be a decimal fraction,
 * which readers round each in their own way: slices that touch would overlap. */
#pragma once

#include "data/base/json.h"
#include "data/db/runlog.h"

struct trace_span {
    uint64_t step; // from 0
    char     phase[24];
    int      block, device; // device -1: the host
    uint64_t start, end;    // microseconds; end >= start
    uint64_t until;         // the end in nanoseconds of the same time
    uint64_t bytes, busy;   // busy: microseconds of it; SIZE_MAX: run.db does not say
    int      pid, tid;      // the track that trace.c put it on
};

struct trace {
    struct trace_span *span; // by start, and of those that start together the longest first
    size_t             spans;
    // rows by step: what a phase moved over a link in one direction; how a step ended
    json_t            *traffic, *steps;
    int                on_host; // the host updates and commits itself (mode mem)
};

/* Read the steps that `which` names ("A-B" or "A", from 1; NULL: the last ones), as far as run.db
 * has their spans whole. Freed by trace_release, also after an error. */
int  trace_read(struct trace *t, struct runlog *log, const char *which, struct err *err);
void trace_release(struct trace *t);

/* A bounded whole number of a row: a device, a block. -1 is none. */
int trace_place(double v);

enum { TRACE_HOST_PID = 1, TRACE_DEVICE_PID = 2 }; // of device 0

/* An event, as json_pack takes it, into a file. */
struct trace_out { FILE *file; int begun; };
void trace_event(struct trace_out *o, const char *fmt, ...);
/* Counters: bandwidth by link and direction, loss, tokens a second and memory. */
int  trace_counters(struct trace_out *o, const struct trace *t, struct err *err);
