/* trace.h: the spans of some steps as one timeline, private to report/: trace_spans.c reads them
 * from run.db, trace.c and trace_counters.c write them as Chrome's trace events (the document
 * "Trace Event Format"), which chrome://tracing and Perfetto open.
 *
 * Times are whole microseconds from the first span on. A finer time would be a decimal fraction,
 * which readers round each in their own way: slices that touch would overlap. */
#pragma once

#include "data/db/runlog.h"

enum { TRACE_PHASE = 24, TRACE_TEXT = 4096 };

struct trace_span {
    uint64_t step; // from 0
    char     phase[TRACE_PHASE];
    int      block, device; // device -1: the host
    uint64_t start, end;    // microseconds; end >= start
    uint64_t until;         // the end in nanoseconds of the same time
    uint64_t bytes, busy;   // busy: microseconds of it; SIZE_MAX: run.db does not say
    int      pid, tid;      // the track that trace.c put it on
};

/* What a phase of a step moved over a link in one direction. */
struct trace_traffic {
    uint64_t step;
    char     phase[TRACE_PHASE], link[TRACE_PHASE], direction[TRACE_PHASE];
    int      device;
    uint64_t bytes;
};

struct trace_step { uint64_t step, end; double loss, rate, rss; }; // end: when it was over

struct trace {
    struct trace_span    *span; // by start, and of those that start together the longest first
    size_t                spans;
    struct trace_traffic *traffic;
    size_t                rows;
    struct trace_step    *step; // in their order
    size_t                steps;
    int                   on_host; // the host updates and commits itself (mode mem)
};

/* Read the steps that `which` names ("A-B" or "A", from 1; NULL: the last ones), as far as run.db
 * has their spans whole. Freed by trace_release, also after an error. */
int  trace_read(struct trace *t, struct runlog *log, const char *which, struct err *err);
void trace_release(struct trace *t);

/* An event begins: a comma and a line feed where it is not the first. */
struct trace_out { FILE *file; int begun; };
void trace_event(struct trace_out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A text in quotes as JSON has it, in `quoted`; what is no text, or has no room, is "?". */
const char *trace_quoted(char quoted[TRACE_TEXT], const char *text);

/* Counters: bandwidth by link and direction, loss, tokens a second and memory. */
enum { TRACE_HOST_PID = 1, TRACE_DEVICE_PID = 2 }; // of device 0
int  trace_counters(struct trace_out *o, const struct trace *t, struct err *err);
